//! The subcommand `certs`, the same in every binary.

use crate::certs::{self, Authority, CertsError, KeyAndPem, NewFile, Subject, Validity};
use crate::files::read_text;
use crate::output::OutputError;
use crate::tls::{CertificateFacts, date, quoted};
use clap::{Args, Subcommand};
use std::io::Write;
use std::path::{Path, PathBuf};
use time::OffsetDateTime;

/// Makes, signs and shows certificates.
#[derive(Debug, Clone, Args)]
pub struct CertsCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Clone, Subcommand)]
enum Action {
    /// Make an authority: authority.pem for everybody, authority.key for its holder alone
    Authority {
        /// Name of the authority in every certificate
        #[arg(long, default_value = "fedreg authority")]
        name: String,
        /// Days of validity
        #[arg(long, default_value_t = 3650)]
        days: u32,
        #[command(flatten)]
        out: Out,
    },
    /// Make a key and a certificate for a party: NAME.pem and NAME.key
    Issue {
        #[command(flatten)]
        authority: AuthorityFiles,
        #[command(flatten)]
        party: Party,
        /// Days of validity
        #[arg(long, default_value_t = 825)]
        days: u32,
        #[command(flatten)]
        out: Out,
    },
    /// Make a key and a request for an authority elsewhere: NAME.key stays here, NAME.csr is sent
    Request {
        #[command(flatten)]
        party: Party,
        #[command(flatten)]
        out: Out,
    },
    /// Sign a request that came from elsewhere: NAME.pem, to be sent back
    Sign {
        #[command(flatten)]
        authority: AuthorityFiles,
        /// The request
        #[arg(long, value_name = "FILE")]
        request: PathBuf,
        #[command(flatten)]
        party: Party,
        /// Days of validity
        #[arg(long, default_value_t = 825)]
        days: u32,
        #[command(flatten)]
        out: Out,
    },
    /// Show what certificate files say
    Show {
        /// Certificate files
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
}

#[derive(Debug, Clone, Args)]
struct Out {
    /// Folder to write to
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// Overwrite files that exist
    ///
    /// A new authority under an old name makes every certificate of the old one worthless.
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Clone, Args)]
struct Party {
    /// Name of the party in the study
    #[arg(long)]
    name: String,
    /// Further host names and IP addresses of the party, comma-separated
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    also: Vec<String>,
}

#[derive(Debug, Clone, Args)]
struct AuthorityFiles {
    /// Folder with authority.pem and authority.key
    #[arg(long, value_name = "DIR", default_value = ".")]
    authority: PathBuf,
}

impl Out {
    /// Where a file goes; not `with_extension`, which would eat the last label of a name with dots.
    fn place(&self, name: &str, extension: &str) -> PathBuf {
        self.out.join(format!("{name}.{extension}"))
    }

    /// Writes a certificate, or a request for one, and its key; gives their places.
    fn pair(&self, name: &str, extension: &str, made: &KeyAndPem) -> Result<[String; 2], CertsError> {
        let places = [self.place(name, extension), self.place(name, "key")];
        let [pem, key] = &places;
        let pem = NewFile { path: pem, contents: &made.pem, secret: false };
        certs::write(&[pem, NewFile { path: key, contents: &made.key, secret: true }], self.force)?;
        Ok(places.map(|place| place.display().to_string()))
    }
}

impl AuthorityFiles {
    fn load(&self) -> Result<Authority, CertsError> {
        Authority::load(&self.authority.join("authority.pem"), &self.authority.join("authority.key"))
    }
}

impl Party {
    fn subject(&self) -> Result<Subject, CertsError> {
        Ok(Subject::new(&self.name, &self.also)?)
    }
}

/// Runs `certs`; what was done goes to `out`.
///
/// # Errors
///
/// [`CertsError`], whose `exit` is the exit code.
pub fn run(command: &CertsCommand, out: &mut impl Write) -> Result<(), CertsError> {
    let now = OffsetDateTime::now_utc();
    let lines = match &command.action {
        Action::Authority { name, days, out } => {
            let made = Authority::create(name, Validity::days(now, *days)?)?;
            let [pem, key] = out.pair("authority", "pem", &made)?;
            vec![
                format!("wrote {pem}: give it to every party"),
                format!("wrote {key}: keep it where certificates are issued, and nowhere else"),
            ]
        }
        Action::Issue { authority, party, days, out } => {
            let made = authority.load()?.issue(&party.subject()?, Validity::days(now, *days)?)?;
            let [pem, key] = out.pair(&party.name, "pem", &made)?;
            vec![format!("wrote {pem}"), format!("wrote {key}: only {} may have it", party.name)]
        }
        Action::Request { party, out } => {
            let [csr, key] = out.pair(&party.name, "csr", &certs::request(&party.subject()?)?)?;
            vec![
                format!("wrote {csr}: send it to the authority, and get {}.pem back", party.name),
                format!("wrote {key}: it stays on this machine"),
            ]
        }
        Action::Sign { authority, request, party, days, out } => {
            let text = read_text(request)?;
            let contents = &authority.load()?.sign(&text, request, &party.subject()?, Validity::days(now, *days)?)?;
            let path = &out.place(&party.name, "pem");
            certs::write(&[NewFile { path, contents, secret: false }], out.force)?;
            vec![format!("wrote {}: send it back to {}, with authority.pem", path.display(), party.name)]
        }
        Action::Show { files } => {
            let mut lines = Vec::new();
            for file in files {
                for facts in certs::show(file)? {
                    lines.push(describe(file, &facts, now));
                }
            }
            lines
        }
    };
    for line in lines {
        writeln!(out, "{line}").map_err(OutputError::at(Path::new("standard output")))?;
    }
    Ok(())
}

fn describe(file: &Path, facts: &CertificateFacts, now: OffsetDateTime) -> String {
    let state = if now > facts.not_after {
        ", EXPIRED"
    } else if now < facts.not_before {
        ", NOT YET VALID"
    } else {
        ""
    };
    let addresses = facts.addresses.iter().map(ToString::to_string).collect::<Vec<_>>();
    let mut text =
        format!("{}: {} '{}'\n", file.display(), if facts.authority { "authority" } else { "party" }, facts.subject);
    if !facts.authority {
        text += &format!("  issued by  '{}'\n  names      {}\n", facts.issuer, quoted(&facts.names));
    }
    if !addresses.is_empty() {
        text += &format!("  addresses  {}\n", addresses.join(", "));
    }
    text += &format!("  valid      {} to {}{state}\n", date(facts.not_before), date(facts.not_after));
    text += &format!("  sha256     {}", facts.fingerprint);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        certs: CertsCommand,
    }

    fn certs(folder: &Path, line: &str) -> Result<String, CertsError> {
        let words = std::iter::once("certs".to_owned())
            .chain(line.split(' ').map(|word| word.replace('@', &folder.display().to_string())));
        let mut out = Vec::new();
        run(&Program::try_parse_from(words).unwrap().certs, &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn an_authority_issues_and_signs_and_shows() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        certs(at, "authority --out @/ca").unwrap();
        certs(at, "issue --authority @/ca --name alice.hospital.example --also 10.0.0.1,localhost --out @/alice")
            .unwrap();
        certs(at, "request --name bob --out @/bob").unwrap();
        let signed = certs(at, "sign --authority @/ca --request @/bob/bob.csr --name bob --out @/bob").unwrap();
        assert!(signed.contains("send it back to bob"), "{signed}");
        let shown = certs(at, "show @/alice/alice.hospital.example.pem @/bob/bob.pem @/ca/authority.pem").unwrap();
        assert!(shown.contains("names      'alice.hospital.example', 'localhost'"), "{shown}");
        assert!(shown.contains("addresses  10.0.0.1") && shown.contains("party 'bob'"), "{shown}");
        assert!(shown.contains("authority 'fedreg authority'"), "{shown}");
    }

    #[test]
    fn an_authority_is_not_replaced_by_accident() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        certs(at, "authority --out @").unwrap();
        let before = std::fs::read_to_string(at.join("authority.key")).unwrap();
        let refused = certs(at, "authority --out @").unwrap_err();
        assert!(refused.to_string().contains("exists already"), "{refused}");
        assert_eq!(refused.exit().code(), 73);
        assert_eq!(std::fs::read_to_string(at.join("authority.key")).unwrap(), before);
        certs(at, "authority --out @ --force").unwrap();
        assert_ne!(std::fs::read_to_string(at.join("authority.key")).unwrap(), before);
    }

    #[test]
    fn showing_something_else_says_what_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        certs(at, "authority --out @").unwrap();
        let refused = certs(at, "show @/authority.key").unwrap_err();
        assert!(refused.to_string().contains("it holds a block 'PRIVATE KEY'"), "{refused}");
        assert_eq!(certs(at, "show @/nothing.pem").unwrap_err().exit().code(), 2);
    }
}
