//! Who we are: our certificate and key, and the authorities that we trust.

use super::certificate::{CertificateFacts, date, quoted};
use super::verify::{CallingParty, DialledParty, Verdict};
use fedreg_common::exit::Exit;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use time::{Duration, OffsetDateTime};
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore, ServerConfig};

/// HTTP/2 as TLS names it.
const PROTOCOL: &[u8] = b"h2";
/// No certificate file is larger.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// From here on the log reminds of the end of our certificate.
const REMINDER: Duration = Duration::days(14);

/// Where the three PEM files of a party are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificates of the authorities that we trust, one or more.
    pub authority: PathBuf,
    /// Our certificate, followed by its intermediates if there are any.
    pub certificate: PathBuf,
    /// The private key of our certificate.
    pub key: PathBuf,
}

/// Which of the three files a message is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileRole {
    /// Certificates of authorities.
    Authority,
    /// Our certificate.
    Certificate,
    /// Our private key.
    Key,
}

impl fmt::Display for FileRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FileRole::Authority => "authority file",
            FileRole::Certificate => "certificate file",
            FileRole::Key => "key file",
        })
    }
}

/// What is wrong with our own files; every sentence names the file and what to do.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The file is not there.
    #[error("{role} {} does not exist: correct its path, or make it with `certs`", file.display())]
    Missing {
        /// Which file.
        role: FileRole,
        /// Its path.
        file: PathBuf,
    },
    /// The file cannot be read.
    #[error("{role} {} cannot be read ({source}): check its permissions", file.display())]
    Unreadable {
        /// Which file.
        role: FileRole,
        /// Its path.
        file: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The file holds something else.
    #[error("{role} {} holds {found}, expected {expected}: are two paths swapped?", file.display())]
    WrongContents {
        /// Which file.
        role: FileRole,
        /// Its path.
        file: PathBuf,
        /// What should be in it.
        expected: &'static str,
        /// What is in it.
        found: String,
    },
    /// The file is in another format.
    #[error("{role} {} is not PEM: expected text with a line '-----BEGIN {label}-----'; convert it with openssl", file.display())]
    NotPem {
        /// Which file.
        role: FileRole,
        /// Its path.
        file: PathBuf,
        /// The label of the block that should be in it.
        label: &'static str,
    },
    /// The PEM blocks are there but damaged.
    #[error("{role} {} is damaged ({detail}): copy it again from where it was made", file.display())]
    Damaged {
        /// Which file.
        role: FileRole,
        /// Its path.
        file: PathBuf,
        /// What could not be read.
        detail: String,
    },
    /// The key needs a passphrase.
    #[error(
        "key file {} is protected by a passphrase, which is not supported: decrypt it with `openssl pkey -in FILE -out \
         NEW` and protect NEW by its permissions", file.display()
    )]
    Passphrase {
        /// Its path.
        file: PathBuf,
    },
    /// Key and certificate are not a pair.
    #[error("key file {} does not belong to certificate file {}: give the pair that was made together", key.display(), certificate.display())]
    KeyMismatch {
        /// Path of the key.
        key: PathBuf,
        /// Path of the certificate.
        certificate: PathBuf,
    },
    /// A certificate is too old.
    #[error("{role} {}: the certificate of '{subject}' expired on {}: issue it again", file.display(), date(*.not_after))]
    Expired {
        /// Which file.
        role: FileRole,
        /// Its path.
        file: PathBuf,
        /// Whose certificate.
        subject: String,
        /// End of its validity.
        not_after: OffsetDateTime,
    },
    /// A certificate is too young.
    #[error(
        "{role} {}: the certificate of '{subject}' is valid only from {}: check this machine's clock, which says {}",
        file.display(), date(*.not_before), date(*.now)
    )]
    NotYetValid {
        /// Which file.
        role: FileRole,
        /// Its path.
        file: PathBuf,
        /// Whose certificate.
        subject: String,
        /// Start of its validity.
        not_before: OffsetDateTime,
        /// What our clock says.
        now: OffsetDateTime,
    },
    /// An authority's own certificate is used as a party's.
    #[error("certificate file {} holds an authority's certificate: a party needs one of its own (`certs issue`)", file.display())]
    AuthorityAsParty {
        /// Its path.
        file: PathBuf,
    },
    /// A party's certificate is used as an authority's.
    #[error("authority file {} holds the certificate of '{subject}', which is no authority: give the file of the one that issued it", file.display())]
    PartyAsAuthority {
        /// Its path.
        file: PathBuf,
        /// Whose certificate.
        subject: String,
    },
    /// The study knows us by another name.
    #[error(
        "certificate file {} is for {}, but the study calls this party '{expected}': use that party's certificate, or \
         correct the name in the study", file.display(), quoted(found)
    )]
    WrongName {
        /// Its path.
        file: PathBuf,
        /// Our name in the study.
        expected: String,
        /// Names in the certificate.
        found: Vec<String>,
    },
    /// The TLS library refuses the files for a reason of its own.
    #[error("{role} {} cannot be used for TLS: {detail}", file.display())]
    Unusable {
        /// Which file.
        role: FileRole,
        /// Its path.
        file: PathBuf,
        /// What the library said.
        detail: String,
    },
}

impl IdentityError {
    /// The exit code for a process that ends because of this.
    pub fn exit(&self) -> Exit {
        match self {
            IdentityError::Missing { .. } | IdentityError::Unreadable { .. } => Exit::Usage,
            IdentityError::WrongContents { .. }
            | IdentityError::NotPem { .. }
            | IdentityError::Damaged { .. }
            | IdentityError::Passphrase { .. }
            | IdentityError::KeyMismatch { .. }
            | IdentityError::Expired { .. }
            | IdentityError::NotYetValid { .. }
            | IdentityError::AuthorityAsParty { .. }
            | IdentityError::PartyAsAuthority { .. }
            | IdentityError::WrongName { .. }
            | IdentityError::Unusable { .. } => Exit::Refused,
        }
    }
}

/// Our certificate and key with the authorities that we trust, checked and ready for connections. Cheap to clone.
#[derive(Clone)]
pub struct Identity {
    certificate_file: PathBuf,
    certified: Arc<CertifiedKey>,
    facts: CertificateFacts,
    authorities: Arc<[CertificateFacts]>,
    roots: Arc<RootCertStore>,
    calling: Arc<dyn ClientCertVerifier>,
    provider: Arc<CryptoProvider>,
    warnings: Vec<String>,
}

// Written by hand so that no change of the fields can ever print the key.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("facts", &self.facts).finish_non_exhaustive()
    }
}

impl Identity {
    /// Reads and checks the three files as of now.
    ///
    /// # Errors
    ///
    /// The first [`IdentityError`] found, in the order authority, certificate, key.
    pub fn load(files: &TlsFiles) -> Result<Identity, IdentityError> {
        Identity::load_at(files, OffsetDateTime::now_utc())
    }

    /// As [`Identity::load`], for the time `now`.
    ///
    /// # Errors
    ///
    /// As [`Identity::load`].
    pub fn load_at(files: &TlsFiles, now: OffsetDateTime) -> Result<Identity, IdentityError> {
        let provider = Arc::new(ring::default_provider());

        let mut roots = RootCertStore::empty();
        let mut authorities = Vec::new();
        for der in certificates(FileRole::Authority, &files.authority)? {
            let facts = facts(FileRole::Authority, &files.authority, &der)?;
            if !facts.authority {
                return Err(IdentityError::PartyAsAuthority { file: files.authority.clone(), subject: facts.subject });
            }
            // webpki does not look at the dates of a root.
            in_date(FileRole::Authority, &files.authority, &facts, now)?;
            roots.add(der).map_err(|error| unusable(FileRole::Authority, &files.authority, &error))?;
            authorities.push(facts);
        }
        let roots = Arc::new(roots);

        let chain = certificates(FileRole::Certificate, &files.certificate)?;
        let own = match chain.first() {
            Some(der) => facts(FileRole::Certificate, &files.certificate, der)?,
            None => return Err(not_pem(FileRole::Certificate, &files.certificate)),
        };
        if own.authority {
            return Err(IdentityError::AuthorityAsParty { file: files.certificate.clone() });
        }
        in_date(FileRole::Certificate, &files.certificate, &own, now)?;

        let key = private_key(&files.key)?;
        let certified = CertifiedKey::from_der(chain, key, &provider).map_err(|error| {
            if matches!(error, rustls::Error::InconsistentKeys(_)) {
                return IdentityError::KeyMismatch { key: files.key.clone(), certificate: files.certificate.clone() };
            }
            unusable(FileRole::Key, &files.key, &error)
        })?;

        let calling = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
            .build()
            .map_err(|error| IdentityError::Unusable {
                role: FileRole::Authority,
                file: files.authority.clone(),
                detail: error.to_string(),
            })?;

        let mut warnings = Vec::new();
        warnings.extend(readable_by_others(&files.key));
        if own.not_after - now < REMINDER {
            warnings.push(format!(
                "certificate file {} expires on {}: issue it again soon",
                files.certificate.display(),
                date(own.not_after)
            ));
        }
        Ok(Identity {
            certificate_file: files.certificate.clone(),
            certified: Arc::new(certified),
            facts: own,
            authorities: authorities.into(),
            roots,
            calling,
            provider,
            warnings,
        })
    }

    /// What our certificate says.
    pub fn facts(&self) -> &CertificateFacts {
        &self.facts
    }

    /// The authorities that we trust.
    pub fn authorities(&self) -> &[CertificateFacts] {
        &self.authorities
    }

    /// What works but should be put right: a key that others can read, a certificate about to expire.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Checks that our certificate carries the name by which the study knows us.
    ///
    /// # Errors
    ///
    /// [`IdentityError::WrongName`] with the names that it does carry.
    pub fn check_own_name(&self, expected: &str) -> Result<(), IdentityError> {
        if self.facts.carries(expected) {
            return Ok(());
        }
        Err(IdentityError::WrongName {
            file: self.certificate_file.clone(),
            expected: expected.to_owned(),
            found: self.facts.names.clone(),
        })
    }

    /// TLS for one connection to the party `expected`.
    pub(crate) fn client(&self, expected: &str, verdict: &Verdict) -> Result<ClientConfig, rustls::Error> {
        let verifier = DialledParty {
            expected: vec![expected.to_owned()],
            roots: Arc::clone(&self.roots),
            authorities: Arc::clone(&self.authorities),
            provider: Arc::clone(&self.provider),
            verdict: verdict.clone(),
        };
        let mut config = ClientConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(&[&TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(Arc::clone(&self.certified))));
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        config.resumption = Resumption::disabled();
        Ok(config)
    }

    /// TLS for one connection from any of the parties `expected`.
    pub(crate) fn server(&self, expected: &[String], verdict: &Verdict) -> Result<ServerConfig, rustls::Error> {
        let verifier = CallingParty {
            expected: expected.to_vec(),
            authorities: Arc::clone(&self.authorities),
            webpki: Arc::clone(&self.calling),
            verdict: verdict.clone(),
        };
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(Arc::new(verifier))
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(Arc::clone(&self.certified))));
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        // A resumed session would not show its certificate again.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(config)
    }
}

fn certificates(role: FileRole, file: &Path) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    let text = read(role, file)?;
    let found = CertificateDer::pem_slice_iter(&text)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| IdentityError::Damaged { role, file: file.to_owned(), detail: error.to_string() })?;
    if found.is_empty() {
        return Err(wrong_contents(role, file, &text));
    }
    Ok(found)
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, IdentityError> {
    let role = FileRole::Key;
    let text = read(role, file)?;
    if labels(&text).iter().any(|label| label == "ENCRYPTED PRIVATE KEY")
        || String::from_utf8_lossy(&text).contains("Proc-Type: 4,ENCRYPTED")
    {
        return Err(IdentityError::Passphrase { file: file.to_owned() });
    }
    match PrivateKeyDer::pem_slice_iter(&text).next() {
        Some(Ok(key)) => Ok(key),
        // The parser's message could quote what it read.
        Some(Err(_)) => {
            Err(IdentityError::Damaged { role, file: file.to_owned(), detail: "its PEM block cannot be read".into() })
        }
        None => Err(wrong_contents(role, file, &text)),
    }
}

fn read(role: FileRole, file: &Path) -> Result<Vec<u8>, IdentityError> {
    let mut text = Vec::new();
    let outcome = std::fs::File::open(file).and_then(|handle| handle.take(MAX_FILE_BYTES).read_to_end(&mut text));
    match outcome {
        Ok(_) => Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(IdentityError::Missing { role, file: file.to_owned() })
        }
        Err(source) => Err(IdentityError::Unreadable { role, file: file.to_owned(), source }),
    }
}

/// The labels of all PEM blocks in a file.
fn labels(text: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(text)
        .lines()
        .filter_map(|line| line.trim().strip_prefix("-----BEGIN ")?.strip_suffix("-----").map(str::to_owned))
        .collect()
}

fn wrong_contents(role: FileRole, file: &Path, text: &[u8]) -> IdentityError {
    let expected = if role == FileRole::Key { "a private key" } else { "a certificate" };
    let found = match labels(text).first().map(String::as_str) {
        None => return not_pem(role, file),
        Some("CERTIFICATE") => "a certificate".to_owned(),
        Some("CERTIFICATE REQUEST" | "NEW CERTIFICATE REQUEST") => "a request that still has to be signed".to_owned(),
        Some(label) if label.ends_with("PRIVATE KEY") => "a private key".to_owned(),
        Some(label) => format!("a PEM block '{}'", super::certificate::printable(label)),
    };
    if found == expected {
        return IdentityError::Damaged { role, file: file.to_owned(), detail: "its PEM block has no end".to_owned() };
    }
    IdentityError::WrongContents { role, file: file.to_owned(), expected, found }
}

fn not_pem(role: FileRole, file: &Path) -> IdentityError {
    let label = if role == FileRole::Key { "PRIVATE KEY" } else { "CERTIFICATE" };
    IdentityError::NotPem { role, file: file.to_owned(), label }
}

fn facts(role: FileRole, file: &Path, der: &CertificateDer<'_>) -> Result<CertificateFacts, IdentityError> {
    CertificateFacts::parse(der).map_err(|error| IdentityError::Damaged {
        role,
        file: file.to_owned(),
        detail: error.to_string(),
    })
}

fn unusable(role: FileRole, file: &Path, error: &rustls::Error) -> IdentityError {
    IdentityError::Unusable { role, file: file.to_owned(), detail: error.to_string() }
}

fn in_date(role: FileRole, file: &Path, facts: &CertificateFacts, now: OffsetDateTime) -> Result<(), IdentityError> {
    let (file, subject) = (file.to_owned(), facts.subject.clone());
    if now > facts.not_after {
        return Err(IdentityError::Expired { role, file, subject, not_after: facts.not_after });
    }
    if now < facts.not_before {
        return Err(IdentityError::NotYetValid { role, file, subject, not_before: facts.not_before, now });
    }
    Ok(())
}

#[cfg(unix)]
fn readable_by_others(key: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let mode = std::fs::metadata(key).ok()?.mode();
    (mode & 0o077 != 0).then(|| {
        format!(
            "key file {} can be read by other users of this machine (mode {:03o}): run `chmod 600` on it",
            key.display(),
            mode & 0o777
        )
    })
}

#[cfg(not(unix))]
fn readable_by_others(_key: &Path) -> Option<String> {
    None
}
