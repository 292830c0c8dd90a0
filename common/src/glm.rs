//! Families and their canonical links.

mod stated;

use std::fmt;

use serde::{Deserialize, Serialize};
use statrs::function::gamma::ln_gamma;

pub use self::stated::StatedFamily;
use crate::linalg::kernels;

/// An exponential family with its canonical link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// Identity link.
    #[default]
    Gaussian,
    /// Logit link.
    Binomial,
    /// Log link.
    Poisson,
}

impl Family {
    /// Every family.
    pub const ALL: [Family; 3] = [Family::Gaussian, Family::Binomial, Family::Poisson];

    /// The name, as in R.
    pub fn name(self) -> &'static str {
        match self {
            Family::Gaussian => "gaussian",
            Family::Binomial => "binomial",
            Family::Poisson => "poisson",
        }
    }

    /// The link's name, as in R.
    pub fn link(self) -> &'static str {
        match self {
            Family::Gaussian => "identity",
            Family::Binomial => "logit",
            Family::Poisson => "log",
        }
    }

    /// Whether the exponential of a coefficient is a ratio of odds or of rates.
    pub fn has_ratios(self) -> bool {
        match self {
            Family::Gaussian => false,
            Family::Binomial | Family::Poisson => true,
        }
    }
}

/// Whether a number is a whole number up to rounding, as counts must be; the threshold at which R warns of others.
pub fn is_whole(value: f64) -> bool {
    (value - value.round()).abs() <= 1e-9 * value.abs().max(1.0)
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What one row contributes at a linear predictor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// The mean.
    pub mean: f64,
    /// The negative log-likelihood, up to a term that does not depend on the predictor.
    pub loss: f64,
}

impl Family {
    /// Mean and loss of one row of weight 1.
    #[inline]
    pub fn at(self, y: f64, eta: f64) -> Point {
        match self {
            Family::Gaussian => Point { mean: eta, loss: 0.5 * (y - eta) * (y - eta) },
            Family::Binomial => {
                // One exponential of a negative number serves both, without overflow at either end.
                let e = (-eta.abs()).exp();
                Point { mean: if eta >= 0.0 { 1.0 } else { e } / (1.0 + e), loss: eta.max(0.0) + e.ln_1p() - y * eta }
            }
            Family::Poisson => {
                let mean = eta.exp();
                Point { mean, loss: mean - y * eta }
            }
        }
    }

    /// Means and losses of rows of weight 1, several at a time: as [`Family::at`] up to a few units in the last place.
    pub fn at_rows(self, y: &[f64], eta: &[f64], mean: &mut [f64], loss: &mut [f64]) {
        match self {
            Family::Gaussian => {
                mean.copy_from_slice(eta);
                let rows = loss.iter_mut().zip(y).zip(eta);
                rows.for_each(|((loss, y), eta)| *loss = 0.5 * (y - eta) * (y - eta));
            }
            Family::Binomial => {
                kernels::exp_of_minus(eta, mean);
                kernels::ln_1p(mean, loss);
                let rows = loss.iter_mut().zip(y).zip(eta);
                rows.for_each(|((loss, y), eta)| *loss = eta.max(0.0) + *loss - y * eta);
                let rows = mean.iter_mut().zip(eta);
                rows.for_each(|(mean, eta)| *mean = if *eta >= 0.0 { 1.0 } else { *mean } / (1.0 + *mean));
            }
            Family::Poisson => {
                kernels::exp(eta, mean);
                let rows = loss.iter_mut().zip(y).zip(eta).zip(&*mean);
                rows.for_each(|(((loss, y), eta), mean)| *loss = mean - y * eta);
            }
        }
    }

    /// Variances of rows, several at a time: as [`Family::variance`] up to a few units in the last place. `eta` becomes the variance.
    pub fn variances(self, eta: &mut [f64]) {
        let mut e = vec![0.0; eta.len()];
        match self {
            Family::Gaussian => eta.fill(1.0),
            Family::Binomial => {
                kernels::exp_of_minus(eta, &mut e);
                eta.iter_mut().zip(e).for_each(|(value, e)| *value = e / ((1.0 + e) * (1.0 + e)));
            }
            Family::Poisson => {
                kernels::exp(eta, &mut e);
                eta.copy_from_slice(&e);
            }
        }
    }

    /// The derivative of the mean in the linear predictor; with a canonical link also the variance of one row.
    #[inline]
    pub fn variance(self, eta: f64) -> f64 {
        match self {
            Family::Gaussian => 1.0,
            Family::Binomial => {
                let e = (-eta.abs()).exp();
                e / ((1.0 + e) * (1.0 + e))
            }
            Family::Poisson => eta.exp(),
        }
    }

    /// The mean at a linear predictor.
    pub fn mean(self, eta: f64) -> f64 {
        match self {
            Family::Gaussian => eta,
            Family::Binomial => {
                let e = (-eta.abs()).exp();
                (if eta >= 0.0 { 1.0 } else { e }) / (1.0 + e)
            }
            Family::Poisson => eta.exp(),
        }
    }

    /// The linear predictor of a mean.
    pub fn linear(self, mean: f64) -> f64 {
        match self {
            Family::Gaussian => mean,
            Family::Binomial => (mean / (1.0 - mean)).ln(),
            Family::Poisson => mean.ln(),
        }
    }

    /// The loss of a row that is fitted perfectly: half the deviance is loss minus this.
    #[inline]
    pub fn saturated(self, y: f64) -> f64 {
        let x_log_x = |x: f64| if x > 0.0 && x != 1.0 { x * x.ln() } else { 0.0 };
        match self {
            Family::Gaussian => 0.0,
            Family::Binomial => -x_log_x(y) - x_log_x(1.0 - y),
            Family::Poisson => y - x_log_x(y),
        }
    }

    /// The log-likelihood as R's `logLik` counts it, from the deviance.
    ///
    /// # Reference
    /// R's `family()$aic`: gaussian counts the dispersion as a parameter and puts the weights in the variance; binomial
    /// takes weights as numbers of trials, rounded, of which `weight * y`, rounded, were successes; poisson scales each
    /// row's term. `eta` is the linear predictor of a row, needed where rounding changed something.
    pub fn log_likelihood(self, y: &[f64], weights: Option<&[f64]>, deviance: f64, eta: impl Fn(usize) -> f64) -> f64 {
        let weight = |i: usize| weights.map_or(1.0, |weights| weights[i]);
        let used = || (0..y.len()).filter(|i| weight(*i) > 0.0);
        match self {
            Family::Gaussian => {
                let n = used().count() as f64;
                let logs: f64 = used().map(|i| weight(i).ln()).sum();
                -0.5 * (n * ((2.0 * std::f64::consts::PI * deviance / n).ln() + 1.0) - logs)
            }
            Family::Binomial => {
                let saturated: f64 = used()
                    .map(|i| {
                        // As R rounds: a half goes to the even neighbour.
                        let trials = weight(i).round_ties_even();
                        let successes = (weight(i) * y[i]).round_ties_even();
                        let choose = match trials <= 1.0 {
                            true => 0.0,
                            false => {
                                ln_gamma(trials + 1.0) - ln_gamma(successes + 1.0) - ln_gamma(trials - successes + 1.0)
                            }
                        };
                        let (more, fewer) = (successes - weight(i) * y[i], trials - weight(i));
                        let rounded = if more == 0.0 && fewer == 0.0 {
                            0.0
                        } else {
                            // log p = -log(1 + exp(-eta)), and log (1 - p) = log p - eta
                            let log_p = -self.at(1.0, eta(i)).loss;
                            more * log_p + (fewer - more) * (log_p - eta(i))
                        };
                        choose - weight(i) * self.saturated(y[i]) + rounded
                    })
                    .sum();
                saturated - 0.5 * deviance
            }
            Family::Poisson => {
                let saturated: f64 = used().map(|i| weight(i) * (-self.saturated(y[i]) - ln_gamma(y[i] + 1.0))).sum();
                saturated - 0.5 * deviance
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_together_have_the_means_losses_and_variances_of_single_ones() {
        for family in Family::ALL {
            let eta: Vec<f64> = (-2000..2003).map(|step| f64::from(step) * 0.03 + 1e-5).collect();
            let y: Vec<f64> = (0..eta.len()).map(|row| (row % 2) as f64).collect();
            let (mut means, mut losses) = (vec![f64::NAN; eta.len()], vec![f64::NAN; eta.len()]);
            family.at_rows(&y, &eta, &mut means, &mut losses);
            let mut variances = eta.clone();
            family.variances(&mut variances);
            for row in 0..eta.len() {
                let at = family.at(y[row], eta[row]);
                let close = |found: f64, expected: f64, size: f64| (found - expected).abs() <= 1e-15 * size;
                assert!(close(means[row], at.mean, at.mean.abs()), "{family}: mean at {}", eta[row]);
                assert!(close(losses[row], at.loss, at.loss.abs().max(at.mean)), "{family}: loss at {}", eta[row]);
                let variance = family.variance(eta[row]);
                assert!(close(variances[row], variance, variance), "{family}: variance at {}", eta[row]);
            }
        }
        let mut far = [f64::INFINITY, f64::NEG_INFINITY, -1e6, 1e6];
        let (eta, mut means, mut losses) = (far, [0.0; 4], [0.0; 4]);
        Family::Binomial.at_rows(&[1.0, 0.0, 0.0, 1.0], &eta[..], &mut means, &mut losses);
        assert_eq!(means, [1.0, 0.0, 0.0, 1.0]);
        Family::Binomial.variances(&mut far);
        assert_eq!(far, [0.0; 4]);
    }

    /// R 4.2.2: `glm(y ~ a + b, binomial)` with a = 1..8 and b = 2, 1, 4, 2, 3, 6, 1, 5 has this deviance and this `logLik`; with the
    /// case weights 1, 2, 3, 5, 2, 2, 0.5, 2.5 and y = 0.5 in every row, `glm(y ~ 1, binomial, weights = w)` has 0 and -5.609715965617.
    #[test]
    fn halves_of_successes_and_of_trials_are_rounded_to_even_as_by_r() {
        let y = [0.5, 0.5, 0.5, 0.5, 0.25, 0.75, 0.5, 0.5];
        let b = [2.0, 1.0, 4.0, 2.0, 3.0, 6.0, 1.0, 5.0];
        let eta = |row: usize| -0.315_966_234_179 - 0.022_479_300_656 * (row + 1) as f64 + 0.139_106_077_725 * b[row];
        let found = Family::Binomial.log_likelihood(&y, None, 0.424_941_848_675, eta);
        assert!((found + 5.211_720_186_01).abs() < 1e-9, "{found}");
        let weights = [1.0, 2.0, 3.0, 5.0, 2.0, 2.0, 0.5, 2.5];
        let found = Family::Binomial.log_likelihood(&[0.5; 8], Some(&weights), 0.0, |_| 0.0);
        assert!((found + 5.609_715_965_617).abs() < 1e-9, "{found}");
    }
}
