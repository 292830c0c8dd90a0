//! The lines between the parties of a match and the coordinator that merges their lists, over gRPC, seen from both ends.
//!
//! They stand on the coordinator's port. A line's own liveness is HTTP/2's: a peer that answers no ping for half a minute is lost.

use fedreg_common::id::{Digest, Header, Role, RunId};
use fedreg_common::methods::vertical::message::{Body, Message};
use fedreg_common::secure::merging::Merged;
use fedreg_common::session::{Abort, PeerFault, Request};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Response, Status, Streaming};

pub use crate::convert::merge::{Announced, Answer, Asked, answer_frame, answered, asked};
use crate::convert::merge::{part, positions};
use crate::coordinator::answer;
use crate::limits::FRAME_BYTES;
use crate::link::{Notice, OpenError};
use crate::star::Heard;
use crate::status::{not_connected, stream_fault};
use crate::talk;
use crate::tls::{self, HANDSHAKE_PATIENCE, Identity, explain};
use crate::wire;
use crate::wire::merger_client::MergerClient;
use crate::wire::merger_server::MergerServer;

/// Messages in either direction that wait for a slow reader; each has at most 256 KiB.
const QUEUE: usize = 2;

/// A party's line to the coordinator that merges lists.
///
/// Dropping it closes the line. A line that ends before everything asked for has come ends `heard` with an abort.
#[derive(Debug)]
pub struct Merging {
    /// What the coordinator is asked for.
    pub requests: mpsc::UnboundedSender<Request>,
    /// What it says, in its order; an abort is the last.
    pub heard: mpsc::Receiver<Result<Message, Abort>>,
}

/// A party on its line, seen from the coordinator.
pub type Caller = talk::Caller<Heard<Asked>, Answer>;

/// Opens the line to the coordinator at `address` (`host:port`), whose certificate carries the name `coordinator`.
///
/// # Errors
/// Nobody answers, or a certificate was refused.
pub async fn open(
    address: &str,
    identity: &Identity,
    coordinator: &str,
    study: Digest,
    run: RunId,
) -> Result<Merging, OpenError> {
    let connection =
        tls::dial(identity, address, coordinator, HANDSHAKE_PATIENCE).await.map_err(|error| not_connected(&error))?;
    let mut client = MergerClient::new(connection.channel).max_decoding_message_size(FRAME_BYTES);
    let (out, outbound) = mpsc::channel(QUEUE);
    let inbound = answer(address, coordinator, client.merge(ReceiverStream::new(outbound))).await?;
    let (requests, requested) = mpsc::unbounded_channel();
    let (say, heard) = mpsc::channel(QUEUE);
    let (asks, asked) = watch::channel(0);
    let writer = tokio::spawn(write(requested, out, asks, study, run));
    let line =
        Line { address: address.to_owned(), study, run, inbound, asked, answered: 0, count: None, say, sequence: 0 };
    tokio::spawn(async move {
        line.run().await;
        writer.abort();
        drop(client);
    });
    Ok(Merging { requests, heard })
}

/// Writes requests, a list part by part as fast as the coordinator takes it.
async fn write(
    mut requested: mpsc::UnboundedReceiver<Request>,
    out: mpsc::Sender<wire::MergeRequest>,
    asks: watch::Sender<u64>,
    study: Digest,
    run: RunId,
) {
    // A send fails when the connection has broken, which the reader shows.
    while let Some(request) = requested.recv().await {
        asks.send_modify(|asks| *asks += 1);
        match request {
            Request::List { pass, list } => {
                let announced = Announced { study, run, pass, tags: list.len() };
                drop(out.send((&announced).into()).await);
                for tags in list.parts() {
                    if out.send(part(tags)).await.is_err() {
                        break;
                    }
                }
            }
            Request::Positions { pass } => drop(out.send(positions(pass)).await),
        }
    }
}

/// The party's end of a line.
struct Line {
    address: String,
    study: Digest,
    run: RunId,
    inbound: Streaming<wire::MergeFrame>,
    /// Requests so far.
    asked: watch::Receiver<u64>,
    /// How many of these have all their answers.
    answered: u64,
    /// Positions of the last count.
    count: Option<u64>,
    say: mpsc::Sender<Result<Message, Abort>>,
    sequence: u64,
}

impl Line {
    async fn run(mut self) {
        let abort = loop {
            tokio::select! {
                () = self.say.closed() => return,
                frame = self.inbound.message() => {
                    let end = match frame {
                        Ok(Some(frame)) => self.heard(frame).await.err(),
                        Ok(None) => return self.lost("it was closed there").await,
                        Err(status) => match stream_fault(&status) {
                            Some(fault) => Some(faulty(fault)),
                            None => return self.lost(&explain(&status)).await,
                        },
                    };
                    if let Some(abort) = end {
                        break abort;
                    }
                }
            }
        };
        // Fails only when the party does not listen any more.
        drop(self.say.send(Err(abort)).await);
    }

    async fn heard(&mut self, frame: wire::MergeFrame) -> Result<(), Abort> {
        let merged = match answered(frame).map_err(faulty)? {
            Answer::Merged(merged) => merged,
            Answer::Notice(Notice { exit, sentence }) => {
                return Err(Abort::Remote { from: Role::Coordinator, exit, sentence });
            }
        };
        match &merged {
            Merged::Passed { .. } => {}
            Merged::Count { count, .. } => {
                self.count = Some(*count);
                self.answered += 1;
            }
            Merged::Positions { first, positions, .. } => {
                self.answered += u64::from(self.count == Some(first.saturating_add(positions.len() as u64)));
            }
        }
        let header = Header { study: self.study, run: self.run, sender: Role::Coordinator, sequence: self.sequence };
        self.sequence += 1;
        // Fails when the party does not listen any more, which ends the loop.
        drop(self.say.send(Ok(Message { header, body: Body::Merged(merged) })).await);
        Ok(())
    }

    /// Ends `heard` once something is missing: a party that has all that it asked for can go on until it asks for more.
    async fn lost(mut self, reason: &str) {
        let answered = self.answered;
        tokio::select! {
            () = self.say.closed() => return,
            more = self.asked.wait_for(|asked| *asked > answered) => if more.is_err() {
                return;
            },
        }
        let sentence = format!(
            "the line to the coordinator at {} is lost: {reason}; a match through it cannot go on without it, start it again on both sides",
            self.address
        );
        drop(self.say.send(Err(Abort::Unreachable(sentence))).await);
    }
}

fn faulty(fault: PeerFault) -> Abort {
    Abort::Peer { peer: Role::Coordinator, fault }
}

/// The merger on the coordinator's port; every line on which a party sends lists goes to `merging`.
pub(crate) fn service(
    merging: mpsc::Sender<Caller>,
    closed: watch::Receiver<bool>,
) -> MergerServer<impl wire::merger_server::Merger> {
    MergerServer::new(Service { merging, closed }).max_decoding_message_size(FRAME_BYTES)
}

struct Service {
    merging: mpsc::Sender<Caller>,
    closed: watch::Receiver<bool>,
}

#[tonic::async_trait]
impl wire::merger_server::Merger for Service {
    type MergeStream = ReceiverStream<Result<wire::MergeFrame, Status>>;

    async fn merge(
        &self,
        request: tonic::Request<Streaming<wire::MergeRequest>>,
    ) -> Result<Response<Self::MergeStream>, Status> {
        let convert = |request| asked(request).map(|asked| Some(Heard::Message(asked)));
        let fault = |fault| Some(Heard::Fault(fault));
        let frames = |answer| vec![answer_frame(answer)];
        talk::receive(request, &self.merging, self.closed.clone(), [QUEUE; 2], convert, fault, frames).await
    }
}
