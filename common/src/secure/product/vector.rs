//! Products `X' r` of both blocks with a vector that is shared over the rows, `r = r_a + r_b`.
//!
//! The blocks were masked once, for their table: `E = X_a - A` at the right party, `F = X_b - B` at the left one. Each party sends its
//! share of `r` minus a fresh mask, `v = r - u`. The dealer hands out shares `c` of `A' u_b` and `d` of `B' u_a`. Shares of `X_a' r` are
//! `X_a' (r_a + v_b) + c_a` at the left and `E' u_b + c_b` at the right, those of `X_b' r` mirrored. A vector under a used mask would
//! show its difference from the first one; therefore the mask is part of a value that is consumed.
//!
//! An intercept is a public column, whose products with both shares are local.

use super::Fault;
use super::sum::Sum;
use super::table::{Blocks, Frame, Masks, Side, expect};
use crate::secure::masks::{Labels, Mask, Purpose, Seed};
use crate::secure::ring::{Elements, Width, row_block, row_blocks};

/// The shape of a product with a shared vector, which all three roles know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VectorShape {
    /// The ring.
    pub width: Width,
    /// Bits behind the binary point of the columns.
    pub bits: u32,
    /// Rows.
    pub rows: usize,
    /// Columns of the left block that take part, from the first.
    pub left: usize,
    /// Columns of the right block that take part, from the first.
    pub right: usize,
}

impl VectorShape {
    /// Row blocks that each party sends, of one column.
    pub fn blocks(&self) -> usize {
        row_blocks(self.rows).len()
    }

    /// Row blocks of a message.
    pub fn batch(&self) -> usize {
        super::batch(self.width, 1)
    }

    /// Elements of the dealer's correction.
    pub fn correction(&self) -> usize {
        self.left + self.right
    }

    /// Numbers that open: the public column's, those of the left block, those of the right block.
    pub fn opened(&self) -> usize {
        1 + self.left + self.right
    }

    /// Bytes that each party sends in row blocks, without framing.
    pub fn bytes(&self) -> u64 {
        self.rows as u64 * self.width.bytes() as u64
    }
}

/// One party's part of a product with a shared vector.
pub struct VectorParty {
    shape: VectorShape,
    side: Side,
    mask: Mask,
    share: Option<Mask>,
    sent: usize,
    taken: usize,
    public: Sum,
    left: Sum,
    right: Sum,
}

impl VectorParty {
    /// At the start. Takes the labels of one product.
    pub fn new(shape: VectorShape, side: Side, seed: &Seed, labels: &mut Labels) -> VectorParty {
        let [left, right, share] =
            [Purpose::VectorLeft, Purpose::VectorRight, Purpose::VectorShare].map(|of| labels.take(of));
        let (own, share) = match side {
            Side::Left => (left, Some(share.expand(seed, shape.width))),
            Side::Right => (right, None),
        };
        let sum = |columns| Sum::new(shape.width, columns, 1);
        let (public, left, right) = (sum(1), sum(shape.left), sum(shape.right));
        VectorParty { shape, side, mask: own.expand(seed, shape.width), share, sent: 0, taken: 0, public, left, right }
    }

    /// Masks the own share of the next rows of the vector.
    ///
    /// # Errors
    /// Another number of rows, or all have been sent.
    pub fn hide(&mut self, vector: &Elements) -> Result<Frame, Fault> {
        let block = self.sent;
        let rows = row_block(self.shape.rows, block).len();
        expect(vector, self.shape.width, rows, "share of a vector")?;
        if block == self.shape.blocks() {
            return Err(Fault::Order { came: block as u64, expected: block as u64 });
        }
        let mut entries = vector.clone();
        entries.subtract(&self.mask.block(block, rows)).map_err(Fault::ring("share of a vector"))?;
        self.sent += 1;
        Ok(Frame { block: block as u64, entries })
    }

    /// Takes the peer's masked share of the next rows in. `vector` is the own share of these rows, `own` the own block as its table
    /// had it, `received` the peer's row block of that table, `public` the public column.
    ///
    /// # Errors
    /// Something out of order or of another size.
    pub fn take(
        &mut self,
        frame: &Frame,
        vector: &Elements,
        own: &impl Blocks,
        received: &Frame,
        public: &impl Blocks,
    ) -> Result<(), Fault> {
        let (block, shape) = (self.taken, self.shape);
        if let Some(came) = [frame.block, received.block].into_iter().find(|came| *came != block as u64) {
            return Err(Fault::Order { came, expected: block as u64 });
        }
        if block == shape.blocks() {
            return Err(Fault::Order { came: frame.block, expected: block as u64 });
        }
        let range = row_block(shape.rows, block);
        let rows = range.len();
        expect(&frame.entries, shape.width, rows, "share of a vector")?;
        expect(vector, shape.width, rows, "own share of a vector")?;
        let mut whole = vector.clone();
        whole.add(&frame.entries).map_err(Fault::ring("share of a vector"))?;
        let mask = self.mask.block(block, rows);
        let (mine, theirs) = match self.side {
            Side::Left => (shape.left, shape.right),
            Side::Right => (shape.right, shape.left),
        };
        if received.entries.width() != shape.width || received.entries.count() < rows * theirs {
            return Err(Fault::short("row block", &received.entries, rows * theirs));
        }
        let columns = super::quantise(own, shape.rows, own.columns(), range.clone(), shape.width, shape.bits)?;
        if columns.count() < rows * mine {
            return Err(Fault::short("own block", &columns, rows * mine));
        }
        let constant = super::quantise(public, shape.rows, 1, range, shape.width, shape.bits)?;
        self.public.add(&constant, vector, rows);
        let (of_mine, of_theirs) = match self.side {
            Side::Left => (&mut self.left, &mut self.right),
            Side::Right => (&mut self.right, &mut self.left),
        };
        of_mine.add(&columns, &whole, rows);
        of_theirs.add(&received.entries, &mask, rows);
        self.taken += 1;
        Ok(())
    }

    /// This party's share of the products; the right party has the dealer's correction.
    ///
    /// # Errors
    /// Row blocks are missing, or the correction does not fit.
    pub fn finish(self, correction: Option<&Elements>) -> Result<VectorShare, Fault> {
        let (came, expected) = (self.sent.min(self.taken) as u64, self.shape.blocks() as u64);
        if came < expected {
            return Err(Fault::Early { what: "the share of a product", came, expected });
        }
        let mut share = self.left.into_elements();
        share.append(&self.right.into_elements()).map_err(Fault::ring("share of a product"))?;
        let dealt = match (&self.share, correction) {
            (Some(mask), None) => mask.block(0, self.shape.correction()),
            (None, Some(correction)) => {
                expect(correction, self.shape.width, self.shape.correction(), "correction")?;
                correction.clone()
            }
            (Some(_), Some(_)) | (None, None) => return Err(Fault::Correction),
        };
        share.add(&dealt).map_err(Fault::ring("correction"))?;
        let mut all = self.public.into_elements();
        all.append(&share).map_err(Fault::ring("share of a product"))?;
        Ok(VectorShare { shape: self.shape, share: all })
    }
}

/// One party's share of a product with a shared vector.
#[derive(Debug)]
pub struct VectorShare {
    shape: VectorShape,
    share: Elements,
}

impl VectorShare {
    /// For the message that opens the product to the peer: the public column's, the left block's, the right block's.
    pub fn share(&self) -> &Elements {
        &self.share
    }

    /// Takes the share of the public column's product out, which then does not open with the others. Both parties do it, or neither.
    pub fn take_public(&mut self) -> Elements {
        let public = self.share.slice(0..1);
        self.share = self.share.slice(1..self.share.count());
        public
    }

    /// Opens the product with the peer's share: integers of the columns' bits plus the vector's.
    ///
    /// # Errors
    /// A share of another size, or a value beyond `bound`.
    pub fn open(self, peer: &Elements, bound: u128) -> Result<Vec<i128>, Fault> {
        expect(peer, self.shape.width, self.share.count(), "share of a product")?;
        let mut opened = self.share;
        opened.add(peer).map_err(Fault::ring("share of a product"))?;
        let integers = opened.to_integers();
        if integers.iter().any(|value| value.unsigned_abs() > bound) {
            return Err(Fault::Bound);
        }
        Ok(integers)
    }
}

/// The dealer's part of a product with a shared vector. It receives nothing.
pub struct VectorDealer {
    shape: VectorShape,
    left_mask: Mask,
    right_mask: Mask,
    share: Mask,
    done: usize,
    left: Sum,
    right: Sum,
}

impl VectorDealer {
    /// At the start. Takes the labels of one product.
    pub fn new(shape: VectorShape, left: &Seed, right: &Seed, labels: &mut Labels) -> VectorDealer {
        let mut expand = |purpose, seed| labels.take(purpose).expand(seed, shape.width);
        let (left_mask, right_mask) = (expand(Purpose::VectorLeft, left), expand(Purpose::VectorRight, right));
        let share = expand(Purpose::VectorShare, left);
        let sum = |columns| Sum::new(shape.width, columns, 1);
        VectorDealer { shape, left_mask, right_mask, share, done: 0, left: sum(shape.left), right: sum(shape.right) }
    }

    /// Works on the next row block with the masks of the table; false after the last.
    pub fn step(&mut self, table: &Masks) -> bool {
        let shape = self.shape;
        if self.done == shape.blocks() {
            return false;
        }
        let rows = row_block(shape.rows, self.done).len();
        // Masks are column by column: the first columns are the beginning of each word's stream.
        let (a, b) = table.block(self.done);
        let (u_a, u_b) = (self.left_mask.block(self.done, rows), self.right_mask.block(self.done, rows));
        self.left.add(&a, &u_b, rows);
        self.right.add(&b, &u_a, rows);
        self.done += 1;
        true
    }

    /// What goes to the right party, after the last row block.
    ///
    /// # Errors
    /// Row blocks are missing.
    pub fn finish(self) -> Result<Elements, Fault> {
        let (came, expected) = (self.done as u64, self.shape.blocks() as u64);
        if came < expected {
            return Err(Fault::Early { what: "the correction of a product", came, expected });
        }
        let mut product = self.left.into_elements();
        product.append(&self.right.into_elements()).map_err(Fault::ring("correction"))?;
        product.subtract(&self.share.block(0, self.shape.correction())).map_err(Fault::ring("correction"))?;
        Ok(product)
    }
}
