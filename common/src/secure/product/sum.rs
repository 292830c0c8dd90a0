//! Sums over rows of products of columns, exact modulo every prime.

use rayon::prelude::*;

use crate::linalg;
use crate::secure::lanes;
use crate::secure::ring::{Elements, Width};

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
                    a.residues(prime, rows * left, &mut of.left);
                    b.residues(prime, rows * right, &mut of.right);
                    linalg::add_cross_product(&mut of.sum, &of.left, &of.right, rows);
                    lanes::reduce(&mut of.sum, primes[prime]);
                });
            }
        }
    }

    /// Adds the products of columns with one vector.
    fn add_products(&mut self, columns: &Elements, count: usize, vector: &Elements, rows: usize) {
        for (prime, of) in self.residues.iter_mut().enumerate() {
            vector.residues(prime, rows, &mut of.right);
        }
        let product = |at: usize| {
            let (half, column) = (at / count, at % count);
            let of = |place: usize| &self.residues[3 * half + place].right[..];
            lanes::product(&columns.half(half)[column * rows..(column + 1) * rows], [of(0), of(1), of(2)])
        };
        let products: Vec<[f64; 3]> =
            (0..count * self.width.words()).into_par_iter().with_min_len(COLUMNS).map(product).collect();
        for (prime, of) in self.residues.iter_mut().enumerate() {
            let of_half = &products[prime / 3 * count..(prime / 3 + 1) * count];
            of.sum.iter_mut().zip(of_half).for_each(|(sum, product)| *sum += product[prime % 3]);
            lanes::reduce(&mut of.sum, self.width.primes()[prime]);
        }
    }

    pub(super) fn into_elements(self) -> Elements {
        let residues: Vec<Vec<f64>> = self.residues.into_iter().map(|of| of.sum).collect();
        Elements::from_residues(self.width, &residues)
    }
}
