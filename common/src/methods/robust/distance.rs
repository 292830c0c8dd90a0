//! Distances between many estimates in bounded memory, and the metric in which they are taken.

use nalgebra::{DMatrix, DVector};
use rayon::prelude::*;

use super::estimate::{Estimate, Gram};
use super::normal::{Factor, transposed_product};
use super::weights::Weights;

/// Up to this many estimates every distance is taken directly; beyond it one product serves a block of rows.
const DIRECT: usize = 512;
/// Rows of the distance table that exist at a time, per thread.
const BLOCK: usize = 32;
/// Entries of the packed Gram whose medians are found in one pass over the estimates.
const MEDIAN_BLOCK: usize = 64;

/// Overflow counts as far: a distance is always a number that sorts and prints.
fn settle(square: f64) -> f64 {
    if square.is_finite() { square.max(0.0).sqrt() } else { f64::MAX }
}

/// Distance between two points.
pub(super) fn between(a: &[f64], b: &[f64]) -> f64 {
    settle(a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum())
}

/// The value at this place in ascending order; zero of nothing.
pub(super) fn select(values: &mut [f64], place: usize) -> f64 {
    match values.len() {
        0 => 0.0,
        n => *values.select_nth_unstable_by(place.min(n - 1), f64::total_cmp).1,
    }
}

/// For each column of `points` (q x m) what `pick` takes of its distances to every column, itself included.
///
/// Memory is O(q m + 32 m) per thread. The values do not depend on the number of threads.
pub(super) fn reach(points: &DMatrix<f64>, pick: impl Fn(&mut [f64]) -> f64 + Sync) -> Vec<f64> {
    let (q, m) = points.shape();
    if q == 0 {
        return vec![0.0; m];
    }
    if m <= DIRECT {
        let columns: Vec<&[f64]> = points.as_slice().chunks_exact(q).collect();
        return columns.iter().map(|a| pick(&mut columns.iter().map(|b| between(a, b)).collect::<Vec<_>>())).collect();
    }
    let squares: Vec<f64> = points.as_slice().chunks_exact(q).map(|a| a.iter().map(|v| v * v).sum()).collect();
    let all = points.as_slice();
    let starts: Vec<usize> = (0..m).step_by(BLOCK).collect();
    starts
        .into_par_iter()
        .flat_map_iter(|start| {
            let width = BLOCK.min(m - start);
            let mut products = vec![0.0; width * m];
            transposed_product(all, &all[start * q..(start + width) * q], q, &mut products);
            let squares = &squares;
            let found: Vec<f64> = products
                .chunks_exact_mut(m)
                .enumerate()
                .map(|(k, row)| {
                    let i = start + k;
                    for (entry, square) in row.iter_mut().zip(squares) {
                        let apart = squares[i] + square - 2.0 * *entry;
                        *entry = if apart.is_nan() { f64::INFINITY } else { apart.max(0.0) };
                    }
                    row[i] = 0.0;
                    settle(pick(row))
                })
                .collect();
            found
        })
        .collect()
}

/// Median of each coordinate (the mean of the two middle ones when even) over the columns of `points`.
pub(super) fn coordinate_median(points: &DMatrix<f64>, weights: &Weights) -> DVector<f64> {
    let mut copy = vec![0.0; points.ncols()];
    DVector::from_fn(points.nrows(), |j, _| {
        copy.iter_mut().zip(points.row(j).iter()).for_each(|(c, v)| *c = *v);
        weights.median(&mut copy)
    })
}

/// Median, the mean of the two middle values when even; zero of nothing.
pub(super) fn median(values: &mut [f64]) -> f64 {
    let n = values.len();
    if n == 0 {
        return 0.0;
    }
    let (below, upper, _) = values.select_nth_unstable_by(n / 2, f64::total_cmp);
    if n % 2 == 1 {
        return *upper;
    }
    let lower = below.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    0.5 * lower + 0.5 * *upper
}

/// The law of squared distances by noise: about `size` times the variance per row, chi-squared with `degrees`.
pub(super) struct NoiseShape {
    pub(super) size: f64,
    pub(super) degrees: f64,
}

/// The metric of a majority: the median over the estimates of each cross product per kept row, so that a distance is
/// the root mean square difference of two predictions. No minority can bend it, and it does not change when a column
/// is measured in other units.
///
/// Medians of entries lose what entries have in common: of a column that lies far from zero, such as a density, all
/// products are nearly those of the intercept. The medians are therefore taken after each column has been reduced by its
/// typical multiple of the first.
pub(super) struct MajorityMetric {
    root: DMatrix<f64>,
    root_inverse: DMatrix<f64>,
    inverse: DMatrix<f64>,
}

/// The identity with these numbers times `sign` in its first row, right of the diagonal.
fn with_first_row(numbers: &[f64], sign: f64) -> DMatrix<f64> {
    let mut matrix = DMatrix::identity(numbers.len(), numbers.len());
    for (j, number) in numbers.iter().enumerate().skip(1) {
        matrix[(0, j)] = sign * number;
    }
    matrix
}

impl MajorityMetric {
    /// From estimates that all carry their Gram; nothing when one does not.
    pub(super) fn new(estimates: &[&Estimate], weights: &Weights) -> Option<Self> {
        let q = estimates.first()?.coefficients.len();
        let packed: Vec<(&[f64], f64)> = estimates
            .iter()
            .map(|e| Some((e.gram.as_ref()?.packed(), (e.kept as f64).recip())))
            .collect::<Option<_>>()?;
        let size = q * (q + 1) / 2;
        let of_first = |gram: &[f64], j: usize| gram[j * (j + 1) / 2];
        let mut multiples: Vec<f64> = (0..q)
            .map(|j| {
                weights.median(&mut packed.iter().map(|(gram, _)| of_first(gram, j) / gram[0]).collect::<Vec<_>>())
            })
            .collect();
        multiples[0] = 0.0;
        let places: Vec<(usize, usize)> = (0..q).flat_map(|i| (0..=i).map(move |j| (i, j))).collect();
        let mut lower = Vec::with_capacity(size);
        let mut block = vec![0.0; MEDIAN_BLOCK * packed.len()];
        for start in (0..size).step_by(MEDIAN_BLOCK) {
            let width = MEDIAN_BLOCK.min(size - start);
            for (at, (gram, share)) in packed.iter().enumerate() {
                for (k, &(i, j)) in places[start..start + width].iter().enumerate() {
                    let (a, b) = (multiples[i], multiples[j]);
                    let reduced = gram[start + k] - a * of_first(gram, j) - b * of_first(gram, i) + a * b * gram[0];
                    block[k * packed.len() + at] = reduced * share;
                }
            }
            lower.extend(block.chunks_exact_mut(packed.len()).take(width).map(|entry| weights.median(entry)));
        }
        let at = |i: usize, j: usize| lower[i.max(j) * (i.max(j) + 1) / 2 + i.min(j)];
        // Medians of entries need not be positive definite together; giving way to the diagonal always ends there.
        [0.0, 0.05, 0.2, 0.5, 1.0].into_iter().find_map(|t| {
            let matrix = DMatrix::from_fn(q, q, |i, j| if i == j { at(i, j) } else { (1.0 - t) * at(i, j) });
            Factor::new(q, |i, j| matrix[(i, j)]).ok()?;
            let reduced = matrix.clone().cholesky()?.unpack().transpose();
            let reduced_inverse = reduced.clone().try_inverse()?;
            // Coefficients of reduced columns: the first one takes the multiples of the others.
            let forth = with_first_row(&multiples, 1.0);
            let root = reduced * forth;
            let root_inverse = with_first_row(&multiples, -1.0) * reduced_inverse;
            let inverse = &root_inverse * root_inverse.transpose();
            Some(MajorityMetric { root, root_inverse, inverse })
        })
    }

    /// How squared distances from the truth vary by noise alone, in this metric or between plain coefficients.
    pub(super) fn noise_shape(&self, in_this_metric: bool) -> NoiseShape {
        let q = self.root.nrows() as f64;
        if in_this_metric {
            return NoiseShape { size: q, degrees: q };
        }
        let size = self.inverse.trace();
        NoiseShape { size, degrees: (size * size / self.inverse.norm_squared()).clamp(1.0, q) }
    }

    /// Columns in coordinates where the metric is the ordinary distance.
    pub(super) fn whiten(&self, points: &DMatrix<f64>) -> DMatrix<f64> {
        &self.root * points
    }

    /// The same for one point.
    pub(super) fn whiten_one(&self, point: &DVector<f64>) -> DVector<f64> {
        &self.root * point
    }

    /// The way back for one point.
    pub(super) fn restore(&self, point: &DVector<f64>) -> DVector<f64> {
        &self.root_inverse * point
    }

    /// How much an estimate claims to know, in units of the majority's rows: `trace(M^-1 G)`.
    pub(super) fn claim(&self, gram: &Gram) -> f64 {
        let mut sum = 0.0;
        for i in 0..self.inverse.nrows() {
            for j in 0..=i {
                sum += self.inverse[(i, j)] * gram.at(i, j) * if i == j { 1.0 } else { 2.0 };
            }
        }
        sum
    }
}
