//! The coefficient table as CSV, tidy and in broom's names.

use super::Report;
use super::number::UNDEFINED;
use crate::fit::Coefficient;

/// The coefficient table: a header and a line a coefficient, quoted where CSV asks for it, `NA` for what is undefined.
///
/// A name that a spreadsheet would take for a formula stands behind an apostrophe, see [`field`].
///
/// Numbers have the fewest digits that read back as the same bits. A term that is itself called `NA` is quoted, which
/// readers that know the difference keep.
pub fn csv(report: &Report) -> String {
    rows(&report.coefficients)
}

/// As [`csv`], of the table alone.
pub(crate) fn rows(coefficients: &[Coefficient]) -> String {
    let mut text = String::from("term,party,estimate,std_error,statistic,p_value,conf_low,conf_high\n");
    for row in coefficients {
        text.push_str(&field(&row.term));
        text.push(',');
        text.push_str(row.party.name());
        for value in [row.estimate, row.std_error, row.statistic, row.p_value, row.conf_low, row.conf_high] {
            text.push(',');
            match value.filter(|x| x.is_finite()) {
                // The debug form switches to an exponent where the display form would print hundreds of zeros.
                Some(x) => text.push_str(&format!("{x:?}")),
                None => text.push_str(UNDEFINED),
            }
        }
        text.push('\n');
    }
    text
}

/// Text as a field, in quotes where that is needed.
///
/// Spreadsheets run what begins with `=`, `+`, `-` or `@`, in quotes or not, and names can come from somebody else. So such a
/// text is given an apostrophe in front, unless it is a number, such as `-0.5`.
pub fn field(text: &str) -> String {
    let begun = text.trim_start().starts_with(['=', '+', '-', '@']) || text.starts_with(['\t', '\r']);
    if begun && text.parse::<f64>().is_err() {
        return format!("\"'{}\"", text.replace('"', "\"\""));
    }
    let special = text.is_empty()
        || text == UNDEFINED
        || text.starts_with(' ')
        || text.ends_with(' ')
        || text.contains([',', '"', '\n', '\r']);
    match special {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_string(),
    }
}
