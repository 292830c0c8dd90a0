//! How one party's table writes the values of a key.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use super::keys::Date;
use crate::data::{Ids, Marks};

/// The cells of one key as text, in the order of the records.
pub type Cells = Ids;

/// Where a party finds a key, and how the value is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The column's header in the party's own table.
    pub column: String,
    /// How a cell is read.
    pub reading: Reading,
    /// What stands for a missing value, beside an empty cell and `NA`.
    pub missing: Marks,
}

/// How a cell is read. It must fit the kind of its key: dates have a format, codes a map; names and identifiers are text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading {
    /// As it stands.
    Text,
    /// A day in this format.
    Date(Format),
    /// Own value to declared level. A value that is not in the map must be a level itself.
    Code(BTreeMap<String, String>),
}

/// The format of a date: `%d`, `%m` and `%Y`, each once, and what stands between them.
#[derive(Clone, PartialEq, Eq)]
pub struct Format {
    written: String,
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece {
    Day,
    Month,
    Year,
    Literal(char),
}

/// What stands behind the day of a timestamp without a time zone, as typed columns are read, where it means a day.
const MIDNIGHT: &str = "T00:00:00";

/// A format that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// Years of two digits, whose century would be guessed.
    #[error("`{0}` has years of two digits, whose century nobody knows; write out the years and use `%Y`")]
    TwoDigits(String),
    /// Another placeholder.
    #[error("`{format}` has `%{letter}`; a format has `%d`, `%m` and `%Y`, each once")]
    Unknown {
        /// The format.
        format: String,
        /// The letter.
        letter: char,
    },
    /// Day, month or year missing or there twice.
    #[error("`{0}` is no format of a date: it needs `%d`, `%m` and `%Y`, each once, such as `%d.%m.%Y`")]
    Incomplete(String),
}

impl FromStr for Format {
    type Err = FormatError;

    fn from_str(written: &str) -> Result<Format, FormatError> {
        let mut pieces = Vec::new();
        let mut letters = written.chars();
        while let Some(letter) = letters.next() {
            pieces.push(match letter {
                '%' => match letters.next() {
                    Some('d') => Piece::Day,
                    Some('m') => Piece::Month,
                    Some('Y') => Piece::Year,
                    Some('y') => return Err(FormatError::TwoDigits(written.to_owned())),
                    Some(letter) => return Err(FormatError::Unknown { format: written.to_owned(), letter }),
                    None => return Err(FormatError::Incomplete(written.to_owned())),
                },
                literal if literal.is_ascii_digit() || literal.is_control() => {
                    return Err(FormatError::Incomplete(written.to_owned()));
                }
                literal => Piece::Literal(literal),
            });
        }
        let once = |wanted| pieces.iter().filter(|piece| **piece == wanted).count() == 1;
        match once(Piece::Day) && once(Piece::Month) && once(Piece::Year) {
            true => Ok(Format { written: written.to_owned(), pieces }),
            false => Err(FormatError::Incomplete(written.to_owned())),
        }
    }
}

impl Format {
    /// The day that a text is; none if it is not written in this format, or does not exist. A day or month may have one digit where
    /// it stands beside neither of the other two. A timestamp without a time zone, as Parquet files have days from data frames, is
    /// its day at midnight alone.
    pub fn parse(&self, text: &str) -> Option<Date> {
        let mut rest = text.trim();
        let (mut year, mut month, mut day) = (0, 0, 0);
        for (at, piece) in self.pieces.iter().enumerate() {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let is_number = |piece: Option<&Piece>| !matches!(piece, None | Some(Piece::Literal(_)));
            let packed = is_number(self.pieces.get(at + 1)) || (at > 0 && is_number(self.pieces.get(at - 1)));
            let mut number = |fewest: usize, most: usize| {
                let length = digits.min(most);
                let (number, behind) = rest.split_at_checked(length).filter(|_| length >= fewest)?;
                rest = behind;
                number.parse::<u16>().ok()
            };
            let fewest = if packed { 2 } else { 1 };
            match piece {
                Piece::Day => day = number(fewest, 2)?,
                Piece::Month => month = number(fewest, 2)?,
                Piece::Year => year = number(4, 4)?,
                Piece::Literal(literal) => rest = rest.strip_prefix(*literal)?,
            }
        }
        // Two digits are at most 99.
        Date::new(year, month as u8, day as u8).filter(|_| rest.is_empty() || rest == MIDNIGHT)
    }
}

/// As it was written.
impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

/// As it was written.
impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Format({})", self.written)
    }
}
