//! What error to expect of private robust regression, from its plan and a declared design: before anything is spent.
//!
//! Expectation and noise are followed through the rounds to first order, per direction of the rows' second moments `E x x'`. In
//! a direction with eigenvalue `l` the noised table is about `n l`, floored where noise would drown it; a round keeps
//! `J = 1 - (slope / share) n l / max(n l, floor)` of what was wrong before and adds the noise of its score. The cut of a
//! round follows the residuals that the round before has left.

use crate::methods::robust::plan::{Influence, Plan};
use crate::methods::vertical::plan::MEAN_SQUARE;
use crate::privacy::accountant::normal_tail;

/// A design that the study declares so that errors can be predicted. It is an assumption, nothing in it comes from data.
#[derive(Debug, Clone, PartialEq)]
pub struct RobustDesign {
    /// Eigenvalues of `E x x'` of unit rows, one per coefficient.
    pub moments: Vec<f64>,
    /// Standard deviation of the residuals of uncorrupted rows, in half ranges of the outcome.
    pub residual: f64,
    /// Standard deviation of what the columns explain, in half ranges of the outcome.
    pub signal: f64,
    /// Share of the rows that are corrupted, and rejected.
    pub corrupted: f64,
}

impl RobustDesign {
    /// Eigenvalues for `width` coefficients, the first of which has the constant `intercept` in unit rows, any two of the
    /// others having this correlation; rows have mean square 1/4 beside the intercept.
    pub fn equicorrelated(width: usize, intercept: Option<f64>, correlation: f64) -> Vec<f64> {
        let others = width.saturating_sub(usize::from(intercept.is_some())).max(1);
        let share = intercept.map_or(1.0, |constant| 1.0 - constant * constant);
        let each = share * MEAN_SQUARE / others as f64;
        let mut moments: Vec<f64> = intercept.iter().map(|constant| constant * constant).collect();
        moments.push(each * (1.0 + (others as f64 - 1.0) * correlation));
        moments.extend(std::iter::repeat_n(each * (1.0 - correlation), others - 1));
        moments
    }

    /// Square of each coefficient: all explain alike per unit of row.
    fn coefficient_square(&self) -> f64 {
        self.signal * self.signal / self.moments.iter().sum::<f64>()
    }
}

/// What to expect; norms of coefficients of unit rows, in half ranges of the outcome.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RobustPrediction {
    /// Noise of the estimate of one batch.
    pub batch_noise: f64,
    /// Noise after consolidation of all batches, if all of them are trusted.
    pub noise: f64,
    /// Error of the consolidated estimate: noise, sampling, and what the rounds leave unfinished.
    pub error: f64,
    /// Error of one site's own rows, fitted at home without noise.
    pub alone: f64,
    /// Length of the coefficients: the error of coefficients that are all zero.
    pub length: f64,
    /// Root mean square error of a fitted value.
    pub fitted: f64,
    /// Noise in the middle of a summed histogram of residuals, from which cut and slope are read, as a share of the batch's rows.
    pub counts: f64,
}

/// Cut in standard deviations of the residuals, share of clean rows within, slope of the score, and how much larger the
/// sampling variance is than that of least squares.
fn normal_cut(influence: Influence) -> (f64, f64, f64, f64) {
    let density = |at: f64| (-0.5 * at * at).exp() / std::f64::consts::TAU.sqrt();
    match influence {
        Influence::Reject => {
            let cut = 2.5;
            let inside = 1.0 - 2.0 * normal_tail(cut);
            let slope = inside - 2.0 * cut * density(cut);
            (cut, inside, slope, 1.0 / slope)
        }
        Influence::Huber => {
            let cut = 1.345;
            let inside = 1.0 - 2.0 * normal_tail(cut);
            let moment = inside - 2.0 * cut * density(cut) + cut * cut * (1.0 - inside);
            (cut, inside, inside, moment / (inside * inside))
        }
    }
}

impl Plan {
    /// What to expect of `batches` batches like this one, of which a site has `site_rows` rows; no data are involved.
    pub fn predict(&self, design: &RobustDesign, batches: u64, site_rows: u64) -> RobustPrediction {
        let setup = self.setup();
        let (rows, width) = (setup.rows as f64, setup.width as f64);
        let mus = |named: &str| -> Vec<f64> {
            let releases = self.releases().releases().iter();
            releases.filter(|release| release.label.starts_with(named)).map(|release| release.mu).collect()
        };
        let (cut, inside, slope, inflation) = normal_cut(setup.influence);
        // Half of the cells lie below the middle.
        let cells = 0.5 * self.residual_cells() as f64;
        let counts =
            mus("histogram").first().map_or(f64::INFINITY, |mu| std::f64::consts::SQRT_2 / mu * cells.sqrt() / rows);
        let clean = (1.0 - design.corrupted).max(0.5);
        let share = (inside * clean).max(0.5);
        let table = mus("X'X").first().map_or(f64::INFINITY, |mu| std::f64::consts::SQRT_2 / mu);
        let floor = 2.0 * table * width.sqrt();
        // Per direction: what a round's score of size one moves, and how much of an error it takes away.
        let steps: Vec<(f64, f64)> = design
            .moments
            .iter()
            .map(|moment| {
                let size = rows * moment;
                match setup.whiten {
                    true => ((width / (rows * size.max(floor))).sqrt(), size / size.max(floor)),
                    false => (1.0 / (size + floor), size / (size + floor)),
                }
            })
            .collect();
        let length = (design.coefficient_square() * width).sqrt();
        let mut wrong = vec![design.coefficient_square().sqrt(); design.moments.len()];
        let mut noise = vec![0.0; design.moments.len()];
        let fitted = |wrong: &[f64], noise: &[f64]| -> f64 {
            let each = design.moments.iter().zip(wrong.iter().zip(noise));
            each.map(|(moment, (wrong, noise))| moment * (wrong * wrong + noise)).sum()
        };
        for mu in mus("X'psi(r)") {
            let residual = (design.residual * design.residual + fitted(&wrong, &noise)).sqrt();
            let sigma = 2.0 * (cut * residual).min(2.0) / mu;
            for ((wrong, noise), (step, taken)) in wrong.iter_mut().zip(&mut noise).zip(&steps) {
                let kept = 1.0 - slope * clean / share * taken;
                *wrong *= kept;
                *noise = kept * kept * *noise + (step * sigma / share).powi(2);
            }
        }
        let batches = batches.max(1) as f64;
        let sampled = |rows: f64| -> f64 {
            let variance = inflation * design.residual * design.residual / (rows * clean);
            design.moments.iter().map(|moment| variance / moment).sum()
        };
        let batch_noise: f64 = noise.iter().sum();
        let unfinished: f64 = wrong.iter().map(|wrong| wrong * wrong).sum();
        let spread: Vec<f64> = noise
            .iter()
            .zip(&design.moments)
            .map(|(noise, moment)| {
                let sampling = inflation * design.residual * design.residual / (rows * clean * moment);
                (noise + sampling) / batches
            })
            .collect();
        RobustPrediction {
            batch_noise: batch_noise.sqrt(),
            noise: (batch_noise / batches).sqrt(),
            error: (batch_noise / batches + sampled(rows * batches) + unfinished).sqrt(),
            alone: sampled(site_rows as f64).sqrt(),
            length,
            fitted: fitted(&wrong, &spread).sqrt(),
            counts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::robust::plan::Setup;
    use crate::privacy::accountant::gaussian_mu;
    use crate::privacy::sampler::NoisePool;
    use crate::research::private::{Batch, Corruption, HALF_RANGE, batch_setup};

    /// The law of [`Batch`]: normal columns of which a unit row has mean square near .9, residual variance .1.
    fn design(width: usize, corrupted: f64) -> RobustDesign {
        RobustDesign {
            moments: vec![0.9 / width as f64; width],
            residual: 0.1f64.sqrt() / HALF_RANGE,
            signal: 0.9f64.sqrt() / HALF_RANGE,
            corrupted,
        }
    }

    fn plan(rows: usize, width: usize, epsilon: f64) -> Plan {
        Plan::new(batch_setup(rows, width, gaussian_mu(epsilon, 1e-5).powi(2))).unwrap()
    }

    #[test]
    fn errors_of_private_batches_are_predicted_within_a_factor_of_one_and_a_half() {
        for (rows, width, epsilon, corrupted) in
            [(10_000, 10, 0.5, 0.2), (10_000, 10, 1.0, 0.0), (10_000, 10, 3.0, 0.2), (4_000, 5, 1.0, 0.0)]
        {
            let plan = plan(rows, width, epsilon);
            let predicted = plan.predict(&design(width, corrupted), 1, rows as u64);
            let kind = if corrupted > 0.0 { Corruption::Uniform } else { Corruption::None };
            let squares: f64 = (0..5)
                .map(|seed| {
                    let batch = Batch::draw(rows, width, corrupted, kind, 0.0, seed).unwrap();
                    let estimate = batch.fit_with(&plan, &mut NoisePool::seeded(40 + seed)).unwrap();
                    (estimate.coefficients() - &batch.truth).norm_squared()
                })
                .sum();
            let measured = (squares / 5.0).sqrt();
            println!("{rows} x {width}, epsilon {epsilon}: predicted {:.4}, measured {measured:.4}", predicted.error);
            let ratio = predicted.error / measured;
            assert!((1.0 / 1.5..1.5).contains(&ratio), "{rows} {epsilon}: {} {measured}", predicted.error);
            assert!((predicted.length / (width as f64).sqrt() * HALF_RANGE - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn finished_rounds_leave_the_noise_of_the_last_one() {
        for corrupted in [0.0, 0.3] {
            let plan = plan(100_000, 6, 3.0);
            // Rows of norm one, as the plan reckons with.
            let design = RobustDesign { moments: vec![1.0 / 6.0; 6], ..design(6, corrupted) };
            let mut scores = plan.releases().releases().iter().filter(|release| release.label.starts_with("X'psi"));
            let last = 2.0 * 2.5 * design.residual / scores.next_back().unwrap().mu * 6f64.powf(1.5)
                / (1e5 * (1.0 - corrupted));
            let ratio = plan.predict(&design, 1, 100_000).batch_noise / last;
            assert!((0.98..1.06).contains(&ratio), "{ratio}");
        }
    }

    #[test]
    fn batches_take_noise_away_and_thin_directions_keep_it() {
        let plan = plan(10_000, 6, 1.0);
        let of = |correlation: f64, batches: u64| {
            let moments = RobustDesign::equicorrelated(6, Some((1.0f64 / 6.0).sqrt()), correlation);
            assert_eq!(moments.len(), 6);
            let design = RobustDesign { moments, residual: 0.2, signal: 0.3, corrupted: 0.0 };
            plan.predict(&design, batches, 10_000)
        };
        let (one, nine, thin) = (of(0.0, 1), of(0.0, 9), of(0.8, 1));
        assert!((one.noise / nine.noise - 3.0).abs() < 1e-12 && one.batch_noise == nine.batch_noise);
        assert!(one.error > nine.error && one.alone == nine.alone);
        assert!(thin.noise > 1.5 * one.noise, "{} {}", thin.noise, one.noise);
        // What whitening promises: fitted values do not suffer.
        assert!((thin.fitted / one.fitted - 1.0).abs() < 0.3, "{} {}", thin.fitted, one.fitted);
    }

    #[test]
    fn thin_budgets_are_worse_than_no_exchange_and_hopeless_ones_worse_than_zero() {
        let of = |rows: usize, epsilon: f64, batches: u64| {
            let setup = Setup { coefficient_bound: 1e3, ..*plan(10_000, 6, 1.0).setup() };
            let plan = Plan::new(Setup { rows, budget: gaussian_mu(epsilon, 1e-5).powi(2), ..setup }).unwrap();
            let moments = RobustDesign::equicorrelated(6, None, 0.0);
            let design = RobustDesign { moments, residual: 0.2, signal: 0.3, corrupted: 0.0 };
            plan.predict(&design, batches, rows as u64)
        };
        let (rich, thin, hopeless) = (of(50_000, 3.0, 20), of(3_000, 0.5, 2), of(300, 0.1, 1));
        assert!(rich.error < rich.alone && rich.error < rich.length);
        assert!(thin.error > thin.alone && thin.error < thin.length, "{thin:?}");
        assert!(hopeless.error > hopeless.length, "{hopeless:?}");
    }
}
