//! The demo: a rehearsal of a whole study on one machine.

fn main() -> std::process::ExitCode {
    fedreg_demo::main()
}
