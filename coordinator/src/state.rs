//! The state of a horizontal run in one SQLite file: what came is kept before it is acknowledged.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fedreg_common::exit::Exit;
use fedreg_common::id::{Digest, RunId};
use fedreg_common::star::hub::{Record, Snapshot};
use fedreg_proto::output::{OutputError, make_folder, make_own};
use fedreg_proto::star::{BodyLimits, body_from_bytes, body_to_bytes};
use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, params};
use thiserror::Error;

/// The file's name in the state folder.
pub const FILE: &str = "run.sqlite";

/// "fedr" in the file's header: tells it from other databases.
const APPLICATION: i32 = 0x6665_6473;

const SCHEMA: &str = "
CREATE TABLE run (
    id INTEGER PRIMARY KEY CHECK (id = 0),
    study BLOB NOT NULL CHECK (length(study) = 32),
    run BLOB NOT NULL CHECK (length(run) = 16),
    opened INTEGER NOT NULL,
    ended INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE records (
    sequence INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    site TEXT,
    number INTEGER,
    text TEXT,
    body BLOB
);
CREATE TABLE snapshot (id INTEGER PRIMARY KEY CHECK (id = 0), body TEXT NOT NULL CHECK (json_valid(body)));
";

/// A state that cannot be used.
#[derive(Debug, Error)]
pub enum StateError {
    /// SQLite cannot read or write it.
    #[error("cannot use {}{}", path.display(), if busy(source) { ": another process uses it; give each its own state folder" } else { "" })]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// The error beneath.
        source: rusqlite::Error,
    },
    /// The folder or the file cannot be made.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// It belongs to another study.
    #[error("{} belongs to another study (digest {theirs}, this one has {ours}); give another --state", path.display())]
    OtherStudy {
        /// The file.
        path: PathBuf,
        /// The digest in it.
        theirs: String,
        /// The digest of this study.
        ours: String,
    },
    /// What is in it cannot be understood.
    #[error("{} is damaged: {problem}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}

fn busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

impl StateError {
    /// The exit code.
    pub fn exit(&self) -> Exit {
        match self {
            StateError::Sqlite { .. } | StateError::Output(_) => Exit::CannotWrite,
            StateError::OtherStudy { .. } => Exit::Refused,
            StateError::Damaged { .. } => Exit::Data,
        }
    }
}

/// The state of one run.
#[derive(Debug)]
pub struct State {
    path: PathBuf,
    connection: Connection,
    run: RunId,
    opened: u64,
}

impl State {
    /// Opens the state of a study's run, or begins one. A run that ended in good order makes way for the next.
    ///
    /// # Errors
    /// The file cannot be used, another process uses it, or it belongs to another study.
    pub fn open(folder: &Path, study: Digest, fresh: RunId) -> Result<State, StateError> {
        make_folder(folder)?;
        let path = folder.join(FILE);
        let failed = |source| StateError::Sqlite { path: path.clone(), source };
        // For its owner alone; SQLite gives its other files the same rights.
        make_own(&path).map_err(OutputError::at(&path))?;
        let connection = Connection::open(&path).map_err(failed)?;
        connection.busy_timeout(Duration::ZERO).map_err(failed)?;
        // Exclusive: a second coordinator must not write between our lines.
        connection
            .execute_batch("PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;")
            .map_err(failed)?;
        let known: i32 = connection.query_row("PRAGMA application_id", [], |row| row.get(0)).map_err(failed)?;
        if known == 0 {
            connection
                .execute_batch(&format!("BEGIN IMMEDIATE; {SCHEMA} PRAGMA application_id = {APPLICATION}; COMMIT;"))
                .map_err(failed)?;
        } else if known != APPLICATION {
            return Err(StateError::Damaged { path, problem: "it is another program's database".to_string() });
        }
        let mut state = State { path: path.clone(), connection, run: fresh, opened: now() };
        let row: Option<(Vec<u8>, Vec<u8>, u64, bool)> = state
            .connection
            .query_row("SELECT study, run, opened, ended FROM run", [], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
            })
            .optional()
            .map_err(failed)?;
        match row {
            Some((theirs, run, opened, false)) => {
                let (theirs, run) = match (<[u8; 32]>::try_from(theirs), <[u8; 16]>::try_from(run)) {
                    (Ok(theirs), Ok(run)) => (Digest(theirs), RunId(run)),
                    _ => return Err(StateError::Damaged { path, problem: "it has no digest".to_string() }),
                };
                if theirs != study {
                    return Err(StateError::OtherStudy { path, theirs: theirs.short(), ours: study.short() });
                }
                (state.run, state.opened) = (run, opened);
            }
            _ => state.begin(study, fresh)?,
        }
        Ok(state)
    }

    /// Forgets the run before and begins another.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn begin(&mut self, study: Digest, run: RunId) -> Result<(), StateError> {
        (self.run, self.opened) = (run, now());
        let opened = self.opened;
        self.write(|connection| {
            let transaction = connection.transaction()?;
            transaction.execute_batch("DELETE FROM records; DELETE FROM snapshot; DELETE FROM run;")?;
            transaction.execute(
                "INSERT INTO run (id, study, run, opened) VALUES (0, ?1, ?2, ?3)",
                params![study.0.as_slice(), run.0.as_slice(), opened],
            )?;
            transaction.commit()
        })
    }

    /// The run.
    pub fn run(&self) -> RunId {
        self.run
    }

    /// The folder of the file.
    pub fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    /// What is left of a time that began when the run was opened. Of a clock that was set back since, no more than all of it.
    pub fn left_of(&self, time: Duration) -> Duration {
        time.saturating_sub(Duration::from_secs(now().saturating_sub(self.opened)))
    }

    /// Everything that was kept, in order.
    ///
    /// # Errors
    /// The file is damaged.
    pub fn records(
        &self,
        limits: BodyLimits,
        mut each: impl FnMut(Record) -> Result<(), String>,
    ) -> Result<(), StateError> {
        let failed = |source| StateError::Sqlite { path: self.path.clone(), source };
        let damaged = |problem| StateError::Damaged { path: self.path.clone(), problem };
        let snapshot: Option<String> =
            self.connection.query_row("SELECT body FROM snapshot", [], |row| row.get(0)).optional().map_err(failed)?;
        if let Some(text) = snapshot {
            let snapshot: Snapshot = serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
            each(Record::Snapshot(snapshot)).map_err(damaged)?;
        }
        let mut query = self
            .connection
            .prepare("SELECT kind, site, number, text, body FROM records ORDER BY sequence")
            .map_err(failed)?;
        let mut rows = query.query([]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let record = record(row, limits).map_err(failed)?.map_err(damaged)?;
            each(record).map_err(damaged)?;
        }
        Ok(())
    }

    /// Keeps records: all of them or none, and durable when this returns.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn keep<'a>(&mut self, records: impl IntoIterator<Item = &'a Record>) -> Result<(), StateError> {
        self.write(|connection| {
            let transaction = connection.transaction()?;
            {
                let mut add = transaction.prepare_cached(
                    "INSERT INTO records (kind, site, number, text, body) VALUES (?1, ?2, ?3, ?4, ?5)",
                )?;
                for record in records {
                    if let Record::Snapshot(snapshot) = record {
                        // It stands for everything before it.
                        transaction.execute("DELETE FROM records", [])?;
                        transaction.execute(
                            "INSERT OR REPLACE INTO snapshot (id, body) VALUES (0, ?1)",
                            params![serde_json::to_string(snapshot).unwrap_or_default()],
                        )?;
                    } else if let Some((kind, site, number, text, body)) = columns(record) {
                        add.execute(params![kind, site, number, text, body])?;
                    }
                }
            }
            transaction.commit()
        })
    }

    /// The run ended in good order: the next process begins another.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn end(&mut self) -> Result<(), StateError> {
        self.write(|connection| connection.execute("UPDATE run SET ended = 1", []).map(drop))
    }

    fn write(&mut self, work: impl FnOnce(&mut Connection) -> rusqlite::Result<()>) -> Result<(), StateError> {
        let path = self.path.clone();
        work(&mut self.connection).map_err(|source| StateError::Sqlite { path, source })
    }
}

/// The kind of a record, its site, number and text, and its body; nothing of one that stands for all before it.
type Columns<'a> = (&'static str, Option<&'a str>, Option<u64>, Option<&'a str>, Option<Vec<u8>>);

fn columns(record: &Record) -> Option<Columns<'_>> {
    Some(match record {
        Record::Contribution { site, number, body } => {
            ("contribution", Some(site), Some(*number), None, Some(body_to_bytes(body)))
        }
        Record::Rejected { site, number, reason } => ("rejected", Some(site), *number, Some(reason), None),
        Record::Complete { site, contributions } => ("complete", Some(site), Some(*contributions), None, None),
        Record::Left { site, exit, sentence } => ("left", Some(site), Some(exit.code().into()), Some(sentence), None),
        Record::Opened => ("opened", None, None, None, None),
        Record::Told { site } => ("told", Some(site), None, None, None),
        Record::Round => ("round", None, None, None, None),
        Record::Over { reason } => ("over", None, None, reason.as_deref(), None),
        Record::Snapshot(_) => return None,
    })
}

fn record(row: &Row<'_>, limits: BodyLimits) -> rusqlite::Result<Result<Record, String>> {
    let kind: String = row.get(0)?;
    let site = row.get::<_, Option<String>>(1)?.unwrap_or_default();
    let number: Option<u64> = row.get(2)?;
    let text: Option<String> = row.get(3)?;
    let body: Option<Vec<u8>> = row.get(4)?;
    let least = number.unwrap_or_default();
    Ok(match kind.as_str() {
        "contribution" => body_from_bytes(&body.unwrap_or_default(), limits)
            .map(|body| Record::Contribution { site, number: least, body })
            .map_err(|fault| fault.to_string()),
        "rejected" => Ok(Record::Rejected { site, number, reason: text.unwrap_or_default() }),
        "complete" => Ok(Record::Complete { site, contributions: least }),
        "left" => {
            let exit = Exit::from_code(u8::try_from(least).unwrap_or(u8::MAX));
            Ok(Record::Left { site, exit, sentence: text.unwrap_or_default() })
        }
        "opened" => Ok(Record::Opened),
        "told" => Ok(Record::Told { site }),
        "round" => Ok(Record::Round),
        "over" => Ok(Record::Over { reason: text }),
        other => Err(format!("a record of the unknown kind `{other}`")),
    })
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map(|time| time.as_secs()).unwrap_or_default();
    #[cfg(test)]
    let now = now.saturating_add_signed(tests::STEP.get());
    now
}

#[cfg(test)]
pub(crate) mod tests {
    use fedreg_common::star::message::{Body, Kind};

    use super::*;

    thread_local! {
        /// Seconds by which somebody has set the clock.
        pub(crate) static STEP: std::cell::Cell<i64> = const { std::cell::Cell::new(0) };
    }

    const LIMITS: BodyLimits = BodyLimits { counts: 3, values: 8 };

    fn records() -> Vec<Record> {
        let body =
            Body { kind: Kind::Estimate, counts: vec![20, 18, 1], values: vec![0.1, -0.0, f64::MIN_POSITIVE, 1e300] };
        vec![
            Record::Contribution { site: "north".into(), number: 0, body },
            Record::Rejected { site: "south".into(), number: Some(0), reason: "no".into() },
            Record::Rejected { site: "south".into(), number: None, reason: "of another run".into() },
            Record::Complete { site: "north".into(), contributions: 1 },
            Record::Left { site: "south".into(), exit: Exit::Data, sentence: "gone".into() },
            Record::Opened,
            Record::Round,
            Record::Over { reason: Some("deadline".into()) },
            Record::Told { site: "north".into() },
        ]
    }

    fn read(state: &State) -> Vec<Record> {
        let mut all = Vec::new();
        state
            .records(LIMITS, |record| {
                all.push(record);
                Ok(())
            })
            .unwrap();
        all
    }

    #[test]
    fn what_was_kept_comes_back_in_order_with_the_same_bits_and_the_same_run() {
        let folder = tempfile::tempdir().unwrap();
        let (study, run) = (Digest([1; 32]), RunId([2; 16]));
        let mut state = State::open(folder.path(), study, run).unwrap();
        state.keep(&records()).unwrap();
        let opened = state.opened;
        drop(state);
        let mut state = State::open(folder.path(), study, RunId([9; 16])).unwrap();
        assert_eq!((state.run(), state.opened), (run, opened));
        assert_eq!(read(&state), records());
        state.end().unwrap();
        drop(state);
        let state = State::open(folder.path(), study, RunId([9; 16])).unwrap();
        assert_eq!(state.run(), RunId([9; 16]));
        assert_eq!(read(&state), []);
    }

    #[test]
    fn a_state_of_another_study_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        drop(State::open(folder.path(), Digest([1; 32]), RunId([2; 16])).unwrap());
        let error = State::open(folder.path(), Digest([3; 32]), RunId([2; 16])).unwrap_err();
        assert_eq!(error.exit(), Exit::Refused);
        assert!(error.to_string().contains("belongs to another study (digest 01010101"), "{error}");
    }

    #[test]
    fn a_state_is_used_by_one_process_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let _state = State::open(folder.path(), Digest([1; 32]), RunId([2; 16])).unwrap();
        let error = State::open(folder.path(), Digest([1; 32]), RunId([2; 16])).unwrap_err();
        assert_eq!(error.exit(), Exit::CannotWrite);
        assert!(error.to_string().contains("another process uses it"), "{error}");
    }

    #[test]
    fn files_that_are_no_state_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), "this is no database at all, and long enough to be looked at")
            .unwrap();
        assert_eq!(State::open(folder.path(), Digest([1; 32]), RunId([2; 16])).unwrap_err().exit(), Exit::CannotWrite);
    }
}
