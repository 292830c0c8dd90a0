//! What the parties of a match say to each other.

use crate::id::Digest;
use crate::privacy::release::Declaration;
use crate::secure::group::{ELEMENT_BYTES, TAG_BYTES};

/// Most bytes of the list in one message, so that no message grows with the number of records.
pub const PART_BYTES: usize = 256 << 10;

/// What [`Match::Draw`] is called.
pub(super) const DRAW: &str = "a part of the key of a match";

/// What a number of kind [`NumberKind::Common`] is called.
pub(super) const COMMON: &str = "the count of the records that all have";

/// A message of a match.
#[derive(Clone, PartialEq)]
pub enum Match {
    /// The rules by which the sender's keys were made, and what it asks for.
    Terms(Terms),
    /// How long the sender's list is, or how many records match.
    Number(Number),
    /// A part of a list.
    Part(Part),
    /// Of the proof of the matched records: first the element, then the digest.
    Agree(Digest),
    /// Before a match through the coordinator: the sender's part of the key that the coordinator does not get. Of several parties, what the
    /// leader names the common order by.
    Draw([u8; 32]),
}

/// See [`Match::Terms`].
#[derive(Clone, PartialEq, Eq)]
pub struct Terms {
    /// The number of the rules of normalisation.
    pub normaliser: u32,
    /// The versions of Unicode, as in [`crate::data::matching::unicode`].
    pub unicode: [u32; 3],
    /// Fewest records that the first pass must find.
    pub min_matched: u64,
}

/// See [`Match::Number`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Number {
    /// What is counted.
    pub what: NumberKind,
    /// The pass, from 0.
    pub pass: u32,
    /// How many.
    pub number: u64,
}

/// What a [`Number`] counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumberKind {
    /// Entries of the sender's list.
    Size,
    /// Entries that both lists have.
    Count,
    /// Records of the leader of several parties that match at all others.
    Common,
}

/// See [`Match::Part`].
#[derive(Clone, PartialEq, Eq)]
pub struct Part {
    /// Of which list.
    pub what: PartKind,
    /// The pass, from 0.
    pub pass: u32,
    /// The position of the first entry in the list.
    pub first: u64,
    /// Whole entries, at least one, of at most [`PART_BYTES`].
    pub bytes: Vec<u8>,
}

/// The list of a [`Part`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartKind {
    /// The sender's keys as elements times its scalar, ascending.
    Masked,
    /// Tags of the receiver's elements times the sender's scalar, ascending.
    Doubled,
    /// Positions of the matches in the receiver's list of masked keys, 4 bytes little-endian each, in the order of their tags.
    Reveal,
    /// Of several parties, for each entry of the sender's list where the same record stood first: pass and position, 4 bytes little-endian
    /// each; all bits set where it stood nowhere before.
    Same,
    /// Of several parties, where the records that all have stand in the receiver's lists, in the order that all share: pass and position,
    /// 4 bytes little-endian each.
    Common,
}

impl PartKind {
    /// Bytes of an entry.
    pub const fn unit(self) -> usize {
        match self {
            PartKind::Masked => ELEMENT_BYTES,
            PartKind::Doubled => TAG_BYTES,
            PartKind::Reveal => size_of::<u32>(),
            PartKind::Same | PartKind::Common => 2 * size_of::<u32>(),
        }
    }

    /// What its entries are.
    pub fn name(self) -> &'static str {
        match self {
            PartKind::Masked => "masked keys",
            PartKind::Doubled => "tags of keys",
            PartKind::Reveal => "positions of matches",
            PartKind::Same => "places of the same records",
            PartKind::Common => "places of the records that all have",
        }
    }
}

impl Match {
    /// What kind of message it is, for people.
    pub fn kind(&self) -> &'static str {
        match self {
            Match::Terms(_) => "terms of a match",
            Match::Number(Number { what: NumberKind::Size, .. }) => "the length of a list",
            Match::Number(Number { what: NumberKind::Count, .. }) => "a count of matches",
            Match::Number(Number { what: NumberKind::Common, .. }) => COMMON,
            Match::Part(part) => part.what.name(),
            Match::Agree(_) => "a proof of matched records",
            Match::Draw(_) => DRAW,
        }
    }

    /// What it tells the peer.
    pub fn discloses(&self) -> Vec<Declaration> {
        match self {
            Match::Terms(_) | Match::Draw(_) => vec![],
            Match::Number(_) | Match::Part(Part { what: PartKind::Masked | PartKind::Doubled, .. }) => {
                vec![Declaration::MatchCounts]
            }
            Match::Part(Part { what: PartKind::Reveal | PartKind::Common, .. }) | Match::Agree(_) => {
                vec![Declaration::Membership]
            }
            Match::Part(Part { what: PartKind::Same, .. }) => vec![Declaration::SameRecords],
        }
    }
}
