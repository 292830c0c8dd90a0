//! How a file writes what is missing, and its decimals.

use super::cell::{is_missing, number, trimmed};
use super::error::shown;

/// Most words for a missing value, so that looking them up costs nothing beside reading a cell.
const MOST: usize = 100;

/// What marks a missing value beside an empty cell and `NA`, and whether decimals have a comma.
///
/// The words are compared as text, without the white space around them: `-9` marks `-9` and not `-9.0`. A table whose cells are
/// numbers and no text holds neither: there the number marks a missing value that the word is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Marks {
    missing: Vec<Vec<u8>>,
    /// The bits of the numbers among the words.
    numbers: Vec<u64>,
    comma: bool,
}

/// Marks that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MarksError {
    /// More words than anybody needs.
    #[error("has more than {MOST} words for a missing value")]
    TooMany,
    /// A word with a line break, which no cell can be.
    #[error("has `{}`, which no cell can be", shown(.0))]
    Control(String),
    /// A decimal sign other than a point or a comma.
    #[error("is `{}`, expected `.` or `,`", shown(.0))]
    Decimal(String),
}

impl Marks {
    /// Marks with these words for a missing value, and this decimal sign; a point if absent.
    ///
    /// # Errors
    ///
    /// A word that no cell can be, too many of them, or another sign than a point or a comma.
    pub fn new(missing: &[String], decimal: Option<&str>) -> Result<Marks, MarksError> {
        if missing.len() > MOST {
            return Err(MarksError::TooMany);
        }
        if let Some(odd) = missing.iter().find(|word| word.chars().any(char::is_control)) {
            return Err(MarksError::Control(odd.clone()));
        }
        let comma = match decimal {
            None | Some(".") => false,
            Some(",") => true,
            Some(other) => return Err(MarksError::Decimal(other.to_owned())),
        };
        let mut words: Vec<Vec<u8>> = missing.iter().map(|word| word.trim().as_bytes().to_vec()).collect();
        words.sort();
        words.dedup();
        let numbers = words.iter().filter_map(|word| number(word, comma)).map(bits).collect();
        Ok(Marks { missing: words, numbers, comma })
    }

    /// Whether a cell stands for a missing value.
    pub fn is_missing(&self, cell: &[u8]) -> bool {
        is_missing(cell) || self.names(cell)
    }

    /// Whether it is one of the declared words.
    #[inline]
    pub(super) fn names(&self, cell: &[u8]) -> bool {
        !self.missing.is_empty() && self.missing.iter().any(|word| word == trimmed(cell))
    }

    /// Whether numbers of a typed table can stand for a missing value.
    #[inline]
    pub(super) fn has_numbers(&self) -> bool {
        !self.numbers.is_empty()
    }

    /// Whether a number of a typed table is one of the declared words.
    #[inline]
    pub(super) fn names_number(&self, value: f64) -> bool {
        self.has_numbers() && self.numbers.contains(&bits(value))
    }

    /// Whether decimals have a comma.
    pub(super) fn comma(&self) -> bool {
        self.comma
    }
}

/// One for both zeros.
fn bits(value: f64) -> u64 {
    (value + 0.0).to_bits()
}
