//! The private file of a worker.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use fedreg_common::privacy::ledger::LedgerError;
use fedreg_proto::files::{self, FileError, Layers, TlsTerms, check_address};
use serde::{Deserialize, Serialize};

use crate::config::{DataTerms, LedgerTerms, TableFlags, check_largest_epsilon, holds_data};
use crate::read::{STDIN, Written};

/// A worker's private file; its paths are absolute once it is read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The shared study file.
    pub study: PathBuf,
    /// Address of the coordinator, `host:port`.
    pub coordinator: String,
    /// Folder for the log of runs; it must be writable. `state` beside this file if absent.
    pub state: PathBuf,
    /// Seconds to wait for a coordinator that cannot be reached.
    #[serde(default = "default_wait")]
    pub wait: u64,
    /// The table.
    pub data: DataTerms,
    /// Certificates.
    pub tls: TlsTerms,
    /// What this worker allows.
    #[serde(default)]
    pub policy: PolicyTerms,
    /// The privacy ledger.
    #[serde(default, skip_serializing_if = "LedgerTerms::is_default")]
    pub privacy: LedgerTerms,
}

/// What a worker allows; it may only be stricter than the study.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyTerms {
    /// Smallest number of rows of a batch whose estimate may leave.
    pub min_rows: Option<u64>,
    /// Largest epsilon that a private study may ask for in one run.
    pub max_epsilon: Option<f64>,
}

fn default_wait() -> u64 {
    600
}

/// Flags that override the private file.
#[derive(Debug, Clone, Default, Args)]
pub struct Overrides {
    /// Private file of this worker
    ///
    /// Without it, `worker.toml` in this folder, if it is there; flags can stand for all of it.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Shared study file
    #[arg(long, value_name = "FILE")]
    pub study: Option<PathBuf>,
    /// Table: CSV, Parquet or Arrow file, folder or pattern of Parquet files, sqlite:FILE, postgres://..., s3://...; `-` reads CSV from
    /// standard input
    #[arg(long, value_name = "FILE")]
    pub data: Option<PathBuf>,
    /// How a CSV file is written
    #[command(flatten)]
    pub table: TableFlags,
    /// Address of the coordinator
    #[arg(long, value_name = "HOST:PORT")]
    pub coordinator: Option<String>,
    /// Certificates of trusted authorities
    #[arg(long, value_name = "FILE")]
    pub authority: Option<PathBuf>,
    /// Certificate of this worker
    #[arg(long, value_name = "FILE")]
    pub certificate: Option<PathBuf>,
    /// Private key of this worker
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Folder for the log of runs
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Seconds to wait for a coordinator that cannot be reached
    #[arg(long, value_name = "SECONDS")]
    pub wait: Option<u64>,
    /// Smallest number of rows of a batch whose estimate may leave
    #[arg(long, value_name = "ROWS")]
    pub min_rows: Option<u64>,
    /// Largest epsilon that a private study may ask for in one run
    #[arg(long, value_name = "EPSILON")]
    pub max_epsilon: Option<f64>,
    /// Show the configuration that results, and stop
    #[arg(long)]
    pub print_config: bool,
}

const REQUIRED: [&str; 6] = ["study", "coordinator", "data.file", "tls.authority", "tls.certificate", "tls.key"];

holds_data!(Config, Overrides);

impl Config {
    /// Reads the private file and lets flags override it.
    ///
    /// # Errors
    /// A file that cannot be read or understood, a key that is missing, a value that cannot be used.
    pub fn load(flags: &Overrides) -> Result<Config, FileError> {
        let mut layers = Config::layers(flags, "worker.toml")?;
        if flags.data.as_deref() == Some(Path::new(STDIN)) {
            layers.set("data.file", Some(STDIN));
        }
        let config: Config = layers.finish(&REQUIRED)?;
        check_address("coordinator", &config.coordinator)?;
        config.data.check(config.privacy.data_set.as_deref())?;
        check_largest_epsilon(config.policy.max_epsilon)?;
        Ok(config)
    }

    /// Whether rows come from standard input.
    pub fn reads_stdin(&self) -> bool {
        self.data.file == Path::new(STDIN)
    }
}
