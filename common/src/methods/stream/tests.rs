use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde::Deserialize;

use super::*;
use crate::bounded::{Silent, SimulatedNoise};
use crate::methods::features::FeatureMap;
use crate::research::streams::{Sine, run, squared_error};

#[derive(Deserialize)]
struct Case {
    kernel: String,
    width: f64,
    points: usize,
    covariates: usize,
    tau: f64,
    step: f64,
    x: Vec<Vec<f64>>,
    y: Vec<f64>,
    last: Vec<f64>,
    first_hundred: Vec<f64>,
}

fn settings(basis: Basis, loss: Loss, length: f64) -> Settings {
    Stated { basis, loss, step: Step::Constant { length } }.try_into().unwrap()
}

fn line(width: f64, points: usize) -> Basis {
    Basis::Grid(Grid::new(Kernel::Gaussian { width }, points, 1).unwrap())
}

const HUBER: Loss = Loss::Huber { tau: 1.0 };

#[test]
fn streams_agree_with_a_learner_that_keeps_its_function_on_the_grid() {
    let cases: Vec<Case> =
        serde_json::from_str(include_str!("../../../../tests/vectors/methods/streams.json")).unwrap();
    assert_eq!(cases.len(), 4);
    for case in cases {
        let kernel = if case.kernel == "sobolev" { Kernel::Sobolev } else { Kernel::Gaussian { width: case.width } };
        let grid = Grid::new(kernel, case.points, case.covariates).unwrap();
        let settings = settings(Basis::Grid(grid), Loss::Huber { tau: case.tau }, case.step);
        let mut exact = Learner::new(&settings);
        let mut bounded = Learner::new(&settings);
        for (index, (x, &y)) in case.x.iter().zip(&case.y).enumerate() {
            let message = settings.plain_message(exact.weights(), Some((x, y))).unwrap();
            exact.apply(&settings, &message).unwrap();
            let message = settings.message(bounded.weights(), Some((x, y))).unwrap();
            bounded.apply(&settings, message.values().as_slice()).unwrap();
            let expected = match index {
                99 => &case.first_hundred,
                299 => &case.last,
                _ => continue,
            };
            for learner in [&exact, &bounded] {
                let found = settings.on_grid(learner.weights()).unwrap().unwrap();
                let apart = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                assert!(apart < 1e-7, "{} {index}: {apart}", case.kernel);
            }
        }
    }
}

#[test]
fn the_interpolant_meets_the_function_at_grid_points() {
    for grid in [Grid::new(Kernel::Sobolev, 6, 2).unwrap(), Grid::new(Kernel::Gaussian { width: 0.3 }, 5, 3).unwrap()] {
        let (points, side) = (grid.len(), grid.points().to_vec());
        let covariates = points.ilog(side.len()) as usize;
        let settings = settings(Basis::Grid(grid), HUBER, 0.1);
        let weights: Vec<f64> = (0..points).map(|i| (i as f64 * 0.7).sin()).collect();
        let function = settings.on_grid(&weights).unwrap().unwrap();
        for (place, &expected) in function.iter().enumerate() {
            let x: Vec<f64> =
                (0..covariates).rev().map(|axis| side[place / side.len().pow(axis as u32) % side.len()]).collect();
            assert!((settings.predict(&weights, &x).unwrap() - expected).abs() < 1e-6);
        }
    }
}

fn bases() -> Vec<Basis> {
    vec![
        line(0.15, 30),
        line(3.0, 200),
        Basis::Grid(Grid::new(Kernel::Sobolev, 9, 1).unwrap()),
        Basis::Grid(Grid::new(Kernel::Sobolev, 6, 3).unwrap()),
        Basis::Features(FeatureMap::new(4, 2, 30, 2.0).unwrap()),
    ]
}

#[test]
fn no_two_messages_are_farther_apart_than_the_sensitivity_and_some_are_as_far() {
    let mut generator = ChaCha8Rng::seed_from_u64(3);
    for basis in bases() {
        let (covariates, width) = (basis.covariates(), basis.len());
        let settings = settings(basis, Loss::Huber { tau: 0.8 }, 0.1);
        let sensitivity = settings.sensitivity().unwrap();
        let mut farthest = 0.0_f64;
        for _ in 0..400 {
            let scale = [0.0, 1.0, 1e12, f64::MAX, f64::NAN][generator.random_range(0..5)];
            let weights: Vec<f64> = (0..width).map(|_| scale * generator.random_range(-1.0..1.0)).collect();
            let mut record = || {
                let x: Vec<f64> = (0..covariates)
                    .map(|_| [0.0, 1.0, generator.random(), 7.0, -1e300, f64::NAN][generator.random_range(0..6)])
                    .collect();
                (x, [0.0, 1e9, -1e9, f64::MAX, f64::INFINITY][generator.random_range(0..5)])
            };
            let (mut one, mut other) = (record(), record());
            if generator.random_bool(0.3) {
                // Where the kernel is largest.
                one.0.fill(1.0);
            }
            if generator.random_bool(0.5) {
                // Farthest apart are opposite residuals at one place.
                other.0.clone_from(&one.0);
            }
            let first = settings.message(&weights, Some((&one.0, one.1))).unwrap();
            let second = settings.message(&weights, Some((&other.0, other.1))).unwrap();
            assert_eq!(first.sensitivity(), sensitivity);
            let square: i128 = first.integers().iter().zip(second.integers()).map(|(a, b)| (a - b) * (a - b)).sum();
            let distance = (square as f64).sqrt() * f64::from(first.exponent()).exp2();
            assert!(distance <= sensitivity * (1.0 + 1e-15), "{distance}");
            farthest = farthest.max(distance / sensitivity);
        }
        assert!(farthest > 0.99, "only {farthest} of the sensitivity");
    }
}

#[test]
fn a_whitened_message_is_cut_to_its_bound_even_where_coordinates_are_too_long() {
    let message = learner::bounded(&[30.0, -40.0, 0.0], 0.8, 1.6);
    assert!((message.values().norm() - 0.8).abs() < 1e-11 && message.values().norm() <= 0.8);
    assert!((message.values()[0] - 0.48).abs() < 1e-11);
}

#[test]
fn coordinates_are_never_longer_than_the_bound() {
    for basis in bases() {
        let mut coordinates = Vec::new();
        for step in 0..=500 {
            let x = vec![f64::from(step) / 500.0; basis.covariates()];
            basis.coordinates(&x, &mut coordinates);
            let norm = coordinates.iter().map(|a| a * a).sum::<f64>().sqrt();
            assert!(norm <= basis.bound() * (1.0 + 1e-9), "{norm}");
            assert!(norm > 0.5 * basis.bound() / 2.0_f64.sqrt().powi(basis.covariates() as i32), "{norm}");
        }
    }
}

#[test]
fn a_record_that_cannot_be_used_is_zero_and_looks_like_any_other_in_its_noise() {
    let settings = settings(line(0.15, 10), HUBER, 0.1);
    let weights = vec![0.1; 10];
    let nothing = settings.message(&weights, None).unwrap();
    assert_eq!(nothing.integers(), [0; 10]);
    for (x, y) in [(f64::NAN, 1.0), (0.5, f64::INFINITY), (f64::INFINITY, 0.0)] {
        assert_eq!(settings.message(&weights, Some((&[x], y))).unwrap(), nothing);
        assert_eq!(settings.plain_message(&weights, Some((&[x], y))).unwrap(), [0.0; 10]);
    }
    // Outside its range a covariate counts at the end.
    assert_eq!(
        settings.message(&weights, Some((&[7.0], 1.0))).unwrap(),
        settings.message(&weights, Some((&[1.0], 1.0))).unwrap()
    );
    let mut noise = SimulatedNoise::seeded(1);
    assert!(nothing.simulate_release(1.0, &mut noise).norm() > 0.0);
}

#[test]
fn the_average_is_that_of_the_last_half_and_at_most_a_sixteenth_more() {
    let settings = settings(line(0.2, 2), HUBER, 1.0);
    let mut learner = Learner::new(&settings);
    for n in 1..=3000_u64 {
        learner.apply(&settings, &[1.0, -1.0]).unwrap();
        // The n-th weights are n, so the average of the last c is n - (c - 1)/2.
        let average = learner.average(Average::LastHalf)[0];
        let counted = 2.0 * (n as f64 - average) + 1.0;
        assert!(counted >= n as f64 / 2.0 - 1e-6, "{n}: {counted}");
        assert!(counted <= n as f64 * (0.5 + 0.125) + 1.0, "{n}: {counted}");
        assert_eq!(learner.average(Average::LastHalf)[1], -average);
        learner.check(&settings).unwrap();
    }
    assert_eq!(learner.records(), 3000);
    assert!((learner.average(Average::All)[0] - 1500.5).abs() < 1e-9);
}

#[test]
fn a_state_is_as_small_after_many_records_as_after_few_and_goes_on_where_it_was() {
    let settings = settings(line(0.15, 12), HUBER, 0.05);
    let records = Sine { freedom: 3.0, scale: 0.5 }.draw(Sine::function, 4000, 1);
    let early = run(&settings, &records[..200], None, &mut Silent).unwrap();
    let late = run(&settings, &records, None, &mut Silent).unwrap();
    let size = |learner: &Learner| serde_json::to_string(learner).unwrap().len();
    assert!(size(&late) < 2 * size(&early) && size(&late) < 12 * 18 * 30);
    let mut restored: Learner = serde_json::from_str(&serde_json::to_string(&early).unwrap()).unwrap();
    restored.check(&settings).unwrap();
    for &(x, y) in &records[200..] {
        let message = settings.plain_message(restored.weights(), Some((&[x], y))).unwrap();
        restored.apply(&settings, &message).unwrap();
    }
    assert_eq!(restored, late);
}

#[test]
fn states_messages_and_settings_that_do_not_fit_are_refused() {
    let settings = settings(line(0.15, 4), HUBER, 0.05);
    let mut learner = Learner::new(&settings);
    learner.apply(&settings, &[0.1; 4]).unwrap();
    let before = learner.clone();
    for message in [vec![0.0; 3], vec![f64::NAN; 4], vec![f64::INFINITY; 4]] {
        assert!(learner.apply(&settings, &message).is_err());
    }
    assert_eq!(learner, before);
    let json = serde_json::to_string(&learner).unwrap();
    for (from, to) in [
        ("\"records\":1,\"tail\"", "\"records\":9,\"tail\""),
        ("\"block\":1", "\"block\":0"),
        ("\"block\":1", "\"block\":3"),
    ] {
        assert!(json.contains(from), "{json}");
        let broken: Learner = serde_json::from_str(&json.replacen(from, to, 1)).unwrap();
        assert!(broken.check(&settings).is_err(), "{to}");
    }
    assert!(learner.check(&super::tests::settings(line(0.15, 5), HUBER, 0.05)).is_err());
    assert!(settings.message(&[0.0; 3], None).is_err());
    assert!(settings.message(&[0.0; 4], Some((&[0.1, 0.2], 1.0))).is_err());

    assert_eq!(
        Grid::new(Kernel::Sobolev, 30, 3).unwrap_err().to_string(),
        "30 grid points in each of 3 covariates make a grid of 27000, more than 4096"
    );
    assert!(Grid::new(Kernel::Sobolev, 5, 4).unwrap_err().to_string().contains("random features"));
    assert!(Grid::new(Kernel::Sobolev, 1, 1).is_err() && Grid::new(Kernel::Sobolev, usize::MAX, 3).is_err());
    for width in [0.0, f64::NAN, -1.0, 1e9] {
        assert!(Grid::new(Kernel::Gaussian { width }, 5, 1).is_err());
    }
    for tau in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let stated = Stated { basis: line(0.2, 4), loss: Loss::Huber { tau }, step: Step::Constant { length: 0.1 } };
        assert!(Settings::try_from(stated).is_err());
    }
    for length in [0.0, f64::NAN, 11.0] {
        let stated = Stated { basis: line(0.2, 4), loss: HUBER, step: Step::Root { length } };
        assert!(Settings::try_from(stated).is_err());
    }
    let squares = super::tests::settings(line(0.15, 4), Loss::Squares, 0.05);
    assert_eq!(squares.message(&[0.0; 4], None).unwrap_err(), StreamError::NoBound);
    let json = serde_json::to_string(&settings).unwrap();
    assert_eq!(serde_json::from_str::<Settings>(&json).unwrap(), settings);
    assert!(serde_json::from_str::<Settings>(&json.replace("\"points\":4", "\"points\":1")).is_err());
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// For each kind of average the least median error over seeds among the steps, and its step.
fn best(basis: &Basis, loss: Loss, law: Sine, n: usize, mu: Option<f64>, steps: &[f64], seeds: u64) -> [(f64, f64); 2] {
    let mut best = [(f64::INFINITY, 0.0); 2];
    for &length in steps {
        let settings = settings(basis.clone(), loss, length);
        let mut errors = [Vec::new(), Vec::new()];
        for seed in 0..seeds {
            let mut noise = SimulatedNoise::seeded(seed + 100);
            let learner = run(&settings, &law.draw(Sine::function, n, seed), mu, &mut noise).unwrap();
            for (errors, part) in errors.iter_mut().zip([Average::LastHalf, Average::All]) {
                errors.push(squared_error(Sine::function, &settings, &learner, part).unwrap());
            }
        }
        for (best, errors) in best.iter_mut().zip(errors) {
            let error = median(errors);
            if error < best.0 {
                *best = (error, length);
            }
        }
    }
    best
}

const EPSILON_3: f64 = 0.7191174352217926;
const EPSILON_1: f64 = 0.2680511232112946;

#[test]
fn the_sine_is_found_without_noise_with_noise_and_under_heavy_tails() {
    let basis = line(0.15, 30);
    let law = Sine { freedom: 3.0, scale: 0.5 };
    let [(plain, _), _] = best(&basis, HUBER, law, 2000, None, &[0.125], 5);
    assert!(plain < 0.0053 * 1.3, "{plain}");
    let [(private, _), _] = best(&basis, HUBER, law, 2000, Some(EPSILON_3), &[0.004], 5);
    assert!(private < 0.131 * 1.3 && private > plain, "{private}");
    let heavy = Sine { freedom: 1.5, scale: 0.5 };
    let [(huber, _), _] = best(&basis, HUBER, heavy, 500, None, &[0.06, 0.125], 9);
    let [(squares, _), _] = best(&basis, Loss::Squares, heavy, 500, None, &[0.06, 0.125], 9);
    assert!(squares > 2.0 * huber, "{squares} {huber}");
    let features = Basis::Features(FeatureMap::new(4, 1, 100, 7.0).unwrap());
    let [(by_features, _), _] = best(&features, HUBER, law, 2000, None, &[0.25, 0.5], 5);
    assert!(by_features < 0.02, "{by_features}");
}

/// `cargo test --release -p fedreg-common stream::tests::the_table -- --ignored --nocapture`
#[test]
#[ignore = "full size"]
fn the_table_of_errors_at_full_size() {
    let basis = line(0.15, 30);
    let plain_steps = [0.03, 0.06, 0.125, 0.25, 0.5];
    let private_steps = [0.0002, 0.0004, 0.0007, 0.001, 0.0015, 0.002, 0.003, 0.004, 0.006, 0.008];
    for scale in [0.5, 1.0] {
        let law = Sine { freedom: 3.0, scale };
        for (place, n) in [2000, 10_000, 40_000].into_iter().enumerate() {
            for (label, mu, expected) in [
                ("no noise", None, [0.0053, 0.0014, 0.0003]),
                ("epsilon 3", Some(EPSILON_3), [0.131, 0.058, 0.019]),
                ("epsilon 1", Some(EPSILON_1), [0.322, 0.186, 0.084]),
            ] {
                let steps: &[f64] = if mu.is_some() { &private_steps } else { &plain_steps };
                let [half, all] = best(&basis, HUBER, law, n, mu, steps, 15);
                println!(
                    "t(3) times {scale}, n = {n}, {label}: last half {:.5} at step {}, all {:.5} at step {}, the note has {}",
                    half.0, half.1, all.0, all.1, expected[place]
                );
                // The note's numbers are rounded to a unit of its last digit.
                assert!(half.0.min(all.0) <= 1.3 * (expected[place] + 0.00005));
            }
        }
    }
    let heavy = Sine { freedom: 1.5, scale: 0.5 };
    for n in [500, 4000] {
        let [(huber, _), _] = best(&basis, HUBER, heavy, n, None, &plain_steps, 25);
        let [(squares, _), _] = best(&basis, Loss::Squares, heavy, n, None, &[0.004, 0.015, 0.03, 0.06, 0.125], 25);
        println!("t(1.5), n = {n}: huber {huber:.4}, least squares {squares:.4}, ratio {:.1}", squares / huber);
        assert!(squares > 4.0 * huber);
    }
}

/// `cargo test --release -p fedreg-common stream::tests::records_a_second -- --ignored --nocapture`
#[test]
#[ignore = "measures time"]
#[allow(clippy::disallowed_methods)] // a measurement; nothing else here reads a clock
fn records_a_second_on_one_core() {
    let settings = settings(line(0.15, 30), HUBER, 0.1);
    let records = Sine { freedom: 3.0, scale: 0.5 }.draw(Sine::function, 200_000, 1);
    for mu in [None, Some(0.7)] {
        let start = std::time::Instant::now();
        let learner = run(&settings, &records, mu, &mut SimulatedNoise::seeded(1)).unwrap();
        let seconds = start.elapsed().as_secs_f64();
        println!("{mu:?}: {:.0} records a second", learner.records() as f64 / seconds);
    }
}
