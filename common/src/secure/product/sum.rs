//! Sums over rows of products of columns, exact modulo every prime.

use rayon::prelude::*;

use crate::linalg;
use crate::secure::lanes;
use crate::secure::ring::{Elements, Width};

/// A sum of products `A' B` of row blocks, as residues in `[0, prime)`, one column-major matrix a prime.
pub(super) struct Sum {
    width: Width,
    residues: Vec<Residues>,
}

/// A sum modulo one prime, and both factors of the last product, whose memory is used again.
struct Residues {
    sum: Vec<f64>,
    left: Vec<f64>,
    right: Vec<f64>,
}

impl Sum {
    pub(super) fn new(width: Width, left: usize, right: usize) -> Sum {
        let zero = |_| Residues { sum: vec![0.0; left * right], left: Vec::new(), right: Vec::new() };
        Sum { width, residues: width.primes().iter().map(zero).collect() }
    }

    /// Adds `A' B` of a row block. At most [`ROWS`](crate::secure::ring::ROWS) products are added before a reduction, so that f64
    /// is exact.
    pub(super) fn add(&mut self, a: &Elements, b: &Elements, rows: usize) {
        let primes = self.width.primes();
        self.residues.par_iter_mut().enumerate().for_each(|(prime, of)| {
            a.residues(prime, &mut of.left);
            b.residues(prime, &mut of.right);
            // A product with one column is bound by memory, and matrix products are not made for it.
            match (of.left.len() == rows, of.right.len() == rows) {
                (_, true) => lanes::products(&mut of.sum, &of.left, &of.right),
                (true, false) => lanes::products(&mut of.sum, &of.right, &of.left),
                (false, false) => linalg::add_cross_product(&mut of.sum, &of.left, &of.right, rows),
            }
            lanes::reduce(&mut of.sum, primes[prime]);
        });
    }

    pub(super) fn into_elements(self) -> Elements {
        let residues: Vec<Vec<f64>> = self.residues.into_iter().map(|of| of.sum).collect();
        Elements::from_residues(self.width, &residues)
    }
}
