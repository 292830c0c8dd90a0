//! Whether estimates grow without bound.
//!
//! A likelihood has no maximum where the loss does not rise along some combination of the columns, however far one goes:
//! a direction of recession. Iterations on such data run along one. So after every exchange the loss is followed along
//! the last step, and along the whole way from the start, to a distance at which every finite estimate worth the name
//! has turned. What is judged is the loss of the rows, in its own unit, and not the size of a predictor: that of a large
//! count is large, and probabilities can be as near to 0 and 1 as a finite estimate makes them.
//!
//! Before a fit may end, and when it takes long, a direction of recession is looked for among all combinations of own
//! columns and of what the partner has shown of its own ([`look`]). That search is exact: it finds one whenever there is one,
//! up to rounding. What a party cannot see is what its partner has not shown yet: a combination with columns of the partner
//! that no difference of its predictions has held is found once one has. The parties iterate until then, as without a
//! maximum there is no point at which both are at rest.
//!
//! # Reference
//! A. Albert and J. A. Anderson, "On the existence of maximum likelihood estimates in logistic regression models",
//! Biometrika 71 (1984); C. J. Geyer, "Likelihood inference in exponential families and directions of recession",
//! Electronic Journal of Statistics 3 (2009).

use std::ops::Range;

use nalgebra::{DMatrix, DVector};
use rayon::prelude::*;

use super::block::Block;
use super::subspace::Shown;
use crate::glm::Family;
use crate::linalg::kernels::dot;
use crate::linalg::{self, BLOCK_ROWS, Definite, SomeRows};

/// How far the loss is followed, in steps: an estimate that turns beyond could not be told from an infinite one.
const DISTANCE: f64 = 1e5;

/// By how much the loss may rise over the second half of the distance, times the mean weight of a row: a hundredth of a
/// unit of log-likelihood is what unfinished coefficients of other columns may make of zero.
const RISE: f64 = 1e-2;

/// A step that moves no row's linear predictor by as much is no growth.
const GROWTH: f64 = 1e-2;

/// The share of a combination's squares that rounding of inner products leaves on rows that it does not move.
const UNMOVED: f64 = 1e-11;

/// The share of its largest movement below which a combination does not move a row: the root of what rounding leaves.
const STILL_ROW: f64 = 1e-6;

/// How far, as a share of its length, a direction may point away from a row that it should not move back.
const BACK: f64 = 1e-9;

/// The share of all rows' sum that rounding leaves of a sum that is zero.
const NOTHING: f64 = 1e-11;

/// The least curvature that counts, as a share of what weights of 1 would give: below it residuals prove nothing.
const CURVATURE: f64 = 1e-6;

/// What is allowed for rounding of a sum of residuals, as a share of their length.
const SUMMED: f64 = 1e-10;

/// The predictions that steps are measured from.
#[derive(Debug, Clone, Default)]
pub(super) struct Growth {
    first: Option<Vec<f64>>,
    last: Option<Vec<f64>>,
    /// With how many of the partner's directions it is proved that there is no direction of recession. Directions are only added, or taken back for good.
    bounded_with: Option<usize>,
}

impl Growth {
    /// Looks at the point of the block's last pass: whether the estimates grow without bound from here.
    ///
    /// `offset_hidden` where the partner's predictions carry an offset that this side does not know: then the way begins
    /// at the first exchange, and else at zero coefficients.
    pub(super) fn unbounded(&mut self, block: &Block, offset_hidden: bool) -> bool {
        let now = block.predictors();
        let first = self.first.get_or_insert_with(|| match &block.outcome().offset {
            _ if offset_hidden => now.clone(),
            Some(offset) => offset.clone(),
            None => vec![0.0; now.len()],
        });
        let whole = flat(block, &now, first);
        let step = self.last.as_ref().is_some_and(|last| flat(block, &now, last));
        self.last = Some(now);
        whole || step
    }

    /// Whether some combination of own columns, or of own columns and of what the partner has shown, is a direction of recession
    /// ([`look`]).
    ///
    /// What is proved for a set of columns holds wherever the iteration stands, and for fewer columns as well.
    pub(super) fn exhausted(&mut self, block: &Block, intercept: bool, shown: Option<&Shown>) -> bool {
        let more: Vec<&[f64]> = shown.map_or(Vec::new(), |shown| shown.directions().collect());
        if self.bounded_with == Some(more.len()) {
            return false;
        }
        match look(block, intercept, &more) {
            Found::Bounded => {
                self.bounded_with = Some(more.len());
                false
            }
            Found::Direction => true,
            // Own columns by themselves too: beside what rounding left of the partner's directions they lose digits.
            Found::Nothing => !more.is_empty() && look(block, intercept, &[]) == Found::Direction,
        }
    }
}

/// What a look for a direction of recession ended with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    /// The residuals prove that there is none.
    Bounded,
    /// The search ended without one.
    Nothing,
    Direction,
}

/// Whether the loss stays flat from `now` on, in the direction that leads there from `before`.
fn flat(block: &Block, now: &[f64], before: &[f64]) -> bool {
    let outcome = block.outcome();
    let weight = |row: usize| outcome.weights.as_ref().map_or(1.0, |weights| weights[row]);
    let step = |row: usize| if weight(row) > 0.0 { now[row] - before[row] } else { 0.0 };
    let rows = (0..now.len()).into_par_iter().with_min_len(BLOCK_ROWS);
    let longest = rows.map(|row| step(row).abs()).reduce(|| 0.0, f64::max);
    if !(longest > GROWTH && longest.is_finite()) {
        return false;
    }
    let starts: Vec<usize> = (0..now.len()).step_by(BLOCK_ROWS).collect();
    let rises: Vec<f64> = starts
        .into_par_iter()
        .map(|start| {
            let rows = start..now.len().min(start + BLOCK_ROWS);
            let steps: Vec<f64> = rows.clone().map(step).collect();
            let at = |length: f64| {
                let eta: Vec<f64> = rows.clone().zip(&steps).map(|(row, step)| now[row] + length * step).collect();
                let (mut means, mut losses) = (vec![0.0; eta.len()], vec![0.0; eta.len()]);
                outcome.family.at_rows(&outcome.y[rows.clone()], &eta, &mut means, &mut losses);
                losses
            };
            let both = at(DISTANCE).into_iter().zip(at(0.5 * DISTANCE)).zip(&steps);
            let rise = |(((far, near), step), row): (((f64, f64), &f64), usize)| {
                if *step == 0.0 { 0.0 } else { weight(row) * (far - near) }
            };
            both.zip(rows).map(rise).sum()
        })
        .collect();
    // Not finite where a mean overflows on the way: the loss rises.
    rises.iter().sum::<f64>() <= RISE * block.weight_sum() / now.len() as f64
}

/// Looks for a combination of own columns, a constant where the model has one, and `more` columns that is a direction of
/// recession: it moves every row whose outcome is 0 or 1 (a count: 0) towards that outcome or not at all, and no other row.
/// The estimates then grow without bound, also where gradient and steps have become so small that rounding has stopped them.
///
/// Which directions there are follows from the outcomes and the columns alone, wherever the iteration stands, and one is found
/// whenever there is one ([`Moves::recession`]), up to rounding. The loss along it is followed as well, so that nothing is named that is
/// not so. Where the residuals prove at once that there is none ([`bounded`]), nothing is searched: a search sweeps over the rows
/// about as many times as there are columns.
fn look(block: &Block, intercept: bool, more: &[&[f64]]) -> Found {
    let outcome = block.outcome();
    let rows = block.rows();
    let prior = |row: usize| outcome.weights.as_ref().map_or(1.0, |weights| weights[row]);
    let side = |row: usize| if prior(row) > 0.0 { side(outcome.family, outcome.y[row]) } else { None };
    let sided: Vec<(usize, f64)> = (0..rows).filter_map(|row| Some((row, side(row)?))).collect();
    if sided.is_empty() {
        return Found::Bounded;
    }
    let constant = vec![1.0; if intercept && !block.has_intercept() { rows } else { 0 }];
    let mut columns: Vec<&[f64]> = (0..block.columns()).map(|j| block.column(j)).collect();
    if !constant.is_empty() {
        columns.push(&constant);
    }
    columns.extend(more);
    let all = gram_with(block, &columns[block.columns()..]);
    let Some((metric, kept)) = Definite::from_gram_limited(&all) else { return Found::Bounded };
    let columns: Vec<&[f64]> = kept.iter().map(|k| columns[*k]).collect();
    let lightest = sided.iter().map(|(row, _)| prior(*row)).fold(f64::INFINITY, f64::min);
    if bounded(&block.residuals(), &columns, &metric, lightest) {
        return Found::Bounded;
    }
    // Coordinates in which all rows together have unit squares, and of them combinations that leave the other rows alone.
    let mut basis = metric.inverse_factor();
    if (0..rows).any(|row| prior(row) > 0.0 && side(row).is_none()) {
        let rest = gram(&columns, &|row| if side(row).is_none() { prior(row) } else { 0.0 });
        let whitened = basis.transpose() * rest * &basis;
        let eigen = ((&whitened + whitened.transpose()) * 0.5).symmetric_eigen();
        let alone: Vec<usize> = (0..kept.len()).filter(|j| eigen.eigenvalues[*j] <= UNMOVED).collect();
        basis *= eigen.eigenvectors.select_columns(&alone);
    }
    if basis.ncols() == 0 {
        return Found::Nothing;
    }
    let moves = Moves::new(&sided, &columns, &basis);
    let Some(direction) = moves.recession() else { return Found::Nothing };
    let combination = &basis * direction;
    let mut step = vec![0.0; rows];
    for (column, share) in columns.iter().zip(combination.iter()) {
        step.iter_mut().zip(*column).for_each(|(step, x)| *step += share * x);
    }
    let longest = (0..rows).filter(|row| prior(*row) > 0.0).fold(0.0_f64, |most, row| most.max(step[row].abs()));
    if !(longest > 0.0 && longest.is_finite()) {
        return Found::Nothing;
    }
    // All rows take part, so that a combination that is rounding of dependent columns is found out.
    let now = block.predictors();
    let moved = |step: &f64| if (step / longest).abs() > STILL_ROW { step / longest } else { 0.0 };
    let before: Vec<f64> = now.iter().zip(&step).map(|(now, step)| now - moved(step)).collect();
    if flat(block, &now, &before) { Found::Direction } else { Found::Nothing }
}

/// The Gram matrix of a block's columns and further ones behind them, under the prior weights.
fn gram_with(block: &Block, further: &[&[f64]]) -> DMatrix<f64> {
    let (own, size) = (block.columns(), block.columns() + further.len());
    let mut all = block.gram().clone().resize(size, size, 0.0);
    for (at, column) in further.iter().enumerate() {
        let mut weighted = column.to_vec();
        if let Some(weights) = &block.outcome().weights {
            weighted.par_iter_mut().zip(weights).for_each(|(value, weight)| *value *= weight);
        }
        let others = further[..=at].par_iter().map(|other| dot(other, &weighted));
        let products = block.products(&weighted).into_iter().chain(others.collect::<Vec<f64>>());
        for (other, product) in products.enumerate() {
            (all[(other, own + at)], all[(own + at, other)]) = (product, product);
        }
    }
    all
}

/// The Gram matrix of columns with weights of the rows.
fn gram(columns: &[&[f64]], weight: &(dyn Fn(usize) -> f64 + Sync)) -> DMatrix<f64> {
    let rows = columns.first().map_or(0, |column| column.len());
    let roots: Vec<f64> = (0..rows).into_par_iter().with_min_len(BLOCK_ROWS).map(|row| weight(row).sqrt()).collect();
    linalg::packed_gram(rows, columns.len(), |rows, packed| {
        for column in columns {
            packed.extend(column[rows.clone()].iter().zip(&roots[rows.clone()]).map(|(x, root)| root * x));
        }
    })
}

/// Whether residuals prove that no combination of the columns is a direction of recession.
///
/// Let `d` be one, of length 1 in the metric `sum p_i (x_i'd)^2` of the prior weights `p_i`, and `r_i` the weighted residuals at any point.
/// A row that has a side moves towards it by `m_i >= 0` and its residual has the sign of that side; every other row has `x_i'd = 0`. So
/// `d'X'r = sum |r_i| m_i`. No row moves by more than `h = 1 / sqrt(least p_i)`, hence `sum |r_i| m_i >= sum |r_i| m_i^2 / h >= e / h` with `e`
/// the least eigenvalue of `X'|R|X` in that metric. There is none where `|X'r|` in the metric's dual norm is less than `e / h`, which holds
/// near every finite estimate. Half of it is kept for rounding, and a row that moves back by [`BACK`] counts as one that does not.
///
/// Fewer rows in `|R|` make `e` no larger: of many rows some are tried first.
fn bounded(residuals: &[f64], columns: &[&[f64]], metric: &Definite, lightest: f64) -> bool {
    let inverse_factor = metric.inverse_factor();
    let least = |sizes: DMatrix<f64>| {
        let whitened = inverse_factor.transpose() * sizes * &inverse_factor;
        ((&whitened + whitened.transpose()) * 0.5).symmetric_eigenvalues().min()
    };
    let score: Vec<f64> = columns.par_iter().map(|column| dot(column, residuals)).collect();
    let score = inverse_factor.tr_mul(&DVector::from_vec(score)).norm();
    let (length, sum) = residuals.iter().fold((0.0, 0.0), |(squares, sum), r| (squares + r * r, sum + r.abs()));
    let longest = 1.0 / lightest.sqrt();
    let rounding = SUMMED * f64::sqrt(length) * longest + BACK * sum * longest;
    // Not so where anything is not finite.
    let proves = |least: f64| least >= CURVATURE && least >= 2.0 * longest * (score + rounding);
    let by_some = |some: SomeRows| {
        let of = |rows: &Range<usize>| residuals[rows.clone()].iter().map(|residual| residual.abs()).collect();
        let sizes: Vec<Vec<f64>> = some.pieces().iter().map(of).collect();
        proves(least(some.products(columns.len(), |j| columns[j], &sizes)))
    };
    SomeRows::of(residuals.len(), columns.len()).is_some_and(by_some)
        || proves(least(gram(columns, &|row| residuals[row].abs())))
}

/// In which direction a row's predictor may go for ever: towards an outcome of which it says the most that can be said.
fn side(family: Family, y: f64) -> Option<f64> {
    match family {
        Family::Binomial if y >= 1.0 => Some(1.0),
        Family::Binomial | Family::Poisson if y <= 0.0 => Some(-1.0),
        Family::Binomial | Family::Poisson | Family::Gaussian => None,
    }
}

/// How combinations move the rows that have a side, towards it: row by row a vector of unit length in the coordinates of
/// `basis`. Nothing of the size of the block is kept.
struct Moves<'a> {
    /// Rows with their sides.
    sided: &'a [(usize, f64)],
    columns: &'a [&'a [f64]],
    basis: &'a DMatrix<f64>,
    /// What makes a row of unit length, with the sign of its side; zero for a row that no combination moves.
    scales: Vec<f64>,
}

impl<'a> Moves<'a> {
    fn new(sided: &'a [(usize, f64)], columns: &'a [&'a [f64]], basis: &'a DMatrix<f64>) -> Moves<'a> {
        let mut moves = Moves { sided, columns, basis, scales: vec![1.0; sided.len()] };
        let mut squares = vec![0.0; sided.len()];
        for coordinate in basis.column_iter() {
            let along = moves.along_columns(coordinate.as_slice());
            squares.iter_mut().zip(along).for_each(|(squares, along)| *squares += along * along);
        }
        let longest = squares.iter().copied().fold(0.0, f64::max).sqrt();
        let scale = |((_, side), square): (&(usize, f64), &f64)| {
            let length = square.sqrt();
            if length > STILL_ROW * longest { side / length } else { 0.0 }
        };
        moves.scales = sided.iter().zip(&squares).map(scale).collect();
        moves
    }

    /// How far a combination of the columns moves each row.
    fn along_columns(&self, shares: &[f64]) -> Vec<f64> {
        let mut found = vec![0.0; self.sided.len()];
        found.par_chunks_mut(BLOCK_ROWS).enumerate().for_each(|(at, found)| {
            let from = at * BLOCK_ROWS;
            let (sided, scales) = (&self.sided[from..], &self.scales[from..]);
            for (column, share) in self.columns.iter().zip(shares) {
                found.iter_mut().zip(sided).for_each(|(found, (row, _))| *found += share * column[*row]);
            }
            found.iter_mut().zip(scales).for_each(|(found, scale)| *found *= scale);
        });
        found
    }

    fn along(&self, direction: &DVector<f64>) -> Vec<f64> {
        self.along_columns((self.basis * direction).as_slice())
    }

    fn row(&self, at: usize) -> DVector<f64> {
        let (row, _) = self.sided[at];
        let values = DVector::from_iterator(self.columns.len(), self.columns.iter().map(|column| column[row]));
        self.basis.tr_mul(&values) * self.scales[at]
    }

    fn sum(&self) -> DVector<f64> {
        let of =
            |column: &&[f64]| self.sided.iter().zip(&self.scales).map(|((row, _), scale)| scale * column[*row]).sum();
        self.basis.tr_mul(&DVector::from_vec(self.columns.par_iter().map(of).collect()))
    }

    /// A direction that no row points away from and that some row points along, or none where there is no such one.
    ///
    /// Of all sums of the rows with weights of at least 1 it is the shortest, `r = sum (1 + w_i) a_i` with `w >= 0`: at the
    /// minimum `a_i'r >= 0` for every row, with equality where `w_i > 0`, so that `sum a_i'r = |r|^2`. If it is zero, the rows
    /// have a sum of zero with positive weights, and then none points along a direction that none points away from. The minimum
    /// is found in finitely many steps, each over at most as many rows as there are coordinates.
    ///
    /// # Reference
    /// C. L. Lawson and R. J. Hanson, "Solving Least Squares Problems" (1974), chapter 23; E. Stiemke, Mathematische Annalen 76
    /// (1915), for the alternative.
    fn recession(&self) -> Option<DVector<f64>> {
        let (all, most) = (self.sum(), self.basis.ncols());
        let mut weights: Vec<(usize, f64)> = Vec::new();
        let mut shortest = all.clone();
        // As a rule one step a coordinate and some more for rows that leave again; what is found in time is judged by its loss.
        for _ in 0..10 * most + 20 {
            if !(shortest.norm() > NOTHING * self.sided.len() as f64) {
                return None;
            }
            let along = self.along(&shortest);
            let behind = (0..along.len()).min_by(|left, right| along[*left].total_cmp(&along[*right]))?;
            if !(along[behind] < -BACK * shortest.norm()) || weights.iter().any(|(known, _)| *known == behind) {
                break;
            }
            if weights.len() == most {
                // As many rows as coordinates leave nothing but rounding.
                return None;
            }
            weights.push((behind, 0.0));
            shortest = self.shorten(&all, &mut weights)?;
        }
        Some(shortest)
    }

    /// The shortest sum over the weights of these rows alone; rows whose weight it would make negative leave, the first of them
    /// first.
    fn shorten(&self, all: &DVector<f64>, weights: &mut Vec<(usize, f64)>) -> Option<DVector<f64>> {
        while !weights.is_empty() {
            let rows: Vec<DVector<f64>> = weights.iter().map(|(at, _)| self.row(*at)).collect();
            let factors = DMatrix::from_columns(&rows).qr();
            let q = factors.q();
            let solved = factors.r().solve_upper_triangular(&-q.tr_mul(all))?;
            if solved.iter().all(|new| *new > 0.0) {
                weights.iter_mut().zip(solved.iter()).for_each(|((_, weight), new)| *weight = *new);
                // Twice: the second time takes out what rounding left the first time.
                let once = all - &q * q.tr_mul(all);
                return Some(&once - &q * q.tr_mul(&once));
            }
            let negative = weights.iter().zip(solved.iter()).filter(|(_, new)| **new <= 0.0);
            let share = negative.map(|((_, old), new)| old / (old - new)).fold(1.0, f64::min).max(0.0);
            weights.iter_mut().zip(solved.iter()).for_each(|((_, old), new)| *old += share * (new - *old));
            let smallest = weights.iter().map(|(_, weight)| *weight).fold(f64::INFINITY, f64::min).max(0.0);
            weights.retain(|(_, weight)| *weight > smallest);
        }
        Some(all.clone())
    }
}

#[cfg(test)]
mod tests;
