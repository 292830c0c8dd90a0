//! Everything that holds data: configuration, drivers, state and output of `alice`, `bob` and `worker`.

pub mod check;
pub mod cli;
pub mod config;
pub mod convene;
pub mod drive;
pub mod estimate;
pub mod ledger;
mod line;
mod meet;
mod pace;
mod plain;
pub mod privacy;
mod private;
pub mod read;
pub mod service;
pub mod store;
pub mod worker;

pub use fedreg_proto::output;
