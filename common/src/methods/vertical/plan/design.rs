//! What error to expect of a run, from public facts and a design that somebody assumes. No data are involved.

use nalgebra::{DMatrix, DVector, SymmetricEigen};

use super::Plan;
use crate::privacy::accountant::normal_tail;
use crate::privacy::bounds::RowBounds;

/// Mean square of a row without its intercept, where nothing is declared; 1 is the square of its norm bound.
pub(crate) const MEAN_SQUARE: f64 = 0.25;

/// Standard deviation that each party's columns add to the outcome, in half ranges, where nothing is declared.
const SIGNAL: f64 = 0.3;

/// Assumed coefficients: half ranges of the outcome per public scale of a column, which is half its range where it has one.
#[derive(Debug, Clone, PartialEq)]
pub enum Coefficients {
    /// Equal in size within a party and of random sign: a party's columns, were they uncorrelated, would add a signal of this
    /// standard deviation to the outcome, in half ranges.
    Signal(f64),
    /// All of this size, each of random sign.
    Size(f64),
    /// Of these values, in the order of the parties, without the intercept.
    Each(Vec<f64>),
}

impl Default for Coefficients {
    fn default() -> Self {
        Coefficients::Signal(SIGNAL)
    }
}

/// A design that errors are predicted for: an assumption.
///
/// Columns are centred where their bounds say and have equal mean squares within a party, any two have the same correlation, and
/// the outcome is centred in its range.
#[derive(Debug, Clone, PartialEq)]
pub struct Design {
    /// `E x x'` of the joined unit rows, in the order of the parties.
    moments: DMatrix<f64>,
    /// A root `C` of the coefficients' second moments, `E b b' = C C'`: one column where they are known, one for each of them where
    /// their signs are independent. All that is predicted is linear in `b` or a square of it, so the mean over all signs is exact.
    coefficients: DMatrix<f64>,
    /// What turns coefficients of unit rows into those of scaled columns, in which lengths are taken; zero for the intercept.
    weights: DVector<f64>,
    /// Mean of the outcome of a binomial or poisson model, the latter as a share of the largest count; none where it is not
    /// declared.
    outcome_mean: Option<f64>,
}

impl Design {
    /// The design of rows with these bounds, in the order of the parties. `mean_square` is that of a row without its intercept, as a share
    /// of the square of its norm bound.
    pub fn new(bounds: &[&RowBounds], correlation: f64, mean_square: f64, coefficients: &Coefficients) -> Design {
        // Per entry: root mean square, factor from unit rows to scaled columns, size of the coefficient of the scaled column.
        let mut entries: Vec<(f64, f64, f64)> = Vec::new();
        let mut constant = Vec::new();
        let mut each = match coefficients {
            Coefficients::Each(values) => values.as_slice(),
            Coefficients::Signal(_) | Coefficients::Size(_) => &[],
        }
        .iter();
        for rows in bounds {
            let rest = rows.intercept().map_or(1.0, |share| (1.0 - share * share).sqrt());
            if let Some(share) = rows.intercept() {
                constant.push(entries.len());
                entries.push((share, 0.0, 0.0));
            }
            for _ in rows.names() {
                let size = match coefficients {
                    Coefficients::Signal(signal) => signal / (mean_square.sqrt() * rows.radius()),
                    Coefficients::Size(size) => *size,
                    Coefficients::Each(_) => each.next().copied().unwrap_or(0.0),
                };
                let spread = (mean_square / rows.names().len() as f64).sqrt() * rest;
                entries.push((spread, rest / rows.radius(), size));
            }
        }
        let width = entries.len();
        let moments = DMatrix::from_fn(width, width, |row, column| {
            let together = if row == column {
                1.0
            } else if constant.contains(&row) || constant.contains(&column) {
                0.0
            } else {
                correlation
            };
            entries[row].0 * entries[column].0 * together
        });
        let unit = |entry: usize| {
            let (_, weight, size) = entries[entry];
            if weight > 0.0 { size / weight } else { 0.0 }
        };
        let coefficients = match coefficients {
            Coefficients::Each(_) => DMatrix::from_fn(width, 1, |entry, _| unit(entry)),
            Coefficients::Signal(_) | Coefficients::Size(_) => {
                DMatrix::from_diagonal(&DVector::from_fn(width, |entry, _| unit(entry)))
            }
        };
        let weights = DVector::from_iterator(width, entries.iter().map(|entry| entry.1));
        Design { moments, coefficients, weights, outcome_mean: None }
    }

    /// With the declared mean of the outcome.
    #[must_use]
    pub fn with_outcome_mean(self, outcome_mean: Option<f64>) -> Design {
        Design { outcome_mean, ..self }
    }
}

impl Design {
    pub(super) fn outcome_mean(&self) -> Option<f64> {
        self.outcome_mean
    }

    pub(super) fn moments(&self) -> &DMatrix<f64> {
        &self.moments
    }

    pub(super) fn coefficients(&self) -> &DMatrix<f64> {
        &self.coefficients
    }

    pub(super) fn weights(&self) -> &DVector<f64> {
        &self.weights
    }
}

/// What to expect of a run, from public facts and an assumed design. Coefficients are those of scaled columns; intercepts are left
/// out.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// Root of the expected squared distance of the slopes from the pooled ones, relative to their length.
    pub relative_error: f64,
    /// The same distance when nothing is exchanged and each party fits its own columns without noise.
    pub alone_error: f64,
    /// Expected distance of each coefficient that unfinished rounds, the cut and the ridge cause, and that no standard error shows;
    /// the root of its mean square over random signs.
    pub bias: DVector<f64>,
    /// Standard deviation of each coefficient under the noise.
    pub noise: DVector<f64>,
}

impl Prediction {
    /// Whether exchanging nothing is expected to be at least as good.
    pub fn better_alone(&self) -> bool {
        self.alone_error <= self.relative_error
    }

    /// The largest bias of a coefficient, in standard deviations of its noise.
    pub fn bias_to_noise(&self) -> f64 {
        let ratio = |(bias, noise): (&f64, &f64)| if *noise > 0.0 { bias / noise } else { 0.0 };
        self.bias.iter().zip(&self.noise).map(ratio).fold(0.0, f64::max)
    }

    /// Whether some coefficient's bias is above a quarter of its noise, so that intervals miss the pooled coefficient
    /// more often than they say.
    pub fn biased(&self) -> bool {
        self.bias_to_noise() > 0.25
    }
}

/// A design as both parties have it.
struct Parts {
    /// Of each party's own columns.
    tables: [DMatrix<f64>; 2],
    /// Of each party's columns with the other's.
    crosses: [DMatrix<f64>; 2],
    /// Of each party's columns with the outcome.
    targets: [DMatrix<f64>; 2],
    own: [DMatrix<f64>; 2],
}

impl Parts {
    fn new(design: &Design, [first, second]: [usize; 2]) -> Parts {
        let (moments, beta) = (&design.moments, &design.coefficients);
        let total = moments * beta;
        let block = |row, rows, column, columns| moments.view((row, column), (rows, columns)).into_owned();
        Parts {
            tables: [block(0, first, 0, first), block(first, second, first, second)],
            crosses: [block(0, first, first, second), block(first, second, 0, first)],
            targets: [total.rows(0, first).into_owned(), total.rows(first, second).into_owned()],
            own: [beta.rows(0, first).into_owned(), beta.rows(first, second).into_owned()],
        }
    }
}

/// Follows expectation and noise of both sides through the rounds, to first order and in expectation over the design.
/// The clip of a message with standard deviation `s` is replaced by its regression slope `P(|N(0, s^2)| < C)`.
pub(super) fn predict(plan: &Plan, design: &Design) -> Prediction {
    let setup = &plan.setup;
    let (first, second) = (setup.alice_width, setup.bob_width);
    let width = first + second;
    let beta = &design.coefficients;
    let Parts { tables, crosses, targets, own } = Parts::new(design, [first, second]);
    let rows = setup.rows as f64;
    let sides = [&plan.alice, &plan.bob];
    let inverses = [0, 1].map(|me: usize| {
        // The noise of the table moves its smallest eigenvalue down by about the floor.
        let smallest = SymmetricEigen::new(tables[me].clone()).eigenvalues.min() * rows - sides[me].floor();
        inverted(&tables[me], (sides[me].floor() - smallest).max(setup.ridge) / rows)
    });

    let mut means = [DMatrix::zeros(first, beta.ncols()), DMatrix::zeros(second, beta.ncols())];
    let mut covariances = [DMatrix::zeros(first, first), DMatrix::zeros(second, second)];
    let mut solve = |me: usize, received: bool| {
        let other = 1 - me;
        let (mut right, mut inner) = (targets[me].clone(), DMatrix::zeros(tables[me].nrows(), tables[me].nrows()));
        let own = sides[me];
        let score = if received { own.score_sigma } else { own.first_sigma };
        if received {
            let moved: DMatrix<f64> = &means[other] * means[other].transpose() + &covariances[other];
            let spread = tables[other].dot(&moved).max(0.0).sqrt();
            let kept = if spread > 0.0 { 1.0 - 2.0 * normal_tail(setup.message_bound / spread) } else { 1.0 };
            right -= &crosses[me] * &means[other] * kept;
            let carried = &crosses[me] * kept;
            inner += &carried * &covariances[other] * carried.transpose() * (rows * rows);
            inner += &tables[me] * (rows * sides[other].message_sigma.powi(2));
        }
        let mean: DMatrix<f64> = &inverses[me] * right;
        let squares: DMatrix<f64> = &mean * mean.transpose();
        let table = 0.5 * own.table_sigma.powi(2);
        inner += DMatrix::identity(own.width, own.width) * (score * score + table * squares.trace());
        inner += squares * table;
        let covariance = &inverses[me] * inner * &inverses[me] / (rows * rows);
        let step = (&mean - &means[me]).norm() + (&covariance - &covariances[me]).norm();
        let size = mean.norm() + covariance.norm();
        means[me] = mean;
        covariances[me] = covariance;
        step > 1e-13 * size
    };
    solve(0, false);
    for _ in 0..setup.rounds {
        // Once a round moves nothing, no later one does.
        if !(solve(1, true) | solve(0, true)) {
            break;
        }
    }

    let stacked = |parts: &[DVector<f64>; 2]| {
        let joined = DVector::from_iterator(width, parts.iter().flat_map(|part| part.iter().copied()));
        joined.component_mul(&design.weights.component_mul(&design.weights)).map(|square| square.max(0.0))
    };
    let bias = stacked(&[0, 1].map(|me: usize| row_squares(&(&means[me] - &own[me]))));
    let noise = stacked(&covariances.each_ref().map(|covariance| covariance.diagonal()));
    let length = stacked(&own.each_ref().map(row_squares)).sum().sqrt();
    Prediction {
        relative_error: (bias.sum() + noise.sum()).sqrt() / length,
        alone_error: alone(design, &[first, second], rows, setup.ridge)
            .component_mul(&design.weights.component_mul(&design.weights))
            .map(|square| square.max(0.0))
            .sum()
            .sqrt()
            / length,
        bias: bias.map(f64::sqrt),
        noise: noise.map(f64::sqrt),
    }
}

/// Squared distance of each coefficient from the pooled one where each party fits its own columns without noise.
pub(super) fn alone(design: &Design, widths: &[usize], rows: f64, ridge: f64) -> DVector<f64> {
    let (moments, beta) = (&design.moments, &design.coefficients);
    let targets = moments * beta;
    let mut squares = DVector::zeros(moments.nrows());
    let mut begin = 0;
    for &width in widths {
        let of = |entry: &usize| (begin..begin + width).contains(entry);
        let (own, others): (Vec<usize>, Vec<usize>) = (0..moments.nrows()).partition(of);
        let table = |rows: &[usize], columns: &[usize]| moments.select_rows(rows).select_columns(columns);
        let inverse = inverted(&table(&own, &own), ridge / rows);
        let missed = row_squares(&(&inverse * targets.select_rows(&own) - beta.select_rows(&own)));
        // What the others' columns add, as far as it goes along with the own ones by the design, and this rest by the sampling error of
        // this number of rows.
        let known = table(&others, &own) * &inverse * table(&own, &others);
        let of_others = beta.select_rows(&others);
        let unknown = (of_others.transpose() * (table(&others, &others) - known) * &of_others).trace().max(0.0);
        squares.rows_mut(begin, width).copy_from(&(missed + inverse.diagonal() * (unknown / rows)));
        begin += width;
    }
    squares
}

/// The inverse of a table with this much on its diagonal, or zeros where there is none.
fn inverted(table: &DMatrix<f64>, shift: f64) -> DMatrix<f64> {
    let shifted = table + DMatrix::identity(table.nrows(), table.nrows()) * shift;
    shifted.try_inverse().unwrap_or_else(|| DMatrix::zeros(table.nrows(), table.nrows()))
}

pub(super) fn row_squares(matrix: &DMatrix<f64>) -> DVector<f64> {
    DVector::from_iterator(matrix.nrows(), matrix.row_iter().map(|row| row.norm_squared()))
}
