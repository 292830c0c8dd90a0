//! Private robust regression at one worker: hard rejection of residuals, by releases whose noise shrinks with the fit.
//!
//! The worker releases, with noise, its table `X'X` once; then in each round a histogram of the absolute residuals on a
//! public grid, from which the cut `h` follows, and the score `sum x r 1{|r| <= h}`, whose sensitivity `2h` falls as the
//! fit improves; and at the end how long the rows within the cut are, as a histogram on a public grid. Everything else (cut, step, projection, standard errors, consolidation at the coordinator) is computed from
//! noised values and is free. The coordinator needs no trust.
//!
//! A threshold on the value and not on the rank is what keeps the sensitivity small: with `h` public one row changes one
//! summand, while the rank of one residual moves the selection of others.
//!
//! Rows keep their place: a row without meaning counts as the zero row, and batches are cut by physical row number.
//!
//! # Whitening
//!
//! With correlated columns the clip by norm and the isotropic noise cost dearly in the thin directions. By default rows are
//! mapped by `W = (max(A, floor)/n)^(-1/2)`, `A` the noised table, and clipped again; the bounds are the same and there is no
//! further charge. The mapped rows are other rows than those of the table, so the table is then not free.
//!
//! # Standard errors
//!
//! From noised values only: `V <- J V J' + (s_t/share)^2 P P'` per round, `J = I - k (slope/share) P D`, and the sampling
//! part `q m2/(k slope)^2 A^-1` at the end. Residuals use rows as they are and scores shortened ones, `z = x min(1, 1/u)`
//! with `u = |x|`; so the score's derivative is `sum z x'` and not the released `sum z z'`, and without `k` and `q` intervals
//! are too wide by as much as rows are shortened. The lengths of the kept rows give both: `k = mean(u min(u, 1)) / t` and `q
//! = mean(min(u, 1)^2) / t`, where `t` is the trace of the table a row. This takes the lengths of rows to be alike in all
//! directions, as in an elliptical law after whitening. In `D` and in `A^-1` the eigenvalues of the noised table are less one
//! standard deviation of its noise, so that thin directions do not seem to be finished sooner than they are. `V` starts at
//! `bound^2/p I`, the public bound of the coefficients, for what the rounds leave unfinished. They belong to the coefficient
//! of the uncorrupted rows; colluding rows bias it.

use nalgebra::{DMatrix, DVector, SymmetricEigen};
use serde::{Deserialize, Serialize};

use crate::privacy::bounds::{ClippedOutcome, ClippedResiduals, ClippedRows, OutcomeBounds, RowBounds};
use crate::privacy::mechanism::{
    LatticeError, LatticeVector, NoisedRelease, PlannedRelease, Query, ReleaseError, ReleasePlan, free_table_rounding,
};
use crate::privacy::release::{PostProcessed, sealed};

mod histogram;

use histogram::{Cut, Distribution, EDGES, Lengths};

/// What a residual beyond the cut counts.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Influence {
    /// Nothing; the cut follows from the shape of the residuals near zero, about 2.5 standard deviations of the clean rows.
    #[default]
    Reject,
    /// As much as the cut itself; the cut is 1.345 normalised medians. Bounded influence, no rejection.
    Huber,
}

/// How the budget is divided. Only the proportions count.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Shares {
    /// For `X'X`.
    pub table: f64,
    /// For all histograms together.
    pub histogram: f64,
    /// For all scores together.
    pub score: f64,
    /// For the lengths of the kept rows.
    pub lengths: f64,
}

/// What is fixed before anything is computed; nothing here comes from data.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// Number of rows, invalid ones included.
    pub rows: usize,
    /// Entries of a row.
    pub width: usize,
    /// Rounds; fewer are taken where the budget is thin.
    pub rounds: u32,
    /// Each round's score gets this many times the share of the round before.
    pub growth: f64,
    /// Whether rows are whitened by the noised table.
    pub whiten: bool,
    /// What a residual beyond the cut counts.
    pub influence: Influence,
    /// Public bound on the norm of the coefficients of unit rows, in half ranges of the outcome.
    pub coefficient_bound: f64,
    /// Public guess of the first round's cut, in half ranges of the outcome; 1 where nothing is known.
    pub first_cut: f64,
    /// Division of the budget.
    pub shares: Shares,
    /// Sum of `(sensitivity / sigma)^2` that all releases may cost.
    pub budget: f64,
}

impl Setup {
    /// The defaults for a given number of rows, columns and a budget.
    pub fn new(rows: usize, width: usize, budget: f64) -> Setup {
        Setup {
            rows,
            width,
            rounds: 5,
            growth: 2.0,
            whiten: true,
            influence: Influence::Reject,
            coefficient_bound: (width as f64).sqrt(),
            first_cut: 1.0,
            shares: Shares { table: 0.12, histogram: 0.12, score: 0.74, lengths: 0.02 },
            budget,
        }
    }

    /// Without whitening, where the table is free and gets a larger share.
    pub fn without_whitening(self) -> Setup {
        Setup { whiten: false, shares: Shares { table: 0.20, histogram: 0.12, score: 0.86, lengths: 0.02 }, ..self }
    }
}

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// A number that must be positive is not.
    #[error("{what} must be a positive number, got {value}")]
    Positive {
        /// Which one.
        what: &'static str,
        /// What came.
        value: f64,
    },
    /// The noise of the first round would drown every coefficient.
    #[error(
        "this budget cannot fit {width} columns on {rows} rows: the first round's noise would be {noise:.3} where coefficients are bounded by {bound:.3}; use fewer columns, more rows, a larger epsilon or tighter bounds"
    )]
    Hopeless {
        /// Rows.
        rows: usize,
        /// Columns.
        width: usize,
        /// Norm of the noise in the first round's coefficients.
        noise: f64,
        /// The declared bound of the coefficients.
        bound: f64,
    },
}

/// The releases, fixed before the first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    setup: Setup,
    rounds: u32,
    growth: f64,
    first_noise: f64,
    releases: ReleasePlan,
}

impl Plan {
    /// Divides the budget. Where the first round would drown in noise, rounds are taken away and weighted equally.
    ///
    /// # Errors
    ///
    /// A number that is not positive, and a budget that is hopeless by the declared bounds.
    pub fn new(setup: Setup) -> Result<Plan, PlanError> {
        let positive = [
            ("the number of rows", setup.rows as f64),
            ("the number of columns", setup.width as f64),
            ("the number of rounds", f64::from(setup.rounds)),
            ("the growth of the rounds' shares", setup.growth),
            ("the bound of the coefficients", setup.coefficient_bound),
            ("the guess of the first cut", setup.first_cut),
            ("the share of X'X", setup.shares.table),
            ("the share of the histograms", setup.shares.histogram),
            ("the share of the scores", setup.shares.score),
            ("the share of the lengths", setup.shares.lengths),
            ("the budget", setup.budget),
        ];
        if let Some(&(what, value)) = positive.iter().find(|(_, value)| !(*value > 0.0 && value.is_finite())) {
            return Err(PlanError::Positive { what, value });
        }
        let wanted = Plan::with_rounds(setup, setup.rounds, setup.growth);
        let thinner = (2..setup.rounds).rev().map(|rounds| Plan::with_rounds(setup, rounds, 1.0));
        let noise = wanted.first_noise;
        std::iter::once(wanted)
            .chain(thinner)
            .find(|plan| plan.first_noise <= setup.coefficient_bound / 3.0)
            .ok_or(PlanError::Hopeless { rows: setup.rows, width: setup.width, noise, bound: setup.coefficient_bound })
    }

    fn with_rounds(setup: Setup, rounds: u32, growth: f64) -> Plan {
        let Setup { width, whiten, shares, budget, .. } = setup;
        let rounded = width * (width + 1) / 2 + rounds as usize * (EDGES.with_cells() + width) + Lengths::CELLS;
        let free = !whiten && shares.table <= 0.25 * (1.0 - 1e-8) * shares.score;
        let unit = if free {
            (budget.sqrt() - free_table_rounding(rounded)).max(0.0).powi(2)
                / (shares.histogram + shares.score + shares.lengths)
        } else {
            budget / (shares.table + shares.histogram + shares.score + shares.lengths)
        };
        // Rounding of the sums, a few parts in 1e16 each, must not pass the budget.
        let unit = unit * (1.0 - 1e-14 * f64::from(3 + 2 * rounds));
        let weights: Vec<f64> = (0..rounds).map(|round| growth.powi(round as i32)).collect();
        let total: f64 = weights.iter().sum();
        let mut releases = vec![PlannedRelease { label: "X'X".to_owned(), mu: (unit * shares.table).sqrt() }];
        let mut scores = Vec::new();
        for (round, weight) in (1..).zip(&weights) {
            let histogram = (unit * shares.histogram / f64::from(rounds)).sqrt();
            releases.push(PlannedRelease { label: format!("histogram of |r|, round {round}"), mu: histogram });
            scores.push(releases.len());
            let score = (unit * shares.score * weight / total).sqrt();
            releases.push(PlannedRelease { label: format!("X'psi(r), round {round}"), mu: score });
        }
        releases.push(PlannedRelease {
            label: "lengths of the rows within the cut".to_owned(),
            mu: (unit * shares.lengths).sqrt(),
        });
        let first = (unit * shares.score * weights.first().copied().unwrap_or(1.0) / total).sqrt();
        let width_f = width as f64;
        let releases =
            if free { ReleasePlan::with_free_table(releases, 0, &scores, rounded) } else { ReleasePlan::new(releases) };
        // Isotropic unit rows have a table of n/p, so a score with noise s moves coefficients by s p sqrt(p) / n.
        let first_noise = 2.0 * setup.first_cut / first * width_f * width_f.sqrt() / setup.rows as f64;
        Plan { setup, rounds, growth, first_noise, releases }
    }

    /// What was declared.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// Rounds that will be made.
    pub fn rounds(&self) -> u32 {
        self.rounds
    }

    /// Position of the last release, the lengths of the kept rows: a table, and two releases a round, come before.
    fn last(&self) -> u32 {
        2 * self.rounds + 1
    }

    /// Cells of the histogram of residuals.
    pub(crate) fn residual_cells(&self) -> usize {
        EDGES.with_cells()
    }

    /// The releases with their charge.
    pub fn releases(&self) -> &ReleasePlan {
        &self.releases
    }
}

/// What is needed next.
#[derive(Debug)]
pub enum Need {
    /// A release: privatise the query under the ledger's permit for `index`, then give it to [`Fit::supply`].
    Release {
        /// Position in the plan.
        index: u32,
        /// What to release.
        query: Query,
    },
    /// Nothing: the estimate is there.
    Nothing,
}

/// Why the fit refuses what it was given.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FitError {
    /// Rows or columns are not those of the plan.
    #[error("the plan is for {expected} {what}, the data have {got}")]
    Shape {
        /// Rows or columns.
        what: &'static str,
        /// What the plan says.
        expected: usize,
        /// What the data have.
        got: usize,
    },
    /// Another release than the one that was asked for.
    #[error("release {got} came while release {expected} was needed")]
    Order {
        /// What was needed.
        expected: u32,
        /// What came.
        got: u32,
    },
    /// A vector that is not the planned one.
    #[error(transparent)]
    Vector(#[from] LatticeError),
    /// The noised table cannot be inverted.
    #[error("the noised table X'X could not be factored")]
    Factor,
}

/// What the worker ends with; from noised values and public bounds alone, so it may leave. Only [`Fit::estimate`] makes one:
///
/// ```compile_fail
/// # use fedreg_common::methods::robust::plan::Estimate;
/// # use nalgebra::{DMatrix, DVector};
/// fn forged(raw: DVector<f64>) -> Estimate {
///     Estimate { coefficients: raw, covariance: DMatrix::zeros(1, 1), cuts: vec![], kept: 1.0, rows: 1 }
/// }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    coefficients: DVector<f64>,
    covariance: DMatrix<f64>,
    cuts: Vec<f64>,
    kept: f64,
    rows: usize,
}

impl sealed::Sealed for Estimate {}
impl PostProcessed for Estimate {}

impl Estimate {
    /// The coefficients: of unit rows, or after [`Estimate::on_original_scale`] of the columns as they are.
    pub fn coefficients(&self) -> &DVector<f64> {
        &self.coefficients
    }

    /// Their covariance from noise and from sampling of the uncorrupted rows.
    pub fn covariance(&self) -> &DMatrix<f64> {
        &self.covariance
    }

    /// The cut of each round, in half ranges of the outcome.
    pub fn cuts(&self) -> &[f64] {
        &self.cuts
    }

    /// The last round's share of rows within the cut, as the noised histogram shows it.
    pub fn kept(&self) -> f64 {
        self.kept
    }

    /// Number of rows, invalid ones included.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The same on the scale of the columns and the outcome as they are; the intercept first.
    pub fn on_original_scale(&self, rows: &RowBounds, outcome: &OutcomeBounds) -> Estimate {
        let scale = rows.original_scale(outcome);
        let mut coefficients = scale.coefficients(&self.coefficients);
        if let Some(intercept) = coefficients.get_mut(0) {
            *intercept += scale.outcome_centre();
        }
        Estimate { coefficients, covariance: scale.covariance(&self.covariance), ..self.clone() }
    }
}

/// The fit of one batch at one worker, as a value that is fed.
#[derive(Debug)]
pub struct Fit {
    plan: Plan,
    rows: ClippedRows,
    outcome: ClippedOutcome,
    supplied: u32,
    step: Option<Preconditioner>,
    /// What each round read off its histogram.
    cuts: Vec<Cut>,
    /// Standard deviation of the noise of each round's score.
    noise: Vec<f64>,
    lengths: Option<Lengths>,
    coefficients: DVector<f64>,
}

#[derive(Debug)]
struct Preconditioner {
    /// Rows of the score, where they differ from the rows of the residuals.
    scored: Option<ClippedRows>,
    /// Score to coefficients.
    step: DMatrix<f64>,
    /// Coefficients to score.
    derivative: DMatrix<f64>,
    /// Inverse of the noised table, its eigenvalues less one standard deviation of the noise, and floored.
    sampling: DMatrix<f64>,
    /// How the rows were mapped before they were shortened for the score, where they were.
    map: Option<DMatrix<f64>>,
    /// Trace of the noised table of the mapped rows, a row.
    trace: f64,
}

impl Fit {
    /// Starts the fit of one batch.
    ///
    /// # Errors
    ///
    /// Data that are not of the plan's size.
    pub fn new(plan: Plan, rows: ClippedRows, outcome: ClippedOutcome) -> Result<Fit, FitError> {
        let width = plan.setup.width;
        let shapes = [
            ("columns", width, rows.width()),
            ("rows", plan.setup.rows, rows.len()),
            ("rows", plan.setup.rows, outcome.values().len()),
        ];
        if let Some(&(what, expected, got)) = shapes.iter().find(|(_, expected, got)| expected != got) {
            return Err(FitError::Shape { what, expected, got });
        }
        let coefficients = DVector::zeros(width);
        let (cuts, noise) = (Vec::new(), Vec::new());
        Ok(Fit { plan, rows, outcome, supplied: 0, step: None, cuts, noise, lengths: None, coefficients })
    }

    /// What is needed next. Asking again gives the same query.
    ///
    /// # Errors
    ///
    /// More rows than the integers hold.
    pub fn need(&self) -> Result<Need, ReleaseError> {
        let index = self.supplied;
        if index > self.plan.last() {
            return Ok(Need::Nothing);
        }
        let cut = self.cuts.last().map_or(0.0, |cut| cut.at);
        let query = if index == 0 {
            Query::gram(&self.rows)?
        } else if index == self.plan.last() {
            let lengths = self.rows.lengths(self.step.as_ref().and_then(|step| step.map.as_ref()));
            let within = self.residuals().into_iter().map(|residual| residual.abs() <= cut);
            let cells = lengths.into_iter().zip(within).map(|(length, within)| Lengths::cell(length, within));
            Query::histogram(Lengths::CELLS, cells)
        } else if index % 2 == 1 {
            Query::histogram(EDGES.with_cells(), self.residuals().into_iter().map(|residual| EDGES.cell(residual)))
        } else {
            let residuals = match self.plan.setup.influence {
                Influence::Reject => ClippedResiduals::reject(&self.residuals(), cut),
                Influence::Huber => ClippedResiduals::clip(&self.residuals(), cut),
            };
            let scored = self.step.as_ref().and_then(|step| step.scored.as_ref()).unwrap_or(&self.rows);
            Query::score(scored, &residuals)
        };
        Ok(Need::Release { index, query })
    }

    fn residuals(&self) -> Vec<f64> {
        // Rows before shortening: the sensitivity needs |r| <= h and short rows in the score, not in the residual.
        let fitted = self.rows.whole_products(&self.coefficients);
        self.outcome.values().iter().zip(fitted).map(|(y, fit)| y - fit).collect()
    }

    /// Takes the release that was asked for: release `index` of the plan, whatever its place among those of other batches.
    ///
    /// # Errors
    ///
    /// Another release, or a vector of another size.
    pub fn supply(&mut self, release: &NoisedRelease, index: u32) -> Result<(), FitError> {
        let (receipt, lattice) = (release.receipt(), release.lattice());
        if index != self.supplied || self.supplied > self.plan.last() {
            return Err(FitError::Order { expected: self.supplied, got: index });
        }
        let Setup { rows, width, influence, .. } = self.plan.setup;
        let expect = |entries: usize| lattice.require(entries, lattice.step());
        if self.supplied == 0 {
            expect(width * (width + 1) / 2)?;
            self.step = Some(Preconditioner::new(lattice, receipt.sigma, &self.plan.setup, &self.rows)?);
        } else if self.supplied == self.plan.last() {
            expect(Lengths::CELLS)?;
            self.lengths = Lengths::read(&lattice.values(), rows);
        } else if self.supplied % 2 == 1 {
            expect(EDGES.with_cells())?;
            self.cuts.push(Cut::read(&Distribution::new(&lattice.values(), rows), influence));
        } else {
            expect(width)?;
            let (Some(step), Some(cut)) = (&self.step, self.cuts.last()) else {
                return Err(FitError::Factor);
            };
            self.coefficients += &step.step * lattice.tail(0) / cut.share;
            let norm = self.coefficients.norm();
            if norm > self.plan.setup.coefficient_bound {
                self.coefficients *= self.plan.setup.coefficient_bound / norm;
            }
            self.noise.push(receipt.sigma);
        }
        self.supplied += 1;
        Ok(())
    }

    /// The estimate of one of a given number of batches, once nothing is needed any more.
    ///
    /// What the rounds leave unfinished pulls all batches the same way. Noise and sampling get smaller in an average, that does not; so of several
    /// batches its part of the covariance counts as often as there are batches, and is whole again in the covariance of their average. It counts in
    /// all directions as in the worst: the noised tables turn the unfinished direction a little differently in every batch, and weights by
    /// precision would take that for knowledge of it.
    pub fn estimate(&self, batches: u64) -> Option<Estimate> {
        if self.supplied <= self.plan.last() {
            return None;
        }
        let (step, cut) = (self.step.as_ref()?, self.cuts.last()?);
        let (crossed, squared) = step.shortening(self.lengths);
        let width = self.plan.setup.width;
        // The descent starts at zero, and the bound of the coefficients, which is public, says how far away the end may be. Rounds
        // that are finished carry nothing of it; what is unfinished in them stays in the standard errors.
        let nothing = (DMatrix::identity(width, width), DMatrix::zeros(width, width));
        let (carried, noise) =
            self.cuts.iter().zip(&self.noise).fold(nothing, |(carried, covariance), (cut, noise)| {
                let kept =
                    DMatrix::identity(width, width) - &step.step * &step.derivative * (crossed * cut.slope / cut.share);
                let covariance = &kept * covariance * kept.transpose()
                    + &step.step * step.step.transpose() * (noise / cut.share).powi(2);
                (kept * carried, covariance)
            });
        let square = &carried * carried.transpose();
        let unfinished = match batches {
            0 | 1 => square,
            many => {
                let largest = SymmetricEigen::new(square).eigenvalues.max();
                DMatrix::identity(width, width) * (largest * many as f64)
            }
        };
        let reach = self.plan.setup.coefficient_bound.powi(2) / width as f64;
        let descent = noise + unfinished * reach;
        let covariance = descent + &step.sampling * (squared * cut.second_moment / (crossed * cut.slope).powi(2));
        Some(Estimate {
            coefficients: self.coefficients.clone(),
            covariance: (&covariance + covariance.transpose()) * 0.5,
            cuts: self.cuts.iter().map(|cut| cut.at).collect(),
            kept: cut.share,
            rows: self.plan.setup.rows,
        })
    }
}

impl Preconditioner {
    fn new(lattice: &LatticeVector, sigma: f64, setup: &Setup, rows: &ClippedRows) -> Result<Self, FitError> {
        let width = setup.width;
        let count = setup.rows as f64;
        let table = lattice.symmetric(width);
        let eigen = SymmetricEigen::new(table.clone());
        // About the spectral norm of the noise: a floor slows the steps and biases nothing.
        let floor = 2.0 * sigma * (width as f64).sqrt();
        let rebuild = |map: &dyn Fn(f64) -> f64| {
            &eigen.eigenvectors * DMatrix::from_diagonal(&eigen.eigenvalues.map(map)) * eigen.eigenvectors.transpose()
        };
        // For standard errors: a direction that seems to have more weight than it has would seem to be finished sooner.
        let cautious = rebuild(&|value| (value - sigma).max(0.0));
        let sampling = rebuild(&|value| 1.0 / (value - sigma).max(0.1 * floor));
        let (scored, step, derivative, map, trace) = if setup.whiten {
            let root = (width as f64).sqrt();
            let whitener = rebuild(&|value| (value.max(floor) / count).sqrt().recip());
            let map = &whitener / root;
            let trace = (&map * &table * &map).trace() / count;
            (Some(rows.mapped(&map)), whitener * (root / count), &map * cautious, Some(map), trace)
        } else {
            let shift = floor.max(floor - eigen.eigenvalues.min());
            let trace = table.trace() / count;
            (None, rebuild(&|value| 1.0 / (value + shift)), cautious, None, trace)
        };
        if step.iter().chain(derivative.iter()).chain(sampling.iter()).all(|value| value.is_finite()) {
            Ok(Preconditioner { scored, step, derivative, sampling, map, trace })
        } else {
            Err(FitError::Factor)
        }
    }

    /// `k` and `q` of the standard errors: what the score's derivative and its spread are beside the released table, by the
    /// lengths of the kept rows. Where noise leaves no sense in these, what rows of norm one would give.
    fn shortening(&self, lengths: Option<Lengths>) -> (f64, f64) {
        let Some(Lengths { crossed, squared }) = lengths.filter(|_| self.trace > 0.0) else {
            return (1.0, 1.0);
        };
        let squared = (squared / self.trace).clamp(0.5, 2.0);
        // A row is never shorter than what it was shortened to.
        (squared.max((crossed / self.trace).min(2.0)), squared)
    }
}

#[cfg(test)]
mod tests;
