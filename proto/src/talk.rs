//! Events on a stream in both directions, whatever they are.

use fedreg_common::session::PeerFault;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::status::stream_fault;
use crate::tls::{self, explain};

/// Writes what a caller is told, until the application or the server ends it.
pub(crate) async fn tell<E, W>(
    mut said: mpsc::Receiver<E>,
    out: mpsc::Sender<Result<W, Status>>,
    mut closed: watch::Receiver<bool>,
    frames: impl Fn(E) -> Vec<W>,
) {
    let mut closing = false;
    loop {
        let event = tokio::select! {
            biased;
            event = said.recv() => event,
            () = out.closed() => return,
            _ = closed.wait_for(|closing| *closing), if !closing => {
                closing = true;
                said.close();
                continue;
            }
        };
        let Some(event) = event else { return };
        for frame in frames(event) {
            if out.send(Ok(frame)).await.is_err() {
                return;
            }
        }
    }
}

/// Reads events to the end of a line. An application that no longer listens does not end it: it may still speak.
///
/// `fault` makes an event of what was wrong with what came, where that ended the line.
pub(crate) async fn pass_on<W, E>(
    mut inbound: Streaming<W>,
    heard: mpsc::Sender<E>,
    mut convert: impl FnMut(W) -> Result<Option<E>, PeerFault>,
    fault: fn(PeerFault) -> Option<E>,
    who: &str,
) {
    let found = loop {
        match inbound.message().await.map(|event| event.map(&mut convert)) {
            Ok(Some(Ok(Some(event)))) => drop(heard.send(event).await),
            Ok(Some(Ok(None))) => {}
            Ok(Some(Err(fault))) => break fault,
            Ok(None) => return,
            Err(status) => match stream_fault(&status) {
                Some(fault) => break fault,
                None => return tracing::debug!("the line to {who} is lost: {}", explain(&status)),
            },
        }
    };
    tracing::warn!("{who} {found}; its line is closed");
    if let Some(event) = fault(found) {
        drop(heard.send(event).await);
    }
}

/// Somebody on a line, seen from the coordinator.
#[derive(Debug)]
pub struct Caller<H, S> {
    /// The name in the certificate, one of those that the listener lets in.
    pub name: String,
    /// What the caller says; the end means that the line is lost, or that the caller left.
    pub hear: mpsc::Receiver<H>,
    /// What the caller is told; dropping it ends the line once everything is written.
    pub say: mpsc::Sender<S>,
}

/// Lets a caller in whose stream has come, with this number of events between us and the application in either direction.
pub(crate) async fn receive<W: Send + 'static, H: Send + 'static, S: Send + 'static, F: Send + 'static>(
    request: Request<Streaming<W>>,
    callers: &mpsc::Sender<Caller<H, S>>,
    closed: watch::Receiver<bool>,
    [waiting, queue]: [usize; 2],
    convert: impl FnMut(W) -> Result<Option<H>, PeerFault> + Send + 'static,
    fault: fn(PeerFault) -> Option<H>,
    frames: impl Fn(S) -> Vec<F> + Send + 'static,
) -> Result<Response<ReceiverStream<Result<F, Status>>>, Status> {
    let name = tls::peer(&request)?.name.clone();
    let who = name.clone();
    let (say, said) = mpsc::channel(queue);
    let (heard, hear) = mpsc::channel(waiting);
    callers.send(Caller { name, hear, say }).await.map_err(|_| about_to_end())?;
    tokio::spawn(async move { pass_on(request.into_inner(), heard, convert, fault, &who).await });
    let (out, outbound) = mpsc::channel(1);
    tokio::spawn(tell(said, out, closed, frames));
    Ok(Response::new(ReceiverStream::new(outbound)))
}

pub(crate) fn about_to_end() -> Status {
    Status::unavailable("the coordinator is about to end")
}
