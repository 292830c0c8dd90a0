//! Sums over rows of products of columns, exact modulo every prime.

use rayon::prelude::*;

use crate::linalg;
use crate::secure::lanes;
use crate::secure::ring::{Elements, LARGEST_FIXED, RingError, Width, moduli};

/// A sum of products `A' B` of row blocks, as residues in `[0, prime)`, one column-major matrix a prime.
pub(super) struct Sum {
    width: Width,
    /// Columns of `A` and of `B`.
    columns: [usize; 2],
    residues: Vec<Residues>,
}

/// A sum modulo one prime, and both factors of the last product, whose memory is used again.
struct Residues {
    sum: Vec<f64>,
    left: Vec<f64>,
    right: Vec<f64>,
}

/// Columns of a task: their products with a vector take some microseconds.
const COLUMNS: usize = 8;

/// Rows whose residues stand in the cache of a processor while they are multiplied.
const SOME: usize = 512;

impl Sum {
    pub(super) fn new(width: Width, left: usize, right: usize) -> Sum {
        let zero = |_| Residues { sum: vec![0.0; left * right], left: Vec::new(), right: Vec::new() };
        Sum { width, columns: [left, right], residues: width.primes().iter().map(zero).collect() }
    }

    /// Adds `A' B` of a row block, of which the first columns take part. At most [`ROWS`](crate::secure::ring::ROWS) products are added
    /// before a reduction, so that f64 is exact.
    pub(super) fn add(&mut self, a: &Elements, b: &Elements, rows: usize) {
        match self.columns {
            // A product with one column is bound by memory, and matrix products are not made for it.
            [left, 1] => self.add_products(a, left, b, rows),
            [1, right] => self.add_products(b, right, a, rows),
            [left, right] => {
                let primes = self.width.primes();
                self.residues.par_iter_mut().enumerate().for_each(|(prime, of)| {
                    for first in (0..rows).step_by(SOME) {
                        let some = first..rows.min(first + SOME);
                        residues(a, prime, (rows, left), some.clone(), &mut of.left);
                        residues(b, prime, (rows, right), some.clone(), &mut of.right);
                        linalg::add_cross_product(&mut of.sum, &of.left, &of.right, some.len());
                    }
                    lanes::reduce(&mut of.sum, primes[prime]);
                });
            }
        }
    }

    /// Adds the products of columns with one vector, which may be the first column of several.
    fn add_products(&mut self, columns: &Elements, count: usize, vector: &Elements, rows: usize) {
        let vector = Vector::integers(vector, rows);
        let product = |at: usize| {
            let (half, column) = (at / count, at % count);
            lanes::product(&columns.half(half)[column * rows..(column + 1) * rows], vector.half(half))
        };
        let products: Vec<[u64; 3]> =
            (0..count * self.width.words()).into_par_iter().with_min_len(COLUMNS).map(product).collect();
        for (prime, of) in self.residues.iter_mut().enumerate() {
            let modulus = self.width.primes()[prime];
            for (sum, product) in of.sum.iter_mut().zip(&products[prime / 3 * count..]) {
                *sum += (product[prime % 3] % modulus) as f64;
            }
            lanes::reduce(&mut of.sum, modulus);
        }
    }

    /// Adds the products of columns in fixed point with one vector; the columns are not kept anywhere as elements.
    ///
    /// # Errors
    /// A value that fixed point cannot hold.
    pub(super) fn add_fixed(&mut self, columns: &[&[f64]], bits: u32, vector: &Elements) -> Result<(), RingError> {
        let (vector, scale, count) = (Vector::floats(vector), 2f64.powi(bits as i32), columns.len());
        let product = |at: usize| {
            let (half, column) = (at / count, columns[at % count]);
            lanes::fixed_product(column, (scale, LARGEST_FIXED), vector.half(half), moduli(half))
        };
        let all = (0..count * self.width.words()).into_par_iter().with_min_len(COLUMNS).map(product);
        let products = all.collect::<Option<Vec<[f64; 3]>>>().ok_or(RingError::Range)?;
        for (prime, of) in self.residues.iter_mut().enumerate() {
            for (sum, product) in of.sum.iter_mut().zip(&products[prime / 3 * count..]) {
                *sum += product[prime % 3];
            }
            lanes::reduce(&mut of.sum, self.width.primes()[prime]);
        }
        Ok(())
    }

    pub(super) fn into_elements(self) -> Elements {
        let residues: Vec<Vec<f64>> = self.residues.into_iter().map(|of| of.sum).collect();
        Elements::from_residues(self.width, &residues)
    }
}

/// The residues of some rows of the first columns of a row block modulo one of the primes.
fn residues(
    of: &Elements,
    prime: usize,
    (rows, columns): (usize, usize),
    some: std::ops::Range<usize>,
    out: &mut Vec<f64>,
) {
    out.resize(some.len() * columns, 0.0);
    let columns = of.half(prime / 3).chunks_exact(rows.max(1));
    for (out, column) in out.chunks_exact_mut(some.len().max(1)).zip(columns) {
        lanes::unpack(&column[some.clone()], prime % 3, out);
    }
}

/// The residues of a vector, prime by prime.
struct Vector<T> {
    residues: Vec<T>,
    rows: usize,
}

impl Vector<u32> {
    /// Of the first rows.
    fn integers(vector: &Elements, rows: usize) -> Vector<u32> {
        let mut residues = vec![0; rows * vector.width().primes().len()];
        for (prime, residues) in residues.chunks_exact_mut(rows.max(1)).enumerate() {
            lanes::unpack_integers(&vector.half(prime / 3)[..rows], prime % 3, residues);
        }
        Vector { residues, rows }
    }
}

impl Vector<f64> {
    fn floats(vector: &Elements) -> Vector<f64> {
        let rows = vector.count();
        let mut residues = vec![0.0; rows * vector.width().primes().len()];
        for (prime, residues) in residues.chunks_exact_mut(rows.max(1)).enumerate() {
            lanes::unpack(vector.half(prime / 3), prime % 3, residues);
        }
        Vector { residues, rows }
    }
}

impl<T> Vector<T> {
    /// Of the primes of one half.
    fn half(&self, half: usize) -> [&[T]; 3] {
        [0, 1, 2].map(|place| &self.residues[(3 * half + place) * self.rows..(3 * half + place + 1) * self.rows])
    }
}
