//! A worker: one of many sites that hold the same columns about different people.

fn main() -> std::process::ExitCode {
    fedreg_party::cli::main(fedreg_common::id::Role::Worker)
}
