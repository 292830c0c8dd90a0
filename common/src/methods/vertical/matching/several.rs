//! What is different in the match of a pair where the pair is the leader of several parties and one of the others.
//!
//! Up to the counts a pair says what two parties say. Then:
//!
//! 1. The leader holds its own `Count` back until every other party has said its own and every pair's gate is open. So that `Count`
//!    tells a follower that it may reveal.
//! 2. The follower reveals and the leader does not: the leader learns which of its own records match, and where in the follower's
//!    list, which is in an order that is random to it. The follower learns nothing of its own records.
//! 3. As the follower does not know which of its records are linked, all that are eligible take part in every pass. With the matches of a
//!    pass after the first it sends for each entry of its list where the same record stood first (`Same`), and the leader drops links
//!    to records that an earlier pass has linked, and all of the pass where fewer than `min_pass` are left. So the links are those of two
//!    parties.
//! 4. Once all pairs are linked, the leader takes its records that have a link in every pair. If these are enough, it tells each follower how
//!    many they are, a draw that names their order, and where they stand in that follower's lists (`Common`), in an order that
//!    follows from the leader's secret of the run and from nothing else.
//! 5. `Agree` is over the keys by which the pair found these, in that order. The leader says the last of its messages once
//!    every other party has proved that it holds the same.

use std::collections::BTreeSet;

use super::lists::{NO_RECORD, Own, Revealed, Turns};
use super::message::{COMMON, Match, Number, NumberKind, Part, PartKind};
use super::{Lists, MatchScript, PassCounts, Stage};
use crate::conversation::Refusal;
use crate::data::align::Mask;
use crate::session::{Abort, PeerFault};

/// Where a record of a follower stands: the pass and the position in its list.
pub(in crate::methods::vertical) type Entry = [u32; 2];

/// Where a record stood nowhere before.
const NOWHERE: Entry = [u32::MAX; 2];

/// A record of the leader that matches one of a follower.
#[derive(Clone, Copy)]
pub(in crate::methods::vertical) struct Link {
    /// The leader's record.
    pub(in crate::methods::vertical) record: u32,
    /// The follower's.
    pub(in crate::methods::vertical) entry: Entry,
}

/// What a pair of several parties knows beside what two parties know.
pub(super) struct Several {
    /// How many pairs the leader computes for.
    pub(super) pairs: u64,
    pub(super) seat: Seat,
    /// The records that all have, each with the pass by which this pair found it, in the order that all share.
    pub(super) common: Vec<[u32; 2]>,
    pub(super) draw: Option<[u8; 32]>,
    /// How many matches the revealed passes have counted.
    counted: u64,
    /// Entries of the longest lists of both sides so far.
    pub(super) entries: u64,
}

pub(super) enum Seat {
    Leader {
        /// Entries of the follower's list of each pass.
        sizes: Vec<u64>,
        links: Vec<Link>,
        /// Where the linked records of the follower stood first.
        linked: BTreeSet<Entry>,
    },
    Follower {
        /// The records of the own list of each pass.
        lists: Vec<Vec<u32>>,
        /// Where each record stood first.
        first: Vec<Entry>,
    },
}

/// The part of the conversation in which a follower hears which of its records all have.
pub(super) struct Common {
    /// Of the leader: what it says, once it is known.
    told: Option<Vec<Entry>>,
    said: u8,
    count: u64,
    turns: Turns,
    seen: Mask,
}

/// What the leader of several parties waits for before it goes on with any of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::methods::vertical) enum Hold {
    /// The counts of all pairs.
    Counts,
    /// The links of all pairs.
    Links,
    /// The proofs of all followers.
    Proofs,
}

/// Entries as they travel.
pub(super) fn written(entries: &[Entry]) -> Vec<u8> {
    entries.iter().flatten().flat_map(|number| number.to_le_bytes()).collect()
}

/// The same, read.
pub(super) fn entries(bytes: &[u8]) -> Vec<Entry> {
    let (numbers, _) = bytes.as_chunks::<4>();
    numbers.as_chunks::<2>().0.iter().map(|entry| entry.map(u32::from_le_bytes)).collect()
}

impl Several {
    pub(super) fn new(leads: bool, pairs: u64, records: usize) -> Several {
        let seat = match leads {
            true => Seat::Leader { sizes: Vec::new(), links: Vec::new(), linked: BTreeSet::new() },
            false => Seat::Follower { lists: Vec::new(), first: vec![NOWHERE; records] },
        };
        Several { pairs, seat, common: Vec::new(), draw: None, counted: 0, entries: 0 }
    }

    fn leads(&self) -> bool {
        matches!(self.seat, Seat::Leader { .. })
    }
}

impl Seat {
    /// Keeps at a follower what its list of the present pass was, at the leader how long that is; gives at a follower for each entry where
    /// the same record stood first.
    pub(super) fn keep(&mut self, own: &Own, theirs: u64) -> Vec<Entry> {
        let (lists, first) = match self {
            Seat::Leader { sizes, .. } => {
                sizes.push(theirs);
                return Vec::new();
            }
            Seat::Follower { lists, first } => (lists, first),
        };
        let pass = lists.len() as u32;
        let before = own.records().iter().map(|record| match *record {
            NO_RECORD => NOWHERE,
            record => first[record as usize],
        });
        let before: Vec<Entry> = before.collect();
        for (position, record) in own.records().iter().enumerate().filter(|(_, record)| **record != NO_RECORD) {
            let first = &mut first[*record as usize];
            if *first == NOWHERE {
                *first = [pass, position as u32];
            }
        }
        lists.push(own.records().to_vec());
        before
    }
}

impl Common {
    fn new() -> Common {
        Common { told: None, said: 0, count: 0, turns: Turns::new([0, 0]), seen: Mask::new(0) }
    }

    /// Whose turn it is with the list, once that is due.
    pub(super) fn turns(&mut self) -> Option<&mut Turns> {
        (self.said == 2).then_some(&mut self.turns)
    }

    /// What is due, for the sentence about somebody who says something else.
    pub(super) fn expected(&self) -> &'static str {
        match self.said {
            0 => COMMON,
            1 => super::DRAW,
            _ => PartKind::Common.name(),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.said == 2 && self.turns.next().is_none()
    }
}

impl MatchScript {
    /// Which side leads, 0 for the first speaker.
    pub(super) fn leading_side(&self) -> usize {
        match &self.several {
            Some(several) if several.leads() => self.side(),
            Some(_) | None => 1 - self.side(),
        }
    }

    /// How many matches each side reveals where both have counted so many.
    pub(super) fn revealing(&self, counted: u64) -> [u64; 2] {
        match &self.several {
            None => [counted, counted],
            Some(_) if self.leading_side() == 0 => [0, counted],
            Some(_) => [counted, 0],
        }
    }

    /// What follows where the follower has revealed the matches of a pass.
    pub(super) fn revealed(&mut self, lists: &Lists, revealed: Revealed, before: Vec<Entry>) -> Result<Stage, Abort> {
        let leading = self.leading_side();
        if let Some(several) = &mut self.several {
            several.counted += lists.theirs.count();
        }
        if self.pass == 0 {
            let entries = lists.theirs.places().into_iter().map(|position| [0, position]);
            self.link(
                revealed.records.into_iter().zip(entries).map(|(record, entry)| (record, entry, entry)).collect(),
            );
            return self.next_pass();
        }
        let mut totals = [0, 0];
        totals[1 - leading] = lists.sizes[1 - leading];
        let records = revealed.records.into_iter().zip(lists.theirs.places()).collect();
        Ok(Stage::Same { turns: Turns::new(totals), before, records })
    }

    /// What follows where it is known which entries of a pass stood in an earlier one.
    pub(super) fn resolved(&mut self, before: &[Entry], records: &[(u32, u32)]) -> Result<Stage, Abort> {
        let pass = self.pass as u32;
        if let Some(Several { seat: Seat::Leader { sizes, .. }, .. }) = &self.several {
            let mut known: Vec<Entry> = before.iter().copied().filter(|entry| *entry != NOWHERE).collect();
            known.sort_unstable();
            let stood = |[earlier, position]: &Entry| {
                *earlier < pass && sizes.get(*earlier as usize).is_some_and(|size| u64::from(*position) < *size)
            };
            if !known.iter().all(stood) || known.windows(2).any(|pair| pair[0] == pair[1]) {
                let fault = PeerFault::Match {
                    pass: pass + 1,
                    what: PartKind::Same.name(),
                    expected: "entries of earlier lists, each once",
                };
                return Err(Abort::Peer { peer: self.peer, fault });
            }
        }
        let place = |position: u32| match before.get(position as usize) {
            Some(before) if *before != NOWHERE => *before,
            _ => [pass, position],
        };
        self.link(records.iter().map(|(record, at)| (*record, [pass, *at], place(*at))).collect());
        self.next_pass()
    }

    /// At the leader, adds what a pass has found: own records, entries of the follower, and where these stood first.
    fn link(&mut self, found: Vec<(u32, Entry, Entry)>) {
        let Some(Several { seat: Seat::Leader { links, linked, .. }, .. }) = &mut self.several else { return };
        let counted = found.len() as u64;
        let mut kept: Vec<(u32, Entry, Entry)> =
            found.into_iter().filter(|(_, _, first)| !linked.contains(first)).collect();
        // Between two parties these alone would have been counted.
        if self.pass > 0 && (kept.len() as u64) < self.inputs.rules.min_pass {
            kept.clear();
        }
        if let Some(counts) = self.passes.last_mut() {
            counts.dropped = counted - kept.len() as u64;
        }
        for (record, entry, first) in kept {
            self.matched.set(record as usize);
            linked.insert(first);
            links.push(Link { record, entry });
        }
    }

    /// What follows behind the last pass.
    pub(super) fn behind_the_passes(&self) -> Result<Stage, Abort> {
        match &self.several {
            None => self.proving(),
            Some(_) => Ok(Stage::Common(Box::new(Common::new()))),
        }
    }

    /// Says the next of what tells a follower which of its records all have.
    pub(super) fn build_common(&mut self) -> Result<Match, Abort> {
        let nothing = || Abort::Bug("a match has nothing to say here".to_owned());
        let (pass, side) = (self.pass as u32, self.side());
        let draw = self.several.as_ref().and_then(|several| several.draw).ok_or_else(nothing)?;
        let Stage::Common(common) = &mut self.stage else { return Err(nothing()) };
        let told = common.told.as_ref().ok_or_else(nothing)?;
        if common.said < 2 {
            common.said += 1;
            return Ok(match common.said {
                1 => Match::Number(Number { what: NumberKind::Common, pass, number: common.count }),
                _ => Match::Draw(draw),
            });
        }
        let (first, count) = common.turns.due(side, PartKind::Common);
        common.turns.advance(side, count);
        let bytes = written(&told[first as usize..(first + count) as usize]);
        Ok(Match::Part(Part { what: PartKind::Common, pass, first, bytes }))
    }

    /// Takes in how many records all have: a gate of the follower's own.
    pub(super) fn absorb_common(&mut self, number: u64) -> Result<(), Refusal> {
        let (pass, leading, fewest, rows) =
            (self.pass as u32 + 1, self.leading_side(), self.min_matched, self.inputs.records.len());
        let counted = self.several.as_ref().map_or(0, |several| several.counted);
        let Stage::Common(common) = &mut self.stage else { return Err(Refusal::Kind) };
        if common.said != 0 {
            return Err(Refusal::Kind);
        }
        if number < fewest || number > counted {
            let expected = "one from `min_matched` to the matches of this pair";
            return Err(PeerFault::Match { pass, what: COMMON, expected }.into());
        }
        let mut totals = [0, 0];
        totals[leading] = number;
        (common.said, common.count, common.turns, common.seen) = (1, number, Turns::new(totals), Mask::new(rows));
        Ok(())
    }

    /// Takes in what the leader names the common order by.
    pub(super) fn absorb_name(&mut self, draw: [u8; 32]) -> Result<(), Refusal> {
        let Stage::Common(common) = &mut self.stage else { return Err(Refusal::Kind) };
        if common.said != 1 {
            return Err(Refusal::Kind);
        }
        common.said = 2;
        if let Some(several) = &mut self.several {
            several.draw = Some(draw);
        }
        Ok(())
    }

    /// Takes in which of the own records all have.
    pub(super) fn absorb_places(&mut self, entries: &[Entry]) -> Result<(), &'static str> {
        let Stage::Common(common) = &mut self.stage else { return Ok(()) };
        let Some(Several { seat: Seat::Follower { lists, .. }, common: found, .. }) = &mut self.several else {
            return Ok(());
        };
        for [pass, position] in entries {
            let revealed = self.passes.get(*pass as usize).is_some_and(|pass| pass.revealed);
            let list = lists.get(*pass as usize).filter(|_| revealed);
            let record = list.and_then(|list| list.get(*position as usize)).filter(|record| **record != NO_RECORD);
            let record = record.ok_or("places of own records")?;
            if common.seen.is_set(*record as usize) {
                return Err("each record once");
            }
            common.seen.set(*record as usize);
            found.push([*pass, *record]);
        }
        Ok(())
    }

    /// At the leader of several, what has to come of all others before this pair goes on.
    pub(in crate::methods::vertical) fn hold(&self) -> Option<Hold> {
        if !self.several.as_ref().is_some_and(Several::leads) {
            return None;
        }
        if let Stage::Count { said: 1, .. } = &self.stage
            && self.pass == 0
            && self.side() == 1
        {
            return Some(Hold::Counts);
        }
        if let Stage::Common(common) = &self.stage
            && common.told.is_none()
        {
            return Some(Hold::Links);
        }
        if let Stage::Agree(agreement) = &self.stage
            && agreement.is_at_its_last()
        {
            return Some(Hold::Proofs);
        }
        None
    }

    /// Whether the pair has as many matches in the first pass as all ask for.
    pub(in crate::methods::vertical) fn is_open(&self) -> bool {
        if let Stage::Count { lists, .. } = &self.stage { lists.theirs.count() >= self.min_matched } else { false }
    }

    /// The larger of both sides' demands.
    pub(in crate::methods::vertical) fn fewest(&self) -> u64 {
        self.min_matched
    }

    /// The name of the first pass.
    pub(in crate::methods::vertical) fn first_pass(&self) -> &str {
        &self.inputs.rules.keys.passes()[0].name
    }

    /// The leader's records that match, each with the follower's.
    pub(in crate::methods::vertical) fn links(&self) -> &[Link] {
        match &self.several {
            Some(Several { seat: Seat::Leader { links, .. }, .. }) => links,
            _ => &[],
        }
    }

    /// Has the follower told which of its records all have, in this order.
    pub(in crate::methods::vertical) fn tell(&mut self, draw: [u8; 32], links: &[Link]) {
        let leading = self.leading_side();
        let (Some(several), Stage::Common(common)) = (&mut self.several, &mut self.stage) else { return };
        several.draw = Some(draw);
        several.common = links.iter().map(|link| [link.entry[0], link.record]).collect();
        common.told = Some(links.iter().map(|link| link.entry).collect());
        common.count = links.len() as u64;
        let mut totals = [0, 0];
        totals[leading] = common.count;
        common.turns = Turns::new(totals);
    }

    /// What became of the passes with this follower.
    pub(in crate::methods::vertical) fn counts_with(&self) -> Vec<PassCounts> {
        self.passes.iter().cloned().map(|counts| PassCounts { with: Some(self.peer), ..counts }).collect()
    }
}
