//! The smoothed truncation of one number, for means of heavy-tailed values.
//!
//! `phi(u) = u - u^3/6` for `|u| <= sqrt 2` and `+-2 sqrt 2 / 3` beyond; the smoothed form is
//! `E phi(a (1 + eta))` with `eta ~ N(0, 1/smoothing)`. With `b = |a| / sqrt(smoothing)` it is the polynomial
//! `a (1 - b^2/2) - a^3/6` plus a correction for the part of the normal law beyond `+-sqrt 2`.
//!
//! # Evaluation
//!
//! The polynomial and its correction cancel: at `a = b = 1e6` their sum comes out as -128, where the value is .64, and
//! one such record would exceed the sensitivity. So the expectation is taken over the inside directly, never over all of
//! it less the outside: a narrow law by the moments of a truncated normal, a wide one by Gauss-Legendre, and the two tails
//! exactly. The result is cut to [`SmoothTruncation::bound`], on which the proof of privacy rests.
//!
//! # Reference
//! O. Catoni and I. Giulini, "Dimension-free PAC-Bayesian bounds", 2017; D. Wang et al., "Differentially Private (Gradient)
//! Expectation Maximization Algorithm with Statistical Guarantees", equation (12) and Appendix D.

use std::f64::consts::SQRT_2;

use crate::privacy::accountant::{density, legendre};

/// Largest absolute value of the truncation before smoothing.
pub const TRUNCATION_BOUND: f64 = 2.0 * SQRT_2 / 3.0;

/// Standard deviation of the argument from which quadrature of the inside, then three of them wide at most, is exact; below it the
/// moments do not cancel.
const WIDE: f64 = 1.0;

/// The truncation smoothed by multiplicative normal noise of variance `1 / smoothing`.
#[derive(Debug, Clone)]
pub struct SmoothTruncation {
    root: f64,
    bound: f64,
    /// `u` in `[-sqrt 2, sqrt 2]` and `weight * phi(u)`.
    nodes: Vec<(f64, f64)>,
}

impl SmoothTruncation {
    /// For a positive `smoothing`; larger is less smooth.
    pub fn new(smoothing: f64) -> SmoothTruncation {
        let root = smoothing.sqrt();
        SmoothTruncation {
            root,
            // At infinity the sign of 1 + eta is all that is left; the function grows towards that.
            bound: TRUNCATION_BOUND * (1.0 - 2.0 * upper_tail(root)),
            nodes: legendre().iter().map(|&(x, w)| (SQRT_2 * x, SQRT_2 * w * truncation(SQRT_2 * x))).collect(),
        }
    }

    /// The supremum of the absolute value: `(2 sqrt 2 / 3) (2 PHI(sqrt smoothing) - 1)`, smaller than that of the
    /// truncation itself, which saves noise.
    pub fn bound(&self) -> f64 {
        self.bound
    }

    /// `E phi(a (1 + eta))`, in `[-bound, bound]` for every input; zero at zero and at what is not a number.
    pub fn value(&self, a: f64) -> f64 {
        if !(a.abs() > 0.0) {
            return 0.0;
        }
        let magnitude = self.of_positive(a.abs()).clamp(0.0, self.bound);
        magnitude.copysign(a)
    }

    fn of_positive(&self, a: f64) -> f64 {
        let b = a / self.root;
        if !(a < 1e100) {
            return self.bound;
        }
        if a + 40.0 * b < SQRT_2 {
            // Nothing is beyond the ends, and distances to them may overflow.
            return a - a * (a * a + 3.0 * b * b) / 6.0;
        }
        // Distances to the two ends, in standard deviations.
        let (right, left) = ((SQRT_2 - a) / b, (SQRT_2 + a) / b);
        let tails = TRUNCATION_BOUND * (upper_tail(right) - upper_tail(left));
        if b >= WIDE {
            let inside: f64 = self.nodes.iter().map(|&(u, weight)| weight * density((u - a) / b)).sum();
            return tails + inside / b;
        }
        let outside = upper_tail(right) + upper_tail(left);
        let (at_right, at_left) = (density(right), density(left));
        // Moments of the standard normal law over [-left, right].
        let mass = 1.0 - outside;
        let first = at_left - at_right;
        let second = mass - (right * at_right + left * at_left);
        let third = (left * left + 2.0) * at_left - (right * right + 2.0) * at_right;
        let cube = a.powi(3) * mass + 3.0 * a * a * b * first + 3.0 * a * b * b * second + b.powi(3) * third;
        tails + a * mass + b * first - cube / 6.0
    }
}

/// `u - u^3/6` for `|u| <= sqrt 2`, the sign of `u` times `2 sqrt 2 / 3` beyond.
pub fn truncation(u: f64) -> f64 {
    if u.abs() <= SQRT_2 { u - u.powi(3) / 6.0 } else { TRUNCATION_BOUND.copysign(u) }
}

/// `P(Z > t)` of a standard normal `Z`, to 1e-15 absolutely. The accountant's tail, relatively accurate far out, takes a
/// hundred times as long; this one is evaluated for every coordinate of every record.
pub(crate) fn upper_tail(t: f64) -> f64 {
    if t.abs() < 4.0 {
        // 1/2 - phi(t) (t + t^3/3 + t^5/15 + ...)
        let (mut term, mut sum, mut odd) = (t, t, 1.0);
        while term.abs() > 1e-17 * sum.abs() {
            odd += 2.0;
            term *= t * t / odd;
            sum += term;
        }
        return 0.5 - density(t) * sum;
    }
    // phi(t) / (t + 1/(t + 2/(t + ...)))
    let fraction = (1..=30).rev().fold(0.0, |tail, k| f64::from(k) / (t.abs() + tail));
    let tail = density(t) / (t.abs() + fraction);
    if t > 0.0 { tail } else { 1.0 - tail }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_truncation_is_within_its_bound_at_every_magnitude_and_zero_at_zero() {
        for smoothing in [0.5, 1.0, 2.0, 2.3, 10.0, 400.0] {
            let smooth = SmoothTruncation::new(smoothing);
            let mut previous = 0.0;
            for step in 0..=1900 {
                let a = 10f64.powf(-8.0 + step as f64 / 100.0);
                let value = smooth.value(a);
                assert!(value <= smooth.bound() && smooth.bound() < TRUNCATION_BOUND + 1e-15);
                assert!(value > 0.0 && value >= previous - 1e-13, "not increasing at {a}");
                assert_eq!(smooth.value(-a), -value);
                previous = value;
            }
            assert!((smooth.value(1e11) - smooth.bound()).abs() < 1e-9);
            assert_eq!((smooth.value(0.0), smooth.value(-0.0), smooth.value(f64::NAN)), (0.0, 0.0, 0.0));
            assert_eq!(smooth.value(f64::INFINITY), smooth.bound());
            assert_eq!(smooth.value(f64::MIN), -smooth.bound());
            assert!((smooth.value(1e-300) - 1e-300).abs() < 1e-312);
        }
    }

    #[test]
    fn the_truncation_agrees_with_quadrature_in_many_digits() {
        let table: Vec<[f64; 3]> =
            serde_json::from_str(include_str!("../../../../tests/vectors/methods/truncation.json")).unwrap();
        assert!(table.len() > 200);
        for [smoothing, a, expected] in table {
            let value = SmoothTruncation::new(smoothing).value(a);
            assert!((value - expected).abs() <= 1e-12, "smoothing {smoothing}, a {a}: {value}, expected {expected}");
        }
    }

    #[test]
    fn tails_of_the_normal_law_have_fifteen_digits_after_the_point() {
        // 0.5 erfc(t / sqrt 2), mpmath.
        for (t, expected) in [
            (0.0, 0.5),
            (0.3, 0.382_088_577_811_047_3),
            (1.7, 0.044565462758543006),
            (3.9999, 3.16846275326355e-5),
            (4.0, 3.167124183311992e-5),
            (9.0, 1.1285884059538403e-19),
            (-5.0, 0.9999997133484281),
        ] {
            assert!((upper_tail(t) - expected).abs() < 1e-15, "{t}: {}", upper_tail(t));
        }
    }

    proptest! {
        #[test]
        fn any_input_stays_within_the_bound(a in proptest::num::f64::ANY, smoothing in 0.1..100.0_f64) {
            let smooth = SmoothTruncation::new(smoothing);
            prop_assert!(smooth.value(a).abs() <= smooth.bound());
        }
    }
}
