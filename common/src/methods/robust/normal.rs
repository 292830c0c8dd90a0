//! Least squares on a changing set of rows: cross products that are updated by the rows that enter or leave.

use std::borrow::Cow;

use faer::linalg::matmul::triangular::{self, BlockStructure};
use faer::linalg::solvers::Solve;
use faer::{Accum, Mat, MatMut, MatRef, Par, Side};
use nalgebra::{DMatrix, DVector};

/// A pivot below this share of its column's squared norm counts as dependence: one part in 10^6 of the norm.
const PIVOT_FLOOR: f64 = 1e-12;
/// Removing rows that outweigh the remaining ones by this factor would leave mostly rounding, so start afresh instead.
const CANCELLATION: f64 = 1e3;
/// Rows that are copied at a time, so that memory does not grow with the batch.
const COPY_ROWS: usize = 1024;

/// A batch as the solvers see it: `n x p` features, outcome, an optional leading intercept, optional row weights.
///
/// With an intercept, columns that lie far from zero are shifted first: their cross products would otherwise lose the
/// digits in which the rows differ. Coefficients and Gram are shifted back on the way out.
pub(super) struct Rows<'a> {
    x: Cow<'a, DMatrix<f64>>,
    y: Cow<'a, DVector<f64>>,
    intercept: bool,
    weights: Option<Vec<f64>>,
    shifts: Vec<f64>,
    y_shift: f64,
}

/// Where a number lies near the middle of a column, from a few rows; exactness does not matter, any shift is undone.
fn far_from_zero(column: &[f64]) -> Option<f64> {
    let step = column.len().div_ceil(31).max(1);
    let mut few: Vec<f64> = column.iter().step_by(step).copied().collect();
    few.sort_unstable_by(f64::total_cmp);
    let middle = *few.get(few.len() / 2)?;
    let spread = few[few.len() * 3 / 4] - few[few.len() / 4];
    (middle.abs() > 4.0 * spread && middle != 0.0).then_some(middle)
}

impl<'a> Rows<'a> {
    pub(super) fn new(x: &'a DMatrix<f64>, y: &'a DVector<f64>, intercept: bool) -> Self {
        let mut rows = Rows {
            x: Cow::Borrowed(x),
            y: Cow::Borrowed(y),
            intercept,
            weights: None,
            shifts: vec![0.0; x.ncols()],
            y_shift: 0.0,
        };
        if intercept {
            for (j, shift) in rows.shifts.iter_mut().enumerate() {
                if let Some(middle) = far_from_zero(&x.as_slice()[j * x.nrows()..(j + 1) * x.nrows()])
                    && x.column(j).iter().any(|v| *v != middle)
                {
                    *shift = middle;
                    rows.x.to_mut().column_mut(j).add_scalar_mut(-middle);
                }
            }
            if let Some(middle) = far_from_zero(y.as_slice()) {
                rows.y_shift = middle;
                rows.y.to_mut().add_scalar_mut(-middle);
            }
        }
        rows
    }

    pub(super) fn len(&self) -> usize {
        self.x.nrows()
    }

    pub(super) fn has_intercept(&self) -> bool {
        self.intercept
    }

    /// The features after any shift.
    pub(super) fn features(&self) -> &DMatrix<f64> {
        &self.x
    }

    /// The outcome after any shift.
    pub(super) fn outcome(&self) -> &[f64] {
        self.y.as_slice()
    }

    /// Number of coefficients, the intercept included.
    pub(super) fn width(&self) -> usize {
        self.x.ncols() + usize::from(self.intercept)
    }

    /// The same rows, each to count `weights[i]` times in every sum of squares.
    pub(super) fn weighted(&self, weights: Vec<f64>) -> Rows<'_> {
        Rows {
            x: Cow::Borrowed(&self.x),
            y: Cow::Borrowed(&self.y),
            intercept: self.intercept,
            weights: Some(weights),
            shifts: self.shifts.clone(),
            y_shift: self.y_shift,
        }
    }

    pub(super) fn weights(&self) -> Option<&[f64]> {
        self.weights.as_deref()
    }

    /// A copy of some rows, without weights.
    pub(super) fn select(&self, rows: &[usize]) -> Rows<'static> {
        Rows {
            x: Cow::Owned(self.x.select_rows(rows)),
            y: Cow::Owned(self.y.select_rows(rows)),
            intercept: self.intercept,
            weights: None,
            shifts: self.shifts.clone(),
            y_shift: self.y_shift,
        }
    }

    /// Absolute size below which a residual of this outcome is rounding.
    pub(super) fn rounding(&self) -> f64 {
        8.0 * f64::EPSILON * self.y_shift.abs()
    }

    /// `out = y - Z beta`, Z being the features with their intercept. Four columns at a time, so that `out` is read and
    /// written a quarter as often.
    pub(super) fn residuals(&self, beta: &[f64], out: &mut Vec<f64>) {
        let n = self.len();
        out.clear();
        let (start, slopes) = if self.intercept { (beta[0], &beta[1..]) } else { (0.0, beta) };
        out.extend(self.y.iter().map(|y| y - start));
        if n == 0 {
            return;
        }
        let columns = self.x.as_slice();
        let mut groups = columns.chunks_exact(4 * n);
        let mut coefficients = slopes.chunks_exact(4);
        for (block, b) in (&mut groups).zip(&mut coefficients) {
            let (c0, rest) = block.split_at(n);
            let (c1, rest) = rest.split_at(n);
            let (c2, c3) = rest.split_at(n);
            for ((((r, a0), a1), a2), a3) in out.iter_mut().zip(c0).zip(c1).zip(c2).zip(c3) {
                *r -= (a0 * b[0] + a1 * b[1]) + (a2 * b[2] + a3 * b[3]);
            }
        }
        for (column, b) in groups.remainder().chunks_exact(n).zip(coefficients.remainder()) {
            for (r, a) in out.iter_mut().zip(column) {
                *r -= a * b;
            }
        }
    }

    /// `Z' v` for a vector over the rows.
    pub(super) fn project(&self, v: &[f64]) -> Vec<f64> {
        let n = self.len();
        let mut out = Vec::with_capacity(self.width());
        if self.intercept {
            out.push(v.iter().sum());
        }
        let mut product = vec![0.0; self.x.ncols()];
        transposed_product(self.x.as_slice(), v, n, &mut product);
        out.extend(product);
        out
    }

    /// Coefficients in the units of the data, any shift undone.
    pub(super) fn unshift_coefficients(&self, mut beta: Vec<f64>) -> DVector<f64> {
        if self.intercept {
            let moved: f64 = self.shifts.iter().zip(&beta[1..]).map(|(s, b)| s * b).sum();
            beta[0] += self.y_shift - moved;
        }
        DVector::from_vec(beta)
    }

    /// Gram in the units of the data, any shift undone.
    pub(super) fn unshift_gram(&self, mut gram: DMatrix<f64>) -> DMatrix<f64> {
        if !self.intercept || self.shifts.iter().all(|s| *s == 0.0) {
            return gram;
        }
        // Column j of the data is column j here plus shift times the intercept: apply it on both sides.
        for (j, s) in self.shifts.iter().enumerate() {
            let first = gram.column(0).clone_owned();
            gram.column_mut(j + 1).axpy(*s, &first, 1.0);
        }
        for (j, s) in self.shifts.iter().enumerate() {
            let first = gram.row(0).clone_owned();
            let mut row = gram.row_mut(j + 1);
            row += first * *s;
        }
        gram
    }
}

/// `left' right` for column-major `left` (n x k) and `right` (n x m), written column by column.
pub(super) fn transposed_product(left: &[f64], right: &[f64], n: usize, out: &mut [f64]) {
    let (k, m) = (left.len() / n.max(1), right.len() / n.max(1));
    faer::linalg::matmul::matmul(
        MatMut::from_column_major_slice_mut(out, k, m),
        Accum::Replace,
        MatRef::from_column_major_slice(left, n, k).transpose(),
        MatRef::from_column_major_slice(right, n, m),
        1.0,
        Par::Seq,
    );
}

/// `Z Z'`.
pub(super) fn outer_square(z: &DMatrix<f64>) -> DMatrix<f64> {
    let (q, m) = z.shape();
    let mut out = DMatrix::zeros(q, q);
    let view = MatRef::from_column_major_slice(z.as_slice(), q, m);
    faer::linalg::matmul::matmul(
        MatMut::from_column_major_slice_mut(out.as_mut_slice(), q, q),
        Accum::Replace,
        view,
        view.transpose(),
        1.0,
        Par::Seq,
    );
    out
}

/// Lower triangle of the weighted cross products of `[1 | X | y]` over some rows.
#[derive(Clone)]
pub(super) struct Cross {
    moments: Mat<f64>,
    intercept: bool,
}

/// The first column that depends on those before it; counts the intercept, if there is one, as column 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dependent(pub(super) usize);

impl Cross {
    /// Over all rows.
    pub(super) fn of_all(rows: &Rows<'_>) -> Self {
        if rows.weights.is_some() {
            return Cross::of(rows, &(0..rows.len()).collect::<Vec<_>>());
        }
        let (n, p) = (rows.len(), rows.x.ncols());
        let mut cross = Cross::zero(rows);
        let at = usize::from(rows.intercept);
        let x = MatRef::from_column_major_slice(rows.x.as_slice(), n, p);
        triangular::matmul(
            cross.moments.as_mut().submatrix_mut(at, at, p, p),
            BlockStructure::TriangularLower,
            Accum::Replace,
            x.transpose(),
            BlockStructure::Rectangular,
            x,
            BlockStructure::Rectangular,
            1.0,
            Par::Seq,
        );
        let last = at + p;
        for (j, v) in rows.project(rows.outcome()).into_iter().enumerate() {
            cross.moments[(last, j)] = v;
        }
        cross.moments[(last, last)] = rows.outcome().iter().map(|y| y * y).sum();
        if rows.intercept {
            for (j, v) in rows.project(&vec![1.0; n]).into_iter().enumerate() {
                cross.moments[(j, 0)] = v;
            }
        }
        cross
    }

    /// Over the listed rows.
    pub(super) fn of(rows: &Rows<'_>, listed: &[usize]) -> Self {
        let mut cross = Cross::zero(rows);
        cross.add(rows, listed, 1.0);
        cross
    }

    fn zero(rows: &Rows<'_>) -> Self {
        let size = rows.width() + 1;
        Cross { moments: Mat::zeros(size, size), intercept: rows.intercept }
    }

    /// Adds (`sign` = 1) or takes away (`sign` = -1) the listed rows.
    fn add(&mut self, rows: &Rows<'_>, listed: &[usize], sign: f64) {
        let size = self.moments.nrows();
        let mut copy = Vec::new();
        for chunk in listed.chunks(COPY_ROWS) {
            let k = chunk.len();
            copy.clear();
            copy.reserve(k * size);
            if self.intercept {
                copy.resize(k, 1.0);
            }
            for column in rows.x.as_slice().chunks_exact(rows.len()) {
                copy.extend(chunk.iter().map(|&i| column[i]));
            }
            copy.extend(chunk.iter().map(|&i| rows.y[i]));
            if let Some(weights) = &rows.weights {
                let roots: Vec<f64> = chunk.iter().map(|&i| weights[i].sqrt()).collect();
                for column in copy.chunks_exact_mut(k) {
                    column.iter_mut().zip(&roots).for_each(|(v, w)| *v *= w);
                }
            }
            let block = MatRef::from_column_major_slice(&copy, k, size);
            triangular::matmul(
                self.moments.as_mut(),
                BlockStructure::TriangularLower,
                Accum::Add,
                block.transpose(),
                BlockStructure::Rectangular,
                block,
                BlockStructure::Rectangular,
                sign,
                Par::Seq,
            );
        }
    }

    /// Moves from the rows marked in `from` to those marked in `to`, by whichever touches fewer rows: the ones that
    /// change, or all of `to`.
    pub(super) fn moved(self, rows: &Rows<'_>, from: &[bool], to: &[bool]) -> Self {
        let listed = |keep: &dyn Fn(bool, bool) -> bool| -> Vec<usize> {
            from.iter().zip(to).enumerate().filter(|(_, (f, t))| keep(**f, **t)).map(|(i, _)| i).collect()
        };
        let leaving = listed(&|f, t| f && !t);
        let entering = listed(&|f, t| t && !f);
        let wanted = to.iter().filter(|t| **t).count();
        if leaving.len() + entering.len() >= wanted {
            return Cross::of(rows, &listed(&|_, t| t));
        }
        let before: Vec<f64> = (0..self.moments.nrows()).map(|j| self.moments[(j, j)]).collect();
        let mut moved = self;
        moved.add(rows, &leaving, -1.0);
        moved.add(rows, &entering, 1.0);
        let lost_digits = before.iter().enumerate().any(|(j, b)| moved.moments[(j, j)] * CANCELLATION < *b);
        if lost_digits { Cross::of(rows, &listed(&|_, t| t)) } else { moved }
    }

    fn width(&self) -> usize {
        self.moments.nrows() - 1
    }

    /// Sum of squares of the outcome.
    #[cfg(test)]
    pub(super) fn outcome_square(&self) -> f64 {
        self.moments[(self.width(), self.width())]
    }

    pub(super) fn gram(&self) -> DMatrix<f64> {
        let q = self.width();
        DMatrix::from_fn(q, q, |i, j| self.moments[(i.max(j), i.min(j))])
    }

    /// Factorises the Gram, each column scaled to length one.
    pub(super) fn factor(&self) -> Result<Factor, Dependent> {
        let q = self.width();
        Factor::new(q, |i, j| self.moments[(i, j)])
    }

    /// Least squares on the rows summed here.
    pub(super) fn solve(&self) -> Result<Vec<f64>, Dependent> {
        let q = self.width();
        Ok(self.factor()?.solve((0..q).map(|j| self.moments[(q, j)]).collect()))
    }
}

/// Cholesky factor of a positive definite matrix scaled to a unit diagonal.
pub(super) struct Factor {
    llt: faer::linalg::solvers::Llt<f64>,
    scales: Vec<f64>,
}

impl Factor {
    /// Factorises the matrix whose lower triangle is `entry(i, j)`, i >= j.
    pub(super) fn new(size: usize, entry: impl Fn(usize, usize) -> f64) -> Result<Self, Dependent> {
        let mut scales = Vec::with_capacity(size);
        for j in 0..size {
            let d = entry(j, j);
            if !(d > 0.0 && d.is_finite()) {
                return Err(Dependent(j));
            }
            scales.push(d.sqrt().recip());
        }
        let scaled = Mat::from_fn(size, size, |i, j| if i >= j { entry(i, j) * scales[i] * scales[j] } else { 0.0 });
        match scaled.llt(Side::Lower) {
            Ok(llt) => {
                let l = llt.L();
                // A comparison that NaN fails, too.
                match (0..size).find(|&j| !(l[(j, j)] * l[(j, j)] >= PIVOT_FLOOR)) {
                    Some(j) => Err(Dependent(j)),
                    None => Ok(Factor { llt, scales }),
                }
            }
            Err(_) => Err(Dependent(first_small_pivot(scaled))),
        }
    }

    pub(super) fn solve(&self, mut rhs: Vec<f64>) -> Vec<f64> {
        rhs.iter_mut().zip(&self.scales).for_each(|(v, s)| *v *= s);
        let n = rhs.len();
        self.llt.solve_in_place(MatMut::from_column_major_slice_mut(&mut rhs, n, 1));
        rhs.iter_mut().zip(&self.scales).for_each(|(v, s)| *v *= s);
        rhs
    }
}

impl Factor {
    /// Squared distance of each row of `z` (n x size) from zero in the metric of the factorised matrix's inverse.
    pub(super) fn distances(&self, z: &DMatrix<f64>) -> Vec<f64> {
        let (n, size) = z.shape();
        let mut white = z.clone_owned();
        for (mut column, s) in white.column_iter_mut().zip(&self.scales) {
            column *= *s;
        }
        faer::linalg::triangular_solve::solve_lower_triangular_in_place(
            self.llt.L(),
            MatMut::from_column_major_slice_mut(white.as_mut_slice(), n, size).transpose_mut(),
            Par::Seq,
        );
        let mut distances = vec![0.0; n];
        for column in white.column_iter() {
            distances.iter_mut().zip(column.iter()).for_each(|(d, v)| *d += v * v);
        }
        distances
    }
}

/// The column at which a plain Cholesky meets its first pivot below the floor.
fn first_small_pivot(mut a: Mat<f64>) -> usize {
    let n = a.nrows();
    for k in 0..n {
        let pivot = a[(k, k)];
        if !(pivot >= PIVOT_FLOOR) {
            return k;
        }
        for j in k + 1..n {
            let factor = a[(j, k)] / pivot;
            for i in j..n {
                a[(i, j)] -= factor * a[(i, k)];
            }
        }
    }
    n - 1
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn table(n: usize, p: usize, seed: u64) -> (DMatrix<f64>, DVector<f64>) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        (DMatrix::from_fn(n, p, |_, _| rng.random::<f64>() - 0.5), DVector::from_fn(n, |_, _| rng.random()))
    }

    #[test]
    fn moving_between_row_sets_gives_the_cross_products_of_the_new_set() {
        let (x, y) = table(200, 6, 1);
        for intercept in [false, true] {
            let rows = Rows::new(&x, &y, intercept);
            let mut rng = ChaCha8Rng::seed_from_u64(2);
            let mut from = vec![true; 200];
            let mut cross = Cross::of_all(&rows);
            for share in [0.9, 0.85, 0.3, 0.95] {
                let to: Vec<bool> = from.iter().map(|_| rng.random::<f64>() < share).collect();
                cross = cross.moved(&rows, &from, &to);
                let fresh = Cross::of(&rows, &(0..200).filter(|&i| to[i]).collect::<Vec<_>>());
                assert!((cross.gram() - fresh.gram()).amax() < 1e-12);
                assert!((cross.outcome_square() - fresh.outcome_square()).abs() < 1e-12);
                from = to;
            }
        }
    }

    #[test]
    fn rows_that_dwarf_the_others_leave_no_rounding_behind() {
        let (mut x, y) = table(100, 3, 3);
        x.row_mut(7).fill(1e9);
        let rows = Rows::new(&x, &y, false);
        let mut without = vec![true; 100];
        without[7] = false;
        let moved = Cross::of_all(&rows).moved(&rows, &[true; 100], &without);
        let fresh = Cross::of(&rows, &(0..100).filter(|&i| i != 7).collect::<Vec<_>>());
        assert!((moved.gram() - fresh.gram()).amax() < 1e-12);
    }

    #[test]
    fn residuals_and_projections_agree_with_the_plain_products() {
        for p in [1, 3, 4, 9] {
            let (x, y) = table(50, p, 4);
            let rows = Rows::new(&x, &y, true);
            let beta: Vec<f64> = (0..=p).map(|j| j as f64 - 1.5).collect();
            let mut r = Vec::new();
            rows.residuals(&beta, &mut r);
            let plain = &y - &x * DVector::from_row_slice(&beta[1..]) - DVector::from_element(50, beta[0]);
            let r = DVector::from_vec(r);
            assert!((&r - &plain).amax() < 1e-12);
            let projected = rows.project(r.as_slice());
            assert!((projected[0] - plain.sum()).abs() < 1e-12);
            assert!((DVector::from_row_slice(&projected[1..]) - x.transpose() * plain).amax() < 1e-12);
        }
    }

    #[test]
    fn the_first_dependent_column_is_named() {
        let (mut x, y) = table(60, 5, 5);
        let sum = x.column(0) * 2.0 - x.column(2);
        x.set_column(3, &sum);
        assert_eq!(Cross::of_all(&Rows::new(&x, &y, false)).factor().err(), Some(Dependent(3)));
        assert_eq!(Cross::of_all(&Rows::new(&x, &y, true)).factor().err(), Some(Dependent(4)));
        x.column_mut(1).fill(0.0);
        assert_eq!(Cross::of_all(&Rows::new(&x, &y, false)).factor().err(), Some(Dependent(1)));
        x.column_mut(1).fill(7.0);
        assert_eq!(Cross::of_all(&Rows::new(&x, &y, true)).factor().err(), Some(Dependent(2)));
    }

    #[test]
    fn a_shifted_gram_comes_back_in_the_units_of_the_data() {
        let (mut x, y) = table(40, 3, 6);
        x.column_mut(1).add_scalar_mut(500.0);
        let rows = Rows::new(&x, &y, true);
        assert!(rows.shifts[1] != 0.0, "the column must have been shifted for this test to say anything");
        let z = x.clone().insert_column(0, 1.0);
        let gram = rows.unshift_gram(Cross::of_all(&rows).gram());
        assert!((gram - z.transpose() * z).amax() < 1e-6);
    }
}
