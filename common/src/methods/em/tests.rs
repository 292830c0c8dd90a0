use nalgebra::{DMatrix, DVector};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde::Deserialize;

use super::*;
use crate::bounded::{Silent, SimulatedNoise};
use crate::research::printed_em as printed;

/// Gaussian budgets of epsilon .2, .5 and 1 at delta 1e-4, from SciPy's normal law.
const BUDGETS: [f64; 3] = [0.07516670709898009, 0.16967017400665405, 0.31390245831182945];

const MODELS: [Model; 3] = [Model::GaussianMixture, Model::MixedRegressions, Model::MissingCovariates];

#[derive(Deserialize)]
struct Case {
    model: Model,
    sigma: f64,
    x: Vec<Vec<Option<f64>>>,
    y: Vec<f64>,
    beta: Vec<f64>,
    gradient: Vec<f64>,
}

fn records(model: Model, x: &DMatrix<f64>, y: &[f64]) -> Records {
    match model {
        Model::GaussianMixture => Records::mixture(x),
        Model::MixedRegressions => Records::regressions(x, y),
        Model::MissingCovariates => Records::with_missing(x, y),
    }
    .unwrap()
}

fn total(records: &Records, sigma: f64, beta: &[f64]) -> Vec<f64> {
    let (mut sum, mut gradient) = (vec![0.0; beta.len()], Vec::new());
    for index in 0..records.len() {
        records.gradient(index, sigma, beta, &mut gradient);
        sum.iter_mut().zip(&gradient).for_each(|(sum, g)| *sum += g);
    }
    sum
}

fn stated(model: Model, columns: usize, tau: f64, rounds: u32, estimator: Estimator) -> Stated {
    Stated { model, columns, sigma: 1.0, tau, rounds, estimator, update: Update::Gradient { step: 1.0 }, averaged: 1 }
}

fn settings(model: Model, columns: usize, tau: f64, rounds: u32, estimator: Estimator) -> Settings {
    stated(model, columns, tau, rounds, estimator).try_into().unwrap()
}

#[test]
fn gradients_agree_with_derivatives_of_likelihoods_and_printed_ones_do_not() {
    let cases: Vec<Case> =
        serde_json::from_str(include_str!("../../../../tests/vectors/methods/em_gradients.json")).unwrap();
    assert_eq!(cases.len(), 6);
    for case in cases {
        let x = DMatrix::from_fn(case.x.len(), 4, |i, j| case.x[i][j].unwrap_or(f64::NAN));
        let records = records(case.model, &x, &case.y);
        let mut printed = vec![0.0; 4];
        for index in 0..records.len() {
            let one = printed::gradient(&records, index, case.sigma, &case.beta);
            printed.iter_mut().zip(one).for_each(|(sum, g)| *sum += g);
        }
        let ours = total(&records, case.sigma, &case.beta);
        let size = case.gradient.iter().fold(0.0_f64, |size, g| size.max(g.abs()));
        let distance =
            |found: &[f64]| found.iter().zip(&case.gradient).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max) / size;
        assert!(distance(&ours) < 1e-12, "{}: {ours:?}", case.model.name());
        assert!(distance(&printed) > 1e-3, "{}: the printed gradient is right", case.model.name());
    }
}

#[test]
fn gradients_agree_with_finite_differences_of_the_log_likelihood() {
    for model in MODELS {
        let truth = DVector::from_vec(vec![1.0, -2.0, 0.5, 1.5]);
        let records = simulate::draw(model, 1.3, &truth, 400, 0.3, 5).unwrap();
        let at = [0.8, -1.2, 0.7, 1.1];
        let ours = total(&records, 1.3, &at);
        for j in 0..4 {
            let shifted = |by: f64| {
                let mut beta = at;
                beta[j] += by;
                records.log_likelihood(1.3, &beta)
            };
            let h = 1e-3;
            // Fourth order.
            let slope = (8.0 * (shifted(h) - shifted(-h)) - (shifted(2.0 * h) - shifted(-2.0 * h))) / (12.0 * h);
            let relative = (ours[j] - 1.69 * slope).abs() / ours[j].abs().max(1.0);
            assert!(relative < 1e-6, "{} {j}: {relative}", model.name());
        }
    }
}

/// Adversarial records: long, short, opposite, on the bounds, not finite.
fn adversarial(columns: usize, generator: &mut ChaCha8Rng) -> (Vec<f64>, f64) {
    let length = [0.0, 1e-9, 0.3, 1.0, 30.0, 1e8, 1e160, f64::MAX][generator.random_range(0..8)];
    let mut x: Vec<f64> = (0..columns).map(|_| length * [1.0, -1.0, 0.0][generator.random_range(0..3)]).collect();
    if generator.random_bool(0.1) {
        x[0] = [f64::NAN, f64::INFINITY][generator.random_range(0..2)];
    }
    let y = [0.0, 1.0, -1.0, 1e9, -1e9, f64::MAX, f64::NAN][generator.random_range(0..7)];
    (x, y)
}

#[test]
fn no_pair_of_neighbours_is_farther_apart_than_the_sensitivity_and_some_are_as_far() {
    let mut generator = ChaCha8Rng::seed_from_u64(7);
    let columns = 3;
    for model in MODELS {
        for update in [Update::Gradient { step: 1.0 }, Update::Direct] {
            if update == Update::Direct && model != Model::GaussianMixture {
                continue;
            }
            for estimator in [Estimator::Clip { bound: 0.7 }, Estimator::Catoni { scale: 2.5, smoothing: 2.0 }] {
                let mut public = stated(model, columns, 5.0, 1, estimator);
                public.update = update;
                let settings = Settings::try_from(public).unwrap();
                let sensitivity = estimator.sensitivity(columns).unwrap();
                let mut farthest = 0.0_f64;
                for _ in 0..1500 {
                    let rows: Vec<(Vec<f64>, f64)> = (0..4).map(|_| adversarial(columns, &mut generator)).collect();
                    let scale = [0.0, 1e-6, 1.0, 1e6, 1e200][generator.random_range(0..5)];
                    let beta: Vec<f64> = (0..columns).map(|_| scale * generator.random_range(-1.0..1.0)).collect();
                    let sum = |last: usize| {
                        let chosen = [&rows[0], &rows[1], &rows[last]];
                        let x = DMatrix::from_fn(3, columns, |i, j| chosen[i].0[j]);
                        let y: Vec<f64> = chosen.iter().map(|row| row.1).collect();
                        let records = records(model, &x, &y);
                        assert_eq!(records.len(), 3);
                        settings.bounded_sum(&records, &beta).unwrap().unwrap()
                    };
                    let (one, other) = (sum(2), sum(3));
                    assert_eq!(one.sensitivity(), sensitivity);
                    // In integers, so that the comparison itself is not rounded.
                    let unit = f64::from(one.exponent()).exp2();
                    let square: i128 =
                        one.integers().iter().zip(other.integers()).map(|(a, b)| (a - b) * (a - b)).sum();
                    let distance = (square as f64).sqrt() * unit;
                    assert!(distance <= sensitivity * (1.0 + 1e-15), "{model:?} {estimator:?}: {distance}");
                    farthest = farthest.max(distance / sensitivity);
                }
                assert!(
                    farthest > if update == Update::Direct { 0.7 } else { 0.85 },
                    "{model:?} {update:?} {estimator:?}: only {farthest} of the sensitivity"
                );
            }
        }
    }
}

#[test]
fn a_record_that_is_not_finite_counts_and_adds_nothing() {
    let x = DMatrix::from_row_slice(2, 2, &[1.0, 2.0, f64::INFINITY, 0.0]);
    let records = Records::mixture(&x).unwrap();
    assert_eq!((records.len(), records.invalid()), (2, 1));
    let settings = settings(Model::GaussianMixture, 2, 5.0, 1, Estimator::Clip { bound: 100.0 });
    let both = settings.bounded_sum(&records, &[0.5, 0.5]).unwrap().unwrap().values();
    let alone = Records::mixture(&x.rows(0, 1).into_owned()).unwrap();
    assert_eq!(both, settings.bounded_sum(&alone, &[0.5, 0.5]).unwrap().unwrap().values());
    // One covariate missing, all missing: both can be used.
    let x = DMatrix::from_row_slice(2, 2, &[1.0, f64::NAN, f64::NAN, f64::NAN]);
    assert_eq!(Records::with_missing(&x, &[1.0, 2.0]).unwrap().invalid(), 0);
    assert_eq!(Records::with_missing(&x, &[1.0, f64::NAN]).unwrap().invalid(), 1);
    assert_eq!(format!("{:?}", alone), "Records(gmm, 1 x 2)");
}

#[test]
fn direct_em_of_the_mixture_is_gradient_em_with_step_one() {
    let truth = simulate::direction(4, 2.0, 1);
    let records = simulate::draw(Model::GaussianMixture, 1.0, &truth, 500, 0.0, 2).unwrap();
    let mut public = stated(Model::GaussianMixture, 4, 5.0, 8, Estimator::None);
    let gradient = Settings::try_from(public.clone()).unwrap();
    public.update = Update::Direct;
    let direct = Settings::try_from(public).unwrap();
    let start = gradient.random_start(3);
    let run = |settings| simulate::fit(settings, std::slice::from_ref(&records), &start, 1.0, &mut Silent).unwrap();
    let (one, other) = (run(&gradient), run(&direct));
    assert!((one.last().unwrap() - other.last().unwrap()).norm() < 1e-12);
    assert!(truth.norm() > 0.0 && Model::GaussianMixture.distance(one.last().unwrap(), &truth) < 0.3);
}

#[test]
fn sums_do_not_depend_on_how_records_are_split_between_sites() {
    let truth = simulate::direction(3, 2.0, 1);
    let x = DMatrix::from_fn(900, 3, |i, j| ((i * 3 + j) as f64 * 0.37).sin() * 4.0);
    let y: Vec<f64> = (&x * &truth).iter().copied().collect();
    let settings = settings(Model::MixedRegressions, 3, 5.0, 5, Estimator::Clip { bound: 1.5 });
    let site = |from: usize, rows: usize| {
        Records::regressions(&x.rows(from, rows).into_owned(), &y[from..from + rows]).unwrap()
    };
    let start = settings.random_start(1);
    let path = |sites: &[Records]| simulate::fit(&settings, sites, &start, 1.0, &mut Silent).unwrap();
    assert_eq!(path(&[site(0, 900)]), path(&[site(0, 10), site(10, 490), site(500, 400)]));
}

#[test]
fn at_signal_to_noise_one_the_mixture_is_found_where_the_printed_weight_collapses() {
    let truth = simulate::direction(5, 1.0, 4);
    let records = simulate::draw(Model::GaussianMixture, 1.0, &truth, 20_000, 0.0, 5).unwrap();
    let settings = settings(Model::GaussianMixture, 5, 2.0, 60, Estimator::None);
    let start = simulate::direction(5, 0.5, 6);
    let path = simulate::fit(&settings, std::slice::from_ref(&records), &start, 1.0, &mut Silent).unwrap();
    let error = Model::GaussianMixture.distance(path.last().unwrap(), &truth);
    assert!(error < 0.06, "error {error}");
    let collapsed = printed::fit(&records, 1.0, &start, 60);
    assert!(collapsed.norm() < 0.35, "printed: {}", collapsed.norm());
}

#[test]
fn the_printed_closed_form_breaks_its_bound_where_ours_does_not() {
    for (a, b) in [(0.3_f64, 0.5_f64), (1.2, 0.8), (2.0, 1.5), (0.7, 2.5), (1.4, 0.05)] {
        let ours = SmoothTruncation::new((a / b).powi(2)).value(a);
        assert!((ours - printed::smoothed_truncation(a, b)).abs() < 1e-12, "{a} {b}");
    }
    // Their sum is rounding, beyond the bound at most places.
    let broken = |k: &i32| {
        let a = 1e5 * 1.3_f64.powi(*k);
        printed::smoothed_truncation(a, a).abs() > TRUNCATION_BOUND
    };
    assert!((0..30).filter(broken).count() >= 5);
    assert!(printed::smoothed_truncation(0.0, 0.0).is_nan());
}

#[test]
fn what_does_not_fit_is_refused() {
    let good = stated(Model::MixedRegressions, 2, 5.0, 10, Estimator::Clip { bound: 1.0 });
    let refused = |change: &dyn Fn(&mut Stated)| {
        let mut changed = good.clone();
        change(&mut changed);
        Settings::try_from(changed).unwrap_err().to_string()
    };
    assert_eq!(refused(&|s| s.columns = 0), "the model needs at least one column");
    for sigma in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(refused(&|s| s.sigma = sigma).starts_with("sigma must be positive"));
    }
    for tau in [1.0, 0.0, f64::NAN, f64::INFINITY] {
        assert!(refused(&|s| s.tau = tau).starts_with("tau must be greater than sigma squared"));
    }
    assert!(refused(&|s| s.rounds = 0).starts_with("the number of rounds"));
    assert!(refused(&|s| s.estimator = Estimator::Clip { bound: f64::NAN }).starts_with("the clipping bound"));
    assert!(refused(&|s| s.estimator = Estimator::Catoni { scale: 1.0, smoothing: 0.0 }).contains("smoothing"));
    assert_eq!(refused(&|s| s.update = Update::Direct), "direct EM is defined for gmm, not for mrm; use gradient EM");

    let settings = Settings::try_from(good).unwrap();
    assert_eq!(settings.radius(), 2.0);
    assert_eq!(settings.given_start(&[3.0, 0.0]).unwrap_err(), EmError::Start { radius: 2.0, actual: 3.0 });
    assert_eq!(
        settings.given_start(&[0.0, 0.0]).unwrap_err().to_string(),
        "the start must be nonzero and at most 2 long, got length 0"
    );
    assert!(settings.given_start(&[1.0]).is_err() && settings.given_start(&[1.0, f64::NAN]).is_err());
    assert!(settings.given_start(settings.random_start(1).as_slice()).is_ok());

    let records = simulate::draw(Model::MixedRegressions, 1.0, &DVector::from_element(2, 1.0), 5, 0.0, 1).unwrap();
    assert!(settings.bounded_sum(&records, &[1.0, f64::NAN]).is_err());
    assert!(settings.bounded_sum(&records, &[1.0]).is_err());
    let mixture = Records::mixture(&DMatrix::zeros(3, 2)).unwrap();
    assert_eq!(
        settings.bounded_sum(&mixture, &[1.0, 1.0]).unwrap_err().to_string(),
        "expected records for mrm, got records for gmm"
    );
    let beta = DVector::from_element(2, 0.5);
    assert_eq!(settings.advance(&beta, &beta, 0).unwrap_err(), EmError::NoRecords);
    assert!(settings.advance(&beta, &DVector::from_element(2, f64::INFINITY), 3).is_err());
    assert!(settings.advance(&DVector::from_element(2, f64::MAX), &DVector::from_element(2, f64::MAX), 1).is_err());
    assert!(Records::regressions(&DMatrix::zeros(3, 2), &[1.0]).is_err());
}

#[test]
fn settings_survive_json_and_unsound_ones_do_not_enter() {
    let settings = settings(Model::MissingCovariates, 3, 9.0, 7, Estimator::Catoni { scale: 3.0, smoothing: 2.0 });
    let json = serde_json::to_string(&settings).unwrap();
    assert!(json.contains("\"rmc\"") && json.contains("\"catoni\""), "{json}");
    assert_eq!(serde_json::from_str::<Settings>(&json).unwrap(), settings);
    assert!(serde_json::from_str::<Settings>(&json.replace("\"rounds\":7", "\"rounds\":0")).is_err());
}

/// Which estimator a table row has.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Row {
    Plain,
    Clip,
    Catoni,
    /// Algorithm 2 with the scale at which its two formulas agree.
    PaperScale(f64),
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Median distance from the coefficients, `|beta| = 3`, `sigma = 1`, 10 % missing where covariates are, over seeds.
fn median_error(model: Model, n: usize, rounds: u32, row: Row, mu: f64, sites: usize, seeds: u64) -> f64 {
    let averaged = if row == Row::Clip { averaged_rounds(rounds) } else { 1 };
    averaged_error(model, n, (rounds, averaged), row, mu, sites, seeds)
}

fn averaged_error(
    model: Model,
    n: usize,
    (rounds, averaged): (u32, u32),
    row: Row,
    mu: f64,
    sites: usize,
    seeds: u64,
) -> f64 {
    let columns = 10;
    let errors = (0..seeds).map(|seed| {
        let truth = simulate::direction(columns, 3.0, 100 + seed);
        let records: Vec<Records> = (0..sites)
            .map(|site| {
                let seed = 1000 + seed * 16 + site as u64;
                simulate::draw(model, 1.0, &truth, n / sites, 0.1, seed).unwrap()
            })
            .collect();
        let tau = 1.0 + if model == Model::GaussianMixture { truth.amax().powi(2) } else { 9.0 };
        let mut public = stated(model, columns, tau, rounds, Estimator::None);
        public.estimator = match row {
            Row::Plain => Estimator::None,
            Row::Clip => Estimator::Clip { bound: clip_bound(columns, tau) },
            Row::Catoni => Estimator::Catoni {
                scale: catoni_scale(&public, DEFAULT_SMOOTHING, n as u64, sites as u32, mu),
                smoothing: DEFAULT_SMOOTHING,
            },
            Row::PaperScale(epsilon) => Estimator::Catoni {
                scale: printed::scales(n as f64, columns as f64, tau, epsilon, 1e-4, 0.05)[1],
                smoothing: (columns as f64 / 0.05).ln().sqrt(),
            },
        };
        public.averaged = averaged;
        let settings = Settings::try_from(public).unwrap();
        let start = simulate::direction(columns, if model.sign_is_free() { 1.5 } else { 0.45 }, 500 + seed);
        let mut noise = SimulatedNoise::seeded(9000 + seed);
        let path = simulate::fit(&settings, &records, &start, mu, &mut noise).unwrap();
        model.distance(&settings.estimate(&path), &truth)
    });
    median(errors.collect())
}

#[test]
fn clipping_finds_the_coefficients_at_a_tenth_of_the_records_with_more_budget() {
    // Ten times fewer records and ten times the budget: the noise of the full-size table at epsilon 1.
    for (model, limit) in MODELS.into_iter().zip([0.15, 0.18, 0.17]) {
        let error = median_error(model, 1000, 22, Row::Clip, 10.0 * BUDGETS[2], 1, 5);
        assert!(error < limit, "{}: {error}", model.name());
        assert!(median_error(model, 1000, 22, Row::Catoni, BUDGETS[2], 1, 3) > 3.0 * error);
    }
}

/// `cargo test --release -p fedreg-common em::tests::the_table -- --ignored --nocapture`
#[test]
#[ignore = "full size"]
fn the_table_of_errors_at_full_size() {
    let clip = [[0.20, 0.10, 0.065], [0.25, 0.12, 0.075], [0.26, 0.10, 0.055]];
    let catoni = [[0.88, 0.61, 0.46], [1.90, 1.22, 0.92], [1.80, 1.17, 0.88]];
    for (place, model) in MODELS.into_iter().enumerate() {
        let plain = median_error(model, 10_000, 22, Row::Plain, 1.0, 1, 9);
        println!("{} no privacy {plain:.3}", model.name());
        assert!(plain <= [0.04, 0.045, 0.05][place]);
        for (index, epsilon) in [0.2, 0.5, 1.0].into_iter().enumerate() {
            let mu = BUDGETS[index];
            let error = |row, rounds, sites| median_error(model, 10_000, rounds, row, mu, sites, 9);
            let (clipped, truncated) = (error(Row::Clip, 22, 1), error(Row::Catoni, 22, 1));
            println!(
                "{} epsilon {epsilon}: clip {clipped:.3}, its last round {:.3}, catoni {truncated:.3}, catoni with the \
                 paper's scale {:.3}, clip at five sites {:.3}",
                model.name(),
                averaged_error(model, 10_000, (22, 1), Row::Clip, mu, 1, 9),
                error(Row::PaperScale(epsilon), 22, 1),
                error(Row::Clip, 22, 5),
            );
            assert!(clipped <= clip[place][index] && truncated <= 1.2 * catoni[place][index]);
        }
    }
    let truth = simulate::direction(10, 1.0, 4);
    let records = simulate::draw(Model::GaussianMixture, 1.0, &truth, 100_000, 0.0, 5).unwrap();
    let settings = settings(Model::GaussianMixture, 10, 2.0, 100, Estimator::None);
    let start = simulate::direction(10, 0.5, 6);
    let path = simulate::fit(&settings, std::slice::from_ref(&records), &start, 1.0, &mut Silent).unwrap();
    let error = Model::GaussianMixture.distance(path.last().unwrap(), &truth);
    let collapsed = printed::fit(&records, 1.0, &start, 100).norm();
    println!("gmm at signal-to-noise 1, n = 100 000: error {error:.4}; printed weight: |beta| = {collapsed:.4}");
    assert!(error < 0.05 && collapsed < 0.2);
}
