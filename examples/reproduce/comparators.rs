//! Other private regressions, for tables that compare them with [`fedreg_common::methods::robust::plan`] on simulated data.
//!
//! They take standard normal noise from their caller, return plain coefficients and reach no ledger, so nothing that comes
//! out of here can become a message.
//!
//! # Reference
//!
//! Wang 2018, "Revisiting differentially private linear regression" (adaptive ridge on noised statistics), here with the
//! sensitivities of replacing one row and an equal Gaussian split over its three releases. Gradient descent on
//! coordinate means by Catoni's influence function, smoothed by multiplicative Gaussian noise (Holland 2019).

use fedreg_common::privacy::accountant::{density, legendre, normal_tail};
use nalgebra::{DMatrix, DVector, SymmetricEigen};

/// Bound of Catoni's influence function: `2 sqrt(2) / 3`.
const INFLUENCE_BOUND: f64 = 2.0 * std::f64::consts::SQRT_2 / 3.0;

/// Adaptive ridge on noised statistics: rows (`n x p`) cut at norm `radius`, outcomes at `outcome_bound`, `mu` for
/// everything. None where the noised system cannot be solved.
pub(crate) fn adaptive_ridge(
    x: &DMatrix<f64>,
    y: &DVector<f64>,
    radius: f64,
    outcome_bound: f64,
    mu: f64,
    normal: &mut impl FnMut() -> f64,
) -> Option<DVector<f64>> {
    const FAILURE: f64 = 0.05;
    let width = x.ncols();
    let mut rows = x.clone();
    for mut row in rows.row_iter_mut() {
        let norm = row.norm();
        if norm > radius {
            row.scale_mut(radius / norm);
        }
    }
    let outcome = y.map(|value| value.clamp(-outcome_bound, outcome_bound));
    let table = rows.tr_mul(&rows);
    let share = mu / 3f64.sqrt();
    let square = radius * radius;
    let smallest = SymmetricEigen::new(table.clone()).eigenvalues.min();
    let below = (smallest + square / share * (normal() - 1.645)).max(0.0);
    let sigma = std::f64::consts::SQRT_2 * square / share;
    let ridge = (sigma * (width as f64 * (2.0 * (width * width) as f64 / FAILURE).ln()).sqrt() - below).max(0.0);
    let mut noised = table;
    for row in 0..width {
        for column in row..width {
            let noise = sigma * normal() * if row == column { 1.0 } else { std::f64::consts::FRAC_1_SQRT_2 };
            noised[(row, column)] += noise;
            noised[(column, row)] = noised[(row, column)];
        }
        noised[(row, row)] += ridge;
    }
    let right = rows.tr_mul(&outcome).map(|value| value + 2.0 * radius * outcome_bound / share * normal());
    noised.lu().solve(&right)
}

/// Gradient descent on Catoni means: `rounds` steps of length `step`, influence scale `scale`, smoothing `smoothing`
/// (larger is less), `mu` for everything.
pub(crate) fn catoni_descent(
    x: &DMatrix<f64>,
    y: &DVector<f64>,
    mu: f64,
    rounds: u32,
    (scale, step, smoothing): (f64, f64, f64),
    normal: &mut impl FnMut() -> f64,
) -> DVector<f64> {
    let (rows, width) = (x.nrows() as f64, x.ncols());
    // One row moves a coordinate's mean by twice the bound of the influence; rounds times width such releases.
    let sigma = 2.0 * INFLUENCE_BOUND * scale / rows * (width as f64 * f64::from(rounds)).sqrt() / mu;
    let mut beta = DVector::zeros(width);
    for _ in 0..rounds {
        let residual = y - x * &beta;
        let means = DVector::from_fn(width, |column, _| {
            x.column(column)
                .iter()
                .zip(residual.iter())
                .map(|(x, r)| scale * smoothed_influence(x * r / scale, smoothing))
                .sum::<f64>()
                / rows
                + sigma * normal()
        });
        beta += means * step;
    }
    beta
}

/// `E phi(a (1 + N(0, 1/smoothing)))` for `phi(u) = u - u^3/6` within `sqrt 2` and constant beyond.
///
/// The closed form cancels for large `a` until it leaves the bound of `phi` by orders of magnitude, and with it the
/// sensitivity; so the inner part is integrated and the result cut at the bound.
pub(crate) fn smoothed_influence(a: f64, smoothing: f64) -> f64 {
    let spread = a.abs() / smoothing.sqrt();
    if !(spread.is_finite() && spread > 0.0) {
        return if a.is_nan() || a == 0.0 { 0.0 } else { a.signum() * INFLUENCE_BOUND };
    }
    let edge = std::f64::consts::SQRT_2;
    let outside = INFLUENCE_BOUND * (normal_tail((edge - a) / spread) - normal_tail((edge + a) / spread));
    let low = ((-edge - a) / spread).max(-9.0);
    let high = ((edge - a) / spread).min(9.0);
    let mut inside = 0.0;
    if low < high {
        // A Gaussian times a cubic: twenty nodes on three standard deviations leave 1e-14.
        let panels = ((high - low) / 3.0).ceil();
        let half = (high - low) / panels / 2.0;
        for panel in 0..panels as u32 {
            let centre = low + half * (2.0 * f64::from(panel) + 1.0);
            inside += legendre()
                .iter()
                .map(|&(node, weight)| {
                    let z = centre + half * node;
                    let u = a + spread * z;
                    weight * half * density(z) * (u - u * u * u / 6.0)
                })
                .sum::<f64>();
        }
    }
    (outside + inside).clamp(-INFLUENCE_BOUND, INFLUENCE_BOUND)
}

#[cfg(test)]
mod tests {
    use fedreg_common::privacy::accountant::gaussian_mu;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use rand_distr::{Distribution, StandardNormal};

    use super::*;

    #[test]
    fn the_influence_stays_within_its_bound_at_any_size() {
        for exponent in -320..=308 {
            let a = 10f64.powi(exponent);
            for smoothing in [0.5, 2.3, 1e6] {
                let value = smoothed_influence(a, smoothing);
                assert!((0.0..=INFLUENCE_BOUND).contains(&value), "{a:e} {smoothing}: {value}");
                assert!((smoothed_influence(-a, smoothing) + value).abs() <= 1e-12 * value, "odd up to rounding");
            }
        }
        for (strange, expected) in [(0.0, 0.0), (f64::NAN, 0.0), (f64::INFINITY, INFLUENCE_BOUND)] {
            assert_eq!(smoothed_influence(strange, 2.0), expected);
        }
    }

    /// Five standard errors of the average, false alarm 6e-7 each.
    #[test]
    fn the_smoothed_influence_is_the_average_it_says() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let phi = |u: f64| {
            if u.abs() <= 2f64.sqrt() { u - u.powi(3) / 6.0 } else { u.signum() * INFLUENCE_BOUND }
        };
        for (a, smoothing) in [(0.3, 2.0), (1.2, 1.0), (-2.0, 3.0), (8.0, 2.0)] {
            let draws: Vec<f64> = (0..40_000)
                .map(|_| {
                    let z: f64 = StandardNormal.sample(&mut random);
                    phi(a * (1.0 + z / f64::sqrt(smoothing)))
                })
                .collect();
            let mean = draws.iter().sum::<f64>() / 40_000.0;
            let sd = (draws.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 40_000.0).sqrt();
            assert!((mean - smoothed_influence(a, smoothing)).abs() < 5.0 * sd / 200.0, "{a} {smoothing}");
        }
    }

    /// Uniform corruption of 20 % at n = 10 000 and p = 10, epsilon 1: .190 and .045 in the published comparison.
    #[test]
    fn comparators_reach_their_published_errors() {
        let mu = gaussian_mu(1.0, 1e-5);
        let (mut ridge, mut catoni) = (0.0, 0.0);
        for seed in 0..2 {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let mut truth = DVector::from_fn(10, |_, _| random.random::<f64>());
            truth /= truth.norm();
            let x = DMatrix::from_fn(10_000, 10, |_, _| StandardNormal.sample(&mut random));
            let mut y = &x * &truth;
            for row in 0..10_000 {
                let noise: f64 = StandardNormal.sample(&mut random);
                y[row] +=
                    if row < 8_000 { 0.1f64.sqrt() * noise } else { 0.1 * noise + random.random_range(-21.0..21.0) };
            }
            let mut normal = || -> f64 { StandardNormal.sample(&mut random) };
            ridge += (adaptive_ridge(&x, &y, 5.0, 5.0, mu, &mut normal).unwrap() - &truth).norm() / 2.0;
            let tuning = (2.0, 0.8, 200f64.ln().sqrt());
            catoni += (catoni_descent(&x, &y, mu, 5, tuning, &mut normal) - &truth).norm() / 2.0;
        }
        println!("adaptive ridge {ridge:.3}, Catoni {catoni:.3}");
        assert!((0.12..0.26).contains(&ridge) && (0.03..0.065).contains(&catoni), "{ridge} {catoni}");
    }
}
