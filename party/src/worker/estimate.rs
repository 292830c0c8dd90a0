//! `worker estimate`: a filter from rows to estimates, one per batch, for engines that move the data themselves.
//!
//! It opens no connection and keeps no state. What it writes is what a worker would send in plain mode: coefficients,
//! cross-products, counts and scale of each batch.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;
use fedreg_common::data::encode::column_terms;
use fedreg_common::exit::Exit;
use fedreg_common::methods::robust::{BatchError, Estimate, FitSettings, Record, Start, fit};
use fedreg_common::star::site::local::Batch;
use fedreg_proto::shell::{Values, values};

use super::batches::{Encoding, Source};
use crate::config::TableFlags;
use crate::failure::Failure;
use crate::output::OutputError;
use crate::read::{Arrival, Batches, ReadError, Request, cells};

/// Largest number of a first batch: those after it stay numbers that every reader of JSON takes as they are.
const LAST_FIRST: u64 = 1 << 52;

/// What is estimated, and how.
#[derive(Debug, Clone, Args)]
pub struct Arguments {
    /// Outcome column
    #[arg(long, value_name = "COL")]
    pub outcome: String,
    /// Feature columns, comma-separated, quoted as in CSV
    #[arg(long, value_name = "COLS")]
    pub features: String,
    /// Levels of a text column, the reference first: `region=north,south`
    ///
    /// Later batches are not known when the first is fitted, so that text columns need their levels declared.
    #[arg(long, value_name = "COL=LEVELS", value_parser = parse_levels)]
    pub levels: Vec<(String, Vec<String>)>,
    /// Rows of a batch
    ///
    /// A last batch of less than half of them, or with too few to be fitted, joins the one before it.
    #[arg(long, value_name = "ROWS", default_value_t = NonZeroUsize::MIN.saturating_add(4999))]
    pub batch_rows: NonZeroUsize,
    /// Where the first coefficients of a batch come from
    #[arg(long, value_parser = values(&STARTS), default_value = "auto")]
    pub start: Start,
    /// Leave the intercept out
    #[arg(long)]
    pub no_intercept: bool,
    /// Keep the cross-products at the worker
    ///
    /// Consolidation then has no standard errors and counts every batch alike.
    #[arg(long)]
    pub no_gram: bool,
    /// Name of this worker in its estimates
    #[arg(long, value_name = "NAME", default_value = "worker")]
    pub worker: String,
    /// Number of the first batch
    #[arg(long, value_name = "NUMBER", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=LAST_FIRST))]
    pub first_batch: u64,
    /// Seed of the random subsets of `--start lts`
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub seed: u64,
    /// Batches fitted at the same time; by default as many as the machine has cores
    #[arg(long, value_name = "NUMBER")]
    pub threads: Option<NonZeroUsize>,
    /// Table: CSV, Parquet or Arrow file, folder or pattern of Parquet files, sqlite:FILE, postgres://..., s3://...; by default CSV or an
    /// Arrow IPC stream is read from standard input
    #[arg(long, value_name = "FILE")]
    pub data: Option<PathBuf>,
    /// How a CSV file is written
    #[command(flatten)]
    pub table: TableFlags,
}

/// Starts by their names on the command line.
const STARTS: Values<Start, 4> = [
    ("auto", "The best of the others, by the smaller half of its residuals", Start::Auto),
    ("ols", "Least squares on all rows, as in the source", Start::Ols),
    ("score", "Bounded leverage: withstands corrupted features", Start::Score),
    ("lts", "Least trimmed squares: withstands structured corruption of nearly half of the rows", Start::Lts),
];

fn parse_levels(text: &str) -> Result<(String, Vec<String>), String> {
    let (column, levels) = text.split_once('=').ok_or("expected COL=LEVEL,LEVEL,..")?;
    let levels = cells(levels)?;
    if column.is_empty() || levels.len() < 2 {
        return Err("expected COL=LEVEL,LEVEL,.. with at least two levels".to_owned());
    }
    Ok((column.to_owned(), levels))
}

/// Reads rows, from `input` unless a file is named, and writes a line for each batch.
///
/// # Errors
/// Rows that cannot be used, a batch that cannot be fitted, results that cannot be written. Lines of earlier batches have
/// been written by then and stand.
pub fn run(arguments: &Arguments, input: impl Read + Send + 'static, output: &mut impl Write) -> Result<Exit, Failure> {
    let features = cells(&arguments.features).map_err(|problem| Failure::Usage(format!("--features: {problem}")))?;
    let terms = column_terms(features.iter().map(String::as_str)).map_err(|error| Failure::Usage(error.to_string()))?;
    if features.contains(&arguments.outcome) {
        return Err(Failure::Usage(format!(
            "column `{}` is the outcome and cannot be a predictor too",
            arguments.outcome
        )));
    }
    let levels: BTreeMap<String, Vec<String>> = arguments.levels.iter().cloned().collect();
    let columns = features.iter().chain([&arguments.outcome]).cloned().collect();
    let written = arguments.table.written()?;
    let request = Request { columns: Some(columns), levels, written, ..Request::default() };
    let batches = match &arguments.data {
        Some(source) => Batches::open(arguments.table.terms(source.clone())?.source(), &request, &Arrival::default())?,
        None => Batches::from_pipe(input, "standard input", &request)?,
    };
    let encoding = Encoding::of_columns(terms, arguments.outcome.clone(), !arguments.no_intercept, request);
    let mut source = Source::new(batches, encoding, arguments.batch_rows.get() as u64, false);
    source.number_from(arguments.first_batch);
    let settings = FitSettings {
        start: arguments.start,
        intercept: !arguments.no_intercept,
        seed: arguments.seed,
        ..FitSettings::default()
    };
    let threads =
        arguments.threads.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from);
    let mut failed = None;
    while failed.is_none() {
        let mut ready = Vec::new();
        while ready.len() < threads.min(1024) {
            match source.batch() {
                Ok(Some(batch)) => ready.push(batch),
                Ok(None) => break,
                // What came before can still be fitted and must not be lost.
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        if ready.is_empty() {
            break;
        }
        let names = source.encoding().coefficients();
        let refused = |problem| ReadError::Format { file: source.name().to_owned(), problem };
        for (batch, fitted) in ready.iter().zip(fitted(&ready, &settings)) {
            let fitted = fitted.map_err(|error| {
                let (number, (first, last)) = (batch.number, batch.place);
                refused(format!("batch {number} ({first} to {last}) cannot be fitted: {error}"))
            })?;
            let mut estimate = Estimate::from_fit(&arguments.worker, batch.number, &fitted);
            if arguments.no_gram {
                estimate.gram = None;
            }
            let record = Record::new(estimate, Some(arguments.outcome.clone()), Some(names.clone()));
            let line = record.line().map_err(|error| {
                refused(format!("the estimate of batch {} cannot be written: {error}", batch.number))
            })?;
            if writeln!(output, "{line}").and_then(|()| output.flush()).map_or_else(gone, |()| Ok(false))? {
                return Ok(Exit::Done);
            }
        }
    }
    failed.map_or(Ok(Exit::Done), |error| Err(error.into()))
}

/// A reader that has gone, as `head` does, is no error; nothing more is needed then.
fn gone(error: std::io::Error) -> Result<bool, OutputError> {
    match error.kind() == std::io::ErrorKind::BrokenPipe {
        true => Ok(true),
        false => Err(OutputError { path: "standard output".into(), source: error }),
    }
}

fn fitted(
    batches: &[Batch],
    settings: &FitSettings,
) -> Vec<Result<fedreg_common::methods::robust::BatchFit, BatchError>> {
    std::thread::scope(|scope| {
        let running: Vec<_> =
            batches.iter().map(|batch| scope.spawn(move || fit(&batch.x, &batch.y, settings))).collect();
        running
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, FromArgMatches, Parser};

    use super::*;
    use crate::output::chain;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn arguments(line: &str) -> Arguments {
        let words = std::iter::once("estimate").chain(line.split_whitespace());
        Program::from_arg_matches(&Program::command().get_matches_from(words)).unwrap().arguments
    }

    /// `y = 1 + 2 a - b` with a little noise, every tenth row corrupted.
    fn rows(count: usize) -> String {
        let mut text = String::from("y,a,b\n");
        for i in 0..count {
            let (a, b) = ((i as f64 * 0.7).sin(), (i as f64 * 1.3).cos());
            // Four sines are normal enough to be told from flat noise.
            let noise: f64 = [12.9898, 78.233, 37.719, 4.581].iter().map(|f| 0.005 * (i as f64 * f).sin()).sum();
            let y = if i % 10 == 3 { 50.0 } else { 1.0 + 2.0 * a - b + noise };
            text.push_str(&format!("{y},{a},{b}\n"));
        }
        text
    }

    fn estimate(flags: &str, input: impl Into<Vec<u8>>) -> (Result<Exit, String>, Vec<Record>) {
        let mut out = Vec::new();
        let input = std::io::Cursor::new(input.into());
        let ended = run(&arguments(flags), input, &mut out);
        let code = ended.map_err(|failure| format!("{} {}", failure.exit().code(), chain(&failure)));
        let text = String::from_utf8(out).unwrap();
        (code, text.lines().map(|line| Record::parse(line).unwrap()).collect())
    }

    const FLAGS: &str = "--outcome y --features a,b --worker north";

    #[test]
    fn each_batch_gives_a_line_and_a_short_last_one_joins_the_one_before() {
        let (ended, records) = estimate(&format!("{FLAGS} --batch-rows 100 --first-batch 7"), rows(340));
        assert_eq!(ended, Ok(Exit::Done));
        assert_eq!(records.iter().map(|r| (r.batch, r.nobs)).collect::<Vec<_>>(), [(7, 100), (8, 100), (9, 140)]);
        for record in &records {
            assert_eq!(record.terms.as_ref().unwrap(), &["(Intercept)", "a", "b"]);
            assert_eq!((record.worker.as_str(), record.outcome.as_deref()), ("north", Some("y")));
            assert!(record.cleaned && record.kept < record.nobs);
            for (found, truth) in record.coefficients.iter().zip([1.0, 2.0, -1.0]) {
                assert!((found - truth).abs() < 0.01, "{found} {truth}");
            }
            assert!(record.clone().into_estimate().check(3, true).is_ok());
        }
        let (_, one) = estimate(&format!("{FLAGS} --batch-rows 100 --threads 1 --first-batch 7"), rows(340));
        assert_eq!(one, records);
        let (_, bare) = estimate(&format!("{FLAGS} --no-gram --no-intercept"), rows(340));
        assert!(bare.len() == 1 && bare[0].gram.is_none() && bare[0].coefficients.len() == 2);
    }

    #[test]
    fn an_arrow_stream_is_told_from_csv_by_its_first_bytes() {
        let bytes = include_bytes!("../../../tests/vectors/arrow/mixed.arrows");
        let (ended, records) = estimate("--outcome single --features n --no-intercept", &bytes[..]);
        assert_eq!((ended, records.len()), (Ok(Exit::Done), 1));
        assert_eq!(records[0].nobs, 7);
        let (ended, records) = estimate("--outcome single --features n --no-intercept", &bytes[..bytes.len() - 8]);
        assert!(ended.unwrap_err().contains("65 standard input: the Arrow stream is damaged or cut short"));
        assert!(records.is_empty());
    }

    #[test]
    fn bad_rows_end_with_65_and_their_place_and_batches_before_them_stand() {
        let refused = |flags: &str, text: String| {
            let (ended, records) = estimate(flags, text);
            (ended.unwrap_err(), records.len())
        };
        let small = format!("{FLAGS} --batch-rows 100");
        let whole = rows(250);
        let (message, lines) = refused(&small, whole[..whole.len() - 9].to_owned());
        assert!(message.starts_with("65 ") && message.contains("in the middle of a row"), "{message}");
        assert_eq!(
            lines, 1,
            "the batch that was waiting for the last one is not lost, nor is it told from a joined one"
        );
        let (message, _) = refused(&small, format!("{whole}1.0,2.0\n"));
        assert!(
            message.contains("65 standard input, line 252: expected 3 cells as in the header, found 2"),
            "{message}"
        );
        let (message, _) = refused(&small, format!("{whole}1.0,x7,3\n"));
        assert!(message.starts_with("65 ") && message.contains("line 252"), "{message}");
        let (message, _) = refused(&small, whole.replacen("y,a,b\n", "y,a,b\nNaN,1,2\n", 1));
        assert!(message.starts_with("65 ") && message.contains("line 2"), "{message}");
        let (message, _) = refused(&small, String::new());
        assert!(message.starts_with("65 standard input: the file is empty"), "{message}");
        let (message, _) = refused(&small, "y,a,b\n".to_owned());
        assert!(message.starts_with("65 ") && message.contains("no rows"), "{message}");
        let (message, _) = refused(&small, rows(2));
        assert!(
            message
                .contains("65 standard input: batch 0 (line 2 to line 3) cannot be fitted: expected at least 9 rows"),
            "{message}"
        );
        let same = format!("y,a,b\n{}", "1,2,3\n".repeat(50));
        let (message, _) = refused(&small, same);
        assert!(message.starts_with("65 ") && message.contains("batch 0 (line 2 to line 51)"), "{message}");
    }

    #[test]
    fn wrong_columns_are_usage_or_data_and_named() {
        let message = |flags: &str| estimate(flags, rows(50)).0.unwrap_err();
        assert!(message("--outcome y --features a,y").starts_with("2 column `y` is the outcome"));
        assert!(message("--outcome y --features a,a").starts_with("2 column `a` is named twice"));
        assert!(
            message("--outcome y --features a,bb").contains("65 cannot use standard input: there is no column `bb`")
        );
        assert!(parse_levels("region=north,south").is_ok() && parse_levels("region").is_err());
        assert!(parse_levels("region=north").is_err() && parse_levels("=a,b").is_err());
    }
}
