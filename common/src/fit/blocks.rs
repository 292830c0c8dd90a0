//! What the covariance of a party's own coefficients implies: the matrix itself, and tests and variance inflation of its terms.

use nalgebra::{DMatrix, DVector};
use serde::{Deserialize, Serialize};

use super::{Coefficient, Test};
use crate::glm::Family;
use crate::id::Role;

/// The covariance matrix of estimates, on the original scale and in the order of the coefficient table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Covariance {
    /// The terms of rows and columns; those without an estimate are left out.
    pub terms: Vec<String>,
    /// Who holds each.
    pub parties: Vec<Role>,
    /// Row by row; null between terms of different parties, which nobody knows.
    pub matrix: Vec<Vec<Option<f64>>>,
}

impl Covariance {
    /// Of one party's coefficients: of the rows of the table that have an estimate, in order. `None` where the sizes differ.
    pub(crate) fn own(rows: &[Coefficient], matrix: &DMatrix<f64>) -> Option<Covariance> {
        let rows: Vec<&Coefficient> = rows.iter().filter(|row| row.estimate.is_some()).collect();
        if matrix.shape() != (rows.len(), rows.len()) || rows.is_empty() {
            return None;
        }
        Some(Covariance {
            terms: rows.iter().map(|row| row.term.clone()).collect(),
            parties: rows.iter().map(|row| row.party).collect(),
            matrix: matrix
                .row_iter()
                .map(|row| row.iter().map(|x| Some(*x).filter(|x| x.is_finite())).collect())
                .collect(),
        })
    }

    /// The blocks of several parties along the diagonal.
    pub(crate) fn joined<'a>(blocks: impl Iterator<Item = &'a Covariance> + Clone) -> Option<Covariance> {
        let size: usize = blocks.clone().map(|block| block.terms.len()).sum();
        let mut all = Covariance { terms: Vec::new(), parties: Vec::new(), matrix: Vec::new() };
        for block in blocks {
            let before = all.terms.len();
            for row in &block.matrix {
                let mut wide = vec![None; size];
                wide.iter_mut().skip(before).zip(row).for_each(|(at, x)| *at = *x);
                all.matrix.push(wide);
            }
            all.terms.extend(block.terms.iter().cloned());
            all.parties.extend(&block.parties);
        }
        (size > 0).then_some(all)
    }
}

/// A term of a party's columns or of its formula: one column, or those of a factor or a function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TermTest {
    /// The term as the columns or the formula name it.
    pub term: String,
    /// Who holds it.
    pub party: Role,
    /// Its columns that have an estimate.
    pub df: u64,
    /// Wald test that all their coefficients are zero: F for gaussian, chi-square otherwise.
    pub wald: Option<Test>,
    /// Generalised variance inflation factor (Fox and Monette 1992), beside the columns of all parties; of one column the
    /// variance inflation factor.
    pub vif: Option<f64>,
    /// `vif^(1 / (2 df))`, which can be compared between terms.
    pub scaled_vif: Option<f64>,
}

/// One of a party's columns that has an estimate, without the intercept.
pub(crate) struct Slope<'a> {
    /// The term that it is a column of.
    pub(crate) term: &'a str,
    pub(crate) estimate: f64,
}

/// What tests and inflation of terms are computed from. Rows and columns are the slopes in order, on any scale that is common to all three.
pub(crate) struct Slopes<'a> {
    pub(crate) slopes: Vec<Slope<'a>>,
    /// Covariance of the estimates.
    pub(crate) covariance: DMatrix<f64>,
    /// The covariance that they would have if no other term were there is the inverse of this: the working cross-products of
    /// the columns, about their means where the model has an intercept, divided by the dispersion.
    pub(crate) alone: Option<DMatrix<f64>>,
    pub(crate) family: Family,
    pub(crate) df_residual: i64,
}

impl Slopes<'_> {
    /// A row a term, in order.
    pub(crate) fn tests(&self, party: Role) -> Vec<TermTest> {
        let mut rows = Vec::new();
        let mut first = 0;
        for group in self.slopes.chunk_by(|a, b| a.term == b.term) {
            let size = group.len();
            let within = |matrix: &DMatrix<f64>| matrix.view((first, first), (size, size)).into_owned();
            let covariance = within(&self.covariance);
            let vif = self.alone.as_ref().and_then(|alone| inflation(&covariance, &within(alone)));
            rows.push(TermTest {
                term: group[0].term.to_string(),
                party,
                df: size as u64,
                wald: self.wald(group, &covariance),
                vif,
                scaled_vif: vif.map(|vif| vif.powf(0.5 / size as f64)),
            });
            first += size;
        }
        rows
    }

    fn wald(&self, slopes: &[Slope<'_>], covariance: &DMatrix<f64>) -> Option<Test> {
        let estimates = DVector::from_iterator(slopes.len(), slopes.iter().map(|slope| slope.estimate));
        // On the scale of the standard errors, so that columns of different sizes meet.
        let errors = covariance.diagonal().map(f64::sqrt);
        if !errors.iter().all(|error| *error > 0.0 && error.is_finite()) {
            return None;
        }
        let correlation =
            DMatrix::from_fn(slopes.len(), slopes.len(), |i, j| covariance[(i, j)] / (errors[i] * errors[j]));
        let scaled = estimates.component_div(&errors);
        let statistic = scaled.dot(&correlation.cholesky()?.solve(&scaled));
        let df = slopes.len() as i64;
        match self.family {
            Family::Gaussian => Test::f(statistic / df as f64, df, self.df_residual),
            Family::Binomial | Family::Poisson => Test::chi_square(statistic, df),
        }
    }
}

/// By how much other terms inflate the squared volume of the confidence ellipsoid of a term.
///
/// # Reference
/// J. Fox and G. Monette, "Generalized collinearity diagnostics", JASA 87 (1992), equation 10. The determinant of the other
/// terms' correlations divided by that of all is the determinant of this term's block of the inverse, which needs no other term.
fn inflation(covariance: &DMatrix<f64>, alone: &DMatrix<f64>) -> Option<f64> {
    let size = alone.nrows();
    let lengths = alone.diagonal().map(f64::sqrt);
    let scaled = DMatrix::from_fn(size, size, |i, j| covariance[(i, j)] * lengths[i] * lengths[j]);
    let correlation = DMatrix::from_fn(size, size, |i, j| alone[(i, j)] / (lengths[i] * lengths[j]));
    let vif = scaled.determinant() * correlation.determinant();
    (vif.is_finite() && vif > 0.0).then_some(vif)
}
