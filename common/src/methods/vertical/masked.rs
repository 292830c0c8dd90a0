//! Both parties' columns behind masks, up to a share of their table at each of them.
//!
//! The script: the dealer sends each party its seed; row blocks to and fro, Alice's first; the dealer sends Bob the correction; Alice
//! sends her share of the canary. Then Bob, who has checked her canary, has a [`TableShare`], and Alice has [`Shares`] that wait for his
//! canary. What follows, and whose table opens to whom, is the matter of the fit. A sealed fit opens the table as it is; in a private one
//! each party releases its share with its noise, and nothing else of it leaves.

use std::ops::Range;

use super::message::{Body, Dealt, Masked, Share};
use crate::conversation::{Refusal, Step};
use crate::id::{Role, RunId};
use crate::methods::vertical::pair::Pair;
use crate::secure::masks::{Labels, Seed};
use crate::secure::product::{Blocks, Correction, Fault, Frame, Party, Shape, Shares, TableShare};
use crate::secure::ring::{Elements, ROWS, Width};
use crate::session::{Abort, Order, PeerFault};
use crate::study::{Study, Vertical};

/// Bytes of a message of row blocks, about: large enough that a slow line is busy, small beside a table of a million rows.
const MESSAGE_BYTES: usize = 16 << 20;

const MASKED: &str = "masked columns";

/// The place in the script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Seed,
    /// Row blocks from a given one on; Alice's come first.
    Masked {
        first: usize,
        from: Role,
    },
    /// At Bob only.
    Correction,
    /// Alice's share of the canary.
    Canary,
    Over,
}

/// One party's end of the exchange.
pub(super) struct MaskedTable {
    pair: Pair,
    shape: Shape,
    labels: Labels,
    seed: Option<Seed>,
    place: Place,
    order: Option<Order>,
    party: Option<Party>,
    /// Own row blocks of the next message, hidden ahead of its turn: the number of the first, and their elements.
    ready: Option<(usize, Elements)>,
    /// The peer's row blocks that came last and are not multiplied yet.
    came: Vec<Frame>,
    /// All of the peer's row blocks, where further products with them follow.
    received: Option<Vec<Frame>>,
    shares: Option<Shares>,
    share: Option<TableShare>,
    /// Whether the exchange was made by a process that is gone, and what came of it is kept: then only the turns are counted.
    past: bool,
}

/// What further products with the columns of a table need.
pub(super) struct Kept {
    pub(super) labels: Labels,
    pub(super) seed: Seed,
    /// The peer's row blocks.
    pub(super) received: Vec<Frame>,
}

impl MaskedTable {
    pub(super) fn new(pair: Pair, study: &Study<Vertical>, run: RunId, shape: Shape) -> MaskedTable {
        MaskedTable {
            pair,
            shape,
            labels: Labels::new(study.digest(), run),
            seed: None,
            place: Place::Seed,
            order: Some(Order::Table(shape)),
            party: None,
            ready: None,
            came: Vec::new(),
            received: None,
            shares: None,
            share: None,
            past: false,
        }
    }

    /// The exchange of a run that is taken up again where its share was stored: nothing is ordered, nothing is hidden, and the messages
    /// that passed are counted alone.
    pub(super) fn of_the_past(pair: Pair, study: &Study<Vertical>, run: RunId, shape: Shape) -> MaskedTable {
        let place = Place::Masked { first: 0, from: pair.first() };
        MaskedTable { place, order: None, past: true, ..MaskedTable::new(pair, study, run, shape) }
    }

    /// The exchange of a further table of the same run, once all of this one is said.
    pub(super) fn following(self, shape: Shape) -> Result<MaskedTable, Abort> {
        let MaskedTable { pair, mut labels, seed, .. } = self;
        let seed = seed.filter(|_| self.place == Place::Over).ok_or_else(out_of_order)?;
        let party = Some(Party::new(shape, pair.half(), &seed, &mut labels));
        Ok(MaskedTable {
            pair,
            shape,
            labels,
            seed: Some(seed),
            place: Place::Masked { first: 0, from: pair.first() },
            order: Some(Order::Table(shape)),
            party,
            ready: None,
            came: Vec::new(),
            received: None,
            shares: None,
            share: None,
            past: false,
        })
    }

    /// Whether the exchange was made by a process that is gone.
    pub(super) fn is_of_the_past(&self) -> bool {
        self.past
    }

    /// The same, with all that further products with the columns need.
    pub(super) fn keeping(self) -> MaskedTable {
        MaskedTable { received: Some(Vec::with_capacity(self.shape.blocks())), ..self }
    }

    /// What was kept, once all is said.
    pub(super) fn kept(self) -> Result<Kept, Abort> {
        match (self.seed, self.received) {
            (Some(seed), Some(received)) if self.place == Place::Over => {
                Ok(Kept { labels: self.labels, seed, received })
            }
            _ => Err(out_of_order()),
        }
    }

    /// What is to be ordered from the dealer, once.
    pub(super) fn order(&mut self) -> Option<Order> {
        self.order.take()
    }

    /// Whether the dealer has not answered yet.
    pub(super) fn waits_for_dealer(&self) -> bool {
        self.place == Place::Seed
    }

    /// What is said next; none once all is said.
    pub(super) fn step(&self) -> Option<Step> {
        let (speaker, expected) = match self.place {
            Place::Seed => (Role::Coordinator, "the seed of masks"),
            Place::Masked { from, .. } => (from, MASKED),
            Place::Correction => (Role::Coordinator, "a correction"),
            Place::Canary => (self.pair.first(), "the share of a canary"),
            Place::Over => return None,
        };
        Some(Step { speaker, expected })
    }

    /// Builds the message of the present place, and moves on. `own` is the own block, with the outcome behind Alice's columns.
    pub(super) fn build(&mut self, own: &impl Blocks) -> Result<Body, Abort> {
        match self.place {
            // The message has passed: what is built here leaves no more.
            Place::Masked { .. } | Place::Canary if self.past => {
                self.count_on();
                Ok(Body::Go)
            }
            Place::Masked { first, .. } => {
                let entries = self.hide(first, own)?;
                self.after_masked();
                Ok(Body::Masked(Masked { first: first as u64, entries }))
            }
            Place::Canary => {
                self.multiply(own)?;
                let party = self.party.take().ok_or_else(out_of_order)?;
                let shares = party.finish(None).map_err(own_fault)?;
                let canary = shares.canary().clone();
                self.shares = Some(shares);
                self.place = Place::Over;
                Ok(Body::Share(Share { canary, table: None }))
            }
            Place::Seed | Place::Correction | Place::Over => Err(out_of_order()),
        }
    }

    /// Takes what was said at the present place, and moves on.
    pub(super) fn absorb(&mut self, body: Body, own: &impl Blocks) -> Result<(), Refusal> {
        match (self.place, body) {
            (Place::Masked { .. } | Place::Canary, Body::Go) if self.past => self.count_on(),
            (Place::Seed, Body::Dealt(Dealt::Seed(seed))) => {
                let seed = Seed::new(seed);
                self.party = Some(Party::new(self.shape, self.pair.half(), &seed, &mut self.labels));
                self.seed = Some(seed);
                self.place = Place::Masked { first: 0, from: self.pair.first() };
            }
            (Place::Masked { first, .. }, Body::Masked(masked)) => {
                self.take(first, &masked, own)?;
                self.after_masked();
            }
            (Place::Correction, Body::Dealt(Dealt::Correction(correction))) => {
                self.multiply(own)?;
                let party = self.party.take().ok_or_else(out_of_order)?;
                self.shares = Some(party.finish(Some(&Correction(correction))).map_err(peer_fault)?);
                self.place = Place::Canary;
            }
            (Place::Canary, Body::Share(Share { canary, table: None })) => {
                let shares = self.shares.take().ok_or_else(out_of_order)?;
                self.share = Some(shares.check(&canary).map_err(peer_fault)?);
                self.place = Place::Over;
            }
            _ => return Err(Refusal::Kind),
        }
        Ok(())
    }

    /// Multiplies what came, and hides the own row blocks of the next message.
    pub(super) fn go_ahead(&mut self, own: &impl Blocks) -> Result<(), Abort> {
        self.multiply(own)?;
        let Place::Masked { first, from } = self.place else { return Ok(()) };
        if self.past {
            return Ok(());
        }
        // Of the two messages with the same row blocks Alice's comes first.
        let next = if self.pair.leads() && from == self.pair.second() { self.blocks(first).end } else { first };
        let hidden = self.ready.is_some() || next >= self.shape.blocks() || self.party.is_none();
        if !hidden {
            let entries = self.hide(next, own)?;
            self.ready = Some((next, entries));
        }
        Ok(())
    }

    /// At Alice: her shares, which wait for Bob's canary.
    pub(super) fn take_shares(&mut self) -> Result<Shares, Abort> {
        self.shares.take().ok_or_else(out_of_order)
    }

    /// At Bob: his share, whose canary is checked.
    pub(super) fn take_share(&mut self) -> Result<TableShare, Abort> {
        self.share.take().ok_or_else(out_of_order)
    }

    /// Row blocks to a message: the same for both parties, so that they take turns.
    fn batch(&self) -> usize {
        let columns = 1 + self.shape.left.max(self.shape.right);
        (MESSAGE_BYTES / (ROWS * columns * self.shape.width.bytes())).max(1)
    }

    /// The row blocks of a message.
    fn blocks(&self, first: usize) -> Range<usize> {
        first..self.shape.blocks().min(first + self.batch())
    }

    fn after_masked(&mut self) {
        let Place::Masked { first, from } = self.place else { return };
        let next = self.blocks(first).end;
        self.place = match (from == self.pair.first(), next < self.shape.blocks()) {
            (true, _) => Place::Masked { first, from: self.pair.second() },
            (false, true) => Place::Masked { first: next, from: self.pair.first() },
            (false, false) if !self.pair.leads() => Place::Correction,
            (false, false) => Place::Canary,
        };
    }

    /// Moves on without a message, where the exchange is one of the past.
    fn count_on(&mut self) {
        match self.place {
            Place::Masked { .. } => self.after_masked(),
            Place::Seed | Place::Correction | Place::Canary | Place::Over => self.place = Place::Over,
        }
        if self.place == Place::Correction {
            self.place = Place::Canary;
        }
    }

    /// The own row blocks of a message behind their mask.
    fn hide(&mut self, first: usize, own: &impl Blocks) -> Result<Elements, Abort> {
        if let Some((_, entries)) = self.ready.take().filter(|(of, _)| *of == first) {
            return Ok(entries);
        }
        let count = self.blocks(first).len();
        let party = self.party.as_mut().ok_or_else(out_of_order)?;
        party.hide_blocks(own, count).map_err(own_fault)?.ok_or_else(out_of_order)
    }

    /// The peer's row blocks of a message, which are multiplied later.
    fn take(&mut self, first: usize, masked: &Masked, own: &impl Blocks) -> Result<(), Refusal> {
        self.multiply(own)?;
        let (side, shape) = (self.pair.half().other(), self.shape);
        let size = |block| shape.frame(side, block);
        self.came = frames(MASKED, masked.first, &masked.entries, self.blocks(first), shape.width, size)?;
        Ok(())
    }

    /// Multiplies what came last of the peer's row blocks; sizes and order were checked when they came.
    fn multiply(&mut self, own: &impl Blocks) -> Result<(), Abort> {
        if self.came.is_empty() {
            return Ok(());
        }
        let party = self.party.as_mut().ok_or_else(out_of_order)?;
        let came = std::mem::take(&mut self.came);
        party.take_blocks(&came, own).map_err(own_fault)?;
        if let Some(received) = &mut self.received {
            received.extend(came);
        }
        Ok(())
    }
}

/// The entries of a message, cut into the row blocks that are expected.
///
/// # Errors
/// The message begins at another row block, or has another length or width.
pub(super) fn frames(
    what: &'static str,
    first: u64,
    entries: &Elements,
    blocks: Range<usize>,
    width: Width,
    size: impl Fn(usize) -> usize,
) -> Result<Vec<Frame>, PeerFault> {
    fitting(what, first, entries, blocks.clone(), width, &size)?;
    let mut at = 0;
    let frame = |block: usize| {
        let begin = at;
        at += size(block);
        Frame { block: block as u64, entries: entries.slice(begin..at) }
    };
    Ok(blocks.map(frame).collect())
}

/// That the entries of a message are those of the row blocks that are expected.
///
/// # Errors
/// The message begins at another row block, or has another length or width.
pub(super) fn fitting(
    what: &'static str,
    first: u64,
    entries: &Elements,
    blocks: Range<usize>,
    width: Width,
    size: impl Fn(usize) -> usize,
) -> Result<(), PeerFault> {
    if first != blocks.start as u64 {
        return Err(peer_fault(Fault::Order { came: first, expected: blocks.start as u64 }));
    }
    let expected: usize = blocks.map(size).sum();
    match entries.count() == expected && entries.width() == width {
        true => Ok(()),
        false => Err(length(what, entries.count(), expected)),
    }
}

pub(super) fn out_of_order() -> Abort {
    Abort::Bug("a step of a fit behind masks was taken out of order".to_string())
}

/// A fault of the own side.
pub(super) fn own_fault(fault: Fault) -> Abort {
    match fault {
        Fault::OwnValue => Abort::OwnData(format!("{fault}; look for values of very different size")),
        Fault::Ring { .. }
        | Fault::Order { .. }
        | Fault::Early { .. }
        | Fault::Correction
        | Fault::OutOfStep
        | Fault::Bound => Abort::Bug(fault.to_string()),
    }
}

/// A fault of the side that spoke.
pub(super) fn peer_fault(fault: Fault) -> PeerFault {
    PeerFault::Sealed(fault.to_string())
}

pub(super) fn length(what: &'static str, came: usize, expected: usize) -> PeerFault {
    PeerFault::Length { what, came: came as u64, expected: expected as u64 }
}
