//! What a study says of a model with something hidden: public numbers from outside the data, checked here.

use nalgebra::DVector;
use serde::{Deserialize, Deserializer, Serialize};

use super::forecast::{MISSING, expected};
use super::{DEFAULT_SMOOTHING, EmError, Estimator, Model, Settings, Stated, Update, averaged_rounds, clip_bound};
use crate::id::Protocol;
use crate::privacy::mechanism::ReleasePlan;
use crate::privacy::release::Declaration;
use crate::terms::suggestion::{FEW_EPSILONS, Search};
use crate::terms::{
    Between, DesignTerms, Foretold, Guarantee, MethodTerms, NoExpectation, Reckoned, StudyError, one, public_number,
    value,
};

mod search;

/// Length of hidden coefficients unless another is declared, in lengths of the longest that sigma and tau allow.
const DEFAULT_LENGTH: f64 = 0.5;
/// Rows of models with something hidden, whose forecast fits invented records.
const FEW_ROWS: [u64; 3] = [300, 1_000, 3_000];
/// Invented records and rounds of them that a report waits for.
const MOST_INVENTED: u64 = 20_000_000;

/// The method of a study with something hidden.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EmTerms {
    /// What is hidden: gmm, mrm or rmc.
    pub model: Model,
    /// Standard deviation of the noise in the model, known from outside the data.
    #[serde(default, deserialize_with = "sigma", skip_serializing_if = "Option::is_none")]
    pub sigma: Option<f64>,
    /// Bound on the second moment of a gradient's coordinate, known from outside the data.
    #[serde(default, deserialize_with = "tau", skip_serializing_if = "Option::is_none")]
    pub tau: Option<f64>,
    /// Rounds, fixed beforehand.
    #[serde(default = "default_rounds")]
    pub rounds: u32,
    /// How gradients are bounded.
    #[serde(default)]
    pub estimator: EstimatorName,
    /// Largest norm of a gradient for `clip`; half the root of columns times tau, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<f64>,
    /// Scale of the truncation for `catoni`, which needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<f64>,
    /// Smoothing of the truncation for `catoni`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smoothing: Option<f64>,
    /// How a round changes the coefficients.
    #[serde(default)]
    pub update: UpdateName,
    /// Step of `gradient`.
    #[serde(default = "one")]
    pub step: f64,
    /// Where the iteration starts; in a random direction from `seed`, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Vec<f64>>,
    /// Seed of the start.
    #[serde(default)]
    pub seed: u64,
}

/// How gradients are bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EstimatorName {
    /// Shortened to a norm.
    #[default]
    Clip,
    /// Truncated smoothly, coordinate by coordinate.
    Catoni,
    /// Not bounded.
    None,
}

/// How a round changes the coefficients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UpdateName {
    /// A step along the mean gradient.
    #[default]
    Gradient,
    /// The maximiser; gmm only.
    Direct,
}

fn default_rounds() -> u32 {
    22
}

fn sigma<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    public_number(deserializer, "sigma")
}

fn tau<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    public_number(deserializer, "tau")
}

/// A model with something hidden.
#[derive(Debug, Clone, PartialEq)]
pub struct Em {
    /// Public facts of the fit.
    pub settings: Settings,
    /// Where the iteration starts.
    pub start: DVector<f64>,
}

impl Em {
    /// Of the method's section of a study.
    pub(crate) fn parse(section: Option<&EmTerms>, study: &Between<()>) -> Result<Em, StudyError> {
        study.check_design(&["signal"], Protocol::Em)?;
        study.only_features(Protocol::Em)?;
        let terms = section.ok_or_else(|| value("em", "is missing: which model, which sigma, which tau?"))?;
        let levels = |name: &&String| study.head.columns.get(*name).is_some_and(|c| !c.levels.is_empty());
        if let Some(column) = study.method.features.iter().find(levels) {
            return Err(value(&format!("columns.{column}.levels"), "has no place here: these models take numbers"));
        }
        match (terms.model, study.method.outcome.is_empty()) {
            (Model::GaussianMixture, false) => {
                return Err(value("outcome", "has no place in the mixture `gmm`, whose points are the features"));
            }
            (Model::MixedRegressions | Model::MissingCovariates, true) => {
                return Err(value("outcome.column", "is missing: which column is to be explained?"));
            }
            (Model::GaussianMixture, true) | (Model::MixedRegressions | Model::MissingCovariates, false) => {}
        }
        if terms.update == UpdateName::Direct && terms.step != 1.0 {
            return Err(value("em.step", "has no place beside the update `direct`"));
        }
        let settings = terms.settings(&study.guarantee, study.method.coefficients.len())?;
        let start = match terms.start.as_deref() {
            Some(start) => {
                settings.given_start(start).map_err(|error| value("em.start", format!("cannot be used: {error}")))?
            }
            None => settings.random_start(terms.seed),
        };
        Ok(Em { settings, start })
    }

    /// Length of the coefficients that errors are foretold for.
    fn length(&self, design: &DesignTerms) -> f64 {
        design.signal.unwrap_or(DEFAULT_LENGTH * self.settings.radius())
    }
}

impl<M> MethodTerms<M> for Em {
    fn protocol(&self) -> Protocol {
        Protocol::Em
    }

    fn in_rounds(&self) -> bool {
        true
    }

    fn last_broadcast(&self) -> Option<u64> {
        Some(u64::from(self.settings.stated().rounds).saturating_sub(1))
    }

    fn declared(&self) -> Vec<Declaration> {
        vec![Declaration::GradientSum]
    }

    fn releases(&self, study: &Between<M>) -> Option<ReleasePlan> {
        let rounds = 1..=self.settings.stated().rounds;
        Some(study.even_plan(rounds.map(|round| format!("sum of gradients, round {round}")).collect()))
    }

    fn half_range(&self, _: &Between<M>) -> Option<f64> {
        None
    }

    fn foretold(&self, study: &Between<M>, rows: u64, reckoned: Reckoned<'_>) -> Result<Foretold, NoExpectation> {
        let length = self.length(reckoned.design);
        let found = expected(&self.settings, &self.start, (rows, study.number_of_sites()), study.site_mu(), length)?;
        let mut assumed = vec![format!(
            "the model is true, with coefficients of length {length:.4} in an invented direction: median over invented records"
        )];
        if self.settings.stated().model == Model::MissingCovariates {
            assumed.push(format!("{:.0} % of the covariates are missing", 100.0 * MISSING));
        }
        Ok(Foretold {
            of: "norm of the coefficients",
            assumed,
            noise_once: Some(found.round_noise),
            noise: found.noise,
            error: found.error,
            alone: found.alone,
            zero: found.length,
            ..Foretold::default()
        })
    }

    fn tabled(&self, _: u64) -> (Vec<u64>, Vec<f64>) {
        (FEW_ROWS.to_vec(), FEW_EPSILONS.to_vec())
    }

    fn search(&self, study: &Between<M>, rows: u64, now: f64) -> Search {
        self.tried(study, rows, now)
    }

    fn foretold_quickly(&self, goes_on: bool, records: u64, rounds: u32) -> bool {
        !goes_on && records.saturating_mul(u64::from(rounds)) <= MOST_INVENTED
    }
}

impl EmTerms {
    fn settings(&self, guarantee: &Guarantee, columns: usize) -> Result<Settings, StudyError> {
        let outside = |key: &str, what: &str, number: Option<f64>| {
            number.ok_or_else(|| {
                value(key, format!("is missing: {what}, known from outside the data; taken from them it is a release"))
            })
        };
        let sigma = outside("em.sigma", "the standard deviation of the noise in the model", self.sigma)?;
        let tau = outside("em.tau", "a bound on the second moment of a gradient's coordinate", self.tau)?;
        let only = |key: &str, given: bool, estimator: &str| match given {
            true => Err(value(key, format!("has no place beside this estimator; it belongs to `{estimator}`"))),
            false => Ok(()),
        };
        if self.estimator != EstimatorName::Clip {
            only("em.bound", self.bound.is_some(), "clip")?;
        }
        if self.estimator != EstimatorName::Catoni {
            only("em.scale", self.scale.is_some(), "catoni")?;
            only("em.smoothing", self.smoothing.is_some(), "catoni")?;
        }
        let estimator = match self.estimator {
            EstimatorName::Clip => Estimator::Clip { bound: self.bound.unwrap_or_else(|| clip_bound(columns, tau)) },
            EstimatorName::Catoni => {
                let scale = self.scale.ok_or_else(|| {
                    value("em.scale", "is missing: `catoni` needs the scale below which gradients stay as they are")
                })?;
                Estimator::Catoni { scale, smoothing: self.smoothing.unwrap_or(DEFAULT_SMOOTHING) }
            }
            EstimatorName::None => match guarantee {
                Guarantee::Plain => Estimator::None,
                Guarantee::Private(_) => {
                    let problem = "is `none`, which bounds nothing: a private run needs `clip` or `catoni`";
                    return Err(value("em.estimator", problem));
                }
            },
        };
        let update = match self.update {
            UpdateName::Gradient => Update::Gradient { step: self.step },
            UpdateName::Direct => Update::Direct,
        };
        // Averaging takes noise away; where there is none the last round is the best.
        let averaged = match guarantee {
            Guarantee::Plain => 1,
            Guarantee::Private(_) => averaged_rounds(self.rounds),
        };
        let stated =
            Stated { model: self.model, columns, sigma, tau, rounds: self.rounds, estimator, update, averaged };
        Settings::try_from(stated).map_err(|error| of_em(&error))
    }
}

/// An error of a setting, with the key that it is about.
fn of_em(error: &EmError) -> StudyError {
    if let EmError::Range { what, expected, actual } = error {
        let key = match *what {
            "sigma" => "em.sigma",
            "tau" => "em.tau",
            "the number of rounds" | "the number of averaged rounds" => "em.rounds",
            "the clipping bound" => "em.bound",
            "the scale of the truncation" => "em.scale",
            "the smoothing of the truncation" => "em.smoothing",
            _ => "em.step",
        };
        return value(key, format!("must be {expected}, got {actual}"));
    }
    let direct = matches!(error, EmError::NoDirect { .. });
    value(if direct { "em.update" } else { "em" }, format!("cannot be used: {error}"))
}

#[cfg(test)]
mod tests;
