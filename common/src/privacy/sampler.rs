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
//! # Why the law is exact
//!
//! Write `s` for the scale, a power of two. (1) A coin with probability `exp(-a)`, `0 <= a <= 1`: toss coins of probability
//! `a`, `a/2`, `a/3`, ... until one fails; the number of the failing one is odd with probability
//! `sum (-a)^k/k! = exp(-a)`. Every `a` here is an integer over a power of two, so each toss compares random bits with an
//! integer. (2) `u` uniform below `s`, kept with probability `exp(-u/s)`, plus `s` times the number of heads of
//! probability `1/e` before the first tail, has a law proportional to `exp(-x/s)`; a random sign, with minus zero drawn
//! again, makes it symmetric. (3) Kept with probability `exp(-(|x| - s)^2 / (2 s^2))` it has a law proportional to
//! `exp(-|x|/s - (|x| - s)^2/(2 s^2))`, which is `exp(-x^2/(2 s^2))` times a constant. No step rounds. The generator is
//! ChaCha20, seeded afresh by the operating system for every few thousand integers, so "exact" is up to the security of
//! ChaCha20.
//!
//! The sampler of opendp draws the same law for every rational scale, at 6 to 11 microseconds an integer on the machine on
//! which this was written; fixing the scale to a power of two makes every step a comparison of machine integers and the
//! draw about a hundred times faster. The tests compare the two.
//!
//! # Reference
//!
//! Canonne, Kamath and Steinke 2020, "The Discrete Gaussian for Differential Privacy", Algorithms 1 to 3, with `t = sigma`.

use std::fmt;

use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha20Rng;
use rayon::prelude::*;

/// Standard deviation of the noise in lattice steps: 2^40.
pub const SCALE: u64 = 1 << SCALE_BITS;
const SCALE_BITS: u32 = 40;

/// Integers drawn from one seed.
const PER_SEED: usize = 4096;

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

    /// The noise that comes next, for an oracle of what opens.
    #[cfg(test)]
    pub(crate) fn foreseen(&mut self, count: usize) -> Vec<i64> {
        self.take(count).unwrap_or_default()
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

/// A fresh secret key from the operating system, for the keyed digests of a ledger.
///
/// # Errors
///
/// No randomness from the operating system.
pub fn fresh_key() -> Result<[u8; 32], NoiseError> {
    let mut key = [0; 32];
    ChaCha20Rng::try_from_os_rng().map_err(|error| NoiseError { reason: error.to_string() })?.fill_bytes(&mut key);
    Ok(key)
}

fn draw_exact(count: usize) -> Result<Vec<i64>, NoiseError> {
    let mut drawn = vec![0i64; count];
    drawn.par_chunks_mut(PER_SEED).try_for_each(|chunk| {
        let generator = ChaCha20Rng::try_from_os_rng().map_err(|error| NoiseError { reason: error.to_string() })?;
        let mut source = Bits { generator };
        chunk.iter_mut().for_each(|slot| *slot = source.gaussian(SCALE_BITS));
        Ok(())
    })?;
    Ok(drawn)
}

/// Exact draws from random bits.
struct Bits {
    generator: ChaCha20Rng,
}

impl Bits {
    /// A uniform integer of `bits` bits, at most 128.
    fn uniform(&mut self, bits: u32) -> u128 {
        if bits == 0 {
            return 0;
        }
        let low = u128::from(self.generator.next_u64());
        let word = if bits > 64 { low | u128::from(self.generator.next_u64()) << 64 } else { low };
        word & (u128::MAX >> (128 - bits))
    }

    /// True with probability `1/count`.
    fn one_in(&mut self, count: u32) -> bool {
        let bits = u32::BITS - (count - 1).leading_zeros();
        if bits == 0 {
            return true;
        }
        loop {
            let word = self.uniform(bits);
            if word < u128::from(count) {
                return word == 0;
            }
        }
    }

    /// True with probability `exp(-numerator / 2^bits)`, for a numerator of at most `2^bits`.
    fn exponential_below_one(&mut self, numerator: u128, bits: u32) -> bool {
        let mut count = 1u32;
        // The probability that this goes on to a count of k is 1/k!; it cannot reach the end of the counter.
        while self.one_in(count) && self.uniform(bits) < numerator {
            count += 1;
        }
        count % 2 == 1
    }

    /// True with probability `exp(-numerator / 2^bits)`.
    fn exponential(&mut self, mut numerator: u128, bits: u32) -> bool {
        let one = 1u128 << bits;
        while numerator > one {
            if !self.exponential_below_one(one, bits) {
                return false;
            }
            numerator -= one;
        }
        self.exponential_below_one(numerator, bits)
    }

    /// A discrete Laplace integer of scale `2^bits`.
    fn laplace(&mut self, bits: u32) -> i128 {
        loop {
            let rest = loop {
                let rest = self.uniform(bits);
                if self.exponential(rest, bits) {
                    break rest;
                }
            };
            let mut whole = 0u128;
            while self.exponential_below_one(1, 0) {
                whole += 1;
            }
            let magnitude = (rest + (whole << bits)) as i128;
            let negative = self.uniform(1) == 1;
            if !(negative && magnitude == 0) {
                return if negative { -magnitude } else { magnitude };
            }
        }
    }

    /// A discrete Gaussian integer of standard deviation `2^bits`, bits at most 40.
    fn gaussian(&mut self, bits: u32) -> i64 {
        loop {
            let candidate = self.laplace(bits);
            let distance = candidate.unsigned_abs().abs_diff(1u128 << bits);
            // A candidate beyond 2^60 has probability exp(-2^20) and would be kept with probability exp(-2^39); letting it
            // go changes the law by less than that, and keeps the square within 128 bits.
            if distance < 1 << 60
                && self.exponential(distance * distance, 2 * bits + 1)
                && let Ok(integer) = i64::try_from(candidate)
            {
                return integer;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source() -> Bits {
        Bits { generator: ChaCha20Rng::try_from_os_rng().unwrap() }
    }

    /// False-alarm probability: the chi-square quantile at 1 - 1e-6 with 20 degrees of freedom is 67.2 (bound 70).
    #[test]
    fn small_draws_follow_the_exact_law() {
        let (scale, count) = (4u64, 200_000usize);
        let half = 10i64;
        let mut bits = source();
        let weight = |k: i64| (-((k * k) as f64) / (2.0 * (scale * scale) as f64)).exp();
        let total: f64 = (-200..=200).map(weight).sum();
        let mut observed = vec![0usize; 2 * half as usize + 1];
        for _ in 0..count {
            let k = bits.gaussian(2).clamp(-half, half);
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

    /// Kolmogorov-Smirnov against the normal law, from which that of integers of so large a scale differs by less than 1e-9: the
    /// distance times the root of their number passes 2.9 with probability 1e-7.
    #[test]
    fn draws_have_the_law_of_their_scale() {
        let distance = |mut drawn: Vec<i64>, scale: f64| {
            drawn.sort_unstable();
            let step = 1.0 / drawn.len() as f64;
            let normal = |k: i64| 0.5 * libm::erfc(-(k as f64) / (scale * std::f64::consts::SQRT_2));
            let ends = |(at, k): (usize, &i64)| {
                let (below, law) = (at as f64 * step, normal(*k));
                (law - below).max(below + step - law)
            };
            drawn.iter().enumerate().map(ends).fold(0.0, f64::max) / step.sqrt()
        };
        let drawn = NoisePool::new().take(20_000).unwrap();
        let found = distance(drawn.clone(), SCALE as f64);
        assert!(found < 2.9, "distance {found}");
        for wrong in [0.8, 1.25] {
            assert!(distance(drawn.clone(), wrong * SCALE as f64) > 2.9, "a scale of {wrong} is not seen");
        }
    }

    /// Bounds of five standard errors, false alarm 6e-7 each.
    #[test]
    fn exponential_coins_have_their_probability() {
        let mut bits = source();
        for (numerator, power, probability) in
            [(0u128, 3u32, 1.0), (1, 0, (-1.0f64).exp()), (5, 3, (-0.625f64).exp()), (37, 3, (-4.625f64).exp())]
        {
            let count = 100_000;
            let heads = (0..count).filter(|_| bits.exponential(numerator, power)).count() as f64;
            let error = (probability * (1.0 - probability) / f64::from(count)).sqrt();
            assert!((heads / f64::from(count) - probability).abs() <= 5.0 * error, "{numerator}/2^{power}");
        }
        let thirds = (0..100_000).filter(|_| bits.one_in(3)).count() as f64;
        assert!((thirds / 1e5 - 1.0 / 3.0).abs() < 5.0 * (2.0 / 9.0 / 1e5f64).sqrt());
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
        let mut bits = source();
        let sum: i64 = (0..1_000_000).map(|_| bits.gaussian(SCALE_BITS) >> 20).sum();
        let seconds = start.elapsed().as_secs_f64();
        println!("1 000 000 lattice draws on one core: {seconds:.2} s (sum {sum})");
        assert!(seconds <= 5.0);
    }
}
