//! Simulated batches with a known share of corrupted rows, as the published comparison draws them and in harder kinds.

use nalgebra::{DMatrix, DVector};
use rand::Rng;
use rand::seq::SliceRandom;
use rand_distr::{StandardNormal, StudentT};

/// What is wrong with the corrupted rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Corruption {
    /// `y` plus a uniform draw from five times the largest clean response to either side; the published kind.
    Uniform,
    /// `y` plus the largest clean response, always to the same side.
    #[allow(dead_code, reason = "unit tests of fedreg-common draw it")]
    Shift,
    /// The rows follow other coefficients: sites that collude.
    Colluding(DVector<f64>),
    /// As `Colluding`, and the features are ten times as large.
    Leverage(DVector<f64>),
}

/// The law of the features.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Design {
    /// Independent standard normal.
    Independent,
    /// Standard normal with correlation `rho^|i-j|`.
    Toeplitz(f64),
}

/// The law of one batch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BatchLaw {
    /// Rows.
    pub(crate) rows: usize,
    /// Share of corrupted rows, rounded to whole rows.
    pub(crate) corrupted: f64,
    /// What is wrong with them.
    pub(crate) corruption: Corruption,
    /// Law of the features.
    pub(crate) design: Design,
    /// Variance of the noise of clean rows; uniform and shifted rows carry a tenth of it.
    pub(crate) noise: f64,
}

impl BatchLaw {
    /// The published law: independent features, noise variance 0.1, uniform corruption.
    pub(crate) fn published(rows: usize, corrupted: f64) -> Self {
        BatchLaw { rows, corrupted, corruption: Corruption::Uniform, design: Design::Independent, noise: 0.1 }
    }
}

/// One simulated batch; the clean rows come first.
#[derive(Clone, PartialEq)]
pub(crate) struct SyntheticBatch {
    /// `n x p` features.
    pub(crate) x: DMatrix<f64>,
    /// Outcome.
    pub(crate) y: DVector<f64>,
    /// Number of clean rows.
    pub(crate) clean: usize,
    /// Share of corrupted rows.
    pub(crate) corrupted: f64,
}

/// Coefficients drawn uniformly from `[0, 1)` and scaled to length one: all positive, as published.
pub(crate) fn unit_coefficients(rng: &mut impl Rng, columns: usize) -> DVector<f64> {
    DVector::from_fn(columns, |_, _| rng.random::<f64>()).normalize()
}

/// A direction drawn evenly from the unit sphere.
pub(crate) fn unit_direction(rng: &mut impl Rng, columns: usize) -> DVector<f64> {
    DVector::from_fn(columns, |_, _| rng.sample(StandardNormal)).normalize()
}

/// Draws one batch around `beta`.
pub(crate) fn batch(rng: &mut impl Rng, beta: &DVector<f64>, law: &BatchLaw) -> SyntheticBatch {
    let (n, p) = (law.rows, beta.len());
    let bad = (law.corrupted * n as f64).round().clamp(0.0, n as f64) as usize;
    let clean = n - bad;
    let mut x = DMatrix::from_fn(n, p, |_, _| rng.sample::<f64, _>(StandardNormal));
    if let Design::Toeplitz(rho) = law.design {
        let rest = (1.0 - rho * rho).sqrt();
        for j in 1..p {
            let (left, mut right) = x.columns_range_pair_mut(j - 1, j);
            right *= rest;
            right.axpy(rho, &left, 1.0);
        }
    }
    let mut noise = |variance: f64| variance.sqrt() * rng.sample::<f64, _>(StandardNormal);
    let mut y = &x * beta;
    let structured = matches!(law.corruption, Corruption::Colluding(_) | Corruption::Leverage(_));
    for i in 0..n {
        y[i] += noise(if i < clean || structured { law.noise } else { 0.1 * law.noise });
    }
    let largest = if clean == 0 { 1.0 } else { y.rows(0, clean).amax() };
    match &law.corruption {
        Corruption::Uniform => {
            for i in clean..n {
                y[i] += rng.random_range(-5.0 * largest..=5.0 * largest);
            }
        }
        Corruption::Shift => y.rows_mut(clean, bad).add_scalar_mut(largest),
        Corruption::Colluding(other) | Corruption::Leverage(other) => {
            let apart = other - beta;
            for i in clean..n {
                // The noise already added stays that of the clean rows.
                let mut moved = x.row(i).transpose().dot(&apart);
                if matches!(law.corruption, Corruption::Leverage(_)) {
                    moved += 9.0 * x.row(i).transpose().dot(other);
                    x.row_mut(i).scale_mut(10.0);
                }
                y[i] += moved;
            }
        }
    }
    SyntheticBatch { x, y, clean, corrupted: law.corrupted }
}

/// Laws of honest rows: what real outcomes and covariates look like beside the normal law.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowLaw {
    /// Standard normal.
    Normal,
    /// Zero or one.
    Binary,
    /// `exp` of a standard normal: skewed, with a long tail to one side.
    LogNormal,
    /// Student's law with 3 degrees of freedom: symmetric, with long tails.
    StudentT,
}

impl RowLaw {
    /// Every law.
    pub(crate) const ALL: [RowLaw; 4] = [RowLaw::Normal, RowLaw::Binary, RowLaw::LogNormal, RowLaw::StudentT];

    fn draw(self, rng: &mut impl Rng) -> f64 {
        match self {
            RowLaw::Normal => rng.sample(StandardNormal),
            RowLaw::Binary => f64::from(u8::from(rng.random::<f64>() < 0.3)),
            RowLaw::LogNormal => rng.sample::<f64, _>(StandardNormal).exp(),
            // Three degrees of freedom are always accepted.
            RowLaw::StudentT => StudentT::new(3.0).map_or(0.0, |law| rng.sample(law)),
        }
    }
}

/// Honest rows, none of them corrupted: `columns` independent covariates of one law, and an outcome that is one more than
/// half of their sum, with errors of a law. An outcome of zero or one has the logistic function of half of the sum of the
/// centred covariates, less 0.5, as its probability of a one.
pub(crate) fn honest(
    rng: &mut impl Rng,
    rows: usize,
    columns: usize,
    outcome: RowLaw,
    covariates: RowLaw,
) -> (DMatrix<f64>, DVector<f64>) {
    let x = DMatrix::from_fn(rows, columns, |_, _| covariates.draw(rng));
    let middle = match covariates {
        RowLaw::Normal | RowLaw::StudentT => 0.0,
        RowLaw::Binary => 0.3,
        RowLaw::LogNormal => 0.5_f64.exp(),
    };
    let y = DVector::from_fn(rows, |i, _| {
        let sum = 0.5 * x.row(i).sum();
        match outcome {
            RowLaw::Binary => {
                let log_odds = sum - 0.5 * middle * columns as f64 - 0.5;
                f64::from(u8::from(rng.random::<f64>() < (1.0 + (-log_odds).exp()).recip()))
            }
            law => 1.0 + sum + law.draw(rng),
        }
    });
    (x, y)
}

/// Shares for `batches` batches, `bad` of them at 0.9 and the others at 0.1, in random order: the law of the published
/// table of bad batches.
pub(crate) fn mixed_shares(rng: &mut impl Rng, batches: usize, bad: usize) -> Vec<f64> {
    let mut shares: Vec<f64> = (0..batches).map(|i| if i < bad { 0.9 } else { 0.1 }).collect();
    shares.shuffle(rng);
    shares
}

/// Shares for `batches` batches whose mean is `total`, drawn evenly from 0 to twice that and scaled; none is above 0.95.
pub(crate) fn scattered_shares(rng: &mut impl Rng, batches: usize, total: f64) -> Vec<f64> {
    let mut shares: Vec<f64> = (0..batches).map(|_| rng.random()).collect();
    // What is cut off at the top is made up for by the others.
    for _ in 0..100 {
        let mean = shares.iter().sum::<f64>() / batches as f64;
        shares.iter_mut().for_each(|share| *share = (*share * total / mean).min(0.95));
    }
    shares
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    #[test]
    fn corrupted_rows_follow_what_they_were_told_to() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let beta = unit_coefficients(&mut rng, 4);
        let other = -&beta;
        let mut law = BatchLaw { noise: 0.0, ..BatchLaw::published(50, 0.2) };
        for (corruption, follows) in [
            (Corruption::Uniform, &beta),
            (Corruption::Shift, &beta),
            (Corruption::Colluding(other.clone()), &other),
            (Corruption::Leverage(other.clone()), &other),
        ] {
            law.corruption = corruption.clone();
            let b = batch(&mut rng, &beta, &law);
            assert_eq!(b.clean, 40);
            assert!((b.x.rows(0, 40) * &beta - b.y.rows(0, 40)).amax() < 1e-12);
            let apart = (b.x.rows(40, 10) * follows - b.y.rows(40, 10)).amax();
            match corruption {
                Corruption::Uniform | Corruption::Shift => assert!(apart > 0.5),
                Corruption::Colluding(_) | Corruption::Leverage(_) => assert!(apart < 1e-11),
            }
            let norm = b.x.rows(40, 10).norm() / 40.0_f64.sqrt();
            assert_eq!(matches!(corruption, Corruption::Leverage(_)), norm > 5.0);
        }
    }

    #[test]
    fn toeplitz_features_have_the_stated_correlations() {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let law = BatchLaw { design: Design::Toeplitz(0.9), ..BatchLaw::published(40_000, 0.0) };
        let beta = unit_coefficients(&mut rng, 4);
        let x = batch(&mut rng, &beta, &law).x;
        let gram = x.transpose() * &x / 40_000.0;
        // Standard error of each entry is at most 0.0071: five of them.
        for i in 0..4_usize {
            for j in 0..4_usize {
                assert!((gram[(i, j)] - 0.9_f64.powi(i.abs_diff(j) as i32)).abs() < 0.036);
            }
        }
    }

    #[test]
    fn shares_have_their_mean_and_bounds() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let mixed = mixed_shares(&mut rng, 20, 6);
        assert_eq!(mixed.iter().filter(|s| **s == 0.9).count(), 6);
        assert_eq!(mixed.len(), 20);
        for total in [0.05, 0.3, 0.45] {
            let scattered = scattered_shares(&mut rng, 20, total);
            assert!((scattered.iter().sum::<f64>() / 20.0 - total).abs() < 1e-6, "{total}: {scattered:?}");
            assert!(scattered.iter().all(|share| (0.0..=0.95).contains(share)));
        }
    }
}
