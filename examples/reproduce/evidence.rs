//! What is promised of private fits beyond their errors: that intervals cover, and what the noise costs in time.

use std::time::Instant;

use anyhow::Context as _;
use fedreg_common::methods::robust::plan as robust;
use fedreg_common::privacy::accountant::gaussian_mu;
use fedreg_common::privacy::sampler::NoisePool;
use nalgebra::DVector;

use crate::Run;
use crate::chart::{Axis, Chart};
use crate::document::{Document, Table};
use crate::privacy::{DELTA, EPSILONS, vertical_plan};
use crate::research::private::{Batch, Corruption, TwoParties, batch_setup};
use crate::tables::{each, line, number};

/// Data sets of each coverage. The promise is for 500; noise differs from run to run, and with 500 the least of 150 proportions would
/// be a matter of luck.
const SIMULATIONS: u64 = 2000;
/// Fewer say too little to be judged.
const FEWEST: u64 = 500;

/// The half width of a 95 % interval in standard errors.
const NORMAL: f64 = 1.959964;

/// The cut of a message in the comparison of two parties, in half ranges of the outcome.
const CUT: f64 = 0.3;

pub(crate) fn tables(run: &Run, document: &mut Document) -> anyhow::Result<()> {
    document.heading("Coverage of 95 % intervals");
    let simulations = run.seeds(SIMULATIONS);
    document.paragraph(format!(
        "Per cent of {simulations} seeded data sets in which the interval holds the coefficient: the mean of ten coefficients, and the least \
         and the most of a single one. Promised: 92 to 98 for each. Oracle: numpy, means of ten coefficients over 500 data sets."
    ));
    workers(run, simulations, document)?;
    parties(run, simulations, document)?;
    noise(run, document)?;
    commands(document);
    Ok(())
}

/// Shares of data sets whose interval holds the truth, a coefficient each.
#[derive(Clone)]
pub(crate) struct Coverage(Vec<f64>);

impl Coverage {
    /// Of rows that say for each coefficient whether it was held.
    pub(crate) fn of(held: &[Vec<bool>]) -> Coverage {
        let width = held.first().map_or(0, Vec::len);
        let share = |j: usize| held.iter().filter(|row| row[j]).count() as f64 / held.len() as f64;
        Coverage((0..width).map(share).collect())
    }

    pub(crate) fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len() as f64
    }

    fn least(&self) -> f64 {
        self.0.iter().copied().fold(f64::INFINITY, f64::min)
    }

    fn most(&self) -> f64 {
        self.0.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }

    pub(crate) fn cell(&self) -> String {
        format!("{:.1} ({:.1} to {:.1})", 100.0 * self.mean(), 100.0 * self.least(), 100.0 * self.most())
    }
}

/// Whether each interval of 95 % holds.
pub(crate) fn held(found: &DVector<f64>, errors: &DVector<f64>, truth: &DVector<f64>) -> Vec<bool> {
    let within = |((found, error), truth): ((&f64, &f64), &f64)| (found - truth).abs() <= NORMAL * error;
    found.iter().zip(errors).zip(truth).map(within).collect()
}

/// A row of a table of coverages, with the oracle's below it.
fn rows(table: &mut Table, name: &str, measured: &[Coverage], oracle: Option<[f64; 3]>) {
    table.ours(std::iter::once(name.to_owned()).chain(measured.iter().map(Coverage::cell)));
    if let Some(oracle) = oracle {
        let oracle = oracle.map(|share| format!("{:.1}", 100.0 * share));
        table.published(std::iter::once("  oracle".to_owned()).chain(oracle));
    }
}

/// States the promise for each of these.
fn judge(run: &Run, simulations: u64, document: &mut Document, measured: &[Coverage], what: &str) {
    if run.quick || simulations < FEWEST {
        return;
    }
    let least = measured.iter().map(Coverage::least).fold(f64::INFINITY, f64::min);
    let most = measured.iter().map(Coverage::most).fold(f64::NEG_INFINITY, f64::max);
    document.target(
        least >= 0.92 && most <= 0.98,
        format!(
            "{what}: intervals cover every coefficient in 92 to 98 % at epsilon 1, 3 and 10: {:.1} to {:.1} %",
            100.0 * least,
            100.0 * most
        ),
    );
}

fn workers(run: &Run, simulations: u64, document: &mut Document) -> anyhow::Result<()> {
    let (size, width) = run.size((10_000, 10), (3000, 4));
    let kinds = [
        (Corruption::None, [0.960, 0.963, 0.966]),
        (Corruption::Uniform, [0.964, 0.969, 0.971]),
        (Corruption::Shift, [0.964, 0.964, 0.964]),
        (Corruption::Leverage, [0.961, 0.966, 0.962]),
        (Corruption::Collusion, [0.925, 0.915, 0.914]),
    ];
    let caption =
        format!("DP-HRR, {size} rows with {width} columns, a fifth corrupted: the coefficient of the clean rows");
    let mut table = Table::new(caption, ["corruption", "epsilon 1", "3", "10"]);
    let mut statements = Document::new("");
    let mut lines = Vec::new();
    for (colour, (kind, oracle)) in kinds.into_iter().enumerate() {
        let mut measured = Vec::new();
        for epsilon in EPSILONS {
            let plan = robust::Plan::new(batch_setup(size, width, gaussian_mu(epsilon, DELTA).powi(2)))?;
            let found = each(simulations, |seed| {
                let batch = Batch::draw(size, width, 0.2, kind, 0.0, 7000 + seed)?;
                let (coefficients, covariance) = batch.fit(&plan)?;
                Ok(held(&coefficients, &covariance.diagonal().map(f64::sqrt), &batch.coefficients()))
            })?;
            measured.push(Coverage::of(&found));
        }
        rows(&mut table, kind.name(), &measured, Some(oracle));
        let means: Vec<f64> = measured.iter().map(|coverage| 100.0 * coverage.mean()).collect();
        lines.push(line(kind.name(), colour, &EPSILONS, &means, false));
        lines.push(line(&format!("{}, oracle", kind.name()), colour, &EPSILONS, &oracle.map(|o| 100.0 * o), true));
        if kind == Corruption::Collusion {
            let text =
                "colluding rows that lie within the cut stay, and bias the coefficient: nothing is promised of them";
            statements.paragraph(text);
        } else {
            judge(run, simulations, &mut statements, &measured, &format!("DP-HRR, {}", kind.name()));
        }
    }
    document.table(table);
    document.parts.extend(statements.parts);
    let chart = Chart {
        title: "Coverage of 95 % intervals, one worker".to_owned(),
        x: Axis::logarithmic("epsilon"),
        y: Axis::linear("per cent of data sets"),
        lines,
    };
    document.figure("coverage-worker", chart, "Mean of ten coefficients. Dashed: the oracle.");
    Ok(())
}

fn parties(run: &Run, simulations: u64, document: &mut Document) -> anyhow::Result<()> {
    let size = run.size(10_000, 1000);
    let (mut stated, mut pooled) = (Vec::new(), Vec::new());
    for epsilon in EPSILONS {
        let plan = vertical_plan(size, gaussian_mu(epsilon, DELTA).powi(2), 1)?;
        let found = each(simulations, |seed| {
            let data = TwoParties::draw(size, 0.3, 5000 + seed)?;
            let target = data.target(1, CUT).context("dependent columns")?;
            let ours = data.exchange_from(&plan, &mut NoisePool::new())?;
            let of = |truth: &DVector<f64>| held(&ours.coefficients, &ours.standard_errors, truth);
            Ok((of(&target), of(data.pooled())))
        })?;
        let (first, second): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        stated.push(Coverage::of(&first));
        pooled.push(Coverage::of(&second));
    }
    let caption = format!("residual, one round, {size} rows, 5 + 5 columns of correlation 0.3");
    let mut table = Table::new(caption, ["coefficient", "epsilon 1", "3", "10"]);
    rows(&mut table, "of the same round and cuts without noise", &stated, Some([0.952, 0.943, 0.940]));
    rows(&mut table, "of the pooled fit, which is not promised", &pooled, None);
    table.published(["  oracle, which knows its own spread", "94.5", "91.8", "64.1"]);
    document.table(table);
    judge(run, simulations, document, &stated, "residual, its stated target");
    let of = |measured: &[Coverage]| -> Vec<f64> { measured.iter().map(|coverage| 100.0 * coverage.mean()).collect() };
    let lines = vec![
        line("same round without noise", 0, &EPSILONS, &of(&stated), false),
        line("same round without noise, oracle", 0, &EPSILONS, &[95.2, 94.3, 94.0], true),
        line("pooled fit", 1, &EPSILONS, &of(&pooled), false),
        line("pooled fit, oracle", 1, &EPSILONS, &[94.5, 91.8, 64.1], true),
    ];
    let chart = Chart {
        title: "Coverage of 95 % intervals, two parties".to_owned(),
        x: Axis::logarithmic("epsilon"),
        y: Axis::linear("per cent of data sets"),
        lines,
    };
    document.figure("coverage-parties", chart, "Mean of ten coefficients. Dashed: the oracle.");
    Ok(())
}

/// Seconds that it takes, and what comes of it.
fn timed<T, E>(work: impl FnOnce() -> Result<T, E>) -> Result<(f64, T), E> {
    let clock = Instant::now();
    work().map(|found| (clock.elapsed().as_secs_f64(), found))
}

fn noise(run: &Run, document: &mut Document) -> anyhow::Result<()> {
    document.heading("What noise costs in time");
    let rows = run.size(1_000_000, 20_000);
    let one_core = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
    let (seconds, ()) = one_core.install(|| timed(|| NoisePool::new().fill(rows)))?;
    run.target(document, seconds, 5.0, "seconds for 1 000 000 lattice draws on one core");
    document.paragraph(format!(
        "{rows} rows, one core, without ledger and line. Every row of a partial prediction has noise of its own; a party draws as much as \
         its rows and rounds take, and a little more, before the parties meet."
    ));
    let mut table = Table::new(
        "Seconds of a run, both parties' together",
        ["run", "drawn ahead", "run", "noised numbers", "% ahead"],
    );
    let budget = gaussian_mu(1.0, DELTA).powi(2);
    let plan = vertical_plan(rows, budget, 1)?;
    let data = TwoParties::draw(rows, 0.3, 1)?;
    let filled = 2 * (rows + 4096);
    for (name, ahead) in
        [("residual, one round, noise ahead", filled), ("residual, one round, noise as it is needed", 0)]
    {
        let mut pool = NoisePool::new();
        let (before, ()) = one_core.install(|| timed(|| pool.fill(ahead)))?;
        let (during, found) = one_core.install(|| timed(|| data.exchange_from(&plan, &mut pool)))?;
        let share = 100.0 * (ahead - pool.ready()) as f64 / found.draws as f64;
        let before = if ahead == 0 { 0.0 } else { before };
        table.ours([name.to_owned(), number(before), number(during), found.draws.to_string(), number(share)]);
    }
    drop(data);
    let plan = robust::Plan::new(batch_setup(rows, 10, budget))?;
    let batch = Batch::draw(rows, 10, 0.2, Corruption::Uniform, 0.0, 1)?;
    let (during, _) = one_core.install(|| timed(|| batch.fit(&plan)))?;
    let rounds = f64::from(plan.rounds());
    let name = format!("DP-HRR, {} rounds, ten columns", plan.rounds());
    table.ours([name, number(0.0), number(during), "some hundred".to_owned(), number(0.0)]);
    document.table(table);
    document.paragraph(format!(
        "That is {} seconds a round of DP-HRR, whose noise does not grow with the rows.",
        number(during / rounds)
    ));
    Ok(())
}

fn commands(document: &mut Document) {
    document.heading("What other commands show");
    document.paragraph(
        "From 100 000 runs a side, what each mechanism, a whole exchange and a whole private robust fit give away at epsilon 1, 3 and \
         10, and that noise too small by sqrt 2 is noticed:",
    );
    document.paragraph("cargo test --release -p fedreg-common --lib an_audit_in_full -- --ignored --nocapture");
    document.paragraph(
        "That the accountants' vectors are those of dp_accounting and of fifty digits, made again by their script:",
    );
    document.paragraph("FEDREG_PYTHON=python3 cargo test --release -p fedreg-tests -- --ignored accountants");
    document.paragraph("That the tests notice when a guarantee is broken on purpose:");
    document.paragraph("tests/mutations.sh");
}
