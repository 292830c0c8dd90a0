//! Cross-products under changed weights from some of the rows, for Newton steps.
//!
//! A step needs a second derivative only as well as it is to gain digits: the gradient, which takes all rows, says where the minimum is.
//! An eighth of many rows leaves a share of a few hundredths of a step to the next (Erdogdu and Montanari, Convergence rates of
//! sub-sampled Newton methods, 2015), for an eighth of what the product over all rows costs.

use std::ops::Range;

use faer::MatRef;
use nalgebra::DMatrix;
use rayon::prelude::*;

use super::{add_lower_product, kernels};

/// Rows that are taken one after the other: long enough for the product of a piece, and so short that all of a sorted table is met.
const PIECE: usize = 256;

/// One piece of this many is taken.
const EVERY: usize = 8;

/// Pieces of one part of a sum that runs in parallel.
const PART: usize = 16;

/// Rows taken that there must be for each column: of columns without long tails the estimate is then off by less than a
/// fifteenth of what it estimates.
const ENOUGH: usize = 1000;

/// Some of the rows, evenly spread.
#[derive(Debug)]
pub struct SomeRows {
    pieces: Vec<Range<usize>>,
    /// How many rows each of them stands for.
    each: f64,
}

impl SomeRows {
    /// An eighth of the rows; none where these are too few for this number of columns.
    pub fn of(rows: usize, columns: usize) -> Option<SomeRows> {
        (rows / EVERY >= ENOUGH * columns.max(1)).then(|| SomeRows::every(rows, EVERY))
    }

    fn every(rows: usize, every: usize) -> SomeRows {
        let starts = (0..rows).step_by(every * PIECE);
        let pieces: Vec<Range<usize>> = starts.map(|start| start..rows.min(start + PIECE)).collect();
        let taken: usize = pieces.iter().map(ExactSizeIterator::len).sum();
        SomeRows { pieces, each: rows as f64 / taken.max(1) as f64 }
    }

    /// The rows, piece by piece.
    pub fn pieces(&self) -> &[Range<usize>] {
        &self.pieces
    }

    /// An estimate of `X' W X`, of which `X' V X` is `known`: `column` gives whole columns, `weights` the weights `V` and `W` of some rows.
    ///
    /// Estimated is what `c X' V X` leaves, for the `c` that leaves least, so that weights which are nearly in proportion cost next to
    /// nothing. It need not be positive definite.
    pub fn gram<'a>(
        &self,
        known: &DMatrix<f64>,
        column: impl Fn(usize) -> &'a [f64] + Sync,
        weights: impl Fn(Range<usize>) -> [Vec<f64>; 2] + Sync,
    ) -> DMatrix<f64> {
        let weights: Vec<[Vec<f64>; 2]> = self.pieces.par_iter().map(|rows| weights(rows.clone())).collect();
        let products = weights.iter().map(|[old, new]| (kernels::dot(old, new), kernels::dot(old, old)));
        let (both, squares) = products.fold((0.0, 0.0), |sum, more| (sum.0 + more.0, sum.1 + more.1));
        let share = if squares > 0.0 { both / squares } else { 0.0 };
        let left = |[old, new]: &[Vec<f64>; 2]| new.iter().zip(old).map(|(new, old)| new - share * old).collect();
        let left: Vec<Vec<f64>> = weights.iter().map(left).collect();
        known * share + self.products(known.ncols(), column, &left) * self.each
    }

    /// `X' W X` over the rows that are taken, and no others; `weights` are those of each piece.
    pub fn products<'a>(
        &self,
        columns: usize,
        column: impl Fn(usize) -> &'a [f64] + Sync,
        weights: &[Vec<f64>],
    ) -> DMatrix<f64> {
        let parts = self.pieces.par_chunks(PART).zip(weights.par_chunks(PART)).map(|(pieces, weights)| {
            let mut sum = DMatrix::zeros(columns, columns);
            let (mut as_they_are, mut weighted) = (Vec::new(), Vec::new());
            for (rows, weights) in pieces.iter().zip(weights) {
                as_they_are.clear();
                weighted.clear();
                for j in 0..columns {
                    let column = &column(j)[rows.clone()];
                    as_they_are.extend_from_slice(column);
                    kernels::append_scaled(&mut weighted, column, weights);
                }
                let as_they_are = MatRef::from_column_major_slice(&as_they_are, rows.len(), columns);
                let weighted = MatRef::from_column_major_slice(&weighted, rows.len(), columns);
                add_lower_product(&mut sum, as_they_are, weighted);
            }
            sum
        });
        let parts: Vec<DMatrix<f64>> = parts.collect();
        let mut sum = parts.into_iter().fold(DMatrix::zeros(columns, columns), |sum, part| sum + part);
        sum.fill_upper_triangle_with_lower_triangle();
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linalg::gram;
    use nalgebra::DVector;

    /// Sorted rows with a trend, and weights that follow them.
    fn sorted(rows: usize) -> (DMatrix<f64>, Vec<f64>, Vec<f64>) {
        let at = |i: usize| i as f64 / rows as f64;
        let x = DMatrix::from_fn(rows, 3, |i, j| match j {
            0 => 1.0,
            1 => at(i) - 0.5,
            _ => (i as f64 * 0.7).sin(),
        });
        let old = (0..rows).map(|i| f64::from(u8::from(i % 5 != 0))).collect::<Vec<f64>>();
        let new = (0..rows).map(|i| old[i] * (0.1 + 0.15 * at(i) * at(i))).collect();
        (x, old, new)
    }

    fn estimated(some: &SomeRows, x: &DMatrix<f64>, old: &[f64], new: &[f64]) -> DMatrix<f64> {
        let rows = x.nrows();
        let column = |j: usize| &x.as_slice()[j * rows..(j + 1) * rows];
        some.gram(&gram(x, Some(old)), column, |rows| [old[rows.clone()].to_vec(), new[rows].to_vec()])
    }

    #[test]
    fn some_rows_tell_nearly_what_all_do_and_all_rows_tell_it() {
        let rows = 50_003;
        let (x, old, new) = sorted(rows);
        let exact = gram(&x, Some(&new));
        // In units of the exact one: what a step leaves of the way to the minimum.
        let root = exact.clone().cholesky().unwrap().l();
        let left = |estimate: DMatrix<f64>| {
            let half = root.solve_lower_triangular(&(estimate - &exact)).unwrap();
            root.solve_lower_triangular(&half.transpose()).unwrap().symmetric_eigenvalues().amax()
        };
        assert!(left(estimated(&SomeRows::every(rows, 1), &x, &old, &new)) < 1e-13);
        let some = SomeRows::of(rows, 3).unwrap();
        assert!(left(estimated(&some, &x, &old, &new)) < 0.05);
        // Weights in proportion leave nothing to estimate.
        let in_proportion: Vec<f64> = old.iter().map(|weight| 0.2 * weight).collect();
        let difference = estimated(&some, &x, &old, &in_proportion) - gram(&x, Some(&in_proportion));
        assert!(difference.amax() < 1e-13 * exact.amax());
    }

    #[test]
    fn few_rows_are_not_estimated_from_and_pieces_are_spread_over_all() {
        assert!(SomeRows::of(8 * 1000 * 50 - 1, 50).is_none());
        let some = SomeRows::of(8 * 1000 * 50, 50).unwrap();
        assert_eq!(some.pieces().len(), 196);
        assert!(some.pieces().windows(2).all(|two| two[1].start - two[0].start == 2048 && two[0].len() == 256));
        assert_eq!(some.pieces().last().unwrap().end, 399_616);
        let zero = DVector::<f64>::zeros(8000);
        let none = some_rows_of_nothing(zero.as_slice());
        assert_eq!(none, DMatrix::zeros(1, 1));
    }

    /// Weights that are all zero.
    fn some_rows_of_nothing(zero: &[f64]) -> DMatrix<f64> {
        let some = SomeRows::of(zero.len(), 1).unwrap();
        some.gram(&DMatrix::zeros(1, 1), |_| zero, |rows| [zero[rows.clone()].to_vec(), zero[rows].to_vec()])
    }
}
