//! Invented columns that are hard on a descent: nearly dependent, skewed, rare or nearly separated, with both families' outcomes.

use fedreg_common::data::{ColumnBuilder, DataError, Frame, Place, Places};
use fedreg_common::glm::Family;
use fedreg_common::id::Role;
use nalgebra::{DMatrix, DVector};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Exp1, Poisson, StandardNormal, StudentT};

/// The law of the columns.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Law {
    /// Normal of variance 1, each column correlated with the one before it by so much.
    Chain(f64),
    /// Normal with the correlations of a product `A A'` of a square of independent normal entries: many nearly dependent columns.
    RandomCorrelation,
    /// Three independent normal factors with loadings of standard deviation .6, and a normal part of variance 1 of each column's own.
    Factors,
    /// At Alice two normal columns, four of 0 and 1 with shares of 1 from .5 down to .01, two exponential ones; at Bob four of 0 and 1,
    /// two of Student's t with 4 degrees of freedom, two log-normal ones.
    Mixed,
}

/// A design: what is drawn, and how many gradients its binomial fit may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Design {
    pub(crate) name: &'static str,
    pub(crate) rows: usize,
    /// Columns of each party.
    pub(crate) width: usize,
    /// Most gradients of the binomial fit.
    pub(crate) most: u32,
    /// Whether counts with the same columns are fitted as well.
    pub(crate) counts: bool,
    law: Law,
    /// Standard deviation of the coefficients, which are normal.
    slope: f64,
    intercept: Intercept,
}

/// Stands beside the columns.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Intercept {
    Is(f64),
    /// What makes so large a share of ones expected in the rows that were drawn.
    OfEvents(f64),
}

impl Intercept {
    fn beside(self, eta: &DVector<f64>) -> f64 {
        match self {
            Intercept::Is(intercept) => intercept,
            Intercept::OfEvents(share) => {
                let (mut below, mut above) = (-50.0, 50.0);
                for _ in 0..60 {
                    let middle = 0.5 * (below + above);
                    let mean = eta.map(|eta| Family::Binomial.mean(eta + middle)).mean();
                    if mean < share { below = middle } else { above = middle }
                }
                below
            }
        }
    }
}

/// Those of the specification, with the most gradients that it allows.
pub(crate) const DESIGNS: [Design; 6] = [
    design("correlation .97 of neighbours", (1000, 6), 8, Law::Chain(0.97), (0.5, Intercept::Is(0.0))),
    design("random correlations", (3000, 30), 9, Law::RandomCorrelation, (0.2, Intercept::Is(0.0))),
    Design {
        counts: false,
        ..design("1.3 % events", (20_000, 6), 7, Law::Chain(0.5), (0.4, Intercept::OfEvents(0.013)))
    },
    design("three shared factors", (20_000, 50), 7, Law::Factors, (0.1, Intercept::Is(-0.3))),
    design("dummies and skew", (10_000, 8), 14, Law::Mixed, (0.4, Intercept::Is(-1.0))),
    Design { counts: false, ..design("near separation", (500, 5), 22, Law::Chain(0.5), (2.2, Intercept::Is(0.0))) },
];

const fn design(
    name: &'static str,
    (rows, width): (usize, usize),
    most: u32,
    law: Law,
    (slope, intercept): (f64, Intercept),
) -> Design {
    Design { name, rows, width, most, counts: true, law, slope, intercept }
}

/// Rows of a design.
pub(crate) struct Drawn {
    /// Alice's columns, then Bob's.
    pub(crate) x: DMatrix<f64>,
    pub(crate) y: DVector<f64>,
}

impl Design {
    /// Draws rows of it with an outcome of a family; counts have a linear predictor of standard deviation .4 at most, between -6 and 5.
    pub(crate) fn draw(&self, rows: usize, family: Family, seed: u64) -> Drawn {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let width = 2 * self.width;
        let x = self.columns(rows, &mut random);
        let mut normal = || -> f64 { StandardNormal.sample(&mut random) };
        let slopes = DVector::from_fn(width, |_, _| self.slope * normal());
        let eta = &x * slopes;
        let eta = eta.add_scalar(self.intercept.beside(&eta));
        let y = match family {
            Family::Poisson => {
                let factor = 0.4 / (0.4 * eta.variance().sqrt()).max(1.0);
                let mut count =
                    |eta: f64| Poisson::new((factor * eta).clamp(-6.0, 5.0).exp()).map(|law| law.sample(&mut random));
                eta.map(|eta| count(eta).unwrap_or(f64::NAN))
            }
            Family::Binomial | Family::Gaussian => {
                eta.map(|eta| f64::from(u8::from(random.random::<f64>() < Family::Binomial.mean(eta))))
            }
        };
        Drawn { x, y }
    }

    fn columns(&self, rows: usize, random: &mut ChaCha8Rng) -> DMatrix<f64> {
        let width = 2 * self.width;
        let mut normals = |rows: usize, columns: usize| -> DMatrix<f64> {
            DMatrix::from_fn(rows, columns, |_, _| StandardNormal.sample(random))
        };
        match self.law {
            Law::Chain(correlation) => {
                let mut x = normals(rows, width);
                for column in 1..width {
                    let before = x.column(column - 1).into_owned();
                    x.column_mut(column).axpy(correlation, &before, (1.0 - correlation * correlation).sqrt());
                }
                x
            }
            Law::RandomCorrelation => {
                let mut root = normals(width, width);
                // Rows of norm one: the product with its transpose has ones on its diagonal.
                root.row_iter_mut().for_each(|mut row| row /= row.norm());
                normals(rows, width) * root.transpose()
            }
            Law::Factors => {
                let loadings = normals(3, width) * 0.6;
                normals(rows, 3) * loadings + normals(rows, width)
            }
            Law::Mixed => mixed(rows, random),
        }
    }
}

fn mixed(rows: usize, random: &mut ChaCha8Rng) -> DMatrix<f64> {
    let mut x = DMatrix::zeros(rows, 16);
    let heavy = StudentT::new(4.0).ok();
    for row in 0..rows {
        let mut set = |column: usize, value: f64| x[(row, column)] = value;
        for column in [0, 1] {
            set(column, StandardNormal.sample(random));
            set(6 + column, Exp1.sample(random));
            set(12 + column, heavy.map_or(f64::NAN, |law| law.sample(random)));
            let logarithm: f64 = StandardNormal.sample(random);
            set(14 + column, logarithm.exp());
        }
        for (column, share) in [(2, 0.5), (3, 0.2), (4, 0.05), (5, 0.01), (8, 0.4), (9, 0.1), (10, 0.03), (11, 0.5)] {
            set(column, f64::from(u8::from(random.random::<f64>() < share)));
        }
    }
    x
}

impl Drawn {
    /// The largest canonical correlation between the parties' columns.
    pub(crate) fn canonical(&self) -> f64 {
        let half = self.x.ncols() / 2;
        let basis = |first: usize| {
            let mut block = self.x.columns(first, half).into_owned();
            block.column_iter_mut().for_each(|mut column| column.add_scalar_mut(-column.mean()));
            block.qr().q()
        };
        basis(0).tr_mul(&basis(half)).singular_values().max()
    }

    /// A party's columns and the outcome, named as in a study of this design.
    ///
    /// # Errors
    /// A value that is not finite.
    pub(crate) fn frame(&self, role: Role) -> Result<Frame, DataError> {
        let place = |row: usize| Place::Row(row as u64 + 1);
        let mut places = Places::default();
        (0..self.y.len()).for_each(|row| places.push(place(row)));
        let column = |name: String, values: &mut dyn Iterator<Item = &f64>| {
            let mut builder = ColumnBuilder::new(name);
            values.enumerate().try_for_each(|(row, value)| builder.number(*value, place(row)))?;
            builder.finish()
        };
        let half = self.x.ncols() / 2;
        let first = if role == Role::Alice { 0 } else { half };
        let mut columns = names(role, half)
            .into_iter()
            .enumerate()
            .map(|(at, name)| column(name, &mut self.x.column(first + at).iter()))
            .collect::<Result<Vec<_>, DataError>>()?;
        columns.push(column("y".to_owned(), &mut self.y.iter())?);
        Frame::new(columns, None, places)
    }
}

/// The names of a party's columns.
pub(crate) fn names(role: Role, width: usize) -> Vec<String> {
    let letter = if role == Role::Alice { 'a' } else { 'b' };
    (0..width).map(|at| format!("{letter}{at}")).collect()
}
