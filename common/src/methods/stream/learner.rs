//! What the holder of a record sends, and what the coordinator keeps.

use serde::{Deserialize, Serialize};

use super::{Basis, StreamError};
use crate::bounded::{Ball, Bounded, is_radius};

/// Blocks of which the average over the last half is made.
const BLOCKS: usize = 16;
/// Most records that a stream may be stated to have.
const MOST_RECORDS: u64 = 1_000_000_000_000_000;

/// How a residual counts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// Residuals are cut to `[-tau, tau]`, in units of the outcome.
    Huber {
        /// Largest residual.
        tau: f64,
    },
    /// Not cut: least squares, for comparison without privacy.
    Squares,
}

/// The step of the `n`-th record.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Always this long.
    Constant {
        /// Step length.
        length: f64,
    },
    /// `length / sqrt n`.
    Root {
        /// Step length of the first record.
        length: f64,
    },
    /// `length / n^exponent`: the non-constant schedule of the source.
    Power {
        /// Step length of the first record.
        length: f64,
        /// From 0 to below 1.
        exponent: f64,
    },
    /// `length / records^exponent` for every record: the constant schedule of the source, for a stream of known length.
    Horizon {
        /// Step length of a stream of one record.
        length: f64,
        /// From 0 to below 1.
        exponent: f64,
        /// How many records are to come, of all sites together.
        records: u64,
    },
}

impl Step {
    /// The length that a study states, before anything shrinks it.
    pub fn length(self) -> f64 {
        let (Step::Constant { length }
        | Step::Root { length }
        | Step::Power { length, .. }
        | Step::Horizon { length, .. }) = self;
        length
    }

    /// The same schedule with another stated length.
    #[must_use]
    pub fn with_length(self, length: f64) -> Step {
        match self {
            Step::Constant { .. } => Step::Constant { length },
            Step::Root { .. } => Step::Root { length },
            Step::Power { exponent, .. } => Step::Power { length, exponent },
            Step::Horizon { exponent, records, .. } => Step::Horizon { length, exponent, records },
        }
    }

    /// How far the `record`-th record moves the function, counted from 1.
    pub fn at(self, record: f64) -> f64 {
        match self {
            Step::Constant { length } => length,
            Step::Root { length } => length / record.sqrt(),
            Step::Power { length, exponent } => length / record.powf(exponent),
            Step::Horizon { length, exponent, records } => length / (records as f64).powf(exponent),
        }
    }

    fn check(self) -> Result<(), StreamError> {
        let length = self.length();
        if !(length > 0.0 && length <= 10.0) {
            return Err(StreamError::Setting { what: "the step", expected: "positive and at most 10", actual: length });
        }
        let (exponent, records) = match self {
            Step::Constant { .. } | Step::Root { .. } => return Ok(()),
            Step::Power { exponent, .. } => (exponent, 1),
            Step::Horizon { exponent, records, .. } => (exponent, records),
        };
        if !(0.0..1.0).contains(&exponent) {
            let expected = "at least 0 and below 1";
            return Err(StreamError::Setting { what: "the exponent of the step", expected, actual: exponent });
        }
        if !(1..=MOST_RECORDS).contains(&records) {
            let (what, expected) = ("the number of records to come", "from 1 to 1e15");
            return Err(StreamError::Setting { what, expected, actual: records as f64 });
        }
        Ok(())
    }
}

/// Which records' weights are averaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Average {
    /// The last half, up to an eighth more: forgets how the stream began. The default.
    LastHalf,
    /// All, for steps that are long enough to leave the beginning behind at once.
    All,
}

/// `.25 min(1, mu) / sqrt n`, `mu` the budget of a record, infinite without noise.
pub fn default_step(mu: f64) -> Step {
    Step::Root { length: 0.25 * mu.min(1.0) }
}

/// [`Settings`] before they are checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stated {
    /// What functions are made of.
    pub basis: Basis,
    /// How residuals count.
    pub loss: Loss,
    /// How far a record moves the function.
    pub step: Step,
}

/// Public facts of a stream, checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Stated", into = "Stated")]
pub struct Settings(Stated);

impl TryFrom<Stated> for Settings {
    type Error = StreamError;

    fn try_from(stated: Stated) -> Result<Settings, StreamError> {
        if let Loss::Huber { tau } = stated.loss
            && !is_radius(tau)
        {
            return Err(StreamError::Setting { what: "tau", expected: "positive", actual: tau });
        }
        stated.step.check()?;
        Ok(Settings(stated))
    }
}

impl From<Settings> for Stated {
    fn from(settings: Settings) -> Stated {
        settings.0
    }
}

impl Settings {
    /// The public facts.
    pub fn stated(&self) -> &Stated {
        &self.0
    }

    /// What functions are made of.
    pub fn basis(&self) -> &Basis {
        &self.0.basis
    }

    /// The l2 sensitivity of one record's message, `2 tau B`; none for least squares.
    pub fn sensitivity(&self) -> Option<f64> {
        match self.0.loss {
            // Two vectors of the ball of radius tau B.
            Loss::Huber { tau } => Some((2.0 * (tau * self.0.basis.bound()).next_up()).next_up()),
            Loss::Squares => None,
        }
    }

    /// A record's message before its noise, given the published weights; of no record, and of one that cannot be used, zero.
    ///
    /// Weights are public and may be stale or even invented: the bound holds for all.
    ///
    /// # Errors
    /// Weights of another length; covariates of another number; least squares.
    pub fn message(&self, weights: &[f64], record: Option<(&[f64], f64)>) -> Result<Bounded, StreamError> {
        let (Loss::Huber { tau }, Some(sensitivity)) = (self.0.loss, self.sensitivity()) else {
            return Err(StreamError::NoBound);
        };
        Ok(bounded(&self.gradient(weights, record)?, tau * self.0.basis.bound(), sensitivity))
    }

    /// A record's message for a stream without noise. A record that cannot be used is zero here too.
    ///
    /// # Errors
    /// Weights of another length; covariates of another number.
    pub fn plain_message(&self, weights: &[f64], record: Option<(&[f64], f64)>) -> Result<Vec<f64>, StreamError> {
        let mut gradient = self.gradient(weights, record)?;
        if !gradient.iter().all(|value| value.is_finite()) {
            gradient.fill(0.0);
        }
        Ok(gradient)
    }

    /// `psi a(x)`.
    fn gradient(&self, weights: &[f64], record: Option<(&[f64], f64)>) -> Result<Vec<f64>, StreamError> {
        let expected = self.0.basis.len();
        length("weights", expected, weights.len())?;
        let Some((x, y)) = record else {
            return Ok(vec![0.0; expected]);
        };
        length("covariates", self.0.basis.covariates(), x.len())?;
        if !(x.iter().all(|x| x.is_finite()) && y.is_finite()) {
            return Ok(vec![0.0; expected]);
        }
        let mut coordinates = Vec::with_capacity(expected);
        self.0.basis.coordinates(x, &mut coordinates);
        let residual = y - product(&coordinates, weights);
        let psi = match self.0.loss {
            Loss::Huber { tau } => residual.clamp(-tau, tau),
            Loss::Squares => residual,
        };
        coordinates.iter_mut().for_each(|a| *a *= psi);
        Ok(coordinates)
    }

    /// The value at `x` of the function with these weights.
    ///
    /// # Errors
    /// Weights of another length; covariates of another number or not finite.
    pub fn predict(&self, weights: &[f64], x: &[f64]) -> Result<f64, StreamError> {
        length("weights", self.0.basis.len(), weights.len())?;
        length("covariates", self.0.basis.covariates(), x.len())?;
        if !x.iter().all(|x| x.is_finite()) {
            return Err(StreamError::NotFinite { what: "covariates" });
        }
        let mut coordinates = Vec::new();
        self.0.basis.coordinates(x, &mut coordinates);
        Ok(product(&coordinates, weights))
    }

    /// The function with these weights on the grid; none for random features.
    ///
    /// # Errors
    /// Weights of another length.
    #[cfg(test)]
    pub(crate) fn on_grid(&self, weights: &[f64]) -> Result<Option<Vec<f64>>, StreamError> {
        length("weights", self.0.basis.len(), weights.len())?;
        Ok(match &self.0.basis {
            Basis::Grid(grid) => Some(grid.function(weights)),
            Basis::Features(_) => None,
        })
    }

    /// Moves weights by the message of the `record`-th record, counted from 1: for a sender of several and goes on from its
    /// own.
    ///
    /// # Errors
    /// A message or weights of another length.
    pub fn step(&self, weights: &mut [f64], record: u64, message: &[f64]) -> Result<(), StreamError> {
        length("weights", self.0.basis.len(), weights.len())?;
        length("message", weights.len(), message.len())?;
        let step = self.0.step.at(record as f64);
        weights.iter_mut().zip(message).for_each(|(weight, u)| *weight += step * u);
        Ok(())
    }
}

/// The vector cut to norm `radius`: what makes the sensitivity true whatever the coordinates of the basis came out as.
pub(super) fn bounded(gradient: &[f64], radius: f64, sensitivity: f64) -> Bounded {
    let ball = Ball::new(radius);
    let mut clipped = Vec::with_capacity(gradient.len());
    ball.clip(gradient, &mut clipped);
    Bounded::new(
        clipped.into_iter().map(i128::from).collect(),
        ball.exponent(),
        sensitivity,
        "2 tau B: a vector of norm at most tau B is replaced",
    )
}

/// The coordinator's state: its size depends on the basis, not on how long the stream is, and it can be written down and read
/// back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Learner {
    weights: Vec<f64>,
    records: u64,
    tail: Tail,
}

impl Learner {
    /// The zero function.
    pub fn new(settings: &Settings) -> Learner {
        Learner { weights: vec![0.0; settings.basis().len()], records: 0, tail: Tail { block: 1, blocks: Vec::new() } }
    }

    /// Whether a state that was read fits the settings.
    ///
    /// # Errors
    /// Another number of weights, a value that is not finite, blocks that cannot have come from a given number of records.
    pub fn check(&self, settings: &Settings) -> Result<(), StreamError> {
        let expected = settings.basis().len();
        length("weights", expected, self.weights.len())?;
        let mut counted: u64 = 0;
        for block in &self.tail.blocks {
            length("block of the average", expected, block.sum.len())?;
            counted = counted.saturating_add(block.records);
        }
        let sums = self.tail.blocks.iter().flat_map(|block| &block.sum);
        if !sums.chain(&self.weights).all(|value| value.is_finite()) {
            return Err(StreamError::NotFinite { what: "state" });
        }
        let sound = counted == self.records
            && self.tail.block.is_power_of_two()
            && self.tail.blocks.len() <= BLOCKS
            && self.tail.blocks.iter().all(|block| (1..=self.tail.block).contains(&block.records));
        if sound {
            Ok(())
        } else {
            Err(StreamError::Setting {
                what: "the number of averaged records",
                expected: "that of all records",
                actual: counted as f64,
            })
        }
    }

    /// The current weights, which holders of records need.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// Records so far, public.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The weights averaged over `part` of the records so far: the function to publish.
    pub fn average(&self, part: Average) -> Vec<f64> {
        let wanted = match part {
            Average::LastHalf => self.records - self.records / 2,
            Average::All => self.records,
        };
        self.tail.average(self.weights.len(), wanted)
    }

    /// Takes one record's message, in constant time and memory.
    ///
    /// # Errors
    /// A message of another length or with a value that is not finite; the state is then as before.
    pub fn apply(&mut self, settings: &Settings, message: &[f64]) -> Result<(), StreamError> {
        length("message", self.weights.len(), message.len())?;
        if !message.iter().all(|value| value.is_finite()) {
            return Err(StreamError::NotFinite { what: "message" });
        }
        let step = settings.0.step.at((self.records + 1) as f64);
        let next: Vec<f64> = self.weights.iter().zip(message).map(|(w, u)| w + step * u).collect();
        if !next.iter().all(|value| value.is_finite()) {
            return Err(StreamError::NotFinite { what: "message" });
        }
        self.weights = next;
        self.records += 1;
        self.tail.push(&self.weights);
        Ok(())
    }
}

/// Sums of the weights over consecutive blocks of equal length, at most sixteen; when they are full, neighbours merge and the
/// length doubles. So any suffix is known to within a block, in constant memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Tail {
    block: u64,
    blocks: Vec<Block>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Block {
    records: u64,
    sum: Vec<f64>,
}

impl Tail {
    fn push(&mut self, weights: &[f64]) {
        if let Some(last) = self.blocks.last_mut().filter(|last| last.records < self.block) {
            last.records += 1;
            add(&mut last.sum, weights);
            return;
        }
        if self.blocks.len() == BLOCKS {
            self.block *= 2;
            let mut merged: Vec<Block> = Vec::with_capacity(BLOCKS);
            for (place, block) in std::mem::take(&mut self.blocks).into_iter().enumerate() {
                match merged.last_mut().filter(|_| place % 2 == 1) {
                    Some(left) => {
                        left.records += block.records;
                        add(&mut left.sum, &block.sum);
                    }
                    None => merged.push(block),
                }
            }
            self.blocks = merged;
        }
        self.blocks.push(Block { records: 1, sum: weights.to_vec() });
    }

    /// Over the last `wanted` records and what else is in the block that the first of them is in.
    fn average(&self, width: usize, wanted: u64) -> Vec<f64> {
        let (mut sum, mut counted) = (vec![0.0; width], 0u64);
        for block in self.blocks.iter().rev() {
            if counted >= wanted {
                break;
            }
            add(&mut sum, &block.sum);
            counted += block.records;
        }
        sum.iter_mut().for_each(|value| *value /= counted.max(1) as f64);
        sum
    }
}

fn add(sum: &mut [f64], values: &[f64]) {
    sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
}

fn product(left: &[f64], right: &[f64]) -> f64 {
    left.iter().zip(right).map(|(left, right)| left * right).sum()
}

pub(super) fn length(what: &'static str, expected: usize, actual: usize) -> Result<(), StreamError> {
    if expected == actual { Ok(()) } else { Err(StreamError::Length { what, expected, actual }) }
}
