//! One report out of those that the parties wrote about the same run.

use std::collections::BTreeMap;

use thiserror::Error;

use super::{Caution, InFiles, PathPoint, PerParty, Report, Seconds, matching};
use crate::fit::{Coefficient, Covariance, Statistics, TermTest, Termination};
use crate::id::Role;

/// Why reports cannot be merged.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MergeError {
    /// A report is not the own report of the party that it should be of.
    #[error("expected the report of {expected}, got {}", .came.as_ref().map_or("a merged one", Role::name))]
    Role {
        /// Whose report belongs here.
        expected: Role,
        /// Whose it is; `None` for a merged one.
        came: Option<Role>,
    },
    /// There is not one report of each party.
    #[error("expected {expected} reports, one of each party, got {came}")]
    Count {
        /// How many parties there are.
        expected: usize,
        /// How many reports came.
        came: usize,
    },
    /// The reports speak of different things.
    #[error("the reports differ in {what}: {one}, {other}")]
    Differ {
        /// In what.
        what: &'static str,
        /// The first party, and what its report says, in words.
        one: String,
        /// Another, and what its report says.
        other: String,
    },
}

/// The merged report of alice and bob: see [`merge_all`].
///
/// # Errors
/// As [`merge_all`].
pub fn merge(alice: &Report, bob: &Report) -> Result<Report, MergeError> {
    merge_all(&[alice, bob])
}

/// The merged report of one run: each party's coefficients from its own report, the first one's first, and what belongs to a
/// party keyed by its role.
///
/// What all know is taken from the first report, or from a later one where it has nothing; an end without convergence on
/// any side wins over the others'.
///
/// # Errors
/// There is not one own report of each party in the study's order, alice and bob or the leader and the others by name, or they are of
/// different studies, runs, rows, rounds or penalties.
pub fn merge_all(reports: &[&Report]) -> Result<Report, MergeError> {
    let parties = reports.first().map_or(&[Role::Alice, Role::Bob][..], |report| report.all_parties());
    let ([first, others @ ..], true) = (reports, reports.len() == parties.len()) else {
        return Err(MergeError::Count { expected: parties.len(), came: reports.len() });
    };
    for (report, expected) in reports.iter().zip(parties.iter().copied()) {
        if report.role != Some(expected) {
            let came = report.role;
            return Err(MergeError::Role { expected, came });
        }
    }
    let own: Vec<(Role, &Report)> = parties.iter().copied().zip(reports.iter().copied()).collect();
    same("protocol", &own, |report| report.protocol.name())?;
    same("mode", &own, |report| report.mode.name())?;
    same("study", &own, |report| &report.study)?;
    same("study digest", &own, |report| &report.study_digest)?;
    same("run", &own, |report| &report.run)?;
    same("family", &own, |report| report.family)?;
    same("link", &own, |report| &report.link)?;
    same("outcome", &own, |report| &report.outcome)?;
    same("rows", &own, |report| report.statistics.nobs)?;

    let coefficients = own.iter().flat_map(|(role, report)| own_rows(report, *role)).cloned().collect();
    let mut notes = first.notes.clone();
    for report in others {
        let new: Vec<String> = report.notes.iter().filter(|note| !notes.contains(note)).cloned().collect();
        notes.extend(new);
    }
    let noised = first.noised();
    Ok(Report {
        role: None,
        coefficients,
        statistics: others.iter().fold(first.statistics.clone(), |one, report| statistics(&one, &report.statistics)),
        covariance: covariance(reports),
        term_tests: Some(reports.iter().filter_map(|report| report.term_tests.as_ref()).flatten().cloned().collect())
            .filter(|tests: &Vec<TermTest>| !tests.is_empty()),
        performance: reports.iter().find_map(|report| report.performance.clone()),
        rounds: reports.iter().map(|report| report.rounds).max().unwrap_or(0),
        converged: others.iter().fold(first.converged, |all, report| match (all, report.converged) {
            (Some(all), Some(own)) => Some(all && own),
            _ => None,
        }),
        termination: others.iter().fold(first.termination, |one, report| worse(one, report.termination)),
        trace: others.iter().fold(&first.trace[..], |one, report| longer(one, &report.trace)).to_vec(),
        notes,
        missing: reports.iter().map(|report| report.missing).max().unwrap_or(0),
        lambda: reports.iter().find_map(|report| report.lambda),
        path: path(&own)?,
        cv: reports.iter().find_map(|report| report.cv.clone()),
        lambda_min: reports.iter().find_map(|report| report.lambda_min),
        lambda_1se: reports.iter().find_map(|report| report.lambda_1se),
        certificate: keyed(&own, |report| &report.certificate),
        bytes_sent: keyed(&own, |report| &report.bytes_sent),
        // How long a machine worked and how much memory it took may depend on rows: under privacy nobody else sees it.
        peak_rss_bytes: match noised {
            true => keyed(&own, |_| &PerParty::Own(None)),
            false => keyed(&own, |report| &report.peak_rss_bytes),
        },
        in_files: in_files(&own).filter(|_| !noised),
        seconds: match noised {
            true => keyed(&own, |_| &PerParty::Own(Seconds::UNKNOWN)),
            false => keyed(&own, |report| &report.seconds),
        },
        disclosure: keyed(&own, |report| &report.disclosure),
        privacy: keyed(&own, |report| &report.privacy),
        matching: matching::joined(&own),
        caution: others.iter().fold(first.caution.clone(), |one, report| Caution::joined(one, report.caution.clone())),
        ..(*first).clone()
    }
    .with_derived())
}

/// That of all parties where one of them has it; else the blocks of each.
fn covariance(reports: &[&Report]) -> Option<Covariance> {
    let mut known = reports.iter().filter_map(|report| report.covariance.as_ref());
    match known.clone().find(|covariance| covariance.is_of_several()) {
        Some(whole) => Some(whole.clone()),
        None => Covariance::joined(known.by_ref().collect::<Vec<_>>().into_iter()),
    }
}

/// Refuses reports that differ in a value.
fn same<'a, T: PartialEq + ToString>(
    what: &'static str,
    own: &[(Role, &'a Report)],
    value: impl Fn(&'a Report) -> T,
) -> Result<(), MergeError> {
    let Some(((role, first), others)) = own.split_first() else { return Ok(()) };
    let expected = value(first);
    for (other, report) in others {
        let came = value(report);
        if came != expected {
            let says = |role: &Role, value: T| format!("{role} has `{}`", value.to_string());
            let (one, other) = (says(role, expected), says(other, came));
            return Err(MergeError::Differ { what, one, other });
        }
    }
    Ok(())
}

fn own_rows(report: &Report, role: Role) -> impl Iterator<Item = &Coefficient> {
    report.coefficients.iter().filter(move |row| row.party == role)
}

fn keyed<'a, T: Clone + 'a>(own: &[(Role, &'a Report)], value: impl Fn(&'a Report) -> &'a PerParty<T>) -> PerParty<T> {
    let values = own.iter().filter_map(|(role, report)| Some((*role, value(report).of(*role)?.clone())));
    PerParty::Merged(values.collect::<BTreeMap<Role, T>>())
}

/// Of the parties whose numbers lay in files.
fn in_files(own: &[(Role, &Report)]) -> Option<PerParty<InFiles>> {
    let lay = own.iter().filter_map(|(role, report)| Some((*role, *report.in_files.as_ref()?.of(*role)?)));
    let lay: BTreeMap<Role, InFiles> = lay.collect();
    (!lay.is_empty()).then_some(PerParty::Merged(lay))
}

fn statistics(alice: &Statistics, bob: &Statistics) -> Statistics {
    Statistics {
        nobs: alice.nobs,
        df_residual: alice.df_residual.or(bob.df_residual),
        df_null: alice.df_null.or(bob.df_null),
        deviance: alice.deviance.or(bob.deviance),
        null_deviance: alice.null_deviance.or(bob.null_deviance),
        aic: alice.aic.or(bob.aic),
        bic: alice.bic.or(bob.bic),
        log_lik: alice.log_lik.or(bob.log_lik),
        dispersion: alice.dispersion.or(bob.dispersion),
        r_squared: alice.r_squared.or(bob.r_squared),
    }
}

fn worse(alice: Termination, bob: Termination) -> Termination {
    match (alice, bob) {
        (Termination::Converged, other) => other,
        (Termination::CollinearAcrossParties, other) if !other.converged() => other,
        (other, _) => other,
    }
}

fn longer<'a, T>(a: &'a [T], b: &'a [T]) -> &'a [T] {
    if b.len() > a.len() { b } else { a }
}

/// Each point with every party's coefficients from its own report.
fn path(own: &[(Role, &Report)]) -> Result<Option<Vec<PathPoint>>, MergeError> {
    let with: Vec<(Role, &Report)> = own.iter().copied().filter(|(_, report)| report.path.is_some()).collect();
    let Some((_, first)) = with.first() else { return Ok(None) };
    if with.len() < own.len() {
        return Ok(first.path.clone());
    }
    same("number of lambdas", own, |report| report.path.as_ref().map_or(0, Vec::len))?;
    let points =
        |at: usize| with.iter().filter_map(move |(role, report)| Some((*role, report.path.as_ref()?.get(at)?)));
    let merged = first.path.iter().flatten().enumerate().map(|(at, one)| {
        if points(at).any(|(_, point)| point.lambda.to_bits() != one.lambda.to_bits()) {
            let lambda = |report: &Report| Some(report.path.as_ref()?.get(at)?.lambda);
            same("lambda", own, |report| lambda(report).unwrap_or(f64::NAN))?;
        }
        let of = |(role, point): (Role, &PathPoint)| -> Vec<_> {
            point.coefficients.iter().filter(|c| c.party == role).cloned().collect()
        };
        let coefficients: Vec<_> = points(at).flat_map(of).collect();
        // A party that does not see the others' coefficients counts its own only.
        let df = points(at).map(|(_, point)| point.df).max().unwrap_or(0).max(nonzero(&coefficients));
        let deviance = points(at).map(|(_, point)| point.deviance).find(|deviance| deviance.is_finite());
        let kkt = points(at).map(|(_, point)| point.kkt).fold(one.kkt, f64::max);
        Ok(PathPoint { lambda: one.lambda, df, deviance: deviance.unwrap_or(one.deviance), kkt, coefficients })
    });
    merged.collect::<Result<Vec<_>, _>>().map(Some)
}

fn nonzero(coefficients: &[super::PathCoefficient]) -> u64 {
    coefficients.iter().filter(|c| c.term != super::INTERCEPT && c.estimate.is_some_and(|x| x != 0.0)).count() as u64
}
