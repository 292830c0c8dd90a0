//! The demo: a rehearsal of a whole study on one machine.

#[cfg(test)]
#[path = "../book/mod.rs"]
mod book;
#[cfg(test)]
#[path = "../reproduce/arguments.rs"]
mod reproduce;

fn main() -> std::process::ExitCode {
    fedreg_demo::main()
}
