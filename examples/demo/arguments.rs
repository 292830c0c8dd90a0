//! The command line of the demo; scripts rely on it.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use fedreg_common::glm::StatedFamily;
use fedreg_common::id::Role;
use fedreg_common::methods::robust::Start;
use fedreg_common::methods::robust::plan::Influence;
use fedreg_common::privacy::accountant::Accountant;
use fedreg_common::study::{Acceleration, ErrorKind, HeldBy, Lambda, Missing, PathWord};
use fedreg_party::config::TableFlags;
use fedreg_party::output::Format;
use fedreg_party::privacy::ACCOUNTANTS;
use fedreg_proto::shell::{Values, values};
use fedreg_proto::wizard::PlaceFlags;

use crate::Failure;

/// Rehearse federated regression on one machine.
#[derive(Debug, Parser)]
#[command(name = "demo", version)]
pub(crate) struct Program {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Two parties or several, different columns about the same people
    Vertical(Box<Vertical>),
    /// Many sites, the same columns about different people, some of them wrong
    Robust(Box<Robust>),
    /// Many sites; models with something hidden, by expectation maximisation
    Em(Box<Em>),
    /// Many sites; a function of a few columns, by random features
    Features(Box<Features>),
    /// Many sites; a function that follows a stream of records
    Stream(Box<Stream>),
}

/// What the rehearsals of many sites share.
#[derive(Debug, Args)]
pub(crate) struct Common {
    /// Number of workers; each gets a contiguous block of rows
    #[arg(long, value_name = "NUMBER", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) workers: u64,
    /// Seed of the run's public random choices; the noise of private mode never follows from it
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) seed: u64,
    /// What leaves a worker, and under which guarantee
    #[arg(long, value_enum, default_value_t, value_name = "MODE")]
    pub(crate) mode: ModeName,
    /// Epsilon of a private run, at each worker; by default 1
    #[arg(long, value_name = "EPSILON", allow_negative_numbers = true)]
    pub(crate) epsilon: Option<f64>,
    /// Its delta; by default 1e-5
    #[arg(long, value_name = "DELTA", allow_negative_numbers = true)]
    pub(crate) delta: Option<f64>,
    /// How the costs of releases are added up; by default zcdp
    #[arg(long, value_parser = values(&ACCOUNTANTS), value_name = "ACCOUNTANT")]
    pub(crate) accountant: Option<Accountant>,
    /// Public ranges and levels, in TOML; shipped for the shipped data
    #[arg(long, value_name = "FILE")]
    pub(crate) bounds: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) table: TableFlags,
    /// Folder for the study's files and the reports
    #[arg(long, value_name = "DIR", default_value = "fedreg-demo")]
    pub(crate) out: PathBuf,
    /// Write a study of these flags into folders for everybody, ready to be sent, and run nothing
    ///
    /// Each folder has the study, a private file, a certificate request and five lines on what to do. No row of the table is in them.
    /// Without --hosts the addresses in them are those of this machine.
    #[arg(long, value_name = "DIR", conflicts_with = "out")]
    pub(crate) as_study: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) places: PlaceFlags,
    /// What is printed on standard output
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct Em {
    /// What is hidden
    #[arg(long, value_enum, default_value_t, value_name = "MODEL")]
    pub(crate) model: HiddenName,
    /// Table with all rows: CSV, Parquet or Arrow file, folder or pattern of Parquet files, sqlite:FILE, postgres://...,
    /// s3://...; shipped data by default
    #[arg(long, value_name = "FILE")]
    pub(crate) data: Option<PathBuf>,
    /// Columns of the points of gmm, comma-separated, quoted as in CSV; by default all
    #[arg(long, value_name = "COLS")]
    pub(crate) columns: Option<String>,
    /// Outcome column of mrm and rmc
    #[arg(long, value_name = "COL")]
    pub(crate) outcome: Option<String>,
    /// Features of mrm and rmc; by default all other columns
    #[arg(long, value_name = "COLS")]
    pub(crate) features: Option<String>,
    /// Standard deviation of the noise in the model, known from outside the data
    #[arg(long, value_name = "SIGMA", allow_negative_numbers = true)]
    pub(crate) sigma: Option<f64>,
    /// Bound on the second moment of a gradient's coordinate, known from outside the data
    #[arg(long, value_name = "TAU")]
    pub(crate) tau: Option<f64>,
    /// Start of the iteration, comma-separated; otherwise a random direction from the seed
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', allow_hyphen_values = true)]
    pub(crate) start: Option<Vec<f64>>,
    /// Rounds, fixed beforehand
    #[arg(long, value_name = "ROUNDS", default_value_t = 22)]
    pub(crate) rounds: u32,
    /// How a record's gradient is bounded
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    pub(crate) estimator: EstimatorFlag,
    /// Largest norm of a gradient for clip; half the root of columns times tau by default
    #[arg(long, value_name = "BOUND")]
    pub(crate) bound: Option<f64>,
    /// How a round changes the coefficients
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    pub(crate) update: UpdateFlag,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct Features {
    /// Table with all rows: CSV, Parquet or Arrow file, folder or pattern of Parquet files, sqlite:FILE, postgres://...,
    /// s3://...; shipped data by default
    #[arg(long, value_name = "FILE")]
    pub(crate) data: Option<PathBuf>,
    /// Outcome column
    #[arg(long, value_name = "COL")]
    pub(crate) outcome: Option<String>,
    /// Inputs of the function, comma-separated, quoted as in CSV; by default all other columns
    #[arg(long, value_name = "COLS")]
    pub(crate) features: Option<String>,
    /// Number of random features, even; 50, and in private mode what suits rows and budget
    #[arg(long, value_name = "NUMBER")]
    pub(crate) count: Option<u32>,
    /// Standard deviation of the frequencies, per column scaled to [0, 1]
    #[arg(long, value_name = "SD", default_value_t = 0.5)]
    pub(crate) frequency_sd: f64,
    /// What a worker sends
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    pub(crate) release: ReleaseFlag,
    /// Ridge
    #[arg(long, value_name = "LAMBDA", allow_negative_numbers = true)]
    pub(crate) lambda: Option<f64>,
    /// With --release output: how solutions become one: refine, pivot, geomed, trimmed, cmedian, filter or mean
    #[arg(long, value_name = "HOW")]
    pub(crate) consolidation: Option<String>,
    /// Share of the rows that no worker gets, below 1, to measure the error on
    #[arg(long, value_name = "SHARE", default_value_t = 0.2, value_parser = parse_share)]
    pub(crate) holdout: f64,
    /// Table whose rows are predicted with the result, into predictions.csv
    #[arg(long, value_name = "FILE")]
    pub(crate) predict: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct Stream {
    /// Table with all records: CSV, Parquet or Arrow file, folder or pattern of Parquet files, sqlite:FILE, postgres://...,
    /// s3://...; shipped data by default
    #[arg(long, value_name = "FILE")]
    pub(crate) data: Option<PathBuf>,
    /// Outcome column
    #[arg(long, value_name = "COL")]
    pub(crate) outcome: Option<String>,
    /// Covariates, comma-separated, quoted as in CSV; by default all other columns
    #[arg(long, value_name = "COLS")]
    pub(crate) features: Option<String>,
    /// Column that says whose a record is; without one every record is a person's own
    #[arg(long, value_name = "COL")]
    pub(crate) person: Option<String>,
    /// Most records of one person
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) records_per_person: u32,
    /// Grid points per covariate; 50, 15 or 8 with one, two or three covariates
    #[arg(long, value_name = "POINTS")]
    pub(crate) grid: Option<u32>,
    /// Kernel of the grid
    #[arg(long, value_enum, default_value_t, value_name = "KERNEL")]
    pub(crate) kernel: KernelFlag,
    /// Width of the gaussian kernel, in units of a covariate's range
    #[arg(long, value_name = "WIDTH")]
    pub(crate) width: Option<f64>,
    /// Random features in place of a grid: how many, even
    #[arg(long, value_name = "NUMBER")]
    pub(crate) count: Option<u32>,
    /// Standard deviation of their frequencies
    #[arg(long, value_name = "SD", default_value_t = 2.0)]
    pub(crate) frequency_sd: f64,
    /// How residuals count
    #[arg(long, value_enum, default_value_t, value_name = "LOSS")]
    pub(crate) loss: LossFlag,
    /// Largest residual that counts, in half ranges of the outcome
    #[arg(long, value_name = "TAU")]
    pub(crate) tau: Option<f64>,
    /// Length of the first step
    #[arg(long, value_name = "STEP")]
    pub(crate) step: Option<f64>,
    /// Steps that do not shrink
    #[arg(long)]
    pub(crate) constant: bool,
    /// Records of one message, at most
    #[arg(long, value_name = "NUMBER", default_value_t = 100)]
    pub(crate) group: u64,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum HiddenName {
    /// Which of two groups a point is in
    #[default]
    Gmm,
    /// Which of two regressions a row follows
    Mrm,
    /// Covariates of a regression that are missing at random
    Rmc,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum EstimatorFlag {
    /// Shortened to a norm
    #[default]
    Clip,
    /// Truncated smoothly, coordinate by coordinate
    Catoni,
    /// Not bounded; plain mode only
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum UpdateFlag {
    /// A step along the mean gradient
    #[default]
    Gradient,
    /// The maximiser; gmm only
    Direct,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum ReleaseFlag {
    /// Cross-products of the features, which are added up
    #[default]
    Statistics,
    /// A ridge solution of its own, consolidated robustly
    Output,
    /// Cross-products without noise; plain mode only
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum KernelFlag {
    /// For smooth functions
    #[default]
    Gaussian,
    /// For functions with a square-integrable derivative
    Sobolev,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum LossFlag {
    /// Cut at tau
    #[default]
    Huber,
    /// As they are; plain mode only
    Squares,
}

#[derive(Debug, Args)]
pub(crate) struct Vertical {
    /// Table with all columns: CSV, Parquet or Arrow file, folder or pattern of Parquet files, sqlite:FILE, postgres://...,
    /// s3://...; the shipped diabetes data by default
    #[arg(long, value_name = "FILE")]
    pub(crate) data: Option<PathBuf>,
    /// Match the rows of two tables that overlap in part
    ///
    /// By the keys in a TOML file, each with its kind and each side's column, or by one column of identifiers that both tables have.
    /// Without a value: two synthetic tables, a hospital's and an insurer's, with keys that suit them.
    #[arg(long = "match", value_name = "FILE|COL", num_args = 0..=1, default_missing_value = "", conflicts_with_all = ["data", "id"])]
    pub(crate) matching: Option<String>,
    /// With --match: Alice's table
    #[arg(long, value_name = "FILE", requires = "matching")]
    pub(crate) alice_data: Option<PathBuf>,
    /// With --match: Bob's table
    #[arg(long, value_name = "FILE", requires = "matching")]
    pub(crate) bob_data: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) table: TableFlags,
    /// Outcome column
    #[arg(long, value_name = "COL")]
    pub(crate) outcome: Option<String>,
    /// Alice's columns, comma-separated, quoted as in CSV, or a formula such as "~ log(bmi) * sex"; by default the first half of what is left
    #[arg(long, value_name = "COLS")]
    pub(crate) alice: Option<String>,
    /// Bob's columns or formula; by default the rest
    #[arg(long, value_name = "COLS")]
    pub(crate) bob: Option<String>,
    /// In place of --alice and --bob: two to sixteen parties by name, each with its columns or formula: "alice=a,b;bob=c;carol=~ log(d)"
    ///
    /// In sealed and private mode gaussian models only.
    #[arg(long, value_name = "NAME=COLS;...", conflicts_with_all = ["alice", "bob", "matching"])]
    pub(crate) parties: Option<String>,
    /// With --parties: the party that all others connect to, and that may hold the outcome alone
    #[arg(long, value_name = "NAME", requires = "parties", value_parser = |name: &str| name.parse::<Role>())]
    pub(crate) leader: Option<Role>,
    /// Family of the model
    #[arg(long, value_parser = values(&FAMILIES), default_value = "gaussian", value_name = "FAMILY")]
    pub(crate) family: StatedFamily,
    /// Column of identifiers; without one the row number is the identifier
    #[arg(long, value_name = "COL")]
    pub(crate) id: Option<String>,
    /// Who holds the outcome: `both`, or `all`, or one party alone, by its name
    #[arg(long, value_parser = holder, default_value = "both", value_name = "WHO")]
    pub(crate) outcome_at: HeldBy,
    /// What happens to rows with missing values
    #[arg(long, value_parser = values(&MISSING), default_value = "refuse", value_name = "HOW")]
    pub(crate) missing: Missing,
    /// Column of offsets
    #[arg(long, value_name = "COL")]
    pub(crate) offset: Option<String>,
    /// Column of case weights
    #[arg(long, value_name = "COL")]
    pub(crate) weights: Option<String>,
    /// Run without standard errors
    #[arg(long)]
    pub(crate) no_inference: bool,
    /// What standard errors follow from; from residuals in plain mode, without a penalty
    #[arg(long, value_parser = values(&ERRORS), default_value = "model", value_name = "KIND")]
    pub(crate) errors: ErrorKind,
    /// Let both parties learn the covariances of all coefficients; in plain mode of two parties, without a penalty
    ///
    /// For tests about coefficients of both. With the basis they tell single columns apart, so that all columns count as shown in full.
    #[arg(long)]
    pub(crate) share_covariance: bool,
    /// Penalty: a number, several (comma-separated), or `path`
    #[arg(long, value_name = "LAMBDA", allow_negative_numbers = true, value_parser = parse_lambda)]
    pub(crate) lambda: Option<Lambda>,
    /// Mixture of the penalty: 1 is the lasso, 0 is ridge
    #[arg(long, value_name = "ALPHA", allow_negative_numbers = true, default_value_t = 1.0, requires = "lambda")]
    pub(crate) alpha: f64,
    /// Folds of cross-validation; a row is in fold 1 + its number modulo FOLDS
    ///
    /// Rows are numbered from 0 in the byte order of their ids, without ids in the order of the file, after a match in that of the match. Rows
    /// that are left out have no number.
    #[arg(long, value_name = "FOLDS", requires = "lambda")]
    pub(crate) cv: Option<u32>,
    /// Column that says which fold a row is in; otherwise 1 + row modulo FOLDS
    #[arg(long, value_name = "COL", requires = "cv")]
    pub(crate) folds: Option<String>,
    /// How the iteration is sped up
    #[arg(long, value_parser = values(&ACCELERATIONS), default_value = "anderson", value_name = "HOW")]
    pub(crate) acceleration: Acceleration,
    /// Tolerance of the stopping rule
    #[arg(long, value_name = "TOL", allow_negative_numbers = true, default_value_t = 1e-8)]
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
    /// Epsilon of a private run, towards each party's data set; by default 1
    #[arg(long, value_name = "EPSILON", allow_negative_numbers = true)]
    pub(crate) epsilon: Option<f64>,
    /// Its delta; by default the smaller of 1e-6 and one over ten times the rows
    #[arg(long, value_name = "DELTA", allow_negative_numbers = true)]
    pub(crate) delta: Option<f64>,
    /// Public ranges and levels for a private run, in TOML; shipped for the shipped data
    #[arg(long, value_name = "FILE")]
    pub(crate) bounds: Option<PathBuf>,
    /// How values are made private; by default crossprod
    #[arg(long, value_enum, value_name = "HOW")]
    pub(crate) mechanism: Option<MechanismName>,
    /// Print what each party may see as well, which is in its own folder in any case
    #[arg(long)]
    pub(crate) verbose: bool,
    /// Whether the parties keep the limits on what may open in sealed mode; by default on
    #[arg(long, value_enum, value_name = "WHETHER")]
    pub(crate) sealed_limits: Option<SealedLimits>,
    /// To whom what opens in a sealed fit opens; by default leader
    #[arg(long, value_enum, value_name = "WHO")]
    pub(crate) opens: Option<OpensName>,
    /// Let factors of a sealed gaussian fit open with its table, so that sub-models follow from it without another run
    #[arg(long)]
    pub(crate) refit: bool,
    /// How the costs of releases are added up; by default zcdp
    #[arg(long, value_parser = values(&ACCOUNTANTS), value_name = "ACCOUNTANT")]
    pub(crate) accountant: Option<Accountant>,
    /// Folder for the study's files and the reports
    #[arg(long, value_name = "DIR", default_value = "fedreg-demo")]
    pub(crate) out: PathBuf,
    /// Write a study of these flags into folders for everybody, ready to be sent, and run nothing
    ///
    /// Each folder has the study, a private file, a certificate request and five lines on what to do. No row of the table is in them.
    /// Without --hosts the addresses in them are those of this machine.
    #[arg(long, value_name = "DIR", conflicts_with = "out")]
    pub(crate) as_study: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) places: PlaceFlags,
    /// What is printed on standard output
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct Robust {
    /// Table with all rows: CSV, Parquet or Arrow file, folder or pattern of Parquet files, sqlite:FILE, postgres://...,
    /// s3://...; the shipped diabetes data by default
    #[arg(long, value_name = "FILE")]
    pub(crate) data: Option<PathBuf>,
    /// Outcome column
    #[arg(long, value_name = "COL")]
    pub(crate) outcome: Option<String>,
    /// Features, comma-separated, quoted as in CSV; by default all other columns
    #[arg(long, value_name = "COLS")]
    pub(crate) features: Option<String>,
    /// Column of identifiers, which is no feature; in private mode it tells the ledger whose a row is
    #[arg(long, value_name = "COL")]
    pub(crate) id: Option<String>,
    /// Rows of a batch, the last of a worker may have more or fewer; 1000, and 73 with the shipped data; in private mode all rows of a worker
    #[arg(long, value_name = "ROWS")]
    pub(crate) batch_rows: Option<u64>,
    /// How estimates become one: refine, pivot, geomed, trimmed, cmedian, filter or mean
    #[arg(long, value_name = "HOW", default_value = "refine")]
    pub(crate) consolidation: String,
    /// Where the fit of a batch starts
    #[arg(long, value_parser = values(&STARTS), default_value = "auto", value_name = "HOW")]
    pub(crate) start: Start,
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
    /// In private mode: what a residual beyond the cut counts
    #[arg(long, value_parser = values(&INFLUENCES), default_value = "reject", value_name = "HOW")]
    pub(crate) influence: Influence,
    /// In private mode: rounds of a batch, at most
    #[arg(long, value_name = "ROUNDS", default_value_t = 5)]
    pub(crate) rounds: u32,
    /// What happens to rows with missing values
    #[arg(long, value_parser = values(&MISSING), default_value = "refuse", value_name = "HOW")]
    pub(crate) missing: Missing,
    #[command(flatten)]
    pub(crate) common: Common,
}

const INFLUENCES: Values<Influence, 2> =
    [("reject", "Nothing", Influence::Reject), ("huber", "As much as the cut", Influence::Huber)];

const STARTS: Values<Start, 4> = [
    ("auto", "The best of the others", Start::Auto),
    ("ols", "Least squares on all rows, as in the source", Start::Ols),
    ("score", "Bounded leverage", Start::Score),
    ("lts", "Least trimmed squares", Start::Lts),
];

fn parse_share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err(format!("`{text}` is not a share between 0 and 1")),
    }
}

const FAMILIES: Values<StatedFamily, 5> = [
    ("gaussian", "Identity link", StatedFamily::Gaussian),
    ("binomial", "Logit link", StatedFamily::Binomial),
    ("poisson", "Log link", StatedFamily::Poisson),
    ("quasibinomial", "Logit link, estimated dispersion", StatedFamily::Quasibinomial),
    ("quasipoisson", "Log link, estimated dispersion", StatedFamily::Quasipoisson),
];

fn holder(word: &str) -> Result<HeldBy, String> {
    match word {
        "both" => Ok(HeldBy::Both),
        "all" => Ok(HeldBy::All),
        name => name.parse().map(HeldBy::One),
    }
}

const ERRORS: Values<ErrorKind, 5> = [
    ("model", "The variance that the family states", ErrorKind::Model),
    ("HC0", "The squares of the residuals", ErrorKind::Hc0),
    ("HC1", "These times n / (n - p)", ErrorKind::Hc1),
    ("HC2", "These over 1 less the leverage", ErrorKind::Hc2),
    ("HC3", "These over the square of that", ErrorKind::Hc3),
];

const MISSING: Values<Missing, 2> = [
    ("refuse", "They end the run", Missing::Refuse),
    ("complete-cases", "The rows are dropped, at everybody who holds a part of them", Missing::CompleteCases),
];

const ACCELERATIONS: Values<Acceleration, 2> = [
    ("anderson", "Rounds learn from those before them", Acceleration::Anderson),
    ("none", "The plain algorithm", Acceleration::None),
];

/// Epsilon of a private run that names none.
pub(crate) const DEFAULT_EPSILON: f64 = 1.0;
/// Delta of a private run of many sites that names none.
pub(crate) const DEFAULT_DELTA: f64 = 1e-5;
/// How costs are added up in a private run that does not say.
pub(crate) const DEFAULT_ACCOUNTANT: Accountant = Accountant::Zcdp;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum ModeName {
    /// Numbers that the study declares, counted and metered, without noise
    #[default]
    Plain,
    /// Columns behind masks, of which only declared tables and gradients open; for parties with different columns, with --parties gaussian models only
    Sealed,
    /// Differential privacy: noised values, charged to a ledger
    Private,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum MechanismName {
    /// A table of cross-products for every two parties, computed on shares that get the noise of both before they leave; in binomial and poisson models, which are for two, two gradients after it
    #[default]
    Crossprod,
    /// Noised partial predictions to and fro, of two parties
    Residual,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum SealedLimits {
    /// As in a real study
    #[default]
    On,
    /// Loosened as far as they go, on data of one's own; the reports say so
    Off,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum OpensName {
    /// To the leader, of two parties to alice
    #[default]
    Leader,
    /// To every party
    All,
}

impl ModeName {
    /// Whether it goes with those flags that are for private mode alone, each with whether it was given.
    pub(crate) fn check(self, private: &[(&str, bool)]) -> Result<(), Failure> {
        match (self, private.iter().find(|(_, given)| *given)) {
            (ModeName::Plain | ModeName::Sealed, Some((flag, _))) => {
                Err(Failure::usage(format!("{flag} needs --mode private")))
            }
            (ModeName::Plain | ModeName::Sealed, None) | (ModeName::Private, _) => Ok(()),
        }
    }
}

impl Common {
    /// Whether mode and the flags of privacy fit each other, and the mode is one of many sites.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match self.mode {
            ModeName::Sealed => {
                let sentence = "--mode sealed is between parties with different columns: `demo vertical --mode sealed`; many \
                                sites are plain or private";
                return Err(Failure::usage(sentence));
            }
            ModeName::Plain | ModeName::Private => {}
        }
        self.mode.check(&[
            ("--epsilon", self.epsilon.is_some()),
            ("--delta", self.delta.is_some()),
            ("--accountant", self.accountant.is_some()),
        ])
    }
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
                    --missing complete-cases --offset o --weights w --no-inference --errors HC3 --share-covariance --lambda path --alpha 0.5 --cv 10 --folds \
                    f --acceleration none --tol 1e-6 --max-rounds 7 --seed 3 --mode private --epsilon 3 --delta 1e-6 --bounds b.toml --mechanism residual \
                    --sealed-limits off --accountant exact --out d --format json --na-values -9,. --decimal , --separator ;";
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
        let common = "--workers 2 --mode private --epsilon 1 --delta 1e-5 --bounds b.toml --accountant exact --seed 1 --out d --format json";
        for line in [
            "em --model mrm --data f.csv --outcome y --features a,b --sigma 1 --tau 5 --start -1,0.5 --rounds 9 --estimator catoni",
            "em --model gmm --data f.csv --columns a,b --sigma 1 --tau 5 --bound 2 --update direct",
            "features --data f.csv --outcome y --features a --count 40 --frequency-sd 0.5 --release output --lambda 0.1 --predict p.csv",
            "stream --data f.csv --outcome y --features a --grid 20 --tau 1 --step 0.1 --kernel sobolev --person id --records-per-person 2",
            "stream --count 20 --frequency-sd 3 --loss squares --constant --width 0.2 --group 10",
            "em",
            "features",
            "stream",
        ] {
            let line = format!("demo {line} {common}");
            Program::try_parse_from(line.split_whitespace()).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }

    #[test]
    fn penalties_are_one_several_or_a_path() {
        assert_eq!(parse_lambda("0.1"), Ok(Lambda::One(0.1)));
        assert_eq!(parse_lambda("0.1, 0.01"), Ok(Lambda::Many(vec![0.1, 0.01])));
        assert!(parse_lambda("-1").unwrap_err().contains("`-1` is not a number from 0"));
        assert!(parse_lambda("NaN").is_err());
    }
}
