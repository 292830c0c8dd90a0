//! Alice: the party that holds the first block of columns, and the intercept.

fn main() -> std::process::ExitCode {
    fedreg_party::cli::main(fedreg_common::id::Role::Alice)
}
