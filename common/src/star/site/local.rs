//! What a site computes in a run: rows, permits and broadcasts go in, releases and contributions come out.
//!
//! A [`Local`] is fed one [`Input`] at a time and answers with the one [`Act`] that comes next. It opens no file, keeps no ledger and
//! starts no thread: anyone who drives it does what the act says, and feeds back what came of it. What all methods have in common stands
//! here once: rows are read, the budget is found to be there, the quorum is waited for, the charge is made, and only then does the
//! method begin.

use std::fmt;

use nalgebra::{DMatrix, DVector};

use super::charge::{Claim, Persons};
use crate::data::Place;
use crate::id::Role;
use crate::privacy::mechanism::records::{NoisedRecords, PerRecord, Spending};
use crate::privacy::mechanism::{NoisedRelease, Query, ReleasePlan};
use crate::privacy::release::Released;
use crate::privacy::sampler::NoisePool;
use crate::session::{Abort, PeerFault};
use crate::star::message::Body;

/// Some rows of a table, encoded as the study says.
#[derive(Clone)]
pub struct Batch {
    /// Its number, from 0.
    pub number: u64,
    /// `n x p` features, without a column of ones.
    pub x: DMatrix<f64>,
    /// `n` outcomes.
    pub y: DVector<f64>,
    /// Where its first and last row lie.
    pub place: (Place, Place),
    /// Rows that were left out because a value was missing in them.
    pub missing: u64,
    /// Whose rows they are, in private runs: identifiers, or numbers of rows where the study names no column of them.
    pub ids: Vec<Vec<u8>>,
}

/// Sizes only: the rows are the data that must not leave.
impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("number", &self.number).field("rows", &self.y.len()).finish_non_exhaustive()
    }
}

/// What is fed to the computation of a site.
#[derive(Debug)]
pub enum Input {
    /// What the latest act asked for is done. Also fed first where rows are read before the run begins.
    Done,
    /// The hub expects contributions from this number on.
    Begin(u64),
    /// Rows that were asked for; none after the last.
    Rows(Option<Batch>),
    /// The quorum is reached: what costs budget may begin.
    Opened,
    /// The hub published something.
    Heard {
        /// Its number.
        number: u64,
        /// The content.
        body: Body,
    },
    /// The hub has all contributions.
    Acknowledged,
    /// The latest contribution was not accepted.
    Rejected,
    /// Nothing was heard since.
    Silence,
    /// The release that was asked for, charged and stored.
    Granted(NoisedRelease),
    /// Records that were noised and stored under the number that was asked for, if there are any.
    Kept(Option<NoisedRecords>),
    /// Records that are noised and stored, and how many of them are noise alone because their person had too many, or none.
    Noised(NoisedRecords, u64),
}

/// What is to be done next.
#[derive(Debug)]
pub enum Act {
    /// Read the next batch of the table; with a number, at most a given number of rows as soon as they are there.
    Read(Option<u64>),
    /// Pass over a given number of rows, which were contributed before.
    Skip(u64),
    /// Wait for what the hub says.
    Wait,
    /// Look whether the hub has said something.
    Poll,
    /// Find out whether the ledger has the budget of the run; nothing is charged.
    Claim(Claim),
    /// Tell the hub that nothing stands against taking part.
    Ready,
    /// Charge what was claimed.
    Reserve,
    /// Release this under the permit of this number, or give back what was stored under it.
    Release {
        /// Position in the plan.
        index: u32,
        /// What to release.
        query: Query,
    },
    /// Look for noised records that were stored under this number.
    Recall {
        /// Number of the contribution.
        number: u64,
        /// Shows that the stream was charged.
        right: PerRecord,
    },
    /// Count a record of each of these persons, and store under this number what [`Local::noised`] makes of them.
    Noise {
        /// Number of the contribution.
        number: u64,
        /// Whose records they are.
        ids: Vec<Vec<u8>>,
    },
    /// Fit a batch, beside others if there are cores for it.
    Fit(Fitting),
    /// Contribute this.
    Contribute(Contribution),
    /// Nothing: everything was contributed. With warnings for the log of this site.
    Finish(Vec<String>),
}

/// Work that needs nothing else and may run beside other work: the fit of one batch.
pub struct Fitting(Box<dyn FnOnce() -> Contribution + Send>);

impl Fitting {
    pub(crate) fn new(work: impl FnOnce() -> Contribution + Send + 'static) -> Fitting {
        Fitting(Box::new(work))
    }

    /// Does the work.
    pub fn run(self) -> Contribution {
        (self.0)()
    }
}

// It holds rows, which are data.
impl fmt::Debug for Fitting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fitting")
    }
}

/// A numbered piece of a site's part.
#[derive(Debug)]
pub struct Contribution {
    /// Its number.
    pub number: u64,
    /// What it brings.
    pub content: Content,
    /// Rows that were used since the contribution before.
    pub rows: u64,
    /// Rows that were left out since then.
    pub missing: u64,
    /// Why a batch has no estimate, with its place.
    pub unfit: Option<String>,
}

/// What a contribution brings.
#[derive(Debug)]
pub enum Content {
    /// Values without noise, which leave only if the study declares them.
    Plain(Body),
    /// Values that may leave: noised, charged and stored.
    Released(Released<Body>),
}

impl Contribution {
    /// Of a batch, or records, of a given number of rows.
    pub(crate) fn new(number: u64, content: Content, rows: u64) -> Contribution {
        Contribution { number, content, rows, missing: 0, unfit: None }
    }
}

/// A method's computation at a site, from its first contribution on.
pub(crate) trait LocalMethod: Send {
    /// Whether it needs all rows before it begins.
    fn gathers(&self) -> bool {
        true
    }

    /// Takes rows before it begins.
    ///
    /// # Errors
    /// Rows that cannot be used.
    fn gather(&mut self, _batch: &Batch) -> Result<(), Abort> {
        Err(bug("rows that nobody asked for"))
    }

    /// All rows are there.
    ///
    /// # Errors
    /// Too few of them, or none that can be used.
    fn gathered(&mut self) -> Result<(), Abort> {
        Ok(())
    }

    /// Whether nothing is left to be contributed from this number on.
    fn is_over(&self, _first: u64) -> bool {
        false
    }

    /// The releases, where they follow from the rows and not from the study alone.
    fn plan(&self) -> Option<ReleasePlan> {
        None
    }

    /// What records may spend, where persons come one after the other and are not known beforehand.
    fn spending(&self) -> Option<Spending> {
        None
    }

    /// What follows from an input. The first is [`Input::Begin`].
    ///
    /// # Errors
    /// Why there is no contribution.
    fn step(&mut self, input: Input) -> Result<Act, Abort>;

    /// Noises the records of the latest [`Act::Noise`], of which the first is in place `first`; those that are not usable are replaced by
    /// noise alone.
    ///
    /// # Errors
    /// Noise that cannot be added. Nothing may leave then.
    fn noised(&mut self, _first: u64, _usable: &[bool], _pool: &mut NoisePool) -> Result<NoisedRecords, Abort> {
        Err(bug("records that nobody asked for"))
    }
}

/// What a computation is about to do, until its method begins.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Stage {
    Gather,
    Begin,
    Claim,
    Ready,
    Quorum,
    Reserve,
    Open,
}

/// The computation of one site in one run.
pub struct Local {
    method: Box<dyn LocalMethod>,
    /// Whether everything that leaves is charged.
    charged: bool,
    /// Whether nothing is contributed before the quorum is reached.
    held: bool,
    stage: Stage,
    first: Option<u64>,
    ids: Vec<Vec<u8>>,
    rows: u64,
}

impl Local {
    /// Of a method whose contributions are charged, and held until the quorum is reached.
    pub(crate) fn of(method: Box<dyn LocalMethod>, charged: bool, held: bool) -> Local {
        let stage = if method.gathers() { Stage::Gather } else { Stage::Begin };
        Local { method, charged, held, stage, first: None, ids: Vec::new(), rows: 0 }
    }

    /// Whose rows were read, in a private run.
    pub fn ids(&self) -> &[Vec<u8>] {
        &self.ids
    }

    /// What is to be done next. Before the run begins, [`Act::Wait`] says that all rows are read.
    ///
    /// # Errors
    /// Rows that cannot be used, a hub that breaks the protocol.
    pub fn step(&mut self, input: Input) -> Result<Act, Abort> {
        self.stage = match (self.stage, input) {
            (Stage::Open, input) => return self.method.step(input),
            (stage, Input::Begin(first)) => {
                self.first = Some(first);
                if self.method.is_over(first) {
                    return Ok(Act::Finish(Vec::new()));
                }
                stage
            }
            (Stage::Gather, Input::Rows(Some(mut batch))) => {
                self.rows += batch.y.len() as u64;
                self.ids.append(&mut batch.ids);
                self.method.gather(&batch)?;
                Stage::Gather
            }
            (Stage::Gather, Input::Rows(None)) => {
                self.method.gathered()?;
                Stage::Begin
            }
            (Stage::Claim, Input::Done) => Stage::Ready,
            (Stage::Ready, Input::Done) => Stage::Quorum,
            (Stage::Quorum, Input::Opened) if self.charged => Stage::Reserve,
            (Stage::Quorum, Input::Opened) | (Stage::Reserve, Input::Done) => Stage::Open,
            (stage, _) => stage,
        };
        if let (Stage::Begin, Some(_)) = (self.stage, self.first) {
            self.stage = match (self.charged, self.held) {
                (true, _) => Stage::Claim,
                (false, true) => Stage::Ready,
                (false, false) => Stage::Open,
            };
        }
        match self.stage {
            Stage::Gather => Ok(Act::Read(None)),
            Stage::Begin | Stage::Quorum => Ok(Act::Wait),
            Stage::Claim => Ok(Act::Claim(self.claim())),
            Stage::Ready => Ok(Act::Ready),
            Stage::Reserve => Ok(Act::Reserve),
            Stage::Open => self.method.step(Input::Begin(self.first.unwrap_or_default())),
        }
    }

    /// Noises the records that [`Act::Noise`] asked to be counted, of which the first is in place `first`; those that are not usable are
    /// replaced by noise alone.
    ///
    /// # Errors
    /// Noise that cannot be added. Nothing may leave then.
    pub fn noised(&mut self, first: u64, usable: &[bool], pool: &mut NoisePool) -> Result<NoisedRecords, Abort> {
        self.method.noised(first, usable, pool)
    }

    fn claim(&mut self) -> Claim {
        let persons = match self.method.spending() {
            Some(spending) => Persons::Anyone { spending },
            None => Persons::Known { ids: std::mem::take(&mut self.ids), rows: self.rows },
        };
        Claim { persons, plan: self.method.plan() }
    }
}

/// Refuses too few rows, before anything is spent on them.
pub(crate) fn enough(rows: u64, least: u64) -> Result<(), Abort> {
    match rows < least {
        true => {
            Err(Abort::Refused(format!("this worker's policy asks for at least {least} rows, and there are {rows}")))
        }
        false => Ok(()),
    }
}

pub(crate) fn bug(error: impl fmt::Display) -> Abort {
    Abort::Bug(error.to_string())
}

/// What the hub published is not what the method listens to.
pub(crate) fn fault(expected: &'static str) -> Abort {
    let fault = PeerFault::Garbage(format!("something else than {expected}"));
    Abort::Peer { peer: Role::Coordinator, fault }
}
