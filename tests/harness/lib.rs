//! Shared by the end-to-end tests: studies, simulated runs and oracle vectors.

pub mod vectors;
pub mod vertical;
