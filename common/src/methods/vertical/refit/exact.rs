//! Sub-models of a sealed fit, from the opened table and the factors of all blocks.
//!
//! With the first party's basis `Q_a`, the direction `e` that its columns leave of the outcome and the others' basis `Q_b`, of which
//! `C = Q_a'Q_b / n`, `d = e'Q_b / n` and `S = Q_b'Q_b / n` have opened, columns and outcome have the lengths and products of the rows
//!
//! ```text
//! [ R_a   C R_b   q ]
//! [ 0     d'R_b   r ]        K'K = S - C'C - d d'
//! [ 0     K R_b   0 ]
//! ```
//!
//! where `R_a`, `R_b` are the factors and `q`, `r` the coordinates of the outcome. A sub-model is the QR decomposition of some of these
//! columns: factors are never squared, so that columns that nearly depend on each other within a block keep their digits.

use std::collections::{BTreeMap, BTreeSet};

use nalgebra::{DMatrix, DVector, SymmetricEigen};
use serde::{Deserialize, Serialize};

use super::{Refitted, Term, penalised_notes, point, select};
use crate::data::formula::{Formula, containing};
use crate::fit::{Coefficient, Covariance, INTERCEPT, Slope, Slopes, Statistics, TermTest, Termination};
use crate::glm::Family;
use crate::id::Role;
use crate::linalg::{Definite, upper_factor};
use crate::methods::vertical::penalty::Problem;
use crate::session::Abort;
use crate::study::{PenaltyTerms, Study, Vertical};

const FAMILY: Family = Family::Gaussian;

/// By the name of a party's term, those of its formula that contain it; `names` are those of the terms that its columns are of.
fn containing_of(study: &Study<Vertical>, party: Role, names: &[String]) -> BTreeMap<String, Vec<String>> {
    let formula = study.method.parties.get(&party).and_then(|terms| terms.formula.as_deref());
    match formula.map(Formula::parse) {
        // The study does not say what `.` stands for: products of it are known by the names of their factors.
        Some(Ok(formula)) if formula.has_rest() => containing_by_names(names),
        Some(Ok(formula)) => containing(&formula.terms(&[], &[])),
        // Single columns are contained in none.
        Some(Err(_)) | None => BTreeMap::new(),
    }
}

fn containing_by_names(names: &[String]) -> BTreeMap<String, Vec<String>> {
    let factors = |name: &String| -> BTreeSet<String> { name.split(':').map(str::to_string).collect() };
    let above = |name: &String| -> Vec<String> {
        let own = factors(name);
        let holds = |other: &&String| factors(other).len() > own.len() && own.is_subset(&factors(other));
        names.iter().filter(holds).cloned().collect()
    };
    names.iter().map(|name| (name.clone(), above(name))).filter(|(_, above)| !above.is_empty()).collect()
}

/// What has opened of a sealed fit, with the own part.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct Exact {
    /// Rows, those of weight zero included.
    pub(in super::super) rows: u64,
    /// Rows of weight zero.
    pub(in super::super) unweighted: u64,
    /// Sum of the case weights.
    pub(in super::super) weight: f64,
    /// Deviance of the model with the intercept alone.
    pub(in super::super) null_deviance: f64,
    /// The log-likelihood where the deviance is 1; none where a weight is zero.
    pub(in super::super) unit_log_lik: Option<f64>,
    pub(in super::super) outcome: Outcome,
    /// In the order of the parties.
    pub(in super::super) blocks: Vec<Block>,
    /// `C`, `d` and `S`, column by column.
    pub(in super::super) cross: Vec<f64>,
    pub(in super::super) along: Vec<f64>,
    pub(in super::super) inner: Vec<f64>,
    /// Share of a column's square that counts as nothing beside other parties' columns.
    pub(in super::super) across: f64,
}

/// The outcome in the first party's basis.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct Outcome {
    pub(in super::super) centre: f64,
    pub(in super::super) along: Vec<f64>,
    pub(in super::super) rest: f64,
    /// Mean square about the centre.
    pub(in super::super) square: f64,
    /// The unit of a penalty.
    pub(in super::super) spread: f64,
}

/// A party's columns, of mean square 1 and, where the model has an intercept, mean 0.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct Block {
    pub(in super::super) party: Role,
    /// Names of all its terms, those that the fit has set aside within the block included.
    pub(in super::super) terms: Vec<String>,
    /// The term of each column.
    pub(in super::super) places: Vec<u64>,
    /// The upper triangular factor, row by row from the diagonal on.
    pub(in super::super) factor: Vec<f64>,
    /// Standard deviations, in which a penalty measures the columns.
    pub(in super::super) units: Vec<f64>,
    /// What was taken from the column, and by what it was divided then.
    pub(in super::super) centres: Vec<f64>,
    pub(in super::super) scales: Vec<f64>,
}

/// A column of the model, by its block and its place there and among all columns.
#[derive(Clone, Copy)]
struct Column<'a> {
    block: &'a Block,
    own: usize,
    at: usize,
}

/// The least-squares fit to some columns.
struct Solution<'a> {
    columns: Vec<Column<'a>>,
    /// Of standardised columns.
    beta: DVector<f64>,
    /// A square root of their covariance before dispersion and weights: a row a coefficient.
    root: DMatrix<f64>,
    /// Mean square of what they leave.
    residual: f64,
}

impl Block {
    fn matrix(&self) -> DMatrix<f64> {
        let size = self.places.len();
        let mut next = self.factor.iter();
        let mut factor = DMatrix::zeros(size, size);
        for (i, j) in (0..size).flat_map(|i| (i..size).map(move |j| (i, j))) {
            factor[(i, j)] = next.next().copied().unwrap_or_default();
        }
        factor
    }

    fn is_sound(&self) -> bool {
        let size = self.places.len();
        let lengths = [self.units.len(), self.centres.len(), self.scales.len()];
        let placed = self.places.windows(2).all(|pair| pair[0] < pair[1])
            && self.places.last().is_none_or(|last| *last < self.terms.len() as u64);
        let numbers = || [&self.factor, &self.units, &self.centres, &self.scales].into_iter().flatten();
        lengths == [size; 3]
            && self.factor.len() == size * (size + 1) / 2
            && placed
            && numbers().all(|number| number.is_finite())
            && self.scales.iter().all(|scale| *scale > 0.0)
    }
}

impl Column<'_> {
    fn scale(&self) -> f64 {
        self.block.scales[self.own]
    }

    /// The mean of the column in units of its scale.
    fn mean(&self) -> f64 {
        self.block.centres[self.own] / self.scale()
    }
}

impl Exact {
    /// Rows that count.
    pub(super) fn used(&self) -> u64 {
        self.rows.saturating_sub(self.unweighted)
    }

    pub(super) fn terms(&self) -> Vec<Term> {
        let of = |block: &Block| -> Vec<Term> {
            block.terms.iter().map(|name| Term { party: block.party, name: name.clone() }).collect()
        };
        self.blocks.iter().flat_map(of).collect()
    }

    /// Whether sizes fit together and all numbers are finite.
    pub(super) fn is_sound(&self, study: &Study<Vertical>) -> bool {
        let parties: Vec<Role> = self.blocks.iter().map(|block| block.party).collect();
        let Some((first, others)) = self.blocks.split_first() else { return false };
        let (left, right) = (first.places.len(), others.iter().map(|block| block.places.len()).sum::<usize>());
        let Outcome { centre, along, rest, square, spread } = &self.outcome;
        let numbers = [&self.cross, &self.along, &self.inner, along].into_iter().flatten();
        let single = [*centre, *rest, *square, *spread, self.weight, self.null_deviance, self.across];
        parties == study.parties_in_order()
            && self.blocks.iter().all(Block::is_sound)
            && [self.cross.len(), self.along.len(), self.inner.len(), along.len()]
                == [left * right, right, right * right, left]
            && numbers.chain(&single).chain(&self.unit_log_lik).all(|number| number.is_finite())
            && *square >= 0.0
            && *spread > 0.0
            && self.weight > 0.0
            && self.across > 0.0
            && self.used() > 0
    }

    /// Columns that have the lengths and products of all columns and the outcome, a row of which stands for none of the data.
    fn equivalent(&self) -> (DMatrix<f64>, DVector<f64>) {
        let factors: Vec<DMatrix<f64>> = self.blocks.iter().map(Block::matrix).collect();
        let left = factors.first().map_or(0, DMatrix::ncols);
        let right = self.along.len();
        let cross = DMatrix::from_column_slice(left, right, &self.cross);
        let along = DVector::from_column_slice(&self.along);
        let inner = DMatrix::from_column_slice(right, right, &self.inner);
        let rest = inner - cross.tr_mul(&cross) - &along * along.transpose();
        let mut basis = DMatrix::zeros(left + 1 + right, right);
        basis.view_mut((0, 0), (left, right)).copy_from(&cross);
        basis.row_mut(left).copy_from(&along.transpose());
        basis.view_mut((left + 1, 0), (right, right)).copy_from(&root(&rest));
        let mut all = DMatrix::zeros(left + 1 + right, left + right);
        let mut begin = 0;
        for (at, factor) in factors.iter().enumerate() {
            let size = factor.ncols();
            match at {
                0 => all.view_mut((0, 0), (left, left)).copy_from(factor),
                _ => {
                    let columns = basis.columns(begin - left, size) * factor;
                    all.columns_mut(begin, size).copy_from(&columns);
                }
            }
            begin += size;
        }
        let mut outcome = DVector::zeros(left + 1 + right);
        outcome.rows_mut(0, left).copy_from_slice(&self.outcome.along);
        outcome[left] = self.outcome.rest;
        (all, outcome)
    }

    /// The columns of the terms that stay, in order.
    fn columns(&self, stays: &[bool]) -> Vec<Column<'_>> {
        let (mut term, mut first) = (0, 0);
        let mut columns = Vec::new();
        for block in &self.blocks {
            let stay = |own: &usize| stays.get(term + block.places[*own] as usize).copied().unwrap_or(false);
            columns.extend((0..block.places.len()).filter(stay).map(|own| Column { block, own, at: first + own }));
            term += block.terms.len();
            first += block.places.len();
        }
        columns
    }

    /// The sub-model of the terms that stay.
    pub(super) fn refit(
        &self,
        study: &Study<Vertical>,
        stays: &[bool],
        penalty: Option<&PenaltyTerms>,
    ) -> Result<Refitted, Abort> {
        let (all, outcome) = self.equivalent();
        let columns = self.columns(stays);
        match penalty {
            Some(terms) => Ok(self.penalised(study, stays, (&all, &outcome, &columns), terms)),
            None => self.least_squares(study, stays, (&all, &outcome, columns)),
        }
    }

    fn least_squares(
        &self,
        study: &Study<Vertical>,
        stays: &[bool],
        (all, outcome, columns): (&DMatrix<f64>, &DVector<f64>, Vec<Column<'_>>),
    ) -> Result<Refitted, Abort> {
        let before = columns.len();
        let independent = self.independent(all, &columns);
        let columns: Vec<Column<'_>> = independent.into_iter().map(|at| columns[at]).collect();
        let dropped = columns.len() < before;
        let solution = solve(all, outcome, columns).ok_or_else(dependent)?;
        let intercept = study.method.intercept;
        let df = self.used() as i64 - solution.columns.len() as i64 - i64::from(intercept);
        let deviance = solution.residual * self.weight;
        let unit = (df > 0 && study.method.inference.allowed).then(|| solution.residual / df as f64);
        // Of the intercept, if there is one, and the slopes, on the original scale.
        let root = self.root_of(&solution, intercept);
        let covariance = unit.map(|unit| &root * root.transpose() * unit);
        let errors = covariance.as_ref().map(|covariance| covariance.diagonal().map(f64::sqrt));
        let coefficients = self.table(study, stays, &solution, (errors.as_ref(), df));
        let term_tests = unit
            .filter(|unit| *unit > 0.0)
            .and_then(|unit| Some(self.tests(study, (all, &solution), covariance.as_ref()?, (unit, df))));
        let mut notes = self.set_aside(stays, Some(&solution));
        if !study.method.inference.allowed {
            notes.push("standard errors: the study does not allow them".to_string());
        } else if unit.is_none() {
            notes.push("standard errors: not computed, since no row is left over".to_string());
        }
        Ok(Refitted {
            covariance: covariance.and_then(|covariance| Covariance::own(&coefficients, &covariance)),
            coefficients,
            statistics: self.statistics(intercept, deviance, df),
            term_tests,
            path: None,
            shown_lambda: None,
            certificate: None,
            termination: if dropped { Termination::CollinearAcrossParties } else { Termination::Converged },
            notes,
            caution: None,
            statement: None,
        })
    }

    /// Which columns stay, by the rule of the fit: of a dependent set the later one goes, and it depends where what all before it leave of its
    /// square is next to nothing of what those of its own block leave.
    fn independent(&self, all: &DMatrix<f64>, columns: &[Column<'_>]) -> Vec<usize> {
        let mut kept: Vec<usize> = Vec::new();
        let mut basis: Vec<DVector<f64>> = Vec::new();
        let mut within: Vec<DVector<f64>> = Vec::new();
        for (place, column) in columns.iter().enumerate() {
            if place > 0 && columns[place - 1].block.party != column.block.party {
                within.clear();
            }
            let vector = all.column(column.at).into_owned();
            let own = left_of(&vector, &within);
            let rest = left_of(&vector, &basis);
            let (own_length, length) = (own.norm(), rest.norm());
            if own_length > 0.0 {
                within.push(own / own_length);
            }
            if length * length > self.across * own_length * own_length {
                basis.push(rest / length);
                kept.push(place);
            }
        }
        kept
    }

    /// A square root of the covariance before the dispersion per unit of weight: the intercept, then the slopes.
    fn root_of(&self, solution: &Solution<'_>, intercept: bool) -> DMatrix<f64> {
        let size = solution.columns.len();
        let first = usize::from(intercept);
        let mut root = DMatrix::zeros(first + size, first + size);
        for (at, column) in solution.columns.iter().enumerate() {
            let row = solution.root.row(at) / column.scale();
            root.view_mut((first + at, first), (1, size)).copy_from(&row);
            if intercept {
                let centre = column.block.centres[column.own];
                root.view_mut((0, first), (1, size)).zip_apply(&row, |sum, x| *sum -= centre * x);
            }
        }
        if intercept {
            root[(0, 0)] = 1.0;
        }
        root
    }

    fn table(
        &self,
        study: &Study<Vertical>,
        stays: &[bool],
        solution: &Solution<'_>,
        (errors, df): (Option<&DVector<f64>>, i64),
    ) -> Vec<Coefficient> {
        let first = usize::from(study.method.intercept);
        let row = |term: &str, party: Role, estimate: Option<f64>, at: Option<usize>| {
            let error = errors.zip(at).map(|(errors, at)| errors[at]);
            Coefficient::new(term.to_string(), party, estimate, error, FAMILY, df as f64)
        };
        let mut rows = Vec::new();
        if study.method.intercept {
            let taken: f64 =
                solution.columns.iter().zip(solution.beta.iter()).map(|(column, b)| column.mean() * b).sum();
            rows.push(row(INTERCEPT, study.first(), Some(self.outcome.centre - taken), Some(0)));
        }
        for (block, place) in self.staying(stays) {
            let at = solution.columns.iter().position(|column| column.is(block, place));
            let estimate = at.map(|at| solution.beta[at] / solution.columns[at].scale());
            rows.push(row(&block.terms[place], block.party, estimate, at.map(|at| first + at)));
        }
        rows
    }

    /// The terms that stay: their blocks, and their places in these.
    fn staying<'a>(&'a self, stays: &'a [bool]) -> impl Iterator<Item = (&'a Block, usize)> {
        let terms = self.blocks.iter().flat_map(|block| (0..block.terms.len()).map(move |place| (block, place)));
        terms.zip(stays).filter(|(_, stays)| **stays).map(|(term, _)| term)
    }

    /// What is not estimated, in words; a fit with a penalty has every column of the table.
    fn set_aside(&self, stays: &[bool], solution: Option<&Solution<'_>>) -> Vec<String> {
        let list = |names: Vec<&str>| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let mut notes = Vec::new();
        for block in &self.blocks {
            let staying = || self.staying(stays).filter(|(of, _)| of.party == block.party).map(|(_, place)| place);
            let in_table = |place: &usize| block.places.contains(&(*place as u64));
            let estimated = |place: &usize| {
                solution.is_none_or(|solution| solution.columns.iter().any(|column| column.is(block, *place)))
            };
            let name = |place: usize| block.terms[place].as_str();
            let dependent: Vec<&str> = staying().filter(in_table).filter(|place| !estimated(place)).map(name).collect();
            if !dependent.is_empty() {
                let party = block.party;
                let depends = if dependent.len() == 1 { "it depends" } else { "they depend" };
                notes.push(format!(
                    "{party}: {} not estimated, since {depends} on other columns of the model",
                    list(dependent)
                ));
            }
            let absent: Vec<&str> = staying().filter(|place| !in_table(place)).map(name).collect();
            if !absent.is_empty() {
                let them = if absent.len() == 1 { "it" } else { "them" };
                notes.push(format!(
                    "{0}: {1} not estimated, since the fit had set {them} aside as constant or dependent on other columns of {0}, so that \
                     the table does not have {them}",
                    block.party,
                    list(absent)
                ));
            }
        }
        notes
    }

    fn statistics(&self, intercept: bool, deviance: f64, df: i64) -> Statistics {
        let used = self.used();
        // As of the fit: with the deviance alone the likelihood changes by its logarithm.
        let log_lik = self.unit_log_lik.map(|unit| unit - 0.5 * used as f64 * deviance.ln()).filter(|x| x.is_finite());
        let parameters = (used as i64 - df + 1) as f64;
        Statistics {
            nobs: used,
            df_residual: Some(df),
            df_null: Some(used as i64 - i64::from(intercept)),
            deviance: Some(deviance),
            null_deviance: Some(self.null_deviance),
            aic: log_lik.map(|log_lik| 2.0 * parameters - 2.0 * log_lik),
            bic: log_lik.map(|log_lik| (self.rows as f64).ln() * parameters - 2.0 * log_lik),
            log_lik,
            dispersion: (df > 0).then(|| deviance / df as f64),
            r_squared: self.explained(deviance),
        }
    }

    fn explained(&self, deviance: f64) -> Option<f64> {
        (self.null_deviance > 0.0).then(|| 1.0 - deviance / self.null_deviance)
    }

    /// Tests of the terms of each party beside those of all.
    fn tests(
        &self,
        study: &Study<Vertical>,
        (all, solution): (&DMatrix<f64>, &Solution<'_>),
        covariance: &DMatrix<f64>,
        (unit, df_residual): (f64, i64),
    ) -> Vec<TermTest> {
        let first = usize::from(study.method.intercept);
        let mut tests = Vec::new();
        for block in &self.blocks {
            let of = |column: &&Column<'_>| column.block.party == block.party;
            let start = solution.columns.iter().take_while(|column| !of(column)).count();
            let columns = &solution.columns[start..];
            let columns = &columns[..columns.iter().take_while(of).count()];
            let names: Vec<String> =
                columns.iter().map(|column| select::label(study, block.party, column.term())).collect();
            let containing = containing_of(study, block.party, &names);
            let estimate = |at: usize| solution.beta[start + at] / columns[at].scale();
            let slopes = names.iter().enumerate().map(|(at, term)| Slope { term, estimate: estimate(at) }).collect();
            let alone = DMatrix::from_fn(columns.len(), columns.len(), |i, j| {
                let product = all.column(columns[i].at).dot(&all.column(columns[j].at));
                product * columns[i].scale() * columns[j].scale() / unit
            });
            let size = (columns.len(), columns.len());
            let covariance = covariance.view((first + start, first + start), size).into_owned();
            let family = FAMILY.into();
            let slopes =
                Slopes { slopes, containing: &containing, covariance, alone: Some(alone), family, df_residual };
            tests.extend(slopes.tests(block.party));
        }
        tests
    }

    /// The fits along lambda to the columns that stay, the last of which is shown.
    fn penalised(
        &self,
        study: &Study<Vertical>,
        stays: &[bool],
        (all, outcome, columns): (&DMatrix<f64>, &DVector<f64>, &[Column<'_>]),
        terms: &PenaltyTerms,
    ) -> Refitted {
        let some = all.select_columns(&columns.iter().map(|column| column.at).collect::<Vec<_>>());
        let units = columns.iter().map(|column| column.block.units[column.own]).collect();
        let (joint, score) = (some.tr_mul(&some), some.tr_mul(outcome));
        let problem = Problem { joint, score, units, spread: self.outcome.spread, alpha: terms.alpha };
        let lambdas = problem.lambdas(terms.given(), self.rows as usize);
        let mut points = Vec::with_capacity(lambdas.len());
        let mut shown = Vec::new();
        for (along, lambda) in problem.along(&lambdas).zip(&lambdas) {
            let kkt = problem.penalty(*lambda).violation(&along.left, &along.beta);
            let residual = self.outcome.square - problem.score.dot(&along.beta) - along.left.dot(&along.beta);
            shown = self.penalised_table(study, stays, columns, &along.beta);
            points.push(point((*lambda, residual.max(0.0) * self.weight, kkt), &shown));
        }
        let last = points.last().map(|point| (point.lambda, point.deviance, point.kkt));
        let deviance = last.map(|(_, deviance, _)| deviance);
        let mut notes = self.set_aside(stays, None);
        notes.extend(penalised_notes());
        Refitted {
            coefficients: shown,
            statistics: Statistics {
                nobs: self.used(),
                df_null: Some(self.used() as i64 - i64::from(study.method.intercept)),
                deviance,
                null_deviance: Some(self.null_deviance),
                r_squared: deviance.and_then(|deviance| self.explained(deviance)),
                ..Statistics::default()
            },
            covariance: None,
            term_tests: None,
            shown_lambda: last.map(|(lambda, ..)| lambda),
            certificate: last.map(|(.., kkt)| kkt),
            path: Some(points).filter(|points| points.len() > 1),
            termination: Termination::Converged,
            notes,
            caution: None,
            statement: None,
        }
    }

    fn penalised_table(
        &self,
        study: &Study<Vertical>,
        stays: &[bool],
        columns: &[Column<'_>],
        beta: &DVector<f64>,
    ) -> Vec<Coefficient> {
        let row = |term: &str, party: Role, estimate: f64| {
            Coefficient::new(term.to_string(), party, Some(estimate), None, FAMILY, f64::NAN)
        };
        let mut rows = Vec::new();
        if study.method.intercept {
            let taken: f64 = columns.iter().zip(beta.iter()).map(|(column, b)| column.mean() * b).sum();
            rows.push(row(INTERCEPT, study.first(), self.outcome.centre - taken));
        }
        rows.extend(self.staying(stays).map(|(block, place)| {
            // A column that says nothing is zero, as glmnet reports it.
            let at = columns.iter().position(|column| column.is(block, place));
            row(&block.terms[place], block.party, at.map_or(0.0, |at| beta[at] / columns[at].scale()))
        }));
        rows
    }
}

impl Column<'_> {
    fn term(&self) -> &str {
        &self.block.terms[self.block.places[self.own] as usize]
    }

    fn is(&self, block: &Block, place: usize) -> bool {
        self.block.party == block.party && self.block.places[self.own] == place as u64
    }
}

fn dependent() -> Abort {
    Abort::Data("columns of the model depend on each other beyond what can be set aside; leave some out".to_string())
}

/// A square root of a matrix that rounding may have taken a little below zero in a direction.
fn root(square: &DMatrix<f64>) -> DMatrix<f64> {
    if let Some(definite) = Definite::from_gram(square) {
        return definite.factor().clone();
    }
    let mut eigen = SymmetricEigen::new(square.clone());
    eigen.eigenvalues.iter_mut().for_each(|value| *value = value.max(0.0).sqrt());
    DMatrix::from_diagonal(&eigen.eigenvalues) * eigen.eigenvectors.transpose()
}

/// What directions leave of a vector; twice, as once leaves errors of the size of the condition number.
fn left_of(vector: &DVector<f64>, directions: &[DVector<f64>]) -> DVector<f64> {
    let mut rest = vector.clone();
    for direction in directions.iter().chain(directions) {
        let share = direction.dot(&rest);
        rest.axpy(-share, direction, 1.0);
    }
    rest
}

/// Least squares of the outcome on independent columns; none where they are not.
fn solve<'a>(all: &DMatrix<f64>, outcome: &DVector<f64>, columns: Vec<Column<'a>>) -> Option<Solution<'a>> {
    let size = columns.len();
    let mut both = DMatrix::zeros(all.nrows(), size + 1);
    for (at, column) in columns.iter().enumerate() {
        both.set_column(at, &all.column(column.at));
    }
    both.set_column(size, outcome);
    let triangle = upper_factor(&both);
    let factor = Definite::from_factor(triangle.view((0, 0), (size, size)).into_owned())?;
    let mut beta = triangle.view((0, size), (size, 1)).column(0).into_owned();
    if size > 0 && !factor.factor().solve_upper_triangular_mut(&mut beta) {
        return None;
    }
    let residual = triangle[(size, size)].powi(2);
    Some(Solution { columns, beta, root: factor.inverse_factor(), residual })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn study(formula: &str) -> Study<Vertical> {
        let text = format!(
            "id = \"x\"\nmode = \"sealed\"\n[outcome]\ncolumn = \"y\"\n[parties.alice]\ncertificate = \"alice\"\n\
             formula = \"{formula}\"\n[parties.bob]\ncertificate = \"bob\"\ncolumns = [\"z\"]\n"
        );
        Study::parse(&text).unwrap().vertical().unwrap()
    }

    #[test]
    fn products_of_all_other_columns_are_contained_as_if_they_were_written_out() {
        for (rest, written) in [
            ("~ .^2", "~ (a + b + c)^2"),
            ("~ .^3", "~ (a + b + c)^3"),
            ("~ . + a:b", "~ a + b + c + a:b"),
            ("~ log(d) * .", "~ log(d) * (a + b + c)"),
            ("~ .", "~ a + b + c"),
        ] {
            let terms = Formula::parse(written).unwrap().terms(&[], &[]);
            let names: Vec<String> = terms.iter().map(ToString::to_string).collect();
            let of = |formula| containing_of(&study(formula), Role::Alice, &names);
            assert_eq!(of(rest), of(written), "{rest}");
            assert_eq!(of(rest).is_empty(), rest == "~ .", "{rest}");
        }
    }
}
