//! The line between two parties over gRPC: a listener may have one to each of several.
//!
//! A task writes: it cuts messages into frames under flow control, so that two long messages that cross cannot block each
//! other, and beats while there is nothing to write, so that a party that computes differs from one that is stopped.

use crate::BoxFuture;
use crate::convert::{Decoder, frames};
use crate::health::HealthService;
use crate::limits::{FRAME_BYTES, Limits};
use crate::link::{Event, Link, Notice, OpenError};
use crate::status::{not_answered, not_connected, stream_fault};
use crate::tls::{self, HANDSHAKE_PATIENCE, Identity, Listener, explain};
use crate::wire::frame::Kind;
use crate::wire::vertical_link_client::VerticalLinkClient;
use crate::wire::vertical_link_server::{VerticalLink, VerticalLinkServer};
use crate::wire::{Frame, Nothing};
use fedreg_common::id::Role;
use fedreg_common::methods::vertical::message::Message;
use fedreg_common::privacy::release::Released;
use prost::Message as _;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Request, Response, Status, Streaming};

/// Time between two heartbeats on a line with nothing to write.
pub const HEARTBEAT: Duration = Duration::from_secs(2);
/// While a long message comes in, a sign of life is reported this often.
const ALIVE: Duration = Duration::from_secs(1);
/// Frames made ahead of the network.
const AHEAD: usize = 2;

/// The party at the other end of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerName {
    /// Its role, for sentences.
    pub role: Role,
    /// The name that its certificate must carry.
    pub certificate: String,
}

/// One end of the line between two parties.
pub struct GrpcLink {
    end: End,
    peer: PeerName,
    limits: Limits,
    meter: Arc<Meter>,
    line: Option<Line>,
    /// Why there is no line.
    lost: String,
}

enum End {
    Dial { address: String, identity: Box<Identity> },
    Listen { door: Arc<Door>, serving: Arc<Serving> },
}

/// The server behind the doors of all lines of one listener; ends with the last of them.
struct Serving {
    /// Lines that are not closed yet.
    open: AtomicUsize,
    running: Mutex<Option<(oneshot::Sender<()>, JoinHandle<()>)>>,
}

/// What the writing tasks of all lines of a link share.
#[derive(Debug)]
struct Meter {
    bytes: AtomicU64,
    began: Instant,
    /// When bytes were written last, after it began.
    written_millis: AtomicU64,
    heartbeat_millis: AtomicU64,
}

impl GrpcLink {
    /// The end that waits for the peer to dial. The listener must let in `peer.certificate` and nobody else. Serves at
    /// once, in the current runtime.
    pub fn listen(listener: Listener, peer: PeerName) -> GrpcLink {
        let door = Door::of(&peer);
        let serving = GrpcLink::serve(listener, vec![Arc::clone(&door)]);
        GrpcLink::behind(door, serving, peer)
    }

    /// One end for each of several peers that dial the same listener, which must let in just these.
    pub fn listen_for(listener: Listener, peers: Vec<PeerName>) -> Vec<GrpcLink> {
        let doors: Vec<Arc<Door>> = peers.iter().map(Door::of).collect();
        let serving = GrpcLink::serve(listener, doors.clone());
        doors.into_iter().zip(peers).map(|(door, peer)| GrpcLink::behind(door, Arc::clone(&serving), peer)).collect()
    }

    fn behind(door: Arc<Door>, serving: Arc<Serving>, peer: PeerName) -> GrpcLink {
        let (lost, meter) = (format!("{} has not dialled yet", peer.role), Arc::clone(&door.meter));
        GrpcLink::new(End::Listen { door, serving }, peer, meter, lost)
    }

    fn serve(listener: Listener, doors: Vec<Arc<Door>>) -> Arc<Serving> {
        let open = AtomicUsize::new(doors.len());
        let (stop, stopped) = oneshot::channel::<()>();
        let service = VerticalLinkServer::new(Lobby(doors)).max_decoding_message_size(FRAME_BYTES);
        let router = tls::server().add_service(service).add_service(HealthService::server());
        let server = tls::serve(router, listener, Box::pin(async { drop(stopped.await) }));
        let server = tokio::spawn(async move {
            if let Err(error) = server.await {
                tracing::error!("the server of the line ended: {}", explain(&error));
            }
        });
        Arc::new(Serving { open, running: Mutex::new(Some((stop, server))) })
    }

    /// The end that dials the peer at `address` (`host:port`).
    pub fn dial(address: String, identity: &Identity, peer: PeerName) -> GrpcLink {
        let identity = Box::new(identity.clone());
        let lost = format!("{} has not been dialled yet", peer.role);
        GrpcLink::new(End::Dial { address, identity }, peer, Meter::new(), lost)
    }

    fn new(end: End, peer: PeerName, meter: Arc<Meter>, lost: String) -> GrpcLink {
        GrpcLink { end, peer, limits: Limits::default(), meter, line: None, lost }
    }

    /// Sets how long the vectors that come in may be; for lines opened from now on.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Sets the time between heartbeats; for lines that begin from now on.
    pub fn set_heartbeat(&mut self, time: Duration) {
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1);
        self.meter.heartbeat_millis.store(millis, Ordering::Relaxed);
    }

    fn order(&mut self, order: Order) {
        if let Some(line) = &self.line {
            line.order(order);
        }
    }

    fn lose(&mut self, reason: String) {
        self.line = None;
        self.lost = reason;
    }
}

impl Link for GrpcLink {
    type Outbound = Released<Message>;
    type Inbound = Message;

    async fn open(&mut self) -> Result<(), OpenError> {
        self.lose(format!("the line to {} is not open", self.peer.role));
        let mut line = match &self.end {
            End::Dial { address, identity } => dial(address, identity, &self.peer.certificate, &self.meter).await?,
            End::Listen { door, .. } => door.next().await,
        };
        line.decoder = Decoder::new(self.limits);
        self.line = Some(line);
        Ok(())
    }

    fn send(&mut self, message: Released<Message>) {
        if let Some(line) = &self.line {
            line.say(message);
        }
    }

    async fn recv(&mut self) -> Event<Message> {
        loop {
            let Some(line) = &mut self.line else {
                return Event::Lost(self.lost.clone());
            };
            let frame = tokio::select! {
                biased;
                () = superseded(&self.end) => {
                    self.lose(format!("{} opened a new connection", self.peer.role));
                    continue;
                }
                frame = line.inbound.message() => frame,
            };
            let event = match frame {
                Ok(Some(frame)) => line.take(frame),
                Ok(None) => {
                    self.lose(format!("{} closed the line", self.peer.role));
                    continue;
                }
                Err(status) => match stream_fault(&status) {
                    Some(fault) => Some(Event::Fault(fault)),
                    None => {
                        self.lose(explain(&status));
                        continue;
                    }
                },
            };
            if let Some(event) = event {
                return event;
            }
            // A fast peer must not keep the runtime from everybody else.
            tokio::task::consume_budget().await;
        }
    }

    fn abort(&mut self, notice: Notice) {
        self.order(Order::Frame(Kind::Abort((&notice).into())));
    }

    fn bye(&mut self) {
        self.order(Order::Frame(Kind::Bye(Nothing {})));
    }

    /// Called once, last; may wait for the peer for ever.
    async fn close(&mut self) {
        if let Some(mut line) = self.line.take() {
            match self.end {
                End::Dial { .. } => {
                    line.order(Order::Close);
                    line.read_to_end().await;
                }
                // A server that ends its half first may reset the stream, and with it what was just written.
                End::Listen { .. } => {
                    line.read_to_end().await;
                    line.order(Order::Close);
                }
            }
            let _ = (&mut line.writer).await;
        }
        self.lost = format!("the line to {} is closed", self.peer.role);
        if let End::Listen { door, serving } = &self.end
            && let Some(server) = serving.close(door)
        {
            // Ends when the last connection has written everything.
            let _ = server.await;
        }
    }

    /// Scalars, vectors and entries, but no heartbeats and nothing of TLS or HTTP/2.
    fn bytes_sent(&self) -> u64 {
        self.meter.bytes.load(Ordering::Acquire)
    }

    fn sent_at(&self) -> std::time::Instant {
        let written = Duration::from_millis(self.meter.written_millis.load(Ordering::Relaxed));
        (self.meter.began + written).into_std()
    }
}

impl Drop for GrpcLink {
    fn drop(&mut self) {
        if let End::Listen { door, serving } = &self.end
            // Connections outlive the server; a line that still beats would keep the peer waiting.
            && !door.shut()
        {
            serving.open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Serving {
    /// Closes a door for good; with the last one gives the server back, which then ends in good order.
    fn close(&self, door: &Door) -> Option<JoinHandle<()>> {
        if door.shut() || self.open.fetch_sub(1, Ordering::Relaxed) > 1 {
            return None;
        }
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        running.map(|(_stop, server)| server)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some((_, server)) = self.running.get_mut().unwrap_or_else(PoisonError::into_inner) {
            server.abort();
        }
    }
}

/// One connection's stream in both directions.
struct Line {
    orders: mpsc::UnboundedSender<Order>,
    /// Messages that are still to be written: a peer that asks for one again and again, and reads nothing, gets it once.
    waiting: Waiting,
    writer: JoinHandle<()>,
    inbound: Streaming<Frame>,
    decoder: Decoder,
    alive: Instant,
    /// Keeps the connection of a line that we dialled.
    _channel: Option<Channel>,
}

/// Messages by their run and their place in it.
type Waiting = Arc<Mutex<BTreeSet<([u8; 16], u64)>>>;

fn place(message: &Released<Message>) -> ([u8; 16], u64) {
    let header = &message.value().header;
    (header.run.0, header.sequence)
}

enum Order {
    Message(Released<Message>),
    Frame(Kind),
    Close,
}

impl Line {
    fn say(&self, message: Released<Message>) {
        if self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(place(&message)) {
            self.order(Order::Message(message));
        }
    }

    fn order(&self, order: Order) {
        // Fails when the writer has seen the connection break, which the next `recv` says.
        let _ = self.orders.send(order);
    }

    fn take(&mut self, frame: Frame) -> Option<Event<Message>> {
        let event = match frame.kind {
            Some(Kind::Heartbeat(_)) => Event::Alive,
            // An abort may cut a message short; a goodbye may not.
            Some(Kind::Abort(notice)) => Event::Abort(notice.into()),
            Some(Kind::Bye(_)) if self.decoder.is_idle() => Event::Bye,
            kind => match self.decoder.push(Frame { kind }) {
                Ok(Some(message)) => Event::Message(message),
                Ok(None) if self.alive.elapsed() < ALIVE => return None,
                Ok(None) => Event::Part,
                Err(fault) => Event::Fault(fault),
            },
        };
        self.alive = Instant::now();
        Some(event)
    }

    async fn read_to_end(&mut self) {
        while let Ok(Some(_)) = self.inbound.message().await {}
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.writer.abort();
    }
}

/// Boxed, as what opens a line is compiled where the line is driven.
fn dial<'a>(
    address: &'a str,
    identity: &'a Identity,
    expected: &'a str,
    meter: &'a Arc<Meter>,
) -> BoxFuture<'a, Result<Line, OpenError>> {
    Box::pin(dialled(address, identity, expected, meter))
}

async fn dialled(address: &str, identity: &Identity, expected: &str, meter: &Arc<Meter>) -> Result<Line, OpenError> {
    let connection =
        tls::dial(identity, address, expected, HANDSHAKE_PATIENCE).await.map_err(|error| not_connected(&error))?;
    let (out, outbound) = mpsc::channel(AHEAD);
    let mut client = VerticalLinkClient::new(connection.channel.clone()).max_decoding_message_size(FRAME_BYTES);
    let who = format!("{expected} at {address}");
    let call = client.exchange(ReceiverStream::new(outbound));
    let inbound = match timeout(HANDSHAKE_PATIENCE, call).await {
        Ok(Ok(response)) => response.into_inner(),
        Ok(Err(status)) => return Err(not_answered(&who, &status)),
        Err(_) => return Err(OpenError::Unreachable(format!("{who} accepts no line"))),
    };
    Ok(Line::new(inbound, out, |frame| frame, meter, Some(connection.channel)))
}

impl Line {
    fn new<T: Send + 'static>(
        inbound: Streaming<Frame>,
        out: mpsc::Sender<T>,
        wrap: fn(Frame) -> T,
        meter: &Arc<Meter>,
        channel: Option<Channel>,
    ) -> Line {
        let (orders, ordered) = mpsc::unbounded_channel();
        let meter = Arc::clone(meter);
        let waiting = Waiting::default();
        let written = Arc::clone(&waiting);
        let writer = tokio::spawn(async move {
            // Fails only when the connection is gone, which the reading side notices too.
            let _ = write(ordered, &written, out, wrap, &meter).await;
        });
        Line {
            orders,
            waiting,
            writer,
            inbound,
            decoder: Decoder::new(Limits::default()),
            alive: Instant::now(),
            _channel: channel,
        }
    }
}

async fn write<T>(
    mut orders: mpsc::UnboundedReceiver<Order>,
    waiting: &Waiting,
    out: mpsc::Sender<T>,
    wrap: fn(Frame) -> T,
    meter: &Meter,
) -> Result<(), mpsc::error::SendError<T>> {
    let heartbeat = Duration::from_millis(meter.heartbeat_millis.load(Ordering::Relaxed));
    let mut beat = interval_at(Instant::now() + heartbeat, heartbeat);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let frame = |kind| wrap(Frame { kind: Some(kind) });
    loop {
        let order = tokio::select! {
            biased;
            _ = beat.tick() => Order::Frame(Kind::Heartbeat(Nothing {})),
            order = orders.recv() => order.unwrap_or(Order::Close),
        };
        match order {
            Order::Message(message) => {
                let written = place(&message);
                for frame in frames(message) {
                    let bytes = frame.encoded_len() as u64;
                    out.send(wrap(frame)).await?;
                    meter.wrote(bytes);
                }
                waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&written);
            }
            Order::Frame(kind) => out.send(frame(kind)).await?,
            Order::Close => return Ok(()),
        }
    }
}

impl Meter {
    fn new() -> Arc<Meter> {
        Arc::new(Meter {
            bytes: AtomicU64::new(0),
            began: Instant::now(),
            written_millis: AtomicU64::new(0),
            heartbeat_millis: AtomicU64::new(HEARTBEAT.as_millis() as u64),
        })
    }

    fn wrote(&self, bytes: u64) {
        let millis = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.written_millis.store(millis, Ordering::Relaxed);
        // Anyone who sees the bytes sees their time.
        self.bytes.fetch_add(bytes, Ordering::Release);
    }
}

/// Where a dialled line waits until it is opened. It beats meanwhile, but nothing of it is read.
struct Door {
    waiting: Mutex<Option<Line>>,
    shut: AtomicBool,
    came: Notify,
    expected: String,
    meter: Arc<Meter>,
}

impl Door {
    fn of(peer: &PeerName) -> Arc<Door> {
        Arc::new(Door {
            waiting: Mutex::new(None),
            shut: AtomicBool::new(false),
            came: Notify::new(),
            expected: peer.certificate.clone(),
            meter: Meter::new(),
        })
    }

    /// Lets nobody in any more; tells whether that was so before.
    fn shut(&self) -> bool {
        let before = self.shut.swap(true, Ordering::Relaxed);
        drop(self.waiting().take());
        before
    }

    /// The latest line that came.
    async fn next(&self) -> Line {
        loop {
            if let Some(line) = self.waiting().take() {
                return line;
            }
            self.came.notified().await;
        }
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Option<Line>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until a newer line has come than the one in use.
async fn superseded(end: &End) {
    match end {
        End::Dial { .. } => std::future::pending().await,
        End::Listen { door, .. } => {
            while door.waiting().is_none() {
                door.came.notified().await;
            }
        }
    }
}

/// The doors of all peers that a listener lets in.
struct Lobby(Vec<Arc<Door>>);

#[tonic::async_trait]
impl VerticalLink for Lobby {
    type ExchangeStream = ReceiverStream<Result<Frame, Status>>;

    async fn exchange(&self, request: Request<Streaming<Frame>>) -> Result<Response<Self::ExchangeStream>, Status> {
        let peer = tls::peer(&request)?;
        let Some(door) = self.0.iter().find(|door| door.expected == peer.name) else {
            let expected: Vec<&str> = self.0.iter().map(|door| door.expected.as_str()).collect();
            let sentence = format!("this line is for {}, not for {}", expected.join(", "), peer.name);
            return Err(Status::permission_denied(sentence));
        };
        if door.shut.load(Ordering::Relaxed) {
            return Err(Status::unavailable("the line is closed"));
        }
        let (out, outbound) = mpsc::channel(AHEAD);
        let line = Line::new(request.into_inner(), out, Ok, &door.meter, None);
        *door.waiting() = Some(line);
        door.came.notify_one();
        Ok(Response::new(ReceiverStream::new(outbound)))
    }
}
