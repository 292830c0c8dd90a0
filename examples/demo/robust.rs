//! Workers and a coordinator on one machine: robust regression over batches, some of which are wrong.

use fedreg_common::data::{encode, outcome};
use fedreg_common::exit::Exit;
use fedreg_common::fit::Coefficient;
use fedreg_common::glm::Family;
use fedreg_common::id::Role;
use fedreg_common::methods::robust::minimum_rows;
use fedreg_common::report::{Comparison, INTERCEPT, Report};
use fedreg_common::study::{
    Missing, OnlineTerms, PrivateFitTerms, Protocol, RobustTerms, RowTerms, Sites, Study, StudyFile,
};
use fedreg_party::worker::last::joins;
use nalgebra::{DMatrix, DVector};
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::Failure;
use crate::arguments::{ModeName, Robust};
use crate::sites::{self, Asked, RAW, Rows, Shipped, shown_raw};
use crate::stage::{Place, as_study};

/// The shipped data, so that the demo runs from any folder.
const DIABETES: Shipped = Shipped {
    name: "diabetes.csv",
    text: include_str!("../data/diabetes.csv"),
    outcome: "progression",
    bounds: include_str!("../data/diabetes.bounds.toml"),
};
/// Batches of the shipped data are small, as the data are.
const SHIPPED_ROWS: u64 = 73;
/// Few features, as the batches are small.
const SHIPPED_FEATURES: [&str; 4] = ["sex", "bmi", "bp", "s5"];
/// Batches of other data.
const BATCH_ROWS: u64 = 1000;

pub(crate) fn run(arguments: &Robust, call: String) -> Result<Exit, Failure> {
    let common = &arguments.common;
    common.check()?;
    common.mode.check(&[("--bounds", common.bounds.is_some())])?;
    let scene = Place::of(&common.out, common.as_study.as_deref(), &common.places)?;
    let place = scene.folder();
    let shipped = arguments.data.is_none();
    let outcome = arguments.outcome.as_deref().unwrap_or(DIABETES.outcome);
    let few: Vec<&str> = SHIPPED_FEATURES.iter().copied().filter(|name| *name != outcome).collect();
    let few = few.join(",");
    let own = arguments.features.as_deref();
    let asked = Asked {
        data: arguments.data.as_deref(),
        table: &common.table,
        outcome: arguments.outcome.as_deref(),
        features: own.or(shipped.then_some(few.as_str())).map(|names| (names, "--features")),
        person: arguments.id.as_deref(),
        identifies: Some("--id"),
        lists: "--features",
        explains: true,
    };
    let table = Rows::read(&asked, &DIABETES, place)?;
    if table.numbers(&table.outcome).is_none() {
        let sentence = format!("column `{}` is not numeric and cannot be the outcome", table.outcome);
        return Err(Failure::new(Exit::Data, anyhow::anyhow!(sentence)));
    }
    let file = study(arguments, &table)?;
    if let Some(dir) = &common.as_study {
        return as_study((dir, &common.places), &file, None);
    }
    let parsed = Study::try_from(file.clone()).map_err(Failure::usage)?;
    let Some(study) = parsed.sites() else {
        return Err(Failure::usage("a study of two parties has no sites"));
    };
    let all: Vec<usize> = (0..usize::try_from(table.count).unwrap_or(0)).collect();
    let damaged = Damaged::choose(arguments, &study, &all);
    let top = top(arguments, &study, &table)?;
    let own = sites::rehearse_with(place, "demo robust", &file, &all, |block| {
        table.file_with(block.iter().copied(), |row, value| damaged.outcome(row, value, top))
    })?;
    // Least squares of one's own rows has no noise: beside a guarantee it would undo it.
    let comparison = match arguments.corrupt > 0.0 && shown_raw(common, arguments.data.as_deref()) {
        true => Some(compare(&own, &study, &table, &damaged, top).map_err(|e| Failure::new(Exit::Data, e))?),
        false => None,
    };
    let merged = Report { role: None, call, comparison, ..own };
    let mut more = Vec::new();
    if damaged.wrong > 0 {
        let largest = if common.mode == ModeName::Private { "the end of its public range" } else { "the largest" };
        more.push(format!(
            "Before the run {} of {} batches were damaged: each outcome there was replaced by three times {largest} less twice its own.",
            damaged.wrong, damaged.batches
        ));
        if merged.comparison.is_none() {
            more.push(format!("There is no comparison with least squares: {RAW}"));
        }
        if 2 * damaged.wrong > damaged.batches {
            more.push(
                "They are the majority and agree with each other: from estimates alone nobody can know that they are wrong.".to_string(),
            );
        }
    }
    sites::show(place, &merged, &file, common.format, &more)
}

/// Which rows were damaged.
struct Damaged {
    bad: Vec<bool>,
    batches: usize,
    wrong: usize,
}

impl Damaged {
    fn choose(arguments: &Robust, study: &Study<Sites>, all: &[usize]) -> Damaged {
        let batch_rows = usize::try_from(study.site_terms().batch_rows).unwrap_or(usize::MAX).max(1);
        let least = minimum_rows(study.method.coefficients.len());
        let mut batches: Vec<&[usize]> = Vec::new();
        for block in sites::blocks(all, study.method.workers.len() as u64) {
            // As a worker cuts them, a short last batch joined to the one before it.
            let (mut count, rest) = (block.len() / batch_rows, block.len() % batch_rows);
            if rest > 0 && (count == 0 || !joins(rest, batch_rows, least)) {
                count += 1;
            }
            for at in 0..count {
                let end = if at + 1 == count { block.len() } else { (at + 1) * batch_rows };
                batches.push(&block[at * batch_rows..end]);
            }
        }
        // To the nearest number, and half of an odd number down: half would otherwise be most.
        let wrong = (arguments.corrupt * batches.len() as f64 - 0.5).ceil().max(1.0) as usize;
        let mut chosen: Vec<usize> = (0..batches.len()).collect();
        chosen.shuffle(&mut ChaCha8Rng::seed_from_u64(arguments.common.seed));
        chosen.truncate(if arguments.corrupt > 0.0 { wrong } else { 0 });
        let mut bad = vec![false; all.len()];
        for &at in &chosen {
            batches[at].iter().for_each(|row| bad[*row] = true);
        }
        Damaged { bad, batches: batches.len(), wrong: chosen.len() }
    }

    /// An outcome as the workers hold it: in a damaged batch it is three times the largest outcome less twice its own, so
    /// that the batch tells a story of its own that is as clear as the true one.
    fn outcome(&self, row: usize, value: f64, largest: f64) -> f64 {
        if self.bad[row] { 3.0 * largest - 2.0 * value } else { value }
    }
}

/// The largest outcome, by which damage is measured. In private mode it is the public one: the largest of the rows would put one person's
/// outcome into every damaged row.
fn top(arguments: &Robust, study: &Study<Sites>, table: &Rows) -> Result<f64, Failure> {
    match arguments.common.mode {
        ModeName::Private => {
            let public = study.outcome_bounds().map(|bounds| bounds.centre() + bounds.half_range());
            public.map_err(Failure::usage)
        }
        _ => Ok(table.numbers(&table.outcome).map_or(0.0, largest)),
    }
}

fn largest(values: &[f64]) -> f64 {
    values.iter().copied().filter(|value| value.is_finite()).fold(f64::NEG_INFINITY, f64::max)
}

fn study(arguments: &Robust, table: &Rows) -> Result<StudyFile, Failure> {
    let common = &arguments.common;
    let private = common.mode == ModeName::Private;
    let default_rows = match (private, arguments.data.is_none()) {
        (true, _) => table.count.div_ceil(common.workers).max(1),
        (false, true) => SHIPPED_ROWS,
        (false, false) => BATCH_ROWS,
    };
    let (columns, row_norm) = match private {
        true => {
            let (bounds, _) = table.bounds(common)?;
            let [norm] = bounds.row_norms(["workers"])?;
            (bounds.columns, norm)
        }
        false => (table.levels()?, None),
    };
    let study = sites::study(Protocol::Robust, table, common, arguments.batch_rows.unwrap_or(default_rows));
    Ok(StudyFile {
        columns,
        rows: RowTerms { missing: arguments.missing, ..study.rows },
        robust: Some(RobustTerms {
            start: arguments.start,
            consolidation: arguments.consolidation.clone(),
            online: arguments.online.then_some(OnlineTerms { window: arguments.window, switch: arguments.switch }),
            private: private.then(|| PrivateFitTerms {
                influence: arguments.influence,
                rounds: arguments.rounds,
                row_norm,
                ..PrivateFitTerms::default()
            }),
            ..RobustTerms::default()
        }),
        ..study
    })
}

/// Least squares of all rows as the workers hold them, and of the rows that were not damaged, beside ours.
fn compare(
    report: &Report,
    study: &Study<Sites>,
    table: &Rows,
    damaged: &Damaged,
    top: f64,
) -> Result<Vec<Comparison>, anyhow::Error> {
    let mut frame = table.frame().clone();
    let mask = match study.head.rows.missing {
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
    let x = encode::encode(&mut frame, &study.method.model, true, mask.as_ref())?.matrix;
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
