//! Products within each row, `z_i = sum_k f_ik g_ik`, where the left party has the factors `f` and the right party the factors `g`.
//!
//! Both mask their factors afresh and send them; the dealer hands out shares of the same sum of the masks, one element a row. The left
//! party's share is `f (g - b) + c`, the right party's `(f - a) b + c'`.
//!
//! Behind the rows stands one more, the canary, of public 20-bit integers on both sides. Its product opens before anything that is
//! made from the other rows.

use std::collections::VecDeque;

use rayon::prelude::*;

use super::table::{Blocks, Frame, Side, expect};
use super::{Fault, Keep, hidden, public, unscaled};
use crate::secure::masks::{Labels, Mask, Purpose, Seed};
use crate::secure::ring::{Elements, Part, ROWS, Width, row_block};

/// The shape of products within rows, which all three roles know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowShape {
    /// The ring.
    pub width: Width,
    /// Bits behind the binary point of every factor; a product has twice as many.
    pub bits: u32,
    /// Rows.
    pub rows: usize,
    /// Products that are summed in each row.
    pub terms: usize,
    /// Who receives the dealer's corrections. It alternates, so that neither line carries them all.
    pub corrected: Side,
}

impl RowShape {
    /// Row blocks, the canary's among them.
    pub fn blocks(&self) -> usize {
        self.rows.div_ceil(ROWS) + 1
    }

    /// Rows of a block.
    fn length(&self, block: usize) -> usize {
        if block + 1 == self.blocks() { 1 } else { row_block(self.rows, block).len() }
    }

    /// Row blocks of a message.
    pub fn batch(&self) -> usize {
        super::batch(self.width, self.terms)
    }

    /// Elements of the corrections of a row block.
    pub fn correction(&self, block: usize) -> usize {
        self.length(block)
    }

    /// Elements of a row block of factors.
    pub fn frame(&self, block: usize) -> usize {
        self.length(block) * self.terms
    }

    /// Bytes that each party sends, without framing.
    pub fn bytes(&self) -> u64 {
        (self.rows as u64 + 1) * self.terms as u64 * self.width.bytes() as u64
    }

    /// Bytes that the dealer sends.
    pub fn correction_bytes(&self) -> u64 {
        (self.rows as u64 + 1) * self.width.bytes() as u64
    }
}

/// One party's part of products within rows.
pub struct RowParty {
    shape: RowShape,
    side: Side,
    mask: Mask,
    /// At the party that receives no correction.
    share: Option<Mask>,
    canary: Mask,
    /// Own factors that were sent and whose counterpart has not come, at the left party, who multiplies with them; at the right one their
    /// mask.
    kept: VecDeque<Elements>,
    sent: usize,
    taken: usize,
    opened: Option<Elements>,
}

impl RowParty {
    /// At the start. Takes the labels of one product.
    pub fn new(shape: RowShape, side: Side, seed: &Seed, labels: &mut Labels) -> RowParty {
        let [left, right, share] =
            [Purpose::RowsLeft, Purpose::RowsRight, Purpose::RowsShare].map(|of| labels.take(of));
        let own = match side {
            Side::Left => left,
            Side::Right => right,
        };
        let mask = own.expand(seed, shape.width);
        let share = (side != shape.corrected).then(|| share.expand(seed, shape.width));
        let canary = labels.take(Purpose::Canary).publish(Width::One);
        RowParty { shape, side, mask, share, canary, kept: VecDeque::new(), sent: 0, taken: 0, opened: None }
    }

    /// The next row block to send; none after the last, which is the canary's.
    ///
    /// # Errors
    /// The factors have another shape than agreed, or a value is beyond the bound of fixed point.
    pub fn hide(&mut self, own: &impl Blocks) -> Result<Option<Frame>, Fault> {
        let block = self.sent as u64;
        Ok(self.hide_blocks(own, 1)?.map(|entries| Frame { block, entries }))
    }

    /// The next row blocks to send, at most a given number of, one behind the other as in their message; none after the last.
    ///
    /// # Errors
    /// As [`RowParty::hide`].
    pub fn hide_blocks(&mut self, own: &impl Blocks, most: usize) -> Result<Option<Elements>, Fault> {
        let shape = self.shape;
        let blocks = self.sent..shape.blocks().min(self.sent.saturating_add(most));
        if blocks.is_empty() {
            return Ok(None);
        }
        let (kept, message) = hidden(
            blocks.clone(),
            |block| shape.frame(block),
            (shape.width, shape.bits),
            (&self.mask, Keep::at(self.side)),
            |block, values| self.fill(block, own, values),
        )?;
        self.kept.extend(kept);
        self.sent = blocks.end;
        Ok(Some(message))
    }

    /// Takes the peer's next row block in, with the dealer's correction where this party is the one that gets it: the share of the
    /// sums of these rows. None for the canary's row.
    ///
    /// # Errors
    /// A row block out of order, of another size, or without its correction; or as [`RowParty::hide`].
    pub fn take(
        &mut self,
        frame: &Frame,
        correction: Option<&Frame>,
        own: &impl Blocks,
    ) -> Result<Option<Elements>, Fault> {
        for came in std::iter::once(frame).chain(correction).map(|frame| frame.block) {
            if came != self.taken as u64 {
                return Err(Fault::Order { came, expected: self.taken as u64 });
            }
        }
        Ok(self.take_blocks(1, &frame.entries, correction.map(|frame| &frame.entries), own)?.pop())
    }

    /// Takes the peer's next row blocks in as they came in a message, with their corrections at the party that gets them: shares of the sums
    /// of these rows, without the canary's.
    ///
    /// # Errors
    /// As [`RowParty::take`].
    pub fn take_blocks(
        &mut self,
        count: usize,
        entries: &Elements,
        corrections: Option<&Elements>,
        own: &impl Blocks,
    ) -> Result<Vec<Elements>, Fault> {
        let (first, shape) = (self.taken, self.shape);
        if (self.side == shape.corrected) != corrections.is_some() {
            return Err(Fault::Correction);
        }
        let blocks = first..first + count;
        if blocks.end > shape.blocks() {
            return Err(Fault::Order { came: shape.blocks() as u64, expected: first as u64 });
        }
        let whole =
            |size: fn(&RowShape, usize) -> usize| blocks.clone().map(|block| size(&shape, block)).sum::<usize>();
        expect(entries, shape.width, whole(RowShape::frame), "row block of factors")?;
        if let Some(corrections) = corrections {
            expect(corrections, shape.width, whole(RowShape::correction), "correction of rows")?;
        }
        let kept: Vec<Elements> = self.kept.drain(..self.kept.len().min(count)).collect();
        let (mut at, mut at_correction) = (0, 0);
        let part = |block: usize| {
            let (begin, begin_correction) = (at, at_correction);
            (at, at_correction) = (at + shape.frame(block), at_correction + shape.correction(block));
            let correction = corrections.map(|corrections| corrections.slice(begin_correction..at_correction));
            (block, entries.part(begin..at), correction)
        };
        let parts: Vec<(usize, Part<'_>, Option<Elements>)> = blocks.clone().map(part).collect();
        let taken = |(at, (block, entries, correction)): (usize, (usize, Part<'_>, Option<Elements>))| {
            let made;
            let factors = match kept.get(at) {
                Some(kept) => kept.whole(),
                None => {
                    made = self.factors(block, own)?;
                    made.whole()
                }
            };
            let mut share = match (&self.share, correction) {
                (Some(mask), None) => mask.block(block, shape.length(block)),
                (None, Some(correction)) => correction,
                (Some(_), Some(_)) | (None, None) => return Err(Fault::Correction),
            };
            share.add_row_products(factors, entries).map_err(Fault::ring("row block of factors"))?;
            Ok(share)
        };
        let mut shares: Vec<Elements> = parts.into_par_iter().enumerate().map(taken).collect::<Result<_, Fault>>()?;
        self.taken = blocks.end;
        if self.taken == shape.blocks() {
            self.opened = shares.pop();
        }
        Ok(shares)
    }

    /// What the peer's row block is multiplied with, where it has come before the own one was sent.
    fn factors(&self, block: usize, own: &impl Blocks) -> Result<Elements, Fault> {
        let shape = &self.shape;
        match self.side {
            Side::Right => Ok(self.mask.block(block, shape.frame(block))),
            Side::Left => {
                let mut values = Vec::with_capacity(shape.frame(block));
                self.fill(block, own, &mut values)?;
                Elements::fixed(shape.width, &values, shape.bits).map_err(|_| Fault::OwnValue)
            }
        }
    }

    /// The share of the canary, once all row blocks have gone both ways, and what both shares must add up to.
    ///
    /// # Errors
    /// Row blocks are missing.
    pub fn finish(self) -> Result<Canary, Fault> {
        let (came, expected) = (self.sent.min(self.taken) as u64, self.shape.blocks() as u64);
        let Some(share) = self.opened.filter(|_| came == expected) else {
            return Err(Fault::Early { what: "the canary of rows", came, expected });
        };
        let (left, right) = public(&self.canary, 0, self.shape.terms);
        let product = left.iter().zip(&right).map(|(left, right)| (left * right) as i128).sum();
        Ok(Canary { share, expected: Elements::from_integers(self.shape.width, &[product]) })
    }

    /// The values of a row block; those of the last one are the canary's.
    fn fill(&self, block: usize, own: &impl Blocks, values: &mut Vec<f64>) -> Result<(), Fault> {
        let shape = &self.shape;
        if block + 1 == shape.blocks() {
            let (left, right) = public(&self.canary, 0, shape.terms);
            let canary = match self.side {
                Side::Left => left,
                Side::Right => right,
            };
            values.extend(unscaled(canary, shape.bits));
            return Ok(());
        }
        super::fill(own, shape.rows, shape.terms, row_block(shape.rows, block), values)
    }
}

/// One party's share of a canary.
#[derive(Debug)]
pub struct Canary {
    share: Elements,
    expected: Elements,
}

impl Canary {
    /// For the peer.
    pub fn share(&self) -> &Elements {
        &self.share
    }

    /// Compares both shares with the public product.
    ///
    /// # Errors
    /// [`Fault::OutOfStep`], and the run must end without an opening; or a share of another size.
    pub fn check(&self, peer: &Elements) -> Result<(), Fault> {
        expect(peer, self.share.width(), 1, "share of the canary")?;
        let mut opened = self.share.clone();
        opened.add(peer).map_err(Fault::ring("share of the canary"))?;
        if opened == self.expected { Ok(()) } else { Err(Fault::OutOfStep) }
    }
}

/// The dealer's part of products within rows. It receives nothing.
pub struct RowDealer {
    shape: RowShape,
    left: Mask,
    right: Mask,
    share: Mask,
    done: usize,
}

impl RowDealer {
    /// At the start, from the seeds of both parties. Takes the labels of one product.
    pub fn new(shape: RowShape, left: &Seed, right: &Seed, labels: &mut Labels) -> RowDealer {
        let mut expand = |purpose, seed| labels.take(purpose).expand(seed, shape.width);
        let sharer = match shape.corrected {
            Side::Left => right,
            Side::Right => left,
        };
        let left = expand(Purpose::RowsLeft, left);
        let right = expand(Purpose::RowsRight, right);
        let share = expand(Purpose::RowsShare, sharer);
        labels.take(Purpose::Canary);
        RowDealer { shape, left, right, share, done: 0 }
    }

    /// The correction of the next row block, for the party that gets them; none after the last.
    ///
    /// # Errors
    /// Never with masks of the agreed shape.
    pub fn step(&mut self) -> Result<Option<Frame>, Fault> {
        let (block, shape) = (self.done, self.shape);
        if block == shape.blocks() {
            return Ok(None);
        }
        let rows = shape.length(block);
        let [left, right] = [&self.left, &self.right].map(|mask| mask.block(block, shape.frame(block)));
        let mut sums = Elements::zeros(shape.width, rows);
        sums.add_row_products(left.whole(), right.whole()).map_err(Fault::ring("masks"))?;
        sums.subtract(&self.share.block(block, rows)).map_err(Fault::ring("masks"))?;
        self.done += 1;
        Ok(Some(Frame { block: block as u64, entries: sums }))
    }
}
