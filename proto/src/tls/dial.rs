//! The side that opens a connection.

use super::certificate::{check_name, printable};
use super::error::{Cause, LinkError, Stage};
use super::identity::Identity;
use super::verify::Verdict;
use super::{MAX_FRAME_BYTES, PING_INTERVAL, PING_TIMEOUT, Peer, WINDOW_BYTES};
use crate::BoxFuture;
use hyper_util::rt::TokioIo;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::AsyncBufReadExt;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tonic::codegen::{Service, http::Uri};
use tonic::transport::{Channel, Endpoint};

/// A connection on which both sides have accepted each other's certificate.
#[derive(Debug, Clone)]
pub struct Connection {
    /// For the generated clients. After a break it dials again, with the same checks, on the next call.
    pub channel: Channel,
    /// Who is at the other end.
    pub peer: Peer,
}

/// Opens a connection to the party `expected`, which listens at `address` (`host:port`).
///
/// The name in the party's certificate is what counts; the address may be any that leads to it. A returned connection is
/// accepted by both sides: it was waited for that the other side has checked our certificate too. Resolving, connecting
/// and the handshake get `patience` each.
///
/// # Errors
///
/// [`LinkError`] with one sentence; [`LinkError::passing`] tells whether trying again may help.
pub fn dial<'a>(
    identity: &'a Identity,
    address: &'a str,
    expected: &'a str,
    patience: Duration,
) -> BoxFuture<'a, Result<Connection, LinkError>> {
    Box::pin(connect(identity, address, expected, patience))
}

async fn connect(
    identity: &Identity,
    address: &str,
    expected: &str,
    patience: Duration,
) -> Result<Connection, LinkError> {
    let who = format!("{} at {}", printable(expected), printable(address));
    let fail = |cause| LinkError { who: who.clone(), cause, proven: false };
    check_name(expected).map_err(|error| fail(error.into()))?;
    let latest = Arc::new(Mutex::new(None));
    let connector = Connector {
        identity: identity.clone(),
        address: address.to_owned(),
        expected: expected.to_owned(),
        who: who.clone(),
        patience,
        latest: Arc::clone(&latest),
    };
    // To tonic this is plain HTTP over a transport that happens to be ours; the origin says what it really is.
    let broken = |detail: String| fail(Cause::Handshake { detail });
    let endpoint = Endpoint::from_shared(format!("http://{expected}"))
        .map_err(|error| broken(error.to_string()))?
        .origin(format!("https://{expected}").parse().map_err(|_| broken("no origin".to_owned()))?)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .max_frame_size(MAX_FRAME_BYTES)
        .http2_keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .keep_alive_while_idle(true);
    match endpoint.connect_with_connector(connector).await {
        Ok(channel) => match latest.lock().unwrap_or_else(PoisonError::into_inner).clone() {
            Some(peer) => Ok(Connection { channel, peer }),
            None => Err(broken("no connection was made".to_owned())),
        },
        Err(error) => Err(super::link_error(&error).unwrap_or_else(|| broken(super::explain(&error)))),
    }
}

/// Makes the transport of a tonic channel: TCP, TLS, and the other side's consent.
#[derive(Clone)]
struct Connector {
    identity: Identity,
    address: String,
    expected: String,
    who: String,
    patience: Duration,
    latest: Arc<Mutex<Option<Peer>>>,
}

impl Service<Uri> for Connector {
    type Response = TokioIo<TlsStream<TcpStream>>;
    type Error = LinkError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, LinkError>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), LinkError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _uri: Uri) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move {
            let verdict = Verdict::default();
            match connector.open(&verdict).await {
                Ok(stream) => Ok(TokioIo::new(stream)),
                Err(cause) => Err(LinkError { who: connector.who, cause, proven: verdict.finding().proven }),
            }
        })
    }
}

impl Connector {
    async fn open(&self, verdict: &Verdict) -> Result<TlsStream<TcpStream>, Cause> {
        let (tcp, address) = self.reach().await?;
        // Without it small messages wait for the acknowledgement of the one before. A refusal to set it costs only time.
        let _ = tcp.set_nodelay(true);

        let config = self
            .identity
            .client(&self.expected, verdict)
            .map_err(|error| Cause::Handshake { detail: error.to_string() })?;
        let of_io = |error: &std::io::Error, stage| verdict.cause(error, stage, self.identity.authorities());
        let connect = TlsConnector::from(Arc::new(config)).connect(self.server_name(address.ip()), tcp);
        let mut stream = match timeout(self.patience, connect).await {
            Err(_) => return Err(self.timed_out(Stage::Handshake)),
            Ok(Err(error)) => return Err(of_io(&error, Stage::Handshake)),
            Ok(Ok(stream)) => stream,
        };
        if stream.get_ref().1.alpn_protocol() != Some(b"h2") {
            return Err(Cause::NotHttp2);
        }
        // In TLS 1.3 our handshake ends before the other side has looked at our certificate: its refusal would strike some
        // later request and read as a broken connection. An HTTP/2 server speaks first, so its first bytes are its consent.
        match timeout(self.patience, stream.fill_buf()).await {
            Err(_) => return Err(self.timed_out(Stage::Consent)),
            Ok(Err(error)) => return Err(of_io(&error, Stage::Consent)),
            Ok(Ok([])) => return Err(Cause::Closed { stage: Stage::Consent }),
            Ok(Ok(_)) => {}
        }
        let peer = verdict.peer(address, stream.get_ref().1)?;
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(peer);
        Ok(stream)
    }

    /// A TCP connection to the first address that answers.
    async fn reach(&self) -> Result<(TcpStream, SocketAddr), Cause> {
        let unknown = |detail: String| Cause::UnknownHost { detail };
        let addresses = match timeout(self.patience, tokio::net::lookup_host(self.address.as_str())).await {
            Err(_) => return Err(unknown("the name service does not answer".to_owned())),
            Ok(Err(error)) => return Err(unknown(printable(&error.to_string()))),
            Ok(Ok(addresses)) => addresses.collect::<Vec<_>>(),
        };
        let share = self.patience / u32::try_from(addresses.len().max(1)).unwrap_or(u32::MAX);
        let mut last = unknown("the name has no address".to_owned());
        for address in addresses {
            last = match timeout(share, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok((stream, address)),
                Ok(Err(error)) => Cause::of_io(&error, Stage::Connecting, None, &[]),
                Err(_) => self.timed_out(Stage::Connecting),
            };
        }
        Err(last)
    }

    /// The name in the clear part of the handshake: the dialled host, as with any TLS client. Nothing is checked by it.
    fn server_name(&self, ip: IpAddr) -> ServerName<'static> {
        let host = self.address.rsplit_once(':').map_or(self.address.as_str(), |(host, _)| host);
        ServerName::try_from(host.to_owned()).unwrap_or(ServerName::IpAddress(ip.into()))
    }

    fn timed_out(&self, stage: Stage) -> Cause {
        Cause::TimedOut { seconds: self.patience.as_secs_f64().ceil() as u64, stage }
    }
}
