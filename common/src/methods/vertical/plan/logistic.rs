//! Private logistic regression from one table and two gradients that open with the noise of both parties: what the mechanism `crossprod`
//! is for binomial models whose outcome both parties hold.
//!
//! Each party releases its own table `X'X`, the vectors `X'(2y - 1)` and `X'1`, and its share of the table between the blocks with its noise.
//! Both compute the same point from what opened. Then, twice, the means at the point are computed on shares by a separated kernel
//! ([`crate::secure::kernel`]), the gradient follows on shares, each party adds noise to its share of every entry before the share leaves,
//! and both compute the next point. There is nothing that stops early, and no range that is looked up: the interval of the
//! polynomials is the length of a part of the point, which is public.
//!
//! # Why it is private
//!
//! Neighbours replace one row `x` of one party by `z`; `|x|, |z| <= 1`, and so is the other party's row, `|w| <= 1`. The intercept is a column
//! of ones outside of these rows. The outcome is protected from neither party. A share is as private as what opens with the noise of its sender
//! alone, by the head of [the share's module](crate::privacy::mechanism::share).
//!
//! **Table.** With `D = |x - z|^2 <= 4` the vectors `X'(2y - 1)` and `X'1` move by `|x - z|` each and the table between the blocks by
//! `|x - z||w|`. At equal noise `s` they cost a pair at most `3 D / s^2`, with `b = 12 / s^2` at most `b D / 4`: as vectors `X'r` of the same rows,
//! whose lemma at the head of [the mechanism](crate::privacy::mechanism) makes `X'X` free as long as its own cost is at most `b / 4`.
//!
//! **Gradient.** Condition on all that opened before: the point is fixed by it. Let `M` be a public whole number. The mean of a row is computed
//! as a whole number between `-e` and `M + e`, see below, the outcome is 0 or `M`, and rows are whole numbers of norm at most `2^15`. So the residual
//! of the replaced row, `r` before and `q` after, lies in one interval of length `M + 2 e` with 0 or its mirror image: `[-e, M + e]` at an outcome of
//! 0, `[-M - e, e]` at 1. `X_own'r`, `X_other'r` and `2^15 1'r` move, squared, by `|x r - z q|^2 + (r - q)^2 (|w|^2 + 2^30)`. That is a sum of
//! squared norms of linear functions of `(r, q)`, so it is convex and largest at a corner. Where `r = q` it is at most
//! `4 2^30 (M + e)^2`, where they are the two ends at most `2^30 (M + 2 e)^2 + 2 2^30 (M + 2 e)^2`. Both are at most `(2^16 (M + 2 e))^2`: that is the
//! squared sensitivity of all entries together, which all get noise of standard deviation `2^40`. The row of the other party enters by its norm
//! alone, so the bound is the same towards both.
//!
//! **Means.** The factors are `F_k = round(sqrt(M) T_k)` at one party and `G_k = round(sqrt(M) h_k)` at the other, and the mean of a row is
//! `sum F_k G_k + round(M h_0)`, all of it whole numbers. With `q = 1 / sqrt(M)` and `D` terms that differs from `M` times the value of the
//! kernel by at most `M` times `(q / 2) (sum |h_k| + D - 1) + (D - 1) q^2 / 4 + q^2 / 2`, and `sum_(k > 0) |h_k| <= sqrt((D - 1) / 2)`, since the mean square of
//! `K - 1/2` over the nodes, at most a quarter, is that of its coefficients, those of `k > 0` halved. The value of the kernel itself is at most
//! [`KERNEL_EXCESS`] outside of `[0, 1]` for every `t`: for a fixed `t` it is a trigonometric polynomial of degree `D - 1`, whose largest size is at most that on
//! `N` equidistant points divided by `cos(pi (D - 1) / N)`; in `t` its slope is at most the Lebesgue constant of the nodes, `1 + 2 log(D) / pi`,
//! times a quarter; beyond the interval's length plus 25 it is constant to 1e-10. A test computes this bound for every class.
//!
//! Adaptive composition of Gaussian mechanisms adds the squares, as everywhere (`docs/proofs.md`).
//!
//! # Standard errors
//!
//! A Newton step with the curvature of a normal linear predictor leaves the noise of the gradient, and of the last point's error what the
//! curvature is wrong by, which is the noise of the table. The covariance of sampling, the inverse curvature at the end, is added.

mod evaluation;
mod forecast;

use nalgebra::{DMatrix, DVector};
use serde::{Deserialize, Serialize};

pub use self::evaluation::{GradientShapes, WholeMeans};
pub(super) use self::forecast::SIGNAL;
use super::crossprod::{SHARE, lifted};
use super::{PlanError, Side};
use crate::glm::Family;
use crate::linalg::Definite;
use crate::privacy::accountant::charged_mu;
use crate::privacy::bounds::{ClippedResiduals, ClippedRows};
use crate::privacy::mechanism::share::ShareScale;
use crate::privacy::mechanism::{PlannedRelease, Query, ReleaseError, ReleasePlan, free_table_rounding, noise_scale};
use crate::privacy::sampler::SCALE;
use crate::secure::kernel::{self, CLASSES, Kernel, Separated};
use crate::secure::optimiser::{Beside, Model};

/// Gradients of a run.
const GRADIENTS: usize = 2;

/// Parts of the budget: the table with its vectors, then the gradients.
const PARTS: [f64; 1 + GRADIENTS] = [0.25, 0.10, 0.65];

/// How far outside of `[0, 1]` the value of a kernel of [`DIGITS`] can be.
const KERNEL_EXCESS: f64 = 0.003;

/// Digits of the kernels.
const DIGITS: u32 = 4;

/// The largest class of the party that takes the polynomials: the shorter part of a point is cut at it.
const LAST_CLASS: usize = 12;

/// Largest standard deviation of the linear predictor at the first point, and of a step.
const STEEPEST_START: f64 = 3.0;
const LONGEST_STEP: f64 = 2.0;

/// What both parties agree on before anything is computed; nothing here comes from data.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LogisticSetup {
    /// Number of rows.
    pub rows: usize,
    /// Entries of Alice's rows, without an intercept.
    pub alice_width: usize,
    /// Entries of Bob's rows.
    pub bob_width: usize,
    /// Sum of `(sensitivity / sigma)^2` that each party's releases may cost.
    pub budget: f64,
}

/// A release of one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogisticRelease {
    /// Its own table `X'X`.
    Table,
    /// `X'(2y - 1)`.
    Score,
    /// `X'1`.
    Sums,
    /// Its share of the table between the blocks, with its noise.
    Share,
    /// Its share of a gradient, with its noise; the first is 0.
    Gradient(usize),
}

impl LogisticRelease {
    /// In the order in which a side makes them.
    pub const ALL: [LogisticRelease; 6] = [
        LogisticRelease::Table,
        LogisticRelease::Score,
        LogisticRelease::Sums,
        LogisticRelease::Share,
        LogisticRelease::Gradient(0),
        LogisticRelease::Gradient(1),
    ];
}

/// The whole numbers of a gradient: a mean of 1 is `whole`, and noise has standard deviation 2^40.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct GradientScale {
    whole: u64,
}

impl GradientScale {
    /// The largest, hence the least noise, that keeps `mu`; none where even that of 2^10 does not.
    pub fn within(mu: f64) -> Option<GradientScale> {
        let keeps = |whole: u64| GradientScale { whole }.mu().is_ok_and(|reached| reached <= mu);
        let (mut below, mut above) = (1_u64 << 10, 1_u64 << 40);
        keeps(below).then_some(())?;
        while above - below > 1 {
            let middle = below + (above - below) / 2;
            if keeps(middle) { below = middle } else { above = middle }
        }
        Some(GradientScale { whole: below })
    }

    /// The whole number that stands for a mean of 1.
    pub fn whole(self) -> u64 {
        self.whole
    }

    /// How far outside of 0 and [`GradientScale::whole`] the computed mean of a row can be, rounded up.
    pub fn excess(self) -> u64 {
        let most = Separated::new(Kernel::Mean, LAST_CLASS, DIGITS).map_or(1, |separated| separated.terms) as f64 - 1.0;
        let q = 1.0 / (self.whole as f64).sqrt();
        let rounding = 0.5 * q * ((0.5 * most).sqrt() + most) + 0.25 * most * q * q + 0.5 * q * q;
        // What evaluating the factors in double precision adds is far below a billionth.
        ((KERNEL_EXCESS + rounding + 1e-9) * self.whole as f64).ceil() as u64
    }

    /// The sensitivity of all entries of a gradient together, in the integers that open.
    pub fn sensitivity(self) -> f64 {
        // A whole number far below 2^53.
        ((self.whole + 2 * self.excess()) << 16) as f64
    }

    /// What a gradient costs, rounded up.
    ///
    /// # Errors
    /// Never with a sensitivity that is a whole number.
    pub fn mu(self) -> Result<f64, crate::privacy::accountant::ScaleError> {
        charged_mu(self.sensitivity(), SCALE as f64)
    }

    /// The unit of the integers that open, in products of entries of rows of norm one with residuals.
    pub fn step(self) -> f64 {
        1.0 / ((self.whole as f64) * 32_768.0)
    }

    /// Standard deviation of one side's noise, in that unit of rows and residuals.
    pub fn sigma(self) -> f64 {
        SCALE as f64 * self.step()
    }
}

/// The releases of one side with their noise, from public facts alone.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LogisticSide {
    /// Entries of a row.
    pub width: usize,
    /// Noise of `X'X`.
    pub table_sigma: f64,
    /// Noise of `X'(2y - 1)` and of `X'1`.
    pub vector_sigma: f64,
    /// What is charged, and for what.
    pub releases: ReleasePlan,
}

/// The whole protocol, fixed before it starts.
#[derive(Debug, Clone, PartialEq)]
pub struct LogisticPlan {
    setup: LogisticSetup,
    scale: ShareScale,
    gradients: [GradientScale; GRADIENTS],
    alice: LogisticSide,
    bob: LogisticSide,
}

/// The table as it opened: noised, so whatever follows from it is free.
#[derive(Debug, Clone, PartialEq)]
pub struct LogisticTables {
    /// `X_a'X_a` and `X_b'X_b`.
    pub tables: [DMatrix<f64>; 2],
    /// `X_a'X_b`.
    pub cross: DMatrix<f64>,
    /// `X'(2y - 1)`, Alice's entries first.
    pub score: DVector<f64>,
    /// `X'1`.
    pub sums: DVector<f64>,
    /// The mean of the outcome, which both hold.
    pub mean: f64,
}

/// The fit between two gradients, the same at both parties.
pub struct LogisticFit {
    plan: LogisticPlan,
    model: Model,
    /// The table of a column of ones and the centred columns, over the rows.
    joint: DMatrix<f64>,
    means: DVector<f64>,
    /// The linear predictor at the means, and slopes of unit rows.
    point: DVector<f64>,
    /// What noise has left of the covariance of the point.
    noise: DMatrix<f64>,
    taken: usize,
}

impl LogisticSide {
    /// Every release in its order: what it is, and the standard deviation of its noise. All of them go to the peer.
    pub fn lines<'a>(&'a self, plan: &'a LogisticPlan, side: Side) -> impl Iterator<Item = (&'a str, f64)> {
        let planned = self.releases.releases().iter().zip(LogisticRelease::ALL);
        planned.map(move |(planned, release)| (planned.label.as_str(), plan.sigma(side, release)))
    }
}

impl LogisticPlan {
    /// Calibrates every release of both sides.
    ///
    /// # Errors
    /// A number that is not positive, or a budget without noise.
    pub fn new(setup: LogisticSetup) -> Result<LogisticPlan, PlanError> {
        let positive = [
            ("the number of rows", setup.rows as f64),
            ("the number of Alice's columns", setup.alice_width as f64),
            ("the number of Bob's columns", setup.bob_width as f64),
            ("the budget", setup.budget),
        ];
        if let Some(&(what, value)) = positive.iter().find(|(_, value)| !(*value > 0.0 && value.is_finite())) {
            return Err(PlanError::Positive { what, value });
        }
        let failed = || PlanError::NoBudget { side: Side::Alice };
        // Rounding of the sums, a few parts in 1e16 each, must not pass the budget. The unit of what opens is common to the sides.
        let most = rounded(setup.alice_width.max(setup.bob_width));
        let root = (setup.budget.sqrt() * (1.0 - 1e-13) - free_table_rounding(most)).max(0.0);
        let vector = root * (PARTS[0] / 3.0).sqrt();
        let scale = ShareScale::within(2.0, vector).ok_or_else(failed)?;
        let mut gradients = [GradientScale { whole: 0 }; GRADIENTS];
        for (gradient, part) in gradients.iter_mut().zip(&PARTS[1..]) {
            *gradient = GradientScale::within(root * part.sqrt()).ok_or_else(failed)?;
        }
        let alice = side(Side::Alice, setup.alice_width, vector, scale, &gradients)?;
        let bob = side(Side::Bob, setup.bob_width, vector, scale, &gradients)?;
        Ok(LogisticPlan { setup, scale, gradients, alice, bob })
    }

    /// What was agreed.
    pub fn setup(&self) -> &LogisticSetup {
        &self.setup
    }

    /// One side's releases.
    pub fn side(&self, side: Side) -> &LogisticSide {
        match side {
            Side::Alice => &self.alice,
            Side::Bob => &self.bob,
        }
    }

    /// How products are scaled in the table that opens.
    pub fn scale(&self) -> ShareScale {
        self.scale
    }

    /// The whole numbers of each gradient.
    pub fn gradients(&self) -> &[GradientScale; GRADIENTS] {
        &self.gradients
    }

    /// One of a side's local releases; none for a share, which is not of own rows alone. `outcome` is 0 or 1.
    ///
    /// # Errors
    /// More rows than the integers hold.
    pub fn query(
        &self,
        release: LogisticRelease,
        rows: &ClippedRows,
        outcome: &[f64],
    ) -> Result<Option<Query>, ReleaseError> {
        let score = |values: &[f64]| Query::score(rows, &ClippedResiduals::clip(values, 1.0));
        Ok(match release {
            LogisticRelease::Table => Some(Query::gram(rows)?),
            LogisticRelease::Score => Some(score(&outcome.iter().map(|y| 2.0 * y - 1.0).collect::<Vec<_>>())),
            LogisticRelease::Sums => Some(score(&vec![1.0; rows.len()])),
            LogisticRelease::Share | LogisticRelease::Gradient(_) => None,
        })
    }

    /// The first point, from the table. None where the outcome has one value alone.
    pub fn begin(&self, opened: &LogisticTables) -> Option<LogisticFit> {
        let LogisticSetup { rows, alice_width: alice, bob_width: bob, .. } = self.setup;
        let (rows, width) = (rows as f64, alice + bob);
        let means = &opened.sums / rows;
        let mut table = DMatrix::zeros(width, width);
        table.view_mut((0, 0), (alice, alice)).copy_from(&opened.tables[0]);
        table.view_mut((alice, alice), (bob, bob)).copy_from(&opened.tables[1]);
        table.view_mut((0, alice), (alice, bob)).copy_from(&opened.cross);
        table.view_mut((alice, 0), (bob, alice)).copy_from(&opened.cross.transpose());
        let centred = lifted(&(table / rows - &means * means.transpose()), self.floor(), 0.0);
        let mut joint = DMatrix::identity(1 + width, 1 + width);
        joint.view_mut((1, 1), (width, width)).copy_from(&centred);
        let along = &opened.score * (0.5 / rows) - &means * (opened.mean - 0.5);
        let linear = Definite::from_gram(&centred)?.solve(&along);
        let length = (&centred * &linear).dot(&linear).max(1e-12);
        let beside = Beside { intercept: true, mean: opened.mean, offset: None };
        let model = Model::new(Family::Binomial, joint.clone(), &DVector::zeros(1 + width), beside)?;
        let (intercept, factor) = model.matched(opened.mean, length, STEEPEST_START);
        let point = (&linear * factor).insert_row(0, intercept);
        let noise = DMatrix::zeros(1 + width, 1 + width);
        let mut fit = LogisticFit { plan: self.clone(), model, joint, means, point, noise, taken: 0 };
        fit.cut();
        Some(fit)
    }

    /// The smallest eigenvalue of the table over the rows: about the norm of its own noise, so that it cannot blow up.
    fn floor(&self) -> f64 {
        let LogisticSetup { rows, alice_width, bob_width, .. } = self.setup;
        self.vector_sigma() * ((alice_width + bob_width) as f64).sqrt() / rows as f64
    }

    /// Standard deviation of one side's noise on the table between the blocks, and about that of the vectors.
    fn vector_sigma(&self) -> f64 {
        self.alice.vector_sigma.max(self.bob.vector_sigma).max(self.scale.sigma())
    }
}

impl LogisticFit {
    /// The point at which the next gradient is taken: the intercept, and both parties' slopes of unit rows.
    pub fn point(&self) -> (f64, [DVector<f64>; 2]) {
        let LogisticSetup { alice_width: alice, bob_width: bob, .. } = self.plan.setup;
        let slopes = self.point.rows(1, alice + bob);
        let parts = [slopes.rows(0, alice).into_owned(), slopes.rows(alice, bob).into_owned()];
        (self.point[0] - self.means.dot(&slopes), parts)
    }

    /// The kernel of the next gradient, and the side that takes the polynomials: the one with the shorter part.
    pub fn kernel(&self) -> Option<(Separated, Side)> {
        let lengths = self.point().1.map(|part| part.norm());
        let side = if lengths[0] <= lengths[1] { Side::Alice } else { Side::Bob };
        let class = kernel::class(lengths[0].min(lengths[1]))?;
        Some((Separated::new(Kernel::Mean, class, DIGITS)?, side))
    }

    /// Makes the shorter part of the point no longer than the last class.
    fn cut(&mut self) {
        let parts = self.point().1.map(|part| part.norm());
        let most = CLASSES[LAST_CLASS];
        let shorter = parts[0].min(parts[1]);
        if shorter > most {
            let share = most / shorter * (1.0 - 1e-12);
            self.point.rows_mut(1, self.means.len()).scale_mut(share);
        }
    }

    /// Takes an opened gradient in: the sum of the residuals, then their products with the columns, in units of rows and residuals.
    pub fn take(&mut self, opened: &DVector<f64>) -> bool {
        let size = self.point.len();
        let Some(scale) = self.plan.gradients.get(self.taken).filter(|_| opened.len() == size) else { return false };
        let rows = self.plan.setup.rows as f64;
        let (curvature, weight) = self.model.curvature_with_weight(&self.point);
        let Some(inverse) = Definite::from_gram(&curvature).map(|definite| definite.inverse()) else { return false };
        // Columns less their means, as in the table: the noise of the sum enters every entry.
        let mut map = DMatrix::identity(size, size);
        map.view_mut((1, 0), (size - 1, 1)).copy_from(&-&self.means);
        let variance = 2.0 * scale.sigma() * scale.sigma();
        let left =
            2.0 * (self.plan.vector_sigma() * weight).powi(2) * self.noise.view((1, 1), (size - 1, size - 1)).trace();
        let inner = &map * map.transpose() * variance + DMatrix::identity(size, size) * left;
        self.noise = &inverse * inner * &inverse / (rows * rows);
        let mut step = &inverse * (&map * opened) / rows;
        let length = (&self.joint * &step).dot(&step).max(0.0).sqrt();
        step *= (LONGEST_STEP / length.max(f64::MIN_POSITIVE)).min(1.0);
        self.point -= step;
        self.taken += 1;
        self.cut();
        true
    }

    /// Intercept and slopes of unit rows, Alice's first, with their covariance under noise and sampling; the second without the latter.
    pub fn finish(&self) -> Option<(DVector<f64>, DMatrix<f64>, DMatrix<f64>)> {
        let (intercept, parts) = self.point();
        let slopes = parts.iter().flat_map(|part| part.iter().copied());
        let values = DVector::from_iterator(self.point.len(), std::iter::once(intercept).chain(slopes));
        let (curvature, _) = self.model.curvature_with_weight(&self.point);
        let sampling = Definite::from_gram(&curvature)?.inverse() / self.plan.setup.rows as f64;
        let mut map = DMatrix::identity(self.point.len(), self.point.len());
        map.view_mut((0, 1), (1, self.means.len())).copy_from(&-self.means.transpose());
        let of = |covariance: &DMatrix<f64>| &map * covariance * map.transpose();
        Some((values, of(&(&self.noise + sampling)), of(&self.noise)))
    }
}

/// Entries of a side's local releases, which are rounded.
fn rounded(width: usize) -> usize {
    width * (width + 1) / 2 + 2 * width
}

fn side(
    side: Side,
    width: usize,
    vector: f64,
    scale: ShareScale,
    gradients: &[GradientScale; GRADIENTS],
) -> Result<LogisticSide, PlanError> {
    let failed = |_| PlanError::NoBudget { side };
    let share = scale.mu(2.0).map_err(failed)?;
    // Within a quarter of what the vectors cost: then it is free.
    let table = (0.25 * (1.0 - 1e-8) * (2.0 * vector * vector + share * share)).sqrt();
    let planned = |label: &str, mu: f64| PlannedRelease { label: label.to_owned(), mu };
    let mut releases =
        vec![planned("X'X", table), planned("X'(2y - 1)", vector), planned("X'1", vector), planned(SHARE, share)];
    for (number, gradient) in (1..).zip(gradients) {
        releases.push(planned(&format!("share of gradient {number}"), gradient.mu().map_err(failed)?));
    }
    let vector_sigma = noise_scale(2.0, width, vector).map_err(failed)?.0;
    let table_sigma =
        noise_scale(std::f64::consts::SQRT_2.next_up(), width * (width + 1) / 2, table).map_err(failed)?.0;
    let releases = ReleasePlan::with_free_table(releases, 0, &[1, 2, 3], rounded(width));
    Ok(LogisticSide { width, table_sigma, vector_sigma, releases })
}

#[cfg(test)]
pub(crate) mod tests;
