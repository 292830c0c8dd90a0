//! Products of two parties' columns, as shares of which each party holds one.

mod table;

pub use table::{Blocks, Correction, Dealer, Frame, Opened, Party, Shape, Shares, Side, TableShare};

use super::ring::RingError;

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
}
