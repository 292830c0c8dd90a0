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

/// Stands for an address of which nothing can be shown.
const HIDDEN: &str = "(an address with a password)";

/// Whether an address holds a password or a key, which belong neither into a private file nor onto a command line.
pub(crate) fn holds_secret(place: &Path) -> bool {
    let text = place.to_string_lossy();
    let Some((_, rest)) = text.split_once("://") else { return is_secret(&text) };
    let address = rest.split_once('?').map_or(rest, |(address, _)| address);
    let authority = rest.split_once('/').map_or(rest, |(authority, _)| authority);
    // Up to the last `@`: a password may hold any letter, `?` and `/` too.
    let names =
        |part: &str| part.rsplit_once('@').is_some_and(|(who, _)| who.contains(':') || unescaped(who).contains(':'));
    is_secret(&text) || names(address) || names(authority)
}

/// Whether an address holds a secret whose ends cannot be told.
fn is_secret(text: &str) -> bool {
    names_password(text) || is_bare(text) || has_secret_term(text)
}

/// Whether a word says that a password follows, as in connection strings of libpq (`host=db password=...`) and ODBC.
fn names_password(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    text.match_indices('=').any(|(at, _)| {
        let before = text[..at].trim_end();
        ["password", "passwd", "pwd"].iter().any(|word| before.ends_with(word))
    })
}

/// Whether this is `postgres:` without slashes, after which a password is as usual as after `postgres://`. It may have been taken
/// for a relative path and been made absolute.
fn is_bare(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    ["postgres:", "postgresql:"].iter().any(|beginning| {
        text.match_indices(beginning).any(|(at, _)| {
            let (before, after) = (&text[..at], &text[at + beginning.len()..]);
            match before.is_empty() {
                true => !after.starts_with("//"),
                false => before.ends_with(['/', '\\']) && !before.contains("://"),
            }
        })
    })
}

/// Whether a term behind `?` is a secret by its key.
fn has_secret_term(text: &str) -> bool {
    let terms = text.split_once("://").and_then(|(_, rest)| rest.split_once('?'));
    terms.is_some_and(|(_, terms)| {
        terms.split(['&', ';']).any(|term| {
            let key = unescaped(term.split_once('=').map_or(term, |(key, _)| key)).to_ascii_lowercase();
            ["pass", "secret", "token", "pwd"].iter().any(|word| key.contains(word)) && key != "passfile"
        })
    })
}

/// An address without who asks and how, which is where a password would stand.
fn without_secrets(place: &Path) -> String {
    let text = place.to_string_lossy();
    if is_secret(&text) {
        return HIDDEN.to_owned();
    }
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

    const SECRETS: [&str; 21] = [
        "postgres://ana:pass word@db.example/cohort",
        "postgres://ana:p@ss/w?rd@db.example/cohort",
        "postgres://ana%3Apass@db.example/cohort",
        "postgresql://ana@db.example/cohort?password=pass",
        "postgres://db.example/cohort?sslmode=verify-full&sslpassword=pass",
        "s3://key:pass@bucket/cohort.parquet",
        "s3://bucket/cohort.parquet?aws_secret_access_key=pass",
        "s3://bucket/cohort.parquet?aws_session_token=pass",
        "s3://bucket/cohort.parquet?aws_secret_access_key=x@pass",
        // As libpq, ODBC and JDBC have them, also where they were taken for a relative path.
        "host=db.example user=ana password=geheim dbname=x",
        "/home/ana/host=db.example user=ana PASSWORD = 'geheim' dbname=x",
        "postgresql://host=db.example user=ana passwd=gehe@im",
        "Driver=PostgreSQL;Server=db.example;Uid=ana;Pwd=geheim",
        "password=geheim://x",
        "jdbc:sqlserver://db.example;user=ana;password=ge@heim",
        "jdbc:postgresql://db.example/x?user=ana&password=geheim",
        "postgres:ana:geheim@db/x",
        "POSTGRESQL:ana:geheim://@db/x",
        "/home/ana/postgres:ana:geheim@db/x",
        "postgres:/ana:geheim@db/x",
        "postgres://ana:ge?heim@db/x",
    ];

    #[test]
    fn a_password_in_an_address_is_found_and_never_shown() {
        for text in SECRETS {
            assert!(holds_secret(Path::new(text)), "{text}");
            let stated = Stated::from(Path::new(text));
            for shown in [stated.to_string(), format!("{stated:?}")] {
                let shown = shown.replace(HIDDEN, "");
                assert!(!["pass", "p@ss", "gehe", "heim"].iter().any(|part| shown.contains(part)), "{shown}");
            }
        }
        for text in [
            "postgres://ana@db.example:5432/cohort?passfile=/home/ana/.pgpass",
            "s3://bucket/a:b/c.parquet",
            "a:b@c/d.csv",
            "postgres://db.example/postgres:x",
            "s3://bucket/postgres:dump/year=2024/c.parquet",
            "/home/ana/passwords/postgres.csv",
            "year=2024/c.parquet",
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
