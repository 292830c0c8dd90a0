//! The pure core of fedreg: data model, numerics, protocol state machines, privacy and reports.
//!
//! Nothing here opens a socket or a file, looks at a clock or starts a thread of its own. Messages, deadlines and
//! randomness go in, results come out.
//!
//! # Order
//!
//! The modules are declared below in the order in which data flows, in layers. A module uses what stands before it, and nothing
//! that stands after it; the test `imports` checks this. Each method is a folder below [`methods`], whose rooms stand between the modules:
//! arithmetic, plan and forecast of every method come before [`terms`], what a study says of a method between `terms` and [`study`], its
//! ends after [`star`]; the table in [`methods`] gives the place of every room. To read the crate, begin at the top, or follow one of two
//! values.
//!
//! # A residual, from a file to the wire and back
//!
//! 1. A reader of `fedreg-party` makes a [`data::Frame`] of the columns that a [`study`] names; [`data::encode`] turns
//!    them into a design matrix with named terms, and [`data::align`] brings the rows into the order of their identifiers.
//! 2. [`methods::vertical::prepare`] joins matrix and outcome into a [`methods::vertical::block`], the part of the linear predictor that this
//!    party holds.
//! 3. [`conversation`] asks [`methods::vertical::session`] for every message that this party has to say: the session subtracts what the peer
//!    last sent from the outcome, solves for its own coefficients ([`linalg`], [`glm`]), and builds its own partial prediction, a
//!    [`methods::vertical::message`].
//! 4. [`privacy::release::Released`] lets the message out, under a disclosure that the study declares. `fedreg-proto` writes it in
//!    frames, checks the peer's frames, and hands the session the peer's message.
//! 5. When both sides are at rest, [`methods::vertical::outcome`] holds the coefficient table ([`fit`]), and [`report`] prints it.
//!
//! # A permit, from its reservation to the release
//!
//! 1. A study states a budget, and a plan ([`methods::vertical::plan`], [`methods::robust::plan`]) divides it over releases.
//! 2. [`privacy::ledger::Ledger::reserve`] charges the whole plan to the data set, before anything is computed from it.
//! 3. [`privacy::bounds`] cuts the rows at public bounds, [`privacy::mechanism::Query`] sums them up exactly and states the sensitivity.
//! 4. [`privacy::ledger::Ledger::permit`] hands out a [`Permit`](privacy::ledger::Permit); [`privacy::mechanism::release`] consumes it and adds
//!    noise ([`privacy::sampler`]).
//! 5. [`privacy::ledger::Ledger::store`] keeps the noised bytes with their receipt; only then are they a
//!    [`Released`](privacy::release::Released) message, and a repeat sends the same bytes.

// A new mode, method or role must not fall into an arm that was written before it.
#![cfg_attr(not(test), deny(clippy::wildcard_enum_match_arm))]

// Names, digests, and the codes with which programs end.
pub mod exit;
pub mod hash;
pub mod id;
pub mod names;

// Tables become design matrices; numerics.
pub mod data;
pub mod glm;
mod laws;
pub mod linalg;

// Products of columns that two parties hold, of which only declared tables open.
pub mod secure;

// What a fit yields.
pub mod fit;

// Values with a proved sensitivity, before they get their noise.
pub mod bounded;

// Bounds, noise, the account of both, and what may leave.
pub mod privacy;

// What a conversation wants next, and why it ends.
pub mod session;

// What studies of all methods agree on.
pub mod terms;

// The study file, and the list of methods.
pub mod study;

// One runner for conversations between parties.
pub mod conversation;

// What a party may see of a run, as text, JSON and a page.
pub mod report;

// Between sites and their hub.
pub mod star;

// One folder a method; its rooms stand between the modules above.
pub mod methods;

// What a study means for everybody who takes part in it, in words.
pub mod explanation;

// Two parties over simulated lines with faults.
pub mod sim;

#[cfg(test)]
extern crate self as fedreg_common;

// Simulated data and rivals' methods of the reproductions, on which unit tests measure too.
#[cfg(test)]
#[allow(dead_code, reason = "the reproductions use the rest")]
#[path = "../../examples/reproduce/research/mod.rs"]
mod research;
