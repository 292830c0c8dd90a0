//! The source paper's Algorithm 1 and its comparator, **not private**, for comparison on public data only.
//!
//! Both add noise to the minimum-norm interpolant, whose worst-case sensitivity is infinite: a record that is moved next to another with
//! the opposite outcome changes the coefficients by as much as one likes, while the noise stays the same. Nothing here can be
//! released: there is no [`Bounded`](fedreg_common::bounded::Bounded) of any of it.

use std::f64::consts::TAU;

use fedreg_common::methods::features::FeatureError;
use nalgebra::{DMatrix, DVector};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Gamma, StandardNormal};

use super::solvers::minimum_norm;

/// The cosine features with random offset of the paper's public code, `cos(w'x + u) sqrt(2/N)`: their rows have norm 1 on average only.
pub(crate) fn cosine_features(x: &DMatrix<f64>, count: usize, frequency_sd: f64, seed: u64) -> DMatrix<f64> {
    let mut generator = ChaCha8Rng::seed_from_u64(seed);
    let frequencies = DMatrix::from_fn(x.ncols(), count, |_, _| {
        let z: f64 = StandardNormal.sample(&mut generator);
        frequency_sd * z
    });
    let offsets: Vec<f64> = (0..count).map(|_| TAU * generator.random::<f64>()).collect();
    let mut rows = x * frequencies;
    for (mut column, offset) in rows.column_iter_mut().zip(offsets) {
        column.iter_mut().for_each(|phase| *phase = (*phase + offset).cos() * (2.0 / count as f64).sqrt());
    }
    rows
}

/// The sensitivity that the paper claims with probability over data and features, `2 / sqrt(N (1 - 2 eta))`, `eta = 3/8`.
pub(crate) fn claimed_sensitivity(count: usize) -> f64 {
    4.0 / (count as f64).sqrt()
}

/// Standard deviation of the normal noise that the paper adds to each of so many coefficients, by the classical constant. Not private.
pub(crate) fn claimed_deviation(count: usize, epsilon: f64, delta: f64) -> f64 {
    (2.0 * (1.25 / delta).ln()).sqrt() * claimed_sensitivity(count) / epsilon
}

/// Which noise the paper adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PaperNoise {
    /// Normal, with the classical constant `sqrt(2 ln(1.25/delta))`.
    Gauss,
    /// Of a Gamma length in a uniform direction: what would be (epsilon, 0), if the sensitivity held.
    Gamma,
}

/// Algorithm 1: the interpolant with noise for the claimed sensitivity. Not private.
///
/// # Errors
/// Other than one outcome per row, or a law without meaning.
pub(crate) fn algorithm_1(
    a: &DMatrix<f64>,
    y: &DVector<f64>,
    noise: PaperNoise,
    epsilon: f64,
    delta: f64,
    seed: u64,
) -> Result<DVector<f64>, FeatureError> {
    noised(minimum_norm(a, y)?.coefficients, noise, epsilon, delta, seed)
}

/// What Algorithm 1 adds to these coefficients. Not private.
///
/// # Errors
/// A law without meaning.
pub(crate) fn noised(
    coefficients: DVector<f64>,
    noise: PaperNoise,
    epsilon: f64,
    delta: f64,
    seed: u64,
) -> Result<DVector<f64>, FeatureError> {
    let mut generator = ChaCha8Rng::seed_from_u64(seed);
    let z: DVector<f64> = DVector::from_fn(coefficients.len(), |_, _| StandardNormal.sample(&mut generator));
    let count = coefficients.len();
    Ok(coefficients
        + match noise {
            PaperNoise::Gauss => z * claimed_deviation(count, epsilon, delta),
            PaperNoise::Gamma => {
                let length = Gamma::new(count as f64, claimed_sensitivity(count) / epsilon)
                    .map_err(|_| FeatureError::NotFinite { what: "noise" })?
                    .sample(&mut generator);
                let norm = z.norm();
                z * (length / norm)
            }
        })
}
