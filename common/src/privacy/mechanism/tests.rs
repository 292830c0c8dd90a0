use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use statrs::distribution::{Beta, ContinuousCDF, Normal};

use super::records::{NoisedRecords, PerRecord, Spending};
use super::*;
use crate::methods::em;
use crate::methods::features::{FeatureMap, Statistics};
use crate::methods::stream;
use crate::methods::stream::site::Maker;
use crate::methods::vertical::plan::{Exchange, Need, Plan, Setup, Shares, Side};
use crate::privacy::accountant::gaussian_mu;
use crate::privacy::bounds::{ClippedOutcome, ColumnBounds, OutcomeBounds, RowBounds};
use crate::privacy::sampler::SCALE;
use crate::study::{SiteMethod, Study};

pub(super) fn bounds(width: usize) -> RowBounds {
    let column = |index| (format!("x{index}"), ColumnBounds::Centred { centre: 0.0, scale: 1.0 });
    RowBounds::new((0..width).map(column).collect(), Some(1.0), None).unwrap()
}

pub(super) fn permit(mu: f64) -> Permit {
    Permit::unreserved("run", 0, PlannedRelease { label: "test".to_owned(), mu })
}

/// Distance between two neighbours' values on a lattice, in real units.
fn distance(first: &Query, second: &Query, step: f64) -> f64 {
    let (first, second) = (first.on_lattice(step).unwrap(), second.on_lattice(step).unwrap());
    first.iter().zip(&second).map(|(a, b)| ((a - b) as f64).powi(2)).sum::<f64>().sqrt() * step
}

/// Rows, residuals and outcomes that a malicious data set would hold.
fn nasty(random: &mut ChaCha8Rng) -> f64 {
    let corner = [0.0, -0.0, 1.0, -1.0, 1e300, -1e300, f64::MAX, 5e-324, f64::NAN, f64::INFINITY, 0.5, -0.5];
    if random.random_bool(0.5) { *corner.choose(random).unwrap() } else { random.random_range(-2.0..2.0) }
}

/// Compares every query on data sets that differ in one row with its stated sensitivity, rounding included, and says how
/// near to it the search came.
fn largest_ratio(make: impl Fn(&DMatrix<f64>, &[f64]) -> Query) -> f64 {
    let mut random = ChaCha8Rng::seed_from_u64(11);
    let mut largest = 0.0f64;
    for trial in 0..6_000 {
        let width = 2;
        let mut x = DMatrix::from_fn(3, width, |_, _| nasty(&mut random));
        let mut y: Vec<f64> = (0..3).map(|_| nasty(&mut random)).collect();
        if trial % 3 == 0 {
            // A duplicate of another row.
            let copy = x.row(0).into_owned();
            x.set_row(1, &copy);
        }
        let before = make(&x, &y);
        match trial % 4 {
            0 => {
                let opposite = -x.row(1).into_owned();
                x.set_row(1, &opposite);
            }
            1 => {
                let turned = [-x[(1, 1)], x[(1, 0)]];
                x[(1, 0)] = turned[0];
                x[(1, 1)] = turned[1];
            }
            2 => (x[(1, 0)], x[(1, 1)]) = (nasty(&mut random), nasty(&mut random)),
            _ => x.row_mut(1).fill(0.0),
        }
        if trial % 2 == 0 {
            y[1] = nasty(&mut random);
        } else if trial % 5 == 0 {
            y[1] = -y[1];
        }
        let after = make(&x, &y);
        // A coarse lattice too, where rounding counts.
        for step in [2f64.powi(-30), 0.01 + random.random::<f64>()] {
            let moved = distance(&before, &after, step);
            let allowed = before.sensitivity() + before.slack() * step;
            assert!(moved <= allowed * (1.0 + 1e-12), "moved {moved}, allowed {allowed}, step {step}");
            if step < 1e-6 {
                largest = largest.max(moved / before.sensitivity());
            }
        }
    }
    largest
}

#[test]
fn no_neighbour_moves_a_query_by_more_than_its_sensitivity_and_some_come_close() {
    let rows = |x: &DMatrix<f64>| ClippedRows::new(&bounds(2), x);
    type Make = Box<dyn Fn(&DMatrix<f64>, &[f64]) -> Query>;
    let queries: [(&str, f64, Make); 4] = [
        ("X'X", 0.99, Box::new(move |x, _| Query::gram(&rows(x)).unwrap())),
        ("X'r", 0.99, Box::new(move |x, y| Query::score(&rows(x), &ClippedResiduals::clip(y, 0.7)))),
        ("X'psi(r)", 0.97, Box::new(move |x, y| Query::score(&rows(x), &ClippedResiduals::reject(y, 1.0)))),
        ("message", 0.99, Box::new(move |x, _| Query::message(&rows(x), &DVector::from_vec(vec![3.0, -2.0]), 0.3))),
    ];
    for (name, close, make) in queries {
        let ratio = largest_ratio(make);
        println!("{name}: largest move is {ratio:.4} of the sensitivity");
        assert!(ratio > close && ratio <= 1.0 + 1e-9, "{name}: {ratio}");
    }
}

#[test]
fn a_histogram_moves_by_one_count_out_and_one_in() {
    let first = Query::histogram(4, [0, 1, 2, 9].into_iter());
    let second = Query::histogram(4, [0, 1, 0, 9].into_iter());
    assert!((distance(&first, &second, 2f64.powi(-20)) - std::f64::consts::SQRT_2).abs() < 1e-12);
    assert!(distance(&first, &second, 2f64.powi(-20)) <= first.sensitivity());
}

#[test]
fn a_message_moves_in_one_entry_only() {
    let x = DMatrix::from_row_slice(3, 2, &[0.1, 0.2, 0.9, -0.1, 0.3, 0.3]);
    let mut other = x.clone();
    other.set_row(1, &nalgebra::RowDVector::from_vec(vec![-5.0, 1e300]));
    let beta = DVector::from_vec(vec![7.0, -3.0]);
    let on = |x: &DMatrix<f64>| Query::message(&ClippedRows::new(&bounds(2), x), &beta, 0.3).on_lattice(1e-9).unwrap();
    let (first, second) = (on(&x), on(&other));
    assert_eq!((first[0], first[2]), (second[0], second[2]));
    assert_ne!(first[1], second[1]);
    let strange = DVector::from_vec(vec![f64::NAN, f64::INFINITY]);
    let rows = ClippedRows::new(&bounds(2), &x);
    assert!(Query::message(&rows, &strange, 0.3).on_lattice(1e-9).unwrap().iter().all(|k| k.abs() <= 300_000_000));
}

/// The joint cost of a table and vectors of the same rows, by search over pairs, against the claim that the table is free.
#[test]
fn the_table_is_free_up_to_a_quarter_of_the_vectors_and_not_beyond() {
    let mut random = ChaCha8Rng::seed_from_u64(5);
    let mut worst = |table: f64| {
        let mut largest = 0.0f64;
        for _ in 0..200_000 {
            let angle: f64 = random.random_range(0.0..std::f64::consts::PI);
            let angle = if random.random_bool(0.5) { std::f64::consts::PI - angle.powi(4) / 100.0 } else { angle };
            let length =
                |random: &mut ChaCha8Rng| -> f64 { if random.random_bool(0.7) { 1.0 } else { random.random() } };
            let (a, b) = (length(&mut random), length(&mut random));
            let inner = a * b * angle.cos();
            let frobenius = a.powi(4) + b.powi(4) - 2.0 * inner * inner;
            let moved = a * a + b * b + 2.0 * inner.abs();
            largest = largest.max(table * frobenius / 2.0 + moved / 4.0);
        }
        largest
    };
    assert!(worst(0.25) <= 1.0 + 1e-12);
    assert!(worst(0.28) > 1.0 + 1e-4, "beyond a quarter some pair pays more");
    let releases = |table: f64| {
        let planned = |label: &str, mu: f64| PlannedRelease { label: label.to_owned(), mu };
        vec![planned("X'X", table.sqrt()), planned("X'r", 0.8), planned("X'r", 0.6), planned("message", 0.5)]
    };
    let free = ReleasePlan::with_free_table(releases(0.24), 0, &[1, 2], 10);
    assert!(free.charge() >= 1.25 && free.charge() < 1.25 + 1e-10, "{}", free.charge());
    let paid = ReleasePlan::with_free_table(releases(0.26), 0, &[1, 2], 10);
    assert!((paid.charge() - 1.51).abs() < 1e-12, "falls back to the plain sum");
}

#[test]
fn division_onto_the_lattice_is_correctly_rounded() {
    let mut random = ChaCha8Rng::seed_from_u64(6);
    for _ in 0..20_000 {
        let divisor = (1u64 << 52) | (random.random::<u64>() >> 12);
        let value = u128::from(random.random::<u64>()) >> random.random_range(0..40);
        let shift = random.random_range(-20..60);
        let quotient = divide_rounding(value, shift, divisor);
        if quotient == LARGEST_STEPS {
            assert!(value >= u128::from(divisor) << 62 >> shift.max(0), "{value} 2^{shift} / {divisor} was cut");
            continue;
        }
        let quotient = quotient as u128;
        let (left, right) = if shift >= 0 {
            (value << shift, quotient * u128::from(divisor))
        } else {
            (value, quotient * (u128::from(divisor) << -shift))
        };
        let unit = if shift >= 0 { u128::from(divisor) } else { u128::from(divisor) << -shift };
        assert!(2 * left.abs_diff(right) <= unit, "{value} 2^{shift} / {divisor} gave {quotient}");
    }
    assert_eq!(divide_rounding(3, 110, 1 << 52), 3 << 58);
    assert_eq!(divide_rounding(1, 127 + 60, 1 << 52), LARGEST_STEPS);
    assert_eq!(divide_rounding(u128::MAX, 1000, 1 << 52), LARGEST_STEPS);
    assert_eq!(divide_rounding(0, 1000, 1 << 52), 0);
    assert_eq!(divide_rounding(u128::MAX, -120, 1 << 52), 0, "a divisor beyond 128 bits");
    assert_eq!(divide_rounding(u128::MAX, -1000, 1 << 52), 0);
    assert!((ROOT_TWO as u128).pow(2) <= 2u128 << 124 && ROOT_TWO_BITS == 62);
    assert!((ROOT_TWO as u128 + 1).pow(2) > 2u128 << 124);
    for value in [1.0, 0.1, 1e-300, 1e300, 3.7306 * STEP_PER_SIGMA] {
        let (mantissa, exponent) = decompose(value).unwrap();
        assert_eq!(mantissa as f64 * 2f64.powi(exponent / 2) * 2f64.powi(exponent - exponent / 2), value);
    }
    for value in [0.0, -1.0, f64::NAN, f64::INFINITY, 5e-324] {
        assert_eq!(decompose(value), None);
    }
}

#[test]
fn noise_keeps_the_permitted_share_and_wastes_nothing() {
    for sensitivity in [1e-6, 0.6, 1.5, 2e4] {
        for entries in [0, 1, 55, 60_000] {
            for mu in [1e-3, 0.268, 2.0] {
                let (sigma, reached) = noise_scale(sensitivity, entries, mu).unwrap();
                assert!(reached <= mu && reached > mu * (1.0 - 1e-12), "{reached} of {mu}");
                let total = sensitivity + (entries as f64).sqrt() * sigma * STEP_PER_SIGMA;
                assert!(total / sigma <= mu);
            }
        }
    }
    for bad in [0.0, -0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(noise_scale(1.0, 1, bad).is_err(), "{bad}");
        assert!(noise_scale(bad, 1, 1.0).is_err(), "{bad}");
    }
    assert!(noise_scale(1.0, 1, 1e-13).is_err(), "rounding alone exceeds such a share");
    assert!(
        matches!(noise_scale(1.0, 1_000_000, 1e-3), Err(ScaleError::Thin { .. })),
        "more numbers than the share has"
    );
    assert!(noise_scale(f64::MAX, 1, 0.5).is_err());
    let query = Query::histogram(3, [0].into_iter());
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-320] {
        let refused = release(&query, permit(bad), &mut NoisePool::seeded(1));
        assert!(matches!(refused, Err(ReleaseError::NoShare { .. })), "{bad}");
    }
}

/// The bound of five standard errors has a false-alarm rate of 6e-7 per variance.
#[test]
fn the_noise_of_a_table_is_isotropic_in_frobenius_norm() {
    let rows = ClippedRows::new(&bounds(2), &DMatrix::from_row_slice(2, 2, &[0.3, 0.4, -0.6, 0.1]));
    let exact = rows.gram();
    let expected = |slot: usize| exact[slot] as f64 / 2f64.powi(30);
    let mut pool = NoisePool::new();
    let runs = 20_000;
    let mut squares = [0.0; 3];
    let mut sigma = 0.0;
    for _ in 0..runs {
        let made = release(&Query::gram(&rows).unwrap(), permit(0.7), &mut pool).unwrap().stored();
        sigma = made.receipt().sigma;
        let table = made.lattice().symmetric(2);
        assert_eq!(table[(0, 1)], table[(1, 0)]);
        for (slot, entry) in [(0, (0, 0)), (1, (0, 1)), (2, (1, 1))] {
            squares[slot] += (table[entry] - expected(slot)).powi(2) / f64::from(runs);
        }
    }
    let error = 5.0 * (2.0 / f64::from(runs)).sqrt();
    for (slot, ratio) in [(0, 1.0), (1, 0.5), (2, 1.0)] {
        assert!((squares[slot] / (sigma * sigma) / ratio - 1.0).abs() < error, "entry {slot}");
    }
    assert!((sigma - std::f64::consts::SQRT_2 / 0.7).abs() < 1e-9);
}

#[test]
fn what_is_sent_lies_on_the_lattice_and_reads_back() {
    let query = Query::histogram(3, [0, 1, 1].into_iter());
    let made = release(&query, permit(0.5), &mut NoisePool::new()).unwrap().stored();
    let lattice = LatticeVector::decode(&made.bytes()).unwrap();
    assert_eq!(&lattice, made.lattice());
    assert_eq!(lattice.step(), made.receipt().sigma / SCALE as f64);
    for (value, &integer) in lattice.values().iter().zip(lattice.integers()) {
        assert_eq!((value / lattice.step()).round() as i64, integer);
    }
    for bytes in [&[][..], &[0; 7], &[0; 8], &[0; 12], &f64::NAN.to_le_bytes(), &(-1.0f64).to_le_bytes()] {
        assert!(LatticeVector::decode(bytes).is_err());
    }
    let mut huge = f64::MAX.to_le_bytes().to_vec();
    huge.extend_from_slice(&i64::MIN.to_le_bytes());
    assert!(LatticeVector::decode(&huge).unwrap().values()[0].is_finite());
    assert_eq!(lattice.require(4, lattice.step()), Err(LatticeError::Entries { expected: 4, got: 3 }));
    assert!(lattice.require(3, lattice.step() * 2.0).is_err());
}

fn exact(values: Vec<i128>, exponent: i32) -> Query {
    Query { formula: "", sensitivity: 1.0, payload: Payload::Exact { values, exponent } }
}

#[test]
fn values_are_cut_at_a_public_number_of_steps_exactly_and_nothing_they_are_ends_a_release() {
    let top = i128::from(LARGEST_STEPS);
    let on = |value: i128| exact(vec![value], 0).on_lattice(1.0).unwrap()[0];
    for value in [top - 1, top, top + 1, top * 2, i128::MAX] {
        assert_eq!(on(value), value.min(top) as i64);
        assert_eq!(on(-value), -value.min(top) as i64);
    }
    assert_eq!(on(i128::MIN), -LARGEST_STEPS);
    assert_eq!(on(0), 0);
    // Whatever the value, there is a release, and it is nowhere near where one row could have moved it from.
    for (values, exponent) in [
        (vec![0, 1, -1, top, -top, i128::MAX, i128::MIN], 0),
        (vec![1 << 60, i128::MIN], 900),
        (vec![i128::MAX, i128::MIN], -1000),
    ] {
        let made = release(&exact(values.clone(), exponent), permit(1.0), &mut NoisePool::seeded(1)).unwrap().stored();
        assert_eq!(made.lattice().integers().len(), values.len());
        for (value, integer) in values.iter().zip(made.lattice().integers()) {
            let beyond = exponent > 0 || (exponent == 0 && value.unsigned_abs() >= 1 << 26);
            assert!(!beyond || (*value > 0) == (*integer > 0), "{value} 2^{exponent} became {integer}");
            assert!(integer.unsigned_abs() < (1 << 62) + (1 << 45), "{integer}");
        }
    }
    // At the threshold of a release: the last value that is not cut, and the first that is.
    let step = noise_scale(1.0, 1, 1.0).unwrap().0 * STEP_PER_SIGMA;
    let limit = LARGEST_STEPS as f64 * step;
    for (value, cut) in [(limit * 0.999, false), (limit * 1.001, true), (f64::MAX.sqrt(), true)] {
        let query = exact(vec![(value * 2f64.powi(40)) as i128], -40);
        assert_eq!(query.on_lattice(step).unwrap()[0] == LARGEST_STEPS, cut, "{value}");
        assert!(release(&query, permit(1.0), &mut NoisePool::new()).is_ok());
    }
}

#[test]
fn messages_of_any_value_are_released_and_stay_within_their_cut() {
    let values = vec![0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN, 5e-324, 0.3, -0.3];
    for (bound, mu) in [(0.3, 1.0), (0.3, 1e-5), (1e-250, 1.0), (1e250, 1.0), (0.3, 1e5)] {
        let query = Query {
            formula: "",
            sensitivity: 2.0 * bound,
            payload: Payload::PerRow { values: values.clone(), bound, shift: 1.0 },
        };
        let (sigma, _) = noise_scale(2.0 * bound, 0, mu).unwrap();
        let steps = query.on_lattice(sigma * STEP_PER_SIGMA).unwrap();
        assert_eq!(&steps[..3], [0, 0, 0], "zeros and what is no number");
        assert_eq!((steps[3], steps[4]), (steps[5], steps[6]), "infinite is as far as the largest number");
        assert!(steps.iter().all(|k| *k as f64 * (sigma * STEP_PER_SIGMA) <= bound && *k >= -steps[3]));
        let made = release(&query, permit(mu), &mut NoisePool::seeded(4)).unwrap().stored();
        assert!(made.lattice().values().iter().all(|value| value.is_finite()), "bound {bound} mu {mu}");
    }
}

#[test]
fn cutting_brings_no_two_values_farther_apart() {
    let mut random = ChaCha8Rng::seed_from_u64(21);
    let top = i128::from(LARGEST_STEPS);
    for _ in 0..20_000 {
        let mut near = || match random.random_range(0..3) {
            0 => top - random.random_range(-1000..1000),
            1 => -top - random.random_range(-1000..1000),
            _ => i128::from(random.random::<i64>()) << random.random_range(0..60),
        };
        let (first, second) = (near(), near());
        let on = |value: i128| i128::from(exact(vec![value], 0).on_lattice(1.0).unwrap()[0]);
        assert!((on(first) - on(second)).abs() <= first.abs_diff(second).min(i128::MAX as u128) as i128);
    }
}

#[test]
fn the_intercept_is_added_after_the_cut_and_the_noise() {
    let column = ("x".to_owned(), ColumnBounds::Centred { centre: 0.0, scale: 1.0 });
    let bounds = RowBounds::new(vec![column], Some(1.0), Some(0.5)).unwrap();
    let rows = ClippedRows::new(&bounds, &DMatrix::from_column_slice(2, 1, &[0.2, 5.0]));
    let query = |intercept: f64| Query::message(&rows, &DVector::from_vec(vec![intercept, 1.0]), 0.1);
    let sent = |intercept: f64| {
        release(&query(intercept), permit(1.0), &mut NoisePool::seeded(3)).unwrap().stored().lattice().values()
    };
    for (with, without) in sent(0.8).iter().zip(sent(0.0)) {
        assert!((with - without - 0.4).abs() < 1e-9);
    }
    assert_eq!(query(0.8).on_lattice(1e-9), query(0.0).on_lattice(1e-9));
}

/// One-sided Clopper-Pearson limits at 1e-4 of an error rate.
fn limits(errors: u32, runs: u32) -> (f64, f64) {
    let (errors, runs) = (f64::from(errors), f64::from(runs));
    let low = if errors == 0.0 { 0.0 } else { Beta::new(errors, runs - errors + 1.0).unwrap().inverse_cdf(1e-4) };
    let high =
        if errors == runs { 1.0 } else { Beta::new(errors + 1.0, runs - errors).unwrap().inverse_cdf(1.0 - 1e-4) };
    (low, high)
}

/// Audits a mechanism by the event "log-likelihood ratio above zero": lower and upper limit of mu.
/// False alarm of each limit: 2e-4.
pub(super) fn audit(runs: u32, mut ratio: impl FnMut(bool) -> f64) -> (f64, f64) {
    let false_positives = (0..runs).filter(|_| ratio(false) > 0.0).count() as u32;
    let false_negatives = (0..runs).filter(|_| ratio(true) <= 0.0).count() as u32;
    let normal = Normal::new(0.0, 1.0).unwrap();
    let ((fp_low, fp_high), (fn_low, fn_high)) = (limits(false_positives, runs), limits(false_negatives, runs));
    let low = normal.inverse_cdf(1.0 - fp_high) - normal.inverse_cdf(fn_high);
    let high = normal.inverse_cdf(1.0 - fp_low) - normal.inverse_cdf(fn_low);
    (low, high)
}

/// Exact log-likelihood ratio of one release: second neighbour against first.
pub(super) fn log_ratio(made: &LatticeVector, first: &Query, second: &Query) -> f64 {
    let on = |query: &Query| query.on_lattice(made.step()).unwrap();
    made.integers()
        .iter()
        .zip(on(first).into_iter().zip(on(second)))
        .map(|(&k, (a, b))| ((b - a) as f64) * ((k - a) as f64 + (k - b) as f64) / 2.0 / (SCALE as f64).powi(2))
        .sum()
}

/// Whether the audit finds the mechanism sound: not above mu, and not far below what this pair reveals.
pub(super) fn sound(low: f64, high: f64, mu_pair: f64, mu: f64) -> bool {
    low <= mu && high >= mu_pair && low >= 0.8 * mu_pair
}

/// Sums of gradients of neighbours whose replaced record is clipped to one side and to the other.
fn gradient_sums() -> (Query, Query) {
    let stated = em::Stated {
        model: em::Model::MixedRegressions,
        columns: 2,
        sigma: 1.0,
        tau: 5.0,
        rounds: 1,
        estimator: em::Estimator::Clip { bound: 1.5 },
        update: em::Update::Gradient { step: 1.0 },
        averaged: 1,
    };
    let settings = em::Settings::try_from(stated).unwrap();
    let sum = |x: f64, y: f64| {
        let x = DMatrix::from_row_slice(2, 2, &[0.3, 0.4, x, 0.0]);
        let records = em::Records::regressions(&x, &[0.5, y]).unwrap();
        Query::bounded(&settings.bounded_sum(&records, &[1.0, 0.0]).unwrap().unwrap())
    };
    (sum(1.0, 100.0), sum(100.0, 0.0))
}

/// Statistics of neighbours whose replaced rows have the cosine 1/2 and outcomes of opposite signs.
fn feature_statistics() -> (Query, Query) {
    let map =
        (0..).map(|seed| FeatureMap::new(seed, 1, 2, 4.0).unwrap()).find(|map| map.frequencies()[(0, 0)].abs() > 1.1);
    let map = map.unwrap();
    let apart = std::f64::consts::FRAC_PI_3 / map.frequencies()[(0, 0)].abs();
    let of = |x: f64, y: f64| {
        let x = DMatrix::from_column_slice(2, 1, &[0.7, x]);
        Query::bounded(&Statistics::of(&map, &x, &[0.3, y]).unwrap())
    };
    (of(0.0, 1.0), of(apart, -1.0))
}

/// A record far above the function, and one far below.
pub(super) fn stream_messages() -> (Query, Query) {
    let basis = stream::Basis::Features(FeatureMap::new(3, 1, 4, 2.0).unwrap());
    let stated =
        stream::Stated { basis, loss: stream::Loss::Huber { tau: 0.5 }, step: stream::Step::Constant { length: 0.1 } };
    let settings = stream::Settings::try_from(stated).unwrap();
    let of = |y: f64| Query::bounded(&settings.message(&[0.0; 4], Some((&[0.4], y))).unwrap());
    (of(9.0), of(-9.0))
}

/// Two records of one person, each with its share of the person's budget.
fn audit_records(runs: u32, mu: f64, pretended: u32) -> (f64, f64) {
    let (first, second) = stream_messages();
    let mut pool = NoisePool::new();
    let charged = release(&first, permit(mu), &mut pool).unwrap().stored();
    let mut right = PerRecord::new(&charged, Spending::Even { records: pretended });
    let share = mu / f64::from(pretended).sqrt() * (1.0 - 1e-12);
    let (sigma, _) = scale_for(first.sensitivity(), first.slack(), share).unwrap();
    let values = |query: &Query| -> Vec<f64> {
        let step = sigma * STEP_PER_SIGMA;
        query.on_lattice(step).unwrap().into_iter().map(|k| k as f64 * step).collect()
    };
    let (a, b) = (values(&first), values(&second));
    audit(runs, |swapped| {
        let mut sent = NoisedRecords::default();
        for place in [1, 2] {
            right.add(place, if swapped { &second } else { &first }, &mut pool, &mut sent).unwrap();
        }
        assert_eq!(sent.records(), 2);
        let places = sent.values().iter().zip(a.iter().zip(&b).cycle());
        places.map(|(v, (a, b))| (b - a) * ((v - a) + (v - b)) / 2.0 / (sigma * sigma)).sum()
    })
}

#[test]
fn a_record_of_a_stream_that_cannot_be_used_sends_the_bytes_of_no_record_whatever_weights_are_published() {
    let text = "id = \"s\"\nprotocol = \"stream\"\nmode = \"private\"\n[workers.w]\ncertificate = \"w\"\n[model]\nfeatures = [\"a\"]\n\
                [outcome]\ncolumn = \"y\"\n[columns.a]\nrange = [0, 1]\n[columns.y]\nrange = [-1, 1]\n[stream]\ngrid = 8\n[privacy]\n\
                epsilon = 1.0\ndelta = 1e-6";
    let study = Study::parse(text).unwrap().sites().unwrap();
    let SiteMethod::Stream(stream) = &study.method.method else { panic!("{study:?}") };
    let maker = Maker::new(stream);
    let charged = release(&maker.opening().unwrap(), permit(0.5), &mut NoisePool::seeded(1)).unwrap().stored();
    // The noise is the same every time, so that equal bytes mean equal messages.
    let sent = |weights: f64, record: Option<(f64, f64)>| -> Vec<u64> {
        let (mut right, mut pool) = (PerRecord::new(&charged, Spending::Even { records: 1 }), NoisePool::seeded(2));
        let record = record.map(|(x, y)| maker.scaled([x].into_iter(), y));
        let records = [Some((vec![0.2], 0.3)), record, Some((vec![0.9], -0.4))];
        let noised = maker.noised(vec![weights; 8], (5, 5), &records, &mut right, &mut pool).unwrap();
        assert_eq!((noised.records(), noised.values().len()), (3, 24));
        noised.values().iter().map(|value| value.to_bits()).collect()
    };
    for weights in [0.0, 1.5, -1e308, f64::INFINITY, f64::NAN] {
        let nothing = sent(weights, None);
        for (x, y) in [(f64::NAN, 0.1), (0.1, f64::NAN), (0.1, f64::INFINITY), (f64::NAN, f64::NEG_INFINITY)] {
            assert_eq!(sent(weights, Some((x, y))), nothing, "{weights} {x} {y}");
        }
    }
    assert_ne!(sent(0.0, Some((0.5, 0.5))), sent(0.0, None));
}

#[test]
fn the_records_of_one_person_together_cost_what_was_charged() {
    let mu = gaussian_mu(10.0, 1e-5);
    let (low, high) = audit_records(8_000, mu, 2);
    assert!(sound(low, high, 0.99 * mu, mu), "{low} {high} {mu}");
    // Noised as the only record of its person, each costs the whole, and two cost more than was charged.
    let (low, high) = audit_records(8_000, mu, 1);
    assert!(!sound(low, high, 0.99 * mu, mu), "{low} {high} {mu}");
}

fn audit_queries(runs: u32, epsilons: &[f64]) {
    let rows = |entries: &[f64]| ClippedRows::new(&bounds(2), &DMatrix::from_row_slice(2, 2, entries));
    let (one, opposite, turned) =
        (rows(&[0.3, 0.4, 1.0, 0.0]), rows(&[0.3, 0.4, -1.0, 0.0]), rows(&[0.3, 0.4, 0.0, 1.0]));
    let residuals = ClippedResiduals::clip(&[0.1, 0.7], 0.7);
    let beta = DVector::from_vec(vec![2.0, 0.0]);
    let pairs = [
        ("X'X", Query::gram(&one).unwrap(), Query::gram(&turned).unwrap()),
        ("X'r", Query::score(&one, &residuals), Query::score(&opposite, &residuals)),
        ("message", Query::message(&one, &beta, 0.3), Query::message(&opposite, &beta, 0.3)),
        ("histogram", Query::histogram(3, [0, 1].into_iter()), Query::histogram(3, [0, 2].into_iter())),
    ];
    let named = |name, (first, second): (Query, Query)| (name, first, second);
    let methods = [
        named("sum of gradients", gradient_sums()),
        named("features", feature_statistics()),
        named("record of a stream", stream_messages()),
    ];
    let pairs: Vec<_> = pairs.into_iter().chain(methods).collect();
    let mut pool = NoisePool::new();
    for &epsilon in epsilons {
        let mu = gaussian_mu(epsilon, 1e-5);
        for (name, first, second) in &pairs {
            let (sigma, _) = scale_for(first.sensitivity(), first.slack(), mu).unwrap();
            let mu_pair = distance(first, second, sigma * STEP_PER_SIGMA) / sigma;
            assert!(mu_pair <= mu && mu_pair > 0.99 * mu, "{name}: the pair is nearly the worst");
            for weaken in [1.0, std::f64::consts::SQRT_2] {
                let ratio = |swapped: bool| {
                    let query = if swapped { second } else { first };
                    let made = release(query, permit(mu * weaken), &mut pool).unwrap().stored();
                    log_ratio(made.lattice(), first, second)
                };
                let (low, high) = audit(runs, ratio);
                println!(
                    "epsilon {epsilon} {name}, sigma / {weaken:.3}: mu between {low:.4} and {high:.4}, claimed {mu:.4}"
                );
                let passes = sound(low, high, mu_pair, mu);
                assert_eq!(passes, weaken == 1.0, "{name} at epsilon {epsilon}: {low} {high} {mu_pair} {mu}");
            }
        }
    }
}

/// The whole transcript of Alice against a malicious Bob whose replies saturate her residual: the pair of opposite rows
/// pays the whole charge, which the free table does not exceed.
fn audit_exchange(runs: u32, epsilons: &[f64], weaken: f64) -> Vec<bool> {
    let mut pool = NoisePool::new();
    let outcome = ClippedOutcome::new(&OutcomeBounds::new(-1.0, 1.0).unwrap(), &[1.0]);
    let rows = |sign: f64| ClippedRows::new(&bounds(1), &DMatrix::from_element(1, 1, sign));
    epsilons
        .iter()
        .map(|&epsilon| {
            let mu = gaussian_mu(epsilon, 1e-5);
            let budget = (mu * weaken).powi(2);
            let setup = Setup {
                rows: 1,
                alice_width: 1,
                bob_width: 1,
                rounds: 1,
                message_bound: 1e-3,
                ridge: 0.0,
                shares: Shares::default(),
                alice_budget: budget,
                bob_budget: budget,
            };
            let plan = Plan::new(setup).unwrap();
            let mut reply = (plan.side(Side::Bob).message_sigma / SCALE as f64).to_le_bytes().to_vec();
            reply.extend_from_slice(&i64::MIN.to_le_bytes());
            let reply = LatticeVector::decode(&reply).unwrap();
            let mut ratio = |swapped: bool| {
                let start = |sign: f64| Exchange::new(plan.clone(), Side::Alice, rows(sign), outcome.clone()).unwrap();
                let (mut first, mut second) = (start(1.0), start(-1.0));
                let mut total = 0.0;
                loop {
                    match (first.need().unwrap(), second.need().unwrap()) {
                        (Need::Release { index, query: a, .. }, Need::Release { query: b, .. }) => {
                            let planned = plan.side(Side::Alice).releases.releases()[index as usize].clone();
                            let permit = Permit::unreserved("run", index, planned);
                            let made = release(if swapped { &b } else { &a }, permit, &mut pool).unwrap().stored();
                            total += log_ratio(made.lattice(), &a, &b);
                            first.supply(&made).unwrap();
                            second.supply(&made).unwrap();
                        }
                        (Need::Message { .. }, Need::Message { .. }) => {
                            first.receive(&reply).unwrap();
                            second.receive(&reply).unwrap();
                        }
                        _ => return total,
                    }
                }
            };
            let (low, high) = audit(runs, &mut ratio);
            println!("epsilon {epsilon} whole exchange: mu between {low:.4} and {high:.4}, claimed {mu:.4}");
            // The pair's own mu is the claimed one up to the messages that a small coefficient does not saturate.
            sound(low, high, 0.97 * mu, mu)
        })
        .collect()
}

/// A worker's whole transcript against everybody else, with neighbours of one column among rows of zeros.
#[derive(Clone, Copy, Debug)]
enum Transcript {
    /// Opposite unit rows whose residual is cut, in every round, to exactly the cut: nearly all rows have residual zero, so
    /// that the cut is the smallest that there is. Table, histograms and lengths are the same for both, and every vector
    /// differs by its whole sensitivity.
    Vectors,
    /// Rows of zeros whose outcomes lie in different cells and within every cut: every histogram of residuals differs by its whole
    /// sensitivity, and nothing else does.
    Histograms,
}

/// Whether the audit finds a worker's whole transcript sound.
fn audit_worker(what: Transcript, runs: u32, epsilon: f64, weaken: f64) -> bool {
    use crate::methods::robust::plan::{Fit, Influence, Need, Plan, Setup, Shares};
    let mu = gaussian_mu(epsilon, 1e-5);
    // Half of the rows are seven standard deviations of a histogram's noise.
    let rows = (14.0 * std::f64::consts::SQRT_2 / (mu * (0.12f64 / 2.0).sqrt())).ceil() as usize;
    let defaults = Setup::new(rows, 1, (mu * weaken).powi(2));
    let shares = match what {
        Transcript::Vectors => defaults.shares,
        Transcript::Histograms => Shares { table: 0.02, histogram: 0.94, score: 0.02, lengths: 0.02 },
    };
    let influence = match what {
        Transcript::Vectors => Influence::Huber,
        Transcript::Histograms => Influence::Reject,
    };
    // Coefficients that hardly move leave residuals where they are.
    let setup = Setup { rounds: 2, coefficient_bound: 1e-6, first_cut: 1e-9, influence, shares, ..defaults };
    let plan = Plan::new(setup).unwrap();
    assert_eq!(plan.rounds(), 2);
    let prefix = match what {
        Transcript::Vectors => "X'psi(r)",
        Transcript::Histograms => "histogram of |r|",
    };
    let squares = |label: &str| -> f64 {
        let named = plan.releases().releases().iter().filter(|release| release.label.starts_with(label));
        named.map(|release| release.mu * release.mu).sum()
    };
    let mu_pair = (squares(prefix)).sqrt() / weaken;
    let data = |x: f64, y: f64| {
        let mut column = DMatrix::zeros(rows, 1);
        let mut outcome = vec![0.0; rows];
        (column[(0, 0)], outcome[0]) = (x, y);
        let range = OutcomeBounds::new(-1.0, 1.0).unwrap();
        (ClippedRows::new(&bounds(1), &column), ClippedOutcome::new(&range, &outcome))
    };
    let [first, second] = match what {
        Transcript::Vectors => [data(1.0, 0.9), data(-1.0, 0.9)],
        Transcript::Histograms => [data(0.0, 0.0), data(0.0, 1.7e-4)],
    };
    let mut pool = NoisePool::new();
    let (low, high) = audit(runs, |swapped| {
        let start = |(rows, outcome): &(ClippedRows, ClippedOutcome)| {
            Fit::new(plan.clone(), rows.clone(), outcome.clone()).unwrap()
        };
        let (mut first, mut second) = (start(&first), start(&second));
        let mut total = 0.0;
        while let (Need::Release { index, query: a }, Need::Release { query: b, .. }) =
            (first.need().unwrap(), second.need().unwrap())
        {
            let planned = plan.releases().releases()[index as usize].clone();
            let permit = Permit::unreserved("run", index, planned);
            let made = release(if swapped { &b } else { &a }, permit, &mut pool).unwrap().stored();
            total += log_ratio(made.lattice(), &a, &b);
            first.supply(&made, index).unwrap();
            second.supply(&made, index).unwrap();
        }
        total
    });
    println!(
        "epsilon {epsilon} whole fit of a worker, {what:?}, sigma / {weaken:.3}: mu between {low:.4} and {high:.4}, of this pair \
         {mu_pair:.4}, claimed {mu:.4}"
    );
    sound(low, high, 0.99 * mu_pair, mu)
}

fn audit_workers(runs: u32, epsilons: &[f64]) {
    use rayon::prelude::*;
    let every = |&epsilon: &f64| {
        let pairs = [Transcript::Vectors, Transcript::Histograms];
        pairs.into_iter().flat_map(move |what| [1.0, std::f64::consts::SQRT_2].map(|weaken| (what, epsilon, weaken)))
    };
    let cases: Vec<(Transcript, f64, f64)> = epsilons.iter().flat_map(every).collect();
    cases.into_par_iter().for_each(|(what, epsilon, weaken)| {
        assert_eq!(audit_worker(what, runs, epsilon, weaken), weaken == 1.0, "{what:?} epsilon {epsilon}");
    });
}

#[test]
fn an_audit_finds_every_mechanism_sound_and_sees_noise_that_is_too_small() {
    audit_queries(10_000, &[10.0]);
    assert_eq!(audit_exchange(8_000, &[10.0], 1.0), [true]);
    assert_eq!(audit_exchange(8_000, &[10.0], std::f64::consts::SQRT_2), [false]);
}

#[test]
fn an_audit_finds_the_whole_fit_of_a_worker_sound_and_sees_noise_that_is_too_small() {
    audit_workers(4_000, &[10.0]);
}

#[test]
#[ignore = "100 000 runs a side"]
fn an_audit_in_full() {
    audit_queries(100_000, &[1.0, 3.0, 10.0]);
    assert_eq!(audit_exchange(100_000, &[1.0, 3.0, 10.0], 1.0), [true; 3]);
    assert_eq!(audit_exchange(100_000, &[1.0, 3.0, 10.0], std::f64::consts::SQRT_2), [false; 3]);
    audit_workers(100_000, &[1.0, 3.0, 10.0]);
}

#[test]
fn parts_of_the_rows_cost_as_much_as_the_dearest_of_them() {
    let part =
        |mus: &[f64]| ReleasePlan::new(mus.iter().map(|&mu| PlannedRelease { label: "X'X".to_owned(), mu }).collect());
    let (small, large) = (part(&[0.1, 0.2]), part(&[0.3]));
    let both = ReleasePlan::of_parts(&[small.clone(), large.clone(), small.clone()]);
    assert_eq!(both.charge().to_bits(), large.charge().to_bits());
    let labels: Vec<&str> = both.releases().iter().map(|release| release.label.as_str()).collect();
    assert_eq!(labels, ["part 1: X'X", "part 1: X'X", "part 2: X'X", "part 3: X'X", "part 3: X'X"]);
    assert_eq!(both.releases()[2].mu, 0.3);
    assert_eq!(ReleasePlan::of_parts(std::slice::from_ref(&small)), small);
}
