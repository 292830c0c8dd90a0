//! Why a connection failed, in one sentence with its remedy.

use super::certificate::{CertificateFacts, InvalidName, date, printable, quoted};
use fedreg_common::exit::Exit;
use std::error::Error;
use std::fmt;
use std::io;
use time::OffsetDateTime;
use tokio_rustls::rustls::{self, AlertDescription, CertificateError, PeerIncompatible};

/// A connection that could not be made, or was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{who} {cause}")]
pub struct LinkError {
    /// Who is at the other end, as far as known: `bob at 10.0.0.2:7000`, `the peer at 10.0.0.1:50000`.
    pub who: String,
    /// What went wrong.
    pub cause: Cause,
    /// Whether the other end has proved with its certificate's key who it is. What fails before that, anybody on the way
    /// can have made fail: with one changed byte, or with an alert in plain text.
    pub proven: bool,
}

/// What went wrong with a connection; reads on from the name of the peer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// The peer has no certificate.
    #[error("showed no certificate: it needs one from an authority that both sides know (see `certs issue`)")]
    NoCertificate,
    /// The peer's certificate comes from an authority that we were not given.
    #[error(
        "shows a certificate from '{issuer}', which is none of our authorities ({}): exchange authority files, or have \
         the certificate issued by a common authority",
        quoted(trusted)
    )]
    UnknownAuthority {
        /// Issuer as the certificate names it.
        issuer: String,
        /// Our authorities.
        trusted: Vec<String>,
    },
    /// The peer's certificate names one of our authorities, but that authority's key did not sign it.
    #[error(
        "shows a certificate in the name of '{issuer}', but our authority of that name did not sign it: if the authority \
         was made anew, give every party the new authority file and issue its certificate again"
    )]
    ForeignSignature {
        /// Issuer as the certificate names it.
        issuer: String,
    },
    /// The peer's certificate is too old.
    #[error("shows a certificate that expired on {}: it must be issued again, or our clock is wrong", date(*.not_after))]
    Expired {
        /// End of its validity.
        not_after: OffsetDateTime,
    },
    /// The peer's certificate is too young.
    #[error("shows a certificate that is valid only from {}: one of the two clocks is wrong", date(*.not_before))]
    NotYetValid {
        /// Start of its validity.
        not_before: OffsetDateTime,
    },
    /// The peer's certificate is somebody else's.
    #[error(
        "shows a certificate for {}, expected {} as the study says: check the address, the party's certificate file and \
         the names in the study",
        quoted(found),
        quoted(expected)
    )]
    WrongName {
        /// Names that the study allows here.
        expected: Vec<String>,
        /// Names in the certificate.
        found: Vec<String>,
    },
    /// One certificate would do for several parties of the study.
    #[error("shows a certificate that stands for {} at once: each party needs a certificate of its own", quoted(.names))]
    SeveralParties {
        /// Names of the study that the certificate carries.
        names: Vec<String>,
    },
    /// The certificate is not for this side of a connection.
    #[error("shows a certificate that is not for both client and server authentication: issue it again with both uses")]
    WrongPurpose,
    /// The certificate is unusable for another reason.
    #[error("shows an unusable certificate ({detail}): issue it again, for example with `certs issue`")]
    BadCertificate {
        /// What the check said.
        detail: String,
    },
    /// The peer refuses our certificate.
    #[error("refused our certificate: {0}")]
    RefusedOurs(RefusedOurs),
    /// The peer speaks HTTP without TLS.
    #[error("speaks without TLS: there is no plaintext mode, both sides must use TLS 1.3 with certificates")]
    Plaintext,
    /// The peer speaks only TLS 1.2 or older.
    #[error(
        "does not speak TLS 1.3: older versions are refused, and a proxy that ends TLS must be taken out of the way"
    )]
    OldTls,
    /// The bytes are not TLS at all.
    #[error("sent bytes that are not TLS: check that the address and port belong to fedreg")]
    NotTls,
    /// TLS, but not gRPC behind it.
    #[error("speaks TLS but not HTTP/2: check that the address and port belong to fedreg")]
    NotHttp2,
    /// Nobody listens at the address.
    #[error("refuses connections: nobody listens there yet, or address or port is wrong")]
    NobodyListens,
    /// No answer in time.
    #[error("did not answer within {seconds} s while {stage}: check the address, and that no firewall is in between")]
    TimedOut {
        /// How long we waited.
        seconds: u64,
        /// What we waited for.
        stage: Stage,
    },
    /// The other side hung up.
    #[error("closed the connection while {stage}: its own log says why")]
    Closed {
        /// What was going on.
        stage: Stage,
    },
    /// The address cannot be resolved.
    #[error("cannot be found: {detail}; expected host:port, such as bob.example:7000")]
    UnknownHost {
        /// What the resolver said.
        detail: String,
    },
    /// The network says no.
    #[error("cannot be reached: {detail}")]
    Unreachable {
        /// What the operating system said.
        detail: String,
    },
    /// Our own address is taken.
    #[error("is in use by another process: stop it, or listen at another port")]
    PortInUse,
    /// We cannot listen at our address.
    #[error("cannot be listened at: {detail}; expected an address of this machine, such as 0.0.0.0:7000")]
    CannotListen {
        /// What the operating system said.
        detail: String,
    },
    /// The name to expect is none.
    #[error("cannot be checked: {0}")]
    InvalidName(#[from] InvalidName),
    /// Something else in the handshake.
    #[error("broke the handshake: {detail}")]
    Handshake {
        /// What the TLS library said.
        detail: String,
    },
}

/// Why the peer refused our certificate, as far as its alert tells.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefusedOurs {
    /// We showed none.
    #[error("it saw none; configure a certificate and its key")]
    Missing,
    /// It does not know our authority.
    #[error("it does not know the authority that issued it; exchange authority files, or use a common authority")]
    UnknownAuthority,
    /// It finds it out of date.
    #[error("it finds it expired or not yet valid; issue it again, or correct the clocks")]
    OutOfDate,
    /// It expects another name.
    #[error("its study expects another name here; compare the certificate's name (`certs show`) with the study")]
    WrongName,
    /// It has not said more.
    #[error("its alert is {0}; its own log says why")]
    Other(String),
}

/// What was going on when the other side fell silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Waiting for the TCP connection.
    Connecting,
    /// In the TLS handshake.
    Handshake,
    /// After our side of the handshake: waiting for the first bytes that show the peer's consent.
    Consent,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::Connecting => "connecting",
            Stage::Handshake => "making the TLS handshake",
            Stage::Consent => "waiting for it to accept our certificate",
        })
    }
}

impl LinkError {
    /// The exit code for a process that ends because of this.
    pub fn exit(&self) -> Exit {
        match self.cause {
            Cause::NobodyListens
            | Cause::TimedOut { .. }
            | Cause::Closed { .. }
            | Cause::UnknownHost { .. }
            | Cause::Unreachable { .. }
            | Cause::PortInUse
            | Cause::CannotListen { .. } => Exit::Unreachable,
            Cause::NotTls | Cause::NotHttp2 | Cause::Handshake { .. } => Exit::Peer,
            Cause::InvalidName(_) => Exit::Usage,
            Cause::NoCertificate
            | Cause::UnknownAuthority { .. }
            | Cause::ForeignSignature { .. }
            | Cause::Expired { .. }
            | Cause::NotYetValid { .. }
            | Cause::WrongName { .. }
            | Cause::SeveralParties { .. }
            | Cause::WrongPurpose
            | Cause::BadCertificate { .. }
            | Cause::RefusedOurs(_)
            | Cause::Plaintext
            | Cause::OldTls => Exit::Refused,
        }
    }

    /// Whether trying again may help: everything but our own faults, and what a peer says that has proved who it is.
    pub fn passing(&self) -> bool {
        let own = matches!(self.cause, Cause::InvalidName(_) | Cause::PortInUse | Cause::CannotListen { .. });
        let said = matches!(self.cause, Cause::WrongName { .. } | Cause::SeveralParties { .. } | Cause::RefusedOurs(_));
        !(own || said && self.proven)
    }
}

/// The [`LinkError`] inside an error of tonic, hyper or tokio, where there is one.
pub fn link_error(error: &(dyn Error + 'static)) -> Option<LinkError> {
    chain(error).find_map(|error| error.downcast_ref::<LinkError>().cloned())
}

/// One clear sentence for an error of tonic, hyper, rustls or tokio: cause and remedy instead of "transport error".
pub fn explain(error: &(dyn Error + 'static)) -> String {
    if let Some(link) = link_error(error) {
        return link.to_string();
    }
    for error in chain(error) {
        if let Some(changed) = error.downcast_ref::<rustls::Error>().and_then(changed_on_the_way) {
            return changed.to_owned();
        }
        let cause = if let Some(error) = error.downcast_ref::<rustls::Error>() {
            Some(Cause::of_tls(error, None, &[]))
        } else if let Some(error) = error.downcast_ref::<io::Error>() {
            Cause::of_io_kind(error.kind(), Stage::Consent)
        } else {
            None
        };
        if let Some(cause) = cause {
            let closed = matches!(cause, Cause::Closed { .. });
            return if closed {
                "the peer closed the connection: its own log says why".to_owned()
            } else {
                format!("the peer {cause}")
            };
        }
    }
    if let Some(status) = chain(error).find_map(|error| error.downcast_ref::<tonic::Status>()) {
        return match status.message() {
            "" => format!("the peer answered with status {:?}", status.code()),
            message if message.starts_with("h2 protocol error: error reading a body") => {
                "the connection broke off: the peer's program ended, or something between the two sides cut it"
                    .to_owned()
            }
            message => printable(message),
        };
    }
    let mut sentence = String::new();
    for error in chain(error) {
        let text = printable(&error.to_string());
        if !sentence.contains(&text) {
            sentence = if sentence.is_empty() { text } else { format!("{sentence}: {text}") };
        }
    }
    sentence
}

/// What TLS says of a line that stood, when bytes on it are not those that were sent.
// Errors of rustls are an open set.
#[allow(clippy::wildcard_enum_match_arm)]
fn changed_on_the_way(error: &rustls::Error) -> Option<&'static str> {
    match error {
        rustls::Error::DecryptError => Some(
            "bytes of the peer were changed on the way, and TLS refused them: look for what stands between the two sides",
        ),
        rustls::Error::AlertReceived(AlertDescription::BadRecordMac) => Some(
            "our bytes were changed on the way, and TLS at the peer refused them: look for what stands between the two sides",
        ),
        _ => None,
    }
}

/// The error and everything below it. An `io::Error` hides the error that it wraps from `source`, so it is opened.
fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    // Bounded, because nothing stops a foreign error from being its own source.
    std::iter::successors(Some(error), |&error: &&'a (dyn Error + 'static)| match error.downcast_ref::<io::Error>() {
        Some(error) => error.get_ref().map(|inner| inner as &(dyn Error + 'static)),
        None => error.source(),
    })
    .take(32)
}

impl Cause {
    /// The cause behind an error of the socket or of TLS on it.
    pub(crate) fn of_io(
        error: &io::Error,
        stage: Stage,
        seen: Option<&CertificateFacts>,
        trusted: &[CertificateFacts],
    ) -> Cause {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(error) => Cause::of_tls(error, seen, trusted),
            None => Cause::of_io_kind(error.kind(), stage)
                .unwrap_or_else(|| Cause::Unreachable { detail: printable(&error.to_string()) }),
        }
    }

    // The kinds of errors of the standard library are an open set.
    #[allow(clippy::wildcard_enum_match_arm)]
    fn of_io_kind(kind: io::ErrorKind, stage: Stage) -> Option<Cause> {
        match kind {
            io::ErrorKind::ConnectionRefused => Some(Cause::NobodyListens),
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe => Some(Cause::Closed { stage }),
            io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
                Some(Cause::Unreachable { detail: "no route to it from here; check the network".to_owned() })
            }
            io::ErrorKind::TimedOut => {
                Some(Cause::Unreachable { detail: "it does not answer; check the address and firewalls".to_owned() })
            }
            _ => None,
        }
    }

    /// The cause behind an error of rustls; `seen` is the peer's certificate where one came.
    // Errors of rustls are an open set.
    #[allow(clippy::wildcard_enum_match_arm)]
    pub(crate) fn of_tls(
        error: &rustls::Error,
        seen: Option<&CertificateFacts>,
        trusted: &[CertificateFacts],
    ) -> Cause {
        use rustls::Error as Tls;
        match error {
            Tls::NoCertificatesPresented => Cause::NoCertificate,
            Tls::InvalidCertificate(error) => Cause::of_certificate(error, seen, trusted),
            Tls::AlertReceived(alert) => Cause::of_alert(*alert),
            Tls::PeerIncompatible(
                PeerIncompatible::Tls12NotOffered
                | PeerIncompatible::Tls12NotOfferedOrEnabled
                | PeerIncompatible::SupportedVersionsExtensionRequired
                | PeerIncompatible::ServerDoesNotSupportTls12Or13
                | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig,
            ) => Cause::OldTls,
            Tls::InvalidMessage(_) => Cause::NotTls,
            Tls::NoApplicationProtocol => Cause::NotHttp2,
            error => Cause::Handshake { detail: printable(&error.to_string()) },
        }
    }

    // As are those of certificates.
    #[allow(clippy::wildcard_enum_match_arm)]
    pub(crate) fn of_certificate(
        error: &CertificateError,
        seen: Option<&CertificateFacts>,
        trusted: &[CertificateFacts],
    ) -> Cause {
        let issuer = || seen.map_or_else(|| "an unknown authority".to_owned(), |facts| facts.issuer.clone());
        let seconds = |time: &rustls::pki_types::UnixTime| {
            i64::try_from(time.as_secs())
                .ok()
                .and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok())
                .unwrap_or(OffsetDateTime::UNIX_EPOCH)
        };
        match error {
            CertificateError::UnknownIssuer => Cause::UnknownAuthority {
                issuer: issuer(),
                trusted: trusted.iter().map(|a| a.subject.clone()).collect(),
            },
            CertificateError::BadSignature => Cause::ForeignSignature { issuer: issuer() },
            CertificateError::ExpiredContext { not_after, .. } => Cause::Expired { not_after: seconds(not_after) },
            CertificateError::NotValidYetContext { not_before, .. } => {
                Cause::NotYetValid { not_before: seconds(not_before) }
            }
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => Cause::WrongPurpose,
            error => Cause::BadCertificate { detail: printable(&error.to_string()) },
        }
    }

    // As are alerts.
    #[allow(clippy::wildcard_enum_match_arm)]
    fn of_alert(alert: AlertDescription) -> Cause {
        use AlertDescription as Alert;
        match alert {
            Alert::CertificateRequired => Cause::RefusedOurs(RefusedOurs::Missing),
            Alert::UnknownCA => Cause::RefusedOurs(RefusedOurs::UnknownAuthority),
            Alert::CertificateExpired => Cause::RefusedOurs(RefusedOurs::OutOfDate),
            Alert::AccessDenied => Cause::RefusedOurs(RefusedOurs::WrongName),
            Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateUnknown
            | Alert::DecryptError => Cause::RefusedOurs(RefusedOurs::Other(format!("{alert:?}"))),
            Alert::ProtocolVersion => Cause::OldTls,
            Alert::NoApplicationProtocol => Cause::NotHttp2,
            alert => Cause::Handshake { detail: format!("it sent the alert {alert:?}") },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_found_under_layers_of_wrapping() {
        let tls = rustls::Error::AlertReceived(AlertDescription::UnknownCA);
        let wrapped = io::Error::other(io::Error::new(io::ErrorKind::InvalidData, tls));
        assert_eq!(
            explain(&wrapped),
            "the peer refused our certificate: it does not know the authority that issued it; exchange authority files, \
             or use a common authority"
        );
        let status = tonic::Status::from_error(Box::new(io::Error::from(io::ErrorKind::ConnectionReset)));
        assert_eq!(explain(&status), "the peer closed the connection: its own log says why");
    }

    #[test]
    fn a_status_without_a_cause_speaks_for_itself() {
        assert_eq!(explain(&tonic::Status::aborted("round 7 came, expected 5")), "round 7 came, expected 5");
        assert_eq!(explain(&tonic::Status::new(tonic::Code::Internal, "")), "the peer answered with status Internal");
    }

    #[test]
    fn a_line_that_broke_is_told_without_words_of_libraries() {
        let broken =
            tonic::Status::new(tonic::Code::Internal, "h2 protocol error: error reading a body from connection");
        assert!(explain(&broken).starts_with("the connection broke off"), "{}", explain(&broken));
        let changed = io::Error::new(io::ErrorKind::InvalidData, rustls::Error::DecryptError);
        assert!(explain(&changed).starts_with("bytes of the peer were changed on the way"), "{}", explain(&changed));
        let said = io::Error::other(rustls::Error::AlertReceived(AlertDescription::BadRecordMac));
        assert!(explain(&said).starts_with("our bytes were changed on the way"), "{}", explain(&said));
    }

    #[test]
    fn exit_codes_tell_refusals_from_absence() {
        let exit = |cause| LinkError { who: "bob".to_owned(), cause, proven: false }.exit();
        assert_eq!(exit(Cause::NoCertificate), Exit::Refused);
        assert_eq!(exit(Cause::RefusedOurs(RefusedOurs::OutOfDate)), Exit::Refused);
        assert_eq!(exit(Cause::Plaintext), Exit::Refused);
        assert_eq!(exit(Cause::NobodyListens), Exit::Unreachable);
        assert_eq!(exit(Cause::PortInUse), Exit::Unreachable);
        assert_eq!(exit(Cause::NotTls), Exit::Peer);
    }

    #[test]
    fn only_a_peer_that_has_proved_who_it_is_can_refuse_for_good() {
        let passing = |cause, proven| LinkError { who: "bob".to_owned(), cause, proven }.passing();
        let wrong = || Cause::WrongName { expected: vec![], found: vec![] };
        let refused = || Cause::RefusedOurs(RefusedOurs::UnknownAuthority);
        assert_eq!([passing(wrong(), true), passing(wrong(), false)], [false, true]);
        assert_eq!([passing(refused(), true), passing(refused(), false)], [false, true]);
        for proven in [true, false] {
            assert!(passing(Cause::Handshake { detail: "bad record".to_owned() }, proven));
            assert!(passing(Cause::UnknownAuthority { issuer: "x".to_owned(), trusted: vec![] }, proven));
            assert!(passing(Cause::NobodyListens, proven));
            assert!(!passing(Cause::PortInUse, proven));
        }
    }
}
