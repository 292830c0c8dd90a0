//! The disclosure meter: how much of its own columns a party has shown.
//!
//! Everything that a party sends in a round is `X b` for coefficients `b` that it knows. So what the peer holds of the
//! block is the span of those `b`, and how far it covers a column follows from inner products of the columns alone: no
//! vector of the length of the data is needed, and the price of one more message is known before it leaves.

use nalgebra::{DMatrix, DVector};

use super::block::Block;

/// A direction counts as disclosed when it is this large beside the message that carried it: numbers travel with
/// sixteen digits, so a peer can read smaller ones than any model would care for.
const VISIBLE: f64 = 1e-12;

/// What has been shown of a block.
#[derive(Debug, Clone)]
pub struct Meter {
    /// Square root of the Gram matrix of the centred columns, upper triangular.
    root: DMatrix<f64>,
    /// Orthonormal directions that were shown, in the coordinates of `root`.
    shown: Vec<DVector<f64>>,
    whole: bool,
    vectors: u64,
}

impl Meter {
    /// For columns with this (possibly weighted) Gram matrix of their centred versions, `p x p`.
    pub fn new(gram: &DMatrix<f64>) -> Meter {
        let root = crate::linalg::Definite::from_gram_lifted(gram).factor().clone();
        Meter { root, shown: Vec::new(), whole: false, vectors: 0 }
    }

    /// Vectors sent.
    pub fn vectors(&self) -> u64 {
        self.vectors
    }

    /// Dimensions of the block that the messages span.
    pub fn rank(&self) -> usize {
        if self.whole { self.root.ncols() } else { self.shown.len() }
    }

    /// Per column, the share of its variance that the peer can reconstruct: R squared of the centred column on all
    /// that was sent.
    pub fn shares(&self) -> Vec<f64> {
        (0..self.root.ncols()).map(|j| if self.whole { 1.0 } else { share(&self.root, j, &self.shown) }).collect()
    }

    /// The largest share of any column once `X beta` is sent too.
    pub fn largest_share_with(&self, beta: &DVector<f64>) -> f64 {
        if self.whole {
            return 1.0;
        }
        let mut shown = self.shown.clone();
        shown.extend(self.novelty(beta));
        (0..self.root.ncols()).map(|j| share(&self.root, j, &shown)).fold(0.0, f64::max)
    }

    /// Counts `X beta` as sent.
    pub fn record(&mut self, beta: &DVector<f64>) {
        self.vectors += 1;
        let novelty = self.novelty(beta);
        self.shown.extend(novelty);
    }

    /// Counts a basis of the whole block as sent.
    pub fn record_basis(&mut self, vectors: u64) {
        self.vectors += vectors;
        self.whole = true;
    }

    fn novelty(&self, beta: &DVector<f64>) -> Option<DVector<f64>> {
        let mut rest = &self.root * beta;
        let length = rest.norm();
        for _ in 0..2 {
            for direction in &self.shown {
                let along = direction.dot(&rest);
                rest.axpy(-along, direction, 1.0);
            }
        }
        let norm = rest.norm();
        (norm > VISIBLE * length && self.shown.len() < self.root.ncols()).then(|| rest / norm)
    }
}

fn share(root: &DMatrix<f64>, column: usize, shown: &[DVector<f64>]) -> f64 {
    let column = root.column(column);
    let total = column.norm_squared();
    if total == 0.0 {
        return 0.0;
    }
    (shown.iter().map(|direction| direction.dot(&column).powi(2)).sum::<f64>() / total).min(1.0)
}

/// Cross-products, about the mean where there is an intercept, of all that a party's partial predictions are made of: its
/// columns, and last the outcome or offset that it adds because it holds that alone.
pub(super) fn metered_gram(block: &Block, intercept: bool) -> DMatrix<f64> {
    let columns: Vec<usize> = (usize::from(block.has_intercept())..block.columns()).collect();
    let gram = block.gram().select_rows(&columns).select_columns(&columns);
    let Some(hidden) = &block.outcome().hidden else { return gram };
    let weight = |row: usize| block.outcome().weights.as_ref().map_or(1.0, |weights| weights[row]);
    let mean = match intercept {
        true => hidden.iter().enumerate().map(|(row, h)| weight(row) * h).sum::<f64>() / block.weight_sum(),
        false => 0.0,
    };
    let weighted: Vec<f64> = hidden.iter().enumerate().map(|(row, h)| weight(row) * (h - mean)).collect();
    let products = block.products(&weighted);
    let last = columns.len();
    let mut gram = gram.resize(last + 1, last + 1, 0.0);
    for (at, column) in columns.iter().enumerate() {
        gram[(at, last)] = products[*column];
        gram[(last, at)] = products[*column];
    }
    gram[(last, last)] = weighted.iter().zip(hidden).map(|(w, h)| w * (h - mean)).sum();
    gram
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn shares_are_the_r_squared_of_columns_on_the_sent_vectors() {
        let mut rng = ChaCha8Rng::seed_from_u64(4);
        let mut x = DMatrix::from_fn(200, 4, |_, _| rng.random_range(-1.0..1.0_f64));
        let mean = x.row_mean();
        x.row_iter_mut().for_each(|mut row| row -= &mean);
        let mut meter = Meter::new(&(x.transpose() * &x));
        let sent = DMatrix::from_fn(4, 2, |_, _| rng.random_range(-1.0..1.0));
        for beta in sent.column_iter() {
            let beta = beta.into_owned();
            let expected = meter.largest_share_with(&beta);
            meter.record(&beta);
            assert_eq!(meter.shares().into_iter().fold(0.0, f64::max), expected);
        }
        let vectors = &x * &sent;
        let fitted = &vectors * (vectors.transpose() * &vectors).try_inverse().unwrap() * vectors.transpose() * &x;
        for (j, share) in meter.shares().into_iter().enumerate() {
            assert!((share - fitted.column(j).norm_squared() / x.column(j).norm_squared()).abs() < 1e-10);
        }
        assert_eq!(meter.rank(), 2);
        meter.record(&(sent.column(0) * 2.0 - sent.column(1)));
        assert_eq!((meter.rank(), meter.vectors()), (2, 3));
    }

    #[test]
    fn a_single_column_is_disclosed_by_its_first_message() {
        let mut meter = Meter::new(&DMatrix::from_element(1, 1, 5.0));
        assert_eq!(meter.largest_share_with(&DVector::from_element(1, 0.0)), 0.0);
        meter.record(&DVector::from_element(1, -0.3));
        assert_eq!(meter.shares(), [1.0]);
    }
}
