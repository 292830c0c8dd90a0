//! Calibration of Gaussian noise, private vertical regression, private robust regression.

use anyhow::Context as _;
use fedreg_common::methods::robust::batch::kept_share_of_variance;
use fedreg_common::methods::robust::plan::{self as robust, Influence};
use fedreg_common::methods::robust::{Estimate, FitSettings, Gram, Method, Start, fit};
use fedreg_common::methods::vertical::plan as vertical;
use fedreg_common::privacy::accountant::{Accountant, concentrated_rho, gaussian_delta, gaussian_mu};
use nalgebra::DVector;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution as _, StandardNormal};

use crate::chart::{Axis, Chart};
use crate::comparators::{adaptive_ridge, catoni_descent};
use crate::document::{Document, Table};
use crate::drlr::consensus;
use crate::research::baselines;
use crate::research::private::{Batch, Corruption, TableHolder, TwoParties, batch_setup};
use crate::tables::{line, means, medians, number, row};
use crate::{Run, evidence, opened};

/// Of every release but those of expectation maximisation.
pub(crate) const DELTA: f64 = 1e-5;

pub(crate) fn tables(run: &Run) -> anyhow::Result<Document> {
    let mut document =
        Document::new("Privacy: calibration, vertical and robust regression, coverage, time of the noise");
    document.paragraph(
        "Data are drawn from seeds; the noise of our own methods is that of real releases, exact discrete Gaussian from the operating \
         system's randomness, so that their last digits differ from run to run.",
    );
    calibration(&mut document);
    parties(run, &mut document)?;
    opened::tables(run, &mut document)?;
    batches(run, &mut document)?;
    workers(run, &mut document)?;
    evidence::tables(run, &mut document)?;
    Ok(document)
}

fn calibration(document: &mut Document) {
    document.heading("Noise of one release");
    let epsilons = [0.1, 0.5, 1.0, 3.0, 5.0, 10.0];
    let mut table = Table::new(
        "sigma over sensitivity, delta 1e-5. Published: as computed in Python from the cited formulas; those marked with a star \
         lie outside the domain of their proof.",
        ["epsilon", "0.1", "0.5", "1", "3", "5", "10"],
    );
    let exact = epsilons.map(|epsilon| 1.0 / gaussian_mu(epsilon, DELTA));
    let tight = epsilons.map(|epsilon| 1.0 / (2.0 * concentrated_rho(epsilon, DELTA)).sqrt());
    let note_exact = [30.75, 7.032, 3.731, 1.391, 0.892, 0.500];
    let note_tight = [33.98, 7.667, 4.045, 1.493, 0.953, 0.530];
    table.published(["Dwork and Roth", "48.45", "9.690", "4.845", "1.615*", "0.969*", "0.484*"]);
    table.published(["Hall et al. (PH-FSGD)", "49.41", "9.882", "4.941", "1.647*", "0.988*", "0.494*"]);
    table.published(row("zCDP, Bun and Steinke (DP-EM)", &[48.09, 9.700, 4.901, 1.698, 1.055, 0.568]));
    table.ours(row("zCDP, tight", &tight));
    table.published(row("  oracle", &note_tight));
    table.ours(row("exact", &exact));
    table.published(row("  oracle", &note_exact));
    document.table(table);
    let worst = exact
        .iter()
        .zip(note_exact)
        .chain(tight.iter().zip(note_tight))
        .map(|(ours, theirs)| (ours / theirs - 1.0).abs())
        .fold(0.0, f64::max);
    document
        .target(worst < 1.1e-3, format!("calibration agrees with the oracle to its three digits: {worst:.1e} apart"));
    let one = exact[2];
    document.target((one - 3.7306).abs() < 2e-4, format!("sigma at epsilon 1: 3.7306 within 2e-4, got {one:.5}"));
    // The classical noise at epsilon 10 is the 4.8448 of epsilon 1 over ten.
    let delta = gaussian_delta(10.0, 1.0 / 0.484_48);
    document.finding(
        delta <= DELTA,
        format!("the classical noise of Dwork and Roth keeps delta 1e-5 at epsilon 10: its true delta is {delta:.1e}"),
    );
    let caps =
        [1.0, 3.0, 10.0].map(|epsilon| (Accountant::Exact.cap(epsilon, DELTA), Accountant::Zcdp.cap(epsilon, DELTA)));
    let mut table = Table::new("Largest sum of (sensitivity / sigma)^2 over a lifetime", ["epsilon", "1", "3", "10"]);
    table.ours(row("exact", &caps.map(|c| c.0)));
    table.published(row("  oracle", &[0.0718, 0.5172, 4.0018]));
    table.ours(row("zCDP, tight", &caps.map(|c| c.1)));
    table.published(row("  oracle", &[0.06112, 0.4485, 3.5654]));
    document.table(table);
}

pub(crate) const EPSILONS: [f64; 3] = [1.0, 3.0, 10.0];

/// Rows, correlation, repetitions, and the oracle's medians: alone; rounds 1, 2 and 4; secure; curator; five sites.
type PartyCase = (usize, f64, u64, [f64; 1], [[f64; 3]; 6]);

const PARTIES: [PartyCase; 3] = [
    (
        10_000,
        0.3,
        15,
        [0.168],
        [
            [0.496, 0.130, 0.075],
            [1.08, 0.19, 0.063],
            [1.63, 0.30, 0.084],
            [0.073, 0.027, 0.010],
            [0.061, 0.023, 0.008],
            [0.150, 0.057, 0.020],
        ],
    ),
    (
        10_000,
        0.6,
        15,
        [0.217],
        [
            [0.95, 0.21, 0.118],
            [1.87, 0.31, 0.097],
            [2.71, 0.48, 0.114],
            [0.129, 0.048, 0.017],
            [0.109, 0.040, 0.015],
            [0.279, 0.100, 0.035],
        ],
    ),
    (
        100_000,
        0.3,
        5,
        [0.169],
        [
            [0.13, 0.075, 0.068],
            [0.15, 0.058, 0.044],
            [0.25, 0.051, 0.038],
            [0.007, 0.002, 0.001],
            [0.008, 0.003, 0.001],
            [0.010, 0.004, 0.001],
        ],
    ),
];

const SCHEMES: [&str; 6] = [
    "residual, 1 round",
    "residual, 2 rounds",
    "residual, 4 rounds",
    "secure cross-product (simulated)",
    "trusted curator (simulated)",
    "five sites, each its own noise (simulated)",
];

fn parties(run: &Run, document: &mut Document) -> anyhow::Result<()> {
    document.heading("Two parties with five columns each");
    document.paragraph(
        "Median of |b - b_pooled| / |b_pooled|, delta 1e-5, messages cut at 0.3 of the outcome's half range. The mechanism residual is \
         ours, both parties end with all coefficients; the simulated rows are comparators with continuous noise that this version \
         cannot release. Oracle: numpy, budget split 10/42/58 % for one round at correlation 0.3 and 5/25/70 % elsewhere.",
    );
    let cases: &[PartyCase] = run.size(&PARTIES[..], &PARTIES[..1]);
    for (rows, correlation, repetitions, oracle_alone, oracle) in cases {
        let rows = run.size(*rows, 1000);
        let seeds = run.seeds(*repetitions);
        // By epsilon: alone, then the schemes.
        let mut measured = Vec::new();
        for epsilon in EPSILONS {
            let mu = gaussian_mu(epsilon, DELTA);
            measured.push(medians(seeds, |seed| {
                let data = TwoParties::draw(rows, *correlation, seed)?;
                let mut errors = vec![data.error(&data.alone().context("dependent columns")?)];
                for rounds in [1, 2, 4] {
                    errors.push(data.error(&data.exchange(&vertical_plan(rows, mu * mu, rounds)?)?));
                }
                let mut random = ChaCha8Rng::seed_from_u64(4000 + seed);
                let mut normal = || -> f64 { StandardNormal.sample(&mut random) };
                for holder in [TableHolder::Both, TableHolder::Curator, TableHolder::Sites(5)] {
                    errors
                        .push(data.error(&data.solve_noised_table(holder, mu, &mut normal).context("singular table")?));
                }
                Ok(errors)
            })?);
        }
        let of = |scheme: usize| -> [f64; 3] { std::array::from_fn(|at| measured[at][scheme]) };
        let caption = format!("{rows} rows, correlation {correlation}, median of {seeds}");
        let mut table = Table::new(caption, ["scheme", "epsilon 1", "3", "10"]);
        table.ours(row("each alone, nothing exchanged, no noise", &of(0)));
        table.published(row("  oracle", &[oracle_alone[0]; 3]));
        for (at, (name, oracle)) in SCHEMES.iter().zip(oracle).enumerate() {
            table.ours(row(name, &of(at + 1)));
            table.published(row("  oracle", oracle));
        }
        document.table(table);
        if (rows, *correlation) == (10_000, 0.3) {
            let lines = std::iter::once(line("nothing exchanged", 3, &EPSILONS, &of(0), false))
                .chain(SCHEMES.iter().zip(oracle).enumerate().flat_map(|(at, (name, oracle))| {
                    let short = name.split(" (").next().unwrap_or(name);
                    [
                        line(short, at, &EPSILONS, &of(at + 1), false),
                        line(&format!("{short}, oracle"), at, &EPSILONS, oracle, true),
                    ]
                }))
                .collect();
            let chart = Chart {
                title: "Relative error against epsilon, two parties".to_owned(),
                x: Axis::logarithmic("epsilon"),
                y: Axis::logarithmic("relative error"),
                lines,
            };
            document.figure("parties", chart, "10 000 rows, correlation 0.3. Dashed: the oracle.");
            for ((epsilon, largest), measured) in EPSILONS.iter().zip([0.65, 0.17, 0.09]).zip(of(1)) {
                run.target(document, measured, largest, &format!("residual at epsilon {epsilon}"));
            }
            planned(run, document, rows, *correlation)?;
            document.finding(
                of(1)[0] < of(0)[0],
                "at epsilon 1 exchanging noised residuals is better than exchanging nothing",
            );
        }
    }
    Ok(())
}

pub(crate) fn vertical_plan(rows: usize, budget: f64, rounds: u32) -> anyhow::Result<vertical::Plan> {
    Ok(vertical::Plan::new(vertical::Setup {
        rows,
        alice_width: 5,
        bob_width: 5,
        rounds,
        message_bound: 0.3,
        ridge: 0.0,
        shares: vertical::Shares::default(),
        alice_budget: budget,
        bob_budget: budget,
    })?)
}

/// What `privacy plan` says of a study file that declares the true design, beside runs of that study.
fn planned(run: &Run, document: &mut Document, rows: usize, correlation: f64) -> anyhow::Result<()> {
    let seeds = run.seeds(15);
    let mut table = Table::new(
        format!(
            "The same through a study file, with an intercept in Alice's rows and the true design declared: {rows} rows, correlation \
             {correlation}, median of {seeds}"
        ),
        ["", "epsilon 1", "3", "10"],
    );
    let (mut predicted, mut measured, mut alone) = (Vec::new(), Vec::new(), Vec::new());
    for epsilon in EPSILONS {
        let study = TwoParties::study(correlation, epsilon, 1)?;
        let outlook = study.outlook(&study.private_plan(rows as u64)?)?;
        predicted.push(outlook.relative_error);
        alone.push(outlook.relative_error_alone);
        measured.extend(medians(seeds, |seed| {
            let data = TwoParties::draw(rows, correlation, seed)?;
            Ok(vec![data.error(&data.exchange_under(&study)?)])
        })?);
    }
    table.ours(row("measured", &measured));
    table.ours(row("as planned", &predicted));
    table.ours(row("exchanging nothing, as planned", &alone));
    document.table(table);
    for ((epsilon, predicted), measured) in EPSILONS.iter().zip(predicted).zip(measured) {
        if !run.quick {
            document.target(
                (1.0 / 1.5..=1.5).contains(&(predicted / measured)),
                format!(
                    "plan predicts it within a factor 1.5 at epsilon {epsilon}: {predicted:.3}, measured {measured:.3}"
                ),
            );
        }
    }
    Ok(())
}

const BATCH_EPSILONS: [f64; 3] = [0.5, 1.0, 3.0];

/// The oracle's means over epsilon .5, 1 and 3 for one kind of corruption.
struct BatchOracle {
    plain: f64,
    squares: f64,
    reject: [f64; 3],
    huber: [f64; 3],
    catoni: [f64; 3],
    ridge: [f64; 3],
}

const BATCHES: [BatchOracle; 4] = [
    BatchOracle {
        plain: 0.0125,
        squares: 0.162,
        reject: [0.030, 0.019, 0.014],
        huber: [0.023, 0.019, 0.016],
        catoni: [0.062, 0.045, 0.037],
        ridge: [0.269, 0.190, 0.162],
    },
    BatchOracle {
        plain: 0.0126,
        squares: 0.065,
        reject: [0.030, 0.020, 0.014],
        huber: [0.024, 0.019, 0.017],
        catoni: [0.061, 0.045, 0.038],
        ridge: [0.250, 0.142, 0.087],
    },
    BatchOracle {
        plain: 0.0168,
        squares: 0.403,
        reject: [0.033, 0.022, 0.018],
        huber: [0.130, 0.126, 0.126],
        catoni: [0.253, 0.253, 0.254],
        ridge: [0.44, 0.41, 0.40],
    },
    BatchOracle {
        plain: 1.98,
        squares: 1.92,
        reject: [0.026, 0.018, 0.014],
        huber: [0.163, 0.156, 0.154],
        catoni: [0.367, 0.368, 0.370],
        ridge: [1.34, 1.34, 1.34],
    },
];

fn batches(run: &Run, document: &mut Document) -> anyhow::Result<()> {
    document.heading("One worker, a fifth of whose rows are corrupted");
    let (rows, width) = run.size((10_000, 10), (3000, 4));
    let (seeds, few) = (run.seeds(20), run.seeds(5));
    document.paragraph(format!(
        "Mean |beta^ - beta| of {rows} rows and {width} columns, delta 1e-5, {seeds} data sets ({few} for Catoni). Oracle: numpy, 20 data \
         sets of 10 000 rows. Catoni: gradient descent on Catoni means (DP-EM's estimator) with its scale tuned on the truth, a \
         favour to it. Adaptive ridge: AdaSSP with rows and outcomes cut at 5."
    ));
    for (kind, oracle) in Corruption::KINDS.into_iter().zip(&BATCHES) {
        let mut methods: [[f64; 3]; 4] = [[f64::NAN; 3]; 4];
        let mut without = Vec::new();
        for (at, epsilon) in BATCH_EPSILONS.into_iter().enumerate() {
            let mu = gaussian_mu(epsilon, DELTA);
            let setup = batch_setup(rows, width, mu * mu);
            let plan = robust::Plan::new(setup)?;
            let huber = robust::Plan::new(robust::Setup { influence: Influence::Huber, ..setup })?;
            let found = means(seeds, |seed| {
                let batch = Batch::draw(rows, width, 0.2, kind, 0.0, seed)?;
                let truth = batch.coefficients();
                let mut random = ChaCha8Rng::seed_from_u64(8000 + seed);
                let mut normal = || -> f64 { StandardNormal.sample(&mut random) };
                let settings = FitSettings { start: Start::Ols, intercept: false, ..FitSettings::default() };
                let (x, y) = (batch.features(), batch.outcomes());
                let ridge = adaptive_ridge(x, y, 5.0, 5.0, mu, &mut normal);
                Ok(vec![
                    (fit(x, y, &settings)?.coefficients - &truth).norm(),
                    (baselines::least_squares(x, y).context("dependent columns")? - &truth).norm(),
                    (batch.fit(&plan)?.0 - &truth).norm(),
                    (batch.fit(&huber)?.0 - &truth).norm(),
                    (ridge.context("singular table")? - &truth).norm(),
                ])
            })?;
            let catoni = means(few, |seed| {
                let batch = Batch::draw(rows, width, 0.2, kind, 0.0, seed)?;
                let mut random = ChaCha8Rng::seed_from_u64(9000 + seed);
                let mut normal = || -> f64 { StandardNormal.sample(&mut random) };
                let tuning = (2.0, 0.8, 200f64.ln().sqrt());
                let beta = catoni_descent(batch.features(), batch.outcomes(), mu, 5, tuning, &mut normal);
                Ok(vec![(beta - batch.coefficients()).norm()])
            })?;
            methods[0][at] = found[2];
            methods[1][at] = found[3];
            methods[2][at] = catoni[0];
            methods[3][at] = found[4];
            without = found;
        }
        let mut table = Table::new(format!("Corruption: {}", kind.name()), ["method", "epsilon 0.5", "1", "3"]);
        table.ours(row("hard thresholding, no privacy", &[without[0]; 3]));
        table.published(row("  oracle", &[oracle.plain; 3]));
        table.ours(row("least squares, no privacy", &[without[1]; 3]));
        table.published(row("  oracle", &[oracle.squares; 3]));
        let names = ["DP-HRR", "DP-Huber", "Catoni, tuned", "adaptive ridge"];
        let oracles = [oracle.reject, oracle.huber, oracle.catoni, oracle.ridge];
        for ((name, ours), oracle) in names.iter().zip(&methods).zip(&oracles) {
            table.ours(row(name, ours));
            table.published(row("  oracle", oracle));
        }
        document.table(table);
        let mut lines = vec![line("no privacy", 7, &BATCH_EPSILONS, &[without[0]; 3], false)];
        for (at, ((name, ours), oracle)) in names.iter().zip(&methods).zip(&oracles).enumerate() {
            lines.push(line(name, at, &BATCH_EPSILONS, ours, false));
            lines.push(line(&format!("{name}, oracle"), at, &BATCH_EPSILONS, oracle, true));
        }
        let chart = Chart {
            title: format!("Error against epsilon, corruption: {}", kind.name()),
            x: Axis::logarithmic("epsilon"),
            y: Axis::logarithmic("error"),
            lines,
        };
        let file = kind.name().split(' ').next().unwrap_or("kind").to_owned();
        document.figure(format!("batch-{file}"), chart, format!("Corruption: {}. Dashed: the oracle.", kind.name()));
        for ((epsilon, largest), measured) in BATCH_EPSILONS.iter().zip([0.045, 0.028, 0.020]).zip(methods[0]) {
            run.target(document, measured, largest, &format!("DP-HRR, {}, epsilon {epsilon}", kind.name()));
        }
        if kind == Corruption::Collusion {
            document.finding(
                methods[2][1] < 0.05,
                format!(
                    "Catoni's influence function protects against a minority with a mean of its own: error {} at epsilon 1",
                    number(methods[2][1])
                ),
            );
        }
    }
    Ok(())
}

fn workers(run: &Run, document: &mut Document) -> anyhow::Result<()> {
    document.heading("Twenty private workers");
    let (rows, width, sites) = run.size((10_000, 10, 20), (3000, 4, 20));
    let seeds = run.seeds(5);
    document.paragraph(format!(
        "Mean error of the consensus of {sites} private estimates of {rows} rows each, {seeds} runs; consolidation sees noised values only and \
         costs nothing. Bad batches have 90 % corrupted rows, the others none. Each estimate weighs by its precision, noise included."
    ));
    for (bad, oracle) in [
        (0, [None, Some([0.0077, 0.0061, 0.0045]), Some([0.0056, 0.0036, 0.0024])]),
        (8, [Some([0.114, 0.085, 0.073]), Some([0.0077, 0.0053, 0.0045]), Some([0.0078, 0.0053, 0.0040])]),
    ] {
        let mut by_method = [[f64::NAN; 3]; 3];
        for (at, epsilon) in BATCH_EPSILONS.into_iter().enumerate() {
            let mu = gaussian_mu(epsilon, DELTA);
            let plan = robust::Plan::new(batch_setup(rows, width, mu * mu))?;
            let found = means(seeds, |seed| {
                let mut random = ChaCha8Rng::seed_from_u64(600 + seed);
                let truth = DVector::from_fn(width, |_, _| random.random::<f64>()).normalize();
                let mut estimates = Vec::new();
                for site in 0..sites {
                    let (share, kind) = if site < bad { (0.9, Corruption::Uniform) } else { (0.0, Corruption::None) };
                    let batch = Batch::draw_around(&truth, rows, share, kind, 10_000 * seed + site as u64)?;
                    let (coefficients, covariance) = batch.fit(&plan)?;
                    let precision = covariance.try_inverse().context("a covariance of noise has an inverse")?;
                    // As a worker sends it: the precision in place of cross-products.
                    estimates.push(Estimate {
                        worker: format!("worker {site:02}"),
                        batch: 0,
                        coefficients: coefficients.iter().copied().collect(),
                        gram: Some(Gram::from_matrix(&precision)),
                        nobs: rows as u64,
                        kept: rows as u64,
                        scale: kept_share_of_variance().sqrt(),
                        cleaned: true,
                    });
                }
                [Method::Mean, Method::Pivot, Method::Refine]
                    .into_iter()
                    .map(|method| Ok((consensus(&estimates, method)?.coefficients - &truth).norm()))
                    .collect()
            })?;
            for (method, found) in by_method.iter_mut().zip(found) {
                method[at] = found;
            }
        }
        let mut table = Table::new(format!("{bad} of {sites} batches bad"), ["consolidation", "epsilon 0.5", "1", "3"]);
        for ((name, ours), oracle) in ["mean", "pivot", "refine"].iter().zip(&by_method).zip(oracle) {
            table.ours(row(name, ours));
            if let Some(oracle) = oracle {
                table.published(row("  oracle", &oracle));
            }
        }
        document.table(table);
        let largest = if bad == 0 { 0.006 } else { 0.008 };
        run.target(
            document,
            by_method[2][1],
            largest,
            &format!("refine over private workers, {bad}/20 bad, epsilon 1"),
        );
    }
    Ok(())
}
