//! Ridge, lasso and elastic net of a sealed fit. Of a gaussian one from the table and both parties' factors: no row is needed any more.
//!
//! With `C`, `d` of the open table and the factors `R_a`, `R_b` the standardised columns have the cross-products
//! `S = [R_a'R_a, R_a'C R_b; ., R_b'R_b]`, and with the outcome `c = [R_a' q; R_b'(C'q + |e| d)]`, `q = Q_a'y / n`. The objective of
//! [`penalty`](crate::methods::vertical::penalty) is `b'S b / 2 - c'b` with the penalty, whatever the number of lambdas.
//!
//! Bob sends his factor, which with the table is the joint correlation table, and the units of his columns. Alice sends him, at each
//! lambda, lambda itself, the mean square of the residuals or the deviance per unit of weight, how far the optimality conditions are
//! violated, and his coefficients; and for each of his columns R squared on her columns and the outcome, which he cannot work out from
//! those. He answers with what his centring takes from the intercept at each lambda. Binomial and poisson fits stand in [`gradients`].

pub(super) mod gradients;

use nalgebra::{DMatrix, DVector};

use super::folds::{self, Sums, fold_numbers};
use super::kept::{self, Placed};
use super::results::outcome_on_bob;
use super::session::Work;
use crate::methods::vertical::masked::{length, out_of_order};
use crate::methods::vertical::message::{Joint, JointKind};
use crate::methods::vertical::penalty::{Along, PATH, Problem};
use crate::secure::gaussian::Table;
use crate::session::{Abort, PeerFault};
use crate::study::PenaltyTerms;

/// The fits along lambda, as one party sees them.
pub(super) struct Path {
    pub(super) fits: Vec<Fit>,
    /// At Bob: R squared of each own column on Alice's and the outcome. At Alice: of each own column on Bob's, and on the outcome where
    /// he holds it; the most that he could know.
    pub(super) shares: Vec<f64>,
    /// At Alice: R squared of the outcome on Bob's columns, the most that he could know.
    pub(super) outcome: f64,
    /// At Alice: what Bob's centring takes from the intercept, per lambda.
    pub(super) shifts: Vec<f64>,
    /// At Alice: mean held-out errors, fold by fold at every lambda.
    pub(super) fold_errors: Vec<f64>,
}

/// The fit at one lambda.
pub(super) struct Fit {
    pub(super) lambda: f64,
    /// Per unit of weight, where it is known; of a gaussian fit the mean square of the residuals.
    pub(super) deviance: Option<f64>,
    pub(super) kkt: f64,
    /// At Alice: the linear predictor where all columns, and an offset, are at their means.
    pub(super) constant: f64,
    /// Of the own standardised columns.
    pub(super) beta: DVector<f64>,
}

/// How many lambdas a fit has.
pub fn count(terms: &PenaltyTerms) -> usize {
    terms.given().map_or(PATH, |lambdas| lambdas.len())
}

pub(super) fn terms(work: &Work) -> Result<&PenaltyTerms, Abort> {
    work.study.method.penalty.as_ref().ok_or_else(out_of_order)
}

/// Numbers of Bob's factor with the units of his columns, and of his sums over the folds.
pub fn factor_numbers(columns: usize, folds: usize) -> usize {
    columns * (columns + 1) / 2 + columns + folds * fold_numbers(columns)
}

/// Numbers of the path that Alice sends.
pub fn path_numbers(lambdas: usize, columns: usize) -> usize {
    lambdas * (3 + columns) + columns
}

/// At Alice: what Bob says of his columns.
pub(super) struct Theirs {
    pub(super) factor: DMatrix<f64>,
    pub(super) units: Vec<f64>,
    /// Of each fold, where there is cross-validation.
    sums: Option<Vec<DMatrix<f64>>>,
    /// Where factors open for sub-models.
    pub(super) placed: Option<Vec<Placed>>,
}

/// The own factor, row by row from the diagonal on, the units of the own columns, what of the folds is to open with them, and where factors
/// open for sub-models the places of the columns.
pub(super) fn factor(work: &Work, folds: &[DMatrix<f64>]) -> Joint {
    let factor = &work.own.factor;
    let size = factor.ncols();
    let upper = (0..size).flat_map(|i| (i..size).map(move |j| factor[(i, j)]));
    Joint {
        what: JointKind::Factor,
        values: upper.chain(work.units.iter().copied()).chain(folds::sums(folds)).chain(kept::placed(work)).collect(),
    }
}

/// At Alice: Bob's factor, units and sums over the folds, and where factors open for sub-models the places of his columns.
pub(super) fn take_factor(size: usize, folds: usize, places: bool, values: &[f64]) -> Result<Theirs, PeerFault> {
    let expected = factor_numbers(size, folds) + if places { kept::placed_numbers(size) } else { 0 };
    if values.len() != expected {
        return Err(length("a factor", values.len(), expected));
    }
    let (values, placed) = values.split_at(factor_numbers(size, folds));
    let placed = places.then(|| kept::take_placed(size, placed)).transpose()?;
    let (values, sums) = values.split_at(factor_numbers(size, 0));
    let (upper, units) = values.split_at(values.len() - size);
    let mut next = upper.iter();
    let mut factor = DMatrix::zeros(size, size);
    for i in 0..size {
        for j in i..size {
            factor[(i, j)] = next.next().copied().unwrap_or_default();
        }
    }
    // Columns of mean square 1.
    let sound = |j: usize| (factor.column(j).norm_squared() - 1.0).abs() <= 1e-6 && factor[(j, j)] > 0.0;
    if !(0..size).all(sound) || units.iter().any(|unit| !(*unit >= 0.0 && *unit <= 1.0 + 1e-6)) {
        return Err(PeerFault::Value { what: "a factor", expected: "possible", round: 1 });
    }
    let sums = (folds > 0).then(|| folds::take_sums(size, folds, sums)).transpose()?;
    Ok(Theirs { factor, units: units.to_vec(), sums, placed })
}

/// At Alice: the fits, and what goes to Bob.
pub(super) fn solve(
    work: &Work,
    table: &Table,
    Theirs { factor: theirs, units, sums, .. }: &Theirs,
) -> Result<(Path, Joint), Abort> {
    let terms = terms(work)?;
    let outcome = work.own.outcome.as_ref().ok_or_else(out_of_order)?;
    let (own, bob) = (&work.own.factor, theirs.ncols());
    let alice = own.ncols();
    let size = alice + bob;
    let across = own.tr_mul(table.cross()) * theirs;
    let mut joint = DMatrix::zeros(size, size);
    joint.view_mut((0, 0), (alice, alice)).copy_from(&own.tr_mul(own));
    joint.view_mut((alice, alice), (bob, bob)).copy_from(&theirs.tr_mul(theirs));
    joint.view_mut((0, alice), (alice, bob)).copy_from(&across);
    joint.view_mut((alice, 0), (bob, alice)).copy_from(&across.transpose());
    let mut score = DVector::zeros(size);
    score.rows_mut(0, alice).copy_from(&own.tr_mul(&outcome.along));
    score.rows_mut(alice, bob).copy_from(&theirs.tr_mul(&table.outcome(outcome)));
    let units: Vec<f64> = work.units.iter().chain(units).copied().collect();
    let problem = Problem { joint, score, units, spread: work.spread, alpha: terms.alpha };
    let lambdas = problem.lambdas(terms.given(), work.rows);
    let score = &problem.score;
    let (mut fits, mut values) = (Vec::new(), Vec::new());
    for (along, lambda) in problem.along(&lambdas).zip(&lambdas) {
        let Along { beta, left } = &along;
        let kkt = problem.penalty(*lambda).violation(left, beta);
        let residual = (outcome.square - score.dot(beta) - left.dot(beta)).max(0.0);
        let part = beta.rows(alice, bob).into_owned();
        let (deviance, constant) = (Some(residual), outcome.centre);
        let fit = Fit { lambda: *lambda, deviance, kkt, constant, beta: beta.rows(0, alice).into_owned() };
        fit.tell(&part, &mut values);
        fits.push(fit);
    }
    let sums = sums.as_ref().map(|theirs| Sums::new(&work.moments, &work.tables, theirs));
    let fold_errors = match &sums {
        Some(sums) => folds::errors(work, table, sums, theirs, &lambdas)?,
        None => Vec::new(),
    };
    match &sums {
        Some(sums) => values.extend(sums.shares_of_bob(alice + 1, theirs)),
        None => values.extend(shares_of_bob(table, theirs)),
    }
    let (shares, outcome) = match &sums {
        Some(sums) if work.opens_to_both() => {
            let known = work.outcome_at_both().then_some(outcome);
            (sums.shares_of_alice(own, known), sums.share_of_outcome(outcome))
        }
        Some(_) | None => (shares_of_alice(work, table), outcome_on_bob(table, outcome)),
    };
    let path = Path { fits, shares, outcome, shifts: Vec::new(), fold_errors };
    Ok((path, Joint { what: JointKind::Path, values }))
}

/// What is said of a deviance that is not known.
const UNKNOWN: f64 = -1.0;

impl Fit {
    /// What Bob is told, with his coefficients.
    fn tell(&self, theirs: &DVector<f64>, values: &mut Vec<f64>) {
        values.extend([self.lambda, self.deviance.unwrap_or(UNKNOWN), self.kkt]);
        values.extend(theirs.iter());
    }
}

/// R squared of each column of Bob on Alice's columns and the outcome.
pub(super) fn shares_of_bob(table: &Table, factor: &DMatrix<f64>) -> impl Iterator<Item = f64> {
    let held = table.cross() * factor;
    let along = factor.tr_mul(table.along());
    (0..factor.ncols()).map(move |j| (held.column(j).norm_squared() + along[j] * along[j]).min(1.0))
}

/// R squared of each column of Alice on Bob's, and on the outcome where he holds it too.
pub(super) fn shares_of_alice(work: &Work, table: &Table) -> Vec<f64> {
    let held = table.cross().tr_mul(&work.own.factor);
    let Some(outcome) = work.own.outcome.as_ref().filter(|_| work.outcome_at_both()) else {
        return held.column_iter().map(|column| column.norm_squared().min(1.0)).collect();
    };
    // What Bob's columns leave of the outcome, in Alice's coordinates, and its mean square.
    let with_bob = table.outcome(outcome);
    let rest = &outcome.along - table.cross() * &with_bob;
    let square = outcome.square - with_bob.norm_squared();
    let beside = work.own.factor.tr_mul(&rest);
    let of = |(j, column): (usize, nalgebra::DVectorView<'_, f64>)| {
        let more = if square > 0.0 { beside[j] * beside[j] / square } else { 0.0 };
        (column.norm_squared() + more).min(1.0)
    };
    held.column_iter().enumerate().map(of).collect()
}

/// At Bob: the fits as Alice has sent them.
pub(super) fn take_path(terms: &PenaltyTerms, size: usize, partly: bool, values: &[f64]) -> Result<Path, PeerFault> {
    let expected = path_numbers(count(terms), size);
    let fewer = (1..count(terms)).any(|lambdas| values.len() == path_numbers(lambdas, size));
    if values.len() != expected && !(partly && fewer) {
        return Err(length("a path", values.len(), expected));
    }
    let (all, shares) = values.split_at(values.len() - size);
    let fits: Vec<Fit> = all
        .chunks_exact(3 + size)
        .map(|part| Fit {
            lambda: part[0],
            deviance: (part[1] != UNKNOWN).then_some(part[1]),
            kkt: part[2],
            constant: 0.0,
            beta: DVector::from_column_slice(&part[3..]),
        })
        .collect();
    let agreed =
        terms.given().is_none_or(|lambdas| lambdas.iter().zip(&fits).all(|(lambda, fit)| *lambda == fit.lambda));
    let known = |fit: &Fit| fit.deviance.map_or(partly, |deviance| deviance >= 0.0);
    let possible = fits.iter().all(|fit| fit.lambda >= 0.0 && known(fit) && fit.kkt >= 0.0)
        && fits.windows(2).all(|pair| pair[0].lambda >= pair[1].lambda)
        && shares.iter().all(|share| (0.0..=1.0).contains(share));
    if !agreed || !possible {
        return Err(PeerFault::Value { what: "a path", expected: "possible", round: 1 });
    }
    Ok(Path { fits, shares: shares.to_vec(), outcome: 0.0, shifts: Vec::new(), fold_errors: Vec::new() })
}

/// What the own centring takes from the intercept, at each lambda.
pub(super) fn shifts(work: &Work, path: &Path) -> Vec<f64> {
    let of = |fit: &Fit| {
        let columns = fit.beta.iter().zip(&work.scalings);
        columns.map(|(beta, scaling)| scaling.centre * beta / scaling.scale).sum()
    };
    path.fits.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::Lambda;

    fn terms(lambda: Lambda) -> PenaltyTerms {
        PenaltyTerms { lambda, alpha: 1.0, cv: None, folds: None }
    }

    #[test]
    fn a_factor_that_no_columns_can_have_is_refused() {
        // Two columns with correlation 0.6, row by row from the diagonal on, and their units.
        let sound = [1.0, 0.6, 0.8, 1.0, 1.0];
        let Theirs { factor, units, sums, .. } = take_factor(2, 0, false, &sound).unwrap();
        assert_eq!((factor[(0, 1)], factor[(1, 0)], units, sums), (0.6, 0.0, vec![1.0, 1.0], None));
        let spoiled = |at: usize, value: f64| {
            let mut values = sound;
            values[at] = value;
            take_factor(2, 0, false, &values)
        };
        // A column of another size, one that is turned round, one that vanishes beside the first, a unit that no column has.
        for (at, value) in [(0, 2.0), (0, -1.0), (2, 0.0), (3, -0.1), (4, 1.5), (1, f64::NAN)] {
            assert!(matches!(spoiled(at, value), Err(PeerFault::Value { .. })), "{at} {value}");
        }
        assert!(matches!(take_factor(2, 0, false, &sound[..4]), Err(PeerFault::Length { .. })));
    }

    #[test]
    fn a_path_that_is_not_the_study_s_is_refused() {
        let given = terms(Lambda::Many(vec![0.1, 0.5, 0.1]));
        // At each lambda: lambda, mean square, violation, one coefficient; then the share of the column.
        let sound = [0.5, 2.0, 0.0, 0.1, 0.1, 1.0, 0.0, 0.7, 0.25];
        let path = take_path(&given, 1, false, &sound).unwrap();
        assert_eq!((path.fits.len(), path.fits[1].beta[0], path.shares), (2, 0.7, vec![0.25]));
        let spoiled = |at: usize, value: f64| {
            let mut values = sound;
            values[at] = value;
            take_path(&given, 1, false, &values).map(drop)
        };
        for (at, value) in [(0, 0.4), (1, -1.0), (2, f64::NAN), (4, 0.5), (8, 1.1), (8, -0.1)] {
            assert!(matches!(spoiled(at, value), Err(PeerFault::Value { .. })), "{at} {value}");
        }
        assert!(matches!(take_path(&given, 1, false, &sound[1..]), Err(PeerFault::Length { .. })));
        assert!(matches!(take_path(&given, 2, false, &sound), Err(PeerFault::Length { .. })));
        assert_eq!((count(&given), count(&terms(Lambda::One(1.0)))), (2, 1));
    }
}
