//! Shared by the end-to-end tests: studies, simulated runs and oracle vectors.

pub mod several;
pub mod vectors;
pub mod vertical;
