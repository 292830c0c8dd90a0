//! The lines between the parties of a match and the coordinator that merges their lists, over gRPC, seen from both ends.
//!
//! They stand on the coordinator's port. A line's own liveness is HTTP/2's: a peer that answers no ping for half a minute is lost.

use std::time::Duration;

use fedreg_common::id::{Digest, Header, Role, RunId};
use fedreg_common::methods::vertical::message::{Body, Message};
use fedreg_common::secure::merging::{Known, List};
use fedreg_common::session::{Abort, PeerFault, Request};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Response, Status, Streaming};

pub use crate::convert::merge::{Announced, Answer, Asked, answer_frame, answered, asked};
use crate::convert::merge::{part, positions};
use crate::coordinator::answer;
use crate::limits::FRAME_BYTES;
use crate::link::{Complaints, Notice, OpenError};
use crate::star::Heard;
use crate::status::{not_connected, stream_fault};
use crate::talk;
use crate::tls::{self, HANDSHAKE_PATIENCE, Identity, explain};
use crate::wire;
use crate::wire::merger_client::MergerClient;
use crate::wire::merger_server::MergerServer;

/// Messages in either direction that wait for a slow reader; each has at most 256 KiB.
const QUEUE: usize = 2;
/// Between a line that was lost and the next one; doubled for as long as the coordinator says nothing new.
const PAUSE: Duration = Duration::from_millis(100);
const MOST_PAUSE: Duration = Duration::from_secs(2);

/// A party's line to the coordinator that merges lists.
///
/// Dropping it closes the line. One that is lost is opened again, and what was asked for in the pass is asked for again, with the same
/// bytes: the coordinator has kept nothing of it. Of its answers `heard` gets each once.
#[derive(Debug)]
pub struct Merging {
    /// What the coordinator is asked for.
    pub requests: mpsc::UnboundedSender<Request>,
    /// What it says, in its order; an abort is the last.
    pub heard: mpsc::Receiver<Result<Message, Abort>>,
}

/// A party on its line, seen from the coordinator.
pub type Caller = talk::Caller<Heard<Asked>, Answer>;

/// Where the coordinator is, and who asks it.
#[derive(Debug, Clone)]
pub struct Place {
    /// Its address (`host:port`).
    pub address: String,
    /// The name in its certificate.
    pub coordinator: String,
    /// The party.
    pub identity: Identity,
    /// The digest of its study.
    pub study: Digest,
    /// The run that it is in.
    pub run: RunId,
}

/// Opens lines to the coordinator: one for every list, and another one wherever one is lost.
pub fn open(place: Place) -> Merging {
    let (requests, requested) = mpsc::unbounded_channel();
    let (say, heard) = mpsc::channel(QUEUE);
    let line = Line { place, requested, say, sequence: 0, answered: false, complaints: Complaints::default() };
    tokio::spawn(line.run());
    Merging { requests, heard }
}

/// A list that the coordinator is to merge, and what has come of it.
struct Asking {
    pass: u32,
    list: List,
    /// Whether its positions are asked for.
    positions: watch::Sender<bool>,
    known: Known,
}

impl Asking {
    fn new(pass: u32, list: List, known: Known) -> Asking {
        Asking { pass, list, positions: watch::Sender::new(false), known }
    }

    /// Whether all that was asked for has come.
    fn is_complete(&self) -> bool {
        let positions = if *self.positions.borrow() { self.known.positions } else { 0 };
        self.known.count.is_some_and(|count| positions == count || !*self.positions.borrow())
    }

    /// Writes the list part by part as fast as the coordinator takes it, and then that its positions are wanted.
    async fn write(
        list: List,
        announced: Announced,
        mut wanted: watch::Receiver<bool>,
        out: mpsc::Sender<wire::MergeRequest>,
    ) {
        // A send fails when the connection has broken, which the reader shows.
        let mut open = out.send((&announced).into()).await.is_ok();
        for tags in list.parts() {
            open = open && out.send(part(tags)).await.is_ok();
            if !open {
                return;
            }
        }
        if wanted.wait_for(|wanted| *wanted).await.is_ok() {
            drop(out.send(positions(announced.pass)).await);
        }
        // The line stays: the coordinator serves the other party for as long as it is open.
        out.closed().await;
    }
}

/// How a line ended.
enum Ended {
    /// The party has left, or wants another list merged.
    Asked(Option<Request>),
    Lost(OpenError),
    Abort(Abort),
}

/// The party's end of its lines.
struct Line {
    place: Place,
    requested: mpsc::UnboundedReceiver<Request>,
    say: mpsc::Sender<Result<Message, Abort>>,
    /// The number of the next message.
    sequence: u64,
    /// Whether the coordinator has ever said anything.
    answered: bool,
    complaints: Complaints,
}

impl Line {
    async fn run(mut self) {
        let mut asked = self.requested.recv().await;
        while let Some(request) = asked {
            let Request::List { pass, list, known } = request else {
                let bug = Abort::Bug("positions were asked for without a list".to_owned());
                return drop(self.say.send(Err(bug)).await);
            };
            self.sequence = self.sequence.max(known.messages);
            asked = match self.pass(Asking::new(pass, list, known)).await {
                Ok(asked) => asked,
                // Fails only when the party does not listen any more.
                Err(abort) => return drop(self.say.send(Err(abort)).await),
            };
        }
    }

    /// Has a list merged, over as many lines as it takes; the request behind it, if there is one.
    async fn pass(&mut self, mut asking: Asking) -> Result<Option<Request>, Abort> {
        let (mut pause, mut first) = (PAUSE, true);
        loop {
            let before = asking.known;
            let lost = match self.line(&mut asking).await {
                Ended::Asked(request) => return Ok(request),
                Ended::Abort(abort) => return Err(abort),
                Ended::Lost(error) => error,
            };
            if let (OpenError::Refused(_), false) = (&lost, self.answered) {
                let waited = format!("the coordinator at {} is needed for the match", self.place.address);
                return Err(lost.in_vain(&waited, ""));
            }
            let moved = first || asking.known != before;
            first = false;
            pause = match asking.is_complete() {
                // The coordinator ends lines as soon as one party is behind the pass; where the other one lacks something, it asks again.
                true => MOST_PAUSE,
                false if moved => PAUSE,
                false => (2 * pause).min(MOST_PAUSE),
            };
            match &lost {
                OpenError::Unreachable(reason) if moved && !asking.is_complete() => {
                    let address = &self.place.address;
                    tracing::warn!("the line to the coordinator at {address} is lost: {reason}; opening it again");
                }
                OpenError::Unreachable(_) | OpenError::Unproven { .. } | OpenError::Refused(_) => {
                    self.complaints.note(&lost);
                }
            }
            let again = tokio::time::sleep(pause);
            tokio::pin!(again);
            loop {
                tokio::select! {
                    () = &mut again => break,
                    () = self.say.closed() => return Ok(None),
                    request = self.requested.recv() => match request {
                        Some(Request::Positions { pass }) if pass == asking.pass => drop(asking.positions.send_replace(true)),
                        other => return Ok(other),
                    },
                }
            }
        }
    }

    /// One line.
    async fn line(&mut self, asking: &mut Asking) -> Ended {
        let (mut inbound, _open) = {
            let opened = connect(self.place.clone(), asking);
            tokio::pin!(opened);
            loop {
                tokio::select! {
                    opened = &mut opened => match opened {
                        Ok(opened) => break opened,
                        Err(error) => return Ended::Lost(error),
                    },
                    () = self.say.closed() => return Ended::Asked(None),
                    request = self.requested.recv() => match request {
                        Some(Request::Positions { pass }) if pass == asking.pass => drop(asking.positions.send_replace(true)),
                        other => return Ended::Asked(other),
                    },
                }
            }
        };
        loop {
            tokio::select! {
                () = self.say.closed() => return Ended::Asked(None),
                request = self.requested.recv() => match request {
                    Some(Request::Positions { pass }) if pass == asking.pass => drop(asking.positions.send_replace(true)),
                    other => return Ended::Asked(other),
                },
                frame = inbound.message() => match frame {
                    Ok(Some(frame)) => if let Err(abort) = self.heard(asking, frame).await {
                        return Ended::Abort(abort);
                    },
                    Ok(None) => return Ended::Lost(OpenError::Unreachable("it was closed there".to_owned())),
                    Err(status) => return match stream_fault(&status) {
                        Some(fault) => Ended::Abort(faulty(fault)),
                        None => Ended::Lost(OpenError::Unreachable(explain(&status))),
                    },
                },
            }
        }
    }

    async fn heard(&mut self, asking: &mut Asking, frame: wire::MergeFrame) -> Result<(), Abort> {
        let merged = match answered(frame).map_err(faulty)? {
            Answer::Merged(merged) => merged,
            Answer::Notice(Notice { exit, sentence }) => {
                return Err(Abort::Remote { from: Role::Coordinator, exit, sentence });
            }
        };
        self.answered = true;
        let (pass, what) = (asking.pass + 1, merged.kind());
        // That of another pass is no matter of the line: the session refuses it.
        if merged.pass() == asking.pass
            && !asking.known.add(&merged).map_err(|expected| faulty(PeerFault::Match { pass, what, expected }))?
        {
            return Ok(());
        }
        let Place { study, run, .. } = self.place;
        let header = Header { study, run, sender: Role::Coordinator, sequence: self.sequence };
        self.sequence += 1;
        // Fails when the party does not listen any more, which ends the loop.
        drop(self.say.send(Ok(Message { header, body: Body::Merged(merged) })).await);
        Ok(())
    }
}

/// What closes a line when it is dropped.
type Open = (MergerClient<Channel>, AbortOnDrop);

/// Ends a task when it is dropped.
struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Opens a line and begins to write what is asked for.
fn connect(
    place: Place,
    asking: &Asking,
) -> impl Future<Output = Result<(Streaming<wire::MergeFrame>, Open), OpenError>> + use<> {
    let announced = Announced { study: place.study, run: place.run, pass: asking.pass, tags: asking.list.len() };
    let (list, wanted) = (asking.list.clone(), asking.positions.subscribe());
    async move {
        let Place { address, coordinator, identity, .. } = place;
        let connection = tls::dial(&identity, &address, &coordinator, HANDSHAKE_PATIENCE).await;
        let connection = connection.map_err(|error| not_connected(&error))?;
        let mut client = MergerClient::new(connection.channel).max_decoding_message_size(FRAME_BYTES);
        let (out, outbound) = mpsc::channel(QUEUE);
        let inbound = answer(&address, &coordinator, client.merge(ReceiverStream::new(outbound))).await?;
        let writer = AbortOnDrop(tokio::spawn(Asking::write(list, announced, wanted, out)));
        Ok((inbound, (client, writer)))
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
