//! What a certificate says, in words for people.

use fedreg_common::id::Digest;
use fedreg_common::names::is_hidden;
use std::fmt::Write;
use std::net::IpAddr;
use time::OffsetDateTime;
use time::macros::format_description;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// The facts of one certificate that people compare: whose, from whom, until when.
///
/// Text from the certificate is made safe to print: control characters are replaced and long text is cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFacts {
    /// Common name of the subject, or its whole distinguished name where there is none.
    pub subject: String,
    /// Common name of the issuer, or its whole distinguished name where there is none.
    pub issuer: String,
    /// DNS names that the certificate is for; the common name where there are none.
    pub names: Vec<String>,
    /// IP addresses that the certificate is for.
    pub addresses: Vec<IpAddr>,
    /// Start of validity.
    pub not_before: OffsetDateTime,
    /// End of validity.
    pub not_after: OffsetDateTime,
    /// SHA-256 of the whole certificate, in hexadecimal.
    pub fingerprint: String,
    /// Whether it may issue other certificates.
    pub authority: bool,
}

/// Bytes that should have been an X.509 certificate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an X.509 certificate: {0}")]
pub struct NotACertificate(String);

impl CertificateFacts {
    /// Reads the facts of a certificate in DER.
    ///
    /// # Errors
    ///
    /// [`NotACertificate`] with the first thing that could not be read.
    pub fn parse(der: &[u8]) -> Result<CertificateFacts, NotACertificate> {
        let (_, certificate) = X509Certificate::from_der(der).map_err(|error| NotACertificate(error.to_string()))?;
        let mut names = Vec::new();
        let mut addresses = Vec::new();
        let extension = certificate.subject_alternative_name().map_err(|error| NotACertificate(error.to_string()))?;
        for name in extension.iter().flat_map(|extension| &extension.value.general_names) {
            if let GeneralName::DNSName(name) = name {
                names.push(printable(name));
            } else if let GeneralName::IPAddress(bytes) = name {
                addresses.extend(ip_address(bytes));
            }
        }
        let common_name = |name: &x509_parser::x509::X509Name<'_>| {
            name.iter_common_name().next().and_then(|attribute| attribute.as_str().ok()).map(printable)
        };
        let subject = common_name(certificate.subject());
        if names.is_empty() {
            names.extend(subject.clone());
        }
        Ok(CertificateFacts {
            subject: subject.unwrap_or_else(|| printable(&certificate.subject().to_string())),
            issuer: common_name(certificate.issuer()).unwrap_or_else(|| printable(&certificate.issuer().to_string())),
            names,
            addresses,
            not_before: certificate.validity().not_before.to_datetime(),
            not_after: certificate.validity().not_after.to_datetime(),
            fingerprint: Digest::of(der).to_string(),
            authority: certificate.is_ca(),
        })
    }

    /// Whether the certificate is for the party `name`. Only whole names count: a wildcard is nobody's name.
    pub fn carries(&self, name: &str) -> bool {
        self.names.iter().any(|own| own.eq_ignore_ascii_case(name))
    }
}

/// Text that cannot be the name of a party in a certificate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} cannot be a certificate name: expected letters, digits, '-', '_' and '.', at most 63 characters between dots"
)]
pub struct InvalidName(pub String);

/// Checks that `name` can stand in a certificate as the name of a party: a DNS name, of one label or more.
///
/// # Errors
///
/// [`InvalidName`] otherwise.
pub fn check_name(name: &str) -> Result<(), InvalidName> {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    // A name of digits and dots alone would read as an address.
    let letters = name.bytes().any(|byte| byte.is_ascii_alphabetic() || byte == b'_' || byte == b'-');
    if name.len() <= 253 && letters && name.split('.').all(label) { Ok(()) } else { Err(InvalidName(printable(name))) }
}

/// A date and time as every sentence here writes it.
pub(crate) fn date(time: OffsetDateTime) -> String {
    time.to_offset(time::UtcOffset::UTC)
        .format(format_description!("[year]-[month]-[day] [hour]:[minute] UTC"))
        .unwrap_or_else(|_| time.unix_timestamp().to_string())
}

/// `'a', 'b' and 3 more`, or `no name`.
pub(crate) fn quoted(names: &[String]) -> String {
    const SHOWN: usize = 6;
    if names.is_empty() {
        return "no name".to_owned();
    }
    let mut text = names.iter().take(SHOWN).map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        let _ = write!(text, " and {} more", names.len() - SHOWN);
    }
    text
}

/// Text of a peer, safe for a terminal and a log. Where something was left out it ends in a character that no name has, so
/// that a cut name never equals a whole one.
pub(crate) fn printable(text: &str) -> String {
    printable_within(text, 254)
}

/// As [`printable`], with another limit in characters, the sign of omission included.
pub(crate) fn printable_within(text: &str, limit: usize) -> String {
    let mut characters = text.chars().map(|c| if is_hidden(c) { '?' } else { c });
    let mut shown = characters.by_ref().take(limit).collect::<String>();
    if characters.next().is_some() {
        shown.pop();
        shown.push('…');
    }
    shown
}

fn ip_address(bytes: &[u8]) -> Option<IpAddr> {
    <[u8; 4]>::try_from(bytes).map(IpAddr::from).or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_dns_names_of_any_depth() {
        for name in ["alice", "alice.hospital-a.example", "site_7", "7-east"] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for name in ["", ".", "alice.", "-a", "a-", "10.0.0.1", "a b", "a/b", "*.example", "münchen", &"a".repeat(64)]
        {
            assert!(check_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn text_of_a_peer_cannot_move_the_cursor() {
        assert_eq!(printable("bob\u{1b}[2J\u{202e}x"), "bob?[2J?x");
        assert_eq!(printable(&"x".repeat(254)), "x".repeat(254));
        assert_eq!(printable(&"x".repeat(255)), "x".repeat(253) + "…");
    }

    #[test]
    fn anything_but_a_certificate_is_refused_without_a_panic() {
        assert!(CertificateFacts::parse(b"").is_err());
        assert!(CertificateFacts::parse(&[0x30, 0x82, 0xff, 0xff, 0x00]).is_err());
    }

    #[test]
    fn long_lists_of_names_are_cut() {
        let names = (0..9).map(|i| format!("n{i}")).collect::<Vec<_>>();
        assert_eq!(quoted(&names), "'n0', 'n1', 'n2', 'n3', 'n4', 'n5' and 3 more");
        assert_eq!(quoted(&[]), "no name");
    }
}
