//! The commands about a worker's privacy ledger: `privacy init | plan | status | verify`.

use clap::{Args, Subcommand};
use fedreg_common::privacy::ledger::Account;
use fedreg_common::session::Abort;
use fedreg_common::study::Protocol;
use fedreg_proto::files::read_study;
use serde::Serialize;

use super::config::{Config, Overrides};
pub use super::private::init;
use super::private::{allowed, open};
use crate::check::CheckFormat;
use crate::output;
use crate::privacy::{LedgerFlags, Standing, account_lines, runs_left, show};
use crate::service::Failure;

/// About the privacy budget of this worker's data.
#[derive(Debug, Subcommand)]
pub enum PrivacyCommand {
    /// Register the data set with its budget; makes the ledger if there is none
    Init(InitArguments),
    /// Show what a run would release and cost, from public facts alone; spends nothing
    Plan(ShowArguments),
    /// Show what was spent and what is left
    Status(ShowArguments),
    /// Check the whole chain of the ledger and every stored byte
    Verify(VerifyArguments),
}

/// Flags of `privacy init`.
#[derive(Debug, Args)]
pub struct InitArguments {
    #[command(flatten)]
    overrides: Overrides,
    #[command(flatten)]
    terms: LedgerFlags,
}

/// Flags of `privacy plan` and `privacy status`.
#[derive(Debug, Args)]
pub struct ShowArguments {
    #[command(flatten)]
    overrides: Overrides,
    /// What is printed on standard output
    #[arg(long, value_enum, default_value_t)]
    format: CheckFormat,
}

/// Flags of `privacy verify`.
#[derive(Debug, Args)]
pub struct VerifyArguments {
    #[command(flatten)]
    overrides: Overrides,
}

/// Runs a command and prints what it shows.
///
/// # Errors
/// Files that cannot be used, and a ledger that refuses.
pub fn run(command: &PrivacyCommand) -> Result<(), Failure> {
    let text = match command {
        PrivacyCommand::Init(arguments) => {
            let mut config = Config::load(&arguments.overrides)?;
            arguments.terms.apply(&mut config.privacy);
            let account = init(&config)?;
            let (name, place) = (&account.data_set, config.ledger());
            format!("data set `{name}` is registered in {}\n{}", place.display(), account_lines(&account))
        }
        PrivacyCommand::Plan(arguments) => {
            let config = Config::load(&arguments.overrides)?;
            show(arguments.format, &plan(&config)?, Planned::text)
        }
        PrivacyCommand::Status(arguments) => {
            let config = Config::load(&arguments.overrides)?;
            let ledger = open(&config)?;
            let accounts: Vec<Standing> = ledger.accounts().map(Standing::of).collect();
            show(arguments.format, &accounts, |accounts| {
                let texts: Vec<String> = accounts.iter().map(|standing| account_lines(&standing.account)).collect();
                match texts.is_empty() {
                    true => "no data set is registered: run `privacy init`\n".to_string(),
                    false => texts.join("\n"),
                }
            })
        }
        PrivacyCommand::Verify(arguments) => {
            let config = Config::load(&arguments.overrides)?;
            let (records, hash) = open(&config)?.verify()?;
            format!(
                "{}: {records} records follow from each other; the last hash is {hash}\n",
                config.ledger().display()
            )
        }
    };
    Ok(output::print(&text)?)
}

/// What a run would release and cost.
#[derive(Debug, Serialize)]
pub(crate) struct Planned {
    study: String,
    protocol: &'static str,
    epsilon: f64,
    delta: f64,
    charge: f64,
    releases: Vec<String>,
    /// Share of each release.
    mu: [f64; 2],
    left: Option<f64>,
    runs_left: Option<u64>,
}

pub(crate) fn plan(config: &Config) -> Result<Planned, Failure> {
    let study = read_study(&config.study)?;
    let not_private = || Failure::Usage("the study is not private: it has no `mode = \"private\"`".to_string());
    allowed(config, &study)?;
    let plan = study.site_plan().ok_or_else(not_private)?;
    let budget = study.site_budget().map_err(|error| Abort::Refused(error.to_string()))?.ok_or_else(not_private)?;
    let account: Option<Account> = open(config).ok().and_then(|ledger| ledger.account(&config.data_set()).ok());
    Ok(Planned {
        study: study.id.clone(),
        protocol: study.protocol.name(),
        epsilon: budget.epsilon(),
        delta: budget.delta(),
        charge: plan.charge(),
        releases: plan.releases().iter().map(|release| release.label.clone()).collect(),
        mu: plan
            .releases()
            .iter()
            .fold([f64::INFINITY, 0.0], |[low, high], release| [low.min(release.mu), high.max(release.mu)]),
        left: account.as_ref().map(Account::left),
        runs_left: account.as_ref().map(|account| runs_left(account, plan.charge())),
    })
}

impl Planned {
    /// Cost and what is left, in a sentence.
    pub(crate) fn budget(&self) -> String {
        let cost =
            format!("a run costs epsilon {} at delta {:e}, a sum of {:.6}", self.epsilon, self.delta, self.charge);
        match (self.left, self.runs_left) {
            (Some(left), Some(runs)) => format!("{cost}; {left:.6} is left: {runs} such runs still fit"),
            _ => format!("{cost}; the data set is not registered: run `privacy init`"),
        }
    }

    fn text(&self) -> String {
        let mut text = format!(
            "A run of `{}` ({}), from public facts alone\n\n  costs     epsilon {} at delta {:e}, a sum of {:.6}\n",
            self.study, self.protocol, self.epsilon, self.delta, self.charge
        );
        match (self.left, self.runs_left) {
            (Some(left), Some(runs)) => {
                text.push_str(&format!("  budget    {left:.6} is left: {runs} such runs still fit\n"));
            }
            _ => text.push_str("  budget    the data set is not registered: run `privacy init`\n"),
        }
        let count = self.releases.len();
        let plural = if count == 1 { "" } else { "s" };
        let first = self.releases.first().map_or("", String::as_str);
        let shares = match self.mu {
            [low, high] if low == high => format!("= {low:.6} each"),
            [low, high] => format!("from {low:.6} to {high:.6}"),
        };
        let whose = if self.protocol == Protocol::Robust.name() { " of every batch" } else { "" };
        text.push_str(&format!(
            "  releases  {count} release{plural}{whose} with sensitivity / sigma {shares}: {first}"
        ));
        text.push_str(if count > 1 { ", and so on\n" } else { "\n" });
        text.push_str("Nothing was spent.\n");
        text
    }
}
