//! Formulas as the source paper prints them, wrong where the parent module says so; for comparison in simulations only.
//!
//! Nothing here can be released: there is no [`Bounded`](fedreg_common::bounded::Bounded) of any of it.

use std::f64::consts::{PI, SQRT_2};

use fedreg_common::methods::em::{Model, Records, TRUNCATION_BOUND};
use fedreg_common::privacy::accountant::normal_tail;
use nalgebra::DVector;

/// The gradient with weights (23), (24), whose exponent lacks a factor 2, and matrix (27), which lacks the covariance of the
/// missing covariates.
pub(crate) fn gradient(records: &Records, index: usize, sigma: f64, beta: &[f64]) -> Vec<f64> {
    let (x, y) = (records.row(index), records.outcome(index));
    let variance = sigma * sigma;
    match records.model() {
        Model::GaussianMixture => {
            let w = (0.5 * dot(x, beta) / variance).tanh();
            x.iter().zip(beta).map(|(x, beta)| w * x - beta).collect()
        }
        Model::MixedRegressions => {
            let fitted = dot(x, beta);
            let w = (0.5 * y * fitted / variance).tanh();
            x.iter().map(|x| (w * y - fitted) * x).collect()
        }
        Model::MissingCovariates => {
            let missing = records.missing(index);
            let hidden: Vec<f64> = beta.iter().zip(missing).map(|(b, &m)| if m { *b } else { 0.0 }).collect();
            let scale = (y - dot(x, beta)) / (variance + dot(&hidden, &hidden));
            let mean: Vec<f64> = x.iter().zip(&hidden).map(|(x, b)| x + scale * b).collect();
            let mean_missing: Vec<f64> = hidden.iter().map(|b| scale * b).collect();
            let (along, along_missing) = (dot(&mean, beta), dot(&mean_missing, beta));
            (0..beta.len())
                .map(|j| y * mean[j] - (hidden[j] + mean[j] * along - mean_missing[j] * along_missing))
                .collect()
        }
    }
}

/// The coefficients after so many exact rounds of step one with the printed gradient.
pub(crate) fn fit(records: &Records, sigma: f64, start: &DVector<f64>, rounds: u32) -> DVector<f64> {
    let mut beta = start.clone();
    for _ in 0..rounds {
        let mut sum = DVector::zeros(beta.len());
        for index in 0..records.len() {
            sum += DVector::from_vec(gradient(records, index, sigma, beta.as_slice()));
        }
        beta += sum / records.len().max(1) as f64;
    }
    beta
}

/// The smoothed truncation at `a` with noise of standard deviation `b`, by the printed polynomial and correction T1 to T5:
/// right, and useless where they cancel.
pub(crate) fn smoothed_truncation(a: f64, b: f64) -> f64 {
    let (right, left) = ((SQRT_2 - a) / b, (SQRT_2 + a) / b);
    let (beyond, below) = (normal_tail(right), normal_tail(left));
    let (at_right, at_left) = ((-0.5 * right * right).exp(), (-0.5 * left * left).exp());
    let root = 1.0 / (2.0 * PI).sqrt();
    let terms = [
        TRUNCATION_BOUND * (beyond - below),
        -(a - a.powi(3) / 6.0) * (beyond + below),
        b * root * (1.0 - a * a / 2.0) * (at_left - at_right),
        a * b * b / 2.0 * (below + beyond + root * (left * at_left + right * at_right)),
        b.powi(3) * root / 6.0 * ((2.0 + right * right) * at_right - (2.0 + left * left) * at_left),
    ];
    a * (1.0 - b * b / 2.0) - a.powi(3) / 6.0 + terms.iter().sum::<f64>()
}

/// The three scales `s` that the paper states for the same quantity: as typeset in Algorithm 2, the one at which its two
/// formulas of the noise agree, and that of Theorem 2. `budget` is [`budget`]; `zeta` the failure probability.
pub(crate) fn scales(records: f64, columns: f64, tau: f64, epsilon: f64, delta: f64, zeta: f64) -> [f64; 3] {
    let (root, confidence) = (budget(epsilon, delta), (columns / zeta).ln());
    [
        records.sqrt() * tau * root / (2.0 * confidence),
        (records * tau * root / confidence).sqrt() / 2.0,
        (records * epsilon * tau).sqrt() / ((1.0 / zeta).ln() * (1.0 / delta).ln().powf(0.25)),
    ]
}

/// The paper's account, `sqrt(ln(1/delta) + epsilon) - sqrt(ln(1/delta))`: valid, with up to 61 % more noise variance than
/// needed. As a Gaussian budget it is `sqrt 2` times this.
pub(crate) fn budget(epsilon: f64, delta: f64) -> f64 {
    let log = (1.0 / delta).ln();
    (log + epsilon).sqrt() - log.sqrt()
}

fn dot(left: &[f64], right: &[f64]) -> f64 {
    left.iter().zip(right).map(|(a, b)| a * b).sum()
}
