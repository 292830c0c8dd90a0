//! Cross-validation by three simulated roles.

use nalgebra::{DMatrix, DVector};

use super::*;
use crate::study::HeldBy;

const CROSS_VALIDATED: &str = "[penalty]\nlambda = \"path\"\nalpha = 0.5\ncv = 4\n";

#[test]
fn cross_validation_is_that_of_a_plain_fit() {
    // Plain rounds may reach their limit along a path where columns have large means.
    let mut values = values(ROWS, false);
    let means = [40.0, 0.0, 1e3, 8.0, 0.4, 1540.0];
    values.iter_mut().for_each(|row| row.iter_mut().zip(means).for_each(|(value, mean)| *value -= mean));
    for more in ["", "[model]\nintercept = false\n"] {
        let more = format!("{more}{CROSS_VALIDATED}");
        let (sealed, plain) = (sealed(&study("sealed", &more), &values, Faults::NONE), plain(&values, &more));
        assert!(plain[0].termination.converged(), "{}", plain[0].termination);
        assert_eq!(sealed[0].cv, sealed[1].cv);
        assert_eq!((sealed[0].lambda, sealed[0].shown_lambda), (sealed[1].lambda, sealed[1].shown_lambda));
        assert_eq!(sealed[0].coefficients, sealed[1].coefficients);
        let points = |fit: &VerticalFit| fit.cv.clone().unwrap();
        assert_eq!(points(&sealed[0]).len(), 100);
        let null = points(&plain[0])[0].mean;
        for (ours, theirs) in points(&sealed[0]).iter().zip(points(&plain[0])) {
            // Errors are differences of mean squares: their digits are those of the outcome's.
            let off = [ours.mean - theirs.mean, ours.se - theirs.se].map(|off| off.abs() / null);
            assert!(off.iter().all(|off| *off <= 1e-7), "{ours:?} {theirs:?}");
            assert!((ours.lambda - theirs.lambda).abs() <= 1e-9 * theirs.lambda);
        }
        for (ours, theirs) in sealed[0].coefficients.iter().zip(&plain[0].coefficients) {
            let (ours, theirs) = (ours.estimate.unwrap(), theirs.estimate.unwrap());
            assert!((ours - theirs).abs() <= 1e-7 * theirs.abs().max(1e-3), "{ours} {theirs}");
        }
    }
}

#[test]
fn each_fold_has_a_table_and_its_openings_are_counted() {
    let study = study("sealed", CROSS_VALIDATED);
    let [alice, bob] = sealed(&study, &values(ROWS, false), Faults::NONE);
    let numbers = |fit: &VerticalFit| fit.disclosure.opened.iter().map(|opened| opened.numbers).collect::<Vec<_>>();
    // Alice: 100 lambdas with three coefficients and three numbers each, a share for each column, four folds' errors. Bob: four tables of
    // three rows, his factor with units, products and sums of each fold, and parts of the intercepts.
    assert_eq!(numbers(&alice), [100 * 6 + 3, 4 * 100]);
    assert_eq!(numbers(&bob), [4 * 3 * 3, 6 + 3, 4 * (6 + 3), 100]);
    // Alice can do better fold by fold than over all rows.
    let whole = sealed(
        &super::study("sealed", "[penalty]\nlambda = \"path\"\nalpha = 0.5\n"),
        &values(ROWS, false),
        Faults::NONE,
    );
    for (folds, whole) in bob.disclosure.columns.iter().zip(&whole[1].disclosure.columns) {
        assert!(folds.share >= whole.share - 1e-9 && folds.share < whole.share + 0.1, "{folds:?} {whole:?}");
    }
}

#[test]
fn tables_of_folds_that_open_to_both_change_no_digit_and_are_counted_at_both() {
    let both = format!("[sealed]\nopens = \"both\"\n{CROSS_VALIDATED}");
    let values = values(ROWS, false);
    let alone = sealed(&study("sealed", CROSS_VALIDATED), &values, Faults::NONE);
    let [alice, bob] = sealed(&study("sealed", &both), &values, Faults::NONE);
    for (ours, theirs) in [&alice, &bob].into_iter().zip(&alone) {
        assert_eq!((&ours.coefficients, &ours.cv, ours.lambda), (&theirs.coefficients, &theirs.cv, theirs.lambda));
        assert!(ours.notes.iter().any(|note| note.contains("opens to both")), "{:?}", ours.notes);
    }
    let listed = |fit: &VerticalFit| fit.disclosure.opened.iter().map(|opened| opened.numbers).collect::<Vec<_>>();
    assert_eq!(listed(&alice), [4 * 3 * 3, 100 * 6 + 3, 4 * 100]);
    assert_eq!((listed(&bob), bob.disclosure.opened[0].numbers), (listed(&alone[1]), 4 * 3 * 3));
    assert_eq!(bob.disclosure.columns, alone[1].disclosure.columns);
    // Bob can do better fold by fold than over all rows, with the same columns.
    let whole = &alone[0].disclosure.columns;
    assert_eq!(whole.len(), alice.disclosure.columns.len());
    for (folds, whole) in alice.disclosure.columns.iter().zip(whole) {
        assert!(folds.share > whole.share && folds.share < whole.share + 0.1, "{folds:?} {whole:?}");
    }
}

/// R squared of the values at `of` on those at `known` with an intercept, fold by fold.
fn share(values: &[[f64; 6]], folds: &[u32], of: usize, known: &[usize]) -> f64 {
    let mean = |at: usize| values.iter().map(|row| row[at]).sum::<f64>() / values.len() as f64;
    let means: Vec<f64> = (0..6).map(mean).collect();
    let (mut rest, mut all) = (0.0, 0.0);
    for fold in 1..=4 {
        let rows: Vec<&[f64; 6]> =
            values.iter().zip(folds).filter(|(_, of)| **of == fold).map(|(row, _)| row).collect();
        let column = |at: usize| DVector::from_fn(rows.len(), |i, _| rows[i][at] - means[at]);
        let columns: Vec<DVector<f64>> = known.iter().map(|at| column(*at)).collect();
        let design = DMatrix::from_columns(&columns).insert_column(0, 1.0);
        let target = column(of);
        let fitted = &design * (design.tr_mul(&design)).cholesky().unwrap().solve(&design.tr_mul(&target));
        (rest, all) = (rest + (&target - fitted).norm_squared(), all + target.norm_squared());
    }
    1.0 - rest / all
}

#[test]
fn what_the_other_can_say_of_columns_with_tables_of_folds_is_least_squares_fold_by_fold() {
    let values = values(ROWS, false);
    let folds: Vec<u32> = (0..ROWS as u32).map(|row| 1 + row % 4).collect();
    for (held_by, known) in [(HeldBy::Both, &[2, 3, 4, 5][..]), (HeldBy::One(Role::Alice), &[2, 3, 4])] {
        let mut study = study("sealed", &format!("[sealed]\nopens = \"both\"\n{CROSS_VALIDATED}"));
        Arc::make_mut(&mut study).method.outcome.held_by = held_by;
        let [alice, bob] = sealed(&study, &values, Faults::NONE);
        let of_alice = [0, 1].map(|of| share(&values, &folds, of, known));
        let of_bob = [2, 3, 4].map(|of| share(&values, &folds, of, &[0, 1, 5]));
        let shares = |fit: &VerticalFit| fit.disclosure.columns.iter().map(|column| column.share).collect::<Vec<_>>();
        let outcome = held_by.is_alone().then(|| share(&values, &folds, 5, known));
        let of_alice: Vec<f64> = of_alice.into_iter().chain(outcome).collect();
        for (ours, theirs) in [(shares(&alice), &of_alice[..]), (shares(&bob), &of_bob[..])] {
            assert_eq!(ours.len(), theirs.len(), "{ours:?}");
            let mut both = ours.iter().zip(theirs);
            assert!(both.all(|(ours, theirs)| (ours - theirs).abs() < 1e-8), "{ours:?} {theirs:?}");
        }
    }
}

#[test]
fn folds_with_too_few_rows_are_refused_before_a_column_leaves() {
    let study = study("sealed", CROSS_VALIDATED);
    let mut masked = 0;
    let observe = |_, message: &Message| masked += u32::from(matches!(message.body, Body::Masked(_)));
    // Rows for five columns are enough, those of a fold are not, and neither are values of b3.
    let ended = sealed_with(&study, &values(198, false), Faults::NONE, observe, |_, _| {});
    let abort = abort(ended);
    assert_eq!(abort.exit(), Exit::Data, "{abort}");
    assert!(abort.to_string().contains("the rows of fold "), "{abort}");
    assert_eq!(masked, 0);
}

#[test]
fn a_lossy_line_gives_the_bits_of_a_clean_one() {
    for opens in ["", "[sealed]\nopens = \"both\"\n"] {
        let (study, values) = (study("sealed", &format!("{opens}{CROSS_VALIDATED}")), values(ROWS, false));
        // As text: what is not a number has no equal.
        let text = |faults| format!("{:?}", sealed(&study, &values, faults));
        let clean = text(Faults::NONE);
        for seed in 0..5 {
            let faults = Faults { drop: 0.2, duplicate: 0.2, reorder: 0.0, seed };
            assert_eq!(text(faults), clean, "{opens} seed {seed}");
        }
    }
}
