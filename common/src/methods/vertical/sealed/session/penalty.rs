//! What a fit with a penalty says in place of a solution: Bob's factor, the fits along lambda, and Bob's parts of their intercepts.

use std::ops::Range;

use super::{Place, Work};
use crate::conversation::Refusal;
use crate::glm::Family;
use crate::methods::vertical::block::Block;
use crate::methods::vertical::masked::{length, out_of_order};
use crate::methods::vertical::message::{Joint, JointKind};
use crate::methods::vertical::sealed::glm::End;
use crate::methods::vertical::sealed::penalised::{self, gradients};
use crate::session::Abort;
use crate::study::{Study, Vertical};

/// Standard deviations of the own columns, in which a penalty measures them, and the outcome's in a gaussian fit.
pub(super) fn units(study: &Study<Vertical>, block: &Block, own: Range<usize>) -> (Vec<f64>, f64) {
    match (&study.method.penalty, study.method.family) {
        (Some(_), Family::Gaussian) => (block.units()[own].to_vec(), block.outcome().spread),
        (Some(_), Family::Binomial | Family::Poisson) => (block.units()[own].to_vec(), 1.0),
        (None, _) => (Vec::new(), 1.0),
    }
}

impl Work {
    /// At Bob.
    pub(super) fn tell_factor(&mut self) -> Result<Joint, Abort> {
        let joint = penalised::factor(self);
        self.count(joint.values.len())?;
        match self.is_glm() {
            true => self.begin_evaluations(None)?,
            false => self.place = Place::Path,
        }
        Ok(joint)
    }

    /// At Alice.
    pub(super) fn take_factor(&mut self, values: &[f64]) -> Result<(), Refusal> {
        let theirs = penalised::take_factor(self.shape.right, self.moments.len(), values)?;
        if self.is_glm() {
            let table = self.table.as_ref().ok_or_else(out_of_order)?;
            let lead = gradients::lead(self, table, &theirs)?;
            self.begin_evaluations(Some(lead))?;
        } else {
            self.place = Place::Path;
        }
        self.theirs = Some(theirs);
        Ok(())
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
