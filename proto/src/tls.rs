//! Mutual TLS 1.3 between parties that know each other by the names in their certificates.
//!
//! Both sides show a certificate and check the other's: issued by a known authority, in date, and carrying exactly the
//! name that the study gives the party. The dialled address plays no part in that check, so a party may be reached by
//! any host name or number. There is no plaintext mode and no session resumption: every connection proves both
//! certificates afresh.
//!
//! tonic serves what [`Listener`] accepts, and dials through [`dial`]; its own TLS is not used, because it can neither
//! restrict the version nor check a name other than the dialled one.

mod certificate;
mod crowd;
mod dial;
mod error;
mod identity;
mod listen;
mod verify;

pub use certificate::{CertificateFacts, InvalidName, NotACertificate, check_name};
pub(crate) use certificate::{date, printable, printable_within, quoted};
pub use dial::{Connection, dial};
pub use error::{Cause, LinkError, RefusedOurs, Stage, explain, link_error};
pub use identity::{FileProblem, FileRole, Identity, IdentityError};
pub use listen::{Incoming, Listener, PeerStream, Refusals};

use crate::BoxFuture;
use std::net::SocketAddr;
use std::time::Duration;
use tokio_rustls::rustls::CommonState;
use tonic::transport::server::Router;

/// HTTP/2 window for a stream and for a connection. The default of 64 KiB is slow on long links.
pub(crate) const WINDOW_BYTES: u32 = 16 << 20;
/// Largest HTTP/2 frame that we take; a frame of a long vector fits into one.
pub(crate) const MAX_FRAME_BYTES: u32 = 512 << 10;
/// Calls at once on one connection. Each of ours makes one; every further one of a peer only takes memory.
pub(crate) const CALLS_A_CONNECTION: u32 = 2;
/// A ping goes out on a silent connection after this time.
pub(crate) const PING_INTERVAL: Duration = Duration::from_secs(10);
/// A connection whose pings stay unanswered for this time is closed.
pub(crate) const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// A handshake must be done within this time.
pub const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);

/// The party at the other end of a connection, as its certificate proves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Name of the party in the study.
    pub name: String,
    /// Address of the other end.
    pub address: SocketAddr,
    /// SHA-256 of its certificate, in hexadecimal.
    pub fingerprint: String,
    /// Protocol version, such as `TLS 1.3`.
    pub protocol: String,
    /// Cipher suite, such as `TLS13_AES_256_GCM_SHA384`.
    pub cipher: String,
}

impl Peer {
    fn new(name: String, facts: &CertificateFacts, address: SocketAddr, session: &CommonState) -> Peer {
        let version = session.protocol_version().map(|version| format!("{version:?}")).unwrap_or_default();
        let cipher = session.negotiated_cipher_suite().map(|suite| format!("{:?}", suite.suite())).unwrap_or_default();
        Peer {
            name,
            address,
            fingerprint: facts.fingerprint.clone(),
            protocol: version.replace("TLSv1_", "TLS 1."),
            cipher,
        }
    }
}

/// The party that sent a request.
///
/// # Errors
///
/// `Unauthenticated` for a request that did not come through a [`Listener`].
#[allow(clippy::result_large_err)] // Status is what every service method returns.
pub fn peer<T>(request: &tonic::Request<T>) -> Result<&Peer, tonic::Status> {
    request
        .extensions()
        .get::<Peer>()
        .ok_or_else(|| tonic::Status::unauthenticated("request came without a checked certificate"))
}

/// A tonic server with windows, frame size and pings for long vectors, and with few calls a connection. Serve a
/// [`Listener`]'s connections with it.
///
/// A call's request must be there within the time of a handshake; of a stream, only its beginning.
pub fn server() -> tonic::transport::Server {
    tonic::transport::Server::builder()
        .max_concurrent_streams(CALLS_A_CONNECTION)
        .timeout(HANDSHAKE_PATIENCE)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .max_frame_size(MAX_FRAME_BYTES)
        .http2_keepalive_interval(Some(PING_INTERVAL))
        .http2_keepalive_timeout(Some(PING_TIMEOUT))
}

/// Serves a listener's connections until `shutdown`.
pub(crate) fn serve(
    router: Router,
    listener: Listener,
    shutdown: BoxFuture<'static, ()>,
) -> BoxFuture<'static, Result<(), tonic::transport::Error>> {
    Box::pin(router.serve_with_incoming_shutdown(listener.incoming(), shutdown))
}
