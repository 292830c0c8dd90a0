//! What error to expect of a private fit: the study's own rounds on invented records of its own model.
//!
//! The model is stated in full but for the coefficients, so nothing has to be approximated: records are drawn from it at invented
//! coefficients of a declared length, and fitted with the study's settings, start, number of sites and noise. What comes out depends on
//! public facts alone.

use nalgebra::DVector;

use super::simulate::{direction, draw};
use super::{EmError, Estimator, Records, Settings, Stated, Update};
use crate::bounded::{Noise, Silent, SimulatedNoise};

/// Invented data sets, of which the median is taken.
const DRAWS: u64 = 5;
/// Share of the covariates that is lost where the model has missing ones.
pub(crate) const MISSING: f64 = 0.2;
/// Records, and gradients' entries over all rounds, of an invented data set at most.
const MOST_RECORDS: u64 = 20_000;
const MOST_ENTRIES: u64 = 4_000_000;
/// Records of an invented data set that settings are compared on, at most.
const MOST_COMPARED: u64 = 1_500;

/// What to expect, in units of the coefficients.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Expected {
    /// Length of the noise in the step of one round: exact.
    pub round_noise: f64,
    /// How far the noise moves the estimate, the median over invented data.
    pub noise: f64,
    /// Distance of the estimate from the truth, likewise. With more than 20 000 records an upper bound, as only that number is simulated.
    pub error: f64,
    /// The same of one site's own records, without noise and bounds.
    pub alone: f64,
    /// Length of the truth.
    pub length: f64,
}

/// What to expect of `sites` sites with `records` records each, every site's rounds costing `mu` in all, when the
/// coefficients have this length.
///
/// # Errors
/// Settings without a bound on gradients are not private, and have no expectation here; a start that does not fit.
pub fn expected(
    settings: &Settings,
    start: &DVector<f64>,
    (records, sites): (u64, u32),
    mu: f64,
    length: f64,
) -> Result<Expected, EmError> {
    let stated = settings.stated();
    let all = records.saturating_mul(u64::from(sites)).max(1);
    let mean_noise = mean_noise(settings, (records, sites), mu);
    let entries = stated.columns as u64 * u64::from(stated.rounds);
    let most = MOST_RECORDS.min(MOST_ENTRIES / entries.max(1)).max(500);
    let (drawn, own) = (all.min(most), records.clamp(1, most));
    let bare = Settings::try_from(Stated { estimator: Estimator::None, averaged: 1, ..stated.clone() })?;
    let (mut noise, mut error, mut alone) = (Vec::new(), Vec::new(), Vec::new());
    for seed in 0..DRAWS {
        let beta = direction(stated.columns, length, seed);
        let draw = |count: u64, seed: u64| draw(stated.model, stated.sigma, &beta, count as usize, MISSING, seed);
        let together = draw(drawn, 100 + seed)?;
        let exact = fit(settings, &together, start, 0.0, &mut Silent)?;
        let noised = fit(settings, &together, start, mean_noise, &mut SimulatedNoise::seeded(200 + seed))?;
        let single = fit(&bare, &draw(own, 300 + seed)?, start, 0.0, &mut Silent)?;
        noise.push(distance(settings, noised.as_ref(), exact.as_ref()));
        error.push(distance(settings, noised.as_ref(), Some(&beta)));
        alone.push(distance(settings, single.as_ref(), Some(&beta)) * (own as f64 / records.max(1) as f64).sqrt());
    }
    let step = match stated.update {
        Update::Gradient { step } => step,
        Update::Direct => 1.0,
    };
    Ok(Expected {
        round_noise: step * mean_noise * (stated.columns as f64).sqrt(),
        noise: median(noise),
        error: median(error),
        alone: median(alone),
        length,
    })
}

/// Standard deviation of the noise in an entry of the mean gradient of one round.
fn mean_noise(settings: &Settings, (records, sites): (u64, u32), mu: f64) -> f64 {
    let stated = settings.stated();
    let all = records.saturating_mul(u64::from(sites)).max(1);
    let sensitivity = stated.estimator.sensitivity(stated.columns).unwrap_or(f64::INFINITY);
    sensitivity * (f64::from(stated.rounds) * f64::from(sites)).sqrt() / (mu * all as f64)
}

/// Invented data on which settings are compared: every setting gets the same records and the same seeds of noise, so that fewer of them
/// do than [`expected`] takes.
pub struct Trials {
    data: Vec<(DVector<f64>, Records)>,
    size: (u64, u32),
    mu: f64,
}

impl Trials {
    /// Of the model of these settings, with coefficients of this length.
    ///
    /// # Errors
    /// No coefficient.
    pub fn new(settings: &Settings, size: (u64, u32), mu: f64, length: f64) -> Result<Trials, EmError> {
        let stated = settings.stated();
        let drawn = size.0.saturating_mul(u64::from(size.1)).clamp(1, MOST_COMPARED);
        let invented = |seed: u64| {
            let beta = direction(stated.columns, length, seed);
            let records = draw(stated.model, stated.sigma, &beta, drawn as usize, MISSING, 100 + seed)?;
            Ok((beta, records))
        };
        Ok(Trials { data: (0..DRAWS).map(invented).collect::<Result<_, EmError>>()?, size, mu })
    }

    /// Distance of the estimate from the truth with these settings, the median; infinite where estimates leave all numbers behind.
    ///
    /// # Errors
    /// A start that does not fit.
    pub fn error(&self, settings: &Settings, start: &DVector<f64>) -> Result<f64, EmError> {
        let sigma = mean_noise(settings, self.size, self.mu);
        let errors = self.data.iter().zip(200..).map(|((beta, records), seed)| {
            let found = fit(settings, records, start, sigma, &mut SimulatedNoise::seeded(seed))?;
            Ok(distance(settings, found.as_ref(), Some(beta)))
        });
        Ok(median(errors.collect::<Result<_, EmError>>()?))
    }
}

/// The estimate after all rounds, the mean gradient of each with noise of this standard deviation; none where it left all numbers behind.
fn fit(
    settings: &Settings,
    records: &Records,
    start: &DVector<f64>,
    sigma: f64,
    noise: &mut impl Noise,
) -> Result<Option<DVector<f64>>, EmError> {
    let count = records.len() as u64;
    let mut path = vec![start.clone()];
    let mut beta = start.clone();
    for _ in 0..settings.stated().rounds {
        let mut sum = match settings.bounded_sum(records, beta.as_slice())? {
            Some(bounded) => bounded.values(),
            None => settings.plain_sum(records, beta.as_slice())?,
        };
        noise.add(sigma * count as f64, sum.as_mut_slice());
        match settings.advance(&beta, &sum, count) {
            Ok(next) => beta = next,
            Err(EmError::NotFinite { .. }) => return Ok(None),
            Err(error) => return Err(error),
        }
        path.push(beta.clone());
    }
    Ok(Some(settings.estimate(&path)))
}

fn distance(settings: &Settings, estimate: Option<&DVector<f64>>, truth: Option<&DVector<f64>>) -> f64 {
    match (estimate, truth) {
        (Some(estimate), Some(truth)) => settings.stated().model.distance(estimate, truth),
        _ => f64::INFINITY,
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::em::{Model, averaged_rounds, clip_bound, simulate};

    fn settings(model: Model, rounds: u32) -> Settings {
        let tau = 5.0;
        Settings::try_from(Stated {
            model,
            columns: 4,
            sigma: 1.0,
            tau,
            rounds,
            estimator: Estimator::Clip { bound: clip_bound(4, tau) },
            update: Update::Gradient { step: 1.0 },
            averaged: averaged_rounds(rounds),
        })
        .unwrap()
    }

    /// The fits of the protocol itself, with a release at every site, on other data.
    #[test]
    fn errors_of_private_fits_are_predicted_within_a_factor_of_two() {
        for (model, mu) in
            [(Model::GaussianMixture, 0.3), (Model::GaussianMixture, 1.0), (Model::MissingCovariates, 0.5)]
        {
            let settings = settings(model, 10);
            let start = settings.random_start(3);
            let length = 0.5 * settings.radius();
            let predicted = expected(&settings, &start, (1500, 2), mu, length).unwrap();
            let errors = (50..59)
                .map(|seed| {
                    let beta = direction(4, length, seed);
                    let sites: Vec<Records> =
                        (0..2).map(|site| draw(model, 1.0, &beta, 1500, MISSING, 7 * seed + site).unwrap()).collect();
                    let path = simulate::fit(&settings, &sites, &start, mu, &mut SimulatedNoise::seeded(seed)).unwrap();
                    model.distance(&settings.estimate(&path), &beta)
                })
                .collect();
            let measured = median(errors);
            println!("{} mu {mu}: {predicted:?}, measured {measured:.4}", model.name());
            assert!((0.5..2.0).contains(&(predicted.error / measured)), "{predicted:?} {measured}");
            assert!(predicted.noise > 0.0 && predicted.alone > 0.0);
        }
    }

    #[test]
    fn less_budget_is_expected_to_cost_more_until_nothing_is_left() {
        let settings = settings(Model::GaussianMixture, 10);
        let of = |mu: f64| expected(&settings, &settings.random_start(3), (1000, 3), mu, 2.0).unwrap();
        let errors = [1.0, 0.2, 0.002].map(|mu| of(mu).error);
        assert!(errors[0] < errors[1] && errors[1] < errors[2] && errors[2] > 2.0, "{errors:?}");
        assert!((of(0.2).round_noise / of(1.0).round_noise - 5.0).abs() < 1e-12);
        assert_eq!(of(0.2), of(0.2), "the same every time");
    }
}
