//! First coefficients that corrupted rows, or corrupted features, cannot place.

use nalgebra::DMatrix;
use rand::SeedableRng;
use rand::seq::index;
use rand_chacha::ChaCha8Rng;

use super::normal::{Cross, Dependent, Factor, Rows};
use super::threshold::{Rule, rows_to_keep};
use crate::laws::chi_squared_quantile;

/// Random subsets from which least trimmed squares starts.
const SUBSETS: usize = 50;
/// Subsets that go on until they no longer improve.
const FINALISTS: usize = 5;
/// Most score steps; each divides the distance to the fixed point by about ten.
const SCORE_STEPS: usize = 40;
/// Most steps with clipped residuals before them.
const CLIPPED_STEPS: usize = 30;
/// Where residuals are clipped, in robust standard deviations: Huber's choice.
const CLIP: f64 = 1.345;
/// In a column of few values a row may deviate this many times as far as deviating rows usually do.
const LUMPED_REACH: f64 = 3.0;
/// Rounds of the robust scatter behind the leverage.
const SCATTER_ROUNDS: usize = 4;

/// Root mean square distance to the origin, p degrees of freedom, that a share `u` of normal rows stays below.
fn chi_quantile(p: usize, u: f64) -> f64 {
    // A positive number of degrees of freedom always has one; the mean stands in for the type's sake.
    chi_squared_quantile(p.max(1) as f64, u).unwrap_or(p as f64).sqrt()
}

fn median(values: &mut [f64]) -> f64 {
    let middle = values.len() / 2;
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}

/// Weights `min(1, R / d_i)` that bound the leverage of each row, where `d_i` is its distance from the bulk of the
/// features in the metric of the bulk's own scatter and R the distance that 95 % of normal rows stay below.
///
/// The scatter is that of the half of the rows nearest to the middle, found by concentration steps from columns
/// standardised by their medians; correlated columns are whitened by it. A little of the identity is mixed in when rows
/// are scarce.
///
/// Columns of few values, such as levels, have no such scatter: the bulk may hold one value only, and any other would be
/// infinitely far. They are bounded each by itself, see [`bound_lumped`], so that a rare level keeps its weight.
pub(super) fn leverage_weights(rows: &Rows<'_>) -> Vec<f64> {
    let n = rows.len();
    let mut weights = vec![1.0; n];
    let mut spread = Vec::new();
    for column in rows.features().column_iter() {
        match deviations(column.as_slice(), rows.has_intercept()) {
            Deviations::Spread(column) => spread.extend(column),
            Deviations::Lumped(sizes) => bound_lumped(&sizes, &mut weights),
        }
    }
    let p = spread.len().checked_div(n).unwrap_or(0);
    if p == 0 {
        return weights;
    }
    let z = DMatrix::from_vec(n, p, spread);
    let mut distances: Vec<f64> = vec![0.0; n];
    for column in z.column_iter() {
        distances.iter_mut().zip(column.iter()).for_each(|(d, v)| *d += v * v);
    }
    let half = (n + p).div_ceil(2).min(n);
    let none = nalgebra::DVector::zeros(n);
    let centred = Rows::new(&z, &none, false);
    for _ in 0..SCATTER_ROUNDS {
        let cut = *distances.clone().select_nth_unstable_by(half - 1, f64::total_cmp).1;
        let bulk: Vec<usize> = (0..n).filter(|&i| distances[i] <= cut).collect();
        let scatter = Cross::of(&centred, &bulk).gram() / bulk.len() as f64;
        let mix = (0.25 * p as f64 / bulk.len() as f64).min(1.0);
        let mean = scatter.trace() / p as f64;
        let Ok(factor) = Factor::new(p, |i, j| (1.0 - mix) * scatter[(i, j)] + if i == j { mix * mean } else { 0.0 })
        else {
            break;
        };
        distances = factor.distances(&z);
    }
    let typical = median(&mut distances.clone()).sqrt();
    if typical > 0.0 {
        let bound = chi_quantile(p, 0.95) / chi_quantile(p, 0.5) * typical;
        for (weight, d) in weights.iter_mut().zip(&distances).filter(|(_, d)| **d > 0.0) {
            *weight = weight.min(bound / d.sqrt());
        }
    }
    weights
}

/// A column as leverage sees it.
enum Deviations {
    /// Divided by a robust spread.
    Spread(Vec<f64>),
    /// Of a column most of which is one value, or that has but two: how far each row lies from that value.
    Lumped(Vec<f64>),
}

/// Deviations from the middle when there is an intercept; without one, distance from zero is what gives a row leverage.
fn deviations(column: &[f64], centred: bool) -> Deviations {
    let middle = if centred { median(&mut column.to_vec()) } else { 0.0 };
    let mut sizes: Vec<f64> = column.iter().map(|v| (v - middle).abs()).collect();
    let spread = median(&mut sizes.clone()) / 0.6745;
    let first = column.first().copied().unwrap_or(0.0);
    let second = column.iter().copied().find(|v| *v != first);
    let two_values = column.iter().all(|v| *v == first || Some(*v) == second);
    if two_values || spread == 0.0 {
        return Deviations::Lumped(sizes);
    }
    sizes.iter_mut().zip(column).for_each(|(size, v)| *size = (v - middle) / spread);
    Deviations::Spread(sizes)
}

/// Bounds rows that deviate more than `LUMPED_REACH` times as far as rows that deviate at all usually do: a level weighs in
/// full however rare it is, and a level multiplied by ten does not.
fn bound_lumped(sizes: &[f64], weights: &mut [f64]) {
    let mut deviating: Vec<f64> = sizes.iter().copied().filter(|size| *size > 0.0).collect();
    if deviating.is_empty() {
        return;
    }
    let bound = LUMPED_REACH * median(&mut deviating);
    for (weight, size) in weights.iter_mut().zip(sizes).filter(|(_, size)| **size > bound) {
        *weight = weight.min(bound / size);
    }
}

/// Coefficients from rows of bounded leverage, which carry their weights: least squares with these weights squared, then
/// steps with clipped residuals, whose fixed point is unique, then steps `beta += A^-1 sum w^2 z r 1{|r| <= h} / share`
/// with `h` from the thresholding rule. One Gram `A = sum w^2 z z'` serves all steps.
///
/// Rejection from zero at once would lose a level that lies far from the others for good: none of its rows would ever
/// come within the cut.
pub(super) fn score_steps(rows: &Rows<'_>, rule: Rule) -> Result<Vec<f64>, Dependent> {
    let n = rows.len();
    let squared: Vec<f64> = rows.weights().map_or_else(|| vec![1.0; n], |w| w.iter().map(|w| w * w).collect());
    let cross = Cross::of_all(&rows.weighted(squared.clone()));
    let (factor, mut beta) = (cross.factor()?, cross.solve()?);
    let (mut residuals, mut sorted) = (Vec::new(), Vec::with_capacity(n));
    // Moves by the influences of the rows, and says how far predictions moved, in squares: in whatever units columns are.
    let step = |beta: &mut [f64], influences: &[f64], share: f64| -> f64 {
        let gradient = rows.project(influences);
        let step = factor.solve(gradient.clone());
        beta.iter_mut().zip(&step).for_each(|(b, s)| *b += s / share);
        step.iter().zip(&gradient).map(|(s, g)| s * g).sum()
    };
    for _ in 0..CLIPPED_STEPS {
        rows.residuals(&beta, &mut residuals);
        sorted.clear();
        sorted.extend(residuals.iter().map(|r| r.abs()));
        let clip = CLIP * median(&mut sorted) / 0.6745;
        residuals.iter_mut().zip(&squared).for_each(|(r, w)| *r = r.clamp(-clip, clip) * w);
        if step(&mut beta, &residuals, 1.0) <= (0.02 * clip).powi(2) * n as f64 {
            break;
        }
    }
    for _ in 0..SCORE_STEPS {
        rows.residuals(&beta, &mut residuals);
        sorted.clear();
        sorted.extend(residuals.iter().map(|r| r.abs()));
        sorted.sort_unstable_by(f64::total_cmp);
        let tau = rows_to_keep(&sorted, n, n.div_ceil(2), rule);
        let cut = sorted[tau - 1];
        for (r, w) in residuals.iter_mut().zip(&squared) {
            *r = if r.abs() <= cut { *r * w } else { 0.0 };
        }
        // The rounds that follow finish the work; here the neighbourhood is enough.
        if step(&mut beta, &residuals, (tau as f64 / n as f64).clamp(0.5, 1.0)) <= (1e-3 * cut).powi(2) * n as f64 {
            break;
        }
    }
    Ok(beta)
}

/// Least trimmed squares by random subsets and concentration steps, on a sample of the rows first when there are many.
///
/// # Reference
/// Rousseeuw and Van Driessen, "Computing LTS regression for large data sets", 2006.
pub(super) fn least_trimmed_squares(rows: &Rows<'_>, seed: u64) -> Result<Vec<f64>, Dependent> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (n, q) = (rows.len(), rows.width());
    let size = (15 * q).max(1500);
    if n <= 2 * size {
        return search(rows, &mut rng, 1).map(|mut best| best.swap_remove(0).1);
    }
    let sample = rows.select(&index::sample(&mut rng, n, size).into_vec());
    let mut best: Option<(f64, Vec<f64>)> = None;
    for (_, beta) in search(&sample, &mut rng, 2)? {
        let found = concentrate(rows, beta, 30)?;
        if best.as_ref().is_none_or(|b| found.0 < b.0) {
            best = Some(found);
        }
    }
    // `search` gives at least one candidate or an error.
    Ok(best.map_or_else(|| vec![0.0; q], |b| b.1))
}

/// The best few fits from random subsets, best first, each with its trimmed sum of squares.
fn search(rows: &Rows<'_>, rng: &mut ChaCha8Rng, wanted: usize) -> Result<Vec<(f64, Vec<f64>)>, Dependent> {
    let (n, q) = (rows.len(), rows.width());
    let mut found = Vec::with_capacity(SUBSETS);
    let mut refused = None;
    for _ in 0..SUBSETS {
        let order = index::sample(rng, n, n.min((q + 2) * 4)).into_vec();
        // A subset may miss a rare level altogether; grow it before giving it up.
        let beta = [1, 2, 4].iter().find_map(|k| {
            let subset = &order[..n.min((q + 2) * k)];
            Cross::of(rows, subset).solve().map_err(|e| refused = Some(e)).ok()
        });
        if let Some(beta) = beta
            && let Ok(fit) = concentrate(rows, beta, 2)
        {
            found.push(fit);
        }
    }
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    found.truncate(FINALISTS);
    let mut finished = Vec::with_capacity(FINALISTS);
    for (_, beta) in found {
        finished.push(concentrate(rows, beta, 30)?);
    }
    finished.sort_by(|a, b| a.0.total_cmp(&b.0));
    finished.truncate(wanted);
    match (finished.is_empty(), refused) {
        // No subset spans the columns: all rows do, as has been checked.
        (true, _) => Ok(vec![concentrate(rows, Cross::of_all(rows).solve()?, 30)?]),
        (false, _) => Ok(finished),
    }
}

/// Least squares on the half of the rows with the smallest residuals, repeated until that half stays.
fn concentrate(rows: &Rows<'_>, mut beta: Vec<f64>, steps: usize) -> Result<(f64, Vec<f64>), Dependent> {
    let (n, q) = (rows.len(), rows.width());
    let half = (n + q).div_ceil(2).min(n);
    let mut residuals = Vec::new();
    let mut state: Option<(Cross, Vec<bool>)> = None;
    for _ in 0..steps {
        rows.residuals(&beta, &mut residuals);
        let cut = *smallest(&residuals).select_nth_unstable_by(half - 1, f64::total_cmp).1;
        let member: Vec<bool> = residuals.iter().map(|r| r.abs() <= cut).collect();
        let cross = match state.take() {
            Some((_, before)) if before == member => break,
            Some((cross, before)) => cross.moved(rows, &before, &member),
            None => Cross::of(rows, &(0..n).filter(|&i| member[i]).collect::<Vec<_>>()),
        };
        beta = cross.solve()?;
        state = Some((cross, member));
    }
    rows.residuals(&beta, &mut residuals);
    let mut r = smallest(&residuals);
    r.select_nth_unstable_by(half - 1, f64::total_cmp);
    Ok((r[..half].iter().map(|r| r * r).sum(), beta))
}

/// Whether concentrating on half of the rows from `beta` leaves residuals there smaller than luck explains.
pub(super) fn half_fits_better(rows: &Rows<'_>, beta: &[f64], half_scale: f64) -> bool {
    let (n, q) = (rows.len(), rows.width());
    let half = (n + q).div_ceil(2).min(n);
    concentrate(rows, beta.to_vec(), 30)
        .is_ok_and(|(square, _)| (square / half as f64).sqrt() < luck_of_searching(n, q) * half_scale)
}

/// How small the half-sample scale of the best of many fits may be, over that of least squares, although all `n` rows are
/// clean: who searches for `q` coefficients that fit half of the rows well finds some.
///
/// On simulated normal rows (3 to 100 rows per coefficient, 2 to 20 coefficients) the ratio is about `1 - 1.3 (q/n)^(2/3)`,
/// with a relative standard deviation below `1 / sqrt(n)`; three of them are allowed for.
pub(super) fn luck_of_searching(n: usize, q: usize) -> f64 {
    let (n, q) = (n as f64, q as f64);
    (1.0 - 1.3 * (q / n).powf(2.0 / 3.0)).max(0.2) * (-3.0 / n.sqrt()).exp()
}

fn smallest(residuals: &[f64]) -> Vec<f64> {
    residuals.iter().map(|r| r.abs()).collect()
}
