//! One party's block: its columns on an inner scale, and exact fits of it with the partner's predictions as offset.
//!
//! Inside, every column has weighted root mean square 1, after its weighted mean was taken out where the model has an
//! intercept. Coefficients leave on the original scale. The inner scale makes the stopping rule read the same for every
//! column and keeps columns whose sizes differ by many orders of magnitude apart from rounding.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use nalgebra::{DMatrix, DVector};
use rayon::prelude::*;

use super::penalty::Penalty;
use super::rows::{self, Strip};
use super::standardise::{largest, standardise};
use crate::glm::Family;
use crate::linalg::kernels::{self, Lanes, STRIP_ROWS, SWEPT_ROWS, dot};
use crate::linalg::{self, BLOCK_ROWS, DEPENDENCE, Definite, Spares, Values};

mod newton;

use newton::Curvature;
pub(super) use newton::{CLOSE, Estimates, NO_GAIN, WORTH_A_SWEEP};
pub use newton::{LONGEST_STEP, Solved};

/// The outcome and what goes with it, as one party sees it: `n` values each.
#[derive(Clone)]
pub struct Outcome {
    /// Family of the model.
    pub family: Family,
    /// The outcome; zeros at the party that does not hold a gaussian outcome, whose partner's predictions then carry it.
    pub y: Vec<f64>,
    /// Case weights.
    pub weights: Option<Vec<f64>>,
    /// A term with coefficient 1 that this party adds by itself.
    pub offset: Option<Vec<f64>>,
    /// A term that this party adds to what it sends, because the partner cannot add it.
    pub hidden: Option<Vec<f64>>,
    /// Weighted standard deviation of the outcome, divisor `n`, around zero without an intercept: the unit of the
    /// stopping rule.
    pub spread: f64,
}

/// A column on the inner scale: `inner = (original - centre) / scale`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scaling {
    /// What was taken out.
    pub centre: f64,
    /// What it was divided by.
    pub scale: f64,
}

/// One party's columns and the state of its fit.
pub struct Block {
    x: Arc<DMatrix<f64>>,
    scalings: Vec<Scaling>,
    /// For each kept column, its place among the party's terms; the intercept has none.
    places: Vec<Option<usize>>,
    dropped: Vec<usize>,
    outcome: Outcome,
    weight_sum: f64,
    penalty: Option<Penalty>,
    /// The partner's predictions.
    other: Values,
    /// The largest value of each column, in size.
    largest: Vec<f64>,
    /// No row has a larger Euclidean norm; computed when a step first asks for it, and kept where columns are set aside later.
    longest: OnceLock<f64>,
    /// Own predictions at the point of the last pass.
    eta: Values,
    spares: Spares,
    /// Coefficients of the last pass, those that `eta` belongs to.
    passed: DVector<f64>,
    beta: DVector<f64>,
    /// `X' W X` with the prior weights.
    gram: DMatrix<f64>,
    curvature: Option<Curvature>,
    curvatures: u64,
    known: Option<newton::Known>,
    tables: Option<Tables>,
    across: Across,
}

/// Cross tables that stand for the rows: after a basis of one block was sent, predictions travel as a few numbers.
/// Gaussian only.
#[derive(Clone)]
pub struct Tables {
    /// What to send for coefficients `b` is this times `b`.
    pub to_peer: DMatrix<f64>,
    /// `X' W` times the partner's predictions is this times what the partner sent.
    pub from_peer: DMatrix<f64>,
    /// `X' W y`, with an outcome less a centre: squares of a mean far from zero would round away the loss.
    pub score: DVector<f64>,
    /// `y' W y`.
    pub total: f64,
}

/// What the partner's side contributes in table form.
#[derive(Clone)]
struct Across {
    /// `X' W` times the partner's predictions.
    cross: DVector<f64>,
    /// What the partner's predictions alone add to the loss.
    loss: f64,
}

/// What one sweep over the rows finds at a point.
#[derive(Debug, Clone)]
pub struct Pass {
    /// `X' W (y - mean)`.
    pub gradient: DVector<f64>,
    /// Weighted loss.
    pub loss: f64,
}

impl Block {
    /// A block from its columns, `n x p` on the original scale and without intercept; the matrix is scaled in place.
    ///
    /// `centre` says whether the joint model has an intercept, `intercept` whether this party holds it. Columns that
    /// depend on earlier ones, or that are constant where there is an intercept, are set aside.
    pub fn new(mut x: DMatrix<f64>, intercept: bool, centre: bool, outcome: Outcome) -> Block {
        let n = x.nrows();
        let weights = outcome.weights.as_deref();
        let weight_sum = weights.map_or(n as f64, |weights| weights.iter().sum());
        let mut scalings = standardise(&mut x, weights, weight_sum, centre);
        let mut gram = linalg::gram(&x, weights);
        let kept = independent(&x, &gram, weights, &scalings);
        let dropped = (0..scalings.len()).filter(|j| !kept.contains(j)).collect();
        if kept.len() < scalings.len() {
            x = x.select_columns(&kept);
            gram = gram.select_columns(&kept).select_rows(&kept);
        }
        scalings = kept.iter().map(|j| scalings[*j]).collect();
        let mut places: Vec<Option<usize>> = kept.into_iter().map(Some).collect();
        if intercept {
            x = x.insert_column(0, 1.0);
            scalings.insert(0, Scaling { centre: 0.0, scale: 1.0 });
            places.insert(0, None);
            gram = gram.insert_row(0, 0.0).insert_column(0, 0.0);
            gram[(0, 0)] = weight_sum;
        }
        let p = x.ncols();
        Block {
            largest: x.as_slice().par_chunks(n.max(1)).map(largest).collect(),
            x: Arc::new(x),
            scalings,
            places,
            dropped,
            weight_sum,
            penalty: None,
            other: vec![0.0; n].into(),
            longest: OnceLock::new(),
            eta: vec![0.0; n].into(),
            spares: Spares::default(),
            passed: DVector::zeros(p),
            beta: DVector::zeros(p),
            gram,
            curvature: None,
            curvatures: 0,
            known: None,
            tables: None,
            across: Across { cross: DVector::zeros(p), loss: 0.0 },
            outcome,
        }
    }

    /// The same columns and outcome for another fit, which begins at nothing. They are not copied but for the outcome; a fit that
    /// exchanges tables has no vectors of predictions.
    pub fn beside(&self, by_tables: bool) -> Block {
        let (p, rows) = (self.columns(), if by_tables { 0 } else { self.rows() });
        Block {
            x: Arc::clone(&self.x),
            scalings: self.scalings.clone(),
            places: self.places.clone(),
            dropped: self.dropped.clone(),
            outcome: self.outcome.clone(),
            weight_sum: self.weight_sum,
            penalty: None,
            other: vec![0.0; rows].into(),
            largest: self.largest.clone(),
            longest: self.longest.clone(),
            eta: vec![0.0; rows].into(),
            spares: Spares::default(),
            passed: DVector::zeros(p),
            beta: DVector::zeros(p),
            gram: self.gram.clone(),
            curvature: None,
            curvatures: 0,
            known: None,
            tables: None,
            across: Across { cross: DVector::zeros(p), loss: 0.0 },
        }
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.x.nrows()
    }

    /// Columns that take part, the intercept included.
    pub fn columns(&self) -> usize {
        self.x.ncols()
    }

    /// Whether this block holds the intercept.
    pub fn has_intercept(&self) -> bool {
        self.places.first() == Some(&None)
    }

    /// For each column, its place among the party's terms; `None` for the intercept.
    pub fn places(&self) -> &[Option<usize>] {
        &self.places
    }

    /// The terms that were set aside, by place.
    pub fn dropped(&self) -> &[usize] {
        &self.dropped
    }

    /// How the columns were scaled.
    pub fn scalings(&self) -> &[Scaling] {
        &self.scalings
    }

    /// The columns on the inner scale, `n x p`.
    pub fn matrix(&self) -> &DMatrix<f64> {
        &self.x
    }

    /// Gives the columns on the inner scale away; the block has no rows and no columns afterwards.
    pub fn take_matrix(&mut self) -> DMatrix<f64> {
        Arc::unwrap_or_clone(std::mem::replace(&mut self.x, Arc::new(DMatrix::zeros(0, 0))))
    }

    /// One column on the inner scale.
    pub fn column(&self, j: usize) -> &[f64] {
        column(&self.x, j, 0, self.rows())
    }

    /// `eta = X[start.., ..] beta` for as many rows as `eta` holds.
    pub fn multiply(&self, start: usize, beta: &[f64], eta: &mut [f64]) {
        kernels::combine(&beta[..self.columns()], |j| &self.column(j)[start..], eta);
    }

    /// `X' v`.
    pub fn products(&self, v: &[f64]) -> Vec<f64> {
        let mut sums = vec![Lanes::default(); self.columns()];
        // Each thread takes some columns, so that every sum goes from the first row to the last.
        sums.par_chunks_mut(COLUMNS).enumerate().for_each(|(part, sums)| {
            for (block, v) in v.chunks(BLOCK_ROWS).enumerate() {
                kernels::inner(sums, |j| &self.column(part * COLUMNS + j)[block * BLOCK_ROWS..], v);
            }
        });
        sums.iter().map(Lanes::sum).collect()
    }

    /// No farther than this any own prediction moves by a step: by the largest value of each column and, where that is more than `enough`,
    /// by the largest row (Cauchy and Schwarz).
    pub(super) fn furthest(&self, step: &[f64], enough: f64) -> f64 {
        let by_columns = step.iter().zip(&self.largest).map(|(step, largest)| step.abs() * largest).sum();
        if by_columns <= enough {
            return by_columns;
        }
        let norm = step.iter().map(|step| step * step).sum::<f64>().sqrt();
        (norm * self.longest.get_or_init(|| self.longest_row())).min(by_columns)
    }

    fn longest_row(&self) -> f64 {
        let starts: Vec<usize> = (0..self.rows()).step_by(BLOCK_ROWS).collect();
        let of_block = |start: usize| {
            let mut squares = [0.0; BLOCK_ROWS];
            let squares = &mut squares[..BLOCK_ROWS.min(self.rows() - start)];
            (0..self.columns()).for_each(|j| kernels::add_squares(&self.column(j)[start..], squares));
            squares.iter().fold(0.0, |most: f64, sum| most.max(*sum))
        };
        starts.into_par_iter().map(of_block).reduce(|| 0.0, f64::max).sqrt()
    }

    /// The outcome as this party sees it.
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// Sum of the case weights, or the number of rows.
    pub fn weight_sum(&self) -> f64 {
        self.weight_sum
    }

    /// Coefficients on the inner scale.
    pub fn beta(&self) -> &DVector<f64> {
        &self.beta
    }

    /// The partner's predictions that were taken in last.
    pub fn other(&self) -> &[f64] {
        &self.other
    }

    /// Sets columns aside that depend on the partner's, by position among the kept ones.
    pub fn drop_columns(&mut self, positions: &[usize]) {
        let kept: Vec<usize> = (0..self.columns()).filter(|j| !positions.contains(j)).collect();
        self.dropped.extend(positions.iter().filter_map(|j| self.places[*j]));
        self.dropped.sort_unstable();
        self.x = Arc::new(self.x.select_columns(&kept));
        self.largest = kept.iter().map(|j| self.largest[*j]).collect();
        self.beta = self.beta.select_rows(&kept);
        self.scalings = kept.iter().map(|j| self.scalings[*j]).collect();
        self.places = kept.iter().map(|j| self.places[*j]).collect();
        self.gram = self.gram.select_rows(&kept).select_columns(&kept);
        self.penalty = self.penalty.take().map(|penalty| penalty.select(&kept));
        (self.curvature, self.known) = (None, None);
        let beta = self.beta.clone();
        self.predict(&beta);
    }

    /// Measures the outcome's spread, the unit of the stopping rule: about its mean with an intercept, about zero
    /// without, after the offset for gaussian. A constant outcome gets spread 1.
    pub fn measure_spread(&mut self, intercept: bool) {
        let Outcome { family, y, weights, offset, .. } = &self.outcome;
        let value = |row: usize| {
            let offset =
                if *family == Family::Gaussian { offset.as_ref().map_or(0.0, |offset| offset[row]) } else { 0.0 };
            y[row] - offset
        };
        let weight = |row: usize| weights.as_ref().map_or(1.0, |weights| weights[row]);
        let rows = y.len();
        let mean = if intercept { (0..rows).map(|i| weight(i) * value(i)).sum::<f64>() / self.weight_sum } else { 0.0 };
        let squares: f64 = (0..rows).map(|i| weight(i) * (value(i) - mean).powi(2)).sum();
        let spread = (squares / self.weight_sum).sqrt();
        self.outcome.spread = if spread > 0.0 { spread } else { 1.0 };
    }

    /// The intercept of the null model, by Newton steps; 0 for a model without one.
    pub fn null_intercept(&self, intercept: bool) -> f64 {
        if !intercept {
            return 0.0;
        }
        let Outcome { family, y, weights, offset: offsets, .. } = &self.outcome;
        let weight = |row: usize| weights.as_ref().map_or(1.0, |weights| weights[row]);
        let offset = |row: usize| offsets.as_ref().map_or(0.0, |offset| offset[row]);
        let rows = 0..y.len();
        let mean = rows.clone().map(|i| weight(i) * y[i]).sum::<f64>() / self.weight_sum;
        let mean_offset = rows.clone().map(|i| weight(i) * offset(i)).sum::<f64>() / self.weight_sum;
        let mut intercept = match family {
            Family::Gaussian => return mean - mean_offset,
            // An outcome that is all 0 or all 1 has no finite intercept; the clamp is far beyond any that fits.
            Family::Binomial => family.linear(mean.clamp(1e-15, 1.0 - 1e-15)) - mean_offset,
            Family::Poisson => {
                // In units of the largest, so that an exponential neither overflows nor vanishes.
                let counted = || rows.clone().filter(|i| weight(*i) > 0.0);
                let largest = counted().map(offset).fold(f64::NEG_INFINITY, f64::max);
                let exposure =
                    counted().map(|i| weight(i) * (offset(i) - largest).exp()).sum::<f64>() / self.weight_sum;
                return family.linear(mean.max(1e-300)) - largest - exposure.ln();
            }
        };
        // Without an offset the mean is the null model's.
        if offsets.is_none() {
            return intercept;
        }
        for _ in 0..100 {
            let starts: Vec<usize> = (0..y.len()).step_by(BLOCK_ROWS).collect();
            let parts: Vec<(f64, f64)> = starts
                .into_par_iter()
                .map(|start| {
                    (start..y.len().min(start + BLOCK_ROWS)).fold((0.0, 0.0), |(score, information), i| {
                        let eta = intercept + offset(i);
                        let score = score + weight(i) * (y[i] - family.mean(eta));
                        (score, information + weight(i) * family.variance(eta))
                    })
                })
                .collect();
            let (score, information) = parts.into_iter().fold((0.0, 0.0), |sum, part| (sum.0 + part.0, sum.1 + part.1));
            let step = (score / information.max(f64::MIN_POSITIVE)).clamp(-2.0, 2.0);
            intercept += step;
            // The error of the next point is of the order of the step's square, and this is far below rounding.
            if step.abs() <= 1e-9 * intercept.abs().max(1.0) {
                break;
            }
        }
        intercept
    }

    /// Twice the loss of the null model above that of a perfect fit.
    pub fn null_deviance(&self, intercept: bool) -> f64 {
        let constant = self.null_intercept(intercept);
        let Outcome { family, y, offset, .. } = &self.outcome;
        match (family, offset) {
            (Family::Gaussian, _) | (_, Some(_)) => self.weighted_sum(|i| {
                let eta = constant + offset.as_ref().map_or(0.0, |offset| offset[i]);
                2.0 * (family.at(y[i], eta).loss - family.saturated(y[i]))
            }),
            // A loss is a term of the linear predictor alone and one in which it is multiplied with the outcome.
            (Family::Binomial | Family::Poisson, None) => {
                let alone = family.at(0.0, constant).loss;
                self.weighted_sum(|i| 2.0 * (alone - y[i] * constant - family.saturated(y[i])))
            }
        }
    }

    /// Twice the loss of the present predictions above that of a perfect fit.
    pub fn deviance(&self) -> f64 {
        let Outcome { family, y, .. } = &self.outcome;
        let terms = |rows: Range<usize>, predictors: &mut [f64], terms: &mut [f64]| {
            family.at_rows(&y[rows.clone()], predictors, &mut vec![0.0; rows.len()], terms);
            terms.iter_mut().zip(&y[rows]).for_each(|(term, y)| *term = 2.0 * (*term - family.saturated(*y)));
        };
        self.weighted_sum_of_rows(terms).max(0.0)
    }

    /// Pearson's chi-square of the present predictions: the squares of the residuals over the variances that the family states.
    pub fn pearson(&self) -> f64 {
        let Outcome { family, y, .. } = &self.outcome;
        self.weighted_sum_of_rows(|rows, predictors, terms| {
            family.at_rows(&y[rows.clone()], predictors, terms, &mut vec![0.0; rows.len()]);
            family.variances(predictors);
            for ((term, y), variance) in terms.iter_mut().zip(&y[rows]).zip(&*predictors) {
                let residual = y - *term;
                // Where mean and variance are zero in double precision, so is the residual of an outcome of zero.
                *term = if residual == 0.0 { 0.0 } else { residual * residual / variance };
            }
        })
    }

    /// A sum over rows of what `of` makes of some of them at a time: from their predictors, whose memory it may use, into the terms.
    fn weighted_sum_of_rows(&self, of: impl Fn(Range<usize>, &mut [f64], &mut [f64]) + Sync) -> f64 {
        let mut terms = vec![0.0; self.rows()];
        terms.par_chunks_mut(STRIP_ROWS).enumerate().for_each(|(part, terms)| {
            let rows = part * STRIP_ROWS..part * STRIP_ROWS + terms.len();
            let mut predictors = self.predictor_at(rows.clone());
            of(rows.clone(), &mut predictors, terms);
            if let Some(weights) = &self.outcome.weights {
                let weighted = terms.iter_mut().zip(&weights[rows]);
                weighted.for_each(|(term, weight)| *term = if *weight > 0.0 { weight * *term } else { 0.0 });
            }
        });
        terms.into_iter().sum()
    }

    fn weighted_sum(&self, of: impl Fn(usize) -> f64 + Sync) -> f64 {
        let weight = |row: usize| self.outcome.weights.as_ref().map_or(1.0, |weights| weights[row]);
        rows::ordered_sum(self.rows(), |i| if weight(i) > 0.0 { weight(i) * of(i) } else { 0.0 })
    }

    /// The error of the present predictions on rows that did not take part: squared error for gaussian, deviance
    /// otherwise, weighted mean. Probabilities are kept 1e-5 away from 0 and 1, as cv.glmnet does.
    pub fn held_out_error(&self, weights: impl Fn(usize) -> f64) -> f64 {
        let Outcome { family, y, .. } = &self.outcome;
        let (mut error, mut sum) = (0.0, 0.0);
        for i in 0..self.rows() {
            let weight = weights(i);
            if weight > 0.0 {
                let mut eta = self.predictor(i);
                if *family == Family::Binomial {
                    let limit = family.linear(1.0 - 1e-5);
                    eta = eta.clamp(-limit, limit);
                }
                error += weight * 2.0 * (family.at(y[i], eta).loss - family.saturated(y[i]));
                sum += weight;
            }
        }
        error / sum
    }

    /// `X' W t` and `t' W t` for the outcome `t` less its offset and a centre.
    pub fn outcome_products(&self, centre: f64) -> (DVector<f64>, f64) {
        let target: Vec<f64> = (0..self.rows()).map(|row| self.centred_outcome(row, centre)).collect();
        let weights = &self.outcome.weights;
        let weighted: Vec<f64> = match weights {
            None => target.clone(),
            Some(weights) => target.iter().zip(weights).map(|(y, w)| y * w).collect(),
        };
        let score = DVector::from_fn(self.columns(), |j, _| dot(column(&self.x, j, 0, self.rows()), &weighted));
        (score, dot(&target, &weighted))
    }

    /// The outcome of a row less its offset and a centre.
    pub fn centred_outcome(&self, row: usize, centre: f64) -> f64 {
        let Outcome { y, offset, .. } = &self.outcome;
        y[row] - offset.as_ref().map_or(0.0, |offset| offset[row]) - centre
    }

    /// What to send for the null model.
    pub fn null_outgoing(&mut self) -> Values {
        let mut beta = DVector::zeros(self.columns());
        if self.has_intercept() {
            beta[0] = self.null_intercept(true);
        }
        self.predict(&beta)
    }

    /// Takes the outcome's spread from the party that holds the outcome.
    pub fn set_spread(&mut self, spread: f64) {
        self.outcome.spread = spread;
    }

    /// Takes over a vector that only the partner held.
    pub fn receive_outcome(&mut self, y: Vec<f64>) {
        self.outcome.y = y;
    }

    /// Takes over an offset that only the partner held.
    pub fn receive_offset(&mut self, offset: Vec<f64>) {
        self.outcome.offset = Some(offset);
    }

    /// Sets what the own predictions contain beside the columns when they leave.
    pub fn hide(&mut self, hidden: Option<Vec<f64>>) {
        self.outcome.hidden = hidden;
    }

    /// Per column, its standard deviation about its mean under the present weights; 0 for the intercept. These are the
    /// units in which a penalty standardises the column.
    pub fn units(&self) -> Vec<f64> {
        let weights = self.outcome.weights.as_deref();
        (0..self.columns())
            .map(|j| {
                if self.places[j].is_none() {
                    return 0.0;
                }
                let column = column(&self.x, j, 0, self.rows());
                let mean = match weights {
                    None => column.iter().sum::<f64>(),
                    Some(weights) => dot(column, weights),
                } / self.weight_sum;
                (self.gram[(j, j)] / self.weight_sum - mean * mean).max(0.0).sqrt()
            })
            .collect()
    }

    /// Changes the case weights, as the folds of cross-validation do; scaling stays.
    pub fn reweight(&mut self, weights: Option<Vec<f64>>, spread: f64) {
        self.weight_sum = weights.as_ref().map_or(self.rows() as f64, |weights| weights.iter().sum());
        self.outcome.weights = weights;
        self.outcome.spread = spread;
        self.gram = linalg::gram(&self.x, self.outcome.weights.as_deref());
        (self.curvature, self.known) = (None, None);
    }

    /// Sets the penalty of the fits to come.
    pub fn penalise(&mut self, penalty: Option<Penalty>) {
        self.penalty = penalty;
        self.curvature = None;
    }

    /// From now on exchanges tables instead of rows; the partner's side starts at zero.
    pub fn tabulate(&mut self, tables: Tables) {
        self.across = Across { cross: DVector::zeros(self.columns()), loss: 0.0 };
        self.tables = Some(tables);
    }

    /// How many numbers stand for the predictions in an exchange.
    pub fn exchanged(&self) -> usize {
        self.tables.as_ref().map_or(self.rows(), |tables| tables.to_peer.nrows())
    }

    /// Takes the partner's predictions in, and gives those before them back; an empty vector stands for zeros. `loss` counts in table
    /// form only.
    pub fn take(&mut self, other: impl Into<Values>, loss: f64) -> Values {
        let (other, last) = (other.into(), self.other.clone());
        match &self.tables {
            None if other.is_empty() => self.other = vec![0.0; self.rows()].into(),
            None => self.other = other,
            Some(_) if other.is_empty() => self.across = Across { cross: DVector::zeros(self.columns()), loss: 0.0 },
            Some(tables) => {
                self.across = Across { cross: &tables.from_peer * DVector::from_column_slice(&other), loss }
            }
        }
        last
    }

    /// What the predictions at `beta` alone add to the loss in table form.
    pub fn own_loss(&self, beta: &DVector<f64>) -> f64 {
        self.tables.as_ref().map_or(0.0, |tables| 0.5 * (&self.gram * beta).dot(beta) - tables.score.dot(beta))
    }

    /// Sets the coefficients.
    pub fn place(&mut self, beta: DVector<f64>) {
        self.beta = beta;
    }

    /// Own predictions at some coefficients, and the values to send for them.
    pub fn predict(&mut self, beta: &DVector<f64>) -> Values {
        // They are known where the last pass was there.
        if self.passed != *beta {
            self.predict_beside(beta, &mut [], |_, _, _| {});
        }
        self.outgoing()
    }

    /// Own predictions at some coefficients, and in the same sweep what further ones give of the own columns, with what `more` adds to
    /// some rows of it, by place and first row.
    pub fn predict_beside(
        &mut self,
        beta: &DVector<f64>,
        further: &mut [(&DVector<f64>, &mut [f64])],
        more: impl Fn(usize, usize, &mut [f64]) + Sync,
    ) {
        self.passed = beta.clone();
        if self.tables.is_some() {
            return;
        }
        let Block { x, eta, spares, .. } = self;
        spares.renew(eta);
        let height = if further.is_empty() { STRIP_ROWS } else { SWEPT_ROWS };
        let mut strips: Vec<_> = eta.chunks_mut(height).map(|eta| (eta, Vec::new())).collect();
        for (coefficients, values) in further {
            let parts = values.chunks_mut(height).zip(&mut strips);
            parts.for_each(|(part, (_, further))| further.push((coefficients.as_slice(), part)));
        }
        strips.into_par_iter().enumerate().for_each(|(part, (eta, mut further))| {
            let (start, rows) = (part * height, eta.len());
            let column = |j| column(x, j, start, rows);
            let further_ones = further.iter_mut().map(|(coefficients, values)| (*coefficients, &mut **values));
            let mut all: Vec<(&[f64], &mut [f64])> =
                std::iter::once((beta.as_slice(), eta)).chain(further_ones).collect();
            all.iter_mut().for_each(|(_, values)| values.fill(0.0));
            kernels::add_to_each(&mut all, column);
            further.into_iter().enumerate().for_each(|(place, (_, values))| more(place, start, values));
        });
    }

    /// What to send for the predictions of the last pass.
    pub fn outgoing(&mut self) -> Values {
        let Block { tables, outcome, eta, spares, passed, .. } = self;
        match (tables, &outcome.hidden) {
            (Some(tables), _) => (&tables.to_peer * &*passed).as_slice().to_vec().into(),
            (None, None) => eta.clone(),
            (None, Some(hidden)) => {
                let mut sum = spares.take(eta.len());
                rows::fill(&mut sum, |row| eta[row] + hidden[row]);
                spares.keep(sum.clone());
                sum
            }
        }
    }

    /// Sweeps over the rows once: predictions, gradient and loss at `beta`, with the partner's predictions as offset.
    pub fn pass(&mut self, beta: &DVector<f64>) -> Pass {
        let known = self.passed == *beta;
        self.passed = beta.clone();
        if let Some(tables) = &self.tables {
            return Pass {
                gradient: &tables.score - &self.gram * beta - &self.across.cross,
                loss: 0.5 * tables.total + self.own_loss(beta) + self.across.loss + self.across.cross.dot(beta),
            };
        }
        let Block { x, outcome, other, eta, spares, .. } = self;
        let sums = |part: usize, eta: &[f64]| {
            let (start, rows) = (part * STRIP_ROWS, eta.len());
            let mut values = [0.0; STRIP_ROWS];
            let values = &mut values[..rows];
            outcome.predictor(start, eta, other, values);
            Strip::new(outcome, start, values, (beta.len(), |j| column(x, j, start, rows)), &[])
        };
        let strips: Vec<Strip> = match known {
            true => eta.par_chunks(STRIP_ROWS).enumerate().map(|(part, eta)| sums(part, eta)).collect(),
            false => {
                spares.renew(eta);
                let strips = eta.par_chunks_mut(STRIP_ROWS).enumerate();
                let summed = strips.map(|(part, eta)| {
                    let (start, rows) = (part * STRIP_ROWS, eta.len());
                    kernels::combine(beta.as_slice(), |j| column(x, j, start, rows), eta);
                    sums(part, eta)
                });
                summed.collect()
            }
        };
        let scores = Strip::sum(strips, beta.len(), 0.0);
        Pass { gradient: scores.gradient, loss: scores.loss }
    }

    /// The joint linear predictor of a row at the predictions of the last pass.
    pub fn predictor(&self, row: usize) -> f64 {
        self.eta[row] + self.other[row] + self.outcome.offset.as_ref().map_or(0.0, |offset| offset[row])
    }

    /// The joint linear predictors of all rows at the predictions of the last pass.
    pub fn predictors(&self) -> Vec<f64> {
        let mut predictors = vec![0.0; self.rows()];
        rows::fill(&mut predictors, |row| self.predictor(row));
        predictors
    }

    /// The same of some rows.
    fn predictor_at(&self, rows: Range<usize>) -> Vec<f64> {
        let mut values = vec![0.0; rows.len()];
        self.predictor_of(rows.start, &mut values);
        values
    }

    /// The same in place.
    pub fn predictor_of(&self, start: usize, values: &mut [f64]) {
        self.outcome.predictor(start, &self.eta[start..start + values.len()], &self.other, values);
    }

    /// Working weights at the predictions of the last pass: prior weight times variance.
    pub fn working_weights(&self) -> Vec<f64> {
        let mut values = vec![0.0; self.rows()];
        values.par_chunks_mut(STRIP_ROWS).enumerate().for_each(|(part, values)| {
            let start = part * STRIP_ROWS;
            self.predictor_of(start, values);
            self.outcome.working_weights(start, values);
        });
        values
    }

    /// The same to divide residuals by: no row that counts has none.
    pub fn weights_to_divide_by(&self) -> Vec<f64> {
        let mut values = self.predictors();
        values.par_chunks_mut(STRIP_ROWS).enumerate().for_each(|(part, values)| {
            self.outcome.weights_to_divide_by(part * STRIP_ROWS, values);
        });
        values
    }

    /// Working weights and working residuals at some linear predictors.
    pub fn working_at(&self, mut predictors: Vec<f64>) -> (Vec<f64>, Vec<f64>) {
        let mut residuals = predictors.clone();
        let strips = predictors.par_chunks_mut(STRIP_ROWS).zip(residuals.par_chunks_mut(STRIP_ROWS)).enumerate();
        strips.for_each(|(part, (weights, residuals))| {
            self.outcome.weights_to_divide_by(part * STRIP_ROWS, weights);
            self.outcome.residuals(part * STRIP_ROWS, residuals);
            let rows = residuals.iter_mut().zip(&*weights);
            rows.for_each(|(residual, weight)| *residual = if *weight > 0.0 { *residual / weight.sqrt() } else { 0.0 });
        });
        (predictors, residuals)
    }

    /// One for each row that counts, zero for others.
    pub fn counted(&self) -> Vec<f64> {
        match &self.outcome.weights {
            Some(weights) => weights.iter().map(|weight| f64::from(u8::from(*weight > 0.0))).collect(),
            None => vec![1.0; self.rows()],
        }
    }

    /// Cross-products of the columns but the intercept's under the working weights, about their weighted means where `centre`.
    pub fn working_products(&self, centre: bool) -> DMatrix<f64> {
        let first = usize::from(self.has_intercept());
        let slopes = |matrix: &DMatrix<f64>| {
            matrix.view((first, first), (self.columns() - first, self.columns() - first)).into_owned()
        };
        if self.outcome.family == Family::Gaussian {
            // Under the prior weights, about whose means the columns are already.
            return slopes(&self.gram);
        }
        let weights = self.working_weights();
        let mut products = slopes(&linalg::gram(&self.x, Some(&weights)));
        if centre {
            let sums = DVector::from_vec(self.products(&weights).split_off(first));
            products.ger(-1.0 / weights.iter().sum::<f64>(), &sums, &sums, 1.0);
        }
        products
    }

    /// Weighted residuals `W (y - mean)` at the predictions of the last pass.
    pub fn residuals(&self) -> Vec<f64> {
        let Outcome { family, y, weights, .. } = &self.outcome;
        let mut residuals = vec![0.0; self.rows()];
        residuals.par_chunks_mut(STRIP_ROWS).enumerate().for_each(|(part, residuals)| {
            let rows = part * STRIP_ROWS..part * STRIP_ROWS + residuals.len();
            let totals = self.predictor_at(rows.clone());
            family.at_rows(&y[rows.clone()], &totals, residuals, &mut vec![0.0; totals.len()]);
            for (residual, row) in residuals.iter_mut().zip(rows) {
                let weight = weights.as_ref().map_or(1.0, |weights| weights[row]);
                *residual = if weight == 0.0 { 0.0 } else { weight * (y[row] - *residual) };
            }
        });
        residuals
    }

    /// The penalty of this block at some coefficients, times the sum of the weights.
    pub fn penalty_at(&self, beta: &DVector<f64>) -> f64 {
        self.penalty.as_ref().map_or(0.0, |penalty| self.weight_sum * penalty.at(beta))
    }

    /// The largest scaled gradient of the block, or violation of its optimality conditions under a penalty.
    ///
    /// `max_j |x_j' W (y - mean)| / (|x_j| |y - ybar|)`, which on the inner scale is a mean over rows divided by the
    /// outcome's spread.
    pub fn certificate(&self, gradient: &DVector<f64>, beta: &DVector<f64>) -> f64 {
        let worst = match &self.penalty {
            None => gradient.amax() / self.weight_sum,
            Some(penalty) => penalty.violation(&(gradient / self.weight_sum), beta),
        };
        if self.columns() == 0 { 0.0 } else { worst / self.outcome.spread }
    }

    /// The size below which a coefficient counts as zero when its change is judged: a tenth of a rough standard error.
    pub fn change_floor(&self) -> f64 {
        let spread = self.outcome.spread;
        let unit = if self.outcome.family == Family::Gaussian { spread } else { 1.0 / spread };
        0.1 * unit / self.weight_sum.sqrt()
    }

    /// The largest relative change between two points.
    pub fn change(&self, from: &DVector<f64>, to: &DVector<f64>) -> f64 {
        let floor = self.change_floor();
        from.iter().zip(to.iter()).map(|(a, b)| (a - b).abs() / a.abs().max(b.abs()).max(floor)).fold(0.0, f64::max)
    }

    /// `X' W X` with the prior weights, on the inner scale.
    pub fn gram(&self) -> &DMatrix<f64> {
        &self.gram
    }
}

/// Columns whose products with a vector one thread takes together.
const COLUMNS: usize = 8;

fn column(x: &DMatrix<f64>, j: usize, start: usize, rows: usize) -> &[f64] {
    let n = x.nrows();
    &x.as_slice()[j * n + start..j * n + start + rows]
}

fn independent(x: &DMatrix<f64>, gram: &DMatrix<f64>, weights: Option<&[f64]>, scalings: &[Scaling]) -> Vec<usize> {
    let all = 0..scalings.len();
    let live = all.clone().all(|j| scalings[j].scale > 0.0);
    // The Gram matrix settles the ordinary case at a tenth of the price.
    if live && Definite::from_gram(gram).is_some_and(|definite| definite.pivot_ratio() > 1e-4) {
        return all.collect();
    }
    let mut factor = linalg::weighted_factor(x, weights);
    all.filter(|j| scalings[*j].scale == 0.0).for_each(|j| factor.column_mut(j).fill(0.0));
    linalg::independent_columns(&factor, None, 0, DEPENDENCE)
}
