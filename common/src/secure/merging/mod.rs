//! Record matching through the coordinator: both parties make tags of their keys with a key that they share, and the coordinator finds
//! the tags that both lists have.
//!
//! The parties draw 32 bytes each and exchange them; [`MergeKey::derive`] makes the key, which the coordinator does not get. Each sends it
//! its tags, ascending, with dummies between them ([`MergeKey::dummies`]): [`SHARED`] that are in both lists and [`OWN`] that are in its own
//! alone. The coordinator cannot tell a dummy from a key. [`Merge`] reads both lists once, beside each other.
//!
//! A coordinator that does not get the key learns the lengths of the lists, how many entries both have, and where: positions among random
//! tags. One that gets the key from a party can test every guess of a key, as the party itself can of its peer's.
//!
//! # Reference
//!
//! RFC 5869 (HKDF), RFC 2104 (HMAC).

use std::fmt;
use std::sync::Arc;

use hmac::{Hmac, Mac};
use rayon::prelude::*;
use sha2::Sha256;
use zeroize::Zeroizing;

use super::group::{TAG_BYTES, Tag};
use crate::id::{Role, RunId};

mod merge;
#[cfg(test)]
mod tests;

pub use self::merge::{Merge, Unfit};

/// Dummies that both lists have.
pub const SHARED: u32 = 64;
/// Dummies that one list has alone.
pub const OWN: u32 = 64;
/// Dummies of a list.
pub const DUMMIES: u64 = (SHARED + OWN) as u64;
/// Entries of a list in one message, 256 KiB.
pub const PART_TAGS: usize = (256 << 10) / TAG_BYTES;
/// Positions in one message, 256 KiB.
pub const PART_POSITIONS: usize = (256 << 10) / size_of::<u32>();
/// Longest list: positions are numbers of four bytes.
pub const MOST_TAGS: u64 = u32::MAX as u64;

/// What a party asks of the coordinator, each pass in this order.
#[derive(Debug, Clone)]
pub enum Request {
    /// Merge this list with that of the peer.
    List {
        /// The pass, from 0.
        pass: u32,
        /// The party's list.
        list: List,
    },
    /// Say which entries both lists have; answered once both parties ask for it.
    Positions {
        /// The pass, from 0.
        pass: u32,
    },
}

/// What the coordinator tells a party.
#[derive(Clone, PartialEq, Eq)]
pub enum Merged {
    /// How many entries of both lists together have been read: a sign of progress.
    Passed {
        /// The pass, from 0.
        pass: u32,
        /// Entries.
        entries: u64,
    },
    /// How many entries both lists have.
    Count {
        /// The pass, from 0.
        pass: u32,
        /// Entries, shared dummies included.
        count: u64,
    },
    /// Where they stand in the receiver's list, ascending: some of them.
    Positions {
        /// The pass, from 0.
        pass: u32,
        /// How many came before.
        first: u64,
        /// At least one, at most [`PART_POSITIONS`].
        positions: Vec<u32>,
    },
}

impl Merged {
    /// What kind of message it is, for people.
    pub fn kind(&self) -> &'static str {
        match self {
            Merged::Passed { .. } => "the progress of a merge",
            Merged::Count { .. } => "the count of a merge",
            Merged::Positions { .. } => "positions of a merge",
        }
    }
}

/// Sizes only: which records match is data.
impl fmt::Debug for Merged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Merged({})", self.kind())
    }
}

/// A party's list: tags, ascending, each with what it stands for. Clones share it.
#[derive(Clone)]
pub struct List(Arc<Vec<(Tag, u32)>>);

impl List {
    /// Brings entries into the order of their tags; none if two tags are the same, which no two keys have but with probability 2^-128.
    pub fn new(mut entries: Vec<(Tag, u32)>) -> Option<List> {
        entries.par_sort_unstable_by_key(|(tag, number)| (u128::from_be_bytes(*tag), *number));
        let repeated = entries.windows(2).any(|pair| pair[0].0 == pair[1].0);
        (!repeated).then(|| List(Arc::new(entries)))
    }

    /// Entries.
    #[allow(clippy::len_without_is_empty, reason = "a list has its dummies")]
    pub fn len(&self) -> u64 {
        self.0.len() as u64
    }

    /// The tags one after the other, in parts that fit into a message.
    pub fn parts(&self) -> impl Iterator<Item = Vec<u8>> + '_ {
        self.0.chunks(PART_TAGS).map(|part| part.iter().flat_map(|(tag, _)| *tag).collect())
    }

    /// The entry at a position.
    pub fn at(&self, position: u32) -> Option<(Tag, u32)> {
        self.0.get(position as usize).copied()
    }
}

/// Length only: tags stand for keys.
impl fmt::Debug for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "List({} tags)", self.len())
    }
}

/// What both parties know and the coordinator does not. Erased when it is dropped.
pub struct MergeKey(Zeroizing<[u8; 32]>);

/// Which dummies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dummies {
    /// In both lists.
    Shared,
    /// In the list of this party alone.
    Of(Role),
}

impl MergeKey {
    /// A party's draw, which follows from its secret of the run.
    pub fn draw(secret: &[u8; 32], run: &RunId) -> [u8; 32] {
        let mut mac = keyed(secret);
        add(&mut mac, b"fedreg match draw");
        add(&mut mac, &run.0);
        mac.finalize().into_bytes().into()
    }

    /// The key of a run, from the draws of Alice and of Bob: HKDF with SHA-256, the run as the salt.
    pub fn derive(run: &RunId, alice: &[u8; 32], bob: &[u8; 32]) -> MergeKey {
        let mut extract = keyed(&run.0);
        extract.update(alice);
        extract.update(bob);
        let pseudorandom = Zeroizing::new(<[u8; 32]>::from(extract.finalize().into_bytes()));
        let mut expand = keyed(&pseudorandom[..]);
        expand.update(b"fedreg match coordinator v1");
        expand.update(&[1]);
        MergeKey(Zeroizing::new(expand.finalize().into_bytes().into()))
    }

    /// What makes tags of messages that begin alike.
    pub fn tagger(&self, prefix: &[u8]) -> Tagger {
        let mut mac = keyed(&self.0[..]);
        mac.update(prefix);
        Tagger(mac)
    }

    /// The tags of dummies in a pass of this name. No message of a key begins as theirs do.
    pub fn dummies(&self, which: Dummies, pass: &str) -> Vec<Tag> {
        let (kind, count) = match which {
            Dummies::Shared => ("shared", SHARED),
            Dummies::Of(role) => (role.name(), OWN),
        };
        let mut mac = keyed(&self.0[..]);
        for field in [b"fedreg match dummy".as_slice(), pass.as_bytes(), kind.as_bytes()] {
            add(&mut mac, field);
        }
        let tagger = Tagger(mac);
        (0..count).map(|number| tagger.tag(&number.to_le_bytes())).collect()
    }
}

/// No bytes: anyone who knows the key can test guesses of both parties' keys.
impl fmt::Debug for MergeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MergeKey")
    }
}

/// Makes tags of messages whose beginning it has taken in.
pub struct Tagger(Hmac<Sha256>);

impl Tagger {
    /// The tag of a message with this end.
    pub fn tag(&self, rest: &[u8]) -> Tag {
        let mut mac = self.0.clone();
        mac.update(rest);
        let digest: [u8; 32] = mac.finalize().into_bytes().into();
        let mut tag = [0; TAG_BYTES];
        tag.copy_from_slice(&digest[..TAG_BYTES]);
        tag
    }
}

/// HMAC under a key of at most a block, which HMAC itself pads with zeros.
fn keyed(key: &[u8]) -> Hmac<Sha256> {
    let mut block = hmac::digest::Key::<Hmac<Sha256>>::default();
    block[..key.len()].copy_from_slice(key);
    <Hmac<Sha256> as hmac::digest::KeyInit>::new(&block)
}

fn add(mac: &mut Hmac<Sha256>, field: &[u8]) {
    mac.update(&(field.len() as u64).to_le_bytes());
    mac.update(field);
}
