//! Which lists were merged in which run: one that a party sends again must be the same, or a party could have one list after another counted
//! in a match that counts once.
//!
//! A digest of each list stands in a file of the state folder, written and synced before anybody hears the count. It is over tags that are
//! random to everyone who does not have the key of the run.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use fedreg_common::id::{Digest, Role, RunId};
use fedreg_proto::output::own_file;
use serde::{Deserialize, Serialize};

/// The file.
#[derive(Clone)]
pub(super) struct Lists(PathBuf);

#[derive(Serialize, Deserialize)]
struct Line {
    run: String,
    /// From 1.
    pass: u32,
    party: Role,
    list: String,
}

impl Lists {
    pub(super) fn of(folder: &Path) -> Lists {
        Lists(folder.join("merges.jsonl"))
    }

    /// Takes note of the list of a party; false if it is another than before in this pass of the run.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub(super) fn add(&self, run: RunId, pass: u32, party: Role, list: Digest) -> io::Result<bool> {
        let (run, pass, list) = (run.to_string(), pass + 1, list.to_string());
        let text = match fs::read(&self.0) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        // A line that a crash has cut belongs to a count that nobody heard.
        let lines = text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Line>(line).ok());
        let mut before = lines.filter(|line| (&line.run, line.pass, line.party) == (&run, pass, party)).peekable();
        if before.peek().is_some() {
            return Ok(before.all(|line| line.list == list));
        }
        drop(before);
        let line = serde_json::to_string(&Line { run, pass, party, list })?;
        let cut = text.last().is_some_and(|last| *last != b'\n');
        let mut file = own_file().append(true).open(&self.0)?;
        file.write_all(format!("{}{line}\n", if cut { "\n" } else { "" }).as_bytes())?;
        file.sync_all()?;
        if let (true, Some(folder)) = (text.is_empty(), self.0.parent()) {
            // The name of a new file, too.
            File::open(folder)?.sync_all()?;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_comes_again_must_be_the_same_also_behind_a_line_that_a_crash_has_cut() {
        let folder = tempfile::tempdir().unwrap();
        let add = |run: u8, pass, party, list: u8| {
            Lists::of(folder.path()).add(RunId([run; 16]), pass, party, Digest([list; 32])).unwrap()
        };
        assert!(add(1, 0, Role::Alice, 1) && add(1, 0, Role::Bob, 2));
        assert!(add(1, 0, Role::Alice, 1) && !add(1, 0, Role::Alice, 2) && !add(1, 0, Role::Bob, 1));
        // Other passes and runs have lists of their own.
        assert!(add(1, 1, Role::Alice, 3) && add(2, 0, Role::Alice, 4));
        let path = folder.path().join("merges.jsonl");
        #[cfg(unix)]
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions()) & 0o077, 0);
        let whole = fs::read(&path).unwrap();
        assert_eq!(whole.iter().filter(|byte| **byte == b'\n').count(), 4);
        fs::write(&path, &whole[..whole.len() - 3]).unwrap();
        assert!(add(2, 0, Role::Alice, 5) && !add(2, 0, Role::Alice, 4) && !add(1, 0, Role::Alice, 2));
    }
}
