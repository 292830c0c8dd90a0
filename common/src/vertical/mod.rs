//! Vertical regression: two parties, one model, different columns of the same rows.

pub mod accelerate;
pub mod block;
pub mod message;
pub mod meter;
pub mod penalty;
pub mod std_err;
