//! Making certificates: an authority, parties' keys and certificates, and requests whose key never leaves its host.

use crate::files::{FileError, read_text};
use crate::output::{self, OutputError};
use crate::tls::{CertificateFacts, InvalidName, check_name};
use fedreg_common::exit::Exit;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PublicKeyData, SanType, SerialNumber,
};
use sha2::{Digest, Sha256};
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use time::{Duration, OffsetDateTime};
use x509_parser::pem::Pem;

/// Clocks of institutions differ; a certificate is valid a little before it was made.
const BACKDATED: Duration = Duration::minutes(5);

/// Why a certificate could not be made, read or written.
#[derive(Debug, thiserror::Error)]
pub enum CertsError {
    /// A name cannot be one.
    #[error(transparent)]
    InvalidName(#[from] InvalidName),
    /// A validity of no days, or of more than a hundred years.
    #[error("a certificate cannot be valid for {0} days: expected 1 to 36500")]
    InvalidDays(u32),
    /// The file would be overwritten.
    #[error("{} exists already: choose another folder, or overwrite it with --force", .0.display())]
    Exists(PathBuf),
    /// A file cannot be read.
    #[error(transparent)]
    Read(#[from] FileError),
    /// A file cannot be written.
    #[error(transparent)]
    Write(#[from] OutputError),
    /// A file is not what it should be.
    #[error("{} is not {expected}: {detail}", file.display())]
    Unexpected {
        /// Its path.
        file: PathBuf,
        /// What it should be.
        expected: &'static str,
        /// What was found.
        detail: String,
    },
    /// The request is for somebody else.
    #[error("the request is for {found:?}, expected it to carry the name '{expected}'")]
    RequestForOther {
        /// The party that the signer meant.
        expected: String,
        /// Names in the request.
        found: Vec<String>,
    },
    /// The request asks for more names than the signer has granted.
    #[error("the request also asks for {0:?}: grant each with --also NAME if it belongs to that party")]
    NamesNotGranted(Vec<String>),
    /// The authority is out of date.
    #[error("the authority '{subject}' is not valid now: make a new one")]
    AuthorityOutOfDate {
        /// Its name.
        subject: String,
    },
    /// The certificate library refused.
    #[error("the certificate cannot be made: {0}")]
    Library(#[from] rcgen::Error),
}

impl CertsError {
    /// The exit code for a process that ends because of this.
    pub fn exit(&self) -> Exit {
        match self {
            CertsError::InvalidName(_) | CertsError::InvalidDays(_) | CertsError::Read(_) => Exit::Usage,
            CertsError::Exists(_) | CertsError::Write(_) => Exit::CannotWrite,
            CertsError::Library(_) => Exit::Internal,
            CertsError::Unexpected { .. }
            | CertsError::RequestForOther { .. }
            | CertsError::NamesNotGranted(_)
            | CertsError::AuthorityOutOfDate { .. } => Exit::Refused,
        }
    }
}

/// When a certificate is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// From when.
    pub from: OffsetDateTime,
    /// Until when.
    pub until: OffsetDateTime,
}

impl Validity {
    /// `days` from `now`, and a few minutes back for clocks that differ.
    ///
    /// # Errors
    ///
    /// [`CertsError::InvalidDays`] outside 1 to 36500.
    pub fn days(now: OffsetDateTime, days: u32) -> Result<Validity, CertsError> {
        let until = now.checked_add(Duration::days(i64::from(days)));
        match (days, until) {
            (1..=36500, Some(until)) => Ok(Validity { from: now.saturating_sub(BACKDATED), until }),
            _ => Err(CertsError::InvalidDays(days)),
        }
    }
}

/// Whom a certificate is for: the party's name, and the host names and IP addresses that it may be reached at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    name: String,
    also: Vec<String>,
}

impl Subject {
    /// A subject by its name in the study and its other names, which may be IP addresses.
    ///
    /// # Errors
    ///
    /// [`InvalidName`] for the first that cannot stand in a certificate.
    pub fn new(name: &str, also: &[String]) -> Result<Subject, InvalidName> {
        check_name(name)?;
        let mut others: Vec<String> = Vec::new();
        for other in also {
            if other.parse::<IpAddr>().is_err() {
                check_name(other)?;
            }
            if other != name && !others.contains(other) {
                others.push(other.clone());
            }
        }
        Ok(Subject { name: name.to_owned(), also: others })
    }

    fn params(&self) -> Result<CertificateParams, CertsError> {
        let mut names = vec![self.name.clone()];
        names.extend(self.also.iter().cloned());
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name = common_name(&self.name);
        Ok(params)
    }
}

/// A key and what belongs to it, as PEM text.
pub struct KeyAndPem {
    /// The private key.
    pub key: String,
    /// The certificate, or the request for one.
    pub pem: String,
}

// Never prints the key.
impl fmt::Debug for KeyAndPem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyAndPem").field("pem", &self.pem).finish_non_exhaustive()
    }
}

/// Somebody who issues certificates.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    facts: CertificateFacts,
}

impl Authority {
    /// Makes an authority called `name`: a key, and a certificate for everybody's authority file.
    ///
    /// # Errors
    ///
    /// [`CertsError::Library`] where no key can be made.
    pub fn create(name: &str, validity: Validity) -> Result<KeyAndPem, CertsError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = common_name(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        limit(&mut params, validity, &key.subject_public_key_info());
        let certificate = params.self_signed(&key)?;
        Ok(KeyAndPem { key: key.serialize_pem(), pem: certificate.pem() })
    }

    /// An authority from its two PEM texts; `files` are named in messages.
    ///
    /// # Errors
    ///
    /// [`CertsError::Unexpected`] where one is not what it should be, or the two do not belong together.
    pub fn from_pem(certificate: &str, key: &str, files: (&Path, &Path)) -> Result<Authority, CertsError> {
        let key = KeyPair::from_pem(key)
            .map_err(|_| unexpected(files.1, "an authority's key", "no private key found in it".to_owned()))?;
        let der = decode(certificate, files.0, "CERTIFICATE", "an authority's certificate")?;
        let bad = |detail: String| unexpected(files.0, "an authority's certificate", detail);
        let facts = CertificateFacts::parse(&der).map_err(|error| bad(error.to_string()))?;
        if !facts.authority {
            return Err(bad(format!("it is the certificate of the party '{}'", facts.subject)));
        }
        let (_, parsed) = x509_parser::parse_x509_certificate(&der).map_err(|error| bad(error.to_string()))?;
        if parsed.public_key().raw != key.subject_public_key_info() {
            return Err(unexpected(files.1, "the key of this authority", "key and certificate differ".to_owned()));
        }
        let issuer = Issuer::from_ca_cert_pem(certificate, key)?;
        Ok(Authority { issuer, facts })
    }

    /// Reads an authority from its two files.
    ///
    /// # Errors
    ///
    /// As [`Authority::from_pem`], and [`CertsError::Read`].
    pub fn load(certificate: &Path, key: &Path) -> Result<Authority, CertsError> {
        Authority::from_pem(&read_text(certificate)?, &read_text(key)?, (certificate, key))
    }

    /// What the authority's certificate says.
    pub fn facts(&self) -> &CertificateFacts {
        &self.facts
    }

    /// Makes a key and a certificate for a party, good for both sides of a connection.
    ///
    /// # Errors
    ///
    /// [`CertsError::AuthorityOutOfDate`], or a failure of the library.
    pub fn issue(&self, subject: &Subject, validity: Validity) -> Result<KeyAndPem, CertsError> {
        let key = KeyPair::generate()?;
        let mut params = subject.params()?;
        self.finish(&mut params, validity, &key.subject_public_key_info())?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(KeyAndPem { key: key.serialize_pem(), pem: certificate.pem() })
    }

    /// Signs a request, whose key stays where it was made, and returns the certificate as PEM.
    ///
    /// The request must be for `subject` and may ask for no name beyond those of `subject`: a party that slips another
    /// party's name into its request could otherwise pass for it. Everything else that a request may ask for, such as being
    /// an authority, is ignored.
    ///
    /// # Errors
    ///
    /// [`CertsError::RequestForOther`], [`CertsError::NamesNotGranted`], [`CertsError::Unexpected`] for a file that is not
    /// a request signed with its own key.
    pub fn sign(
        &self,
        request: &str,
        file: &Path,
        subject: &Subject,
        validity: Validity,
    ) -> Result<String, CertsError> {
        let expected = "a certificate request";
        let der = decode(request, file, "CERTIFICATE REQUEST", expected)?;
        let mut request = CertificateSigningRequestParams::from_der(&der.into()).map_err(|error| {
            let altered = matches!(error, rcgen::Error::InvalidCertificationRequestSignature);
            let sentence = || "it was altered after it was made: its signature is wrong".to_owned();
            unexpected(file, expected, if altered { sentence() } else { error.to_string() })
        })?;

        let mut asked = Vec::new();
        for name in &request.params.subject_alt_names {
            asked.push(if let SanType::DnsName(name) = name {
                name.as_str().to_owned()
            } else if let SanType::IpAddress(address) = name {
                address.to_string()
            } else {
                let detail = format!("it asks for a name of an unknown kind: {name:?}");
                return Err(unexpected(file, expected, detail));
            });
        }
        let (own, others): (Vec<_>, Vec<_>) =
            asked.iter().cloned().partition(|name| name.eq_ignore_ascii_case(&subject.name));
        if own.is_empty() {
            return Err(CertsError::RequestForOther { expected: subject.name.clone(), found: asked });
        }
        let not_granted = others
            .into_iter()
            .filter(|name| !subject.also.iter().any(|granted| granted.eq_ignore_ascii_case(name)))
            .collect::<Vec<_>>();
        if !not_granted.is_empty() {
            return Err(CertsError::NamesNotGranted(not_granted));
        }

        let mut params = subject.params()?;
        self.finish(&mut params, validity, &request.public_key.subject_public_key_info())?;
        request.params = params;
        Ok(request.signed_by(&self.issuer)?.pem())
    }

    /// What every party's certificate has in common.
    fn finish(&self, params: &mut CertificateParams, validity: Validity, key: &[u8]) -> Result<(), CertsError> {
        if validity.from >= self.facts.not_after {
            return Err(CertsError::AuthorityOutOfDate { subject: self.facts.subject.clone() });
        }
        // Nothing outlives its authority.
        let until = validity.until.min(self.facts.not_after);
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        limit(params, Validity { until, ..validity }, key);
        Ok(())
    }
}

/// Makes a key, and a request for an authority elsewhere. Only the request is sent to it.
///
/// # Errors
///
/// [`CertsError::Library`] where no key can be made.
pub fn request(subject: &Subject) -> Result<KeyAndPem, CertsError> {
    let key = KeyPair::generate()?;
    let request = subject.params()?.serialize_request(&key)?;
    Ok(KeyAndPem { key: key.serialize_pem(), pem: request.pem()? })
}

/// What every certificate in a PEM file says.
///
/// # Errors
///
/// [`CertsError::Read`], or [`CertsError::Unexpected`] where there is no certificate in it.
pub fn show(file: &Path) -> Result<Vec<CertificateFacts>, CertsError> {
    let unexpected = |detail: String| unexpected(file, "a certificate file", detail);
    let text = read_text(file)?;
    let mut all = Vec::new();
    let mut other = None;
    for block in Pem::iter_from_buffer(text.as_bytes()) {
        let block = block.map_err(|error| unexpected(error.to_string()))?;
        if block.label == "CERTIFICATE" {
            all.push(CertificateFacts::parse(&block.contents).map_err(|error| unexpected(error.to_string()))?);
        } else {
            other = Some(block.label);
        }
    }
    match (all.is_empty(), other) {
        (false, _) => Ok(all),
        (true, Some(label)) => Err(unexpected(format!("it holds a block '{label}'"))),
        (true, None) => Err(unexpected("no PEM block found".to_owned())),
    }
}

/// One file to write, and whether only its owner may read it.
#[derive(Clone, Copy)]
pub struct NewFile<'a> {
    /// Where it is written.
    pub path: &'a Path,
    /// What is written.
    pub contents: &'a str,
    /// Whether it is a secret.
    pub secret: bool,
}

/// Writes files that belong together, keys readable by their owner alone. Without `overwrite` none is written when one
/// exists. Missing folders are made.
///
/// # Errors
///
/// [`CertsError::Exists`] or [`CertsError::Write`].
pub fn write(files: &[NewFile<'_>], overwrite: bool) -> Result<(), CertsError> {
    if !overwrite && let Some(file) = files.iter().find(|file| file.path.symlink_metadata().is_ok()) {
        return Err(CertsError::Exists(file.path.to_owned()));
    }
    for file in files {
        if let Some(folder) = file.path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            output::make_folder(folder)?;
        }
        output::replace(file.path, file.contents.as_bytes(), file.secret).map_err(OutputError::at(file.path))?;
    }
    Ok(())
}

/// The first PEM block with this label.
fn decode(text: &str, file: &Path, label: &str, expected: &'static str) -> Result<Vec<u8>, CertsError> {
    let mut found = None;
    for block in Pem::iter_from_buffer(text.as_bytes()).flatten() {
        if block.label == label || block.label == format!("NEW {label}") {
            return Ok(block.contents);
        }
        found = Some(block.label);
    }
    let detail = match found {
        Some(label) => format!("it holds a block '{}'", crate::tls::printable(&label)),
        None => "no PEM block found".to_owned(),
    };
    Err(unexpected(file, expected, detail))
}

fn unexpected(file: &Path, expected: &'static str, detail: String) -> CertsError {
    CertsError::Unexpected { file: file.to_owned(), expected, detail }
}

fn common_name(name: &str) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, name);
    subject
}

fn limit(params: &mut CertificateParams, validity: Validity, key: &[u8]) {
    params.not_before = validity.from;
    params.not_after = validity.until;
    // The library numbers a certificate by its key alone; one that is issued again for the same key needs another number.
    let mut digest = Sha256::new();
    digest.update(key);
    digest.update(validity.from.unix_timestamp_nanos().to_be_bytes());
    digest.update(validity.until.unix_timestamp_nanos().to_be_bytes());
    let mut serial = digest.finalize()[..16].to_vec();
    // Positive, and of full length.
    serial[0] = serial[0] & 0x7f | 0x40;
    params.serial_number = Some(SerialNumber::from(serial));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> OffsetDateTime {
        OffsetDateTime::now_utc()
    }

    fn year() -> Validity {
        Validity::days(now(), 365).unwrap()
    }

    fn files() -> (&'static Path, &'static Path) {
        (Path::new("authority.pem"), Path::new("authority.key"))
    }

    fn authority() -> Authority {
        let made = Authority::create("test authority", year()).unwrap();
        Authority::from_pem(&made.pem, &made.key, files()).unwrap()
    }

    fn subject(name: &str, also: &[&str]) -> Subject {
        Subject::new(name, &also.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap()
    }

    fn facts(pem: &str) -> CertificateFacts {
        CertificateFacts::parse(&decode(pem, Path::new("x"), "CERTIFICATE", "a certificate").unwrap()).unwrap()
    }

    #[test]
    fn a_certificate_carries_every_name_and_address() {
        let issued =
            authority().issue(&subject("alice", &["alice.hospital.example", "10.1.2.3", "::1"]), year()).unwrap();
        let facts = facts(&issued.pem);
        assert_eq!(facts.names, ["alice", "alice.hospital.example"]);
        assert_eq!(facts.addresses, ["10.1.2.3".parse::<IpAddr>().unwrap(), "::1".parse().unwrap()]);
        assert_eq!((facts.subject.as_str(), facts.issuer.as_str()), ("alice", "test authority"));
        assert!(!facts.authority);
    }

    #[test]
    fn nothing_outlives_its_authority() {
        let authority = authority();
        let issued = authority.issue(&subject("alice", &[]), Validity::days(now(), 36_500).unwrap()).unwrap();
        assert_eq!(facts(&issued.pem).not_after, authority.facts().not_after);
    }

    #[test]
    fn a_request_is_signed_without_its_key() {
        let authority = authority();
        let request = request(&subject("alice", &["10.1.2.3"])).unwrap();
        let pem = authority.sign(&request.pem, Path::new("r"), &subject("alice", &["10.1.2.3"]), year()).unwrap();
        let facts = facts(&pem);
        assert_eq!(facts.names, ["alice"]);
        assert_eq!(facts.addresses.len(), 1);
        assert!(!request.pem.contains("PRIVATE KEY"));
    }

    #[test]
    fn a_request_cannot_slip_in_the_name_of_another_party() {
        let request = request(&subject("alice", &["bob", "10.1.2.3"])).unwrap();
        let refused = authority().sign(&request.pem, Path::new("r"), &subject("alice", &["10.1.2.3"]), year());
        match refused {
            Err(CertsError::NamesNotGranted(names)) => assert_eq!(names, ["bob"]),
            other => panic!("{other:?}"),
        }
        let refused = authority().sign(&request.pem, Path::new("r"), &subject("carol", &[]), year());
        assert!(matches!(refused, Err(CertsError::RequestForOther { .. })));
    }

    #[test]
    fn a_request_cannot_make_its_bearer_an_authority() {
        let key = KeyPair::generate().unwrap();
        let mut params = subject("alice", &[]).params().unwrap();
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::CodeSigning];
        let request = params.serialize_request(&key).unwrap().pem().unwrap();
        let pem = authority().sign(&request, Path::new("r"), &subject("alice", &[]), year()).unwrap();
        let der = decode(&pem, Path::new("x"), "CERTIFICATE", "a certificate").unwrap();
        let (_, certificate) = x509_parser::parse_x509_certificate(&der).unwrap();
        assert!(!certificate.is_ca());
        let usage = certificate.key_usage().unwrap().unwrap().value;
        assert!(usage.digital_signature() && !usage.key_cert_sign());
        let extended = certificate.extended_key_usage().unwrap().unwrap().value;
        assert!(extended.client_auth && extended.server_auth && !extended.code_signing);
    }

    #[test]
    fn a_request_that_was_altered_is_refused() {
        let request = request(&subject("alice", &[])).unwrap();
        let mut der = decode(&request.pem, Path::new("r"), "CERTIFICATE REQUEST", "a request").unwrap();
        let at = der.windows(5).position(|window| window == b"alice").unwrap();
        der[at..at + 5].copy_from_slice(b"mabel");
        let altered = request_pem(&der);
        let refused = authority().sign(&altered, Path::new("r"), &subject("alice", &[]), year()).unwrap_err();
        assert!(refused.to_string().contains("its signature is wrong"), "{refused}");
    }

    fn request_pem(der: &[u8]) -> String {
        const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut text = "-----BEGIN CERTIFICATE REQUEST-----\n".to_owned();
        for (line, group) in der.chunks(48).enumerate() {
            text.push_str(if line > 0 { "\n" } else { "" });
            for three in group.chunks(3) {
                let bits =
                    three.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
                for digit in 0..4 {
                    let index = (bits >> (18 - 6 * digit)) as usize & 63;
                    text.push(if digit <= three.len() { DIGITS[index] as char } else { '=' });
                }
            }
        }
        text + "\n-----END CERTIFICATE REQUEST-----\n"
    }

    #[test]
    fn certificates_issued_again_for_one_key_have_numbers_of_their_own() {
        let authority = authority();
        let request = request(&subject("alice", &[])).unwrap();
        let serial = |days| {
            let validity = Validity::days(now(), days).unwrap();
            let pem = authority.sign(&request.pem, Path::new("r"), &subject("alice", &[]), validity).unwrap();
            let der = decode(&pem, Path::new("x"), "CERTIFICATE", "a certificate").unwrap();
            x509_parser::parse_x509_certificate(&der).unwrap().1.raw_serial().to_vec()
        };
        assert_ne!(serial(10), serial(20));
    }

    #[test]
    fn an_authority_needs_its_own_key() {
        let (one, other) = (Authority::create("a", year()).unwrap(), Authority::create("a", year()).unwrap());
        let refused = Authority::from_pem(&one.pem, &other.key, files()).unwrap_err();
        assert!(refused.to_string().contains("key and certificate differ"), "{refused}");
        let party = authority().issue(&subject("alice", &[]), year()).unwrap();
        let refused = Authority::from_pem(&party.pem, &party.key, files()).unwrap_err();
        assert!(refused.to_string().contains("the certificate of the party 'alice'"), "{refused}");
        let swapped = Authority::from_pem(&one.key, &one.key, files()).unwrap_err();
        assert!(swapped.to_string().contains("it holds a block 'PRIVATE KEY'"), "{swapped}");
    }

    #[test]
    fn days_and_names_are_checked() {
        assert!(Validity::days(now(), 0).is_err());
        assert!(Validity::days(now(), 36_501).is_err());
        assert!(Subject::new("al ice", &[]).is_err());
        assert!(Subject::new("alice", &["*.example".to_owned()]).is_err());
    }

    #[test]
    fn keys_are_for_their_owner_and_nothing_is_overwritten_unasked() {
        let folder = tempfile::tempdir().unwrap();
        let (key, pem) = (folder.path().join("new/alice.key"), folder.path().join("new/alice.pem"));
        let files = |contents| {
            [NewFile { path: &pem, contents, secret: false }, NewFile { path: &key, contents, secret: true }]
        };
        write(&files("one"), false).unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
        }
        std::fs::remove_file(&pem).unwrap();
        assert!(matches!(write(&files("two"), false), Err(CertsError::Exists(path)) if path == key));
        assert!(!pem.exists(), "no half of a pair is written");
        assert_eq!(std::fs::read_to_string(&key).unwrap(), "one");
        write(&files("three"), true).unwrap();
        assert_eq!(std::fs::read_to_string(&key).unwrap(), "three");
        assert_eq!(std::fs::read_dir(folder.path().join("new")).unwrap().count(), 2);
    }

    #[test]
    fn a_key_is_never_printed_by_debug() {
        let made = Authority::create("a", year()).unwrap();
        assert!(!format!("{made:?}").contains("PRIVATE"));
    }
}
