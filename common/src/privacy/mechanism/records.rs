//! Records that get their noise where they arise, one at a time.
//!
//! # Privacy
//!
//! Anyone who may send a stream has charged it as one release, `mu` for each person. A person has at most `k` records, told apart by the
//! holder; each is noised with `mu / sqrt k` and leaves once. Given what left before, a record's message is a function of that record
//! alone, so messages of different persons do not compose, and the `k` of one person cost `k (mu / sqrt k)^2 = mu^2`.

use super::{NoisedRelease, Query, ReleaseError, STEP_PER_SIGMA, scale_for};
use crate::privacy::sampler::NoisePool;

/// The right to noise the records of a stream, whose charge is on disk.
#[derive(Debug, Clone)]
pub struct PerRecord {
    mu: f64,
    /// Sensitivity, rounding and standard deviation of the latest kind of message.
    scale: Option<(f64, f64, f64)>,
}

impl PerRecord {
    /// From the stored release that stands for the whole stream in the ledger; of every person at most `records` may leave.
    pub fn new(charged: &NoisedRelease, records: u32) -> PerRecord {
        let mu = charged.receipt().mu / f64::from(records.max(1)).sqrt() * (1.0 - 1e-12);
        PerRecord { mu, scale: None }
    }

    /// Adds one record's noised message to others.
    ///
    /// # Errors
    /// No share, no randomness, neither of which depends on the record; it must not be tried again with other noise once
    /// something was sent.
    pub fn add(&mut self, query: &Query, pool: &mut NoisePool, to: &mut NoisedRecords) -> Result<(), ReleaseError> {
        let (sensitivity, slack) = (query.sensitivity, query.slack());
        let sigma = match self.scale {
            Some((known, rounding, sigma)) if (known, rounding) == (sensitivity, slack) => sigma,
            _ => {
                let no_share = |_| ReleaseError::NoShare { label: "a record".to_owned(), mu: self.mu };
                let (sigma, _) = scale_for(sensitivity, slack, self.mu).map_err(no_share)?;
                self.scale = Some((sensitivity, slack, sigma));
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
