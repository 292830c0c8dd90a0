//! The privacy ledger on disk: one SQLite file that any SQLite tool can read, and an anchor elsewhere.
//!
//! The file holds the chain of records as JSON (`records`), the bytes of releases (`bytes`), and two views for people,
//! `charges` and `releases`. Every transaction takes the write lock first and is synced, journal and folder included,
//! before it counts as done. Triggers keep a tool from editing by accident; the chain of hashes shows an edit on purpose.
//!
//! The anchor is a small file with the last record's number and hash and the key of the person digests. It belongs
//! outside the folder of the ledger, and outside its backup: anyone who restores an old ledger must not restore the anchor with
//! it. [`default_anchor`] puts it under the user's state folder. A copy of the ledger alone does not show who is in the data,
//! because the key is not in it.

mod anchors;
mod counted;
mod files;

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fedreg_common::privacy::ledger::{Anchor, Ledger, LedgerError, Record, Storage, StorageError};
use fedreg_common::privacy::sampler::fresh_key;
use fedreg_proto::output::durable_folder;
use rusqlite::{CachedStatement, Connection, ErrorCode, OpenFlags, OptionalExtension, Row, params};

use self::anchors::AnchorFile;
pub use self::anchors::{beside, default_anchor};
pub use self::counted::Counted;
pub use self::files::{DataFile, register, use_file};
use crate::failure::Failure;
use crate::output::{OutputError, make_own, own_file};

/// How long a process waits for another one's transaction.
const PATIENCE: Duration = Duration::from_secs(10);

/// "fedreg" in the file header, so that `file` and we can tell it from other databases.
const APPLICATION: i32 = 0x6665_6472;

const SCHEMA: &str = "
CREATE TABLE records (
    sequence INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    body TEXT NOT NULL CHECK (json_valid(body)),
    hash BLOB NOT NULL CHECK (length(hash) = 32)
);
CREATE TABLE bytes (name TEXT PRIMARY KEY, content BLOB NOT NULL) WITHOUT ROWID;
CREATE TRIGGER records_are_final_1 BEFORE UPDATE ON records BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER records_are_final_2 BEFORE DELETE ON records BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER bytes_are_final_1 BEFORE UPDATE ON bytes BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER bytes_are_final_2 BEFORE DELETE ON bytes BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE VIEW charges AS SELECT sequence, datetime(at, 'unixepoch') AS at, json_extract(body, '$.data_set') AS data_set,
    json_extract(body, '$.run') AS run, json_extract(body, '$.peers') AS peers, json_extract(body, '$.charge') AS charge
    FROM records WHERE json_extract(body, '$.kind') IN ('reserved', 'plain') AND json_extract(body, '$.run') NOT IN
    (SELECT json_extract(body, '$.run') FROM records WHERE json_extract(body, '$.kind') = 'withdrawn');
CREATE VIEW releases AS SELECT sequence, datetime(at, 'unixepoch') AS at, json_extract(body, '$.receipt.run') AS run,
    json_extract(body, '$.receipt.label') AS label, json_extract(body, '$.receipt.sensitivity') AS sensitivity,
    json_extract(body, '$.receipt.formula') AS formula, json_extract(body, '$.receipt.sigma') AS sigma
    FROM records WHERE json_extract(body, '$.kind') = 'stored';
";

/// Starts a ledger with a fresh key.
///
/// # Errors
///
/// There is a ledger already, or there was one and its anchor is still there; files that cannot be written.
pub fn create(ledger: &Path, anchor: &Path) -> Result<Ledger<LedgerFile>, LedgerError> {
    let place = Place { ledger: ledger.to_owned(), anchor: anchor.to_owned() };
    if !ledger.exists()
        && let Some(known) = place.read_anchor()?
        && known.sequence > 0
    {
        return Err(StorageError::Gone { place: place.name(), records: known.sequence }.into());
    }
    for folder in [ledger.parent(), anchor.parent()].into_iter().flatten() {
        durable_folder(folder).map_err(|error| place.file_error(&error))?;
    }
    // First of the two, so that a process that is killed here leaves no ledger without its anchor.
    place.make_anchor()?;
    // For its owner alone; SQLite gives its journal the same rights.
    make_own(ledger).map_err(|error| place.file_error(&error))?;
    Ledger::create(LedgerFile::connect(place, true)?)
}

/// Opens a ledger and checks its chain against its anchor.
///
/// # Errors
///
/// No ledger, one that is gone, damaged, changed or rolled back.
pub fn open(ledger: &Path, anchor: &Path) -> Result<Ledger<LedgerFile>, LedgerError> {
    let place = Place { ledger: ledger.to_owned(), anchor: anchor.to_owned() };
    if !ledger.exists() {
        return Err(place.absent()?.into());
    }
    if !anchor.exists() {
        // A file without a byte holds no charge: versions before made it first, and may have been killed then.
        let bytes = fs::metadata(ledger).map_err(|error| place.file_error(&error))?.len();
        let [ledger, anchor] = place.both();
        return Err(if bytes == 0 { place.absent()?.into() } else { LedgerError::NoAnchor { ledger, anchor } });
    }
    let file = LedgerFile::connect(place, false)?;
    // The process that was to make it was killed before its first record, or somebody emptied it.
    if file.empty { Err(file.place.absent()?.into()) } else { Ledger::open(file) }
}

/// The ledger, made if there is none and there never was one.
///
/// # Errors
///
/// As [`open`] and [`create`].
pub fn open_or_create(ledger: &Path, anchor: &Path) -> Result<Ledger<LedgerFile>, LedgerError> {
    match open(ledger, anchor) {
        Err(error) if error.is_missing() => create(ledger, anchor),
        opened => opened,
    }
}

/// A ledger in an SQLite file.
#[derive(Debug)]
pub struct LedgerFile {
    place: Place,
    connection: Connection,
    /// Whether it has no tables yet: they are made together with the first record, so that no crash leaves one without the other.
    empty: bool,
}

#[derive(Debug, Clone)]
struct Place {
    ledger: PathBuf,
    anchor: PathBuf,
}

impl LedgerFile {
    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.place.ledger
    }

    fn connect(place: Place, make: bool) -> Result<LedgerFile, StorageError> {
        let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        if make {
            flags |= OpenFlags::SQLITE_OPEN_CREATE;
        }
        let failed = |error: rusqlite::Error| place.sqlite_error(&error);
        let connection = Connection::open_with_flags(&place.ledger, flags).map_err(failed)?;
        connection.busy_timeout(PATIENCE).map_err(failed)?;
        // One file at rest, and EXTRA syncs the folder too: without it a power cut may bring a committed journal back
        // and undo a charge whose noise was already sent.
        connection.pragma_update(None, "journal_mode", "DELETE").map_err(failed)?;
        connection.pragma_update(None, "synchronous", "EXTRA").map_err(failed)?;
        let application: i32 =
            connection.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(failed)?;
        let tables = tables(&connection).map_err(failed)?;
        if tables > 0 && application != APPLICATION {
            return Err(place.bad_ledger("it is another kind of database"));
        }
        Ok(LedgerFile { place, connection, empty: tables == 0 })
    }

    fn failed(&self) -> impl Fn(rusqlite::Error) -> StorageError + '_ {
        |error| self.place.sqlite_error(&error)
    }
}

impl Storage for LedgerFile {
    fn key(&mut self) -> Result<[u8; 32], StorageError> {
        let key = self.place.read_anchor()?.and_then(|anchor| bytes_of(&anchor.key));
        key.ok_or_else(|| self.place.bad_anchor("it holds no key of 32 bytes"))
    }

    fn begin(&mut self) -> Result<(), StorageError> {
        self.connection.execute_batch("BEGIN IMMEDIATE").map_err(self.failed())?;
        if self.empty {
            let made = tables(&self.connection).and_then(|tables| match tables {
                0 => self.connection.execute_batch(&format!("PRAGMA application_id = {APPLICATION}; {SCHEMA}")),
                // Another process was faster.
                _ => Ok(()),
            });
            if let Err(error) = made {
                let error = self.place.sqlite_error(&error);
                self.abandon();
                return Err(error);
            }
        }
        Ok(())
    }

    fn records_after(&mut self, sequence: u64) -> Result<Vec<Record>, StorageError> {
        let select = "SELECT sequence, at, body, hash FROM records WHERE sequence > ?1 ORDER BY sequence";
        let record = |row: &Row<'_>| {
            let [sequence, at] = [row.get::<_, i64>(0)?.unsigned_abs(), row.get::<_, i64>(1)?.unsigned_abs()];
            Ok(Record { sequence, at, body: row.get(2)?, hash: row.get(3)? })
        };
        let all = |mut rows: CachedStatement<'_>| rows.query_map([stored(sequence)], record)?.collect();
        self.connection.prepare_cached(select).and_then(all).map_err(self.failed())
    }

    fn append(&mut self, record: &Record) -> Result<(), StorageError> {
        let insert = "INSERT INTO records (sequence, at, body, hash) VALUES (?1, ?2, ?3, ?4)";
        let Record { sequence, at, body, hash } = record;
        let appended = self.connection.execute(insert, params![stored(*sequence), stored(*at), body, hash]);
        appended.map(drop).map_err(self.failed())
    }

    fn put_blob(&mut self, name: &str, bytes: &[u8]) -> Result<(), StorageError> {
        let insert = "INSERT INTO bytes (name, content) VALUES (?1, ?2)";
        self.connection.execute(insert, params![name, bytes]).map(drop).map_err(self.failed())
    }

    fn blob(&mut self, name: &str) -> Result<Option<Vec<u8>>, StorageError> {
        self.connection
            .query_row("SELECT content FROM bytes WHERE name = ?1", [name], |row| row.get(0))
            .optional()
            .map_err(self.failed())
    }

    fn check(&mut self) -> Result<(), StorageError> {
        let words: String =
            self.connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).map_err(self.failed())?;
        match words.as_str() {
            "ok" => Ok(()),
            _ => {
                let first = words.lines().next().unwrap_or_default();
                Err(self.place.bad_ledger(&format!("it was changed or is damaged ({first})")))
            }
        }
    }

    fn commit(&mut self) -> Result<(), StorageError> {
        let outcome = self.connection.execute_batch("COMMIT").map_err(self.failed());
        match outcome {
            Ok(()) => self.empty = false,
            Err(_) => self.abandon(),
        }
        outcome
    }

    fn abandon(&mut self) {
        // SQLite may have rolled back by itself, for instance on a full disk; then there is nothing to end.
        if !self.connection.is_autocommit() {
            let _ = self.connection.execute_batch("ROLLBACK");
        }
    }

    fn anchor(&mut self) -> Result<Option<Anchor>, StorageError> {
        let Some(file) = self.place.read_anchor()? else { return Ok(None) };
        let hash = bytes_of(&file.hash).ok_or_else(|| self.place.bad_anchor("its hash is no hash"))?;
        Ok(Some(Anchor { sequence: file.sequence, hash }))
    }

    fn advance_anchor(&mut self, anchor: &Anchor) -> Result<(), StorageError> {
        // Two processes may arrive here in either order after their commits.
        self.place.change_anchor(|file| {
            let behind = file.sequence < anchor.sequence;
            if behind {
                file.sequence = anchor.sequence;
                file.hash = hexadecimal(&anchor.hash);
            }
            behind
        })
    }

    fn now(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
    }

    fn name(&self) -> String {
        self.place.name()
    }

    fn places(&self) -> [String; 2] {
        self.place.both()
    }
}

impl Place {
    fn name(&self) -> String {
        self.ledger.display().to_string()
    }

    fn both(&self) -> [String; 2] {
        [format!("the privacy ledger {}", self.ledger.display()), format!("its anchor {}", self.anchor.display())]
    }

    /// Why there is no ledger here.
    fn absent(&self) -> Result<StorageError, StorageError> {
        Ok(match self.read_anchor()? {
            Some(known) if known.sequence > 0 => StorageError::Gone { place: self.name(), records: known.sequence },
            _ => StorageError::Missing { place: self.name() },
        })
    }

    /// An anchor of no record, where there is none; no other process makes one meanwhile.
    fn make_anchor(&self) -> Result<(), StorageError> {
        let _lock = locked(&beside(&self.anchor, "lock")).map_err(|error| self.file_error(&error))?;
        if self.anchor.exists() {
            return Ok(());
        }
        let key = fresh_key().map_err(|error| self.bad_ledger(&error.to_string()))?;
        self.write_anchor(&AnchorFile::new(&key, &self.ledger))
    }

    /// Lets `change` alter the anchor, if there is one, and writes it if that says so; no other process is at it meanwhile.
    fn change_anchor(&self, change: impl FnOnce(&mut AnchorFile) -> bool) -> Result<(), StorageError> {
        let failed = |error: io::Error| self.file_error(&error);
        let _lock = locked(&beside(&self.anchor, "lock")).map_err(failed)?;
        let Some(mut file) = self.read_anchor()? else { return Ok(()) };
        if change(&mut file) { self.write_anchor(&file) } else { Ok(()) }
    }

    fn read_anchor(&self) -> Result<Option<AnchorFile>, StorageError> {
        let text = match fs::read_to_string(&self.anchor) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.file_error(&error)),
        };
        serde_json::from_str(&text).map(Some).map_err(|error| self.bad_anchor(&error.to_string()))
    }

    fn bad_anchor(&self, reason: &str) -> StorageError {
        StorageError::Unreadable { place: self.anchor.display().to_string(), reason: reason.to_owned() }
    }

    fn bad_ledger(&self, reason: &str) -> StorageError {
        StorageError::Unreadable { place: self.name(), reason: reason.to_owned() }
    }

    /// Replaces the anchor so that a crash leaves the old one or the new one, whole.
    fn write_anchor(&self, file: &AnchorFile) -> Result<(), StorageError> {
        let failed = |error: io::Error| self.file_error(&error);
        let text = serde_json::to_string(file).map_err(|error| failed(error.into()))?;
        let fresh = beside(&self.anchor, "new");
        let mut out = own_file().truncate(true).write(true).open(&fresh).map_err(failed)?;
        out.write_all(text.as_bytes()).map_err(failed)?;
        out.sync_all().map_err(failed)?;
        fs::rename(&fresh, &self.anchor).map_err(failed)?;
        if let Some(folder) = self.anchor.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
        }
        Ok(())
    }

    // The kinds of errors of the standard library are an open set.
    #[allow(clippy::wildcard_enum_match_arm)]
    fn file_error(&self, error: &io::Error) -> StorageError {
        let place = self.anchor.display().to_string();
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StorageError::Full { place },
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => StorageError::ReadOnly { place },
            _ => StorageError::Unreadable { place, reason: error.to_string() },
        }
    }

    fn sqlite_error(&self, error: &rusqlite::Error) -> StorageError {
        let place = self.name();
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StorageError::Locked { place },
            Some(ErrorCode::DiskFull) => StorageError::Full { place },
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => StorageError::ReadOnly { place },
            _ => StorageError::Unreadable { place, reason: error.to_string() },
        }
    }
}

/// Keeps every other stream off a ledger for as long as the file lives, whatever its state folder. A process that is killed lets go.
///
/// # Errors
/// Another process streams on this ledger; a file that cannot be made.
pub(crate) fn stream_alone(ledger: &LedgerFile) -> Result<File, Failure> {
    let Place { ledger, anchor } = &ledger.place;
    let path = beside(anchor, "stream.lock");
    let failed = |source| OutputError { path: path.clone(), source };
    let file = own_file().truncate(false).write(true).open(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Failure::Account(format!(
            "another process streams on the privacy ledger {}: a ledger has one stream at a time, so wait for the other one or end it",
            ledger.display()
        ))),
        Err(TryLockError::Error(source)) => Err(failed(source).into()),
    }
}

/// Holds a lock among processes for as long as the file lives.
fn locked(path: &Path) -> io::Result<File> {
    let lock = own_file().truncate(false).write(true).open(path)?;
    lock.lock()?;
    Ok(lock)
}

fn tables(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0))
}

/// A number as SQLite keeps it.
fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes_of(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Barrier;

    use fedreg_common::exit::Exit;
    use fedreg_common::privacy::accountant::{Accountant, Budget};
    use fedreg_common::privacy::ledger::{Grant, PersonDigests, Registration};
    use fedreg_common::privacy::mechanism::{PlannedRelease, Query, ReleasePlan, release};
    use fedreg_common::privacy::sampler::NoisePool;

    use super::*;

    struct Home {
        folder: tempfile::TempDir,
    }

    impl Home {
        fn new() -> Home {
            let home = Home { folder: tempfile::tempdir().unwrap() };
            let mut ledger = create(&home.ledger(), &home.anchor()).unwrap();
            let persons = home.persons(&mut ledger);
            let budget = Budget::new(1.0, 1e-5, Accountant::Zcdp, 100, false).unwrap();
            let bounds = BTreeMap::new();
            ledger.register(&Registration { data_set: "cohort".to_owned(), persons, budget, bounds }).unwrap();
            home
        }

        fn ledger(&self) -> PathBuf {
            self.folder.path().join("state/privacy.sqlite")
        }

        fn anchor(&self) -> PathBuf {
            self.folder.path().join("elsewhere/privacy.anchor")
        }

        fn open(&self) -> Result<Ledger<LedgerFile>, LedgerError> {
            open(&self.ledger(), &self.anchor())
        }

        fn persons(&self, ledger: &mut Ledger<LedgerFile>) -> PersonDigests {
            PersonDigests::new(&ledger.key().unwrap(), (0..100).map(|person| person.to_string()), 1).unwrap()
        }

        fn reserve(&self, ledger: &mut Ledger<LedgerFile>, run: &str, mu: f64) -> Result<(), LedgerError> {
            let persons = self.persons(ledger);
            let plan = ReleasePlan::new(vec![PlannedRelease { label: "counts".to_owned(), mu }]);
            // Each run is of a study of its own.
            let study = run.replace(' ', "-");
            ledger.reserve(run, "cohort", &persons, &["bob".to_owned()], &study, &plan)
        }
    }

    fn counts() -> Query {
        Query::histogram(4, [0, 1, 1, 3].into_iter())
    }

    #[test]
    fn a_release_survives_a_restart_byte_by_byte_and_is_charged_once() {
        let home = Home::new();
        let mut ledger = home.open().unwrap();
        home.reserve(&mut ledger, "run", 0.1).unwrap();
        let Grant::Fresh(permit) = ledger.permit("run", 0).unwrap() else { panic!("nothing is stored") };
        let bytes = ledger.store(release(&counts(), permit, &mut NoisePool::new()).unwrap()).unwrap().bytes();
        let sum = ledger.account("cohort").unwrap().sum;
        drop(ledger);
        let mut restarted = home.open().unwrap();
        let Grant::Stored(again) = restarted.permit("run", 0).unwrap() else { panic!("it is stored") };
        assert_eq!(again.bytes(), bytes);
        assert_eq!(restarted.account("cohort").unwrap().sum, sum);
        assert_eq!(restarted.verify().unwrap().0, 4);
    }

    #[test]
    fn a_crash_after_reserve_has_spent_and_the_run_can_go_on() {
        let home = Home::new();
        let mut ledger = home.open().unwrap();
        home.reserve(&mut ledger, "run", 0.1).unwrap();
        drop(ledger.permit("run", 0).unwrap());
        drop(ledger);
        let mut restarted = home.open().unwrap();
        let Grant::Fresh(permit) = restarted.permit("run", 0).unwrap() else { panic!("nothing is stored") };
        restarted.store(release(&counts(), permit, &mut NoisePool::new()).unwrap()).unwrap();
        assert!((restarted.account("cohort").unwrap().sum - 0.01).abs() < 1e-12);
    }

    /// What a power cut may take away is what was not synced: with these settings SQLite syncs the journal, its folder, the file, and
    /// after the journal is gone the folder again, before a commit returns. The bytes of a release are in the same file.
    #[test]
    fn a_commit_is_on_disk_when_it_returns_and_the_anchor_follows_it() {
        let home = Home::new();
        let mut ledger = home.open().unwrap();
        home.reserve(&mut ledger, "run", 0.1).unwrap();
        drop(ledger);
        let place = || Place { ledger: home.ledger(), anchor: home.anchor() };
        let mut file = LedgerFile::connect(place(), false).unwrap();
        let pragma = |name: &str| -> String {
            let mut words = String::new();
            file.connection
                .pragma_query(None, name, |row| {
                    words = row.get::<_, rusqlite::types::Value>(0).map(|value| format!("{value:?}"))?;
                    Ok(())
                })
                .unwrap();
            words
        };
        assert_eq!([pragma("synchronous"), pragma("journal_mode")], ["Integer(3)", "Text(\"delete\")"]);
        let attached: i64 = file
            .connection
            .query_row("SELECT count(*) FROM pragma_database_list WHERE name <> 'temp'", [], |row| row.get(0))
            .unwrap();
        assert_eq!(attached, 1, "a transaction over two files is not one");
        file.begin().unwrap();
        file.put_blob("sent/run/0", b"bytes").unwrap();
        assert!(
            home.ledger().with_extension("sqlite-journal").exists(),
            "what was there before is kept until the commit"
        );
        let before = file.anchor().unwrap();
        file.abandon();
        assert!(!home.ledger().with_extension("sqlite-journal").exists());
        drop(file);
        let mut ledger = home.open().unwrap();
        let Grant::Fresh(permit) = ledger.permit("run", 0).unwrap() else { panic!("nothing is stored") };
        ledger.store(release(&counts(), permit, &mut NoisePool::new()).unwrap()).unwrap();
        let after = LedgerFile::connect(place(), false).unwrap().anchor().unwrap().unwrap();
        assert_eq!(after.sequence, before.unwrap().sequence + 1);
    }

    /// After a power cut the ledger is as synced by its last commit; the anchor may be the one before it.
    #[test]
    fn a_power_cut_takes_back_no_more_than_the_anchor() {
        let home = Home::new();
        let mut ledger = home.open().unwrap();
        home.reserve(&mut ledger, "run", 0.1).unwrap();
        let older = fs::read(home.anchor()).unwrap();
        let Grant::Fresh(permit) = ledger.permit("run", 0).unwrap() else { panic!("nothing is stored") };
        let bytes = ledger.store(release(&counts(), permit, &mut NoisePool::new()).unwrap()).unwrap().bytes();
        drop(ledger);
        let newer = fs::read(home.anchor()).unwrap();
        fs::write(home.anchor(), &older).unwrap();
        let mut restarted = home.open().unwrap();
        let Grant::Stored(again) = restarted.permit("run", 0).unwrap() else { panic!("it is stored") };
        assert_eq!(again.bytes(), bytes);
        assert_eq!(fs::read(home.anchor()).unwrap(), newer, "it has caught up");
        // What lies beside it when the process dies within a transaction is undone when the ledger is opened.
        drop(restarted);
        let place = || Place { ledger: home.ledger(), anchor: home.anchor() };
        let mut file = LedgerFile::connect(place(), false).unwrap();
        file.connection.pragma_update(None, "cache_size", 1).unwrap();
        file.begin().unwrap();
        (0..40).for_each(|at| file.put_blob(&format!("sent/other/{at}"), &[7; 4000]).unwrap());
        let half = home.folder.path().join("half");
        fs::create_dir(&half).unwrap();
        for name in ["privacy.sqlite", "privacy.sqlite-journal"] {
            fs::copy(home.folder.path().join("state").join(name), half.join(name)).unwrap();
        }
        file.abandon();
        let whole = fs::read(home.ledger()).unwrap();
        assert_ne!(fs::read(half.join("privacy.sqlite")).unwrap(), whole, "half of it is in the file");
        for name in ["privacy.sqlite", "privacy.sqlite-journal"] {
            fs::copy(half.join(name), home.folder.path().join("state").join(name)).unwrap();
        }
        let mut restarted = home.open().unwrap();
        assert_eq!(restarted.verify().unwrap().0, 4);
        let Grant::Stored(again) = restarted.permit("run", 0).unwrap() else { panic!("it is stored") };
        assert_eq!(again.bytes(), bytes);
    }

    /// Every byte of the file in turn, as long as it is not one that means nothing: whatever still opens and affords a run knows all of
    /// the past.
    #[test]
    fn a_changed_byte_is_noticed_before_a_run_spends() {
        let home = Home::new();
        let mut ledger = home.open().unwrap();
        home.reserve(&mut ledger, "run", 0.1).unwrap();
        let Grant::Fresh(permit) = ledger.permit("run", 0).unwrap() else { panic!("nothing is stored") };
        ledger.store(release(&counts(), permit, &mut NoisePool::new()).unwrap()).unwrap();
        let account = ledger.account("cohort").unwrap();
        drop(ledger);
        let sound = fs::read(home.ledger()).unwrap();
        let (mut noticed, mut without_meaning) = (0, 0);
        for at in (0..sound.len()).step_by(23) {
            let mut changed = sound.clone();
            changed[at] ^= 0x55;
            fs::write(home.ledger(), &changed).unwrap();
            let spent = home.open().and_then(|mut ledger| {
                let known = ledger.account("cohort")?;
                let persons = home.persons(&mut ledger);
                let plan = ReleasePlan::new(vec![PlannedRelease { label: "counts".to_owned(), mu: 0.1 }]);
                ledger.afford("cohort", &persons, "digest", &plan)?;
                Ok(known)
            });
            match spent {
                Ok(known) => {
                    assert_eq!(known, account, "byte {at}");
                    without_meaning += 1;
                }
                Err(refused) => {
                    assert_eq!(refused.exit(), Exit::Refused, "byte {at}: {refused}");
                    noticed += 1;
                }
            }
        }
        assert!(noticed > 20, "{noticed} {without_meaning}");
        // What is stored, wherever it lies.
        for needle in [&b"\"kind\":\"reserved\""[..], b"persons/cohort", b"sent/run/0"] {
            let at = sound.windows(needle.len()).position(|bytes| bytes == needle).unwrap();
            let mut changed = sound.clone();
            changed[at + needle.len() - 1] ^= 1;
            fs::write(home.ledger(), &changed).unwrap();
            let outcome = home.open().and_then(|mut ledger| home.reserve(&mut ledger, "more", 0.1));
            assert_eq!(outcome.unwrap_err().exit(), Exit::Refused);
        }
        fs::write(home.ledger(), &sound).unwrap();
        home.reserve(&mut home.open().unwrap(), "more", 0.1).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn ledger_and_anchor_are_for_their_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let home = Home::new();
        let files = [home.ledger(), home.anchor(), beside(&home.anchor(), "lock")];
        for file in files {
            let mode = fs::metadata(&file).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{}", file.display());
        }
    }

    #[test]
    fn two_racing_for_the_last_budget_have_one_winner() {
        let home = Home::new();
        let cap = home.open().unwrap().account("cohort").unwrap().cap;
        let start = Barrier::new(2);
        let wins: usize = std::thread::scope(|scope| {
            let racers: Vec<_> = (0..2)
                .map(|racer| {
                    let (home, start) = (&home, &start);
                    scope.spawn(move || {
                        let mut ledger = home.open().unwrap();
                        start.wait();
                        home.reserve(&mut ledger, &format!("run {racer}"), (0.9 * cap).sqrt())
                    })
                })
                .collect();
            racers
                .into_iter()
                .map(|racer| match racer.join().unwrap() {
                    Ok(()) => 1,
                    Err(LedgerError::Overspent { .. }) => 0,
                    Err(other) => panic!("{other}"),
                })
                .sum()
        });
        assert_eq!(wins, 1);
        assert!(home.open().unwrap().account("cohort").unwrap().sum <= cap);
    }

    #[test]
    fn any_sqlite_tool_can_read_charges_and_releases() {
        let home = Home::new();
        let mut ledger = home.open().unwrap();
        home.reserve(&mut ledger, "run", 0.1).unwrap();
        let Grant::Fresh(permit) = ledger.permit("run", 0).unwrap() else { panic!("nothing is stored") };
        ledger.store(release(&counts(), permit, &mut NoisePool::new()).unwrap()).unwrap();
        let tool = Connection::open(home.ledger()).unwrap();
        let charge: f64 = tool.query_row("SELECT sum(charge) FROM charges", [], |row| row.get(0)).unwrap();
        assert!((charge - 0.01).abs() < 1e-12);
        let label: String = tool.query_row("SELECT label FROM releases", [], |row| row.get(0)).unwrap();
        assert_eq!(label, "counts");
        assert!(tool.execute("DELETE FROM records", []).is_err(), "the ledger is append-only");
        assert!(tool.execute("UPDATE bytes SET content = x''", []).is_err(), "the ledger is append-only");
    }

    #[test]
    fn a_deleted_ledger_is_missed() {
        let home = Home::new();
        fs::remove_file(home.ledger()).unwrap();
        let gone = |outcome: Result<Ledger<LedgerFile>, LedgerError>| {
            matches!(outcome, Err(LedgerError::Storage(StorageError::Gone { records: 2, .. })))
        };
        assert!(gone(home.open()));
        assert!(gone(create(&home.ledger(), &home.anchor())));
        fs::remove_file(home.anchor()).unwrap();
        let missing = home.open().map(drop).unwrap_err();
        assert!(matches!(missing, LedgerError::Storage(StorageError::Missing { .. })));
        assert_eq!(missing.exit(), Exit::Refused);
    }

    /// Killed between any two of its steps, whoever makes a ledger leaves what the next one takes up.
    #[test]
    fn a_ledger_that_was_begun_is_made() {
        for left in ["nothing", "an empty ledger", "an anchor", "both"] {
            let folder = tempfile::tempdir().unwrap();
            let (ledger, anchor) = (folder.path().join("privacy.sqlite"), folder.path().join("anchor"));
            if left == "an anchor" || left == "both" {
                let place = Place { ledger: ledger.clone(), anchor: anchor.clone() };
                place.make_anchor().unwrap();
            }
            if left == "an empty ledger" || left == "both" {
                make_own(&ledger).unwrap();
            }
            assert!(open(&ledger, &anchor).unwrap_err().is_missing(), "{left}");
            open_or_create(&ledger, &anchor).unwrap();
            open(&ledger, &anchor).unwrap();
            // What was made is not made anew.
            fs::remove_file(&anchor).unwrap();
            let refused = open_or_create(&ledger, &anchor).map(drop).unwrap_err();
            assert!(matches!(refused, LedgerError::NoAnchor { .. }), "{left}: {refused}");
        }
    }

    #[test]
    fn a_restored_copy_is_a_rollback() {
        let home = Home::new();
        let copy = home.folder.path().join("backup.sqlite");
        fs::copy(home.ledger(), &copy).unwrap();
        home.reserve(&mut home.open().unwrap(), "run", 0.1).unwrap();
        fs::copy(&copy, home.ledger()).unwrap();
        let refused = home.open().map(drop).unwrap_err().to_string();
        let (ledger, anchor) = (home.ledger().display().to_string(), home.anchor().display().to_string());
        assert_eq!(
            refused,
            format!(
                "the privacy ledger {ledger} was rolled back or replaced: it has 2 records, its anchor {anchor} knows record 3"
            )
        );
        fs::remove_file(home.anchor()).unwrap();
        assert!(home.open().is_err(), "without its anchor a rollback could not be seen");
    }

    #[test]
    fn an_edited_record_breaks_the_chain() {
        let home = Home::new();
        home.reserve(&mut home.open().unwrap(), "run", 0.1).unwrap();
        let tool = Connection::open(home.ledger()).unwrap();
        tool.execute_batch(
            "DROP TRIGGER records_are_final_1;
             UPDATE records SET body = json_set(body, '$.charge', 1e-9) WHERE sequence = 3;",
        )
        .unwrap();
        assert_eq!(home.open().map(drop), Err(LedgerError::Broken { sequence: 3 }));
    }

    #[test]
    fn a_full_disk_releases_nothing_and_says_so() {
        let home = Home::new();
        let mut ledger = home.open().unwrap();
        let persons = PersonDigests::new(&ledger.key().unwrap(), (0..50_000).map(|p| format!("p{p}")), 1).unwrap();
        drop(ledger);
        let place = Place { ledger: home.ledger(), anchor: home.anchor() };
        let file = LedgerFile::connect(place, false).unwrap();
        file.connection.pragma_update(None, "max_page_count", 40).unwrap();
        let mut small = Ledger::open(file).unwrap();
        let budget = Budget::new(1.0, 1e-6, Accountant::Zcdp, 50_000, false).unwrap();
        let refused = small
            .register(&Registration { data_set: "large".to_owned(), persons, budget, bounds: BTreeMap::new() })
            .unwrap_err();
        assert!(matches!(refused, LedgerError::Storage(StorageError::Full { .. })), "{refused}");
        assert_eq!(refused.exit(), Exit::CannotWrite);
        assert!(small.account("large").is_err());
        home.reserve(&mut small, "run", 0.1).unwrap();
        assert_eq!(home.open().unwrap().verify().unwrap().0, 3);
    }

    #[test]
    fn files_that_are_no_ledger_are_refused_with_a_sentence() {
        let home = Home::new();
        fs::write(home.ledger(), b"id,age\n1,30\n").unwrap();
        let refused = home.open().map(drop).unwrap_err();
        assert!(refused.to_string().contains("not a readable privacy ledger"), "{refused}");
        fs::remove_file(home.ledger()).unwrap();
        Connection::open(home.ledger()).unwrap().execute_batch("CREATE TABLE other (x)").unwrap();
        assert!(home.open().map(drop).unwrap_err().to_string().contains("another kind of database"));
        fs::write(home.anchor(), b"{}").unwrap();
        assert!(home.open().is_err());
    }

    #[test]
    fn failures_of_the_disk_become_sentences() {
        let place = Place { ledger: "ledger.sqlite".into(), anchor: "x.anchor".into() };
        let sqlite = |code: i32| {
            place.sqlite_error(&rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None)).to_string()
        };
        assert_eq!(sqlite(8), "the privacy ledger ledger.sqlite cannot be written: it or its folder is read-only");
        assert_eq!(
            sqlite(13),
            "the disk with the privacy ledger ledger.sqlite is full: what could not be stored was not released; make room and give \
             the same command again"
        );
        assert_eq!(sqlite(5), "the privacy ledger ledger.sqlite is in use by another process");
        let full = place.file_error(&io::ErrorKind::StorageFull.into());
        assert_eq!(full.exit(), Exit::CannotWrite);
        assert!(matches!(place.file_error(&io::ErrorKind::ReadOnlyFilesystem.into()), StorageError::ReadOnly { .. }));
    }

    #[test]
    fn a_full_disk_at_the_storing_of_a_release_leaves_what_was_reserved_and_sends_nothing() {
        let home = Home::new();
        let bounded = |room: i64| {
            let place = Place { ledger: home.ledger(), anchor: home.anchor() };
            let file = LedgerFile::connect(place, false).unwrap();
            let pages: i64 = file.connection.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
            file.connection.pragma_update(None, "max_page_count", pages + room).unwrap();
            Ledger::open(file).unwrap()
        };
        let full = |error: &LedgerError| {
            assert!(matches!(error, LedgerError::Storage(StorageError::Full { .. })), "{error}");
            assert_eq!(error.exit(), Exit::CannotWrite);
        };
        let mut ledger = home.open().unwrap();
        let persons = home.persons(&mut ledger);
        let each = PlannedRelease { label: "counts".to_owned(), mu: 0.01 };
        let plan = ReleasePlan::new(vec![each; 400]);
        ledger.reserve("run", "cohort", &persons, &["bob".to_owned()], "digest", &plan).unwrap();
        let reserved = ledger.account("cohort").unwrap().sum;
        let index = 7;
        // Storing: many cells, so that no page has room for them.
        let mut small = bounded(0);
        let Grant::Fresh(permit) = small.permit("run", index).unwrap() else { panic!("it was never stored") };
        let cells = Query::histogram(4_000, [0, 1, 1, 3].into_iter());
        let unsent = release(&cells, permit, &mut NoisePool::new()).unwrap();
        full(&small.store(unsent).map(drop).unwrap_err());
        drop(small);
        let mut larger = home.open().unwrap();
        assert!(matches!(larger.permit("run", index), Ok(Grant::Fresh(_))), "nothing of it was seen");
        assert!(larger.receipts("run").is_empty());
        assert_eq!(larger.account("cohort").unwrap().sum, reserved);
        larger.verify().unwrap();
    }

    #[test]
    fn a_crash_while_the_ledger_is_made_accuses_nobody() {
        // An empty file, as SQLite leaves it before the first commit, and the tables without a record of earlier versions.
        for tables in ["", SCHEMA] {
            let folder = tempfile::tempdir().unwrap();
            let (ledger, anchor) = (folder.path().join("privacy.sqlite"), folder.path().join("away/x.anchor"));
            drop(create(&ledger, &anchor).unwrap());
            let place = Place { ledger: ledger.clone(), anchor: anchor.clone() };
            let key = place.read_anchor().unwrap().unwrap().key;
            let mut before = AnchorFile::new(&[0; 32], &ledger);
            before.key = key.clone();
            place.write_anchor(&before).unwrap();
            fs::remove_file(&ledger).unwrap();
            fs::write(&ledger, b"").unwrap();
            if !tables.is_empty() {
                let script = format!("PRAGMA application_id = {APPLICATION}; {tables}");
                Connection::open(&ledger).unwrap().execute_batch(&script).unwrap();
            }
            let refused = open(&ledger, &anchor).map(drop).unwrap_err();
            assert!(refused.is_missing(), "{refused}");
            drop(open_or_create(&ledger, &anchor).unwrap());
            assert_eq!(open(&ledger, &anchor).unwrap().verify().unwrap().0, 1);
            assert_eq!(place.read_anchor().unwrap().unwrap().key, key);
            // With records behind it an empty file is no interrupted beginning.
            fs::write(&ledger, b"").unwrap();
            let refused = open(&ledger, &anchor).map(drop).unwrap_err();
            assert!(matches!(refused, LedgerError::Storage(StorageError::Gone { records: 1, .. })), "{refused}");
            assert!(open_or_create(&ledger, &anchor).is_err());
        }
    }

    #[test]
    fn tables_and_first_record_are_one_transaction() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place { ledger: folder.path().join("privacy.sqlite"), anchor: folder.path().join("x.anchor") };
        let mut file = LedgerFile::connect(place, true).unwrap();
        file.begin().unwrap();
        let record = Record { sequence: 1, at: 1, body: "{}".to_owned(), hash: [0; 32] };
        file.append(&record).unwrap();
        file.abandon();
        let tool = Connection::open(folder.path().join("privacy.sqlite")).unwrap();
        let tables: i64 = tool.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0)).unwrap();
        assert_eq!(tables, 0);
    }
}
