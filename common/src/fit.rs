//! What a fit yields: the coefficient table, fit statistics, and why it ended.

mod blocks;
mod consolidation;
mod measures;
pub mod performance;

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};
use statrs::distribution::{ContinuousCDF, Normal};

pub use self::blocks::{Covariance, TermTest};
pub(crate) use self::blocks::{Slope, Slopes};
pub use self::consolidation::{BatchName, Consolidation, Member, Rejection, Standing, Verdict};
pub use self::measures::{Measures, Test};
pub use self::performance::Performance;
use crate::exit::Exit;
use crate::glm::StatedFamily;
use crate::id::Role;
use crate::laws::{Student, normal_beyond};

/// The term of the intercept.
pub const INTERCEPT: &str = "(Intercept)";

/// The share of the sampling distribution that an interval covers.
pub const CONFIDENCE: f64 = 0.95;

/// The upper end of that share.
const UPPER: f64 = 0.5 + CONFIDENCE / 2.0;

/// One row of the coefficient table, in broom's names and on the original scale. What is undefined is `None`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Coefficient {
    /// `(Intercept)`, a header, or a header joined to a level.
    pub term: String,
    /// Who holds the column.
    pub party: Role,
    /// The estimate; `None` for a column that depends on earlier ones.
    pub estimate: Option<f64>,
    /// Its standard error.
    pub std_error: Option<f64>,
    /// `estimate / std_error`.
    pub statistic: Option<f64>,
    /// Two-sided.
    pub p_value: Option<f64>,
    /// Lower end of the 95 % Wald interval.
    pub conf_low: Option<f64>,
    /// Upper end.
    pub conf_high: Option<f64>,
    /// `exp(estimate)`: the odds ratio of a binomial model, the rate ratio of a poisson one.
    #[serde(default)]
    pub ratio: Option<f64>,
    /// `exp(conf_low)`: lower end of the ratio's 95 % interval.
    #[serde(default)]
    pub ratio_low: Option<f64>,
    /// `exp(conf_high)`: upper end.
    #[serde(default)]
    pub ratio_high: Option<f64>,
}

impl Coefficient {
    /// A row with the statistics that follow from an estimate and its standard error: Student's t with the residual
    /// degrees of freedom where the family estimates its dispersion, normal otherwise.
    pub fn new(
        term: String,
        party: Role,
        estimate: Option<f64>,
        std_error: Option<f64>,
        family: impl Into<StatedFamily>,
        df_residual: f64,
    ) -> Self {
        let row = Coefficient::bare(term, party, estimate, std_error);
        if !family.into().estimates_dispersion() {
            return row.tested(normal_beyond, Normal::standard().inverse_cdf(UPPER));
        }
        match Student::new(df_residual) {
            Some(law) => row.tested(|statistic| law.beyond(statistic), law.quantile(UPPER)),
            None => row,
        }
    }

    /// A row whose uncertainty is normal whatever the family, as that of noise is.
    pub fn normal(term: String, party: Role, estimate: Option<f64>, std_error: Option<f64>) -> Self {
        Coefficient::bare(term, party, estimate, std_error).tested(normal_beyond, Normal::standard().inverse_cdf(UPPER))
    }

    /// Leaves out test and interval, where they would mislead; estimate and standard error stay.
    pub fn withhold_inference(&mut self) {
        (self.statistic, self.p_value, self.conf_low, self.conf_high) = (None, None, None, None);
        (self.ratio_low, self.ratio_high) = (None, None);
    }

    /// With the ratio that a unit more of the column multiplies odds or rate by, and the ends of its interval.
    #[must_use]
    pub(crate) fn with_ratio(mut self, family: StatedFamily) -> Self {
        // What overflows is undefined, as in every number of a report.
        let ratio =
            |x: Option<f64>| x.filter(|_| family.base().has_ratios()).map(f64::exp).filter(|ratio| ratio.is_finite());
        [self.ratio, self.ratio_low, self.ratio_high] = [self.estimate, self.conf_low, self.conf_high].map(ratio);
        self
    }

    fn bare(term: String, party: Role, estimate: Option<f64>, std_error: Option<f64>) -> Self {
        Coefficient {
            term,
            party,
            estimate,
            std_error,
            statistic: None,
            p_value: None,
            conf_low: None,
            conf_high: None,
            ratio: None,
            ratio_low: None,
            ratio_high: None,
        }
    }

    /// With test and interval: `p_value` of the statistic's size, and the quantile of the interval.
    fn tested(mut self, p_value: impl Fn(f64) -> f64, quantile: f64) -> Self {
        if let (Some(estimate), Some(std_error)) = (self.estimate, self.std_error)
            && std_error > 0.0
            && std_error.is_finite()
        {
            let statistic = estimate / std_error;
            self.statistic = Some(statistic);
            self.p_value = Some(p_value(statistic.abs()));
            self.conf_low = Some(estimate - quantile * std_error);
            self.conf_high = Some(estimate + quantile * std_error);
        }
        self
    }
}

/// Statistics of the whole fit, as R's `glm` reports them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Statistics {
    /// Rows that took part.
    pub nobs: u64,
    /// Residual degrees of freedom.
    pub df_residual: Option<i64>,
    /// Degrees of freedom of the null model.
    pub df_null: Option<i64>,
    /// Residual deviance.
    pub deviance: Option<f64>,
    /// Deviance of the null model.
    pub null_deviance: Option<f64>,
    /// Akaike's criterion.
    pub aic: Option<f64>,
    /// Bayesian information criterion.
    pub bic: Option<f64>,
    /// Log-likelihood.
    pub log_lik: Option<f64>,
    /// Dispersion: estimated for gaussian and for quasi-likelihood, 1 otherwise.
    pub dispersion: Option<f64>,
    /// `1 - deviance / null_deviance`, gaussian only.
    pub r_squared: Option<f64>,
}

/// Why a fit ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Termination {
    /// Gradient and last step are below the tolerance at every party.
    Converged,
    /// The round limit was reached first.
    MaxRounds,
    /// Binomial data that a combination of columns separates: the estimates grow without bound.
    Separation,
    /// Sealed mode: the next step was beyond what fixed point or the kernels hold. The data need not be separated.
    OutOfRange,
    /// Sealed mode: a party's limits on what may open allowed no further gradient.
    OpeningLimit,
    /// Columns of different parties depend on each other: the fit was redone without those of the later party.
    CollinearAcrossParties,
    /// A fixed number of rounds, as private mode demands.
    #[default]
    FixedRounds,
    /// The result is outside the method's guarantee: half or more of what it rests on may be wrong.
    OutsideGuarantee,
    /// Interrupted by a user.
    Interrupted,
}

impl Termination {
    /// Every reason.
    pub const ALL: [Termination; 9] = [
        Termination::Converged,
        Termination::MaxRounds,
        Termination::Separation,
        Termination::OutOfRange,
        Termination::OpeningLimit,
        Termination::CollinearAcrossParties,
        Termination::FixedRounds,
        Termination::OutsideGuarantee,
        Termination::Interrupted,
    ];

    /// The word in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Termination::Converged => "converged",
            Termination::MaxRounds => "max_rounds",
            Termination::Separation => "separation",
            Termination::OutOfRange => "out_of_range",
            Termination::OpeningLimit => "opening_limit",
            Termination::CollinearAcrossParties => "collinear_across_parties",
            Termination::FixedRounds => "fixed_rounds",
            Termination::OutsideGuarantee => "outside_guarantee",
            Termination::Interrupted => "interrupted",
        }
    }

    /// The code for the shell after a fit that ended so.
    pub fn exit(self) -> Exit {
        match self {
            Termination::Converged | Termination::CollinearAcrossParties | Termination::FixedRounds => Exit::Done,
            Termination::MaxRounds
            | Termination::Separation
            | Termination::OutOfRange
            | Termination::OpeningLimit
            | Termination::OutsideGuarantee => Exit::NotConverged,
            Termination::Interrupted => Exit::Interrupted,
        }
    }

    /// Whether the estimates are the solution.
    pub fn converged(self) -> bool {
        matches!(self, Termination::Converged | Termination::CollinearAcrossParties)
    }
}

impl fmt::Display for Termination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Termination::Converged => "converged",
            Termination::MaxRounds => "stopped at the round limit without convergence",
            Termination::Separation => {
                "separation: a combination of columns predicts the outcome of all rows, or of some, without error, so the estimates grow \
                 without bound and the likelihood has no maximum"
            }
            Termination::OutOfRange => "stopped without convergence: the next step was out of range",
            Termination::OpeningLimit => {
                "stopped without convergence: the limits of a party on what may open allowed no further gradient"
            }
            Termination::CollinearAcrossParties => {
                "converged, after columns that depend on those of an earlier party were set aside"
            }
            Termination::FixedRounds => "the fixed number of rounds was run",
            Termination::OutsideGuarantee => {
                "outside the guarantee: half or more of what the result rests on may be wrong"
            }
            Termination::Interrupted => "interrupted",
        })
    }
}
/// JSON has no way to write what is not finite: it is written as null, and must be readable again.
pub(crate) fn number_or_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

#[cfg(test)]
mod tests;
