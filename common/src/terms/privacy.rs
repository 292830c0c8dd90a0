//! What a private study states: what a run may cost, the design that errors are predicted for, and the public bounds of its columns.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use super::{ColumnTerms, Head, StudyError, value};
use crate::data::declared::{DeclaredFormula, Stated};
use crate::data::encode::Extent;
use crate::data::functions::Interval;
use crate::privacy::accountant::{Accountant, LARGEST_EPSILON};
use crate::privacy::bounds::{BoundsError, ColumnBounds, RowBounds};

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
    /// Noised partial predictions to and fro, between noised statistics that stay at home; of two parties.
    #[default]
    Residual,
    /// A table of cross-products between the columns of every two parties, computed on shares to which each adds its noise before they
    /// leave; the coordinator deals the masks. In a binomial or poisson model, which is for two parties, two gradients follow in the
    /// same way.
    Crossprod,
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
    /// Mean square of a row without its intercept, as a share of the square of its norm bound; 1/4 if absent. Vertical studies.
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
    /// columns would add if all were uncorrelated, in a binomial model in log odds and 1 if absent, in a poisson model in log rates and .5. In models with something hidden the length
    /// of the coefficients, half of the longest if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<f64>,
    /// Share of the rows that are corrupted; none if absent. Robust regression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corrupted: Option<f64>,
    /// Mean of the outcome between two parties: of a binomial model the share of ones, 1/2 if absent; of a poisson model the mean
    /// count as a share of the largest one, 1/8 if absent. The error grows as the share is farther from 1/2, and as the
    /// mean count is smaller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome_mean: Option<f64>,
}

impl DesignTerms {
    /// Refuses what a method does not reckon with, which takes the keys `taken`, and numbers without meaning.
    pub(crate) fn check(&self, taken: &[&str], protocol: &str) -> Result<(), StudyError> {
        let wrong = |key: &str, problem: String| Err(value(&format!("privacy.design.{key}"), problem));
        for (key, set) in [
            ("correlation", self.correlation.is_some()),
            ("mean_square", self.mean_square.is_some()),
            ("coefficients", self.coefficients.is_some()),
            ("residual", self.residual.is_some()),
            ("signal", self.signal.is_some()),
            ("corrupted", self.corrupted.is_some()),
            ("outcome_mean", self.outcome_mean.is_some()),
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
        if self.outcome_mean.is_some_and(|mean| !(mean > 0.0 && mean < 1.0)) {
            let problem =
                "must lie between 0 and 1: the share of ones, or the mean count as a share of the largest one";
            return wrong("outcome_mean", problem.to_owned());
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
    /// One for each term of all parties.
    Each(BTreeMap<String, f64>),
}

pub(crate) fn one_round() -> u32 {
    1
}

pub(crate) fn default_clip() -> f64 {
    0.3
}

impl PrivacyTerms {
    /// Refuses an epsilon and a delta that promise nothing.
    pub(super) fn check_budget(&self) -> Result<(), StudyError> {
        let wrong = |key: &str, problem: String| Err(value(key, problem));
        if !(self.epsilon > 0.0 && self.epsilon.is_finite()) {
            return wrong("privacy.epsilon", format!("must be a positive number, got {}", self.epsilon));
        }
        if self.epsilon > LARGEST_EPSILON && self.large_epsilon.as_deref().is_none_or(|why| why.trim().is_empty()) {
            let epsilon = self.epsilon;
            return wrong(
                "privacy.epsilon",
                format!("is {epsilon}, above {LARGEST_EPSILON}: say in `privacy.large_epsilon` why that is meant"),
            );
        }
        match self.delta {
            Some(delta) if !(delta > 0.0 && delta < 1.0) => {
                wrong("privacy.delta", format!("must lie between 0 and 1/n, got {delta}"))
            }
            _ => Ok(()),
        }
    }
}

/// Refuses a number that is stated and not positive and finite.
pub(crate) fn check_positive(key: &str, number: Option<f64>, kind: &str) -> Result<(), StudyError> {
    match number.filter(|number| !(*number > 0.0 && number.is_finite())) {
        Some(number) => Err(value(key, format!("must be a positive {kind}, got {number}"))),
        None => Ok(()),
    }
}

/// Refuses the first of these keys that is given, with the reason why private mode cannot keep it.
pub(crate) fn refused_in_private(keys: &[(&str, bool, &str)]) -> Result<(), StudyError> {
    match keys.iter().find(|(_, given, _)| *given) {
        Some((key, _, why)) => Err(value(key, format!("cannot be used in private mode: {why}"))),
        None => Ok(()),
    }
}

pub(crate) fn bounds_sentence(error: &BoundsError) -> String {
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
        | BoundsError::Formula { .. }
        | BoundsError::Intercept { .. }) => format!("cannot be used: {other}"),
    }
}

/// Two numbers; a word such as `"data"` is refused with the reason.
pub(super) fn range<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<[f64; 2]>, D::Error> {
    let taken = "a range taken from the data is a release of the data; give two numbers from outside";
    stated(deserializer, "range", taken, "range must be two numbers, as in range = [18, 64]")
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
pub(crate) fn public_number<'de, D: Deserializer<'de>>(deserializer: D, key: &str) -> Result<Option<f64>, D::Error> {
    let taken = "a number taken from the data is a release of the data; give one from outside";
    stated(deserializer, key, taken, &format!("{key} must be a number"))
}

/// A public value; a word is refused because it is `taken` from the data, anything else because it is `odd`.
fn stated<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
    key: &str,
    taken: &str,
    odd: &str,
) -> Result<Option<T>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Stated<T> {
        Value(T),
        Word(String),
    }
    use serde::de::Error;
    match Option::<Stated<T>>::deserialize(deserializer) {
        Ok(None) => Ok(None),
        Ok(Some(Stated::Value(value))) => Ok(Some(value)),
        Ok(Some(Stated::Word(word))) => Err(D::Error::custom(format!("{key} = {word:?}: {taken}"))),
        Err(_) => Err(D::Error::custom(odd)),
    }
}

impl ColumnTerms {
    /// The terms of a column with their public bounds: a number is one, k levels are k - 1.
    fn bounded(&self, column: &str) -> Result<Vec<(String, ColumnBounds)>, BoundsError> {
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

/// The bounds of rows with these columns, in their order. `norm` is stated; the intercept, if rows have one, has as much of a unit row as
/// every other entry.
pub(crate) fn row_bounds<'a>(
    head: &Head,
    columns: impl IntoIterator<Item = &'a String>,
    norm: Option<f64>,
    intercept: bool,
) -> Result<RowBounds, BoundsError> {
    let mut terms = Vec::new();
    for column in columns {
        match head.columns.get(column) {
            Some(stated) => terms.extend(stated.bounded(column)?),
            None => return Err(BoundsError::Missing { column: column.clone() }),
        }
    }
    bounds_of(terms, norm, intercept)
}

fn bounds_of(terms: Vec<(String, ColumnBounds)>, norm: Option<f64>, intercept: bool) -> Result<RowBounds, BoundsError> {
    let share = (1.0 / (terms.len() + 1) as f64).sqrt();
    RowBounds::new(terms, norm, intercept.then_some(share))
}

/// A formula whose columns have the bounds that follow from those of the table's.
///
/// # Errors
/// A formula that cannot be read, looks at data, or has a term without bounds, with the place.
pub(crate) fn declared_formula(head: &Head, text: &str) -> Result<DeclaredFormula, BoundsError> {
    let stated = |name: &str| {
        let terms = head.columns.get(name)?;
        match (terms.range, &terms.levels[..], terms.centre, terms.scale) {
            (_, _, Some(_), Some(_)) => Some(Stated::Centred),
            (Some(range), [], ..) => Some(Stated::Range(range)),
            (None, [_, _, ..], ..) => Some(Stated::Levels(terms.levels.clone())),
            _ => None,
        }
    };
    DeclaredFormula::new(text, stated).map_err(|error| BoundsError::Formula { sentence: error.to_string() })
}

/// The bounds of rows of such a formula.
pub(crate) fn formula_bounds(
    head: &Head,
    formula: &DeclaredFormula,
    norm: Option<f64>,
    intercept: bool,
) -> Result<RowBounds, BoundsError> {
    let bounds = |(name, extent): &(String, Extent)| {
        let bounds = match extent {
            Extent::Indicator => ColumnBounds::Indicator,
            Extent::Within(Interval { low, high }) => RowBounds::range(name, Ok(&[*low, *high]))?,
            // A column by itself.
            Extent::Centred => match head.columns.get(name).map(|terms| (terms.centre, terms.scale)) {
                Some((Some(centre), Some(scale))) => ColumnBounds::Centred { centre, scale },
                Some((None, _) | (_, None)) | None => return Err(BoundsError::Missing { column: name.clone() }),
            },
        };
        Ok((name.clone(), bounds))
    };
    bounds_of(formula.extents().iter().map(bounds).collect::<Result<_, _>>()?, norm, intercept)
}
