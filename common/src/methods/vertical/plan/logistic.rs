//! Private logistic and Poisson regression from one table and two gradients that open with the noise of both parties: what the mechanism
//! `crossprod` is for binomial and poisson models.
//!
//! Each party releases its own table `X'X`, the vectors `X'(2y - 1)` and `X'1`, and its share of the table between the blocks with its noise.
//! Where Alice alone holds the outcome, she releases the sum of `y - 1/2` as well, and Bob's `X'(2y - 1)` is a row of the table between the
//! blocks: it depends on her outcome.
//! Both compute the same point from what opened. Then, twice, the means at the point are computed on shares by a separated kernel
//! ([`crate::secure::kernel`]), the gradient follows on shares, each party adds noise to its share of every entry before the share leaves,
//! and both compute the next point. There is nothing that stops early, and no range that is looked up: the interval of the
//! polynomials is the length of a part of the point, which is public.
//!
//! Below, `y` is the outcome of 0 and 1, and of a poisson model the count as a share of the largest one, `Y`, which the study declares: counts
//! above it are cut at it. So all that is said of the table holds for both, and [`counts`] has what is different in the means.
//!
//! # Why it is private
//!
//! Neighbours replace one row `x` of one party by `z`; `|x|, |z| <= 1`, and so is the other party's row, `|w| <= 1`. The intercept is a column
//! of ones outside of these rows. An outcome at both is protected from neither party; one at Alice alone is replaced with her row. A share is
//! as private as what opens with the noise of its sender alone, by the head of [the share's module](crate::privacy::mechanism::share).
//!
//! **Table.** With `D = |x - z|^2 <= 4` the vectors `X'(2y - 1)` and `X'1` move by `|x - z|` each and the table between the blocks by
//! `|x - z||w|`. At equal noise `s` they cost a pair at most `3 D / s^2`, with `b = 12 / s^2` at most `b D / 4`: as vectors `X'r` of the same rows,
//! whose lemma at the head of [the mechanism](crate::privacy::mechanism) makes `X'X` free as long as its own cost is at most `b / 4`.
//!
//! *Outcome at Alice, her row and outcome*, `t = 2y - 1` replaced by `u`, both in `[-1, 1]`. Of `X'X`, `X't`, `1't / 2`, `X'1` and the table with the
//! row `t'X_b` behind it the squared shift at equal noise is `f = |xx' - zz'|^2 + |xt - zu|^2 + (t - u)^2 / 4 + D + (D + (t - u)^2) |w|^2`. It is convex in
//! `(t, u)`, hence largest at a corner, and grows in `|x|`, `|z|` and `|w|` where `g = x'z` is fixed; at norm one it is `8 - 2 g^2 - 6 g`, at most 12, where
//! `t = u`, and `13 - 2 g^2 - 2 g`, at most 27/2, where `t = -u`. So `f <= 27/2`.
//!
//! *Outcome at Alice, Bob's rows*: the table with the row of the outcome moves by `|x - z| (|w|^2 + t^2)^(1/2)`, squared at most `2 D`, `X'1` by `|x - z|`, and
//! his `X'X` is free beside both as above.
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
//! *An outcome that is replaced with the row* leaves `r` and `q` in `[-M - e, M + e]`, whatever their signs. At the corners where `r = q` the shift is
//! at most `4 2^30 (M + e)^2` as before, where `r = -q` it is at most `2^30 (M + e)^2 (|x + z|^2 / 2^30 + 4 + 4)`, which is `12 2^30 (M + e)^2`. Alice adds the sum of
//! three integers of the common law to every entry, with standard deviation `sqrt(3) 2^40`, so that she is charged less than Bob, for whom nothing
//! changes: the outcome is no part of his rows.
//!
//! **Means.** The factors are `F_k = round(sqrt(M) T_k)` at one party and `G_k = round(sqrt(M) h_k)` at the other, and the mean of a row is
//! `sum F_k G_k + round(M h_0)`, all of it whole numbers. With `q = 1 / sqrt(M)` and `D` terms that differs from `M` times the value of the
//! kernel by at most `M` times `(q / 2) (sum |h_k| + D - 1) + (D - 1) q^2 / 4 + q^2 / 2`, and `sum_(k > 0) |h_k| <= sqrt((D - 1) / 2)`, since the mean square of
//! `K - 1/2` over the nodes, at most a quarter, is that of its coefficients, those of `k > 0` halved. The value of the kernel itself is at most
//! [`KERNEL_EXCESS`] outside of `[0, 1]` for every `t`: for a fixed `t` it is a trigonometric polynomial of degree `D - 1`, whose largest size is at most that on
//! `N` equidistant points divided by `cos(pi (D - 1) / N)`; in `t` its slope is at most the Lebesgue constant of the nodes, `1 + 2 log(D) / pi`,
//! times a quarter; beyond the interval's length plus 25 it is constant to 1e-10. A test computes this bound for every class.
//!
//! **Counts.** The means of [`counts`] are whole numbers from 0 to `M`, which stands for the largest count, and so are the outcomes: there is no
//! `e`. An outcome `y` that is not protected leaves the residuals before and after in `[-y, M - y]`, of either sign. Where `r = q` the shift is at
//! most `4 2^30 M^2` as above, and at the two ends `|x r - z q|` is at most `2^15 (|r| + |q|) = 2^15 M`, which gives `2^30 M^2 + 2 2^30 M^2`: the same
//! bound. An outcome that is replaced with the row leaves `r` and `q` in `[-M, M]`, for which the bound above holds with `e = 0`. Residuals are counted
//! in units of `Y`, so that noise on the scale of the counts is that of a binomial model times `Y`.
//!
//! Adaptive composition of Gaussian mechanisms adds the squares, as everywhere (`docs/proofs.md`).
//!
//! # Standard errors
//!
//! A Newton step with the curvature of a normal linear predictor leaves the noise of the gradient, and of the last point's error,
//! that of the start among them, what the curvature is wrong by, which is the noise of the table. The covariance of sampling, the
//! inverse curvature at the end, is added, and that of what the last step leaves ([`doubt`]), which also says where none of this
//! holds. Poisson models have no standard errors: they would not know what is left of the cut of their means.

mod counts;
mod doubt;
mod evaluation;
mod forecast;

use nalgebra::{DMatrix, DVector};
use serde::{Deserialize, Serialize};

pub(super) use self::doubt::MOST_NOISE;
pub use self::evaluation::{GradientShapes, WholeMeans};
pub(super) use self::forecast::{MEAN_OF_COUNTS, SIGNAL, SIGNAL_OF_COUNTS};
use super::crossprod::{OutcomeAt, SHARE, WholeRows, lifted, products};
use super::{PlanError, Side};
use crate::bounded::Bounded;
use crate::glm::Family;
use crate::linalg::Definite;
use crate::privacy::accountant::charged_mu;
use crate::privacy::bounds::{ClippedOutcome, ClippedResiduals, ClippedRows, ROW_BITS};
use crate::privacy::mechanism::share::{ShareScale, scale_of_sum};
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

/// Largest standard deviation of the linear predictor at the first point, and of a step, in log odds.
const STEEPEST_START: f64 = 3.0;
const LONGEST_STEP: f64 = 2.0;

/// What an outcome is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcomes {
    /// 0 or 1, of a binomial model.
    Events,
    /// Counts as shares of the largest one that the study declares, of a poisson model.
    Counts,
}

impl Outcomes {
    fn family(self) -> Family {
        match self {
            Outcomes::Events => Family::Binomial,
            Outcomes::Counts => Family::Poisson,
        }
    }

    /// Largest standard deviation of the linear predictor that a step adds.
    fn longest_step(self) -> f64 {
        match self {
            Outcomes::Events => LONGEST_STEP,
            Outcomes::Counts => counts::LONGEST_STEP,
        }
    }
}

/// What both parties agree on before anything is computed; nothing here comes from data.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LogisticSetup {
    /// Number of rows.
    pub rows: usize,
    /// Entries of Alice's rows, without an intercept.
    pub alice_width: usize,
    /// Entries of Bob's rows.
    pub bob_width: usize,
    /// Who holds the outcome.
    pub outcome: OutcomeAt,
    /// What it is.
    pub outcomes: Outcomes,
    /// Sum of `(sensitivity / sigma)^2` that each party's releases may cost.
    pub budget: f64,
}

/// A release of one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogisticRelease {
    /// Its own table `X'X`.
    Table,
    /// `X'(2y - 1)`, and the sum of `y - 1/2` from a party that holds the outcome alone.
    Score,
    /// `X'1`.
    Sums,
    /// Its share of the table between the blocks, with its noise.
    Share,
    /// Its share of a gradient, with its noise; the first is 0.
    Gradient(usize),
}

impl LogisticRelease {
    /// In the order in which a side makes those that it has.
    pub const ALL: [LogisticRelease; 6] = [
        LogisticRelease::Table,
        LogisticRelease::Score,
        LogisticRelease::Sums,
        LogisticRelease::Share,
        LogisticRelease::Gradient(0),
        LogisticRelease::Gradient(1),
    ];
}

/// What neighbours differ in, of one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replaced {
    /// A row.
    Row,
    /// A row and its outcome.
    RowAndOutcome,
}

impl Replaced {
    /// Integers of the common law that the side adds to every entry of a gradient.
    pub fn draws(self) -> u32 {
        match self {
            Replaced::Row => 1,
            Replaced::RowAndOutcome => 3,
        }
    }
}

/// The whole numbers of a gradient: a mean of 1 is `whole`, and noise has standard deviation 2^40.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct GradientScale {
    whole: u64,
    outcomes: Outcomes,
}

impl GradientScale {
    /// The largest, hence the least noise, that keeps `mu`; none where even that of 2^10 does not.
    pub fn within(outcomes: Outcomes, mu: f64) -> Option<GradientScale> {
        // The factors of the mean of a count are rounded parts of the root, which has to be whole for their product to stay within.
        let (of, mut below, mut above): (fn(u64) -> u64, u64, u64) = match outcomes {
            Outcomes::Events => (|whole| whole, 1 << 10, 1 << 40),
            Outcomes::Counts => (|root| root * root, 1 << 5, 1 << 20),
        };
        let scale = |unit: u64| GradientScale { whole: of(unit), outcomes };
        // The larger of the charges: with more noise an outcome that is replaced costs no more.
        let keeps = |unit: u64| scale(unit).mu(Replaced::Row).is_ok_and(|reached| reached <= mu);
        keeps(below).then_some(())?;
        while above - below > 1 {
            let middle = below + (above - below) / 2;
            if keeps(middle) { below = middle } else { above = middle }
        }
        Some(scale(below))
    }

    /// The whole number that stands for a mean of 1.
    pub fn whole(self) -> u64 {
        self.whole
    }

    /// How far outside of 0 and [`GradientScale::whole`] the computed mean of a row can be, rounded up.
    pub fn excess(self) -> u64 {
        match self.outcomes {
            Outcomes::Events => {}
            // No product of two whole numbers up to the root is beyond.
            Outcomes::Counts => return 0,
        }
        let most = Separated::new(Kernel::Mean, LAST_CLASS, DIGITS).map_or(1, |separated| separated.terms) as f64 - 1.0;
        let q = 1.0 / (self.whole as f64).sqrt();
        let rounding = 0.5 * q * ((0.5 * most).sqrt() + most) + 0.25 * most * q * q + 0.5 * q * q;
        // What evaluating the factors in double precision adds is far below a billionth.
        ((KERNEL_EXCESS + rounding + 1e-9) * self.whole as f64).ceil() as u64
    }

    /// The sensitivity of all entries of a gradient together, in the integers that open.
    pub fn sensitivity(self, replaced: Replaced) -> f64 {
        // Whole numbers far below 2^53.
        match replaced {
            Replaced::Row => ((self.whole + 2 * self.excess()) << 16) as f64,
            Replaced::RowAndOutcome => (12f64.sqrt().next_up() * ((self.whole + self.excess()) << 15) as f64).next_up(),
        }
    }

    /// What a gradient costs the rows of which so much is replaced, rounded up.
    ///
    /// # Errors
    /// Never with a sensitivity that is a positive number.
    pub fn mu(self, replaced: Replaced) -> Result<f64, crate::privacy::accountant::ScaleError> {
        charged_mu(self.sensitivity(replaced), scale_of_sum(replaced.draws()))
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
    /// Noise of `X'(2y - 1)`; zero where the side has no such release.
    pub score_sigma: f64,
    /// Noise of `X'1`.
    pub sums_sigma: f64,
    /// What is charged, and for what.
    pub releases: ReleasePlan,
    #[serde(skip)]
    order: Vec<LogisticRelease>,
    #[serde(skip)]
    sensitivity: f64,
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
    /// The mean of the outcome: without noise where both hold it.
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
    /// Root mean square of what the last step changed in the linear predictor, before it was held.
    last_step: f64,
    taken: usize,
}

impl LogisticSide {
    /// The releases in their order.
    pub fn order(&self) -> &[LogisticRelease] {
        &self.order
    }

    /// The place of a release in that order; none where the side has no such release.
    pub fn index(&self, release: LogisticRelease) -> Option<u32> {
        self.order.iter().position(|of| *of == release).map(|at| at as u32)
    }

    /// Every release in its order: what it is, and the standard deviation of its noise. All of them go to the peer.
    pub fn lines<'a>(&'a self, plan: &'a LogisticPlan, side: Side) -> impl Iterator<Item = (&'a str, f64)> {
        let planned = self.releases.releases().iter().zip(&self.order);
        planned.map(move |(planned, release)| (planned.label.as_str(), plan.sigma(side, *release)))
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
        let failed = || PlanError::NoBudget;
        // Rounding of the sums, a few parts in 1e16 each, must not pass the budget. The unit of what opens is common to the sides.
        let most = rounded(setup.alice_width.max(setup.bob_width)) + 1;
        let root = (setup.budget.sqrt() * (1.0 - 1e-13) - free_table_rounding(most)).max(0.0);
        let mut gradients = [GradientScale { whole: 0, outcomes: setup.outcomes }; GRADIENTS];
        for (gradient, part) in gradients.iter_mut().zip(&PARTS[1..]) {
            *gradient = GradientScale::within(setup.outcomes, root * part.sqrt()).ok_or_else(failed)?;
        }
        let table = root * PARTS[0].sqrt();
        let (scale, alice, bob) = match setup.outcome {
            OutcomeAt::Both => {
                let vector = table / 3f64.sqrt();
                let scale = ShareScale::within(2.0, vector).ok_or_else(failed)?;
                let vector = (score_label(setup.outcomes), vector);
                let side = |width| both_hold(width, vector, scale, &gradients);
                (scale, side(setup.alice_width)?, side(setup.bob_width)?)
            }
            OutcomeAt::Alice => {
                let sigma = JOINT.sqrt() / table;
                let scale = ShareScale::within(ROOT_EIGHT, ROOT_EIGHT / sigma).ok_or_else(failed)?;
                let alice = holder(setup.alice_width, (held_label(setup.outcomes), sigma), scale, &gradients)?;
                (scale, alice, other(setup.bob_width, table, scale, &gradients)?)
            }
        };
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

    /// What neighbours differ in, of a side.
    pub fn replaced(&self, side: Side) -> Replaced {
        match (self.setup.outcome, side) {
            (OutcomeAt::Alice, Side::Alice) => Replaced::RowAndOutcome,
            (OutcomeAt::Both, _) | (OutcomeAt::Alice, Side::Bob) => Replaced::Row,
        }
    }

    /// A side's block of the table between the blocks, the outcome behind Alice's columns where she holds it alone.
    pub fn block(&self, side: Side, rows: ClippedRows, outcome: &ClippedOutcome) -> WholeRows {
        WholeRows::of_rows(
            rows,
            match self.replaced(side) {
                Replaced::Row => None,
                Replaced::RowAndOutcome => Some(outcome.integers()),
            },
        )
    }

    /// One of a side's local releases; none for a share, which is not of own rows alone. The outcome is `2y - 1`, cut to `[-1, 1]`.
    ///
    /// # Errors
    /// More rows than the integers hold.
    pub fn query(
        &self,
        side: Side,
        release: LogisticRelease,
        rows: &ClippedRows,
        outcome: &ClippedOutcome,
    ) -> Result<Option<Query>, ReleaseError> {
        let score = |values: &[f64]| Query::score(rows, &ClippedResiduals::clip(values, 1.0));
        Ok(match (release, self.replaced(side)) {
            (LogisticRelease::Table, _) => Some(Query::gram(rows)?),
            (LogisticRelease::Score, Replaced::Row) => Some(score(outcome.values())),
            (LogisticRelease::Score, Replaced::RowAndOutcome) => Some(Query::bounded(&held(rows, outcome))),
            (LogisticRelease::Sums, _) => Some(score(&vec![1.0; rows.len()])),
            (LogisticRelease::Share | LogisticRelease::Gradient(_), _) => None,
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
        let outcomes = self.setup.outcomes;
        let model = Model::new(outcomes.family(), joint.clone(), &DVector::zeros(1 + width), beside)?;
        let (intercept, factor) = match outcomes {
            Outcomes::Events => model.matched(opened.mean, length, STEEPEST_START),
            Outcomes::Counts => counts::matched(opened.mean, length),
        };
        let slopes = &linear * factor;
        // That of both vectors, and that of the table along the slopes.
        let variance = 2.0 * (self.vector_sigma() / rows).powi(2);
        let inverse = Definite::from_gram(&centred)?.inverse();
        let start = start_noise(opened.mean) * factor * factor + slopes.norm_squared();
        let start = &inverse * &inverse * (variance * start);
        let mut noise = DMatrix::zeros(1 + width, 1 + width);
        noise.view_mut((1, 1), (width, width)).copy_from(&start);
        let point = slopes.insert_row(0, intercept);
        let mut fit =
            LogisticFit { plan: self.clone(), model, joint, means, point, noise, last_step: f64::INFINITY, taken: 0 };
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
        let of = |side: &LogisticSide| side.score_sigma.max(side.sums_sigma);
        of(&self.alice).max(of(&self.bob)).max(self.scale.sigma())
    }

    /// Variance of the noise of both sides on an entry of a gradient.
    fn gradient_variance(&self, scale: GradientScale) -> f64 {
        let draws = self.replaced(Side::Alice).draws() + self.replaced(Side::Bob).draws();
        f64::from(draws) * scale.sigma() * scale.sigma()
    }

    /// The noised mean of an outcome, no nearer to 0 and 1 than its own noise.
    fn mean_within_noise(&self, noised: f64) -> f64 {
        let least = (self.vector_sigma() / self.setup.rows as f64).min(0.25);
        noised.clamp(least, 1.0 - least)
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

    /// The kernel of the next gradient of events, and the side that takes the polynomials: the one with the shorter part.
    pub fn kernel(&self) -> Option<(Separated, Side)> {
        let lengths = self.point().1.map(|part| part.norm());
        let side = if lengths[0] <= lengths[1] { Side::Alice } else { Side::Bob };
        let class = kernel::class(lengths[0].min(lengths[1]))?;
        Some((Separated::new(Kernel::Mean, class, DIGITS)?, side))
    }

    /// Makes the shorter part of the point no longer than the last class, where means come from a kernel.
    fn cut(&mut self) {
        match self.plan.setup.outcomes {
            Outcomes::Events => {}
            Outcomes::Counts => return,
        }
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
        let mut opened = &map * opened;
        match self.plan.setup.outcomes {
            Outcomes::Events => {}
            Outcomes::Counts => opened -= self.missing() * rows,
        }
        let variance = self.plan.gradient_variance(*scale);
        let left =
            2.0 * (self.plan.vector_sigma() * weight).powi(2) * self.noise.view((1, 1), (size - 1, size - 1)).trace();
        let inner = &map * map.transpose() * variance + DMatrix::identity(size, size) * left;
        self.noise = &inverse * inner * &inverse / (rows * rows);
        let mut step = &inverse * opened / rows;
        let length = (&self.joint * &step).dot(&step).max(0.0).sqrt();
        self.last_step = length;
        step *= (self.plan.setup.outcomes.longest_step() / length.max(f64::MIN_POSITIVE)).min(1.0);
        self.point -= step;
        self.taken += 1;
        // No mean is approximated at the last point.
        if self.taken < GRADIENTS {
            self.cut();
        }
        true
    }

    /// Intercept and slopes of unit rows, Alice's first, with their covariance under noise, sampling and what the last step
    /// leaves; the second under noise alone.
    pub fn finish(&self) -> Option<(DVector<f64>, DMatrix<f64>, DMatrix<f64>)> {
        let (intercept, parts) = self.point();
        let slopes = parts.iter().flat_map(|part| part.iter().copied());
        let values = DVector::from_iterator(self.point.len(), std::iter::once(intercept).chain(slopes));
        let (curvature, _) = self.model.curvature_with_weight(&self.point);
        let sampling = Definite::from_gram(&curvature)?.inverse() / self.plan.setup.rows as f64;
        let mut map = DMatrix::identity(self.point.len(), self.point.len());
        map.view_mut((0, 1), (1, self.means.len())).copy_from(&-self.means.transpose());
        let of = |covariance: &DMatrix<f64>| &map * covariance * map.transpose();
        Some((values, of(&(&self.noise + sampling + self.left_of_last_step()?)), of(&self.noise)))
    }
}

/// Of the first point before it is stretched, in variances of an entry of the table: half of the sums with the outcome less 1/2, from which
/// the sums of the columns are taken as often as its mean says.
fn start_noise(mean: f64) -> f64 {
    0.5 * (0.25 + (mean - 0.5).powi(2))
}

/// Entries of a side's local releases, which are rounded.
fn rounded(width: usize) -> usize {
    width * (width + 1) / 2 + 2 * width
}

/// What one row of Alice and its outcome move of the table and all vectors together, squared, at equal noise.
const JOINT: f64 = 13.5;

const ROOT_EIGHT: f64 = 2.828_427_124_746_190_3;

fn planned(label: &str, mu: f64) -> PlannedRelease {
    PlannedRelease { label: label.to_owned(), mu }
}

const TABLE: &str = "X'X";
const SUMS: &str = "X'1";

/// What `X'(2y - 1)` is called: in the outcome's own unit, `Y` is the largest count.
fn score_label(outcomes: Outcomes) -> &'static str {
    match outcomes {
        Outcomes::Events => "X'(2y - 1)",
        Outcomes::Counts => "X'(2y/Y - 1)",
    }
}

/// The same with the sum of the outcome.
fn held_label(outcomes: Outcomes) -> &'static str {
    match outcomes {
        Outcomes::Events => "X'(2y - 1) and 1'(y - 1/2)",
        Outcomes::Counts => "X'(2y/Y - 1) and 1'(y/Y - 1/2)",
    }
}

/// A side's shares of the gradients.
fn shares(replaced: Replaced, gradients: &[GradientScale; GRADIENTS]) -> Result<Vec<PlannedRelease>, PlanError> {
    let share = |(number, gradient): (usize, &GradientScale)| {
        let mu = gradient.mu(replaced).map_err(|_| PlanError::NoBudget)?;
        Ok(planned(&format!("share of gradient {number}"), mu))
    };
    (1..).zip(gradients).map(share).collect()
}

/// Noise of a table `X'X` that keeps `mu`.
fn table_noise(width: usize, mu: f64) -> Result<f64, crate::privacy::accountant::ScaleError> {
    noise_scale(std::f64::consts::SQRT_2.next_up(), width * (width + 1) / 2, mu).map(|(sigma, _)| sigma)
}

/// A side where both hold the outcome; `vector` is what each vector and the share of the table may cost, behind the name of the first.
fn both_hold(
    width: usize,
    (score, vector): (&str, f64),
    scale: ShareScale,
    gradients: &[GradientScale; GRADIENTS],
) -> Result<LogisticSide, PlanError> {
    let failed = |_| PlanError::NoBudget;
    let share = scale.mu(2.0).map_err(failed)?;
    // Within a quarter of what the vectors cost: then it is free.
    let table = (0.25 * (1.0 - 1e-8) * (2.0 * vector * vector + share * share)).sqrt();
    let mut releases =
        vec![planned(TABLE, table), planned(score, vector), planned(SUMS, vector), planned(SHARE, share)];
    releases.extend(shares(Replaced::Row, gradients)?);
    let sigma = noise_scale(2.0, width, vector).map_err(failed)?.0;
    Ok(LogisticSide {
        width,
        table_sigma: table_noise(width, table).map_err(failed)?,
        score_sigma: sigma,
        sums_sigma: sigma,
        releases: ReleasePlan::with_free_table(releases, 0, &[1, 2, 3], rounded(width)),
        order: LogisticRelease::ALL.to_vec(),
        sensitivity: 2.0,
    })
}

/// Alice, who holds the outcome alone and adds noise of at least `sigma` to the table and to all vectors; `held` is what the vector with the outcome
/// is called.
fn holder(
    width: usize,
    (held, sigma): (&str, f64),
    scale: ShareScale,
    gradients: &[GradientScale; GRADIENTS],
) -> Result<LogisticSide, PlanError> {
    let failed = |_| PlanError::NoBudget;
    let alone = [std::f64::consts::SQRT_2.next_up(), 5f64.sqrt().next_up(), 2.0, ROOT_EIGHT.next_up()];
    let [table, score, sums] = [alone[0], alone[1], alone[2]].map(|sensitivity| (sensitivity / sigma).next_down());
    let share = scale.mu(alone[3]).map_err(failed)?;
    let releases = vec![planned(TABLE, table), planned(held, score), planned(SUMS, sums), planned(SHARE, share)];
    let releases = ReleasePlan::with_joint(releases, &alone, JOINT.sqrt().next_up(), rounded(width) + 1);
    Ok(LogisticSide {
        width,
        table_sigma: table_noise(width, table).map_err(failed)?,
        score_sigma: noise_scale(alone[1], width + 1, score).map_err(failed)?.0,
        sums_sigma: noise_scale(alone[2], width, sums).map_err(failed)?.0,
        releases: releases.followed_by(shares(Replaced::RowAndOutcome, gradients)?),
        order: LogisticRelease::ALL.to_vec(),
        sensitivity: alone[3],
    })
}

/// Bob, where Alice holds the outcome alone; `root` is that of what table and vectors may cost.
fn other(
    width: usize,
    root: f64,
    scale: ShareScale,
    gradients: &[GradientScale; GRADIENTS],
) -> Result<LogisticSide, PlanError> {
    let failed = |_| PlanError::NoBudget;
    let sensitivity = ROOT_EIGHT.next_up();
    let share = scale.mu(sensitivity).map_err(failed)?;
    // What Alice's noise on the table leaves of his budget.
    let sums = (root * root - share * share).max(0.0).sqrt();
    let table = (0.25 * (1.0 - 1e-8) * (sums * sums + share * share)).sqrt();
    let mut releases = vec![planned(TABLE, table), planned(SUMS, sums), planned(SHARE, share)];
    releases.extend(shares(Replaced::Row, gradients)?);
    let mut order = LogisticRelease::ALL.to_vec();
    order.retain(|release| *release != LogisticRelease::Score);
    Ok(LogisticSide {
        width,
        table_sigma: table_noise(width, table).map_err(failed)?,
        score_sigma: 0.0,
        sums_sigma: noise_scale(2.0, width, sums).map_err(failed)?.0,
        releases: ReleasePlan::with_free_table(releases, 0, &[1, 2], rounded(width)),
        order,
        sensitivity,
    })
}

/// `X't` and half of the sum of `t = 2y - 1`, of the integers that the table is made of: `|xt - zu|^2 + (t - u)^2 / 4` is convex in `(t, u)`, and at its
/// corners at most `|x - z|^2 <= 4` or `|x + z|^2 + 1 <= 5`.
fn held(rows: &ClippedRows, outcome: &ClippedOutcome) -> Bounded {
    let outcome = outcome.integers();
    let mut sums = products(rows, &outcome);
    sums.push(outcome.iter().map(|t| i128::from(*t) << (ROW_BITS - 1)).sum());
    let formula = "sqrt(5): |xt - zu|^2 + (t - u)^2 / 4 <= 5, |x| <= 1, t = 2y - 1 in [-1, 1]";
    Bounded::new(sums, -2 * ROW_BITS, 5f64.sqrt().next_up(), formula)
}

#[cfg(test)]
pub(crate) mod tests;
