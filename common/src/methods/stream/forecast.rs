//! What error to expect of a stream, from public facts and a declared design: before a record is noised.
//!
//! With covariates spread evenly over their ranges a record moves the weights, on average, along `S = E a(x) a(x)'`. In a direction of
//! `S` with eigenvalue `l` a step `g` keeps `1 - k g l` of what was wrong and adds noise of variance `g^2 (sigma^2 + E psi^2 l)`;
//! `k = P(|r| < tau)` is the slope of the cut residual, where `r` is normal with the residuals' standard deviation and the error of the
//! function together. Expectation and variance of the average follow exactly in blocks of records with nearly equal steps.
//!
//! The function that is to be found is assumed to be drawn from the Gaussian process with the study's own kernel, so that every
//! direction begins equally wrong.

use nalgebra::{DMatrix, SymmetricEigen};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{Average, Basis, Loss, Settings, Step, StreamError};
use crate::privacy::accountant::normal_tail;
use crate::privacy::mechanism::records::{Costs, Spending};

/// Points of the quadrature in one covariate.
const QUADRATURE: usize = 400;
/// Grid points of one covariate that the spectrum is computed on: more change it no more.
const LARGEST_SIDE: usize = 150;
/// Random features whose spectrum is computed.
const LARGEST_FEATURES: usize = 300;
/// Random covariates that the spectrum of random features is computed from.
const SAMPLE: usize = 2000;
/// Directions that are told apart; those in between are followed together.
const GROUPS: usize = 64;
/// Eigenvalues below this part of the largest are of no consequence.
const NEGLIGIBLE: f64 = 1e-9;
/// Records that are followed one by one; afterwards a block grows with their number.
const SINGLE: u64 = 2000;

/// Directions of the weights, followed together: eigenvalue of `E a a'` and how many there are.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Group {
    moment: f64,
    count: f64,
}

/// What a stream is reckoned with.
#[derive(Debug, Clone, PartialEq)]
pub struct Forecast {
    settings: Settings,
    average: Average,
    groups: Vec<Group>,
    /// Standard deviation of the residuals around the function, in units of the outcome.
    residual: f64,
    /// Variance of the function's weights in each direction.
    start: f64,
    /// What records spend, and at how many sites they come.
    spending: Option<(Spending, u32)>,
}

impl Forecast {
    /// For a function of standard deviation `signal` with residuals of standard deviation `residual`, both in units of the outcome. `None`
    /// beyond 300 random features, whose spectrum would take too long.
    pub fn new(settings: &Settings, average: Average, residual: f64, signal: f64) -> Option<Forecast> {
        let basis = settings.basis();
        let start = (signal / basis.bound()).powi(2);
        Some(Forecast {
            settings: settings.clone(),
            average,
            groups: grouped(spectrum(basis)?),
            residual,
            start,
            spending: None,
        })
    }

    /// The same where records have budgets of their own, by their place at one of some sites, to which they come evenly.
    #[must_use]
    pub fn spending(self, spending: Spending, sites: u32) -> Forecast {
        Forecast { spending: spending.is_by_place().then_some((spending, sites.max(1))), ..self }
    }

    /// Root mean square error over the ranges of the function that is zero everywhere, in units of the outcome.
    pub fn zero(&self) -> f64 {
        self.groups.iter().map(|group| group.count * group.moment * self.start).sum::<f64>().sqrt()
    }

    /// Root mean square error over the ranges after a given number of records, the first noised for budget `mu`, infinite without noise; and the noise's
    /// own part of it.
    pub fn error(&self, records: u64, mu: f64) -> (f64, f64) {
        self.follow(&self.settings, records, mu)
    }

    /// The error of a given number of records at home: no noise, and the step that is usual then.
    pub fn alone(&self, records: u64) -> f64 {
        let stated = super::Stated { step: super::default_step(f64::INFINITY), ..self.settings.stated().clone() };
        let settings = Settings::try_from(stated).unwrap_or_else(|_| self.settings.clone());
        self.follow(&settings, records, f64::INFINITY).0
    }

    /// The error with another step and another cut of the residuals.
    ///
    /// # Errors
    /// A step or a cut that no stream can have.
    pub fn error_with(&self, step: Step, loss: Loss, records: u64, mu: f64) -> Result<f64, StreamError> {
        let settings = Settings::try_from(super::Stated { step, loss, ..self.settings.stated().clone() })?;
        Ok(self.follow(&settings, records, mu).0)
    }

    fn follow(&self, settings: &Settings, records: u64, mu: f64) -> (f64, f64) {
        let stated = settings.stated();
        let sigma = match stated.loss {
            Loss::Huber { tau } if mu.is_finite() => 2.0 * tau * stated.basis.bound() / mu,
            Loss::Huber { .. } | Loss::Squares => 0.0,
        };
        let first = match self.average {
            Average::LastHalf => records / 2,
            Average::All => 0,
        };
        let mut costs = self.spending.map(|(spending, sites)| (Costs::new(spending), f64::from(sites)));
        // Over the share of the first record; nothing where nothing of a record leaves.
        let mut share = |record: f64| match &mut costs {
            Some((costs, sites)) => costs.of((record / *sites).ceil() as u64) as f64 / costs.of(1).max(1) as f64,
            None => 1.0,
        };
        let mut paths = vec![Path { wrong: self.start.sqrt(), ..Path::default() }; self.groups.len()];
        let mut taken = 0u64;
        while taken < records {
            let begins = if taken < first { first } else { records };
            let length = (taken / 1000).max(1).min(if taken < SINGLE { 1 } else { u64::MAX }).min(begins - taken);
            let middle = taken as f64 + 0.5 * (length as f64 + 1.0);
            let share = share(middle);
            let step = if share > 0.0 { stated.step.at(middle) } else { 0.0 };
            let square_of_noise = if share > 0.0 { sigma * sigma / share } else { 0.0 };
            let of_group = |(group, path): (&Group, &Path)| {
                group.count * group.moment * (path.wrong * path.wrong + path.noise.now + path.sampling.now)
            };
            let error: f64 = self.groups.iter().zip(&paths).map(of_group).sum();
            let (slope, square) = cut(stated.loss, (self.residual * self.residual + error).sqrt());
            for (group, path) in self.groups.iter().zip(&mut paths) {
                let kept = 1.0 - slope * step * group.moment;
                let block = Block::new(kept, length as f64);
                path.walk(&block, taken >= first, step * step, square_of_noise, square * group.moment);
            }
            taken += length;
        }
        let count = (records - first).max(1) as f64;
        let sum = |of: &dyn Fn(&Path) -> f64| -> f64 {
            self.groups.iter().zip(&paths).map(|(group, path)| group.count * group.moment * of(path)).sum()
        };
        let noise = sum(&|path| path.noise.sum / (count * count));
        let rest = sum(&|path| (path.sum * path.sum + path.sampling.sum) / (count * count));
        ((noise + rest).sqrt(), noise.sqrt())
    }
}

/// Slope of a cut normal residual and its mean square.
fn cut(loss: Loss, deviation: f64) -> (f64, f64) {
    match loss {
        Loss::Squares => (1.0, deviation * deviation),
        Loss::Huber { tau } if deviation > 0.0 => {
            let at = tau / deviation;
            let inside = 1.0 - 2.0 * normal_tail(at);
            let density = (-0.5 * at * at).exp() / std::f64::consts::TAU.sqrt();
            let inner = deviation * deviation * (inside - 2.0 * at * density).max(0.0);
            (inside, inner + tau * tau * (1.0 - inside))
        }
        Loss::Huber { .. } => (1.0, 0.0),
    }
}

/// Powers of what a step keeps, over a block of steps.
struct Block {
    /// After the block.
    kept: f64,
    /// Sum over the block of what is kept after each step.
    sum: f64,
    /// Variance after the block, of steps with noise of variance one; of the sum over the block; and their covariance.
    now: f64,
    total: f64,
    both: f64,
}

impl Block {
    fn new(kept: f64, length: f64) -> Block {
        let gain = 1.0 - kept;
        let power = power(kept, length);
        if gain.abs() * length < 1e-3 {
            let total = length * (length + 1.0) * (2.0 * length + 1.0) / 6.0;
            let (now, both) = (length, 0.5 * length * (length + 1.0));
            return Block { kept: power, sum: length - gain * both, now, total, both };
        }
        let sum = kept * (1.0 - power) / gain;
        let squares = kept * kept * (1.0 - power * power) / (1.0 - kept * kept);
        Block {
            kept: power,
            sum,
            now: (1.0 - power * power) / (1.0 - kept * kept),
            total: ((length - 2.0 * sum + squares) / (gain * gain)).max(0.0),
            both: if kept == 0.0 { 1.0 } else { ((sum - squares) / (gain * kept)).max(0.0) },
        }
    }
}

/// A power with a whole exponent, of negative numbers too.
fn power(base: f64, exponent: f64) -> f64 {
    let sign = if base < 0.0 && exponent % 2.0 == 1.0 { -1.0 } else { 1.0 };
    sign * base.abs().powf(exponent)
}

/// Variance of one source, in one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Source {
    /// Of the weight now.
    now: f64,
    /// Of the sum over the averaged part, and its covariance with the weight now.
    sum: f64,
    both: f64,
}

impl Source {
    fn walk(&mut self, block: &Block, averaged: bool, variance: f64) {
        let Source { now, sum, both } = *self;
        if averaged {
            self.sum = sum + 2.0 * block.sum * both + block.sum * block.sum * now + variance * block.total;
            self.both = block.kept * (both + block.sum * now) + variance * block.both;
        }
        self.now = block.kept * block.kept * now + variance * block.now;
    }
}

/// The weight of one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Path {
    wrong: f64,
    sum: f64,
    noise: Source,
    sampling: Source,
}

impl Path {
    fn walk(&mut self, block: &Block, averaged: bool, step: f64, noise: f64, sampling: f64) {
        if averaged {
            self.sum += block.sum * self.wrong;
        }
        self.wrong *= block.kept;
        self.noise.walk(block, averaged, step * noise);
        self.sampling.walk(block, averaged, step * sampling);
    }
}

/// Eigenvalues of `E a a'` for covariates that are spread evenly over their ranges.
fn spectrum(basis: &Basis) -> Option<Vec<f64>> {
    match basis {
        Basis::Grid(grid) => {
            let one = Basis::Grid(grid.of_one_covariate(LARGEST_SIDE).ok()?);
            let places = (0..QUADRATURE).map(|point| vec![(point as f64 + 0.5) / QUADRATURE as f64]);
            let side = eigenvalues(&one, places);
            // On a product grid directions are products too.
            let mut all = vec![1.0];
            for _ in 0..basis.covariates() {
                all = all.iter().flat_map(|left| side.iter().map(move |right| left * right)).collect();
                let largest = all.iter().copied().fold(0.0, f64::max);
                all.retain(|value| *value > NEGLIGIBLE * largest);
            }
            Some(all)
        }
        Basis::Features(map) if map.count() > LARGEST_FEATURES => None,
        Basis::Features(map) => {
            let mut generator = ChaCha8Rng::seed_from_u64(0);
            let inputs = map.inputs();
            let places = (0..SAMPLE).map(|_| (0..inputs).map(|_| generator.random::<f64>()).collect());
            Some(eigenvalues(basis, places.collect::<Vec<_>>().into_iter()))
        }
    }
}

fn eigenvalues(basis: &Basis, places: impl ExactSizeIterator<Item = Vec<f64>>) -> Vec<f64> {
    let count = places.len();
    let mut rows = DMatrix::zeros(basis.len(), count);
    let mut coordinates = Vec::new();
    for (mut column, place) in rows.column_iter_mut().zip(places) {
        basis.coordinates(&place, &mut coordinates);
        column.copy_from_slice(&coordinates);
    }
    let moments = &rows * rows.transpose() / count as f64;
    SymmetricEigen::new(moments).eigenvalues.iter().map(|value| value.max(0.0)).collect()
}

/// Directions with nearly the same eigenvalue together, the largest ones by themselves.
fn grouped(mut moments: Vec<f64>) -> Vec<Group> {
    moments.sort_by(|left, right| right.total_cmp(left));
    let largest = moments.first().copied().unwrap_or(0.0);
    moments.retain(|value| *value > NEGLIGIBLE * largest);
    let mut groups: Vec<Group> = Vec::new();
    let ratio = NEGLIGIBLE.powf(1.0 / (GROUPS / 2) as f64);
    let mut begins = f64::INFINITY;
    for (at, moment) in moments.into_iter().enumerate() {
        match groups.last_mut().filter(|_| at >= GROUPS / 2 && moment > begins * ratio) {
            Some(group) => {
                group.moment = (group.moment * group.count + moment) / (group.count + 1.0);
                group.count += 1.0;
            }
            None => {
                begins = moment;
                groups.push(Group { moment, count: 1.0 });
            }
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounded::SimulatedNoise;
    use crate::methods::features::FeatureMap;
    use crate::methods::stream::{Grid, Kernel, Learner, Stated};
    use crate::privacy::accountant::{Accountant, Budget, gaussian_mu};
    use crate::privacy::mechanism::records::Sequence;
    use rand_distr::{Distribution, StandardNormal};

    fn settings(basis: Basis, step: Step) -> Settings {
        Settings::try_from(Stated { basis, loss: Loss::Huber { tau: 1.0 }, step }).unwrap()
    }

    /// Root mean square error of streams whose functions are drawn as the forecast assumes.
    fn measured(forecast: &Forecast, records: usize, mu: Option<f64>, seeds: u64) -> f64 {
        noised_error(forecast, records, seeds, |_| mu)
    }

    /// The same with a budget for each record, counted from 1.
    fn noised_error(forecast: &Forecast, records: usize, seeds: u64, mut mu: impl FnMut(u64) -> Option<f64>) -> f64 {
        let (settings, basis) = (&forecast.settings, forecast.settings.basis());
        let squares: f64 = (0..seeds)
            .map(|seed| {
                let mut generator = ChaCha8Rng::seed_from_u64(seed);
                let normal = |generator: &mut ChaCha8Rng| -> f64 { StandardNormal.sample(generator) };
                let truth: Vec<f64> =
                    (0..basis.len()).map(|_| forecast.start.sqrt() * normal(&mut generator)).collect();
                let place = |generator: &mut ChaCha8Rng| -> Vec<f64> {
                    (0..basis.covariates()).map(|_| generator.random::<f64>()).collect()
                };
                let mut learner = Learner::new(settings);
                let mut noise = SimulatedNoise::seeded(seed + 1000);
                for record in 1..=records as u64 {
                    let x = place(&mut generator);
                    let y = settings.predict(&truth, &x).unwrap() + forecast.residual * normal(&mut generator);
                    let message = match mu(record) {
                        Some(mu) => {
                            let bounded = settings.message(learner.weights(), Some((&x, y))).unwrap();
                            bounded.simulate_release(mu, &mut noise).as_slice().to_vec()
                        }
                        None => settings.plain_message(learner.weights(), Some((&x, y))).unwrap(),
                    };
                    learner.apply(settings, &message).unwrap();
                }
                let average = learner.average(forecast.average);
                let square = |_| {
                    let x = place(&mut generator);
                    (settings.predict(&average, &x).unwrap() - settings.predict(&truth, &x).unwrap()).powi(2)
                };
                (0..300).map(square).sum::<f64>() / 300.0
            })
            .sum();
        (squares / seeds as f64).sqrt()
    }

    #[test]
    fn errors_of_streams_are_predicted_within_a_factor_of_one_and_a_half() {
        let line = || Basis::Grid(Grid::new(Kernel::Gaussian { width: 0.15 }, 30, 1).unwrap());
        let plane = Basis::Grid(Grid::new(Kernel::Gaussian { width: 0.3 }, 8, 2).unwrap());
        let features = Basis::Features(FeatureMap::new(1, 2, 20, 2.0).unwrap());
        let root = |length| Step::Root { length };
        for (basis, step, records, epsilon) in [
            (line(), root(0.25), 4000, None),
            (line(), Step::Constant { length: 0.002 }, 10_000, Some(3.0)),
            (line(), root(0.18), 4000, Some(3.0)),
            (line(), root(0.07), 4000, Some(1.0)),
            (plane, root(0.18), 3000, Some(3.0)),
            (features, root(0.18), 3000, Some(3.0)),
        ] {
            let forecast = Forecast::new(&settings(basis, step), Average::LastHalf, 0.2, 0.3).unwrap();
            let mu = epsilon.map(|epsilon| gaussian_mu(epsilon, 1e-5));
            let (predicted, noise) = forecast.error(records, mu.unwrap_or(f64::INFINITY));
            let found = measured(&forecast, records as usize, mu, 4);
            println!("{records} records, epsilon {epsilon:?}: predicted {predicted:.4}, measured {found:.4}");
            assert!((1.0 / 1.5..1.5).contains(&(predicted / found)), "{epsilon:?}: {predicted} {found}");
            assert!(noise <= predicted && (epsilon.is_some() == (noise > 0.0)));
        }
    }

    #[test]
    fn errors_of_streams_whose_records_have_budgets_of_their_own_are_predicted_too() {
        let basis = Basis::Grid(Grid::new(Kernel::Gaussian { width: 0.15 }, 30, 1).unwrap());
        let whole = Budget::new(3.0, 1e-5, Accountant::Zcdp, 1, false).unwrap();
        let of = |exponent| Spending::Sequence(Sequence::new(whole, (3.0, 1e-5), (exponent, 0.0), basis.len()));
        let forecast =
            Forecast::new(&settings(basis.clone(), Step::Root { length: 0.1 }), Average::LastHalf, 0.2, 0.3).unwrap();
        let (mu, records) = (whole.cap().sqrt(), 3000);
        let falling = forecast.clone().spending(of(0.25), 1);
        let mut costs = Costs::new(of(0.25));
        let (predicted, noise) = falling.error(records, mu);
        let found = noised_error(&falling, records as usize, 4, |record| {
            Some(mu * (costs.of(record) as f64 / of(0.25).room() as f64).sqrt())
        });
        println!("predicted {predicted:.4}, measured {found:.4}");
        assert!((1.0 / 1.5..1.5).contains(&(predicted / found)), "{predicted} {found}");
        assert!(noise > 1.5 * forecast.error(records, mu).1, "later records have more noise");
        assert_eq!(forecast.clone().spending(of(0.0), 5).error(records, mu), forecast.error(records, mu));
        // At two sites places go half as far.
        assert!(forecast.clone().spending(of(0.25), 2).error(records, mu).1 < noise);
        // From the record on of which nothing may leave, the function stays as it is.
        let short = forecast.spending(of(2.0), 1);
        assert!(short.error(10_000, mu).0.is_finite());
    }

    #[test]
    fn blocks_of_records_give_what_single_records_give() {
        for kept in [0.0, 0.3, 0.999, 1.0 - 1e-8, -0.4] {
            let (mut single, mut block) = (Path::default(), Path::default());
            (single.wrong, block.wrong) = (1.0, 1.0);
            single.noise.now = 0.5;
            block.noise.now = 0.5;
            for _ in 0..24 {
                single.walk(&Block::new(kept, 1.0), true, 2.0, 1.0, 0.5);
            }
            for length in [7.0, 17.0] {
                block.walk(&Block::new(kept, length), true, 2.0, 1.0, 0.5);
            }
            let near = |left: f64, right: f64| (left - right).abs() <= 1e-6 * left.abs().max(1e-9);
            assert!(near(single.sum, block.sum) && near(single.wrong, block.wrong), "{kept}: {single:?} {block:?}");
            assert!(near(single.noise.sum, block.noise.sum) && near(single.noise.now, block.noise.now), "{kept}");
            assert!(near(single.sampling.both, block.sampling.both), "{kept}: {single:?} {block:?}");
        }
    }

    #[test]
    fn long_streams_are_forecast_at_once_and_many_directions_in_groups() {
        let grid = Grid::new(Kernel::Gaussian { width: 0.1 }, 8, 3).unwrap();
        let settings = settings(Basis::Grid(grid), Step::Root { length: 0.18 });
        let forecast = Forecast::new(&settings, Average::LastHalf, 0.2, 0.3).unwrap();
        assert!(forecast.groups.len() <= 2 * GROUPS, "{}", forecast.groups.len());
        let errors: Vec<f64> = [1_000, 100_000, 1_000_000_000].map(|n| forecast.error(n, 0.7).0).to_vec();
        assert!(errors[2] < errors[0] && errors[2] < forecast.zero(), "{errors:?}");
        assert!(errors.iter().all(|error| error.is_finite()));
        assert!(
            Forecast::new(
                &Settings::try_from(Stated {
                    basis: Basis::Features(FeatureMap::new(1, 5, 400, 1.0).unwrap()),
                    ..settings.stated().clone()
                })
                .unwrap(),
                Average::All,
                0.2,
                0.3
            )
            .is_none()
        );
    }
}
