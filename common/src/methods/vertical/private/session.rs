//! One side of a private fit.

use std::sync::Arc;

use super::crossprod::Crossprod;
use super::held::{Held, Setting};
use super::logistic::Logistic;
use super::residual::Residual;
use super::{PrivateFit, Table};
use crate::conversation::{Conversation, Opening, Purpose, Refusal, Said, Script, Step};
use crate::id::Role;
use crate::methods::vertical::agree::{Agreement, Part};
use crate::methods::vertical::message::{Body, Shared};
use crate::methods::vertical::pair::Pair;
use crate::methods::vertical::plan::PrivatePlan;
use crate::methods::vertical::session::Progress;
use crate::privacy::ledger::{Ledger, LedgerError, Storage, keyed};
use crate::session::{Abort, Order};

/// Where the ledger keeps the fingerprint of the rows of a run, beside the messages that came.
const FINGERPRINT: u32 = u32::MAX;
/// Where it keeps that the peer has all that it needs.
const DELIVERED: u32 = u32::MAX - 1;
/// Where it notes, less the number of an exchange, that the exchange began with columns behind masks of its own.
pub(super) const MASKED_ANEW: u32 = u32::MAX - 2;

/// The place in the script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The parties compare their tables.
    Agreeing,
    Terms {
        answered: bool,
    },
    /// The budget is reserved.
    Fitting,
}

/// What follows the reservation.
enum Course {
    Residual(Box<Residual>),
    Crossprod(Box<Crossprod>),
    Logistic(Box<Logistic>),
}

/// One side of a private fit.
pub type PrivateSession<S> = Conversation<PrivateScript<S>>;

/// What the sides of a private fit say.
pub struct PrivateScript<S> {
    first: Role,
    agreement: Agreement<Table>,
    place: Place,
    held: Held<S>,
    course: Course,
}

/// Whether a run that was interrupted here was begun with other rows. To be asked before anybody is contacted: what a session
/// refuses, the peer may notice.
///
/// # Errors
/// The ledger refuses.
pub fn has_changed<S: Storage>(table: &Table, run: &str, ledger: &mut Ledger<S>) -> Result<bool, LedgerError> {
    let fingerprint = table.fingerprint(&ledger.key()?);
    Ok(ledger.received(run, FINGERPRINT)?.is_some_and(|kept| kept != fingerprint))
}

impl<S: Storage> PrivateSession<S> {
    /// A session over a clipped table. Nothing is spent yet, and whether the ledger can afford the run is checked.
    ///
    /// # Errors
    /// A study that cannot be run on this number of rows, and a ledger that refuses.
    pub fn new(table: Table, opening: Opening, mut setting: Setting<S>) -> Result<PrivateSession<S>, Abort> {
        let study = Arc::clone(table.study());
        let role = table.role();
        let plan = study.private_plan(table.rows() as u64).map_err(|error| Abort::Refused(error.to_string()))?;
        let (rows, outcome) = table.clipped();
        let secret = setting.ledger.key()?;
        let fingerprint = table.fingerprint(&secret);
        let run = opening.run.to_string();
        let place = study.place(role);
        let reserved = setting.ledger.resumes(&run, &setting.data_set, &study.digest().to_string())?;
        if !reserved {
            let digest = study.digest().to_string();
            setting.ledger.afford(&setting.data_set, &setting.persons, &digest, plan.releases(place))?;
        } else if setting.ledger.received(&run, FINGERPRINT)?.is_some_and(|kept| kept != fingerprint) {
            // Releases of one run are charged together because they are about the same rows.
            return Err(Abort::Changed { run });
        }
        // The same whenever this party is started again in the run: the other one may have reserved by then and say the same.
        let key = keyed(&secret, &[b"rows of run ", run.as_bytes()]);
        let first = opening.first_speaker(role);
        let early = vec![(FINGERPRINT, fingerprint.to_vec())];
        let mut held =
            Held { role, place, study: Arc::clone(&study), setting, run, plan, terms: None, early, reserved };
        let course = match held.plan.clone() {
            PrivatePlan::Residual(plan) => {
                Course::Residual(Box::new(Residual::new(Pair::of(&study, role), plan, rows, outcome)?))
            }
            PrivatePlan::Crossprod(plan) => {
                Course::Crossprod(Box::new(Crossprod::new(plan, opening.run, rows, outcome, &mut held)?))
            }
            PrivatePlan::Logistic(plan) => {
                Course::Logistic(Box::new(Logistic::new(plan, opening.run, rows, outcome, &mut held)?))
            }
        };
        let agreement = Agreement::new(table, role, &opening, key, &[Part::Rows, Part::Shared]);
        let script = PrivateScript { first, agreement, place: Place::Agreeing, held, course };
        Ok(Conversation::open(role, Purpose::Fit, &study, &opening, script))
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        let (phase, round) = match (self.script().place, &self.script().course) {
            (Place::Agreeing, _) if !self.has_greeted() => ("comparing studies", 0),
            (Place::Agreeing, _) => ("lining up rows", 0),
            (Place::Terms { .. }, _) => ("comparing budgets", 0),
            (Place::Fitting, Course::Residual(residual)) => residual.progress(),
            (Place::Fitting, Course::Crossprod(crossprod)) => crossprod.progress(),
            (Place::Fitting, Course::Logistic(logistic)) => logistic.progress(),
        };
        // No gradient: nobody may look whether it has converged.
        Progress { phase, fit: (0, 1), round, certificate: None }
    }

    /// Keeps that the peer has confirmed our last message: from here on nobody else is needed for the result.
    ///
    /// # Errors
    /// The ledger cannot be written.
    pub fn delivered(&mut self) -> Result<(), LedgerError> {
        let held = &mut self.script_mut().held;
        held.setting.ledger.keep_received(&held.run, DELIVERED, b"delivered")
    }

    /// Whether that is known.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn is_delivered(&mut self) -> Result<bool, LedgerError> {
        let held = &mut self.script_mut().held;
        Ok(held.reserved && held.setting.ledger.received(&held.run, DELIVERED)?.is_some())
    }

    /// Says in the ledger that the run is over, once its results are where they belong.
    ///
    /// # Errors
    /// The ledger cannot be written.
    pub fn close(&mut self) -> Result<(), LedgerError> {
        let held = &mut self.script_mut().held;
        held.setting.ledger.finish(&held.run)
    }
}

impl<S: Storage> Script for PrivateScript<S> {
    type Body = Body;
    type Output = PrivateFit;

    fn step(&self) -> Option<Step> {
        match (self.place, &self.course) {
            (Place::Agreeing, _) => self.agreement.step(),
            (Place::Terms { answered }, _) => {
                let speaker = if answered { self.held.study.peer(self.first) } else { self.first };
                Some(Step { speaker, expected: "terms of a budget" })
            }
            (Place::Fitting, Course::Residual(residual)) => residual.step(),
            (Place::Fitting, Course::Crossprod(crossprod)) => crossprod.step(),
            (Place::Fitting, Course::Logistic(logistic)) => logistic.step(),
        }
    }

    fn build(&mut self) -> Result<Said<Body>, Abort> {
        let said = match (self.place, &mut self.course) {
            (Place::Agreeing, _) => self.agreement.build()?.into(),
            (Place::Terms { .. }, _) => Body::Terms(self.held.own_terms()?).into(),
            (Place::Fitting, Course::Residual(residual)) => {
                return residual.build(&mut self.held, &self.agreement.table);
            }
            (Place::Fitting, Course::Crossprod(crossprod)) => return crossprod.build(&mut self.held),
            (Place::Fitting, Course::Logistic(logistic)) => return logistic.build(&mut self.held),
        };
        self.advance()?;
        Ok(said)
    }

    fn absorb(&mut self, body: Body) -> Result<(), Refusal> {
        match (self.place, body, &mut self.course) {
            (Place::Agreeing, body, _) => {
                if let Some(theirs) = self.agreement.absorb(&self.held.study, body)? {
                    self.held.check_width(theirs.columns)?;
                }
            }
            (Place::Terms { .. }, Body::Terms(terms), _) => self.held.absorb_terms(terms)?,
            (Place::Terms { .. }, _, _) => return Err(Refusal::Kind),
            (Place::Fitting, body, Course::Residual(residual)) => return residual.absorb(&mut self.held, body),
            (Place::Fitting, body, Course::Crossprod(crossprod)) => return crossprod.absorb(body),
            (Place::Fitting, body, Course::Logistic(logistic)) => return logistic.absorb(body),
        }
        Ok(self.advance()?)
    }

    fn finish(&mut self) -> Result<PrivateFit, Abort> {
        match &mut self.course {
            Course::Residual(residual) => residual.finish(&mut self.held, &self.agreement.table),
            Course::Crossprod(crossprod) => crossprod.finish(&self.held, &self.agreement.table),
            Course::Logistic(logistic) => logistic.finish(&self.held, &self.agreement.table),
        }
    }

    fn order(&mut self) -> Option<Order> {
        match (self.place, &mut self.course) {
            (Place::Fitting, Course::Crossprod(crossprod)) => crossprod.order(),
            (Place::Fitting, Course::Logistic(logistic)) => logistic.order(),
            (Place::Fitting, Course::Residual(_)) | (Place::Agreeing | Place::Terms { .. }, _) => None,
        }
    }

    fn work(&mut self) -> Result<(), Abort> {
        match (self.place, &mut self.course) {
            (Place::Fitting, Course::Crossprod(crossprod)) => crossprod.go_ahead(),
            (Place::Fitting, Course::Logistic(logistic)) => logistic.go_ahead(),
            (Place::Fitting, Course::Residual(_)) | (Place::Agreeing | Place::Terms { .. }, _) => Ok(()),
        }
    }

    /// Keeps a message of the peer before anything follows from it.
    fn keep(&mut self, sequence: u64, body: &Body) -> Result<(), Abort> {
        self.held.keep(sequence, body)
    }

    fn resumes(&self) -> bool {
        self.held.reserved
    }

    fn recall(&mut self, sequence: u64) -> Result<Option<Body>, Abort> {
        let part = self.agreement.part();
        if part == Some(Part::Shared) {
            // What both agreed on before the budget was reserved follows from the own side.
            let columns: usize = self.held.others().into_iter().map(|place| self.held.plan.width(place)).sum();
            let columns = columns as u32;
            return Ok(Some(Body::Shared(Shared { columns, ..self.agreement.shared()? })));
        }
        if let Some(body) = self.held.kept(sequence)? {
            return Ok(Some(body));
        }
        match (self.place, &self.course) {
            (Place::Fitting, Course::Crossprod(crossprod)) => return Ok(crossprod.stands_in()),
            (Place::Fitting, Course::Logistic(logistic)) => return Ok(logistic.stands_in()),
            (Place::Fitting, Course::Residual(_)) | (Place::Agreeing | Place::Terms { .. }, _) => {}
        }
        // A run of an earlier version kept no proof of rows: it follows from the own one.
        let key = (self.first != self.held.role).then_some([0; 32]);
        Ok((part == Some(Part::Rows)).then(|| Body::Rows(self.agreement.proof(key))))
    }

    /// All that the parties say before the first noised value is small, and a peer that was killed before it had reserved says it again.
    fn is_answered_again(&self, body: &Body) -> bool {
        matches!(body, Body::Hello(_) | Body::Rows(_) | Body::Shared(_) | Body::Terms(_))
    }

    fn begins_again(&self) -> bool {
        !self.held.reserved
    }

    fn says_where_it_is(&self) -> bool {
        match (self.place, &self.course) {
            (Place::Fitting, Course::Crossprod(crossprod)) => crossprod.has_shared(),
            (Place::Fitting, Course::Logistic(logistic)) => logistic.has_shared(),
            (Place::Fitting, Course::Residual(_)) | (Place::Agreeing | Place::Terms { .. }, _) => false,
        }
    }

    fn left_behind(&self, ahead: &Body) -> Option<Abort> {
        match (self.place, &self.course) {
            (Place::Fitting, Course::Crossprod(crossprod)) => crossprod.left_behind(&self.held),
            (Place::Fitting, Course::Logistic(logistic)) => logistic.left_behind(&self.held, ahead),
            (Place::Fitting, Course::Residual(_)) | (Place::Agreeing | Place::Terms { .. }, _) => None,
        }
    }
}

impl<S: Storage> PrivateScript<S> {
    fn advance(&mut self) -> Result<(), Abort> {
        self.place = match self.place {
            Place::Agreeing if self.agreement.part().is_some() => Place::Agreeing,
            Place::Agreeing => Place::Terms { answered: false },
            Place::Terms { answered: false } => Place::Terms { answered: true },
            Place::Terms { answered: true } => {
                self.held.reserve()?;
                Place::Fitting
            }
            Place::Fitting => Place::Fitting,
        };
        Ok(())
    }
}
