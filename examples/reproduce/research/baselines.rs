//! The methods that the published comparison puts beside distributed and online robust regression.

use nalgebra::{DMatrix, DVector};

use super::batches::SyntheticBatch;

/// Mean of the coefficients of several batches.
fn average(
    batches: &[SyntheticBatch],
    fit: impl Fn(&DMatrix<f64>, &DVector<f64>) -> Option<DVector<f64>>,
) -> Option<DVector<f64>> {
    let mut sum: Option<DVector<f64>> = None;
    for b in batches {
        let beta = fit(&b.x, &b.y)?;
        sum = Some(match sum {
            Some(sum) => sum + beta,
            None => beta,
        });
    }
    Some(sum? / batches.len() as f64)
}

/// Least squares without an intercept; nothing when the columns depend on each other.
pub(crate) fn least_squares(x: &DMatrix<f64>, y: &DVector<f64>) -> Option<DVector<f64>> {
    Some(x.tr_mul(x).cholesky()?.solve(&x.tr_mul(y)))
}

/// OLS-AVG: the mean of the batches' least squares fits.
pub(crate) fn least_squares_average(batches: &[SyntheticBatch]) -> Option<DVector<f64>> {
    average(batches, least_squares)
}

/// RLHH: heuristic hard thresholding as first published, whose threshold reads the smaller half of the kept residuals
/// instead of leaving half of all rows out.
///
/// # Reference
/// Zhang, Zhao, Boedihardjo, Lu, "Robust Regression via Heuristic Hard Thresholding", IJCAI 2017; its stopping rule.
pub(crate) fn first_hard_thresholding(x: &DMatrix<f64>, y: &DVector<f64>) -> Option<DVector<f64>> {
    let n = y.len();
    let (mut members, mut kept): (Vec<usize>, usize) = ((0..n).collect(), n);
    let mut before: DVector<f64> = DVector::zeros(n);
    let mut beta = DVector::zeros(x.ncols());
    for _ in 0..100 {
        beta = least_squares(&x.select_rows(&members), &y.select_rows(&members))?;
        let residuals: DVector<f64> = (y - x * &beta).abs();
        let mut sorted = residuals.as_slice().to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        kept = first_rule(&sorted, kept);
        members = (0..n).filter(|&row| residuals[row] <= sorted[kept - 1]).collect();
        let change: f64 = members.iter().map(|&row| (residuals[row] - before[row]).powi(2)).sum();
        if change.sqrt() / kept as f64 <= 1e-5 {
            break;
        }
        before = residuals;
    }
    Some(beta)
}

/// The largest `tau >= 2` with `r_(tau) <= 2 tau m / o`, `m` the root mean square of the `tau / 2` smallest and `o` the
/// rank nearest to it; the old `tau` when there is none.
fn first_rule(sorted: &[f64], at_most: usize) -> usize {
    let mut sums = vec![0.0; sorted.len() + 1];
    for (k, r) in sorted.iter().enumerate() {
        sums[k + 1] = sums[k] + r * r;
    }
    for tau in (2..=at_most).rev() {
        let inner = tau / 2;
        let rms = (sums[inner] / inner as f64).sqrt();
        let right = sorted.partition_point(|r| *r < rms).clamp(1, sorted.len() - 1);
        let nearer_left = rms - sorted[right - 1] <= sorted[right] - rms;
        let rank = if nearer_left { right } else { right + 1 };
        if sorted[tau - 1] <= 2.0 * tau as f64 * rms / rank as f64 {
            return tau;
        }
    }
    at_most
}

/// RLHH-AVG: the mean of the batches' first-published hard-thresholding fits.
pub(crate) fn first_hard_thresholding_average(batches: &[SyntheticBatch]) -> Option<DVector<f64>> {
    average(batches, first_hard_thresholding)
}

/// OPAA: passive-aggressive updates over all rows in turn, from `start`, that move only when a row is off by more than
/// `tolerance` (the comparison uses 22).
pub(crate) fn passive_aggressive(batches: &[SyntheticBatch], start: DVector<f64>, tolerance: f64) -> DVector<f64> {
    let mut beta = start;
    for b in batches {
        // One row at a time: by rows it lies together.
        let rows = b.x.transpose();
        for (row, y) in rows.column_iter().zip(b.y.iter()) {
            let error = y - row.dot(&beta);
            let loss = error.abs() - tolerance;
            if loss > 0.0 {
                beta.axpy(error.signum() * loss / row.norm_squared(), &row, 1.0);
            }
        }
    }
    beta
}

/// Trimmed inner products of each column with the outcome, scaled to length one: the block solver of ORL. The scaling
/// uses that the true coefficients have length one, as the comparison does.
///
/// # Reference
/// Chen, Caramanis, Mannor, "Robust sparse regression under adversarial corruption", ICML 2013.
pub(crate) fn trimmed_inner_products(x: &DMatrix<f64>, y: &DVector<f64>, corrupted: f64) -> DVector<f64> {
    let n = y.len();
    let keep = n - (corrupted * n as f64).round().clamp(0.0, n as f64 - 1.0) as usize;
    let mut beta = DVector::zeros(x.ncols());
    let mut products = vec![0.0; n];
    for (j, column) in x.column_iter().enumerate() {
        products.iter_mut().zip(column.iter().zip(y.iter())).for_each(|(q, (a, b))| *q = a * b);
        products.select_nth_unstable_by(keep - 1, |a, b| a.abs().total_cmp(&b.abs()));
        beta[j] = products[..keep].iter().sum();
    }
    beta.normalize()
}

/// ORL: stochastic geometric median of the blocks' trimmed inner products, step `1 / (1.9 i)`. Told the share of
/// corrupted rows: one half for each in ORL-H, each batch's true share in ORL*.
pub(crate) fn online_trimmed(
    batches: &[SyntheticBatch],
    share: impl Fn(&SyntheticBatch) -> f64,
) -> Option<DVector<f64>> {
    let mut beta = DVector::zeros(batches.first()?.x.ncols());
    for (i, b) in batches.iter().enumerate() {
        let block = trimmed_inner_products(&b.x, &b.y, share(b));
        let weight = 2.0 / (1.9 * (i + 1) as f64) / (&beta - &block).norm().max(1e-12);
        beta = beta * (1.0 - weight) + block * weight;
    }
    Some(beta)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::super::batches::{BatchLaw, batch, unit_coefficients, unit_direction};
    use super::*;

    fn batches(shares: &[f64]) -> (DVector<f64>, Vec<SyntheticBatch>) {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let beta = unit_coefficients(&mut rng, 8);
        let all = shares.iter().map(|s| batch(&mut rng, &beta, &BatchLaw::published(800, *s))).collect();
        (beta, all)
    }

    #[test]
    fn on_clean_batches_every_baseline_but_passive_aggression_is_near_the_truth() {
        let (beta, all) = batches(&[0.0; 5]);
        let near = |b: DVector<f64>, tol: f64| assert!((b - &beta).norm() < tol);
        near(least_squares_average(&all).unwrap(), 0.03);
        near(first_hard_thresholding_average(&all).unwrap(), 0.03);
        near(online_trimmed(&all, |b| b.corrupted).unwrap(), 0.1);
    }

    #[test]
    fn passive_aggression_leaves_rows_within_tolerance_alone_and_fits_the_last_row_beyond_it() {
        let (_, all) = batches(&[0.1; 2]);
        let start = unit_direction(&mut ChaCha8Rng::seed_from_u64(1), 8);
        assert_eq!(passive_aggressive(&all, start.clone(), 1e9), start);
        let moved = passive_aggressive(&all, start, 0.0);
        let last = all[1].x.row(799).transpose().dot(&moved) - all[1].y[799];
        assert!(last.abs() < 1e-10);
    }

    #[test]
    fn the_first_rule_survives_scattered_rows_and_plain_least_squares_does_not() {
        let (beta, all) = batches(&[0.3; 3]);
        let robust = (first_hard_thresholding_average(&all).unwrap() - &beta).norm();
        let plain = (least_squares_average(&all).unwrap() - &beta).norm();
        assert!(robust < 0.04 && plain > 0.1, "robust {robust}, plain {plain}");
    }
}
