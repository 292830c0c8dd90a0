//! Gaussian fits whose factors open for sub-models.

use std::sync::Arc;

use super::super::*;
use super::glm::{Spoiled, joints};
use super::{ROWS, RUN, abort, fits, opening, prepared, recorded, sealed, sealed_with, study, values};
use crate::exit::Exit;
use crate::fit::INTERCEPT;
use crate::id::Role;
use crate::methods::vertical::message::{JointKind, Message};
use crate::methods::vertical::outcome::VerticalFit;
use crate::methods::vertical::prepare::Policy;
use crate::methods::vertical::refit::{Columns, Wanted};
use crate::privacy::ledger::Before;
use crate::privacy::openings::OneRun;
use crate::secure::open::Limits;
use crate::session::Abort;
use crate::sim::dealer::dealer;
use crate::sim::pair::{self, Ended, Faults};
use crate::study::{Study, Vertical};

const REFIT: &str = "[sealed]\nrefit = true\n";
const BOTH: &str = "[sealed]\nrefit = true\nopens = \"both\"\n";
const PATH: &str = "[penalty]\nlambda = [1.0, 0.1, 0.01]\nalpha = 0.5\n";
const FOLDS: &str = "[penalty]\nlambda = [1.0, 0.1]\nalpha = 0.5\ncv = 4\n";

fn refit(more: &str) -> Arc<Study<Vertical>> {
    study("sealed", more)
}

#[test]
fn factors_that_open_change_no_digit_of_the_fit() {
    for (sealed_terms, more, dependent) in [
        (REFIT, "", false),
        (REFIT, "", true),
        (REFIT, PATH, false),
        (REFIT, FOLDS, false),
        (BOTH, "", true),
        (BOTH, PATH, false),
        (BOTH, FOLDS, false),
    ] {
        let values = values(ROWS, dependent);
        let without =
            sealed(&refit(&format!("{more}{}", sealed_terms.replace("refit = true\n", ""))), &values, Faults::NONE);
        for (ours, theirs) in
            sealed(&refit(&format!("{more}{sealed_terms}")), &values, Faults::NONE).iter().zip(&without)
        {
            assert_eq!((&ours.coefficients, &ours.statistics), (&theirs.coefficients, &theirs.statistics), "{more}");
            assert_eq!((&ours.path, ours.termination), (&theirs.path, theirs.termination));
            let holds = sealed_terms == BOTH || ours.model.role == Role::Alice;
            assert_eq!((ours.kept.is_some(), theirs.kept.is_some()), (holds, false), "{more}");
        }
    }
}

#[test]
fn all_columns_again_are_the_fit_and_what_depended_is_named_as_there() {
    for dependent in [false, true] {
        let (study, values) = (refit(BOTH), values(ROWS, dependent));
        for fit in sealed(&study, &values, Faults::NONE) {
            let kept = fit.kept.unwrap();
            let report = kept.refit(&study, &Wanted { columns: Columns::All, penalty: None }).unwrap();
            assert_eq!(report.coefficients.len(), fit.coefficients.len());
            assert_eq!(report.termination, fit.termination);
            for (ours, theirs) in report.coefficients.iter().zip(&fit.coefficients) {
                assert_eq!(
                    (&ours.term, ours.party, ours.estimate.is_some()),
                    (&theirs.term, theirs.party, theirs.estimate.is_some())
                );
                let (Some(a), Some(b)) = (ours.estimate, theirs.estimate) else { continue };
                let (error, of) = (ours.std_error.unwrap(), theirs.std_error.unwrap());
                assert!((a - b).abs() <= 1e-9 * b.abs().max(1e-3 * of), "{} {a} {b}", ours.term);
                assert!((error - of).abs() <= 1e-9 * of, "{} {error} {of}", ours.term);
            }
            let named = report
                .notes
                .iter()
                .any(|note| note == "bob: `b2` not estimated, since it depends on other columns of the model");
            assert_eq!(named, dependent, "{:?}", report.notes);
            // Without what it depends on it has an estimate.
            let without = Wanted { columns: Columns::Drop(vec!["a1".to_string()]), penalty: None };
            let report = kept.refit(&study, &without).unwrap();
            assert!(report.coefficients.iter().all(|row| row.estimate.is_some()), "{:?}", report.coefficients);
            assert_eq!(report.coefficients[0].term, INTERCEPT);
        }
    }
}

#[test]
fn what_opens_for_sub_models_is_counted_and_listed_where_it_leaves() {
    for (terms, more, dependent, for_refits) in [
        (REFIT, "", false, [0, 6 + 3 + 9]),
        (REFIT, "", true, [0, 6 + 3 + 9]),
        (REFIT, PATH, false, [0, 9]),
        (BOTH, "", false, [3 + 2 + 6 + 2 + 4, 6 + 3 + 9]),
        (BOTH, PATH, false, [3 + 2 + 6 + 2 + 4, 9]),
        (REFIT, FOLDS, false, [0, 9]),
        (BOTH, FOLDS, false, [3 + 2 + 6 + 2 + 4, 9]),
    ] {
        let (study, values) = (refit(&format!("{more}{terms}")), values(ROWS, dependent));
        for ((fit, opened), expected) in recorded(&study, &values, |_, _| {}).into_iter().zip(for_refits) {
            let listed: u64 = fit.disclosure.opened.iter().map(|opened| opened.numbers).sum();
            assert_eq!(opened, listed, "{terms}{more}");
            let own = fit.disclosure.opened.iter().filter(|opened| opened.what.contains("places, means and scales"));
            assert_eq!(own.map(|opened| opened.numbers).sum::<u64>(), expected, "{terms}{more}");
        }
    }
}

#[test]
fn a_partys_own_limit_counts_its_factor() {
    let values = values(ROWS, false);
    let refused = |role: Role, terms: &str, numbers: f64| {
        let limits = Limits { opened_share: (numbers + 0.5) / (2.0 * ROWS as f64), ..Limits::default() };
        let policy = Policy { limits, ..Policy::default() };
        let table = prepared(&refit(terms), role, &values, &policy).unwrap();
        allowed(&table, &[if role == Role::Alice { 3 } else { 2 }], Before::default()).is_err()
    };
    // Bob's table of 9 and two numbers for the intercept, with 18 of his factor; Alice's 17 and 9, with 17 of hers where it opens.
    for (role, terms, needed) in [
        (Role::Bob, "", 11.0),
        (Role::Bob, REFIT, 29.0),
        (Role::Alice, REFIT, 17.0),
        (Role::Alice, BOTH, 17.0 + 9.0 + 17.0),
    ] {
        assert_eq!(
            [needed - 1.0, needed].map(|numbers| refused(role, terms, numbers)),
            [true, false],
            "{role} {terms}"
        );
    }
}

/// A run in which one party says something else in its factor.
fn lie(terms: &str, liar: Role, change: impl FnMut(&mut Vec<f64>)) -> Ended<VerticalFit> {
    let (study, values) = (refit(terms), values(ROWS, false));
    let start = |role| {
        SealedSession::new(
            prepared(&study, role, &values, &Policy::default()).unwrap(),
            opening(role),
            Box::new(OneRun),
        )
    };
    let deal = dealer(&study, RUN, |_, _| {});
    let observe = |_: usize, _: &Message| {};
    let spoil = joints(JointKind::Factor, change);
    match liar {
        Role::Alice => {
            let mut alice = Spoiled { inner: start(Role::Alice), spoil };
            pair::run_dealt(&mut alice, &mut start(Role::Bob), Faults::NONE, observe, deal)
        }
        _ => {
            let mut bob = Spoiled { inner: start(Role::Bob), spoil };
            pair::run_dealt(&mut start(Role::Alice), &mut bob, Faults::NONE, observe, deal)
        }
    }
}

#[test]
fn a_factor_that_no_columns_can_have_ends_the_run() {
    let caught = |ended: Ended<VerticalFit>, what: &str| {
        let abort: Abort = abort(ended);
        assert!(abort.exit() == Exit::Peer && abort.to_string().contains(what), "{what}: {abort}");
    };
    // Bob: 6 of the factor, 3 units, then places, means and scales of three columns.
    for (at, value, what) in [
        (0, 2.0, "a factor"),
        (6, -1.0, "a factor"),
        (9, 0.5, "places of columns"),
        (9, 1.0, "places of columns"),
        (11, 7.0, "places of columns"),
        (11, 1e9, "places of columns"),
        (12, f64::INFINITY, "places of columns"),
        (15, 0.0, "places of columns"),
        (16, -1.0, "places of columns"),
        (17, f64::NAN, "places of columns"),
    ] {
        caught(lie(REFIT, Role::Bob, |values| values[at] = value), what);
    }
    caught(lie(REFIT, Role::Bob, |values| values.truncate(9)), "a factor");
    // Alice: 3 and 2 of the factor, 6 of places, then the outcome: two coordinates, centre, rest, mean square, spread.
    for (at, value, what) in [
        (5, 3.0, "places of columns"),
        (11, 1e3, "the outcome's coordinates"),
        (13, f64::NAN, "the outcome's coordinates"),
        (14, 1e3, "the outcome's coordinates"),
        (15, -1.0, "the outcome's coordinates"),
        (16, 0.0, "the outcome's coordinates"),
    ] {
        caught(
            lie(BOTH, Role::Alice, |values| {
                if values.len() == 17 {
                    values[at] = value
                }
            }),
            what,
        );
    }
}

#[test]
fn a_lossy_line_leaves_the_same_tables_as_a_clean_one() {
    let (study, values) = (refit(BOTH), values(ROWS, true));
    let kept = |faults| fits(sealed_with(&study, &values, faults, |_, _| {}, |_, _| {})).map(|fit| fit.kept);
    let clean = kept(Faults::NONE);
    for seed in 0..4 {
        assert!(kept(Faults { drop: 0.2, duplicate: 0.2, reorder: 0.0, seed }) == clean, "seed {seed}");
    }
}
