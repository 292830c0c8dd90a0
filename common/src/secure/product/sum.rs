//! Sums over rows of products of columns, exact modulo every prime.

use rayon::prelude::*;

use crate::linalg;
use crate::secure::lanes;
use crate::secure::ring::{Elements, Width};

/// A sum of products `A' B` of row blocks, as residues in `[0, prime)`, one column-major matrix a prime.
pub(super) struct Sum {
    width: Width,
    residues: Vec<Vec<f64>>,
}

impl Sum {
    pub(super) fn new(width: Width, left: usize, right: usize) -> Sum {
        Sum { width, residues: vec![vec![0.0; left * right]; width.primes().len()] }
    }

    /// Adds `A' B` of a row block. At most [`ROWS`](crate::secure::ring::ROWS) products are added before a reduction, so that f64
    /// is exact.
    pub(super) fn add(&mut self, a: &Elements, b: &Elements, rows: usize) {
        let primes = self.width.primes();
        self.residues.par_iter_mut().enumerate().for_each(|(prime, sum)| {
            let (mut left, mut right) = (Vec::new(), Vec::new());
            a.residues(prime, &mut left);
            b.residues(prime, &mut right);
            linalg::add_cross_product(sum, &left, &right, rows);
            lanes::reduce(sum, primes[prime]);
        });
    }

    pub(super) fn into_elements(self) -> Elements {
        Elements::from_residues(self.width, &self.residues)
    }
}
