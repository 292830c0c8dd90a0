//! Predictions with the function or the coefficients in a report: anyone who has it can make them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use fedreg_common::data::DataError;
use fedreg_common::data::encode::{Design, column_terms, encode};
use fedreg_common::data::formula::Term;
use fedreg_common::methods::em::Model;
use fedreg_common::report::{Function, INTERCEPT, Report, json};
use fedreg_common::session::Abort;
use fedreg_common::study::{Method, Protocol, SiteMethod, Study};
use fedreg_proto::files::read_study;
use nalgebra::DMatrix;

use crate::config::TableFlags;
use crate::failure::Failure;
use crate::output;
use crate::read::{Opened, ReadError, Request, Written};
use crate::show::shown;

/// Rows that are predicted together.
const ROWS: usize = 10_000;

/// Flags of `predict`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The run's report.json, from the coordinator or any worker
    #[arg(long, value_name = "FILE")]
    report: PathBuf,
    /// Table with the columns of the model, CSV or Parquet
    #[arg(long, value_name = "FILE")]
    data: PathBuf,
    #[command(flatten)]
    table: TableFlags,
    /// Study file that the report must belong to
    ///
    /// Of `robust` it is needed where a term is no column of the table, such as a level or an interaction; of `em` always.
    #[arg(long, value_name = "FILE")]
    study: Option<PathBuf>,
    /// File for the predictions, a line a row; standard output otherwise
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let unreadable = |problem: String| Abort::OwnData(format!("{}: {problem}", arguments.report.display()));
    let text = std::fs::read_to_string(&arguments.report).map_err(|error| unreadable(error.to_string()))?;
    let report = json::parse(&text).map_err(|error| unreadable(error.to_string()))?;
    let written = arguments.table.written()?;
    let study = arguments.study.as_deref().map(read_study).transpose()?;
    let found = match &report.function {
        Some(function) => {
            let digest = study.map(|study| study.digest().to_string());
            function.fitted.check(digest.as_deref()).map_err(|error| match digest {
                Some(_) => Failure::from(Abort::Refused(error.to_string())),
                None => unreadable(error.to_string()).into(),
            })?;
            predictions(function, &arguments.data, written)?
        }
        None => {
            let table = Opened::open(&arguments.data, written.separator)?;
            let linear = Linear::new(&report, study.as_ref(), table.columns()).map_err(|refused| match refused {
                Refused::Study(problem) => Failure::from(Abort::Refused(problem)),
                Refused::Report(problem) => unreadable(problem).into(),
            })?;
            linear.predictions(table, written)?
        }
    };
    let without = found.iter().filter(|value| value.is_nan()).count();
    if without > 0 {
        let what = "a value is missing, or a level stands that the study does not have";
        tracing::warn!("{without} of {} rows have no prediction (NA): {what}", found.len());
    }
    let text = csv(&found);
    match &arguments.out {
        Some(path) => Ok(output::write_whole(path, text.as_bytes())?),
        None => Ok(output::print(&text)?),
    }
}

/// One line a row, under a header; `NA` where there is no prediction.
pub fn csv(predictions: &[f64]) -> String {
    predictions.iter().fold("prediction\n".to_string(), |mut text, value| {
        text.push_str(&shown(*value));
        text.push('\n');
        text
    })
}

/// A prediction for every row of a table, in its order; not-a-number where a value is missing or of a level that the function does not
/// take.
///
/// # Errors
/// A table that cannot be read or lacks a column.
pub fn predictions(function: &Function, data: &Path, written: Written) -> Result<Vec<f64>, Failure> {
    let names: Vec<&str> = function.inputs.iter().map(|input| input.column.as_str()).collect();
    let mut levels = function.levels();
    // The encoded names of truth values are in capitals, whatever the study writes.
    levels.values_mut().filter(|levels| are_truth(levels)).for_each(|levels| *levels = truth());
    let terms = column_terms(names.iter().copied()).map_err(|error| Failure::Usage(error.to_string()))?;
    let of = |x: &DMatrix<f64>| {
        let found = function.fitted.predict(x);
        found.map_err(|error| Failure::from(Abort::OwnData(output::chain(&error))))
    };
    let table = Opened::open(data, written.separator)?;
    each(table, written, (&terms[..], levels, true), function.fitted.columns(), of)
}

fn are_truth(levels: &[String]) -> bool {
    matches!(levels, [no, yes] if no.eq_ignore_ascii_case("false") && yes.eq_ignore_ascii_case("true"))
}

fn truth() -> Vec<String> {
    ["FALSE", "TRUE"].map(String::from).to_vec()
}

/// What a rule finds in every row of a table, in its order; not-a-number in rows that are incomplete.
fn each(
    table: Opened,
    written: Written,
    (terms, levels, intercept): (&[Term], BTreeMap<String, Vec<String>>, bool),
    expected: &[String],
    rule: impl Fn(&DMatrix<f64>) -> Result<Vec<f64>, Failure>,
) -> Result<Vec<f64>, Failure> {
    let mut columns: Vec<String> = terms.iter().flat_map(|term| &term.factors).cloned().collect();
    columns.sort_unstable();
    columns.dedup();
    let request =
        Request { columns: Some(columns.clone()), levels, unseen: true, ..Request::default() }.of_files(written);
    let mut batches = table.batches(&request)?;
    let file = batches.name().to_owned();
    let unusable = |source: DataError| ReadError::Data { file: file.clone(), source };
    let mut all = Vec::new();
    while let Some(mut frame) = batches.next(ROWS)? {
        let mask = frame.missing(columns.iter().map(String::as_str)).map_err(unusable)?;
        let from = all.len();
        all.resize(from + frame.rows(), f64::NAN);
        if mask.count() == frame.rows() {
            continue;
        }
        let Design { terms: found, matrix, .. } =
            encode(&mut frame, terms, intercept, Some(&mask)).map_err(unusable)?;
        if found != expected {
            let (expected, found) = (expected.join(", "), found.join(", "));
            return Err(unusable(DataError::OtherTerms { expected, found }).into());
        }
        mask.kept().zip(rule(&matrix)?).for_each(|(row, value)| all[from + row] = value);
    }
    Ok(all)
}

/// A linear model: what the report of a run gives, and how its terms come from columns.
struct Linear {
    terms: Vec<Term>,
    levels: BTreeMap<String, Vec<String>>,
    /// Whether the model has an intercept, which decides how levels are coded.
    coded: bool,
    /// Names of the terms, the intercept apart.
    names: Vec<String>,
    intercept: f64,
    slopes: Vec<f64>,
}

/// Why a report does not predict.
enum Refused {
    /// It belongs to another study, or the study's model does not predict.
    Study(String),
    /// Something in it.
    Report(String),
}

impl Linear {
    fn new(report: &Report, study: Option<&Study>, header: &[String]) -> Result<Linear, Refused> {
        let wrong = |problem: &str| Err(Refused::Report(problem.to_string()));
        match report.protocol {
            Protocol::Robust | Protocol::Em => {}
            Protocol::Vertical | Protocol::Features | Protocol::Stream => {
                return wrong(
                    "reports of the protocols `robust`, `em`, `features` and `stream` predict; `alice predict` and `bob predict` score \
                     new rows of a vertical study",
                );
            }
        }
        if let Some(study) = study.filter(|study| study.digest().to_string() != report.study_digest) {
            let (ours, theirs): (String, String) =
                (study.digest().short(), report.study_digest.chars().take(8).collect());
            return Err(Refused::Study(format!("the report belongs to study {theirs}, not to study {ours}")));
        }
        let found: Vec<&str> = report.coefficients.iter().map(|row| row.term.as_str()).collect();
        if found.is_empty() {
            return wrong("the report has no coefficients");
        }
        let coded = found[0] == INTERCEPT;
        let names: Vec<String> = found[usize::from(coded)..].iter().map(|term| term.to_string()).collect();
        let estimate = |row: &fedreg_common::fit::Coefficient| row.estimate.unwrap_or(0.0);
        let mut estimates: Vec<f64> = report.coefficients.iter().map(estimate).collect();
        let intercept = if coded { estimates.remove(0) } else { 0.0 };
        let (terms, levels, coded) = match study {
            Some(study) => {
                let Method::Sites(method) = &study.method else {
                    return wrong("its coefficients are not those of the study");
                };
                let model = match &method.method {
                    SiteMethod::Em(em) => em.settings.stated().model,
                    // Linear in the rows as well.
                    SiteMethod::Robust(_) | SiteMethod::Features(_) | SiteMethod::Stream(_) => Model::MissingCovariates,
                };
                match model {
                    Model::MissingCovariates => {}
                    Model::GaussianMixture => {
                        return wrong("its study describes points, and there is no outcome to predict");
                    }
                    Model::MixedRegressions => {
                        return wrong(
                            "its study has two regressions of opposite sign, and nothing says which of them a new row follows: it has no \
                              single prediction",
                        );
                    }
                }
                if method.coefficients != found {
                    return wrong("its coefficients are not those of the study");
                }
                let terms = method.model.clone();
                let levels = study.head.columns.iter().filter(|(_, column)| !column.levels.is_empty());
                let levels = levels.map(|(name, column)| {
                    (name.clone(), if column.is_boolean() { truth() } else { column.levels.clone() })
                });
                (terms, levels.collect(), method.intercept)
            }
            None if report.protocol == Protocol::Em => {
                return wrong("which model its coefficients belong to stands in the study: give --study");
            }
            None => {
                if let Some(name) = names.iter().find(|name| !header.contains(name)) {
                    return Err(Refused::Report(format!(
                        "its term `{name}` is no column of the table; if it is a level or an interaction, give --study, which says so"
                    )));
                }
                let terms = names.iter().map(|name| Term::column(name.as_str())).collect();
                (terms, BTreeMap::new(), coded)
            }
        };
        Ok(Linear { terms, levels, coded, names, intercept, slopes: estimates })
    }

    fn predictions(self, table: Opened, written: Written) -> Result<Vec<f64>, Failure> {
        let Linear { terms, levels, coded, names, intercept, slopes } = self;
        each(table, written, (&terms[..], levels, coded), &names, |x| {
            Ok((0..x.nrows())
                .map(|row| x.row(row).iter().zip(&slopes).fold(intercept, |sum, (x, slope)| sum + slope * x))
                .collect())
        })
    }
}
