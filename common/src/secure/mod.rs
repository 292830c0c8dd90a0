//! Products of columns that two parties hold, of which only declared tables open.
//!
//! Three roles: two parties with a block of columns each, and a dealer without data that hands out correlated randomness and
//! receives nothing. What passes between them is masked by streams that its receiver cannot expand, or is a share of a value that
//! the study declares as open. Semi-honest parties, and a dealer that colludes with neither.
//!
//! Messages are values; whoever carries them checks sizes and words with [`ring::Elements::from_bytes`], and a [`product::Fault`] ends
//! the run.
//!
//! # A gaussian fit
//!
//! 1. Each party checks its own columns and the shape against its [`open::Limits`], and makes a [`basis::Basis`] of its block
//!    (standardised independent columns): Alice with the outcome behind her columns, so that the table has the rows `[Q_a e]`. Both
//!    agree on a [`product::Shape`] with [`budget::gaussian`] bits and [`ring::Width::Two`].
//! 2. The dealer draws two [`masks::Seed`]s and sends each party its own. Every role has [`masks::Labels`] of the run.
//! 3. Alice is the [`product::Side::Left`] party, Bob the right one. Each calls [`product::Party::hide`] until there is no further
//!    [`product::Frame`], sends the frames, and hands the peer's to [`product::Party::take`], in any interleaving. The dealer calls
//!    [`product::Dealer::step`] until it returns false, and sends [`product::Dealer::finish`] to Bob.
//! 4. [`product::Party::finish`] gives [`product::Shares`]. Both send [`product::Shares::canary`] and check the peer's; then Bob sends
//!    [`product::TableShare::share`] to the leader, Alice (and she hers to him where the study lets both open), who calls
//!    [`product::TableShare::open`].
//! 5. Alice makes a [`gaussian::Table`] of the opened means. Where columns depend across the parties she sends
//!    [`gaussian::Table::left_over`], and Bob answers with a [`gaussian::Reduction`], whose columns become `NA`.
//! 6. [`gaussian::Table::solve`] is the joint fit. Alice sends Bob a [`gaussian::Answer`]; he answers with [`gaussian::Means`], for the
//!    intercept. Each maps its own part with its own factor: factors, and with `coefficients = "own"` coefficients, stay.
//!
//! `tests/gaussian.rs` walks through this with three roles.
//!
//! # A binomial or poisson fit
//!
//! 1. The table as above, with the bits of the family's [`budget`]. Everybody keeps what came of it: the parties the peer's row blocks and
//!    their own masks, the dealer both masks ([`product::Dealer::masks`]). The leader starts an [`optimiser::Descent`] from it.
//! 2. At each point that the descent names, both parties compute their parts of the linear predictor and compare ranges; the one with the
//!    smaller one takes the polynomials of a [`kernel::Separated`]. [`product::RowParty`] gives both shares of the means (poisson: of one
//!    product of exponentials), to which they add what needs no product. The holder of the outcome subtracts it.
//! 3. [`product::VectorParty`] multiplies these residuals with the columns of both. Once the canary of the products within rows was right,
//!    the other party's share goes to the leader, who has the gradient and asks the descent for the next point.
//! 4. At the end the same with the kernel of the weights, and [`product::WeightedParty`]: the leader has the Hessian. Of a binomial
//!    fit the sum over the shares of the losses opens too.
//!
//! The dealer's part of these is a [`dealing::Product`]. `tests/glm.rs` walks through this with three roles.
//!
//! # Record matching
//!
//! [`group`] stands alone: two parties find equal keys without a dealer. With [`merging`] the coordinator finds them among keyed tags.

pub mod basis;
pub mod budget;
pub mod dealing;
pub mod gaussian;
pub mod group;
pub mod kernel;
mod kernel_table;
mod lanes;
pub mod masks;
pub mod merging;
pub mod open;
pub mod optimiser;
pub mod product;
pub mod ring;
mod together;

#[cfg(test)]
pub(crate) mod tests;
