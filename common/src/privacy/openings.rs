//! What a party lets open without noise, counted over all its runs before it leaves.

use super::ledger::{Before, Fewest, Ledger, LedgerError, Opening, Storage, TableRows, keyed};
use crate::data::align::Mask;
use crate::secure::open::{Limits, Refusal};

/// What a run would let open of a party's columns, and what limits it.
#[derive(Debug, Clone, Copy)]
pub struct Opens<'a> {
    /// Numbers of the whole run up to here.
    pub numbers: u64,
    /// Rows that take part.
    pub rows: u64,
    /// Columns of both parties, without intercept and outcome.
    pub columns: [u64; 2],
    /// Rows that are left out: the same in every call of a run.
    pub dropped: Option<&'a Mask>,
    /// The weight of each row that takes part, where rows have weights.
    pub weights: Option<&'a [f64]>,
    /// The fold of each row that takes part, from 1, where a table of each fold opens.
    pub folds: Option<&'a [u32]>,
    /// The party's limits.
    pub limits: &'a Limits,
    /// What the limits ask of rows and values that two tables do not have in common.
    pub apart: Fewest,
}

impl Opens<'_> {
    fn allowed(&self, before: Before) -> Result<(), Refusal> {
        self.limits.opened(before.earlier(), self.numbers, self.rows, self.columns).map(drop)
    }

    /// What two tables of one data set must differ by, if they differ: the difference is a table too.
    fn fewest(&self) -> Fewest {
        let columns = self.columns[0].saturating_add(self.columns[1]);
        Fewest { rows: columns.saturating_mul(self.limits.rows_per_column).max(self.apart.rows), ..self.apart }
    }
}

/// Why nothing may open.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NotOpened {
    /// A limit of the party.
    #[error(transparent)]
    Limit(#[from] Refusal),
    /// The ledger, which counts.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// Where a party keeps what it lets open.
pub trait Account {
    /// Whether this may open; nothing is recorded.
    ///
    /// # Errors
    /// It may not.
    fn may_open(&mut self, opens: &Opens<'_>) -> Result<(), NotOpened>;

    /// Records what is about to leave.
    ///
    /// # Errors
    /// It may not leave.
    fn open(&mut self, opens: &Opens<'_>) -> Result<(), NotOpened>;
}

/// Of one run in a ledger.
pub struct RunAccount<S> {
    ledger: Ledger<S>,
    opening: Opening,
    /// A digest of each row of the table, in its order, until it is known which take part.
    rows: Vec<[u8; 16]>,
}

impl<S: Storage> RunAccount<S> {
    /// `opening` names the run; `rows` are digests of all rows of the table under the ledger's key, in its order.
    pub fn new(ledger: Ledger<S>, opening: Opening, rows: Vec<[u8; 16]>) -> RunAccount<S> {
        RunAccount { ledger, opening, rows }
    }

    /// The ledger that counts it.
    pub fn ledger(&self) -> &Ledger<S> {
        &self.ledger
    }

    fn prepare(&mut self, opens: &Opens<'_>) {
        if self.opening.rows.is_none() {
            let kept = |at: &usize| opens.dropped.is_none_or(|dropped| !dropped.is_set(*at));
            let rows = std::mem::take(&mut self.rows);
            let taking = (0..rows.len()).filter(kept).map(|at| rows[at]).enumerate();
            let weight = |at: usize| opens.weights.and_then(|weights| weights.get(at)).map_or(1.0, |weight| *weight);
            // A row of weight zero is in no product.
            let rows: Vec<(usize, [u8; 16])> = taking.filter(|(at, _)| weight(*at) != 0.0).collect();
            let folds = opens.folds.unwrap_or_default();
            let of = |fold: u32| {
                TableRows::new(rows.iter().filter(|(at, _)| folds.get(*at) == Some(&fold)).map(|(_, row)| *row))
            };
            self.opening.folds = (1..=folds.iter().copied().max().unwrap_or(0)).map(of).collect();
            let weighted = rows.iter().map(|(at, row)| weighted(row, weight(*at)));
            self.opening.weighted = opens.weights.map(|_| TableRows::new(weighted));
            self.opening.rows = Some(TableRows::new(rows.iter().map(|(_, row)| *row)));
        }
        self.opening.numbers = opens.numbers;
    }
}

impl<S: Storage> Account for RunAccount<S> {
    fn may_open(&mut self, opens: &Opens<'_>) -> Result<(), NotOpened> {
        self.prepare(opens);
        Ok(self.ledger.may_open(&self.opening, opens.fewest(), |before| opens.allowed(before))??)
    }

    fn open(&mut self, opens: &Opens<'_>) -> Result<(), NotOpened> {
        self.prepare(opens);
        Ok(self.ledger.open_numbers(&self.opening, opens.fewest(), |before| opens.allowed(before))??)
    }
}

/// A row with its weight: with weight 1 the row itself, as without weights.
fn weighted(row: &[u8; 16], weight: f64) -> [u8; 16] {
    let mut name = *row;
    if weight != 1.0 {
        name.copy_from_slice(&keyed(&[0; 32], &[row, &weight.to_le_bytes()])[..16]);
    }
    name
}

/// Of a run that is judged by itself, as in a simulation; it keeps nothing.
pub struct OneRun;

impl Account for OneRun {
    fn may_open(&mut self, opens: &Opens<'_>) -> Result<(), NotOpened> {
        Ok(opens.allowed(Before::default())?)
    }

    fn open(&mut self, opens: &Opens<'_>) -> Result<(), NotOpened> {
        self.may_open(opens)
    }
}

#[cfg(test)]
mod tests;
