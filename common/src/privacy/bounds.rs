//! Public bounds, and the only constructors through which values enter privacy code.
//!
//! A constructor is total: whatever comes, it returns rows of norm at most one on an integer grid. A row that holds a
//! value without meaning becomes the zero row and leaves every other row as it is; refusing a run because of one row
//! would itself tell something about that row.
//!
//! Rows are integers in units of 2^-15 and residuals integers with 17 bits, so every product and every partial sum is
//! exact, whatever the order or the number of threads (and exact in doubles up to a million rows). The sensitivities in
//! [`crate::privacy::mechanism`] are proved for these integers and hold for the machine's arithmetic without any slack.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use nalgebra::{DMatrix, DVector};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::linalg::packed_gram;

/// Rows are multiples of 2^-15.
pub const ROW_BITS: i32 = 15;

/// Residuals are multiples of 2^-17 of the power of two at or above their bound.
pub const RESIDUAL_BITS: i32 = 17;

/// By how much rounding may lengthen a row of norm one; its integers are held at norm one whatever it is.
const ROUNDING: f64 = 1e-12;

const UNIT: i64 = 1 << ROW_BITS;

/// What the study states in public about one column.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnBounds {
    /// Values lie between `low` and `high`; others are moved to the nearer end. Centre and scale are those of the range.
    Range {
        /// Smallest value.
        low: f64,
        /// Largest value.
        high: f64,
    },
    /// Values are centred and scaled by public constants and bounded through the row norm alone.
    Centred {
        /// Public centre.
        centre: f64,
        /// Public scale, for instance a published standard deviation.
        scale: f64,
    },
    /// A column of zeros and ones that belongs to a declared level.
    Indicator,
}

impl ColumnBounds {
    fn centre_and_scale(&self) -> (f64, f64) {
        match *self {
            // Halving first keeps ranges near the largest number finite.
            ColumnBounds::Range { low, high } => (low / 2.0 + high / 2.0, high / 2.0 - low / 2.0),
            ColumnBounds::Centred { centre, scale } => (centre, scale),
            ColumnBounds::Indicator => (0.0, 1.0),
        }
    }

    fn clamp(&self, value: f64) -> f64 {
        match *self {
            ColumnBounds::Range { low, high } => value.clamp(low, high),
            ColumnBounds::Centred { .. } => value,
            ColumnBounds::Indicator => value.clamp(0.0, 1.0),
        }
    }
}

/// Why public bounds were refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum BoundsError {
    /// No column has bounds.
    #[error("no column has public bounds")]
    Empty,
    /// A column has no bounds.
    #[error("column {column} has no public bounds: a private run needs them from the study, never from the data")]
    Missing {
        /// Column name.
        column: String,
    },
    /// The outcome has no range; it is cut at one, so that a centre and a scale would not do.
    #[error("the outcome {column} has no public range")]
    OutcomeRange {
        /// Column name.
        column: String,
    },
    /// Bounds that would be read off the data.
    #[error("bounds of column {column} are {word:?}: bounds taken from the data are a release of the data")]
    DataDerived {
        /// Column name.
        column: String,
        /// What the study says instead of two numbers.
        word: String,
    },
    /// A range that is not finite or not increasing.
    #[error("bounds of column {column} must be two finite numbers in increasing order, got {low} and {high}")]
    Range {
        /// Column name.
        column: String,
        /// Stated lower end.
        low: f64,
        /// Stated upper end.
        high: f64,
    },
    /// A centre or scale that is not finite, or a scale that is not positive.
    #[error("column {column} needs a finite centre and a positive finite scale, got {centre} and {scale}")]
    Scale {
        /// Column name.
        column: String,
        /// Stated centre.
        centre: f64,
        /// Stated scale.
        scale: f64,
    },
    /// A row norm that is not a positive number.
    #[error("the row norm must be a positive finite number, got {radius}")]
    Radius {
        /// Stated norm.
        radius: f64,
    },
    /// A formula of which a term looks at data or has no bounds.
    #[error("{sentence}")]
    Formula {
        /// Why, with the place.
        sentence: String,
    },
    /// An intercept entry outside (0, 1).
    #[error("the intercept's share of the row norm must lie between 0 and 1, got {share}")]
    Intercept {
        /// Stated share.
        share: f64,
    },
}

/// Public bounds of one party's rows: after centring and scaling, a row is divided by `radius` and shortened to norm one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RowBounds {
    names: Vec<String>,
    columns: Vec<ColumnBounds>,
    radius: f64,
    intercept: Option<f64>,
}

impl RowBounds {
    /// Checks the bounds of the columns, in the order of the design matrix without its intercept.
    ///
    /// `radius` is the public norm at which scaled rows are cut; without one, the root of the number of columns is used, which
    /// no row of ranged columns exceeds. `intercept` is the constant that the intercept takes in a row of norm one; the
    /// rest of the row is then cut at `sqrt(1 - intercept^2)`.
    ///
    /// # Errors
    ///
    /// Names the first column whose bounds are missing, infinite, empty or not increasing.
    pub fn new(
        columns: Vec<(String, ColumnBounds)>,
        radius: Option<f64>,
        intercept: Option<f64>,
    ) -> Result<RowBounds, BoundsError> {
        if columns.is_empty() {
            return Err(BoundsError::Empty);
        }
        for (name, bounds) in &columns {
            let column = name.clone();
            match *bounds {
                ColumnBounds::Range { low, high } if !(low.is_finite() && high.is_finite() && low < high) => {
                    return Err(BoundsError::Range { column, low, high });
                }
                ColumnBounds::Centred { centre, scale }
                    if !(centre.is_finite() && scale.is_finite() && scale > 0.0) =>
                {
                    return Err(BoundsError::Scale { column, centre, scale });
                }
                ColumnBounds::Range { .. } | ColumnBounds::Centred { .. } | ColumnBounds::Indicator => {}
            }
        }
        let radius = radius.unwrap_or_else(|| (columns.len() as f64).sqrt());
        if !(radius.is_finite() && radius > 0.0) {
            return Err(BoundsError::Radius { radius });
        }
        if let Some(share) = intercept
            && !(share > 0.0 && share < 1.0)
        {
            return Err(BoundsError::Intercept { share });
        }
        let (names, columns) = columns.into_iter().unzip();
        // The intercept sits on the grid of the rows, so that the same constant is meant everywhere.
        let intercept =
            intercept.map(|share| (share * UNIT as f64).round().clamp(1.0, UNIT as f64 - 1.0) / UNIT as f64);
        Ok(RowBounds { names, columns, radius, intercept })
    }

    /// Reads what a study says about one column: two numbers, or a word that is refused.
    ///
    /// # Errors
    ///
    /// [`BoundsError::DataDerived`] for a word, [`BoundsError::Range`] for anything but two increasing numbers.
    pub fn range(column: &str, stated: Result<&[f64], &str>) -> Result<ColumnBounds, BoundsError> {
        match stated {
            Ok(&[low, high]) if low.is_finite() && high.is_finite() && low < high => {
                Ok(ColumnBounds::Range { low, high })
            }
            Ok(numbers) => Err(BoundsError::Range {
                column: column.to_owned(),
                low: numbers.first().copied().unwrap_or(f64::NAN),
                high: numbers.get(1).copied().unwrap_or(f64::NAN),
            }),
            Err(word) => Err(BoundsError::DataDerived { column: column.to_owned(), word: word.to_owned() }),
        }
    }

    /// Entries of a row, the intercept included.
    pub fn width(&self) -> usize {
        self.columns.len() + usize::from(self.intercept.is_some())
    }

    /// The constant that the intercept takes in a row, if there is one; it is the first entry.
    pub fn intercept(&self) -> Option<f64> {
        self.intercept
    }

    /// The public norm at which scaled rows are cut.
    pub fn radius(&self) -> f64 {
        self.radius
    }

    /// Column names, without the intercept.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The affine map from coefficients of unit rows to coefficients on the original scale of columns and outcome.
    pub fn original_scale(&self, outcome: &OutcomeBounds) -> OriginalScale {
        let rest = self.intercept.map_or(1.0, |share| (1.0 - share * share).sqrt());
        let offset = usize::from(self.intercept.is_some());
        let half = outcome.half_range();
        let mut matrix = DMatrix::zeros(self.columns.len() + 1, self.width());
        if let Some(share) = self.intercept {
            matrix[(0, 0)] = half * share;
        }
        for (index, column) in self.columns.iter().enumerate() {
            let (centre, scale) = column.centre_and_scale();
            let slope = half * rest / (scale * self.radius);
            matrix[(index + 1, index + offset)] = slope;
            matrix[(0, index + offset)] = -slope * centre;
        }
        OriginalScale { matrix, centre: outcome.centre() }
    }
}

/// Coefficients of unit rows to coefficients on the original scale.
#[derive(Debug, Clone, PartialEq)]
pub struct OriginalScale {
    matrix: DMatrix<f64>,
    centre: f64,
}

impl OriginalScale {
    /// This block's contribution to the intercept, then its slopes. The outcome's centre is not yet added: it belongs to
    /// the study and not to one block.
    pub fn coefficients(&self, unit: &DVector<f64>) -> DVector<f64> {
        &self.matrix * unit
    }

    /// The covariance that belongs to [`OriginalScale::coefficients`].
    pub fn covariance(&self, unit: &DMatrix<f64>) -> DMatrix<f64> {
        &self.matrix * unit * self.matrix.transpose()
    }

    /// What to add to the sum of the blocks' intercepts.
    pub fn outcome_centre(&self) -> f64 {
        self.centre
    }
}

/// Public range of the outcome.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct OutcomeBounds {
    low: f64,
    high: f64,
}

impl OutcomeBounds {
    /// Checks the outcome's range.
    ///
    /// # Errors
    ///
    /// A range that is not finite or not increasing.
    pub fn new(low: f64, high: f64) -> Result<OutcomeBounds, BoundsError> {
        if low.is_finite() && high.is_finite() && low < high {
            Ok(OutcomeBounds { low, high })
        } else {
            Err(BoundsError::Range { column: "the outcome".to_owned(), low, high })
        }
    }

    /// Those of an outcome that is 0 or 1.
    pub const fn of_events() -> OutcomeBounds {
        OutcomeBounds { low: 0.0, high: 1.0 }
    }

    /// Those that leave coefficients of unit rows in their unit.
    pub const fn unit() -> OutcomeBounds {
        OutcomeBounds { low: -1.0, high: 1.0 }
    }

    /// The lower end.
    pub fn lowest(&self) -> f64 {
        self.low
    }

    /// Middle of the range.
    pub fn centre(&self) -> f64 {
        self.low / 2.0 + self.high / 2.0
    }

    /// Half the width of the range: the unit in which outcomes are counted.
    pub fn half_range(&self) -> f64 {
        self.high / 2.0 - self.low / 2.0
    }

    fn scale(&self, value: f64) -> f64 {
        if value.is_finite() { ((value - self.centre()) / self.half_range()).clamp(-1.0, 1.0) } else { 0.0 }
    }
}

/// Outcomes within [-1, 1] after public centring and scaling.
#[derive(Clone, PartialEq)]
pub struct ClippedOutcome {
    values: Vec<f64>,
}

impl ClippedOutcome {
    /// Centres, scales and cuts; a value without meaning becomes 0.
    pub fn new(bounds: &OutcomeBounds, values: &[f64]) -> ClippedOutcome {
        ClippedOutcome { values: values.iter().map(|&value| bounds.scale(value)).collect() }
    }

    /// The values, each within [-1, 1].
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// The values as integers in units of 2^-15, truncated towards zero: at most 2^15 in size.
    pub(crate) fn integers(&self) -> Vec<i64> {
        self.values.iter().map(|value| (value * UNIT as f64).trunc() as i64).collect()
    }
}

// Sizes only: a log must not hold anybody's outcome.
impl fmt::Debug for ClippedOutcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ClippedOutcome({} rows)", self.values.len())
    }
}

/// Rows of norm at most one, as integers in units of 2^-15.
#[derive(Clone, PartialEq)]
pub struct ClippedRows {
    width: usize,
    /// Shared by clones: a table of rows is large.
    entries: Arc<Vec<i32>>,
    /// The scaled rows before shortening and quantising, for residuals that are cut themselves; empty where not needed.
    whole: Vec<f64>,
    intercept: Option<i64>,
    invalid: usize,
    shortened: usize,
}

impl ClippedRows {
    /// Centres, scales, shortens and quantises the rows of `values` (`n x p`, without intercept column).
    ///
    /// A row with a value that is not finite becomes the zero row, and so does every row when the number of columns is
    /// not the declared one. Quantising truncates towards zero, so it never lengthens a row.
    pub fn new(bounds: &RowBounds, values: &DMatrix<f64>) -> ClippedRows {
        ClippedRows::where_valid(bounds, values, false, |_| true)
    }

    /// Rows and their outcomes; a row whose outcome has no meaning becomes the zero row with outcome 0.
    ///
    /// An outcome vector of another length leaves the surplus rows invalid. The scaled rows are kept beside the clipped
    /// ones: a residual may use them, because it is cut by its own bound.
    pub fn with_outcome(
        bounds: &RowBounds,
        values: &DMatrix<f64>,
        outcome_bounds: &OutcomeBounds,
        outcome: &[f64],
    ) -> (ClippedRows, ClippedOutcome) {
        let rows =
            ClippedRows::where_valid(bounds, values, true, |row| outcome.get(row).is_some_and(|y| y.is_finite()));
        let kept = (0..rows.len())
            .map(|row| if rows.is_zero(row) { 0.0 } else { outcome.get(row).map_or(0.0, |&y| outcome_bounds.scale(y)) })
            .collect();
        (rows, ClippedOutcome { values: kept })
    }

    fn where_valid(
        bounds: &RowBounds,
        values: &DMatrix<f64>,
        keep_whole: bool,
        valid: impl Fn(usize) -> bool,
    ) -> ClippedRows {
        let width = bounds.width();
        let intercept = bounds.intercept.map(|share| (share * UNIT as f64).round() as i64);
        let first = usize::from(intercept.is_some());
        let limit = UNIT * UNIT - intercept.map_or(0, |entry| entry * entry);
        let mut entries = vec![0i32; values.nrows() * width];
        let mut whole = vec![0.0; if keep_whole { entries.len() } else { 0 }];
        let rest = (limit as f64).sqrt() / UNIT as f64;
        let (mut invalid, mut shortened) = (0, 0);
        let mut scaled = vec![0.0; bounds.columns.len()];
        for (row, target) in entries.chunks_exact_mut(width).enumerate() {
            let sound = values.ncols() == bounds.columns.len()
                && valid(row)
                && (0..values.ncols()).all(|column| values[(row, column)].is_finite());
            if !sound {
                invalid += 1;
                continue;
            }
            for (column, (slot, column_bounds)) in scaled.iter_mut().zip(&bounds.columns).enumerate() {
                let (centre, scale) = column_bounds.centre_and_scale();
                *slot = (column_bounds.clamp(values[(row, column)]) - centre) / scale / bounds.radius;
            }
            tame(&mut scaled);
            if let Some(kept) = whole.get_mut(row * width..(row + 1) * width) {
                kept[first..].iter_mut().zip(&scaled).for_each(|(slot, value)| *slot = value * rest);
                if let Some(entry) = intercept {
                    kept[0] = entry as f64 / UNIT as f64;
                }
            }
            shortened += usize::from(shorten(&scaled, &mut target[first..], limit));
            if let Some(entry) = intercept {
                target[0] = entry as i32;
            }
        }
        ClippedRows { width, entries: Arc::new(entries), whole, intercept, invalid, shortened }
    }

    /// Rows mapped by a public matrix (`width x width`) and shortened to norm one again; for whitening by a table that
    /// was released before. The rows before shortening are mapped where they were kept. The zero row stays the zero row.
    pub fn mapped(&self, map: &DMatrix<f64>) -> ClippedRows {
        let width = self.width;
        let mut entries = vec![0i32; self.entries.len()];
        let shortened = entries
            .par_chunks_exact_mut(width.max(1))
            .enumerate()
            .map(|(row, target)| {
                let source: Vec<f64> = self.row(row).collect();
                let mut scaled: Vec<f64> = (0..width)
                    .map(|index| {
                        source.iter().enumerate().map(|(column, x)| map.get((index, column)).unwrap_or(&0.0) * x).sum()
                    })
                    .collect();
                tame(&mut scaled);
                usize::from(shorten(&scaled, target, UNIT * UNIT))
            })
            .sum();
        ClippedRows {
            width,
            entries: Arc::new(entries),
            whole: Vec::new(),
            intercept: None,
            invalid: self.invalid,
            shortened,
        }
    }

    /// One row before shortening where that was kept, else the clipped row.
    fn row(&self, row: usize) -> impl Iterator<Item = f64> {
        let range = row * self.width..(row + 1) * self.width;
        let whole = self.whole.get(range.clone()).unwrap_or(&[]);
        let clipped = if whole.is_empty() { &self.entries[range] } else { &[] };
        whole.iter().copied().chain(clipped.iter().map(|&entry| f64::from(entry) / UNIT as f64))
    }

    /// `x_i' beta` for every row before shortening, where that was kept.
    pub(crate) fn whole_products(&self, beta: &DVector<f64>) -> Vec<f64> {
        (0..self.len()).into_par_iter().map(|row| self.row(row).zip(beta.iter()).map(|(x, b)| x * b).sum()).collect()
    }

    /// The length of every row before shortening, where that was kept, after a public map.
    pub(crate) fn lengths(&self, map: Option<&DMatrix<f64>>) -> Vec<f64> {
        let length = |row: usize| {
            let source = DVector::from_iterator(self.width, self.row(row));
            map.map_or_else(|| source.norm(), |map| (map * &source).norm())
        };
        (0..self.len()).into_par_iter().map(length).collect()
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.entries.len() / self.width.max(1)
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Entries of a row, the intercept included.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Whether the first entry is the intercept.
    pub fn has_intercept(&self) -> bool {
        self.intercept.is_some()
    }

    /// Rows that held no usable value and count as zero rows. For the party's own eyes only: the number is private.
    pub fn invalid(&self) -> usize {
        self.invalid
    }

    /// Rows that were longer than the declared norm. For the party's own eyes only: the number is private.
    pub fn shortened(&self) -> usize {
        self.shortened
    }

    /// A keyed digest of all rows, by which a party knows its own rows again.
    pub(crate) fn fingerprint(&self, key: &[u8; 32]) -> [u8; 32] {
        let mut digest = Sha256::new_with_prefix(key);
        digest.update((self.width as u64).to_le_bytes());
        let mut bytes = [[0; size_of::<i32>()]; 1024];
        for entries in self.entries.chunks(bytes.len()) {
            bytes.iter_mut().zip(entries).for_each(|(bytes, entry)| *bytes = entry.to_le_bytes());
            digest.update(bytes[..entries.len()].as_flattened());
        }
        digest.finalize().into()
    }

    /// The constant that the intercept takes in a row.
    pub(crate) fn intercept_entry(&self) -> f64 {
        self.intercept.unwrap_or(0) as f64 / UNIT as f64
    }

    /// Some rows one behind the other, as integers in units of 2^-15.
    pub(crate) fn integers(&self, rows: Range<usize>) -> &[i32] {
        &self.entries[rows.start * self.width..rows.end * self.width]
    }

    fn is_zero(&self, row: usize) -> bool {
        self.entries[row * self.width..(row + 1) * self.width].iter().all(|&entry| entry == 0)
    }

    /// `x_i' beta` for every row, counted from entry `first`.
    pub(crate) fn products(&self, beta: &DVector<f64>, first: usize) -> Vec<f64> {
        let beta: Vec<f64> = beta.iter().map(|b| b / UNIT as f64).collect();
        self.entries
            .par_chunks_exact(self.width)
            .map(|row| row.iter().zip(&beta).skip(first).map(|(&entry, b)| f64::from(entry) * b).sum())
            .collect()
    }

    /// `sum x_i x_i'` in units of 2^-30: the upper triangle, row by row.
    pub(crate) fn gram(&self) -> Vec<i128> {
        /// Products are at most 2^30 in size: their sums over so many rows are exact in doubles, whatever the order.
        const ROWS: usize = 1 << 20;
        let width = self.width;
        let mut sums = vec![0_i128; width * (width + 1) / 2];
        for rows in self.entries.chunks(width.max(1) * ROWS) {
            let table = packed_gram(rows.len() / width, width, |some, packed| {
                append_columns(&rows[some.start * width..some.end * width], width, 1.0, packed);
            });
            let upper = (0..width).flat_map(|row| (row..width).map(move |column| (row, column)));
            sums.iter_mut().zip(upper).for_each(|(sum, place)| *sum += table[place] as i128);
        }
        sums
    }

    /// `sum x_i r_i` in units of 2^-15 times the unit of the residuals.
    pub(crate) fn cross(&self, residuals: &ClippedResiduals) -> Vec<i128> {
        self.along(|row| residuals.entries.get(row).copied().unwrap_or(0).into())
    }

    /// `sum x_i r_i` for whole numbers `r_i` of at most 2^17 in size.
    pub(crate) fn along(&self, number: impl Fn(usize) -> f64 + Sync) -> Vec<i128> {
        /// Products are at most 2^32 in size: their sums over so many rows are exact in doubles, whatever the order.
        const ROWS: usize = 1 << 16;
        let width = self.width;
        self.entries
            .par_chunks(width.max(1) * ROWS)
            .enumerate()
            .map(|(block, entries)| {
                let mut sums = vec![0.0; width];
                for (offset, row) in entries.chunks_exact(width).enumerate() {
                    let number = number(block * ROWS + offset);
                    sums.iter_mut().zip(row).for_each(|(sum, &entry)| *sum += f64::from(entry) * number);
                }
                sums.into_iter().map(|sum| sum as i128).collect::<Vec<i128>>()
            })
            .reduce(
                || vec![0_i128; width],
                |mut left, right| {
                    left.iter_mut().zip(right).for_each(|(total, part)| *total += part);
                    left
                },
            )
    }

    /// Appends some rows column by column, in units of 2^-15 times a factor.
    pub(crate) fn append(&self, rows: Range<usize>, factor: f64, out: &mut Vec<f64>) {
        append_columns(self.integers(rows), self.width, factor, out);
    }
}

/// Appends rows of whole numbers column by column, each times a factor.
fn append_columns(rows: &[i32], width: usize, factor: f64, out: &mut Vec<f64>) {
    /// Rows that are read beside each other.
    const TOGETHER: usize = 8;
    let (begin, count) = (out.len(), rows.len() / width.max(1));
    out.resize(begin + rows.len(), 0.0);
    let out = &mut out[begin..];
    let (all, some) = (rows.chunks_exact(width.max(1) * TOGETHER), count % TOGETHER);
    let last = all.remainder();
    for (part, rows) in all.enumerate() {
        let rows: [&[i32]; TOGETHER] = std::array::from_fn(|row| &rows[row * width..(row + 1) * width]);
        for column in 0..width {
            let out = &mut out[column * count + part * TOGETHER..][..TOGETHER];
            out.iter_mut().zip(rows).for_each(|(out, row)| *out = f64::from(row[column]) * factor);
        }
    }
    for (row, entries) in last.chunks_exact(width.max(1)).enumerate() {
        let at = count - some + row;
        entries.iter().enumerate().for_each(|(column, entry)| out[column * count + at] = f64::from(*entry) * factor);
    }
}

// Sizes only: a log must not hold anybody's row.
impl fmt::Debug for ClippedRows {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ClippedRows({} x {})", self.len(), self.width)
    }
}

/// Quotients beyond 1e150 point in one direction only; capping them keeps squares and products finite.
fn tame(scaled: &mut [f64]) {
    for value in scaled.iter_mut() {
        *value = if value.is_nan() { 0.0 } else { value.clamp(-1e150, 1e150) };
    }
}

/// Shortens `scaled` to a norm of `sqrt(limit)` grid units and truncates it onto the grid; says whether it was too long.
fn shorten(scaled: &[f64], target: &mut [i32], limit: i64) -> bool {
    let norm = scaled.iter().map(|value| value * value).sum::<f64>().sqrt();
    let rest = (limit as f64).sqrt();
    // A corner of the ranges has the default norm but for rounding.
    let long = norm > 1.0 + ROUNDING;
    let factor = if long { rest / norm } else { rest };
    for (slot, value) in target.iter_mut().zip(scaled.iter()) {
        *slot = (value * factor).trunc() as i32;
    }
    // The factor is rounded, so a row of full length may land one grid unit outside; the integer test is what counts.
    while target.iter().map(|&entry| i64::from(entry) * i64::from(entry)).sum::<i64>() > limit {
        if let Some(largest) = target.iter_mut().max_by_key(|entry| entry.unsigned_abs()) {
            *largest -= largest.signum();
        }
    }
    long
}

/// Residuals of absolute value at most a public bound, as integers.
#[derive(Clone, PartialEq)]
pub struct ClippedResiduals {
    entries: Vec<i32>,
    exponent: i32,
    bound: f64,
}

impl ClippedResiduals {
    /// Cuts every residual at `bound`; a value without meaning becomes 0, and a bound without meaning makes all of them 0.
    pub fn clip(values: &[f64], bound: f64) -> ClippedResiduals {
        ClippedResiduals::build(values, bound, |value| value.clamp(-bound, bound))
    }

    /// Keeps residuals of absolute value at most `bound` and sets the others to 0.
    pub fn reject(values: &[f64], bound: f64) -> ClippedResiduals {
        ClippedResiduals::build(values, bound, |value| if value.abs() <= bound { value } else { 0.0 })
    }

    fn build(values: &[f64], bound: f64, keep: impl Fn(f64) -> f64) -> ClippedResiduals {
        if !(bound.is_finite() && bound > 1e-200) {
            return ClippedResiduals { entries: vec![0; values.len()], exponent: 0, bound: 0.0 };
        }
        let mut exponent = bound.log2().ceil() as i32;
        // The logarithm is rounded; the power of two must not lie below the bound.
        if 2f64.powi(exponent) < bound {
            exponent += 1;
        }
        let exponent = exponent - RESIDUAL_BITS;
        let step = 2f64.powi(exponent);
        let entries =
            values.iter().map(|&value| if value.is_nan() { 0 } else { (keep(value) / step).trunc() as i32 }).collect();
        ClippedResiduals { entries, exponent, bound }
    }

    /// The public bound.
    pub fn bound(&self) -> f64 {
        self.bound
    }

    /// Number of residuals.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The unit of the integers is 2 to this power.
    pub(crate) fn exponent(&self) -> i32 {
        self.exponent
    }
}

// Sizes only: a log must not hold anybody's residual.
impl fmt::Debug for ClippedResiduals {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ClippedResiduals({} rows, bound {})", self.entries.len(), self.bound)
    }
}

#[cfg(test)]
mod tests;
