//! What a worker spends in private mode: its ledger and its noise.

use std::path::PathBuf;

use fedreg_common::exit::Exit;
use fedreg_common::id::{Role, RunId};
use fedreg_common::privacy::ledger::{Account, Ledger, LedgerError, PersonDigester, PersonDigests, Registration};
use fedreg_common::privacy::mechanism::records::{Costs, NoisedRecords, PerRecord, Spending};
use fedreg_common::privacy::sampler::NoisePool;
use fedreg_common::session::Abort;
use fedreg_common::star::site::charge::{Claim, RunLedger, about, suits};
use fedreg_common::study::statement::Statement;
use fedreg_common::study::{Guarantee, PrivateTerms, SiteMethod, Sites, Study};

use super::batches::{Arrival, Encoding, Source, each_id, needs_a_file};
use super::compute::Prepared;
use super::config::Config;
use super::persons::{Persons, forget};
use crate::failure::Failure;
use crate::ledger::{self, DataFile, LedgerFile};
use crate::plain::{self, PlainLine};
use crate::privacy::not_private;
use crate::read::{self, ReadError};

/// A worker's side of a private study: what it spends and keeps beside the run.
#[derive(Clone, Copy)]
pub(crate) struct Private<'a> {
    config: &'a Config,
    study: &'a Study<Sites>,
    pub(crate) terms: &'a PrivateTerms,
}

/// Whether records come in a stream, whose number is not known beforehand.
fn follows(study: &Study<Sites>) -> bool {
    match &study.method.method {
        SiteMethod::Stream(_) => true,
        SiteMethod::Robust(_) | SiteMethod::Em(_) | SiteMethod::Features(_) => false,
    }
}

impl<'a> Private<'a> {
    /// Decided once for a run: `None` in a plain study.
    pub(crate) fn of(config: &'a Config, study: &'a Study<Sites>) -> Option<Private<'a>> {
        match &study.guarantee {
            Guarantee::Plain => None,
            Guarantee::Private(terms) => Some(Private { config, study, terms }),
        }
    }

    /// Opens the worker's ledger.
    pub(crate) fn open(self) -> Result<Ledger<LedgerFile>, LedgerError> {
        ledger::open(&self.config.ledger(), &self.config.anchor()?)
    }

    /// Whether this worker's policy allows what the study asks for.
    pub(crate) fn allowed(self) -> Result<(), Failure> {
        let asked = self.terms.budget.epsilon();
        match self.config.policy.max_epsilon {
            Some(most) if asked > most => Err(Abort::Refused(format!(
                "the study asks for epsilon {asked} in one run, and this worker's policy allows {most}"
            ))
            .into()),
            _ => Ok(()),
        }
    }

    /// The rows as a private run reads them.
    fn source(self, rows: u64, arrival: &Arrival) -> Result<Source, ReadError> {
        let encoding = Encoding::new(self.study, self.config.written());
        Source::open(self.config, encoding.lenient(), rows, arrival)
    }

    /// Records that the file of a stream has now; `None` where there is no file to be counted.
    fn records(self) -> Result<Option<u64>, Failure> {
        if read::ends_once_read(&self.config.source()) || read::is_absent(&self.config.source()) {
            return Ok(None);
        }
        Ok(Some(self.source(1, &Arrival::default())?.count()?))
    }

    /// Refuses a private stream from a whole file whose records are too many for its delta, before anything is spent.
    pub(crate) fn countable(self) -> Result<(), Failure> {
        if follows(self.study)
            && let Some(rows) = self.records()?
        {
            suits(&self.terms.budget, rows.max(1), self.terms.stated.large_epsilon.is_some())?;
        }
        Ok(())
    }

    /// What a report says of a private stream that turned out to have too many records for its delta.
    pub(crate) fn too_long(self, records: u64) -> Option<String> {
        let delta = self.terms.budget.delta();
        (follows(self.study) && delta > 1.0 / records.max(1) as f64).then(|| {
            format!(
                "delta {delta:e} is above one over the {records} records of this worker, which were not known beforehand: it permits \
                 publishing whole records; choose a smaller one for the next run"
            )
        })
    }

    /// Registers the worker's data set with its budget, and makes the ledger if there is none.
    fn register(self) -> Result<Account, Failure> {
        let Private { config, study, terms } = self;
        let mut ledger = ledger::open_or_create(&config.ledger(), &config.anchor()?)?;
        plain::take_in(&mut ledger)?;
        let (persons, rows) = match follows(study) {
            // There may be more to come; but these are known. A file that cannot be read yet is the run's matter.
            true => (PersonDigests::anyone(), self.records().ok().flatten().unwrap_or(1).max(1)),
            false => read_persons(config, study, &ledger.key()?, study.rows_per_person())?,
        };
        let budget = crate::privacy::budget(&config.privacy, &terms.stated, rows)?;
        let (data_set, bounds) = (config.data_set(), study.stated_bounds());
        let registration = Registration { data_set, persons, budget, bounds };
        ledger::register(&mut ledger, &self.data_file(), &registration)
    }

    /// What tells this worker's file from others.
    fn data_file(self) -> DataFile<'a> {
        let Private { config, study, .. } = self;
        let (source, id) = (config.source(), study.head.rows.id.as_deref());
        DataFile { role: Role::Worker, source, separator: config.written().separator, id, grows: follows(study) }
    }

    /// Reads the rows of a run, or opens its stream, before anybody is contacted. They are read once, and the run goes on with what was
    /// read: nothing that depends on what stands in them is found out later, whatever becomes of the file.
    ///
    /// # Errors
    /// Everything that would end the run because of what stands in the table, and what the study or the policy refuse.
    pub(crate) fn prepare(self, arrival: &Arrival) -> Result<Prepared, Failure> {
        let Private { config, study, .. } = self;
        if config.reads_stdin() && !follows(study) {
            return Err(needs_a_file(study));
        }
        // A ledger that refuses otherwise says nothing about the rows, and the others may hear of it later.
        if let Ok(mut ledger) = self.open()
            && ledger.account(&config.data_set()).is_ok()
        {
            ledger::use_file(&mut ledger, &config.data_set(), &self.data_file())?;
        }
        tracing::info!("reading {}", config.source());
        let source = self.source(study.site_terms().batch_rows, arrival)?;
        let mut prepared = Prepared::new(study, source, config.policy.min_rows.unwrap_or(0))?;
        prepared.read()?;
        // A ledger that refuses says nothing about the rows, and the others may hear of it later.
        if !prepared.ids().is_empty()
            && let Ok(mut ledger) = self.open()
        {
            PersonDigests::new(&ledger.key()?, prepared.ids(), study.rows_per_person())?;
            if !follows(study) && !read::is_path(config.source().place()) {
                self.same_rows(&mut ledger, &prepared.content())?;
            }
        }
        Ok(prepared)
    }

    /// Ends runs of this study that were interrupted and were begun with other rows, before anybody is contacted: others than this worker
    /// may change what a data base holds.
    fn same_rows(self, ledger: &mut Ledger<LedgerFile>, content: &[u8]) -> Result<(), Failure> {
        let (data_set, study) = (self.config.data_set(), self.study.digest().to_string());
        let now = about(&study, &ledger.key()?, content);
        let begun = ledger.unfinished_of(&data_set, &study);
        let other = begun.into_iter().find(|(_, before)| *before != now).map(|(run, _)| run.to_owned());
        let Some(run) = other else { return Ok(()) };
        ledger.finish(&run)?;
        Err(Failure::Moved { data: self.config.source().to_string(), run })
    }

    /// Opens the ledger for a run. Nothing is spent yet.
    pub(crate) fn charge(self, run: RunId) -> Result<Charged, Failure> {
        let Private { config, study, .. } = self;
        let ledger = RunLedger::new(self.open()?, config.data_set(), study, run)?;
        Ok(Charged { ledger, anchor: config.anchor()?, state: config.state.clone(), persons: None })
    }

    /// What a run without a result has cost here, in a sentence.
    pub(crate) fn cost(self, run: RunId) -> Option<String> {
        let (ledger, name) = (self.open().ok()?, run.to_string());
        if ledger.is_withdrawn(&name) {
            return Some(format!(
                "run {run} costs nothing: nothing of it had left, and its charge was taken back (`privacy status`)"
            ));
        }
        if !ledger.is_reserved(&name) {
            return Some(
                "the privacy ledger is as it was: nothing was reserved for this run, and nothing was sent".to_string(),
            );
        }
        let over = match ledger.unreleased(&self.config.data_set()).iter().any(|known| known.run == name) {
            true => "nothing of it has left: if it is over there, the next run of this study takes its charge back",
            false => "if it is over there, what was reserved stays spent, because some of its releases may have left",
        };
        Some(format!(
            "run {run} is reserved: while the coordinator has it open the same command goes on with it, and nothing is charged again; \
             {over} (`privacy status`)"
        ))
    }

    /// Keeps the coordinator's last word of a run whose budget is reserved, so that the result is not lost where it cannot be written.
    pub(crate) fn keep_outcome(self, run: RunId, exit: Exit, report: &str) -> Result<(), LedgerError> {
        let (mut ledger, run) = (self.open()?, run.to_string());
        match ledger.is_reserved(&run) {
            true => ledger.keep_received(&run, OUTCOME, format!("{}\n{report}", exit.code()).as_bytes()),
            false => Ok(()),
        }
    }

    /// A run of the study that ended and whose result was not written: its name, its exit code and the coordinator's report.
    pub(crate) fn kept_outcome(self) -> Option<(RunId, Exit, String)> {
        let mut ledger = self.open().ok()?;
        let (data_set, study) = (self.config.data_set(), self.study.digest().to_string());
        let run = ledger.unfinished_with(&data_set, &study, OUTCOME)?.to_string();
        let text = String::from_utf8(ledger.received(&run, OUTCOME).ok()??).ok()?;
        let (code, report) = text.split_once('\n')?;
        Some((run.parse().ok()?, Exit::from_code(code.parse().ok()?), report.to_string()))
    }

    /// Says in the ledger that a run is over, once its result is where it belongs.
    pub(crate) fn close(self, run: RunId) -> Result<(), Failure> {
        let (mut ledger, run) = (self.open()?, run.to_string());
        if ledger.is_reserved(&run) {
            ledger.finish(&run)?;
            forget(&self.config.anchor()?, &run);
        }
        Ok(())
    }

    /// The privacy account of a worker's report.
    pub(crate) fn statement(self, run: RunId) -> Result<Statement, Failure> {
        let Private { config, study, .. } = self;
        let ledger = self.open()?;
        let account = ledger.account(&config.data_set())?;
        let charge = study.site_charge().unwrap_or(0.0);
        let receipts = ledger.receipts(&run.to_string());
        let opening = receipts.first().map(|release| release.sigma);
        let mut statement = Statement::new(&account, receipts, charge, study.site_protects());
        if let (SiteMethod::Stream(stream), Some(sigma)) = (&study.method.method, opening) {
            statement.account.extend(of_records(stream.spending(&study.guarantee), sigma));
        }
        statement.shorten();
        Ok(statement)
    }
}

/// What the account says of single records where their noise differs from that of the release that stands for all.
fn of_records(spending: Spending, sigma: f64) -> Option<String> {
    match spending {
        Spending::Even { records: 0 | 1 } => None,
        Spending::Even { records } => {
            let sigma = sigma * f64::from(records).sqrt();
            Some(format!("each record: sigma {sigma:.6}, as a person may have {records}"))
        }
        Spending::Sequence(sequence) => {
            let ((epsilon, delta), part) = (sequence.budget(1), Costs::new(spending).of(1) as f64);
            let sigma = sigma * (spending.room() as f64 / part).sqrt();
            let (by_epsilon, by_delta) = sequence.exponents();
            Some(format!(
                "the n-th record: epsilon {epsilon} / n^{by_epsilon}, delta {delta:e} / n^{by_delta}, sigma {sigma:.6} for the first; a person's \
                 records were used while their sum was within the budget of the run"
            ))
        }
    }
}

/// Where the ledger keeps how a run ended, beside what came of a coordinator.
const OUTCOME: u32 = u32::MAX;

/// What a private run has beside its rows: its ledger, and the store that counts the records of a stream.
pub(crate) struct Charged {
    pub(crate) ledger: RunLedger<LedgerFile>,
    anchor: PathBuf,
    /// Folder for what must survive the process.
    state: PathBuf,
    persons: Option<Persons>,
}

impl Charged {
    /// Finds that the budget is there, or is reserved already; nothing is charged.
    pub(crate) fn claim(&mut self, claim: Claim, content: &[u8]) -> Result<(), Failure> {
        if let Some(spending) = claim.spending() {
            self.persons = Some(Persons::open(&self.state, self.ledger.ledger.key()?, spending)?);
        }
        Ok(self.ledger.claim(claim, content)?)
    }

    /// Charges what was claimed. The records of a stream must have been counted from the first on.
    pub(crate) fn reserve(&mut self) -> Result<(), Failure> {
        self.ledger.reserve()?;
        if self.persons.is_some() {
            self.ledger.withdrawn().iter().for_each(|run| forget(&self.anchor, run));
        }
        match (&mut self.persons, self.ledger.has_begun()) {
            (None, _) => Ok(()),
            (Some(persons), false) => persons.begin(self.ledger.run(), &self.anchor),
            (Some(persons), true) => persons.must_know(self.ledger.run(), &self.anchor),
        }
    }

    /// The noised records that were stored under this number, if there are any.
    pub(crate) fn kept(&self, number: u64, right: &PerRecord) -> Result<Option<NoisedRecords>, Failure> {
        match &self.persons {
            Some(persons) => persons.kept((self.ledger.run(), number), right),
            None => Ok(None),
        }
    }

    /// Charges the persons of these records, and stores what `make` noises of them; it is told the place of the first, and which may be used.
    pub(crate) fn noise(
        &mut self,
        number: u64,
        ids: &[Vec<u8>],
        make: impl FnOnce(u64, &[bool], &mut NoisePool) -> Result<NoisedRecords, Abort>,
    ) -> Result<(NoisedRecords, u64), Failure> {
        let persons = self.persons.as_mut().ok_or_else(|| Abort::Bug("records that are not counted".to_string()))?;
        let run = self.ledger.run().to_string();
        let pool = &mut self.ledger.pool;
        persons.spend(ids, (&run, number), |first, usable| Ok(make(first, usable, pool)?))
    }
}

/// Registers a worker's data set with its budget, and makes the ledger if there is none.
///
/// # Errors
/// A table or a budget that cannot be used, and a ledger that refuses.
pub fn init(config: &Config) -> Result<Account, Failure> {
    let study = super::join::study(config)?;
    Private::of(config, &study).ok_or_else(not_private)?.register()
}

/// The persons of a table, and its number of rows.
fn read_persons(
    config: &Config,
    study: &Study<Sites>,
    key: &[u8; 32],
    most: u32,
) -> Result<(PersonDigests, u64), Failure> {
    let (mut digester, mut rows) = (PersonDigester::new(key), 0);
    each_id(config, study, |id| {
        digester.push(id);
        rows += 1;
    })?;
    Ok((digester.finish(most)?, rows))
}

/// Records a run without privacy: later private reports on its persons say so.
pub(crate) fn record_plain(config: &Config, study: &Study<Sites>, run: RunId) -> Result<(), Failure> {
    let peer = &study.head.coordinator.certificate;
    let line = PlainLine::now(run, config.data_set(), &config.data.file, vec![peer.to_owned()], study.digest());
    plain::record(&config.ledger(), config.anchor(), line, |key| {
        // What comes through a pipe or will come in a stream is gone when it could be recorded, or not there yet.
        match follows(study) || config.reads_stdin() {
            true => Ok(PersonDigests::anyone()),
            false => Ok(read_persons(config, study, key, u32::MAX)?.0),
        }
    })
}

#[cfg(test)]
mod tests {
    use fedreg_common::privacy::accountant::{Accountant, Budget};
    use fedreg_common::privacy::mechanism::records::Sequence;

    use super::*;

    fn sites(text: &str) -> Study<Sites> {
        Study::parse(text).unwrap().sites().unwrap()
    }

    #[test]
    fn the_account_of_a_stream_says_what_noise_a_record_has_where_it_is_not_that_of_the_release() {
        assert_eq!(of_records(Spending::Even { records: 1 }, 2.0), None);
        let four = of_records(Spending::Even { records: 4 }, 2.0).unwrap();
        assert_eq!(four, "each record: sigma 4.000000, as a person may have 4");
        let whole = Budget::new(1.0, 1e-6, Accountant::Zcdp, 1, false).unwrap();
        let sequence = Sequence::new(whole, (0.5, 1e-6), (0.25, 1.0), 50);
        // Half of epsilon is .27268568 of the budget (fifty digits): 2 over its root.
        let said = of_records(Spending::Sequence(sequence), 2.0).unwrap();
        let expected = "the n-th record: epsilon 0.5 / n^0.25, delta 1e-6 / n^1, sigma 3.830000 for the first; a person's records were used";
        assert!(said.starts_with(expected), "{said}");
    }

    #[test]
    fn a_stream_that_grew_too_long_for_its_delta_says_so() {
        let text = |mode: &str| {
            format!(
                "id = \"long\"\nprotocol = \"stream\"\n{mode}\n[workers.a]\ncertificate = \"a\"\n[model]\nfeatures = \
                 [\"x\"]\n[outcome]\ncolumn = \"y\"\n[columns.x]\nrange = [0, 1]\n[columns.y]\nrange = [-1, 1]\n[stream]\ngrid = 8"
            )
        };
        let study = sites(&text("mode = \"private\"\n[privacy]\nepsilon = 1.0\ndelta = 1e-3"));
        let config = toml::from_str(super::super::join::tests::CONFIG).unwrap();
        let private = Private::of(&config, &study).unwrap();
        assert_eq!(private.too_long(1000), None);
        let note = private.too_long(1001).unwrap();
        assert!(note.contains("delta 1e-3 is above one over the 1001 records"), "{note}");
        assert!(Private::of(&config, &sites(&text(""))).is_none());
    }
}
