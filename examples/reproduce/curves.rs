//! Curves of distributed and online robust regression and its rivals: error over the share of corrupted rows, the number of batches, of columns
//! and of rows, and time over the number of batches.

use std::time::Instant;

use anyhow::Context as _;
use fedreg_common::methods::robust::{Method, OnlineSettings, Start};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::Run;
use crate::chart::Axis;
use crate::document::Document;
use crate::drlr::{NAMES, consensus, errors, estimates, streamed};
use crate::research::baselines;
use crate::research::batches::{BatchLaw, SyntheticBatch, batch, scattered_shares, unit_coefficients, unit_direction};
use crate::sweep::Sweep;
use crate::tables::{means, medians, number, slope};

/// Places of the methods among [`NAMES`].
const RLHH: usize = 1;
const ORL_H: usize = 3;
const ORL_TOLD: usize = 4;
const ORLR: usize = 5;
const DRLR: usize = 6;

/// What stays while one number is varied.
#[derive(Clone, Copy)]
struct Setting {
    batches: usize,
    rows: usize,
    columns: usize,
    /// Share of corrupted rows over all batches.
    corrupted: f64,
    /// Variance of the dense noise.
    noise: f64,
}

impl Setting {
    fn draw(&self, seed: u64) -> (ChaCha8Rng, Vec<SyntheticBatch>, nalgebra::DVector<f64>) {
        let mut rng = ChaCha8Rng::seed_from_u64(20_000 + seed);
        let beta = unit_coefficients(&mut rng, self.columns);
        let batches = scattered_shares(&mut rng, self.batches, self.corrupted)
            .into_iter()
            .map(|share| {
                batch(&mut rng, &beta, &BatchLaw { noise: self.noise, ..BatchLaw::published(self.rows, share) })
            })
            .collect();
        (rng, batches, beta)
    }

    /// Mean errors of all methods.
    fn errors(&self, seeds: u64) -> anyhow::Result<Vec<f64>> {
        means(seeds, |seed| {
            let (mut rng, batches, beta) = self.draw(seed);
            errors(&mut rng, &batches, &beta)
        })
    }
}

/// Sets one number of a setting.
type Vary = fn(&mut Setting, f64);

pub(crate) fn tables(run: &Run) -> anyhow::Result<Document> {
    let mut document = Document::new("Distributed and online robust regression: curves");
    let usual =
        Setting { batches: 20, rows: run.size(1000, 200), columns: run.size(20, 5), corrupted: 0.3, noise: 0.1 };
    let seeds = run.seeds(10);
    document.paragraph(format!(
        "Error |beta^ - beta|, mean of {seeds} data sets; where nothing else is said, {} batches of {} rows and {} columns, 30 % of all rows corrupted. The shares of \
         single batches are drawn evenly from 0 to twice that and scaled to this mean, so that above 25 % in all some batches are mostly corrupted. ORL* is told each \
         batch's share. Figures 3 and 4 of the paper, which has no numbers for them.",
        usual.batches, usual.rows, usual.columns
    ));
    let shares: &[f64] = run.size(&[0.05, 0.1, 0.2, 0.3, 0.4], &[0.1, 0.4]);
    let corrupted = Axis::linear("share corrupted");
    let vary: Vary = |setting, value| setting.corrupted = value;
    document.heading("Over the share of corrupted rows");
    let found = sweep(&mut document, ("corruption", corrupted.clone(), vary), shares, usual, seeds)?;
    outperform(&mut document, "at every share of corrupted rows", shares, &found);
    of_shares(run, &mut document, shares, &found);
    document.heading("The same without dense noise");
    let exact = Setting { noise: 0.0, ..usual };
    let found = sweep(&mut document, ("corruption-exact", corrupted, vary), shares, exact, seeds)?;
    for (at, name) in [(DRLR, "DRLR"), (ORLR, "ORLR")] {
        let worst = found[at].iter().copied().fold(0.0, f64::max);
        let text = format!(
            "{name} recovers the coefficients exactly without dense noise, at every share: largest error {worst:.1e}"
        );
        document.finding(worst < 1e-6, text);
    }
    let sweeps: [(&str, &str, Axis, Vary, &[f64]); 3] = [
        (
            "at every number of batches",
            "batches",
            Axis::logarithmic("batches"),
            |setting, value| setting.batches = value as usize,
            run.size(&[5.0, 10.0, 20.0, 40.0], &[5.0, 10.0]),
        ),
        (
            "at every number of columns",
            "columns",
            Axis::logarithmic("columns"),
            |setting, value| setting.columns = value as usize,
            run.size(&[5.0, 10.0, 20.0, 40.0], &[5.0, 10.0]),
        ),
        (
            "at every size of a batch",
            "rows",
            Axis::logarithmic("rows of a batch"),
            |setting, value| setting.rows = value as usize,
            run.size(&[250.0, 500.0, 1000.0, 2000.0, 4000.0], &[200.0, 400.0]),
        ),
    ];
    for (where_to, name, axis, vary, values) in sweeps {
        document.heading(format!("Over the number of {}", axis.name));
        let found = sweep(&mut document, (name, axis, vary), values, usual, seeds)?;
        outperform(&mut document, where_to, values, &found);
    }
    times(run, &mut document, usual)?;
    Ok(document)
}

fn sweep(
    document: &mut Document,
    (name, over, vary): (&str, Axis, Vary),
    values: &[f64],
    usual: Setting,
    seeds: u64,
) -> anyhow::Result<Vec<Vec<f64>>> {
    let measured = Axis::logarithmic("error");
    let caption = format!("Error by {}", over.name);
    Sweep { name: name.to_owned(), caption, over, values, measured, methods: &NAMES }.run(document, |value| {
        let mut setting = usual;
        vary(&mut setting, value);
        setting.errors(seeds)
    })
}

/// Whether both methods of the paper are better than all rivals everywhere, and whether the online one is as good as the distributed one.
fn outperform(document: &mut Document, where_to: &str, values: &[f64], found: &[Vec<f64>]) {
    for (at, name) in [(DRLR, "DRLR"), (ORLR, "ORLR")] {
        let better = |column: usize| {
            let rivals = NAMES.iter().zip(found).take(ORLR).map(|(name, errors)| (errors[column], *name));
            rivals.filter(|(error, _)| *error <= found[at][column]).min_by(|a, b| a.0.total_cmp(&b.0))
        };
        let beaten: Vec<String> = (0..values.len())
            .filter_map(|column| {
                let (error, rival) = better(column)?;
                let own = found[at][column];
                Some(format!("{rival} at {} ({} against {})", number(values[column]), number(error), number(own)))
            })
            .collect();
        let text = format!("{name} outperforms all rivals {where_to}");
        let text = if beaten.is_empty() { text } else { format!("{text}; better were {}", beaten.join(", ")) };
        document.finding(beaten.is_empty(), text);
    }
}

/// What the paper says about single rivals as the corruption grows.
fn of_shares(run: &Run, document: &mut Document, shares: &[f64], found: &[Vec<f64>]) {
    if run.quick {
        return;
    }
    let ratio = |above: usize, below: usize, column: usize| found[above][column] / found[below][column];
    let columns = || 0..shares.len();
    let most = |above, below, which: &dyn Fn(f64) -> bool| {
        columns().filter(|column| which(shares[*column])).map(|column| ratio(above, below, column)).fold(0.0, f64::max)
    };
    let apart = most(ORLR, DRLR, &|_| true);
    document.finding(
        apart < 2.0,
        format!("the error of ORLR has a small difference to that of DRLR: at most {} times as large", number(apart)),
    );
    let told: Vec<f64> = columns().filter(|at| shares[*at] < 0.25).map(|at| ratio(ORL_H, ORL_TOLD, at)).collect();
    let middle = told.iter().sum::<f64>() / told.len() as f64;
    document.finding(
        (2.0..4.5).contains(&middle),
        format!(
            "below 25 % ORL-H is almost three times as bad as ORL*, which is told the share: {} times",
            number(middle)
        ),
    );
    let (little, much) = (most(RLHH, DRLR, &|share| share < 0.25), most(RLHH, DRLR, &|share| share > 0.35));
    document.finding(
        little < 1.5 && much > 3.0,
        format!(
            "RLHH-AVG is competitive below 30 % and breaks down above: at most {} times the error of DRLR up to 20 %, {} times at 40 %",
            number(little),
            number(much)
        ),
    );
}

/// Methods whose time is measured: each from the rows of all batches to its coefficients.
const TIMED: [&str; 7] = ["OLS-AVG", "RLHH-AVG", "OPAA", "ORL-H", "ORL*", "ORLR", "DRLR"];

fn times(run: &Run, document: &mut Document, usual: Setting) -> anyhow::Result<()> {
    document.heading("Time over the number of batches");
    let values: &[f64] = run.size(&[10.0, 20.0, 40.0, 80.0], &[5.0, 10.0]);
    let one_core = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
    let caption = "Seconds on one core, batches fitted one after the other, by number of batches".to_owned();
    let sweep = Sweep {
        name: "time".to_owned(),
        caption,
        over: Axis::logarithmic("batches"),
        values,
        measured: Axis::logarithmic("seconds"),
        methods: &TIMED,
    };
    let found = sweep.run(document, |value| {
        let setting = Setting { batches: value as usize, ..usual };
        one_core.install(|| medians(run.seeds(5), |seed| seconds(&setting, seed)))
    })?;
    let fastest = |at: usize| (0..values.len()).all(|column| found.iter().all(|row| row[column] >= found[at][column]));
    for at in [6, 5] {
        let grows = slope(values, &found[at]);
        document.finding(
            (grows - 1.0).abs() < 0.15,
            format!("the time of {} grows linearly with the number of batches: as batches^{grows:.2}", TIMED[at]),
        );
    }
    let last = values.len() - 1;
    let ratio = found[6][last].max(found[5][last]) / found[RLHH][last];
    document
        .finding(ratio < 1.0, format!("DRLR and ORLR are faster than RLHH-AVG: at most {} of its time", number(ratio)));
    document.finding(fastest(2), "OPAA is faster than all other methods, at every number of batches");
    Ok(())
}

/// Seconds of every method of [`TIMED`] on one data set.
fn seconds(setting: &Setting, seed: u64) -> anyhow::Result<Vec<f64>> {
    let (mut rng, batches, _) = setting.draw(seed);
    let start = unit_direction(&mut rng, setting.columns) * (setting.columns as f64).sqrt();
    let mut found = Vec::new();
    let mut timed = |work: &mut dyn FnMut() -> anyhow::Result<()>| -> anyhow::Result<()> {
        let clock = Instant::now();
        work()?;
        found.push(clock.elapsed().as_secs_f64());
        Ok(())
    };
    let singular = "columns of a simulated batch depend on each other";
    timed(&mut || baselines::least_squares_average(&batches).context(singular).map(drop))?;
    timed(&mut || baselines::first_hard_thresholding_average(&batches).context(singular).map(drop))?;
    timed(&mut || {
        drop(baselines::passive_aggressive(&batches, start.clone(), 22.0));
        Ok(())
    })?;
    timed(&mut || baselines::online_trimmed(&batches, |_| 0.5).context(singular).map(drop))?;
    timed(&mut || baselines::online_trimmed(&batches, |b| b.corrupted).context(singular).map(drop))?;
    timed(&mut || streamed(&estimates(&batches, Start::Ols)?, OnlineSettings::source()).map(drop))?;
    timed(&mut || consensus(&estimates(&batches, Start::Ols)?, Method::Pivot).map(drop))?;
    Ok(found)
}
