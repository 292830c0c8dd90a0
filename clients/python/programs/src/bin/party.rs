//! A party of a study by the name on the command line.

fn main() -> std::process::ExitCode {
    fedreg_party::cli::main_named()
}
