//! Events on a stream in both directions, whatever they are.

use fedreg_common::session::PeerFault;
use tokio::sync::{mpsc, watch};
use tonic::{Status, Streaming};

use crate::status::stream_fault;
use crate::tls::explain;

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
/// Gives what was wrong with what came, where that ended the line.
pub(crate) async fn pass_on<W, E>(
    mut inbound: Streaming<W>,
    heard: mpsc::Sender<E>,
    mut convert: impl FnMut(W) -> Result<Option<E>, PeerFault>,
    who: &str,
) -> Option<PeerFault> {
    loop {
        let fault = match inbound.message().await {
            Ok(Some(event)) => match convert(event) {
                Ok(Some(event)) => {
                    drop(heard.send(event).await);
                    continue;
                }
                Ok(None) => continue,
                Err(fault) => fault,
            },
            Ok(None) => return None,
            Err(status) => match stream_fault(&status) {
                Some(fault) => fault,
                None => {
                    tracing::debug!("the line to {who} is lost: {}", explain(&status));
                    return None;
                }
            },
        };
        tracing::warn!("{who} {fault}; its line is closed");
        return Some(fault);
    }
}
