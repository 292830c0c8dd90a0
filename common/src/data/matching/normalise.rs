//! The canonical form of a cell.

use caseless::Caseless;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use super::keys::{Fold, Key, Kind};
use super::reading::{Reading, Source};
use crate::data::cell::trimmed;

/// The number of these rules. Both parties must have the same.
pub const NORMALISER: u32 = 1;

/// The versions of Unicode that canonical forms depend on, as `major << 16 | minor << 8 | update`: of the normal forms, of case folding, and of
/// letters and capitals. Both parties must have the same.
pub fn unicode() -> [u32; 3] {
    let packed = |major: u32, minor: u32, update: u32| major << 16 | minor << 8 | update;
    let (major, minor, update) = unicode_normalization::UNICODE_VERSION;
    let normal = packed(major.into(), minor.into(), update.into());
    // The crate has wider numbers, none of which is beyond 255.
    let (major, minor, update) = caseless::UNICODE_VERSION;
    let folding = packed(major as u32, minor as u32, update as u32);
    let (major, minor, update) = char::UNICODE_VERSION;
    [normal, folding, packed(major.into(), minor.into(), update.into())]
}

/// A cell in its canonical form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Canonical {
    /// What is compared.
    Value(String),
    /// The cell is empty, or says that the value is missing.
    Missing,
    /// The cell is no value of its key: outside the declared range, no such day, a level that is not declared, no letter or digit, no text.
    Invalid,
}

/// The canonical form of a cell of this key.
pub fn canonical(key: &Key, source: &Source, cell: &[u8]) -> Canonical {
    if source.missing.is_missing(cell) {
        return Canonical::Missing;
    }
    let Ok(text) = std::str::from_utf8(trimmed(cell)) else { return Canonical::Invalid };
    let value = match (&key.kind, &source.reading) {
        (Kind::Name { fold }, Reading::Text) => Some(name(text, *fold)),
        (Kind::Identifier { length }, Reading::Text) => Some(identifier(text))
            .filter(|value| length.is_none_or(|[lo, hi]| (lo as usize..=hi as usize).contains(&value.chars().count()))),
        (Kind::Date { earliest, latest }, Reading::Date(format)) => format
            .parse(text)
            .filter(|day| {
                earliest.is_none_or(|earliest| earliest <= *day) && latest.is_none_or(|latest| *day <= latest)
            })
            .map(|day| day.to_string()),
        (Kind::Code { levels }, Reading::Code(map)) => {
            let level = map.get(text).map_or(text, String::as_str);
            levels.iter().find(|known| *known == level).cloned()
        }
        (Kind::Code { levels }, Reading::Text) => levels.iter().find(|known| *known == text).cloned(),
        // Refused before any cell is read.
        (Kind::Name { .. } | Kind::Identifier { .. }, Reading::Date(_) | Reading::Code(_))
        | (Kind::Date { .. }, Reading::Text | Reading::Code(_))
        | (Kind::Code { .. }, Reading::Date(_)) => None,
    };
    value.filter(|value| !value.is_empty()).map_or(Canonical::Invalid, Canonical::Value)
}

/// A name without case, accents, spaces and punctuation.
fn name(text: &str, fold: Fold) -> String {
    if text.is_ascii() {
        return text.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect();
    }
    let folded: String = text.nfkc().default_case_fold().collect();
    let spelled: String = match fold {
        Fold::Plain => folded,
        Fold::German => {
            // Folding takes some letters apart.
            let mut spelled = String::new();
            for letter in folded.nfc() {
                match letter {
                    'ä' => spelled.push_str("ae"),
                    'ö' => spelled.push_str("oe"),
                    'ü' => spelled.push_str("ue"),
                    letter => spelled.push(letter),
                }
            }
            spelled
        }
    };
    let mut plain = String::new();
    // Only these marks: without all of them, scripts whose vowels are marks would lose their vowels.
    for letter in spelled.nfkd().filter(|letter| !('\u{300}'..='\u{36f}').contains(letter)) {
        match letter {
            'ß' => plain.push_str("ss"),
            'æ' => plain.push_str("ae"),
            'œ' => plain.push_str("oe"),
            'ø' => plain.push('o'),
            'ł' => plain.push('l'),
            'đ' | 'ð' => plain.push('d'),
            'ı' => plain.push('i'),
            'þ' => plain.push_str("th"),
            letter if letter.is_alphanumeric() || is_combining_mark(letter) => plain.push(letter),
            _ => {}
        }
    }
    plain.nfc().collect()
}

/// An identifier without case, spaces and punctuation.
fn identifier(text: &str) -> String {
    if text.is_ascii() {
        return text.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_uppercase()).collect();
    }
    text.nfkc().flat_map(char::to_uppercase).filter(|letter| letter.is_alphanumeric()).collect()
}

#[cfg(test)]
mod tests;
