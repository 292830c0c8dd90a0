//! A rehearsal of a whole study on one machine, on one's own file: every role is a process of its own, over loopback,
//! with fresh certificates.
//!
//! The roles are this program again, with a hidden first argument, running the same library function as that role's own
//! binary.

#[path = "demo/arguments.rs"]
mod arguments;
#[path = "demo/bounds.rs"]
mod bounds;
#[path = "demo/columns.rs"]
mod columns;
#[path = "demo/em.rs"]
mod em;
#[path = "demo/features.rs"]
mod features;
#[path = "demo/head.rs"]
mod head;
#[path = "demo/matching.rs"]
mod matching;
#[path = "demo/modes.rs"]
mod modes;
#[path = "demo/people.rs"]
mod people;
#[path = "demo/processes.rs"]
mod processes;
#[path = "demo/robust.rs"]
mod robust;
#[path = "demo/several.rs"]
mod several;
#[path = "demo/sites.rs"]
mod sites;
#[path = "demo/stage.rs"]
mod stage;
#[path = "demo/stream.rs"]
mod stream;
#[path = "demo/vertical.rs"]
mod vertical;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use fedreg_common::exit::Exit;
use fedreg_common::id::Role;

use arguments::{Command, Program};

/// All that the program does; a library, so that packages in other forms hold the same program.
pub fn main() -> ExitCode {
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    if let Some(exit) = by_another_name(&arguments) {
        return exit.into();
    }
    if arguments.get(1).is_some_and(|first| first == processes::ROLE) && arguments.len() > 2 {
        let role = arguments.remove(2).to_string_lossy().parse();
        arguments.remove(1);
        return match role {
            Ok(Role::Coordinator) => fedreg_coordinator::cli::run(arguments),
            Ok(role) => fedreg_party::cli::run(role, arguments),
            Err(problem) => {
                fedreg_proto::telemetry::say(&format!("demo: {problem}"));
                Exit::Usage
            }
        }
        .into();
    }
    let program = match Program::try_parse_from(&arguments) {
        Ok(program) => program,
        Err(error) => {
            // Help goes to standard output and is no failure. If neither can be printed, the code still tells.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage } else { Exit::Done }.into();
        }
    };
    let result = match program.command {
        Command::Vertical(flags) => vertical::run(&flags, fedreg_party::output::call("demo", &arguments)),
        Command::Robust(flags) => robust::run(&flags, fedreg_party::output::call("demo", &arguments)),
        Command::Em(flags) => em::run(&flags, fedreg_party::output::call("demo", &arguments)),
        Command::Features(flags) => features::run(&flags, fedreg_party::output::call("demo", &arguments)),
        Command::Stream(flags) => stream::run(&flags, fedreg_party::output::call("demo", &arguments)),
    };
    match result {
        Ok(exit) => exit.into(),
        Err(failure) => {
            fedreg_proto::telemetry::say(&format!("demo: {:#}", failure.error));
            failure.exit.into()
        }
    }
}

/// What the program of another name does, where the demo is called by it: all of them are in the demo, and packages hold their common
/// code once, with links by the other names.
fn by_another_name(arguments: &[OsString]) -> Option<Exit> {
    let name = Path::new(arguments.first()?).file_stem()?.to_str()?;
    let arguments = arguments.iter().cloned();
    if name == fedreg_party::cli::command_of_named().get_name() {
        return Some(fedreg_party::cli::run_named(arguments));
    }
    match name.parse() {
        Ok(Role::Coordinator) => Some(fedreg_coordinator::cli::run(arguments)),
        Ok(role @ (Role::Alice | Role::Bob | Role::Worker)) => Some(fedreg_party::cli::run(role, arguments)),
        Ok(Role::Party(_)) | Err(_) => None,
    }
}

/// The command line, from which the book's chapter of its flags is made.
pub fn command() -> clap::Command {
    Program::command()
}

/// Why the demo ended, with the code for the shell.
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) error: anyhow::Error,
}

impl Failure {
    pub(crate) fn new(exit: Exit, error: impl Into<anyhow::Error>) -> Failure {
        Failure { exit, error: error.into() }
    }

    pub(crate) fn usage(sentence: impl std::fmt::Display) -> Failure {
        Failure { exit: Exit::Usage, error: anyhow::anyhow!("{sentence}") }
    }
}
