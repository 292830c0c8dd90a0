//! The section `[match]`: how two parties find the rows that both have.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{StudyError, value};
use crate::data::MAX_ROWS;
use crate::id::Role;

/// Longest name of a key or of a pass.
const LONGEST_NAME: usize = 64;

/// How two parties find the rows that both have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MatchTerms {
    /// How matching records are found.
    #[serde(default)]
    pub protocol: MatchProtocol,
    /// Who learns which rows matched. It must be stated.
    pub membership: Membership,
    /// Fewest matched rows. With fewer both parties end, and neither learns which rows matched.
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
    pub duplicates: Duplicates,
    /// Names of keys whose columns may also be columns of the model in private mode. Their values are not protected then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reused: Vec<String>,
    /// Largest table of each party.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub max_rows: BTreeMap<Role, u64>,
    /// The keys by name. Each private file says which of its own columns a key is.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub keys: BTreeMap<String, KeyTerms>,
    /// The passes in their order: a row that one pass matched takes no part in the next.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pass: Vec<PassTerms>,
}

/// How matching records are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MatchProtocol {
    /// By keys, between the two parties: neither learns a key of the other.
    #[default]
    Direct,
    /// From a table of record pairs that was made elsewhere; each private file names its own.
    Linked,
}

impl MatchProtocol {
    /// The word in studies and reports.
    pub fn name(self) -> &'static str {
        match self {
            MatchProtocol::Direct => "direct",
            MatchProtocol::Linked => "linked",
        }
    }
}

/// Who learns which rows matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Membership {
    /// Each party learns which of its own rows the other has too.
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
pub enum Duplicates {
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
    pub fold: Option<Fold>,
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
pub enum Fold {
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
            duplicates: Duplicates::Refuse,
            reused: Vec::new(),
            max_rows: BTreeMap::new(),
            keys: BTreeMap::new(),
            pass: Vec::new(),
        }
    }

    /// Refuses keys, passes and limits that do not fit together.
    pub(crate) fn check(&self) -> Result<(), StudyError> {
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
            MatchProtocol::Direct => self.check_passes(),
            MatchProtocol::Linked => self.check_linked(),
        }
    }

    fn check_linked(&self) -> Result<(), StudyError> {
        let set = [
            ("match.keys", !self.keys.is_empty()),
            ("match.pass", !self.pass.is_empty()),
            ("match.reused", !self.reused.is_empty()),
            ("match.max_rows", !self.max_rows.is_empty()),
            ("match.min_pass", self.min_pass != ten()),
            ("match.duplicates", self.duplicates != Duplicates::Refuse),
        ];
        match set.iter().find(|(_, set)| *set) {
            Some((key, _)) => Err(value(
                key,
                "has no place beside match.protocol = \"linked\": the pairs stand in a table that was made elsewhere",
            )),
            None => Ok(()),
        }
    }

    fn check_passes(&self) -> Result<(), StudyError> {
        let wrong = |key: &str, problem: String| Err(value(key, problem));
        if !self.max_rows.keys().eq([Role::Alice, Role::Bob].iter()) {
            return wrong(
                "match.max_rows",
                "must state the largest table of alice and of bob, as in { alice = 2000000, bob = 500000 }".to_string(),
            );
        }
        if let Some(rows) = self.max_rows.values().find(|rows| **rows == 0 || **rows > MAX_ROWS as u64) {
            return wrong("match.max_rows", format!("is {rows}, and must lie between 1 and {MAX_ROWS}"));
        }
        self.keys.iter().try_for_each(|(name, terms)| terms.check(name))?;
        if self.pass.is_empty() {
            return wrong("match.pass", "is missing: which keys must be equal?".to_string());
        }
        let mut names = BTreeSet::new();
        let mut used = BTreeSet::new();
        for pass in &self.pass {
            check_name("match.pass.name", &pass.name)?;
            if !names.insert(pass.name.as_str()) {
                return wrong("match.pass", format!("has two passes named `{}`", pass.name));
            }
            self.check_pass(pass, &mut used)?;
        }
        if let Some(unused) = self.keys.keys().find(|name| !used.contains(name.as_str())) {
            return wrong(&format!("match.keys.{unused}"), "is used in no pass".to_string());
        }
        match self.reused.iter().find(|name| !self.keys.contains_key(*name)) {
            Some(name) => wrong("match.reused", format!("names `{name}`, which is no key of `match.keys`")),
            None => Ok(()),
        }
    }

    fn check_pass<'a>(&'a self, pass: &'a PassTerms, used: &mut BTreeSet<&'a str>) -> Result<(), StudyError> {
        let key = format!("match.pass `{}`", pass.name);
        let wrong = |problem: String| Err(value(&key, problem));
        if pass.keys.is_empty() {
            return wrong("has no keys".to_string());
        }
        let mut parts = BTreeSet::new();
        for part in &pass.keys {
            let (name, cut) = PassTerms::part(part);
            let Some(terms) = self.keys.get(name) else {
                return wrong(format!("names `{name}`, which is no key of `match.keys`"));
            };
            match (cut, terms.kind) {
                (None, _) => {}
                (Some("year"), KeyKind::Date) => {}
                (Some("year"), kind) => {
                    return wrong(format!("takes the year of `{name}`, which is a key of kind `{}`", kind.name()));
                }
                (Some(cut), KeyKind::Name | KeyKind::Identifier) if cut.parse().is_ok_and(|length: u32| length > 0) => {
                }
                (Some(cut), _) => {
                    return wrong(format!(
                        "has `{name}:{cut}`; a key of kind name or identifier can be cut as in `{name}:3`, a date as in \
                         `{name}:year`"
                    ));
                }
            }
            if !parts.insert(part.as_str()) {
                return wrong(format!("names `{part}` twice"));
            }
            used.insert(name);
        }
        Ok(())
    }

    /// Fewest matched rows of a match for a purpose.
    pub fn least(&self, predict: bool) -> u64 {
        self.min_matched_predict.filter(|_| predict).unwrap_or(self.min_matched)
    }
}

impl PassTerms {
    /// A part of a pass: the name of its key, and how the key is cut.
    pub fn part(text: &str) -> (&str, Option<&str>) {
        match text.split_once(':') {
            Some((name, cut)) => (name, Some(cut)),
            None => (text, None),
        }
    }
}

impl KeyTerms {
    /// A key of a kind without anything more.
    pub fn of(kind: KeyKind) -> KeyTerms {
        KeyTerms { kind, length: None, fold: None, earliest: None, latest: None, levels: Vec::new() }
    }

    fn check(&self, name: &str) -> Result<(), StudyError> {
        check_name("match.keys", name)?;
        let wrong = |key: &str, problem: String| Err(value(&format!("match.keys.{name}.{key}"), problem));
        if name.contains(':') {
            return Err(value(&format!("match.keys.{name}"), "must have no colon in its name"));
        }
        let kind = self.kind;
        let misplaced = [
            ("length", self.length.is_some(), kind == KeyKind::Identifier),
            ("fold", self.fold.is_some(), kind == KeyKind::Name),
            ("earliest", self.earliest.is_some(), kind == KeyKind::Date),
            ("latest", self.latest.is_some(), kind == KeyKind::Date),
            ("levels", !self.levels.is_empty(), kind == KeyKind::Code),
        ];
        if let Some((key, ..)) = misplaced.iter().find(|(_, set, fits)| *set && !fits) {
            return wrong(key, format!("has no place in a key of kind `{}`", kind.name()));
        }
        if let Some([least, most]) = self.length
            && (least == 0 || least > most)
        {
            return wrong("length", "must be two numbers, the fewest and the most, from 1 on".to_string());
        }
        for (key, date) in [("earliest", &self.earliest), ("latest", &self.latest)] {
            if let Some(date) = date.as_deref().filter(|date| !is_day(date)) {
                return wrong(key, format!("is `{date}`, expected a date as 1890-01-31"));
            }
        }
        if let (Some(earliest), Some(latest)) = (&self.earliest, &self.latest)
            && earliest > latest
        {
            return wrong("earliest", "is after `latest`".to_string());
        }
        if kind == KeyKind::Code && self.levels.is_empty() {
            return wrong("levels", "is missing: which levels has the code?".to_string());
        }
        let distinct: BTreeSet<&String> = self.levels.iter().collect();
        match distinct.len() == self.levels.len() {
            true => Ok(()),
            false => wrong("levels", "must not repeat a level".to_string()),
        }
    }
}

fn check_name(key: &str, name: &str) -> Result<(), StudyError> {
    match name.is_empty() || name.len() > LONGEST_NAME || name.chars().any(char::is_control) {
        true => Err(value(key, format!("must be a name of 1 to {LONGEST_NAME} printable bytes"))),
        false => Ok(()),
    }
}

/// Whether a text is a day of the calendar, written as `1890-01-31`.
fn is_day(text: &str) -> bool {
    let bytes = text.as_bytes();
    let shape = bytes.len() == 10
        && bytes
            .iter()
            .enumerate()
            .all(|(at, byte)| if at == 4 || at == 7 { *byte == b'-' } else { byte.is_ascii_digit() });
    if !shape {
        return false;
    }
    let number = |from: usize, to: usize| text[from..to].parse::<u32>().unwrap_or(0);
    let (year, month, day) = (number(0, 4), number(5, 7), number(8, 10));
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let most = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => 0,
    };
    year > 0 && (1..=most).contains(&day)
}

#[cfg(test)]
mod tests;
