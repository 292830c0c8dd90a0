//! Streams under local privacy.

#[path = "stream/budgets.rs"]
mod budgets;
#[path = "stream/cases.rs"]
mod cases;
#[path = "stream/rates.rs"]
mod rates;

use fedreg_common::bounded::SimulatedNoise;
use fedreg_common::methods::stream::{Average, Basis, Grid, Kernel, Learner, Loss, Settings, Stated, Step};
use fedreg_common::privacy::accountant::gaussian_mu;

use crate::Run;
use crate::chart::{Axis, Chart};
use crate::document::{Document, Table};
use crate::research::streams::{Sine, run as stream, squared_error};
use crate::tables::{each, line, median, number, row};

const HUBER: Loss = Loss::Huber { tau: 1.0 };
/// Constant steps without noise.
const PLAIN: &[f64] = &[0.03, 0.06, 0.125, 0.25, 0.5];
const LENGTHS: [usize; 3] = [2000, 10_000, 40_000];

pub(crate) fn tables(run: &Run) -> anyhow::Result<Document> {
    let mut document = Document::new("Streams under local privacy");
    let basis = Basis::Grid(Grid::new(Kernel::Gaussian { width: 0.15 }, 30, 1)?);
    let seeds = run.seeds(15);
    document.paragraph(format!(
        "Integrated squared error of the averaged function, sin(2 pi x) with a t(3) variable as noise, Gaussian kernel of \
         width 0.15 on 30 points, tau = 1; median of {seeds} streams, best constant step of a list and the better of both averages. The \
         zero function has 0.493. Oracle: numpy. Published settings of PH-FSGD have delta 0.1 and 0.2, which permits publishing \
         every tenth record outright; here delta is 1e-5."
    ));
    let lengths: &[usize] = run.size(&LENGTHS[..], &LENGTHS[..1]);
    let private: &[f64] =
        run.size(&[0.0002, 0.0004, 0.0007, 0.001, 0.0015, 0.002, 0.003, 0.004, 0.006, 0.008], &[0.001, 0.004]);
    let cases: [(&str, Option<f64>, [f64; 3]); 3] = [
        ("H-FSGD, no privacy", None, [0.0053, 0.0014, 0.0003]),
        ("PH-FSGD, epsilon 3", Some(gaussian_mu(3.0, 1e-5)), [0.131, 0.058, 0.019]),
        ("PH-FSGD, epsilon 1", Some(gaussian_mu(1.0, 1e-5)), [0.322, 0.186, 0.084]),
    ];
    let law = Sine { freedom: 3.0, scale: 1.0 };
    let header = std::iter::once("method".to_owned()).chain(lengths.iter().map(|n| format!("{n} records")));
    let mut table = Table::new("Integrated squared error", header.collect::<Vec<_>>());
    let mut lines = Vec::new();
    let mut statements = Document::new("");
    let x: Vec<f64> = lengths.iter().map(|n| *n as f64).collect();
    for (colour, (name, mu, oracle)) in cases.into_iter().enumerate() {
        let mut found = Vec::new();
        for &n in lengths {
            let steps = if mu.is_some() { private } else { PLAIN };
            found.push(best(&basis, HUBER, (law, Sine::function), n, mu, steps, seeds)?.median);
        }
        table.ours(row(name, &found));
        table.published(row("  oracle", &oracle[..lengths.len()]));
        for ((n, found), oracle) in lengths.iter().zip(&found).zip(oracle) {
            // The oracle's numbers are rounded to a unit of their last digit.
            run.target(&mut statements, *found, 1.3 * (oracle + 0.00005), &format!("{name}, {n} records"));
        }
        lines.push(line(name, colour, &x, &found, false));
        lines.push(line(&format!("{name}, oracle"), colour, &x, &oracle[..lengths.len()], true));
        if let (Some(_), true) = (mu, lengths.len() > 1) {
            let slope = (found[lengths.len() - 1] / found[0]).ln() / (x[lengths.len() - 1] / x[0]).ln();
            statements.finding(
                slope < -0.85,
                format!(
                    "{name} has the rate of the method without privacy, about -0.95: its error falls as n^{slope:.2}"
                ),
            );
        }
    }
    document.table(table);
    document.parts.extend(statements.parts);
    let chart = Chart {
        title: "Integrated squared error by length of the stream".to_owned(),
        x: Axis::logarithmic("records"),
        y: Axis::logarithmic("integrated squared error"),
        lines,
    };
    document.figure("errors", chart, "Dashed: the oracle.");
    tails(run, &mut document, &basis)?;
    cases::tables(run, &mut document, &basis)?;
    budgets::tables(run, &mut document, &basis)?;
    rates::tables(run, &mut document)?;
    Ok(document)
}

fn tails(run: &Run, document: &mut Document, basis: &Basis) -> anyhow::Result<()> {
    document.heading("Heavy tails");
    let heavy = Sine { freedom: 1.5, scale: 0.5 };
    let seeds = run.seeds(25);
    let mut table =
        Table::new("Integrated squared error under half a t(1.5) variable", ["loss", "500 records", "4000 records"]);
    let (mut squares, mut huber) = (Vec::new(), Vec::new());
    for n in [500, 4000] {
        let law = (heavy, Sine::function as fn(f64) -> f64);
        huber.push(best(basis, HUBER, law, n, None, PLAIN, seeds)?.median);
        squares.push(best(basis, Loss::Squares, law, n, None, &[0.004, 0.015, 0.03, 0.06, 0.125], seeds)?.median);
    }
    table.ours(row("least squares", &squares));
    table.published(row("  oracle", &[0.049, 0.0078]));
    table.ours(row("Huber", &huber));
    table.published(row("  oracle", &[0.0083, 0.0014]));
    document.table(table);
    let ratio = squares.iter().zip(&huber).map(|(squares, huber)| squares / huber).fold(f64::INFINITY, f64::min);
    let text = format!("least squares over Huber under heavy tails: at least 4, measured {}", number(ratio));
    if run.quick {
        document.paragraph(text);
    } else {
        document.target(ratio >= 4.0, text);
    }
    Ok(())
}

/// The constant step and the average with the least median error.
struct Best {
    median: f64,
    /// Of each seed.
    errors: Vec<f64>,
    step: f64,
    part: Average,
}

impl Best {
    /// The seed whose error is nearest the middle.
    fn typical(&self) -> u64 {
        let apart = |seed: &usize| (self.errors[*seed] - self.median).abs();
        (0..self.errors.len()).min_by(|a, b| apart(a).total_cmp(&apart(b))).unwrap_or(0) as u64
    }
}

fn settings(basis: &Basis, loss: Loss, step: Step) -> anyhow::Result<Settings> {
    Ok(Settings::try_from(Stated { basis: basis.clone(), loss, step })?)
}

/// The learner after a stream.
fn fitted(
    settings: &Settings,
    (law, function): (Sine, fn(f64) -> f64),
    n: usize,
    mu: Option<f64>,
    noise: &mut SimulatedNoise,
    seed: u64,
) -> anyhow::Result<Learner> {
    Ok(stream(settings, &law.draw(function, n, seed), mu, noise)?)
}

/// The best over the steps and both averages.
fn best(
    basis: &Basis,
    loss: Loss,
    law: (Sine, fn(f64) -> f64),
    n: usize,
    mu: Option<f64>,
    steps: &[f64],
    seeds: u64,
) -> anyhow::Result<Best> {
    let mut best = Best { median: f64::INFINITY, errors: Vec::new(), step: steps[0], part: Average::LastHalf };
    for &length in steps {
        let settings = settings(basis, loss, Step::Constant { length })?;
        let errors = each(seeds, |seed| {
            let learner = fitted(&settings, law, n, mu, &mut SimulatedNoise::seeded(seed + 100), seed)?;
            let part = |part| squared_error(law.1, &settings, &learner, part);
            Ok([part(Average::LastHalf)?, part(Average::All)?])
        })?;
        for (at, part) in [Average::LastHalf, Average::All].into_iter().enumerate() {
            let errors: Vec<f64> = errors.iter().map(|errors| errors[at]).collect();
            let middle = median(errors.clone());
            if middle < best.median {
                best = Best { median: middle, errors, step: length, part };
            }
        }
    }
    Ok(best)
}
