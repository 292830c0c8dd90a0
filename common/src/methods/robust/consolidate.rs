//! One set of coefficients from many estimates, as long as more than half of them are accurate.
//!
//! Every method first finds the pivot, the estimate whose majority of nearest neighbours is tightest, because its
//! radius tells how far the majority agrees. What a liar claims about itself (its Gram, its counts, its scale) can
//! shrink its own influence, never grow it: Grams are capped at twice the majority's median, and noise levels are
//! medians.

mod agreement;

use std::collections::BTreeMap;
use std::str::FromStr;

use nalgebra::{DMatrix, DVector};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use self::agreement::Agreement;
use super::batch::kept_share_of_variance;
use super::distance::{MajorityMetric, NoiseShape, between, coordinate_median, reach};
use super::estimate::{Estimate, Estimates, Gram};
use super::normal::{Factor, outer_square, transposed_product};
use super::weights::{SITES, Weights, copies};
use crate::fit::{Member, Standing, Verdict};
use crate::laws::{Student, beta_quantile, chi_squared_quantile};

/// Share of honest estimates that the gate of `refine` lets in.
const GATE: f64 = 0.999;
/// Share of cases in which half of honest estimates lie closer together than the gate allows for.
const SMALL_HALF: f64 = 0.01;
/// A Gram counts for at most this many times the majority's median.
const CLAIM_CAP: f64 = 2.0;

/// How estimates become one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// `pivot`: mean of the majority nearest to the pivot, as in the source. Averages hardly more than half.
    Pivot,
    /// `refine`: from the pivot's mean, all estimates that pass a chi-square gate, pooled by their Grams. The default.
    #[default]
    Refine,
    /// `geomed`: geometric median.
    GeometricMedian,
    /// `trimmed`: mean of each coordinate without the `discard` smallest and largest; by default a quarter each.
    Trimmed {
        /// Estimates discarded at either end.
        discard: Option<usize>,
    },
    /// `cmedian`: median of each coordinate.
    CoordinateMedian,
    /// `filter`: weights fall along the direction of largest spread. Best against lies that hide inside the noise.
    Filter {
        /// Bad estimates to withstand; by default all but a majority.
        discard: Option<usize>,
    },
    /// `mean`: plain mean, which a single lie moves anywhere.
    Mean,
}

impl Method {
    /// The name on the command line and in studies.
    pub fn name(self) -> &'static str {
        match self {
            Method::Pivot => "pivot",
            Method::Refine => "refine",
            Method::GeometricMedian => "geomed",
            Method::Trimmed { .. } => "trimmed",
            Method::CoordinateMedian => "cmedian",
            Method::Filter { .. } => "filter",
            Method::Mean => "mean",
        }
    }
}

impl std::fmt::Display for Method {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Method {
    type Err = ConsolidateError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Ok(match name {
            "pivot" => Method::Pivot,
            "refine" => Method::Refine,
            "geomed" => Method::GeometricMedian,
            "trimmed" => Method::Trimmed { discard: None },
            "cmedian" => Method::CoordinateMedian,
            "filter" => Method::Filter { discard: None },
            "mean" => Method::Mean,
            _ => return Err(ConsolidateError::UnknownMethod(name.to_owned())),
        })
    }
}

/// What a distance between two estimates means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// `Euclidean` for [`Method::Pivot`], as in the source; otherwise `Majority` where every estimate has its Gram.
    #[default]
    Automatic,
    /// Between coefficients as they are: large where columns are small.
    Euclidean,
    /// Between predictions: root mean square difference over the majority's rows, in units of the outcome. Correlated
    /// columns and columns in different units are whitened by it.
    Majority,
}

/// What consolidation is asked to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ConsolidationSettings {
    /// How estimates become one.
    pub method: Method,
    /// What a distance means.
    pub metric: Metric,
}

impl From<Method> for ConsolidationSettings {
    fn from(method: Method) -> Self {
        ConsolidationSettings { method, metric: Metric::Automatic }
    }
}

impl Member {
    fn of(estimate: &Estimate, distance: f64, trusted: bool) -> Member {
        Member {
            worker: estimate.worker.clone(),
            batch: estimate.batch,
            nobs: estimate.nobs,
            kept: estimate.kept,
            cleaned: estimate.cleaned,
            distance,
            trusted,
            copy_of: None,
        }
    }
}

/// The consolidated coefficients, and what was trusted on the way.
#[derive(Clone, PartialEq)]
pub struct Consensus {
    /// `q` coefficients, an intercept first.
    pub coefficients: DVector<f64>,
    /// The method that made them.
    pub method: Method,
    /// Every estimate, in the order of worker and batch (for a stream, of arrival).
    pub members: Vec<Member>,
    /// Position of the pivot among the members.
    pub pivot: usize,
    /// So many estimates are more than half of the weight, whichever they are: all but those that are withstood. Of `m`
    /// estimates of equal weight `floor(m / 2) + 1`.
    pub majority: usize,
    /// How each site stands, by name.
    pub sites: Vec<Standing>,
    /// Whether sites have one vote each, as they do from three sites on; otherwise estimates have.
    pub site_votes: bool,
    /// Distance from the pivot to the farthest of its dominating set.
    pub radius: f64,
    /// Whether the guarantee covers the result.
    pub verdict: Verdict,
    /// `q x q` covariance of the coefficients, for `refine` with Grams.
    pub covariance: Option<DMatrix<f64>>,
    /// Degrees of freedom of that covariance.
    pub degrees_of_freedom: f64,
    /// Spread between the pooled estimates over what their noise explains, for `refine` with at least two Grams. Where it
    /// is significantly above one, the covariance has been widened by it.
    pub overdispersion: Option<f64>,
    /// Positions of the dominating set, nearest first.
    pub(super) dominating: Vec<usize>,
}

impl std::fmt::Debug for Consensus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consensus")
            .field("coefficients", &self.coefficients.len())
            .field("method", &self.method)
            .field("members", &self.members.len())
            .field("trusted", &self.trusted())
            .field("verdict", &self.verdict)
            .finish_non_exhaustive()
    }
}

impl Consensus {
    /// Number of trusted estimates.
    pub fn trusted(&self) -> usize {
        self.members.iter().filter(|m| m.trusted).count()
    }

    /// Number of estimates that count: copies do not.
    pub fn counted(&self) -> usize {
        self.members.iter().filter(|m| m.copy_of.is_none()).count()
    }

    /// How many bad estimates the pivot withstands, whichever they are: together they hold less than half of the weight.
    pub fn withstands(&self) -> usize {
        self.counted().saturating_sub(self.majority)
    }

    /// Standard errors of the coefficients, for `refine` with Grams.
    pub fn std_errors(&self) -> Option<DVector<f64>> {
        self.covariance.as_ref().map(|c| c.diagonal().map(f64::sqrt))
    }

    /// Half width of the interval of each coefficient at this level, such as 0.95.
    pub fn half_widths(&self, level: f64) -> Option<DVector<f64>> {
        let t = Student::new(self.degrees_of_freedom)?.quantile(0.5 + 0.5 * level);
        self.std_errors().map(|s| s * t)
    }
}

/// Why estimates could not be consolidated.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ConsolidateError {
    /// There is nothing to consolidate.
    #[error("expected at least one estimate")]
    Empty,
    /// Trimming or filtering would leave nothing.
    #[error("expected to discard fewer than half of {estimates} estimates, got {discard}")]
    Discard {
        /// Estimates there are.
        estimates: usize,
        /// Estimates to be discarded.
        discard: usize,
    },
    /// The majority metric needs every Gram.
    #[error("expected the cross products of every estimate for distances between predictions")]
    MetricNeedsGram,
    /// Not a name of a method.
    #[error("expected pivot, refine, geomed, trimmed, cmedian, filter or mean, got {0:?}")]
    UnknownMethod(String),
}

/// Consolidates a set of estimates. Their order of arrival does not matter: ties go to the earlier worker and batch.
///
/// Memory beyond the estimates is O(q m) and never m x m.
///
/// # Errors
/// When there is no estimate, `discard` is too large, or a metric is asked for that the estimates do not support.
///
/// # Reference
/// Equations (6) to (9) and algorithm 2 for `pivot`; Vardi and Zhang, "The multivariate L1-median", PNAS 2000, for
/// `geomed`.
pub fn consolidate(estimates: &Estimates, settings: &ConsolidationSettings) -> Result<Consensus, ConsolidateError> {
    consolidate_in_order(&estimates.iter().collect::<Vec<_>>(), estimates.rows(), settings)
}

/// Estimates as points in coordinates where their metric is the ordinary distance.
pub(super) struct Frame {
    metric: Option<MajorityMetric>,
    noise: Option<NoiseShape>,
    centre: DVector<f64>,
}

impl Frame {
    pub(super) fn new(
        all: &[&Estimate],
        weights: &Weights,
        settings: &ConsolidationSettings,
    ) -> Result<Self, ConsolidateError> {
        let wants = match settings.metric {
            Metric::Euclidean => false,
            Metric::Majority => true,
            Metric::Automatic => settings.method != Method::Pivot,
        };
        let metric = MajorityMetric::new(all, weights);
        if settings.metric == Metric::Majority && metric.is_none() {
            return Err(ConsolidateError::MetricNeedsGram);
        }
        // Honest estimates are then small numbers, whose distances keep their digits beside any lie.
        let noise = metric.as_ref().map(|metric| metric.noise_shape(wants));
        Ok(Frame { metric: metric.filter(|_| wants), noise, centre: coordinate_median(&as_columns(all), weights) })
    }

    pub(super) fn points(&self, all: &[&Estimate]) -> DMatrix<f64> {
        let mut points = as_columns(all);
        for mut column in points.column_iter_mut() {
            column -= &self.centre;
        }
        match &self.metric {
            Some(metric) => metric.whiten(&points),
            None => points,
        }
    }

    /// Where these coefficients lie.
    fn locate(&self, coefficients: &DVector<f64>) -> DVector<f64> {
        let moved = coefficients - &self.centre;
        self.metric.as_ref().map_or_else(|| moved.clone(), |metric| metric.whiten_one(&moved))
    }

    fn restore(&self, point: &DVector<f64>) -> DVector<f64> {
        &self.centre + self.metric.as_ref().map_or_else(|| point.clone(), |metric| metric.restore(point))
    }
}

fn as_columns(all: &[&Estimate]) -> DMatrix<f64> {
    let q = all.first().map_or(0, |e| e.coefficients.len());
    DMatrix::from_iterator(q, all.len(), all.iter().flat_map(|e| e.coefficients.iter().copied()))
}

/// Position of the smallest value, the first of equals.
pub(super) fn argmin(values: &[f64]) -> usize {
    (0..values.len()).min_by(|&a, &b| values[a].total_cmp(&values[b])).unwrap_or(0)
}

/// Distances of every column of `points` to one point.
fn distances_to(points: &DMatrix<f64>, point: &[f64]) -> Vec<f64> {
    points.column_iter().map(|c| between(c.as_slice(), point)).collect()
}

fn squared(distances: &[f64]) -> Vec<f64> {
    distances.iter().map(|d| d * d).collect()
}

/// Positions from nearest to farthest, the earlier of equals first.
fn by_distance(distances: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..distances.len()).collect();
    order.sort_by(|&a, &b| distances[a].total_cmp(&distances[b]).then(a.cmp(&b)));
    order
}

fn mean_of(points: &DMatrix<f64>, chosen: &[usize], weights: &Weights) -> DVector<f64> {
    let (mut sum, mut total) = (DVector::zeros(points.nrows()), 0.0);
    for &i in chosen {
        sum.axpy(weights.at(i), &points.column(i), 1.0);
        total += weights.at(i);
    }
    if total > 0.0 { sum / total } else { sum }
}

/// As [`consolidate`], in the order given.
pub(super) fn consolidate_in_order(
    all: &[&Estimate],
    rows: &BTreeMap<String, u64>,
    settings: &ConsolidationSettings,
) -> Result<Consensus, ConsolidateError> {
    let originals = copies(all);
    let counted: Vec<usize> = (0..all.len()).filter(|&i| originals[i].is_none()).collect();
    let found = consolidate_distinct(&counted.iter().map(|&i| all[i]).collect::<Vec<_>>(), rows, settings)?;
    Ok(match counted.len() == all.len() {
        true => found,
        false => with_copies(found, all, &originals, &counted),
    })
}

/// A consensus of distinct estimates as one of all estimates, in which copies have no part.
fn with_copies(found: Consensus, all: &[&Estimate], originals: &[Option<usize>], counted: &[usize]) -> Consensus {
    let place = |i: usize| counted.binary_search(&i).unwrap_or(0);
    let members: Vec<Member> = all
        .iter()
        .zip(originals)
        .enumerate()
        .map(|(i, (e, original))| match original {
            None => found.members[place(i)].clone(),
            Some(original) => Member {
                worker: e.worker.clone(),
                batch: e.batch,
                trusted: false,
                copy_of: Some((all[*original].worker.clone(), all[*original].batch)),
                ..found.members[place(*original)].clone()
            },
        })
        .collect();
    let shares = found.sites.iter().map(|site| (site.worker.as_str(), site.share)).collect();
    Consensus {
        sites: standings(all, &members, &shares),
        members,
        pivot: counted[found.pivot],
        dominating: found.dominating.iter().map(|&i| counted[i]).collect(),
        ..found
    }
}

/// How each site stands; `shares` are those of the vote, of the sites that have any.
fn standings(all: &[&Estimate], members: &[Member], shares: &BTreeMap<&str, f64>) -> Vec<Standing> {
    let mut of: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (i, e) in all.iter().enumerate() {
        of.entry(&e.worker).or_default().push(i);
    }
    of.into_iter()
        .map(|(worker, own)| {
            let trusted = own.iter().filter(|&&i| members[i].trusted).count() as u64;
            let alone = || own_coefficients(&own.iter().map(|&i| all[i]).collect::<Vec<_>>());
            Standing {
                worker: worker.to_owned(),
                estimates: own.len() as u64,
                copies: own.iter().filter(|&&i| members[i].copy_of.is_some()).count() as u64,
                trusted,
                share: shares.get(worker).copied().unwrap_or(0.0),
                coefficients: if trusted == 0 { alone() } else { Vec::new() },
            }
        })
        .collect()
}

/// What some estimates say without any others: pooled by their Grams, or their mean.
fn own_coefficients(own: &[&Estimate]) -> Vec<f64> {
    let q = own.first().map_or(0, |e| e.coefficients.len());
    let mut mean = vec![0.0; q];
    for e in own {
        mean.iter_mut().zip(&e.coefficients).for_each(|(m, b)| *m += b / own.len() as f64);
    }
    let grams: Option<Vec<_>> = own.iter().map(|e| e.gram.as_ref()).collect();
    let Some(grams) = grams.filter(|grams| grams.len() > 1) else { return mean };
    let mut pull = vec![0.0; q];
    for (e, gram) in own.iter().zip(&grams) {
        let apart: Vec<f64> = e.coefficients.iter().zip(&mean).map(|(b, m)| b - m).collect();
        pull.iter_mut().zip(gram.times(&apart)).for_each(|(p, g)| *p += g);
    }
    let pooled = Factor::new(q, |i, j| grams.iter().map(|gram| gram.at(i, j)).sum()).map(|factor| factor.solve(pull));
    let pooled = pooled.ok().filter(|step| step.iter().all(|value| value.is_finite()));
    mean.iter().zip(pooled.unwrap_or_else(|| vec![0.0; q])).map(|(m, step)| m + step).collect()
}

/// The consensus of estimates none of which is a copy of another.
fn consolidate_distinct(
    all: &[&Estimate],
    rows: &BTreeMap<String, u64>,
    settings: &ConsolidationSettings,
) -> Result<Consensus, ConsolidateError> {
    let m = all.len();
    if m == 0 {
        return Err(ConsolidateError::Empty);
    }
    let weights = Weights::of(all, rows);
    let frame = Frame::new(all, &weights, settings)?;
    let points = frame.points(all);
    let radii = reach(&points, |row| weights.majority_value(row));
    let pivot = argmin(&radii);
    let from_pivot = distances_to(&points, points.column(pivot).as_slice());
    let mut dominating = by_distance(&from_pivot);
    dominating.truncate(weights.beyond(&dominating, 0.5));
    let centre = mean_of(&points, &dominating, &weights);

    let mut pooled = None;
    let point = match settings.method {
        Method::Pivot => centre,
        Method::Mean => mean_of(&points, &(0..m).collect::<Vec<_>>(), &weights),
        Method::GeometricMedian => geometric_median(&points, &weights),
        // These two work on the coefficients as they are: another basis would make another method.
        Method::CoordinateMedian => frame.locate(&coordinate_median(&as_columns(all), &weights)),
        Method::Trimmed { discard } => {
            frame.locate(&trimmed_mean(&as_columns(all), &weights, discard.unwrap_or(m / 4))?)
        }
        Method::Filter { discard } => spectral_filter(&points, &weights, discard.unwrap_or((m - 1) / 2))?,
        Method::Refine => {
            let found = refine(all, &frame, &points, &centre, &weights);
            let point = found.point.clone();
            pooled = Some(found);
            point
        }
    };

    let agreement = Agreement::judge(all, &frame, &points, &from_pivot, &weights);
    let distances = distances_to(&points, point.as_slice());
    let entered: Vec<bool> = match (&pooled, settings.method) {
        (Some(pooled), _) => pooled.gate.clone(),
        (None, Method::Pivot) => {
            let mut entered = vec![false; m];
            dominating.iter().for_each(|&i| entered[i] = true);
            entered
        }
        (None, _) => gate(&squared(&distances), points.nrows(), &weights),
    };
    let trusted = |i: usize| entered[i] && (agreement.majority || agreement.with_core[i]);
    let members: Vec<Member> = all.iter().enumerate().map(|(i, e)| Member::of(e, distances[i], trusted(i))).collect();
    let cleaned = weights.is_majority((0..m).filter(|&i| all[i].cleaned));
    let verdict = match (agreement.majority, cleaned) {
        (false, _) => Verdict::NoMajority,
        (true, false) => Verdict::MostNotCleaned,
        (true, true) => Verdict::MajorityAgrees,
    };
    let mut shares: BTreeMap<&str, f64> = BTreeMap::new();
    for (i, e) in all.iter().enumerate() {
        *shares.entry(&e.worker).or_default() += weights.at(i) / m as f64;
    }
    let coefficients = pooled.as_ref().map_or_else(|| frame.restore(&point), |pooled| pooled.coefficients.clone());
    Ok(Consensus {
        coefficients,
        method: settings.method,
        sites: standings(all, &members, &shares),
        site_votes: weights.sites() >= SITES,
        members,
        pivot,
        majority: m - weights.withstands(),
        radius: radii[pivot],
        verdict,
        overdispersion: pooled.as_ref().and_then(|p| p.overdispersion),
        degrees_of_freedom: pooled.as_ref().map_or(0.0, |p| p.degrees_of_freedom),
        covariance: pooled.and_then(|p| p.covariance),
        dominating,
    })
}

fn chi_squared(degrees: f64, share: f64) -> f64 {
    // A positive number of degrees of freedom always has one.
    chi_squared_quantile(degrees.max(1.0), share).unwrap_or(degrees)
}

/// Which estimates lie where honest ones do, by their squared distances from the centre.
///
/// The scale is that of the majority, so that what all of them have in common (sites that differ, laws with longer tails
/// than the normal one) widens the gate, and nobody's claim does. Half of few estimates may lie much closer together than
/// half of many would: the gate is as wide as that explains in 99 of 100 cases.
fn gate(squares: &[f64], q: usize, weights: &Weights) -> Vec<bool> {
    let effective = weights.effective(0..squares.len());
    let majority = (0.5 * effective).floor() + 1.0;
    let tail = beta_quantile(majority, effective - majority + 1.0, SMALL_HALF).unwrap_or(0.5);
    let q = q as f64;
    let factor = chi_squared(q, GATE) / chi_squared(q, tail.min(0.5)).max(f64::MIN_POSITIVE);
    let limit = factor * weights.majority_value(&mut squares.to_vec());
    squares.iter().map(|square| *square <= limit && square.is_finite()).collect()
}

/// What `refine` found.
struct Refined {
    point: DVector<f64>,
    coefficients: DVector<f64>,
    gate: Vec<bool>,
    covariance: Option<DMatrix<f64>>,
    degrees_of_freedom: f64,
    overdispersion: Option<f64>,
}

impl Refined {
    fn without_intervals(coefficients: DVector<f64>, point: DVector<f64>, gate: Vec<bool>) -> Refined {
        Refined { point, coefficients, gate, covariance: None, degrees_of_freedom: 0.0, overdispersion: None }
    }
}

/// How much each estimate's Gram counts: none for more than a multiple of the median claim, and the estimates of a site share what
/// any other site has.
fn bounded_shares(grams: &[&Gram], q: usize, frame: &Frame, weights: &Weights) -> Vec<f64> {
    let claim = |gram: &&Gram| match &frame.metric {
        Some(metric) => metric.claim(gram),
        None => (0..q).map(|j| gram.at(j, j)).sum(),
    };
    let claims: Vec<f64> = grams.iter().map(claim).collect();
    // The median of all claims lies among those of the honest majority. That of the nearest alone need not: liars near the
    // centre could lower it until honest Grams count for nothing beside those of liars far away.
    let cap = CLAIM_CAP * weights.median(&mut claims.clone());
    claims.iter().zip(weights.each()).map(|(claim, weight)| (cap / claim).min(1.0) * weight).collect()
}

fn inverse(factor: &Factor, q: usize) -> DMatrix<f64> {
    let mut inverse = DMatrix::zeros(q, q);
    for j in 0..q {
        let mut unit = vec![0.0; q];
        unit[j] = 1.0;
        inverse.set_column(j, &DVector::from_vec(factor.solve(unit)));
    }
    inverse
}

/// One re-weighting from the pivot's mean: everything that passes the gate, pooled by Grams of bounded size. A worker's
/// own Gram stands in its test and in its weight, so that a small claimed precision widens the gate but shrinks the
/// pull. The bound on Grams is for weights alone: in the test it would let in anyone who claims much. The noise level is the
/// majority's, never a worker's claim.
fn refine(
    all: &[&Estimate],
    frame: &Frame,
    points: &DMatrix<f64>,
    centre: &DVector<f64>,
    weights: &Weights,
) -> Refined {
    let (q, m) = points.shape();
    let start = frame.restore(centre);
    let distances = distances_to(points, centre.as_slice());
    let with_gram: Option<Vec<_>> = all.iter().map(|e| e.gram.as_ref()).collect();
    let Some(grams) = with_gram else {
        let gate = gate(&squared(&distances), q, weights);
        let point = mean_of(points, &(0..m).filter(|&i| gate[i]).collect::<Vec<_>>(), weights);
        return Refined::without_intervals(frame.restore(&point), point, gate);
    };
    let shares = bounded_shares(&grams, q, frame, weights);
    let apart = |i: usize, from: &DVector<f64>| -> (Vec<f64>, Vec<f64>) {
        let d: Vec<f64> = all[i].coefficients.iter().zip(from.iter()).map(|(b, z)| b - z).collect();
        let g = grams[i].times(&d);
        (d, g)
    };
    let form = |i: usize, from: &DVector<f64>| -> f64 {
        let (d, g) = apart(i, from);
        let square = d.iter().zip(&g).map(|(d, g)| d * g).sum::<f64>();
        if square.is_nan() { f64::INFINITY } else { square }
    };
    let gate = gate(&(0..m).map(|i| form(i, &start)).collect::<Vec<_>>(), q, weights);

    let size = q * (q + 1) / 2;
    let (mut sum, mut squared, mut pull) = (vec![0.0; size], vec![0.0; size], vec![0.0; q]);
    for i in (0..m).filter(|&i| gate[i]) {
        let share = shares[i];
        for ((s, t), g) in sum.iter_mut().zip(&mut squared).zip(grams[i].packed()) {
            *s += share * g;
            *t += share * share * g;
        }
        // Only the correction to the start is solved for: it stays small and keeps the digits.
        pull.iter_mut().zip(apart(i, &start).1).for_each(|(p, g)| *p += share * g);
    }
    let at = |packed: &[f64], i: usize, j: usize| packed[i.max(j) * (i.max(j) + 1) / 2 + i.min(j)];
    let Ok(factor) = Factor::new(q, |i, j| at(&sum, i, j)) else {
        // Positive definite Grams add up to one; only rounding at extreme scales ends here.
        return Refined::without_intervals(start, centre.clone(), gate);
    };
    let coefficients = &start + DVector::from_vec(factor.solve(pull));
    let pooled: Vec<usize> = (0..m).filter(|&i| gate[i]).collect();

    let mut levels: Vec<f64> = pooled.iter().map(|&i| all[i].scale.powi(2) / kept_share_of_variance()).collect();
    let level = weights.median_of(&mut levels, &pooled);
    let weight: f64 = pooled.iter().map(|&i| shares[i]).sum();
    let spread: f64 = pooled.iter().map(|&i| shares[i] * form(i, &coefficients)).sum();
    let degrees = q as f64 * (weights.effective(pooled.iter().copied()) - 1.0);
    // What the pooled coefficients take from the spread around them: one estimate's share where all weigh one.
    let taken = pooled.iter().map(|&i| shares[i] * weights.at(i)).sum::<f64>() / weight;
    let free = weight - taken;
    let overdispersion = (pooled.len() > 1 && level > 0.0 && free > 0.0).then(|| spread / (level * q as f64 * free));
    // Only what chance does not explain widens: taking the larger of the two always would make intervals too wide.
    let widen = overdispersion.filter(|ratio| ratio * degrees > chi_squared(degrees, GATE)).unwrap_or(1.0);
    let inverse = inverse(&factor, q);
    let middle = DMatrix::from_fn(q, q, |i, j| at(&squared, i, j));
    let covariance = (&inverse * middle * inverse.transpose()) * (level * widen);
    let rows: f64 = pooled.iter().map(|&i| all[i].kept as f64).sum();
    Refined {
        point: frame.locate(&coefficients),
        coefficients,
        gate,
        covariance: Some(covariance),
        degrees_of_freedom: if widen > 1.0 { degrees } else { (rows - q as f64).max(1.0) },
        overdispersion,
    }
}

/// Weiszfeld's iteration with the step of Vardi and Zhang where the point falls on an estimate.
fn geometric_median(points: &DMatrix<f64>, weights: &Weights) -> DVector<f64> {
    let mut z = coordinate_median(points, weights);
    let mut scale = distances_to(points, z.as_slice());
    let scale = weights.median(&mut scale);
    for _ in 0..1000 {
        let distances = distances_to(points, z.as_slice());
        let (mut pull, mut total, mut touching) = (DVector::zeros(z.len()), 0.0, 0.0);
        for ((column, d), weight) in points.column_iter().zip(&distances).zip(weights.each()) {
            if *d > 1e-14 * scale {
                pull += (column - &z) * (weight / *d);
                total += weight / d;
            } else {
                touching += weight;
            }
        }
        let strength = pull.norm();
        if total == 0.0 || strength <= touching {
            return z;
        }
        let step = pull * ((1.0 - touching / strength) / total);
        z += &step;
        if step.norm() <= 1e-12 * scale {
            return z;
        }
    }
    z
}

fn trimmed_mean(points: &DMatrix<f64>, weights: &Weights, discard: usize) -> Result<DVector<f64>, ConsolidateError> {
    let m = points.ncols();
    if 2 * discard >= m {
        return Err(ConsolidateError::Discard { estimates: m, discard });
    }
    let (low, high) = (discard as f64, (m - discard) as f64);
    let mut copy = vec![(0.0, 0.0); m];
    Ok(DVector::from_fn(points.nrows(), |j, _| {
        let values = points.row(j);
        copy.iter_mut().zip(values.iter().zip(weights.each())).for_each(|(c, (v, w))| *c = (*v, *w));
        copy.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        // Each value counts with the part of its weight that lies between the two ends.
        let (mut sum, mut below) = (0.0, 0.0);
        for (value, weight) in &copy {
            let part = (below + weight).min(high) - below.max(low);
            if part > 0.0 {
                sum += part * value;
            }
            below += weight;
        }
        sum / (high - low)
    }))
}

/// Down-weights along the direction of largest spread until the total weight is that of the surely good estimates, and
/// keeps the mean whose largest spread was smallest. The largest score is taken over estimates that still have weight:
/// with dead ones it might never end.
fn spectral_filter(points: &DMatrix<f64>, votes: &Weights, discard: usize) -> Result<DVector<f64>, ConsolidateError> {
    let (q, m) = points.shape();
    if 2 * discard >= m {
        return Err(ConsolidateError::Discard { estimates: m, discard });
    }
    let mut weights = votes.each().to_vec();
    let mut best = (f64::INFINITY, coordinate_median(points, votes));
    let mut scaled = points.clone();
    // Thousands of estimates would take thousands of decompositions; each direction then serves several rounds.
    let repeats = m.div_ceil(500) as i32;
    loop {
        let total: f64 = weights.iter().sum();
        if total <= (m - 2 * discard) as f64 && best.0.is_finite() {
            return Ok(best.1);
        }
        let mut mean = DVector::zeros(q);
        for (column, w) in points.column_iter().zip(&weights) {
            mean.axpy(w / total, &column, 1.0);
        }
        for (k, mut column) in scaled.column_iter_mut().enumerate() {
            column.copy_from(&points.column(k));
            column -= &mean;
            column *= (weights[k] / total).sqrt();
        }
        let (value, direction) = largest_spread(&scaled);
        if value < best.0 {
            best = (value, mean.clone());
        }
        let scores: Vec<f64> = points
            .column_iter()
            .zip(&weights)
            .map(|(c, w)| if *w > 0.0 { (c - &mean).dot(&direction).powi(2) } else { 0.0 })
            .collect();
        let largest = scores.iter().copied().fold(0.0, f64::max);
        // Nothing is left to tell apart, or the numbers are too large to be told apart.
        if !(largest > f64::MIN_POSITIVE && largest.is_finite()) || total <= 0.0 {
            return Ok(best.1);
        }
        for (w, s) in weights.iter_mut().zip(&scores) {
            *w *= (1.0 - s / largest).max(0.0).powi(repeats);
        }
    }
}

/// Largest eigenvalue of `Z Z'` and its eigenvector, by the smaller of the two products.
fn largest_spread(z: &DMatrix<f64>) -> (f64, DVector<f64>) {
    let (q, m) = z.shape();
    let wide = m > q;
    let size = q.min(m);
    let product = if wide {
        outer_square(z)
    } else {
        let mut product = DMatrix::zeros(m, m);
        transposed_product(z.as_slice(), z.as_slice(), q, product.as_mut_slice());
        product
    };
    let eigen = product.symmetric_eigen();
    let top = (0..size).max_by(|&a, &b| eigen.eigenvalues[a].total_cmp(&eigen.eigenvalues[b])).unwrap_or(0);
    let vector = eigen.eigenvectors.column(top).into_owned();
    let direction = if wide { vector } else { z * vector };
    let length = direction.norm();
    (eigen.eigenvalues[top], if length > 0.0 { direction / length } else { direction })
}
