//! The result of a match.

use sha2::{Digest as _, Sha256};

use crate::data::matching::OwnCounts;
use crate::id::{Digest, Role, RunId};
use crate::secure::group::Tag;

/// What became of a pass, as one side sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassCounts {
    /// Its name.
    pub name: String,
    /// With whom, at the leader of several parties.
    pub with: Option<Role>,
    /// The own records.
    pub own: OwnCounts,
    /// Entries of the peer's list: its eligible records, or what hides their number.
    pub peer: u64,
    /// How many both lists have.
    pub counted: u64,
    /// Of these, at the leader of several parties, links to records of the peer that an earlier pass had linked.
    pub dropped: u64,
    /// Whether it was revealed which.
    pub revealed: bool,
}

impl PassCounts {
    /// How many records the pass added.
    pub fn matched(&self) -> u64 {
        if self.revealed { self.counted - self.dropped } else { 0 }
    }
}

/// The result of a match.
#[derive(Clone, PartialEq, Eq)]
pub struct Matched {
    /// The run.
    pub run: RunId,
    /// The own records, from 0 in the order of the file, in the order that both parties share.
    pub order: Vec<u32>,
    /// Their tags, the same at both parties; none of several.
    pub tags: Vec<Tag>,
    /// Of several parties, what the leader drew for the order; the same at all.
    pub draw: Option<[u8; 32]>,
    /// What became of each pass.
    pub passes: Vec<PassCounts>,
}

impl Matched {
    /// What stands for the order, the same at all parties: SHA-256 over the run, for every pass its name behind its length and the number
    /// of its matches, and the tags. Of several parties, as pairs differ in the counts of passes: over the run, the number of records and
    /// the leader's draw.
    pub fn order_digest(&self) -> Digest {
        let mut hash = Sha256::new();
        if let Some(draw) = &self.draw {
            let records = (self.order.len() as u64).to_le_bytes();
            return Digest::of(&[b"fedreg match order of several".as_slice(), &self.run.0, &records, draw].concat());
        }
        hash.update(self.run.0);
        for pass in &self.passes {
            hash.update((pass.name.len() as u64).to_le_bytes());
            hash.update(pass.name.as_bytes());
            hash.update(pass.matched().to_le_bytes());
        }
        hash.update(self.tags.as_flattened());
        Digest(hash.finalize().into())
    }
}

/// Sizes only: which records match is data.
impl std::fmt::Debug for Matched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Matched({} records in {} passes)", self.order.len(), self.passes.len())
    }
}
