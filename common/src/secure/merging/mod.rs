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
//! A list that is sent again in a run has the same bytes: the draws follow from secrets of the run that the parties keep, and the tags from
//! them. So a coordinator, or a line to it, that was lost costs a match nothing but time.
//!
//! # Reference
//!
//! RFC 5869 (HKDF), RFC 2104 (HMAC).

use std::fmt;
use std::sync::Arc;

use hmac::{Hmac, Mac};
use sha2::{Sha256, compress256};
use zeroize::Zeroizing;

use super::group::{TAG_BYTES, Tag};
use crate::data::matching::spread;
use crate::hash::{BLOCK, Block, INITIAL, close, write};
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
        /// What is known of the answers already.
        known: Known,
    },
    /// Say which entries both lists have; answered once both parties ask for it.
    Positions {
        /// The pass, from 0.
        pass: u32,
    },
}

/// What a party has heard of the coordinator, of a pass that it goes on with after it was interrupted: the coordinator says all of it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Known {
    /// Messages of the coordinator in the whole match.
    pub messages: u64,
    /// Entries that have been read.
    pub passed: u64,
    /// How many entries both lists have.
    pub count: Option<u64>,
    /// Positions.
    pub positions: u64,
}

impl Known {
    /// Takes in what the coordinator says of the pass; whether that is new.
    ///
    /// # Errors
    /// It is not what the coordinator said before.
    pub fn add(&mut self, merged: &Merged) -> Result<bool, &'static str> {
        let is_new = match merged {
            // A sign of life that comes late says nothing.
            Merged::Passed { entries, .. } => self.count.is_none() && *entries > self.passed,
            Merged::Count { count, .. } => match self.count {
                Some(before) if before != *count => return Err("the count that was told before"),
                before => before.is_none(),
            },
            Merged::Positions { first, positions, .. } => first.saturating_add(positions.len() as u64) > self.positions,
        };
        if is_new {
            match merged {
                Merged::Passed { entries, .. } => self.passed = *entries,
                Merged::Count { count, .. } => self.count = Some(*count),
                Merged::Positions { first, positions, .. } => {
                    self.positions = first.saturating_add(positions.len() as u64);
                }
            }
        }
        Ok(is_new)
    }
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
    /// The pass, from 0.
    pub fn pass(&self) -> u32 {
        match self {
            Merged::Passed { pass, .. } | Merged::Count { pass, .. } | Merged::Positions { pass, .. } => *pass,
        }
    }

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
        let high = |(tag, _): &(Tag, u32)| u32::from_be_bytes([tag[0], tag[1], tag[2], tag[3]]);
        spread::sort(&mut entries, high, |(tag, _)| u128::from_be_bytes(*tag));
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
        self.0.chunks(PART_TAGS).map(|part| {
            let mut bytes = Vec::with_capacity(part.len() * TAG_BYTES);
            part.iter().for_each(|(tag, _)| bytes.extend_from_slice(tag));
            bytes
        })
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
        Tagger::new(&self.0, prefix)
    }

    /// The tags of dummies in a pass of this name. No message of a key begins as theirs do.
    pub fn dummies(&self, which: Dummies, pass: &str) -> Vec<Tag> {
        let (kind, count) = match &which {
            Dummies::Shared => ("shared", SHARED),
            Dummies::Of(role) => (role.name(), OWN),
        };
        let mut prefix = Vec::new();
        for field in [b"fedreg match dummy".as_slice(), pass.as_bytes(), kind.as_bytes()] {
            prefix.extend_from_slice(&(field.len() as u64).to_le_bytes());
            prefix.extend_from_slice(field);
        }
        let tagger = self.tagger(&prefix);
        (0..count).map(|number| tagger.tag(&number.to_le_bytes())).collect()
    }
}

/// No bytes: anyone who knows the key can test guesses of both parties' keys.
impl fmt::Debug for MergeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MergeKey")
    }
}

/// Makes tags of messages whose beginning it has taken in: HMAC with SHA-256. Of a short end it takes two runs of the compression function.
pub struct Tagger {
    /// The states behind the block of the inner and of the outer key, and behind the whole blocks of the beginning.
    inner: State,
    outer: State,
    /// The part of a block that the beginning fills, and how much that is.
    begun: Block,
    filled: usize,
    /// Bytes that the inner hash has taken in, these included.
    bytes: u64,
}

type State = Zeroizing<[u32; 8]>;

/// Bytes that the outer hash takes in: a block and a digest.
const OUTER: usize = BLOCK + 32;

impl Tagger {
    fn new(key: &[u8; 32], prefix: &[u8]) -> Tagger {
        let behind = |pad: u8| {
            let mut block = Zeroizing::new([pad; BLOCK]);
            block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
            let mut state = Zeroizing::new(INITIAL);
            compress256(&mut state, &[Block::from(*block)]);
            state
        };
        let (mut inner, outer) = (behind(0x36), behind(0x5c));
        let (blocks, rest) = prefix.as_chunks::<BLOCK>();
        blocks.iter().for_each(|block| compress256(&mut inner, &[Block::from(*block)]));
        let mut begun = Block::default();
        begun[..rest.len()].copy_from_slice(rest);
        Tagger { inner, outer, begun, filled: rest.len(), bytes: (BLOCK + prefix.len()) as u64 }
    }

    /// The tag of a message with this end.
    pub fn tag(&self, mut rest: &[u8]) -> Tag {
        let (mut state, mut block, mut filled) = (*self.inner, self.begun, self.filled);
        let bits = 8 * (self.bytes + rest.len() as u64);
        while rest.len() >= BLOCK - filled {
            let (now, later) = rest.split_at(BLOCK - filled);
            block[filled..].copy_from_slice(now);
            compress256(&mut state, std::slice::from_ref(&block));
            (rest, filled) = (later, 0);
        }
        block[filled..filled + rest.len()].copy_from_slice(rest);
        filled += rest.len();
        let digest = close(state, block, filled, bits);
        let mut block = Block::default();
        write(digest, &mut block);
        let mac = close(*self.outer, block, OUTER - BLOCK, 8 * OUTER as u64);
        let mut tag = [0; TAG_BYTES];
        write(mac, &mut tag);
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
