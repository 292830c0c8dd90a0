//! Records that get their noise where they arise, one at a time.
//!
//! # Privacy
//!
//! Anyone who may send a stream has charged it as one release, `mu` for each person. What a record costs is a whole number of parts of its
//! person's budget, of which the holder keeps the sum ([`admit`]): a record for which there is no room is replaced by noise alone. A record
//! of `c` parts out of `r` is noised with `mu sqrt(c / r)`, so the records of a person that were used cost `mu^2` times the sum of their
//! parts over `r`, at most `mu^2`, however many they are and whatever their costs were chosen by ("Streams" in the book's chapter of proofs). Given
//! what left before, a record's message is a function of that record alone, so messages of different persons do not compose.

use std::collections::BTreeMap;

use super::{NoisedRelease, Query, ReleaseError, STEP_PER_SIGMA, scale_for};
use crate::privacy::accountant::{Budget, ScaleError, enough_for};
use crate::privacy::sampler::NoisePool;

/// Parts of a person's budget where records have budgets of their own: 2^62.
const PARTS: u64 = 1 << 62;
/// Bits of a record's place that its budget depends on: budgets of a sequence fall in steps of at most a 32nd of the place.
const PLACE_BITS: u32 = 6;
/// Numbers that two neighbours may differ in, over those of the records that either of them used: which of a person's records are used
/// may differ, too.
const UNION: f64 = 2.0;
/// What the arithmetic of a share may be off, for which the share is made smaller.
const MARGIN: f64 = 1.0 - 1e-12;

/// Whether a share `mu` may have a record of a given number of numbers.
///
/// # Errors
/// A share below `sqrt(2 numbers) 2^-18`.
pub fn enough_for_record(mu: f64, numbers: usize) -> Result<(), ScaleError> {
    enough_for(mu, UNION * numbers as f64)
}

/// What a person has spent after one more record that costs `cost` parts out of `room`; none where there is no room for it, or nothing of
/// the record may leave.
///
/// # Privacy
/// A filter: the sum of what was admitted is at most `room`, by whole numbers, whatever the costs depend on.
pub fn admit(spent: u64, cost: u64, room: u64) -> Option<u64> {
    spent.checked_add(cost).filter(|sum| cost > 0 && *sum <= room)
}

/// What the records of a stream may spend of their persons' budgets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Spending {
    /// All the same: a person may have a given number of records.
    Even {
        /// Records of a person.
        records: u32,
    },
    /// Each by its place; a person may have as many as the budget has room for.
    Sequence(Sequence),
}

impl Spending {
    /// Parts of a person's budget.
    pub fn room(&self) -> u64 {
        match self {
            Spending::Even { records } => u64::from(*records),
            Spending::Sequence(_) => PARTS,
        }
    }

    /// Whether costs depend on places, which must be counted then.
    pub fn is_by_place(&self) -> bool {
        matches!(self, Spending::Sequence(_))
    }
}

/// A budget for each record of a stream, by its place: epsilon and delta of the first, divided by powers of the place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sequence {
    whole: Budget,
    epsilon: f64,
    delta: f64,
    epsilon_exponent: f64,
    delta_exponent: f64,
    numbers: usize,
}

impl Sequence {
    /// In a run with the budget `whole` for each person, whose records have a given number of numbers: `(epsilon, delta)` of the first
    /// record, and the powers of the place that they are divided by.
    pub fn new(whole: Budget, first: (f64, f64), exponents: (f64, f64), numbers: usize) -> Sequence {
        let ((epsilon, delta), (epsilon_exponent, delta_exponent)) = (first, exponents);
        Sequence { whole, epsilon, delta, epsilon_exponent, delta_exponent, numbers }
    }

    /// Epsilon and delta of the record in a place, counted from 1.
    pub fn budget(&self, place: u64) -> (f64, f64) {
        let place = place.max(1) as f64;
        (self.epsilon / place.powf(self.epsilon_exponent), self.delta / place.powf(self.delta_exponent))
    }

    /// The powers of the place that epsilon and delta are divided by.
    pub fn exponents(&self) -> (f64, f64) {
        (self.epsilon_exponent, self.delta_exponent)
    }

    /// The largest sum of `(sensitivity / sigma)^2` of the record in a place, over that of a person.
    pub fn part(&self, place: u64) -> f64 {
        let (epsilon, delta) = self.budget(place);
        self.whole.accountant().cap(epsilon, delta) / self.whole.cap()
    }

    /// Parts of the budget that the records up to `place` cost which have their budget in common with it; none where so little noise
    /// cannot be had.
    fn parts(&self, place: u64) -> u64 {
        let part = self.part(place).min(1.0);
        // A part that is not a number buys nothing.
        let parts = (part * PARTS as f64) as u64;
        let mu = (self.whole.cap() * part).sqrt() * (1.0 - 1e-6);
        if enough_for_record(mu, self.numbers).is_ok() { parts } else { 0 }
    }
}

/// The last of the places whose records have a budget in common with the one in this place.
fn last_alike(place: u64) -> u64 {
    let lower = (u64::BITS - place.leading_zeros()).saturating_sub(PLACE_BITS);
    place | ((1 << lower) - 1)
}

/// The costs of records by their places, each found once: there are fewer than two thousand different ones.
#[derive(Debug, Clone)]
pub struct Costs {
    spending: Spending,
    /// By the last place that each is of.
    known: BTreeMap<u64, u64>,
}

impl Costs {
    /// Of a stream.
    pub fn new(spending: Spending) -> Costs {
        Costs { spending, known: BTreeMap::new() }
    }

    /// What they follow from.
    pub fn spending(&self) -> &Spending {
        &self.spending
    }

    /// What the record in a place costs, in parts of its person's budget; nothing where nothing of the record may leave.
    pub fn of(&mut self, place: u64) -> u64 {
        let Spending::Sequence(sequence) = &self.spending else { return 1 };
        let last = last_alike(place);
        *self.known.entry(last).or_insert_with(|| sequence.parts(last))
    }
}

/// The right to noise the records of a stream, whose charge is on disk.
#[derive(Debug, Clone)]
pub struct PerRecord {
    mu: f64,
    costs: Costs,
    /// The share, sensitivity and rounding of the latest kind of message, and its standard deviation.
    scale: Option<((f64, f64, f64), f64)>,
}

impl PerRecord {
    /// From the stored release that stands for the whole stream in the ledger; of every person records may leave for which [`admit`]
    /// finds room.
    pub fn new(charged: &NoisedRelease, spending: Spending) -> PerRecord {
        PerRecord { mu: charged.receipt().mu, costs: Costs::new(spending), scale: None }
    }

    /// The share of the charge that the record in a place is noised with; none where nothing of it may leave.
    fn share(&mut self, place: u64) -> Option<f64> {
        let cost = self.costs.of(place);
        let room = self.costs.spending().room().max(1);
        // Of even costs the quotient is the number of records.
        (cost > 0).then(|| self.mu / (room as f64 / cost as f64).sqrt() * MARGIN)
    }

    /// Adds the noised message of the record in a place to others; zeros where the budget of that place is too small for any record.
    ///
    /// # Errors
    /// No share, no randomness, neither of which depends on the record; it must not be tried again with other noise once
    /// something was sent.
    pub fn add(
        &mut self,
        place: u64,
        query: &Query,
        pool: &mut NoisePool,
        to: &mut NoisedRecords,
    ) -> Result<(), ReleaseError> {
        let Some(mu) = self.share(place) else {
            to.values.resize(to.values.len() + query.len(), 0.0);
            to.records += 1;
            return Ok(());
        };
        let kind = (mu, query.sensitivity, query.slack());
        let sigma = match self.scale {
            Some((known, sigma)) if known == kind => sigma,
            _ => {
                let no_share = |_| ReleaseError::NoShare { label: "a record".to_owned(), mu };
                let found = enough_for_record(mu, query.len());
                let (sigma, _) =
                    found.and_then(|()| scale_for(query.sensitivity, query.slack(), mu)).map_err(no_share)?;
                self.scale = Some((kind, sigma));
                sigma
            }
        };
        let step = sigma * STEP_PER_SIGMA;
        let sums = query.noised(step, pool)?;
        to.values.extend(sums.iter().map(|&sum| (sum as f64 * step).clamp(f64::MIN, f64::MAX)));
        to.records += 1;
        Ok(())
    }
}

/// Noised messages of some records, one after the other.
#[derive(Clone, PartialEq, Default)]
pub struct NoisedRecords {
    records: u64,
    values: Vec<f64>,
}

// Sizes only.
impl std::fmt::Debug for NoisedRecords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NoisedRecords({} of {} values)", self.records, self.values.len())
    }
}

impl NoisedRecords {
    /// How many records.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Their messages.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// As it is kept on disk before it leaves, and sent again after a restart.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.records.to_le_bytes().to_vec();
        bytes.extend(self.values.iter().flat_map(|value| value.to_le_bytes()));
        bytes
    }

    /// What this holder has kept; only who has charged the stream can read it back.
    pub fn decode(bytes: &[u8], _charged: &PerRecord) -> Option<NoisedRecords> {
        let (words, rest) = bytes.as_chunks::<8>();
        let (first, words) = words.split_first()?;
        if !rest.is_empty() {
            return None;
        }
        let values = words.iter().map(|word| f64::from_le_bytes(*word)).collect();
        Some(NoisedRecords { records: u64::from_le_bytes(*first), values })
    }
}

#[cfg(test)]
mod tests;
