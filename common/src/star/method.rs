//! What a horizontal method is to the hub.

use crate::exit::Exit;
use crate::fit::{Coefficient, Consolidation, Statistics, Termination};
use crate::report::Course;
use crate::study::Function;

use super::message::{Body, Kind};

/// How contributions come about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Every site contributes what it has, when it has it.
    Own,
    /// Contribution `k` answers broadcast `k`; the hub closes a round when every site in the run has answered.
    Rounds,
}

/// Sizes of what a site may send, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// The kind.
    pub kind: Kind,
    /// How many whole numbers.
    pub counts: usize,
    /// How many numbers, at most.
    pub values: usize,
    /// What their number is a multiple of; `values` where it is fixed.
    pub unit: usize,
}

impl Shape {
    /// A fixed number of whole numbers and of numbers.
    pub fn fixed(kind: Kind, counts: usize, values: usize) -> Shape {
        Shape { kind, counts, values, unit: values }
    }

    /// Whether a body of the kind has these sizes.
    pub fn fits(&self, counts: usize, values: usize) -> bool {
        let whole = if self.unit == 0 { values == 0 } else { values > 0 && values.is_multiple_of(self.unit) };
        counts == self.counts && values <= self.values && whole
    }
}

/// What a method yields.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Why it ended.
    pub termination: Termination,
    /// The coefficient table.
    pub coefficients: Vec<Coefficient>,
    /// Statistics of the fit.
    pub statistics: Statistics,
    /// Rounds, where there are any.
    pub rounds: u32,
    /// Which batches were trusted, and why.
    pub consolidation: Option<Consolidation>,
    /// The result over time, of a method that follows a stream or goes in rounds.
    pub course: Option<Course>,
    /// A function that anyone can predict with.
    pub function: Option<Function>,
    /// Things the reader must know.
    pub notes: Vec<String>,
}

impl Outcome {
    /// The code with which everybody exits.
    pub fn exit(&self) -> Exit {
        self.termination.exit()
    }
}

/// The hub's side of a method: what came so far, and what follows from it.
pub trait Method: Send {
    /// How contributions come about.
    fn pace(&self) -> Pace {
        Pace::Own
    }

    /// What a site may send.
    fn shapes(&self) -> Vec<Shape>;

    /// Takes a contribution of one of the shapes.
    ///
    /// # Errors
    /// Why it is not accepted, in a sentence for the report; the method is then unchanged.
    fn take(&mut self, site: &str, number: u64, body: &Body) -> Result<(), String>;

    /// What the sites should know, with a number that rises whenever it changes.
    fn broadcast(&self) -> Option<(u64, Body)> {
        None
    }

    /// Closes the current round with what was taken; whether another one follows.
    ///
    /// # Errors
    /// The round has no result.
    fn close_round(&mut self) -> Result<bool, String> {
        Ok(false)
    }

    /// Whether the method remembers all that matters in a snapshot, because its memory does not grow with the contributions.
    /// Others are given their contributions again.
    fn remembers(&self) -> bool {
        false
    }

    /// All that the method remembers.
    fn snapshot(&self) -> Option<String> {
        None
    }

    /// Goes on from a snapshot.
    ///
    /// # Errors
    /// The text is none.
    fn restore(&mut self, snapshot: &str) -> Result<(), String> {
        Err(format!("a snapshot of {} bytes for a method without one", snapshot.len()))
    }

    /// What follows from everything taken so far.
    ///
    /// # Errors
    /// There is no result, in a sentence.
    fn outcome(&self) -> Result<Outcome, String>;
}
