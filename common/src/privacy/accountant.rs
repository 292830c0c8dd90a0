//! What a run of Gaussian releases costs: one sum of `(sensitivity / sigma)^2` and its two readings as (epsilon, delta).
//!
//! Every release of this crate is Gaussian noise on a full batch, so adaptive composition is one addition. Read as
//! zero-concentrated differential privacy the sum is `2 rho`; read as Gaussian differential privacy it is `mu^2`. The
//! first reading holds for discrete noise in any number of dimensions as it stands. The second is the curve of continuous noise,
//! and discrete noise pays a part of delta for it.
//!
//! # What discrete noise pays under the Gaussian curve
//!
//! Let an integer of the discrete Gaussian of scale `S` have the law `p`, and let `q` be the law of a normal variable of standard
//! deviation `S` rounded to the nearest integer. With `f` the normal density, `p(k) = f(k)/T`, where `T = sum f(k) >= 1` by Poisson's
//! formula, and `q(k)/f(k)` is the integral of `exp(-t^2/(2 S^2)) cosh(k t/S^2)` over `|t| <= 1/2`, at least `1 - 1/(24 S^2)`. So
//! `p(k) - q(k) <= f(k)/(24 S^2)` for every `k`, and the total variation `sum max(0, p - q)` is at most `T/(24 S^2)`, below
//! [`ROUNDED`] `= 2^-84` for the scale `S = 2^40` of every release.
//!
//! Fix two neighbours. Replace, in every number whose exact value the two may differ in, the discrete noise by rounded normal
//! noise; all other noise has one law under both. As exact values are integers, value plus rounded noise is the rounding of
//! value plus normal noise: post-processing of continuous Gaussian releases, whose adaptive composition is `mu`-Gaussian private.
//! Replacing `N` numbers moves the law of everything that is ever released by at most `N 2^-84` in total variation, whatever is chosen
//! adaptively, because the two noises can be coupled number by number. Hence for each event `E`
//! `P(E) <= e^epsilon P'(E) + delta(epsilon, mu) + (1 + e^epsilon) N 2^-84`.
//!
//! A release of `d` numbers that a row may move is made only with `mu^2 >= d 2^-36` ([`enough_for`]), so a sum `mu^2` of charges stands for
//! at most `1.5 mu^2 2^36` numbers: tables that are free beside vectors (`residual`) add at most a quarter, and parts that are charged
//! together (`crossprod`) add up to at most 1.42 times their charge; a run has one of the two. The exact accountant therefore claims `delta(epsilon, mu) + (1 + e^epsilon) 1.5 mu^2 2^-48`: at epsilon 3 and delta
//! 1e-6 the addition is less than 1e-7 of delta. Where it costs more than the conversion of zero-concentrated privacy, that one is
//! used, which holds for the same releases.
//!
//! All functions round towards the safe side: a delta or an epsilon is never below the true one, a permitted `mu` or
//! `rho` never above it. Arguments without meaning (NaN, negative) give the answer that permits nothing.
//!
//! # Reference
//!
//! Balle and Wang 2018, Theorem 8 (the Gaussian curve). Dong, Roth and Su 2022, Corollary 3.3 (composition). Smith and
//! Thakurta 2022 (the sum is a valid filter under adaptive choice). Canonne, Kamath and Steinke 2020, Corollary 13 (the
//! tight conversion of zero-concentrated privacy) and Theorem 4 (discrete noise costs what continuous noise costs).

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

/// Total variation between an integer of the discrete Gaussian of 2^40 steps and a rounded normal one, at most: 2^-84.
pub const ROUNDED: f64 = 1.0 / ((1u128 << 84) as f64);

/// Numbers that a release may have for each unit of its `mu^2`: 2^36.
const NUMBERS_PER_SHARE: f64 = (1u64 << 36) as f64;

/// Numbers for each unit of what is charged: tables that are free beside vectors add a quarter, and of releases that are charged together,
/// as a row cannot move all of them as far as each alone, the parts add up to at most 1.42 times the charge; a run has one of the two.
const FREE_NUMBERS: f64 = 1.5;

/// What every quotient is enlarged by before it is charged: 2^-50, more than the division may be off, and a number that a double can
/// hold beside 1.
pub const ROUNDING_MARGIN: f64 = 1.0 / ((1u64 << 50) as f64);

/// Largest epsilon that needs no recorded override.
pub const LARGEST_EPSILON: f64 = 10.0;

/// How the sum of squared ratios is read as (epsilon, delta).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Accountant {
    /// Zero-concentrated privacy with the tight conversion: proved end to end for discrete noise.
    #[default]
    Zcdp,
    /// The Gaussian curve, less the part of delta that discrete noise pays for it: about 8 % less noise.
    Exact,
}

impl Accountant {
    /// The word in studies and reports.
    pub fn name(self) -> &'static str {
        match self {
            Accountant::Zcdp => "zcdp",
            Accountant::Exact => "exact",
        }
    }

    /// The largest sum of `(sensitivity / sigma)^2` that keeps (epsilon, delta), rounded down.
    pub fn cap(self, epsilon: f64, delta: f64) -> f64 {
        match self {
            Accountant::Zcdp => (2.0 * concentrated_rho(epsilon, delta)).next_down().max(0.0),
            Accountant::Exact => {
                let mu = largest_parameter(epsilon, delta, lattice_delta);
                (mu * mu).next_down().max(Accountant::Zcdp.cap(epsilon, delta))
            }
        }
    }

    /// The epsilon that a sum of `(sensitivity / sigma)^2` amounts to at `delta`, rounded up.
    pub fn epsilon(self, sum: f64, delta: f64) -> f64 {
        match self {
            Accountant::Zcdp => concentrated_epsilon((sum / 2.0).next_up(), delta),
            Accountant::Exact => {
                let mu = sum.sqrt().next_up();
                let by_curve = lattice_epsilon(mu, delta);
                if sum > 0.0 { by_curve.min(Accountant::Zcdp.epsilon(sum, delta)) } else { by_curve }
            }
        }
    }
}

/// A privacy budget for the lifetime of one data set, checked once.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Budget {
    epsilon: f64,
    delta: f64,
    accountant: Accountant,
}

/// Why a budget was refused.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum BudgetError {
    /// Epsilon is not a positive number.
    #[error("epsilon must be a positive number, got {epsilon}")]
    Epsilon {
        /// What came.
        epsilon: f64,
    },
    /// Epsilon is so large that it promises next to nothing, and nobody has put that on record. A study says so in its own words: this is
    /// about the budget of a data set.
    #[error(
        "epsilon {epsilon} is above {LARGEST_EPSILON}: say in your own private file why that is meant (`large_epsilon` below `[privacy]`)"
    )]
    Weak {
        /// What came.
        epsilon: f64,
    },
    /// Delta lies outside (0, 1/n].
    #[error("delta must lie in (0, 1/n], n = {rows}, got {delta}: a delta above 1/n permits publishing whole rows")]
    Delta {
        /// What came.
        delta: f64,
        /// Rows of the data set.
        rows: u64,
    },
}

impl Budget {
    /// Checks a budget for `rows` rows; `override_recorded` says that a file states in writing that an epsilon above
    /// [`LARGEST_EPSILON`] is meant.
    ///
    /// # Errors
    ///
    /// An epsilon that is not positive, or above the limit without an override, and a delta outside (0, 1/n].
    pub fn new(
        epsilon: f64,
        delta: f64,
        accountant: Accountant,
        rows: u64,
        override_recorded: bool,
    ) -> Result<Budget, BudgetError> {
        if !(epsilon > 0.0 && epsilon.is_finite()) {
            return Err(BudgetError::Epsilon { epsilon });
        }
        if epsilon > LARGEST_EPSILON && !override_recorded {
            return Err(BudgetError::Weak { epsilon });
        }
        // The quotient is rounded to nearest; one unit in the last place of 1/n is no risk, a refusal of exactly 1/n
        // would be a riddle.
        if !(delta > 0.0 && delta < 1.0 && rows > 0 && delta <= 1.0 / rows as f64) {
            return Err(BudgetError::Delta { delta, rows });
        }
        Ok(Budget { epsilon, delta, accountant })
    }

    /// The delta that is used where the study states none: the smaller of 1e-6 and 1/(10 n).
    pub fn default_delta(rows: u64) -> f64 {
        (0.1 / rows.max(1) as f64).min(1e-6)
    }

    /// Epsilon.
    pub fn epsilon(&self) -> f64 {
        self.epsilon
    }

    /// Delta.
    pub fn delta(&self) -> f64 {
        self.delta
    }

    /// How sums are read.
    pub fn accountant(&self) -> Accountant {
        self.accountant
    }

    /// The largest sum of `(sensitivity / sigma)^2` that may ever be charged.
    pub fn cap(&self) -> f64 {
        self.accountant.cap(self.epsilon, self.delta)
    }
}

/// Adds a charge to a sum so that rounding never makes the sum smaller than it is.
pub fn add_charge(sum: f64, charge: f64) -> f64 {
    if charge == 0.0 { sum } else { (sum + charge).next_up() }
}

/// The sum for a person who has a row in both parties' blocks, towards anyone who sees the merged result.
pub fn joint_sum(first: f64, second: f64) -> f64 {
    add_charge(first, second)
}

/// Why a share of a budget buys no release.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum ScaleError {
    /// The quotient of sensitivity and share is no number that noise can have.
    #[error("no noise has standard deviation {sigma} on a lattice of step {step}")]
    Sigma {
        /// Noise standard deviation.
        sigma: f64,
        /// Lattice step.
        step: f64,
    },
    /// More numbers than the share may have, see the head of the accountant.
    #[error("the share mu = {mu} is too small for a release of {numbers} numbers: it must be at least {least:e}")]
    Thin {
        /// The share.
        mu: f64,
        /// Numbers of the release.
        numbers: f64,
        /// The smallest share that this number of entries may have.
        least: f64,
    },
}

/// The Gaussian-privacy parameter of a release: sensitivity over sigma, rounded up by more than the division may be off.
///
/// # Errors
///
/// Arguments that are not positive numbers.
pub fn charged_mu(sensitivity: f64, sigma: f64) -> Result<f64, ScaleError> {
    if !(sensitivity >= 0.0 && sensitivity.is_finite() && sigma > 0.0 && sigma.is_finite()) {
        return Err(ScaleError::Sigma { sigma, step: f64::NAN });
    }
    Ok((sensitivity / sigma * (1.0 + ROUNDING_MARGIN)).next_up())
}

/// Whether a share `mu` may have a release of a given number of numbers that a row can move.
///
/// # Errors
///
/// A share below `sqrt(numbers) 2^-18`.
pub fn enough_for(mu: f64, numbers: f64) -> Result<(), ScaleError> {
    let numbers = numbers.max(1.0);
    match mu * mu * NUMBERS_PER_SHARE >= numbers {
        true => Ok(()),
        false => Err(ScaleError::Thin { mu, numbers, least: (numbers / NUMBERS_PER_SHARE).sqrt() }),
    }
}

/// The delta at `epsilon` of discrete releases with sum `mu^2`, rounded up: the Gaussian curve and what the lattice adds to it.
pub fn lattice_delta(epsilon: f64, mu: f64) -> f64 {
    let curve = gaussian_delta(epsilon, mu);
    let numbers = FREE_NUMBERS * NUMBERS_PER_SHARE * mu * mu;
    let lattice = numbers * ROUNDED * (1.0 + epsilon.exp()) * (1.0 + 1e-12);
    // No sum, no numbers, however large the exponential; and arguments without meaning permit nothing.
    if mu == 0.0 || lattice.is_nan() { curve } else { (curve + lattice).next_up().min(1.0) }
}

/// The smallest epsilon at which [`lattice_delta`] is within `delta`, rounded up; infinite where none was found.
fn lattice_epsilon(mu: f64, delta: f64) -> f64 {
    // The curve falls with epsilon and what the lattice adds grows, so a search by halves could pass over what there is. From below: the
    // epsilon of the curve at what the lattice at the epsilon before leaves of delta.
    let mut epsilon = gaussian_epsilon(mu, delta);
    for _ in 0..100 {
        let candidate = epsilon * (1.0 + 1e-12);
        let owed = lattice_delta(candidate, mu);
        if owed <= delta || !candidate.is_finite() {
            return candidate;
        }
        epsilon = gaussian_epsilon(mu, delta - (owed - gaussian_delta(candidate, mu)));
    }
    f64::INFINITY
}

/// The delta of a `mu`-Gaussian release at `epsilon`, rounded up.
///
/// With `t = epsilon/mu - mu/2` and the Mills ratio `M(s) = Phi(-s)/phi(s)` the curve
/// `Phi(-t) - e^epsilon Phi(-t-mu)` equals `phi(t) (M(t) - M(t+mu))`, and `-M'(s) = 1 - s M(s)` is positive and has a
/// form without cancellation. Integrating it keeps full relative accuracy where the two terms agree to many digits.
pub fn gaussian_delta(epsilon: f64, mu: f64) -> f64 {
    if mu == 0.0 && epsilon >= 0.0 {
        return 0.0;
    }
    if !(mu > 0.0 && mu.is_finite() && epsilon >= 0.0) {
        // A negative or undefined argument, or no noise at all: nothing is promised, except at infinite epsilon.
        return if mu >= 0.0 && epsilon == f64::INFINITY { 0.0 } else { 1.0 };
    }
    if epsilon == f64::INFINITY {
        return 0.0;
    }
    let t = epsilon / mu - mu / 2.0;
    if t > 38.0 {
        // phi(38) < 1e-314: below the normal numbers, and never zero.
        return f64::MIN_POSITIVE;
    }
    let value =
        if t < -3.0 { 1.0 - (normal_tail(-t) + density(t) * mills(t + mu)) } else { density(t) * mills_drop(t, mu) };
    let relative = 1e-14 + 1e-15 * (t.abs() * (epsilon / mu + mu / 2.0) + t * t);
    (value * (1.0 + relative)).clamp(f64::MIN_POSITIVE, 1.0)
}

/// The smallest epsilon at which a `mu`-Gaussian release has the given delta, rounded up; infinite where none has.
pub fn gaussian_epsilon(mu: f64, delta: f64) -> f64 {
    smallest_epsilon(delta, |epsilon| gaussian_delta(epsilon, mu))
}

/// The largest `mu` for which a Gaussian release keeps (epsilon, delta), rounded down. One release of sensitivity D
/// then needs `sigma = D / mu`.
pub fn gaussian_mu(epsilon: f64, delta: f64) -> f64 {
    largest_parameter(epsilon, delta, gaussian_delta)
}

/// The delta of a `rho`-zCDP release at `epsilon`, rounded up: the minimum over `alpha` of
/// `exp((alpha-1)(alpha rho - epsilon)) (1 - 1/alpha)^alpha / (alpha - 1)`.
///
/// Any `alpha` above 1 gives a valid bound, so an inexact minimiser costs accuracy and never privacy.
pub fn concentrated_delta(epsilon: f64, rho: f64) -> f64 {
    if rho == 0.0 && epsilon >= 0.0 {
        return 0.0;
    }
    if !(rho > 0.0 && rho.is_finite() && epsilon >= 0.0) {
        return if rho >= 0.0 && epsilon == f64::INFINITY { 0.0 } else { 1.0 };
    }
    if epsilon == f64::INFINITY {
        return 0.0;
    }
    let slope = |alpha: f64| (2.0 * alpha - 1.0) * rho - epsilon + (-1.0 / alpha).ln_1p();
    let (mut low, mut high) = (1.0 + 1e-9, ((epsilon + 1.0) / (2.0 * rho) + 2.0).max(3.0));
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if slope(middle) < 0.0 { low = middle } else { high = middle }
    }
    let alpha = high;
    let terms =
        [(alpha - 1.0) * alpha * rho, -(alpha - 1.0) * epsilon, alpha * (-1.0 / alpha).ln_1p(), -(alpha - 1.0).ln()];
    let size: f64 = terms.iter().map(|term| term.abs()).sum();
    let exponent = terms.iter().sum::<f64>() + 1e-15 * size + 1e-14;
    exponent.min(0.0).exp().max(f64::MIN_POSITIVE)
}

/// The smallest epsilon at which a `rho`-zCDP release has the given delta, rounded up.
pub fn concentrated_epsilon(rho: f64, delta: f64) -> f64 {
    smallest_epsilon(delta, |epsilon| concentrated_delta(epsilon, rho))
}

/// The largest `rho` for which a zCDP release keeps (epsilon, delta), rounded down.
pub fn concentrated_rho(epsilon: f64, delta: f64) -> f64 {
    largest_parameter(epsilon, delta, concentrated_delta)
}

fn smallest_epsilon(delta: f64, curve: impl Fn(f64) -> f64) -> f64 {
    if !(delta > 0.0 && delta < 1.0) {
        return if delta >= 1.0 { 0.0 } else { f64::INFINITY };
    }
    if curve(0.0) <= delta {
        return 0.0;
    }
    let mut high = 1.0;
    while curve(high) > delta {
        high *= 2.0;
        if high > 1e300 {
            return f64::INFINITY;
        }
    }
    let mut low = if high > 1.0 { high / 2.0 } else { 0.0 };
    for _ in 0..1100 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if curve(middle) > delta { low = middle } else { high = middle }
    }
    high
}

fn largest_parameter(epsilon: f64, delta: f64, curve: fn(f64, f64) -> f64) -> f64 {
    if !(epsilon >= 0.0 && epsilon.is_finite() && delta > 0.0 && delta < 1.0) {
        return 0.0;
    }
    let mut high = 1.0;
    while curve(epsilon, high) <= delta {
        high *= 2.0;
    }
    let mut low = if high > 1.0 { high / 2.0 } else { 0.0 };
    for _ in 0..1100 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if curve(epsilon, middle) <= delta { low = middle } else { high = middle }
    }
    low
}

/// Density of the standard normal law.
pub fn density(x: f64) -> f64 {
    (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

/// From here on the continued fraction of the Mills ratio is used, below it the power series of the distribution.
const FRACTION_FROM: f64 = 1.5;

/// Upper tail `P(Z > x)` of the standard normal law, relatively accurate for large `x`.
///
/// The error function of `statrs` is off by 1e-11, which is too much for the round trips promised here.
pub fn normal_tail(x: f64) -> f64 {
    if x >= FRACTION_FROM {
        return density(x) / (x + mills_fraction(x));
    }
    if x <= -6.0 {
        return 1.0 - density(x) / (mills_fraction(-x) - x);
    }
    // Phi(x) - 1/2 = phi(x) (x + x^3/3 + x^5/15 + ...)
    let (mut term, mut sum, mut odd) = (x, x, 1.0);
    while term.abs() > 1e-18 * sum.abs() {
        odd += 2.0;
        term *= x * x / odd;
        sum += term;
    }
    0.5 - density(x) * sum
}

/// The continued fraction `K(s) = 1/(s + 2/(s + 3/(s + ...)))`, from which `M = 1/(s + K)`, for `s` of at least [`FRACTION_FROM`]. More terms
/// change no bit of it.
fn mills_fraction(s: f64) -> f64 {
    // How many matter falls with the square of s, and these are some more: a test compares.
    let terms = 15 + (900.0 / (s * s)) as u32;
    // What is left out is nearly the t of t = k / (s + t).
    let next = f64::from(terms + 1);
    let mut tail = 2.0 * next / (s + (s * s + 4.0 * next).sqrt());
    for k in (1..=terms).rev() {
        tail = f64::from(k) / (s + tail);
    }
    tail
}

/// The Mills ratio `P(Z > s) / density(s)`.
fn mills(s: f64) -> f64 {
    if s >= FRACTION_FROM { 1.0 / (s + mills_fraction(s)) } else { normal_tail(s) / density(s) }
}

/// `1 - s M(s)`, the negative slope of the Mills ratio.
fn mills_slope(s: f64) -> f64 {
    if s >= FRACTION_FROM {
        let fraction = mills_fraction(s);
        fraction / (s + fraction)
    } else {
        1.0 - s * mills(s)
    }
}

/// `M(t) - M(t + width)` by Gauss-Legendre quadrature of its slope over panels of at most one unit.
fn mills_drop(t: f64, width: f64) -> f64 {
    // Beyond 45 units the remaining drop is M itself, and the difference has no cancellation left.
    let near = width.min(45.0);
    let panels = near.ceil().max(1.0) as u32;
    let half = near / f64::from(panels) / 2.0;
    let mut total = 0.0;
    for panel in (0..panels).rev() {
        let centre = t + half * (2.0 * f64::from(panel) + 1.0);
        let part: f64 = legendre().iter().map(|&(node, weight)| weight * mills_slope(centre + half * node)).sum();
        total += half * part;
    }
    if width > near {
        total += mills(t + near) - mills(t + width);
    }
    total
}

/// Nodes and weights of Gauss-Legendre quadrature on [-1, 1].
pub fn legendre() -> &'static [(f64, f64)] {
    static RULE: OnceLock<Vec<(f64, f64)>> = OnceLock::new();
    RULE.get_or_init(|| {
        let count = 20u32;
        (0..count)
            .map(|index| {
                let mut x = (std::f64::consts::PI * (f64::from(index) + 0.75) / (f64::from(count) + 0.5)).cos();
                let mut derivative = 1.0;
                for _ in 0..60 {
                    let (mut previous, mut current) = (1.0, x);
                    for k in 2..=count {
                        let k = f64::from(k);
                        (previous, current) = (current, ((2.0 * k - 1.0) * x * current - (k - 1.0) * previous) / k);
                    }
                    derivative = f64::from(count) * (x * current - previous) / (x * x - 1.0);
                    let step = current / derivative;
                    x -= step;
                    if step.abs() < 1e-16 {
                        break;
                    }
                }
                (x, 2.0 / ((1.0 - x * x) * derivative * derivative))
            })
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Vectors {
        gaussian: Vec<[f64; 3]>,
        concentrated: Vec<[f64; 3]>,
        calibration: Vec<[f64; 3]>,
        loss_distribution: Vec<LossDistribution>,
    }

    #[derive(Deserialize)]
    struct LossDistribution {
        count: f64,
        sigma: f64,
        delta: f64,
        epsilon: f64,
    }

    fn vectors() -> Vectors {
        serde_json::from_str(include_str!("../../../tests/vectors/privacy/accountant.json")).unwrap()
    }

    #[test]
    fn more_terms_of_the_mills_ratio_change_no_bit() {
        let with = |terms: u32, s: f64| (1..=terms).rev().fold(0.0, |tail, k| f64::from(k) / (s + tail));
        let points =
            (0..60_000).map(|i| FRACTION_FROM + 1e-4 * f64::from(i)).chain((0..500).map(|i| 7.5 + 0.1 * f64::from(i)));
        for s in points {
            assert_eq!(mills_fraction(s), with(1500, s), "{s}");
        }
        assert!((mills_fraction(1e8) * 1e8 - 1.0).abs() < 1e-15);
        assert_eq!([1e160, f64::INFINITY].map(mills_fraction), [1e-160, 0.0]);
    }

    #[test]
    fn one_release_at_epsilon_one_needs_the_textbook_sigma() {
        assert!((1.0 / gaussian_mu(1.0, 1e-5) - 3.7306).abs() < 2e-4);
        for (epsilon, mu) in [(1.0, 0.26805), (3.0, 0.71912), (5.0, 1.12124), (10.0, 2.00045)] {
            assert!((gaussian_mu(epsilon, 1e-5) - mu).abs() < 1e-5, "epsilon {epsilon}");
        }
        for (epsilon, rho) in [(1.0, 0.03056), (3.0, 0.22425), (10.0, 1.7827)] {
            assert!((concentrated_rho(epsilon, 1e-5) / rho - 1.0).abs() < 2e-4, "epsilon {epsilon}");
        }
    }

    #[test]
    fn the_calibration_table_holds_to_three_digits() {
        let table = [
            (0.1, 33.98, 30.75),
            (0.5, 7.667, 7.032),
            (1.0, 4.045, 3.731),
            (3.0, 1.493, 1.391),
            (5.0, 0.953, 0.892),
            (10.0, 0.530, 0.500),
        ];
        for (epsilon, concentrated, exact) in table {
            let by_zcdp: f64 = 1.0 / (2.0 * concentrated_rho(epsilon, 1e-5)).sqrt();
            let by_curve: f64 = 1.0 / gaussian_mu(epsilon, 1e-5);
            // Half a unit of the table's last digit; its values above 10 have two decimals.
            let half_unit = if epsilon < 0.5 { 5.1e-3 } else { 5.1e-4 };
            assert!((by_zcdp - concentrated).abs() < half_unit, "epsilon {epsilon}: {by_zcdp}");
            assert!((by_curve - exact).abs() < half_unit, "epsilon {epsilon}: {by_curve}");
        }
        for [epsilon, by_zcdp, by_curve] in vectors().calibration {
            assert!((1.0 / (2.0 * concentrated_rho(epsilon, 1e-5)).sqrt() / by_zcdp - 1.0).abs() < 1e-9);
            assert!((1.0 / gaussian_mu(epsilon, 1e-5) / by_curve - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn the_curve_agrees_with_fifty_digit_arithmetic_and_never_lies_below_it() {
        for [epsilon, mu, delta] in vectors().gaussian {
            let ours = gaussian_delta(epsilon, mu);
            assert!(ours >= delta, "epsilon {epsilon} mu {mu}: {ours:e} below {delta:e}");
            assert!(ours / delta - 1.0 < 1e-10, "epsilon {epsilon} mu {mu}: {ours:e} against {delta:e}");
        }
        for [epsilon, rho, delta] in vectors().concentrated {
            let ours = concentrated_delta(epsilon, rho);
            assert!(ours >= delta, "epsilon {epsilon} rho {rho}: {ours:e} below {delta:e}");
            assert!(ours / delta - 1.0 < 1e-10, "epsilon {epsilon} rho {rho}: {ours:e} against {delta:e}");
        }
    }

    #[test]
    fn compositions_agree_with_an_independent_accountant() {
        for case in vectors().loss_distribution {
            let ours = Accountant::Exact.epsilon(case.count / (case.sigma * case.sigma), case.delta);
            assert!((ours - case.epsilon).abs() < 1e-3, "{} at {}: {ours} {}", case.count, case.sigma, case.epsilon);
        }
    }

    #[test]
    fn epsilon_and_mu_invert_each_other_and_stay_on_the_safe_side() {
        for epsilon in [1e-3, 0.1, 1.0, 3.0, 10.0, 40.0] {
            for delta in [1e-3, 1e-5, 1e-9, 1e-15, 1e-30] {
                let mu = gaussian_mu(epsilon, delta);
                assert!(gaussian_delta(epsilon, mu) <= delta);
                assert!((gaussian_epsilon(mu, delta) / epsilon - 1.0).abs() < 1e-10, "{epsilon} {delta}");
                assert!((gaussian_delta(epsilon, mu) / delta - 1.0).abs() < 1e-10, "{epsilon} {delta}");
                let rho = concentrated_rho(epsilon, delta);
                assert!(concentrated_delta(epsilon, rho) <= delta);
                assert!((concentrated_epsilon(rho, delta) / epsilon - 1.0).abs() < 1e-10, "{epsilon} {delta}");
                assert!(mu * mu / 2.0 > rho, "the curve permits more than the conversion");
            }
        }
    }

    #[test]
    fn strange_arguments_permit_nothing() {
        for bad in [f64::NAN, -1.0, f64::NEG_INFINITY] {
            assert_eq!(gaussian_delta(1.0, bad), 1.0);
            assert_eq!(gaussian_delta(bad, 1.0), 1.0);
            assert_eq!(gaussian_mu(bad, 1e-5), 0.0);
            assert_eq!(gaussian_mu(1.0, bad), 0.0);
            assert_eq!(gaussian_epsilon(bad, 1e-5), f64::INFINITY);
            assert_eq!(gaussian_epsilon(1.0, bad), f64::INFINITY);
            assert_eq!(concentrated_delta(1.0, bad), 1.0);
            assert_eq!(concentrated_rho(1.0, bad), 0.0);
            assert_eq!(concentrated_epsilon(bad, 1e-5), f64::INFINITY);
        }
        for zero in [0.0, -0.0] {
            assert_eq!(gaussian_delta(1.0, zero), 0.0);
            assert_eq!(gaussian_epsilon(zero, 1e-5), 0.0);
            assert_eq!(gaussian_mu(1.0, zero), 0.0);
            assert_eq!(gaussian_epsilon(1.0, zero), f64::INFINITY);
        }
        assert_eq!(gaussian_delta(1.0, f64::MAX), 1.0);
        assert_eq!(gaussian_delta(1.0, f64::INFINITY), 1.0);
        assert_eq!(gaussian_epsilon(f64::INFINITY, 1e-5), f64::INFINITY);
        assert_eq!(gaussian_mu(f64::INFINITY, 1e-5), 0.0);
        assert!(gaussian_delta(f64::MAX, 1.0) > 0.0);
        assert!(Accountant::Exact.epsilon(f64::NAN, 1e-5).is_infinite());
        assert!(Accountant::Zcdp.epsilon(-1.0, 1e-5).is_infinite());
    }

    #[test]
    fn a_person_in_both_blocks_pays_for_both() {
        for (epsilon, joint) in [(1.0, 1.47), (3.0, 4.46), (10.0, 15.5)] {
            let cap = Accountant::Exact.cap(epsilon, 1e-5);
            let both = Accountant::Exact.epsilon(joint_sum(cap, cap), 1e-5);
            assert!((both / joint - 1.0).abs() < 5e-3, "{both}");
        }
    }

    #[test]
    fn budgets_without_meaning_are_refused() {
        let make = |epsilon, delta| Budget::new(epsilon, delta, Accountant::Exact, 1000, false);
        for epsilon in [0.0, -0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(matches!(make(epsilon, 1e-5), Err(BudgetError::Epsilon { .. })));
        }
        let weak = make(10.1, 1e-5).unwrap_err();
        assert!(
            matches!(weak, BudgetError::Weak { .. }) && weak.to_string().contains("`large_epsilon` below `[privacy]`")
        );
        assert!(Budget::new(10.1, 1e-5, Accountant::Exact, 1000, true).is_ok());
        for delta in [0.0, -1e-9, 1.1e-3, 1.0, f64::NAN, f64::INFINITY] {
            assert!(matches!(make(1.0, delta), Err(BudgetError::Delta { .. })), "{delta}");
        }
        assert!(make(1.0, 1e-3).is_ok());
        assert!(Budget::new(1.0, 1e-5, Accountant::Exact, 0, false).is_err());
    }

    /// Exact: a fused product is rounded once, so its sign is that of the exact difference.
    #[test]
    fn a_charged_quotient_is_larger_than_the_exact_one_by_a_margin_that_is_really_there() {
        const { assert!(1.0 + ROUNDING_MARGIN > 1.0, "a margin that vanishes in the sum with 1 is none") };
        let mut value = 0.37_f64;
        for _ in 0..10_000 {
            value = (value * 1.618_033_988_75).fract() + 1e-3;
            for (sensitivity, sigma) in [(value, 1.0), (1.0, value), (value, 3.0), (value * 1e-9, value.sqrt() * 1e7)] {
                let mu = charged_mu(sensitivity, sigma).unwrap();
                let surplus = mu.mul_add(sigma, -sensitivity);
                assert!(surplus > sensitivity * 0.5 * ROUNDING_MARGIN, "{sensitivity} {sigma}: {surplus:e}");
                assert!(surplus < sensitivity * 4.0 * ROUNDING_MARGIN, "{sensitivity} {sigma}: {surplus:e}");
            }
        }
        assert!(charged_mu(0.0, 1.0).unwrap() > 0.0);
        for bad in [f64::NAN, f64::INFINITY, -1.0] {
            assert!(charged_mu(bad, 1.0).is_err() && charged_mu(1.0, bad).is_err(), "{bad}");
        }
        assert!(charged_mu(1.0, 0.0).is_err() && charged_mu(1.0, -0.0).is_err());
    }

    /// The bound at the head of this file, on lattices so coarse that it can be seen.
    #[test]
    fn a_rounded_normal_is_as_near_to_the_discrete_law_as_is_claimed() {
        for scale in [1.0_f64, 2.0, 4.0, 16.0] {
            let reach = (12.0 * scale) as i64;
            let density = |k: f64| density(k / scale) / scale;
            let total: f64 = (-reach..=reach).map(|k| density(k as f64)).sum();
            let variation: f64 = (-reach..=reach)
                .map(|k| {
                    let k = k as f64;
                    let cell: f64 =
                        legendre().iter().map(|&(node, weight)| 0.5 * weight * density(k + 0.5 * node)).sum();
                    (density(k) / total - cell).max(0.0)
                })
                .sum();
            let claimed = total / (24.0 * scale * scale);
            assert!(variation <= claimed && variation > 0.2 * claimed, "scale {scale}: {variation:e} of {claimed:e}");
        }
        let scale = (1u64 << 40) as f64;
        assert!(ROUNDED > 1.4 / (24.0 * scale * scale) && ROUNDED < 2.0 / (24.0 * scale * scale));
    }

    #[test]
    fn the_exact_accountant_pays_for_its_lattice_and_is_never_worse_than_the_proved_one() {
        for (epsilon, delta) in [(0.1, 1e-6), (1.0, 1e-5), (3.0, 1e-6), (10.0, 1e-6), (10.0, 1e-9), (25.0, 1e-12)] {
            let cap = Accountant::Exact.cap(epsilon, delta);
            let concentrated = Accountant::Zcdp.cap(epsilon, delta);
            assert!(
                cap < gaussian_mu(epsilon, delta).powi(2),
                "epsilon {epsilon}: continuous noise has no lattice to pay for"
            );
            assert!(cap >= concentrated, "epsilon {epsilon}");
            // What the curve leaves of delta covers every number that the sum may stand for.
            let numbers = 1.5 * cap * 2f64.powi(36);
            let owed = (1.0 + epsilon.exp()) * numbers * 2f64.powi(-84);
            let by_curve = gaussian_delta(epsilon, cap.sqrt());
            assert!(
                cap == concentrated || by_curve + owed <= delta * (1.0 + 1e-9),
                "epsilon {epsilon}: {by_curve:e} {owed:e}"
            );
            assert!(Accountant::Exact.epsilon(cap, delta) <= epsilon * (1.0 + 1e-9));
        }
        let usual = Accountant::Exact.cap(3.0, 1e-6) / gaussian_mu(3.0, 1e-6).powi(2);
        assert!(usual > 1.0 - 1e-6, "what it costs is nothing to speak of: {usual}");
        // Where the curve has nothing left of delta the other reading still holds.
        assert_eq!(Accountant::Exact.cap(60.0, 1e-12), Accountant::Zcdp.cap(60.0, 1e-12));
    }

    #[test]
    fn a_share_has_no_more_numbers_than_the_sum_may_stand_for() {
        let least = 2f64.powi(-18);
        assert!(enough_for(least, 1.0).is_ok() && enough_for(least, 0.0).is_ok());
        assert!(enough_for(least.next_down(), 1.0).is_err());
        assert!(enough_for(1e-3, 60_000.0).is_ok() && enough_for(1e-3, 1e6).is_err());
        for bad in [0.0, -0.0, f64::NAN] {
            assert!(enough_for(bad, 1.0).is_err(), "{bad}");
        }
    }

    #[test]
    fn adding_charges_never_rounds_down() {
        let mut sum = 0.0;
        for _ in 0..10 {
            sum = add_charge(sum, 0.1);
        }
        assert!((1.0..1.0 + 1e-14).contains(&sum));
        assert_eq!(add_charge(0.25, 0.0), 0.25);
    }
}
