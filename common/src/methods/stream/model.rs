//! From what a stream has left to predictions.

use nalgebra::DMatrix;
use serde::{Deserialize, Serialize};

use super::learner::length;
use super::{Settings, StreamError};
use crate::methods::features::{FeatureError, Range};

/// The function of a stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamModel {
    /// Digest of the study that fitted it.
    pub study: String,
    /// Names of the inputs in their order.
    pub columns: Vec<String>,
    /// Their public ranges.
    pub ranges: Vec<Range>,
    /// The outcome's units: its public range, or -1 to 1 where it has none.
    pub outcome: Range,
    /// Basis, loss and step.
    pub settings: Settings,
    /// One weight per entry of the basis.
    pub weights: Vec<f64>,
}

impl StreamModel {
    /// Whether the parts of a file that was read fit each other and the study.
    ///
    /// # Errors
    /// Another study's digest, numbers of columns, ranges or weights that differ, a weight that is not finite.
    pub fn check(&self, study: Option<&str>) -> Result<(), StreamError> {
        if let Some(expected) = study.filter(|expected| *expected != self.study) {
            let (expected, actual) = (expected.to_owned(), self.study.clone());
            return Err(FeatureError::OtherStudy { expected, actual }.into());
        }
        let basis = self.settings.basis();
        length("column names", basis.covariates(), self.columns.len())?;
        length("column ranges", basis.covariates(), self.ranges.len())?;
        length("weights", basis.len(), self.weights.len())?;
        for range in self.ranges.iter().chain([&self.outcome]) {
            Range::new(range.low, range.high)?;
        }
        match self.weights.iter().all(|weight| weight.is_finite()) {
            true => Ok(()),
            false => Err(StreamError::NotFinite { what: "weights" }),
        }
    }

    /// Predictions for `x`, `n x inputs` in the columns' own units; values outside a range are cut to it.
    ///
    /// # Errors
    /// What [`StreamModel::check`] finds, another number of columns, a value that is not finite.
    pub fn predict(&self, x: &DMatrix<f64>) -> Result<Vec<f64>, StreamError> {
        self.check(None)?;
        length("table's columns", self.columns.len(), x.ncols())?;
        let half = 0.5 * (self.outcome.high - self.outcome.low);
        let centre = self.outcome.low + half;
        x.row_iter()
            .map(|row| {
                let inside: Vec<f64> = row.iter().zip(&self.ranges).map(|(x, range)| range.scale(*x)).collect();
                Ok(centre + half * self.settings.predict(&self.weights, &inside)?)
            })
            .collect()
    }
}
