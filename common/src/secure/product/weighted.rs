//! The table `X' D(w) X` of both blocks and a public column, for a vector of weights that is shared over the rows, `w = w_a + w_b`.
//!
//! As in the product with a shared vector each party sends `v = w - u`. Of its own block a party then has the share
//! `U = X o (w + v') + c`, of the peer's `V = E' o u + c'`, where `v'` and `E'` came from the peer, and the dealer hands out shares `c` of
//! every mask times the peer's `u`. Half of a sum and its transpose is a share of a diagonal block: of `X'(U + c)` at the owner, of
//! `E'(V + c')` at the peer, and of `A'(c' - c)` from the dealer, as `docs/proofs.md` derives. For the block between the parties the side
//! with fewer columns sends its `U` without a second mask `S`: its share is `S'E'`, and the peer's is the product of `V` plus what came with
//! its own block; the dealer hands out shares of the product of both masks.

use std::collections::VecDeque;

use super::sum::Sum;
use super::table::{Blocks, Frame, Masks, Side, expect};
use super::{Fault, quantise};
use crate::secure::masks::{Label, Labels, Mask, Purpose, Seed};
use crate::secure::ring::{Elements, RingError, Width, row_block, row_blocks};

/// The shape of a weighted table, which all three roles know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WeightedShape {
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

impl WeightedShape {
    /// Row blocks.
    pub fn blocks(&self) -> usize {
        row_blocks(self.rows).len()
    }

    /// Row blocks of a message.
    pub fn batch(&self) -> usize {
        super::batch(self.width, self.left.max(self.right))
    }

    /// Columns of a side.
    pub fn columns(&self, side: Side) -> usize {
        match side {
            Side::Left => self.left,
            Side::Right => self.right,
        }
    }

    /// The side that sends its weighted block: that with fewer columns.
    pub fn sender(&self) -> Side {
        if self.left <= self.right { Side::Left } else { Side::Right }
    }

    /// Elements of the dealer's last correction: both squares, and the block between.
    pub fn correction(&self) -> usize {
        self.left * self.left + self.right * self.right + self.left * self.right
    }

    /// Numbers that open: the lower triangle of the table of public column, left block, right block.
    pub fn opened(&self) -> usize {
        let all = 1 + self.left + self.right;
        all * (all + 1) / 2
    }
}

/// The masks of one weighted table in the order in which every role takes their labels.
struct Series {
    vector: [Label; 2],
    scaled: [Label; 2],
    cross: Label,
    share: Label,
}

impl Series {
    fn take(labels: &mut Labels) -> Series {
        let vector = [labels.take(Purpose::WeightLeft), labels.take(Purpose::WeightRight)];
        let scaled = [labels.take(Purpose::ScaledLeft), labels.take(Purpose::ScaledRight)];
        Series {
            vector,
            scaled,
            cross: labels.take(Purpose::WeightedCross),
            share: labels.take(Purpose::WeightedShare),
        }
    }
}

/// Sums over the rows of which a table is put together, each a share.
struct Sums {
    /// `1' D(w) 1` with the public column in place of ones.
    public: Sum,
    /// Public column times the weighted block, left and right.
    sums: [Sum; 2],
    /// Both squares, left and right: half of the sum with the transpose counts.
    squares: [Sum; 2],
    /// Sender's columns times the other's.
    cross: Sum,
}

impl Sums {
    fn new(shape: &WeightedShape) -> Sums {
        let sides = [shape.left, shape.right];
        let sum = |left, right| Sum::new(shape.width, left, right);
        Sums {
            public: sum(1, 1),
            sums: sides.map(|columns| sum(1, columns)),
            squares: sides.map(|columns| sum(columns, columns)),
            cross: sum(shape.columns(shape.sender()), shape.columns(shape.sender().other())),
        }
    }
}

/// One party's part of a weighted table.
pub struct WeightedParty {
    shape: WeightedShape,
    side: Side,
    vector: Mask,
    /// The own share of the peer's mask times the own `u`.
    scaled: Mask,
    /// The second mask of the own weighted block, at the sender.
    cross: Option<Mask>,
    /// The share of the squares, at the left.
    share: Option<Mask>,
    sent: usize,
    taken: usize,
    crossed: usize,
    /// At the party with more columns, of rows whose weighted block has not come: the own share of it, and the own block.
    waiting: VecDeque<[Elements; 2]>,
    sums: Sums,
}

/// What a party has of some rows when it works on them.
pub struct Rows<'a, X, P> {
    /// The own share of the weights.
    pub weights: &'a Elements,
    /// The peer's masked share of them.
    pub peer: &'a Frame,
    /// The dealer's correction of the own block, column by column.
    pub correction: &'a Frame,
    /// The peer's row block of the table.
    pub received: &'a Frame,
    /// The own block as its table had it.
    pub own: &'a X,
    /// The public column.
    pub public: &'a P,
}

impl WeightedParty {
    /// At the start. Takes the labels of one weighted table.
    pub fn new(shape: WeightedShape, side: Side, seed: &Seed, labels: &mut Labels) -> WeightedParty {
        let Series { vector: [left, right], scaled: [of_left, of_right], cross, share } = Series::take(labels);
        // The share of the left block's mask is the right party's to expand, and the other way round.
        let (vector, scaled) = match side {
            Side::Left => (left, of_right),
            Side::Right => (right, of_left),
        };
        let [vector, scaled] = [vector, scaled].map(|label| label.expand(seed, shape.width));
        let cross = (shape.sender() == side).then(|| cross.expand(seed, shape.width));
        let share = (side == Side::Left).then(|| share.expand(seed, shape.width));
        let (sent, taken, crossed, waiting) = (0, 0, 0, VecDeque::new());
        let sums = Sums::new(&shape);
        WeightedParty { shape, side, vector, scaled, cross, share, sent, taken, crossed, waiting, sums }
    }

    /// Masks the own share of the next rows' weights.
    ///
    /// # Errors
    /// Another number of rows, or all have been sent.
    pub fn hide(&mut self, weights: &Elements) -> Result<Frame, Fault> {
        let block = self.sent;
        let rows = row_block(self.shape.rows, block).len();
        expect(weights, self.shape.width, rows, "share of weights")?;
        if block == self.shape.blocks() {
            return Err(Fault::Order { came: block as u64, expected: block as u64 });
        }
        let mut entries = weights.clone();
        entries.subtract(&self.vector.block(block, rows)).map_err(Fault::ring("share of weights"))?;
        self.sent += 1;
        Ok(Frame { block: block as u64, entries })
    }

    /// Works on the next rows; at the sender, the weighted block to send.
    ///
    /// # Errors
    /// Something out of order or of another size.
    pub fn take<X: Blocks, P: Blocks>(&mut self, rows: &Rows<'_, X, P>) -> Result<Option<Frame>, Fault> {
        let (block, shape, bad) = (self.taken, self.shape, Fault::ring("rows of a weighted table"));
        let frames = [rows.peer.block, rows.correction.block, rows.received.block];
        if let Some(came) = frames.into_iter().find(|came| *came != block as u64 || block == shape.blocks()) {
            return Err(Fault::Order { came, expected: block as u64 });
        }
        let (range, mine, theirs) =
            (row_block(shape.rows, block), shape.columns(self.side), shape.columns(self.side.other()));
        let count = range.len();
        expect(rows.weights, shape.width, count, "own share of weights")?;
        expect(&rows.peer.entries, shape.width, count, "share of weights")?;
        expect(&rows.correction.entries, shape.width, count * mine, "correction of a weighted block")?;
        if rows.received.entries.width() != shape.width || rows.received.entries.count() < count * theirs {
            return Err(Fault::short("row block", &rows.received.entries, count * theirs));
        }
        let all = quantise(rows.own, shape.rows, rows.own.columns(), range.clone(), shape.width, shape.bits)?;
        if all.count() < count * mine {
            return Err(Fault::short("own block", &all, count * mine));
        }
        let own = all.first(count * mine);
        let public = quantise(rows.public, shape.rows, 1, range, shape.width, shape.bits)?;
        let mut whole = rows.weights.clone();
        whole.add(&rows.peer.entries).map_err(&bad)?;
        let (at, other) = match self.side {
            Side::Left => (0, 1),
            Side::Right => (1, 0),
        };
        let sums = &mut self.sums;
        // The own weighted block, and the peer's.
        let correction = &rows.correction.entries;
        let [mut weighted, twice] = Elements::columns_times::<false>(own.whole(), &whole, correction).map_err(&bad)?;
        sums.squares[at].add(&own, &twice, count);
        let (received, vector) = (&rows.received.entries, self.vector.block(block, count));
        let share = self.scaled.block(block, count * theirs);
        let part = received.part(0..count * theirs);
        let [peers, twice] = Elements::columns_times::<false>(part, &vector, &share).map_err(&bad)?;
        sums.squares[other].add(received, &twice, count);
        sums.sums[at].add(&public, &weighted, count);
        sums.sums[other].add(&public, &peers, count);
        let mut constant = public.clone();
        constant.multiply(rows.weights).map_err(&bad)?;
        sums.public.add(&public, &constant, count);
        self.taken += 1;
        let Some(mask) = &self.cross else {
            self.waiting.push_back([peers, own]);
            return Ok(None);
        };
        let mask = mask.block(block, count * mine);
        sums.cross.add(&mask, received, count);
        weighted.subtract(&mask).map_err(&bad)?;
        self.crossed += 1;
        Ok(Some(Frame { block: block as u64, entries: weighted }))
    }

    /// At the party with more columns: takes the sender's masked weighted block in, after [`WeightedParty::take`] of the same rows.
    ///
    /// # Errors
    /// Something out of order or of another size, or at the sender.
    pub fn cross(&mut self, frame: &Frame) -> Result<(), Fault> {
        let (block, shape) = (self.crossed, self.shape);
        if self.cross.is_some() || block >= self.taken || frame.block != block as u64 {
            return Err(Fault::Order { came: frame.block, expected: block as u64 });
        }
        let count = row_block(shape.rows, block).len();
        expect(&frame.entries, shape.width, count * shape.columns(self.side.other()), "weighted block")?;
        let came = Fault::Order { came: frame.block, expected: block as u64 };
        let [mut whole, own] = self.waiting.pop_front().ok_or(came)?;
        whole.add(&frame.entries).map_err(Fault::ring("weighted block"))?;
        self.sums.cross.add(&whole, &own, count);
        self.crossed += 1;
        Ok(())
    }

    /// This party's share of the table; the right party has the dealer's correction.
    ///
    /// # Errors
    /// Row blocks are missing, or the correction does not fit.
    pub fn finish(self, correction: Option<&Elements>) -> Result<WeightedShare, Fault> {
        let (shape, bad) = (self.shape, Fault::ring("share of a weighted table"));
        let (came, expected) = (self.sent.min(self.taken).min(self.crossed) as u64, shape.blocks() as u64);
        if came < expected {
            return Err(Fault::Early { what: "the share of a weighted table", came, expected });
        }
        let dealt = match (&self.share, correction) {
            (Some(mask), None) => mask.block(0, shape.correction()),
            (None, Some(correction)) => {
                expect(correction, shape.width, shape.correction(), "correction")?;
                correction.clone()
            }
            (Some(_), Some(_)) | (None, None) => return Err(Fault::Correction),
        };
        let Sums { public, sums: [sum_left, sum_right], squares: [left, right], cross } = self.sums;
        let (squares, end) = ([shape.left, shape.right].map(|columns| columns * columns), shape.correction());
        let parts = [0..squares[0], squares[0]..squares[0] + squares[1], squares[0] + squares[1]..end];
        let [of_left, of_right, between] = parts.map(|part| dealt.slice(part));
        let square = |sum: Sum, dealt: &Elements, columns: usize| -> Result<Elements, Fault> {
            let mut all = symmetric(sum, shape.width, columns)?;
            all.add(dealt).map_err(&bad)?;
            Ok(all)
        };
        let left = square(left, &of_left, shape.left)?;
        let right = square(right, &of_right, shape.right)?;
        let mut cross = cross.into_elements();
        cross.add(&between).map_err(&bad)?;
        let mut share = public.into_elements();
        for part in [sum_left.into_elements(), sum_right.into_elements(), left, right, cross] {
            share.append(&part).map_err(&bad)?;
        }
        Ok(WeightedShare { shape, share: share.select(triangle(&shape).into_iter()) })
    }
}

/// Half of the sum of a square and its transpose. One half is a number of the ring, as its modulus is odd.
fn symmetric(sum: Sum, width: Width, columns: usize) -> Result<Elements, Fault> {
    let bad = Fault::ring("square of a weighted table");
    let mut all = sum.into_elements();
    let transposed = all.select((0..columns).flat_map(move |k| (0..columns).map(move |j| j * columns + k)));
    all.add(&transposed).map_err(&bad)?;
    all.multiply_all(i128::try_from(width.modulus().div_ceil(2)).map_err(|_| bad(RingError::Range))?);
    Ok(all)
}

/// Places of the lower triangle of the table, row by row, in the parts one behind the other: the public square, both rows of sums, both
/// squares, the block between.
fn triangle(shape: &WeightedShape) -> Vec<usize> {
    let (left, right) = (shape.left, shape.right);
    let squares = 1 + left + right;
    let cross = squares + left * left + right * right;
    let mut places = vec![0];
    for j in 0..left {
        places.push(1 + j);
        places.extend((0..=j).map(|k| squares + k * left + j));
    }
    for j in 0..right {
        places.push(1 + left + j);
        places.extend((0..left).map(|k| match shape.sender() {
            Side::Left => cross + j * left + k,
            Side::Right => cross + k * right + j,
        }));
        places.extend((0..=j).map(|k| squares + left * left + k * right + j));
    }
    places
}

/// One party's share of a weighted table.
#[derive(Debug)]
pub struct WeightedShare {
    shape: WeightedShape,
    share: Elements,
}

impl WeightedShare {
    /// For the message that opens the table to the peer: its lower triangle, row by row.
    pub fn share(&self) -> &Elements {
        &self.share
    }

    /// The table without the public column. Both parties leave it out, or neither.
    pub fn without_public(self) -> WeightedShare {
        let columns = self.shape.left + self.shape.right;
        let places = (1..=columns).flat_map(|j| (1..=j).map(move |k| j * (j + 1) / 2 + k));
        WeightedShare { shape: self.shape, share: self.share.select(places) }
    }

    /// Opens the lower triangle with the peer's share: integers of twice the columns' bits plus the weights'.
    ///
    /// # Errors
    /// A share of another size, or a value beyond `bound`.
    pub fn open(self, peer: &Elements, bound: u128) -> Result<Vec<i128>, Fault> {
        expect(peer, self.shape.width, self.share.count(), "share of a weighted table")?;
        let mut opened = self.share;
        opened.add(peer).map_err(Fault::ring("share of a weighted table"))?;
        let integers = opened.to_integers();
        if integers.iter().any(|value| value.unsigned_abs() > bound) {
            return Err(Fault::Bound);
        }
        Ok(integers)
    }
}

/// The dealer's part of a weighted table. It receives nothing.
pub struct WeightedDealer {
    shape: WeightedShape,
    vector: [Mask; 2],
    scaled: [Mask; 2],
    cross: Mask,
    share: Mask,
    done: usize,
    squares: [Sum; 2],
    between: Sum,
}

impl WeightedDealer {
    /// At the start. Takes the labels of one weighted table.
    pub fn new(shape: WeightedShape, left: &Seed, right: &Seed, labels: &mut Labels) -> WeightedDealer {
        let Series { vector: [u_left, u_right], scaled: [of_left, of_right], cross, share } = Series::take(labels);
        let expand = |label: Label, seed| label.expand(seed, shape.width);
        let sender = match shape.sender() {
            Side::Left => left,
            Side::Right => right,
        };
        let Sums { squares, cross: between, .. } = Sums::new(&shape);
        WeightedDealer {
            vector: [expand(u_left, left), expand(u_right, right)],
            scaled: [expand(of_left, right), expand(of_right, left)],
            cross: expand(cross, sender),
            share: expand(share, left),
            done: 0,
            squares,
            between,
            shape,
        }
    }

    /// The corrections of the next row block, for the left and for the right party; none after the last.
    ///
    /// # Errors
    /// Never with masks of the agreed shape.
    pub fn step(&mut self, table: &Masks) -> Result<Option<[Frame; 2]>, Fault> {
        let (block, shape, bad) = (self.done, self.shape, Fault::ring("masks"));
        if block == shape.blocks() {
            return Ok(None);
        }
        let count = row_block(shape.rows, block).len();
        let (a, b) = table.block(block);
        let (masks, columns) = ([a, b], [shape.left, shape.right]);
        let mut correct = |side: usize| -> Result<Elements, Fault> {
            let (vector, count) = (self.vector[1 - side].block(block, count), count * columns[side]);
            let share = self.scaled[side].block(block, count);
            let part = masks[side].part(0..count);
            let [correction, less] = Elements::columns_times::<true>(part, &vector, &share).map_err(&bad)?;
            // Minus what the squares lack.
            self.squares[side].add(&masks[side], &less, vector.count());
            Ok(correction)
        };
        let corrections = [correct(0)?, correct(1)?];
        let (sender, other) = match shape.sender() {
            Side::Left => (0, 1),
            Side::Right => (1, 0),
        };
        self.between.add(&self.cross.block(block, count * columns[sender]), &masks[other], count);
        self.done += 1;
        Ok(Some(corrections.map(|entries| Frame { block: block as u64, entries })))
    }

    /// What goes to the right party, after the last row block.
    ///
    /// # Errors
    /// Row blocks are missing.
    pub fn finish(self) -> Result<Elements, Fault> {
        let (came, expected) = (self.done as u64, self.shape.blocks() as u64);
        if came < expected {
            return Err(Fault::Early { what: "the correction of a weighted table", came, expected });
        }
        let bad = Fault::ring("correction");
        let [left, right] = self.squares;
        let WeightedShape { width, left: first, right: second, .. } = self.shape;
        let mut product = symmetric(left, width, first)?;
        product.append(&symmetric(right, width, second)?).map_err(&bad)?;
        product.multiply_all(-1);
        product.append(&self.between.into_elements()).map_err(&bad)?;
        product.subtract(&self.share.block(0, self.shape.correction())).map_err(&bad)?;
        Ok(product)
    }
}
