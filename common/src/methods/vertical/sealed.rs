//! Sealed vertical regression, as a conversation of two parties with a dealer.
//!
//! The script, after greetings and the agreement on rows and shared columns that plain mode has as well:
//!
//! 1. each party checks its own columns against its limits and orders the table from the dealer, who sends each its seed;
//! 2. row blocks behind masks to and fro, Alice's first; the dealer sends Bob the correction;
//! 3. shares of the canary, and Bob's share of the table to Alice, who opens it;
//! 4. where columns of Bob depend on Alice's, what her columns leave of his, and his answer which of his columns stay;
//! 5. where there is a penalty, or the study says `sealed.refit = true`, Bob's factor; with the latter and a table that opens to both,
//!    Alice's too (`kept`);
//! 6. in a binomial or poisson fit gradients at the points that Alice names, and what opens at their end (`glm`);
//! 7. where there is a penalty, the fits at every lambda in place of a solution (`penalised`);
//! 8. Bob's part of the solution, his part of the intercept, and the results of both.
//!
//! What each message is and why no more is learnt stands in [`crate::secure`]. Nothing is stored: a run that is interrupted is over, and
//! the next one has fresh masks.

mod folds;
mod glm;
mod kept;
mod limits;
mod offset;
mod opened;
mod penalised;
mod reduction;
mod results;
mod session;
mod solution;
#[cfg(test)]
mod tests;

pub use self::folds::fold_numbers;
pub use self::kept::{alice_numbers, placed_numbers};
pub use self::limits::{Sizes, allowed};
pub use self::opened::{Opening, OpeningOfSeveral};
pub use self::penalised::{count as lambdas, factor_numbers, path_numbers};
pub(super) use self::reduction::{read_reduction, reduction_values};
pub(super) use self::results::finish;
pub(super) use self::session::{Place, Run, Work};
pub use self::session::{SealedScript, SealedSession};
