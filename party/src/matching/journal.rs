//! A match that was interrupted: its secret and what was heard, so that it goes on with the same bytes.
//!
//! One file in the state folder, for its owner alone, is there for as long as a match has not ended. Its head is written and synced before
//! the first message leaves, every message of the peer before anything follows from it. The end of the match erases it. A tail that a
//! crash has cut is left out: the peer says that message again.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use fedreg_common::id::{Digest, RunId};
use fedreg_common::methods::vertical::matching::Journal;
use fedreg_common::session::Abort;

use crate::failure::Failure;
use crate::output::{self, OutputError};

const MAGIC: &[u8; 8] = b"FRMATCH1";
/// Magic, run, seed, and what the match is bound to.
const HEAD: usize = 8 + 16 + 32 + 32;
/// Sequence, length and checksum of a message.
const FRAME: usize = 8 + 4 + 8;
/// Longest message: parts of lists are far shorter.
const LONGEST: usize = 1 << 24;

/// The head of the file.
#[derive(Clone, Copy)]
pub(super) struct Begun {
    /// The run.
    pub(super) run: RunId,
    seed: [u8; 32],
    /// The digest of what the match is bound to: study, purpose and data.
    pub(super) bound: Digest,
}

/// Where the file is.
pub(super) fn place(state: &Path) -> PathBuf {
    state.join("match-run.bin")
}

/// The match that was interrupted here, if there is one.
pub(super) fn begun(state: &Path) -> Option<Begun> {
    let mut head = [0; HEAD];
    File::open(place(state)).ok()?.read_exact(&mut head).ok()?;
    parse(&head)
}

fn parse(head: &[u8; HEAD]) -> Option<Begun> {
    let (magic, rest) = head.split_first_chunk::<8>()?;
    let (run, rest) = rest.split_first_chunk()?;
    let (seed, rest) = rest.split_first_chunk()?;
    let (bound, _) = rest.split_first_chunk()?;
    (magic == MAGIC).then_some(Begun { run: RunId(*run), seed: *seed, bound: Digest(*bound) })
}

/// Erases the file of a match that has ended.
///
/// # Errors
/// It cannot be removed.
pub(super) fn erase(state: &Path) -> Result<(), OutputError> {
    let path = place(state);
    match fs::remove_file(&path) {
        Err(source) if source.kind() != ErrorKind::NotFound => Err(OutputError { path, source }),
        _ => Ok(()),
    }
}

/// What was heard in one match.
pub(super) struct Kept {
    file: File,
    path: PathBuf,
    seed: [u8; 32],
    /// Where each message stands, and how long it is.
    places: BTreeMap<u64, (u64, usize)>,
    end: u64,
    resumed: bool,
}

impl Kept {
    /// Goes on with what is kept of a run, or begins with a fresh secret.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub(super) fn of(state: &Path, run: RunId, fresh: [u8; 32], bound: Digest) -> Result<Kept, Failure> {
        let path = place(state);
        let failed = |source| Failure::from(OutputError { path: path.clone(), source });
        match begun(state).filter(|begun| begun.run == run && begun.bound == bound) {
            Some(begun) => Kept::resume(&path, begun.seed).map_err(failed),
            None => {
                let head = [MAGIC.as_slice(), &run.0, &fresh, &bound.0].concat();
                output::write_whole(&path, &head)?;
                let file = output::own_file().read(true).write(true).open(&path).map_err(failed)?;
                let (places, end) = (BTreeMap::new(), HEAD as u64);
                Ok(Kept { file, path: path.clone(), seed: fresh, places, end, resumed: false })
            }
        }
    }

    fn resume(path: &Path, seed: [u8; 32]) -> std::io::Result<Kept> {
        let mut file = output::own_file().read(true).write(true).open(path)?;
        file.seek(SeekFrom::Start(HEAD as u64))?;
        let (mut places, mut end) = (BTreeMap::new(), HEAD as u64);
        let mut frame = [0; FRAME];
        while file.read_exact(&mut frame).is_ok() {
            let Some((sequence, length, checksum)) = unframed(&frame) else { break };
            if length > LONGEST {
                break;
            }
            let mut message = vec![0; length];
            if file.read_exact(&mut message).is_err() || checksum != sum(sequence, &message) {
                break;
            }
            places.insert(sequence, (end + FRAME as u64, length));
            end += (FRAME + length) as u64;
        }
        file.set_len(end)?;
        let resumed = !places.is_empty();
        Ok(Kept { file, path: path.to_path_buf(), seed, places, end, resumed })
    }

    /// The secret of the run.
    pub(super) fn seed(&self) -> [u8; 32] {
        self.seed
    }

    /// The same file for the lines to several parties.
    pub(super) fn of_lines(self, lines: usize) -> Vec<Box<dyn Journal + Send>> {
        let known: Vec<u64> = self.places.keys().copied().collect();
        let shared = Arc::new(Mutex::new(self));
        let line = |line: usize| {
            let first = (line as u64 + 1) << LINE_BITS;
            let resumed = known.iter().any(|key| key >> LINE_BITS == line as u64 + 1);
            Box::new(LineKept { shared: Arc::clone(&shared), first, resumed }) as Box<dyn Journal + Send>
        };
        (0..lines).map(line).collect()
    }

    fn append(&mut self, sequence: u64, message: &[u8]) -> std::io::Result<()> {
        let length = u32::try_from(message.len()).ok().filter(|length| *length as usize <= LONGEST);
        let length = length.ok_or_else(|| std::io::Error::new(ErrorKind::InvalidInput, "a message is too long"))?;
        let frame = [&sequence.to_le_bytes()[..], &length.to_le_bytes(), &sum(sequence, message), message].concat();
        self.file.seek(SeekFrom::Start(self.end))?;
        self.file.write_all(&frame)?;
        self.file.sync_data()?;
        self.places.insert(sequence, (self.end + FRAME as u64, message.len()));
        self.end += frame.len() as u64;
        Ok(())
    }

    fn look_up(&mut self, sequence: u64) -> std::io::Result<Option<Vec<u8>>> {
        let Some(&(place, length)) = self.places.get(&sequence) else { return Ok(None) };
        let mut message = vec![0; length];
        self.file.seek(SeekFrom::Start(place))?;
        self.file.read_exact(&mut message)?;
        Ok(Some(message))
    }
}

/// Messages of a line stand under their number, with that of the line, from 1, above these bits.
const LINE_BITS: u32 = 48;

/// What was heard on the line to one of several parties.
struct LineKept {
    shared: Arc<Mutex<Kept>>,
    first: u64,
    resumed: bool,
}

impl Journal for LineKept {
    fn keep(&mut self, sequence: u64, message: &[u8]) -> Result<(), Abort> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).keep(self.first | sequence, message)
    }

    fn kept(&mut self, sequence: u64) -> Result<Option<Vec<u8>>, Abort> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).kept(self.first | sequence)
    }

    fn has_begun(&self) -> bool {
        self.resumed
    }
}

/// Sequence, length and checksum of a message.
fn unframed(frame: &[u8; FRAME]) -> Option<(u64, usize, [u8; 8])> {
    let (sequence, rest) = frame.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let (checksum, _) = rest.split_first_chunk()?;
    Some((u64::from_le_bytes(*sequence), u32::from_le_bytes(*length) as usize, *checksum))
}

fn sum(sequence: u64, message: &[u8]) -> [u8; 8] {
    let digest = Digest::of(&[&sequence.to_le_bytes()[..], message].concat()).0;
    let mut sum = [0; 8];
    sum.copy_from_slice(&digest[..8]);
    sum
}

impl Journal for Kept {
    fn keep(&mut self, sequence: u64, message: &[u8]) -> Result<(), Abort> {
        let kept = self.append(sequence, message);
        // What was heard before stays: the same command goes on with it.
        kept.map_err(|error| Abort::Unwritten(format!("cannot write {}: {error}", self.path.display())))
    }

    fn kept(&mut self, sequence: u64) -> Result<Option<Vec<u8>>, Abort> {
        let found = self.look_up(sequence);
        found.map_err(|error| Abort::OwnData(format!("cannot read {}: {error}", self.path.display())))
    }

    fn has_begun(&self) -> bool {
        self.resumed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: RunId = RunId([4; 16]);
    const BOUND: Digest = Digest([5; 32]);

    #[test]
    fn what_was_heard_is_there_again_with_the_secret_and_a_cut_tail_is_left_out() {
        let state = tempfile::tempdir().unwrap();
        let open =
            |fresh: u8| Kept::of(state.path(), RUN, [fresh; 32], BOUND).map_err(|error| error.to_string()).unwrap();
        let mut first = open(1);
        assert!(!first.has_begun());
        for (sequence, message) in [(1, &b"greeting"[..]), (3, b""), (5, &[7; 300_000])] {
            first.keep(sequence, message).unwrap();
        }
        drop(first);
        let mut second = open(2);
        assert!(second.has_begun());
        assert_eq!(second.seed(), [1; 32]);
        assert_eq!(second.kept(1).unwrap().unwrap(), b"greeting");
        assert_eq!(second.kept(5).unwrap().unwrap().len(), 300_000);
        assert_eq!((second.kept(3).unwrap(), second.kept(2).unwrap()), (Some(Vec::new()), None));
        drop(second);
        let path = place(state.path());
        let whole = fs::read(&path).unwrap();
        for cut in [1, 299_999, 300_000 + FRAME - 1] {
            fs::write(&path, &whole[..whole.len() - cut]).unwrap();
            let mut third = open(3);
            assert_eq!((third.kept(5).unwrap(), third.kept(1).unwrap().is_some()), (None, true), "{cut}");
            third.keep(5, b"again").unwrap();
            drop(third);
            assert_eq!(open(3).kept(5).unwrap().unwrap(), b"again");
        }
        let mut flipped = whole.clone();
        flipped[HEAD + FRAME] ^= 1;
        fs::write(&path, flipped).unwrap();
        assert!(!open(3).has_begun(), "a damaged message and all behind it are left out");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn another_run_or_another_table_begins_with_a_fresh_secret_and_the_end_erases_all() {
        let state = tempfile::tempdir().unwrap();
        let open = |run, fresh: u8, bound| {
            Kept::of(state.path(), run, [fresh; 32], bound).map_err(|error| error.to_string()).unwrap()
        };
        open(RUN, 1, BOUND).keep(1, b"x").unwrap();
        assert_eq!(begun(state.path()).map(|begun| (begun.run, begun.bound)), Some((RUN, BOUND)));
        assert_eq!(open(RUN, 2, Digest([6; 32])).seed(), [2; 32]);
        assert_eq!(open(RunId([9; 16]), 3, BOUND).seed(), [3; 32]);
        erase(state.path()).unwrap();
        erase(state.path()).unwrap();
        assert!(begun(state.path()).is_none());
        fs::write(place(state.path()), b"FRMATCH1 and nothing more").unwrap();
        assert!(begun(state.path()).is_none());
        assert_eq!(open(RUN, 4, BOUND).seed(), [4; 32]);
    }
}
