//! What a worker spends in private mode: its ledger, its noise, and the persons of a stream.

use std::path::{Path, PathBuf};

use fedreg_common::id::{Digest, RunId};
use fedreg_common::privacy::accountant::Budget;
use fedreg_common::privacy::ledger::{Account, Grant, Ledger, LedgerError, PersonDigests, Registration, keyed};
use fedreg_common::privacy::mechanism::records::{NoisedRecords, PerRecord};
use fedreg_common::privacy::mechanism::{NoisedRelease, Query, ReleasePlan, release};
use fedreg_common::privacy::sampler::NoisePool;
use fedreg_common::privacy::statement::Statement;
use fedreg_common::session::Abort;
use fedreg_common::study::{Protocol, Study};
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::json;

use super::batches::{Arrival, Encoding, Source};
use super::config::Config;
use crate::ledger::{self, LedgerFile};
use crate::output::OutputError;
use crate::service::Failure;

/// Lines of a worker's account that are shown; its JSON has all releases.
const SHOWN: usize = 12;

/// A worker's ledger in one run.
pub(crate) struct Purse {
    ledger: Ledger<LedgerFile>,
    data_set: String,
    run: String,
    study: String,
    coordinator: String,
    plan: ReleasePlan,
    budget: Budget,
    large: bool,
    pub(crate) pool: NoisePool,
}

/// What a run asks of the ledger, found to be possible.
#[derive(Debug)]
pub(crate) struct Claim {
    persons: PersonDigests,
    about: String,
    /// Whether an earlier process has reserved it.
    reserved: bool,
}

/// Opens a worker's ledger.
pub(crate) fn open(config: &Config) -> Result<Ledger<LedgerFile>, LedgerError> {
    ledger::open(&config.ledger(), &config.anchor())
}

/// Whether this worker's policy allows what the study asks for.
pub(crate) fn allowed(config: &Config, study: &Study) -> Result<(), Failure> {
    let asked = study.privacy.as_ref().map_or(0.0, |terms| terms.epsilon);
    match config.policy.max_epsilon {
        Some(most) if study.noised() && asked > most => Err(Abort::Refused(format!(
            "the study asks for epsilon {asked} in one run, and this worker's policy allows {most}"
        ))
        .into()),
        _ => Ok(()),
    }
}

/// Refuses a budget whose delta is above one over so many rows.
fn suits(budget: &Budget, rows: u64, large: bool) -> Result<(), Failure> {
    let checked = Budget::new(budget.epsilon(), budget.delta(), budget.accountant(), rows, large);
    checked.map(drop).map_err(|error| Abort::Refused(error.to_string()).into())
}

/// The budget of a private stream, and whether an epsilon above the limit is meant.
fn stream_budget(study: &Study) -> Option<(Budget, bool)> {
    let budget = study.site_budget().ok().flatten().filter(|_| study.protocol == Protocol::Stream)?;
    Some((budget, study.privacy.as_ref().is_some_and(|terms| terms.large_epsilon.is_some())))
}

/// Records that the file of a stream has now; `None` where there is no file to be counted.
fn records(config: &Config, study: &Study) -> Result<Option<u64>, Failure> {
    if config.reads_stdin() || !config.data.file.is_file() {
        return Ok(None);
    }
    let encoding = Encoding::new(study, config.separator()).map_err(|error| Failure::Usage(error.to_string()))?;
    Ok(Some(Source::open(config, encoding.lenient(), 1, &Arrival::default())?.count()?))
}

/// Refuses a private stream from a whole file whose records are too many for its delta, before anything is spent.
pub(crate) fn countable(config: &Config, study: &Study) -> Result<(), Failure> {
    let Some((budget, large)) = stream_budget(study) else { return Ok(()) };
    match records(config, study)? {
        Some(rows) => suits(&budget, rows.max(1), large),
        None => Ok(()),
    }
}

/// What a report says of a private stream that turned out to have too many records for its delta.
pub(crate) fn too_long(study: &Study, records: u64) -> Option<String> {
    let delta = stream_budget(study)?.0.delta();
    (delta > 1.0 / records.max(1) as f64).then(|| {
        format!(
            "delta {delta:e} is above one over the {records} records of this worker, which were not known beforehand: it permits \
             publishing whole records; choose a smaller one for the next run"
        )
    })
}

impl Purse {
    /// Opens the ledger for a run. Nothing is spent yet.
    pub(crate) fn open(config: &Config, study: &Study, run: RunId) -> Result<Purse, Failure> {
        let refused = |error: fedreg_common::study::StudyError| Abort::Refused(error.to_string());
        let missing = || Abort::Bug("a private run without a budget".to_string());
        Ok(Purse {
            ledger: open(config)?,
            data_set: config.data_set(),
            run: run.to_string(),
            study: study.digest().to_string(),
            coordinator: study.coordinator.certificate.clone(),
            plan: study.site_plan().ok_or_else(missing)?,
            budget: study.site_budget().map_err(refused)?.ok_or_else(missing)?,
            large: study.privacy.as_ref().is_some_and(|terms| terms.large_epsilon.is_some()),
            pool: NoisePool::new(),
        })
    }

    /// Changes what the run will release, before its budget is reserved.
    pub(crate) fn plan(&mut self, plan: ReleasePlan) {
        self.plan = plan;
    }

    /// What the run asks of the ledger for all its releases about these persons, once it is found that the budget is there or is
    /// reserved already; nothing is charged. `content` is a digest of the rows in their order: releases of one run are charged
    /// together because they are about the same rows, each in its place.
    pub(crate) fn claim<I: AsRef<[u8]>>(
        &mut self,
        ids: impl IntoIterator<Item = I>,
        rows: u64,
        content: &[u8],
    ) -> Result<Claim, Failure> {
        let key = self.ledger.key()?;
        let persons = PersonDigests::new(&key, ids, 1)?;
        // Delta must be below one over the rows, whose number only this site knows.
        suits(&self.budget, rows, self.large)?;
        let about = format!("{} of rows {}", self.study, Digest(keyed(&key, &[content])));
        let resumes = self.ledger.resumes(&self.run, &self.data_set, &about);
        if matches!(resumes, Err(LedgerError::RunExists { .. })) && self.ledger.is_reserved(&self.run) {
            let run = &self.run;
            return Err(Abort::Refused(format!(
                "the data have changed since run {run} was interrupted: what it reserved is spent; start a new run"
            ))
            .into());
        }
        let reserved = resumes?;
        if !reserved {
            self.ledger.afford(&self.data_set, &persons, &self.plan)?;
        }
        Ok(Claim { persons, about, reserved })
    }

    /// Reserves what was claimed, unless it is reserved already. When this returns the charge is on disk.
    pub(crate) fn reserve(&mut self, claim: &Claim) -> Result<(), Failure> {
        if !claim.reserved {
            let peers = [self.coordinator.clone()];
            self.ledger.reserve(&self.run, &self.data_set, &claim.persons, &peers, &claim.about, &self.plan)?;
        }
        Ok(())
    }

    /// One release, or the one that was made before: permitted, noised and stored, in this order.
    pub(crate) fn make(&mut self, index: u32, query: &Query) -> Result<NoisedRelease, Failure> {
        Ok(match self.ledger.permit(&self.run, index)? {
            Grant::Stored(noised) => noised,
            Grant::Fresh(permit) => {
                let unsent = release(query, permit, &mut self.pool).map_err(|error| Abort::Bug(error.to_string()))?;
                self.ledger.store(unsent)?
            }
        })
    }
}

/// A stream has no rows to be told apart by: it is one data set, and its persons stand in a table of their own.
fn stream_persons(ledger: &mut Ledger<LedgerFile>, data_set: &str) -> Result<PersonDigests, LedgerError> {
    PersonDigests::new(&ledger.key()?, [data_set], 1)
}

impl Purse {
    /// What a stream asks of the ledger.
    pub(crate) fn stream_claim(&mut self) -> Result<Claim, Failure> {
        let data_set = self.data_set.clone();
        self.claim([data_set], 1, &[])
    }

    /// Reserves the budget of a stream, and gives the right to noise its records. `persons` must have counted them from the
    /// first record on.
    pub(crate) fn stream(
        &mut self,
        claim: &Claim,
        opening: &Query,
        per_person: u32,
        persons: &mut Persons,
    ) -> Result<PerRecord, Failure> {
        self.reserve(claim)?;
        match self.ledger.receipts(&self.run).is_empty() {
            true => persons.begin(&self.run)?,
            false => persons.must_know(&self.run)?,
        }
        let charged = self.make(0, opening)?;
        Ok(PerRecord::new(&charged, per_person))
    }

    /// Keyed digests of persons, as they stand on disk.
    pub(crate) fn key(&mut self) -> Result<[u8; 32], Failure> {
        Ok(self.ledger.key()?)
    }
}

/// Registers a worker's data set with its budget, and makes the ledger if there is none.
///
/// # Errors
/// A table or a budget that cannot be used, and a ledger that refuses.
pub fn init(config: &Config) -> Result<Account, Failure> {
    let study = fedreg_proto::files::read_study(&config.study)?;
    let asked = study
        .privacy
        .as_ref()
        .filter(|_| study.noised())
        .ok_or_else(|| Failure::Usage("the study is not private: it has no `mode = \"private\"`".to_string()))?;
    let (path, anchor) = (config.ledger(), config.anchor());
    let mut ledger = match ledger::open(&path, &anchor) {
        Err(error) if error.is_missing() => ledger::create(&path, &anchor)?,
        opened => opened?,
    };
    let (persons, rows) = match study.protocol {
        // There may be more to come; but these are known. A file that cannot be read yet is the run's matter.
        Protocol::Stream => {
            let known = records(config, &study).ok().flatten();
            (stream_persons(&mut ledger, &config.data_set())?, known.unwrap_or(1).max(1))
        }
        _ => {
            let ids = super::methods::read_ids(config, &study)?;
            (PersonDigests::new(&ledger.key()?, &ids, 1)?, ids.len() as u64)
        }
    };
    let terms = &config.privacy;
    let budget = Budget::new(
        terms.epsilon.unwrap_or(asked.epsilon),
        terms.delta.or(asked.delta).unwrap_or_else(|| Budget::default_delta(rows)),
        terms.accountant.unwrap_or(asked.accountant),
        rows,
        terms.large_epsilon.is_some() || (terms.epsilon.is_none() && asked.large_epsilon.is_some()),
    )
    .map_err(|error| Abort::Refused(error.to_string()))?;
    let policy = format!("{:?} {:?} {:?}", study.em, study.columns, study.stream);
    let policy = Digest::of(policy.as_bytes()).to_string();
    Ok(ledger.register(&Registration { data_set: config.data_set(), persons, budget, policy })?)
}

/// Records a run without privacy, where these data are registered: later private reports say so.
pub(crate) fn record_plain(config: &Config, study: &Study, run: RunId) -> Result<(), Failure> {
    if study.noised() || (!config.ledger().exists() && !config.anchor().exists()) {
        return Ok(());
    }
    let mut ledger = open(config)?;
    let (data_set, run) = (config.data_set(), run.to_string());
    if ledger.account(&data_set).is_err() {
        return Ok(());
    }
    let persons = match study.protocol {
        Protocol::Stream => stream_persons(&mut ledger, &data_set)?,
        _ if config.reads_stdin() => return Ok(()),
        _ => PersonDigests::new(&ledger.key()?, super::methods::read_ids(config, study)?, 1)?,
    };
    let peers = [study.coordinator.certificate.clone()];
    match ledger.record_plain(&run, &data_set, &persons, &peers, &study.digest().to_string()) {
        // A process that was started again.
        Err(LedgerError::RunExists { .. }) => Ok(()),
        recorded => Ok(recorded?),
    }
}

/// What a run without a result has cost here, in a sentence.
pub(crate) fn cost(config: &Config, run: RunId) -> Option<String> {
    let reserved = open(config).ok()?.is_reserved(&run.to_string());
    Some(match reserved {
        false => "the privacy ledger is as it was: nothing was reserved for this run, and nothing was sent".to_string(),
        true => format!("what run {run} reserved stays spent: `privacy status` shows what is left"),
    })
}

/// The privacy block of a worker's report, and the end of the run in the ledger.
pub(crate) fn close(config: &Config, study: &Study, run: RunId) -> Result<serde_json::Value, Failure> {
    let mut ledger = open(config)?;
    let run = run.to_string();
    let account = ledger.account(&config.data_set())?;
    let charge = study.site_plan().map_or(0.0, |plan| plan.charge());
    let statement = Statement::new(&account, ledger.receipts(&run), charge, study.site_protects());
    let mut block = serde_json::to_value(&statement).unwrap_or_default();
    if let Some(fields) = block.as_object_mut() {
        fields.insert("promise".to_string(), json!(statement.promise()));
        let mut lines = statement.account();
        let per_person = study.stream_terms().records_per_person;
        if let (Protocol::Stream, true, Some(opening)) = (study.protocol, per_person > 1, statement.releases.first()) {
            let sigma = opening.sigma * f64::from(per_person).sqrt();
            lines.push(format!("each record: sigma {sigma:.6}, as a person may have {per_person}"));
        }
        // Rounds with the same noise say the same every time; of many batches the first ones tell enough.
        let first = statement.releases.first();
        let alike = first.is_some_and(|first| statement.releases.iter().all(|release| release.sigma == first.sigma));
        let shown = if alike { 3 } else { SHOWN };
        if lines.len() > shown + 1 {
            let more = lines.len() - shown;
            lines.truncate(shown);
            let rest = if alike { "with the same noise" } else { "stand in the JSON report" };
            lines.push(format!("and {more} more releases {rest}"));
        }
        fields.insert("account".to_string(), json!(lines));
    }
    if ledger.is_reserved(&run) {
        ledger.finish(&run)?;
    }
    Ok(block)
}

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS runs (run TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS persons (digest BLOB PRIMARY KEY, records INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sent (id INTEGER PRIMARY KEY CHECK (id = 0), run TEXT NOT NULL, number INTEGER NOT NULL, bytes BLOB NOT NULL);
";

/// The persons of a stream, and the message that is on its way: on disk before anything leaves, in memory that does not grow.
pub(crate) struct Persons {
    path: PathBuf,
    connection: Connection,
    key: [u8; 32],
    most: u32,
}

impl Persons {
    pub(crate) fn open(state: &Path, key: [u8; 32], most: u32) -> Result<Persons, Failure> {
        let path = state.join("stream.sqlite");
        let open = || -> rusqlite::Result<Connection> {
            let connection = Connection::open(&path)?;
            connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;")?;
            connection.execute_batch(SCHEMA)?;
            Ok(connection)
        };
        let connection = open().map_err(|source| failed(&path, source))?;
        Ok(Persons { path, connection, key, most })
    }

    /// Notes that the records of a run are counted here, before the first of them is noised.
    fn begin(&self, run: &str) -> Result<(), Failure> {
        let noted = self.connection.execute("INSERT OR IGNORE INTO runs (run) VALUES (?1)", [run]);
        noted.map(drop).map_err(|source| failed(&self.path, source))
    }

    /// Refuses to go on with a run whose records were counted elsewhere.
    fn must_know(&self, run: &str) -> Result<(), Failure> {
        let known: Option<i64> = self
            .connection
            .query_row("SELECT 1 FROM runs WHERE run = ?1", [run], |row| row.get(0))
            .optional()
            .map_err(|source| failed(&self.path, source))?;
        match known {
            Some(_) => Ok(()),
            None => Err(Abort::Refused(format!(
                "{} counts the records of each person, and does not know run {run}, which has begun: it was deleted or replaced; \
                 what the run reserved is spent, start a new one",
                self.path.display()
            ))
            .into()),
        }
    }

    /// Every run is charged by itself, so that a person's records are counted in each.
    fn digest(&self, run: &str, id: &[u8]) -> [u8; 16] {
        let full = keyed(&self.key, &[run.as_bytes(), &[0], id]);
        let mut short = [0; 16];
        short.copy_from_slice(&full[..16]);
        short
    }

    /// Counts records of these persons and keeps the message that they make. `make` is told which of them may be used.
    pub(crate) fn spend(
        &mut self,
        ids: &[Vec<u8>],
        (run, number): (&str, u64),
        make: impl FnOnce(&[bool]) -> Result<NoisedRecords, Failure>,
    ) -> Result<(NoisedRecords, u64), Failure> {
        let digests: Vec<[u8; 16]> = ids.iter().map(|id| self.digest(run, id)).collect();
        let path = self.path.clone();
        let wrong = |source| failed(&path, source);
        let transaction = self.connection.transaction().map_err(wrong)?;
        let mut usable = Vec::with_capacity(digests.len());
        let count = |digest: &[u8; 16]| -> rusqlite::Result<bool> {
            let mut query = transaction.prepare_cached("SELECT records FROM persons WHERE digest = ?1")?;
            let before: u32 = query.query_row([digest.as_slice()], |row| row.get(0)).optional()?.unwrap_or(0);
            if before >= self.most {
                return Ok(false);
            }
            let mut add =
                transaction.prepare_cached("INSERT OR REPLACE INTO persons (digest, records) VALUES (?1, ?2)")?;
            add.execute(params![digest.as_slice(), before + 1])?;
            Ok(true)
        };
        for (id, digest) in ids.iter().zip(&digests) {
            // Without a name a record belongs to nobody who could be charged.
            usable.push(!id.is_empty() && count(digest).map_err(wrong)?);
        }
        let refused = usable.iter().filter(|usable| !**usable).count() as u64;
        let records = make(&usable)?;
        transaction
            .execute(
                "INSERT OR REPLACE INTO sent (id, run, number, bytes) VALUES (0, ?1, ?2, ?3)",
                params![run, i64::try_from(number).unwrap_or(i64::MAX), records.encode()],
            )
            .map_err(wrong)?;
        transaction.commit().map_err(wrong)?;
        Ok((records, refused))
    }

    /// The message of this number, if it was kept.
    pub(crate) fn kept(&self, (run, number): (&str, u64), right: &PerRecord) -> Result<Option<NoisedRecords>, Failure> {
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        let bytes: Option<Vec<u8>> = self
            .connection
            .query_row("SELECT bytes FROM sent WHERE run = ?1 AND number = ?2", params![run, number], |row| row.get(0))
            .optional()
            .map_err(|source| failed(&self.path, source))?;
        Ok(bytes.and_then(|bytes| NoisedRecords::decode(&bytes, right)))
    }
}

fn failed(path: &Path, source: rusqlite::Error) -> Failure {
    OutputError { path: path.to_path_buf(), source: std::io::Error::other(source) }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_that_grew_too_long_for_its_delta_says_so() {
        let text = |mode: &str| {
            format!(
                "id = \"long\"\nprotocol = \"stream\"\n{mode}\n[workers.a]\ncertificate = \"a\"\n[model]\nfeatures = \
                 [\"x\"]\n[outcome]\ncolumn = \"y\"\n[columns.x]\nrange = [0, 1]\n[columns.y]\nrange = [-1, 1]\n[stream]\ngrid = 8"
            )
        };
        let study = Study::parse(&text("mode = \"private\"\n[privacy]\nepsilon = 1.0\ndelta = 1e-3")).unwrap();
        assert_eq!(too_long(&study, 1000), None);
        let note = too_long(&study, 1001).unwrap();
        assert!(note.contains("delta 1e-3 is above one over the 1001 records"), "{note}");
        assert_eq!(too_long(&Study::parse(&text("")).unwrap(), u64::MAX), None);
    }

    #[test]
    fn a_person_with_more_records_than_declared_is_refused_also_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let ids = |names: &[&str]| names.iter().map(|name| name.as_bytes().to_vec()).collect::<Vec<_>>();
        let seen = |persons: &mut Persons, names: &[&str]| {
            let mut seen = Vec::new();
            let make = |usable: &[bool]| {
                seen = usable.to_vec();
                Ok(NoisedRecords::default())
            };
            persons.spend(&ids(names), ("run", 0), make).unwrap();
            seen
        };
        let mut persons = Persons::open(folder.path(), [7; 32], 2).unwrap();
        assert_eq!(seen(&mut persons, &["ann", "bea", "ann", "ann", ""]), [true, true, true, false, false]);
        drop(persons);
        let mut persons = Persons::open(folder.path(), [7; 32], 2).unwrap();
        assert_eq!(seen(&mut persons, &["bea", "ann", "bea", "cid"]), [true, false, false, true]);
        let text = std::fs::read(folder.path().join("stream.sqlite")).unwrap();
        assert!(!text.windows(3).any(|part| part == b"ann"), "a name is on disk");
    }

    #[test]
    fn a_run_that_has_begun_goes_on_only_where_its_persons_were_counted() {
        let folder = tempfile::tempdir().unwrap();
        let persons = Persons::open(folder.path(), [7; 32], 1).unwrap();
        persons.begin("run").unwrap();
        drop(persons);
        let persons = Persons::open(folder.path(), [7; 32], 1).unwrap();
        assert!(persons.must_know("run").is_ok());
        drop(persons);
        std::fs::remove_file(folder.path().join("stream.sqlite")).unwrap();
        let error = Persons::open(folder.path(), [7; 32], 1).unwrap().must_know("run").unwrap_err();
        assert_eq!(error.exit(), fedreg_common::exit::Exit::Refused);
        assert!(crate::service::chain(&error).contains("deleted or replaced"));
    }

    #[test]
    fn a_message_that_could_not_be_made_leaves_no_count() {
        let folder = tempfile::tempdir().unwrap();
        let mut persons = Persons::open(folder.path(), [7; 32], 1).unwrap();
        let ids = vec![b"ann".to_vec()];
        let bug = || Failure::from(Abort::Bug("no noise".to_string()));
        assert!(persons.spend(&ids, ("run", 0), |_| Err(bug())).is_err());
        let (_, refused) = persons.spend(&ids, ("run", 0), |_| Ok(NoisedRecords::default())).unwrap();
        assert_eq!(refused, 0);
    }
}
