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

use nalgebra::DVector;
use rayon::prelude::*;

use super::block::Block;
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

/// Whether some combination of own columns, a constant and `more` columns is held by nothing but rows that have run to
/// their limit, and moves them further out: estimates that grow without bound where rounding has stopped them.
pub(super) fn exhausted<'a>(block: &Block, more: impl Iterator<Item = &'a [f64]>) -> bool {
    if !at_limit(block) {
        return false;
    }
    let weights = block.working_weights();
    let outcome = block.outcome();
    let prior = |row: usize| outcome.weights.as_ref().map_or(1.0, |weights| weights[row]);
    let held = |row: usize| weights[row] > LIMIT * prior(row);
    let constant = vec![1.0; block.rows()];
    let first = if block.has_intercept() { None } else { Some(constant.as_slice()) };
    let own = (0..block.columns()).map(|j| block.column(j));
    let mut columns: Vec<&[f64]> = first.into_iter().chain(own).collect();
    for column in more {
        columns.push(column);
    }
    let gram = |counts: &(dyn Fn(usize) -> bool + Sync)| {
        linalg::packed_gram(block.rows(), columns.len(), |rows, packed| {
            for column in &columns {
                packed.extend(rows.clone().map(|row| if counts(row) { prior(row).sqrt() * column[row] } else { 0.0 }));
            }
        })
    };
    let all = gram(&|_| true);
    let rest = gram(&held);
    let now: Vec<f64> = (0..block.rows()).map(|row| block.predictor(row)).collect();
    let kept_of = |gram| Definite::from_gram_limited(gram).map_or_else(Vec::new, |(_, kept)| kept);
    let (of_all, of_rest) = (kept_of(&all), kept_of(&rest));
    let free = of_all.iter().filter(|j| !of_rest.contains(j));
    free.copied().any(|j| {
        let mut step: Vec<f64> = columns[j].to_vec();
        if let Some((definite, kept)) = Definite::from_gram_limited(&rest) {
            let share: DVector<f64> = definite.solve(&rest.column(j).into_owned().select_rows(&kept));
            for (k, share) in kept.iter().zip(share.iter()) {
                step.iter_mut().zip(columns[*k]).for_each(|(s, x)| *s -= share * x);
            }
        }
        let toward = |sign: f64| now.iter().zip(&step).map(|(now, step)| now - sign * step).collect::<Vec<f64>>();
        flat(block, &now, &toward(1.0)) || flat(block, &now, &toward(-1.0))
    })
}
