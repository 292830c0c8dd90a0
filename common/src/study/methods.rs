//! What a study says of the methods `em`, `features` and `stream`: public numbers from outside the data, checked here.

use serde::{Deserialize, Deserializer, Serialize};

use super::horizontal::value;
use super::privacy::public_number;
use super::{Protocol, SiteTerms, Study, StudyError, one};
use crate::em::{self, EmError, averaged_rounds, clip_bound};
use crate::features::{FeatureError, FeatureMap, LARGEST_STATISTICS, Range};
use crate::report::INTERCEPT;
use crate::robust::{ConsolidationSettings, Method};
use crate::stream::{self, Average, Basis, Grid, Kernel, Loss, Step, StreamError};

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

/// Whether the study's own solution of a site's rows needs a ridge when none is given.
const OUTPUT_LAMBDA: f64 = 0.01;
const PLAIN_LAMBDA: f64 = 1e-6;

impl Study {
    /// The settings of a study with something hidden.
    ///
    /// # Errors
    /// Names the key that is missing or out of range.
    pub fn em_settings(&self) -> Result<em::Settings, StudyError> {
        let terms = self.em.as_ref().ok_or_else(|| value("em", "is missing: which model, which sigma, which tau?"))?;
        let outside = |key: &str, what: &str, number: Option<f64>| {
            number.ok_or_else(|| {
                value(key, format!("is missing: {what}, known from outside the data; taken from them it is a release"))
            })
        };
        let sigma = outside("em.sigma", "the standard deviation of the noise in the model", terms.sigma)?;
        let tau = outside("em.tau", "a bound on the second moment of a gradient's coordinate", terms.tau)?;
        let columns = self.coefficient_names()?.len();
        let only = |key: &str, given: bool, estimator: &str| match given {
            true => Err(value(key, format!("has no place beside this estimator; it belongs to `{estimator}`"))),
            false => Ok(()),
        };
        if terms.estimator != EstimatorName::Clip {
            only("em.bound", terms.bound.is_some(), "clip")?;
        }
        if terms.estimator != EstimatorName::Catoni {
            only("em.scale", terms.scale.is_some(), "catoni")?;
            only("em.smoothing", terms.smoothing.is_some(), "catoni")?;
        }
        let estimator = match terms.estimator {
            EstimatorName::Clip => {
                em::Estimator::Clip { bound: terms.bound.unwrap_or_else(|| clip_bound(columns, tau)) }
            }
            EstimatorName::Catoni => {
                let scale = terms.scale.ok_or_else(|| {
                    value("em.scale", "is missing: `catoni` needs the scale below which gradients stay as they are")
                })?;
                em::Estimator::Catoni { scale, smoothing: terms.smoothing.unwrap_or(em::DEFAULT_SMOOTHING) }
            }
            EstimatorName::None => em::Estimator::None,
        };
        let update = match terms.update {
            UpdateName::Gradient => em::Update::Gradient { step: terms.step },
            UpdateName::Direct => em::Update::Direct,
        };
        // Averaging takes noise away; where there is none the last round is the best.
        let averaged = if self.noised() { averaged_rounds(terms.rounds) } else { 1 };
        let stated =
            em::Stated { model: terms.model, columns, sigma, tau, rounds: terms.rounds, estimator, update, averaged };
        em::Settings::try_from(stated).map_err(|error| of_em(&error))
    }

    /// Where the iteration starts.
    ///
    /// # Errors
    /// A start of the wrong length or outside its set.
    pub fn em_start(&self, settings: &em::Settings) -> Result<nalgebra::DVector<f64>, StudyError> {
        match self.em.as_ref().and_then(|terms| terms.start.as_deref()) {
            Some(start) => {
                settings.given_start(start).map_err(|error| value("em.start", format!("cannot be used: {error}")))
            }
            None => Ok(settings.random_start(self.em.as_ref().map_or(0, |terms| terms.seed))),
        }
    }

    /// The method of a study with random features; the defaults where it says nothing.
    pub fn features_terms(&self) -> FeaturesTerms {
        self.features.clone().unwrap_or_default()
    }

    /// The features of the study.
    ///
    /// # Errors
    /// A number that is out of range.
    pub fn feature_map(&self) -> Result<FeatureMap, StudyError> {
        let terms = self.features_terms();
        // Statistics are so many squared, and so is the table that certifies a private solution.
        let limited = terms.release == Release::Statistics || self.noised();
        if terms.count as usize > LARGEST_STATISTICS && limited {
            let problem = format!("must be at most {LARGEST_STATISTICS}, and is {}", terms.count);
            return Err(value("features.count", problem));
        }
        let inputs = self.input_names()?.len();
        FeatureMap::new(terms.seed, inputs, terms.count as usize, terms.frequency_sd)
            .map_err(|error| of_features("features", &error))
    }

    /// The ridge of a study with random features.
    pub fn features_lambda(&self) -> f64 {
        let terms = self.features_terms();
        terms.lambda.unwrap_or(match (terms.release, self.noised()) {
            (Release::Output, _) => OUTPUT_LAMBDA,
            (Release::Statistics, false) => PLAIN_LAMBDA,
            // The floor under the noisy spectrum is ridge enough.
            (Release::Statistics, true) => 0.0,
        })
    }

    /// How sites' own solutions become one.
    ///
    /// # Errors
    /// A method that is not known.
    pub fn features_consolidation(&self) -> Result<ConsolidationSettings, StudyError> {
        let terms = self.features_terms();
        match terms.consolidation.as_deref().unwrap_or(Method::Refine.name()).parse::<Method>() {
            Ok(method) => Ok(method.into()),
            Err(error) => Err(value("features.consolidation", format!("is not known: {error}"))),
        }
    }

    /// The method of a study that follows a stream; the defaults where it says nothing.
    pub fn stream_terms(&self) -> StreamTerms {
        self.stream.clone().unwrap_or_default()
    }

    /// The settings of a stream.
    ///
    /// # Errors
    /// A number that is out of range, a grid that is too large, keys that contradict each other.
    pub fn stream_settings(&self) -> Result<stream::Settings, StudyError> {
        let terms = self.stream_terms();
        let covariates = self.input_names()?.len();
        let basis = match &terms.features {
            Some(features) => {
                for (key, given) in [("stream.grid", terms.grid.is_some()), ("stream.width", terms.width.is_some())] {
                    if given {
                        return Err(value(key, "has no place beside `stream.features`"));
                    }
                }
                let map = FeatureMap::new(features.seed, covariates, features.count as usize, features.frequency_sd);
                Basis::Features(map.map_err(|error| of_features("stream.features", &error))?)
            }
            None => {
                let kernel = match terms.kernel {
                    KernelName::Gaussian => Kernel::Gaussian { width: terms.width.unwrap_or(0.1) },
                    KernelName::Sobolev if terms.width.is_some() => {
                        return Err(value("stream.width", "has no place beside the kernel `sobolev`"));
                    }
                    KernelName::Sobolev => Kernel::Sobolev,
                };
                let points = terms.grid.unwrap_or(GRID_POINTS[covariates.clamp(1, 3) - 1]);
                let grid = Grid::new(kernel, points as usize, covariates);
                Basis::Grid(grid.map_err(|error| match &error {
                    StreamError::Setting { what: "the kernel's width", .. } => of_stream("stream.width", &error),
                    StreamError::Setting { what: "the number of covariates of a grid", .. } => {
                        value("model.features", format!("cannot be used: {error}"))
                    }
                    _ => of_stream("stream.grid", &error),
                })?)
            }
        };
        let loss = match terms.loss {
            LossName::Huber => Loss::Huber { tau: terms.tau.unwrap_or(DEFAULT_TAU) },
            LossName::Squares if terms.tau.is_some() => {
                return Err(value("stream.tau", "has no place beside the loss `squares`, which cuts nothing"));
            }
            LossName::Squares if self.noised() => {
                return Err(value("stream.loss", format!("cannot be used: {}", StreamError::NoBound)));
            }
            LossName::Squares => Loss::Squares,
        };
        let length = terms.step.unwrap_or_else(|| 0.25 * self.record_mu().min(1.0));
        let step = match terms.decay {
            DecayName::Root => Step::Root { length },
            DecayName::Constant => Step::Constant { length },
        };
        stream::Settings::try_from(stream::Stated { basis, loss, step }).map_err(|error| match &error {
            StreamError::Setting { what: "tau", .. } => of_stream("stream.tau", &error),
            _ => of_stream("stream.step", &error),
        })
    }

    /// Names of the inputs of a function: numeric columns, and levels of the others.
    ///
    /// # Errors
    /// As [`Study::model_terms`].
    pub fn input_names(&self) -> Result<Vec<String>, StudyError> {
        Ok(self.coefficient_names()?.into_iter().filter(|name| name != INTERCEPT).collect())
    }

    /// Public ranges of the inputs of a function, in their order: those of numeric columns are stated, a level is 0 or 1.
    ///
    /// # Errors
    /// The first column without one.
    pub fn input_ranges(&self) -> Result<Vec<Range>, StudyError> {
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
    ///
    /// # Errors
    /// A range that cannot be used.
    pub fn outcome_range(&self) -> Result<Option<Range>, StudyError> {
        let column = self.outcome.column.as_str();
        match self.columns.get(column).and_then(|terms| terms.range) {
            Some([low, high]) => range_of(column, low, high).map(Some),
            None => Ok(None),
        }
    }

    pub(super) fn complete_methods(&mut self) {
        match self.protocol {
            // What is hidden has no intercept; its points and covariates are centred.
            Protocol::Em => self.model.intercept = false,
            Protocol::Features => drop(self.features.get_or_insert_default()),
            Protocol::Stream => drop(self.stream.get_or_insert_default()),
            Protocol::Vertical | Protocol::Robust => {}
        }
    }

    pub(super) fn check_em(&self) -> Result<(), StudyError> {
        self.only_features()?;
        let terms = self.em.as_ref().ok_or_else(|| value("em", "is missing: which model, which sigma, which tau?"))?;
        if let Some(column) =
            self.model.features.iter().find(|name| self.columns.get(*name).is_some_and(|c| !c.levels.is_empty()))
        {
            return Err(value(&format!("columns.{column}.levels"), "has no place here: these models take numbers"));
        }
        if terms.model == em::Model::GaussianMixture && !self.outcome.is_none() {
            return Err(value("outcome", "has no place in the mixture `gmm`, whose points are the features"));
        }
        if terms.model != em::Model::GaussianMixture && self.outcome.is_none() {
            return Err(value("outcome.column", "is missing: which column is to be explained?"));
        }
        if terms.update == UpdateName::Direct && terms.step != 1.0 {
            return Err(value("em.step", "has no place beside the update `direct`"));
        }
        let settings = self.em_settings()?;
        self.em_start(&settings).map(drop)
    }

    pub(super) fn check_features(&self) -> Result<(), StudyError> {
        self.only_features()?;
        let terms = self.features_terms();
        let map = self.feature_map()?;
        if map.count() > 1_000_000 {
            return Err(value("features.count", "must be at most 1000000"));
        }
        self.input_ranges()?;
        self.needed_outcome_range()?;
        if let Some(lambda) = terms.lambda {
            let sound = match terms.release {
                Release::Statistics => (0.0..=1e6).contains(&lambda),
                Release::Output => (1e-6..=1e6).contains(&lambda),
            };
            if !sound {
                return Err(value(
                    "features.lambda",
                    format!("must be from 0, with `output` from 1e-6, to 1e6, got {lambda}"),
                ));
            }
        }
        match (&terms.consolidation, terms.release) {
            (Some(_), Release::Statistics) => Err(value(
                "features.consolidation",
                "has no place beside `statistics`, which are added up; it needs `output`",
            )),
            _ => self.features_consolidation().map(drop),
        }
    }

    pub(super) fn check_stream(&self, sites: &SiteTerms) -> Result<(), StudyError> {
        self.only_features()?;
        let terms = self.stream_terms();
        self.input_ranges()?;
        self.outcome_range()?;
        let settings = self.stream_settings()?;
        if terms.records_per_person == 0 {
            return Err(value("stream.records_per_person", "must be at least 1"));
        }
        if sites.batch_rows > LARGEST_GROUP {
            return Err(value("sites.batch_rows", format!("must be at most {LARGEST_GROUP} in a stream")));
        }
        let numbers = sites.batch_rows.saturating_mul(settings.basis().len() as u64);
        if numbers > LARGEST_MESSAGE {
            let problem = format!(
                "makes messages of {numbers} numbers with {} a record, more than {LARGEST_MESSAGE}",
                settings.basis().len()
            );
            return Err(value("sites.batch_rows", problem));
        }
        Ok(())
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

    fn needed_outcome_range(&self) -> Result<(), StudyError> {
        match self.outcome_range()? {
            Some(_) => Ok(()),
            None => {
                let key = format!("columns.{}.range", self.outcome.column);
                Err(value(&key, "is missing: the public range of the outcome, from outside the data"))
            }
        }
    }
}

fn range_of(column: &str, low: f64, high: f64) -> Result<Range, StudyError> {
    Range::new(low, high).map_err(|error| value(&format!("columns.{column}.range"), error.to_string()))
}

/// An error of a setting, with the key that it is about.
fn of_em(error: &EmError) -> StudyError {
    match error {
        EmError::Range { what, expected, actual } => {
            let key = match *what {
                "sigma" => "em.sigma",
                "tau" => "em.tau",
                "the number of rounds" | "the number of averaged rounds" => "em.rounds",
                "the clipping bound" => "em.bound",
                "the scale of the truncation" => "em.scale",
                "the smoothing of the truncation" => "em.smoothing",
                _ => "em.step",
            };
            value(key, format!("must be {expected}, got {actual}"))
        }
        EmError::NoDirect { .. } => value("em.update", format!("cannot be used: {error}")),
        _ => value("em", format!("cannot be used: {error}")),
    }
}

fn of_features(table: &str, error: &FeatureError) -> StudyError {
    match error {
        FeatureError::Setting { what, expected, actual } => {
            let key = match *what {
                "the number of inputs" => "model.features".to_string(),
                "the frequencies' standard deviation" => format!("{table}.frequency_sd"),
                _ => format!("{table}.count"),
            };
            value(&key, format!("must be {expected}, got {actual}"))
        }
        _ => value(table, format!("cannot be used: {error}")),
    }
}

fn of_stream(key: &str, error: &StreamError) -> StudyError {
    match error {
        StreamError::Setting { expected, actual, .. } => value(key, format!("must be {expected}, got {actual}")),
        _ => value(key, format!("cannot be used: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let study = Study::parse(&em("")).unwrap();
        let settings = study.em_settings().unwrap();
        assert_eq!((settings.stated().rounds, settings.stated().columns, settings.stated().averaged), (22, 2, 1));
        assert_eq!(settings.stated().estimator, em::Estimator::Clip { bound: clip_bound(2, 5.0) });
        assert_eq!(study.coefficient_names().unwrap(), ["a", "b"]);
        assert_eq!(study.digest(), Study::parse(&em("rounds = 22\nestimator = \"clip\"")).unwrap().digest());

        let study = Study::parse(&features("")).unwrap();
        assert_eq!(study.input_names().unwrap(), ["age", "regionb", "regionc"]);
        assert_eq!(study.input_ranges().unwrap().len(), 3);
        assert_eq!((study.feature_map().unwrap().count(), study.features_lambda()), (50, 1e-6));

        let study = Study::parse(&stream("")).unwrap();
        assert_eq!(study.stream_settings().unwrap().basis().len(), 50);
        for study in [em(""), features(""), stream("")].map(|text| Study::parse(&text).unwrap()) {
            let written = toml::to_string_pretty(&study).unwrap();
            assert_eq!(Study::parse(&written).unwrap(), study);
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
