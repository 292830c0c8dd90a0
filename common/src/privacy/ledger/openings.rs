//! Numbers that opened of a data set without noise, over all runs, and the rows that they are about.
//!
//! One table of cross-products shows little of a single row; many tables of the same rows, or two tables of rows that differ by a few,
//! show more. So a party counts in its ledger what it lets open, before it leaves, and compares the rows with those of earlier tables.

use std::collections::BTreeSet;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::state::{Entry, Openings};
use super::{Ledger, LedgerError, PersonDigests, Storage, Transaction, hexadecimal, plain_blob};
use crate::data::sketch::{Sketch, few_differing};
use crate::secure::open::Earlier;

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

/// A sketch of a column as it is kept, under the ledger's key.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnSketch {
    column: String,
    bytes: Arc<Vec<u8>>,
    /// Of the bytes.
    name: String,
}

impl ColumnSketch {
    /// Of a column.
    pub fn new(column: &str, sketch: &Sketch, key: &[u8; 32]) -> ColumnSketch {
        let bytes = sketch.sealed(key);
        ColumnSketch { column: column.to_owned(), name: hexadecimal(&Sha256::digest(&bytes)), bytes: Arc::new(bytes) }
    }
}

/// How much two tables of a data set must differ by, if they differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fewest {
    /// Rows that are in one of both only.
    pub rows: u64,
    /// Rows in which a column of one has another value than a column of the other.
    pub values: u64,
}

impl Fewest {
    /// Of tables that are not compared.
    pub const NONE: Fewest = Fewest { rows: 0, values: 0 };
}

/// What a run lets open of a data set.
#[derive(Debug, Clone, PartialEq)]
pub struct Opening {
    /// Its name.
    pub run: String,
    /// Name of the data at hand; they need not be registered.
    pub data_set: String,
    /// Other names under which the same source is counted: what opened under these is judged with it. They are not recorded.
    pub also: BTreeSet<String>,
    /// To whom.
    pub peers: Vec<String>,
    /// Digest of the study.
    pub study: String,
    /// Numbers of the whole run up to here.
    pub numbers: u64,
    /// The rows of which a table opens; none where rows themselves leave, which no comparison of tables makes worse.
    pub rows: Option<TableRows>,
    /// The same rows with their weights, where they have some.
    pub weighted: Option<TableRows>,
    /// The rows of each fold of cross-validation, where a table of each opens.
    pub folds: Vec<TableRows>,
    /// The column by which rows are told apart; empty where that is their place in the table.
    pub told_by: String,
    /// The columns of the table.
    pub sketches: Vec<ColumnSketch>,
}

impl Opening {
    /// Of a run that has let nothing open yet.
    pub fn new(run: String, data_set: String, peers: Vec<String>, study: String) -> Opening {
        Opening {
            run,
            data_set,
            also: BTreeSet::new(),
            peers,
            study,
            numbers: 0,
            rows: None,
            weighted: None,
            folds: Vec::new(),
            told_by: String::new(),
            sketches: Vec::new(),
        }
    }

    /// The sets of rows of which a table opens.
    fn tables(&self) -> Vec<&TableRows> {
        match self.folds.is_empty() {
            true => self.rows.iter().collect(),
            false => self.folds.iter().collect(),
        }
    }
}

/// What opened of a data set in other runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Before {
    /// How many runs.
    pub runs: u64,
    /// Their numbers.
    pub numbers: u64,
    /// Of these, those of runs that were not sealed.
    pub plain: u64,
}

impl Before {
    /// As limits count it.
    pub fn earlier(&self) -> Earlier {
        Earlier { numbers: self.numbers, plain: self.plain }
    }
}

impl<S: Storage> Ledger<S> {
    /// What opened of a data set, of its source under other names, and of data sets that hold its rows, in runs other than this one.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn opened_before(&mut self, data_set: &str, also: &BTreeSet<String>, run: &str) -> Result<Before, LedgerError> {
        self.transact(|transaction| {
            let state = &transaction.state;
            Ok(state.opened_before(&state.of_the_same_rows(data_set, also), run))
        })
    }

    /// Whether two data sets were found to hold the same rows.
    pub fn hold_the_same_rows(&self, data_set: &str, other: &str) -> bool {
        self.state.of_the_same_rows(data_set, &BTreeSet::new()).contains(other)
    }

    /// Whether a run may let these numbers open; nothing is recorded. `allowed` judges by what opened in other runs. Tables of the same
    /// data set must be about the same rows, or about rows of which at least as many as `fewest` says are in one of both only, and rows
    /// in both must have the same weights. Columns of the same rows must be the same, or differ in as many rows as it says. Rows of both
    /// must be told apart by the same column. Where one of two runs has
    /// folds, the folds of both cut the rows into pieces, and each piece must be empty or have that many rows: sums and differences of
    /// the tables are about whole pieces.
    ///
    /// # Errors
    /// Rows that differ by fewer, and a ledger that cannot be read. The inner error is that of `allowed`.
    pub fn may_open<E>(
        &mut self,
        opening: &Opening,
        fewest: Fewest,
        allowed: impl FnOnce(Before) -> Result<(), E>,
    ) -> Result<Result<(), E>, LedgerError> {
        self.transact(|transaction| {
            transaction.storage.check()?;
            transaction.may_open(opening, fewest, allowed)
        })
    }

    /// Records numbers that a run is about to let open. What was recorded of the run before counts no more.
    ///
    /// # Errors
    /// As [`Ledger::may_open`]; then nothing is recorded and nothing may leave.
    pub fn open_numbers<E>(
        &mut self,
        opening: &Opening,
        fewest: Fewest,
        allowed: impl FnOnce(Before) -> Result<(), E>,
    ) -> Result<Result<(), E>, LedgerError> {
        self.transact(|transaction| {
            if let Err(refused) = transaction.may_open(opening, fewest, allowed)? {
                return Ok(Err(refused));
            }
            transaction.goes_on(opening)?;
            let Opening { run, data_set, also: _, peers, study, numbers, rows, weighted, folds, told_by, sketches } =
                opening.clone();
            for TableRows { digests, name } in rows.iter().chain(&weighted).chain(&folds) {
                if !transaction.state.keeps(name) {
                    transaction.storage.put_blob(&plain_blob(name), &digests.bytes())?;
                }
            }
            for ColumnSketch { name, bytes, .. } in &sketches {
                if !transaction.state.keeps(name) {
                    transaction.storage.put_blob(&plain_blob(name), bytes)?;
                }
            }
            let told_by = rows.is_some().then_some(told_by);
            let sketches = sketches.into_iter().map(|sketch| (sketch.column, sketch.name)).collect();
            let rows_digest = rows.map(|rows| rows.name);
            let weights_digest = weighted.map(|rows| rows.name);
            let folds = folds.into_iter().map(|fold| fold.name).collect();
            transaction.append(Entry::Numbers {
                run,
                data_set,
                peers,
                study,
                numbers,
                rows_digest,
                weights_digest,
                folds,
                told_by,
                sketches,
            })?;
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
        names.into_iter().map(|name| (name, self.state.opened_before(&BTreeSet::from([name.to_owned()]), "")))
    }
}

impl<S: Storage> Transaction<'_, S> {
    fn may_open<E>(
        &mut self,
        opening: &Opening,
        fewest: Fewest,
        allowed: impl FnOnce(Before) -> Result<(), E>,
    ) -> Result<Result<(), E>, LedgerError> {
        self.compare_rows(opening, fewest)?;
        let data_sets = self.state.of_the_same_rows(&opening.data_set, &opening.also);
        Ok(allowed(self.state.opened_before(&data_sets, &opening.run)))
    }

    /// What is recorded of a run goes on with it. Its name comes from the coordinator: a name of another run would put what opens now in
    /// place of what opened then.
    fn goes_on(&self, opening: &Opening) -> Result<(), LedgerError> {
        let rows = opening.rows.as_ref().map(|rows| &rows.name);
        match self.state.openings.get(&opening.run) {
            Some(known) if known.data_set != opening.data_set || known.rows_digest.as_ref() != rows => {
                Err(LedgerError::RunExists { run: opening.run.clone() })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The difference of two tables is the table of the rows that are in one of both only, if the others have the same weights and values.
    fn compare_rows(&mut self, opening: &Opening, fewest: Fewest) -> Result<(), LedgerError> {
        let Some(rows) = &opening.rows else { return Ok(()) };
        let weighted = opening.weighted.as_ref().unwrap_or(rows);
        let data_sets = self.state.of_the_same_rows(&opening.data_set, &opening.also);
        let mut others: Vec<(String, Openings)> = Vec::new();
        for (run, opened) in &self.state.openings {
            let seen = others.iter().any(|(_, other)| other.tables_named() == opened.tables_named());
            if *run != opening.run && data_sets.contains(&opened.data_set) && !seen {
                others.push((run.clone(), opened.clone()));
            }
        }
        for (run, opened) in others {
            let Some(other) = &opened.rows_digest else { continue };
            if fewest.rows > 0 {
                self.compare_identifiers(opening, rows, &run, &opened)?;
            }
            let with_weights = opened.weights_digest.as_ref().unwrap_or(other);
            let mut differing = 0;
            if *other != rows.name || *with_weights != weighted.name {
                differing = rows.digests.differing(&self.blob_of_persons(other)?);
                // A row that has another weight is there twice. Tables are about weights of mean 1: how many rows differ cannot be told
                // from numbers that one factor may have changed.
                if weighted.digests.differing(&self.blob_of_persons(with_weights)?) != differing {
                    return Err(LedgerError::OtherWeights { data_set: opening.data_set.clone(), run });
                }
            }
            let mut few = Some(differing).filter(|few| *few > 0);
            if !opening.folds.is_empty() || !opened.folds.is_empty() {
                let theirs = opened.tables().into_iter().map(|name| self.blob_of_persons(name));
                let piece = smallest_piece(&opening.tables(), &theirs.collect::<Result<Vec<_>, _>>()?);
                few = few.into_iter().chain(piece).min();
            }
            if let Some(rows) = few.filter(|rows| *rows < fewest.rows) {
                let (data_set, least) = (opening.data_set.clone(), fewest.rows);
                return Err(LedgerError::RowsBetween { data_set, run, rows, least });
            }
            if differing == 0 {
                self.compare_values(opening, &run, &opened, fewest.values)?;
            }
        }
        Ok(())
    }

    /// Digests of different identifiers cannot be compared.
    fn compare_identifiers(
        &mut self,
        opening: &Opening,
        rows: &TableRows,
        run: &str,
        opened: &Openings,
    ) -> Result<(), LedgerError> {
        let comparable = match (&opened.told_by, &opened.rows_digest) {
            (Some(before), _) => *before == opening.told_by,
            // Of an earlier version: rows that share nothing were told apart in another way, or are others.
            (None, Some(other)) => rows.digests.common(&self.blob_of_persons(other)?) > 0,
            (None, None) => true,
        };
        match comparable {
            true => Ok(()),
            false => Err(LedgerError::OtherIdentifiers {
                data_set: opening.data_set.clone(),
                run: run.to_owned(),
                told: opening.told_by.clone(),
                before: opened.told_by.clone(),
            }),
        }
    }

    /// A value that became another one, and columns that differ in few rows, are what two tables of the same rows differ by.
    fn compare_values(
        &mut self,
        opening: &Opening,
        run: &str,
        opened: &Openings,
        least: u64,
    ) -> Result<(), LedgerError> {
        for (other, digest) in &opened.sketches {
            if opening.sketches.iter().any(|sketch| sketch.name == *digest) {
                continue;
            }
            let kept = self.checked_blob(&plain_blob(digest), digest)?;
            for ColumnSketch { column, bytes, .. } in &opening.sketches {
                if let Some(rows) = few_differing(bytes, &kept, least) {
                    return Err(LedgerError::CellsBetween {
                        data_set: opening.data_set.clone(),
                        run: run.to_owned(),
                        column: column.clone(),
                        other: other.clone(),
                        rows,
                        least,
                    });
                }
            }
        }
        Ok(())
    }
}

/// The rows of the smallest piece that is not empty, of those into which two partitions cut the rows of both.
fn smallest_piece(ours: &[&TableRows], theirs: &[Vec<u8>]) -> Option<u64> {
    let mut outside: Vec<u64> = theirs.iter().map(|other| other.as_chunks::<16>().0.len() as u64).collect();
    let mut pieces = Vec::new();
    for rows in ours {
        let mut rest = rows.digests.count();
        for (other, outside) in theirs.iter().zip(&mut outside) {
            let common = rows.digests.common(other);
            rest = rest.saturating_sub(common);
            *outside = outside.saturating_sub(common);
            pieces.push(common);
        }
        pieces.push(rest);
    }
    pieces.extend(outside);
    pieces.into_iter().filter(|rows| *rows > 0).min()
}
