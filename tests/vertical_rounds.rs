//! How many rounds a fit takes, and how it ends, over patterns of data.

use std::ops::Range;
use std::sync::Arc;

use fedreg_common::data::Frame;
use fedreg_common::fit::Termination;
use fedreg_common::id::Role;
use fedreg_common::methods::vertical::outcome::VerticalFit;
use fedreg_common::methods::vertical::prepare::Policy;
use fedreg_common::sim::pair::{self, Ended, Faults};
use fedreg_common::study::{Study, Vertical};
use fedreg_tests::vectors::Case;
use fedreg_tests::vertical::{fitted, numeric, session, study};
use nalgebra::{DMatrix, DVector};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Poisson, StandardNormal};

/// How the columns of the two parties hang together.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Pattern {
    /// `b_j = rho a_j + sqrt(1 - rho^2) noise`; where one side has more columns, several share a partner.
    Paired,
    /// Every two columns have the same correlation.
    Equal,
    /// `cov2cor(A A')` for a square Gaussian `A`: nearly singular, with no structure.
    Random,
    /// One factor that every column holds to another degree.
    Factor,
    /// `rho^|i - j|`, Alice's columns before Bob's.
    Autoregressive,
}

const PATTERNS: [Pattern; 5] =
    [Pattern::Paired, Pattern::Equal, Pattern::Random, Pattern::Factor, Pattern::Autoregressive];

const FAMILIES: [&str; 3] = ["gaussian", "binomial", "poisson"];

impl Pattern {
    /// `n` rows of `a + b` columns of variance 1.
    fn draw(self, n: usize, (a, b): (usize, usize), rho: f64, rng: &mut ChaCha8Rng) -> DMatrix<f64> {
        let p = a + b;
        let noise = DMatrix::from_fn(n, p, |_, _| rng.sample::<f64, _>(StandardNormal));
        let rest = (1.0 - rho * rho).sqrt();
        match self {
            Pattern::Paired => {
                let mut x = noise;
                for j in 0..b.max(a) {
                    let (own, partner) = if b >= a { (a + j, j % a) } else { (j, a + j % b) };
                    let paired = x.column(partner) * rho + x.column(own) * rest;
                    x.set_column(own, &paired);
                }
                x
            }
            Pattern::Equal | Pattern::Factor => {
                let factor = DVector::from_fn(n, |_, _| rng.sample::<f64, _>(StandardNormal));
                let mut x = noise;
                for mut column in x.column_iter_mut() {
                    let load = if self == Pattern::Equal { rho.sqrt() } else { rng.random_range(-rho..rho) };
                    let mixed = &factor * load + column.clone_owned() * (1.0 - load * load).sqrt();
                    column.copy_from(&mixed);
                }
                x
            }
            Pattern::Random => {
                let mut root = DMatrix::from_fn(p, p, |_, _| rng.sample::<f64, _>(StandardNormal));
                root.row_iter_mut().for_each(|mut row| {
                    let length = row.norm();
                    row /= length;
                });
                noise * root.transpose()
            }
            Pattern::Autoregressive => {
                let mut x = noise;
                for j in 1..p {
                    let next = x.column(j - 1) * rho + x.column(j) * rest;
                    x.set_column(j, &next);
                }
                x
            }
        }
    }
}

/// Both parties' columns and the study that fits them.
struct Data {
    study: Study<Vertical>,
    frames: [Frame; 2],
}

impl Data {
    /// Columns `x0, x1, ..`, the first `split` of them at Alice, and the outcome at both.
    fn new(x: &DMatrix<f64>, split: usize, y: &[f64], family: &str, more: &str) -> Data {
        let (n, p) = x.shape();
        let names: Vec<String> = (0..p).map(|j| format!("x{j}")).chain(["y".to_string()]).collect();
        let columns: Vec<&[f64]> = (0..p).map(|j| &x.as_slice()[j * n..(j + 1) * n]).chain([y]).collect();
        let of = |range: Range<usize>| {
            let keep: Vec<usize> = range.chain([p]).collect();
            let names: Vec<String> = keep.iter().map(|j| names[*j].clone()).collect();
            numeric(&names, &keep.iter().map(|j| columns[*j]).collect::<Vec<_>>())
        };
        let case = Case {
            name: "simulated".to_string(),
            tags: vec![],
            data: "".into(),
            outcome: "y".to_string(),
            family: family.to_string(),
            alice: names[..split].to_vec(),
            bob: names[split..p].to_vec(),
            offset: None,
            weights: None,
            intercept: true,
        };
        Data { study: study(&case, more), frames: [of(0..split), of(split..p)] }
    }

    /// A pattern's columns with normal coefficients, and an outcome of the family.
    fn simulated(
        pattern: Pattern,
        n: usize,
        split: (usize, usize),
        rho: f64,
        family: &str,
        seed: u64,
        more: &str,
    ) -> Data {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let x = pattern.draw(n, split, rho, &mut rng);
        let p = split.0 + split.1;
        let beta = DVector::from_fn(p, |_, _| rng.sample::<f64, _>(StandardNormal) / (p as f64).sqrt());
        let y: Vec<f64> = (&x * beta).iter().map(|eta| outcome(family, *eta, &mut rng)).collect();
        Data::new(&x, split.0, &y, family, more)
    }

    fn run(self) -> [VerticalFit; 2] {
        fitted(self.end())
    }

    fn end(self) -> Ended<VerticalFit> {
        let study = Arc::new(self.study);
        let [alice, bob] = self.frames;
        let mut alice = session(&study, Role::Alice, Policy::default(), alice).unwrap();
        let mut bob = session(&study, Role::Bob, Policy::default(), bob).unwrap();
        pair::run(&mut alice, &mut bob, Faults::NONE, |_, _| {})
    }
}

fn outcome(family: &str, eta: f64, rng: &mut ChaCha8Rng) -> f64 {
    match family {
        "binomial" => f64::from(u8::from(rng.random_bool(1.0 / (1.0 + (-eta).exp())))),
        "poisson" => rng.sample(Poisson::new(eta.clamp(-20.0, 8.0).exp()).unwrap()),
        _ => eta + rng.sample::<f64, _>(StandardNormal),
    }
}

/// Fits every pattern, family, split and correlation for some seeds: each must converge within twice the columns of the
/// smaller side and fifteen rounds.
fn sweep(splits: &[(usize, usize)], correlations: &[f64], rows: usize, seeds: Range<u64>) {
    let mut late: Vec<String> = Vec::new();
    let mut most: Vec<(f64, String)> = Vec::new();
    let mut fits = 0;
    for family in FAMILIES {
        for pattern in PATTERNS {
            for split in splits {
                for rho in correlations {
                    for seed in seeds.clone() {
                        let [fit, _] = Data::simulated(pattern, rows, *split, *rho, family, seed, "").run();
                        fits += 1;
                        let limit = 2 * split.0.min(split.1) as u32 + 15;
                        let name = format!(
                            "{family} {pattern:?} {split:?} correlation {rho} seed {seed}: {} after {} rounds, certificate {:e}",
                            fit.termination, fit.rounds, fit.certificate
                        );
                        most.push((f64::from(fit.rounds) / f64::from(limit), name.clone()));
                        if fit.termination != Termination::Converged || fit.rounds > limit || !(fit.certificate <= 1e-8)
                        {
                            late.push(name);
                        }
                    }
                }
            }
        }
    }
    most.sort_by(|a, b| b.0.total_cmp(&a.0));
    println!("{fits} fits, {} late; nearest to the limit:", late.len());
    most.iter().take(12).for_each(|(share, name)| println!("  {share:.2} {name}"));
    assert!(late.is_empty(), "{} of {fits}: {:#?}", late.len(), &late[..late.len().min(40)]);
}

#[test]
fn fits_converge_in_about_as_many_rounds_as_columns_whatever_the_correlation() {
    sweep(&[(1, 1), (1, 6), (5, 5), (8, 3)], &[0.9, 0.99], 600, 1..2);
    sweep(&[(12, 12)], &[0.95], 1500, 1..2);
}

/// The same over sizes, correlations and seeds, 2700 fits in two minutes:
/// `cargo test --release -p fedreg-tests -- --ignored --nocapture all_sizes_and_seeds`.
#[test]
#[ignore = "two minutes"]
fn fits_converge_in_about_as_many_rounds_as_columns_over_all_sizes_and_seeds() {
    let splits = [(1, 1), (1, 40), (2, 3), (5, 5), (10, 10), (7, 20), (30, 4), (20, 20), (40, 40)];
    sweep(&splits, &[0.5, 0.9, 0.99, 0.999], 5000, 1..6);
}

/// For a profiler: `valgrind --tool=callgrind TEST_PROGRAM --exact --ignored vertical_rounds::a_large_fit_for_a_profiler`, with
/// `RAYON_NUM_THREADS=1`.
#[test]
#[ignore = "measured by hand"]
fn a_large_fit_for_a_profiler() {
    let rows = std::env::var("FEDREG_ROWS").ok().and_then(|rows| rows.parse().ok()).unwrap_or(100_000);
    let begun = std::time::Instant::now();
    let data = Data::simulated(Pattern::Paired, rows, (10, 10), 0.5, "binomial", 1, "");
    println!("{rows} rows drawn in {:?}", begun.elapsed());
    let begun = std::time::Instant::now();
    let [fit, _] = data.run();
    println!("{} after {} rounds in {:?}", fit.termination, fit.rounds, begun.elapsed());
    assert_eq!(fit.termination, Termination::Converged);
}

/// The pooled fit by plain iteratively reweighted least squares: what any program for one machine computes.
fn pooled(x: &DMatrix<f64>, y: &[f64], family: &str) -> DVector<f64> {
    let family = fedreg_tests::vertical::family(family).base();
    let x = x.clone().insert_column(0, 1.0);
    let mean = y.iter().sum::<f64>() / y.len() as f64;
    let mut beta = DVector::zeros(x.ncols());
    beta[0] = family.linear(mean);
    for _ in 0..200 {
        let eta = &x * &beta;
        let score = x.transpose() * DVector::from_fn(y.len(), |i, _| y[i] - family.mean(eta[i]));
        let mut weighted = x.clone();
        weighted.row_iter_mut().zip(eta.iter()).for_each(|(mut row, eta)| row *= family.variance(*eta));
        let step = (x.transpose() * weighted).cholesky().unwrap().solve(&score);
        beta += &step;
        if step.amax() <= 1e-12 * beta.amax() {
            return beta;
        }
    }
    panic!("the pooled fit does not settle");
}

/// The largest difference of the coefficients, in units of 1e-3 standard errors or of the coefficient.
fn distance(fit: &VerticalFit, expected: &DVector<f64>) -> f64 {
    fit.coefficients.iter().zip(expected.iter()).fold(0.0, |worst, (row, expected)| {
        let size = expected.abs().max(1e-3 * row.std_error.unwrap());
        worst.max((row.estimate.unwrap() - expected).abs() / size)
    })
}

/// Of so many rows for so few columns second derivatives are estimated from some: the digits are those of all rows, whatever the order of
/// the rows, and also where a column says something in the rows alone that are taken, or in the others.
#[test]
fn many_rows_in_any_order_have_the_digits_of_the_pooled_fit() {
    const ROWS: usize = 60_000;
    let taken = |row: usize| row % 2048 < 256;
    for (family, seed) in [("binomial", 1), ("poisson", 2)] {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let drawn = Pattern::Paired.draw(ROWS, (2, 2), 0.8, &mut rng);
        let mut order: Vec<usize> = (0..ROWS).collect();
        order.sort_by(|a, b| drawn[(*a, 0)].total_cmp(&drawn[(*b, 0)]));
        let sorted = drawn.select_rows(&order);
        let only = |kept: &dyn Fn(usize) -> bool| {
            let mut x = drawn.clone();
            (0..ROWS).filter(|row| !kept(*row)).for_each(|row| (x[(row, 1)], x[(row, 3)]) = (0.0, 0.0));
            x
        };
        let tables =
            [("drawn", drawn.clone()), ("sorted", sorted), ("taken", only(&taken)), ("left", only(&|row| !taken(row)))];
        for (name, x) in tables {
            let beta = DVector::from_vec(vec![0.9, -0.7, 0.4, 0.6]);
            let y: Vec<f64> = (&x * &beta).iter().map(|eta| outcome(family, *eta, &mut rng)).collect();
            let expected = pooled(&x, &y, family);
            for more in ["", "[inference]\nwhen = \"after\"\n", "[inference]\nallowed = false\n"] {
                let [fit, _] = Data::new(&x, 2, &y, family, more).run();
                let name = format!("{family}, {name}, {more:?}");
                assert_eq!(fit.termination, Termination::Converged, "{name} after {} rounds", fit.rounds);
                assert!(fit.rounds <= 9, "{name}: {} rounds", fit.rounds);
                let off = fit.coefficients.iter().zip(expected.iter());
                let off = off.map(|(row, expected)| (row.estimate.unwrap() - expected).abs()).fold(0.0, f64::max);
                assert!(off < 1e-9, "{name}: {off:e}");
            }
        }
    }
}

#[test]
fn counts_in_the_hundreds_and_in_the_millions_converge() {
    for (mean, seeds) in [(438.0_f64, 0..4), (1.35e6, 0..4), (4e9, 0..2)] {
        for pattern in PATTERNS {
            for seed in seeds.clone() {
                let mut rng = ChaCha8Rng::seed_from_u64(seed);
                let x = pattern.draw(400, (3, 4), 0.9, &mut rng);
                let beta = DVector::from_fn(7, |_, _| rng.sample::<f64, _>(StandardNormal) / 7.0);
                let means = (&x * &beta).map(|eta| (mean.ln() + eta).exp());
                let y: Vec<f64> = means.iter().map(|mean| rng.sample(Poisson::new(*mean).unwrap())).collect();
                let name = format!("{pattern:?} seed {seed} mean {mean}");
                let [fit, _] = Data::new(&x, 3, &y, "poisson", "").run();
                assert_eq!(fit.termination, Termination::Converged, "{name} after {} rounds", fit.rounds);
                assert!(fit.rounds <= 12, "{name}: {} rounds", fit.rounds);
                let off = distance(&fit, &pooled(&x, &y, "poisson"));
                assert!(off < 1e-8, "{name}: {off}");
            }
        }
    }
}

#[test]
fn steep_but_finite_probabilities_converge() {
    let (mut most, mut largest) = (0, 0.0_f64);
    for slope in [10.0, 30.0, 100.0] {
        for pattern in PATTERNS {
            for seed in 0..4 {
                let mut rng = ChaCha8Rng::seed_from_u64(100 + seed);
                let x = pattern.draw(1500, (3, 3), 0.7, &mut rng);
                let beta = DVector::from_fn(6, |_, _| slope * rng.random_range(0.3..1.0) / 3.0);
                let mut y: Vec<f64> = (&x * &beta).iter().map(|eta| outcome("binomial", *eta, &mut rng)).collect();
                // Overlap in every direction, so that the estimate is finite for certain: some rows near the line count
                // once as 0 and once as 1.
                let mut near: Vec<usize> = (0..y.len()).collect();
                near.sort_by(|a, b| (x.row(*a) * &beta)[0].abs().total_cmp(&(x.row(*b) * &beta)[0].abs()));
                let mut doubled = x.clone();
                for (at, row) in near[..15].iter().enumerate() {
                    let to = near[near.len() - 1 - at];
                    doubled.set_row(to, &x.row(*row));
                    y[to] = 1.0 - y[*row];
                }
                let expected = pooled(&doubled, &y, "binomial");
                let eta = doubled.clone().insert_column(0, 1.0) * &expected;
                largest = largest.max(eta.amax());
                let name = format!("{pattern:?} slope {slope} seed {seed} largest predictor {}", eta.amax());
                let [fit, _] = Data::new(&doubled, 3, &y, "binomial", "").run();
                assert_eq!(fit.termination, Termination::Converged, "{name} after {} rounds", fit.rounds);
                most = most.max(fit.rounds);
                assert!(fit.rounds <= 21, "{name}: {} rounds", fit.rounds);
                let off = distance(&fit, &expected);
                assert!(off < 1e-7, "{name}: {off}");
            }
        }
    }
    println!("{most} rounds at most, predictors up to {largest}");
    assert!(largest > 100.0);
}

/// Data without a finite estimate.
#[derive(Debug, Clone, Copy)]
enum Without {
    /// A combination of columns of both sides says every outcome.
    Complete,
    /// The same with a gap between the classes.
    CompleteWithGap,
    /// One column of Alice's alone does.
    CompleteAtAlice,
    /// One of Bob's alone does.
    CompleteAtBob,
    /// Every row of a level at Alice has outcome 1.
    LevelAtAlice,
    /// Every row of a level at Bob has outcome 1.
    LevelAtBob,
    /// Above a threshold all outcomes are 1, below it all are 0, at it both occur.
    Threshold,
    /// Every count of a level at Alice is 0.
    NoCountsAtAlice,
    /// Every count of a level at Bob is 0, the others are large.
    NoCountsAtBob,
    /// Counts are 0 wherever a column is positive, which is 0 elsewhere.
    NoCountsAbove,
    /// All counts are 0.
    NoCounts,
    /// Outcomes by chance, of so few rows that many combinations of the columns say them, all within a narrow cone.
    FewRows,
}

impl Without {
    const ALL: [Without; 12] = [
        Without::Complete,
        Without::CompleteWithGap,
        Without::CompleteAtAlice,
        Without::CompleteAtBob,
        Without::LevelAtAlice,
        Without::LevelAtBob,
        Without::Threshold,
        Without::NoCountsAtAlice,
        Without::NoCountsAtBob,
        Without::NoCountsAbove,
        Without::NoCounts,
        Without::FewRows,
    ];

    fn data(self, pattern: Pattern, n: usize, split: (usize, usize), seed: u64, more: &str) -> Data {
        let mut rng = ChaCha8Rng::seed_from_u64(700 + seed);
        // Outcomes of at most as many rows as coefficients are always separated.
        let n = if matches!(self, Without::FewRows) { split.0 + split.1 + 1 } else { n };
        let mut x = pattern.draw(n, split, 0.8, &mut rng);
        let p = split.0 + split.1;
        let beta = DVector::from_fn(p, |_, _| rng.sample::<f64, _>(StandardNormal) / (p as f64).sqrt());
        let mut eta = &x * beta;
        let family = match self {
            Without::NoCountsAtAlice | Without::NoCountsAtBob | Without::NoCountsAbove | Without::NoCounts => "poisson",
            _ => "binomial",
        };
        let column = if matches!(self, Without::LevelAtAlice | Without::NoCountsAtAlice | Without::CompleteAtAlice) {
            0
        } else {
            p - 1
        };
        match self {
            Without::CompleteWithGap => {
                let keep: Vec<usize> = (0..n).filter(|row| eta[*row].abs() > 0.2).collect();
                (x, eta) = (x.select_rows(&keep), eta.select_rows(&keep));
            }
            Without::LevelAtAlice | Without::LevelAtBob | Without::NoCountsAtAlice | Without::NoCountsAtBob => {
                x.column_mut(column).iter_mut().for_each(|x| *x = f64::from(u8::from(*x > 1.2)));
            }
            Without::NoCountsAbove => x.column_mut(column).iter_mut().for_each(|x| *x = (*x - 0.5).max(0.0)),
            Without::Threshold => x.column_mut(column).iter_mut().for_each(|x| *x = x.round()),
            _ => (),
        }
        let base = if matches!(self, Without::NoCountsAtBob) { 9.0 } else { 0.5 };
        let y: Vec<f64> = (0..x.nrows())
            .map(|row| {
                let at = x[(row, column)];
                let drawn = outcome(family, if family == "poisson" { base } else { 0.0 } + eta[row], &mut rng);
                match self {
                    Without::Complete | Without::CompleteWithGap => f64::from(u8::from(eta[row] > 0.0)),
                    Without::CompleteAtAlice | Without::CompleteAtBob => f64::from(u8::from(at > 0.1)),
                    Without::LevelAtAlice | Without::LevelAtBob if at > 0.0 => 1.0,
                    Without::Threshold if at != 0.0 => f64::from(u8::from(at > 0.0)),
                    Without::NoCountsAtAlice | Without::NoCountsAtBob | Without::NoCountsAbove if at > 0.0 => 0.0,
                    Without::NoCounts => 0.0,
                    _ => drawn,
                }
            })
            .collect();
        Data::new(&x, split.0, &y, family, more)
    }
}

/// Fits data without a finite estimate, of every kind and pattern: each must be named as such.
fn name_all(sizes: &[((usize, usize), usize)], seeds: Range<u64>, more: &str) {
    let mut wrong: Vec<String> = Vec::new();
    let mut most: Vec<(u32, String)> = Vec::new();
    for without in Without::ALL {
        for pattern in PATTERNS {
            for (split, n) in sizes {
                for seed in seeds.clone() {
                    let name = format!("{without:?} {pattern:?} {split:?} seed {seed}");
                    let ended =
                        without.data(pattern, *n, *split, seed, &format!("[fit]\nmax_rounds = 60\n{more}")).end();
                    if let Some(abort) = ended.results.iter().flatten().find_map(|result| result.as_ref().err()) {
                        wrong.push(format!("{name}: {abort}"));
                        continue;
                    }
                    let fits = fitted(ended);
                    let [alice, bob] = fits.each_ref().map(|fit| fit.termination);
                    assert_eq!(alice, bob, "{name}");
                    let rounds = fits[0].rounds;
                    most.push((rounds, name.clone()));
                    if alice != Termination::Separation || rounds > 2 * split.0.min(split.1) as u32 + 15 {
                        let certificate = fits[0].certificate;
                        wrong.push(format!("{name}: {alice} after {rounds} rounds, certificate {certificate:e}"));
                    }
                }
            }
        }
    }
    most.sort_by_key(|entry| std::cmp::Reverse(entry.0));
    println!("{} fits, most rounds {:#?}", most.len(), &most[..8]);
    assert!(wrong.is_empty(), "{} of {}: {:#?}", wrong.len(), most.len(), &wrong[..wrong.len().min(60)]);
}

const SIZES: [((usize, usize), usize); 4] = [((1, 1), 200), ((2, 3), 150), ((4, 3), 1200), ((10, 12), 1500)];

#[test]
fn estimates_that_grow_without_bound_are_named_within_as_many_rounds_as_a_fit_may_take() {
    name_all(&SIZES[..3], 1..2, "");
}

/// The same with more columns and seeds, 440 fits:
/// `cargo test --release -p fedreg-tests -- --ignored --nocapture estimates_that_grow`.
#[test]
#[ignore = "half a minute"]
fn estimates_that_grow_without_bound_are_named_over_all_sizes_and_seeds() {
    name_all(&SIZES, 0..2, "");
    name_all(&SIZES, 0..2, NONE);
}

const NONE: &str = "acceleration = \"none\"\n";

/// The plain rounds look for the same combinations, of own columns and of what the partner has shown.
#[test]
fn plain_rounds_name_estimates_that_grow_without_bound_and_no_others() {
    name_all(&SIZES[..3], 1..2, NONE);
    for family in ["binomial", "poisson"] {
        for pattern in PATTERNS {
            for seed in 0..3 {
                let more = format!("[fit]\n{NONE}");
                let [fit, _] = Data::simulated(pattern, 300, (3, 4), 0.7, family, seed, &more).run();
                let name = format!("{family} {pattern:?} seed {seed}: {} after {} rounds", fit.termination, fit.rounds);
                assert!(matches!(fit.termination, Termination::Converged | Termination::MaxRounds), "{name}");
            }
        }
    }
}

#[test]
fn a_tolerance_below_rounding_ends_the_fit_and_is_said() {
    for family in FAMILIES {
        for more in ["", "[fit]\nacceleration = \"none\"\n", "[penalty]\nlambda = [0.05]\n"] {
            for tol in [1e-15, 1e-17] {
                let fit_terms = if more.contains("[fit]") { more.to_string() } else { format!("{more}[fit]\n") };
                let more = format!("{fit_terms}tol = {tol:e}\n");
                let data = Data::simulated(Pattern::Paired, 500, (3, 3), 0.7, family, 5, &more);
                let fits = data.run();
                for fit in &fits {
                    let name = format!("{family} {more}: {} after {} rounds", fit.termination, fit.rounds);
                    assert_eq!(fit.termination, Termination::Converged, "{name}");
                    assert!(fit.rounds < 200, "{name}");
                    assert!(fit.certificate < 1e-13, "{name}: {}", fit.certificate);
                    let said = fit.notes.iter().any(|note| note.contains("below rounding"));
                    let change = fit.trace.last().map_or(0.0, |point| point.change);
                    let missed = fits[0].certificate.max(fits[1].certificate).max(change) > tol || tol < 1e-16;
                    assert_eq!(said, missed, "{name} {:?}", fit.notes);
                }
            }
        }
    }
}

/// Fits with a penalty, whatever it is and however the blocks hang together.
fn penalised_rounds(n: usize, columns: (usize, usize), tol: f64, most: u32) {
    for family in FAMILIES {
        for pattern in PATTERNS {
            for alpha in [0.0, 0.5, 1.0] {
                for lambda in [0.01, 0.001] {
                    let more = format!("[penalty]\nlambda = [{lambda}]\nalpha = {alpha:?}\n[fit]\ntol = {tol:e}\n");
                    let [fit, _] = Data::simulated(pattern, n, columns, 0.9, family, 7, &more).run();
                    let name = format!("{family} {pattern:?} alpha {alpha} lambda {lambda}");
                    assert_eq!(fit.termination, Termination::Converged, "{name} after {} rounds", fit.rounds);
                    assert!(fit.rounds <= most, "{name}: {} rounds", fit.rounds);
                    assert!(fit.certificate <= tol, "{name}: {:e}", fit.certificate);
                }
            }
        }
    }
}

#[test]
fn a_penalty_takes_few_rounds_also_where_the_outcome_is_far_from_zero() {
    for (alpha, seed) in [(0.0, 1), (0.5, 2), (1.0, 3)] {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let x = Pattern::Paired.draw(1000, (12, 12), 0.9, &mut rng);
        let slopes = DVector::from_fn(24, |_, _| rng.sample::<f64, _>(StandardNormal));
        let y: Vec<f64> = (&x * slopes).iter().map(|mean| 1e6 + mean + rng.sample::<f64, _>(StandardNormal)).collect();
        let more = format!("[penalty]\nlambda = [0.01]\nalpha = {alpha:?}\n");
        let [fit, _] = Data::new(&x, 12, &y, "gaussian", &more).run();
        assert_eq!(fit.termination, Termination::Converged, "alpha {alpha} after {} rounds", fit.rounds);
        assert!(fit.rounds <= 60, "alpha {alpha}: {} rounds", fit.rounds);
    }
}

#[test]
fn a_penalty_takes_at_most_a_hundred_rounds_at_thirty_columns_a_side() {
    penalised_rounds(1000, (30, 30), 1e-12, 100);
    penalised_rounds(400, (12, 12), 1e-10, 45);
}

#[test]
fn a_path_ends_in_few_rounds_and_does_not_depend_on_where_the_outcome_and_the_columns_lie() {
    let path = |more: &str, x: &DMatrix<f64>, y: &[f64]| {
        let [alice, bob] = Data::new(x, 2, y, "gaussian", more).run();
        assert_eq!(alice.termination, Termination::Converged, "{more}");
        let points = alice.path.into_iter().chain(bob.path).flatten();
        let values = points.flat_map(|point| {
            let slopes = point.coefficients.into_iter().filter(|of| of.term != "(Intercept)");
            slopes.map(|of| of.estimate.unwrap()).chain([point.deviance / y.len() as f64]).collect::<Vec<f64>>()
        });
        (alice.rounds, values.collect::<Vec<f64>>())
    };
    for (alpha, folds, seed) in [(0.5, "", 1), (1.0, "cv = 3\n", 2), (0.0, "", 3), (0.9, "", 4)] {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut draw = || rng.random_range(-1.0..1.0_f64);
        let (mut x, mut y) = (DMatrix::from_fn(450, 5, |_, _| draw()), Vec::new());
        for mut row in x.row_iter_mut() {
            row[0] *= 5.0;
            row[3] += 0.2 * row[0];
            row[4] = f64::from(u8::from(row[4] > 0.0));
            y.push(0.4 * row[0] - 9.0 * row[1] + 1.5 * row[2] + 2.0 * row[3] + 6.0 * row[4] + draw());
        }
        let more = format!("[penalty]\nlambda = \"path\"\nalpha = {alpha:?}\n{folds}");
        let (_, expected) = path(&more, &x, &y);
        for (of_outcome, of_columns) in [(1e3, 0.0), (1e5, 0.0), (-1e5, 1e3)] {
            x.column_mut(2).add_scalar_mut(of_columns);
            y.iter_mut().for_each(|y| *y += of_outcome);
            let (rounds, values) = path(&more, &x, &y);
            x.column_mut(2).add_scalar_mut(-of_columns);
            y.iter_mut().for_each(|y| *y -= of_outcome);
            let fits = 100 * if folds.is_empty() { 1 } else { 4 };
            assert!(rounds < 12 * fits, "alpha {alpha}, outcome about {of_outcome}: {rounds} rounds for {fits} fits");
            let off = values.iter().zip(&expected).map(|(got, expected)| (got - expected).abs()).fold(0.0, f64::max);
            assert!(values.len() == expected.len() && off < 1e-8, "alpha {alpha}, outcome about {of_outcome}: {off:e}");
        }
    }
}
