//! The command line of `worker`.

use std::ffi::OsString;

use clap::{Parser, Subcommand};
use fedreg_common::exit::Exit;
use fedreg_proto::telemetry::{self, LogFormat};

use crate::{estimate, service};

/// Robust regression over many sites: one site's part.
#[derive(Debug, Parser)]
#[command(name = "worker", version, propagate_version = true)]
struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Fit batches of rows from standard input, and write one estimate a line
    ///
    /// A filter for engines that move the data themselves; `coordinator consolidate` reads its lines.
    Estimate(estimate::Arguments),
}

/// Runs a worker's command line, the program's name first; ends with the exit code for the shell.
pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    let program = match Program::try_parse_from(arguments) {
        Ok(program) => program,
        Err(error) => {
            // Help goes to standard output and is no failure. If neither can be printed, the code still tells.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage } else { Exit::Done };
        }
    };
    telemetry::init(LogFormat::Auto);
    let Command::Estimate(arguments) = program.command;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    estimate::run(&arguments, std::io::stdin(), &mut out).unwrap_or_else(|failure| {
        eprintln!("worker: {}", service::chain(&failure));
        failure.exit()
    })
}
