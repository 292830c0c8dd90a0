//! What one cell of a text file says.

use super::{DataError, Marks, Place};

/// What one cell of a text file says.
pub(super) enum Cell {
    Missing,
    Number(f64),
    NotFinite,
    Overflow,
    Text,
}

/// Whether a cell marks a missing value in every file; [`Marks`] may declare more.
pub fn is_missing(cell: &[u8]) -> bool {
    matches!(trimmed(cell), b"" | b"NA")
}

/// Whether text is a number but for its commas, such as `1,5` or `-1,234.5`.
pub(super) fn number_with_comma(text: &str) -> bool {
    let digits = text.trim().trim_start_matches(['+', '-']);
    digits.contains(',')
        && digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.ends_with(|c: char| c.is_ascii_digit())
        && digits.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b',' | b'.'))
}

pub(super) fn trimmed(cell: &[u8]) -> &[u8] {
    cell.trim_ascii()
}

pub(super) fn truth(cell: &[u8]) -> Option<bool> {
    let cell = trimmed(cell);
    if cell.eq_ignore_ascii_case(b"true") {
        Some(true)
    } else if cell.eq_ignore_ascii_case(b"false") {
        Some(false)
    } else {
        None
    }
}

/// A number with a decimal comma as Rust reads it; `None` where a point stands in it, which could mean either.
fn with_point(cell: &[u8]) -> Option<String> {
    let mut text = std::str::from_utf8(cell).ok().filter(|text| !text.contains('.'))?.to_owned();
    if let Some(at) = text.find(',') {
        text.replace_range(at..=at, ".");
    }
    Some(text)
}

/// The number that a word is, with a comma for its decimals or a point.
pub(super) fn number(word: &[u8], comma: bool) -> Option<f64> {
    let text = if comma { with_point(word)? } else { std::str::from_utf8(word).ok()?.to_owned() };
    text.parse().ok().filter(|value: &f64| value.is_finite())
}

#[inline]
pub(super) fn read(cell: &[u8], marks: &Marks) -> Cell {
    let cell = trimmed(cell);
    let Some(&first) = cell.first() else {
        return Cell::Missing;
    };
    if marks.names(cell) {
        return Cell::Missing;
    }
    if marks.comma() && (first.is_ascii_digit() || matches!(first, b'-' | b'+' | b',' | b'.')) {
        return match with_point(cell).map(|text| text.parse::<f64>()) {
            Some(Ok(value)) if value.is_finite() => Cell::Number(value),
            Some(Ok(_)) if cell.iter().any(u8::is_ascii_digit) => Cell::Overflow,
            Some(Ok(_)) => Cell::NotFinite,
            _ => Cell::Text,
        };
    }
    if first.is_ascii_digit() || matches!(first, b'-' | b'+' | b'.') {
        let number = std::str::from_utf8(cell).ok().and_then(|text| text.parse::<f64>().ok());
        return match number {
            Some(value) if value.is_finite() => Cell::Number(value),
            Some(_) if cell.iter().any(u8::is_ascii_digit) => Cell::Overflow,
            Some(_) => Cell::NotFinite,
            None => Cell::Text,
        };
    }
    if cell == b"NA" {
        return Cell::Missing;
    }
    match [&b"nan"[..], b"inf", b"infinity"].iter().any(|word| cell.eq_ignore_ascii_case(word)) {
        true => Cell::NotFinite,
        false => Cell::Text,
    }
}

pub(super) fn utf8<'a>(column: &str, cell: &'a [u8], place: Place) -> Result<&'a str, DataError> {
    std::str::from_utf8(cell).map_err(|_| DataError::NotUtf8 { column: column.to_owned(), place })
}

pub(super) fn lossy(cell: &[u8]) -> String {
    String::from_utf8_lossy(cell).into_owned()
}
