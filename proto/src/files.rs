//! Private files of parties and coordinator, with flags laid over them; and the study file.
//!
//! Relative paths in a private file are relative to its own folder, those in flags to the working folder.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use fedreg_common::exit::Exit;
use fedreg_common::study::{self, Study, StudyError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use toml::{Table, Value};

/// Largest file of settings, or study.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// A file that cannot be used. Everything here ends with exit code 2.
#[derive(Debug, Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("cannot read {}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The error beneath.
        source: io::Error,
    },
    /// Not in its format, unknown keys, or values of the wrong kind.
    #[error("{}: {problem}", file.display())]
    Parse {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A key that neither the file nor a flag gives.
    #[error("`{key}` is missing: set it in {}, or give --{flag}", file.display())]
    Missing {
        /// Dotted name.
        key: &'static str,
        /// The flag.
        flag: &'static str,
        /// The file.
        file: PathBuf,
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
        /// The file.
        file: PathBuf,
        /// What is wrong.
        source: StudyError,
    },
}

impl FileError {
    /// Always [`Exit::Usage`].
    pub fn exit(&self) -> Exit {
        Exit::Usage
    }
}

/// Where the certificates are: the section `[tls]` of every private file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsTerms {
    /// Certificates of the authorities that are trusted.
    pub authority: PathBuf,
    /// Own certificate.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// A private file, and what flags lay over it.
#[derive(Debug, Clone)]
pub struct Layers {
    table: Table,
    folder: PathBuf,
    file: PathBuf,
    /// What stands in the file, to find lines in it.
    text: String,
}

impl Layers {
    /// The file that was named, or the one of the default name in this folder if it is there, or nothing.
    ///
    /// # Errors
    /// The file cannot be read, or is not TOML.
    pub fn read(named: Option<&Path>, default: &str) -> Result<Layers, FileError> {
        let default = PathBuf::from(default);
        let file = match named {
            Some(file) => Some(file.to_path_buf()),
            None => default.is_file().then_some(default.clone()),
        };
        let Some(file) = file else {
            let folder = absolute(Path::new("."))?;
            return Ok(Layers { table: Table::new(), folder, file: default, text: String::new() });
        };
        let text = read_text(&file)?;
        let table = text.parse().map_err(|error: toml::de::Error| FileError::Parse {
            file: file.clone(),
            problem: quoted(&text, &error),
        })?;
        let place = absolute(&file)?;
        Ok(Layers { table, folder: place.parent().map(Path::to_path_buf).unwrap_or(place), file, text })
    }

    /// Lays a flag over a key, dotted where it stands in a section.
    pub fn set(&mut self, key: &str, value: Option<impl Into<Value>>) {
        let Some(value) = value else { return };
        let (section, key) = key.split_once('.').unwrap_or(("", key));
        let target = match section {
            "" => Some(&mut self.table),
            section => self.table.entry(section).or_insert_with(|| Value::Table(Table::new())).as_table_mut(),
        };
        // A section that is no table is complained of when the whole is read.
        if let Some(target) = target {
            target.insert(key.to_string(), value.into());
        }
    }

    /// As [`Layers::set`], for whole numbers; those too large for TOML are too large for any purpose here.
    pub fn set_number(&mut self, key: &str, value: Option<u64>) {
        self.set(key, value.map(|value| i64::try_from(value).unwrap_or(i64::MAX)));
    }

    /// A path: the flag's where there is one, else the file's, else the default; absolute either way.
    ///
    /// # Errors
    /// The working folder is gone, and an empty path.
    pub fn set_path(&mut self, key: &'static str, flag: Option<&Path>, default: Option<&str>) -> Result<(), FileError> {
        let is_empty = match (flag, self.get(key)) {
            (Some(flag), _) => flag.as_os_str().is_empty(),
            (None, Some(Value::String(text))) => text.is_empty(),
            (None, _) => false,
        };
        if is_empty {
            return Err(FileError::Value { key, problem: "names nothing: it must be a file or folder".to_string() });
        }
        let path = match (flag, self.get(key), default) {
            (Some(flag), _, _) => absolute(flag)?,
            (None, Some(Value::String(text)), _) => self.folder.join(text),
            (None, None, Some(default)) => self.folder.join(default),
            (None, _, _) => return Ok(()),
        };
        self.set(key, Some(path.display().to_string()));
        Ok(())
    }

    /// The three paths of the section `[tls]`.
    ///
    /// # Errors
    /// The working folder is gone.
    pub fn set_tls(
        &mut self,
        authority: Option<&Path>,
        certificate: Option<&Path>,
        key: Option<&Path>,
    ) -> Result<(), FileError> {
        self.set_path("tls.authority", authority, None)?;
        self.set_path("tls.certificate", certificate, None)?;
        self.set_path("tls.key", key, None)
    }

    /// Takes a key away, dotted where it stands in a section.
    pub fn remove(&mut self, key: &str) {
        match key.split_once('.') {
            None => self.table.remove(key),
            Some((section, key)) => {
                self.table.get_mut(section).and_then(Value::as_table_mut).and_then(|section| section.remove(key))
            }
        };
    }

    /// Whether a flag names another file than the one that stands in the file.
    pub fn names_another(&self, key: &str, flag: Option<&Path>) -> bool {
        let real = |path: &Path| path.canonicalize().or_else(|_| absolute(path)).unwrap_or_default();
        match (flag, self.get(key)) {
            (Some(flag), Some(Value::String(text))) => real(flag) != real(&self.folder.join(text)),
            _ => false,
        }
    }

    /// The text of a key.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str()
    }

    fn get(&self, key: &str) -> Option<&Value> {
        match key.split_once('.') {
            None => self.table.get(key),
            Some((section, key)) => self.table.get(section)?.as_table()?.get(key),
        }
    }

    /// The configuration that results. `required` are keys without a default; the flag that can stand for one has the name of its last
    /// part, and `--data` that of a table's file.
    ///
    /// # Errors
    /// A required key that is missing, an unknown key, a value of the wrong kind.
    pub fn finish<T: DeserializeOwned>(self, required: &[&'static str]) -> Result<T, FileError> {
        let Layers { table, file, text, .. } = &self;
        let unusable =
            |error: toml::de::Error| FileError::Parse { file: file.clone(), problem: explained(text, &error) };
        if let Some(key) = required.iter().find(|key| self.get(key).is_none()) {
            // Where a section or a key is misspelt, the right one is missing.
            let whole: Result<T, toml::de::Error> = table.clone().try_into();
            if let Err(error) = whole
                && unknown_key(&error).is_some()
            {
                return Err(unusable(error));
            }
            let flag = key.strip_suffix(".file").or(key.rsplit('.').next()).unwrap_or(key);
            return Err(FileError::Missing { key, flag, file: file.clone() });
        }
        table.clone().try_into().map_err(unusable)
    }
}

/// The key that an error is about, where that is no key of the file.
fn unknown_key(error: &toml::de::Error) -> Option<&str> {
    error.message().strip_prefix("unknown field `")?.split('`').next()
}

/// An error of syntax with the line in which it is, which is not shown where it may hold the password of an address.
fn quoted(text: &str, error: &toml::de::Error) -> String {
    let whole = error.to_string().trim_end().to_string();
    if !["://", "password", "passwd", "pwd"].iter().any(|sign| whole.to_ascii_lowercase().contains(sign)) {
        return whole;
    }
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
    format!("TOML parse error at line {}: {}", before.matches('\n').count() + 1, error.message().trim_end())
}

/// An error in a sentence, with the key that it is about, and the line where that stands in the file.
fn explained(text: &str, error: &toml::de::Error) -> String {
    let sentence = study::explain(error);
    let (line, sentence) = match (unknown_key(error), key_of(error)) {
        (Some(key), _) => (line_of(text, key), sentence),
        (None, Some(key)) => (line_in_section(text, &key), format!("`{key}`: {sentence}")),
        (None, None) => return sentence,
    };
    match line {
        Some(line) => format!("line {line}: {sentence}"),
        None => sentence,
    }
}

/// The dotted name of the key whose value an error is about, which only its whole text tells.
fn key_of(error: &toml::de::Error) -> Option<String> {
    let text = error.to_string();
    let key = text.trim_end().lines().last()?.strip_prefix("in `")?.strip_suffix('`')?;
    Some(key.to_owned())
}

/// The line in which a key with the names of its sections stands.
fn line_in_section(text: &str, dotted: &str) -> Option<usize> {
    let (mut section, mut found) = (String::new(), None);
    let plain = |name: &str| name.replace(['"', '\'', ' '], "");
    for (at, line) in text.lines().enumerate() {
        let line = line.trim_start();
        if let Some(name) = line.strip_prefix('[') {
            section = plain(name.trim_start_matches('[').split(']').next().unwrap_or_default()) + ".";
        } else if let Some((name, _)) = line.split_once('=')
            && section.clone() + &plain(name) == dotted
        {
            found = found.or(Some(at + 1));
        }
    }
    found
}

/// The first line in which a key, or a section of this name, stands.
fn line_of(text: &str, key: &str) -> Option<usize> {
    let stands = |line: &str| {
        let name = line.trim_start().trim_start_matches('[').split(['=', ']', '#']).next().unwrap_or_default();
        name.split('.').any(|part| part.trim().trim_matches(['"', '\'']) == key)
    };
    text.lines().position(stands).map(|before| before + 1)
}

/// Reads and checks the shared study file.
///
/// # Errors
/// A file that cannot be read, or is no study.
pub fn read_study(file: &Path) -> Result<Study, FileError> {
    Study::parse(&read_text(file)?).map_err(|source| FileError::Study { file: file.to_path_buf(), source })
}

/// Whether an address has the form `host:port`.
///
/// # Errors
/// It has not.
pub fn check_address(key: &'static str, address: &str) -> Result<(), FileError> {
    let is_host = |host: &str| match host.strip_prefix('[').map(|rest| rest.strip_suffix(']')) {
        Some(inner) => inner.is_some_and(|inner| {
            let address = inner.split_once('%').map_or(inner, |(address, _)| address);
            address.parse::<std::net::Ipv6Addr>().is_ok()
        }),
        None => {
            !host.is_empty() && !host.contains(|c: char| ":/[]@".contains(c) || c.is_whitespace() || c.is_control())
        }
    };
    let sound = address.rsplit_once(':').is_some_and(|(host, port)| is_host(host) && port.parse::<u16>().is_ok());
    match sound {
        true => Ok(()),
        false => Err(FileError::Value { key, problem: format!("is `{address}`, expected HOST:PORT") }),
    }
}

/// A configuration as it would stand in a file.
pub fn print(config: &impl Serialize) -> String {
    toml::to_string_pretty(config).unwrap_or_else(|error| format!("# cannot be shown: {error}\n"))
}

/// Reads a file of settings, but no more of it than such a file can need: a wrong path may lead to a table, or to a device
/// that never ends.
pub(crate) fn read_text(file: &Path) -> Result<String, FileError> {
    let fail = |source| FileError::Read { file: file.to_path_buf(), source };
    let mut text = Vec::new();
    let most = MAX_FILE_BYTES + 1;
    std::fs::File::open(file).and_then(|open| open.take(most).read_to_end(&mut text)).map_err(fail)?;
    if text.len() as u64 == most {
        let problem = format!("is larger than {} MiB, so that it cannot be a file of settings", MAX_FILE_BYTES >> 20);
        return Err(FileError::Parse { file: file.to_path_buf(), problem });
    }
    let invalid = |_| io::Error::new(io::ErrorKind::InvalidData, "it is not text in UTF-8");
    String::from_utf8(text).map_err(|error| fail(invalid(error)))
}

fn absolute(path: &Path) -> Result<PathBuf, FileError> {
    std::path::absolute(path).map_err(|source| FileError::Read { file: path.to_path_buf(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_the_wrong_kind_is_named_with_its_key_and_line() {
        #[derive(Debug, Deserialize)]
        #[allow(dead_code)]
        struct Settings {
            wait: u64,
            tls: TlsTerms,
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("alice.toml");
        let tls = "[tls]\nauthority = \"a\"\ncertificate = \"c\"\n";
        for (text, ends) in [
            (
                format!("wait = \"long\"\n{tls}key = \"k\"\n"),
                "line 1: `wait`: invalid type: string \"long\", expected a whole number, zero or above",
            ),
            (
                format!("wait = 3\n{tls}key = 7\n"),
                "line 5: `tls.key`: invalid type: integer `7`, expected a path in quotes",
            ),
            (
                format!("key = 1\nwait = 3\n{tls}key = 7\n"),
                "line 6: `tls.key`: invalid type: integer `7`, expected a path in quotes",
            ),
            (format!("wait = 3\n{tls}keys = \"k\"\n"), "line 5: unknown key `keys`; did you mean `key`?"),
        ] {
            std::fs::write(&file, text).unwrap();
            let refused =
                Layers::read(Some(&file), "alice.toml").unwrap().finish::<Settings>(&[]).unwrap_err().to_string();
            assert!(refused.ends_with(&format!("alice.toml: {ends}")), "{refused}");
        }
    }

    #[test]
    fn an_empty_path_is_named_by_its_key() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("alice.toml");
        std::fs::write(&file, "study = \"\"\n").unwrap();
        let mut layers = Layers::read(Some(&file), "alice.toml").unwrap();
        let says = "`study` names nothing: it must be a file or folder";
        assert_eq!(layers.set_path("study", None, None).unwrap_err().to_string(), says);
        assert_eq!(layers.set_path("study", Some(Path::new("")), None).unwrap_err().to_string(), says);
        assert!(layers.set_path("study", Some(Path::new("x")), None).is_ok());
        assert!(layers.set_path("state", None, None).is_ok(), "an absent key is no empty one");
    }

    #[test]
    fn a_file_too_large_for_settings_is_refused_before_it_is_read_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("study.toml");
        std::fs::write(&file, "# x\n".repeat(1 << 20)).unwrap();
        assert!(Layers::read(Some(&file), "alice.toml").is_ok());
        std::fs::write(&file, "# x\n".repeat((1 << 20) + 1)).unwrap();
        for error in [read_study(&file).err(), Layers::read(Some(&file), "alice.toml").err()] {
            let sentence = error.unwrap().to_string();
            assert!(
                sentence.ends_with("study.toml: is larger than 4 MiB, so that it cannot be a file of settings"),
                "{sentence}"
            );
        }
        #[cfg(unix)]
        assert!(read_study(Path::new("/dev/zero")).is_err());
        std::fs::write(&file, b"id = \"\xff\"").unwrap();
        assert!(matches!(read_study(&file), Err(FileError::Read { .. })));
    }
}
