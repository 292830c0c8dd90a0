//! What a session yields: the coefficient table, fit statistics, disclosure, and the party's model.

pub(super) mod own;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub(super) use self::own::{Own, own};
use crate::data::counted;
use crate::data::functions::Learnt;
use crate::fit::{Coefficient, Covariance, INTERCEPT, Performance, Statistics, TermTest, Termination};
use crate::glm::{Family, StatedFamily};
use crate::id::{Role, RunId};
use crate::methods::vertical::pair::Pair;
use crate::privacy::caution::Caution;
use crate::privacy::release::Declaration;
use crate::report::{ColumnDisclosure, CvPoint, Disclosure, PathCoefficient, PathPoint, TracePoint};
use crate::session::{Abort, PeerFault};
use crate::study::{CoefficientTerms, HeldAs, HeldColumn, Study, Vertical};

use super::fits::Fitted;
use super::message::{FitEnd, Results};
use super::names;
use super::prepare::Encoded;
use super::refit::Kept;
use super::session::Work;

/// How notes name what a party that holds a binomial outcome computes beside the fit.
pub(super) const PERFORMANCE: &str = "discrimination and calibration";

/// What one side gets out of a vertical fit.
#[derive(Debug, Clone, PartialEq)]
pub struct VerticalFit {
    /// Own rows, and all others' where the study shares them: those of the first party first.
    pub coefficients: Vec<Coefficient>,
    /// Fit statistics.
    pub statistics: Statistics,
    /// Why it ended.
    pub termination: Termination,
    /// Exchanges, over all fits of the run.
    pub rounds: u32,
    /// The course of the last fit to all rows.
    pub trace: Vec<TracePoint>,
    /// Scaled gradient at the end, on this side.
    pub certificate: f64,
    /// What the reader must know before the numbers.
    pub caution: Option<Caution>,
    /// What the reader must know.
    pub notes: Vec<String>,
    /// Rows left out because a value was missing at either party.
    pub missing: u64,
    /// What left this side.
    pub disclosure: Disclosure,
    /// The fits along lambda, own coefficients.
    pub path: Option<Vec<PathPoint>>,
    /// Cross-validation.
    pub cv: Option<Vec<CvPoint>>,
    /// Lambda of the smallest error, and the largest within one standard error.
    pub lambda: Option<(f64, f64)>,
    /// The penalty weight to which the coefficients belong.
    pub shown_lambda: Option<f64>,
    /// Covariance of the own coefficients.
    pub covariance: Option<Covariance>,
    /// Tests and variance inflation of the own terms.
    pub term_tests: Option<Vec<TermTest>>,
    /// Discrimination and calibration, at the party that holds a binomial outcome.
    pub performance: Option<Performance>,
    /// What this side needs to score new rows.
    pub model: Model,
    /// What this side keeps for sub-models, where tables have opened to it for these.
    pub kept: Option<Kept>,
}

/// One party's part of a fitted model, for predicting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// The study's digest, so that a model of another study is refused.
    pub study: String,
    /// The run that fitted it: both parties' parts must come from the same one.
    pub run: String,
    /// Whose part it is.
    pub role: Role,
    /// Family of the model.
    pub family: Family,
    /// The own intercept, where this party holds it.
    pub intercept: f64,
    /// Own terms in order; `None` for one that was set aside.
    pub terms: Vec<(String, Option<f64>)>,
    /// Levels of the own categorical columns and functions, the reference first.
    pub levels: BTreeMap<String, Vec<String>>,
    /// What functions in the formula took from the columns, by term: coefficients of a polynomial, knots, a centre and a scale.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub functions: Learnt,
}

pub(super) fn disclosure_refused(who: Role, share: f64, most: f64) -> Abort {
    Abort::Policy {
        who,
        what: format!(
            "the next message would let the peer reconstruct {:.1} % of a column's variance, at most {:.1} % are allowed",
            100.0 * share,
            100.0 * most
        ),
    }
}

/// The results that this side sends.
pub(super) fn results(work: &Work) -> Result<Results, Abort> {
    let statistics = work.study.is_first(work.role).then(|| statistics(work)).transpose()?.map(defined);
    let ends: Vec<FitEnd> = work.fits.fitted.iter().map(|fit| fit.end).collect();
    let coefficients = match work.study.method.fit.coefficients {
        CoefficientTerms::Own => None,
        CoefficientTerms::Shared => Some(table(work, chosen(work), dispersion(work))),
    };
    Ok(Results { fits: ends, fold_errors: work.fits.fold_errors.clone(), statistics, coefficients })
}

/// Without what overflows, as where rounds ended far from the maximum.
fn defined(mut statistics: Statistics) -> Statistics {
    let Statistics { deviance, null_deviance, aic, bic, log_lik, dispersion, r_squared, .. } = &mut statistics;
    for value in [deviance, null_deviance, aic, bic, log_lik, dispersion, r_squared] {
        *value = value.filter(|value| value.is_finite());
    }
    statistics
}

/// Checks and keeps the peer's results.
pub(super) fn check_results(
    study: &Study<Vertical>,
    own: &[Fitted],
    folds: usize,
    (role, peer): (Role, Role),
    results: &Results,
) -> Result<(), PeerFault> {
    if results.fits.len() != own.len() {
        let came = results.fits.len() as u64;
        return Err(PeerFault::Length { what: "fits", came, expected: own.len() as u64 });
    }
    if !results.fold_errors.is_empty() && results.fold_errors.len() != folds {
        let came = results.fold_errors.len() as u64;
        return Err(PeerFault::Length { what: "errors of folds", came, expected: folds as u64 });
    }
    let finite = results.fits.iter().all(|fit| fit.shift.is_finite() && fit.certificate >= 0.0)
        && results.fold_errors.iter().all(|error| *error >= 0.0);
    if !finite {
        return Err(PeerFault::Value { what: "results", expected: "finite", round: 0 });
    }
    check_shown(study, (role, peer), results)
}

/// Checks that the peer shows the coefficients that the study gives it to show, and the first party the statistics.
pub(super) fn check_shown(
    study: &Study<Vertical>,
    (role, peer): (Role, Role),
    results: &Results,
) -> Result<(), PeerFault> {
    let shared = study.method.fit.coefficients == CoefficientTerms::Shared;
    let shown = names::shown_by(study, peer, role);
    let owned = results.coefficients.iter().flatten().all(|row| shown.contains(&row.party));
    if results.coefficients.is_some() != shared || !owned {
        return Err(PeerFault::Kind { came: "coefficients", expected: "those that the study shares" });
    }
    names::given(study, &shown, results.coefficients.as_deref().unwrap_or_default())?;
    if results.statistics.is_some() != study.is_first(peer) {
        return Err(PeerFault::Kind {
            came: "fit statistics",
            expected: "those of the party that holds the intercept",
        });
    }
    Ok(())
}

/// Which fit the coefficient table shows: that of the best lambda where there was cross-validation, else the last.
fn chosen(work: &Work) -> usize {
    let last = work.fits.fitted.len().saturating_sub(1);
    match cross_validation(work) {
        Some((points, best, _)) => points.iter().position(|point| point.lambda == best).unwrap_or(last),
        None => last,
    }
}

/// The points, lambda of the smallest error, and the largest within one standard error.
pub(super) type CrossValidation = (Vec<CvPoint>, f64, f64);

fn cross_validation(work: &Work) -> Option<CrossValidation> {
    let folds = work.study.method.penalty.as_ref()?.cv?;
    let lambdas: Vec<f64> =
        work.fits.jobs().iter().filter(|job| job.fold.is_none()).filter_map(|job| job.lambda).collect();
    over_folds(best_errors(work), folds, &lambdas, &work.encoded)
}

/// Means and standard errors over the folds, as cv.glmnet computes them from the folds' weighted means; `fold_errors` are those of each
/// fold at every lambda. None where there are others than expected.
pub(super) fn over_folds(
    fold_errors: &[f64],
    folds: u32,
    lambdas: &[f64],
    encoded: &Encoded,
) -> Option<CrossValidation> {
    let folds = folds as usize;
    if fold_errors.len() != folds * lambdas.len() || lambdas.is_empty() {
        return None;
    }
    let mut weights = vec![0.0; folds];
    for (row, fold) in encoded.folds.as_ref()?.iter().enumerate() {
        weights[*fold as usize - 1] += encoded.weights.as_ref().map_or(1.0, |weights| weights[row]);
    }
    let total: f64 = weights.iter().sum();
    let points: Vec<CvPoint> = lambdas
        .iter()
        .enumerate()
        .map(|(index, lambda)| {
            let error = |fold: usize| fold_errors[fold * lambdas.len() + index];
            let mean = (0..folds).map(|fold| weights[fold] * error(fold)).sum::<f64>() / total;
            let spread = (0..folds).map(|fold| weights[fold] * (error(fold) - mean).powi(2)).sum::<f64>() / total;
            CvPoint { lambda: *lambda, mean, se: (spread / (folds as f64 - 1.0)).sqrt() }
        })
        .collect();
    // Of equal errors the larger lambda, as glmnet.
    let mut best = points.first()?;
    for point in &points {
        if point.mean < best.mean {
            best = point;
        }
    }
    let (lambda_min, limit) = (best.lambda, best.mean + best.se);
    let lambda_1se =
        points.iter().filter(|point| point.mean <= limit).map(|point| point.lambda).fold(lambda_min, f64::max);
    Some((points, lambda_min, lambda_1se))
}

fn df_residual(work: &Work) -> i64 {
    let rows = work.encoded.block.rows() - work.encoded.unweighted;
    rows as i64 - (work.encoded.block.columns() + work.peer_columns) as i64
}

/// The dispersion, where this side can tell: 1, or from the sum of squares of the working residuals at the joint solution.
pub(super) fn dispersion(work: &Work) -> Option<f64> {
    let df = df_residual(work);
    match (work.study.method.stated_family().estimates_dispersion(), &work.inference) {
        // Of another family than gaussian the working residuals are Pearson's.
        (true, Some(learnt)) if df > 0 && is_number(work, learnt.residual) => Some(learnt.residual / df as f64),
        (true, _) => None,
        (false, _) => Some(1.0),
    }
}

/// Pearson's chi-square above this is made of rows whose variance vanishes in double precision, and no number to go by.
const MOST_SQUARES: f64 = 1e200;

fn is_number(work: &Work, residual: f64) -> bool {
    work.study.method.family == Family::Gaussian || residual < MOST_SQUARES
}

/// The dispersion that a family states itself.
pub(super) fn known_dispersion(family: Family) -> Option<f64> {
    match family {
        Family::Gaussian => None,
        Family::Binomial | Family::Poisson => Some(1.0),
    }
}

fn statistics(work: &Work) -> Result<Statistics, Abort> {
    let (study, block) = (&work.study, &work.encoded.block);
    let Some(fitted) = work.fits.fitted.get(chosen(work)) else {
        return Err(Abort::Bug("no fit to describe".to_string()));
    };
    let family = study.method.family;
    let weights = work.encoded.weights.as_deref();
    let y = work.encoded.outcome.as_deref().unwrap_or_default();
    let saturated = saturated(family, y, weights);
    let mut deviance = (2.0 * (fitted.loss - saturated)).max(0.0);
    if study.method.penalty.is_none() && family != Family::Gaussian {
        // Row by row: of large counts the two sums have few digits of their difference.
        deviance = block.deviance();
    }
    if let Some(learnt) = &work.inference {
        // Of a gaussian fit what the joint step leaves of the working residual is the deviance.
        deviance = match family {
            Family::Gaussian => learnt.residual,
            Family::Binomial | Family::Poisson => (deviance - learnt.gained).max(0.0),
        };
    }
    let null_deviance = work.null_deviance;
    let rows = (block.rows() - work.encoded.unweighted) as u64;
    let df = df_residual(work);
    let df_null = rows as i64 - i64::from(study.method.intercept);
    if study.method.penalty.is_some() {
        return Ok(Statistics {
            nobs: rows,
            df_null: Some(df_null),
            deviance: Some(deviance),
            null_deviance: Some(null_deviance),
            dispersion: known_dispersion(family),
            r_squared: r_squared(family, deviance, null_deviance),
            ..Statistics::default()
        });
    }
    let pearson = study.method.quasi.then(|| match &work.inference {
        Some(learnt) => learnt.residual,
        None => block.pearson(),
    });
    let fit = Deviances { df, deviance, null_deviance, pearson };
    Ok(unpenalised(study, &work.encoded, &fit, |row| block.predictor(row)))
}

/// What the statistics of a fit without a penalty follow from.
pub(super) struct Deviances {
    /// Residual degrees of freedom.
    pub(super) df: i64,
    /// Of the fit.
    pub(super) deviance: f64,
    /// Of the null model.
    pub(super) null_deviance: f64,
    /// Pearson's chi-square of the fit, where only that gives the dispersion.
    pub(super) pearson: Option<f64>,
}

/// The statistics of a fit without a penalty; `predictor` is the linear predictor of a row, which the gaussian family does not need.
pub(super) fn unpenalised(
    study: &Study<Vertical>,
    encoded: &Encoded,
    fit: &Deviances,
    predictor: impl Fn(usize) -> f64,
) -> Statistics {
    let Deviances { df, deviance, null_deviance, pearson } = *fit;
    let (family, stated) = (study.method.family, study.method.stated_family());
    let (y, weights) = (encoded.outcome.as_deref().unwrap_or_default(), encoded.weights.as_deref());
    let rows = y.len() - encoded.unweighted;
    let dispersion = match stated {
        StatedFamily::Gaussian => (df > 0).then(|| deviance / df as f64),
        StatedFamily::Quasibinomial | StatedFamily::Quasipoisson => {
            pearson.filter(|sum| df > 0 && *sum < MOST_SQUARES).map(|sum| sum / df as f64)
        }
        StatedFamily::Binomial | StatedFamily::Poisson => Some(1.0),
    };
    let log_lik = family.log_likelihood(y, weights, deviance, predictor);
    let parameters = (rows as i64 - df + i64::from(stated.estimates_dispersion())) as f64;
    let defined = |value: f64| value.is_finite().then_some(value);
    // Mean and variance alone have no likelihood. R takes the logarithm of all rows, those of weight zero included.
    let none = stated.is_quasi() || stated.without_likelihood(y, encoded.unweighted > 0).is_some();
    let log_lik = if none { None } else { defined(log_lik) };
    Statistics {
        nobs: rows as u64,
        df_residual: Some(df),
        df_null: Some(rows as i64 - i64::from(study.method.intercept)),
        deviance: Some(deviance),
        null_deviance: Some(null_deviance),
        aic: log_lik.map(|log_lik| 2.0 * parameters - 2.0 * log_lik),
        bic: log_lik.map(|log_lik| (y.len() as f64).ln() * parameters - 2.0 * log_lik),
        log_lik,
        dispersion,
        r_squared: r_squared(family, deviance, null_deviance),
    }
}

/// The outcome's weighted sum of squares about its mean without each fold, for a partner that does not hold it.
pub(super) fn fold_totals(encoded: &Encoded, intercept: bool) -> Vec<f64> {
    let (Some(folds), Some(y)) = (&encoded.folds, &encoded.outcome) else {
        return Vec::new();
    };
    let count = folds.iter().copied().max().unwrap_or(0);
    let weight = |i: usize| encoded.weights.as_ref().map_or(1.0, |weights| weights[i]);
    let value = |i: usize| y[i] - encoded.offset.as_ref().map_or(0.0, |offset| offset[i]);
    (1..=count)
        .map(|fold| {
            let kept = || (0..y.len()).filter(|i| folds[*i] != fold);
            let sum: f64 = kept().map(weight).sum();
            let mean = if intercept { kept().map(|i| weight(i) * value(i)).sum::<f64>() / sum } else { 0.0 };
            kept().map(|i| weight(i) * (value(i) - mean).powi(2)).sum()
        })
        .collect()
}

fn r_squared(family: Family, deviance: f64, null_deviance: f64) -> Option<f64> {
    (family == Family::Gaussian && null_deviance > 0.0).then(|| 1.0 - deviance / null_deviance)
}

fn saturated(family: Family, y: &[f64], weights: Option<&[f64]>) -> f64 {
    let weight = |i: usize| weights.map_or(1.0, |weights| weights[i]);
    (0..y.len()).filter(|i| weight(*i) > 0.0).map(|i| weight(i) * family.saturated(y[i])).sum()
}

fn best_errors(work: &Work) -> &[f64] {
    match &work.peer {
        Some(peer) if !peer.fold_errors.is_empty() => &peer.fold_errors,
        _ => &work.fits.fold_errors,
    }
}

/// The share of the null deviance below which what a gaussian fit leaves over is rounding: residuals of 1e-12 of the outcome's deviation.
const PERFECT: f64 = 1e-24;

/// What that means.
pub(super) const WHOLE_FIT: &str =
    "the columns fit the outcome perfectly, up to rounding: dispersion, standard errors and tests are made of rounding";

/// The own rows of the coefficient table, on the original scale.
fn table(work: &Work, fit: usize, dispersion: Option<f64>) -> Vec<Coefficient> {
    let (study, block, df) = (&work.study, &work.encoded.block, df_residual(work));
    let Some(fitted) = work.fits.fitted.get(fit) else {
        return Vec::new();
    };
    let inference = work.inference.as_ref().map(|learnt| &learnt.inference);
    let step = |j: usize| inference.map_or(0.0, |inference| inference.step[j]);
    let scalings = block.scalings();
    let slope = |j: usize| (fitted.beta[j] + step(j)) / scalings[j].scale;
    let errors = own::errors(work, dispersion);
    let error = |j: usize| errors.as_ref()?.get(j).copied();
    let mut rows = Vec::new();
    let family = study.method.stated_family();
    let mut add = |term: &str, estimate: Option<f64>, std_error: Option<f64>| {
        rows.push(Coefficient::new(term.to_string(), work.role, estimate, std_error, family, df as f64));
    };
    if block.has_intercept() {
        let shift: f64 = (1..block.columns()).map(|j| scalings[j].centre * slope(j)).sum();
        let peer_shift = work.peer.as_ref().and_then(|peer| peer.fits.get(fit)).map_or(0.0, |end| end.shift);
        add(INTERCEPT, Some(fitted.beta[0] + step(0) - shift - peer_shift), error(0));
    }
    for (place, term) in work.encoded.terms.iter().enumerate() {
        match block.places().iter().position(|kept| *kept == Some(place)) {
            Some(j) => add(term, Some(slope(j)), error(j)),
            // glmnet reports a column that says nothing as zero, glm as not defined.
            None => add(term, study.method.penalty.as_ref().map(|_| 0.0), None),
        }
    }
    rows
}

pub(super) fn finish(work: &Work, run: RunId) -> Result<VerticalFit, Abort> {
    let role = work.role;
    let Some(peer) = &work.peer else {
        return Err(Abort::Bug("the peer's results are missing".to_string()));
    };
    let statistics = match (role, &work.own_results) {
        (first, Some(own)) if work.study.is_first(first) => own.statistics.clone(),
        _ => peer.statistics.clone(),
    };
    let statistics = statistics.unwrap_or_default();
    let (validated, fit) = (cross_validation(work), chosen(work));
    let own = table(work, fit, statistics.dispersion);
    let model = model(&work.study, role, &work.encoded, run, &own);
    let (covariance, term_tests) = own::inferred(work, &own, statistics.dispersion, df_residual(work));
    let theirs = peer.coefficients.clone().unwrap_or_default();
    let covariance = covariance.map(|own| own::with_peer(work, own, &theirs));
    let coefficients = in_order(&work.study, [own, theirs].concat());
    let path = work.study.method.penalty.as_ref().map(|_| path(work, peer));
    let terminations = work.fits.fitted.iter().map(|fitted| fitted.termination);
    let mut termination = terminations.clone().find(|reason| !reason.converged()).unwrap_or(Termination::Converged);
    if work.redone && termination.converged() {
        termination = Termination::CollinearAcrossParties;
    }
    let performance = own::performance(work, termination);
    let mut notes = notes(work, termination);
    notes.extend(whole_fit_note(&work.study, &statistics).filter(|_| termination.converged()));
    notes.extend(performance.as_ref().err().map(|why| format!("{PERFORMANCE}: {why}")));
    Ok(VerticalFit {
        coefficients,
        statistics,
        termination,
        rounds: work.fits.rounds(),
        trace: work.fits.trace.clone(),
        certificate: work.fits.fitted.get(fit).map_or(0.0, |fitted| fitted.end.certificate),
        caution: None,
        notes,
        missing: work.encoded.complete.as_ref().map_or(0, |complete| complete.dropped.count() as u64),
        disclosure: disclosure(work),
        path: path.filter(|path| path.len() > 1 || validated.is_some()),
        cv: validated.as_ref().map(|(points, _, _)| points.clone()),
        lambda: validated.map(|(_, best, within)| (best, within)),
        shown_lambda: work.fits.lambda_of(fit),
        covariance,
        term_tests,
        performance: performance.unwrap_or_default(),
        model,
        kept: None,
    })
}

/// Rows of the coefficient table party by party, in the study's order.
pub(super) fn in_order(study: &Study<Vertical>, mut rows: Vec<Coefficient>) -> Vec<Coefficient> {
    let order = study.parties_in_order();
    rows.sort_by_key(|row| order.iter().position(|role| *role == row.party));
    rows
}

fn path(work: &Work, peer: &Results) -> Vec<PathPoint> {
    let y = work.encoded.outcome.as_deref().unwrap_or_default();
    let saturated = saturated(work.study.method.family, y, work.encoded.weights.as_deref());
    work.fits
        .jobs()
        .iter()
        .filter(|job| job.fold.is_none())
        .zip(&work.fits.fitted)
        .enumerate()
        .map(|(index, (job, fitted))| {
            let rows = table(work, index, None);
            let kept = rows.iter().filter(|row| row.term != INTERCEPT && row.estimate.is_some_and(|b| b != 0.0));
            PathPoint {
                lambda: job.lambda.unwrap_or(0.0),
                df: kept.count() as u64,
                deviance: (2.0 * (fitted.loss - saturated)).max(0.0),
                kkt: fitted.end.certificate.max(peer.fits.get(index).map_or(0.0, |end| end.certificate)),
                coefficients: rows
                    .into_iter()
                    .map(|row| PathCoefficient { term: row.term, party: row.party, estimate: row.estimate })
                    .collect(),
            }
        })
        .collect()
}

fn notes(work: &Work, termination: Termination) -> Vec<String> {
    let mut notes = work.encoded.notes.clone();
    let estimated = work.study.method.stated_family().estimates_dispersion();
    notes.extend(below_rounding(work).filter(|_| termination.converged()));
    notes.extend(data_notes(&work.study, work.role, &work.encoded, work.encoded.block.dropped()));
    if work.study.method.penalty.is_some() {
        notes.push("penalised estimates have no standard errors".to_string());
    } else if let Some(reason) = &work.no_inference {
        notes.push(format!("standard errors: {reason}"));
        notes.push("dependence of columns across the parties: not checked, which needs the basis exchange".to_string());
    } else if work.inference.is_none() && termination.converged() {
        notes.push("standard errors: not computed, since columns depend on each other to the last digit".to_string());
    } else if work.inference.is_none() {
        notes.push("standard errors: not computed, since the fit did not converge".to_string());
    } else if work.inference.as_ref().is_some_and(|learnt| !is_number(work, learnt.residual)) && estimated {
        // Robust standard errors need no dispersion.
        let what = match work.study.method.inference.errors.is_model() {
            true => "dispersion and standard errors",
            false => "dispersion",
        };
        notes.push(format!(
            "{what}: not computed, since the variance of rows with a residual vanishes in double precision"
        ));
    }
    notes.extend(robust_note(work));
    let offset = work.encoded.offset.as_ref().filter(|_| termination == Termination::MaxRounds);
    notes.extend(offset.and_then(|offset| offset_note(&work.study, offset)));
    notes
}

/// Values of an offset that are further apart than this are hardly logarithms.
const APART: f64 = 100.0;

/// What may be wrong with an offset beside which the rounds came to no end.
fn offset_note(study: &Study<Vertical>, offset: &[f64]) -> Option<String> {
    let name = &study.method.offset.as_ref()?.column;
    let (least, most) = offset.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), x| (a.min(*x), b.max(*x)));
    (study.method.family != Family::Gaussian && most - least > APART).then(|| {
        format!(
            "offset `{name}`: its values are far apart, and it is added to the linear predictor as it is; of an exposure the \
             offset is the logarithm, log({name})"
        )
    })
}

/// What the reader must know of errors from residuals.
fn robust_note(work: &Work) -> Option<String> {
    let (kind, inference) = (work.study.method.inference.errors, work.inference.as_ref()?);
    if kind.is_model() {
        return None;
    }
    let name = kind.name();
    // The party that receives bases: it alone has all columns, or what they span, beside the residuals.
    let study = &work.study;
    let receiver = study.leader_of_several().unwrap_or_else(|| study.peer(study.sender()));
    Some(match inference.inference.robust.is_some() {
        true => format!(
            "standard errors: {name}, from the residuals of the rows, as are intervals, the covariance and the tests of terms; measures of \
             the whole fit are the model's. For them {receiver} sent, beside a projection table, a second table of its size: the \
             covariance that follows from squared residuals times products of columns, in coordinates of the basis"
        ),
        false => format!(
            "standard errors: not computed, since {name} is not defined where one row alone decides a coefficient"
        ),
    })
}

/// What the reader must know of the own columns and rows; `dropped` are the places of the terms that were set aside.
pub(super) fn data_notes(study: &Study<Vertical>, role: Role, encoded: &Encoded, dropped: &[usize]) -> Vec<String> {
    let mut notes = Vec::new();
    let dropped: Vec<&str> = dropped.iter().filter_map(|place| encoded.terms.get(*place)).map(String::as_str).collect();
    if !dropped.is_empty() {
        notes.push(set_aside(role, &dropped));
    }
    match encoded.unweighted {
        0 => {}
        1 => notes.push("1 row has weight zero and does not count".to_string()),
        rows => notes.push(format!("{rows} rows have weight zero and do not count")),
    }
    let y = encoded.outcome.as_deref().unwrap_or_default();
    let family = study.method.stated_family();
    // A fit with a penalty never has a likelihood.
    let none = family.without_likelihood(y, encoded.unweighted > 0).filter(|_| study.method.penalty.is_none());
    notes.extend(none.map(|why| format!("likelihood: not defined, since {why}; so are AIC and BIC")));
    // Without an intercept, or beside an offset, columns explain something of a constant outcome too.
    let by_intercept = study.method.intercept && study.method.offset.is_none();
    notes.extend((by_intercept && is_constant(y, encoded.weights.as_deref())).then(|| {
        "the outcome has the same value in every row that counts: the columns have nothing to explain, and R squared and tests of the whole \
         fit say nothing"
            .to_string()
    }));
    if let Some(complete) = &encoded.complete {
        let (own, peer, all) = (complete.own, complete.peer, complete.dropped.count());
        let where_missing = match study.is_of_several() {
            // What the others lack is known together only.
            true => format!("{own} at {role}"),
            false => {
                let pair = Pair::of(study, role);
                let (first, second) = if pair.leads() { (own, peer) } else { (peer, own) };
                let both = complete.both;
                format!("{first} at {}, {second} at {}, {both} at both", pair.first(), pair.second())
            }
        };
        notes.push(format!("{} dropped because a value is missing: {where_missing}", counted(all, "row")));
    }
    notes
}

/// Whether an outcome has one value only on the rows that count.
fn is_constant(y: &[f64], weights: Option<&[f64]>) -> bool {
    let mut counted = (0..y.len()).filter(|row| weights.is_none_or(|weights| weights[*row] > 0.0)).map(|row| y[row]);
    counted.next().is_some_and(|first| counted.all(|value| value == first))
}

/// What the reader must know of a fit with an estimated dispersion that leaves nothing over.
fn whole_fit_note(study: &Study<Vertical>, statistics: &Statistics) -> Option<String> {
    if !study.method.stated_family().estimates_dispersion() || study.method.penalty.is_some() {
        return None;
    }
    let (deviance, null_deviance, df) = (statistics.deviance?, statistics.null_deviance?, statistics.df_residual?);
    if df <= 0 {
        return Some(
            "as many coefficients as rows: nothing is left over from which dispersion and standard errors could be computed"
                .to_string(),
        );
    }
    let perfect = null_deviance > 0.0 && deviance <= PERFECT * null_deviance;
    (perfect && study.method.family == Family::Gaussian).then(|| WHOLE_FIT.to_string())
}

/// That terms have no estimate, and why.
fn set_aside(role: Role, terms: &[&str]) -> String {
    let why = match terms.len() {
        1 => "it is constant or depends",
        _ => "they are constant or depend",
    };
    let list = terms.iter().map(|term| format!("`{term}`")).collect::<Vec<_>>().join(", ");
    format!("{role}: {list} not estimated, since {why} on other columns")
}

/// Says so where a fit ended because nothing moved any more, above its tolerance.
fn below_rounding(work: &Work) -> Option<String> {
    let tol = work.study.method.fit.tol;
    let peer = work.peer.as_ref()?;
    let ends = work.fits.fitted.iter().zip(&peer.fits);
    let (gradient, change) = ends.fold((0.0_f64, 0.0_f64), |(gradient, change), (own, peer)| {
        (gradient.max(own.end.certificate).max(peer.certificate), change.max(own.change))
    });
    (gradient > tol || change > tol).then(|| {
        format!(
            "the tolerance {tol:e} is below rounding for these data: the fit ended when nothing moved any more, at a \
             scaled gradient of {gradient:.1e} and a relative change of {change:.1e}"
        )
    })
}

/// What left this party in the fit.
fn disclosure(work: &Work) -> Disclosure {
    let (role, study, meter) = (work.role, &work.study, &work.meter);
    let disclosures = study.disclosures(role);
    let terms = work.fits.metered.iter().filter_map(|place| work.encoded.terms.get(*place)).cloned();
    // The meter's last column, where Alice's predictions contain what she holds alone.
    // Of two parties, what the other holds alone comes back to its holder, who is told nothing.
    let new = |column: &HeldColumn| study.is_of_several() || study.has(role, column);
    let outcome = &study.method.outcome;
    let hidden = match (&study.method.offset, outcome.held_by.is_alone(), study.method.family) {
        (Some(offset), true, Family::Gaussian) if !new(outcome) && offset.held_by.is_alone() => offset,
        (_, true, Family::Gaussian) | (None, ..) => outcome,
        (Some(offset), ..) => offset,
    };
    let hidden = Some(hidden).filter(|column| new(column)).map(|column| column.column.clone());
    let shares = meter.shares();
    let metered = terms.chain(hidden).zip(shares).map(|(term, share)| ColumnDisclosure { term, share });
    // A gaussian outcome of the first party is metered with its predictions.
    let metered_too =
        |held: HeldAs| held == HeldAs::Outcome && study.is_first(role) && study.method.family == Family::Gaussian;
    let whole = study.sent_whole(role).into_iter().filter(|(held, _)| !metered_too(*held)).map(|(_, column)| column);
    let sent = whole.clone().count() as u64;
    let whole = whole.filter(|column| new(column));
    let whole = whole.map(|column| ColumnDisclosure { term: column.column.clone(), share: 1.0 });
    // Predictions of new rows are declared by the study, but no fit makes any.
    let declared = disclosures.declared().iter().filter(|declaration| **declaration != Declaration::Prediction);
    Disclosure {
        vectors: meter.vectors() + sent,
        rank: meter.rank() as u64,
        declared: declared.map(|declaration| declaration.name_among(study.is_of_several()).to_string()).collect(),
        columns: metered.chain(whole).collect(),
        opened: Vec::new(),
    }
}

/// What this side needs to score new rows, from its rows of the coefficient table.
pub(super) fn model(study: &Study<Vertical>, role: Role, encoded: &Encoded, run: RunId, own: &[Coefficient]) -> Model {
    let estimate = |term: &str| own.iter().find(|row| row.term == term).and_then(|row| row.estimate);
    Model {
        study: study.digest().to_string(),
        run: run.to_string(),
        role,
        family: study.method.family,
        intercept: estimate(INTERCEPT).filter(|_| encoded.block.has_intercept()).unwrap_or(0.0),
        terms: encoded.terms.iter().map(|term| (term.clone(), estimate(term))).collect(),
        levels: encoded.levels.clone(),
        functions: encoded.learnt.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_constant_on_the_rows_that_count() {
        assert!(is_constant(&[2.0, 2.0, 2.0], None) && is_constant(&[2.0, 3.0, 2.0], Some(&[1.0, 0.0, 1.0])));
        assert!(!is_constant(&[2.0, 3.0, 2.0], None) && !is_constant(&[], None));
    }

    #[test]
    fn one_term_that_is_set_aside_is_told_of_as_one() {
        assert_eq!(
            set_aside(Role::Bob, &["lin"]),
            "bob: `lin` not estimated, since it is constant or depends on other columns"
        );
        assert_eq!(
            set_aside(Role::Bob, &["lin", "lin2"]),
            "bob: `lin`, `lin2` not estimated, since they are constant or depend on other columns"
        );
    }
}
