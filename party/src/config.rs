//! The private file of a party: where its data are, how it is reached, and what it allows.
//!
//! It is never shared. Flags override it, relative paths in it are relative to its own folder, and its policy can only be
//! stricter than the study.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use fedreg_common::exit::Exit;
use fedreg_common::id::Role;
use fedreg_common::study::{self, Study, StudyError};
use fedreg_common::vertical::prepare::Policy;
use fedreg_proto::tls::TlsFiles;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use toml::{Table, Value};

/// A party's configuration, with absolute paths.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The shared study file.
    pub study: PathBuf,
    /// Address of the coordinator, `host:port`.
    pub coordinator: String,
    /// Address at which this party listens for the other; or use `connect`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listen: Option<String>,
    /// Address at which the other party listens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect: Option<String>,
    /// Folder for the log of runs; it must be writable.
    #[serde(default = "default_state")]
    pub state: PathBuf,
    /// Seconds to wait for a peer without any sign of life.
    #[serde(default = "default_wait")]
    pub wait: u64,
    /// The table.
    pub data: DataTerms,
    /// Certificates.
    pub tls: TlsTerms,
    /// What this party allows.
    #[serde(default)]
    pub policy: PolicyTerms,
}

/// Where the table is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataTerms {
    /// A CSV or Parquet file.
    pub file: PathBuf,
    /// The separator of a CSV file; found in the header if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub separator: Option<String>,
}

/// Where the certificates are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsTerms {
    /// Certificates of the authorities that are trusted.
    pub authority: PathBuf,
    /// This party's certificate.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

impl TlsTerms {
    /// The same, as the edge takes it.
    pub fn files(&self) -> TlsFiles {
        TlsFiles {
            authority: self.authority.clone(),
            certificate: self.certificate.clone(),
            key: self.key.clone(),
        }
    }
}

/// What this party allows; it may only be stricter than the study.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyTerms {
    /// Largest share of any own column's variance that the peer may be able to reconstruct, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_disclosure: Option<f64>,
    /// Largest number of rounds of a fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_rounds: Option<u32>,
    /// Smallest number of rows that take part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_rows: Option<u64>,
    /// Whether the projection exchange is allowed; it discloses the sender's column space.
    #[serde(default = "yes")]
    pub allow_basis: bool,
}

impl Default for PolicyTerms {
    fn default() -> Self {
        PolicyTerms {
            max_disclosure: None,
            max_rounds: None,
            min_rows: None,
            allow_basis: true,
        }
    }
}

fn yes() -> bool {
    true
}

fn default_state() -> PathBuf {
    PathBuf::from("state")
}

fn default_wait() -> u64 {
    600
}

/// Flags that override the private file.
#[derive(Debug, Clone, Default, Args)]
pub struct Overrides {
    /// Private file of this party
    ///
    /// Without it, `alice.toml` or `bob.toml` in this folder, if it is there; flags can stand for all of it.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Shared study file
    #[arg(long, value_name = "FILE")]
    pub study: Option<PathBuf>,
    /// Table, CSV or Parquet
    #[arg(long, value_name = "FILE")]
    pub data: Option<PathBuf>,
    /// Separator of a CSV table; found in its header otherwise
    #[arg(long, value_name = "CHARACTER")]
    pub separator: Option<String>,
    /// Address of the coordinator
    #[arg(long, value_name = "HOST:PORT")]
    pub coordinator: Option<String>,
    /// Address to listen at for the other party
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "connect")]
    pub listen: Option<String>,
    /// Address at which the other party listens
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
    /// Seconds to wait for a peer without any sign of life
    #[arg(long, value_name = "SECONDS")]
    pub wait: Option<u64>,
    /// Largest share of an own column that the peer may be able to reconstruct
    #[arg(long, value_name = "SHARE")]
    pub max_disclosure: Option<f64>,
    /// Largest number of rounds of a fit
    #[arg(long, value_name = "ROUNDS")]
    pub max_rounds: Option<u32>,
    /// Smallest number of rows that take part
    #[arg(long, value_name = "ROWS")]
    pub min_rows: Option<u64>,
    /// Forbid the projection exchange, and with it standard errors
    #[arg(long)]
    pub no_basis: bool,
    /// Show the configuration that results, and stop
    #[arg(long)]
    pub print_config: bool,
}

/// A configuration or study file that cannot be used. Everything here ends with exit code 2.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// A file that cannot be read.
    #[error("cannot read {}", file.display())]
    Read {
        /// Which.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Not TOML, unknown keys, or values of the wrong kind.
    #[error("{}: {problem}", file.display())]
    Parse {
        /// Which.
        file: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A key that neither the file nor a flag gives.
    #[error("`{key}` is missing: set it in {file}, or give --{flag}")]
    Missing {
        /// Dotted name.
        key: &'static str,
        /// The flag.
        flag: &'static str,
        /// The file, as far as there is one.
        file: String,
    },
    /// A value that cannot be used.
    #[error("`{key}` {problem}")]
    Value {
        /// Dotted name.
        key: &'static str,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// The study.
    #[error("{}: {source}", file.display())]
    Study {
        /// Which.
        file: PathBuf,
        /// What is wrong.
        source: StudyError,
    },
}

impl ConfigError {
    /// Always [`Exit::Usage`].
    pub fn exit(&self) -> Exit {
        Exit::Usage
    }
}

const REQUIRED: [(&str, &str); 6] = [
    ("study", "study"),
    ("coordinator", "coordinator"),
    ("data.file", "data"),
    ("tls.authority", "authority"),
    ("tls.certificate", "certificate"),
    ("tls.key", "key"),
];

const PATHS: [&str; 6] = [
    "study",
    "state",
    "data.file",
    "tls.authority",
    "tls.certificate",
    "tls.key",
];

impl Config {
    /// Reads a role's private file and lets flags override it.
    ///
    /// # Errors
    /// A file that cannot be read or understood, a key that is missing, a value that cannot be used.
    pub fn load(role: Role, flags: &Overrides) -> Result<Config, ConfigError> {
        let default = PathBuf::from(format!("{role}.toml"));
        let file = match &flags.config {
            Some(file) => Some(file.clone()),
            None => default.is_file().then_some(default.clone()),
        };
        let (mut table, folder) = match &file {
            Some(file) => (parse_table(file)?, folder_of(file)?),
            None => (Table::new(), absolute(Path::new("."))?),
        };
        // Before any path is joined: the error must speak of what stands in the file.
        for path in PATHS {
            if let Some(Value::String(text)) = find(&mut table, path) {
                *text = folder.join(&*text).display().to_string();
            }
        }
        override_with(&mut table, flags)?;
        let named = file.as_deref().unwrap_or(&default);
        for (key, flag) in REQUIRED {
            if find(&mut table, key).is_none() {
                let file = named.display().to_string();
                return Err(ConfigError::Missing { key, flag, file });
            }
        }
        let state_given = find(&mut table, "state").is_some();
        let mut config: Config = table.try_into().map_err(|error| ConfigError::Parse {
            file: named.to_path_buf(),
            problem: study::explain(&error),
        })?;
        if !state_given {
            config.state = folder.join(default_state());
        }
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), ConfigError> {
        let wrong = |key, problem: String| Err(ConfigError::Value { key, problem });
        match (&self.listen, &self.connect) {
            (None, None) => {
                return wrong(
                    "listen, connect",
                    "are both missing: one party listens, the other connects".to_string(),
                );
            }
            (Some(_), Some(_)) => {
                return wrong(
                    "listen, connect",
                    "are both set: one party listens, the other connects".to_string(),
                );
            }
            _ => {}
        }
        for (key, address) in [
            ("coordinator", Some(&self.coordinator)),
            ("listen", self.listen.as_ref()),
            ("connect", self.connect.as_ref()),
        ] {
            if let Some(address) = address {
                check_address(key, address)?;
            }
        }
        if self.data.separator.is_some() && self.separator().is_none() {
            return wrong("data.separator", "must be a single character of one byte".to_string());
        }
        if self
            .policy
            .max_disclosure
            .is_some_and(|share| !(0.0..=1.0).contains(&share))
        {
            return wrong("policy.max_disclosure", "must lie between 0 and 1".to_string());
        }
        if self.policy.max_rounds == Some(0) {
            return wrong("policy.max_rounds", "must be at least 1".to_string());
        }
        Ok(())
    }

    /// The separator as a byte.
    pub fn separator(&self) -> Option<u8> {
        match self.data.separator.as_deref()? {
            "\\t" | "tab" => Some(b'\t'),
            text => match text.as_bytes() {
                [byte] => Some(*byte),
                _ => None,
            },
        }
    }

    /// The policy, as sessions take it.
    pub fn policy(&self) -> Policy {
        Policy {
            max_disclosure: self.policy.max_disclosure,
            max_rounds: self.policy.max_rounds,
            min_rows: self.policy.min_rows,
            allow_basis: self.policy.allow_basis,
        }
    }

    /// How long to wait for a peer.
    pub fn patience(&self) -> Duration {
        Duration::from_secs(self.wait)
    }

    /// The configuration as it would stand in a file.
    pub fn print(&self) -> String {
        toml::to_string_pretty(self).unwrap_or_else(|error| format!("# cannot be shown: {error}\n"))
    }
}

/// Reads and checks the shared study file.
///
/// # Errors
/// A file that cannot be read, or is no study.
pub fn read_study(file: &Path) -> Result<Study, ConfigError> {
    let text = read_text(file)?;
    Study::parse(&text).map_err(|source| ConfigError::Study {
        file: file.to_path_buf(),
        source,
    })
}

/// Whether an address has the form `host:port`.
///
/// # Errors
/// It has not.
pub fn check_address(key: &'static str, address: &str) -> Result<(), ConfigError> {
    let sound = address
        .rsplit_once(':')
        .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    match sound {
        true => Ok(()),
        false => Err(ConfigError::Value {
            key,
            problem: format!("is `{address}`, expected HOST:PORT"),
        }),
    }
}

/// A TOML file as a table.
///
/// # Errors
/// It cannot be read, or is not TOML.
pub fn parse_table(file: &Path) -> Result<Table, ConfigError> {
    read_text(file)?
        .parse()
        .map_err(|error: toml::de::Error| ConfigError::Parse {
            file: file.to_path_buf(),
            problem: error.to_string().trim_end().to_string(),
        })
}

fn read_text(file: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(file).map_err(|source| ConfigError::Read {
        file: file.to_path_buf(),
        source,
    })
}

fn folder_of(file: &Path) -> Result<PathBuf, ConfigError> {
    let file = absolute(file)?;
    Ok(file.parent().map(Path::to_path_buf).unwrap_or(file))
}

fn absolute(path: &Path) -> Result<PathBuf, ConfigError> {
    std::path::absolute(path).map_err(|source| ConfigError::Read {
        file: path.to_path_buf(),
        source,
    })
}

fn find<'a>(table: &'a mut Table, key: &str) -> Option<&'a mut Value> {
    match key.split_once('.') {
        None => table.get_mut(key),
        Some((section, key)) => table.get_mut(section)?.as_table_mut()?.get_mut(key),
    }
}

fn override_with(table: &mut Table, flags: &Overrides) -> Result<(), ConfigError> {
    let text = |text: &Option<String>| text.clone().map(Value::String);
    let path = |path: &Option<PathBuf>| -> Result<Option<Value>, ConfigError> {
        path.as_deref()
            .map(|path| absolute(path).map(|path| Value::String(path.display().to_string())))
            .transpose()
    };
    // Numbers too large for TOML are too large for any purpose here.
    let number = |number: Option<u64>| number.map(|number| Value::Integer(i64::try_from(number).unwrap_or(i64::MAX)));
    if flags.listen.is_some() {
        table.remove("connect");
    }
    if flags.connect.is_some() {
        table.remove("listen");
    }
    let given = [
        ("study", path(&flags.study)?),
        ("coordinator", text(&flags.coordinator)),
        ("listen", text(&flags.listen)),
        ("connect", text(&flags.connect)),
        ("state", path(&flags.state)?),
        ("wait", number(flags.wait)),
        ("data.file", path(&flags.data)?),
        ("data.separator", text(&flags.separator)),
        ("tls.authority", path(&flags.authority)?),
        ("tls.certificate", path(&flags.certificate)?),
        ("tls.key", path(&flags.key)?),
        ("policy.max_disclosure", flags.max_disclosure.map(Value::Float)),
        ("policy.max_rounds", number(flags.max_rounds.map(u64::from))),
        ("policy.min_rows", number(flags.min_rows)),
        ("policy.allow_basis", flags.no_basis.then_some(Value::Boolean(false))),
    ];
    for (key, value) in given {
        let Some(value) = value else { continue };
        match key.split_once('.') {
            None => {
                table.insert(key.to_string(), value);
            }
            Some((section, key)) => {
                let section = table
                    .entry(section.to_string())
                    .or_insert_with(|| Value::Table(Table::new()));
                if let Some(section) = section.as_table_mut() {
                    section.insert(key.to_string(), value);
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
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
        let flags = Overrides {
            config: Some(file),
            ..flags
        };
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
    fn what_is_printed_can_be_read_again() {
        let config = load(SAMPLE, Overrides::default()).unwrap();
        assert_eq!(toml::from_str::<Config>(&config.print()).unwrap(), config);
    }

    #[test]
    fn mistakes_are_named_with_their_remedy() {
        let complaint = |text: &str| load(text, Overrides::default()).unwrap_err();
        assert_eq!(
            complaint(&SAMPLE.replace("max_disclosure", "max_disclosures")),
            "@/alice.toml: unknown key `max_disclosures`; did you mean `max_disclosure`?"
        );
        assert_eq!(
            complaint(&SAMPLE.replace("key = \"/etc/fedreg/alice.key\"", "")),
            "`tls.key` is missing: set it in @/alice.toml, or give --key"
        );
        assert_eq!(
            complaint(&SAMPLE.replace("max_disclosure = 1", "max_disclosure = 1.5")),
            "`policy.max_disclosure` must lie between 0 and 1"
        );
        assert_eq!(
            complaint(&SAMPLE.replace("0.0.0.0:7101", "0.0.0.0")),
            "`listen` is `0.0.0.0`, expected HOST:PORT"
        );
        assert_eq!(
            complaint(&SAMPLE.replace("listen = \"0.0.0.0:7101\"", "")),
            "`listen, connect` are both missing: one party listens, the other connects"
        );
        assert!(complaint("study = ").starts_with("@/alice.toml: TOML parse error at line 1"));
        let nowhere = Overrides {
            config: Some("/nowhere/alice.toml".into()),
            ..Overrides::default()
        };
        let error = Config::load(Role::Alice, &nowhere).unwrap_err();
        assert_eq!(error.to_string(), "cannot read /nowhere/alice.toml");
    }
}
