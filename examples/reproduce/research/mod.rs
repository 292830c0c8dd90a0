//! Simulated data, rivals' methods and formulas as printed elsewhere: what the reproductions compare with, and what unit tests of
//! `fedreg-common` measure on. Nothing that is shipped is built with it.

pub(crate) mod baselines;
pub(crate) mod batches;
pub(crate) mod blocks;
pub(crate) mod crossprod;
pub(crate) mod logistic;
pub(crate) mod newton;
pub(crate) mod printed_em;
pub(crate) mod printed_features;
pub(crate) mod private;
pub(crate) mod solvers;
pub(crate) mod streams;
