//! The only file that draws noise: integers from one discrete Gaussian, exact, seeded by the operating system.
//!
//! Every release uses the same law, a discrete Gaussian whose standard deviation is [`SCALE`] lattice steps, and sets
//! the step instead of the law. So noise can be drawn ahead of time: a [`NoisePool`] holds integers that belong to no
//! release yet. They live in memory only and each is used once. Noise that went into two values would cancel in their
//! difference; that is also why a pool cannot be copied or written down, and why a snapshot of a running machine is not
//! covered by the guarantee.
//!
//! A released build has no way to choose the noise: there is no seed, and no trait through which one could be passed.
//!
//! # Reference
//!
//! Canonne, Kamath and Steinke 2020, "The Discrete Gaussian for Differential Privacy", in the implementation of opendp.

use std::fmt;

use opendp::traits::samplers::sample_discrete_gaussian;
use rayon::prelude::*;

/// Standard deviation of the noise in lattice steps: 2^40.
pub const SCALE: u64 = 1 << 40;

/// Noise that could not be drawn.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the operating system gave no randomness: {reason}")]
pub struct NoiseError {
    reason: String,
}

/// Integers of standard deviation [`SCALE`] that no release has used yet.
pub struct NoisePool {
    ready: Vec<i64>,
    #[cfg(test)]
    seeded: Option<rand_chacha::ChaCha8Rng>,
}

impl NoisePool {
    /// An empty pool; noise is drawn when it is needed.
    pub fn new() -> NoisePool {
        NoisePool {
            ready: Vec::new(),
            #[cfg(test)]
            seeded: None,
        }
    }

    /// Draws until `count` integers are ready, on all cores.
    ///
    /// # Errors
    ///
    /// No randomness from the operating system.
    pub fn fill(&mut self, count: usize) -> Result<(), NoiseError> {
        let missing = count.saturating_sub(self.ready.len());
        let drawn: Result<Vec<i64>, NoiseError> = self.draw_many(missing);
        self.ready.extend(drawn?);
        Ok(())
    }

    /// Integers that are ready.
    pub fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Takes `count` integers out of the pool, drawing what is missing.
    pub(in crate::privacy) fn take(&mut self, count: usize) -> Result<Vec<i64>, NoiseError> {
        self.fill(count)?;
        Ok(self.ready.split_off(self.ready.len() - count))
    }

    #[cfg(not(test))]
    fn draw_many(&mut self, count: usize) -> Result<Vec<i64>, NoiseError> {
        draw_exact(count)
    }

    /// Tests may run on seeded noise of nearly the same law, because the exact sampler takes microseconds a draw.
    #[cfg(test)]
    fn draw_many(&mut self, count: usize) -> Result<Vec<i64>, NoiseError> {
        match &mut self.seeded {
            None => draw_exact(count),
            Some(generator) => {
                use rand_distr::{Distribution, StandardNormal};
                Ok((0..count)
                    .map(|_| {
                        let normal: f64 = StandardNormal.sample(generator);
                        (normal * SCALE as f64).round() as i64
                    })
                    .collect())
            }
        }
    }

    /// A pool whose integers depend on the seed alone; exists in this crate's own tests and nowhere else.
    #[cfg(test)]
    pub(crate) fn seeded(seed: u64) -> NoisePool {
        use rand::SeedableRng;
        NoisePool { ready: Vec::new(), seeded: Some(rand_chacha::ChaCha8Rng::seed_from_u64(seed)) }
    }
}

impl Default for NoisePool {
    fn default() -> Self {
        NoisePool::new()
    }
}

// The number of integers only: noise that shows in a log is no noise.
impl fmt::Debug for NoisePool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "NoisePool({} ready)", self.ready.len())
    }
}

fn draw_exact(count: usize) -> Result<Vec<i64>, NoiseError> {
    (0..count).into_par_iter().with_min_len(256).map(|_| draw(SCALE)).collect()
}

/// One integer of standard deviation `scale`.
fn draw(scale: u64) -> Result<i64, NoiseError> {
    loop {
        let integer =
            sample_discrete_gaussian(scale.into()).map_err(|error| NoiseError { reason: error.to_string() })?;
        // An integer beyond 64 bits is 2^23 standard deviations out; no machine will ever see one, and drawing again
        // changes the law by less than its probability, exp(-2^45).
        if let Ok(integer) = i64::try_from(integer) {
            return Ok(integer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// False-alarm probability: the chi-square quantile at 1 - 1e-6 with 20 degrees of freedom is 67.2 (bound 70).
    #[test]
    fn small_draws_follow_the_exact_law() {
        let (scale, count) = (3u64, 60_000usize);
        let half = 10i64;
        let weight = |k: i64| (-((k * k) as f64) / (2.0 * (scale * scale) as f64)).exp();
        let total: f64 = (-200..=200).map(weight).sum();
        let mut observed = vec![0usize; 2 * half as usize + 1];
        for _ in 0..count {
            let k = draw(scale).unwrap().clamp(-half, half);
            observed[(k + half) as usize] += 1;
        }
        let chi: f64 = observed
            .iter()
            .enumerate()
            .map(|(index, &seen)| {
                let k = index as i64 - half;
                let mass: f64 = if k == half {
                    (half..=200).map(weight).sum()
                } else if k == -half {
                    (-200..=-half).map(weight).sum()
                } else {
                    weight(k)
                };
                let expected = count as f64 * mass / total;
                (seen as f64 - expected).powi(2) / expected
            })
            .sum();
        assert!(chi < 70.0, "chi-square {chi}");
    }

    /// Standard error of the variance ratio is sqrt(2/n) = .0063 at n = 50 000; the bound .035 is 5.5 of them, false
    /// alarm below 1e-7. The mean's bound is five standard errors, false alarm 6e-7.
    #[test]
    fn draws_of_the_pool_have_the_stated_scale_and_no_drift() {
        let mut pool = NoisePool::new();
        let drawn = pool.take(50_000).unwrap();
        let scaled: Vec<f64> = drawn.iter().map(|&k| k as f64 / SCALE as f64).collect();
        let mean = scaled.iter().sum::<f64>() / scaled.len() as f64;
        let variance = scaled.iter().map(|z| z * z).sum::<f64>() / scaled.len() as f64;
        assert!((variance - 1.0).abs() < 0.035, "variance {variance}");
        assert!(mean.abs() < 5.0 / (scaled.len() as f64).sqrt(), "mean {mean}");
        let low_bits = drawn.iter().filter(|&&k| k & 1 == 1).count() as f64;
        assert!((low_bits / 50_000.0 - 0.5).abs() < 5.0 * 0.5 / 50_000f64.sqrt(), "lowest bit {low_bits}");
    }

    #[test]
    fn an_integer_leaves_the_pool_once() {
        let mut pool = NoisePool::new();
        pool.fill(40).unwrap();
        let (first, second) = (pool.take(20).unwrap(), pool.take(20).unwrap());
        assert_eq!(pool.ready(), 0);
        assert!(first.iter().all(|k| !second.contains(k)));
    }

    #[test]
    fn a_pool_prints_its_size_and_no_noise() {
        let mut pool = NoisePool::seeded(1);
        pool.fill(2).unwrap();
        assert_eq!(format!("{pool:?}"), "NoisePool(2 ready)");
    }

    /// Run by hand: `cargo test --release -p fedreg-common sampler::tests::a_million -- --ignored --nocapture`.
    #[test]
    #[ignore = "measures time"]
    fn a_million_draws_on_one_core() {
        #[allow(clippy::disallowed_methods)] // a measurement; nothing else here reads a clock
        let start = std::time::Instant::now();
        let sum: i64 = (0..1_000_000).map(|_| draw(SCALE).unwrap() >> 20).sum();
        let seconds = start.elapsed().as_secs_f64();
        println!("1 000 000 lattice draws on one core: {seconds:.2} s (sum {sum})");
        assert!(seconds <= 5.0);
    }
}
