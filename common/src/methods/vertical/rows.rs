//! Sums over rows at given linear predictors: residuals, loss and gradient, in parallel and in one order.
//!
//! A sum is added up over blocks of [`BLOCK_ROWS`](linalg::BLOCK_ROWS), and then over these in order, so that it is the same bits on any
//! number of threads. Threads take strips of a few blocks.

use nalgebra::DVector;
use rayon::prelude::*;

use super::block::{LONGEST_STEP, Outcome};
use crate::linalg::kernels::{self, STRIP_ROWS};
use crate::linalg::{BLOCK_ROWS, Values};

/// What the rows of a strip add to the sums of a pass, block by block.
pub(super) struct Strip {
    /// Of each block, one number a column.
    gradients: Vec<f64>,
    /// Of each block, loss and sum of squares of the residuals.
    scales: Vec<(f64, f64)>,
}

/// The sums of a pass.
pub(super) struct Scores {
    /// `X' W (y - mean)`.
    pub(super) gradient: DVector<f64>,
    /// Weighted loss.
    pub(super) loss: f64,
    /// Sum of squares of the weighted residuals.
    pub(super) squares: f64,
}

impl Outcome {
    /// The linear predictor of some rows, from own predictions and the partner's.
    pub(super) fn predictor(&self, start: usize, own: &[f64], other: &[f64], predictor: &mut [f64]) {
        let rows = start..start + own.len();
        let offset = self.offset.as_ref().map(|offset| &offset[rows.clone()]);
        kernels::sum_of(own, &other[rows], offset, predictor);
    }

    /// Makes weighted residuals of linear predictors; gives loss and sum of squares of each block.
    pub(super) fn residuals(&self, start: usize, values: &mut [f64]) -> Vec<(f64, f64)> {
        let blocks = values.chunks_mut(BLOCK_ROWS).enumerate();
        blocks.map(|(block, values)| self.residuals_of_block(start + block * BLOCK_ROWS, values)).collect()
    }

    fn residuals_of_block(&self, start: usize, values: &mut [f64]) -> (f64, f64) {
        let family = self.family;
        let y = &self.y[start..start + values.len()];
        let (mut loss, mut squares) = (0.0, 0.0);
        match &self.weights {
            None => {
                for (value, y) in values.iter_mut().zip(y) {
                    let at = family.at(*y, *value);
                    loss += at.loss;
                    *value = y - at.mean;
                    squares += *value * *value;
                }
            }
            Some(weights) => {
                for ((value, y), weight) in values.iter_mut().zip(y).zip(&weights[start..]) {
                    if *weight == 0.0 {
                        *value = 0.0;
                        continue;
                    }
                    let at = family.at(*y, *value);
                    loss += weight * at.loss;
                    *value = weight * (y - at.mean);
                    squares += *value * *value;
                }
            }
        }
        (loss, squares)
    }
}

impl Strip {
    /// The sums of a strip whose linear predictors are `values`, which become residuals; columns begin where the strip does. `further`
    /// columns count after the others, each added up row by row.
    pub(super) fn new<'a>(
        outcome: &Outcome,
        start: usize,
        values: &mut [f64],
        (columns, column): (usize, impl Fn(usize) -> &'a [f64]),
        further: &[&[f64]],
    ) -> Strip {
        let scales = outcome.residuals(start, values);
        let own = kernels::inner_of_blocks(columns, column, values);
        if further.is_empty() {
            return Strip { gradients: own, scales };
        }
        let rows = start..start + values.len();
        let further: Vec<Vec<f64>> =
            further.iter().map(|column| kernels::ordered_of_blocks(&column[rows.clone()], values)).collect();
        let mut gradients = Vec::with_capacity(scales.len() * (columns + further.len()));
        for block in 0..scales.len() {
            gradients.extend_from_slice(&own[block * columns..(block + 1) * columns]);
            gradients.extend(further.iter().map(|sums| sums[block]));
        }
        Strip { gradients, scales }
    }

    /// The sums over all strips, one after the other; the loss beginning with a given number.
    pub(super) fn sum(strips: Vec<Strip>, columns: usize, loss: f64) -> Scores {
        let mut sum = Scores { gradient: DVector::zeros(columns), loss, squares: 0.0 };
        for strip in strips {
            for (block, (loss, squares)) in strip.scales.iter().enumerate() {
                let gradient = &strip.gradients[block * columns..(block + 1) * columns];
                sum.gradient.iter_mut().zip(gradient).for_each(|(sum, part)| *sum += part);
                sum.loss += loss;
                sum.squares += squares;
            }
        }
        sum
    }
}

/// The sum of vectors of one length, from the left; empty ones stand for zeros.
pub(super) fn sum_of(vectors: &[&Values]) -> Values {
    let vectors: Vec<&Values> = vectors.iter().copied().filter(|vector| !vector.is_empty()).collect();
    let (first, second, rest) = match vectors.as_slice() {
        [] => return Values::default(),
        [one] => return (*one).clone(),
        [first, second, rest @ ..] => (*first, *second, rest),
    };
    let mut sum = vec![0.0; first.len()];
    sum.par_chunks_mut(STRIP_ROWS).enumerate().for_each(|(part, sum)| {
        let rows = part * STRIP_ROWS..part * STRIP_ROWS + sum.len();
        kernels::sum_of(&first[rows.clone()], &second[rows.clone()], None, sum);
        rest.iter().for_each(|more| kernels::add(&[1.0], |_| &more[rows.clone()], sum));
    });
    sum.into()
}

/// A sum over the rows, added up from the first to the last; the terms are computed in parallel.
pub(super) fn ordered_sum(rows: usize, term: impl Fn(usize) -> f64 + Sync) -> f64 {
    let mut terms = vec![0.0; rows];
    fill(&mut terms, term);
    terms.into_iter().sum()
}

/// One number a row, in parallel.
pub(super) fn fill(values: &mut [f64], of: impl Fn(usize) -> f64 + Sync) {
    values.par_chunks_mut(STRIP_ROWS).enumerate().for_each(|(part, values)| {
        values.iter_mut().enumerate().for_each(|(i, value)| *value = of(part * STRIP_ROWS + i));
    });
}

/// The share of a Newton step that is tried first, where `moved` gives by how much the whole step moves the linear predictors of some
/// rows. Where rows have run to probabilities of 0 and 1 a second derivative is rounding, and a step by it could go anywhere.
pub(super) fn first_length(rows: usize, moved: impl Fn(usize, &mut [f64]) + Sync) -> f64 {
    let starts: Vec<usize> = (0..rows).step_by(STRIP_ROWS).collect();
    let largest = |start: usize| {
        let mut values = [0.0; STRIP_ROWS];
        let values = &mut values[..STRIP_ROWS.min(rows - start)];
        moved(start, values);
        values.iter().fold(0.0_f64, |most, moved| most.max(moved.abs()))
    };
    (LONGEST_STEP / starts.into_par_iter().map(largest).reduce(|| 0.0, f64::max)).min(1.0)
}

/// Whether all values of a vector are sound; without a branch from one value to the next.
pub(super) fn all(values: &[f64], sound: impl Fn(f64) -> bool + Sync) -> bool {
    values.par_chunks(STRIP_ROWS).all(|values| values.iter().fold(true, |all, value| all & sound(*value)))
}
