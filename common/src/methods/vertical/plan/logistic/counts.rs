//! Means of counts: one product a row, never beyond the largest count.
//!
//! In units of the largest count, `Y`, the mean of a row is `e^(b + s + t)` with the intercept `b` and the parties' parts `s` and `t` of the linear
//! predictor. Each party cuts its own part at a public end, `c` and `d` with `b + c + d = 0`, and makes the factor `round(r e^(min(s - c, 0)))` of it. The
//! whole number `r` is the root of the number `M` that stands for `Y`. Both factors are then whole numbers from 0 to `r`, rounded to the nearest, and their
//! product, which is the mean on shares, is a whole number from 0 to `M`, for any row and any point. That is all that the sensitivity of a gradient
//! asks for. Were `M` no square, factors would have to be rounded down, which makes all means a little too small.
//!
//! # Where parts are cut
//!
//! The ends are as many standard deviations above the mean of either part: of all ends with their sum, these cut fewest rows where
//! parts are alike but for their scale. Means and standard deviations are those of the noised table, so they are public.
//!
//! # What the cut takes
//!
//! A gradient with cut means is that of another model, whose coefficients are closer to zero or farther from it. Where the linear predictor is
//! normal, which is how the curvature counts it too, Stein's lemma gives what is missing: with `f` the cut mean and `g` the whole one,
//! `E x (f - g) = cov(x, s) E(f_s - g) + cov(x, t) E(f_t - g)` for columns less their means, with `f_s = f` where `s` is not cut and 0 where it is. That is taken off the
//! opened gradient. It is made of released numbers alone, so it costs nothing. What it leaves where predictors are not normal is in no
//! standard error, which is why there are none.

use nalgebra::{DMatrix, DVector, DVectorView};

use super::LogisticFit;
use crate::laws::normal_above;

/// Largest variance of the linear predictor at the first point.
const STEEPEST_START: f64 = 1.0;

/// Largest standard deviation of the linear predictor that a step adds.
pub(super) const LONGEST_STEP: f64 = 1.0;

/// The first point: for a normal linear predictor `E mu = mean`, and the products of columns and means are those of columns and outcome. `length` is the
/// variance of the linear fit of the outcome. The linear predictor at the means, and what the slopes of the linear fit are multiplied by.
pub(super) fn matched(mean: f64, length: f64) -> (f64, f64) {
    let variance = length / (mean * mean);
    let kept = variance.min(STEEPEST_START);
    (mean.ln() - kept / 2.0, (kept / variance).sqrt() / mean)
}

/// Both parties' parts of a normal linear predictor, cut as many standard deviations above their means.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parts {
    /// Logarithm of the mean at the means of the columns, in units of the largest count.
    pub(super) level: f64,
    /// Standard deviations.
    pub(super) spreads: [f64; 2],
    pub(super) correlation: f64,
}

/// What a cut takes from means, and from their derivatives in each part.
#[derive(Debug, Clone, Copy)]
pub(super) struct Missing {
    pub(super) mean: f64,
    pub(super) slopes: [f64; 2],
}

impl Parts {
    /// At which parts, less their means, are cut.
    fn ends(&self) -> [f64; 2] {
        let together = self.spreads[0] + self.spreads[1];
        let share = if together > 0.0 { self.spreads[0] / together } else { 0.5 };
        [-self.level * share, -self.level * (1.0 - share)]
    }

    /// The mean of the means without a cut.
    pub(super) fn whole(&self) -> f64 {
        let [s, t] = self.spreads;
        (self.level + 0.5 * (s * s + t * t) + self.correlation * s * t).exp()
    }

    /// What the cut takes; nothing where a part does not vary or what it takes has no finite mean.
    pub(super) fn missing(&self) -> Missing {
        const NONE: Missing = Missing { mean: 0.0, slopes: [0.0; 2] };
        let [s, t] = self.spreads;
        if !(s > 1e-9 && t > 1e-9) {
            return NONE;
        }
        let end = -self.level / (s + t);
        let rest = (1.0 - self.correlation * self.correlation).sqrt();
        let (mut law, mut all, mut of_first, mut of_second) = (0.0, 0.0, 0.0, 0.0);
        // Over the first part in steps; of the second one, given the first, the mean is known.
        for at in -1200..=1200 {
            let z = f64::from(at) / 200.0;
            let density = (-0.5 * z * z).exp();
            let (mean, cut) = (self.correlation * z, z.min(end));
            let above = normal_above((end - mean) / rest) * (t * end).exp();
            let shifted = (end - mean) / rest - t * rest;
            let below = normal_above(-shifted) * (t * mean + 0.5 * (t * rest).powi(2)).exp();
            let first = density * (self.level + s * cut).exp();
            law += density;
            all += first * (above + below);
            of_second += first * below;
            of_first += if z < end { first * (above + below) } else { 0.0 };
        }
        let whole = self.whole();
        let [mean, first, second] = [all, of_first, of_second].map(|sum| sum / law - whole);
        if [mean, first, second].iter().all(|value| value.is_finite()) {
            Missing { mean, slopes: [first, second] }
        } else {
            NONE
        }
    }
}

impl LogisticFit {
    /// Slopes of each party.
    fn own(&self) -> [DVectorView<'_, f64>; 2] {
        let (alice, bob) = (self.plan.setup.alice_width, self.plan.setup.bob_width);
        [self.point.rows(1, alice), self.point.rows(1 + alice, bob)]
    }

    /// Covariances of all columns with each party's part.
    fn along(&self) -> [DVector<f64>; 2] {
        let width = self.means.len();
        let centred: DMatrix<f64> = self.joint.view((1, 1), (width, width)).into_owned();
        let [alice, bob] = self.own();
        [centred.columns(0, alice.len()) * alice, centred.columns(alice.len(), bob.len()) * bob]
    }

    fn parts(&self, along: &[DVector<f64>; 2]) -> Parts {
        let [alice, bob] = self.own();
        let (first, second) = (alice.len(), bob.len());
        let variances = [alice.dot(&along[0].rows(0, first)), bob.dot(&along[1].rows(first, second))];
        let spreads = variances.map(|variance| variance.max(0.0).sqrt());
        let both = spreads[0] * spreads[1];
        let correlation = if both > 0.0 { alice.dot(&along[1].rows(0, first)) / both } else { 0.0 };
        Parts { level: self.point[0], spreads, correlation: correlation.clamp(-0.99, 0.99) }
    }

    /// Where each party's part of the linear predictor is cut, Alice's first: with the intercept they sum to 0, the logarithm of the
    /// largest count in its unit.
    pub fn ends(&self) -> [f64; 2] {
        let ends = self.parts(&self.along()).ends();
        let [alice, bob] = self.own();
        let means = [self.means.rows(0, alice.len()).dot(&alice), self.means.rows(alice.len(), bob.len()).dot(&bob)];
        [ends[0] + means[0], ends[1] + means[1]]
    }

    /// What the cut takes from the mean of a row's gradient, for a normal linear predictor: of the residual, then of its products with columns less
    /// their means.
    pub(super) fn missing(&self) -> DVector<f64> {
        let along = self.along();
        let Missing { mean, slopes } = self.parts(&along).missing();
        (&along[0] * slopes[0] + &along[1] * slopes[1]).insert_row(0, mean)
    }
}
