//! From a party's table to clipped rows.

use std::fmt;
use std::sync::Arc;

use nalgebra::DMatrix;

use crate::data::{Column, Frame, Values, align};
use crate::glm::Family;
use crate::id::{Digest, Role};
use crate::methods::vertical::agree::Compared;
use crate::methods::vertical::message::Shared;
use crate::methods::vertical::prepare::{Policy, identifiers};
use crate::privacy::bounds::{ClippedOutcome, ClippedRows, OutcomeBounds, RowBounds};
use crate::privacy::ledger::keyed;
use crate::session::Abort;
use crate::study::{HeldBy, Study, Vertical};

/// A party's rows, clipped to the study's public bounds.
///
/// Building it cannot fail because of one row: a row with a value that is missing, not finite, or of an undeclared level
/// becomes the row of zeros, and leaves every other row as it is. [`Table::checked`] refuses such a row
/// with its place, and is for the time before a run.
pub struct Table {
    role: Role,
    study: Arc<Study<Vertical>>,
    frame: Frame,
    bounds: RowBounds,
    outcome_bounds: OutcomeBounds,
    rows: ClippedRows,
    outcome: Vec<f64>,
}

impl Table {
    /// Sorts the rows by id and clips them.
    ///
    /// # Errors
    /// Ids that cannot be sorted, a column that is not there or of another kind than declared, and the policy.
    pub fn new(study: Arc<Study<Vertical>>, role: Role, policy: &Policy, frame: Frame) -> Result<Table, Abort> {
        Table::build(study, role, policy, frame, false)
    }

    /// The same, where a row without a usable value is an error with its place: for the time before a run.
    ///
    /// # Errors
    /// The first value that cannot be used.
    pub fn checked(study: Arc<Study<Vertical>>, role: Role, policy: &Policy, frame: Frame) -> Result<Table, Abort> {
        Table::build(study, role, policy, frame, true)
    }

    fn build(
        study: Arc<Study<Vertical>>,
        role: Role,
        policy: &Policy,
        mut frame: Frame,
        refuse: bool,
    ) -> Result<Table, Abort> {
        align::sort(&mut frame).map_err(|error| Abort::OwnData(error.to_string()))?;
        let own = |error: crate::data::DataError| Abort::OwnData(error.to_string());
        let bounds = study.row_bounds(role).map_err(|error| Abort::Refused(error.to_string()))?;
        let outcome_bounds = study.outcome_bounds().map_err(|error| Abort::Refused(error.to_string()))?;
        let rows = frame.rows();
        if let Some(least) = policy.min_rows.filter(|least| (rows as u64) < *least) {
            return Err(Abort::Policy {
                who: role,
                what: format!("{rows} rows take part, at least {least} are asked for"),
            });
        }
        let formula = study.declared_formula(role).map_err(|error| Abort::Refused(error.to_string()))?;
        let columns = match &formula {
            Some(formula) => formula.columns().map(str::to_owned).collect(),
            None => study.method.parties.get(&role).map(|party| party.columns.clone()).unwrap_or_default(),
        };
        let mut taken: Vec<Column> = Vec::new();
        let mut values: Vec<f64> = Vec::with_capacity(rows * bounds.names().len());
        let outcome = study.has(role, &study.method.outcome).then_some(&study.method.outcome.column);
        for name in columns.iter().chain(outcome) {
            let column = frame.take(name).map_err(own)?;
            if refuse && let Some(row) = (0..rows).find(|row| column.values.is_missing(*row)) {
                return Err(Abort::OwnData(format!("{}: column `{name}` has no usable value", frame.place(row))));
            }
            match &formula {
                Some(_) if taken.len() < columns.len() => taken.push(column),
                Some(_) | None => append(&column, &mut values)?,
            }
        }
        // The outcome is one number a row, and came last.
        let outcome = if outcome.is_some() { values.split_off(values.len() - rows) } else { Vec::new() };
        let known = match study.method.outcome.held_by {
            HeldBy::Both | HeldBy::All => true,
            // Protected with its holder's rows: a run says nothing about it, as about a row that cannot be used.
            HeldBy::One(holder) => holder == role && refuse,
        };
        if known {
            let name = &study.method.outcome.column;
            match study.method.family {
                Family::Gaussian => {}
                Family::Binomial => check_events(name, &frame, &outcome)?,
                Family::Poisson => check_counts(name, &frame, &outcome)?,
            }
        }
        let matrix = match &formula {
            Some(formula) => formula.matrix(taken).map_err(own)?,
            None => DMatrix::from_vec(rows, bounds.names().len(), values),
        };
        // What a function has no value of: the columns all have one.
        if refuse && let Some(row) = (0..rows).find(|row| matrix.row(*row).iter().any(|value| value.is_nan())) {
            return Err(Abort::OwnData(format!(
                "{}: a term has no value there; does it lie outside of declared breaks or levels?",
                frame.place(row)
            )));
        }
        let rows = ClippedRows::new(&bounds, &matrix);
        Ok(Table { role, study, frame, bounds, outcome_bounds, rows, outcome })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Terms of the own block, without the intercept.
    pub fn term_names(&self) -> &[String] {
        self.bounds.names()
    }

    /// The identifiers in the order of the rows; row numbers where the study names no id.
    pub fn identifiers(&self) -> Vec<Vec<u8>> {
        identifiers(&self.frame)
    }

    pub(super) fn study(&self) -> &Arc<Study<Vertical>> {
        &self.study
    }

    pub(super) fn role(&self) -> Role {
        self.role
    }

    pub(super) fn bounds(&self) -> (&RowBounds, &OutcomeBounds) {
        (&self.bounds, &self.outcome_bounds)
    }

    /// A keyed digest of what a run computes with and a restart must have again: the clipped rows, and the outcome where only one party
    /// holds it, which nobody compares, or where what is computed after a restart needs it.
    pub(super) fn fingerprint(&self, key: &[u8; 32]) -> [u8; 32] {
        let rows = self.rows.fingerprint(key);
        match (self.study.method.outcome.held_by, self.study.method.family) {
            (HeldBy::Both | HeldBy::All, Family::Gaussian) => rows,
            (HeldBy::Both | HeldBy::All, Family::Binomial | Family::Poisson)
            | (HeldBy::One(_), Family::Gaussian | Family::Binomial | Family::Poisson) => {
                keyed(&rows, &[&align::digest_numbers("outcome", &self.outcome, key)])
            }
        }
    }

    pub(super) fn clipped(&self) -> (ClippedRows, ClippedOutcome) {
        (self.rows.clone(), ClippedOutcome::new(&self.outcome_bounds, &self.outcome))
    }
}

impl Compared for Table {
    fn rows(&self) -> u64 {
        self.rows.len() as u64
    }

    fn digest(&self, key: &[u8; 32]) -> Digest {
        Digest(align::digest_rows(&self.frame, key))
    }

    fn is_matched(&self) -> bool {
        self.frame.matched().is_some()
    }

    fn shared(&self, key: &[u8; 32]) -> Result<Shared, Abort> {
        Ok(Shared {
            outcome: match self.study.method.outcome.held_by {
                HeldBy::Both | HeldBy::All => Some(Digest(align::digest_numbers("outcome", &self.outcome, key))),
                HeldBy::One(_) => None,
            },
            offset: None,
            weights: None,
            folds: None,
            columns: self.rows.width() as u32,
            basis: false,
        })
    }
}

/// Refuses an outcome that is none of a binomial model: one that both parties hold and that is protected from neither, so that a refusal
/// tells nothing that is, or before a run.
fn check_events(name: &str, frame: &Frame, outcome: &[f64]) -> Result<(), Abort> {
    let other = outcome.iter().position(|y| *y != 0.0 && *y != 1.0);
    if let Some(row) = other {
        return Err(Abort::OwnData(format!("{}: outcome `{name}` must be 0 or 1", frame.place(row))));
    }
    match [0.0, 1.0].into_iter().find(|value| !outcome.contains(value)) {
        None => Ok(()),
        Some(missing) => {
            Err(Abort::OwnData(format!("outcome `{name}` is {missing} in no row: there is nothing to explain")))
        }
    }
}

/// The same of a poisson model. Counts above the largest one that the study declares are cut at it.
fn check_counts(name: &str, frame: &Frame, outcome: &[f64]) -> Result<(), Abort> {
    if let Some(row) = outcome.iter().position(|y| !(*y >= 0.0 && y.is_finite())) {
        return Err(Abort::OwnData(format!("{}: outcome `{name}` must be 0 or above", frame.place(row))));
    }
    match outcome.iter().any(|y| *y > 0.0) {
        true => Ok(()),
        false => Err(Abort::OwnData(format!("outcome `{name}` is 0 in every row: there is nothing to explain"))),
    }
}

/// The columns that a column of the table becomes; a value that cannot be used is NaN.
fn append(column: &Column, values: &mut Vec<f64>) -> Result<(), Abort> {
    match &column.values {
        Values::Numeric(numbers) => values.extend(numbers),
        Values::Categorical { codes, levels, declared: true } => {
            for level in 1..levels.len() as u32 {
                values.extend(codes.iter().enumerate().map(|(row, &code)| match column.values.is_missing(row) {
                    true => f64::NAN,
                    false => f64::from(u8::from(code == level)),
                }));
            }
        }
        other @ (Values::Boolean(_) | Values::Categorical { .. }) => {
            let (name, kind) = (&column.name, other.kind());
            return Err(Abort::OwnData(format!("column `{name}` has a range, but holds {kind}; declare its levels")));
        }
    }
    Ok(())
}

/// Sizes only: the rows are the data that must not leave.
impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Table({} rows, {} terms)", self.rows(), self.bounds.names().len())
    }
}
