//! The study file as it is written: every section of every method, and the digest that parties compare.
//!
//! What of it fits together is decided where the guarantee and the method are parsed; nothing outside this folder reads a section here.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::horizontal::{RobustTerms, SiteTerms, WorkerTerms};
use super::methods::{EmTerms, FeaturesTerms, StreamTerms};
use super::privacy::PrivacyTerms;
use super::{StudyError, value};
use crate::glm::Family;
use crate::id::{Digest, Role};
pub use crate::id::{Mode, Protocol};

/// A study file as it is written, with the sections of every method; [`Study::parse`](super::Study::parse) makes of it what fits
/// together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StudyFile {
    /// The study's name.
    pub id: String,
    /// Which method.
    #[serde(default)]
    pub protocol: Protocol,
    /// What leaves, and under which guarantee.
    #[serde(default)]
    pub mode: Mode,
    /// What a private run may cost, and how it is made; in private mode only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub privacy: Option<PrivacyTerms>,
    /// The parties of a vertical study.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parties: BTreeMap<Role, PartyTerms>,
    /// The sites of a horizontal study, by the name that reports use.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub workers: BTreeMap<String, WorkerTerms>,
    /// Who convenes.
    #[serde(default)]
    pub coordinator: CoordinatorTerms,
    /// Family and link.
    #[serde(default)]
    pub model: Model,
    /// The outcome.
    #[serde(default, skip_serializing_if = "HeldColumn::is_none")]
    pub outcome: HeldColumn,
    /// A term with coefficient 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<HeldColumn>,
    /// Case weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<HeldColumn>,
    /// What is known of columns beforehand.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub columns: BTreeMap<String, ColumnTerms>,
    /// How rows are matched.
    #[serde(default)]
    pub rows: RowTerms,
    /// The penalty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub penalty: Option<PenaltyTerms>,
    /// The iteration.
    #[serde(default)]
    pub fit: FitTerms,
    /// Standard errors.
    #[serde(default)]
    pub inference: InferenceTerms,
    /// Scoring new rows.
    #[serde(default)]
    pub prediction: PredictionTerms,
    /// How sites take part in a horizontal study.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sites: Option<SiteTerms>,
    /// The method of a robust study.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub robust: Option<RobustTerms>,
    /// The method of a study with something hidden.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub em: Option<EmTerms>,
    /// The method of a study with random features.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<FeaturesTerms>,
    /// The method of a study that follows a stream of records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamTerms>,
}

/// One party's part of a vertical study.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartyTerms {
    /// The name in the party's certificate.
    pub certificate: String,
    /// The party's columns; or use `formula`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
    /// The party's side of a formula, as in R: `~ age + bmi:sex`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub formula: Option<String>,
    /// Public norm at which the party's centred and scaled rows are cut, in private mode; if absent, the root of the number of
    /// its columns, a ranged one counting .5625.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row_norm: Option<f64>,
}

/// The coordinator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoordinatorTerms {
    /// The name in the coordinator's certificate.
    pub certificate: String,
}

impl Default for CoordinatorTerms {
    fn default() -> Self {
        CoordinatorTerms { certificate: "coordinator".to_string() }
    }
}

/// Family and intercept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// gaussian, binomial or poisson, each with its canonical link.
    #[serde(default)]
    pub family: Family,
    /// Whether there is an intercept; in a vertical study it belongs to Alice's block.
    #[serde(default = "yes")]
    pub intercept: bool,
    /// The features of a horizontal study; or use `formula`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    /// The model of a horizontal study, as in R: `y ~ age + bmi:sex`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub formula: Option<String>,
}

impl Default for Model {
    fn default() -> Self {
        Model { family: Family::Gaussian, intercept: true, features: Vec::new(), formula: None }
    }
}

/// A column that one or both parties hold.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeldColumn {
    /// Its header.
    pub column: String,
    /// Who has it.
    #[serde(default)]
    pub held_by: HeldBy,
}

impl HeldColumn {
    pub(super) fn is_none(&self) -> bool {
        self.column.is_empty()
    }
}

/// Who holds a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HeldBy {
    /// Both; compared by keyed digest.
    #[default]
    Both,
    /// Alice only; what then leaves is declared.
    Alice,
}

/// What all parties know of a column beforehand.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColumnTerms {
    /// Levels of a categorical column; the first is the reference.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<String>,
    /// Public range of a numeric column.
    #[serde(default, deserialize_with = "super::privacy::range", skip_serializing_if = "Option::is_none")]
    pub range: Option<[f64; 2]>,
    /// In place of a range, a public centre of a numeric column; needs `scale`.
    #[serde(default, deserialize_with = "super::privacy::centre", skip_serializing_if = "Option::is_none")]
    pub centre: Option<f64>,
    /// The public scale that goes with the centre, for instance a published standard deviation. Values are bounded by the row norm alone.
    #[serde(default, deserialize_with = "super::privacy::scale", skip_serializing_if = "Option::is_none")]
    pub scale: Option<f64>,
}

impl ColumnTerms {
    /// A categorical column.
    pub fn of_levels(levels: Vec<String>) -> ColumnTerms {
        ColumnTerms { levels, ..ColumnTerms::default() }
    }

    /// A numeric column with a public range.
    pub fn of_range(low: f64, high: f64) -> ColumnTerms {
        ColumnTerms { range: Some([low, high]), ..ColumnTerms::default() }
    }
}

/// How rows are matched.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowTerms {
    /// The id column; without one the row number is the id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// What happens to rows with missing values.
    #[serde(default)]
    pub missing: Missing,
}

/// What happens to rows with missing values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Missing {
    /// They end the run before anything leaves.
    #[default]
    Refuse,
    /// They are dropped at both parties, by exchanged masks.
    CompleteCases,
}

/// The penalty, in glmnet's parametrisation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PenaltyTerms {
    /// One value, several, or `"path"`.
    pub lambda: Lambda,
    /// 1 is the lasso, 0 is ridge.
    #[serde(default = "one")]
    pub alpha: f64,
    /// Folds of cross-validation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cv: Option<u32>,
    /// The column, held by both, that says which fold a row is in; else row number modulo `cv`, plus 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folds: Option<String>,
}

/// Which values of lambda.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Lambda {
    /// One value.
    One(f64),
    /// Several, fitted in descending order with warm starts.
    Many(Vec<f64>),
    /// The word `path`: glmnet's own sequence.
    Path(PathWord),
}

/// The word `path`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PathWord {
    /// 100 values from the smallest that sets everything to zero, down to 1e-4 of it (1e-2 if rows are fewer than
    /// columns).
    Path,
}

/// The iteration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FitTerms {
    /// Anderson extrapolation, or the plain source algorithm.
    #[serde(default)]
    pub acceleration: Acceleration,
    /// Tolerance of the stopping rule.
    #[serde(default = "default_tol")]
    pub tol: f64,
    /// Largest number of rounds of one fit; 1000 when accelerated and 50 000 when not, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_rounds: Option<u32>,
    /// Whether the parties show each other their coefficients.
    #[serde(default)]
    pub coefficients: CoefficientTerms,
}

impl Default for FitTerms {
    fn default() -> Self {
        FitTerms {
            acceleration: Acceleration::default(),
            tol: default_tol(),
            max_rounds: None,
            coefficients: CoefficientTerms::default(),
        }
    }
}

impl FitTerms {
    /// The round limit in force.
    pub fn round_limit(&self) -> u32 {
        self.max_rounds.unwrap_or(match self.acceleration {
            Acceleration::Anderson => 1_000,
            Acceleration::None => 50_000,
        })
    }
}

/// How the iteration is sped up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Acceleration {
    /// Anderson extrapolation of one party's coefficients.
    #[default]
    Anderson,
    /// Plain block coordinate descent.
    None,
}

/// Whether the parties show each other their coefficients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CoefficientTerms {
    /// Both see all.
    #[default]
    Shared,
    /// Each sees its own.
    Own,
}

/// Standard errors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InferenceTerms {
    /// Whether the projection exchange may be run.
    #[serde(default = "yes")]
    pub allowed: bool,
    /// Who sends the basis: that party's column space is disclosed in full.
    #[serde(default = "alice")]
    pub sender: Role,
}

impl Default for InferenceTerms {
    fn default() -> Self {
        InferenceTerms { allowed: true, sender: Role::Alice }
    }
}

/// Scoring new rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PredictionTerms {
    /// The only party that sees the scores.
    #[serde(default = "alice")]
    pub result_to: Role,
}

impl Default for PredictionTerms {
    fn default() -> Self {
        PredictionTerms { result_to: Role::Alice }
    }
}

fn yes() -> bool {
    true
}

pub(super) fn one() -> f64 {
    1.0
}

fn alice() -> Role {
    Role::Alice
}

fn default_tol() -> f64 {
    1e-8
}

impl StudyFile {
    /// Fills in what a study between sites leaves to the defaults, so that it has one digest however it is written.
    pub(super) fn complete(&mut self) {
        match self.protocol {
            Protocol::Vertical => return,
            Protocol::Robust => drop(self.robust.get_or_insert_default()),
            // What is hidden has no intercept; its points and covariates are centred.
            Protocol::Em => self.model.intercept = false,
            Protocol::Features => drop(self.features.get_or_insert_default()),
            Protocol::Stream => drop(self.stream.get_or_insert_default()),
        }
        let quorum = u32::try_from(self.workers.len() / 2 + 1).unwrap_or(u32::MAX);
        self.sites.get_or_insert_default().quorum.get_or_insert(quorum);
    }

    /// Refuses the sections that are set and that the study's method does not take; `place` says what it is.
    pub(super) fn takes_only(&self, taken: &[&str], place: &str) -> Result<(), StudyError> {
        let sections = [
            ("parties", !self.parties.is_empty()),
            ("workers", !self.workers.is_empty()),
            ("offset", self.offset.is_some()),
            ("weights", self.weights.is_some()),
            ("penalty", self.penalty.is_some()),
            ("fit", self.fit != FitTerms::default()),
            ("inference", self.inference != InferenceTerms::default()),
            ("prediction", self.prediction != PredictionTerms::default()),
            ("rows.id", self.rows.id.is_some()),
            ("outcome.held_by", self.outcome.held_by != HeldBy::Both),
            ("model.family", self.model.family != Family::Gaussian),
            ("sites", self.sites.is_some()),
            ("robust", self.robust.is_some()),
            ("em", self.em.is_some()),
            ("features", self.features.is_some()),
            ("stream", self.stream.is_some()),
            ("model.features", !self.model.features.is_empty()),
            ("model.formula", self.model.formula.is_some()),
        ];
        match sections.into_iter().find(|(key, set)| *set && !taken.contains(key)) {
            Some((key, _)) => Err(value(key, format!("has no place in {place}"))),
            None => Ok(()),
        }
    }

    /// The digest of each leaf of the study, by dotted name: defaults included, comments and order not.
    pub(super) fn key_digests(&self) -> Vec<(String, Digest)> {
        let mut leaves = BTreeMap::new();
        // Unwrap safety: a study consists of strings, numbers, lists and string-keyed maps, which JSON can hold;
        // should that ever change, the null below makes every digest of the changed build differ from an older one.
        flatten("", &serde_json::to_value(self).unwrap_or_default(), &mut leaves);
        leaves.into_iter().map(|(key, value)| (key, Digest::of(value.as_bytes()))).collect()
    }
}

fn flatten(prefix: &str, value: &serde_json::Value, leaves: &mut BTreeMap<String, String>) {
    let serde_json::Value::Object(map) = value else {
        leaves.insert(prefix.to_string(), value.to_string());
        return;
    };
    for (key, value) in map {
        let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        flatten(&name, value, leaves);
    }
}

/// A TOML error as one sentence, with the nearest known key when one is unknown.
///
/// Used for the private files too, so that both kinds of file complain alike.
pub fn explain(error: &toml::de::Error) -> String {
    let message = error.message().to_string();
    let mut quoted = message.split('`').skip(1).step_by(2);
    let kind = match (message.starts_with("unknown field"), message.starts_with("unknown variant")) {
        (true, _) => "key",
        (_, true) => "value",
        _ => return message,
    };
    let Some(unknown) = quoted.next() else { return message };
    let nearest = quoted
        .map(|known| (strsim::damerau_levenshtein(unknown, known), known))
        .min()
        .filter(|(distance, known)| *distance <= known.len().max(unknown.len()) / 2);
    match nearest {
        Some((_, known)) => format!("unknown {kind} `{unknown}`; did you mean `{known}`?"),
        None => message.replace("field", "key").replace("variant", "value"),
    }
}
