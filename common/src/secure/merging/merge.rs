//! Two ascending lists, read once, beside each other.

use std::cmp::Ordering;

use sha2::{Digest as _, Sha256};

use super::MOST_TAGS;
use crate::id::Digest;
use crate::secure::group::Tag;

/// Finds the tags that two lists have in common. Only the parts at which it has arrived are in memory.
pub struct Merge {
    sides: [Half; 2],
}

/// One list.
struct Half {
    size: u64,
    /// Entries that came.
    came: u64,
    last: Option<Tag>,
    /// Of what came.
    hash: Sha256,
    /// What came last.
    part: Vec<Tag>,
    /// How many of these are behind.
    at: usize,
}

/// What is wrong with a part of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// The other list has to come first, or nothing is missing.
    #[error("a part of a list that was not awaited")]
    Unawaited,
    /// No entry.
    #[error("an empty part of a list")]
    Empty,
    /// More entries than were announced.
    #[error("a longer list than was announced")]
    TooLong,
    /// Tags that do not ascend.
    #[error("tags that do not ascend strictly")]
    Order,
}

impl Half {
    fn new(size: u64) -> Half {
        Half { size, came: 0, last: None, hash: Sha256::new(), part: Vec::new(), at: 0 }
    }

    fn next(&self) -> Option<&Tag> {
        self.part.get(self.at)
    }

    /// The position of the next entry in the list.
    fn position(&self) -> u64 {
        self.came - (self.part.len() - self.at) as u64
    }

    fn is_over(&self) -> bool {
        self.came == self.size && self.at == self.part.len()
    }
}

impl Merge {
    /// Of lists of these lengths; none if one is longer than any list may be.
    pub fn new(sizes: [u64; 2]) -> Option<Merge> {
        (sizes.iter().max() <= Some(&MOST_TAGS)).then(|| Merge { sides: sizes.map(Half::new) })
    }

    /// Of which list the next part is needed; none once both have been read.
    pub fn wants(&self) -> Option<usize> {
        let lacks = |half: &Half| half.next().is_none() && half.came < half.size;
        self.sides.iter().position(lacks)
    }

    /// Entries that have been read.
    pub fn passed(&self) -> u64 {
        self.sides.iter().map(Half::position).sum()
    }

    /// Takes the next part of a list, and adds to `found` where the tags stand that both lists have.
    ///
    /// # Errors
    /// What is wrong with the part.
    pub fn take(&mut self, side: usize, part: Vec<Tag>, found: &mut Vec<[u32; 2]>) -> Result<(), Unfit> {
        if self.wants() != Some(side) {
            return Err(Unfit::Unawaited);
        }
        let half = &mut self.sides[side];
        let Some(last) = part.last() else { return Err(Unfit::Empty) };
        if part.len() as u64 > half.size - half.came {
            return Err(Unfit::TooLong);
        }
        let follows = half.last.is_none_or(|before| before < part[0]);
        if !follows || part.windows(2).any(|pair| pair[0] >= pair[1]) {
            return Err(Unfit::Order);
        }
        half.last = Some(*last);
        half.hash.update(part.as_flattened());
        half.came += part.len() as u64;
        (half.part, half.at) = (part, 0);
        self.advance(found);
        Ok(())
    }

    /// SHA-256 of the tags of each list, once both have been read: a list that comes again is the same one.
    pub fn digests(&self) -> [Digest; 2] {
        self.sides.each_ref().map(|half| Digest(half.hash.clone().finalize().into()))
    }

    fn advance(&mut self, found: &mut Vec<[u32; 2]>) {
        let [first, second] = &mut self.sides;
        while let (Some(left), Some(right)) = (first.next(), second.next()) {
            match left.cmp(right) {
                Ordering::Less => first.at += 1,
                Ordering::Greater => second.at += 1,
                Ordering::Equal => {
                    // Below MOST_TAGS, which a position of four bytes can say.
                    found.push([first.position() as u32, second.position() as u32]);
                    (first.at, second.at) = (first.at + 1, second.at + 1);
                }
            }
        }
        // Nothing of one list can meet anything of a list that is over.
        let over = [first.is_over(), second.is_over()];
        for (half, other) in [(first, over[1]), (second, over[0])] {
            if other {
                half.at = half.part.len();
            }
        }
    }
}
