//! The commands about a privacy ledger, `privacy init | plan | status | verify | report`, and what a party registers and plans.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Subcommand};
use fedreg_common::id::{Role, RunId};
use fedreg_common::methods::vertical::penalty::PATH;
use fedreg_common::methods::vertical::plan::Outlook;
use fedreg_common::privacy::accountant::{Accountant, Budget};
use fedreg_common::privacy::ledger::{
    Account, Before, Checkpoint, Ledger, LedgerError, PersonDigests, Registration, Unreleased,
};
use fedreg_common::privacy::mechanism::{Receipt, ReleasePlan};
use fedreg_common::session::Abort;
use fedreg_common::study::{ErrorTable, ErrorsByMechanism, Mechanism, PrivacyTerms, Search};
use fedreg_proto::files::FileError;
use fedreg_proto::shell::{Values, values};
use serde::Serialize;

use crate::config::{Config, LedgerTerms, Overrides};
use crate::failure::Failure;
use crate::job::{self, Job};
use crate::ledger::{self, LedgerFile};
use crate::output;
use crate::party::Party;
use crate::plain::{self, PlainLine};
use crate::private::{self, open};
use crate::show::{CheckFormat, show};

/// What the commands need of a role that holds data and a privacy ledger of them, with its configuration `C` and the flags `O` that
/// override its file.
pub(crate) struct Keeper<C, O> {
    /// Reads the file and lets the flags override it.
    pub(crate) load: fn(Role, &O) -> Result<C, FileError>,
    /// Where the ledger is, and what it is to be told.
    pub(crate) terms: fn(&mut C) -> &mut LedgerTerms,
    /// The ledger and its anchor, if that has a place.
    pub(crate) places: fn(&C) -> Result<[PathBuf; 2], LedgerError>,
    /// Registers the data set with its budget, and makes the ledger if there is none.
    pub(crate) register: fn(Role, &C) -> Result<Account, Failure>,
    /// What a run on the rows of the table, or on a given number of rows, would release, cost and be good for.
    pub(crate) plan: fn(Role, &C, Option<u64>, CheckFormat) -> Result<String, Failure>,
}

/// Of a party.
pub(crate) const PARTY: Keeper<Config, Overrides> = Keeper {
    load: Config::load,
    terms: |config| &mut config.privacy,
    places: |config| Ok([config.ledger(), config.anchor()?]),
    register: init,
    plan: |role, config, rows, format| Ok(show(format, &plan(role, config, rows)?, Planned::text)),
};

/// Flags of a role whose runs can be planned.
pub trait PlanFlags: Args {
    /// What `--rows` counts.
    const ROWS: &'static str;
}

/// About the privacy budget of a role's data, with the flags that lead to its configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum PrivacyCommand<O: PlanFlags> {
    /// Register the data set with its budget; makes the ledger if there is none
    Init {
        #[command(flatten)]
        overrides: O,
        #[command(flatten)]
        terms: LedgerFlags,
    },
    /// Show what a run would release, cost, and be good for, from public facts alone; spends nothing
    Plan {
        #[command(flatten)]
        overrides: O,
        #[arg(long, value_name = "ROWS", help = O::ROWS)]
        rows: Option<u64>,
        /// What is printed on standard output
        #[arg(long, value_enum, default_value_t)]
        format: CheckFormat,
    },
    /// Show what was spent and what is left
    Status {
        #[command(flatten)]
        overrides: O,
        /// What is printed on standard output
        #[arg(long, value_enum, default_value_t)]
        format: CheckFormat,
    },
    /// Check the whole chain of the ledger and every stored byte
    Verify {
        #[command(flatten)]
        overrides: O,
    },
    /// List every release that was made
    Report {
        #[command(flatten)]
        overrides: O,
        #[command(flatten)]
        wanted: ReportFlags,
    },
}

/// What a ledger is to be told of a data set; each overrides the private file.
#[derive(Debug, Clone, Args)]
pub struct LedgerFlags {
    /// Epsilon of the data set, for its lifetime and over all peers; that of the study by default
    #[arg(long, value_name = "EPSILON")]
    epsilon: Option<f64>,
    /// Its delta
    #[arg(long, value_name = "DELTA")]
    delta: Option<f64>,
    /// How sums are read
    #[arg(long, value_parser = values(&ACCOUNTANTS), value_name = "ACCOUNTANT")]
    accountant: Option<Accountant>,
    /// Name of the data set in the ledger
    #[arg(long, value_name = "NAME")]
    data_set: Option<String>,
}

impl LedgerFlags {
    /// Lets the flags override the terms of a private file.
    fn apply(&self, terms: &mut LedgerTerms) {
        terms.epsilon = self.epsilon.or(terms.epsilon);
        terms.delta = self.delta.or(terms.delta);
        terms.accountant = self.accountant.or(terms.accountant);
        terms.data_set = self.data_set.clone().or(terms.data_set.take());
    }

    /// Refuses numbers that are no budget of any table, whether a flag has them or the private file.
    ///
    /// # Errors
    /// An epsilon that is not positive, or a delta that does not lie between 0 and 1.
    fn check(&self, terms: &LedgerTerms) -> Result<(), Failure> {
        let place = |flag: Option<f64>, name: &str| match flag {
            Some(_) => format!("--{name}"),
            None => format!("`privacy.{name}`"),
        };
        if let Some(epsilon) = terms.epsilon.filter(|epsilon| !(*epsilon > 0.0 && epsilon.is_finite())) {
            let place = place(self.epsilon, "epsilon");
            return Err(Failure::Usage(format!("{place} must be a positive number, got {epsilon}")));
        }
        if let Some(delta) = terms.delta.filter(|delta| !(*delta > 0.0 && *delta < 1.0)) {
            let place = place(self.delta, "delta");
            return Err(Failure::Usage(format!("{place} must lie between 0 and 1, got {delta}")));
        }
        Ok(())
    }
}

/// Which releases of a ledger are listed, and how.
#[derive(Debug, Clone, Args)]
pub struct ReportFlags {
    /// Only this run
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// What is printed on standard output
    #[arg(long, value_enum, default_value_t)]
    format: CheckFormat,
}

impl ReportFlags {
    /// Every release that stands in a ledger, run by run.
    ///
    /// # Errors
    /// A run that the ledger does not know.
    fn list(&self, ledger: &Ledger<LedgerFile>) -> Result<String, LedgerError> {
        let runs: Vec<RunReleases> = ledger
            .runs()
            .filter(|run| self.run.as_deref().is_none_or(|wanted| wanted == *run))
            .map(|run| RunReleases { run: run.to_string(), releases: ledger.receipts(run) })
            .collect();
        match &self.run {
            Some(run) if runs.is_empty() => Err(LedgerError::UnknownRun { run: run.clone() }),
            _ => Ok(show(self.format, &runs, |runs| match runs.is_empty() {
                true => "nothing was released yet\n".to_string(),
                false => runs.iter().map(RunReleases::text).collect(),
            })),
        }
    }
}

/// How sums of squared ratios are read, by its names on command lines.
pub const ACCOUNTANTS: Values<Accountant, 2> = [
    ("zcdp", "Zero-concentrated privacy: proved end to end for discrete noise", Accountant::Zcdp),
    ("exact", "The Gaussian curve: a little less noise", Accountant::Exact),
];

/// Runs a command and prints what it shows.
///
/// # Errors
/// Files that cannot be used, and a ledger that refuses.
pub(crate) fn run<C, O: PlanFlags>(
    keeper: &Keeper<C, O>,
    role: Role,
    command: &PrivacyCommand<O>,
) -> Result<(), Failure> {
    let load = |flags: &O| (keeper.load)(role, flags);
    let open = |config: &C| (keeper.places)(config).and_then(|[path, anchor]| ledger::open(&path, &anchor));
    let text = match command {
        PrivacyCommand::Init { overrides, terms } => {
            let mut config = load(overrides)?;
            let stated = (keeper.terms)(&mut config);
            terms.apply(stated);
            terms.check(stated)?;
            let (account, [path, _]) = ((keeper.register)(role, &config)?, (keeper.places)(&config)?);
            let (name, place) = (&account.data_set, path.display());
            format!(
                "data set `{name}` is registered in {place}\n{}",
                Standing::of(&account, Vec::new(), Vec::new()).lines()
            )
        }
        PrivacyCommand::Plan { overrides, rows, format } => (keeper.plan)(role, &load(overrides)?, *rows, *format)?,
        PrivacyCommand::Status { overrides, format } => {
            let accounts = status(&open(&load(overrides)?)?);
            show(*format, &accounts, |accounts| match accounts.is_empty() {
                true => "no data set is registered: run `privacy init`\n".to_string(),
                false => accounts.iter().map(DataSet::text).collect::<Vec<_>>().join("\n"),
            })
        }
        PrivacyCommand::Verify { overrides } => {
            let config = load(overrides)?;
            let ((records, hash), [path, _]) = (open(&config)?.verify()?, (keeper.places)(&config)?);
            format!("{}: {records} records follow from each other; the last hash is {hash}\n", path.display())
        }
        PrivacyCommand::Report { overrides, wanted } => wanted.list(&open(&load(overrides)?)?)?,
    };
    Ok(output::print(&text)?)
}

impl PlanFlags for Overrides {
    const ROWS: &'static str = "Plan for this number of rows in place of the table's";
}

/// Registers this party's data set with its budget, and makes the ledger if there is none.
///
/// # Errors
/// A table or a budget that cannot be used, and a ledger that refuses.
pub fn init(role: Role, config: &Config) -> Result<Account, Failure> {
    let study = Arc::new(job::study(role, config)?);
    let asked = &study.private().ok_or_else(not_private)?.stated;
    let party = Party { role, config, study: &study };
    // Before a match too: a budget belongs to all rows of a table.
    let table = private::read_all(party, true)?;
    let rows = table.rows() as u64;
    let budget = budget(&config.privacy, asked, rows)?;
    let mut ledger = ledger::open_or_create(&config.ledger(), &config.anchor()?)?;
    plain::take_in(&mut ledger)?;
    let persons = PersonDigests::new(&ledger.key()?, table.identifiers(), 1)?;
    let (data_set, bounds) = (config.data_set(), study.stated_bounds(role));
    let file = private::data_file(party);
    ledger::register(&mut ledger, &file, &Registration { data_set, persons, budget, bounds })
}

/// What `check` would refuse in this party's table, for a rehearsal on one's own data: a run would count such rows as
/// zeros without a word.
pub fn complaint(role: Role, config: &Config) -> Option<String> {
    let study = Arc::new(job::study(role, config).ok()?);
    private::read_all(Party { role, config, study: &study }, false).err().map(|failure| output::chain(&failure))
}

/// The budget of a data set of a given number of rows: what the private file says, else what the study asks for.
pub(crate) fn budget(terms: &LedgerTerms, asked: &PrivacyTerms, rows: u64) -> Result<Budget, Abort> {
    Budget::new(
        terms.epsilon.unwrap_or(asked.epsilon),
        terms.delta.or(asked.delta).unwrap_or_else(|| Budget::default_delta(rows)),
        terms.accountant.unwrap_or(asked.accountant),
        rows,
        terms.large_epsilon.is_some() || (terms.epsilon.is_none() && asked.large_epsilon.is_some()),
    )
    .map_err(|error| Abort::Refused(error.to_string()))
}

pub(crate) fn not_private() -> Failure {
    Failure::Usage("the study is not private: it has no `mode = \"private\"`".to_string())
}

/// Records a run without privacy, with as many numbers as may leave in it: later private reports on its persons say so, and later sealed
/// runs count them.
///
/// # Errors
/// A ledger that is there and refuses.
pub(crate) fn record_plain(
    job: &Job,
    run: RunId,
    numbers: u64,
    identifiers: impl FnOnce() -> Vec<Vec<u8>>,
) -> Result<(), Failure> {
    let persons = |key: &[u8; 32]| Ok(PersonDigests::new(key, identifiers(), u32::MAX)?);
    plain::record(&job.config.ledger(), job.config.anchor(), plain_line(job, run, numbers)?, persons)
}

/// Records at the end of a run without privacy how many numbers left.
///
/// # Errors
/// A ledger that is there and refuses.
pub(crate) fn count_plain(job: &Job, run: RunId, numbers: u64) -> Result<(), Failure> {
    // Whose rows they were was recorded when the run began.
    let persons = |_: &[u8; 32]| Ok(PersonDigests::anyone());
    plain::record(&job.config.ledger(), job.config.anchor(), plain_line(job, run, numbers)?, persons)
}

fn plain_line(job: &Job, run: RunId, numbers: u64) -> Result<PlainLine, Failure> {
    let config = &job.config;
    // Whatever passes through the leader of several, all others may have seen.
    let peers: Vec<String> = job
        .study
        .others(job.role)
        .into_iter()
        .map(|peer| job.party().certificate(peer).map(str::to_owned))
        .collect::<Result<_, Failure>>()?;
    let line = PlainLine::now(run, config.data_set(), &config.data.file, peers, job.study.digest());
    Ok(PlainLine { numbers: Some(numbers), ..line })
}

#[derive(Serialize)]
struct Standing {
    #[serde(flatten)]
    account: Account,
    left: f64,
    epsilon_spent_zcdp: f64,
    epsilon_spent_exact: f64,
    /// Runs of which nothing was stored, so that nothing of them has left.
    unreleased: Vec<Unreleased>,
    /// The last checkpoint of each stream's account of its persons.
    checkpoints: Vec<Checkpoint>,
}

impl Standing {
    fn of(account: &Account, unreleased: Vec<Unreleased>, checkpoints: Vec<Checkpoint>) -> Standing {
        Standing {
            left: account.left(),
            epsilon_spent_zcdp: account.epsilon_spent(Accountant::Zcdp),
            epsilon_spent_exact: account.epsilon_spent(Accountant::Exact),
            account: account.clone(),
            unreleased,
            checkpoints,
        }
    }

    fn lines(&self) -> String {
        let mut text = account_lines(self);
        for Unreleased { run, charge, withdrawn } in &self.unreleased {
            text.push_str(&match withdrawn {
                true => format!("  withdrawn  run {run}: nothing of it had left, its charge of {charge:.6} was taken back\n"),
                false => format!(
                    "  open       run {run}: {charge:.6} is reserved, and nothing of it has left; the same command goes on with it, and \
                     another run of its study takes the charge back\n"
                ),
            });
        }
        for checkpoint in &self.checkpoints {
            text.push_str(&checkpoint_line(checkpoint));
        }
        text
    }
}

/// The last checkpoint of a stream in words; shares are rounded up.
fn checkpoint_line(Checkpoint { run, sequence, messages, most, room, .. }: &Checkpoint) -> String {
    let share = (1000.0 * *most as f64 / (*room).max(1) as f64).ceil() / 10.0;
    let plural = if *messages == 1 { "" } else { "s" };
    format!(
        "  filter     run {run}: at its last checkpoint (number {sequence}), after {messages} message{plural}, no person had spent more \
         than {share:.1} % of what the run charged\n"
    )
}

/// What a ledger knows of a data set.
#[derive(Serialize)]
struct DataSet {
    #[serde(flatten)]
    budget: Option<Standing>,
    /// Where it has no budget.
    #[serde(rename = "data_set", skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Numbers that opened of it without noise, and runs in which they did.
    numbers_opened: u64,
    runs_opened: u64,
}

impl DataSet {
    fn text(&self) -> String {
        let mut text = match (&self.budget, &self.name) {
            (Some(standing), _) => standing.lines(),
            (None, Some(name)) => format!("{name}: has no budget\n"),
            (None, None) => String::new(),
        };
        if self.runs_opened > 0 {
            let (numbers, runs) = (self.numbers_opened, self.runs_opened);
            text.push_str(&format!(
                "  opened     {numbers} numbers without noise, in {runs} plain or sealed run{}\n",
                if runs == 1 { "" } else { "s" }
            ));
        }
        text
    }
}

/// The data sets of a ledger: those with a budget, and those of which numbers opened.
fn status(ledger: &Ledger<LedgerFile>) -> Vec<DataSet> {
    let mut opened: BTreeMap<&str, Before> = ledger.openings().collect();
    let registered = ledger.accounts().map(|account| {
        let Before { runs, numbers, .. } = opened.remove(account.data_set.as_str()).unwrap_or_default();
        DataSet {
            budget: Some(Standing::of(
                account,
                ledger.unreleased(&account.data_set),
                ledger.checkpoints(&account.data_set),
            )),
            name: None,
            numbers_opened: numbers,
            runs_opened: runs,
        }
    });
    let registered: Vec<DataSet> = registered.collect();
    let others = opened.into_iter().map(|(name, Before { runs, numbers, .. })| DataSet {
        budget: None,
        name: Some(name.to_string()),
        numbers_opened: numbers,
        runs_opened: runs,
    });
    registered.into_iter().chain(others).collect()
}

fn account_lines(standing: &Standing) -> String {
    let Standing { account, left, epsilon_spent_zcdp: zcdp, epsilon_spent_exact: exact, .. } = standing;
    let accountant = account.accountant.name();
    let whose = match account.is_anyone() {
        true => "a stream of persons who are not known beforehand".to_string(),
        false => format!("{} persons in {} rows", account.persons, account.rows),
    };
    let mut text = format!(
        "{}: {whose}\n  guarantee  epsilon {} at delta {:e} ({accountant}), for the lifetime of the data set and over all \
         peers\n  spent      {:.6} of {:.6}, left {left:.6} (bookkeeping: epsilon {zcdp:.4} by zcdp, {exact:.4} exact)\n",
        account.data_set, account.epsilon, account.delta, account.sum, account.cap
    );
    for (peer, sum) in &account.peers {
        text.push_str(&format!("  towards    {peer}: {sum:.6} (a view; the guarantee is over all peers)\n"));
    }
    if !account.shares_with.is_empty() {
        let names: Vec<&str> = account.shares_with.iter().map(String::as_str).collect();
        text.push_str(&format!("  shares persons with {}: what one spends, all have spent\n", names.join(", ")));
    }
    if account.unbounded {
        text.push_str("  these persons were in a run without privacy: what it showed is not covered\n");
    }
    if account.unbounded_by_unknown {
        text.push_str(
            "  whom a run without privacy showed was not recorded (a stream, a pipe, or a run before the ledger): it counts for everybody\n",
        );
    }
    for change in &account.bounds_changed {
        text.push_str(&format!("  {}\n", change.sentence()));
    }
    text
}

#[derive(Serialize)]
struct RunReleases {
    run: String,
    releases: Vec<Receipt>,
}

impl RunReleases {
    fn text(&self) -> String {
        let mut text = format!("run {}\n", self.run);
        for release in &self.releases {
            text.push_str(&format!(
                "  {}  {}: sensitivity {:.6} = {}, sigma {:.6}\n",
                release.index, release.label, release.sensitivity, release.formula, release.sigma
            ));
        }
        text
    }
}

/// What a run would release and be good for.
#[derive(Debug, Serialize)]
pub struct Planned {
    role: Role,
    study: String,
    rows: u64,
    epsilon: f64,
    delta: f64,
    accountant: Accountant,
    mechanism: Mechanism,
    /// Exchanges of one message each way, by the mechanism `residual`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rounds: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    clip: Option<f64>,
    /// What the run would be charged.
    charge: f64,
    releases: Vec<PlannedLine>,
    expected: Outlook,
    /// What each mechanism is expected to reach, and what nothing exchanged does.
    by_mechanism: ErrorsByMechanism,
    by_rows_and_epsilon: ErrorTable,
    /// Settings that were tried, and those that are expected to do better.
    #[serde(flatten)]
    search: Search,
    /// What is left for the data set; none where it is not registered.
    left: Option<f64>,
    /// How many such runs still fit.
    runs_left: Option<u64>,
    /// What is said of a penalty.
    #[serde(skip)]
    penalty: Option<String>,
    /// How many times something opens.
    #[serde(skip)]
    exchanges: u32,
    /// The releases, as the ledger reserves them.
    #[serde(skip)]
    pub(crate) plan: ReleasePlan,
}

#[derive(Debug, Serialize)]
struct PlannedLine {
    label: String,
    sigma: f64,
    sent: bool,
}

/// What a run would release, cost, and be good for. No row is looked at, only their number.
///
/// # Errors
/// A study that is not private or cannot be run on this number of rows.
pub fn plan(role: Role, config: &Config, rows: Option<u64>) -> Result<Planned, Failure> {
    let study = Arc::new(job::study(role, config)?);
    let terms = &study.private().ok_or_else(not_private)?.stated;
    let party = Party { role, config, study: &study };
    private::allowed(party)?;
    let rows = match rows {
        Some(rows) => rows,
        None => private::read_table(party, true)?.rows() as u64,
    };
    let refused = |error: fedreg_common::study::PrivacyError| Abort::Refused(error.to_string());
    let budget = study.run_budget(rows).map_err(refused)?;
    let plan = study.private_plan(rows).map_err(refused)?;
    let place = study.place(role);
    let releases = plan.releases(place);
    let charge = releases.charge();
    let (rounds, clip) = match terms.mechanism {
        Mechanism::Residual => (Some(terms.rounds), Some(terms.clip)),
        Mechanism::Crossprod => (None, None),
    };
    let account = open(config).ok().and_then(|ledger| ledger.account(&config.data_set()).ok());
    let left = account.as_ref().map(Account::left);
    Ok(Planned {
        role,
        study: study.head.id.clone(),
        rows,
        epsilon: budget.epsilon(),
        delta: budget.delta(),
        accountant: budget.accountant(),
        mechanism: terms.mechanism,
        rounds,
        clip,
        charge,
        releases: plan
            .lines(place)
            .into_iter()
            .map(|(label, sigma, sent)| PlannedLine { label, sigma, sent })
            .collect(),
        expected: study.outlook(&plan).map_err(refused)?,
        by_mechanism: study.errors_by_mechanism(rows),
        by_rows_and_epsilon: study.error_table(rows),
        search: study.search(rows),
        left,
        exchanges: plan.exchanges(),
        penalty: study.cross_penalty().map(|penalty| match penalty.lambdas.map_or(PATH, |lambdas| lambdas.len()) {
            1 => "the penalty costs nothing beside: its estimates are computed from the same noised tables".to_string(),
            lambdas => {
                format!("{lambdas} lambdas cost as much as one fit: all are computed from the same noised tables")
            }
        }),
        plan: releases.clone(),
        runs_left: account.as_ref().map(|account| runs_left(account, charge)),
    })
}

/// What is left of a data set's budget, if it has one.
pub(crate) fn left_sentence(left: Option<f64>, runs_left: Option<u64>) -> String {
    match (left, runs_left) {
        (Some(left), Some(runs)) => format!("{left:.6} is left: {runs} such runs still fit"),
        _ => "the data set is not registered: run `privacy init`".to_string(),
    }
}

/// How many runs of this charge still fit; a first one that takes all fits, as in the ledger.
pub(crate) fn runs_left(account: &Account, charge: f64) -> u64 {
    let rest = (account.cap - account.sum) / charge;
    let whole = rest.floor();
    let first = account.sum == 0.0 && charge <= account.cap;
    if whole >= 1.0 { whole as u64 } else { u64::from(first) }
}

impl Planned {
    fn cost(&self) -> String {
        let Planned { epsilon, delta, accountant, charge, .. } = self;
        format!("epsilon {epsilon} at delta {delta:e} ({}), a sum of {charge:.6}", accountant.name())
    }

    /// What a run costs and what is left, a sentence each.
    pub fn budget_lines(&self) -> Vec<String> {
        let mut lines = vec![format!("a run costs {}", self.cost())];
        lines.extend(self.penalty.clone());
        if let (Some(left), Some(runs)) = (self.left, self.runs_left) {
            lines.push(format!("{left:.6} is left of the data set's budget: {runs} such runs still fit"));
        }
        lines
    }

    fn text(&self) -> String {
        let Planned { role, study, rows, .. } = self;
        let mut text = format!(
            "A run of `{study}` for {role}, from public facts alone\n\n  rows      {rows}\n  costs     {}\n",
            self.cost()
        );
        match (self.rounds, self.clip) {
            (Some(rounds), Some(clip)) => text.push_str(&format!(
                "  rounds    {rounds}, partial predictions cut at {clip} of half the outcome's range\n"
            )),
            _ => text.push_str(&format!(
                "  exchange  {}, of masked columns; what opens has the noise of both parties that it is about\n",
                if self.exchanges == 1 { "one".to_string() } else { self.exchanges.to_string() }
            )),
        }
        self.penalty.iter().for_each(|sentence| text.push_str(&format!("  penalty   {sentence}\n")));
        text.push_str(&format!("  budget    {}\n", left_sentence(self.left, self.runs_left)));
        text.push_str(
            "\nReleases, with the standard deviation of their noise (columns in unit rows, outcome in half ranges)\n",
        );
        let width = self.releases.iter().map(|line| line.label.len()).max().unwrap_or(0);
        for line in &self.releases {
            let place = if line.sent { "sent" } else { "stays here" };
            text.push_str(&format!("  {:width$}  {:12.6}  {place}\n", line.label, line.sigma));
        }
        text.push_str(&outlook_lines(&self.expected));
        text.push_str(&self.by_mechanism.text());
        text.push_str(&self.by_rows_and_epsilon.text());
        text.push_str(&self.search.text());
        text.push_str("Nothing was spent.\n");
        text
    }
}

/// What to expect of a run, with all that is assumed.
fn outlook_lines(outlook: &Outlook) -> String {
    let row = |name: &str, values: &dyn Fn(&fedreg_common::methods::vertical::plan::Case) -> String| {
        let cells: String = outlook.cases.iter().map(|case| format!("{:>10}", values(case))).collect();
        format!("  {name:<28}{cells}\n")
    };
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let mut text = "\nExpected distance of the slopes from the pooled ones, relative to their length\n".to_string();
    text.push_str(&row("correlation of two columns", &|case| case.correlation.to_string()));
    text.push_str(&row("after this run", &|case| percent(case.relative_error)));
    text.push_str(&row("exchanging nothing", &|case| percent(case.relative_error_alone)));
    text.push_str("Assumed, nothing computed from the data:\n");
    for words in &outlook.assumed.words {
        text.push_str(&format!("  - {words}\n"));
    }
    let sentences = [outlook.withheld(), Some(outlook.comparison()), outlook.rough(), outlook.bias()];
    for sentence in sentences.into_iter().flatten() {
        let mut letters = sentence.chars();
        let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
        text.push_str(&format!("{first}{}.\n", letters.as_str()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_are_no_budget_of_any_table_are_a_wrong_command_line() {
        let checked = |epsilon: Option<f64>, delta: Option<f64>, terms: &LedgerTerms| {
            let flags = LedgerFlags { epsilon, delta, accountant: None, data_set: None };
            let mut terms = terms.clone();
            flags.apply(&mut terms);
            flags.check(&terms).map_err(|failure| (failure.exit().code(), failure.to_string()))
        };
        let none = LedgerTerms::default();
        let refused = |sentence: &str| -> Result<(), (u8, String)> { Err((2, sentence.to_string())) };
        assert_eq!(checked(Some(100.0), Some(0.5), &none), Ok(()));
        assert_eq!(checked(Some(0.0), None, &none), refused("--epsilon must be a positive number, got 0"));
        assert_eq!(checked(Some(f64::NAN), None, &none), refused("--epsilon must be a positive number, got NaN"));
        assert_eq!(checked(None, Some(2.0), &none), refused("--delta must lie between 0 and 1, got 2"));
        let file = LedgerTerms { epsilon: Some(-1.0), ..LedgerTerms::default() };
        assert_eq!(checked(None, None, &file), refused("`privacy.epsilon` must be a positive number, got -1"));
        assert_eq!(checked(Some(1.0), None, &file), Ok(()));
    }
}
