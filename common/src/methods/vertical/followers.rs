//! What the leader of several parties keeps of each of the others.
//!
//! A round asks one follower after the other, each with the sum of all the rest: true answers of this round from those that were asked
//! before, and a starting vector for those that come after. The starting vectors are a follower's last answer, or where a minimum or an
//! extrapolation puts it. Nothing that is sent to a follower depends on how it arose: a follower fits its block exactly to what comes.

use nalgebra::DVector;
use rayon::prelude::*;

use super::message::Partial;
use super::rows;
use crate::linalg::kernels::{self, STRIP_ROWS};
use crate::linalg::{Spares, Values};

/// A vector adds a dimension to what a follower has shown when this share of it lies outside of the earlier ones. Of a smaller one
/// rounding would be too large a part.
const NOVELTY: f64 = 1e-8;

/// The followers, in the order in which they are asked.
pub(super) struct Followers {
    followers: Vec<Follower>,
    /// Coordinates at which the round starts, of all but the first follower, where it was put there by them.
    started: Option<DVector<f64>>,
    /// In place of what was not heard.
    nothing: Values,
    /// For sums.
    spares: Spares,
}

struct Follower {
    columns: usize,
    /// What it said last in the present fit.
    heard: Option<Partial>,
    /// Where it is taken to be in the coming round until it answers; empty for zeros.
    start: Values,
    /// What its vectors span, orthonormal.
    span: Vec<Values>,
    /// The last answer in coordinates of the span.
    answered: Vec<f64>,
}

impl Followers {
    /// Of followers with these numbers of columns.
    pub(super) fn new(columns: &[usize]) -> Followers {
        let follower = |columns: &usize| Follower {
            columns: *columns,
            heard: None,
            start: Values::default(),
            span: Vec::new(),
            answered: Vec::new(),
        };
        Followers {
            followers: columns.iter().map(follower).collect(),
            started: None,
            nothing: Values::default(),
            spares: Spares::default(),
        }
    }

    /// Columns of each.
    pub(super) fn columns(&self) -> Vec<usize> {
        self.followers.iter().map(|follower| follower.columns).collect()
    }

    /// A follower has set columns aside.
    pub(super) fn drop_columns(&mut self, at: usize, columns: usize) {
        let follower = &mut self.followers[at];
        follower.columns = follower.columns.saturating_sub(columns);
        follower.span.clear();
        follower.answered.clear();
    }

    /// Another fit begins: with the followers where they are, or all at zero.
    pub(super) fn begin(&mut self, warm: bool) {
        for follower in &mut self.followers {
            if !warm {
                follower.heard = None;
            }
        }
        self.go_on_from_answers();
    }

    /// What follower `at` is to fit its block to: what the leader says of itself, and the rest.
    pub(super) fn question(&mut self, at: usize, own: &Partial) -> Partial {
        let mut vectors = vec![&own.values];
        let mut question = own.clone();
        for (place, other) in self.followers.iter().enumerate().filter(|(place, _)| *place != at) {
            let heard = other.heard.as_ref();
            let vector = match (place < at, heard) {
                (true, Some(heard)) => &heard.values,
                _ => &other.start,
            };
            vectors.push(vector);
            if let Some(heard) = heard {
                question.penalty += heard.penalty;
                question.certificate = question.certificate.max(heard.certificate);
                // Of this round. One that found growth without bound says it by a change beyond what a change can be.
                if place < at {
                    question.change = question.change.max(heard.change.min(1.0));
                }
            }
        }
        question.values = rows::sum_of(&vectors, &mut self.spares);
        question
    }

    /// Takes what a follower answered.
    pub(super) fn hear(&mut self, at: usize, answer: Partial) {
        self.followers[at].heard = Some(answer);
    }

    /// All answers of a round, as those of one partner.
    pub(super) fn joined(&mut self, fit: u32, round: u32) -> Partial {
        let mut spares = std::mem::take(&mut self.spares);
        let values = rows::sum_of(&self.vectors(), &mut spares);
        self.spares = spares;
        let none = Partial { fit, round, values, penalty: 0.0, loss: 0.0, change: 0.0, certificate: 0.0 };
        self.followers.iter().filter_map(|follower| follower.heard.as_ref()).fold(none, |mut all, heard| {
            all.penalty += heard.penalty;
            all.change = all.change.max(heard.change);
            all.certificate = all.certificate.max(heard.certificate);
            all
        })
    }

    /// What each predicted last.
    pub(super) fn vectors(&self) -> Vec<&Values> {
        let heard = self.followers.iter().map(|follower| follower.heard.as_ref());
        heard.map(|heard| heard.map_or(&self.nothing, |heard| &heard.values)).collect()
    }

    /// The coming round starts where the followers are.
    pub(super) fn go_on_from_answers(&mut self) {
        for follower in self.followers.iter_mut().skip(1) {
            follower.start = follower.heard.as_ref().map(|heard| heard.values.clone()).unwrap_or_default();
        }
        self.started = None;
    }

    /// The coming round starts with these vectors of the second follower and those after it.
    pub(super) fn go_on_from(&mut self, later: Vec<Values>) {
        self.followers.iter_mut().skip(1).zip(later).for_each(|(follower, start)| follower.start = start);
        self.started = None;
    }

    /// How far answers were from where the round started, those that earlier followers did not know when they answered: the sum of the
    /// lengths, after `scale` has multiplied the rows of a strip by what each counts.
    pub(super) fn unsettled(&self, scale: impl Fn(usize, &mut [f64]) + Sync) -> f64 {
        let moved = |follower: &Follower| {
            let heard = follower.heard.as_ref().map_or(&self.nothing, |heard| &heard.values);
            let strips = heard.par_chunks(STRIP_ROWS).enumerate().map(|(part, heard)| {
                let start = part * STRIP_ROWS;
                let mut moved = [0.0; STRIP_ROWS];
                let moved = &mut moved[..heard.len()];
                moved.copy_from_slice(heard);
                // An empty vector stands for zeros.
                if !follower.start.is_empty() {
                    kernels::subtract(1.0, &follower.start[start..start + heard.len()], moved);
                }
                scale(start, moved);
                kernels::dot(moved, moved)
            });
            strips.collect::<Vec<f64>>().into_iter().sum::<f64>().sqrt()
        };
        self.followers.iter().skip(1).map(moved).sum()
    }

    /// Coordinates of where the last round started: one a column of all but the first follower.
    pub(super) fn started(&mut self) -> DVector<f64> {
        if let Some(started) = self.started.take() {
            return started;
        }
        self.coordinates(|follower| std::mem::take(&mut follower.start))
    }

    /// Coordinates of the last answers of all but the first follower, whose answer follows from the rest.
    pub(super) fn answered(&mut self) -> DVector<f64> {
        let answered =
            self.coordinates(|follower| follower.heard.as_ref().map(|heard| heard.values.clone()).unwrap_or_default());
        let mut rest = answered.as_slice();
        for follower in self.followers.iter_mut().skip(1) {
            let (own, after) = rest.split_at(follower.columns);
            (follower.answered, rest) = (own.to_vec(), after);
        }
        answered
    }

    fn coordinates(&mut self, vector: impl Fn(&mut Follower) -> Values) -> DVector<f64> {
        let mut coordinates = Vec::new();
        for follower in self.followers.iter_mut().skip(1) {
            let vector = vector(follower);
            let mut own = follower.coordinates(vector);
            own.resize(follower.columns, 0.0);
            coordinates.extend(own);
        }
        DVector::from_vec(coordinates)
    }

    /// The coming round starts at these coordinates.
    pub(super) fn go_on_at(&mut self, coordinates: DVector<f64>) {
        let mut rest = coordinates.as_slice();
        for follower in self.followers.iter_mut().skip(1) {
            let (own, after) = rest.split_at(follower.columns.min(rest.len()));
            rest = after;
            // From the answer, so that what the span lacks of it is not lost.
            let mut start = follower.heard.as_ref().map(|heard| heard.values.clone()).unwrap_or_default();
            for ((vector, to), from) in follower.span.iter().zip(own).zip(&follower.answered) {
                start.iter_mut().zip(vector.iter()).for_each(|(value, part)| *value += (to - from) * part);
            }
            follower.start = start;
        }
        self.started = Some(coordinates);
    }
}

impl Follower {
    /// A vector in the coordinates of what was shown, which grows by what is new in it; an empty one stands for zeros.
    fn coordinates(&mut self, mut rest: Values) -> Vec<f64> {
        let mut coordinates = vec![0.0; self.span.len()];
        let length = norm(&rest);
        for _ in 0..2 {
            for (vector, coordinate) in self.span.iter().zip(&mut coordinates) {
                let along: f64 = vector.iter().zip(rest.iter()).map(|(a, b)| a * b).sum();
                rest.iter_mut().zip(vector.iter()).for_each(|(value, part)| *value -= along * part);
                *coordinate += along;
            }
        }
        let left = norm(&rest);
        if left > NOVELTY * length && self.span.len() < self.columns {
            rest.iter_mut().for_each(|value| *value /= left);
            self.span.push(rest);
            coordinates.push(left);
        }
        coordinates
    }
}

fn norm(vector: &[f64]) -> f64 {
    vector.iter().map(|value| value * value).sum::<f64>().sqrt()
}
