//! Fits whose range the study fixes: parts of the linear predictor are cut there, and nothing of their size leaves.

use std::sync::Arc;

use serde::Deserialize;

use super::super::*;
use super::glm::{BINOMIAL, POISSON, blames, joints, rows, spoiled};
use super::{ROWS, abort, fits, prepared, sealed, sealed_with, study};
use crate::fit::Termination;
use crate::id::Role;
use crate::methods::vertical::message::{Body, JointKind, Message};
use crate::methods::vertical::outcome::VerticalFit;
use crate::methods::vertical::prepare::Policy;
use crate::privacy::caution::CUT;
use crate::privacy::ledger::Before;
use crate::sim::pair::Faults;
use crate::study::{Study, Vertical};

/// The fits of `tests/vectors/make/cut.py`.
#[derive(Deserialize)]
struct Vectors {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    family: String,
    rows: Vec<[f64; 6]>,
    fits: Vec<Cut>,
}

#[derive(Deserialize)]
struct Cut {
    range: f64,
    /// Rows beyond the range, at Alice and at Bob.
    cut: [u32; 2],
    estimates: Vec<f64>,
    std_errors: Vec<f64>,
    deviance: f64,
}

fn vectors() -> Vectors {
    serde_json::from_str(include_str!("../../../../../../tests/vectors/secure/cut.json")).unwrap()
}

fn of_family(name: &str) -> &'static str {
    if name == "binomial" { BINOMIAL } else { POISSON }
}

fn fixed(family: &str, range: f64) -> Arc<Study<Vertical>> {
    study("sealed", &format!("{family}\n[sealed]\nrange = {range}"))
}

fn near(ours: f64, theirs: f64, digits: f64) {
    assert!((ours - theirs).abs() <= digits * theirs.abs().max(1e-3), "{ours} {theirs}");
}

#[test]
fn a_range_that_holds_every_row_changes_no_digit_of_a_fit() {
    for (name, family, range) in [("binomial", BINOMIAL, 8.0), ("poisson", POISSON, 5.0)] {
        let values = rows(name, ROWS, false);
        for (more, digits) in [("", 5e-8), ("\n[penalty]\nlambda = [0.05, 0.01]", 1e-6)] {
            let by_class = sealed(&study("sealed", &format!("{family}{more}")), &values, Faults::NONE);
            let fixed = study("sealed", &format!("{family}{more}\n[sealed]\nrange = {range}"));
            for (ours, theirs) in sealed(&fixed, &values, Faults::NONE).iter().zip(&by_class) {
                assert_eq!((ours.termination, &ours.caution), (Termination::Converged, &None), "{name}{more}");
                for (ours, theirs) in ours.coefficients.iter().zip(&theirs.coefficients) {
                    near(ours.estimate.unwrap(), theirs.estimate.unwrap(), digits);
                    assert_eq!(ours.std_error.is_some(), theirs.std_error.is_some());
                    ours.std_error
                        .into_iter()
                        .zip(theirs.std_error)
                        .for_each(|(ours, theirs)| near(ours, theirs, 1e-6));
                }
                near(ours.statistics.deviance.unwrap(), theirs.statistics.deviance.unwrap(), digits);
                assert!(ours.notes.iter().any(|note| note.contains("fixes the range")), "{:?}", ours.notes);
            }
        }
    }
}

#[test]
fn a_fit_beyond_the_range_is_that_of_the_cut_predictor_and_the_party_that_cut_says_so_first() {
    let mut told = [0; 2];
    for case in vectors().cases {
        for expected in &case.fits {
            let study = fixed(of_family(&case.family), expected.range);
            let both = sealed(&study, &case.rows, Faults::NONE);
            for (at, fit) in both.iter().enumerate() {
                println!("{} {}: {} gradients", case.family, expected.range, fit.rounds);
                assert_eq!(fit.termination, Termination::Converged, "{:?}", fit.notes);
                assert_eq!(fit.coefficients.len(), expected.estimates.len());
                for (at, row) in fit.coefficients.iter().enumerate() {
                    near(row.estimate.unwrap(), expected.estimates[at], 2e-7);
                    near(row.std_error.unwrap(), expected.std_errors[at], 1e-6);
                }
                near(fit.statistics.deviance.unwrap(), expected.deviance, 1e-7);
                let first = fit.caution.as_ref();
                assert_eq!(first.is_some(), expected.cut[at] > 0, "{} {}", case.family, expected.range);
                if let Some(first) = first {
                    told[at] += 1;
                    let said = first.reasons.concat();
                    assert!(first.banner == CUT && said.contains(&format!("beyond {}", expected.range)), "{first:?}");
                    // Nothing declares how many rows that are.
                    assert!(!said.contains(&expected.cut[at].to_string()) || expected.cut[at] == 1, "{said}");
                }
            }
        }
    }
    assert_eq!(told, [2, 2], "each party cut in two of the fits");
}

/// What stands in the places of ranges in a run, at Alice and at Bob.
fn ranges(study: &Arc<Study<Vertical>>, values: &[[f64; 6]]) -> [Vec<f64>; 2] {
    let mut ranges = [Vec::new(), Vec::new()];
    let observe = |side: usize, message: &Message| {
        if let Body::Joint(joint) = &message.body {
            match joint.what {
                JointKind::Point => ranges[side].push(joint.values[1]),
                JointKind::Range => ranges[side].push(joint.values[0]),
                _ => {}
            }
        }
    };
    fits(sealed_with(study, values, Faults::NONE, observe, |_, _| {}));
    ranges
}

#[test]
fn with_a_fixed_range_no_message_says_how_large_a_predictor_is() {
    // The position of 8 among the classes; the number itself for poisson.
    for (name, family, range, said) in [("binomial", BINOMIAL, 8.0, 9.0), ("poisson", POISSON, 5.0, 5.0)] {
        let mut values = rows(name, ROWS, false);
        let by_class = ranges(&study("sealed", family), &values);
        assert!(by_class.iter().flatten().any(|range| *range != said), "{by_class:?}");
        for _ in 0..2 {
            let fixed = ranges(&fixed(family, range), &values);
            assert!(fixed.iter().all(|ranges| ranges.len() >= 3), "{fixed:?}");
            assert!(fixed.iter().flatten().all(|range| *range == said), "{name} {fixed:?}");
            // Other sizes of the predictor.
            values.iter_mut().for_each(|values| values[1] = values[1].powi(3) * 2.0);
        }
    }
}

#[test]
fn a_range_in_a_message_that_is_not_the_studys_ends_the_run() {
    let family = format!("{BINOMIAL}\n[sealed]\nrange = 8");
    let bob = joints(JointKind::Range, |values| values[0] = 5.0);
    blames(spoiled(&family, "binomial", Role::Bob, bob, |_, _| {}), "a range that is not one of the ranges");
    let alice = joints(JointKind::Point, |values| values[1] = 5.0);
    blames(spoiled(&family, "binomial", Role::Alice, alice, |_, _| {}), "a point that is not possible");
}

#[test]
fn a_poisson_range_without_digits_is_refused_before_a_column_leaves() {
    let values = rows("poisson", ROWS, false);
    let refusal = |range: f64| {
        let study = fixed(POISSON, range);
        let table = prepared(&study, Role::Alice, &values, &Policy::default()).unwrap();
        allowed(&table, &[3], Before::default())
    };
    assert!(refusal(6.0).is_ok());
    let said = refusal(8.0).unwrap_err();
    assert!(said.to_string().contains("fixed point has digits for 6 at most"), "{said}");
    let mut left = false;
    let ended = sealed_with(
        &fixed(POISSON, 8.0),
        &values,
        Faults::NONE,
        |_, message| left |= matches!(message.body, Body::Masked(_)),
        |_, _| {},
    );
    assert_eq!((abort(ended).exit(), left), (said.exit(), false));
}

#[test]
fn separated_outcomes_do_not_converge_at_a_fixed_range() {
    let mut values = rows("binomial", 2500, false);
    values.iter_mut().for_each(|values| values[5] = f64::from(u8::from(values[1] > 0.0)));
    for fit in sealed(&fixed(BINOMIAL, 3.0), &values, Faults::NONE) {
        let VerticalFit { termination, notes, .. } = &fit;
        let unconverged = [Termination::Separation, Termination::MaxRounds, Termination::OutOfRange];
        assert!(unconverged.contains(termination), "{termination:?} {notes:?}");
        assert!(fit.coefficients.iter().all(|row| row.std_error.is_none()));
    }
}
