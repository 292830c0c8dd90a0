//! What error to expect of a private function, from public facts and a declared design: nothing is spent.
//!
//! The map of the study is public, so the second moments `S = E a a'` of its features are known once the inputs are assumed to be spread
//! evenly over their ranges; a function that is drawn from the Gaussian process with the study's own kernel has independent
//! coefficients. Of noised statistics `n S` gets its noise and is solved as the coordinator solves it, a few times; the noise of a
//! solution has the same variance in every direction, and its effect on the function follows in closed form, as rows have norm 1.

use std::cmp::Ordering;

use nalgebra::{DMatrix, DVector, SymmetricEigen};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

use super::statistics::{Pooled, Statistics};
use super::{FeatureError, FeatureMap};

/// Random features whose spectrum is computed; more take too long.
pub const LARGEST_EXPECTED: usize = 300;
/// Rows that the spectrum is computed from.
const SAMPLE: usize = 2000;
/// Invented functions with noise.
const DRAWS: u64 = 3;
/// Ridge of a site that fits at home without noise.
const HOME_RIDGE: f64 = 1e-6;
/// Eigenvalues below this part of the largest are rounding.
const NEGLIGIBLE: f64 = 1e-13;

/// An input of the function, for what is assumed of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// A number, spread evenly over its range.
    Even,
    /// So many inputs of one column with levels, of which at most one is 1, all levels alike.
    Levels(usize),
}

/// A design that the study declares: an assumption, in half ranges of the outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionDesign {
    /// The inputs in their order.
    pub inputs: Vec<Spread>,
    /// Standard deviation of the residuals.
    pub residual: f64,
    /// Standard deviation of the function.
    pub signal: f64,
}

/// Root mean square errors of the function over its inputs, in half ranges of the outcome.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FunctionPrediction {
    /// What the noise does.
    pub noise: f64,
    /// Noise, sampling and ridge together.
    pub error: f64,
    /// One site's own rows, at home, without noise.
    pub alone: f64,
    /// The function that is the middle of the range everywhere.
    pub zero: f64,
}

/// The spectrum of a study's features under its declared design.
#[derive(Debug, Clone)]
pub struct Forecast {
    /// Of all features of the study, of which the function is made.
    moments: DMatrix<f64>,
    design: FunctionDesign,
    whole: Fitted,
    fitted: Fitted,
}

/// The features that are fitted: all of the study, or the first of them.
#[derive(Debug, Clone)]
struct Fitted {
    /// Their places among all.
    places: Vec<usize>,
    /// A feature of the smaller map over the same one of the whole map: rows have norm 1 in both.
    scale: f64,
    moments: DMatrix<f64>,
    /// Moments of these features with all of them.
    cross: DMatrix<f64>,
    vectors: DMatrix<f64>,
    values: Vec<f64>,
    /// Variance, over functions of unit coefficients, that each direction can follow; and what none can.
    reached: Vec<f64>,
    lost: f64,
}

impl Fitted {
    /// All features: they follow every function.
    fn whole(moments: &DMatrix<f64>) -> Fitted {
        let (values, vectors) = spectrum(moments);
        Fitted {
            places: (0..values.len()).collect(),
            scale: 1.0,
            moments: moments.clone(),
            cross: moments.clone(),
            vectors,
            reached: values.clone(),
            values,
            lost: 0.0,
        }
    }

    /// The first `count` of the features, as the map of the same seed has them.
    fn first(moments: &DMatrix<f64>, count: usize) -> Fitted {
        let (all, kept) = (moments.ncols() / 2, count / 2);
        let places: Vec<usize> = (0..kept).chain(all..all + kept).collect();
        let scale = (all as f64 / kept as f64).sqrt();
        let cross = moments.select_rows(&places) * scale;
        let own = cross.select_columns(&places) * scale;
        let (values, vectors) = spectrum(&own);
        let largest = values.iter().copied().fold(0.0, f64::max);
        let along = vectors.tr_mul(&cross);
        let of = |(value, row): (&f64, f64)| if *value > NEGLIGIBLE * largest { row / value } else { 0.0 };
        let reached: Vec<f64> = values.iter().zip(along.row_iter().map(|row| row.norm_squared())).map(of).collect();
        let lost = (moments.trace() - reached.iter().sum::<f64>()).max(0.0);
        Fitted { places, scale, moments: own, cross, vectors, values, reached, lost }
    }

    /// Mean square error of ridge regression without noise.
    fn ridge(&self, design: &FunctionDesign, rows: f64, lambda: f64) -> f64 {
        let FunctionDesign { residual, signal, .. } = *design;
        // What the features cannot follow is one more residual.
        let lost = signal * signal * self.lost;
        let residual = residual * residual + lost;
        let each = self.values.iter().zip(&self.reached).map(|(value, reached)| {
            let shifted = value + lambda;
            let bias = (signal * lambda / shifted).powi(2);
            reached * bias + value * residual * value / (rows * shifted * shifted)
        });
        each.sum::<f64>() + lost
    }

    /// Coefficients of all features that give the same function.
    fn spread(&self, solution: &DVector<f64>, count: usize) -> DVector<f64> {
        let mut all = DVector::zeros(count);
        self.places.iter().zip(solution.iter()).for_each(|(place, value)| all[*place] = self.scale * value);
        all
    }
}

fn spectrum(moments: &DMatrix<f64>) -> (Vec<f64>, DMatrix<f64>) {
    let eigen = SymmetricEigen::new(moments.clone());
    (eigen.eigenvalues.iter().map(|value| value.max(0.0)).collect(), eigen.eigenvectors)
}

impl Forecast {
    /// `None` beyond [`LARGEST_EXPECTED`] features.
    ///
    /// # Errors
    /// A design with other inputs than the map has.
    pub fn new(map: &FeatureMap, design: &FunctionDesign) -> Result<Option<Forecast>, FeatureError> {
        if map.count() > LARGEST_EXPECTED {
            return Ok(None);
        }
        let mut generator = ChaCha8Rng::seed_from_u64(0);
        let mut rows = DMatrix::zeros(SAMPLE, 0);
        for spread in &design.inputs {
            let (first, more) = match spread {
                Spread::Even => (rows.ncols(), 1),
                Spread::Levels(levels) => (rows.ncols(), *levels),
            };
            rows = rows.insert_columns(first, more, 0.0);
            for row in 0..SAMPLE {
                match spread {
                    Spread::Even => rows[(row, first)] = generator.random(),
                    // One more level than inputs: the reference is none of them.
                    Spread::Levels(levels) => {
                        let level = generator.random_range(0..=*levels);
                        if level < *levels {
                            rows[(row, first + level)] = 1.0;
                        }
                    }
                }
            }
        }
        let features = map.rows(&rows)?;
        let moments = features.tr_mul(&features) / SAMPLE as f64;
        let whole = Fitted::whole(&moments);
        Ok(Some(Forecast { moments, design: design.clone(), fitted: whole.clone(), whole }))
    }

    /// Of the same function, fitted with the first `count` features: what they cannot follow is an error of theirs. `None` where the
    /// study has fewer, as nothing is known of functions that its features cannot follow.
    #[must_use]
    pub fn with_features(&self, count: usize) -> Option<Forecast> {
        let all = self.moments.ncols();
        match (count >= 2 && count.is_multiple_of(2), count.cmp(&all)) {
            (true, Ordering::Equal) => Some(Forecast { fitted: self.whole.clone(), ..self.clone() }),
            (true, Ordering::Less) => Some(Forecast { fitted: Fitted::first(&self.moments, count), ..self.clone() }),
            (false, _) | (true, Ordering::Greater) => None,
        }
    }

    /// Of noised statistics of `sites` sites with `rows` rows each, every number of which has noise of standard deviation `sigma`.
    ///
    /// # Errors
    /// Statistics that cannot be solved.
    pub fn statistics(
        &self,
        rows: u64,
        sites: u32,
        sigma: f64,
        lambda: f64,
    ) -> Result<FunctionPrediction, FeatureError> {
        let (count, all) = (self.fitted.values.len(), rows as f64 * f64::from(sites));
        let (table, with_all) = (&self.fitted.moments * all, &self.fitted.cross * all);
        let lost = self.design.signal.powi(2) * self.fitted.lost;
        let residual = if lost > 0.0 { (self.design.residual.powi(2) + lost).sqrt() } else { self.design.residual };
        let spread = sigma * f64::from(sites).sqrt();
        let (mut noise, mut error) = (0.0, 0.0);
        for seed in 0..DRAWS {
            let mut generator = ChaCha8Rng::seed_from_u64(seed);
            let mut normal = || -> f64 { StandardNormal.sample(&mut generator) };
            let truth = DVector::from_fn(self.moments.ncols(), |_, _| self.design.signal * normal());
            // The residuals' part of the right side has covariance residual^2 n S.
            let along = self.fitted.values.iter().map(|value| residual * (all * value).sqrt() * normal());
            let sampled = &self.fitted.vectors * DVector::from_iterator(count, along.collect::<Vec<_>>());
            let cross = &with_all * &truth + sampled;
            let mut pooled = Pooled::new(table.clone(), cross, sites);
            (0..count).for_each(|j| pooled.gram[(j, j)] += lambda * all);
            let exact = Statistics::solve(&pooled, 0.0).map(|(solution, _)| solution);
            for j in 0..count {
                for i in 0..=j {
                    let share = if i == j { 1.0 } else { std::f64::consts::FRAC_1_SQRT_2 };
                    let entry = pooled.gram[(i, j)] + spread * share * normal();
                    (pooled.gram[(i, j)], pooled.gram[(j, i)]) = (entry, entry);
                }
                pooled.cross[j] += spread * normal();
            }
            let whole = |solution: DVector<f64>| self.fitted.spread(&solution, truth.len());
            let noised = whole(Statistics::solve(&pooled, sigma)?.0);
            // Without noise and ridge the statistics may be singular, and the truth stands for their solution.
            noise += self.square(&(&noised - exact.map_or_else(|_| truth.clone(), whole)));
            error += self.square(&(noised - truth));
        }
        let mean = |sum: f64| (sum / DRAWS as f64).sqrt();
        Ok(FunctionPrediction { noise: mean(noise), error: mean(error), alone: self.alone(rows), zero: self.zero() })
    }

    /// Of `sites` solutions of `rows` rows each, every number of which has noise of standard deviation `sigma`, averaged.
    pub fn solutions(&self, rows: u64, sites: u32, sigma: f64, lambda: f64) -> FunctionPrediction {
        let trace: f64 = self.fitted.values.iter().sum();
        let noise = sigma * sigma * trace / f64::from(sites);
        let rest = self.fitted.ridge(&self.design, rows as f64 * f64::from(sites), lambda);
        FunctionPrediction {
            noise: noise.sqrt(),
            error: (noise + rest).sqrt(),
            alone: self.alone(rows),
            zero: self.zero(),
        }
    }

    fn alone(&self, rows: u64) -> f64 {
        self.whole.ridge(&self.design, rows as f64, HOME_RIDGE).sqrt()
    }

    fn zero(&self) -> f64 {
        self.design.signal * self.whole.values.iter().sum::<f64>().sqrt()
    }

    fn square(&self, difference: &DVector<f64>) -> f64 {
        (difference.transpose() * &self.moments * difference)[(0, 0)].max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounded::SimulatedNoise;
    use crate::methods::features::{output_perturbation, sensitivity};

    fn design() -> FunctionDesign {
        FunctionDesign { inputs: vec![Spread::Even, Spread::Even, Spread::Levels(2)], residual: 0.2, signal: 0.3 }
    }

    /// Rows, features and outcomes as the design says, apart from the forecast's own sample.
    fn drawn(map: &FeatureMap, truth: &DVector<f64>, rows: usize, seed: u64) -> (DMatrix<f64>, Vec<f64>) {
        let mut generator = ChaCha8Rng::seed_from_u64(seed);
        let mut x = DMatrix::zeros(rows, 4);
        for row in 0..rows {
            x[(row, 0)] = generator.random();
            x[(row, 1)] = generator.random();
            let level = generator.random_range(0..3);
            if level > 0 {
                x[(row, 1 + level)] = 1.0;
            }
        }
        let normal = |generator: &mut ChaCha8Rng| -> f64 { StandardNormal.sample(generator) };
        let fitted = map.rows(&x).unwrap() * truth;
        let y = fitted.iter().map(|fit| fit + 0.2 * normal(&mut generator)).collect();
        (x, y)
    }

    fn truth(map: &FeatureMap, seed: u64) -> DVector<f64> {
        let mut generator = ChaCha8Rng::seed_from_u64(seed);
        DVector::from_fn(map.count(), |_, _| {
            let z: f64 = StandardNormal.sample(&mut generator);
            0.3 * z
        })
    }

    #[test]
    fn errors_of_noised_statistics_are_predicted_within_a_factor_of_one_and_a_half() {
        let map = FeatureMap::new(5, 4, 40, 1.0).unwrap();
        let forecast = Forecast::new(&map, &design()).unwrap().unwrap();
        for mu in [0.2, 0.7] {
            let squares: f64 = (0..4)
                .map(|seed| {
                    let truth = truth(&map, seed);
                    let released: Vec<DVector<f64>> = (0..3)
                        .map(|site| {
                            let (x, y) = drawn(&map, &truth, 1000, 10 * seed + site);
                            let table = Statistics::of(&map, &x, &y).unwrap();
                            table.simulate_release(mu, &mut SimulatedNoise::seeded(50 + 10 * seed + site))
                        })
                        .collect();
                    let pooled = Statistics::pool(&map, &released).unwrap();
                    let (found, _) = Statistics::solve(&pooled, sensitivity() / mu).unwrap();
                    let (x, _) = drawn(&map, &truth, 1000, 999);
                    (map.rows(&x).unwrap() * (found - truth)).norm_squared() / 1000.0
                })
                .sum();
            let measured = (squares / 4.0).sqrt();
            let predicted = forecast.statistics(1000, 3, sensitivity() / mu, 0.0).unwrap();
            println!("mu {mu}: {predicted:?}, measured {measured:.4}");
            assert!((1.0 / 1.5..1.5).contains(&(predicted.error / measured)), "{predicted:?} {measured}");
            assert!((predicted.zero - 0.3).abs() < 1e-9, "rows of norm one");
        }
    }

    #[test]
    fn errors_of_noised_solutions_are_predicted_within_a_factor_of_one_and_a_half() {
        let map = FeatureMap::new(5, 4, 40, 1.0).unwrap();
        let forecast = Forecast::new(&map, &design()).unwrap().unwrap();
        for (mu, lambda) in [(0.3, 0.03), (1.0, 0.01)] {
            let mut sigma = 0.0;
            let squares: f64 = (0..4)
                .map(|seed| {
                    let truth = truth(&map, seed);
                    let mut mean = DVector::zeros(map.count());
                    for site in 0..3 {
                        let (x, y) = drawn(&map, &truth, 1000, 10 * seed + site);
                        let solution = output_perturbation(&map.rows(&x).unwrap(), &y, lambda).unwrap();
                        sigma = solution.sensitivity() / mu;
                        mean += solution.simulate_release(mu, &mut SimulatedNoise::seeded(90 + 10 * seed + site)) / 3.0;
                    }
                    let (x, _) = drawn(&map, &truth, 1000, 999);
                    (map.rows(&x).unwrap() * (mean - truth)).norm_squared() / 1000.0
                })
                .sum();
            let measured = (squares / 4.0).sqrt();
            let predicted = forecast.solutions(1000, 3, sigma, lambda);
            println!("mu {mu}, lambda {lambda}: {predicted:?}, measured {measured:.4}");
            assert!((1.0 / 1.5..1.5).contains(&(predicted.error / measured)), "{predicted:?} {measured}");
        }
    }

    #[test]
    fn fewer_features_are_predicted_with_what_they_cannot_follow() {
        let map = FeatureMap::new(5, 4, 40, 1.0).unwrap();
        let forecast = Forecast::new(&map, &design()).unwrap().unwrap();
        // A map of the same seed has the first features, so that a fit with it is a fit with part of the study's own.
        let few = map.of_size(10).unwrap();
        let reduced = forecast.with_features(10).unwrap();
        for lambda in [1e-4, 0.03] {
            let squares: f64 = (0..6)
                .map(|seed| {
                    let truth = truth(&map, seed);
                    let (x, y) = drawn(&map, &truth, 3000, 10 * seed);
                    let found =
                        crate::methods::features::ridge(&few.rows(&x).unwrap(), &DVector::from_vec(y), lambda).unwrap();
                    let (x, _) = drawn(&map, &truth, 1000, 999);
                    (few.rows(&x).unwrap() * found - map.rows(&x).unwrap() * truth).norm_squared() / 1000.0
                })
                .sum();
            let measured = (squares / 6.0).sqrt();
            let closed = reduced.solutions(3000, 1, 0.0, lambda).error;
            let drawn = reduced.statistics(3000, 1, 0.0, lambda).unwrap().error;
            println!("lambda {lambda}: predicted {closed:.4} and {drawn:.4}, measured {measured:.4}");
            assert!((1.0 / 1.5..1.5).contains(&(closed / measured)), "{closed} {measured}");
            assert!((1.0 / 1.5..1.5).contains(&(drawn / measured)), "{drawn} {measured}");
            assert!(
                closed > 1.5 * forecast.solutions(3000, 1, 0.0, 1e-4).error,
                "ten of forty features lose something"
            );
        }
        assert!(forecast.with_features(42).is_none() && forecast.with_features(3).is_none());
        let same = forecast.with_features(40).unwrap();
        assert_eq!(same.solutions(1000, 3, 0.1, 0.01), forecast.solutions(1000, 3, 0.1, 0.01));
    }

    #[test]
    fn more_features_than_a_plan_can_wait_for_have_no_forecast() {
        let map = FeatureMap::new(5, 4, 302, 1.0).unwrap();
        assert!(Forecast::new(&map, &design()).unwrap().is_none());
    }
}
