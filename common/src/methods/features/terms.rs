//! What a study says of a function by random features: public numbers from outside the data, checked here.

use serde::{Deserialize, Serialize};

use super::forecast::{Forecast, FunctionDesign, FunctionPrediction, LARGEST_EXPECTED, Spread};
use super::{FeatureError, FeatureMap, LARGEST_STATISTICS, Range, Statistics, output_sensitivity, sensitivity};
use crate::id::Protocol;
use crate::methods::robust::{ConsolidationSettings, Method};
use crate::privacy::mechanism::{ReleasePlan, noise_scale};
use crate::privacy::release::Declaration;
use crate::terms::suggestion::Search;
use crate::terms::{Between, Foretold, Guarantee, MethodTerms, NoExpectation, Reckoned, StudyError, value};

mod search;

/// Ridge of a site's own solution unless another is asked for.
const OUTPUT_LAMBDA: f64 = 0.01;
/// Ridge of pooled statistics without noise unless another is asked for.
const PLAIN_LAMBDA: f64 = 1e-6;

/// The method of a study with random features.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FeaturesTerms {
    /// Number of features, even.
    pub count: u32,
    /// Standard deviation of the frequencies, per column in `[0, 1]`.
    pub frequency_sd: f64,
    /// Seed of the frequencies, public.
    pub seed: u64,
    /// What a site sends.
    pub release: Release,
    /// Ridge: of the pooled statistics, 1e-6 without noise and none with it, if absent; of each site's own solution, .01.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lambda: Option<f64>,
    /// How sites' solutions become one, with `release = "output"`: refine, pivot, geomed, trimmed, cmedian, filter or mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consolidation: Option<String>,
}

impl Default for FeaturesTerms {
    fn default() -> Self {
        FeaturesTerms {
            count: 50,
            frequency_sd: 0.5,
            seed: 0,
            release: Release::Statistics,
            lambda: None,
            consolidation: None,
        }
    }
}

/// What a site of a study with random features sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Release {
    /// Cross-products of the features, which are added up.
    #[default]
    Statistics,
    /// A ridge solution of its own, which may be consolidated robustly.
    Output,
}

/// A function by random features.
#[derive(Debug, Clone, PartialEq)]
pub struct Features {
    /// The features.
    pub map: FeatureMap,
    /// Public ranges of the inputs, in their order.
    pub ranges: Vec<Range>,
    /// The public range of the outcome.
    pub outcome: Range,
    /// What a site sends.
    pub release: Release,
    /// The ridge.
    pub lambda: f64,
    /// How sites' own solutions become one.
    pub consolidation: ConsolidationSettings,
}

impl Features {
    /// Of the method's section of a study.
    pub(crate) fn parse(section: Option<&FeaturesTerms>, study: &Between<()>) -> Result<Features, StudyError> {
        study.check_design(&["residual", "signal"], Protocol::Features)?;
        study.only_features(Protocol::Features)?;
        let terms = section.cloned().unwrap_or_default();
        let map = terms.map(&study.guarantee, study.method.inputs().len())?;
        if map.count() > 1_000_000 {
            return Err(value("features.count", "must be at most 1000000"));
        }
        let ranges = study.input_ranges()?;
        let Some(outcome) = study.outcome_range()? else {
            let key = format!("columns.{}.range", study.method.outcome);
            return Err(value(&key, "is missing: the public range of the outcome, from outside the data"));
        };
        let lambda = terms.lambda(&study.guarantee)?;
        let consolidation = match (terms.consolidation.as_deref(), terms.release) {
            (Some(_), Release::Statistics) => {
                return Err(value(
                    "features.consolidation",
                    "has no place beside `statistics`, which are added up; it needs `output`",
                ));
            }
            (stated, Release::Output | Release::Statistics) => {
                match stated.unwrap_or(Method::Refine.name()).parse::<Method>() {
                    Ok(method) => method.into(),
                    Err(error) => return Err(value("features.consolidation", format!("is not known: {error}"))),
                }
            }
        };
        Ok(Features { map, ranges, outcome, release: terms.release, lambda, consolidation })
    }

    /// What a site releases.
    fn label(&self) -> String {
        match self.release {
            Release::Statistics => "cross-products of features".to_string(),
            Release::Output => "solution".to_string(),
        }
    }

    /// The spectrum of the features.
    fn forecast<M>(&self, study: &Between<M>, reckoned: Reckoned<'_>) -> Result<Forecast, NoExpectation> {
        let Reckoned { residual, signal, .. } = reckoned;
        let spread = |column: &String| match study.head.columns.get(column).map_or(0, |terms| terms.levels.len()) {
            0 => Spread::Even,
            levels => Spread::Levels(levels - 1),
        };
        let inputs = study.method.features.iter().map(spread).collect();
        Forecast::new(&self.map, &FunctionDesign { inputs, residual, signal })?
            .ok_or(NoExpectation::TooManyFeatures { most: LARGEST_EXPECTED })
    }

    /// Errors of these features and this ridge, which may be others than the study's.
    fn predict<M>(
        &self,
        study: &Between<M>,
        forecast: &Forecast,
        rows: u64,
    ) -> Result<FunctionPrediction, NoExpectation> {
        let (sites, lambda) = (study.number_of_sites(), self.lambda);
        Ok(match self.release {
            Release::Statistics => forecast.statistics(rows, sites, study.features_sigma(self)?, lambda)?,
            Release::Output => {
                let count = usize::try_from(rows).unwrap_or(usize::MAX);
                let sensitivity = output_sensitivity(count, self.map.count(), lambda);
                let (sigma, _) = noise_scale(sensitivity, self.map.count(), study.site_mu())?;
                forecast.solutions(rows, sites, sigma, lambda)
            }
        })
    }
}

impl<M: Sync> MethodTerms<M> for Features {
    fn protocol(&self) -> Protocol {
        Protocol::Features
    }

    fn declared(&self) -> Vec<Declaration> {
        match self.release {
            Release::Statistics => vec![Declaration::FeatureStatistics],
            Release::Output => vec![Declaration::FeatureSolution],
        }
    }

    fn releases(&self, study: &Between<M>) -> Option<ReleasePlan> {
        Some(study.even_plan(vec![self.label()]))
    }

    fn half_range(&self, _: &Between<M>) -> Option<f64> {
        Some(self.outcome.half())
    }

    fn foretold(&self, study: &Between<M>, rows: u64, reckoned: Reckoned<'_>) -> Result<Foretold, NoExpectation> {
        let predicted = self.predict(study, &self.forecast(study, reckoned)?, rows)?;
        Ok(Foretold {
            of: "function, root mean square over its inputs",
            assumed: vec![
                "inputs are spread evenly over their ranges and levels, each by itself".to_owned(),
                "the function is a draw of the study's own kernel".to_owned(),
                reckoned.sizes(),
            ],
            noise: predicted.noise,
            error: predicted.error,
            alone: predicted.alone,
            zero: predicted.zero,
            ..Foretold::default()
        })
    }

    fn search(&self, study: &Between<M>, rows: u64, now: f64) -> Search {
        Search::of(self.tried(study, rows), now)
    }
}

impl<M> Between<M> {
    /// Standard deviation of the noise in each number that a site of a study with random features sends; zero without noise.
    ///
    /// # Errors
    /// A study that cannot be used.
    pub fn features_sigma(&self, features: &Features) -> Result<f64, StudyError> {
        let plan = match &self.guarantee {
            Guarantee::Plain => return Ok(0.0),
            Guarantee::Private(_) => self.even_plan(vec![features.label()]),
        };
        let mu = plan.releases().first().map_or(f64::NAN, |release| release.mu);
        match noise_scale(sensitivity(), Statistics::len(&features.map), mu) {
            Ok((sigma, _)) => Ok(sigma),
            Err(error) => Err(value("privacy", format!("cannot be used: {error}"))),
        }
    }

    /// Public ranges of the inputs of a function, in their order: those of numeric columns are stated, a level is 0 or 1.
    pub(crate) fn input_ranges(&self) -> Result<Vec<Range>, StudyError> {
        let mut ranges = Vec::new();
        for column in &self.method.features {
            let terms = self.head.columns.get(column);
            match terms.map(|terms| (terms.range, terms.levels.len())) {
                Some((Some([low, high]), 0)) => ranges.push(range_of(column, low, high)?),
                Some((None, levels)) if levels > 1 => {
                    ranges.extend(std::iter::repeat_n(range_of(column, 0.0, 1.0)?, levels - 1));
                }
                _ => {
                    let problem = "is missing: a public range, or levels, from outside the data (a centre and a scale do not bound a value)";
                    return Err(value(&format!("columns.{column}.range"), problem));
                }
            }
        }
        Ok(ranges)
    }

    /// The public range of the outcome, if it is stated.
    pub(crate) fn outcome_range(&self) -> Result<Option<Range>, StudyError> {
        let column = self.method.outcome.as_str();
        match self.head.columns.get(column).and_then(|terms| terms.range) {
            Some([low, high]) => range_of(column, low, high).map(Some),
            None => Ok(None),
        }
    }
}

impl FeaturesTerms {
    fn map(&self, guarantee: &Guarantee, inputs: usize) -> Result<FeatureMap, StudyError> {
        // Statistics are this number squared, and so is the table that certifies a private solution.
        let limited = match (self.release, guarantee) {
            (Release::Statistics, _) | (Release::Output, Guarantee::Private(_)) => true,
            (Release::Output, Guarantee::Plain) => false,
        };
        if self.count as usize > LARGEST_STATISTICS && limited {
            let problem = format!("must be at most {LARGEST_STATISTICS}, and is {}", self.count);
            return Err(value("features.count", problem));
        }
        FeatureMap::new(self.seed, inputs, self.count as usize, self.frequency_sd)
            .map_err(|error| of_features("features", &error))
    }

    fn lambda(&self, guarantee: &Guarantee) -> Result<f64, StudyError> {
        let Some(lambda) = self.lambda else {
            return Ok(match (self.release, guarantee) {
                (Release::Output, _) => OUTPUT_LAMBDA,
                (Release::Statistics, Guarantee::Plain) => PLAIN_LAMBDA,
                // The floor under the noisy spectrum is ridge enough.
                (Release::Statistics, Guarantee::Private(_)) => 0.0,
            });
        };
        let least = match self.release {
            Release::Statistics => 0.0,
            Release::Output => 1e-6,
        };
        match (least..=1e6).contains(&lambda) {
            true => Ok(lambda),
            false => {
                let problem = format!("must be from 0, with `output` from 1e-6, to 1e6, got {lambda}");
                Err(value("features.lambda", problem))
            }
        }
    }
}

fn range_of(column: &str, low: f64, high: f64) -> Result<Range, StudyError> {
    Range::new(low, high).map_err(|error| value(&format!("columns.{column}.range"), error.to_string()))
}

pub(crate) fn of_features(table: &str, error: &FeatureError) -> StudyError {
    let FeatureError::Setting { what, expected, actual } = error else {
        return value(table, format!("cannot be used: {error}"));
    };
    let key = match *what {
        "the number of inputs" => "model.features".to_string(),
        "the frequencies' standard deviation" => format!("{table}.frequency_sd"),
        _ => format!("{table}.count"),
    };
    value(&key, format!("must be {expected}, got {actual}"))
}

#[cfg(test)]
mod tests;
