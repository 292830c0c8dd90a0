//! What a ledger asks of the place that keeps it.

use sha2::{Digest, Sha256};

use crate::exit::Exit;

/// Where the chain lives. A transaction is everything between `begin` and `commit`; only one process is inside one.
pub trait Storage {
    /// The secret key of the person digests, made when the ledger was made and kept apart from it.
    ///
    /// # Errors
    ///
    /// The key cannot be read.
    fn key(&mut self) -> Result<[u8; 32], StorageError>;

    /// Waits for the lock and starts a transaction.
    ///
    /// # Errors
    ///
    /// Another process holds the lock for too long, or the storage cannot be read.
    fn begin(&mut self) -> Result<(), StorageError>;

    /// Records with a number above `sequence`, in order.
    ///
    /// # Errors
    ///
    /// The storage cannot be read.
    fn records_after(&mut self, sequence: u64) -> Result<Vec<Record>, StorageError>;

    /// Adds a record.
    ///
    /// # Errors
    ///
    /// The storage cannot be written.
    fn append(&mut self, record: &Record) -> Result<(), StorageError>;

    /// Keeps bytes under a name that is not in use.
    ///
    /// # Errors
    ///
    /// The storage cannot be written.
    fn put_blob(&mut self, name: &str, bytes: &[u8]) -> Result<(), StorageError>;

    /// Bytes kept under a name.
    ///
    /// # Errors
    ///
    /// The storage cannot be read.
    fn blob(&mut self, name: &str) -> Result<Option<Vec<u8>>, StorageError>;

    /// Ends the transaction; what was written survives a crash of the machine once this returns.
    ///
    /// # Errors
    ///
    /// The storage cannot be written; then nothing of the transaction was.
    fn commit(&mut self) -> Result<(), StorageError>;

    /// Ends the transaction without writing anything.
    fn abandon(&mut self);

    /// Looks whether the storage is whole in itself, as far as it can tell.
    ///
    /// # Errors
    ///
    /// It is not.
    fn check(&mut self) -> Result<(), StorageError> {
        Ok(())
    }

    /// The last record known, kept where a restored or deleted ledger does not take it along.
    ///
    /// # Errors
    ///
    /// The anchor cannot be read.
    fn anchor(&mut self) -> Result<Option<Anchor>, StorageError>;

    /// Moves the anchor forward; never backward. Synced when it returns.
    ///
    /// # Errors
    ///
    /// The anchor cannot be written.
    fn advance_anchor(&mut self, anchor: &Anchor) -> Result<(), StorageError>;

    /// Seconds since 1970, for the reader of the ledger; nothing is decided by it.
    fn now(&self) -> u64;

    /// What messages call it.
    fn name(&self) -> String {
        "the privacy ledger".to_owned()
    }

    /// What messages call the ledger and its anchor where they are about both.
    fn places(&self) -> [String; 2] {
        ["the privacy ledger", "its anchor"].map(str::to_owned)
    }
}

/// A storage that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StorageError {
    /// Another process is inside a transaction.
    #[error("the privacy ledger {place} is in use by another process")]
    Locked {
        /// Which ledger.
        place: String,
    },
    /// No space.
    #[error(
        "the disk with the privacy ledger {place} is full: what could not be stored was not released; make room and give the same command again"
    )]
    Full {
        /// Which ledger.
        place: String,
    },
    /// No permission to write.
    #[error("the privacy ledger {place} cannot be written: it or its folder is read-only")]
    ReadOnly {
        /// Which ledger.
        place: String,
    },
    /// There is no ledger, although there was one.
    #[error(
        "the privacy ledger {place} is gone, but its anchor says that it had {records} records: restore it, or name the state folder that has it"
    )]
    Gone {
        /// Which ledger.
        place: String,
        /// Records the anchor knows.
        records: u64,
    },
    /// There is no ledger.
    #[error("there is no privacy ledger at {place}: run `privacy init` first")]
    Missing {
        /// Which ledger.
        place: String,
    },
    /// No ledger file, or one that is damaged.
    #[error("{place} is not a readable privacy ledger: {reason}")]
    Unreadable {
        /// Which ledger.
        place: String,
        /// What the storage said.
        reason: String,
    },
}

impl StorageError {
    /// The exit code that belongs to it.
    pub fn exit(&self) -> Exit {
        match self {
            StorageError::Full { .. } | StorageError::ReadOnly { .. } => Exit::CannotWrite,
            StorageError::Locked { .. }
            | StorageError::Gone { .. }
            | StorageError::Missing { .. }
            | StorageError::Unreadable { .. } => Exit::Refused,
        }
    }
}

/// One link of the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// 1 for the first.
    pub sequence: u64,
    /// Seconds since 1970.
    pub at: u64,
    /// The entry as JSON.
    pub body: String,
    /// SHA-256 of the hash before, the number, the time and the body.
    pub hash: [u8; 32],
}

impl Record {
    pub(super) fn link(previous: &Anchor, at: u64, body: String) -> Record {
        let sequence = previous.sequence + 1;
        let hash = Sha256::new()
            .chain_update(previous.hash)
            .chain_update(sequence.to_le_bytes())
            .chain_update(at.to_le_bytes())
            .chain_update(body.as_bytes())
            .finalize()
            .into();
        Record { sequence, at, body, hash }
    }

    pub(super) fn end(&self) -> Anchor {
        Anchor { sequence: self.sequence, hash: self.hash }
    }
}

/// The end of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Anchor {
    /// Number of the last record; 0 for none.
    pub sequence: u64,
    /// Its hash.
    pub hash: [u8; 32],
}
