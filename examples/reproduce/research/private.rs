//! Whole private fits on invented data, through the real ledger, releases and noise; the ledger is in memory.
//!
//! Only a law and a seed go in, and what comes out are estimates of invented coefficients. The data depend on the seed alone, the
//! noise comes from the operating system as in every release.

use std::collections::{BTreeMap, HashMap};

use fedreg_common::id::Role;
use fedreg_common::methods::{robust::plan as robust, vertical::plan as vertical};
use fedreg_common::privacy::accountant::{Accountant, Budget, BudgetError};
use fedreg_common::privacy::bounds::{
    BoundsError, ClippedOutcome, ClippedRows, ColumnBounds, OutcomeBounds, RowBounds,
};
use fedreg_common::privacy::ledger::{
    Anchor, Grant, Ledger, LedgerError, PersonDigests, Record, Registration, Storage, StorageError,
};
use fedreg_common::privacy::mechanism::share::ShareError;
use fedreg_common::privacy::mechanism::{LatticeVector, NoisedRelease, Query, ReleaseError, ReleasePlan, release};
use fedreg_common::privacy::sampler::NoisePool;
use fedreg_common::study::{PrivacyError, Study, StudyError, Vertical};
use nalgebra::{DMatrix, DVector, SymmetricEigen};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

/// Half of the public outcome range of a [`Batch`].
pub(crate) const HALF_RANGE: f64 = 10.0;

/// A simulation that could not be run.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum SimulationError {
    /// Bounds without meaning.
    #[error(transparent)]
    Bounds(#[from] BoundsError),
    /// A release that failed.
    #[error(transparent)]
    Release(#[from] ReleaseError),
    /// A budget without meaning.
    #[error(transparent)]
    Budget(#[from] BudgetError),
    /// A release that the ledger refused.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// A robust fit that refused its releases.
    #[error(transparent)]
    Fit(#[from] robust::FitError),
    /// An exchange that refused a message.
    #[error(transparent)]
    Exchange(#[from] vertical::ExchangeError),
    /// A study without meaning.
    #[error(transparent)]
    Study(#[from] StudyError),
    /// A study that has no plan for so many rows.
    #[error(transparent)]
    Plan(#[from] PrivacyError),
    /// A table on shares that did not come about.
    #[error(transparent)]
    Product(#[from] fedreg_common::secure::product::Fault),
    /// Noised shares that do not open.
    #[error(transparent)]
    Share(#[from] ShareError),
    /// A session that ended before its fit.
    #[error(transparent)]
    Session(#[from] fedreg_common::session::Abort),
    /// Columns that are no table.
    #[error(transparent)]
    Data(#[from] fedreg_common::data::DataError),
    /// The plan does not end in an estimate.
    #[error("the plan does not end in an estimate")]
    NoEstimate,
}

/// What is wrong with the corrupted rows of a [`Batch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Corruption {
    /// Nothing: there are none.
    None,
    /// The outcome moved by a uniform draw from five times the largest clean outcome to either side.
    Uniform,
    /// The outcome moved by the largest clean outcome, always to the same side.
    Shift,
    /// Rows that obey the opposite coefficients.
    Collusion,
    /// The same with features ten times as large.
    Leverage,
}

impl Corruption {
    /// The four kinds of the published comparison.
    pub(crate) const KINDS: [Corruption; 4] =
        [Corruption::Uniform, Corruption::Shift, Corruption::Collusion, Corruption::Leverage];

    /// For tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Corruption::None => "none",
            Corruption::Uniform => "uniform",
            Corruption::Shift => "one-sided shift",
            Corruption::Collusion => "colluding",
            Corruption::Leverage => "leverage x10",
        }
    }
}

/// Invented rows of one worker, clipped at public bounds.
pub(crate) struct Batch {
    pub(crate) rows: ClippedRows,
    pub(crate) outcome: ClippedOutcome,
    /// Coefficients of unit rows and unit outcomes.
    pub(crate) truth: DVector<f64>,
    x: DMatrix<f64>,
    y: DVector<f64>,
}

impl Batch {
    /// Normal columns (equicorrelated), coefficients of norm one, residual variance .1, the last rows corrupted.
    ///
    /// # Errors
    /// No column.
    pub(crate) fn draw(
        rows: usize,
        width: usize,
        share: f64,
        kind: Corruption,
        correlation: f64,
        seed: u64,
    ) -> Result<Batch, SimulationError> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut truth = DVector::from_fn(width, |_, _| random.random::<f64>());
        truth /= truth.norm();
        Batch::around(&truth, rows, share, kind, correlation, &mut random)
    }

    /// As [`Batch::draw`], around coefficients that several batches share.
    ///
    /// # Errors
    /// No column.
    pub(crate) fn draw_around(
        truth: &DVector<f64>,
        rows: usize,
        share: f64,
        kind: Corruption,
        seed: u64,
    ) -> Result<Batch, SimulationError> {
        Batch::around(truth, rows, share, kind, 0.0, &mut ChaCha8Rng::seed_from_u64(seed))
    }

    fn around(
        truth: &DVector<f64>,
        rows: usize,
        share: f64,
        kind: Corruption,
        correlation: f64,
        random: &mut ChaCha8Rng,
    ) -> Result<Batch, SimulationError> {
        let width = truth.len();
        let clean = rows - (share * rows as f64).round() as usize;
        let clean = if kind == Corruption::None { rows } else { clean };
        let mut x = DMatrix::zeros(rows, width);
        let mut y = vec![0.0; rows];
        let mut largest = 0.0f64;
        for row in 0..rows {
            let common: f64 = StandardNormal.sample(random);
            for column in 0..width {
                let own: f64 = StandardNormal.sample(random);
                x[(row, column)] = common * correlation.sqrt() + own * (1.0 - correlation).sqrt();
            }
            let noise: f64 = StandardNormal.sample(random);
            let mean = x.row(row).transpose().dot(truth);
            if row < clean {
                y[row] = mean + 0.1f64.sqrt() * noise;
                largest = largest.max(y[row].abs());
                continue;
            }
            // Without a clean row there is no largest outcome to measure the damage by.
            let damage = if clean == 0 { 1.0 } else { largest };
            y[row] = match kind {
                Corruption::None => mean,
                Corruption::Uniform => mean + 0.1 * noise + damage * random.random_range(-5.0..5.0),
                Corruption::Shift => mean + 0.1 * noise + damage,
                Corruption::Collusion => -mean + 0.1f64.sqrt() * noise,
                Corruption::Leverage => {
                    x.row_mut(row).scale_mut(10.0);
                    -10.0 * mean + 0.1f64.sqrt() * noise
                }
            };
        }
        let columns = (0..width).map(|index| (format!("x{index}"), ColumnBounds::Centred { centre: 0.0, scale: 1.0 }));
        let bounds = RowBounds::new(columns.collect(), Some((width as f64).sqrt()), None)?;
        let range = OutcomeBounds::new(-HALF_RANGE, HALF_RANGE)?;
        let (rows, outcome) = ClippedRows::with_outcome(&bounds, &x, &range, &y);
        let truth = truth * ((width as f64).sqrt() / HALF_RANGE);
        Ok(Batch { rows, outcome, truth, x, y: DVector::from_vec(y) })
    }

    /// Features before they are clipped, for methods without privacy.
    pub(crate) fn features(&self) -> &DMatrix<f64> {
        &self.x
    }

    /// Outcomes before they are clipped.
    pub(crate) fn outcomes(&self) -> &DVector<f64> {
        &self.y
    }

    /// The coefficients on the scale of the features.
    pub(crate) fn coefficients(&self) -> DVector<f64> {
        &self.truth * (HALF_RANGE / (self.truth.len() as f64).sqrt())
    }

    /// What a worker would release: its private estimate, on the scale of the features, with its covariance.
    ///
    /// # Errors
    /// A plan for another number of rows or columns, no randomness.
    pub(crate) fn fit(&self, plan: &robust::Plan) -> Result<(DVector<f64>, DMatrix<f64>), SimulationError> {
        let estimate = self.fit_with(plan, &mut NoisePool::new())?;
        let scale = HALF_RANGE / (self.truth.len() as f64).sqrt();
        Ok((estimate.coefficients() * scale, estimate.covariance() * (scale * scale)))
    }

    pub(crate) fn fit_with(
        &self,
        plan: &robust::Plan,
        pool: &mut NoisePool,
    ) -> Result<robust::Estimate, SimulationError> {
        let mut fit = robust::Fit::new(plan.clone(), self.rows.clone(), self.outcome.clone())?;
        let mut ledger = SimulatedLedger::reserved(plan.releases())?;
        while let robust::Need::Release { index, query } = fit.need()? {
            fit.supply(&ledger.release(&query, index, pool)?, index)?;
        }
        fit.estimate(1).ok_or(SimulationError::NoEstimate)
    }
}

/// The releases of a batch of so many rows and columns that a worker with these public facts plans: coefficients bounded by
/// three times their norm, the first cut at half of the half range.
pub(crate) fn batch_setup(rows: usize, width: usize, budget: f64) -> robust::Setup {
    robust::Setup {
        coefficient_bound: 3.0 * (width as f64).sqrt() / HALF_RANGE,
        first_cut: 0.5,
        ..robust::Setup::new(rows, width, budget)
    }
}

/// A ledger in memory with one run reserved in it: a simulation comes to its noise on the same way as a party.
pub(super) struct SimulatedLedger(Ledger<Memory>);

const RUN: &str = "simulation";

impl SimulatedLedger {
    pub(super) fn reserved(plan: &ReleasePlan) -> Result<SimulatedLedger, SimulationError> {
        let mut ledger = Ledger::create(Memory::default())?;
        let persons = PersonDigests::anyone();
        // Room for any plan: what a plan costs is decided where it is made.
        let budget = Budget::new(1e10, 1e-5, Accountant::Zcdp, 1, true)?;
        ledger.register(&Registration {
            data_set: RUN.to_owned(),
            persons: persons.clone(),
            budget,
            bounds: BTreeMap::new(),
        })?;
        ledger.reserve(RUN, RUN, &persons, &[], "", plan)?;
        Ok(SimulatedLedger(ledger))
    }

    pub(super) fn release(
        &mut self,
        query: &Query,
        index: u32,
        pool: &mut NoisePool,
    ) -> Result<NoisedRelease, SimulationError> {
        match self.0.permit(RUN, index)? {
            Grant::Fresh(permit) => Ok(self.0.store(release(query, permit, pool)?)?),
            Grant::Stored(again) => Ok(again),
        }
    }
}

/// What a ledger keeps. Nothing is taken back: a simulation that fails is over.
#[derive(Default)]
pub(super) struct Memory {
    records: Vec<Record>,
    blobs: HashMap<String, Vec<u8>>,
    anchor: Option<Anchor>,
}

impl Storage for Memory {
    fn key(&mut self) -> Result<[u8; 32], StorageError> {
        Ok([7; 32])
    }
    fn begin(&mut self) -> Result<(), StorageError> {
        Ok(())
    }
    fn records_after(&mut self, sequence: u64) -> Result<Vec<Record>, StorageError> {
        Ok(self.records.iter().filter(|record| record.sequence > sequence).cloned().collect())
    }
    fn append(&mut self, record: &Record) -> Result<(), StorageError> {
        self.records.push(record.clone());
        Ok(())
    }
    fn put_blob(&mut self, name: &str, bytes: &[u8]) -> Result<(), StorageError> {
        self.blobs.insert(name.to_owned(), bytes.to_vec());
        Ok(())
    }
    fn blob(&mut self, name: &str) -> Result<Option<Vec<u8>>, StorageError> {
        Ok(self.blobs.get(name).cloned())
    }
    fn commit(&mut self) -> Result<(), StorageError> {
        Ok(())
    }
    fn abandon(&mut self) {}
    fn anchor(&mut self) -> Result<Option<Anchor>, StorageError> {
        Ok(self.anchor)
    }
    fn advance_anchor(&mut self, anchor: &Anchor) -> Result<(), StorageError> {
        self.anchor = Some(*anchor);
        Ok(())
    }
    fn now(&self) -> u64 {
        0
    }
}

/// Coefficients of [`TwoParties`], five columns each.
pub(crate) const COEFFICIENTS: [f64; 10] = [0.6, -0.4, 0.5, 0.3, -0.5, -0.3, 0.7, 0.4, -0.6, 0.5];

/// Invented rows of two parties with five columns each, clipped at public bounds.
pub(crate) struct TwoParties {
    pub(crate) alice: ClippedRows,
    pub(crate) bob: ClippedRows,
    pub(crate) outcome: ClippedOutcome,
    pub(crate) pooled: DVector<f64>,
    all: DMatrix<f64>,
    response: DVector<f64>,
}

impl TwoParties {
    /// Equicorrelated normal columns of variance 4/(9 p) a block, cut at norm 1; noise of standard deviation .3.
    ///
    /// # Errors
    /// Fewer rows than columns.
    pub(crate) fn draw(rows: usize, correlation: f64, seed: u64) -> Result<TwoParties, SimulationError> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut normal = || -> f64 { StandardNormal.sample(&mut random) };
        let scale = 1.0 / (1.5 * 5f64.sqrt());
        let mut all = DMatrix::zeros(rows, 10);
        let mut outcome = Vec::with_capacity(rows);
        for row in 0..rows {
            let common = normal() * correlation.sqrt();
            for column in 0..10 {
                all[(row, column)] = (common + normal() * (1.0 - correlation).sqrt()) * scale;
            }
            for first in [0, 5] {
                let mut block = all.view_mut((row, first), (1, 5));
                let norm = block.norm();
                if norm > 1.0 {
                    block.scale_mut(1.0 / norm);
                }
            }
            let mean: f64 = (0..10).map(|column| all[(row, column)] * COEFFICIENTS[column]).sum();
            outcome.push((mean + 0.3 * normal()).clamp(-1.0, 1.0));
        }
        let response = DVector::from_column_slice(&outcome);
        let pooled = least_squares(&all, &response).ok_or(SimulationError::NoEstimate)?;
        let columns = (0..5).map(|index| (format!("x{index}"), ColumnBounds::Centred { centre: 0.0, scale: 1.0 }));
        let bounds = RowBounds::new(columns.collect(), Some(1.0), None)?;
        let block = |first: usize| all.columns(first, 5).into_owned();
        Ok(TwoParties {
            alice: ClippedRows::new(&bounds, &block(0)),
            bob: ClippedRows::new(&bounds, &block(5)),
            outcome: ClippedOutcome::new(&OutcomeBounds::new(-1.0, 1.0)?, &outcome),
            pooled,
            all,
            response,
        })
    }

    /// Both parties' rows, clipped at other bounds.
    pub(crate) fn rows_under(&self, bounds: &[RowBounds; 2]) -> [ClippedRows; 2] {
        [0, 1].map(|at| ClippedRows::new(&bounds[at], &self.all.columns(5 * at, 5).into_owned()))
    }

    /// Distance of coefficients from the pooled least squares fit, relative to its length.
    pub(crate) fn error(&self, coefficients: &DVector<f64>) -> f64 {
        (coefficients - &self.pooled).norm() / self.pooled.norm()
    }

    /// Each party's own fit, nothing exchanged and no noise.
    pub(crate) fn alone(&self) -> Option<DVector<f64>> {
        let own = |first: usize| least_squares(&self.all.columns(first, 5).into_owned(), &self.response);
        Some(joined(&own(0)?, &own(5)?))
    }

    /// The least squares fit of all columns.
    pub(crate) fn pooled(&self) -> &DVector<f64> {
        &self.pooled
    }

    /// Both parties' coefficients after the exchange of noised partial predictions.
    ///
    /// # Errors
    /// A plan for another number of rows or columns, no randomness.
    pub(crate) fn exchange(&self, plan: &vertical::Plan) -> Result<DVector<f64>, SimulationError> {
        Ok(self.exchange_from(plan, &mut NoisePool::new())?.coefficients)
    }

    /// The same with standard errors, and with noise that may have been drawn ahead of time.
    ///
    /// # Errors
    /// A plan for another number of rows or columns, no randomness.
    pub(crate) fn exchange_from(
        &self,
        plan: &vertical::Plan,
        pool: &mut NoisePool,
    ) -> Result<Exchanged, SimulationError> {
        let mut draws = 0;
        let [alice, bob] = self.exchange_with(plan, pool, |_, made| draws += made.lattice().integers().len())?;
        let variances = joined(&alice.covariance.diagonal(), &bob.covariance.diagonal());
        Ok(Exchanged {
            coefficients: joined(&alice.coefficients, &bob.coefficients),
            standard_errors: variances.map(f64::sqrt),
            draws,
        })
    }

    /// The coefficients that so many rounds with messages cut at `bound` give without noise: what the standard errors of an
    /// exchange belong to.
    pub(crate) fn target(&self, rounds: u32, bound: f64) -> Option<DVector<f64>> {
        let blocks = [0, 5].map(|first| self.all.columns(first, 5));
        let [first, second] = blocks.map(|block| (block.transpose() * block).cholesky());
        let factors = [first?, second?];
        let solve =
            |me: usize, message: &DVector<f64>| factors[me].solve(&(blocks[me].tr_mul(&(&self.response - message))));
        let mut beta = [DVector::zeros(5), DVector::zeros(5)];
        let mut message = [0, 1].map(|_| DVector::zeros(self.response.len()));
        for _ in 0..rounds {
            for me in 0..2 {
                beta[me] = solve(me, &message[1 - me]);
                message[me] = (blocks[me] * &beta[me]).map(|value| value.clamp(-bound, bound));
            }
        }
        beta[0] = solve(0, &message[1]);
        let [alice, bob] = &beta;
        Some(joined(alice, bob))
    }

    /// The study that two parties with such rows would agree on: public bounds as they are here, and a declared design that is the
    /// true one.
    ///
    /// # Errors
    /// An epsilon or a correlation without meaning.
    pub(crate) fn study(correlation: f64, epsilon: f64, rounds: u32) -> Result<Study<Vertical>, SimulationError> {
        TwoParties::study_by(correlation, epsilon, &format!("rounds = {rounds}"), "both")
    }

    /// The same by the mechanism `crossprod`; `held_by` says who holds the outcome.
    ///
    /// # Errors
    /// As [`TwoParties::study`].
    pub(crate) fn crossprod_study(
        correlation: f64,
        epsilon: f64,
        held_by: &str,
    ) -> Result<Study<Vertical>, SimulationError> {
        TwoParties::study_by(correlation, epsilon, "mechanism = \"crossprod\"", held_by)
    }

    fn study_by(
        correlation: f64,
        epsilon: f64,
        mechanism: &str,
        held_by: &str,
    ) -> Result<Study<Vertical>, SimulationError> {
        let names: Vec<String> = (0..10).map(|at| format!("{}{}", if at < 5 { "a" } else { "b" }, at % 5)).collect();
        let listed = |names: &[String]| names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
        let columns: String =
            names.iter().map(|name| format!("[columns.{name}]\ncentre = 0.0\nscale = 1.0\n")).collect();
        let coefficients: Vec<String> =
            names.iter().zip(COEFFICIENTS).map(|(name, value)| format!("{name} = {value:?}")).collect();
        let study = Study::parse(&format!(
            "id = \"simulated\"\nmode = \"private\"\n[outcome]\ncolumn = \"y\"\nheld_by = \"{held_by}\"\n[parties.alice]\ncertificate = \"alice\"\ncolumns = \
             [{}]\nrow_norm = 1.0\n[parties.bob]\ncertificate = \"bob\"\ncolumns = [{}]\nrow_norm = 1.0\n{columns}[columns.y]\nrange = [-1.0, 1.0]\n[privacy]\nepsilon = \
             {epsilon:?}\ndelta = 1e-5\naccountant = \"exact\"\n{mechanism}\n[privacy.design]\ncorrelation = {correlation:?}\nmean_square = \
             {:?}\ncoefficients = {{ {} }}\n",
            listed(&names[..5]),
            listed(&names[5..]),
            4.0 / 9.0,
            coefficients.join(", ")
        ))?;
        study.vertical().ok_or_else(|| {
            let problem = "is not that of two parties".to_owned();
            StudyError::Value { key: "protocol".to_owned(), problem }.into()
        })
    }

    /// Both parties' slopes on the scale of their columns, as a study has it: its bounds, an intercept in Alice's rows, its plan.
    ///
    /// # Errors
    /// A study that is not of these columns, no randomness.
    pub(crate) fn exchange_under(&self, study: &Study<Vertical>) -> Result<DVector<f64>, SimulationError> {
        self.exchange_under_with(study, &mut NoisePool::new())
    }

    /// The same by the mechanism `crossprod`, with standard errors; the noise is that of a run.
    ///
    /// # Errors
    /// A study that is not of these columns or of another mechanism, no randomness.
    pub(crate) fn opened_under(
        &self,
        study: &Study<Vertical>,
    ) -> Result<(DVector<f64>, DVector<f64>), SimulationError> {
        let bounds = [study.row_bounds(Role::Alice), study.row_bounds(Role::Bob)];
        let [alice, bob] = bounds.map(|bounds| bounds.map_err(PrivacyError::from));
        let (bounds, range) = ([alice?, bob?], study.outcome_bounds()?);
        let rows = self.rows_under(&bounds);
        let plan = study.private_plan(self.response.len() as u64)?;
        let plan = plan.crossprod().ok_or(SimulationError::NoEstimate)?;
        let outcome = ClippedOutcome::new(&range, self.response.as_slice());
        let fit = super::crossprod::opened(plan, [&rows[0], &rows[1]], &outcome, &mut NoisePool::new())?;
        let (values, variances) = fit.on_original_scale(&[&bounds[0], &bounds[1]], &range);
        Ok((values.rows(1, 10).into_owned(), variances.rows(1, 10).map(f64::sqrt)))
    }

    pub(crate) fn exchange_under_with(
        &self,
        study: &Study<Vertical>,
        pool: &mut NoisePool,
    ) -> Result<DVector<f64>, SimulationError> {
        let bounds = [study.row_bounds(Role::Alice), study.row_bounds(Role::Bob)];
        let [alice, bob] = bounds.map(|bounds| bounds.map_err(PrivacyError::from));
        let (alice, bob, range) = (alice?, bob?, study.outcome_bounds()?);
        let block = |first: usize| self.all.columns(first, 5).into_owned();
        let held = TwoParties {
            alice: ClippedRows::new(&alice, &block(0)),
            bob: ClippedRows::new(&bob, &block(5)),
            outcome: ClippedOutcome::new(&range, self.response.as_slice()),
            pooled: self.pooled.clone(),
            all: self.all.clone(),
            response: self.response.clone(),
        };
        let plan = match study.private_plan(self.response.len() as u64)? {
            vertical::PrivatePlan::Residual(plan) => plan,
            vertical::PrivatePlan::Crossprod(plan) => {
                let fit = super::crossprod::opened(&plan, [&held.alice, &held.bob], &held.outcome, pool)?;
                return Ok(fit.on_original_scale(&[&alice, &bob], &range).0.rows(1, 10).into_owned());
            }
            // Its outcome is another one.
            vertical::PrivatePlan::Logistic(_) => return Err(SimulationError::NoEstimate),
        };
        let estimates = held.exchange_with(&plan, pool, |_, _| {})?;
        let slopes = |bounds: &RowBounds, estimate: &vertical::Estimate| {
            bounds.original_scale(&range).coefficients(&estimate.coefficients).rows(1, 5).into_owned()
        };
        Ok(joined(&slopes(&alice, &estimates[0]), &slopes(&bob, &estimates[1])))
    }

    /// Every value that is released passes through `observe`.
    pub(crate) fn exchange_with(
        &self,
        plan: &vertical::Plan,
        pool: &mut NoisePool,
        mut observe: impl FnMut(vertical::Side, &NoisedRelease),
    ) -> Result<[vertical::Estimate; 2], SimulationError> {
        use vertical::{Exchange, Need, Side};
        let mut alice = Exchange::new(plan.clone(), Side::Alice, self.alice.clone(), self.outcome.clone())?;
        let mut bob = Exchange::new(plan.clone(), Side::Bob, self.bob.clone(), self.outcome.clone())?;
        let mut mail: [Option<LatticeVector>; 2] = [None, None];
        let reserved = |side| SimulatedLedger::reserved(&plan.side(side).releases);
        let mut ledgers = [reserved(Side::Alice)?, reserved(Side::Bob)?];
        loop {
            let mut moved = false;
            for (me, party) in [&mut alice, &mut bob].into_iter().enumerate() {
                let side = if me == 0 { Side::Alice } else { Side::Bob };
                match party.need()? {
                    Need::Nothing => {}
                    Need::Message { .. } => {
                        if let Some(message) = mail[me].take() {
                            party.receive(&message)?;
                            moved = true;
                        }
                    }
                    Need::Release { index, query, send } => {
                        let made = ledgers[me].release(&query, index, pool)?;
                        observe(side, &made);
                        if send {
                            mail[1 - me] = Some(made.lattice().clone());
                        }
                        party.supply(&made)?;
                        moved = true;
                    }
                }
            }
            if !moved {
                let (Some(alice), Some(bob)) = (alice.estimate(), bob.estimate()) else {
                    return Err(SimulationError::NoEstimate);
                };
                return Ok([alice, bob]);
            }
        }
    }

    /// Coefficients from one noised table of cross-products, with continuous noise from `normal`: a comparator that nothing
    /// can be released with.
    ///
    /// # Reference
    /// Replace-one sensitivities of the tables: `2 sqrt 2` where each party noises what its own rows touch, `sqrt 12.5` where
    /// both blocks change together.
    pub(crate) fn solve_noised_table(
        &self,
        who: TableHolder,
        mu: f64,
        normal: &mut impl FnMut() -> f64,
    ) -> Option<DVector<f64>> {
        let (sigma, shares) = match who {
            TableHolder::Both => (8f64.sqrt() / mu, 1),
            TableHolder::Curator => (12.5f64.sqrt() / mu, 1),
            TableHolder::Sites(sites) => (12.5f64.sqrt() / mu, sites),
        };
        let (mut table, mut right) = (self.all.tr_mul(&self.all), self.all.tr_mul(&self.response));
        let width = right.len();
        for _ in 0..shares {
            for row in 0..width {
                for column in row..width {
                    let across = row < 5 && column >= 5 && who == TableHolder::Both;
                    // Across the blocks both parties' noise meets, each at full size; within a block a symmetric pair shares.
                    let size = match (row == column, across) {
                        (true, _) => 1.0,
                        (false, true) => std::f64::consts::SQRT_2,
                        (false, false) => std::f64::consts::FRAC_1_SQRT_2,
                    };
                    let noise = sigma * size * normal();
                    table[(row, column)] += noise;
                    if row != column {
                        table[(column, row)] += noise;
                    }
                }
                right[row] += sigma * normal();
            }
        }
        let floor = sigma * (width as f64 * f64::from(shares)).sqrt();
        let lowest = SymmetricEigen::new(table.clone()).eigenvalues.min();
        let lift = (floor - lowest).max(0.0);
        (0..width).for_each(|j| table[(j, j)] += lift);
        table.lu().solve(&right)
    }
}

/// What both parties of an exchange end with, Alice's columns first.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Exchanged {
    /// Coefficients.
    pub(crate) coefficients: DVector<f64>,
    /// Their standard errors from the noise.
    pub(crate) standard_errors: DVector<f64>,
    /// Noised numbers that both released, each with a draw of its own.
    pub(crate) draws: usize,
}

/// Who noises a table of cross-products.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TableHolder {
    /// Alice and Bob, each in full, under secure computation.
    Both,
    /// One whom both trust with their rows.
    Curator,
    /// So many sites that hold all columns of their own rows, each in full.
    Sites(u32),
}

pub(super) fn least_squares(x: &DMatrix<f64>, y: &DVector<f64>) -> Option<DVector<f64>> {
    Some(x.tr_mul(x).cholesky()?.solve(&x.tr_mul(y)))
}

fn joined(alice: &DVector<f64>, bob: &DVector<f64>) -> DVector<f64> {
    DVector::from_iterator(alice.len() + bob.len(), alice.iter().chain(bob.iter()).copied())
}
