//! Full-size measurements, run by hand: `cargo test --release -p fedreg-common robust::tests::measure -- --ignored
//! --nocapture --test-threads 1`.

use std::time::Instant;

use nalgebra::DMatrix;

use super::*;
use crate::research::batches::{Design, mixed_shares, unit_direction};

const STARTS: [Start; 4] = [Start::Ols, Start::Score, Start::Lts, Start::Auto];

#[test]
#[ignore = "a measurement of the published single-batch table"]
#[allow(clippy::disallowed_methods, reason = "a measurement looks at the clock")]
fn single_batch_table() {
    let (n, p) = (2000, 20);
    for design in [Design::Independent, Design::Toeplitz(0.9)] {
        for (kind, share) in [
            ("uniform", 0.0),
            ("uniform", 0.2),
            ("uniform", 0.45),
            ("shift", 0.3),
            ("alt", 0.2),
            ("alt", 0.4),
            ("alt", 0.45),
            ("leverage", 0.1),
            ("leverage", 0.3),
            ("leverage", 0.45),
        ] {
            let mut sums = [0.0; 5];
            let mut notes = String::new();
            for seed in 0..5 {
                let mut rng = rng(100 + seed);
                let beta = unit_coefficients(&mut rng, p);
                let corruption = match kind {
                    "uniform" => Corruption::Uniform,
                    "shift" => Corruption::Shift,
                    "alt" => Corruption::Colluding(-&beta),
                    _ => Corruption::Leverage(-&beta),
                };
                let b = batch(&mut rng, &beta, &BatchLaw { corruption, design, ..BatchLaw::published(n, share) });
                sums[0] += (told(&b) - &beta).norm() / 5.0;
                for (k, start) in STARTS.into_iter().enumerate() {
                    let fit = fitted(&b, start);
                    sums[k + 1] += error(&fit, &beta) / 5.0;
                    if start == Start::Auto {
                        notes += &format!(" {:?}/{:?}/{}", fit.start, fit.cleaning, fit.iterations);
                    }
                }
            }
            println!("{design:?} {kind:9} {share:.2}: told, ols, score, lts, auto {sums:.3?}{notes}");
        }
    }
}

#[test]
#[ignore = "a measurement of time"]
#[allow(clippy::disallowed_methods, reason = "a measurement looks at the clock")]
fn time_of_one_fit() {
    for (n, p) in [(5000, 100), (10_000, 20), (20_000, 20), (40_000, 20)] {
        for share in [0.0, 0.1, 0.4, 0.6, 0.7, 0.8, 0.9] {
            let mut rng = rng(1);
            let beta = unit_coefficients(&mut rng, p);
            let b = batch(&mut rng, &beta, &BatchLaw::published(n, share));
            for start in STARTS {
                let mut best = f64::INFINITY;
                let mut iterations = String::new();
                for _ in 0..if start == Start::Ols { 15 } else { 3 } {
                    let begin = Instant::now();
                    let f = fitted(&b, start);
                    iterations = format!("{}, {:?}", f.iterations, f.cleaning);
                    best = best.min(begin.elapsed().as_secs_f64() * 1e3);
                }
                print!("{n}x{p} {share} {start:?} {best:.2} ms ({iterations})  ");
            }
            println!();
        }
    }
}

#[test]
#[ignore = "a measurement of the published table of bad batches"]
fn table_of_bad_batches() {
    let (n, p, m, runs) = (5000, 100, 20, 10);
    for bad in [0, 1, 2, 4, 6, 8] {
        let mut sums = [0.0; 8];
        for run in 0..runs {
            let mut rng = rng(1000 * bad as u64 + run);
            let beta = unit_coefficients(&mut rng, p);
            let all: Vec<SyntheticBatch> = mixed_shares(&mut rng, m, bad)
                .into_iter()
                .map(|share| batch(&mut rng, &beta, &BatchLaw::published(n, share)))
                .collect();
            let estimates = estimates_of(&all, Start::Ols);
            let start = unit_direction(&mut rng, p) * (p as f64).sqrt();
            let of = |method: Method| consolidate(&set_of(&estimates), &method.into()).unwrap().coefficients;
            let errors = [
                baselines::least_squares_average(&all).unwrap(),
                baselines::first_hard_thresholding_average(&all).unwrap(),
                baselines::passive_aggressive(&all, start, 22.0),
                baselines::online_trimmed(&all, |_| 0.5).unwrap(),
                baselines::online_trimmed(&all, |b| b.corrupted).unwrap(),
                stream(&estimates, OnlineSettings::source()).pop().unwrap().consensus.coefficients,
                of(Method::Pivot),
                of(Method::Refine),
            ];
            for (sum, found) in sums.iter_mut().zip(errors) {
                *sum += (found - &beta).norm() / runs as f64;
            }
        }
        println!("{bad}/20: OLS-AVG, RLHH-AVG, OPAA, ORL-H, ORL*, ORLR, DRLR, refine {sums:.4?}");
    }
}

#[test]
#[ignore = "a measurement of the aggregators"]
fn aggregators() {
    let (n, p, m, runs) = (5000, 100, 20, 5);
    for design in [Design::Independent, Design::Toeplitz(0.9)] {
        for (bad, away) in [
            (0, None),
            (4, None),
            (8, None),
            (9, None),
            (9, Some(10.0)),
            (9, Some(0.5)),
            (9, Some(0.141)),
            (9, Some(0.0705)),
            (9, Some(0.047)),
            (10, Some(10.0)),
            (10, Some(0.5)),
            (14, None),
            (12, Some(10.0)),
        ] {
            let mut sums = [0.0; 9];
            let mut notes = Vec::new();
            for run in 0..runs {
                let mut rng = rng(7000 + run);
                let beta = unit_coefficients(&mut rng, p);
                let shares: Vec<f64> = (0..m).map(|i| if i < bad && away.is_none() { 0.9 } else { 0.1 }).collect();
                let all: Vec<SyntheticBatch> = shares
                    .into_iter()
                    .map(|share| batch(&mut rng, &beta, &BatchLaw { design, ..BatchLaw::published(n, share) }))
                    .collect();
                let mut estimates = estimates_of(&all, Start::Ols);
                if let Some(away) = away {
                    let lie = &beta + unit_direction(&mut rng, p) * away;
                    for e in &mut estimates[..bad] {
                        e.coefficients = (&lie + unit_direction(&mut rng, p) * 1e-5).iter().copied().collect();
                    }
                }
                let honest: Vec<&SyntheticBatch> = all[bad..].iter().collect();
                sums[0] += (pooled_told(&honest) - &beta).norm() / runs as f64;
                for (k, name) in
                    ["mean", "pivot", "refine", "geomed", "trimmed", "cmedian", "filter"].iter().enumerate()
                {
                    let found = consolidate(&set_of(&estimates), &name.parse::<Method>().unwrap().into()).unwrap();
                    sums[k + 1] += (&found.coefficients - &beta).norm() / runs as f64;
                    if *name == "refine" || *name == "pivot" {
                        notes.push(format!("{}:{:?}/{}", &name[..1], found.verdict, found.trusted()));
                    }
                }
                let euclid = ConsolidationSettings { method: Method::Refine, metric: Metric::Euclidean };
                sums[8] +=
                    (consolidate(&set_of(&estimates), &euclid).unwrap().coefficients - &beta).norm() / runs as f64;
            }
            println!(
                "{design:?} {bad}/20 {away:?}: told, mean, pivot, refine, geomed, trimmed, cmedian, filter, euclid-refine {sums:.4?} {}",
                notes[..4].join(" ")
            );
        }
    }
}

#[test]
#[ignore = "a measurement of the stream"]
fn stream_table() {
    let (n, p, steps, runs) = (2000, 20, 80, 5);
    for scene in ["clean", "change", "scattered", "burst"] {
        for (name, settings) in [
            ("source", OnlineSettings::source()),
            ("switch 4", OnlineSettings { switch: Some(4), ..OnlineSettings::default() }),
            ("switch 7", OnlineSettings::default()),
        ] {
            let mut sums = [0.0; 5];
            for run in 0..runs {
                let mut rng = rng(400 + run);
                let (first, second) = (unit_coefficients(&mut rng, p), unit_direction(&mut rng, p));
                let lie = unit_direction(&mut rng, p);
                let mut arrivals = Vec::new();
                for t in 0..steps + 7 {
                    let truth = if scene == "change" && t >= 27 { &second } else { &first };
                    let b = batch(&mut rng, truth, &BatchLaw::published(n, 0.1));
                    let mut e = Estimate::from_fit("w", t as u64, &fitted(&b, Start::Ols));
                    if scene == "scattered" && t >= 7 && rand::Rng::random::<f64>(&mut rng) < 0.4 {
                        e.coefficients = (truth + unit_direction(&mut rng, p) * 1.3).iter().copied().collect();
                    }
                    if scene == "burst" && (27..35).contains(&t) {
                        e.coefficients = (&first + &lie).iter().copied().collect();
                    }
                    arrivals.push(e);
                }
                let updates = stream(&arrivals, settings);
                for (sum, t) in sums.iter_mut().zip([19, 25, 30, 49, 79]) {
                    let truth = if scene == "change" && t > 20 { &second } else { &first };
                    *sum += (&updates[t + 6].consensus.coefficients - truth).norm() / runs as f64;
                }
            }
            println!("{scene:10} {name:9} {sums:.3?}");
        }
    }
}

#[test]
#[ignore = "a measurement of coverage at more sizes than the test keeps"]
fn coverage_table() {
    for (n, p, m) in [(300, 5, 10), (1000, 10, 20), (200, 3, 5), (400, 20, 12)] {
        for share in [0.0, 0.1] {
            for start in [Start::Ols, Start::Score] {
                println!("n {n} p {p} m {m} share {share} {start:?}: {:?}", coverage(n, p, m, share, start, 500));
            }
        }
    }
}

#[test]
#[ignore = "a measurement of time and memory"]
#[allow(clippy::disallowed_methods, reason = "a measurement looks at the clock")]
fn many_estimates() {
    for (m, with_gram) in [(5000, false), (10_000, false), (20_000, false), (20_000, true)] {
        let mut rng = rng(9);
        let p = 100;
        let beta = unit_coefficients(&mut rng, p);
        let gram = DMatrix::identity(p, p) * 4500.0;
        let mut set = Estimates::new(p, with_gram);
        for i in 0..m {
            let away = if i % 5 < 2 { 3.0 } else { 0.047 };
            let lie = &beta + unit_direction(&mut rng, p) * away;
            set.insert(Estimate {
                worker: "w".into(),
                batch: i as u64,
                coefficients: lie.iter().copied().collect(),
                gram: with_gram.then(|| Gram::from_matrix(&gram)),
                nobs: 5000,
                kept: 4450,
                scale: 0.316,
                cleaned: true,
            })
            .unwrap();
        }
        for name in ["pivot", "refine", "geomed", "cmedian", "filter"] {
            let begin = Instant::now();
            let found = consolidate(&set, &name.parse::<Method>().unwrap().into()).unwrap();
            println!(
                "{m} gram {with_gram} {name}: {:.2} s, trusted {}, {:?}, error {:.5}",
                begin.elapsed().as_secs_f64(),
                found.trusted(),
                found.verdict,
                (&found.coefficients - &beta).norm()
            );
        }
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        println!("{}", status.lines().find(|l| l.starts_with("VmHWM")).unwrap());
    }
}
