//! Private gradient expectation maximisation.

#[path = "em/census.rs"]
mod census;
#[path = "em/sweeps.rs"]
mod sweeps;

use fedreg_common::bounded::SimulatedNoise;
use fedreg_common::methods::em::{
    DEFAULT_SMOOTHING, Estimator, Model, Records, Settings, Stated, Update, averaged_rounds, catoni_scale, clip_bound,
    simulate,
};
use fedreg_common::privacy::accountant::gaussian_mu;
use nalgebra::DVector;

use crate::Run;
use crate::chart::{Axis, Chart};
use crate::document::{Document, Table};
use crate::research::printed_em as printed;
use crate::tables::{each, line, median, number, row};

const EPSILONS: [f64; 3] = [0.2, 0.5, 1.0];

/// What the oracle measured and what is asked for, by model.
struct Case {
    model: Model,
    title: &'static str,
    plain: (f64, f64),
    clip: ([f64; 3], [f64; 3]),
    /// Algorithm 2 with the account of the paper, and with exact accounting.
    paper: [[f64; 3]; 2],
}

const CASES: [Case; 3] = [
    Case {
        model: Model::GaussianMixture,
        title: "mixture of two groups (GMM)",
        plain: (0.031, 0.04),
        clip: ([0.15, 0.076, 0.050], [0.20, 0.10, 0.065]),
        paper: [[1.17, 0.74, 0.53], [0.88, 0.61, 0.46]],
    },
    Case {
        model: Model::MixedRegressions,
        title: "mixture of two regressions (MRM)",
        plain: (0.035, 0.045),
        clip: ([0.19, 0.088, 0.058], [0.25, 0.12, 0.075]),
        paper: [[2.66, 1.22, 0.86], [1.90, 1.22, 0.92]],
    },
    Case {
        model: Model::MissingCovariates,
        title: "regression with 10 % of the covariates missing (RMC)",
        plain: (0.042, 0.05),
        clip: ([0.20, 0.077, 0.039], [0.26, 0.10, 0.055]),
        paper: [[1.95, 1.21, 0.85], [1.80, 1.17, 0.88]],
    },
];

/// How gradients are bounded in a row of the table.
#[derive(Clone, Copy, PartialEq)]
enum Bound {
    Nothing,
    Clip,
    /// Clipped at this norm, and the last round is the estimate: the baseline of the paper with its choice of 1.
    ClipAt(f64),
    Catoni,
    /// Algorithm 2 with the scale at which two of its formulas agree, at this epsilon.
    Printed(f64),
}

const COLUMNS: usize = 10;
const ROUNDS: u32 = 22;

pub(crate) fn tables(run: &Run) -> anyhow::Result<Document> {
    // What cannot be used is refused before anything is computed.
    let tables = census::given(run)?;
    let mut document = Document::new("Private expectation maximisation");
    let n = run.size(10_000, 1000);
    let seeds = run.seeds(5);
    document.paragraph(format!(
        "Median |beta^ - beta| of {seeds} data sets: {n} records, 10 columns, 22 rounds, |beta| = 3, sigma = 1, random start. delta = 1/n \
         as in the paper, and only here: it is not a meaningful promise. Oracle: numpy, five data sets of 10 000 records. Paper: \
         D. Wang et al., Differentially Private (Gradient) Expectation Maximization Algorithm with Statistical Guarantees; \
         it has no numbers, only pictures."
    ));
    for case in &CASES {
        of_case(run, &mut document, case, n, seeds)?;
    }
    sweeps::tables(run, &mut document)?;
    document.heading("Census data");
    if tables.is_empty() {
        document.paragraph("Census data are left out: give them with --adult FILE and --ipums FILE.");
    }
    for table in &tables {
        census::errors(run, &mut document, table)?;
    }
    weight(run, &mut document)?;
    truncation(&mut document);
    Ok(document)
}

/// The table of one model, its plot and what it shows.
fn of_case(run: &Run, document: &mut Document, case: &Case, n: usize, seeds: u64) -> anyhow::Result<()> {
    let delta = 1.0 / n as f64;
    let error = |bound: Bound, mu: f64, sites: usize| -> anyhow::Result<f64> {
        Ok(median(each(seeds, |seed| one(case.model, n, bound, mu, sites, seed))?))
    };
    let plain = error(Bound::Nothing, 1.0, 1)?;
    let at = |bound: &dyn Fn(f64) -> (Bound, f64, usize)| -> anyhow::Result<[f64; 3]> {
        let mut found = [f64::NAN; 3];
        for (place, epsilon) in EPSILONS.into_iter().enumerate() {
            let (bound, mu, sites) = bound(epsilon);
            found[place] = error(bound, mu, sites)?;
        }
        Ok(found)
    };
    let exact = |epsilon: f64| gaussian_mu(epsilon, delta);
    let clip = at(&|epsilon| (Bound::Clip, exact(epsilon), 1))?;
    let five = at(&|epsilon| (Bound::Clip, exact(epsilon), 5))?;
    let catoni = at(&|epsilon| (Bound::Catoni, exact(epsilon), 1))?;
    // The account of Bun and Steinke as a Gaussian budget.
    let published = at(&|epsilon| (Bound::Printed(epsilon), 2f64.sqrt() * printed::budget(epsilon, delta), 1))?;
    let printed_exact = at(&|epsilon| (Bound::Printed(epsilon), exact(epsilon), 1))?;
    let mut table = Table::new(case.title, ["method", "epsilon 0.2", "0.5", "1"]);
    table.ours(row("no privacy", &[plain; 3]));
    table.published(row("  oracle", &[case.plain.0; 3]));
    table.ours(row("Algorithm 2, the paper's account", &published));
    table.published(row("  oracle", &case.paper[0]));
    table.ours(row("Algorithm 2, exact account", &printed_exact));
    table.published(row("  oracle", &case.paper[1]));
    table.ours(row("catoni, our scale", &catoni));
    table.ours(row("clip", &clip));
    table.published(row("  oracle", &case.clip.0));
    table.ours(row("clip, five sites that trust nobody", &five));
    document.table(table);
    let lines = vec![
        line("no privacy", 7, &EPSILONS, &[plain; 3], false),
        line("clip", 0, &EPSILONS, &clip, false),
        line("clip, oracle", 0, &EPSILONS, &case.clip.0, true),
        line("clip, five sites", 2, &EPSILONS, &five, false),
        line("catoni", 1, &EPSILONS, &catoni, false),
        line("Algorithm 2, oracle", 1, &EPSILONS, &case.paper[0], true),
    ];
    let chart = Chart {
        title: format!("Error against epsilon, {}", case.title),
        x: Axis::logarithmic("epsilon"),
        y: Axis::logarithmic("error"),
        lines,
    };
    document.figure(case.model.name(), chart, format!("{}. Dashed: the oracle.", case.title));
    run.target(document, plain, case.plain.1, "no privacy");
    for (place, epsilon) in EPSILONS.iter().enumerate() {
        run.target(document, clip[place], case.clip.1[place], &format!("clip at epsilon {epsilon}"));
        run.target(document, catoni[place], 1.2 * case.paper[1][place], &format!("catoni at epsilon {epsilon}"));
    }
    document.paragraph(format!(
        "Five sites that each add their own noise, against one that holds all records: {} times the error at epsilon 1.",
        number(five[2] / clip[2])
    ));
    document.finding(
        published[2] < 1.5 * plain,
        format!(
            "at epsilon 1 the private estimate of Algorithm 2 is nearly as good as the one without privacy: {} against {}",
            number(published[2]),
            number(plain)
        ),
    );
    document.finding(
        clip[2] > published[2],
        format!(
            "plain clipping of gradients is worse than the paper's estimator: {} against {}",
            number(clip[2]),
            number(published[2])
        ),
    );
    Ok(())
}

fn one(model: Model, n: usize, bound: Bound, mu: f64, sites: usize, seed: u64) -> anyhow::Result<f64> {
    let trial = Trial { model, n, columns: COLUMNS, rounds: ROUNDS, update: Update::Gradient { step: 1.0 } };
    let path = trial.path(bound, mu, sites, seed)?;
    Ok(model.distance(&path.settings.estimate(&path.coefficients), &trial.truth(seed)))
}

/// A fit of invented records with `|beta| = 3` and `sigma = 1`.
#[derive(Clone, Copy)]
struct Trial {
    model: Model,
    n: usize,
    columns: usize,
    rounds: u32,
    update: Update,
}

/// The coefficients after every round, the start first.
struct Path {
    settings: Settings,
    coefficients: Vec<DVector<f64>>,
}

impl Trial {
    fn truth(&self, seed: u64) -> DVector<f64> {
        simulate::direction(self.columns, 3.0, 100 + seed)
    }

    fn path(&self, bound: Bound, mu: f64, sites: usize, seed: u64) -> anyhow::Result<Path> {
        let Trial { model, n, columns, .. } = *self;
        let truth = self.truth(seed);
        let records: Vec<Records> = (0..sites)
            .map(|site| simulate::draw(model, 1.0, &truth, n / sites, 0.1, 1000 + seed * 16 + site as u64))
            .collect::<Result<_, _>>()?;
        let tau = 1.0 + if model == Model::GaussianMixture { truth.amax().powi(2) } else { 9.0 };
        let settings = self.settings((1.0, tau), bound, mu, sites)?;
        let start = simulate::direction(columns, if model.sign_is_free() { 1.5 } else { 0.45 }, 500 + seed);
        let coefficients = simulate::fit(&settings, &records, &start, mu, &mut SimulatedNoise::seeded(9000 + seed))?;
        Ok(Path { settings, coefficients })
    }

    fn settings(&self, (sigma, tau): (f64, f64), bound: Bound, mu: f64, sites: usize) -> anyhow::Result<Settings> {
        let Trial { model, n, columns, rounds, update } = *self;
        let averaged = if bound == Bound::Clip { averaged_rounds(rounds) } else { 1 };
        let mut stated = Stated { model, columns, sigma, tau, rounds, estimator: Estimator::None, update, averaged };
        stated.estimator = match bound {
            Bound::Nothing => Estimator::None,
            Bound::Clip => Estimator::Clip { bound: clip_bound(columns, tau) },
            Bound::ClipAt(bound) => Estimator::Clip { bound },
            Bound::Catoni => Estimator::Catoni {
                scale: catoni_scale(&stated, DEFAULT_SMOOTHING, n as u64, sites as u32, mu),
                smoothing: DEFAULT_SMOOTHING,
            },
            Bound::Printed(epsilon) => Estimator::Catoni {
                scale: printed::scales(n as f64, columns as f64, tau, epsilon, 1.0 / n as f64, 0.05)[1],
                smoothing: (columns as f64 / 0.05).ln().sqrt(),
            },
        };
        Ok(Settings::try_from(stated)?)
    }
}

fn weight(run: &Run, document: &mut Document) -> anyhow::Result<()> {
    document.heading("The printed posterior weight");
    let n = run.size(100_000, 20_000);
    let mut table = Table::new(
        format!("Length of the mixture's estimate over that of beta, {n} records without privacy, 100 rounds"),
        ["weight", "signal to noise 0.5", "1", "2", "3"],
    );
    let ratios = each(4, |place| {
        let length = [0.5, 1.0, 2.0, 3.0][place as usize];
        let truth = simulate::direction(10, length, 4);
        let records = simulate::draw(Model::GaussianMixture, 1.0, &truth, n, 0.0, 5)?;
        let stated = Stated {
            model: Model::GaussianMixture,
            columns: 10,
            sigma: 1.0,
            tau: 1.0 + length * length,
            rounds: 100,
            estimator: Estimator::None,
            update: Update::Gradient { step: 1.0 },
            averaged: 1,
        };
        let settings = Settings::try_from(stated)?;
        let start: DVector<f64> = simulate::direction(10, 0.5 * length, 6);
        let mut silent = fedreg_common::bounded::Silent;
        let path = simulate::fit(&settings, std::slice::from_ref(&records), &start, 1.0, &mut silent)?;
        let found = settings.estimate(&path);
        let collapsed = printed::fit(&records, 1.0, &start, 100).norm() / length;
        Ok((found.norm() / length, collapsed, Model::GaussianMixture.distance(&found, &truth) / length))
    })?;
    table.ours(row("corrected: 1 / (1 + exp(-2 beta'y / sigma^2))", &ratios.iter().map(|r| r.0).collect::<Vec<_>>()));
    table.ours(row("as printed, without the 2", &ratios.iter().map(|r| r.1).collect::<Vec<_>>()));
    table.published(row("  oracle", &[0.0, 0.07, 0.953, 0.998]));
    document.table(table);
    document.finding(
        ratios[1].1 > 0.9,
        format!("the printed weights (23), (24) have beta as their fixed point at signal to noise 1: they end at {} of its length", number(ratios[1].1)),
    );
    run.target(document, ratios[1].2, 0.05, "relative error of the corrected mixture at signal to noise 1");
    Ok(())
}

fn truncation(document: &mut Document) {
    document.heading("The closed form of the smoothed truncation");
    let mut table =
        Table::new("Value at a = b; the bound on which the noise rests is 0.943", ["form", "1e2", "1e5", "1e6", "1e7"]);
    let arguments = [1e2, 1e5, 1e6, 1e7];
    let stable = fedreg_common::methods::em::SmoothTruncation::new(1.0);
    table.ours(row("as printed", &arguments.map(|a| printed::smoothed_truncation(a, a))));
    table.ours(row("evaluated stably", &arguments.map(|a| stable.value(a))));
    document.table(table);
    // Between these arguments the sum is rounding, and where it falls is chance.
    let largest =
        (0..30).map(|k| 1e5 * 1.3_f64.powi(k)).map(|a| printed::smoothed_truncation(a, a).abs()).fold(0.0, f64::max);
    let broken = largest > 0.943;
    document.finding(
        !broken,
        format!(
            "the closed form stays within its bound in double precision: between 1e5 and 2e8 its largest value is {}, and a record \
             with such a gradient exceeds the sensitivity",
            number(largest)
        ),
    );
}
