//! Sources as the private file and the flags state them.

use std::fmt;
use std::path::{Path, PathBuf};

/// A source as it is stated: where it is, and what of a data base is read.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Stated {
    place: PathBuf,
    chosen: Option<Chosen>,
}

/// What of a data base is read.
#[derive(Clone, PartialEq, Eq)]
pub enum Chosen {
    /// All of a table or a view.
    Table(String),
    /// What a query gives.
    Query(String),
}

impl Stated {
    /// A source at a place; what is chosen of it where it is a data base.
    pub fn new(place: impl Into<PathBuf>, chosen: Option<Chosen>) -> Stated {
        Stated { place: place.into(), chosen }
    }

    /// Where it is.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// What of it is read, where it is a data base.
    pub fn chosen(&self) -> Option<&Chosen> {
        self.chosen.as_ref()
    }

    /// What follows a beginning such as `sqlite:`, in any case; nothing where it begins otherwise.
    pub(super) fn after(&self, beginning: &str) -> Option<&str> {
        after(&self.place, beginning)
    }
}

/// What follows a beginning such as `sqlite:`, in any case.
pub(crate) fn after<'a>(place: &'a Path, beginning: &str) -> Option<&'a str> {
    let (start, rest) = place.to_str()?.split_at_checked(beginning.len())?;
    start.eq_ignore_ascii_case(beginning).then_some(rest)
}

/// A text in which `%3A` stands for a colon.
pub(super) fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..2).filter(|_| *first == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

/// Whether an address holds a password or a key, which belong neither into a private file nor onto a command line.
pub(crate) fn holds_secret(place: &Path) -> bool {
    let text = place.to_string_lossy();
    let Some((_, rest)) = text.split_once("://") else { return false };
    let (address, terms) = rest.split_once('?').unwrap_or((rest, ""));
    let named = terms.split(['&', ';']).any(|term| {
        let key = unescaped(term.split_once('=').map_or(term, |(key, _)| key)).to_ascii_lowercase();
        ["pass", "secret", "token", "pwd"].iter().any(|word| key.contains(word)) && key != "passfile"
    });
    // Up to the last `@`: a password may hold any letter.
    named || address.rsplit_once('@').is_some_and(|(who, _)| who.contains(':') || unescaped(who).contains(':'))
}

/// An address without who asks and how, which is where a password would stand.
fn without_secrets(place: &Path) -> String {
    let text = place.to_string_lossy();
    let Some((scheme, rest)) = text.split_once("://") else { return text.into_owned() };
    let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
    format!("{scheme}://{}", rest.split_once('?').map_or(rest, |(rest, _)| rest))
}

/// Where it is. A query may hold values, and is never shown; neither is who asks.
impl fmt::Display for Stated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        without_secrets(&self.place).fmt(f)
    }
}

impl fmt::Debug for Stated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stated({self})")
    }
}

impl From<&Path> for Stated {
    fn from(place: &Path) -> Stated {
        Stated::new(place, None)
    }
}

impl From<&PathBuf> for Stated {
    fn from(place: &PathBuf) -> Stated {
        Stated::new(place, None)
    }
}

impl From<&Stated> for Stated {
    fn from(stated: &Stated) -> Stated {
        stated.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRETS: [&str; 8] = [
        "postgres://ana:pass word@db.example/cohort",
        "postgres://ana:p@ss/w?rd@db.example/cohort",
        "postgres://ana%3Apass@db.example/cohort",
        "postgresql://ana@db.example/cohort?password=pass",
        "postgres://db.example/cohort?sslmode=verify-full&sslpassword=pass",
        "s3://key:pass@bucket/cohort.parquet",
        "s3://bucket/cohort.parquet?aws_secret_access_key=pass",
        "s3://bucket/cohort.parquet?aws_session_token=pass",
    ];

    #[test]
    fn a_password_in_an_address_is_found_and_never_shown() {
        for text in SECRETS {
            assert!(holds_secret(Path::new(text)), "{text}");
            let stated = Stated::from(Path::new(text));
            for shown in [stated.to_string(), format!("{stated:?}")] {
                assert!(!shown.contains("pass") && !shown.contains("p@ss"), "{shown}");
            }
        }
        for text in [
            "postgres://ana@db.example:5432/cohort?passfile=/home/ana/.pgpass",
            "s3://bucket/a:b/c.parquet",
            "a:b@c/d.csv",
        ] {
            assert!(!holds_secret(Path::new(text)), "{text}");
        }
    }

    #[test]
    fn letters_that_an_address_cannot_have_are_written_as_their_numbers() {
        for (text, plain) in [("a%20b", "a b"), ("%C3%A4", "ä"), ("100%", "100%"), ("%zz", "%zz"), ("%ff", "%ff")] {
            assert_eq!(unescaped(text), plain);
        }
    }
}
