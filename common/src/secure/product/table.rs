//! The table `X_a' X_b` of two blocks of columns, row block by row block.
//!
//! The dealer knows two masks A and B of the blocks' shapes. Each party sends its block minus its mask, once: `E = X_a - A` to the
//! right, `F = X_b - B` to the left. `X_a' X_b = X_a' F + E' B + A' B`: the left party computes the first term, the right party the
//! second, and the dealer hands out the third as two shares, of which the left party's is expanded from its seed.
//!
//! Behind each block stands one more column of public 20-bit integers, the canary. Only the product of both canaries opens, before
//! anything else does: where masks are out of step it is wrong but with a probability of one in the modulus. Products of a canary
//! with a column of the other side would say something about its rows; their shares are never sent.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;

use super::sum::Sum;
use super::{Fault, Keep, hidden, public, unscaled};
use crate::secure::masks::{Labels, Mask, Purpose, Seed};
use crate::secure::ring::{Elements, ROWS, Width, row_block};

/// A matrix of which any rows can be made when they are needed, several at a time.
pub trait Blocks: Sync {
    /// Rows.
    fn rows(&self) -> usize;
    /// Columns.
    fn columns(&self) -> usize;
    /// Appends some rows, column by column.
    fn fill(&self, rows: Range<usize>, out: &mut Vec<f64>);
    /// Some rows of a column, where they stand as they are.
    fn lent(&self, _column: usize, _rows: Range<usize>) -> Option<&[f64]> {
        None
    }
}

impl Blocks for nalgebra::DMatrix<f64> {
    fn rows(&self) -> usize {
        self.nrows()
    }

    fn columns(&self) -> usize {
        self.ncols()
    }

    fn fill(&self, rows: Range<usize>, out: &mut Vec<f64>) {
        for column in self.column_iter() {
            out.extend_from_slice(&column.as_slice()[rows.clone()]);
        }
    }

    fn lent(&self, column: usize, rows: Range<usize>) -> Option<&[f64]> {
        self.column(column).data.into_slice().get(rows)
    }
}

/// Which block of the table a party holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// `X_a`: its columns are the rows of the table. Expands its share of the masks' product from its seed.
    Left,
    /// `X_b`: its columns are the columns of the table. Receives the dealer's correction.
    Right,
}

impl Side {
    /// The peer's.
    pub fn other(self) -> Side {
        match self {
            Side::Left => Side::Right,
            Side::Right => Side::Left,
        }
    }
}

/// The shape of a table, which all three roles know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// The ring.
    pub width: Width,
    /// Bits behind the binary point of both blocks.
    pub bits: u32,
    /// Rows of both blocks.
    pub rows: usize,
    /// Columns of the left block, without the canary.
    pub left: usize,
    /// Columns of the right block, without the canary.
    pub right: usize,
}

impl Shape {
    /// Row blocks that each party sends.
    pub fn blocks(&self) -> usize {
        self.rows.div_ceil(ROWS)
    }

    /// Columns of one side, the canary among them.
    fn columns(&self, side: Side) -> usize {
        1 + match side {
            Side::Left => self.left,
            Side::Right => self.right,
        }
    }

    /// Elements of a row block of one side.
    pub fn frame(&self, side: Side, block: usize) -> usize {
        row_block(self.rows, block).len() * self.columns(side)
    }

    /// Elements of the dealer's correction, and of a share with everything in it.
    pub fn correction(&self) -> usize {
        self.columns(Side::Left) * self.columns(Side::Right)
    }

    /// Numbers that open.
    pub fn opened(&self) -> usize {
        self.left * self.right
    }

    /// Bytes that a party sends in row blocks, without framing.
    pub fn bytes(&self, side: Side) -> u64 {
        self.rows as u64 * self.columns(side) as u64 * self.width.bytes() as u64
    }

    /// The largest size of an entry of the table: `n 2^(2 bits)`, as columns have mean square 1 at most, and a thousandth for
    /// rounding.
    fn bound(&self) -> i128 {
        let most = (self.rows as i128) << (2 * self.bits);
        most + (most >> 10)
    }
}

/// A row block minus its mask: uniform for whoever has not the sender's seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The number of the row block.
    pub block: u64,
    /// Its entries, column by column, the canary last.
    pub entries: Elements,
}

/// What the dealer sends to the right party: the masks' product minus the left party's share of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Correction(pub Elements);

/// One party's part of a table.
pub struct Party {
    shape: Shape,
    side: Side,
    mask: Mask,
    /// The left side's share of the masks' product.
    share: Option<Mask>,
    canary: Mask,
    /// Own row blocks that were sent and whose counterpart has not come, at the left party, who multiplies with them; at the right one their
    /// masks.
    kept: VecDeque<Elements>,
    sent: usize,
    taken: usize,
    expected: i128,
    sum: Sum,
}

impl Party {
    /// At the start. Takes the labels of one table.
    pub fn new(shape: Shape, side: Side, seed: &Seed, labels: &mut Labels) -> Party {
        let mut expand = |purpose| labels.take(purpose).expand(seed, shape.width);
        let (mask, share) = match side {
            Side::Left => (expand(Purpose::TableLeft), Some(expand(Purpose::TableShare))),
            Side::Right => (expand(Purpose::TableRight), None),
        };
        let canary = labels.take(Purpose::Canary).publish(Width::One);
        Party {
            shape,
            side,
            mask,
            share,
            canary,
            kept: VecDeque::new(),
            sent: 0,
            taken: 0,
            expected: 0,
            sum: Sum::new(shape.width, shape.left + 1, shape.right + 1),
        }
    }

    /// The next row block to send; none after the last.
    ///
    /// # Errors
    /// The matrix has another shape than agreed, or a value is beyond the bound of fixed point.
    pub fn hide(&mut self, own: &impl Blocks) -> Result<Option<Frame>, Fault> {
        let block = self.sent as u64;
        Ok(self.hide_blocks(own, 1)?.map(|entries| Frame { block, entries }))
    }

    /// The next row blocks to send, at most a given number of, one behind the other as in their message; none after the last.
    ///
    /// # Errors
    /// As [`Party::hide`].
    pub fn hide_blocks(&mut self, own: &impl Blocks, most: usize) -> Result<Option<Elements>, Fault> {
        let (shape, side) = (self.shape, self.side);
        let blocks = self.sent..shape.blocks().min(self.sent.saturating_add(most));
        if blocks.is_empty() {
            return Ok(None);
        }
        let (kept, message) = hidden(
            blocks.clone(),
            |block| shape.frame(side, block),
            (shape.width, shape.bits),
            (&self.mask, Keep::at(side)),
            |block, values| self.fill(block, own, values),
        )?;
        self.kept.extend(kept);
        self.sent = blocks.end;
        Ok(Some(message))
    }

    /// Takes the peer's next row block in.
    ///
    /// # Errors
    /// A row block out of order, of another size, or with words beyond their primes; or as [`Party::hide`].
    pub fn take(&mut self, frame: &Frame, own: &impl Blocks) -> Result<(), Fault> {
        self.take_blocks(std::slice::from_ref(frame), own)
    }

    /// Takes the peer's next row blocks in. The left party multiplies each with its own row block, which it makes anew where it has not
    /// sent it yet, the right party with its mask.
    ///
    /// # Errors
    /// As [`Party::take`].
    pub fn take_blocks(&mut self, frames: &[Frame], own: &impl Blocks) -> Result<(), Fault> {
        let (first, shape) = (self.taken, self.shape);
        for (block, frame) in (first..).zip(frames) {
            if frame.block != block as u64 || block >= shape.blocks() {
                return Err(Fault::Order { came: frame.block, expected: block as u64 });
            }
            expect(&frame.entries, shape.width, shape.frame(self.side.other(), block), "row block")?;
        }
        let mut kept: Vec<Option<Elements>> = self.kept.drain(..self.kept.len().min(frames.len())).map(Some).collect();
        kept.resize_with(frames.len(), || None);
        let factor = |(at, kept): (usize, Option<Elements>)| match (self.side, kept) {
            (Side::Left | Side::Right, Some(kept)) => Ok(kept),
            (Side::Left, None) => self.quantise(first + at, own),
            (Side::Right, None) => Ok(self.mask.block(first + at, shape.frame(Side::Right, first + at))),
        };
        let factors: Vec<Elements> = kept.into_par_iter().enumerate().map(factor).collect::<Result<_, Fault>>()?;
        for (frame, factor) in frames.iter().zip(&factors) {
            let rows = row_block(shape.rows, self.taken).len();
            let (left, right) = public(&self.canary, self.taken, rows);
            let products = left.iter().zip(&right).map(|(left, right)| (left * right) as i128);
            self.expected += products.sum::<i128>();
            match self.side {
                Side::Left => self.sum.add(factor, &frame.entries, rows),
                Side::Right => self.sum.add(&frame.entries, factor, rows),
            }
            self.taken += 1;
        }
        Ok(())
    }

    /// This party's share of the table, once all row blocks have gone both ways; the right party has the dealer's correction.
    ///
    /// # Errors
    /// Row blocks are missing, or the correction does not fit.
    pub fn finish(self, correction: Option<&Correction>) -> Result<Shares, Fault> {
        let (blocks, shape) = (self.shape.blocks(), self.shape);
        if self.sent.min(self.taken) < blocks {
            let came = self.sent.min(self.taken) as u64;
            return Err(Fault::Early { what: "the share of a table", came, expected: blocks as u64 });
        }
        let mut share = self.sum.into_elements();
        let dealt = match (&self.share, correction) {
            (Some(mask), None) => mask.block(0, shape.correction()),
            (None, Some(Correction(correction))) => {
                expect(correction, shape.width, shape.correction(), "correction")?;
                correction.clone()
            }
            (Some(_), Some(_)) | (None, None) => return Err(Fault::Correction),
        };
        share.add(&dealt).map_err(Fault::ring("correction"))?;
        let columns = shape.left + 1;
        let canary = share.select(std::iter::once(columns * shape.right + shape.left));
        let inner = (0..shape.right).flat_map(move |k| (0..shape.left).map(move |j| columns * k + j));
        let expected = Elements::from_integers(shape.width, &[self.expected]);
        Ok(Shares { shape, canary, expected, table: share.select(inner) })
    }

    /// A row block in fixed point, the canary behind it.
    fn quantise(&self, block: usize, own: &impl Blocks) -> Result<Elements, Fault> {
        let mut values = Vec::with_capacity(self.shape.frame(self.side, block));
        self.fill(block, own, &mut values)?;
        Elements::fixed(self.shape.width, &values, self.shape.bits).map_err(|_| Fault::OwnValue)
    }

    /// The values of a row block, the canary behind them.
    fn fill(&self, block: usize, own: &impl Blocks, values: &mut Vec<f64>) -> Result<(), Fault> {
        let (shape, range) = (&self.shape, row_block(self.shape.rows, block));
        let (left, right) = public(&self.canary, block, range.len());
        super::fill(own, shape.rows, shape.columns(self.side) - 1, range, values)?;
        let canary = match self.side {
            Side::Left => left,
            Side::Right => right,
        };
        values.extend(unscaled(canary, shape.bits));
        Ok(())
    }
}

/// One party's share of a table: first the canary's may go to the peer, and once the peer's has been checked the table's.
#[derive(Debug)]
pub struct Shares {
    shape: Shape,
    canary: Elements,
    expected: Elements,
    table: Elements,
}

impl Shares {
    /// The share of the canary, for the peer.
    pub fn canary(&self) -> &Elements {
        &self.canary
    }

    /// Compares the canary with what it must be; only then is there a share of the table that can be sent.
    ///
    /// # Errors
    /// [`Fault::OutOfStep`], and the run must end without an opening; or a share of another size.
    pub fn check(self, peer: &Elements) -> Result<TableShare, Fault> {
        expect(peer, self.shape.width, 1, "share of the canary")?;
        let own = self.canary;
        let mut opened = own.clone();
        opened.add(peer).map_err(Fault::ring("share of the canary"))?;
        if opened != self.expected {
            return Err(Fault::OutOfStep);
        }
        Ok(TableShare { shape: self.shape, canary: own, share: self.table })
    }
}

/// One party's share of a table whose canary was right.
#[derive(Debug)]
pub struct TableShare {
    shape: Shape,
    canary: Elements,
    share: Elements,
}

impl TableShare {
    /// The own share of the canary, for a peer that is to check it before it opens the table.
    pub fn canary(&self) -> &Elements {
        &self.canary
    }

    /// The share, for the message that opens the table to the peer: `left x right`, column by column.
    pub fn share(&self) -> &Elements {
        &self.share
    }

    /// Opens the table with the peer's share.
    ///
    /// # Errors
    /// A share of another size, or a value that no columns of mean square 1 can give.
    pub fn open(self, peer: &Elements) -> Result<Opened, Fault> {
        expect(peer, self.shape.width, self.shape.opened(), "share of the table")?;
        let mut opened = self.share;
        opened.add(peer).map_err(Fault::ring("share of the table"))?;
        let integers = opened.to_integers();
        let bound = self.shape.bound();
        if integers.iter().any(|value| value.unsigned_abs() > bound.unsigned_abs()) {
            return Err(Fault::Bound);
        }
        Ok(Opened { shape: self.shape, integers })
    }
}

/// An opened table: exact integers.
#[derive(Clone, PartialEq, Eq)]
pub struct Opened {
    shape: Shape,
    integers: Vec<i128>,
}

/// Sizes only.
impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Opened({} x {})", self.shape.left, self.shape.right)
    }
}

impl Opened {
    /// The integers, `left x right`, column by column: products of the quantised columns.
    pub fn integers(&self) -> &[i128] {
        &self.integers
    }

    /// `X_a' X_b / n`, `left x right`.
    pub fn mean(&self) -> nalgebra::DMatrix<f64> {
        let scale = 2f64.powi(-2 * self.shape.bits as i32);
        let rows = self.shape.rows as f64;
        let values = self.integers.iter().map(|value| *value as f64 * scale / rows);
        nalgebra::DMatrix::from_iterator(self.shape.left, self.shape.right, values)
    }
}

/// The dealer's part of a table. It receives nothing, and its memory does not depend on the rows.
pub struct Dealer {
    shape: Shape,
    masks: Arc<Masks>,
    share: Mask,
    done: usize,
    sum: Sum,
}

impl Dealer {
    /// At the start, from the seeds of both parties. Takes the labels of one table.
    pub fn new(shape: Shape, left: &Seed, right: &Seed, labels: &mut Labels) -> Dealer {
        let mut expand = |purpose, seed| labels.take(purpose).expand(seed, shape.width);
        let (left, share) = (expand(Purpose::TableLeft, left), expand(Purpose::TableShare, left));
        let right = expand(Purpose::TableRight, right);
        labels.take(Purpose::Canary);
        let masks = Arc::new(Masks { shape, left, right });
        Dealer { shape, masks, share, done: 0, sum: Sum::new(shape.width, shape.left + 1, shape.right + 1) }
    }

    /// The masks of both blocks, for further products with them.
    pub fn masks(&self) -> Arc<Masks> {
        Arc::clone(&self.masks)
    }

    /// Works on the next row block; false after the last.
    pub fn step(&mut self) -> bool {
        if self.done == self.shape.blocks() {
            return false;
        }
        let rows = row_block(self.shape.rows, self.done).len();
        let (left, right) = self.masks.block(self.done);
        self.sum.add(&left, &right, rows);
        self.done += 1;
        true
    }

    /// What goes to the right party, after the last row block.
    ///
    /// # Errors
    /// Row blocks are missing.
    pub fn finish(self) -> Result<Correction, Fault> {
        self.finish_and_keep().map(|(correction, _)| correction)
    }

    /// As [`Dealer::finish`], with the masks of both blocks for further products with them.
    ///
    /// # Errors
    /// Row blocks are missing.
    pub fn finish_and_keep(self) -> Result<(Correction, Arc<Masks>), Fault> {
        let (came, expected) = (self.done as u64, self.shape.blocks() as u64);
        if came < expected {
            return Err(Fault::Early { what: "the correction of a table", came, expected });
        }
        let mut product = self.sum.into_elements();
        let share = self.share.block(0, self.shape.correction());
        product.subtract(&share).map_err(Fault::ring("correction"))?;
        Ok((Correction(product), self.masks))
    }
}

/// The masks of a table, at the dealer.
pub struct Masks {
    shape: Shape,
    left: Mask,
    right: Mask,
}

impl Masks {
    /// Columns of both, the canaries among them.
    pub(super) fn columns(&self) -> [usize; 2] {
        [Side::Left, Side::Right].map(|side| self.shape.columns(side))
    }

    /// Both masks of a row block, column by column.
    pub(super) fn block(&self, block: usize) -> (Elements, Elements) {
        rayon::join(
            || self.left.block(block, self.shape.frame(Side::Left, block)),
            || self.right.block(block, self.shape.frame(Side::Right, block)),
        )
    }
}

pub(super) fn expect(came: &Elements, width: Width, count: usize, what: &'static str) -> Result<(), Fault> {
    if came.width() != width || came.count() != count {
        let fault = crate::secure::ring::RingError::Count { came: came.count(), expected: count };
        return Err(Fault::Ring { what, fault });
    }
    Ok(())
}
