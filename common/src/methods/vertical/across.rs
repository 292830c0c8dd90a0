//! Covariances between the coefficients of two parties, where the study shares them.
//!
//! Whoever received the basis `Q = A T` knows the covariance of its own coefficients with the coordinates of the basis, and only the sender
//! knows `T`. So the receiver sends its own covariance and that table, and the sender answers with its own covariance and the table times
//! `T`, which is the covariance between the coefficients of both.
//!
//! # Privacy
//! Covariances of all coefficients are as good as the cross-products of all columns. Beside the basis, and beside partial predictions of as
//! many rounds as there are columns, single columns follow from them. So both sides count their columns as shown in full.

use nalgebra::DMatrix;

use super::message::{Joint, JointKind, Results};
use super::outcome::{self, own};
use super::session::Work;
use crate::fit::Coefficient;
use crate::session::{Abort, PeerFault};

/// How far a variance may be off the standard error that was told before, as a share of it.
const SAME: f64 = 1e-6;

/// What a party of two keeps for covariances across.
#[derive(Default)]
pub(super) struct Across {
    /// At the receiver of the basis: covariance of its coordinates with the own coefficients, in inner units.
    pub(super) coordinates: Option<DMatrix<f64>>,
    /// At its sender: what turns coordinates into coefficients, in inner units.
    pub(super) transform: Option<DMatrix<f64>>,
    /// What has become of it.
    pub(super) joined: Option<JoinedCovariance>,
}

/// The covariances that a party did not have of its own, on the original scale.
#[derive(Clone, PartialEq)]
pub(super) struct JoinedCovariance {
    /// Of the other's coefficients.
    pub(super) theirs: DMatrix<f64>,
    /// Of the own coefficients, a row each, with the other's.
    pub(super) between: DMatrix<f64>,
}

impl Work {
    /// The own message about covariances: nothing where there are no standard errors.
    pub(super) fn build_covariance(&mut self) -> Result<Joint, Abort> {
        let values = self.covariances().unwrap_or_default();
        if !values.is_empty() {
            self.meter.record_basis(0);
        }
        Ok(Joint { what: JointKind::Covariance, values })
    }

    fn covariances(&self) -> Option<Vec<f64>> {
        let (root, unit) = own::root_and_unit(self, outcome::dispersion(self))?;
        let own = &root * root.transpose() * unit;
        let second = match (&self.across.coordinates, &self.across.joined) {
            (Some(coordinates), _) => own::on_original_scale(self, &coordinates.transpose())? * unit,
            (None, Some(joined)) => joined.between.clone(),
            (None, None) => return None,
        };
        let values: Vec<f64> = own.iter().chain(second.iter()).copied().collect();
        values.iter().all(|value| value.is_finite()).then_some(values)
    }

    /// Takes the other's message in.
    pub(super) fn take_covariance(&mut self, values: &[f64]) -> Result<(), PeerFault> {
        if values.is_empty() {
            return Ok(());
        }
        let (own, theirs) = (self.encoded.block.columns(), self.peer_columns);
        let expected = theirs * (theirs + own);
        if values.len() != expected {
            let (came, expected) = (values.len() as u64, expected as u64);
            return Err(PeerFault::Length { what: "covariances of coefficients", came, expected });
        }
        let wrong =
            |expected: &'static str| PeerFault::Value { what: "covariances of coefficients", expected, round: 0 };
        if !values.iter().all(|value| value.is_finite()) {
            return Err(wrong("finite"));
        }
        let (block, second) = values.split_at(theirs * theirs);
        let block = DMatrix::from_column_slice(theirs, theirs, block);
        if !agrees(&block, self.peer.as_ref()) {
            return Err(wrong("those of the standard errors"));
        }
        let second = DMatrix::from_column_slice(theirs, own, second);
        // The receiver's second table is about coordinates of the own basis, the sender's about the own coefficients.
        let between = match &self.across.transform {
            Some(transform) => own::on_original_scale(self, &(transform * second.transpose())),
            None => Some(second.transpose()),
        };
        self.across.joined = between.map(|between| JoinedCovariance { theirs: block, between });
        Ok(())
    }
}

/// Whether variances are those of the standard errors that a party has told.
fn agrees(block: &DMatrix<f64>, results: Option<&Results>) -> bool {
    let rows = results.and_then(|results| results.coefficients.as_deref()).unwrap_or_default();
    let errors = estimated(rows).map(|row| row.std_error);
    let symmetric = (block - block.transpose()).amax() <= SAME * block.amax();
    let same = |(variance, error): (&f64, Option<f64>)| {
        error.is_some_and(|error| *variance >= 0.0 && (variance.sqrt() - error).abs() <= SAME * error)
    };
    symmetric && estimated(rows).count() == block.nrows() && block.diagonal().iter().zip(errors).all(same)
}

/// The rows that have an estimate.
pub(super) fn estimated(rows: &[Coefficient]) -> impl Iterator<Item = &Coefficient> {
    rows.iter().filter(|row| row.estimate.is_some())
}
