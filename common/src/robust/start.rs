//! First coefficients that corrupted rows, or corrupted features, cannot place.

use nalgebra::DMatrix;
use rand::SeedableRng;
use rand::seq::index;
use rand_chacha::ChaCha8Rng;
use statrs::distribution::{ChiSquared, ContinuousCDF};

use super::normal::{Cross, Dependent, Factor, Rows};
use super::threshold::{Rule, rows_to_keep};

/// Random subsets from which least trimmed squares starts.
const SUBSETS: usize = 50;
/// Subsets that go on until they no longer improve.
const FINALISTS: usize = 5;
/// Most score steps; each divides the distance to the fixed point by about ten.
const SCORE_STEPS: usize = 40;
/// Rounds of the robust scatter behind the leverage.
const SCATTER_ROUNDS: usize = 4;

/// Root mean square distance to the origin, p degrees of freedom, that a share `u` of normal rows stays below.
fn chi_quantile(p: usize, u: f64) -> f64 {
    // A positive number of degrees of freedom is always accepted; the mean stands in for the type's sake.
    ChiSquared::new(p.max(1) as f64).map_or(p as f64, |d| d.inverse_cdf(u)).sqrt()
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
pub(super) fn leverage_weights(rows: &Rows<'_>) -> Vec<f64> {
    let (n, p) = rows.features().shape();
    if p == 0 {
        return vec![1.0; n];
    }
    let z = standardise(rows);
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
    if typical == 0.0 {
        return vec![1.0; n];
    }
    let bound = chi_quantile(p, 0.95) / chi_quantile(p, 0.5) * typical;
    distances.iter().map(|d| if *d > 0.0 { (bound / d.sqrt()).min(1.0) } else { 1.0 }).collect()
}

/// Columns divided by a robust spread, and centred when there is an intercept: without one, distance from zero is what
/// gives a row leverage.
fn standardise(rows: &Rows<'_>) -> DMatrix<f64> {
    let mut z = rows.features().clone_owned();
    let mut copy = vec![0.0; rows.len()];
    for mut column in z.column_iter_mut() {
        if rows.has_intercept() {
            copy.copy_from_slice(column.as_slice());
            let middle = median(&mut copy);
            column.add_scalar_mut(-middle);
        }
        copy.iter_mut().zip(column.iter()).for_each(|(c, v)| *c = v.abs());
        let spread = median(&mut copy) / 0.6745;
        // A column that is mostly one value, such as a rare level, has no median spread.
        let spread = if spread > 0.0 { spread } else { copy.iter().sum::<f64>() / copy.len() as f64 };
        if spread > 0.0 {
            column /= spread;
        }
    }
    z
}

/// Score steps `beta += A^-1 sum w z r 1{|r| <= h} / share` from zero, with one Gram of the bounded rows for all steps
/// and `h` from the thresholding rule. `rows` carry the leverage weights.
pub(super) fn score_steps(rows: &Rows<'_>, rule: Rule) -> Result<Vec<f64>, Dependent> {
    let n = rows.len();
    let weights = rows.weights().map_or_else(|| vec![1.0; n], <[f64]>::to_vec);
    let bounded = rows.weighted(weights.iter().map(|w| w * w).collect());
    let factor = Cross::of_all(&bounded).factor()?;
    let mut beta = vec![0.0; rows.width()];
    if rows.has_intercept() {
        beta[0] = median(&mut rows.outcome().to_vec());
    }
    let (mut residuals, mut sorted) = (Vec::new(), Vec::with_capacity(n));
    for _ in 0..SCORE_STEPS {
        rows.residuals(&beta, &mut residuals);
        sorted.clear();
        sorted.extend(residuals.iter().map(|r| r.abs()));
        sorted.sort_unstable_by(f64::total_cmp);
        let tau = rows_to_keep(&sorted, n, n.div_ceil(2), rule);
        let cut = sorted[tau - 1];
        for (r, w) in residuals.iter_mut().zip(&weights) {
            *r = if r.abs() <= cut { *r * w } else { 0.0 };
        }
        let share = (tau as f64 / n as f64).clamp(0.5, 1.0);
        let gradient = rows.project(&residuals);
        let step = factor.solve(gradient.clone());
        // How far predictions move: in whatever units the columns are.
        let change: f64 = step.iter().zip(&gradient).map(|(s, g)| s * g).sum();
        for (b, s) in beta.iter_mut().zip(&step) {
            *b += s / share;
        }
        // The rounds that follow finish the work; here the neighbourhood is enough.
        if change <= (1e-3 * cut).powi(2) * n as f64 {
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

/// Whether concentrating on half of the rows from `beta` leaves residuals far smaller than their root mean square there.
pub(super) fn half_fits_better(rows: &Rows<'_>, beta: &[f64], half_scale: f64) -> bool {
    let half = (rows.len() + rows.width()).div_ceil(2).min(rows.len());
    concentrate(rows, beta.to_vec(), 30).is_ok_and(|(square, _)| (square / half as f64).sqrt() < 0.85 * half_scale)
}

fn smallest(residuals: &[f64]) -> Vec<f64> {
    residuals.iter().map(|r| r.abs()).collect()
}
