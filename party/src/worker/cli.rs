//! The command line of `worker`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use fedreg_common::exit::Exit;
use fedreg_common::id::Role;
use fedreg_proto::certs_cli::{self, CertsCommand};
use fedreg_proto::shell;
use fedreg_proto::wizard::{self, StudyCommand};

use super::batches::Arrival;
use super::config::{Config, Overrides};
use super::privacy::WORKER;
use super::{check, estimate, join, predict};
use crate::check::CheckArguments;
use crate::config::TableAtHand;
use crate::drive::Patience;
use crate::failure::Failure;
use crate::interrupts::with_interrupts;
use crate::output::{self, Format};
use crate::privacy::{self, PrivacyCommand};
use crate::show::show;

#[derive(Debug, Subcommand)]
enum Command {
    /// Take part in a study's run
    ///
    /// Ctrl-C and SIGTERM end it in good order: the coordinator is told, no longer waits for it, and the exit code is 130.
    /// Started again while the run waits for others, the worker goes on where it was; once nobody else is awaited, the run ends without what was missing.
    /// A worker that was killed (SIGKILL) is waited for as after a lost line.
    Join(JoinArguments),
    /// Fit batches of rows from standard input, and write one estimate a line
    ///
    /// A filter for engines that move the data themselves; `coordinator consolidate` reads its lines.
    Estimate(estimate::Arguments),
    /// Check files, data and certificates, and show what would leave; opens no connection
    Check(CheckArguments<Overrides>),
    /// Predict with the report of a run that found a function; needs no certificate
    Predict(predict::Arguments),
    /// Register data sets and look at their privacy budget
    #[command(subcommand)]
    Privacy(PrivacyCommand<Overrides>),
    /// Make, sign and show certificates
    Certs(CertsCommand),
    /// Begin a study with a folder for everybody, or say what a study lets leave whom
    Study(StudyCommand<TableAtHand>),
}

#[derive(Debug, Args)]
struct JoinArguments {
    #[command(flatten)]
    overrides: Overrides,
    /// Follow a table that grows: every batch is sent as soon as its last row is there
    #[arg(long)]
    follow: bool,
    /// With --follow, end when the table has not grown for this long
    #[arg(long, value_name = "SECONDS", requires = "follow")]
    idle: Option<f64>,
    /// Batches fitted at the same time; by default as many as there are processors
    #[arg(long, value_name = "NUMBER")]
    threads: Option<usize>,
    /// Folder for report.json, .txt, .html and .csv
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// What is printed on standard output
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// End as by an interrupt when standard input ends
    #[arg(long, hide = true)]
    leash: bool,
}

/// The command line.
pub(crate) fn command() -> clap::Command {
    shell::command::<Command>("worker", "Federated regression: one of many sites that hold the same columns")
}

/// Runs a command line, the program's name first; ends with the exit code for the shell.
pub fn run(arguments: &[OsString]) -> Exit {
    shell::run(command(), arguments, Failure::exit, |command, call| match command {
        Command::Join(flags) => take_part(flags, call),
        Command::Estimate(flags) => {
            let mut out = std::io::BufWriter::new(std::io::stdout().lock());
            estimate::run(&flags, std::io::stdin(), &mut out)
        }
        Command::Check(flags) => look(&flags),
        Command::Predict(arguments) => predict::run(&arguments).map(|()| Exit::Done),
        Command::Privacy(command) => privacy::run(&WORKER, Role::Worker, &command).map(|()| Exit::Done),
        Command::Certs(command) => Ok(certs_cli::run(&command, &mut std::io::stdout()).map(|()| Exit::Done)?),
        Command::Study(command) => Ok(wizard::run(Some(Role::Worker), &command).map(|()| Exit::Done)?),
    })
}

fn configured(overrides: &Overrides) -> Result<Option<Config>, Failure> {
    Ok(shell::configured(Config::load(overrides)?, overrides.print_config)?)
}

fn take_part(flags: JoinArguments, call: String) -> Result<Exit, Failure> {
    let Some(config) = configured(&flags.overrides)? else { return Ok(Exit::Done) };
    let idle = match flags.idle.map(Duration::try_from_secs_f64) {
        None => None,
        Some(Ok(idle)) => Some(idle),
        Some(Err(_)) => return Err(Failure::Usage("--idle takes a number of seconds, zero or above".to_string())),
    };
    let study = Arc::new(join::study(&config)?);
    let threads = flags.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let job = join::Job {
        patience: Patience { wait: config.patience(), ..Patience::default() },
        config,
        study,
        out: flags.out,
        call,
        arrival: Arrival { follow: flags.follow, idle, ..Arrival::default() },
        threads: threads.clamp(1, 1024),
    };
    let (report, exit) =
        with_interrupts(Role::Worker, flags.leash, |_stop, stopped| async move { join::join(&job, stopped).await })?;
    output::print(&flags.format.render(&report))?;
    Ok(exit)
}

fn look(flags: &CheckArguments<Overrides>) -> Result<Exit, Failure> {
    let Some(config) = configured(&flags.overrides)? else { return Ok(Exit::Done) };
    let checked = check::check(&config, flags.out.as_deref())?;
    output::print(&show(flags.format, &checked, check::Checked::text))?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn usage_errors_have_code_2_and_help_has_code_0() {
        let exit = |line: &str| {
            let arguments: Vec<OsString> =
                std::iter::once("worker").chain(line.split(' ')).map(OsString::from).collect();
            run(&arguments)
        };
        assert_eq!(exit("join --folow"), Exit::Usage);
        assert_eq!(exit("join --idle 3"), Exit::Usage);
        assert_eq!(exit("join --config /nowhere/worker.toml"), Exit::Usage);
        assert_eq!(exit("check --help"), Exit::Done);
    }
}
