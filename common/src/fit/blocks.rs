//! What the covariance of a party's own coefficients implies: the matrix itself, and tests and variance inflation of its terms.

use std::collections::BTreeMap;

use nalgebra::{DMatrix, DVector};
use serde::{Deserialize, Serialize};

use super::{Coefficient, Test};
use crate::glm::StatedFamily;
use crate::id::Role;

/// The covariance matrix of estimates, on the original scale and in the order of the coefficient table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Covariance {
    /// The terms of rows and columns; those without an estimate are left out.
    pub terms: Vec<String>,
    /// Who holds each.
    pub parties: Vec<Role>,
    /// Row by row; null between terms of different parties, unless the study shares covariances.
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

    /// Those of two parties, with the covariances between both: a row for each term of the first.
    pub(crate) fn across(first: &Covariance, second: &Covariance, between: &DMatrix<f64>) -> Covariance {
        let known = |x: f64| Some(x).filter(|x| x.is_finite());
        let upper = first.matrix.iter().enumerate().map(|(i, row)| {
            row.iter().copied().chain((0..second.terms.len()).map(|j| known(between[(i, j)]))).collect()
        });
        let lower = second.matrix.iter().enumerate().map(|(j, row)| {
            (0..first.terms.len()).map(|i| known(between[(i, j)])).chain(row.iter().copied()).collect()
        });
        Covariance {
            terms: first.terms.iter().chain(&second.terms).cloned().collect(),
            parties: first.parties.iter().chain(&second.parties).copied().collect(),
            matrix: upper.chain(lower).collect(),
        }
    }

    /// Whether it is about coefficients of several parties.
    pub(crate) fn is_of_several(&self) -> bool {
        self.parties.windows(2).any(|pair| pair[0] != pair[1])
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
    /// Wald test that all their coefficients are zero: F where the dispersion is estimated, chi-square otherwise.
    pub wald: Option<Test>,
    /// The same by type II: beside all terms but those that contain this one, such as `a:b` contains `a`. The same number as `wald`, which is of
    /// type III, for a term that no other contains.
    #[serde(default)]
    pub wald_type_ii: Option<Test>,
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
    /// By term, the terms that contain it.
    pub(crate) containing: &'a BTreeMap<String, Vec<String>>,
    /// Covariance of the estimates.
    pub(crate) covariance: DMatrix<f64>,
    /// The covariance that they would have if no other term were there is the inverse of this: the working cross-products of
    /// the columns, about their means where the model has an intercept, divided by the dispersion.
    pub(crate) alone: Option<DMatrix<f64>>,
    pub(crate) family: StatedFamily,
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
            let own: Vec<usize> = (first..first + size).collect();
            rows.push(TermTest {
                term: group[0].term.to_string(),
                party,
                df: size as u64,
                wald: self.test(self.quadratic(&own), size),
                wald_type_ii: self.type_ii(group[0].term, &own),
                vif,
                scaled_vif: vif.map(|vif| vif.powf(0.5 / size as f64)),
            });
            first += size;
        }
        rows
    }

    /// What a term adds to the terms that contain it: their test together, less theirs alone.
    ///
    /// # Reference
    /// J. Fox, Applied Regression Analysis (2016), section 9.4; `Anova` of R's package car.
    fn type_ii(&self, term: &str, own: &[usize]) -> Option<Test> {
        let names = self.containing.get(term).map_or(&[][..], Vec::as_slice);
        let contains = |slope: &Slope<'_>| names.iter().any(|name| name == slope.term);
        let higher: Vec<usize> = (0..self.slopes.len()).filter(|at| contains(&self.slopes[*at])).collect();
        if higher.is_empty() {
            return self.test(self.quadratic(own), own.len());
        }
        let together: Vec<usize> = own.iter().chain(&higher).copied().collect();
        let (together, alone) = (self.quadratic(&together)?, self.quadratic(&higher)?);
        self.test(Some((together - alone).max(0.0)), own.len())
    }

    /// Wald's quadratic form of some slopes.
    fn quadratic(&self, slopes: &[usize]) -> Option<f64> {
        let size = slopes.len();
        let estimates = DVector::from_fn(size, |i, _| self.slopes[slopes[i]].estimate);
        // On the scale of the standard errors, so that columns of different sizes meet.
        let errors = DVector::from_fn(size, |i, _| self.covariance[(slopes[i], slopes[i])].sqrt());
        if !errors.iter().all(|error| *error > 0.0 && error.is_finite()) {
            return None;
        }
        let entry = |i: usize, j: usize| self.covariance[(slopes[i], slopes[j])] / (errors[i] * errors[j]);
        let scaled = estimates.component_div(&errors);
        Some(scaled.dot(&DMatrix::from_fn(size, size, entry).cholesky()?.solve(&scaled)))
    }

    fn test(&self, statistic: Option<f64>, size: usize) -> Option<Test> {
        let (statistic, df) = (statistic?, size as i64);
        match self.family.estimates_dispersion() {
            true => Test::f(statistic / df as f64, df, self.df_residual),
            false => Test::chi_square(statistic, df),
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
