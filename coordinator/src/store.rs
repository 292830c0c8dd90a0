//! The log of events: a line of JSON for everything that a party said and that was said to it.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use fedreg_common::id::Role;
use fedreg_proto::output::{OutputError, make_folder, own_file};
use fedreg_proto::register::{CoordinatorEvent, PartyEvent};
use serde_json::{Value, json};

/// The log of events in the coordinator's state folder.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    file: File,
}

impl Store {
    /// Opens the log, making the folder if need be.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn open(folder: &Path) -> Result<Store, OutputError> {
        make_folder(folder)?;
        let path = folder.join("events.jsonl");
        let file = own_file().append(true).open(&path).map_err(OutputError::at(&path))?;
        Ok(Store { path, file })
    }

    /// Logs what a party said.
    pub fn said(&mut self, from: Role, event: &PartyEvent) {
        let entry = match event {
            PartyEvent::Join { role, version, run, .. } => {
                json!({"event": "join", "as": role, "version": version, "run": run.map(|run| run.to_string())})
            }
            PartyEvent::Ready => json!({"event": "ready"}),
            PartyEvent::Progress(progress) => json!({
                "event": "progress",
                "phase": progress.phase,
                "round": progress.round,
                "certificate": progress.certificate,
                "bytes_sent": progress.bytes_sent,
            }),
            PartyEvent::Abort(notice) => {
                json!({"event": "abort", "exit": notice.exit.code(), "reason": notice.sentence})
            }
            PartyEvent::Done(exit) => json!({"event": "done", "exit": exit.code()}),
        };
        self.write("from", from, entry);
    }

    /// Logs what a party was told.
    pub fn told(&mut self, to: Role, event: &CoordinatorEvent) {
        let entry = match event {
            CoordinatorEvent::Welcome { differing } => json!({"event": "welcome", "differing": differing}),
            CoordinatorEvent::Peer { role, state } => {
                json!({"event": "peer", "peer": role, "state": state.name()})
            }
            CoordinatorEvent::Start { run } => json!({"event": "start", "run": run.to_string()}),
            CoordinatorEvent::Abort { from, notice } => json!({
                "event": "abort",
                "by": from,
                "exit": notice.exit.code(),
                "reason": notice.sentence,
            }),
            CoordinatorEvent::Ended => json!({"event": "ended"}),
        };
        self.write("to", to, entry);
    }

    /// Logs a line that was opened or lost.
    pub fn line(&mut self, role: Role, open: bool) {
        let event = if open { "line opened" } else { "line lost" };
        self.write("from", role, json!({"event": event}));
    }

    fn write(&mut self, direction: &str, role: Role, mut entry: Value) {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        if let Some(entry) = entry.as_object_mut() {
            entry.insert("time".to_string(), json!(time.as_millis() as f64 / 1e3));
            entry.insert(direction.to_string(), json!(role));
        }
        // The run matters more than its log: a full disk is complained of and does not end it.
        if let Err(error) = self.file.write_all(format!("{entry}\n").as_bytes()) {
            tracing::warn!("cannot write {}: {error}", self.path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use fedreg_common::exit::Exit;

    use super::*;

    #[test]
    fn every_event_is_one_line_of_json_with_its_time() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(&folder.path().join("state")).unwrap();
        store.said(Role::Alice, &PartyEvent::Ready);
        store.told(Role::Bob, &CoordinatorEvent::Ended);
        let text = fs::read_to_string(folder.path().join("state/events.jsonl")).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!((&lines[0]["from"], &lines[0]["event"]), (&json!("alice"), &json!("ready")));
        assert!(lines[1]["time"].as_f64().unwrap() > 1.7e9);
    }

    #[test]
    fn a_state_folder_that_cannot_be_written_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let error = Store::open(&file).unwrap_err();
        assert_eq!(error.exit(), Exit::CannotWrite);
    }
}
