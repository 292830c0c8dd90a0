//! What a sealed fit yields.

use nalgebra::{DMatrix, DVector};

mod along;
mod several;

use super::glm::End;
use super::kept as for_refits;
use super::limits::Sizes;
use super::opened::Opening;
use super::session::Work;
use super::solution::{self, Solved};
use crate::fit::{Coefficient, Covariance, INTERCEPT, Statistics, Termination};
use crate::glm::Family;
use crate::methods::vertical::message::Results;
use crate::methods::vertical::outcome::{
    Deviances, Own, PERFORMANCE, VerticalFit, WHOLE_FIT, data_notes, in_order, known_dispersion, model, own,
    unpenalised,
};
use crate::methods::vertical::pair::Pair;
use crate::privacy::caution::{CUT, Caution};
use crate::report::{ColumnDisclosure, Disclosure, Opened};
use crate::secure::basis::OwnOutcome;
use crate::secure::gaussian::{Part, Table};
use crate::session::Abort;
use crate::study::CoefficientTerms;

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
    if let Some(path) = &work.path {
        let statistics = (work.leads).then(|| along::statistics(work, path));
        let coefficients = match work.study.method.fit.coefficients {
            CoefficientTerms::Own => None,
            CoefficientTerms::Shared => Some(along::shown(work, path)),
        };
        return Ok(Results { fits: Vec::new(), fold_errors: path.fold_errors.clone(), statistics, coefficients });
    }
    let joined = work.joined().ok_or_else(unsolved)?;
    let statistics = (work.leads).then(|| statistics(work, &joined));
    let coefficients = match work.study.method.fit.coefficients {
        CoefficientTerms::Own => None,
        CoefficientTerms::Shared => Some(table(work, &joined)),
    };
    Ok(Results { fits: Vec::new(), fold_errors: Vec::new(), statistics, coefficients })
}

pub(in super::super) fn finish(work: &Work) -> Result<VerticalFit, Abort> {
    if let Some(path) = &work.path {
        return along::finish(work, path);
    }
    let joined = work.joined().ok_or_else(unsolved)?;
    let peer = work.peer.as_ref().ok_or_else(|| Abort::Bug("the peer's results are missing".to_string()))?;
    let own = table(work, &joined);
    let statistics = match (work.leads, &work.own_results) {
        (true, Some(own)) => own.statistics.clone(),
        _ => peer.statistics.clone(),
    };
    let model = model(&work.study, work.role, &work.encoded, work.opening.run, &own);
    let (covariance, term_tests) = inferred(work, &joined, &own);
    let unopened = covariance.as_ref().map_or_else(Vec::new, |covariance| unopened_notes(work, covariance));
    let theirs = peer.coefficients.clone().unwrap_or_default();
    let coefficients = in_order(&work.study, [own, theirs].concat());
    let dropped = !work.dropped().is_empty() || work.dropped_elsewhere() > 0;
    let statistics = statistics.unwrap_or_default();
    let digits = [digits_note(work, &joined), remainder_note(work.study.method.family, &statistics)];
    let termination = match (&work.solved, dropped) {
        (Some(solved), dropped) => solved.termination(dropped),
        (None, false) => Termination::Converged,
        (None, true) => Termination::CollinearAcrossParties,
    };
    let trace = work.solved.as_ref().map(|solved| solved.trace.clone()).unwrap_or_default();
    Ok(VerticalFit {
        coefficients,
        statistics,
        termination,
        rounds: work.rounds(),
        certificate: trace.last().map_or(f64::NAN, |point| point.certificate),
        trace,
        caution: cut_note(work),
        notes: notes(work).into_iter().chain(unopened).chain(digits.into_iter().flatten()).collect(),
        missing: work.encoded.complete.as_ref().map_or(0, |complete| complete.dropped.count() as u64),
        disclosure: disclosure(work, &joined),
        path: None,
        cv: None,
        lambda: None,
        shown_lambda: None,
        covariance,
        term_tests,
        performance: None,
        model,
        kept: for_refits::kept(work)?,
    })
}

fn df_residual(work: &Work) -> i64 {
    let used = work.rows - work.encoded.unweighted;
    let columns = work.shape.left - 1 + work.shape.right - work.dropped().len() - work.dropped_elsewhere();
    used as i64 - columns as i64 - i64::from(work.study.method.intercept)
}

/// The sum of the case weights.
pub(super) fn weight_sum(work: &Work) -> f64 {
    work.encoded.weights.as_ref().map_or(work.rows as f64, |weights| weights.iter().sum())
}

fn statistics(work: &Work, joined: &Joined) -> Statistics {
    if let Some(solved) = &work.solved {
        return likelihood(work, solved);
    }
    let deviance = joined.residual * weight_sum(work);
    let fit = Deviances { df: df_residual(work), deviance, null_deviance: work.null_deviance, pearson: None };
    // Gaussian only: the likelihood follows from the deviance.
    unpenalised(&work.study, &work.encoded, &fit, |_| 0.0)
}

/// Statistics of a binomial or poisson fit; without a likelihood where it has not converged.
fn likelihood(work: &Work, solved: &Solved) -> Statistics {
    let df = df_residual(work);
    let y = work.encoded.outcome.as_deref().unwrap_or_default();
    match solved.loss {
        Some(loss) => {
            let unit = weight_sum(work) / work.rows as f64;
            let deviance = (2.0 * unit * (loss - solved.along - solution::saturated(work))).max(0.0);
            let fit = Deviances { df, deviance, null_deviance: work.null_deviance, pearson: None };
            // Of outcomes 0 and 1, and of counts, the likelihood follows from the deviance.
            let statistics = unpenalised(&work.study, &work.encoded, &fit, |_| 0.0);
            match lacks_trials(work) {
                true => Statistics { log_lik: None, aic: None, bic: None, ..statistics },
                false => statistics,
            }
        }
        None => Statistics {
            nobs: (y.len() - work.encoded.unweighted) as u64,
            df_residual: Some(df),
            df_null: Some((y.len() - work.encoded.unweighted) as i64 - i64::from(work.study.method.intercept)),
            null_deviance: Some(work.null_deviance),
            dispersion: known_dispersion(work.study.method.family),
            ..Statistics::default()
        },
    }
}

/// Successes that rounding changes by more than this do not follow from the outcome's digits.
const ROUNDED: f64 = 1e-6;

/// Whether R's likelihood, which counts whole trials and successes, needs values of rows.
fn lacks_trials(work: &Work) -> bool {
    let trials = work.encoded.weights.iter().flatten().map(|weight| weight.round_ties_even() - weight);
    solution::counts_trials(work) && trials.chain(solution::rounded_successes(work)).any(|more| more.abs() > ROUNDED)
}

/// The own rows of the coefficient table, on the original scale.
fn table(work: &Work, joined: &Joined) -> Vec<Coefficient> {
    let (df, sum) = (df_residual(work), weight_sum(work));
    let dispersion = (df > 0 && work.study.method.inference.allowed).then(|| joined.residual * sum / df as f64);
    let error = |variance: f64, scale: f64| match &work.solved {
        Some(solved) => solved.inference().then(|| variance.sqrt() / scale),
        None => dispersion.map(|dispersion| (dispersion * variance / sum).sqrt() / scale),
    };
    let family = work.study.method.family;
    let row = |term: &str, estimate: Option<f64>, std_error: Option<f64>| {
        Coefficient::new(term.to_string(), work.role, estimate, std_error, family, df as f64)
    };
    let factor = work.factor();
    let estimates = joined.part.coefficients(&factor);
    let variances = match joined.part.covariance.is_empty() {
        true => DMatrix::zeros(estimates.len(), estimates.len()),
        false => joined.part.coefficient_covariance(&factor),
    };
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

/// Covariance and tests of the own coefficients, from what has opened to this party.
fn inferred(work: &Work, joined: &Joined, rows: &[Coefficient]) -> Own {
    let (df, family) = (df_residual(work), work.study.method.family);
    let unit = match &work.solved {
        Some(solved) => solved.inference().then_some(1.0),
        None => (df > 0 && work.study.method.inference.allowed).then(|| joined.residual / df as f64),
    };
    let Some(unit) = unit.filter(|_| !joined.part.covariance.is_empty()) else { return (None, None) };
    let (kept, factor) = (kept(work), work.factor());
    let scale = |at: usize| work.scalings[kept[at].0].scale;
    let slopes = joined.part.coefficient_covariance(&factor) * unit;
    let first = usize::from(work.encoded.block.has_intercept());
    let size = first + kept.len();
    // What the intercept has in common with the slopes does not open.
    let mut covariance = DMatrix::from_element(size, size, f64::NAN);
    if let (1, Some((_, variance))) = (first, joined.intercept) {
        covariance[(0, 0)] = variance * unit;
    }
    for (i, j) in (0..kept.len()).flat_map(|i| (0..kept.len()).map(move |j| (i, j))) {
        covariance[(first + i, first + j)] = slopes[(i, j)] / (scale(i) * scale(j));
    }
    // The working weights of other families are shared, and with them what the own columns would have alone.
    let alone = (unit > 0.0 && family == Family::Gaussian).then(|| {
        let products = factor.tr_mul(&factor);
        DMatrix::from_fn(kept.len(), kept.len(), |i, j| products[(i, j)] * scale(i) * scale(j) / unit)
    });
    own(&work.encoded, rows, &covariance, alone.as_ref(), (family.into(), df))
}

/// Own columns that stay: the position among all own columns, and the place of the term.
fn kept(work: &Work) -> Vec<(usize, Option<usize>)> {
    let block = &work.encoded.block;
    let own = &block.places()[usize::from(block.has_intercept())..];
    let dropped = if !work.leads { work.dropped() } else { Vec::new() };
    own.iter().copied().enumerate().filter(|(at, _)| !dropped.contains(at)).collect()
}

/// What Bob checks of a solution that Alice told him.
const SOLUTION_CHECKED: &str = "what {first} told of the solution against what opened";

/// What the study says of who sees the table: the same at all parties.
fn both_note(work: &Work) -> Option<String> {
    let note = || match work.study.is_of_several() {
        true => format!(
            "the tables of all pairs open to every party, as the study says: each has solved from them by itself, and what {} told it of \
             the solution is what follows",
            work.study.first()
        ),
        false => {
            let (what, checked) = match (work.study.method.family, &work.folds) {
                (Family::Gaussian, Some(_)) => (
                    "the table of each fold opens",
                    "that R squared of its columns, as {first} told it, is not below that of all rows; the errors of the folds are {first}'s \
                     to compute",
                ),
                (Family::Gaussian, None) if work.study.method.penalty.is_some() => {
                    ("the table opens", "R squared of its columns, as {first} told it, against what opened")
                }
                (Family::Gaussian, None) => ("the table opens", SOLUTION_CHECKED),
                (Family::Binomial | Family::Poisson, _) => ("tables and gradients open", SOLUTION_CHECKED),
            };
            let note = format!("{what} to both parties, as the study says: {{second}} has checked {checked}");
            Pair::of(&work.study, work.role).named(&note)
        }
    };
    work.study.guarantee.opens_to_both().then(note)
}

/// What the study says of ranges: the same at both parties, whether or not something was cut.
fn range_note(work: &Work) -> Option<String> {
    let range = work.study.guarantee.range()?;
    Some(format!(
        "the study fixes the range of the linear predictor: each party cuts its own part at {range}, either way, and says in its own report \
         alone whether it had to"
    ))
}

/// What a party says first where it has cut its part. How many rows that was stays with it: nothing declares it.
fn cut_note(work: &Work) -> Option<Caution> {
    let range = work.study.guarantee.range()?;
    let role = work.role;
    work.glm.as_ref().filter(|glm| glm.was_cut()).map(|_| {
        let reason = format!(
            "{role}'s part of the linear predictor is beyond {range} in some rows and was cut there (`sealed.range` of the study): the \
             estimates are those of the cut model, standard errors and deviance belong to it approximately; a larger range would leave \
             these rows as they are"
        );
        Caution::new(CUT, reason, false)
    })
}

fn notes(work: &Work) -> Vec<String> {
    let mut notes = work.encoded.notes.clone();
    notes.extend(range_note(work));
    notes.extend(both_note(work));
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
    notes.extend(data_notes(&work.study, work.role, &work.encoded, &dropped));
    if let Some(solved) = &work.solved {
        notes.extend(solved.note(Pair::of(&work.study, work.role), work.study.method.family));
        if work.leads && lacks_trials(work) {
            notes.push("likelihood: not computed, since weights or successes are no whole numbers".to_string());
        }
        if work.study.method.inference.allowed && !solved.inference() {
            notes.push("standard errors: not computed, since the fit did not converge".to_string());
        }
    }
    if !work.study.method.inference.allowed {
        notes.push("standard errors: the study does not allow them".to_string());
    }
    notes.extend(performance_note(work));
    notes
}

/// Relative error of an estimate up to which nothing is said of it.
const DIGITS: f64 = 1e-9;

/// Variance inflation by the other party's columns from which columns nearly depend on them.
const NEARLY: f64 = 100.0;

/// What of a gaussian fit has lost digits, as columns nearly depend on those of the other party: fixed point takes an entry of the table by
/// `e = 2^-bits / sqrt(n)` at most, as a standard deviation. With `K = (I - C'C)^-1` the own coefficients in the basis are off by
/// `K D (gamma + rest)` for a matrix `D` of such errors, and the mean square of the residuals by as much as that along `gamma`.
fn digits_note(work: &Work, joined: &Joined) -> Option<String> {
    if work.solved.is_some() || joined.part.covariance.is_empty() {
        return None;
    }
    // Twice the error of an entry of C'C, which is the sum of two such errors.
    let entry = 4.0 * 2f64.powi(-(work.shape.bits as i32)) / (work.rows as f64).sqrt();
    let (factor, part) = (work.factor(), &joined.part);
    // Where they do not, what the outcome's variance leaves is said elsewhere.
    if !(part.covariance.diagonal().max() > NEARLY) {
        return None;
    }
    let inverse = factor.clone().try_inverse()?;
    let length = part.gamma.norm() + joined.rest.abs();
    let (of_gamma, covariance) = (&inverse * &part.gamma, part.coefficient_covariance(&factor));
    let along = &inverse * &part.covariance;
    struct Off<'a> {
        term: &'a String,
        estimate: f64,
        variance: f64,
    }
    let of = |(at, (_, place)): (usize, (usize, Option<usize>))| {
        let term = work.encoded.terms.get(place?)?;
        let own = along.row(at).norm();
        // What is far below its standard error need not be known so well.
        let size = of_gamma[at].abs().max((joined.residual * covariance[(at, at)] / work.rows as f64).sqrt());
        Some(Off { term, estimate: entry * own * length / size, variance: entry * own * own / covariance[(at, at)] })
    };
    let all: Vec<Off> = kept(work).into_iter().enumerate().filter_map(of).collect();
    let lost = || all.iter().filter(|of| of.estimate > DIGITS);
    let most = lost().map(|of| of.estimate).fold(0.0, f64::max);
    let of_residual = if joined.residual > 0.0 { entry * length * length / joined.residual } else { 0.0 };
    let of_errors = 0.5 * (of_residual + all.iter().map(|of| of.variance).fold(0.0, f64::max));
    let names: Vec<String> = lost().map(|of| format!("`{}`", of.term)).collect();
    let peer = work.study.peer(work.role);
    let others = if work.study.is_of_several() { "other parties" } else { peer.name() };
    let estimates = (!names.is_empty()).then(|| {
        format!(
            "columns of {others} nearly determine {}, and sealed mode computes in fixed point: these estimates are right to about a \
             relative {most:.0e}",
            names.join(", ")
        )
    });
    let rest = (of_errors > DIGITS).then(|| {
        format!(
            "deviance and dispersion are right to about a relative {of_residual:.0e}, standard errors to {of_errors:.0e}, as columns of the \
             parties nearly depend on each other"
        )
    });
    let said: Vec<String> = estimates.into_iter().chain(rest).collect();
    (!said.is_empty()).then(|| format!("digits: {}; plain mode keeps the digits of their file", said.join("; ")))
}

/// What a table in double precision leaves unknown of the outcome's square.
const REMAINDER: f64 = 1e-16;
/// The share of the null deviance below which what a sealed fit leaves over is rounding.
const NOTHING: f64 = 10.0 * REMAINDER;

/// That columns explain the outcome so well that what they leave, a difference of what the table holds, has few digits.
fn remainder_note(family: Family, statistics: &Statistics) -> Option<String> {
    match family {
        Family::Gaussian => {}
        Family::Binomial | Family::Poisson => return None,
    }
    // A constant outcome has a note of its own.
    let null = statistics.null_deviance.filter(|null| *null > 0.0)?;
    let share = statistics.deviance? / null;
    if !(share > NOTHING) {
        return Some(WHOLE_FIT.to_string());
    }
    let error = REMAINDER / share;
    (error > DIGITS).then(|| {
        format!(
            "digits: the columns leave a share of {share:.0e} of the outcome's variance, which sealed mode knows as a difference: deviance, \
             dispersion, standard errors and tests are right to about a relative {error:.0e}; plain mode keeps more digits"
        )
    })
}

/// Why a binomial fit has no ROC curve.
fn performance_note(work: &Work) -> Option<String> {
    (work.study.method.family == Family::Binomial).then(|| {
        format!("{PERFORMANCE}: not computed in sealed mode, where nobody knows the linear predictor of a row")
    })
}

/// Why the covariance of the intercept with the slopes is null, and variance inflation with it.
fn unopened_notes(work: &Work, covariance: &Covariance) -> Vec<String> {
    let mut notes = Vec::new();
    if work.encoded.block.has_intercept() && covariance.terms.len() > 1 {
        let peer = work.study.peer(work.role);
        let others = if work.study.is_of_several() { "each of the others" } else { peer.name() };
        notes.push(format!(
            "covariance of the intercept with the slopes: not computed in sealed mode, since the part of {others} in it, a number for each \
             slope of {}, would have to open too",
            work.role
        ));
    }
    let family = work.study.method.family;
    match family {
        Family::Gaussian => {}
        Family::Binomial | Family::Poisson => {
            let opens = match work.study.guarantee.opens_to_both() {
                true => "",
                false => "; for {second} a table of these would have to open too",
            };
            notes.push(Pair::of(&work.study, work.role).named(&format!(
                "variance inflation factors: not computed in sealed mode of {family} models, since they need the cross-products of a party's \
                 own columns with the weights of the fit, which neither party knows for a row{opens}"
            )));
        }
    }
    notes
}

/// What the other side could predict of the own columns from its own and from what opened to it.
fn disclosure(work: &Work, joined: &Joined) -> Disclosure {
    let columns = match work.leads {
        true if work.study.guarantee.opens_to_both() => shares_of_alice(work),
        true => only_column(work, joined).into_iter().chain(outcome_share(work)).collect(),
        false => column_shares(work, joined),
    };
    let opened = if work.several.is_some() { several::opened(work) } else { opened(work) };
    disclosed(work, columns, opened)
}

fn disclosed(work: &Work, columns: Vec<ColumnDisclosure>, opened: Vec<Opened>) -> Disclosure {
    let (declared, several) = (work.study.disclosures(work.role), work.study.is_of_several());
    let declared = declared.declared().iter().map(|declaration| declaration.name_among(several).to_string()).collect();
    Disclosure { vectors: 0, rank: 0, declared, columns, opened }
}

fn opening(work: &Work) -> Opening {
    let (alice, bob) = (work.shape.left as u64 - 1, work.shape.right as u64);
    let folds = work.folds.as_ref().map_or(0, |folds| folds.parts.len() as u64);
    let refit = for_refits::opens(work) && (!work.leads || work.study.guarantee.opens_to_both());
    Opening { pair: Pair::of(&work.study, work.role), rows: work.rows as u64, alice, bob, folds, refit }
}

/// What opened to the other side, in order.
fn opened(work: &Work) -> Vec<Opened> {
    let opening = opening(work);
    let bob = opening.bob;
    let stay = bob - work.dropped().len() as u64;
    let glm = work.solved.as_ref();
    let sizes = Sizes::new(&work.study, work.rows, work.shape.left - 1, work.shape.right);
    let one = |what: &str, size: [u64; 2], numbers: u64| opening.one(what, size, numbers);
    let dependent = work.reduction.is_some();
    let mut all = Vec::new();
    match work.leads {
        true => {
            if dependent {
                all.push(one("what {first}'s columns leave of {second}'s", [bob, bob], bob * bob));
            }
            let to_both = work.study.guarantee.opens_to_both();
            all.extend((to_both && glm.is_some()).then(|| opening.table()));
            if let Some(solved) = glm {
                // A point that no gradient followed has left as well.
                all.extend(opening.points(u64::from(solved.points), stay));
                if to_both {
                    all.extend(by_gradients(&opening, &sizes, work, solved));
                }
                all.push(one("what {first}'s columns and the outcome hold of {second}'s", [stay, stay], stay * stay));
                let covariance = if solved.inference() { stay + 1 } else { 0 };
                let (columns, numbers) = (1 + covariance, stay * (1 + covariance));
                all.push(one("{second}'s part of the solution with its covariance", [stay, columns], numbers));
                return all;
            }
            all.extend(to_both.then(|| opening.table()));
            all.extend(opening.for_refits(false));
            // Beside the covariance: coefficients, what they lean on alice's means, and two sums of squares.
            all.push(one(
                "{second}'s part of the solution with its covariance, and two sums",
                [stay, stay + 2],
                stay * (stay + 2) + 2,
            ));
        }
        false => {
            all.push(opening.table());
            all.extend(opening.for_refits(false));
            if dependent {
                let numbers = bob * stay + work.dropped().len() as u64;
                all.push(one("which of {second}'s columns stay, and what they are", [bob, stay], numbers));
            }
            all.extend(glm.into_iter().flat_map(|solved| by_gradients(&opening, &sizes, work, solved)));
            all.push(one("{second}'s part of the intercept and of its variance", [1, 2], 2));
            if glm.is_some() && work.study.method.outcome.held_by.is_shared() {
                let numbers = sizes.along();
                all.push(one(
                    "the outcome's product with {second}'s part of the linear predictor",
                    [1, numbers],
                    numbers,
                ));
            }
        }
    }
    all
}

/// What opens of a binomial or poisson fit between its table and its solution: to Alice, and to Bob where everything opens to both.
fn by_gradients(opening: &Opening, sizes: &Sizes, work: &Work, solved: &Solved) -> Vec<Opened> {
    let columns = sizes.gradient();
    let mut all = opening.gradients([solved.evaluations, solved.points].map(u64::from), columns);
    let ended = solved.end == End::Converged;
    if ended && work.study.method.inference.allowed {
        all.push(opening.one("weighted cross-products", [columns, columns], columns * (columns + 1) / 2));
    }
    if let (true, Some((what, numbers))) = (ended, sizes.losses_opened()) {
        all.push(opening.one(what, [1, numbers], numbers));
    }
    all
}

/// At Bob: per own column, R squared of what Alice could predict from her columns and the outcome. With `C` and `d` from the table that is
/// the share of the column in `C'C + d d'`, where `C'C = I - V^-1` of the own covariance `V` and `d = V^-1 gamma / |e|`.
fn column_shares(work: &Work, joined: &Joined) -> Vec<ColumnDisclosure> {
    if let Some(solved) = &work.solved {
        return shares_of(work, &solved.held);
    }
    let size = joined.part.covariance.nrows();
    if size == 0 {
        return Vec::new();
    }
    let Some(left_over) = joined.part.covariance.clone().try_inverse() else { return Vec::new() };
    let along = match joined.rest > 0.0 {
        true => &left_over * &joined.part.gamma / joined.rest,
        false => DVector::zeros(size),
    };
    shares_of(work, &(DMatrix::identity(size, size) - left_over + &along * along.transpose()))
}

/// The share of each own column of Bob in what Alice knows, in coordinates of the columns that stay.
fn shares_of(work: &Work, known: &DMatrix<f64>) -> Vec<ColumnDisclosure> {
    let factor = work.factor();
    kept(work)
        .iter()
        .enumerate()
        .filter_map(|(at, (_, place))| {
            let column = factor.column(at);
            let share = (known * column).dot(&column) / column.norm_squared();
            Some(ColumnDisclosure { term: work.encoded.terms.get((*place)?)?.clone(), share: share.clamp(0.0, 1.0) })
        })
        .collect()
}

/// At Alice, where she has one column only: R squared of it on Bob's columns, and on the outcome where he holds it. What Bob receives is
/// `C'C` of the cross-products `C` and, with his outcome, `C' gamma_a`: with several columns he knows them up to a rotation that he does
/// not know, with one column in full. Its covariance `V` has `1 / V = 1 - |C|^2`; the outcome adds its partial correlation.
fn only_column(work: &Work, joined: &Joined) -> Option<ColumnDisclosure> {
    if work.solved.is_some() {
        let share = work.only_share()?;
        let (_, place) = *kept(work).first()?;
        return Some(ColumnDisclosure { term: work.encoded.terms.get(place?)?.clone(), share });
    }
    let ([variance], [gamma]) = (joined.part.covariance.as_slice(), joined.part.gamma.as_slice()) else { return None };
    let (_, place) = *kept(work).first()?;
    let alone = work.study.method.outcome.held_by.is_alone();
    let along = gamma * gamma / variance;
    let rest = match alone || along + joined.residual == 0.0 {
        true => 1.0,
        false => joined.residual / (along + joined.residual),
    };
    let share = (1.0 - rest / variance).clamp(0.0, 1.0);
    Some(ColumnDisclosure { term: work.encoded.terms.get(place?)?.clone(), share })
}

/// At Alice, where the table opens to both or to all: R squared of each of her columns on Bob's, and on the outcome where he holds it; of an outcome that
/// she holds alone on his columns.
fn shares_of_alice(work: &Work) -> Vec<ColumnDisclosure> {
    // Of several parties the others' bases are orthonormal one by one.
    let table = work.table().and_then(Table::orthonormal);
    let Some(table) = &table else { return Vec::new() };
    let shares = super::penalised::shares_of_alice(work, table);
    let named = kept(work).into_iter().zip(shares).filter_map(|((_, place), share)| {
        Some(ColumnDisclosure { term: work.encoded.terms.get(place?)?.clone(), share })
    });
    named.chain(outcome_share(work)).collect()
}

/// R squared of the outcome on Bob's columns, from a table of orthonormal ones.
pub(super) fn outcome_on_bob(table: &Table, outcome: &OwnOutcome) -> f64 {
    if outcome.square > 0.0 { (table.outcome(outcome).norm_squared() / outcome.square).min(1.0) } else { 0.0 }
}

/// At Alice: R squared on Bob's columns of an outcome that she holds alone: the most that any combination of them predicts.
fn outcome_share(work: &Work) -> Option<ColumnDisclosure> {
    let terms = &work.study.method.outcome;
    let share = work.outcome_on_bob().filter(|_| terms.held_by.is_alone())?;
    Some(ColumnDisclosure { term: terms.column.clone(), share })
}
