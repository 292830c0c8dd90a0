//! The joint minimum of a binomial or Poisson loss, at the party that holds the basis of the other's columns beside its own.
//!
//! Newton's method over all coefficients at once: the gradient and the second derivative come from one product of all columns with
//! themselves under the working weights, so that a step takes one sweep over the rows and no message. Of many rows the first steps take
//! some, spread evenly, whose minimum is a standard error of theirs away from that of all; after the first step that takes all, what
//! weights have changed of the second derivative is estimated from some.

use std::ops::Range;

use nalgebra::{DMatrix, DVector};
use rayon::prelude::*;

use super::block::{Block, Outcome};
use super::rows::Strip;
use crate::linalg::kernels::{self, STRIP_ROWS};
use crate::linalg::{self, Definite, SomeRows};

/// Steps, at most. Where there is a minimum about seven are enough.
const STEPS: usize = 24;

/// A step of this many standard errors, squared, is followed by one far below rounding of the loss. Where all weights are
/// small it is as much less. After a step by an estimate the share that it left of the one before it foretells the next, which must be below
/// the square of this.
const SMALL: f64 = 1e-10;

/// At least this share of the square of a step by an estimate is taken to be left: one step may gain more than the next.
const LEFT: f64 = 1e-4;

/// The square of a step in standard errors, for a weight of 1, up to which weights have changed little on the way.
const SHORT: f64 = 1e-2;

/// The share of the square of a step that the next one may have for an estimated second derivative to be good enough.
const GAINED: f64 = 2.5e-3;

/// Rows that the first steps take, if there are many times more.
const SOME: usize = 1 << 16;
const MANY: usize = 8;

/// Pivots of columns of one length that are further apart say that they nearly depend on each other, and more than this method can tell.
const SOUND: f64 = 1e-5;

/// Halvings of a step that does not lower the loss.
const HALVINGS: usize = 10;

/// How far a loss may rise by rounding, relative to it.
const SLACK: f64 = 1e-12;

/// Where the joint loss is least.
pub(super) struct Minimum {
    /// How far it is from the present coefficients.
    pub(super) own: DVector<f64>,
    /// The same in coordinates of the basis.
    pub(super) basis: DVector<f64>,
    /// Linear predictors there.
    pub(super) predictors: Vec<f64>,
}

/// The minimum over own coefficients and coordinates of the basis, from the present predictions; none where no minimum is found.
pub(super) fn minimum(block: &Block, basis: &DMatrix<f64>) -> Option<Minimum> {
    minimum_by(block, basis, SOME)
}

/// The same whose first steps take this number of rows.
fn minimum_by(block: &Block, basis: &DMatrix<f64>, some: usize) -> Option<Minimum> {
    let (rows, columns) = (block.rows(), [basis, block.matrix()]);
    let size = columns.iter().map(|columns| columns.ncols()).sum();
    let (mut predictors, mut at) = (block.predictors(), DVector::zeros(size));
    if rows > MANY * some {
        let every = rows / some;
        let picked: Vec<usize> = (0..rows).step_by(every).collect();
        let of = |values: &[f64]| picked.iter().map(|row| values[*row]).collect::<Vec<f64>>();
        let picked_columns = columns.map(|columns| columns.select_rows(&picked));
        let outcome = block.outcome();
        let outcome = Outcome {
            y: of(&outcome.y),
            weights: outcome.weights.as_deref().map(of),
            offset: None,
            hidden: None,
            ..*outcome
        };
        let rows = Rows { outcome: &outcome, columns: [&picked_columns[0], &picked_columns[1]] };
        let mut near = DVector::zeros(size);
        let all = Rows { outcome: block.outcome(), columns };
        if rows.descend(&mut of(&predictors), &mut near).is_some() {
            let mut there = predictors.clone();
            all.go(&near, &mut there);
            if all.loss(&there) <= all.loss(&predictors) {
                (predictors, at) = (there, near);
            }
        }
    }
    Rows { outcome: block.outcome(), columns }.descend(&mut predictors, &mut at)?;
    let (basis, own) = (at.rows(0, basis.ncols()).into_owned(), at.rows(basis.ncols(), block.columns()).into_owned());
    Some(Minimum { own, basis, predictors })
}

/// A step, before it is taken.
struct Descent {
    step: DVector<f64>,
    /// Its square in standard errors.
    decrement: f64,
    /// The share of the last one's square that it has, of one by an estimate.
    left: Option<f64>,
    /// What the next one may go on from.
    before: Option<Before>,
}

/// The second derivative where it was computed from all of many rows.
struct Before {
    some: SomeRows,
    matrix: DMatrix<f64>,
    /// Working weights there.
    weights: Vec<f64>,
    /// The square of the last step in standard errors.
    decrement: f64,
}

/// All columns of some rows, and their outcome.
struct Rows<'a> {
    outcome: &'a Outcome,
    columns: [&'a DMatrix<f64>; 2],
}

impl Rows<'_> {
    /// Goes from the coefficients `at`, whose linear predictors are given, to the minimum.
    fn descend(&self, predictors: &mut Vec<f64>, at: &mut DVector<f64>) -> Option<()> {
        let mut loss = self.loss(predictors);
        let mut before: Option<Before> = None;
        for _ in 0..STEPS {
            let estimated = before.take().and_then(|before| self.estimated_step(predictors, before));
            let Descent { mut step, decrement, left, before: known } = match estimated {
                Some(estimated) => estimated,
                None => self.step(predictors)?,
            };
            let mut there = predictors.clone();
            self.go(&step, &mut there);
            let mut halvings = 0;
            let mut reached = self.loss(&there);
            while !(reached <= loss + SLACK * loss.abs()) {
                if halvings == HALVINGS {
                    return None;
                }
                halvings += 1;
                step *= 0.5;
                there.copy_from_slice(predictors);
                self.go(&step, &mut there);
                reached = self.loss(&there);
            }
            *at += step;
            (*predictors, loss) = (there, reached);
            let scale = self.weight_sum().min(1.0);
            let is_last = match left {
                None => decrement <= SMALL * scale,
                Some(left) => decrement * left.max(LEFT) <= SMALL * SMALL * scale,
            };
            if halvings == 0 && is_last {
                return Some(());
            }
            before = known.filter(|_| halvings == 0 && decrement <= SHORT * self.weight_sum());
        }
        None
    }

    /// A Newton step.
    fn step(&self, predictors: &[f64]) -> Option<Descent> {
        let (matrix, gradient) = self.derivatives(predictors);
        let step = solve(&matrix, &gradient)?;
        let decrement = step.dot(&gradient);
        let before = SomeRows::of(predictors.len(), step.len()).map(|some| {
            let mut weights = predictors.to_vec();
            let strips = weights.par_chunks_mut(STRIP_ROWS).enumerate();
            strips.for_each(|(part, weights)| self.outcome.working_weights(part * STRIP_ROWS, weights));
            Before { some, matrix, weights, decrement }
        });
        Some(Descent { step, decrement, left: None, before })
    }

    /// A step by what is known of the second derivative and an estimate of what has changed; none where it gains too little.
    fn estimated_step(&self, predictors: &[f64], before: Before) -> Option<Descent> {
        let weights = |rows: Range<usize>| {
            self.outcome.weights_then_and_now(Some(&before.weights), rows.start, predictors[rows].to_vec())
        };
        let matrix = before.some.gram(&before.matrix, |j| self.column(j), weights);
        let gradient = self.gradient(predictors);
        let step = solve(&matrix, &gradient)?;
        let decrement = step.dot(&gradient);
        let left = decrement / before.decrement;
        (left < GAINED).then_some(Descent {
            step,
            decrement,
            left: Some(left),
            before: Some(Before { decrement, ..before }),
        })
    }

    /// The negative gradient of the loss.
    fn gradient(&self, predictors: &[f64]) -> DVector<f64> {
        let size = self.columns.iter().map(|columns| columns.ncols()).sum();
        let strips = predictors.par_chunks(STRIP_ROWS).enumerate().map(|(part, predictors)| {
            let start = part * STRIP_ROWS;
            Strip::new(self.outcome, start, &mut predictors.to_vec(), (size, |j| &self.column(j)[start..]), &[])
        });
        Strip::sum(strips.collect(), size, 0.0).gradient
    }

    /// A column of the first matrix, or after these of the second.
    fn column(&self, j: usize) -> &[f64] {
        let [first, second] = self.columns;
        match j.checked_sub(first.ncols()) {
            None => column(first, j),
            Some(j) => column(second, j),
        }
    }

    /// Moves linear predictors by a step.
    fn go(&self, step: &DVector<f64>, predictors: &mut [f64]) {
        let [first, second] = self.columns;
        let (before, after) = step.as_slice().split_at(first.ncols());
        predictors.par_chunks_mut(STRIP_ROWS).enumerate().for_each(|(part, values)| {
            let start = part * STRIP_ROWS;
            kernels::add(before, |j| &column(first, j)[start..], values);
            kernels::add(after, |j| &column(second, j)[start..], values);
        });
    }

    fn weight_sum(&self) -> f64 {
        self.outcome.weights.as_ref().map_or(self.outcome.y.len() as f64, |weights| weights.iter().sum())
    }

    fn loss(&self, predictors: &[f64]) -> f64 {
        let strips: Vec<f64> = predictors
            .par_chunks(STRIP_ROWS)
            .enumerate()
            .map(|(part, predictors)| {
                let scales = self.outcome.residuals(part * STRIP_ROWS, &mut predictors.to_vec());
                scales.iter().map(|(loss, _)| loss).sum()
            })
            .collect();
        strips.iter().sum()
    }

    /// The second derivative and the negative gradient of the loss.
    fn derivatives(&self, predictors: &[f64]) -> (DMatrix<f64>, DVector<f64>) {
        let [first, second] = self.columns;
        let size = first.ncols() + second.ncols();
        let gram = linalg::packed_gram(predictors.len(), size + 1, |rows, out| {
            let (mut roots, mut residuals) = (predictors[rows.clone()].to_vec(), predictors[rows.clone()].to_vec());
            self.outcome.weights_to_divide_by(rows.start, &mut roots);
            roots.iter_mut().for_each(|weight| *weight = weight.sqrt());
            self.outcome.residuals(rows.start, &mut residuals);
            for columns in self.columns {
                (0..columns.ncols())
                    .for_each(|j| kernels::append_scaled(out, &column(columns, j)[rows.clone()], &roots));
            }
            let working = residuals.iter().zip(&roots);
            out.extend(working.map(|(residual, root)| if *root > 0.0 { residual / root } else { 0.0 }));
        });
        (gram.view((0, 0), (size, size)).into_owned(), gram.view((0, size), (size, 1)).column(0).into_owned())
    }
}

/// Solves with a second derivative, on a unit diagonal: columns of the basis are shorter than own ones.
fn solve(matrix: &DMatrix<f64>, gradient: &DVector<f64>) -> Option<DVector<f64>> {
    let scale = matrix.diagonal().map(|square| 1.0 / square.sqrt());
    let scaled = matrix.map_with_location(|i, j, value| value * scale[i] * scale[j]);
    let definite = Definite::from_gram(&scaled).filter(|definite| definite.pivot_ratio() > SOUND)?;
    Some(definite.solve(&gradient.component_mul(&scale)).component_mul(&scale))
}

fn column(x: &DMatrix<f64>, j: usize) -> &[f64] {
    &x.as_slice()[j * x.nrows()..(j + 1) * x.nrows()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::glm::Family;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// A block with an intercept, columns of another party, and the coefficients of all of them that made the outcome.
    fn simulated(family: Family, rows: usize, seed: u64, level: f64) -> (Block, DMatrix<f64>) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut columns = |count| DMatrix::from_fn(rows, count, |_, _| rng.random_range(-1.0..1.0_f64));
        let (own, other) = (columns(2), columns(3));
        let y = (0..rows)
            .map(|i| {
                let eta = level + 0.8 * own[(i, 0)] - 0.5 * other[(i, 1)] + 0.3 * other[(i, 2)];
                match family {
                    Family::Binomial => f64::from(u8::from(rng.random_bool(family.mean(eta)))),
                    Family::Gaussian | Family::Poisson => (family.mean(eta) * rng.random_range(0.5..1.5)).round(),
                }
            })
            .collect();
        let weights = (0..rows).map(|i| if i % 50 == 7 { 0.0 } else { 1.0 + (i % 3) as f64 }).collect();
        let outcome = Outcome { family, y, weights: Some(weights), offset: None, hidden: None, spread: 1.0 };
        (Block::new(own, true, true, outcome), other)
    }

    #[test]
    fn the_gradient_over_all_columns_is_zero_at_the_minimum() {
        for (family, level) in [(Family::Binomial, -1.0), (Family::Poisson, 0.5), (Family::Poisson, 6.0)] {
            for (rows, some) in [(300, SOME), (20_000, 500), (60_000, 500), (60_000, SOME)] {
                let (block, other) = simulated(family, rows, 11, level);
                let found = minimum_by(&block, &other, some).unwrap();
                let mut residuals = vec![0.0; rows];
                for (i, residual) in residuals.iter_mut().enumerate() {
                    let from_own: f64 = (0..block.columns()).map(|j| block.column(j)[i] * found.own[j]).sum();
                    let eta = from_own + (other.row(i) * &found.basis)[0];
                    assert!((eta - found.predictors[i]).abs() < 1e-10 * eta.abs().max(1.0));
                    let weight = block.outcome().weights.as_ref().unwrap()[i];
                    *residual = weight * (block.outcome().y[i] - family.mean(eta));
                }
                let size: f64 = residuals.iter().map(|residual| residual.abs()).sum();
                let others = other.column_iter().map(|column| column.iter().zip(&residuals).map(|(x, r)| x * r).sum());
                let gradient: Vec<f64> = block.products(&residuals).into_iter().chain(others).collect();
                assert!(
                    gradient.iter().all(|value| value.abs() < 1e-9 * size),
                    "{family} {level} {rows}: {gradient:?}"
                );
            }
        }
    }

    #[test]
    fn classes_that_are_separated_and_columns_that_depend_on_each_other_have_no_minimum() {
        let (block, mut other) = simulated(Family::Binomial, 400, 5, 0.0);
        let outcome = block.outcome().y.clone();
        (0..400).for_each(|i| other[(i, 0)] = 2.0 * outcome[i] - 1.0);
        assert!(minimum(&block, &other).is_none());
        let (block, mut other) = simulated(Family::Poisson, 400, 5, 0.0);
        let sum = other.column(0) - other.column(1) * 2.0;
        other.set_column(2, &sum);
        assert!(minimum(&block, &other).is_none());
    }
}
