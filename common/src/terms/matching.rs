//! The section `[match]`: how the parties find the rows that all of them have.

use std::collections::BTreeMap;

use serde::de::value::StrDeserializer;
use serde::{Deserialize, Serialize};

use super::{StudyError, value};
use crate::data::MAX_ROWS;
use crate::data::matching::{BySide, Date, Duplicates, Fold, Key, Keys, Kind, Rules};
use crate::id::Role;

/// How the parties find the rows that all of them have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MatchTerms {
    /// How matching records are found.
    #[serde(default)]
    pub protocol: MatchProtocol,
    /// Who learns which rows matched. It must be stated.
    pub membership: Membership,
    /// Fewest matched rows. With fewer all parties end, and none learns which rows matched; of several parties that goes for each pair
    /// with the leader and for the rows that all have.
    #[serde(default = "hundred")]
    pub min_matched: u64,
    /// The same for a match of new rows, which `predict` needs; `min_matched` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_matched_predict: Option<u64>,
    /// Fewest matched rows of a pass after the first. With fewer the pass is not revealed.
    #[serde(default = "ten")]
    pub min_pass: u64,
    /// When the match is made.
    #[serde(default)]
    pub run: MatchRun,
    /// What happens to rows that share their keys in the first pass with another row of the same table.
    #[serde(default)]
    pub duplicates: DuplicateTerms,
    /// Names of keys whose columns may also be columns of the model in private mode. Their values are not protected then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reused: Vec<String>,
    /// Largest table of each party.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub max_rows: BTreeMap<Role, u64>,
    /// Length to which each party pads its list in every pass, less the matches that are known: it hides how many rows take part.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub capacity: BTreeMap<Role, u64>,
    /// The keys by name. Each private file says which of its own columns a key is.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub keys: BTreeMap<String, KeyTerms>,
    /// The passes in their order: a row that one pass matched is not linked in the next.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pass: Vec<PassTerms>,
}

/// How matching records are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MatchProtocol {
    /// By keys, between the two parties, or the leader of several and each other one: nobody learns a key of another.
    #[default]
    Direct,
    /// From a table of record pairs that was made elsewhere; each private file names its own.
    Linked,
    /// By keys, through the coordinator, for very large tables: it gets keyed tags and no key, and must collude with neither party. Each
    /// private file must allow it.
    Coordinator,
}

impl MatchProtocol {
    /// The protocol of a word in studies and reports; none of any other word.
    pub fn of_word(word: &str) -> Option<MatchProtocol> {
        MatchProtocol::deserialize(StrDeserializer::<serde::de::value::Error>::new(word)).ok()
    }

    /// The word in studies and reports.
    pub fn name(self) -> &'static str {
        match self {
            MatchProtocol::Direct => "direct",
            MatchProtocol::Linked => "linked",
            MatchProtocol::Coordinator => "coordinator",
        }
    }
}

/// Who learns which rows matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Membership {
    /// Each party learns which of its own rows the other has too; of several each learns which all have, and the leader which each other
    /// one has.
    Disclosed,
}

/// When the match is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MatchRun {
    /// By the command `match`, before a fit.
    #[default]
    Command,
    /// By `fit` itself, where there is no match yet.
    Auto,
}

/// What happens to rows that share their keys with another row of the same table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DuplicateTerms {
    /// They end the match before anything leaves.
    #[default]
    Refuse,
    /// They are left out and counted.
    Exclude,
}

/// One key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyTerms {
    /// What the key is, which decides how its values are normalised.
    pub kind: KeyKind,
    /// Fewest and most letters and digits of an identifier; others are invalid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<[u32; 2]>,
    /// How letters of names are simplified beyond what is always done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fold: Option<FoldTerms>,
    /// The earliest date, `YYYY-MM-DD`; earlier ones are invalid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earliest: Option<String>,
    /// The latest date; later ones are invalid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest: Option<String>,
    /// The levels of a code. Each private file maps its own values to them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<String>,
}

/// What a key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyKind {
    /// A name: case, accents, spaces and punctuation do not count.
    Name,
    /// An identifier: case, spaces and punctuation do not count; it is never read as a number.
    Identifier,
    /// A date in a format that the private file states.
    Date,
    /// One of a few levels.
    Code,
}

impl KeyKind {
    /// The word in studies.
    pub fn name(self) -> &'static str {
        match self {
            KeyKind::Name => "name",
            KeyKind::Identifier => "identifier",
            KeyKind::Date => "date",
            KeyKind::Code => "code",
        }
    }
}

/// How letters of names are simplified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FoldTerms {
    /// `ä`, `ö` and `ü` become `ae`, `oe` and `ue`.
    German,
}

/// One pass.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PassTerms {
    /// Its name in reports.
    pub name: String,
    /// Names of the keys that must all be equal; `given:1` takes the first character of a key, `birth:year` the year of a date.
    pub keys: Vec<String>,
}

fn names(parties: &[Role]) -> String {
    parties.iter().map(Role::to_string).collect::<Vec<_>>().join(", ")
}

fn hundred() -> u64 {
    100
}

fn ten() -> u64 {
    10
}

impl MatchTerms {
    /// The terms of a match by a table from elsewhere.
    pub fn linked(min_matched: u64) -> MatchTerms {
        MatchTerms {
            protocol: MatchProtocol::Linked,
            membership: Membership::Disclosed,
            min_matched,
            min_matched_predict: None,
            min_pass: ten(),
            run: MatchRun::Command,
            duplicates: DuplicateTerms::Refuse,
            reused: Vec::new(),
            max_rows: BTreeMap::new(),
            capacity: BTreeMap::new(),
            keys: BTreeMap::new(),
            pass: Vec::new(),
        }
    }

    /// Refuses keys, passes and limits that do not fit together, or not to the parties of the study.
    pub(crate) fn check(&self, parties: &[Role]) -> Result<(), StudyError> {
        if parties != [Role::Alice, Role::Bob] {
            self.check_several()?;
        }
        let wrong = |key: &str, problem: String| Err(value(key, problem));
        let limits = [
            ("match.min_matched", Some(self.min_matched)),
            ("match.min_matched_predict", self.min_matched_predict),
            ("match.min_pass", Some(self.min_pass)),
        ];
        if let Some((key, _)) = limits.iter().find(|(_, limit)| *limit == Some(0)) {
            return wrong(key, "must be at least 1".to_string());
        }
        match self.protocol {
            MatchProtocol::Direct | MatchProtocol::Coordinator => self.check_passes(parties),
            MatchProtocol::Linked => self.check_linked(),
        }
    }

    fn check_linked(&self) -> Result<(), StudyError> {
        let set = [
            ("match.keys", !self.keys.is_empty()),
            ("match.pass", !self.pass.is_empty()),
            ("match.reused", !self.reused.is_empty()),
            ("match.max_rows", !self.max_rows.is_empty()),
            ("match.capacity", !self.capacity.is_empty()),
            ("match.min_pass", self.min_pass != ten()),
            ("match.duplicates", self.duplicates != DuplicateTerms::Refuse),
        ];
        match set.iter().find(|(_, set)| *set) {
            Some((key, _)) => Err(value(
                key,
                "has no place beside match.protocol = \"linked\": the pairs stand in a table that was made elsewhere",
            )),
            None => Ok(()),
        }
    }

    fn check_passes(&self, parties: &[Role]) -> Result<(), StudyError> {
        let rules = self.rules(false)?;
        self.check_limits(parties)?;
        let names: Vec<&str> = rules.keys.keys().iter().map(|key| key.name.as_str()).collect();
        match self.reused.iter().find(|name| !names.contains(&name.as_str())) {
            Some(name) => Err(value("match.reused", format!("names `{name}`, which is no key of `match.keys`"))),
            None => Ok(()),
        }
    }

    /// What the protocol between the parties needs to know, for the rows of a fit or for new ones.
    ///
    /// # Errors
    /// Keys, passes and limits that do not fit together.
    pub fn rules(&self, predict: bool) -> Result<Rules, StudyError> {
        let keys = self.keys.iter().map(|(name, terms)| terms.key(name)).collect::<Result<Vec<_>, _>>()?;
        let passes: Vec<_> = self.pass.iter().map(|pass| (pass.name.clone(), pass.keys.clone())).collect();
        let keys = Keys::new(keys, &passes).map_err(|error| value("match", format!("cannot be used: {error}")))?;
        if let Some(rows) = self.max_rows.values().find(|rows| **rows == 0 || **rows > MAX_ROWS as u64) {
            return Err(value("match.max_rows", format!("is {rows}, and must lie between 1 and {MAX_ROWS}")));
        }
        Ok(Rules {
            keys,
            duplicates: match self.duplicates {
                DuplicateTerms::Refuse => Duplicates::Refuse,
                DuplicateTerms::Exclude => Duplicates::Exclude,
            },
            min_matched: self.least(predict),
            min_pass: self.min_pass,
            max_rows: BySide::new(self.max_rows.clone()),
            capacity: (!self.capacity.is_empty()).then(|| BySide::new(self.capacity.clone())),
        })
    }

    /// Refuses limits that do not name every party of the study, and no other.
    fn check_limits(&self, parties: &[Role]) -> Result<(), StudyError> {
        let all = |limits: &BTreeMap<Role, u64>| {
            limits.len() == parties.len() && parties.iter().all(|party| limits.contains_key(party))
        };
        let two = parties == [Role::Alice, Role::Bob];
        if !all(&self.max_rows) {
            let problem = match two {
                true => "must state the largest table of alice and of bob, as in { alice = 2000000, bob = 500000 }"
                    .to_string(),
                false => format!("must state the largest table of every party: {}", names(parties)),
            };
            return Err(value("match.max_rows", problem));
        }
        if !self.capacity.is_empty() && (!all(&self.capacity) || self.capacity.values().any(|length| *length == 0)) {
            let problem = match two {
                true => "must state the length of alice's and of bob's list, each at least 1".to_string(),
                false => format!("must state the length of every party's list, each at least 1: {}", names(parties)),
            };
            return Err(value("match.capacity", problem));
        }
        Ok(())
    }

    /// Refuses what has a meaning between alice and bob alone.
    fn check_several(&self) -> Result<(), StudyError> {
        match self.protocol {
            // Where a record of one pass stands in another one would show how much of a list is padding.
            MatchProtocol::Direct if !self.capacity.is_empty() && self.pass.len() > 1 => {
                Err(value("match.capacity", "has no place beside more than one pass among several parties so far"))
            }
            MatchProtocol::Direct => Ok(()),
            MatchProtocol::Coordinator | MatchProtocol::Linked => Err(value(
                "match.protocol",
                format!(
                    "is \"{}\", which is for two parties, alice and bob, so far: use protocol = \"direct\"",
                    self.protocol.name()
                ),
            )),
        }
    }

    /// Fewest matched rows of a match for a purpose.
    pub fn least(&self, predict: bool) -> u64 {
        self.min_matched_predict.filter(|_| predict).unwrap_or(self.min_matched)
    }
}

impl KeyTerms {
    /// A key of a kind without anything more.
    pub fn of(kind: KeyKind) -> KeyTerms {
        KeyTerms { kind, length: None, fold: None, earliest: None, latest: None, levels: Vec::new() }
    }

    /// The key, with what belongs to its kind alone.
    fn key(&self, name: &str) -> Result<Key, StudyError> {
        let wrong = |key: &str, problem: String| value(&format!("match.keys.{name}.{key}"), problem);
        let misplaced = [
            ("length", self.length.is_some(), KeyKind::Identifier),
            ("fold", self.fold.is_some(), KeyKind::Name),
            ("earliest", self.earliest.is_some(), KeyKind::Date),
            ("latest", self.latest.is_some(), KeyKind::Date),
            ("levels", !self.levels.is_empty(), KeyKind::Code),
        ];
        if let Some((key, ..)) = misplaced.iter().find(|(_, set, kind)| *set && *kind != self.kind) {
            return Err(wrong(key, format!("has no place in a key of kind `{}`", self.kind.name())));
        }
        let day = |key: &str, text: &Option<String>| match text.as_deref().map(str::parse::<Date>) {
            None => Ok(None),
            Some(Ok(date)) => Ok(Some(date)),
            Some(Err(problem)) => Err(wrong(key, format!("is wrong: {problem}"))),
        };
        let kind = match self.kind {
            KeyKind::Name => Kind::Name {
                fold: match self.fold {
                    None => Fold::Plain,
                    Some(FoldTerms::German) => Fold::German,
                },
            },
            KeyKind::Identifier => Kind::Identifier { length: self.length },
            KeyKind::Date => {
                Kind::Date { earliest: day("earliest", &self.earliest)?, latest: day("latest", &self.latest)? }
            }
            KeyKind::Code => Kind::Code { levels: self.levels.clone() },
        };
        Ok(Key { name: name.to_string(), kind })
    }
}

#[cfg(test)]
mod tests;
