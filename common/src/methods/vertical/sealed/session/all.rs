//! Tables of several parties that open to all of them: the leader sends them on, and each of the others solves by itself from them.
//!
//! Which columns of a third party stay takes that party's factor, so that is sent on as well. With both, what the leader tells a party must
//! follow, but for what its coordinates lean on means, which nobody else knows.

use nalgebra::DMatrix;

use super::{Place, Work};
use crate::conversation::Refusal;
use crate::methods::vertical::masked::{length, out_of_order};
use crate::methods::vertical::message::{Joint, JointKind};
use crate::methods::vertical::sealed::kept;
use crate::methods::vertical::sealed::reduction::read_reduction;
use crate::secure::gaussian::{Answer, Part, Reduction, Table};
use crate::secure::product::pairs;
use crate::session::{Abort, PeerFault};

use super::both::{DIGITS, follows};

/// What another than the leader has of the tables.
pub(super) struct Seen {
    /// Of all columns.
    table: Table,
    /// Root mean square of what the leader's columns leave of the outcome.
    rest: f64,
    /// What third parties have set aside, by their places behind the leader.
    parts: Vec<Option<Reduction>>,
}

const TABLES: &str = "the tables of all pairs";

impl Work {
    /// At the leader: what it sends to all others once the tables have opened; none where they open to it alone.
    pub(in super::super::super) fn tell_tables(&mut self, tables: &[DMatrix<f64>]) -> Result<Option<Joint>, Abort> {
        if !self.opens_to_both() {
            return Ok(None);
        }
        let rest = self.own.outcome.as_ref().ok_or_else(out_of_order)?.rest;
        self.count(self.shape.left * self.shape.right + 1)?;
        let values = tables.iter().flatten().copied().chain([rest]).collect();
        Ok(Some(Joint { what: JointKind::Tables, values }))
    }

    /// At another than the leader: the tables of all pairs.
    pub(super) fn take_tables(&mut self, values: &[f64]) -> Result<(), Refusal> {
        let shape = self.several.as_ref().and_then(|several| several.shape).ok_or_else(out_of_order)?;
        let columns = shape.columns();
        let sizes = || pairs(columns.len()).map(|(first, second)| [columns[first], columns[second]]);
        let expected = sizes().map(|[height, width]| height * width).sum::<usize>() + 1;
        let Some((rest, mut entries)) = values.split_last().filter(|_| values.len() == expected) else {
            return Err(length(TABLES, values.len(), expected).into());
        };
        let mut tables = Vec::new();
        for [height, width] in sizes() {
            let (table, others) = entries.split_at(height * width);
            tables.push(DMatrix::from_column_slice(height, width, table));
            entries = others;
        }
        let table = Table::of_several(&tables, self.across()).ok_or_else(out_of_order)?;
        if !(*rest >= 0.0 && rest.is_finite() && table.is_possible()) {
            return Err(PeerFault::Value { what: TABLES, expected: "possible", round: 1 }.into());
        }
        let parts = vec![None; table.blocks().len()];
        if let Some(several) = &mut self.several {
            several.seen = Some(Seen { table, rest: *rest, parts });
        }
        self.place = if kept::opens(self) { Place::Factor } else { Place::Solution };
        Ok(())
    }

    /// At another than the leader: which columns of a third party stay.
    pub(super) fn take_reduced(&mut self, values: &[f64]) -> Result<(), Refusal> {
        let own = self.place_among_others();
        let seen = self.several.as_mut().and_then(|several| several.seen.as_mut()).ok_or(Refusal::Kind)?;
        let wrong = || PeerFault::Garbage("columns of a third party that stay and are no part of its own".to_string());
        let (place, values) = values.split_first().ok_or_else(wrong)?;
        let at = (0..seen.parts.len()).find(|at| (*at + 1) as f64 == *place && Some(*at) != own).ok_or_else(wrong)?;
        let size = seen.table.blocks()[at];
        let reduction = read_reduction(values, size).filter(|reduction| reduction.sound(size)).ok_or_else(wrong)?;
        if seen.parts[at].replace(reduction).is_some() {
            return Err(wrong().into());
        }
        Ok(())
    }

    /// Whether what is said to be left of the own columns beside those of the parties before is what the tables say.
    pub(super) fn check_left_of_own(&self, left_over: &DMatrix<f64>) -> Result<(), PeerFault> {
        let (Some(seen), Some(own)) = (self.seen_of_several(), self.place_among_others()) else { return Ok(()) };
        let left = seen.reduced(None, own).and_then(|table| table.left_of(own));
        follows(left.is_some_and(|left| left.shape() == left_over.shape() && near(&left, left_over, DIGITS)))
    }

    /// The own part of the solution and what all other columns leave of the outcome, as the tables say, where what the leader said of both is
    /// that; the same as it said them where the tables open to it alone.
    pub(super) fn solved_here(&self, said: Answer, unexplained: f64) -> Result<(Answer, f64), PeerFault> {
        let (Some(seen), Some(own)) = (self.seen_of_several(), self.place_among_others()) else {
            return Ok((said, unexplained));
        };
        let dropped: usize = seen.parts.iter().flatten().map(|part| part.dropped.len()).sum();
        follows(dropped == self.dropped_elsewhere())?;
        let reduced = seen.reduced(self.reduction.as_ref(), own);
        let solved = reduced.as_ref().and_then(|table| {
            let (all, residual) = table.solve_for_bob(seen.rest)?;
            let part = part_of(table, &all, own);
            let rest = rest_of(residual, &part)?;
            Some((Answer { part, lean: said.lean.clone(), residual }, rest))
        });
        let Some((answer, rest)) = solved else { return follows(false).map(|()| (said, unexplained)) };
        let size = answer.part.covariance.amax().max(1.0);
        let square = seen.rest * seen.rest;
        let gamma = &said.part.gamma - &answer.part.gamma;
        follows(
            near(&said.part.covariance, &answer.part.covariance, DIGITS * size)
                && gamma.iter().all(|off| off.abs() <= DIGITS * size * seen.rest)
                && (said.residual - answer.residual).abs() <= DIGITS * size * square
                && (unexplained * unexplained - rest * rest).abs() <= DIGITS * size * square,
        )?;
        Ok((answer, rest))
    }

    fn seen_of_several(&self) -> Option<&Seen> {
        self.several.as_ref()?.seen.as_ref()
    }

    /// The own place among the others than the leader.
    fn place_among_others(&self) -> Option<usize> {
        let parties = self.study.parties_in_order();
        parties.iter().skip(1).position(|party| *party == self.role)
    }
}

impl Seen {
    /// The table of all columns.
    pub(super) fn table(&self) -> &Table {
        &self.table
    }

    /// The table for the columns that stay of those that have said so, with what was set aside here.
    fn reduced(&self, own: Option<&Reduction>, place: usize) -> Option<Table> {
        let mut parts = self.parts.clone();
        parts[place] = own.cloned();
        match Reduction::joined(&parts, self.table.blocks()) {
            Some(reduction) => self.table.reduce(&reduction),
            None => Some(self.table.clone()),
        }
    }
}

/// One of the others' part of a solution of all of them together.
pub(super) fn part_of(table: &Table, all: &Part, at: usize) -> Part {
    let block = table.block(at);
    let (begin, size) = (block.start, block.len());
    let covariance = all.covariance.view((begin, begin), (size, size)).into_owned();
    Part { gamma: all.gamma.rows(begin, size).into_owned(), covariance }
}

/// Root mean square of what all columns but these leave of the outcome: the residuals, and what these explain of it.
pub(super) fn rest_of(residual: f64, Part { gamma, covariance }: &Part) -> Option<f64> {
    let explained = if gamma.is_empty() { 0.0 } else { (covariance.clone().try_inverse()? * gamma).dot(gamma) };
    Some((residual + explained).max(0.0).sqrt())
}

fn near(said: &DMatrix<f64>, ours: &DMatrix<f64>, digits: f64) -> bool {
    said.shape() == ours.shape() && (said - ours).iter().all(|off| off.abs() <= digits)
}
