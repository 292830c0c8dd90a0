//! What a party keeps between runs: a lock, and the log of what was run.

use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use fedreg_common::exit::Exit;
use fedreg_common::id::{Role, RunId};
use fedreg_common::study::{Guaranteed, Study};
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{Folder, OutputError, chain, own_file};

/// The state folder of a party, held by this process alone.
#[derive(Debug)]
pub struct Store {
    folder: Folder,
    /// Held for as long as the store lives; the system releases it when the process ends, however it ends.
    _lock: File,
}

/// One line in the log of runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Entry {
    /// Seconds since 1970, UTC.
    pub time: u64,
    /// What was done: `fit` or `predict`.
    pub command: &'static str,
    /// As which party.
    pub role: Role,
    /// The study's id.
    pub study: String,
    /// Its digest.
    pub study_digest: String,
    /// The run, if it came to one.
    pub run: Option<String>,
    /// How it ended.
    pub exit: u8,
    /// The sentence, if it was aborted.
    pub reason: Option<String>,
    /// Bytes of messages that left.
    pub bytes_sent: u64,
}

impl Store {
    /// Opens the state folder, and keeps other processes out.
    ///
    /// # Errors
    /// It cannot be written, or another process uses it.
    pub fn open(path: &Path) -> Result<Store, OutputError> {
        let folder = Folder::prepare(path)?;
        let place = path.join("lock");
        let failed = |source| OutputError { path: place.clone(), source };
        let lock = own_file().write(true).truncate(false).open(&place).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => Ok(Store { folder, _lock: lock }),
            Err(TryLockError::WouldBlock) => {
                Err(failed(io::Error::other("another process uses this state folder: wait for it, or end it")))
            }
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }

    /// Adds a line to `runs.jsonl`. The result is there, or its failure is the greater trouble: a log that cannot be written must not hide
    /// either.
    pub(crate) fn note(&self, entry: &Entry) {
        if let Err(error) = self.record(entry) {
            tracing::warn!("{}", chain(&error));
        }
    }

    /// Adds a line to `runs.jsonl`.
    ///
    /// # Errors
    /// It cannot be written.
    fn record(&self, entry: &Entry) -> Result<(), OutputError> {
        let path = self.folder.path().join("runs.jsonl");
        let mut line = serde_json::to_string(entry).unwrap_or_default();
        line.push('\n');
        own_file()
            .append(true)
            .open(&path)
            .and_then(|mut file| file.write_all(line.as_bytes()).and_then(|()| file.sync_all()))
            .map_err(|source| OutputError { path, source })
    }
}

impl Entry {
    /// An entry for a run that has just ended.
    pub(crate) fn now<M: Guaranteed, T>(
        command: &'static str,
        role: Role,
        study: &Study<M>,
        run: Option<RunId>,
        ended: &Result<(T, Exit), Failure>,
    ) -> Entry {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Entry {
            time: since.map_or(0, |since| since.as_secs()),
            command,
            role,
            study: study.head.id.clone(),
            study_digest: study.digest().to_string(),
            run: run.map(|run| run.to_string()),
            exit: ended.as_ref().map_or_else(Failure::exit, |(_, exit)| *exit).code(),
            reason: ended.as_ref().err().map(Failure::kept),
            bytes_sent: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_folder_is_used_by_one_process_at_a_time_and_keeps_every_run() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let refused = Store::open(folder.path()).unwrap_err();
        assert_eq!(refused.exit(), Exit::CannotWrite);
        assert!(refused.source.to_string().contains("another process"));
        let entry = Entry {
            time: 1,
            command: "fit",
            role: Role::Alice,
            study: "s".to_string(),
            study_digest: "d".to_string(),
            run: Some("r".to_string()),
            exit: 0,
            reason: None,
            bytes_sent: 5,
        };
        store.record(&entry).unwrap();
        store.record(&Entry { exit: 69, ..entry }).unwrap();
        drop(store);
        Store::open(folder.path()).unwrap();
        let log = std::fs::read_to_string(folder.path().join("runs.jsonl")).unwrap();
        assert_eq!(log.lines().count(), 2);
        assert!(log.lines().last().unwrap().contains("\"exit\":69"));
    }
}
