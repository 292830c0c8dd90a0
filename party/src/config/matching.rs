//! The section `[match]` of a private file: where the keys stand in this party's table, and what a match leaves.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fedreg_common::data::matching::alignment::MatchPurpose;
use serde::{Deserialize, Serialize};

/// How this party's rows are matched, in a study that has a section `[match]`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MatchConfig {
    /// Own column of record ids; the row number if absent. Scores and the privacy ledger name records by it. It never leaves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The table of record pairs, CSV or Parquet with the columns `own_id` and `pair_id`, where the study says `protocol = "linked"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pairs: Option<PathBuf>,
    /// Folder of the match that a fit uses; `match` in the state folder if absent, and `match-predict` for new rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
    /// The own column of each key of the study: its header, or a table that says how its values are written.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub columns: BTreeMap<String, KeyColumn>,
    /// What marks a missing value of a key.
    #[serde(default, skip_serializing_if = "MissingKeys::is_default")]
    pub missing: MissingKeys,
}

/// The own column of a key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum KeyColumn {
    /// Its header.
    Name(String),
    /// Its header, and how values are written.
    Terms(KeyColumnTerms),
}

impl KeyColumn {
    /// Its header.
    pub fn column(&self) -> &str {
        match self {
            KeyColumn::Name(name) => name,
            KeyColumn::Terms(terms) => &terms.column,
        }
    }
}

/// The own column of a key, and how its values are written.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyColumnTerms {
    /// Its header.
    pub column: String,
    /// How a date is written, as in `%d.%m.%Y`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// The level of the study for each own value of a code.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, String>,
}

/// What marks a missing value of a key.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MissingKeys {
    /// Words beside an empty cell and `NA`, such as `99999999999`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

impl MissingKeys {
    fn is_default(&self) -> bool {
        *self == MissingKeys::default()
    }
}

impl MatchConfig {
    pub(crate) fn is_default(&self) -> bool {
        *self == MatchConfig::default()
    }

    /// Own columns that a match is made by: the ids and the keys.
    pub(crate) fn reserved(&self) -> impl Iterator<Item = &str> {
        self.id.as_deref().into_iter().chain(self.columns.values().map(KeyColumn::column))
    }

    /// The folder of the match for some rows.
    pub(crate) fn folder(&self, purpose: MatchPurpose, state: &Path) -> PathBuf {
        self.folder.clone().unwrap_or_else(|| {
            state.join(match purpose {
                MatchPurpose::Fit => "match",
                MatchPurpose::Predict => "match-predict",
            })
        })
    }
}
