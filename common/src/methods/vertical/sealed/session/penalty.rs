//! What a fit with a penalty says in place of a solution: Bob's factor, the fits along lambda, and Bob's parts of their intercepts.

use std::ops::Range;

use super::all::Seen;
use super::{Place, Work};
use crate::conversation::Refusal;
use crate::glm::Family;
use crate::methods::vertical::block::Block;
use crate::methods::vertical::masked::{length, out_of_order};
use crate::methods::vertical::message::{Joint, JointKind};
use crate::methods::vertical::sealed::glm::End;
use crate::methods::vertical::sealed::kept::{self, OfAlice};
use crate::methods::vertical::sealed::penalised::{self, Theirs, gradients};
use crate::secure::gaussian::Table;
use crate::session::{Abort, PeerFault};
use crate::study::{Study, Vertical};

/// Standard deviations of the own columns, in which a penalty measures them, that of a sub-model too, and the outcome's in a gaussian fit.
pub(super) fn units(study: &Study<Vertical>, block: &Block, own: Range<usize>) -> (Vec<f64>, f64) {
    let measured = study.method.penalty.is_some() || study.guarantee.opens_factors();
    match (measured, study.method.family) {
        (true, Family::Gaussian) => (block.units()[own].to_vec(), block.outcome().spread),
        (true, Family::Binomial | Family::Poisson) => (block.units()[own].to_vec(), 1.0),
        (false, _) => (Vec::new(), 1.0),
    }
}

impl Work {
    /// At Bob.
    pub(super) fn tell_factor(&mut self) -> Result<Joint, Abort> {
        let joint = penalised::factor(self, &self.moments);
        self.count(joint.values.len())?;
        match self.is_glm() {
            true => self.begin_evaluations(None)?,
            false => self.place = self.after_factor(),
        }
        Ok(joint)
    }

    /// At Alice.
    pub(super) fn take_factor(&mut self, values: &[f64]) -> Result<(), Refusal> {
        let theirs = penalised::take_factor(self.shape.right, self.moments.len(), kept::opens(self), values)?;
        if self.is_glm() {
            let table = self.table.as_ref().ok_or_else(out_of_order)?;
            let lead = gradients::lead(self, table, &theirs)?;
            self.begin_evaluations(Some(lead))?;
        } else {
            self.place = self.after_factor();
        }
        self.theirs = Some(theirs);
        Ok(())
    }

    /// What follows Bob's factor.
    fn after_factor(&self) -> Place {
        match kept::opens(self) && self.opens_to_both() {
            true if self.several.is_some() => Place::Factors,
            true => Place::FactorOfAlice,
            false => self.after_factors(),
        }
    }

    /// What follows the factors of a gaussian fit.
    fn after_factors(&self) -> Place {
        if self.study.method.penalty.is_some() { Place::Path } else { Place::Solution }
    }

    /// At Alice, where the table opens to both and factors open for sub-models.
    pub(super) fn tell_factor_of_alice(&mut self) -> Result<Joint, Abort> {
        let joint = kept::of_alice(self)?;
        self.count(joint.values.len())?;
        self.place = self.after_factors();
        Ok(joint)
    }

    /// The same at Bob.
    pub(super) fn take_factor_of_alice(&mut self, values: &[f64]) -> Result<(), Refusal> {
        self.of_alice = Some(kept::take_of_alice(self.shape.left - 1, values)?);
        self.place = self.after_factors();
        Ok(())
    }

    /// What another party has said of its columns, by its place behind the first.
    pub(in super::super) fn theirs(&self, at: usize) -> Option<&Theirs> {
        match &self.several {
            Some(several) => several.theirs.get(&at),
            None => self.theirs.as_ref(),
        }
    }

    /// At another than the first, what that one has said of its columns.
    pub(in super::super) fn of_alice(&self) -> Option<&OfAlice> {
        self.of_alice.as_ref()
    }

    /// The table of all columns as it opened to this party, if it did.
    pub(in super::super) fn opened_table(&self) -> Option<&Table> {
        match (self.leads, &self.several) {
            (true, _) => self.whole.as_ref().or(self.table.as_ref()),
            (false, None) => self.seen.as_ref(),
            (false, Some(several)) => several.seen.as_ref().map(Seen::table),
        }
    }

    /// At another than the leader of several: the factor of one of the others, with the outcome from the leader.
    pub(super) fn take_factors(&mut self, values: &[f64]) -> Result<(), Refusal> {
        let wrong = || PeerFault::Garbage("a factor of a party that has none to come".to_string());
        let (place, values) = values.split_first().ok_or_else(wrong)?;
        let own = self.study.place(self.role);
        let shape = self.several.as_ref().and_then(|several| several.shape).ok_or_else(out_of_order)?;
        let columns = shape.columns();
        let place = (0..columns.len()).find(|at| *at as f64 == *place && *at != own).ok_or_else(wrong)?;
        let several = self.several.as_mut().ok_or_else(out_of_order)?;
        let again = match place.checked_sub(1) {
            // The outcome stands behind the leader's columns.
            None => self.of_alice.replace(kept::take_of_alice(columns[0] - 1, values)?).is_some(),
            Some(at) => several.theirs.insert(at, penalised::take_factor(columns[place], 0, true, values)?).is_some(),
        };
        if again {
            return Err(wrong().into());
        }
        if self.of_alice.is_some() && several.theirs.len() + 2 == columns.len() {
            self.place = Place::Solution;
        }
        Ok(())
    }

    /// At the leader of several: the factor of one of the others.
    pub(in super::super::super) fn take_factor_of(
        &mut self,
        at: usize,
        columns: usize,
        values: &[f64],
    ) -> Result<(), PeerFault> {
        let theirs = penalised::take_factor(columns, 0, true, values)?;
        if let Some(several) = &mut self.several {
            several.theirs.insert(at, theirs);
        }
        Ok(())
    }

    /// At the leader of several: whether the factors of all others are to come, for sub-models.
    pub(in super::super::super) fn awaits_factors(&self) -> bool {
        kept::opens(self)
    }

    /// At the leader of several: its own factor with the outcome, where the tables open to all.
    pub(in super::super::super) fn tell_factor_to_all(&mut self) -> Result<Option<Vec<f64>>, Abort> {
        if !(kept::opens(self) && self.opens_to_both()) {
            return Ok(None);
        }
        let joint = kept::of_alice(self)?;
        self.count(joint.values.len())?;
        Ok(Some(joint.values))
    }

    /// At Alice.
    pub(super) fn tell_path(&mut self) -> Result<Joint, Abort> {
        let (table, theirs) = self.table.as_ref().zip(self.theirs.as_ref()).ok_or_else(out_of_order)?;
        let (path, joint) = match &self.glm {
            Some(glm) => gradients::path(self, glm, table, theirs)?,
            None => penalised::solve(self, table, theirs)?,
        };
        self.count(joint.values.len())?;
        self.path = Some(path);
        self.place = Place::Shifts;
        Ok(joint)
    }

    /// At Bob.
    pub(super) fn take_path(&mut self, values: &[f64]) -> Result<(), Refusal> {
        let terms = penalised::terms(self)?;
        let partly = self.glm.as_ref().is_some_and(|glm| glm.end() != Some(End::Converged));
        let path = penalised::take_path(terms, self.shape.right, partly, values)?;
        self.check_shares(&path.shares)?;
        self.path = Some(path);
        self.place = Place::Shifts;
        Ok(())
    }

    /// At Bob.
    pub(super) fn tell_shifts(&mut self) -> Result<Joint, Abort> {
        let values = penalised::shifts(self, self.path.as_ref().ok_or_else(out_of_order)?);
        self.count(values.len())?;
        self.place = Place::Results { answered: false };
        Ok(Joint { what: JointKind::Shifts, values })
    }

    /// At Alice.
    pub(super) fn take_shifts(&mut self, values: Vec<f64>) -> Result<(), Refusal> {
        let path = self.path.as_mut().ok_or_else(out_of_order)?;
        if values.len() != path.fits.len() {
            return Err(length("parts of the intercepts", values.len(), path.fits.len()).into());
        }
        path.shifts = values;
        self.place = Place::Results { answered: false };
        Ok(())
    }
}
