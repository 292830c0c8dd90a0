//! The conversation of Alice and Bob, as a value.
//!
//! It follows a script that both sides know: each step has one speaker. The sides take turns; where it is a side's turn
//! but the step belongs to the other, it says only [`Body::Go`]. So every message also acknowledges the one before, and
//! a line that lost something is repaired by sending one's last message again.
//!
//! The script:
//!
//! 1. greeting with the study's digest: a difference ends the run before any data are touched;
//! 2. proof of rows, complete rows where asked for, digests of shared columns;
//! 3. vectors that Alice holds alone, where the study declares them;
//! 4. the fits: partial predictions to and fro until the leader, the party with fewer columns, ends them;
//! 5. the projection exchange, where the study and both policies allow it;
//! 6. results.

use std::sync::Arc;

use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

use crate::data::align::{self, Mask};
use crate::fit::Termination;
use crate::id::{Digest, Role, RunId};
use crate::privacy::release::Released;
use crate::session::{Abort, PeerFault, Session, Turn};
use crate::study::{HeldBy, Missing, Study};

use super::agree;
use super::exchange::{self, Receiving, Sending};
use super::fits::{Fits, Step as FitStep};
use super::message::{self, Body, Held, HeldKind, Message, Results, Rows, Shared};
use super::outcome::{self, VerticalFit};
use super::prepare::{Encoded, Prepared};
use super::turns::{Came, Turns};

/// What a session needs beside the party's data.
#[derive(Clone)]
pub struct Opening {
    /// Whether this side speaks first: the side that dials does.
    pub first: bool,
    /// The run, from the coordinator.
    pub run: RunId,
    /// Secret randomness of this run: the key of the digests, where this side speaks first, and the rotation of a basis.
    pub seed: [u8; 32],
}

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

/// The place in the script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Hello {
        answered: bool,
    },
    Rows {
        answered: bool,
    },
    Complete {
        answered: bool,
    },
    Shared {
        answered: bool,
    },
    Held(usize),
    Largest {
        answered: bool,
    },
    /// A part of the basis by its first row; before the fits for a path, after them for standard errors.
    Basis {
        start: u64,
        purpose: Purpose,
    },
    Fit,
    Answer,
    Table,
    Redo,
    Results {
        answered: bool,
    },
    Over,
}

/// What a basis is sent for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Path,
    Inference,
}

/// One side of a vertical fit.
pub struct VerticalSession {
    role: Role,
    study: Arc<Study>,
    turns: Turns,
    opening: Opening,
    prepared: Prepared,
    key: [u8; 32],
    rng: ChaCha20Rng,
    place: Place,
    peer_columns: usize,
    /// Why no basis is exchanged, if none is.
    no_basis: Option<String>,
    work: Option<Work>,
}

/// What exists once the rows are settled.
pub(super) struct Work {
    pub(super) role: Role,
    pub(super) encoded: Encoded,
    pub(super) fits: Fits,
    pub(super) sending: Option<Sending>,
    pub(super) receiving: Option<Receiving>,
    pub(super) inference: Option<exchange::Learnt>,
    pub(super) peer: Option<Results>,
    pub(super) own_results: Option<Results>,
    pub(super) redone: bool,
    /// Why there are no standard errors, where it is not the data.
    pub(super) no_inference: Option<String>,
    /// At the party that holds the outcome.
    pub(super) null_deviance: f64,
    /// Own columns that the exchange showed to depend on the peer's.
    pub(super) dependent: Vec<usize>,
}

impl VerticalSession {
    /// A session over prepared data.
    pub fn new(prepared: Prepared, opening: Opening) -> VerticalSession {
        let study = Arc::clone(prepared.study());
        let mut key = opening.seed;
        // The key of the digests is sent; the rotation must not follow from it.
        key = Digest::of(&[b"rows".as_slice(), key.as_slice()].concat()).0;
        let rotation = Digest::of(&[b"rotation".as_slice(), opening.seed.as_slice()].concat()).0;
        VerticalSession {
            role: prepared.role(),
            turns: Turns::new(prepared.role(), message::Purpose::Fit, &study, opening.run),
            key,
            rng: ChaCha20Rng::from_seed(rotation),
            place: Place::Hello { answered: false },
            peer_columns: 0,
            no_basis: None,
            work: None,
            study,
            opening,
            prepared,
        }
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        let phase = match self.place {
            Place::Hello { .. } => "comparing studies",
            Place::Rows { .. } | Place::Complete { .. } | Place::Shared { .. } => "lining up rows",
            Place::Held(_) | Place::Largest { .. } => "setting up",
            Place::Basis { .. } | Place::Table | Place::Redo => "projection exchange",
            Place::Fit | Place::Answer => "fitting",
            Place::Results { .. } => "exchanging results",
            Place::Over => "done",
        };
        match &self.work {
            Some(work) => Progress {
                phase,
                fit: work.fits.position(),
                round: work.fits.round(),
                certificate: work.fits.certificate(),
            },
            None => Progress { phase, fit: (0, 0), round: 0, certificate: None },
        }
    }

    /// Longest vector that the peer may send at this point, for the decoder's limits.
    pub fn longest_vector(&self) -> u64 {
        let rows = self.prepared.rows() as u64;
        rows.max(64).max(exchange::PART_VALUES as u64)
    }

    fn first_speaker(&self) -> Role {
        if self.opening.first { self.role } else { self.role.partner() }
    }

    fn second_speaker(&self) -> Role {
        self.first_speaker().partner()
    }

    fn speaker(&self) -> Result<Role, Abort> {
        let in_order = |answered: bool, first: Role| if answered { first.partner() } else { first };
        Ok(match self.place {
            Place::Hello { answered } | Place::Rows { answered } | Place::Complete { answered } => {
                in_order(answered, self.first_speaker())
            }
            Place::Shared { answered } | Place::Largest { answered } => in_order(answered, self.first_speaker()),
            Place::Held(_) => Role::Alice,
            Place::Basis { .. } => self.study.inference.sender,
            Place::Table => self.study.inference.sender.partner(),
            Place::Redo => Role::Bob,
            Place::Fit => self.work()?.fits.leader(),
            Place::Answer => self.work()?.fits.leader().partner(),
            Place::Results { answered } => in_order(answered, Role::Bob),
            Place::Over => self.second_speaker(),
        })
    }

    fn work(&self) -> Result<&Work, Abort> {
        self.work.as_ref().ok_or_else(|| Abort::Bug("the fit was used before it was set up".to_string()))
    }

    fn work_mut(&mut self) -> Result<&mut Work, Abort> {
        self.work.as_mut().ok_or_else(|| Abort::Bug("the fit was used before it was set up".to_string()))
    }

    fn fault(&self, fault: PeerFault) -> Abort {
        self.turns.fault(fault)
    }

    /// Our turn: says what the script has for us, or that the other may go on.
    fn speak(&mut self) -> Result<Turn<Released<Message>, VerticalFit>, Abort> {
        let body = if self.speaker()? == self.role { self.build()? } else { Body::Go };
        let released = self.turns.send(body)?;
        if self.place == Place::Over {
            return Ok(Turn::FinishAndSend { output: self.finish()?, last: released });
        }
        Ok(Turn::Send(released))
    }

    /// Builds the message of the present place, and moves on.
    fn build(&mut self) -> Result<Body, Abort> {
        let body = match self.place {
            Place::Hello { .. } => self.turns.hello(&self.study),
            Place::Rows { answered } => Body::Rows(Rows {
                key: (!answered).then_some(self.key),
                rows: self.prepared.rows() as u64,
                ids: self.prepared.ids_digest(&self.key),
            }),
            Place::Complete { .. } => Body::Complete(
                self.prepared.incomplete.as_ref().map(|mask| mask.as_bytes().to_vec()).unwrap_or_default(),
            ),
            Place::Shared { .. } => Body::Shared(self.shared()?),
            Place::Held(index) => self.build_held(index)?,
            Place::Largest { .. } => Body::LargestGradient(self.work()?.fits.own_largest()),
            Place::Basis { start, purpose } => return self.build_basis(start, purpose),
            Place::Table => {
                let work = self.work_mut()?;
                let before = work.received_squares();
                let reading = work.receiving.take().and_then(Receiving::finish);
                let reading = reading.ok_or_else(|| Abort::Bug("the projection exchange is singular".to_string()))?;
                let table = work.take_reading(reading, before);
                if table.dependent > 0 {
                    self.restart()?;
                } else {
                    self.after_table();
                }
                return Ok(Body::Table(table));
            }
            Place::Redo => {
                let dependent = self.work_mut()?.drop_dependent();
                if dependent > 0 {
                    self.restart()?;
                    return Ok(Body::Redo(dependent));
                }
                self.place = Place::Results { answered: false };
                return self.build();
            }
            Place::Fit | Place::Answer => return self.build_fit(),
            Place::Results { answered } => {
                let results = {
                    let (role, study, columns) = (self.role, Arc::clone(&self.study), self.peer_columns);
                    outcome::results(role, &study, columns, self.work_mut()?)?
                };
                self.work_mut()?.own_results = Some(results.clone());
                self.place = if answered { Place::Over } else { Place::Results { answered: true } };
                return Ok(Body::Results(results));
            }
            Place::Over => Body::Go,
        };
        self.advance(&body)?;
        Ok(body)
    }

    /// Takes what the peer said at the present place, and moves on.
    fn absorb(&mut self, body: Body) -> Result<(), Abort> {
        let kind = body.kind();
        let expected = |expected: &'static str| PeerFault::Kind { came: kind, expected };
        match (self.place, body) {
            (Place::Hello { .. }, body @ Body::Hello(_)) => self.advance(&body),
            (Place::Rows { answered }, Body::Rows(rows)) => {
                self.absorb_rows(answered, &rows)?;
                self.advance(&Body::Rows(rows))
            }
            (Place::Complete { .. }, Body::Complete(mask)) => {
                self.absorb_complete(mask)?;
                self.advance(&Body::Go)
            }
            (Place::Shared { .. }, Body::Shared(shared)) => {
                self.absorb_shared(&shared)?;
                self.advance(&Body::Shared(shared))
            }
            (Place::Held(index), Body::Held(held)) => {
                self.absorb_held(index, held)?;
                self.advance(&Body::Go)
            }
            (Place::Largest { .. }, Body::LargestGradient(largest)) => {
                if !(largest.is_finite() && largest >= 0.0) {
                    return Err(self.fault(PeerFault::Value {
                        what: "a gradient",
                        expected: "a finite size",
                        round: 0,
                    }));
                }
                self.work_mut()?.fits.take_largest(largest);
                self.advance(&Body::Go)
            }
            (Place::Basis { start, purpose }, Body::Basis(basis)) => {
                let peer = self.role.partner();
                let columns = self.peer_columns;
                let path = purpose == Purpose::Path;
                self.work_mut()?
                    .take_basis(start, columns, &basis, path)
                    .map_err(|fault| Abort::Peer { peer, fault })?;
                let end = start + u64::from(basis.rows);
                self.after_basis(end, purpose)
            }
            (Place::Table, Body::Table(table)) => {
                let peer = self.role.partner();
                let limit = self.peer_columns;
                let redo = self.work_mut()?.take_table(&table, limit).map_err(|fault| Abort::Peer { peer, fault })?;
                if redo > 0 {
                    self.peer_columns -= redo;
                    self.restart()
                } else {
                    self.after_table();
                    Ok(())
                }
            }
            (Place::Redo, Body::Redo(dependent)) => {
                let dependent = dependent as usize;
                if dependent == 0 || dependent > self.peer_columns {
                    return Err(self.fault(PeerFault::Value {
                        what: "columns to drop",
                        expected: "possible",
                        round: 0,
                    }));
                }
                self.peer_columns -= dependent;
                self.restart()
            }
            (Place::Redo, body @ Body::Results(_)) => {
                self.place = Place::Results { answered: false };
                self.absorb(body)
            }
            (Place::Fit | Place::Answer, body @ (Body::Partial(_) | Body::Ended(_))) => self.absorb_fit(body),
            (Place::Results { answered }, Body::Results(results)) => {
                let peer = self.role.partner();
                let study = Arc::clone(&self.study);
                let work = self.work_mut()?;
                let folds = work.fits.jobs().iter().filter(|job| job.fold.is_some()).count();
                outcome::check_results(&study, &work.fits.fitted, folds, peer, &results)
                    .map_err(|fault| Abort::Peer { peer, fault })?;
                work.peer = Some(results);
                self.place = if answered { Place::Over } else { Place::Results { answered: true } };
                Ok(())
            }
            (Place::Hello { .. }, _) => Err(self.fault(expected("a greeting"))),
            (Place::Rows { .. }, _) => Err(self.fault(expected("a proof of rows"))),
            (Place::Complete { .. }, _) => Err(self.fault(expected("a mask of complete rows"))),
            (Place::Shared { .. }, _) => Err(self.fault(expected("digests of shared columns"))),
            (Place::Held(_), _) => Err(self.fault(expected("a held vector"))),
            (Place::Largest { .. }, _) => Err(self.fault(expected("a largest gradient"))),
            (Place::Basis { .. }, _) => Err(self.fault(expected("a part of the basis"))),
            (Place::Fit | Place::Answer, _) => Err(self.fault(expected("partial predictions"))),
            (Place::Table, _) => Err(self.fault(expected("a projection table"))),
            (Place::Redo | Place::Results { .. }, _) => Err(self.fault(expected("results"))),
            (Place::Over, _) => Err(self.fault(expected("nothing more"))),
        }
    }

    /// Moves along the opening part of the script.
    fn advance(&mut self, _said: &Body) -> Result<(), Abort> {
        self.place = match self.place {
            Place::Hello { answered: false } => Place::Hello { answered: true },
            Place::Hello { answered: true } => Place::Rows { answered: false },
            Place::Rows { answered: false } => Place::Rows { answered: true },
            Place::Rows { answered: true } if self.study.rows.missing == Missing::CompleteCases => {
                Place::Complete { answered: false }
            }
            Place::Rows { answered: true } => Place::Shared { answered: false },
            Place::Complete { answered: false } => Place::Complete { answered: true },
            Place::Complete { answered: true } => Place::Shared { answered: false },
            Place::Shared { answered: false } => Place::Shared { answered: true },
            Place::Shared { answered: true } => {
                self.set_up()?;
                self.after_held(0)?
            }
            Place::Held(index) => self.after_held(index + 1)?,
            Place::Largest { answered: false } => Place::Largest { answered: true },
            Place::Largest { answered: true } => {
                let work = self.work_mut()?;
                let rows = work.encoded.block.rows();
                work.fits.settle_path(rows)?;
                self.before_fits()?
            }
            other => other,
        };
        Ok(())
    }

    /// The vectors that Alice holds alone and sends, in order.
    fn held(&self) -> Vec<HeldKind> {
        let mut held = Vec::new();
        if self.study.weights.as_ref().is_some_and(|weights| weights.held_by == HeldBy::Alice) {
            held.push(HeldKind::Weights);
        }
        if self.study.outcome.held_by == HeldBy::Alice {
            if self.study.model.family == crate::glm::Family::Gaussian {
                held.push(HeldKind::Scale);
                if self.study.needs_path() {
                    held.push(HeldKind::NullResidual);
                }
            } else {
                held.push(HeldKind::Outcome);
            }
        }
        held
    }

    fn after_held(&mut self, index: usize) -> Result<Place, Abort> {
        if index < self.held().len() {
            return Ok(Place::Held(index));
        }
        let intercept = self.study.model.intercept;
        let hidden = self.study.outcome.held_by == HeldBy::Alice;
        let work = self.work_mut()?;
        if !hidden {
            work.encoded.block.measure_spread(intercept);
        }
        if work.encoded.outcome.is_some() {
            work.null_deviance = work.encoded.block.null_deviance(intercept);
        }
        work.fits.begin(&mut work.encoded)?;
        if self.study.needs_path() { Ok(Place::Largest { answered: false }) } else { self.before_fits() }
    }

    fn before_fits(&mut self) -> Result<Place, Abort> {
        if self.study.uses_tables() && self.no_basis.is_none() {
            return Ok(Place::Basis { start: 0, purpose: Purpose::Path });
        }
        Ok(Place::Fit)
    }

    fn shared(&mut self) -> Result<Shared, Abort> {
        let key = self.key;
        if self.prepared.encoded.is_none() {
            return Err(Abort::Bug("shared columns were asked for before rows were settled".to_string()));
        }
        let study = Arc::clone(&self.study);
        let Some(encoded) = &self.prepared.encoded else {
            return Err(Abort::Bug("rows are not encoded".to_string()));
        };
        let digest = |label: &str, by_both: bool, values: &Option<Vec<f64>>| match values {
            Some(values) if by_both => Some(Digest(align::digest_numbers(label, values, &key))),
            _ => None,
        };
        let both =
            |column: Option<&crate::study::HeldColumn>| column.is_some_and(|column| column.held_by == HeldBy::Both);
        let folds = encoded.folds.as_ref().map(|folds| folds.iter().map(|fold| f64::from(*fold)).collect());
        Ok(Shared {
            outcome: digest("outcome", both(Some(&study.outcome)), &encoded.outcome),
            offset: digest("offset", both(study.offset.as_ref()), &encoded.offset),
            weights: digest("weights", both(study.weights.as_ref()), &encoded.weights),
            folds: digest("folds", true, &folds),
            columns: encoded.block.columns() as u32,
            basis: self.prepared.allows_basis(),
        })
    }

    fn absorb_rows(&mut self, answered: bool, rows: &Rows) -> Result<(), Abort> {
        let (prepared, own) = (&self.prepared, self.prepared.rows() as u64);
        agree::rows(self.role, answered, rows, &mut self.key, own, |key| prepared.ids_digest(key))
    }

    fn absorb_complete(&mut self, mask: Vec<u8>) -> Result<(), Abort> {
        let rows = self.prepared.rows();
        let mask = Mask::from_bytes(mask, rows).map_err(|error| self.fault(PeerFault::Garbage(error.to_string())))?;
        if self.prepared.encoded.is_none() {
            let Some(own) = &self.prepared.incomplete else {
                return Err(Abort::Bug("no mask of complete rows".to_string()));
            };
            let complete = align::complete_cases(own, &mask).map_err(|error| Abort::Bug(error.to_string()))?;
            if complete.kept == 0 {
                return Err(Abort::Data("no row is complete at both parties".to_string()));
            }
            self.prepared.encode(Some(complete))?;
        }
        Ok(())
    }

    fn absorb_shared(&mut self, theirs: &Shared) -> Result<(), Abort> {
        let ours = self.shared()?;
        let study = &self.study;
        agree::shared(study, &ours, theirs)?;
        self.no_basis = match (study.inference.allowed, ours.basis, theirs.basis) {
            (true, true, true) => None,
            (false, _, _) => Some("the study does not allow them".to_string()),
            (true, false, _) => Some(format!("the policy of {} does not allow the basis exchange", self.role)),
            (true, true, false) => {
                Some(format!("the policy of {} does not allow the basis exchange", self.role.partner()))
            }
        };
        self.peer_columns = theirs.columns as usize;
        if self.peer_columns > MAX_COLUMNS {
            return Err(self.fault(PeerFault::Length {
                what: "columns",
                came: u64::from(theirs.columns),
                expected: MAX_COLUMNS as u64,
            }));
        }
        Ok(())
    }

    fn set_up(&mut self) -> Result<(), Abort> {
        let Some(encoded) = self.prepared.encoded.take() else {
            return Err(Abort::Bug("rows are not encoded".to_string()));
        };
        let (rows, columns) = (encoded.block.rows(), encoded.block.columns() + self.peer_columns);
        if self.study.penalty.is_none() && rows < columns {
            return Err(Abort::Data(format!(
                "{rows} rows cannot determine {columns} coefficients; leave columns out or use a penalty"
            )));
        }
        if columns == 0 {
            return Err(Abort::Data("no column is left in the model, and there is no intercept".to_string()));
        }
        let fits = Fits::new(&self.study, self.role, &self.prepared.policy, &encoded, self.peer_columns);
        self.work = Some(Work {
            role: self.role,
            encoded,
            fits,
            sending: None,
            receiving: None,
            inference: None,
            peer: None,
            own_results: None,
            redone: false,
            no_inference: self.no_basis.clone(),
            null_deviance: 0.0,
            dependent: Vec::new(),
        });
        Ok(())
    }

    fn build_held(&mut self, index: usize) -> Result<Body, Abort> {
        let kinds = self.held();
        let intercept = self.study.model.intercept;
        let encoded = &mut self.work_mut()?.encoded;
        let Some(what) = kinds.get(index).copied() else {
            return Err(Abort::Bug("nothing is held at this place".to_string()));
        };
        encoded.block.measure_spread(intercept);
        let total = encoded.block.outcome().spread.powi(2) * encoded.block.weight_sum();
        let values = match what {
            HeldKind::Outcome => encoded.outcome.clone().unwrap_or_default(),
            HeldKind::Weights => encoded.weights.clone().unwrap_or_default(),
            HeldKind::Scale => outcome::fold_totals(encoded, intercept),
            HeldKind::NullResidual => encoded.block.null_outgoing(),
        };
        if what == HeldKind::NullResidual {
            self.work_mut()?.fits.meter_null_residual();
        }
        Ok(Body::Held(Held { what, values, total }))
    }

    fn absorb_held(&mut self, index: usize, held: Held) -> Result<(), Abort> {
        let rows = self.work()?.encoded.block.rows() as u64;
        let folds = u64::from(self.study.penalty.as_ref().and_then(|penalty| penalty.cv).unwrap_or(0));
        let expected = if held.what == HeldKind::Scale { folds } else { rows };
        if self.held().get(index) != Some(&held.what) {
            return Err(self.fault(PeerFault::Kind { came: "another held vector", expected: "the declared one" }));
        }
        if held.values.len() as u64 != expected {
            let came = held.values.len() as u64;
            return Err(self.fault(PeerFault::Length { what: "a held vector", came, expected }));
        }
        let family = self.study.model.family;
        let fits = |value: &f64| match (held.what, family) {
            (HeldKind::Weights, _) => *value >= 0.0,
            (HeldKind::Outcome, crate::glm::Family::Binomial) => (0.0..=1.0).contains(value),
            (HeldKind::Outcome, crate::glm::Family::Poisson) => *value >= 0.0,
            _ => true,
        };
        let sound = held.values.iter().all(|value| value.is_finite() && value.abs() <= 1e150 && fits(value));
        if !sound || !(held.total.is_finite() && held.total >= 0.0) {
            return Err(self.fault(PeerFault::Value { what: "a held vector", expected: "allowed", round: 0 }));
        }
        let intercept = self.study.model.intercept;
        let encoded = &mut self.work_mut()?.encoded;
        match held.what {
            HeldKind::Weights => {
                encoded.unweighted = held.values.iter().filter(|weight| **weight == 0.0).count();
                if encoded.unweighted == held.values.len() {
                    return Err(self.fault(PeerFault::Value {
                        what: "the weights",
                        expected: "positive somewhere",
                        round: 0,
                    }));
                }
                encoded.weights = Some(held.values.clone());
                encoded.block.reweight(Some(held.values), 1.0);
            }
            HeldKind::Outcome => {
                encoded.outcome = Some(held.values.clone());
                encoded.block.receive_outcome(held.values);
                encoded.block.measure_spread(intercept);
            }
            HeldKind::Scale => {
                let spread = (held.total / encoded.block.weight_sum()).sqrt();
                encoded.block.set_spread(if spread > 0.0 { spread } else { 1.0 });
                self.work_mut()?.fits.set_fold_totals(held.values);
            }
            HeldKind::NullResidual => encoded.block.take(held.values, 0.0),
        }
        Ok(())
    }

    fn build_basis(&mut self, start: u64, purpose: Purpose) -> Result<Body, Abort> {
        let mut rng = self.rng.clone();
        let work = self.work_mut()?;
        let basis = match purpose {
            Purpose::Path => work.path_basis(start, &mut rng),
            Purpose::Inference => work.inference_basis(start, &mut rng),
        };
        self.rng = rng;
        let basis = basis.ok_or_else(|| Abort::Bug("no basis of the own columns".to_string()))?;
        self.after_basis(start + u64::from(basis.rows), purpose)?;
        Ok(Body::Basis(basis))
    }

    fn after_basis(&mut self, end: u64, purpose: Purpose) -> Result<(), Abort> {
        let rows = self.work()?.encoded.block.rows() as u64;
        self.place = match purpose {
            _ if end < rows => Place::Basis { start: end, purpose },
            Purpose::Path => {
                let settled = self.work_mut()?.settle_tables();
                settled.ok_or_else(|| Abort::Bug("no tables after the basis".to_string()))?;
                Place::Fit
            }
            Purpose::Inference => Place::Table,
        };
        Ok(())
    }

    fn after_table(&mut self) {
        self.place =
            if self.study.inference.sender == Role::Bob { Place::Redo } else { Place::Results { answered: false } };
    }

    /// Starts the fit again, with fewer columns at Bob.
    fn restart(&mut self) -> Result<(), Abort> {
        let work = self.work_mut()?;
        work.fits.restart(&work.encoded.block);
        work.redone = true;
        work.inference = None;
        self.place = Place::Fit;
        Ok(())
    }

    fn build_fit(&mut self) -> Result<Body, Abort> {
        let work = self.work_mut()?;
        let step = work.fits.speak(&mut work.encoded)?;
        let (body, place) = match step {
            FitStep::Partial(partial) => {
                let place = if self.place == Place::Fit { Place::Answer } else { Place::Fit };
                (Body::Partial(partial), place)
            }
            FitStep::Ended(ended) => {
                let place = self.after_fits(ended.termination);
                (Body::Ended(ended), place)
            }
        };
        self.place = place;
        Ok(body)
    }

    fn absorb_fit(&mut self, body: Body) -> Result<(), Abort> {
        let peer = self.role.partner();
        let answer = self.place == Place::Answer;
        let work = self.work_mut()?;
        match body {
            Body::Partial(partial) => {
                work.fits.hear(&mut work.encoded, partial).map_err(|fault| Abort::Peer { peer, fault })?;
                self.place = if answer { Place::Fit } else { Place::Answer };
            }
            Body::Ended(ended) if !answer => {
                work.fits.hear_end(&mut work.encoded, ended).map_err(|fault| Abort::Peer { peer, fault })?;
                self.place = self.after_fits(ended.termination);
            }
            _ => {
                return Err(
                    self.fault(PeerFault::Kind { came: "the end of the iteration", expected: "partial predictions" })
                );
            }
        }
        Ok(())
    }

    fn after_fits(&self, termination: Termination) -> Place {
        let inference = self.no_basis.is_none() && self.study.penalty.is_none();
        if inference && termination == Termination::Converged {
            Place::Basis { start: 0, purpose: Purpose::Inference }
        } else {
            Place::Results { answered: false }
        }
    }

    fn finish(&mut self) -> Result<VerticalFit, Abort> {
        let (role, run, columns) = (self.role, self.opening.run, self.peer_columns);
        let (study, disclosures) = (Arc::clone(&self.study), self.turns.disclosures().clone());
        outcome::finish(role, run, &study, columns, &disclosures, self.work_mut()?)
    }
}

/// Far beyond what fits in memory beside a million rows; keeps a peer's number from deciding about allocations.
const MAX_COLUMNS: usize = 100_000;

impl Session for VerticalSession {
    type Inbound = Message;
    type Outbound = Released<Message>;
    type Output = VerticalFit;

    fn start(&mut self) -> Result<Turn<Released<Message>, VerticalFit>, Abort> {
        if self.opening.first { self.speak() } else { Ok(Turn::Wait) }
    }

    fn receive(&mut self, message: Message) -> Result<Turn<Released<Message>, VerticalFit>, Abort> {
        let over = self.place == Place::Over;
        let body = match self.turns.receive(message, &self.study, over)? {
            Came::Next(body) => body,
            Came::Answered(answer) => return Ok(Turn::Send(answer)),
            Came::Old => return Ok(Turn::Wait),
        };
        if self.speaker()? == self.role {
            if body != Body::Go {
                let came = body.kind();
                return Err(self.fault(PeerFault::Kind { came, expected: "a go-ahead" }));
            }
        } else {
            self.absorb(body)?;
        }
        if self.place == Place::Over {
            return Ok(Turn::Finish(self.finish()?));
        }
        self.speak()
    }

    fn resend(&self) -> Option<Released<Message>> {
        self.turns.resend()
    }

    fn position(&self) -> u64 {
        self.turns.sequence()
    }
}
