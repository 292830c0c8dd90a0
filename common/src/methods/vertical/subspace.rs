//! The leader's next point in an unpenalised fit: the minimum over its own coefficients and over every direction that
//! its partner, or each of several, has shown.
//!
//! What the partner sends are vectors in the column space of its block, so the difference of two of them is a direction
//! in which the partner could go. The leader minimises the objective over its own coefficients and such directions
//! together, and sends its part of the minimum; the partner's exact answer lowers the objective further and shows one
//! more direction. The objective therefore never rises, but by rounding of
//! the partner's predictions (see [`Shown::distrust`]), and once the partner has shown as many
//! directions as it has columns the leader's minimum is the joint one.
//!
//! Digits: the minimisation starts at the vector that came, not at its projection on the directions, and the partner's
//! answer is the minimum over its block, so that along each direction the gradient there is zero. What a computed
//! direction holds beyond the partner's space, rounding of a difference that became small, has a gradient that is not
//! zero; it is taken out. The fit then comes to rest at the joint minimum however inaccurate the directions are: they
//! decide how fast.
//!
//! On gaussian data this takes as many rounds as Anderson extrapolation with full memory. On other families
//! extrapolation carries the curvature of early, distant points along and can stall for hundreds of rounds on blocks
//! that are strongly correlated; directions do not age. It needs one vector of the length of the data for each round,
//! at most as many as the partner has columns.
//!
//! Several partners answer one after the other, each to the sum of all the rest. Before they do, the leader's minimum says where each
//! of them would go by the directions that it has shown; a partner is asked with the true answers of those before it, and with these
//! places of those after it. Each answer lowers the objective further, so that it never rises in this case either.

use std::borrow::Cow;
use std::ops::Range;

use nalgebra::{DMatrix, DVector};
use rayon::prelude::*;

use super::block::{Block, CLOSE, Estimates, LONGEST_STEP, NO_GAIN, Pass, WORTH_A_SWEEP};
use super::rows::{self, Scores, Strip};
use super::standardise::largest;
use crate::glm::Family;
use crate::linalg::kernels::{self, STRIP_ROWS, SWEPT_ROWS};
use crate::linalg::{self, Definite, SomeRows, Spares, Values};

/// A change adds a direction when this share of it lies outside own columns and the directions shown before: of a column
/// that depends on own ones only rounding does.
const NOVELTY: f64 = 1e-8;

/// And while at most this share of what is new is rounding.
const NOISE: f64 = 1e-3;

/// How far beyond its estimate rounding is allowed for.
const CAUTION: f64 = 8.0;

/// The ratio of pivots above which a step on a quadratic loss is not verified.
const EXACT: f64 = 1e-2;

/// The share of a change that must be left after own columns and directions were taken out, for this not to be done again.
const AGAIN: f64 = 1e-2;

/// The same where changes of several partners are taken at a time. What rounding then leaves of the rest shifts a minimum by a trillionth
/// of a step, which the next round takes back, and a sweep over all columns more is a tenth of a round.
const AGAIN_OF_SEVERAL: f64 = 1e-4;

/// A step by a second derivative of all rows leaves far less than what is asked; one by an estimate is asked for this share of it.
const SURE: f64 = 0.05;

/// Steps of one minimisation; the next round goes on from wherever they end.
const MAX_STEPS: usize = 12;

/// The directions that the partners have shown.
pub struct Shown {
    partners: Vec<Partner>,
    directions: Vec<Direction>,
    /// How many there were before the last vectors came.
    before: usize,
    /// No further ones are taken.
    closed: bool,
    own: Option<Definite>,
    /// For vectors of partners.
    /// Whether second derivatives are estimated: where that gained too little, it is not tried again.
    estimates: Estimates,
    spares: Spares,
}

struct Partner {
    /// Its last vector; none before one came whose difference to the next is the partner's to choose.
    last: Option<Values>,
    subtract_first: bool,
    /// As many directions as it has columns.
    most: usize,
}

/// A direction beyond the own columns and the directions before it, mean square 1: a combination of changes of what one partner
/// sent, which is its own to choose, less `X own` and less shares of directions of other partners.
struct Direction {
    /// Whose changes it is made of.
    partner: usize,
    values: Vec<f64>,
    /// The largest of them, in size.
    largest: f64,
    /// Weighted sum of squares.
    squares: f64,
    own: DVector<f64>,
    /// Directions of other partners, by place, and their shares.
    others: Vec<(usize, f64)>,
    /// How much of its length is rounding, estimated.
    noise: f64,
}

/// The change of a partner's vector, on its way to a direction.
struct Change {
    partner: usize,
    values: Vec<f64>,
    /// Its length at the beginning, and of what is left of it.
    length: f64,
    left: f64,
    /// The square of what of it may be rounding.
    noise: f64,
    /// What was taken out of it, of own columns beside those in directions of the same partner.
    own: DVector<f64>,
    /// The same of directions of other partners, by place.
    others: Vec<f64>,
}

/// The minimum over own coefficients and all directions.
pub struct Minimum {
    /// Own coefficients there.
    pub own: DVector<f64>,
    /// How far the second partner and those after it go from the vectors that they sent.
    later: Vec<Going>,
}

/// How far a partner goes from the vector that it sent: coefficients of own columns, and of directions.
struct Going {
    own: DVector<f64>,
    along: Vec<f64>,
}

/// The second derivative somewhere on the way of a minimisation.
struct Hessian {
    definite: Definite,
    /// The columns and directions that it is of.
    kept: Vec<usize>,
    /// Whether it is estimated from some of the rows.
    estimated: bool,
}

/// Where a minimisation starts: the present predictions, from which every step is counted.
struct Start {
    /// Joint linear predictor; none yet where the first step needs none.
    predictor: Vec<f64>,
    /// What is taken out of the gradient: along each direction, what rounding makes of zero.
    tilt: DVector<f64>,
}

impl Shown {
    /// For partners with these numbers of columns. `subtract_first` where their vectors carry a term that is not their own
    /// to vary: an outcome or an offset that a partner holds alone.
    pub fn new(most: &[usize], subtract_first: bool) -> Shown {
        let partner = |most: &usize| Partner { last: None, subtract_first, most: *most };
        Shown {
            partners: most.iter().map(partner).collect(),
            directions: Vec::new(),
            before: 0,
            closed: false,
            own: None,
            estimates: Estimates::default(),
            spares: Spares::default(),
        }
    }

    /// The objective rose, which it cannot do along directions that are the partners': the last ones are rounding of predictions whose
    /// terms are far larger than they are, as those of columns that nearly depend on each other. They are taken back, and no further
    /// ones are taken, since what comes now is smaller still.
    pub fn distrust(&mut self) {
        let last = self.directions.len().saturating_sub(1);
        self.directions.truncate(if self.closed { last } else { self.before });
        self.closed = true;
    }

    /// Takes vectors in, one of each partner: what is new in its change is one more direction.
    ///
    /// Own columns are taken out of a new direction, so that the two together stay well conditioned however close the
    /// parties' columns are; what was taken out is remembered, since only the rest of a direction plus that is
    /// something the partner can choose.
    pub fn take(&mut self, block: &Block, vectors: &[&Values]) {
        if self.closed {
            return;
        }
        self.before = self.directions.len();
        let changes = vectors.iter().enumerate();
        let mut new: Vec<Change> =
            changes.filter_map(|(partner, vector)| self.change(block.columns(), partner, vector)).collect();
        if new.is_empty() {
            return;
        }
        let metric = self.own.get_or_insert_with(|| {
            Definite::from_gram(block.gram()).unwrap_or_else(|| Definite::from_gram_lifted(block.gram()))
        });
        let metric = metric.clone();
        let again = if self.partners.len() > 1 { AGAIN_OF_SEVERAL } else { AGAIN };
        for _ in 0..2 {
            let products = self.products(block, &new);
            let shares: Vec<DVector<f64>> = products.iter().map(|products| self.shares(&metric, products)).collect();
            new.iter_mut().zip(&shares).for_each(|(change, shares)| self.note(change, shares));
            let before: Vec<f64> = new.iter().map(|change| change.left).collect();
            self.take_out(block, &mut new, &shares);
            // Once more where so little is left that rounding of what was taken out counts.
            if new.iter().zip(before).all(|(change, before)| change.left > again * before) {
                break;
            }
        }
        let known = self.directions.len();
        new.into_iter().for_each(|change| self.settle(block, change, known, again));
    }

    /// The change of a partner's vector, if it can hold a new direction.
    fn change(&mut self, columns: usize, partner: usize, vector: &Values) -> Option<Change> {
        let by = &mut self.partners[partner];
        let last = by.last.replace(vector.clone());
        if (last.is_none() && by.subtract_first)
            || self.directions.iter().filter(|direction| direction.partner == partner).count() >= by.most
        {
            return None;
        }
        let (values, length, whole) = new_in(vector, last);
        Some(Change {
            partner,
            values,
            length,
            left: length,
            noise: (f64::EPSILON * length.max(whole)).powi(2),
            own: DVector::zeros(columns),
            others: vec![0.0; self.directions.len()],
        })
    }

    /// What own columns and directions share with a vector, from its products with them: each for itself, as directions are orthogonal
    /// to own columns and to each other.
    fn shares(&self, metric: &Definite, products: &DVector<f64>) -> DVector<f64> {
        let columns = products.len() - self.directions.len();
        let mut shares = products.clone();
        shares.rows_mut(0, columns).copy_from(&metric.solve(&products.rows(0, columns).into_owned()));
        let along = shares.iter_mut().skip(columns).zip(&self.directions);
        along.for_each(|(share, direction)| *share /= direction.squares);
        shares
    }

    /// Remembers what is taken out of a change.
    fn note(&self, change: &mut Change, shares: &DVector<f64>) {
        let columns = change.own.len();
        change.own += shares.rows(0, columns);
        for (at, share) in shares.iter().skip(columns).enumerate() {
            self.note_share(change, at, *share);
        }
    }

    /// The same of one direction.
    fn note_share(&self, change: &mut Change, at: usize, share: f64) {
        let direction = &self.directions[at];
        if direction.partner == change.partner {
            change.own.axpy(-share, &direction.own, 1.0);
            direction.others.iter().for_each(|(other, part)| change.others[*other] -= share * part);
        } else {
            change.others[at] += share;
        }
        change.noise += (share * direction.noise).powi(2) * change.values.len() as f64;
    }

    /// The products of changes with own columns and directions, in one sweep.
    fn products(&self, block: &Block, new: &[Change]) -> Vec<DVector<f64>> {
        let (p, weights) = (block.columns(), block.outcome().weights.as_deref());
        let size = p + self.directions.len();
        let starts: Vec<usize> = (0..block.rows()).step_by(SWEPT_ROWS).collect();
        let products = |start: usize| -> Vec<Vec<f64>> {
            let rows = start..block.rows().min(start + SWEPT_ROWS);
            let column = |j: usize| self.column(block, j, start);
            let of = |change: &Change| {
                let values = weighted(&change.values[rows.clone()], weights.map(|weights| &weights[rows.clone()]));
                kernels::inner_of_blocks(size, column, &values)
            };
            new.iter().map(of).collect()
        };
        let parts: Vec<Vec<Vec<f64>>> = starts.into_par_iter().map(products).collect();
        let mut sums = vec![DVector::zeros(size); new.len()];
        for part in parts {
            for (sum, blocks) in sums.iter_mut().zip(part) {
                for block in blocks.chunks_exact(size.max(1)) {
                    sum.iter_mut().zip(block).for_each(|(sum, part)| *sum += part);
                }
            }
        }
        sums
    }

    /// Takes shares of own columns and directions out of changes, in one sweep, and measures what is left.
    fn take_out(&self, block: &Block, new: &mut [Change], shares: &[DVector<f64>]) {
        let negative: Vec<DVector<f64>> = shares.iter().map(|shares| -shares).collect();
        let squares: Vec<Vec<f64>> = strips(new)
            .into_par_iter()
            .enumerate()
            .map(|(part, strips)| {
                let column = |j: usize| self.column(block, j, part * SWEPT_ROWS);
                let mut strips: Vec<(&[f64], &mut [f64])> =
                    negative.iter().map(DVector::as_slice).zip(strips).collect();
                kernels::add_to_each(&mut strips, column);
                strips.iter().map(|(_, values)| kernels::dot(values, values)).collect()
            })
            .collect();
        for (at, change) in new.iter_mut().enumerate() {
            change.left = squares.iter().map(|squares| squares[at]).sum::<f64>().sqrt();
        }
    }

    /// Some rows of an own column, or after these of a direction.
    fn column<'a>(&'a self, block: &'a Block, j: usize, start: usize) -> &'a [f64] {
        match j.checked_sub(block.columns()) {
            None => &block.column(j)[start..],
            Some(at) => &self.directions[at].values[start..],
        }
    }

    /// Makes a change that nothing is to be taken out of any more a direction, if enough of it is left. Directions after the first
    /// `known` ones came in the same round; they are taken out once more where no more than this share is left.
    fn settle(&mut self, block: &Block, mut change: Change, known: usize, again: f64) {
        let weights = block.outcome().weights.as_deref();
        change.others.resize(self.directions.len(), 0.0);
        for _ in 0..2 {
            let before = change.left;
            for at in known..self.directions.len() {
                let direction = &self.directions[at];
                let share = product(&direction.values, &weighted(&change.values, weights)) / direction.squares;
                let strips = change.values.par_chunks_mut(STRIP_ROWS).zip(direction.values.par_chunks(STRIP_ROWS));
                let left = strips.map(|(values, direction)| {
                    kernels::subtract(share, direction, values);
                    kernels::dot(values, values)
                });
                change.left = left.collect::<Vec<f64>>().into_iter().sum::<f64>().sqrt();
                self.note_share(&mut change, at, share);
            }
            if change.left > again * before {
                break;
            }
        }
        let Change { partner, mut values, length, noise, own, others, .. } = change;
        let (rest, root, noise) = (squares(&values).sqrt(), (values.len() as f64).sqrt(), noise.sqrt());
        if !(rest > NOVELTY * length && noise <= NOISE * rest) {
            return;
        }
        let unit = root / rest;
        let scaled = values.par_chunks_mut(STRIP_ROWS).enumerate().map(|(part, values)| {
            values.iter_mut().for_each(|v| *v *= unit);
            let rows = part * STRIP_ROWS..part * STRIP_ROWS + values.len();
            let by_weight = weighted(values, weights.map(|weights| &weights[rows]));
            (kernels::ordered_of_blocks(values, &by_weight), largest(values))
        });
        let scaled: Vec<(Vec<f64>, f64)> = scaled.collect();
        let squares = scaled.iter().flat_map(|(squares, _)| squares).sum();
        let largest = scaled.iter().fold(0.0_f64, |most, (_, largest)| most.max(*largest));
        let others = others.into_iter().enumerate().filter(|(_, share)| *share != 0.0);
        let others = others.map(|(at, share)| (at, share * unit)).collect();
        let (own, noise) = (own * unit, noise / rest);
        self.directions.push(Direction { partner, values, largest, squares, own, others, noise });
    }

    /// Coordinates of the directions, turned into those of the combinations of what partners sent that they are made of.
    fn of_partners(&self, along: &[f64]) -> Vec<f64> {
        let mut along = along.to_vec();
        for (at, direction) in self.directions.iter().enumerate().rev() {
            for (other, share) in &direction.others {
                along[*other] -= along[at] * share;
            }
        }
        along
    }

    /// What own columns add to the combinations of what partners sent at these coordinates.
    fn taken_out<'a>(&self, along: impl Iterator<Item = (&'a Direction, f64)>, columns: usize) -> DVector<f64> {
        let mut sum = DVector::zeros(columns);
        along.for_each(|(direction, along)| sum.axpy(along, &direction.own, 1.0));
        sum
    }

    /// How far a partner goes from the vector that it sent, at these coordinates of all partners.
    fn going(&self, columns: usize, partner: usize, along: &[f64]) -> Going {
        let own_of = || {
            let all = self.directions.iter().zip(along.iter().copied());
            all.filter(|(direction, _)| direction.partner == partner)
        };
        let mut step = vec![0.0; self.directions.len()];
        for (at, direction) in self.directions.iter().enumerate().filter(|(_, direction)| direction.partner == partner)
        {
            step[at] += along[at];
            direction.others.iter().for_each(|(other, share)| step[*other] += along[at] * share);
        }
        Going { own: self.taken_out(own_of(), columns), along: step }
    }

    /// Puts the block at a minimum; gives the vectors of the second partner and those after it there. `vectors` are what the partners
    /// sent before.
    pub fn go_to(&mut self, block: &mut Block, minimum: &Minimum, vectors: &[&Values]) -> Vec<Values> {
        let sent: Vec<&Values> = vectors.iter().skip(1).copied().collect();
        let mut later: Vec<Values> = sent.iter().map(|vector| self.spares.take(vector.len())).collect();
        let mut further: Vec<(&DVector<f64>, &mut [f64])> =
            minimum.later.iter().zip(&mut later).map(|(going, values)| (&going.own, values.as_mut_slice())).collect();
        block.predict_beside(&minimum.own, &mut further, |place, start, values| {
            kernels::add(&minimum.later[place].along, |at| &self.directions[at].values[start..], values);
            kernels::add(&[1.0], |_| &sent[place][start..], values);
        });
        later.iter().for_each(|values| self.spares.keep(values.clone()));
        later
    }

    /// The minimum, from the point of the last exchange, at which the block's last pass was; `vectors` are what the partners sent in it.
    pub fn minimise(&mut self, block: &Block, pass: &Pass, vectors: &[&Values], tol: f64) -> Minimum {
        let p = block.columns();
        self.take(block, vectors);
        let mut point = DVector::zeros(p + self.directions.len());
        let gaussian = block.outcome().family == Family::Gaussian;
        let predictor = if gaussian { Vec::new() } else { block.predictors() };
        let mut start = Start { predictor, tilt: DVector::zeros(self.directions.len()) };
        let mut sweep = self.first_sweep(block, pass);
        // A direction plus what was taken out of it is the partner's, along which its answer left no gradient beyond that
        // of an unfinished fit: what is no larger than rounding explains counts as zero.
        let own_gradient = sweep.gradient.rows(0, p).into_owned();
        let length = (block.rows() as f64).sqrt() * sweep.squares.sqrt();
        for (at, direction) in self.directions.iter().enumerate() {
            let by_others = direction.others.iter().map(|(other, share)| share * sweep.gradient[p + other]);
            let along =
                by_others.fold(sweep.gradient[p + at] + direction.own.dot(&own_gradient), |sum, part| sum + part);
            if along.abs() <= CAUTION * direction.noise * length {
                start.tilt[at] = along;
                sweep.gradient[p + at] -= along;
            }
        }
        let mut hessian: Option<Hessian> = None;
        let mut by_estimates = false;
        let close = self.steepness(block, &sweep.gradient) <= CLOSE;
        for round in 0..MAX_STEPS {
            let steepness = self.steepness(block, &sweep.gradient);
            // One step is always taken: a gradient says nothing about how far a flat valley goes on.
            let enough = if by_estimates { SURE * tol } else { tol };
            if round > 0 && !(steepness > enough) {
                break;
            }
            let fresh = hessian.is_none();
            let estimate = || self.estimates.are_worth_it().then(|| self.estimate(block, &start, &point)).flatten();
            let found = hessian.take().or_else(estimate).or_else(|| self.curvature(block, &start, &point));
            let Some(Hessian { definite, kept, estimated }) = found else { break };
            by_estimates |= estimated;
            let mut step = DVector::zeros(point.len());
            let solved = definite.solve(&sweep.gradient.select_rows(&kept));
            kept.iter().zip(solved.iter()).for_each(|(at, value)| step[*at] = *value);
            // The loss is quadratic: well conditioned, the step ends where a sweep would find no gradient beyond rounding.
            if gaussian && kept.len() == step.len() && definite.pivot_ratio() > EXACT {
                point = step;
                break;
            }
            if start.predictor.is_empty() {
                start.predictor = block.predictors();
            }
            let slack = 1e-13 * sweep.loss.abs();
            let mut length = self.first_length(block, &step);
            let next = loop {
                let next = &point + &step * length;
                let next_sweep = self.sweep(block, &start, &next);
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
            if gain > NO_GAIN && round > 1 && (!estimated || steepness <= tol) {
                break;
            }
            // A second derivative that still gains digits quickly is worth another sweep.
            if gain < WORTH_A_SWEEP {
                hessian = Some(Hessian { definite, kept, estimated });
            } else if estimated {
                self.estimates.note(fresh, close, gain);
            }
        }
        let along = self.of_partners(point.rows(p, point.len() - p).as_slice());
        let all = self.directions.iter().zip(along.iter().copied());
        Minimum {
            own: block.beta() + point.rows(0, p) - self.taken_out(all, p),
            later: (1..vectors.len()).map(|partner| self.going(p, partner, &along)).collect(),
        }
    }

    /// The share of a step that is tried first, as in the fit of a block.
    fn first_length(&self, block: &Block, step: &DVector<f64>) -> f64 {
        if block.outcome().family == Family::Gaussian {
            return 1.0;
        }
        let along = step.iter().skip(block.columns()).zip(&self.directions);
        let along = along.map(|(step, direction)| step.abs() * direction.largest).sum::<f64>();
        let own = block.furthest(&step.as_slice()[..block.columns()], rows::SAFE * LONGEST_STEP - along);
        let furthest = own + along;
        rows::first_length(block.rows(), (furthest, LONGEST_STEP), |start, moved| self.step(block, start, step, moved))
    }

    fn steepness(&self, block: &Block, gradient: &DVector<f64>) -> f64 {
        gradient.amax() / (block.weight_sum() * block.outcome().spread)
    }

    fn predictor(&self, block: &Block, from: &Start, start: usize, point: &DVector<f64>, eta: &mut [f64]) {
        self.step(block, start, point, eta);
        kernels::add(&[1.0], |_| &from.predictor[start..], eta);
    }

    /// What a step adds to the predictor of some rows.
    fn step(&self, block: &Block, start: usize, point: &DVector<f64>, eta: &mut [f64]) {
        block.multiply(start, point.as_slice(), eta);
        kernels::add(&point.as_slice()[block.columns()..], |at| &self.directions[at].values[start..], eta);
    }

    /// The directions shown, beyond own columns.
    pub fn directions(&self) -> impl Iterator<Item = &[f64]> {
        self.directions.iter().map(|direction| direction.values.as_slice())
    }

    /// Gradient and loss at a step from the start, both tilted.
    fn sweep(&self, block: &Block, from: &Start, point: &DVector<f64>) -> Scores {
        let starts: Vec<usize> = (0..block.rows()).step_by(STRIP_ROWS).collect();
        let strips: Vec<Strip> = starts
            .into_par_iter()
            .map(|start| {
                let mut values = [0.0; STRIP_ROWS];
                let values = &mut values[..STRIP_ROWS.min(block.rows() - start)];
                self.predictor(block, from, start, point, values);
                self.strip(block, start, values, 0)
            })
            .collect();
        let (p, size) = (block.columns(), point.len());
        let tilt = from.tilt.dot(&point.rows(p, size - p));
        let mut sweep = Strip::sum(strips, size, tilt);
        sweep.gradient.rows_mut(p, size - p).axpy(-1.0, &from.tilt, 1.0);
        sweep
    }

    /// The same at the start itself, where the block's pass has swept over its columns.
    fn first_sweep(&self, block: &Block, pass: &Pass) -> Scores {
        let starts: Vec<usize> = (0..block.rows()).step_by(STRIP_ROWS).collect();
        let strips: Vec<Strip> = starts
            .into_par_iter()
            .map(|start| {
                let mut values = [0.0; STRIP_ROWS];
                let values = &mut values[..STRIP_ROWS.min(block.rows() - start)];
                block.predictor_of(start, values);
                self.strip(block, start, values, block.columns())
            })
            .collect();
        let directions = self.directions.len();
        let sum = Strip::sum(strips, directions, 0.0);
        let gradient = pass.gradient.iter().chain(sum.gradient.iter()).copied();
        let gradient = DVector::from_iterator(block.columns() + directions, gradient);
        Scores { gradient, loss: pass.loss, squares: sum.squares }
    }

    /// The sums of a strip with these linear predictors, over own columns from the first one given, and all directions.
    fn strip(&self, block: &Block, start: usize, predictors: &mut [f64], first: usize) -> Strip {
        let column = |j: usize| self.column(block, first + j, start);
        let own = block.columns() - first;
        if self.partners.len() > 1 {
            // Of several there are many, which are read some at a time. Those of one partner are added up row by row, as they always were: the
            // bits of a fit between two follow from it.
            return Strip::new(block.outcome(), start, predictors, (own + self.directions.len(), column), &[]);
        }
        let further: Vec<&[f64]> = self.directions().collect();
        Strip::new(block.outcome(), start, predictors, (own, column), &further)
    }

    /// Products under prior weights: directions are orthogonal to own columns and to each other in just this metric.
    fn gram(&self, block: &Block) -> DMatrix<f64> {
        let (p, size) = (block.columns(), block.columns() + self.directions.len());
        let mut gram = block.gram().clone().resize(size, size, 0.0);
        self.directions.iter().enumerate().for_each(|(at, direction)| gram[(p + at, p + at)] = direction.squares);
        gram
    }

    /// The second derivative estimated from some of the rows, where these are many.
    fn estimate(&self, block: &Block, from: &Start, point: &DVector<f64>) -> Option<Hessian> {
        if block.outcome().family == Family::Gaussian {
            return None;
        }
        let some = SomeRows::of(block.rows(), point.len())?;
        let weights = |rows: Range<usize>| {
            let mut predictor = vec![0.0; rows.len()];
            self.predictor(block, from, rows.start, point, &mut predictor);
            let outcome = block.outcome();
            outcome.weights_then_and_now(outcome.weights.as_deref(), rows.start, predictor)
        };
        let gram = some.gram(&self.gram(block), |j| self.column(block, j, 0), weights);
        let (definite, kept) = Definite::from_gram_limited(&gram).filter(|(_, kept)| kept.len() == point.len())?;
        Some(Hessian { definite, kept, estimated: true })
    }

    /// The second derivative, without directions that depend on the others: columns of the two parties may.
    fn curvature(&self, block: &Block, from: &Start, point: &DVector<f64>) -> Option<Hessian> {
        let of = |gram| {
            let (definite, kept) = Definite::from_gram_limited(gram)?;
            Some(Hessian { definite, kept, estimated: false })
        };
        let outcome = block.outcome();
        let p = block.columns();
        let size = point.len();
        if outcome.family == Family::Gaussian {
            return of(&self.gram(block));
        }
        let gram = linalg::packed_gram(block.rows(), size, |rows, packed| {
            let mut roots = vec![0.0; rows.len()];
            self.predictor(block, from, rows.start, point, &mut roots);
            outcome.working_weights(rows.start, &mut roots);
            roots.iter_mut().for_each(|root| *root = root.sqrt());
            for j in 0..size {
                let column = if j < p { block.column(j) } else { &self.directions[j - p].values };
                kernels::append_scaled(packed, &column[rows.clone()], &roots);
            }
        });
        of(&gram)
    }
}

fn weighted<'a>(vector: &'a [f64], weights: Option<&[f64]>) -> Cow<'a, [f64]> {
    match weights {
        None => Cow::Borrowed(vector),
        Some(weights) => Cow::Owned(vector.iter().zip(weights).map(|(v, w)| v * w).collect()),
    }
}

fn product(a: &[f64], b: &[f64]) -> f64 {
    let strips = a.par_chunks(STRIP_ROWS).zip(b.par_chunks(STRIP_ROWS));
    let sums: Vec<Vec<f64>> = strips.map(|(a, b)| kernels::ordered_of_blocks(a, b)).collect();
    sums.into_iter().flatten().sum()
}

/// Strips of several vectors: of each strip, those of all vectors.
fn strips(vectors: &mut [Change]) -> Vec<Vec<&mut [f64]>> {
    let mut strips: Vec<Vec<&mut [f64]>> = Vec::new();
    for vector in vectors {
        for (at, strip) in vector.values.chunks_mut(SWEPT_ROWS).enumerate() {
            match strips.get_mut(at) {
                Some(strips) => strips.push(strip),
                None => strips.push(vec![strip]),
            }
        }
    }
    strips
}

/// What is new in a vector since the last one, its length, and that of the vector. It is written over the last one where nobody else
/// keeps that: memory that is new costs more.
fn new_in(vector: &[f64], last: Option<Values>) -> (Vec<f64>, f64, f64) {
    let mut new = match last {
        Some(last) if last.len() == vector.len() => last.into_own(),
        Some(_) | None => vec![0.0; vector.len()],
    };
    let strips = new.par_chunks_mut(STRIP_ROWS).zip(vector.par_chunks(STRIP_ROWS));
    let squares = strips.map(|(new, vector)| {
        new.iter_mut().zip(vector).for_each(|(new, value)| *new = value - *new);
        (kernels::ordered_of_blocks(new, new), kernels::ordered_of_blocks(vector, vector))
    });
    let (of_new, whole): (Vec<Vec<f64>>, Vec<Vec<f64>>) = squares.unzip();
    let length = |squares: Vec<Vec<f64>>| squares.into_iter().flatten().sum::<f64>().sqrt();
    (new, length(of_new), length(whole))
}

fn squares(a: &[f64]) -> f64 {
    product(a, a)
}

#[cfg(test)]
mod tests {
    use super::super::block::Outcome;
    use super::*;
    use nalgebra::DMatrix;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn directions_are_orthogonal_and_made_of_what_partners_sent_and_of_what_was_taken_out() {
        let mut rng = ChaCha8Rng::seed_from_u64(11);
        for weighted_rows in [false, true] {
            let (rows, own) = (4500, 5);
            let x = DMatrix::from_fn(rows, own, |_, _| rng.random_range(-1.0..1.0));
            // Close to own columns, and to each other's.
            let near = |share: f64, rng: &mut ChaCha8Rng| {
                DMatrix::from_fn(rows, 4, |row, j| x[(row, j)] + share * rng.random_range(-1.0..1.0))
            };
            let blocks = [near(0.1, &mut rng), near(1e-6, &mut rng)];
            let weights = weighted_rows.then(|| (0..rows).map(|row| 0.5 + (row % 3) as f64).collect::<Vec<_>>());
            let y = vec![0.0; rows];
            let outcome = Outcome {
                family: Family::Gaussian,
                y,
                weights: weights.clone(),
                offset: None,
                hidden: None,
                spread: 1.0,
            };
            let block = Block::new(x.clone(), true, true, outcome);
            let mut shown = Shown::new(&[4, 4], false);
            for _ in 0..5 {
                let vectors: Vec<Values> = blocks
                    .iter()
                    .map(|block| {
                        (block * DVector::from_fn(4, |_, _| rng.random_range(-1.0..1.0))).as_slice().to_vec().into()
                    })
                    .collect();
                shown.take(&block, &vectors.iter().collect::<Vec<_>>());
            }
            assert_eq!(shown.directions.len(), 8);
            let weights = weights.as_deref();
            for (at, direction) in shown.directions.iter().enumerate() {
                let values = weighted(&direction.values, weights);
                let size = rows as f64;
                assert!((squares(&direction.values) - size).abs() <= 1e-10 * size);
                assert!((product(&direction.values, &values) - direction.squares).abs() <= 1e-10 * size);
                assert!(block.products(&values).iter().all(|product| product.abs() <= 1e-11 * size));
                for other in &shown.directions[..at] {
                    assert!(product(&other.values, &values).abs() <= 1e-11 * size);
                }
                let mut sent = DVector::from_column_slice(&direction.values) + block.matrix() * &direction.own;
                for (other, share) in &direction.others {
                    assert_ne!(shown.directions[*other].partner, direction.partner);
                    sent += DVector::from_column_slice(&shown.directions[*other].values) * *share;
                }
                let from = &blocks[direction.partner];
                let metric = Definite::from_gram(&(from.transpose() * from)).unwrap();
                let left = &sent - from * metric.solve(&(from.transpose() * &sent));
                assert!(left.norm() <= 1e-9 * sent.norm(), "direction {at}: {:e}", left.norm() / sent.norm());
            }
        }
    }
}
