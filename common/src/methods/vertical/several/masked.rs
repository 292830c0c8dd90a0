//! Blocks of several parties behind masks, up to every party's shares of its tables.
//!
//! The script of another party than the leader: the dealer sends its seed; row blocks behind its mask to the leader, and from the leader
//! those of all others, which are uniform for both; the dealer sends the correction; its shares of the products of public columns, and
//! from the leader those of the others with its own. Then it has shares of the tables. What follows, and with which noise they leave, is
//! the matter of the fit. The leader's end is [`Relay`].

use std::ops::Range;

use crate::conversation::{Refusal, Step};
use crate::id::{Role, RunId};
use crate::secure::masks::{Labels, Seed};
use crate::secure::product::{Blocks, Frame, SeveralParty, SeveralShape, SeveralShares, SeveralTables};
use crate::secure::ring::{Elements, ROWS};
use crate::session::{Abort, Order};
use crate::study::{Study, Vertical};

use super::super::masked::{frames, out_of_order, own_fault, peer_fault};
use super::super::message::{Body, Dealt, Masked, Share};
use super::{Advance, Lines};

/// Bytes of a message of row blocks, about, as between two.
const MESSAGE_BYTES: usize = 16 << 20;

const MASKED: &str = "masked columns";

/// One party's part.
struct Tables {
    shape: SeveralShape,
    place: usize,
    labels: Labels,
    order: Option<Order>,
    party: Option<SeveralParty>,
    /// Own row blocks of the next message, hidden ahead of its turn.
    ready: Option<(usize, Vec<Frame>)>,
    /// Row blocks of the others that came last and are not multiplied yet.
    came: Vec<Frame>,
}

impl Tables {
    fn new(study: &Study<Vertical>, run: RunId, shape: SeveralShape, place: usize) -> Tables {
        Tables {
            shape,
            place,
            labels: Labels::new(study.digest(), run),
            order: Some(Order::Several(shape, place)),
            party: None,
            ready: None,
            came: Vec::new(),
        }
    }

    fn begin(&mut self, seed: [u8; 32]) {
        self.party = Some(SeveralParty::new(self.shape, self.place, &Seed::new(seed), &mut self.labels));
    }

    /// The row blocks of a message: the same for all parties.
    fn blocks(&self, first: usize) -> Range<usize> {
        let batch = MESSAGE_BYTES / (ROWS * self.shape.all() * self.shape.width.bytes());
        first..self.shape.blocks().min(first + batch.max(1))
    }

    /// The own row blocks of a message behind their mask.
    fn hide(&mut self, first: usize, own: &impl Blocks) -> Result<Vec<Frame>, Abort> {
        if let Some((_, frames)) = self.ready.take().filter(|(of, _)| *of == first) {
            return Ok(frames);
        }
        let count = self.blocks(first).len();
        self.party.as_mut().ok_or_else(out_of_order)?.hide_blocks(own, count).map_err(own_fault)
    }

    fn hide_ahead(&mut self, first: usize, own: &impl Blocks) -> Result<(), Abort> {
        if self.ready.is_none() && first < self.shape.blocks() && self.party.is_some() {
            self.ready = Some((first, self.hide(first, own)?));
        }
        Ok(())
    }

    /// Multiplies what came last; sizes and order were checked when it came.
    fn multiply(&mut self) -> Result<(), Abort> {
        let came = std::mem::take(&mut self.came);
        if came.is_empty() {
            return Ok(());
        }
        self.party.as_mut().ok_or_else(out_of_order)?.take_blocks(&came).map_err(own_fault)
    }

    fn joined(&self, frames: &[Frame]) -> Result<Elements, Abort> {
        let entries = frames.iter().map(|frame| &frame.entries);
        Elements::concat(self.shape.width, entries).map_err(|error| Abort::Bug(error.to_string()))
    }
}

/// The place in the script of another party than the leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Seed,
    /// Own row blocks from a given one on.
    Own(usize),
    /// Those of all others.
    Others(usize),
    Correction,
    /// Own shares of the canaries.
    Canary,
    /// The others' with the own one.
    Canaries,
    Over,
}

/// The end of another party than the leader.
pub(in super::super) struct Exchange {
    role: Role,
    leader: Role,
    tables: Tables,
    place: Place,
    shares: Option<SeveralShares>,
    checked: Option<SeveralTables>,
}

impl Exchange {
    pub(in super::super) fn new(
        (role, leader): (Role, Role),
        study: &Study<Vertical>,
        run: RunId,
        (shape, place): (SeveralShape, usize),
    ) -> Exchange {
        let tables = Tables::new(study, run, shape, place);
        Exchange { role, leader, tables, place: Place::Seed, shares: None, checked: None }
    }

    pub(in super::super) fn order(&mut self) -> Option<Order> {
        self.tables.order.take()
    }

    pub(in super::super) fn waits_for_dealer(&self) -> bool {
        self.place == Place::Seed
    }

    /// What is said next; none once all is said.
    pub(in super::super) fn step(&self) -> Option<Step> {
        let (speaker, expected) = match self.place {
            Place::Seed => (Role::Coordinator, "the seed of masks"),
            Place::Own(_) => (self.role, MASKED),
            Place::Others(_) => (self.leader, MASKED),
            Place::Correction => (Role::Coordinator, "a correction"),
            Place::Canary => (self.role, "shares of canaries"),
            Place::Canaries => (self.leader, "shares of canaries"),
            Place::Over => return None,
        };
        Some(Step { speaker, expected })
    }

    pub(in super::super) fn build(&mut self, own: &impl Blocks) -> Result<Body, Abort> {
        match self.place {
            Place::Own(first) => {
                let frames = self.tables.hide(first, own)?;
                self.place = Place::Others(first);
                Ok(Body::Masked(Masked { first: first as u64, entries: self.tables.joined(&frames)? }))
            }
            Place::Canary => {
                let canary = self.shares.as_ref().ok_or_else(out_of_order)?.canary().clone();
                self.place = Place::Canaries;
                Ok(Body::Share(Share { canary, table: None }))
            }
            Place::Seed | Place::Others(_) | Place::Correction | Place::Canaries | Place::Over => Err(out_of_order()),
        }
    }

    pub(in super::super) fn absorb(&mut self, body: Body) -> Result<(), Refusal> {
        match (self.place, body) {
            (Place::Seed, Body::Dealt(Dealt::Seed(seed))) => {
                self.tables.begin(seed);
                self.place = Place::Own(0);
            }
            (Place::Others(first), Body::Masked(masked)) => {
                self.tables.multiply()?;
                let (shape, place, blocks) = (self.tables.shape, self.tables.place, self.tables.blocks(first));
                let next = blocks.end;
                let size = |block| shape.others(place, block);
                self.tables.came = frames(MASKED, masked.first, &masked.entries, blocks, shape.width, size)?;
                self.place = if next < shape.blocks() { Place::Own(next) } else { Place::Correction };
            }
            (Place::Correction, Body::Dealt(Dealt::Correction(correction))) => {
                self.tables.multiply()?;
                let party = self.tables.party.take().ok_or_else(out_of_order)?;
                self.shares = Some(party.finish(Some(&correction)).map_err(peer_fault)?);
                self.place = Place::Canary;
            }
            (Place::Canaries, Body::Share(Share { canary, table: None })) => {
                let shares = self.shares.take().ok_or_else(out_of_order)?;
                self.checked = Some(shares.check(&canary).map_err(peer_fault)?);
                self.place = Place::Over;
            }
            _ => return Err(Refusal::Kind),
        }
        Ok(())
    }

    /// Multiplies what came, and hides the own row blocks of the next message.
    pub(in super::super) fn go_ahead(&mut self, own: &impl Blocks) -> Result<(), Abort> {
        self.tables.multiply()?;
        match self.place {
            Place::Own(first) => self.tables.hide_ahead(first, own),
            Place::Others(first) => {
                let next = self.tables.blocks(first).end;
                self.tables.hide_ahead(next, own)
            }
            Place::Seed | Place::Correction | Place::Canary | Place::Canaries | Place::Over => Ok(()),
        }
    }

    /// The shares, whose canaries were right.
    pub(in super::super) fn take_shares(&mut self) -> Result<SeveralTables, Abort> {
        self.checked.take().ok_or_else(out_of_order)
    }
}

/// The leader's end: it passes on the row blocks of all, and multiplies its own with them.
pub(super) struct Relay {
    tables: Tables,
    place: At,
}

#[derive(Clone, Copy)]
enum At {
    /// Row blocks from a given one on.
    Rows(usize),
    Canaries,
}

impl Relay {
    pub(super) fn new(study: &Study<Vertical>, run: RunId, shape: SeveralShape) -> Relay {
        Relay { tables: Tables::new(study, run, shape, 0), place: At::Rows(0) }
    }

    pub(super) fn order(&mut self) -> Option<Order> {
        self.tables.order.take()
    }

    /// Takes what the dealer sent.
    pub(super) fn hear(&mut self, dealt: Dealt) -> Result<(), Refusal> {
        match dealt {
            Dealt::Seed(seed) if self.tables.party.is_none() => {
                self.tables.begin(seed);
                Ok(())
            }
            Dealt::Seed(_) | Dealt::Correction(_) | Dealt::Rows(..) => Err(Refusal::Kind),
        }
    }

    pub(super) fn waits_for_dealer(&self) -> bool {
        self.tables.party.is_none()
    }

    /// Takes one step; over once the leader has shares whose canaries were right, and the others what they check theirs with.
    pub(super) fn advance(&mut self, lines: &mut Lines, own: &impl Blocks) -> Result<Advance<SeveralTables>, Abort> {
        if self.waits_for_dealer() {
            return Ok(Advance::Waits);
        }
        match self.place {
            At::Rows(first) => self.rows(lines, own, first),
            At::Canaries => self.canaries(lines),
        }
    }

    /// Row blocks of all, and to each those of all others.
    fn rows(&mut self, lines: &mut Lines, own: &impl Blocks, first: usize) -> Result<Advance<SeveralTables>, Abort> {
        let (shape, blocks) = (self.tables.shape, self.tables.blocks(first));
        self.tables.hide_ahead(first, own)?;
        let Some(bodies) = lines.heard() else {
            lines.await_all(MASKED);
            return Ok(Advance::Waits);
        };
        let mut all = vec![self.tables.hide(first, own)?];
        for (at, (line, body)) in lines.0.iter().zip(bodies).enumerate() {
            let Body::Masked(masked) = body else { return Err(line.said_instead(&body, MASKED)) };
            let size = |block| shape.frame(at + 1, block);
            let came = frames(MASKED, masked.first, &masked.entries, blocks.clone(), shape.width, size);
            all.push(came.map_err(|fault| line.broke(fault))?);
        }
        let next = blocks.end;
        for (at, line) in lines.0.iter_mut().enumerate() {
            let entries = self.tables.joined(&others(&shape, &all, at + 1)?)?;
            line.leg().say(Body::Masked(Masked { first: first as u64, entries }));
        }
        let is_last = next == shape.blocks();
        lines.await_all(if is_last { "shares of canaries" } else { MASKED });
        self.tables.came = others(&shape, &all, 0)?;
        drop(all);
        self.tables.multiply()?;
        self.place = if is_last { At::Canaries } else { At::Rows(next) };
        Ok(Advance::Taken)
    }

    /// Shares of canaries of all, and to each those of the others with its own.
    fn canaries(&mut self, lines: &mut Lines) -> Result<Advance<SeveralTables>, Abort> {
        let Some(bodies) = lines.heard() else { return Ok(Advance::Waits) };
        let shape = self.tables.shape;
        let party = self.tables.party.take().ok_or_else(out_of_order)?;
        let shares = party.finish(None).map_err(own_fault)?;
        let mut all = vec![shares.canary().clone()];
        for (line, body) in lines.0.iter().zip(bodies) {
            let Body::Share(Share { canary, table: None }) = body else {
                return Err(line.said_instead(&body, "shares of canaries"));
            };
            if canary.width() != shape.width || canary.count() != shape.columns().len() - 1 {
                let fault =
                    super::super::masked::length("shares of canaries", canary.count(), shape.columns().len() - 1);
                return Err(line.broke(fault));
            }
            all.push(canary);
        }
        let with = |place: usize| {
            let of = |other: usize| {
                let at = if place < other { place } else { place - 1 };
                all[other].slice(at..at + 1)
            };
            let parts: Vec<Elements> = shape.partners(place).map(of).collect();
            Elements::concat(shape.width, parts.iter()).map_err(|error| Abort::Bug(error.to_string()))
        };
        let theirs = with(0)?;
        let stray = shares.stray(&theirs).and_then(|place| lines.0.get(place.checked_sub(1)?));
        let checked = shares.check(&theirs).map_err(|fault| match stray {
            Some(line) => line.broke(peer_fault(fault)),
            None => own_fault(fault),
        })?;
        for (at, line) in lines.0.iter_mut().enumerate() {
            let canary = with(at + 1)?;
            line.leg().say(Body::Share(Share { canary, table: None }));
        }
        Ok(Advance::Over(checked))
    }
}

/// Row blocks of all parties but one, each row block with all of them beside each other.
fn others(shape: &SeveralShape, all: &[Vec<Frame>], but: usize) -> Result<Vec<Frame>, Abort> {
    let block = |at: usize| {
        let parts = shape.partners(but).filter_map(|party| all.get(party)?.get(at));
        let number = all.first().and_then(|own| own.get(at)).map_or(0, |frame| frame.block);
        let entries = Elements::concat(shape.width, parts.map(|frame| &frame.entries));
        Ok(Frame { block: number, entries: entries.map_err(|error| Abort::Bug(error.to_string()))? })
    };
    (0..all.first().map_or(0, Vec::len)).map(block).collect()
}
