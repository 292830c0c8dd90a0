//! Ridge, lasso and elastic net in glmnet's parametrisation.
//!
//! The objective, per unit of case weight, is `loss + lambda * ((1 - alpha) / 2 * |b|^2 / s + alpha * |b|_1)` over
//! coefficients of standardised columns, `s` the outcome's standard deviation (divisor `n`) for gaussian and 1
//! otherwise. That is what `glmnet(x, y)` minimises at its defaults.

use nalgebra::{DMatrix, DVector};

use crate::linalg::Definite;

/// A penalty on one block.
#[derive(Debug, Clone, PartialEq)]
pub struct Penalty {
    /// Weight of the absolute values.
    pub l1: f64,
    /// Weight of half the squares.
    pub l2: f64,
    /// Per column, the standard deviation that its standardised version is measured in; 0 exempts the intercept.
    pub units: Vec<f64>,
}

impl Penalty {
    /// From `lambda` and `alpha`; `spread` is the outcome's standard deviation for gaussian, 1 otherwise.
    pub fn new(lambda: f64, alpha: f64, spread: f64, units: Vec<f64>) -> Penalty {
        Penalty { l1: lambda * alpha, l2: lambda * (1.0 - alpha) / spread, units }
    }

    /// The same on some of the columns.
    pub fn select(self, columns: &[usize]) -> Penalty {
        Penalty { units: columns.iter().map(|j| self.units[*j]).collect(), ..self }
    }

    /// Its value, per unit of weight.
    pub fn at(&self, beta: &DVector<f64>) -> f64 {
        beta.iter().zip(&self.units).map(|(b, u)| self.l1 * (u * b).abs() + 0.5 * self.l2 * (u * b) * (u * b)).sum()
    }

    /// By how much the optimality conditions are violated, on the standardised scale, given `X' W (y - mean)` per unit
    /// of weight.
    pub fn violation(&self, score: &DVector<f64>, beta: &DVector<f64>) -> f64 {
        let mut worst = 0.0_f64;
        for ((score, b), u) in score.iter().zip(beta.iter()).zip(&self.units) {
            let violation = if *u == 0.0 {
                score.abs()
            } else if *b == 0.0 {
                (score.abs() / u - self.l1).max(0.0)
            } else {
                (score / u - self.l2 * u * b - self.l1 * b.signum()).abs()
            };
            worst = worst.max(violation);
        }
        worst
    }

    /// The matrix with the ridge on its diagonal.
    pub fn ridged(&self, matrix: &DMatrix<f64>, weight: f64) -> DMatrix<f64> {
        let mut ridged = matrix.clone();
        self.units.iter().enumerate().for_each(|(j, u)| ridged[(j, j)] += weight * self.l2 * u * u);
        ridged
    }

    /// The step from `beta` to the minimum of the quadratic model with this penalty. `matrix` is the second derivative
    /// of the loss, `factor` that of the ridged matrix where it is known, `gradient` the descent direction `X' W (y - mean)`.
    pub fn step(
        &self,
        matrix: &DMatrix<f64>,
        factor: Option<&Definite>,
        gradient: &DVector<f64>,
        beta: &DVector<f64>,
        weight: f64,
    ) -> DVector<f64> {
        let ridged = || self.ridged(matrix, weight);
        if self.l1 == 0.0 {
            let ridge = DVector::from_fn(beta.len(), |j, _| weight * self.l2 * self.units[j].powi(2) * beta[j]);
            let descent = gradient - ridge;
            return match factor {
                Some(factor) => factor.solve(&descent),
                None => Definite::from_gram_lifted(&ridged()).solve(&descent),
            };
        }
        let ridged = ridged();
        // With u = beta + step the model is u'Hu/2 - c'u + l1 |u|.
        let linear = gradient + matrix * beta;
        self.lasso(&ridged, &linear, beta.clone(), weight) - beta
    }

    /// Minimises `u' H u / 2 - c' u + weight * l1 * sum(units |u|)` by coordinate descent; where a few sweeps leave the signs as they
    /// are, by going to the minimum that keeps them, or as far as they do.
    fn lasso(&self, h: &DMatrix<f64>, c: &DVector<f64>, start: DVector<f64>, weight: f64) -> DVector<f64> {
        let p = start.len();
        let mut u = start;
        let mut rest = c - h * &u;
        if h.iter().chain(&rest).any(|value| !value.is_finite()) {
            return u;
        }
        let sign = |value: f64| if value == 0.0 { 0.0 } else { value.signum() };
        let scale = (0..p).map(|j| h[(j, j)]).fold(f64::MIN_POSITIVE, f64::max);
        for _ in 0..MOST_TURNS {
            let mut moved = 0.0;
            for _ in 0..SWEEPS {
                let before = u.map(sign);
                moved = self.sweep(h, scale, weight, &mut u, &mut rest);
                if u.iter().zip(&before).all(|(now, before)| *now == 0.0 || sign(*now) == *before) {
                    break;
                }
            }
            // With every coefficient that becomes zero on the way the others have another minimum.
            for _ in 0..=p {
                let Some((nearer, reached)) = self.polish(h, c, &u, weight) else { break };
                u = nearer;
                match reached {
                    Reached::Minimum => return u,
                    Reached::SignsMinimum => break,
                    Reached::Zero => {}
                }
            }
            rest = c - h * &u;
            if moved <= 1e-15 * c.amax() / scale.sqrt() {
                break;
            }
        }
        u
    }

    /// Minimises over each coordinate in turn, and gives the largest change in the metric of the diagonal.
    fn sweep(&self, h: &DMatrix<f64>, scale: f64, weight: f64, u: &mut DVector<f64>, rest: &mut DVector<f64>) -> f64 {
        let mut moved = 0.0_f64;
        for j in 0..u.len() {
            let pivot = h[(j, j)];
            if pivot <= scale * 1e-14 {
                continue;
            }
            let score = rest[j] + pivot * u[j];
            let next = score.signum() * (score.abs() - weight * self.l1 * self.units[j]).max(0.0) / pivot;
            let step = next - u[j];
            if step != 0.0 {
                rest.axpy(-step, &h.column(j), 1.0);
                u[j] = next;
                moved = moved.max(step.abs() * pivot.sqrt());
            }
        }
        moved
    }

    /// The minimum among points with the signs of this one, or the farthest point on the way there that has them. `None` where the matrix says too little of the coefficients that are not zero.
    fn polish(
        &self,
        h: &DMatrix<f64>,
        c: &DVector<f64>,
        u: &DVector<f64>,
        weight: f64,
    ) -> Option<(DVector<f64>, Reached)> {
        let support: Vec<usize> = (0..u.len()).filter(|j| u[*j] != 0.0 || self.units[*j] == 0.0).collect();
        let signed = |j: usize| weight * self.l1 * self.units[j] * u[j].signum();
        let mut exact = DVector::zeros(u.len());
        if !support.is_empty() {
            let small = Definite::from_gram(&h.select_rows(&support).select_columns(&support))?;
            let right = DVector::from_fn(support.len(), |k, _| {
                let j = support[k];
                if self.units[j] == 0.0 { c[j] } else { c[j] - signed(j) }
            });
            let solved = small.solve(&right);
            support.iter().zip(solved.iter()).for_each(|(j, value)| exact[*j] = *value);
        }
        if exact.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let leaves = |j: &usize| self.units[*j] != 0.0 && (exact[*j] == 0.0 || exact[*j].signum() != u[*j].signum());
        let share = |j: usize| u[j] / (u[j] - exact[j]);
        let first = support.iter().copied().filter(leaves).min_by(|a, b| share(*a).total_cmp(&share(*b)));
        if let Some(first) = first {
            let mut nearer = u + (&exact - u) * share(first);
            nearer[first] = 0.0;
            return Some((nearer, Reached::Zero));
        }
        let rest = c - h * &exact;
        let least = (0..u.len()).all(|j| {
            let zero = self.units[j] != 0.0 && u[j] == 0.0;
            !zero || rest[j].abs() <= weight * self.l1 * self.units[j] * (1.0 + 1e-12)
        });
        Some((exact, if least { Reached::Minimum } else { Reached::SignsMinimum }))
    }
}

/// How far a step that keeps the signs has come.
enum Reached {
    /// To the minimum of all points.
    Minimum,
    /// To the minimum of those with these signs.
    SignsMinimum,
    /// To where a coefficient became zero.
    Zero,
}

/// Sweeps before the signs are taken for those of the minimum.
const SWEEPS: usize = 5;

/// How often signs are taken for those of the minimum.
const MOST_TURNS: usize = 100;

/// Values on a path that is not given.
pub const PATH: usize = 100;

/// A penalised least-squares fit in cross-products, per unit of weight.
pub struct Problem {
    /// Of the columns.
    pub joint: DMatrix<f64>,
    /// Of the columns with the outcome.
    pub score: DVector<f64>,
    /// Standard deviations of the columns.
    pub units: Vec<f64>,
    /// The outcome's.
    pub spread: f64,
    /// 1 is the lasso, 0 is ridge.
    pub alpha: f64,
}

/// The solution at one lambda.
pub struct Along {
    /// The coefficients.
    pub beta: DVector<f64>,
    /// The gradient of the loss there.
    pub left: DVector<f64>,
}

impl Problem {
    /// The penalty at one lambda.
    pub fn penalty(&self, lambda: f64) -> Penalty {
        Penalty::new(lambda, self.alpha, self.spread, self.units.clone())
    }

    /// The values of lambda that are given, or glmnet's path over this number of rows.
    pub fn lambdas(&self, given: Option<Vec<f64>>, rows: usize) -> Vec<f64> {
        given.unwrap_or_else(|| {
            let scores = self.score.iter().zip(&self.units).filter(|(_, unit)| **unit > 0.0);
            let largest = scores.map(|(score, unit)| (score / unit).abs()).fold(0.0, f64::max);
            path(largest, self.alpha, rows, self.score.len(), PATH)
        })
    }

    /// The fits along lambda, each from the one before.
    pub fn along<'a>(&'a self, lambdas: &'a [f64]) -> impl Iterator<Item = Along> + 'a {
        let mut beta = DVector::zeros(self.score.len());
        lambdas.iter().map(move |lambda| {
            let (penalty, joint) = (self.penalty(*lambda), &self.joint);
            let factor = Definite::from_gram_lifted(&penalty.ridged(joint, 1.0));
            let gradient = &self.score - joint * &beta;
            beta += penalty.step(joint, Some(&factor), &gradient, &beta, 1.0);
            Along { beta: beta.clone(), left: &self.score - joint * &beta }
        })
    }
}

/// The values of lambda on glmnet's default path: `count` of them, evenly spaced on the log scale, from the smallest
/// that sets every penalised coefficient to zero down to `ratio` of it.
///
/// `largest` is the largest absolute mean score of a standardised column at the null model.
pub fn path(largest: f64, alpha: f64, rows: usize, columns: usize, count: usize) -> Vec<f64> {
    // glmnet starts the ridge path where alpha = 0.001 would.
    let top = largest / alpha.max(1e-3);
    let ratio: f64 = if rows < columns { 1e-2 } else { 1e-4 };
    (0..count).map(|k| top * ratio.powf(k as f64 / (count.max(2) - 1) as f64)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    proptest! {
        #[test]
        fn the_step_meets_the_optimality_conditions(
            p in 1_usize..25, l1 in 0.0..2.0_f64, l2 in 0.0..1.0_f64, near in prop::bool::ANY, seed in 0_u64..500
        ) {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mut a = DMatrix::from_fn(3 * p, p, |_, _| rng.random_range(-1.0..1.0_f64));
            if near {
                let first = a.column(0).clone_owned();
                a.column_iter_mut().skip(1).for_each(|mut column| column.axpy(1.0, &first, 0.01));
            }
            let h = a.transpose() * &a;
            let gradient = DVector::from_fn(p, |_, _| rng.random_range(-3.0..3.0));
            let beta = DVector::from_fn(p, |_, _| rng.random_range(-1.0..1.0));
            let mut units = vec![1.0; p];
            units[0] = 0.0;
            let penalty = Penalty { l1, l2, units };
            let factor = Definite::from_gram(&penalty.ridged(&h, 1.0)).unwrap();
            let step = penalty.step(&h, Some(&factor).filter(|_| seed % 2 == 0), &gradient, &beta, 1.0);
            let score = &gradient - &h * &step;
            prop_assert!(penalty.violation(&score, &(beta + step)) < 1e-9);
        }
    }

    #[test]
    fn numbers_that_are_none_end_the_search_for_a_step() {
        let penalty = Penalty { l1: 0.1, l2: 0.1, units: vec![1.0; 3] };
        let h = DMatrix::identity(3, 3) * 2.0;
        for bad in [f64::INFINITY, f64::NAN, 1e300] {
            let gradient = DVector::from_vec(vec![1.0, bad, -1.0]);
            for (h, beta) in [(h.clone(), vec![1.0, 0.0, -1.0]), (&h * bad, vec![0.0; 3])] {
                let step = penalty.step(&h, None, &gradient, &DVector::from_vec(beta), 1.0);
                assert!(step.iter().all(|value| value.is_finite()), "{bad}: {step}");
                assert!(bad.is_finite() || step.amax() == 0.0, "{bad}: {step}");
            }
        }
    }

    #[test]
    fn the_path_spans_four_orders_of_magnitude_or_two() {
        let path = super::path(2.0, 0.5, 100, 10, 100);
        assert_eq!((path.len(), path[0]), (100, 4.0));
        assert!((path[99] - 4e-4).abs() < 1e-15);
        assert!((super::path(2.0, 1.0, 10, 100, 100)[99] - 2e-2).abs() < 1e-15);
    }
}
