//! Noisy sufficient statistics: one release per site, added up and solved by anyone who collects them.

use nalgebra::{DMatrix, DVector, SymmetricEigen};

use super::map::ROW_BITS;
use super::{FeatureError, FeatureMap, LARGEST_STATISTICS, setting, size};
use crate::bounded::Bounded;
use crate::linalg::gram;

/// Outcomes are multiples of 2^-17 of the half range.
const OUTCOME_BITS: i32 = 17;

/// Rows whose products add up exactly in 53 bits: 2^20 * 2^15 * 2^17 = 2^52.
const EXACT_ROWS: usize = 1 << 20;

/// `floor(sqrt 2 * 2^40)`, rounded down so that it never lengthens.
const ROOT_TWO: i128 = 1_554_944_255_987;
const ROOT_TWO_BITS: i32 = 40;

/// The l2 sensitivity of one site's statistics: sqrt 4.5, see the proof in the parent module.
pub fn sensitivity() -> f64 {
    4.5_f64.sqrt().next_up()
}

/// Features for a private fit of `records` rows with budget `mu`: the even number near `sqrt(records mu)`, from 20 to 200.
pub fn default_count(records: u64, mu: f64) -> usize {
    let count = (records as f64 * mu).sqrt().clamp(20.0, 200.0) as usize;
    count - count % 2
}

/// The statistics `A'A` and `A'y` of one site.
#[derive(Debug, Clone)]
pub struct Statistics;

/// Released statistics, added over sites.
#[derive(Debug, Clone, PartialEq)]
pub struct Pooled {
    /// `A'A` with noise.
    pub gram: DMatrix<f64>,
    /// `A'y` with noise, outcomes in units of the half range.
    pub cross: DVector<f64>,
    sites: u32,
}

impl Pooled {
    /// Of this number of sites.
    pub(super) fn new(gram: DMatrix<f64>, cross: DVector<f64>, sites: u32) -> Pooled {
        Pooled { gram, cross, sites }
    }
}

impl Statistics {
    /// The upper triangle of `A'A` column by column, off the diagonal times sqrt 2, then `A'y`, before noise. `x` is `n x inputs` in
    /// `[0, 1]`, `outcome` in units of the half range about the centre; it is cut to `[-1, 1]`. A row with a value that is not finite is
    /// zero.
    ///
    /// # Errors
    /// Another number of columns or outcomes, more than 2000 features.
    pub fn of(map: &FeatureMap, x: &DMatrix<f64>, outcome: &[f64]) -> Result<Bounded, FeatureError> {
        size("outcomes", x.nrows(), outcome.len())?;
        let count = map.count();
        setting("the number of features", "at most 2000", count as f64, count <= LARGEST_STATISTICS)?;
        let mut integers = vec![0i128; Statistics::len(map)];
        for first in (0..x.nrows()).step_by(EXACT_ROWS) {
            let rows = EXACT_ROWS.min(x.nrows() - first);
            let mut features = map.integer_rows(&x.rows(first, rows).into_owned())?;
            let scaled = DVector::from_fn(rows, |i, _| {
                let y = outcome[first + i];
                if y.is_finite() { (y.clamp(-1.0, 1.0) * f64::from(1 << OUTCOME_BITS)).trunc() } else { 0.0 }
            });
            for i in (0..rows).filter(|&i| !outcome[first + i].is_finite()) {
                features.row_mut(i).fill(0.0);
            }
            // Every entry and partial sum is an integer below 2^53, so these products are exact.
            let (table, cross) = (gram(&features, None), features.tr_mul(&scaled));
            let mut place = 0;
            for j in 0..count {
                for i in 0..=j {
                    let weight = if i == j { 1i128 << ROOT_TWO_BITS } else { ROOT_TWO };
                    integers[place] += table[(i, j)] as i128 * weight;
                    place += 1;
                }
            }
            let shift = ROW_BITS - OUTCOME_BITS + ROOT_TWO_BITS;
            for j in 0..count {
                integers[place + j] += (cross[j] as i128) << shift;
            }
        }
        Ok(Bounded::new(
            integers,
            -2 * ROW_BITS - ROOT_TWO_BITS,
            sensitivity(),
            "sqrt(4.5): |aa' - bb'|^2 + |ay - bv|^2, |a| <= 1, |y| <= 1",
        ))
    }

    /// Number of entries of the statistics.
    pub fn len(map: &FeatureMap) -> usize {
        map.count() * (map.count() + 1) / 2 + map.count()
    }

    /// The sum of the sites' released statistics.
    ///
    /// # Errors
    /// No site; one with another number of entries or one that is not finite.
    pub fn pool(map: &FeatureMap, released: &[DVector<f64>]) -> Result<Pooled, FeatureError> {
        setting("the number of sites", "positive", released.len() as f64, !released.is_empty())?;
        let mut sum = DVector::zeros(Statistics::len(map));
        for site in released {
            size("entries of statistics", sum.len(), site.len())?;
            if !site.iter().all(|value| value.is_finite()) {
                return Err(FeatureError::NotFinite { what: "statistics" });
            }
            sum += site;
        }
        let count = map.count();
        let mut table = DMatrix::zeros(count, count);
        let mut entries = sum.iter();
        for j in 0..count {
            for i in 0..=j {
                let entry = entries.next().copied().unwrap_or(0.0);
                let value = if i == j { entry } else { entry * std::f64::consts::FRAC_1_SQRT_2 };
                (table[(i, j)], table[(j, i)]) = (value, value);
            }
        }
        Ok(Pooled { gram: table, cross: DVector::from_iterator(count, entries.copied()), sites: released.len() as u32 })
    }

    /// Coefficients from pooled statistics whose noise had standard deviation `sigma` at each site, zero without noise, and how far
    /// the smallest eigenvalue was lifted.
    ///
    /// Eigenvalues of the noisy `A'A` below `sigma sqrt(N sites)`, about .7 of the spectral norm of the noise, are raised to that: a
    /// ridge in the directions that are mostly noise, none in those that the data determine, where adding it to all would bias the
    /// fit (the error on the insurance data is then half as large again). A function of released values and public facts.
    ///
    /// # Errors
    /// A table that is singular even so, which without noise happens when features are nearly dependent.
    pub fn solve(pooled: &Pooled, sigma: f64) -> Result<(DVector<f64>, f64), FeatureError> {
        let floor = sigma * (pooled.cross.len() as f64 * f64::from(pooled.sites)).sqrt();
        let eigen = SymmetricEigen::new(pooled.gram.clone());
        let lowest = eigen.eigenvalues.iter().copied().fold(f64::INFINITY, f64::min);
        if !(lowest.max(floor) > eigen.eigenvalues.amax() * 1e-14) {
            return Err(FeatureError::Singular);
        }
        let mut along = eigen.eigenvectors.tr_mul(&pooled.cross);
        along.iter_mut().zip(eigen.eigenvalues.iter()).for_each(|(along, &value)| *along /= value.max(floor));
        Ok((eigen.eigenvectors * along, (floor - lowest).max(0.0)))
    }
}
