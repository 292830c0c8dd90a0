//! What all tables share: repetitions on all cores, summaries, and how numbers look.

use rayon::prelude::*;

use crate::chart::{Line, Shape};

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
    let shape = if published { Shape::Published } else { Shape::Marked };
    Line { name: name.to_owned(), points: x.iter().copied().zip(y.iter().copied()).collect(), colour, shape }
}

/// A box of a chart: the least value, the quartiles and the largest, at one place.
pub(crate) fn boxed(name: &str, colour: usize, x: f64, values: &[f64]) -> Line {
    let points = [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| (x, quantile(values, share)));
    Line { name: name.to_owned(), points: points.to_vec(), colour, shape: Shape::Box }
}

/// The value below which a given share lies, between neighbours in proportion.
pub(crate) fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let at = share * last as f64;
    let below = sorted[at.floor() as usize];
    below + (at - at.floor()) * (sorted[at.ceil() as usize] - below)
}

/// The slope of a straight line through the logarithms of both, by least squares.
pub(crate) fn slope(x: &[f64], y: &[f64]) -> f64 {
    let logarithms = |values: &[f64]| -> Vec<f64> { values.iter().map(|value| value.ln()).collect() };
    let (x, y) = (logarithms(x), logarithms(y));
    let (middle, height) = (x.iter().sum::<f64>() / x.len() as f64, y.iter().sum::<f64>() / y.len() as f64);
    let square: f64 = x.iter().map(|x| (x - middle).powi(2)).sum();
    x.iter().zip(&y).map(|(x, y)| (x - middle) * (y - height)).sum::<f64>() / square
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_r_and_slopes_those_of_powers() {
        // quantile(c(1, 2, 4, 8), c(0, .25, .5, .75, 1)) in R.
        let found = [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| quantile(&[8.0, 1.0, 4.0, 2.0], share));
        assert_eq!(found, [1.0, 1.75, 3.0, 5.0, 8.0]);
        assert!(quantile(&[], 0.5).is_nan());
        let x = [10.0, 20.0, 70.0];
        assert!((slope(&x, &x.map(|x: f64| 3.0 * x.powf(-0.7))) + 0.7).abs() < 1e-12);
    }
}
