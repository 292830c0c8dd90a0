//! Products with the columns of a table, message by message: which side speaks next, and what comes of what it says.
//!
//! Row blocks go to and fro in messages of a few blocks, Alice's first. A party that is dealt corrections of row blocks takes those of a
//! message once both parties' row blocks have passed, so that neither waits for a dealer that is slower than the line.

use std::ops::Range;

use crate::conversation::{Refusal, Step};
use crate::id::Role;
use crate::methods::vertical::masked::{length, out_of_order, own_fault, peer_fault, side};
use crate::methods::vertical::message::{Body, Dealt, Product, ProductKind};
use crate::secure::masks::{Labels, Seed};
use crate::secure::product::{
    Blocks, Canary, Fault, Frame, OwnMask, RowParty, RowShape, Rows, Side, VectorParty, VectorShape, VectorShare,
    WeightedParty, WeightedShape, WeightedShare,
};
use crate::secure::ring::{Elements, Width, row_block};
use crate::session::Abort;

const ROWS: &str = "masked rows of a product";
const CORRECTIONS: &str = "corrections of rows";
const LAST: &str = "the correction of a product";

/// A column of ones.
pub(super) struct Ones(pub(super) usize);

impl Blocks for Ones {
    fn rows(&self) -> usize {
        self.0
    }

    fn columns(&self) -> usize {
        1
    }

    fn fill(&self, rows: Range<usize>, out: &mut Vec<f64>) {
        out.resize(out.len() + rows.len(), 1.0);
    }
}

/// Whose row blocks come next.
#[derive(Debug, Clone, Copy)]
struct Turns {
    blocks: usize,
    batch: usize,
    first: usize,
}

impl Turns {
    fn range(&self) -> Range<usize> {
        self.first..self.blocks.min(self.first + self.batch)
    }

    /// To the next message; false after the last.
    fn pass(&mut self) -> bool {
        self.first = self.range().end;
        self.first < self.blocks
    }
}

/// The head of a message of a product.
fn rows_message(number: u32, first: usize, width: Width, frames: &[Frame]) -> Result<Body, Abort> {
    let entries = Elements::concat(width, frames.iter().map(|frame| &frame.entries));
    let entries = entries.map_err(|error| Abort::Bug(error.to_string()))?;
    Ok(Body::Product(Product { number, what: ProductKind::Rows, first: first as u64, entries }))
}

/// The entries of a message of this product and of these row blocks, cut into them.
fn cut(
    number: u32,
    body: Body,
    blocks: Range<usize>,
    width: Width,
    size: impl Fn(usize) -> usize,
) -> Result<Vec<Frame>, Refusal> {
    let Body::Product(Product { number: came, what: ProductKind::Rows, first, entries }) = body else {
        return Err(Refusal::Kind);
    };
    of_product(number, came)?;
    frames(first, &entries, blocks, width, size)
}

/// That a message belongs to this product.
pub(super) fn of_product(number: u32, came: u32) -> Result<(), Refusal> {
    match came == number {
        true => Ok(()),
        false => Err(peer_fault(Fault::Order { came: came.into(), expected: number.into() }).into()),
    }
}

fn frames(
    first: u64,
    entries: &Elements,
    blocks: Range<usize>,
    width: Width,
    size: impl Fn(usize) -> usize,
) -> Result<Vec<Frame>, Refusal> {
    if first != blocks.start as u64 {
        return Err(peer_fault(Fault::Order { came: first, expected: blocks.start as u64 }).into());
    }
    let expected: usize = blocks.clone().map(&size).sum();
    if entries.count() != expected || entries.width() != width {
        return Err(length(ROWS, entries.count(), expected).into());
    }
    let mut at = 0;
    let frame = |block: usize| {
        let begin = at;
        at += size(block);
        Frame { block: block as u64, entries: entries.slice(begin..at) }
    };
    Ok(blocks.map(frame).collect())
}

/// Corrections of the row blocks of a message.
fn corrections(
    body: Body,
    blocks: Range<usize>,
    width: Width,
    size: impl Fn(usize) -> usize,
) -> Result<Vec<Frame>, Refusal> {
    let Body::Dealt(Dealt::Rows(first, entries)) = body else { return Err(Refusal::Kind) };
    frames(first, &entries, blocks, width, size)
}

/// Which message of a batch is next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Alice,
    Bob,
    /// At a party that is dealt corrections of row blocks.
    Corrections,
    /// The weighted block of the side with fewer columns.
    Cross,
    /// At Bob, where a product has a correction of its own.
    Last,
    Over,
}

fn speaker(place: Place, sender: Role) -> Option<Step> {
    let (speaker, expected) = match place {
        Place::Alice => (Role::Alice, ROWS),
        Place::Bob => (Role::Bob, ROWS),
        Place::Corrections => (Role::Coordinator, CORRECTIONS),
        Place::Cross => (sender, ROWS),
        Place::Last => (Role::Coordinator, LAST),
        Place::Over => return None,
    };
    Some(Step { speaker, expected })
}

fn role(side: Side) -> Role {
    match side {
        Side::Left => Role::Alice,
        Side::Right => Role::Bob,
    }
}

/// Products within rows.
pub(super) struct RowExchange {
    role: Role,
    number: u32,
    shape: RowShape,
    party: RowParty,
    turns: Turns,
    place: Place,
    /// The peer's row blocks that wait for their corrections.
    came: Vec<Frame>,
    shares: Vec<Elements>,
}

impl RowExchange {
    pub(super) fn new(role: Role, number: u32, shape: RowShape, seed: &Seed, labels: &mut Labels) -> RowExchange {
        RowExchange {
            role,
            number,
            shape,
            party: RowParty::new(shape, side(role), seed, labels),
            turns: Turns { blocks: shape.blocks(), batch: shape.batch(), first: 0 },
            place: Place::Alice,
            came: Vec::new(),
            shares: Vec::with_capacity(shape.blocks()),
        }
    }

    pub(super) fn step(&self) -> Option<Step> {
        speaker(self.place, self.role)
    }

    pub(super) fn build(&mut self, own: &impl Blocks) -> Result<Body, Abort> {
        let range = self.turns.range();
        let frames = self.party.hide_blocks(own, range.len()).map_err(own_fault)?;
        self.advance();
        rows_message(self.number, range.start, self.shape.width, &frames)
    }

    pub(super) fn absorb(&mut self, body: Body, own: &impl Blocks) -> Result<(), Refusal> {
        let (range, width, shape) = (self.turns.range(), self.shape.width, self.shape);
        if self.place == Place::Corrections {
            let corrections = corrections(body, range, width, |block| shape.correction(block))?;
            let came = std::mem::take(&mut self.came);
            let taken = self.party.take_blocks(&came, Some(&corrections), own).map_err(peer_fault)?;
            self.shares.extend(taken);
        } else {
            let frames = cut(self.number, body, range, width, |block| shape.frame(block))?;
            if shape.corrected == side(self.role) {
                self.came = frames;
            } else {
                let taken = self.party.take_blocks(&frames, None, own).map_err(peer_fault)?;
                self.shares.extend(taken);
            }
        }
        self.advance();
        Ok(())
    }

    fn advance(&mut self) {
        self.place = match self.place {
            Place::Alice => Place::Bob,
            Place::Bob if self.shape.corrected == side(self.role) => Place::Corrections,
            Place::Bob | Place::Corrections | Place::Cross | Place::Last | Place::Over => match self.turns.pass() {
                true => Place::Alice,
                false => Place::Over,
            },
        };
    }

    /// Shares of the sums by row block, and the canary, whose shares must be compared before anything opens.
    pub(super) fn finish(self) -> Result<(Vec<Elements>, Canary), Abort> {
        Ok((self.shares, self.party.finish().map_err(own_fault)?))
    }
}

/// What further products take of the table: the own columns, and the peer's row blocks behind their mask.
pub(super) struct Columns<'a, X> {
    pub(super) own: &'a X,
    pub(super) received: &'a [Frame],
}

impl<X> Columns<'_, X> {
    fn received(&self, block: usize) -> Result<&Frame, Abort> {
        self.received.get(block).ok_or_else(out_of_order)
    }
}

fn share(vector: &[Elements], block: usize) -> Result<&Elements, Abort> {
    vector.get(block).ok_or_else(out_of_order)
}

/// A product with a shared vector.
pub(super) struct VectorExchange {
    role: Role,
    number: u32,
    shape: VectorShape,
    party: Option<VectorParty>,
    turns: Turns,
    place: Place,
    share: Option<VectorShare>,
}

impl VectorExchange {
    pub(super) fn new(role: Role, number: u32, shape: VectorShape, seed: &Seed, labels: &mut Labels) -> VectorExchange {
        VectorExchange {
            role,
            number,
            shape,
            party: Some(VectorParty::new(shape, side(role), seed, labels)),
            turns: Turns { blocks: shape.blocks(), batch: shape.batch(), first: 0 },
            place: Place::Alice,
            share: None,
        }
    }

    pub(super) fn step(&self) -> Option<Step> {
        speaker(self.place, self.role)
    }

    pub(super) fn build(&mut self, vector: &[Elements]) -> Result<Body, Abort> {
        let range = self.turns.range();
        let party = self.party.as_mut().ok_or_else(out_of_order)?;
        let mut frames = Vec::with_capacity(range.len());
        for block in range.clone() {
            frames.push(party.hide(share(vector, block)?).map_err(own_fault)?);
        }
        self.advance()?;
        rows_message(self.number, range.start, self.shape.width, &frames)
    }

    pub(super) fn absorb<X: Blocks>(
        &mut self,
        body: Body,
        vector: &[Elements],
        columns: &Columns<'_, X>,
    ) -> Result<(), Refusal> {
        if self.place == Place::Last {
            let Body::Dealt(Dealt::Correction(correction)) = body else { return Err(Refusal::Kind) };
            let party = self.party.take().ok_or_else(out_of_order)?;
            self.share = Some(party.finish(Some(&correction)).map_err(peer_fault)?);
            self.place = Place::Over;
            return Ok(());
        }
        let rows = self.shape.rows;
        let frames =
            cut(self.number, body, self.turns.range(), self.shape.width, |block| row_block(rows, block).len())?;
        let party = self.party.as_mut().ok_or_else(out_of_order)?;
        for (block, frame) in self.turns.range().zip(&frames) {
            let (own, received) = (share(vector, block)?, columns.received(block)?);
            party.take(frame, own, columns.own, received, &Ones(rows)).map_err(peer_fault)?;
        }
        self.advance()?;
        Ok(())
    }

    fn advance(&mut self) -> Result<(), Abort> {
        self.place = match self.place {
            Place::Alice => Place::Bob,
            Place::Bob | Place::Corrections | Place::Cross | Place::Last | Place::Over => match self.turns.pass() {
                true => Place::Alice,
                false if self.role == Role::Alice => {
                    let party = self.party.take().ok_or_else(out_of_order)?;
                    self.share = Some(party.finish(None).map_err(own_fault)?);
                    Place::Over
                }
                false => Place::Last,
            },
        };
        Ok(())
    }

    pub(super) fn finish(self) -> Result<VectorShare, Abort> {
        self.share.ok_or_else(out_of_order)
    }
}

/// A weighted table.
pub(super) struct WeightedExchange {
    role: Role,
    number: u32,
    shape: WeightedShape,
    party: Option<WeightedParty>,
    turns: Turns,
    place: Place,
    /// The peer's weights that wait for their corrections.
    came: Vec<Frame>,
    /// Own weighted row blocks that are to be sent.
    cross: Vec<Frame>,
    share: Option<WeightedShare>,
}

impl WeightedExchange {
    pub(super) fn new(
        role: Role,
        number: u32,
        shape: WeightedShape,
        mask: OwnMask,
        seed: &Seed,
        labels: &mut Labels,
    ) -> WeightedExchange {
        WeightedExchange {
            role,
            number,
            shape,
            party: Some(WeightedParty::new(shape, side(role), mask, seed, labels)),
            turns: Turns { blocks: shape.blocks(), batch: shape.batch(), first: 0 },
            place: Place::Alice,
            came: Vec::new(),
            cross: Vec::new(),
            share: None,
        }
    }

    pub(super) fn step(&self) -> Option<Step> {
        speaker(self.place, role(self.shape.sender()))
    }

    pub(super) fn build(&mut self, weights: &[Elements]) -> Result<Body, Abort> {
        let range = self.turns.range();
        let party = self.party.as_mut().ok_or_else(out_of_order)?;
        let mut frames = Vec::with_capacity(range.len());
        if self.place == Place::Cross {
            frames = std::mem::take(&mut self.cross);
        } else {
            for block in range.clone() {
                frames.push(party.hide(share(weights, block)?).map_err(own_fault)?);
            }
        }
        self.advance()?;
        rows_message(self.number, range.start, self.shape.width, &frames)
    }

    pub(super) fn absorb<X: Blocks>(
        &mut self,
        body: Body,
        weights: &[Elements],
        columns: &Columns<'_, X>,
    ) -> Result<(), Refusal> {
        let (range, width, rows) = (self.turns.range(), self.shape.width, self.shape.rows);
        let size = |columns: usize| move |block: usize| row_block(rows, block).len() * columns;
        let party = self.party.as_mut().ok_or_else(out_of_order)?;
        match self.place {
            Place::Last => {
                let Body::Dealt(Dealt::Correction(correction)) = body else { return Err(Refusal::Kind) };
                let party = self.party.take().ok_or_else(out_of_order)?;
                self.share = Some(party.finish(Some(&correction)).map_err(peer_fault)?);
                self.place = Place::Over;
                return Ok(());
            }
            Place::Corrections => {
                let corrections = corrections(body, range.clone(), width, size(self.shape.columns(side(self.role))))?;
                for ((block, peer), correction) in range.zip(&std::mem::take(&mut self.came)).zip(&corrections) {
                    let (weights, received) = (share(weights, block)?, columns.received(block)?);
                    let rows = Rows { weights, peer, correction, received, own: columns.own, public: &Ones(rows) };
                    self.cross.extend(party.take(&rows).map_err(peer_fault)?);
                }
            }
            Place::Cross => {
                let frames = cut(self.number, body, range, width, size(self.shape.columns(self.shape.sender())))?;
                frames.iter().try_for_each(|frame| party.cross(frame)).map_err(peer_fault)?;
            }
            Place::Alice | Place::Bob | Place::Over => {
                self.came = cut(self.number, body, range, width, size(1))?;
            }
        }
        self.advance()?;
        Ok(())
    }

    fn advance(&mut self) -> Result<(), Abort> {
        self.place = match self.place {
            Place::Alice => Place::Bob,
            Place::Bob => Place::Corrections,
            Place::Corrections => Place::Cross,
            Place::Cross | Place::Last | Place::Over => match self.turns.pass() {
                true => Place::Alice,
                false if self.role == Role::Alice => {
                    let party = self.party.take().ok_or_else(out_of_order)?;
                    self.share = Some(party.finish(None).map_err(own_fault)?);
                    Place::Over
                }
                false => Place::Last,
            },
        };
        Ok(())
    }

    pub(super) fn finish(self) -> Result<WeightedShare, Abort> {
        self.share.ok_or_else(out_of_order)
    }
}
