//! The command line of `reproduce`.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// Reproduce published tables, ours beside theirs.
#[derive(Debug, Clone, Parser)]
#[command(name = "reproduce", version)]
pub(crate) struct Program {
    /// Which tables
    #[arg(value_enum)]
    pub(crate) what: What,
    /// Repetitions of each simulation; by default as many as the published table has
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(crate) seeds: Option<u64>,
    /// Small versions that end in seconds
    ///
    /// Their errors are not comparable with the published ones, and no bound is judged.
    #[arg(long)]
    pub(crate) quick: bool,
    /// The insurance data, for `features`
    ///
    /// A CSV file with age, sex, bmi, children, smoker, region and charges. It is not shipped.
    #[arg(long, value_name = "FILE")]
    pub(crate) insurance: Option<PathBuf>,
    /// The wine data, for `features`
    ///
    /// A CSV file with eleven measurements and the quality. Given twice, the first is of red wine and the second of white, and the groups are compared. It
    /// is not shipped.
    #[arg(long, value_name = "FILE")]
    pub(crate) wine: Vec<PathBuf>,
    /// The ADULT data, for `em`
    ///
    /// The file of the archive, without a line of names: fifteen columns, the last `<=50K` or `>50K`. It is not shipped.
    #[arg(long, value_name = "FILE")]
    pub(crate) adult: Option<PathBuf>,
    /// Census microdata such as those of IPUMS, for `em`
    ///
    /// A CSV file with a line of names and numeric columns, the last of them the monthly income in dollars, or 1 above 300 and 0 below. May be given twice. It is
    /// not shipped.
    #[arg(long, value_name = "FILE")]
    pub(crate) ipums: Vec<PathBuf>,
    /// Folder for the page and the pictures
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum What {
    /// Distributed and online robust regression against its rivals, and how many bad batches each withstands
    DrlrTable2,
    /// What surrounds that table: corrupted features, colluding sites, a truth that changes, coverage
    Robust,
    /// Curves of that table's methods over corruption, batches, columns and rows, and their times
    RobustCurves,
    /// How long fits and consolidations take
    Cost,
    /// Calibration, private vertical and robust regression, coverage of their intervals, time of their noise
    Privacy,
    /// Digits of sealed fits, how many gradients they open, and bytes that pass
    Sealed,
    /// Private expectation maximisation
    Em,
    /// Private kernel regression by random features
    Features,
    /// Streams under local privacy
    Stream,
    /// What a match of records costs
    Matching,
}
