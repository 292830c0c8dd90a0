//! Everything that holds no data: readiness, run identifiers, progress, the relay of reasons to stop.

// A new mode, method or role must not fall into an arm that was written before it.
#![cfg_attr(not(test), deny(clippy::wildcard_enum_match_arm))]

pub mod cli;
pub mod config;
pub mod consolidate;
mod deal;
mod dealer;
mod merge;
pub mod register;
pub mod service;
pub mod star;
pub mod state;
pub mod store;
