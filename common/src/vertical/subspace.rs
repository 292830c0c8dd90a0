//! The leader's next point in an unpenalised fit: the minimum over its own coefficients and over every direction that
//! the partner has shown.
//!
//! What the partner sends are vectors in the column space of its block, so any combination of them is a point that the
//! partner could choose. The leader minimises the objective over its own coefficients and such combinations together,
//! and sends its part of the minimum; the partner's exact answer lowers the objective further and shows one more
//! direction. The objective therefore never rises, with no safeguard, and once the partner has shown as many directions
//! as it has columns the leader's minimum is the joint one.
//!
//! On gaussian data this takes as many rounds as Anderson extrapolation with full memory. On other families
//! extrapolation carries the curvature of early, distant points along and can stall for hundreds of rounds on blocks
//! that are strongly correlated; directions do not age. It needs one vector of the length of the data for each round,
//! at most as many as the partner has columns.

use std::borrow::Cow;

use nalgebra::DVector;
use rayon::prelude::*;

use super::block::Block;
use crate::glm::Family;
use crate::linalg::{self, BLOCK_ROWS, Definite};

/// A vector adds a direction when this share of it lies outside the directions shown before.
const NOVELTY: f64 = 1e-8;

/// Steps of one minimisation; the next round goes on from wherever they end.
const MAX_STEPS: usize = 12;

/// The directions that the partner has shown.
pub struct Shown {
    /// What the first vector held that is not the partner's block: subtracted from all of them.
    base: Option<Vec<f64>>,
    subtract_first: bool,
    directions: Vec<Direction>,
    own: Option<Definite>,
}

/// A direction beyond the own columns and the directions before it, mean square 1: a combination of what the partner
/// sent, less `X own`.
struct Direction {
    values: Vec<f64>,
    /// Weighted sum of squares.
    squares: f64,
    own: DVector<f64>,
}

/// A vector in terms of own columns and directions.
struct Place {
    own: DVector<f64>,
    along: DVector<f64>,
}

struct Sweep {
    gradient: DVector<f64>,
    loss: f64,
}

impl Shown {
    /// `subtract_first` where the partner's vectors carry a term that is not its own to vary: an outcome or an offset
    /// that it holds alone.
    pub fn new(subtract_first: bool) -> Shown {
        Shown { base: None, subtract_first, directions: Vec::new(), own: None }
    }

    /// Takes a vector in, and says where it lies.
    ///
    /// Own columns are taken out of a new direction, so that the two together stay well conditioned however close the
    /// parties' columns are; what was taken out is remembered, since only the rest of a direction plus that is
    /// something the partner can choose.
    fn take(&mut self, block: &Block, mut vector: Vec<f64>) -> Place {
        let mut place = Place { own: DVector::zeros(block.columns()), along: DVector::zeros(self.directions.len()) };
        if self.subtract_first {
            match &self.base {
                None => {
                    self.base = Some(vector);
                    return place;
                }
                Some(base) => vector.iter_mut().zip(base).for_each(|(v, base)| *v -= base),
            }
        }
        let metric = self.own.get_or_insert_with(|| {
            Definite::from_gram(block.gram()).unwrap_or_else(|| Definite::from_gram_lifted(block.gram()))
        });
        let weights = block.outcome().weights.as_deref();
        let length = squares(&vector).sqrt();
        for _ in 0..2 {
            let share = metric.solve(&DVector::from_vec(block.products(&weighted(&vector, weights))));
            block.subtract(&share, &mut vector);
            place.own += share;
            for (at, direction) in self.directions.iter().enumerate() {
                let share = product(&direction.values, &weighted(&vector, weights)) / direction.squares;
                vector.par_iter_mut().zip(&direction.values).for_each(|(v, d)| *v -= share * d);
                place.along[at] += share;
            }
        }
        let rest = squares(&vector).sqrt();
        if rest > NOVELTY * length {
            let unit = (vector.len() as f64).sqrt() / rest;
            vector.par_iter_mut().for_each(|v| *v *= unit);
            let mut own = place.own.clone();
            for (direction, along) in self.directions.iter().zip(place.along.iter()) {
                own.axpy(-along, &direction.own, 1.0);
            }
            let squares = product(&vector, &weighted(&vector, weights));
            self.directions.push(Direction { values: vector, squares, own: own * unit });
            place.along = place.along.push(1.0 / unit);
        }
        place
    }

    /// What the directions at these coordinates hold beyond combinations of what the partner sent.
    fn taken_out(&self, along: &[f64], columns: usize) -> DVector<f64> {
        let mut sum = DVector::zeros(columns);
        self.directions.iter().zip(along).for_each(|(direction, along)| sum.axpy(*along, &direction.own, 1.0));
        sum
    }

    /// The leader's part of the minimum, from the point of the last exchange.
    pub fn minimise(&mut self, block: &mut Block, vector: &[f64], tol: f64) -> DVector<f64> {
        let p = block.columns();
        let place = self.take(block, vector.to_vec());
        // Where columns of the two depend on each other, a part of the partner's vector lies in the own columns and in no
        // direction. It stays where it is: along it nothing can be gained.
        let shared = &place.own - self.taken_out(place.along.as_slice(), p);
        let mut point = DVector::zeros(p + place.along.len());
        point.rows_mut(0, p).copy_from(&(block.beta() + &place.own));
        point.rows_mut(p, place.along.len()).copy_from(&place.along);
        let mut sweep = self.sweep(block, &point);
        let mut hessian: Option<(Definite, Vec<usize>)> = None;
        for round in 0..MAX_STEPS {
            let steepness = self.steepness(block, &sweep.gradient);
            // One step is always taken: a gradient says nothing about how far a flat valley goes on.
            if round > 0 && !(steepness > tol) {
                break;
            }
            let Some((definite, kept)) = hessian.take().or_else(|| self.curvature(block, &point)) else {
                break;
            };
            let mut step = DVector::zeros(point.len());
            let solved = definite.solve(&sweep.gradient.select_rows(&kept));
            kept.iter().zip(solved.iter()).for_each(|(at, value)| step[*at] = *value);
            let slack = 1e-13 * sweep.loss.abs();
            let mut length = 1.0;
            let next = loop {
                let next = &point + &step * length;
                let next_sweep = self.sweep(block, &next);
                if next_sweep.loss <= sweep.loss + slack {
                    break Some((next, next_sweep));
                }
                length *= 0.5;
                if length < 1e-6 {
                    break None;
                }
            };
            let Some((next, next_sweep)) = next else { break };
            let gain = self.steepness(block, &next_sweep.gradient) / steepness;
            (point, sweep) = (next, next_sweep);
            if gain > 0.5 && round > 1 {
                break;
            }
            // A second derivative that still gains digits quickly is worth another sweep.
            hessian = (gain < 0.05).then_some((definite, kept));
        }
        point.rows(0, p) - self.taken_out(point.rows(p, point.len() - p).as_slice(), p) - shared
    }

    fn steepness(&self, block: &Block, gradient: &DVector<f64>) -> f64 {
        gradient.amax() / (block.weight_sum() * block.outcome().spread)
    }

    fn predictor(&self, block: &Block, start: usize, point: &DVector<f64>, eta: &mut [f64]) {
        block.multiply(start, point.as_slice(), eta);
        for (direction, alpha) in self.directions.iter().zip(point.iter().skip(block.columns())) {
            eta.iter_mut().zip(&direction.values[start..]).for_each(|(eta, d)| *eta += alpha * d);
        }
        let add = |eta: &mut [f64], more: &[f64]| eta.iter_mut().zip(&more[start..]).for_each(|(eta, m)| *eta += m);
        if let Some(base) = &self.base {
            add(eta, base);
        }
        if let Some(offset) = &block.outcome().offset {
            add(eta, offset);
        }
    }

    fn sweep(&self, block: &Block, point: &DVector<f64>) -> Sweep {
        let (p, size) = (block.columns(), point.len());
        let outcome = block.outcome();
        let starts: Vec<usize> = (0..block.rows()).step_by(BLOCK_ROWS).collect();
        let parts: Vec<Sweep> = starts
            .into_par_iter()
            .map(|start| {
                let rows = BLOCK_ROWS.min(block.rows() - start);
                let mut values = [0.0; BLOCK_ROWS];
                let values = &mut values[..rows];
                self.predictor(block, start, point, values);
                let mut loss = 0.0;
                for (i, value) in values.iter_mut().enumerate() {
                    let weight = outcome.weights.as_ref().map_or(1.0, |weights| weights[start + i]);
                    if weight == 0.0 {
                        *value = 0.0;
                        continue;
                    }
                    let at = outcome.family.at(outcome.y[start + i], *value);
                    loss += weight * at.loss;
                    *value = weight * (outcome.y[start + i] - at.mean);
                }
                let gradient = DVector::from_fn(size, |j, _| {
                    if j < p {
                        block.product(j, start, values)
                    } else {
                        product(&self.directions[j - p].values[start..start + rows], values)
                    }
                });
                Sweep { gradient, loss }
            })
            .collect();
        parts.into_iter().fold(Sweep { gradient: DVector::zeros(size), loss: 0.0 }, |mut sum, part| {
            sum.gradient += part.gradient;
            sum.loss += part.loss;
            sum
        })
    }

    /// The second derivative, without directions that depend on the others: columns of the two parties may.
    fn curvature(&self, block: &Block, point: &DVector<f64>) -> Option<(Definite, Vec<usize>)> {
        let outcome = block.outcome();
        let p = block.columns();
        let size = point.len();
        if outcome.family == Family::Gaussian {
            // Directions are orthogonal to own columns and to each other in just this metric.
            let mut gram = block.gram().clone().resize(size, size, 0.0);
            self.directions.iter().enumerate().for_each(|(at, direction)| gram[(p + at, p + at)] = direction.squares);
            return Definite::from_gram_limited(&gram);
        }
        let gram = linalg::packed_gram(block.rows(), size, |rows, packed| {
            let mut roots = vec![0.0; rows.len()];
            self.predictor(block, rows.start, point, &mut roots);
            for (i, root) in roots.iter_mut().enumerate() {
                let weight = outcome.weights.as_ref().map_or(1.0, |weights| weights[rows.start + i]);
                *root = if weight == 0.0 { 0.0 } else { (weight * outcome.family.variance(*root)).sqrt() };
            }
            for j in 0..size {
                let column = if j < p { block.column(j) } else { &self.directions[j - p].values };
                packed.extend(column[rows.clone()].iter().zip(&roots).map(|(x, root)| x * root));
            }
        });
        Definite::from_gram_limited(&gram)
    }
}

fn weighted<'a>(vector: &'a [f64], weights: Option<&[f64]>) -> Cow<'a, [f64]> {
    match weights {
        None => Cow::Borrowed(vector),
        Some(weights) => Cow::Owned(vector.iter().zip(weights).map(|(v, w)| v * w).collect()),
    }
}

fn product(a: &[f64], b: &[f64]) -> f64 {
    a.par_chunks(BLOCK_ROWS)
        .zip(b.par_chunks(BLOCK_ROWS))
        .map(|(a, b)| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>())
        .collect::<Vec<f64>>()
        .into_iter()
        .sum()
}

fn squares(a: &[f64]) -> f64 {
    product(a, a)
}
