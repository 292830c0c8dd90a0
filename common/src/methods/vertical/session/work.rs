//! What a party does once the rows are settled: the fits, the exchange for errors, the results.

use std::sync::Arc;

use nalgebra::DVector;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

use crate::conversation::{Opening, Refusal, Step};
use crate::fit::Termination;
use crate::glm::Family;
use crate::id::{Digest, Role, RunId};
use crate::session::{Abort, PeerFault};
use crate::study::{Study, Vertical};

use super::super::across::Across;
use super::super::exchange::{Arrived, Learnt, Receiving, Sending, can_be_a_basis};
use super::super::fits::{Abreast, First, Fits, MOST_EXCHANGES, Site, Step as FitStep};
use super::super::message::{Body, Ended, Held, HeldKind, Joint, JointKind, Results};
use super::super::meter::{Meter, metered_gram};
use super::super::outcome;
use super::super::prepare::{self, Encoded, Prepared};
use super::{BasisPurpose, Place, Progress, for_leader, held, undeclared};

/// Standard errors by which coefficients may move from where these hold.
const LEFT: f64 = 1e-3;

/// What exists once the rows are settled.
pub(in super::super) struct Work {
    pub(in super::super) role: Role,
    pub(in super::super) peer_role: Role,
    pub(in super::super) study: Arc<Study<Vertical>>,
    first: Role,
    pub(super) run: RunId,
    pub(in super::super) place: Place,
    /// What other parties than the leader hold alone, as far as this one has to do with it, and have not sent yet.
    for_leader: std::vec::IntoIter<(HeldKind, Role)>,
    /// What the first party holds alone and has not sent yet.
    held: std::vec::IntoIter<HeldKind>,
    pub(in super::super) peer_columns: usize,
    pub(in super::super) rng: ChaCha20Rng,
    pub(in super::super) encoded: Encoded,
    pub(in super::super) fits: Fits,
    /// The fits of folds beside those, where there are some.
    abreast: Option<Abreast>,
    /// What own messages have shown of the block.
    pub(in super::super) meter: Meter,
    pub(in super::super) sending: Option<Sending>,
    pub(in super::super) receiving: Option<Receiving>,
    pub(in super::super) arrived: Option<Arrived>,
    pub(in super::super) inference: Option<Learnt>,
    pub(in super::super) across: Across,
    pub(in super::super) peer: Option<Results>,
    pub(in super::super) own_results: Option<Results>,
    pub(in super::super) redone: bool,
    /// Whether the fit goes on from the joint step of the present exchange.
    pub(in super::super) again: bool,
    /// Whether standard errors follow from the exchange that came first: both parties know.
    pub(in super::super) errors_stand: bool,
    /// Own coefficients where the errors of a loss that is not quadratic hold.
    settled: Option<DVector<f64>>,
    /// Why no basis is exchanged for standard errors, where it is not the data.
    pub(in super::super) no_inference: Option<String>,
    /// At the party that holds the outcome.
    pub(in super::super) null_deviance: f64,
    /// Own columns that the exchange showed to depend on the peer's.
    pub(in super::super) dependent: Vec<usize>,
    /// Of several parties: own columns that were set aside in the present exchange.
    set_aside: u32,
}

impl Work {
    /// Over settled rows, with a partner that has this number of columns.
    pub(in super::super) fn new(
        prepared: &mut Prepared,
        opening: &Opening,
        peer_columns: usize,
        no_inference: Option<String>,
    ) -> Result<Work, Abort> {
        let (role, study) = (prepared.role(), Arc::clone(prepared.study()));
        let encoded = prepared.take_encoded()?;
        if encoded.block.columns() + peer_columns == 0 {
            return Err(Abort::Data("no column is left in the model, and there is no intercept".to_string()));
        }
        let fits = Fits::new(&study, (role, opening.peer), &prepared.policy, &encoded, peer_columns);
        let intercept = study.method.intercept;
        let rotation = Digest::of(&[b"rotation".as_slice(), opening.seed.as_slice()].concat()).0;
        Ok(Work {
            role,
            peer_role: opening.peer,
            first: opening.first_speaker(role),
            run: opening.run,
            place: Place::Fit,
            for_leader: for_leader(&study, role).into_iter(),
            held: held(&study).into_iter(),
            study,
            peer_columns,
            rng: ChaCha20Rng::from_seed(rotation),
            meter: Meter::new(&metered_gram(&encoded.block, intercept)),
            encoded,
            fits,
            abreast: None,
            sending: None,
            receiving: None,
            arrived: None,
            inference: None,
            across: Across::default(),
            peer: None,
            own_results: None,
            redone: false,
            again: false,
            errors_stand: false,
            settled: None,
            no_inference,
            null_deviance: 0.0,
            dependent: Vec::new(),
            set_aside: 0,
        })
    }

    pub(in super::super) fn progress(&self) -> Progress {
        let phase = match self.place {
            Place::ForLeader { .. } | Place::Held(_) | Place::Largest { .. } => "setting up",
            Place::Basis { .. } | Place::Table | Place::Redo | Place::Redone | Place::Learn => "projection exchange",
            Place::Fit | Place::Answer => "fitting",
            Place::Results { .. } | Place::Covariance { .. } => "exchanging results",
            Place::Over => "done",
        };
        let (fits, abreast) = (&self.fits, self.abreast.as_ref());
        let fit = abreast.map_or_else(|| fits.position(), |abreast| abreast.position(fits));
        let (round, certificate) = (fits.round(), fits.certificate());
        Progress { phase, fit, round, certificate }
    }

    /// Of the two who talk, the one that is not this one.
    fn other(&self, role: Role) -> Role {
        if role == self.role { self.peer_role } else { self.role }
    }

    /// Of the two who talk, the one that does not hold the intercept.
    fn second(&self) -> Role {
        if self.study.is_first(self.role) { self.peer_role } else { self.role }
    }

    /// Who sends a basis.
    fn sender(&self) -> Role {
        if self.study.sends_basis(self.role) { self.role } else { self.peer_role }
    }

    pub(super) fn step(&self) -> Option<Step> {
        let in_order = |answered: bool, first: Role| if answered { self.other(first) } else { first };
        let (leader, sender) = (self.fits.leader(), self.sender());
        let (speaker, expected) = match self.place {
            Place::ForLeader { holder, .. } => (holder, "a held vector"),
            Place::Held(_) => (self.study.first(), "a held vector"),
            Place::Largest { answered } => (in_order(answered, self.first), "a largest gradient"),
            Place::Basis { .. } => (sender, "a part of the basis"),
            Place::Fit => (leader, "partial predictions"),
            Place::Answer => (self.other(leader), "partial predictions"),
            Place::Table => (self.other(sender), "a projection table"),
            Place::Redo => (self.second(), "results"),
            Place::Redone => (leader, "columns to drop"),
            Place::Learn => (leader, "a projection table"),
            Place::Results { answered } => (in_order(answered, self.second()), "results"),
            Place::Covariance { answered } => (in_order(answered, self.other(sender)), "covariances of coefficients"),
            Place::Over => return None,
        };
        Some(Step { speaker, expected })
    }

    /// Builds the message of the present place, and moves on.
    pub(in super::super) fn build(&mut self) -> Result<Body, Abort> {
        Ok(match self.place {
            Place::ForLeader { .. } => {
                let next = self.encoded.for_leader.pop_front();
                let next =
                    next.ok_or_else(|| Abort::Bug("a column to be sent to the leader is missing".to_string()))?;
                self.go_on_with_held()?;
                Body::Held(next)
            }
            Place::Held(what) => {
                let held = self.build_held(what);
                self.go_on_with_held()?;
                Body::Held(held)
            }
            Place::Largest { answered } => {
                let largest = self.fits.own_largest();
                self.after_largest(answered)?;
                Body::LargestGradient(largest)
            }
            Place::Basis { start, purpose } => self.build_basis(start, purpose)?,
            Place::Fit | Place::Answer => self.build_fit()?,
            Place::Table => {
                let reading = self.read().ok_or_else(|| self.without("the projection exchange is singular"))?;
                let table = self.take_reading(reading);
                self.after_table(table.dependent > 0);
                Body::Table(table)
            }
            Place::Redo if self.study.is_of_several() => {
                self.set_aside = self.drop_dependent();
                self.place = Place::Redone;
                Body::Redo(self.set_aside)
            }
            Place::Redo => match self.drop_dependent() {
                0 if self.again => {
                    self.after_exchange();
                    Body::Redo(0)
                }
                0 => {
                    self.place = Place::Results { answered: false };
                    return self.build();
                }
                dependent => {
                    self.restart();
                    Body::Redo(dependent)
                }
            },
            Place::Results { answered } => {
                let results = outcome::results(self)?;
                self.own_results = Some(results.clone());
                self.place = if answered { self.after_results() } else { Place::Results { answered: true } };
                Body::Results(results)
            }
            Place::Covariance { answered } => {
                let covariance = self.build_covariance()?;
                self.place = if answered { Place::Over } else { Place::Covariance { answered: true } };
                Body::Joint(covariance)
            }
            Place::Redone | Place::Learn | Place::Over => Body::Go,
        })
    }

    /// Takes what the peer said at the present place, and moves on.
    pub(in super::super) fn absorb(&mut self, body: Body) -> Result<(), Refusal> {
        match (self.place, body) {
            (Place::ForLeader { what, .. }, Body::Held(held)) => self.absorb_for_leader(what, held)?,
            (Place::Held(what), Body::Held(held)) => self.absorb_held(what, held)?,
            (Place::Largest { answered }, Body::LargestGradient(largest)) => {
                if !(largest.is_finite() && largest >= 0.0) {
                    let (what, expected) = ("a gradient", "a finite size");
                    return Err(PeerFault::Value { what, expected, round: 0 }.into());
                }
                self.fits.take_largest(largest);
                self.after_largest(answered)?;
            }
            (Place::Basis { start, purpose }, Body::Basis(basis)) => {
                let next = start + u64::from(basis.rows);
                self.take_basis(start, self.peer_columns, basis, purpose == BasisPurpose::Path)?;
                self.after_basis(next, purpose)?;
            }
            (Place::Fit | Place::Answer, body @ (Body::Partial(_) | Body::Folds(_)))
            | (Place::Fit, body @ Body::Ended(_)) => {
                self.absorb_fit(body)?;
            }
            (Place::Table, Body::Table(table)) if self.study.is_of_several() => {
                self.take_earlier(&table)?;
                self.place = Place::Redo;
            }
            (Place::Redone, Body::Redo(others)) => {
                if others as usize > self.peer_columns {
                    let (what, expected) = ("columns to drop", "possible");
                    return Err(PeerFault::Value { what, expected, round: 0 }.into());
                }
                self.peer_columns -= others as usize;
                match others + self.set_aside {
                    0 => self.place = Place::Learn,
                    _ => self.restart(),
                }
            }
            (Place::Learn, Body::Table(table)) => {
                self.take_learnt(&table)?;
                self.place = Place::Results { answered: false };
            }
            (Place::Table, Body::Table(table)) => {
                let redo = self.take_table(&table, self.peer_columns)?;
                self.peer_columns -= redo;
                self.after_table(redo > 0);
            }
            (Place::Redo, Body::Redo(dependent)) => {
                let dependent = dependent as usize;
                if dependent == 0 && self.again {
                    self.after_exchange();
                    return Ok(());
                }
                if dependent == 0 || dependent > self.peer_columns {
                    let (what, expected) = ("columns to drop", "possible");
                    return Err(PeerFault::Value { what, expected, round: 0 }.into());
                }
                self.peer_columns -= dependent;
                self.restart();
            }
            (Place::Redo, body @ Body::Results(_)) if !self.again => {
                self.place = Place::Results { answered: false };
                return self.absorb(body);
            }
            (Place::Results { answered }, Body::Results(results)) => {
                let folds = self.fits.jobs().iter().filter(|job| job.fold.is_some()).count();
                outcome::check_results(&self.study, &self.fits.fitted, folds, (self.role, self.peer_role), &results)?;
                self.check_rows(&results)?;
                self.peer = Some(results);
                self.place = if answered { self.after_results() } else { Place::Results { answered: true } };
            }
            (Place::Covariance { answered }, Body::Joint(Joint { what: JointKind::Covariance, values })) => {
                self.take_covariance(&values)?;
                self.place = if answered { Place::Over } else { Place::Covariance { answered: true } };
            }
            _ => return Err(Refusal::Kind),
        }
        Ok(())
    }

    /// The next vector that another party sends to the leader, or that the first party holds alone; after the last one the fits begin.
    pub(in super::super) fn go_on_with_held(&mut self) -> Result<(), Abort> {
        if let Some((what, holder)) = self.for_leader.next() {
            self.place = Place::ForLeader { what, holder };
            return Ok(());
        }
        if let Some(next) = self.held.next() {
            self.place = Place::Held(next);
            return Ok(());
        }
        let intercept = self.study.method.intercept;
        if self.study.method.outcome.held_by.is_shared() {
            self.encoded.block.measure_spread(intercept);
        }
        if self.encoded.outcome.is_some() {
            self.null_deviance = self.encoded.block.null_deviance(intercept);
        }
        self.fits.begin(&mut self.encoded)?;
        self.fits.exchanges = self.infers() && !self.study.is_of_several();
        self.fits.errors_first = self.fits.exchanges && self.study.has_errors_first();
        self.place = if self.study.needs_path() { Place::Largest { answered: false } } else { self.before_fits() };
        Ok(())
    }

    fn after_largest(&mut self, answered: bool) -> Result<(), Abort> {
        if !answered {
            self.place = Place::Largest { answered: true };
            return Ok(());
        }
        self.fits.settle_path(self.encoded.block.rows())?;
        self.place = self.before_fits();
        Ok(())
    }

    fn before_fits(&mut self) -> Place {
        match self.study.uses_tables() && self.no_inference.is_none() {
            true => Place::Basis { start: 0, purpose: BasisPurpose::Path },
            false => self.first_fit(),
        }
    }

    fn first_fit(&mut self) -> Place {
        // The leader of several parties asks them one after the other.
        if !self.study.is_of_several() {
            self.abreast = Abreast::divide(&mut self.fits, &self.encoded.block);
        }
        Place::Fit
    }

    fn build_held(&mut self, what: HeldKind) -> Held {
        let (encoded, intercept) = (&mut self.encoded, self.study.method.intercept);
        encoded.block.measure_spread(intercept);
        let total = encoded.block.outcome().spread.powi(2) * encoded.block.weight_sum();
        let values = match what {
            HeldKind::Outcome => encoded.outcome.clone().unwrap_or_default(),
            HeldKind::Weights => encoded.weights.clone().unwrap_or_default(),
            HeldKind::Offset => encoded.offset.clone().unwrap_or_default(),
            HeldKind::Scale => outcome::fold_totals(encoded, intercept),
            HeldKind::NullResidual => {
                self.fits.meter_null_residual(&mut self.meter);
                encoded.block.null_outgoing().to_vec()
            }
        };
        Held { what, values, total }
    }

    fn absorb_held(&mut self, what: HeldKind, held: Held) -> Result<(), Refusal> {
        self.check_held(what, &held)?;
        let (encoded, study) = (&mut self.encoded, &self.study);
        match what {
            HeldKind::Weights => encoded.take_weights(held.values)?,
            HeldKind::Outcome => {
                encoded.take_outcome(held.values);
                encoded.block.measure_spread(study.method.intercept);
            }
            HeldKind::Scale => {
                let spread = (held.total / encoded.block.weight_sum()).sqrt();
                encoded.block.set_spread(if spread > 0.0 { spread } else { 1.0 });
                self.fits.set_fold_totals(held.values);
            }
            HeldKind::NullResidual => drop(encoded.block.take(held.values, 0.0)),
            HeldKind::Offset => encoded.take_offset(held.values),
        }
        Ok(self.go_on_with_held()?)
    }

    /// Whether a party still has something to send that it holds alone.
    pub(in super::super) fn awaits_column_of(&self, party: Role) -> bool {
        let next = matches!(self.place, Place::ForLeader { holder, .. } if holder == party);
        next || self.for_leader.as_slice().iter().any(|(_, holder)| *holder == party)
    }

    /// At the leader: what another party held alone is in its hands alone from here on.
    fn absorb_for_leader(&mut self, what: HeldKind, held: Held) -> Result<(), Refusal> {
        self.check_held(what, &held)?;
        let (encoded, study) = (&mut self.encoded, &self.study);
        match what {
            HeldKind::Weights => encoded.take_weights(held.values)?,
            HeldKind::Outcome => encoded.take_outcome(held.values),
            HeldKind::Offset => encoded.take_offset(held.values),
            HeldKind::Scale | HeldKind::NullResidual => return Err(undeclared().into()),
        }
        let hidden = prepare::hidden(study, self.role, encoded.outcome.as_deref(), encoded.offset.as_deref());
        encoded.block.hide(hidden);
        self.meter = Meter::new(&metered_gram(&encoded.block, study.method.intercept));
        Ok(self.go_on_with_held()?)
    }

    /// Refuses a held vector that is not the one that is expected, or not one that can be.
    fn check_held(&self, what: HeldKind, held: &Held) -> Result<(), PeerFault> {
        let study = &self.study;
        let rows = self.encoded.block.rows() as u64;
        let folds = u64::from(study.method.penalty.as_ref().and_then(|penalty| penalty.cv).unwrap_or(0));
        let expected = if what == HeldKind::Scale { folds } else { rows };
        if held.what != what {
            return Err(undeclared());
        }
        if held.values.len() as u64 != expected {
            let came = held.values.len() as u64;
            return Err(PeerFault::Length { what: "a held vector", came, expected });
        }
        let fits = |value: &f64| match (what, study.method.family) {
            (HeldKind::Weights, _) => *value >= 0.0,
            (HeldKind::Outcome, Family::Binomial) => (0.0..=1.0).contains(value),
            (HeldKind::Outcome, Family::Poisson) => *value >= 0.0,
            _ => true,
        };
        let sound = held.values.iter().all(|value| value.is_finite() && value.abs() <= 1e150 && fits(value));
        match sound && held.total.is_finite() && held.total >= 0.0 {
            true => Ok(()),
            false => Err(PeerFault::Value { what: "a held vector", expected: "allowed", round: 0 }),
        }
    }

    fn build_basis(&mut self, start: u64, purpose: BasisPurpose) -> Result<Body, Abort> {
        let basis = match purpose {
            BasisPurpose::Path => self.path_basis(start),
            BasisPurpose::Inference => self.inference_basis(start),
        };
        let basis = basis.ok_or_else(|| self.without("no basis of the own columns"))?;
        if !can_be_a_basis(&basis) {
            return Err(Abort::OwnData(format!(
                "the columns of {} nearly depend on each other, so that rounding leaves no basis of them, which standard errors and \
                 penalties take: leave terms out, or lower the degree of polynomials and splines",
                self.role
            )));
        }
        self.after_basis(start + u64::from(basis.rows), purpose)?;
        Ok(Body::Basis(basis))
    }

    /// Why there is no exchange: only rows without working weight leave none, which a fit that has converged does not have.
    fn without(&self, what: &str) -> Abort {
        match self.again && self.study.method.family != Family::Gaussian {
            true => Abort::Data("the fit came to no rest, and rows have run to probabilities of 0 and 1".to_string()),
            false => Abort::Bug(what.to_string()),
        }
    }

    fn after_basis(&mut self, end: u64, purpose: BasisPurpose) -> Result<(), Abort> {
        self.place = match purpose {
            _ if end < self.encoded.block.rows() as u64 => Place::Basis { start: end, purpose },
            BasisPurpose::Path => {
                self.settle_tables().ok_or_else(|| Abort::Bug("no tables after the basis".to_string()))?;
                self.first_fit()
            }
            BasisPurpose::Inference => Place::Table,
        };
        Ok(())
    }

    fn after_table(&mut self, redo: bool) {
        if redo {
            self.restart();
        } else if self.sender() == self.second() {
            self.place = Place::Redo;
        } else {
            self.after_exchange();
        }
    }

    /// Refuses statistics of other rows than those of the fit: what a plain run has shown is counted by them.
    fn check_rows(&self, results: &Results) -> Result<(), PeerFault> {
        let rows = (self.encoded.block.rows() - self.encoded.unweighted) as u64;
        match results.statistics.as_ref().is_some_and(|statistics| statistics.nobs != rows) {
            true => {
                Err(PeerFault::Value { what: "fit statistics", expected: "those of the rows of the fit", round: 0 })
            }
            false => Ok(()),
        }
    }

    fn after_results(&self) -> Place {
        match self.study.method.shares_covariance() {
            true => Place::Covariance { answered: false },
            false => Place::Over,
        }
    }

    /// Starts the fit again, with fewer columns at the second party.
    pub(in super::super) fn restart(&mut self) {
        self.redone = true;
        self.begin_again();
    }

    fn begin_again(&mut self) {
        self.fits.restart(&self.encoded.block);
        self.again = false;
        (self.errors_stand, self.settled) = (false, None);
        self.inference = None;
        self.across = Across::default();
        self.sending = None;
        self.place = Place::Fit;
    }

    /// The lanes of folds, and the first lane, which is all there is where there are no others.
    fn lanes(&mut self) -> (Option<&mut Abreast>, First<'_>) {
        let Work { fits, encoded, meter, abreast, .. } = self;
        let Encoded { block, folds, .. } = encoded;
        (abreast.as_mut(), First { fits, site: Site { block, folds: folds.as_deref(), meter, other_rounds: 0 } })
    }

    /// Takes in what the partner says in a fit: in one that has lanes what all of them say, else the one.
    fn absorb_fit(&mut self, body: Body) -> Result<(), Refusal> {
        let (abreast, mut first) = self.lanes();
        match (abreast, body) {
            (Some(abreast), Body::Folds(folds)) => abreast.hear(&mut first, folds)?,
            (None, Body::Partial(partial)) => first.fits.hear(&mut first.site, partial)?,
            (None, Body::Ended(ended)) => {
                first.fits.hear_end(&mut first.site, ended)?;
                self.may_go_on(&ended)?;
                self.place = self.after_fits(ended);
                return Ok(());
            }
            _ => return Err(Refusal::Kind),
        }
        self.place = self.after_turn();
        Ok(())
    }

    fn build_fit(&mut self) -> Result<Body, Abort> {
        let (abreast, mut first) = self.lanes();
        if let Some(abreast) = abreast {
            let folds = abreast.speak(&mut first)?;
            self.place = self.after_turn();
            return Ok(Body::Folds(folds));
        }
        Ok(match first.fits.speak(&mut first.site)? {
            FitStep::Partial(partial) => {
                self.place = self.after_turn();
                Body::Partial(partial)
            }
            FitStep::Ended(ended) => {
                self.place = self.after_fits(ended);
                Body::Ended(ended)
            }
        })
    }

    /// Whose turn it is once something was said in a fit: that of the other, as long as any fit goes on.
    fn after_turn(&mut self) -> Place {
        match self.abreast.take_if(|abreast| !abreast.is_open()) {
            Some(abreast) => {
                abreast.join(&mut self.fits);
                // Fits with folds have a penalty, and so no standard errors.
                Place::Results { answered: false }
            }
            None if self.place == Place::Fit => Place::Answer,
            None => Place::Fit,
        }
    }

    /// Whether standard errors are to be had once a fit has converged.
    fn infers(&self) -> bool {
        self.no_inference.is_none() && self.study.method.penalty.is_none()
    }

    /// Refuses a partner that has a fit go on from an exchange which there is not, or time and again.
    fn may_go_on(&self, ended: &Ended) -> Result<(), PeerFault> {
        let may = self.fits.exchanges && self.fits.exchanged_for < MOST_EXCHANGES;
        // A first round shows no minimum yet.
        let early = self.fits.errors_are_first() && !ended.again && ended.termination == Termination::Converged;
        match early || (ended.again && !may) {
            true => Err(PeerFault::Value { what: "the end of the iteration", expected: "possible", round: 0 }),
            false => Ok(()),
        }
    }

    fn after_fits(&mut self, ended: Ended) -> Place {
        self.again = ended.again;
        let converged = ended.termination == Termination::Converged;
        if !ended.again && (!converged || self.has_left_its_errors()) {
            self.inference = None;
        }
        let lacks = ended.again || (converged && !self.errors_stand);
        if self.infers() && lacks {
            Place::Basis { start: 0, purpose: BasisPurpose::Inference }
        } else {
            Place::Results { answered: false }
        }
    }

    /// Whether the rounds went on from where the errors hold, which they do not from a minimum.
    fn has_left_its_errors(&self) -> bool {
        let (Some(settled), Some(learnt)) = (&self.settled, &self.inference) else { return false };
        let moved = self.encoded.block.beta() - settled;
        moved.iter().zip(learnt.inference.root.row_iter()).any(|(moved, root)| !(moved.abs() <= LEFT * root.norm()))
    }

    /// Once nobody has columns to set aside: the end of the fit, or where its rounds came to no rest, the joint step and further rounds.
    fn after_exchange(&mut self) {
        if !self.again {
            self.place = Place::Results { answered: false };
            return;
        }
        let (learnt, across) = (self.inference.take(), std::mem::take(&mut self.across));
        let learnt = learnt.filter(Learnt::is_finite);
        if let Some(learnt) = &learnt {
            let beta = self.encoded.block.beta() + &learnt.inference.step;
            self.encoded.block.place(beta);
        }
        let stand = self.fits.errors_are_first() && self.errors_stand;
        self.fits.exchanged_for += 1;
        self.begin_again();
        if stand {
            // Of a quadratic loss neither the curvature nor what is left at the minimum depends on where the exchange is made.
            let quadratic = self.study.method.family == Family::Gaussian;
            self.settled = (!quadratic).then(|| self.encoded.block.beta().clone());
            (self.errors_stand, self.inference, self.across) = (true, learnt.map(Learnt::at_rest), across);
        }
    }
}
