//! Whether estimates grow without bound.
//!
//! A likelihood has no maximum where the loss does not rise along some combination of the columns, however far one goes:
//! a direction of recession. Iterations on such data run along one. So after every exchange the loss is followed along
//! the last step, and along the whole way from the start, to a distance at which every finite estimate worth the name
//! has turned. What is judged is the loss of the rows, in its own unit, and not the size of a predictor: that of a large
//! count is large, and probabilities can be as near to 0 and 1 as a finite estimate makes them.
//!
//! # Reference
//! A. Albert and J. A. Anderson, "On the existence of maximum likelihood estimates in logistic regression models",
//! Biometrika 71 (1984); C. J. Geyer, "Likelihood inference in exponential families and directions of recession",
//! Electronic Journal of Statistics 3 (2009).

use nalgebra::{DMatrix, DVector};
use rayon::prelude::*;

use super::block::Block;
use crate::glm::Family;
use crate::linalg::{self, BLOCK_ROWS, Definite};

/// How far the loss is followed, in steps: an estimate that turns beyond could not be told from an infinite one.
const DISTANCE: f64 = 1e5;

/// By how much the loss may rise over the second half of the distance, times the mean weight of a row: a hundredth of a
/// unit of log-likelihood is what unfinished coefficients of other columns may make of zero.
const RISE: f64 = 1e-2;

/// A step that moves no row's linear predictor by as much is no growth.
const GROWTH: f64 = 1e-2;

/// The variance of one row at which it has run to the limit of what its outcome says.
const LIMIT: f64 = 1e-6;

/// Losses above a perfect fit, and variances, below which a row counts as free: at the limit of what its outcome says, or
/// on its way there. Rows of continuous columns get there one after the other, so several are tried.
const FREE: [f64; 5] = [1e-6, 1e-4, 1e-2, 0.1, 0.7];

/// The share of a combination's squares that rounding of inner products leaves on rows that it does not move.
const UNMOVED: f64 = 1e-11;

/// The share of its largest movement below which a combination does not move a row: the root of what rounding leaves.
const STILL_ROW: f64 = 1e-6;

/// Corrections of a combination that moves some free rows away from their limits.
const CORRECTIONS: usize = 30;

/// The predictions that steps are measured from.
#[derive(Debug, Clone, Default)]
pub(super) struct Growth {
    first: Option<Vec<f64>>,
    last: Option<Vec<f64>>,
}

impl Growth {
    /// Looks at the point of the block's last pass: whether the estimates grow without bound from here.
    ///
    /// `offset_hidden` where the partner's predictions carry an offset that this side does not know: then the way begins
    /// at the first exchange, and else at zero coefficients.
    pub(super) fn unbounded(&mut self, block: &Block, offset_hidden: bool) -> bool {
        let now: Vec<f64> = (0..block.rows()).map(|row| block.predictor(row)).collect();
        let first = self.first.get_or_insert_with(|| match &block.outcome().offset {
            _ if offset_hidden => now.clone(),
            Some(offset) => offset.clone(),
            None => vec![0.0; now.len()],
        });
        let whole = flat(block, &now, first);
        let step = self.last.as_ref().is_some_and(|last| flat(block, &now, last));
        self.last = Some(now);
        whole || step
    }
}

/// Whether the loss stays flat from `now` on, in the direction that leads there from `before`.
fn flat(block: &Block, now: &[f64], before: &[f64]) -> bool {
    let outcome = block.outcome();
    let weight = |row: usize| outcome.weights.as_ref().map_or(1.0, |weights| weights[row]);
    let step = |row: usize| if weight(row) > 0.0 { now[row] - before[row] } else { 0.0 };
    let longest = (0..now.len()).map(|row| step(row).abs()).fold(0.0, f64::max);
    if !(longest > GROWTH && longest.is_finite()) {
        return false;
    }
    let starts: Vec<usize> = (0..now.len()).step_by(BLOCK_ROWS).collect();
    let rises: Vec<f64> = starts
        .into_par_iter()
        .map(|start| {
            let rise = |row: usize| {
                let step = step(row);
                if step == 0.0 {
                    return 0.0;
                }
                let at = |steps: f64| outcome.family.at(outcome.y[row], now[row] + steps * step).loss;
                weight(row) * (at(DISTANCE) - at(0.5 * DISTANCE))
            };
            (start..now.len().min(start + BLOCK_ROWS)).map(rise).sum()
        })
        .collect();
    // Not finite where a mean overflows on the way: the loss rises.
    rises.iter().sum::<f64>() <= RISE * block.weight_sum() / now.len() as f64
}

/// Whether some row has run to the limit of what its outcome says.
pub(super) fn at_limit(block: &Block) -> bool {
    let outcome = block.outcome();
    (0..block.rows()).any(|row| {
        let counts = outcome.weights.as_ref().is_none_or(|weights| weights[row] > 0.0);
        counts && outcome.family.variance(block.predictor(row)) <= LIMIT
    })
}

/// Whether some combination of own columns, a constant where the model has one, and `more` columns moves no row but free
/// ones, and lets the loss stay flat however far one goes: estimates that grow without bound, also where gradient and
/// steps have become so small that rounding has stopped them.
///
/// The loss along the combination is the proof, so that nothing is named that is not so; what is guessed is only where to
/// look: combinations of the free rows' own predictors.
pub(super) fn exhausted<'a>(block: &Block, intercept: bool, more: impl Iterator<Item = &'a [f64]>) -> bool {
    let outcome = block.outcome();
    let rows = block.rows();
    let prior = |row: usize| outcome.weights.as_ref().map_or(1.0, |weights| weights[row]);
    let now: Vec<f64> = (0..rows).map(|row| block.predictor(row)).collect();
    // How far a row is from its limit; rows without weight are as free as can be.
    let distance: Vec<f64> = (0..rows)
        .into_par_iter()
        .with_min_len(BLOCK_ROWS)
        .map(|row| {
            if prior(row) == 0.0 {
                return 0.0;
            }
            let (family, y) = (outcome.family, outcome.y[row]);
            (family.at(y, now[row]).loss - family.saturated(y)).max(family.variance(now[row]))
        })
        .collect();
    let constant = vec![1.0; if intercept && !block.has_intercept() { rows } else { 0 }];
    let mut columns: Vec<&[f64]> = (0..block.columns()).map(|j| block.column(j)).collect();
    if !constant.is_empty() {
        columns.push(&constant);
    }
    for column in more {
        columns.push(column);
    }
    let gram = |counts: &(dyn Fn(usize) -> bool + Sync)| {
        linalg::packed_gram(rows, columns.len(), |rows, packed| {
            for column in &columns {
                packed.extend(rows.clone().map(|row| if counts(row) { prior(row).sqrt() * column[row] } else { 0.0 }));
            }
        })
    };
    let Some((metric, kept)) = Definite::from_gram_limited(&gram(&|_| true)) else { return false };
    let columns_kept: Vec<&[f64]> = kept.iter().map(|k| columns[*k]).collect();
    let unwhitened = metric.inverse_factor();
    let mut tried = usize::MAX;
    FREE.iter().any(|limit| {
        let free: Vec<usize> = (0..rows).filter(|row| prior(*row) > 0.0 && distance[*row] <= *limit).collect();
        if free.is_empty() || free.len() == tried {
            return false;
        }
        tried = free.len();
        // In coordinates in which all rows together have unit squares, combinations that leave the other rows alone.
        let rest = gram(&|row| distance[row] > *limit).select_rows(&kept).select_columns(&kept);
        let whitened = unwhitened.transpose() * rest * &unwhitened;
        let eigen = ((&whitened + whitened.transpose()) * 0.5).symmetric_eigen();
        let alone: Vec<usize> = (0..kept.len()).filter(|j| eigen.eigenvalues[*j] <= UNMOVED).collect();
        !alone.is_empty()
            && recedes(block, &now, &free, &columns_kept, &(&unwhitened * eigen.eigenvectors.select_columns(&alone)))
    })
}

/// Whether the loss stays flat along a combination of the columns in the span of `basis`, whose coordinates are
/// orthonormal: the one nearest to the predictors of the free rows, corrected where it moves a row away from its limit.
fn recedes(block: &Block, now: &[f64], free: &[usize], columns: &[&[f64]], basis: &DMatrix<f64>) -> bool {
    let outcome = block.outcome();
    let weight = |row: usize| outcome.weights.as_ref().map_or(1.0, |weights| weights[row]);
    let limit: Vec<f64> = free
        .iter()
        .map(|row| match outcome.family {
            Family::Binomial if outcome.y[*row] >= 0.5 => 1.0,
            Family::Binomial | Family::Poisson | Family::Gaussian => -1.0,
        })
        .collect();
    let mut target: Vec<f64> = free.iter().zip(&limit).map(|(row, sign)| sign * (sign * now[*row]).max(0.0)).collect();
    for _ in 0..CORRECTIONS {
        let products = DVector::from_iterator(
            columns.len(),
            columns.iter().map(|column| free.iter().zip(&target).map(|(row, t)| weight(*row) * column[*row] * t).sum()),
        );
        let combination = basis * (basis.transpose() * products);
        let mut step = vec![0.0; now.len()];
        for (column, share) in columns.iter().zip(combination.iter()) {
            step.iter_mut().zip(*column).for_each(|(step, x)| *step += share * x);
        }
        let longest =
            (0..now.len()).filter(|row| weight(*row) > 0.0).fold(0.0_f64, |most, row| most.max(step[row].abs()));
        if !(longest > 0.0 && longest.is_finite()) {
            return false;
        }
        // All rows take part, so that a combination that is rounding of dependent columns is found out.
        let before: Vec<f64> = now
            .iter()
            .zip(&step)
            .map(|(now, step)| now - if (step / longest).abs() > STILL_ROW { step / longest } else { 0.0 })
            .collect();
        let wrong = free.iter().zip(&limit).any(|(row, sign)| sign * step[*row] / longest < -STILL_ROW);
        if !wrong || flat(block, now, &before) {
            return flat(block, now, &before);
        }
        for ((target, row), sign) in target.iter_mut().zip(free).zip(&limit) {
            *target = sign * (sign * step[*row] / longest).max(0.0);
        }
    }
    false
}
