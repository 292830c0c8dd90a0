//! Whether a majority agrees: from the shape of the distances between estimates, and, where that says too little, from the
//! noise that they claim.
//!
//! Sites differ by more than noise, and by how much is not known. Three questions are asked, and a majority agrees when
//! none of them speaks against it.
//!
//! 1. Does the tightest quarter around the pivot go on to a majority? Otherwise fewer than half agree and the others are
//!    scattered.
//! 2. Does the tightest half go on to one more estimate? A half that lies apart from all others has no majority, however
//!    close the others are. Squared distances from the half's mean follow one law if the estimates do, whatever its scale,
//!    so that the distance to the next estimate is tied to the mean within the half. The law's degrees of freedom are those
//!    that the half itself shows, since sites may differ in the intercept alone.
//! 3. Where the second law is too wide to tell groups that are five of their radii apart (few estimates of few
//!    coefficients: up to six of five coefficients, up to twelve of two, up to twenty of one), does the claimed noise
//!    explain the distances, with room for a fivefold standard error? Estimates without their Gram claim nothing, and three
//!    of them are taken to agree.
//!
//! Half of the estimates that lie within about two standard errors of the other half cannot always be told from honest
//! ones, nor can they move the result by more than that.

use nalgebra::DMatrix;
use statrs::distribution::{ChiSquared, ContinuousCDF};

use super::{Frame, by_distance, chi_squared, distances_to, kept_share_of_variance, mean_of};
use crate::laws::beta_quantile;
use crate::methods::robust::estimate::Estimate;
use crate::methods::robust::weights::Weights;

/// Chance with which honest estimates alone may look like a broken majority, per tail.
const FALSE_ALARM: f64 = 1e-4;
/// Room for the pivot not being the centre, in squared distance.
const OFF_CENTRE: f64 = 2.0;
/// Claimed counts and noise may each explain at most this factor in squared distance.
const CLAIM_RANGE: f64 = 25.0;
/// The claimed noise may explain distances with this factor to spare, in squared distance.
const ROOM: f64 = 25.0;
/// A law by which the next estimate may lie this much farther than the half, in squared distance, tells nothing.
const UNTELLING: f64 = 25.0;
/// Rounds in which a half settles.
const ROUNDS: usize = 20;
/// Members of a half that are looked at to see in how many directions it spreads.
const SPREAD_OF: usize = 200;

/// Whether there is a majority, and who agrees with its core.
pub(super) struct Agreement {
    pub(super) majority: bool,
    pub(super) with_core: Vec<bool>,
}

impl Agreement {
    /// `points` are the estimates in the frame's coordinates, `from_pivot` their distances from the pivot.
    pub(super) fn judge(
        all: &[&Estimate],
        frame: &Frame,
        points: &DMatrix<f64>,
        from_pivot: &[f64],
        weights: &Weights,
    ) -> Self {
        let order = by_distance(from_pivot);
        let nearest = &order[..weights.within_half(&order)];
        // A half of one estimate, or less, shows nothing of how far its members lie apart.
        if weights.effective(0..all.len()) < 4.0 || nearest.len() < 2 {
            return by_claims(all, frame, from_pivot, weights);
        }
        let half = Half::around(points, nearest.to_vec(), weights);
        let degrees = frame.noise.as_ref().map_or(points.nrows() as f64, |shape| shape.degrees);
        let floor = noise_floor(all, frame, weights).max(rounding_floor(frame));
        let mut found = quarter(all, &order, from_pivot, half.degrees(points, floor).min(degrees), floor, weights);
        let noise = relative_noise(all, weights);
        let (mut goes_on, near) = half.goes_on(points, &noise, degrees, floor);
        if !goes_on {
            // The half around the pivot may be colluders who lie closer together than noise allows; the others may still
            // be a majority.
            let mut farthest = by_distance(&half.distances);
            farthest.reverse();
            farthest.truncate(weights.within_half(&farthest));
            goes_on =
                farthest.len() > 1 && Half::around(points, farthest, weights).goes_on(points, &noise, degrees, floor).0;
        }
        found.restrict(&Agreement { majority: goes_on, with_core: near });
        if tightness(half.estimates(), half.degrees(points, floor).min(degrees)) > UNTELLING {
            found.restrict(&by_claims(all, frame, from_pivot, weights));
        }
        found
    }

    fn restrict(&mut self, other: &Agreement) {
        self.majority &= other.majority;
        self.with_core.iter_mut().zip(&other.with_core).for_each(|(with, also)| *with &= also);
    }
}

/// The first question. Squared distances from the pivot of honest estimates follow one law, so that the distance to the
/// majority's last member is tied to the distance to the last of the nearest quarter by quantiles of order statistics. A
/// quarter of copies that are closer to each other than the majority's noise allows counts as being as far apart as that
/// noise, so that copying cannot raise the alarm.
fn quarter(
    all: &[&Estimate],
    order: &[usize],
    from_pivot: &[f64],
    degrees: f64,
    floor: f64,
    weights: &Weights,
) -> Agreement {
    let m = weights.effective(0..all.len());
    let mut kept: Vec<f64> = all.iter().map(|e| e.kept as f64).collect();
    let typical = weights.median(&mut kept);
    let share = |e: &Estimate| (typical / e.kept as f64).clamp(1.0 / CLAIM_RANGE, CLAIM_RANGE);
    let own = share(all[order[0]]);
    let squares: Vec<f64> = all.iter().zip(from_pivot).map(|(e, d)| 2.0 * d * d / (own + share(e))).collect();
    let sorted = by_distance(&squares);
    let core = weights.beyond(&sorted, 0.25).max(2).min(sorted.len());
    let majority = weights.beyond(&sorted, 0.5);
    // Order statistics of the others, in units of whole estimates; the pivot itself is the first of the sorted list.
    let rank = |first: usize| {
        let others: f64 = sorted[1..first].iter().map(|&i| weights.at(i)).sum();
        others * m / all.len() as f64
    };
    let tail = |first: usize, at: f64| {
        let below = rank(first);
        beta_quantile(below, m - below, at).unwrap_or(0.5)
    };
    let factor = OFF_CENTRE * chi_squared(degrees, tail(majority, 1.0 - FALSE_ALARM))
        / chi_squared(degrees, tail(core, FALSE_ALARM)).max(f64::MIN_POSITIVE);
    let limit = factor * squares[sorted[core - 1]].max(floor);
    Agreement {
        majority: squares[sorted[majority - 1]] <= limit,
        with_core: squares.iter().map(|d| *d <= limit).collect(),
    }
}

/// Half of the weight of the estimates, those that are nearest to their own mean.
struct Half<'a> {
    weights: &'a Weights,
    /// Ascending.
    members: Vec<usize>,
    /// Of every estimate from the half's mean.
    distances: Vec<f64>,
}

impl<'a> Half<'a> {
    /// From some estimates to those nearest to their mean, until they stay.
    fn around(points: &DMatrix<f64>, mut members: Vec<usize>, weights: &'a Weights) -> Half<'a> {
        let mut distances = Vec::new();
        for _ in 0..ROUNDS {
            distances = distances_to(points, mean_of(points, &members, weights).as_slice());
            let mut next = by_distance(&distances);
            next.truncate(weights.within_half(&next).max(2));
            next.sort_unstable();
            if next == members {
                break;
            }
            members = next;
        }
        Half { weights, members, distances }
    }

    /// The number of equally weighted estimates whose half shows as much.
    fn estimates(&self) -> f64 {
        let (all, half) = (0..self.distances.len(), self.members.iter().copied());
        self.weights.effective(all).min(2.0 * self.weights.effective(half) + 1.0)
    }

    /// Whether the estimate next to the half may belong to it, and which ones may; as the distances are, or in units of
    /// each estimate's claimed noise, whichever is milder.
    fn goes_on(&self, points: &DMatrix<f64>, noise: &[f64], degrees: f64, floor: f64) -> (bool, Vec<bool>) {
        let m = self.distances.len();
        let weight: f64 = self.members.iter().map(|&i| self.weights.at(i)).sum();
        let outside = 1.0 + self.weights.effective(self.members.iter().copied()).recip();
        let factor = tightness(self.estimates(), self.degrees(points, floor).min(degrees));
        let mut inside = vec![false; m];
        self.members.iter().for_each(|&i| inside[i] = true);
        let judged = |units: &dyn Fn(usize) -> f64| -> Vec<bool> {
            // The mean is nearer to those from whom it was taken.
            let squares: Vec<f64> = (0..m)
                .map(|i| {
                    let taken = if inside[i] { 1.0 - self.weights.at(i) / weight } else { outside };
                    self.distances[i] * self.distances[i] / taken / units(i)
                })
                .collect();
            let within = self.members.iter().map(|&i| self.weights.at(i) * squares[i]).sum::<f64>() / weight;
            squares.iter().map(|d| *d <= factor * within.max(floor)).collect()
        };
        let (plain, scaled) = (judged(&|_| 1.0), judged(&|i| noise[i]));
        let goes_on = |near: &[bool]| near.iter().zip(&inside).any(|(near, inside)| *near && !inside);
        let near = plain.iter().zip(&scaled).map(|(a, b)| *a || *b).collect();
        (goes_on(&plain) || goes_on(&scaled), near)
    }

    /// In how many directions the half spreads: `(tr S)^2 / tr S^2`, corrected for the few estimates that show it. Copies,
    /// which are closer than noise allows, show nothing.
    fn degrees(&self, points: &DMatrix<f64>, floor: f64) -> f64 {
        let q = points.nrows() as f64;
        let every = self.members.len().div_ceil(SPREAD_OF).max(1);
        let chosen: Vec<usize> = self.members.iter().copied().step_by(every).collect();
        let centre = mean_of(points, &chosen, self.weights);
        let roots: Vec<f64> = chosen.iter().map(|&i| self.weights.at(i).sqrt()).collect();
        let spread =
            DMatrix::from_fn(points.nrows(), chosen.len(), |j, k| roots[k] * (points[(j, chosen[k])] - centre[j]));
        let small =
            if spread.nrows() < spread.ncols() { &spread * spread.transpose() } else { spread.transpose() * &spread };
        let (trace, square) = (small.trace(), small.norm_squared());
        let weight: f64 = chosen.iter().map(|&i| self.weights.at(i)).sum();
        if !(trace > 0.25 * floor * weight && square > 0.0 && square.is_finite()) {
            return q;
        }
        let share = square / (trace * trace) - (self.weights.effective(chosen.into_iter()) - 1.0).recip();
        if share > 0.0 { share.recip().clamp(1.0, q) } else { q }
    }
}

/// How much farther than the mean square within a half the next estimate may lie, in squared distance: the median of a
/// chi-squared law over the mean of its lower half, times what chance adds.
///
/// The second factor covers 1 in 10 000 of halves of normal estimates, as simulated for 4 to 100 estimates of 1 to 100
/// coefficients; its least value of 1.6 leaves room for estimates that differ by laws with longer tails.
fn tightness(m: f64, degrees: f64) -> f64 {
    let middle = chi_squared(degrees, 0.5);
    let lower = ChiSquared::new(degrees + 2.0).map_or(0.5, |law| law.cdf(middle)) * degrees / 0.5;
    let chance = 1.25 * ((38.0 / m).max(6.0 / m.sqrt()) / degrees.sqrt()).exp();
    middle / lower * chance.max(1.6)
}

/// The third question.
fn by_claims(all: &[&Estimate], frame: &Frame, from_pivot: &[f64], weights: &Weights) -> Agreement {
    let Some(shape) = &frame.noise else {
        return Agreement { majority: true, with_core: vec![true; all.len()] };
    };
    let claims = believable(all.iter().map(|e| variance_per_row(e)).collect(), weights);
    let pivot = by_distance(from_pivot)[0];
    let quantile = chi_squared(shape.degrees, 1.0 - FALSE_ALARM) / shape.degrees;
    let rounding = rounding_floor(frame);
    let with_core: Vec<bool> = from_pivot
        .iter()
        .zip(&claims)
        .map(|(d, claim)| d * d <= (ROOM * (claims[pivot] + claim) * shape.size * quantile).max(rounding))
        .collect();
    Agreement { majority: weights.is_majority((0..all.len()).filter(|&i| with_core[i])), with_core }
}

/// Variance of one whitened coefficient that an estimate claims: `scale^2` over its kept rows, rejection included.
fn variance_per_row(e: &Estimate) -> f64 {
    e.scale * e.scale / kept_share_of_variance() / e.kept as f64
}

/// Claims, none of which buys more than `CLAIM_RANGE` times the lower median.
fn believable(claims: Vec<f64>, weights: &Weights) -> Vec<f64> {
    let most = CLAIM_RANGE * weights.lower_median(&claims);
    claims.into_iter().map(|claim| claim.min(most)).collect()
}

/// Claimed variances over their lower median.
fn relative_noise(all: &[&Estimate], weights: &Weights) -> Vec<f64> {
    let claims: Vec<f64> = all.iter().map(|e| variance_per_row(e)).collect();
    let typical = weights.lower_median(&claims);
    let relative = |claim: f64| if typical > 0.0 { claim / typical } else { 1.0 };
    claims.iter().map(|claim| relative(*claim).clamp(1.0 / CLAIM_RANGE, CLAIM_RANGE)).collect()
}

/// Squared distance that noise alone puts between an estimate and the truth, by the lower median of claims.
fn noise_floor(all: &[&Estimate], frame: &Frame, weights: &Weights) -> f64 {
    frame.noise.as_ref().map_or(0.0, |shape| {
        let claims: Vec<f64> = all.iter().map(|e| variance_per_row(e)).collect();
        shape.size * weights.lower_median(&claims)
    })
}

/// Squared distance below which estimates differ by rounding.
fn rounding_floor(frame: &Frame) -> f64 {
    let size = frame.metric.as_ref().map_or(frame.centre.norm(), |metric| metric.whiten_one(&frame.centre).norm());
    // Fits without noise agree to about the digits that their Grams keep.
    (1e-9 * size).powi(2)
}
