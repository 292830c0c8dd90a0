//! Solvers on rows that are all in one place, without noise.

use nalgebra::{DMatrix, DVector};

use super::{FeatureError, setting, size};
use crate::linalg::{self, Definite};

/// `c` that minimises `|A c - y|^2 / 2m + lambda |c|^2 / 2`, directly, on the smaller of the two sides.
///
/// # Errors
/// Other than one outcome per row, no row, `lambda` not positive.
pub fn ridge(a: &DMatrix<f64>, y: &DVector<f64>, lambda: f64) -> Result<DVector<f64>, FeatureError> {
    size("outcomes", a.nrows(), y.len())?;
    setting("the number of rows", "positive", a.nrows() as f64, a.nrows() > 0)?;
    setting("lambda", "positive", lambda, lambda > 0.0 && lambda.is_finite())?;
    let shift = lambda * a.nrows() as f64;
    let wide = a.ncols() > a.nrows();
    let mut table = if wide { linalg::gram(&a.transpose(), None) } else { linalg::gram(a, None) };
    (0..table.ncols()).for_each(|j| table[(j, j)] += shift);
    let definite = Definite::from_gram(&table).ok_or(FeatureError::Singular)?;
    Ok(if wide { a.tr_mul(&definite.solve(y)) } else { definite.solve(&a.tr_mul(y)) })
}

/// The [`ridge`] solution of rows that are shortened to norm 1 and outcomes that are cut to `[-1, 1]`, without noise; a row with a value that
/// is not finite counts as zero.
///
/// # Errors
/// As [`ridge`].
pub fn shortened_ridge(a: &DMatrix<f64>, y: &[f64], lambda: f64) -> Result<DVector<f64>, FeatureError> {
    size("outcomes", a.nrows(), y.len())?;
    let mut rows = a.clone();
    let mut outcome = DVector::from_iterator(y.len(), y.iter().map(|y| y.clamp(-1.0, 1.0)));
    for i in 0..rows.nrows() {
        let norm = rows.row(i).norm();
        if !(norm.is_finite() && outcome[i].is_finite()) {
            rows.row_mut(i).fill(0.0);
            outcome[i] = 0.0;
        } else if norm > 1.0 {
            rows.row_mut(i).unscale_mut(norm);
        }
    }
    ridge(&rows, &outcome, lambda)
}
