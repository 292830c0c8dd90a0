//! Separated kernels: a function of the sum of both parties' linear predictors as a short sum of products.
//!
//! `K(s + t) = sum_k T_k(u(s)) h_k(t)` for `|s| <= B` and any `t`, with `u(s) = sin(theta s / B) / sin(theta)` and Chebyshev polynomials
//! `T_k`: `h_k(t)` are the Chebyshev coefficients of `s -> K(s + t)` from as many nodes as terms. The map bends the interval so that the
//! poles of the logistic function, at distance pi from the axis, lie as far out as possible. The side with the smaller range takes
//! the polynomials; `T_0 = 1` needs no product.

use std::ops::Range;

use nalgebra::DMatrix;

use super::product::Blocks;
use crate::glm::Family;
use crate::linalg::{self, kernels};

/// A function of the joint linear predictor of a binomial fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// The mean.
    Mean,
    /// The derivative of the mean.
    Weight,
    /// The loss of an outcome of 0, `log(1 + e^eta)`.
    Loss,
}

/// Ranges of the side that takes the polynomials; which one is told to the peer.
pub const CLASSES: [f64; 16] = [0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0, 24.0, 32.0];

/// Products that a row of any kernel has at most.
pub const MOST_TERMS: usize = 254;

/// Powers of ten of the errors that can be asked for, from `1e-3` to `1e-10`.
pub const TOLERANCES: std::ops::RangeInclusive<u32> = 3..=10;

/// Whether means by a kernel of so many digits have all that there are. The exponential of a poisson fit has no digits to choose.
pub fn has_all_digits(family: Family, digits: u32) -> bool {
    family == Family::Poisson || digits >= *TOLERANCES.end()
}

const THETAS: [f64; 9] = [0.0, 0.6, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4];

impl Kernel {
    /// The value at a linear predictor.
    pub fn at(self, eta: f64) -> f64 {
        match self {
            Kernel::Mean => Family::Binomial.mean(eta),
            Kernel::Weight => Family::Binomial.variance(eta),
            Kernel::Loss => Family::Binomial.at(0.0, eta).loss,
        }
    }
}

/// The first class that holds linear predictors of this size; none beyond the last.
pub fn class(largest: f64) -> Option<usize> {
    CLASSES.iter().position(|class| *class >= largest)
}

/// A kernel with its range and terms, which both sides know.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Separated {
    /// Which function.
    pub kernel: Kernel,
    /// `B`: larger arguments of the polynomials are cut.
    pub range: f64,
    /// How much the interval is bent; 0 leaves it straight.
    pub theta: f64,
    /// `D`, the constant among them.
    pub terms: usize,
}

impl Separated {
    /// With as few terms as reach an error of `10^-digits` everywhere, for one of [`CLASSES`]. None outside of the table.
    pub fn new(kernel: Kernel, class: usize, digits: u32) -> Option<Separated> {
        let of_kernel = match kernel {
            Kernel::Mean => &super::kernel_table::MEAN,
            Kernel::Weight => &super::kernel_table::WEIGHT,
            Kernel::Loss => &super::kernel_table::LOSS,
        };
        let column = digits.checked_sub(*TOLERANCES.start())? as usize;
        let (terms, theta) = *of_kernel.get(class)?.get(column)?;
        Some(Separated { kernel, range: CLASSES[class], theta: f64::from(theta) / 10.0, terms: usize::from(terms) })
    }

    /// `T_0 .. T_(D-1)` at the own predictors, column by column. Predictors beyond the range are cut.
    pub fn polynomials(&self, own: &[f64], out: &mut Vec<f64>) {
        out.resize(out.len() + own.len(), 1.0);
        self.further_polynomials(own, out);
    }

    /// The same without the constant.
    fn further_polynomials(&self, own: &[f64], out: &mut Vec<f64>) {
        let bent = |s: f64| {
            let share = (s / self.range).clamp(-1.0, 1.0);
            if self.theta > 0.0 { (self.theta * share).sin() / self.theta.sin() } else { share }
        };
        let (begin, rows) = (out.len(), own.len());
        if rows == 0 || self.terms < 2 {
            return;
        }
        out.resize(begin + rows * (self.terms - 1), 0.0);
        let (u, mut later) = out[begin..].split_at_mut(rows);
        u.iter_mut().zip(own).for_each(|(u, s)| *u = bent(*s));
        let (constant, u): (Vec<f64>, &[f64]) = (vec![1.0; rows], u);
        let mut before = [&constant[..], u];
        while !later.is_empty() {
            let (next, rest) = std::mem::take(&mut later).split_at_mut(rows);
            kernels::recurrence(u, before, next);
            (before, later) = ([before[1], next], rest);
        }
    }

    /// `h_0 .. h_(D-1)` at the own predictors, column by column.
    pub fn functions(&self, own: &[f64], out: &mut Vec<f64>) {
        self.functions_from(0, own, out);
    }

    /// The same from one of them on.
    fn functions_from(&self, first: usize, own: &[f64], out: &mut Vec<f64>) {
        let begin = out.len();
        out.resize(begin + own.len() * (self.terms - first), 0.0);
        // Values at the nodes times the weights of the discrete cosine transform.
        let weights = &self.cosines()[first * self.terms..];
        linalg::add_product(&mut out[begin..], &self.at_nodes(own), weights, own.len());
    }

    /// Values of the kernel at the own predictors plus each node, column by column.
    fn at_nodes(&self, own: &[f64]) -> Vec<f64> {
        let rows = own.len();
        let mut values = vec![0.0; rows * self.terms];
        if rows == 0 {
            return values;
        }
        // One exponential a row does for all nodes where the kernel is made of it.
        let mut powers = vec![0.0; if self.kernel == Kernel::Loss { 0 } else { rows }];
        kernels::exp_of_negative(own, &mut powers);
        for (node, values) in self.nodes().iter().zip(values.chunks_exact_mut(rows)) {
            match self.kernel {
                Kernel::Mean => kernels::logistic(&powers, (-node).exp(), values),
                Kernel::Weight => kernels::logistic_weight(&powers, (-node).exp(), values),
                Kernel::Loss => kernels::softplus(own, *node, values),
            }
        }
        values
    }

    fn angle(&self, j: usize) -> f64 {
        (j as f64 + 0.5) / self.terms as f64 * std::f64::consts::PI
    }

    fn nodes(&self) -> Vec<f64> {
        let node = |u: f64| if self.theta > 0.0 { (u * self.theta.sin()).asin() / self.theta } else { u };
        (0..self.terms).map(|j| self.range * node(self.angle(j).cos())).collect()
    }

    /// Weights from the value at node `j` (rows) to coefficient `k` (columns), column by column.
    fn cosines(&self) -> Vec<f64> {
        let terms = self.terms;
        let weight = |k: usize| if k == 0 { 1.0 } else { 2.0 } / terms as f64;
        // The angles are multiples of one, of which so many make a turn.
        let one = std::f64::consts::PI / (2 * terms) as f64;
        let of_turn: Vec<f64> = (0..4 * terms).map(|m| (m as f64 * one).cos()).collect();
        let mut weights = Vec::with_capacity(terms * terms);
        for k in 0..terms {
            weights.extend((0..terms).map(|j| weight(k) * of_turn[k * (2 * j + 1) % (4 * terms)]));
        }
        weights
    }

    /// The largest error over `|s| <= B` and `|t| <= B + 25`, on a grid.
    pub fn error(&self) -> f64 {
        let grid = |most: f64, count: usize| -> Vec<f64> {
            (0..count).map(|i| most * (2.0 * i as f64 / (count - 1) as f64 - 1.0)).collect()
        };
        let (s, t) = (grid(self.range, 301), grid(self.range + 25.0, 601));
        let (mut left, mut right) = (Vec::new(), Vec::new());
        self.polynomials(&s, &mut left);
        self.functions(&t, &mut right);
        let transposed = |columns: Vec<f64>, rows: usize| DMatrix::from_vec(rows, self.terms, columns).transpose();
        let (left, right) = (transposed(left, s.len()), transposed(right, t.len()));
        let mut sums = vec![0.0; s.len() * t.len()];
        linalg::add_cross_product(&mut sums, left.as_slice(), right.as_slice(), self.terms);
        let exact = t.iter().flat_map(|t| s.iter().map(move |s| s + t)).map(|eta| self.kernel.at(eta));
        sums.iter().zip(exact).map(|(sum, exact)| (sum - exact).abs()).fold(0.0, f64::max)
    }

    /// Finds the terms and the angle that [`Separated::new`] has in its table.
    pub fn search(kernel: Kernel, range: f64, digits: u32) -> Separated {
        let tol = 10f64.powi(-(digits as i32));
        let best = |terms: usize| {
            let with = |theta: f64| Separated { kernel, range, theta, terms };
            let tried = THETAS.into_iter().map(|theta| (with(theta).error(), with(theta)));
            tried.reduce(|best, next| if next.0 < best.0 { next } else { best })
        };
        let found = |terms: usize| best(terms).filter(|(error, _)| *error <= tol).map(|(_, separated)| separated);
        let (mut below, mut above) = (2, 8);
        let mut reached = loop {
            match found(above) {
                Some(reached) => break reached,
                None => (below, above) = (above, above + above / 2),
            }
        };
        while above - below > 1 {
            let middle = (below + above) / 2;
            match found(middle) {
                Some(better) => (above, reached) = (middle, better),
                None => below = middle,
            }
        }
        reached
    }
}

/// Which factors of a separated kernel a party has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// `T_k`.
    Polynomials,
    /// `h_k`, times the root of the case weight where there are weights.
    Functions,
}

/// One party's factors for products within rows, without the constant polynomial.
pub struct Factors<'a> {
    /// The kernel.
    pub separated: Separated,
    /// Which factors.
    pub part: Part,
    /// The own partial linear predictor, `n` values.
    pub own: &'a [f64],
    /// Roots of the case weights, mean 1.
    pub roots: Option<&'a [f64]>,
}

impl Factors<'_> {
    /// `h_0` of some rows, whose factor is 1 and which therefore needs no product; zeros for the other part.
    pub fn constant(&self, rows: Range<usize>) -> Vec<f64> {
        let count = rows.len();
        match self.part {
            Part::Polynomials => vec![0.0; count],
            Part::Functions => {
                // The first coefficient is the mean over the nodes.
                let values = self.separated.at_nodes(&self.own[rows.clone()]);
                let mut sums = vec![0.0; count];
                for values in values.chunks_exact(count.max(1)) {
                    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
                }
                let terms = self.separated.terms as f64;
                let root = |row: usize| self.roots.map_or(1.0, |roots| roots[row]);
                rows.zip(sums).map(|(row, sum)| sum / terms * root(row)).collect()
            }
        }
    }
}

impl Blocks for Factors<'_> {
    fn rows(&self) -> usize {
        self.own.len()
    }

    fn columns(&self) -> usize {
        self.separated.terms - 1
    }

    fn fill(&self, rows: Range<usize>, out: &mut Vec<f64>) {
        let (begin, own) = (out.len(), &self.own[rows.clone()]);
        match self.part {
            Part::Polynomials => self.separated.further_polynomials(own, out),
            Part::Functions => {
                self.separated.functions_from(1, own, out);
                if let Some(roots) = self.roots {
                    let roots = roots[rows].iter().cycle();
                    out[begin..].iter_mut().zip(roots).for_each(|(value, root)| *value *= root);
                }
            }
        }
    }
}
