//! Newton steps of a block: its exact fit given what the partner predicts, and single steps towards the joint minimum.

use std::ops::Range;

use nalgebra::{DMatrix, DVector};

use super::super::response::Response;
use super::super::rows;
use super::{Block, Outcome, Pass};
use crate::glm::Family;
use crate::linalg::{self, Definite, SomeRows};

/// The second derivative of the loss at some earlier point, for Newton steps.
pub(super) struct Curvature {
    matrix: DMatrix<f64>,
    factor: Definite,
    /// Whether it is estimated from some of the rows.
    estimated: bool,
    /// How many the block had before.
    number: u64,
}

/// The last second derivative that was computed from all of many rows: estimates tell what has changed since.
#[derive(Clone)]
pub(super) struct Known {
    matrix: DMatrix<f64>,
    /// Working weights there.
    weights: Vec<f64>,
}

/// How an exact fit of the block went.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Solved {
    /// Sweeps over the rows.
    pub passes: u32,
    /// Scaled gradient at the end.
    pub certificate: f64,
    /// Weighted loss at the end.
    pub loss: f64,
}

impl Block {
    /// Begins the next fit where the predictor stays closest to what it was with the partner's `last` predictions, if the loss has become
    /// far larger than it was there: columns that are close to the partner's must follow it far, and from where all rows have run to
    /// probabilities of 0 and 1 no step leads back. Gives the pass there, where one was made.
    pub fn follow(&mut self, last: &[f64], loss: f64) -> Option<Pass> {
        if self.outcome.family == Family::Gaussian || self.columns() == 0 || last.len() != self.rows() {
            return None;
        }
        let here = self.beta.clone();
        let pass = self.pass(&here);
        if !(pass.loss > FAR * loss.abs()) {
            return Some(pass);
        }
        let mut moved = vec![0.0; self.rows()];
        let weights = self.outcome.weights.as_deref();
        rows::fill(&mut moved, |row| weights.map_or(1.0, |weights| weights[row]) * (last[row] - self.other[row]));
        let products = DVector::from_vec(self.products(&moved));
        let metric = Definite::from_gram(&self.gram).unwrap_or_else(|| Definite::from_gram_lifted(&self.gram));
        let there = &here + metric.solve(&products);
        let closer = self.pass(&there);
        if closer.loss < pass.loss {
            self.beta = there;
            return Some(closer);
        }
        self.return_to(&here);
        Some(pass)
    }

    /// The factor of the second derivative that Newton steps use, computed where it is missing.
    pub fn metric(&mut self) -> &Definite {
        if self.curvature.is_none() {
            self.refresh_curvature();
        }
        // Unwrap safety: it was computed just above.
        #[allow(clippy::expect_used)]
        &self.curvature.as_ref().expect("computed above").factor
    }

    /// The second derivative at the last pass, estimated from some of the rows where these are many.
    fn estimate_curvature(&mut self) -> Option<Curvature> {
        if self.outcome.family == Family::Gaussian {
            return None;
        }
        let some = SomeRows::of(self.rows(), self.columns())?;
        let (known, there) = match &self.known {
            Some(known) => (&known.matrix, Some(known.weights.as_slice())),
            None => (&self.gram, self.outcome.weights.as_deref()),
        };
        let weights =
            |rows: Range<usize>| self.outcome.weights_then_and_now(there, rows.start, self.predictor_at(rows));
        let matrix = some.gram(known, |j| self.column(j), weights);
        let ridged = self.ridged(&matrix);
        let factor = Definite::from_gram(&ridged)?;
        Some(Curvature { matrix, factor, estimated: true, number: self.curvatures })
    }

    fn refresh_curvature(&mut self) {
        let constant = self.outcome.family == Family::Gaussian;
        let matrix = if constant {
            self.gram.clone()
        } else {
            let weights = self.working_weights();
            let matrix = linalg::gram(&self.x, Some(&weights));
            if SomeRows::of(self.rows(), self.columns()).is_some() {
                self.known = Some(Known { matrix: matrix.clone(), weights });
            }
            matrix
        };
        let ridged = self.ridged(&matrix);
        let mut factor = Definite::from_gram(&ridged).unwrap_or_else(|| Definite::from_gram_lifted(&ridged));
        // A Gram matrix squares the condition; where that costs digits, factorise the columns themselves.
        if constant && self.penalty.is_none() && factor.pivot_ratio() < 1e-3 {
            let exact = linalg::weighted_factor(&self.x, self.outcome.weights.as_deref());
            if let Some(definite) = Definite::from_factor(exact) {
                factor = definite;
            }
        }
        self.keep_curvature(Curvature { matrix, factor, estimated: false, number: self.curvatures });
    }

    fn keep_curvature(&mut self, curvature: Curvature) {
        self.curvature = Some(curvature);
        self.curvatures += 1;
    }

    /// A second derivative with what the penalty adds to it.
    fn ridged(&self, matrix: &DMatrix<f64>) -> DMatrix<f64> {
        match &self.penalty {
            Some(penalty) => penalty.ridged(matrix, self.weight_sum),
            None => matrix.clone(),
        }
    }

    /// Fits the block exactly, with the partner's predictions as offset, from the current coefficients, until the
    /// scaled gradient is at most `tol` or rounding stops it. The result depends on the offset, hardly on the start.
    ///
    /// `first` is the pass at the current coefficients, where the caller has it already.
    pub fn solve(&mut self, tol: f64, first: Option<Pass>) -> Solved {
        if self.columns() == 0 {
            let pass = first.unwrap_or_else(|| self.pass(&DVector::zeros(0)));
            return Solved { passes: 1, certificate: 0.0, loss: pass.loss };
        }
        let constant = self.outcome.family == Family::Gaussian;
        let mut beta = self.beta.clone();
        let mut pass = first.unwrap_or_else(|| self.pass(&beta));
        let mut passes = 1;
        let mut certificate = self.certificate(&pass.gradient, &beta);
        let mut fresh = false;
        let mut stalls = 0;
        let mut estimates = Estimates::default();
        // Close to where later fits end, all rows are worth their price once.
        let close = certificate <= CLOSE;
        // An estimate costs less than a sweep, and saves one where there is far to go.
        if self.curvature.as_ref().is_some_and(|curvature| curvature.estimated) && certificate * WORTH_A_SWEEP > tol {
            self.curvature = None;
        }
        while certificate > tol && passes < MAX_PASSES && stalls < 2 {
            let new = self.curvature.is_none();
            if new {
                let estimate = estimates.are_worth_it() && !(close && self.known.is_none());
                match estimate.then(|| self.estimate_curvature()).flatten() {
                    Some(curvature) => self.keep_curvature(curvature),
                    None => self.refresh_curvature(),
                }
                fresh = true;
            }
            let Some(curvature) = &self.curvature else { break };
            let estimated = curvature.estimated;
            let step = match &self.penalty {
                None => curvature.factor.solve(&pass.gradient),
                Some(penalty) => {
                    penalty.step(&curvature.matrix, Some(&curvature.factor), &pass.gradient, &beta, self.weight_sum)
                }
            };
            let objective = pass.loss + self.penalty_at(&beta);
            let slack = self.slack(objective);
            let mut length = if constant { 1.0 } else { self.first_length(&step, LONGEST_STEP) };
            let (next, next_pass) = loop {
                let next = &beta + &step * length;
                let next_pass = self.pass(&next);
                passes += 1;
                let better = next_pass.loss + self.penalty_at(&next) <= objective + slack;
                if better || length < 1e-10 || passes >= MAX_PASSES {
                    break (next, next_pass);
                }
                length *= 0.5;
            };
            let next_certificate = self.certificate(&next_pass.gradient, &next);
            let gain = next_certificate / certificate;
            if !next_certificate.is_finite() || (gain >= 1.0 && next_pass.loss > pass.loss + slack) {
                break;
            }
            // An old second derivative is worth another sweep only while it still gains digits quickly.
            if !constant && gain > WORTH_A_SWEEP {
                match estimated {
                    true => estimates.note(new, close, gain),
                    false if fresh && gain > NO_GAIN => stalls += 1,
                    false => {}
                }
                self.return_to(&next);
                self.curvature = None;
                fresh = false;
            } else if constant && gain > NO_GAIN {
                stalls += 1;
            }
            (beta, pass, certificate) = (next, next_pass, next_certificate);
        }
        self.return_to(&beta);
        self.beta = beta;
        Solved { passes, certificate, loss: pass.loss }
    }

    /// One more Newton step after an exact fit, and the relative change that it makes: large where the loss falls for
    /// ever along a flat valley, whatever the gradient says. It is not taken where the loss would rise.
    pub fn step_on(&mut self, solved: Solved) -> (Solved, f64) {
        if self.columns() == 0 {
            return (solved, 0.0);
        }
        let beta = self.beta.clone();
        let pass = self.pass(&beta);
        self.curvature = None;
        let step = self.metric().solve(&pass.gradient);
        let length = self.first_length(&step, LONGEST_STEP);
        let next = &beta + step * length;
        let change = self.change(&beta, &next);
        let next_pass = self.pass(&next);
        let passes = solved.passes + 2;
        if !(next_pass.loss <= pass.loss + 1e-12 * pass.loss.abs()) {
            self.return_to(&beta);
            return (Solved { passes, ..solved }, change);
        }
        let certificate = self.certificate(&next_pass.gradient, &next);
        self.beta = next;
        (Solved { passes, certificate, loss: next_pass.loss }, change)
    }

    /// The share of a Newton step that is tried first. Where rows have run to probabilities of 0 and 1 a second
    /// derivative is rounding, and a step by it could go anywhere.
    fn first_length(&self, step: &DVector<f64>, most: f64) -> f64 {
        let furthest = self.furthest(step.as_slice(), rows::SAFE * most);
        rows::first_length(self.rows(), (furthest, most), |start, moved| {
            self.multiply(start, step.as_slice(), moved);
        })
    }

    /// By how much rounding alone may raise the objective. In table form it is what is left of terms that may be much larger.
    pub fn slack(&self, objective: f64) -> f64 {
        let terms = self.tables.as_ref().map_or(0.0, |tables| tables.total);
        SLACK * objective.abs() + 16.0 * f64::EPSILON * terms
    }

    /// The same where the outcome may be far from zero beside what the fit leaves over, of a gaussian fit on rows.
    pub(in super::super) fn wide_slack(&self, objective: f64) -> f64 {
        if self.outcome.family != Family::Gaussian || self.tables.is_some() {
            return self.slack(objective);
        }
        // A rounding of the terms of each row, times what the row leaves over.
        let left = (2.0 * objective.abs() / self.weight_sum).sqrt();
        self.slack(objective) + 4.0 * left * self.rounding() * self.outcome.spread * self.weight_sum
    }

    /// How small a scaled gradient can be told from zero: rounding of outcome, mean and the terms of the predictor, as
    /// a mean over rows in units of the outcome's spread.
    pub fn rounding(&self) -> f64 {
        let size = match &self.tables {
            Some(tables) => {
                let own = self.gram.abs() * self.beta.abs();
                (tables.score.amax() + own.amax() + self.across.cross.amax()) / self.weight_sum
            }
            None => {
                // Columns have mean square 1, so that this bounds the terms of an ordinary row.
                let own = self.beta.lp_norm(1);
                let Outcome { family, y, .. } = &self.outcome;
                let sum = self.weighted_sum_of_rows(|rows, predictors, terms| {
                    family.at_rows(&y[rows.clone()], predictors, terms, &mut vec![0.0; rows.len()]);
                    family.variances(predictors);
                    let of_rows = terms.iter_mut().zip(&y[rows.clone()]).zip(&*predictors).zip(&self.other[rows]);
                    for (((term, y), variance), other) in of_rows {
                        *term = y.abs() + term.abs() + variance * (own + other.abs());
                    }
                });
                sum / self.weight_sum
            }
        };
        f64::EPSILON * size / self.outcome.spread
    }

    /// The exact fit as one Newton step without a sweep to verify it, where that is safe: gaussian without penalty, and
    /// well conditioned.
    pub fn exact_step(&mut self, at: &DVector<f64>, pass: &Pass) -> Option<DVector<f64>> {
        if self.outcome.family != Family::Gaussian || self.penalty.is_some() || self.columns() == 0 {
            return None;
        }
        let metric = self.metric();
        (metric.pivot_ratio() > 1e-2).then(|| at + metric.solve(&pass.gradient))
    }

    /// The next own point of a fit with a penalty: the minimum of a quadratic model of the loss and of what the partner answers. `settled`
    /// says that an older second derivative will do.
    pub(in super::super) fn step_by(&mut self, response: &mut Response, settled: bool) -> Option<DVector<f64>> {
        if self.columns() == 0 {
            return None;
        }
        if self.outcome.family != Family::Gaussian && !settled && !response.turned_back() {
            self.curvature = None;
        }
        // What the partner takes away of it is learnt from differences that an estimate would blur.
        if self.curvature.as_ref().is_none_or(|curvature| curvature.estimated) {
            self.refresh_curvature();
        }
        let (Some(curvature), Some(penalty)) = (&self.curvature, &self.penalty) else { return None };
        let matrix = &curvature.matrix - response.taken(&curvature.matrix, &curvature.factor, curvature.number);
        let (from, score, share) = response.from()?;
        let step = penalty.step(&matrix, None, score, from, self.weight_sum);
        let length = match self.outcome.family {
            // Without a model it cannot go too far.
            Family::Gaussian => 1.0,
            Family::Binomial | Family::Poisson => share * self.first_length(&step, MODEL_STEP),
        };
        Some(from + step * length).filter(|next| next.iter().all(|value| value.is_finite()))
    }

    /// Makes the stored predictions those of `beta`, if the last pass was elsewhere.
    fn return_to(&mut self, beta: &DVector<f64>) {
        if self.passed != *beta {
            self.predict(beta);
        }
    }
}

/// Whether second derivatives are still estimated from some of the rows.
#[derive(Debug, Default)]
pub(in super::super) struct Estimates {
    slow: usize,
}

impl Estimates {
    /// Whether to estimate the next one.
    pub(in super::super) fn are_worth_it(&self) -> bool {
        self.slow < MOST_SLOW
    }

    /// A step by an estimate left this share of the gradient, more than what is worth another sweep. `fresh`: it was made where the step began;
    /// `close`: the minimisation began close to the minimum, so that a second derivative of all rows would have left next to nothing.
    pub(in super::super) fn note(&mut self, fresh: bool, close: bool, gain: f64) {
        if fresh {
            self.slow += if close || gain > NO_GAIN { MOST_SLOW } else { 1 };
        }
    }
}

/// A scaled gradient from which on what weights still change of a second derivative is little.
pub(in super::super) const CLOSE: f64 = 5e-3;

/// Far from the minimum every step leaves much; after so many it may be the estimate.
const MOST_SLOW: usize = 4;

/// What a step by an old second derivative may leave of the gradient for the next one to be by the same.
pub(in super::super) const WORTH_A_SWEEP: f64 = 0.05;

/// A step that leaves more than this by a second derivative of where it began gains nothing.
pub(in super::super) const NO_GAIN: f64 = 0.5;

/// By how much rounding may change a sum over the rows, relative to it.
const SLACK: f64 = 1e-12;

/// A loss this many times what it was is far from a minimum.
const FAR: f64 = 4.0;

/// Sweeps after which an exact fit gives up: only separated or degenerate data get here.
const MAX_PASSES: u32 = 60;

/// How far one Newton step may move a linear predictor.
pub const LONGEST_STEP: f64 = 100.0;

/// The same of a step by a model of what the partner answers.
const MODEL_STEP: f64 = 4.0;
