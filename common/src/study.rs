//! The shared file: what all parties agree on, and its digest.
//!
//! Every party reviews the same `study.toml`. Its digest is taken over the content of the file, key by key, so that comments
//! and white space do not matter, and so that two parties whose files differ can both print which keys do.
//!
//! A file is parsed into a head that all methods share, a guarantee with its terms, and a method with its checked parameters:
//! keys that do not belong together are refused here, and no later code asks again.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::id::Digest;
use crate::privacy::accountant::{Budget, BudgetError};
use crate::privacy::bounds::{BoundsError, OutcomeBounds};

mod budgets;
mod expectation;
mod file;
mod horizontal;
mod methods;
mod privacy;
mod private_robust;
mod stated;
pub mod statement;
mod suggestion;
mod vertical;

pub use self::expectation::{Expectation, NoExpectation, Size};
pub use self::file::{
    Acceleration, CoefficientTerms, ColumnTerms, CoordinatorTerms, FitTerms, HeldBy, HeldColumn, InferenceTerms,
    Lambda, Missing, Mode, Model, PartyTerms, PathWord, PenaltyTerms, PredictionTerms, Protocol, RowTerms, StudyFile,
    explain,
};
pub use self::horizontal::{OnlineTerms, Robust, RobustTerms, SiteMethod, SiteTerms, Sites, WorkerTerms};
pub use self::methods::{
    DecayName, Em, EmTerms, EstimatorName, Features, FeaturesTerms, KernelName, LossName, Release, Stream,
    StreamFeatures, StreamTerms, UpdateName,
};
pub use self::privacy::{CoefficientGuess, DesignTerms, Mechanism, PrivacyError, PrivacyTerms};
pub use self::private_robust::PrivateFitTerms;
pub use self::suggestion::{ErrorRow, ErrorTable, Search, Suggestion};
pub use self::vertical::Vertical;

/// A study, parsed and checked: of any method, or of one of them ([`Vertical`], [`Sites`]) where code knows which.
#[derive(Debug, Clone, PartialEq)]
pub struct Study<M = Method> {
    /// What all methods share.
    pub head: Head,
    /// What is promised of what leaves.
    pub guarantee: Guarantee,
    /// What is computed, among whom.
    pub method: M,
    /// Of the file; kept as digests, because nothing else of it may be read again.
    keys: Vec<(String, Digest)>,
}

/// What all methods share.
#[derive(Debug, Clone, PartialEq)]
pub struct Head {
    /// The study's name.
    pub id: String,
    /// Who convenes.
    pub coordinator: CoordinatorTerms,
    /// What is known of columns beforehand.
    pub columns: BTreeMap<String, ColumnTerms>,
    /// How rows are matched.
    pub rows: RowTerms,
}

/// What is promised of what leaves.
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

/// Which method a study runs, with its parameters.
#[derive(Debug, Clone, PartialEq)]
pub enum Method {
    /// Two parties hold different columns of the same rows.
    Vertical(Vertical),
    /// Many sites hold the same columns of different rows.
    Sites(Sites),
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
fn value(key: &str, problem: impl Into<String>) -> StudyError {
    StudyError::Value { key: key.to_string(), problem: problem.into() }
}

impl Study {
    /// Parses and checks a study file.
    ///
    /// # Errors
    /// Unknown keys, with the nearest known one, and values that cannot be used.
    pub fn parse(text: &str) -> Result<Study, StudyError> {
        let file: StudyFile = toml::from_str(text).map_err(|error| StudyError::Parse(explain(&error)))?;
        Study::try_from(file)
    }

    /// Its method by name.
    pub fn protocol(&self) -> Protocol {
        match &self.method {
            Method::Vertical(_) => Protocol::Vertical,
            Method::Sites(sites) => sites.protocol(),
        }
    }

    /// As a study of two parties, or else as one between sites.
    ///
    /// # Errors
    /// Not a failure: the study is between sites.
    // A process splits one study: its size costs nothing.
    #[allow(clippy::result_large_err)]
    pub fn split(self) -> Result<Study<Vertical>, Study<Sites>> {
        let Study { head, guarantee, method, keys } = self;
        match method {
            Method::Vertical(method) => Ok(Study { head, guarantee, method, keys }),
            Method::Sites(method) => Err(Study { head, guarantee, method, keys }),
        }
    }

    /// The study of two parties, if it is one.
    pub fn vertical(self) -> Option<Study<Vertical>> {
        self.split().ok()
    }

    /// The study between sites, if it is one.
    pub fn sites(self) -> Option<Study<Sites>> {
        self.split().err()
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
}

impl TryFrom<StudyFile> for Study {
    type Error = StudyError;

    fn try_from(mut file: StudyFile) -> Result<Study, StudyError> {
        file.complete();
        let head = Head::parse(&file)?;
        let keys = file.key_digests();
        match file.protocol {
            Protocol::Vertical => {
                let study = Study::<Vertical>::parse_file(file, head, keys)?;
                let names = study.method.parties.values().map(|terms| terms.certificate.as_str());
                certificates("parties", "alice, bob and the coordinator", names, &study.head)?;
                Ok(study.with(Method::Vertical))
            }
            Protocol::Robust | Protocol::Em | Protocol::Features | Protocol::Stream => {
                let study = Study::<Sites>::parse_file(file, head, keys)?;
                let names = study.method.workers.values().map(|terms| terms.certificate.as_str());
                certificates("workers", "every worker and the coordinator", names, &study.head)?;
                Ok(study.with(Method::Sites))
            }
        }
    }
}

impl<M> Study<M> {
    fn with<N>(self, wrap: impl FnOnce(M) -> N) -> Study<N> {
        Study { head: self.head, guarantee: self.guarantee, method: wrap(self.method), keys: self.keys }
    }

    /// The guarantee by name.
    pub fn mode(&self) -> Mode {
        self.guarantee.mode()
    }

    /// The terms of a private run, if it is one.
    pub fn private(&self) -> Option<&PrivateTerms> {
        match &self.guarantee {
            Guarantee::Plain => None,
            Guarantee::Private(terms) => Some(terms),
        }
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
    fn parse(file: &StudyFile) -> Result<Head, StudyError> {
        let wrong = |key: &str, problem: &str| Err(value(key, problem));
        if file.id.is_empty() || file.id.len() > 200 || file.id.chars().any(char::is_control) {
            return wrong("id", "must have 1 to 200 printable characters");
        }
        for (name, terms) in &file.columns {
            terms.check(name)?;
        }
        Ok(Head {
            id: file.id.clone(),
            coordinator: file.coordinator.clone(),
            columns: file.columns.clone(),
            rows: file.rows.clone(),
        })
    }

    /// The public range of an outcome.
    pub(crate) fn bounds_of_outcome(&self, column: &str) -> Result<OutcomeBounds, BoundsError> {
        match self.columns.get(column).and_then(|stated| stated.range) {
            Some([low, high]) => OutcomeBounds::new(low, high),
            None => Err(BoundsError::OutcomeRange { column: column.to_owned() }),
        }
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

/// Refuses certificates without a name, and two with the same.
fn certificates<'a>(
    key: &str,
    all: &str,
    names: impl Iterator<Item = &'a str>,
    head: &'a Head,
) -> Result<(), StudyError> {
    let mut names: Vec<&str> = names.chain([head.coordinator.certificate.as_str()]).collect();
    if names.iter().any(|name| name.is_empty()) {
        return Err(value(key, "must give each party the name in its certificate"));
    }
    names.sort_unstable();
    match names.windows(2).any(|pair| pair[0] == pair[1]) {
        true => Err(value(key, format!("must have different certificate names for {all}"))),
        false => Ok(()),
    }
}

impl Guarantee {
    /// Of the file; `needed` are the words for a private study without terms.
    fn parse(file: &StudyFile, needed: &str) -> Result<Guarantee, StudyError> {
        match (file.mode, &file.privacy) {
            (Mode::Plain, None) => Ok(Guarantee::Plain),
            (Mode::Plain, Some(_)) => {
                Err(value("privacy", "is given, but `mode` is \"plain\": set mode = \"private\""))
            }
            (Mode::Private, None) => Err(value("privacy", format!("is missing: a private run needs {needed}"))),
            (Mode::Private, Some(terms)) => PrivateTerms::parse(terms).map(Guarantee::Private),
        }
    }

    /// Its name.
    pub fn mode(&self) -> Mode {
        match self {
            Guarantee::Plain => Mode::Plain,
            Guarantee::Private(_) => Mode::Private,
        }
    }
}

impl PrivateTerms {
    fn parse(terms: &PrivacyTerms) -> Result<PrivateTerms, StudyError> {
        privacy::check_budget(terms)?;
        let budget = terms.budget(1).map_err(|error| value("privacy", format!("cannot be used: {error}")))?;
        Ok(PrivateTerms { stated: terms.clone(), budget })
    }

    /// Epsilon and delta of one run over so many rows, which two parties count together.
    ///
    /// # Errors
    /// A delta above one over the number of rows.
    pub fn of_rows(&self, rows: u64) -> Result<Budget, BudgetError> {
        self.stated.budget(rows)
    }

    /// The same with another epsilon.
    fn at(&self, epsilon: f64) -> Option<PrivateTerms> {
        let stated = PrivacyTerms { epsilon, ..self.stated.clone() };
        let budget = stated.budget(1).ok()?;
        Some(PrivateTerms { stated, budget })
    }
}

impl PrivacyTerms {
    /// Epsilon and delta of one run over so many rows.
    ///
    /// # Errors
    /// A budget that promises nothing.
    pub fn budget(&self, rows: u64) -> Result<Budget, BudgetError> {
        let delta = self.delta.unwrap_or_else(|| Budget::default_delta(rows));
        Budget::new(self.epsilon, delta, self.accountant, rows, self.large_epsilon.is_some())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::id::Role;
    use crate::privacy::release::Declaration;

    pub(crate) fn vertical(text: &str) -> Study<Vertical> {
        Study::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}")).vertical().unwrap()
    }

    pub(crate) fn sites(text: &str) -> Study<Sites> {
        Study::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}")).sites().unwrap()
    }

    /// The same file with all its defaults.
    pub(crate) fn written(text: &str) -> String {
        let mut file: StudyFile = toml::from_str(text).unwrap();
        file.complete();
        toml::to_string_pretty(&file).unwrap()
    }

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
        let study = vertical(MINIMAL).method;
        assert_eq!(study.fit.tol, 1e-8);
        assert_eq!(study.fit.round_limit(), 1_000);
        assert!(study.inference.allowed && study.intercept);
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
        let study = vertical(&text);
        assert!(!study.disclosures(Role::Alice).allows(Declaration::Outcome));
        let study = vertical(&format!("{text}\n[model]\nfamily = \"binomial\""));
        assert!(study.disclosures(Role::Alice).allows(Declaration::Outcome));
        assert!(!study.disclosures(Role::Bob).allows(Declaration::Outcome));
    }
}
