//! Invented data for the three models, and whole fits on them with invented noise.

use nalgebra::{DMatrix, DVector};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

use super::{EmError, Model, Records, Settings};
use crate::bounded::Noise;

/// Draws `records` records of the model at `beta`; of the covariates a share `missing` is lost where the model has
/// missing ones.
///
/// # Errors
/// No coefficient.
pub fn draw(
    model: Model,
    sigma: f64,
    beta: &DVector<f64>,
    records: usize,
    missing: f64,
    seed: u64,
) -> Result<Records, EmError> {
    let mut generator = ChaCha8Rng::seed_from_u64(seed);
    let mut normal = || -> f64 { StandardNormal.sample(&mut generator) };
    let mut x = DMatrix::from_fn(records, beta.len(), |_, _| normal());
    let mut y: Vec<f64> = (0..records).map(|_| sigma * normal()).collect();
    let mut sign = || if generator.random_bool(0.5) { 1.0 } else { -1.0 };
    match model {
        Model::GaussianMixture => {
            for i in 0..records {
                let z = sign();
                (0..beta.len()).for_each(|j| x[(i, j)] = z * beta[j] + sigma * x[(i, j)]);
            }
            Records::mixture(&x)
        }
        Model::MixedRegressions => {
            for (i, fitted) in (&x * beta).iter().enumerate() {
                y[i] += sign() * fitted;
            }
            Records::regressions(&x, &y)
        }
        Model::MissingCovariates => {
            for (i, fitted) in (&x * beta).iter().enumerate() {
                y[i] += fitted;
            }
            x.iter_mut().filter(|_| generator.random_bool(missing)).for_each(|value| *value = f64::NAN);
            Records::with_missing(&x, &y)
        }
    }
}

/// A random direction of this length.
pub fn direction(columns: usize, length: f64, seed: u64) -> DVector<f64> {
    let mut generator = ChaCha8Rng::seed_from_u64(seed);
    let beta = DVector::from_fn(columns, |_, _| StandardNormal.sample(&mut generator));
    let norm: f64 = beta.norm();
    beta * (length / norm)
}

/// The coefficients after every round of a fit between `sites`, the start first. With a bound on gradients each site adds noise
/// of its own for budget `mu` over all rounds, without one the exchange is exact.
///
/// # Errors
/// Records that do not fit the settings.
pub fn fit(
    settings: &Settings,
    sites: &[Records],
    start: &DVector<f64>,
    mu: f64,
    noise: &mut impl Noise,
) -> Result<Vec<DVector<f64>>, EmError> {
    let count = sites.iter().map(|site| site.len() as u64).sum();
    let per_round = mu / f64::from(settings.stated().rounds).sqrt();
    let mut path = vec![start.clone()];
    let mut beta = start.clone();
    for _ in 0..settings.stated().rounds {
        let mut sum = DVector::zeros(beta.len());
        for site in sites {
            sum += match settings.bounded_sum(site, beta.as_slice())? {
                Some(bounded) => bounded.simulate_release(per_round, noise),
                None => settings.plain_sum(site, beta.as_slice())?,
            };
        }
        beta = settings.advance(&beta, &sum, count)?;
        path.push(beta.clone());
    }
    Ok(path)
}
