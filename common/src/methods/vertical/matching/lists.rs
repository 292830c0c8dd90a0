//! The lists of one pass: own keys behind a mask, the peer's keys as tags, and what both have.

use rayon::prelude::*;

use super::message::{PART_BYTES, Part, PartKind};
use crate::data::align::Mask;
use crate::data::matching::Messages;
use crate::secure::group::{Element, Scalar, Tag, TagContext};

/// In the place of a record's number: an entry that stands for no record.
pub(super) const NO_RECORD: u32 = u32::MAX;

/// Whose turn it is while both parties send a list. They take turns for as long as both have something, so that each computes on what came
/// while the other does the same.
pub(super) struct Turns {
    /// Entries of the first speaker's and of the other's list.
    totals: [u64; 2],
    done: [u64; 2],
    last: usize,
}

impl Turns {
    pub(super) fn new(totals: [u64; 2]) -> Turns {
        Turns { totals, done: [0, 0], last: 1 }
    }

    /// Who speaks next: 0 for the first speaker; none once both lists are complete.
    pub(super) fn next(&self) -> Option<usize> {
        [1 - self.last, self.last].into_iter().find(|&side| self.done[side] < self.totals[side])
    }

    /// How many entries the next part of a side has, and at which position it begins.
    pub(super) fn due(&self, side: usize, what: PartKind) -> (u64, u64) {
        let most = (PART_BYTES / what.unit()) as u64;
        (self.done[side], (self.totals[side] - self.done[side]).min(most))
    }

    pub(super) fn advance(&mut self, side: usize, count: u64) {
        self.done[side] += count;
        self.last = side;
    }
}

/// The own list of masked keys, ascending, each with the record that it stands for.
pub(super) struct Own {
    /// Until they are sent.
    masked: Vec<(Element, u32)>,
    /// Afterwards.
    records: Vec<u32>,
}

impl Own {
    /// Masks the keys of records, and of padding up to a length. `masked` is empty and has the room.
    pub(super) fn mask(
        records: Vec<u32>,
        mut masked: Vec<(Element, u32)>,
        length: u64,
        scalar: &Scalar,
        messages: &Messages<'_>,
        padded: impl Fn(u32) -> [u8; 64] + Sync,
    ) -> Own {
        let padding = (length as usize).saturating_sub(records.len());
        masked.extend(records.iter().map(|record| ([0; 32], *record)));
        masked.extend((0..padding).map(|number| ([0; 32], number as u32)));
        let (real, rest) = masked.split_at_mut(records.len());
        drop(records);
        scalar.mask(real, |record, message| messages.write(*record, message));
        scalar.mask(rest, |number, message| message.extend_from_slice(&padded(*number)));
        rest.iter_mut().for_each(|(_, number)| *number = NO_RECORD);
        // Without the sort a position would be the number of a row among those that take part.
        masked.par_sort_unstable();
        Own { masked, records: Vec::new() }
    }

    /// A part of the list. After the last one the elements are given up: what was sent last is kept by the conversation.
    pub(super) fn part(&mut self, pass: u32, (first, count): (u64, u64)) -> Part {
        let at = first as usize;
        let bytes = self.masked[at..at + count as usize].iter().flat_map(|(element, _)| *element).collect();
        if at + count as usize == self.masked.len() {
            self.records = std::mem::take(&mut self.masked).into_iter().map(|(_, record)| record).collect();
        }
        Part { what: PartKind::Masked, pass, first, bytes }
    }

    /// The record at each position, once the list is sent; [`NO_RECORD`] where there is none.
    pub(super) fn records(&self) -> &[u32] {
        &self.records
    }

    /// The records at these positions.
    ///
    /// # Errors
    /// A position that is not in the list, is there twice, or stands for no record.
    fn at(&self, positions: &[u32], seen: &mut Mask) -> Result<Vec<u32>, &'static str> {
        let found = positions.iter().map(|position| {
            let record = self.records.get(*position as usize).filter(|record| **record != NO_RECORD);
            let record = record.ok_or("positions of own keys")?;
            match seen.is_set(*position as usize) {
                true => Err("each position once"),
                false => {
                    seen.set(*position as usize);
                    Ok(*record)
                }
            }
        });
        found.collect()
    }
}

/// Room for both lists of a pass: 36 bytes for each of the own entries, 20 for each of the peer's.
///
/// # Errors
/// Megabytes that this takes, where the system does not have them.
#[allow(clippy::type_complexity, reason = "the two vectors that are about to be filled")]
pub(super) fn room(own: u64, theirs: u64) -> Result<(Vec<(Element, u32)>, Vec<(Tag, u32)>), u64> {
    let (mut masked, mut tags): (Vec<(Element, u32)>, Vec<(Tag, u32)>) = (Vec::new(), Vec::new());
    let reserved = masked.try_reserve_exact(own as usize).is_ok() && tags.try_reserve_exact(theirs as usize).is_ok();
    let bytes = own * size_of::<(Element, u32)>() as u64 + theirs * size_of::<(Tag, u32)>() as u64;
    if reserved { Ok((masked, tags)) } else { Err(bytes.div_ceil(1 << 20)) }
}

/// What came of the peer's list.
pub(super) struct Theirs {
    /// The part whose tags are not computed yet, with the position of its first entry.
    waiting: (u64, Vec<Element>),
    last: Option<Element>,
    /// Tag and position of each of the peer's keys; ascending once all have come.
    tags: Vec<(Tag, u32)>,
    sorted: bool,
    /// The last of the own list's tags, as the peer computed them.
    doubled: Option<Tag>,
    /// How far both lists of tags are compared.
    compared: usize,
    /// Positions in `tags` of what both lists have.
    both: Vec<u32>,
}

impl Theirs {
    /// Of a list whose tags have this room.
    pub(super) fn new(tags: Vec<(Tag, u32)>) -> Theirs {
        Theirs {
            waiting: (0, Vec::new()),
            last: None,
            tags,
            sorted: false,
            doubled: None,
            compared: 0,
            both: Vec::new(),
        }
    }

    /// Takes a part of the peer's masked keys in. Its tags are computed by [`Theirs::work`], while the peer does the same.
    pub(super) fn take(&mut self, first: u64, elements: Vec<Element>) -> Result<(), &'static str> {
        ascending(&mut self.last, &elements)?;
        self.waiting = (first, elements);
        Ok(())
    }

    /// Whether there are tags to compute.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.1.is_empty()
    }

    /// Whether its tags can be compared.
    pub(super) fn is_sorted(&self) -> bool {
        self.sorted
    }

    /// Computes the tags of what came.
    pub(super) fn work(&mut self, scalar: &Scalar, context: &TagContext) -> Result<(), &'static str> {
        let (first, elements) = std::mem::take(&mut self.waiting);
        let tags =
            scalar.tags(&elements, context).map_err(|_| "canonical encodings of elements other than the identity")?;
        self.tags.extend((first as u32..).zip(tags).map(|(position, tag)| (tag, position)));
        Ok(())
    }

    /// Brings the tags into their order: now the own list's tags can be compared.
    pub(super) fn sort(&mut self) -> Result<(), &'static str> {
        if !self.sorted {
            self.tags.par_sort_unstable();
            self.sorted = true;
            // Ascending elements differ, and so do their products.
            if self.tags.windows(2).any(|pair| pair[0].0 == pair[1].0) {
                return Err("keys with different tags");
            }
        }
        Ok(())
    }

    /// A part of the tags, for the peer.
    pub(super) fn part(&self, pass: u32, (first, count): (u64, u64)) -> Part {
        let tags = &self.tags[first as usize..(first + count) as usize];
        Part { what: PartKind::Doubled, pass, first, bytes: tags.iter().flat_map(|(tag, _)| *tag).collect() }
    }

    /// Compares a part of the own list's tags with those of the peer's list.
    pub(super) fn compare(&mut self, tags: &[Tag]) -> Result<(), &'static str> {
        ascending(&mut self.doubled, tags)?;
        for tag in tags {
            let rest = &self.tags[self.compared..];
            self.compared += rest.iter().take_while(|(own, _)| own < tag).count();
            if let Some((own, _)) = self.tags.get(self.compared)
                && own == tag
            {
                self.both.push(self.compared as u32);
            }
        }
        Ok(())
    }

    /// How many both lists have.
    pub(super) fn count(&self) -> u64 {
        self.both.len() as u64
    }

    /// Where some of these stand in the peer's list.
    pub(super) fn positions(&self, pass: u32, (first, count): (u64, u64)) -> Part {
        let both = &self.both[first as usize..(first + count) as usize];
        let bytes = both.iter().flat_map(|at| self.tags[*at as usize].1.to_le_bytes()).collect();
        Part { what: PartKind::Reveal, pass, first, bytes }
    }

    /// Where all of these stand in the peer's list, in the order of their tags.
    pub(super) fn places(&self) -> Vec<u32> {
        self.both.iter().map(|at| self.tags[*at as usize].1).collect()
    }

    /// The tags of what both lists have, ascending.
    pub(super) fn matched(&self) -> Vec<Tag> {
        self.both.iter().map(|at| self.tags[*at as usize].0).collect()
    }
}

/// The own records that match, in the order of their tags, as the peer reveals them.
pub(super) struct Revealed {
    seen: Mask,
    pub(super) records: Vec<u32>,
}

impl Revealed {
    pub(super) fn new(own: &Own) -> Revealed {
        Revealed { seen: Mask::new(own.records.len()), records: Vec::new() }
    }

    pub(super) fn take(&mut self, own: &Own, positions: &[u32]) -> Result<(), &'static str> {
        self.records.extend(own.at(positions, &mut self.seen)?);
        Ok(())
    }
}

fn ascending<T: Ord + Copy>(last: &mut Option<T>, values: &[T]) -> Result<(), &'static str> {
    for value in values {
        if last.is_some_and(|last| last >= *value) {
            return Err("strictly ascending ones");
        }
        *last = Some(*value);
    }
    Ok(())
}
