//! What all protocols share: a session is a value that is fed messages and says what to do next.
//!
//! A session owns the order of a protocol and nothing else: no socket, no clock, no thread. The same value runs under
//! gRPC, under the simulated network and under the fuzzer, and gives the same bits.
//!
//! Every message carries the study's digest, the run, the sender and a sequence number. A number that is expected is
//! processed; one that was answered before gets the same answer again, byte for byte and never recomputed; one that is
//! ahead ends the session.

use std::time::Duration;

use thiserror::Error;

use crate::exit::Exit;
use crate::id::Role;
use crate::privacy::ledger::LedgerError;
use crate::privacy::mechanism::ReleaseError;
pub use crate::secure::dealing::Order;
pub use crate::secure::merging::Request;

/// What a session wants after it was fed.
#[derive(Debug)]
pub enum Turn<M, O> {
    /// Nothing to do until a message or a deadline.
    Wait,
    /// Send this, then wait.
    Send(M),
    /// The session is over for us, but this still has to go out: send it, close our half, and drain the other.
    FinishAndSend {
        /// What the session yields.
        output: O,
        /// The last message.
        last: M,
    },
    /// The session is over.
    Finish(O),
}

/// One side of a protocol, as a value.
pub trait Session {
    /// What comes in.
    type Inbound: Clone;
    /// What goes out: only what may leave can be one.
    type Outbound: Clone + Into<Self::Inbound>;
    /// What the session yields in the end.
    type Output;

    /// Whose side it is.
    fn role(&self) -> Role;

    /// Begins. The side that speaks first gets its first message here.
    ///
    /// # Errors
    /// The session cannot begin.
    fn start(&mut self) -> Result<Turn<Self::Outbound, Self::Output>, Abort>;

    /// Takes a message in that came by the line of `from`: a peer, or the coordinator. What the message claims is checked against that.
    ///
    /// # Errors
    /// The message breaks the protocol, or what it says ends the run.
    fn receive(&mut self, from: Role, message: Self::Inbound) -> Result<Turn<Self::Outbound, Self::Output>, Abort>;

    /// The last message sent, for a line that may have lost it: the same bytes, never recomputed. A session that has
    /// finished still answers.
    fn resend(&self) -> Option<Self::Outbound>;

    /// What the dealer is to be asked for, each order once; a driver asks after every step. Public sizes only.
    fn order(&mut self) -> Option<Order> {
        None
    }

    /// What the coordinator is to be asked for that merges lists, each request once; a driver asks as for orders.
    fn request(&mut self) -> Option<Request> {
        None
    }

    /// Who has to say something before the session can go on, for the sentence about one who does not.
    fn awaits(&self) -> Role {
        self.role().partner()
    }

    /// How much longer than others the next message may take, because the peer computes for so long: by public sizes.
    fn allowance(&self) -> Duration {
        Duration::ZERO
    }

    /// Whether there is room for what the dealer sends: a driver leaves it on the line until there is.
    fn room(&self) -> bool {
        true
    }

    /// Whether [`Session::work`] has something to do that takes long; a driver without a dealer asks before it calls it.
    fn has_work(&self) -> bool {
        false
    }

    /// Does what can be done while the others are at work; a driver asks after every message that it has sent.
    ///
    /// # Errors
    /// Why the session ends.
    fn work(&mut self) -> Result<(), Abort> {
        Ok(())
    }

    /// How many messages of the conversation there were: rises with everything new, and with no repeat. By it a driver tells
    /// progress from signs of life.
    fn position(&self) -> u64;
}

/// Why a session ended before its result. The variant says whose fault it was; no variant carries data.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum Abort {
    /// The peer broke the protocol.
    #[error("{peer} broke the protocol: {fault}")]
    Peer {
        /// The party that did it.
        peer: Role,
        /// What the party did.
        fault: PeerFault,
    },
    /// The two parties do not hold the same rows, or shared columns differ.
    #[error("{0}")]
    Data(String),
    /// Our own data were refused. The sentence is for the local terminal: it may quote a cell.
    #[error("{0}")]
    OwnData(String),
    /// A file of this party could not be written; it holds what the run goes on with.
    #[error("{0}")]
    Unwritten(String),
    /// The study files differ.
    #[error(
        "the study files differ in: {} (compared with that of {with}); agree on one file and give it to all",
        .keys.join(", ")
    )]
    Study {
        /// The keys that differ.
        keys: Vec<String>,
        /// Whose file ours was compared with.
        with: Role,
    },
    /// A local policy, a budget or a limit forbids what would come next.
    #[error("refused by the policy of {who}: {what}")]
    Policy {
        /// Whose policy.
        who: Role,
        /// What it forbids, without data.
        what: String,
    },
    /// With what earlier runs let open, more would be open than the policy allows. What these runs were is for the local terminal: they may
    /// have been with others.
    #[error("refused by the policy of {who}: {what}")]
    Spent {
        /// Whose policy.
        who: Role,
        /// What would be open, and what was.
        what: String,
    },
    /// A certificate or a name was refused, here or at the peer.
    #[error("{0}")]
    Refused(String),
    /// The privacy ledger refused, here.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The rows are not those with which a private run was begun here. A message about them, so nobody else is told.
    #[error("the data have changed since run {run} was interrupted: what it had released stays spent; start a new run")]
    Changed {
        /// The run that was to be taken up again.
        run: String,
    },
    /// A bug of ours. The sentence is for the local terminal: it may hold what a panic said.
    #[error("internal error: {0}")]
    Bug(String),
    /// The user interrupted.
    #[error("{}", interrupted_by(.0))]
    Interrupted(Role),
    /// The peer could not be reached, or never came.
    #[error("{0}")]
    Unreachable(String),
    /// The peer ended the run and said why.
    #[error("{from} ended the run: {sentence}")]
    Remote {
        /// Who ended it.
        from: Role,
        /// The peer's exit code.
        exit: Exit,
        /// The peer's sentence, shortened and stripped of control characters.
        sentence: String,
    },
}

/// How a peer broke the protocol.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum PeerFault {
    /// A sequence number ahead of the conversation.
    #[error("sent message {came}, expected {expected}")]
    Ahead {
        /// What came.
        came: u64,
        /// What was expected.
        expected: u64,
    },
    /// A repeated sequence number with other content.
    #[error("repeated message {sequence} with different content")]
    Changed {
        /// Its number.
        sequence: u64,
    },
    /// A message of another run, study or sender.
    #[error("sent a message of another {what}")]
    Foreign {
        /// Run, study or sender.
        what: &'static str,
    },
    /// The wrong kind of message.
    #[error("sent {came}, expected {expected}")]
    Kind {
        /// What came.
        came: &'static str,
        /// What was expected.
        expected: &'static str,
    },
    /// A vector of the wrong length.
    #[error("sent {came} values of {what}, expected {expected}")]
    Length {
        /// Of what.
        what: &'static str,
        /// How many came.
        came: u64,
        /// How many were expected.
        expected: u64,
    },
    /// A value that is not finite, or outside what the protocol allows.
    #[error("sent a value of {what} that is not {expected}, in round {round}")]
    Value {
        /// Of what.
        what: &'static str,
        /// What it should have been.
        expected: &'static str,
        /// In which round.
        round: u32,
    },
    /// A round that does not follow from the last one.
    #[error("sent round {came}, expected {expected}")]
    Round {
        /// What came.
        came: u32,
        /// What was expected.
        expected: u32,
    },
    /// A coefficient that the study does not give the peer.
    #[error("sent a coefficient of `{came}`, which the study does not give it")]
    Term {
        /// The name that came.
        came: String,
    },
    /// A part of a sealed product that does not fit.
    #[error("sent a part of a sealed table that cannot be: {0}")]
    Sealed(String),
    /// The proof of another order of rows than the match of this party has.
    #[error("proved rows of another match: the matches of both parties must be of one run; match again on both sides")]
    Order,
    /// A message of a match of records that cannot be.
    #[error("sent {what} in pass {pass} of the match, expected {expected}")]
    Match {
        /// The pass, from 1.
        pass: u32,
        /// What it is.
        what: &'static str,
        /// What it should have been.
        expected: &'static str,
    },
    /// Bytes that do not decode.
    #[error("sent bytes that are not a message: {0}")]
    Garbage(String),
}

/// Who interrupted; workers go by names of their own, which stand before the sentence.
fn interrupted_by(who: &Role) -> String {
    match who {
        Role::Worker => "interrupted by its user".to_string(),
        Role::Alice | Role::Bob | Role::Party(_) | Role::Coordinator => format!("interrupted by the user of {who}"),
    }
}

impl From<ReleaseError> for Abort {
    fn from(error: ReleaseError) -> Abort {
        Abort::Bug(error.to_string())
    }
}

/// What others are told where the ledger of a party ends a run with this code.
pub fn ledger_for_peer(own: Role, exit: Exit) -> String {
    let what = match exit == Exit::CannotWrite {
        true => format!("{own} could not write its privacy ledger"),
        false => format!("the privacy ledger of {own} refused"),
    };
    format!("{what}; the reason is shown there only")
}

impl Abort {
    /// The sentence that the peer is told: never one that quotes data.
    pub fn sentence_for_peer(&self, own: Role) -> String {
        match self {
            Abort::OwnData(_) | Abort::Changed { .. } => {
                format!("the data of {own} were refused; the reason is shown there only")
            }
            Abort::Unwritten(_) => format!("{own} could not write a file; the reason is shown there only"),
            Abort::Bug(_) => format!("internal error at {own}; the reason is shown there only"),
            Abort::Ledger(error) => ledger_for_peer(own, error.exit()),
            Abort::Spent { who, .. } => {
                format!(
                    "refused by the policy of {who}: more would be open of its data set than it allows; the figures are shown there only"
                )
            }
            other @ (Abort::Peer { .. }
            | Abort::Data(_)
            | Abort::Study { .. }
            | Abort::Policy { .. }
            | Abort::Refused(_)
            | Abort::Interrupted(_)
            | Abort::Unreachable(_)
            | Abort::Remote { .. }) => other.to_string(),
        }
    }

    /// The exit code on the side that aborts; the other side, and the demo, exit with the same.
    pub fn exit(&self) -> Exit {
        match self {
            Abort::Peer { .. } => Exit::Peer,
            Abort::Data(_) | Abort::OwnData(_) => Exit::Data,
            Abort::Study { .. }
            | Abort::Policy { .. }
            | Abort::Spent { .. }
            | Abort::Refused(_)
            | Abort::Changed { .. } => Exit::Refused,
            Abort::Ledger(error) => error.exit(),
            Abort::Unwritten(_) => Exit::CannotWrite,
            Abort::Bug(_) => Exit::Internal,
            Abort::Interrupted(_) => Exit::Interrupted,
            Abort::Unreachable(_) => Exit::Unreachable,
            Abort::Remote { exit, .. } => *exit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_quote_data_is_not_told_to_a_peer() {
        let secret = "index is 4711";
        for abort in [
            Abort::OwnData(secret.to_string()),
            Abort::Unwritten(secret.to_string()),
            Abort::Bug(secret.to_string()),
            Abort::Changed { run: secret.to_string() },
            Abort::Spent { who: Role::Alice, what: secret.to_string() },
        ] {
            let sentence = abort.sentence_for_peer(Role::Alice);
            assert!(abort.to_string().contains(secret) && !sentence.contains(secret), "{sentence}");
            assert!(sentence.ends_with("shown there only"), "{sentence}");
        }
    }
}
