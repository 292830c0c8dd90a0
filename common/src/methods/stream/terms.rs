//! What a study says of a function that follows a stream of records: public numbers from outside the data, checked here.

use serde::{Deserialize, Serialize};

use super::forecast::Forecast;
use super::{Average, Basis, Grid, Kernel, Loss, Settings, Stated, Step, StreamError};
use crate::id::Protocol;
use crate::methods::features::forecast::LARGEST_EXPECTED;
use crate::methods::features::terms::of_features;
use crate::methods::features::{FeatureMap, Range};
use crate::privacy::accountant::Budget;
use crate::privacy::mechanism::ReleasePlan;
use crate::privacy::mechanism::records::{Costs, Sequence, Spending, enough_for_record};
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

/// Largest power of a record's place that its budget may be divided by.
const LARGEST_EXPONENT: f64 = 2.0;

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
    /// A budget for each record by its place in the stream of its worker, in place of `records_per_person`; private mode only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budgets: Option<RecordBudgets>,
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
            budgets: None,
        }
    }
}

/// A budget for each record: the n-th of a worker's stream has epsilon / n^epsilon_exponent and delta / n^delta_exponent. A person's records are
/// used as long as what they cost together stays within the budget of the run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RecordBudgets {
    /// Of the first record; that of the run, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epsilon: Option<f64>,
    /// Of the first record; that of the run, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delta: Option<f64>,
    /// The power of a record's place that its epsilon is divided by, from 0 to 2.
    pub epsilon_exponent: f64,
    /// The power of a record's place that its delta is divided by, from 0 to 2.
    pub delta_exponent: f64,
}

impl Default for RecordBudgets {
    fn default() -> Self {
        RecordBudgets { epsilon: None, delta: None, epsilon_exponent: 0.0, delta_exponent: 0.0 }
    }
}

impl RecordBudgets {
    fn check(&self) -> Result<(), StudyError> {
        let refuse = |key: &str, expected, actual| {
            Err(value(&format!("stream.budgets.{key}"), format!("must be {expected}, got {actual}")))
        };
        for (key, exponent) in [("epsilon_exponent", self.epsilon_exponent), ("delta_exponent", self.delta_exponent)] {
            if !(0.0..=LARGEST_EXPONENT).contains(&exponent) {
                return refuse(key, "from 0 to 2", exponent);
            }
        }
        match (self.epsilon, self.delta) {
            (Some(epsilon), _) if !(epsilon > 0.0 && epsilon.is_finite()) => {
                refuse("epsilon", "a positive number", epsilon)
            }
            (_, Some(delta)) if !(delta > 0.0 && delta < 1.0) => refuse("delta", "above 0 and below 1", delta),
            _ => Ok(()),
        }
    }

    /// In a run with this budget for each person, of records of a given number of numbers.
    fn sequence(&self, whole: Budget, numbers: usize) -> Sequence {
        let first = (self.epsilon.unwrap_or(whole.epsilon()), self.delta.unwrap_or(whole.delta()));
        Sequence::new(whole, first, (self.epsilon_exponent, self.delta_exponent), numbers)
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
    /// Most records of one person, where records have no budgets of their own.
    pub records_per_person: u32,
    /// Budgets of records.
    budgets: Option<RecordBudgets>,
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
        terms.budgets.iter().try_for_each(RecordBudgets::check)?;
        let settings = terms.settings(&study.guarantee, study.method.inputs().len())?;
        if terms.records_per_person == 0 {
            return Err(value("stream.records_per_person", "must be at least 1"));
        }
        terms.check_budgets(&study.guarantee, settings.basis().len())?;
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
        let StreamTerms { average, records_per_person, budgets, step, .. } = terms;
        let budgeted_step = step.is_none();
        Ok(Stream { settings, ranges, outcome, average, records_per_person, budgets, budgeted_step })
    }

    /// The units of the outcome: its public range, or as it is.
    pub fn units(&self) -> Range {
        self.outcome.unwrap_or(Range { low: -1.0, high: 1.0 })
    }

    /// What a record may spend of its person's budget.
    pub fn spending(&self, guarantee: &Guarantee) -> Spending {
        match (self.budgets, guarantee) {
            (Some(budgets), Guarantee::Private(terms)) => {
                Spending::Sequence(budgets.sequence(terms.budget, self.settings.basis().len()))
            }
            _ => Spending::Even { records: self.records_per_person },
        }
    }

    /// The budget of the first record, and of all others where they have none of their own; infinite without noise.
    pub(crate) fn record_mu(&self, guarantee: &Guarantee) -> f64 {
        record_mu(guarantee, self.spending(guarantee))
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
    pub(crate) fn forecast<M>(&self, study: &Between<M>, reckoned: Reckoned<'_>) -> Result<Forecast, NoExpectation> {
        let forecast = Forecast::new(&self.settings, self.average, reckoned.residual, reckoned.signal)
            .ok_or(NoExpectation::TooManyFeatures { most: LARGEST_EXPECTED })?;
        Ok(forecast.spending(self.spending(&study.guarantee), study.number_of_sites()))
    }
}

impl<M> Between<M> {
    /// What to expect of a given number of records of a stream with noise, and the budget of one; none without noise, and with more random features
    /// than can be reckoned with.
    pub fn stream_forecast(&self, stream: &Stream) -> Option<(Forecast, f64)> {
        match &self.guarantee {
            Guarantee::Plain => None,
            Guarantee::Private(terms) => {
                let forecast = stream.forecast(self, terms.stated.design.reckoned()).ok()?;
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
        let label = match self.budgets {
            Some(_) => "every record, within the budget of its person".to_owned(),
            None => format!("every record, {} of a person", self.records_per_person),
        };
        Some(study.even_plan(vec![label]))
    }

    fn protects(&self) -> Protects {
        Protects::Records { per_person: self.budgets.is_none().then_some(self.records_per_person) }
    }

    fn half_range(&self, _: &Between<M>) -> Option<f64> {
        Some(self.units().half())
    }

    fn foretold(&self, study: &Between<M>, rows: u64, reckoned: Reckoned<'_>) -> Result<Foretold, NoExpectation> {
        // The first step may follow from the budget.
        let own = self.under(&study.guarantee)?;
        let forecast = own.forecast(study, reckoned)?;
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

fn record_mu(guarantee: &Guarantee, spending: Spending) -> f64 {
    let records = match spending {
        Spending::Even { records } => f64::from(records.max(1)),
        Spending::Sequence(sequence) => sequence.part(1).min(1.0).recip(),
    };
    // Records of a person are counted by themselves, and not as rows.
    guarantee.row_mu(1) / records.sqrt() * ROOM
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
        let spending = match (&self.budgets, guarantee) {
            (Some(budgets), Guarantee::Private(terms)) => {
                Spending::Sequence(budgets.sequence(terms.budget, basis.len()))
            }
            _ => Spending::Even { records: self.records_per_person },
        };
        let length = self.step.unwrap_or_else(|| first_step(record_mu(guarantee, spending)));
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

    /// What records may spend under this guarantee, each of a given number of numbers.
    fn check_budgets(&self, guarantee: &Guarantee, numbers: usize) -> Result<(), StudyError> {
        let Some(budgets) = &self.budgets else {
            let most = self.records_per_person;
            return enough_for_record(record_mu(guarantee, Spending::Even { records: most }), numbers).map_err(|_| {
                let problem = format!("of {most} leaves too small a budget for a record of {numbers} numbers");
                value("stream.records_per_person", problem)
            });
        };
        let Guarantee::Private(terms) = guarantee else {
            return Err(value("stream.budgets", "has no place in a plain study: set mode = \"private\""));
        };
        if self.records_per_person != 1 {
            return Err(value("stream.records_per_person", "has no place beside `stream.budgets`"));
        }
        let (whole, sequence) = (&terms.budget, budgets.sequence(terms.budget, numbers));
        let (epsilon, delta) = sequence.budget(1);
        if sequence.part(1) > 1.0 {
            let problem = format!(
                "costs more than a person has in the run: epsilon {epsilon} at delta {delta:e} for the first record, {} at {:e} for all",
                whole.epsilon(),
                whole.delta()
            );
            return Err(value("stream.budgets.epsilon", problem));
        }
        match Costs::new(Spending::Sequence(sequence)).of(1) {
            0 => {
                let problem =
                    format!("of epsilon {epsilon} at delta {delta:e} is too small for a record of {numbers} numbers");
                Err(value("stream.budgets", problem))
            }
            _ => Ok(()),
        }
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
