//! Everything that holds data.

pub mod read;
