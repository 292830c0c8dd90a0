//! The worker: one of many sites that hold rows of the same table.

pub mod batches;
pub mod check;
pub mod cli;
pub mod config;
pub mod follow;
pub mod join;
mod methods;
pub mod last;
mod pipeline;
pub mod predict;
pub mod privacy;
mod private;
