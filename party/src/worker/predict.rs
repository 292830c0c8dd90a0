//! Predictions with the function in a report: anyone who has it can make them.

use std::path::{Path, PathBuf};

use clap::Args;
use fedreg_common::data::DataError;
use fedreg_common::data::encode::{Design, column_terms, encode};
use fedreg_common::report::{Function, json};
use fedreg_common::session::Abort;
use fedreg_proto::files::read_study;

use crate::output;
use crate::read::{Batches, ReadError, Request};
use crate::service::{self, Failure};

/// Rows that are predicted together.
const ROWS: usize = 10_000;

/// Flags of `predict`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The run's report.json, from the coordinator or any worker
    #[arg(long, value_name = "FILE")]
    report: PathBuf,
    /// Table with the columns that the function takes, CSV or Parquet
    #[arg(long, value_name = "FILE")]
    data: PathBuf,
    /// Study file that the report must belong to
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
    let function = report.function.ok_or_else(|| {
        unreadable(
            "the report has no function: only runs of the protocols `features` and `stream` find one".to_string(),
        )
    })?;
    let study = arguments.study.as_deref().map(read_study).transpose()?;
    let digest = study.map(|study| study.digest().to_string());
    function.fitted.check(digest.as_deref()).map_err(|error| match digest {
        Some(_) => Failure::from(Abort::Refused(error.to_string())),
        None => unreadable(error.to_string()).into(),
    })?;
    let text = csv(&predictions(&function, &arguments.data)?);
    match &arguments.out {
        Some(path) => Ok(output::write_whole(path, text.as_bytes())?),
        None => Ok(output::print(&text)?),
    }
}

/// One line a row, under a header.
pub fn csv(predictions: &[f64]) -> String {
    predictions.iter().fold("prediction\n".to_string(), |mut text, value| {
        text.push_str(&format!("{value:?}\n"));
        text
    })
}

/// A prediction for every row of a table, in its order.
///
/// # Errors
/// A table that cannot be read or lacks a column; a missing value.
pub fn predictions(function: &Function, data: &Path) -> Result<Vec<f64>, Failure> {
    let names: Vec<&str> = function.inputs.iter().map(|input| input.column.as_str()).collect();
    let levels = function.levels().into_iter().filter(|(_, levels)| *levels != ["FALSE", "TRUE"]).collect();
    let request =
        Request { columns: Some(names.iter().map(ToString::to_string).collect()), levels, ..Request::default() };
    let file = data.display().to_string();
    let unusable = |source: DataError| ReadError::Data { file: file.clone(), source };
    let terms = column_terms(names.iter().copied()).map_err(unusable)?;
    let mut batches = Batches::open(data, &request)?;
    let mut all = Vec::new();
    while let Some(mut frame) = batches.next(ROWS)? {
        let Design { terms: found, matrix, .. } = encode(&mut frame, &terms, true, None).map_err(unusable)?;
        if found != function.fitted.columns() {
            let (expected, found) = (function.fitted.columns().join(", "), found.join(", "));
            return Err(unusable(DataError::OtherTerms { expected, found }).into());
        }
        all.extend(function.fitted.predict(&matrix).map_err(|error| Abort::OwnData(service::chain(&error)))?);
    }
    Ok(all)
}
