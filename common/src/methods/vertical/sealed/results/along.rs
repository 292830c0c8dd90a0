//! What a sealed fit with a penalty yields.

use super::{data_notes, disclosed, kept, model, opening, unsolved, weight_sum};
use crate::fit::{Coefficient, INTERCEPT, Statistics, Termination};
use crate::id::Role;
use crate::methods::vertical::outcome::{CrossValidation, VerticalFit, over_folds};
use crate::methods::vertical::sealed::penalised::{Fit, Path};
use crate::methods::vertical::sealed::session::Work;
use crate::report::{ColumnDisclosure, Disclosure, PathCoefficient, PathPoint};
use crate::session::Abort;

/// The own rows of the coefficient table at one lambda, on the original scale.
fn table(work: &Work, path: &Path, at: usize) -> Vec<Coefficient> {
    let Some(fit) = path.fits.get(at) else { return Vec::new() };
    let family = work.study.method.family;
    let row = |term: &str, estimate: f64| {
        Coefficient::new(term.to_string(), work.role, Some(estimate), None, family, f64::NAN)
    };
    let slope = |at: usize| fit.beta[at] / work.scalings[at].scale;
    let mut rows = Vec::new();
    if let (true, Some(outcome)) = (work.encoded.block.has_intercept(), &work.own.outcome) {
        let own: f64 = (0..fit.beta.len()).map(|at| work.scalings[at].centre * slope(at)).sum();
        let shift = path.shifts.get(at).copied().unwrap_or_default();
        rows.push(row(INTERCEPT, outcome.centre - own - shift));
    }
    let kept = kept(work);
    for (place, term) in work.encoded.terms.iter().enumerate() {
        // A column that says nothing is zero, as glmnet reports it.
        let at = kept.iter().position(|(_, of)| *of == Some(place));
        rows.push(row(term, at.map_or(0.0, slope)));
    }
    rows
}

/// The errors over the folds; at Bob they are Alice's.
fn validated(work: &Work, path: &Path) -> Option<CrossValidation> {
    let errors = match &work.peer {
        Some(peer) if work.role == Role::Bob => &peer.fold_errors,
        _ => &path.fold_errors,
    };
    let lambdas: Vec<f64> = path.fits.iter().map(|fit| fit.lambda).collect();
    over_folds(errors, work.study.method.penalty.as_ref()?.cv?, &lambdas, &work.encoded)
}

/// Which fit the coefficient table shows: that of the best lambda where there was cross-validation, else the last.
fn chosen(work: &Work, path: &Path) -> usize {
    let best = validated(work, path).and_then(|(_, best, _)| path.fits.iter().position(|fit| fit.lambda == best));
    best.unwrap_or(path.fits.len().saturating_sub(1))
}

/// The rows that the coefficient table shows.
pub(super) fn shown(work: &Work, path: &Path) -> Vec<Coefficient> {
    table(work, path, chosen(work, path))
}

pub(super) fn statistics(work: &Work, path: &Path) -> Statistics {
    let rows = (work.rows - work.encoded.unweighted) as u64;
    let deviance = path.fits.get(chosen(work, path)).map(|fit| fit.residual * weight_sum(work));
    let null = work.null_deviance;
    Statistics {
        nobs: rows,
        df_null: Some(rows as i64 - i64::from(work.study.method.intercept)),
        deviance,
        null_deviance: Some(null),
        r_squared: deviance.filter(|_| null > 0.0).map(|deviance| 1.0 - deviance / null),
        ..Statistics::default()
    }
}

pub(super) fn finish(work: &Work, path: &Path) -> Result<VerticalFit, Abort> {
    let peer = work.peer.as_ref().ok_or_else(unsolved)?;
    let statistics = match (work.role, &work.own_results) {
        (Role::Alice, Some(own)) => own.statistics.clone(),
        _ => peer.statistics.clone(),
    };
    let (validated, shown_fit) = (validated(work, path), path.fits.get(chosen(work, path)));
    let own = shown(work, path);
    let model = model(&work.study, work.role, &work.encoded, work.opening.run, &own);
    let theirs = peer.coefficients.clone().unwrap_or_default();
    let mut notes = work.encoded.notes.clone();
    notes.extend(data_notes(work.role, &work.encoded, work.encoded.block.dropped()));
    notes.push("penalised estimates have no standard errors".to_string());
    let points: Vec<PathPoint> =
        path.fits.iter().enumerate().map(|(at, fit)| point(work, table(work, path, at), fit)).collect();
    Ok(VerticalFit {
        coefficients: if work.role == Role::Alice { [own, theirs].concat() } else { [theirs, own].concat() },
        statistics: statistics.unwrap_or_default(),
        termination: Termination::Converged,
        rounds: work.rounds(),
        trace: Vec::new(),
        certificate: shown_fit.map_or(f64::NAN, |fit| fit.kkt),
        notes,
        missing: work.encoded.complete.as_ref().map_or(0, |complete| complete.dropped.count() as u64),
        disclosure: disclosure(work, path),
        path: Some(points).filter(|points| points.len() > 1 || validated.is_some()),
        cv: validated.as_ref().map(|(points, _, _)| points.clone()),
        lambda: validated.map(|(_, best, within)| (best, within)),
        shown_lambda: shown_fit.map(|fit| fit.lambda),
        model,
    })
}

fn point(work: &Work, rows: Vec<Coefficient>, fit: &Fit) -> PathPoint {
    let kept = rows.iter().filter(|row| row.term != INTERCEPT && row.estimate.is_some_and(|b| b != 0.0));
    PathPoint {
        lambda: fit.lambda,
        df: kept.count() as u64,
        deviance: fit.residual * weight_sum(work),
        kkt: fit.kkt,
        coefficients: rows
            .into_iter()
            .map(|row| PathCoefficient { term: row.term, party: row.party, estimate: row.estimate })
            .collect(),
    }
}

/// What the other side could predict of the own columns at most: it has both factors or their products with the fits.
fn disclosure(work: &Work, path: &Path) -> Disclosure {
    let kept = kept(work);
    let shares = kept.iter().zip(&path.shares).filter_map(|((_, place), share)| {
        Some(ColumnDisclosure { term: work.encoded.terms.get((*place)?)?.clone(), share: *share })
    });
    let outcome = (work.role == Role::Alice && !work.outcome_at_both())
        .then(|| ColumnDisclosure { term: work.study.method.outcome.column.clone(), share: path.outcome });
    disclosed(work, shares.chain(outcome).collect(), opening(work).along(path.fits.len() as u64))
}
