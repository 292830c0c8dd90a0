//! Kernel regression by random features.

#[path = "features/counts.rs"]
mod counts;
#[path = "features/impact.rs"]
mod impact;
#[path = "features/rows.rs"]
mod rows;
#[path = "features/tables.rs"]
mod tables;

use std::time::Instant;

use fedreg_common::bounded::{Noise as _, SimulatedNoise};
use fedreg_common::methods::features::{FeatureMap, Statistics, output_perturbation, sensitivity};
use fedreg_common::privacy::accountant::gaussian_mu;
use nalgebra::{DMatrix, DVector};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution as _, StandardNormal};

use crate::Run;
use crate::chart::{Axis, Chart};
use crate::document::{Document, Table};
use crate::research::printed_features::{PaperNoise, algorithm_1, claimed_sensitivity, cosine_features};
use crate::research::solvers::{Kaczmarz, kaczmarz, minimum_norm, pseudo_inverse};
use crate::sweep::Sweep;
use crate::tables::{each, line, median, number, row};

use self::counts::{Data, Split};
use self::tables::Table as Given;

/// Of every release of a table here.
const DELTA: f64 = 1e-5;

/// The tables that the user gave: insurance and wine.
pub(crate) fn given(run: &Run) -> anyhow::Result<[Option<Given>; 2]> {
    let wine = if run.wine.is_empty() { None } else { Some(tables::wine(&run.wine)?) };
    Ok([run.insurance.as_deref().map(tables::insurance).transpose()?, wine])
}

pub(crate) fn tables(run: &Run) -> anyhow::Result<Document> {
    // What cannot be used is refused before anything is computed.
    let [data, wine] = given(run)?;
    let mut document = Document::new("Kernel regression by random features");
    duplicate(run, &mut document)?;
    published(run, &mut document)?;
    match &data {
        Some(data) => insurance(run, &mut document, data)?,
        None => document.paragraph("The insurance table is left out: give the data with --insurance FILE."),
    }
    match &wine {
        Some(data) => wines(run, &mut document, data)?,
        None => document.paragraph(
            "The wine data are left out: give them with --wine FILE, red wine first, then --wine FILE of white.",
        ),
    }
    solvers(run, &mut document, data.as_ref())?;
    numbers(run, &mut document, [data.as_ref(), wine.as_ref()])?;
    document.heading("Disparate impact");
    document.paragraph(
        "The excess risk of a group is the mean squared error of predictions with noise less that of predictions without. The source compares its Algorithm 1, which is not private, with a \
         ridge regression on the covariates whose noise has the same law. Both are as it has them: cosine features of covariates in their own units, frequencies of variance 2e-5 (insurance) and 20 (wine), one \
         pass of Kaczmarz; numbers scaled within each group for the rival, whose penalty is sqrt(N) / (2 m) (the source prints sqrt(N / (2 m)), which does not make the noise the same); nine \
         tenths of each group to learn from, at most 1000, the rest to be tested on, at most 500; outcomes divided by their length, and gaps in units of the outcome's range as all \
         others. Scaling within a group is by least and largest value, which the source does not say. Private are ridge regressions (lambda 0.1) on 40 random features and on the covariates, \
         with noise on their coefficients, and noised statistics of the features. Noise on coefficients adds its variance times the squared norm of a row to the expected risk: \
         these rows of 40 features have norm 1, so that it adds the same to everybody's, and the source's have norm 1 on average only.",
    );
    for table in [data.as_ref(), wine.as_ref()].into_iter().flatten() {
        impact::tables(run, &mut document, table)?;
    }
    Ok(document)
}

/// A function of the source's simulations.
type Function = fn(&[f64]) -> f64;

/// `sqrt(1 + |x|)`.
fn first_function(x: &[f64]) -> f64 {
    (1.0 + x.iter().map(|x| x * x).sum::<f64>().sqrt()).sqrt()
}

/// `sum exp(-|x_i|)`.
fn second_function(x: &[f64]) -> f64 {
    x.iter().map(|x| (-x.abs()).exp()).sum()
}

/// The simulation of the source's public code: normal covariates, outcomes scaled to norm one.
fn simulation(function: Function, rows: usize, seed: u64) -> (DMatrix<f64>, DVector<f64>) {
    let mut generator = ChaCha8Rng::seed_from_u64(seed);
    let x: DMatrix<f64> = DMatrix::from_fn(rows, 5, |_, _| StandardNormal.sample(&mut generator));
    let y = DVector::from_iterator(rows, x.row_iter().map(|row| function(&row.iter().copied().collect::<Vec<f64>>())));
    let length = y.norm();
    (x, y / length)
}

/// Error against the number of features, on both functions and on the tables that were given.
fn numbers(run: &Run, document: &mut Document, tables: [Option<&Given>; 2]) -> anyhow::Result<()> {
    document.heading("Error against the number of features");
    document.paragraph(
        "The source's functions sqrt(1 + |x|) and sum exp(-|x_i|) of five normal covariates, and tables where they were given. SGD is one pass, one record at a time, with the \
         source's steps and with step 1. Gauss and Gamma are the source's Algorithm 1 and its comparator: noise for a sensitivity that does not hold, NOT PRIVATE. The noise of \
         private SGD is not that of the rival that the source compares with, which it does not state: residuals are cut at the largest outcome, and one pass with noise on its end \
         is private by a known bound (Wu et al. 2017). Frequency sd 40 is that of the source's public code, 0.5 one at which the functions can be learned; 4 is that of the code for tables.",
    );
    let rows = run.size(300, 60);
    let functions = [("f1", first_function as Function), ("f2", second_function)];
    for (name, function) in functions {
        let split = |seed: u64| {
            let (x, y) = simulation(function, 2 * rows, 100 + seed);
            let half = |first: usize| (x.rows(first, rows).into_owned(), y.rows(first, rows).into_owned());
            Split { train: half(0), test: half(rows) }
        };
        for (sd, of) in [(40.0, "40"), (0.5, "05")] {
            counts::tables(run, document, &Data { name, file: &format!("{name}-{of}"), sd, split: &split })?;
        }
    }
    for (table, file) in tables.into_iter().zip(["insurance", "wine"]) {
        let Some(table) = table else { continue };
        let split = |seed: u64| Split::of(table, rows, rows, 300 + seed);
        counts::tables(run, document, &Data { name: table.name, file, sd: 4.0, split: &split })?;
    }
    rows::tables(run, document, functions)
}

fn duplicate(run: &Run, document: &mut Document) -> anyhow::Result<()> {
    document.heading("Algorithm 1 of the source is not private");
    let (m, count) = run.size((1000, 1500), (100, 400));
    let (x, y) = simulation(first_function, m, 0);
    let solve = |x: &DMatrix<f64>, y: &DVector<f64>| -> anyhow::Result<DVector<f64>> {
        Ok(minimum_norm(&cosine_features(x, count, 40.0, 5), y)?.coefficients)
    };
    let before = solve(&x, &y)?;
    let gaps = [1e-2, 1e-4, 1e-6];
    let mut moved = Vec::new();
    for gap in gaps {
        let (mut x2, mut y2) = (x.clone(), y.clone());
        let twin = x.row(1).into_owned();
        x2.set_row(0, &twin);
        x2[(0, 0)] += gap;
        y2[0] = -y[1];
        moved.push((solve(&x2, &y2)? - &before).norm());
    }
    let claimed = claimed_sensitivity(count);
    let mut table = Table::new(
        format!(
            "How far the {count} coefficients move when one of {m} rows is replaced by a near copy of another with the opposite \
             outcome; the noise is calibrated to {}",
            number(claimed)
        ),
        ["distance of the copy", "0.01", "0.0001", "1e-6"],
    );
    table.ours(row("change of the coefficients, NOT PRIVATE", &moved));
    table.published(["  oracle", "0.19-0.30", "20", "2000"]);
    table.ours(row("over the claimed sensitivity", &moved.iter().map(|moved| moved / claimed).collect::<Vec<_>>()));
    document.table(table);
    document.finding(
        moved.iter().all(|moved| *moved <= claimed),
        "Algorithm 1 is (epsilon, delta)-private: its sensitivity would have to hold for every pair of neighbours",
    );
    Ok(())
}

fn published(run: &Run, document: &mut Document) -> anyhow::Result<()> {
    document.heading("What the published errors are");
    let m = run.size(1000, 100);
    let counts = run.size([1500, 5000], [400, 800]);
    let (x, y) = simulation(first_function, 2 * m, 0);
    let (train, test) = (x.rows(0, m).into_owned(), x.rows(m, m).into_owned());
    let (known, wanted) = (y.rows(0, m).into_owned(), y.rows(m, m).into_owned());
    let mean_squared = |predicted: DVector<f64>| (predicted - &wanted).norm_squared() / m as f64;
    let zero = wanted.norm_squared() / m as f64;
    let centre = known.mean();
    let constant = wanted.iter().map(|y| (y - centre).powi(2)).sum::<f64>() / m as f64;
    let names = std::iter::once("model".to_owned()).chain(counts.iter().map(|n| format!("{n} features")));
    let mut table = Table::new(
        "Test mean squared error at epsilon 1, delta 1e-5, in the settings of the source's public code (frequency sd 40); NOT PRIVATE",
        names.collect::<Vec<_>>(),
    );
    let (mut without, mut gauss, mut gamma, mut due) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for count in counts {
        let features = |x: &DMatrix<f64>| cosine_features(x, count, 40.0, 5);
        let (a, b) = (features(&train), features(&test));
        let exact = minimum_norm(&a, &known)?.coefficients;
        without.push(mean_squared(&b * &exact));
        for (noise, errors) in [(PaperNoise::Gauss, &mut gauss), (PaperNoise::Gamma, &mut gamma)] {
            errors.push(mean_squared(&b * algorithm_1(&a, &known, noise, 1.0, 1e-5, 1)?));
        }
        // With features scaled as in the code the lemma's sensitivity is larger by the root of their number.
        let noisy = algorithm_1(&a, &known, PaperNoise::Gauss, 1.0, 1e-5, 2)?;
        due.push(mean_squared(&b * (&exact + (noisy - &exact) * (count as f64).sqrt())));
    }
    table.ours(row("predicting zero", &[zero; 2]));
    table.ours(row("predicting the mean", &[constant; 2]));
    table.ours(row("their model without noise", &without));
    table.ours(row("with their Gaussian noise", &gauss));
    table.published(row("  375.6 / features", &counts.map(|count| 375.6 / count as f64)));
    table.ours(row("with their Gamma noise", &gamma));
    table.published(row("  oracle", &[16.0, 17.0]));
    table.ours(row("with the noise that their lemma asks for", &due));
    table.published(row("  oracle", &[400.0, 400.0]));
    document.table(table);
    document.finding(
        without[0] < zero,
        format!("the source's model predicts better than zero does: {} against {}", number(without[0]), number(zero)),
    );
    document.finding(
        due[0] < 1.0,
        "errors fall with the number of features: they do because the noise is too small by the root of that number",
    );
    Ok(())
}

/// What is released.
#[derive(Clone, Copy)]
enum Released {
    /// Noised statistics of so many features, by so many sites.
    Statistics(usize, usize),
    /// A ridge solution of 40 features with this penalty.
    Ridge(f64),
    /// A ridge solution of the covariates and an intercept with this penalty.
    Linear(f64),
}

fn insurance(run: &Run, document: &mut Document, data: &Given) -> anyhow::Result<()> {
    document.heading("Insurance charges");
    let seeds = run.seeds(15);
    let mean = data.y.iter().sum::<f64>() / data.y.len() as f64;
    let variance = data.y.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / data.y.len() as f64;
    document.paragraph(format!(
        "Test mean squared error on charges scaled to [0, 1] by public ranges, delta 1e-5, frequency sd 0.5, median of {seeds} splits. \
         Predicting the mean has {}. Oracle: numpy, five splits.",
        number(variance)
    ));
    let epsilons = [1.0, 3.0];
    let mut table = Table::new("Test mean squared error", ["release", "epsilon 1", "epsilon 3"]);
    let found = |what: Released| -> anyhow::Result<Vec<f64>> {
        epsilons
            .iter()
            .map(|epsilon| {
                let mu = gaussian_mu(*epsilon, DELTA);
                Ok(median(each(seeds, |seed| error_of(data, what, mu, seed))?))
            })
            .collect()
    };
    let forty = found(Released::Statistics(40, 1))?;
    let five = found(Released::Statistics(40, 5))?;
    table.ours(row("statistics, 40 features", &forty));
    table.published(row("  oracle", &[0.021, 0.017]));
    table.ours(row("statistics, 200 features", &found(Released::Statistics(200, 1))?));
    table.published(row("  oracle", &[0.038, 0.021]));
    table.ours(row("statistics, 40 features, five sites that trust nobody", &five));
    let mut ridge = vec![f64::INFINITY; 2];
    for lambda in [0.03, 0.1, 0.3, 1.0] {
        for (best, error) in ridge.iter_mut().zip(found(Released::Ridge(lambda))?) {
            *best = best.min(error);
        }
    }
    table.ours(row("ridge with noise on the solution, best penalty", &ridge));
    table.published(row("  oracle", &[0.042, 0.031]));
    table.published(["Algorithm 1 (not private), paper", "0.39", "NA"]);
    document.table(table);
    let lines = vec![
        line("statistics", 0, &epsilons, &forty, false),
        line("statistics, oracle", 0, &epsilons, &[0.021, 0.017], true),
        line("five sites", 2, &epsilons, &five, false),
        line("ridge", 1, &epsilons, &ridge, false),
        line("the mean", 3, &epsilons, &[variance; 2], false),
    ];
    let chart = Chart {
        title: "Error against epsilon, insurance charges".to_owned(),
        x: Axis::logarithmic("epsilon"),
        y: Axis::logarithmic("test mean squared error"),
        lines,
    };
    document.figure("insurance", chart, "Dashed: the oracle.");
    run.target(document, forty[0], 0.024, "statistics at epsilon 1");
    run.target(document, forty[1], 0.020, "statistics at epsilon 3");
    document.paragraph(format!(
        "Five sites against one that holds all rows: {} times the error at epsilon 1, {} times at epsilon 3.",
        number(five[0] / forty[0]),
        number(five[1] / forty[1])
    ));
    Ok(())
}

fn wines(run: &Run, document: &mut Document, data: &Given) -> anyhow::Result<()> {
    document.heading("Wine quality");
    let seeds = run.seeds(15);
    let mean = data.y.iter().sum::<f64>() / data.y.len() as f64;
    let variance = data.y.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / data.y.len() as f64;
    document.paragraph(format!(
        "Test mean squared error on qualities scaled to [0, 1] from 3 to 9, {} wines, delta 1e-5, frequency sd 0.5, median of {seeds} splits. Predicting the mean has {}.",
        data.y.len(),
        number(variance)
    ));
    let epsilons = [0.5, 1.0, 3.0];
    let releases = [
        ("statistics, 40 features", Released::Statistics(40, 1)),
        ("statistics, 100 features", Released::Statistics(100, 1)),
        ("five sites, 40 features", Released::Statistics(40, 5)),
        ("ridge on 40 features", Released::Ridge(0.1)),
        ("linear ridge", Released::Linear(0.1)),
    ];
    let sweep = Sweep {
        name: "wine".to_owned(),
        caption: "Test mean squared error over that of the mean, wine quality".to_owned(),
        over: Axis::logarithmic("epsilon"),
        values: &epsilons,
        measured: Axis::logarithmic("error over that of the mean"),
        methods: &releases.map(|(name, _)| name),
    };
    let found = sweep.run(document, |epsilon| {
        let mu = gaussian_mu(epsilon, DELTA);
        let of = |what| Ok(median(each(seeds, |seed| error_of(data, what, mu, seed))?) / variance);
        releases.iter().map(|(_, what)| of(*what)).collect()
    })?;
    document.finding(
        found[0][1] < 1.0,
        format!(
            "wine quality: noised statistics of 40 features predict better than the mean at epsilon 1: {} of its error",
            number(found[0][1])
        ),
    );
    Ok(())
}

/// Records that were kept out of the fit, with predictions and outcomes in units where the outcome's range is 1.
struct Tested {
    rows: Vec<usize>,
    predicted: Vec<f64>,
    outcomes: Vec<f64>,
    /// Standard deviation of each prediction by the noise, where it is on the coefficients.
    spread: Option<Vec<f64>>,
}

fn error_of(data: &Given, what: Released, mu: f64, seed: u64) -> anyhow::Result<f64> {
    let Tested { predicted, outcomes, .. } = tested(data, what, mu, (seed, seed + 1))?;
    Ok(predicted.iter().zip(&outcomes).map(|(p, y)| (p - y).powi(2)).sum::<f64>() / outcomes.len() as f64)
}

fn tested(data: &Given, what: Released, mu: f64, (seed, noise): (u64, u64)) -> anyhow::Result<Tested> {
    let mut order: Vec<usize> = (0..data.y.len()).collect();
    order.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    let (train, test) = order.split_at(data.y.len() * 9 / 10);
    let pick =
        |rows: &[usize]| (data.x.select_rows(rows), rows.iter().map(|&i| 2.0 * data.y[i] - 1.0).collect::<Vec<f64>>());
    let count = match what {
        Released::Statistics(count, _) => count,
        Released::Ridge(_) | Released::Linear(_) => 40,
    };
    let map = FeatureMap::new(seed, data.x.ncols(), count, 0.5)?;
    let rows_of = |x: &DMatrix<f64>| -> anyhow::Result<DMatrix<f64>> {
        Ok(match what {
            // Of norm at most 1, as entries are in [0, 1].
            Released::Linear(_) => x.clone().insert_column(x.ncols(), 1.0) / (x.ncols() as f64 + 1.0).sqrt(),
            Released::Statistics(..) | Released::Ridge(_) => map.rows(x)?,
        })
    };
    let mut noise = SimulatedNoise::seeded(noise);
    let mut sigma = None;
    let coefficients = match what {
        Released::Statistics(_, sites) => {
            let released = train
                .chunks(train.len().div_ceil(sites))
                .map(|part| {
                    let (x, y) = pick(part);
                    Ok(Statistics::of(&map, &x, &y)?.simulate_release(mu, &mut noise))
                })
                .collect::<anyhow::Result<Vec<_>>>()?;
            Statistics::solve(&Statistics::pool(&map, &released)?, sensitivity() / mu)?.0
        }
        Released::Ridge(lambda) | Released::Linear(lambda) => {
            let (x, y) = pick(train);
            let bounded = output_perturbation(&rows_of(&x)?, &y, lambda)?;
            let mut values = bounded.values();
            let of_each = bounded.sensitivity() / mu;
            noise.add(of_each, values.as_mut_slice());
            sigma = Some(of_each);
            values
        }
    };
    let (x, y) = pick(test);
    let rows = rows_of(&x)?;
    let halved = |values: &[f64]| values.iter().map(|value| 0.5 * value).collect();
    let spread = sigma.map(|sigma| rows.row_iter().map(|row| 0.5 * sigma * row.norm()).collect());
    let predicted = rows * coefficients;
    Ok(Tested { rows: test.to_vec(), predicted: halved(predicted.as_slice()), outcomes: halved(&y), spread })
}

fn solvers(run: &Run, document: &mut Document, insurance: Option<&Given>) -> anyhow::Result<()> {
    document.heading("Minimum-norm interpolation: Kaczmarz's iteration against the pseudo-inverse");
    let (m, count) = run.size((1000, 10_000), (150, 1500));
    let simulated = simulation(first_function, m, 11);
    let charges = insurance.map(|data| (data.x.clone(), DVector::from_column_slice(&data.y)));
    let mut table = Table::new(
        format!("{count} features; distance from the pseudo-inverse's solution, relative to its length"),
        ["data, frequency sd", "pseudo-inverse, s", "factor, s", "Kaczmarz, s", "ratio", "passes", "distance", "rank"],
    );
    let mut statements = Document::new("");
    let data =
        std::iter::once(("simulation", &simulated)).chain(charges.as_ref().map(|charges| ("insurance", charges)));
    for (name, (x, y)) in data {
        for sd in [40.0, 0.5] {
            let a = FeatureMap::new(1, x.ncols(), count, sd)?.rows(x)?;
            let clock = Instant::now();
            let exact = pseudo_inverse(&a, y, 1e-15)?;
            let by_svd = clock.elapsed().as_secs_f64();
            let clock = Instant::now();
            minimum_norm(&a, y)?;
            let by_factor = clock.elapsed().as_secs_f64();
            let columns = a.transpose();
            let clock = Instant::now();
            let passes = if sd > 1.0 { 300 } else { 100 };
            let iterated = kaczmarz(&columns, y, &Kaczmarz { passes, tol: 1e-8, seed: 1, lambda: 0.0 })?;
            let by_rows = clock.elapsed().as_secs_f64();
            let distance = (&iterated.coefficients - &exact.coefficients).norm() / exact.coefficients.norm();
            table.ours([
                format!("{name}, {sd}"),
                number(by_svd),
                number(by_factor),
                number(by_rows),
                number(by_svd / by_rows),
                iterated.passes.to_string(),
                format!("{distance:.1e}"),
                format!("{} of {}{}", exact.rank, a.nrows(), if exact.singular { ", singular" } else { "" }),
            ]);
            if run.quick || name != "simulation" {
                continue;
            }
            if sd > 1.0 {
                let text = format!("Kaczmarz reaches the minimum-norm solution to 1e-6: {distance:.1e}");
                statements.target(distance < 1e-6, text);
                let text =
                    format!("and sooner than the pseudo-inverse: in a {}th of its time", number(by_svd / by_rows));
                statements.target(by_rows < by_svd, text);
            } else {
                statements.finding(
                    distance < 1e-6,
                    format!(
                        "at frequency sd 0.5 the interpolant can be computed: singular values fall to where rounding decides, and after \
                         {} passes the iteration is {distance:.1e} away",
                        iterated.passes
                    ),
                );
            }
        }
    }
    document.table(table);
    document.parts.extend(statements.parts);
    Ok(())
}
