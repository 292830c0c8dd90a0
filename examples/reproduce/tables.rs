//! What all tables share: repetitions on all cores, summaries, and how numbers look.

use rayon::prelude::*;

use crate::chart::Line;

/// One value per seed, on all cores; the first failure ends it.
pub(crate) fn each<T: Send>(
    seeds: u64,
    value: impl Fn(u64) -> anyhow::Result<T> + Sync + Send,
) -> anyhow::Result<Vec<T>> {
    (0..seeds).into_par_iter().map(value).collect()
}

/// The mean over seeds of several values each.
pub(crate) fn means(
    seeds: u64,
    value: impl Fn(u64) -> anyhow::Result<Vec<f64>> + Sync + Send,
) -> anyhow::Result<Vec<f64>> {
    Ok(columns(&each(seeds, value)?, |values| values.iter().sum::<f64>() / values.len() as f64))
}

/// The median over seeds of several values each.
pub(crate) fn medians(
    seeds: u64,
    value: impl Fn(u64) -> anyhow::Result<Vec<f64>> + Sync + Send,
) -> anyhow::Result<Vec<f64>> {
    Ok(columns(&each(seeds, value)?, |values| median(values.to_vec())))
}

/// The middle value, of an even number the mean of the two.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => 0.5 * (values[n / 2 - 1] + values[n / 2]),
    }
}

fn columns(rows: &[Vec<f64>], summary: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let width = rows.first().map_or(0, Vec::len);
    (0..width).map(|j| summary(&rows.iter().map(|row| row[j]).collect::<Vec<_>>())).collect()
}

/// Three significant digits, without a needless exponent.
pub(crate) fn number(value: f64) -> String {
    if !value.is_finite() {
        return "NA".to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let exponent = value.abs().log10().floor() as i32;
    if !(-4..6).contains(&exponent) {
        return format!("{value:.1e}");
    }
    format!("{value:.*}", (2 - exponent).clamp(0, 6) as usize)
}

/// A row of a table: a name and numbers.
pub(crate) fn row(name: &str, values: &[f64]) -> Vec<String> {
    std::iter::once(name.to_owned()).chain(values.iter().map(|value| number(*value))).collect()
}

/// A line of a chart.
pub(crate) fn line(name: &str, colour: usize, x: &[f64], y: &[f64], published: bool) -> Line {
    Line { name: name.to_owned(), points: x.iter().copied().zip(y.iter().copied()).collect(), colour, published }
}
