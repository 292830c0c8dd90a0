//! The lines between the parties of a sealed study and the dealer over gRPC, seen from both ends.
//!
//! The dealer is the coordinator, and its lines stand on the coordinator's port; or a process of its own. A line's own liveness is HTTP/2's: a peer that answers
//! no ping for half a minute is lost.

use fedreg_common::id::{Digest, Header, Role, RunId};
use fedreg_common::methods::vertical::message::{Body, Message};
use fedreg_common::session::{Abort, Order, PeerFault};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::{ReceiverStream, UnboundedReceiverStream};
use tonic::service::Routes;
use tonic::{Request, Response, Status, Streaming};

use crate::BoxFuture;
pub use crate::convert::dealer::{Answer, AnswerDecoder, Ordered, answer_frames, ordered};
use crate::coordinator::{self, ServeError, answer};
use crate::health::HealthService;
use crate::limits::{EVENT_WINDOW_BYTES, FRAME_BYTES, ORDER_BYTES};
use crate::link::{Notice, OpenError};
use crate::star::Heard;
use crate::status::{not_connected, stream_fault};
use crate::talk;
use crate::tls::{self, HANDSHAKE_PATIENCE, Identity, Listener, explain};
use crate::wire;
use crate::wire::dealer_client::DealerClient;
use crate::wire::dealer_server::DealerServer;

/// Messages of the dealer that wait for a slow reader. One may be as large as the largest table.
const HEARD: usize = 2;
/// Orders, and answers, that wait to be taken at the dealer's end.
const QUEUE: usize = 8;

/// A party's line to the dealer.
///
/// Dropping it closes the line. A line that ends before everything ordered has come ends `heard` with an abort.
#[derive(Debug)]
pub struct Dealing {
    /// Orders to the dealer.
    pub orders: mpsc::UnboundedSender<Order>,
    /// What the dealer sends, as messages of the coordinator in their order; an abort is the last.
    pub heard: mpsc::Receiver<Result<Message, Abort>>,
}

/// A party on its line, seen from the dealer.
pub type Caller = talk::Caller<Heard<Ordered>, Answer>;

/// Opens the line to the dealer at `address` (`host:port`), whose certificate carries the name `dealer`.
///
/// # Errors
/// Nobody answers, or a certificate was refused.
pub fn open<'a>(
    address: &'a str,
    identity: &'a Identity,
    dealer: &'a str,
    study: Digest,
    run: RunId,
) -> BoxFuture<'a, Result<Dealing, OpenError>> {
    Box::pin(opened(address, identity, dealer, study, run))
}

async fn opened(
    address: &str,
    identity: &Identity,
    dealer: &str,
    study: Digest,
    run: RunId,
) -> Result<Dealing, OpenError> {
    let connection =
        tls::dial(identity, address, dealer, HANDSHAKE_PATIENCE).await.map_err(|error| not_connected(&error))?;
    let mut client = DealerClient::new(connection.channel).max_decoding_message_size(FRAME_BYTES);
    let (out, outbound) = mpsc::unbounded_channel();
    let inbound = answer(address, dealer, client.deal(UnboundedReceiverStream::new(outbound))).await?;
    let (orders, ordered) = mpsc::unbounded_channel();
    let (say, heard) = mpsc::channel(HEARD);
    let line = Line {
        address: address.to_owned(),
        study,
        run,
        ordered,
        out: Some(out),
        inbound,
        decoder: AnswerDecoder::default(),
        say,
        sequence: 0,
    };
    tokio::spawn(async move {
        line.run().await;
        drop(client);
    });
    Ok(Dealing { orders, heard })
}

/// The party's end of a line.
struct Line {
    address: String,
    study: Digest,
    run: RunId,
    ordered: mpsc::UnboundedReceiver<Order>,
    /// None once the party has nothing more to order.
    out: Option<mpsc::UnboundedSender<wire::DealerOrder>>,
    inbound: Streaming<wire::DealerFrame>,
    decoder: AnswerDecoder,
    say: mpsc::Sender<Result<Message, Abort>>,
    sequence: u64,
}

impl Line {
    async fn run(mut self) {
        let abort = loop {
            tokio::select! {
                () = self.say.closed() => return,
                order = self.ordered.recv(), if self.out.is_some() => self.order(order),
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

    fn order(&mut self, order: Option<Order>) {
        let Some(order) = order else {
            self.out = None;
            return;
        };
        self.decoder.order(order);
        if let Some(out) = &self.out {
            let ordered = Ordered { study: self.study, run: self.run, order };
            // Fails when the connection has broken, which the next frame shows.
            drop(out.send((&ordered).into()));
        }
    }

    async fn heard(&mut self, frame: wire::DealerFrame) -> Result<(), Abort> {
        let dealt = match self.decoder.push(frame).map_err(faulty)? {
            None | Some(Answer::Computed) => return Ok(()),
            Some(Answer::Dealt(dealt)) => dealt,
            Some(Answer::Notice(Notice { exit, sentence })) => {
                return Err(Abort::Remote { from: Role::Coordinator, exit, sentence });
            }
        };
        let header = Header { study: self.study, run: self.run, sender: Role::Coordinator, sequence: self.sequence };
        self.sequence += 1;
        // Fails when the party does not listen any more, which ends the loop.
        drop(self.say.send(Ok(Message { header, body: Body::Dealt(dealt) })).await);
        Ok(())
    }

    /// Ends `heard` once something is missing: a party that has all that it ordered can go on until it orders more.
    async fn lost(mut self, reason: &str) {
        if self.decoder.is_complete() {
            tokio::select! {
                () = self.say.closed() => return,
                order = self.ordered.recv() => if order.is_none() {
                    return;
                },
            }
        }
        let sentence = format!(
            "the line to the dealer at {} is lost: {reason}; the run cannot go on without it: start again what has ended of dealer, \
             coordinator and parties",
            self.address
        );
        drop(self.say.send(Err(Abort::Unreachable(sentence))).await);
    }
}

fn faulty(fault: PeerFault) -> Abort {
    Abort::Peer { peer: Role::Coordinator, fault }
}

/// The dealer on the coordinator's port.
pub(crate) fn service(
    dealing: mpsc::Sender<Caller>,
    closed: watch::Receiver<bool>,
) -> DealerServer<impl wire::dealer_server::Dealer> {
    DealerServer::new(Service { dealing, closed }).max_decoding_message_size(ORDER_BYTES)
}

/// Serves a dealer apart from the coordinator.
///
/// # Errors
/// The server cannot go on.
pub fn serve_alone(
    listener: Listener,
    dealing: mpsc::Sender<Caller>,
    shutdown: BoxFuture<'static, ()>,
) -> BoxFuture<'static, Result<(), ServeError>> {
    let (closing, closed) = watch::channel(false);
    let routes = Routes::new(service(dealing, closed)).add_service(HealthService::server());
    coordinator::run(listener, routes, EVENT_WINDOW_BYTES, closing, shutdown)
}

struct Service {
    dealing: mpsc::Sender<Caller>,
    closed: watch::Receiver<bool>,
}

#[tonic::async_trait]
impl wire::dealer_server::Dealer for Service {
    type DealStream = ReceiverStream<Result<wire::DealerFrame, Status>>;

    async fn deal(&self, request: Request<Streaming<wire::DealerOrder>>) -> Result<Response<Self::DealStream>, Status> {
        let convert = |order| ordered(order).map(|ordered| Some(Heard::Message(ordered)));
        let fault = |fault| Some(Heard::Fault(fault));
        talk::receive(request, &self.dealing, self.closed.clone(), [QUEUE; 2], convert, fault, answer_frames).await
    }
}
