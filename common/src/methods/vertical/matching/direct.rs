//! One pass of a match between the parties.

use super::lists::{self, Own, Theirs};
use super::message::{Part, PartKind};
use super::{MatchScript, Place, Stage, several};
use crate::conversation::Refusal;
use crate::data::matching::{Eligible, OwnCounts};
use crate::secure::group::{self, Scalar, TagContext};
use crate::session::{Abort, PeerFault};

/// What a pass computes.
pub(super) struct Lists {
    /// Until the own list is made.
    pub(super) eligible: Option<Eligible>,
    pub(super) counts: OwnCounts,
    pub(super) sizes: [u64; 2],
    pub(super) scalar: Scalar,
    pub(super) context: TagContext,
    /// For the own list.
    room: Vec<(group::Element, u32)>,
    pub(super) own: Option<Own>,
    pub(super) theirs: Theirs,
}

impl Lists {
    /// Makes the own list, unless that was done before.
    pub(super) fn prepare(&mut self, place: &Place<'_>) -> &mut Own {
        let (eligible, room) = (&mut self.eligible, &mut self.room);
        let (scalar, length) = (&self.scalar, self.sizes[place.side]);
        self.own.get_or_insert_with(|| {
            let records = eligible.take().map(|eligible| eligible.records).unwrap_or_default();
            let pass = &place.inputs.rules.keys.passes()[place.pass];
            let messages = place.inputs.records.messages(pass, &place.inputs.match_digest);
            let (secret, run, pass) = (place.secret, place.run, place.pass as u32);
            let padded = |number| group::padding(secret, run, pass, number);
            Own::mask(records, std::mem::take(room), length, scalar, &messages, padded)
        })
    }

    /// Computes what is still to be computed of the peer's list.
    pub(super) fn tags(&mut self, pass: usize) -> Result<(), PeerFault> {
        self.theirs.work(&self.scalar, &self.context).map_err(|expected| fault(pass, PartKind::Masked, expected))
    }

    /// The same once all of it has come.
    pub(super) fn sorted(&mut self, pass: usize) -> Result<(), PeerFault> {
        self.tags(pass)?;
        self.theirs.sort().map_err(|expected| fault(pass, PartKind::Masked, expected))
    }
}

fn fault(pass: usize, what: PartKind, expected: &'static str) -> PeerFault {
    PeerFault::Match { pass: pass as u32 + 1, what: what.name(), expected }
}

impl MatchScript {
    pub(super) fn lists(&mut self, eligible: Eligible, peer: u64) -> Result<Lists, Abort> {
        let own = self.length(self.role, eligible.counts.eligible);
        let sizes = if self.side() == 0 { [own, peer] } else { [peer, own] };
        if let Some(several) = &mut self.several {
            several.entries = several.entries.max(own.saturating_add(peer));
        }
        let scalar = self.scalar(self.pass as u32)?;
        let context = TagContext::new(&self.run, &self.inputs.rules.keys.passes()[self.pass].name);
        let counts = eligible.counts;
        let (room, tags) = lists::room(own, peer).map_err(|megabytes| {
            // Not a sentence for the coordinator, as it has numbers of records.
            Abort::OwnData(format!(
                "a match of {own} records with {peer} takes {megabytes} MiB of memory, more than there is"
            ))
        })?;
        let theirs = Theirs::new(tags);
        Ok(Lists { eligible: Some(eligible), counts, sizes, scalar, context, room, own: None, theirs })
    }

    /// Takes in a part of a list, once it is known that one is due.
    pub(super) fn absorb_part(&mut self, part: Part) -> Result<(), Refusal> {
        let (pass, theirs) = (self.pass, 1 - self.side());
        let what = part.what;
        let turns = match (&mut self.stage, what) {
            (Stage::Masked { turns, .. }, PartKind::Masked)
            | (Stage::Doubled { turns, .. }, PartKind::Doubled)
            | (Stage::Reveal { turns, .. }, PartKind::Reveal)
            | (Stage::Same { turns, .. }, PartKind::Same) => turns,
            (Stage::Common(common), PartKind::Common) => common.turns().ok_or(Refusal::Kind)?,
            _ => return Err(Refusal::Kind),
        };
        let (first, count) = turns.due(theirs, what);
        if (part.pass as usize, part.first) != (pass, first) {
            return Err(fault(pass, what, "the part that follows").into());
        }
        let came = part.bytes.len() as u64;
        if came != count * what.unit() as u64 {
            return Err(
                PeerFault::Length { what: what.name(), came: came / what.unit() as u64, expected: count }.into()
            );
        }
        turns.advance(theirs, count);
        let taken = match &mut self.stage {
            Stage::Masked { lists, .. } => {
                lists.tags(pass)?;
                lists.theirs.take(first, part.bytes.as_chunks().0.to_vec())
            }
            Stage::Doubled { lists, .. } => {
                lists.sorted(pass)?;
                lists.theirs.compare(part.bytes.as_chunks().0)
            }
            Stage::Reveal { lists, revealed, .. } => {
                let positions: Vec<u32> =
                    part.bytes.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
                lists.own.as_ref().map_or(Ok(()), |own| revealed.take(own, &positions))
            }
            Stage::Same { before, .. } => {
                before.extend(several::entries(&part.bytes));
                Ok(())
            }
            Stage::Common(_) => self.absorb_places(&several::entries(&part.bytes)),
            Stage::Terms { .. }
            | Stage::Draw { .. }
            | Stage::Size { .. }
            | Stage::Merge(_)
            | Stage::Merged { .. }
            | Stage::Positions(_)
            | Stage::Count { .. }
            | Stage::Closed
            | Stage::Agree(_)
            | Stage::Over
            | Stage::Moving => Ok(()),
        };
        taken.map_err(|expected| fault(pass, what, expected).into())
    }
}
