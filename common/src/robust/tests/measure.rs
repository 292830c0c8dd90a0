//! Full-size measurements, run by hand: `cargo test --release -p fedreg-common robust::tests::measure -- --ignored
//! --nocapture --test-threads 1`.

use std::time::Instant;

use super::synthetic::Design;
use super::*;

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
                let b = batch(
                    &mut rng,
                    &beta,
                    &BatchLaw {
                        corruption,
                        design,
                        ..BatchLaw::published(n, share)
                    },
                );
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
        for share in [0.0, 0.1, 0.4, 0.9] {
            let mut rng = rng(1);
            let beta = unit_coefficients(&mut rng, p);
            let b = batch(&mut rng, &beta, &BatchLaw::published(n, share));
            for start in STARTS {
                let mut best = f64::INFINITY;
                let mut iterations = 0;
                for _ in 0..if start == Start::Ols { 15 } else { 3 } {
                    let begin = Instant::now();
                    iterations = fitted(&b, start).iterations;
                    best = best.min(begin.elapsed().as_secs_f64() * 1e3);
                }
                print!("{n}x{p} {share} {start:?} {best:.2} ms ({iterations})  ");
            }
            println!();
        }
    }
}
