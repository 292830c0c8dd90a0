//! Everything that holds no data: readiness, run identifiers, progress, the relay of reasons to stop.

pub mod cli;
pub mod config;
pub mod consolidate;
pub mod register;
pub mod service;
pub mod star;
pub mod state;
pub mod store;
