//! The leader's side of its conversation with one of several parties: it says what the hub puts into it.

use std::collections::VecDeque;

use crate::conversation::{Refusal, Said, Script, Step};
use crate::id::Role;
use crate::session::Abort;

use super::super::matching::journal::{self, Journal};
use super::super::message::Body;

/// What is to be said and heard on one line.
pub(super) struct Leg {
    role: Role,
    peer: Role,
    said: VecDeque<Said<Body>>,
    /// What the other side is to say once all has been said to it.
    expected: Option<&'static str>,
    heard: Option<Body>,
    over: bool,
    /// Where what is heard is kept, of a leader that goes on after it was killed.
    journal: Option<Box<dyn Journal + Send>>,
}

impl Leg {
    pub(super) fn new(role: Role, peer: Role, expected: &'static str) -> Leg {
        Leg { role, peer, said: VecDeque::new(), expected: Some(expected), heard: None, over: false, journal: None }
    }

    /// The same with a place where what is heard is kept.
    pub(super) fn keeping(self, journal: Option<Box<dyn Journal + Send>>) -> Leg {
        Leg { journal, ..self }
    }

    /// Has something said, after what is to be said already.
    pub(super) fn say(&mut self, body: impl Into<Said<Body>>) {
        self.said.push_back(body.into());
    }

    /// Waits for something, once all has been said.
    pub(super) fn await_answer(&mut self, what: &'static str) {
        self.expected = Some(what);
    }

    /// Has said its last.
    pub(super) fn end(&mut self) {
        self.over = true;
    }

    /// Whether something was heard that has not been taken.
    pub(super) fn has_heard(&self) -> bool {
        self.heard.is_some()
    }

    /// What was heard.
    pub(super) fn take(&mut self) -> Option<Body> {
        self.heard.take()
    }
}

impl Script for Leg {
    type Body = Body;
    type Output = ();

    fn step(&self) -> Option<Step> {
        let step = |speaker, expected| Some(Step { speaker, expected });
        match self.expected {
            _ if !self.said.is_empty() => step(self.role, "what the leader says"),
            Some(expected) => step(self.peer, expected),
            None if self.over => None,
            None => step(self.role, "nothing yet"),
        }
    }

    fn is_ready(&self) -> bool {
        !self.said.is_empty()
    }

    fn build(&mut self) -> Result<Said<Body>, Abort> {
        self.said.pop_front().ok_or_else(|| Abort::Bug("a leader had nothing to say".to_string()))
    }

    fn absorb(&mut self, body: Body) -> Result<(), Refusal> {
        self.expected = None;
        self.heard = Some(body);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Abort> {
        Ok(())
    }

    fn keep(&mut self, sequence: u64, body: &Body) -> Result<(), Abort> {
        match &mut self.journal {
            Some(journal) => journal.keep(sequence, &journal::record(body)),
            None => Ok(()),
        }
    }

    fn resumes(&self) -> bool {
        self.journal.as_ref().is_some_and(|journal| journal.has_begun())
    }

    fn recall(&mut self, sequence: u64) -> Result<Option<Body>, Abort> {
        journal::recalled(&mut self.journal, sequence)
    }
}
