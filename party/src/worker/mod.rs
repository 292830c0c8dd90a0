//! The worker: one of many sites that hold rows of the same table.

pub mod batches;
pub mod check;
pub mod cli;
pub mod config;
pub mod join;
pub mod last;
mod methods;
mod persons;
mod pipeline;
pub mod predict;
pub mod privacy;
mod private;
