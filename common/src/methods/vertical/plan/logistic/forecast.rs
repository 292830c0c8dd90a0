//! What error to expect of a private logistic or Poisson fit, from public facts and a declared design; no data are involved.
//!
//! The design is that of [`Design`] with coefficients in log odds and an outcome of which half is 1, or the declared share. The
//! linear predictor counts as normal, as in the fit. With `w` the mean weight, `v = b'S b` the variance of the linear predictor
//! and `w_1` and `w_2` the means of the weight's derivatives the curvature of the slopes beside an intercept is `w S + (w_2 -
//! w_1^2 / w) S b b' S`, whose inverse is known; over random signs its mean is taken. The noise of the sum of the residuals moves
//! slopes along themselves, by `w_1`.
//!
//! Counts have log rates for coefficients, and a mean outcome of [`MEAN_OF_COUNTS`] of the largest one, or the declared one: a
//! larger share means less noise, as it is on the scale of the largest count. With `w` that mean the curvature of the slopes
//! beside an intercept is `w S`. The cut of the means makes either party's slopes smaller by a factor that is known for a normal
//! linear predictor; of that [`LEFT`] is counted as what the correction leaves.

use nalgebra::{DMatrix, DVector};

use super::super::crossprod::lifted;
use super::super::design::{self, Design, Prediction};
use super::counts::{Missing, Parts};
use super::{LogisticPlan, Outcomes, start_noise};
use crate::glm::Family;

/// Standard deviation in log odds that each party's columns add to the linear predictor, where nothing is declared.
pub(in crate::methods::vertical::plan) const SIGNAL: f64 = 1.0;

/// The same in log rates.
pub(in crate::methods::vertical::plan) const SIGNAL_OF_COUNTS: f64 = 0.5;

/// The mean of counts as a share of the largest one.
pub(in crate::methods::vertical::plan) const MEAN_OF_COUNTS: f64 = 0.125;

/// Share of what the cut of means moves that the correction leaves: over simulated rows of norm at most 1 it was between a tenth and a third.
const LEFT: f64 = 0.25;

/// `16 sqrt(3) / (15 pi)`: a normal law scaled by it is close to the logistic one (Zeger, Liang and Albert, 1988, Biometrics 44).
const NEARLY_NORMAL: f64 = 0.588_084_0;

impl LogisticPlan {
    /// What error to expect, from public facts and a declared design; no data are involved.
    pub fn predict(&self, design: &Design) -> Prediction {
        let rows = self.setup.rows as f64;
        let (moments, root) = (design.moments(), design.coefficients());
        let size = moments.nrows();
        let lifted = lifted(moments, self.floor(), 0.0);
        let inverse = lifted.try_inverse().unwrap_or_else(|| DMatrix::zeros(size, size));
        let squares = root * root.transpose();
        let (weight, curved) = match self.setup.outcomes {
            Outcomes::Events => {
                let Weights { weight, bend, tilt } = weights(design.outcome_mean(), moments.dot(&squares));
                // The inverse curvature, squared: by the formula of Sherman and Morrison.
                let turn = (bend - 1.0) / (moments.dot(&squares).max(f64::MIN_POSITIVE) * bend);
                let mixed = &inverse * &squares;
                let bent = (&mixed + mixed.transpose()) * turn;
                let along = turn * turn * squares.trace() + tilt * tilt;
                (weight, &inverse * &inverse - bent + &squares * along)
            }
            // The noise of the sum of the residuals moves slopes along themselves.
            Outcomes::Counts => (mean_of_counts(design), &inverse * &inverse + &squares),
        };
        let curved = curved / (weight * weight * rows * rows);
        let table = 2.0 * self.vector_sigma().powi(2);
        // Of the first point: the noise of the vectors and that of the table.
        let mean = match self.setup.outcomes {
            Outcomes::Events => design.outcome_mean().unwrap_or(0.5),
            Outcomes::Counts => mean_of_counts(design),
        };
        let start = (start_noise(mean) * table / (weight * weight) + table * squares.trace()) / (rows * rows);
        let mut left = (&inverse * &inverse).trace() * start;
        let mut noise = DMatrix::zeros(size, size);
        for scale in &self.gradients {
            noise = &curved * (self.gradient_variance(*scale) + table * weight * weight * left);
            left = noise.trace();
        }
        // What a lifted table leaves of the error of a point, at the start and in each step.
        let kept = DMatrix::identity(size, size) - &inverse * moments;
        let bias = &kept * &kept * &kept * root + self.left_of_the_cut(mean_of_counts(design), moments, root);
        let lengths = design.weights().component_mul(design.weights());
        let stacked = |values: DVector<f64>| values.component_mul(&lengths).map(|square| square.max(0.0));
        let length = stacked(design::row_squares(root)).sum().sqrt();
        let (bias, noise) = (stacked(design::row_squares(&bias)), stacked(noise.diagonal()));
        let alone = self.alone(moments, root);
        Prediction {
            relative_error: (bias.sum() + noise.sum()).sqrt() / length,
            alone_error: stacked(alone).sum().sqrt() / length,
            bias: bias.map(f64::sqrt),
            noise: noise.map(f64::sqrt),
        }
    }

    /// The noise of the opened table as a share of its smallest eigenvalue, as intervals are withheld by.
    pub(in crate::methods::vertical::plan) fn table_noise(&self, design: &Design) -> f64 {
        // The noise of both sides on the table between blocks of `a` and `b` columns has a norm of about sqrt(2) (sqrt(a) + sqrt(b)) in its
        // standard deviations, twice the floor, by which it makes the smallest eigenvalue smaller.
        let smallest = design.moments().clone().symmetric_eigenvalues().min() - 2.0 * self.floor();
        self.floor() / smallest.max(self.floor())
    }

    /// What the cut of the means of counts moves and the correction leaves.
    fn left_of_the_cut(&self, counts: f64, moments: &DMatrix<f64>, root: &DMatrix<f64>) -> DMatrix<f64> {
        let mut moved = DMatrix::zeros(root.nrows(), root.ncols());
        match self.setup.outcomes {
            Outcomes::Events => return moved,
            Outcomes::Counts => {}
        }
        let (alice, bob) = (self.setup.alice_width, self.setup.bob_width);
        let squares = root * root.transpose();
        let blocks = [(0, alice), (alice, bob)];
        let between = |(row, rows): (usize, usize), (column, columns): (usize, usize)| {
            moments.view((row, column), (rows, columns)).dot(&squares.view((row, column), (rows, columns)))
        };
        let spreads = blocks.map(|own| between(own, own).max(0.0).sqrt());
        let both = (spreads[0] * spreads[1]).max(f64::MIN_POSITIVE);
        let correlation = (between(blocks[0], blocks[1]) / both).clamp(-0.99, 0.99);
        let [s, t] = spreads;
        let level = counts.ln() - 0.5 * (s * s + t * t) - correlation * s * t;
        let Missing { mean, slopes } = Parts { level, spreads, correlation }.missing();
        for ((first, rows), slope) in blocks.into_iter().zip(slopes) {
            let factor = LEFT * (slope - mean) / counts;
            moved.rows_mut(first, rows).copy_from(&(root.rows(first, rows) * factor));
        }
        moved
    }

    /// Squared distance of each coefficient from the pooled one where each party fits its own columns: it takes what goes along with them of
    /// the other's, and what does not is spread that it does not see, which makes coefficients smaller where they are log odds.
    fn alone(&self, moments: &DMatrix<f64>, root: &DMatrix<f64>) -> DVector<f64> {
        let (alice, bob) = (self.setup.alice_width, self.setup.bob_width);
        let side = |(own, of_own): (usize, usize), (other, of_other): (usize, usize)| {
            let table = moments.view((own, own), (of_own, of_own)).into_owned();
            let cross = moments.view((own, other), (of_own, of_other)).into_owned();
            let along = table.try_inverse().unwrap_or_else(|| DMatrix::zeros(of_own, of_own)) * &cross;
            let theirs = root.rows(other, of_other).into_owned();
            let unseen = moments.view((other, other), (of_other, of_other)) - cross.transpose() * &along;
            let spread = unseen.dot(&(&theirs * theirs.transpose())).max(0.0);
            let smaller = match self.setup.outcomes {
                Outcomes::Events => 1.0 / (1.0 + NEARLY_NORMAL * NEARLY_NORMAL * spread).sqrt(),
                // Rates multiply.
                Outcomes::Counts => 1.0,
            };
            let mine = root.rows(own, of_own).into_owned();
            design::row_squares(&((&mine + along * theirs) * smaller - &mine))
        };
        let parts = [side((0, alice), (alice, bob)), side((alice, bob), (0, alice))];
        DVector::from_iterator(alice + bob, parts.iter().flat_map(|part| part.iter().copied()))
    }
}

/// The mean of counts as a share of the largest one.
fn mean_of_counts(design: &Design) -> f64 {
    design.outcome_mean().unwrap_or(MEAN_OF_COUNTS)
}

/// Of a normal linear predictor.
struct Weights {
    /// The mean weight.
    weight: f64,
    /// By which factor the curvature along the coefficients is smaller than the weight alone makes it, beside an intercept.
    bend: f64,
    /// How far the noise of the sum of the residuals, over the weight, moves slopes along themselves.
    tilt: f64,
}

/// Of a normal linear predictor with this variance, and of a mean at which so many outcomes are 1; half of them where it is not
/// declared.
fn weights(ones: Option<f64>, variance: f64) -> Weights {
    let spread = variance.max(0.0).sqrt();
    // Sums over equidistant points of smooth functions that vanish at the ends are exact far beyond what is asked for.
    let nodes = || (-80..=80).map(|at| f64::from(at) / 10.0).map(|z| ((-0.5 * z * z).exp(), z));
    let law: f64 = nodes().map(|(density, _)| density).sum();
    let (mut below, mut above) = (-40.0 - 10.0 * spread, 40.0 + 10.0 * spread);
    let mean = ones.map_or(0.0, |ones| {
        for _ in 0..100 {
            let middle = 0.5 * (below + above);
            let of =
                nodes().map(|(density, z)| density * Family::Binomial.mean(middle + spread * z)).sum::<f64>() / law;
            if of < ones { below = middle } else { above = middle }
        }
        0.5 * (below + above)
    });
    let (mut weight, mut tilted, mut bent) = (0.0, 0.0, 0.0);
    for (density, z) in nodes() {
        let w = density * Family::Binomial.variance(mean + spread * z);
        weight += w;
        // The means of the derivatives times the spread and the variance, by parts.
        tilted += w * z;
        bent += w * (z * z - 1.0);
    }
    let bend = (1.0 + bent / weight - (tilted / weight).powi(2)).clamp(0.05, 1.0);
    let tilt = if spread > 0.0 { tilted / (spread * weight * bend) } else { 0.0 };
    Weights { weight: weight / law, bend, tilt }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For a small spread all is known from the logistic function at one point.
    #[test]
    fn weights_follow_the_share_of_ones() {
        let half = weights(None, 1e-6);
        assert!((half.weight - 0.25).abs() < 1e-6 && half.tilt.abs() < 1e-9 && (half.bend - 1.0).abs() < 1e-5);
        let same = weights(Some(0.5), 0.7);
        let neutral = weights(None, 0.7);
        assert!((same.weight - neutral.weight).abs() < 1e-12 && (same.bend - neutral.bend).abs() < 1e-12);
        let rare = weights(Some(0.02), 1e-6);
        assert!(
            (rare.weight - 0.0196).abs() < 1e-6 && (rare.tilt - 0.96).abs() < 1e-4,
            "{} {}",
            rare.weight,
            rare.tilt
        );
        let (few, many) = (weights(Some(0.1), 1.0), weights(Some(0.9), 1.0));
        assert!((few.weight - many.weight).abs() < 1e-9 && (few.tilt + many.tilt).abs() < 1e-9);
    }
}
