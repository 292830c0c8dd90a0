//! A study of two parties: who holds which columns, and how they are fitted together.

use std::collections::BTreeMap;

use super::file::{
    CoefficientTerms, FitTerms, HeldBy, HeldColumn, InferenceTerms, Lambda, Missing, PartyTerms, PenaltyTerms,
    PredictionTerms, Protocol, StudyFile,
};
use super::{Guarantee, Head, Study, StudyError, privacy, value};
use crate::data::formula::Formula;
use crate::glm::Family;
use crate::id::{Digest, Role};
use crate::privacy::release::{Declaration, Disclosures};

/// Sections that a study of two parties takes beside those of all studies.
const SECTIONS: [&str; 10] = [
    "parties",
    "offset",
    "weights",
    "penalty",
    "fit",
    "inference",
    "prediction",
    "rows.id",
    "outcome.held_by",
    "model.family",
];

/// The method between two parties.
#[derive(Debug, Clone, PartialEq)]
pub struct Vertical {
    /// Alice and Bob.
    pub parties: BTreeMap<Role, PartyTerms>,
    /// Family and link.
    pub family: Family,
    /// Whether Alice's block has an intercept.
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

impl Study<Vertical> {
    pub(super) fn parse_file(file: StudyFile, head: Head, keys: Vec<(String, Digest)>) -> Result<Self, StudyError> {
        file.check_vertical()?;
        let guarantee = Guarantee::parse(&file, "at least `privacy.epsilon`")?;
        let study = Study {
            head,
            guarantee,
            keys,
            method: Vertical {
                parties: file.parties,
                family: file.model.family,
                intercept: file.model.intercept,
                outcome: file.outcome,
                offset: file.offset,
                weights: file.weights,
                penalty: file.penalty,
                fit: file.fit,
                inference: file.inference,
                prediction: file.prediction,
            },
        };
        match &study.guarantee {
            Guarantee::Plain => Ok(study),
            Guarantee::Private(terms) => privacy::check(&study, &terms.stated).map(|()| study),
        }
    }

    /// Its method by name.
    pub fn protocol(&self) -> Protocol {
        Protocol::Vertical
    }

    /// What this study lets a party disclose.
    pub fn disclosures(&self, role: Role) -> Disclosures {
        match &self.guarantee {
            Guarantee::Private(_) => return Disclosures::default(),
            Guarantee::Plain => {}
        }
        let mut declared = vec![Declaration::PartialPrediction, Declaration::Summary];
        if self.head.rows.missing == Missing::CompleteCases {
            declared.push(Declaration::MissingRows);
        }
        if role == Role::Alice && self.sends_outcome() {
            declared.push(Declaration::Outcome);
        }
        if role == Role::Alice && self.sends_weights() {
            declared.push(Declaration::Weights);
        }
        if self.uses_basis() {
            declared.push(if role == self.method.inference.sender {
                Declaration::Basis
            } else {
                Declaration::ProjectionTable
            });
        }
        if self.method.fit.coefficients == CoefficientTerms::Shared {
            declared.push(Declaration::Coefficients);
        }
        if self.method.prediction.result_to == role.partner() {
            declared.push(Declaration::Prediction);
        }
        Disclosures::new(declared)
    }

    /// Whether Alice, who holds the outcome alone, sends every value of it: for other families than gaussian as it is, for a
    /// gaussian path less its mean. In a gaussian fit without a path each of her partial predictions contains it instead.
    pub fn sends_outcome(&self) -> bool {
        let method = &self.method;
        method.outcome.held_by == HeldBy::Alice && (method.family != Family::Gaussian || self.needs_path())
    }

    /// Whether Alice, who holds the case weights alone, sends them.
    pub fn sends_weights(&self) -> bool {
        self.method.weights.as_ref().is_some_and(|weights| weights.held_by == HeldBy::Alice)
    }

    /// Whether the run may send a basis: for standard errors of an unpenalised fit, or in place of rows on a gaussian
    /// path. A party's policy may still forbid it.
    pub fn uses_basis(&self) -> bool {
        match self.guarantee {
            Guarantee::Plain => self.method.inference.allowed && (self.method.penalty.is_none() || self.uses_tables()),
            Guarantee::Private(_) => false,
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
        many && method.inference.allowed
            && method.inference.sender == Role::Alice
            && method.family == Family::Gaussian
            && method.outcome.held_by == HeldBy::Both
            && method.offset.as_ref().is_none_or(|offset| offset.held_by == HeldBy::Both)
    }
}

impl StudyFile {
    fn check_vertical(&self) -> Result<(), StudyError> {
        let wrong = |key: &str, problem: &str| Err(value(key, problem));
        if !self.parties.keys().eq([Role::Alice, Role::Bob].iter()) {
            return wrong("parties", "must name exactly alice and bob in a vertical study");
        }
        self.takes_only(&SECTIONS, "a vertical study")?;
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
        match [self.inference.sender, self.prediction.result_to].iter().all(|role| self.parties.contains_key(role)) {
            true => Ok(()),
            false => wrong("inference.sender, prediction.result_to", "must be alice or bob"),
        }
    }

    /// Refuses what a party's formula cannot say, because it is a matter of both parties.
    fn check_party_formula(&self, role: Role, text: &str) -> Result<(), StudyError> {
        let wrong = |problem: String| Err(value(&format!("parties.{role}.formula"), problem));
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
}

impl PenaltyTerms {
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
