//! Tests from reports that earlier fits have left.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use fedreg_common::report::Report;
use fedreg_common::report::hypothesis::{self, HypothesisError};
use fedreg_common::session::Abort;
use fedreg_proto::files::FileError;
use serde::Serialize;

use crate::failure::Failure;
use crate::output;
use crate::show::{CheckFormat, show};

/// Tests from reports.
#[derive(Debug, Subcommand)]
pub(crate) enum TestCommand {
    /// Test a fit against a larger one: the likelihood-ratio test, and where the dispersion is estimated the F test
    ///
    /// Both fits are of the same outcome on the same rows, and the larger one has all terms of the smaller one. As `anova` does in R.
    Nested {
        /// The report.json of the smaller fit
        #[arg(value_name = "SMALLER")]
        smaller: PathBuf,
        /// The report.json of the larger fit
        #[arg(value_name = "LARGER")]
        larger: PathBuf,
        /// What is printed on standard output
        #[arg(long, value_enum, default_value_t)]
        format: CheckFormat,
    },
    /// Wald test of linear hypotheses about coefficients, all together: F where the dispersion is estimated, chi-square otherwise
    ///
    /// As `linearHypothesis` of R's package car. A report knows the covariance of its own party's coefficients, and of all where the study shares them.
    Linear {
        /// The report.json of the fit
        #[arg(value_name = "REPORT")]
        report: PathBuf,
        /// Hypotheses such as "age - 2*bmi = 0.1"; names with spaces or signs stand between backticks
        #[arg(value_name = "HYPOTHESIS", required = true, allow_hyphen_values = true)]
        hypotheses: Vec<String>,
        /// What is printed on standard output
        #[arg(long, value_enum, default_value_t)]
        format: CheckFormat,
    },
}

/// Tests what the command asks for, and prints it.
///
/// # Errors
/// Reports that cannot be read or compared, hypotheses that cannot be read.
pub(crate) fn run(command: &TestCommand) -> Result<(), Failure> {
    match command {
        TestCommand::Nested { smaller, larger, format } => {
            let [smaller, larger] = [read(smaller)?, read(larger)?];
            print(*format, hypothesis::nested((&smaller).into(), (&larger).into()))
        }
        TestCommand::Linear { report, hypotheses, format } => {
            if let Some(flag) = hypotheses.iter().find(|word| word.starts_with("--")) {
                let sentence = format!("`{flag}` stands behind a hypothesis: flags come before the report");
                return Err(Failure::Usage(sentence));
            }
            let report = read(report)?;
            print(*format, hypothesis::linear((&report).into(), hypotheses))
        }
    }
}

fn read(file: &Path) -> Result<Report, FileError> {
    let text = std::fs::read_to_string(file).map_err(|source| FileError::Read { file: file.to_path_buf(), source })?;
    serde_json::from_str(&text)
        .map_err(|error| FileError::Parse { file: file.to_path_buf(), problem: format!("not a report.json: {error}") })
}

fn print<T: Display + Serialize>(format: CheckFormat, tested: Result<T, HypothesisError>) -> Result<(), Failure> {
    let tested = tested.map_err(|error| match error {
        HypothesisError::Text { .. } | HypothesisError::Dependent => Failure::Usage(error.to_string()),
        HypothesisError::Unfit { .. } | HypothesisError::Apart(_) => Abort::Data(error.to_string()).into(),
    })?;
    output::print(&show(format, &tested, T::to_string))?;
    Ok(())
}
