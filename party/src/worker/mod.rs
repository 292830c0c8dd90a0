//! The worker: one of many sites that hold rows of the same table.

pub mod batches;
pub mod check;
pub mod cli;
mod compute;
pub mod config;
pub mod estimate;
pub mod join;
pub mod last;
mod persons;
pub mod predict;
pub mod privacy;
mod private;
