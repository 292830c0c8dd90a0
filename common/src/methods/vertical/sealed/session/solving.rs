//! What follows from the open table: which columns stay, the joint solution, and each party's part of it.

use nalgebra::{DMatrix, DVector};

use super::{Place, Work};
use crate::conversation::Refusal;
use crate::methods::vertical::masked::{length, out_of_order};
use crate::methods::vertical::message::{Joint, JointKind};
use crate::methods::vertical::pair::Pair;
use crate::methods::vertical::sealed::reduction::read_reduction;
use crate::methods::vertical::sealed::results::{Joined, outcome_on_bob};
use crate::methods::vertical::sealed::solution;
use crate::secure::gaussian::{Answer, Part, Reduction, Table, across};
use crate::session::{Abort, PeerFault};
use crate::study::{Study, Vertical};

impl Work {
    /// Alice's next step with the open table; none where she names points from here on.
    pub(in super::super::super) fn solve(&mut self) -> Result<Option<Joint>, Abort> {
        let missing = || Abort::Bug("the table is not open".to_string());
        let table = self.table.as_ref().ok_or_else(missing)?;
        let outcome = self.own.outcome.as_ref().ok_or_else(missing)?;
        if table.dependent() && self.reduction.is_none() {
            let values = table.left_over().as_slice().to_vec();
            self.count(values.len())?;
            self.place = Place::Reduction;
            return Ok(Some(Joint { what: JointKind::LeftOver, values }));
        }
        if self.is_glm() {
            let lead = self.lead()?;
            return self.begin_evaluations(Some(lead)).map(|()| None);
        }
        let solution = table.solve(outcome).ok_or_else(|| dependent_beyond(&self.study))?;
        let answer = solution.answer(&self.own.factor, &self.means_of(&[]));
        let mut values = answer.part.gamma.as_slice().to_vec();
        values.extend_from_slice(answer.part.covariance.as_slice());
        values.extend_from_slice(answer.lean.as_slice());
        let rest = outcome.rest;
        values.extend([answer.residual, rest]);
        self.count(self.answering(values.len()))?;
        self.answer = Some((answer, rest));
        self.solution = Some(solution);
        self.place = Place::Means;
        Ok(Some(Joint { what: JointKind::Answer, values }))
    }

    /// At Bob: which of his columns stay, from what Alice's columns leave of his.
    pub(super) fn take_left_over(&mut self, values: Vec<f64>) -> Result<(), PeerFault> {
        let size = self.own.factor.ncols();
        if values.len() != size * size {
            return Err(length("what columns leave", values.len(), size * size));
        }
        let left_over = DMatrix::from_vec(size, size, values);
        self.check_left_over(&left_over)?;
        self.check_left_of_own(&left_over)?;
        let reduction = Reduction::new(&left_over, &self.own.factor, self.across());
        self.reduction = Some(reduction.ok_or(PeerFault::Kind {
            came: "a call to set columns aside",
            expected: "the solution, as no column depends on others",
        })?);
        Ok(())
    }

    /// At Alice: the table for the columns of Bob that stay.
    pub(in super::super::super) fn take_reduction(&mut self, values: &[f64]) -> Result<(), Refusal> {
        let size = self.shape.right;
        let wrong = || PeerFault::Garbage("columns that stay and are no part of those that came".to_string());
        let reduction = read_reduction(values, size).filter(|reduction| reduction.sound(size)).ok_or_else(wrong)?;
        let table = self.table.as_ref().ok_or_else(out_of_order)?;
        let reduced = table.reduce(&reduction).ok_or_else(wrong)?;
        self.whole = self.table.replace(reduced);
        self.reduction = Some(reduction);
        Ok(())
    }

    /// At Bob: his part of the solution.
    pub(in super::super::super) fn take_answer(&mut self, values: &[f64]) -> Result<(), Refusal> {
        let size = self.shape.right - self.dropped().len();
        let expected = size * size + 2 * size + 2;
        let values = self.take_dropped(values, expected)?;
        if values.len() != expected {
            return Err(length("the joint solution", values.len(), expected).into());
        }
        let (gamma, rest) = values.split_at(size);
        let (covariance, rest) = rest.split_at(size * size);
        let (lean, rest) = rest.split_at(size);
        let [residual, unexplained] = rest[..] else { return Err(length("the joint solution", rest.len(), 2).into()) };
        let covariance = DMatrix::from_column_slice(size, size, covariance);
        if !(residual >= 0.0) || covariance.diagonal().iter().any(|variance| !(*variance >= 1.0 - 1e-6)) {
            let (what, expected) = ("the joint solution", "possible");
            return Err(PeerFault::Value { what, expected, round: 1 }.into());
        }
        let part = Part { gamma: DVector::from_column_slice(gamma), covariance };
        let answer = Answer { part, lean: DVector::from_column_slice(lean), residual };
        self.check_answer(&answer)?;
        let (answer, unexplained) = self.solved_here(answer, unexplained)?;
        let kept = self.dropped();
        self.means = Some(answer.means(&self.factor(), &self.means_of(&kept)));
        self.answer = Some((answer, unexplained));
        Ok(())
    }

    /// What counts as nothing beside Alice's columns.
    pub(super) fn across(&self) -> f64 {
        across(self.shape.bits, self.rows)
    }

    /// Positions among Bob's columns of those that are set aside.
    pub(in super::super) fn dropped(&self) -> Vec<usize> {
        self.reduction.as_ref().map(|reduction| reduction.dropped.clone()).unwrap_or_default()
    }

    /// The own factor for the columns that stay.
    pub(in super::super) fn factor(&self) -> DMatrix<f64> {
        match self.reduction.as_ref().filter(|_| !self.leads) {
            Some(reduction) => reduction.factor(&self.own.factor),
            None => self.own.factor.clone(),
        }
    }

    /// Means of the own columns but those at some positions, on the scale of the factor.
    pub(in super::super) fn means_of(&self, dropped: &[usize]) -> DVector<f64> {
        let kept = self.scalings.iter().enumerate().filter(|(at, _)| !dropped.contains(at));
        DVector::from_iterator(
            self.scalings.len() - dropped.len(),
            kept.map(|(_, scaling)| scaling.centre / scaling.scale),
        )
    }

    /// At Alice: R squared of the outcome on Bob's columns. His part of the linear predictor is one combination of them; with its covariance
    /// he may find a better one, and none is better than this. Of two parties columns that are set aside count too; of several only those
    /// that stay, which do not depend on each other.
    pub(in super::super) fn outcome_on_bob(&self) -> Option<f64> {
        let whole = self.whole.as_ref().filter(|_| !self.study.is_of_several());
        let table = whole.or(self.table.as_ref())?.orthonormal()?;
        Some(outcome_on_bob(&table, self.own.outcome.as_ref()?))
    }

    /// At Alice, the open table, of Bob's columns that stay.
    pub(in super::super::super) fn table(&self) -> Option<&Table> {
        self.table.as_ref()
    }

    /// At Alice, where she has one column only: R squared of it on Bob's columns, and on the outcome where he holds it.
    pub(in super::super) fn only_share(&self) -> Option<f64> {
        let (table, outcome) = (self.table.as_ref()?, self.own.outcome.as_ref()?);
        let both = self.study.method.outcome.held_by.is_shared();
        (table.left() == 1).then(|| table.only(outcome, both))
    }

    /// What both parties know of the solution, as this one sees it.
    pub(in super::super) fn joined(&self) -> Option<Joined> {
        if let Some(solved) = &self.solved {
            let intercept = solution::intercept(solved, self.means?).ok();
            return Some(Joined { part: solved.part.clone(), residual: f64::NAN, rest: f64::NAN, intercept });
        }
        let (answer, rest) = self.answer.as_ref()?;
        let means = self.means?;
        Some(match &self.solution {
            Some(solution) => {
                let outcome = self.own.outcome.as_ref()?;
                let (shift, variance) = solution.intercept(&self.own.factor, &self.means_of(&[]), means);
                Joined {
                    part: solution.alice.clone(),
                    residual: solution.residual,
                    rest: *rest,
                    intercept: Some((outcome.centre - shift - means.shift, variance)),
                }
            }
            None => Joined { part: answer.part.clone(), residual: answer.residual, rest: *rest, intercept: None },
        })
    }
}

pub(in super::super) fn dependent_beyond(study: &Study<Vertical>) -> Abort {
    let whose = match study.is_of_several() {
        true => "one party depend on those of the others".to_string(),
        false => Pair::of(study, study.first()).named("{second} depend on those of {first}"),
    };
    Abort::Data(format!("columns of {whose} beyond what can be set aside; leave some out"))
}
