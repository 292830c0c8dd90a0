//! From a query on clipped values to noise on a lattice.
//!
//! A [`Query`] is an exact value with its sensitivity beside the formula. [`release`] rounds it to multiples of a step
//! `g`, adds integers of a discrete Gaussian whose standard deviation is 2^40 steps, and publishes integers. Rounding
//! moves each of two neighbouring values by at most `g/2` per entry, so it adds `sqrt(d) g` to the sensitivity of `d`
//! entries; the noise is scaled for the sum of both.
//!
//! # Values beyond the lattice
//!
//! Integers have 64 bits, and a refusal would tell what one row did. So nothing that depends on a value ends a release: before the
//! noise every entry is cut at `2^62` steps, which is `2^22` standard deviations of its noise and a public number. Cutting an entry to an
//! interval brings no two values farther apart, so the sensitivities stand as they are. After the noise the sum saturates at
//! the ends of 64 bits, which is post-processing.
//!
//! # Sensitivities
//!
//! Neighbours replace one row; rows have norm at most 1, residuals absolute value at most `h`, outcomes at most 1.
//!
//! - `sum x x'`: `|xx' - zz'|^2 = |x|^4 + |z|^4 - 2 (x'z)^2 <= 2` in Frobenius norm, so sqrt 2. The released vector is
//!   the upper triangle with the off-diagonal multiplied by sqrt 2 before rounding: its Euclidean norm is the Frobenius
//!   norm, and the noise is isotropic there (variance sigma^2 on the diagonal, sigma^2/2 off it).
//! - `sum x r`: `|xr - zq| <= |x||r| + |z||q| <= 2h`; with `r` fixed and only the row changing, `|r||x - z| <= 2h`.
//! - a message with one entry per row: given the coefficients, entry i depends on row i alone and lies in [-C, C]: 2C.
//!   Entries are cut at a multiple of the step, so rounding adds nothing.
//! - a histogram: one count leaves a cell and enters another: sqrt 2.
//! - `[sum x x', sum x y]`: `2 - 2c^2 + 2 + 2|c|` at cosine `c`, at most 4.5: sqrt 4.5.
//!
//! # A release that is free
//!
//! Let a protocol release the table `sum x x'` once with share `a` of the total (`2/sigma^2`), and vectors `sum x r` of the same
//! rows with shares that add up to `b`. For a neighbour pair with `D = |x - z|^2` (or `|x + z|^2`, whichever is larger
//! when residuals change too) the vectors cost `b D/4`. With `d = x - z`, `s = x + z`:
//! `|xx' - zz'|^2 = (|s|^2 |d|^2 + (s'd)^2)/2`. For fixed `D` this is convex in `|x|^2` and in `|z|^2`, so it is
//! largest at unit rows, where it is `(4 - D)D/2`, or at parallel rows, where it is at most `D(2 - sqrt D)^2`. Both
//! `a (4-D)D/4 + b D/4` and `a D (2 - sqrt D)^2/2 + b D/4` increase in `D` up to `D = 4` when `a <= b/4`, and there the
//! table's part is zero. So the worst pair pays `b`, and the table is free. [`ReleasePlan::with_free_table`] charges that.
//! It holds only while both use the same rows; after whitening they do not.

use std::fmt;

use nalgebra::{DMatrix, DVector};
use serde::{Deserialize, Serialize};

use crate::bounded::Bounded;
use crate::privacy::accountant::{ScaleError, add_charge, charged_mu, enough_for};
use crate::privacy::bounds::{ClippedResiduals, ClippedRows, ROW_BITS};
use crate::privacy::ledger::Permit;
use crate::privacy::sampler::{NoiseError, NoisePool};
use crate::secure::ring::Elements;

pub mod records;
pub mod share;

use self::share::ShareUnit;

/// The lattice step is sigma times this: 2^-40.
const STEP_PER_SIGMA: f64 = 1.0 / (1u64 << 40) as f64;

/// Where values are cut before the noise, in steps: half of the integers is left for the noise.
const LARGEST_STEPS: i64 = 1 << 62;

/// Rows whose sums always fit the integers of a query: 2^30 a product, 2^63 for the root of 2, 2^33 of them within 128 bits.
const MOST_ROWS: usize = 1 << 33;

/// `floor(sqrt(2) 2^62)`: rounded down, so multiplying by it never lengthens a vector beyond sqrt 2.
const ROOT_TWO: i128 = 6_521_908_912_666_391_106;
const ROOT_TWO_BITS: i32 = 62;

/// A value on an exact grid with its sensitivity.
pub struct Query {
    formula: &'static str,
    sensitivity: f64,
    payload: Payload,
}

enum Payload {
    /// Integers in units of `2^exponent`.
    Exact { values: Vec<i128>, exponent: i32 },
    /// One number per row, each within `[-bound, bound]`, and a public number that is added to all after the noise.
    PerRow { values: Vec<f64>, bound: f64, shift: f64 },
    /// A share of exact integers, which takes the noise as it is.
    Share { share: Elements, unit: ShareUnit },
}

impl Query {
    /// `sum x x'`, sensitivity sqrt 2 in Frobenius norm.
    ///
    /// # Errors
    ///
    /// More rows than 2^33, where the integers would no longer fit.
    pub fn gram(rows: &ClippedRows) -> Result<Query, ReleaseError> {
        few_enough(rows)?;
        let values = triangle(&rows.gram(), rows.width());
        Ok(Query {
            formula: "sqrt(2): |xx' - zz'| in Frobenius norm, |x| <= 1",
            sensitivity: std::f64::consts::SQRT_2.next_up(),
            payload: Payload::Exact { values, exponent: -2 * ROW_BITS - ROOT_TWO_BITS },
        })
    }

    /// `sum x r`, sensitivity `2h`, where `h` is the bound of the residuals.
    pub fn score(rows: &ClippedRows, residuals: &ClippedResiduals) -> Query {
        Query {
            formula: "2 h: |xr - zq|, |x| <= 1, |r| <= h",
            sensitivity: 2.0 * residuals.bound(),
            payload: Payload::Exact { values: rows.cross(residuals), exponent: residuals.exponent() - ROW_BITS },
        }
    }

    /// One number per row: `x_i' beta` cut at `bound`, sensitivity `2 bound`. The entry of the intercept is left out of
    /// the cut and added, cut at 1, after the noise, because given the coefficients it is public.
    pub fn message(rows: &ClippedRows, beta: &DVector<f64>, bound: f64) -> Query {
        let first = usize::from(rows.has_intercept());
        let share = if rows.has_intercept() { rows.intercept_entry() } else { 0.0 };
        let shift = beta.get(0).copied().unwrap_or(0.0) * share;
        Query {
            formula: "2 C: only the entry of the replaced row moves, within [-C, C]",
            sensitivity: 2.0 * bound,
            payload: Payload::PerRow {
                values: rows.products(beta, first),
                bound,
                shift: if shift.is_finite() { shift.clamp(-1.0, 1.0) } else { 0.0 },
            },
        }
    }

    /// Counts of a histogram with public cells, sensitivity sqrt 2. `cell_of` gives each row's cell; a cell outside
    /// counts in the last one.
    pub fn histogram(cells: usize, cell_of: impl Iterator<Item = usize>) -> Query {
        let mut values = vec![0i128; cells.max(1)];
        for cell in cell_of {
            values[cell.min(cells.max(1) - 1)] += 1;
        }
        Query {
            formula: "sqrt(2): one count moves from a cell to another",
            sensitivity: std::f64::consts::SQRT_2.next_up(),
            payload: Payload::Exact { values, exponent: 0 },
        }
    }

    /// A value that a method has bounded: its sensitivity is proved there.
    pub fn bounded(value: &Bounded) -> Query {
        Query {
            formula: value.formula(),
            sensitivity: value.sensitivity(),
            payload: Payload::Exact { values: value.integers().to_vec(), exponent: value.exponent() },
        }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        match &self.payload {
            Payload::Exact { values, .. } => values.len(),
            Payload::PerRow { values, .. } => values.len(),
            Payload::Share { share, .. } => share.count(),
        }
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The l2 sensitivity before rounding.
    pub fn sensitivity(&self) -> f64 {
        self.sensitivity
    }

    /// The formula of the sensitivity, in words for reports.
    pub fn formula(&self) -> &'static str {
        self.formula
    }

    /// Rounding in units of the lattice step that the sensitivity must grow by.
    fn slack(&self) -> f64 {
        match &self.payload {
            Payload::Exact { values, .. } => (values.len() as f64).sqrt().next_up(),
            Payload::PerRow { .. } | Payload::Share { .. } => 0.0,
        }
    }

    /// Standard deviation of the noise, what the release costs, and the lattice step.
    fn scale(&self, sensitivity: f64, mu: f64) -> Result<(f64, f64, f64), ScaleError> {
        match &self.payload {
            Payload::Exact { .. } | Payload::PerRow { .. } => {
                let (sigma, reached) = scale_for(sensitivity, self.slack(), mu)?;
                Ok((sigma, reached, sigma * STEP_PER_SIGMA))
            }
            Payload::Share { share, unit } => {
                let (sigma, reached) = unit.within(share.count(), mu)?;
                Ok((sigma, reached, unit.step()))
            }
        }
    }

    /// The value on the lattice, cut, before noise. What it is says nothing about whether it can be had: `None` is for a step that is
    /// not a positive normal number.
    fn on_lattice(&self, step: f64) -> Option<Vec<i64>> {
        let (mantissa, step_exponent) = decompose(step)?;
        Some(match &self.payload {
            Payload::Exact { values, exponent } => values
                .iter()
                .map(|&value| {
                    let steps = divide_rounding(value.unsigned_abs(), exponent - step_exponent, mantissa);
                    if value < 0 { -steps } else { steps }
                })
                .collect(),
            Payload::PerRow { values, bound, .. } => {
                // Whole numbers that a double holds; a bound of more steps than that is cut to it, as the sensitivity allows.
                let limit = (bound / step).next_down().floor().min((1u64 << 52) as f64).max(0.0);
                let cut =
                    |value: f64| if value.is_nan() { 0 } else { (value / step).round().clamp(-limit, limit) as i64 };
                values.iter().map(|&value| cut(value)).collect()
            }
            // Integers of a ring, which are on no real lattice before they open.
            Payload::Share { .. } => return None,
        })
    }

    fn public_shift(&self, step: f64) -> i64 {
        match self.payload {
            Payload::Exact { .. } | Payload::Share { .. } => 0,
            // The shift is at most 1, and a saturating cast keeps any step sound.
            Payload::PerRow { shift, .. } => (shift / step).round() as i64,
        }
    }

    /// The value on the lattice with noise, and the public shift; saturated, whatever the value.
    fn noised(&self, step: f64, pool: &mut NoisePool) -> Result<Vec<i64>, ReleaseError> {
        if let Payload::Share { share, unit } = &self.payload {
            return share::noised(share, unit, pool);
        }
        let values = self.on_lattice(step).ok_or(ScaleError::Sigma { sigma: f64::NAN, step })?;
        let (noise, shift) = (pool.take(values.len())?, self.public_shift(step));
        let add = |(value, noise): (i64, i64)| value.saturating_add(noise).saturating_add(shift);
        Ok(values.into_iter().zip(noise).map(add).collect())
    }
}

/// Whether sums over a given number of rows fit; the number of rows is public.
fn few_enough(rows: &ClippedRows) -> Result<(), ReleaseError> {
    if rows.len() <= MOST_ROWS { Ok(()) } else { Err(ReleaseError::TooManyRows { rows: rows.len() }) }
}

// Sizes only: the value is what the noise is there to hide.
impl fmt::Debug for Query {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Query({} entries, sensitivity {})", self.len(), self.sensitivity)
    }
}

/// One release of a protocol, as planned from public facts: what it is and which share of the budget it has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedRelease {
    /// What is released, for instance `X'X` or `X'r, round 2`.
    pub label: String,
    /// Largest allowed sensitivity over sigma.
    pub mu: f64,
}

/// Every release of a protocol with the charge for all of them, fixed before anything is computed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReleasePlan {
    releases: Vec<PlannedRelease>,
    charge: f64,
    formula: String,
}

impl ReleasePlan {
    /// A plan that is charged the plain sum of `mu^2`.
    pub fn new(releases: Vec<PlannedRelease>) -> ReleasePlan {
        let charge = releases.iter().fold(0.0, |sum, release| add_charge(sum, (release.mu * release.mu).next_up()));
        ReleasePlan { releases, charge, formula: "sum of (sensitivity/sigma)^2".to_owned() }
    }

    /// A plan in which the table `X'X` (release `table`) is free beside the vectors `X'r` of the same rows (`vectors`);
    /// `entries` is the number of entries of all of these together. The proof stands at the head of this file. Falls
    /// back to the plain sum where its condition does not hold.
    pub fn with_free_table(
        releases: Vec<PlannedRelease>,
        table: usize,
        vectors: &[usize],
        entries: usize,
    ) -> ReleasePlan {
        let square = |index: usize| releases.get(index).map_or(0.0, |release| release.mu * release.mu);
        let covering: f64 = vectors.iter().map(|&index| square(index)).sum();
        let holds = square(table) <= 0.25 * (1.0 - 1e-9) * covering && !vectors.contains(&table);
        if !holds {
            return ReleasePlan::new(releases);
        }
        let rest = (0..releases.len())
            .filter(|&index| index != table)
            .fold(0.0, |sum, index| add_charge(sum, square(index).next_up()));
        // The proof is about the values before rounding; their rounding is at most sqrt(entries) steps in the stacked
        // norm, which adds to the root.
        let root = (rest.sqrt().next_up() + free_table_rounding(entries)).next_up();
        ReleasePlan {
            releases,
            charge: (root * root).next_up().next_up(),
            formula: "sum of (sensitivity/sigma)^2 without X'X, which is free beside X'r".to_owned(),
        }
    }

    /// The releases of several parts of the rows, part by part, charged at the maximum over the parts (parallel composition). Every row lies in one part
    /// and stays there whatever its values, as when parts are cut by row number: replacing a row then moves the releases of
    /// its part only, and all others have the same law for both neighbours.
    pub fn of_parts(parts: &[ReleasePlan]) -> ReleasePlan {
        if let [only] = parts {
            return only.clone();
        }
        let numbered = |(number, part): (usize, &ReleasePlan)| {
            let name = move |label: &str| format!("part {number}: {label}");
            part.releases
                .iter()
                .map(|release| PlannedRelease { label: name(&release.label), mu: release.mu })
                .collect::<Vec<_>>()
        };
        let formula = parts.first().map_or("nothing", |part| &part.formula);
        ReleasePlan {
            releases: (1..).zip(parts).flat_map(numbered).collect(),
            charge: parts.iter().fold(0.0, |charge, part| charge.max(part.charge)),
            formula: format!("{formula}, of one part: every row is in one of {} parts", parts.len()),
        }
    }

    /// The releases in their order.
    pub fn releases(&self) -> &[PlannedRelease] {
        &self.releases
    }

    /// What all of them cost together, as a sum of `(sensitivity / sigma)^2`.
    pub fn charge(&self) -> f64 {
        self.charge
    }

    /// What a person with several rows costs: `k` rows are `k` neighbours away, wherever they lie, so mu grows by `k`
    /// and the charge by its square.
    pub fn charge_of(&self, rows_per_person: u32) -> f64 {
        let multiple = f64::from(rows_per_person);
        if multiple > 1.0 { ((self.charge * multiple).next_up() * multiple).next_up() } else { self.charge }
    }

    /// How the charge was computed, for reports.
    pub fn formula(&self) -> &str {
        &self.formula
    }
}

/// What rounding adds to the root of the charge in [`ReleasePlan::with_free_table`].
pub(crate) fn free_table_rounding(entries: usize) -> f64 {
    (entries as f64).sqrt().next_up() * STEP_PER_SIGMA
}

/// What a release was, for the report: no private value is in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    /// Which run.
    pub run: String,
    /// Position in the run's plan.
    pub index: u32,
    /// What was released.
    pub label: String,
    /// l2 sensitivity, rounding included.
    pub sensitivity: f64,
    /// How the sensitivity comes about.
    pub formula: String,
    /// Standard deviation of the noise.
    pub sigma: f64,
    /// Sensitivity over sigma with the lattice margin, rounded up.
    pub mu: f64,
}

/// A noised value that is not yet on disk: nothing can read or send it before the ledger has stored it.
pub struct Unsent {
    lattice: LatticeVector,
    receipt: Receipt,
}

impl Unsent {
    pub(in crate::privacy) fn receipt(&self) -> &Receipt {
        &self.receipt
    }

    pub(in crate::privacy) fn bytes(&self) -> Vec<u8> {
        self.lattice.encode()
    }

    /// As if a ledger had stored it: for tests outside this module.
    #[cfg(test)]
    pub(crate) fn unstored(self) -> NoisedRelease {
        self.stored()
    }

    pub(in crate::privacy) fn stored(self) -> NoisedRelease {
        NoisedRelease { lattice: self.lattice, receipt: self.receipt }
    }
}

// Sizes only: a value that is not stored must not show anywhere.
impl fmt::Debug for Unsent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Unsent({:?}, {} entries)", self.receipt.label, self.lattice.integers.len())
    }
}

/// A noised value whose bytes are on disk: it may leave the party, and whatever is computed from it is free.
#[derive(Debug, Clone, PartialEq)]
pub struct NoisedRelease {
    lattice: LatticeVector,
    receipt: Receipt,
}

impl NoisedRelease {
    pub(in crate::privacy) fn from_storage(bytes: &[u8], receipt: Receipt) -> Result<NoisedRelease, LatticeError> {
        Ok(NoisedRelease { lattice: LatticeVector::decode(bytes)?, receipt })
    }

    /// The value.
    pub fn lattice(&self) -> &LatticeVector {
        &self.lattice
    }

    /// What was released and what it cost.
    pub fn receipt(&self) -> &Receipt {
        &self.receipt
    }

    /// The bytes that are sent, and sent again on a repeat.
    pub fn bytes(&self) -> Vec<u8> {
        self.lattice.encode()
    }
}

/// Integers and the step they count.
#[derive(Clone, PartialEq)]
pub struct LatticeVector {
    step: f64,
    integers: Vec<i64>,
}

/// Bytes that are no lattice vector.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum LatticeError {
    /// The number of bytes does not fit.
    #[error("a noised value has 8 bytes for its step and 8 for each entry, got {bytes} bytes")]
    Length {
        /// How many came.
        bytes: usize,
    },
    /// Another number of entries than the protocol expects.
    #[error("expected {expected} noised entries, got {got}")]
    Entries {
        /// What the protocol expects.
        expected: usize,
        /// What came.
        got: usize,
    },
    /// The step is not a positive number.
    #[error("the lattice step must be a positive normal number, got {step}")]
    Step {
        /// What came.
        step: f64,
    },
    /// The step is not the planned one.
    #[error("expected the lattice step {expected:e} of the plan, got {got:e}")]
    OtherStep {
        /// What the plan says.
        expected: f64,
        /// What came.
        got: f64,
    },
}

impl LatticeVector {
    /// No entry, with the step 1: the place of a vector that is still coming.
    pub fn empty() -> LatticeVector {
        LatticeVector { step: 1.0, integers: Vec::new() }
    }

    /// Reads what a peer sent, or what was stored: the step and the integers, little-endian.
    ///
    /// # Errors
    ///
    /// A length that does not fit and a step that is not a positive normal number.
    pub fn decode(bytes: &[u8]) -> Result<LatticeVector, LatticeError> {
        let (words, rest) = bytes.as_chunks::<8>();
        let Some((first, words)) = words.split_first() else {
            return Err(LatticeError::Length { bytes: bytes.len() });
        };
        if !rest.is_empty() {
            return Err(LatticeError::Length { bytes: bytes.len() });
        }
        let step = f64::from_le_bytes(*first);
        if !(step.is_normal() && step > 0.0) {
            return Err(LatticeError::Step { step });
        }
        Ok(LatticeVector { step, integers: words.iter().map(|word| i64::from_le_bytes(*word)).collect() })
    }

    /// The step and the integers, 8 bytes each, little-endian.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(8 * (self.integers.len() + 1));
        bytes.extend_from_slice(&self.step.to_le_bytes());
        for integer in &self.integers {
            bytes.extend_from_slice(&integer.to_le_bytes());
        }
        bytes
    }

    /// Checks that it is what the plan expects.
    ///
    /// # Errors
    ///
    /// Another number of entries or another step.
    pub fn require(&self, entries: usize, step: f64) -> Result<(), LatticeError> {
        if self.integers.len() != entries {
            return Err(LatticeError::Entries { expected: entries, got: self.integers.len() });
        }
        if self.step != step {
            return Err(LatticeError::OtherStep { expected: step, got: self.step });
        }
        Ok(())
    }

    /// The lattice step.
    pub fn step(&self) -> f64 {
        self.step
    }

    /// The integers.
    pub fn integers(&self) -> &[i64] {
        &self.integers
    }

    /// The values, rounded to doubles; always finite.
    pub fn values(&self) -> Vec<f64> {
        self.integers.iter().map(|&k| (k as f64 * self.step).clamp(f64::MIN, f64::MAX)).collect()
    }

    /// The first `p(p+1)/2` entries as the symmetric matrix that [`Query::gram`] releases.
    pub fn symmetric(&self, width: usize) -> DMatrix<f64> {
        let mut values = self.values().into_iter();
        let mut matrix = DMatrix::zeros(width, width);
        for row in 0..width {
            for column in row..width {
                let value = values.next().unwrap_or(0.0);
                let value = if row == column { value } else { value * std::f64::consts::FRAC_1_SQRT_2 };
                matrix[(row, column)] = value;
                matrix[(column, row)] = value;
            }
        }
        matrix
    }

    /// The entries from `first` on, as a vector.
    pub fn tail(&self, first: usize) -> DVector<f64> {
        DVector::from_vec(self.values().split_off(first.min(self.integers.len())))
    }
}

// A message may hold a value per row; sizes are enough for a log.
impl fmt::Debug for LatticeVector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "LatticeVector({} entries, step {:e})", self.integers.len(), self.step)
    }
}

/// Why nothing was released.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ReleaseError {
    /// No share of the budget.
    #[error("release {label:?} has the share mu = {mu}, which buys no finite noise")]
    NoShare {
        /// What was to be released.
        label: String,
        /// Its share.
        mu: f64,
    },
    /// More rows than sums are proved for; their number is public.
    #[error("{rows} rows are more than the {MOST_ROWS} whose sums fit the integers of a release")]
    TooManyRows {
        /// How many.
        rows: usize,
    },
    /// No noise for this share.
    #[error(transparent)]
    Scale(#[from] ScaleError),
    /// No randomness.
    #[error(transparent)]
    Noise(#[from] NoiseError),
}

/// The noise standard deviation with which a value of this l2 sensitivity and number of rounded entries keeps `mu`, and
/// the `mu` that results, rounded up. The lattice step is sigma times 2^-40.
///
/// # Errors
///
/// A share that is not positive or too small for a given number of entries, or a sensitivity without meaning.
pub fn noise_scale(sensitivity: f64, rounded_entries: usize, mu: f64) -> Result<(f64, f64), ScaleError> {
    scale_for(sensitivity, (rounded_entries as f64).sqrt().next_up(), mu)
}

fn scale_for(sensitivity: f64, slack: f64, mu: f64) -> Result<(f64, f64), ScaleError> {
    let share = mu - slack * STEP_PER_SIGMA;
    let mut sigma = sensitivity / share;
    if !(share > 0.0 && sigma.is_normal() && (sigma * STEP_PER_SIGMA).is_normal()) {
        return Err(ScaleError::Sigma { sigma, step: sigma * STEP_PER_SIGMA });
    }
    // Of values that are rounded all entries may move, of one value a row only that of the row.
    enough_for(mu, slack * slack)?;
    loop {
        let step = sigma * STEP_PER_SIGMA;
        let reached = charged_mu((sensitivity + (slack * step).next_up()).next_up(), sigma)?;
        if reached <= mu {
            return Ok((sigma, reached));
        }
        sigma *= 1.0 + 4.0 * f64::EPSILON;
    }
}

/// Adds noise for the permit's share of the budget; the permit is spent whatever comes out.
///
/// # Privacy
///
/// The result is `mu^2/2`-zCDP for the permit's `mu`, for every pair of neighbouring inputs, and as near to `mu`-Gaussian private as the
/// head of [the accountant](crate::privacy::accountant) says. Whether there is a result does not depend on the value.
///
/// # Errors
///
/// No share, no randomness. Nothing is released then; the charge stays.
pub fn release(query: &Query, permit: Permit, pool: &mut NoisePool) -> Result<Unsent, ReleaseError> {
    let (run, index, planned) = permit.spend();
    let no_share = ReleaseError::NoShare { label: planned.label.clone(), mu: planned.mu };
    // A query that no row can move (a bound of zero) still gets noise, on the lattice of sensitivity one.
    let sensitivity = if query.sensitivity > 0.0 { query.sensitivity } else { 1.0 };
    if !(planned.mu > 0.0 && planned.mu.is_finite()) {
        return Err(no_share);
    }
    let (sigma, mu, step) = query.scale(sensitivity, planned.mu).map_err(|_| no_share)?;
    let integers = query.noised(step, pool)?;
    let receipt = Receipt {
        run,
        index,
        label: planned.label,
        sensitivity: (sensitivity + (query.slack() * step).next_up()).next_up(),
        formula: query.formula.to_owned(),
        sigma,
        mu,
    };
    Ok(Unsent { lattice: LatticeVector { step, integers }, receipt })
}

/// The upper triangle with the off-diagonal times sqrt 2, in units finer by 2^-62.
fn triangle(table: &[i128], width: usize) -> Vec<i128> {
    let diagonal = (0..width).flat_map(|row| (row..width).map(move |column| row == column));
    let weigh =
        |(entry, diagonal): (&i128, bool)| entry.saturating_mul(if diagonal { 1 << ROOT_TWO_BITS } else { ROOT_TWO });
    table.iter().zip(diagonal).map(weigh).collect()
}

/// A positive normal double as `mantissa 2^exponent` with a mantissa of 53 bits.
fn decompose(value: f64) -> Option<(u64, i32)> {
    if !(value.is_normal() && value > 0.0) {
        return None;
    }
    let bits = value.to_bits();
    let mantissa = (bits & ((1 << 52) - 1)) | (1 << 52);
    let exponent = ((bits >> 52) & 0x7ff) as i32 - 1075;
    Some((mantissa, exponent))
}

/// `value 2^shift / divisor`, correctly rounded to the nearest integer and cut at [`LARGEST_STEPS`].
fn divide_rounding(value: u128, shift: i32, divisor: u64) -> i64 {
    const CUT: u128 = LARGEST_STEPS as u128;
    let wide = u128::from(divisor);
    let cut = |quotient: u128| quotient.min(CUT) as i64;
    if shift < 0 {
        let by = shift.unsigned_abs();
        // A divisor beyond 128 bits is more than twice every value.
        let Some(wide) = wide.checked_shl(by).filter(|shifted| shifted >> by == wide) else { return 0 };
        return cut(value / wide + u128::from(value % wide >= wide - value % wide));
    }
    let (mut quotient, mut rest) = (value / wide, value % wide);
    let mut left = shift.unsigned_abs();
    while left > 0 {
        if quotient > CUT {
            return LARGEST_STEPS;
        }
        let bits = left.min(64);
        // Below 2^63 times 2^64, and below 2^53 times 2^64.
        rest <<= bits;
        quotient = (quotient << bits) + rest / wide;
        rest %= wide;
        left -= bits;
    }
    cut(quotient.saturating_add(u128::from(rest >= wide - rest)))
}

#[cfg(test)]
mod tests;
