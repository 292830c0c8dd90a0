//! Values with a proved sensitivity, on an exact grid, before they get their noise.
//!
//! The methods [`em`](crate::methods::em), [`features`](crate::methods::features) and [`stream`](crate::methods::stream) end in a [`Bounded`]: the
//! integers that the sensitivity is proved on, their unit, the sensitivity and its formula. Integer sums do not depend on
//! the order of the records or the number of threads, so rounding is part of no proof.
//!
//! [`Noise`] is continuous noise for simulations. What leaves a party gets lattice noise from the privacy core instead.

use nalgebra::DVector;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;

/// A ball's radius is at least this many units long.
const RADIUS_BITS: i32 = 40;

/// Vectors that are clipped and summed by one task.
const PART: usize = 4096;

/// A value on an exact grid with its l2 sensitivity. Made only by the methods, beside their proofs.
#[derive(Clone, PartialEq)]
pub struct Bounded {
    integers: Vec<i128>,
    exponent: i32,
    sensitivity: f64,
    formula: &'static str,
}

impl Bounded {
    pub(crate) fn new(integers: Vec<i128>, exponent: i32, sensitivity: f64, formula: &'static str) -> Bounded {
        Bounded { integers, exponent, sensitivity, formula }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.integers.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.integers.is_empty()
    }

    /// The entries in units of two to the [`exponent`](Bounded::exponent).
    pub fn integers(&self) -> &[i128] {
        &self.integers
    }

    /// The unit is two to this power.
    pub fn exponent(&self) -> i32 {
        self.exponent
    }

    /// How far apart, in l2 norm, the values of two data sets can be that differ in one record.
    pub fn sensitivity(&self) -> f64 {
        self.sensitivity
    }

    /// How the sensitivity comes about, in words for reports.
    pub fn formula(&self) -> &'static str {
        self.formula
    }

    /// The sum with a value of other records: replacing one record changes one of the two. It saturates, which brings no two sums
    /// farther apart. `None` if they are of different sizes.
    pub(crate) fn joined(&self, other: &Bounded) -> Option<Bounded> {
        if (self.len(), self.exponent) != (other.len(), other.exponent) {
            return None;
        }
        let sums = self.integers.iter().zip(&other.integers).map(|(left, right)| left.saturating_add(*right));
        let sensitivity = self.sensitivity.max(other.sensitivity);
        Some(Bounded { integers: sums.collect(), sensitivity, ..self.clone() })
    }

    /// The entries before noise: for the party itself, for declared plain exchange and for simulations.
    pub fn values(&self) -> DVector<f64> {
        let unit = power_of_two(self.exponent);
        DVector::from_iterator(self.len(), self.integers.iter().map(|&k| k as f64 * unit))
    }

    /// The entries with noise of standard deviation sensitivity / `mu` from `noise`: what a release of them looks like
    /// in a simulation.
    pub fn simulate_release(&self, mu: f64, noise: &mut impl Noise) -> DVector<f64> {
        let mut values = self.values();
        noise.add(self.sensitivity / mu, values.as_mut_slice());
        values
    }
}

// Sizes only: the value is what the noise is there to hide.
impl std::fmt::Debug for Bounded {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Bounded({} entries, sensitivity {})", self.len(), self.sensitivity)
    }
}

/// Continuous noise that a simulation adds.
pub trait Noise {
    /// Adds independent normal noise of standard deviation `sigma` to every value.
    fn add(&mut self, sigma: f64, values: &mut [f64]);
}

/// No noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Silent;

impl Noise for Silent {
    fn add(&mut self, _sigma: f64, _values: &mut [f64]) {}
}

/// Noise that depends on the seed alone.
///
/// # Privacy
///
/// None: anyone who knows the seed takes the noise away again. For simulations on invented or public data.
#[derive(Debug, Clone)]
pub struct SimulatedNoise(ChaCha8Rng);

impl SimulatedNoise {
    /// Noise from this seed.
    pub fn seeded(seed: u64) -> SimulatedNoise {
        SimulatedNoise(ChaCha8Rng::seed_from_u64(seed))
    }
}

impl Noise for SimulatedNoise {
    fn add(&mut self, sigma: f64, values: &mut [f64]) {
        for value in values {
            let z: f64 = StandardNormal.sample(&mut self.0);
            *value += sigma * z;
        }
    }
}

/// A ball around zero with a grid of which its radius is 2^40 to 2^41 units.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ball {
    radius: f64,
    exponent: i32,
    /// Largest whole number of units within the radius.
    limit: i128,
}

impl Ball {
    /// Of a radius that [`is_radius`] accepts.
    pub(crate) fn new(radius: f64) -> Ball {
        let exponent = exponent_of(radius) - RADIUS_BITS;
        Ball { radius, exponent, limit: (radius / power_of_two(exponent)).floor() as i128 }
    }

    pub(crate) fn exponent(&self) -> i32 {
        self.exponent
    }

    /// The vector, shortened to the radius if it is longer, cut towards zero to whole units. A vector with an entry that
    /// is not finite becomes zero. The result is inside the ball by integer arithmetic, whatever comes in.
    pub(crate) fn clip(&self, vector: &[f64], out: &mut Vec<i64>) {
        out.clear();
        let largest = vector.iter().fold(0.0_f64, |largest, v| largest.max(v.abs()));
        if !(vector.iter().all(|v| v.is_finite()) && largest > 0.0) {
            out.resize(vector.len(), 0);
            return;
        }
        // Relative to the largest entry, so that squares neither overflow nor vanish.
        let relative = vector.iter().map(|v| (v / largest).powi(2)).sum::<f64>().sqrt();
        let mut length = largest.min(self.radius / relative) / power_of_two(self.exponent);
        loop {
            out.clear();
            out.extend(vector.iter().map(|v| (v / largest * length) as i64));
            let square: i128 = out.iter().map(|&k| i128::from(k) * i128::from(k)).sum();
            if square <= self.limit * self.limit {
                return;
            }
            // Rounding made it a few units too long.
            length *= 1.0 - 1e-12;
        }
    }

    /// The value cut to `[-radius, radius]` and towards zero to whole units; what is not a number becomes zero.
    pub(crate) fn clamp(&self, value: f64) -> i64 {
        let limit = self.limit as i64;
        ((value / power_of_two(self.exponent)) as i64).clamp(-limit, limit)
    }
}

/// The exact sum of `count` integer vectors of `width` entries; `vector(i, scratch, out)` writes the i-th one.
pub(crate) fn sum_of(
    count: usize,
    width: usize,
    vector: impl Fn(usize, &mut Vec<f64>, &mut Vec<i64>) + Sync,
) -> Vec<i128> {
    (0..count.div_ceil(PART))
        .into_par_iter()
        .map(|part| {
            let (mut scratch, mut clipped) = (Vec::with_capacity(width), Vec::with_capacity(width));
            let mut sum = vec![0i128; width];
            for index in part * PART..((part + 1) * PART).min(count) {
                vector(index, &mut scratch, &mut clipped);
                sum.iter_mut().zip(&clipped).for_each(|(sum, &k)| *sum += i128::from(k));
            }
            sum
        })
        .reduce(
            || vec![0; width],
            |mut left, right| {
                left.iter_mut().zip(right).for_each(|(left, right)| *left += right);
                left
            },
        )
}

/// Whether a [`Ball`] can have this radius: far from the ends of the exponent range.
pub(crate) fn is_radius(radius: f64) -> bool {
    (1e-100..=1e100).contains(&radius)
}

/// Two to a power that is in the range of normal numbers.
pub(crate) fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// The power of two at or below a normal positive number.
fn exponent_of(value: f64) -> i32 {
    ((value.to_bits() >> 52) & 0x7ff) as i32 - 1023
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn square(clipped: &[i64]) -> i128 {
        clipped.iter().map(|&k| i128::from(k).pow(2)).sum()
    }

    proptest! {
        #[test]
        fn a_clipped_vector_is_inside_the_ball_whatever_comes_in(
            vector in proptest::collection::vec(proptest::num::f64::ANY, 1..9),
            radius in 1e-6..1e6_f64,
        ) {
            let ball = Ball::new(radius);
            let mut out = Vec::new();
            ball.clip(&vector, &mut out);
            prop_assert_eq!(out.len(), vector.len());
            // In units the radius is exact up to 2^41, so this comparison is not rounded.
            let limit = (radius / power_of_two(ball.exponent())).floor() as i128;
            prop_assert!(square(&out) <= limit * limit);
            for &value in &vector {
                prop_assert!(i128::from(ball.clamp(value)).abs() <= limit);
            }
        }
    }

    #[test]
    fn clipping_keeps_the_direction_and_short_vectors_as_they_are() {
        let ball = Ball::new(0.3);
        let unit = power_of_two(ball.exponent());
        let mut out = Vec::new();
        ball.clip(&[3e200, -4e200], &mut out);
        assert!((out[0] as f64 * unit - 0.18).abs() < 1e-11 && (out[1] as f64 * unit + 0.24).abs() < 1e-11);
        ball.clip(&[0.1, -0.2], &mut out);
        assert!((out[0] as f64 * unit - 0.1).abs() < 1e-11 && (out[1] as f64 * unit + 0.2).abs() < 1e-11);
        ball.clip(&[0.1, f64::NAN], &mut out);
        assert_eq!(out, [0, 0]);
        ball.clip(&[0.0, -0.0], &mut out);
        assert_eq!(out, [0, 0]);
        assert_eq!((ball.clamp(f64::NAN), ball.clamp(0.0)), (0, 0));
    }

    #[test]
    fn sums_are_the_same_integers_on_any_number_of_threads() {
        let on = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let ball = Ball::new(1.0);
                sum_of(3 * PART + 5, 2, |i, _, out| ball.clip(&[(i as f64).sin(), (i as f64).cos()], out))
            })
        };
        assert_eq!(on(1), on(3));
    }

    #[test]
    fn a_bounded_value_prints_its_size_and_not_itself() {
        let value = Bounded::new(vec![5, 7], -3, 2.0, "2 C");
        assert_eq!(format!("{value:?}"), "Bounded(2 entries, sensitivity 2)");
        assert_eq!(value.values().as_slice(), [0.625, 0.875]);
    }
}
