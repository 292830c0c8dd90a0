//! Models with something hidden, fitted between sites by expectation maximisation: two mixed groups, two mixed
//! regressions, a regression with missing covariates.
//!
//! # Model
//!
//! With known `sigma` and a hidden sign `z = +-1`, equally likely: the mixture `y = z beta + sigma e`; the regressions
//! `y = z x'beta + sigma e`; and `y = x'beta + sigma e` where entries of `x`, standard normal, are missing at random. The
//! mixtures do not tell `beta` from `-beta`. Covariates are expected centred, and for the last model independent.
//!
//! # Rounds
//!
//! The coordinator sends `beta`. Every site answers with the sum over its records of a bounded form of the gradient of the
//! expected log-likelihood ([`Records::gradient`]), with noise, and its number of records, which is public. The coordinator
//! divides the sum of the sums by the number of all records and takes a step ([`Settings::advance`]). The estimate is the mean over the last half of the rounds
//! ([`Settings::estimate`]): each has noise of its own, so at 22 rounds the error halves at no cost. Direct EM, for the
//! mixture, averages `w y` in place of the gradient and takes the average itself as the next `beta`; without bounds this is
//! gradient EM with step one. The number of rounds is fixed beforehand.
//!
//! # What leaves
//!
//! One vector with as many entries as coefficients per round, and the number of records. Without privacy the vectors are
//! exact, and as many rounds as coefficients tell as many equations about the records.
//!
//! # Proof of privacy
//!
//! Neighbours replace one record.
//!
//! - `clip`: every gradient is shortened to l2 norm `C` in integer arithmetic, a gradient that is not finite is zero. Replacing a
//!   record replaces one summand in the ball of radius `C` by another: sensitivity `2 C`.
//! - `catoni`: every coordinate is `s phi(gradient / s)` with the smoothed truncation `phi`, cut to its supremum `B`
//!   ([`SmoothTruncation::bound`]). One summand in the cube `[-s B, s B]^d` is replaced by another: `2 s B sqrt d`. (`4 sqrt 2 s / 3` per
//!   coordinate in the source, where `B` is the supremum before smoothing.)
//!
//! The bound holds for every `beta`, so it holds for those that a malicious coordinator invents, and given what was
//! released before, the next sum is a fixed function of the records: rounds compose adaptively, `T` rounds at
//! sensitivity / sigma `= mu / sqrt T` cost `mu^2`. Steps are computed from released sums only. Each site accounts for its own
//! records; sums of different sites concern different records.
//!
//! # When to use it, when not
//!
//! `clip` is the default: at equal privacy its error is 6 to 22 times smaller than that of `catoni`, whose truncation has no
//! advantage here (its bias times range is that of clipping) and which pays for each coordinate separately. `sigma` and the
//! second moment `tau` must be public knowledge: values computed from the records are further releases. The models are
//! symmetric and have two components; other mixtures need another method. `beta = 0` is a stationary point of both mixtures, which is why
//! a start may not be zero there. With five sites that each add their own noise the noise of the average is `sqrt 5` times that
//! of one site with all records.
//!
//! # Reference
//!
//! D. Wang et al., "Differentially Private (Gradient) Expectation Maximization Algorithm with Statistical Guarantees",
//! Algorithms 1 to 3. Its weights (23), (24) lack the factor 2 in the exponent, its matrix (27) a covariance and its scale `s` is
//! stated in three ways that contradict each other; what is printed there exists in the reproductions only, for comparison.

pub mod forecast;
pub mod hub;
pub mod report;
pub mod simulate;
pub mod site;
pub mod terms;

mod model;
mod truncation;

pub use model::{Model, Records};
pub use truncation::{SmoothTruncation, TRUNCATION_BOUND, truncation};

use nalgebra::DVector;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::bounded::{Ball, Bounded, is_radius, sum_of};

/// Smoothing of the truncation unless another is asked for.
pub const DEFAULT_SMOOTHING: f64 = 2.0;

/// Probability with which the error may exceed what [`catoni_scale`] balances.
const FAILURE: f64 = 0.05;

/// How a record's gradient is bounded.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Estimator {
    /// Shortened to this l2 norm.
    Clip {
        /// Largest norm.
        bound: f64,
    },
    /// Coordinates truncated smoothly.
    Catoni {
        /// `s`: gradients much below it stay as they are.
        scale: f64,
        /// Inverse variance of the smoothing noise.
        smoothing: f64,
    },
    /// Not bounded, for exchange without privacy.
    None,
}

impl Estimator {
    /// How far replacing one record can move the sum of `columns` coordinates, in l2 norm; none without a bound.
    pub fn sensitivity(&self, columns: usize) -> Option<f64> {
        match *self {
            // Two vectors of the ball of radius C.
            Estimator::Clip { bound } => Some(2.0 * bound),
            // Two corners of the cube [-s B, s B]^d.
            Estimator::Catoni { scale, smoothing } => {
                Some((2.0 * scale * SmoothTruncation::new(smoothing).bound() * (columns as f64).sqrt()).next_up())
            }
            Estimator::None => None,
        }
    }
}

/// How a round changes the coefficients.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Update {
    /// `beta + step * mean gradient`.
    Gradient {
        /// Step length; 1 for all three models.
        step: f64,
    },
    /// The maximiser itself; mixture only.
    Direct,
}

/// Public facts of a fit, checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Stated", into = "Stated")]
pub struct Settings(Stated);

/// [`Settings`] before they are checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stated {
    /// What is hidden.
    pub model: Model,
    /// Number of coefficients.
    pub columns: usize,
    /// Standard deviation of the noise in the model, public.
    pub sigma: f64,
    /// Bound on the second moment of a gradient's coordinate, public: `sigma^2` plus the largest squared coefficient for the
    /// mixture, plus the sum of squared coefficients for the other models.
    pub tau: f64,
    /// Number of rounds.
    pub rounds: u32,
    /// How gradients are bounded.
    pub estimator: Estimator,
    /// How a round changes the coefficients.
    pub update: Update,
    /// The estimate is the mean of the coefficients after a number of last rounds: 1 without noise.
    pub averaged: u32,
}

/// Settings, records or messages that do not fit.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EmError {
    /// Nothing to estimate.
    #[error("the model needs at least one column")]
    NoColumn,
    /// Rows and outcomes differ.
    #[error("expected {expected} outcomes, one per row, got {actual}")]
    Outcomes {
        /// Rows.
        expected: usize,
        /// Outcomes.
        actual: usize,
    },
    /// A number outside its range.
    #[error("{what} must be {expected}, got {actual}")]
    Range {
        /// Which setting.
        what: &'static str,
        /// Its range in words.
        expected: &'static str,
        /// What it is.
        actual: f64,
    },
    /// Records of one model for a fit of another.
    #[error("expected records for {expected}, got records for {actual}")]
    OtherModel {
        /// Model of the fit.
        expected: &'static str,
        /// Model of the records.
        actual: &'static str,
    },
    /// A vector of another length.
    #[error("expected {expected} values in the {what}, got {actual}")]
    Length {
        /// Which vector.
        what: &'static str,
        /// Number of coefficients.
        expected: usize,
        /// Its length.
        actual: usize,
    },
    /// A vector with an entry that is not finite.
    #[error("the {what} has a value that is not finite")]
    NotFinite {
        /// Which vector.
        what: &'static str,
    },
    /// The maximiser is known for the mixture only.
    #[error("direct EM is defined for gmm, not for {model}; use gradient EM")]
    NoDirect {
        /// Model of the fit.
        model: &'static str,
    },
    /// A start outside its set.
    #[error("the start must be nonzero and at most {radius} long, got length {actual}")]
    Start {
        /// Largest norm that `tau` and `sigma` allow.
        radius: f64,
        /// Norm of the start.
        actual: f64,
    },
    /// No records at any site.
    #[error("the sites have no records")]
    NoRecords,
}

impl TryFrom<Stated> for Settings {
    type Error = EmError;

    fn try_from(stated: Stated) -> Result<Settings, EmError> {
        let range = |what, expected, actual, sound: bool| {
            if sound { Ok(()) } else { Err(EmError::Range { what, expected, actual }) }
        };
        if stated.columns == 0 {
            return Err(EmError::NoColumn);
        }
        let positive = "positive and at most 1e6";
        let is_scale = |value: f64| value > 0.0 && value <= 1e6;
        range("sigma", positive, stated.sigma, is_scale(stated.sigma) && stated.sigma >= 1e-6)?;
        range(
            "tau",
            "greater than sigma squared and at most 1e12",
            stated.tau,
            stated.tau > stated.sigma * stated.sigma && stated.tau <= 1e12,
        )?;
        range(
            "the number of rounds",
            "from 1 to 10000",
            f64::from(stated.rounds),
            (1..=10_000).contains(&stated.rounds),
        )?;
        range(
            "the number of averaged rounds",
            "from 1 to the number of rounds",
            f64::from(stated.averaged),
            (1..=stated.rounds).contains(&stated.averaged),
        )?;
        match stated.estimator {
            Estimator::Clip { bound } => range("the clipping bound", "positive", bound, is_radius(bound))?,
            Estimator::Catoni { scale, smoothing } => {
                range("the scale of the truncation", "positive", scale, is_radius(scale))?;
                range(
                    "the smoothing of the truncation",
                    "from 0.1 to 1e4",
                    smoothing,
                    (0.1..=1e4).contains(&smoothing),
                )?;
            }
            Estimator::None => {}
        }
        match stated.update {
            Update::Gradient { step } => range("the step", "positive and at most 2", step, step > 0.0 && step <= 2.0)?,
            Update::Direct if stated.model != Model::GaussianMixture => {
                return Err(EmError::NoDirect { model: stated.model.name() });
            }
            Update::Direct => {}
        }
        Ok(Settings(stated))
    }
}

impl From<Settings> for Stated {
    fn from(settings: Settings) -> Stated {
        settings.0
    }
}

/// Rounds whose coefficients are averaged under noise unless another number is asked for: the last half.
pub fn averaged_rounds(rounds: u32) -> u32 {
    rounds.div_ceil(2)
}

/// Half the root of `columns * tau`: where clipping costs least over the three models.
pub fn clip_bound(columns: usize, tau: f64) -> f64 {
    0.5 * (columns as f64 * tau).sqrt()
}

/// The scale `s` of the smoothed truncation that balances its bias against sampling error and noise:
/// `s^2 = tau (1 + 1/smoothing) / (2 [(smoothing/2 + L)/n + kappa sqrt(2 L)])`, `kappa` the noise's standard deviation
/// in a coordinate of the mean per unit of `s`, `L = ln(d T / .05)`.
///
/// `records` is the number at all `sites` together, `mu` each site's budget over all rounds; infinite without privacy.
pub fn catoni_scale(stated: &Stated, smoothing: f64, records: u64, sites: u32, mu: f64) -> f64 {
    let (n, events) = (records as f64, stated.columns as f64 * f64::from(stated.rounds));
    let confidence = (events / FAILURE).ln();
    let bound = SmoothTruncation::new(smoothing).bound();
    let kappa = 2.0 * bound * events.sqrt() * f64::from(sites).sqrt() / (n * mu);
    let spread = (0.5 * smoothing + confidence) / n + kappa * (2.0 * confidence).sqrt();
    (stated.tau * (1.0 + 1.0 / smoothing) / (2.0 * spread)).sqrt()
}

impl Settings {
    /// The public facts.
    pub fn stated(&self) -> &Stated {
        &self.0
    }

    /// Largest norm of the coefficients that `tau` and `sigma` allow.
    pub fn radius(&self) -> f64 {
        let squared = self.0.tau - self.0.sigma * self.0.sigma;
        match self.0.model {
            Model::GaussianMixture => (squared * self.0.columns as f64).sqrt(),
            Model::MixedRegressions | Model::MissingCovariates => squared.sqrt(),
        }
    }

    /// A start that the study or the user gave.
    ///
    /// # Errors
    /// Another length than the columns, a value that is not finite, longer than [`Settings::radius`], or zero where the
    /// sign is free.
    pub fn given_start(&self, start: &[f64]) -> Result<DVector<f64>, EmError> {
        self.check("start", start)?;
        let start = DVector::from_column_slice(start);
        let (radius, actual) = (self.radius(), start.norm());
        if actual > radius || (actual == 0.0 && self.0.model.sign_is_free()) {
            return Err(EmError::Start { radius, actual });
        }
        Ok(start)
    }

    /// A start in a random direction, from a public seed: half the radius long for mixtures, .15 of it where covariates
    /// are missing.
    pub fn random_start(&self, seed: u64) -> DVector<f64> {
        let mut generator = ChaCha8Rng::seed_from_u64(seed);
        let direction = DVector::from_fn(self.0.columns, |_, _| StandardNormal.sample(&mut generator));
        let share = if self.0.model.sign_is_free() { 0.5 } else { 0.15 };
        let length: f64 = direction.norm();
        if length > 0.0 {
            direction * (share * self.radius() / length)
        } else {
            DVector::from_element(self.0.columns, share * self.radius() / (self.0.columns as f64).sqrt())
        }
    }

    /// One site's sum of bounded gradients at `beta`, before its noise; none where the estimator does not bound.
    ///
    /// # Errors
    /// Records of another model or width; `beta` of another length or not finite.
    ///
    /// # Privacy
    /// The sensitivity holds for every `beta`.
    pub fn bounded_sum(&self, records: &Records, beta: &[f64]) -> Result<Option<Bounded>, EmError> {
        self.check_round(records, beta)?;
        let columns = self.0.columns;
        let Some(sensitivity) = self.0.estimator.sensitivity(columns) else {
            return Ok(None);
        };
        Ok(match self.0.estimator {
            Estimator::Clip { bound } => {
                let ball = Ball::new(bound);
                let sum = sum_of(records.len(), columns, |index, gradient, out| {
                    self.summand(records, index, beta, gradient);
                    ball.clip(gradient, out);
                });
                Some(Bounded::new(sum, ball.exponent(), sensitivity, "2 C: one summand of norm at most C is replaced"))
            }
            Estimator::Catoni { scale, smoothing } => {
                let smooth = SmoothTruncation::new(smoothing);
                let ball = Ball::new(scale * smooth.bound());
                let sum = sum_of(records.len(), columns, |index, gradient, out| {
                    self.summand(records, index, beta, gradient);
                    out.clear();
                    out.extend(gradient.iter().map(|g| ball.clamp(scale * smooth.value(g / scale))));
                });
                let formula = "2 s B sqrt(d): one summand in [-s B, s B]^d is replaced";
                Some(Bounded::new(sum, ball.exponent(), sensitivity, formula))
            }
            Estimator::None => None,
        })
    }

    /// One site's exact sum of gradients at `beta`, for exchange without privacy. The same bits on any number of threads.
    ///
    /// # Errors
    /// Records of another model or width; `beta` of another length or not finite.
    pub fn plain_sum(&self, records: &Records, beta: &[f64]) -> Result<DVector<f64>, EmError> {
        self.check_round(records, beta)?;
        let rows: Vec<usize> = (0..records.len()).collect();
        let parts: Vec<DVector<f64>> = rows
            .par_chunks(4096)
            .map(|part| {
                let (mut sum, mut gradient) = (DVector::zeros(self.0.columns), Vec::new());
                for &index in part {
                    self.summand(records, index, beta, &mut gradient);
                    sum.iter_mut().zip(&gradient).for_each(|(sum, g)| *sum += g);
                }
                sum
            })
            .collect();
        Ok(parts.into_iter().fold(DVector::zeros(self.0.columns), |sum, part| sum + part))
    }

    /// The next coefficients from the sum of all sites' released sums over `count` records.
    ///
    /// # Errors
    /// A sum of another length or not finite; no records.
    pub fn advance(&self, beta: &DVector<f64>, sum: &DVector<f64>, count: u64) -> Result<DVector<f64>, EmError> {
        self.check("sum of gradients", sum.as_slice())?;
        if count == 0 {
            return Err(EmError::NoRecords);
        }
        let mean = sum / count as f64;
        let next = match self.0.update {
            Update::Gradient { step } => beta + mean * step,
            Update::Direct => mean,
        };
        self.check("next coefficients", next.as_slice())?;
        Ok(next)
    }

    /// The estimate from the coefficients after every round, the last one last: the mean of the last
    /// [`averaged`](Stated::averaged). Every round has noise of its own, so that averaging costs nothing and takes most of it away
    /// once the rounds have converged.
    pub fn estimate(&self, path: &[DVector<f64>]) -> DVector<f64> {
        let last = &path[path.len() - path.len().min(self.0.averaged as usize)..];
        last.iter().fold(DVector::zeros(self.0.columns), |sum, beta| sum + beta) / last.len().max(1) as f64
    }

    fn summand(&self, records: &Records, index: usize, beta: &[f64], out: &mut Vec<f64>) {
        match self.0.update {
            Update::Gradient { .. } => records.gradient(index, self.0.sigma, beta, out),
            Update::Direct => records.direct(index, self.0.sigma, beta, out),
        }
    }

    fn check_round(&self, records: &Records, beta: &[f64]) -> Result<(), EmError> {
        if records.model() != self.0.model {
            return Err(EmError::OtherModel { expected: self.0.model.name(), actual: records.model().name() });
        }
        if records.columns() != self.0.columns {
            return Err(EmError::Length { what: "records", expected: self.0.columns, actual: records.columns() });
        }
        self.check("coefficients", beta)
    }

    fn check(&self, what: &'static str, values: &[f64]) -> Result<(), EmError> {
        if values.len() != self.0.columns {
            return Err(EmError::Length { what, expected: self.0.columns, actual: values.len() });
        }
        if values.iter().all(|value| value.is_finite()) { Ok(()) } else { Err(EmError::NotFinite { what }) }
    }
}

#[cfg(test)]
mod tests;
