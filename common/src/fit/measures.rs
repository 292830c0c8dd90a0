//! What follows from the statistics of a fit: how much it explains, and whether that is more than chance.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ChiSquared, ContinuousCDF};

use super::Statistics;
use crate::glm::StatedFamily;
use crate::laws;

/// Measures of a whole fit that its statistics imply; flat in JSON. What is undefined is `None`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Measures {
    /// R squared with mean squares in place of sums of squares, as `summary(lm)` gives it; gaussian only.
    #[serde(default)]
    pub adj_r_squared: Option<f64>,
    /// McFadden's R squared, `1 - log_lik / log_lik_null` with the likelihood of the null model; binomial and poisson. Of a
    /// binomial outcome of 0 and 1 it is `1 - deviance / null_deviance`.
    #[serde(default)]
    pub mcfadden_r_squared: Option<f64>,
    /// F test of the model against the null model: of a gaussian model as `summary(lm)` gives it, of quasi-likelihood as `anova` of the two.
    #[serde(default)]
    pub f_test: Option<Test>,
    /// Likelihood ratio test of the model against the null model, `null_deviance - deviance`; binomial and poisson.
    #[serde(default)]
    pub lr_test: Option<Test>,
}

/// A test of several coefficients at once.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Test {
    /// Its statistic.
    pub statistic: f64,
    /// How many coefficients are zero where the hypothesis holds.
    pub df: i64,
    /// Residual degrees of freedom of an F test; null for a chi-square test.
    pub df_residual: Option<i64>,
    /// The probability of so large a statistic where the hypothesis holds.
    pub p_value: f64,
}

impl Test {
    /// The F test; `None` where it is undefined.
    pub fn f(statistic: f64, df: i64, df_residual: i64) -> Option<Test> {
        if !(statistic.is_finite() && statistic >= 0.0) || df < 1 || df_residual < 1 {
            return None;
        }
        let (first, second) = (df as f64, df_residual as f64);
        // The upper tail as a lower one of the reciprocal, which keeps the digits of small probabilities.
        let whole = second + first * statistic;
        let (p_value, _) = laws::beta(second / 2.0, first / 2.0, second / whole, first * statistic / whole);
        p_value.is_finite().then_some(Test { statistic, df, df_residual: Some(df_residual), p_value })
    }

    /// The chi-square test; `None` where it is undefined.
    pub fn chi_square(statistic: f64, df: i64) -> Option<Test> {
        if !(statistic.is_finite() && statistic >= 0.0) || df < 1 {
            return None;
        }
        let p_value = ChiSquared::new(df as f64).ok()?.sf(statistic);
        p_value.is_finite().then_some(Test { statistic, df, df_residual: None, p_value })
    }
}

impl Measures {
    /// Those of a fit. A fit with a penalty has none: its degrees of freedom are unknown.
    pub fn of(statistics: &Statistics, family: StatedFamily) -> Measures {
        let Statistics { deviance, null_deviance, df_residual, df_null, .. } = *statistics;
        let (Some(deviance), Some(null_deviance), Some(df_residual), Some(df_null)) =
            (deviance, null_deviance, df_residual, df_null)
        else {
            return Measures::default();
        };
        let df = df_null - df_residual;
        match family {
            StatedFamily::Gaussian => Measures {
                adj_r_squared: (df_residual > 0 && df_null > 0 && null_deviance > 0.0)
                    .then(|| 1.0 - deviance / df_residual as f64 / (null_deviance / df_null as f64))
                    .filter(|r| r.is_finite()),
                // With nothing left over the ratio is not finite, and not defined.
                f_test: Test::f(
                    (null_deviance - deviance) / df as f64 / (deviance / df_residual as f64),
                    df,
                    df_residual,
                ),
                ..Measures::default()
            },
            StatedFamily::Quasibinomial | StatedFamily::Quasipoisson => Measures {
                // As `anova(null, fit, test = "F")`: the dispersion is Pearson's, not the deviance over its degrees of freedom.
                f_test: statistics.dispersion.and_then(|dispersion| {
                    Test::f((null_deviance - deviance).max(0.0) / df as f64 / dispersion, df, df_residual)
                }),
                ..Measures::default()
            },
            StatedFamily::Binomial | StatedFamily::Poisson => Measures {
                mcfadden_r_squared: mcfadden(statistics.log_lik, deviance, null_deviance),
                lr_test: Test::chi_square((null_deviance - deviance).max(0.0), df),
                ..Measures::default()
            },
        }
    }
}

/// Deviances are twice the distance to the same saturated likelihood, so the null model's likelihood follows from them.
fn mcfadden(log_lik: Option<f64>, deviance: f64, null_deviance: f64) -> Option<f64> {
    let log_lik = log_lik?;
    let null = log_lik + 0.5 * (deviance - null_deviance);
    (null < 0.0 && null_deviance > 0.0).then(|| 1.0 - log_lik / null).filter(|r| r.is_finite())
}
