//! The private file of a party: where its data are, how it is reached, and what it allows.
//!
//! It is never shared. Flags override it, relative paths in it are relative to its own folder, and its policy can only be
//! stricter than the study.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use fedreg_common::data::{Marks, MarksError};
use fedreg_common::id::Role;
use fedreg_common::methods::vertical::prepare::Policy;
use fedreg_common::privacy::accountant::Accountant;
use fedreg_common::privacy::ledger::LedgerError;
use fedreg_common::secure::open::Limits;
use fedreg_proto::files::{self, FileError, Layers, TlsTerms, check_address};
use fedreg_proto::output::chain;
use fedreg_proto::wizard::{Header, OwnTable};
use serde::{Deserialize, Serialize};

mod matching;

pub use self::matching::{KeyColumn, KeyColumnTerms, MatchConfig, MissingKeys};

use crate::ledger;
use crate::memory::Size;
use crate::read::{self, Chosen, Stated, Written, cells};

/// A party's private file; its paths are absolute once it is read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The shared study file.
    pub study: PathBuf,
    /// Address of the coordinator, `host:port`.
    pub coordinator: String,
    /// Address of the dealer, `host:port`, where the study names one apart from the coordinator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dealer: Option<String>,
    /// Address at which this party listens for the other, or as the leader of several for all others; or use `connect`.
    pub listen: Option<String>,
    /// Address at which the other party listens, of several the leader.
    pub connect: Option<String>,
    /// Folder for the log of runs; it must be writable. `state` beside this file if absent.
    pub state: PathBuf,
    /// Seconds to wait for a peer without anything new from it, whatever signs of life it gives.
    #[serde(default = "default_wait")]
    pub wait: u64,
    /// How much memory this party takes for its numbers, as `4GiB`: what goes beyond it lies in files of the state folder that have no
    /// name and are gone with the process. Four fifths of what the machine has left if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Size>,
    /// The table.
    pub data: DataTerms,
    /// Certificates.
    pub tls: TlsTerms,
    /// What this party allows.
    #[serde(default)]
    pub policy: PolicyTerms,
    /// The privacy ledger.
    #[serde(default, skip_serializing_if = "LedgerTerms::is_default")]
    pub privacy: LedgerTerms,
    /// How this party's rows are matched, in a study that has a section `[match]`.
    #[serde(default, rename = "match", skip_serializing_if = "MatchConfig::is_default")]
    pub matching: MatchConfig,
}

/// Where the privacy ledger is, and the budget that `privacy init` gives the data set.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerTerms {
    /// The ledger; `privacy.sqlite` in the state folder if absent. Studies on the same persons must share one.
    pub ledger: Option<PathBuf>,
    /// The file that remembers the ledger's end, so that a restored or deleted ledger is noticed. It belongs outside the
    /// ledger's folder and outside its backup; under the user's state folder if absent.
    pub anchor: Option<PathBuf>,
    /// The data set's name in the ledger; the name of the data file without its ending if absent.
    pub data_set: Option<String>,
    /// Epsilon of the data set, for its lifetime and over all peers; that of the study if absent.
    pub epsilon: Option<f64>,
    /// Its delta; that of the study if absent.
    pub delta: Option<f64>,
    /// How sums are read; as in the study if absent.
    pub accountant: Option<Accountant>,
    /// Why an epsilon above 10 is meant.
    pub large_epsilon: Option<String>,
}

impl LedgerTerms {
    pub(crate) fn is_default(&self) -> bool {
        *self == LedgerTerms::default()
    }

    /// Where the ledger is, of a party with this state folder.
    pub(crate) fn file(&self, state: &Path) -> PathBuf {
        self.ledger.clone().unwrap_or_else(|| state.join("privacy.sqlite"))
    }

    /// Where its anchor is: by default under the user's state folder, which a backup of the ledger does not take along.
    ///
    /// # Errors
    /// It is not stated and there is no folder of the user: beside the ledger it would go with the ledger.
    pub(crate) fn anchor_of(&self, state: &Path) -> Result<PathBuf, LedgerError> {
        // A relative path would depend on where the process was started.
        let folder = |name| std::env::var_os(name).map(PathBuf::from).filter(|folder| folder.is_absolute());
        let home = folder("XDG_STATE_HOME").or_else(|| folder("HOME").map(|home| home.join(".local/state")));
        match (&self.anchor, home) {
            (Some(anchor), _) => Ok(anchor.clone()),
            (None, Some(home)) => Ok(ledger::default_anchor(&self.file(state), &home)),
            (None, None) => Err(LedgerError::NoHome),
        }
    }

    /// The data set's name in the ledger, of a table in this file.
    pub(crate) fn name(&self, data: &Path) -> String {
        // Compressing a file gives its data no other name.
        let packed =
            data.extension().is_some_and(|ending| ["gz", "zst"].iter().any(|of| ending.eq_ignore_ascii_case(of)));
        let data = if packed { data.with_extension("") } else { data.to_path_buf() };
        let stem = || data.file_stem().map_or_else(|| "data".into(), |stem| stem.to_string_lossy().into_owned());
        self.data_set.clone().unwrap_or_else(stem)
    }
}

/// Where the table is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataTerms {
    /// A CSV, Parquet or Arrow file (CSV may be compressed by gzip or Zstandard), a folder or a pattern of Parquet files, a data base
    /// (`sqlite:FILE`, `postgres://USER@HOST/DATABASE`), or an object in a store (`s3://BUCKET/KEY`).
    pub file: PathBuf,
    /// The table or view of a data base that is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// The query of a data base whose rows are read, in place of a table; it may only read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// The separator of this CSV file; found in the header if absent.
    pub separator: Option<String>,
    /// What marks a missing value beside an empty cell and `NA`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub na_values: Vec<String>,
    /// The decimal sign of a CSV file; a point if absent.
    pub decimal: Option<String>,
}

impl DataTerms {
    /// The source that is read.
    pub fn source(&self) -> Stated {
        let query = self.query.clone().map(Chosen::Query);
        Stated::new(&self.file, query.or_else(|| self.table.clone().map(Chosen::Table)))
    }

    /// Whether the source is stated as it must be, and has a name in the ledger.
    pub(crate) fn check(&self, data_set: Option<&str>) -> Result<(), FileError> {
        let wrong = |key, problem: &str| Err(FileError::Value { key, problem: problem.to_string() });
        if read::holds_secret(&self.file) {
            return wrong("data.file", &format!("cannot be used: {}", read::SECRET));
        }
        if self.table.is_some() && self.query.is_some() {
            return wrong("data.table, data.query", "are both set: one of them says what is read");
        }
        if read::is_base(&self.file) && data_set.is_none() {
            let problem =
                "is missing: rows of a data base have no name of their own, and the ledger knows them by this one";
            return wrong("privacy.data_set", problem);
        }
        self.written().map(drop)
    }

    /// How the table is written.
    ///
    /// # Errors
    /// A separator of several characters, a decimal sign that is none, words that no cell can be.
    pub fn written(&self) -> Result<Written, FileError> {
        let separator = match self.separator.as_deref().map(separator_byte) {
            Some(None) => {
                let problem = "must be a single character of one byte".to_string();
                return Err(FileError::Value { key: "data.separator", problem });
            }
            Some(separator) => separator,
            None => None,
        };
        let marks = Marks::new(&self.na_values, self.decimal.as_deref()).map_err(|error| {
            let key = if matches!(error, MarksError::Decimal(_)) { "data.decimal" } else { "data.na_values" };
            FileError::Value { key, problem: error.to_string() }
        })?;
        Ok(Written { separator, marks })
    }
}

/// Whether an own limit on epsilon is a number that can be one.
pub(crate) fn check_largest_epsilon(most: Option<f64>) -> Result<(), FileError> {
    match most.is_none_or(|most| most > 0.0 && most.is_finite()) {
        true => Ok(()),
        false => Err(FileError::Value { key: "policy.max_epsilon", problem: "must be a positive number".to_string() }),
    }
}

/// Lays a flag over the key of the table: a path is made absolute, any other source stays as it is stated.
pub(crate) fn set_source(layers: &mut Layers, flag: Option<&Path>) -> Result<(), FileError> {
    let stated = flag.or_else(|| layers.text("data.file").map(Path::new));
    // The path within the statement is relative as any other.
    if let Some(file) = stated.and_then(|source| read::after(source, read::SQLITE)).map(PathBuf::from) {
        layers.set("data.file", Some(file.display().to_string()));
        layers.set_path("data.file", flag.map(|_| &*file), None)?;
        let full = layers.text("data.file").map(|file| format!("{}{file}", read::SQLITE));
        layers.set("data.file", full);
        return Ok(());
    }
    match stated.is_some_and(|source| !read::is_path(source)) {
        true => layers.set("data.file", flag.map(|source| source.display().to_string())),
        false => layers.set_path("data.file", flag, None)?,
    }
    Ok(())
}

/// How a table is written, for programs without a private file.
#[derive(Debug, Clone, Default, Args)]
pub struct TableFlags {
    /// Table or view of a data base that is read
    #[arg(long, value_name = "NAME", conflicts_with = "query")]
    pub table: Option<String>,
    /// Query of a data base whose rows are read; it may only read
    #[arg(long, value_name = "SQL")]
    pub query: Option<String>,
    /// Separator of a CSV table; found in its header otherwise
    #[arg(long, value_name = "CHARACTER")]
    pub separator: Option<String>,
    /// What marks a missing value beside an empty cell and NA, comma-separated, quoted as in CSV
    #[arg(long, value_name = "WORDS", allow_hyphen_values = true)]
    pub na_values: Option<String>,
    /// Decimal sign of a CSV table, a point or a comma
    #[arg(long, value_name = "CHARACTER")]
    pub decimal: Option<String>,
}

impl TableFlags {
    /// What the keys of a private file would be for a table in this file.
    ///
    /// # Errors
    /// As [`DataTerms::written`]; a list of words that is none.
    pub fn terms(&self, file: PathBuf) -> Result<DataTerms, FileError> {
        let na_values = self.words()?.unwrap_or_default();
        let terms = DataTerms {
            file,
            table: self.table.clone(),
            query: self.query.clone(),
            separator: self.separator.clone(),
            na_values,
            decimal: self.decimal.clone(),
        };
        terms.written().map(|_| terms)
    }

    /// Lays the flags over the keys of a private file.
    ///
    /// # Errors
    /// A list of words that is none.
    pub(crate) fn lay(&self, layers: &mut Layers, data: Option<&Path>) -> Result<(), FileError> {
        // The separator of one file says nothing of another, and neither do the tables of one data base.
        if layers.names_another("data.file", data) {
            ["data.separator", "data.table", "data.query"].iter().for_each(|key| layers.remove(key));
        }
        if self.table.is_some() || self.query.is_some() {
            ["data.table", "data.query"].iter().for_each(|key| layers.remove(key));
        }
        layers.set("data.table", self.table.as_deref());
        layers.set("data.query", self.query.as_deref());
        layers.set("data.separator", self.separator.as_deref());
        layers.set("data.decimal", self.decimal.as_deref());
        layers.set("data.na_values", self.words()?);
        Ok(())
    }

    fn words(&self) -> Result<Option<Vec<String>>, FileError> {
        let words = self.na_values.as_deref().map(cells).transpose();
        words.map_err(|problem| FileError::Value { key: "--na-values", problem })
    }

    /// How the table is written.
    ///
    /// # Errors
    /// As [`TableFlags::terms`].
    pub fn written(&self) -> Result<Written, FileError> {
        self.terms(PathBuf::new())?.written()
    }
}

/// A table whose header a new study may be asked with.
#[derive(Debug, Clone, Default, Args)]
pub struct TableAtHand {
    /// Own table, whose header is offered when columns are asked for, and which the own private file names
    ///
    /// Only the names of its columns are read.
    #[arg(long, value_name = "FILE")]
    pub data: Option<PathBuf>,
    /// Separator of a CSV table; found in its header otherwise
    #[arg(long, value_name = "CHARACTER", requires = "data")]
    pub separator: Option<String>,
}

impl OwnTable for TableAtHand {
    fn header(&self) -> Result<Option<Header>, String> {
        let Some(file) = self.data.clone() else { return Ok(None) };
        let separator = match self.separator.as_deref().map(separator_byte) {
            Some(None) => return Err("--separator: must be a single character of one byte".to_string()),
            Some(separator) => separator,
            None => None,
        };
        let columns = read::header(&file, separator).map_err(|error| chain(&error))?;
        Ok(Some(Header { file, columns }))
    }
}

/// What this party allows; it may only be stricter than the study.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyTerms {
    /// Largest share of any own column's variance that another party may be able to reconstruct, from 0 to 1.
    pub max_disclosure: Option<f64>,
    /// Largest number of rounds of a fit.
    pub max_rounds: Option<u32>,
    /// Smallest number of rows that take part.
    pub min_rows: Option<u64>,
    /// Largest epsilon that a private study may ask for in one run.
    pub max_epsilon: Option<f64>,
    /// Whether the projection exchange is allowed; it discloses the sender's column space.
    #[serde(default = "yes")]
    pub allow_basis: bool,
    /// Whether an outcome that this party holds alone may leave: every value of it, or within partial predictions.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub allow_outcome: bool,
    /// Bits of entropy that an own column of few different values needs for each product that opens about it in sealed mode; 64 if absent.
    /// This limit and the three below protect this party's own rows, so that this party may also loosen them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sealed_entropy_bits: Option<f64>,
    /// Rows that the rarer value of an own two-valued column needs in sealed mode, and fewest rows that must differ from a value which more than
    /// half of the rows have; 10 if absent, 0 lifts both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sealed_level_rows: Option<u64>,
    /// Rows for each column of all parties in sealed mode; 10 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sealed_rows_per_column: Option<u64>,
    /// Share of the unknown values of the smaller block that may open as numbers in sealed mode; 0.5 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sealed_opened_share: Option<f64>,
    /// Fewest matched rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_matched: Option<u64>,
    /// Largest number of rows that the peer may search for in this party's table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_peer_rows: Option<u64>,
    /// Whether rows may be matched through the coordinator, where the study says so; `false` if absent. A coordinator that colludes with
    /// the peer can find out every value of a key that can be guessed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_coordinator_match: bool,
    /// Largest number of matches of these data with one peer, over all runs; 5 if absent. A match counts once its run has begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_matches: Option<u64>,
}

impl PolicyTerms {
    /// What may open in sealed mode.
    pub(crate) fn limits(&self) -> Limits {
        let limits = Limits::default();
        Limits {
            entropy_bits: self.sealed_entropy_bits.unwrap_or(limits.entropy_bits),
            level_rows: self.sealed_level_rows.unwrap_or(limits.level_rows),
            rows_per_column: self.sealed_rows_per_column.unwrap_or(limits.rows_per_column),
            opened_share: self.sealed_opened_share.unwrap_or(limits.opened_share),
        }
    }

    /// Loosens what may open in sealed mode as far as it goes: for a rehearsal on one's own data.
    pub fn loosen(&mut self) {
        self.sealed_entropy_bits = Some(0.0);
        self.sealed_level_rows = Some(0);
        self.sealed_rows_per_column = Some(0);
        self.sealed_opened_share = Some(1.0);
    }
}

impl Default for PolicyTerms {
    fn default() -> Self {
        PolicyTerms {
            max_disclosure: None,
            max_rounds: None,
            min_rows: None,
            max_epsilon: None,
            allow_basis: true,
            allow_outcome: true,
            sealed_entropy_bits: None,
            sealed_level_rows: None,
            sealed_rows_per_column: None,
            sealed_opened_share: None,
            min_matched: None,
            max_peer_rows: None,
            allow_coordinator_match: false,
            max_matches: None,
        }
    }
}

fn yes() -> bool {
    true
}

fn is_yes(value: &bool) -> bool {
    *value
}

fn default_wait() -> u64 {
    600
}

/// Flags that override the private file.
#[derive(Debug, Clone, Default, Args)]
pub struct Overrides {
    /// Private file of this party
    ///
    /// Without it, the file by the party's name in this folder, as `alice.toml`, if it is there; flags can stand for all of it.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Shared study file
    #[arg(long, value_name = "FILE")]
    pub study: Option<PathBuf>,
    /// Table: CSV, Parquet or Arrow file, folder or pattern of Parquet files, sqlite:FILE, postgres://..., s3://...
    #[arg(long, value_name = "FILE")]
    pub data: Option<PathBuf>,
    /// How a CSV file is written
    #[command(flatten)]
    pub table: TableFlags,
    /// Folder of the match that the rows are taken by, in a study that has a section `[match]`
    ///
    /// `match` in the state folder by default, and `match-predict` for `predict`.
    #[arg(long = "match", value_name = "DIR")]
    pub matching: Option<PathBuf>,
    /// Table of record pairs with the columns own_id and pair_id, where the study matches rows by such tables
    #[arg(long, value_name = "FILE")]
    pub pairs: Option<PathBuf>,
    /// Address of the coordinator
    #[arg(long, value_name = "HOST:PORT")]
    pub coordinator: Option<String>,
    /// Address of the dealer, where the study names one apart from the coordinator
    #[arg(long, value_name = "HOST:PORT")]
    pub dealer: Option<String>,
    /// Address to listen at for the other party, at the leader of several for all others
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "connect")]
    pub listen: Option<String>,
    /// Address at which the other party listens, of several the leader
    #[arg(long, value_name = "HOST:PORT")]
    pub connect: Option<String>,
    /// Certificates of trusted authorities
    #[arg(long, value_name = "FILE")]
    pub authority: Option<PathBuf>,
    /// Certificate of this party
    #[arg(long, value_name = "FILE")]
    pub certificate: Option<PathBuf>,
    /// Private key of this party
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Folder for the log of runs
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Seconds to wait for a peer without anything new from it
    ///
    /// Signs of life do not prolong it: raise it where the other side needs longer to read its table, or for a single step.
    #[arg(long, value_name = "SECONDS")]
    pub wait: Option<u64>,
    /// Memory for the numbers, as 4GiB; what goes beyond it lies in files of the state folder
    ///
    /// Four fifths of what the machine has left by default. The result is the same bits.
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<Size>,
    /// Largest share of an own column that another party may be able to reconstruct
    #[arg(long, value_name = "SHARE")]
    pub max_disclosure: Option<f64>,
    /// Largest number of rounds of a fit
    #[arg(long, value_name = "ROUNDS")]
    pub max_rounds: Option<u32>,
    /// Smallest number of rows that take part
    #[arg(long, value_name = "ROWS")]
    pub min_rows: Option<u64>,
    /// Largest epsilon that a private study may ask for in one run
    #[arg(long, value_name = "EPSILON")]
    pub max_epsilon: Option<f64>,
    /// Forbid the projection exchange, and with it standard errors
    #[arg(long)]
    pub no_basis: bool,
    /// Forbid that an outcome that this party holds alone leaves, whole or within partial predictions
    #[arg(long)]
    pub no_outcome: bool,
    /// Show the configuration that results, and stop
    #[arg(long)]
    pub print_config: bool,
}

const REQUIRED: [&str; 6] = ["study", "coordinator", "data.file", "tls.authority", "tls.certificate", "tls.key"];

/// What the configurations of all roles that hold data have in common: the flags that are laid over the file, and what it tells.
macro_rules! holds_data {
    ($config:ty, $flags:ty) => {
        impl $config {
            /// The file under the flags that all these roles have.
            fn layers(flags: &$flags, default: &str) -> Result<Layers, FileError> {
                let mut layers = Layers::read(flags.config.as_deref(), default)?;
                flags.table.lay(&mut layers, flags.data.as_deref())?;
                layers.set_path("study", flags.study.as_deref(), None)?;
                layers.set_path("state", flags.state.as_deref(), Some("state"))?;
                $crate::config::set_source(&mut layers, flags.data.as_deref())?;
                layers.set_path("privacy.ledger", None, None)?;
                layers.set_path("privacy.anchor", None, None)?;
                layers.set_tls(flags.authority.as_deref(), flags.certificate.as_deref(), flags.key.as_deref())?;
                layers.set("coordinator", flags.coordinator.as_deref());
                layers.set_number("wait", flags.wait);
                layers.set_number("policy.min_rows", flags.min_rows);
                layers.set("policy.max_epsilon", flags.max_epsilon);
                Ok(layers)
            }

            /// Where the privacy ledger is.
            pub fn ledger(&self) -> PathBuf {
                self.privacy.file(&self.state)
            }

            /// Where its anchor is: by default under the user's state folder, which a backup of the ledger does not take along.
            ///
            /// # Errors
            /// It is not stated and the user has no such folder.
            pub fn anchor(&self) -> Result<PathBuf, LedgerError> {
                self.privacy.anchor_of(&self.state)
            }

            /// The data set's name in the ledger.
            pub fn data_set(&self) -> String {
                self.privacy.name(&self.data.file)
            }

            /// The source that is read.
            pub fn source(&self) -> $crate::read::Stated {
                self.data.source()
            }

            /// How the table is written, which was checked when the configuration was loaded.
            pub fn written(&self) -> Written {
                self.data.written().unwrap_or_default()
            }

            /// How long to wait for a peer or the coordinator.
            pub fn patience(&self) -> Duration {
                Duration::from_secs(self.wait)
            }

            /// The configuration as it would stand in a file.
            pub fn print(&self) -> String {
                files::print(self)
            }
        }
    };
}
pub(crate) use holds_data;

holds_data!(Config, Overrides);

impl Config {
    /// Reads a role's private file and lets flags override it.
    ///
    /// # Errors
    /// A file that cannot be read or understood, a key that is missing, a value that cannot be used.
    pub fn load(role: Role, flags: &Overrides) -> Result<Config, FileError> {
        let mut layers = Config::layers(flags, &format!("{role}.toml"))?;
        if flags.listen.is_some() {
            layers.remove("connect");
        }
        if flags.connect.is_some() {
            layers.remove("listen");
        }
        layers.set("listen", flags.listen.as_deref());
        layers.set("connect", flags.connect.as_deref());
        layers.set("dealer", flags.dealer.as_deref());
        layers.set("memory", flags.memory.map(String::from));
        layers.set_path("match.folder", flags.matching.as_deref(), None)?;
        layers.set_path("match.pairs", flags.pairs.as_deref(), None)?;
        layers.set("policy.max_disclosure", flags.max_disclosure);
        layers.set_number("policy.max_rounds", flags.max_rounds.map(u64::from));
        layers.set("policy.allow_basis", flags.no_basis.then_some(false));
        layers.set("policy.allow_outcome", flags.no_outcome.then_some(false));
        let config: Config = layers.finish(&REQUIRED)?;
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), FileError> {
        let wrong = |key, problem: String| Err(FileError::Value { key, problem });
        if self.listen.is_some() == self.connect.is_some() {
            let both = if self.listen.is_some() { "set" } else { "missing" };
            return wrong("listen, connect", format!("are both {both}: one party listens, the other connects"));
        }
        check_address("coordinator", &self.coordinator)?;
        for (key, address) in [("listen", &self.listen), ("connect", &self.connect), ("dealer", &self.dealer)] {
            address.as_deref().map_or(Ok(()), |address| check_address(key, address))?;
        }
        self.data.check(self.privacy.data_set.as_deref())?;
        let (bits, share) = (self.policy.sealed_entropy_bits, self.policy.sealed_opened_share);
        if bits.is_some_and(|bits| !(bits >= 0.0 && bits.is_finite())) {
            return wrong("policy.sealed_entropy_bits", "must be zero or above".to_string());
        }
        if share.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
            return wrong("policy.sealed_opened_share", "must lie between 0 and 1".to_string());
        }
        if self.policy.max_disclosure.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
            return wrong("policy.max_disclosure", "must lie between 0 and 1".to_string());
        }
        check_largest_epsilon(self.policy.max_epsilon)?;
        if self.policy.max_rounds == Some(0) {
            return wrong("policy.max_rounds", "must be at least 1".to_string());
        }
        Ok(())
    }

    /// The policy, as sessions take it.
    pub fn policy(&self) -> Policy {
        Policy {
            max_disclosure: self.policy.max_disclosure,
            max_rounds: self.policy.max_rounds,
            min_rows: self.policy.min_rows,
            allow_basis: self.policy.allow_basis,
            allow_outcome: self.policy.allow_outcome,
            limits: self.policy.limits(),
        }
    }
}

/// The separator as a byte.
pub(crate) fn separator_byte(text: &str) -> Option<u8> {
    match text {
        "\\t" | "tab" => Some(b'\t'),
        text => match text.as_bytes() {
            [byte] => Some(*byte),
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const SAMPLE: &str = r#"
        study = "../study.toml"
        coordinator = "coordinator.example:7100"
        listen = "0.0.0.0:7101"
        [data]
        file = "alice.csv"
        [tls]
        authority = "authority.pem"
        certificate = "alice.pem"
        key = "/etc/fedreg/alice.key"
        [policy]
        max_disclosure = 1
    "#;

    fn load(text: &str, flags: Overrides) -> Result<Config, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("alice.toml");
        std::fs::write(&file, text).unwrap();
        let flags = Overrides { config: Some(file), ..flags };
        let shown = |text: String| text.replace(&folder.path().display().to_string(), "@");
        Config::load(Role::Alice, &flags)
            .map(|mut config| {
                config.study = shown(config.study.display().to_string()).into();
                config.data.file = shown(config.data.file.display().to_string()).into();
                config.state = shown(config.state.display().to_string()).into();
                config
            })
            .map_err(|error| shown(error.to_string()))
    }

    #[test]
    fn paths_are_relative_to_the_file_and_defaults_are_the_documented_ones() {
        let config = load(SAMPLE, Overrides::default()).unwrap();
        assert_eq!(config.study, Path::new("@/../study.toml"));
        assert_eq!(config.data.file, Path::new("@/alice.csv"));
        assert_eq!(config.state, Path::new("@/state"));
        assert_eq!(config.tls.key, Path::new("/etc/fedreg/alice.key"));
        assert_eq!(config.wait, 600);
        assert!(config.policy.allow_basis);
        assert_eq!(config.policy.max_disclosure, Some(1.0));
    }

    #[test]
    fn flags_win_and_a_place_to_connect_to_replaces_the_place_to_listen_at() {
        let flags = Overrides {
            connect: Some("bob.example:7102".to_string()),
            data: Some("/data/other.parquet".into()),
            wait: Some(5),
            no_basis: true,
            min_rows: Some(100),
            ..Overrides::default()
        };
        let config = load(SAMPLE, flags).unwrap();
        assert_eq!(config.listen, None);
        assert_eq!(config.connect.as_deref(), Some("bob.example:7102"));
        assert_eq!(config.data.file, Path::new("/data/other.parquet"));
        assert_eq!((config.wait, config.policy.min_rows), (5, Some(100)));
        assert!(!config.policy.allow_basis);
    }

    #[test]
    fn the_separator_of_the_configured_file_does_not_apply_to_another() {
        let text = SAMPLE.replace("file = \"alice.csv\"", "file = \"alice.csv\"\nseparator = \"^\"\ndecimal = \",\"");
        assert_eq!(load(&text, Overrides::default()).unwrap().written().separator, Some(b'^'));
        let other = Overrides { data: Some("/data/other.csv".into()), ..Overrides::default() };
        let config = load(&text, other.clone()).unwrap();
        assert_eq!((config.written().separator, config.data.decimal.as_deref()), (None, Some(",")));
        let table = TableFlags { separator: Some("tab".to_string()), ..TableFlags::default() };
        let stated = Overrides { table, ..other };
        assert_eq!(load(&text, stated).unwrap().written().separator, Some(b'\t'));
        // The same file by another path.
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.csv");
        std::fs::write(&file, "").unwrap();
        let text = text.replace("alice.csv", &file.display().to_string());
        let same = Overrides { data: Some(folder.path().join("./x.csv")), ..Overrides::default() };
        assert_eq!(load(&text, same).unwrap().written().separator, Some(b'^'));
    }

    #[test]
    fn words_for_missing_values_and_the_decimal_sign_are_keys_and_flags() {
        let text = SAMPLE
            .replace("file = \"alice.csv\"", "file = \"alice.csv\"\nna_values = [\"NULL\", \".\"]\ndecimal = \",\"");
        let config = load(&text, Overrides::default()).unwrap();
        assert_eq!(config.data.na_values, ["NULL", "."]);
        assert_eq!(toml::from_str::<Config>(&config.print()).unwrap(), config);
        let table = TableFlags {
            na_values: Some("-9,\"N,A\",x".to_string()),
            decimal: Some(".".to_string()),
            ..TableFlags::default()
        };
        let flags = Overrides { table, ..Overrides::default() };
        let config = load(&text, flags).unwrap();
        assert_eq!(config.data.na_values, ["-9", "N,A", "x"]);
        assert_eq!(config.data.decimal.as_deref(), Some("."));
        for (odd, part) in
            [("decimal = \";\"", "`data.decimal` is `;`, expected"), ("separator = \"::\"", "single character")]
        {
            let complaint = load(
                &SAMPLE.replace("file = \"alice.csv\"", &format!("file = \"alice.csv\"\n{odd}")),
                Overrides::default(),
            );
            assert!(complaint.as_ref().unwrap_err().contains(part), "{complaint:?}");
        }
    }

    #[test]
    fn a_data_base_is_stated_with_a_table_or_a_query_and_a_data_set() {
        let base = |more: &str| {
            let text = SAMPLE.replace("file = \"alice.csv\"", &format!("file = \"SQLite:base/cohort.db\"\n{more}"));
            format!("{text}\n[privacy]\ndata_set = \"visits\"\n")
        };
        let config = load(&base("table = \"visits\""), Overrides::default()).unwrap();
        assert_eq!(config.data.file, Path::new("sqlite:@/base/cohort.db"));
        assert_eq!(config.source().chosen().map(|chosen| matches!(chosen, Chosen::Table(_))), Some(true));
        assert_eq!(
            (config.data_set().as_str(), toml::from_str::<Config>(&config.print()).unwrap()),
            ("visits", config)
        );
        // A flag takes the place of what the file chooses, and another data base has other tables.
        let table = TableFlags { query: Some("SELECT 1".to_string()), ..TableFlags::default() };
        let config = load(&base("table = \"visits\""), Overrides { table, ..Overrides::default() }).unwrap();
        assert_eq!((config.data.table, config.data.query.as_deref()), (None, Some("SELECT 1")));
        let other = Overrides { data: Some("postgres://ana@db.example/cohort".into()), ..Overrides::default() };
        let config = load(&base("table = \"visits\""), other).unwrap();
        assert_eq!((config.data.file.to_str(), config.data.table), (Some("postgres://ana@db.example/cohort"), None));
        let complaint = |text: &str| load(text, Overrides::default()).unwrap_err();
        assert_eq!(
            complaint(&base("table = \"a\"\nquery = \"SELECT 1\"")),
            "`data.table, data.query` are both set: one of them says what is read"
        );
        let nameless = base("table = \"visits\"").replace("data_set = \"visits\"", "");
        assert!(complaint(&nameless).starts_with("`privacy.data_set` is missing: "), "{}", complaint(&nameless));
        let text = base("table = \"a\"").replace("SQLite:base/cohort.db", "postgres://ana:secret@db.example/cohort");
        // As libpq and others have them, these are taken for paths.
        for place in ["host=db.example user=ana password=secret dbname=x", "postgres:ana:secret@db.example/cohort"] {
            let said = load(SAMPLE, Overrides { data: Some(place.into()), ..Overrides::default() }).unwrap_err();
            assert!(said.contains("an address must hold no password") && !said.contains("secret"), "{said}");
        }
        let said = complaint(&text);
        assert!(said.contains("an address must hold no password") && !said.contains("secret"), "{said}");
    }

    #[test]
    fn compressing_a_file_gives_its_data_no_other_name() {
        let name = |file: &str| LedgerTerms::default().name(Path::new(file));
        assert_eq!(["a/hand.csv", "hand.csv.gz", "hand.csv.ZST", "hand"].map(name), ["hand"; 4]);
        assert_eq!(name("hand.gz"), "hand");
    }

    #[test]
    fn what_is_printed_can_be_read_again() {
        let config = load(SAMPLE, Overrides::default()).unwrap();
        assert_eq!(toml::from_str::<Config>(&config.print()).unwrap(), config);
    }

    #[test]
    fn mistakes_are_named_with_their_remedy() {
        let complaint = |text: &str| load(text, Overrides::default()).unwrap_err();
        assert_eq!(
            complaint(&SAMPLE.replace("max_disclosure", "max_disclosures")),
            "@/alice.toml: line 12: unknown key `max_disclosures`; did you mean `max_disclosure`?"
        );
        assert_eq!(
            complaint(&SAMPLE.replace("key = \"/etc/fedreg/alice.key\"", "")),
            "`tls.key` is missing: set it in @/alice.toml, or give --key"
        );
        assert_eq!(
            complaint(&SAMPLE.replace("max_disclosure = 1", "max_disclosure = 1.5")),
            "`policy.max_disclosure` must lie between 0 and 1"
        );
        assert_eq!(complaint(&SAMPLE.replace("0.0.0.0:7101", "0.0.0.0")), "`listen` is `0.0.0.0`, expected HOST:PORT");
        assert_eq!(
            complaint(&SAMPLE.replace("listen = \"0.0.0.0:7101\"", "")),
            "`listen, connect` are both missing: one party listens, the other connects"
        );
        assert!(complaint("study = ").starts_with("@/alice.toml: TOML parse error at line 1"));
        for secret in ["file = \"postgres://u:geheim@h/x\n", "\nfile = \"host=db password=geheim\n"] {
            let sentence = complaint(secret);
            assert!(sentence.contains("TOML parse error at line") && !sentence.contains("geheim"), "{sentence}");
        }
        let nowhere = Overrides { config: Some("/nowhere/alice.toml".into()), ..Overrides::default() };
        let error = Config::load(Role::Alice, &nowhere).unwrap_err();
        assert_eq!(error.to_string(), "cannot read /nowhere/alice.toml");
    }
}
