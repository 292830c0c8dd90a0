//! One report out of the two that the parties wrote about the same run.

use std::collections::BTreeMap;

use thiserror::Error;

use super::{Caution, PathPoint, PerParty, Report, Seconds, matching};
use crate::fit::{Coefficient, Statistics, Termination};
use crate::id::Role;

/// Why two reports cannot be merged.
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
    /// The reports speak of different things.
    #[error("the reports differ in {what}: alice has `{alice}`, bob has `{bob}`")]
    Differ {
        /// In what.
        what: &'static str,
        /// What Alice's says.
        alice: String,
        /// What Bob's says.
        bob: String,
    },
}

/// The merged report of one run: each party's coefficients from its own report, Alice's first, and what belongs to a
/// party keyed by its role.
///
/// What both know is taken from Alice's report, or from Bob's where hers has nothing; an end without convergence on
/// either side wins over the other's.
///
/// # Errors
/// A report is not that party's own, or the two are of different studies, runs, rows, rounds or penalties.
pub fn merge(alice: &Report, bob: &Report) -> Result<Report, MergeError> {
    for (report, expected) in [(alice, Role::Alice), (bob, Role::Bob)] {
        if report.role != Some(expected) {
            let came = report.role;
            return Err(MergeError::Role { expected, came });
        }
    }
    same("protocol", &alice.protocol.name(), &bob.protocol.name())?;
    same("mode", &alice.mode.name(), &bob.mode.name())?;
    same("study", &alice.study, &bob.study)?;
    same("study digest", &alice.study_digest, &bob.study_digest)?;
    same("run", &alice.run, &bob.run)?;
    same("family", &alice.family, &bob.family)?;
    same("link", &alice.link, &bob.link)?;
    same("outcome", &alice.outcome, &bob.outcome)?;
    same("rows", &alice.statistics.nobs, &bob.statistics.nobs)?;

    let coefficients = own_rows(alice, Role::Alice).chain(own_rows(bob, Role::Bob)).cloned().collect();
    let mut notes = alice.notes.clone();
    notes.extend(bob.notes.iter().filter(|note| !alice.notes.contains(note)).cloned());
    Ok(Report {
        role: None,
        coefficients,
        statistics: statistics(&alice.statistics, &bob.statistics),
        rounds: alice.rounds.max(bob.rounds),
        converged: match (alice.converged, bob.converged) {
            (Some(alice), Some(bob)) => Some(alice && bob),
            _ => None,
        },
        termination: worse(alice.termination, bob.termination),
        trace: longer(&alice.trace, &bob.trace).to_vec(),
        notes,
        missing: alice.missing.max(bob.missing),
        lambda: alice.lambda.or(bob.lambda),
        path: match (&alice.path, &bob.path) {
            (Some(a), Some(b)) => Some(path(a, b)?),
            (a, b) => a.clone().or_else(|| b.clone()),
        },
        cv: alice.cv.clone().or_else(|| bob.cv.clone()),
        lambda_min: alice.lambda_min.or(bob.lambda_min),
        lambda_1se: alice.lambda_1se.or(bob.lambda_1se),
        certificate: keyed(&alice.certificate, &bob.certificate),
        bytes_sent: keyed(&alice.bytes_sent, &bob.bytes_sent),
        // How long a machine worked and how much memory it took may depend on rows: under privacy nobody else sees it.
        peak_rss_bytes: match alice.noised() {
            true => keyed(&PerParty::Own(None), &PerParty::Own(None)),
            false => keyed(&alice.peak_rss_bytes, &bob.peak_rss_bytes),
        },
        seconds: match alice.noised() {
            true => keyed(&PerParty::Own(Seconds::UNKNOWN), &PerParty::Own(Seconds::UNKNOWN)),
            false => keyed(&alice.seconds, &bob.seconds),
        },
        disclosure: keyed(&alice.disclosure, &bob.disclosure),
        privacy: keyed(&alice.privacy, &bob.privacy),
        matching: matching::joined(alice.matching.as_ref(), bob.matching.as_ref()),
        caution: Caution::joined(alice.caution.clone(), bob.caution.clone()),
        ..alice.clone()
    })
}

fn same<T: PartialEq + ToString>(what: &'static str, alice: &T, bob: &T) -> Result<(), MergeError> {
    if alice == bob {
        return Ok(());
    }
    let (alice, bob) = (alice.to_string(), bob.to_string());
    Err(MergeError::Differ { what, alice, bob })
}

fn own_rows(report: &Report, role: Role) -> impl Iterator<Item = &Coefficient> {
    report.coefficients.iter().filter(move |row| row.party == role)
}

fn keyed<T: Clone>(alice: &PerParty<T>, bob: &PerParty<T>) -> PerParty<T> {
    let values = [(Role::Alice, alice.of(Role::Alice)), (Role::Bob, bob.of(Role::Bob))];
    let all: BTreeMap<Role, T> = values.into_iter().filter_map(|(role, value)| Some((role, value?.clone()))).collect();
    PerParty::Merged(all)
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

/// Each point with Alice's coefficients from hers and Bob's from his.
fn path(alice: &[PathPoint], bob: &[PathPoint]) -> Result<Vec<PathPoint>, MergeError> {
    same("number of lambdas", &alice.len(), &bob.len())?;
    alice
        .iter()
        .zip(bob)
        .map(|(a, b)| {
            if a.lambda.to_bits() != b.lambda.to_bits() {
                same("lambda", &a.lambda, &b.lambda)?;
            }
            let of =
                |point: &PathPoint, role| point.coefficients.iter().filter(move |c| c.party == role).cloned().collect();
            let mut coefficients: Vec<_> = of(a, Role::Alice);
            coefficients.extend::<Vec<_>>(of(b, Role::Bob));
            Ok(PathPoint {
                lambda: a.lambda,
                // A party that does not see the other's coefficients counts its own only.
                df: a.df.max(b.df).max(nonzero(&coefficients)),
                deviance: if a.deviance.is_finite() { a.deviance } else { b.deviance },
                kkt: a.kkt.max(b.kkt),
                coefficients,
            })
        })
        .collect()
}

fn nonzero(coefficients: &[super::PathCoefficient]) -> u64 {
    coefficients.iter().filter(|c| c.term != super::INTERCEPT && c.estimate.is_some_and(|x| x != 0.0)).count() as u64
}
