//! Workers and a coordinator on one machine: robust regression over batches, some of which are wrong.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use fedreg_common::data::{DataError, Frame, Values, encode, outcome};
use fedreg_common::exit::Exit;
use fedreg_common::fit::Coefficient;
use fedreg_common::glm::Family;
use fedreg_common::id::Role;
use fedreg_common::report::{Comparison, INTERCEPT, Report};
use fedreg_common::robust::minimum_rows;
use fedreg_common::study::{
    ColumnTerms, CoordinatorTerms, FitTerms, HeldColumn, InferenceTerms, Missing, Mode, Model, OnlineTerms,
    PredictionTerms, Protocol, RobustTerms, RowTerms, SiteTerms, Study, WorkerTerms,
};
use fedreg_party::check::size;
use fedreg_party::config::DataTerms;
use fedreg_party::output::{self, Format};
use fedreg_party::read::{self, Request};
use fedreg_party::worker::config::{Config, PolicyTerms};
use fedreg_party::worker::last::joins;
use nalgebra::{DMatrix, DVector};
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::Failure;
use crate::arguments::{ModeName, Robust};
use crate::columns::list;
use crate::processes::{self, Process};
use crate::stage::{Stage, absolute, cannot_write, folder, shown};

/// The shipped data, so that the demo runs from any folder.
const DIABETES: &str = include_str!("../data/diabetes.csv");
/// Batches of the shipped data are small, as the data are.
const SHIPPED_ROWS: u64 = 73;
/// Few features, as the batches are small.
const SHIPPED_FEATURES: [&str; 4] = ["sex", "bmi", "bp", "s5"];
/// Workers whose complaints are shown when a run fails.
const LAST_WORDS: usize = 5;
/// Batches of other data.
const BATCH_ROWS: u64 = 1000;

pub(crate) fn run(arguments: &Robust, call: String) -> Result<Exit, Failure> {
    if arguments.mode != ModeName::Plain {
        return Err(Failure::usage("robust regression has mode `plain` only in this version"));
    }
    let out = absolute(&arguments.out)?;
    let place = folder(&out)?;
    let stage = Stage::new(&place, "demo robust");
    let table = Table::read(arguments, &place)?;
    let study = study(arguments, &table)?;
    stage.study(&study)?;
    let damaged = table.damage(arguments, &study);
    let mut names: Vec<&str> = study.workers.keys().map(String::as_str).collect();
    names.push("coordinator");
    stage.certificates(&names)?;
    processes::watch_for_interrupts()?;
    for (name, block) in study.workers.keys().zip(&damaged.blocks) {
        let rows = table.file(&damaged, *block).map_err(|error| Failure::new(Exit::Data, error))?;
        folder(&stage.path(name))?.write("rows.csv", &rows).map_err(cannot_write)?;
    }
    play(&stage, &study)?;
    let own = stage.report("coordinator")?;
    let comparison = match arguments.corrupt {
        share if share > 0.0 => Some(compare(&own, &study, &table, &damaged).map_err(|e| Failure::new(Exit::Data, e))?),
        _ => None,
    };
    let merged = Report { role: None, call, comparison, ..own };
    place.report(&merged).map_err(cannot_write)?;
    let text = match arguments.format {
        Format::Text => programme(&merged, &study, &damaged, &out),
        format => format.render(&merged),
    };
    output::print(&text).map_err(cannot_write)?;
    Ok(merged.termination.exit())
}

/// The user's table.
struct Table {
    frame: Frame,
    outcome: String,
    features: Vec<String>,
    rows: u64,
}

impl Table {
    fn read(arguments: &Robust, place: &output::Folder) -> Result<Table, Failure> {
        let refused = |error| Failure::new(Exit::Data, anyhow::Error::new(error));
        let data: PathBuf = match &arguments.data {
            Some(file) => absolute(file)?,
            None => {
                place.write("diabetes.csv", DIABETES.as_bytes()).map_err(cannot_write)?;
                place.path().join("diabetes.csv")
            }
        };
        let shipped = arguments.data.is_none();
        let Some(outcome) = arguments.outcome.clone().or(shipped.then(|| "progression".to_string())) else {
            return Err(Failure::usage("--data needs --outcome: which column is to be explained?"));
        };
        let header = read::header(&data, None).map_err(refused)?;
        let features = match &arguments.features {
            Some(names) => list(names, "--features")?,
            None if shipped => {
                SHIPPED_FEATURES.iter().filter(|name| **name != outcome).map(ToString::to_string).collect()
            }
            None => header.iter().filter(|name| **name != outcome).cloned().collect(),
        };
        if features.contains(&outcome) {
            return Err(Failure::usage(format!("column `{outcome}` is the outcome and cannot be a predictor too")));
        }
        let mut columns = features.clone();
        columns.push(outcome.clone());
        let request = Request { columns: Some(columns), ..Request::default() };
        let frame = read::read(&data, &request).map_err(refused)?;
        let rows = frame.rows() as u64;
        let numeric = frame.column(&outcome).is_ok_and(|column| matches!(column.values, Values::Numeric(_)));
        if !numeric {
            let sentence = format!("column `{outcome}` of {} is not numeric and cannot be the outcome", data.display());
            return Err(Failure::new(Exit::Data, anyhow::anyhow!(sentence)));
        }
        Ok(Table { frame, outcome, features, rows })
    }

    /// Rows of each worker, contiguous.
    fn blocks(&self, workers: u64) -> Vec<(u64, u64)> {
        (0..workers).map(|at| (at * self.rows / workers, (at + 1) * self.rows / workers)).collect()
    }

    /// Gives each worker its rows in a file of its own, after some batches were damaged.
    fn damage(&self, arguments: &Robust, study: &Study) -> Damaged {
        let batch_rows = study.site_terms().batch_rows;
        let least = minimum_rows(study.coefficient_names().map_or(1, |names| names.len()));
        let wanted = usize::try_from(batch_rows).unwrap_or(usize::MAX);
        let blocks = self.blocks(study.workers.len() as u64);
        let mut batches: Vec<(u64, u64)> = Vec::new();
        for &(from, to) in &blocks {
            // As the workers cut their rows, a short last batch joined to the one before it.
            let (mut count, rest) = ((to - from) / batch_rows, (to - from) % batch_rows);
            let short = joins(usize::try_from(rest).unwrap_or(usize::MAX), wanted, least);
            if rest > 0 && (count == 0 || !short) {
                count += 1;
            }
            for at in 0..count {
                let first = from + at * batch_rows;
                batches.push((first, if at + 1 == count { to } else { first + batch_rows }));
            }
        }
        // To the nearest number, and half of an odd number down: half would otherwise be most.
        let wrong = (arguments.corrupt * batches.len() as f64 - 0.5).ceil().max(1.0) as usize;
        let mut chosen: Vec<usize> = (0..batches.len()).collect();
        chosen.shuffle(&mut ChaCha8Rng::seed_from_u64(arguments.seed));
        chosen.truncate(if arguments.corrupt > 0.0 { wrong } else { 0 });
        chosen.sort_unstable();
        let mut bad = vec![false; usize::try_from(self.rows).unwrap_or(0)];
        for &at in &chosen {
            (batches[at].0..batches[at].1).for_each(|row| bad[row as usize] = true);
        }
        Damaged { blocks, bad, batches: batches.len(), wrong: chosen.len() }
    }
}

/// Which rows were damaged, and whose they are.
struct Damaged {
    blocks: Vec<(u64, u64)>,
    bad: Vec<bool>,
    batches: usize,
    wrong: usize,
}

impl Damaged {
    /// An outcome as the workers hold it: in a damaged batch it is three times the largest outcome less twice its own, so
    /// that the batch tells a story of its own that is as clear as the true one.
    fn outcome(&self, row: usize, value: f64, largest: f64) -> f64 {
        if self.bad[row] { 3.0 * largest - 2.0 * value } else { value }
    }
}

fn largest(values: &[f64]) -> f64 {
    values.iter().copied().filter(|value| value.is_finite()).fold(f64::NEG_INFINITY, f64::max)
}

fn study(arguments: &Robust, table: &Table) -> Result<Study, Failure> {
    let refused = |error: DataError| Failure::new(Exit::Data, anyhow::Error::new(error));
    let mut columns = BTreeMap::new();
    for name in &table.features {
        let levels = match &table.frame.column(name).map_err(refused)?.values {
            Values::Numeric(_) => continue,
            Values::Boolean(_) => vec!["FALSE".to_string(), "TRUE".to_string()],
            Values::Categorical { levels, .. } => levels.clone(),
        };
        columns.insert(name.clone(), ColumnTerms { levels, range: None });
    }
    let width = arguments.workers.to_string().len();
    let workers = (1..=arguments.workers)
        .map(|at| format!("worker-{at:0width$}"))
        .map(|name| (name.clone(), WorkerTerms { certificate: name }))
        .collect();
    let default_rows = if arguments.data.is_none() { SHIPPED_ROWS } else { BATCH_ROWS };
    Ok(Study {
        id: "demo".to_string(),
        protocol: Protocol::Robust,
        mode: Mode::Plain,
        privacy: None,
        parties: BTreeMap::new(),
        workers,
        coordinator: CoordinatorTerms::default(),
        model: Model { features: table.features.clone(), ..Model::default() },
        outcome: HeldColumn { column: table.outcome.clone(), held_by: Default::default() },
        offset: None,
        weights: None,
        columns,
        rows: RowTerms { id: None, missing: Missing::from(arguments.missing) },
        penalty: None,
        fit: FitTerms::default(),
        inference: InferenceTerms::default(),
        prediction: PredictionTerms::default(),
        sites: Some(SiteTerms {
            batch_rows: arguments.batch_rows.unwrap_or(default_rows),
            quorum: None,
            deadline: SiteTerms::default().deadline,
        }),
        robust: Some(RobustTerms {
            start: arguments.start.into(),
            consolidation: arguments.consolidation.clone(),
            online: arguments.online.then_some(OnlineTerms { window: arguments.window, switch: arguments.switch }),
            ..RobustTerms::default()
        }),
    })
}

/// Writes the workers' private files and runs all processes to their end.
fn play(stage: &Stage<'_>, study: &Study) -> Result<(), Failure> {
    for name in study.workers.keys().map(String::as_str).chain(["coordinator"]) {
        folder(&stage.path(name))?;
        // A file of an earlier rehearsal would be taken for this one's.
        let _ = fs::remove_file(stage.path(&format!("{name}/report.json")));
    }
    for stale in
        ["coordinator.address", "coordinator/run.sqlite", "coordinator/run.sqlite-wal", "coordinator/run.sqlite-shm"]
    {
        let _ = fs::remove_file(stage.path(stale));
    }
    let reports = shown(&stage.path("coordinator"));
    let (mut coordinator, address) = stage.coordinator(&["--out", &reports])?;
    let mut workers = Vec::new();
    for name in study.workers.keys() {
        let config = Config {
            study: "study.toml".into(),
            coordinator: address.clone(),
            state: name.into(),
            wait: 60,
            data: DataTerms { file: format!("{name}/rows.csv").into(), separator: None },
            tls: Stage::tls(name),
            policy: PolicyTerms::default(),
        };
        let file = format!("{name}.toml");
        stage.write(&file, "A private file: nobody else ever sees it.", &config.print())?;
        let (config, out) = (shown(&stage.path(&file)), shown(&stage.path(name)));
        let log = stage.path(&format!("{name}/log.txt"));
        workers.push(Process::start(Role::Worker, name, &["join", "--config", &config, "--out", &out], &log)?);
    }
    let mut all: Vec<&mut Process> = workers.iter_mut().collect();
    let ends = processes::wait(&mut all)?;
    let end = processes::wait(&mut [&mut coordinator])?;
    let _ = fs::remove_file(stage.path("coordinator.address"));
    let aborted = |exit: &Exit| !matches!(exit, Exit::Done | Exit::NotConverged);
    let failed: Vec<Exit> = ends.into_iter().filter(aborted).collect();
    let words: Vec<String> = workers
        .iter()
        .filter(|process| process.exit().as_ref().is_some_and(aborted))
        .map(|process| process.last_words())
        .collect();
    words.iter().take(LAST_WORDS).for_each(|words| eprintln!("{words}"));
    if words.len() > LAST_WORDS {
        eprintln!("... and {} more workers", words.len() - LAST_WORDS);
    }
    match end.first().filter(|exit| aborted(exit)) {
        None => Ok(()),
        Some(exit) => {
            eprintln!("{}", coordinator.last_words());
            let exit = failed.into_iter().find(|exit| *exit == Exit::Data).unwrap_or(*exit);
            let sentence = format!("the run was ended; logs are in {}", stage.path("").display());
            Err(Failure::new(exit, anyhow::anyhow!(sentence)))
        }
    }
}

impl Table {
    /// The file of one worker.
    fn file(&self, damaged: &Damaged, (from, to): (u64, u64)) -> Result<Vec<u8>, anyhow::Error> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(self.features.iter().chain([&self.outcome]))?;
        let columns = self.features.iter().map(|name| self.frame.column(name)).collect::<Result<Vec<_>, _>>()?;
        let outcome = self.frame.column(&self.outcome)?;
        let top = match &outcome.values {
            Values::Numeric(values) => largest(values),
            _ => 0.0,
        };
        let mut cell = String::new();
        for row in from as usize..to as usize {
            for column in &columns {
                cell.clear();
                if !column.values.is_missing(row) {
                    match &column.values {
                        Values::Numeric(values) => write!(cell, "{:?}", values[row])?,
                        Values::Boolean(values) => write!(cell, "{}", values[row] == Some(true))?,
                        Values::Categorical { codes, levels, .. } => cell.push_str(&levels[codes[row] as usize]),
                    }
                }
                writer.write_field(&cell)?;
            }
            cell.clear();
            if let Values::Numeric(values) = &outcome.values
                && !outcome.values.is_missing(row)
            {
                write!(cell, "{:?}", damaged.outcome(row, values[row], top))?;
            }
            writer.write_field(&cell)?;
            writer.write_record(None::<&[u8]>)?;
        }
        Ok(writer.into_inner().map_err(|error| error.into_error())?)
    }
}

/// Least squares of all rows as the workers hold them, and of the rows that were not damaged, beside ours.
fn compare(report: &Report, study: &Study, table: &Table, damaged: &Damaged) -> Result<Vec<Comparison>, anyhow::Error> {
    let mut frame = table.frame.clone();
    let mask = match study.rows.missing {
        Missing::CompleteCases => {
            let names: Vec<String> = frame.names().map(str::to_string).collect();
            Some(frame.missing(names.iter().map(String::as_str))?)
        }
        Missing::Refuse => None,
    };
    let y = outcome::numbers(&frame, &table.outcome, "the outcome", mask.as_ref())?;
    let rows: Vec<usize> = match &mask {
        Some(mask) => mask.kept().collect(),
        None => (0..y.len()).collect(),
    };
    let terms = study.model_terms()?;
    let x = encode::encode(&mut frame, &terms, true, mask.as_ref())?.matrix;
    let top = largest(&y);
    let seen: Vec<f64> = rows.iter().zip(&y).map(|(row, y)| damaged.outcome(*row, *y, top)).collect();
    let all: Vec<usize> = (0..rows.len()).collect();
    let clean: Vec<usize> = all.iter().copied().filter(|at| !damaged.bad[rows[*at]]).collect();
    let names: Vec<String> = report.coefficients.iter().map(|row| row.term.clone()).collect();
    let pooled = least_squares(&x, &seen, &all, &names);
    let undamaged = least_squares(&x, &y, &clean, &names);
    Ok(report
        .coefficients
        .iter()
        .enumerate()
        .map(|(at, ours)| Comparison {
            term: ours.term.clone(),
            estimate: ours.estimate,
            pooled: pooled.get(at).and_then(|row| row.estimate),
            pooled_std_error: pooled.get(at).and_then(|row| row.std_error),
            undamaged: undamaged.get(at).and_then(|row| row.estimate),
        })
        .collect())
}

fn least_squares(x: &DMatrix<f64>, y: &[f64], rows: &[usize], names: &[String]) -> Vec<Coefficient> {
    let intercept = usize::from(names.first().is_some_and(|name| name == INTERCEPT));
    let (n, q) = (rows.len(), x.ncols() + intercept);
    if n <= q {
        return Vec::new();
    }
    let design = DMatrix::from_fn(n, q, |i, j| if j < intercept { 1.0 } else { x[(rows[i], j - intercept)] });
    let y = DVector::from_fn(n, |i, _| y[rows[i]]);
    let qr = design.clone().qr();
    let r = qr.r();
    let Some(beta) = r.solve_upper_triangular(&(qr.q().transpose() * &y)) else { return Vec::new() };
    let degrees = (n - q) as f64;
    let variance = (&y - &design * &beta).norm_squared() / degrees;
    let inverse = r.solve_upper_triangular(&DMatrix::identity(q, q));
    (0..q)
        .map(|j| {
            let error = inverse.as_ref().map(|inverse| (variance * inverse.row(j).norm_squared()).sqrt());
            Coefficient::new(names[j].clone(), Role::Worker, Some(beta[j]), error, Family::Gaussian, degrees)
        })
        .collect()
}

/// All that is shown of a run.
fn programme(merged: &Report, study: &Study, damaged: &Damaged, out: &Path) -> String {
    let mut text = Format::Text.render(merged);
    if damaged.wrong > 0 {
        let _ = writeln!(
            text,
            "\nBefore the run {} of {} batches were damaged: each outcome there was replaced by three times the largest less\n\
             twice its own.",
            damaged.wrong, damaged.batches
        );
        if 2 * damaged.wrong > damaged.batches {
            let _ = writeln!(
                text,
                "They are the majority and agree with each other: from estimates alone nobody can know that they are wrong."
            );
        }
    }
    for row in merged.workers.iter().flatten() {
        let _ = writeln!(
            text,
            "the coordinator saw from {}: {} contributions in {}",
            row.worker,
            row.contributions,
            size(row.bytes)
        );
    }
    let _ = writeln!(
        text,
        "each of the {} workers saw: the coefficients, and how its own batches were judged",
        study.workers.len()
    );
    let _ = writeln!(text, "\nReports and the study's files are in {}", out.display());
    text
}
