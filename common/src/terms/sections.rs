//! Sections of a study file that studies of all methods take.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::glm::StatedFamily;
use crate::id::Role;

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

/// A dealer of masks apart from the coordinator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DealerTerms {
    /// The name in the dealer's certificate.
    pub certificate: String,
}

/// Family and intercept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Model {
    /// gaussian, binomial or poisson, each with its canonical link; or quasibinomial or quasipoisson, with their estimates and an estimated
    /// dispersion.
    pub family: StatedFamily,
    /// Whether there is an intercept; in a vertical study it belongs to Alice's block, among several parties to the leader's.
    pub intercept: bool,
    /// The features of a horizontal study; or use `formula`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    /// The model of a horizontal study, as in R: `y ~ age + bmi:sex`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub formula: Option<String>,
}

impl Default for Model {
    fn default() -> Self {
        Model { family: StatedFamily::Gaussian, intercept: true, features: Vec::new(), formula: None }
    }
}

/// A column that one party or all parties hold.
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
    pub(crate) fn is_none(&self) -> bool {
        self.column.is_empty()
    }
}

/// What a column is for that one party may hold alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldAs {
    /// The case weights.
    Weights,
    /// The outcome.
    Outcome,
    /// The offset.
    Offset,
}

/// Who holds a column: all parties (`both`, or `all`), or one, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HeldBy {
    /// Both parties, alice and bob; compared by keyed digest.
    #[default]
    Both,
    /// Each of several parties; likewise.
    All,
    /// This party only: Alice, or of several the leader, in plain mode any party, which sends it to the leader; what then leaves is declared.
    One(Role),
}

impl HeldBy {
    /// Whether one party holds the column alone.
    pub fn is_alone(self) -> bool {
        self.holder().is_some()
    }

    /// Whether all parties hold the column.
    pub fn is_shared(self) -> bool {
        !self.is_alone()
    }

    /// The party that holds the column alone.
    pub fn holder(self) -> Option<Role> {
        match self {
            HeldBy::Both | HeldBy::All => None,
            HeldBy::One(role) => Some(role),
        }
    }

    /// The word in study files.
    pub fn word(&self) -> &str {
        match self {
            HeldBy::Both => "both",
            HeldBy::All => "all",
            HeldBy::One(role) => role.name(),
        }
    }
}

impl Serialize for HeldBy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

impl<'de> Deserialize<'de> for HeldBy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<HeldBy, D::Error> {
        struct Word;

        impl serde::de::Visitor<'_> for Word {
            type Value = HeldBy;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`all` or the name of a party")
            }

            fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<HeldBy, E> {
                match word {
                    "both" => Ok(HeldBy::Both),
                    "all" => Ok(HeldBy::All),
                    name => name.parse().map(HeldBy::One).map_err(|error| E::custom(format!("`held_by`: {error}"))),
                }
            }
        }

        deserializer.deserialize_str(Word)
    }
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

    /// Whether the declared levels are those of truth values, in any case, which readers recognise by themselves.
    pub fn is_boolean(&self) -> bool {
        matches!(&self.levels[..], [no, yes] if no.eq_ignore_ascii_case("false") && yes.eq_ignore_ascii_case("true"))
    }
}

/// Which rows take part.
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
    /// They are dropped at all parties, by exchanged masks.
    CompleteCases,
}

pub(crate) fn one() -> f64 {
    1.0
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
        _ => return in_words(message),
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

/// What was expected, in words of the file in place of those of the program.
fn in_words(message: String) -> String {
    let Some((found, expected)) = message.split_once(", expected ") else { return message };
    let expected = match expected.trim_end() {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, zero or above",
        "i32" | "i64" => "a whole number",
        "f64" => "a number",
        "a string" => "text in quotes",
        "path string" => "a path in quotes",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "a section",
        structure if structure.starts_with("struct ") => "a section",
        other => other,
    };
    format!("{found}, expected {expected}")
}

/// The same with the line of `text` that it is about, and the key where one stands twice.
pub fn explain_in(text: &str, error: &toml::de::Error) -> String {
    let Some(span) = error.span() else { return explain(error) };
    let line = 1 + text.get(..span.start).unwrap_or_default().matches('\n').count();
    match (error.message(), text.get(span)) {
        ("duplicate key", Some(key)) => format!("line {line}: the key `{key}` stands there a second time"),
        _ => format!("line {line}: {}", explain(error)),
    }
}
