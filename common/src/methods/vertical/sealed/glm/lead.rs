//! What Alice makes of the numbers that open: the next point, and the solution.

use nalgebra::{DMatrix, DVector};

use super::Sizes;
use super::along::{Along, Fitted, Penalised, Wanted};
use super::seen::{gradient, weighted};
use crate::glm::Family;
use crate::linalg::Definite;
use crate::report::TracePoint;
use crate::secure::optimiser::{Beside, Descent, Next};

/// A direction along which the weights are this small beside the columns may be one of separated outcomes.
const FLAT: f64 = 1e-5;

/// A last step along such a direction that is longer than this, in standard deviations of the linear predictor, goes on without end.
const ENDLESS: f64 = 1e-3;

/// Standard deviation of the linear predictor above which a fit that does not end, whose next point is out of range, or whose weighted table
/// does not open, counts as one of separated outcomes.
const STEEP: f64 = 12.0;

/// Standard deviation of the linear predictor up to which a binomial fit is followed.
const STEEPEST: f64 = 64.0;

/// Why there are no further points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum End {
    /// The gradient vanishes.
    Converged,
    /// Both parties' parts of the linear predictor are beyond all ranges.
    OutOfRange,
    /// Too many evaluations.
    Exhausted,
    /// Alice's limits allow no further numbers to open.
    LimitOfFirst,
    /// Bob's limits allow none.
    LimitOfSecond,
}

impl End {
    pub(super) const ALL: [End; 5] =
        [End::Converged, End::OutOfRange, End::Exhausted, End::LimitOfFirst, End::LimitOfSecond];

    /// What is said to the peer.
    pub(super) fn code(self) -> u8 {
        match self {
            End::Converged => 0,
            End::OutOfRange => 1,
            End::Exhausted => 2,
            End::LimitOfFirst => 3,
            End::LimitOfSecond => 4,
        }
    }
}

/// What a fit has come to.
#[derive(Clone)]
pub(in super::super) struct Ended {
    /// Coordinates of `1, Q_a, Q_b`, of the columns that stay.
    pub(in super::super) point: DVector<f64>,
    /// Their covariance, where the weighted table has opened and is one of a maximum.
    pub(in super::super) covariance: Option<DMatrix<f64>>,
    /// The loss over the rows, where it has opened, without the products of the outcome with the linear predictor.
    pub(in super::super) loss: Option<f64>,
    /// The outcome times Bob's part of the linear predictor, in the digits of the table.
    pub(in super::super) along: f64,
    /// Whether the estimates grow without bound.
    pub(in super::super) separated: bool,
}

/// How points are chosen.
enum Course {
    /// Without a penalty.
    Free(Box<Descent>, Next),
    /// With one, from lambda to lambda.
    Penalised(Box<Along>),
}

/// Alice's part.
pub(in super::super) struct Lead {
    family: Family,
    /// The table of `1, Q_a, Q_b`, without the first where the model has no intercept.
    joint: DMatrix<f64>,
    /// Mean products of the outcome with these.
    score: DVector<f64>,
    /// Bob's columns that stay, in coordinates of his basis.
    map: Option<DMatrix<f64>>,
    rows: usize,
    /// Columns of Alice.
    alice: usize,
    intercept: bool,
    /// The mean of the outcome.
    mean: f64,
    course: Course,
    stopped: Option<End>,
    /// The last point whose gradient has opened, with it.
    last: Option<(DVector<f64>, DVector<f64>)>,
    asked: Option<DVector<f64>>,
    weighted: Option<DMatrix<f64>>,
    /// Sums over the rows for the likelihood, see [`Sizes::losses`].
    losses: Vec<f64>,
    pub(in super::super) trace: Vec<TracePoint>,
}

impl Lead {
    /// From the table of `1, Q_a, Q_b` and the outcome's mean products with them, both without the first where there is no intercept. None
    /// where columns depend on each other.
    pub(in super::super) fn new(
        family: Family,
        joint: DMatrix<f64>,
        score: DVector<f64>,
        map: Option<DMatrix<f64>>,
        [rows, alice]: [usize; 2],
        beside: Beside,
    ) -> Option<Lead> {
        let (intercept, mean) = (beside.intercept, beside.mean);
        let (descent, next) = Descent::new(family, joint.clone(), &score, beside)?;
        let course = Course::Free(Box::new(descent), next);
        Some(Lead::on(course, family, (joint, score, map), [rows, alice], (intercept, mean)))
    }

    /// The same for a fit with a penalty, which sets no columns aside.
    pub(in super::super) fn penalised(
        penalised: Penalised,
        joint: DMatrix<f64>,
        score: DVector<f64>,
        alice: usize,
        beside: Beside,
    ) -> Option<Lead> {
        let (family, rows) = (penalised.family, penalised.rows);
        let of_intercept = (beside.intercept, beside.mean);
        let along = Along::new(penalised, joint.clone(), &score, beside)?;
        let course = Course::Penalised(Box::new(along));
        Some(Lead::on(course, family, (joint, score, None), [rows, alice], of_intercept))
    }

    fn on(
        course: Course,
        family: Family,
        (joint, score, map): (DMatrix<f64>, DVector<f64>, Option<DMatrix<f64>>),
        [rows, alice]: [usize; 2],
        (intercept, mean): (bool, f64),
    ) -> Lead {
        Lead {
            family,
            joint,
            score,
            map,
            rows,
            alice,
            intercept,
            mean,
            course,
            stopped: None,
            last: None,
            asked: None,
            weighted: None,
            losses: Vec::new(),
            trace: Vec::new(),
        }
    }

    /// The point that the course asks for, with the digits of its kernel.
    fn wanted(&self) -> Option<(DVector<f64>, u32)> {
        match &self.course {
            Course::Free(_, Next::Evaluate { point, digits }) => Some((point.clone(), *digits)),
            Course::Free(_, Next::Converged { .. } | Next::Exhausted { .. }) => None,
            Course::Penalised(along) => (along.wanted() == Wanted::Gradient).then(|| along.point()),
        }
    }

    /// Whether the sum from which the loss at the last point follows is to open.
    pub(super) fn wants_sum(&self) -> bool {
        match &self.course {
            Course::Free(..) => false,
            Course::Penalised(along) => self.stopped.is_none() && along.wanted() == Wanted::Sum,
        }
    }

    /// The fits at the lambdas that were reached, and the one under way where others were not.
    pub(in super::super) fn fits(&self) -> (&[Fitted], Option<Fitted>) {
        match &self.course {
            Course::Free(..) => (&[], None),
            Course::Penalised(along) => (along.fits(), along.unfinished()),
        }
    }

    /// Names no further points.
    pub(super) fn stop(&mut self, why: End) {
        if self.wanted().is_some() {
            self.stopped.get_or_insert(why);
        }
    }

    /// No gradient opens at the point that was named. The step there from the last one is made shorter in a poisson fit; in a binomial fit
    /// such a point ends it, as where outcomes are separated points go on without end.
    pub(super) fn refused(&mut self) {
        let shorter = match &mut self.course {
            _ if self.family != Family::Poisson => false,
            Course::Free(descent, next) => descent.refused().map(|shorter| *next = shorter).is_some(),
            Course::Penalised(along) => along.refused(),
        };
        if !shorter {
            self.stop(End::OutOfRange);
        }
    }

    /// The next point, with the digits of its kernel.
    pub(super) fn next(&mut self) -> Option<(DVector<f64>, u32)> {
        let (point, digits) = self.wanted()?;
        if self.family == Family::Binomial && self.spread(&point) > STEEPEST {
            self.stop(End::OutOfRange);
        }
        if self.stopped.is_some() {
            return None;
        }
        self.asked = Some(point.clone());
        Some((point, digits))
    }

    /// The position of the first column.
    pub(in super::super) fn first(&self) -> usize {
        usize::from(self.intercept)
    }

    /// Standard deviation of the linear predictor.
    fn spread(&self, point: &DVector<f64>) -> f64 {
        let first = self.first();
        let slopes = point.rows(first, point.len() - first);
        (self.joint.view((first, first), (slopes.len(), slopes.len())) * slopes).dot(&slopes).sqrt()
    }

    /// Why there is no next point.
    pub(super) fn end(&self) -> End {
        let converged = match &self.course {
            Course::Free(_, next) => matches!(next, Next::Converged { .. }),
            Course::Penalised(along) => along.wanted() == Wanted::Nothing,
        };
        self.stopped.unwrap_or(if converged { End::Converged } else { End::Exhausted })
    }

    /// The gradient at the last point, as integers: the sum over the rows, then products with the columns.
    pub(super) fn take_gradient(&mut self, opened: &[i128], bits: [u32; 2], rows: usize) {
        let gradient = gradient(opened, bits, rows, self.map.as_ref());
        let point = self.asked.take().unwrap_or_else(|| DVector::zeros(gradient.len()));
        let before = self.last.as_ref().map(|(point, _)| point.clone());
        let change = before.map_or(1.0, |before| (&point - before).amax() / point.amax().max(f64::MIN_POSITIVE));
        self.last = Some((point, gradient.clone()));
        let certificate = match &mut self.course {
            Course::Free(descent, next) => {
                let certificate = descent.scaled(&gradient);
                *next = descent.next(gradient);
                certificate
            }
            Course::Penalised(along) => {
                let certificate = along.scaled(&gradient);
                along.take_gradient(&gradient);
                certificate
            }
        };
        let round = self.trace.len() as u32 + 1;
        self.trace.push(TracePoint { round, certificate, change, objective: f64::NAN });
    }

    /// The weighted table at the last point: its lower triangle, row by row.
    pub(super) fn take_weighted(&mut self, opened: &[i128], bits: [u32; 2], sizes: &Sizes) {
        self.weighted = Some(weighted(opened, bits, sizes, self.map.as_ref()));
    }

    /// Sums over the rows for the likelihood.
    pub(super) fn take_losses(&mut self, opened: &[i128], bits: u32) {
        self.losses = opened.iter().map(|sum| *sum as f64 * 2f64.powi(-(bits as i32))).collect();
        if let (Course::Penalised(along), Some(sum)) = (&mut self.course, self.losses.first()) {
            along.take_sum(*sum);
        }
    }

    /// What the fit has come to.
    pub(in super::super) fn ended(&self) -> Ended {
        let Course::Free(_, Next::Converged { point, gradient, step }) = &self.course else {
            let zero = || DVector::zeros(self.score.len());
            let point =
                self.last.as_ref().map(|(point, _)| point).or(self.asked.as_ref()).cloned().unwrap_or_else(zero);
            let separated = match self.end() {
                // Both parts of the linear predictor may be large where their sum is not: where columns nearly depend on each other.
                End::OutOfRange => self.wanted().is_some_and(|(wanted, _)| self.spread(&wanted) > STEEP),
                End::Exhausted => self.spread(&point) > STEEP,
                End::Converged | End::LimitOfFirst | End::LimitOfSecond => false,
            };
            let separated = separated && self.family == Family::Binomial;
            let along = self.along(&point);
            return Ended { point, covariance: None, loss: None, along, separated };
        };
        let rows = self.rows as f64;
        let exact = self.weighted.as_ref().map(|table| (table, Definite::from_gram(table)));
        let (step, covariance, separated) = match exact {
            Some((table, Some(definite))) => {
                let step = -definite.solve(gradient);
                match self.endless(table, gradient) {
                    true => (step, None, true),
                    false => (step, Some(definite.inverse() / rows), false),
                }
            }
            Some((_, None)) => (DVector::zeros(point.len()), None, true),
            None => (step.clone(), None, self.family == Family::Binomial && self.spread(point) > STEEP),
        };
        // The last point's loss, the change along the step, of which the slope says twice as much as there is, and the products of the
        // outcome with the step, which belong to the last point no more.
        let mean = match self.family {
            // The gradient of the intercept is the mean of the means less that of the outcome.
            Family::Poisson if self.intercept => Some(gradient[0] + self.mean),
            Family::Poisson => self.losses.first().map(|residuals| residuals / rows + self.mean),
            Family::Binomial | Family::Gaussian => self.losses.first().map(|loss| loss / rows),
        };
        let loss = mean.map(|mean| (mean + self.score.dot(&step) + 0.5 * gradient.dot(&step)) * rows);
        if separated {
            let along = self.along(point);
            let point = point.clone();
            return Ended { point, covariance: None, loss: None, along, separated };
        }
        let point = point + step;
        let along = self.along(&point);
        Ended { point, covariance, loss, along, separated }
    }

    fn along(&self, point: &DVector<f64>) -> f64 {
        let bob = self.bob(point.len());
        self.score.rows(bob.start, bob.len()).dot(&point.rows(bob.start, bob.len())) * self.rows as f64
    }

    /// Positions of Bob's coordinates.
    fn bob(&self, all: usize) -> std::ops::Range<usize> {
        self.first() + self.alice..all
    }

    /// Whether a step would go on without end along a direction in which the weights vanish.
    fn endless(&self, table: &DMatrix<f64>, gradient: &DVector<f64>) -> bool {
        let Some(joint) = Definite::from_gram(&self.joint) else { return false };
        // Coordinates in which the columns are orthonormal.
        let mut half = table.clone();
        joint.factor().tr_solve_upper_triangular_mut(&mut half);
        let mut whole = half.transpose();
        joint.factor().tr_solve_upper_triangular_mut(&mut whole);
        if !whole.iter().all(|entry| entry.is_finite()) {
            return true;
        }
        let mut turned = gradient.clone();
        joint.factor().tr_solve_upper_triangular_mut(&mut turned);
        let eigen = whole.symmetric_eigen();
        let along = eigen.eigenvectors.tr_mul(&turned);
        let both = eigen.eigenvalues.iter().zip(along.iter());
        both.into_iter().any(|(value, along)| *value < FLAT && along.abs() > ENDLESS * value.max(0.0))
    }
}
