//! One pass of a match through the coordinator.

use rayon::prelude::*;

use super::lists::NO_RECORD;
use super::{MatchScript, Place, Stage};
use crate::conversation::Refusal;
use crate::data::matching::{Eligible, OwnCounts};
use crate::id::Role;
use crate::secure::group::{self, TAG_BYTES, Tag};
use crate::secure::merging::{
    DUMMIES, Dummies, Known, List, MOST_TAGS, MergeKey, Merged, PART_POSITIONS, Request, SHARED,
};
use crate::session::{Abort, PeerFault};

/// In the place of a record's number: a dummy that both lists have. Records have smaller numbers.
const SHARED_DUMMY: u32 = u32::MAX - 1;
/// Records of which one thread makes tags at a time.
const BATCH: usize = 1024;

/// What a pass computes.
pub(super) struct Merging {
    /// Until the list is made.
    eligible: Option<Eligible>,
    counts: OwnCounts,
    /// Entries of the own and of the peer's list, without dummies.
    sizes: [u64; 2],
    list: Option<List>,
    /// Entries that the coordinator has read.
    passed: u64,
    /// How many entries both lists have, shared dummies included, once the coordinator has said so.
    told: Option<u64>,
    /// Positions so far, the last of them, and how many of them are of shared dummies.
    positions: u64,
    last: Option<u32>,
    shared: u32,
    /// The records that match, and their tags.
    pub(super) records: Vec<u32>,
    pub(super) tags: Vec<Tag>,
}

impl Merging {
    /// With lists of these lengths.
    pub(super) fn new(eligible: Eligible, own: u64, peer: u64) -> Merging {
        Merging {
            counts: eligible.counts,
            eligible: Some(eligible),
            sizes: [own, peer],
            list: None,
            passed: 0,
            told: None,
            positions: 0,
            last: None,
            shared: 0,
            records: Vec::new(),
            tags: Vec::new(),
        }
    }

    /// Whether the coordinator has said how many both have.
    pub(super) fn is_counted(&self) -> bool {
        self.told.is_some()
    }

    /// Whether it has said which.
    pub(super) fn is_complete(&self) -> bool {
        self.told == Some(self.positions)
    }

    /// Records that both have.
    pub(super) fn matched(&self) -> u64 {
        self.told.unwrap_or(0).saturating_sub(SHARED.into())
    }

    /// Makes the own list, unless that was done before.
    fn list(&mut self, role: Role, key: &MergeKey, place: &Place<'_>) -> Result<Option<List>, Abort> {
        let Some(Eligible { records, .. }) = self.eligible.take() else { return Ok(None) };
        let (length, name) = (self.sizes[0] + DUMMIES, place.inputs.rules.keys.passes()[place.pass].name.as_str());
        if length > MOST_TAGS {
            return Err(Abort::OwnData(format!("a list of {length} tags, of which there can be {MOST_TAGS}")));
        }
        let mut entries: Vec<(Tag, u32)> = Vec::new();
        entries.try_reserve_exact(length as usize).map_err(|_| {
            // Not a sentence for the coordinator, as it has numbers of records.
            let megabytes = (length * size_of::<(Tag, u32)>() as u64).div_ceil(1 << 20);
            Abort::OwnData(format!("a list of {length} tags takes {megabytes} MiB of memory, more than there is"))
        })?;
        entries.extend(records.iter().map(|record| ([0; TAG_BYTES], *record)));
        let messages =
            place.inputs.records.messages(&place.inputs.rules.keys.passes()[place.pass], &place.inputs.match_digest);
        let tagger = key.tagger(messages.prefix());
        entries.par_chunks_mut(BATCH).for_each_init(Vec::new, |rest, entries| {
            for (tag, record) in entries {
                rest.clear();
                messages.write_rest(*record, rest);
                *tag = tagger.tag(rest);
            }
        });
        let padding = self.sizes[0].saturating_sub(records.len() as u64);
        entries.extend((0..padding).map(|number| {
            let wide = group::padding(place.secret, place.run, place.pass as u32, number as u32);
            let mut tag = [0; TAG_BYTES];
            tag.copy_from_slice(&wide[..TAG_BYTES]);
            (tag, NO_RECORD)
        }));
        entries.extend(key.dummies(Dummies::Shared, name).into_iter().map(|tag| (tag, SHARED_DUMMY)));
        entries.extend(key.dummies(Dummies::Of(role), name).into_iter().map(|tag| (tag, NO_RECORD)));
        let list = List::new(entries);
        let list =
            list.ok_or_else(|| Abort::Bug("two tags of a match are the same: start the match again".to_owned()))?;
        self.list = Some(list.clone());
        Ok(Some(list))
    }

    fn progress(&mut self, entries: u64) -> Result<(), &'static str> {
        let most = self.sizes.iter().fold(2 * DUMMIES, |sum, size| sum.saturating_add(*size));
        if entries <= self.passed || entries > most {
            return Err("one that rises to the length of both lists");
        }
        self.passed = entries;
        Ok(())
    }

    fn count(&mut self, count: u64) -> Result<(), &'static str> {
        let most = self.sizes[0].min(self.sizes[1]);
        if !(u64::from(SHARED)..=most.saturating_add(SHARED.into())).contains(&count) {
            return Err("one of all dummies that both lists have, and no more than the shorter list");
        }
        self.told = Some(count);
        // No more than the own list has.
        let records = (count - u64::from(SHARED)) as usize;
        self.records.reserve_exact(records);
        self.tags.reserve_exact(records);
        Ok(())
    }

    /// Takes positions in; refuses any but ascending positions of own records, and all dummies that both lists have.
    fn take(&mut self, first: u64, positions: &[u32]) -> Result<(), &'static str> {
        let (Some(list), Some(told)) = (&self.list, self.told) else { return Err("a list before them") };
        let due = (told - self.positions).min(PART_POSITIONS as u64);
        if (first, positions.len() as u64) != (self.positions, due) {
            return Err("the part that follows");
        }
        for position in positions {
            if self.last.is_some_and(|last| last >= *position) {
                return Err("strictly ascending ones");
            }
            self.last = Some(*position);
            match list.at(*position).ok_or("positions of own tags")? {
                (_, NO_RECORD) => return Err("no dummy that the peer does not have"),
                (_, SHARED_DUMMY) => self.shared += 1,
                (tag, record) => {
                    self.records.push(record);
                    self.tags.push(tag);
                }
            }
        }
        self.positions += due;
        if self.is_complete() && self.shared != SHARED {
            return Err("all dummies that both lists have");
        }
        Ok(())
    }
}

impl MatchScript {
    /// The key of the run, of both draws.
    pub(super) fn key(&self, theirs: &[u8; 32]) -> MergeKey {
        let own = MergeKey::draw(&self.secret, &self.run);
        match self.role < self.peer {
            true => MergeKey::derive(&self.run, &own, theirs),
            false => MergeKey::derive(&self.run, theirs, &own),
        }
    }

    /// Makes the list for the coordinator, where it is due.
    pub(super) fn make_list(&mut self) -> Result<(), Abort> {
        let (pass, side) = (self.pass, self.side());
        let (Stage::Merge(merging), Some(key)) = (&mut self.stage, &self.key) else { return Ok(()) };
        let place = Place { inputs: &self.inputs, secret: &self.secret, run: &self.run, pass, side };
        if let Some(list) = merging.list(self.role, key, &place)? {
            // Of a run that goes on, what was asked for in the pass before.
            self.requests.clear();
            self.requests.push_back(Request::List { pass: pass as u32, list, known: Known::default() });
        }
        Ok(())
    }

    pub(super) fn gate_of_merge(&mut self, merging: Box<Merging>) -> Result<Stage, Abort> {
        if !self.gate(merging.counts, merging.sizes[1], merging.matched()) {
            return self.behind_the_gate();
        }
        self.requests.push_back(Request::Positions { pass: self.pass as u32 });
        Ok(Stage::Positions(merging))
    }

    /// Takes in what the coordinator says.
    pub(super) fn absorb_merged(&mut self, merged: Merged) -> Result<(), Refusal> {
        let number = self.pass as u32;
        let what = merged.kind();
        let (pass, taken) = match (&mut self.stage, &merged) {
            (Stage::Merge(merging), Merged::Passed { pass, entries }) => (*pass, merging.progress(*entries)),
            (Stage::Merge(merging), Merged::Count { pass, count }) => (*pass, merging.count(*count)),
            (Stage::Positions(merging), Merged::Positions { pass, first, positions }) => {
                (*pass, merging.take(*first, positions))
            }
            _ => return Err(Refusal::Kind),
        };
        if pass != number {
            return Err(PeerFault::Round { came: pass, expected: number }.into());
        }
        let fault = |expected| PeerFault::Match { pass: number + 1, what, expected };
        taken.map_err(fault)?;
        // In a run that goes on the list is asked for once it is known what came of it.
        if let Some(Request::List { known, .. }) = self.requests.front_mut() {
            known.add(&merged).map_err(fault)?;
        }
        Ok(self.settle()?)
    }
}
