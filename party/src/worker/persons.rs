//! The persons of a stream: what each has spent, and the message that is on its way.
//!
//! # The ledger's checkpoints
//!
//! The account is a file that can be copied, so the ledger has the last word on it ([`Ledger::filter`]): at some messages
//! ([`is_checkpoint`]) it takes down the nonce of that message, and this store keeps the nonces of all of them (`words`). A store without
//! the nonce that the ledger's last checkpoint has is not the one that was there, or an older one, and is refused ([`Persons::prove`]).
//!
//! The order is: the message, its spends and its nonce are committed here; the checkpoint is written in the ledger; the message is sent.
//! Each is synced before the next. So the ledger never has a word that a power cut can take away from the store, and a process that was
//! killed leaves one of two states. The store has a word more than the ledger: the next start writes that checkpoint, before anything of
//! the run is sent. Or they are level. An honest party goes on from either. A store that was put back to before the last checkpoint lacks
//! its word. One that was put back to after it, with the mark, makes the messages behind the checkpoint again, at each such restore: at the
//! next checkpoint one account of the run goes on, and any other is refused.
//!
//! [`Ledger::filter`]: fedreg_common::privacy::ledger::Ledger::filter

use std::fs::{self, File};
use std::io::{self, ErrorKind, Seek, Write};
use std::path::{Path, PathBuf};

use fedreg_common::privacy::ledger::{Checkpoint, canonical_id, keyed};
use fedreg_common::privacy::mechanism::records::{Costs, NoisedRecords, PerRecord, Spending, admit};
use fedreg_common::privacy::sampler::fresh_key;
use fedreg_common::session::Abort;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::failure::Failure;
use crate::ledger::beside;
use crate::output::{OutputError, make_own, own_file};

/// `persons.records` is what a person has spent: a number of records, or parts of the budget where records have budgets of their own; `places` has
/// the runs whose records have, and how many were noised; `most` has what the person of a run who spent most has spent, `words` the nonces
/// of the messages at which the ledger has checkpoints, or is about to, and what `most` was then. `unanswered` has the last messages, which the
/// coordinator may not have, and `sent` the last one of earlier versions.
const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS runs (run TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS messages (run TEXT PRIMARY KEY, number INTEGER NOT NULL, nonce BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS persons (digest BLOB PRIMARY KEY, records INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS places (run TEXT PRIMARY KEY, records INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS most (run TEXT PRIMARY KEY, records INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS words (run TEXT, number INTEGER, nonce BLOB NOT NULL, most INTEGER NOT NULL, PRIMARY KEY (run, number)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS unanswered (run TEXT, number INTEGER, bytes BLOB NOT NULL, PRIMARY KEY (run, number)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sent (id INTEGER PRIMARY KEY CHECK (id = 0), run TEXT NOT NULL, number INTEGER NOT NULL, bytes BLOB NOT NULL);
";

/// Keeps the nonce of a run's last message for a checkpoint.
const KEEP_WORD: &str = "INSERT OR IGNORE INTO words (run, number, nonce, most) SELECT m.run, m.number, m.nonce, coalesce(t.records, 0) \
    FROM messages m LEFT JOIN most t ON t.run = m.run WHERE m.run = ?1";

/// How many messages of a run were kept, and a word that only their last one has.
type Count = (u64, [u8; 32]);

/// Messages that are kept: more than may be on their way and wait in this process, which is half a window.
const KEPT: i64 = 2 * super::join::WINDOW as i64;

/// Messages between two checkpoints, once so many were counted; they double before.
const APART: u64 = 1024;

/// Whether the ledger has a checkpoint when so many messages of a run were counted.
fn is_checkpoint(messages: u64) -> bool {
    messages.is_multiple_of(APART) || (messages < APART && messages.is_power_of_two())
}

/// How far a run has come, in a file beside the ledger's anchor: an older copy of the store, put back by hand, is behind it.
///
/// It is written after the store, and synced only when it is made: what a power cut may lose makes it older, never newer.
struct Mark {
    file: File,
}

impl Mark {
    /// Of a run, under the ledger's anchor.
    fn path(anchor: &Path, run: &str) -> PathBuf {
        beside(anchor, &format!("{run}.stream"))
    }

    fn read(path: &Path) -> Result<Option<Count>, Failure> {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(OutputError { path: path.to_path_buf(), source }.into()),
        };
        let parts = bytes.split_first_chunk::<8>().and_then(|(number, nonce)| Some((number, nonce.try_into().ok()?)));
        let Some((number, nonce)) = parts else {
            let sentence = format!("{} does not say how far the stream has come: restore it", path.display());
            return Err(Failure::Account(sentence));
        };
        Ok(Some((u64::from_le_bytes(*number), nonce)))
    }

    fn make(path: &Path, count: Count) -> Result<Mark, Failure> {
        let made = || -> io::Result<Mark> {
            let mut mark = Mark { file: own_file().truncate(false).write(true).open(path)? };
            mark.move_to(count)?;
            mark.file.sync_all()?;
            sync_folder(path)?;
            Ok(mark)
        };
        made().map_err(|source| OutputError { path: path.to_path_buf(), source }.into())
    }

    fn move_to(&mut self, (number, nonce): Count) -> io::Result<()> {
        let mut bytes = [0; 40];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        bytes[8..].copy_from_slice(&nonce);
        self.file.rewind()?;
        self.file.write_all(&bytes)
    }
}

/// The run is over: nobody goes on with it.
pub(super) fn forget(anchor: &Path, run: &str) {
    let _ = fs::remove_file(Mark::path(anchor, run));
}

/// The persons of a stream, and the message that is on its way: on disk before anything leaves, in memory that does not grow.
pub(crate) struct Persons {
    path: PathBuf,
    connection: Connection,
    key: [u8; 32],
    costs: Costs,
    mark: Option<Mark>,
    /// Whether the last message is one at which the ledger has a checkpoint.
    due: bool,
}

impl Persons {
    pub(crate) fn open(state: &Path, key: [u8; 32], spending: Spending) -> Result<Persons, Failure> {
        let path = state.join("stream.sqlite");
        let open = || -> rusqlite::Result<Connection> {
            // SQLite gives its other files the rights of this one.
            make_own(&path).map_err(|source| rusqlite::Error::ToSqlConversionFailure(source.into()))?;
            let connection = Connection::open(&path)?;
            connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;")?;
            connection.execute_batch(SCHEMA)?;
            Ok(connection)
        };
        let connection = open().map_err(|source| failed(&path, source))?;
        sync_folder(&path).map_err(|source| OutputError { path: path.clone(), source })?;
        Ok(Persons { path, connection, key, costs: Costs::new(spending), mark: None, due: false })
    }

    fn sql<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, Failure> {
        work(&self.connection).map_err(|source| failed(&self.path, source))
    }

    /// Notes that the records of a run are counted here, before the first of them is noised.
    pub(super) fn begin(&mut self, run: &str, anchor: &Path) -> Result<(), Failure> {
        self.sql(|store| store.execute("INSERT OR IGNORE INTO runs (run) VALUES (?1)", [run]))?;
        self.follow(run, anchor)
    }

    /// Refuses to go on with a run whose records were counted elsewhere, or are counted here no longer.
    pub(super) fn must_know(&mut self, run: &str, anchor: &Path) -> Result<(), Failure> {
        let known = self.sql(|store| store.prepare("SELECT 1 FROM runs WHERE run = ?1")?.exists([run]))?;
        let (place, path) = (self.path.display(), Mark::path(anchor, run));
        let refusal = match (known, self.count(run)?.unwrap_or_default(), Mark::read(&path)?) {
            (false, ..) => format!(
                "{place} counts the records of each person, and does not know run {run}, which has begun: it was deleted or replaced; \
                 what the run reserved is spent, start a new one"
            ),
            (true, _, None) => format!(
                "{} is missing, so an older copy of {place} could not be told from the latest: restore it",
                path.display()
            ),
            (true, (found, own), Some((marked, word))) if found < marked || (found == marked && own != word) => {
                format!(
                    "{place}, which counts the records of each person, was rolled back or replaced: it knows {found} messages of run {run}, \
                 the mark beside the ledger's anchor knows {marked}; restore the latest, or start a new run: what this one reserved is spent"
                )
            }
            (true, _, Some(_)) => return self.follow(run, anchor),
        };
        Err(Failure::Account(refusal))
    }

    /// Keeps the mark of a run level with the store from here on.
    fn follow(&mut self, run: &str, anchor: &Path) -> Result<(), Failure> {
        let count = match self.count(run)? {
            Some(count) => count,
            None => {
                let start = (0, fresh()?);
                let insert = "INSERT INTO messages (run, number, nonce) VALUES (?1, 0, ?2)";
                self.sql(|store| store.execute(insert, params![run, start.1.as_slice()]))?;
                start
            }
        };
        self.mark = Some(Mark::make(&Mark::path(anchor, run), count)?);
        // Of a run that an earlier version began nobody knows which persons are its own: the most of all is no less.
        let most = "INSERT OR IGNORE INTO most (run, records) SELECT ?1, min(?2, coalesce(max(records), 0)) FROM persons WHERE ?3 > 0";
        let room = i64::try_from(self.room()).unwrap_or(i64::MAX);
        let before = i64::try_from(count.0).unwrap_or(i64::MAX);
        self.sql(|store| store.execute(most, params![run, room, before]))?;
        let known = self.sql(|store| store.prepare("SELECT 1 FROM words WHERE run = ?1")?.exists([run]))?;
        if known { Ok(()) } else { self.keep_word(run) }
    }

    /// Keeps the word of a run's last message, for a checkpoint in the ledger.
    pub(super) fn keep_word(&self, run: &str) -> Result<(), Failure> {
        self.sql(|store| store.execute(KEEP_WORD, [run])).map(drop)
    }

    /// Parts of the run's charge that a person may spend.
    pub(super) fn room(&self) -> u64 {
        self.costs.spending().room()
    }

    /// Whether the ledger's next checkpoint must be written before the last message is sent.
    pub(super) fn is_due(&self) -> bool {
        self.due
    }

    /// Refuses a store that does not have the word of the ledger's last checkpoint of a run; `begun` is whether anything of the run has left.
    pub(super) fn prove(&self, run: &str, last: Option<&Checkpoint>, begun: bool) -> Result<(), Failure> {
        let Some(Checkpoint { messages, word, .. }) = last else { return Ok(()) };
        let select = "SELECT 1 FROM words WHERE run = ?1 AND number = ?2 AND lower(hex(nonce)) = ?3";
        let number = i64::try_from(*messages).unwrap_or(i64::MAX);
        if self.sql(|store| store.prepare_cached(select)?.exists(params![run, number, word]))? {
            return Ok(());
        }
        let knows = match self.count(run)? {
            Some((count, _)) => format!("knows {count} messages"),
            None => "does not know the run".to_string(),
        };
        let place = self.path.display();
        let cost = match begun {
            true => "what this one reserved is spent",
            false => "nothing of this one has left, and the next one takes its charge back",
        };
        Err(Failure::Account(format!(
            "{place}, which counts the records of each person, was deleted, rolled back or replaced: it lacks the word of the privacy \
             ledger's last checkpoint of run {run}, after {messages} messages, and {knows}; restore the latest, or start a new run: {cost}"
        )))
    }

    /// The last word that was kept of a run, with its number of messages and the most that a person had spent then.
    pub(super) fn last_word(&self, run: &str) -> Result<Option<(Count, u64)>, Failure> {
        let select = "SELECT number, nonce, most FROM words WHERE run = ?1 ORDER BY number DESC LIMIT 1";
        let word = |row: &Row<'_>| {
            let [number, most] = [row.get::<_, i64>(0)?, row.get(2)?].map(i64::unsigned_abs);
            Ok(((number, row.get(1)?), most))
        };
        self.sql(|store| store.query_row(select, [run], word).optional())
    }

    fn count(&self, run: &str) -> Result<Option<Count>, Failure> {
        let count = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?.unsigned_abs(), row.get(1)?));
        let select = "SELECT number, nonce FROM messages WHERE run = ?1";
        self.sql(|store| store.query_row(select, [run], count).optional())
    }

    /// Every run is charged by itself, so that a person's records are counted in each.
    fn digest(&self, run: &str, id: &[u8]) -> [u8; 16] {
        let full = keyed(&self.key, &[run.as_bytes(), &[0], &canonical_id(id)]);
        std::array::from_fn(|at| full[at])
    }

    /// Charges the persons of these records and keeps the message that they make. `make` is told the place of the first, and which of
    /// them may be used.
    pub(crate) fn spend(
        &mut self,
        ids: &[Vec<u8>],
        (run, number): (&str, u64),
        make: impl FnOnce(u64, &[bool]) -> Result<NoisedRecords, Failure>,
    ) -> Result<(NoisedRecords, u64), Failure> {
        let digests: Vec<[u8; 16]> = ids.iter().map(|id| self.digest(run, id)).collect();
        let path = self.path.clone();
        let wrong = |source| failed(&path, source);
        let transaction = self.connection.transaction().map_err(wrong)?;
        let one = |row: &Row<'_>| row.get::<_, i64>(0);
        let first = match self.costs.spending().is_by_place() {
            false => 1,
            true => {
                let place = "INSERT INTO places (run, records) VALUES (?1, ?2) \
                    ON CONFLICT (run) DO UPDATE SET records = records + ?2 RETURNING records";
                let count = i64::try_from(ids.len()).unwrap_or(i64::MAX);
                let after = transaction.query_row(place, params![run, count], one).map_err(wrong)?;
                after.saturating_sub(count).unsigned_abs().saturating_add(1)
            }
        };
        let (room, costs) = (self.costs.spending().room(), &mut self.costs);
        let mut most = 0;
        let mut charge = |digest: &[u8; 16], place: u64| -> rusqlite::Result<bool> {
            let mut query = transaction.prepare_cached("SELECT records FROM persons WHERE digest = ?1")?;
            let before = query.query_row([digest.as_slice()], one).optional()?.unwrap_or(0);
            let Some(after) = admit(before.unsigned_abs(), costs.of(place), room) else { return Ok(false) };
            let mut add =
                transaction.prepare_cached("INSERT OR REPLACE INTO persons (digest, records) VALUES (?1, ?2)")?;
            let after = i64::try_from(after).unwrap_or(i64::MAX);
            add.execute(params![digest.as_slice(), after])?;
            most = after.max(most);
            Ok(true)
        };
        let mut usable = Vec::with_capacity(digests.len());
        for ((id, digest), place) in ids.iter().zip(&digests).zip(first..) {
            // Without a name a record belongs to nobody who could be charged.
            usable.push(!id.is_empty() && charge(digest, place).map_err(wrong)?);
        }
        let refused = usable.iter().filter(|usable| !**usable).count() as u64;
        let records = make(first, &usable)?;
        let keep = "INSERT OR REPLACE INTO unanswered (run, number, bytes) VALUES (?1, ?2, ?3)";
        let forget = "DELETE FROM unanswered WHERE run <> ?1 OR number <= ?2";
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        transaction.execute(keep, params![run, number, records.encode()]).map_err(wrong)?;
        transaction.execute(forget, params![run, number - KEPT]).map_err(wrong)?;
        let nonce = fresh()?;
        let raise = "INSERT INTO most (run, records) VALUES (?1, ?2) ON CONFLICT (run) DO UPDATE SET records = max(records, ?2)";
        transaction.prepare_cached(raise).and_then(|mut raise| raise.execute(params![run, most])).map_err(wrong)?;
        let advance = "UPDATE messages SET number = number + 1, nonce = ?2 WHERE run = ?1 RETURNING number";
        let advanced = transaction
            .prepare_cached(advance)
            .and_then(|mut advance| advance.query_row(params![run, nonce.as_slice()], one).optional());
        let count = advanced.map_err(wrong)?;
        let due = count.is_some_and(|count| is_checkpoint(count.unsigned_abs()));
        if due {
            transaction.execute(KEEP_WORD, [run]).map_err(wrong)?;
        }
        transaction.commit().map_err(wrong)?;
        self.due = due;
        // After the store, so that a crash in between leaves the mark behind it, and before anything is sent.
        if let (Some(mark), Some(count)) = (&mut self.mark, count) {
            let moved = mark.move_to((count.unsigned_abs(), nonce));
            moved.map_err(|source| OutputError { path: path.clone(), source })?;
        }
        Ok((records, refused))
    }

    /// The message of this number, if it was kept.
    pub(crate) fn kept(&self, (run, number): (&str, u64), right: &PerRecord) -> Result<Option<NoisedRecords>, Failure> {
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        let select = "SELECT bytes FROM unanswered WHERE run = ?1 AND number = ?2 \
            UNION ALL SELECT bytes FROM sent WHERE run = ?1 AND number = ?2";
        let bytes: Option<Vec<u8>> =
            self.sql(|store| store.query_row(select, params![run, number], |row| row.get(0)).optional())?;
        Ok(bytes.and_then(|bytes| NoisedRecords::decode(&bytes, right)))
    }
}

/// A file that was made is there after a power cut only if its folder was synced.
fn sync_folder(file: &Path) -> io::Result<()> {
    match file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

fn fresh() -> Result<[u8; 32], Failure> {
    Ok(fresh_key().map_err(|error| Abort::Bug(error.to_string()))?)
}

fn failed(path: &Path, source: rusqlite::Error) -> Failure {
    OutputError { path: path.to_path_buf(), source: std::io::Error::other(source) }.into()
}

#[cfg(test)]
mod tests {
    use fedreg_common::privacy::accountant::{Accountant, Budget};
    use fedreg_common::privacy::mechanism::records::Sequence;

    use super::*;

    #[test]
    fn a_person_with_more_records_than_declared_is_refused_also_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let ids = |names: &[&str]| names.iter().map(|name| name.as_bytes().to_vec()).collect::<Vec<_>>();
        let seen = |persons: &mut Persons, names: &[&str]| {
            let mut seen = Vec::new();
            let make = |_: u64, usable: &[bool]| {
                seen = usable.to_vec();
                Ok(NoisedRecords::default())
            };
            persons.spend(&ids(names), ("run", 0), make).unwrap();
            seen
        };
        let mut persons = Persons::open(folder.path(), [7; 32], Spending::Even { records: 2 }).unwrap();
        assert_eq!(seen(&mut persons, &["ann", "bea", "ann", "ann", ""]), [true, true, true, false, false]);
        drop(persons);
        let mut persons = Persons::open(folder.path(), [7; 32], Spending::Even { records: 2 }).unwrap();
        assert_eq!(seen(&mut persons, &["bea", "ann", "bea", "cid"]), [true, false, false, true]);
        let text = std::fs::read(folder.path().join("stream.sqlite")).unwrap();
        assert!(!text.windows(3).any(|part| part == b"ann"), "a name is on disk");
    }

    #[test]
    fn a_person_is_refused_the_record_that_the_budget_has_no_room_for_also_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let whole = Budget::new(1.0, 1e-6, Accountant::Zcdp, 1, false).unwrap();
        let sequence = Sequence::new(whole, (1.0, 1e-6), (0.5, 0.0), 50);
        let open = || Persons::open(folder.path(), [7; 32], Spending::Sequence(sequence)).unwrap();
        let seen = |persons: &mut Persons, run: &str, names: &[&str]| {
            let ids: Vec<Vec<u8>> = names.iter().map(|name| name.as_bytes().to_vec()).collect();
            let mut seen = (0, Vec::new());
            let make = |first: u64, usable: &[bool]| {
                seen = (first, usable.to_vec());
                Ok(NoisedRecords::default())
            };
            persons.spend(&ids, (run, 0), make).unwrap();
            seen
        };
        let mut persons = open();
        // Of the whole, records cost .523, .357 and .273 in places 2 to 4 (fifty digits): ann's second and third fit, not her fourth.
        let spent = seen(&mut persons, "run", &["bea", "ann", "ann", "ann", "bea", ""]);
        assert_eq!(spent, (1, vec![true, true, true, false, false, false]));
        drop(persons);
        let mut persons = open();
        // .161 in place 7 is too much beside .880, .115 in place 10 is not; another run has places and sums of its own.
        let spent = seen(&mut persons, "run", &["ann", "cid", "cid", "ann", "ann"]);
        assert_eq!(spent, (7, vec![false, true, true, true, false]));
        assert_eq!(seen(&mut persons, "another", &["ann", "ann"]), (1, vec![true, false]));
        let bug = || Failure::from(Abort::Bug("no noise".to_string()));
        assert!(persons.spend(&[b"dan".to_vec()], ("run", 0), |_, _| Err(bug())).is_err());
        assert_eq!(seen(&mut persons, "run", &["dan"]), (12, vec![true]), "what was not made has no place");
        // Where records are alike their places are not counted, and the store is what it was.
        let even = tempfile::tempdir().unwrap();
        let mut persons = Persons::open(even.path(), [7; 32], Spending::Even { records: 1 }).unwrap();
        for _ in 0..2 {
            assert_eq!(seen(&mut persons, "run", &["ann"]).0, 1);
        }
        let count = |row: &Row<'_>| row.get::<_, i64>(0);
        assert_eq!(persons.connection.query_row("SELECT COUNT(*) FROM places", [], count).unwrap(), 0);
    }

    #[test]
    fn all_messages_that_may_be_on_their_way_are_kept_and_older_ones_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let mut persons = Persons::open(folder.path(), [7; 32], Spending::Even { records: 200 }).unwrap();
        for number in 0..100 {
            persons.spend(&[b"ann".to_vec()], ("run", number), |_, _| Ok(NoisedRecords::default())).unwrap();
        }
        let kept = |persons: &Persons| {
            let select = "SELECT COUNT(*), MIN(number), MAX(number) FROM unanswered";
            let row = |row: &Row<'_>| Ok([row.get::<_, i64>(0)?, row.get(1)?, row.get(2)?]);
            persons.connection.query_row(select, [], row).unwrap()
        };
        assert_eq!(kept(&persons), [KEPT, 100 - KEPT, 99]);
        persons.spend(&[b"ann".to_vec()], ("another", 0), |_, _| Ok(NoisedRecords::default())).unwrap();
        assert_eq!(kept(&persons), [1, 0, 0]);
    }

    #[test]
    fn a_run_that_has_begun_goes_on_only_where_its_persons_were_counted() {
        let folder = tempfile::tempdir().unwrap();
        let anchor = folder.path().join("x.anchor");
        let open = || Persons::open(folder.path(), [7; 32], Spending::Even { records: 1 }).unwrap();
        open().begin("run", &anchor).unwrap();
        assert!(open().must_know("run", &anchor).is_ok());
        fs::remove_file(folder.path().join("stream.sqlite")).unwrap();
        let error = open().must_know("run", &anchor).unwrap_err();
        assert_eq!(error.exit(), fedreg_common::exit::Exit::Refused);
        assert!(crate::output::chain(&error).contains("deleted or replaced"));
    }

    #[test]
    fn an_older_copy_of_the_counts_is_refused_and_a_crash_between_counts_and_mark_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let (anchor, store) = (folder.path().join("x.anchor"), folder.path().join("stream.sqlite"));
        let open = || Persons::open(folder.path(), [7; 32], Spending::Even { records: 1 }).unwrap();
        let spend = |persons: &mut Persons, name: &str| {
            let ids = [name.as_bytes().to_vec()];
            persons.spend(&ids, ("run", 0), |_, _| Ok(NoisedRecords::default())).unwrap().1
        };
        let mark = Mark::path(&anchor, "run");
        let mut persons = open();
        persons.begin("run", &anchor).unwrap();
        assert_eq!(spend(&mut persons, "ann"), 0);
        drop(persons);
        let (old_store, old_mark) = (fs::read(&store).unwrap(), fs::read(&mark).unwrap());
        let mut persons = open();
        persons.must_know("run", &anchor).unwrap();
        assert_eq!(spend(&mut persons, "bea"), 0);
        drop(persons);
        let (new_store, new_mark) = (fs::read(&store).unwrap(), fs::read(&mark).unwrap());
        let refusal = || crate::output::chain(&open().must_know("run", &anchor).unwrap_err());
        // The old store would let bea have a second record.
        fs::write(&store, &old_store).unwrap();
        assert!(refusal().contains("rolled back or replaced: it knows 1 messages of run run"), "{}", refusal());
        // As many messages, and others.
        let mut fork = open();
        fork.follow("run", &folder.path().join("another.anchor")).unwrap();
        spend(&mut fork, "cid");
        drop(fork);
        assert!(refusal().contains("rolled back or replaced: it knows 2"), "{}", refusal());
        fs::write(&store, &new_store).unwrap();
        fs::remove_file(&mark).unwrap();
        assert!(refusal().contains("is missing"), "{}", refusal());
        fs::write(&mark, b"short").unwrap();
        assert!(refusal().contains("does not say how far"), "{}", refusal());
        for sound in [old_mark, new_mark] {
            fs::write(&mark, sound).unwrap();
            let mut persons = open();
            persons.must_know("run", &anchor).unwrap();
            assert_eq!(spend(&mut persons, "bea"), 1, "bea has had her record");
            drop(persons);
            fs::write(&store, &new_store).unwrap();
        }
        forget(&anchor, "run");
        assert!(!mark.exists());
    }

    #[test]
    fn checkpoints_double_and_are_then_a_thousand_and_twenty_four_messages_apart() {
        let at: Vec<u64> = (0..5000).filter(|messages| is_checkpoint(*messages)).collect();
        assert_eq!(at, [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3072, 4096]);
    }

    #[test]
    fn the_counts_and_bytes_of_a_message_are_synced_before_it_can_leave() {
        let folder = tempfile::tempdir().unwrap();
        let persons = Persons::open(folder.path(), [7; 32], Spending::Even { records: 1 }).unwrap();
        let pragma = |name: &str| -> rusqlite::types::Value {
            persons.connection.pragma_query_value(None, name, |row| row.get(0)).unwrap()
        };
        assert_eq!(pragma("synchronous"), rusqlite::types::Value::Integer(2), "FULL syncs the log with every commit");
        assert_eq!(pragma("journal_mode"), rusqlite::types::Value::Text("wal".to_string()));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            for file in fs::read_dir(folder.path()).unwrap() {
                assert_eq!(file.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o600);
            }
        }
    }

    #[test]
    fn a_message_that_could_not_be_made_leaves_no_count() {
        let folder = tempfile::tempdir().unwrap();
        let mut persons = Persons::open(folder.path(), [7; 32], Spending::Even { records: 1 }).unwrap();
        let ids = vec![b"ann".to_vec()];
        let bug = || Failure::from(Abort::Bug("no noise".to_string()));
        assert!(persons.spend(&ids, ("run", 0), |_, _| Err(bug())).is_err());
        let (_, refused) = persons.spend(&ids, ("run", 0), |_, _| Ok(NoisedRecords::default())).unwrap();
        assert_eq!(refused, 0);
    }
}
