//! What a study says of keys and passes, checked.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::data::nearest;
use crate::id::Role;

/// Most keys, passes, and parts of a pass.
const MOST: usize = 32;
/// Longest name of a key or pass, in bytes.
const NAME_BYTES: usize = 100;
/// Longest prefix of a part, and longest identifier, in characters.
const MOST_CHARACTERS: u32 = 256;

/// What the values of a key are, which decides their canonical form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A name of a person or place: compared without case, accents, spaces and punctuation.
    Name {
        /// What happens to letters with two dots.
        fold: Fold,
    },
    /// Letters and digits, compared without case, spaces and punctuation. Zeros in front count.
    Identifier {
        /// Fewest and most characters; others are invalid.
        length: Option<[u32; 2]>,
    },
    /// A day.
    Date {
        /// Days before are invalid.
        earliest: Option<Date>,
        /// Days behind are invalid.
        latest: Option<Date>,
    },
    /// One of the declared levels.
    Code {
        /// The levels, distinct.
        levels: Vec<String>,
    },
}

impl Kind {
    /// The word of study files.
    pub fn name(&self) -> &'static str {
        match self {
            Kind::Name { .. } => "name",
            Kind::Identifier { .. } => "identifier",
            Kind::Date { .. } => "date",
            Kind::Code { .. } => "code",
        }
    }
}

/// How letters with two dots are written without them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fold {
    /// As the letter alone: `Müller` is `muller`.
    #[default]
    Plain,
    /// With an `e`, as in German: `Müller` is `mueller`.
    German,
}

/// A key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Its name in the study.
    pub name: String,
    /// What its values are.
    pub kind: Kind,
}

/// How much of a canonical value a pass compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// All of it.
    Whole,
    /// This number of characters from its beginning, or all if it is shorter.
    First(u32),
    /// The year of a date.
    Year,
}

/// A part of a composite key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Position of the key in [`Keys::keys`].
    pub key: usize,
    /// How much of it.
    pub cut: Cut,
}

/// A pass: records match whose parts are all equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pass {
    /// Its name in the study.
    pub name: String,
    /// The parts, at least one.
    pub parts: Vec<Part>,
}

/// Keys and passes that have been checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys {
    keys: Vec<Key>,
    passes: Vec<Pass>,
}

impl Keys {
    /// Keys in any order, and passes in the order in which they are run, each with its name and its parts as a study writes them:
    /// `surname`, `given:1` (the first character), `birth:year`.
    ///
    /// # Errors
    /// What does not fit together.
    pub fn new(keys: Vec<Key>, passes: &[(String, Vec<String>)]) -> Result<Keys, KeysError> {
        if keys.is_empty() || passes.is_empty() {
            return Err(KeysError::Empty { what: if keys.is_empty() { "keys" } else { "pass" } });
        }
        for (what, count) in [("keys", keys.len()), ("passes", passes.len())] {
            if count > MOST {
                return Err(KeysError::TooMany { what: what.to_owned(), count });
            }
        }
        for (at, key) in keys.iter().enumerate() {
            check_name(&key.name)?;
            if key.name.contains(':') {
                return Err(KeysError::Name { name: key.name.clone() });
            }
            if keys[..at].iter().any(|other| other.name == key.name) {
                return Err(KeysError::Repeated { what: "key", name: key.name.clone() });
            }
            check_kind(key)?;
        }
        let mut checked: Vec<Pass> = Vec::new();
        for (name, parts) in passes {
            check_name(name)?;
            if checked.iter().any(|pass| pass.name == *name) {
                return Err(KeysError::Repeated { what: "pass", name: name.clone() });
            }
            checked.push(Pass { name: name.clone(), parts: parts_of(&keys, name, parts)? });
        }
        let used = |at| checked.iter().any(|pass| pass.parts.iter().any(|part| part.key == at));
        match keys.iter().enumerate().find(|(at, _)| !used(*at)) {
            Some((_, key)) => Err(KeysError::Unused { key: key.name.clone() }),
            None => Ok(Keys { keys, passes: checked }),
        }
    }

    /// The keys.
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// The passes in their order.
    pub fn passes(&self) -> &[Pass] {
        &self.passes
    }
}

fn parts_of(keys: &[Key], pass: &str, written: &[String]) -> Result<Vec<Part>, KeysError> {
    if written.is_empty() {
        return Err(KeysError::Empty { what: "parts of a pass" });
    }
    if written.len() > MOST {
        return Err(KeysError::TooMany { what: format!("parts of pass `{pass}`"), count: written.len() });
    }
    let mut parts: Vec<Part> = Vec::new();
    for written in written {
        let (name, cut) = written.split_once(':').map_or((written.as_str(), None), |(name, cut)| (name, Some(cut)));
        let Some(key) = keys.iter().position(|key| key.name == name) else {
            let nearest = nearest(name, keys.iter().map(|key| key.name.as_str()));
            return Err(KeysError::Unknown { pass: pass.to_owned(), key: name.to_owned(), nearest });
        };
        let wrong = |problem| KeysError::Cut { pass: pass.to_owned(), part: written.clone(), problem };
        let cut = match (cut, &keys[key].kind) {
            (None, _) => Cut::Whole,
            (Some("year"), Kind::Date { .. }) => Cut::Year,
            (Some("year"), _) => return Err(wrong("only a date has a year")),
            (Some(_), Kind::Date { .. }) => return Err(wrong("of a date, write all or `:year`")),
            (Some(_), Kind::Code { .. }) => return Err(wrong("a code is compared as a whole")),
            (Some(count), Kind::Name { .. } | Kind::Identifier { .. }) => match count.parse() {
                Ok(count @ 1..=MOST_CHARACTERS) if !written.contains('+') => Cut::First(count),
                _ => return Err(wrong("expected a number of characters from 1 to 256")),
            },
        };
        if parts.iter().any(|part| part.key == key) {
            return Err(wrong("the key is in this pass twice"));
        }
        parts.push(Part { key, cut });
    }
    Ok(parts)
}

fn check_name(name: &str) -> Result<(), KeysError> {
    match name.trim().is_empty() || name.len() > NAME_BYTES || name.chars().any(char::is_control) {
        true => Err(KeysError::Name { name: name.chars().filter(|c| !c.is_control()).take(NAME_BYTES).collect() }),
        false => Ok(()),
    }
}

fn check_kind(key: &Key) -> Result<(), KeysError> {
    let wrong = |problem| Err(KeysError::Kind { key: key.name.clone(), problem });
    match &key.kind {
        Kind::Name { .. } => Ok(()),
        Kind::Identifier { length: None } => Ok(()),
        Kind::Identifier { length: Some([lo, hi]) } => match 1 <= *lo && lo <= hi && *hi <= MOST_CHARACTERS {
            true => Ok(()),
            false => wrong("`length` must be two ascending numbers from 1 to 256"),
        },
        Kind::Date { earliest: Some(earliest), latest: Some(latest) } if earliest > latest => {
            wrong("`earliest` is behind `latest`")
        }
        Kind::Date { .. } => Ok(()),
        Kind::Code { levels } if levels.is_empty() => wrong("a code needs `levels`"),
        Kind::Code { levels } if levels.iter().any(|level| level.trim().is_empty() || level.trim() != level) => {
            wrong("a level is empty, or has white space at an end")
        }
        Kind::Code { levels } => match (1..levels.len()).any(|at| levels[..at].contains(&levels[at])) {
            true => wrong("a level is there twice"),
            false => Ok(()),
        },
    }
}

/// Keys or passes that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeysError {
    /// None of something.
    #[error("there are no {what}; at least one is needed")]
    Empty {
        /// Of what.
        what: &'static str,
    },
    /// Too many of something.
    #[error("there are {count} {what}, at most {MOST} are taken")]
    TooMany {
        /// Of what.
        what: String,
        /// How many.
        count: usize,
    },
    /// A name that cannot be used.
    #[error("`{name}` is no name: expected 1 to {NAME_BYTES} bytes without control characters, for a key without `:`")]
    Name {
        /// The name.
        name: String,
    },
    /// A name twice.
    #[error("{what} `{name}` is there twice")]
    Repeated {
        /// A key or a pass.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A pass that names a key that the study does not have.
    #[error("pass `{pass}` has the key `{key}`, which is not declared{}", nearest.as_ref().map(|name| format!("; did you mean `{name}`?")).unwrap_or_default())]
    Unknown {
        /// The pass.
        pass: String,
        /// The key that it names.
        key: String,
        /// The nearest name that exists.
        nearest: Option<String>,
    },
    /// A part that its key does not have.
    #[error("pass `{pass}` has the part `{part}`: {problem}")]
    Cut {
        /// The pass.
        pass: String,
        /// The part as written.
        part: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// A key that no pass compares.
    #[error("no pass compares the key `{key}`")]
    Unused {
        /// The key.
        key: String,
    },
    /// A key whose description cannot be used.
    #[error("key `{key}`: {problem}")]
    Kind {
        /// The key.
        key: String,
        /// What is wrong.
        problem: &'static str,
    },
}

/// A day of the Gregorian calendar in the years 1 to 9999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Date {
    year: u16,
    month: u8,
    day: u8,
}

impl Date {
    /// A day that exists.
    pub fn new(year: u16, month: u8, day: u8) -> Option<Date> {
        let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let days = match month {
            1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
            4 | 6 | 9 | 11 => 30,
            2 => 28 + u8::from(leap),
            _ => return None,
        };
        ((1..=9999).contains(&year) && (1..=days).contains(&day)).then_some(Date { year, month, day })
    }
}

/// `1970-01-31`, the canonical form.
impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

/// From the canonical form.
impl FromStr for Date {
    type Err = String;

    fn from_str(written: &str) -> Result<Date, String> {
        let wrong = || format!("`{written}` is not a day; expected one as 1970-01-31");
        let number = |part: Option<&str>, digits| {
            let part = part.filter(|part| part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit()));
            part.and_then(|part| part.parse::<u16>().ok()).ok_or_else(wrong)
        };
        let mut parts = written.splitn(3, '-');
        let (year, month, day) = (number(parts.next(), 4)?, number(parts.next(), 2)?, number(parts.next(), 2)?);
        // Two digits are at most 99.
        Date::new(year, month as u8, day as u8).ok_or_else(wrong)
    }
}

/// What happens to records that share a key of the first pass within one table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Duplicates {
    /// The data are refused.
    #[default]
    Refuse,
    /// Such records do not take part in that pass, as in later ones.
    Exclude,
}

/// A number for each party.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BySide(BTreeMap<Role, u64>);

impl BySide {
    /// Of the parties of a study.
    pub fn new(numbers: BTreeMap<Role, u64>) -> BySide {
        BySide(numbers)
    }

    /// Of alice and bob.
    pub fn two(alice: u64, bob: u64) -> BySide {
        BySide(BTreeMap::from([(Role::Alice, alice), (Role::Bob, bob)]))
    }

    /// The number of a party; of another role, 0.
    pub fn of(&self, role: Role) -> u64 {
        self.0.get(&role).copied().unwrap_or(0)
    }
}

/// What both parties agree on for a match, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// Keys and passes.
    pub keys: Keys,
    /// What happens to repeats in the first pass.
    pub duplicates: Duplicates,
    /// Fewest records that the first pass must find before either party learns which; at least 1.
    pub min_matched: u64,
    /// Fewest records that a later pass must find for them to count; at least 1.
    pub min_pass: u64,
    /// Most records of each party.
    pub max_rows: BySide,
    /// Public length of each party's list in every pass, less the matches that are known, which hides how many records are eligible.
    pub capacity: Option<BySide>,
}

#[cfg(test)]
mod tests;
