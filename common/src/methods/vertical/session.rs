//! The conversation of two parties for a plain fit: Alice and Bob, or one of several with their leader, in which it sees the sum of
//! all others.
//!
//! The script, after greetings with the study's digest:
//!
//! 1. proof of rows, complete rows where asked for, digests of shared columns;
//! 2. vectors that another than the leader holds alone, to the leader; then those that the first party, Alice or the leader, holds
//!    alone, where the study declares them;
//! 3. the fits: partial predictions to and fro until the leader, of two the party with fewer columns, ends them;
//! 4. the projection exchange, where the study and both policies allow it; of two parties after the first round already, as a rule, and
//!    the fit goes on from the joint minimum that it gives;
//! 5. results.

use std::sync::Arc;

use crate::conversation::{Conversation, Opening, Purpose, Refusal, Said, Script, Step};
use crate::data::align::{self, Mask};
use crate::glm::Family;
use crate::id::{Digest, Role};
use crate::session::{Abort, PeerFault};
use crate::study::{HeldColumn, Study, Vertical};

use super::agree::{self, Agreement, Compared};
use super::message::{Body, HeldKind, Shared};
use super::outcome::{self, VerticalFit};
use super::prepare::Prepared;

mod work;

pub(super) use work::Work;

/// How far a session is, for progress lines: nothing here depends on single records.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// What is going on.
    pub phase: &'static str,
    /// Which fit of how many.
    pub fit: (usize, usize),
    /// Round of the fit.
    pub round: u32,
    /// Scaled gradient of the last exchange.
    pub certificate: Option<f64>,
}

/// One side of a vertical fit.
pub type VerticalSession = Conversation<VerticalScript>;

/// What the sides of a vertical fit say.
pub struct VerticalScript {
    opening: Opening,
    agreement: Agreement<Prepared>,
    stage: Stage,
}

enum Stage {
    /// The parties compare their tables.
    Agreeing {
        /// Columns of the peer's block.
        peer_columns: usize,
        /// Why no basis is exchanged, if none is.
        no_basis: Option<String>,
    },
    /// The rows are settled.
    Fitting(Box<Work>),
}

/// The place in the script once the rows are settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Of several parties: what another than the leader holds alone.
    ForLeader {
        what: HeldKind,
        holder: Role,
    },
    Held(HeldKind),
    Largest {
        answered: bool,
    },
    /// A part of the basis by its first row; before the fits for a path, after them for standard errors.
    Basis {
        start: u64,
        purpose: BasisPurpose,
    },
    Fit,
    Answer,
    Table,
    Redo,
    /// Of several parties: the leader tells how many columns the others have set aside.
    Redone,
    /// Of several parties: the leader gives out what is learnt, once no column depends on others.
    Learn,
    Results {
        answered: bool,
    },
    /// Of two parties whose study shares covariances: whoever received the basis speaks first.
    Covariance {
        answered: bool,
    },
    Over,
}

/// What a basis is sent for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BasisPurpose {
    Path,
    Inference,
}

impl Progress {
    /// Before the rows are settled.
    pub(super) fn lining_up() -> Progress {
        Progress { phase: "lining up rows", fit: (0, 0), round: 0, certificate: None }
    }
}

impl VerticalSession {
    /// A session over prepared data.
    pub fn new(prepared: Prepared, opening: Opening) -> VerticalSession {
        let (role, study) = (prepared.role(), Arc::clone(prepared.study()));
        let agreement = Agreement::of_prepared(prepared, &opening);
        let stage = Stage::Agreeing { peer_columns: 0, no_basis: None };
        let script = VerticalScript { opening: opening.clone(), agreement, stage };
        Conversation::open(role, Purpose::Fit, &study, &opening, script)
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        let phase = if self.has_greeted() { "lining up rows" } else { "comparing studies" };
        match &self.script().stage {
            Stage::Agreeing { .. } => Progress { phase, fit: (0, 0), round: 0, certificate: None },
            Stage::Fitting(work) => work.progress(),
        }
    }
}

impl Script for VerticalScript {
    type Body = Body;
    type Output = VerticalFit;

    fn step(&self) -> Option<Step> {
        match &self.stage {
            Stage::Agreeing { .. } => self.agreement.step(),
            Stage::Fitting(work) => work.step(),
        }
    }

    fn build(&mut self) -> Result<Said<Body>, Abort> {
        if let Stage::Fitting(work) = &mut self.stage {
            return Ok(work.build()?.into());
        }
        let body = self.agreement.build()?;
        self.settle()?;
        Ok(body.into())
    }

    fn absorb(&mut self, body: Body) -> Result<(), Refusal> {
        if let Stage::Fitting(work) = &mut self.stage {
            return work.absorb(body);
        }
        let study = Arc::clone(self.agreement.table.study());
        if let Some(theirs) = self.agreement.absorb(&study, body)? {
            self.stage = self.compare_blocks(&study, &theirs)?;
        }
        Ok(self.settle()?)
    }

    fn has_work(&self) -> bool {
        matches!(&self.stage, Stage::Fitting(work) if work.has_part_to_do())
    }

    fn work(&mut self) -> Result<(), Abort> {
        if let Stage::Fitting(work) = &mut self.stage {
            work.do_part();
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<VerticalFit, Abort> {
        match &mut self.stage {
            Stage::Fitting(work) => {
                work.fits.rest();
                outcome::finish(work, work.run)
            }
            Stage::Agreeing { .. } => Err(Abort::Bug("the parties agreed and did not fit".to_string())),
        }
    }
}

impl VerticalScript {
    /// What follows from the size of the peer's block, and from what its policy allows.
    fn compare_blocks(&self, study: &Study<Vertical>, theirs: &Shared) -> Result<Stage, Refusal> {
        let (prepared, peer_columns) = (&self.agreement.table, theirs.columns as usize);
        let role = prepared.role();
        agree::enough_rows(study, role, &prepared.encoded()?.block, theirs.columns)?;
        let forbids = |who: Role| Some(format!("the policy of {who} does not allow the basis exchange"));
        let no_basis = match (study.method.inference.allowed, prepared.allows_basis(), theirs.basis) {
            (true, true, true) => None,
            (false, _, _) => Some("the study does not allow them".to_string()),
            (true, false, _) => forbids(role),
            // The leader of several says of all others together whether they allow it.
            (true, true, false) if study.others(role).len() > 1 => Some(format!(
                "the policy of another party does not allow the basis exchange; the report of {} names it",
                self.agreement.peer
            )),
            (true, true, false) => forbids(self.agreement.peer),
        };
        Ok(Stage::Agreeing { peer_columns, no_basis })
    }

    /// Sets the fits up once both parties have said all that is to be compared.
    fn settle(&mut self) -> Result<(), Abort> {
        let (None, Stage::Agreeing { peer_columns, no_basis }) = (self.agreement.part(), &mut self.stage) else {
            return Ok(());
        };
        let (peer_columns, no_inference) = (*peer_columns, no_basis.take());
        let mut work = Work::new(&mut self.agreement.table, &self.opening, peer_columns, no_inference)?;
        work.go_on_with_held()?;
        self.stage = Stage::Fitting(Box::new(work));
        Ok(())
    }
}

impl Compared for Prepared {
    fn rows(&self) -> u64 {
        self.frame.rows() as u64
    }

    fn digest(&self, key: &[u8; 32]) -> Digest {
        Digest(align::digest_rows(&self.frame, key))
    }

    fn is_matched(&self) -> bool {
        self.frame.matched().is_some()
    }

    fn is_of_several(&self) -> bool {
        self.study.is_of_several()
    }

    fn incomplete(&self) -> Option<&Mask> {
        self.incomplete.as_ref()
    }

    fn settle(&mut self, theirs: Vec<u8>) -> Result<(), Refusal> {
        let Some(own) = &self.incomplete else { return Err(Refusal::Kind) };
        let theirs =
            Mask::from_bytes(theirs, self.frame.rows()).map_err(|error| PeerFault::Garbage(error.to_string()))?;
        let complete = align::complete_cases(own, &theirs).map_err(|error| Abort::Bug(error.to_string()))?;
        if complete.kept == 0 {
            return Err(Abort::Data("no row is complete at both parties".to_string()).into());
        }
        Ok(self.encode(Some(complete))?)
    }

    fn shared(&self, key: &[u8; 32]) -> Result<Shared, Abort> {
        let (study, encoded) = (&self.study, self.encoded()?);
        let digest = |label: &str, by_both: bool, values: &Option<Vec<f64>>| match values {
            Some(values) if by_both => Some(Digest(align::digest_numbers(label, values, key))),
            _ => None,
        };
        let both = |column: Option<&HeldColumn>| column.is_some_and(|column| column.held_by.is_shared());
        let folds = encoded.folds.as_ref().map(|folds| folds.iter().map(|fold| f64::from(*fold)).collect());
        Ok(Shared {
            outcome: digest("outcome", both(Some(&study.method.outcome)), &encoded.outcome),
            offset: digest("offset", both(study.method.offset.as_ref()), &encoded.offset),
            weights: digest("weights", both(study.method.weights.as_ref()), &encoded.weights),
            folds: digest("folds", true, &folds),
            columns: encoded.block.columns() as u32,
            basis: self.allows_basis(),
        })
    }
}

fn undeclared() -> PeerFault {
    PeerFault::Kind { came: "another held vector", expected: "the declared one" }
}

/// The vectors that others than the leader of several hold alone and send to it, in order: all at the leader, at another its own.
fn for_leader(study: &Study<Vertical>, role: Role) -> Vec<(HeldKind, Role)> {
    let sent = study.sent_to_leader().into_iter().map(|(what, holder, _)| (what.into(), holder));
    sent.filter(|(_, holder)| study.is_first(role) || *holder == role).collect()
}

/// The vectors that the first party holds alone and sends, in order.
fn held(study: &Study<Vertical>) -> Vec<HeldKind> {
    let mut held = Vec::new();
    if study.method.weights.as_ref().is_some_and(|weights| weights.held_by.is_alone()) {
        held.push(HeldKind::Weights);
    }
    if study.sends_offset() {
        held.push(HeldKind::Offset);
    }
    if study.method.outcome.held_by.is_alone() {
        match study.method.family {
            Family::Gaussian => held.push(HeldKind::Scale),
            Family::Binomial | Family::Poisson => held.push(HeldKind::Outcome),
        }
        if study.method.family == Family::Gaussian && study.needs_path() {
            held.push(HeldKind::NullResidual);
        }
    }
    held
}
