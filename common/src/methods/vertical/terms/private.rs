//! The private mode of a vertical study: what it must say, what it must not, and the plan that follows.
//!
//! Everything here is public. The number of rows comes from the parties when they have compared them.

use super::sealed::ONLY_OF_TWO;
use super::{Acceleration, CoefficientTerms, FitTerms, Vertical};
use crate::data::declared::DeclaredFormula;
use crate::glm::Family;
use crate::id::Role;
use crate::methods::vertical::plan::{
    Coefficients, CrossPenalty, CrossPlan, CrossSetup, Design, LogisticPlan, LogisticSetup, MEAN_SQUARE, OutcomeAt,
    Outcomes, Outlook, Plan, PlanError, Prediction, PrivatePlan, Setup, Shares,
};
use crate::privacy::accountant::{Budget, BudgetError};
use crate::privacy::bounds::{BoundsError, OutcomeBounds, RowBounds};
use crate::terms::{
    CoefficientGuess, DesignTerms, HeldBy, Mechanism, Missing, PrivacyTerms, Study, StudyError, bounds_sentence,
    check_positive, declared_formula, default_clip, formula_bounds, one_round, refused_in_private, row_bounds, value,
};

/// Most rounds: more only divide the noise's budget further.
const MOST_ROUNDS: u32 = 1_000;

/// Keys of the design that errors between two parties are predicted for.
const DESIGN: [&str; 5] = ["correlation", "mean_square", "coefficients", "signal", "outcome_mean"];

/// Why a study cannot be run in private mode with this number of rows.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PrivacyError {
    /// The study has no private mode.
    #[error("the study has no `privacy`")]
    Absent,
    /// The bounds.
    #[error(transparent)]
    Bounds(#[from] BoundsError),
    /// Epsilon and delta.
    #[error(transparent)]
    Budget(#[from] BudgetError),
    /// Rounds, clip, ridge.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// What there is for two parties alone.
    #[error("among several parties there is the mechanism `crossprod` for gaussian models alone")]
    TwoOnly,
}

impl Study<Vertical> {
    /// Refuses what a private run between parties cannot keep.
    pub(crate) fn check_private(&self, terms: &PrivacyTerms) -> Result<(), StudyError> {
        let wrong = |key: &str, problem: String| Err(value(key, problem));
        let method = &self.method;
        if !(1..=MOST_ROUNDS).contains(&terms.rounds) {
            return wrong("privacy.rounds", format!("must be from 1 to {MOST_ROUNDS}, got {}", terms.rounds));
        }
        check_positive("privacy.clip", Some(terms.clip), "number")?;
        match terms.mechanism {
            Mechanism::Residual => {}
            Mechanism::Crossprod => self.check_crossprod(terms)?,
        }
        if !(terms.ridge >= 0.0 && terms.ridge.is_finite()) {
            return wrong("privacy.ridge", format!("must be zero or above, got {}", terms.ridge));
        }
        terms.design.check(&DESIGN, self.protocol().name())?;
        self.check_family(terms)?;
        let FitTerms { acceleration, tol, max_rounds, .. } = &method.fit;
        let (penalised, no_penalty) = match (method.family, terms.mechanism) {
            (Family::Gaussian, Mechanism::Crossprod) => (true, ""),
            (Family::Gaussian, Mechanism::Residual) => (
                false,
                "by the mechanism `residual` a penalty found in the data or on their scale is a release; use `privacy.ridge`, or `mechanism \
                 = \"crossprod\"`",
            ),
            (family @ (Family::Binomial | Family::Poisson), Mechanism::Residual | Mechanism::Crossprod) => {
                (false, no_penalty(family))
            }
        };
        refused_in_private(&[
            (
                "model.intercept",
                !method.intercept,
                "columns are centred by their public ranges, which leaves an intercept",
            ),
            (
                "outcome.held_by",
                match terms.mechanism {
                    Mechanism::Residual => method.outcome.held_by.is_alone(),
                    Mechanism::Crossprod => false,
                },
                "the mechanism `residual` needs the outcome at both parties; it is not protected from either",
            ),
            ("offset", method.offset.is_some(), "its values have no public bounds"),
            (
                "weights",
                method.weights.is_some(),
                "one person's weight would scale the sensitivity of that person's row",
            ),
            (
                "rows.missing",
                self.head.rows.missing == Missing::CompleteCases,
                "`complete-cases` sends which rows are incomplete without noise; an incomplete row counts as a row of zeros",
            ),
            (
                "penalty.cv",
                method.penalty.as_ref().is_some_and(|penalty| penalty.cv.is_some()),
                "errors of folds are computed on rows without noise",
            ),
            ("penalty", method.penalty.is_some() && !penalised, no_penalty),
            (
                "privacy.ridge",
                method.penalty.is_some() && terms.ridge != 0.0,
                "`[penalty]` is given, which states every penalty; leave one of them out",
            ),
            (
                "fit.acceleration",
                *acceleration != Acceleration::default(),
                "it compares objectives without noise; rounds are `privacy.rounds`",
            ),
            (
                "fit.tol",
                *tol != FitTerms::default().tol,
                "a stopping rule looks at values without noise; rounds are `privacy.rounds`",
            ),
            ("fit.max_rounds", max_rounds.is_some(), "the number of rounds is fixed: `privacy.rounds`"),
        ])?;
        self.check_bounds()?;
        self.check_guess(terms)
    }

    /// Refuses what a private run of several parties has no proof for.
    fn check_several(&self, terms: &PrivacyTerms) -> Result<(), StudyError> {
        let (family, held_by) = (self.method.family, self.method.outcome.held_by);
        let residual = match terms.mechanism {
            Mechanism::Residual => true,
            Mechanism::Crossprod => false,
        };
        let other_family = match family {
            Family::Gaussian => false,
            Family::Binomial | Family::Poisson => true,
        };
        let refused = [
            (
                "privacy.mechanism",
                residual,
                format!(
                    "is \"residual\", as where none is named, which {}; or name `mechanism = \"crossprod\"`",
                    ONLY_OF_TWO
                ),
            ),
            (
                "model.family",
                other_family,
                format!("is {family}: in private mode a {family} fit {}", ONLY_OF_TWO),
            ),
            (
                "outcome.held_by",
                held_by.is_alone(),
                "is one party: private mode of several parties needs the outcome at all of them (`held_by = \"all\"`); it is not \
                 protected from any"
                    .to_string(),
            ),
        ];
        match refused.into_iter().find(|(_, given, _)| *given) {
            Some((key, _, problem)) => Err(value(key, problem)),
            None => Ok(()),
        }
    }

    /// Refuses a family for which no sensitivity is proved, and what private binomial and poisson models have no place for.
    fn check_family(&self, terms: &PrivacyTerms) -> Result<(), StudyError> {
        if self.is_of_several() {
            self.check_several(terms)?;
        }
        let method = &self.method;
        match (method.family, terms.mechanism) {
            (Family::Gaussian, Mechanism::Residual | Mechanism::Crossprod) if terms.design.outcome_mean.is_some() => {
                let problem = "has no place in a gaussian model, whose outcome counts as centred in its range";
                return Err(value("privacy.design.outcome_mean", problem.to_owned()));
            }
            (Family::Gaussian, Mechanism::Residual | Mechanism::Crossprod) => return Ok(()),
            (Family::Binomial | Family::Poisson, Mechanism::Crossprod) => {}
            (family @ (Family::Binomial | Family::Poisson), Mechanism::Residual) => {
                let problem = format!(
                    "is {family}: the mechanism `residual` is for gaussian only; name `mechanism = \"crossprod\"`"
                );
                return Err(value("model.family", problem));
            }
        }
        refused_in_private(&[("privacy.ridge", terms.ridge != 0.0, no_penalty(method.family))])
    }

    /// Refuses columns without public bounds.
    fn check_bounds(&self) -> Result<(), StudyError> {
        let wrong = |key: &str, problem: String| Err(value(key, problem));
        let method = &self.method;
        for (role, party) in &method.parties {
            if party.columns.contains(&method.outcome.column) {
                return wrong(&format!("parties.{role}.columns"), "names the outcome".to_owned());
            }
            let formula = format!("parties.{role}.formula");
            match self.declared_formula(*role) {
                Ok(Some(declared)) if declared.columns().any(|column| column == method.outcome.column) => {
                    return wrong(&formula, format!("names the outcome `{}`", method.outcome.column.escape_debug()));
                }
                Ok(Some(_) | None) => {}
                Err(error) => {
                    let why = "in private mode bounds of all terms follow from the study";
                    return wrong(&formula, format!("cannot be used, as {why}: {error}"));
                }
            }
            match (self.row_bounds(*role), party.formula.is_some()) {
                (Ok(_), _) => {}
                (Err(error), true) => return wrong(&formula, bounds_sentence(&error)),
                (Err(error), false) => return wrong("columns", bounds_sentence(&error)),
            }
        }
        let bounds = match self.outcome_bounds() {
            Err(error) => return wrong("columns", bounds_sentence(&error)),
            Ok(bounds) => bounds,
        };
        let key = format!("columns.{}.range", method.outcome.column);
        match method.family {
            Family::Binomial if bounds != OutcomeBounds::of_events() => {
                wrong(&key, "must be [0, 1], the values of a binomial outcome".to_owned())
            }
            Family::Poisson if bounds.lowest() != 0.0 => wrong(
                &key,
                "must begin at 0: from 0 to a largest count that is known without the data, at which counts and their means are cut"
                    .to_owned(),
            ),
            Family::Gaussian | Family::Binomial | Family::Poisson => Ok(()),
        }
    }

    /// Refuses what a run of the mechanism `crossprod` has no place for.
    fn check_crossprod(&self, terms: &PrivacyTerms) -> Result<(), StudyError> {
        let one_table =
            "has no place beside `mechanism = \"crossprod\"`: the fit follows from one table, without rounds";
        let refused = [
            ("privacy.rounds", terms.rounds != one_round(), one_table),
            ("privacy.clip", terms.clip != default_clip(), one_table),
            (
                "fit.coefficients",
                self.method.fit.coefficients != CoefficientTerms::default(),
                "is own: with `mechanism = \"crossprod\"` all noised tables open to both, so both know all coefficients",
            ),
        ];
        match refused.into_iter().find(|(_, given, _)| *given) {
            Some((key, _, problem)) => Err(value(key, problem.to_owned())),
            None => Ok(()),
        }
    }

    /// Declared coefficients: of every term, of no other, and not all zero.
    fn check_guess(&self, terms: &PrivacyTerms) -> Result<(), StudyError> {
        let wrong = |problem: String| Err(value("privacy.design.coefficients", problem));
        match &terms.design.coefficients {
            None => Ok(()),
            Some(CoefficientGuess::Size(size)) if *size > 0.0 && size.is_finite() => Ok(()),
            Some(CoefficientGuess::Size(size)) => {
                wrong(format!("must be a positive number, or one for each term, got {size}"))
            }
            Some(CoefficientGuess::Each(values)) => {
                let mut names = Vec::new();
                for role in self.parties_in_order() {
                    let bounds = self.row_bounds(role);
                    let bounds = bounds.map_err(|error| value("columns", bounds_sentence(&error)))?;
                    names.extend(bounds.names().to_vec());
                }
                if let Some(name) = names.iter().find(|name| !values.contains_key(*name)) {
                    return wrong(format!("lack `{name}`: either one number for all, or one for each term"));
                }
                if let Some(name) = values.keys().find(|name| !names.contains(name)) {
                    return wrong(format!("name `{name}`, which is no term; the terms are {}", names.join(", ")));
                }
                if values.values().any(|value| !value.is_finite()) || values.values().all(|value| *value == 0.0) {
                    return wrong("must be finite numbers, not all of them 0".to_owned());
                }
                Ok(())
            }
        }
    }

    /// The public bounds of a party's rows; the names in them are those of its terms.
    ///
    /// # Errors
    /// Names the first column without bounds, or with bounds that cannot be used.
    pub fn row_bounds(&self, role: Role) -> Result<RowBounds, BoundsError> {
        let party = self.method.parties.get(&role);
        let columns = party.map_or(&[][..], |party| &party.columns);
        // The intercept of a binomial or poisson model is a column of ones outside of the rows.
        let intercept = self.is_first(role) && self.method.family == Family::Gaussian;
        let norm = party.and_then(|party| party.row_norm);
        match self.declared_formula(role)? {
            Some(formula) => formula_bounds(&self.head, &formula, norm, intercept),
            None => row_bounds(&self.head, columns, norm, intercept),
        }
    }

    /// A party's formula with the bounds of its columns, which follow from those that the study states; none where it lists columns.
    ///
    /// # Errors
    /// A formula that looks at data, or has a term without bounds.
    pub fn declared_formula(&self, role: Role) -> Result<Option<DeclaredFormula>, BoundsError> {
        let text = self.method.parties.get(&role).and_then(|party| party.formula.as_deref());
        text.map(|text| declared_formula(&self.head, text)).transpose()
    }

    /// The public range of the outcome.
    ///
    /// # Errors
    /// It is missing or cannot be used.
    pub fn outcome_bounds(&self) -> Result<OutcomeBounds, BoundsError> {
        self.head.bounds_of_outcome(&self.method.outcome.column)
    }

    /// Epsilon and delta of one run over a given number of rows.
    ///
    /// # Errors
    /// No private mode, and a delta above one over the number of rows.
    pub fn run_budget(&self, rows: u64) -> Result<Budget, PrivacyError> {
        Ok(self.private().ok_or(PrivacyError::Absent)?.of_rows(rows)?)
    }

    /// The penalty of a run whose tables open: all lambdas are computed from them, and none costs anything.
    pub fn cross_penalty(&self) -> Option<CrossPenalty> {
        let terms = self.method.penalty.as_ref()?;
        Some(CrossPenalty { lambdas: terms.given(), alpha: terms.alpha })
    }

    /// Every release of both parties, from the study and the number of rows alone.
    ///
    /// # Errors
    /// No private mode, bounds or a budget that cannot be used.
    pub fn private_plan(&self, rows: u64) -> Result<PrivatePlan, PrivacyError> {
        let mechanism = self.private().ok_or(PrivacyError::Absent)?.stated.mechanism;
        self.plan_by(mechanism, rows)
    }

    /// The same as if the study named this mechanism.
    ///
    /// # Errors
    /// As [`Study::private_plan`].
    pub fn plan_by(&self, mechanism: Mechanism, rows: u64) -> Result<PrivatePlan, PrivacyError> {
        let terms = &self.private().ok_or(PrivacyError::Absent)?.stated;
        let budget = self.run_budget(rows)?.cap();
        let widths: Vec<usize> = self.all_bounds()?.iter().map(RowBounds::width).collect();
        let rows = usize::try_from(rows).unwrap_or(usize::MAX);
        let outcome = match self.method.outcome.held_by {
            HeldBy::Both | HeldBy::All => OutcomeAt::Both,
            HeldBy::One(_) => OutcomeAt::Alice,
        };
        let ridge = terms.ridge;
        Ok(match (mechanism, widths.as_slice()) {
            (Mechanism::Residual, &[alice_width, bob_width]) => PrivatePlan::Residual(Plan::new(Setup {
                rows,
                alice_width,
                bob_width,
                rounds: terms.rounds,
                message_bound: terms.clip,
                ridge,
                shares: Shares::default(),
                alice_budget: budget,
                bob_budget: budget,
            })?),
            (Mechanism::Crossprod, two) => {
                let outcomes = match self.method.family {
                    Family::Gaussian => {
                        let setup = CrossSetup { rows, widths, outcome, ridge, budget };
                        return Ok(PrivatePlan::Crossprod(CrossPlan::new(setup)?));
                    }
                    Family::Binomial => Outcomes::Events,
                    Family::Poisson => Outcomes::Counts,
                };
                let &[alice_width, bob_width] = two else { return Err(PrivacyError::TwoOnly) };
                let setup = LogisticSetup { rows, alice_width, bob_width, outcome, outcomes, budget };
                PrivatePlan::Logistic(LogisticPlan::new(setup)?)
            }
            (Mechanism::Residual, _) => return Err(PrivacyError::TwoOnly),
        })
    }

    /// The public bounds of all parties' rows, in order.
    ///
    /// # Errors
    /// As [`Study::row_bounds`].
    pub fn all_bounds(&self) -> Result<Vec<RowBounds>, BoundsError> {
        self.parties_in_order().into_iter().map(|role| self.row_bounds(role)).collect()
    }

    /// What to expect of a run by this plan, from public facts and the declared design.
    ///
    /// # Errors
    /// No private mode, and bounds that cannot be used.
    pub fn outlook(&self, plan: &PrivatePlan) -> Result<Outlook, PrivacyError> {
        let design = &self.private().ok_or(PrivacyError::Absent)?.stated.design;
        let bounds = self.all_bounds()?;
        let bounds: Vec<&RowBounds> = bounds.iter().collect();
        let coefficients = design.guessed(&bounds);
        let declared = (coefficients.as_ref(), design.outcome_mean);
        Ok(Outlook::new(plan, &bounds, design.correlation, design.mean_square, declared))
    }

    /// What to expect of a plan at this correlation between columns.
    ///
    /// # Errors
    /// As [`Study::outlook`].
    pub(crate) fn foretold(&self, plan: &PrivatePlan, correlation: f64) -> Result<Prediction, PrivacyError> {
        let design = &self.private().ok_or(PrivacyError::Absent)?.stated.design;
        let bounds = self.all_bounds()?;
        let bounds: Vec<&RowBounds> = bounds.iter().collect();
        let coefficients = design.guessed(&bounds).unwrap_or_else(|| plan.neutral());
        let square = design.mean_square.unwrap_or(MEAN_SQUARE);
        let assumed = Design::new(&bounds, correlation, square, &coefficients);
        Ok(plan.predict(&assumed.with_outcome_mean(design.outcome_mean)))
    }
}

/// Why a model of this family has no penalty in private mode.
fn no_penalty(family: Family) -> &'static str {
    match family {
        Family::Binomial => "a binomial model takes no penalty",
        Family::Poisson => "a poisson model takes no penalty",
        // Refused for other reasons, if at all.
        Family::Gaussian => "",
    }
}

impl DesignTerms {
    /// The declared coefficients or their size, of rows with these bounds.
    fn guessed(&self, bounds: &[&RowBounds]) -> Option<Coefficients> {
        match &self.coefficients {
            None => self.signal.map(Coefficients::Signal),
            Some(CoefficientGuess::Size(size)) => Some(Coefficients::Size(*size)),
            Some(CoefficientGuess::Each(values)) => {
                let names = bounds.iter().flat_map(|bounds| bounds.names());
                Some(Coefficients::Each(names.map(|name| values.get(name).copied().unwrap_or(0.0)).collect()))
            }
        }
    }
}
