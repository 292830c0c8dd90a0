//! The command line of `coordinator`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use fedreg_common::exit::Exit;
use fedreg_common::id::Role;
use fedreg_common::study::{Study, StudyError};
use fedreg_proto::certs_cli::{self, CertsCommand};
use fedreg_proto::coordinator as edge;
use fedreg_proto::files::read_study;
use fedreg_proto::output::{self, CheckFormat, Format};
use fedreg_proto::register::{Quorum, StatusReply};
use fedreg_proto::shell;
use fedreg_proto::telemetry;
use fedreg_proto::tls::Identity;
use fedreg_proto::wizard::{self, NoTable, StudyCommand};

use crate::config::{Config, Overrides};
use crate::consolidate;
use crate::deal;
use crate::service::{self, Failure, Job};
use crate::star;

#[derive(Debug, Subcommand)]
enum Command {
    /// Bring the parties of a study together, and watch over their run
    ///
    /// Ctrl-C and SIGTERM end it in good order: everybody is told, and the exit code is 130. A run between workers goes on where it was when it
    /// is started again.
    Serve(ServeArguments),
    /// Deal the masks of a sealed study that names a dealer apart from the coordinator
    ///
    /// The file is that of a coordinator, with the dealer's own certificate; `dealer.toml` in this folder without --config. The dealer
    /// receives the numbers of rows and columns, who is ready, phases and byte counts, and no value. Ctrl-C and SIGTERM end it in good order.
    Deal(DealArguments),
    /// Ask a running coordinator how far the run is
    ///
    /// Exit code 0 when the run is under way or over, 75 while a party is awaited.
    Status(StatusArguments),
    /// Close a run between workers with the quorum that came
    ///
    /// Asks the coordinator that serves the study to wait for nobody else: a run that is held for the others opens with those who are
    /// ready, one that is open ends with what has come. It takes the coordinator's own certificate. Exit code 75, and the run goes on,
    /// while there is no quorum.
    Finish(FinishArguments),
    /// One set of coefficients from estimates that other engines carried
    ///
    /// Exit code 3 where the result lies outside the method's guarantee.
    Consolidate(consolidate::Arguments),
    /// Make, sign and show certificates
    Certs(CertsCommand),
    /// Begin a study with a folder for everybody, or say what a study lets leave whom
    Study(StudyCommand<NoTable>),
}

#[derive(Debug, Args)]
struct ServeArguments {
    #[command(flatten)]
    overrides: Overrides,
    /// Serve the next run after one has ended
    #[arg(long)]
    keep: bool,
    /// Folder for report.json, .txt, .html and .csv of a study with workers
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// What is printed on standard output at the end of a run with workers
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// File that gets the address listened at, once listening: for scripts, with port 0
    #[arg(long, value_name = "FILE")]
    announce: Option<PathBuf>,
    /// End as by an interrupt when standard input ends
    #[arg(long, hide = true)]
    leash: bool,
}

#[derive(Debug, Args)]
struct DealArguments {
    #[command(flatten)]
    overrides: Overrides,
    /// Deal for the next run after one has ended
    #[arg(long)]
    keep: bool,
    /// File that gets the address listened at, once listening: for scripts, with port 0
    #[arg(long, value_name = "FILE")]
    announce: Option<PathBuf>,
    /// End as by an interrupt when standard input ends
    #[arg(long, hide = true)]
    leash: bool,
}

#[derive(Debug, Args)]
struct FinishArguments {
    /// Shared study file, as --study
    #[arg(value_name = "STUDY", conflicts_with = "study")]
    of: Option<PathBuf>,
    #[command(flatten)]
    overrides: Overrides,
    /// Address of the coordinator, when it is not the one it listens at
    #[arg(long, value_name = "HOST:PORT")]
    address: Option<String>,
}

#[derive(Debug, Args)]
struct StatusArguments {
    #[command(flatten)]
    overrides: Overrides,
    /// Address of the coordinator, when it is not the one it listens at
    #[arg(long, value_name = "HOST:PORT")]
    address: Option<String>,
    /// What is printed on standard output
    #[arg(long, value_enum, default_value_t)]
    format: CheckFormat,
}

/// All that the binary does.
pub fn main() -> ExitCode {
    run(std::env::args_os()).into()
}

/// The command line.
pub fn command() -> clap::Command {
    shell::command::<Command>("coordinator", "Federated regression: the coordinator, which holds no data")
}

/// Runs a command line, the program's name first; ends with the exit code for the shell.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    shell::run(command(), &arguments, Failure::exit, |command, call| match command {
        Command::Serve(flags) => serve(flags, call),
        Command::Deal(flags) => deal_masks(flags, call),
        Command::Status(arguments) => status(&arguments),
        Command::Finish(arguments) => finish(arguments),
        Command::Consolidate(flags) => {
            let (text, exit) = consolidate::run(&flags, call, std::io::stdin())?;
            output::print(&text)?;
            Ok(exit)
        }
        Command::Certs(command) => Ok(certs_cli::run(&command, &mut std::io::stdout()).map(|()| Exit::Done)?),
        Command::Study(command) => Ok(wizard::run(Some(Role::Coordinator), &command).map(|()| Exit::Done)?),
    })
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    shell::runtime(1).map_err(|error| Failure::Bug(format!("no runtime: {error}")))
}

fn configured(overrides: &Overrides) -> Result<Option<Config>, Failure> {
    Ok(shell::configured(Config::load(overrides)?, overrides.print_config)?)
}

fn serve(arguments: ServeArguments, call: String) -> Result<Exit, Failure> {
    let Some(config) = configured(&arguments.overrides)? else { return Ok(Exit::Done) };
    let study = read_study(&config.study)?;
    let ServeArguments { keep, announce, out, format, .. } = arguments;
    let runtime = runtime()?;
    let shutdown = async {
        tokio::select! {
            _ = shell::interrupted() => {}
            () = shell::leashed(arguments.leash) => {}
        }
    };
    let exit = match study.split() {
        Ok(study) => {
            let job = Job { config, study: Arc::new(study), keep, out, call, announce };
            runtime.block_on(service::serve(&job, shutdown))
        }
        Err(study) => {
            let job = Job { config, study: Arc::new(study), keep, out, call, announce };
            runtime.block_on(star::serve(&job, shutdown)).and_then(|ended| conclude(&ended, format))
        }
    };
    runtime.shutdown_timeout(Duration::from_millis(100));
    exit
}

fn deal_masks(arguments: DealArguments, call: String) -> Result<Exit, Failure> {
    let DealArguments { overrides, keep, announce, leash } = arguments;
    let config = Config::load_named(&overrides, "dealer.toml")?;
    let Some(config) = shell::configured(config, overrides.print_config)? else { return Ok(Exit::Done) };
    let Ok(study) = read_study(&config.study)?.split() else {
        let problem = "has no place in a study between sites: nothing is dealt in it".to_string();
        return Err(Failure::Study(StudyError::Value { key: "dealer".to_string(), problem }));
    };
    let runtime = runtime()?;
    let shutdown = async {
        tokio::select! {
            _ = shell::interrupted() => {}
            () = shell::leashed(leash) => {}
        }
    };
    let job = Job { config, study: Arc::new(study), keep, out: None, call, announce };
    let exit = runtime.block_on(deal::serve(&job, shutdown));
    runtime.shutdown_timeout(Duration::from_millis(100));
    exit
}

fn conclude(ended: &star::Ended, format: Format) -> Result<Exit, Failure> {
    match (&ended.report, &ended.reason) {
        (Some(report), _) => output::print(&format.render(report))?,
        (None, Some(reason)) => telemetry::last_words("coordinator", reason),
        (None, None) => {}
    }
    Ok(ended.exit)
}

fn status(arguments: &StatusArguments) -> Result<Exit, Failure> {
    let Some(config) = configured(&arguments.overrides)? else { return Ok(Exit::Done) };
    let (study, identity, address) = serving(&config, arguments.address.as_deref())?;
    let reply = runtime()?.block_on(edge::status(&address, &identity, &study.head.coordinator.certificate))?;
    output::print(&output::show(arguments.format, &json(&reply), |_| text(&reply)))?;
    Ok(match (reply.run, reply.exit) {
        (None, None) => Exit::NotReady,
        _ => Exit::Done,
    })
}

/// The study, the certificate that asks about it, and the address of the coordinator that serves it.
fn serving(config: &Config, address: Option<&str>) -> Result<(Study, Identity, String), Failure> {
    let study = read_study(&config.study)?;
    let address = address.map_or_else(|| dialled(&config.listen), str::to_string);
    Ok((study, Identity::load(&config.tls)?, address))
}

fn finish(arguments: FinishArguments) -> Result<Exit, Failure> {
    let FinishArguments { of, mut overrides, address } = arguments;
    overrides.study = of.or(overrides.study);
    let Some(config) = configured(&overrides)? else { return Ok(Exit::Done) };
    let (study, identity, address) = serving(&config, address.as_deref())?;
    // Only the coordinator's own certificate may close a run.
    identity.check_own_name(&study.head.coordinator.certificate)?;
    let asked = edge::finish(&address, &identity, &study.head.coordinator.certificate, study.digest());
    let (closed, sentence) = runtime()?.block_on(asked)?;
    output::print(&format!("{sentence}\n"))?;
    Ok(if closed { Exit::Done } else { Exit::NotReady })
}

/// The address to dial for one that is listened at: every interface is reached through the own machine.
fn dialled(listen: &str) -> String {
    match listen.rsplit_once(':') {
        Some(("0.0.0.0", port)) => format!("127.0.0.1:{port}"),
        Some(("[::]", port)) => format!("[::1]:{port}"),
        _ => listen.to_string(),
    }
}

fn text(reply: &StatusReply) -> String {
    let state = match (reply.run, reply.exit) {
        (None, None) => "waiting for the parties".to_string(),
        (Some(run), None) => format!("run {run} is under way"),
        (_, Some(Exit::Done)) => "the run is done".to_string(),
        (_, Some(exit)) => format!("the run was ended: {}", exit.advice()),
    };
    let mut text = format!("{} (study {})\n{state}\n", reply.study, reply.digest.short());
    let left = seconds_left(reply).map(|seconds| format!("{seconds} s left"));
    let quorum = reply.quorum.map(|Quorum { needed, came }| {
        let what = if reply.run.is_none() { "ready" } else { "have contributed" };
        format!("quorum {needed} of {}: {came} {what}", reply.parties.len())
    });
    let facts: Vec<String> = quorum.into_iter().chain(left).collect();
    if !facts.is_empty() {
        text.push_str(&format!("{}\n", facts.join("; ")));
    }
    for (name, state, progress) in &reply.parties {
        text.push_str(&format!("  {name:6} {:8}", state.name()));
        match progress.phase.as_str() {
            "" => {}
            "contributions" => text.push_str(&format!(" {} contributions", progress.round)),
            phase => text.push_str(&format!(" {phase}, round {}", progress.round)),
        }
        if let Some(certificate) = progress.certificate {
            text.push_str(&format!(", gradient {certificate:.1e}"));
        }
        if progress.bytes_sent > 0 {
            text.push_str(&format!(", {} bytes sent", progress.bytes_sent));
        }
        text.push('\n');
    }
    text
}

fn json(reply: &StatusReply) -> serde_json::Value {
    let parties: serde_json::Map<String, serde_json::Value> = reply
        .parties
        .iter()
        .map(|(name, state, progress)| {
            let party = serde_json::json!({
                "state": state.name(),
                "phase": progress.phase,
                "round": progress.round,
                "certificate": progress.certificate,
                "bytes_sent": progress.bytes_sent,
            });
            (name.clone(), party)
        })
        .collect();
    serde_json::json!({
        "study": reply.study,
        "study_digest": reply.digest.to_string(),
        "run": reply.run.map(|run| run.to_string()),
        "parties": parties,
        "exit": reply.exit.map(Exit::code),
        "quorum": reply.quorum.map(|quorum| serde_json::json!({"needed": quorum.needed, "came": quorum.came})),
        "seconds_left": seconds_left(reply),
    })
}

fn seconds_left(reply: &StatusReply) -> Option<u64> {
    reply.ends.map(|ends| ends.saturating_duration_since(Instant::now()).as_secs())
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
        let exit = |line: &str| run(std::iter::once("coordinator").chain(line.split(' ')).map(OsString::from));
        assert_eq!(exit("serve --liste x"), Exit::Usage);
        assert_eq!(exit("serve --config /nowhere/coordinator.toml"), Exit::Usage);
        assert_eq!(exit("status --help"), Exit::Done);
    }

    #[test]
    fn every_interface_is_asked_through_the_own_machine() {
        assert_eq!(dialled("0.0.0.0:7100"), "127.0.0.1:7100");
        assert_eq!(dialled("[::]:7100"), "[::1]:7100");
        assert_eq!(dialled("10.0.0.5:7100"), "10.0.0.5:7100");
    }
}
