//! What can happen on the line between two parties, whatever carries it.

use fedreg_common::exit::Exit;
use fedreg_common::session::PeerFault;
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
    /// A heartbeat, or parts of a message that is still coming.
    Alive,
    /// The peer ends the run.
    Abort(Notice),
    /// The peer has all that it needs and will send nothing more.
    Bye,
    /// The peer sent what is not a message.
    Fault(PeerFault),
    /// The connection is gone.
    Lost(String),
}

/// Why a line did not open.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OpenError {
    /// Nobody answered; trying again may help.
    #[error("{0}")]
    Unreachable(String),
    /// A certificate or a name was refused, here or there; trying again is no use.
    #[error("{0}")]
    Refused(String),
}
