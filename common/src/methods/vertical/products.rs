//! Products with the columns of a table, message by message: which side speaks next, and what comes of what it says.
//!
//! Row blocks go to and fro in messages of a few blocks, Alice's first. A party that is dealt corrections of row blocks takes those of a
//! message once both parties' row blocks have passed, so that neither waits for a dealer that is slower than the line.

use std::ops::Range;

use crate::conversation::{Refusal, Step};
use crate::id::Role;
use crate::methods::vertical::masked::{fitting, frames, length, out_of_order, own_fault, peer_fault};
use crate::methods::vertical::message::{Body, Dealt, Product, ProductKind};
use crate::methods::vertical::pair::Pair;
use crate::secure::masks::{Labels, Seed};
use crate::secure::product::{
    Blocks, Canary, Fault, Frame, RowParty, RowShape, Rows, Side, VectorParty, VectorShape, VectorShare, WeightedParty,
    WeightedShape, WeightedShare,
};
use crate::secure::ring::{Elements, Width, row_block};
use crate::session::Abort;

const ROWS: &str = "masked rows of a product";
const CORRECTIONS: &str = "corrections of rows";
const LAST: &str = "the correction of a product";

/// The column of the intercept: ones, times the roots of the case weights as the rows of the other columns are.
pub(super) struct Public<'a> {
    pub(super) rows: usize,
    /// What stands for one, where the other columns are whole numbers.
    pub(super) one: f64,
    pub(super) roots: Option<&'a [f64]>,
}

impl Blocks for Public<'_> {
    fn rows(&self) -> usize {
        self.rows
    }

    fn columns(&self) -> usize {
        1
    }

    fn fill(&self, rows: Range<usize>, out: &mut Vec<f64>) {
        match self.roots {
            Some(roots) => out.extend_from_slice(&roots[rows]),
            None => out.resize(out.len() + rows.len(), self.one),
        }
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
    Ok(message_of(number, first, entries.map_err(|error| Abort::Bug(error.to_string()))?))
}

fn message_of(number: u32, first: usize, entries: Elements) -> Body {
    Body::Product(Product { number, what: ProductKind::Rows, first: first as u64, entries })
}

/// The entries of a message of this product and of these row blocks, cut into them.
fn cut(
    number: u32,
    body: Body,
    blocks: Range<usize>,
    width: Width,
    size: impl Fn(usize) -> usize,
) -> Result<Vec<Frame>, Refusal> {
    let (first, entries) = entries_of(number, body)?;
    Ok(frames(ROWS, first, &entries, blocks, width, size)?)
}

/// The number of the first row block of a message of this product, and its entries.
fn entries_of(number: u32, body: Body) -> Result<(u64, Elements), Refusal> {
    let Body::Product(Product { number: came, what: ProductKind::Rows, first, entries }) = body else {
        return Err(Refusal::Kind);
    };
    of_product(number, came)?;
    Ok((first, entries))
}

/// The entries of a message of row blocks, as they came, once they are known to be those of the row blocks that are expected.
fn whole(
    what: &'static str,
    (first, entries): (u64, Elements),
    blocks: Range<usize>,
    width: Width,
    size: impl Fn(usize) -> usize,
) -> Result<Elements, Refusal> {
    fitting(what, first, &entries, blocks, width, size)?;
    Ok(entries)
}

/// That a message belongs to this product.
pub(super) fn of_product(number: u32, came: u32) -> Result<(), Refusal> {
    match came == number {
        true => Ok(()),
        false => Err(peer_fault(Fault::Order { came: came.into(), expected: number.into() }).into()),
    }
}

/// Corrections of the row blocks of a message.
fn corrections(
    body: Body,
    blocks: Range<usize>,
    width: Width,
    size: impl Fn(usize) -> usize,
) -> Result<Vec<Frame>, Refusal> {
    let Body::Dealt(Dealt::Rows(first, entries)) = body else { return Err(Refusal::Kind) };
    Ok(frames(CORRECTIONS, first, &entries, blocks, width, size)?)
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

fn speaker(pair: Pair, place: Place, sender: Role) -> Option<Step> {
    let (speaker, expected) = match place {
        Place::Alice => (pair.first(), ROWS),
        Place::Bob => (pair.second(), ROWS),
        Place::Corrections => (Role::Coordinator, CORRECTIONS),
        Place::Cross => (sender, ROWS),
        Place::Last => (Role::Coordinator, LAST),
        Place::Over => return None,
    };
    Some(Step { speaker, expected })
}

fn role(pair: Pair, side: Side) -> Role {
    match side {
        Side::Left => pair.first(),
        Side::Right => pair.second(),
    }
}

/// The turns of an exchange that was made by a process that is gone, and of which nothing is needed any more.
pub(super) struct Passed {
    turns: Turns,
    place: Place,
}

impl Passed {
    /// Of products within rows.
    pub(super) fn rows(shape: &RowShape) -> Passed {
        Passed { turns: Turns { blocks: shape.blocks(), batch: shape.batch(), first: 0 }, place: Place::Alice }
    }

    /// Of a product with a shared vector.
    pub(super) fn vector(shape: &VectorShape) -> Passed {
        Passed { turns: Turns { blocks: shape.blocks(), batch: shape.batch(), first: 0 }, place: Place::Alice }
    }

    /// Whose message passed next; none after the last.
    pub(super) fn step(&self, pair: Pair) -> Option<Step> {
        speaker(pair, self.place, pair.first())
    }

    /// Counts a message.
    pub(super) fn count_on(&mut self) {
        self.place = match self.place {
            Place::Alice => Place::Bob,
            Place::Bob | Place::Corrections | Place::Cross | Place::Last | Place::Over => match self.turns.pass() {
                true => Place::Alice,
                false => Place::Over,
            },
        };
    }
}

/// Products within rows.
pub(super) struct RowExchange {
    pair: Pair,
    number: u32,
    shape: RowShape,
    party: RowParty,
    turns: Turns,
    place: Place,
    /// Own row blocks of the next message, hidden ahead of its turn.
    ready: Option<Elements>,
    /// Row blocks that are hidden.
    hidden: usize,
    /// The peer's row blocks that wait for their corrections.
    came: Option<Elements>,
    /// How many row blocks of the peer, with corrections where this party gets them, are not multiplied yet, message by message.
    pending: Vec<(usize, Elements, Option<Elements>)>,
    shares: Vec<Elements>,
}

impl RowExchange {
    pub(super) fn new(pair: Pair, number: u32, shape: RowShape, seed: &Seed, labels: &mut Labels) -> RowExchange {
        RowExchange {
            pair,
            number,
            shape,
            party: RowParty::new(shape, pair.half(), seed, labels),
            turns: Turns { blocks: shape.blocks(), batch: shape.batch(), first: 0 },
            place: Place::Alice,
            ready: None,
            hidden: 0,
            came: None,
            pending: Vec::new(),
            shares: Vec::with_capacity(shape.blocks()),
        }
    }

    pub(super) fn step(&self) -> Option<Step> {
        speaker(self.pair, self.place, self.pair.own())
    }

    pub(super) fn build(&mut self, own: &impl Blocks) -> Result<Body, Abort> {
        let first = self.turns.first;
        let entries = match self.ready.take() {
            Some(entries) => entries,
            None => self.hide(own)?,
        };
        self.advance();
        Ok(message_of(self.number, first, entries))
    }

    /// The own row blocks of the next message behind their mask.
    fn hide(&mut self, own: &impl Blocks) -> Result<Elements, Abort> {
        let entries = self.party.hide_blocks(own, self.turns.batch).map_err(own_fault)?.ok_or_else(out_of_order)?;
        self.hidden = self.shape.blocks().min(self.hidden + self.turns.batch);
        Ok(entries)
    }

    pub(super) fn absorb(&mut self, body: Body) -> Result<(), Refusal> {
        let (range, width, shape) = (self.turns.range(), self.shape.width, self.shape);
        let count = range.len();
        if self.place == Place::Corrections {
            let Body::Dealt(Dealt::Rows(first, entries)) = body else { return Err(Refusal::Kind) };
            let corrections = whole(CORRECTIONS, (first, entries), range, width, |block| shape.correction(block))?;
            self.pending.push((count, self.came.take().ok_or_else(out_of_order)?, Some(corrections)));
        } else {
            let entries = whole(ROWS, entries_of(self.number, body)?, range, width, |block| shape.frame(block))?;
            match shape.corrected == self.pair.half() {
                true => self.came = Some(entries),
                false => self.pending.push((count, entries, None)),
            }
        }
        self.advance();
        Ok(())
    }

    /// Multiplies what came, and hides the own row blocks of the next message.
    pub(super) fn go_ahead(&mut self, own: &impl Blocks) -> Result<(), Abort> {
        self.multiply(own)?;
        if self.ready.is_none() && self.hidden < self.shape.blocks() {
            self.ready = Some(self.hide(own)?);
        }
        Ok(())
    }

    /// Sizes and order were checked when the row blocks came.
    fn multiply(&mut self, own: &impl Blocks) -> Result<(), Abort> {
        for (count, entries, corrections) in std::mem::take(&mut self.pending) {
            let taken = self.party.take_blocks(count, &entries, corrections.as_ref(), own).map_err(own_fault)?;
            self.shares.extend(taken);
        }
        Ok(())
    }

    fn advance(&mut self) {
        self.place = match self.place {
            Place::Alice => Place::Bob,
            Place::Bob if self.shape.corrected == self.pair.half() => Place::Corrections,
            Place::Bob | Place::Corrections | Place::Cross | Place::Last | Place::Over => match self.turns.pass() {
                true => Place::Alice,
                false => Place::Over,
            },
        };
    }

    /// Shares of the sums by row block, and the canary, whose shares must be compared before anything opens.
    pub(super) fn finish(mut self, own: &impl Blocks) -> Result<(Vec<Elements>, Canary), Abort> {
        self.multiply(own)?;
        Ok((self.shares, self.party.finish().map_err(own_fault)?))
    }
}

/// What further products take of the table: the own columns, and the peer's row blocks behind their mask.
pub(super) struct Columns<'a, X> {
    pub(super) own: &'a X,
    pub(super) received: &'a [Frame],
    pub(super) public: Public<'a>,
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
    pair: Pair,
    number: u32,
    shape: VectorShape,
    party: VectorParty,
    turns: Turns,
    place: Place,
    /// The peer's row blocks that are not multiplied yet.
    pending: Vec<Frame>,
    /// At Bob, the dealer's.
    correction: Option<Elements>,
}

impl VectorExchange {
    pub(super) fn new(pair: Pair, number: u32, shape: VectorShape, seed: &Seed, labels: &mut Labels) -> VectorExchange {
        VectorExchange {
            pair,
            number,
            shape,
            party: VectorParty::new(shape, pair.half(), seed, labels),
            turns: Turns { blocks: shape.blocks(), batch: shape.batch(), first: 0 },
            place: Place::Alice,
            pending: Vec::new(),
            correction: None,
        }
    }

    pub(super) fn step(&self) -> Option<Step> {
        speaker(self.pair, self.place, self.pair.own())
    }

    pub(super) fn build(&mut self, vector: &[Elements]) -> Result<Body, Abort> {
        let range = self.turns.range();
        let mut frames = Vec::with_capacity(range.len());
        for block in range.clone() {
            frames.push(self.party.hide(share(vector, block)?).map_err(own_fault)?);
        }
        self.advance();
        rows_message(self.number, range.start, self.shape.width, &frames)
    }

    pub(super) fn absorb(&mut self, body: Body) -> Result<(), Refusal> {
        if self.place == Place::Last {
            let Body::Dealt(Dealt::Correction(correction)) = body else { return Err(Refusal::Kind) };
            if correction.count() != self.shape.correction() || correction.width() != self.shape.width {
                return Err(length("a correction", correction.count(), self.shape.correction()).into());
            }
            self.correction = Some(correction);
        } else {
            let (rows, width) = (self.shape.rows, self.shape.width);
            let size = |block| row_block(rows, block).len();
            self.pending.extend(cut(self.number, body, self.turns.range(), width, size)?);
        }
        self.advance();
        Ok(())
    }

    /// Multiplies what came; sizes and order were checked then.
    pub(super) fn go_ahead<X: Blocks>(&mut self, vector: &[Elements], columns: &Columns<'_, X>) -> Result<(), Abort> {
        for frame in std::mem::take(&mut self.pending) {
            // It is the number of a row block of the shape.
            let block = frame.block as usize;
            let (own, received) = (share(vector, block)?, columns.received(block)?);
            self.party.take(&frame, own, columns.own, received, &columns.public).map_err(own_fault)?;
        }
        Ok(())
    }

    fn advance(&mut self) {
        self.place = match self.place {
            Place::Alice => Place::Bob,
            Place::Bob | Place::Corrections | Place::Cross => match self.turns.pass() {
                true => Place::Alice,
                false if self.pair.leads() => Place::Over,
                false => Place::Last,
            },
            Place::Last | Place::Over => Place::Over,
        };
    }

    pub(super) fn finish<X: Blocks>(
        mut self,
        vector: &[Elements],
        columns: &Columns<'_, X>,
    ) -> Result<VectorShare, Abort> {
        self.go_ahead(vector, columns)?;
        self.party.finish(self.correction.as_ref()).map_err(own_fault)
    }
}

/// A weighted table.
pub(super) struct WeightedExchange {
    pair: Pair,
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
        pair: Pair,
        number: u32,
        shape: WeightedShape,
        seed: &Seed,
        labels: &mut Labels,
    ) -> WeightedExchange {
        WeightedExchange {
            pair,
            number,
            shape,
            party: Some(WeightedParty::new(shape, pair.half(), seed, labels)),
            turns: Turns { blocks: shape.blocks(), batch: shape.batch(), first: 0 },
            place: Place::Alice,
            came: Vec::new(),
            cross: Vec::new(),
            share: None,
        }
    }

    pub(super) fn step(&self) -> Option<Step> {
        speaker(self.pair, self.place, role(self.pair, self.shape.sender()))
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
                let corrections = corrections(body, range.clone(), width, size(self.shape.columns(self.pair.half())))?;
                for ((block, peer), correction) in range.zip(&std::mem::take(&mut self.came)).zip(&corrections) {
                    let (weights, received) = (share(weights, block)?, columns.received(block)?);
                    let rows = Rows { weights, peer, correction, received, own: columns.own, public: &columns.public };
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
                false if self.pair.leads() => {
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
