//! Invented streams, for tables of error against budget and length.

use fedreg_common::bounded::Noise;
use fedreg_common::methods::stream::{Average, Learner, Settings, StreamError};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StudentT};

/// Points of the quadrature.
const POINTS: u32 = 200;

/// `y = sin(2 pi x) + scale * t`, or another function in place of the sine; `x` uniform, `t` of Student's law.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sine {
    /// Degrees of freedom.
    pub(crate) freedom: f64,
    /// Of the noise.
    pub(crate) scale: f64,
}

impl Sine {
    /// The function that is to be found.
    pub(crate) fn function(x: f64) -> f64 {
        (std::f64::consts::TAU * x).sin()
    }

    /// The first `records` records of the stream with this seed, around the sine or another function.
    pub(crate) fn draw(&self, function: fn(f64) -> f64, records: usize, seed: u64) -> Vec<(f64, f64)> {
        let mut generator = ChaCha8Rng::seed_from_u64(seed);
        let law = StudentT::new(self.freedom);
        (0..records)
            .map(|_| {
                let x: f64 = generator.random();
                let noise = law.as_ref().map_or(0.0, |law| law.sample(&mut generator));
                (x, function(x) + self.scale * noise)
            })
            .collect()
    }
}

/// The learner after a stream in one covariate, each record noised for budget `mu`; exact where `mu` is none.
///
/// # Errors
/// Settings for another number of covariates; a budget with least squares.
pub(crate) fn run(
    settings: &Settings,
    records: &[(f64, f64)],
    mu: Option<f64>,
    noise: &mut impl Noise,
) -> Result<Learner, StreamError> {
    run_each(settings, records, noise, |_| mu.map(|mu| (mu, true)))
}

/// The same with a budget for the record in each place, counted from 0, and whether it is used: else its message is noise alone.
///
/// # Errors
/// As [`run`].
pub(crate) fn run_each(
    settings: &Settings,
    records: &[(f64, f64)],
    noise: &mut impl Noise,
    budget: impl Fn(usize) -> Option<(f64, bool)>,
) -> Result<Learner, StreamError> {
    let mut learner = Learner::new(settings);
    for (place, &(x, y)) in records.iter().enumerate() {
        let budget = budget(place);
        let record = Some(([x], y)).filter(|_| budget.is_none_or(|(_, used)| used));
        let record = record.as_ref().map(|(x, y)| (x.as_slice(), *y));
        let message = match budget {
            Some((mu, _)) => {
                settings.message(learner.weights(), record)?.simulate_release(mu, noise).as_slice().to_vec()
            }
            None => settings.plain_message(learner.weights(), record)?,
        };
        learner.apply(settings, &message)?;
    }
    Ok(learner)
}

/// Integrated squared distance of the averaged function from a function, by the midpoint rule.
///
/// # Errors
/// Settings for another number of covariates.
pub(crate) fn squared_error(
    function: fn(f64) -> f64,
    settings: &Settings,
    learner: &Learner,
    part: Average,
) -> Result<f64, StreamError> {
    let average = learner.average(part);
    let mut sum = 0.0;
    for index in 0..POINTS {
        let x = (f64::from(index) + 0.5) / f64::from(POINTS);
        sum += (settings.predict(&average, &[x])? - function(x)).powi(2);
    }
    Ok(sum / f64::from(POINTS))
}
