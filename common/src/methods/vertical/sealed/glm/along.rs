//! The descent of a penalised binomial or poisson fit from one lambda to the next, from opened gradients alone.
//!
//! The penalty is stated in standardised columns, the gradients open in the coordinates of the bases: with the factors `R_a`, `R_b` a point
//! `b` is `R b` there, and a gradient is `R' g` here. Each step solves the penalised quadratic model of the loss (proximal Newton). Its
//! curvature is that of a normal linear predictor, see [`Model`], corrected by the pairs of steps and changes of the gradient (BFGS), which
//! stay from one lambda to the next, as the loss does. Objectives never open: a step is judged by the slope at its end.

use nalgebra::{DMatrix, DVector};

use crate::glm::Family;
use crate::linalg::Definite;
use crate::methods::vertical::penalty::{self, Penalty};
use crate::secure::kernel::TOLERANCES;
use crate::secure::optimiser::{Beside, MOST_EVALUATIONS, MOST_REFUSALS, Model, TOLERANCE, error_of, may_rise};

/// Pairs that correct the curvature.
const PAIRS: usize = 48;

/// A penalised fit in coordinates of standardised columns, behind the intercept if there is one.
pub(in super::super) struct Penalised {
    pub(in super::super) family: Family,
    /// From these coordinates to those of the bases.
    pub(in super::super) factor: DMatrix<f64>,
    /// Standard deviations in which the penalty measures the columns; 0 exempts the intercept.
    pub(in super::super) units: Vec<f64>,
    pub(in super::super) alpha: f64,
    /// Largest first; glmnet's path where there are none.
    pub(in super::super) lambdas: Option<Vec<f64>>,
    /// Values on that path.
    pub(in super::super) path: usize,
    pub(in super::super) rows: usize,
}

/// The fit at one lambda.
#[derive(Clone)]
pub(in super::super) struct Fitted {
    pub(in super::super) lambda: f64,
    pub(in super::super) beta: DVector<f64>,
    /// By how much the optimality conditions are violated at the last gradient. The last step from there has none.
    pub(in super::super) kkt: f64,
    /// The mean loss without the products of the outcome, where that is known.
    pub(in super::super) loss: Option<f64>,
}

/// What Alice asks for next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The gradient at the point.
    Gradient,
    /// The sum over the rows from which the loss at the last point follows.
    Sum,
    /// Nothing: the fits at all lambdas have converged.
    Nothing,
    /// Nothing: the fit at a lambda does not converge.
    Exhausted,
}

/// A point whose gradient is known.
struct At {
    beta: DVector<f64>,
    gradient: DVector<f64>,
    /// The same in coordinates of the bases.
    of_bases: DVector<f64>,
    /// The mean loss there, as in [`Fitted`].
    loss: Option<f64>,
    /// The error of its kernel: nothing where the gradient has all digits.
    error: f64,
}

/// A search along a direction from the last point.
struct Line {
    direction: DVector<f64>,
    slope: f64,
    step: f64,
}

/// The fits along lambda.
pub(super) struct Along {
    penalised: Penalised,
    model: Model,
    /// Mean products of the outcome with the columns.
    score: DVector<f64>,
    beside: Beside,
    lambdas: Vec<f64>,
    pairs: Vec<(DVector<f64>, DVector<f64>)>,
    at: Option<At>,
    line: Option<Line>,
    asked: DVector<f64>,
    digits: u32,
    /// Points at the present lambda, and those of them without a gradient.
    evaluations: u32,
    refusals: u32,
    wanted: Wanted,
    fits: Vec<Fitted>,
}

impl Along {
    /// At the null model, whose gradient is known without an offset where there is an intercept: the columns are centred. `table` and
    /// `score` are in coordinates of the bases. None where the outcome has no variation.
    pub(super) fn new(
        penalised: Penalised,
        table: DMatrix<f64>,
        score: &DVector<f64>,
        beside: Beside,
    ) -> Option<Along> {
        let family = penalised.family;
        let (intercept, mean, known) = (beside.intercept, beside.mean, beside.offset.is_none() && beside.intercept);
        let model = Model::new(family, lifted(table), score, beside.clone())?;
        let mut null = DVector::zeros(score.len());
        if intercept {
            null[0] = beside.offset.as_ref().map_or(family.linear(mean), |offset| offset.null);
        }
        let of_bases = score;
        let score = penalised.factor.tr_mul(of_bases);
        let mut along = Along {
            lambdas: penalised.lambdas.clone().unwrap_or_default(),
            penalised,
            model,
            score,
            beside,
            pairs: Vec::new(),
            at: None,
            line: None,
            asked: null.clone(),
            // The path begins at the largest entry of this gradient.
            digits: *TOLERANCES.end(),
            evaluations: 0,
            refusals: 0,
            wanted: Wanted::Gradient,
            fits: Vec::new(),
        };
        if known {
            let [mut gradient, mut of_bases] = [&along.score, of_bases].map(|score| -score);
            (gradient[0], of_bases[0]) = (0.0, 0.0);
            let loss = Some(family.at(0.0, null[0]).loss);
            along.digits = *TOLERANCES.start();
            along.at = Some(At { beta: null, gradient, of_bases, loss, error: 0.0 });
            along.go_on();
        }
        Some(along)
    }

    pub(super) fn wanted(&self) -> Wanted {
        self.wanted
    }

    /// The point at which a gradient is asked for, in coordinates of the bases, with the digits of its kernel.
    pub(super) fn point(&self) -> (DVector<f64>, u32) {
        (&self.penalised.factor * &self.asked, self.digits)
    }

    /// The fits that have converged, largest lambda first.
    pub(super) fn fits(&self) -> &[Fitted] {
        &self.fits
    }

    /// The fit at the present lambda as far as it is; none before a gradient is known.
    pub(super) fn unfinished(&self) -> Option<Fitted> {
        let (at, lambda) = (self.at.as_ref()?, *self.lambdas.get(self.fits.len())?);
        Some(Fitted { lambda, beta: at.beta.clone(), kkt: self.violation(at, lambda), loss: None })
    }

    /// The violation of the optimality conditions by a gradient in coordinates of the bases, in units of the outcome's spread: at the point
    /// that was asked for, of the fit under way.
    pub(super) fn scaled(&self, gradient: &DVector<f64>) -> f64 {
        let gradient = self.penalised.factor.tr_mul(gradient);
        let lambda = self.lambdas.get(self.fits.len()).copied().unwrap_or_default();
        self.penalty(lambda).violation(&-gradient, &self.asked) / self.model.spread()
    }

    /// No gradient opens at the point that was asked for: halves the step to it. False where it is no step, or one of too many.
    pub(super) fn refused(&mut self) -> bool {
        (self.evaluations, self.refusals) = (self.evaluations + 1, self.refusals + 1);
        let (Some(line), Some(from)) = (&mut self.line, &self.at) else { return false };
        line.step *= 0.5;
        self.asked = &from.beta + &line.direction * line.step;
        self.refusals <= MOST_REFUSALS && self.evaluations < MOST_EVALUATIONS
    }

    /// Takes the gradient at the point that was asked for, in coordinates of the bases.
    pub(super) fn take_gradient(&mut self, gradient: &DVector<f64>) {
        self.evaluations += 1;
        let sound = gradient.len() == self.asked.len() && gradient.iter().all(|entry| entry.is_finite());
        if !sound {
            self.wanted = Wanted::Exhausted;
            return;
        }
        // The gradient of the intercept is the mean of the means less that of the outcome.
        let known = self.penalised.family == Family::Poisson && self.beside.intercept;
        let loss = known.then(|| gradient[0] + self.beside.mean);
        let error = error_of(self.penalised.family, self.digits);
        let (of_bases, gradient) = (gradient.clone(), self.penalised.factor.tr_mul(gradient));
        let reached = At { beta: self.asked.clone(), gradient, of_bases, loss, error };
        let lambda = self.lambdas.get(self.fits.len()).copied();
        if let (Some(line), Some(from), Some(lambda)) = (&mut self.line, &self.at, lambda) {
            let penalty = penalty_of(&self.penalised, lambda);
            let slope = slope_of(&penalty, &reached, &line.direction, Edge::End);
            let (before, after) = (violation_of(&penalty, from), violation_of(&penalty, &reached));
            // Beyond the minimum a step must at least bring the fit nearer to it: otherwise nothing has been gained for sure.
            let gained = slope <= 0.0 || after < before;
            let ends = error == 0.0 && after <= TOLERANCE * self.model.spread();
            let unsure = || {
                let direction = &self.penalised.factor * &line.direction;
                may_rise(line.slope, &direction, [from.error, reached.error])
            };
            let accepted = slope <= 0.5 * line.slope.abs() && gained || ends || unsure();
            if !accepted {
                if self.evaluations >= MOST_EVALUATIONS {
                    self.wanted = Wanted::Exhausted;
                    return;
                }
                // The root of the slope between a start that descends and an end that climbs.
                line.step *= (-line.slope / (slope - line.slope)).clamp(0.1, 0.9);
                self.asked = &from.beta + &line.direction * line.step;
                return;
            }
            let (step, change) = (&reached.beta - &from.beta, &reached.gradient - &from.gradient);
            let in_bases = [&self.penalised.factor * &step, &reached.of_bases - &from.of_bases];
            if self.model.is_curvature(&in_bases[0], &in_bases[1], from.error) {
                self.pairs.push((step, change));
                if self.pairs.len() > PAIRS {
                    self.pairs.remove(0);
                }
            }
        }
        if self.at.is_none() {
            self.digits = *TOLERANCES.start();
        }
        self.at = Some(reached);
        self.go_on();
    }

    /// Takes what the mean loss at the last point follows from: the sum of the losses, or of the residuals.
    pub(super) fn take_sum(&mut self, sum: f64) {
        let residuals = match self.penalised.family {
            Family::Gaussian | Family::Binomial => 0.0,
            Family::Poisson => self.beside.mean,
        };
        let rows = self.penalised.rows as f64;
        if let Some(at) = &mut self.at {
            at.loss = Some(sum / rows + residuals);
        }
        self.go_on();
    }

    /// From the last point: ends the fits that have converged there, and steps to the next point.
    fn go_on(&mut self) {
        let Some(at) = self.at.take() else { return };
        if self.lambdas.is_empty() {
            let units = self.penalised.units.iter();
            let scores = at.gradient.iter().zip(units).filter(|(_, unit)| **unit > 0.0);
            let largest = scores.map(|(gradient, unit)| (gradient / unit).abs()).fold(0.0, f64::max);
            let columns = at.beta.len() - usize::from(self.beside.intercept);
            let Penalised { alpha, rows, path, .. } = self.penalised;
            self.lambdas = penalty::path(largest, alpha, rows, columns, path);
        }
        self.wanted = self.settle(&at);
        self.at = Some(at);
    }

    fn settle(&mut self, at: &At) -> Wanted {
        while let Some(lambda) = self.lambdas.get(self.fits.len()).copied() {
            let (direction, curvature) = self.direction(at, lambda);
            let kkt = self.violation(at, lambda);
            if !direction.iter().all(|entry| entry.is_finite()) {
                return Wanted::Exhausted;
            }
            if !self.ends(at, kkt) {
                return self.depart(at, lambda, direction, kkt);
            }
            let Some(loss) = at.loss else { return Wanted::Sum };
            // The last step is as good as the curvature and has no gradient.
            let change = (&at.gradient + &self.score).dot(&direction) + 0.5 * direction.dot(&(curvature * &direction));
            self.fits.push(Fitted { lambda, beta: &at.beta + &direction, kkt, loss: Some(loss + change) });
            (self.evaluations, self.refusals) = (0, 0);
        }
        Wanted::Nothing
    }

    /// Whether a fit ends at a point with this violation.
    fn ends(&self, at: &At, kkt: f64) -> bool {
        at.error == 0.0 && kkt <= TOLERANCE * self.model.spread()
    }

    fn depart(&mut self, at: &At, lambda: f64, direction: DVector<f64>, kkt: f64) -> Wanted {
        if self.evaluations >= MOST_EVALUATIONS {
            return Wanted::Exhausted;
        }
        let length = self.model.length(&(&self.penalised.factor * &direction));
        let step = (4.0 / length.max(f64::MIN_POSITIVE)).min(1.0);
        if step == 1.0 {
            // A gradient that ends the fit must have all digits.
            let wanted = (3e-4 * kkt / self.model.spread()).clamp(1e-10, 1e-4);
            let digits = (-(wanted * 1.0001).log10().floor()) as u32;
            self.digits = self.digits.max(digits).min(*TOLERANCES.end());
        }
        self.asked = &at.beta + &direction * step;
        let slope = slope_of(&self.penalty(lambda), at, &direction, Edge::Start);
        self.line = Some(Line { direction, slope, step });
        Wanted::Gradient
    }

    fn penalty(&self, lambda: f64) -> Penalty {
        penalty_of(&self.penalised, lambda)
    }

    fn violation(&self, at: &At, lambda: f64) -> f64 {
        violation_of(&self.penalty(lambda), at)
    }

    /// The step to the minimum of the penalised quadratic model, with its curvature.
    fn direction(&self, at: &At, lambda: f64) -> (DVector<f64>, DMatrix<f64>) {
        let factor = &self.penalised.factor;
        let (of_bases, _) = self.model.curvature_with_weight(&(factor * &at.beta));
        let mut curvature = factor.tr_mul(&of_bases) * factor;
        for (step, change) in &self.pairs {
            let held = &curvature * step;
            let (of_model, of_loss) = (step.dot(&held), step.dot(change));
            if of_model > 0.0 {
                curvature += change * change.transpose() / of_loss - &held * held.transpose() / of_model;
            }
        }
        let penalty = self.penalty(lambda);
        let definite = Definite::from_gram_lifted(&penalty.ridged(&curvature, 1.0));
        let direction = penalty.step(&curvature, Some(&definite), &-&at.gradient, &at.beta, 1.0);
        (direction, curvature)
    }
}

/// Either end of a step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Edge {
    Start,
    End,
}

fn penalty_of(penalised: &Penalised, lambda: f64) -> Penalty {
    Penalty::new(lambda, penalised.alpha, 1.0, penalised.units.clone())
}

fn violation_of(penalty: &Penalty, at: &At) -> f64 {
    penalty.violation(&-&at.gradient, &at.beta)
}

/// The slope of the penalised loss along a direction where a step starts or ends. The absolute value of a coefficient that is zero there
/// rises from the start of the step, and has fallen to its end.
fn slope_of(penalty: &Penalty, at: &At, direction: &DVector<f64>, edge: Edge) -> f64 {
    let sign = if edge == Edge::Start { 1.0 } else { -1.0 };
    let of = |((beta, along), unit): ((&f64, &f64), &f64)| {
        let absolute = if *beta == 0.0 { sign * along.abs() } else { beta.signum() * along };
        unit * (penalty.l1 * absolute + penalty.l2 * unit * beta * along)
    };
    let penalised: f64 = at.beta.iter().zip(direction.iter()).zip(&penalty.units).map(of).sum();
    at.gradient.dot(direction) + penalised
}

/// The table, with a little on its diagonal where columns depend on each other across the parties: it steers the curvature only.
fn lifted(table: DMatrix<f64>) -> DMatrix<f64> {
    let size = table.nrows();
    let lifted = |by: f64| &table + DMatrix::identity(size, size) * by;
    match lifted(1e-12).cholesky() {
        Some(_) => table,
        None => lifted(1e-6),
    }
}
