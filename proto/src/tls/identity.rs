//! Who we are: our certificate and key, and the authorities that we trust.

use super::certificate::{CertificateFacts, date, quoted};
use super::verify::{OtherParty, Verdict};
use crate::files::TlsTerms;
use fedreg_common::exit::Exit;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use time::{Duration, OffsetDateTime};
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
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

/// One of our own files that cannot be used; every sentence names the file and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{role} {}{problem}", file.display())]
pub struct IdentityError {
    /// Which file.
    pub role: FileRole,
    /// Its path.
    pub file: PathBuf,
    /// What is wrong with it.
    pub problem: FileProblem,
}

/// What is wrong with a file; reads on from its path.
#[derive(Debug, thiserror::Error)]
pub enum FileProblem {
    /// It is not there.
    #[error(" does not exist: correct its path, or make it with `certs`")]
    Missing,
    /// It cannot be read; what the operating system said.
    #[error(" cannot be read ({0}): check its permissions")]
    Unreadable(std::io::Error),
    /// It holds something else.
    #[error(" holds {found}, expected {expected}: are two paths swapped?")]
    WrongContents {
        /// What should be in it.
        expected: &'static str,
        /// What is in it.
        found: String,
    },
    /// It is in another format than that of a block with this label.
    #[error(" is not PEM: expected text with a line '-----BEGIN {0}-----'; convert it with openssl")]
    NotPem(&'static str),
    /// The PEM blocks are there but damaged; what could not be read.
    #[error(" is damaged ({0}): copy it again from where it was made")]
    Damaged(String),
    /// The key needs a passphrase.
    #[error(
        " is protected by a passphrase, which is not supported: decrypt it with `openssl pkey -in FILE -out NEW` and \
         protect NEW by its permissions"
    )]
    Passphrase,
    /// The key is not the one of the certificate in this file.
    #[error(" does not belong to certificate file {}: give the pair that was made together", .0.display())]
    KeyMismatch(PathBuf),
    /// A certificate is too old.
    #[error(
        ": the certificate of '{subject}' expired on {}: issue it again, or correct this machine's clock, which says {}",
        date(*.not_after), date(*.now)
    )]
    Expired {
        /// Whose certificate.
        subject: String,
        /// End of its validity.
        not_after: OffsetDateTime,
        /// What our clock says.
        now: OffsetDateTime,
    },
    /// A certificate is too young.
    #[error(
        ": the certificate of '{subject}' is valid only from {}: check this machine's clock, which says {}",
        date(*.not_before), date(*.now)
    )]
    NotYetValid {
        /// Whose certificate.
        subject: String,
        /// Start of its validity.
        not_before: OffsetDateTime,
        /// What our clock says.
        now: OffsetDateTime,
    },
    /// An authority's own certificate is used as a party's.
    #[error(" holds an authority's certificate: a party needs one of its own (`certs issue`)")]
    AuthorityAsParty,
    /// The certificate of this party is used as an authority's.
    #[error(" holds the certificate of '{0}', which is no authority: give the file of the one that issued it")]
    PartyAsAuthority(String),
    /// The study knows us by another name.
    #[error(
        " is for {}, but the study calls this party '{expected}': use that party's certificate, or correct the name in \
         the study",
        quoted(found)
    )]
    WrongName {
        /// Our name in the study.
        expected: String,
        /// Names in the certificate.
        found: Vec<String>,
    },
    /// The TLS library refuses the file for a reason of its own.
    #[error(" cannot be used for TLS: {0}")]
    Unusable(String),
}

impl IdentityError {
    /// The exit code for a process that ends because of this.
    pub fn exit(&self) -> Exit {
        match matches!(self.problem, FileProblem::Missing | FileProblem::Unreadable(_)) {
            true => Exit::Usage,
            false => Exit::Refused,
        }
    }
}

/// One of our files, of which mistakes are told.
#[derive(Clone, Copy)]
struct OwnFile<'a> {
    role: FileRole,
    path: &'a Path,
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
    pub fn load(files: &TlsTerms) -> Result<Identity, IdentityError> {
        Identity::load_at(files, OffsetDateTime::now_utc())
    }

    /// As [`Identity::load`], for the time `now`.
    ///
    /// # Errors
    ///
    /// As [`Identity::load`].
    pub fn load_at(files: &TlsTerms, now: OffsetDateTime) -> Result<Identity, IdentityError> {
        let provider = Arc::new(ring::default_provider());

        let authority = OwnFile { role: FileRole::Authority, path: &files.authority };
        let mut roots = RootCertStore::empty();
        let mut authorities = Vec::new();
        for der in authority.certificates()? {
            let facts = authority.facts(&der)?;
            if !facts.authority {
                return Err(authority.wrong(FileProblem::PartyAsAuthority(facts.subject)));
            }
            // webpki does not look at the dates of a root.
            authority.in_date(&facts, now)?;
            roots.add(der).map_err(|error| authority.unusable(error))?;
            authorities.push(facts);
        }
        let roots = Arc::new(roots);

        let certificate = OwnFile { role: FileRole::Certificate, path: &files.certificate };
        let chain = certificate.certificates()?;
        let own = certificate.facts(chain.first().ok_or_else(|| certificate.not_pem())?)?;
        if own.authority {
            return Err(certificate.wrong(FileProblem::AuthorityAsParty));
        }
        certificate.in_date(&own, now)?;

        let key = OwnFile { role: FileRole::Key, path: &files.key };
        let certified = CertifiedKey::from_der(chain, key.private_key()?, &provider).map_err(|error| {
            match matches!(error, rustls::Error::InconsistentKeys(_)) {
                true => key.wrong(FileProblem::KeyMismatch(files.certificate.clone())),
                false => key.unusable("no RSA, ECDSA or Ed25519 key can be read from it"),
            }
        })?;

        let calling = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
            .build()
            .map_err(|error| authority.unusable(error))?;

        let mut warnings = Vec::new();
        warnings.extend(readable_by_others(&files.key));
        if !is_signed(&certified.cert, calling.as_ref(), now) {
            warnings.push(format!(
                "certificate file {} is signed by none of the authorities in {}: whoever trusts these alone will refuse it",
                files.certificate.display(),
                files.authority.display()
            ));
        }
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

    /// What works but should be put right: a key that others can read, a certificate of another authority, one about to expire.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Checks that our certificate carries the name by which the study knows us.
    ///
    /// # Errors
    ///
    /// An [`IdentityError`] with the names that it does carry.
    pub fn check_own_name(&self, expected: &str) -> Result<(), IdentityError> {
        if self.facts.carries(expected) {
            return Ok(());
        }
        let problem = FileProblem::WrongName { expected: expected.to_owned(), found: self.facts.names.clone() };
        Err(OwnFile { role: FileRole::Certificate, path: &self.certificate_file }.wrong(problem))
    }

    /// The check of the other side's certificate, which has to carry one of the names `expected`.
    fn check(&self, expected: &[String], verdict: &Verdict) -> Arc<OtherParty> {
        Arc::new(OtherParty {
            expected: expected.to_vec(),
            roots: Arc::clone(&self.roots),
            authorities: Arc::clone(&self.authorities),
            provider: Arc::clone(&self.provider),
            webpki: Arc::clone(&self.calling),
            verdict: verdict.clone(),
        })
    }

    /// TLS for one connection to the party `expected`.
    pub(crate) fn client(&self, expected: &str, verdict: &Verdict) -> Result<ClientConfig, rustls::Error> {
        let mut config = ClientConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(&[&TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(self.check(&[expected.to_owned()], verdict))
            .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(Arc::clone(&self.certified))));
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        config.resumption = Resumption::disabled();
        Ok(config)
    }

    /// TLS for one connection from any of the parties `expected`.
    pub(crate) fn server(&self, expected: &[String], verdict: &Verdict) -> Result<ServerConfig, rustls::Error> {
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(self.check(expected, verdict))
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(Arc::clone(&self.certified))));
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        // A resumed session would not show its certificate again.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(config)
    }
}

/// Whether a chain of certificates leads to one of the authorities of `trusted`.
fn is_signed(chain: &[CertificateDer<'_>], trusted: &dyn ClientCertVerifier, now: OffsetDateTime) -> bool {
    let since = u64::try_from(now.unix_timestamp()).unwrap_or(0);
    let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(since));
    chain.split_first().is_some_and(|(own, others)| trusted.verify_client_cert(own, others, now).is_ok())
}

impl OwnFile<'_> {
    fn wrong(self, problem: FileProblem) -> IdentityError {
        IdentityError { role: self.role, file: self.path.to_owned(), problem }
    }

    fn unusable(self, error: impl fmt::Display) -> IdentityError {
        self.wrong(FileProblem::Unusable(error.to_string()))
    }

    fn not_pem(self) -> IdentityError {
        self.wrong(FileProblem::NotPem(if self.role == FileRole::Key { "PRIVATE KEY" } else { "CERTIFICATE" }))
    }

    fn certificates(self) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
        let text = self.read()?;
        let found = CertificateDer::pem_slice_iter(&text)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| self.wrong(FileProblem::Damaged("its PEM block cannot be read".to_owned())))?;
        if found.is_empty() {
            return Err(self.wrong_contents(&text));
        }
        Ok(found)
    }

    fn private_key(self) -> Result<PrivateKeyDer<'static>, IdentityError> {
        let text = self.read()?;
        if labels(&text).iter().any(|label| label == "ENCRYPTED PRIVATE KEY")
            || String::from_utf8_lossy(&text).contains("Proc-Type: 4,ENCRYPTED")
        {
            return Err(self.wrong(FileProblem::Passphrase));
        }
        match PrivateKeyDer::pem_slice_iter(&text).next() {
            Some(Ok(key)) => Ok(key),
            // The parser's message could quote what it read.
            Some(Err(_)) => Err(self.wrong(FileProblem::Damaged("its PEM block cannot be read".to_owned()))),
            None => Err(self.wrong_contents(&text)),
        }
    }

    fn read(self) -> Result<Vec<u8>, IdentityError> {
        let mut text = Vec::new();
        let outcome = std::fs::File::open(self.path).and_then(|file| file.take(MAX_FILE_BYTES).read_to_end(&mut text));
        match outcome {
            Ok(_) => Ok(text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(self.wrong(FileProblem::Missing)),
            Err(error) => Err(self.wrong(FileProblem::Unreadable(error))),
        }
    }

    fn wrong_contents(self, text: &[u8]) -> IdentityError {
        let expected = if self.role == FileRole::Key { "a private key" } else { "a certificate" };
        let found = match labels(text).first().map(String::as_str) {
            None => return self.not_pem(),
            Some("CERTIFICATE") => "a certificate".to_owned(),
            Some("CERTIFICATE REQUEST" | "NEW CERTIFICATE REQUEST") => {
                "a request that still has to be signed".to_owned()
            }
            Some(label) if label.ends_with("PRIVATE KEY") => "a private key".to_owned(),
            Some(label) => format!("a PEM block '{}'", super::certificate::printable(label)),
        };
        self.wrong(match found == expected {
            true => FileProblem::Damaged("its PEM block has no end".to_owned()),
            false => FileProblem::WrongContents { expected, found },
        })
    }

    fn facts(self, der: &CertificateDer<'_>) -> Result<CertificateFacts, IdentityError> {
        CertificateFacts::parse(der).map_err(|error| self.wrong(FileProblem::Damaged(error.to_string())))
    }

    fn in_date(self, facts: &CertificateFacts, now: OffsetDateTime) -> Result<(), IdentityError> {
        let (subject, not_before, not_after) = (facts.subject.clone(), facts.not_before, facts.not_after);
        if now > not_after {
            return Err(self.wrong(FileProblem::Expired { subject, not_after, now }));
        }
        if now < not_before {
            return Err(self.wrong(FileProblem::NotYetValid { subject, not_before, now }));
        }
        Ok(())
    }
}

/// The labels of all PEM blocks in a file.
fn labels(text: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(text)
        .lines()
        .filter_map(|line| line.trim().strip_prefix("-----BEGIN ")?.strip_suffix("-----").map(str::to_owned))
        .collect()
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
