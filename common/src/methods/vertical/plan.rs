//! Private vertical regression by exchange of noised partial predictions: the mechanism `residual`.
//!
//! Alice and Bob hold different columns about the same rows, both know the outcome, and both have public bounds. Each side
//! releases, with noise, its own table `X'X` once, `X'r` once per solve and one partial prediction per row and round. The
//! number of rounds is fixed. Coefficients come from noised statistics only, so they are free.
//!
//! # Why it is private
//!
//! Towards Bob, condition on everything said so far. The residual `r` is then fixed: it is made of the shared outcome and
//! of Bob's messages, and Alice cuts it herself at a public bound. So `X'X` moves by at most sqrt 2, `X'r` by `2R`, and given the coefficients the message
//! moves in one entry, by at most `2C`. This holds whatever Bob answers, even if his rows equal hers, so the guarantee is
//! confidentiality against a malicious peer; he can bias coefficients, and an abort burns budget. Both directions hold at
//! once, because each side's noise protects its own rows. The guarantee is information-theoretic up to the generator of the
//! noise. The outcome is shared in full and not protected.
//!
//! `X'X` costs nothing beside `X'r` as long as its share is at most a quarter of theirs: see
//! [`crate::privacy::mechanism`]. Without noise on `X'X` and `X'r` the coefficients would move with a row, every entry of
//! the message with them, and the bound `2C` would be false.
//!
//! # Standard errors
//!
//! They follow from the noise alone and belong to *the coefficients that the same rounds and clips give without noise*.
//! Unfinished rounds and the clip put those at a distance from the pooled fit that no transcript shows;
//! [`Plan::predict`] says how far it is under a declared design.

use nalgebra::{Cholesky, DMatrix, DVector, Dyn, SymmetricEigen};
use serde::{Deserialize, Serialize};

use crate::id::Role;
use crate::privacy::bounds::{ClippedOutcome, ClippedResiduals, ClippedRows, OutcomeBounds, RowBounds};
use crate::privacy::mechanism::{
    LatticeError, LatticeVector, NoisedRelease, PlannedRelease, Query, ReleaseError, ReleasePlan, free_table_rounding,
    noise_scale,
};
use crate::privacy::release::{PostProcessed, sealed};

mod chosen;
mod crossprod;
mod design;
mod logistic;
mod outlook;

pub use self::chosen::PrivatePlan;
pub use self::crossprod::{
    CrossFit, CrossPenalised, CrossPenalty, CrossPlan, CrossRelease, CrossSetup, CrossSide, CrossTables, OutcomeAt,
    WholeRows,
};
pub(crate) use self::crossprod::{SHARE, SHARES};
pub(crate) use self::design::MEAN_SQUARE;
pub use self::design::{Coefficients, Design, Prediction};
#[cfg(test)]
pub(crate) use self::logistic::tests as logistic_tests;
pub use self::logistic::{
    GradientScale, GradientShapes, LogisticFit, LogisticPlan, LogisticRelease, LogisticSetup, LogisticSide,
    LogisticTables, Outcomes, Replaced, WholeMeans,
};
pub use self::outlook::{Assumed, Case, MovedBy, Outlook};

/// A party of the exchange. Alice speaks first and solves once more at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// Speaks first.
    Alice,
    /// Answers.
    Bob,
}

impl Side {
    /// The side at a place in the order of two parties.
    pub(crate) fn at(place: usize) -> Side {
        if place == 0 { Side::Alice } else { Side::Bob }
    }

    fn other(self) -> Side {
        match self {
            Side::Alice => Side::Bob,
            Side::Bob => Side::Alice,
        }
    }
}

/// Its place in the order of the parties.
impl From<Side> for usize {
    fn from(side: Side) -> usize {
        match side {
            Side::Alice => 0,
            Side::Bob => 1,
        }
    }
}

/// How a side's budget is divided. Only the proportions count.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Shares {
    /// For `X'X`; free while at most a quarter of `score`.
    pub table: f64,
    /// For all `X'r` together.
    pub score: f64,
    /// For all messages together.
    pub message: f64,
}

impl Default for Shares {
    fn default() -> Self {
        Shares { table: 0.10, score: 0.42, message: 0.58 }
    }
}

/// What both parties agree on before anything is computed; nothing here comes from data.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// Number of rows.
    pub rows: usize,
    /// Entries of Alice's rows, her intercept included.
    pub alice_width: usize,
    /// Entries of Bob's rows.
    pub bob_width: usize,
    /// Exchanges of one message each way.
    pub rounds: u32,
    /// Cut of a message's entries, in units of half the outcome's range.
    pub message_bound: f64,
    /// Ridge penalty on coefficients of unit rows: the number that is added to the diagonal of the noised `X'X`, or more where
    /// that leaves its smallest eigenvalue below [`SidePlan::floor`].
    pub ridge: f64,
    /// Division of each side's budget.
    pub shares: Shares,
    /// Sum of `(sensitivity / sigma)^2` that Alice's releases may cost.
    pub alice_budget: f64,
    /// The same for Bob.
    pub bob_budget: f64,
}

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// A number that must be positive is not.
    #[error("{what} must be a positive number, got {value}")]
    Positive {
        /// Which one.
        what: &'static str,
        /// What came.
        value: f64,
    },
    /// The budget is too small for any noise that a machine can represent.
    #[error("the budget of the run, which every party has, buys no finite noise: a larger epsilon is needed")]
    NoBudget,
    /// The outcome is at one of several parties.
    #[error("among {parties} parties the outcome must be at all of them")]
    Alone {
        /// How many parties there are.
        parties: usize,
    },
}

/// The releases of one side with their noise, from public facts alone.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SidePlan {
    /// Entries of a row.
    pub width: usize,
    /// Noise of `X'X`.
    pub table_sigma: f64,
    /// Noise of the first `X'r`, where `r` is the outcome and has bound 1 (Alice only).
    pub first_sigma: f64,
    /// Noise of the other `X'r`.
    pub score_sigma: f64,
    /// Noise of a message's entry.
    pub message_sigma: f64,
    /// Cut of the residuals.
    pub residual_bound: f64,
    /// What is charged, and for what.
    pub releases: ReleasePlan,
}

/// The whole protocol, fixed before it starts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    setup: Setup,
    alice: SidePlan,
    bob: SidePlan,
}

impl Plan {
    /// Calibrates every release of both sides.
    ///
    /// # Errors
    ///
    /// A number that is not positive, or a budget without noise.
    pub fn new(setup: Setup) -> Result<Plan, PlanError> {
        let positive = [
            ("the number of rows", setup.rows as f64),
            ("the number of Alice's columns", setup.alice_width as f64),
            ("the number of Bob's columns", setup.bob_width as f64),
            ("the number of rounds", f64::from(setup.rounds)),
            ("the cut of the messages", setup.message_bound),
            ("the share of X'X", setup.shares.table),
            ("the share of X'r", setup.shares.score),
            ("the share of the messages", setup.shares.message),
            ("Alice's budget", setup.alice_budget),
            ("Bob's budget", setup.bob_budget),
        ];
        if let Some(&(what, value)) = positive.iter().find(|(_, value)| !(*value > 0.0 && value.is_finite())) {
            return Err(PlanError::Positive { what, value });
        }
        if !(setup.ridge >= 0.0 && setup.ridge.is_finite()) {
            return Err(PlanError::Positive { what: "the ridge penalty", value: setup.ridge });
        }
        let mut alice = SidePlan::new(&setup, Side::Alice)?;
        let mut bob = SidePlan::new(&setup, Side::Bob)?;
        // The outcome, the peer's message and three standard deviations of its noise.
        alice.calibrate_scores(&setup, Side::Alice, 1.0 + setup.message_bound + 3.0 * bob.message_sigma)?;
        bob.calibrate_scores(&setup, Side::Bob, 1.0 + setup.message_bound + 3.0 * alice.message_sigma)?;
        Ok(Plan { setup, alice, bob })
    }

    /// What was agreed.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// One side's releases.
    pub fn side(&self, side: Side) -> &SidePlan {
        match side {
            Side::Alice => &self.alice,
            Side::Bob => &self.bob,
        }
    }

    /// What error to expect, from public facts and a declared design; no data are involved.
    pub fn predict(&self, design: &Design) -> Prediction {
        design::predict(self, design)
    }

    fn steps(&self, side: Side) -> Vec<Step> {
        let mut steps = vec![Step::Table];
        match side {
            Side::Alice => {
                steps.push(Step::Score);
                for _ in 0..self.setup.rounds {
                    steps.extend([Step::Message, Step::Receive, Step::Score]);
                }
            }
            Side::Bob => {
                for _ in 0..self.setup.rounds {
                    steps.extend([Step::Receive, Step::Score, Step::Message]);
                }
            }
        }
        steps
    }
}

impl SidePlan {
    /// The smallest eigenvalue that the shifted noised table has: about the norm of its noise, so that a solve cannot blow up.
    pub fn floor(&self) -> f64 {
        self.table_sigma * (self.width as f64).sqrt()
    }

    /// Every release in its order: what it is, the standard deviation of its noise, and whether it goes to the peer.
    pub fn lines(&self) -> impl Iterator<Item = (&str, f64, bool)> {
        self.releases.releases().iter().map(|release| {
            let label = release.label.as_str();
            let (sigma, sent) = match label {
                "X'X" => (self.table_sigma, false),
                "X'y" => (self.first_sigma, false),
                label if label.starts_with("X'r") => (self.score_sigma, false),
                _ => (self.message_sigma, true),
            };
            (label, sigma, sent)
        })
    }

    fn new(setup: &Setup, side: Side) -> Result<SidePlan, PlanError> {
        let (width, budget) = match side {
            Side::Alice => (setup.alice_width, setup.alice_budget),
            Side::Bob => (setup.bob_width, setup.bob_budget),
        };
        let rounds = setup.rounds as usize;
        let solves = rounds + usize::from(side == Side::Alice);
        let table_entries = width * (width + 1) / 2;
        let rounded = table_entries + solves * width;
        let Shares { table, score, message } = setup.shares;
        let free = table <= 0.25 * (1.0 - 1e-8) * score;
        // The charge is (unit (score + message))^1 with the rounding of the free table on top of the root; solved for unit.
        let unit = if free {
            (budget.sqrt() - free_table_rounding(rounded)).max(0.0).powi(2) / (score + message)
        } else {
            budget / (table + score + message)
        };
        // Rounding of the sums, a few parts in 1e16 each, must not pass the budget.
        let unit = unit * (1.0 - 1e-14 * (2 + solves + rounds) as f64);
        let mu = |share: f64, count: usize| (unit * share / count as f64).sqrt();
        let mut releases = vec![PlannedRelease { label: "X'X".to_owned(), mu: mu(table, 1) }];
        let mut vectors = Vec::new();
        let mut score_release = |releases: &mut Vec<PlannedRelease>, label: String| {
            vectors.push(releases.len());
            releases.push(PlannedRelease { label, mu: mu(score, solves) });
        };
        if side == Side::Alice {
            score_release(&mut releases, "X'y".to_owned());
        }
        for round in 1..=rounds {
            let solve = |releases: &mut Vec<PlannedRelease>,
                         score: &mut dyn FnMut(&mut Vec<PlannedRelease>, String)| {
                score(releases, format!("X'r, round {round}"));
            };
            let send = |releases: &mut Vec<PlannedRelease>| {
                releases.push(PlannedRelease {
                    label: format!("partial prediction, round {round}"),
                    mu: mu(message, rounds),
                });
            };
            match side {
                Side::Alice => {
                    send(&mut releases);
                    solve(&mut releases, &mut score_release);
                }
                Side::Bob => {
                    solve(&mut releases, &mut score_release);
                    send(&mut releases);
                }
            }
        }
        let releases = ReleasePlan::with_free_table(releases, 0, &vectors, rounded);
        let failed = |_| PlanError::NoBudget;
        let (table_sigma, _) =
            noise_scale(std::f64::consts::SQRT_2.next_up(), table_entries, mu(table, 1)).map_err(failed)?;
        let (message_sigma, _) = noise_scale(2.0 * setup.message_bound, 0, mu(message, rounds)).map_err(failed)?;
        Ok(SidePlan {
            width,
            table_sigma,
            first_sigma: 0.0,
            score_sigma: 0.0,
            message_sigma,
            residual_bound: 0.0,
            releases,
        })
    }

    fn calibrate_scores(&mut self, setup: &Setup, side: Side, bound: f64) -> Result<(), PlanError> {
        let solves = setup.rounds as usize + usize::from(side == Side::Alice);
        let mu = self.releases.releases().iter().find(|release| release.label.starts_with("X'r")).map_or(0.0, |r| r.mu);
        debug_assert!(solves > 0);
        let failed = |_| PlanError::NoBudget;
        self.residual_bound = bound;
        self.score_sigma = noise_scale(2.0 * bound, self.width, mu).map_err(failed)?.0;
        self.first_sigma = noise_scale(2.0, self.width, mu).map_err(failed)?.0;
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Table,
    Score,
    Message,
    Receive,
}

/// What the exchange needs next.
#[derive(Debug)]
pub enum Need {
    /// A release: privatise the query under the ledger's permit for `index`, then give it to [`Exchange::supply`].
    Release {
        /// Position in the side's plan.
        index: u32,
        /// What to release.
        query: Query,
        /// Whether it also goes to the peer, once it is stored.
        send: bool,
    },
    /// The peer's next message: give it to [`Exchange::receive`].
    Message {
        /// Its number, from 0.
        index: u32,
    },
    /// Nothing: the estimate is there.
    Nothing,
}

/// Why the exchange refuses what it was given.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ExchangeError {
    /// Rows or columns are not those of the plan.
    #[error("the plan is for {expected} {what}, the data have {got}")]
    Shape {
        /// Rows or columns.
        what: &'static str,
        /// What the plan says.
        expected: usize,
        /// What the data have.
        got: usize,
    },
    /// Given something while something else was needed.
    #[error("{given} came while {needed} was needed")]
    Order {
        /// What came.
        given: &'static str,
        /// What was needed.
        needed: &'static str,
    },
    /// A vector that is not the planned one.
    #[error(transparent)]
    Vector(#[from] LatticeError),
    /// The noised table could not be factored even after its shift.
    #[error("the noised table X'X could not be factored")]
    Factor,
}

/// What one side ends with; from noised values alone, so it may be shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    /// Coefficients of unit rows.
    pub coefficients: DVector<f64>,
    /// Their covariance under the noise, around the coefficients that the same rounds and clips give without noise.
    pub covariance: DMatrix<f64>,
}

/// One side of the exchange, as a value that is fed.
#[derive(Debug)]
pub struct Exchange {
    plan: Plan,
    side: Side,
    rows: ClippedRows,
    outcome: ClippedOutcome,
    steps: Vec<Step>,
    position: usize,
    releases: u32,
    messages: u32,
    solves: u32,
    solver: Option<Solver>,
    peer: Option<Vec<f64>>,
    coefficients: DVector<f64>,
}

#[derive(Debug)]
struct Solver {
    shifted: DMatrix<f64>,
    factor: Cholesky<f64, Dyn>,
}

impl Exchange {
    /// Starts one side.
    ///
    /// # Errors
    ///
    /// Data that are not of the plan's size.
    pub fn new(plan: Plan, side: Side, rows: ClippedRows, outcome: ClippedOutcome) -> Result<Exchange, ExchangeError> {
        let expected = plan.side(side).width;
        let shapes = [
            ("columns", expected, rows.width()),
            ("rows", plan.setup.rows, rows.len()),
            ("rows", plan.setup.rows, outcome.values().len()),
        ];
        if let Some(&(what, expected, got)) = shapes.iter().find(|(_, expected, got)| expected != got) {
            return Err(ExchangeError::Shape { what, expected, got });
        }
        let steps = plan.steps(side);
        Ok(Exchange {
            plan,
            side,
            rows,
            outcome,
            steps,
            position: 0,
            releases: 0,
            messages: 0,
            solves: 0,
            solver: None,
            peer: None,
            coefficients: DVector::zeros(expected),
        })
    }

    /// What is needed next. Asking again gives the same query.
    ///
    /// # Errors
    ///
    /// More rows than the integers hold.
    pub fn need(&self) -> Result<Need, ReleaseError> {
        let index = self.releases;
        Ok(match self.steps.get(self.position) {
            None => Need::Nothing,
            Some(Step::Receive) => Need::Message { index: self.messages },
            Some(Step::Table) => Need::Release { index, query: Query::gram(&self.rows)?, send: false },
            Some(Step::Score) => {
                Need::Release { index, query: Query::score(&self.rows, &self.residuals()), send: false }
            }
            Some(Step::Message) => Need::Release {
                index,
                query: Query::message(&self.rows, &self.coefficients, self.plan.setup.message_bound),
                send: true,
            },
        })
    }

    fn residuals(&self) -> ClippedResiduals {
        let outcome = self.outcome.values();
        match &self.peer {
            None => ClippedResiduals::clip(outcome, 1.0),
            Some(peer) => {
                let values: Vec<f64> = outcome.iter().zip(peer).map(|(y, other)| y - other).collect();
                ClippedResiduals::clip(&values, self.plan.side(self.side).residual_bound)
            }
        }
    }

    /// Takes the release that was asked for.
    ///
    /// # Errors
    ///
    /// Another release, or one that the plan does not know.
    pub fn supply(&mut self, release: &NoisedRelease) -> Result<(), ExchangeError> {
        let step = self.steps.get(self.position).copied();
        let fits = release.receipt().index == self.releases;
        let lattice = release.lattice();
        let own = self.plan.side(self.side);
        match step {
            Some(Step::Table) if fits => {
                lattice.require(own.width * (own.width + 1) / 2, lattice.step())?;
                self.solver = Some(Solver::new(lattice, own, self.plan.setup.ridge)?);
            }
            Some(Step::Score) if fits => {
                lattice.require(own.width, lattice.step())?;
                let solver = self.solver.as_ref().ok_or(ExchangeError::Factor)?;
                self.coefficients = solver.factor.solve(&lattice.tail(0));
                self.solves += 1;
            }
            Some(Step::Message) if fits => lattice.require(self.plan.setup.rows, lattice.step())?,
            _ => {
                return Err(ExchangeError::Order { given: "a release", needed: name(step) });
            }
        }
        self.releases += 1;
        self.position += 1;
        Ok(())
    }

    /// Takes the peer's message. Its values are whatever the peer chose: residuals are cut here.
    ///
    /// # Errors
    ///
    /// No message was expected, or it is not of the planned size on the planned lattice.
    pub fn receive(&mut self, message: &LatticeVector) -> Result<(), ExchangeError> {
        let step = self.steps.get(self.position).copied();
        if step != Some(Step::Receive) {
            return Err(ExchangeError::Order { given: "a message", needed: name(step) });
        }
        let sigma = self.plan.side(self.side.other()).message_sigma;
        message.require(self.plan.setup.rows, sigma / (1u64 << 40) as f64)?;
        self.peer = Some(message.values());
        self.messages += 1;
        self.position += 1;
        Ok(())
    }

    /// The estimate, once nothing is needed any more.
    pub fn estimate(&self) -> Option<Estimate> {
        if self.position < self.steps.len() {
            return None;
        }
        let solver = self.solver.as_ref()?;
        let own = self.plan.side(self.side);
        let received = self.peer.is_some();
        let score_sigma = if received { own.score_sigma } else { own.first_sigma };
        let message_sigma = if received { self.plan.side(self.side.other()).message_sigma } else { 0.0 };
        let covariance = solver.covariance(score_sigma, message_sigma, own.table_sigma, &self.coefficients);
        Some(Estimate { coefficients: self.coefficients.clone(), covariance })
    }

    /// The estimate of the party by this name on the original scale, once nothing is needed any more. `rows` are the bounds of the own rows.
    pub fn fitted(&self, party: Role, rows: &RowBounds, outcome: &OutcomeBounds) -> Option<Fitted> {
        let estimate = self.estimate()?;
        let scale = rows.original_scale(outcome);
        let values = scale.coefficients(&estimate.coefficients);
        let variances = scale.covariance(&estimate.covariance).diagonal();
        let slopes = rows.names().iter().enumerate().map(|(index, name)| Slope {
            term: name.clone(),
            estimate: values[index + 1],
            std_error: variances[index + 1].max(0.0).sqrt(),
        });
        Some(Fitted { party, shift: values[0], slopes: slopes.collect() })
    }

    /// Exchanges so far.
    pub fn rounds(&self) -> u32 {
        self.messages
    }
}

/// Coefficients of one block on the original scale. Only [`Exchange::fitted`] makes one, so that it comes from noised
/// values and public bounds alone.
///
/// ```compile_fail
/// use fedreg_common::{id::Role, methods::vertical::plan::Fitted};
/// let forged = Fitted { party: Role::Alice, shift: 1.0, slopes: vec![] };
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    party: Role,
    shift: f64,
    slopes: Vec<Slope>,
}

impl sealed::Sealed for Fitted {}
impl PostProcessed for Fitted {}

/// One coefficient with the standard deviation of its noise.
#[derive(Debug, Clone, PartialEq)]
pub struct Slope {
    /// The term.
    pub term: String,
    /// The estimate.
    pub estimate: f64,
    /// Standard deviation of the noise, around the coefficient that the same rounds and clips give without noise.
    pub std_error: f64,
}

impl Fitted {
    /// Whose block it is.
    pub fn party(&self) -> Role {
        self.party
    }

    /// What the block adds to the intercept; the outcome's centre is not in it.
    pub fn shift(&self) -> f64 {
        self.shift
    }

    /// The slopes in the order of the bounds.
    pub fn slopes(&self) -> &[Slope] {
        &self.slopes
    }
}

fn name(step: Option<Step>) -> &'static str {
    match step {
        None => "nothing",
        Some(Step::Table) => "the table X'X",
        Some(Step::Score) => "the vector X'r",
        Some(Step::Message) => "the partial prediction",
        Some(Step::Receive) => "the peer's message",
    }
}

impl Solver {
    /// Adds the ridge to the noised table, or the smallest shift that lifts its smallest eigenvalue to the floor if that is more.
    fn new(lattice: &LatticeVector, own: &SidePlan, ridge: f64) -> Result<Solver, ExchangeError> {
        let mut shifted = lattice.symmetric(own.width);
        let smallest = SymmetricEigen::new(shifted.clone()).eigenvalues.min();
        let shift = (own.floor() - smallest).max(ridge);
        for index in 0..own.width {
            shifted[(index, index)] += shift;
        }
        let factor = Cholesky::new(shifted.clone()).ok_or(ExchangeError::Factor)?;
        Ok(Solver { shifted, factor })
    }

    /// `H^-1 [ s^2 I + m^2 H + (g^2/2)(|b|^2 I + b b') ] H^-1`: the noise of `X'r`, of the peer's message through `X'`, and
    /// of the table itself.
    fn covariance(&self, score: f64, message: f64, table: f64, beta: &DVector<f64>) -> DMatrix<f64> {
        let width = beta.len();
        let inner = DMatrix::identity(width, width) * (score * score + 0.5 * table * table * beta.norm_squared())
            + &self.shifted * (message * message)
            + beta * beta.transpose() * (0.5 * table * table);
        let half = self.factor.solve(&inner);
        let full = self.factor.solve(&half.transpose());
        (&full + full.transpose()) * 0.5
    }
}

#[cfg(test)]
mod tests;
