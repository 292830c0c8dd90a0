//! Properties of consolidation, and the lies it must withstand.

use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
use rand::Rng;
use rand::seq::SliceRandom;

use super::super::distance::reach;
use super::*;
use crate::research::batches::{Design, mixed_shares, unit_direction};

const METHODS: [&str; 7] = ["pivot", "refine", "geomed", "trimmed", "cmedian", "filter", "mean"];

fn of(estimates: &[Estimate], name: &str) -> Consensus {
    consolidate(&set_of(estimates), &name.parse::<Method>().unwrap().into()).unwrap()
}

/// Honest estimates of one truth with the noise of 1800 kept rows, without fitting a single row.
fn honest(seed: u64, m: usize, q: usize) -> (DVector<f64>, Vec<Estimate>) {
    let mut rng = rng(seed);
    let beta = unit_coefficients(&mut rng, q);
    let all = (0..m)
        .map(|i| {
            let root = DMatrix::from_fn(q, q, |a, b| {
                let small: f64 = rng.sample(rand_distr::StandardNormal);
                if a == b { 42.4 + small } else { small }
            });
            let gram = &root * root.transpose();
            let noise = DVector::from_fn(q, |_, _| rng.sample::<f64, _>(rand_distr::StandardNormal));
            let off = root.transpose().try_inverse().unwrap() * noise * 0.316 * 1.05;
            Estimate {
                worker: format!("worker {i:03}"),
                batch: 0,
                coefficients: (&beta + off).iter().copied().collect(),
                gram: Some(Gram::from_matrix(&gram)),
                nobs: 2000,
                kept: 1800,
                scale: 0.316,
                cleaned: true,
            }
        })
        .collect();
    (beta, all)
}

fn lie(estimates: &mut [Estimate], to: impl FnMut(usize) -> DVector<f64>) {
    let mut to = to;
    for (i, e) in estimates.iter_mut().enumerate() {
        e.coefficients = to(i).iter().copied().collect();
    }
}

fn off(found: &Consensus, beta: &DVector<f64>) -> f64 {
    (&found.coefficients - beta).norm()
}

#[test]
fn the_self_distance_is_counted_and_the_dominating_set_is_a_bare_majority() {
    // Four on a line at 0, 1, 3, 6: a majority is three, itself and two neighbours. Radii are 3, 2, 3, 5.
    let line: Vec<Estimate> =
        [0.0, 1.0, 3.0, 6.0].iter().enumerate().map(|(i, v)| bare(&format!("{i}"), 0, &[*v])).collect();
    let found = of(&line, "pivot");
    assert_eq!((found.majority, found.pivot, found.withstands()), (3, 1, 1));
    assert_eq!(found.radius, 2.0);
    assert_eq!(found.trusted(), 3);
    assert!((found.coefficients[0] - 4.0 / 3.0).abs() < 1e-14);
    for m in 1..12 {
        let (_, all) = honest(1, m, 3);
        let found = of(&all, "pivot");
        assert_eq!(found.majority, m / 2 + 1);
        assert_eq!(found.trusted(), m / 2 + 1, "{m} estimates");
        assert!(found.members[found.pivot].trusted);
    }
}

#[test]
fn distances_by_blocks_agree_with_direct_ones() {
    let mut rng = rng(2);
    let points = DMatrix::from_fn(
        5,
        700,
        |_, j| if j % 9 == 0 { 1e6 } else { 1.0 } * rng.sample::<f64, _>(rand_distr::StandardNormal),
    );
    let by_blocks = reach(&points, |row| *row.select_nth_unstable_by(350, f64::total_cmp).1);
    for (i, found) in by_blocks.iter().enumerate() {
        let mut direct: Vec<f64> = points.column_iter().map(|c| (c - points.column(i)).norm()).collect();
        direct.sort_by(f64::total_cmp);
        assert!((found - direct[350]).abs() <= 1e-6 * direct[350].max(1.0), "{i}: {found} should be {}", direct[350]);
    }
}

#[test]
fn a_minority_of_liars_at_any_distance_moves_nothing() {
    for (m, liars) in [(7, 3), (20, 9), (5, 2), (3, 1)] {
        for away in [3.0 * 0.033, 0.5, 10.0, 1e6, 1e90] {
            let (beta, mut all) = honest(3, m, 20);
            let told = mean_of(&all[liars..]);
            let mut rng = rng(4);
            let to = &beta + unit_direction(&mut rng, 20) * away;
            lie(&mut all[..liars], |_| &to + unit_direction(&mut rng, 20) * 1e-6);
            for name in ["pivot", "refine"] {
                let found = of(&all, name);
                assert!(
                    off(&found, &beta) <= 1.3 * (&told - &beta).norm() + 0.004,
                    "{name} of {m} at {away}: {}",
                    off(&found, &beta)
                );
                assert!(found.members[..liars].iter().all(|m| !m.trusted), "{name} of {m} at {away}");
                assert!(found.members.iter().all(|m| m.distance.is_finite()));
                assert_eq!(found.verdict, Verdict::MajorityAgrees, "{name} of {m} at {away}");
            }
            for name in ["geomed", "cmedian", "filter"] {
                assert!(off(&of(&all, name), &beta) < 0.2, "{name} of {m} at {away}");
            }
        }
    }
}

fn mean_of(all: &[Estimate]) -> DVector<f64> {
    all.iter().fold(DVector::zeros(all[0].coefficients.len()), |s, e| s + DVector::from_row_slice(&e.coefficients))
        / all.len() as f64
}

#[test]
fn half_or_more_that_disagree_are_reported_as_outside_the_guarantee() {
    for seed in 0..5 {
        for (m, liars, scattered) in
            [(20, 10, false), (20, 14, true), (6, 3, false), (4, 2, false), (2, 1, false), (3, 2, true)]
        {
            let (beta, mut all) = honest(10 + seed, m, 20);
            let mut rng = rng(seed);
            let to = &beta + unit_direction(&mut rng, 20) * 10.0;
            lie(&mut all[..liars], |_| {
                if scattered {
                    &beta + unit_direction(&mut rng, 20) * 5.0
                } else {
                    &to + unit_direction(&mut rng, 20) * 0.03
                }
            });
            for name in METHODS {
                let found = of(&all, name);
                assert_eq!(
                    found.verdict,
                    Verdict::NoMajority,
                    "{name}: {liars} of {m}, scattered {scattered}, seed {seed}"
                );
                assert!(found.trusted() < found.majority, "{name}: {liars} of {m}");
            }
        }
    }
}

/// Length of the error of one honest estimate, the unit in which liars keep their distance.
fn typical_error(q: usize) -> f64 {
    0.316 * 1.05 / 42.4 * (q as f64).sqrt()
}

#[test]
fn liars_of_every_kind_are_outvoted_below_half_and_make_no_majority_at_half() {
    // Distances in errors of an honest estimate; how many coefficients it takes to tell liars that close from noise.
    let close_copies = |k: f64| move |_: &mut ChaCha8Rng, u: &DVector<f64>| u * k;
    let scattered = |k: f64| move |rng: &mut ChaCha8Rng, u: &DVector<f64>| unit_direction(rng, u.len()) * k;
    let noised = |k: f64| {
        move |rng: &mut ChaCha8Rng, u: &DVector<f64>| {
            u * k
                + DVector::from_fn(u.len(), |_, _| rng.sample::<f64, _>(rand_distr::StandardNormal))
                    / (u.len() as f64).sqrt()
        }
    };
    type Lie<'a> = &'a dyn Fn(&mut ChaCha8Rng, &DVector<f64>) -> DVector<f64>;
    let kinds: [(&str, usize, Lie<'_>); 8] = [
        ("far copies", 5, &close_copies(300.0)),
        ("far colluders", 5, &noised(300.0)),
        ("far garbage", 5, &scattered(300.0)),
        ("near garbage", 5, &scattered(30.0)),
        ("colluders ten errors away", 5, &noised(10.0)),
        ("colluders three errors away", 20, &noised(3.0)),
        ("copies three errors away", 20, &close_copies(3.0)),
        ("colluders one and a half errors away", 100, &noised(1.5)),
    ];
    for (kind, least, lie_of) in kinds {
        for q in [5, 20, 100] {
            for m in [16, 20, 40] {
                if q < least || (q == 100 && m == 40) {
                    continue;
                }
                let seed = (q * m) as u64;
                let (beta, honest) = honest(seed, m, q);
                let mut rng = rng(seed + 1);
                let u = unit_direction(&mut rng, q);
                let told = |liars: usize, rng: &mut ChaCha8Rng| {
                    let mut all = honest.clone();
                    lie(&mut all[..liars], |_| &beta + lie_of(rng, &u) * typical_error(q));
                    ["pivot", "refine"].map(|name| of(&all, name))
                };
                for found in told(m / 2, &mut rng) {
                    let trusted = found.trusted();
                    assert_eq!(found.verdict, Verdict::NoMajority, "{kind}: {} of {m} with {q} numbers", m / 2);
                    assert!(trusted < found.majority, "{kind}: {trusted} trusted of {m}");
                }
                for found in told(m / 2 - 1, &mut rng) {
                    assert_eq!(found.verdict, Verdict::MajorityAgrees, "{kind}: {} of {m} with {q}", m / 2 - 1);
                    let error = off(&found, &beta) / typical_error(q) * (m as f64 / 2.0).sqrt();
                    assert!(error < 2.5, "{kind}: {error} with {} of {m} and {q} numbers", m / 2 - 1);
                }
            }
        }
    }
}

#[test]
fn columns_far_from_zero_that_hardly_vary_do_not_break_the_majority() {
    // As a density of wine does: 0.9967 with a standard deviation of 0.002, nearly a sum of others.
    for seed in 0..5 {
        let mut rng = rng(650 + seed);
        let mut normal = || rng.sample::<f64, _>(rand_distr::StandardNormal);
        let estimates: Vec<Estimate> = (0..12)
            .map(|site| {
                let mut x = DMatrix::from_fn(150, 6, |_, _| normal());
                for mut row in x.row_iter_mut() {
                    row[0] = 0.9967 + 0.002 * (0.6 * row[1] - 0.6 * row[2] + 0.5 * row[0]);
                    row[3] = 3.3 + 0.15 * row[3];
                    row[4] = 1e4 + 40.0 * row[4];
                }
                let y = DVector::from_fn(150, |i, _| {
                    5.6 - 30.0 * (x[(i, 0)] - 0.9967) + 0.3 * x[(i, 1)] + 0.01 * (x[(i, 4)] - 1e4) + 0.6 * normal()
                });
                let found = fit(&x, &y, &FitSettings { start: Start::Ols, ..FitSettings::default() }).unwrap();
                Estimate::from_fit(format!("site {site:02}"), 0, &found)
            })
            .collect();
        let found = of(&estimates, "refine");
        assert_eq!(found.verdict, Verdict::MajorityAgrees, "seed {seed}");
        assert!(found.trusted() >= 11, "seed {seed}: {}", found.trusted());
        // Root mean square differences of predictions: noise explains 0.6 sqrt(7 / 150) = 0.13.
        assert!(found.members.iter().all(|m| m.distance < 0.3), "{:?}", found.members);
    }
}

#[test]
fn claims_of_half_cannot_buy_a_majority() {
    for (m, q) in [(4, 5), (6, 5), (16, 5), (20, 20)] {
        let (beta, all) = honest(30 + m as u64, m, q);
        for boast in [1e-6, 1e6] {
            let mut lying = all.clone();
            let mut rng = rng(m as u64);
            let to = &beta + unit_direction(&mut rng, q) * (100.0 * typical_error(q));
            lie(&mut lying[..m / 2], |_| &to + unit_direction(&mut rng, q) * typical_error(q));
            lying[..m / 2].iter_mut().for_each(|e| e.scale *= boast);
            assert_eq!(of(&lying, "refine").verdict, Verdict::NoMajority, "{m} of {q} numbers, scale times {boast}");
        }
    }
}

#[test]
fn sites_that_differ_like_one_population_are_a_majority_however_little_noise_they_claim() {
    let mut accused = 0;
    let mut asked = 0;
    for seed in 0..30 {
        for (m, q, columns) in [(8, 20, 20), (16, 5, 5), (20, 20, 20), (20, 20, 1), (40, 5, 1), (40, 10, 3)] {
            let (_, mut all) = honest(400 + seed, m, q);
            let mut rng = rng(seed);
            for e in &mut all {
                for b in e.coefficients.iter_mut().take(columns) {
                    *b += 0.1 * rng.sample::<f64, _>(rand_distr::StandardNormal);
                }
            }
            asked += 1;
            accused += usize::from(of(&all, "refine").verdict != Verdict::MajorityAgrees);
        }
    }
    // Differences in one column of many can look like groups; they must do so rarely.
    assert!(accused <= asked / 50, "{accused} of {asked}");
}

#[test]
fn from_one_estimate_to_thirteen_the_verdict_is_right_on_both_sides_of_half() {
    for q in [1, 2, 5, 20] {
        for m in 1..=13 {
            for seed in 0..4 {
                let (beta, all) = honest(500 + seed, m, q);
                let mut rng = rng(seed);
                let to = &beta + unit_direction(&mut rng, q) * (200.0 * typical_error(q));
                for liars in 0..=m / 2 {
                    let mut all = all.clone();
                    lie(&mut all[..liars], |_| &to + unit_direction(&mut rng, q) * (0.5 * typical_error(q)));
                    let expected = if 2 * liars < m { Verdict::MajorityAgrees } else { Verdict::NoMajority };
                    for name in ["pivot", "refine"] {
                        let found = of(&all, name);
                        assert_eq!(found.verdict, expected, "{name}: {liars} of {m} with {q} numbers, seed {seed}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_column_in_another_unit_at_a_minority_of_sites_does_not_enter_the_consensus() {
    // Blood pressure, in mmHg at six sites and in kPa at three: the same coefficient, 7.5 times as large.
    let unit = 7.50062;
    for seed in 0..5 {
        let mut rng = rng(600 + seed);
        let mut normal = || rng.sample::<f64, _>(rand_distr::StandardNormal);
        let estimates: Vec<Estimate> = (0..9)
            .map(|site| {
                let scale = if site < 6 { 1.0 } else { unit };
                let x =
                    DMatrix::from_fn(200, 2, |_, j| if j == 0 { (94.0 + 14.0 * normal()) / scale } else { normal() });
                let y = DVector::from_fn(200, |i, _| 2.0 * scale * x[(i, 0)] + 20.0 * x[(i, 1)] + 55.0 * normal());
                let found = fit(&x, &y, &FitSettings { start: Start::Ols, ..FitSettings::default() }).unwrap();
                Estimate::from_fit(format!("site {site}"), 0, &found)
            })
            .collect();
        let found = of(&estimates, "refine");
        assert_eq!(found.verdict, Verdict::MajorityAgrees);
        assert!(found.members[6..].iter().all(|m| !m.trusted), "seed {seed}: {:?}", found.members);
        assert!(found.members[..6].iter().filter(|m| m.trusted).count() >= 5, "seed {seed}");
        assert!((found.coefficients[1] - 2.0).abs() < 4.0 * 55.0 / 14.0 / 1000_f64.sqrt(), "{}", found.coefficients);
    }
}

#[test]
fn honest_estimates_are_never_accused_and_copies_cannot_raise_the_alarm() {
    for seed in 0..40 {
        for (m, q) in [(2, 3), (3, 1), (4, 2), (7, 1), (7, 20), (20, 5), (40, 30)] {
            let (_, all) = honest(100 + seed, m, q);
            for name in ["pivot", "refine"] {
                assert_eq!(of(&all, name).verdict, Verdict::MajorityAgrees, "{name}: {m} of {q} numbers, seed {seed}");
            }
        }
        let (beta, mut all) = honest(seed, 20, 20);
        lie(&mut all[..7], |_| beta.clone());
        for name in ["pivot", "refine"] {
            assert_eq!(of(&all, name).verdict, Verdict::MajorityAgrees, "{name} with seven copies, seed {seed}");
        }
    }
}

#[test]
fn batches_of_very_different_size_are_not_taken_for_groups() {
    for seed in 0..10 {
        let mut rng = rng(seed);
        let beta = unit_coefficients(&mut rng, 10);
        let all: Vec<SyntheticBatch> = (0..12)
            .map(|i| batch(&mut rng, &beta, &BatchLaw::published(if i % 2 == 0 { 200 } else { 2000 }, 0.1)))
            .collect();
        let estimates = estimates_of(&all, Start::Ols);
        for name in ["pivot", "refine"] {
            assert_eq!(of(&estimates, name).verdict, Verdict::MajorityAgrees, "{name}, seed {seed}");
        }
    }
}

#[test]
fn a_majority_that_could_not_be_cleaned_is_reported() {
    let (_, mut all) = honest(5, 9, 4);
    all[..4].iter_mut().for_each(|e| e.cleaned = false);
    assert_eq!(of(&all, "refine").verdict, Verdict::MajorityAgrees);
    all[4].cleaned = false;
    assert_eq!(of(&all, "refine").verdict, Verdict::MostNotCleaned);
}

#[test]
fn claims_buy_no_weight() {
    let (beta, all) = honest(6, 11, 6);
    let plain = off(&of(&all, "refine"), &beta);
    for factor in [1e-6, 1e3, 1e12] {
        let mut boastful = all.clone();
        for e in &mut boastful[..5] {
            let packed = e.gram.as_ref().unwrap().packed().iter().map(|g| g * factor).collect();
            e.gram = Some(Gram::from_packed(packed));
            e.coefficients.iter_mut().for_each(|b| *b += 0.5);
            e.scale = 1e6;
            e.kept = 2000;
        }
        let found = of(&boastful, "refine");
        assert!(off(&found, &beta) < 2.0 * plain + 0.01, "factor {factor}: {}", off(&found, &beta));
        let widest = found.std_errors().unwrap().amax();
        assert!(widest < 0.01, "factor {factor}: standard error {widest}");
    }
}

#[test]
fn modest_claims_near_the_centre_open_no_way_for_others_far_away() {
    for modesty in [1e-6, 1e-12] {
        let (beta, mut all) = honest(9, 20, 6);
        let plain = off(&of(&all, "refine"), &beta);
        let mut rng = rng(10);
        let away = unit_direction(&mut rng, 6) * (0.03 / f64::sqrt(modesty));
        for (at, e) in all[..9].iter_mut().enumerate() {
            let packed = e.gram.as_ref().unwrap().packed().iter().map(|g| g * modesty).collect();
            e.gram = Some(Gram::from_packed(packed));
            let told = if at < 6 { beta.clone() } else { &beta + &away };
            e.coefficients = (told + unit_direction(&mut rng, 6) * 1e-6).iter().copied().collect();
        }
        let found = of(&all, "refine");
        assert!(off(&found, &beta) < 3.0 * plain + 0.01, "{modesty}: {} beside {plain}", off(&found, &beta));
    }
}

#[test]
fn a_boast_inside_the_noise_counts_for_two_at_most() {
    let (mut boast, mut plain) = (0.0, 0.0);
    for seed in 0..10 {
        let (beta, mut all) = honest(200 + seed, 11, 6);
        // Near enough to pass the gate whatever it claims.
        let close = &beta + (DVector::from_row_slice(&all[0].coefficients) - &beta) * 0.02;
        all[0].coefficients = close.iter().copied().collect();
        plain += (of(&all, "refine").coefficients - &close).norm();
        all[0].gram = Some(Gram::from_packed(all[0].gram.as_ref().unwrap().packed().iter().map(|g| g * 8.0).collect()));
        boast += (of(&all, "refine").coefficients - &close).norm();
    }
    assert!(boast > 0.75 * plain, "{boast} beside {plain}");
}

#[test]
fn sites_that_differ_by_more_than_noise_widen_the_standard_errors() {
    let (_, all) = honest(7, 15, 4);
    let mut rng = rng(8);
    let mut apart = all.clone();
    for e in &mut apart {
        e.coefficients.iter_mut().for_each(|b| *b += 0.05 * rng.sample::<f64, _>(rand_distr::StandardNormal));
    }
    let (calm, wide) = (of(&all, "refine"), of(&apart, "refine"));
    assert!(calm.overdispersion.unwrap() < 1.6 && wide.overdispersion.unwrap() > 10.0);
    let ratio = wide.std_errors().unwrap()[0] / calm.std_errors().unwrap()[0];
    assert!((ratio / wide.overdispersion.unwrap().sqrt() - 1.0).abs() < 0.2, "ratio {ratio}");
}

#[test]
fn intervals_hold_the_truth_as_often_as_they_say() {
    // 500 runs of 5 coefficients: the standard error of the share is 0.0044 even if a run's five went together.
    let (held, square) = coverage(200, 5, 8, 0.1, Start::Ols, 500);
    assert!((0.92..=0.97).contains(&held), "held {held}, mean squared standardised error {square}");
}

#[test]
fn consolidation_reaches_its_numbers_at_a_reduced_size() {
    let (n, p, m, runs) = (1000, 20, 20, 8);
    let mut sums = [[0.0; 4]; 2];
    for (k, bad) in [0, 8].into_iter().enumerate() {
        for run in 0..runs {
            let mut rng = rng(90 + run);
            let beta = unit_coefficients(&mut rng, p);
            let all: Vec<SyntheticBatch> = mixed_shares(&mut rng, m, bad)
                .into_iter()
                .map(|share| batch(&mut rng, &beta, &BatchLaw::published(n, share)))
                .collect();
            let estimates = estimates_of(&all, Start::Ols);
            let errors = [
                off(&of(&estimates, "pivot"), &beta),
                off(&of(&estimates, "refine"), &beta),
                off(&stream(&estimates, OnlineSettings::source()).pop().unwrap().consensus, &beta),
                (baselines::first_hard_thresholding_average(&all).unwrap() - &beta).norm(),
            ];
            sums[k].iter_mut().zip(errors).for_each(|(s, e)| *s += e / runs as f64);
        }
    }
    // The published size has 5000 rows of 100 columns: the same error per batch, as p / n is the same, but less even.
    let [[pivot, refine, online, _], [pivot_bad, refine_bad, online_bad, averaged]] = sums;
    assert!(pivot <= 0.020 && pivot_bad <= 0.020, "{sums:?}");
    assert!(online <= 0.030 && online_bad <= 0.030, "{sums:?}");
    assert!(refine <= 0.0125 && refine_bad <= 0.0165, "{sums:?}");
    assert!(averaged >= 0.12, "the comparison must hurt: {sums:?}");
}

#[test]
fn with_correlated_columns_refine_stays_near_pooled_least_squares_under_collusion_inside_the_noise() {
    for bad in [0, 9] {
        let (mut ours, mut best) = (0.0, 0.0);
        for run in 0..4 {
            let mut rng = rng(run);
            let beta = unit_coefficients(&mut rng, 20);
            let law = BatchLaw { design: Design::Toeplitz(0.9), ..BatchLaw::published(1000, 0.1) };
            let all: Vec<SyntheticBatch> = (0..20).map(|_| batch(&mut rng, &beta, &law)).collect();
            let mut estimates = estimates_of(&all, Start::Ols);
            let to = &beta + unit_direction(&mut rng, 20) * 0.5;
            lie(&mut estimates[..bad], |_| to.clone());
            ours += off(&of(&estimates, "refine"), &beta);
            best += (pooled_told(&all[bad..].iter().collect::<Vec<_>>()) - &beta).norm();
        }
        assert!(ours <= 1.3 * best, "{bad} of 20: {ours} beside {best}");
    }
}

#[test]
fn too_large_a_discard_and_impossible_metrics_are_refused() {
    let (_, all) = honest(1, 6, 2);
    let refused = |method, metric| consolidate(&set_of(&all), &ConsolidationSettings { method, metric }).unwrap_err();
    let discard = ConsolidateError::Discard { estimates: 6, discard: 3 };
    assert_eq!(refused(Method::Trimmed { discard: Some(3) }, Metric::Automatic), discard);
    assert_eq!(refused(Method::Filter { discard: Some(3) }, Metric::Automatic), discard);
    assert_eq!(consolidate(&Estimates::new(2, true), &ConsolidationSettings::default()), Err(ConsolidateError::Empty));
    let mut plain = Estimates::new(1, false);
    plain.insert(bare("a", 0, &[1.0])).unwrap();
    let majority = ConsolidationSettings { method: Method::Pivot, metric: Metric::Majority };
    assert_eq!(consolidate(&plain, &majority), Err(ConsolidateError::MetricNeedsGram));
    assert!(matches!("median".parse::<Method>(), Err(ConsolidateError::UnknownMethod(_))));
    for name in METHODS {
        assert_eq!(name.parse::<Method>().unwrap().to_string(), name);
        assert_eq!(consolidate(&plain, &name.parse::<Method>().unwrap().into()).unwrap().coefficients[0], 1.0);
    }
}

proptest! {
    #![proptest_config(seeded(16))]

    #[test]
    fn the_order_of_arrival_and_repeats_do_not_matter(seed in 0_u64..1000, m in 2_usize..14) {
        let (beta, mut all) = honest(seed, m, 3);
        let mut rng = rng(seed);
        let bad = (m - 1) / 2;
        lie(&mut all[..bad], |_| &beta + unit_direction(&mut rng, 3));
        let mut shuffled = all.clone();
        shuffled.extend(all[..bad.max(1)].iter().cloned());
        shuffled.shuffle(&mut rng);
        for name in METHODS {
            prop_assert_eq!(of(&all, name), of(&shuffled, name));
        }
    }

    #[test]
    fn a_duplicate_that_counted_twice_would_show(seed in 0_u64..1000) {
        // Three honest and two colluding: counted twice, the colluders would be four of seven.
        let (beta, mut all) = honest(seed, 5, 3);
        lie(&mut all[..2], |_| &beta + DVector::from_element(3, 4.0));
        let mut twice = all.clone();
        twice.extend(all[..2].iter().cloned());
        prop_assert!(off(&of(&twice, "pivot"), &beta) < 0.2);
        prop_assert_eq!(of(&twice, "pivot"), of(&all, "pivot"));
    }

    #[test]
    fn consolidation_is_equivariant_where_it_should_be(seed in 0_u64..1000, bad in 0_usize..4) {
        let q = 4;
        let (beta, mut all) = honest(seed, 9, q);
        let mut rng = rng(seed);
        lie(&mut all[..bad], |_| &beta + unit_direction(&mut rng, q));
        let shift = unit_direction(&mut rng, q) * 3.0;
        let rotation = DMatrix::from_fn(q, q, |_, _| rng.sample::<f64, _>(rand_distr::StandardNormal)).qr().q();
        let units = DMatrix::from_diagonal(&DVector::from_vec(vec![1e-3, 1.0, 50.0, 7.0]));
        let general = &rotation * &units * DMatrix::from_fn(q, q, |i, j| if i == j { 1.0 } else { 0.1 * (i + j) as f64 });
        let moved = |map: &DMatrix<f64>| -> Vec<Estimate> {
            let back = map.clone().try_inverse().unwrap();
            all.iter().cloned().map(|mut e| {
                e.coefficients = (map * DVector::from_row_slice(&e.coefficients) + map * &shift).iter().copied().collect();
                let gram = DMatrix::from_fn(q, q, |i, j| e.gram.as_ref().unwrap().at(i, j));
                let gram = back.transpose() * gram * &back;
                e.gram = Some(Gram::from_matrix(&((&gram + gram.transpose()) * 0.5)));
                e
            }).collect()
        };
        // The majority metric is a median of entries: units leave it alone, other maps nearly. Plain distances know only
        // rotations; coordinate methods only units.
        for (map, methods) in [
            (&units, &["refine", "geomed", "filter", "trimmed", "cmedian", "mean"][..]),
            (&rotation, &["pivot", "mean"][..]),
            (&general, &["mean"][..]),
        ] {
            let there = moved(map);
            for name in methods {
                let found = map.clone().try_inverse().unwrap() * of(&there, name).coefficients - &shift;
                let here = of(&all, name).coefficients;
                prop_assert!((found - &here).amax() < 1e-7, "{}", name);
            }
        }
    }
}
