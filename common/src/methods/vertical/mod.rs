//! Vertical regression: two parties or several, one model, different columns of the same rows.

pub mod accelerate;
mod agree;
pub mod block;
mod exchange;
mod fits;
mod followers;
pub mod linked;
mod masked;
pub mod matching;
pub mod message;
pub mod meter;
mod names;
pub mod outcome;
pub mod penalty;
pub mod plan;
pub mod predict;
pub mod prepare;
pub mod private;
mod products;
pub mod report;
pub mod sealed;
mod separation;
pub mod session;
pub mod several;
pub mod std_err;
pub mod subspace;
pub mod terms;
