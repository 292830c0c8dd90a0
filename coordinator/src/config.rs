//! The coordinator's file: the study, the address, the certificates, the state folder.

use std::path::PathBuf;

use clap::Args;
use fedreg_proto::files::{self, FileError, Layers, TlsTerms, check_address};
use serde::{Deserialize, Serialize};

/// The coordinator's private file; its paths are absolute once it is read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The shared study file.
    pub study: PathBuf,
    /// Address at which parties are awaited.
    pub listen: String,
    /// Folder for the log of events; it must be writable. `state` beside this file if absent.
    pub state: PathBuf,
    /// Seconds that a party whose line was lost in the middle of a run may stay away, and that a study in rounds waits for the others
    /// once its quorum is ready.
    #[serde(default = "default_wait")]
    pub wait: u64,
    /// Certificates.
    pub tls: TlsTerms,
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
    ///
    /// As long does a study in rounds wait for the others once its quorum is ready, and a run between workers that is over for workers that
    /// have lost their line and are still to fetch the result.
    #[arg(long, value_name = "SECONDS")]
    pub wait: Option<u64>,
    /// Show the configuration that results, and stop
    #[arg(long)]
    pub print_config: bool,
}

const REQUIRED: [&str; 5] = ["study", "listen", "tls.authority", "tls.certificate", "tls.key"];

impl Config {
    /// Reads the file and lets flags override it.
    ///
    /// # Errors
    /// A file that cannot be read or understood, a key that is missing, a value that cannot be used.
    pub fn load(flags: &Overrides) -> Result<Config, FileError> {
        Config::load_named(flags, "coordinator.toml")
    }

    /// As [`Config::load`], from a file of this name in the folder unless another one is given.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn load_named(flags: &Overrides, name: &str) -> Result<Config, FileError> {
        let mut layers = Layers::read(flags.config.as_deref(), name)?;
        layers.set_path("study", flags.study.as_deref(), None)?;
        layers.set_path("state", flags.state.as_deref(), Some("state"))?;
        layers.set_tls(flags.authority.as_deref(), flags.certificate.as_deref(), flags.key.as_deref())?;
        layers.set("listen", flags.listen.as_deref());
        layers.set_number("wait", flags.wait);
        let config: Config = layers.finish(&REQUIRED)?;
        check_address("listen", &config.listen)?;
        Ok(config)
    }

    /// The configuration as it would stand in a file.
    pub fn print(&self) -> String {
        files::print(self)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn load(text: &str, flags: Overrides) -> Result<Config, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("coordinator.toml");
        std::fs::write(&file, text).unwrap();
        let flags = Overrides { config: Some(file), ..flags };
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
            "@/coordinator.toml: line 2: unknown key `listens`; did you mean `listen`?"
        );
        assert_eq!(
            complaint(&SAMPLE.replace("listen = \"0.0.0.0:7100\"", "")),
            "`listen` is missing: set it in @/coordinator.toml, or give --listen"
        );
        assert_eq!(
            complaint(&SAMPLE.replace("[tls]", "[tsl]")),
            "@/coordinator.toml: line 3: unknown key `tsl`; did you mean `tls`?"
        );
        assert_eq!(
            complaint(&format!("statte = 1\n{SAMPLE}")),
            "@/coordinator.toml: line 1: unknown key `statte`; did you mean `state`?"
        );
        assert_eq!(complaint(&SAMPLE.replace("0.0.0.0:7100", "7100")), "`listen` is `7100`, expected HOST:PORT");
    }
}
