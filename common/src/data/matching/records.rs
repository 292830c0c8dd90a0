//! One party's records: canonical values, who takes part in a pass, and what is compared.

use std::cmp::Ordering;
use std::hash::{DefaultHasher, Hasher};

use rayon::prelude::*;

use super::keys::{Cut, Duplicates, Keys, Kind, Pass, Rules};
use super::normalise::{Canonical, canonical};
use super::reading::{Cells, Reading, Source};
use super::spread;
use crate::data::align::Mask;
use crate::data::{Ids, MAX_ROWS};
use crate::id::Digest;

/// The canonical values of a party's records.
#[derive(Clone)]
pub struct Records {
    keys: Keys,
    columns: Vec<Column>,
    rows: usize,
}

/// The values of one key.
#[derive(Clone)]
struct Column {
    /// Empty where there is no value.
    values: Ids,
    invalid: Mask,
    /// The first record whose cell is invalid, with the cell, for the local terminal.
    first_invalid: Option<(u32, String)>,
}

impl Records {
    /// Makes the canonical forms of all cells, a column for each key of the study, in the study's order.
    ///
    /// # Errors
    /// The columns are not those of the keys, or are read as something that their keys are not.
    pub fn normalise(keys: &Keys, columns: Vec<(Source, Cells)>) -> Result<Records, RecordsError> {
        if columns.len() != keys.keys().len() {
            return Err(RecordsError::Columns { came: columns.len(), expected: keys.keys().len() });
        }
        let rows = columns.first().map_or(0, |(_, cells)| cells.len());
        if rows > MAX_ROWS {
            return Err(RecordsError::TooMany { most: MAX_ROWS });
        }
        let mut made = Vec::new();
        for (key, (source, cells)) in keys.keys().iter().zip(columns) {
            if cells.len() != rows {
                return Err(RecordsError::Length { key: key.name.clone(), came: cells.len(), expected: rows });
            }
            check_reading(&key.name, &key.kind, &source.reading)?;
            if let (Kind::Identifier { .. }, Reading::Text) = (&key.kind, &source.reading)
                && let Some(example) = decimals(&cells)
            {
                return Err(RecordsError::Decimals { key: key.name.clone(), example });
            }
            let mut column = Column { values: Ids::default(), invalid: Mask::new(rows), first_invalid: None };
            for (row, cell) in cells.iter().enumerate() {
                match canonical(key, &source, cell) {
                    Canonical::Value(value) => column.values.push(value.as_bytes()),
                    Canonical::Missing => column.values.push(b""),
                    Canonical::Invalid => {
                        column.values.push(b"");
                        column.invalid.set(row);
                        let shown = || String::from_utf8_lossy(cell).chars().take(SHOWN).collect();
                        column.first_invalid.get_or_insert_with(|| (row as u32, shown()));
                    }
                }
            }
            made.push(column);
        }
        Ok(Records { keys: keys.clone(), columns: made, rows })
    }

    /// How many records.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Keys and passes.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// The canonical value of a key, by its position in the study; none where it is missing or invalid. For the local terminal.
    pub fn value(&self, key: usize, record: usize) -> Option<&str> {
        let value = std::str::from_utf8(self.columns.get(key)?.values.bytes(record)).ok()?;
        (!value.is_empty()).then_some(value)
    }

    /// How many cells of a key are missing, and how many invalid.
    pub fn lacking(&self, key: usize) -> (u64, u64) {
        let Some(column) = self.columns.get(key) else { return (0, 0) };
        let invalid = column.invalid.count() as u64;
        let empty = column.values.iter().filter(|value| value.is_empty()).count() as u64;
        (empty - invalid, invalid)
    }

    /// The first record whose cell of a key is invalid, from 0, with the cell as it stands. For the local terminal only.
    pub fn first_invalid(&self, key: usize) -> Option<(u32, &str)> {
        self.columns.get(key)?.first_invalid.as_ref().map(|(row, cell)| (*row, cell.as_str()))
    }

    /// Which records take part in a pass when those of `matched` are known already.
    pub fn eligible(&self, pass: &Pass, matched: &Mask) -> Eligible {
        self.eligible_by(pass, matched, |row| {
            // Nothing depends on who could find keys with the same hash: they are compared themselves.
            let mut hash = DefaultHasher::new();
            for part in self.parts(pass, row) {
                hash.write_usize(part.len());
                hash.write(part);
            }
            hash.finish()
        })
    }

    /// The same with a hash that brings records with equal keys together.
    fn eligible_by(&self, pass: &Pass, matched: &Mask, hash: impl Fn(u32) -> u64 + Sync) -> Eligible {
        let (mut counts, mut complete) = (OwnCounts::default(), Vec::new());
        for row in 0..self.rows {
            let (mut missing, mut invalid) = (false, false);
            for part in &pass.parts {
                let column = &self.columns[part.key];
                if column.values.bytes(row).is_empty() {
                    *(if column.invalid.is_set(row) { &mut invalid } else { &mut missing }) = true;
                }
            }
            if !missing && !invalid {
                complete.push(row as u32);
            } else if !matched.is_set(row) {
                *(if missing { &mut counts.missing } else { &mut counts.invalid }) += 1;
            }
        }
        // A hash with the row below it is one number, which is compared in two instructions.
        let mut hashed: Vec<u128> =
            complete.into_par_iter().map(|row| u128::from(hash(row)) << u32::BITS | u128::from(row)).collect();
        spread::sort(&mut hashed, |hashed| (hashed >> 64) as u32, |hashed| *hashed);
        let (mut alone, mut repeats, mut first_repeat) = (Mask::new(self.rows), Repeats::default(), None);
        let mut add = |rows: &[u32]| {
            repeats.count(rows.len());
            match rows {
                [row] if !matched.is_set(*row as usize) => alone.set(*row as usize),
                [first, second, ..] => {
                    counts.ambiguous += rows.iter().filter(|row| !matched.is_set(**row as usize)).count() as u64;
                    first_repeat = first_repeat.into_iter().chain([[*first, *second]]).min();
                }
                [] | [_] => {}
            }
        };
        for group in hashed.chunk_by(|a, b| a >> u32::BITS == b >> u32::BITS) {
            if let [one] = group {
                add(&[*one as u32]);
                continue;
            }
            let mut rows: Vec<u32> = group.iter().map(|hashed| *hashed as u32).collect();
            if rows.iter().any(|row| self.compare(pass, rows[0], *row).is_ne()) {
                rows.sort_by(|a, b| self.compare(pass, *a, *b));
            }
            rows.chunk_by(|a, b| self.compare(pass, *a, *b).is_eq()).for_each(&mut add);
        }
        drop(hashed);
        let records: Vec<u32> = (0..self.rows as u32).filter(|row| alone.is_set(*row as usize)).collect();
        counts.eligible = records.len() as u64;
        Eligible { records, counts, repeats, first_repeat }
    }

    /// What the records of a pass are compared by, in a match with this digest.
    pub fn messages<'a>(&'a self, pass: &'a Pass, match_digest: &Digest) -> Messages<'a> {
        let mut prefix = Vec::new();
        for bytes in [b"fedreg match key".as_slice(), &match_digest.0, pass.name.as_bytes()] {
            field(bytes, &mut prefix);
        }
        prefix.extend_from_slice(&(pass.parts.len() as u64).to_le_bytes());
        Messages { records: self, pass, prefix }
    }

    /// The parts of a record's composite key.
    fn parts<'a>(&'a self, pass: &'a Pass, row: u32) -> impl Iterator<Item = &'a [u8]> {
        pass.parts.iter().map(move |part| cut(self.columns[part.key].values.bytes(row as usize), part.cut))
    }

    /// The composite keys of two records.
    fn compare(&self, pass: &Pass, one: u32, other: u32) -> Ordering {
        self.parts(pass, one).cmp(self.parts(pass, other))
    }
}

/// Sizes only: the values are data.
impl std::fmt::Debug for Records {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Records({} of {} keys)", self.rows, self.columns.len())
    }
}

/// Characters of a cell that are shown.
const SHOWN: usize = 40;
/// Characters of the year in the canonical form of a date.
const YEAR: u32 = 4;

/// The beginning of a canonical value, which is text.
fn cut(value: &[u8], cut: Cut) -> &[u8] {
    let characters = match cut {
        Cut::Whole => return value,
        Cut::First(characters) => characters,
        Cut::Year => YEAR,
    };
    let begins = |byte: &u8| byte & 0xc0 != 0x80;
    let behind = value.iter().enumerate().filter(|(_, byte)| begins(byte)).nth(characters as usize);
    &value[..behind.map_or(value.len(), |(at, _)| at)]
}

fn field(bytes: &[u8], into: &mut Vec<u8>) {
    into.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    into.extend_from_slice(bytes);
}

fn check_reading(key: &str, kind: &Kind, reading: &Reading) -> Result<(), RecordsError> {
    let problem = match (kind, reading) {
        (Kind::Name { .. } | Kind::Identifier { .. }, Reading::Text)
        | (Kind::Date { .. }, Reading::Date(_))
        | (Kind::Code { .. }, Reading::Text) => return Ok(()),
        (Kind::Code { levels }, Reading::Code(map)) => match map.iter().find(|(_, level)| !levels.contains(level)) {
            Some((own, level)) => format!("`{own}` becomes `{level}`, which is no level of the study"),
            None => return Ok(()),
        },
        (Kind::Date { .. }, Reading::Text | Reading::Code(_)) => {
            "a date needs its format, such as `format = \"%d.%m.%Y\"`".to_owned()
        }
        (kind, Reading::Date(_)) => format!("a {} has no format of a date", kind.name()),
        (kind, Reading::Code(_)) => format!("a {} has no levels", kind.name()),
    };
    Err(RecordsError::Reading { key: key.to_owned(), problem })
}

/// The messages of the records of one pass.
pub struct Messages<'a> {
    records: &'a Records,
    pass: &'a Pass,
    prefix: Vec<u8>,
}

impl Messages<'_> {
    /// Appends the message of a record.
    pub fn write(&self, record: u32, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.prefix);
        self.write_rest(record, into);
    }

    /// How the messages of all records begin.
    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// Appends the message of a record without that.
    pub fn write_rest(&self, record: u32, into: &mut Vec<u8>) {
        self.records.parts(self.pass, record).for_each(|part| field(part, into));
    }

    /// Bytes of the message of a record.
    pub fn length(&self, record: u32) -> usize {
        self.records.parts(self.pass, record).fold(self.prefix.len(), |sum, part| sum + size_of::<u64>() + part.len())
    }
}

/// The records that take part in a pass.
#[derive(Clone, PartialEq)]
pub struct Eligible {
    /// Their numbers from 0, ascending.
    pub records: Vec<u32>,
    /// What became of all that were not matched before.
    pub counts: OwnCounts,
    /// How many keys stand once, twice and three times in the table.
    pub repeats: Repeats,
    /// The first two records with the same key, from 0.
    pub first_repeat: Option<[u32; 2]>,
}

impl Eligible {
    /// How many links between different persons are to be expected at most with a peer who has up to this number of records with complete
    /// keys, if keys are spread there as they are here and nobody is in both tables.
    pub fn expected_false_links(&self, peer: u64) -> f64 {
        self.counts.eligible as f64 * self.repeats.linked(peer as f64)
    }

    /// Refuses repeats where the study says so.
    ///
    /// # Errors
    /// Records share a key. Names records, for the local terminal only.
    pub fn refuse_repeats(&self, rules: &Rules, pass: usize) -> Result<(), RecordsError> {
        match self.first_repeat {
            Some([a, b]) if pass == 0 && rules.duplicates == Duplicates::Refuse => Err(RecordsError::Repeats {
                pass: rules.keys.passes()[pass].name.clone(),
                count: self.counts.ambiguous,
                first: a + 1,
                second: b + 1,
            }),
            _ => Ok(()),
        }
    }
}

/// How often keys stand in a table, of the records whose key is complete, matched or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Repeats {
    /// Records.
    pub records: u64,
    /// Keys that stand once, twice and three times.
    pub keys: [u64; 3],
}

impl Repeats {
    fn count(&mut self, group: usize) {
        self.records += group as u64;
        if let Some(keys) = group.checked_sub(1).and_then(|at| self.keys.get_mut(at)) {
            *keys += 1;
        }
    }

    /// The probability that another table of up to this number of other persons has the key of a record that is alone with it here, once.
    ///
    /// Such a key has the mean `2 f2 / f1` and the mean square `6 f3 / f1` of how many records are to be expected with it in a table of
    /// this size (Good 1953, equation 12, with `f` keys once, twice and three times). Taking the distribution between them to be a gamma
    /// distribution, or a point where the variance is not positive, the number of records in a table `t` times as large is Poisson mixed
    /// over it. The probability of one record rises until there are about as many records as keys, and falls then: the largest up to `t`.
    fn linked(&self, peer: f64) -> f64 {
        let [once, twice, thrice] = self.keys.map(|keys| keys as f64);
        if once == 0.0 || twice == 0.0 {
            return 0.0;
        }
        let (mean, square) = (2.0 * twice / once, 6.0 * thrice / once);
        let times = (peer / self.records as f64).min(1.0 / mean);
        let (expected, ratio) = (times * mean, (square - mean * mean) / mean);
        match ratio > 0.0 {
            true => expected * (1.0 + times * ratio).powf(-(mean / ratio + 1.0)),
            false => expected * (-expected).exp(),
        }
    }
}

/// Sizes only: which records take part is data.
impl std::fmt::Debug for Eligible {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Eligible({:?})", self.counts)
    }
}

/// What became of the own records of a pass that no earlier pass matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OwnCounts {
    /// They take part.
    pub eligible: u64,
    /// Another own record has the same key.
    pub ambiguous: u64,
    /// A part of the key is missing.
    pub missing: u64,
    /// No part is missing, but one is invalid.
    pub invalid: u64,
}

/// A whole number with a decimal point and zeros, where most values of a column are such numbers.
fn decimals(cells: &Cells) -> Option<String> {
    let is_decimal = |cell: &[u8]| {
        let Some(point) = cell.iter().position(|byte| *byte == b'.') else { return false };
        let (whole, zeros) = (&cell[..point], &cell[point + 1..]);
        let digits = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
        digits(whole.strip_prefix(b"-").unwrap_or(whole)) && digits(zeros) && zeros.iter().all(|zero| *zero == b'0')
    };
    let trimmed = || cells.iter().map(<[u8]>::trim_ascii).filter(|cell| !cell.is_empty());
    let example = trimmed().find(|cell| is_decimal(cell))?;
    let count = trimmed().filter(|cell| is_decimal(cell)).count();
    (2 * count > trimmed().count()).then(|| String::from_utf8_lossy(example).chars().take(SHOWN).collect())
}

/// Records that cannot be matched. For the local terminal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordsError {
    /// Other columns than the study has keys; a fault of the caller.
    #[error("{came} columns for {expected} keys")]
    Columns {
        /// How many came.
        came: usize,
        /// How many keys there are.
        expected: usize,
    },
    /// Columns of different lengths; a fault of the caller.
    #[error("the column of key `{key}` has {came} cells, expected {expected}")]
    Length {
        /// The key.
        key: String,
        /// Its cells.
        came: usize,
        /// Cells of the first column.
        expected: usize,
    },
    /// More records than can be numbered.
    #[error("more than {most} records")]
    TooMany {
        /// Most records.
        most: usize,
    },
    /// A column that is read as something that its key is not.
    #[error("key `{key}`: {problem}")]
    Reading {
        /// The key.
        key: String,
        /// What is wrong.
        problem: String,
    },
    /// Identifiers that some program wrote as decimal numbers. Without punctuation they would be those of others, ten times as large.
    #[error(
        "key `{key}`: most of its values are whole numbers with a decimal point, such as `{example}`; identifiers are compared without \
         punctuation, and it would be another one: write them without the point"
    )]
    Decimals {
        /// The key.
        key: String,
        /// One of the values.
        example: String,
    },
    /// Records that share a key of the first pass.
    #[error(
        "pass `{pass}`: {count} records share their key with another record, the first are records {first} and {second}; remove repeats, or agree on `match.duplicates = \"exclude\"`"
    )]
    Repeats {
        /// The pass.
        pass: String,
        /// How many records share a key.
        count: u64,
        /// The number of the first of them, from 1.
        first: u32,
        /// The number of the next one with the same key, from 1.
        second: u32,
    },
}

#[cfg(test)]
mod tests;
