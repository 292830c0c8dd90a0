//! The shared file: what all parties agree on, and its digest.
//!
//! Every party reviews the same `study.toml`. Its digest is taken over the parsed content, key by key, so that comments
//! and white space do not matter, and so that two parties whose files differ can both print which keys do.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::data::formula::Formula;
use crate::glm::Family;
use crate::id::{Digest, Role};
use crate::privacy::release::{Declaration, Disclosures};

mod budgets;
mod expectation;
mod horizontal;
mod methods;
mod privacy;
mod private_robust;
mod stated;
mod suggestion;

pub use self::expectation::{Expectation, NoExpectation, Size};
pub use self::privacy::{CoefficientGuess, DesignTerms, Mechanism, PrivacyError, PrivacyTerms};
pub use self::private_robust::PrivateFitTerms;
pub use self::suggestion::{ErrorRow, ErrorTable, Suggestion};
pub use horizontal::{OnlineTerms, RobustTerms, SiteTerms, WorkerTerms};
pub use methods::{
    DecayName, EmTerms, EstimatorName, FeaturesTerms, KernelName, LossName, Release, StreamFeatures, StreamTerms,
    UpdateName,
};

/// A study, as parsed and checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Study {
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

/// Which method a study runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// Two parties, different columns of the same rows.
    #[default]
    Vertical,
    /// Many sites, the same columns of different rows, some of which are wrong.
    Robust,
    /// Many sites; models with something hidden, in rounds.
    Em,
    /// Many sites; a function of a few columns by random features.
    Features,
    /// Many sites; a function that follows a stream of records.
    Stream,
}

impl Protocol {
    /// The name as it stands in study files and reports.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Vertical => "vertical",
            Protocol::Robust => "robust",
            Protocol::Em => "em",
            Protocol::Features => "features",
            Protocol::Stream => "stream",
        }
    }
}

/// What leaves a party.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Partial predictions without noise: declared, counted and metered.
    #[default]
    Plain,
    /// Noised values, charged to a ledger: differential privacy towards whoever sees what left.
    Private,
}

impl Mode {
    /// The word in studies and reports.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Plain => "plain",
            Mode::Private => "private",
        }
    }
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
    fn is_none(&self) -> bool {
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
    #[serde(default, deserialize_with = "privacy::range", skip_serializing_if = "Option::is_none")]
    pub range: Option<[f64; 2]>,
    /// In place of a range, a public centre of a numeric column; needs `scale`.
    #[serde(default, deserialize_with = "privacy::centre", skip_serializing_if = "Option::is_none")]
    pub centre: Option<f64>,
    /// The public scale that goes with the centre, for instance a published standard deviation. Values are bounded by the row norm alone.
    #[serde(default, deserialize_with = "privacy::scale", skip_serializing_if = "Option::is_none")]
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

fn one() -> f64 {
    1.0
}

fn alice() -> Role {
    Role::Alice
}

fn default_tol() -> f64 {
    1e-8
}

/// A study file that cannot be used.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum StudyError {
    /// Not TOML, or not these keys and values.
    #[error("{0}")]
    Parse(String),
    /// A value outside its range, or keys that contradict each other.
    #[error("`{key}` {problem}")]
    Value {
        /// Dotted name.
        key: String,
        /// What is wrong with it, and what would be right.
        problem: String,
    },
}

impl Study {
    /// Parses and checks a study file.
    ///
    /// # Errors
    /// Unknown keys, with the nearest known one, and values that cannot be used.
    pub fn parse(text: &str) -> Result<Study, StudyError> {
        let mut study: Study = toml::from_str(text).map_err(|error| StudyError::Parse(explain(&error)))?;
        study.complete();
        study.check()?;
        Ok(study)
    }

    fn check(&self) -> Result<(), StudyError> {
        let wrong =
            |key: &str, problem: &str| Err(StudyError::Value { key: key.to_string(), problem: problem.to_string() });
        if self.id.is_empty() || self.id.len() > 200 || self.id.chars().any(char::is_control) {
            return wrong("id", "must have 1 to 200 printable characters");
        }
        for (name, terms) in &self.columns {
            let mut levels = terms.levels.clone();
            levels.sort();
            levels.dedup();
            if levels.len() != terms.levels.len() {
                return wrong(&format!("columns.{name}.levels"), "must not repeat a level");
            }
            if terms.range.is_some_and(|[low, high]| !(low.is_finite() && high.is_finite() && low < high)) {
                return wrong(&format!("columns.{name}.range"), "must be two finite numbers in ascending order");
            }
            let stated =
                [!terms.levels.is_empty(), terms.range.is_some(), terms.centre.is_some() || terms.scale.is_some()];
            if stated.iter().filter(|stated| **stated).count() > 1 {
                return wrong(
                    &format!("columns.{name}"),
                    "must state one of `levels`, `range`, or `centre` with `scale`",
                );
            }
            if terms.centre.is_some() != terms.scale.is_some() {
                return wrong(&format!("columns.{name}"), "needs both `centre` and `scale`, or neither");
            }
            if terms.centre.is_some_and(|centre| !centre.is_finite()) {
                return wrong(&format!("columns.{name}.centre"), "must be a finite number");
            }
            if terms.scale.is_some_and(|scale| !(scale > 0.0 && scale.is_finite())) {
                return wrong(&format!("columns.{name}.scale"), "must be a positive finite number");
            }
        }
        let mut names: Vec<&str> = match self.protocol {
            Protocol::Vertical => {
                self.check_vertical()?;
                self.parties.values().map(|terms| terms.certificate.as_str()).collect()
            }
            _ => {
                self.check_horizontal()?;
                self.workers.values().map(|terms| terms.certificate.as_str()).collect()
            }
        };
        let (key, all) = match self.protocol {
            Protocol::Vertical => ("parties", "alice, bob and the coordinator"),
            _ => ("workers", "every worker and the coordinator"),
        };
        names.push(&self.coordinator.certificate);
        if names.iter().any(|name| name.is_empty()) {
            return wrong(key, "must give each party the name in its certificate");
        }
        names.sort_unstable();
        if names.windows(2).any(|pair| pair[0] == pair[1]) {
            return wrong(key, &format!("must have different certificate names for {all}"));
        }
        Ok(())
    }

    fn check_vertical(&self) -> Result<(), StudyError> {
        let wrong =
            |key: &str, problem: &str| Err(StudyError::Value { key: key.to_string(), problem: problem.to_string() });
        if !self.parties.keys().eq([Role::Alice, Role::Bob].iter()) {
            return wrong("parties", "must name exactly alice and bob in a vertical study");
        }
        for (key, given) in [
            ("workers", !self.workers.is_empty()),
            ("sites", self.sites.is_some()),
            ("robust", self.robust.is_some()),
            ("em", self.em.is_some()),
            ("features", self.features.is_some()),
            ("stream", self.stream.is_some()),
            ("model.features", !self.model.features.is_empty()),
            ("model.formula", self.model.formula.is_some()),
        ] {
            if given {
                return wrong(key, "has no place in a vertical study");
            }
        }
        if self.outcome.is_none() {
            return wrong("outcome.column", "is missing: which column is to be explained?");
        }
        let mut seen = BTreeMap::new();
        for (role, terms) in &self.parties {
            if terms.columns.is_empty() == terms.formula.is_none() {
                return wrong(&format!("parties.{role}"), "needs either `columns` or `formula`");
            }
            if let Some(text) = &terms.formula {
                self.check_party_formula(*role, text)?;
            }
            if let Some(norm) = terms.row_norm {
                privacy::check_row_norm(&format!("parties.{role}.row_norm"), self.mode, norm)?;
            }
            for column in &terms.columns {
                if let Some(other) = seen.insert(column.as_str(), *role) {
                    return Err(StudyError::Value {
                        key: format!("parties.{role}.columns"),
                        problem: format!("names `{column}`, which {other} has already"),
                    });
                }
                if *column == self.outcome.column {
                    return Err(StudyError::Value {
                        key: format!("parties.{role}.columns"),
                        problem: format!("names the outcome `{column}`"),
                    });
                }
            }
        }
        if !(self.fit.tol > 0.0 && self.fit.tol < 1.0) {
            return wrong("fit.tol", "must lie between 0 and 1");
        }
        if self.fit.round_limit() == 0 {
            return wrong("fit.max_rounds", "must be at least 1");
        }
        if let Some(penalty) = &self.penalty {
            if !(0.0..=1.0).contains(&penalty.alpha) {
                return wrong("penalty.alpha", "must lie between 0 (ridge) and 1 (lasso)");
            }
            let valid = |lambda: &f64| lambda.is_finite() && *lambda >= 0.0;
            match &penalty.lambda {
                Lambda::One(lambda) if !valid(lambda) => {
                    return wrong("penalty.lambda", "must be a finite number, zero or above");
                }
                Lambda::Many(list) if list.is_empty() || !list.iter().all(valid) => {
                    return wrong("penalty.lambda", "must be finite numbers, zero or above");
                }
                _ => {}
            }
            if penalty.cv.is_some_and(|folds| folds < 3) {
                return wrong("penalty.cv", "must be at least 3 folds");
            }
            if penalty.folds.is_some() && penalty.cv.is_none() {
                return wrong("penalty.folds", "needs `penalty.cv`");
            }
        }
        for role in [self.inference.sender, self.prediction.result_to] {
            if !matches!(role, Role::Alice | Role::Bob) {
                return wrong("inference.sender, prediction.result_to", "must be alice or bob");
            }
        }
        privacy::check(self)
    }

    /// Refuses what a party's formula cannot say, because it is a matter of both parties.
    fn check_party_formula(&self, role: Role, text: &str) -> Result<(), StudyError> {
        let wrong = |problem: String| Err(StudyError::Value { key: format!("parties.{role}.formula"), problem });
        let formula = match Formula::parse(text) {
            Ok(formula) => formula,
            Err(error) => return wrong(format!("cannot be read: {error}")),
        };
        if self.model.intercept && !formula.intercept {
            return wrong("leaves the intercept out, which is said by `model.intercept = false`".to_string());
        }
        if let Some(offset) = formula.offsets.first() {
            return wrong(format!("has an offset, which is said by `[offset]` with `column = \"{offset}\"`"));
        }
        match formula.outcome {
            Some(outcome) if outcome != self.outcome.column => wrong(format!(
                "explains another column than `outcome.column`, which is `{}`",
                self.outcome.column.escape_debug()
            )),
            _ => Ok(()),
        }
    }

    /// The digest of each leaf of the study, by dotted name: defaults included, comments and order not.
    pub fn key_digests(&self) -> Vec<(String, Digest)> {
        let mut leaves = BTreeMap::new();
        // Unwrap safety: a `Study` consists of strings, numbers, lists and string-keyed maps, which JSON can hold;
        // should that ever change, the null below makes every digest of the changed build differ from an older one.
        flatten("", &serde_json::to_value(self).unwrap_or_default(), &mut leaves);
        leaves.into_iter().map(|(key, value)| (key, Digest::of(value.as_bytes()))).collect()
    }

    /// The digest that every message carries.
    pub fn digest(&self) -> Digest {
        let mut text = String::from("fedreg study 1\n");
        for (key, digest) in self.key_digests() {
            text.push_str(&format!("{}:{key} {digest}\n", key.len()));
        }
        Digest::of(text.as_bytes())
    }

    /// The keys in which two studies differ, from their key digests.
    pub fn differing_keys(ours: &[(String, Digest)], theirs: &[(String, Digest)]) -> Vec<String> {
        let ours: BTreeMap<_, _> = ours.iter().map(|(key, digest)| (key.as_str(), *digest)).collect();
        let theirs: BTreeMap<_, _> = theirs.iter().map(|(key, digest)| (key.as_str(), *digest)).collect();
        let mut keys: Vec<String> = ours
            .keys()
            .chain(theirs.keys())
            .filter(|key| ours.get(*key) != theirs.get(*key))
            .map(|key| key.chars().filter(|c| !c.is_control()).take(200).collect())
            .collect();
        keys.sort();
        keys.dedup();
        keys
    }

    /// What this study lets a party disclose.
    pub fn disclosures(&self, role: Role) -> Disclosures {
        if self.mode == Mode::Private {
            return Disclosures::default();
        }
        if self.is_horizontal() {
            return self.horizontal_disclosures();
        }
        let mut declared = vec![Declaration::PartialPrediction, Declaration::Summary];
        if self.rows.missing == Missing::CompleteCases {
            declared.push(Declaration::MissingRows);
        }
        if role == Role::Alice && self.sends_outcome() {
            declared.push(Declaration::Outcome);
        }
        if role == Role::Alice && self.sends_weights() {
            declared.push(Declaration::Weights);
        }
        if self.uses_basis() {
            declared.push(if role == self.inference.sender {
                Declaration::Basis
            } else {
                Declaration::ProjectionTable
            });
        }
        if self.fit.coefficients == CoefficientTerms::Shared {
            declared.push(Declaration::Coefficients);
        }
        if self.prediction.result_to == role.partner() {
            declared.push(Declaration::Prediction);
        }
        Disclosures::new(declared)
    }

    /// Whether Alice, who holds the outcome alone, sends every value of it: for other families than gaussian as it is, for a
    /// gaussian path less its mean. In a gaussian fit without a path each of her partial predictions contains it instead.
    pub fn sends_outcome(&self) -> bool {
        self.outcome.held_by == HeldBy::Alice && (self.model.family != Family::Gaussian || self.needs_path())
    }

    /// Whether Alice, who holds the case weights alone, sends them.
    pub fn sends_weights(&self) -> bool {
        self.weights.as_ref().is_some_and(|weights| weights.held_by == HeldBy::Alice)
    }

    /// Whether the run may send a basis: for standard errors of an unpenalised fit, or in place of rows on a gaussian
    /// path. A party's policy may still forbid it.
    pub fn uses_basis(&self) -> bool {
        self.mode == Mode::Plain && self.inference.allowed && (self.penalty.is_none() || self.uses_tables())
    }

    /// Whether the lambdas are to be found from the data.
    pub fn needs_path(&self) -> bool {
        self.penalty.as_ref().is_some_and(|penalty| matches!(penalty.lambda, Lambda::Path(_)))
    }

    /// Whether the fits exchange a few numbers after a basis was sent, instead of a value a row: worth it where there are
    /// many fits, and possible for gaussian when both hold the outcome.
    pub fn uses_tables(&self) -> bool {
        let many = self.penalty.as_ref().is_some_and(|penalty| {
            penalty.cv.is_some() || self.needs_path() || matches!(&penalty.lambda, Lambda::Many(list) if list.len() > 1)
        });
        many && self.inference.allowed
            && self.inference.sender == Role::Alice
            && self.model.family == Family::Gaussian
            && self.outcome.held_by == HeldBy::Both
            && self.offset.as_ref().is_none_or(|offset| offset.held_by == HeldBy::Both)
    }
}

fn flatten(prefix: &str, value: &serde_json::Value, leaves: &mut BTreeMap<String, String>) {
    match value {
        serde_json::Value::Object(map) => {
            for (key, value) in map {
                let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                flatten(&name, value, leaves);
            }
        }
        leaf => {
            leaves.insert(prefix.to_string(), leaf.to_string());
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    const MINIMAL: &str = r#"
        id = "two-hospitals"
        [outcome]
        column = "progression"
        [parties.alice]
        certificate = "alice"
        columns = ["age", "sex"]
        [parties.bob]
        certificate = "bob"
        columns = ["bmi"]
    "#;

    #[test]
    fn a_minimal_study_parses_with_the_documented_defaults() {
        let study = Study::parse(MINIMAL).unwrap();
        assert_eq!(study.fit.tol, 1e-8);
        assert_eq!(study.fit.round_limit(), 1_000);
        assert!(study.inference.allowed && study.model.intercept);
    }

    #[test]
    fn comments_and_order_do_not_change_the_digest_but_values_do() {
        let study = Study::parse(MINIMAL).unwrap();
        let commented = Study::parse(&format!("# reviewed\n{MINIMAL}\n[model]\nfamily = \"gaussian\"")).unwrap();
        assert_eq!(study.digest(), commented.digest());
        let other = Study::parse(&MINIMAL.replace("\"sex\"", "\"sax\"")).unwrap();
        assert_ne!(study.digest(), other.digest());
        assert_eq!(Study::differing_keys(&study.key_digests(), &other.key_digests()), ["parties.alice.columns"]);
    }

    #[test]
    fn what_a_partys_formula_cannot_say_is_refused_with_the_key_that_says_it() {
        let with = |formula: &str| MINIMAL.replace("columns = [\"age\", \"sex\"]", &format!("formula = \"{formula}\""));
        let complaint = |formula: &str| Study::parse(&with(formula)).unwrap_err().to_string();
        assert!(Study::parse(&with("progression ~ age * sex")).is_ok() && Study::parse(&with("~ .")).is_ok());
        assert!(complaint("~ age - 1").contains("`parties.alice.formula` leaves the intercept out, which is said by"));
        assert!(complaint("~ age + offset(w)").contains("`[offset]` with `column = \"w\"`"));
        assert!(
            complaint("cost ~ age").contains("explains another column than `outcome.column`, which is `progression`")
        );
        assert!(complaint("~ log(age)").contains("cannot be read: formula, character 3: the function `log`"));
        let without = format!("{}\n[model]\nintercept = false", with("~ age - 1"));
        assert!(Study::parse(&without).is_ok());
    }

    #[test]
    fn an_unknown_key_is_refused_with_the_nearest_known_one() {
        let error = Study::parse(&format!("{MINIMAL}\n[fit]\nmax_round = 5")).unwrap_err();
        assert_eq!(error.to_string(), "unknown key `max_round`; did you mean `max_rounds`?");
        let error = Study::parse(&format!("{MINIMAL}\n[model]\nfamily = \"poison\"")).unwrap_err();
        assert_eq!(error.to_string(), "unknown value `poison`; did you mean `poisson`?");
    }

    #[test]
    fn values_outside_their_range_are_refused_by_key() {
        for (text, key) in [
            ("[fit]\ntol = 0.0", "fit.tol"),
            ("[penalty]\nlambda = -1.0", "penalty.lambda"),
            ("[penalty]\nlambda = 1.0\nalpha = 1.5", "penalty.alpha"),
            ("[penalty]\nlambda = []", "penalty.lambda"),
            ("[columns.region]\nlevels = [\"a\", \"a\"]", "columns.region.levels"),
            ("[columns.age]\nrange = [70.0, 18.0]", "columns.age.range"),
        ] {
            let error = Study::parse(&format!("{MINIMAL}\n{text}")).unwrap_err();
            assert!(matches!(&error, StudyError::Value { key: named, .. } if named == key), "{text}: {error}");
        }
    }

    #[test]
    fn a_column_at_both_parties_is_refused() {
        let error = Study::parse(&MINIMAL.replace("\"bmi\"", "\"age\"")).unwrap_err();
        assert!(error.to_string().contains("which alice has already"), "{error}");
    }

    #[test]
    fn gaussian_outcome_at_alice_never_declares_the_outcome_itself() {
        let text = MINIMAL.replace("column = \"progression\"", "column = \"progression\"\nheld_by = \"alice\"");
        let study = Study::parse(&text).unwrap();
        assert!(!study.disclosures(Role::Alice).allows(Declaration::Outcome));
        let study = Study::parse(&format!("{text}\n[model]\nfamily = \"binomial\"")).unwrap();
        assert!(study.disclosures(Role::Alice).allows(Declaration::Outcome));
        assert!(!study.disclosures(Role::Bob).allows(Declaration::Outcome));
    }
}
