//! Predictions with the function or the coefficients in a report: anyone who has it can make them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use fedreg_common::data::DataError;
use fedreg_common::data::encode::{Design, column_terms, encode};
use fedreg_common::data::formula::{self, Term};
use fedreg_common::methods::em;
use fedreg_common::report::{INTERCEPT, Report, json};
use fedreg_common::session::Abort;
use fedreg_common::study::{Function, Method, Protocol, SiteMethod, Study};
use fedreg_proto::files::read_study;
use nalgebra::DMatrix;

use crate::config::TableFlags;
use crate::failure::Failure;
use crate::output;
use crate::read::{Opened, ReadError, Request, Stated, Written};
use crate::show::shown;

/// Rows that are predicted together.
const ROWS: usize = 10_000;

/// Flags of `predict`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The run's report.json, from the coordinator or any worker
    #[arg(long, value_name = "FILE")]
    report: PathBuf,
    /// Table with the columns of the model: CSV, Parquet or Arrow file, folder or pattern of Parquet files, sqlite:FILE, postgres://...,
    /// s3://...
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
    let place = arguments.report.display();
    let unreadable = |problem: String| Failure::from(Abort::OwnData(format!("{place}: {problem}")));
    let text = std::fs::read_to_string(&arguments.report).map_err(|error| unreadable(error.to_string()))?;
    let report = json::parse(&text).map_err(|error| unreadable(error.to_string()))?;
    let written = arguments.table.written()?;
    let study = arguments.study.as_deref().map(read_study).transpose()?;
    let found = match &report.function {
        Some(function) => {
            let digest = study.map(|study| study.digest().to_string());
            function.fitted.check(digest.as_deref()).map_err(|error| match digest {
                Some(_) => Abort::Refused(error.to_string()).into(),
                None => unreadable(error.to_string()),
            })?;
            predictions(function, arguments.table.terms(arguments.data.clone())?.source(), written)?
        }
        None => {
            let table = Opened::open(arguments.table.terms(arguments.data.clone())?.source(), written.separator)?;
            let (model, intercept, slopes) = linear(&report, study.as_ref(), table.columns(), &unreadable)?;
            model.each(table, written, |x| {
                let row = |row| x.row(row).iter().zip(&slopes).fold(intercept, |sum, (x, slope)| sum + slope * x);
                Ok((0..x.nrows()).map(row).collect())
            })?
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
pub fn predictions(function: &Function, data: impl Into<Stated>, written: Written) -> Result<Vec<f64>, Failure> {
    let names: Vec<&str> = function.inputs.iter().map(|input| input.column.as_str()).collect();
    let mut levels = function.levels();
    // The encoded names of truth values are in capitals, whatever the study writes.
    levels.values_mut().filter(|levels| are_truth(levels)).for_each(|levels| *levels = truth());
    let terms = column_terms(names.iter().copied()).map_err(|error| Failure::Usage(error.to_string()))?;
    let table = Opened::open(data, written.separator)?;
    let expected = function.fitted.columns().to_vec();
    Model { terms, levels, intercept: true, expected }.each(table, written, |x| {
        let found = function.fitted.predict(x);
        found.map_err(|error| Abort::OwnData(output::chain(&error)).into())
    })
}

fn are_truth(levels: &[String]) -> bool {
    matches!(levels, [no, yes] if no.eq_ignore_ascii_case("false") && yes.eq_ignore_ascii_case("true"))
}

fn truth() -> Vec<String> {
    ["FALSE", "TRUE"].map(String::from).to_vec()
}

/// How the columns of a table become those of a model.
struct Model {
    terms: Vec<Term>,
    levels: BTreeMap<String, Vec<String>>,
    /// Whether the model has an intercept, which decides how levels are coded.
    intercept: bool,
    /// Names of the columns, the intercept apart.
    expected: Vec<String>,
}

impl Model {
    /// What a rule finds in every row of a table, in its order; not-a-number in rows that are incomplete.
    fn each(
        self,
        table: Opened,
        written: Written,
        rule: impl Fn(&DMatrix<f64>) -> Result<Vec<f64>, Failure>,
    ) -> Result<Vec<f64>, Failure> {
        let Model { terms, levels, intercept, expected } = self;
        let mut columns: Vec<String> = formula::columns(&terms).into_iter().map(str::to_owned).collect();
        columns.sort_unstable();
        columns.dedup();
        let request = Request { columns: Some(columns.clone()), levels, unseen: true, written, ..Request::default() };
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
                encode(&mut frame, &terms, intercept, Some(&mask)).map_err(unusable)?;
            if found != expected {
                let (expected, found) = (expected.join(", "), found.join(", "));
                return Err(unusable(DataError::OtherTerms { expected, found }).into());
            }
            mask.kept().zip(rule(&matrix)?).for_each(|(row, value)| all[from + row] = value);
        }
        Ok(all)
    }
}

/// The linear model of a report, its intercept and its slopes.
fn linear(
    report: &Report,
    study: Option<&Study>,
    header: &[String],
    unreadable: &dyn Fn(String) -> Failure,
) -> Result<(Model, f64, Vec<f64>), Failure> {
    let wrong = |problem: &str| Err(unreadable(problem.to_string()));
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
        let (ours, theirs): (String, String) = (study.digest().short(), report.study_digest.chars().take(8).collect());
        return Err(Abort::Refused(format!("the report belongs to study {theirs}, not to study {ours}")).into());
    }
    let found: Vec<&str> = report.coefficients.iter().map(|row| row.term.as_str()).collect();
    if found.is_empty() {
        return wrong("the report has no coefficients");
    }
    let coded = found[0] == INTERCEPT;
    let expected: Vec<String> = found[usize::from(coded)..].iter().map(|term| term.to_string()).collect();
    let mut slopes: Vec<f64> = report.coefficients.iter().map(|row| row.estimate.unwrap_or(0.0)).collect();
    let constant = if coded { slopes.remove(0) } else { 0.0 };
    let (terms, levels, intercept) = match study.map(|study| (study, &study.method)) {
        Some((_, Method::Vertical(..))) => return wrong("its coefficients are not those of the study"),
        Some((study, Method::Sites(method, _))) => {
            // What other methods find is linear in the rows.
            if let SiteMethod::Em(em) = &method.method {
                match em.settings.stated().model {
                    em::Model::MissingCovariates => {}
                    em::Model::GaussianMixture => {
                        return wrong("its study describes points, and there is no outcome to predict");
                    }
                    em::Model::MixedRegressions => {
                        return wrong(
                            "its study has two regressions of opposite sign, and nothing says which of them a new row follows: it has no \
                              single prediction",
                        );
                    }
                }
            }
            if method.coefficients != found {
                return wrong("its coefficients are not those of the study");
            }
            let levels = study.head.columns.iter().filter(|(_, column)| !column.levels.is_empty());
            let levels = levels.map(|(name, column)| {
                (name.clone(), if column.is_boolean() { truth() } else { column.levels.clone() })
            });
            (method.model.clone(), levels.collect(), method.intercept)
        }
        None if report.protocol == Protocol::Em => {
            return wrong("which model its coefficients belong to stands in the study: give --study");
        }
        None => {
            if let Some(name) = expected.iter().find(|name| !header.contains(name)) {
                return Err(unreadable(format!(
                    "its term `{name}` is no column of the table; if it is a level or an interaction, give --study, which says so"
                )));
            }
            (expected.iter().map(|name| Term::column(name.as_str())).collect(), BTreeMap::new(), coded)
        }
    };
    Ok((Model { terms, levels, intercept, expected }, constant, slopes))
}
