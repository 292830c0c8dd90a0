//! Masks: streams of uniform elements that a party and the dealer expand from the same seed.
//!
//! The key of a stream is HMAC-SHA256 of the seed over protocol, study digest, run, label and index, each field behind its length
//! as 8 bytes little-endian (the index is 8 bytes little-endian too). The stream is AES-256-CTR; the initial counter block of a
//! row block is its number as 8 bytes, the word of the element (0 or 1) as 4 bytes and a counter of 16-byte blocks from 0 as 4
//! bytes, all big-endian. It is read as little-endian words whose top bit is cleared: first one for every entry of the row block,
//! column by column, then the tail. A word with a field that is not below its prime is replaced by the next sound word of the
//! tail, in the order of the entries, so that every residue is uniform. `tests/vectors/secure` fixes all this.

use std::collections::BTreeMap;
use std::fmt;

use aes::Aes256;
use aes::cipher::{Block, BlockEncrypt, KeyInit};
use hmac::{Hmac, Mac};
use sha2::Sha256;

use super::lanes;
use super::ring::{Elements, Width, moduli};
use crate::id::{Digest, RunId};

const PROTOCOL: &str = "fedreg/secure/1";

/// Words that are made at once.
pub(super) const CHUNK: usize = 512;

/// What a party and the dealer share, and nobody else: 32 bytes from the operating system's generator, new for every run.
pub struct Seed([u8; 32]);

impl Seed {
    /// From the bytes that the dealer drew.
    pub fn new(bytes: [u8; 32]) -> Seed {
        Seed(bytes)
    }

    /// The bytes, for the one message that hands them to the party.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// No bytes: whoever knows a seed can take the masks off.
impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed")
    }
}

/// What a stream is for. Each purpose has a series of streams of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// The mask of the left block of a table.
    TableLeft,
    /// The mask of the right block of a table.
    TableRight,
    /// The left side's share of the product of both masks of a table.
    TableShare,
    /// The mask of the left party's factors of products within rows.
    RowsLeft,
    /// The mask of the right party's factors.
    RowsRight,
    /// The share of the masks' products, of the party that gets no correction.
    RowsShare,
    /// The mask of the left party's share of a vector.
    VectorLeft,
    /// The mask of the right party's share of a vector.
    VectorRight,
    /// The left party's share of the products of masks of columns and vector.
    VectorShare,
    /// The mask of the left party's share of weights.
    WeightLeft,
    /// The mask of the right party's share of weights.
    WeightRight,
    /// The right party's share of the left block's mask times its own mask of weights.
    ScaledLeft,
    /// The left party's share of the right block's mask times its own mask of weights.
    ScaledRight,
    /// The second mask of a weighted block.
    WeightedCross,
    /// The left party's share of the products of masks of a weighted table.
    WeightedShare,
    /// Public integers that both sides know.
    Canary,
}

impl Purpose {
    /// The label in the key.
    pub fn name(self) -> &'static str {
        match self {
            Purpose::TableLeft => "table/left",
            Purpose::TableRight => "table/right",
            Purpose::TableShare => "table/share",
            Purpose::RowsLeft => "rows/left",
            Purpose::RowsRight => "rows/right",
            Purpose::RowsShare => "rows/share",
            Purpose::VectorLeft => "vector/left",
            Purpose::VectorRight => "vector/right",
            Purpose::VectorShare => "vector/share",
            Purpose::WeightLeft => "weight/left",
            Purpose::WeightRight => "weight/right",
            Purpose::ScaledLeft => "scaled/left",
            Purpose::ScaledRight => "scaled/right",
            Purpose::WeightedCross => "weighted/cross",
            Purpose::WeightedShare => "weighted/share",
            Purpose::Canary => "canary",
        }
    }
}

/// Hands out the labels of one run at one role, each once. The roles agree on the order because they follow the same protocol.
pub struct Labels {
    study: Digest,
    run: RunId,
    next: BTreeMap<Purpose, u64>,
}

impl Labels {
    /// Of a run, at its beginning.
    pub fn new(study: Digest, run: RunId) -> Labels {
        Labels { study, run, next: BTreeMap::new() }
    }

    /// The next label for a purpose.
    pub fn take(&mut self, purpose: Purpose) -> Label {
        let index = self.next.entry(purpose).or_insert(0);
        let label = Label { study: self.study, run: self.run, purpose, index: *index };
        *index += 1;
        label
    }
}

/// Names one stream. Two secrets under one mask give their difference away, therefore a label cannot be copied and the expansion
/// consumes it.
#[derive(Debug)]
pub struct Label {
    study: Digest,
    run: RunId,
    purpose: Purpose,
    index: u64,
}

impl Label {
    /// The stream that a seed gives under this label.
    pub fn expand(self, seed: &Seed, width: Width) -> Mask {
        let index = self.index.to_le_bytes();
        let fields =
            [PROTOCOL.as_bytes(), &self.study.0[..], &self.run.0[..], self.purpose.name().as_bytes(), &index[..]];
        // Unwrap safety: HMAC takes keys of any length.
        #[allow(clippy::expect_used)]
        let mut key = <Hmac<Sha256> as Mac>::new_from_slice(&seed.0).expect("a key of any length");
        for field in fields {
            key.update(&(field.len() as u64).to_le_bytes());
            key.update(field);
        }
        Mask { cipher: Aes256::new(&key.finalize().into_bytes()), width }
    }

    /// A stream that everybody can expand.
    pub fn publish(self, width: Width) -> Mask {
        self.expand(&Seed([0; 32]), width)
    }
}

/// A stream of uniform elements, by row block. The same block gives the same elements again.
pub struct Mask {
    cipher: Aes256,
    width: Width,
}

/// No state: it is as secret as the seed.
impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mask({:?})", self.width)
    }
}

impl Mask {
    /// `count` elements of a row block: the entries of the block, column by column. Another count gives other elements in the places
    /// of refused words, therefore every role asks for the same count of a block.
    pub fn block(&self, block: usize, count: usize) -> Elements {
        let mut words = Vec::with_capacity(count * self.width.words());
        for half in 0..self.width.words() {
            let first = words.len();
            self.each(block, half, count, |at, mask| put(&mut words, first + at, mask));
        }
        Elements::from_words(self.width, words)
    }

    /// The same stream as elements of some ring, which is no part of its name.
    pub(super) fn of_width(&self, width: Width) -> Mask {
        Mask { cipher: self.cipher.clone(), width }
    }

    /// Hands on the words of one half of the primes of a row block, from a place on, while they are in the nearest cache. At a place whose
    /// word was refused comes another one at the end, which counts.
    pub(super) fn each(&self, block: usize, half: usize, count: usize, mut take: impl FnMut(usize, &[u64])) {
        let start = (block as u128) << 64 | (half as u128) << 32;
        let mut stream = Stream { cipher: &self.cipher, start, drawn: 0 };
        let moduli = moduli(half);
        let mut refused = Vec::new();
        let mut words = [0; CHUNK];
        for begin in (0..count).step_by(CHUNK) {
            let words = &mut words[..CHUNK.min(count - begin)];
            stream.draw(words);
            if !lanes::sound(words, moduli) {
                let wrong = words.iter().enumerate().filter(|(_, word)| !lanes::sound(&[**word], moduli));
                refused.extend(wrong.map(|(at, _)| begin + at));
            }
            take(begin, words);
        }
        for at in refused {
            let next = &mut words[..1];
            loop {
                stream.draw(next);
                if lanes::sound(next, moduli) {
                    break;
                }
            }
            take(at, next);
        }
    }
}

/// Puts words where they belong: behind the last one, or in the place of others.
pub(super) fn put(to: &mut Vec<u64>, at: usize, words: &[u64]) {
    match at == to.len() {
        true => to.extend_from_slice(words),
        false => to[at..at + words.len()].copy_from_slice(words),
    }
}

/// The cipher in counter mode, with a counter of 32 bits in big-endian order behind the numbers of row block and half.
struct Stream<'a> {
    cipher: &'a Aes256,
    start: u128,
    /// Words so far, of which a block has two.
    drawn: usize,
}

impl Stream<'_> {
    /// The next words of the stream, their top bits cleared, at most [`CHUNK`]. The blocks are encrypted together: one after the other, or as
    /// a key stream that is added to zeros byte by byte, they take many times as long.
    fn draw(&mut self, words: &mut [u64]) {
        let (first, skipped) = (self.drawn / 2, self.drawn % 2);
        let mut blocks = [Block::<Aes256>::default(); CHUNK / 2 + 1];
        let blocks = &mut blocks[..(skipped + words.len()).div_ceil(2)];
        debug_assert!(first + blocks.len() <= u32::MAX as usize, "the counter would run into the number of the half");
        for (block, counter) in blocks.iter_mut().zip(first as u128..) {
            *block = (self.start + counter).to_be_bytes().into();
        }
        self.cipher.encrypt_blocks(blocks);
        self.drawn += words.len();
        // The word of a block at a place, 0 or 1.
        let word = |block: &Block<Aes256>, place: u32| {
            (u128::from_le_bytes((*block).into()) >> (64 * place)) as u64 & (u64::MAX >> 1)
        };
        let (begun, rest) = words.split_at_mut(skipped.min(words.len()));
        begun.iter_mut().for_each(|begun| *begun = word(&blocks[0], 1));
        let (pairs, last) = rest.as_chunks_mut::<2>();
        let whole = &blocks[skipped..];
        for (pair, block) in pairs.iter_mut().zip(whole) {
            *pair = [word(block, 0), word(block, 1)];
        }
        last.iter_mut().for_each(|last| *last = word(&whole[pairs.len()], 0));
    }
}
