//! Facts of the methods, on simulated data and on vectors from another implementation.

mod consensus;
mod fits;
mod following;
mod honest;
mod measure;
mod sites;
mod vectors;

use nalgebra::{DMatrix, DVector};
use proptest::test_runner::{Config as ProptestConfig, RngSeed};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::research::baselines;
use crate::research::batches::{BatchLaw, Corruption, SyntheticBatch, batch, unit_coefficients};

/// The same cases on every run.
fn seeded(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..ProptestConfig::default() }
}

fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

fn settings(start: Start) -> FitSettings {
    FitSettings { start, intercept: false, ..FitSettings::default() }
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

/// One estimate per batch, each from a worker of its own.
fn estimates_of(batches: &[SyntheticBatch], start: Start) -> Vec<Estimate> {
    let named = |(i, b)| Estimate::from_fit(format!("worker {i:03}"), 0, &fitted(b, start));
    batches.iter().enumerate().map(named).collect()
}

fn set_of(estimates: &[Estimate]) -> Estimates {
    let mut set = Estimates::new(estimates[0].coefficients.len(), estimates[0].gram.is_some());
    for e in estimates {
        set.insert(e.clone()).unwrap();
    }
    set
}

/// What a stream says after each arrival.
fn stream(estimates: &[Estimate], settings: OnlineSettings) -> Vec<Update> {
    let mut online = Online::new(settings, estimates[0].coefficients.len(), true).unwrap();
    estimates.iter().map(|e| online.push(e.clone()).unwrap()).collect()
}

/// Least squares on the clean rows of all batches together.
fn pooled_told(batches: &[&SyntheticBatch]) -> DVector<f64> {
    let (mut gram, mut cross) = (DMatrix::zeros(0, 0), DVector::zeros(0));
    for b in batches {
        let x = b.x.rows(0, b.clean);
        let (g, c) = (x.transpose() * x, x.transpose() * b.y.rows(0, b.clean));
        (gram, cross) = if gram.is_empty() { (g, c) } else { (gram + g, cross + c) };
    }
    gram.cholesky().unwrap().solve(&cross)
}

/// Share of 95 % intervals that hold the truth, and the mean squared standardised error.
fn coverage(n: usize, p: usize, m: usize, share: f64, start: Start, runs: u64) -> (f64, f64) {
    let (mut held, mut square, mut count) = (0, 0.0, 0);
    for run in 0..runs {
        let mut rng = rng(50_000 + run);
        let beta = unit_coefficients(&mut rng, p);
        let all: Vec<SyntheticBatch> = (0..m).map(|_| batch(&mut rng, &beta, &BatchLaw::published(n, share))).collect();
        let found = consolidate(&set_of(&estimates_of(&all, start)), &Method::Refine.into()).unwrap();
        let off = &found.coefficients - &beta;
        for ((d, h), s) in off.iter().zip(&found.half_widths(0.95).unwrap()).zip(&found.std_errors().unwrap()) {
            held += usize::from(d.abs() <= *h);
            square += (d / s).powi(2);
            count += 1;
        }
    }
    (held as f64 / count as f64, square / count as f64)
}

/// An estimate without its Gram.
fn bare(worker: &str, batch: u64, coefficients: &[f64]) -> Estimate {
    Estimate {
        worker: worker.to_owned(),
        batch,
        coefficients: coefficients.to_vec(),
        gram: None,
        nobs: 100,
        kept: 90,
        scale: 0.3,
        cleaned: true,
    }
}
