//! The lines between the parties and the coordinator over gRPC, seen from both ends.
//!
//! A line's own liveness is HTTP/2's: a peer that answers no ping for half a minute is lost.

use crate::BoxFuture;
use crate::convert::{Wire, coordinator_event, party_event, status_reply};
use crate::health::HealthService;
use crate::limits::{EVENT_BYTES, EVENT_WINDOW_BYTES, SENTENCE_CHARACTERS};
use crate::link::OpenError;
use crate::register::{CoordinatorEvent, PartyEvent, StatusReply};
use crate::status::{not_answered, not_connected};
use crate::talk::{self, pass_on};
use crate::tls::{self, HANDSHAKE_PATIENCE, Identity, Listener, explain, printable_within};
use crate::wire;
use crate::wire::coordinator_client::CoordinatorClient;
use crate::wire::coordinator_server::{Coordinator, CoordinatorServer};
use fedreg_common::id::Digest;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::Routes;
use tonic::{Request, Response, Status, Streaming};

/// Events that wait for a slow reader before the sender waits too.
const QUEUE: usize = 64;
/// Events of a party that wait to be taken; each may be as large as a whole study's keys.
const HEARD: usize = 2;
/// How long the server stays for lines that do not end.
const FAREWELL: Duration = Duration::from_secs(2);

/// A party's line to the coordinator.
///
/// To leave in good order drop `say` and hear to the end: what was said has then arrived.
#[derive(Debug)]
pub struct Joined {
    /// What the party says.
    pub say: mpsc::Sender<PartyEvent>,
    /// What it hears; the end means that the line is lost, or that the coordinator left.
    pub hear: mpsc::Receiver<CoordinatorEvent>,
}

/// A party on its line, seen from the coordinator.
pub type Caller = talk::Caller<PartyEvent, CoordinatorEvent>;

/// The coordinator's server ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the coordinator's server ended: {0}")]
pub struct ServeError(String);

/// Opens a line to the coordinator at `address` (`host:port`), whose certificate carries the name `coordinator`.
///
/// # Errors
/// Nobody answers, or a certificate was refused.
pub fn join<'a>(
    address: &'a str,
    identity: &'a Identity,
    coordinator: &'a str,
) -> BoxFuture<'a, Result<Joined, OpenError>> {
    Box::pin(joined(address, identity, coordinator))
}

async fn joined(address: &str, identity: &Identity, coordinator: &str) -> Result<Joined, OpenError> {
    let mut client = client(address, identity, coordinator).await?;
    let (say, said) = mpsc::channel(QUEUE);
    let (heard, hear) = mpsc::channel(QUEUE);
    let said = ReceiverStream::new(said).map(|event: PartyEvent| wire::PartyEvent::from(&event));
    let inbound = answer(address, coordinator, client.join(said)).await?;
    let who = format!("the coordinator at {address}");
    tokio::spawn(async move {
        pass_on(inbound, heard, |event| coordinator_event(event).map(Some), |_| None, &who).await;
        drop(client);
    });
    Ok(Joined { say, hear })
}

/// Asks the coordinator how far the run is.
///
/// # Errors
/// As [`join`].
pub fn status<'a>(
    address: &'a str,
    identity: &'a Identity,
    coordinator: &'a str,
) -> BoxFuture<'a, Result<StatusReply, OpenError>> {
    Box::pin(async move {
        let mut client = client(address, identity, coordinator).await?;
        let reply = answer(address, coordinator, client.status(wire::StatusRequest {})).await?;
        status_reply(reply).map_err(|fault| OpenError::Refused(format!("{coordinator} at {address} {fault}")))
    })
}

/// Asks the coordinator to end a run between workers with what has come: whether it did, and what became of it.
///
/// # Errors
/// As [`join`].
pub fn finish<'a>(
    address: &'a str,
    identity: &'a Identity,
    coordinator: &'a str,
    study: Digest,
) -> BoxFuture<'a, Result<(bool, String), OpenError>> {
    Box::pin(async move {
        let mut client = client(address, identity, coordinator).await?;
        let request = wire::FinishRequest { study: study.to_wire() };
        let reply = answer(address, coordinator, client.finish(request)).await?;
        Ok((reply.closed, printable_within(&reply.sentence, SENTENCE_CHARACTERS)))
    })
}

async fn client(
    address: &str,
    identity: &Identity,
    coordinator: &str,
) -> Result<CoordinatorClient<tonic::transport::Channel>, OpenError> {
    let connection =
        tls::dial(identity, address, coordinator, HANDSHAKE_PATIENCE).await.map_err(|error| not_connected(&error))?;
    Ok(CoordinatorClient::new(connection.channel).max_decoding_message_size(EVENT_BYTES))
}

pub(crate) async fn answer<T>(
    address: &str,
    coordinator: &str,
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, OpenError> {
    let who = format!("{coordinator} at {address}");
    match timeout(HANDSHAKE_PATIENCE, call).await {
        Ok(Ok(response)) => Ok(response.into_inner()),
        Ok(Err(status)) => Err(not_answered(&who, &status)),
        Err(_) => Err(OpenError::Unreachable(format!("{who} does not answer"))),
    }
}

/// Serves the coordinator until `shutdown`; every line that a party opens goes to `callers`.
///
/// Events handed over before the shutdown are written. Ends at most two seconds after it.
///
/// # Errors
/// The server cannot go on.
pub fn serve(
    listener: Listener,
    callers: mpsc::Sender<Caller>,
    status: watch::Receiver<StatusReply>,
    shutdown: BoxFuture<'static, ()>,
) -> BoxFuture<'static, Result<(), ServeError>> {
    let (closing, closed) = watch::channel(false);
    let service = Arc::new(RunService { callers, status, closed });
    run(listener, routes(service), EVENT_WINDOW_BYTES, closing, shutdown)
}

/// What every coordinator answers.
pub(crate) fn routes(service: Arc<impl Coordinator>) -> Routes {
    let coordinator = CoordinatorServer::from_arc(service).max_decoding_message_size(EVENT_BYTES);
    Routes::new(coordinator).add_service(HealthService::server())
}

/// Runs the server of a coordinator until `shutdown`, and a little longer for what is still to be written.
pub(crate) fn run(
    listener: Listener,
    routes: Routes,
    window: u32,
    closing: watch::Sender<bool>,
    shutdown: BoxFuture<'static, ()>,
) -> BoxFuture<'static, Result<(), ServeError>> {
    let mut stop = closing.subscribe();
    let router =
        tls::server().initial_stream_window_size(window).initial_connection_window_size(window).add_routes(routes);
    let stopped = Box::pin(async move { drop(stop.wait_for(|closing| *closing).await) });
    let mut server = tls::serve(router, listener, stopped);
    Box::pin(async move {
        let served = tokio::select! {
            served = &mut server => served,
            () = shutdown => {
                closing.send_replace(true);
                timeout(FAREWELL, server).await.unwrap_or(Ok(()))
            }
        };
        served.map_err(|error| ServeError(explain(&error)))
    })
}

/// What a coordinator between two parties answers.
pub(crate) struct RunService {
    pub(crate) callers: mpsc::Sender<Caller>,
    pub(crate) status: watch::Receiver<StatusReply>,
    pub(crate) closed: watch::Receiver<bool>,
}

#[tonic::async_trait]
impl Coordinator for RunService {
    type JoinStream = ReceiverStream<Result<wire::CoordinatorEvent, Status>>;

    async fn join(&self, request: Request<Streaming<wire::PartyEvent>>) -> Result<Response<Self::JoinStream>, Status> {
        let convert = |event| party_event(event).map(Some);
        let frames = |event| vec![wire::CoordinatorEvent::from(&event)];
        talk::receive(request, &self.callers, self.closed.clone(), [HEARD, QUEUE], convert, |_| None, frames).await
    }

    async fn status(&self, _request: Request<wire::StatusRequest>) -> Result<Response<wire::StatusReply>, Status> {
        let reply = wire::StatusReply::from(&*self.status.borrow());
        Ok(Response::new(reply))
    }

    async fn finish(&self, _request: Request<wire::FinishRequest>) -> Result<Response<wire::FinishReply>, Status> {
        Err(Status::failed_precondition(
            "a run of alice and bob has no quorum that it could be closed with; Ctrl-C ends it",
        ))
    }
}
