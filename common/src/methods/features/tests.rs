use nalgebra::{DMatrix, DVector};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde::Deserialize;

use super::*;
use crate::bounded::{Noise as _, SimulatedNoise};
use crate::research::printed_features::{PaperNoise, algorithm_1, claimed_sensitivity, cosine_features};
use crate::research::solvers::{Kaczmarz, Termination, kaczmarz, minimum_norm, pseudo_inverse};

#[derive(Deserialize)]
struct Vectors {
    solutions: Vec<Solution>,
    pooled: PooledCase,
}

#[derive(Deserialize)]
struct Solution {
    a: Vec<Vec<f64>>,
    y: Vec<f64>,
    lambda: f64,
    ridge: Vec<f64>,
    minimum_norm: Option<Vec<f64>>,
}

#[derive(Deserialize)]
struct PooledCase {
    gram: Vec<Vec<f64>>,
    cross: Vec<f64>,
    sigma: f64,
    sites: usize,
    lift: f64,
    coefficients: Vec<f64>,
}

fn vectors() -> Vectors {
    serde_json::from_str(include_str!("../../../../tests/vectors/methods/features.json")).unwrap()
}

fn matrix(rows: &[Vec<f64>]) -> DMatrix<f64> {
    DMatrix::from_fn(rows.len(), rows[0].len(), |i, j| rows[i][j])
}

fn apart(found: &DVector<f64>, expected: &[f64]) -> f64 {
    (found - DVector::from_column_slice(expected)).norm() / DVector::from_column_slice(expected).norm()
}

fn random(rows: usize, columns: usize, seed: u64) -> DMatrix<f64> {
    let mut generator = ChaCha8Rng::seed_from_u64(seed);
    DMatrix::from_fn(rows, columns, |_, _| generator.random())
}

#[test]
fn solvers_agree_with_numpy() {
    for case in vectors().solutions {
        let (a, y) = (matrix(&case.a), DVector::from_vec(case.y));
        assert!(apart(&ridge(&a, &y, case.lambda).unwrap(), &case.ridge) < 1e-12);
        let how = Kaczmarz { passes: 20_000, tol: 1e-12, seed: 1, lambda: case.lambda };
        let iterated = kaczmarz(&a.transpose(), &y, &how).unwrap();
        assert_eq!(iterated.termination, Termination::Converged);
        assert!(apart(&iterated.coefficients, &case.ridge) < 1e-9);
        if let Some(expected) = case.minimum_norm {
            let direct = minimum_norm(&a, &y).unwrap();
            assert_eq!((direct.rank, direct.singular), (y.len(), false));
            assert!(apart(&direct.coefficients, &expected) < 1e-12);
            assert!(apart(&pseudo_inverse(&a, &y, 1e-15).unwrap().coefficients, &expected) < 1e-12);
            let iterated = kaczmarz(&a.transpose(), &y, &Kaczmarz { lambda: 0.0, ..how }).unwrap();
            assert!(apart(&iterated.coefficients, &expected) < 1e-9);
        }
    }
}

#[test]
fn pooled_statistics_are_solved_with_the_small_eigenvalues_of_their_noisy_spectrum_lifted() {
    let case = vectors().pooled;
    let map = FeatureMap::new(1, 1, 6, 1.0).unwrap();
    // Two sites send half of the table each way, one sends nothing.
    let gram = matrix(&case.gram);
    let mut packed = Vec::new();
    for j in 0..6 {
        (0..=j).for_each(|i| packed.push(gram[(i, j)] * if i == j { 1.0 } else { 2.0_f64.sqrt() }));
    }
    packed.extend(&case.cross);
    let whole = DVector::from_vec(packed);
    let sites = [&whole * 0.25, &whole * 0.75, &whole * 0.0];
    assert_eq!(sites.len(), case.sites);
    let pooled = Statistics::pool(&map, &sites).unwrap();
    let (coefficients, lift) = Statistics::solve(&pooled, case.sigma).unwrap();
    assert!((lift - case.lift).abs() < 1e-12);
    assert!(apart(&coefficients, &case.coefficients) < 1e-12);
    assert!(Statistics::pool(&map, &[]).is_err());
    assert!(Statistics::pool(&map, &[DVector::from_element(27, f64::NAN)]).is_err());
    assert!(Statistics::pool(&map, &[DVector::zeros(26)]).is_err());
}

#[test]
fn rows_have_norm_one_and_their_products_approach_the_kernel() {
    let map = FeatureMap::new(3, 2, 4000, 0.8).unwrap();
    let x = random(40, 2, 1);
    let rows = map.rows(&x).unwrap();
    for row in rows.row_iter() {
        assert!((row.norm() - 1.0).abs() < 1e-14);
    }
    for i in 1..40 {
        let kernel = (-0.32 * (x.row(0) - x.row(i)).norm_squared()).exp();
        // Each of 2000 cosines has standard deviation below .71 about the kernel: five standard errors, false alarm 6e-7 each.
        assert!((rows.row(0).dot(&rows.row(i)) - kernel).abs() < 5.0 * 0.71 / 2000.0_f64.sqrt());
    }
    let integers = map.integer_rows(&DMatrix::from_row_slice(2, 2, &[0.3, 0.4, f64::NAN, 0.1])).unwrap();
    let squares: Vec<f64> = integers.row_iter().map(|row| row.norm_squared()).collect();
    assert!(squares[0] <= f64::from(1 << 30) && squares[0] > 0.99 * f64::from(1 << 30));
    assert_eq!(squares[1], 0.0);
}

#[test]
fn the_same_seed_gives_the_same_frequencies_for_ever() {
    let map = FeatureMap::new(7, 2, 4, 0.5).unwrap();
    let expected = FROZEN;
    for (found, expected) in map.frequencies().iter().zip(expected) {
        assert!((found - expected).abs() < 1e-14, "{:?}", map.frequencies());
    }
    let again: FeatureMap = serde_json::from_str(&serde_json::to_string(&map).unwrap()).unwrap();
    assert_eq!(map, again);
    assert_ne!(map.frequencies(), FeatureMap::new(8, 2, 4, 0.5).unwrap().frequencies());
}

const FROZEN: [f64; 4] = [-0.10609720605008938, -0.023441110742407192, -0.2592520069314986, 1.2019612683399779];

#[test]
fn no_pair_of_neighbours_moves_the_statistics_farther_than_the_sensitivity() {
    // One covariate and two features: the cosine between rows takes every value, so the supremum is reached. With more features a row
    // has norm one only because it is divided by the root of their number.
    assert!(farthest_neighbours(2) > 0.99 * sensitivity());
    farthest_neighbours(10);
}

/// How far apart the statistics of neighbours were found, never beyond the sensitivity.
fn farthest_neighbours(count: usize) -> f64 {
    let map = FeatureMap::new(1, 1, count, 3.0).unwrap();
    let mut generator = ChaCha8Rng::seed_from_u64(2);
    let mut farthest = 0.0_f64;
    let statistics = |x: [f64; 3], y: [f64; 3]| Statistics::of(&map, &DMatrix::from_row_slice(3, 1, &x), &y).unwrap();
    for _ in 0..4000 {
        let mut value = || match generator.random_range(0..8) {
            0 => f64::NAN,
            1 => 1e9,
            _ => generator.random_range(-4.0..4.0),
        };
        let x = [value(), value(), value(), value()];
        let y = [value(), value(), value().signum(), value() * 1e5];
        let one = statistics([x[0], x[1], x[2]], [y[0], y[1], y[2]]);
        let other = statistics([x[0], x[1], x[3]], [y[0], y[1], y[3]]);
        assert_eq!(one.sensitivity(), sensitivity());
        let square: f64 = one
            .integers()
            .iter()
            .zip(other.integers())
            .map(|(a, b)| ((a - b) as f64 * (-70.0_f64).exp2()).powi(2))
            .sum();
        assert!(square.sqrt() <= sensitivity() * (1.0 + 1e-14), "{}", square.sqrt());
        farthest = farthest.max(square.sqrt());
    }
    farthest
}

#[test]
fn statistics_are_the_sums_they_claim_to_be() {
    let map = FeatureMap::new(5, 3, 10, 1.0).unwrap();
    let (x, y) = (random(200, 3, 6), random(200, 1, 7));
    let pooled = Statistics::pool(&map, &[Statistics::of(&map, &x, y.as_slice()).unwrap().values()]).unwrap();
    let rows = map.rows(&x).unwrap();
    assert!((&pooled.gram - rows.tr_mul(&rows)).amax() < 200.0 * 1e-4);
    assert!((&pooled.cross - rows.tr_mul(&y.column(0))).amax() < 200.0 * 1e-4);
    // Without noise the solution is that of least squares.
    let (coefficients, lift) = Statistics::solve(&pooled, 0.0).unwrap();
    assert_eq!(lift, 0.0);
    assert!(coefficients.iter().all(|c| c.is_finite()));
}

#[test]
fn ridge_solutions_stay_within_their_sensitivity_for_nasty_neighbours() {
    let mut generator = ChaCha8Rng::seed_from_u64(3);
    let mut closest = 0.0_f64;
    for lambda in [0.003, 0.05, 1.0] {
        for columns in [1, 2, 5] {
            let rows = 6;
            for _ in 0..150 {
                let mut entry = || *[0.0, 0.02, 0.3, -0.3, 1.0, -1.0, 50.0].get(generator.random_range(0..7)).unwrap();
                let a = DMatrix::from_fn(rows, columns, |_, _| entry());
                let y: Vec<f64> = (0..rows).map(|_| entry()).collect();
                let (mut b, mut v) = (a.clone(), y.clone());
                (0..columns).for_each(|j| b[(0, j)] = entry());
                v[0] = entry();
                let (one, other) =
                    (output_perturbation(&a, &y, lambda).unwrap(), output_perturbation(&b, &v, lambda).unwrap());
                let distance = (one.values() - other.values()).norm();
                assert!(distance <= one.sensitivity(), "lambda {lambda}: {distance}");
                closest = closest.max(distance / one.sensitivity());
            }
        }
    }
    // A factor of two or so is lost between worst cases that cannot meet.
    assert!(closest > 0.25, "only {closest} of the sensitivity");
    let nan = output_perturbation(&DMatrix::from_element(2, 2, f64::NAN), &[1.0, f64::NAN], 0.1).unwrap();
    assert_eq!(nan.values(), DVector::zeros(2));
}

#[test]
fn a_near_duplicate_moves_the_interpolant_beyond_any_noise_that_the_paper_adds() {
    let (count, m) = (300, 60);
    let (mut generator, x) = (ChaCha8Rng::seed_from_u64(4), random(m, 5, 9));
    let y = DVector::from_fn(m, |_, _| generator.random_range(-1.0..1.0));
    let solve =
        |x: &DMatrix<f64>, y: &DVector<f64>| minimum_norm(&cosine_features(x, count, 10.0, 5), y).unwrap().coefficients;
    let before = solve(&x, &y);
    let mut last = 0.0;
    for gap in [1e-2, 1e-4, 1e-6] {
        let (mut x, mut y) = (x.clone(), y.clone());
        let twin = x.row(1).into_owned();
        x.set_row(0, &twin);
        x[(0, 0)] += gap;
        y[0] = -y[1].signum();
        let moved = (solve(&x, &y) - &before).norm();
        assert!(moved > 10.0 * last);
        last = moved;
    }
    assert!(last > 1000.0 * claimed_sensitivity(count), "{last}");
    // The same pair moves the ridge solution by less than its sensitivity.
    let paper = algorithm_1(&cosine_features(&x, count, 10.0, 5), &y, PaperNoise::Gamma, 1.0, 1e-5, 1).unwrap();
    assert!((paper - &before).norm() > claimed_sensitivity(count));
}

#[test]
fn rows_that_repeat_are_said_to_be_singular() {
    let a = random(4, 9, 1);
    let twice = a.select_rows(&[0, 1, 2, 3, 1]);
    let y = DVector::from_vec(vec![1.0, -0.5, 0.2, 0.9]);
    let again = y.select_rows(&[0, 1, 2, 3, 1]);
    let direct = minimum_norm(&twice, &again).unwrap();
    assert_eq!((direct.rank, direct.singular), (4, true));
    let expected = pseudo_inverse(&a, &y, 1e-15).unwrap().coefficients;
    assert!(apart(&direct.coefficients, expected.as_slice()) < 1e-10);
    let how = Kaczmarz { passes: 20_000, tol: 1e-12, seed: 1, lambda: 0.0 };
    assert!(apart(&kaczmarz(&twice.transpose(), &again, &how).unwrap().coefficients, expected.as_slice()) < 1e-9);
    // An iteration that is cut short says so.
    let short = kaczmarz(&twice.transpose(), &again, &Kaczmarz { passes: 1, ..how }).unwrap();
    assert_eq!((short.termination, short.passes), (Termination::Passes, 1));
    assert!(short.residual > 1e-12);
}

#[test]
fn a_result_file_predicts_and_a_foreign_or_broken_one_is_refused() {
    let map = FeatureMap::new(5, 1, 40, 3.0).unwrap();
    let x = DMatrix::from_fn(200, 1, |i, _| i as f64 / 199.0);
    let y = DVector::from_fn(200, |i, _| (x[i] * 6.0).sin());
    let coefficients = ridge(&map.rows(&x).unwrap(), &y, 1e-8).unwrap();
    let model = FeatureModel {
        study: "abc".to_owned(),
        columns: vec!["age".to_owned()],
        ranges: vec![Range::new(10.0, 30.0).unwrap()],
        map,
        outcome: Range::new(90.0, 110.0).unwrap(),
        coefficients: coefficients.as_slice().to_vec(),
    };
    let json = serde_json::to_string(&model).unwrap();
    let read: FeatureModel = serde_json::from_str(&json).unwrap();
    read.check(Some("abc")).unwrap();
    assert_eq!(read.check(Some("xyz")).unwrap_err().to_string(), "the features belong to study abc, expected xyz");
    let predicted = read.predict(&DMatrix::from_row_slice(3, 1, &[15.0, 20.0, 99.0])).unwrap();
    for (found, at) in predicted.iter().zip([0.25_f64, 0.5, 1.0]) {
        assert!((found - (100.0 + 10.0 * (6.0 * at).sin())).abs() < 0.1, "{found}");
    }
    assert!(read.predict(&DMatrix::from_element(1, 2, 15.0)).is_err());
    assert!(read.predict(&DMatrix::from_element(1, 1, f64::NAN)).is_err());
    assert!(FeatureModel { coefficients: vec![0.0; 3], ..read.clone() }.check(None).is_err());
    assert!(FeatureModel { coefficients: vec![f64::NAN; 40], ..read }.check(None).is_err());
    assert!(serde_json::from_str::<FeatureModel>(&json.replace("\"count\":40", "\"count\":41")).is_err());
}

#[test]
fn settings_out_of_range_are_refused() {
    for (inputs, count, sd) in
        [(0, 4, 1.0), (1, 0, 1.0), (1, 3, 1.0), (1, 4, 0.0), (1, 4, f64::NAN), (10_000, 1_000_000, 1.0)]
    {
        assert!(FeatureMap::new(1, inputs, count, sd).is_err(), "{inputs} {count} {sd}");
    }
    for (low, high) in [(1.0, 1.0), (2.0, 1.0), (f64::NAN, 1.0), (0.0, f64::INFINITY), (-f64::MAX, f64::MAX)] {
        assert!(Range::new(low, high).is_err());
    }
    let (a, y) = (random(3, 2, 1), DVector::zeros(3));
    assert!(
        ridge(&a, &y, 0.0).is_err() && ridge(&a, &y, f64::NAN).is_err() && ridge(&a, &DVector::zeros(2), 1.0).is_err()
    );
    assert!(output_perturbation(&a, &[0.0; 3], 1e-9).is_err());
    assert!(ridge(&DMatrix::zeros(0, 2), &DVector::zeros(0), 1.0).is_err());
    let large = FeatureMap::new(1, 1, 2002, 1.0).unwrap();
    assert!(Statistics::of(&large, &DMatrix::zeros(1, 1), &[0.0]).is_err());
    assert_eq!((default_count(1204, 0.268), default_count(10, 0.1), default_count(1 << 40, 1.0)), (20, 20, 200));
}

/// Columns of a table with public ranges; categorical ones as 0 and 1.
fn noisy_fit_error(x: &DMatrix<f64>, y: &[f64], count: usize, sd: f64, mu: f64, sites: usize, seed: u64) -> f64 {
    let mut order: Vec<usize> = (0..y.len()).collect();
    let mut generator = ChaCha8Rng::seed_from_u64(seed);
    rand::seq::SliceRandom::shuffle(order.as_mut_slice(), &mut generator);
    let (train, test) = order.split_at(y.len() * 9 / 10);
    let pick = |rows: &[usize]| (x.select_rows(rows), rows.iter().map(|&i| 2.0 * y[i] - 1.0).collect::<Vec<f64>>());
    let map = FeatureMap::new(seed, x.ncols(), count, sd).unwrap();
    let mut noise = SimulatedNoise::seeded(seed + 1);
    let released: Vec<DVector<f64>> = train
        .chunks(train.len().div_ceil(sites))
        .map(|part| {
            let (x, y) = pick(part);
            Statistics::of(&map, &x, &y).unwrap().simulate_release(mu, &mut noise)
        })
        .collect();
    let pooled = Statistics::pool(&map, &released).unwrap();
    let (coefficients, _) = Statistics::solve(&pooled, sensitivity() / mu).unwrap();
    let (x, y) = pick(test);
    let predicted = map.rows(&x).unwrap() * coefficients;
    // In units where the outcome's range is 1.
    predicted.iter().zip(y).map(|(p, y)| (0.5 * (p - y)).powi(2)).sum::<f64>() / test.len() as f64
}

#[test]
fn noisy_statistics_predict_a_smooth_function_and_five_sites_pay_for_their_own_noise() {
    let x = random(1200, 2, 5);
    let y: Vec<f64> = x.row_iter().map(|row| 0.5 + 0.4 * (3.0 * row[0]).sin() * row[1]).collect();
    let error = |mu, sites| {
        let mut errors: Vec<f64> = (0..5).map(|seed| noisy_fit_error(&x, &y, 40, 1.0, mu, sites, seed)).collect();
        errors.sort_by(f64::total_cmp);
        errors[2]
    };
    let (mean, one, five) = (0.0179, error(0.72, 1), error(0.72, 5));
    assert!(one < 0.35 * mean, "{one}");
    assert!(five > one, "{five} {one}");
    let mut silent = [0.0; 3];
    SimulatedNoise::seeded(1).add(0.0, &mut silent);
    assert_eq!(silent, [0.0; 3]);
}

/// `cargo test --release -p fedreg-common features::tests::the_insurance -- --ignored --nocapture`, with the file's place in INSURANCE.
#[test]
#[ignore = "needs the insurance data"]
fn the_insurance_data_at_full_size() {
    let (x, y) = insurance();
    let mean = y.iter().sum::<f64>() / y.len() as f64;
    let variance = y.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / y.len() as f64;
    println!("predicting the mean: {variance:.4}");
    for (epsilon, mu, limit) in [(1.0, 0.2680511232112946, 0.024), (3.0, 0.7191174352217926, 0.020)] {
        for count in [20, 30, 40, 60, 200] {
            for sites in [1, 5] {
                let mut errors: Vec<f64> =
                    (0..15).map(|seed| noisy_fit_error(&x, &y, count, 0.5, mu, sites, seed)).collect();
                errors.sort_by(f64::total_cmp);
                println!(
                    "epsilon {epsilon}, {count} features, {sites} sites: {:.4} (quartiles {:.4}, {:.4})",
                    errors[7], errors[3], errors[11]
                );
                assert!(count != 40 || sites != 1 || errors[7] <= limit);
            }
        }
    }
}

/// `cargo test --release -p fedreg-common features::tests::kaczmarz_reaches -- --ignored --nocapture`
#[test]
#[ignore = "measures time"]
#[allow(clippy::disallowed_methods)] // a measurement; nothing else here reads a clock
fn kaczmarz_reaches_the_minimum_norm_solution_sooner_than_the_pseudo_inverse() {
    use std::time::Instant;
    // The source's simulation: m = 1000 records of five normal covariates.
    let mut generator = ChaCha8Rng::seed_from_u64(11);
    let normal = DMatrix::from_fn(1000, 5, |_, _| -> f64 {
        rand_distr::Distribution::sample(&rand_distr::StandardNormal, &mut generator)
    });
    let smooth = DVector::from_iterator(1000, normal.row_iter().map(|row| (1.0 + row.norm()).sqrt()));
    let smooth = &smooth / smooth.norm();
    let (insured, charges) = insurance();
    let charges = DVector::from_vec(charges);
    for (name, x, y, sd) in [
        ("simulation", &normal, &smooth, 40.0),
        ("insurance", &insured, &charges, 40.0),
        ("simulation", &normal, &smooth, 0.5),
        ("insurance", &insured, &charges, 0.5),
    ] {
        let a = FeatureMap::new(1, x.ncols(), 10_000, sd).unwrap().rows(x).unwrap();
        let start = Instant::now();
        let exact = pseudo_inverse(&a, y, 1e-15).unwrap();
        let by_svd = start.elapsed().as_secs_f64();
        let start = Instant::now();
        let direct = minimum_norm(&a, y).unwrap();
        let by_factor = start.elapsed().as_secs_f64();
        let columns = a.transpose();
        let start = Instant::now();
        let how = Kaczmarz { passes: 300, tol: 1e-8, seed: 1, lambda: 0.0 };
        let iterated = kaczmarz(&columns, y, &how).unwrap();
        let by_rows = start.elapsed().as_secs_f64();
        let distance = |c: &DVector<f64>| (c - &exact.coefficients).norm() / exact.coefficients.norm();
        println!(
            "{name}, sd {sd}: pseudo-inverse {by_svd:.2} s (rank {} of {}, singular {}); factor {by_factor:.2} s (rank {}, distance {:.1e}); \
             kaczmarz {by_rows:.2} s, {} passes, {:?}, distance {:.1e}; ratio {:.1}",
            exact.rank,
            a.nrows(),
            exact.singular,
            direct.rank,
            distance(&direct.coefficients),
            iterated.passes,
            iterated.termination,
            distance(&iterated.coefficients),
            by_svd / by_rows,
        );
        if name == "simulation" && sd > 1.0 {
            assert!(distance(&iterated.coefficients) < 1e-6 && by_rows < by_svd);
            assert!(distance(&direct.coefficients) < 1e-10);
        }
        if name == "insurance" {
            assert!(direct.singular);
        }
    }
}

/// Age, sex, body-mass index, children, smoker, four regions; the charges. Public ranges.
#[allow(clippy::disallowed_methods)] // the file is no part of the repository
fn insurance() -> (DMatrix<f64>, Vec<f64>) {
    let text = std::fs::read_to_string(std::env::var("INSURANCE").unwrap()).unwrap();
    let rows: Vec<Vec<&str>> = text.lines().skip(1).map(|line| line.split(',').collect()).collect();
    let flag = |hit: bool| f64::from(u8::from(hit));
    let x = DMatrix::from_fn(rows.len(), 9, |i, j| {
        let row = &rows[i];
        let number =
            |place: usize, low: f64, high: f64| Range::new(low, high).unwrap().scale(row[place].parse().unwrap());
        match j {
            0 => number(0, 18.0, 64.0),
            1 => flag(row[1] == "male"),
            2 => number(2, 15.96, 53.13),
            3 => number(3, 0.0, 5.0),
            4 => flag(row[4] == "yes"),
            _ => flag(row[5] == ["northeast", "northwest", "southeast", "southwest"][j - 5]),
        }
    });
    let y = rows.iter().map(|row| Range::new(1121.8739, 63770.42801).unwrap().scale(row[6].parse().unwrap())).collect();
    (x, y)
}
