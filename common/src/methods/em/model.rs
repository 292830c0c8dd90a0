//! Records with something hidden, and the gradient of each.

use nalgebra::{DMatrix, DVector};
use serde::{Deserialize, Serialize};

use super::EmError;

/// What is hidden.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Model {
    /// `y = z beta + sigma e` with a hidden sign `z`: two groups around `beta` and `-beta`.
    #[serde(rename = "gmm")]
    GaussianMixture,
    /// `y = z x'beta + sigma e` with a hidden sign `z`: two regressions with opposite coefficients.
    #[serde(rename = "mrm")]
    MixedRegressions,
    /// `y = x'beta + sigma e` with standard normal covariates of which some are missing at random.
    #[serde(rename = "rmc")]
    MissingCovariates,
}

impl Model {
    /// The name on the command line and in study files.
    pub fn name(self) -> &'static str {
        match self {
            Model::GaussianMixture => "gmm",
            Model::MixedRegressions => "mrm",
            Model::MissingCovariates => "rmc",
        }
    }

    /// Whether `beta` and `-beta` describe the data equally well.
    pub fn sign_is_free(self) -> bool {
        self != Model::MissingCovariates
    }

    /// The distance of an estimate from the coefficients, up to the sign where the model does not tell it.
    pub fn distance(self, estimate: &DVector<f64>, beta: &DVector<f64>) -> f64 {
        let same = (estimate - beta).norm();
        if self.sign_is_free() { same.min((estimate + beta).norm()) } else { same }
    }
}

/// The records of one site. One that has a value which is not finite contributes zero to every sum, so that its
/// presence changes nothing that others can see.
#[derive(Clone)]
pub struct Records {
    model: Model,
    /// One record per column: the point, or the covariates with zero where missing.
    x: DMatrix<f64>,
    /// Outcomes; none for the mixture.
    y: Vec<f64>,
    /// Of missing covariates, one flag per entry of `x`.
    missing: Vec<bool>,
    invalid: Vec<bool>,
}

impl Records {
    /// Points of the mixture, an `n x d` matrix.
    ///
    /// # Errors
    /// No column.
    pub fn mixture(points: &DMatrix<f64>) -> Result<Records, EmError> {
        Records::new(Model::GaussianMixture, points, &[])
    }

    /// Covariates, `n x d`, and `n` outcomes of two mixed regressions.
    ///
    /// # Errors
    /// No column, or as many outcomes as rows are not there.
    pub fn regressions(x: &DMatrix<f64>, y: &[f64]) -> Result<Records, EmError> {
        Records::new(Model::MixedRegressions, x, y)
    }

    /// Covariates, `n x d`, not-a-number where missing, and `n` outcomes.
    ///
    /// # Errors
    /// No column, or as many outcomes as rows are not there.
    pub fn with_missing(x: &DMatrix<f64>, y: &[f64]) -> Result<Records, EmError> {
        Records::new(Model::MissingCovariates, x, y)
    }

    fn new(model: Model, x: &DMatrix<f64>, y: &[f64]) -> Result<Records, EmError> {
        if x.ncols() == 0 {
            return Err(EmError::NoColumn);
        }
        if model != Model::GaussianMixture && y.len() != x.nrows() {
            return Err(EmError::Outcomes { expected: x.nrows(), actual: y.len() });
        }
        let mut x = x.transpose();
        let may_miss = model == Model::MissingCovariates;
        let missing: Vec<bool> = if may_miss { x.iter().map(|value| value.is_nan()).collect() } else { Vec::new() };
        if may_miss {
            x.iter_mut().filter(|value| value.is_nan()).for_each(|value| *value = 0.0);
        }
        let invalid = (0..x.ncols())
            .map(|i| !(x.column(i).iter().all(|v| v.is_finite()) && y.get(i).is_none_or(|y| y.is_finite())))
            .collect();
        Ok(Records { model, x, y: y.to_vec(), missing, invalid })
    }

    /// Which model the records are for.
    pub fn model(&self) -> Model {
        self.model
    }

    /// Number of records, public.
    pub fn len(&self) -> usize {
        self.x.ncols()
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.x.ncols() == 0
    }

    /// Number of coefficients.
    pub fn columns(&self) -> usize {
        self.x.nrows()
    }

    /// Records with a value that is not finite. Private: for the party's own screen only.
    pub fn invalid(&self) -> usize {
        self.invalid.iter().filter(|&&invalid| invalid).count()
    }

    /// The covariates or point of a record, zero where missing.
    pub fn row(&self, index: usize) -> &[f64] {
        let width = self.columns();
        &self.x.as_slice()[index * width..(index + 1) * width]
    }

    /// The outcome of a record; zero where the model has none.
    pub fn outcome(&self, index: usize) -> f64 {
        self.y.get(index).copied().unwrap_or(0.0)
    }

    /// Which covariates of a record are missing; empty where the model has none.
    pub fn missing(&self, index: usize) -> &[bool] {
        let width = self.columns();
        self.missing.get(index * width..(index + 1) * width).unwrap_or(&[])
    }

    pub(crate) fn is_invalid(&self, index: usize) -> bool {
        self.invalid[index]
    }

    /// The gradient of one record's log-likelihood at `beta` times `sigma^2`, which is the gradient of the expected
    /// complete log-likelihood in its first argument:
    ///
    /// - mixture: `w y - beta`, `w = tanh(y'beta / sigma^2) = 2 P(z = 1) - 1`, `P(z = 1) = 1 / (1 + exp(-2 y'beta / sigma^2))`;
    /// - regressions: `(w y - x'beta) x`, `w = tanh(y x'beta / sigma^2)`;
    /// - missing covariates, `o` observed and `m` missing: given the record the missing ones have mean
    ///   `r beta_m / v` and covariance `I - beta_m beta_m' / v`, `r = y - x_o'beta_o`, `v = sigma^2 + |beta_m|^2`;
    ///   `y E[x] - E[x x'] beta` comes to `(sigma^2 / v) (r E[x] - beta_m)`.
    ///
    /// Zero for an invalid record.
    pub fn gradient(&self, index: usize, sigma: f64, beta: &[f64], out: &mut Vec<f64>) {
        out.clear();
        if self.is_invalid(index) {
            out.resize(self.columns(), 0.0);
            return;
        }
        let (x, y) = (self.row(index), self.outcome(index));
        let variance = sigma * sigma;
        match self.model {
            Model::GaussianMixture => {
                let w = (dot(x, beta) / variance).tanh();
                out.extend(x.iter().zip(beta).map(|(x, beta)| w * x - beta));
            }
            Model::MixedRegressions => {
                let fitted = dot(x, beta);
                let w = (y * fitted / variance).tanh();
                out.extend(x.iter().map(|x| (w * y - fitted) * x));
            }
            Model::MissingCovariates => {
                let missing = self.missing(index);
                let hidden: f64 = masked(missing, beta).map(|b| b * b).sum();
                let total = variance + hidden;
                // The observed entries of x are the only ones that are not zero.
                let residual = y - dot(x, beta);
                let share = variance / total;
                out.extend(x.iter().zip(beta).zip(missing).map(|((x, beta), &missing)| {
                    if missing { share * (residual * residual / total - 1.0) * beta } else { share * residual * x }
                }));
            }
        }
    }

    /// What the maximisation step of the mixture averages: `w y`. Zero for an invalid record.
    pub(crate) fn direct(&self, index: usize, sigma: f64, beta: &[f64], out: &mut Vec<f64>) {
        out.clear();
        if self.is_invalid(index) {
            out.resize(self.columns(), 0.0);
            return;
        }
        let x = self.row(index);
        let w = (dot(x, beta) / (sigma * sigma)).tanh();
        out.extend(x.iter().map(|x| w * x));
    }

    /// The log-likelihood of the records at `beta`, without what does not depend on it; invalid records are left out.
    pub fn log_likelihood(&self, sigma: f64, beta: &[f64]) -> f64 {
        let variance = sigma * sigma;
        (0..self.len())
            .filter(|&i| !self.is_invalid(i))
            .map(|i| {
                let (x, y) = (self.row(i), self.outcome(i));
                match self.model {
                    Model::GaussianMixture => -0.5 * dot(beta, beta) / variance + log_cosh(dot(x, beta) / variance),
                    Model::MixedRegressions => {
                        let fitted = dot(x, beta);
                        -0.5 * fitted * fitted / variance + log_cosh(y * fitted / variance)
                    }
                    Model::MissingCovariates => {
                        let total = variance + masked(self.missing(i), beta).map(|b| b * b).sum::<f64>();
                        -0.5 * (total.ln() + (y - dot(x, beta)).powi(2) / total)
                    }
                }
            })
            .sum()
    }
}

// Sizes only: records are what privacy is about.
impl std::fmt::Debug for Records {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Records({}, {} x {})", self.model.name(), self.len(), self.columns())
    }
}

pub(crate) fn dot(left: &[f64], right: &[f64]) -> f64 {
    left.iter().zip(right).map(|(left, right)| left * right).sum()
}

fn masked<'a>(mask: &'a [bool], values: &'a [f64]) -> impl Iterator<Item = f64> + 'a {
    mask.iter().zip(values).filter(|&(&keep, _)| keep).map(|(_, &value)| value)
}

fn log_cosh(t: f64) -> f64 {
    t.abs() + (-2.0 * t.abs()).exp().ln_1p() - std::f64::consts::LN_2
}
