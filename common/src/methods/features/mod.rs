//! Kernel regression by random features, in a form that may be released.
//!
//! # Model
//!
//! With frequencies `w_k ~ N(0, sd^2 I)` from a public seed a row `x`, scaled by public ranges to `[0, 1]`, becomes
//! `[cos w_k'x, sin w_k'x] / sqrt(N/2)`, `k = 1..N/2` ([`FeatureMap`]). The inner product of two such rows approaches the
//! kernel `exp(-sd^2 |x - z|^2 / 2)`, and every row has norm exactly 1: no event of small probability is excluded from the
//! proofs. The outcome is cut to `|y - y0| <= Y` with public centre `y0` and half range `Y`; regression is ridge in the features.
//!
//! # What leaves
//!
//! - [`Statistics`]: the features' cross-products `A'A` and `A'(y - y0)/Y` with noise, once. The coordinator adds the tables of
//!   the sites and solves, with a ridge where the noisy spectrum is mostly noise ([`Statistics::solve`]).
//! - [`output_perturbation`]: one site's ridge solution with noise. Where sites may be corrupted these are
//!   consolidated; elsewhere the statistics are better.
//! - Plain: [`ridge`] on rows that are all in one place.
//!
//! Anyone with the seed and the released coefficients can predict.
//!
//! # Proof of privacy
//!
//! Neighbours replace one record; seed and ranges are public, and anyone who knows them gains nothing beyond the release.
//!
//! *Statistics.* Rows `a`, `b` of norm at most 1, cut towards zero to multiples of 2^-15, outcomes in `[-1, 1]`. The release is the upper
//! triangle of `A'A`, off the diagonal times sqrt 2, then `A'y`: its Euclidean norm is the Frobenius norm and the norm together. The
//! difference is largest at `|y| = |v| = 1`, being convex in them, and grows with `|a|`: its derivative there, `4 r^3 + 2 r + 2 u - 4 r u^2` with
//! `r = |a|` and `u = |b| |c|`, `c` the cosine, is concave in `u` and positive at `u = 0` and `u = 1`. At unit rows `|aa' - bb'|^2 = 2 - 2 c^2`
//! and `|a y - b v|^2 <= 2 + 2 |c|`, together largest at `|c| = 1/2`: 4.5. Sensitivity sqrt 4.5 for both. All sums are integers.
//!
//! *Output perturbation.* `c` minimises `f(c) = |A c - y|^2 / 2m + lambda |c|^2 / 2`. For the data with one record replaced, `f` changes by
//! `h(c) = [(a'c - y)^2 - (b'c - v)^2] / 2m`, whose gradient at the minimiser is at most `(|a'c - y| + |b'c - v|)/m <= 2 (Y + |c|)/m`; strong
//! convexity makes `lambda |c - c'| <= |grad h|`. From `f(c) <= f(0)`: `|y - A c|^2/m + lambda |c|^2 <= Y^2`. In the singular basis of `A / sqrt m` the
//! solution is `s / (s^2 + lambda)` times the outcome's share, and `s/(s^2 + lambda) <= 1/(2 sqrt lambda)`: `|c| <= Y/(2 sqrt lambda)`. So
//! `2 Y (1 + 1/(2 sqrt lambda)) / (m lambda)` for every pair of neighbours. What is released is not the minimiser but a vector of whole units of
//! 2^-40 whose gradient is bounded by exact integer arithmetic, on every data set ([`output_perturbation`] says how, and why there always is
//! one): it lies within `sqrt N (1 + 1/lambda)` units of the minimiser, and twice that is in the sensitivity.
//!
//! *What has no proof.* Minimum-norm interpolation: as two rows approach each other its coefficients grow beyond any bound, so no noise
//! makes it private in the worst case. The source releases it with noise for an event of high probability; that and its
//! comparator with Gamma noise exist in the reproductions only, labelled as not private.
//!
//! # When to use it, when not
//!
//! For smooth functions of a few columns and some thousands of records. The noise in `A'A` has spectral norm near `sigma sqrt(2 N)`, so few
//! features serve better: `N = sqrt(m mu)`, between 20 and 200 ([`default_count`]), frequencies of .5 per column in `[0, 1]`. Choosing
//! either on the records is a further release. A linear relation is better served by linear statistics. At large frequencies
//! every record is nearly orthogonal to every other and the fit predicts nothing.
//!
//! # Reference
//!
//! C. Liao et al., "Differentially Private Random Feature Model", 2024, whose Algorithm 1 this replaces; A. Rahimi and B. Recht, NIPS 2007;
//! Y.-X. Wang, "Revisiting differentially private linear regression", UAI 2018, for noisy statistics with an adaptive
//! ridge; T. Strohmer and R. Vershynin 2009 for Kaczmarz's method.

pub mod forecast;
pub mod hub;
pub mod report;
pub mod site;
pub mod terms;

mod map;
mod output;
mod solve;
mod statistics;

pub use map::{FeatureMap, FeatureModel, Range};
pub use output::{output_perturbation, output_sensitivity};
pub use solve::{ridge, shortened_ridge};
pub use statistics::{Pooled, Statistics, default_count, sensitivity};

/// Largest number of features: the statistics of 2,000 features are two million numbers.
pub const LARGEST_STATISTICS: usize = 2000;

/// Settings or values that do not fit.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FeatureError {
    /// A number outside its range.
    #[error("{what} must be {expected}, got {actual}")]
    Setting {
        /// Which setting.
        what: &'static str,
        /// Its range in words.
        expected: &'static str,
        /// What it is.
        actual: f64,
    },
    /// A matrix or vector of another size.
    #[error("expected {expected} {what}, got {actual}")]
    Size {
        /// What is counted.
        what: &'static str,
        /// How many there should be.
        expected: usize,
        /// How many there are.
        actual: usize,
    },
    /// A value that is not finite.
    #[error("the {what} has a value that is not finite")]
    NotFinite {
        /// Which vector.
        what: &'static str,
    },
    /// A solution was asked for that the numbers do not determine.
    #[error("the system is singular to rounding")]
    Singular,
    /// A result file made by another study.
    #[error("the features belong to study {actual}, expected {expected}")]
    OtherStudy {
        /// Digest of this study.
        expected: String,
        /// Digest in the file.
        actual: String,
    },
}

pub(crate) fn setting(
    what: &'static str,
    expected: &'static str,
    actual: f64,
    sound: bool,
) -> Result<(), FeatureError> {
    if sound { Ok(()) } else { Err(FeatureError::Setting { what, expected, actual }) }
}

pub(crate) fn size(what: &'static str, expected: usize, actual: usize) -> Result<(), FeatureError> {
    if expected == actual { Ok(()) } else { Err(FeatureError::Size { what, expected, actual }) }
}

#[cfg(test)]
mod tests;
