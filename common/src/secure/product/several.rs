//! The tables `X_i' X_j` between the blocks of several parties, of every pair, row block by row block.
//!
//! As [between two](super::Party): the dealer knows a mask `A_i` of every block, and each party sends its block minus its mask once,
//! `E_i = X_i - A_i`, to all others. Of a pair with `i < j` the table is `X_i' E_j + E_i' A_j + A_i' A_j`: party `i` computes the first
//! term, party `j` the second, and the dealer hands out the third as two shares, of which that of `i` is expanded from its seed. A block
//! stands behind one mask in all its products, so that nobody sees it behind two; every pair has shares of its own, and all but
//! the two of a pair and the dealer together lack something that is uniform for them.
//!
//! Behind each block stands a column of public 20-bit integers, the party's canary, as between two.

use std::collections::VecDeque;
use std::ops::Range;

use rayon::prelude::*;

use super::sum::Sum;
use super::table::expect;
use super::{Blocks, Fault, Frame, Keep, frames, hidden, public, unscaled};
use crate::secure::masks::{Labels, Mask, Purpose, Seed};
use crate::secure::ring::{Elements, ROWS, Width, row_block};

/// Most parties of a study.
pub const MOST_PARTIES: usize = 16;

/// Blocks of several parties, which all of them and the dealer know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeveralShape {
    /// The ring.
    pub width: Width,
    /// Bits behind the binary point of all blocks.
    pub bits: u32,
    /// Rows of all blocks.
    pub rows: usize,
    /// Columns of each block, without the canary; zero behind the last.
    columns: [usize; MOST_PARTIES],
    parties: usize,
}

impl SeveralShape {
    /// Of at least two blocks and at most [`MOST_PARTIES`], none of which is empty.
    pub fn new(width: Width, bits: u32, rows: usize, blocks: &[usize]) -> Option<SeveralShape> {
        let parties = blocks.len();
        if !(2..=MOST_PARTIES).contains(&parties) || blocks.contains(&0) {
            return None;
        }
        let mut columns = [0; MOST_PARTIES];
        columns[..parties].copy_from_slice(blocks);
        Some(SeveralShape { width, bits, rows, columns, parties })
    }

    /// Columns of each block, in the order of the parties.
    pub fn columns(&self) -> &[usize] {
        &self.columns[..self.parties]
    }

    /// Row blocks that each party sends.
    pub fn blocks(&self) -> usize {
        self.rows.div_ceil(ROWS)
    }

    /// Columns of some blocks with their canaries.
    fn wide(&self, places: Range<usize>) -> usize {
        self.columns[places].iter().fold(0, |sum, columns| sum.saturating_add(columns.saturating_add(1)))
    }

    /// Columns of all blocks with their canaries.
    pub fn all(&self) -> usize {
        self.wide(0..self.parties)
    }

    /// Columns of the blocks before one, with their canaries.
    fn before(&self, place: usize) -> usize {
        self.wide(0..place)
    }

    /// Columns of the blocks behind one, with their canaries.
    fn after(&self, place: usize) -> usize {
        self.wide(place + 1..self.parties)
    }

    /// Elements of a row block of one party.
    pub fn frame(&self, place: usize, block: usize) -> usize {
        row_block(self.rows, block).len() * self.wide(place..place + 1)
    }

    /// Elements of a row block of all parties but one.
    pub fn others(&self, place: usize, block: usize) -> usize {
        row_block(self.rows, block).len() * (self.before(place) + self.after(place))
    }

    /// Elements of the dealer's correction for a party: none for the first.
    pub fn correction(&self, place: usize) -> usize {
        self.before(place).saturating_mul(self.wide(place..place + 1))
    }

    /// Entries of all tables in which a party's columns take part.
    pub fn opened(&self, place: usize) -> usize {
        let others = self.columns().iter().sum::<usize>() - self.columns[place];
        others * self.columns[place]
    }

    /// Bytes that a party's block has in row blocks, without framing.
    pub fn bytes(&self, place: usize) -> u64 {
        self.rows as u64 * self.wide(place..place + 1) as u64 * self.width.bytes() as u64
    }

    /// The other parties' places, in order.
    pub fn partners(&self, place: usize) -> impl Iterator<Item = usize> + Clone {
        (0..self.parties).filter(move |other| *other != place)
    }

    /// The largest size of an entry, as [`Shape`](super::Shape) has it.
    fn bound(&self) -> i128 {
        let most = (self.rows as i128) << (2 * self.bits);
        most + (most >> 10)
    }
}

/// One party's part of all tables.
pub struct SeveralParty {
    shape: SeveralShape,
    place: usize,
    mask: Mask,
    share: Mask,
    canaries: Vec<Mask>,
    /// Own row blocks that were sent and whose counterparts have not come.
    own: VecDeque<Elements>,
    sent: usize,
    taken: usize,
    /// Of the products of the own canary with those of the others, in order.
    expected: Vec<i128>,
    /// `E' A` of the parties before this one.
    earlier: Option<Sum>,
    /// `X' E` of the parties behind this one.
    later: Option<Sum>,
}

/// What a party expands from its own seed: every party takes the labels of all, so that they stay in step.
fn expanded(shape: &SeveralShape, place: usize, seed: &Seed, labels: &mut Labels) -> (Mask, Mask) {
    let mut own = None;
    for party in 0..shape.parties {
        let [mask, share] = [Purpose::TableLeft, Purpose::TableShare].map(|purpose| labels.take(purpose));
        if party == place {
            own = Some([mask, share].map(|label| label.expand(seed, shape.width)));
        }
    }
    let [mask, share] = own.unwrap_or_else(|| {
        [Purpose::TableLeft, Purpose::TableShare].map(|purpose| labels.take(purpose).expand(seed, shape.width))
    });
    (mask, share)
}

impl SeveralParty {
    /// At the start, of the party at a place of the shape. Takes the labels of one round of tables.
    pub fn new(shape: SeveralShape, place: usize, seed: &Seed, labels: &mut Labels) -> SeveralParty {
        let (mask, share) = expanded(&shape, place, seed, labels);
        let canaries = (0..shape.parties).map(|_| labels.take(Purpose::Canary).publish(Width::One)).collect();
        let (before, own, after) = (shape.before(place), shape.columns[place] + 1, shape.after(place));
        SeveralParty {
            shape,
            place,
            mask,
            share,
            canaries,
            own: VecDeque::new(),
            sent: 0,
            taken: 0,
            expected: vec![0; shape.parties - 1],
            earlier: (before > 0).then(|| Sum::new(shape.width, before, own)),
            later: (after > 0).then(|| Sum::new(shape.width, own, after)),
        }
    }

    /// The next row blocks to send, at most a given number of; none after the last.
    ///
    /// # Errors
    /// The matrix has another shape than agreed, or a value is beyond the bound of fixed point.
    pub fn hide_blocks(&mut self, own: &impl Blocks, most: usize) -> Result<Vec<Frame>, Fault> {
        let blocks = self.sent..self.shape.blocks().min(self.sent.saturating_add(most));
        let (shape, place, first) = (self.shape, self.place, blocks.start);
        let size = |block: usize| shape.frame(place, block);
        let (kept, message) = hidden(
            blocks.clone(),
            size,
            (shape.width, shape.bits),
            (&self.mask, if self.later.is_some() { Keep::Own } else { Keep::Nothing }),
            |block, values| self.fill(block, own, values),
        )?;
        if self.later.is_some() {
            self.own.extend(kept);
        }
        self.sent = blocks.end;
        Ok(frames(first, &message, size, blocks.len()))
    }

    /// Takes in the next row blocks of all others, each with the blocks of all of them in order beside each other.
    ///
    /// # Errors
    /// A row block out of order, of another size, or before the own one was sent.
    pub fn take_blocks(&mut self, frames: &[Frame]) -> Result<(), Fault> {
        for frame in frames {
            let (shape, place, block) = (self.shape, self.place, self.taken);
            if frame.block != block as u64 || block >= self.sent {
                return Err(Fault::Order { came: frame.block, expected: block as u64 });
            }
            expect(&frame.entries, shape.width, shape.others(place, block), "row block")?;
            let rows = row_block(shape.rows, block).len();
            let before = frame.entries.slice(0..rows * shape.before(place));
            if let Some(sum) = &mut self.later {
                let own = self.own.pop_front().ok_or(Fault::Order { came: frame.block, expected: block as u64 })?;
                let after = frame.entries.slice(rows * shape.before(place)..frame.entries.count());
                sum.add(&own, &after, rows);
            }
            if let Some(sum) = &mut self.earlier {
                let mask = self.mask.block(block, shape.frame(place, block));
                sum.add(&before, &mask, rows);
            }
            let canary = |of: usize| public(&self.canaries[of], block, rows).0;
            let own = canary(place);
            for (expected, other) in self.expected.iter_mut().zip(shape.partners(place)) {
                *expected += own.iter().zip(canary(other)).map(|(a, b)| (a * b) as i128).sum::<i128>();
            }
            self.taken += 1;
        }
        Ok(())
    }

    /// This party's shares of all tables that it takes part in, once all row blocks have passed; all but the first party have the
    /// dealer's correction.
    ///
    /// # Errors
    /// Row blocks are missing, or the correction does not fit.
    pub fn finish(self, correction: Option<&Elements>) -> Result<SeveralShares, Fault> {
        let SeveralParty { shape, place, share, .. } = self;
        let (came, blocks) = (self.sent.min(self.taken), shape.blocks());
        if came < blocks {
            let (came, expected) = (came as u64, blocks as u64);
            return Err(Fault::Early { what: "the shares of tables", came, expected });
        }
        let earlier = match (self.earlier, correction) {
            (Some(sum), Some(correction)) => {
                expect(correction, shape.width, shape.correction(place), "correction")?;
                let mut share = sum.into_elements();
                share.add(correction).map_err(Fault::ring("correction"))?;
                Some(share)
            }
            (None, None) => None,
            (Some(_), None) | (None, Some(_)) => return Err(Fault::Correction),
        };
        let later = match self.later {
            Some(sum) => {
                let mut own = sum.into_elements();
                own.add(&share.block(0, own.count())).map_err(Fault::ring("share of masks"))?;
                Some(own)
            }
            None => None,
        };
        let (mut canary, mut tables) = (Elements::zeros(shape.width, 0), Elements::zeros(shape.width, 0));
        for other in shape.partners(place) {
            let (whole, rows, at, [height, width]) = match other < place {
                true => (&earlier, shape.before(place), [shape.before(other), 0], [other, place]),
                false => (&later, shape.columns[place] + 1, [0, shape.wide(place + 1..other)], [place, other]),
            };
            let whole = whole.as_ref().ok_or(Fault::Correction)?;
            let [height, width] = [height, width].map(|party| shape.columns[party]);
            let entry = move |row: usize, column: usize| rows * (at[1] + column) + at[0] + row;
            let inner = (0..width).flat_map(move |column| (0..height).map(move |row| entry(row, column)));
            let ring = Fault::ring("own shares");
            canary.append(&whole.select(std::iter::once(entry(height, width)))).map_err(&ring)?;
            tables.append(&whole.select(inner)).map_err(&ring)?;
        }
        let expected = Elements::from_integers(shape.width, &self.expected);
        Ok(SeveralShares { shape, place, canary, expected, tables })
    }

    /// The values of a row block, the canary behind them.
    fn fill(&self, block: usize, own: &impl Blocks, values: &mut Vec<f64>) -> Result<(), Fault> {
        let shape = &self.shape;
        let range = row_block(shape.rows, block);
        let (canary, _) = public(&self.canaries[self.place], block, range.len());
        super::fill(own, shape.rows, shape.columns[self.place], range, values)?;
        values.extend(unscaled(canary, shape.bits));
        Ok(())
    }
}

/// One party's shares: those of the canaries may go to the others, and once theirs have been checked those of the tables.
#[derive(Debug)]
pub struct SeveralShares {
    shape: SeveralShape,
    place: usize,
    canary: Elements,
    expected: Elements,
    tables: Elements,
}

impl SeveralShares {
    /// The shares of the products of canaries, one a partner in order.
    pub fn canary(&self) -> &Elements {
        &self.canary
    }

    /// The place of the first partner whose share of the product with the own canary does not go with the own one; none where all do.
    pub fn stray(&self, partners: &Elements) -> Option<usize> {
        let mut opened = self.canary.clone();
        opened.add(partners).ok()?;
        let fits = |at: &usize| opened.slice(*at..at + 1) == self.expected.slice(*at..at + 1);
        let stray = (0..self.expected.count()).find(|at| !fits(at))?;
        self.shape.partners(self.place).nth(stray)
    }

    /// Compares the canaries with what they must be, from the partners' shares of their products with the own one; only then are there
    /// shares of tables that can be sent.
    ///
    /// # Errors
    /// [`Fault::OutOfStep`], and the run must end without an opening; or shares of another number.
    pub fn check(self, partners: &Elements) -> Result<SeveralTables, Fault> {
        let SeveralShares { shape, place, canary, expected, tables } = self;
        expect(partners, shape.width, shape.parties - 1, "shares of canaries")?;
        let mut opened = canary;
        opened.add(partners).map_err(Fault::ring("shares of canaries"))?;
        match opened == expected {
            true => Ok(SeveralTables { shape, place, tables }),
            false => Err(Fault::OutOfStep),
        }
    }
}

/// One party's shares of all tables with its columns, whose canaries were right.
#[derive(Debug, Clone)]
pub struct SeveralTables {
    shape: SeveralShape,
    place: usize,
    tables: Elements,
}

impl SeveralTables {
    /// The shares, partner by partner in order: each table with the columns of the earlier party as rows, column by column.
    pub fn shares(&self) -> &Elements {
        &self.tables
    }

    /// The tables of all pairs, in order, from the shares of all parties in order, one of which may be the own one.
    ///
    /// # Errors
    /// Shares of another number: whose, by place; or a value that no columns of mean square 1 can give.
    pub fn open(shape: &SeveralShape, all: &[Elements]) -> Result<Vec<nalgebra::DMatrix<f64>>, (usize, Fault)> {
        let (scale, rows) = (2f64.powi(-2 * shape.bits as i32), shape.rows as f64);
        let integers = SeveralTables::integers(shape, all, shape.bound().unsigned_abs())?;
        let table = |((first, second), integers): ((usize, usize), Vec<i128>)| {
            let values = integers.iter().map(|value| *value as f64 * scale / rows);
            nalgebra::DMatrix::from_iterator(shape.columns[first], shape.columns[second], values)
        };
        Ok(pairs(shape.parties).zip(integers).map(table).collect())
    }

    /// The whole numbers of the tables of all pairs, in order, each column by column, which are at most `bound` in size.
    ///
    /// # Errors
    /// As [`SeveralTables::open`].
    pub fn integers(shape: &SeveralShape, all: &[Elements], bound: u128) -> Result<Vec<Vec<i128>>, (usize, Fault)> {
        for (place, shares) in all.iter().enumerate() {
            expect(shares, shape.width, shape.opened(place), "shares of tables").map_err(|fault| (place, fault))?;
        }
        let of = |(first, second): (usize, usize)| {
            let integers = opened(shape, all, [first, second]).map_err(|fault| (second, fault))?;
            match integers.iter().any(|value| value.unsigned_abs() > bound) {
                true => Err((second, Fault::Bound)),
                false => Ok(integers),
            }
        };
        pairs(shape.parties).map(of).collect()
    }

    /// Whose shares they are.
    pub fn place(&self) -> usize {
        self.place
    }

    /// Of which tables.
    pub fn shape(&self) -> &SeveralShape {
        &self.shape
    }
}

/// All pairs of parties in order.
pub fn pairs(parties: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..parties).flat_map(move |first| (first + 1..parties).map(move |second| (first, second)))
}

/// Where the table with a partner stands among a party's shares.
pub fn place_of(shape: &SeveralShape, place: usize, partner: usize) -> Range<usize> {
    let size = |other: usize| shape.columns[place] * shape.columns[other];
    let begin = shape.partners(place).take_while(|other| *other < partner).map(size).sum::<usize>();
    begin..begin + size(partner)
}

/// The integers of one pair's table, from the shares of all.
fn opened(shape: &SeveralShape, all: &[Elements], [first, second]: [usize; 2]) -> Result<Vec<i128>, Fault> {
    let mut sum = all[first].slice(place_of(shape, first, second));
    sum.add(&all[second].slice(place_of(shape, second, first))).map_err(Fault::ring("shares of tables"))?;
    Ok(sum.to_integers())
}

/// The dealer's part. It receives nothing, and its memory does not depend on the rows.
pub struct SeveralDealer {
    shape: SeveralShape,
    masks: Vec<Mask>,
    shares: Vec<Mask>,
    /// `A_before' A` of all parties but the first.
    sums: Vec<Sum>,
    done: usize,
}

impl SeveralDealer {
    /// At the start, from the seeds of all parties. Takes the labels of one round of tables.
    pub fn new(shape: SeveralShape, seeds: &[Seed], labels: &mut Labels) -> SeveralDealer {
        let (mut masks, mut shares) = (Vec::new(), Vec::new());
        for seed in seeds {
            masks.push(labels.take(Purpose::TableLeft).expand(seed, shape.width));
            shares.push(labels.take(Purpose::TableShare).expand(seed, shape.width));
        }
        for _ in seeds {
            labels.take(Purpose::Canary);
        }
        let sum = |place: usize| Sum::new(shape.width, shape.before(place), shape.columns[place] + 1);
        SeveralDealer { shape, masks, shares, sums: (1..shape.parties).map(sum).collect(), done: 0 }
    }

    /// Works on the next row block; false after the last.
    pub fn step(&mut self) -> bool {
        let (shape, block) = (self.shape, self.done);
        if block == shape.blocks() {
            return false;
        }
        let rows = row_block(shape.rows, block).len();
        let expand = |(place, mask): (usize, &Mask)| mask.block(block, shape.frame(place, block));
        let blocks: Vec<Elements> = self.masks.par_iter().enumerate().map(expand).collect();
        for (sum, place) in self.sums.iter_mut().zip(1..) {
            // Of one ring by construction.
            if let Ok(before) = Elements::concat(shape.width, blocks[..place].iter()) {
                sum.add(&before, &blocks[place], rows);
            }
        }
        self.done += 1;
        true
    }

    /// What goes to each party but the first, after the last row block.
    ///
    /// # Errors
    /// Row blocks are missing.
    pub fn finish(self) -> Result<Vec<Elements>, Fault> {
        let SeveralDealer { shape, shares, sums, .. } = self;
        let (came, expected) = (self.done as u64, shape.blocks() as u64);
        if came < expected {
            return Err(Fault::Early { what: "the corrections of tables", came, expected });
        }
        let whole = |(place, share): (usize, &Mask)| share.block(0, (shape.columns[place] + 1) * shape.after(place));
        let shares: Vec<Elements> = shares.iter().enumerate().map(whole).collect();
        let mut corrections = Vec::new();
        for (sum, place) in sums.into_iter().zip(1..) {
            let of = |(earlier, column): (usize, usize)| {
                let height = shape.columns[earlier] + 1;
                let first = (shape.wide(earlier + 1..place) + column) * height;
                shares[earlier].slice(first..first + height)
            };
            let parts = (0..=shape.columns[place]).flat_map(|column| (0..place).map(move |earlier| (earlier, column)));
            let parts: Vec<Elements> = parts.map(of).collect();
            let of_earlier = Elements::concat(shape.width, parts.iter()).map_err(Fault::ring("correction"))?;
            let mut correction = sum.into_elements();
            correction.subtract(&of_earlier).map_err(Fault::ring("correction"))?;
            corrections.push(correction);
        }
        Ok(corrections)
    }
}
