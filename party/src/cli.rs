//! The command lines of `alice`, `bob`, `party` and `worker`.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Arg, Args, Subcommand};
use fedreg_common::data::matching::alignment::MatchPurpose;
use fedreg_common::exit::Exit;
use fedreg_common::id::Role;
use fedreg_proto::certs_cli::{self, CertsCommand};
use fedreg_proto::shell::{self, Values, values};
use fedreg_proto::wizard::{self, StudyCommand};

use crate::check::{self, CheckArguments, Checked};
use crate::config::{Config, Overrides, TableAtHand};
use crate::drive::Patience;
use crate::hypotheses::{self, TestCommand};
use crate::interrupts::with_interrupts;
use crate::matching::{self, Found, Outlook};
use crate::memory;
use crate::output::{self, Format};
use crate::privacy::{self, PrivacyCommand};
use crate::read::refuse_missing;
use crate::refit;
use crate::service::{self, Failure, Job, Scale};
use crate::show::{CheckFormat, show};
use crate::worker;

#[derive(Debug, Subcommand)]
enum Command {
    /// Fit the study's model together with all other parties
    ///
    /// Ctrl-C and SIGTERM end the run in good order: the others are told, and the exit code is 130.
    Fit(FitArguments),
    /// Score new rows together with all other parties
    Predict(PredictArguments),
    /// Find the rows that all parties have, before a fit
    ///
    /// For studies with a section `[match]`. Each party learns which of its own rows all parties have; the leader of several also learns
    /// which of them each other party has. They learn nothing else of others' rows beside numbers and by which pass rows were found. The
    /// result is kept in the state folder, where `fit` finds it.
    Match(MatchArguments),
    /// Fit a sub-model from the table that opened in this party's last fit; opens no connection, and nothing leaves
    ///
    /// For gaussian fits: of a sealed study with `sealed.refit = true` at the party to whom the table opened, of a private study by
    /// `crossprod` at every party. Without --lambda an ordinary fit, whatever penalty the study has.
    Refit(RefitArguments),
    /// Check files, data, certificates and policy, and show what would leave; opens no connection
    Check(CheckArguments<Overrides>),
    /// The privacy budget of this party's data, and the ledger of what was spent
    #[command(subcommand)]
    Privacy(PrivacyCommand<Overrides>),
    /// Test nested fits or linear hypotheses from reports; opens no connection
    #[command(subcommand)]
    Test(TestCommand),
    /// Make, sign and show certificates
    Certs(CertsCommand),
    /// Begin a study with a folder for everybody, or say what a study lets leave whom
    Study(StudyCommand<TableAtHand>),
}

#[derive(Debug, Args)]
struct FitArguments {
    #[command(flatten)]
    overrides: Overrides,
    /// Folder for report.json, .txt, .html, .csv and model.json
    ///
    /// Without it they are kept in a folder of their own below results/ in the state folder.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// What is printed on standard output
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Make the run's random choices repeatable; for rehearsals only
    ///
    /// The key of the row digests follows from it: anyone who knows the seed can test guesses of ids.
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    #[command(flatten)]
    process: ProcessArguments,
}

#[derive(Debug, Args)]
struct ProcessArguments {
    /// File that gets the address listened at, once listening: for scripts, with port 0
    #[arg(long, value_name = "FILE")]
    announce: Option<PathBuf>,
    /// End as by an interrupt when standard input ends
    #[arg(long, hide = true)]
    leash: bool,
}

#[derive(Debug, Args)]
struct PredictArguments {
    #[command(flatten)]
    overrides: Overrides,
    /// This party's model file, as a fit leaves it
    #[arg(long, value_name = "FILE", default_value = service::MODEL)]
    model: PathBuf,
    /// Folder for the scores, at the party that the study names
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Scale of the scores
    #[arg(long, value_enum, default_value_t)]
    scale: Scale,
    #[command(flatten)]
    process: ProcessArguments,
}

#[derive(Debug, Args)]
struct RefitArguments {
    #[command(flatten)]
    overrides: Overrides,
    /// Columns or terms to leave out, with commas between them; a column takes all terms with it that it is part of
    #[arg(long, value_name = "COLUMNS", conflicts_with = "keep")]
    drop: Vec<String>,
    /// Columns or terms to keep, all others are left out; the intercept stays
    #[arg(long, value_name = "COLUMNS")]
    keep: Vec<String>,
    /// Weight of a penalty, several with commas, or path: glmnet's 100 values
    #[arg(long, value_name = "L|L1,L2|path", allow_hyphen_values = true)]
    lambda: Option<String>,
    /// Kind of penalty: 1 is the lasso, 0 is ridge, and between them the elastic net; 1 by default
    #[arg(long, value_name = "A", requires = "lambda", allow_hyphen_values = true)]
    alpha: Option<f64>,
    /// Folder for report.json, .txt, .html and .csv
    ///
    /// Without it they are kept in a folder of their own below results/ in the state folder.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// What is printed on standard output
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Debug, Args)]
struct MatchArguments {
    #[command(flatten)]
    overrides: Overrides,
    /// Which rows are matched
    #[arg(long, value_parser = values(&PURPOSES), default_value = "fit", value_name = "PURPOSE")]
    purpose: MatchPurpose,
    /// Folder for the match; `match` in the state folder by default, and `match-predict` for new rows
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Show what this party would bring to the match, and stop; opens no connection
    #[arg(long)]
    dry_run: bool,
    /// What is printed on standard output
    #[arg(long, value_enum, default_value_t)]
    format: CheckFormat,
    #[command(flatten)]
    process: ProcessArguments,
}

/// Which rows are matched, by its names on command lines.
const PURPOSES: Values<MatchPurpose, 2> = [
    ("fit", "Those of the fit", MatchPurpose::Fit),
    ("predict", "New rows, to be scored by predict", MatchPurpose::Predict),
];

/// What a party's program is for.
const PART: &str = "Federated regression: this party's part";

/// All that a party's binary does.
pub fn main(role: Role) -> ExitCode {
    run(role, std::env::args_os()).into()
}

/// All that the binary does whose party is named on its command line.
pub fn main_named() -> ExitCode {
    run_named(std::env::args_os()).into()
}

/// The command line of a role that holds data.
pub fn command(role: Role) -> clap::Command {
    match role {
        Role::Worker => worker::cli::command(),
        Role::Alice => shell::command::<Command>("alice", PART),
        Role::Bob => shell::command::<Command>("bob", PART),
        Role::Party(_) | Role::Coordinator => command_of_named(),
    }
}

/// The command line of the program whose party is named on it.
pub fn command_of_named() -> clap::Command {
    let name = Arg::new(NAME)
        .long(NAME)
        .value_name("NAME")
        .value_parser(|name: &str| name.parse::<Role>())
        .help("Which party of the study this is, by its name there; `certs`, `study` and `test` do without");
    shell::command::<Command>("party", PART).arg(name)
}

/// The flag that names the party.
const NAME: &str = "name";

/// Runs the command line of the program whose party is named on it.
pub fn run_named(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let program = command_of_named();
    // What is wrong with the rest of the line is said below.
    let matches = program.clone().ignore_errors(true).try_get_matches_from(&arguments).ok();
    let named = matches.and_then(|matches| matches.get_one::<Role>(NAME).copied());
    let who = named.map_or_else(|| "party".to_string(), |role| role.to_string());
    shell::run_as((&who, "party"), program, &arguments, Failure::exit, |command, call| match (named, command) {
        (named, Command::Study(command)) => Ok(wizard::run(named, &command).map(|()| Exit::Done)?),
        (Some(role), command) if role.is_party() => execute(role, command, call),
        (Some(role), _) => Err(Failure::Usage(format!("--name: {role} is not the name of a party"))),
        (None, command @ (Command::Certs(_) | Command::Test(_))) => execute(Role::Alice, command, call),
        (None, _) => Err(Failure::Usage("--name is missing: which party of the study is this?".to_string())),
    })
}

/// Runs a party's command line, the program's name first; ends with the exit code for the shell.
pub fn run(role: Role, arguments: impl IntoIterator<Item = OsString>) -> Exit {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if role == Role::Worker {
        return worker::cli::run(&arguments);
    }
    let called = (role.name(), &role.program()[..]);
    shell::run_as(called, command(role), &arguments, Failure::exit, |command, call| execute(role, command, call))
}

fn execute(role: Role, command: Command, call: String) -> Result<Exit, Failure> {
    match command {
        Command::Fit(arguments) => fit(role, arguments, call),
        Command::Predict(arguments) => predict(role, arguments, call),
        Command::Match(arguments) => match_rows(role, arguments, call),
        Command::Refit(arguments) => refit(role, arguments, call),
        Command::Check(arguments) => check(role, &arguments),
        Command::Privacy(command) => privacy::run(&privacy::PARTY, role, &command).map(|()| Exit::Done),
        Command::Test(command) => hypotheses::run(&command).map(|()| Exit::Done),
        Command::Certs(command) => Ok(certs_cli::run(&command, &mut std::io::stdout()).map(|()| Exit::Done)?),
        Command::Study(command) => Ok(wizard::run(Some(role), &command).map(|()| Exit::Done)?),
    }
}

fn configured(role: Role, overrides: &Overrides) -> Result<Option<Config>, Failure> {
    let config = shell::configured(Config::load(role, overrides)?, overrides.print_config)?;
    if let Some(config) = &config {
        memory::keep(config.memory, &config.state);
    }
    Ok(config)
}

fn fit(role: Role, arguments: FitArguments, call: String) -> Result<Exit, Failure> {
    let FitArguments { overrides, out, format, seed, process } = arguments;
    let leash = process.leash;
    let Some(job) = job(role, &overrides, out, process, call, seed)? else { return Ok(Exit::Done) };
    let (report, exit) =
        with_interrupts(role, leash, |stop, stopped| async move { service::fit(&job, stop, stopped).await })?;
    output::print(&format.render(&report))?;
    Ok(exit)
}

/// The run that the flags ask for; nothing where the configuration was only to be shown.
fn job(
    role: Role,
    overrides: &Overrides,
    out: Option<PathBuf>,
    process: ProcessArguments,
    call: String,
    seed: Option<u64>,
) -> Result<Option<Job>, Failure> {
    let Some(config) = configured(role, overrides)? else { return Ok(None) };
    refuse_missing(&config.source())?;
    Ok(Some(Job {
        role,
        patience: Patience { wait: config.patience(), ..Patience::default() },
        study: Arc::new(service::study(role, &config)?),
        config,
        out,
        announce: process.announce,
        call,
        seed,
        progress: std::io::stderr().is_terminal(),
    }))
}

fn predict(role: Role, arguments: PredictArguments, call: String) -> Result<Exit, Failure> {
    let PredictArguments { overrides, model, out, scale, process } = arguments;
    let leash = process.leash;
    let Some(job) = job(role, &overrides, out, process, call, None)? else { return Ok(Exit::Done) };
    let (scores, exit) = with_interrupts(role, leash, |stop, stopped| async move {
        service::predict(&job, &model, scale, stop, stopped).await
    })?;
    if let Some(scores) = scores {
        output::print(&scores)?;
    }
    Ok(exit)
}

fn refit(role: Role, arguments: RefitArguments, call: String) -> Result<Exit, Failure> {
    let RefitArguments { overrides, drop, keep, lambda, alpha, out, format } = arguments;
    let Some(config) = configured(role, &overrides)? else { return Ok(Exit::Done) };
    let asked = refit::Asked { drop, keep, lambda, alpha };
    let (report, exit) = refit::run(role, &config, &asked, out.as_deref(), call)?;
    output::print(&format.render(&report))?;
    Ok(exit)
}

fn match_rows(role: Role, arguments: MatchArguments, call: String) -> Result<Exit, Failure> {
    let MatchArguments { overrides, purpose, out, dry_run, format, process } = arguments;
    let leash = process.leash;
    let Some(job) = job(role, &overrides, out, process, call, None)? else { return Ok(Exit::Done) };
    if dry_run {
        output::print(&show(format, &matching::look(job.party(), purpose)?, Outlook::text))?;
        return Ok(Exit::Done);
    }
    let (found, exit) = with_interrupts(role, leash, |stop, mut stopped| async move {
        matching::run(&job, purpose, stop, &mut stopped).await
    })?;
    output::print(&show(format, &found, Found::text))?;
    Ok(exit)
}

fn check(role: Role, arguments: &CheckArguments<Overrides>) -> Result<Exit, Failure> {
    let Some(config) = configured(role, &arguments.overrides)? else { return Ok(Exit::Done) };
    if let Some(outlook) = matching::before_a_match(role, &config)? {
        output::print(&show(arguments.format, &outlook, Outlook::text))?;
        return Ok(Exit::Done);
    }
    let checked = check::check(role, &config, arguments.out.as_deref())?;
    output::print(&show(arguments.format, &checked, Checked::text))?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit(line: &str) -> Exit {
        run(Role::Alice, std::iter::once("alice").chain(line.split(' ')).map(OsString::from))
    }

    #[test]
    fn the_command_line_is_consistent() {
        command(Role::Alice).debug_assert();
    }

    #[test]
    fn usage_errors_have_code_2_and_help_has_code_0() {
        assert_eq!(exit("fit --max-round 3"), Exit::Usage);
        assert_eq!(exit("fit --listen 127.0.0.1:0 --connect 127.0.0.1:1"), Exit::Usage);
        assert_eq!(exit("fit --config /nowhere/alice.toml"), Exit::Usage);
        assert_eq!(exit("check --help"), Exit::Done);
        assert_eq!(run(Role::Worker, ["worker".into()]), Exit::Usage);
    }

    #[test]
    fn the_program_with_a_name_on_its_line_asks_for_one_that_a_party_may_have() {
        command_of_named().debug_assert();
        let exit = |line: &str| run_named(std::iter::once("party").chain(line.split(' ')).map(OsString::from));
        assert_eq!(exit("--name carol check --help"), Exit::Done);
        for line in [
            "check",
            "--name Carol check",
            "--name worker check",
            "--name coordinator check",
            "--name all check",
            "--name carol",
            "--name carol check --config /nowhere/carol.toml",
            "--name alice fit --max-round 3",
        ] {
            assert_eq!(exit(line), Exit::Usage, "{line}");
        }
    }
}
