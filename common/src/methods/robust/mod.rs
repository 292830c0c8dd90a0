//! Robust regression over many mini-batches, some of which are corrupted and some of which come from sites that lie.
//!
//! Data flows through the files in this order: [`batch`] fits one mini-batch where its rows lie, [`estimate`] is the
//! small table that leaves, [`mod@consolidate`] finds the coefficients that a majority of estimates stand behind, and
//! [`online`] does so again after each arrival.
//!
//! # Reference
//! Zhang, Zhao, Boedihardjo, Lu, "Online and Distributed Robust Regressions under Adversarial Data Corruption",
//! ICDM 2017: HRR (algorithm 1), DRLR (algorithm 2), ORLR (algorithm 3).

pub mod batch;
pub mod consolidate;
mod distance;
pub mod estimate;
pub mod forecast;
pub mod hub;
mod normal;
pub mod online;
pub mod plan;
pub mod record;
pub mod report;
pub mod site;
mod start;
pub mod terms;
pub mod threshold;
mod weights;

#[cfg(test)]
use crate::research::batches as synthetic;
#[cfg(test)]
mod tests;

pub use batch::{BatchError, BatchFit, Cleaning, FitSettings, Start, Termination, fit, minimum_rows};
pub use consolidate::{Consensus, ConsolidateError, ConsolidationSettings, Method, Metric, consolidate};
pub use estimate::{Estimate, EstimateError, Estimates, Gram, Insertion};
pub use online::{Online, OnlineError, OnlineSettings, Placement, Update};
pub use record::Record;

pub use crate::fit::{Member, Standing, Verdict};
