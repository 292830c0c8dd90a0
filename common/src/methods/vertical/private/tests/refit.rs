//! Sub-models of fits by the mechanism `crossprod`.

use super::crossprod::dealt;
use super::*;
use crate::methods::vertical::refit::{Columns, Wanted};
use crate::report::{PerParty, Report};
use crate::study::{Lambda, PenaltyTerms};

const CROSSPROD: &str = "epsilon = 1.0\nmechanism = \"crossprod\"\n";
const PATH: &str = "[penalty]\nlambda = [1e6, 1.0, 0.0]\nalpha = 0.9\n";

fn at_alice(more: &str) -> Arc<Study<Vertical>> {
    Arc::new(vertical(&text(more).replace("column = \"y\"\n", "column = \"y\"\nheld_by = \"alice\"\n")))
}

fn without(columns: &[&str]) -> Wanted {
    let columns = columns.iter().map(|name| (*name).to_string()).collect();
    Wanted { columns: Columns::Drop(columns), penalty: None }
}

fn refitted(fit: &PrivateFit, study: &Study<Vertical>, wanted: &Wanted) -> Report {
    fit.kept.as_ref().unwrap().refit(study, wanted).unwrap()
}

#[test]
fn with_hardly_any_noise_a_sub_model_is_that_of_the_pooled_columns() {
    let more = "epsilon = 1e9\nlarge_epsilon = \"a test of scales\"\nmechanism = \"crossprod\"\n";
    for study in [study(more), at_alice(more)] {
        let (fits, _) = dealt(&parties(&study, 1e9), Faults::NONE);
        // Columns of the design by their places among a1, a2, b1 and kind.
        for (dropped, kept) in [
            (&["kind"][..], &[0, 1, 2][..]),
            (&["a1"], &[1, 2, 3]),
            (&["b1", "a2"], &[0, 3]),
            (&["kindy", "b1"], &[0, 1]),
        ] {
            let values = values();
            let x =
                DMatrix::from_fn(ROWS, 1 + kept.len(), |row, j| if j == 0 { 1.0 } else { values[row][kept[j - 1]] });
            let y = DVector::from_fn(ROWS, |row, _| values[row][4]);
            let pooled = x.clone().svd(true, true).solve(&y, 1e-12).unwrap();
            let rest = (&y - &x * &pooled).norm_squared() / ROWS as f64;
            let errors = (x.tr_mul(&x).try_inverse().unwrap() * rest).diagonal().map(f64::sqrt);
            let [alice, bob] = fits.each_ref().map(|fit| refitted(fit, &study, &without(dropped)));
            assert_eq!(alice.coefficients, bob.coefficients);
            assert_eq!(alice.coefficients.len(), 1 + kept.len(), "{dropped:?}");
            for (at, row) in alice.coefficients.iter().enumerate() {
                // Rows are truncated to 15 bits, which moves the intercept by a share of the centres.
                let tolerance = if at == 0 { 0.2 } else { 0.01 * pooled[at].abs().max(1.0) };
                let (estimate, error) = (row.estimate.unwrap(), row.std_error.unwrap());
                assert!((estimate - pooled[at]).abs() < tolerance, "{}: {estimate} {}", row.term, pooled[at]);
                // With the divisor n.
                assert!((error / errors[at] - 1.0).abs() < 0.01, "{}: {error} {}", row.term, errors[at]);
            }
        }
    }
}

#[test]
fn all_columns_again_are_the_fit_itself_with_its_noise_at_no_cost() {
    for study in [study(CROSSPROD), at_alice(CROSSPROD)] {
        let (fits, _) = dealt(&parties(&study, 1.5), Faults::NONE);
        for fit in &fits {
            let report = refitted(fit, &study, &Wanted { columns: Columns::All, penalty: None });
            let mut expected = fit.coefficients.clone();
            if report.caution.as_ref().is_some_and(|caution| caution.inference_withheld) {
                expected.iter_mut().for_each(crate::fit::Coefficient::withhold_inference);
            }
            assert_eq!(report.coefficients, expected);
            let PerParty::Own(Some(account)) = &report.privacy else { panic!("no account") };
            let (of_run, of_refit) = (charged(&fit.statement), charged(account));
            assert_eq!((account.charge, of_refit.releases.len()), (0.0, 0));
            assert_eq!((of_refit.spent, of_refit.left), (of_run.spent, of_run.left));
            assert_eq!(account.promise, fit.statement.promise);
            assert_eq!(report.statistics.nobs, fit.nobs);
            assert_eq!((report.statistics.deviance, report.converged, report.measures.f_test), (None, None, None));
            // A sub-model has its own noise: fewer entries of the tables stand in the way.
            let part = refitted(fit, &study, &without(&["kind"]));
            assert!(part.coefficients.iter().all(|row| row.std_error.is_some_and(|error| error > 0.0)));
        }
    }
}

#[test]
fn a_penalised_sub_model_is_what_a_penalised_fit_makes_of_the_same_tables() {
    let [free, path] = [study(CROSSPROD), study(&format!("{CROSSPROD}{PATH}"))];
    let [(one, _), (many, _)] = [&free, &path].map(|study| dealt(&parties(study, 1.5), Faults::NONE));
    let penalty = PenaltyTerms { lambda: Lambda::Many(vec![1e6, 1.0, 0.0]), alpha: 0.9, cv: None, folds: None };
    for (free_fit, path_fit) in one.iter().zip(&many) {
        let report = refitted(free_fit, &free, &Wanted { columns: Columns::All, penalty: Some(penalty.clone()) });
        let [ours, theirs] = [&report.path, &path_fit.path].map(|path| path.as_ref().unwrap());
        assert_eq!(ours.len(), theirs.len());
        for (ours, theirs) in ours.iter().zip(theirs) {
            assert_eq!((ours.lambda, ours.df, ours.kkt), (theirs.lambda, theirs.df, theirs.kkt));
            assert_eq!(ours.coefficients, theirs.coefficients);
        }
        // And the other way round: of a fit with a penalty one without, with its errors.
        let plain = refitted(path_fit, &path, &Wanted { columns: Columns::All, penalty: None });
        let estimates = |rows: &[crate::fit::Coefficient]| -> Vec<_> {
            rows.iter().map(|row| (row.estimate, row.std_error)).collect()
        };
        assert_eq!(estimates(&plain.coefficients), estimates(&free_fit.coefficients));
    }
}

#[test]
fn tables_that_are_not_of_the_study_s_plan_are_refused() {
    let study = study(CROSSPROD);
    let (fits, _) = dealt(&parties(&study, 1.5), Faults::NONE);
    let kept = fits[0].kept.as_ref().unwrap();
    let sound = serde_json::to_value(kept).unwrap();
    let back: crate::methods::vertical::refit::Kept = serde_json::from_value(sound.clone()).unwrap();
    assert_eq!(back.check(&study, Role::Alice), Ok(()));
    assert!(back == *kept, "numbers read back as the same bits");
    for (pointer, value) in [
        ("/tables/noised/setup/rows", serde_json::json!(299)),
        ("/tables/noised/setup/budget", serde_json::json!(9.0)),
        ("/tables/noised/values", serde_json::json!([1.0, 2.0])),
    ] {
        let mut changed = sound.clone();
        *changed.pointer_mut(pointer).unwrap() = value;
        let changed: crate::methods::vertical::refit::Kept = serde_json::from_value(changed).unwrap();
        let abort = changed.check(&study, Role::Alice).unwrap_err();
        assert!(abort.exit() == Exit::Data && abort.to_string().contains("damaged"), "{pointer}: {abort}");
    }
}
