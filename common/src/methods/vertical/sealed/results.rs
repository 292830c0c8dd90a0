//! What a sealed fit yields.

use nalgebra::{DMatrix, DVector};

use super::session::Work;
use crate::fit::{Coefficient, INTERCEPT, Statistics, Termination};
use crate::id::Role;
use crate::methods::vertical::message::Results;
use crate::methods::vertical::outcome::{Deviances, VerticalFit, data_notes, model, unpenalised};
use crate::report::{ColumnDisclosure, Disclosure};
use crate::secure::gaussian::Part;
use crate::session::Abort;
use crate::study::{CoefficientTerms, HeldBy};

/// The joint solution as one party sees it.
pub(super) struct Joined {
    /// The own part.
    pub(super) part: Part,
    /// Weighted mean square of the residuals.
    pub(super) residual: f64,
    /// Root mean square of what Alice's columns leave of the outcome.
    pub(super) rest: f64,
    /// The intercept and its variance, in the unit of the part's covariance; at Alice.
    pub(super) intercept: Option<(f64, f64)>,
}

fn unsolved() -> Abort {
    Abort::Bug("the joint solution is missing".to_string())
}

/// The results that this side sends.
pub(super) fn results(work: &Work) -> Result<Results, Abort> {
    let joined = work.joined().ok_or_else(unsolved)?;
    let statistics = (work.role == Role::Alice).then(|| statistics(work, &joined));
    let coefficients = match work.study.method.fit.coefficients {
        CoefficientTerms::Own => None,
        CoefficientTerms::Shared => Some(table(work, &joined)),
    };
    Ok(Results { fits: Vec::new(), fold_errors: Vec::new(), statistics, coefficients })
}

pub(super) fn finish(work: &Work) -> Result<VerticalFit, Abort> {
    let joined = work.joined().ok_or_else(unsolved)?;
    let peer = work.peer.as_ref().ok_or_else(|| Abort::Bug("the peer's results are missing".to_string()))?;
    let own = table(work, &joined);
    let statistics = match (work.role, &work.own_results) {
        (Role::Alice, Some(own)) => own.statistics.clone(),
        _ => peer.statistics.clone(),
    };
    let model = model(&work.study, work.role, &work.encoded, work.opening.run, &own);
    let theirs = peer.coefficients.clone().unwrap_or_default();
    let coefficients = if work.role == Role::Alice { [own, theirs].concat() } else { [theirs, own].concat() };
    let termination = match work.dropped().is_empty() {
        true => Termination::Converged,
        false => Termination::CollinearAcrossParties,
    };
    Ok(VerticalFit {
        coefficients,
        statistics: statistics.unwrap_or_default(),
        termination,
        rounds: 1,
        trace: Vec::new(),
        certificate: f64::NAN,
        notes: notes(work),
        missing: work.encoded.complete.as_ref().map_or(0, |complete| complete.dropped.count() as u64),
        disclosure: disclosure(work, &joined),
        path: None,
        cv: None,
        lambda: None,
        shown_lambda: None,
        model,
    })
}

fn df_residual(work: &Work) -> i64 {
    let used = work.rows - work.encoded.unweighted;
    let columns = work.shape.left - 1 + work.shape.right - work.dropped().len();
    used as i64 - columns as i64 - i64::from(work.study.method.intercept)
}

/// The sum of the case weights.
fn weight_sum(work: &Work) -> f64 {
    work.encoded.weights.as_ref().map_or(work.rows as f64, |weights| weights.iter().sum())
}

fn statistics(work: &Work, joined: &Joined) -> Statistics {
    let deviance = joined.residual * weight_sum(work);
    let fit = Deviances { df: df_residual(work), deviance, null_deviance: work.null_deviance };
    // Gaussian only: the likelihood follows from the deviance.
    unpenalised(&work.study, &work.encoded, &fit, |_| 0.0)
}

/// The own rows of the coefficient table, on the original scale.
fn table(work: &Work, joined: &Joined) -> Vec<Coefficient> {
    let (df, sum) = (df_residual(work), weight_sum(work));
    let dispersion = (df > 0 && work.study.method.inference.allowed).then(|| joined.residual * sum / df as f64);
    let error = |variance: f64, scale: f64| dispersion.map(|dispersion| (dispersion * variance / sum).sqrt() / scale);
    let family = work.study.method.family;
    let row = |term: &str, estimate: Option<f64>, std_error: Option<f64>| {
        Coefficient::new(term.to_string(), work.role, estimate, std_error, family, df as f64)
    };
    let factor = work.factor();
    let (estimates, variances) = (joined.part.coefficients(&factor), joined.part.coefficient_covariance(&factor));
    let mut rows = Vec::new();
    if let (true, Some((intercept, variance))) = (work.encoded.block.has_intercept(), joined.intercept) {
        rows.push(row(INTERCEPT, Some(intercept), error(variance, 1.0)));
    }
    let kept = kept(work);
    for (place, term) in work.encoded.terms.iter().enumerate() {
        match kept.iter().position(|(_, of)| *of == Some(place)) {
            Some(at) => {
                let scale = work.scalings[kept[at].0].scale;
                rows.push(row(term, Some(estimates[at] / scale), error(variances[(at, at)], scale)));
            }
            None => rows.push(row(term, None, None)),
        }
    }
    rows
}

/// Own columns that stay: the position among all own columns, and the place of the term.
fn kept(work: &Work) -> Vec<(usize, Option<usize>)> {
    let block = &work.encoded.block;
    let own = &block.places()[usize::from(block.has_intercept())..];
    let dropped = if work.role == Role::Bob { work.dropped() } else { Vec::new() };
    own.iter().copied().enumerate().filter(|(at, _)| !dropped.contains(at)).collect()
}

fn notes(work: &Work) -> Vec<String> {
    let mut notes = work.encoded.notes.clone();
    let mut dropped = work.encoded.block.dropped().to_vec();
    let stay = kept(work);
    let all = &work.encoded.block.places()[usize::from(work.encoded.block.has_intercept())..];
    dropped.extend(
        all.iter()
            .enumerate()
            .filter(|(at, _)| !stay.iter().any(|(kept, _)| kept == at))
            .filter_map(|(_, place)| *place),
    );
    dropped.sort_unstable();
    notes.extend(data_notes(work.role, &work.encoded, &dropped));
    if !work.study.method.inference.allowed {
        notes.push("standard errors: the study does not allow them".to_string());
    }
    let Work { shape, .. } = work;
    notes.push(format!(
        "opened to alice: one table of {} x {} cross-products between both blocks, {} numbers, beside {} unknown values in the smaller \
         block; bob received his part of the solution with its covariance",
        shape.left,
        shape.right,
        shape.opened(),
        work.rows * (shape.left - 1).min(shape.right)
    ));
    notes
}

/// What the other side could predict of the own columns from its own and from what opened to it.
fn disclosure(work: &Work, joined: &Joined) -> Disclosure {
    let declared = work.study.disclosures(work.role);
    let columns = match work.role {
        Role::Alice => outcome_share(work).into_iter().collect(),
        Role::Bob | Role::Worker | Role::Coordinator => column_shares(work, joined),
    };
    Disclosure {
        vectors: 0,
        rank: 0,
        declared: declared.declared().iter().map(|declaration| declaration.name().to_string()).collect(),
        columns,
    }
}

/// At Bob: per own column, R squared of what Alice could predict from her columns and the outcome. With `C` and `d` from the table that is
/// the share of the column in `C'C + d d'`, where `C'C = I - V^-1` of the own covariance `V` and `d = V^-1 gamma / |e|`.
fn column_shares(work: &Work, joined: &Joined) -> Vec<ColumnDisclosure> {
    let size = joined.part.covariance.nrows();
    let Some(left_over) = joined.part.covariance.clone().try_inverse() else { return Vec::new() };
    let along = match joined.rest > 0.0 {
        true => &left_over * &joined.part.gamma / joined.rest,
        false => DVector::zeros(size),
    };
    let known = DMatrix::identity(size, size) - left_over + &along * along.transpose();
    let factor = work.factor();
    kept(work)
        .iter()
        .enumerate()
        .filter_map(|(at, (_, place))| {
            let column = factor.column(at);
            let share = (&known * column).dot(&column) / column.norm_squared();
            Some(ColumnDisclosure { term: work.encoded.terms.get((*place)?)?.clone(), share: share.clamp(0.0, 1.0) })
        })
        .collect()
}

/// At Alice: R squared of the outcome on Bob's part of the linear predictor, which he knows. Of her columns he learns no cross-products.
fn outcome_share(work: &Work) -> Option<ColumnDisclosure> {
    let terms = &work.study.method.outcome;
    let alone = terms.held_by == HeldBy::Alice;
    let share = work.explained_by_bob().filter(|_| alone)?;
    Some(ColumnDisclosure { term: terms.column.clone(), share })
}
