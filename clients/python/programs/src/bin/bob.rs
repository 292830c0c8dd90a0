//! Bob: the party that holds the second block of columns.

fn main() -> std::process::ExitCode {
    fedreg_party::cli::main(fedreg_common::id::Role::Bob)
}
