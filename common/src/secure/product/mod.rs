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
pub use table::{Blocks, Correction, Dealer, Frame, Masks, Opened, OwnMask, Party, Shape, Shares, Side, TableShare};
pub use vector::{VectorDealer, VectorParty, VectorShape, VectorShare};
pub use weighted::{Rows, WeightedDealer, WeightedParty, WeightedShape, WeightedShare};

use std::ops::Range;

use rayon::prelude::*;

use super::masks::Mask;
use super::ring::{Elements, ROWS, RingError, Width};

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

/// Row blocks in fixed point behind the own mask, worked on in parallel; the left party, which multiplies with them later, keeps them too.
fn hidden(
    blocks: Range<usize>,
    side: Side,
    mask: &Mask,
    quantise: impl Fn(usize) -> Result<Elements, Fault> + Sync,
) -> Result<(Vec<Elements>, Vec<Frame>), Fault> {
    let hide = |block: usize| {
        let mut entries = quantise(block)?;
        let kept = (side == Side::Left).then(|| entries.clone());
        entries.subtract(&mask.block(block, entries.count())).map_err(Fault::ring("own row block"))?;
        Ok((kept, Frame { block: block as u64, entries }))
    };
    let hidden: Vec<_> = blocks.into_par_iter().map(hide).collect::<Result<_, Fault>>()?;
    let (kept, frames): (Vec<Option<Elements>>, Vec<Frame>) = hidden.into_iter().unzip();
    Ok((kept.into_iter().flatten().collect(), frames))
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
    if own.rows() != rows || own.columns() != columns {
        let (came, expected) = (own.rows() * own.columns(), rows * columns);
        return Err(Fault::Ring { what: "own block", fault: RingError::Count { came, expected } });
    }
    let mut values = Vec::with_capacity(range.len() * columns);
    own.fill(range, &mut values);
    Elements::fixed(width, &values, bits).map_err(|_| Fault::OwnValue)
}
