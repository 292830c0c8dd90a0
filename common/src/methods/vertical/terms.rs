//! What a study of two or several parties says: who holds which columns, and how they are fitted together.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::data::formula::{Formula, caret};
use crate::glm::{Family, StatedFamily};
use crate::id::{Digest, Mode, Protocol, Role};
use crate::privacy::release::{Declaration, Disclosures};
use crate::terms::{
    Guaranteed, HeldAs, HeldColumn, Mechanism, Missing, PrivacyTerms, PrivateTerms, Promise, Study, StudyError,
    check_positive, one, value,
};

mod private;
mod sealed;
mod search;

pub use self::private::PrivacyError;
pub use self::sealed::{OpensTo, SealedTerms};
pub use self::search::ErrorsByMechanism;
pub use super::std_err::ErrorKind;

/// Sections that a vertical study takes beside those of all studies.
pub(crate) const SECTIONS: [&str; 15] = [
    "leader",
    "order",
    "dealer",
    "sealed",
    "parties",
    "offset",
    "weights",
    "penalty",
    "fit",
    "inference",
    "prediction",
    "rows.id",
    "match",
    "outcome.held_by",
    "model.family",
];

/// One party's part of a vertical study.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartyTerms {
    /// The name in the party's certificate.
    pub certificate: String,
    /// The party's columns; or use `formula`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
    /// The party's side of a formula, as in R: `~ log(age) + bmi:sex`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub formula: Option<String>,
    /// Public norm at which the party's centred and scaled rows are cut, in private mode; if absent, the root of the number of
    /// its columns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row_norm: Option<f64>,
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
    /// The column, held by all parties, that says which fold a row is in; else row number modulo `cv`, plus 1, where rows are numbered from 0
    /// in the byte order of their ids, without ids in the order of the file, and after a match in that of the match.
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
#[serde(deny_unknown_fields, default)]
pub struct FitTerms {
    /// Whether rounds learn from those before them, or the plain source algorithm.
    pub acceleration: Acceleration,
    /// Tolerance of the stopping rule.
    pub tol: f64,
    /// Largest number of rounds of one fit; 1000 when accelerated and 50 000 when not, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_rounds: Option<u32>,
    /// Whether the parties show each other their coefficients.
    pub coefficients: CoefficientTerms,
}

impl Default for FitTerms {
    fn default() -> Self {
        FitTerms {
            acceleration: Acceleration::Anderson,
            tol: 1e-8,
            max_rounds: None,
            coefficients: CoefficientTerms::Shared,
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
    /// Each round uses what those before it have shown of the partner: without a penalty the directions in which it can go, with one
    /// between two parties the curvature that its answers take away; among several parties with one Anderson extrapolation.
    #[default]
    Anderson,
    /// Plain block coordinate descent.
    None,
}

/// Whether the parties show each other their coefficients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CoefficientTerms {
    /// Every party sees all.
    #[default]
    Shared,
    /// Each sees its own.
    Own,
}

/// Standard errors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct InferenceTerms {
    /// Whether the projection exchange may be run.
    pub allowed: bool,
    /// Which of two parties sends the basis: its column space is disclosed in full; alice or the leader if absent. Of several, all
    /// but the leader send theirs to the leader.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender: Option<Role>,
    /// What the errors follow from: "model" (the variance that the family states), or "HC0", "HC1", "HC2", "HC3" (the residuals of the
    /// rows, for outcomes whose variance is another one; as in R's `sandwich`). These are for plain fits without a penalty.
    #[serde(skip_serializing_if = "ErrorKind::is_model")]
    pub errors: ErrorKind,
    /// Whether each party learns the covariances of its own coefficients alone, or of all with each other, for tests about coefficients of
    /// both: they tell single columns apart, so that these count as shown in full. Of plain fits of two parties without a penalty.
    #[serde(skip_serializing_if = "CovarianceTerms::is_own")]
    pub covariance: CovarianceTerms,
    /// When the basis is sent, in a plain fit of two parties without a penalty: "first" (after the first round, from which the fit takes few
    /// more, however close the columns are; the basis has then left even where the fit fails) or "after" (once the fit has converged).
    /// Fits of several parties send it after they have converged, as do binomial and Poisson fits with an intercept whose `sender` is the
    /// party without it.
    #[serde(skip_serializing_if = "InferenceTime::is_first")]
    pub when: InferenceTime,
}

/// When the basis is sent that standard errors follow from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InferenceTime {
    /// After the first round.
    #[default]
    First,
    /// After the fit has converged.
    After,
}

impl InferenceTime {
    fn is_first(&self) -> bool {
        *self == InferenceTime::First
    }
}

/// Whose covariances a party learns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CovarianceTerms {
    /// Of its own coefficients.
    #[default]
    Own,
    /// Of all coefficients, also across the parties.
    Shared,
}

impl CovarianceTerms {
    fn is_own(&self) -> bool {
        *self == CovarianceTerms::Own
    }
}

impl Default for InferenceTerms {
    fn default() -> Self {
        InferenceTerms {
            allowed: true,
            sender: None,
            errors: ErrorKind::Model,
            covariance: CovarianceTerms::Own,
            when: InferenceTime::First,
        }
    }
}

impl InferenceTerms {
    /// Whether they are as in a file that says nothing of them.
    pub(crate) fn is_usual(&self) -> bool {
        self.allowed
            && self.errors.is_model()
            && self.covariance.is_own()
            && self.when.is_first()
            && self.sender.is_none_or(|sender| sender == Role::Alice)
    }
}

/// Scoring new rows.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PredictionTerms {
    /// The only party that sees the scores: alice or the leader if absent; of several parties always the leader.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_to: Option<Role>,
}

impl PredictionTerms {
    /// Whether they are as in a file that says nothing of them.
    pub(crate) fn is_usual(&self) -> bool {
        self.result_to.is_none_or(|role| role == Role::Alice)
    }
}

/// What is promised of what leaves a party.
#[derive(Debug, Clone, PartialEq)]
// A process holds one study: its size costs nothing.
#[allow(clippy::large_enum_variant)]
pub enum VerticalGuarantee {
    /// Nothing: partial predictions leave, declared, counted and metered.
    Plain,
    /// Columns leave behind masks, and only declared tables open.
    Sealed(SealedTerms),
    /// Differential privacy towards everybody who sees what left.
    Private(PrivateTerms),
}

impl VerticalGuarantee {
    /// Of a mode and its section.
    pub(crate) fn parse(
        mode: Mode,
        terms: Option<&PrivacyTerms>,
        sealed: Option<&SealedTerms>,
    ) -> Result<VerticalGuarantee, StudyError> {
        let sealed = SealedTerms::of_mode(sealed, mode)?;
        match (mode, terms) {
            (Mode::Plain, None) => Ok(VerticalGuarantee::Plain),
            (Mode::Sealed, None) => Ok(VerticalGuarantee::Sealed(sealed)),
            (Mode::Plain | Mode::Sealed, Some(_)) => {
                let problem = format!("is given, but `mode` is \"{}\": set mode = \"private\"", mode.name());
                Err(value("privacy", problem))
            }
            (Mode::Private, None) => {
                Err(value("privacy", "is missing: a private run needs at least `privacy.epsilon`"))
            }
            (Mode::Private, Some(terms)) => PrivateTerms::parse(terms).map(VerticalGuarantee::Private),
        }
    }

    /// Whether the table of a sealed fit opens to Bob too, or those of several parties to all of them.
    pub fn opens_to_both(&self) -> bool {
        match self {
            VerticalGuarantee::Sealed(terms) => terms.opens != OpensTo::Alice,
            VerticalGuarantee::Plain | VerticalGuarantee::Private(_) => false,
        }
    }

    /// Whether factors open with the table of a sealed fit, for sub-models.
    pub fn opens_factors(&self) -> bool {
        match self {
            VerticalGuarantee::Sealed(terms) => terms.refit,
            VerticalGuarantee::Plain | VerticalGuarantee::Private(_) => false,
        }
    }

    /// The range that a sealed study fixes for both parties' parts of the linear predictor.
    pub fn range(&self) -> Option<f64> {
        match self {
            VerticalGuarantee::Sealed(terms) => terms.range,
            VerticalGuarantee::Plain | VerticalGuarantee::Private(_) => None,
        }
    }
}

impl Promise for VerticalGuarantee {
    fn mode(&self) -> Mode {
        match self {
            VerticalGuarantee::Plain => Mode::Plain,
            VerticalGuarantee::Sealed(_) => Mode::Sealed,
            VerticalGuarantee::Private(_) => Mode::Private,
        }
    }

    fn private(&self) -> Option<&PrivateTerms> {
        match self {
            VerticalGuarantee::Plain | VerticalGuarantee::Sealed(_) => None,
            VerticalGuarantee::Private(terms) => Some(terms),
        }
    }
}

impl Guaranteed for Vertical {
    type Guarantee = VerticalGuarantee;
}

/// The method between parties with different columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Vertical {
    /// Two to sixteen.
    pub parties: BTreeMap<Role, PartyTerms>,
    /// The one that all others dial; none between alice and bob.
    pub leader: Option<Role>,
    /// Of several parties, the order of their blocks where the study states it.
    pub order: Vec<Role>,
    /// Family and link of the estimates.
    pub family: Family,
    /// Whether its variance counts up to a multiple, which is estimated.
    pub quasi: bool,
    /// Whether the first party's block has an intercept.
    pub intercept: bool,
    /// The outcome.
    pub outcome: HeldColumn,
    /// A term with coefficient 1.
    pub offset: Option<HeldColumn>,
    /// Case weights.
    pub weights: Option<HeldColumn>,
    /// The penalty.
    pub penalty: Option<PenaltyTerms>,
    /// The iteration.
    pub fit: FitTerms,
    /// Standard errors.
    pub inference: InferenceTerms,
    /// Scoring new rows.
    pub prediction: PredictionTerms,
}

impl Vertical {
    /// Refuses parties, columns and settings that do not fit together.
    pub(crate) fn check(&self, mode: Mode) -> Result<(), StudyError> {
        let wrong = |key: &str, problem: &str| Err(value(key, problem));
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
                let key = format!("parties.{role}.row_norm");
                match mode {
                    Mode::Plain | Mode::Sealed => {
                        let problem =
                            format!("has no place in a {} study: rows are cut in private mode only", mode.name());
                        return wrong(&key, &problem);
                    }
                    Mode::Private => check_positive(&key, Some(norm), "finite number")?,
                }
            }
            for column in &terms.columns {
                let key = format!("parties.{role}.columns");
                if let Some(other) = seen.insert(column.as_str(), *role) {
                    return wrong(&key, &format!("names `{column}`, which {other} has already"));
                }
                if *column == self.outcome.column {
                    return wrong(&key, &format!("names the outcome `{column}`"));
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
            penalty.check()?;
        }
        self.check_holders(mode)?;
        self.check_quasi(mode)?;
        self.check_errors(mode)?;
        self.check_covariance(mode)?;
        self.check_time(mode)?;
        let named = [self.inference.sender, self.prediction.result_to];
        match named.iter().flatten().all(|role| self.parties.contains_key(role)) {
            true => Ok(()),
            false => wrong("inference.sender, prediction.result_to", "must name parties of the study"),
        }
    }

    /// The family as the study names it.
    pub fn stated_family(&self) -> StatedFamily {
        StatedFamily::of(self.family, self.quasi)
    }

    /// Refuses an estimated dispersion where the study does not compute it.
    fn check_quasi(&self, mode: Mode) -> Result<(), StudyError> {
        if !self.quasi {
            return Ok(());
        }
        let base = self.family;
        let problem = match mode {
            Mode::Sealed => "its dispersion needs the residual of every row, which a sealed study opens to nobody",
            Mode::Private => "its dispersion needs the residual of every row, for which a private study has no noise",
            Mode::Plain if self.penalty.is_some() => {
                "its dispersion has no place beside `[penalty]`: penalised estimates have no standard errors"
            }
            Mode::Plain => return Ok(()),
        };
        Err(value("model.family", format!("is {}: {problem}; {base} has the same estimates", self.stated_family())))
    }

    /// Refuses errors from residuals where the study does not compute them.
    fn check_errors(&self, mode: Mode) -> Result<(), StudyError> {
        let kind = self.inference.errors;
        if kind.is_model() {
            return Ok(());
        }
        let problem = match mode {
            Mode::Sealed => "needs the residual of every row beside every column, which a sealed study opens to nobody",
            Mode::Private => {
                "needs the residual of every row beside every column, for which a private study has no noise"
            }
            Mode::Plain if self.penalty.is_some() => {
                "has no place beside `[penalty]`: penalised estimates have no standard errors"
            }
            Mode::Plain if !self.inference.allowed => {
                "needs the basis exchange, which `inference.allowed = false` rules out"
            }
            Mode::Plain => return Ok(()),
        };
        Err(value("inference.errors", format!("is \"{}\", which {problem}", kind.name())))
    }

    /// Whether each of two parties learns the covariances of all coefficients.
    pub fn shares_covariance(&self) -> bool {
        self.inference.covariance == CovarianceTerms::Shared
    }

    /// Whether the fit may begin with the exchange for standard errors, and is to.
    fn has_errors_first(&self) -> bool {
        self.fit.acceleration == Acceleration::Anderson && self.inference.when == InferenceTime::First
    }

    /// Refuses a time of the basis exchange where there is none, or one time only.
    fn check_time(&self, mode: Mode) -> Result<(), StudyError> {
        if self.inference.when == InferenceTime::First {
            return Ok(());
        }
        let problem = match mode {
            Mode::Sealed | Mode::Private => format!("and no basis is sent in {} mode", mode.name()),
            Mode::Plain if self.is_of_several() => "as it is among several parties in any case".to_string(),
            Mode::Plain if self.penalty.is_some() => {
                "and penalised estimates have no standard errors for which a basis were sent".to_string()
            }
            Mode::Plain if !self.inference.allowed => {
                "and `inference.allowed = false` rules the basis exchange out".to_string()
            }
            Mode::Plain => return Ok(()),
        };
        Err(value("inference.when", format!("is \"after\", {problem}: leave the key out")))
    }

    /// Refuses covariances across the parties where the study does not compute them.
    fn check_covariance(&self, mode: Mode) -> Result<(), StudyError> {
        if !self.shares_covariance() {
            return Ok(());
        }
        let problem = match mode {
            Mode::Sealed => {
                "needs what turns each party's coordinates into its coefficients, which no sealed study lets open"
            }
            Mode::Private => "has no noise in a private study",
            Mode::Plain if self.is_of_several() => "is for two parties",
            Mode::Plain if self.penalty.is_some() => {
                "has no place beside `[penalty]`: penalised estimates have no standard errors"
            }
            Mode::Plain if !self.inference.allowed => {
                "needs the basis exchange, which `inference.allowed = false` rules out"
            }
            Mode::Plain if self.fit.coefficients == CoefficientTerms::Own => {
                "tells what `fit.coefficients = \"own\"` keeps from the other party"
            }
            Mode::Plain => return Ok(()),
        };
        Err(value("inference.covariance", format!("is \"shared\", which {problem}")))
    }

    /// Refuses a column that a party holds alone and cannot, by the mode and by who the parties are.
    fn check_holders(&self, mode: Mode) -> Result<(), StudyError> {
        let columns =
            [("outcome", Some(&self.outcome)), ("offset", self.offset.as_ref()), ("weights", self.weights.as_ref())];
        for (section, column) in columns {
            let Some(holder) =
                column.and_then(|column| column.held_by.holder()).filter(|holder| *holder != self.first())
            else {
                continue;
            };
            let problem = match self.leader {
                _ if !self.parties.contains_key(&holder) => format!("names {holder}, which is no party of the study"),
                None => format!("names {holder}: it is \"both\" or \"alice\""),
                Some(leader) => match mode {
                    // The holder sends it to the leader.
                    Mode::Plain => continue,
                    Mode::Sealed | Mode::Private => format!(
                        "names {holder}, and the leader is {leader}: in {} mode no column leaves its holder, so what one party holds alone \
                         is the leader's; set leader = \"{holder}\"",
                        mode.name()
                    ),
                },
            };
            return Err(value(&format!("{section}.held_by"), problem));
        }
        Ok(())
    }

    /// The party that holds the intercept, and alone what one party alone holds: alice, or the leader.
    pub fn first(&self) -> Role {
        self.leader.unwrap_or(Role::Alice)
    }

    /// Whether there are more than two parties.
    pub fn is_of_several(&self) -> bool {
        self.parties.len() > 2
    }

    /// Refuses a formula that cannot be read, or explains another column than the study.
    fn check_party_formula(&self, role: Role, text: &str) -> Result<(), StudyError> {
        let wrong = |problem: String| Err(value(&format!("parties.{role}.formula"), problem));
        let formula = match Formula::parse(text) {
            Ok(formula) => formula,
            Err(error) => return wrong(format!("cannot be read: {error}")),
        };
        match formula.outcome {
            Some(outcome) if outcome != self.outcome.column => {
                let column = self.outcome.column.escape_debug();
                let problem = format!("explains another column than `outcome.column`, which is `{column}`");
                wrong(problem + &caret(text, formula.places.outcome))
            }
            _ => Ok(()),
        }
    }
}

impl PenaltyTerms {
    /// The values of lambda that the study gives, largest first; none where the data decide.
    pub fn given(&self) -> Option<Vec<f64>> {
        let mut lambdas = match &self.lambda {
            Lambda::One(lambda) => vec![*lambda],
            Lambda::Many(lambdas) => lambdas.clone(),
            Lambda::Path(_) => return None,
        };
        lambdas.sort_by(|a, b| b.total_cmp(a));
        lambdas.dedup();
        Some(lambdas)
    }

    fn check(&self) -> Result<(), StudyError> {
        let wrong = |key: &str, problem: &str| Err(value(key, problem));
        if !(0.0..=1.0).contains(&self.alpha) {
            return wrong("penalty.alpha", "must lie between 0 (ridge) and 1 (lasso)");
        }
        let valid = |lambda: &f64| lambda.is_finite() && *lambda >= 0.0;
        match &self.lambda {
            Lambda::One(lambda) if !valid(lambda) => {
                return wrong("penalty.lambda", "must be a finite number, zero or above");
            }
            Lambda::Many(list) if list.is_empty() || !list.iter().all(valid) => {
                return wrong("penalty.lambda", "must be finite numbers, zero or above");
            }
            Lambda::One(_) | Lambda::Many(_) | Lambda::Path(_) => {}
        }
        if self.cv.is_some_and(|folds| folds < 3) {
            return wrong("penalty.cv", "must be at least 3 folds");
        }
        match self.folds.is_some() && self.cv.is_none() {
            true => wrong("penalty.folds", "needs `penalty.cv`"),
            false => Ok(()),
        }
    }
}

impl Study<Vertical> {
    /// Its method by name.
    pub fn protocol(&self) -> Protocol {
        Protocol::Vertical
    }

    /// What this study lets a party disclose.
    pub fn disclosures(&self, role: Role) -> Disclosures {
        let membership = self.head.matching.iter().map(|_| Declaration::Membership);
        let mut declared = match &self.guarantee {
            VerticalGuarantee::Private(terms) => {
                return Disclosures::new(membership.chain(match terms.stated.mechanism {
                    Mechanism::Residual => None,
                    // Uniform for its receiver. Shares leave with noise and a charge, or not at all.
                    Mechanism::Crossprod => Some(Declaration::Masked),
                }));
            }
            VerticalGuarantee::Sealed(_) => {
                return Disclosures::new(membership.chain(self.sealed_declarations()));
            }
            VerticalGuarantee::Plain => vec![Declaration::PartialPrediction, Declaration::Summary],
        };
        declared.extend(membership);
        if self.head.rows.missing == Missing::CompleteCases {
            declared.push(Declaration::MissingRows);
        }
        declared.extend(self.sent_whole(role).into_iter().map(|(held, _)| match held {
            HeldAs::Outcome => Declaration::Outcome,
            HeldAs::Weights => Declaration::Weights,
            HeldAs::Offset => Declaration::Offset,
        }));
        if self.uses_basis() {
            declared.push(if self.sends_basis(role) { Declaration::Basis } else { Declaration::ProjectionTable });
        }
        if self.method.fit.coefficients == CoefficientTerms::Shared {
            declared.push(Declaration::Coefficients);
        }
        if self.method.shares_covariance() {
            declared.push(Declaration::Covariance);
        }
        if self.result_to() != role {
            declared.push(Declaration::Prediction);
        }
        Disclosures::new(declared)
    }

    /// The digest of what decides a match: the study's id and mode, who the parties are, and the section `[match]`. A study whose formula
    /// was changed keeps its match. `None` of a study without that section.
    pub fn match_digest(&self) -> Option<Digest> {
        self.head.matching.as_ref()?;
        let decides = |key: &str| {
            let certificate = key.starts_with("parties.") && key.ends_with(".certificate");
            ["id", "mode", "leader"].contains(&key) || certificate || key.starts_with("match.")
        };
        let mut text = String::from("fedreg match 1\n");
        for (key, digest) in self.keys.iter().filter(|(key, _)| decides(key)) {
            text.push_str(&format!("{}:{key} {digest}\n", key.len()));
        }
        Some(Digest::of(text.as_bytes()))
    }

    /// The party that holds the intercept, and alone what the study says that one party holds: alice, or the leader.
    pub fn first(&self) -> Role {
        self.method.first()
    }

    /// Whether it is this party.
    pub fn is_first(&self, role: Role) -> bool {
        role == self.first()
    }

    /// Whether there are more than two parties: then each has a conversation with the leader alone.
    pub fn is_of_several(&self) -> bool {
        self.method.is_of_several()
    }

    /// Of several parties, the one that all others dial.
    pub fn leader_of_several(&self) -> Option<Role> {
        self.method.leader.filter(|_| self.is_of_several())
    }

    /// The party that all others dial; none between alice and bob, where either may.
    pub fn leader(&self) -> Option<Role> {
        self.method.leader
    }

    /// All parties: the first, then the others as the study orders them, else by name.
    pub fn parties_in_order(&self) -> Vec<Role> {
        std::iter::once(self.first()).chain(self.others(self.first())).collect()
    }

    /// The place of a party in that order.
    pub fn place(&self, role: Role) -> usize {
        self.parties_in_order().iter().position(|party| *party == role).unwrap_or_default()
    }

    /// All parties but this one, in order.
    pub fn others(&self, role: Role) -> Vec<Role> {
        let first = self.first();
        let by_name: Vec<Role> = self.method.parties.keys().copied().collect();
        let ordered = if self.method.order.is_empty() { by_name } else { self.method.order.clone() };
        let further = ordered.into_iter().filter(|party| *party != first);
        std::iter::once(first).chain(further).filter(|party| *party != role).collect()
    }

    /// The only party with which this one speaks; the leader of several, which speaks with all others, is returned as it is.
    pub fn peer(&self, role: Role) -> Role {
        match self.leader_of_several() {
            Some(leader) => leader,
            None => self.others(role).first().copied().unwrap_or(role),
        }
    }

    /// The parties with which this one speaks: of several, all others at the leader, and the leader at another.
    pub fn peers(&self, role: Role) -> Vec<Role> {
        match self.leader_of_several() {
            Some(leader) if leader == role => self.others(role),
            Some(_) | None => vec![self.peer(role)],
        }
    }

    /// Whether this party sends its basis where bases are sent.
    pub fn sends_basis(&self, role: Role) -> bool {
        match self.leader_of_several() {
            Some(leader) => role != leader,
            None => role == self.sender(),
        }
    }

    /// Which of two parties sends its basis.
    pub fn sender(&self) -> Role {
        self.method.inference.sender.unwrap_or(self.first())
    }

    /// The only party that sees the scores of new rows.
    pub fn result_to(&self) -> Role {
        self.method.prediction.result_to.unwrap_or(self.first())
    }

    /// Whether a party has this column: one that all hold, or one that it holds alone.
    pub fn has(&self, role: Role, column: &HeldColumn) -> bool {
        column.held_by.holder().is_none_or(|holder| holder == role)
    }

    /// Of several parties, the columns that others than the leader hold alone and send to it, in the order in which they are sent. From
    /// then on the leader holds them alone.
    pub fn sent_to_leader(&self) -> Vec<(HeldAs, Role, &HeldColumn)> {
        let method = &self.method;
        let columns = [
            (HeldAs::Weights, method.weights.as_ref()),
            (HeldAs::Outcome, Some(&method.outcome)),
            (HeldAs::Offset, method.offset.as_ref()),
        ];
        let alone = columns.into_iter().filter_map(|(held, column)| Some((held, column?.held_by.holder()?, column?)));
        alone.filter(|(_, holder, _)| !self.is_first(*holder)).collect()
    }

    /// The columns that a party sends whole: to the leader of several what it holds alone; as the first party, to the others, what it holds
    /// alone or was sent.
    pub fn sent_whole(&self, role: Role) -> Vec<(HeldAs, &HeldColumn)> {
        if !self.is_first(role) {
            let own = self.sent_to_leader().into_iter().filter(|(_, holder, _)| *holder == role);
            return own.map(|(held, _, column)| (held, column)).collect();
        }
        let method = &self.method;
        let columns = [
            (HeldAs::Outcome, self.sends_outcome(), Some(&method.outcome)),
            (HeldAs::Weights, self.sends_weights(), method.weights.as_ref()),
            (HeldAs::Offset, self.sends_offset(), method.offset.as_ref()),
        ];
        columns.into_iter().filter_map(|(held, sends, column)| Some((held, column.filter(|_| sends)?))).collect()
    }

    /// Whether the first party, which holds the outcome alone, sends every value of it: for other families than gaussian as it is, for
    /// a gaussian path less its mean. In a gaussian fit without a path each of its partial predictions contains it instead.
    pub fn sends_outcome(&self) -> bool {
        let method = &self.method;
        method.outcome.held_by.is_alone() && (method.family != Family::Gaussian || self.needs_path())
    }

    /// Whether the first party, which holds the case weights alone, sends them.
    pub fn sends_weights(&self) -> bool {
        self.method.weights.as_ref().is_some_and(|weights| weights.held_by.is_alone())
    }

    /// Whether the first party sends an offset that it holds alone: where a path begins at the null model, which needs it. Then it is as if
    /// all held it. Elsewhere, and in a gaussian fit whose outcome it holds alone, its partial predictions contain it instead.
    pub fn sends_offset(&self) -> bool {
        let method = &self.method;
        let alone = method.offset.as_ref().is_some_and(|offset| offset.held_by.is_alone());
        let within = method.outcome.held_by.is_alone() && method.family == Family::Gaussian;
        let plain = match self.guarantee {
            VerticalGuarantee::Plain => true,
            VerticalGuarantee::Sealed(_) | VerticalGuarantee::Private(_) => false,
        };
        plain && alone && self.needs_path() && !within
    }

    /// Whether the run may send a basis: for standard errors of an unpenalised fit, or in place of rows on a gaussian
    /// path. A party's policy may still forbid it.
    pub fn uses_basis(&self) -> bool {
        match self.guarantee {
            VerticalGuarantee::Plain => {
                self.method.inference.allowed && (self.method.penalty.is_none() || self.uses_tables())
            }
            VerticalGuarantee::Sealed(_) | VerticalGuarantee::Private(_) => false,
        }
    }

    /// Whether the exchange for standard errors is made after the first round, where policies allow it.
    pub fn has_errors_first(&self) -> bool {
        // Of a loss that is not quadratic the joint minimum is that of the fit only where the party without the intercept looks for it.
        let joint = self.method.family == Family::Gaussian || self.sends_basis(self.first()) || !self.method.intercept;
        self.uses_basis()
            && self.method.penalty.is_none()
            && !self.is_of_several()
            && self.method.has_errors_first()
            && joint
    }

    /// Whether a dealer hands out masks for a fit.
    pub fn is_dealt(&self) -> bool {
        match &self.guarantee {
            VerticalGuarantee::Plain => false,
            VerticalGuarantee::Sealed(_) => true,
            VerticalGuarantee::Private(terms) => match terms.stated.mechanism {
                Mechanism::Residual => false,
                Mechanism::Crossprod => true,
            },
        }
    }

    /// Whether the lambdas are to be found from the data.
    pub fn needs_path(&self) -> bool {
        self.method.penalty.as_ref().is_some_and(|penalty| matches!(penalty.lambda, Lambda::Path(_)))
    }

    /// Whether the fits exchange a few numbers after a basis was sent, instead of a value a row: worth it where there are
    /// many fits, and possible for gaussian when both hold the outcome.
    pub fn uses_tables(&self) -> bool {
        let method = &self.method;
        let many = method.penalty.as_ref().is_some_and(|penalty| {
            penalty.cv.is_some() || self.needs_path() || matches!(&penalty.lambda, Lambda::Many(list) if list.len() > 1)
        });
        many && !self.is_of_several()
            && method.inference.allowed
            && self.is_first(self.sender())
            && method.family == Family::Gaussian
            && method.outcome.held_by.is_shared()
            && method.offset.as_ref().is_none_or(|offset| offset.held_by.is_shared())
    }

    /// What the study states of the columns that `role` brings into a private run, the outcome among them: a range, levels, or a centre and
    /// a scale, in words; and the norm at which rows are cut.
    pub fn stated_bounds(&self, role: Role) -> BTreeMap<String, String> {
        let party = self.method.parties.get(&role);
        let columns = self.named_columns(role);
        self.head.stated_bounds(columns.iter().chain([&self.method.outcome.column]), party.map(|party| party.row_norm))
    }

    /// The columns of its table that the study names for a party: those that it lists, or those of its formula.
    pub fn named_columns(&self, role: Role) -> Vec<String> {
        let Some(party) = self.method.parties.get(&role) else { return Vec::new() };
        match party.formula.as_deref().map(Formula::parse) {
            Some(Ok(formula)) => formula.predictors().into_iter().map(str::to_owned).collect(),
            Some(Err(_)) | None => party.columns.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
