//! What a sealed fit with a penalty yields.

use super::super::glm::End;
use super::super::kept as for_refits;
use super::super::limits::Sizes;
use super::super::penalised::count;
use super::super::solution;
use super::{
    both_note, cut_note, data_notes, disclosed, kept, model, opening, performance_note, range_note, unsolved,
    weight_sum,
};
use crate::fit::{Coefficient, INTERCEPT, Statistics};
use crate::glm::Family;
use crate::methods::vertical::outcome::{CrossValidation, VerticalFit, known_dispersion, over_folds};
use crate::methods::vertical::pair::Pair;
use crate::methods::vertical::sealed::penalised::{Fit, Path};
use crate::methods::vertical::sealed::session::Work;
use crate::report::{ColumnDisclosure, Disclosure, Opened, PathCoefficient, PathPoint};
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
    if work.encoded.block.has_intercept() {
        let own: f64 = (0..fit.beta.len()).map(|at| work.scalings[at].centre * slope(at)).sum();
        let shift = path.shifts.get(at).copied().unwrap_or_default();
        rows.push(row(INTERCEPT, fit.constant - own - shift));
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
        Some(peer) if !work.leads => &peer.fold_errors,
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
    let deviance = path.fits.get(chosen(work, path)).and_then(|fit| fit.deviance).map(|each| each * weight_sum(work));
    let null = work.null_deviance;
    Statistics {
        nobs: rows,
        df_null: Some(rows as i64 - i64::from(work.study.method.intercept)),
        deviance,
        null_deviance: Some(null),
        dispersion: known_dispersion(work.study.method.family),
        r_squared: deviance
            .filter(|_| null > 0.0 && work.study.method.family == Family::Gaussian)
            .map(|deviance| 1.0 - deviance / null),
        ..Statistics::default()
    }
}

pub(super) fn finish(work: &Work, path: &Path) -> Result<VerticalFit, Abort> {
    let peer = work.peer.as_ref().ok_or_else(unsolved)?;
    let statistics = match (work.leads, &work.own_results) {
        (true, Some(own)) => own.statistics.clone(),
        _ => peer.statistics.clone(),
    };
    let (validated, shown_fit) = (validated(work, path), path.fits.get(chosen(work, path)));
    let own = shown(work, path);
    let model = model(&work.study, work.role, &work.encoded, work.opening.run, &own);
    let theirs = peer.coefficients.clone().unwrap_or_default();
    let mut notes = work.encoded.notes.clone();
    notes.extend(range_note(work));
    notes.extend(both_note(work));
    notes.extend(data_notes(&work.study, work.role, &work.encoded, work.encoded.block.dropped()));
    notes.push("penalised estimates have no standard errors".to_string());
    notes.extend(performance_note(work));
    let end = work.glm.as_ref().and_then(|glm| glm.end()).unwrap_or(End::Converged);
    notes.extend(unfinished(work, path, end));
    let termination = solution::termination(end, false);
    let lead = work.glm.as_ref().and_then(|glm| glm.lead());
    let points: Vec<PathPoint> =
        path.fits.iter().enumerate().map(|(at, fit)| point(work, table(work, path, at), fit)).collect();
    Ok(VerticalFit {
        coefficients: if work.leads { [own, theirs].concat() } else { [theirs, own].concat() },
        statistics: statistics.unwrap_or_default(),
        termination,
        rounds: work.rounds(),
        trace: lead.map(|lead| lead.trace.clone()).unwrap_or_default(),
        certificate: shown_fit.map_or(f64::NAN, |fit| fit.kkt),
        caution: cut_note(work),
        notes,
        missing: work.encoded.complete.as_ref().map_or(0, |complete| complete.dropped.count() as u64),
        disclosure: disclosure(work, path),
        path: Some(points).filter(|points| points.len() > 1 || validated.is_some()),
        cv: validated.as_ref().map(|(points, _, _)| points.clone()),
        lambda: validated.map(|(_, best, within)| (best, within)),
        shown_lambda: shown_fit.map(|fit| fit.lambda),
        covariance: None,
        term_tests: None,
        performance: None,
        model,
        kept: for_refits::kept(work)?,
    })
}

fn point(work: &Work, rows: Vec<Coefficient>, fit: &Fit) -> PathPoint {
    let kept = rows.iter().filter(|row| row.term != INTERCEPT && row.estimate.is_some_and(|b| b != 0.0));
    PathPoint {
        lambda: fit.lambda,
        df: kept.count() as u64,
        deviance: fit.deviance.map_or(f64::NAN, |deviance| deviance * weight_sum(work)),
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
    let outcome = (work.leads && !work.outcome_at_both())
        .then(|| ColumnDisclosure { term: work.study.method.outcome.column.clone(), share: path.outcome });
    disclosed(work, shares.chain(outcome).collect(), opened(work, path))
}

/// Why a binomial or poisson fit ended early, and where.
fn unfinished(work: &Work, path: &Path, end: End) -> Vec<String> {
    let why = solution::note(end, Pair::of(&work.study, work.role), work.rounds(), work.study.method.family);
    let lambdas = work.study.method.penalty.as_ref().map_or(1, count);
    let reached = path.fits.iter().filter(|fit| fit.deviance.is_some()).count();
    let which = (why.is_some() && lambdas > 1).then(|| match reached {
        0 => format!("none of {lambdas} lambdas was reached: the estimates are those of the fit at the first, which did not converge"),
        _ => format!("{reached} of {lambdas} lambdas were reached: the estimates are those of the last that was"),
    });
    why.into_iter().chain(which).collect()
}

/// What opened to the other side, in order.
fn opened(work: &Work, path: &Path) -> Vec<Opened> {
    let (opening, lambdas) = (opening(work), path.fits.len() as u64);
    let to_both = work.study.guarantee.opens_to_both();
    // That of Bob stands before his factor.
    let table = (work.leads && to_both).then(|| opening.table());
    let Some(glm) = &work.glm else {
        return table.into_iter().chain(opening.along(lambdas)).collect();
    };
    let sizes = Sizes::new(&work.study, work.rows, work.shape.left - 1, work.shape.right);
    let [gradients, points] = [glm.evaluations(), glm.points()].map(u64::from);
    let mut between = if work.leads { opening.points(points, opening.bob) } else { Vec::new() };
    if to_both || !work.leads {
        between.extend(opening.gradients([gradients, points], sizes.gradient()));
        let sums = glm.sums();
        between.extend(
            sizes
                .losses_opened()
                .map(|(what, _)| opening.one(what, [sums, 1], sums))
                .filter(|opened| opened.numbers > 0),
        );
    }
    table.into_iter().chain(opening.along_gradients(lambdas, between)).collect()
}
