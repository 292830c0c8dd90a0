//! Where a data base is, and with which password and which certificates it is asked.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::stated::unescaped;
use super::super::{ReadError, after, secrets};
use super::BEGINNINGS;

/// How long a server may take to answer a connection.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where Debian and others have the socket of a server on this machine.
const SOCKETS: &str = "/var/run/postgresql";

/// Where systems keep the certificates that they trust.
const AUTHORITIES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// A data base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) user: String,
    /// A name, an address, or the folder of a socket.
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) database: String,
    /// Certificates of the authorities that may vouch for the server; nothing where no TLS is spoken.
    pub(super) authorities: Option<PathBuf>,
    passwords: Option<PathBuf>,
    pub(super) patience: Duration,
    /// Stands for it in messages.
    pub(super) name: String,
}

impl Place {
    /// Reads a statement; `variable` looks up the environment.
    ///
    /// # Errors
    /// A statement that is none, with a password in it, or that would speak to another machine without knowing to whom.
    pub(super) fn read(stated: &Path, variable: &dyn Fn(&str) -> Option<String>) -> Result<Place, ReadError> {
        let rest = BEGINNINGS.iter().find_map(|beginning| after(stated, beginning)).unwrap_or_default();
        let mut name = "postgres://".to_owned();
        let wrong = |name: &str, problem: &str| ReadError::stated(name, problem);
        let (rest, terms) = rest.split_once('?').unwrap_or((rest, ""));
        let (rest, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, address) = rest.rsplit_once('@').unwrap_or(("", rest));
        let terms = read_terms(terms).map_err(|problem| wrong(&name, &problem))?;
        let (host, port) = match address.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, Some(port)),
            _ => (address, None),
        };
        let found = |given: &str, key: &str, other: &str| {
            let given = Some(unescaped(given)).filter(|given| !given.is_empty());
            given.or_else(|| terms.get(key).cloned()).or_else(|| variable(other))
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let host = found(host, "host", "PGHOST").unwrap_or_else(|| SOCKETS.to_owned());
        let port = found(port.unwrap_or_default(), "port", "PGPORT").unwrap_or_else(|| "5432".to_owned());
        let user = found(user, "user", "PGUSER").or_else(|| variable("USER")).or_else(|| variable("LOGNAME"));
        let Some(user) = user else { return Err(wrong(&name, "no user is named: postgres://USER@HOST/DATABASE")) };
        let database = found(database, "dbname", "PGDATABASE").unwrap_or_else(|| user.clone());
        name = format!("postgres://{host}:{port}/{database}");
        let Ok(port) = port.parse() else { return Err(wrong(&name, "the port is no number from 1 to 65535")) };
        let patience = match terms.get("connect_timeout").map(|seconds| seconds.parse().map(Duration::from_secs)) {
            Some(Err(_)) => return Err(wrong(&name, "`connect_timeout` is no whole number of seconds")),
            Some(Ok(patience)) => patience,
            None => PATIENCE,
        };
        let authorities = authorities(&host, &terms, variable).map_err(|problem| wrong(&name, problem))?;
        let passwords = terms.get("passfile").cloned().or_else(|| variable("PGPASSFILE")).map(PathBuf::from);
        let passwords = passwords.or_else(|| variable("HOME").map(|home| Path::new(&home).join(".pgpass")));
        Ok(Place { user, host, port, database, authorities, passwords, patience, name })
    }

    /// The password, from the environment or from the file of passwords.
    ///
    /// # Errors
    /// A file of passwords that others can read.
    pub(super) fn password(&self, variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<String>, ReadError> {
        if let Some(password) = variable("PGPASSWORD") {
            return Ok(Some(password));
        }
        let Some(file) = self.passwords.as_deref().filter(|file| file.is_file()) else { return Ok(None) };
        secrets::check(file, "passwords", &self.name)?;
        let text =
            fs::read_to_string(file).map_err(|source| ReadError::Open { file: file.display().to_string(), source })?;
        Ok(text.lines().find_map(|line| self.entry(line)))
    }

    /// The password of a line `host:port:database:user:password`, if it is about this data base.
    fn entry(&self, line: &str) -> Option<String> {
        let mut fields = vec![String::new()];
        let mut letters = line.chars();
        while let Some(letter) = letters.next() {
            match letter {
                '\\' => fields.last_mut()?.extend(letters.next()),
                // The password may hold colons.
                ':' if fields.len() < 5 => fields.push(String::new()),
                letter => fields.last_mut()?.push(letter),
            }
        }
        let host = if self.host.starts_with('/') { "localhost" } else { &self.host };
        let own = [host, &self.port.to_string(), &self.database, &self.user];
        let alike = fields.iter().zip(own).all(|(field, own)| field == "*" || field == own);
        (alike && fields.len() == 5 && !line.starts_with('#')).then(|| fields.pop()).flatten()
    }
}

fn read_terms(text: &str) -> Result<BTreeMap<String, String>, String> {
    const KNOWN: [&str; 8] =
        ["host", "port", "user", "dbname", "sslmode", "sslrootcert", "passfile", "connect_timeout"];
    let mut terms = BTreeMap::new();
    for term in text.split('&').filter(|term| !term.is_empty()) {
        // What stands behind an unknown key may be anything, so that it is not shown.
        let (key, value) = term.split_once('=').ok_or("a term behind `?` is not KEY=VALUE")?;
        if !KNOWN.contains(&key) {
            let key: String = key.chars().take(40).flat_map(char::escape_debug).collect();
            return Err(format!("`{key}` is no term that is known here; these are {}", KNOWN.join(", ")));
        }
        terms.insert(key.to_owned(), unescaped(value));
    }
    Ok(terms)
}

/// TLS is spoken with every other machine, and who it is is always checked.
fn authorities(
    host: &str,
    terms: &BTreeMap<String, String>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<PathBuf>, &'static str> {
    let here =
        host.starts_with('/') || host == "localhost" || host.parse().is_ok_and(|host: IpAddr| host.is_loopback());
    match (terms.get("sslmode").map(String::as_str), here) {
        (None | Some("disable"), true) => return Ok(None),
        (Some("disable"), false) => {
            return Err("without TLS only a server on this machine is spoken to: leave out `sslmode`");
        }
        (Some("verify-full"), true) if host.starts_with('/') => return Err("TLS is not spoken over a socket"),
        (None, false) | (Some("verify-full"), _) => {}
        (Some(_), _) => return Err("`sslmode` can be `verify-full`, as it is by default, and nothing less"),
    }
    let stated = terms.get("sslrootcert").cloned().or_else(|| variable("PGSSLROOTCERT")).map(PathBuf::from);
    let known = || AUTHORITIES.iter().map(PathBuf::from).find(|file| file.is_file());
    stated.or_else(known).map(Some).ok_or("no certificates of authorities are known here: name a file as `sslrootcert`")
}
