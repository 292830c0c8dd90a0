//! Numbers that opened of a data set without noise, over all runs, and the rows that they are about.
//!
//! One table of cross-products shows little of a single row; many tables of the same rows, or two tables of rows that differ by a few,
//! show more. So a party counts in its ledger what it lets open, before it leaves, and compares the rows with those of earlier tables.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::state::{Entry, Openings};
use super::{Ledger, LedgerError, PersonDigests, Storage, Transaction, plain_blob};

/// The rows of a table, by digests of their identifiers.
#[derive(Debug, Clone, PartialEq)]
pub struct TableRows {
    digests: Arc<PersonDigests>,
    /// Of all of them.
    name: String,
}

impl TableRows {
    /// From a digest of each row's identifier under the ledger's key, in any order.
    pub fn new(rows: impl IntoIterator<Item = [u8; 16]>) -> TableRows {
        let digests = Arc::new(PersonDigests::of_rows(rows));
        TableRows { name: digests.digest(), digests }
    }
}

/// What a run lets open of a data set.
#[derive(Debug, Clone, PartialEq)]
pub struct Opening {
    /// Its name.
    pub run: String,
    /// Name of the data at hand; they need not be registered.
    pub data_set: String,
    /// To whom.
    pub peers: Vec<String>,
    /// Digest of the study.
    pub study: String,
    /// Numbers of the whole run up to here.
    pub numbers: u64,
    /// The rows of which a table opens; none where rows themselves leave, which no comparison of tables makes worse.
    pub rows: Option<TableRows>,
}

/// What opened of a data set in other runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Before {
    /// How many runs.
    pub runs: u64,
    /// Their numbers.
    pub numbers: u64,
}

impl<S: Storage> Ledger<S> {
    /// What opened of a data set in runs other than this one.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn opened_before(&mut self, data_set: &str, run: &str) -> Result<Before, LedgerError> {
        self.transact(|transaction| Ok(transaction.state.opened_before(data_set, run)))
    }

    /// Whether a run may let these numbers open; nothing is recorded. `allowed` judges by what opened in other runs. Tables of the same
    /// data set must be about the same rows, or about rows of which at least `least` are in one of both only.
    ///
    /// # Errors
    /// Rows that differ by fewer, and a ledger that cannot be read. The inner error is that of `allowed`.
    pub fn may_open<E>(
        &mut self,
        opening: &Opening,
        least: u64,
        allowed: impl FnOnce(Before) -> Result<(), E>,
    ) -> Result<Result<(), E>, LedgerError> {
        self.transact(|transaction| {
            transaction.storage.check()?;
            transaction.may_open(opening, least, allowed)
        })
    }

    /// Records numbers that a run is about to let open. What was recorded of the run before counts no more.
    ///
    /// # Errors
    /// As [`Ledger::may_open`]; then nothing is recorded and nothing may leave.
    pub fn open_numbers<E>(
        &mut self,
        opening: &Opening,
        least: u64,
        allowed: impl FnOnce(Before) -> Result<(), E>,
    ) -> Result<Result<(), E>, LedgerError> {
        self.transact(|transaction| {
            if let Err(refused) = transaction.may_open(opening, least, allowed)? {
                return Ok(Err(refused));
            }
            let Opening { run, data_set, peers, study, numbers, rows } = opening.clone();
            if let Some(TableRows { digests, name }) = &rows
                && !transaction.state.keeps(name)
            {
                transaction.storage.put_blob(&plain_blob(name), &digests.bytes())?;
            }
            let rows_digest = rows.map(|rows| rows.name);
            transaction.append(Entry::Numbers { run, data_set, peers, study, numbers, rows_digest })?;
            Ok(Ok(()))
        })
    }

    /// The runs of which numbers are recorded.
    pub fn counted_runs(&self) -> BTreeSet<String> {
        self.state.openings.keys().cloned().collect()
    }

    /// Every data set of which numbers opened, with how many in how many runs.
    pub fn openings(&self) -> impl Iterator<Item = (&str, Before)> {
        let names: BTreeSet<&str> = self.state.openings.values().map(|opened| opened.data_set.as_str()).collect();
        names.into_iter().map(|name| (name, self.state.opened_before(name, "")))
    }
}

impl<S: Storage> Transaction<'_, S> {
    fn may_open<E>(
        &mut self,
        opening: &Opening,
        least: u64,
        allowed: impl FnOnce(Before) -> Result<(), E>,
    ) -> Result<Result<(), E>, LedgerError> {
        if let Some(rows) = &opening.rows {
            self.compare_rows(opening, rows, least)?;
        }
        Ok(allowed(self.state.opened_before(&opening.data_set, &opening.run)))
    }

    /// The difference of two tables is the table of the rows that are in one of both only.
    fn compare_rows(&mut self, opening: &Opening, rows: &TableRows, least: u64) -> Result<(), LedgerError> {
        let mut others: Vec<(String, String)> = Vec::new();
        for (run, Openings { data_set, rows_digest, .. }) in &self.state.openings {
            let Some(name) = rows_digest.as_ref().filter(|name| **name != rows.name) else { continue };
            let seen = others.iter().any(|(_, other)| other == name);
            if *run != opening.run && *data_set == opening.data_set && !seen {
                others.push((run.clone(), name.clone()));
            }
        }
        for (run, name) in others {
            let differing = rows.digests.differing(&self.blob_of_persons(&name)?);
            if differing < least {
                let data_set = opening.data_set.clone();
                return Err(LedgerError::RowsBetween { data_set, run, rows: differing, least });
            }
        }
        Ok(())
    }
}
