//! What a consolidation of many estimates yields beside the coefficients: which were trusted, and whether the guarantee covers the
//! result.

use serde::{Deserialize, Serialize};

use super::number_or_null;
use crate::exit::Exit;

/// Everything that consolidation says beside the coefficients; flat in JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Consolidation {
    /// Name of the method: `refine`, `pivot`, ...
    pub consolidation: String,
    /// Whether the method's guarantee covers the result.
    pub verdict: Verdict,
    /// Size of a majority: more than half of the estimates.
    pub majority: u64,
    /// How many bad estimates the method's guarantee allows.
    pub withstands: u64,
    /// How many estimates were trusted.
    pub trusted: u64,
    /// The estimate whose majority of nearest neighbours is tightest.
    pub pivot: BatchName,
    /// Distance from the pivot to the farthest of that majority.
    #[serde(deserialize_with = "number_or_null")]
    pub radius: f64,
    /// Spread between the pooled estimates over what their noise explains; where it is significantly above one, the
    /// standard errors have been widened by it.
    #[serde(default)]
    pub overdispersion: Option<f64>,
    /// Every estimate.
    pub batches: Vec<Member>,
    /// How each site stands; of a stream, the sites in the window.
    #[serde(default)]
    pub sites: Vec<Standing>,
    /// Sites that have a vote: all that sent an estimate that counts.
    #[serde(default)]
    pub sites_counted: u64,
    /// Sites of which at least one estimate is in the consensus.
    #[serde(default)]
    pub sites_trusted: u64,
    /// Whether each site has one vote, as from three sites on; otherwise each estimate has.
    #[serde(default)]
    pub site_votes: bool,
    /// Whether sites have votes by the rows that the study declares for them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub votes_by_rows: bool,
    /// Estimates that came more than once and counted once.
    #[serde(default)]
    pub repeated: Vec<BatchName>,
    /// Messages that were not accepted, and why.
    #[serde(default)]
    pub rejected: Vec<Rejection>,
}

/// Which batch of which worker.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BatchName {
    /// Name of the worker.
    pub worker: String,
    /// Number of the batch.
    pub batch: u64,
}

/// A message that was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejection {
    /// Where it came from: a worker and batch, or a file and line.
    pub from: String,
    /// Why it was not accepted.
    pub reason: String,
}

impl Consolidation {
    /// Whether the guarantee covers the result.
    pub fn guaranteed(&self) -> bool {
        self.verdict == Verdict::MajorityAgrees
    }

    /// [`Exit::Done`], or [`Exit::NotConverged`] outside the guarantee.
    pub fn exit(&self) -> Exit {
        if self.guaranteed() { Exit::Done } else { Exit::NotConverged }
    }

    /// `converged`, or `outside_guarantee`: the word in JSON.
    pub fn termination(&self) -> &'static str {
        if self.guaranteed() { "converged" } else { "outside_guarantee" }
    }

    /// Rows of the trusted batches, and those of them that were kept.
    pub fn trusted_rows(&self) -> (u64, u64) {
        let trusted = self.batches.iter().filter(|b| b.trusted);
        trusted.fold((0, 0), |(nobs, kept), b| (nobs.saturating_add(b.nobs), kept.saturating_add(b.kept)))
    }

    /// How many wrong sites the guarantee allows; none where there are fewer than three.
    pub fn sites_withstood(&self) -> u64 {
        if self.site_votes { self.sites_counted.saturating_sub(1) / 2 } else { 0 }
    }

    /// Estimates of which a majority was sought, or batches where more are listed. A worker's view lists its own batches
    /// only, and the consensus is still that of all.
    pub fn estimates(&self) -> u64 {
        (self.batches.len() as u64).max(self.majority.saturating_add(self.withstands))
    }

    /// Leaves what the site of this name may see: its own estimates and messages. What other sites say alone is theirs.
    pub fn keep_site(&mut self, name: &str) {
        self.batches.retain(|batch| batch.worker == name);
        self.sites.retain(|site| site.worker == name);
        self.repeated.retain(|batch| batch.worker == name);
        let of_own = format!("{name}, ");
        self.rejected.retain(|rejection| rejection.from == name || rejection.from.starts_with(&of_own));
    }
}

/// How one estimate stands to the consensus.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Member {
    /// Name of the worker.
    pub worker: String,
    /// Number of the batch.
    pub batch: u64,
    /// Rows in the batch, as claimed.
    pub nobs: u64,
    /// Rows kept, as claimed.
    pub kept: u64,
    /// Whether the worker says that the batch could be cleaned.
    pub cleaned: bool,
    /// Distance to the consensus in the metric used; null in JSON where there is none.
    #[serde(deserialize_with = "number_or_null")]
    pub distance: f64,
    /// Whether it agrees with the majority (and, for `pivot` and `refine`, entered the consensus).
    pub trusted: bool,
    /// The earlier estimate whose numbers it repeats to rounding: the same rows, whatever they are called, count once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_of: Option<(String, u64)>,
}

/// How one site stands to the consensus.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// Name of the worker.
    pub worker: String,
    /// Estimates it sent.
    pub estimates: u64,
    /// Those of them that repeat an earlier estimate, its own or another site's.
    #[serde(default)]
    pub copies: u64,
    /// Those of them that agree with the consensus.
    pub trusted: u64,
    /// Its share of the vote.
    pub share: f64,
    /// Of a site of which nothing is in the consensus: coefficients from its own estimates alone, pooled by their Grams
    /// where they have them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub coefficients: Vec<f64>,
}

impl Standing {
    /// Whether none of what it sent is in the consensus, although something of it counted.
    pub fn set_aside(&self) -> bool {
        self.trusted == 0 && self.copies < self.estimates
    }
}

/// Whether the method's guarantee covers the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// A majority agrees.
    MajorityAgrees,
    /// Half or more of the estimates disagree with the tightest group: any of several groups may be the honest one.
    NoMajority,
    /// Half or more of the workers say that their batch could not be cleaned.
    MostNotCleaned,
}
