//! What a study says of a function that follows a stream of records: public numbers from outside the data, checked here.

use serde::{Deserialize, Serialize};

use super::forecast::Forecast;
use super::{Average, Basis, Grid, Kernel, Loss, Settings, Stated, Step, StreamError};
use crate::id::Protocol;
use crate::methods::features::forecast::LARGEST_EXPECTED;
use crate::methods::features::terms::of_features;
use crate::methods::features::{FeatureMap, Range};
use crate::privacy::mechanism::ReleasePlan;
use crate::privacy::release::Declaration;
use crate::terms::statement::Protects;
use crate::terms::suggestion::Search;
use crate::terms::{Between, Foretold, Guarantee, MethodTerms, NoExpectation, ROOM, Reckoned, StudyError, value};

mod search;

/// Most records that one message of a stream may have.
const LARGEST_GROUP: u64 = 100_000;
/// Most numbers of one message of a stream: 16 MiB.
const LARGEST_MESSAGE: u64 = 1 << 21;
/// Points that one covariate's grid has unless another number is asked for, for one, two and three covariates.
const GRID_POINTS: [u32; 3] = [50, 15, 8];
/// Clipping of residuals unless another is asked for, in half ranges of the outcome.
const DEFAULT_TAU: f64 = 1.0;

/// Largest delta of a stream, whose records may still be to come; where they can be counted, one over their number is the limit, as
/// everywhere.
const MOST_STREAM_DELTA: f64 = 1e-3;

/// The method of a study that follows a stream of records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StreamTerms {
    /// The kernel of a grid.
    pub kernel: KernelName,
    /// Width of the gaussian kernel, in units of a covariate's range; .1, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub width: Option<f64>,
    /// Grid points per covariate; 50, 15 or 8 with one, two or three covariates, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grid: Option<u32>,
    /// Random features in place of a grid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub features: Option<StreamFeatures>,
    /// How residuals count.
    pub loss: LossName,
    /// Largest residual, in half ranges of the outcome where it has a range.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tau: Option<f64>,
    /// Length of the first step; .25 times the smaller of 1 and the budget of a record, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<f64>,
    /// How steps shrink.
    pub decay: DecayName,
    /// With the decays `power` and `horizon`: the power of the number of records that a step is divided by, at least 0 and below 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exponent: Option<f64>,
    /// With the decay `horizon`: how many records are to come, of all sites together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub horizon: Option<u64>,
    /// Which part of the path is averaged.
    pub average: Average,
    /// Most records of one person.
    pub records_per_person: u32,
}

impl Default for StreamTerms {
    fn default() -> Self {
        StreamTerms {
            kernel: KernelName::Gaussian,
            width: None,
            grid: None,
            features: None,
            loss: LossName::Huber,
            tau: None,
            step: None,
            decay: DecayName::Root,
            exponent: None,
            horizon: None,
            average: Average::LastHalf,
            records_per_person: 1,
        }
    }
}

/// Random features in place of a grid.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamFeatures {
    /// Number of features, even.
    pub count: u32,
    /// Standard deviation of the frequencies, per column in `[0, 1]`.
    pub frequency_sd: f64,
    /// Seed of the frequencies, public.
    #[serde(default)]
    pub seed: u64,
}

/// A kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KernelName {
    /// For smooth functions.
    #[default]
    Gaussian,
    /// For functions with a square-integrable derivative.
    Sobolev,
}

/// How residuals count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LossName {
    /// Cut at tau.
    #[default]
    Huber,
    /// As they are; without privacy only.
    Squares,
}

/// How steps shrink.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DecayName {
    /// By the root of the number of records.
    #[default]
    Root,
    /// Not at all.
    Constant,
    /// By the number of records to the power `exponent`.
    Power,
    /// Not in the course of a stream: every step is divided by `horizon` to the power `exponent`.
    Horizon,
}

/// A function that follows a stream of records.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    /// Public facts of the stream.
    pub settings: Settings,
    /// Public ranges of the covariates, in their order.
    pub ranges: Vec<Range>,
    /// The public range of the outcome, where it has one.
    pub outcome: Option<Range>,
    /// Which part of the path is averaged.
    pub average: Average,
    /// Most records of one person.
    pub records_per_person: u32,
    /// Whether the first step follows from the budget of a record.
    budgeted_step: bool,
}

impl Stream {
    /// Of the method's section of a study.
    pub(crate) fn parse(section: Option<&StreamTerms>, study: &Between<()>) -> Result<Stream, StudyError> {
        study.check_design(&["residual", "signal"], Protocol::Stream)?;
        let delta = study.private().and_then(|terms| terms.stated.delta);
        if delta.is_some_and(|delta| delta > MOST_STREAM_DELTA) {
            let problem =
                format!("must be at most {MOST_STREAM_DELTA:e} in a stream, whose records are not counted beforehand");
            return Err(value("privacy.delta", problem));
        }
        study.only_features(Protocol::Stream)?;
        let terms = section.cloned().unwrap_or_default();
        let batch_rows = study.site_terms().batch_rows;
        let ranges = study.input_ranges()?;
        let outcome = study.outcome_range()?;
        let settings = terms.settings(&study.guarantee, study.method.inputs().len())?;
        if terms.records_per_person == 0 {
            return Err(value("stream.records_per_person", "must be at least 1"));
        }
        if batch_rows > LARGEST_GROUP {
            return Err(value("sites.batch_rows", format!("must be at most {LARGEST_GROUP} in a stream")));
        }
        let length = settings.basis().len();
        let numbers = batch_rows.saturating_mul(length as u64);
        if numbers > LARGEST_MESSAGE {
            let problem =
                format!("makes messages of {numbers} numbers with {length} a record, more than {LARGEST_MESSAGE}");
            return Err(value("sites.batch_rows", problem));
        }
        let StreamTerms { average, records_per_person, step, .. } = terms;
        Ok(Stream { settings, ranges, outcome, average, records_per_person, budgeted_step: step.is_none() })
    }

    /// The units of the outcome: its public range, or as it is.
    pub fn units(&self) -> Range {
        self.outcome.unwrap_or(Range { low: -1.0, high: 1.0 })
    }

    /// The budget of one record; infinite without noise.
    pub(crate) fn record_mu(&self, guarantee: &Guarantee) -> f64 {
        record_mu(guarantee, self.records_per_person)
    }

    /// The same under another guarantee.
    fn under(&self, guarantee: &Guarantee) -> Result<Stream, StudyError> {
        let mut stated = Stated::from(self.settings.clone());
        if self.budgeted_step {
            stated.step = stated.step.with_length(first_step(self.record_mu(guarantee)));
        }
        let settings = Settings::try_from(stated).map_err(|error| of_stream("stream.step", &error))?;
        Ok(Stream { settings, ..self.clone() })
    }

    /// The error to expect with these facts of the design.
    pub(crate) fn forecast(&self, reckoned: Reckoned<'_>) -> Result<Forecast, NoExpectation> {
        Forecast::new(&self.settings, self.average, reckoned.residual, reckoned.signal)
            .ok_or(NoExpectation::TooManyFeatures { most: LARGEST_EXPECTED })
    }
}

impl<M> Between<M> {
    /// What to expect of a given number of records of a stream with noise, and the budget of one; none without noise, and with more random features
    /// than can be reckoned with.
    pub fn stream_forecast(&self, stream: &Stream) -> Option<(Forecast, f64)> {
        match &self.guarantee {
            Guarantee::Plain => None,
            Guarantee::Private(terms) => {
                let forecast = stream.forecast(terms.stated.design.reckoned()).ok()?;
                Some((forecast, stream.record_mu(&self.guarantee)))
            }
        }
    }
}

impl<M> MethodTerms<M> for Stream {
    fn protocol(&self) -> Protocol {
        Protocol::Stream
    }

    fn last_broadcast(&self) -> Option<u64> {
        Some(u64::MAX)
    }

    fn declared(&self) -> Vec<Declaration> {
        vec![Declaration::RecordUpdate]
    }

    fn releases(&self, study: &Between<M>) -> Option<ReleasePlan> {
        Some(study.even_plan(vec![format!("every record, {} of a person", self.records_per_person)]))
    }

    fn protects(&self) -> Protects {
        Protects::Records { per_person: self.records_per_person }
    }

    fn half_range(&self, _: &Between<M>) -> Option<f64> {
        Some(self.units().half())
    }

    fn foretold(&self, study: &Between<M>, rows: u64, reckoned: Reckoned<'_>) -> Result<Foretold, NoExpectation> {
        // The first step may follow from the budget.
        let own = self.under(&study.guarantee)?;
        let forecast = own.forecast(reckoned)?;
        let all = rows.saturating_mul(u64::from(study.number_of_sites()));
        let (error, noise) = forecast.error(all, self.record_mu(&study.guarantee));
        Ok(Foretold {
            of: "function, root mean square over its covariates",
            assumed: vec![
                "covariates are spread evenly over their ranges, each by itself".to_owned(),
                "the function is a draw of the study's own kernel".to_owned(),
                reckoned.sizes(),
            ],
            noise,
            error,
            alone: forecast.alone(rows),
            zero: forecast.zero(),
            ..Foretold::default()
        })
    }

    fn search(&self, study: &Between<M>, rows: u64, now: f64) -> Search {
        Search::of(self.tried(study, rows), now)
    }
}

fn record_mu(guarantee: &Guarantee, records_per_person: u32) -> f64 {
    // Records of a person are counted by themselves, and not as rows.
    guarantee.row_mu(1) / f64::from(records_per_person.max(1)).sqrt() * ROOM
}

fn first_step(record_mu: f64) -> f64 {
    0.25 * record_mu.min(1.0)
}

impl StreamTerms {
    fn settings(&self, guarantee: &Guarantee, covariates: usize) -> Result<Settings, StudyError> {
        let basis = match &self.features {
            Some(features) => {
                for (key, given) in [("stream.grid", self.grid.is_some()), ("stream.width", self.width.is_some())] {
                    if given {
                        return Err(value(key, "has no place beside `stream.features`"));
                    }
                }
                let map = FeatureMap::new(features.seed, covariates, features.count as usize, features.frequency_sd);
                Basis::Features(map.map_err(|error| of_features("stream.features", &error))?)
            }
            None => Basis::Grid(self.grid(covariates)?),
        };
        let loss = match (self.loss, guarantee) {
            (LossName::Huber, _) => Loss::Huber { tau: self.tau.unwrap_or(DEFAULT_TAU) },
            (LossName::Squares, _) if self.tau.is_some() => {
                return Err(value("stream.tau", "has no place beside the loss `squares`, which cuts nothing"));
            }
            (LossName::Squares, Guarantee::Private(_)) => {
                return Err(value("stream.loss", format!("cannot be used: {}", StreamError::NoBound)));
            }
            (LossName::Squares, Guarantee::Plain) => Loss::Squares,
        };
        let length = self.step.unwrap_or_else(|| first_step(record_mu(guarantee, self.records_per_person)));
        let step = self.schedule(length)?;
        Settings::try_from(Stated { basis, loss, step }).map_err(|error| {
            let what = if let StreamError::Setting { what, .. } = &error { *what } else { "" };
            let key = match what {
                "tau" => "stream.tau",
                "the exponent of the step" => "stream.exponent",
                "the number of records to come" => "stream.horizon",
                _ => "stream.step",
            };
            of_stream(key, &error)
        })
    }

    fn schedule(&self, length: f64) -> Result<Step, StudyError> {
        let beside = |key, given, name| {
            let problem = || format!("has no place beside the decay `{name}`");
            if given { Err(value(key, problem())) } else { Ok(()) }
        };
        let exponent = |name| {
            let problem = || format!("is missing beside the decay `{name}`");
            self.exponent.ok_or_else(|| value("stream.exponent", problem()))
        };
        match self.decay {
            DecayName::Root | DecayName::Constant => {
                let name = if self.decay == DecayName::Root { "root" } else { "constant" };
                beside("stream.exponent", self.exponent.is_some(), name)?;
                beside("stream.horizon", self.horizon.is_some(), name)?;
                Ok(if self.decay == DecayName::Root { Step::Root { length } } else { Step::Constant { length } })
            }
            DecayName::Power => {
                beside("stream.horizon", self.horizon.is_some(), "power")?;
                Ok(Step::Power { length, exponent: exponent("power")? })
            }
            DecayName::Horizon => {
                let problem = || "is missing beside the decay `horizon`".to_owned();
                let records = self.horizon.ok_or_else(|| value("stream.horizon", problem()))?;
                Ok(Step::Horizon { length, exponent: exponent("horizon")?, records })
            }
        }
    }

    fn grid(&self, covariates: usize) -> Result<Grid, StudyError> {
        let kernel = match self.kernel {
            KernelName::Gaussian => Kernel::Gaussian { width: self.width.unwrap_or(0.1) },
            KernelName::Sobolev if self.width.is_some() => {
                return Err(value("stream.width", "has no place beside the kernel `sobolev`"));
            }
            KernelName::Sobolev => Kernel::Sobolev,
        };
        let points = self.grid.unwrap_or(GRID_POINTS[covariates.clamp(1, 3) - 1]);
        Grid::new(kernel, points as usize, covariates).map_err(|error| {
            let setting = |name: &str| matches!(&error, StreamError::Setting { what, .. } if *what == name);
            if setting("the number of covariates of a grid") {
                return value("model.features", format!("cannot be used: {error}"));
            }
            of_stream(if setting("the kernel's width") { "stream.width" } else { "stream.grid" }, &error)
        })
    }
}

fn of_stream(key: &str, error: &StreamError) -> StudyError {
    let StreamError::Setting { expected, actual, .. } = error else {
        return value(key, format!("cannot be used: {error}"));
    };
    value(key, format!("must be {expected}, got {actual}"))
}

#[cfg(test)]
mod tests;
