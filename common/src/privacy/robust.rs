//! Private robust regression at one worker: hard rejection of residuals, by releases whose noise shrinks with the fit.
//!
//! The worker releases, with noise, its table `X'X` once; then in each round a histogram of the absolute residuals on a
//! public grid, from which the cut `h` follows, and the score `sum x r 1{|r| <= h}`, whose sensitivity `2h` falls as the
//! fit improves. Everything else (cut, step, projection, standard errors, consolidation at the coordinator) is computed from
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
//! From noised values only: `V <- J V J' + (s_t/share)^2 P P'` per round, `J = I - (slope/share) P D`, and the sampling part
//! `m2/slope^2 A^-1` at the end. `V` starts at `bound^2/p I`, the public bound of the coefficients, for what the rounds leave
//! unfinished. They belong to the coefficient of the uncorrupted rows; colluding rows bias it.

use nalgebra::{DMatrix, DVector, SymmetricEigen};
use serde::{Deserialize, Serialize};

use crate::privacy::bounds::{ClippedOutcome, ClippedResiduals, ClippedRows, OutcomeBounds, RowBounds};
use crate::privacy::mechanism::{
    LatticeError, LatticeVector, NoisedRelease, PlannedRelease, Query, ReleaseError, ReleasePlan, free_table_rounding,
};

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
    /// The defaults for so many rows, columns and so much budget.
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
            shares: Shares { table: 0.12, histogram: 0.13, score: 0.75 },
            budget,
        }
    }

    /// Without whitening, where the table is free and gets a larger share.
    pub fn without_whitening(self) -> Setup {
        Setup { whiten: false, shares: Shares { table: 0.20, histogram: 0.13, score: 0.87 }, ..self }
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
        let rounded = width * (width + 1) / 2 + rounds as usize * (EDGES.with_cells() + width);
        let free = !whiten && shares.table <= 0.25 * (1.0 - 1e-8) * shares.score;
        let unit = if free {
            (budget.sqrt() - free_table_rounding(rounded)).max(0.0).powi(2) / (shares.histogram + shares.score)
        } else {
            budget / (shares.table + shares.histogram + shares.score)
        };
        // Rounding of the sums, a few parts in 1e16 each, must not pass the budget.
        let unit = unit * (1.0 - 1e-14 * f64::from(2 + 2 * rounds));
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

    /// The releases with their charge.
    pub fn releases(&self) -> &ReleasePlan {
        &self.releases
    }

    /// Norm of the first round's noise in the coefficients of unit rows, by the declared bounds.
    pub fn first_noise(&self) -> f64 {
        self.first_noise
    }

    /// Norm of the last round's noise in the coefficients of unit rows when `scale` is the standard deviation of the clean
    /// residuals and `corrupted` the share of rows that will be rejected; from declared facts alone.
    pub fn last_noise(&self, scale: f64, corrupted: f64) -> f64 {
        let width = self.setup.width as f64;
        let mu = self.releases.releases().last().map_or(f64::MIN_POSITIVE, |release| release.mu);
        2.0 * 2.5 * scale / mu * width * width.sqrt() / (self.setup.rows as f64 * (1.0 - corrupted).max(0.5))
    }
}

/// The public grid of absolute residuals, in half ranges of the outcome: from 0, then 20 cells a decade from 1e-4 to 10.
struct Grid;
const EDGES: Grid = Grid;

impl Grid {
    const PER_DECADE: i32 = 20;
    const DECADES: i32 = 5;
    const LOW: f64 = 1e-4;

    fn with_cells(&self) -> usize {
        (Self::PER_DECADE * Self::DECADES) as usize + 1
    }

    fn edge(&self, index: usize) -> f64 {
        if index == 0 { 0.0 } else { Self::LOW * 10f64.powf((index - 1) as f64 / f64::from(Self::PER_DECADE)) }
    }

    /// The cell of an absolute residual; beyond the grid the last one.
    fn cell(&self, residual: f64) -> usize {
        let residual = residual.abs();
        if residual < Self::LOW {
            return 0;
        }
        let cell = ((residual / Self::LOW).log10() * f64::from(Self::PER_DECADE)).floor() + 1.0;
        // A NaN cannot come from clipped values and finite coefficients; the cast would send it to cell 0.
        (cell as usize).min(self.with_cells() - 1)
    }
}

/// A distribution of absolute residuals, read from noised counts.
#[derive(Debug, Clone, PartialEq)]
struct Distribution {
    /// Rows at or below the upper edge of each cell; never decreasing.
    cumulative: Vec<f64>,
    rows: f64,
}

impl Distribution {
    fn new(counts: &[f64], rows: usize) -> Distribution {
        let (mut sum, mut largest) = (0.0f64, 0.0f64);
        let cumulative = counts
            .iter()
            .map(|count| {
                sum += count;
                largest = largest.max(sum);
                largest
            })
            .collect();
        Distribution { cumulative, rows: rows as f64 }
    }

    fn quantile(&self, share: f64) -> f64 {
        let wanted = share * self.rows;
        let cell = self.cumulative.partition_point(|&count| count < wanted).min(self.cumulative.len() - 1);
        let below = if cell == 0 { 0.0 } else { self.cumulative[cell - 1] };
        let within = ((wanted - below) / (self.cumulative[cell] - below).max(1e-9)).clamp(0.0, 1.0);
        EDGES.edge(cell) + within * (EDGES.edge(cell + 1) - EDGES.edge(cell))
    }

    /// Share of rows with absolute residual at most `at`, linear within cells.
    fn share(&self, at: f64) -> f64 {
        let cell = EDGES.cell(at);
        let below = if cell == 0 { 0.0 } else { self.cumulative[cell - 1] };
        let (low, high) = (EDGES.edge(cell), EDGES.edge(cell + 1));
        let within = ((at - low) / (high - low)).clamp(0.0, 1.0);
        (below + within * (self.cumulative[cell] - below)) / self.rows
    }

    /// The heuristic cut: the largest residual that still lies on the line through the small ones, up to a factor 2.
    fn heuristic_cut(&self) -> f64 {
        const POINTS: usize = 200;
        let sorted: Vec<f64> = (0..POINTS).map(|index| self.quantile((index as f64 + 0.5) / POINTS as f64)).collect();
        let half = POINTS / 2;
        let mut squares = vec![0.0; POINTS + 1];
        for (index, residual) in sorted.iter().enumerate() {
            squares[index + 1] = squares[index] + residual * residual;
        }
        (half + 1..=POINTS)
            .rev()
            .find(|&kept| {
                let mean = squares[kept - half] / (kept - half) as f64;
                let right = sorted.partition_point(|residual| residual * residual < mean).clamp(1, POINTS - 1);
                let gap = |index: usize| (sorted[index] * sorted[index] - mean).abs();
                let nearest = if gap(right - 1) <= gap(right) { right - 1 } else { right };
                sorted[kept - 1] <= 2.0 * kept as f64 * sorted[nearest] / (nearest + 1) as f64
            })
            .map_or(sorted[half - 1], |kept| sorted[kept - 1])
    }

    /// Mean over all rows of the squared residual where it is at most `cut`.
    fn second_moment(&self, cut: f64) -> f64 {
        let mut before = 0.0;
        let mut sum = 0.0;
        for (cell, &count) in self.cumulative.iter().enumerate() {
            let (low, high) = (EDGES.edge(cell), EDGES.edge(cell + 1));
            if high > cut {
                break;
            }
            sum += 0.5 * (low * low + high * high) * (count - before);
            before = count;
        }
        sum / self.rows
    }
}

/// What a round read off its noised histogram.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Cut {
    at: f64,
    share: f64,
    slope: f64,
    second_moment: f64,
}

impl Cut {
    fn read(distribution: &Distribution, influence: Influence) -> Cut {
        // Two first cells; and twice the half range, which residuals of sensible coefficients stay below.
        let (smallest, largest) = (2.0 * Grid::LOW, 2.0);
        let at = match influence {
            Influence::Reject => distribution.heuristic_cut(),
            Influence::Huber => 1.345 * distribution.quantile(0.5) / 0.674_489_75,
        }
        .clamp(smallest, largest);
        let inside = distribution.share(at);
        let inner = distribution.second_moment(at);
        let (slope, second_moment) = match influence {
            Influence::Reject => {
                let density = (distribution.share(1.2 * at) - distribution.share(0.8 * at)) / (0.4 * at);
                (inside - at * density, inner)
            }
            Influence::Huber => (inside, inner + at * at * (1.0 - inside).max(0.0)),
        };
        Cut { at, share: inside.clamp(0.5, 1.0), slope: slope.clamp(0.2, 1.0), second_moment }
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
/// # use fedreg_common::privacy::robust::Estimate;
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
    cut: Option<Cut>,
    cuts: Vec<f64>,
    coefficients: DVector<f64>,
    covariance: DMatrix<f64>,
}

#[derive(Debug)]
struct Preconditioner {
    /// Rows of the score, where they differ from the rows of the residuals.
    scored: Option<ClippedRows>,
    /// Score to coefficients.
    step: DMatrix<f64>,
    /// Coefficients to score.
    derivative: DMatrix<f64>,
    /// Inverse of the noised table, its eigenvalues floored.
    sampling: DMatrix<f64>,
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
        // The descent starts at zero, and the bound of the coefficients, which is public, says how far away the end may be. Rounds
        // that are finished carry nothing of it; what is unfinished in them stays in the standard errors.
        let start = DMatrix::identity(width, width) * (plan.setup.coefficient_bound.powi(2) / width as f64);
        Ok(Fit {
            plan,
            rows,
            outcome,
            supplied: 0,
            step: None,
            cut: None,
            cuts: Vec::new(),
            coefficients: DVector::zeros(width),
            covariance: start,
        })
    }

    /// What is needed next. Asking again gives the same query.
    ///
    /// # Errors
    ///
    /// More rows than the integers hold.
    pub fn need(&self) -> Result<Need, ReleaseError> {
        let index = self.supplied;
        if index > 2 * self.plan.rounds {
            return Ok(Need::Nothing);
        }
        let query = if index == 0 {
            Query::gram(&self.rows)?
        } else if index % 2 == 1 {
            Query::histogram(EDGES.with_cells(), self.residuals().into_iter().map(|residual| EDGES.cell(residual)))
        } else {
            let cut = self.cut.map_or(0.0, |cut| cut.at);
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
        if index != self.supplied || self.supplied > 2 * self.plan.rounds {
            return Err(FitError::Order { expected: self.supplied, got: index });
        }
        let Setup { rows, width, influence, .. } = self.plan.setup;
        let expect = |entries: usize| lattice.expect(entries, lattice.step());
        if self.supplied == 0 {
            expect(width * (width + 1) / 2)?;
            self.step = Some(Preconditioner::new(lattice, receipt.sigma, &self.plan.setup, &self.rows)?);
        } else if self.supplied % 2 == 1 {
            expect(EDGES.with_cells())?;
            let cut = Cut::read(&Distribution::new(&lattice.values(), rows), influence);
            self.cuts.push(cut.at);
            self.cut = Some(cut);
        } else {
            expect(width)?;
            let (Some(step), Some(cut)) = (&self.step, self.cut) else {
                return Err(FitError::Factor);
            };
            self.coefficients += &step.step * lattice.tail(0) / cut.share;
            let norm = self.coefficients.norm();
            if norm > self.plan.setup.coefficient_bound {
                self.coefficients *= self.plan.setup.coefficient_bound / norm;
            }
            let carried = DMatrix::identity(width, width) - &step.step * &step.derivative * (cut.slope / cut.share);
            self.covariance = &carried * &self.covariance * carried.transpose()
                + &step.step * step.step.transpose() * (receipt.sigma / cut.share).powi(2);
        }
        self.supplied += 1;
        Ok(())
    }

    /// The estimate, once nothing is needed any more.
    pub fn estimate(&self) -> Option<Estimate> {
        if self.supplied <= 2 * self.plan.rounds {
            return None;
        }
        let (step, cut) = (self.step.as_ref()?, self.cut?);
        let covariance = &self.covariance + &step.sampling * (cut.second_moment / (cut.slope * cut.slope));
        Some(Estimate {
            coefficients: self.coefficients.clone(),
            covariance: (&covariance + covariance.transpose()) * 0.5,
            cuts: self.cuts.clone(),
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
        let sampling = rebuild(&|value| 1.0 / value.max(0.1 * floor));
        let (scored, step, derivative) = if setup.whiten {
            let root = (width as f64).sqrt();
            let whitener = rebuild(&|value| (value.max(floor) / count).sqrt().recip());
            let scored = rows.mapped(&(&whitener / root));
            let derivative = &whitener / root * &table;
            (Some(scored), whitener * (root / count), derivative)
        } else {
            let shift = floor.max(floor - eigen.eigenvalues.min());
            (None, rebuild(&|value| 1.0 / (value + shift)), table)
        };
        if step.iter().chain(derivative.iter()).chain(sampling.iter()).all(|value| value.is_finite()) {
            Ok(Preconditioner { scored, step, derivative, sampling })
        } else {
            Err(FitError::Factor)
        }
    }
}

#[cfg(test)]
mod tests;
