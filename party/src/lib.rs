//! Everything that holds data: configuration, drivers, state and output of `alice`, `bob` and `worker`.

// A new mode, method or role must not fall into an arm that was written before it.
#![cfg_attr(not(test), deny(clippy::wildcard_enum_match_arm))]

mod alignment;
pub mod check;
pub mod cli;
pub mod config;
pub mod convene;
pub mod drive;
mod failure;
mod hypotheses;
mod interrupts;
mod job;
pub mod ledger;
mod line;
pub mod matching;
mod meet;
mod memory;
mod openings;
mod pace;
mod party;
mod plain;
pub mod privacy;
mod private;
pub mod read;
pub mod refit;
pub mod service;
mod several;
mod show;
pub mod store;
pub mod worker;

pub use fedreg_proto::output;
