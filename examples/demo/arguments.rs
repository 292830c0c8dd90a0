//! The command line of the demo; scripts rely on it.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use fedreg_common::glm::Family;
use fedreg_common::robust::Start;
use fedreg_common::study::{Acceleration, HeldBy, Lambda, Missing, PathWord};
use fedreg_party::output::Format;
use fedreg_party::privacy::AccountantName;

/// Rehearse federated regression on one machine.
#[derive(Debug, Parser)]
#[command(name = "demo", version)]
pub(crate) struct Program {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Two parties, different columns about the same people
    Vertical(Box<Vertical>),
    /// Many sites, the same columns about different people, some of them wrong
    Robust(Box<Robust>),
    /// Private expectation maximisation (not in this version)
    Em {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
        rest: Vec<OsString>,
    },
    /// Random features (not in this version)
    Features {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
        rest: Vec<OsString>,
    },
    /// Streaming local privacy (not in this version)
    Stream {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
        rest: Vec<OsString>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Vertical {
    /// Table with all columns, CSV or Parquet; the shipped diabetes data by default
    #[arg(long, value_name = "FILE")]
    pub(crate) data: Option<PathBuf>,
    /// Outcome column
    #[arg(long, value_name = "COL")]
    pub(crate) outcome: Option<String>,
    /// Alice's columns, comma-separated, quoted as in CSV; by default the first half of what is left
    #[arg(long, value_name = "COLS")]
    pub(crate) alice: Option<String>,
    /// Bob's columns; by default the rest
    #[arg(long, value_name = "COLS")]
    pub(crate) bob: Option<String>,
    /// Family of the model
    #[arg(long, value_enum, default_value_t, value_name = "FAMILY")]
    pub(crate) family: FamilyName,
    /// Column of identifiers; without one the row number is the identifier
    #[arg(long, value_name = "COL")]
    pub(crate) id: Option<String>,
    /// Who holds the outcome
    #[arg(long, value_enum, default_value_t, value_name = "WHO")]
    pub(crate) outcome_at: OutcomeAt,
    /// What happens to rows with missing values
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    pub(crate) missing: MissingName,
    /// Column of offsets
    #[arg(long, value_name = "COL")]
    pub(crate) offset: Option<String>,
    /// Column of case weights
    #[arg(long, value_name = "COL")]
    pub(crate) weights: Option<String>,
    /// Run without standard errors
    #[arg(long)]
    pub(crate) no_inference: bool,
    /// Penalty: a number, several (comma-separated), or `path`
    #[arg(long, value_name = "LAMBDA", value_parser = parse_lambda)]
    pub(crate) lambda: Option<Lambda>,
    /// Mixture of the penalty: 1 is the lasso, 0 is ridge
    #[arg(long, value_name = "ALPHA", default_value_t = 1.0, requires = "lambda")]
    pub(crate) alpha: f64,
    /// Folds of cross-validation
    #[arg(long, value_name = "FOLDS", requires = "lambda")]
    pub(crate) cv: Option<u32>,
    /// Column that says which fold a row is in; otherwise 1 + row modulo FOLDS
    #[arg(long, value_name = "COL", requires = "cv")]
    pub(crate) folds: Option<String>,
    /// How the iteration is sped up
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    pub(crate) acceleration: AccelerationName,
    /// Tolerance of the stopping rule
    #[arg(long, value_name = "TOL", default_value_t = 1e-8)]
    pub(crate) tol: f64,
    /// Largest number of rounds; 1000 with acceleration, 50000 without
    #[arg(long, value_name = "ROUNDS")]
    pub(crate) max_rounds: Option<u32>,
    /// Seed of the run's random choices; the noise of private mode never follows from it
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) seed: u64,
    /// What leaves a party, and under which guarantee
    #[arg(long, value_enum, default_value_t, value_name = "MODE")]
    pub(crate) mode: ModeName,
    /// Epsilon of a private run, towards each party's data set
    #[arg(long, value_name = "EPSILON", default_value_t = 1.0)]
    pub(crate) epsilon: f64,
    /// Its delta; by default the smaller of 1e-6 and one over ten times the rows
    #[arg(long, value_name = "DELTA")]
    pub(crate) delta: Option<f64>,
    /// Public ranges and levels for a private run, in TOML; shipped for the shipped data
    #[arg(long, value_name = "FILE")]
    pub(crate) bounds: Option<PathBuf>,
    /// How values are made private
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    pub(crate) mechanism: MechanismName,
    /// How the costs of releases are added up
    #[arg(long, value_enum, default_value_t = AccountantName::Zcdp, value_name = "ACCOUNTANT")]
    pub(crate) accountant: AccountantName,
    /// Folder for the study's files and the reports
    #[arg(long, value_name = "DIR", default_value = "fedreg-demo")]
    pub(crate) out: PathBuf,
    /// What is printed on standard output
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct Robust {
    /// Table with all rows, CSV or Parquet; the shipped diabetes data by default
    #[arg(long, value_name = "FILE")]
    pub(crate) data: Option<PathBuf>,
    /// Outcome column
    #[arg(long, value_name = "COL")]
    pub(crate) outcome: Option<String>,
    /// Features, comma-separated, quoted as in CSV; by default all other columns
    #[arg(long, value_name = "COLS")]
    pub(crate) features: Option<String>,
    /// Number of workers; each gets a contiguous block of rows
    #[arg(long, value_name = "NUMBER", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) workers: u64,
    /// Rows of a batch, the last of a worker may have more or fewer; 1000, and 73 with the shipped data
    #[arg(long, value_name = "ROWS")]
    pub(crate) batch_rows: Option<u64>,
    /// How estimates become one: refine, pivot, geomed, trimmed, cmedian, filter or mean
    #[arg(long, value_name = "HOW", default_value = "refine")]
    pub(crate) consolidation: String,
    /// Where the fit of a batch starts
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    pub(crate) start: StartName,
    /// Follow the estimates as they arrive, through a window
    #[arg(long)]
    pub(crate) online: bool,
    /// With --online: agreeing arrivals that replace the window, 0 for never
    #[arg(long, value_name = "NUMBER", default_value_t = 7, requires = "online")]
    pub(crate) switch: u64,
    /// With --online: estimates in the window
    #[arg(long, value_name = "NUMBER", default_value_t = 7, requires = "online")]
    pub(crate) window: u64,
    /// Damage this share of the batches first, rounded, and show least squares of all rows beside ours
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = parse_share)]
    pub(crate) corrupt: f64,
    /// What happens to rows with missing values
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    pub(crate) missing: MissingName,
    /// Seed of the damage
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) seed: u64,
    /// What leaves a worker, and under which guarantee
    #[arg(long, value_enum, default_value_t, value_name = "MODE")]
    pub(crate) mode: ModeName,
    /// Folder for the study's files and the reports
    #[arg(long, value_name = "DIR", default_value = "fedreg-demo")]
    pub(crate) out: PathBuf,
    /// What is printed on standard output
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum StartName {
    /// The best of the others
    #[default]
    Auto,
    /// Least squares on all rows, as in the source
    Ols,
    /// Bounded leverage
    Score,
    /// Least trimmed squares
    Lts,
}

impl From<StartName> for Start {
    fn from(name: StartName) -> Start {
        match name {
            StartName::Auto => Start::Auto,
            StartName::Ols => Start::Ols,
            StartName::Score => Start::Score,
            StartName::Lts => Start::Lts,
        }
    }
}

fn parse_share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err(format!("`{text}` is not a share between 0 and 1")),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum FamilyName {
    /// Identity link
    #[default]
    Gaussian,
    /// Logit link
    Binomial,
    /// Log link
    Poisson,
}

impl From<FamilyName> for Family {
    fn from(name: FamilyName) -> Family {
        match name {
            FamilyName::Gaussian => Family::Gaussian,
            FamilyName::Binomial => Family::Binomial,
            FamilyName::Poisson => Family::Poisson,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum OutcomeAt {
    /// Alice and Bob
    #[default]
    Both,
    /// Alice only
    Alice,
}

impl From<OutcomeAt> for HeldBy {
    fn from(name: OutcomeAt) -> HeldBy {
        match name {
            OutcomeAt::Both => HeldBy::Both,
            OutcomeAt::Alice => HeldBy::Alice,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum MissingName {
    /// They end the run
    #[default]
    Refuse,
    /// The rows are dropped, at everybody who holds a part of them
    CompleteCases,
}

impl From<MissingName> for Missing {
    fn from(name: MissingName) -> Missing {
        match name {
            MissingName::Refuse => Missing::Refuse,
            MissingName::CompleteCases => Missing::CompleteCases,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum AccelerationName {
    /// Anderson extrapolation
    #[default]
    Anderson,
    /// The plain algorithm
    None,
}

impl From<AccelerationName> for Acceleration {
    fn from(name: AccelerationName) -> Acceleration {
        match name {
            AccelerationName::Anderson => Acceleration::Anderson,
            AccelerationName::None => Acceleration::None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum ModeName {
    /// Numbers that the study declares, counted and metered, without noise
    #[default]
    Plain,
    /// Secret-shared cross-products (not in this version)
    Sealed,
    /// Differential privacy: noised values, charged to a ledger
    Private,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum MechanismName {
    /// Noised partial predictions to and fro
    #[default]
    Residual,
}

fn parse_lambda(text: &str) -> Result<Lambda, String> {
    if text == "path" {
        return Ok(Lambda::Path(PathWord::Path));
    }
    let values: Result<Vec<f64>, String> = text
        .split(',')
        .map(|value| {
            let value = value.trim();
            match value.parse::<f64>() {
                Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
                _ => Err(format!("`{value}` is not a number from 0; give one, several or `path`")),
            }
        })
        .collect();
    Ok(match values?.as_slice() {
        [one] => Lambda::One(*one),
        several => Lambda::Many(several.to_vec()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Program::command().debug_assert();
    }

    #[test]
    fn every_documented_flag_is_known_and_every_one_has_a_default() {
        Program::try_parse_from(["demo", "vertical"]).unwrap();
        let line = "demo vertical --data f.csv --outcome y --alice a,b --bob c --family binomial --id id --outcome-at alice \
                    --missing complete-cases --offset o --weights w --no-inference --lambda path --alpha 0.5 --cv 10 --folds \
                    f --acceleration none --tol 1e-6 --max-rounds 7 --seed 3 --mode private --epsilon 3 --delta 1e-6 --bounds b.toml --mechanism residual \
                    --accountant exact --out d --format json";
        let Command::Vertical(arguments) = Program::try_parse_from(line.split_whitespace()).unwrap().command else {
            panic!("not the vertical demo");
        };
        assert_eq!(arguments.lambda, Some(Lambda::Path(PathWord::Path)));
        assert_eq!((arguments.cv, arguments.max_rounds), (Some(10), Some(7)));
        assert!(Program::try_parse_from(["demo", "vertical", "--max-round", "3"]).is_err());
        let line = "demo robust --data f.csv --outcome y --features a,b --workers 4 --batch-rows 500 --consolidation pivot --start \
                    score --online --switch 5 --window 9 --corrupt 0.3 --missing complete-cases --seed 3 --mode plain --out d \
                    --format csv";
        assert!(Program::try_parse_from(line.split_whitespace()).is_ok());
        assert!(Program::try_parse_from(["demo", "robust", "--corrupt", "1.5"]).is_err());
    }

    #[test]
    fn penalties_are_one_several_or_a_path() {
        assert_eq!(parse_lambda("0.1"), Ok(Lambda::One(0.1)));
        assert_eq!(parse_lambda("0.1, 0.01"), Ok(Lambda::Many(vec![0.1, 0.01])));
        assert!(parse_lambda("-1").unwrap_err().contains("`-1` is not a number from 0"));
        assert!(parse_lambda("NaN").is_err());
    }
}
