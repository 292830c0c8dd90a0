//! A match of several parties, at their leader.

use fedreg_common::conversation::Opening;
use fedreg_common::exit::Exit;
use fedreg_common::id::RunId;
use fedreg_common::methods::vertical::linked::purpose as greeting;
use fedreg_common::methods::vertical::session::Progress;
use fedreg_common::methods::vertical::several::{Hub, MatchCentre};

use super::Attempt;
use super::direct::{DirectWork, Ready};
use super::found::Found;
use crate::drive::Driven;
use crate::failure::Failure;
use crate::job::Job;
use crate::meet::{Met, Work};
use crate::several::LeaderSession;

/// A match by keys with each of the others.
#[derive(Clone)]
pub(super) struct LeaderMatch(pub(super) DirectWork);

impl Work for LeaderMatch {
    type Table = Ready;
    type Session = LeaderSession<MatchCentre>;
    type Yield = Found;

    const COMMAND: &'static str = DirectWork::COMMAND;
    const TELLS_BYTES: bool = DirectWork::TELLS_BYTES;

    fn read(&self, job: &Job) -> Result<Ready, Failure> {
        self.0.read(job)
    }

    fn rows(ready: &Ready) -> u64 {
        DirectWork::rows(ready)
    }

    fn interrupted(&self, job: &Job) -> Option<RunId> {
        self.0.interrupted(job)
    }

    fn session(&self, job: &Job, ready: Ready, opening: Opening) -> Result<Self::Session, Failure> {
        let party = job.party();
        let followers = party.study.peers(party.role);
        let (kept, inputs, opening) = self.0.begin(job, ready, opening)?;
        let whose = (party.role, greeting(self.0.0.purpose));
        let hub = Hub::matching(whose, party.study, &inputs, kept.of_lines(followers.len()), &opening)?;
        Ok(LeaderSession::new(hub, &followers)?)
    }

    fn kept(&self, session: Self::Session) -> Result<Option<Driven<Self::Session>>, Failure> {
        Attempt::kept(session)
    }

    fn given_up(&self, job: &Job, run: RunId, failure: &Failure, nobodys: bool) {
        Attempt::given_up(job, run, failure, nobodys);
    }

    fn progress(session: &Self::Session) -> Option<Progress> {
        Some(session.progress())
    }

    fn finish(&self, job: &Job, met: Met<Self::Session>) -> Result<(Found, Exit), Failure> {
        self.0.end(job, &met.driven.output, (met.driven.confirmed || met.nobodys, met.bytes_sent))
    }
}
