//! Private vertical regression, as a conversation.
//!
//! The script, with one speaker a step and turns that alternate as in the plain session:
//!
//! 1. greeting with the study's digest, proof of rows, digests of shared columns: as in plain mode;
//! 2. terms: what each side's data set may cost. After them each side reserves the budget of the whole run;
//! 3. by the mechanism `residual`: noised partial predictions to and fro, for a number of rounds that the study fixes, then coefficients,
//!    computed from noised values alone; by the mechanism `crossprod`: noised statistics of each side, and one table between the blocks
//!    on shares that get their noise before they leave; in a binomial fit two gradients after it in the same way.
//!
//! Of several parties each speaks with the leader alone (`private/several.rs`); the leader's end is
//! [`Hub::private`](super::several::Hub::private).
//!
//! Whatever noised value comes in after the reservation is kept in the ledger before it is acted on, and whatever noised value goes out was
//! stored there before. So a party that was killed and starts again replays both: the same bytes, no second charge.

mod checked;
pub(super) mod crossprod;
mod held;
mod logistic;
mod residual;
mod session;
mod several;
mod table;
#[cfg(test)]
mod tests;

pub use self::held::Setting;
pub use self::session::{PrivateSession, has_changed};
pub use self::several::SeveralSession;
pub(super) use self::several::{Own, expected};
pub use self::table::Table;

use crate::fit::Coefficient;
use crate::methods::vertical::plan::Outlook;
use crate::methods::vertical::refit::Kept;
use crate::privacy::caution::Caution;
use crate::report::PathPoint;
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
    /// What must stand before the numbers, from what has opened.
    pub caution: Option<Caution>,
    /// The fits along lambda, of both parties' columns.
    pub path: Option<Vec<PathPoint>>,
    /// The penalty weight to which the coefficients belong.
    pub shown_lambda: Option<f64>,
    /// What this side keeps for sub-models, where tables have opened.
    pub kept: Option<Kept>,
}

/// How notes name what a private fit has none of.
const WALD: &str = "covariance of the coefficients and Wald tests of terms";

/// What was to be expected, as notes of the report.
fn foretold(outlook: &Outlook) -> Vec<String> {
    let cases = outlook.cases.iter().map(|case| {
        format!(
            "at correlation {} by {:.0} %, and by {:.0} % if nothing is exchanged",
            case.correlation,
            100.0 * case.relative_error,
            100.0 * case.relative_error_alone
        )
    });
    let cases: Vec<String> = cases.collect();
    let first = [
        format!(
            "expected before the run, from public facts and assumptions, nothing computed from the data: the slopes miss the pooled \
             ones, as a share of their length, {}",
            cases.join("; ")
        ),
        format!("assumed: {}", outlook.assumed.words.join("; ")),
        outlook.comparison(),
    ];
    first.into_iter().chain(outlook.rough()).chain(outlook.withheld()).collect()
}
