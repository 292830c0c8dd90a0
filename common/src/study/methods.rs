//! What a study says of the methods `em`, `features` and `stream`: public numbers from outside the data, checked here.

use nalgebra::DVector;
use serde::{Deserialize, Deserializer, Serialize};

use super::budgets::ROOM;
use super::file::{StudyFile, one};
use super::horizontal::inputs;
use super::privacy::public_number;
use super::{Guarantee, StudyError, value};
use crate::methods::em::{self, EmError, averaged_rounds, clip_bound};
use crate::methods::features::{FeatureError, FeatureMap, LARGEST_STATISTICS, Range};
use crate::methods::robust::{ConsolidationSettings, Method};
use crate::methods::stream::{self, Average, Basis, Grid, Kernel, Loss, Step, StreamError};

/// Most records that one message of a stream may have.
const LARGEST_GROUP: u64 = 100_000;
/// Most numbers of one message of a stream: 16 MiB.
const LARGEST_MESSAGE: u64 = 1 << 21;
/// Points that one covariate's grid has unless another number is asked for, for one, two and three covariates.
const GRID_POINTS: [u32; 3] = [50, 15, 8];
/// Clipping of residuals unless another is asked for, in half ranges of the outcome.
const DEFAULT_TAU: f64 = 1.0;

/// The method of a study with something hidden.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EmTerms {
    /// What is hidden: gmm, mrm or rmc.
    pub model: em::Model,
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

/// Ridge of a site's own solution unless another is asked for.
const OUTPUT_LAMBDA: f64 = 0.01;
/// Ridge of pooled statistics without noise unless another is asked for.
const PLAIN_LAMBDA: f64 = 1e-6;

/// A model with something hidden.
#[derive(Debug, Clone, PartialEq)]
pub struct Em {
    /// Public facts of the fit.
    pub settings: em::Settings,
    /// Where the iteration starts.
    pub start: DVector<f64>,
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

/// A function that follows a stream of records.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    /// Public facts of the stream.
    pub settings: stream::Settings,
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
    /// The units of the outcome: its public range, or as it is.
    pub fn units(&self) -> Range {
        self.outcome.unwrap_or(Range { low: -1.0, high: 1.0 })
    }

    /// The budget of one record; infinite without noise.
    pub(super) fn record_mu(&self, guarantee: &Guarantee) -> f64 {
        record_mu(guarantee, self.records_per_person)
    }

    /// The same under another guarantee.
    pub(super) fn under(&self, guarantee: &Guarantee) -> Option<Stream> {
        let mut stated = stream::Stated::from(self.settings.clone());
        if self.budgeted_step {
            let length = first_step(self.record_mu(guarantee));
            stated.step = match stated.step {
                Step::Root { .. } => Step::Root { length },
                Step::Constant { .. } => Step::Constant { length },
            };
        }
        Some(Stream { settings: stream::Settings::try_from(stated).ok()?, ..self.clone() })
    }
}

fn record_mu(guarantee: &Guarantee, records_per_person: u32) -> f64 {
    // Records of a person are counted by themselves, and not as rows.
    guarantee.row_mu(1) / f64::from(records_per_person.max(1)).sqrt() * ROOM
}

fn first_step(record_mu: f64) -> f64 {
    0.25 * record_mu.min(1.0)
}

impl StudyFile {
    /// The model with something hidden.
    pub(super) fn em(&self, guarantee: &Guarantee, columns: usize) -> Result<Em, StudyError> {
        self.only_features()?;
        let terms = self.em.as_ref().ok_or_else(|| value("em", "is missing: which model, which sigma, which tau?"))?;
        if let Some(column) =
            self.model.features.iter().find(|name| self.columns.get(*name).is_some_and(|c| !c.levels.is_empty()))
        {
            return Err(value(&format!("columns.{column}.levels"), "has no place here: these models take numbers"));
        }
        match (terms.model, self.outcome.is_none()) {
            (em::Model::GaussianMixture, false) => {
                return Err(value("outcome", "has no place in the mixture `gmm`, whose points are the features"));
            }
            (em::Model::MixedRegressions | em::Model::MissingCovariates, true) => {
                return Err(value("outcome.column", "is missing: which column is to be explained?"));
            }
            (em::Model::GaussianMixture, true)
            | (em::Model::MixedRegressions | em::Model::MissingCovariates, false) => {}
        }
        if terms.update == UpdateName::Direct && terms.step != 1.0 {
            return Err(value("em.step", "has no place beside the update `direct`"));
        }
        let settings = terms.settings(guarantee, columns)?;
        let start = match terms.start.as_deref() {
            Some(start) => {
                settings.given_start(start).map_err(|error| value("em.start", format!("cannot be used: {error}")))?
            }
            None => settings.random_start(terms.seed),
        };
        Ok(Em { settings, start })
    }

    /// The function by random features.
    pub(super) fn features(&self, guarantee: &Guarantee, coefficients: &[String]) -> Result<Features, StudyError> {
        self.only_features()?;
        let terms = self.features.clone().unwrap_or_default();
        let map = terms.map(guarantee, inputs(coefficients).len())?;
        if map.count() > 1_000_000 {
            return Err(value("features.count", "must be at most 1000000"));
        }
        let ranges = self.input_ranges()?;
        let Some(outcome) = self.outcome_range()? else {
            let key = format!("columns.{}.range", self.outcome.column);
            return Err(value(&key, "is missing: the public range of the outcome, from outside the data"));
        };
        let lambda = terms.lambda(guarantee)?;
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

    /// The function that follows a stream.
    pub(super) fn stream(&self, guarantee: &Guarantee, coefficients: &[String]) -> Result<Stream, StudyError> {
        self.only_features()?;
        let terms = self.stream.clone().unwrap_or_default();
        let batch_rows = self.site_terms().batch_rows;
        let ranges = self.input_ranges()?;
        let outcome = self.outcome_range()?;
        let settings = terms.settings(guarantee, inputs(coefficients).len())?;
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

    /// Public ranges of the inputs of a function, in their order: those of numeric columns are stated, a level is 0 or 1.
    fn input_ranges(&self) -> Result<Vec<Range>, StudyError> {
        let mut ranges = Vec::new();
        for column in &self.model.features {
            let terms = self.columns.get(column);
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
    fn outcome_range(&self) -> Result<Option<Range>, StudyError> {
        let column = self.outcome.column.as_str();
        match self.columns.get(column).and_then(|terms| terms.range) {
            Some([low, high]) => range_of(column, low, high).map(Some),
            None => Ok(None),
        }
    }

    /// Columns by name only: what products and powers of them are bounded by is not derived.
    fn only_features(&self) -> Result<(), StudyError> {
        match self.model.formula {
            Some(_) => Err(value(
                "model.formula",
                format!("has no place in a study of protocol `{}`; list `features`", self.protocol.name()),
            )),
            None => Ok(()),
        }
    }
}

impl EmTerms {
    fn settings(&self, guarantee: &Guarantee, columns: usize) -> Result<em::Settings, StudyError> {
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
            EstimatorName::Clip => {
                em::Estimator::Clip { bound: self.bound.unwrap_or_else(|| clip_bound(columns, tau)) }
            }
            EstimatorName::Catoni => {
                let scale = self.scale.ok_or_else(|| {
                    value("em.scale", "is missing: `catoni` needs the scale below which gradients stay as they are")
                })?;
                em::Estimator::Catoni { scale, smoothing: self.smoothing.unwrap_or(em::DEFAULT_SMOOTHING) }
            }
            EstimatorName::None => em::Estimator::None,
        };
        let update = match self.update {
            UpdateName::Gradient => em::Update::Gradient { step: self.step },
            UpdateName::Direct => em::Update::Direct,
        };
        // Averaging takes noise away; where there is none the last round is the best.
        let averaged = match guarantee {
            Guarantee::Plain => 1,
            Guarantee::Private(_) => averaged_rounds(self.rounds),
        };
        let stated =
            em::Stated { model: self.model, columns, sigma, tau, rounds: self.rounds, estimator, update, averaged };
        em::Settings::try_from(stated).map_err(|error| of_em(&error))
    }
}

impl FeaturesTerms {
    fn map(&self, guarantee: &Guarantee, inputs: usize) -> Result<FeatureMap, StudyError> {
        // Statistics are so many squared, and so is the table that certifies a private solution.
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

impl StreamTerms {
    fn settings(&self, guarantee: &Guarantee, covariates: usize) -> Result<stream::Settings, StudyError> {
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
        let step = match self.decay {
            DecayName::Root => Step::Root { length },
            DecayName::Constant => Step::Constant { length },
        };
        stream::Settings::try_from(stream::Stated { basis, loss, step }).map_err(|error| {
            let cut = matches!(&error, StreamError::Setting { what: "tau", .. });
            of_stream(if cut { "stream.tau" } else { "stream.step" }, &error)
        })
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

fn range_of(column: &str, low: f64, high: f64) -> Result<Range, StudyError> {
    Range::new(low, high).map_err(|error| value(&format!("columns.{column}.range"), error.to_string()))
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

fn of_features(table: &str, error: &FeatureError) -> StudyError {
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

fn of_stream(key: &str, error: &StreamError) -> StudyError {
    let StreamError::Setting { expected, actual, .. } = error else {
        return value(key, format!("cannot be used: {error}"));
    };
    value(key, format!("must be {expected}, got {actual}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::Study;
    use crate::study::horizontal::SiteMethod;
    use crate::study::tests::{sites, written};

    const SITES: &str = r#"
        id = "sites"
        [workers.north]
        certificate = "north.example"
        [workers.south]
        certificate = "south.example"
    "#;

    fn em(more: &str) -> String {
        format!(
            "protocol = \"em\"\n{SITES}\n[model]\nfeatures = [\"a\", \"b\"]\n[outcome]\ncolumn = \"y\"\n[em]\nmodel = \"mrm\"\nsigma = \
             1.0\ntau = 5.0\n{more}"
        )
    }

    fn features(more: &str) -> String {
        format!(
            "protocol = \"features\"\n{SITES}\n[model]\nfeatures = [\"age\", \"region\"]\n[outcome]\ncolumn = \"y\"\n[columns.age]\nrange = \
             [18, 90]\n[columns.region]\nlevels = [\"a\", \"b\", \"c\"]\n[columns.y]\nrange = [0, 10]\n[features]\n{more}"
        )
    }

    fn stream(more: &str) -> String {
        format!(
            "protocol = \"stream\"\n{SITES}\n[model]\nfeatures = [\"x\"]\n[outcome]\ncolumn = \"y\"\n[columns.x]\nrange = [0, 1]\n[stream]\n{more}"
        )
    }

    fn complaint(text: &str) -> String {
        Study::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn short_studies_of_the_three_methods_have_the_defaults_and_one_digest() {
        let study = sites(&em(""));
        let SiteMethod::Em(Em { settings, .. }) = &study.method.method else { panic!("{study:?}") };
        assert_eq!((settings.stated().rounds, settings.stated().columns, settings.stated().averaged), (22, 2, 1));
        assert_eq!(settings.stated().estimator, em::Estimator::Clip { bound: clip_bound(2, 5.0) });
        assert_eq!(study.method.coefficients, ["a", "b"]);
        assert_eq!(study.digest(), Study::parse(&em("rounds = 22\nestimator = \"clip\"")).unwrap().digest());

        let study = sites(&features(""));
        assert_eq!(study.method.inputs(), ["age", "regionb", "regionc"]);
        let SiteMethod::Features(found) = &study.method.method else { panic!("{study:?}") };
        assert_eq!((found.ranges.len(), found.map.count(), found.lambda), (3, 50, 1e-6));

        let study = sites(&stream(""));
        let SiteMethod::Stream(found) = &study.method.method else { panic!("{study:?}") };
        assert_eq!(found.settings.basis().len(), 50);
        for text in [em(""), features(""), stream("")] {
            assert_eq!(sites(&written(&text)), sites(&text));
        }
    }

    #[test]
    fn every_mistake_in_the_three_methods_names_its_key() {
        for (text, says) in [
            (em("").replace("sigma = 1.0", ""), "`em.sigma` is missing: the standard deviation"),
            (em("").replace("tau = 5.0", ""), "`em.tau` is missing"),
            (
                em("").replace("sigma = 1.0", "sigma = \"data\""),
                "sigma = \"data\": a number taken from the data is a release",
            ),
            (em("").replace("tau = 5.0", "tau = [1]"), "tau must be a number"),
            (em("").replace("sigma = 1.0", "sigma = -1.0"), "`em.sigma` must be positive"),
            (em("").replace("tau = 5.0", "tau = 0.5"), "`em.tau` must be greater than sigma squared"),
            (em("rounds = 0"), "`em.rounds` must be from 1"),
            (em("step = 3.0"), "`em.step` must be positive and at most 2, got 3"),
            (em("start = [9.0, 0.0]"), "`em.start` cannot be used: the start must be nonzero and at most 2 long"),
            (em("start = [0.0, 0.0]"), "`em.start`"),
            (em("start = [1.0]"), "`em.start` cannot be used: expected 2 values"),
            (em("estimator = \"catoni\""), "`em.scale` is missing"),
            (em("scale = 2.0"), "`em.scale` has no place"),
            (em("estimator = \"none\"\nbound = 2.0"), "`em.bound` has no place"),
            (em("update = \"direct\""), "`em.update` cannot be used: direct EM is defined for gmm"),
            (em("").replace("column = \"y\"", "column = \"\""), "`outcome.column` is missing"),
            (em("").replace("\"mrm\"", "\"gmm\""), "`outcome` has no place in the mixture"),
            (em("[columns.a]\nlevels = [\"u\", \"v\"]"), "`columns.a.levels` has no place"),
            (em("").replace("features = [\"a\", \"b\"]", "formula = \"y ~ a + b\""), "`model.formula`"),
            (em("").replace("features = [\"a\", \"b\"]", ""), "`model` needs"),
            (em("[features]\ncount = 4"), "`features` has no place"),
            (features("count = 7"), "`features.count` must be even"),
            (features("count = 3000"), "`features.count` must be at most 2000"),
            (features("frequency_sd = 0.0"), "`features.frequency_sd` must be positive"),
            (features("lambda = -1.0"), "`features.lambda`"),
            (features("consolidation = \"refine\""), "`features.consolidation` has no place"),
            (features("release = \"output\"\nconsolidation = \"best\""), "`features.consolidation` is not known"),
            (features("").replace("range = [18, 90]", ""), "`columns.age.range` is missing"),
            (features("").replace("range = [0, 10]", ""), "`columns.y.range` is missing"),
            (stream("grid = 5000"), "`stream.grid` cannot be used: 5000 grid points"),
            (stream("grid = 1"), "`stream.grid` must be at least 2"),
            (stream("width = 20.0"), "`stream.width` must be from 0.001"),
            (stream("kernel = \"sobolev\"\nwidth = 0.2"), "`stream.width` has no place"),
            (stream("loss = \"squares\"\ntau = 1.0"), "`stream.tau` has no place"),
            (stream("tau = 0.0"), "`stream.tau` must be positive"),
            (stream("step = 11.0"), "`stream.step` must be positive and at most 10"),
            (stream("records_per_person = 0"), "`stream.records_per_person`"),
            (stream("[sites]\nbatch_rows = 50001"), "`sites.batch_rows` makes messages"),
            (
                stream("[stream.features]\ncount = 20\nfrequency_sd = 1.0").replacen(
                    "[stream]\n",
                    "[stream]\ngrid = 10\n",
                    1,
                ),
                "`stream.grid` has no place",
            ),
            (stream("").replace("range = [0, 1]", ""), "`columns.x.range` is missing"),
            (
                stream("").replace("[\"x\"]", "[\"x\", \"u\", \"v\", \"w\"]")
                    + "[columns.u]\nrange = [0, 1]\n[columns.v]\nrange = [0, 1]\n[columns.w]\nrange = [0, 1]\n",
                "`model.features` cannot be used",
            ),
        ] {
            assert!(complaint(&text).contains(says), "{says}: {}", complaint(&text));
        }
    }
}
