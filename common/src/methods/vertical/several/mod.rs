//! Runs of several parties: a leader that speaks with each of the others, and they with it alone.
//!
//! A follower cannot tell the leader from the one partner of a run of two. At the leader a [`Hub`] joins the conversations: what comes by
//! one line may be what is waited for on another. What a run is about is its [`Centre`].
//!
//! Order of the parties: the leader, then the others as the study orders them, else by name.

use std::cmp::Ordering;
use std::time::Duration;

use crate::conversation::{Content as _, Conversation, Opening, Purpose, Refusal};
use crate::id::{Digest, Header, Role, RunId};
use crate::privacy::release::Released;
use crate::session::{Abort, Order, PeerFault, Session, Turn};
use crate::study::{Study, Vertical};

use super::agree::{Compared, same_rows};
use super::message::{Body, Dealt, Message, Rows};
use super::session::Progress;

mod agree;
mod fit;
mod leg;
mod masked;
mod matching;
mod predict;
mod private;
mod sealed;

pub use self::fit::FitCentre;
use self::leg::Leg;
pub(super) use self::masked::Exchange;
pub use self::matching::MatchCentre;
pub use self::predict::PredictCentre;
pub use self::private::PrivateCentre;
pub use self::sealed::SealedCentre;

/// What the hub says on the line to one follower.
pub type Say = (Role, Turn<Released<Message>, ()>);

/// What a leader and its followers do.
pub trait Centre {
    /// What comes of it at the leader.
    type Output;

    /// What the followers' users have asked for.
    fn purpose(&self) -> Purpose;

    /// How far it is.
    fn progress(&self) -> Progress;

    /// How much longer than others the next message of a follower may take, because it computes for so long.
    fn allowance(&self) -> Duration {
        Duration::ZERO
    }

    /// Takes one step with what was heard.
    ///
    /// # Errors
    /// Why the run ends.
    fn advance(&mut self, lines: &mut Lines) -> Result<Advance<Self::Output>, Abort>;

    /// What the dealer is to be asked for; each order once.
    fn order(&mut self) -> Option<Order> {
        None
    }

    /// Takes in what the dealer sent.
    ///
    /// # Errors
    /// Why it is not taken in.
    fn hear(&mut self, _dealt: Dealt) -> Result<(), Refusal> {
        Err(Refusal::Kind)
    }
}

/// What became of a step.
pub enum Advance<O> {
    /// There is none to take until more is heard.
    Waits,
    /// It was taken.
    Taken,
    /// It was the last.
    Over(O),
}

/// The leader's side of a run of several parties.
pub struct Hub<C: Centre> {
    role: Role,
    lines: Lines,
    centre: C,
    output: Option<C::Output>,
    over: bool,
    study: Digest,
    run: RunId,
    /// Messages that the dealer has sent.
    dealt: u64,
}

/// The lines to all followers, in order.
pub struct Lines(Vec<Line>);

struct Line {
    peer: Role,
    talk: Conversation<Leg>,
    /// The key of this line's digests, which the follower draws.
    key: [u8; 32],
    /// Columns of the follower's block.
    columns: usize,
    over: bool,
}

impl<C: Centre> Hub<C> {
    pub(crate) fn open(study: &Study<Vertical>, role: Role, opening: &Opening, centre: C) -> Hub<C> {
        let purpose = centre.purpose();
        Hub::of_lines(study, (role, opening.run), centre, |peer| {
            let opening = Opening { first: false, peer, ..opening.clone() };
            Conversation::open(role, purpose, study, &opening, Leg::new(role, peer, "a proof of rows"))
        })
    }

    fn of_lines(
        study: &Study<Vertical>,
        (role, run): (Role, RunId),
        centre: C,
        mut talk: impl FnMut(Role) -> Conversation<Leg>,
    ) -> Hub<C> {
        let line = |peer: Role| Line { peer, talk: talk(peer), key: [0; 32], columns: 0, over: false };
        let lines = Lines(study.others(role).into_iter().map(line).collect());
        Hub { role, lines, centre, output: None, over: false, study: study.digest(), run, dealt: 0 }
    }

    /// Whose side it is.
    pub fn role(&self) -> Role {
        self.role
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        self.centre.progress()
    }

    /// How much longer than others the next message of a follower may take.
    pub fn allowance(&self) -> Duration {
        self.centre.allowance()
    }

    /// Goes on with what was kept of a run that was interrupted; says what goes out on which line.
    ///
    /// # Errors
    /// Why the run ends.
    pub fn start(&mut self) -> Result<Vec<Say>, Abort> {
        let mut says = Vec::new();
        loop {
            let before = self.position();
            for line in self.lines.0.iter_mut().filter(|line| !line.over) {
                let turn = line.talk.start()?;
                line.push(turn, &mut says);
            }
            self.go_on(&mut says)?;
            if self.position() == before {
                break;
            }
        }
        // Of what was said on a line before the interruption its newest is said again.
        let mut newest: Vec<Say> = Vec::new();
        while let Some(say) = says.pop() {
            if newest.iter().all(|(peer, _)| *peer != say.0) {
                newest.push(say);
            }
        }
        Ok(newest)
    }

    fn position(&self) -> u64 {
        self.lines.0.iter().map(|line| line.talk.position()).sum()
    }

    /// What came of it, once it is over.
    pub fn take_output(&mut self) -> Option<C::Output> {
        self.output.take()
    }

    /// Takes a message in that came by the line of a follower; says what goes out on which line. A line on which nothing goes out
    /// is not named.
    ///
    /// # Errors
    /// Why the run ends.
    pub fn receive(&mut self, from: Role, message: Message) -> Result<Vec<Say>, Abort> {
        if from == Role::Coordinator {
            return self.hear(message);
        }
        let Some(line) = self.lines.0.iter_mut().find(|line| line.peer == from) else {
            return Err(Abort::Peer { peer: from, fault: PeerFault::Foreign { what: "sender" } });
        };
        let mut says = Vec::new();
        let turn = line.talk.receive(from, message)?;
        line.push(turn, &mut says);
        self.go_on(&mut says)?;
        Ok(says)
    }

    /// What the dealer is to be asked for, each order once; to be asked after every message.
    pub fn order(&mut self) -> Option<Order> {
        self.centre.order()
    }

    /// Takes in what the dealer sent.
    fn hear(&mut self, message: Message) -> Result<Vec<Say>, Abort> {
        let (from, kind) = (Role::Coordinator, message.body.kind());
        let Header { study, run, sender, sequence } = message.header;
        let abort = |fault| Abort::Peer { peer: from, fault };
        if sender != from || study != self.study || run != self.run {
            return Err(abort(PeerFault::Foreign { what: "head" }));
        }
        match sequence.cmp(&self.dealt) {
            Ordering::Less => return Ok(Vec::new()),
            Ordering::Equal => self.dealt += 1,
            Ordering::Greater => {
                return Err(abort(PeerFault::Ahead { came: sequence, expected: self.dealt }));
            }
        }
        let taken = if let Body::Dealt(dealt) = message.body { self.centre.hear(dealt) } else { Err(Refusal::Kind) };
        taken.map_err(|refusal| match refusal {
            Refusal::Kind => abort(PeerFault::Kind { came: kind, expected: "nothing from a dealer" }),
            Refusal::Fault(fault) => abort(fault),
            Refusal::Abort(abort) => abort,
        })?;
        let mut says = Vec::new();
        self.go_on(&mut says)?;
        Ok(says)
    }

    /// Takes all steps that can be taken.
    fn go_on(&mut self, says: &mut Vec<Say>) -> Result<(), Abort> {
        while !self.over {
            match self.centre.advance(&mut self.lines)? {
                Advance::Waits => break,
                Advance::Taken => {}
                Advance::Over(output) => {
                    self.output = Some(output);
                    self.over = true;
                }
            }
        }
        for line in self.lines.0.iter_mut().filter(|line| !line.over) {
            let turn = line.talk.go_further()?;
            line.push(turn, says);
        }
        Ok(())
    }
}

impl Line {
    fn leg(&mut self) -> &mut Leg {
        self.talk.script_mut()
    }

    fn push(&mut self, turn: Turn<Released<Message>, ()>, says: &mut Vec<Say>) {
        match turn {
            Turn::Wait => return,
            Turn::FinishAndSend { .. } | Turn::Finish(()) => self.over = true,
            Turn::Send(_) => {}
        }
        says.push((self.peer, turn));
    }

    /// That the follower said something else than the step expects.
    fn said_instead(&self, body: &Body, expected: &'static str) -> Abort {
        self.said(body.kind(), expected)
    }

    /// The same of the kind of what it said.
    fn said(&self, came: &'static str, expected: &'static str) -> Abort {
        Abort::Peer { peer: self.peer, fault: PeerFault::Kind { came, expected } }
    }

    /// That the follower broke the protocol.
    fn broke(&self, fault: PeerFault) -> Abort {
        Abort::Peer { peer: self.peer, fault }
    }
}

impl Lines {
    /// What all followers have said, once they have.
    fn heard(&mut self) -> Option<Vec<Body>> {
        match self.0.iter().all(|line| line.talk.script().has_heard()) {
            true => self.0.iter_mut().map(|line| line.leg().take()).collect(),
            false => None,
        }
    }

    /// Has every line wait for something on which nothing was heard that has not been taken.
    fn await_all(&mut self, what: &'static str) {
        for line in self.0.iter_mut().filter(|line| !line.talk.script().has_heard()) {
            line.leg().await_answer(what);
        }
    }

    /// Says the same to all.
    fn say(&mut self, body: &Body) {
        self.0.iter_mut().for_each(|line| line.leg().say(body.clone()));
    }

    /// Compares the rows of all followers with the own, and proves these to each.
    fn agree_on_rows(&mut self, role: Role, table: &impl Compared, bodies: Vec<Body>) -> Result<(), Abort> {
        for (line, body) in self.0.iter_mut().zip(bodies) {
            let Body::Rows(theirs) = body else { return Err(line.said_instead(&body, "a proof of rows")) };
            let Some(key) = theirs.key else {
                return Err(line.broke(PeerFault::Garbage("a proof of rows without the key of its digest".to_string())));
            };
            line.key = key;
            same_rows(table, (role, line.peer), &key, &theirs).map_err(|refusal| refused(line.peer, refusal))?;
            // The digest is that which was compared.
            line.leg().say(Body::Rows(Rows { key: None, rows: table.rows(), ids: theirs.ids }));
        }
        Ok(())
    }
}

fn refused(peer: Role, refusal: Refusal) -> Abort {
    match refusal {
        Refusal::Abort(abort) => abort,
        Refusal::Fault(fault) => Abort::Peer { peer, fault },
        Refusal::Kind => Abort::Bug("a step of a leader was given another kind of message".to_string()),
    }
}
