//! The two certificate checks: authority and dates by webpki, the name by the study.

use super::Peer;
use super::certificate::CertificateFacts;
use super::error::{Cause, Stage};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::client::verify_server_cert_signed_by_trust_anchor;
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use tokio_rustls::rustls::{
    CertificateError, CommonState, DigitallySignedStruct, DistinguishedName, Error, PeerIncompatible, RootCertStore,
    SignatureScheme,
};

/// What the check of one connection found. rustls keeps only a code of it; people need the rest.
#[derive(Debug, Clone, Default)]
pub(crate) struct Verdict(Arc<Mutex<Finding>>);

#[derive(Debug, Clone, Default)]
pub(crate) struct Finding {
    pub(crate) facts: Option<CertificateFacts>,
    pub(crate) name: Option<String>,
    pub(crate) cause: Option<Cause>,
    /// What is wrong with the names of a certificate that has yet to be proved.
    suspicion: Option<Cause>,
    /// Whether the other side has signed this handshake with the key of a certificate from a known authority, so that what
    /// the certificate says is its own word and nobody's on the way.
    pub(crate) proven: bool,
}

impl Verdict {
    pub(crate) fn finding(&self) -> Finding {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Why a handshake failed: what the check found, or what the error says.
    pub(crate) fn cause(&self, error: &io::Error, stage: Stage, trusted: &[CertificateFacts]) -> Cause {
        let finding = self.finding();
        finding.cause.unwrap_or_else(|| Cause::of_io(error, stage, finding.facts.as_ref(), trusted))
    }

    /// The party at the other end of a connection whose handshake has ended well.
    pub(crate) fn peer(&self, address: SocketAddr, session: &CommonState) -> Result<Peer, Cause> {
        let finding = self.finding();
        let (name, facts) = finding.name.zip(finding.facts).ok_or(Cause::NoCertificate)?;
        Ok(Peer::new(name, &facts, address, session))
    }

    /// Runs `authenticate`, then compares the names, and records everything. Wrong names are held against nobody before
    /// [`Verdict::settle`]: a certificate is public, so anybody can show it.
    fn check(
        &self,
        certificate: &CertificateDer<'_>,
        expected: &[String],
        trusted: &[CertificateFacts],
        authenticate: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut finding = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let facts = match CertificateFacts::parse(certificate) {
            Ok(facts) => finding.facts.insert(facts).clone(),
            Err(error) => {
                finding.cause = Some(Cause::BadCertificate { detail: error.to_string() });
                return Err(CertificateError::BadEncoding.into());
            }
        };
        // First who vouches for the certificate, then what it says: names of strangers prove nothing.
        if let Err(error) = authenticate() {
            finding.cause = Some(Cause::of_tls(&error, Some(&facts), trusted));
            return Err(error);
        }
        let carried = expected.iter().filter(|name| facts.carries(name)).cloned().collect::<Vec<_>>();
        match <[String; 1]>::try_from(carried) {
            Ok([name]) => {
                finding.name = Some(name);
                Ok(())
            }
            Err(carried) => {
                finding.suspicion = Some(if carried.is_empty() {
                    Cause::WrongName { expected: expected.to_vec(), found: facts.names }
                } else {
                    Cause::SeveralParties { names: carried }
                });
                Ok(())
            }
        }
    }

    /// Takes the signature over the handshake, without which no handshake ends: anyone who made it holds the certificate.
    fn settle(&self, signature: Result<HandshakeSignatureValid, Error>) -> Result<HandshakeSignatureValid, Error> {
        let mut finding = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if signature.is_err() {
            let detail = "it does not prove that it holds the key of the certificate that it shows".to_owned();
            finding.cause = Some(Cause::Handshake { detail });
            return signature;
        }
        finding.proven = true;
        match finding.suspicion.take() {
            None => signature,
            Some(cause) => {
                finding.cause = Some(cause);
                // Sent as the alert "access denied", by which the other side knows that its name is the trouble.
                Err(CertificateError::ApplicationVerificationFailure.into())
            }
        }
    }
}

/// Checks the certificate of the party at the other end, whichever side dialled.
#[derive(Debug)]
pub(crate) struct OtherParty {
    pub(crate) expected: Vec<String>,
    pub(crate) roots: Arc<RootCertStore>,
    pub(crate) authorities: Arc<[CertificateFacts]>,
    pub(crate) provider: Arc<CryptoProvider>,
    pub(crate) webpki: Arc<dyn ClientCertVerifier>,
    pub(crate) verdict: Verdict,
}

/// What rustls asks of both sides in the same words: the signature over the handshake. `$older` is how a side refuses TLS 1.2.
macro_rules! signatures {
    ($older:ident) => {
        fn verify_tls12_signature(
            &self,
            _message: &[u8],
            _certificate: &CertificateDer<'_>,
            _signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(PeerIncompatible::$older.into())
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            self.verdict.settle(self.webpki.verify_tls13_signature(message, certificate, signature))
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.webpki.supported_verify_schemes()
        }
    };
}

/// Of the party that we dial.
impl ServerCertVerifier for OtherParty {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.verdict.check(end_entity, &self.expected, &self.authorities, || {
            verify_server_cert_signed_by_trust_anchor(
                &ParsedCertificate::try_from(end_entity)?,
                &self.roots,
                intermediates,
                now,
                self.provider.signature_verification_algorithms.all,
            )
        })?;
        Ok(ServerCertVerified::assertion())
    }

    signatures!(ServerTlsVersionIsDisabledByOurConfig);
}

/// Of a party that dials us.
impl ClientCertVerifier for OtherParty {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.webpki.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.verdict.check(end_entity, &self.expected, &self.authorities, || {
            self.webpki.verify_client_cert(end_entity, intermediates, now).map(drop)
        })?;
        Ok(ClientCertVerified::assertion())
    }

    signatures!(Tls12NotOfferedOrEnabled);
}
