//! The private mode of a vertical study: what the file must say, what it must not, and the plan that follows.
//!
//! Everything here is public. The number of rows comes from the parties when they have compared them.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use super::file::{Acceleration, ColumnTerms, FitTerms, HeldBy, Missing, Mode};
use super::{Study, StudyError, Vertical, value};
use crate::glm::Family;
use crate::id::Role;
use crate::methods::vertical::plan::{Coefficients, Design, MEAN_SQUARE, Outlook, Plan, PlanError, Setup, Shares};
use crate::privacy::accountant::{Accountant, Budget, BudgetError, LARGEST_EPSILON};
use crate::privacy::bounds::{BoundsError, ColumnBounds, OutcomeBounds, RowBounds};

/// What a private run may cost, and how it is made. All of it is fixed before any data are touched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrivacyTerms {
    /// How values are made private.
    #[serde(default)]
    pub mechanism: Mechanism,
    /// What one run costs each party's data set, at most.
    pub epsilon: f64,
    /// The delta that goes with it; the smaller of 1e-6 and 1/(10 n) if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta: Option<f64>,
    /// How sums of squared ratios are read as (epsilon, delta).
    #[serde(default)]
    pub accountant: Accountant,
    /// Exchanges of one message each way: fixed, because no one may look whether more are needed.
    #[serde(default = "one_round")]
    pub rounds: u32,
    /// Cut of a partial prediction, in units of half the outcome's range.
    #[serde(default = "default_clip")]
    pub clip: f64,
    /// Ridge penalty on coefficients of unit rows: added to the diagonal of the noised `X'X`, or more where its noise needs more.
    #[serde(default)]
    pub ridge: f64,
    /// What `plan` reckons with.
    #[serde(default)]
    pub design: DesignTerms,
    /// Why an epsilon above 10 is meant; without it such an epsilon is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub large_epsilon: Option<String>,
}

/// How values are made private.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mechanism {
    /// Noised partial predictions to and fro, between noised statistics that stay at home.
    #[default]
    Residual,
}

/// The design that errors are predicted for: an assumption, declared before anything is spent.
///
/// What it does not state is predicted for a neutral value, and every plan and report says for which.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DesignTerms {
    /// The correlation between any two columns: vertical and robust studies. Without one, several are shown in the first and none is
    /// assumed in the second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation: Option<f64>,
    /// Mean square of a row without its intercept, as a share of the square of its norm bound; 4/9 if absent. Vertical studies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_square: Option<f64>,
    /// The coefficients, or their size with signs at random; sizes that follow from `signal` if absent. Vertical studies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coefficients: Option<CoefficientGuess>,
    /// Standard deviation of the residuals of uncorrupted rows, in half ranges of the outcome; .2 if absent. Robust regression, random
    /// features and streams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub residual: Option<f64>,
    /// Standard deviation of what is to be found, in half ranges of the outcome; .3 if absent. Of two parties that of what each one's
    /// columns would add if all were uncorrelated. In models with something hidden the length
    /// of the coefficients, half of the longest if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<f64>,
    /// Share of the rows that are corrupted; none if absent. Robust regression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corrupted: Option<f64>,
}

impl DesignTerms {
    /// Refuses what a method does not reckon with, which takes the keys `taken`, and numbers without meaning.
    pub(super) fn check(&self, taken: &[&str], protocol: &str) -> Result<(), StudyError> {
        let wrong = |key: &str, problem: String| Err(value(&format!("privacy.design.{key}"), problem));
        for (key, set) in [
            ("correlation", self.correlation.is_some()),
            ("mean_square", self.mean_square.is_some()),
            ("coefficients", self.coefficients.is_some()),
            ("residual", self.residual.is_some()),
            ("signal", self.signal.is_some()),
            ("corrupted", self.corrupted.is_some()),
        ] {
            if set && !taken.contains(&key) {
                return wrong(key, format!("has no place in a study of protocol `{protocol}`"));
            }
        }
        if self.correlation.is_some_and(|correlation| !(0.0..1.0).contains(&correlation)) {
            return wrong("correlation", "must be at least 0 and below 1".to_owned());
        }
        if self.mean_square.is_some_and(|square| !(square > 0.0 && square <= 1.0)) {
            return wrong("mean_square", "must lie above 0 and be at most 1, the square of the norm bound".to_owned());
        }
        if self.signal.is_some() && self.coefficients.is_some() {
            return wrong("signal", "has no place beside `coefficients`, from which it follows".to_owned());
        }
        for (key, number) in [("residual", self.residual), ("signal", self.signal)] {
            if let Some(number) = number.filter(|number| !(*number > 0.0 && *number <= 1e6)) {
                return wrong(key, format!("must be positive and at most 1e6, got {number}"));
            }
        }
        match self.corrupted.filter(|share| !(0.0..0.5).contains(share)) {
            Some(share) => wrong("corrupted", format!("must be at least 0 and below .5, got {share}")),
            None => Ok(()),
        }
    }
}

/// Assumed coefficients, in half ranges of the outcome per public scale of a column (half its range).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "coefficients must be one number, or a table with a number for each term")]
pub enum CoefficientGuess {
    /// All of this size, with signs at random.
    Size(f64),
    /// One for each term of both parties.
    Each(BTreeMap<String, f64>),
}

/// Why a study cannot be run in private mode with so many rows.
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
}

fn one_round() -> u32 {
    1
}

fn default_clip() -> f64 {
    0.3
}

/// Most rounds: more only divide the noise's budget further.
const MOST_ROUNDS: u32 = 1_000;

/// Keys of the design that errors between two parties are predicted for.
const DESIGN: [&str; 4] = ["correlation", "mean_square", "coefficients", "signal"];

/// What a private run between two parties cannot keep.
pub(super) fn check(study: &Study<Vertical>, terms: &PrivacyTerms) -> Result<(), StudyError> {
    let wrong = |key: &str, problem: String| Err(value(key, problem));
    let refused = |key: &str, why: &str| wrong(key, format!("cannot be used in private mode: {why}"));
    let method = &study.method;
    if !(1..=MOST_ROUNDS).contains(&terms.rounds) {
        return wrong("privacy.rounds", format!("must be from 1 to {MOST_ROUNDS}, got {}", terms.rounds));
    }
    if !(terms.clip > 0.0 && terms.clip.is_finite()) {
        return wrong("privacy.clip", format!("must be a positive number, got {}", terms.clip));
    }
    if !(terms.ridge >= 0.0 && terms.ridge.is_finite()) {
        return wrong("privacy.ridge", format!("must be zero or above, got {}", terms.ridge));
    }
    terms.design.check(&DESIGN, study.protocol().name())?;
    if method.family != Family::Gaussian {
        let family = method.family;
        return wrong(
            "model.family",
            format!("is {family}: private mode is for gaussian only, as no sensitivity is proved for other families"),
        );
    }
    if !method.intercept {
        return refused("model.intercept", "columns are centred by their public ranges, which leaves an intercept");
    }
    if method.outcome.held_by != HeldBy::Both {
        return refused(
            "outcome.held_by",
            "the mechanism `residual` needs the outcome at both parties; it is not protected from either",
        );
    }
    if method.offset.is_some() {
        return refused("offset", "its values have no public bounds");
    }
    if method.weights.is_some() {
        return refused("weights", "one person's weight would scale the sensitivity of that person's row");
    }
    if study.head.rows.missing == Missing::CompleteCases {
        return refused(
            "rows.missing",
            "`complete-cases` sends which rows are incomplete without noise; an incomplete row counts as a row of zeros",
        );
    }
    if let Some(penalty) = &method.penalty {
        if penalty.cv.is_some() {
            return refused("penalty.cv", "errors of folds are computed on rows without noise");
        }
        return refused("penalty", "a penalty found in the data or on their scale is a release; use `privacy.ridge`");
    }
    let FitTerms { acceleration, tol, max_rounds, .. } = &method.fit;
    if *acceleration != Acceleration::default() {
        return refused("fit.acceleration", "it compares objectives without noise; rounds are `privacy.rounds`");
    }
    if *tol != FitTerms::default().tol {
        return refused("fit.tol", "a stopping rule looks at values without noise; rounds are `privacy.rounds`");
    }
    if max_rounds.is_some() {
        return refused("fit.max_rounds", "the number of rounds is fixed: `privacy.rounds`");
    }
    for (role, party) in &method.parties {
        if party.formula.is_some() {
            return refused(
                &format!("parties.{role}.formula"),
                "bounds of its terms are not derived in this version; list `columns`",
            );
        }
        if party.columns.contains(&method.outcome.column) {
            return wrong(&format!("parties.{role}.columns"), "names the outcome".to_owned());
        }
        if let Err(error) = study.row_bounds(*role) {
            return wrong("columns", bounds_sentence(&error));
        }
    }
    if let Err(error) = study.outcome_bounds() {
        return wrong("columns", bounds_sentence(&error));
    }
    check_guess(study, terms)
}

/// Declared coefficients: of every term, of no other, and not all zero.
fn check_guess(study: &Study<Vertical>, terms: &PrivacyTerms) -> Result<(), StudyError> {
    let wrong = |problem: String| Err(value("privacy.design.coefficients", problem));
    match &terms.design.coefficients {
        None => Ok(()),
        Some(CoefficientGuess::Size(size)) if *size > 0.0 && size.is_finite() => Ok(()),
        Some(CoefficientGuess::Size(size)) => {
            wrong(format!("must be a positive number, or one for each term, got {size}"))
        }
        Some(CoefficientGuess::Each(values)) => {
            let mut names = Vec::new();
            for role in [Role::Alice, Role::Bob] {
                let bounds = study.row_bounds(role);
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

/// Epsilon and delta by themselves.
pub(super) fn check_budget(terms: &PrivacyTerms) -> Result<(), StudyError> {
    let wrong = |key: &str, problem: String| Err(value(key, problem));
    if !(terms.epsilon > 0.0 && terms.epsilon.is_finite()) {
        return wrong("privacy.epsilon", format!("must be a positive number, got {}", terms.epsilon));
    }
    if terms.epsilon > LARGEST_EPSILON && terms.large_epsilon.as_deref().is_none_or(|why| why.trim().is_empty()) {
        let epsilon = terms.epsilon;
        return wrong(
            "privacy.epsilon",
            format!("is {epsilon}, above {LARGEST_EPSILON}: say in `privacy.large_epsilon` why that is meant"),
        );
    }
    match terms.delta {
        Some(delta) if !(delta > 0.0 && delta < 1.0) => {
            wrong("privacy.delta", format!("must lie between 0 and 1/n, got {delta}"))
        }
        _ => Ok(()),
    }
}

/// A stated row norm by itself.
pub(super) fn check_row_norm(key: &str, mode: Mode, norm: f64) -> Result<(), StudyError> {
    let wrong = |problem: String| Err(value(key, problem));
    match mode {
        Mode::Plain => wrong("has no place in a plain study: rows are cut in private mode only".to_owned()),
        Mode::Private if norm > 0.0 && norm.is_finite() => Ok(()),
        Mode::Private => wrong(format!("must be a positive finite number, got {norm}")),
    }
}

pub(super) fn bounds_sentence(error: &BoundsError) -> String {
    match error {
        BoundsError::Missing { column } => format!(
            "lacks public bounds of `{column}`: give [columns.{column}] a `range` of numbers, `levels`, or a `centre` with a `scale`, \
             from outside the data"
        ),
        BoundsError::OutcomeRange { column } => {
            format!("lacks a public range of the outcome: give [columns.{column}] a `range`, from outside the data")
        }
        other @ (BoundsError::Empty
        | BoundsError::DataDerived { .. }
        | BoundsError::Range { .. }
        | BoundsError::Scale { .. }
        | BoundsError::Radius { .. }
        | BoundsError::Intercept { .. }) => format!("cannot be used: {other}"),
    }
}

/// Two numbers; a word such as `"data"` is refused with the reason.
pub(super) fn range<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<[f64; 2]>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Stated {
        Range([f64; 2]),
        Word(String),
    }
    use serde::de::Error;
    match Option::<Stated>::deserialize(deserializer) {
        Ok(None) => Ok(None),
        Ok(Some(Stated::Range(range))) => Ok(Some(range)),
        Ok(Some(Stated::Word(word))) => Err(D::Error::custom(format!(
            "range = {word:?}: a range taken from the data is a release of the data; give two numbers from outside"
        ))),
        Err(_) => Err(D::Error::custom("range must be two numbers, as in range = [18, 64]")),
    }
}

/// A public centre; a word is refused with the reason.
pub(super) fn centre<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    public_number(deserializer, "centre")
}

/// A public scale; a word is refused with the reason.
pub(super) fn scale<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    public_number(deserializer, "scale")
}

/// A number; a word such as `"data"` is refused with the reason.
pub(super) fn public_number<'de, D: Deserializer<'de>>(deserializer: D, key: &str) -> Result<Option<f64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Stated {
        Number(f64),
        Word(String),
    }
    use serde::de::Error;
    match Option::<Stated>::deserialize(deserializer) {
        Ok(None) => Ok(None),
        Ok(Some(Stated::Number(number))) => Ok(Some(number)),
        Ok(Some(Stated::Word(word))) => Err(D::Error::custom(format!(
            "{key} = {word:?}: a number taken from the data is a release of the data; give one from outside"
        ))),
        Err(_) => Err(D::Error::custom(format!("{key} must be a number"))),
    }
}

impl ColumnTerms {
    /// The terms of a column with their public bounds: a number is one, k levels are k - 1.
    pub(super) fn bounded(&self, column: &str) -> Result<Vec<(String, ColumnBounds)>, BoundsError> {
        if let (Some(centre), Some(scale)) = (self.centre, self.scale) {
            return Ok(vec![(column.to_owned(), ColumnBounds::Centred { centre, scale })]);
        }
        match (self.range, &self.levels[..]) {
            (Some([low, high]), []) => Ok(vec![(column.to_owned(), RowBounds::range(column, Ok(&[low, high]))?)]),
            (None, [_, others @ ..]) if !others.is_empty() => Ok(others
                .iter()
                .map(|level| {
                    let level = if self.is_boolean() { "TRUE" } else { level.as_str() };
                    (format!("{column}{level}"), ColumnBounds::Indicator)
                })
                .collect()),
            _ => Err(BoundsError::Missing { column: column.to_owned() }),
        }
    }
}

impl Study<Vertical> {
    /// The public bounds of a party's rows; the names in them are those of its terms.
    ///
    /// # Errors
    /// Names the first column without bounds, or with bounds that cannot be used.
    pub fn row_bounds(&self, role: Role) -> Result<RowBounds, BoundsError> {
        let mut terms = Vec::new();
        let party = self.method.parties.get(&role);
        for column in party.map_or(&[][..], |party| &party.columns) {
            match self.head.columns.get(column) {
                Some(stated) => terms.extend(stated.bounded(column)?),
                None => return Err(BoundsError::Missing { column: column.clone() }),
            }
        }
        // The intercept has as much of a unit row as every other entry.
        let share = (1.0 / (terms.len() + 1) as f64).sqrt();
        let intercept = (role == Role::Alice).then_some(share);
        RowBounds::new(terms, party.and_then(|party| party.row_norm), intercept)
    }

    /// The public range of the outcome.
    ///
    /// # Errors
    /// It is missing or cannot be used.
    pub fn outcome_bounds(&self) -> Result<OutcomeBounds, BoundsError> {
        self.head.bounds_of_outcome(&self.method.outcome.column)
    }

    /// Epsilon and delta of one run over so many rows.
    ///
    /// # Errors
    /// No private mode, and a delta above one over the number of rows.
    pub fn run_budget(&self, rows: u64) -> Result<Budget, PrivacyError> {
        Ok(self.private().ok_or(PrivacyError::Absent)?.of_rows(rows)?)
    }

    /// Every release of both parties, from the study and the number of rows alone.
    ///
    /// # Errors
    /// No private mode, bounds or a budget that cannot be used.
    pub fn private_plan(&self, rows: u64) -> Result<Plan, PrivacyError> {
        let terms = &self.private().ok_or(PrivacyError::Absent)?.stated;
        let budget = self.run_budget(rows)?.cap();
        let setup = Setup {
            rows: usize::try_from(rows).unwrap_or(usize::MAX),
            alice_width: self.row_bounds(Role::Alice)?.width(),
            bob_width: self.row_bounds(Role::Bob)?.width(),
            rounds: terms.rounds,
            message_bound: terms.clip,
            ridge: terms.ridge,
            shares: Shares::default(),
            alice_budget: budget,
            bob_budget: budget,
        };
        Ok(Plan::new(setup)?)
    }

    /// What to expect of a run by this plan, from public facts and the declared design.
    ///
    /// # Errors
    /// No private mode, and bounds that cannot be used.
    pub fn outlook(&self, plan: &Plan) -> Result<Outlook, PrivacyError> {
        let design = &self.private().ok_or(PrivacyError::Absent)?.stated.design;
        let (alice, bob) = (self.row_bounds(Role::Alice)?, self.row_bounds(Role::Bob)?);
        let coefficients = design.guessed([&alice, &bob]);
        Ok(Outlook::new(plan, [&alice, &bob], design.correlation, design.mean_square, coefficients.as_ref()))
    }

    /// The expected distance of the slopes from the pooled ones, relative to their length, at this correlation between columns.
    ///
    /// # Errors
    /// As [`Study::outlook`].
    pub(super) fn foretold_error(&self, plan: &Plan, correlation: f64) -> Result<f64, PrivacyError> {
        let design = &self.private().ok_or(PrivacyError::Absent)?.stated.design;
        let (alice, bob) = (self.row_bounds(Role::Alice)?, self.row_bounds(Role::Bob)?);
        let coefficients = design.guessed([&alice, &bob]).unwrap_or_default();
        let square = design.mean_square.unwrap_or(MEAN_SQUARE);
        Ok(plan.predict(&Design::new([&alice, &bob], correlation, square, &coefficients)).relative_error)
    }
}

impl DesignTerms {
    /// The declared coefficients or their size, of rows with these bounds.
    fn guessed(&self, bounds: [&RowBounds; 2]) -> Option<Coefficients> {
        match &self.coefficients {
            None => self.signal.map(Coefficients::Signal),
            Some(CoefficientGuess::Size(size)) => Some(Coefficients::Size(*size)),
            Some(CoefficientGuess::Each(values)) => {
                let names = bounds.into_iter().flat_map(RowBounds::names);
                Some(Coefficients::Each(names.map(|name| values.get(name).copied().unwrap_or(0.0)).collect()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::tests::{vertical, written};

    pub(crate) const PRIVATE: &str = r#"
        id = "private"
        mode = "private"
        [privacy]
        epsilon = 1.0
        delta = 1e-5
        [outcome]
        column = "y"
        [parties.alice]
        certificate = "alice"
        columns = ["age", "smoker"]
        [parties.bob]
        certificate = "bob"
        columns = ["region"]
        [columns.age]
        range = [18, 90]
        [columns.smoker]
        levels = ["false", "true"]
        [columns.region]
        levels = ["north", "south", "west"]
        [columns.y]
        range = [0.0, 100.0]
    "#;

    fn complaint(text: &str) -> String {
        Study::parse(text).unwrap_err().to_string()
    }

    fn with(more: &str) -> String {
        format!("{PRIVATE}\n{more}")
    }

    #[test]
    fn bounds_terms_and_plan_follow_from_the_study_and_the_number_of_rows() {
        let study = vertical(PRIVATE);
        assert_eq!(study.row_bounds(Role::Alice).unwrap().names(), ["age", "smokerTRUE"]);
        assert_eq!(study.row_bounds(Role::Bob).unwrap().names(), ["regionsouth", "regionwest"]);
        let plan = study.private_plan(1_000).unwrap();
        assert_eq!((plan.setup().alice_width, plan.setup().bob_width), (3, 2));
        let cap = study.run_budget(1_000).unwrap().cap();
        for side in [crate::methods::vertical::plan::Side::Alice, crate::methods::vertical::plan::Side::Bob] {
            assert!(plan.side(side).releases.charge() <= cap);
        }
        assert_eq!(study.disclosures(Role::Alice).declared(), []);
    }

    #[test]
    fn bounds_that_are_missing_infinite_empty_or_from_the_data_are_refused() {
        let replaced = |range: &str| complaint(&PRIVATE.replace("range = [18, 90]", range));
        assert!(replaced("").contains("lacks public bounds of `age`"), "{}", replaced(""));
        assert!(replaced("range = [18, inf]").contains("two finite numbers"), "{}", replaced("range = [18, inf]"));
        assert!(replaced("range = [18, 18]").contains("ascending"));
        assert!(replaced("range = \"data\"").contains("taken from the data"), "{}", replaced("range = \"data\""));
        assert!(replaced("range = [18]").contains("two numbers"));
        assert!(complaint(&PRIVATE.replace("range = [0.0, 100.0]", "")).contains("give [columns.y] a `range`"));
        assert!(complaint(&PRIVATE.replace("\"north\", \"south\", \"west\"", "\"north\"")).contains("`region`"));
    }

    #[test]
    fn a_centre_with_a_scale_and_a_row_norm_are_bounds_and_part_of_what_is_agreed() {
        let age = |bounds: &str| PRIVATE.replace("range = [18, 90]", bounds);
        let centred = vertical(&age("centre = 50\nscale = 12.5"));
        let bounds = centred.row_bounds(Role::Alice).unwrap();
        assert_eq!(bounds.radius(), 2f64.sqrt());
        let normed = |norm: &str| {
            PRIVATE.replace("columns = [\"region\"]", &format!("columns = [\"region\"]\nrow_norm = {norm}"))
        };
        let cut = vertical(&normed("1.25"));
        assert_eq!(cut.row_bounds(Role::Bob).unwrap().radius(), 1.25);
        assert_eq!(cut.row_bounds(Role::Alice), vertical(PRIVATE).row_bounds(Role::Alice));
        // Rows of these bounds, by hand: (62.5 - 50) / 12.5 = 1, divided by the norm 2^1/2, times what the intercept leaves.
        let values = nalgebra::DMatrix::from_row_slice(1, 2, &[62.5, 0.0]);
        let entry = crate::privacy::bounds::ClippedRows::new(&bounds, &values)
            .products(&nalgebra::DVector::from_column_slice(&[0.0, 1.0, 0.0]), 0)[0];
        assert!((entry - (1.0f64 / 2.0 * 2.0 / 3.0).sqrt()).abs() < 2.0 / 32768.0, "{entry}");
        let digests = [
            PRIVATE,
            &age("centre = 50\nscale = 12.5"),
            &age("centre = 50\nscale = 12"),
            &normed("1.25"),
            &normed("2"),
        ]
        .map(|text| Study::parse(text).unwrap().digest());
        for (at, digest) in digests.iter().enumerate() {
            assert!(!digests[..at].contains(digest), "{at}");
        }
        assert_eq!(vertical(&written(&normed("1.25"))), cut);
    }

    #[test]
    fn centres_scales_and_row_norms_without_meaning_are_refused_by_key() {
        let age = |bounds: &str| complaint(&PRIVATE.replace("range = [18, 90]", bounds));
        for (bounds, says) in [
            ("centre = 50", "`columns.age` needs both `centre` and `scale`"),
            ("scale = 12", "`columns.age` needs both `centre` and `scale`"),
            ("centre = 50\nscale = 0", "`columns.age.scale` must be a positive"),
            ("centre = 50\nscale = -1", "`columns.age.scale` must be a positive"),
            ("centre = 50\nscale = inf", "`columns.age.scale` must be a positive"),
            ("centre = nan\nscale = 1", "`columns.age.centre` must be a finite"),
            ("centre = \"mean\"\nscale = 1", "taken from the data"),
            ("centre = 50\nscale = \"sd\"", "taken from the data"),
            ("centre = [50]\nscale = 1", "centre must be a number"),
            ("range = [18, 90]\ncentre = 50\nscale = 12", "`columns.age` must state one of"),
            ("range = [18, 90]\nlevels = [\"a\", \"b\"]", "`columns.age` must state one of"),
        ] {
            assert!(age(bounds).contains(says), "{bounds}: {}", age(bounds));
        }
        let outcome = complaint(&PRIVATE.replace("range = [0.0, 100.0]", "centre = 50\nscale = 10"));
        assert!(outcome.contains("give [columns.y] a `range`"), "{outcome}");
        for norm in ["0", "-1.0", "inf", "nan"] {
            let text = PRIVATE.replace("[parties.bob]", &format!("[parties.bob]\nrow_norm = {norm}"));
            assert!(complaint(&text).contains("`parties.bob.row_norm` must be a positive"), "{}", complaint(&text));
        }
        let plain = PRIVATE
            .replace("mode = \"private\"", "")
            .replace("[privacy]\n        epsilon = 1.0\n        delta = 1e-5", "")
            .replace("[parties.bob]", "[parties.bob]\nrow_norm = 1.0");
        assert!(complaint(&plain).contains("`parties.bob.row_norm` has no place"), "{}", complaint(&plain));
    }

    #[test]
    fn a_declared_design_is_what_a_prediction_rests_on_and_all_of_it_is_said() {
        let outlook = |design: &str| {
            let study = vertical(&with(design));
            study.outlook(&study.private_plan(5_000).unwrap()).unwrap()
        };
        let neutral = outlook("");
        assert_eq!((neutral.cases.len(), neutral.assumed.correlation, neutral.assumed.random_signs), (3, None, true));
        assert!(!neutral.assumed.words.iter().any(|words| words.contains("(declared)")), "{:?}", neutral.assumed.words);
        let declared = outlook(
            "[privacy.design]\ncorrelation = 0.2\nmean_square = 0.3\ncoefficients = { age = 0.5, smokerTRUE = -0.25, regionsouth = 0.125, \
             regionwest = 1 }",
        );
        let said = declared.assumed.words.join("; ");
        for part in [
            "correlation 0.2 (declared)",
            "0.300",
            "age 0.5, smokerTRUE -0.25, regionsouth 0.125, regionwest 1 (declared)",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert_eq!((declared.cases.len(), declared.assumed.random_signs), (1, false));
        // Twice the coefficients: the same relative distance if nothing is exchanged, half the noise relative to them but for the cut.
        let size = |size: &str| outlook(&format!("[privacy.design]\ncorrelation = 0.2\ncoefficients = {size}"));
        let (one, two) = (size("0.1"), size("0.2"));
        assert!((one.relative_error_alone / two.relative_error_alone - 1.0).abs() < 1e-9);
        assert!(
            (one.relative_error / two.relative_error / 2.0 - 1.0).abs() < 0.1,
            "{} {}",
            one.relative_error,
            two.relative_error
        );
        assert!(outlook("[privacy.design]\nsignal = 0.3").assumed.words[2].contains("(declared)"));
    }

    #[test]
    fn designs_without_meaning_are_refused_by_key() {
        for (design, says) in [
            ("correlation = 1.0", "`privacy.design.correlation` must be at least 0"),
            ("correlation = nan", "`privacy.design.correlation` must be at least 0"),
            ("mean_square = 0.0", "`privacy.design.mean_square` must lie"),
            ("mean_square = 1.5", "`privacy.design.mean_square` must lie"),
            ("coefficients = 0.0", "`privacy.design.coefficients` must be a positive"),
            ("coefficients = inf", "`privacy.design.coefficients` must be a positive"),
            ("coefficients = \"ols\"", "one number, or a table"),
            ("coefficients = { age = 1.0 }", "lack `smokerTRUE`"),
            (
                "coefficients = { age = 1, smokerTRUE = 1, regionsouth = 1, regionwest = 1, regon = 1 }",
                "name `regon`, which is no term",
            ),
            ("coefficients = { age = 0, smokerTRUE = 0, regionsouth = 0, regionwest = 0 }", "not all of them 0"),
            ("coefficients = { age = nan, smokerTRUE = 0, regionsouth = 0, regionwest = 0 }", "must be finite"),
            ("coefficients = 0.5\nsignal = 0.2", "`privacy.design.signal` has no place beside"),
            ("residual = 0.2", "`privacy.design.residual` has no place"),
        ] {
            let complaint = complaint(&with(&format!("[privacy.design]\n{design}")));
            assert!(complaint.contains(says), "{design}: {complaint}");
        }
    }

    #[test]
    fn budgets_that_promise_nothing_are_refused() {
        let replaced = |epsilon: &str| complaint(&PRIVATE.replace("epsilon = 1.0", epsilon));
        assert!(replaced("epsilon = 0.0").contains("positive"));
        assert!(replaced("epsilon = -1.0").contains("positive"));
        assert!(replaced("epsilon = nan").contains("positive"));
        assert!(replaced("epsilon = 11.0").contains("large_epsilon"));
        assert!(
            Study::parse(&PRIVATE.replace("epsilon = 1.0", "epsilon = 11.0\nlarge_epsilon = \"a rehearsal\"")).is_ok()
        );
        assert!(complaint(&PRIVATE.replace("delta = 1e-5", "delta = 0.0")).contains("privacy.delta"));
        let study = vertical(&PRIVATE.replace("delta = 1e-5", "delta = 0.01"));
        let error = study.private_plan(1_000).unwrap_err();
        assert!(error.to_string().contains("1/n"), "{error}");
        assert!(study.private_plan(100).is_ok());
    }

    #[test]
    fn everything_that_needs_values_without_noise_is_refused_with_the_reason() {
        for (more, reason) in [
            ("[fit]\ntol = 1e-6", "stopping rule"),
            ("[fit]\nacceleration = \"none\"", "without noise"),
            ("[fit]\nmax_rounds = 5", "privacy.rounds"),
            ("[penalty]\nlambda = 0.1", "privacy.ridge"),
            ("[penalty]\nlambda = \"path\"", "privacy.ridge"),
            ("[penalty]\nlambda = 0.1\ncv = 5", "folds"),
            ("[rows]\nmissing = \"complete-cases\"", "which rows are incomplete"),
            ("[offset]\ncolumn = \"o\"", "no public bounds"),
            ("[weights]\ncolumn = \"w\"", "sensitivity"),
            ("[model]\nfamily = \"binomial\"", "no sensitivity is proved"),
            ("[model]\nintercept = false", "leaves an intercept"),
            ("[model]\nfamily = \"poisson\"", "no sensitivity is proved"),
        ] {
            let complaint = complaint(&with(more));
            assert!(complaint.contains(reason), "{more}: {complaint}");
        }
        let hidden = PRIVATE.replace("column = \"y\"", "column = \"y\"\nheld_by = \"alice\"");
        assert!(complaint(&hidden).contains("not protected"));
        let formula = PRIVATE.replace("columns = [\"region\"]", "formula = \"~ region\"");
        assert!(complaint(&formula).contains("list `columns`"));
        assert!(complaint(&PRIVATE.replace("mode = \"private\"", "")).contains("set mode"));
    }

    #[test]
    fn a_plain_study_has_the_digest_that_it_had_before_there_was_a_private_mode() {
        let plain = "id = \"s\"\n[outcome]\ncolumn = \"y\"\n[parties.alice]\ncertificate = \"a\"\ncolumns = \
                     [\"u\"]\n[parties.bob]\ncertificate = \"b\"\ncolumns = [\"v\"]\n";
        let keys = Study::parse(plain).unwrap().key_digests();
        assert!(keys.iter().all(|(key, _)| !key.starts_with("privacy")));
    }
}
