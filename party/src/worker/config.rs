//! The private file of a worker.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use fedreg_common::privacy::ledger::LedgerError;
use fedreg_proto::files::{self, FileError, Layers, TlsTerms, check_address};
use serde::{Deserialize, Serialize};

use crate::config::{DataTerms, LedgerTerms, TableFlags, set_source};
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_rows: Option<u64>,
    /// Largest epsilon that a private study may ask for in one run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
    /// Table, CSV or Parquet; `-` reads CSV from standard input
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

const REQUIRED: [(&str, &str); 6] = [
    ("study", "study"),
    ("coordinator", "coordinator"),
    ("data.file", "data"),
    ("tls.authority", "authority"),
    ("tls.certificate", "certificate"),
    ("tls.key", "key"),
];

impl Config {
    /// Reads the private file and lets flags override it.
    ///
    /// # Errors
    /// A file that cannot be read or understood, a key that is missing, a value that cannot be used.
    pub fn load(flags: &Overrides) -> Result<Config, FileError> {
        let mut layers = Layers::read(flags.config.as_deref(), "worker.toml")?;
        flags.table.lay(&mut layers, flags.data.as_deref())?;
        layers.set_path("study", flags.study.as_deref(), None)?;
        layers.set_path("state", flags.state.as_deref(), Some("state"))?;
        match &flags.data {
            Some(data) if data == Path::new(STDIN) => layers.set("data.file", Some(STDIN)),
            data => set_source(&mut layers, data.as_deref())?,
        }
        layers.set_path("privacy.ledger", None, None)?;
        layers.set_path("privacy.anchor", None, None)?;
        layers.set_tls(flags.authority.as_deref(), flags.certificate.as_deref(), flags.key.as_deref())?;
        layers.set("coordinator", flags.coordinator.as_deref());
        layers.set_number("wait", flags.wait);
        layers.set_number("policy.min_rows", flags.min_rows);
        layers.set("policy.max_epsilon", flags.max_epsilon);
        let config: Config = layers.finish(&REQUIRED)?;
        check_address("coordinator", &config.coordinator)?;
        config.data.written()?;
        if config.policy.max_epsilon.is_some_and(|most| !(most > 0.0 && most.is_finite())) {
            let problem = "must be a positive number".to_string();
            return Err(FileError::Value { key: "policy.max_epsilon", problem });
        }
        Ok(config)
    }

    /// Where the privacy ledger is.
    pub fn ledger(&self) -> PathBuf {
        self.privacy.file(&self.state)
    }

    /// Where its anchor is.
    ///
    /// # Errors
    /// It is not stated and the user has no folder for it.
    pub fn anchor(&self) -> Result<PathBuf, LedgerError> {
        self.privacy.anchor_of(&self.state)
    }

    /// The data set's name in the ledger.
    pub fn data_set(&self) -> String {
        self.privacy.name(&self.data.file)
    }

    /// Whether rows come from standard input.
    pub fn reads_stdin(&self) -> bool {
        self.data.file == Path::new(STDIN)
    }

    /// How the table is written, which was checked when the configuration was loaded.
    pub fn written(&self) -> Written {
        self.data.written().unwrap_or_default()
    }

    /// How long to wait for the coordinator.
    pub fn patience(&self) -> Duration {
        Duration::from_secs(self.wait)
    }

    /// The configuration as it would stand in a file.
    pub fn print(&self) -> String {
        files::print(self)
    }
}
