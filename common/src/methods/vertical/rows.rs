//! Sums over rows at given linear predictors: residuals, loss and gradient, in parallel and in one order.
//!
//! A sum is added up over blocks of [`BLOCK_ROWS`](linalg::BLOCK_ROWS), and then over these in order, so that it is the same bits on any
//! number of threads. Threads take strips of a few blocks.

use nalgebra::DVector;
use rayon::prelude::*;

use super::block::Outcome;
use crate::linalg::kernels::{self, STRIP_ROWS};
use crate::linalg::{BLOCK_ROWS, Spares, Values};

/// The least working weight of a row that counts. A variance may vanish in double precision where a residual does not; that
/// residual over the root of this, squared, still is a number.
const LEAST: f64 = 1e-250;

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

    /// Makes working weights, prior weight times variance, of linear predictors.
    pub(super) fn working_weights(&self, start: usize, values: &mut [f64]) {
        self.family.variances(values);
        if let Some(weights) = &self.weights {
            let rows = values.iter_mut().zip(&weights[start..]);
            rows.for_each(|(value, weight)| *value = if *weight == 0.0 { 0.0 } else { weight * *value });
        }
    }

    /// The same, and no less than [`LEAST`] for a row that counts: its residual is divided by the root of it.
    pub(super) fn weights_to_divide_by(&self, start: usize, values: &mut [f64]) {
        self.working_weights(start, values);
        let counts = |row: usize| self.weights.as_ref().is_none_or(|weights| weights[start + row] > 0.0);
        for (row, value) in values.iter_mut().enumerate() {
            if *value < LEAST && counts(row) {
                *value = LEAST;
            }
        }
    }

    /// Weights that some rows had, 1 where none are given, and their working weights at these linear predictors.
    pub(super) fn weights_then_and_now(
        &self,
        then: Option<&[f64]>,
        start: usize,
        mut predictors: Vec<f64>,
    ) -> [Vec<f64>; 2] {
        let rows = start..start + predictors.len();
        let then = then.map_or_else(|| vec![1.0; rows.len()], |weights| weights[rows.clone()].to_vec());
        self.working_weights(start, &mut predictors);
        [then, predictors]
    }

    /// Makes weighted residuals of linear predictors, at most a strip of them; gives loss and sum of squares of each block.
    pub(super) fn residuals(&self, start: usize, values: &mut [f64]) -> Vec<(f64, f64)> {
        let mut losses = [0.0; STRIP_ROWS];
        let losses = &mut losses[..values.len()];
        let blocks = values.chunks_mut(BLOCK_ROWS).zip(losses.chunks_mut(BLOCK_ROWS)).enumerate();
        blocks
            .for_each(|(block, (values, losses))| self.residuals_of_block(start + block * BLOCK_ROWS, values, losses));
        kernels::sums_of_blocks(losses).into_iter().zip(kernels::ordered_of_blocks(values, values)).collect()
    }

    fn residuals_of_block(&self, start: usize, values: &mut [f64], losses: &mut [f64]) {
        let rows = start..start + values.len();
        let y = &self.y[rows.clone()];
        let mut means = [0.0; BLOCK_ROWS];
        let means = &mut means[..values.len()];
        self.family.at_rows(y, values, means, losses);
        values.iter_mut().zip(y).zip(&*means).for_each(|((value, y), mean)| *value = y - mean);
        if let Some(weights) = &self.weights {
            for ((value, loss), weight) in values.iter_mut().zip(losses).zip(&weights[rows]) {
                // A row that does not count may have a mean that is not finite.
                (*value, *loss) = if *weight == 0.0 { (0.0, 0.0) } else { (weight * *value, weight * *loss) };
            }
        }
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

/// The sum of vectors of one length, from the left; empty ones stand for zeros. It is written into a spare vector.
pub(super) fn sum_of(vectors: &[&Values], spares: &mut Spares) -> Values {
    let vectors: Vec<&Values> = vectors.iter().copied().filter(|vector| !vector.is_empty()).collect();
    let (first, second, rest) = match vectors.as_slice() {
        [] => return Values::default(),
        [one] => return (*one).clone(),
        [first, second, rest @ ..] => (*first, *second, rest),
    };
    let mut sum = spares.take(first.len());
    sum.par_chunks_mut(STRIP_ROWS).enumerate().for_each(|(part, sum)| {
        let rows = part * STRIP_ROWS..part * STRIP_ROWS + sum.len();
        kernels::sum_of(&first[rows.clone()], &second[rows.clone()], None, sum);
        rest.iter().for_each(|more| kernels::add(&[1.0], |_| &more[rows.clone()], sum));
    });
    spares.keep(sum.clone());
    sum
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

/// A step that a bound keeps within this share of the most that it may go needs no look at its rows: the rest is for rounding.
pub(super) const SAFE: f64 = 0.99;

/// The share of a Newton step that is tried first, where `moved` gives by how much the whole step moves the linear predictors of some
/// rows, and no more than `furthest`. Where rows have run to probabilities of 0 and 1 a second derivative is rounding, and a step by it
/// could go anywhere.
pub(super) fn first_length(rows: usize, (furthest, most): (f64, f64), moved: impl Fn(usize, &mut [f64]) + Sync) -> f64 {
    if furthest <= SAFE * most {
        return 1.0;
    }
    let starts: Vec<usize> = (0..rows).step_by(STRIP_ROWS).collect();
    let largest = |start: usize| {
        let mut values = [0.0; STRIP_ROWS];
        let values = &mut values[..STRIP_ROWS.min(rows - start)];
        moved(start, values);
        values.iter().fold(0.0_f64, |most, moved| most.max(moved.abs()))
    };
    (most / starts.into_par_iter().map(largest).reduce(|| 0.0, f64::max)).min(1.0)
}

/// Whether all values of a vector are sound; without a branch from one value to the next.
pub(super) fn all(values: &[f64], sound: impl Fn(f64) -> bool + Sync) -> bool {
    values.par_chunks(STRIP_ROWS).all(|values| values.iter().fold(true, |all, value| all & sound(*value)))
}

#[cfg(test)]
mod tests {
    use super::super::block::{Block, LONGEST_STEP};
    use super::*;
    use crate::glm::Family;
    use nalgebra::DMatrix;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn outcome(family: Family, rows: usize, weighted: bool, rng: &mut ChaCha8Rng) -> Outcome {
        let y = (0..rows).map(|row| ((row * 7) % 3 == 0) as u8 as f64).collect();
        let weights = weighted.then(|| (0..rows).map(|row| (row % 4) as f64).collect());
        let offset = weighted.then(|| (0..rows).map(|_| rng.random_range(-0.5..0.5)).collect());
        Outcome { family, y, weights, offset, hidden: None, spread: 1.0 }
    }

    /// Gradient and loss from the definition, in the order of the rows.
    fn plain(block: &Block, outcome: &Outcome, beta: &DVector<f64>, other: &[f64]) -> (DVector<f64>, f64) {
        let (mut gradient, mut loss) = (DVector::zeros(beta.len()), 0.0);
        for row in 0..block.rows() {
            let x = block.matrix().row(row).transpose();
            let eta = x.dot(beta) + other[row] + outcome.offset.as_ref().map_or(0.0, |offset| offset[row]);
            let weight = outcome.weights.as_ref().map_or(1.0, |weights| weights[row]);
            let at = outcome.family.at(outcome.y[row], eta);
            gradient += x * (weight * (outcome.y[row] - at.mean));
            loss += weight * at.loss;
        }
        (gradient, loss)
    }

    #[test]
    fn a_pass_sums_up_every_row_once_wherever_the_pass_before_was() {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        for family in Family::ALL {
            for (rows, weighted) in [(1, false), (1023, true), (1024, false), (4096, true), (4097, false), (9001, true)]
            {
                let x = DMatrix::from_fn(rows, 6, |_, _| rng.random_range(-1.0..1.0));
                let outcome = outcome(family, rows, weighted, &mut rng);
                let mut block = Block::new(x, true, true, outcome.clone());
                let columns = block.columns();
                for round in 0..3 {
                    let other: Vec<f64> = (0..rows).map(|_| rng.random_range(-0.5..0.5)).collect();
                    block.take(other.clone(), 0.0);
                    // Twice at the same coefficients, of which the predictions are known then.
                    let seed = round / 2;
                    let beta = DVector::from_fn(columns, |j, _| 0.1 * (j + seed) as f64 - 0.2);
                    let pass = block.pass(&beta);
                    let (gradient, loss) = plain(&block, &outcome, &beta, &other);
                    let scale = rows as f64;
                    assert!((pass.gradient - gradient).amax() <= 1e-13 * scale, "{family}, {rows} rows, round {round}");
                    assert!((pass.loss - loss).abs() <= 1e-13 * scale, "{family}, {rows} rows, round {round}");
                    let residuals = DVector::from_vec(block.residuals());
                    let products = DVector::from_vec(block.products(residuals.as_slice()));
                    assert!((products - plain(&block, &outcome, &beta, &other).0).amax() <= 1e-13 * scale);
                }
            }
        }
    }

    #[test]
    fn no_row_moves_farther_than_the_bounds_of_a_step_say() {
        let mut rng = ChaCha8Rng::seed_from_u64(6);
        for rows in [1, 1024, 2500] {
            let x = DMatrix::from_fn(rows, 6, |_, _| rng.random_range(-1.0..1.0_f64).powi(3));
            let mut block = Block::new(x, true, true, outcome(Family::Binomial, rows, false, &mut rng));
            for dropped in [None, Some(block.columns() - 1)] {
                block.drop_columns(&dropped.into_iter().collect::<Vec<_>>());
                let x = block.matrix().clone();
                // Along the largest row the bound is reached, until columns are set aside.
                let largest = (0..rows).max_by(|a, b| x.row(*a).norm().total_cmp(&x.row(*b).norm())).unwrap();
                let along = x.row(largest).transpose();
                let random = DVector::from_fn(x.ncols(), |_, _| rng.random_range(-1.0..1.0));
                for step in [&along, &random] {
                    let moved = (&x * step).amax();
                    let by_columns = block.furthest(step.as_slice(), f64::INFINITY);
                    let bound = block.furthest(step.as_slice(), 0.0);
                    assert!(moved <= bound * (1.0 + 1e-12) && bound <= by_columns, "{moved} {bound} {by_columns}");
                }
                let reached = block.furthest(along.as_slice(), 0.0) / along.norm_squared();
                assert!(dropped.is_some() || (reached - 1.0).abs() < 1e-12, "{reached}");
            }
        }
    }

    #[test]
    fn sums_of_vectors_leave_out_none_and_take_none_twice() {
        let vector = |factor: f64| -> Values { (0..5000).map(|row| factor * (row as f64).sqrt()).collect() };
        let (a, b, c, none) = (vector(0.1), vector(-0.7), vector(0.3), Values::default());
        let plain = |vectors: &[&Values]| -> Values {
            (0..5000).map(|row| vectors.iter().fold(0.0, |sum, vector| sum + vector[row])).collect()
        };
        let mut spares = Spares::default();
        let mut sum_of = |vectors: &[&Values]| super::sum_of(vectors, &mut spares);
        assert!(sum_of(&[&none, &none]).is_empty());
        assert!(sum_of(&[&none, &b]) == b);
        assert!(sum_of(&[&a, &none, &b]) == plain(&[&a, &b]));
        assert!(sum_of(&[&a, &b, &c]) == plain(&[&a, &b, &c]));
        assert!(sum_of(&[&a, &b, &c, &a]) == plain(&[&a, &b, &c, &a]));
        assert_eq!(ordered_sum(5000, |row| row as f64), 12_497_500.0);
        // A step is shortened by what it moves most, and looked at only where it might be long.
        let long = |start: usize, moved: &mut [f64]| {
            moved.iter_mut().enumerate().for_each(|(i, moved)| *moved = if start + i == 4711 { -400.0 } else { 1.0 });
        };
        assert_eq!(
            (first_length(5000, (1e3, LONGEST_STEP), long), first_length(4711, (1e3, LONGEST_STEP), long)),
            (0.25, 1.0)
        );
        assert_eq!(first_length(5000, (50.0, LONGEST_STEP), |_, _| panic!("no row can move far")), 1.0);
        assert!(all(&a, |value| value >= 0.0) && !all(&b, |value| value > -49.0));
    }
}
