//! The one door to factorisations and big products.
//!
//! nalgebra's matrices stand at every surface; faer works here, on the same memory. Sums over rows are split into parts
//! of a fixed size and added in order, so that results are the same bits on any number of threads.

use std::ops::Range;

use faer::linalg::matmul::matmul;
use faer::linalg::matmul::triangular::{self, BlockStructure};
use faer::linalg::triangular_solve::solve_lower_triangular_in_place;
use faer::{Accum, MatMut, MatRef, Par};
use nalgebra::{DMatrix, DVector};
use rayon::prelude::*;

mod estimate;
mod factor;
mod functions;
pub mod kernels;
mod values;

pub use self::estimate::SomeRows;
pub use self::factor::{Triangle, packed_factor, upper_factor, weighted_factor};
pub use self::values::{Spares, Values};

/// Rows that one step of a pass over the data takes together: small enough for a block of columns to stay in cache.
pub const BLOCK_ROWS: usize = 1024;

/// Rows of one part of a sum that runs in parallel.
const PART_ROWS: usize = 32 * BLOCK_ROWS;

/// A column counts as dependent when the part of it that earlier columns do not explain is below this share of its
/// length.
pub const DEPENDENCE: f64 = 1e-10;

/// `X' W X` for an `n x p` matrix and `n` weights, or `X' X`.
pub fn gram(x: &DMatrix<f64>, weights: Option<&[f64]>) -> DMatrix<f64> {
    let p = x.ncols();
    let parts: Vec<DMatrix<f64>> = parts(x.nrows())
        .into_par_iter()
        .map(|part| {
            let mut sum = DMatrix::zeros(p, p);
            let (mut scaled, mut roots) = (Vec::new(), Vec::new());
            for rows in blocks(part) {
                match weights {
                    None => add_gram(&mut sum, rows_of(x, rows)),
                    Some(weights) => {
                        scaled.clear();
                        roots.clear();
                        roots.extend(weights[rows.clone()].iter().map(|w| w.sqrt()));
                        for column in x.column_iter() {
                            kernels::append_scaled(&mut scaled, &column.as_slice()[rows.clone()], &roots);
                        }
                        add_gram(&mut sum, MatRef::from_column_major_slice(&scaled, rows.len(), p));
                    }
                }
            }
            sum
        })
        .collect();
    let mut sum = parts.into_iter().fold(DMatrix::zeros(p, p), |sum, part| sum + part);
    sum.fill_upper_triangle_with_lower_triangle();
    sum
}

/// The Gram matrix of `columns` columns that `fill` appends for a range of rows, column by column.
pub fn packed_gram(rows: usize, columns: usize, fill: impl Fn(Range<usize>, &mut Vec<f64>) + Sync) -> DMatrix<f64> {
    let parts: Vec<DMatrix<f64>> = parts(rows)
        .into_par_iter()
        .map(|part| {
            let mut sum = DMatrix::zeros(columns, columns);
            let mut packed = Vec::new();
            for rows in blocks(part) {
                packed.clear();
                fill(rows.clone(), &mut packed);
                add_gram(&mut sum, MatRef::from_column_major_slice(&packed, rows.len(), columns));
            }
            sum
        })
        .collect();
    let mut sum = parts.into_iter().fold(DMatrix::zeros(columns, columns), |sum, part| sum + part);
    sum.fill_upper_triangle_with_lower_triangle();
    sum
}

/// Parts of `0..rows` whose borders do not depend on the number of threads.
pub fn parts(rows: usize) -> Vec<Range<usize>> {
    split(0..rows, PART_ROWS).collect()
}

/// Steps of a part, [`BLOCK_ROWS`] at a time.
pub fn blocks(part: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    split(part, BLOCK_ROWS)
}

fn split(all: Range<usize>, size: usize) -> impl Iterator<Item = Range<usize>> {
    let end = all.end;
    all.step_by(size).map(move |start| start..(start + size).min(end))
}

fn rows_of(x: &DMatrix<f64>, rows: Range<usize>) -> MatRef<'_, f64> {
    MatRef::from_column_major_slice(x.as_slice(), x.nrows(), x.ncols()).subrows(rows.start, rows.len())
}

/// Adds `A' A` to the lower triangle of `sum`.
fn add_gram(sum: &mut DMatrix<f64>, a: MatRef<'_, f64>) {
    add_lower_product(sum, a, a);
}

/// Adds the lower triangle of `A' B` to that of `sum`.
fn add_lower_product(sum: &mut DMatrix<f64>, a: MatRef<'_, f64>, b: MatRef<'_, f64>) {
    let p = sum.ncols();
    triangular::matmul(
        MatMut::from_column_major_slice_mut(sum.as_mut_slice(), p, p),
        BlockStructure::TriangularLower,
        Accum::Add,
        a.transpose(),
        BlockStructure::Rectangular,
        b,
        BlockStructure::Rectangular,
        1.0,
        Par::Seq,
    );
}

/// Adds `A' B` to a column-major `p x q` matrix, for column-major blocks of `rows` rows. In integers below 2^53 it is exact.
pub fn add_cross_product(sum: &mut [f64], a: &[f64], b: &[f64], rows: usize) {
    if rows == 0 || sum.is_empty() {
        return;
    }
    let (p, q) = (a.len() / rows, b.len() / rows);
    matmul(
        MatMut::from_column_major_slice_mut(sum, p, q),
        Accum::Add,
        MatRef::from_column_major_slice(a, rows, p).transpose(),
        MatRef::from_column_major_slice(b, rows, q),
        1.0,
        Par::Seq,
    );
}

/// Adds `A B` to a column-major block of `rows` rows, for a column-major block `A` and a column-major `B`.
pub fn add_product(sum: &mut [f64], a: &[f64], b: &[f64], rows: usize) {
    if rows == 0 || sum.is_empty() {
        return;
    }
    let (inner, columns) = (a.len() / rows, sum.len() / rows);
    matmul(
        MatMut::from_column_major_slice_mut(sum, rows, columns),
        Accum::Add,
        MatRef::from_column_major_slice(a, rows, inner),
        MatRef::from_column_major_slice(b, inner, columns),
        1.0,
        Par::Seq,
    );
}

/// Rows of `columns` columns, which `fill` appends for a range of them column by column, times a matrix, in parallel.
pub fn packed_product(
    rows: Range<usize>,
    factor: &DMatrix<f64>,
    fill: impl Fn(Range<usize>, &mut Vec<f64>) + Sync,
) -> DMatrix<f64> {
    let (inner, columns) = factor.shape();
    let parts: Vec<Range<usize>> = blocks(rows.clone()).collect();
    let products = parts.par_iter().map(|part| {
        let mut packed = Vec::with_capacity(part.len() * inner);
        fill(part.clone(), &mut packed);
        let mut product = vec![0.0; part.len() * columns];
        add_product(&mut product, &packed, factor.as_slice(), part.len());
        DMatrix::from_vec(part.len(), columns, product)
    });
    let products: Vec<DMatrix<f64>> = products.collect();
    let mut all = DMatrix::zeros(rows.len(), columns);
    let each = all.as_mut_slice().par_chunks_exact_mut(rows.len().max(1)).enumerate();
    each.for_each(|(j, column)| {
        for (part, product) in parts.iter().zip(&products) {
            column[part.start - rows.start..part.end - rows.start].copy_from_slice(product.column(j).as_slice());
        }
    });
    all
}

/// Multiplies a column-major block of rows with the inverse of an upper triangular factor, from the right.
pub fn divide_rows(block: &mut [f64], factor: &DMatrix<f64>) {
    let columns = factor.ncols();
    if block.is_empty() || columns == 0 {
        return;
    }
    let rows = block.len() / columns;
    solve_lower_triangular_in_place(
        MatRef::from_column_major_slice(factor.as_slice(), columns, columns).transpose(),
        MatMut::from_column_major_slice_mut(block, rows, columns).transpose_mut(),
        Par::Seq,
    );
}

/// Multiplies each row by the root of its weight.
pub fn scale_rows(block: &mut DMatrix<f64>, weights: &[f64]) {
    for mut column in block.column_iter_mut() {
        column.iter_mut().zip(weights).for_each(|(x, w)| *x *= w.sqrt());
    }
}

/// The columns that do not depend on earlier ones, judged on any matrix with the same inner products, such as an R
/// factor. Columns before `protected` are kept whatever they are. A column is compared with its own length, or with
/// the length given for it.
///
/// This is R's limited pivoting: of a dependent set the later column goes.
pub fn independent_columns(a: &DMatrix<f64>, lengths: Option<&[f64]>, protected: usize, tol: f64) -> Vec<usize> {
    let mut basis: Vec<DVector<f64>> = Vec::new();
    let mut kept = Vec::new();
    for (j, column) in a.column_iter().enumerate() {
        let mut rest = column.into_owned();
        let length = lengths.map_or(rest.norm(), |lengths| lengths[j]);
        // Twice: once leaves errors of the size of the condition number.
        for _ in 0..2 {
            for direction in &basis {
                let share = direction.dot(&rest);
                rest.axpy(-share, direction, 1.0);
            }
        }
        let norm = rest.norm();
        if norm > tol * length && norm > 0.0 {
            basis.push(rest / norm);
            kept.push(j);
        } else if j < protected {
            kept.push(j);
        }
    }
    kept
}

/// The thin singular value decomposition `a = U diag(s) V'`, `(U, s, V)`; none where it does not converge.
pub fn thin_svd(a: &DMatrix<f64>) -> Option<(DMatrix<f64>, DVector<f64>, DMatrix<f64>)> {
    let view = MatRef::from_column_major_slice(a.as_slice(), a.nrows(), a.ncols());
    let svd = view.thin_svd().ok()?;
    let own = |m: MatRef<'_, f64>| DMatrix::from_fn(m.nrows(), m.ncols(), |i, j| m[(i, j)]);
    let values = svd.S().column_vector();
    let values = DVector::from_fn(values.nrows(), |i, _| values[i]);
    Some((own(svd.U()), values, own(svd.V())))
}

/// A positive definite matrix `R' R`, for solving with it.
#[derive(Clone)]
pub struct Definite {
    r: DMatrix<f64>,
}

impl Definite {
    /// From an upper triangular factor with a diagonal that is not zero.
    pub fn from_factor(r: DMatrix<f64>) -> Option<Definite> {
        let sound = r.is_square() && (0..r.ncols()).all(|j| r[(j, j)] != 0.0 && r[(j, j)].is_finite());
        sound.then_some(Definite { r })
    }

    /// From the matrix itself; `None` where it is not positive definite to working precision.
    pub fn from_gram(gram: &DMatrix<f64>) -> Option<Definite> {
        let lower = gram.clone().cholesky()?.unpack();
        Definite::from_factor(lower.transpose())
    }

    /// From the matrix, with just enough added to its diagonal to be positive definite: for directions in which the
    /// data say nothing, such as those of separated classes.
    pub fn from_gram_lifted(gram: &DMatrix<f64>) -> Definite {
        let top = (0..gram.ncols()).map(|j| gram[(j, j)].abs()).fold(f64::MIN_POSITIVE, f64::max);
        let mut lift = 0.0;
        loop {
            let mut lifted = gram.clone();
            (0..gram.ncols()).for_each(|j| lifted[(j, j)] += lift);
            if let Some(definite) = Definite::from_gram(&lifted) {
                return definite;
            }
            if !(lift < top) {
                return Definite { r: DMatrix::identity(gram.ncols(), gram.ncols()) * top.max(1e-300).sqrt() };
            }
            lift = if lift == 0.0 { top * 1e-14 } else { lift * 100.0 };
        }
    }

    /// From the matrix, with columns that depend on earlier ones left out: solutions are zero there. `None` where every
    /// column depends.
    pub fn from_gram_limited(gram: &DMatrix<f64>) -> Option<(Definite, Vec<usize>)> {
        let size = gram.ncols();
        let mut lower: DMatrix<f64> = DMatrix::zeros(size, size);
        let mut kept: Vec<usize> = Vec::new();
        for j in 0..size {
            for (at, k) in kept.iter().enumerate() {
                let done: f64 = (0..at).map(|i| lower[(j, i)] * lower[(*k, i)]).sum();
                lower[(j, at)] = (gram[(j, *k)] - done) / lower[(*k, at)];
            }
            let pivot = gram[(j, j)] - (0..kept.len()).map(|i| lower[(j, i)].powi(2)).sum::<f64>();
            // A pivot is a squared length, and rounding of the inner products is all that is left of a dependent one.
            if pivot > 1e-13 * gram[(j, j)] {
                lower[(j, kept.len())] = pivot.sqrt();
                kept.push(j);
            }
        }
        let factor = lower.select_rows(&kept).columns(0, kept.len()).transpose();
        (!kept.is_empty()).then_some(())?;
        Definite::from_factor(factor).map(|definite| (definite, kept))
    }

    /// The upper triangular factor.
    pub fn factor(&self) -> &DMatrix<f64> {
        &self.r
    }

    /// `(R' R)^-1 b`.
    pub fn solve(&self, b: &DVector<f64>) -> DVector<f64> {
        let mut x = b.clone();
        // The diagonal was checked by the constructors, so neither triangular solve can fail.
        self.r.tr_solve_upper_triangular_mut(&mut x);
        self.r.solve_upper_triangular_mut(&mut x);
        x
    }

    /// `(R' R)^-1`.
    pub fn inverse(&self) -> DMatrix<f64> {
        let inverse_factor = self.inverse_factor();
        &inverse_factor * inverse_factor.transpose()
    }

    /// The inverse of the factor: a basis in which the matrix is the identity.
    pub fn inverse_factor(&self) -> DMatrix<f64> {
        let p = self.r.ncols();
        let mut inverse_factor = DMatrix::identity(p, p);
        self.r.solve_upper_triangular_mut(&mut inverse_factor);
        inverse_factor
    }

    /// `R b`, whose length is the norm of `b` in the metric of the matrix.
    pub fn embed(&self, b: &DVector<f64>) -> DVector<f64> {
        &self.r * b
    }

    /// Smallest over largest pivot, in absolute value: a cheap bound on how well conditioned the factor is.
    pub fn pivot_ratio(&self) -> f64 {
        let pivots = (0..self.r.ncols()).map(|j| self.r[(j, j)].abs());
        let (low, high) = pivots.fold((f64::INFINITY, 0.0_f64), |(low, high), d| (low.min(d), high.max(d)));
        if high > 0.0 { low / high } else { 1.0 }
    }
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

    proptest! {
        #[test]
        fn gram_and_factor_agree_with_the_definition(rows in 0_usize..3000, columns in 1_usize..8, seed in 0_u64..1000) {
            let x = random(rows, columns, seed);
            let weights: Vec<f64> = random(rows, 1, seed + 1).iter().map(|w| w.abs()).collect();
            let mut root = x.clone();
            scale_rows(&mut root, &weights);
            let expected = root.transpose() * &root;
            prop_assert!((gram(&x, Some(&weights)) - &expected).amax() <= 1e-10);
            let r = weighted_factor(&x, Some(&weights));
            prop_assert!((r.transpose() * &r - &expected).amax() <= 1e-10);
            prop_assert!((gram(&x, None) - x.transpose() * &x).amax() <= 1e-10);
        }
    }

    #[test]
    fn sums_are_the_same_bits_on_any_number_of_threads() {
        let x = random(3 * PART_ROWS + 17, 5, 3);
        let on = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| (gram(&x, None), weighted_factor(&x, None)))
        };
        assert_eq!(on(1), on(3));
    }

    #[test]
    fn of_a_dependent_set_the_later_column_goes() {
        let mut x = random(50, 4, 5);
        let sum = x.column(0) * 2.0 - x.column(1);
        x.set_column(2, &sum);
        assert_eq!(independent_columns(&weighted_factor(&x, None), None, 0, DEPENDENCE), [0, 1, 3]);
        assert_eq!(independent_columns(&DMatrix::zeros(3, 2), None, 0, DEPENDENCE), Vec::<usize>::new());
    }

    #[test]
    fn a_nearly_dependent_column_stays() {
        let mut x = random(50, 3, 6);
        let near = x.column(0) + x.column(1) * 1e-8;
        x.set_column(2, &near);
        x.set_column(1, &DVector::from_element(50, 1.0));
        assert_eq!(independent_columns(&weighted_factor(&x, None), None, 0, DEPENDENCE), [0, 1, 2]);
    }

    #[test]
    fn a_singular_matrix_is_lifted_until_it_can_be_solved_with() {
        let solved =
            Definite::from_gram_lifted(&DMatrix::from_element(3, 3, 1.0)).solve(&DVector::from_element(3, 3.0));
        assert!((solved.sum() - 3.0).abs() < 1e-6, "{solved}");
        assert!(Definite::from_gram_lifted(&DMatrix::zeros(2, 2)).solve(&DVector::zeros(2)).amax() == 0.0);
    }
}
