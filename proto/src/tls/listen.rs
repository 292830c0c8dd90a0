//! The side that accepts connections.

use super::certificate::{check_name, printable};
use super::crowd::{Connections, Counted, Handshakes, Place};
use super::error::{Cause, LinkError, Stage};
use super::identity::Identity;
use super::verify::Verdict;
use super::{HANDSHAKE_PATIENCE, Peer};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

/// Accepted connections that the server has yet to take.
const ACCEPTED: usize = 64;
/// How long a caller may say nothing at all: anyone who makes a handshake begins at once.
const FIRST_BYTE: Duration = Duration::from_secs(5);
/// First byte of every TLS connection: a record of type "handshake".
const TLS_HANDSHAKE: u8 = 0x16;
/// How long a refused caller gets to read why.
const FAREWELL: Duration = Duration::from_millis(500);
/// At most this number of refused callers is logged a minute, so that a crowd does not fill the log.
const WARNINGS: u64 = 10;

/// A listening socket that lets in the named parties and nobody else.
#[derive(Debug)]
pub struct Listener {
    tcp: TcpListener,
    door: Door,
    address: SocketAddr,
}

/// Who was turned away so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refusals {
    /// How many callers.
    pub count: u64,
    /// Why the last one.
    pub last: Option<LinkError>,
}

/// What every handshake needs.
#[derive(Debug, Clone)]
struct Door {
    identity: Identity,
    expected: Arc<[String]>,
    patience: Duration,
    refusals: Arc<watch::Sender<Refusals>>,
    connections: Connections,
    warnings: Arc<Mutex<Warnings>>,
}

/// Warnings since a time.
#[derive(Debug, Default)]
struct Warnings {
    since: Option<Instant>,
    count: u64,
}

impl Listener {
    /// Listens at `address` (`host:port`, port 0 for any) for the parties named in `expected`.
    ///
    /// # Errors
    ///
    /// [`LinkError`] where the address is taken or not ours, or a name cannot be one.
    pub async fn bind(address: &str, identity: &Identity, expected: &[String]) -> Result<Listener, LinkError> {
        Listener::bind_patient(address, identity, expected, HANDSHAKE_PATIENCE).await
    }

    /// As [`Listener::bind`], with another limit for the duration of a handshake.
    ///
    /// # Errors
    ///
    /// As [`Listener::bind`].
    pub async fn bind_patient(
        address: &str,
        identity: &Identity,
        expected: &[String],
        patience: Duration,
    ) -> Result<Listener, LinkError> {
        let fail = |cause| LinkError { who: format!("address {}", printable(address)), cause, proven: false };
        for name in expected {
            check_name(name).map_err(|error| fail(error.into()))?;
        }
        let tcp = TcpListener::bind(address).await.map_err(|error| {
            let in_use = error.kind() == io::ErrorKind::AddrInUse;
            let other = || Cause::CannotListen { detail: printable(&error.to_string()) };
            fail(if in_use { Cause::PortInUse } else { other() })
        })?;
        let own = tcp.local_addr().map_err(|error| fail(Cause::CannotListen { detail: error.to_string() }))?;
        let door = Door {
            identity: identity.clone(),
            expected: expected.into(),
            patience,
            refusals: Arc::new(watch::Sender::new(Refusals::default())),
            connections: Connections::default(),
            warnings: Arc::default(),
        };
        Ok(Listener { tcp, door, address: own })
    }

    /// The address with the port that was given to us.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Watches who is turned away; a party that waits in vain can say so when it gives up.
    pub fn refusals(&self) -> watch::Receiver<Refusals> {
        self.door.refusals.subscribe()
    }

    /// The accepted connections, for `serve_with_incoming`. The socket closes when the stream is dropped.
    pub fn incoming(self) -> Incoming {
        let (accepted, connections) = mpsc::channel(ACCEPTED);
        let task = tokio::spawn(accept_all(self.tcp, self.door, accepted));
        Incoming { connections, task: task.abort_handle() }
    }
}

async fn accept_all(tcp: TcpListener, door: Door, accepted: mpsc::Sender<PeerStream>) {
    let handshakes = Handshakes::default();
    loop {
        match tcp.accept().await {
            Ok((socket, address)) => {
                let (door, accepted) = (door.clone(), accepted.clone());
                handshakes.begin(address, |place| async move { door.receive(socket, address, place, accepted).await });
            }
            Err(error) => {
                // Out of file descriptors, most likely: without a pause this would spin.
                door.warn(format_args!("cannot accept a connection: {error}"));
                handshakes.give_one_up();
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

impl Door {
    async fn receive(self, tcp: TcpStream, address: SocketAddr, place: Place, accepted: mpsc::Sender<PeerStream>) {
        match self.admit(tcp, address, &place).await {
            Ok(stream) => {
                tracing::info!(peer = %stream.peer.name, address = %address, fingerprint = %stream.peer.fingerprint,
                    cipher = %stream.peer.cipher, "accepted a connection");
                place.accepted();
                // Fails only when the server is gone.
                let _ = accepted.send(stream).await;
            }
            // Somebody looked whether the port is open.
            Err(None) => tracing::debug!(address = %address, "a caller left without a word"),
            Err(Some(cause)) => {
                let error = LinkError { who: format!("the peer at {address}"), cause, proven: false };
                self.warn(format_args!("refused a connection: {error}"));
                self.refusals.send_modify(|refusals| {
                    refusals.count = refusals.count.saturating_add(1);
                    refusals.last = Some(error);
                });
            }
        }
    }

    fn warn(&self, sentence: std::fmt::Arguments<'_>) {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if warnings.since.is_none_or(|since| since.elapsed() >= Duration::from_secs(60)) {
            if warnings.count > WARNINGS {
                tracing::warn!("{} more callers were refused", warnings.count - WARNINGS);
            }
            *warnings = Warnings { since: Some(Instant::now()), count: 0 };
        }
        warnings.count = warnings.count.saturating_add(1);
        match warnings.count {
            ..=WARNINGS => tracing::warn!("{sentence}"),
            _ => tracing::debug!("{sentence}"),
        }
    }

    /// Makes the handshake; `Err(None)` for a caller that left before it said anything.
    async fn admit(&self, tcp: TcpStream, address: SocketAddr, place: &Place) -> Result<PeerStream, Option<Cause>> {
        let timed_out =
            |after: Duration| Cause::TimedOut { seconds: after.as_secs_f64().ceil() as u64, stage: Stage::Handshake };
        // Without it small messages wait for the acknowledgement of the one before. A refusal to set it costs only time.
        let _ = tcp.set_nodelay(true);
        let mut first = [0u8; 1];
        let patience = self.patience.min(FIRST_BYTE);
        match timeout(patience, tcp.peek(&mut first)).await {
            Err(_) => return Err(Some(timed_out(patience))),
            Ok(Err(_) | Ok(0)) => return Err(None),
            Ok(Ok(_)) if first[0] == TLS_HANDSHAKE => {}
            // "GET", "POST", and the "PRI" of HTTP/2.
            Ok(Ok(_)) if first[0].is_ascii_uppercase() => return Err(Some(Cause::Plaintext)),
            Ok(Ok(_)) => return Err(Some(Cause::NotTls)),
        }
        place.spoke();

        let verdict = Verdict::default();
        let config = self
            .identity
            .server(&self.expected, &verdict)
            .map_err(|error| Some(Cause::Handshake { detail: error.to_string() }))?;
        let handshake = TlsAcceptor::from(Arc::new(config)).accept(tcp).into_fallible();
        let stream = match timeout(self.patience, handshake).await {
            Err(_) => return Err(Some(timed_out(self.patience))),
            Ok(Ok(stream)) => stream,
            Ok(Err((error, tcp))) => {
                let cause = verdict.cause(&error, Stage::Handshake, self.identity.authorities());
                say_farewell(tcp).await;
                return Err(Some(cause));
            }
        };
        let peer = verdict.peer(address, stream.get_ref().1)?;
        let counted = self.connections.count(&peer.name);
        Ok(PeerStream { stream, peer, counted })
    }
}

/// Closes a socket so that the alert on it arrives: closing with unread input would reset the connection, and the caller
/// would read "connection reset" instead of the reason.
async fn say_farewell(mut tcp: TcpStream) {
    let _ = tcp.shutdown().await;
    let mut rest = [0u8; 4096];
    let _ = timeout(FAREWELL, async { while matches!(tcp.read(&mut rest).await, Ok(1..)) {} }).await;
}

/// Connections of parties whose certificate was accepted.
#[derive(Debug)]
pub struct Incoming {
    connections: mpsc::Receiver<PeerStream>,
    task: AbortHandle,
}

impl tokio_stream::Stream for Incoming {
    type Item = io::Result<PeerStream>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.connections.poll_recv(context).map(|stream| stream.map(Ok))
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An encrypted connection to a known party; requests on it carry the [`Peer`].
#[derive(Debug)]
pub struct PeerStream {
    stream: TlsStream<TcpStream>,
    peer: Peer,
    counted: Counted,
}

impl PeerStream {
    /// Ends a connection for which newer ones of the same party leave no room.
    fn check_room(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.counted.is_replaced(context) {
            true => {
                Err(io::Error::new(io::ErrorKind::ConnectionAborted, "newer connections of the same party took over"))
            }
            false => Ok(()),
        }
    }
}

impl Connected for PeerStream {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for PeerStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check_room(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for PeerStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.check_room(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check_room(context)?;
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
