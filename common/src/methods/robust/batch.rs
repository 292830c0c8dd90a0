//! One mini-batch: regression by heuristic hard thresholding, which needs no guess of the share of corrupted rows.
//!
//! Least squares on the kept rows alternates with `rows_to_keep` on the residuals,
//! until the kept rows repeat. The fit is a fixed point: the coefficients are exactly least squares on the rows kept,
//! and those are exactly the rows whose residuals the rule accepts (should the rounds return to rows that they had left,
//! the rule may from then on no longer accept more rows than the round before).
//!
//! Rejecting a row at 2.5 standard deviations shortens the tails of what is kept. [`BatchFit::scale`] and
//! [`BatchFit::variance`] undo that for normal noise; see [`kept_share_of_variance`].

use std::collections::HashSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use nalgebra::{DMatrix, DVector};
use serde::{Deserialize, Serialize};
use statrs::function::erf::erf;
use thiserror::Error;

use super::normal::{Cross, Dependent, Factor, Rows};
use super::start;
use super::threshold::{Rule, rows_to_keep};

/// Beyond this a value cannot be squared and summed safely.
const LARGEST_VALUE: f64 = 1e100;
/// Stop when the residuals of the kept rows change by less than this share of their own size.
const RESIDUAL_TOL: f64 = 1e-7;
/// Below this share of the size of y the residuals are rounding, and the fit is exact.
const EXACT_FIT: f64 = 1e-12;
/// Share of the kept residuals in the outer half below the cut: 0.2 for a normal core, one half for flat residuals.
const FLAT_SHARE: f64 = 0.3;
/// Share of the rows that two values must hold for the outcome to count as one of two values, and the rarer one alone.
const TWO_VALUES: f64 = 0.75;
const RARER: f64 = 0.005;
/// Residuals below this many steps between the two values of such an outcome tell nothing against a row.
const STEPS: f64 = 2.0;

/// Where the first coefficients come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// `ols`, unless `score` or `lts` fits half of the rows better than luck explains; `lts` is tried where the other two
    /// disagree, reject many rows, or fit half of the rows much worse than half of the rows can be fitted. Nearly as
    /// efficient as `ols` on clean rows. About ten times the work of `ols`.
    #[default]
    Auto,
    /// Least squares on all rows, as in the source. Corrupted features break it.
    Ols,
    /// Score steps with bounded leverage; the fit keeps the bounded leverage as row weights. Withstands
    /// corrupted features.
    Score,
    /// Least trimmed squares from random subsets. Withstands structured corruption of nearly half of the rows.
    Lts,
}

/// What a fit is asked to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FitSettings {
    /// Where the first coefficients come from.
    pub start: Start,
    /// Whether a column of ones is put before the features; never penalised, never counted as leverage.
    pub intercept: bool,
    /// How the threshold reads its reference residual.
    pub rule: Rule,
    /// Seed of the random subsets of [`Start::Lts`]; the other starts draw nothing.
    pub seed: u64,
    /// Most rounds of least squares and thresholding.
    pub max_iterations: usize,
}

impl Default for FitSettings {
    fn default() -> Self {
        FitSettings { start: Start::Auto, intercept: true, rule: Rule::Paper, seed: 0, max_iterations: 100 }
    }
}

/// Why the rounds ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Termination {
    /// The kept rows repeated.
    RowsRepeat,
    /// The residuals of the kept rows changed by less than 1e-7 of their size.
    ResidualsSettled,
    /// The kept rows are fitted to rounding.
    ExactFit,
    /// The limit on rounds came first: the fit has not converged.
    MaxIterations,
}

/// Whether the kept rows look like a clean core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cleaning {
    /// The kept residuals thin out towards the cut, as a core does.
    Cleaned,
    /// The kept residuals are as frequent at the cut as at zero: no core stands out, and the fit is that of mixed rows.
    NoCore,
    /// Fewer than half of the rows were kept.
    TooFewKept,
}

/// The robust fit of one batch. `q` is the number of coefficients, the intercept, if any, first.
#[derive(Clone)]
pub struct BatchFit {
    /// `q` coefficients, in the units of the data.
    pub coefficients: DVector<f64>,
    /// `q x q` cross products of the kept rows; for a score fit, the information that its weights leave.
    pub gram: DMatrix<f64>,
    /// Indices of the kept rows, ascending.
    pub kept: Vec<usize>,
    /// Rows in the batch.
    pub nobs: usize,
    /// Standard deviation of the noise, corrected for the rejection of its tails.
    pub scale: f64,
    /// Factor `v` with `cov(coefficients) = v gram^-1`: the rejection costs about nine percent of the information.
    pub variance: f64,
    /// Root mean square of the smaller half of the absolute residuals.
    pub half_scale: f64,
    /// Whether the kept rows look like a clean core.
    pub cleaning: Cleaning,
    /// The start that led here; never [`Start::Auto`].
    pub start: Start,
    /// Rounds of least squares and thresholding.
    pub iterations: usize,
    /// Why the rounds ended.
    pub termination: Termination,
}

// Sizes only: coefficients and row indices belong in reports that were asked for, not in logs.
impl std::fmt::Debug for BatchFit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BatchFit")
            .field("coefficients", &self.coefficients.len())
            .field("kept", &self.kept.len())
            .field("nobs", &self.nobs)
            .field("cleaning", &self.cleaning)
            .field("start", &self.start)
            .field("termination", &self.termination)
            .finish_non_exhaustive()
    }
}

impl BatchFit {
    /// Standard errors of the coefficients.
    pub fn std_errors(&self) -> DVector<f64> {
        let q = self.coefficients.len();
        let factor = Factor::new(q, |i, j| self.gram[(i, j)]);
        DVector::from_fn(q, |j, _| match &factor {
            Ok(factor) => {
                let mut unit = vec![0.0; q];
                unit[j] = 1.0;
                (self.variance * factor.solve(unit)[j]).sqrt()
            }
            // Only a Gram whose columns differ by far more digits than a double holds ends here.
            Err(_) => f64::NAN,
        })
    }
}

/// Why a batch could not be fitted. Rows and columns count from zero here and from one in the messages; columns are
/// those of the features, without the intercept.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum BatchError {
    /// No features and no intercept.
    #[error("expected at least one column")]
    NoColumns,
    /// Features and outcome differ in length.
    #[error("expected one outcome per row, got {rows} rows and {outcomes} outcomes")]
    Lengths {
        /// Rows of the features.
        rows: usize,
        /// Length of the outcome.
        outcomes: usize,
    },
    /// Too few rows for thresholding to have a choice.
    #[error("expected at least {needed} rows in the batch, three per coefficient, got {rows}")]
    TooFewRows {
        /// Rows in the batch.
        rows: usize,
        /// Fewest rows accepted.
        needed: usize,
    },
    /// A feature is not finite or too large to be squared.
    #[error("expected a finite number below 1e100 at row {}, column {}", row + 1, column + 1)]
    Feature {
        /// Row of the cell.
        row: usize,
        /// Column of the cell.
        column: usize,
    },
    /// An outcome is not finite or too large to be squared.
    #[error("expected a finite outcome below 1e100 at row {}", row + 1)]
    Outcome {
        /// Row of the cell.
        row: usize,
    },
    /// A column carries nothing that the columns before it (and the intercept) do not.
    #[error(
        "expected independent columns, but column {} depends on those before it{}", column + 1,
        if *.kept_only { " among the rows kept" } else { "" }
    )]
    DependentColumn {
        /// The column that should go.
        column: usize,
        /// Whether the dependence appeared only after rows were rejected.
        kept_only: bool,
    },
}

/// Fewest rows with which a batch of `coefficients` (the intercept included) is fitted: three per coefficient, so that
/// the smallest set of rows that thresholding may keep still determines them.
pub fn minimum_rows(coefficients: usize) -> usize {
    coefficients.saturating_mul(3)
}

/// Fits one batch: `x` is `n x p` without a column of ones, `y` has n entries.
///
/// The result does not depend on the order of the rows beyond rounding: rows that tie at the cut are kept together.
///
/// # Errors
/// When a number is not finite, rows are too few, or a column depends on earlier ones.
///
/// # Reference
/// Equations (3) to (5) and algorithm 1, with a tighter stopping rule than the printed one: the rounds end when the kept
/// rows repeat, their residuals change by less than 1e-7 of their size, or are rounding (1e-12 of the size of y).
pub fn fit(x: &DMatrix<f64>, y: &DVector<f64>, settings: &FitSettings) -> Result<BatchFit, BatchError> {
    check(x, y, settings)?;
    let rows = Rows::new(x, y, settings.intercept);
    let all = Cross::of_all(&rows);
    all.factor().map_err(|dependent| dependence(&rows, dependent, false))?;
    let ordinary = || threshold(&rows, Some(&all), None, Start::Ols, settings);
    let trimmed = || {
        let beta = start::least_trimmed_squares(&rows, settings.seed).map_err(|d| dependence(&rows, d, true))?;
        threshold(&rows, Some(&all), Some(beta), Start::Lts, settings)
    };
    let fitted = match settings.start {
        Start::Ols => ordinary(),
        Start::Lts => trimmed(),
        Start::Score => score(&rows.weighted(start::leverage_weights(&rows)), settings),
        Start::Auto => return automatic(&rows, ordinary, trimmed, settings),
    };
    fitted.map(|fitted| fitted.fit)
}

/// Fits from every start that may matter and keeps least squares, unless the smaller half of another fit's residuals is
/// smaller than chance explains: the best of many fits always has the smaller half, and on a small clean batch it is the
/// worst of fits. The half is counted in bounded leverage: a minority of rows with huge features could otherwise be fitted
/// so closely that it passes for a half.
fn automatic(
    rows: &Rows<'_>,
    ordinary: impl FnOnce() -> Result<Fitted, BatchError>,
    trimmed: impl FnOnce() -> Result<Fitted, BatchError>,
    settings: &FitSettings,
) -> Result<BatchFit, BatchError> {
    let weights = start::leverage_weights(rows);
    let ols = ordinary();
    let score = score(&rows.weighted(weights.clone()), settings);
    // Colluding rows of nearly half can draw both to the same compromise, which keeps nearly every row; half of the rows
    // alone then fits far better than half of the compromise.
    let settled = match (&ols, &score) {
        // Half of an outcome of two values can be fitted exactly, by always giving the one.
        (Ok(a), Ok(b)) if least_cut(rows.outcome()) > 0.0 => agree(&a.fit, &b.fit),
        (Ok(a), Ok(b)) => agree(&a.fit, &b.fit) && !start::half_fits_better(rows, &a.beta, a.fit.half_scale),
        _ => false,
    };
    let lts = if settled { None } else { Some(trimmed()) };
    let luck = start::luck_of_searching(rows.len(), rows.width());
    let resolution = resolution(rows.outcome());
    // A start may fail on rows from which others recover, such as a column that is only alive in rejected rows.
    let mut best: Option<(f64, BatchFit)> = None;
    let mut refused = None;
    for candidate in [Some(ols), Some(score), lts].into_iter().flatten() {
        match candidate {
            Ok(Fitted { fit, residuals, .. }) => {
                let scale = weighted_half_scale(&residuals, &weights, rows.width()).max(resolution);
                if best.as_ref().is_none_or(|(smallest, _)| scale < luck * *smallest) {
                    best = Some((scale, fit));
                }
            }
            Err(error) => refused = Some(error),
        }
    }
    best.map(|(_, fit)| fit).ok_or(refused.unwrap_or(BatchError::NoColumns))
}

/// Two starts that end in the same place, with most rows kept, leave little for a third to find.
fn agree(a: &BatchFit, b: &BatchFit) -> bool {
    let clean = |fit: &BatchFit| fit.cleaning == Cleaning::Cleaned && 4 * fit.kept.len() >= 3 * fit.nobs;
    let (low, high) = (a.half_scale.min(b.half_scale), a.half_scale.max(b.half_scale));
    clean(a) && clean(b) && high <= 1.05 * low
}

/// A fit with what comparing it to others needs; coefficients as the solver has them.
struct Fitted {
    fit: BatchFit,
    beta: Vec<f64>,
    residuals: Vec<f64>,
}

/// Standard deviation of rounding where the outcome is so coarse that most rows share theirs with another, such as a grade;
/// otherwise zero. Half of such rows can be fitted exactly by giving them all the same value, which says nothing.
fn resolution(outcome: &[f64]) -> f64 {
    let mut sorted = outcome.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let mut gaps: Vec<f64> = sorted.windows(2).map(|pair| pair[1] - pair[0]).filter(|gap| *gap > 0.0).collect();
    if gaps.is_empty() || 2 * gaps.len() > outcome.len() {
        return 0.0;
    }
    let middle = gaps.len() / 2;
    *gaps.select_nth_unstable_by(middle, f64::total_cmp).1 / 12_f64.sqrt()
}

/// The least residual for which a row may be rejected: of an outcome of two values, up to rows that hold others, the rarer
/// value is no error however far it lies from what the row predicts. Zero for every other outcome.
fn least_cut(outcome: &[f64]) -> f64 {
    let step = outcome.len().div_ceil(64).max(1);
    let sample: Vec<f64> = outcome.iter().copied().step_by(step).collect();
    // Most outcomes are told from a few rows.
    if two_values(&sample, 0.5).is_none() {
        return 0.0;
    }
    match two_values(outcome, TWO_VALUES) {
        Some((step, rarer)) if rarer > 1 && rarer as f64 >= RARER * outcome.len() as f64 => STEPS * step,
        _ => 0.0,
    }
}

/// How far the two most frequent values lie apart and how often the second comes, if they hold this share of all.
fn two_values(values: &[f64], share: f64) -> Option<(f64, usize)> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let mut most = [(0, 0.0), (0, 0.0)];
    for run in sorted.chunk_by(|a, b| a == b) {
        let found = (run.len(), run[0]);
        if found.0 > most[0].0 {
            most = [found, most[0]];
        } else if found.0 > most[1].0 {
            most[1] = found;
        }
    }
    let [(first, a), (second, b)] = most;
    ((first + second) as f64 >= share * values.len() as f64).then_some(((a - b).abs(), second))
}

/// Root mean square of the smallest residuals that make up half of the weight, and half a row more for each of `q`
/// coefficients, as half of the rows is counted elsewhere.
fn weighted_half_scale(residuals: &[f64], weights: &[f64], q: usize) -> f64 {
    let mut order: Vec<usize> = (0..residuals.len()).collect();
    order.sort_unstable_by(|&a, &b| residuals[a].abs().total_cmp(&residuals[b].abs()));
    let half = 0.5 * (1.0 + q as f64 / residuals.len().max(1) as f64).min(2.0) * weights.iter().sum::<f64>();
    let (mut square, mut weight) = (0.0, 0.0);
    for i in order {
        square += weights[i] * residuals[i] * residuals[i];
        weight += weights[i];
        if weight >= half {
            break;
        }
    }
    (square / weight).sqrt()
}

fn score(bounded: &Rows<'_>, settings: &FitSettings) -> Result<Fitted, BatchError> {
    let beta = start::score_steps(bounded, settings.rule).map_err(|d| dependence(bounded, d, true))?;
    threshold(bounded, None, Some(beta), Start::Score, settings)
}

fn check(x: &DMatrix<f64>, y: &DVector<f64>, settings: &FitSettings) -> Result<(), BatchError> {
    let (n, p) = x.shape();
    let q = p + usize::from(settings.intercept);
    if q == 0 {
        return Err(BatchError::NoColumns);
    }
    if y.len() != n {
        return Err(BatchError::Lengths { rows: n, outcomes: y.len() });
    }
    if n < minimum_rows(q) {
        return Err(BatchError::TooFewRows { rows: n, needed: minimum_rows(q) });
    }
    // A comparison that NaN fails, too.
    let bad = |v: &f64| !(v.abs() < LARGEST_VALUE);
    // Whole columns first: a flat reduction is what the compiler turns into vector instructions.
    for (column, values) in x.as_slice().chunks_exact(n).enumerate() {
        if values.iter().fold(false, |any, v| any | bad(v))
            && let Some(row) = values.iter().position(bad)
        {
            return Err(BatchError::Feature { row, column });
        }
    }
    match y.iter().position(bad) {
        Some(row) => Err(BatchError::Outcome { row }),
        None => Ok(()),
    }
}

fn dependence(rows: &Rows<'_>, Dependent(column): Dependent, kept_only: bool) -> BatchError {
    // The intercept itself can only vanish when every row that is left has no weight; report the first column then.
    BatchError::DependentColumn { column: column.saturating_sub(usize::from(rows.has_intercept())), kept_only }
}

/// Alternates least squares and thresholding from all rows, or from given coefficients.
fn threshold(
    rows: &Rows<'_>,
    all: Option<&Cross>,
    initial: Option<Vec<f64>>,
    start: Start,
    settings: &FitSettings,
) -> Result<Fitted, BatchError> {
    let n = rows.len();
    let program = settings.rule == Rule::Program;
    let floor = minimum_rows(rows.width());
    // The printed rule is silent where no threshold qualifies; a clean majority, its only premise, still exists then.
    let floor = if program { floor } else { floor.max(n / 2 + 1) };
    let kept_only = |dependent| dependence(rows, dependent, true);
    let least = if program { 0.0 } else { least_cut(rows.outcome()) };
    let mut member = vec![true; n];
    let mut kept = n;
    let mut cross = match all {
        Some(all) => all.clone(),
        None => Cross::of_all(rows),
    };
    let mut beta = match initial {
        Some(beta) => beta,
        None => cross.solve().map_err(kept_only)?,
    };
    let (mut residuals, mut before) = (Vec::new(), Vec::<f64>::new());
    let mut sorted = Vec::with_capacity(n);
    let mut next = vec![false; n];
    // The program never lets the count grow. The printed rule may, and only if it returns to rows that it had left does
    // it have to stop growing too, since it would go round for ever.
    let mut seen = HashSet::new();
    let mut shrinking = program;
    let mut iterations = 0;
    let termination = loop {
        iterations += 1;
        rows.residuals(&beta, &mut residuals);
        let (square, cut, outcome) = over(&member, &residuals, rows.outcome());
        let exact = EXACT_FIT * (outcome / kept as f64).sqrt() + rows.rounding();
        if square <= exact * exact * kept as f64 {
            // Every row through which the exact fit passes belongs to it, whenever the rounds happened to end.
            mark(&residuals, cut.max(exact), &mut next);
            cross = cross.moved(rows, &member, &next);
            member.copy_from_slice(&next);
            break Termination::ExactFit;
        }
        sorted.clear();
        // The bits of absolute values sort as the values do, and faster.
        sorted.extend(residuals.iter().map(|r| r.abs().to_bits()));
        sorted.sort_unstable();
        let ascending: Vec<f64> = sorted.iter().map(|b| f64::from_bits(*b)).collect();
        let at_most = if shrinking { kept } else { n };
        let tau = rows_to_keep(&ascending, at_most, floor, settings.rule);
        let kept_next = mark(&residuals, ascending[tau - 1].max(least), &mut next);
        let first_of_given = iterations == 1 && start != Start::Ols;
        if next == member && !first_of_given {
            break Termination::RowsRepeat;
        }
        shrinking |= !seen.insert(fingerprint(&next));
        let settled = !before.is_empty() && change_is_small(&next, &residuals, &before);
        cross = cross.moved(rows, &member, &next);
        std::mem::swap(&mut member, &mut next);
        kept = kept_next;
        beta = cross.solve().map_err(kept_only)?;
        if settled {
            break Termination::ResidualsSettled;
        }
        if iterations >= settings.max_iterations {
            break Termination::MaxIterations;
        }
        std::mem::swap(&mut before, &mut residuals);
    };
    correct(rows, &cross.factor().map_err(kept_only)?, &member, &mut beta, &mut residuals);
    let how = (start, iterations, termination);
    let fit = report(rows, cross, &beta, &residuals, &member, how, least).map_err(kept_only)?;
    Ok(Fitted { fit, beta, residuals })
}

/// Cross products round at the square of the condition; one correction from true residuals restores the digits.
fn correct(rows: &Rows<'_>, factor: &Factor, member: &[bool], beta: &mut [f64], residuals: &mut Vec<f64>) {
    for _ in 0..2 {
        rows.residuals(beta, residuals);
        let kept_residuals: Vec<f64> = match rows.weights() {
            None => residuals.iter().zip(member).map(|(r, m)| if *m { *r } else { 0.0 }).collect(),
            Some(w) => residuals.iter().zip(member).zip(w).map(|((r, m), w)| if *m { r * w } else { 0.0 }).collect(),
        };
        let step = factor.solve(rows.project(&kept_residuals));
        let largest = beta.iter().fold(0.0_f64, |a, b| a.max(b.abs()));
        let moved = step.iter().fold(0.0_f64, |a, s| a.max(s.abs()));
        beta.iter_mut().zip(&step).for_each(|(b, s)| *b += s);
        if moved <= 1e-11 * largest {
            break;
        }
    }
}

/// Sum of squares and largest absolute value of the residuals, and sum of squares of the outcome, over the kept rows.
fn over(member: &[bool], residuals: &[f64], outcome: &[f64]) -> (f64, f64, f64) {
    let mut sums = (0.0, 0.0_f64, 0.0);
    for ((m, r), y) in member.iter().zip(residuals).zip(outcome) {
        if *m {
            sums = (sums.0 + r * r, sums.1.max(r.abs()), sums.2 + y * y);
        }
    }
    sums
}

/// Marks the rows within the cut, ties included, and counts them.
fn mark(residuals: &[f64], cut: f64, next: &mut [bool]) -> usize {
    for (keep, r) in next.iter_mut().zip(residuals) {
        *keep = r.abs() <= cut;
    }
    next.iter().filter(|keep| **keep).count()
}

fn fingerprint(member: &[bool]) -> u64 {
    let mut hasher = DefaultHasher::new();
    member.hash(&mut hasher);
    hasher.finish()
}

fn change_is_small(next: &[bool], residuals: &[f64], before: &[f64]) -> bool {
    let (mut change, mut size) = (0.0, 0.0);
    for ((m, r), old) in next.iter().zip(residuals).zip(before) {
        if *m {
            change += (r.abs() - old.abs()).powi(2);
            size += r * r;
        }
    }
    change <= RESIDUAL_TOL * RESIDUAL_TOL * size
}

fn report(
    rows: &Rows<'_>,
    cross: Cross,
    beta: &[f64],
    residuals: &[f64],
    member: &[bool],
    (start, iterations, termination): (Start, usize, Termination),
    least_cut: f64,
) -> Result<BatchFit, Dependent> {
    let (n, q) = (rows.len(), rows.width());
    let kept: Vec<usize> = (0..n).filter(|&i| member[i]).collect();
    let (square, cut, _) = over(member, residuals, rows.outcome());
    let shape = square / kept.len() as f64 / (cut * cut);
    // Three standard deviations of such a share, so that small batches are not accused by chance.
    let flat = FLAT_SHARE + 3.0 * (0.2 / kept.len() as f64).sqrt();
    let cleaning = if 2 * kept.len() < n {
        Cleaning::TooFewKept
    } else if termination != Termination::ExactFit && cut > least_cut && outer_share(&kept, residuals, cut) > flat {
        Cleaning::NoCore
    } else {
        Cleaning::Cleaned
    };
    let free = kept.len().saturating_sub(q).max(1) as f64;
    // Where the rule rejected nothing for its size there is no tail to make up for.
    let left = if cut > least_cut { variance_within(cut_in_deviations(shape)) } else { 1.0 };
    let scale = (square / free / left).sqrt();
    let half = (n + q).div_ceil(2).min(n);
    let mut squares: Vec<f64> = residuals.iter().map(|r| r * r).collect();
    squares.select_nth_unstable_by(half - 1, f64::total_cmp);
    let half_scale = (squares[..half].iter().sum::<f64>() / half as f64).sqrt();
    let gram = match rows.weights() {
        None => cross.gram(),
        Some(weights) => weighted_information(rows, &cross, weights, &kept)?,
    };
    Ok(BatchFit {
        coefficients: rows.unshift_coefficients(beta.to_vec()),
        gram: rows.unshift_gram(gram),
        nobs: n,
        scale,
        variance: scale * scale / left,
        half_scale,
        cleaning,
        start,
        iterations,
        termination,
        kept,
    })
}

fn outer_share(kept: &[usize], residuals: &[f64], cut: f64) -> f64 {
    kept.iter().filter(|&&i| residuals[i].abs() > 0.5 * cut).count() as f64 / kept.len() as f64
}

/// `A B^-1 A` with `A = sum w z z'` and `B = sum w^2 z z'`: the inverse of the sandwich variance of weighted least
/// squares, which stands where the Gram stands for unit weights.
fn weighted_information(
    rows: &Rows<'_>,
    cross: &Cross,
    weights: &[f64],
    kept: &[usize],
) -> Result<DMatrix<f64>, Dependent> {
    let squared = rows.weighted(weights.iter().map(|w| w * w).collect());
    let middle = Cross::of(&squared, kept).factor()?;
    let a = cross.gram();
    let mut information = DMatrix::zeros(a.nrows(), a.ncols());
    for (j, column) in a.column_iter().enumerate() {
        let solved = DVector::from_vec(middle.solve(column.iter().copied().collect()));
        information.set_column(j, &(&a * solved));
    }
    Ok((&information + information.transpose()) * 0.5)
}

fn density(c: f64) -> f64 {
    (-0.5 * c * c).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

/// Share of a normal variance that is left within `c` standard deviations:
/// `1 - 2 c phi(c) / (2 Phi(c) - 1)`.
fn variance_within(c: f64) -> f64 {
    1.0 - 2.0 * c * density(c) / erf(c / std::f64::consts::SQRT_2)
}

/// The same at the cut of the thresholding rule on normal noise, `c = sqrt(2 pi)`: `1 - 2 exp(-pi) / erf(sqrt(pi))` =
/// 0.9125.
///
/// It serves twice. The mean square of the kept residuals is this share of the noise variance, so the scale is divided
/// by its root. And the fit solves `sum z r 1{|r| <= c s} = 0`, whose slope in the coefficients is `-Gram` times the
/// same share, because rows cross the cut as the coefficients move. The sandwich is
/// `(0.9125 s^2 Gram) / (0.9125 Gram)^2 = s^2 / 0.9125 Gram^-1`.
pub fn kept_share_of_variance() -> f64 {
    variance_within((2.0 * std::f64::consts::PI).sqrt())
}

/// The cut in standard deviations at which a truncated normal has this mean square over squared cut. Between 1.5, where
/// a normal core can no longer be told from a flat one, and 6.
fn cut_in_deviations(shape: f64) -> f64 {
    let (mut low, mut high) = (1.5, 6.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if variance_within(middle) / (middle * middle) > shape {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}
