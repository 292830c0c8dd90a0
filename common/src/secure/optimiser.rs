//! The descent of a binomial or poisson fit from opened numbers alone.
//!
//! Coordinates are `1, Q_a, Q_b`, and `S` is their table over the rows. The loss is convex, and what opens at each point is its gradient.
//! Curvature is that of a normal linear predictor (Stein's lemma): for `eta ~ N(b_0, v)`, `u = S_x b`, `v = b'u` the Hessian is
//! `[E w, E w' u'; ., E w S_x + E w'' u u']`, exact for normal columns; pairs of steps and changes of the gradient correct it
//! (L-BFGS). Objectives never open: a step is judged by the slope at its end.

use std::sync::LazyLock;

use nalgebra::{DMatrix, DVector};

use super::kernel::{TOLERANCES, has_all_digits};
use crate::glm::Family;

/// Evaluations after which a fit gives up.
pub const MOST_EVALUATIONS: u32 = 60;

/// Points of a fit at which no gradient opens: those of one whose solution is out of range come ever nearer to where the range ends.
pub const MOST_REFUSALS: u32 = 24;

/// The scaled gradient at which a fit ends.
pub const TOLERANCE: f64 = 1e-8;

/// Pairs that correct the curvature.
const PAIRS: usize = 12;

/// Largest standard deviation of the linear predictor at the first point.
const STEEPEST_START: f64 = 8.0;

/// Largest weight of a row in a binomial fit, a quarter, with room for the error of its kernel.
const LARGEST_WEIGHT: f64 = 0.3;

/// Errors of a kernel by which a gradient must have changed before it says what the curvature is.
const ABOVE_ERROR: f64 = 4.0;

/// Nodes of the expectations.
const NODES: usize = 80;

/// What goes on next.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Open the mean gradient at a point, with a kernel whose error is `10^-digits` at most.
    Evaluate {
        /// The coordinates.
        point: DVector<f64>,
        /// Decimal digits of the kernel.
        digits: u32,
    },
    /// The gradient vanishes. One more step by the present curvature is not evaluated; where the exact Hessian opens, take
    /// its step from `point` with `gradient` in place of it.
    Converged {
        /// Where the gradient was opened.
        point: DVector<f64>,
        /// The gradient there, over the rows.
        gradient: DVector<f64>,
        /// The step by the present curvature.
        step: DVector<f64>,
    },
    /// Too many evaluations.
    Exhausted {
        /// The last point that was accepted.
        point: DVector<f64>,
    },
}

/// What a fit has beside its columns, as the leader knows it.
#[derive(Debug, Clone, PartialEq)]
pub struct Beside {
    /// Whether the first coordinate is the intercept.
    pub intercept: bool,
    /// The mean of the outcome.
    pub mean: f64,
    /// A term with coefficient 1.
    pub offset: Option<Offset>,
}

/// An offset, without its mean where the model has an intercept.
#[derive(Debug, Clone, PartialEq)]
pub struct Offset {
    /// The mean that it has.
    pub mean: f64,
    /// Its variance about that mean.
    pub variance: f64,
    /// Mean products with the columns, as far as the leader knows them: zeros elsewhere. They steer the curvature only.
    pub along: DVector<f64>,
    /// The mean of its exponential.
    pub exposure: f64,
    /// The intercept of a model with the offset and nothing else.
    pub null: f64,
}

/// A fit between two evaluations.
pub struct Descent {
    model: Model,
    pairs: Vec<(DVector<f64>, DVector<f64>)>,
    /// The last accepted point with its gradient.
    at: Option<(DVector<f64>, DVector<f64>)>,
    line: Option<Line>,
    /// The model of the intercept alone, or with zeros everywhere without one.
    null: DVector<f64>,
    asked: DVector<f64>,
    digits: u32,
    /// The error of the kernel at the last accepted point.
    error_before: f64,
    /// Points that were asked for and answered, and those of them without a gradient.
    evaluations: u32,
    refusals: u32,
}

/// A search along a direction, from a point at which the slope descends.
struct Line {
    direction: DVector<f64>,
    slope: f64,
    step: f64,
}

impl Descent {
    /// At the start, and what to evaluate first. `table` is `S`, `score` is `X'y / n` in the same coordinates. None where the outcome
    /// has no variation or the table is not positive definite.
    pub fn new(family: Family, table: DMatrix<f64>, score: &DVector<f64>, beside: Beside) -> Option<(Descent, Next)> {
        let model = Model::new(family, table, score, beside)?;
        let start = model.start(score)?;
        let digits = TOLERANCES.start() + 1;
        let next = Next::Evaluate { point: start.clone(), digits };
        let (pairs, at, line) = (Vec::new(), None, None);
        let null = model.null(score.len());
        let (asked, error_before, evaluations, refusals) = (start, 0.0, 0, 0);
        Some((Descent { model, pairs, at, line, null, asked, digits, error_before, evaluations, refusals }, next))
    }

    /// Evaluations so far, with the points at which no gradient opened.
    pub fn evaluations(&self) -> u32 {
        self.evaluations
    }

    /// The largest entry of a gradient in units of the outcome's spread.
    pub fn scaled(&self, gradient: &DVector<f64>) -> f64 {
        gradient.amax() / self.model.spread
    }

    /// No gradient opens at the point that was asked for: halves the step to it from the last accepted point, or from the null model where it
    /// is the first. None after too many such points.
    pub fn refused(&mut self) -> Option<Next> {
        (self.evaluations, self.refusals) = (self.evaluations + 1, self.refusals + 1);
        if self.refusals > MOST_REFUSALS || self.evaluations >= MOST_EVALUATIONS {
            return None;
        }
        if let Some(line) = &mut self.line {
            line.step *= 0.5;
        }
        let from = self.at.as_ref().map_or(&self.null, |(from, _)| from);
        self.asked = (from + &self.asked) * 0.5;
        Some(Next::Evaluate { point: self.asked.clone(), digits: self.digits })
    }

    /// Takes the opened gradient at the point that was asked for. One of another length, or with an entry that is not finite, ends the fit.
    pub fn next(&mut self, gradient: DVector<f64>) -> Next {
        self.evaluations += 1;
        let point = self.asked.clone();
        if gradient.len() != point.len() || !gradient.iter().all(|entry| entry.is_finite()) {
            return Next::Exhausted { point: self.at.take().map_or(point, |(from, _)| from) };
        }
        if let (Some(line), Some((from, before))) = (&mut self.line, &self.at) {
            let slope = gradient.dot(&line.direction);
            // Beyond the minimum a step must at least have made the gradient smaller: otherwise nothing has been gained for sure.
            let gained = slope <= 0.0 || gradient.amax() < before.amax();
            let errors = [self.error_before, error_of(self.model.family, self.digits)];
            let accepted = slope <= 0.5 * line.slope.abs() && gained || may_rise(line.slope, &line.direction, errors);
            if !accepted && self.evaluations < MOST_EVALUATIONS {
                // The root of the slope between a start that descends and an end that climbs.
                let share = (-line.slope / (slope - line.slope)).clamp(0.1, 0.9);
                line.step *= share;
                self.asked = from + &line.direction * line.step;
                return Next::Evaluate { point: self.asked.clone(), digits: self.digits };
            }
            if !accepted {
                return Next::Exhausted { point: from.clone() };
            }
            let (step, change) = (&point - from, &gradient - before);
            if self.model.is_curvature(&step, &change, self.error_before) {
                self.pairs.push((step, change));
                if self.pairs.len() > PAIRS {
                    self.pairs.remove(0);
                }
            }
        }
        self.depart(point, gradient)
    }

    /// From an accepted point.
    fn depart(&mut self, point: DVector<f64>, gradient: DVector<f64>) -> Next {
        let scaled = self.scaled(&gradient);
        self.error_before = error_of(self.model.family, self.digits);
        let direction = self.direction(&point, &gradient);
        if scaled <= TOLERANCE && has_all_digits(self.model.family, self.digits) {
            return Next::Converged { point, gradient, step: direction };
        }
        if self.evaluations >= MOST_EVALUATIONS || !direction.iter().all(|d| d.is_finite()) {
            return Next::Exhausted { point };
        }
        let length = self.model.length(&direction);
        let step = (4.0 / length.max(f64::MIN_POSITIVE)).min(1.0);
        if step == 1.0 {
            let wanted = (0.003 * scaled).clamp(1e-10, 1e-4);
            let digits = (-(wanted * 1.0001).log10().floor()) as u32;
            self.digits = self.digits.max(digits).min(*TOLERANCES.end());
        }
        self.asked = &point + &direction * step;
        self.line = Some(Line { slope: gradient.dot(&direction), direction, step });
        self.at = Some((point, gradient));
        Next::Evaluate { point: self.asked.clone(), digits: self.digits }
    }

    /// Minus the curvature's inverse times the gradient (Nocedal, 1980).
    fn direction(&self, point: &DVector<f64>, gradient: &DVector<f64>) -> DVector<f64> {
        let mut rest = gradient.clone();
        let mut shares = Vec::new();
        for (step, change) in self.pairs.iter().rev() {
            let share = step.dot(&rest) / step.dot(change);
            rest.axpy(-share, change, 1.0);
            shares.push(share);
        }
        let curvature = self.model.curvature(point);
        let Some(factor) = curvature.cholesky() else {
            return DVector::from_element(point.len(), f64::NAN);
        };
        let mut direction = factor.solve(&rest);
        for ((step, change), share) in self.pairs.iter().zip(shares.into_iter().rev()) {
            let other = change.dot(&direction) / step.dot(change);
            direction.axpy(share - other, step, 1.0);
        }
        -direction
    }
}

/// The error of the means by a kernel of so many digits.
pub(crate) fn error_of(family: Family, digits: u32) -> f64 {
    if has_all_digits(family, digits) { 0.0 } else { 10f64.powi(-(digits as i32)) }
}

/// Whether a slope at the start of a step, along a direction in coordinates of the bases, is within the error of the kernel there, and the
/// kernel at the end is a better one. The slope may rise then, and no shorter step would ever be accepted; the end is at least a point whose
/// gradient is known.
pub(crate) fn may_rise(slope: f64, direction: &DVector<f64>, [before, after]: [f64; 2]) -> bool {
    slope.abs() <= before * direction.lp_norm(1) && after < before
}

/// What does not change during a fit: the curvature of a normal linear predictor, from a table.
pub(crate) struct Model {
    family: Family,
    table: DMatrix<f64>,
    /// The lower triangular factor of the table.
    lower: DMatrix<f64>,
    spread: f64,
    beside: Beside,
}

impl Model {
    /// From the table of the coordinates; none where the outcome has no variation or the table is not positive definite.
    pub(crate) fn new(family: Family, table: DMatrix<f64>, score: &DVector<f64>, beside: Beside) -> Option<Model> {
        let mean = beside.mean;
        let variance = family.variance(family.linear(mean));
        let sound = variance > 0.0 && variance.is_finite() && table.is_square() && table.nrows() == score.len();
        let columns = score.len().checked_sub(usize::from(beside.intercept))?;
        let fits = beside.offset.as_ref().is_none_or(|offset| offset.along.len() == columns);
        (sound && fits).then_some(())?;
        let lifted = &table + DMatrix::identity(table.nrows(), table.nrows()) * 1e-12;
        let lower = lifted.cholesky()?.unpack();
        Some(Model { family, table, lower, spread: variance.sqrt(), beside })
    }

    /// The outcome's spread, the unit of gradients.
    pub(crate) fn spread(&self) -> f64 {
        self.spread
    }

    /// Root mean square of what a step changes in the linear predictor.
    pub(crate) fn length(&self, step: &DVector<f64>) -> f64 {
        (&self.table * step).dot(step).sqrt()
    }

    /// Whether a change of the gradient along a step says what the curvature is. That it exceeds by far the `error` of the kernel at the
    /// start of the step, which is the larger one, is not enough in every direction: what is left of the error shows where the change is
    /// more than the table times a quarter, the largest weight of a binomial fit, allows.
    pub(crate) fn is_curvature(&self, step: &DVector<f64>, change: &DVector<f64>, error: f64) -> bool {
        let along = step.dot(change);
        let mut half = change.clone();
        let bounded = match self.family {
            Family::Binomial => {
                self.lower.solve_lower_triangular_mut(&mut half) && half.norm_squared() <= LARGEST_WEIGHT * along
            }
            Family::Gaussian | Family::Poisson => true,
        };
        along > 1e-14 * step.norm() * change.norm() && change.amax() > ABOVE_ERROR * error && bounded
    }

    /// The mean of a function of a normal linear predictor.
    fn mean_of(&self, mean: f64, variance: f64, of: impl Fn(f64) -> f64) -> f64 {
        HERMITE.iter().map(|(node, weight)| weight * of(mean + variance.sqrt() * node)).sum()
    }

    /// The position of the first column.
    fn first(&self) -> usize {
        usize::from(self.beside.intercept)
    }

    /// The first point: the linear fit of the outcome, matched to a normal linear predictor. The linear fit is not known beside an offset,
    /// nor of a binomial model without an intercept, for which the sums of Bob's columns do not open: such a fit starts at the null model.
    fn start(&self, score: &DVector<f64>) -> Option<DVector<f64>> {
        let (mean, first, size) = (self.beside.mean, self.first(), score.len() - self.first());
        let block = self.table.view((first, first), (size, size)) + DMatrix::identity(size, size) * 1e-12;
        let linear = block.cholesky()?.solve(&score.rows(first, size).into_owned());
        let length = (self.table.view((first, first), (size, size)) * &linear).dot(&linear);
        let (intercept, factor) = match (self.family, &self.beside.offset, self.beside.intercept) {
            (Family::Gaussian, _, _) => return None,
            (Family::Binomial | Family::Poisson, Some(offset), true) => (offset.null, 0.0),
            (Family::Binomial, None, true) => self.matched(mean, length, STEEPEST_START),
            (Family::Binomial, _, false) => (0.0, 0.0),
            (Family::Poisson, None, true) => {
                let variance = length / (mean * mean);
                let cut = if variance > 2.0 { (2.0 / variance).sqrt() } else { 1.0 };
                (mean.ln() - variance.min(2.0) / 2.0, cut / mean)
            }
            (Family::Poisson, offset, false) => {
                (0.0, without_intercept(length, offset.as_ref().map_or(1.0, |offset| offset.exposure)))
            }
        };
        let slope = |j: usize| factor * linear[j - first];
        Some(DVector::from_fn(score.len(), |j, _| if j < first { intercept } else { slope(j) }))
    }

    /// The model without columns.
    fn null(&self, size: usize) -> DVector<f64> {
        let mut null = DVector::zeros(size);
        if self.beside.intercept {
            let linear = self.family.linear(self.beside.mean);
            null[0] = self.beside.offset.as_ref().map_or(linear, |offset| offset.null);
        }
        null
    }

    /// `m` and `k` with `k E w = 1` and `E mu = mean` for `eta ~ N(m, k^2 length)`, damped, and `k` times the root at most `steepest`.
    pub(crate) fn matched(&self, mean: f64, length: f64, steepest: f64) -> (f64, f64) {
        let family = self.family;
        let (mut m, mut k) = (family.linear(mean), 1.0 / family.variance(family.linear(mean)));
        let most = steepest / length.sqrt().max(1e-150);
        for _ in 0..300 {
            let variance = (k * k * length).min(100.0);
            let weight = self.mean_of(m, variance, |eta| family.variance(eta)).max(1e-4);
            let missing = mean - self.mean_of(m, variance, |eta| family.mean(eta));
            let before = (m, k);
            m += 0.5 * (missing / weight).clamp(-1.0, 1.0);
            k += 0.3 * ((1.0 / weight).min(most) - k);
            // Nothing would change any more.
            if (m, k) == before {
                break;
            }
        }
        (m, k)
    }

    /// The Hessian of a normal linear predictor, its eigenvalues relative to the table held above a twentieth of the mean weight. Without an
    /// intercept the columns have means, which count as part of their spread.
    fn curvature(&self, point: &DVector<f64>) -> DMatrix<f64> {
        self.curvature_with_weight(point).0
    }

    /// The same with the mean weight.
    pub(crate) fn curvature_with_weight(&self, point: &DVector<f64>) -> (DMatrix<f64>, f64) {
        let (first, size) = (self.first(), point.len() - self.first());
        let (block, u, [w0, w1, w2]) = self.weights(point);
        let mut hessian = DMatrix::zeros(first + size, first + size);
        if first == 1 {
            hessian[(0, 0)] = w0;
            for j in 0..size {
                hessian[(0, j + 1)] = w1 * u[j];
                hessian[(j + 1, 0)] = w1 * u[j];
            }
        }
        hessian.view_mut((first, first), (size, size)).copy_from(&(block * w0 + &u * u.transpose() * w2));
        let mut half = hessian.clone();
        self.lower.solve_lower_triangular_mut(&mut half);
        let mut whole = half.transpose();
        self.lower.solve_lower_triangular_mut(&mut whole);
        let mut eigen = whole.symmetric_eigen();
        if eigen.eigenvalues.min() < 0.05 * w0 {
            eigen.eigenvalues.iter_mut().for_each(|value| *value = value.max(0.05 * w0));
            hessian = &self.lower * eigen.recompose() * self.lower.transpose();
        }
        (hessian, w0)
    }

    /// The mean slope of the weight of a normal linear predictor, over its mean: by how much weights change with it.
    pub(crate) fn tilt(&self, point: &DVector<f64>) -> f64 {
        let (_, _, [w0, w1, _]) = self.weights(point);
        w1 / w0
    }

    /// The block of the columns, its product with the slopes, and the mean weight of a normal linear predictor with those of its
    /// derivatives.
    fn weights(&self, point: &DVector<f64>) -> (DMatrix<f64>, DVector<f64>, [f64; 3]) {
        let (first, size) = (self.first(), point.len() - self.first());
        let slopes = point.rows(first, size).into_owned();
        let block = self.table.view((first, first), (size, size)).into_owned();
        let mut u = &block * &slopes;
        let (mut mean, mut variance) = (if first == 1 { point[0] } else { 0.0 }, slopes.dot(&u));
        if let Some(offset) = &self.beside.offset {
            mean += offset.mean;
            variance += offset.variance + 2.0 * offset.along.dot(&slopes);
            u += &offset.along;
        }
        let variance = variance.clamp(0.0, 100.0);
        let family = self.family;
        let weights = |eta: f64| -> [f64; 3] {
            let w = family.variance(eta);
            match family {
                Family::Gaussian => [1.0, 0.0, 0.0],
                Family::Binomial => {
                    let mu = family.mean(eta);
                    [w, w * (1.0 - 2.0 * mu), w * (1.0 - 6.0 * mu + 6.0 * mu * mu)]
                }
                Family::Poisson => [w, w, w],
            }
        };
        let means = [0, 1, 2].map(|at: usize| self.mean_of(mean, variance, |eta| weights(eta)[at]));
        (block, u, means)
    }
}

/// `k` with `k exposure exp(k^2 length / 2) = 1`, for which the products of the columns with the means of a poisson model are those with
/// the outcome.
fn without_intercept(length: f64, exposure: f64) -> f64 {
    let (mut below, mut above) = (-700.0, 700.0);
    for _ in 0..100 {
        let log: f64 = 0.5 * (below + above);
        let size = log + exposure.ln() + 0.5 * length * (2.0 * log).exp();
        if size > 0.0 { above = log } else { below = log }
    }
    below.exp()
}

/// Nodes and weights of expectations of a standard normal (Golub and Welsch, 1969).
static HERMITE: LazyLock<Vec<(f64, f64)>> = LazyLock::new(|| {
    let jacobi = DMatrix::from_fn(NODES, NODES, |i, j| if i.abs_diff(j) == 1 { (i.max(j) as f64).sqrt() } else { 0.0 });
    let eigen = jacobi.symmetric_eigen();
    let weight = |at: usize| eigen.eigenvectors[(0, at)].powi(2);
    (0..NODES).map(|at| (eigen.eigenvalues[at], weight(at))).collect()
});
