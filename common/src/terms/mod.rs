//! Terms that studies of all methods share: a head, a guarantee with what it costs, who takes part between sites, and the types of what
//! a plan foretells and a report states of privacy.
//!
//! A method has further terms, in its own folder. The study file with the sections of all methods is parsed in [`crate::study`].

use std::collections::BTreeMap;

use thiserror::Error;

use crate::id::{Digest, Mode};
use crate::privacy::accountant::{Budget, BudgetError};
use crate::privacy::bounds::{BoundsError, OutcomeBounds};

mod expectation;
mod matching;
mod privacy;
mod sections;
mod sites;
pub mod statement;
pub mod suggestion;

pub use self::expectation::{Expectation, Foretold, NoExpectation, Reckoned, Size};
pub use self::matching::{
    DuplicateTerms, FoldTerms, KeyKind, KeyTerms, MatchProtocol, MatchRun, MatchTerms, Membership, PassTerms,
};
pub use self::privacy::{CoefficientGuess, DesignTerms, Mechanism, PrivacyTerms};
pub(crate) use self::privacy::{
    bounds_sentence, check_positive, declared_formula, default_clip, formula_bounds, one_round, public_number,
    refused_in_private, row_bounds,
};
pub(crate) use self::sections::one;
pub use self::sections::{
    ColumnTerms, CoordinatorTerms, DealerTerms, HeldAs, HeldBy, HeldColumn, Missing, Model, RowTerms, explain,
    explain_in,
};
pub use self::sites::{Between, MethodTerms, SiteTerms, Sites, WorkerTerms};

/// What rounding may add to a sum of squares, per release.
pub(crate) const ROOM: f64 = 1.0 - 1e-12;

/// Beside the columns, in the bounds that a study states.
const ROW_NORM: &str = "norm of rows";

/// A method, by the guarantees that it knows: no study holds one that its method cannot keep.
pub trait Guaranteed {
    /// What is promised of what leaves.
    type Guarantee: std::fmt::Debug + Clone + PartialEq;
}

/// A guarantee, as far as all methods need to know.
pub trait Promise {
    /// Its name.
    fn mode(&self) -> Mode;

    /// The terms of a private run, if it is one.
    fn private(&self) -> Option<&PrivateTerms>;
}

/// A study, parsed and checked; `M` is its method.
#[derive(Debug, Clone, PartialEq)]
pub struct Study<M: Guaranteed> {
    /// What all methods share.
    pub head: Head,
    /// What is promised of what leaves.
    pub guarantee: M::Guarantee,
    /// What is computed, among whom.
    pub method: M,
    /// Of the file; kept as digests, because nothing else of it may be read again.
    pub(crate) keys: Vec<(String, Digest)>,
}

/// What all methods share.
#[derive(Debug, Clone, PartialEq)]
pub struct Head {
    /// The study's name.
    pub id: String,
    /// Who convenes.
    pub coordinator: CoordinatorTerms,
    /// Who deals masks, apart from the coordinator.
    pub dealer: Option<DealerTerms>,
    /// What is known of columns beforehand.
    pub columns: BTreeMap<String, ColumnTerms>,
    /// Which rows take part.
    pub rows: RowTerms,
    /// How the parties find the rows that all have, where these do not stand in all tables beforehand.
    pub matching: Option<MatchTerms>,
}

/// What is promised of what leaves a site.
#[derive(Debug, Clone, PartialEq)]
// A process holds one study: its size costs nothing.
#[allow(clippy::large_enum_variant)]
pub enum Guarantee {
    /// Nothing: values without noise leave, declared, counted and metered.
    Plain,
    /// Differential privacy towards everybody who sees what left.
    Private(PrivateTerms),
}

/// What a private run may cost, and how it is made.
#[derive(Debug, Clone, PartialEq)]
pub struct PrivateTerms {
    /// As the file states them.
    pub stated: PrivacyTerms,
    /// Epsilon and delta of one run at each site. Between two parties delta may also depend on the number of rows: see
    /// [`PrivateTerms::of_rows`].
    pub budget: Budget,
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

/// An error of a key.
pub(crate) fn value(key: &str, problem: impl Into<String>) -> StudyError {
    StudyError::Value { key: key.to_string(), problem: problem.into() }
}

impl<M: Guaranteed<Guarantee: Promise>> Study<M> {
    /// The guarantee by name.
    pub fn mode(&self) -> Mode {
        self.guarantee.mode()
    }

    /// The terms of a private run, if it is one.
    pub fn private(&self) -> Option<&PrivateTerms> {
        self.guarantee.private()
    }
}

impl<M: Guaranteed> Study<M> {
    pub(crate) fn with<N: Guaranteed<Guarantee = M::Guarantee>>(self, wrap: impl FnOnce(M) -> N) -> Study<N> {
        Study { head: self.head, guarantee: self.guarantee, method: wrap(self.method), keys: self.keys }
    }

    /// The digest of each leaf of the study file, by dotted name: defaults included, comments and order not.
    pub fn key_digests(&self) -> Vec<(String, Digest)> {
        self.keys.clone()
    }

    /// The digest that every message carries.
    pub fn digest(&self) -> Digest {
        let mut text = String::from("fedreg study 1\n");
        for (key, digest) in &self.keys {
            text.push_str(&format!("{}:{key} {digest}\n", key.len()));
        }
        Digest::of(text.as_bytes())
    }
}

impl Head {
    /// Whether rows of the tables of a vertical study are those of one person by their place alone, which nothing checks.
    pub fn lines_up_by_place(&self) -> bool {
        self.rows.id.is_none() && self.matching.is_none()
    }

    /// Refuses a name that cannot be printed, and columns that contradict themselves.
    pub(crate) fn check(&self) -> Result<(), StudyError> {
        if self.id.is_empty() || self.id.len() > 200 || self.id.chars().any(char::is_control) {
            return Err(value("id", "must have 1 to 200 printable characters"));
        }
        self.columns.iter().try_for_each(|(name, terms)| terms.check(name))
    }

    /// The public range of an outcome.
    pub(crate) fn bounds_of_outcome(&self, column: &str) -> Result<OutcomeBounds, BoundsError> {
        match self.columns.get(column).and_then(|stated| stated.range) {
            Some([low, high]) => OutcomeBounds::new(low, high),
            None => Err(BoundsError::OutcomeRange { column: column.to_owned() }),
        }
    }

    /// What is stated of these columns, and the norm at which rows are cut, in words: as a ledger compares them between runs.
    pub(crate) fn stated_bounds<'a>(
        &self,
        columns: impl Iterator<Item = &'a String>,
        norm: Option<Option<f64>>,
    ) -> BTreeMap<String, String> {
        let stated = columns.filter_map(|name| {
            let terms = self.columns.get(name)?;
            if let (Some(centre), Some(scale)) = (terms.centre, terms.scale) {
                return Some((name.clone(), format!("centre {centre} and scale {scale}")));
            }
            match (terms.range, &terms.levels[..]) {
                (Some([low, high]), _) => Some((name.clone(), format!("{low} to {high}"))),
                (None, []) => None,
                (None, levels) => Some((name.clone(), format!("levels {}", levels.join(", ")))),
            }
        });
        let norm = norm.map(|norm| norm.map_or_else(|| "the default".to_owned(), |norm| norm.to_string()));
        stated.chain(norm.map(|norm| (ROW_NORM.to_owned(), norm))).collect()
    }
}

impl ColumnTerms {
    fn check(&self, name: &str) -> Result<(), StudyError> {
        let wrong = |key: &str, problem: &str| Err(value(&format!("columns.{name}{key}"), problem));
        let mut levels = self.levels.clone();
        levels.sort();
        levels.dedup();
        if levels.len() != self.levels.len() {
            return wrong(".levels", "must not repeat a level");
        }
        if self.range.is_some_and(|[low, high]| !(low.is_finite() && high.is_finite() && low < high)) {
            return wrong(".range", "must be two finite numbers in ascending order");
        }
        let stated = [!self.levels.is_empty(), self.range.is_some(), self.centre.is_some() || self.scale.is_some()];
        if stated.iter().filter(|stated| **stated).count() > 1 {
            return wrong("", "must state one of `levels`, `range`, or `centre` with `scale`");
        }
        if self.centre.is_some() != self.scale.is_some() {
            return wrong("", "needs both `centre` and `scale`, or neither");
        }
        if self.centre.is_some_and(|centre| !centre.is_finite()) {
            return wrong(".centre", "must be a finite number");
        }
        if self.scale.is_some_and(|scale| !(scale > 0.0 && scale.is_finite())) {
            return wrong(".scale", "must be a positive finite number");
        }
        Ok(())
    }
}

impl Guarantee {
    /// Of a mode and its section; `needed` are the words for a private study without terms.
    pub(crate) fn parse(mode: Mode, terms: Option<&PrivacyTerms>, needed: &str) -> Result<Guarantee, StudyError> {
        match (mode, terms) {
            (Mode::Plain, None) => Ok(Guarantee::Plain),
            (Mode::Plain, Some(_)) => {
                Err(value("privacy", "is given, but `mode` is \"plain\": set mode = \"private\""))
            }
            (Mode::Sealed, _) => {
                Err(value("mode", "is \"sealed\", which is between two parties: sites are \"plain\" or \"private\""))
            }
            (Mode::Private, None) => Err(value("privacy", format!("is missing: a private run needs {needed}"))),
            (Mode::Private, Some(terms)) => PrivateTerms::parse(terms).map(Guarantee::Private),
        }
    }

    /// The root of what one run costs a row at a site, as a sum of (sensitivity / sigma)^2; infinite without noise. A person with several
    /// rows costs that many times as much, which is the budget of the run.
    pub(crate) fn row_mu(&self, rows_per_person: u32) -> f64 {
        match self {
            Guarantee::Plain => f64::INFINITY,
            Guarantee::Private(terms) => terms.budget.cap().sqrt() / f64::from(rows_per_person.max(1)) * ROOM,
        }
    }
}

impl Promise for Guarantee {
    fn mode(&self) -> Mode {
        match self {
            Guarantee::Plain => Mode::Plain,
            Guarantee::Private(_) => Mode::Private,
        }
    }

    fn private(&self) -> Option<&PrivateTerms> {
        match self {
            Guarantee::Plain => None,
            Guarantee::Private(terms) => Some(terms),
        }
    }
}

impl PrivateTerms {
    pub(crate) fn parse(terms: &PrivacyTerms) -> Result<PrivateTerms, StudyError> {
        terms.check_budget()?;
        let budget = terms.budget(1).map_err(|error| value("privacy", format!("cannot be used: {error}")))?;
        Ok(PrivateTerms { stated: terms.clone(), budget })
    }

    /// Epsilon and delta of one run over a given number of rows, which two parties count together.
    ///
    /// # Errors
    /// A delta above one over the number of rows.
    pub fn of_rows(&self, rows: u64) -> Result<Budget, BudgetError> {
        self.stated.budget(rows)
    }

    /// The same with another epsilon.
    pub(crate) fn at(&self, epsilon: f64) -> Option<PrivateTerms> {
        let stated = PrivacyTerms { epsilon, ..self.stated.clone() };
        let budget = stated.budget(1).ok()?;
        Some(PrivateTerms { stated, budget })
    }
}

impl PrivacyTerms {
    /// Epsilon and delta of one run over a given number of rows.
    ///
    /// # Errors
    /// A budget that promises nothing.
    pub fn budget(&self, rows: u64) -> Result<Budget, BudgetError> {
        let delta = self.delta.unwrap_or_else(|| Budget::default_delta(rows));
        Budget::new(self.epsilon, delta, self.accountant, rows, self.large_epsilon.is_some())
    }
}
