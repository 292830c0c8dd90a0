//! The coordinator's file: the study, the address, the certificates, the state folder.

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use fedreg_common::study::{self, Study, StudyError};
use fedreg_proto::tls::TlsFiles;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use toml::{Table, Value};

/// The coordinator's configuration, with absolute paths.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The shared study file.
    pub study: PathBuf,
    /// Address at which parties are awaited.
    pub listen: String,
    /// Folder for the log of events; it must be writable.
    #[serde(default = "default_state")]
    pub state: PathBuf,
    /// Seconds that a party whose line was lost in the middle of a run may stay away.
    #[serde(default = "default_wait")]
    pub wait: u64,
    /// Certificates.
    pub tls: TlsTerms,
}

/// Where the certificates are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsTerms {
    /// Certificates of the authorities that are trusted.
    pub authority: PathBuf,
    /// The coordinator's certificate.
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

fn default_state() -> PathBuf {
    PathBuf::from("state")
}

fn default_wait() -> u64 {
    600
}

/// Flags that override the file.
#[derive(Debug, Clone, Default, Args)]
pub struct Overrides {
    /// The coordinator's file
    ///
    /// Without it, `coordinator.toml` in this folder, if it is there; flags can stand for all of it.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Shared study file
    #[arg(long, value_name = "FILE")]
    pub study: Option<PathBuf>,
    /// Address to listen at
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<String>,
    /// Certificates of trusted authorities
    #[arg(long, value_name = "FILE")]
    pub authority: Option<PathBuf>,
    /// Certificate of the coordinator
    #[arg(long, value_name = "FILE")]
    pub certificate: Option<PathBuf>,
    /// Private key of the coordinator
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Folder for the log of events
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Seconds that a party whose line was lost may stay away
    #[arg(long, value_name = "SECONDS")]
    pub wait: Option<u64>,
    /// Show the configuration that results, and stop
    #[arg(long)]
    pub print_config: bool,
}

/// A file that cannot be used. Everything here ends with exit code 2.
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
        /// The file.
        file: String,
    },
    /// An address of another form.
    #[error("`listen` is `{0}`, expected HOST:PORT")]
    Address(String),
    /// The study.
    #[error("{}: {source}", file.display())]
    Study {
        /// Which.
        file: PathBuf,
        /// What is wrong.
        source: StudyError,
    },
}

const REQUIRED: [(&str, &str); 5] = [
    ("study", "study"),
    ("listen", "listen"),
    ("tls.authority", "authority"),
    ("tls.certificate", "certificate"),
    ("tls.key", "key"),
];

impl Config {
    /// Reads the file and lets flags override it.
    ///
    /// # Errors
    /// A file that cannot be read or understood, a key that is missing, a value that cannot be used.
    pub fn load(flags: &Overrides) -> Result<Config, ConfigError> {
        let default = PathBuf::from("coordinator.toml");
        let file = flags
            .config
            .clone()
            .or_else(|| default.is_file().then_some(default.clone()));
        let (mut table, folder) = match &file {
            Some(file) => {
                let table: Table = read_text(file)?
                    .parse()
                    .map_err(|error: toml::de::Error| ConfigError::Parse {
                        file: file.clone(),
                        problem: error.to_string().trim_end().to_string(),
                    })?;
                let file = absolute(file)?;
                (table, file.parent().map(Path::to_path_buf).unwrap_or(file))
            }
            None => (Table::new(), absolute(Path::new("."))?),
        };
        for path in ["study", "state", "tls.authority", "tls.certificate", "tls.key"] {
            if let Some(Value::String(text)) = find(&mut table, path) {
                *text = folder.join(&*text).display().to_string();
            }
        }
        let path = |path: &Option<PathBuf>| -> Result<Option<Value>, ConfigError> {
            path.as_deref()
                .map(|path| absolute(path).map(|path| Value::String(path.display().to_string())))
                .transpose()
        };
        for (key, value) in [
            ("study", path(&flags.study)?),
            ("listen", flags.listen.clone().map(Value::String)),
            ("state", path(&flags.state)?),
            (
                "wait",
                flags
                    .wait
                    .map(|wait| Value::Integer(i64::try_from(wait).unwrap_or(i64::MAX))),
            ),
            ("tls.authority", path(&flags.authority)?),
            ("tls.certificate", path(&flags.certificate)?),
            ("tls.key", path(&flags.key)?),
        ] {
            let Some(value) = value else { continue };
            let (section, key) = key.split_once('.').unwrap_or(("", key));
            let target = match section {
                "" => Some(&mut table),
                section => table
                    .entry(section)
                    .or_insert_with(|| Value::Table(Table::new()))
                    .as_table_mut(),
            };
            if let Some(target) = target {
                target.insert(key.to_string(), value);
            }
        }
        let named = file.unwrap_or(default);
        for (key, flag) in REQUIRED {
            if find(&mut table, key).is_none() {
                let file = named.display().to_string();
                return Err(ConfigError::Missing { key, flag, file });
            }
        }
        let state_given = table.contains_key("state");
        let mut config: Config = table.try_into().map_err(|error| ConfigError::Parse {
            file: named,
            problem: study::explain(&error),
        })?;
        if !state_given {
            config.state = folder.join(default_state());
        }
        let sound = config
            .listen
            .rsplit_once(':')
            .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
        match sound {
            true => Ok(config),
            false => Err(ConfigError::Address(config.listen)),
        }
    }

    /// The configuration as it would stand in a file.
    pub fn print(&self) -> String {
        toml::to_string_pretty(self).unwrap_or_else(|error| format!("# cannot be shown: {error}\n"))
    }

    /// Reads and checks the shared study file.
    ///
    /// # Errors
    /// A file that cannot be read, or is no study.
    pub fn read_study(&self) -> Result<Study, ConfigError> {
        let text = read_text(&self.study)?;
        Study::parse(&text).map_err(|source| ConfigError::Study {
            file: self.study.clone(),
            source,
        })
    }
}

fn read_text(file: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(file).map_err(|source| ConfigError::Read {
        file: file.to_path_buf(),
        source,
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str, flags: Overrides) -> Result<Config, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("coordinator.toml");
        std::fs::write(&file, text).unwrap();
        let flags = Overrides {
            config: Some(file),
            ..flags
        };
        Config::load(&flags).map_err(|error| error.to_string().replace(&folder.path().display().to_string(), "@"))
    }

    const SAMPLE: &str = "study = \"study.toml\"\nlisten = \"0.0.0.0:7100\"\n[tls]\nauthority = \"authority.pem\"\n\
                          certificate = \"coordinator.pem\"\nkey = \"coordinator.key\"\n";

    #[test]
    fn flags_win_over_the_file_and_what_is_printed_can_be_read_again() {
        let flags = Overrides {
            listen: Some("127.0.0.1:0".to_string()),
            state: Some("/var/lib/fedreg".into()),
            ..Overrides::default()
        };
        let config = load(SAMPLE, flags).unwrap();
        assert_eq!(config.listen, "127.0.0.1:0");
        assert_eq!(config.state, Path::new("/var/lib/fedreg"));
        assert!(config.tls.key.is_absolute());
        assert_eq!(toml::from_str::<Config>(&config.print()).unwrap(), config);
    }

    #[test]
    fn mistakes_are_named_with_their_remedy() {
        let complaint = |text: &str| load(text, Overrides::default()).unwrap_err();
        assert_eq!(
            complaint(&SAMPLE.replace("listen", "listens")),
            "`listen` is missing: set it in @/coordinator.toml, or give --listen"
        );
        assert_eq!(
            complaint(&format!("statte = 1\n{SAMPLE}")),
            "@/coordinator.toml: unknown key `statte`; did you mean `state`?"
        );
        assert_eq!(
            complaint(&SAMPLE.replace("0.0.0.0:7100", "7100")),
            "`listen` is `7100`, expected HOST:PORT"
        );
    }
}
