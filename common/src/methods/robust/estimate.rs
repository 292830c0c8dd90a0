//! The small table that a worker sends per batch, checked once, and the set of them in a fixed order.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

use nalgebra::DMatrix;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::batch::{BatchFit, Cleaning};
use super::normal::Factor;

/// Beyond this a coefficient cannot take part in distances without overflow.
const LARGEST_COEFFICIENT: f64 = 1e100;

/// Symmetric matrix of cross products, lower triangle by rows: half the bytes on the wire and at rest.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Gram(Vec<f64>);

impl fmt::Debug for Gram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gram({} numbers)", self.0.len())
    }
}

impl Gram {
    /// Packs the lower triangle of a square matrix.
    pub fn from_matrix(matrix: &DMatrix<f64>) -> Self {
        Gram((0..matrix.nrows()).flat_map(|i| (0..=i).map(move |j| matrix[(i, j)])).collect())
    }

    /// Takes a lower triangle by rows: `size (size + 1) / 2` numbers, checked when the estimate is inserted.
    pub fn from_packed(lower: Vec<f64>) -> Self {
        Gram(lower)
    }

    /// The lower triangle by rows.
    pub fn packed(&self) -> &[f64] {
        &self.0
    }

    /// Entry at row `i` and column `j`, either triangle.
    pub(super) fn at(&self, i: usize, j: usize) -> f64 {
        let (row, column) = (i.max(j), i.min(j));
        self.0[row * (row + 1) / 2 + column]
    }

    /// `G v`.
    pub(super) fn times(&self, v: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; v.len()];
        let mut rest = self.0.as_slice();
        for i in 0..v.len() {
            let (row, after) = rest.split_at(i + 1);
            rest = after;
            for j in 0..i {
                out[i] += row[j] * v[j];
                out[j] += row[j] * v[i];
            }
            out[i] += row[i] * v[i];
        }
        out
    }
}

/// What one worker says about one batch. `q` is the number of coefficients, an intercept first.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Name of the worker, as its certificate has it.
    pub worker: String,
    /// Number of the batch at this worker, rising.
    pub batch: u64,
    /// `q` coefficients.
    pub coefficients: Vec<f64>,
    /// Cross products of the kept rows, where the study has them sent.
    pub gram: Option<Gram>,
    /// Rows in the batch.
    pub nobs: u64,
    /// Rows kept.
    pub kept: u64,
    /// Standard deviation of the noise, corrected for the rejection of its tails.
    pub scale: f64,
    /// Whether the batch could be cleaned.
    pub cleaned: bool,
}

// Sizes only: the numbers are what the study declares to leave the site, and logs are not declared.
impl fmt::Debug for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Estimate")
            .field("worker", &self.worker)
            .field("batch", &self.batch)
            .field("coefficients", &self.coefficients.len())
            .field("gram", &self.gram)
            .finish_non_exhaustive()
    }
}

impl Estimate {
    /// What a fit lets out.
    pub fn from_fit(worker: impl Into<String>, batch: u64, fit: &BatchFit) -> Self {
        Estimate {
            worker: worker.into(),
            batch,
            coefficients: fit.coefficients.iter().copied().collect(),
            gram: Some(Gram::from_matrix(&fit.gram)),
            nobs: fit.nobs as u64,
            kept: fit.kept.len() as u64,
            scale: fit.scale,
            cleaned: fit.cleaning == Cleaning::Cleaned,
        }
    }

    /// Checks everything that consolidation relies on.
    ///
    /// # Errors
    /// When a length is wrong, a number is not finite, counts contradict each other, or the Gram is not positive
    /// definite.
    pub fn check(&self, coefficients: usize, with_gram: bool) -> Result<(), EstimateError> {
        if self.coefficients.len() != coefficients {
            return Err(EstimateError::Coefficients { got: self.coefficients.len(), expected: coefficients });
        }
        if let Some(index) = self.coefficients.iter().position(|b| !(b.abs() < LARGEST_COEFFICIENT)) {
            return Err(EstimateError::Coefficient { index });
        }
        if self.kept == 0 || self.kept > self.nobs {
            return Err(EstimateError::Counts { kept: self.kept, nobs: self.nobs });
        }
        if !(self.scale >= 0.0 && self.scale < LARGEST_COEFFICIENT) {
            return Err(EstimateError::Scale);
        }
        match (&self.gram, with_gram) {
            (None, true) => Err(EstimateError::GramMissing),
            (Some(_), false) => Err(EstimateError::GramUnwanted),
            (None, false) => Ok(()),
            (Some(gram), true) => {
                let expected = coefficients * (coefficients + 1) / 2;
                if gram.0.len() != expected {
                    return Err(EstimateError::GramLength { got: gram.0.len(), expected });
                }
                if gram.0.iter().any(|g| !(g.abs() < LARGEST_COEFFICIENT * LARGEST_COEFFICIENT)) {
                    return Err(EstimateError::GramNotFinite);
                }
                Factor::new(coefficients, |i, j| gram.at(i, j))
                    .map(|_| ())
                    .map_err(|dependent| EstimateError::GramNotPositive { column: dependent.0 })
            }
        }
    }
}

/// Why an estimate was not accepted.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum EstimateError {
    /// Wrong number of coefficients.
    #[error("expected {expected} coefficients, got {got}")]
    Coefficients {
        /// Length that came.
        got: usize,
        /// Length of the study.
        expected: usize,
    },
    /// A coefficient is not finite or too large to take part in distances.
    #[error("expected a finite number below 1e100 as coefficient {}", index + 1)]
    Coefficient {
        /// Position from zero.
        index: usize,
    },
    /// Counts contradict each other.
    #[error("expected between 1 and {nobs} rows kept of {nobs}, got {kept}")]
    Counts {
        /// Rows kept.
        kept: u64,
        /// Rows in the batch.
        nobs: u64,
    },
    /// The residual scale is negative or not finite.
    #[error("expected a finite residual scale of at least zero")]
    Scale,
    /// The study asks for the Gram.
    #[error("expected the cross products of the kept rows, got none")]
    GramMissing,
    /// The study does not declare the Gram.
    #[error("expected no cross products, since the study does not declare them")]
    GramUnwanted,
    /// Wrong number of cross products.
    #[error("expected {expected} cross products, got {got}")]
    GramLength {
        /// Length that came.
        got: usize,
        /// Length of a packed triangle.
        expected: usize,
    },
    /// A cross product is not finite or too large.
    #[error("expected finite cross products below 1e200")]
    GramNotFinite,
    /// The cross products cannot come from independent columns.
    #[error("expected positive definite cross products, but column {} depends on those before it", column + 1)]
    GramNotPositive {
        /// Column from zero, an intercept counted.
        column: usize,
    },
    /// The same worker sent two different estimates for one batch.
    #[error("expected batch {batch} of {worker} once, got a second one that differs")]
    Conflict {
        /// Name of the worker.
        worker: String,
        /// Number of the batch.
        batch: u64,
    },
}

/// What became of an accepted estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insertion {
    /// It is new.
    New,
    /// The same estimate had come before; it counts once.
    Repeated,
}

/// Checked estimates ordered by worker and batch, so that their order of arrival changes nothing.
///
/// Each takes about `8 q` bytes, and `4 q (q + 1)` more where the Gram is sent.
#[derive(Clone, Debug)]
pub struct Estimates {
    coefficients: usize,
    with_gram: bool,
    entries: BTreeMap<(String, u64), Estimate>,
    rows: BTreeMap<String, u64>,
}

impl Estimates {
    /// An empty set for estimates of `coefficients` numbers, all with or all without their Gram.
    pub fn new(coefficients: usize, with_gram: bool) -> Self {
        Estimates { coefficients, with_gram, entries: BTreeMap::new(), rows: BTreeMap::new() }
    }

    /// Gives sites votes in proportion to these rows, where every site has them, in place of one vote each.
    #[must_use]
    pub fn weighed_by(mut self, rows: BTreeMap<String, u64>) -> Self {
        self.rows = rows;
        self
    }

    /// The rows by which sites are weighed; empty where they weigh equally.
    pub(super) fn rows(&self) -> &BTreeMap<String, u64> {
        &self.rows
    }

    /// Adds an estimate; the same one sent again counts once.
    ///
    /// # Errors
    /// When the estimate is malformed or contradicts an earlier one of the same batch. The set is then unchanged.
    pub fn insert(&mut self, estimate: Estimate) -> Result<Insertion, EstimateError> {
        estimate.check(self.coefficients, self.with_gram)?;
        match self.entries.entry((estimate.worker.clone(), estimate.batch)) {
            Entry::Vacant(free) => {
                free.insert(estimate);
                Ok(Insertion::New)
            }
            Entry::Occupied(taken) if *taken.get() == estimate => Ok(Insertion::Repeated),
            Entry::Occupied(_) => Err(EstimateError::Conflict { worker: estimate.worker, batch: estimate.batch }),
        }
    }

    /// Number of distinct estimates.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Number of coefficients of each.
    pub fn coefficients(&self) -> usize {
        self.coefficients
    }

    /// By worker, then batch.
    pub fn iter(&self) -> impl Iterator<Item = &Estimate> {
        self.entries.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sound() -> Estimate {
        let gram = Gram::from_matrix(&DMatrix::from_row_slice(2, 2, &[4.0, 1.0, 1.0, 3.0]));
        Estimate {
            worker: "north".into(),
            batch: 3,
            coefficients: vec![1.0, -2.0],
            gram: Some(gram),
            nobs: 20,
            kept: 18,
            scale: 0.3,
            cleaned: true,
        }
    }

    #[test]
    fn every_malformed_estimate_is_refused_and_named() {
        let refused = |change: &dyn Fn(&mut Estimate)| {
            let mut e = sound();
            change(&mut e);
            let mut set = Estimates::new(2, true);
            let error = set.insert(e).unwrap_err();
            assert!(set.is_empty());
            error.to_string()
        };
        assert!(Estimates::new(2, true).insert(sound()).is_ok());
        for (change, says) in [
            (
                &(|e: &mut Estimate| e.coefficients.push(0.0)) as &dyn Fn(&mut Estimate),
                "expected 2 coefficients, got 3",
            ),
            (&|e| e.coefficients[1] = f64::NAN, "finite number below 1e100 as coefficient 2"),
            (&|e| e.coefficients[0] = 1e150, "finite number below 1e100 as coefficient 1"),
            (&|e| e.kept = 21, "between 1 and 20 rows kept of 20, got 21"),
            (&|e| e.kept = 0, "got 0"),
            (&|e| e.scale = -0.1, "scale"),
            (&|e| e.scale = f64::INFINITY, "scale"),
            (&|e| e.gram = None, "got none"),
            (&|e| e.gram = Some(Gram::from_packed(vec![1.0; 4])), "expected 3 cross products, got 4"),
            (&|e| e.gram = Some(Gram::from_packed(vec![1.0, f64::NAN, 1.0])), "finite cross products"),
            (&|e| e.gram = Some(Gram::from_packed(vec![1.0, 2.0, 1.0])), "column 2 depends"),
            (&|e| e.gram = Some(Gram::from_packed(vec![-1.0, 0.0, 1.0])), "column 1 depends"),
        ] {
            let message = refused(change);
            assert!(message.contains(says), "{message:?} should say {says:?}");
        }
        let mut bare = Estimates::new(2, false);
        assert_eq!(bare.insert(sound()), Err(EstimateError::GramUnwanted));
    }

    #[test]
    fn a_repeat_counts_once_and_a_contradiction_is_refused() {
        let mut set = Estimates::new(2, true);
        assert_eq!(set.insert(sound()), Ok(Insertion::New));
        assert_eq!(set.insert(sound()), Ok(Insertion::Repeated));
        assert_eq!(set.len(), 1);
        let mut other = sound();
        other.coefficients[0] = 1.5;
        assert_eq!(set.insert(other), Err(EstimateError::Conflict { worker: "north".into(), batch: 3 }));
        assert_eq!(set.iter().next().unwrap().coefficients[0], 1.0);
    }

    #[test]
    fn debug_output_holds_no_numbers_of_the_site() {
        let text = format!("{:?}", sound());
        assert!(text.contains("north") && !text.contains("-2") && !text.contains("0.3"), "{text}");
    }

    #[test]
    fn packed_cross_products_multiply_as_the_full_matrix_does() {
        let full = DMatrix::from_row_slice(3, 3, &[4.0, 1.0, 0.5, 1.0, 3.0, -1.0, 0.5, -1.0, 5.0]);
        let v = nalgebra::DVector::from_vec(vec![1.0, -2.0, 3.0]);
        let packed = Gram::from_matrix(&full).times(v.as_slice());
        assert!((nalgebra::DVector::from_vec(packed) - full * v).amax() < 1e-14);
    }
}
