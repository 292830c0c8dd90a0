//! A site's end: what it still has to say, and what it has heard. Events go in, what is to be done comes out.

use std::collections::VecDeque;
use std::sync::Arc;

pub mod charge;
pub mod local;

use self::local::Content;
use super::message::{Body, Contribution, Join, MOST, ToHub, ToSite, VERSION};
use crate::exit::Exit;
use crate::id::{Digest, RunId};
use crate::privacy::release::{Disclosures, Released, Undeclared};
use crate::study::{Sites, Study};

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Act {
    /// Say this on the line, if there is one.
    Say(ToHub<Released<Body>>),
    /// The hub has everything below this number, of which the first welcome tells: begin there.
    Begin {
        /// The first number to contribute.
        next: u64,
        /// The run.
        run: RunId,
    },
    /// The hub holds the run no more: what costs something may begin. Said once.
    Open,
    /// The hub has all contributions, of which it lacked some before.
    Acknowledged,
    /// A contribution was not accepted.
    Rejected {
        /// Its number.
        number: u64,
        /// The reason, for the report.
        reason: String,
    },
    /// The hub published something.
    Heard {
        /// Its number.
        number: u64,
        /// The content.
        body: Body,
    },
    /// The run is over: write this report, then say that it is done.
    Outcome {
        /// The code to exit with.
        exit: Exit,
        /// The report as JSON.
        report: String,
    },
    /// The run is over for this site.
    Refused {
        /// The code to exit with.
        exit: Exit,
        /// The sentence for the user.
        sentence: String,
    },
}

/// One site in one run.
#[derive(Debug)]
pub struct Site {
    study: Arc<Study<Sites>>,
    digest: Digest,
    instance: [u8; 16],
    disclosures: Disclosures,
    run: Option<RunId>,
    /// The number of the first piece in `waiting`.
    acknowledged: u64,
    /// What was contributed and is not acknowledged.
    waiting: VecDeque<Released<Body>>,
    total: Option<u64>,
    joined: bool,
    ready: bool,
    /// Whether the hub's latest welcome said that the run is held.
    held: bool,
    open: bool,
    /// The latest that the hub has published on this line.
    told: Option<u64>,
    over: bool,
}

impl Site {
    /// A site before it joins. `instance` is drawn when the process starts.
    pub fn new(study: Arc<Study<Sites>>, instance: [u8; 16]) -> Site {
        Site {
            digest: study.digest(),
            disclosures: study.disclosures(),
            study,
            instance,
            run: None,
            acknowledged: 0,
            waiting: VecDeque::new(),
            total: None,
            joined: false,
            ready: false,
            held: false,
            open: false,
            told: None,
            over: false,
        }
    }

    /// A line was opened: what is to be said first.
    pub fn open(&mut self) -> Vec<Act> {
        self.joined = false;
        self.told = None;
        let keys = self.study.key_digests();
        vec![Act::Say(ToHub::Join(Join { version: VERSION, instance: self.instance, keys }))]
    }

    /// The line is gone; what is contributed now waits for the next.
    pub fn lost(&mut self) {
        self.joined = false;
    }

    /// Contributes a piece. In rounds, an answer to one that was closed without this site is left out.
    ///
    /// # Errors
    /// The study does not declare what is in it.
    pub fn contribute(&mut self, number: u64, content: Content) -> Result<Vec<Act>, Undeclared> {
        if self.study.in_rounds() && number < self.next() {
            return Ok(Vec::new());
        }
        let body = match content {
            Content::Plain(body) => self.disclosures.release(body)?,
            Content::Released(body) => body,
        };
        if self.study.in_rounds() && number > self.next() {
            self.waiting.clear();
            self.acknowledged = number;
        }
        let number = self.next();
        self.waiting.push_back(body.clone());
        Ok(match (self.joined, self.run) {
            (true, Some(run)) => vec![Act::Say(self.message(run, number, body))],
            _ => Vec::new(),
        })
    }

    /// The rows are read, and nothing stands against taking part.
    pub fn ready(&mut self) -> Vec<Act> {
        self.ready = true;
        self.readiness().into_iter().collect()
    }

    /// There are no more pieces.
    pub fn complete(&mut self) -> Vec<Act> {
        self.total = Some(self.next());
        match (self.joined, self.run) {
            (true, Some(run)) => vec![Act::Say(ToHub::Complete { run, contributions: self.next() })],
            _ => Vec::new(),
        }
    }

    /// The number of the next piece.
    pub fn next(&self) -> u64 {
        self.acknowledged.saturating_add(self.waiting.len() as u64)
    }

    /// Whether the hub has said where to begin.
    pub fn has_begun(&self) -> bool {
        self.run.is_some()
    }

    /// Whether the hub holds the run no more.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Whether the hub has welcomed the line that is open.
    pub fn has_joined(&self) -> bool {
        self.joined
    }

    /// Pieces that are acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Pieces that are not acknowledged.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The hub said something.
    pub fn hear(&mut self, message: ToSite) -> Vec<Act> {
        if self.over {
            return Vec::new();
        }
        match message {
            ToSite::Welcome { differing, .. } if !differing.is_empty() => {
                self.over = true;
                let sentence = format!(
                    "the study file differs from the coordinator's in: {}; agree on one file and give it to all",
                    differing.join(", ")
                );
                vec![Act::Refused { exit: Exit::Refused, sentence }]
            }
            ToSite::Welcome { run, next, held, .. } => self.welcome(run, next, held),
            ToSite::Acknowledged { next } => self.acknowledge(next).into_iter().collect(),
            ToSite::Rejected { number, reason } => {
                if number == self.acknowledged {
                    self.acknowledge(number.saturating_add(1));
                }
                vec![Act::Rejected { number, reason }]
            }
            ToSite::Broadcast { number, body } => self.heard(number, body),
            ToSite::Outcome { exit, report } => {
                self.over = true;
                vec![Act::Outcome { exit, report }]
            }
            ToSite::Refused { exit, sentence } => {
                self.over = true;
                vec![Act::Refused { exit, sentence }]
            }
        }
    }

    /// Takes what the hub publishes. What came before on this line says nothing new; more than there can be is a fault.
    fn heard(&mut self, number: u64, body: Body) -> Vec<Act> {
        let Some(last) = self.study.method.method.terms().last_broadcast() else {
            let kind = body.kind.name();
            return self.refused(format!("the coordinator published {kind}, which this method has no use for"));
        };
        let most = last.min(MOST);
        if number > most {
            return self.refused(format!("the coordinator published number {number}, and the last one is {most}"));
        }
        match self.told.is_some_and(|told| number <= told) {
            true => Vec::new(),
            false => {
                self.told = Some(number);
                vec![Act::Heard { number, body }]
            }
        }
    }

    /// The hub broke the protocol.
    fn refused(&mut self, sentence: String) -> Vec<Act> {
        self.over = true;
        vec![Act::Refused { exit: Exit::Peer, sentence }]
    }

    /// What may have been lost, again, with the same bits: for a line that may lose messages.
    pub fn resend(&self) -> Vec<Act> {
        let Some(run) = self.run.filter(|_| self.joined && !self.over) else { return Vec::new() };
        let pieces = self.waiting.iter().zip(self.acknowledged..);
        let mut acts: Vec<Act> = self.readiness().into_iter().collect();
        acts.extend(pieces.map(|(body, number)| Act::Say(self.message(run, number, body.clone()))));
        acts.extend(self.total.map(|contributions| Act::Say(ToHub::Complete { run, contributions })));
        acts
    }

    /// What is said when the outcome is kept.
    pub fn done(&self) -> ToHub<Released<Body>> {
        ToHub::Done
    }

    /// Said as long as the hub waits for it.
    fn readiness(&self) -> Option<Act> {
        (self.joined && self.held && self.ready).then_some(Act::Say(ToHub::Ready))
    }

    fn welcome(&mut self, run: RunId, next: u64, held: bool) -> Vec<Act> {
        self.held = held;
        let mut acts = self.welcomed(run, next);
        if !held && !self.open && !self.over {
            self.open = true;
            acts.push(Act::Open);
        }
        acts
    }

    fn welcomed(&mut self, run: RunId, next: u64) -> Vec<Act> {
        match self.run {
            None => {
                self.run = Some(run);
                self.joined = true;
                self.acknowledged = next;
                vec![Act::Begin { next, run }]
            }
            Some(known) if known != run => {
                self.over = true;
                let sentence = "the coordinator has begun another run; start again to take part in it".to_string();
                vec![Act::Refused { exit: Exit::Unreachable, sentence }]
            }
            Some(_) if !self.joined && next < self.acknowledged => {
                self.over = true;
                let sentence = format!(
                    "the coordinator has forgotten contributions that it had acknowledged: it has {next}, and had {}",
                    self.acknowledged
                );
                vec![Act::Refused { exit: Exit::Peer, sentence }]
            }
            Some(_) => {
                self.joined = true;
                let mut acts: Vec<Act> = self.acknowledge(next).into_iter().collect();
                acts.extend(self.resend());
                acts
            }
        }
    }

    /// Takes an acknowledgement, and says what is new or wrong about it. One that is older than another that overtook it changes
    /// nothing.
    fn acknowledge(&mut self, next: u64) -> Option<Act> {
        if next > self.next() && self.study.in_rounds() {
            // Rounds were closed without this site while its line was lost; it goes on with the one that is open.
            self.waiting.clear();
            self.acknowledged = next;
            return None;
        }
        if next > self.next() {
            self.over = true;
            let sentence = format!("the coordinator acknowledged contribution {next}, only {} were sent", self.next());
            return Some(Act::Refused { exit: Exit::Peer, sentence });
        }
        let before = self.acknowledged;
        while self.acknowledged < next && self.waiting.pop_front().is_some() {
            self.acknowledged += 1;
        }
        (self.acknowledged > before && self.waiting.is_empty()).then_some(Act::Acknowledged)
    }

    fn message(&self, run: RunId, number: u64, body: Released<Body>) -> ToHub<Released<Body>> {
        ToHub::Contribution(Contribution { study: self.digest, run, number, body })
    }
}
