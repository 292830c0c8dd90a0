//! One side of a conversation between parties, as a value.
//!
//! What is said when is a [`Script`] that all sides know: each step has one speaker, who builds a message, and the others take it in.
//! The [`Conversation`] runs the script. It owns what every conversation has in common: greetings, the heads of messages, the order,
//! retransmission, and that only what may leave is said.
//!
//! Two parties take turns. Where it is a side's turn and the step belongs to the other, it says [`Content::GO`]. So every message also
//! acknowledges the one before, and a line that lost something is repaired by sending one's last message again.
//!
//! The coordinator may have steps too. It sends without waiting for answers, under numbers of its own, and is told nothing; what
//! comes from it before its step is kept until then.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Duration;

use crate::id::{Digest, Header, Role, RunId};
use crate::privacy::release::{Declaration, Discloses, Disclosures, Released};
use crate::session::{Abort, Order, PeerFault, Request, Session, Turn};
use crate::study::{Study, Vertical};

#[cfg(test)]
mod tests;

/// The version of the conversation; both sides must speak the same.
pub const VERSION: u32 = 1;

/// Messages of the coordinator that may come before their step: far beyond any script, so that a peer that stalls fills no memory.
const AHEAD: usize = 64;

/// How often a party that was started again asks its peer to begin again: on every line that is opened meanwhile, and not for ever.
const MOST_ASKED: u32 = 16;

/// Messages of the coordinator that are taken off the line before their step.
const ROOM: usize = 4;

/// One message.
#[derive(Clone, PartialEq)]
pub struct Message<B> {
    /// Who, which run, which place in the conversation.
    pub header: Header,
    /// What it says.
    pub body: B,
}

/// What the messages of a conversation can say.
pub trait Content: Clone + PartialEq + Discloses {
    /// Nothing to say, go on.
    const GO: Self;

    /// The greeting.
    fn greeting(hello: Hello) -> Self;

    /// What the greeting says, if it is one.
    fn hello(&self) -> Option<&Hello>;

    /// What kind of message it is, for people.
    fn kind(&self) -> &'static str;
}

/// The first message of each party. Nothing that depends on data has been touched.
#[derive(Clone, PartialEq)]
pub struct Hello {
    /// [`VERSION`].
    pub version: u32,
    /// What the sender's user asked for.
    pub purpose: Purpose,
    /// The digest of each key of the study, by dotted name, so that both sides can print which differ.
    pub keys: Vec<(String, Digest)>,
}

/// What a conversation is for; both users must have asked for the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A fit.
    Fit,
    /// Scoring new rows with a fit that was made before.
    Predict,
    /// Matching the records of a fit.
    MatchFit,
    /// Matching new rows.
    MatchPredict,
}

impl Purpose {
    /// The command that asks for it.
    pub fn command(self) -> &'static str {
        match self {
            Purpose::Fit => "fit",
            Purpose::Predict => "predict",
            Purpose::MatchFit => "match",
            Purpose::MatchPredict => "match --purpose predict",
        }
    }
}

/// What a conversation needs beside the party's data.
#[derive(Clone)]
pub struct Opening {
    /// Whether this side speaks first: the side that dials does.
    pub first: bool,
    /// The run, from the coordinator.
    pub run: RunId,
    /// Secret randomness of this run, from which a script derives its keys.
    pub seed: [u8; 32],
    /// With whom: the other of two parties; at the leader of several one of the others, at another party the leader.
    pub peer: Role,
}

impl Opening {
    /// Who speaks first, as `role` sees it.
    pub fn first_speaker(&self, role: Role) -> Role {
        if self.first { role } else { self.peer }
    }
}

/// A step of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Who speaks.
    pub speaker: Role,
    /// What is to be said, for the sentence about a speaker that says something else.
    pub expected: &'static str,
}

/// What a script has to say, by the way on which it may leave.
pub enum Said<B> {
    /// Leaves if the study declares all that it discloses.
    Declared(B),
    /// With noise, and charged.
    Released(Released<B>),
}

impl<B> From<B> for Said<B> {
    fn from(body: B) -> Said<B> {
        Said::Declared(body)
    }
}

/// Why a message is not taken in.
#[derive(Debug)]
pub enum Refusal {
    /// It is of another kind than the step expects.
    Kind,
    /// Its speaker broke the protocol.
    Fault(PeerFault),
    /// What it says ends the run.
    Abort(Abort),
}

impl From<PeerFault> for Refusal {
    fn from(fault: PeerFault) -> Refusal {
        Refusal::Fault(fault)
    }
}

impl From<Abort> for Refusal {
    fn from(abort: Abort) -> Refusal {
        Refusal::Abort(abort)
    }
}

/// What the sides of a conversation say, step by step, after the greetings.
pub trait Script {
    /// What messages can say.
    type Body: Content;
    /// What the conversation yields.
    type Output;

    /// The present step; none once the script is over.
    fn step(&self) -> Option<Step>;

    /// Whether what this party says at the present step is there yet. A script that takes part in several conversations may have to
    /// hear something in another one first; the conversation is then told to go on.
    fn is_ready(&self) -> bool {
        true
    }

    /// What this party says at the present step, and moves on.
    ///
    /// # Errors
    /// Why the run ends.
    fn build(&mut self) -> Result<Said<Self::Body>, Abort>;

    /// Takes in what the speaker of the present step said, and moves on.
    ///
    /// # Errors
    /// Why it is not taken in.
    fn absorb(&mut self, body: Self::Body) -> Result<(), Refusal>;

    /// What the conversation yields, once the script is over.
    ///
    /// # Errors
    /// Why there is no result.
    fn finish(&mut self) -> Result<Self::Output, Abort>;

    /// What the dealer is to be asked for; each order once.
    fn order(&mut self) -> Option<Order> {
        None
    }

    /// What the coordinator is to be asked for that merges lists, from which this number of messages came; each request once.
    fn request(&mut self, _heard: u64) -> Option<Request> {
        None
    }

    /// How much longer than others the next message may take, because the peer computes for so long: by public sizes.
    fn allowance(&self) -> Duration {
        Duration::ZERO
    }

    /// Whether [`Script::work`] has something to do that takes long, where no dealer is heard.
    fn has_work(&self) -> bool {
        false
    }

    /// Does what can be done while the others are at work.
    ///
    /// # Errors
    /// Why the run ends.
    fn work(&mut self) -> Result<(), Abort> {
        Ok(())
    }

    /// Stores a message of the peer before anything follows from it, where a party that is killed goes on later.
    ///
    /// # Errors
    /// It cannot be stored.
    fn keep(&mut self, _sequence: u64, _body: &Self::Body) -> Result<(), Abort> {
        Ok(())
    }

    /// Whether this party goes on with a run in which it was killed.
    fn resumes(&self) -> bool {
        false
    }

    /// In such a run, what the peer said under this number, as far as it is known.
    ///
    /// # Errors
    /// What was stored cannot be read.
    fn recall(&mut self, _sequence: u64) -> Result<Option<Self::Body>, Abort> {
        Ok(None)
    }

    /// Stores a message of the coordinator, as [`Script::keep`] does one of the peer.
    ///
    /// # Errors
    /// It cannot be stored.
    fn keep_answer(&mut self, _sequence: u64, _body: &Self::Body) -> Result<(), Abort> {
        Ok(())
    }

    /// What the coordinator said under this number, as [`Script::recall`] for the peer.
    ///
    /// # Errors
    /// What was stored cannot be read.
    fn recall_answer(&mut self, _sequence: u64) -> Result<Option<Self::Body>, Abort> {
        Ok(None)
    }

    /// Whether such a message is answered again for as long as the conversation lasts. Of others only the newest one is: its answer
    /// alone can have been lost between parties that live on.
    fn is_answered_again(&self, _body: &Self::Body) -> bool {
        false
    }

    /// Whether a message of the peer that is older than its newest is answered with our newest: to a peer that was started again and
    /// has gone back farther than one message, this says where we are.
    fn says_where_it_is(&self) -> bool {
        false
    }

    /// Whether a peer that lives on says all again to a party that was killed and has kept nothing. Such a party that does not speak first
    /// asks for it by [`Content::GO`] under number 0, which is the first speaker's own.
    fn begins_again(&self) -> bool {
        false
    }

    /// Why this party cannot follow a peer that is ahead of it with such a message, where that is no fault of the peer.
    fn left_behind(&self, _ahead: &Self::Body) -> Option<Abort> {
        None
    }
}

/// What came by one line.
struct Line<B> {
    /// The number of the next message.
    next: u64,
    /// The newest message.
    heard: Option<Message<B>>,
    /// What the script has not taken in yet.
    waiting: VecDeque<B>,
}

impl<B: Content> Line<B> {
    fn new() -> Line<B> {
        Line { next: 0, heard: None, waiting: VecDeque::new() }
    }

    fn take(&mut self, message: Message<B>) {
        self.next += 1;
        self.waiting.push_back(message.body.clone());
        self.heard = Some(message);
    }
}

/// What was said and what was answered.
type Exchange<B> = (Message<B>, Released<Message<B>>);

/// What a conversation wants after it was fed.
type Next<S> = Turn<Released<Message<<S as Script>::Body>>, <S as Script>::Output>;

/// One side of a conversation, run by a script.
pub struct Conversation<S: Script> {
    role: Role,
    peer: Role,
    first: bool,
    study: Digest,
    run: RunId,
    hello: Hello,
    disclosures: Disclosures,
    greetings: u32,
    script: S,
    line: Line<S::Body>,
    coordinator: Line<S::Body>,
    sent: Option<Released<Message<S::Body>>>,
    /// At the first speaker, its first message.
    first_said: Option<Released<Message<S::Body>>>,
    /// How often the peer was asked to begin again.
    asked: u32,
    answered: BTreeMap<u64, Exchange<S::Body>>,
}

impl<S: Script> Conversation<S> {
    /// A conversation of `role` with the peer that the opening names.
    pub fn open(
        role: Role,
        purpose: Purpose,
        study: &Study<Vertical>,
        opening: &Opening,
        script: S,
    ) -> Conversation<S> {
        Conversation::open_under(role, purpose, study, opening, study.disclosures(role), script)
    }

    /// The same where what may leave does not follow from the mode of the fit.
    pub(crate) fn open_under(
        role: Role,
        purpose: Purpose,
        study: &Study<Vertical>,
        opening: &Opening,
        disclosures: Disclosures,
        script: S,
    ) -> Conversation<S> {
        Conversation {
            role,
            peer: opening.peer,
            first: opening.first,
            study: study.digest(),
            run: opening.run,
            hello: Hello { version: VERSION, purpose, keys: study.key_digests() },
            disclosures,
            greetings: 0,
            script,
            line: Line::new(),
            coordinator: Line::new(),
            sent: None,
            first_said: None,
            asked: 0,
            answered: BTreeMap::new(),
        }
    }

    /// Whether both parties have greeted each other.
    pub(crate) fn has_greeted(&self) -> bool {
        self.greetings == 2
    }

    pub(crate) fn script(&self) -> &S {
        &self.script
    }

    pub(crate) fn script_mut(&mut self) -> &mut S {
        &mut self.script
    }

    fn step(&self) -> Option<Step> {
        if self.has_greeted() {
            return self.script.step();
        }
        let own = self.first == (self.greetings == 0);
        Some(Step { speaker: if own { self.role } else { self.peer }, expected: "a greeting" })
    }

    fn build(&mut self) -> Result<Said<S::Body>, Abort> {
        if self.has_greeted() {
            return self.script.build();
        }
        self.greetings += 1;
        Ok(S::Body::greeting(self.hello.clone()).into())
    }

    fn absorb(&mut self, step: Step, body: S::Body) -> Result<(), Abort> {
        let came = body.kind();
        let taken = match (self.has_greeted(), body.hello()) {
            (true, _) => self.script.absorb(body),
            (false, None) => Err(Refusal::Kind),
            (false, Some(_)) => {
                self.greetings += 1;
                Ok(())
            }
        };
        let peer = step.speaker;
        taken.map_err(|refusal| match refusal {
            Refusal::Kind => Abort::Peer { peer, fault: PeerFault::Kind { came, expected: step.expected } },
            Refusal::Fault(fault) => Abort::Peer { peer, fault },
            Refusal::Abort(abort) => abort,
        })
    }

    /// Runs the script for as long as nothing is missing and nothing is to be said.
    fn go_on(&mut self) -> Result<Next<S>, Abort> {
        loop {
            let Some(step) = self.step() else { return Ok(Turn::Finish(self.script.finish()?)) };
            let line = if step.speaker == Role::Coordinator { &mut self.coordinator } else { &mut self.line };
            match line.waiting.pop_front() {
                Some(body) if step.speaker != self.role => self.absorb(step, body)?,
                Some(body) if body == S::Body::GO => {}
                Some(body) => {
                    let fault = PeerFault::Kind { came: body.kind(), expected: "a go-ahead" };
                    return Err(Abort::Peer { peer: self.peer, fault });
                }
                None if step.speaker == Role::Coordinator || !self.is_own_turn() => return Ok(Turn::Wait),
                None if step.speaker != self.role || !self.has_greeted() || self.script.is_ready() => {
                    return self.speak(step);
                }
                None => return Ok(Turn::Wait),
            }
        }
    }

    /// Goes on where something became ready that was not.
    ///
    /// # Errors
    /// Why the run ends.
    pub(crate) fn go_further(&mut self) -> Result<Next<S>, Abort> {
        self.go_on()
    }

    fn is_own_turn(&self) -> bool {
        self.line.next.is_multiple_of(2) == self.first
    }

    /// Says what the script has for this party, or that the other may go on.
    fn speak(&mut self, step: Step) -> Result<Next<S>, Abort> {
        let said = if step.speaker == self.role { self.build()? } else { S::Body::GO.into() };
        let header = self.header(self.role);
        let last = match said {
            Said::Declared(body) => self
                .disclosures
                .release(Message { header, body })
                .map_err(|undeclared| Abort::Bug(undeclared.to_string()))?,
            Said::Released(body) => body.under(header, |header, body| Message { header, body }),
        };
        if self.line.next == 0 {
            self.first_said = Some(last.clone());
        }
        self.line.next += 1;
        self.sent = Some(last.clone());
        Ok(match self.step() {
            Some(_) => Turn::Send(last),
            None => Turn::FinishAndSend { output: self.script.finish()?, last },
        })
    }

    fn header(&self, sender: Role) -> Header {
        Header { study: self.study, run: self.run, sender, sequence: self.line.next }
    }

    /// What was said next to this party in a run in which it was killed, if that is known.
    fn remembered(&mut self) -> Result<Option<Message<S::Body>>, Abort> {
        let Some(step) = self.step().filter(|_| self.script.resumes()) else { return Ok(None) };
        if step.speaker == Role::Coordinator
            && let Some(body) = self.script.recall_answer(self.coordinator.next)?
        {
            let header = Header { sequence: self.coordinator.next, ..self.header(Role::Coordinator) };
            return Ok(Some(Message { header, body }));
        }
        let header = self.header(self.peer);
        let body = match self.has_greeted() {
            true => self.script.recall(header.sequence)?,
            // The peer followed the same study, or the run would have ended there.
            false => Some(S::Body::greeting(self.hello.clone())),
        };
        Ok(body.map(|body| Message { header, body }))
    }

    /// Takes the next message of the peer in.
    fn hear(&mut self, message: Message<S::Body>) -> Result<Next<S>, Abort> {
        let sequence = message.header.sequence;
        let again = self.script.is_answered_again(&message.body).then(|| message.clone());
        self.line.take(message);
        let turn = self.go_on()?;
        if let (Some(message), Turn::Send(answer)) = (again, &turn) {
            self.answered.insert(sequence, (message, answer.clone()));
        }
        Ok(turn)
    }

    /// Takes the next message of the coordinator in.
    fn hear_answer(&mut self, message: Message<S::Body>) -> Result<Next<S>, Abort> {
        self.coordinator.take(message);
        self.go_on()
    }

    /// Whether a message was not kept, in a run that was taken up again behind it: what stands in its place equals nothing.
    fn stands_in(&self, heard: &Message<S::Body>) -> bool {
        self.script.resumes() && self.script.says_where_it_is() && heard.body == S::Body::GO
    }

    /// Asks a peer that lives on to say all again to this party, which was started again with nothing; none where it is ahead for another
    /// reason.
    fn ask_to_begin(&mut self) -> Result<Option<Next<S>>, Abort> {
        if self.first || self.line.next > 0 || !self.script.begins_again() || self.asked == MOST_ASKED {
            return Ok(None);
        }
        self.asked += 1;
        let message = Message { header: self.header(self.role), body: S::Body::GO };
        let released = self.disclosures.release(message).map_err(|undeclared| Abort::Bug(undeclared.to_string()))?;
        Ok(Some(Turn::Send(released)))
    }

    /// A message that came before: the same answer, byte for byte.
    fn repeated(&self, message: &Message<S::Body>) -> Result<Next<S>, Abort> {
        let Header { sender, sequence, .. } = message.header;
        if self.first && sender == self.peer && sequence == 0 && message.body == S::Body::GO {
            let begins = self.first_said.as_ref().filter(|first| self.script.is_answered_again(&first.value().body));
            return Ok(begins.cloned().map_or(Turn::Wait, Turn::Send));
        }
        let newest = match sender == self.peer {
            true => self.line.heard.as_ref().map(|heard| (heard, self.sent.as_ref())),
            false => self.coordinator.heard.as_ref().map(|heard| (heard, None)),
        };
        let older = self.answered.get(&sequence).filter(|_| sender == self.peer);
        let known = newest
            .filter(|(heard, _)| heard.header.sequence == sequence)
            .or(older.map(|(heard, answer)| (heard, Some(answer))));
        match known {
            Some((heard, _)) if heard != message && !self.stands_in(heard) => {
                Err(Abort::Peer { peer: sender, fault: PeerFault::Changed { sequence } })
            }
            // What was said before the message came is no answer to it.
            Some((_, Some(answer))) if answer.value().header.sequence > sequence => Ok(Turn::Send(answer.clone())),
            None if sender == self.peer && self.script.says_where_it_is() => {
                Ok(self.sent.clone().map_or(Turn::Wait, Turn::Send))
            }
            _ => Ok(Turn::Wait),
        }
    }

    fn check(&self, from: Role, message: &Message<S::Body>) -> Result<(), Abort> {
        let header = &message.header;
        let foreign = |what| Err(Abort::Peer { peer: from, fault: PeerFault::Foreign { what } });
        if header.sender != from || ![self.peer, Role::Coordinator].contains(&from) {
            return foreign("sender");
        }
        // A greeting with another study is answered by naming the keys, not as a foreign message.
        if let Some(hello) = message.body.hello() {
            let own = self.role;
            if hello.version != VERSION {
                let came = hello.version;
                return Err(Abort::Refused(format!(
                    "{from} speaks version {came} of the protocol and {own} version {VERSION}: use the same release on both sides"
                )));
            }
            if header.study != self.study {
                let keys = Study::differing_keys(&self.hello.keys, &hello.keys);
                return Err(Abort::Study { keys, with: from });
            }
            if hello.purpose != self.hello.purpose {
                return Err(Abort::Refused(format!(
                    "{own} runs `{}` and {from} runs `{}`: start the same command on both sides",
                    self.hello.purpose.command(),
                    hello.purpose.command()
                )));
            }
        }
        match header {
            Header { study, .. } if *study != self.study => foreign("study"),
            Header { run, .. } if *run != self.run => foreign("run"),
            _ => Ok(()),
        }
    }
}

impl<S: Script> Session for Conversation<S> {
    type Inbound = Message<S::Body>;
    type Outbound = Released<Message<S::Body>>;
    type Output = S::Output;

    fn role(&self) -> Role {
        self.role
    }

    fn start(&mut self) -> Result<Next<S>, Abort> {
        let mut turn = self.go_on()?;
        while let Some(message) = self.remembered()? {
            turn = match message.header.sender {
                Role::Coordinator => self.hear_answer(message)?,
                Role::Alice | Role::Bob | Role::Party(_) | Role::Worker => self.hear(message)?,
            };
        }
        Ok(turn)
    }

    fn receive(&mut self, from: Role, message: Message<S::Body>) -> Result<Next<S>, Abort> {
        self.check(from, &message)?;
        let coordinator = from == Role::Coordinator;
        let line = if coordinator { &self.coordinator } else { &self.line };
        let came = message.header.sequence;
        if came < line.next {
            return self.repeated(&message);
        }
        if came > line.next && !coordinator {
            if let Some(abort) = self.script.left_behind(&message.body) {
                return Err(abort);
            }
            if let Some(turn) = self.ask_to_begin()? {
                return Ok(turn);
            }
        }
        let line = if coordinator { &self.coordinator } else { &self.line };
        let full = if coordinator { line.waiting.len() == AHEAD } else { self.is_own_turn() };
        let kind = message.body.kind();
        let fault = match self.step() {
            _ if came > line.next => Some(PeerFault::Ahead { came, expected: line.next }),
            None => Some(PeerFault::Kind { came: kind, expected: "nothing more" }),
            Some(_) => full.then_some(PeerFault::Kind { came: kind, expected: "nothing yet" }),
        };
        if let Some(fault) = fault {
            return Err(Abort::Peer { peer: from, fault });
        }
        if coordinator {
            self.script.keep_answer(came, &message.body)?;
            return self.hear_answer(message);
        }
        self.script.keep(came, &message.body)?;
        self.hear(message)
    }

    fn resend(&self) -> Option<Released<Message<S::Body>>> {
        self.sent.clone()
    }

    fn order(&mut self) -> Option<Order> {
        self.script.order()
    }

    fn request(&mut self) -> Option<Request> {
        self.script.request(self.coordinator.next)
    }

    fn awaits(&self) -> Role {
        let coordinator = self.step().is_some_and(|step| step.speaker == Role::Coordinator);
        if coordinator { Role::Coordinator } else { self.peer }
    }

    fn room(&self) -> bool {
        self.coordinator.waiting.len() < ROOM
    }

    fn allowance(&self) -> Duration {
        self.script.allowance()
    }

    fn has_work(&self) -> bool {
        self.script.has_work()
    }

    fn work(&mut self) -> Result<(), Abort> {
        self.script.work()
    }

    fn position(&self) -> u64 {
        self.line.next + self.coordinator.next
    }
}

impl<B: Discloses> Discloses for Message<B> {
    fn discloses(&self) -> Vec<Declaration> {
        self.body.discloses()
    }
}

impl<B> From<Released<Message<B>>> for Message<B> {
    fn from(released: Released<Message<B>>) -> Message<B> {
        released.into_inner()
    }
}

/// Prints the kind and the place only: messages end up in logs, and their content is data.
impl<B: Content> fmt::Debug for Message<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "message {} from {}: {}", self.header.sequence, self.header.sender, self.body.kind())
    }
}
