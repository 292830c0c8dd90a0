//! Facts of the methods, on simulated data and on vectors from another implementation.

mod measure;

use nalgebra::DVector;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::synthetic::{BatchLaw, Corruption, SyntheticBatch, batch, unit_coefficients};
use super::*;

fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

fn settings(start: Start) -> FitSettings {
    FitSettings {
        start,
        intercept: false,
        ..FitSettings::default()
    }
}

fn fitted(b: &SyntheticBatch, start: Start) -> BatchFit {
    fit(&b.x, &b.y, &settings(start)).unwrap()
}

fn error(fit: &BatchFit, beta: &DVector<f64>) -> f64 {
    (&fit.coefficients - beta).norm()
}

/// Least squares on the rows that are known to be clean.
fn told(b: &SyntheticBatch) -> DVector<f64> {
    baselines::least_squares(&b.x.rows(0, b.clean).into_owned(), &b.y.rows(0, b.clean).into_owned()).unwrap()
}
