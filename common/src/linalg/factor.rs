//! R factors of tall matrices, in the memory of some of their rows.

use std::ops::Range;

use faer::MatRef;
use nalgebra::DMatrix;
use rayon::prelude::*;

use super::{BLOCK_ROWS, add_gram, divide_rows, split};

/// Rows that are divided by the factor together: small enough for their columns to stay in cache.
const PIECE_ROWS: usize = BLOCK_ROWS / 2;

/// Pieces that are taken in together, at most.
const RUN: usize = 16;

/// Rows with a factor of their own.
const PART_ROWS: usize = 128 * BLOCK_ROWS;

/// A run has at most so many times the rows of which the factor is known to hold what they say.
const GROWTH: usize = 8;

/// How far rows may go beyond the factor, in squares of its own unit, and how much of each column the ones before it must leave, for
/// them to be taken in by their inner products.
const BEYOND: f64 = 1e4;
const LEFT: f64 = 1e-2;

/// The R factor of a tall matrix that is handed over in blocks of rows: as accurate as a factorisation of the whole by Householder
/// reflections.
///
/// The first rows are reflected. Further rows `B` are divided by the factor `R` of those before, row by row and so backward stably, and
/// what comes out has inner products as harmless as those of orthogonal columns: with `Z = B R^-1` and `C'C = I + Z'Z` the factor of
/// all is `C R`. Cholesky's errors are those of the condition of `C`, which is small however near to dependent the columns are, as long as
/// the new rows say no more in any direction than the old ones. Where they do they are reflected too. (Yamamoto et al. 2015, ETNA 44,
/// who divide by a first factor of the same rows.)
#[derive(Clone)]
pub struct Triangle {
    columns: usize,
    pending: Vec<Piece>,
    pending_rows: usize,
    /// Room of pieces that were taken in, for further ones.
    room: Vec<Vec<f64>>,
    /// Rows that the factor is known to stand for.
    trusted: usize,
    r: DMatrix<f64>,
}

/// Some rows, column by column.
#[derive(Clone)]
struct Piece {
    rows: usize,
    values: Vec<f64>,
}

impl Triangle {
    /// For a matrix of a given number of columns.
    pub fn new(columns: usize) -> Triangle {
        Triangle {
            columns,
            pending: Vec::new(),
            pending_rows: 0,
            room: Vec::new(),
            trusted: 0,
            r: DMatrix::zeros(0, columns),
        }
    }

    /// Takes some rows in.
    pub fn push(&mut self, rows: DMatrix<f64>) {
        self.add(Piece { rows: rows.nrows(), values: rows.data.into() });
    }

    /// Takes a range of rows in, which `fill` appends column by column for a part of it.
    pub fn extend(&mut self, rows: Range<usize>, fill: impl Fn(Range<usize>, &mut Vec<f64>) + Sync) {
        let columns = self.columns;
        for run in split(rows, RUN * PIECE_ROWS) {
            let room = std::iter::from_fn(|| Some(self.room.pop().unwrap_or_default()));
            let pieces: Vec<(Range<usize>, Vec<f64>)> = split(run, PIECE_ROWS).zip(room).collect();
            let filled = pieces.into_par_iter().map(|(rows, mut values)| {
                values.clear();
                values.reserve(rows.len() * columns);
                fill(rows.clone(), &mut values);
                Piece { rows: rows.len(), values }
            });
            filled.collect::<Vec<Piece>>().into_iter().for_each(|piece| self.add(piece));
        }
    }

    fn add(&mut self, piece: Piece) {
        self.pending_rows += piece.rows;
        self.pending.push(piece);
        let due = match self.trusted {
            // A few blocks at once: the reflections of R's own rows are then a small part of the work.
            0 => 4 * self.columns.max(BLOCK_ROWS / 4),
            trusted => (GROWTH * trusted).min(RUN * PIECE_ROWS),
        };
        if self.pending_rows >= due {
            self.reduce();
        }
    }

    fn reduce(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        let rows = std::mem::take(&mut self.pending_rows);
        if rows == 0 {
            return;
        }
        let joined = if self.trusted > 0 { self.joined(&pending) } else { None };
        match joined {
            Some(r) => {
                self.r = r;
                self.trusted = self.trusted.saturating_add(rows);
            }
            None => self.reflect(&pending),
        }
        let room = RUN.saturating_sub(self.room.len());
        self.room.extend(pending.into_iter().take(room).map(|piece| piece.values));
    }

    /// The factor with these rows; none where they are to be reflected.
    fn joined(&self, pieces: &[Piece]) -> Option<DMatrix<f64>> {
        let p = self.columns;
        let (divisor, factor) = self.divisor(pieces)?;
        let grams: Vec<DMatrix<f64>> = pieces
            .par_iter()
            .map_init(Vec::new, |divided: &mut Vec<f64>, piece| {
                divided.clear();
                divided.extend_from_slice(&piece.values);
                divide_rows(divided, &divisor);
                let mut gram = DMatrix::zeros(p, p);
                add_gram(&mut gram, MatRef::from_column_major_slice(divided, piece.rows, p));
                gram
            })
            .collect();
        let mut sum = grams.into_iter().fold(DMatrix::zeros(p, p), |sum, gram| sum + gram);
        for j in 0..p {
            if !(sum[(j, j)] <= BEYOND) {
                return None;
            }
            sum[(j, j)] += 1.0;
        }
        let lengths: Vec<f64> = sum.diagonal().iter().copied().collect();
        // Reads the lower triangle.
        let change = sum.cholesky()?.unpack();
        let left = lengths.iter().enumerate().all(|(j, length)| change[(j, j)].powi(2) >= LEFT * length);
        left.then(|| (change.transpose() * factor).upper_triangle())
    }

    /// What rows are divided by, and the factor that goes with it: pivots that are less than rounding of their column are rounding of it,
    /// and a column of zeros stays one. None where it does not, and where squares of a column are too small to be told from zero.
    fn divisor(&self, pieces: &[Piece]) -> Option<(DMatrix<f64>, DMatrix<f64>)> {
        let (mut divisor, mut factor) = (self.r.clone(), self.r.clone());
        for j in 0..self.columns {
            let norm = self.r.column(j).norm();
            if norm == 0.0 {
                let zeros = |piece: &Piece| piece.values[j * piece.rows..][..piece.rows].iter().all(|x| *x == 0.0);
                (self.r.column(j).amax() == 0.0 && pieces.iter().all(zeros)).then_some(())?;
                divisor[(j, j)] = 1.0;
            } else if !(self.r[(j, j)].abs() >= f64::EPSILON * norm) {
                divisor[(j, j)] = f64::EPSILON * norm;
                factor[(j, j)] = f64::EPSILON * norm;
            }
        }
        Some((divisor, factor))
    }

    /// Takes rows in by reflections.
    fn reflect(&mut self, pieces: &[Piece]) {
        let most = 4 * self.columns.max(BLOCK_ROWS / 4);
        let mut at = 0;
        while at < pieces.len() {
            let (mut end, mut rows) = (at, 0);
            while end < pieces.len() && (end == at || rows < most) {
                rows += pieces[end].rows;
                end += 1;
            }
            let mut stacked = DMatrix::zeros(self.r.nrows() + rows, self.columns);
            let mut start = self.r.nrows();
            stacked.rows_mut(0, start).copy_from(&self.r);
            for piece in &pieces[at..end] {
                let values = nalgebra::DMatrixView::from_slice(&piece.values, piece.rows, self.columns);
                stacked.rows_mut(start, piece.rows).copy_from(&values);
                start += piece.rows;
            }
            self.r = upper_factor(&stacked);
            // What comes next is as likely to be new: the factor is tried on few rows before it is on many.
            self.trusted = if self.r.nrows() == self.columns { rows } else { 0 };
            at = end;
        }
    }

    /// The R factor: `k x columns`, upper trapezoidal, `k` the smaller of rows and columns seen.
    pub fn finish(mut self) -> DMatrix<f64> {
        self.reduce();
        self.r
    }
}

/// The R factor of `columns` columns that `fill` appends for a range of rows, column by column, in parallel over fixed parts.
pub fn packed_factor(rows: usize, columns: usize, fill: impl Fn(Range<usize>, &mut Vec<f64>) + Sync) -> DMatrix<f64> {
    let parts: Vec<Range<usize>> = split(0..rows, PART_ROWS).collect();
    let factors: Vec<DMatrix<f64>> = parts
        .into_par_iter()
        .map(|part| {
            let mut triangle = Triangle::new(columns);
            triangle.extend(part, &fill);
            triangle.finish()
        })
        .collect();
    let mut all = Triangle::new(columns);
    factors.into_iter().for_each(|factor| all.push(factor));
    all.finish()
}

/// The R factor of `[W^1/2 X]` for an `n x p` matrix, in parallel over fixed parts.
pub fn weighted_factor(x: &DMatrix<f64>, weights: Option<&[f64]>) -> DMatrix<f64> {
    packed_factor(x.nrows(), x.ncols(), |rows, out| {
        let roots: Option<Vec<f64>> = weights.map(|weights| weights[rows.clone()].iter().map(|w| w.sqrt()).collect());
        for column in x.column_iter() {
            let values = &column.as_slice()[rows.clone()];
            match &roots {
                None => out.extend_from_slice(values),
                Some(roots) => super::kernels::append_scaled(out, values, roots),
            }
        }
    })
}

/// The R factor of a matrix, `min(m, n) x n`.
pub fn upper_factor(a: &DMatrix<f64>) -> DMatrix<f64> {
    let (rows, columns) = a.shape();
    if rows == 0 || columns == 0 {
        return DMatrix::zeros(0, columns);
    }
    let qr = MatRef::from_column_major_slice(a.as_slice(), rows, columns).qr();
    let r = qr.thin_R();
    DMatrix::from_fn(rows.min(columns), columns, |i, j| if i <= j { r[(i, j)] } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn random(rows: usize, columns: usize, seed: u64) -> DMatrix<f64> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        DMatrix::from_fn(rows, columns, |_, _| rng.random_range(-1.0..1.0))
    }

    /// How far `(X R^-1)'(X R^-1)` is from the identity, with `X R^-1` row by row: what a factor of `X` has to make small.
    fn deviation(x: &DMatrix<f64>, r: &DMatrix<f64>) -> f64 {
        let p = x.ncols();
        let mut divided = x.as_slice().to_vec();
        divide_rows(&mut divided, r);
        let divided = DMatrix::from_vec(x.nrows(), p, divided);
        (divided.transpose() * &divided - DMatrix::identity(p, p)).amax()
    }

    /// Refuses a factor that is worse than one of all rows at once.
    fn is_as_by_reflections(x: &DMatrix<f64>) {
        let (by_parts, by_reflections) = (deviation(x, &weighted_factor(x, None)), deviation(x, &upper_factor(x)));
        assert!(by_parts <= 8.0 * by_reflections + 1e-12, "{by_parts} {by_reflections}");
    }

    #[test]
    fn columns_that_nearly_depend_on_each_other_have_a_factor_with_all_its_digits() {
        let n = 60_000;
        for (share, seed) in [(1e-3, 1), (1e-6, 2), (1e-9, 3)] {
            let mut x = random(n, 6, seed);
            // Columns of very different lengths, two of them alike but for a share, one with a large mean.
            let near = x.column(0) * 3.0 - x.column(1) + x.column(2) * share;
            x.set_column(2, &near);
            x.column_mut(3).scale_mut(1e8);
            x.column_mut(4).add_scalar_mut(1e4);
            is_as_by_reflections(&x);
        }
    }

    #[test]
    fn rows_that_say_something_new_are_taken_in_wherever_they_stand() {
        let n = 40_000;
        let mut x = random(n, 8, 4);
        // Nothing but zeros at first; at the end only; in one row; in a few rows far from each other; huge in some rows.
        (0..n / 2).for_each(|i| x[(i, 1)] = 0.0);
        (0..n - 3).for_each(|i| x[(i, 2)] = 0.0);
        (0..n).for_each(|i| x[(i, 3)] = f64::from(u8::from(i == 17_771)));
        (0..n).for_each(|i| x[(i, 4)] = f64::from(u8::from(i % 9973 == 5)));
        (20_000..20_100).for_each(|i| x[(i, 5)] *= 1e9);
        // Depends on others until the middle.
        let sum = x.column(0) + x.column(6);
        (0..n / 2).for_each(|i| x[(i, 7)] = sum[i]);
        is_as_by_reflections(&x);
    }

    #[test]
    fn columns_that_depend_on_others_have_pivots_of_the_size_of_rounding() {
        let n = 50_000;
        let mut x = random(n, 5, 5);
        let sum = x.column(0) * 2.0 - x.column(1);
        x.set_column(2, &sum);
        x.column_mut(3).fill(0.0);
        let r = weighted_factor(&x, None);
        assert!(r[(2, 2)].abs() < 1e-12 * r.column(2).norm(), "{r}");
        assert_eq!(r.column(3).norm(), 0.0);
        let (gram, expected) = (r.transpose() * &r, x.transpose() * &x);
        assert!((gram - &expected).amax() < 1e-12 * expected.amax());
    }

    proptest! {
        #[test]
        fn a_factor_does_not_depend_on_how_rows_are_handed_over(
            rows in 0_usize..6000, columns in 1_usize..6, size in 1_usize..3000, seed in 0_u64..100
        ) {
            let x = random(rows, columns, seed);
            let mut triangle = Triangle::new(columns);
            split(0..rows, size).for_each(|part| triangle.push(x.rows(part.start, part.len()).into_owned()));
            let r = triangle.finish();
            prop_assert_eq!(r.nrows(), rows.min(columns));
            let expected = x.transpose() * &x;
            prop_assert!((r.transpose() * &r - &expected).amax() <= 1e-12 * expected.amax().max(1e-300));
        }
    }
}
