//! How the outcome of a command is printed.

use clap::ValueEnum;
use serde::Serialize;

/// How the outcome of a check is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum CheckFormat {
    /// For people
    #[default]
    Text,
    /// With stable names
    Json,
}

/// An outcome in a format; `text` is how it reads for people.
pub(crate) fn show<T: Serialize>(format: CheckFormat, value: &T, text: impl Fn(&T) -> String) -> String {
    match format {
        CheckFormat::Text => text(value),
        CheckFormat::Json => format!("{}\n", serde_json::to_string_pretty(value).unwrap_or_default()),
    }
}

/// A number of bytes for people.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

/// The shortest digits that read back as the same bits, and `NA` where there is no number.
pub(crate) fn shown(value: f64) -> String {
    if value.is_nan() { "NA".to_string() } else { format!("{value:?}") }
}
