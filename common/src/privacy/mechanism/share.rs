//! The share of a table between two parties' rows, which opens with the noise of both.
//!
//! The table is a sum of products of integers: entries of one party's clipped rows (units of 2^-15) times entries of the other's, and all
//! of it times a public whole number, the [`ShareScale`]. So the table is exact integers in units of `2^-30 / factor`, and no rounding or
//! cutting stands between the rows that the sensitivity is proved for and the integers that get noise. A party adds one integer of the
//! common law (standard deviation 2^40) to every entry of its share, modulo the ring; what opens is table plus the noise of both sides.
//! The noise of one side has standard deviation `2^10 / factor` in units of products of rows.
//!
//! # Privacy
//!
//! The peer knows its own share `s` and its own noise, and receives `t = T - s + N` modulo the ring. Given its view that is post-processing
//! of `T + N` with this party's noise `N` alone, so the release has the sensitivity of the table over the noise of one side. Everything
//! else that passes (masked rows, shares of a public product) is uniform for a receiver without the sender's seed: that holds against a
//! peer that follows the protocol, and as long as the dealer colludes with neither; see `docs/privacy.md`.

use nalgebra::DMatrix;

use super::{LatticeError, LatticeVector, Payload, PlannedRelease, Query, ReleaseError, ReleasePlan};
use super::{STEP_PER_SIGMA, free_table_rounding};
use crate::privacy::accountant::{ScaleError, add_charge, charged_mu, enough_for};
use crate::privacy::bounds::ROW_BITS;
use crate::privacy::sampler::{NoisePool, SCALE};
use crate::secure::product::{SeveralShape, SeveralTables, TableShare, pairs};
use crate::secure::ring::{Elements, RingError, Width};

/// Largest factor: entries of rows times it are whole numbers that fixed point holds.
const LARGEST_FACTOR: u64 = 1 << 30;

/// Room in the ring for the noise of both sides, of standard deviation 2^40 each: 2^46 is beyond what ever occurs.
const NOISE_ROOM: u32 = 47;

/// How products of rows are scaled before they get noise of the common law: by a public whole number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShareScale {
    factor: u64,
}

impl ShareScale {
    /// The largest factor, hence the least noise, at which a table of this sensitivity keeps `mu`; none where even a factor of one
    /// does not.
    pub fn within(sensitivity: f64, mu: f64) -> Option<ShareScale> {
        let most = (mu / sensitivity * SCALE as f64 / 2f64.powi(2 * ROW_BITS)).floor();
        let mut scale = ShareScale { factor: (most.max(0.0) as u64).min(LARGEST_FACTOR) };
        // The quotient is rounded, so the charge decides.
        while scale.factor > 0 && !scale.mu(sensitivity).is_ok_and(|reached| reached <= mu) {
            scale.factor -= 1;
        }
        (scale.factor > 0).then_some(scale)
    }

    /// The whole number by which one side's rows are multiplied.
    pub fn factor(self) -> u64 {
        self.factor
    }

    /// The unit of the integers that open.
    pub fn step(self) -> f64 {
        2f64.powi(-2 * ROW_BITS) / self.factor as f64
    }

    /// Standard deviation of one side's noise, in units of products of rows.
    pub fn sigma(self) -> f64 {
        self.step() / STEP_PER_SIGMA
    }

    /// What a table of this sensitivity costs, rounded up: sensitivity and noise both counted in units of the integers, where the noise
    /// has standard deviation 2^40 exactly.
    ///
    /// # Errors
    /// A sensitivity that is not a positive number.
    pub fn mu(self, sensitivity: f64) -> Result<f64, ScaleError> {
        let steps = (sensitivity * 2f64.powi(2 * ROW_BITS)).next_up() * self.factor as f64;
        charged_mu(steps.next_up(), SCALE as f64)
    }

    /// The largest size of an entry without noise, in units of the integers: rows have norm at most one.
    pub(crate) fn bound(self, rows: usize) -> u128 {
        (rows as u128 * u128::from(self.factor)) << (2 * ROW_BITS)
    }

    /// The narrowest ring that holds every table over a number of rows, with noise.
    pub fn width(self, rows: usize) -> Width {
        width_of(self.bound(rows))
    }
}

/// What cannot be the share of a table.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ShareError {
    /// Another number of entries, or another step.
    #[error(transparent)]
    Lattice(#[from] LatticeError),
    /// Words that are no elements of the ring.
    #[error("a noised share: {0}")]
    Ring(#[from] RingError),
    /// An opened value that no rows and no noise can give.
    #[error("an opened value is beyond what rows of norm one can give")]
    Bound,
}

impl Query {
    /// A party's share of a table, with the sensitivity of the table towards that party's rows.
    pub fn share(share: &TableShare, scale: ShareScale, sensitivity: f64, formula: &'static str) -> Query {
        Query::scaled_share(share.share(), scale, sensitivity, formula)
    }

    /// The same of a share that was multiplied by the factor of the scale, where rows were masked without it.
    pub fn scaled_share(share: &Elements, scale: ShareScale, sensitivity: f64, formula: &'static str) -> Query {
        let unit = ShareUnit { step: scale.step(), draws: 1, reached: scale.mu(sensitivity) };
        Query { formula, sensitivity, payload: Payload::Share { share: share.clone(), unit } }
    }

    /// A party's share of whole numbers that one row moves by at most `moved`, a step of which stands for `step`; every entry gets the
    /// sum of so many integers of the common law.
    pub fn whole_share(share: &Elements, (moved, draws): (f64, u32), step: f64, formula: &'static str) -> Query {
        let unit = ShareUnit { step, draws, reached: charged_mu(moved, scale_of_sum(draws)) };
        let sensitivity = (moved * step).next_up();
        Query { formula, sensitivity, payload: Payload::Share { share: share.clone(), unit } }
    }
}

/// What a step of a share's integers stands for, and what the noise of the common law on them costs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ShareUnit {
    step: f64,
    /// Integers of the common law that are added to every entry.
    draws: u32,
    reached: Result<f64, ScaleError>,
}

impl ShareUnit {
    pub(super) fn step(&self) -> f64 {
        self.step
    }

    /// Standard deviation and charge of a share, if they are within its share of the budget.
    pub(super) fn within(&self, entries: usize, mu: f64) -> Result<(f64, f64), ScaleError> {
        let sigma = self.step * scale_of_sum(self.draws);
        enough_for(mu, entries as f64)?;
        let reached = self.reached?;
        if reached <= mu { Ok((sigma, reached)) } else { Err(ScaleError::Sigma { sigma, step: self.step }) }
    }
}

/// Standard deviation of a sum of integers of the common law, rounded down: [`SCALE`] times the root of their number. A sum of three or fewer
/// is within a factor of `exp(20 exp(-pi^2 S^2))` of one discrete Gaussian at `S = 2^40` (Kairouz, Liu and Steinke, 2021, on convolutions of
/// discrete Gaussians), so that its charge is that of one.
pub(crate) fn scale_of_sum(draws: u32) -> f64 {
    match draws {
        1 => SCALE as f64,
        several => f64::from(several).sqrt().next_down() * SCALE as f64,
    }
}

/// The share with noise integers added to every entry, modulo the ring; as words, which fit an integer each.
pub(super) fn noised(share: &Elements, unit: &ShareUnit, pool: &mut NoisePool) -> Result<Vec<i64>, ReleaseError> {
    let drawn = pool.take(share.count() * unit.draws as usize)?;
    let noise: Vec<i128> =
        drawn.chunks(unit.draws.max(1) as usize).map(|draws| draws.iter().copied().map(i128::from).sum()).collect();
    let mut sum = Elements::from_integers(share.width(), &noise);
    // Same ring and same number of elements by construction: a failure would be a bug, and then nothing is released.
    sum.add(share).map_err(|_| ScaleError::Sigma { sigma: f64::NAN, step: f64::NAN })?;
    Ok(sum.to_bytes().as_chunks::<8>().0.iter().map(|word| i64::from_le_bytes(*word)).collect())
}

/// Opens the table of two noised shares: `left x right`, in units of products of rows. Either share may be the own one.
///
/// # Errors
/// A share that is not one of this table.
pub fn open_shares(
    shares: [&LatticeVector; 2],
    [left, right]: [usize; 2],
    rows: usize,
    scale: ShareScale,
) -> Result<DMatrix<f64>, ShareError> {
    let integers = open_whole(shares, scale.width(rows), left * right, (scale.step(), scale.bound(rows)))?;
    Ok(DMatrix::from_iterator(left, right, integers.into_iter().map(|value| value as f64 * scale.step())))
}

/// Opens the tables of all pairs of several parties from the noised shares of all, in order: in units of products of rows.
///
/// # Errors
/// Shares that are none of these tables: whose, by place.
pub fn open_several(
    shares: &[LatticeVector],
    shape: &SeveralShape,
    scale: ShareScale,
) -> Result<Vec<DMatrix<f64>>, (usize, ShareError)> {
    let mut all = Vec::new();
    for (place, share) in shares.iter().enumerate() {
        all.push(elements(share, shape.width, shape.opened(place), scale.step()).map_err(|error| (place, error))?);
    }
    let most = scale.bound(shape.rows).saturating_add(1 << NOISE_ROOM);
    let opened = SeveralTables::integers(shape, &all, most).map_err(|(place, _)| (place, ShareError::Bound))?;
    let table = |((first, second), integers): ((usize, usize), Vec<i128>)| {
        let values = integers.into_iter().map(|value| value as f64 * scale.step());
        DMatrix::from_iterator(shape.columns()[first], shape.columns()[second], values)
    };
    Ok(pairs(shape.columns().len()).zip(opened).map(table).collect())
}

/// A noised share as elements of the ring.
fn elements(share: &LatticeVector, width: Width, entries: usize, step: f64) -> Result<Elements, ShareError> {
    share.require(entries * width.words(), step)?;
    let bytes: Vec<u8> = share.integers().iter().flat_map(|word| word.to_le_bytes()).collect();
    Ok(Elements::from_bytes(width, entries, &bytes)?)
}

/// Opens whole numbers of two noised shares with this step; `bound` is what they reach without noise. Either share may be the own one.
///
/// # Errors
/// A share that is not one of these numbers.
pub fn open_whole(
    shares: [&LatticeVector; 2],
    width: Width,
    entries: usize,
    (step, bound): (f64, u128),
) -> Result<Vec<i128>, ShareError> {
    let mut opened = Elements::zeros(width, entries);
    for share in shares {
        opened.add(&elements(share, width, entries, step)?)?;
    }
    let integers = opened.to_integers();
    let most = bound.saturating_add(1 << NOISE_ROOM);
    if integers.iter().any(|value| value.unsigned_abs() > most) {
        return Err(ShareError::Bound);
    }
    Ok(integers)
}

/// The narrowest ring that holds whole numbers up to this size, with noise.
pub fn width_of(bound: u128) -> Width {
    let noise = 1_u128 << NOISE_ROOM;
    if bound.saturating_add(noise) < Width::One.modulus() / 2 { Width::One } else { Width::Two }
}

impl ReleasePlan {
    /// The same with further releases behind it, whose costs add to that of all before: adaptive composition.
    pub fn followed_by(self, further: Vec<PlannedRelease>) -> ReleasePlan {
        let ReleasePlan { mut releases, charge, formula } = self;
        let sum = |sum, release: &PlannedRelease| add_charge(sum, (release.mu * release.mu).next_up());
        let charge = further.iter().fold(charge, sum);
        releases.extend(further);
        ReleasePlan { releases, charge, formula: format!("{formula}, and that of each release after them") }
    }

    /// Releases whose values are proved together: with the same noise on all of them their joint sensitivity is `joint`. `alone` are the
    /// sensitivities of the releases, in their order; `entries` is the number of rounded entries of all of them.
    ///
    /// A release of sensitivity `a` that keeps `mu` has noise of at least `a / mu`, so the joint cost is at most that of the joint
    /// sensitivity over the least noise, and its rounding is at most `sqrt(entries)` steps in the stacked norm, which adds to the root.
    pub fn with_joint(releases: Vec<PlannedRelease>, alone: &[f64], joint: f64, entries: usize) -> ReleasePlan {
        if releases.len() != alone.len() || alone.iter().any(|sensitivity| !(*sensitivity > 0.0)) {
            return ReleasePlan::new(releases);
        }
        let least =
            releases.iter().zip(alone).map(|(release, alone)| (release.mu / alone).next_up()).fold(0.0, f64::max);
        let root = ((least * joint).next_up() + free_table_rounding(entries)).next_up();
        ReleasePlan {
            releases,
            charge: (root * root).next_up().next_up(),
            formula: "(sensitivity of all values together / sigma)^2".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
