//! Solvers for the shortest interpolant of random features, which the source paper releases with noise.

use fedreg_common::linalg::{self, Definite};
use fedreg_common::methods::features::FeatureError;
use nalgebra::{DMatrix, DVector};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution as _, StandardNormal};

/// A solution by factorisation, with what the spectrum says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MinimumNorm {
    /// One coefficient per feature.
    pub(crate) coefficients: DVector<f64>,
    /// Directions of the rows that are there to working precision.
    pub(crate) rank: usize,
    /// Whether rows depend on each other to rounding. The coefficients are then those of the kept directions, and
    /// interpolation may be missed.
    pub(crate) singular: bool,
}

/// The shortest `c` with `A c = y`, directly: by the triangular factor of `A'` and one step of refinement. Where rows depend on
/// others to rounding it is the shortest least-squares solution of [`pseudo_inverse`], singular values below 1e-10 of the
/// largest counting as zero.
///
/// # Errors
/// Other than one outcome per row.
pub(crate) fn minimum_norm(a: &DMatrix<f64>, y: &DVector<f64>) -> Result<MinimumNorm, FeatureError> {
    outcomes(a.nrows(), y)?;
    let factor = linalg::upper_factor(&a.transpose());
    if linalg::independent_columns(&factor, None, 0, linalg::DEPENDENCE).len() < a.nrows() {
        return pseudo_inverse(a, y, linalg::DEPENDENCE);
    }
    let table = Definite::from_factor(factor).ok_or(FeatureError::Singular)?;
    let mut coefficients = a.tr_mul(&table.solve(y));
    let residual = y - a * &coefficients;
    coefficients += a.tr_mul(&table.solve(&residual));
    Ok(MinimumNorm { coefficients, rank: a.nrows(), singular: false })
}

/// The shortest least-squares solution by the pseudo-inverse of `A`, singular values below `cutoff` times the largest counting
/// as zero; NumPy's `pinv` has 1e-15. The yardstick for the faster ways.
///
/// # Errors
/// Other than one outcome per row; a decomposition that does not converge.
pub(crate) fn pseudo_inverse(a: &DMatrix<f64>, y: &DVector<f64>, cutoff: f64) -> Result<MinimumNorm, FeatureError> {
    outcomes(a.nrows(), y)?;
    let (left, values, right) = linalg::thin_svd(a).ok_or(FeatureError::Singular)?;
    let cutoff = cutoff * values.amax();
    let rank = values.iter().filter(|&&s| s > cutoff).count();
    let mut along = left.tr_mul(y);
    for (value, &s) in along.iter_mut().zip(values.iter()) {
        *value = if s > cutoff { *value / s } else { 0.0 };
    }
    let smallest = values.iter().copied().fold(f64::INFINITY, f64::min);
    Ok(MinimumNorm { coefficients: right * along, rank, singular: smallest <= linalg::DEPENDENCE * values.amax() })
}

/// How long the row iteration may run and when it is done.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Kaczmarz {
    /// Most passes over the rows.
    pub(crate) passes: usize,
    /// Done when the norm of the residual is at most this times the norm of the outcomes.
    pub(crate) tol: f64,
    /// Of the order of the rows, public.
    pub(crate) seed: u64,
    /// Ridge parameter of [`ridge`](fedreg_common::methods::features::ridge); zero for the minimum-norm solution.
    pub(crate) lambda: f64,
}

/// Why an iteration ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Termination {
    /// The residual fell to the tolerance.
    Converged,
    /// The passes were used up first.
    Passes,
}

/// A solution by iteration.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Iterations {
    /// One coefficient per feature.
    pub(crate) coefficients: DVector<f64>,
    /// Passes over the rows.
    pub(crate) passes: usize,
    /// Norm of the residual over that of the outcomes; the distance to the solution is at most this times the norm of the
    /// outcomes over the smallest singular value.
    pub(crate) residual: f64,
    /// Why it ended.
    pub(crate) termination: Termination,
}

/// Randomised Kaczmarz: goes through the rows in an order that is shuffled anew for every pass and projects onto each equation. From zero
/// it stays in the span of the rows, so it ends at the minimum-norm solution. With `lambda > 0` every equation has a slack of its own,
/// `a'c + sqrt(m lambda) z = y`, and the shortest `(c, z)` is the ridge solution. Passes grow with the condition of the rows; where equal rows
/// have different outcomes there is nothing to converge to, and the result says [`Termination::Passes`].
///
/// `rows` is `A'`, `N x m`: a record is a column, contiguous.
///
/// # Errors
/// Other than one outcome per record.
///
/// # Reference
/// T. Strohmer and R. Vershynin, J. Fourier Anal. Appl. 15 (2009).
pub(crate) fn kaczmarz(rows: &DMatrix<f64>, y: &DVector<f64>, how: &Kaczmarz) -> Result<Iterations, FeatureError> {
    outcomes(rows.ncols(), y)?;
    let mut generator = ChaCha8Rng::seed_from_u64(how.seed);
    let mut order: Vec<usize> = (0..y.len()).collect();
    let weight = (how.lambda * y.len() as f64).sqrt();
    let squares: Vec<f64> = rows.column_iter().map(|row| row.norm_squared() + weight * weight).collect();
    let mut coefficients = DVector::zeros(rows.nrows());
    let mut slack = vec![0.0; y.len()];
    let scale = y.norm();
    let mut done = Iterations {
        coefficients: DVector::zeros(rows.nrows()),
        passes: 0,
        residual: if scale > 0.0 { 1.0 } else { 0.0 },
        termination: if scale > 0.0 { Termination::Passes } else { Termination::Converged },
    };
    while done.termination == Termination::Passes && done.passes < how.passes {
        order.shuffle(&mut generator);
        let mut seen = 0.0;
        for &i in &order {
            let row = rows.column(i);
            let residual = y[i] - row.dot(&coefficients) - weight * slack[i];
            seen += residual * residual;
            if squares[i] > 0.0 {
                let step = residual / squares[i];
                coefficients.axpy(step, &row, 1.0);
                slack[i] += weight * step;
            }
        }
        done.passes += 1;
        // What was seen along the way is nearly the residual and costs nothing; the exact one decides.
        if seen.sqrt() <= 2.0 * how.tol * scale || done.passes == how.passes {
            let mut residual = y - rows.tr_mul(&coefficients);
            residual.iter_mut().zip(&slack).for_each(|(r, z)| *r -= weight * z);
            done.residual = residual.norm() / scale;
            if done.residual <= how.tol {
                done.termination = Termination::Converged;
            }
        }
    }
    done.coefficients = coefficients;
    Ok(done)
}

/// Stochastic gradient descent on the squared residuals from zero: one pass over the records in random order, one at a time, all steps equal. `rows` is
/// `A'` as in [`kaczmarz`].
///
/// # Errors
/// Other than one outcome per record.
pub(crate) fn gradients(
    rows: &DMatrix<f64>,
    y: &DVector<f64>,
    step: f64,
    seed: u64,
) -> Result<DVector<f64>, FeatureError> {
    cut_gradients(rows, y, step, f64::INFINITY, seed)
}

/// [`gradients`] with residuals cut to `[-tau, tau]`.
///
/// # Errors
/// Other than one outcome per record.
pub(crate) fn cut_gradients(
    rows: &DMatrix<f64>,
    y: &DVector<f64>,
    step: f64,
    tau: f64,
    seed: u64,
) -> Result<DVector<f64>, FeatureError> {
    outcomes(rows.ncols(), y)?;
    let mut order: Vec<usize> = (0..y.len()).collect();
    order.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    let mut coefficients = DVector::zeros(rows.nrows());
    for i in order {
        let row = rows.column(i);
        coefficients.axpy(step * (y[i] - row.dot(&coefficients)).clamp(-tau, tau), &row, 1.0);
    }
    Ok(coefficients)
}

/// How far a record moves the end of [`cut_gradients`] at most, for rows of norm at most root two and steps of at most 1.
pub(crate) fn gradients_sensitivity(step: f64, tau: f64) -> f64 {
    2.0 * step * tau * std::f64::consts::SQRT_2
}

/// [`cut_gradients`] with normal noise on the end, which protects a record with budget `mu` whatever the others are.
///
/// Rows of cosine features have norm at most root two, so the loss has gradients of length `tau sqrt 2` at most and curvature at most 2. One pass with steps
/// of at most 1 moves the end by at most `2 step tau sqrt 2` when a record is replaced (X. Wu et al., SIGMOD 2017, convex losses, one
/// pass; M. Hardt, B. Recht and Y. Singer, ICML 2016: a step on the same record brings no two coefficients farther apart).
///
/// # Errors
/// Other than one outcome per record.
pub(crate) fn private_gradients(
    rows: &DMatrix<f64>,
    y: &DVector<f64>,
    (step, tau, mu): (f64, f64, f64),
    seed: u64,
) -> Result<DVector<f64>, FeatureError> {
    // The bound is for no longer ones.
    let step = step.min(1.0);
    let sensitivity = gradients_sensitivity(step, tau);
    let mut generator = ChaCha8Rng::seed_from_u64(seed + 1_000_000);
    let mut coefficients = cut_gradients(rows, y, step, tau, seed)?;
    for coefficient in coefficients.iter_mut() {
        let z: f64 = StandardNormal.sample(&mut generator);
        *coefficient += sensitivity / mu * z;
    }
    Ok(coefficients)
}

fn outcomes(expected: usize, y: &DVector<f64>) -> Result<(), FeatureError> {
    let actual = y.len();
    if expected == actual { Ok(()) } else { Err(FeatureError::Size { what: "outcomes", expected, actual }) }
}
