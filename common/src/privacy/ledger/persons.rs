//! Persons as a ledger knows them: by keyed digests.

use std::borrow::Cow;
use std::fmt;

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};

use super::{LedgerError, hexadecimal};

/// Stands in place of digests where it is not known whose rows they are; no list of digests has this length.
const ANYONE: &[u8] = b"anyone";

/// Keyed digests of the persons of a data set, sorted.
#[derive(Clone, PartialEq, Eq)]
pub struct PersonDigests {
    digests: Vec<[u8; 16]>,
    /// The same of the ids as they are written, where that makes a difference: ledgers of earlier versions hold those.
    written: Option<Vec<[u8; 16]>>,
    rows: u64,
    rows_per_person: u32,
    anyone: bool,
}

/// A digest (HMAC-SHA-256) of parts, one after the other, that only who has the key can make.
pub fn keyed(key: &[u8; 32], parts: &[&[u8]]) -> [u8; 32] {
    let mut code = start(key);
    parts.iter().for_each(|part| code.update(part));
    code.finalize().into_bytes().into()
}

fn start(key: &[u8; 32]) -> Hmac<Sha256> {
    // Unwrap safety: HMAC takes keys of any length.
    #[allow(clippy::expect_used)]
    Hmac::<Sha256>::new_from_slice(key).expect("any key length")
}

/// An identifier as persons are told apart by it: one that is a whole number counts by its value, whatever its sign +, leading
/// zeros, spaces around it and zeros behind a decimal point, as `007` of a CSV file is 7 in a Parquet file and 7.0 where a
/// value is missing in the column. Every other one counts as it is written. Rows are matched by ids as they are written.
pub fn canonical_id(id: &[u8]) -> Cow<'_, [u8]> {
    let text = id.trim_ascii();
    let (negative, text) = match text.split_first() {
        Some((b'-', rest)) => (true, rest),
        Some((b'+', rest)) => (false, rest),
        _ => (false, text),
    };
    let point = text.iter().position(|byte| *byte == b'.').unwrap_or(text.len());
    let (whole, rest) = text.split_at(point);
    let is_whole =
        !whole.is_empty() && whole.iter().all(u8::is_ascii_digit) && rest.iter().skip(1).all(|byte| *byte == b'0');
    if !is_whole {
        return Cow::Borrowed(id);
    }
    match whole.iter().position(|digit| *digit != b'0') {
        None => Cow::Borrowed(b"0"),
        Some(first) if negative => Cow::Owned([b"-".as_slice(), &whole[first..]].concat()),
        Some(first) => Cow::Borrowed(&whole[first..]),
    }
}

/// Digests identifiers one after the other, in 16 bytes of memory each.
pub struct PersonDigester {
    code: Hmac<Sha256>,
    digests: Vec<[u8; 16]>,
    written: Option<Vec<[u8; 16]>>,
}

impl PersonDigester {
    /// With a ledger's key.
    pub fn new(key: &[u8; 32]) -> PersonDigester {
        PersonDigester { code: start(key), digests: Vec::new(), written: None }
    }

    /// The identifier of the next row.
    pub fn push(&mut self, identifier: &[u8]) {
        let value = canonical_id(identifier);
        let digest = self.digest(&value);
        if *value != *identifier {
            // Up to here there was no difference.
            self.written.get_or_insert_with(|| self.digests.clone());
        }
        if self.written.is_some() {
            let as_written = self.digest(identifier);
            self.written.get_or_insert_default().push(as_written);
        }
        self.digests.push(digest);
    }

    /// A digest of each row so far, in order.
    pub fn rows(&self) -> &[[u8; 16]] {
        &self.digests
    }

    fn digest(&self, identifier: &[u8]) -> [u8; 16] {
        let full = self.code.clone().chain_update(identifier).finalize().into_bytes();
        let mut short = [0; 16];
        short.copy_from_slice(&full[..16]);
        short
    }

    /// The persons of all rows; each may have at most `rows_per_person` of them.
    ///
    /// # Errors
    ///
    /// More rows of one person than declared.
    pub fn finish(self, rows_per_person: u32) -> Result<PersonDigests, LedgerError> {
        let mut digests = self.digests;
        let rows = digests.len() as u64;
        digests.sort_unstable();
        let most = digests.chunk_by(|left, right| left == right).map(|run| run.len() as u64).max().unwrap_or(0);
        if most > u64::from(rows_per_person) {
            return Err(LedgerError::RowsPerPerson { declared: rows_per_person, found: most });
        }
        digests.dedup();
        let written = self.written.map(|mut written| {
            written.sort_unstable();
            written.dedup();
            written
        });
        Ok(PersonDigests { digests, written, rows, rows_per_person, anyone: false })
    }
}

// Not even digests in a log.
impl fmt::Debug for PersonDigester {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "PersonDigester({} rows)", self.digests.len())
    }
}

impl PersonDigests {
    /// Digests the identifiers of all rows; a person may have at most `rows_per_person` of them.
    ///
    /// # Errors
    ///
    /// More rows of one person than declared.
    pub fn new<I: AsRef<[u8]>>(
        key: &[u8; 32],
        identifiers: impl IntoIterator<Item = I>,
        rows_per_person: u32,
    ) -> Result<PersonDigests, LedgerError> {
        let mut digester = PersonDigester::new(key);
        identifiers.into_iter().for_each(|identifier| digester.push(identifier.as_ref()));
        digester.finish(rows_per_person)
    }

    /// The persons of rows of which the digests are known, each with any number of them.
    pub fn of_rows(rows: impl IntoIterator<Item = [u8; 16]>) -> PersonDigests {
        let mut digests: Vec<[u8; 16]> = rows.into_iter().collect();
        let rows = digests.len() as u64;
        digests.sort_unstable();
        digests.dedup();
        PersonDigests { digests, written: None, rows, rows_per_person: u32::MAX, anyone: false }
    }

    /// Persons who are not known, as those of a stream before it comes: they may be anybody, so they are shared with every data set.
    pub fn anyone() -> PersonDigests {
        PersonDigests { digests: Vec::new(), written: None, rows: 1, rows_per_person: 1, anyone: true }
    }

    pub(super) fn count(&self) -> u64 {
        self.digests.len() as u64
    }

    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    pub(super) fn rows_per_person(&self) -> u32 {
        self.rows_per_person
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        if self.anyone { ANYONE.to_vec() } else { self.digests.concat() }
    }

    /// The name of these persons, all together.
    pub(super) fn digest(&self) -> String {
        digest(&self.bytes())
    }

    /// Whether this is the name of these persons, now or in earlier versions.
    pub(super) fn are(&self, persons_digest: &str) -> bool {
        let as_written = || self.written.as_ref().is_some_and(|written| digest(&written.concat()) == persons_digest);
        self.digest() == persons_digest || as_written()
    }

    pub(super) fn are_anyone(&self) -> bool {
        self.anyone
    }

    /// How many persons are here or among the others, and not in both.
    pub(super) fn differing(&self, other: &[u8]) -> u64 {
        self.count() + other.as_chunks::<16>().0.len() as u64 - 2 * self.common(other)
    }

    /// How many persons are here and among the others.
    pub(super) fn common(&self, other: &[u8]) -> u64 {
        let (others, _) = other.as_chunks::<16>();
        let mut rest = others.iter().peekable();
        let mut common = 0;
        for digest in &self.digests {
            while rest.next_if(|other| *other < digest).is_some() {}
            common += u64::from(rest.next_if_eq(&digest).is_some());
        }
        common
    }

    pub(super) fn shares_any(&self, other: &[u8]) -> bool {
        if self.anyone || other == ANYONE {
            return true;
        }
        let (others, _) = other.as_chunks::<16>();
        [Some(&self.digests), self.written.as_ref()].into_iter().flatten().any(|digests| {
            let mut others = others.iter().peekable();
            digests.iter().any(|digest| {
                while others.next_if(|other| *other < digest).is_some() {}
                others.peek() == Some(&digest)
            })
        })
    }
}

fn digest(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

/// Whether a digest of persons is that of persons who are not known.
pub(super) fn is_anyone(persons_digest: &str) -> bool {
    persons_digest == digest(ANYONE)
}

// Not even digests in a log.
impl fmt::Debug for PersonDigests {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.anyone {
            true => write!(formatter, "PersonDigests(anyone)"),
            false => write!(formatter, "PersonDigests({} persons, {} rows)", self.digests.len(), self.rows),
        }
    }
}
