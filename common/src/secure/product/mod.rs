//! Products of two parties' columns, as shares of which each party holds one.

mod rows;
mod several;
mod sum;
mod table;
mod vector;
mod weighted;

pub use rows::{Canary, RowDealer, RowParty, RowShape};
pub use several::{
    MOST_PARTIES, SeveralDealer, SeveralParty, SeveralShape, SeveralShares, SeveralTables, pairs, place_of,
};
pub use table::{Blocks, Correction, Dealer, Frame, Masks, Opened, Party, Shape, Shares, Side, TableShare};
pub use vector::{Foreseen, VectorDealer, VectorParty, VectorShape, VectorShare};
pub use weighted::{Rows, WeightedDealer, WeightedParty, WeightedShape, WeightedShare};

use std::ops::Range;

use rayon::prelude::*;

use super::lanes;
use super::masks::{CHUNK, Mask, put};
use super::ring::{Elements, LARGEST_FIXED, ROWS, RingError, Width, moduli};

/// Bytes of a message of row blocks of a product, about, of a party and of the dealer alike.
const MESSAGE_BYTES: usize = 4 << 20;

/// Row blocks of a message: the same for all three roles, so that a correction comes for what has just been exchanged.
fn batch(width: Width, columns: usize) -> usize {
    (MESSAGE_BYTES / (ROWS * columns.max(1) * width.bytes())).max(1)
}

/// Why a product ends before it opens.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// What came is not what the ring allows.
    #[error("{what}: {fault}")]
    Ring {
        /// Which message.
        what: &'static str,
        /// What is wrong with it.
        fault: RingError,
    },
    /// A row block out of order.
    #[error("row block {came} came, expected {expected}")]
    Order {
        /// What came.
        came: u64,
        /// What was expected.
        expected: u64,
    },
    /// More or less than what the protocol has at this point.
    #[error("{what}: {came} row blocks of {expected} have passed")]
    Early {
        /// Which step.
        what: &'static str,
        /// Row blocks that have passed.
        came: u64,
        /// Row blocks of the table.
        expected: u64,
    },
    /// A correction that this party does not get, or none where it gets one.
    #[error("the dealer's correction goes to the other party")]
    Correction,
    /// The product of public integers is not what it must be: the parties and the dealer do not use the same masks.
    #[error("the masks of the parties and the dealer are out of step")]
    OutOfStep,
    /// An opened value that no data within the bounds can give.
    #[error("an opened value is beyond its bound")]
    Bound,
    /// An own value is not finite or beyond the bound that fixed point was chosen for.
    #[error("an own value is beyond what fixed point holds")]
    OwnValue,
}

impl Fault {
    fn ring(what: &'static str) -> impl Fn(RingError) -> Fault {
        move |fault| Fault::Ring { what, fault }
    }

    fn short(what: &'static str, came: &Elements, expected: usize) -> Fault {
        Fault::Ring { what, fault: RingError::Count { came: came.count(), expected } }
    }
}

/// What a party keeps of a row block that it has sent, to multiply it with the peer's.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    /// The row block, at the left party.
    Own,
    /// Its mask, at the right party.
    Mask,
    /// Nothing.
    Nothing,
}

impl Keep {
    fn at(side: Side) -> Keep {
        match side {
            Side::Left => Keep::Own,
            Side::Right => Keep::Mask,
        }
    }
}

/// Row blocks in fixed point behind the own mask, one behind the other as in their message, and what is kept of each. Every row block is made
/// and masked in one go, and several in parallel. `fill` appends the values of one.
fn hidden(
    blocks: Range<usize>,
    size: impl Fn(usize) -> usize,
    (width, bits): (Width, u32),
    (mask, keep): (&Mask, Keep),
    fill: impl Fn(usize, &mut Vec<f64>) -> Result<(), Fault> + Sync,
) -> Result<(Vec<Elements>, Elements), Fault> {
    let sizes: Vec<usize> = blocks.clone().map(size).collect();
    let mut message = Elements::zeros(width, sizes.iter().sum());
    let scale = 2f64.powi(bits as i32);
    let hide = |((block, size), parts): ((usize, &usize), Vec<&mut [u64]>)| {
        let mut values = Vec::with_capacity(*size);
        fill(block, &mut values)?;
        if values.len() != *size {
            let fault = RingError::Count { came: values.len(), expected: *size };
            return Err(Fault::Ring { what: "own row block", fault });
        }
        let mut kept = Vec::with_capacity(if keep == Keep::Nothing { 0 } else { *size * width.words() });
        let mut within = true;
        for (half, hidden) in parts.into_iter().enumerate() {
            let first = kept.len();
            mask.each(block, half, *size, |at, words| {
                let places = at..at + words.len();
                let (values, hidden) = (&values[places.clone()], &mut hidden[places]);
                let mut own = [0; CHUNK];
                let own = &mut own[..words.len()];
                within &= lanes::hide_fixed(values, scale, LARGEST_FIXED, words, [own, hidden], moduli(half));
                match keep {
                    Keep::Own => put(&mut kept, first + at, own),
                    Keep::Mask => put(&mut kept, first + at, words),
                    Keep::Nothing => {}
                }
            });
        }
        if within { Ok(Elements::from_words(width, kept)) } else { Err(Fault::OwnValue) }
    };
    let parts = message.parts_mut(&sizes);
    let all: Vec<(_, _)> = blocks.zip(&sizes).zip(parts).collect();
    let kept = all.into_par_iter().map(hide).collect::<Result<_, Fault>>()?;
    Ok((kept, message))
}

/// A message's row blocks from a given one on, each for itself.
fn frames(first: usize, message: &Elements, size: impl Fn(usize) -> usize, count: usize) -> Vec<Frame> {
    let mut at = 0;
    let frame = |block: usize| {
        let begin = at;
        at += size(block);
        Frame { block: block as u64, entries: message.slice(begin..at) }
    };
    (first..first + count).map(frame).collect()
}

/// Public integers as values that a scale of some bits makes whole again.
fn unscaled(integers: Vec<f64>, bits: u32) -> impl Iterator<Item = f64> {
    let scale = 2f64.powi(-(bits as i32));
    integers.into_iter().map(move |integer| integer * scale)
}

/// Appends some rows of an own matrix, column by column.
fn fill(
    own: &impl Blocks,
    rows: usize,
    columns: usize,
    range: Range<usize>,
    values: &mut Vec<f64>,
) -> Result<(), Fault> {
    if own.rows() != rows || own.columns() != columns {
        let (came, expected) = (own.rows() * own.columns(), rows * columns);
        return Err(Fault::Ring { what: "own block", fault: RingError::Count { came, expected } });
    }
    own.fill(range, values);
    Ok(())
}

/// Both sides' public 20-bit integers of a row block.
fn public(canary: &Mask, block: usize, count: usize) -> (Vec<f64>, Vec<f64>) {
    let words = canary.block(block, count);
    let of = |place: u32| words.half(0).iter().map(|word| ((word >> place) & 0xf_ffff) as f64).collect();
    (of(0), of(21))
}

/// Some rows of an own matrix in fixed point, column by column.
fn quantise(
    own: &impl Blocks,
    rows: usize,
    columns: usize,
    range: Range<usize>,
    width: Width,
    bits: u32,
) -> Result<Elements, Fault> {
    let mut values = Vec::with_capacity(range.len() * columns);
    fill(own, rows, columns, range, &mut values)?;
    Elements::fixed(width, &values, bits).map_err(|_| Fault::OwnValue)
}
