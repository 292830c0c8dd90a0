//! What can happen on the line between two parties, whatever carries it.

use std::future::Future;
use std::time::Instant;

use fedreg_common::exit::Exit;
use fedreg_common::session::{Abort, PeerFault};
use thiserror::Error;

/// Why a side ended the run, as it tells the others: an exit code and one sentence without data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The code with which everybody exits.
    pub exit: Exit,
    /// The reason; what came from a peer is shortened and stripped of control characters.
    pub sentence: String,
}

/// What comes in over a line.
#[derive(Debug)]
pub enum Event<M> {
    /// A message, complete and checked.
    Message(M),
    /// A heartbeat.
    Alive,
    /// Parts of a message that is still coming.
    Part,
    /// The peer ends the run.
    Abort(Notice),
    /// The peer has all that it needs and will send nothing more.
    Bye,
    /// The peer sent what is not a message.
    Fault(PeerFault),
    /// The connection is gone.
    Lost(String),
}

/// One end of the line between two parties.
pub trait Link: Send {
    /// What goes out.
    type Outbound: Send + 'static;
    /// What comes in.
    type Inbound: Send + 'static;

    /// Opens the line, or opens it again after dropping the old one: one attempt when dialling, waiting for the peer
    /// when listening. Cancel safe.
    fn open(&mut self) -> impl Future<Output = Result<(), OpenError>> + Send;

    /// Hands a message over without waiting; dropped when the line is lost.
    fn send(&mut self, message: Self::Outbound);

    /// The next thing that comes in. Cancel safe. A lost line stays lost until it is opened.
    fn recv(&mut self) -> impl Future<Output = Event<Self::Inbound>> + Send;

    /// Tells the peer why the run ends, after everything handed over.
    fn abort(&mut self, notice: Notice);

    /// Says that we have all that we need, after everything handed over.
    fn bye(&mut self);

    /// Closes in good order, once everything handed over is written.
    fn close(&mut self) -> impl Future<Output = ()> + Send;

    /// Bytes of messages written so far.
    fn bytes_sent(&self) -> u64;

    /// When the last of them were written; of no meaning before.
    fn sent_at(&self) -> Instant;
}

/// Why a line did not open.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OpenError {
    /// Nobody answered; trying again may help.
    #[error("{0}")]
    Unreachable(String),
    /// The handshake failed, and nobody has proved who it is: anyone who is on the way can have spoiled it. Trying again may
    /// help, and a user who has mixed up files must hear of it at once.
    #[error("{sentence}")]
    Unproven {
        /// What is wrong.
        sentence: String,
        /// Whether it is over a certificate, which is then how a wait in vain ends.
        refused: bool,
    },
    /// A peer that has proved who it is refused, or is the wrong one; or our own files are. Trying again is no use.
    #[error("{0}")]
    Refused(String),
}

impl OpenError {
    /// The exit code for a process that ends because of this.
    pub fn exit(&self) -> Exit {
        match self {
            OpenError::Unreachable(_) | OpenError::Unproven { refused: false, .. } => Exit::Unreachable,
            OpenError::Refused(_) | OpenError::Unproven { refused: true, .. } => Exit::Refused,
        }
    }

    /// How a wait ends that this was the last failure of; `waited` says who waited how long for whom, `hint` what to look at
    /// where nobody was reached.
    pub fn in_vain(self, waited: &str, hint: &str) -> Abort {
        match (&self, self.exit() == Exit::Refused) {
            (_, true) => Abort::Refused(format!("{waited}; {self}")),
            (OpenError::Unreachable(_), false) => Abort::Unreachable(format!("{waited}; {self}; {hint}")),
            (_, false) => Abort::Unreachable(format!("{waited}; {self}")),
        }
    }
}

/// Says at once why lines do not open, each reason once until another comes.
#[derive(Debug, Default)]
pub struct Complaints {
    last: Option<String>,
}

impl Complaints {
    /// Takes note of a failure after which the line is tried again.
    pub fn note(&mut self, error: &OpenError) {
        match error {
            OpenError::Unreachable(sentence) => tracing::debug!("cannot be reached: {sentence}"),
            OpenError::Unproven { sentence, .. } | OpenError::Refused(sentence) => {
                if self.last.as_ref() != Some(sentence) {
                    tracing::warn!("{sentence}; trying again");
                    self.last = Some(sentence.clone());
                }
            }
        }
    }
}
