//! How the outcome of a command is printed.

pub use fedreg_proto::output::CheckFormat;
pub(crate) use fedreg_proto::output::show;

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
