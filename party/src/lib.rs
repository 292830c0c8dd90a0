//! Everything that holds data.

pub mod ledger;
pub mod read;
