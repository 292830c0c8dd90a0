//! Private vertical regression by the mechanism `residual`, as a conversation.
//!
//! The script, with one speaker a step and turns that alternate as in the plain session:
//!
//! 1. greeting with the study's digest, proof of rows, digests of shared columns: as in plain mode;
//! 2. terms: what each side's data set may cost. After them each side reserves the budget of the whole run;
//! 3. noised partial predictions to and fro, for a number of rounds that the study fixes;
//! 4. coefficients, computed from noised values alone.
//!
//! Whatever comes in after the reservation is kept in the ledger before it is acted on, and whatever goes out was stored
//! there before. So a party that was killed and starts again replays both: the same bytes, no second charge.

mod session;
mod table;
#[cfg(test)]
mod tests;

pub use self::session::{PrivateSession, Setting, has_changed};
pub use self::table::Table;

use crate::fit::Coefficient;
use crate::methods::vertical::plan::Outlook;
use crate::study::statement::Statement;

/// What one side gets out of a private fit.
#[derive(Debug, Clone, PartialEq)]
pub struct PrivateFit {
    /// Own rows, and the peer's where the study shares them: Alice's first.
    pub coefficients: Vec<Coefficient>,
    /// Rows that took part.
    pub nobs: u64,
    /// Exchanges of one message each way.
    pub rounds: u32,
    /// What was released, what it cost, and what is left.
    pub statement: Statement,
    /// What was to be expected before anything was spent.
    pub outlook: Outlook,
    /// What the reader must know.
    pub notes: Vec<String>,
}
