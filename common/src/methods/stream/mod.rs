//! One pass over records that get their noise where they arise.
//!
//! # Model
//!
//! `y = f(x) + e` with one to three covariates, scaled by public ranges to `[0, 1]`, and `f` a function on a public grid. With
//! kernel `k`, grid `t`, `K = k(t, t) = L L'` and `k_x = k(t, x)`, functional stochastic gradient descent on Huber's loss adds
//! `step * psi * k_x` to `f(t)` for every record, `psi` the residual cut to `[-tau, tau]`; `f` between grid points is the kernel interpolant
//! `k_x' K^-1 f(t)`.
//!
//! Everything here is in whitened coordinates: `f(t) = L w` and `a(x) = L^-1 k_x` ([`Basis`]). Then `f(x) = a(x)'w`, a record adds `step * psi * a(x)`
//! to `w`, and noise that is white in `w` is the Gaussian process with covariance `K` on the grid. On a product grid `K` is a Kronecker
//! product, so a record costs as much as the grid has points. A grid with more than 4096 points is refused; where it is hopeless the
//! same scheme runs on random features with `|a(x)| = 1`.
//!
//! # What leaves
//!
//! Per record one vector `psi a(x)` with as many entries as the grid has points. With noise this is local privacy: the record is protected
//! from everyone, the coordinator included. Without noise the vector is proportional to `a(x)`, which gives `x` away, and its length the
//! residual. The coordinator publishes `w`, the average of the last half of its path, and the number of records.
//!
//! # Proof of privacy
//!
//! Neighbours replace one record by another. Given the published `w`, whatever it is, the message is `u = psi a(x)` cut to norm `tau B` in integer
//! arithmetic, `B^2 >= k(x, x)`: two messages are at most `2 tau B` apart. (`|a(x)|^2 = k_x' K^-1 k_x <= k(x, x)`, a projection in the kernel's space, so the
//! cut removes rounding only; the bound does not rest on that inequality, nor on how well `L` was computed.) Noise is added to `u`, which is on a
//! lattice, and not to `L u`, which is not; the coordinator multiplies by `L`. A record that cannot be used is sent as `u = 0` with its noise, so
//! that it does not reveal itself. What all records of a person cost together is held to the budget of
//! the run ([`records`](crate::privacy::mechanism::records)).
//!
//! A jitter of 1e-10 on the diagonal of `K` keeps `L` stable; it makes `a(x)` shorter. Dropping small eigenvalues from the noise instead would leave
//! directions without noise in which `u` still has content.
//!
//! # When to use it, when not
//!
//! When the records' holder trusts nobody and there are many: from ten thousand records on at epsilon 3. Private steps must be ten to a hundred times smaller
//! than plain ones, and the error falls more slowly: the noise has covariance `I` in the kernel's space, where the noise of the data has the covariance of
//! `k_x`. `tau` is in units of the public outcome range; choosing it on the records is another release. Where a site is trusted with its own
//! records, noised statistics of [`features`](crate::methods::features) are far better.
//!
//! # Reference
//!
//! C. Gu et al., "Online Robust Locally Differentially Private Learning for Nonparametric Regression" (H-FSGD and PH-FSGD); R. Hall, A. Rinaldo and L. Wasserman,
//! JMLR 14 (2013).

pub mod forecast;
pub mod hub;
pub mod report;
pub mod site;
pub mod terms;

mod basis;
mod learner;
mod model;

pub use basis::{Basis, Grid, Kernel, LARGEST_GRID};
pub use learner::{Average, Learner, Loss, Settings, Stated, Step, default_step};
pub use model::StreamModel;

use crate::methods::features::FeatureError;

/// Settings, states or messages that do not fit.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum StreamError {
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
    /// More grid points than can be handled.
    #[error("{points} grid points in each of {covariates} covariates make a grid of {total}, more than {limit}")]
    GridTooLarge {
        /// Per covariate.
        points: usize,
        /// Covariates.
        covariates: usize,
        /// All together.
        total: u128,
        /// Largest number.
        limit: usize,
    },
    /// A kernel so smooth that its grid cannot be factored.
    #[error("the kernel is too smooth for a grid of {points} points per covariate")]
    Degenerate {
        /// Per covariate.
        points: usize,
    },
    /// Features that cannot be made.
    #[error(transparent)]
    Features(#[from] FeatureError),
    /// A vector of another length.
    #[error("expected {expected} values in the {what}, got {actual}")]
    Length {
        /// Which vector.
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
    /// A message without a bound cannot be protected.
    #[error("least squares has no bound; a private stream needs huber's loss")]
    NoBound,
}

#[cfg(test)]
mod tests;
