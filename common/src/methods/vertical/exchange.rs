//! The basis exchange of a session: in parts, for standard errors or in place of rows on a gaussian path.

use std::sync::Arc;

use nalgebra::{DMatrix, DVector};

use crate::glm::Family;
use crate::session::PeerFault;

use super::block::{Block, Tables};
use super::joint;
use super::message::{Basis, Table};
use super::session::{Place, Work};
use super::std_err::{ErrorKind, Inference, Reading, Receiver, Reported, Sender};

/// Values of one part of a basis: 16 MiB of numbers, so that a part is a small share of a large block.
pub(super) const PART_VALUES: usize = 1 << 21;

/// Sums of squares of the working residual up to this many times the deviance have the digits of what a step lowers it by.
const MOST_SQUARES: f64 = 1e3;

/// A working residual whose mean square, of another family than gaussian, is above this has values that a factorisation rounds by
/// more than a step of `1e-10` standard errors.
const FAR: f64 = 1e10;

/// What this side learnt for its standard errors.
#[derive(Debug, Clone)]
pub(super) struct Learnt {
    pub(super) inference: Inference,
    /// Weighted sum of squares of the working residual at the joint solution.
    pub(super) residual: f64,
    /// By how much the joint step lowers the deviance.
    pub(super) gained: f64,
}

impl Learnt {
    pub(super) fn is_finite(&self) -> bool {
        let mut values = self.inference.root.iter().chain(&self.inference.step);
        values.all(|value| value.is_finite())
    }

    /// The same for a party that has gone the step.
    pub(super) fn at_rest(mut self) -> Learnt {
        self.inference.step.fill(0.0);
        self.gained = 0.0;
        self
    }
}

/// What the leader of several parties reads off the bases of all others.
pub(super) struct Gathered {
    /// For each, what is left of its basis beside the blocks of earlier parties, column by column.
    pub(super) earlier: Vec<Vec<f64>>,
    /// For each, what is left of its basis beside all other blocks, and its products with the working residual.
    pub(super) all: Vec<(Vec<f64>, Vec<f64>)>,
    /// For each, what standard errors from residuals follow from; empty where there are none.
    pub(super) robust: Vec<Vec<f64>>,
    pub(super) inference: Inference,
    pub(super) residual: f64,
    pub(super) gained: f64,
}

/// The sender's side of an exchange under way.
pub(super) struct Sending {
    sender: Sender,
    weights: Vec<f64>,
    working_squares: f64,
    /// The next part, where there was time for it.
    next: Option<Basis>,
}

/// A part of the peer's basis that came and was checked, and was not looked at yet.
pub(super) struct Arrived {
    start: usize,
    part: DMatrix<f64>,
    path: bool,
}

/// The receiver's side of an exchange under way.
pub(super) enum Receiving {
    /// For standard errors.
    Inference {
        /// The triangle.
        receiver: Box<Receiver>,
        /// Working weights.
        weights: Vec<f64>,
        /// Working residuals.
        working: Vec<f64>,
    },
    /// For standard errors that come first, of another family than gaussian: what of the basis has come.
    Joint(PartsOfBasis),
    /// For a path: inner products of basis, own columns and outcome, by fold; fold 0 holds rows of no fold.
    Path(Vec<DMatrix<f64>>),
}

/// A basis that comes in parts.
pub(super) struct PartsOfBasis {
    rows: usize,
    /// Rows of each part that came.
    heights: Vec<usize>,
    /// Parts that came before there is room for all of them.
    waiting: Vec<DMatrix<f64>>,
    /// All rows, of which those that are still to come are zeros.
    basis: Option<DMatrix<f64>>,
}

impl PartsOfBasis {
    /// One over the share of the rows that must have come before room is made for all: what the other party says of its size decides
    /// about no more memory than a few times of what it has sent.
    const SHARE: usize = 4;

    fn new(rows: usize) -> PartsOfBasis {
        PartsOfBasis { rows, heights: Vec::new(), waiting: Vec::new(), basis: None }
    }

    fn push(&mut self, part: DMatrix<f64>) {
        let (columns, waits) = (part.ncols(), self.waiting.iter().map(DMatrix::nrows).sum::<usize>());
        let mut next = self.heights.iter().sum::<usize>() - waits;
        self.heights.push(part.nrows());
        self.waiting.push(part);
        if self.basis.is_none() && self.heights.iter().sum::<usize>() < self.rows.div_ceil(PartsOfBasis::SHARE) {
            return;
        }
        // Zeros that nobody has written over take no memory yet, as far as the operating system goes.
        let room = || DMatrix::from_vec(self.rows, columns, vec![0.0; self.rows * columns]);
        let basis = self.basis.get_or_insert_with(room);
        for part in self.waiting.drain(..) {
            basis.rows_mut(next, part.nrows()).copy_from(&part);
            next += part.nrows();
        }
    }
}

/// Tables that stand for the rows during a path.
pub(super) struct TableKit {
    /// What is taken from the outcome, and so from the intercept: the null model's.
    pub(super) centre: f64,
    side: TableSide,
}

enum TableSide {
    /// At the party that sent the basis `A T`: what to send is `T^-1 b`.
    Sender {
        /// `T^-1`.
        back: DMatrix<f64>,
    },
    /// At the party that received it.
    Receiver {
        /// Columns of the basis.
        basis: usize,
        /// Inner products of basis, own columns and outcome, by fold.
        moments: Vec<DMatrix<f64>>,
    },
}

impl TableKit {
    /// How many numbers an exchange takes.
    pub(super) fn exchanged(&self) -> usize {
        match &self.side {
            TableSide::Sender { back } => back.nrows(),
            TableSide::Receiver { basis, .. } => *basis,
        }
    }

    /// The tables of a fit without one fold.
    pub(super) fn tables(&self, block: &Block, fold: Option<u32>) -> Tables {
        let (score, total) = block.outcome_products(self.centre);
        match &self.side {
            TableSide::Sender { back } => Tables { to_peer: back.clone(), from_peer: back.transpose(), score, total },
            TableSide::Receiver { basis, moments } => {
                let own = block.columns();
                let mut sum = DMatrix::zeros(basis + own + 1, basis + own + 1);
                let kept = moments.iter().enumerate().filter(|(index, _)| Some(*index as u32) != fold);
                kept.for_each(|(_, part)| sum += part);
                let cross = sum.view((0, *basis), (*basis, own)).into_owned();
                Tables { from_peer: cross.transpose(), to_peer: cross, score, total }
            }
        }
    }

    /// The weighted sum of squared errors on a fold that was left out, at the side that can compute it.
    pub(super) fn error(&self, fold: u32, incoming: &[f64], beta: &DVector<f64>) -> Option<f64> {
        let TableSide::Receiver { basis, moments } = &self.side else {
            return None;
        };
        let table = moments.get(fold as usize)?;
        let last = table.ncols() - 1;
        let mut point = DVector::zeros(last + 1);
        incoming.iter().enumerate().for_each(|(i, value)| point[i] = *value);
        point.rows_mut(*basis, beta.len()).copy_from(beta);
        point[last] = -1.0;
        Some((table * &point).dot(&point))
    }
}

impl Work {
    /// A part of the basis for a path.
    pub(super) fn path_basis(&mut self, start: u64) -> Option<Basis> {
        if self.sending.is_none() {
            let block = &self.encoded.block;
            let weights = block.outcome().weights.clone().unwrap_or_else(|| vec![1.0; block.rows()]);
            let reported = Reported { inner: block.matrix(), centres: vec![], weights: &weights };
            let sender = Sender::new(&reported, false, &mut self.rng)?;
            self.meter.record_basis(block.columns() as u64);
            self.sending = Some(Sending { sender, weights, working_squares: 0.0, next: None });
        }
        self.part(start)
    }

    /// A part of the basis for standard errors.
    pub(super) fn inference_basis(&mut self, start: u64) -> Option<Basis> {
        if self.sending.is_none() {
            let block = &self.encoded.block;
            // Where the minimum is still to be found the weights there are not known yet.
            let weights = if self.seeks_minimum() { block.counted() } else { block.weights_to_divide_by() };
            let working_squares = working(block, &weights).iter().map(|z| z * z).sum();
            let reported = Reported { inner: block.matrix(), centres: centres(block), weights: &weights };
            let sender = Sender::new(&reported, self.reports_centres(), &mut self.rng)?;
            self.meter.record_basis(block.columns() as u64);
            self.sending = Some(Sending { sender, weights, working_squares, next: None });
        }
        self.part(start)
    }

    /// Whether the exchange is about columns as they are reported, which are not those of the fit: a joint step from which it goes on is
    /// in coefficients of the fit, unless standard errors follow from the same exchange. Then the receiver says the step in those of the
    /// fit too; where the party with the intercept receives, what its intercept lacks is a round away.
    fn reports_centres(&self) -> bool {
        !self.encoded.block.has_intercept() && (!self.again || self.fits.errors_are_first())
    }

    fn part(&mut self, start: u64) -> Option<Basis> {
        let ready = self.sending.as_mut()?.next.take().filter(|next| next.start == start);
        ready.or_else(|| self.compute_part(start))
    }

    fn compute_part(&self, start: u64) -> Option<Basis> {
        let sending = self.sending.as_ref()?;
        let block = &self.encoded.block;
        let columns = block.columns();
        let rows = (PART_VALUES / columns.max(1)).clamp(1, block.rows() - start as usize);
        let reported = Reported { inner: block.matrix(), centres: centres(block), weights: &sending.weights };
        let part = sending.sender.rows(&reported, start as usize, rows);
        Some(Basis { start, rows: rows as u32, columns: columns as u32, values: part.data.into() })
    }

    /// Takes a part of the peer's basis in.
    pub(super) fn take_basis(&mut self, start: u64, columns: usize, basis: Basis, path: bool) -> Result<(), PeerFault> {
        check_basis(self.encoded.block.rows(), start, columns, &basis)?;
        self.look_at_arrived();
        let part = DMatrix::from_vec(basis.rows as usize, columns, basis.values);
        self.arrived = Some(Arrived { start: start as usize, part, path });
        Ok(())
    }

    /// Whether there is something to do for an exchange while the other is at work.
    pub(super) fn has_part_to_do(&self) -> bool {
        let next = matches!(self.place, Place::Basis { .. }) && self.sending.as_ref().is_some_and(|s| s.next.is_none());
        self.arrived.is_some() || next
    }

    /// Looks at the part that came last, or makes the one that goes next.
    pub(super) fn do_part(&mut self) {
        self.look_at_arrived();
        if let Place::Basis { start, .. } = self.place {
            let next = self.compute_part(start);
            if let Some(sending) = &mut self.sending {
                sending.next = next;
            }
        }
    }

    fn look_at_arrived(&mut self) {
        let Some(Arrived { start, part, path }) = self.arrived.take() else { return };
        if path {
            return self.path_moments(start, part);
        }
        if self.seeks_minimum() {
            let rows = self.encoded.block.rows();
            let joint = || Receiving::Joint(PartsOfBasis::new(rows));
            if let Receiving::Joint(parts) = self.receiving.get_or_insert_with(joint) {
                parts.push(part);
            }
            return;
        }
        let block = &self.encoded.block;
        if self.receiving.is_none() {
            let weights = block.weights_to_divide_by();
            let working = working(block, &weights);
            let reported = Reported { inner: block.matrix(), centres: centres(block), weights: &weights };
            let errors = self.study.method.inference.errors;
            let receiver = Receiver::new(part.ncols(), &reported, self.reports_centres(), errors)
                .with_across(self.study.method.shares_covariance())
                .with_products(far(block, &working))
                .with_steps_of_the_fit(self.fits.errors_are_first());
            self.receiving = Some(Receiving::Inference { receiver: Box::new(receiver), weights, working });
        }
        if let Some(Receiving::Inference { receiver, weights, working }) = &mut self.receiving {
            let reported = Reported { inner: block.matrix(), centres: centres(block), weights };
            receiver.push(&reported, start, part, working);
        }
    }

    /// What the basis of the other tells, once it is whole.
    pub(super) fn read(&mut self) -> Option<Reading> {
        self.look_at_arrived();
        let (receiver, weights, working) = match self.receiving.take()? {
            Receiving::Inference { receiver, weights, working } => (receiver, weights, working),
            Receiving::Joint(parts) => return self.read_at_minimum(parts),
            Receiving::Path(_) => return None,
        };
        let block = &self.encoded.block;
        let reported = Reported { inner: block.matrix(), centres: centres(block), weights: &weights };
        receiver.finish(&reported, &working)
    }

    /// The same at the joint minimum, where one is found. Where none is, as between columns that depend on each other and for classes
    /// that are separated, the rows alone tell which columns do, and nothing else counts.
    fn read_at_minimum(&self, parts: PartsOfBasis) -> Option<Reading> {
        let (block, method) = (&self.encoded.block, &self.study.method);
        let PartsOfBasis { heights, basis, .. } = parts;
        let basis = basis?;
        let minimum = joint::minimum(block, &basis);
        let (weights, working) = match &minimum {
            Some(minimum) => block.working_at(minimum.predictors.clone()),
            None => (block.counted(), vec![0.0; block.rows()]),
        };
        let reported = Reported { inner: block.matrix(), centres: centres(block), weights: &weights };
        let errors = if minimum.is_some() { method.inference.errors } else { ErrorKind::Model };
        let mut receiver = Receiver::new(basis.ncols(), &reported, self.reports_centres(), errors)
            .with_across(method.shares_covariance())
            .with_products(far(block, &working));
        let mut start = 0;
        for rows in heights {
            receiver.push_weighted(&reported, start..start + rows, &basis, &working);
            start += rows;
        }
        drop(basis);
        let mut reading = receiver.finish(&reported, &working)?;
        match minimum {
            Some(minimum) => reading.come_from(&minimum.own, &minimum.basis),
            None => (reading.score, reading.inference) = (DVector::zeros(0), None),
        }
        Some(reading)
    }

    /// Whether the party with the basis looks for the joint minimum by itself: the loss is not quadratic, and the exchange comes first.
    fn seeks_minimum(&self) -> bool {
        self.fits.errors_are_first() && self.study.method.family != Family::Gaussian
    }

    /// What the bases of several others tell, once they are whole; they have these numbers of columns.
    pub(super) fn gathered(&mut self, sizes: &[usize]) -> Option<Gathered> {
        self.look_at_arrived();
        let Some(Receiving::Inference { receiver, weights, working }) = self.receiving.take() else { return None };
        let block = &self.encoded.block;
        let reported = Reported { inner: block.matrix(), centres: centres(block), weights: &weights };
        let reading = receiver.finish_several(sizes, &reported, &working);
        let values = |matrix: DMatrix<f64>| Vec::from(matrix.data);
        // Where columns depend on each other nothing of it is used.
        let p = self.encoded.block.columns();
        let none = Inference { root: DMatrix::zeros(p, p), step: DVector::zeros(p), robust: None };
        let mut robust: Vec<Vec<f64>> = reading.robust.into_iter().map(values).collect();
        robust.resize(sizes.len(), Vec::new());
        Some(Gathered {
            robust,
            earlier: reading.earlier.into_iter().map(values).collect(),
            all: reading.all.into_iter().map(|(factor, score)| (values(factor), score.data.into())).collect(),
            inference: reading.inference.unwrap_or(none),
            residual: reading.residual,
            gained: reading.gained,
        })
    }

    /// At one of several who sent its basis: which of its columns depend on those of earlier parties.
    pub(super) fn take_earlier(&mut self, table: &Table) -> Result<(), PeerFault> {
        let factor = self.factor_of(table)?;
        let Some(sending) = &self.sending else {
            return Err(PeerFault::Kind { came: "a projection table", expected: "nothing" });
        };
        self.dependent = sending.sender.dependent(&factor);
        Ok(())
    }

    /// At one of several: what it learns about its own coefficients.
    pub(super) fn take_learnt(&mut self, table: &Table) -> Result<(), PeerFault> {
        let factor = self.factor_of(table)?;
        let (came, expected) = (table.score.len() as u64, factor.ncols() as u64);
        if came != expected {
            return Err(PeerFault::Length { what: "a projection table", came, expected });
        }
        let Some(sending) = self.sending.take() else {
            return Err(PeerFault::Kind { came: "a projection table", expected: "nothing" });
        };
        let mut inference = sending.sender.learn(&factor, &DVector::from_column_slice(&table.score));
        if let (Some(inference), Some(robust)) = (&mut inference, self.robust_of(table)?) {
            inference.robust = Some(sending.sender.robust(&robust));
        }
        let gained = self.gained(sending.working_squares, table.residual);
        self.inference = inference.map(|inference| Learnt { inference, residual: table.residual, gained });
        Ok(())
    }

    /// What a table says of errors from residuals, where the study asks for them and they are defined.
    fn robust_of(&self, table: &Table) -> Result<Option<DMatrix<f64>>, PeerFault> {
        let p = self.encoded.block.columns();
        let expected = if self.study.method.inference.errors.is_model() { 0 } else { p * p };
        let came = table.robust.len();
        if came != 0 && came != expected {
            let (came, expected) = (came as u64, expected as u64);
            return Err(PeerFault::Length { what: "a projection table", came, expected });
        }
        if !table.robust.iter().all(|value| value.is_finite()) {
            return Err(PeerFault::Value { what: "a projection table", expected: "finite", round: 0 });
        }
        Ok((came > 0).then(|| DMatrix::from_column_slice(p, p, &table.robust).upper_triangle()))
    }

    fn factor_of(&self, table: &Table) -> Result<DMatrix<f64>, PeerFault> {
        let p = self.encoded.block.columns();
        if table.factor.len() != p * p {
            let came = table.factor.len() as u64;
            return Err(PeerFault::Length { what: "a projection table", came, expected: (p * p) as u64 });
        }
        let finite = table.factor.iter().chain(&table.score).chain([&table.residual]).all(|value| value.is_finite());
        match finite && table.residual >= 0.0 && table.dependent == 0 {
            true => Ok(DMatrix::from_column_slice(p, p, &table.factor).upper_triangle()),
            false => Err(PeerFault::Value { what: "a projection table", expected: "finite", round: 0 }),
        }
    }

    /// Adds rows of the basis to the inner products, fold by fold.
    fn path_moments(&mut self, start: usize, part: DMatrix<f64>) {
        let block = &self.encoded.block;
        let (rows, basis, own) = (part.nrows(), part.ncols(), block.columns());
        let size = basis + own + 1;
        let folds = self.encoded.folds.as_ref();
        let count = folds.map_or(0, |folds| folds.iter().copied().max().unwrap_or(0)) as usize + 1;
        let outcome = block.outcome();
        let centre = block.null_intercept(self.study.method.intercept);
        let weight = |row: usize| outcome.weights.as_ref().map_or(1.0, |weights| weights[row]);
        let mut joined = DMatrix::zeros(rows, size);
        joined.columns_mut(0, basis).copy_from(&part);
        joined.columns_mut(basis, own).copy_from(&block.matrix().rows(start, rows));
        for i in 0..rows {
            let root = weight(start + i).sqrt();
            joined.view_mut((i, basis), (1, own)).scale_mut(root);
            joined[(i, size - 1)] = root * block.centred_outcome(start + i, centre);
        }
        let moments = match &mut self.receiving {
            Some(Receiving::Path(moments)) => moments,
            slot => {
                *slot = Some(Receiving::Path(vec![DMatrix::zeros(size, size); count]));
                match slot {
                    Some(Receiving::Path(moments)) => moments,
                    _ => return,
                }
            }
        };
        for (fold, sum) in moments.iter_mut().enumerate() {
            let in_fold: Vec<usize> =
                (0..rows).filter(|i| folds.map_or(0, |folds| folds[start + i] as usize) == fold).collect();
            if in_fold.len() == rows {
                *sum += crate::linalg::gram(&joined, None);
            } else if !in_fold.is_empty() {
                *sum += crate::linalg::gram(&joined.select_rows(&in_fold), None);
            }
        }
    }

    /// Turns the finished exchange into the tables of the path.
    pub(super) fn settle_tables(&mut self) -> Option<()> {
        self.look_at_arrived();
        let block = &self.encoded.block;
        let side = match (self.sending.take(), self.receiving.take()) {
            (Some(sending), _) => TableSide::Sender { back: sending.sender.back() },
            (None, Some(Receiving::Path(moments))) => {
                let basis = moments.first()?.ncols() - 1 - block.columns();
                TableSide::Receiver { basis, moments }
            }
            _ => return None,
        };
        let centre = block.null_intercept(self.study.method.intercept);
        self.fits.tables = Some(Arc::new(TableKit { centre, side }));
        Some(())
    }

    /// What the receiver returns, and keeps for itself. Of columns that depend on each other the second party's go, no matter who
    /// receives: as the sender it sees them in the returned factor.
    pub(super) fn take_reading(&mut self, reading: Reading) -> Table {
        let mut dependent = 0;
        // The first party keeps its columns, its intercept above all: beside a column of the partner far from zero that is hard to tell.
        let keeps = reading.dependent.is_empty() || self.study.is_first(self.role);
        self.errors_stand = reading.score.len() == reading.factor.ncols();
        let robust = reading.robust.filter(|_| keeps);
        if keeps {
            self.across.coordinates = reading.across;
            let (residual, gained) = (reading.residual, reading.gained);
            self.inference = reading.inference.map(|inference| Learnt { inference, residual, gained });
        } else {
            dependent = reading.dependent.len() as u32;
            self.encoded.block.drop_columns(&reading.dependent);
        }
        Table {
            factor: reading.factor.data.into(),
            score: reading.score.data.into(),
            residual: reading.residual,
            dependent,
            robust: robust.map_or_else(Vec::new, |robust| robust.data.into()),
        }
    }

    /// By how much the joint step lowers the deviance, at a sender of a basis: from sums of squares of the working residual
    /// before the step and after it. Where these are far larger than the deviance they have no digits of it, and a fit that has
    /// converged has nothing left to gain.
    fn gained(&self, before: f64, residual: f64) -> f64 {
        let has_digits = || before <= MOST_SQUARES * self.encoded.block.deviance();
        match self.study.method.family {
            Family::Gaussian => before - residual,
            Family::Binomial | Family::Poisson => {
                if has_digits() {
                    before - residual
                } else {
                    0.0
                }
            }
        }
    }

    /// Takes the receiver's table; returns how many columns the receiver has set aside.
    pub(super) fn take_table(&mut self, table: &Table, receiver_columns: usize) -> Result<usize, PeerFault> {
        let p = self.encoded.block.columns();
        // None where no minimum was found.
        let found = p == 0 || !(table.score.is_empty() && self.seeks_minimum());
        if table.factor.len() != p * p || (found && table.score.len() != p) {
            let came = table.factor.len() as u64;
            return Err(PeerFault::Length { what: "a projection table", came, expected: (p * p) as u64 });
        }
        let finite = table.factor.iter().chain(&table.score).chain([&table.residual]).all(|value| value.is_finite());
        if !finite || table.residual < 0.0 {
            return Err(PeerFault::Value { what: "a projection table", expected: "finite", round: 0 });
        }
        let dependent = table.dependent as usize;
        if dependent > receiver_columns {
            return Err(PeerFault::Value { what: "a projection table", expected: "possible", round: 0 });
        }
        let Some(sending) = self.sending.take() else {
            return Err(PeerFault::Kind { came: "a projection table", expected: "nothing" });
        };
        if dependent > 0 {
            return Ok(dependent);
        }
        let factor = DMatrix::from_column_slice(p, p, &table.factor).upper_triangle();
        self.errors_stand = found;
        // Where a minimum was found no column depends on others, and the factor is under other weights than the basis.
        if !self.study.is_first(self.role) && !(found && self.seeks_minimum()) {
            self.dependent = sending.sender.dependent(&factor);
        }
        if self.dependent.is_empty() && found {
            let score = DVector::from_column_slice(&table.score);
            if self.study.method.shares_covariance() {
                self.across.transform = Some(sending.sender.transform().clone());
            }
            let mut inference = sending.sender.learn(&factor, &score);
            if let (Some(inference), Some(robust)) = (&mut inference, self.robust_of(table)?) {
                inference.robust = Some(sending.sender.robust(&robust));
            }
            let gained = self.gained(sending.working_squares, table.residual);
            self.inference = inference.map(|inference| Learnt { inference, residual: table.residual, gained });
        }
        Ok(0)
    }

    /// At the second party as the sender: sets the columns aside that turned out to depend on the first one's.
    pub(super) fn drop_dependent(&mut self) -> u32 {
        let dependent = std::mem::take(&mut self.dependent);
        self.encoded.block.drop_columns(&dependent);
        dependent.len() as u32
    }
}

/// Checks a part of a basis that begins with row `start`.
pub(super) fn check_basis(rows: usize, start: u64, columns: usize, basis: &Basis) -> Result<(), PeerFault> {
    let left = rows as u64 - start;
    if basis.start != start || basis.rows == 0 || u64::from(basis.rows) > left {
        return Err(PeerFault::Length {
            what: "rows of a basis",
            came: basis.start.saturating_add(basis.rows.into()),
            expected: start + left,
        });
    }
    if basis.columns as usize != columns {
        return Err(PeerFault::Length {
            what: "columns of a basis",
            came: basis.columns.into(),
            expected: columns as u64,
        });
    }
    let expected = basis.rows as usize * columns;
    if basis.values.len() != expected {
        let came = basis.values.len() as u64;
        return Err(PeerFault::Length { what: "a basis", came, expected: expected as u64 });
    }
    match can_be_a_basis(basis) {
        true => Ok(()),
        false => Err(PeerFault::Value { what: "a basis", expected: "between -1 and 1", round: 0 }),
    }
}

/// Whether the entries are those of columns of length 1: none can be larger. Columns that depend on each other up to rounding lead to others.
pub(super) fn can_be_a_basis(basis: &Basis) -> bool {
    basis.values.iter().fold(true, |within, value| within & (value.abs() <= 1.0 + 1e-6))
}

/// What centring took from each column, in units of its scale.
fn centres(block: &Block) -> Vec<f64> {
    block.scalings().iter().map(|scaling| scaling.centre / scaling.scale).collect()
}

/// The largest value of a working residual, where its values hide its products with columns from a factorisation: of rows of
/// nearly no working weight.
fn far(block: &Block, working: &[f64]) -> Option<f64> {
    match block.outcome().family {
        Family::Gaussian => None,
        Family::Binomial | Family::Poisson => {
            let squares: f64 = working.iter().map(|z| z * z).sum();
            let largest = || working.iter().fold(0.0, |most: f64, z| most.max(z.abs()));
            (squares > FAR * working.len() as f64).then(largest)
        }
    }
}

/// Working residuals `W^-1/2 (W (y - mean))`; rows without working weight have none.
fn working(block: &Block, weights: &[f64]) -> Vec<f64> {
    let mut residuals = block.residuals();
    residuals.iter_mut().zip(weights).for_each(|(r, w)| *r = if *w > 0.0 { *r / w.sqrt() } else { 0.0 });
    residuals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_basis_is_put_together_as_it_comes_and_room_is_made_for_what_a_fair_share_has_come_of() {
        let whole = DMatrix::from_fn(1000, 3, |row, column| (3 * row + column) as f64);
        for height in [1, 7, 249, 250, 251, 999, 1000] {
            let mut parts = PartsOfBasis::new(1000);
            for start in (0..1000).step_by(height) {
                let rows = height.min(1000 - start);
                parts.push(whole.rows(start, rows).into_owned());
                assert_eq!(parts.basis.is_some(), start + rows >= 250, "{height}: {} rows came", start + rows);
                assert!(parts.basis.is_none() || parts.waiting.is_empty());
            }
            assert_eq!(parts.basis.as_ref(), Some(&whole), "{height}");
            assert_eq!(parts.heights.iter().sum::<usize>(), 1000);
            assert!(parts.heights[..parts.heights.len() - 1].iter().all(|rows| *rows == height));
        }
    }
}
