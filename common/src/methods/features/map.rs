//! From covariates to features, and from a result file to predictions.

use std::f64::consts::TAU;

use nalgebra::{DMatrix, DVector};
use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha20Rng;
use serde::{Deserialize, Serialize};

use super::{FeatureError, setting, size};

/// Rows of features have entries that are multiples of 2^-15.
pub(crate) const ROW_BITS: i32 = 15;

/// Paired random Fourier features from a public seed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Stated", into = "Stated")]
pub struct FeatureMap {
    stated: Stated,
    /// Inputs x pairs.
    frequencies: DMatrix<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Stated {
    /// Seed of the frequencies.
    seed: u64,
    /// Number of columns.
    inputs: usize,
    /// Number of features.
    count: usize,
    /// Standard deviation of the frequencies, per column in `[0, 1]`.
    frequency_sd: f64,
}

impl TryFrom<Stated> for FeatureMap {
    type Error = FeatureError;

    fn try_from(stated: Stated) -> Result<FeatureMap, FeatureError> {
        FeatureMap::new(stated.seed, stated.inputs, stated.count, stated.frequency_sd)
    }
}

impl From<FeatureMap> for Stated {
    fn from(map: FeatureMap) -> Stated {
        map.stated
    }
}

impl FeatureMap {
    /// Draws `count / 2` frequencies for `inputs` columns with standard deviation `frequency_sd`, per column in `[0, 1]`. The
    /// same seed gives the same frequencies at every site.
    ///
    /// # Errors
    /// An odd or zero count, no column, more than 10^8 frequencies, or a standard deviation that is not positive and finite.
    pub fn new(seed: u64, inputs: usize, count: usize, frequency_sd: f64) -> Result<FeatureMap, FeatureError> {
        setting("the number of inputs", "from 1 to 10000", inputs as f64, (1..=10_000).contains(&inputs))?;
        let even = count >= 2 && count.is_multiple_of(2) && count <= 1_000_000;
        setting("the number of features", "even and from 2 to 1000000", count as f64, even)?;
        let total = inputs * (count / 2);
        setting("the number of frequencies", "at most 100000000", total as f64, total <= 100_000_000)?;
        let sound = frequency_sd > 0.0 && frequency_sd <= 1e6;
        setting("the frequencies' standard deviation", "positive and at most 1e6", frequency_sd, sound)?;
        let mut generator = ChaCha20Rng::seed_from_u64(seed);
        // Written out, so that a new version of a library cannot change a study's features.
        let mut uniform = || (generator.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64);
        let mut spare = None;
        let frequencies = DMatrix::from_fn(inputs, count / 2, |_, _| {
            if let Some(value) = spare.take() {
                return value;
            }
            let radius = frequency_sd * (-2.0 * (1.0 - uniform()).ln()).sqrt();
            let (sine, cosine) = (TAU * uniform()).sin_cos();
            spare = Some(radius * sine);
            radius * cosine
        });
        Ok(FeatureMap { stated: Stated { seed, inputs, count, frequency_sd }, frequencies })
    }

    /// The map of the same seed with `count` features: with fewer they are the first of these, as frequencies are drawn in turn.
    ///
    /// # Errors
    /// As [`FeatureMap::new`].
    pub fn of_size(&self, count: usize) -> Result<FeatureMap, FeatureError> {
        FeatureMap::new(self.stated.seed, self.stated.inputs, count, self.stated.frequency_sd)
    }

    /// Number of columns that go in.
    pub fn inputs(&self) -> usize {
        self.stated.inputs
    }

    /// Number of features that come out.
    pub fn count(&self) -> usize {
        self.stated.count
    }

    /// Standard deviation of the frequencies.
    pub fn frequency_sd(&self) -> f64 {
        self.stated.frequency_sd
    }

    /// The frequencies, inputs x pairs.
    pub fn frequencies(&self) -> &DMatrix<f64> {
        &self.frequencies
    }

    /// The features of `x`, `n x inputs` in `[0, 1]`: `n x count`, every row of norm 1; cosines first, then sines.
    ///
    /// # Errors
    /// Another number of columns.
    pub fn rows(&self, x: &DMatrix<f64>) -> Result<DMatrix<f64>, FeatureError> {
        size("input columns", self.inputs(), x.ncols())?;
        let (phases, pairs) = (x * &self.frequencies, self.count() / 2);
        let scale = 1.0 / (pairs as f64).sqrt();
        let mut rows = DMatrix::zeros(x.nrows(), self.count());
        for pair in 0..pairs {
            for row in 0..x.nrows() {
                let (sine, cosine) = phases[(row, pair)].sin_cos();
                rows[(row, pair)] = scale * cosine;
                rows[(row, pairs + pair)] = scale * sine;
            }
        }
        Ok(rows)
    }

    /// The features of one row.
    pub(crate) fn row(&self, x: &[f64], out: &mut Vec<f64>) {
        let pairs = self.count() / 2;
        let scale = 1.0 / (pairs as f64).sqrt();
        out.clear();
        out.resize(self.count(), 0.0);
        for (pair, frequency) in self.frequencies.column_iter().enumerate() {
            let phase: f64 = frequency.iter().zip(x).map(|(w, x)| w * x).sum();
            let (sine, cosine) = phase.sin_cos();
            (out[pair], out[pairs + pair]) = (scale * cosine, scale * sine);
        }
    }

    /// The features in whole units of 2^-15, cut towards zero, every row of norm at most 2^15 by integer arithmetic. A row with
    /// an input that is not finite is zero.
    pub(crate) fn integer_rows(&self, x: &DMatrix<f64>) -> Result<DMatrix<f64>, FeatureError> {
        let mut rows = self.rows(x)?;
        let (unit, limit) = (f64::from(1 << ROW_BITS), 1i64 << (2 * ROW_BITS));
        for index in 0..rows.nrows() {
            let finite = x.row(index).iter().all(|value| value.is_finite());
            let mut scale = if finite { unit } else { 0.0 };
            loop {
                let square: i64 = rows.row(index).iter().map(|v| ((v * scale) as i64).pow(2)).sum();
                if square <= limit {
                    break;
                }
                scale *= (1.0 - 1e-6) * (limit as f64 / square as f64).sqrt();
            }
            rows.row_mut(index).iter_mut().for_each(|v| *v = if finite { (*v * scale).trunc() } else { 0.0 });
        }
        Ok(rows)
    }
}

/// The public range of a column.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Range {
    /// Smallest value.
    pub low: f64,
    /// Largest value.
    pub high: f64,
}

impl Range {
    /// A range of finite numbers.
    ///
    /// # Errors
    /// Ends that are not finite or not in order.
    pub fn new(low: f64, high: f64) -> Result<Range, FeatureError> {
        let sound = low.is_finite() && high.is_finite() && low < high && (high - low).is_finite();
        setting("the upper end of a range", "finite and above the lower end", high, sound)?;
        Ok(Range { low, high })
    }

    /// Half its length.
    pub fn half(self) -> f64 {
        0.5 * (self.high - self.low)
    }

    /// The value in `[0, 1]`, cut to the range; what is not a number stays so.
    pub fn scale(&self, value: f64) -> f64 {
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }
}

/// A fitted function that anyone can predict with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FeatureModel {
    /// Digest of the study that fitted it.
    pub study: String,
    /// Names of the input columns in their order.
    pub columns: Vec<String>,
    /// Their public ranges.
    pub ranges: Vec<Range>,
    /// Seed, number and spread of the features.
    pub map: FeatureMap,
    /// Public range of the outcome.
    pub outcome: Range,
    /// One coefficient per feature, on the outcome's half range.
    pub coefficients: Vec<f64>,
}

impl FeatureModel {
    /// Whether the parts of a file that was read fit each other and the study.
    ///
    /// # Errors
    /// Another study's digest, numbers of columns, ranges or coefficients that differ, a coefficient that is not finite.
    pub fn check(&self, study: Option<&str>) -> Result<(), FeatureError> {
        if let Some(expected) = study.filter(|&expected| expected != self.study) {
            return Err(FeatureError::OtherStudy { expected: expected.to_owned(), actual: self.study.clone() });
        }
        size("column names", self.map.inputs(), self.columns.len())?;
        size("column ranges", self.map.inputs(), self.ranges.len())?;
        size("coefficients", self.map.count(), self.coefficients.len())?;
        for range in self.ranges.iter().chain([&self.outcome]) {
            Range::new(range.low, range.high)?;
        }
        if self.coefficients.iter().all(|c| c.is_finite()) {
            Ok(())
        } else {
            Err(FeatureError::NotFinite { what: "coefficients" })
        }
    }

    /// Predictions for `x`, `n x inputs` in the columns' own units; values outside a range are cut to it.
    ///
    /// # Errors
    /// What [`FeatureModel::check`] finds, another number of columns, a value that is not finite.
    pub fn predict(&self, x: &DMatrix<f64>) -> Result<DVector<f64>, FeatureError> {
        self.check(None)?;
        size("input columns", self.map.inputs(), x.ncols())?;
        if !x.iter().all(|value| value.is_finite()) {
            return Err(FeatureError::NotFinite { what: "table" });
        }
        let scaled = DMatrix::from_fn(x.nrows(), x.ncols(), |i, j| self.ranges[j].scale(x[(i, j)]));
        let coefficients = DVector::from_column_slice(&self.coefficients);
        let half = 0.5 * (self.outcome.high - self.outcome.low);
        let centre = self.outcome.low + half;
        Ok((self.map.rows(&scaled)? * coefficients).map(|unit| centre + half * unit))
    }
}
