//! What a worker spends in private mode: its ledger and its noise.

use std::fs::File;
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
        Ok(Charged { ledger, anchor: config.anchor()?, state: config.state.clone(), persons: None, alone: None })
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
    /// Held for as long as the stream goes on.
    alone: Option<File>,
}

impl Charged {
    /// Finds that the budget is there, or is reserved already; nothing is charged.
    pub(crate) fn claim(&mut self, claim: Claim, content: &[u8]) -> Result<(), Failure> {
        if let Some(spending) = claim.spending() {
            self.alone = Some(ledger::stream_alone(self.ledger.ledger.storage())?);
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
        let Some(persons) = &mut self.persons else { return Ok(()) };
        let run = self.ledger.run().to_string();
        // Before anything is written here or beside the anchor, for whoever restores what is missing.
        persons.prove(&run, self.ledger.ledger.checkpoint(&run)?.as_ref(), self.ledger.has_begun())?;
        match self.ledger.has_begun() {
            false => persons.begin(&run, &self.anchor)?,
            true => persons.must_know(&run, &self.anchor)?,
        }
        self.filter()
    }

    /// Lets the ledger pass what the persons have spent: its last checkpoint must be of this store, and the one that the store is ahead
    /// by is written.
    fn filter(&mut self) -> Result<(), Failure> {
        let Some(persons) = &self.persons else { return Ok(()) };
        let run = self.ledger.run().to_string();
        let last = self.ledger.ledger.checkpoint(&run)?;
        persons.prove(&run, last.as_ref(), self.ledger.has_begun())?;
        let Some(((messages, word), most)) = persons.last_word(&run)? else { return Ok(()) };
        if last.is_none_or(|last| last.messages < messages) {
            self.ledger.ledger.filter(&run, (messages, &word), (most, persons.room()))?;
        }
        Ok(())
    }

    /// There are no more records: a stream ends with a checkpoint.
    pub(crate) fn end(&mut self) -> Result<(), Failure> {
        if let Some(persons) = &self.persons {
            persons.keep_word(self.ledger.run())?;
        }
        self.filter()
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
        let spent = persons.spend(ids, (&run, number), |first, usable| Ok(make(first, usable, pool)?))?;
        if persons.is_due() {
            self.filter()?;
        }
        Ok(spent)
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
    use std::collections::BTreeMap;
    use std::fs;

    use fedreg_common::privacy::accountant::{Accountant, Budget};
    use fedreg_common::privacy::mechanism::Query;
    use fedreg_common::privacy::mechanism::records::Sequence;
    use fedreg_common::star::site;

    use super::*;

    const STREAM: &str = "id = \"filter\"\nprotocol = \"stream\"\nmode = \"private\"\n[privacy]\nepsilon = 1.0\ndelta = \
        1e-5\n[workers.a]\ncertificate = \"a\"\n[model]\nfeatures = [\"x\"]\n[outcome]\ncolumn = \"y\"\n[columns.x]\nrange = [0, \
        1]\n[columns.y]\nrange = [-1, 1]\n[stream]\ngrid = 8\nrecords_per_person = 2";

    /// A folder with a ledger in which a stream is registered, and with state folders.
    struct Home(tempfile::TempDir);

    impl Home {
        fn new() -> Home {
            let home = Home(tempfile::tempdir().unwrap());
            let mut ledger = ledger::open_or_create(&home.path("privacy.sqlite"), &home.path("anchors/a")).unwrap();
            let budget = Budget::new(1.0, 1e-5, Accountant::Zcdp, 1, false).unwrap();
            let (data_set, persons, bounds) = ("cohort".to_string(), PersonDigests::anyone(), BTreeMap::new());
            ledger.register(&Registration { data_set, persons, budget, bounds }).unwrap();
            home
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        /// A process with a state folder, before its run is reserved.
        fn process(&self, state: &str) -> Result<Charged, Failure> {
            let (study, anchor, state) = (sites(STREAM), self.path("anchors/a"), self.path(state));
            fs::create_dir_all(&state).unwrap();
            let ledger = ledger::open(&self.path("privacy.sqlite"), &anchor)?;
            let ledger = RunLedger::new(ledger, "cohort".to_string(), &study, RunId([3; 16]))?;
            let mut charged = Charged { ledger, anchor, state, persons: None, alone: None };
            let persons = site::charge::Persons::Anyone { spending: Spending::Even { records: 2 } };
            charged.claim(Claim { persons, plan: None }, &[])?;
            Ok(charged)
        }

        /// The same in its run, with the release that stands for all.
        fn running(&self, state: &str) -> Result<Charged, Failure> {
            let mut charged = self.process(state)?;
            charged.reserve()?;
            charged.ledger.release(0, &Query::histogram(2, [0].into_iter()))?;
            Ok(charged)
        }

        fn refusal(&self, state: &str) -> String {
            let Err(failure) = self.running(state) else { panic!("it goes on") };
            assert_eq!(failure.exit(), Exit::Refused);
            crate::output::chain(&failure)
        }

        /// Number of the last checkpoint, its messages and the most that was spent.
        fn last(&self) -> Option<(u64, u64, u64)> {
            let mut ledger = ledger::open(&self.path("privacy.sqlite"), &self.path("anchors/a")).unwrap();
            let last = ledger.checkpoint(&RunId([3; 16]).to_string()).unwrap();
            last.map(|last| (last.sequence, last.messages, last.most))
        }

        fn mark(&self) -> PathBuf {
            ledger::beside(&self.path("anchors/a"), &format!("{}.stream", RunId([3; 16])))
        }

        /// Puts a state folder and its mark away, or back.
        fn put(&self, from: &str, to: &str) {
            let _ = fs::remove_dir_all(self.path(to));
            fs::create_dir(self.path(to)).unwrap();
            for entry in fs::read_dir(self.path(from)).unwrap() {
                let entry = entry.unwrap();
                fs::copy(entry.path(), self.path(to).join(entry.file_name())).unwrap();
            }
        }
    }

    fn message(charged: &mut Charged, number: u64, who: &str) -> Result<u64, Failure> {
        Ok(charged.noise(number, &[who.as_bytes().to_vec()], |_, _, _| Ok(NoisedRecords::default()))?.1)
    }

    #[test]
    fn a_store_without_the_word_of_the_ledgers_last_checkpoint_is_refused_although_its_mark_is_of_the_same_day() {
        let home = Home::new();
        let mut charged = home.running("state").unwrap();
        assert_eq!(home.last(), Some((0, 0, 0)));
        for (number, who, last) in [(0, "ann", (1, 1, 1)), (1, "ann", (2, 2, 2)), (2, "bea", (2, 2, 2))] {
            assert_eq!(message(&mut charged, number, who).unwrap(), 0);
            assert_eq!(home.last(), Some(last));
        }
        drop(charged);
        home.put("state", "old");
        let old_mark = fs::read(home.mark()).unwrap();
        let mut charged = home.running("state").unwrap();
        for number in 3..6 {
            message(&mut charged, number, "bea").unwrap();
        }
        assert_eq!(home.last(), Some((3, 4, 2)));
        drop(charged);
        home.put("state", "latest");
        let mark = fs::read(home.mark()).unwrap();
        // Another folder, with or without the copy of that of before, whose mark is restored or gone.
        let new = home.refusal("another");
        assert!(
            new.contains(
                "another/stream.sqlite, which counts the records of each person, was deleted, rolled back or replaced"
            ),
            "{new}"
        );
        assert!(
            new.contains("last checkpoint of run 0303") && new.contains("after 4 messages, and does not know the run"),
            "{new}"
        );
        assert!(new.contains("restore the latest, or start a new run"), "{new}");
        fs::write(home.mark(), old_mark).unwrap();
        let old = home.refusal("old");
        assert!(old.contains("after 4 messages, and knows 3 messages"), "{old}");
        fs::remove_file(home.mark()).unwrap();
        assert!(home.refusal("another").contains("does not know the run"));
        assert!(home.refusal("old").contains("knows 3 messages"));
        // Nothing of that was written where the latest one is looked for.
        assert!(!home.mark().exists() && home.last() == Some((3, 4, 2)));
        fs::write(home.mark(), &mark).unwrap();
        let mut charged = home.running("latest").unwrap();
        assert_eq!(message(&mut charged, 6, "ann").unwrap(), 1, "ann has had her records");
        drop(charged);
        // What is not noticed: both of later than the last checkpoint. Of two such copies one comes to the next.
        fs::write(home.mark(), &mark).unwrap();
        let mut fork = home.running("state").unwrap();
        message(&mut fork, 6, "cid").unwrap();
        fork.alone = None;
        fs::write(home.mark(), &mark).unwrap();
        let mut other = home.process("latest").unwrap();
        fs::write(home.mark(), &mark).unwrap();
        other.filter().unwrap();
        message(&mut fork, 7, "dan").unwrap();
        assert_eq!(home.last(), Some((4, 8, 2)));
        let Err(late) = message(&mut other, 7, "dan") else { panic!("two accounts of one run go on") };
        assert!(crate::output::chain(&late).contains("lacks the word of the privacy ledger's last checkpoint"));
    }

    #[test]
    fn a_process_that_was_killed_between_store_and_ledger_goes_on_with_the_checkpoint_that_is_missing() {
        let home = Home::new();
        let run = RunId([3; 16]).to_string();
        // Killed between the store's first lines and the first checkpoint.
        let mut charged = home.process("state").unwrap();
        charged.ledger.reserve().unwrap();
        charged.persons.as_mut().unwrap().begin(&run, &charged.anchor).unwrap();
        drop(charged);
        assert_eq!(home.last(), None);
        // And behind it, before the first release: a folder that is lost then costs nothing.
        let mut charged = home.process("state").unwrap();
        charged.reserve().unwrap();
        drop(charged);
        assert_eq!(home.last(), Some((0, 0, 0)));
        let lost = home.refusal("another");
        assert!(
            lost.ends_with("start a new run: nothing of this one has left, and the next one takes its charge back"),
            "{lost}"
        );
        let mut charged = home.running("state").unwrap();
        message(&mut charged, 0, "ann").unwrap();
        // Killed between a message and its checkpoint.
        let make = |_: u64, _: &[bool]| Ok(NoisedRecords::default());
        charged.persons.as_mut().unwrap().spend(&[b"ann".to_vec()], (&run, 1), make).unwrap();
        drop(charged);
        assert_eq!(home.last(), Some((1, 1, 1)));
        let mut charged = home.running("state").unwrap();
        assert_eq!(home.last(), Some((2, 2, 2)));
        assert_eq!(message(&mut charged, 2, "ann").unwrap(), 1);
        assert_eq!(home.last(), Some((2, 2, 2)));
        // The end is a checkpoint, once.
        (0..2).for_each(|_| charged.end().unwrap());
        assert_eq!(home.last(), Some((3, 3, 2)));
    }

    #[test]
    fn a_run_that_began_before_there_were_checkpoints_goes_on_and_has_them_from_then_on() {
        let home = Home::new();
        let run = RunId([3; 16]).to_string();
        let mut charged = home.process("state").unwrap();
        charged.ledger.reserve().unwrap();
        let persons = charged.persons.as_mut().unwrap();
        persons.begin(&run, &charged.anchor).unwrap();
        charged.ledger.release(0, &Query::histogram(2, [0].into_iter())).unwrap();
        for (number, who) in [(0, "ann"), (1, "ann"), (2, "bea")] {
            let make = |_: u64, _: &[bool]| Ok(NoisedRecords::default());
            persons.spend(&[who.as_bytes().to_vec()], (&run, number), make).unwrap();
        }
        drop(charged);
        let tool = rusqlite::Connection::open(home.path("state/stream.sqlite")).unwrap();
        tool.execute_batch("DROP TABLE words; DROP TABLE most;").unwrap();
        drop(tool);
        let mut charged = home.running("state").unwrap();
        assert_eq!(home.last(), Some((0, 3, 2)));
        assert_eq!(message(&mut charged, 3, "ann").unwrap(), 1);
        assert_eq!(home.last(), Some((1, 4, 2)));
    }

    #[test]
    fn two_state_folders_do_not_stream_on_one_ledger_at_the_same_time() {
        let home = Home::new();
        let charged = home.running("state").unwrap();
        for state in ["state", "another"] {
            let said = home.refusal(state);
            assert!(
                said.contains("another process streams on the privacy ledger") && said.contains("privacy.sqlite"),
                "{said}"
            );
        }
        drop(charged);
        home.running("state").unwrap();
    }

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
