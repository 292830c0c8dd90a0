//! How well the linear predictor of a binomial fit tells outcomes apart, and how well its probabilities are calibrated.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal};

use super::{Test, UPPER};
use crate::linalg::kernels;

/// Fewest rows that a group of rows in a report has.
pub const LEAST_ROWS: usize = 5;
/// Groups of the Hosmer-Lemeshow test, and rows of the decile table.
const GROUPS: usize = 10;
/// Largest number of steps of the ROC curve.
const STEPS: usize = 100;
/// Predictors that differ by no more than this, relative to 1 or to their size, are tied: it is what rounding leaves.
const TIE: f64 = 1e-12;

/// Discrimination and calibration of a binomial fit on its own rows, at the party that holds the outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Performance {
    /// Rows with outcome 1.
    pub events: u64,
    /// Area under the ROC curve: the probability that a row with outcome 1 has a larger predictor than one with outcome 0.
    pub auc: Option<f64>,
    /// Its standard error (DeLong, DeLong and Clarke-Pearson 1988).
    pub auc_std_error: Option<f64>,
    /// Lower end of its 95 % interval, not below 0.
    pub auc_low: Option<f64>,
    /// Upper end, not above 1.
    pub auc_high: Option<f64>,
    /// Brier score: the mean square of outcome less probability.
    pub brier: f64,
    /// Hosmer-Lemeshow test over ten groups between the deciles of the probabilities, chi-square with two degrees of freedom
    /// fewer than groups.
    pub hosmer_lemeshow: Option<Test>,
    /// Intercept of a logistic regression of the outcome on the linear predictor; 0 on the rows of a fit with an intercept and without a
    /// penalty and an offset.
    pub calibration_intercept: Option<f64>,
    /// Its slope; 1 on the rows of a fit with an intercept and without a penalty and an offset.
    pub calibration_slope: Option<f64>,
    /// Rows between the deciles of the probabilities, the smallest first; a group of fewer than 5 rows is joined to the next.
    pub deciles: Vec<Decile>,
    /// The ROC curve, from the largest predictors on: at most 100 steps of at least 5 rows.
    pub roc: Vec<RocPoint>,
}

/// A group of rows with similar probabilities.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Decile {
    /// Its rows.
    pub rows: u64,
    /// Those with outcome 1.
    pub observed: u64,
    /// The sum of their probabilities.
    pub expected: f64,
}

/// A point of the ROC curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RocPoint {
    /// Share of the rows with outcome 0 whose predictor is at least as large.
    pub false_positive: f64,
    /// Share of the rows with outcome 1.
    pub true_positive: f64,
}

/// Rows whose predictors are tied.
#[derive(Debug, Clone, Copy)]
struct Tied {
    eta: f64,
    events: usize,
    others: usize,
}

impl Tied {
    fn rows(&self) -> usize {
        self.events + self.others
    }
}

impl Performance {
    /// Of outcomes 0 and 1 with their linear predictors; `None` where there is no row, an outcome is something else, or a
    /// predictor is not finite.
    pub fn of(y: &[f64], predictor: impl Fn(usize) -> f64 + Sync) -> Option<Performance> {
        let mut rows: Vec<(f64, bool)> = y.par_iter().enumerate().map(|(row, y)| (predictor(row), *y == 1.0)).collect();
        if y.is_empty() || y.iter().any(|y| *y != 0.0 && *y != 1.0) || rows.iter().any(|(eta, _)| !eta.is_finite()) {
            return None;
        }
        rows.par_sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let runs = runs(&rows);
        drop(rows);
        let n = y.len() as f64;
        let events: usize = runs.iter().map(|run| run.events).sum();
        let (auc, auc_std_error) = area(&runs, events, y.len() - events);
        let half = auc_std_error.map(|error| Normal::standard().inverse_cdf(UPPER) * error);
        let mut squares = 0.0;
        each_probability(
            &runs,
            |eta| eta,
            |run, [of_1, of_0]| squares += run.events as f64 * of_0.powi(2) + run.others as f64 * of_1.powi(2),
        );
        let groups = groups(&runs, y.len());
        let calibration = calibration(&runs);
        Some(Performance {
            events: events as u64,
            auc,
            auc_std_error,
            auc_low: auc.zip(half).map(|(auc, half)| (auc - half).max(0.0)),
            auc_high: auc.zip(half).map(|(auc, half)| (auc + half).min(1.0)),
            brier: squares / n,
            hosmer_lemeshow: hosmer_lemeshow(&groups),
            calibration_intercept: calibration.map(|(intercept, _)| intercept),
            calibration_slope: calibration.map(|(_, slope)| slope),
            deciles: shown(&groups),
            roc: curve(&runs, events, y.len() - events),
        })
    }
}

/// Hands on each run with the probabilities of an outcome of 1 and of one of 0 at a predictor that is made from its own. The complement
/// of a probability near 1 has its digits at the other end.
fn each_probability(runs: &[Tied], at: impl Fn(f64) -> f64, mut take: impl FnMut(&Tied, [f64; 2])) {
    const TOGETHER: usize = 512;
    let (mut etas, mut shares) = ([0.0; TOGETHER], [0.0; TOGETHER]);
    for runs in runs.chunks(TOGETHER) {
        let (etas, shares) = (&mut etas[..runs.len()], &mut shares[..runs.len()]);
        etas.iter_mut().zip(runs).for_each(|(eta, run)| *eta = at(run.eta));
        kernels::exp_of_minus(etas, shares);
        for ((run, eta), share) in runs.iter().zip(&*etas).zip(&*shares) {
            let [larger, smaller] = [1.0 / (1.0 + share), share / (1.0 + share)];
            take(run, if *eta >= 0.0 { [larger, smaller] } else { [smaller, larger] });
        }
    }
}

/// Sorted rows, tied ones together.
fn runs(rows: &[(f64, bool)]) -> Vec<Tied> {
    let mut runs: Vec<Tied> = Vec::new();
    for &(eta, event) in rows {
        match runs.last_mut() {
            Some(run) if eta - run.eta <= TIE * eta.abs().max(1.0) => {
                run.events += usize::from(event);
                run.others += usize::from(!event);
            }
            _ => runs.push(Tied { eta, events: usize::from(event), others: usize::from(!event) }),
        }
    }
    runs
}

/// The area under the curve and its standard error.
///
/// # Reference
/// E. R. DeLong, D. M. DeLong and D. L. Clarke-Pearson, "Comparing the areas under two or more correlated receiver operating
/// characteristic curves", Biometrics 44 (1988), equations 2 to 6, with one curve.
fn area(runs: &[Tied], events: usize, others: usize) -> (Option<f64>, Option<f64>) {
    if events == 0 || others == 0 {
        return (None, None);
    }
    let (m, n) = (events as f64, others as f64);
    // For each run what its events have below them among the others, and its others above them among the events.
    let components = || {
        runs.iter().scan((0_usize, 0_usize), |(events_below, others_below), run| {
            let below = (*others_below as f64 + 0.5 * run.others as f64) / n;
            let above = (m - *events_below as f64 - 0.5 * run.events as f64) / m;
            (*events_below, *others_below) = (*events_below + run.events, *others_below + run.others);
            Some((run, below, above))
        })
    };
    let auc = components().map(|(run, below, _)| run.events as f64 * below).sum::<f64>() / m;
    if events < 2 || others < 2 {
        return (Some(auc), None);
    }
    let (of_events, of_others) = components().fold((0.0, 0.0), |(of_events, of_others), (run, below, above)| {
        (of_events + run.events as f64 * (below - auc).powi(2), of_others + run.others as f64 * (above - auc).powi(2))
    });
    (Some(auc), Some((of_events / (m - 1.0) / m + of_others / (n - 1.0) / n).sqrt()))
}

/// A group of rows between deciles, with events and others apart.
#[derive(Debug, Clone, Copy, Default)]
struct Group {
    observed: [usize; 2],
    expected: [f64; 2],
}

impl Group {
    fn rows(&self) -> usize {
        self.observed[0] + self.observed[1]
    }

    fn add(&mut self, other: &Group) {
        for at in 0..2 {
            self.observed[at] += other.observed[at];
            self.expected[at] += other.expected[at];
        }
    }
}

/// Rows between the deciles of the probabilities, each with its upper end: `cut(p, unique(quantile(p, 0:10 / 10)),
/// include.lowest = TRUE)` of R, with quantiles of type 7. Groups without rows are left out.
fn groups(runs: &[Tied], n: usize) -> Vec<Group> {
    let ends: Vec<usize> = runs
        .iter()
        .scan(0, |rows, run| {
            *rows += run.rows();
            Some(*rows)
        })
        .collect();
    // The probability of the row of a rank from 0.
    let ranked = |rank: usize| {
        let run = ends.partition_point(|end| *end <= rank).min(runs.len() - 1);
        let mut probability = 0.0;
        each_probability(&runs[run..=run], |eta| eta, |_, [of_1, _]| probability = of_1);
        probability
    };
    let least = ranked(0);
    let breaks: Vec<f64> = (1..GROUPS)
        .map(|k| {
            // As R computes it, rounding included.
            let place = 1.0 + (n - 1) as f64 * (k as f64 * (1.0 / GROUPS as f64));
            let (low, high) = (place.floor(), place.ceil());
            let (below, above) = (ranked(low as usize - 1), ranked(high as usize - 1));
            if below == above { below } else { (1.0 - (place - low)) * below + (place - low) * above }
        })
        // Quantiles that are the smallest probability are one break with the lowest, which is no upper end.
        .filter(|end| *end > least)
        .collect();
    let mut groups = vec![Group::default(); GROUPS];
    let add = |run: &Tied, [of_1, of_0]: [f64; 2]| {
        let (events, rows) = (run.events, run.rows() as f64);
        let group = Group { observed: [run.others, events], expected: [rows * of_0, rows * of_1] };
        groups[breaks.iter().filter(|end| of_1 > **end).count()].add(&group);
    };
    each_probability(runs, |eta| eta, add);
    groups.retain(|group| group.rows() > 0);
    groups
}

/// The test of D. W. Hosmer and S. Lemeshow (1980), as R's `ResourceSelection::hoslem.test` with `g = 10` computes it where no
/// group is empty.
fn hosmer_lemeshow(groups: &[Group]) -> Option<Test> {
    let each = groups.iter().flat_map(|group| group.observed.iter().zip(group.expected));
    let statistic: f64 = each.map(|(observed, expected)| (*observed as f64 - expected).powi(2) / expected).sum();
    Test::chi_square(statistic, groups.len() as i64 - 2)
}

/// Groups of at least so many rows that none is about few people: a smaller one is joined to the next, the last to the one before.
fn shown(groups: &[Group]) -> Vec<Decile> {
    let mut joined: Vec<Group> = Vec::new();
    let mut open = Group::default();
    for group in groups {
        open.add(group);
        if open.rows() >= LEAST_ROWS {
            joined.push(std::mem::take(&mut open));
        }
    }
    if let Some(last) = joined.last_mut() {
        last.add(&open);
    }
    let decile = |group: &Group| Decile {
        rows: group.rows() as u64,
        observed: group.observed[1] as u64,
        expected: group.expected[1],
    };
    joined.iter().map(decile).collect()
}

/// The curve in steps of enough rows.
fn curve(runs: &[Tied], events: usize, others: usize) -> Vec<RocPoint> {
    if events == 0 || others == 0 {
        return Vec::new();
    }
    let step = LEAST_ROWS.max((events + others).div_ceil(STEPS));
    let point = |positive: [usize; 2]| RocPoint {
        false_positive: positive[0] as f64 / others as f64,
        true_positive: positive[1] as f64 / events as f64,
    };
    let (mut positive, mut open) = ([0; 2], 0);
    let mut points = vec![point(positive)];
    for run in runs.iter().rev() {
        positive = [positive[0] + run.others, positive[1] + run.events];
        open += run.rows();
        let left = events + others - positive[0] - positive[1];
        // The last step takes what would be too few rows for one of their own.
        if open >= step && (left == 0 || left >= LEAST_ROWS) {
            points.push(point(positive));
            open = 0;
        }
    }
    if open > 0 {
        points.push(point(positive));
    }
    points
}

/// A logistic regression of the outcome on the predictor, at one intercept and slope.
#[derive(Default)]
struct Logistic {
    likelihood: f64,
    score: [f64; 2],
    information: [f64; 3],
}

/// `at` is the intercept at the centre and the slope.
fn logistic(runs: &[Tied], centre: f64, at: [f64; 2]) -> Logistic {
    let mut sums = Logistic::default();
    let Logistic { likelihood, score, information } = &mut sums;
    each_probability(
        runs,
        |eta| at[0] + at[1] * (eta - centre),
        |run, [of_1, of_0]| {
            let (x, events, others) = (run.eta - centre, run.events as f64, run.others as f64);
            for (count, probability) in [(events, of_1), (others, of_0)] {
                *likelihood += if count > 0.0 { count * probability.ln() } else { 0.0 };
            }
            let (rest, weight) = (events * of_0 - others * of_1, run.rows() as f64 * of_1 * of_0);
            *score = [score[0] + rest, score[1] + rest * x];
            *information = [information[0] + weight, information[1] + weight * x, information[2] + weight * x * x];
        },
    );
    sums
}

/// Intercept and slope of a logistic regression of the outcome on the predictor, by Newton steps from the model without a slope, each
/// halved until the likelihood does not fall; `None` where it has no finite solution.
fn calibration(runs: &[Tied]) -> Option<(f64, f64)> {
    // About its mean: the two coefficients are then hardly correlated.
    let rows: f64 = runs.iter().map(|run| run.rows() as f64).sum();
    let centre = runs.iter().map(|run| run.rows() as f64 * run.eta).sum::<f64>() / rows;
    let events: f64 = runs.iter().map(|run| run.events as f64).sum();
    let mut at = [(events / (rows - events)).ln(), 0.0];
    let mut here = logistic(runs, centre, at);
    for _ in 0..100 {
        let ([a, b, c], score) = (here.information, here.score);
        let determinant = a * c - b * b;
        if !(determinant > 1e-12 * a * c) {
            return None;
        }
        let change = [(c * score[0] - b * score[1]) / determinant, (a * score[1] - b * score[0]) / determinant];
        let largest = change[0].abs().max(change[1].abs());
        let to = |share: f64| [at[0] + share * change[0], at[1] + share * change[1]];
        let least = here.likelihood - 1e-12 * here.likelihood.abs();
        let mut share = 1.0;
        let there = loop {
            let there = logistic(runs, centre, to(share));
            if there.likelihood >= least || share < 1e-9 {
                break there;
            }
            share /= 2.0;
        };
        (at, here) = (to(share), there);
        if largest <= 1e-12 * (1.0 + at[0].abs() + at[1].abs()) {
            return Some((at[0] - at[1] * centre, at[1]));
        }
        if at[0].abs().max(at[1].abs()) > 1e6 {
            return None;
        }
    }
    None
}
