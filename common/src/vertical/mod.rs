//! Vertical regression: two parties, one model, different columns of the same rows.

pub mod message;
