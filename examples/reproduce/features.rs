//! Kernel regression by random features.

use std::time::Instant;

use anyhow::{Context as _, bail};
use fedreg_common::bounded::{Noise as _, SimulatedNoise};
use fedreg_common::methods::features::{FeatureMap, Range, Statistics, output_perturbation, sensitivity};
use fedreg_common::privacy::accountant::gaussian_mu;
use nalgebra::{DMatrix, DVector};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution as _, StandardNormal};

use crate::chart::{Axis, Chart};
use crate::document::{Document, Table};
use crate::fairness::excess_risk_gaps;
use crate::research::printed_features::{PaperNoise, algorithm_1, claimed_sensitivity, cosine_features};
use crate::research::solvers::{Kaczmarz, kaczmarz, minimum_norm, pseudo_inverse};
use crate::tables::{each, line, median, number, row};
use crate::{Run, text_of};

pub(crate) fn tables(run: &Run) -> anyhow::Result<Document> {
    let mut document = Document::new("Kernel regression by random features");
    duplicate(run, &mut document)?;
    published(run, &mut document)?;
    let data = run.insurance.as_deref().map(|path| read_insurance(&text_of(path)?)).transpose()?;
    match &data {
        Some(data) => insurance(run, &mut document, data)?,
        None => document.paragraph("The insurance table is left out: give the data with --insurance FILE."),
    }
    solvers(run, &mut document, data.as_ref())?;
    Ok(document)
}

/// The simulation of the source's public code: normal covariates, `sqrt(1 + |x|)` scaled to norm one.
fn simulation(rows: usize, seed: u64) -> (DMatrix<f64>, DVector<f64>) {
    let mut generator = ChaCha8Rng::seed_from_u64(seed);
    let x: DMatrix<f64> = DMatrix::from_fn(rows, 5, |_, _| StandardNormal.sample(&mut generator));
    let y = DVector::from_iterator(rows, x.row_iter().map(|row| (1.0 + row.norm()).sqrt()));
    let length = y.norm();
    (x, y / length)
}

fn duplicate(run: &Run, document: &mut Document) -> anyhow::Result<()> {
    document.heading("Algorithm 1 of the source is not private");
    let (m, count) = run.size((1000, 1500), (100, 400));
    let (x, y) = simulation(m, 0);
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
    let (x, y) = simulation(2 * m, 0);
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

/// Age, sex, body-mass index, children, smoker, four regions; the charges. Public ranges.
struct Insurance {
    x: DMatrix<f64>,
    y: Vec<f64>,
}

fn read_insurance(text: &str) -> anyhow::Result<Insurance> {
    let regions = ["northeast", "northwest", "southeast", "southwest"];
    let mut cells = Vec::new();
    let mut y = Vec::new();
    let number = |cell: &str, low: f64, high: f64| -> anyhow::Result<f64> {
        Ok(Range::new(low, high)?.scale(cell.trim().parse().with_context(|| format!("not a number: {cell:?}"))?))
    };
    let flag = |hit: bool| f64::from(u8::from(hit));
    for (line, row) in text.lines().enumerate().skip(1) {
        let row: Vec<&str> = row.split(',').collect();
        if row.len() != 7 {
            bail!("line {} of the insurance data: expected 7 cells, got {}", line + 1, row.len());
        }
        cells.extend([number(row[0], 18.0, 64.0)?, flag(row[1] == "male"), number(row[2], 15.96, 53.13)?]);
        cells.extend([number(row[3], 0.0, 5.0)?, flag(row[4] == "yes")]);
        cells.extend(regions.map(|region| flag(row[5].trim() == region)));
        y.push(number(row[6], 1121.8739, 63770.42801)?);
    }
    if y.is_empty() {
        bail!("the insurance data have no row");
    }
    Ok(Insurance { x: DMatrix::from_row_slice(y.len(), 9, &cells), y })
}

/// What is released.
#[derive(Clone, Copy)]
enum Released {
    /// Noised statistics of so many features, by so many sites.
    Statistics(usize, usize),
    /// A ridge solution of 40 features with this penalty.
    Ridge(f64),
}

fn insurance(run: &Run, document: &mut Document, data: &Insurance) -> anyhow::Result<()> {
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
                let mu = gaussian_mu(*epsilon, 1e-5);
                Ok(median(each(seeds, |seed| insurance_error(data, what, mu, seed))?))
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
    insurance_gaps(run, document, data)
}

/// Records that were kept out of the fit, with predictions and outcomes in units where the outcome's range is 1.
struct Tested {
    rows: Vec<usize>,
    predicted: Vec<f64>,
    outcomes: Vec<f64>,
}

fn insurance_error(data: &Insurance, what: Released, mu: f64, seed: u64) -> anyhow::Result<f64> {
    let Tested { predicted, outcomes, .. } = insurance_test(data, what, mu, (seed, seed + 1))?;
    Ok(predicted.iter().zip(&outcomes).map(|(p, y)| (p - y).powi(2)).sum::<f64>() / outcomes.len() as f64)
}

/// Who bears the noise: the excess risk of smokers and of others.
fn insurance_gaps(run: &Run, document: &mut Document, data: &Insurance) -> anyhow::Result<()> {
    let what = Released::Statistics(40, 1);
    let repetitions = run.seeds(40);
    // So much budget is as good as no noise.
    let plain = insurance_test(data, what, 1e7, (0, 0))?;
    let groups: Vec<&str> =
        plain.rows.iter().map(|&i| if data.x[(i, 4)] > 0.5 { "smokers" } else { "others" }).collect();
    let mut table = Table::new(
        format!("Excess risk by group and its gap from the whole, {repetitions} repetitions of the noise, one split"),
        ["group", "records", "epsilon 1", "gap", "epsilon 3", "gap"],
    );
    let mut cells: Vec<Vec<String>> = Vec::new();
    for epsilon in [1.0, 3.0] {
        let private = each(repetitions, |seed| {
            Ok(insurance_test(data, what, gaussian_mu(epsilon, 1e-5), (0, 100 + seed))?.predicted)
        })?;
        for (at, gap) in excess_risk_gaps(&private, &plain.predicted, &plain.outcomes, &groups)?.iter().enumerate() {
            if cells.len() <= at {
                cells.push(vec![gap.group.clone(), gap.records.to_string()]);
            }
            cells[at].extend([number(gap.excess_risk), number(gap.gap)]);
        }
    }
    cells.into_iter().for_each(|row| table.ours(row));
    document.table(table);
    Ok(())
}

fn insurance_test(data: &Insurance, what: Released, mu: f64, (seed, noise): (u64, u64)) -> anyhow::Result<Tested> {
    let mut order: Vec<usize> = (0..data.y.len()).collect();
    order.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    let (train, test) = order.split_at(data.y.len() * 9 / 10);
    let pick =
        |rows: &[usize]| (data.x.select_rows(rows), rows.iter().map(|&i| 2.0 * data.y[i] - 1.0).collect::<Vec<f64>>());
    let count = match what {
        Released::Statistics(count, _) => count,
        Released::Ridge(_) => 40,
    };
    let map = FeatureMap::new(seed, data.x.ncols(), count, 0.5)?;
    let mut noise = SimulatedNoise::seeded(noise);
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
        Released::Ridge(lambda) => {
            let (x, y) = pick(train);
            let bounded = output_perturbation(&map.rows(&x)?, &y, lambda)?;
            let mut values = bounded.values();
            noise.add(bounded.sensitivity() / mu, values.as_mut_slice());
            values
        }
    };
    let (x, y) = pick(test);
    let predicted = map.rows(&x)? * coefficients;
    let halved = |values: &[f64]| values.iter().map(|value| 0.5 * value).collect();
    Ok(Tested { rows: test.to_vec(), predicted: halved(predicted.as_slice()), outcomes: halved(&y) })
}

fn solvers(run: &Run, document: &mut Document, insurance: Option<&Insurance>) -> anyhow::Result<()> {
    document.heading("Minimum-norm interpolation: Kaczmarz's iteration against the pseudo-inverse");
    let (m, count) = run.size((1000, 10_000), (150, 1500));
    let simulated = simulation(m, 11);
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
