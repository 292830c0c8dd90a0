//! The lines between sites and the hub over gRPC, seen from both ends.
//!
//! Sites dial out only. A line's own liveness is HTTP/2's: a peer that answers no ping for half a minute is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fedreg_common::id::Digest;
use fedreg_common::privacy::release::Released;
use fedreg_common::session::PeerFault;
use fedreg_common::star::message::{Body, ToHub, ToSite};
use prost::Message as _;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::BoxFuture;
use crate::convert::Wire;
pub use crate::convert::star::{BodyLimits, body_from_bytes, body_to_bytes};
use crate::convert::star::{SiteDecoder, site_frames, to_hub};
use crate::coordinator::{self, ServeError, answer};
use crate::limits::{EVENT_BYTES, EVENT_WINDOW_BYTES, FRAME_BYTES};
use crate::link::OpenError;
use crate::register::StatusReply;
use crate::status::not_connected;
use crate::talk::{self, about_to_end, pass_on};
use crate::tls::{self, HANDSHAKE_PATIENCE, Identity, Listener, WINDOW_BYTES};
use crate::wire;
use crate::wire::coordinator_server::Coordinator;
use crate::wire::star_client::StarClient;
use crate::wire::star_server::{Star, StarServer};

/// Messages to a site that wait for a slow reader.
const QUEUE: usize = 64;
/// Bytes of messages from a site that wait to be taken.
const WAITING_BYTES: usize = 4 << 20;

/// A site's line to the hub.
///
/// To leave in good order drop `say` and hear to the end: what was said has then arrived.
#[derive(Debug)]
pub struct SiteLine {
    /// What the site says.
    pub say: mpsc::Sender<ToHub<Released<Body>>>,
    /// What it hears; the end means that the line is lost, or that the hub closed it.
    pub hear: mpsc::Receiver<Heard<ToSite>>,
}

/// What a line brings.
#[derive(Debug, Clone, PartialEq)]
pub enum Heard<M> {
    /// A message, complete and checked.
    Message(M),
    /// Something that is no message; the line is closed.
    Fault(PeerFault),
}

/// A site on its line, seen from the hub.
pub type Caller = talk::Caller<Heard<ToHub>, ToSite>;

/// Somebody asks for the end of the run.
#[derive(Debug)]
pub struct Closing {
    /// The name in the certificate, one of those that the listener lets in.
    pub name: String,
    /// Digest of the study whose run is to end.
    pub study: Digest,
    /// Takes whether the run was closed, and what became of it.
    pub answer: oneshot::Sender<(bool, String)>,
}

/// Opens a line to the hub at `address` (`host:port`), whose certificate carries the name `hub`. Bytes of messages that
/// leave are added to `sent`.
///
/// # Errors
/// Nobody answers, or a certificate was refused.
pub fn dial<'a>(
    address: &'a str,
    identity: &'a Identity,
    hub: &'a str,
    limits: BodyLimits,
    sent: &'a Arc<AtomicU64>,
) -> BoxFuture<'a, Result<SiteLine, OpenError>> {
    Box::pin(dialled(address, identity, hub, limits, sent))
}

async fn dialled(
    address: &str,
    identity: &Identity,
    hub: &str,
    limits: BodyLimits,
    sent: &Arc<AtomicU64>,
) -> Result<SiteLine, OpenError> {
    let connection =
        tls::dial(identity, address, hub, HANDSHAKE_PATIENCE).await.map_err(|error| not_connected(&error))?;
    let frame = FRAME_BYTES.max(EVENT_BYTES).max(limits.frame_bytes());
    let mut client = StarClient::new(connection.channel).max_decoding_message_size(frame);
    let (say, said) = mpsc::channel(QUEUE);
    let (heard, hear) = mpsc::channel(QUEUE);
    let counter = Arc::clone(sent);
    let said = ReceiverStream::new(said).map(move |message: ToHub<Released<Body>>| {
        let frame = wire::ToHub::from(&message);
        counter.fetch_add(frame.encoded_len() as u64, Ordering::Relaxed);
        frame
    });
    let inbound = answer(address, hub, client.take(said)).await?;
    let who = format!("{hub} at {address}");
    tokio::spawn(async move {
        let mut decoder = SiteDecoder::new(limits);
        let convert = |frame| Ok(decoder.push(frame)?.map(Heard::Message));
        pass_on(inbound, heard, convert, |fault| Some(Heard::Fault(fault)), &who).await;
        drop(client);
    });
    Ok(SiteLine { say, hear })
}

/// Serves the hub until `shutdown`; every line that a site opens goes to `callers`, and every wish to end the run to `closings`.
///
/// Messages handed over before the shutdown are written. Ends at most two seconds after it.
///
/// # Errors
/// The server cannot go on.
pub fn serve(
    listener: Listener,
    callers: mpsc::Sender<Caller>,
    closings: mpsc::Sender<Closing>,
    status: watch::Receiver<StatusReply>,
    limits: BodyLimits,
    shutdown: BoxFuture<'static, ()>,
) -> BoxFuture<'static, Result<(), ServeError>> {
    let (closing, closed) = watch::channel(false);
    let frame = EVENT_BYTES.max(limits.frame_bytes());
    // One frame may be on its way while another is decoded.
    let window = u32::try_from(frame).unwrap_or(u32::MAX).clamp(EVENT_WINDOW_BYTES, WINDOW_BYTES);
    let service = Arc::new(RunService { callers, closings, status, closed, limits });
    let star = StarServer::from_arc(Arc::clone(&service)).max_decoding_message_size(frame);
    coordinator::run(listener, coordinator::routes(service).add_service(star), window, closing, shutdown)
}

struct RunService {
    callers: mpsc::Sender<Caller>,
    closings: mpsc::Sender<Closing>,
    status: watch::Receiver<StatusReply>,
    closed: watch::Receiver<bool>,
    limits: BodyLimits,
}

#[tonic::async_trait]
impl Star for RunService {
    type TakeStream = ReceiverStream<Result<wire::ToSite, Status>>;

    async fn take(&self, request: Request<Streaming<wire::ToHub>>) -> Result<Response<Self::TakeStream>, Status> {
        let limits = self.limits;
        let queues = [(WAITING_BYTES / limits.frame_bytes()).clamp(1, QUEUE), QUEUE];
        let convert = move |frame| to_hub(frame, limits).map(|message| Some(Heard::Message(message)));
        let fault = |fault| Some(Heard::Fault(fault));
        talk::receive(request, &self.callers, self.closed.clone(), queues, convert, fault, site_frames).await
    }
}

#[tonic::async_trait]
impl Coordinator for RunService {
    type JoinStream = ReceiverStream<Result<wire::CoordinatorEvent, Status>>;

    async fn join(&self, _request: Request<Streaming<wire::PartyEvent>>) -> Result<Response<Self::JoinStream>, Status> {
        Err(Status::failed_precondition("this coordinator serves a study with workers, not with alice and bob"))
    }

    async fn status(&self, _request: Request<wire::StatusRequest>) -> Result<Response<wire::StatusReply>, Status> {
        Ok(Response::new(wire::StatusReply::from(&*self.status.borrow())))
    }

    async fn finish(&self, request: Request<wire::FinishRequest>) -> Result<Response<wire::FinishReply>, Status> {
        let name = tls::peer(&request)?.name.clone();
        let study = Wire::from_wire(request.into_inner().study, "the digest of a study")
            .map_err(|fault| Status::invalid_argument(fault.to_string()))?;
        let (answer, answered) = oneshot::channel();
        self.closings.send(Closing { name, study, answer }).await.map_err(|_| about_to_end())?;
        let (closed, sentence) = answered.await.map_err(|_| about_to_end())?;
        Ok(Response::new(wire::FinishReply { closed, sentence }))
    }
}
