//! The offset of a sealed binomial or poisson fit, and what its leader knows beside the columns.

use nalgebra::DVector;

use super::session::Work;
use crate::methods::vertical::prepare::Encoded;
use crate::secure::optimiser;
use crate::secure::product::Blocks;
use crate::secure::ring::row_blocks;

/// An offset as Alice adds it to her part of the linear predictor.
pub(super) struct Offset {
    /// Without their mean where the model has an intercept, so that the range of Alice's part stays small.
    pub(super) values: Vec<f64>,
    /// The mean that was taken out.
    pub(super) mean: f64,
}

impl Offset {
    pub(super) fn new(encoded: &Encoded, intercept: bool) -> Option<Offset> {
        let values = encoded.offset.as_ref()?;
        let mean = if intercept { mean_of(encoded, values.iter().copied()) } else { 0.0 };
        Some(Offset { values: values.iter().map(|value| value - mean).collect(), mean })
    }
}

/// A mean over the rows, by case weight.
fn mean_of(encoded: &Encoded, values: impl Iterator<Item = f64>) -> f64 {
    match &encoded.weights {
        None => {
            let (sum, rows) = values.fold((0.0, 0.0), |(sum, rows), value| (sum + value, rows + 1.0));
            sum / rows
        }
        Some(weights) => {
            let sum: f64 = weights.iter().sum();
            weights
                .iter()
                .zip(values)
                .filter(|(weight, _)| **weight > 0.0)
                .map(|(weight, value)| weight * value)
                .sum::<f64>()
                / sum
        }
    }
}

/// At Alice, what the fit has beside its columns, with this number of coordinates.
pub(super) fn beside(work: &Work, coordinates: usize) -> optimiser::Beside {
    let (encoded, intercept) = (&work.encoded, work.study.method.intercept);
    let mean = mean_of(encoded, encoded.outcome.iter().flatten().copied());
    let offset = work.offset.as_ref().map(|offset| {
        let values = || offset.values.iter().copied();
        let centre = mean_of(encoded, values());
        let mut along = DVector::zeros(coordinates - usize::from(intercept));
        let own = products(work, &offset.values);
        along.rows_mut(0, own.len()).copy_from(&own);
        optimiser::Offset {
            mean: centre,
            variance: mean_of(encoded, values().map(|value| (value - centre).powi(2))),
            along,
            exposure: mean_of(encoded, values().map(f64::exp)),
            null: encoded.block.null_intercept(intercept) + offset.mean,
        }
    });
    optimiser::Beside { intercept, mean, offset }
}

/// Mean products of the own columns with a vector over the rows, by case weight.
fn products(work: &Work, vector: &[f64]) -> DVector<f64> {
    let root = |row: usize| work.weights.as_ref().map_or(1.0, |weights| weights.roots[row]);
    let mut sums = DVector::zeros(work.own.factor.ncols());
    let mut columns = Vec::new();
    for range in row_blocks(work.rows) {
        columns.clear();
        work.basis.fill(range.clone(), &mut columns);
        for (sum, column) in sums.iter_mut().zip(columns.chunks_exact(range.len())) {
            *sum += range.clone().zip(column).map(|(row, value)| value * vector[row] * root(row)).sum::<f64>();
        }
    }
    sums / work.rows as f64
}
