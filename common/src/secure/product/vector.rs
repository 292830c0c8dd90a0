//! Products `X' r` of both blocks with a vector that is shared over the rows, `r = r_a + r_b`.
//!
//! The blocks were masked once, for their table: `E = X_a - A` at the right party, `F = X_b - B` at the left one. Each party sends its
//! share of `r` minus a fresh mask, `v = r - u`. The dealer hands out shares `c` of `A' u_b` and `d` of `B' u_a`. Shares of `X_a' r` are
//! `X_a' (r_a + v_b) + c_a` at the left and `E' u_b + c_b` at the right, those of `X_b' r` mirrored. A vector under a used mask would
//! show its difference from the first one; therefore the mask is part of a value that is consumed.
//!
//! An intercept is a public column, whose products with both shares are local.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use super::Fault;
use super::sum::Sum;
use super::table::{Blocks, Frame, Masks, Side, expect};
use crate::secure::masks::{Labels, Mask, Purpose, Seed};
use crate::secure::ring::{Elements, RingError, Width, row_block, row_blocks};

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
        let mut values = Vec::new();
        let lent: Option<Vec<&[f64]>> = (0..mine).map(|column| own.lent(column, range.clone())).collect();
        let columns = match lent {
            Some(columns) if own.rows() == shape.rows => columns,
            Some(_) | None => {
                super::fill(own, shape.rows, own.columns(), range.clone(), &mut values)?;
                values.chunks_exact(rows.max(1)).take(mine).collect()
            }
        };
        if columns.len() < mine {
            let fault = RingError::Count { came: rows * columns.len(), expected: rows * mine };
            return Err(Fault::Ring { what: "own block", fault });
        }
        let constant = super::quantise(public, shape.rows, 1, range, shape.width, shape.bits)?;
        self.public.add(&constant, vector, rows);
        let (of_mine, of_theirs) = match self.side {
            Side::Left => (&mut self.left, &mut self.right),
            Side::Right => (&mut self.right, &mut self.left),
        };
        of_mine.add_fixed(&columns, shape.bits, &whole).map_err(|_| Fault::OwnValue)?;
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

/// Products with a vector for which the masks of a table are expanded in one go: more than most fits need.
const FORESEEN: usize = 6;

/// The dealer's part of products with a shared vector that are still to be ordered. What takes time is to expand the masks of the table; the
/// masks of the vectors do not depend on anything that is ordered, so that one pass serves several products.
#[derive(Default)]
pub struct Foreseen {
    waiting: VecDeque<Arc<Vector>>,
}

/// The masks of one product, and what the masks of a table come to with them.
struct Vector {
    width: Width,
    /// Of the left party's vector and of the right one's.
    masks: [Mask; 2],
    share: Mask,
    /// The products of all columns of the table, of the left block with the right party's mask and the other way round.
    sums: OnceLock<[Elements; 2]>,
}

impl Foreseen {
    /// The next product. Takes its labels, and where nothing is foreseen those of some more.
    pub fn next(&mut self, shape: VectorShape, left: &Seed, right: &Seed, labels: &mut Labels) -> VectorDealer {
        let mut vector = || {
            let mut expand = |purpose, seed| labels.take(purpose).expand(seed, shape.width);
            let masks = [expand(Purpose::VectorLeft, left), expand(Purpose::VectorRight, right)];
            let share = expand(Purpose::VectorShare, left);
            Arc::new(Vector { width: shape.width, masks, share, sums: OnceLock::new() })
        };
        let own = match self.waiting.pop_front() {
            Some(own) if own.width == shape.width => own,
            Some(own) => Arc::new(own.of_width(shape.width)),
            None => {
                let own = vector();
                self.waiting.extend((1..FORESEEN).map(|_| vector()));
                own
            }
        };
        VectorDealer { shape, own, further: self.further(shape.width), done: 0, sums: Vec::new() }
    }

    /// Those with which a product can be made in one pass.
    fn further(&self, width: Width) -> Vec<Arc<Vector>> {
        self.waiting.iter().filter(|vector| vector.width == width).cloned().collect()
    }

    /// A further table follows, whose masks are others.
    pub fn forget(&mut self) {
        for vector in &mut self.waiting {
            *vector = Arc::new(vector.of_width(vector.width));
        }
    }
}

impl Vector {
    /// The same masks as elements of some ring, without products.
    fn of_width(&self, width: Width) -> Vector {
        let of = |mask: &Mask| mask.of_width(width);
        Vector { width, masks: self.masks.each_ref().map(of), share: of(&self.share), sums: OnceLock::new() }
    }
}

/// The dealer's part of a product with a shared vector. It receives nothing.
pub struct VectorDealer {
    shape: VectorShape,
    own: Arc<Vector>,
    /// Those of later products.
    further: Vec<Arc<Vector>>,
    done: usize,
    /// Of this product and of the further ones, left and right.
    sums: Vec<[Sum; 2]>,
}

impl VectorDealer {
    /// At the start, from the seeds of both parties. Takes the labels of one product.
    pub fn new(shape: VectorShape, left: &Seed, right: &Seed, labels: &mut Labels) -> VectorDealer {
        let mut expand = |purpose, seed| labels.take(purpose).expand(seed, shape.width);
        let masks = [expand(Purpose::VectorLeft, left), expand(Purpose::VectorRight, right)];
        let share = expand(Purpose::VectorShare, left);
        let own = Arc::new(Vector { width: shape.width, masks, share, sums: OnceLock::new() });
        VectorDealer { shape, own, further: Vec::new(), done: 0, sums: Vec::new() }
    }

    /// Works on the next row block with the masks of the table; false after the last, or where an earlier product has done it all.
    pub fn step(&mut self, table: &Masks) -> bool {
        let shape = self.shape;
        if self.own.sums.get().is_some() {
            return false;
        }
        let vectors = || std::iter::once(&self.own).chain(&self.further);
        if self.sums.is_empty() {
            let sums = |_| table.columns().map(|columns| Sum::new(shape.width, columns, 1));
            self.sums = vectors().map(sums).collect();
        }
        let more = self.done < shape.blocks();
        if more {
            let rows = row_block(shape.rows, self.done).len();
            let (a, b) = table.block(self.done);
            for (vector, [left, right]) in vectors().zip(&mut self.sums) {
                let [u_a, u_b] = vector.masks.each_ref().map(|mask| mask.block(self.done, rows));
                left.add(&a, &u_b, rows);
                right.add(&b, &u_a, rows);
            }
            self.done += 1;
        }
        if self.done == shape.blocks() {
            for (vector, [left, right]) in vectors().zip(std::mem::take(&mut self.sums)) {
                // Fails where they are there already, and then they are the same.
                drop(vector.sums.set([left.into_elements(), right.into_elements()]));
            }
        }
        more
    }

    /// What goes to the right party, after the last row block.
    ///
    /// # Errors
    /// Row blocks are missing.
    pub fn finish(self) -> Result<Elements, Fault> {
        let (came, expected) = (self.done as u64, self.shape.blocks() as u64);
        let Some([left, right]) = self.own.sums.get() else {
            return Err(Fault::Early { what: "the correction of a product", came, expected });
        };
        // Masks are column by column, and the first columns take part.
        let mut product = left.slice(0..self.shape.left);
        product.append(&right.slice(0..self.shape.right)).map_err(Fault::ring("correction"))?;
        let share = self.own.share.block(0, self.shape.correction());
        product.subtract(&share).map_err(Fault::ring("correction"))?;
        Ok(product)
    }
}
