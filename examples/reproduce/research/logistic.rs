//! Private binomial and Poisson fits of two parties on invented rows: whole sessions with a dealer, masks, both ledgers and real noise.

use std::sync::Arc;

use fedreg_common::conversation::Opening;
use fedreg_common::data::{Column, ColumnBuilder, DataError, Frame, Place, Places};
use fedreg_common::glm::Family;
use fedreg_common::id::{Role, RunId};
use fedreg_common::methods::vertical::message::Message;
use fedreg_common::methods::vertical::plan::{LogisticPlan, LogisticSetup, LogisticTables, OutcomeAt, Outcomes};
use fedreg_common::methods::vertical::prepare::Policy;
use fedreg_common::methods::vertical::private::{PrivateSession, Setting, Table};
use fedreg_common::privacy::ledger::{Ledger, PersonDigests, Registration};
use fedreg_common::privacy::sampler::NoisePool;
use fedreg_common::session::Abort;
use fedreg_common::sim::dealer::dealer;
use fedreg_common::sim::pair::{self, Faults};
use fedreg_common::study::{Study, StudyError, Vertical};
use nalgebra::{DMatrix, DVector};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Poisson, StandardNormal};

use super::newton::pooled;
use super::private::{Memory, SimulationError};

/// The slopes of events, Alice's five first: a linear predictor of standard deviation 1.2. Those of counts are half of them.
pub(crate) const SLOPES: [f64; 10] = [1.8, -1.2, 1.5, 0.9, -1.5, -0.9, 2.1, 1.2, -1.8, 1.5];

/// The intercept of events; that of counts is 0.
const INTERCEPT: f64 = -0.5;

/// The largest count, which the study declares: those above it are cut.
const LARGEST: f64 = 8.0;

/// What entries of rows are multiples of.
const UNIT: f64 = 1.0 / 32_768.0;

const RUN: RunId = RunId([1; 16]);
const DATA_SET: &str = "simulated";

/// Invented rows of two parties with five columns each, and an outcome that is 0 or 1 or counts.
pub(crate) struct DrawnRows {
    family: Family,
    /// Alice's five columns, then Bob's.
    pub(crate) columns: DMatrix<f64>,
    pub(crate) y: Vec<f64>,
    pooled: DVector<f64>,
}

/// The slopes that an outcome of this family is drawn with.
pub(crate) fn slopes(family: Family) -> DVector<f64> {
    DVector::from_column_slice(&SLOPES) * if family == Family::Poisson { 0.5 } else { 1.0 }
}

/// What the outcome of the family is counted in: the largest one.
pub(crate) fn largest(family: Family) -> f64 {
    if family == Family::Poisson { LARGEST } else { 1.0 }
}

impl DrawnRows {
    /// Equicorrelated normal columns of correlation .3 and variance 4/(9 p) a block, each block cut at norm 1 and its entries at multiples
    /// of 2^-15; the outcome is drawn from the mean of the family, binomial or poisson, counts cut at the largest one.
    ///
    /// # Errors
    /// Rows without a finite maximum of their likelihood.
    pub(crate) fn draw(family: Family, rows: usize, seed: u64) -> Result<DrawnRows, SimulationError> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut columns = DMatrix::zeros(rows, 10);
        for row in 0..rows {
            let mut normal = || -> f64 { StandardNormal.sample(&mut random) };
            let common = normal() * 0.3_f64.sqrt();
            for column in 0..10 {
                columns[(row, column)] = (common + normal() * 0.7_f64.sqrt()) / (1.5 * 5f64.sqrt());
            }
            for first in [0, 5] {
                let mut block = columns.view_mut((row, first), (1, 5));
                let norm = block.norm().max(1.0);
                block.apply(|entry| *entry = (*entry / norm / UNIT).trunc() * UNIT);
            }
        }
        let eta = &columns * slopes(family);
        let mut drawn = |eta: &f64| match family {
            Family::Poisson => Poisson::new(eta.exp()).map_or(0.0, |law| law.sample(&mut random)).min(LARGEST),
            Family::Gaussian | Family::Binomial => {
                f64::from(u8::from(random.random::<f64>() < Family::Binomial.mean(eta + INTERCEPT)))
            }
        };
        let y: Vec<f64> = eta.iter().map(&mut drawn).collect();
        let pooled = slopes_of(family, &columns, &y).ok_or(SimulationError::NoEstimate)?;
        Ok(DrawnRows { family, columns, y, pooled })
    }

    /// Distance of slopes from the pooled ones, relative to their length.
    pub(crate) fn error(&self, slopes: &DVector<f64>) -> f64 {
        (slopes - &self.pooled).norm() / self.pooled.norm()
    }

    /// Each party's own fit, nothing exchanged and no noise.
    pub(crate) fn alone(&self) -> Option<DVector<f64>> {
        let own = |first: usize| slopes_of(self.family, &self.columns.columns(first, 5).into_owned(), &self.y);
        let (alice, bob) = (own(0)?, own(5)?);
        Some(DVector::from_iterator(10, alice.iter().chain(bob.iter()).copied()))
    }

    /// Slopes from the table and the two gradients of the mechanism, each with the noise of one holder whom both trust with their rows: a
    /// comparator with continuous noise from `normal`. A person's row in both blocks is replaced, its outcome is not.
    ///
    /// # Reference
    /// Sensitivities at equal noise: `sqrt 18` of `X'X` with both vectors, at a cosine of -1/2 between the two rows of norm `sqrt 2`, and
    /// `2 sqrt 2` of a gradient, in units of the largest count where outcomes are counts.
    pub(crate) fn curated(&self, mu: f64, normal: &mut impl FnMut() -> f64) -> Option<DVector<f64>> {
        let rows = self.y.len();
        let (outcome, counts) = (OutcomeAt::Both, self.family == Family::Poisson);
        let outcomes = if counts { Outcomes::Counts } else { Outcomes::Events };
        let setup = LogisticSetup { rows, alice_width: 5, bob_width: 5, outcome, outcomes, budget: mu * mu };
        let plan = LogisticPlan::new(setup).ok()?;
        // The parts of the budget are those of the mechanism.
        let sigma = |sensitivity: f64, part: f64| sensitivity / (mu * part.sqrt());
        let vectors = sigma(18f64.sqrt(), 0.25);
        let mut noised = |value: f64, sigma: f64| value + sigma * normal();
        let mut table = self.columns.tr_mul(&self.columns);
        for row in 0..10 {
            for column in 0..=row {
                let size = if row == column { 1.0 } else { std::f64::consts::FRAC_1_SQRT_2 };
                table[(row, column)] = noised(table[(row, column)], vectors * size);
                table[(column, row)] = table[(row, column)];
            }
        }
        let y = DVector::from_column_slice(&self.y) / largest(self.family);
        let block = |at: usize| table.view((at, at), (5, 5)).into_owned();
        let opened = LogisticTables {
            tables: [block(0), block(5)],
            cross: table.view((0, 5), (5, 5)).into_owned(),
            score: self.columns.tr_mul(&y.map(|y| 2.0 * y - 1.0)).map(|value| noised(value, vectors)),
            sums: self.columns.row_sum_tr().map(|value| noised(value, vectors)),
            mean: y.mean(),
        };
        let mut fit = plan.begin(&opened)?;
        for part in [0.10, 0.65] {
            let (intercept, [alice, bob]) = fit.point();
            let [alice, bob] = [self.columns.columns(0, 5) * alice, self.columns.columns(5, 5) * bob];
            let means = match counts {
                true => {
                    let [first, second] = fit.ends();
                    alice.zip_map(&bob, |s, t| ((s - first).min(0.0) + (t - second).min(0.0)).exp())
                }
                false => alice.zip_map(&bob, |s, t| Family::Binomial.mean(s + t + intercept)),
            };
            let residuals = means - &y;
            let gradient = self.columns.tr_mul(&residuals).insert_row(0, residuals.sum());
            fit.take(&gradient.map(|value| noised(value, sigma(8f64.sqrt(), part))));
        }
        Some(fit.finish()?.0.rows(1, 10).into_owned())
    }

    /// The study that two parties with such rows would agree on: bounds that leave the rows as they are, and a declared design that is the true
    /// one; `held_by` says who holds the outcome.
    ///
    /// # Errors
    /// An epsilon without meaning.
    pub(crate) fn study(family: Family, epsilon: f64, held_by: &str) -> Result<Arc<Study<Vertical>>, SimulationError> {
        let names: Vec<String> = [Role::Alice, Role::Bob].into_iter().flat_map(names).collect();
        let quoted = |of: &[String]| of.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
        let columns: String =
            names.iter().map(|name| format!("[columns.{name}]\ncentre = 0.0\nscale = 1.0\n")).collect();
        let slopes = slopes(family);
        let sizes: Vec<String> =
            names.iter().zip(slopes.iter()).map(|(name, slope)| format!("{name} = {slope:?}")).collect();
        let study = Study::parse(&format!(
            "id = \"simulated\"\nmode = \"private\"\n[model]\nfamily = \"{family}\"\n[outcome]\ncolumn = \"y\"\nheld_by = \
             \"{held_by}\"\n[parties.alice]\ncertificate = \"alice\"\ncolumns = [{}]\nrow_norm = 1.0\n[parties.bob]\ncertificate = \
             \"bob\"\ncolumns = [{}]\nrow_norm = 1.0\n{columns}[columns.y]\nrange = [0, {}]\n[privacy]\ndelta = 1e-5\nepsilon = \
             {epsilon:?}\naccountant = \"exact\"\nmechanism = \"crossprod\"\n[privacy.design]\ncorrelation = 0.3\nmean_square = \
             {:?}\ncoefficients = {{ {} }}\n",
            quoted(&names[..5]),
            quoted(&names[5..]),
            largest(family),
            4.0 / 9.0,
            sizes.join(", ")
        ))?;
        study.vertical().map(Arc::new).ok_or_else(|| {
            let problem = "is not that of two parties".to_owned();
            StudyError::Value { key: "protocol".to_owned(), problem }.into()
        })
    }

    /// Slopes and their standard errors, of events, after a whole run of both sessions with a dealer, each party with a ledger of its own.
    ///
    /// # Errors
    /// A study that is not of these columns, no randomness.
    pub(crate) fn run(
        &self,
        study: &Arc<Study<Vertical>>,
        pools: [NoisePool; 2],
    ) -> Result<(DVector<f64>, Option<DVector<f64>>), SimulationError> {
        let [for_alice, for_bob] = pools;
        let mut alice = self.session(study, Role::Alice, for_alice)?;
        let mut bob = self.session(study, Role::Bob, for_bob)?;
        let deal = dealer(study, RUN, |_, _| {});
        let ended = pair::run_dealt(&mut alice, &mut bob, Faults::NONE, |_, _: &Message| {}, deal);
        let fit = ended.results.into_iter().flatten().collect::<Result<Vec<_>, Abort>>()?.into_iter().next();
        let rows = fit.map(|fit| fit.coefficients).filter(|rows| rows.len() == 11).unwrap_or_default();
        let of = |value: fn(&fedreg_common::fit::Coefficient) -> Option<f64>| -> Option<DVector<f64>> {
            let values: Vec<f64> = rows.iter().skip(1).map(value).collect::<Option<_>>()?;
            (values.len() == 10).then(|| DVector::from_vec(values))
        };
        Ok((of(|row| row.estimate).ok_or(SimulationError::NoEstimate)?, of(|row| row.std_error)))
    }

    fn session(
        &self,
        study: &Arc<Study<Vertical>>,
        role: Role,
        pool: NoisePool,
    ) -> Result<PrivateSession<Memory>, SimulationError> {
        let table = Table::new(Arc::clone(study), role, &Policy::default(), self.frame(role)?)?;
        let mut ledger = Ledger::create(Memory::default())?;
        let persons = PersonDigests::anyone();
        let registration = Registration {
            data_set: DATA_SET.to_owned(),
            persons: persons.clone(),
            budget: study.run_budget(self.y.len() as u64)?,
            bounds: study.stated_bounds(role),
        };
        ledger.register(&registration)?;
        let setting =
            Setting { ledger, data_set: DATA_SET.to_owned(), persons, peers: vec![role.partner().to_string()], pool };
        let opening = Opening {
            first: role == Role::Bob,
            run: RUN,
            seed: [1 + u8::from(role == Role::Bob); 32],
            peer: role.partner(),
        };
        Ok(PrivateSession::new(table, opening, setting)?)
    }

    /// A party's columns and the outcome.
    fn frame(&self, role: Role) -> Result<Frame, DataError> {
        let first = if role == Role::Alice { 0 } else { 5 };
        let place = |row: usize| Place::Row(row as u64 + 1);
        let mut places = Places::default();
        (0..self.y.len()).for_each(|row| places.push(place(row)));
        let column = |name: String, of: &dyn Fn(usize) -> f64| -> Result<Column, DataError> {
            let mut builder = ColumnBuilder::lenient_numbers(name);
            (0..self.y.len()).try_for_each(|row| builder.number(of(row), place(row)))?;
            builder.finish()
        };
        let own = names(role).into_iter().enumerate();
        let mut columns = own
            .map(|(at, name)| column(name, &|row| self.columns[(row, first + at)]))
            .collect::<Result<Vec<_>, DataError>>()?;
        columns.push(column("y".to_owned(), &|row| self.y[row])?);
        Frame::new(columns, None, places)
    }
}

/// The names of a party's columns.
fn names(role: Role) -> Vec<String> {
    let letter = if role == Role::Alice { 'a' } else { 'b' };
    (0..5).map(|at| format!("{letter}{at}")).collect()
}

/// The slopes of a fit with an intercept.
fn slopes_of(family: Family, columns: &DMatrix<f64>, y: &[f64]) -> Option<DVector<f64>> {
    let x = columns.clone().insert_column(0, 1.0);
    let (values, _) = pooled(family, &x, &DVector::from_column_slice(y))?;
    Some(values.rows(1, columns.ncols()).into_owned())
}
