//! Cross-validation of a sealed gaussian fit, from one table a fold.
//!
//! The rows stand in the order of their folds, and each fold's rows have an exchange of their own, so that the dealer needs to know no
//! more than how many there are. The table of all rows is the sum of the folds' tables.
//!
//! With `Z = [Q_a, e, Q_b]` of the parties' bases and the outcome's own direction Alice makes, for each fold, `Z'Z / n` and `Z'W^(1/2) 1 / n`
//! out of the fold's table and of what both parties know of their own columns: `Q_k'Q_k / n` and `Q_k'W^(1/2) 1 / n` of the fold, which Bob
//! sends. What a fold leaves of all rows is the difference; means, units and spread are those of the rows that are left, as
//! `cv.glmnet` has them. A held-out error needs the same sums of the fold's rows.

use std::ops::Range;

use nalgebra::{DMatrix, DVector};

use super::penalised::terms;
use super::session::Work;
use crate::linalg::{self, Definite};
use crate::methods::vertical::masked::out_of_order;
use crate::methods::vertical::penalty::Problem;
use crate::secure::basis::{Basis, OwnOutcome as Outcome};
use crate::secure::gaussian::Table;
use crate::secure::product::Blocks;
use crate::session::{Abort, PeerFault};

/// Rows in the order of their folds.
pub(super) struct Folds {
    /// The row of the table at each place.
    pub(super) order: Vec<usize>,
    /// Places of each fold's rows.
    pub(super) parts: Vec<Range<usize>>,
}

impl Folds {
    /// From the fold of each row, from 1 to `count`, none of them empty.
    pub(super) fn new(folds: &[u32], count: u32) -> Folds {
        let mut order: Vec<usize> = (0..folds.len()).collect();
        order.sort_by_key(|row| folds[*row]);
        let mut parts = Vec::with_capacity(count as usize);
        let mut first = 0;
        for fold in 1..=count {
            let end = first + folds.iter().filter(|of| **of == fold).count();
            parts.push(first..end);
            first = end;
        }
        Folds { order, parts }
    }

    /// Values of the rows, in this order.
    pub(super) fn ordered(&self, values: &[f64]) -> Vec<f64> {
        self.order.iter().map(|row| values[*row]).collect()
    }

    /// The rows of a matrix, in this order.
    pub(super) fn arrange(&self, matrix: &mut DMatrix<f64>) {
        for mut column in matrix.column_iter_mut() {
            let ordered = self.ordered(column.as_slice());
            column.as_mut_slice().copy_from_slice(&ordered);
        }
    }
}

/// Some rows of a basis, of mean square 1 at most as all of them: each is multiplied by the root of their share of all rows.
pub(super) struct Part<'a> {
    basis: &'a Basis<DMatrix<f64>>,
    rows: Range<usize>,
    scale: f64,
}

impl<'a> Part<'a> {
    pub(super) fn new(basis: &'a Basis<DMatrix<f64>>, rows: Range<usize>) -> Part<'a> {
        let scale = (rows.len() as f64 / basis.rows() as f64).sqrt();
        Part { basis, rows, scale }
    }
}

impl Blocks for Part<'_> {
    fn rows(&self) -> usize {
        self.rows.len()
    }

    fn columns(&self) -> usize {
        self.basis.columns()
    }

    fn fill(&self, rows: Range<usize>, out: &mut Vec<f64>) {
        let begin = out.len();
        self.basis.fill(self.rows.start + rows.start..self.rows.start + rows.end, out);
        if self.scale != 1.0 {
            out[begin..].iter_mut().for_each(|value| *value *= self.scale);
        }
    }
}

/// `[Q, W^(1/2) 1]'[Q, W^(1/2) 1] / n` of some rows, at Alice with the outcome's direction behind her columns; weights have mean 1.
pub(super) fn moments(basis: &Basis<DMatrix<f64>>, rows: &Range<usize>) -> DMatrix<f64> {
    let fill = |some: Range<usize>, out: &mut Vec<f64>| {
        let some = rows.start + some.start..rows.start + some.end;
        basis.fill(some.clone(), out);
        basis.fill_roots(some, out);
    };
    linalg::packed_gram(rows.len(), basis.columns() + 1, fill) / basis.rows() as f64
}

/// Numbers of Bob's sums over a fold: the triangle of his columns, and their sums.
pub fn fold_numbers(columns: usize) -> usize {
    columns * (columns + 1) / 2 + columns
}

/// At Bob: what he sends of each fold.
pub(super) fn sums(moments: &[DMatrix<f64>]) -> impl Iterator<Item = f64> {
    let of = |sums: &DMatrix<f64>| {
        let size = sums.ncols() - 1;
        let upper = (0..size).flat_map(|i| (i..size).map(move |j| (i, j)));
        upper.chain((0..size).map(|i| (i, size))).map(|at| sums[at]).collect::<Vec<_>>()
    };
    moments.iter().flat_map(of)
}

/// At Alice: Bob's sums over each fold, without the weights', which both know.
pub(super) fn take_sums(size: usize, folds: usize, values: &[f64]) -> Result<Vec<DMatrix<f64>>, PeerFault> {
    let of = |values: &[f64]| {
        let mut next = values.iter().copied();
        let mut sums = DMatrix::zeros(size, size + 1);
        for i in 0..size {
            for j in i..size {
                sums[(i, j)] = next.next().unwrap_or_default();
                sums[(j, i)] = sums[(i, j)];
            }
        }
        for i in 0..size {
            sums[(i, size)] = next.next().unwrap_or_default();
        }
        sums
    };
    let all: Vec<DMatrix<f64>> = values.chunks_exact(fold_numbers(size)).map(of).collect();
    // The folds' rows together have the basis's mean squares: 1, and no products. No sum is above the root of a mean square times 1.
    let mut whole = -DMatrix::identity(size, size);
    all.iter().for_each(|sums| whole += sums.columns(0, size));
    let possible = |sums: &DMatrix<f64>| {
        let root = |j: usize| sums[(j, j)].max(0.0).sqrt();
        let within = |i: usize, j: usize| sums[(i, j)].abs() <= root(i) * root(j) + 1e-9;
        (0..size).all(|j| sums[(j, j)] >= -1e-9 && sums[(j, size)].abs() <= root(j) + 1e-9)
            && (0..size).all(|i| (0..size).all(|j| within(i, j)))
    };
    let sound = all.len() == folds && whole.iter().all(|entry| entry.abs() <= 1e-6) && all.iter().all(possible);
    match sound {
        true => Ok(all),
        false => Err(PeerFault::Value { what: "sums over the folds", expected: "those of one basis", round: 1 }),
    }
}

/// What Alice knows of each fold: sums of `[Q_a, e, Q_b, W^(1/2) 1]`, divided by the number of all rows.
pub(super) struct Sums(Vec<DMatrix<f64>>);

impl Sums {
    /// From her own sums, the tables that opened, and Bob's sums.
    pub(super) fn new(own: &[DMatrix<f64>], tables: &[DMatrix<f64>], theirs: &[DMatrix<f64>]) -> Sums {
        let of = |((own, table), theirs): ((&DMatrix<f64>, &DMatrix<f64>), &DMatrix<f64>)| {
            let (left, right) = table.shape();
            let last = left + right;
            let mut sums = DMatrix::zeros(last + 1, last + 1);
            sums.view_mut((0, 0), (left, left)).copy_from(&own.view((0, 0), (left, left)));
            sums.view_mut((0, left), (left, right)).copy_from(table);
            sums.view_mut((left, left), (right, right)).copy_from(&theirs.columns(0, right));
            sums.view_mut((0, last), (left, 1)).copy_from(&own.view((0, left), (left, 1)));
            sums.view_mut((left, last), (right, 1)).copy_from(&theirs.columns(right, 1));
            sums[(last, last)] = own[(left, left)];
            sums.fill_lower_triangle_with_upper_triangle();
            sums
        };
        Sums(own.iter().zip(tables).zip(theirs).map(of).collect())
    }

    /// For each of Bob's columns, R squared of what Alice's columns and the outcome say of it fold by fold, with an intercept in each.
    pub(super) fn shares_of_bob(&self, left: usize, factor: &DMatrix<f64>) -> Vec<f64> {
        let (right, last) = (factor.ncols(), left + factor.ncols());
        let known: Vec<usize> = (0..left).chain([last]).collect();
        let known = DMatrix::identity(last + 1, last + 1).select_columns(&known);
        let mut columns = DMatrix::zeros(last + 1, right);
        columns.rows_mut(left, right).copy_from(factor);
        self.shares(&known, &columns)
    }

    /// For each of Alice's columns, the same of what Bob's columns say of it, and the outcome where he holds it too.
    pub(super) fn shares_of_alice(&self, factor: &DMatrix<f64>, outcome: Option<&Outcome>) -> Vec<f64> {
        let mut known = self.known_to_bob(factor.ncols());
        if let Some(outcome) = outcome {
            known = known.insert_column(0, 0.0);
            known.column_mut(0).copy_from(&self.coordinates(outcome));
        }
        let mut columns = DMatrix::zeros(known.nrows(), factor.ncols());
        columns.rows_mut(0, factor.ncols()).copy_from(factor);
        self.shares(&known, &columns)
    }

    /// The same of the outcome on Bob's columns.
    pub(super) fn share_of_outcome(&self, outcome: &Outcome) -> f64 {
        let unit = if outcome.square > 0.0 { outcome.square.sqrt() } else { return 0.0 };
        let column = DMatrix::from_columns(&[self.coordinates(outcome) / unit]);
        self.shares(&self.known_to_bob(outcome.along.len()), &column).into_iter().sum()
    }

    /// The coordinates of Bob's columns, and of the intercept.
    fn known_to_bob(&self, left: usize) -> DMatrix<f64> {
        let size = self.0.first().map_or(0, DMatrix::ncols);
        let bobs: Vec<usize> = (left + 1..size).collect();
        DMatrix::identity(size, size).select_columns(&bobs)
    }

    /// Those of the outcome.
    fn coordinates(&self, outcome: &Outcome) -> DVector<f64> {
        let (left, size) = (outcome.along.len(), self.0.first().map_or(0, DMatrix::ncols));
        let mut all = DVector::zeros(size);
        all.rows_mut(0, left).copy_from(&outcome.along);
        all[left] = outcome.rest;
        all
    }

    /// R squared of columns of mean square 1 on known ones, fold by fold; both are given by their coordinates.
    fn shares(&self, known: &DMatrix<f64>, columns: &DMatrix<f64>) -> Vec<f64> {
        let mut rest = vec![0.0; columns.ncols()];
        for sums in &self.0 {
            let (across, own) = (known.tr_mul(sums) * columns, columns.tr_mul(sums) * columns);
            let within = Definite::from_gram_lifted(&(known.tr_mul(sums) * known));
            for (j, rest) in rest.iter_mut().enumerate() {
                let column = across.column(j).into_owned();
                *rest += (own[(j, j)] - within.solve(&column).dot(&column)).max(0.0);
            }
        }
        rest.into_iter().map(|rest| (1.0 - rest).clamp(0.0, 1.0)).collect()
    }
}

/// At Alice: the mean held-out error of each fold at each lambda, fold by fold.
pub(super) fn errors(
    work: &Work,
    table: &Table,
    sums: &Sums,
    theirs: &DMatrix<f64>,
    lambdas: &[f64],
) -> Result<Vec<f64>, Abort> {
    let (outcome, own) = (work.own.outcome.as_ref().ok_or_else(out_of_order)?, &work.own.factor);
    let (alice, bob) = (table.left(), theirs.ncols());
    let (size, alpha) = (alice + bob, terms(work)?.alpha);
    // Columns and outcome out of `[Q_a, e, Q_b]`.
    let mut map = DMatrix::zeros(size + 1, size + 1);
    map.view_mut((0, 0), (alice, alice)).copy_from(own);
    map.view_mut((alice + 1, alice), (bob, bob)).copy_from(theirs);
    map.view_mut((0, size), (alice, 1)).copy_from(&outcome.along);
    map[(alice, size)] = outcome.rest;
    let of = |sums: &DMatrix<f64>| Moments::new(sums, &map);
    let all = sums.0.iter().fold(DMatrix::zeros(size + 2, size + 2), |all, fold| all + fold);
    let mut errors = Vec::with_capacity(sums.0.len() * lambdas.len());
    for (number, fold) in sums.0.iter().enumerate() {
        let (all_weight, weight) = (all[(size + 1, size + 1)], fold[(size + 1, size + 1)]);
        if !(weight > 0.0 && weight < all_weight) {
            let fold = number + 1;
            return Err(Abort::Data(format!(
                "the weights are zero in fold {fold} of cross-validation, or outside of it"
            )));
        }
        let (held_out, kept) = (of(fold), of(&(&all - fold)));
        let centre = work.study.method.intercept;
        let problem = kept.problem(centre, alpha);
        for fit in problem.along(lambdas) {
            let mut direction = DVector::from_element(size + 1, 1.0);
            direction.rows_mut(0, size).copy_from(&-&fit.beta);
            let intercept = if centre { kept.mean.dot(&direction) } else { 0.0 };
            errors.push(held_out.error(&direction, intercept));
        }
    }
    Ok(errors)
}

/// Mean products and means of columns and outcome over some rows.
struct Moments {
    products: DMatrix<f64>,
    mean: DVector<f64>,
}

impl Moments {
    fn new(sums: &DMatrix<f64>, map: &DMatrix<f64>) -> Moments {
        let size = map.nrows();
        let weight = sums[(size, size)];
        let products = map.tr_mul(&sums.view((0, 0), (size, size))) * map / weight;
        let mean = map.tr_mul(&sums.view((0, size), (size, 1)).column(0)) / weight;
        Moments { products, mean }
    }

    /// The penalised fit to these rows, up to lambda.
    fn problem(&self, centre: bool, alpha: f64) -> Problem {
        let size = self.mean.len() - 1;
        let about = &self.products - &self.mean * self.mean.transpose();
        let used = if centre { &about } else { &self.products };
        let spread = used[(size, size)].max(0.0).sqrt();
        Problem {
            joint: used.view((0, 0), (size, size)).into_owned(),
            score: used.view((0, size), (size, 1)).column(0).into_owned(),
            // Columns are measured about their means whether or not there is an intercept.
            units: (0..size).map(|j| about[(j, j)].max(0.0).sqrt()).collect(),
            spread: if spread > 0.0 { spread } else { 1.0 },
            alpha,
        }
    }

    /// The mean square of `direction` times columns and outcome, less a number.
    fn error(&self, direction: &DVector<f64>, less: f64) -> f64 {
        let square = (&self.products * direction).dot(direction);
        let error = square - 2.0 * less * self.mean.dot(direction) + less * less;
        // No number stays none.
        if error < 0.0 { 0.0 } else { error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_in_the_order_of_their_folds() {
        let folds = Folds::new(&[2, 1, 3, 1, 2], 3);
        assert_eq!((folds.order.clone(), folds.parts.clone()), (vec![1, 3, 0, 4, 2], vec![0..2, 2..4, 4..5]));
        assert_eq!(folds.ordered(&[10.0, 20.0, 30.0, 40.0, 50.0]), [20.0, 40.0, 10.0, 50.0, 30.0]);
        let mut matrix = DMatrix::from_row_slice(5, 2, &[1.0, 6.0, 2.0, 7.0, 3.0, 8.0, 4.0, 9.0, 5.0, 10.0]);
        folds.arrange(&mut matrix);
        assert_eq!(matrix.as_slice(), [2.0, 4.0, 1.0, 5.0, 3.0, 7.0, 9.0, 6.0, 10.0, 8.0]);
    }

    #[test]
    fn sums_that_no_basis_can_have_are_refused() {
        // Two folds of one column: products and sums.
        let sound = [0.4, 0.1, 0.6, -0.1];
        let sums = take_sums(1, 2, &sound).unwrap();
        assert_eq!((sums[0][(0, 0)], sums[1][(0, 1)]), (0.4, -0.1));
        for (at, value) in [(0, 0.5), (0, f64::NAN), (0, -0.4), (1, 0.7), (3, f64::INFINITY)] {
            let mut values = sound;
            values[at] = value;
            assert!(matches!(take_sums(1, 2, &values), Err(PeerFault::Value { .. })), "{at} {value}");
        }
    }
}
