//! The coordinator: brings the parties of a study together and holds no data.

fn main() -> std::process::ExitCode {
    fedreg_coordinator::cli::main()
}
