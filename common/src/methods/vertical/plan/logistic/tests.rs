use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

use super::*;
use crate::methods::vertical::plan::{Outlook, PrivatePlan};
use crate::privacy::accountant::gaussian_mu;
use crate::privacy::bounds::{ColumnBounds, RowBounds};
use crate::research::logistic::{DrawnRows, SLOPES, largest};
use crate::secure::product::Blocks;
use crate::secure::ring::{Elements, Width};

/// What an outcome is and who holds it.
type Held = (Outcomes, OutcomeAt);

const EVENTS: [Held; 2] = [(Outcomes::Events, OutcomeAt::Both), (Outcomes::Events, OutcomeAt::Alice)];
const COUNTS: [Held; 2] = [(Outcomes::Counts, OutcomeAt::Both), (Outcomes::Counts, OutcomeAt::Alice)];
const ALL: [Held; 4] = [EVENTS[0], EVENTS[1], COUNTS[0], COUNTS[1]];

fn setup(rows: usize, width: usize, (outcomes, outcome): Held, budget: f64) -> LogisticSetup {
    LogisticSetup { rows, alice_width: width, bob_width: width, outcome, outcomes, budget }
}

fn plan(rows: usize, width: usize, held: Held, budget: f64) -> LogisticPlan {
    LogisticPlan::new(setup(rows, width, held, budget)).unwrap()
}

fn bounds(width: usize) -> RowBounds {
    let column = |at: usize| (format!("x{at}"), ColumnBounds::Centred { centre: 0.0, scale: 1.0 });
    RowBounds::new((0..width).map(column).collect(), Some(1.0), None).unwrap()
}

/// Rows of both parties and an outcome: counts as shares of the largest one.
struct Data {
    rows: [ClippedRows; 2],
    y: Vec<f64>,
}

impl Data {
    fn draw(outcomes: Outcomes, rows: usize, seed: u64) -> Data {
        Data::of(outcomes, &DrawnRows::draw(outcomes.family(), rows, seed).unwrap())
    }

    fn of(outcomes: Outcomes, drawn: &DrawnRows) -> Data {
        let rows = [0, 5].map(|at| ClippedRows::new(&bounds(5), &drawn.columns.columns(at, 5).into_owned()));
        Data { rows, y: drawn.y.iter().map(|y| y / largest(outcomes.family())).collect() }
    }
}

/// Ones and the entries of both parties' rows.
fn matrix(rows: &[ClippedRows; 2]) -> DMatrix<f64> {
    let widths = rows.each_ref().map(ClippedRows::width);
    let entries = rows.each_ref().map(|of| of.integers(0..of.len()));
    DMatrix::from_fn(rows[0].len(), 1 + widths[0] + widths[1], |row, column| match column {
        0 => 1.0,
        at if at <= widths[0] => f64::from(entries[0][row * widths[0] + at - 1]) / 32_768.0,
        at => f64::from(entries[1][row * widths[1] + at - 1 - widths[0]]) / 32_768.0,
    })
}

/// Whole numbers of the means at a point, by both parties' factors.
fn means(fit: &LogisticFit, scale: GradientScale, rows: &[ClippedRows; 2]) -> Vec<i64> {
    let (intercept, parts) = fit.point();
    let root = (scale.whole() as f64).sqrt();
    if scale.outcomes == Outcomes::Counts {
        let factors = [0, 1].map(|side: usize| -> Vec<i64> {
            let (entries, end) = (rows[side].integers(0..rows[side].len()), fit.ends()[side]);
            let part =
                |row: &[i32]| -> f64 { row.iter().zip(parts[side].iter()).map(|(x, b)| f64::from(*x) * b).sum() };
            let factor = |row: &[i32]| (root * (part(row) / 32_768.0 - end).min(0.0).exp()).round() as i64;
            entries.chunks(rows[side].width()).map(factor).collect()
        });
        return factors[0].iter().zip(&factors[1]).map(|(first, second)| first * second).collect();
    }
    let (separated, polynomials) = fit.kernel().unwrap();
    let eta = [0, 1].map(|side: usize| -> Vec<f64> {
        let of = &rows[side];
        let add = if (side == 0) == (polynomials == Side::Alice) { 0.0 } else { intercept };
        let row = |entries: &[i32]| entries.iter().zip(parts[side].iter()).map(|(x, b)| f64::from(*x) * b).sum::<f64>();
        of.integers(0..of.len()).chunks(of.width()).map(|entries| row(entries) / 32_768.0 + add).collect()
    });
    let (own, other) = if polynomials == Side::Alice { (&eta[0], &eta[1]) } else { (&eta[1], &eta[0]) };
    let (mut left, mut right) = (Vec::new(), Vec::new());
    separated.polynomials(own, &mut left);
    separated.functions(other, &mut right);
    let count = own.len();
    (0..count)
        .map(|row| {
            let constant = (right[row] * scale.whole() as f64).round() as i64;
            let product = |k: usize| {
                (left[k * count + row] * root).round() as i64 * (right[k * count + row] * root).round() as i64
            };
            constant + (1..separated.terms).map(product).sum::<i64>()
        })
        .collect()
}

/// The same by what leaves of either party behind masks, and by what each adds to its share.
fn on_shares(fit: &LogisticFit, rows: &[ClippedRows; 2]) -> Vec<i64> {
    let count = rows[0].len();
    let halves = [Side::Alice, Side::Bob].map(|side| fit.means(side, &rows[usize::from(side)]).unwrap());
    let factors = halves.each_ref().map(|half| {
        let mut out = Vec::new();
        half.fill(0..count, &mut out);
        out
    });
    let mut added = vec![Elements::zeros(Width::Two, count)];
    halves.iter().for_each(|half| half.complete(&mut added, None).unwrap());
    let added = added[0].to_integers();
    let ([left, right], terms) = (&factors, halves[0].columns());
    let mean = |row: usize| -> f64 { (0..terms).map(|k| left[k * count + row] * right[k * count + row]).sum() };
    (0..count).map(|row| mean(row) as i64 + added[row] as i64).collect()
}

/// Rows at the ends of long points, and a scale of every size: no factor is beyond the root, so no mean beyond the largest count.
#[test]
fn no_mean_of_counts_is_beyond_the_largest_count() {
    let rows = [0, 1].map(|_| {
        let value = |row: usize, j: usize| [[1.0, 0.0], [-1.0, 0.0], [0.6, 0.8], [0.0, -1.0], [0.0, 0.0]][row][j];
        ClippedRows::new(&bounds(2), &DMatrix::from_fn(5, 2, value))
    });
    let (mut reached, mut beyond) = (0, 0);
    for step in 0..40 {
        let plan = plan(5, 2, COUNTS[0], 0.5 * 1.1_f64.powi(step));
        for level in [-2.0, -0.3, 0.0, 4.0] {
            let tables = [DMatrix::identity(2, 2), DMatrix::identity(2, 2)];
            let (score, sums) =
                (DVector::from_vec(vec![9.0, -3.0, 4.0, 8.0]), DVector::from_vec(vec![0.1, 0.2, -0.1, 0.3]));
            let mut fit =
                plan.begin(&LogisticTables { tables, cross: DMatrix::zeros(2, 2), score, sums, mean: 0.5 }).unwrap();
            fit.point[0] = level;
            fit.point.rows_mut(1, 4).scale_mut(5.0);
            let whole = fit.scale().unwrap().whole() as i64;
            let means = on_shares(&fit, &rows);
            assert_eq!(means.iter().find(|mean| !(0..=whole).contains(*mean)), None, "{whole} {means:?}");
            reached += means.iter().filter(|mean| **mean == whole).count();
            let (intercept, parts) = fit.point();
            beyond += usize::from(intercept + parts[0].norm() + parts[1].norm() > 0.0);
        }
    }
    assert!(reached > 40 && beyond > 40, "{reached} at the largest count, {beyond} points beyond it");
}

/// A gradient in whole numbers: the sum of the residuals times 2^15, then products with both blocks.
pub(crate) fn gradient(fit: &LogisticFit, scale: GradientScale, rows: &[ClippedRows; 2], y: &[f64]) -> Vec<i128> {
    let residuals: Vec<i128> = means(fit, scale, rows)
        .iter()
        .zip(y)
        .map(|(mean, y)| i128::from(*mean) - (y * scale.whole() as f64).round() as i128)
        .collect();
    let mut sums = vec![residuals.iter().sum::<i128>() << 15];
    for of in rows {
        let entries = of.integers(0..of.len());
        sums.extend((0..of.width()).map(|j| {
            residuals.iter().enumerate().map(|(row, r)| r * i128::from(entries[row * of.width() + j])).sum::<i128>()
        }));
    }
    sums
}

/// Noise of the common law, rounded to whole numbers: what errors are measured with needs no sampler without rounding.
fn noise(random: &mut ChaCha8Rng) -> i128 {
    let drawn: f64 = StandardNormal.sample(random);
    (drawn * SCALE as f64).round() as i128
}

/// The table as it opens, with noise of every release.
fn table(plan: &LogisticPlan, data: &Data, random: &mut ChaCha8Rng) -> LogisticTables {
    let x = matrix(&data.rows);
    let product = x.tr_mul(&x);
    let (alice, bob) = (plan.setup.alice_width, plan.setup.bob_width);
    let mut noise = |sigma: f64| noise(random) as f64 / SCALE as f64 * sigma;
    let mut own = |first: usize, width: usize, sigma: f64| {
        let mut table = product.view((first, first), (width, width)).into_owned();
        for j in 0..width {
            for k in 0..=j {
                // Entries off the diagonal have half of the variance.
                let drawn = noise(if j == k { sigma } else { sigma / 2f64.sqrt() });
                table[(j, k)] += drawn;
                table[(k, j)] = table[(j, k)];
            }
        }
        table
    };
    let tables = [own(1, alice, plan.alice.table_sigma), own(1 + alice, bob, plan.bob.table_sigma)];
    let share = plan.scale().sigma();
    let cross = product.view((1, 1 + alice), (alice, bob)).map(|value| value + noise(share) + noise(share));
    let signs = DVector::from_iterator(data.y.len(), data.y.iter().map(|y| 2.0 * y - 1.0));
    let (of_alice, of_bob) = (&plan.alice, &plan.bob);
    let mut mean = data.y.iter().sum::<f64>() / data.y.len() as f64;
    let mut score = x.tr_mul(&signs).rows(1, alice + bob).into_owned();
    score.rows_mut(0, alice).apply(|value| *value += noise(of_alice.score_sigma));
    match plan.setup.outcome {
        OutcomeAt::Both => score.rows_mut(alice, bob).apply(|value| *value += noise(of_bob.score_sigma)),
        OutcomeAt::Alice => {
            score.rows_mut(alice, bob).apply(|value| *value += noise(share) + noise(share));
            mean = plan.mean_within_noise(mean + noise(of_alice.score_sigma) / data.y.len() as f64);
        }
    }
    let mut sums = product.view((1, 0), (alice + bob, 1)).column(0).into_owned();
    sums.rows_mut(0, alice).apply(|value| *value += noise(of_alice.sums_sigma));
    sums.rows_mut(alice, bob).apply(|value| *value += noise(of_bob.sums_sigma));
    LogisticTables { tables, cross, score, sums, mean }
}

/// A whole run on whole numbers; `seen` gets every fit with its gradient before it is taken.
fn run(plan: &LogisticPlan, data: &Data, seed: u64, mut seen: impl FnMut(&LogisticFit, GradientScale)) -> LogisticFit {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut fit = plan.begin(&table(plan, data, &mut random)).unwrap();
    for scale in plan.gradients {
        seen(&fit, scale);
        let exact = gradient(&fit, scale, &data.rows, &data.y);
        let draws = plan.replaced(Side::Alice).draws() + plan.replaced(Side::Bob).draws();
        let mut both = || (0..draws).map(|_| noise(&mut random)).sum::<i128>();
        let mut noised = |exact: &i128| (exact + both()) as f64 * scale.step();
        let opened: Vec<f64> = exact.iter().map(&mut noised).collect();
        assert!(fit.take(&DVector::from_vec(opened)));
    }
    fit
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn errors(rows: usize, epsilon: f64, held: Held, seeds: u64) -> f64 {
    let plan = plan(rows, 5, held, gaussian_mu(epsilon, 1e-5).powi(2));
    let error = |seed: u64| {
        let drawn = DrawnRows::draw(held.0.family(), rows, 100 + seed).unwrap();
        let values = run(&plan, &Data::of(held.0, &drawn), 7 + seed, |_, _| {}).finish().unwrap().0;
        drawn.error(&values.rows(1, 10).into_owned())
    };
    median((0..seeds).map(error).collect())
}

#[test]
fn errors_are_those_that_were_asked_for() {
    for (epsilon, most) in [(1.0, 0.11), (3.0, 0.035), (10.0, 0.013)] {
        let measured = errors(10_000, epsilon, EVENTS[0], 50);
        println!("10000 rows, epsilon {epsilon}: median error {measured:.4}, asked for {most}");
        assert!(measured <= most, "{epsilon}: {measured}");
    }
}

#[test]
fn an_outcome_that_alice_holds_alone_costs_little_more() {
    for (epsilon, most) in [(1.0, 0.15), (3.0, 0.05), (10.0, 0.016)] {
        let measured = errors(10_000, epsilon, EVENTS[1], 25);
        println!("outcome at Alice, 10000 rows, epsilon {epsilon}: median error {measured:.4}");
        assert!(measured <= most, "{epsilon}: {measured}");
    }
}

#[test]
#[ignore = "150 fits of 100 000 rows"]
fn errors_of_many_rows_are_those_that_were_asked_for() {
    for (epsilon, most) in [(1.0, 0.010), (3.0, 0.004), (10.0, 0.0015)] {
        let measured = errors(100_000, epsilon, EVENTS[0], 50);
        println!("100000 rows, epsilon {epsilon}: median error {measured:.5}, asked for {most}");
        assert!(measured <= most, "{epsilon}: {measured}");
    }
}

/// Within 30 % of the medians of numpy's simulation of what opens (`tests/vectors/make/private_counts.py`, of 50 and 15 draws). With what the cut of
/// means moves left in they are .2133, .0758 and .0375, and .0268, .0232 and .0224.
#[test]
fn errors_of_counts_are_those_that_were_asked_for() {
    for (epsilon, oracle) in [(1.0, 0.1901), (3.0, 0.0700), (10.0, 0.0263)] {
        let measured = errors(10_000, epsilon, COUNTS[0], 25);
        println!("counts, 10000 rows, epsilon {epsilon}: median error {measured:.4}, numpy {oracle}");
        assert!(measured <= 1.3 * oracle, "{epsilon}: {measured}");
    }
}

#[test]
#[ignore = "75 fits of 100 000 rows"]
fn errors_of_many_counts_are_those_that_were_asked_for() {
    for (epsilon, oracle) in [(1.0, 0.0191), (3.0, 0.0091), (10.0, 0.0064)] {
        let measured = errors(100_000, epsilon, COUNTS[0], 25);
        println!("counts, 100000 rows, epsilon {epsilon}: median error {measured:.5}, numpy {oracle}");
        assert!(measured <= 1.3 * oracle, "{epsilon}: {measured}");
    }
}

/// Over many draws of a normal linear predictor, to a thousandth of the mean.
#[test]
fn what_the_cut_takes_is_that_of_a_normal_linear_predictor() {
    use super::counts::Parts;
    let mut random = ChaCha8Rng::seed_from_u64(31);
    let mut normal = || -> f64 { StandardNormal.sample(&mut random) };
    let draws: Vec<[f64; 2]> = (0..400_000).map(|_| [normal(), normal()]).collect();
    for (level, spreads, correlation) in [(-1.5, [0.4, 0.7], 0.3), (-0.4, [0.6, 0.2], -0.5), (-3.0, [1.2, 0.5], 0.0)] {
        let parts = Parts { level, spreads, correlation };
        let end = -level / (spreads[0] + spreads[1]);
        let rest = (1.0_f64 - correlation * correlation).sqrt();
        let mut sums = [0.0; 4];
        for [first, second] in &draws {
            let z = [*first, correlation * first + rest * second];
            let cut = (level + spreads[0] * z[0].min(end) + spreads[1] * z[1].min(end)).exp();
            let whole = (level + spreads[0] * z[0] + spreads[1] * z[1]).exp();
            let of = [cut - whole, if z[0] < end { cut } else { 0.0 }, if z[1] < end { cut } else { 0.0 }, whole];
            sums.iter_mut().zip(of).for_each(|(sum, value)| *sum += value / draws.len() as f64);
        }
        let missing = parts.missing();
        let whole = parts.whole();
        println!("{parts:?}: {missing:?}, drawn {sums:?}, whole {whole}");
        let off =
            [missing.mean - sums[0], missing.slopes[0] - (sums[1] - sums[3]), missing.slopes[1] - (sums[2] - sums[3])];
        assert!(missing.mean < -0.005 * whole && off.iter().all(|off| off.abs() < 0.006 * whole), "{parts:?}: {off:?}");
    }
}

/// 100 data sets of 10 slopes: the share has a standard deviation of about .008.
#[test]
fn intervals_cover_what_they_say() {
    for held_by in EVENTS {
        let outcome = held_by.1;
        for epsilon in [1.0, 3.0, 10.0] {
            let plan = plan(10_000, 5, held_by, gaussian_mu(epsilon, 1e-5).powi(2));
            let mut held = 0;
            for seed in 0..100 {
                let (values, covariance, _) =
                    run(&plan, &Data::draw(Outcomes::Events, 10_000, 5_000 + seed), seed, |_, _| {}).finish().unwrap();
                let within = |j: &usize| (values[*j] - SLOPES[*j - 1]).abs() <= 1.959_964 * covariance[(*j, *j)].sqrt();
                held += (1..=10).filter(within).count();
            }
            let share = held as f64 / 1_000.0;
            println!("outcome at {outcome:?}, epsilon {epsilon}: coverage {share:.3}");
            assert!((0.92..0.97).contains(&share), "{outcome:?} {epsilon}: {share}");
        }
    }
}

/// Normal columns of standard deviation .4 and correlation .3, two at each party, cut at 1, with slopes of alternating sign, of
/// ranges that are `wide` times what they need; and the coefficients of unit rows, the intercept first.
fn wide(rows: usize, wide: f64, (intercept, slope): (f64, f64), seed: u64) -> (Data, Vec<f64>) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut normal = || -> f64 { StandardNormal.sample(&mut random) };
    let columns = DMatrix::from_row_iterator(
        rows,
        4,
        (0..rows).flat_map(|_| {
            let common = normal() * 0.3f64.sqrt();
            [0; 4].map(|_| (0.4 * (normal() * 0.7f64.sqrt() + common)).clamp(-1.0, 1.0))
        }),
    );
    let radius = wide * 2f64.sqrt();
    let unit = &columns / radius;
    let slopes = DVector::from_vec([1.0, -1.0, 1.0, -1.0].map(|sign| sign * slope).to_vec());
    let eta = columns * &slopes;
    let y = eta.iter().map(|eta| f64::from(u8::from(random.random::<f64>() < Family::Binomial.mean(intercept + eta))));
    let y = y.collect();
    let rows = [0, 2].map(|at| ClippedRows::new(&bounds(2), &unit.columns(at, 2).into_owned()));
    (Data { rows, y }, std::iter::once(intercept).chain(slopes.iter().map(|slope| slope * radius)).collect())
}

/// Coverage of 95 % intervals, of intercepts and of slopes.
#[derive(Debug, Default)]
struct Coverage {
    fits: f64,
    intercepts: f64,
    slopes: f64,
}

impl Coverage {
    fn count(&mut self, values: &DVector<f64>, covariance: &DMatrix<f64>, truth: &[f64]) {
        let within =
            |j: usize| f64::from(u8::from((values[j] - truth[j]).abs() <= 1.959_964 * covariance[(j, j)].sqrt()));
        self.fits += 1.0;
        self.intercepts += within(0);
        self.slopes += (1..5).map(within).sum::<f64>() / 4.0;
    }

    /// Of intercepts and of slopes; nothing where there are no fits.
    fn shares(&self) -> Option<[f64; 2]> {
        (self.fits > 0.0).then(|| [self.intercepts / self.fits, self.slopes / self.fits])
    }
}

/// Coverage of the fits without a caution, and of all of them by the noise alone, without what the last step leaves.
fn held_by_intervals(plan: &LogisticPlan, shape: (f64, (f64, f64)), seeds: u64) -> (Coverage, Coverage) {
    let (mut shown, mut all) = (Coverage::default(), Coverage::default());
    for seed in 0..seeds {
        let (data, truth) = wide(plan.setup.rows, shape.0, shape.1, 700 + seed);
        let fit = run(plan, &data, seed, |_, _| {});
        let (values, covariance, _) = fit.finish().unwrap();
        if fit.caution().is_none() {
            shown.count(&values, &covariance, &truth);
        }
        let mut map = DMatrix::identity(5, 5);
        map.view_mut((0, 1), (1, 4)).copy_from(&-fit.means.transpose());
        let left = &map * fit.left_of_last_step().unwrap() * map.transpose();
        all.count(&values, &(covariance - left), &truth);
    }
    (shown, all)
}

/// The same 10,000 rows in ranges as wide as needed, and three times as wide.
#[test]
fn noise_that_is_not_small_beside_the_table_withholds_intervals() {
    let plan = plan(10_000, 2, EVENTS[0], gaussian_mu(3.0, 1e-6).powi(2));
    let fit = |wider: f64| run(&plan, &wide(10_000, wider, (-0.5, 1.0), 700).0, 1, |_, _| {});
    let (near, far) = (fit(1.0), fit(3.0));
    assert!(near.doubt().noise < 0.1 && near.caution().is_none(), "{:?}", near.doubt());
    let caution = far.caution().unwrap();
    assert!(far.doubt().noise > 0.3 && caution.inference_withheld, "{:?}", far.doubt());
    assert!(caution.reasons[0].contains("of its smallest eigenvalue"), "{caution:?}");
    assert!(
        caution.reasons[0]
            .ends_with("narrower ranges, a smaller `row_norm`, more rows or a larger epsilon make it less")
    );
    // And it is foretold, where it is declared how long rows are.
    let expected = |wider: f64, plan: LogisticPlan| {
        let (rows, square) = (bounds(2), 0.16 / wider.powi(2));
        Outlook::new(&PrivatePlan::Logistic(plan), &[&rows, &rows], Some(0.3), Some(square), (None, None))
    };
    for (wider, fit) in [(1.0, &near), (3.0, &far)] {
        let (foretold, opened) = (expected(wider, plan.clone()).table_noise.unwrap(), fit.doubt().noise);
        assert!((0.75..1.33).contains(&(foretold / opened)), "{foretold} for {opened}");
    }
    assert_eq!(expected(1.0, plan.clone()).withheld(), None);
    let warned = expected(3.0, plan.clone()).withheld().unwrap();
    assert!(warned.starts_with("warning: the report is expected to withhold intervals"), "{warned}");
}

/// 2 % of the outcomes are 1.
#[test]
fn a_last_step_that_is_long_withholds_intervals() {
    let of = |epsilon: f64| plan(10_000, 2, EVENTS[1], gaussian_mu(epsilon, 1e-6).powi(2));
    let fit = |epsilon: f64| run(&of(epsilon), &wide(10_000, 1.0, (-4.0, 0.8), 706).0, 6, |_, _| {});
    let (little, much) = (fit(10.0), fit(2.0));
    assert!(little.caution().is_none(), "{:?}", little.doubt());
    assert!(much.doubt().noise < 0.3 && much.doubt().left > 0.15, "{:?}", much.doubt());
    let caution = much.caution().unwrap();
    assert!(caution.inference_withheld && caution.reasons[0].contains("log odds (root mean square)"), "{caution:?}");
}

/// Where no caution stands intervals hold what they say: with ranges twice as wide as needed, and with 2 % of the outcomes 1.
#[test]
fn intervals_that_are_not_withheld_cover_what_they_say() {
    for (shape, held, epsilon) in [
        ((2.0, (-0.5, 1.0)), EVENTS[0], 3.0),
        ((1.0, (-4.0, 0.8)), EVENTS[0], 5.0),
        ((1.0, (-4.0, 0.8)), EVENTS[1], 5.0),
    ] {
        let plan = plan(10_000, 2, held, gaussian_mu(epsilon, 1e-6).powi(2));
        let (shown, _) = held_by_intervals(&plan, shape, 60);
        let [intercepts, slopes] = shown.shares().unwrap();
        println!(
            "{shape:?} {held:?}, epsilon {epsilon}: intercepts {intercepts:.3}, slopes {slopes:.3} of {}",
            shown.fits
        );
        assert!(
            intercepts >= 0.90 && slopes >= 0.92 && shown.fits > 15.0,
            "{shape:?}: {intercepts} {slopes} {shown:?}"
        );
    }
}

/// The table of `docs/privacy.md`.
#[test]
#[ignore = "1050 fits of 3,000 to 10,000 rows"]
fn coverage_of_noisy_fits() {
    for (name, rows, shape, held, epsilon) in [
        ("ranges as wide as need be", 10_000, (1.0, (-0.5, 1.0)), EVENTS[0], 3.0),
        ("ranges twice as wide", 10_000, (2.0, (-0.5, 1.0)), EVENTS[0], 3.0),
        ("ranges three times as wide", 10_000, (3.0, (-0.5, 1.0)), EVENTS[0], 3.0),
        ("2 % ones", 10_000, (1.0, (-4.0, 0.8)), EVENTS[0], 3.0),
        ("2 % ones, outcome at Alice alone", 10_000, (1.0, (-4.0, 0.8)), EVENTS[1], 3.0),
        ("2 % ones, epsilon 10", 10_000, (1.0, (-4.0, 0.8)), EVENTS[0], 10.0),
        ("3,000 rows", 3_000, (1.0, (-0.5, 1.0)), EVENTS[0], 3.0),
    ] {
        let plan = plan(rows, 2, held, gaussian_mu(epsilon, 1e-6).powi(2));
        let (shown, all) = held_by_intervals(&plan, shape, 150);
        println!(
            "{name}: {} of 150 have intervals, {:.3?}; by noise alone {:.3?}",
            shown.fits,
            shown.shares(),
            all.shares()
        );
    }
}

#[test]
fn the_charge_is_within_the_budget_and_near_it() {
    for held in ALL {
        let outcome = held.1;
        for budget in [0.07, 0.5, 4.0, 100.0] {
            let plan = plan(1000, 3, held, budget);
            for side in [Side::Alice, Side::Bob] {
                let charge = plan.side(side).releases.charge();
                // The noise that Alice adds for her outcome leaves her a little of the gradients' part, and the squares of counts leave less.
                let least = match (plan.replaced(side), held.0) {
                    (Replaced::Row, Outcomes::Events) => 0.999,
                    (Replaced::Row, Outcomes::Counts) => 0.99,
                    (Replaced::RowAndOutcome, _) => 0.93,
                };
                assert!(charge <= budget && charge >= least * budget, "{outcome:?} {side:?} {budget} {charge}");
                let releases = plan.side(side).releases.releases().len();
                assert_eq!(releases, plan.side(side).order().len());
                assert_eq!(releases, if (outcome, side) == (OutcomeAt::Alice, Side::Bob) { 5 } else { 6 });
            }
        }
        let none = LogisticPlan::new(setup(10, 3, held, 1e-8));
        assert!(matches!(none, Err(PlanError::NoBudget)));
    }
}

fn squared(values: impl Iterator<Item = f64>) -> f64 {
    values.map(|value| value * value).sum()
}

/// Entries of one clipped row, as they enter the sums.
fn entries(values: &[f64]) -> Vec<f64> {
    let rows = ClippedRows::new(&bounds(2), &DMatrix::from_row_slice(1, 2, values));
    rows.integers(0..1).iter().map(|entry| f64::from(*entry) / 32_768.0).collect()
}

/// What neighbours cost that differ in one row of `side`, and in its outcome where that is protected with it, over all that opens before the
/// first gradient; and what is charged for it.
fn dearest(held: Held, side: Side) -> (f64, f64) {
    let (plan, outcome) = (plan(100, 2, held, 1.0), held.1);
    let LogisticSide { table_sigma, score_sigma, sums_sigma, releases, .. } = plan.side(side).clone();
    let share_sigma = plan.scale().sigma();
    let replaced = plan.replaced(side);
    let cost = |values: &[f64]| {
        let (x, z, w) = (entries(&values[..2]), entries(&values[2..4]), entries(&values[4..6]));
        let t = values[6].tanh();
        let u = if replaced == Replaced::RowAndOutcome { values[7].tanh() } else { t };
        let pairs = (0..2).flat_map(|i| (0..2).map(move |j| (i, j)));
        let table = squared(pairs.map(|(i, j)| x[i] * x[j] - z[i] * z[j]));
        let moved = squared(x.iter().zip(&z).map(|(x, z)| x - z));
        let length = squared(w.iter().copied());
        let total = table / table_sigma.powi(2) + moved / sums_sigma.powi(2) + moved * length / share_sigma.powi(2);
        total
            + match (outcome, side) {
                (OutcomeAt::Both, _) => moved * t * t / score_sigma.powi(2),
                (OutcomeAt::Alice, Side::Alice) => {
                    let score = squared(x.iter().zip(&z).map(|(x, z)| x * t - z * u)) + 0.25 * (t - u).powi(2);
                    score / score_sigma.powi(2) + (t - u).powi(2) * length / share_sigma.powi(2)
                }
                // The outcome is a row of the table's other block.
                (OutcomeAt::Alice, Side::Bob) => moved * t * t / share_sigma.powi(2),
            }
    };
    let gradients: f64 = plan.gradients().iter().map(|scale| scale.mu(plan.replaced(side)).unwrap().powi(2)).sum();
    (climb(8, cost), releases.charge() - gradients)
}

/// Random restarts with hill climbing in steps that shrink.
fn climb(dimensions: usize, cost: impl Fn(&[f64]) -> f64) -> f64 {
    let mut random = ChaCha8Rng::seed_from_u64(4);
    let mut best = 0.0_f64;
    for _ in 0..60 {
        let mut draw = |scale: f64| -> f64 { scale * Distribution::<f64>::sample(&StandardNormal, &mut random) };
        let mut at: Vec<f64> = (0..dimensions).map(|_| draw(2.0)).collect();
        let (mut value, mut step) = (cost(&at), 1.0_f64);
        for _ in 0..600 {
            let next: Vec<f64> = at.iter().map(|x| x + draw(step)).collect();
            let reached = cost(&next);
            if reached > value { (at, value) = (next, reached) } else { step = (step * 0.985).max(1e-4) }
        }
        best = best.max(value);
    }
    best
}

#[test]
fn no_neighbour_costs_more_before_the_gradients_than_what_is_charged() {
    for outcome in ALL {
        for side in [Side::Alice, Side::Bob] {
            let (found, charge) = dearest(outcome, side);
            println!("{outcome:?}, rows of {side:?}: found {found:.5}, charged {charge:.5}");
            assert!(found <= charge && found >= 0.99 * charge, "{outcome:?} {side:?}: {found} {charge}");
        }
    }
}

/// The bound of the module's head on the value of a kernel, computed for a class.
fn excess(class: usize) -> f64 {
    let separated = Separated::new(Kernel::Mean, class, DIGITS).unwrap();
    let (terms, points) = (separated.terms, 64 * separated.terms);
    // The polynomials at equidistant angles: their argument is bent, which the class's own end undoes.
    let cosines: Vec<f64> = (0..points)
        .flat_map(|at| {
            let angle = std::f64::consts::PI * (at as f64 + 0.5) / points as f64;
            (0..terms).map(move |k| (k as f64 * angle).cos())
        })
        .collect();
    let step = 0.004;
    let slope = 0.25 * (1.0 + 2.0 / std::f64::consts::PI * (terms as f64).ln());
    let most = separated.range + 25.0;
    let grid: Vec<f64> = (0..=(2.0 * most / step).ceil() as usize).map(|at| at as f64 * step - most).collect();
    let mut functions = Vec::new();
    separated.functions(&grid, &mut functions);
    let mut largest = 0.0_f64;
    for at in 0..grid.len() {
        let of: Vec<f64> = (0..terms).map(|k| functions[k * grid.len() + at]).collect();
        for cosines in cosines.chunks_exact(terms) {
            let value: f64 = cosines.iter().zip(&of).map(|(cosine, h)| cosine * h).sum();
            largest = largest.max((value - 0.5).abs());
        }
    }
    // Points at half steps of the angle: those of the mirrored half make them 2 * points equidistant ones.
    let between = (std::f64::consts::PI * (terms as f64 - 1.0) / (2.0 * points as f64)).cos();
    largest / between + 0.5 * step * slope - 0.5
}

#[test]
fn no_kernel_leaves_the_unit_interval_by_more_than_is_charged() {
    for class in [0, 4, 9] {
        let excess = excess(class);
        assert!((0.0..=KERNEL_EXCESS).contains(&excess), "class {class}: {excess}");
    }
}

#[test]
#[ignore = "a minute"]
fn no_kernel_of_any_class_leaves_the_unit_interval_by_more_than_is_charged() {
    for class in 0..=LAST_CLASS {
        let excess = excess(class);
        println!("class {class}: {excess:.5}");
        assert!((0.0..=KERNEL_EXCESS).contains(&excess), "class {class}: {excess}");
    }
}

/// Neighbours along transcripts of runs: whatever opens, one row moves no gradient by more than is charged, and some move it by nearly that.
fn nearest_along_runs(outcome: Held) -> f64 {
    let plan = plan(400, 2, outcome, gaussian_mu(10.0, 1e-5).powi(2));
    let mut random = ChaCha8Rng::seed_from_u64(9);
    let mut nearest = 0.0_f64;
    for seed in 0..30 {
        let mut draw = |extreme: bool| -> [f64; 2] {
            let angle = random.random_range(0.0..std::f64::consts::TAU);
            let length = if extreme { 1.0 } else { random.random_range(0.0..1.0) };
            [length * angle.cos(), length * angle.sin()]
        };
        let mut values = [DMatrix::zeros(400, 2), DMatrix::zeros(400, 2)];
        for values in &mut values {
            for row in 0..400 {
                let [first, second] = draw(row < 8);
                (values[(row, 0)], values[(row, 1)]) = (first, second);
            }
        }
        let rows = values.each_ref().map(|values| ClippedRows::new(&bounds(2), values));
        // An outcome that the rows all but settle, so that points are long and residuals large where it is turned.
        let y: Vec<f64> = (0..400)
            .map(|row| f64::from(u8::from((values[0][(row, 0)] + values[1][(row, 1)] > 0.0) != (row < 8))))
            .collect();
        let data = Data { rows, y };
        run(&plan, &data, seed, |fit, scale| {
            let exact = gradient(fit, scale, &data.rows, &data.y);
            let (whole, excess) = (scale.whole() as i64, scale.excess() as i64);
            let oracle = means(fit, scale, &data.rows);
            assert!(oracle.iter().all(|mean| (-excess..=whole + excess).contains(mean)));
            assert_eq!(on_shares(fit, &data.rows), oracle);
            for side in [Side::Alice, Side::Bob] {
                let (own, sensitivity) = (at(side), scale.sensitivity(plan.replaced(side)));
                for row in 0..8 {
                    let (mut other, mut turned) = (values.clone(), data.y.clone());
                    if plan.replaced(side) == Replaced::RowAndOutcome {
                        turned[row] = 1.0 - turned[row];
                    }
                    for flip in [[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]] {
                        for j in 0..2 {
                            other[own][(row, j)] = values[own][(row, j)] * flip[j];
                        }
                        let rows = other.each_ref().map(|values| ClippedRows::new(&bounds(2), values));
                        let moved = gradient(fit, scale, &rows, &turned);
                        let square: f64 = exact.iter().zip(&moved).map(|(a, b)| ((a - b) as f64).powi(2)).sum();
                        let share = square.sqrt() / sensitivity;
                        assert!(share <= 1.0, "{outcome:?} {side:?}: {share}");
                        nearest = nearest.max(share);
                    }
                }
            }
        });
    }
    nearest
}

fn at(side: Side) -> usize {
    usize::from(side == Side::Bob)
}

#[test]
fn no_row_moves_a_gradient_by_more_than_is_charged() {
    for outcome in ALL {
        let nearest = nearest_along_runs(outcome);
        println!("{outcome:?}: the dearest neighbours reach {nearest:.3} of what is charged");
        assert!(nearest > 0.5, "{outcome:?}: {nearest}");
    }
}

/// Random restarts with hill climbing: the corner cases of the proof are reached and not passed.
#[test]
fn the_bound_of_a_gradient_is_met_and_not_passed() {
    for outcomes in [Outcomes::Events, Outcomes::Counts] {
        bound_is_met(GradientScale { whole: 1 << 20, outcomes });
    }
}

fn bound_is_met(scale: GradientScale) {
    let (whole, excess) = (scale.whole() as f64, scale.excess() as f64);
    let unit = |at: &[f64]| {
        let norm = at.iter().map(|x| x * x).sum::<f64>().sqrt().max(1e-300);
        at.iter().map(|x| x * 32_768.0 / norm.max(1.0)).collect::<Vec<f64>>()
    };
    for replaced in [Replaced::Row, Replaced::RowAndOutcome] {
        let best = climb(9, |at| {
            let (x, z, w) = (unit(&at[..2]), unit(&at[2..4]), unit(&at[4..6]));
            let share = |t: f64| 0.5 * (1.0 + t.tanh());
            let (least, most) = match (scale.outcomes, replaced) {
                (Outcomes::Events, Replaced::Row) => (-excess, whole + excess),
                // Any count, the same before and after.
                (Outcomes::Counts, Replaced::Row) => (-whole * share(at[8]), whole - whole * share(at[8])),
                (_, Replaced::RowAndOutcome) => (-whole - excess, whole + excess),
            };
            let residual = |t: f64| least + (most - least) * share(t);
            let (r, q) = (residual(at[6]), residual(at[7]));
            let own = squared(x.iter().zip(&z).map(|(x, z)| x * r - z * q));
            let length = squared(w.iter().copied());
            (own + (r - q).powi(2) * (length + 2f64.powi(30))).sqrt() / scale.sensitivity(replaced)
        });
        assert!(best <= 1.0 && best > 0.97, "{:?} {replaced:?}: {best}", scale.outcomes);
    }
}

/// Limits of mu from runs under both neighbours, by the event "log-likelihood ratio above zero"; false alarm of each about 1e-4.
fn audited(runs: u32, mut ratio: impl FnMut(bool) -> f64) -> (f64, f64) {
    use statrs::distribution::{ContinuousCDF, Normal};
    let share = |above: u32| {
        let (rate, width) = (f64::from(above) / f64::from(runs), 3.7 * (0.25 / f64::from(runs)).sqrt());
        (rate - width, rate + width)
    };
    let positives = share((0..runs).filter(|_| ratio(false) > 0.0).count() as u32);
    let negatives = share((0..runs).filter(|_| ratio(true) <= 0.0).count() as u32);
    let normal = Normal::new(0.0, 1.0).unwrap();
    let quantile = |rate: f64| normal.inverse_cdf(rate.clamp(1e-6, 1.0 - 1e-6));
    (-quantile(positives.1) - quantile(negatives.1), -quantile(positives.0) - quantile(negatives.0))
}

/// What of the table is Alice's, in units of its noise: her own tables and vectors, then the table between the blocks column by column.
fn statistics(plan: &LogisticPlan, data: &Data) -> Vec<f64> {
    let x = matrix(&data.rows);
    let signs = DVector::from_iterator(data.y.len(), data.y.iter().map(|y| 2.0 * y - 1.0));
    let product = x.tr_mul(&x);
    let LogisticSide { table_sigma: table, score_sigma, sums_sigma, .. } = *plan.side(Side::Alice);
    let mut values = vec![product[(1, 1)] / table, product[(2, 2)] / table, 2f64.sqrt() * product[(1, 2)] / table];
    let score = x.tr_mul(&signs);
    values.extend(score.rows(1, 2).iter().map(|value| value / score_sigma));
    values.extend(product.view((1, 0), (2, 1)).iter().map(|value| value / sums_sigma));
    let share = plan.scale().sigma();
    values.extend(product.view((1, 3), (2, 2)).iter().map(|value| value / share));
    if plan.replaced(Side::Alice) == Replaced::RowAndOutcome {
        values.push(0.5 * signs.sum() / score_sigma);
        values.extend(score.rows(3, 2).iter().map(|value| value / share));
    }
    values
}

/// The table as the fit takes it, from what opened of Alice's part and from Bob's rows.
fn tables_of(plan: &LogisticPlan, data: &Data, seen: &[f64]) -> LogisticTables {
    let LogisticSide { table_sigma: table, score_sigma, sums_sigma, .. } = *plan.side(Side::Alice);
    let (x, share, rows) = (matrix(&data.rows), plan.scale().sigma(), data.y.len() as f64);
    let product = x.tr_mul(&x);
    let off = seen[2] * table / 2f64.sqrt();
    let (of_bob, mean) = match plan.setup.outcome {
        OutcomeAt::Both => {
            let signs = DVector::from_iterator(data.y.len(), data.y.iter().map(|y| 2.0 * y - 1.0));
            ([0.0, x.tr_mul(&signs)[4]], data.y.iter().sum::<f64>() / rows)
        }
        OutcomeAt::Alice => {
            ([seen[12] * share, seen[13] * share], plan.mean_within_noise(0.5 + seen[11] * score_sigma / rows))
        }
    };
    LogisticTables {
        tables: [
            DMatrix::from_row_slice(2, 2, &[seen[0] * table, off, off, seen[1] * table]),
            product.view((3, 3), (2, 2)).into_owned(),
        ],
        cross: DMatrix::from_column_slice(2, 2, &seen[7..11]) * share,
        score: DVector::from_vec(vec![seen[3] * score_sigma, seen[4] * score_sigma, of_bob[0], of_bob[1]]),
        sums: DVector::from_vec(vec![seen[5] * sums_sigma, seen[6] * sums_sigma, 0.0, rows]),
        mean,
    }
}

/// Alice's transcript of a run against a Bob who knows his own noise, for neighbours with one row of hers and its mirror image, whose outcome the
/// rest contradicts; where she holds the outcome alone it is turned with the row. `weaken` is by how much her noise is too small.
fn audit_run(runs: u32, held: Held, epsilon: f64, weaken: f64) -> (f64, f64) {
    let outcome = held.1;
    let plan = plan(60, 2, held, gaussian_mu(epsilon, 1e-5).powi(2));
    let value =
        |row: usize, j: usize| if row == 0 { [1.0, 0.0][j] } else { [-0.9, 0.0][j] * f64::from(row as u32 % 2) };
    let own = DMatrix::from_fn(60, 2, value);
    let mut replaced = own.clone();
    let other = DMatrix::from_fn(60, 2, |_, j| [0.0, 1.0][j]);
    let y: Vec<f64> = (0..60).map(|row| f64::from(u8::from(row == 0 || row % 4 == 1))).collect();
    let mut turned = y.clone();
    match outcome {
        OutcomeAt::Both => replaced[(0, 0)] = -1.0,
        // The angle at which the table costs most: a cosine of -1/2.
        OutcomeAt::Alice => {
            (replaced[(0, 0)], replaced[(0, 1)]) = (-0.5, 0.75f64.sqrt());
            turned[0] = 0.0;
        }
    }
    let data = [(&own, y), (&replaced, turned)]
        .map(|(own, y)| Data { rows: [own, &other].map(|values| ClippedRows::new(&bounds(2), values)), y });
    let statistics = data.each_ref().map(|data| statistics(&plan, data));
    let mut random = ChaCha8Rng::seed_from_u64(12);
    audited(runs, |swapped| {
        let me = usize::from(swapped);
        let mut normal = || -> f64 { Distribution::<f64>::sample(&StandardNormal, &mut random) / weaken };
        let ratio = |a: f64, b: f64, seen: f64| ((seen - a).powi(2) - (seen - b).powi(2)) / 2.0 * weaken * weaken;
        let mut total = 0.0;
        let seen: Vec<f64> = statistics[me].iter().map(|value| value + normal()).collect();
        for (at, seen) in seen.iter().enumerate() {
            total += ratio(statistics[0][at], statistics[1][at], *seen);
        }
        let mut fit = plan.begin(&tables_of(&plan, &data[me], &seen)).unwrap();
        for (at, scale) in plan.gradients.into_iter().enumerate() {
            let sigma = plan.sigma(Side::Alice, LogisticRelease::Gradient(at));
            let unit = scale.step() / sigma;
            let exact = data.each_ref().map(|data| gradient(&fit, scale, &data.rows, &data.y));
            let seen: Vec<f64> = exact[me].iter().map(|value| *value as f64 * unit + normal()).collect();
            for (at, seen) in seen.iter().enumerate() {
                total += ratio(exact[0][at] as f64 * unit, exact[1][at] as f64 * unit, *seen);
            }
            assert!(fit.take(&DVector::from_iterator(5, seen.iter().map(|value| value * sigma))));
        }
        total
    })
}

const AUDITED: f64 = 3.0;

#[test]
fn an_audit_finds_the_transcript_sound() {
    let mu = gaussian_mu(AUDITED, 1e-5);
    for outcome in ALL {
        let (low, high) = audit_run(4_000, outcome, AUDITED, 1.0);
        println!("{outcome:?}, epsilon {AUDITED}: mu between {low:.3} and {high:.3}, claimed {mu:.3}");
        assert!(low <= mu && high >= 0.6 * mu, "{outcome:?}: {low} {high} {mu}");
    }
}

#[test]
fn an_audit_sees_noise_that_is_too_small() {
    let mu = gaussian_mu(AUDITED, 1e-5);
    for outcome in ALL {
        let (low, high) = audit_run(4_000, outcome, AUDITED, 2.0);
        println!("{outcome:?}, with half of the noise: mu between {low:.3} and {high:.3}");
        assert!(low > mu, "{outcome:?}: {low} {high} {mu}");
    }
}
