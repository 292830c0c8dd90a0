//! The report as JSON: stable names in snake_case, numbers that round-trip, null for what is undefined.

use serde::Serialize;
use thiserror::Error;

use super::Report;

/// Text that is not a report.
#[derive(Debug, Error)]
#[error("not a report: {0}")]
pub struct NotAReport(#[from] serde_json::Error);

/// The report as indented JSON with a final newline.
///
/// Numbers have the fewest digits that read back as the same bits; what is not finite is null.
pub fn json(report: &Report) -> String {
    pretty(report)
}

/// As [`json`], of any result.
pub(crate) fn pretty(result: &impl Serialize) -> String {
    match serde_json::to_string_pretty(result) {
        Ok(text) => text + "\n",
        // Writing to memory cannot fail and every key of a result is a string; should that change, the reader gets an object
        // that says so rather than a panic.
        Err(error) => serde_json::json!({ "error": error.to_string() }).to_string() + "\n",
    }
}

/// Reads a report back; null where a number belongs is read as not a number.
///
/// # Errors
/// The text is not JSON, or lacks a field.
pub fn parse(text: &str) -> Result<Report, NotAReport> {
    Ok(serde_json::from_str(text)?)
}
