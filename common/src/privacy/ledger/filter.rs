//! Checkpoints of what the persons of a stream have spent, in the chain of the ledger.

use serde::{Deserialize, Serialize};

use super::state::{Entry, State};
use super::{Ledger, LedgerError, Storage, Transaction, hexadecimal};

/// How far the account of a stream's persons has come in a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The run.
    pub run: String,
    /// Its number in the run, counted from 0.
    pub sequence: u64,
    /// Messages that the account has counted.
    pub messages: u64,
    /// What only the account at that message has: 32 random bytes, in hexadecimal digits.
    pub word: String,
    /// The most that one person has spent so far, in parts of `room`.
    pub most: u64,
    /// Parts of the run's charge that a person may spend.
    pub room: u64,
}

impl Checkpoint {
    /// Why it is not taken.
    pub(super) fn refused(&self, place: &str, reason: &'static str) -> LedgerError {
        let (sequence, run) = (self.sequence, self.run.clone());
        LedgerError::Filter { place: place.to_owned(), sequence, run, reason }
    }
}

impl<S: Storage> Ledger<S> {
    /// Writes the next checkpoint of a run: after `messages`, whose account has this `word`, the person who spent most has spent `most`
    /// of `room` parts.
    ///
    /// # Errors
    ///
    /// A run that was never charged, was withdrawn or is over; more spent than there is room; a room that became another; not more
    /// messages than at the checkpoint before, or less spent: then another account of this run was there first, and nothing may leave
    /// by this one.
    pub fn filter(
        &mut self,
        run: &str,
        (messages, word): (u64, &[u8; 32]),
        (most, room): (u64, u64),
    ) -> Result<(), LedgerError> {
        self.transact(|transaction| {
            let before = transaction.state.runs.get(run).and_then(|known| known.filtered.as_ref());
            let sequence = before.map_or(0, |before| before.sequence.saturating_add(1));
            transaction.checkpoint(Checkpoint {
                run: run.to_owned(),
                sequence,
                messages,
                word: hexadecimal(word),
                most,
                room,
            })
        })
    }

    /// The last checkpoint of a run, as it is on disk.
    ///
    /// # Errors
    ///
    /// The ledger cannot be read.
    pub fn checkpoint(&mut self, run: &str) -> Result<Option<Checkpoint>, LedgerError> {
        self.transact(|transaction| Ok(transaction.state.runs.get(run).and_then(|known| known.filtered.clone())))
    }

    /// The last checkpoint of each run on a data set.
    pub fn checkpoints(&self, data_set: &str) -> Vec<Checkpoint> {
        let runs = self.state.runs.values().filter(|run| run.data_set == data_set && !run.withdrawn);
        runs.filter_map(|run| run.filtered.clone()).collect()
    }
}

impl<S: Storage> Transaction<'_, S> {
    fn checkpoint(&mut self, next: Checkpoint) -> Result<(), LedgerError> {
        self.state.may_follow(&next).map_err(|reason| next.refused(&self.storage.name(), reason))?;
        self.append(Entry::Filtered(next))
    }
}

impl State {
    /// Whether a checkpoint can follow from what is there; else what is wrong. The first of a run may be at any message: of a run that an
    /// earlier version began there is none before.
    pub(super) fn may_follow(&self, next: &Checkpoint) -> Result<(), &'static str> {
        let Some(run) = self.runs.get(&next.run).filter(|run| !run.withdrawn) else {
            return Err("the run was never charged, or its charge was taken back");
        };
        if run.finished {
            return Err("the run is over");
        }
        if next.most > next.room {
            return Err("a person has spent more than the run's charge has room for");
        }
        let Some(before) = &run.filtered else {
            return if next.sequence == 0 { Ok(()) } else { Err("there is none before it") };
        };
        if Some(next.sequence) != before.sequence.checked_add(1) {
            Err("its number is not the next one")
        } else if next.room != before.room {
            Err("the room of a person is not that of the one before")
        } else if next.messages <= before.messages {
            Err("it has not more messages than the one before, so another account of the run was there first")
        } else if next.most < before.most {
            Err("less is spent than at the one before")
        } else {
            Ok(())
        }
    }

    pub(super) fn filter(&mut self, checkpoint: Checkpoint) -> Option<()> {
        self.may_follow(&checkpoint).ok()?;
        let run = self.runs.get_mut(&checkpoint.run)?;
        run.filtered = Some(checkpoint);
        Some(())
    }
}
