use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution as _, StandardNormal};

use super::*;
use crate::privacy::accountant::gaussian_mu;
use crate::privacy::bounds::{ColumnBounds, OutcomeBounds, RowBounds};
use crate::privacy::ledger::Permit;
use crate::privacy::mechanism::release;
use crate::privacy::sampler::NoisePool;
use crate::research::private::{Batch, Corruption, HALF_RANGE, batch_setup};

fn batch(rows: usize, width: usize, share: f64, kind: Corruption, correlation: f64, seed: u64) -> Batch {
    Batch::draw(rows, width, share, kind, correlation, seed).unwrap()
}

fn run(plan: &Plan, batch: &Batch, seed: u64) -> Estimate {
    batch.fit_with(plan, &mut NoisePool::seeded(seed)).unwrap()
}

fn setup(rows: usize, width: usize, epsilon: f64) -> Setup {
    batch_setup(rows, width, gaussian_mu(epsilon, 1e-5).powi(2))
}

fn fitted(plan: &Plan, rows: ClippedRows, outcome: ClippedOutcome, seed: u64) -> Estimate {
    fitted_of(plan, rows, outcome, seed, 1)
}

/// The estimate of one of a given number of batches.
fn fitted_of(plan: &Plan, rows: ClippedRows, outcome: ClippedOutcome, seed: u64, batches: u64) -> Estimate {
    let mut fit = Fit::new(plan.clone(), rows, outcome).unwrap();
    let mut pool = NoisePool::seeded(seed);
    while let Need::Release { index, query } = fit.need().unwrap() {
        let planned = plan.releases().releases()[index as usize].clone();
        let permit = Permit::unreserved("test", index, planned);
        fit.supply(&release(&query, permit, &mut pool).unwrap().unstored(), index).unwrap();
    }
    fit.estimate(batches).unwrap()
}

/// Distance on the scale of the columns.
fn error(estimate: &Estimate, batch: &Batch) -> f64 {
    (&estimate.coefficients - &batch.truth).norm() * HALF_RANGE / (batch.truth.len() as f64).sqrt()
}

fn table(seeds: u64, change: impl Fn(Setup) -> Setup, judged: bool) {
    for kind in [Corruption::Uniform, Corruption::Shift, Corruption::Collusion, Corruption::Leverage] {
        let mut line = format!("{kind:?}:");
        for (epsilon, largest) in [(0.5, 0.045), (1.0, 0.028), (3.0, 0.020)] {
            let plan = Plan::new(change(setup(10_000, 10, epsilon))).unwrap();
            let mean = (0..seeds)
                .map(|seed| {
                    let batch = batch(10_000, 10, 0.2, kind, 0.0, seed);
                    error(&run(&plan, &batch, 100 + seed), &batch)
                })
                .sum::<f64>()
                / seeds as f64;
            line += &format!(" epsilon {epsilon} {mean:.4}");
            assert!(!judged || mean <= largest, "{kind:?} epsilon {epsilon}: {mean}");
        }
        println!("{line}");
    }
}

#[test]
fn errors_under_all_four_corruptions_reach_the_table() {
    table(3, |setup| setup, true);
}

#[test]
#[ignore = "20 seeds and the variants"]
fn errors_under_all_four_corruptions_in_full() {
    println!("whitened");
    table(20, |setup| setup, true);
    println!("without whitening, the table free");
    table(20, Setup::without_whitening, true);
    println!("Huber");
    table(20, |setup| Setup { influence: Influence::Huber, ..setup }, false);
}

#[test]
fn whitening_rescues_correlated_columns() {
    let mean = |change: fn(Setup) -> Setup| {
        let plan = Plan::new(change(setup(10_000, 10, 1.0))).unwrap();
        (0..3)
            .map(|seed| {
                let batch = batch(10_000, 10, 0.2, Corruption::Uniform, 0.9, seed);
                error(&run(&plan, &batch, seed), &batch)
            })
            .sum::<f64>()
            / 3.0
    };
    let (whitened, plain) = (mean(|setup| setup), mean(Setup::without_whitening));
    println!("correlation .9, epsilon 1: whitened {whitened:.3}, not {plain:.3}");
    assert!(whitened < 0.09 && whitened < plain / 2.0, "{whitened} {plain}");
}

fn coverage(simulations: u64, epsilons: &[f64], kinds: &[Corruption], slack: f64) {
    for &kind in kinds {
        for &epsilon in epsilons {
            let plan = Plan::new(setup(10_000, 10, epsilon)).unwrap();
            let mut hits = [0u32; 10];
            for seed in 0..simulations {
                let batch = batch(10_000, 10, 0.2, kind, 0.0, 7_000 + seed);
                let estimate = run(&plan, &batch, seed);
                for (column, hit) in hits.iter_mut().enumerate() {
                    let sd = estimate.covariance[(column, column)].sqrt();
                    *hit += u32::from((estimate.coefficients[column] - batch.truth[column]).abs() <= 1.959964 * sd);
                }
            }
            let shares = hits.map(|count| f64::from(count) / simulations as f64);
            let mean = shares.iter().sum::<f64>() / 10.0;
            println!("{kind:?}, epsilon {epsilon}: coverage {mean:.3} (per coefficient {shares:.3?})");
            if kind != Corruption::Collusion {
                let judged = if slack == 0.0 { shares.to_vec() } else { vec![mean] };
                for share in judged {
                    assert!((0.92 - slack..=0.98 + slack).contains(&share), "{kind:?} epsilon {epsilon}: {share}");
                }
            }
        }
    }
}

/// For normal rows of ten columns cut at the root of ten, `scipy.integrate.quad` over the density of chi with 10 degrees of
/// freedom gives the mean of `u min(u, 1)` as 0.9014 and of `min(u, 1)^2` as 0.8245.
#[test]
fn lengths_say_how_much_the_kept_rows_are_shortened() {
    let mut random = ChaCha8Rng::seed_from_u64(8);
    let normal = |random: &mut ChaCha8Rng| -> f64 { StandardNormal.sample(random) };
    let mut counts = vec![0.0; Lengths::CELLS];
    for row in 0..60_000 {
        let square: f64 = (0..10).map(|_| normal(&mut random).powi(2)).sum();
        // A sixth of the rows is long and beyond the cut.
        let (length, kept) = if row % 6 == 0 { (10.0, false) } else { ((square / 10.0).sqrt(), true) };
        counts[Lengths::cell(length, kept)] += 1.0;
    }
    let read = Lengths::read(&counts, 60_000).unwrap();
    assert!((read.crossed - 0.9014).abs() < 0.01 && (read.squared - 0.8245).abs() < 0.01, "{read:?}");
    assert_eq!(Lengths::cell(1e300, true), Lengths::CELLS - 2);
    assert!(Lengths::read(&[0.0; Lengths::CELLS], 10).is_none());
}

/// 10 simulations of 10 coefficients; the bound is more than three standard errors wider than the promise.
#[test]
fn intervals_cover_the_coefficients_of_the_clean_rows() {
    coverage(10, &[3.0], &[Corruption::Uniform, Corruption::Leverage], 0.06);
}

/// Without corruption, against the spread of 60 fits of ten coefficients: 600 draws, so 3 % of Monte Carlo error. Without the
/// lengths of the rows the standard errors would be 9 % too wide.
#[test]
fn standard_errors_are_the_spread_of_the_estimates() {
    let plan = Plan::new(setup(10_000, 10, 10.0)).unwrap();
    let (mut squares, mut variances) = (0.0, 0.0);
    for seed in 0..60 {
        let batch = batch(10_000, 10, 0.0, Corruption::None, 0.0, 3_000 + seed);
        let estimate = run(&plan, &batch, seed);
        squares += (&estimate.coefficients - &batch.truth).norm_squared();
        variances += estimate.covariance.trace();
    }
    let ratio = (variances / squares).sqrt();
    println!("standard error over spread: {ratio:.3}");
    assert!((0.93..1.03).contains(&ratio), "{ratio}");
}

/// As a study declares it: ranges and levels, of which some columns use a part, an intercept, 2 000 rows. A hundred runs; the
/// bounds are more than three standard errors wider than the promise.
#[test]
fn intervals_cover_with_an_intercept_and_columns_in_a_part_of_their_range() {
    let range = |name: &str, low, high| (name.to_owned(), ColumnBounds::Range { low, high });
    let columns =
        vec![range("age", 18.0, 80.0), range("bmi", 15.0, 50.0), range("smoker", 0.0, 1.0), range("west", 0.0, 1.0)];
    let bounds = RowBounds::new(columns, None, Some(0.2f64.sqrt())).unwrap();
    let cost = OutcomeBounds::new(0.0, 60_000.0).unwrap();
    let truth = [6_000.0, 200.0, 120.0, 12_000.0, 900.0];
    let plan = Plan::new(Setup::new(2_000, 5, gaussian_mu(3.0, 1e-5).powi(2))).unwrap();
    let (mut hits, mut far, runs) = ([0u32; 5], 0, 100);
    for seed in 0..runs {
        let mut random = ChaCha8Rng::seed_from_u64(400 + seed);
        let mut x = DMatrix::zeros(2_000, 4);
        let mut y = vec![0.0; 2_000];
        for (row, y) in y.iter_mut().enumerate() {
            let (a, b): (f64, f64) = (StandardNormal.sample(&mut random), StandardNormal.sample(&mut random));
            let indicator = |on: bool| if on { 1.0 } else { 0.0 };
            let (smoker, west) = (random.random_bool(0.25), random.random_bool(1.0 / 3.0));
            let entries = [
                random.random_range(18.0..80.0),
                (30.0 + 6.0 * a).clamp(15.0, 50.0),
                indicator(smoker),
                indicator(west),
            ];
            *y = truth[0] + entries.iter().zip(&truth[1..]).map(|(x, b)| x * b).sum::<f64>() + 2_000.0 * b;
            entries.iter().enumerate().for_each(|(column, value)| x[(row, column)] = *value);
        }
        let (rows, outcome) = ClippedRows::with_outcome(&bounds, &x, &cost, &y);
        let estimate = fitted(&plan, rows, outcome, seed).on_original_scale(&bounds, &cost);
        for (k, hit) in hits.iter_mut().enumerate() {
            let distance = (estimate.coefficients()[k] - truth[k]).abs() / estimate.covariance()[(k, k)].sqrt();
            *hit += u32::from(distance <= 1.959964);
            far += u32::from(distance > 5.0);
        }
    }
    let shares = hits.map(|hits| f64::from(hits) / runs as f64);
    println!("coverage of 95 % intervals: {shares:?}, {far} beyond 5 standard errors");
    assert!(shares.iter().all(|share| *share >= 0.85) && far == 0, "{shares:?} {far}");
}

#[test]
#[ignore = "500 simulations"]
fn intervals_cover_in_full() {
    let kinds = [Corruption::None, Corruption::Uniform, Corruption::Shift, Corruption::Leverage, Corruption::Collusion];
    coverage(500, &[1.0, 3.0, 10.0], &kinds, 0.0);
}

#[test]
fn a_hopeless_budget_is_refused_before_anything_is_spent() {
    let refused = Plan::new(setup(500, 30, 0.1));
    assert!(matches!(refused, Err(PlanError::Hopeless { rows: 500, width: 30, .. })), "{refused:?}");
    let thin = Plan::new(setup(1_500, 10, 1.0)).unwrap();
    assert!(thin.rounds() < 5, "fewer rounds where five would drown");
    for bad in [
        Setup { rows: 0, ..setup(500, 3, 1.0) },
        Setup { budget: f64::NAN, ..setup(500, 3, 1.0) },
        Setup { growth: 0.0, ..setup(500, 3, 1.0) },
        Setup { coefficient_bound: f64::INFINITY, ..setup(500, 3, 1.0) },
    ] {
        assert!(matches!(Plan::new(bad), Err(PlanError::Positive { .. })));
    }
}

#[test]
fn a_plan_charges_its_budget_to_twelve_digits_and_never_more() {
    for epsilon in [0.5, 1.0, 3.0, 10.0] {
        for plan in [setup(10_000, 10, epsilon), setup(10_000, 10, epsilon).without_whitening()] {
            let budget = plan.budget;
            let charge = Plan::new(plan).unwrap().releases().charge();
            assert!(charge <= budget && charge >= budget * (1.0 - 1e-12), "{charge} {budget}");
        }
    }
}

#[test]
fn an_invalid_row_stays_in_place_and_leaves_the_others_as_they_are() {
    let columns = vec![("x".to_owned(), ColumnBounds::Range { low: -1.0, high: 1.0 })];
    let bounds = RowBounds::new(columns, None, None).unwrap();
    let range = OutcomeBounds::new(-1.0, 1.0).unwrap();
    let x = DMatrix::from_column_slice(4, 1, &[0.1, 0.2, 0.3, 0.4]);
    let y = [0.5, 0.6, 0.7, 0.8];
    let (rows, outcome) = ClippedRows::with_outcome(&bounds, &x, &range, &y);
    for (spoiled_x, spoiled_y) in [(f64::NAN, 0.6), (f64::INFINITY, 0.6), (0.2, f64::NAN)] {
        let (mut x2, mut y2) = (x.clone(), y);
        x2[(1, 0)] = spoiled_x;
        y2[1] = spoiled_y;
        let (rows2, outcome2) = ClippedRows::with_outcome(&bounds, &x2, &range, &y2);
        assert_eq!(rows2.invalid(), 1);
        let one = DVector::from_element(1, 1.0);
        let (before, after) = (rows.products(&one, 0), rows2.products(&one, 0));
        for row in [0, 2, 3] {
            assert_eq!(before[row].to_bits(), after[row].to_bits());
            assert_eq!(outcome.values()[row].to_bits(), outcome2.values()[row].to_bits());
        }
        assert_eq!((after[1], outcome2.values()[1]), (0.0, 0.0));
    }
}

#[test]
fn the_cut_is_two_and_a_half_standard_deviations_of_the_clean_rows() {
    let mut random = ChaCha8Rng::seed_from_u64(3);
    for (share, low, high) in [(0.0, 2.3, 2.8), (0.3, 2.2, 2.9)] {
        let counts = (0..20_000).fold(vec![0.0; EDGES.with_cells()], |mut counts, index| {
            let normal: f64 = StandardNormal.sample(&mut random);
            let residual =
                if f64::from(index) < share * 20_000.0 { 0.5 + random.random::<f64>() } else { 0.03 * normal };
            counts[EDGES.cell(residual)] += 1.0;
            counts
        });
        let cut = Distribution::new(&counts, 20_000).heuristic_cut() / 0.03;
        assert!((low..high).contains(&cut), "share {share}: {cut}");
    }
}

#[test]
fn the_grid_is_where_it_says() {
    for cell in 0..EDGES.with_cells() {
        let middle = 0.5 * (EDGES.edge(cell) + EDGES.edge(cell + 1));
        assert_eq!(EDGES.cell(middle), cell);
        assert_eq!(EDGES.cell(-middle), cell);
    }
    for beyond in [10.1, 1e300, f64::INFINITY] {
        assert_eq!(EDGES.cell(beyond), EDGES.with_cells() - 1);
    }
}

/// Twenty workers of 10 000 rows at epsilon 1, each a private fit; a fifth of a good worker's rows are corrupted, and nine
/// tenths of a bad one's. The workers' estimates are consolidated with equal weights.
/// Run by hand: `cargo test --release -p fedreg-common twenty_private -- --ignored --nocapture`.
#[test]
#[ignore = "200 fits of 10 000 rows"]
fn twenty_private_workers_agree_within_the_table_whether_or_not_eight_are_bad() {
    use crate::methods::robust::consolidate::{Method, consolidate};
    use crate::methods::robust::estimate::{Estimate as Report, Estimates};
    let plan = Plan::new(setup(10_000, 10, 1.0)).unwrap();
    for (bad, largest) in [(0, 0.006), (8, 0.008)] {
        let runs = 5;
        let mut total = 0.0;
        for seed in 0..runs {
            let truth = Batch::draw(100, 10, 0.0, Corruption::None, 0.0, 9_000 + seed).unwrap().coefficients();
            let mut all = Estimates::new(10, false);
            for worker in 0..20u64 {
                let share = if worker < bad { 0.9 } else { 0.2 };
                let rows =
                    Batch::draw_around(&truth, 10_000, share, Corruption::Uniform, 1_000 * seed + worker).unwrap();
                let estimate = run(&plan, &rows, 1_000 * seed + worker);
                all.insert(Report {
                    worker: format!("w{worker}"),
                    batch: 1,
                    coefficients: (estimate.coefficients * (HALF_RANGE / 10f64.sqrt())).as_slice().to_vec(),
                    gram: None,
                    nobs: 10_000,
                    kept: 10_000,
                    scale: 0.1f64.sqrt(),
                    cleaned: true,
                })
                .unwrap();
            }
            let consensus = consolidate(&all, &Method::Refine.into()).unwrap();
            total += (DVector::from_vec(consensus.coefficients.as_slice().to_vec()) - truth).norm();
        }
        let mean = total / runs as f64;
        println!("{bad} of 20 bad: {mean:.4}");
        assert!(mean <= largest, "{bad} of 20 bad: {mean}");
    }
}

/// A column in the middle third of its public range is nearly the intercept once it is centred: the direction between them has a
/// thousandth of the rows' weight, and five rounds do not finish it.
#[test]
fn what_the_rounds_leave_unfinished_is_in_the_intervals() {
    let column = |name: &str, low, high| (name.to_owned(), ColumnBounds::Range { low, high });
    let columns = vec![column("a", 0.0, 1.0), column("b", 0.0, 100.0)];
    let bounds = RowBounds::new(columns, None, Some((1.0f64 / 3.0).sqrt())).unwrap();
    let range = OutcomeBounds::new(-60.0, 20.0).unwrap();
    let truth = [3.0, 2.0, -0.5];
    let plan = Plan::new(Setup::new(1000, 3, gaussian_mu(3.0, 1e-5).powi(2))).unwrap();
    let (mut hits, runs) = ([0u32; 3], 20);
    for seed in 0..runs {
        let mut random = ChaCha8Rng::seed_from_u64(900 + seed);
        let mut normal = || -> f64 { StandardNormal.sample(&mut random) };
        let b: Vec<f64> = (0..1000).map(|_| 50.0 + 3.0 * normal()).collect();
        let x = DMatrix::from_fn(1000, 2, |i, j| if j == 0 { (i % 10) as f64 / 9.0 } else { b[i] });
        let y: Vec<f64> =
            (0..1000).map(|i| truth[0] + truth[1] * x[(i, 0)] + truth[2] * x[(i, 1)] + normal()).collect();
        let (rows, outcome) = ClippedRows::with_outcome(&bounds, &x, &range, &y);
        let estimate = fitted(&plan, rows, outcome, seed).on_original_scale(&bounds, &range);
        for (k, hit) in hits.iter_mut().enumerate() {
            let sd = estimate.covariance()[(k, k)].sqrt();
            *hit += u32::from((estimate.coefficients()[k] - truth[k]).abs() <= 1.959964 * sd);
        }
    }
    let shares = hits.map(|hits| f64::from(hits) / runs as f64);
    println!("coverage of 95 % intervals: {shares:?}");
    assert!(shares.iter().all(|share| *share >= 0.8), "{shares:?}");
}

/// The same in the average of nine batches, weighted by their precision as the coordinator does: what is unfinished is the same in all of them
/// and does not get smaller. Counted once in each batch, it is averaged away in the covariance, and intervals miss.
#[test]
fn what_all_batches_leave_unfinished_is_in_the_intervals_of_their_average() {
    let column = |name: &str, low, high| (name.to_owned(), ColumnBounds::Range { low, high });
    let bounds =
        RowBounds::new(vec![column("a", 0.0, 1.0), column("b", 0.0, 100.0)], None, Some((1.0f64 / 3.0).sqrt()))
            .unwrap();
    let range = OutcomeBounds::new(-60.0, 20.0).unwrap();
    let truth = DVector::from_vec(vec![3.0, 2.0, -0.5]);
    let plan = Plan::new(Setup::new(1000, 3, gaussian_mu(3.0, 1e-5).powi(2))).unwrap();
    let coverage = |together: u64| {
        let (mut hits, runs, batches) = (0u32, 12, 9);
        for run in 0..runs {
            let (mut precision, mut weighted) = (DMatrix::zeros(3, 3), DVector::zeros(3));
            for batch in 0..batches {
                let seed = 900 + run * batches + batch;
                let mut random = ChaCha8Rng::seed_from_u64(seed);
                let mut normal = || -> f64 { StandardNormal.sample(&mut random) };
                let b: Vec<f64> = (0..1000).map(|_| 50.0 + 3.0 * normal()).collect();
                let x = DMatrix::from_fn(1000, 2, |i, j| if j == 0 { (i % 10) as f64 / 9.0 } else { b[i] });
                let y: Vec<f64> =
                    (0..1000).map(|i| truth[0] + truth[1] * x[(i, 0)] + truth[2] * x[(i, 1)] + normal()).collect();
                let (rows, outcome) = ClippedRows::with_outcome(&bounds, &x, &range, &y);
                let estimate = fitted_of(&plan, rows, outcome, seed, together).on_original_scale(&bounds, &range);
                let own = estimate.covariance().clone().try_inverse().unwrap();
                weighted += &own * estimate.coefficients();
                precision += own;
            }
            let covariance = precision.try_inverse().unwrap();
            let off = &covariance * weighted - &truth;
            hits += (0..3).filter(|k| off[*k].abs() <= 1.959964 * covariance[(*k, *k)].sqrt()).count() as u32;
        }
        f64::from(hits) / (3.0 * runs as f64)
    };
    let (counted, averaged) = (coverage(9), coverage(1));
    println!("coverage: {counted:.3}, and {averaged:.3} if what is unfinished were averaged away");
    assert!(counted >= 0.85 && averaged < 0.75, "{counted} {averaged}");
}

/// Fits of rows of a design: how many of the 95 % intervals cover, and how far the estimates lie in standard errors.
struct Trial {
    coverage: f64,
    beyond_three: f64,
    /// Spread over the root of the mean variance that is stated.
    spread: f64,
    /// Mean error of each coefficient in stated standard errors.
    bias: Vec<f64>,
}

fn trial(
    plan: &Plan,
    (bounds, outcome, truth): (&RowBounds, &OutcomeBounds, &[f64]),
    runs: u64,
    draw: impl Fn(&mut ChaCha8Rng) -> (Vec<f64>, f64),
) -> Trial {
    let (rows, width) = (plan.setup().rows, truth.len() - 1);
    let (mut hits, mut far, mut squares) = (0u32, 0u32, 0.0);
    let mut bias = vec![0.0; truth.len()];
    for seed in 0..runs {
        let mut random = ChaCha8Rng::seed_from_u64(5_000 + seed);
        let mut x = DMatrix::zeros(rows, width);
        let mut y = vec![0.0; rows];
        for row in 0..rows {
            let (entries, noise) = draw(&mut random);
            y[row] = truth[0] + entries.iter().zip(&truth[1..]).map(|(x, b)| x * b).sum::<f64>() + noise;
            entries.iter().enumerate().for_each(|(column, value)| x[(row, column)] = *value);
        }
        let (clipped, response) = ClippedRows::with_outcome(bounds, &x, outcome, &y);
        let estimate = fitted(plan, clipped, response, seed).on_original_scale(bounds, outcome);
        for (k, bias) in bias.iter_mut().enumerate() {
            let distance = (estimate.coefficients()[k] - truth[k]) / estimate.covariance()[(k, k)].sqrt();
            hits += u32::from(distance.abs() <= 1.959964);
            far += u32::from(distance.abs() > 3.0);
            squares += distance * distance;
            *bias += distance / runs as f64;
        }
    }
    let all = runs as f64 * truth.len() as f64;
    Trial { coverage: f64::from(hits) / all, beyond_three: f64::from(far) / all, spread: (squares / all).sqrt(), bias }
}

/// Run by hand: `cargo test --release -p fedreg-common coverage_of_small -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement: 200 fits of each of 48 settings"]
fn coverage_of_small_batches() {
    let range = |name: &str, low, high| (name.to_owned(), ColumnBounds::Range { low, high });
    let csv = include_str!("../../../../../examples/data/diabetes.csv");
    let table: Vec<Vec<f64>> =
        csv.lines().skip(1).map(|line| line.split(',').skip(1).map(|cell| cell.parse().unwrap()).collect()).collect();
    let columns = [1, 2, 3, 8];
    let diabetes = RowBounds::new(
        vec![range("sex", 1.0, 2.0), range("bmi", 15.0, 50.0), range("bp", 50.0, 150.0), range("s5", 3.0, 6.5)],
        None,
        Some(0.2f64.sqrt()),
    )
    .unwrap();
    let progression = OutcomeBounds::new(0.0, 350.0).unwrap();
    let costs = RowBounds::new(
        vec![range("age", 18.0, 80.0), range("bmi", 15.0, 50.0), range("smoker", 0.0, 1.0), range("west", 0.0, 1.0)],
        None,
        Some(0.2f64.sqrt()),
    )
    .unwrap();
    let cost = OutcomeBounds::new(0.0, 60_000.0).unwrap();
    for rows in [147, 300, 600, 1000, 2000, 4000, 10_000] {
        for epsilon in [1.0, 3.0, 10.0] {
            let mu = gaussian_mu(epsilon, 1e-5);
            let plan = match Plan::new(Setup::new(rows, 5, mu * mu)) {
                Ok(plan) => plan,
                Err(error) => {
                    println!("{rows} {epsilon}: {error}");
                    continue;
                }
            };
            let histogram = plan.releases().releases()[1].mu;
            let counts = std::f64::consts::SQRT_2 / histogram * 26f64.sqrt() / rows as f64;
            let runs = 200;
            let first = trial(&plan, (&diabetes, &progression, &[-334.5, -14.3, 6.85, 0.787, 54.6]), runs, |random| {
                let row = &table[random.random_range(0..table.len())];
                let noise: f64 = StandardNormal.sample(random);
                (columns.iter().map(|column| row[*column]).collect(), 54.0 * noise)
            });
            let second = trial(&plan, (&costs, &cost, &[6_000.0, 200.0, 120.0, 12_000.0, 900.0]), runs, |random| {
                let (a, b): (f64, f64) = (StandardNormal.sample(random), StandardNormal.sample(random));
                let smoker = f64::from(u8::from(random.random_bool(0.25)));
                let west = f64::from(u8::from(random.random_bool(1.0 / 3.0)));
                (vec![random.random_range(18.0..80.0), (30.0 + 6.0 * a).clamp(15.0, 50.0), smoker, west], 2_000.0 * b)
            });
            for (name, found) in [("diabetes", first), ("costs", second)] {
                println!(
                    "{name} {rows} rows, epsilon {epsilon}, {} rounds, first noise {:.3}, counts {counts:.3}: cover {:.3}, beyond 3 \
                     {:.4}, spread {:.2}, bias {:.2?}",
                    plan.rounds(),
                    plan.first_noise,
                    found.coverage,
                    found.beyond_three,
                    found.spread,
                    found.bias
                );
            }
        }
    }
}
