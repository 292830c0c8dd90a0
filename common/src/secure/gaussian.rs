//! A gaussian fit from one opened table.
//!
//! With orthonormal bases `Q_a`, `Q_b` of the parties' columns, `e` the direction that Alice's columns leave of the outcome,
//! `C = Q_a' Q_b / n` and `d = e' Q_b / n` from the table: `gamma_b = |e| (I - C'C)^-1 d`, `gamma_a = Q_a'y / n - C gamma_b`, and a
//! party's coefficients are `R_k^-1 gamma_k`. The covariance is that of `[I C; C' I]^-1 / n`, mapped by the factors. Factors and
//! coefficients need not leave their owner.

use nalgebra::{DMatrix, DVector};

use super::basis::OwnOutcome;
use crate::linalg::Definite;

// Of several parties the first is Alice, and all others together are Bob: his basis is then orthonormal block by block, and what the
// blocks have in common opens too. In place of `I` their table stands, `I - C'C` becomes what Alice's columns leave of it, and the
// rest follows as it stands above.

/// A direction of Bob's columns counts as one of Alice's when this much or less of its square is left beside them.
const ACROSS: f64 = 1e-10;

/// The same for columns in fixed point with some bits: their rounding leaves something of a direction that vanishes. An entry of `C` is off
/// by `2^-bits / sqrt(6 n)`, as a standard deviation, an eigenvalue of `I - C'C` by twice as much; this is 20 of these.
pub fn across(bits: u32, rows: usize) -> f64 {
    ACROSS.max(16.0 * 2f64.powi(-(bits as i32)) / (rows as f64).sqrt())
}

/// How far rounding may take an entry of a table from what columns can have.
const ROUNDED: f64 = 1e-6;

/// What the leader knows once the table is open.
#[derive(Clone)]
pub struct Table {
    /// `C`, `p_a x p_b`.
    cross: DMatrix<f64>,
    /// `d`.
    along: DVector<f64>,
    /// `Q_b' Q_b / n`: the identity of one party.
    inner: DMatrix<f64>,
    /// Columns of each of the parties that together are Bob.
    blocks: Vec<usize>,
    /// What counts as nothing beside Alice's columns, see [`across`].
    across: f64,
}

/// Bob's columns that depend on Alice's, and how the others read in his basis.
#[derive(Clone, PartialEq)]
pub struct Reduction {
    /// Positions of the columns that become `NA`, in order.
    pub dropped: Vec<usize>,
    /// `p_b x k`, orthonormal columns: a basis of the columns that stay, in coordinates of Bob's basis. The table in the new basis is
    /// the old one times this, so that nothing is masked twice.
    pub map: DMatrix<f64>,
}

/// The joint fit in the coordinates of both bases, and in the outcome's unit.
#[derive(Clone)]
pub struct Solution {
    /// Alice's part.
    pub alice: Part,
    /// Bob's part.
    pub bob: Part,
    /// `p_a x k_b`: the covariance between both parts, divided by the dispersion and multiplied by the sum of the weights.
    pub across: DMatrix<f64>,
    /// Weighted mean square of the residuals.
    pub residual: f64,
}

/// One party's part of the joint fit.
#[derive(Clone, PartialEq)]
pub struct Part {
    /// Coordinates of its linear predictor in its basis.
    pub gamma: DVector<f64>,
    /// Their covariance, divided by the dispersion and multiplied by the sum of the weights.
    pub covariance: DMatrix<f64>,
}

impl Table {
    /// Columns of Alice's block.
    pub fn left(&self) -> usize {
        self.cross.nrows()
    }

    /// From the opened table, `(p_a + 1) x p_b`, the outcome's direction last, with what counts as nothing beside Alice's columns.
    pub fn new(opened: &DMatrix<f64>, across: f64) -> Option<Table> {
        let left = opened.nrows().checked_sub(1)?;
        let (cross, along) = (opened.rows(0, left).into_owned(), opened.row(left).transpose());
        let right = opened.ncols();
        Some(Table { cross, along, inner: DMatrix::identity(right, right), blocks: vec![right], across })
    }

    /// Of several parties, from their tables in the order of all pairs; the outcome's direction stands last among the first party's
    /// columns. None where the tables do not fit together.
    pub fn of_several(opened: &[DMatrix<f64>], across: f64) -> Option<Table> {
        let parties = (2..=opened.len() + 1).find(|parties| parties * (parties - 1) / 2 == opened.len())?;
        let blocks: Vec<usize> = opened.iter().take(parties - 1).map(DMatrix::ncols).collect();
        let (right, all) = (blocks.iter().sum::<usize>(), opened.first()?.nrows());
        let at = |block: usize| blocks[..block].iter().sum::<usize>();
        let (mut first, mut inner) = (DMatrix::zeros(all, right), DMatrix::identity(right, right));
        for ((i, j), table) in super::product::pairs(parties).zip(opened) {
            let height = if i == 0 { all } else { blocks[i - 1] };
            if table.shape() != (height, blocks[j - 1]) {
                return None;
            }
            if i == 0 {
                first.view_mut((0, at(j - 1)), table.shape()).copy_from(table);
            } else {
                inner.view_mut((at(i - 1), at(j - 1)), table.shape()).copy_from(table);
                inner.view_mut((at(j - 1), at(i - 1)), (table.ncols(), table.nrows())).copy_from(&table.transpose());
            }
        }
        Some(Table { inner, blocks, ..Table::new(&first, across)? })
    }

    /// Columns of each of the parties that together are Bob, in order.
    pub fn blocks(&self) -> &[usize] {
        &self.blocks
    }

    /// Where the columns of one of them stand among Bob's.
    pub fn block(&self, at: usize) -> std::ops::Range<usize> {
        let begin = self.blocks[..at].iter().sum();
        begin..begin + self.blocks[at]
    }

    /// What the columns of Alice and of the parties before it leave of the columns of one of them; none where those depend on each
    /// other themselves.
    pub fn left_of(&self, at: usize) -> Option<DMatrix<f64>> {
        let left_over = self.left_over();
        let block = self.block(at);
        let (begin, size) = (block.start, block.len());
        let own = left_over.view((begin, begin), (size, size)).into_owned();
        if begin == 0 {
            return Some(own);
        }
        let earlier = Definite::from_gram(&left_over.view((0, 0), (begin, begin)).into_owned())?;
        let mut along = left_over.view((0, begin), (begin, size)).into_owned();
        if !earlier.factor().tr_solve_upper_triangular_mut(&mut along) {
            return None;
        }
        Some(own - along.tr_mul(&along))
    }

    /// Whether columns of one of the parties depend on Alice's and on those of the parties before it.
    pub fn depends(&self, at: usize) -> bool {
        self.left_of(at).is_none_or(|left_of| vanishes(&left_of, self.across))
    }

    /// `C`, `p_a x p_b`.
    pub(crate) fn cross(&self) -> &DMatrix<f64> {
        &self.cross
    }

    /// `d`: the outcome's direction beside Alice's columns, in Bob's coordinates.
    pub(crate) fn along(&self) -> &DVector<f64> {
        &self.along
    }

    /// `Q_b' Q_b / n`, the identity of one party.
    pub(crate) fn inner(&self) -> &DMatrix<f64> {
        &self.inner
    }

    /// What counts as nothing beside Alice's columns, as a share of a column's square.
    pub(crate) fn nothing_across(&self) -> f64 {
        self.across
    }

    /// `I - C'C`: what Alice's columns leave of Bob's, `p_b x p_b`. Goes to Bob only where a direction vanishes.
    pub fn left_over(&self) -> DMatrix<f64> {
        &self.inner - self.cross.tr_mul(&self.cross)
    }

    /// `Q_b' y / n`, of the outcome in Alice's basis.
    pub fn outcome(&self, outcome: &OwnOutcome) -> DVector<f64> {
        self.cross.tr_mul(&outcome.along) + &self.along * outcome.rest
    }

    /// The table of `1, Q_a, Q_b` and the outcome's mean products with these, for columns and an outcome that were centred.
    pub fn joint(&self, outcome: &OwnOutcome) -> (DMatrix<f64>, DVector<f64>) {
        let (left, right) = self.cross.shape();
        let mut joint = DMatrix::identity(1 + left + right, 1 + left + right);
        joint.view_mut((1, 1 + left), (left, right)).copy_from(&self.cross);
        joint.view_mut((1 + left, 1 + left), (right, right)).copy_from(&self.inner);
        joint.view_mut((1 + left, 1), (right, left)).copy_from(&self.cross.transpose());
        let of_bob = self.outcome(outcome);
        let score = std::iter::once(&outcome.centre).chain(outcome.along.iter()).chain(of_bob.iter());
        let score = DVector::from_iterator(1 + left + right, score.copied());
        (joint, score)
    }

    /// What Alice's columns and the outcome's own direction hold of Bob's, `C'C + d d'`.
    pub fn held(&self) -> DMatrix<f64> {
        self.cross.tr_mul(&self.cross) + &self.along * self.along.transpose()
    }

    /// R squared of Alice's first column on Bob's columns, and on the outcome where he holds it.
    pub fn only(&self, outcome: &OwnOutcome, held: bool) -> f64 {
        let column = self.cross.row(0).transpose();
        let (own, across) = (outcome.along[0], self.outcome(outcome));
        let share = column.norm_squared();
        // What Bob's columns leave of the outcome, and its product with the column.
        let (rest, along) = (outcome.square - across.norm_squared(), own - across.dot(&column));
        let more = if held && rest > 1e-12 * outcome.square { along * along / rest } else { 0.0 };
        (share + more).clamp(0.0, 1.0)
    }

    /// Whether columns of Bob depend on columns of Alice; of several parties, on those of the parties before their own.
    pub fn dependent(&self) -> bool {
        (0..self.blocks.len()).any(|at| self.depends(at))
    }

    /// The table for the columns that stay.
    pub fn reduce(&self, reduction: &Reduction) -> Option<Table> {
        let fits = reduction.map.nrows() == self.cross.ncols();
        let stay = |at: usize| self.block(at).filter(|column| !reduction.dropped.contains(column)).count();
        let reduced = || Table {
            cross: &self.cross * &reduction.map,
            along: reduction.map.tr_mul(&self.along),
            inner: reduction.map.tr_mul(&self.inner) * &reduction.map,
            blocks: (0..self.blocks.len()).map(stay).collect(),
            across: self.across,
        };
        fits.then(reduced)
    }

    /// The joint fit; none where columns depend on each other.
    pub fn solve(&self, outcome: &OwnOutcome) -> Option<Solution> {
        if outcome.along.len() != self.cross.nrows() {
            return None;
        }
        let (bob, residual) = self.solve_for_bob(outcome.rest)?;
        let gamma_a = &outcome.along - &self.cross * &bob.gamma;
        let across = -&self.cross * &bob.covariance;
        let size = self.cross.nrows();
        let own = DMatrix::identity(size, size) - &across * self.cross.transpose();
        Some(Solution { alice: Part { gamma: gamma_a, covariance: own }, bob, across, residual })
    }

    /// Bob's part of it and the mean square of the residuals, which take no more of the outcome than the root mean square of what Alice's
    /// columns leave of it; none where columns depend on each other.
    pub fn solve_for_bob(&self, rest: f64) -> Option<(Part, f64)> {
        if self.dependent() {
            return None;
        }
        let left = Definite::from_gram(&self.left_over())?;
        let gamma = left.solve(&self.along) * rest;
        // The length of d in the metric of (I - C'C)^-1 is the share of e that Bob's columns explain.
        let mut explained = self.along.clone();
        left.factor().tr_solve_upper_triangular_mut(&mut explained);
        let residual = rest.powi(2) * (1.0 - explained.norm_squared()).max(0.0);
        Some((Part { gamma, covariance: left.inverse() }, residual))
    }

    /// Whether columns of mean square 1 can have it: a table that another party says to have opened.
    pub fn is_possible(&self) -> bool {
        let all = || self.cross.iter().chain(&self.along).chain(&self.inner);
        if !all().all(|entry| entry.abs() <= 1.0 + ROUNDED) {
            return false;
        }
        let rest = self.left_over() - &self.along * self.along.transpose();
        rest.is_empty() || rest.symmetric_eigenvalues().iter().all(|left| *left >= -ROUNDED)
    }

    /// The same in a basis of Bob's that is orthonormal as a whole, where it is orthonormal party by party; none where columns depend on
    /// each other.
    pub fn orthonormal(&self) -> Option<Table> {
        if self.blocks.len() == 1 {
            return Some(self.clone());
        }
        let inner = Definite::from_gram(&self.inner)?;
        let (mut cross, mut along) = (self.cross.transpose(), self.along.clone());
        let solved = inner.factor().tr_solve_upper_triangular_mut(&mut cross)
            && inner.factor().tr_solve_upper_triangular_mut(&mut along);
        let right = self.inner.ncols();
        let (inner, blocks) = (DMatrix::identity(right, right), vec![right]);
        solved.then(|| Table { cross: cross.transpose(), along, inner, blocks, across: self.across })
    }
}

/// Whether a direction of what is left of some columns counts as nothing.
fn vanishes(left_over: &DMatrix<f64>, across: f64) -> bool {
    // The eigenvalues of what is not a number would be sought for ever.
    if !left_over.iter().all(|entry| entry.is_finite()) {
        return true;
    }
    if left_over.is_empty() {
        return false;
    }
    let least = left_over.symmetric_eigenvalues().iter().copied().fold(f64::INFINITY, f64::min);
    !(least >= across)
}

impl Reduction {
    /// Of several parties together, from what each of them set aside, if anything; `blocks` are their columns. None where nobody set
    /// anything aside.
    pub fn joined(parts: &[Option<Reduction>], blocks: &[usize]) -> Option<Reduction> {
        let kept =
            |(part, columns): (&Option<Reduction>, &usize)| part.as_ref().map_or(*columns, |part| part.map.ncols());
        let mut map = DMatrix::zeros(blocks.iter().sum(), parts.iter().zip(blocks).map(kept).sum());
        let (mut row, mut column, mut dropped) = (0, 0, Vec::new());
        for (part, columns) in parts.iter().zip(blocks) {
            let own = part.as_ref().map_or_else(|| DMatrix::identity(*columns, *columns), |part| part.map.clone());
            map.view_mut((row, column), own.shape()).copy_from(&own);
            dropped.extend(part.iter().flat_map(|part| &part.dropped).map(|at| row + at));
            row += columns;
            column += own.ncols();
        }
        (!dropped.is_empty()).then_some(Reduction { dropped, map })
    }

    /// At Bob, by limited pivoting as in R: of a dependent set the later column goes.
    ///
    /// `left_over` is `I - C'C`, `factor` Bob's `R_b`. A column goes when what Alice's columns and the columns kept so far leave of
    /// its square is at most `across` of what the own earlier columns left. Where by that all may stay and a direction of them vanishes
    /// all the same, which is how the other party judges, the one of which least is left goes too. None where no column depends.
    pub fn new(left_over: &DMatrix<f64>, factor: &DMatrix<f64>, across: f64) -> Option<Reduction> {
        let size = factor.ncols();
        if left_over.shape() != (size, size) || factor.nrows() != size {
            return None;
        }
        let joint = factor.tr_mul(left_over) * factor;
        let mut stay: Vec<usize> = (0..size).collect();
        loop {
            let (kept, left) = pivoted(&joint, factor, across, &stay);
            let map = orthonormal(&factor.select_columns(&kept));
            let goes = || left.iter().min_by(|a, b| a.1.total_cmp(&b.1)).map(|(column, _)| *column);
            if let Some(goes) = vanishes(&(map.tr_mul(left_over) * &map), across).then(goes).flatten() {
                stay.retain(|column| *column != goes && kept.contains(column));
                continue;
            }
            let dropped: Vec<usize> = (0..size).filter(|column| !kept.contains(column)).collect();
            return (!dropped.is_empty()).then_some(Reduction { dropped, map });
        }
    }

    /// Bob's factor for the columns that stay, `k x k`: the kept columns are the new basis times this.
    pub fn factor(&self, factor: &DMatrix<f64>) -> DMatrix<f64> {
        let kept: Vec<usize> = (0..factor.ncols()).filter(|j| !self.dropped.contains(j)).collect();
        self.map.tr_mul(&factor.select_columns(&kept))
    }

    /// Whether it can be the answer of a peer with so many columns: dropped positions in order, and orthonormal columns for the rest.
    pub fn sound(&self, columns: usize) -> bool {
        let ordered = self.dropped.windows(2).all(|pair| pair[0] < pair[1]);
        let within = self.dropped.last().is_some_and(|last| *last < columns);
        let shaped = self.map.shape() == (columns, columns.wrapping_sub(self.dropped.len()));
        let identity = DMatrix::identity(self.map.ncols(), self.map.ncols());
        // Each entry, as a largest one passes over what is not a number.
        let close = |entry: &f64| entry.abs() <= 1e-12;
        ordered && within && shaped && (self.map.tr_mul(&self.map) - identity).iter().all(close)
    }
}

/// Which columns of those that may stay do not depend on earlier ones, and what is left of each of their squares, as a share of what the own
/// earlier columns left.
fn pivoted(
    joint: &DMatrix<f64>,
    factor: &DMatrix<f64>,
    across: f64,
    stay: &[usize],
) -> (Vec<usize>, Vec<(usize, f64)>) {
    let mut lower: DMatrix<f64> = DMatrix::zeros(factor.ncols(), factor.ncols());
    let (mut kept, mut left): (Vec<usize>, Vec<(usize, f64)>) = (Vec::new(), Vec::new());
    for j in stay.iter().copied() {
        for (at, k) in kept.iter().enumerate() {
            let done: f64 = (0..at).map(|i| lower[(j, i)] * lower[(*k, i)]).sum();
            lower[(j, at)] = (joint[(j, *k)] - done) / lower[(*k, at)];
        }
        let pivot = joint[(j, j)] - (0..kept.len()).map(|i| lower[(j, i)].powi(2)).sum::<f64>();
        let of_own = factor[(j, j)].powi(2);
        if pivot > across * of_own {
            lower[(j, kept.len())] = pivot.sqrt();
            kept.push(j);
            left.push((j, pivot / of_own));
        }
    }
    (kept, left)
}

/// An orthonormal basis of independent columns, by Gram-Schmidt twice.
fn orthonormal(columns: &DMatrix<f64>) -> DMatrix<f64> {
    let mut basis = columns.clone();
    for j in 0..basis.ncols() {
        for _ in 0..2 {
            for earlier in 0..j {
                let share = basis.column(earlier).dot(&basis.column(j));
                let direction = basis.column(earlier).into_owned();
                basis.column_mut(j).axpy(-share, &direction, 1.0);
            }
        }
        let norm = basis.column(j).norm();
        if norm > 0.0 {
            basis.column_mut(j).scale_mut(1.0 / norm);
        }
    }
    basis
}

impl Part {
    /// Coefficients of the owner's columns, from its factor: `R^-1 gamma`.
    pub fn coefficients(&self, factor: &DMatrix<f64>) -> DVector<f64> {
        let mut coefficients = self.gamma.clone();
        factor.solve_upper_triangular_mut(&mut coefficients);
        coefficients
    }

    /// Covariance of the owner's coefficients, in the unit of [`Part::covariance`]: `R^-1 V R^-T`.
    pub fn coefficient_covariance(&self, factor: &DMatrix<f64>) -> DMatrix<f64> {
        let mut half = self.covariance.clone();
        factor.solve_upper_triangular_mut(&mut half);
        let mut whole = half.transpose();
        factor.solve_upper_triangular_mut(&mut whole);
        whole
    }
}

/// What the leader sends to the other party.
#[derive(Clone, PartialEq)]
pub struct Answer {
    /// The other party's part.
    pub part: Part,
    /// The covariance between its coordinates and the linear predictor at the leader's column means, in the unit of
    /// [`Part::covariance`]: for the standard error of the intercept.
    pub lean: DVector<f64>,
    /// Weighted mean square of the residuals.
    pub residual: f64,
}

/// What Bob answers, for the intercept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Means {
    /// Bob's linear predictor at his column means.
    pub shift: f64,
    /// What Bob's columns add to the variance of the intercept, in the unit of [`Part::covariance`].
    pub spread: f64,
}

impl Solution {
    /// For Bob; `means` are Alice's column means on the scale of her factor, in order.
    pub fn answer(&self, factor: &DMatrix<f64>, means: &DVector<f64>) -> Answer {
        let lean = self.across.tr_mul(&position(factor, means));
        Answer { part: self.bob.clone(), lean, residual: self.residual }
    }

    /// Alice's linear predictor at her column means, and the variance of the intercept in the unit of [`Part::covariance`].
    pub fn intercept(&self, factor: &DMatrix<f64>, means: &DVector<f64>, bob: Means) -> (f64, f64) {
        let position = position(factor, means);
        let own = (&self.alice.covariance * &position).dot(&position);
        (position.dot(&self.alice.gamma), 1.0 + own + bob.spread)
    }
}

impl Answer {
    /// Bob's answer; `means` are his column means on the scale of his factor.
    pub fn means(&self, factor: &DMatrix<f64>, means: &DVector<f64>) -> Means {
        let position = position(factor, means);
        let own = (&self.part.covariance * &position).dot(&position);
        Means { shift: position.dot(&self.part.gamma), spread: own + 2.0 * self.lean.dot(&position) }
    }
}

/// Column means in the coordinates of the basis: `R^-T m`.
pub fn position(factor: &DMatrix<f64>, means: &DVector<f64>) -> DVector<f64> {
    let mut position = means.clone();
    factor.tr_solve_upper_triangular_mut(&mut position);
    position
}
