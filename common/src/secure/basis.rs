//! A party's own columns as an orthonormal basis, made by row block, and stored in place of the columns where it is needed often.
//!
//! `W^(1/2) X = Q R` with `Q' Q = n I` and weights of mean 1, by Cholesky factors of the Gram matrix, twice (CholeskyQR2; Fukaya et
//! al., 2014). Where the columns are nearly dependent the first factor comes from Householder reflections. Only canonical
//! correlations between the parties are left as conditioning, and every entry of `Q` is at most `sqrt n`.

use std::borrow::Borrow;
use std::ops::Range;

use nalgebra::{DMatrix, DVector};
use rayon::prelude::*;

use super::product::Blocks;
use super::ring::row_blocks;
use crate::linalg::{self, DEPENDENCE, Definite, kernels};

/// Pivots of a Gram matrix that are so far apart leave too few digits for the second factor to repair.
const WELL_CONDITIONED: f64 = 1e-3;

/// Own columns, and at the holder of the outcome the outcome behind them. `X` is the matrix, or lends it.
pub struct Basis<X> {
    x: X,
    columns: Range<usize>,
    roots: Option<Vec<f64>>,
    target: Option<Target>,
    /// The factors of both rounds, or one that is their product.
    factors: Vec<DMatrix<f64>>,
    /// Where the basis stands in place of the columns: what they are in it.
    stored: Option<DMatrix<f64>>,
    /// The outcome depends on the own columns: nothing is left of it.
    explained: bool,
}

/// The outcome on the inner scale: `inner = (original - centre) / scale`, weighted mean square 1.
struct Target {
    values: Vec<f64>,
    centre: f64,
    scale: f64,
}

/// What the owner keeps of its basis.
#[derive(Clone)]
pub struct Own {
    /// `k x k`, upper triangular: the columns are the basis times this.
    pub factor: DMatrix<f64>,
    /// The outcome, where this party takes part with it.
    pub outcome: Option<OwnOutcome>,
}

/// The outcome in the own basis, in its own unit.
#[derive(Clone)]
pub struct OwnOutcome {
    /// Its weighted mean, where there is an intercept; 0 otherwise.
    pub centre: f64,
    /// Coordinates in the own basis, `Q_a' y / n`.
    pub along: DVector<f64>,
    /// Length of what is left, as a root mean square; its sign goes with the direction. 0 where the columns explain the outcome.
    pub rest: f64,
    /// Weighted mean square about the centre.
    pub square: f64,
}

/// Why there is no basis.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BasisError {
    /// A column depends on earlier ones, though it was said not to.
    #[error("column {0} of the block depends on earlier ones")]
    Dependent(usize),
    /// Weights that are all zero, or not numbers.
    #[error("the weights have no sum")]
    Weights,
    /// Vectors of another length than the columns.
    #[error("{came} values for {expected} rows")]
    Length {
        /// Values.
        came: usize,
        /// Rows of the columns.
        expected: usize,
    },
}

impl<X: Borrow<DMatrix<f64>> + Sync> Basis<X> {
    /// From `columns` of an `n x p` matrix: independent, each with weighted mean square 1 and, where the model has an intercept,
    /// weighted mean 0. `outcome` is the outcome minus the offset, at the party whose part of the table it stands in; `centre` says
    /// whether the model has an intercept.
    ///
    /// # Errors
    /// See [`BasisError`].
    pub fn new(
        x: X,
        columns: Range<usize>,
        weights: Option<&[f64]>,
        outcome: Option<&[f64]>,
        centre: bool,
    ) -> Result<Basis<X>, BasisError> {
        let rows = x.borrow().nrows();
        for came in weights.iter().chain(&outcome).map(|values| values.len()) {
            if came != rows {
                return Err(BasisError::Length { came, expected: rows });
            }
        }
        let roots = match weights {
            None => None,
            Some(weights) => {
                let mean = weights.iter().sum::<f64>() / rows as f64;
                if !(mean > 0.0 && mean.is_finite()) {
                    return Err(BasisError::Weights);
                }
                Some(weights.iter().map(|weight| (weight / mean).sqrt()).collect())
            }
        };
        let target = outcome.map(|outcome| Target::new(outcome, roots.as_deref(), centre));
        let mut basis = Basis { x, columns, roots, target, factors: Vec::new(), stored: None, explained: false };
        basis.factorise()?;
        Ok(basis)
    }

    /// Columns of the matrix that take part.
    pub fn own(&self) -> usize {
        self.columns.len()
    }

    fn factorise(&mut self) -> Result<(), BasisError> {
        let (rows, all) = (self.x.borrow().nrows(), Blocks::columns(self));
        let root = (rows as f64).sqrt();
        let gram = linalg::packed_gram(rows, all, |rows, out| self.fill(rows, out)) / rows as f64;
        let definite = Definite::from_gram(&gram).filter(|definite| definite.pivot_ratio() > WELL_CONDITIONED);
        let well_conditioned = definite.is_some();
        let first = match definite {
            Some(definite) => definite.factor().clone(),
            None => {
                let factor = linalg::packed_factor(rows, all, |rows, out| self.fill(rows, out)) / root;
                self.judged(factor.resize(all, all, 0.0))?
            }
        };
        self.factors.push(first);
        // What is left of an explained outcome is a column of zeros, whose part of the factor is that of the identity.
        let mut gram = linalg::packed_gram(rows, all, |rows, out| self.fill(rows, out)) / rows as f64;
        if self.explained {
            gram[(all - 1, all - 1)] = 1.0;
        }
        let second = Definite::from_gram(&gram).ok_or(BasisError::Dependent(all.saturating_sub(1)))?;
        self.factors.push(second.factor().clone());
        if well_conditioned {
            // Dividing by both at once loses the digits that the first one's condition takes, which are few here.
            self.factors = vec![self.product()];
        }
        Ok(())
    }

    /// A first factor with which rows can be divided: columns are independent, and an outcome that depends on them is marked.
    fn judged(&mut self, mut factor: DMatrix<f64>) -> Result<DMatrix<f64>, BasisError> {
        let own = self.own();
        let vanishes = |j: usize| !(factor[(j, j)].abs() > DEPENDENCE * 1e-2 * factor.column(j).norm());
        if let Some(j) = (0..own).find(|j| vanishes(*j)) {
            return Err(BasisError::Dependent(j));
        }
        if self.target.is_some() && !(factor[(own, own)].abs() > DEPENDENCE) {
            self.explained = true;
            factor[(own, own)] = 1.0;
        }
        Ok(factor)
    }

    /// The columns are the basis times this.
    fn product(&self) -> DMatrix<f64> {
        let all = Blocks::columns(self);
        if let Some(product) = &self.stored {
            return product.clone();
        }
        self.factors.iter().rev().fold(DMatrix::identity(all, all), |product, factor| product * factor)
    }

    /// `Q gamma`, one value a row.
    pub fn predictor(&self, gamma: &DVector<f64>) -> Vec<f64> {
        let (rows, own) = (self.x.borrow().nrows(), self.own());
        let product = self.product();
        let factor = product.view((0, 0), (own, own));
        let mut slopes = gamma.clone();
        // A factor of columns that depend too much on each other would take digits: then the basis itself is multiplied.
        let direct = self.factors.len() == 1 && factor.solve_upper_triangular_mut(&mut slopes);
        let part = |range: Range<usize>| {
            let (mut made, mut eta) = (Vec::new(), vec![0.0; range.len()]);
            let weights = if direct { &slopes } else { gamma };
            let lent: Option<Vec<&[f64]>> = (0..own).map(|column| self.lent(column, range.clone())).collect();
            let columns = match lent {
                Some(columns) => columns,
                None => {
                    match direct {
                        true => self.raw(range.clone(), &mut made),
                        false => self.fill(range.clone(), &mut made),
                    }
                    made.chunks_exact(range.len()).collect()
                }
            };
            kernels::combine(weights.as_slice(), |column| columns[column], &mut eta);
            eta
        };
        let blocks: Vec<Vec<f64>> = row_blocks(rows).collect::<Vec<_>>().into_par_iter().map(part).collect();
        blocks.concat()
    }

    /// Appends the roots of the weights of some rows, of mean square 1.
    pub fn fill_roots(&self, rows: Range<usize>, out: &mut Vec<f64>) {
        match &self.roots {
            Some(roots) => out.extend_from_slice(&roots[rows]),
            None => out.resize(out.len() + rows.len(), 1.0),
        }
    }

    /// What the owner keeps.
    pub fn finish(&self) -> Own {
        let own = self.own();
        let factor = self.product();
        let outcome = self.target.as_ref().map(|target| OwnOutcome {
            centre: target.centre,
            along: factor.view((0, own), (own, 1)).column(0) * target.scale,
            rest: if self.explained { 0.0 } else { factor[(own, own)] * target.scale },
            square: target.square() * target.scale * target.scale,
        });
        Own { factor: factor.view((0, 0), (own, own)).into_owned(), outcome }
    }
}

impl Target {
    fn new(outcome: &[f64], roots: Option<&[f64]>, centre: bool) -> Target {
        let weight = |row: usize| roots.map_or(1.0, |roots| roots[row] * roots[row]);
        let rows = outcome.len();
        let mut values = outcome.to_vec();
        let mut taken = 0.0;
        if centre && rows > 0 {
            // Twice: the first mean is off by rounding of the values' size, the second by rounding of their spread.
            for _ in 0..2 {
                let mean = (0..rows).map(|row| weight(row) * values[row]).sum::<f64>() / rows as f64;
                values.iter_mut().for_each(|value| *value -= mean);
                taken += mean;
            }
        }
        let top = outcome.iter().fold(0.0_f64, |top, value| top.max(value.abs()));
        let square = (0..rows).map(|row| weight(row) * (values[row] / top).powi(2)).sum::<f64>() / rows as f64;
        let mut scale = square.sqrt() * top;
        // What centring leaves of a constant outcome is rounding.
        if !(scale > DEPENDENCE * 1e-2 * top) {
            values.fill(0.0);
            scale = 1.0;
        }
        values.iter_mut().for_each(|value| *value /= scale);
        Target { values, centre: taken, scale }
    }

    /// The mean square on the inner scale: 1, or 0 for a constant outcome.
    fn square(&self) -> f64 {
        f64::from(u8::from(self.values.iter().any(|value| *value != 0.0)))
    }
}

/// Row blocks that are divided at once.
const STORED: usize = 16;

impl Basis<DMatrix<f64>> {
    /// Puts the basis in place of the columns, for one that is gone through many times: the same bits, without the division.
    pub fn store(&mut self) {
        let (rows, own) = (self.x.nrows(), self.own());
        let product = self.product();
        let blocks: Vec<Range<usize>> = row_blocks(rows).collect();
        for some in blocks.chunks(STORED) {
            let made = |range: &Range<usize>| {
                let mut columns = Vec::with_capacity(range.len() * Blocks::columns(self));
                self.fill(range.clone(), &mut columns);
                columns
            };
            let made: Vec<Vec<f64>> = some.par_iter().map(made).collect();
            for (range, made) in some.iter().zip(made) {
                let mut made = made.chunks_exact(range.len());
                for (j, column) in self.columns.clone().zip(made.by_ref().take(own)) {
                    self.x.column_mut(j).as_mut_slice()[range.clone()].copy_from_slice(column);
                }
                if let (Some(target), Some(column)) = (&mut self.target, made.next()) {
                    target.values[range.clone()].copy_from_slice(column);
                }
            }
        }
        (self.factors, self.roots, self.stored) = (Vec::new(), None, Some(product));
    }
}

/// Rows of `Q`, the outcome's own direction last.
impl<X: Borrow<DMatrix<f64>> + Sync> Blocks for Basis<X> {
    fn rows(&self) -> usize {
        self.x.borrow().nrows()
    }

    fn columns(&self) -> usize {
        self.own() + usize::from(self.target.is_some())
    }

    fn fill(&self, rows: Range<usize>, out: &mut Vec<f64>) {
        let begin = out.len();
        self.raw(rows.clone(), out);
        for factor in &self.factors {
            linalg::divide_rows(&mut out[begin..], factor);
            if self.explained {
                let last = out.len() - rows.len();
                out[last..].fill(0.0);
            }
        }
    }

    fn lent(&self, column: usize, rows: Range<usize>) -> Option<&[f64]> {
        if !self.factors.is_empty() || self.roots.is_some() {
            return None;
        }
        match &self.target {
            Some(target) if column == self.own() => target.values.get(rows),
            Some(_) | None if column < self.own() => {
                self.x.borrow().column(self.columns.start + column).data.into_slice().get(rows)
            }
            Some(_) | None => None,
        }
    }
}

impl<X: Borrow<DMatrix<f64>> + Sync> Basis<X> {
    /// The columns before they are divided, the outcome last.
    fn raw(&self, rows: Range<usize>, out: &mut Vec<f64>) {
        let target = self.target.iter().map(|target| &target.values[..]);
        let x = self.x.borrow();
        let columns = self.columns.clone().map(|j| x.column(j).data.into_slice()).chain(target);
        for column in columns {
            let column = &column[rows.clone()];
            match &self.roots {
                None => out.extend_from_slice(column),
                Some(roots) => out.extend(column.iter().zip(&roots[rows.clone()]).map(|(x, root)| x * root)),
            }
        }
    }
}
