//! Ridge, lasso and elastic net from the tables that have opened: post-processing, which no budget pays for.
//!
//! The noised joint table is lifted to one that columns can have, as for the fit without a penalty. The intercept's entry, which no penalty
//! meets, is taken out of it, and what is left are the cross-products of the centred columns. Their diagonal has the standard deviations
//! in which the penalty measures the columns: everything from here on is what a table without noise would be, and so is the path.

use nalgebra::DVector;

use super::{CrossFit, CrossPlan, CrossTables, lifted};
use crate::methods::vertical::penalty::Problem;

/// A penalty, in glmnet's parametrisation.
#[derive(Debug, Clone, PartialEq)]
pub struct CrossPenalty {
    /// Largest first, in the unit of the outcome; glmnet's path where there are none.
    pub lambdas: Option<Vec<f64>>,
    /// 1 is the lasso, 0 is ridge.
    pub alpha: f64,
}

/// The fit at one lambda.
#[derive(Debug, Clone, PartialEq)]
pub struct CrossPenalised {
    /// In the unit of the outcome.
    pub lambda: f64,
    /// Coefficients of unit rows; without a covariance.
    pub fit: CrossFit,
    /// By how much the optimality conditions are violated, in the unit of the outcome.
    pub violation: f64,
}

impl CrossPlan {
    /// The fits along lambda; `unit` is half the range of the outcome, in which the tables count it. None where the joint table is no number.
    pub fn penalised(&self, opened: &CrossTables, penalty: &CrossPenalty, unit: f64) -> Option<Vec<CrossPenalised>> {
        let rows = self.setup.rows as f64;
        let joint = lifted(&opened.joint, self.floor(), 0.0);
        let slopes = joint.nrows().checked_sub(1)?;
        let (constant, sum) = (joint[(0, 0)], opened.score[0]);
        let lean = joint.view((1, 0), (slopes, 1)).column(0) / constant;
        let centred = (joint.view((1, 1), (slopes, slopes)) - &lean * lean.transpose() * constant) / rows;
        let score = (opened.score.rows(1, slopes) - &lean * sum) / rows;
        let units: Vec<f64> = centred.diagonal().iter().map(|variance| variance.max(0.0).sqrt()).collect();
        // With noise the outcome may vary less than the columns explain of it, which no outcome does.
        let explained = centred.clone().cholesky()?.solve(&score).dot(&score);
        let square = ((opened.square - sum * sum / constant) / rows).max(explained);
        let spread = square.sqrt().max(f64::MIN_POSITIVE);
        let problem = Problem { joint: centred, score, units, spread, alpha: penalty.alpha };
        let given = penalty.lambdas.as_ref().map(|lambdas| lambdas.iter().map(|lambda| lambda / unit).collect());
        let scaled = problem.lambdas(given, self.setup.rows);
        let stated = penalty.lambdas.clone().unwrap_or_else(|| scaled.iter().map(|lambda| lambda * unit).collect());
        let fits = problem.along(&scaled).zip(&scaled).zip(stated).map(|((along, scaled), lambda)| {
            let constant = (sum - lean.dot(&along.beta) * constant) / constant;
            let violation = problem.penalty(*scaled).violation(&along.left, &along.beta) * unit;
            let coefficients = std::iter::once(constant).chain(along.beta.iter().copied());
            let coefficients = DVector::from_iterator(1 + slopes, coefficients);
            CrossPenalised { lambda, fit: CrossFit::without_errors(coefficients), violation }
        });
        Some(fits.collect())
    }
}
