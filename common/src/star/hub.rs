//! The hub's end: who takes part, what has come, and when the run is over. Events go in, what is to be done comes out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

mod opening;
mod outcome;
mod rejections;
mod resume;

use self::rejections::Rejections;
use super::message::{Body, Contribution, Join, MOST, ToHub, ToSite, VERSION};
use super::method::{Method, Pace};
use crate::exit::Exit;
use crate::fit::{BatchName, Rejection};
use crate::id::{Digest, RunId};
use crate::report::Report;
use crate::session::PeerFault;
use crate::study::{Sites, Study};

/// Contributions per site whose content is remembered, so that a repeat that contradicts is told from one that does not.
const REMEMBERED: usize = 1024;
/// Rejections per site that the report names; more are counted.
const NAMED: usize = 20;
/// Longest reason of a site that is printed.
const SENTENCE: usize = 500;

/// Most rows, or other things counted, in one contribution: far beyond any table, and sums of many stay far from overflow.
const MOST_ROWS: u64 = 1 << 40;
/// Size that no number of a contribution reaches.
const LARGEST: f64 = 1e100;

/// A line of a site, numbered by the driver.
pub type Line = u64;

/// What is to be done, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Act {
    /// Keep this; nothing that follows may be said before it is durable.
    Store(Record),
    /// Say this on a line.
    Say(Line, ToSite),
    /// End a line, once everything said on it is written.
    Close(Line),
    /// The run is over.
    Ended(Exit),
}

/// What must survive the hub's process. Given back in order to [`Hub::resume`], it is the same hub again.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// A contribution that was accepted.
    Contribution {
        /// Of whom.
        site: String,
        /// The number of the contribution.
        number: u64,
        /// Its content.
        body: Body,
    },
    /// Stands for everything before it: older records may go.
    Snapshot(Snapshot),
    /// Something that was not accepted. With a number, that number is used up.
    Rejected {
        /// Of whom.
        site: String,
        /// The contribution's number, where it is used up.
        number: Option<u64>,
        /// The reason, for the report.
        reason: String,
    },
    /// A site has nothing more to contribute.
    Complete {
        /// The name of the site.
        site: String,
        /// How many contributions there are.
        contributions: u64,
    },
    /// A site is out of the run for good.
    Left {
        /// The name of the site.
        site: String,
        /// Its exit code.
        exit: Exit,
        /// The sentence for the user.
        sentence: String,
    },
    /// The quorum was there, and what costs a site something was asked for the first time.
    Opened,
    /// A round was closed with what had come.
    Round,
    /// The run was over, whatever had come.
    Over {
        /// Why, if not because everything had come.
        reason: Option<String>,
    },
    /// A site has kept the outcome: nothing is owed to it any more.
    Told {
        /// The name of the site.
        site: String,
    },
}

/// All that a hub remembers, for methods whose memory does not grow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The method's own memory.
    pub method: String,
    /// What is known of each site.
    pub sites: BTreeMap<String, Position>,
    /// What was not accepted.
    pub rejected: Vec<Rejection>,
    /// What came again.
    pub repeated: Vec<BatchName>,
}

/// How far a site is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Position {
    /// The first number that is not there.
    pub next: u64,
    /// Contributions that were accepted.
    pub accepted: u64,
    /// Bytes of their numbers.
    pub bytes: u64,
    /// Contents of the latest, in hexadecimal, oldest first.
    recent: VecDeque<String>,
    /// How many there will be, once that is known.
    total: Option<u64>,
    rejected: u64,
    /// Code and reason, once it is out of the run.
    left: Option<(u8, String)>,
}

#[derive(Debug, Default)]
struct Site {
    position: Position,
    line: Option<Line>,
    instance: Option<[u8; 16]>,
    joined: bool,
    /// Whether it has said so on its line.
    ready: bool,
    /// The latest broadcast that was said to it.
    told: u64,
    done: bool,
}

/// How far a site is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// Its name.
    pub name: String,
    /// What it does.
    pub state: State,
    /// Contributions that were accepted.
    pub contributions: u64,
    /// Bytes of their numbers.
    pub bytes: u64,
}

/// What a site does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It never came.
    Absent,
    /// It has a line.
    Here,
    /// Its line is lost.
    Away,
    /// Everything of it has come.
    Complete,
    /// It is out of the run.
    Left,
}

impl Site {
    fn finished(&self) -> bool {
        self.position.left.is_some() || self.position.total.is_some_and(|total| self.position.next >= total)
    }

    fn state(&self, over: bool) -> String {
        match (&self.position.left, self.line, self.joined) {
            (Some((code, sentence)), ..) => format!("left ({code}): {sentence}"),
            _ if self.finished() => "complete".to_string(),
            (None, Some(_), true) if over => "was connected, but had not sent everything".to_string(),
            (None, Some(_), true) => "under way".to_string(),
            (None, _, true) => "lost".to_string(),
            (None, _, false) => "never came".to_string(),
        }
    }
}

/// One run of a horizontal study.
pub struct Hub {
    study: Arc<Study<Sites>>,
    digest: Digest,
    keys: Vec<(String, Digest)>,
    run: RunId,
    method: Box<dyn Method>,
    sites: BTreeMap<String, Site>,
    /// The site of each line that is open.
    lines: BTreeMap<Line, String>,
    rejections: Rejections,
    /// Rounds that are closed.
    round: u64,
    /// Whether the last round is closed, and why if it has no result.
    closed: Option<Option<String>>,
    /// Whether this process still waits for the quorum before it asks anything.
    held: bool,
    /// Whether any process of this run has asked something: what came since makes a result, no matter which sites are there now.
    asked: bool,
    /// Sites whose latest contributions are in no snapshot yet.
    unkept: BTreeSet<String>,
    over: Option<Over>,
}

struct Over {
    exit: Exit,
    /// The hub's own report; the reason where there is none.
    result: Result<Box<Report>, String>,
}

impl Hub {
    /// A run before anything came.
    pub fn new(study: Arc<Study<Sites>>, run: RunId, method: Box<dyn Method>) -> Hub {
        let held = opening::waits(&study, method.as_ref());
        Hub {
            digest: study.digest(),
            keys: study.key_digests(),
            sites: study.method.workers.keys().map(|name| (name.clone(), Site::default())).collect(),
            held,
            asked: !held,
            study,
            run,
            method,
            lines: BTreeMap::new(),
            rejections: Rejections::default(),
            round: 0,
            closed: None,
            unkept: BTreeSet::new(),
            over: None,
        }
    }

    /// A line was opened by the site of this name, which its certificate has shown. It must join next.
    pub fn open(&mut self, line: Line, site: &str) {
        if self.sites.contains_key(site) {
            self.lines.insert(line, site.to_string());
        }
    }

    /// A line brought a message.
    pub fn hear(&mut self, line: Line, message: ToHub) -> Vec<Act> {
        let Some(name) = self.lines.get(&line).cloned() else { return Vec::new() };
        let mut acts = Vec::new();
        match message {
            ToHub::Join(join) => self.join(line, &name, &join, &mut acts),
            // Only the line that joined speaks for its site.
            _ if self.sites.get(&name).is_none_or(|site| site.line != Some(line)) => {
                let sentence = format!("{name} spoke before it joined");
                acts.push(Act::Say(line, ToSite::Refused { exit: Exit::Peer, sentence }));
                acts.push(Act::Close(line));
                self.lines.remove(&line);
            }
            ToHub::Done => {
                if self.over.is_some()
                    && let Some(site) = self.sites.get_mut(&name)
                    && !std::mem::replace(&mut site.done, true)
                {
                    acts.push(Act::Store(Record::Told { site: name.clone() }));
                }
                acts.push(Act::Close(line));
                self.lost(line);
            }
            message if self.over.is_some() => {
                // The outcome may have been lost on the way; of a burst of contributions only the first asks for it.
                let next = self.sites.get(&name).map(|site| site.position.next);
                let asks = match message {
                    ToHub::Complete { .. } | ToHub::Ready => true,
                    ToHub::Contribution(contribution) => Some(contribution.number) == next,
                    ToHub::Join(_) | ToHub::Leave { .. } | ToHub::Done => false,
                };
                if asks {
                    let outcome = self.outcome_for(&name);
                    acts.push(Act::Say(line, outcome));
                }
            }
            ToHub::Ready => {
                if let Some(site) = self.sites.get_mut(&name) {
                    site.ready = true;
                }
                let held = self.held;
                self.settle(&mut acts);
                if let Some(site) = self.sites.get(&name).filter(|_| !held) {
                    // It was told, and did not hear it.
                    acts.push(Act::Say(line, self.welcome(site)));
                }
            }
            ToHub::Contribution(contribution) => self.contribution(line, &name, contribution, &mut acts),
            ToHub::Complete { run, contributions } => self.complete(line, &name, (run, contributions), &mut acts),
            ToHub::Leave { exit, sentence } => {
                let sentence = shortened(&sentence);
                self.leave(&name, exit, sentence, &mut acts);
                acts.push(Act::Close(line));
                self.lost(line);
                self.settle(&mut acts);
            }
        }
        acts
    }

    /// A site says how many contributions it makes in all.
    fn complete(&mut self, line: Line, name: &str, (run, contributions): (RunId, u64), acts: &mut Vec<Act>) {
        acts.extend(self.keep());
        if run != self.run {
            self.refuse(line, name, None, "a message of another run", acts);
        } else if contributions > MOST {
            let reason = format!("{contributions} contributions, which no run reaches");
            self.refuse(line, name, None, &reason, acts);
        } else if let Some(site) = self.sites.get_mut(name) {
            match site.position.total {
                None => {
                    site.position.total = Some(contributions);
                    acts.push(Act::Store(Record::Complete { site: name.to_string(), contributions }));
                }
                Some(total) if total != contributions => {
                    let reason = format!("expected {total} contributions as it said before, got {contributions}");
                    self.refuse(line, name, None, &reason, acts);
                }
                Some(_) => {}
            }
            if let Some(site) = self.sites.get(name) {
                acts.push(Act::Say(line, ToSite::Acknowledged { next: site.position.next }));
            }
        }
        self.settle(acts);
    }

    /// A line brought bytes that are no message: its site has no part in the run any more.
    pub fn fault(&mut self, line: Line, fault: &PeerFault) -> Vec<Act> {
        let Some(name) = self.lines.get(&line).cloned() else { return Vec::new() };
        let mut acts = Vec::new();
        if self.over.is_none() {
            let reason = shortened(&fault.to_string());
            self.refuse(line, &name, None, &reason, &mut acts);
            let sentence = format!("{name} {reason}");
            acts.push(Act::Say(line, ToSite::Refused { exit: Exit::Peer, sentence: sentence.clone() }));
            self.leave(&name, Exit::Peer, sentence, &mut acts);
        }
        acts.push(Act::Close(line));
        self.lost(line);
        self.settle(&mut acts);
        acts
    }

    /// A line is gone.
    pub fn lost(&mut self, line: Line) {
        if let Some(name) = self.lines.remove(&line)
            && let Some(site) = self.sites.get_mut(&name)
            && site.line == Some(line)
        {
            site.line = None;
        }
    }

    /// A site whose line was lost stayed away for too long: the run does not wait for it any more.
    pub fn give_up(&mut self, name: &str, seconds: u64) -> Vec<Act> {
        let mut acts = Vec::new();
        let away = self.away().any(|away| away == name);
        let missing = self.missing().any(|missing| missing == name);
        if away || missing || self.silent().any(|silent| silent == name) {
            let sentence = match self.sites.get(name) {
                Some(site) if !site.joined => format!("it did not come within {seconds} s after the quorum was there"),
                _ if missing => format!("it was not ready within {seconds} s after the quorum was there"),
                _ if away => format!("its line was lost, and it did not come back within {seconds} s"),
                _ => format!("it did not answer round {} within {seconds} s", self.round.saturating_add(1)),
            };
            self.dismiss(name, sentence, &mut acts);
            self.settle(&mut acts);
        }
        acts
    }

    /// Goes on without a site. On a new line it may take part again, from the round that is open then.
    fn dismiss(&mut self, name: &str, sentence: String, acts: &mut Vec<Act>) {
        self.leave(name, Exit::Unreachable, sentence, acts);
        if let Some(line) = self.sites.get_mut(name).and_then(|site| site.line.take()) {
            self.lines.remove(&line);
            acts.push(Act::Close(line));
        }
    }

    /// The time of the study is up.
    pub fn deadline(&mut self) -> Vec<Act> {
        let seconds = self.study.site_terms().deadline;
        self.end(Some(format!("the run was ended at its deadline, {seconds} s after it was opened")))
    }

    /// The study's owner will wait for nobody else: a run that is held for the others opens with those who are ready, and one that is
    /// open ends with what has come.
    ///
    /// # Errors
    /// There is no quorum, or no result yet, in a sentence; the run is as it was.
    pub fn close(&mut self) -> Result<Vec<Act>, String> {
        let (came, quorum) = (self.came(), self.study.quorum());
        if self.over.is_some() {
            return Err("the run is over already".to_string());
        }
        if came < quorum {
            let what = if self.asked { "have contributed" } else { "are ready" };
            return Err(format!("{came} workers {what}, and the quorum is {quorum}: the run goes on"));
        }
        let sentence = "the run was closed by `coordinator finish`";
        if !self.asked {
            let missing: Vec<String> = self.missing().map(str::to_string).collect();
            let mut acts = Vec::new();
            for name in missing {
                self.dismiss(&name, format!("it was not ready when {sentence}"), &mut acts);
            }
            self.settle(&mut acts);
            return Ok(acts);
        }
        match self.method.outcome() {
            Ok(_) => Ok(self.end(Some(sentence.to_string()))),
            Err(reason) => Err(format!("there is no result yet: {reason}; the run goes on")),
        }
    }

    /// Workers that are ready, before anything is asked; that have contributed, afterwards.
    pub fn came(&self) -> usize {
        let came = |site: &&Site| if self.asked { site.position.accepted > 0 } else { site.counts() };
        self.sites.values().filter(came).count()
    }

    /// How many workers make a quorum.
    pub fn quorum(&self) -> usize {
        self.study.quorum()
    }

    /// The user ends the run; a result is made of what has come.
    pub fn interrupt(&mut self) -> Vec<Act> {
        if self.over.is_some() {
            return Vec::new();
        }
        let sentence = "interrupted by the user of coordinator".to_string();
        self.over = Some(Over { exit: Exit::Interrupted, result: Err(sentence.clone()) });
        let mut acts: Vec<Act> = Vec::new();
        for line in self.lines.keys() {
            acts.push(Act::Say(*line, ToSite::Refused { exit: Exit::Interrupted, sentence: sentence.clone() }));
            acts.push(Act::Close(*line));
        }
        acts.push(Act::Ended(Exit::Interrupted));
        acts
    }

    /// Sites whose line is there and whose answer the open round waits for, while others have answered.
    pub fn silent(&self) -> impl Iterator<Item = &str> {
        let round = self.round;
        let present = |site: &&Site| site.joined && site.position.left.is_none();
        let answered = self.sites.values().filter(present).any(|site| site.position.next > round);
        let waits = self.over.is_none() && self.method.pace() == Pace::Rounds && answered;
        self.sites
            .iter()
            .filter(move |(_, site)| waits && present(site) && site.line.is_some() && site.position.next <= round)
            .map(|(name, _)| name.as_str())
    }

    /// Sites that were there, are not finished, and have no line; a run that is held does not need them yet.
    pub fn away(&self) -> impl Iterator<Item = &str> {
        let open = self.over.is_none() && !self.held;
        self.sites
            .iter()
            .filter(move |(_, site)| open && site.joined && site.line.is_none() && !site.finished())
            .map(|(name, _)| name.as_str())
    }

    /// The run.
    pub fn run(&self) -> RunId {
        self.run
    }

    /// The code with which the run ended, once it has.
    pub fn exit(&self) -> Option<Exit> {
        self.over.as_ref().map(|over| over.exit)
    }

    /// Whether every site that was there has kept the outcome, and nobody is about to join.
    pub fn all_told(&self) -> bool {
        let joins = |(line, name): (&Line, &String)| self.sites.get(name).is_some_and(|site| site.line != Some(*line));
        !self.lines.iter().any(joins)
            && self.sites.values().all(|site| site.done || site.position.left.is_some() || !site.joined)
    }

    /// Sites without a line that have given something to a result, and do not have it yet.
    pub fn owed(&self) -> impl Iterator<Item = &str> {
        let result = self.over.as_ref().is_some_and(|over| over.result.is_ok());
        let owed = move |site: &Site| {
            result && !site.done && site.line.is_none() && site.position.left.is_none() && site.position.accepted > 0
        };
        self.sites.iter().filter(move |(_, site)| owed(site)).map(|(name, _)| name.as_str())
    }

    /// How far each site is.
    pub fn progress(&self) -> Vec<Progress> {
        let row = |(name, site): (&String, &Site)| Progress {
            name: name.clone(),
            state: match (&site.position.left, site.finished(), site.line, site.joined) {
                (Some(_), ..) => State::Left,
                (None, true, ..) => State::Complete,
                (None, false, Some(_), true) => State::Here,
                (None, false, None, true) => State::Away,
                (None, false, _, false) => State::Absent,
            },
            contributions: site.position.accepted,
            bytes: site.position.bytes,
        };
        self.sites.iter().map(row).collect()
    }

    /// Whether the method publishes results while the run goes on.
    pub fn follows(&self) -> bool {
        self.method.broadcast().is_some()
    }

    /// The hub's report: of the end, or of how it stands.
    ///
    /// # Errors
    /// There is no result, in a sentence.
    pub fn report(&self) -> Result<Report, String> {
        match &self.over {
            Some(Over { result: Ok(report), .. }) => Ok((**report).clone()),
            Some(Over { result: Err(reason), .. }) => Err(reason.clone()),
            None => self.method.outcome().map(|outcome| self.written(outcome, None, true)),
        }
    }

    /// Keeps and acknowledges what a method remembers by itself, and tells what it says to everybody. Called when everything
    /// that came in is taken, so that a burst is answered once.
    pub fn publish(&mut self) -> Vec<Act> {
        let mut acts = self.keep();
        if self.over.is_some() || self.held {
            return acts;
        }
        if let Some((number, body)) = self.method.broadcast() {
            for site in self.sites.values_mut().filter(|site| site.told < number + 1) {
                if let Some(line) = site.line {
                    site.told = number + 1;
                    acts.push(Act::Say(line, ToSite::Broadcast { number, body: body.clone() }));
                }
            }
        }
        acts
    }

    /// Keeps and acknowledges what is in no snapshot yet: before anything else is kept, so that records stay in order.
    fn keep(&mut self) -> Vec<Act> {
        let mut acts = Vec::new();
        if self.unkept.is_empty() {
            return acts;
        }
        if let Some(method) = self.method.snapshot() {
            acts.push(Act::Store(Record::Snapshot(Snapshot {
                method,
                sites: self.positions(),
                rejected: self.rejections.named.clone(),
                repeated: self.rejections.repeated.clone(),
            })));
        }
        for name in std::mem::take(&mut self.unkept) {
            if let Some((line, site)) = self.sites.get(&name).and_then(|site| Some((site.line?, site))) {
                acts.push(Act::Say(line, ToSite::Acknowledged { next: site.position.next }));
            }
        }
        acts
    }

    fn join(&mut self, line: Line, name: &str, join: &Join, acts: &mut Vec<Act>) {
        let differing = Study::differing_keys(&self.keys, &join.keys);
        let run = self.run;
        let Some(site) = self.sites.get_mut(name) else { return };
        let refused = |exit, sentence: String| ToSite::Refused { exit, sentence };
        let refusal = if join.version != VERSION {
            Some(refused(
                Exit::Refused,
                format!("{name} speaks version {}, the coordinator version {VERSION}", join.version),
            ))
        } else if !differing.is_empty() {
            Some(ToSite::Welcome { differing: differing.clone(), run, next: 0, held: self.held })
        } else if site.line.is_some_and(|other| other != line) && site.instance != Some(join.instance) {
            Some(refused(Exit::Refused, format!("another process with the certificate of {name} has joined already")))
        } else if let Some((code, sentence)) = site.position.left.as_ref().filter(|left| left.0 == Exit::Peer.code())
            && self.over.is_none()
        {
            Some(refused(Exit::from_code(*code), format!("{name} is out of this run: {sentence}")))
        } else {
            None
        };
        if let Some(refusal) = refusal {
            if !differing.is_empty() && self.over.is_none() {
                self.rejections.differs(name, &differing);
            }
            acts.push(Act::Say(line, refusal));
            acts.push(Act::Close(line));
            self.lines.remove(&line);
            return;
        }
        if let Some(old) = site.line.filter(|old| *old != line) {
            acts.push(Act::Close(old));
            self.lines.remove(&old);
        }
        if self.over.is_none() {
            // A site that went by itself may come back, with its data mended.
            site.position.left = None;
        }
        site.line = Some(line);
        site.instance = Some(join.instance);
        site.joined = true;
        site.ready = false;
        site.told = 0;
        // What is in no snapshot yet must not be told as kept.
        acts.extend(self.keep());
        acts.extend(self.sites.get(name).map(|site| Act::Say(line, self.welcome(site))));
        if self.over.is_some() {
            let outcome = self.outcome_for(name);
            acts.push(Act::Say(line, outcome));
        } else {
            acts.extend(self.publish());
            self.settle(acts);
        }
    }

    fn contribution(&mut self, line: Line, name: &str, contribution: Contribution, acts: &mut Vec<Act>) {
        let Contribution { study, run, number, body } = contribution;
        if study != self.digest || run != self.run {
            let what =
                if study != self.digest { "a contribution of another study" } else { "a contribution of another run" };
            self.refuse(line, name, Some(number), what, acts);
            return;
        }
        if self.sites.get(name).is_some_and(|site| site.position.next != number) {
            acts.extend(self.keep());
        }
        let Some(site) = self.sites.get_mut(name) else { return };
        let position = &mut site.position;
        let ahead = number > position.next
            || (self.method.pace() == Pace::Rounds && number > self.round)
            // Nothing was asked for yet: nobody answers before, and nobody counts for the quorum by answering.
            || !self.asked;
        if ahead || position.total.is_some_and(|total| number >= total) {
            // Something before it was lost on the way; the site goes on from what it is told.
            acts.push(Act::Say(line, ToSite::Acknowledged { next: position.next }));
            return;
        }
        if number < position.next {
            let age = usize::try_from(position.next - number).unwrap_or(usize::MAX);
            let known = position.recent.len().checked_sub(age).and_then(|at| position.recent.get(at));
            if known.is_some_and(|known| !known.is_empty() && *known != body.digest().to_string()) {
                let reason = format!("contribution {number} came again with different content; the first stands");
                self.refuse(line, name, None, &reason, acts);
                return;
            }
            let next = position.next;
            self.rejections.repeats(BatchName { worker: name.to_string(), batch: number });
            acts.push(Act::Say(line, ToSite::Acknowledged { next }));
            return;
        }
        let taken = self.check(&body).and_then(|()| self.method.take(name, number, &body));
        match taken {
            Ok(()) => {
                self.advance(name, number, &body);
                if self.method.remembers() {
                    // One snapshot keeps a whole burst.
                    self.unkept.insert(name.to_string());
                } else {
                    acts.push(Act::Store(Record::Contribution { site: name.to_string(), number, body }));
                    acts.push(Act::Say(line, ToSite::Acknowledged { next: number + 1 }));
                }
            }
            Err(reason) => {
                let reason = shortened(&reason);
                acts.extend(self.keep());
                acts.push(Act::Store(Record::Rejected {
                    site: name.to_string(),
                    number: Some(number),
                    reason: reason.clone(),
                }));
                acts.push(Act::Say(line, ToSite::Rejected { number, reason: reason.clone() }));
                self.reject(name, Some(number), reason);
            }
        }
        self.settle(acts);
    }

    /// What holds for the numbers of every method.
    fn check(&self, body: &Body) -> Result<(), String> {
        let shapes = self.method.shapes();
        let Some(shape) = shapes.iter().find(|shape| shape.kind == body.kind) else {
            let expected: Vec<&str> = shapes.iter().map(|shape| shape.kind.name()).collect();
            return Err(format!("expected {}, got {}", expected.join(" or "), body.kind.name()));
        };
        if !shape.fits(body.counts.len(), body.values.len()) {
            let (counts, values) = (body.counts.len(), body.values.len());
            let expected = match shape.unit == shape.values {
                true => format!("{} counts and {} numbers", shape.counts, shape.values),
                false => {
                    format!("{} counts and a multiple of {} numbers up to {}", shape.counts, shape.unit, shape.values)
                }
            };
            return Err(format!("expected {expected}, got {counts} and {values}"));
        }
        if let Some(count) = body.counts.iter().find(|count| **count > MOST_ROWS) {
            return Err(format!("expected counts of at most {MOST_ROWS}, got {count}"));
        }
        // Beyond it sums and products of numbers of several sites would be no numbers, and the round of all would have no result.
        match body.values.iter().position(|value| value.abs() >= LARGEST || value.is_nan()) {
            Some(at) => Err(format!("expected finite numbers below {LARGEST:e}, but number {} is not", at + 1)),
            None => Ok(()),
        }
    }

    fn advance(&mut self, name: &str, number: u64, body: &Body) {
        if let Some(site) = self.sites.get_mut(name) {
            site.joined = true;
            let position = &mut site.position;
            position.left = None;
            position.next = number.saturating_add(1);
            position.accepted = position.accepted.saturating_add(u64::from(body.kind.counts()));
            position.bytes = position.bytes.saturating_add(body.bytes());
            position.remember(body.digest().to_string());
        }
    }

    fn positions(&self) -> BTreeMap<String, Position> {
        self.sites.iter().map(|(name, site)| (name.clone(), site.position.clone())).collect()
    }

    /// Opens the run when it can be, and closes a round, or the run, when nothing more can come.
    fn settle(&mut self, acts: &mut Vec<Act>) {
        if self.over.is_some() {
            return;
        }
        self.open_run(acts);
        match self.method.pace() {
            Pace::Own => {
                if self.sites.values().all(Site::finished) {
                    acts.extend(self.end(None));
                }
            }
            Pace::Rounds => {
                let (round, quorum) = (self.round, self.study.quorum());
                let present = self.sites.values().filter(|site| site.position.left.is_none());
                if let Some(reason) = self.closed.clone() {
                    acts.extend(self.end(reason));
                } else if present.clone().count() < quorum {
                    acts.extend(self.end(None));
                } else if !self.held && present.clone().all(|site| site.joined && site.position.next > round) {
                    acts.push(Act::Store(Record::Round));
                    self.close_round();
                    match self.closed.clone() {
                        None => acts.extend(self.publish()),
                        Some(reason) => acts.extend(self.end(reason)),
                    }
                }
            }
        }
    }

    fn close_round(&mut self) {
        self.round += 1;
        for site in self.sites.values_mut() {
            while site.position.next < self.round {
                site.position.next += 1;
                site.position.remember(String::new());
            }
        }
        self.closed = match self.method.close_round() {
            Ok(true) => None,
            Ok(false) => Some(None),
            Err(reason) => Some(Some(reason)),
        };
    }

    /// Ends the run with what has come.
    fn end(&mut self, reason: Option<String>) -> Vec<Act> {
        if self.over.is_some() {
            return Vec::new();
        }
        let mut acts = self.keep();
        acts.push(Act::Store(Record::Over { reason: reason.clone() }));
        let exit = self.finish(reason);
        let lines: Vec<(Line, String)> =
            self.sites.iter().filter_map(|(name, site)| Some((site.line?, name.clone()))).collect();
        for (line, name) in lines {
            acts.push(Act::Say(line, self.outcome_for(&name)));
        }
        acts.push(Act::Ended(exit));
        acts
    }

    fn finish(&mut self, reason: Option<String>) -> Exit {
        if self.method.pace() == Pace::Rounds && self.asked {
            // A site that has answered the last round has nothing more to say.
            let round = self.round;
            for site in self.sites.values_mut().filter(|site| site.joined && site.position.next >= round) {
                site.position.total.get_or_insert(round);
            }
        }
        let contributed: Vec<&str> =
            self.sites.iter().filter(|(_, site)| site.position.accepted > 0).map(|(name, _)| name.as_str()).collect();
        let quorum = self.study.quorum();
        let (exit, result) = if !self.asked {
            let why = reason.map(|reason| format!("; {reason}")).unwrap_or_default();
            (Exit::Unreachable, Err(format!("{}{why}{}", self.never_opened(), self.absences())))
        } else if contributed.len() < quorum {
            let who = match contributed.is_empty() {
                true => "nobody contributed".to_string(),
                false => format!("only {} contributed", contributed.join(", ")),
            };
            let why = reason.map(|reason| format!("; {reason}")).unwrap_or_default();
            (
                Exit::Unreachable,
                Err(format!("the quorum of {quorum} workers was not reached: {who}{why}{}", self.absences())),
            )
        } else {
            match self.method.outcome() {
                Ok(outcome) => (outcome.exit(), Ok(Box::new(self.written(outcome, reason, false)))),
                Err(sentence) => (Exit::Data, Err(format!("there is no result: {sentence}"))),
            }
        };
        self.over = Some(Over { exit, result });
        exit
    }
}

impl Position {
    fn remember(&mut self, content: String) {
        self.recent.push_back(content);
        let excess = self.recent.len().saturating_sub(REMEMBERED);
        self.recent.drain(..excess);
    }
}

/// A reason that is safe to print.
fn shortened(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(SENTENCE).collect()
}
