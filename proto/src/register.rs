//! What a party and the coordinator tell each other, whatever carries it.

use std::time::Instant;

use fedreg_common::exit::Exit;
use fedreg_common::id::{Digest, Role, RunId};

use crate::link::Notice;

/// What a party tells the coordinator.
#[derive(Debug, Clone, PartialEq)]
pub enum PartyEvent {
    /// First on every line.
    Join {
        /// Which part the party plays.
        role: Role,
        /// The version of the conversation between the parties.
        version: u32,
        /// The digest of each key of its study.
        keys: Vec<(String, Digest)>,
        /// The run in progress, when a lost line is opened again.
        run: Option<RunId>,
        /// Drawn when the process starts: tells a line that is opened again from a process that is started again.
        instance: Option<[u8; 16]>,
    },
    /// The data are read and encoded.
    Ready,
    /// How far the run is.
    Progress(Progress),
    /// The party ends the run.
    Abort(Notice),
    /// The party is done; last.
    Done(Exit),
}

impl PartyEvent {
    /// The same without how many bytes have left.
    pub fn without_bytes(self) -> PartyEvent {
        match self {
            PartyEvent::Progress(progress) => PartyEvent::Progress(Progress { bytes_sent: 0, ..progress }),
            other @ (PartyEvent::Join { .. } | PartyEvent::Ready | PartyEvent::Abort(_) | PartyEvent::Done(_)) => other,
        }
    }
}

/// How far a run is, as one party sees it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Progress {
    /// What is going on, in a few words.
    pub phase: String,
    /// Exchanges so far.
    pub round: u32,
    /// Scaled gradient; absent in private mode, and before the first round.
    pub certificate: Option<f64>,
    /// Bytes of messages that the party sent.
    pub bytes_sent: u64,
}

/// What the coordinator tells a party.
#[derive(Debug, Clone, PartialEq)]
pub enum CoordinatorEvent {
    /// Answer to `Join`.
    Welcome {
        /// Keys in which the party's study differs from the coordinator's; if there are any, the party is refused.
        differing: Vec<String>,
    },
    /// What the other party does.
    Peer {
        /// The role.
        role: Role,
        /// How far that party is.
        state: PeerState,
    },
    /// Both are ready.
    Start {
        /// The run.
        run: RunId,
    },
    /// The other party, or the coordinator, ended the run.
    Abort {
        /// The party that ended the run.
        from: Role,
        /// The exit code and the sentence.
        notice: Notice,
    },
    /// Both are done.
    Ended,
}

/// How far the other party is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PeerState {
    /// It has not come yet.
    #[default]
    Absent,
    /// It has joined and reads its data.
    Joined,
    /// It has read its data.
    Ready,
    /// Its line to the coordinator is lost.
    Lost,
    /// It is done.
    Done,
}

impl PeerState {
    /// In a word or two.
    pub fn name(self) -> &'static str {
        match self {
            PeerState::Absent => "absent",
            PeerState::Joined => "reading",
            PeerState::Ready => "ready",
            PeerState::Lost => "lost",
            PeerState::Done => "done",
        }
    }
}

/// What `coordinator status` shows.
#[derive(Debug, Clone, PartialEq)]
pub struct StatusReply {
    /// The study's id.
    pub study: String,
    /// Its digest.
    pub digest: Digest,
    /// The run, once there is one.
    pub run: Option<RunId>,
    /// Each party by name, with its state and its last progress.
    pub parties: Vec<(String, PeerState, Progress)>,
    /// How the run ended, once it has.
    pub exit: Option<Exit>,
    /// Of a study with workers, how near its quorum is.
    pub quorum: Option<Quorum>,
    /// When the run ends whatever has come, or a party whose line is lost is given up.
    pub ends: Option<Instant>,
}

/// How near a quorum is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quorum {
    /// Workers that make one.
    pub needed: u32,
    /// Workers that are ready, before anything is asked; that have contributed, afterwards.
    pub came: u32,
}
