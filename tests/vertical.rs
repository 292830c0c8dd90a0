//! The vertical fit against the pooled one, over the simulated line.

use fedreg_common::fit::{Termination, Test};
use fedreg_common::id::Role;
use fedreg_common::methods::vertical::outcome::VerticalFit;
use fedreg_common::report::hypothesis::{self, Fitted, HypothesisError};
use fedreg_common::sim::pair::Faults;
use fedreg_common::study::{HeldBy, Study};
use fedreg_tests::vectors::{
    self, Case, CrossValidation, Glm, Hypotheses, Implied, LinearTest, Near, Penalised, Unbounded,
};
use fedreg_tests::vertical::{family, fitted, implied_off, run, statistics_off, study};

/// The digits that are promised: 1e-8 of the reference, or of a thousandth of its standard error where that is more.
fn close(got: f64, expected: f64, std_error: f64) -> f64 {
    (got - expected).abs() / (1e-8 * expected.abs().max(1e-3 * std_error))
}

#[test]
fn coefficients_and_standard_errors_have_the_digits_of_the_pooled_glm() {
    let mut worst: Vec<(f64, String)> = Vec::new();
    for glm in vectors::all::<Glm>("glm") {
        let case = &glm.case;
        if case.is("fewer_rows_than_columns") {
            continue;
        }
        for (acceleration, when) in [("anderson", "first"), ("anderson", "after"), ("none", "after")] {
            if acceleration == "none" && (case.is("longley") || case.is("ill_conditioned")) {
                continue;
            }
            let study = study(case, &format!("[fit]\nacceleration = {acceleration:?}\n[inference]\nwhen = {when:?}\n"));
            let ended = run(&study, &case.file(), Faults::NONE);
            for fit in fitted(ended) {
                let name = format!("{} {acceleration} {when} {} rounds {}", case.name, fit.termination, fit.rounds);
                assert!(fit.termination.converged(), "{name}");
                assert_eq!(fit.coefficients.len(), glm.coefficients.len(), "{name}");
                for (got, row) in fit.coefficients.iter().zip(&glm.coefficients) {
                    assert_eq!(got.term, row.term, "{name}");
                    assert_eq!(got.estimate.is_some(), row.estimate.is_some(), "{name} {}", got.term);
                    let (Some(estimate), Some(reference)) = (got.estimate, row.estimate) else {
                        continue;
                    };
                    let (Some(error), Some(reference_error)) = (got.std_error, row.std_error) else {
                        panic!("{name}: no standard error of {}", got.term);
                    };
                    // Everything else in the row follows from these two; a p-value magnifies what they are off by.
                    for (what, got, expected, slack) in [
                        ("statistic", got.statistic, row.statistic, 1e-7),
                        ("p-value", got.p_value, row.p_value, 1e-5),
                        ("lower end", got.conf_low, row.conf_low, 1e-7),
                        ("upper end", got.conf_high, row.conf_high, 1e-7),
                    ] {
                        let (Some(got), Some(expected)) = (got, expected) else { panic!("{name}: no {what}") };
                        let size = if what == "p-value" { expected } else { expected.abs().max(reference_error) };
                        // A p-value below the smallest number is 0 in both.
                        let off = if got == expected { 0.0 } else { (got - expected).abs() / (slack * size) };
                        worst.push((off, format!("{name} {what} of {}: {got} {expected}", row.term)));
                    }
                    let off = close(estimate, reference, reference_error).max(close(error, reference_error, 0.0));
                    worst.push((
                        off,
                        format!("{name} {}: {estimate} {reference} se {error} {reference_error}", got.term),
                    ));
                }
                worst.extend(statistics_off(&name, &fit, &glm));
            }
        }
    }
    worst.sort_by(|a, b| b.0.total_cmp(&a.0));
    let bad: Vec<_> = worst.iter().filter(|(off, _)| !(*off <= 1.0)).collect();
    println!("worst {:?}", &worst[..5]);
    assert!(bad.is_empty(), "{} of {} are off: {:#?}", bad.len(), worst.len(), &bad[..bad.len().min(12)]);
}

/// Numbers of a tree of JSON that are off what R says, in units of eight digits.
pub(crate) fn tree_off(
    name: &str,
    got: &serde_json::Value,
    expected: &serde_json::Value,
    off: &mut Vec<(f64, String)>,
) {
    use serde_json::Value::{Array, Number, Object};
    match (got, expected) {
        (Number(a), Number(b)) => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            off.push(((a - b).abs() / (1e-8 * b.abs().max(1.0)), format!("{name}: {a} {b}")));
        }
        (Array(got), Array(expected)) => {
            assert_eq!(got.len(), expected.len(), "{name}");
            got.iter().zip(expected).for_each(|(got, expected)| tree_off(name, got, expected, off));
        }
        (Object(got), Object(expected)) => {
            assert!(got.len() >= expected.len(), "{name}");
            for (key, got) in got {
                tree_off(&format!("{name} {key}"), got, expected.get(key).unwrap_or(&serde_json::Value::Null), off);
            }
        }
        (got, expected) => assert_eq!(got, expected, "{name}"),
    }
}

#[test]
fn what_follows_from_a_fit_at_either_party_has_the_digits_of_r() {
    let mut worst: Vec<(f64, String)> = Vec::new();
    let cases: Vec<Glm> = vectors::all("glm");
    let (mut blocks, mut curves) = (0, 0);
    for implied in vectors::all::<Implied>("statistics") {
        let case = &cases.iter().find(|glm| glm.case.name == implied.name).unwrap().case;
        let fits = fitted(run(&study(case, "[fit]\ntol = 1e-11\n"), &case.file(), Faults::NONE));
        let terms: Vec<&String> =
            fits.iter().flat_map(|fit| fit.term_tests.iter().flatten()).map(|row| &row.term).collect();
        assert_eq!(terms, implied.term_tests.iter().map(|row| &row.term).collect::<Vec<_>>(), "{}", case.name);
        for (fit, who) in fits.iter().zip(["alice", "bob"]) {
            let name = format!("{} at {who}", case.name);
            worst.extend(implied_off(&name, fit, &implied, family(&case.family), true));
            blocks += 1;
            // Both hold the outcome.
            assert_eq!(fit.performance.is_some(), implied.performance.is_some(), "{name} {:?}", fit.notes);
            if let (Some(got), Some(expected)) = (&fit.performance, &implied.performance) {
                tree_off(&name, &serde_json::to_value(got).unwrap(), expected, &mut worst);
                curves += 1;
            }
        }
    }
    assert!(blocks >= 90 && curves >= 20, "{blocks} {curves}");
    worst.sort_by(|a, b| b.0.total_cmp(&a.0));
    let bad: Vec<_> = worst.iter().filter(|(off, _)| !(*off <= 1.0)).collect();
    println!("worst {:?}", &worst[..5]);
    assert!(bad.is_empty(), "{} of {} are off: {:#?}", bad.len(), worst.len(), &bad[..bad.len().min(30)]);
}

#[test]
fn separation_is_named() {
    for unbounded in vectors::all::<Unbounded>("termination") {
        let case = &unbounded.case;
        for fit in fitted(run(&study(case, ""), &case.file(), Faults::NONE)) {
            assert_eq!(fit.termination, Termination::Separation, "{} after {} rounds", case.name, fit.rounds);
        }
    }
}

#[test]
fn a_gaussian_fit_that_leaves_nothing_over_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let case = |rows: usize, y: &dyn Fn(f64, f64) -> f64, more: &str| {
        let file = folder.path().join("table.csv");
        let lines = (0..rows).map(|row| {
            let (a, b) = ((row * 7 % 11) as f64, (row * 5 % 13) as f64);
            format!("{},{a},{b}\n", y(a, b))
        });
        std::fs::write(&file, ["y,a,b\n".to_string()].into_iter().chain(lines).collect::<String>()).unwrap();
        let text = "id = \"test\"\n[parties.alice]\ncertificate = \"alice\"\ncolumns = [\"a\"]\n[parties.bob]\n\
                    certificate = \"bob\"\ncolumns = [\"b\"]\n[outcome]\ncolumn = \"y\"\n[model]\nfamily = \"gaussian\"\n";
        let study = Study::parse(&format!("{text}{more}")).unwrap().vertical().unwrap();
        fitted(run(&study, &file, Faults::NONE))
    };
    let said = |fit: &VerticalFit, what: &str| fit.notes.iter().any(|note| note.contains(what));
    let all = ["same value in every row", "fit the outcome perfectly", "as many coefficients as rows"];
    let noisy = |a: f64, b: f64| 2.0 + a - 0.5 * b + (a * 12.9898 + b * 78.233).sin();
    let check_with = |rows: usize, y: &dyn Fn(f64, f64) -> f64, more: &str, expected: Option<usize>| {
        for fit in case(rows, y, more) {
            let found: Vec<usize> = (0..all.len()).filter(|at| said(&fit, all[*at])).collect();
            assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{:?}", fit.notes);
        }
    };
    let check = |rows, y: &dyn Fn(f64, f64) -> f64, expected| check_with(rows, y, "", expected);
    check(40, &noisy, None);
    check(40, &|_, _| 4.25, Some(0));
    check_with(40, &|_, _| 4.25, "intercept = false\n", None);
    check(40, &|a, b| 2.0 + a - 0.5 * b, Some(1));
    check(3, &noisy, Some(2));
}

#[test]
fn penalised_fits_reach_the_optimum_at_every_lambda() {
    let mut worst: Vec<(f64, String)> = Vec::new();
    for reference in vectors::all::<Penalised>("penalised") {
        let case = &reference.case;
        let lambdas: Vec<f64> = reference.path.iter().map(|point| point.lambda).collect();
        let lambda = if reference.lambda_source == "path" { "\"path\"".to_string() } else { format!("{lambdas:?}") };
        let study = study(case, &format!("[penalty]\nlambda = {lambda}\nalpha = {:?}\n", reference.alpha));
        let fits = fitted(run(&study, &case.file(), Faults::NONE));
        let paths = fits.each_ref().map(|fit| fit.path.as_ref().unwrap());
        for (index, point) in reference.path.iter().enumerate() {
            let name = format!("{} lambda {} ({index})", case.name, point.lambda);
            for path in paths {
                assert!(
                    (path[index].lambda - point.lambda).abs() <= 1e-9 * point.lambda,
                    "{name}: {}",
                    path[index].lambda
                );
                worst.push((path[index].kkt / 1e-8, format!("{name}: kkt {}", path[index].kkt)));
                let off = (path[index].deviance - point.deviance).abs() / (1e-6 * point.deviance);
                worst.push((off, format!("{name}: deviance {} {}", path[index].deviance, point.deviance)));
            }
            let got: Vec<_> = paths.iter().flat_map(|path| &path[index].coefficients).collect();
            let size = point.coefficients.iter().fold(0.0_f64, |size, b| size.max(b.abs()));
            for row in got {
                let expected = match reference.terms.iter().position(|term| *term == row.term) {
                    Some(place) => point.coefficients[place],
                    None => point.intercept.unwrap(),
                };
                let off =
                    (row.estimate.unwrap() - expected).abs() / (1e-6 * expected.abs().max(1e-3 * size).max(1e-12));
                worst.push((off, format!("{name} {}: {:?} {expected}", row.term, row.estimate)));
            }
        }
        println!("{} rounds {}", case.name, fits[0].rounds);
    }
    worst.sort_by(|a, b| b.0.total_cmp(&a.0));
    let bad: Vec<_> = worst.iter().filter(|(off, _)| !(*off <= 1.0)).collect();
    println!("worst {:?}", &worst[..5]);
    assert!(bad.is_empty(), "{} of {} are off: {:#?}", bad.len(), worst.len(), &bad[..bad.len().min(12)]);
}

#[test]
fn a_path_with_an_offset_that_alice_alone_holds_begins_where_it_does_with_one_that_both_hold() {
    let cases = vectors::all::<Glm>("glm");
    let mut paths = 0;
    for case in cases.iter().map(|glm| &glm.case).filter(|case| case.offset.is_some()) {
        let more = "[penalty]\nlambda = \"path\"\n[inference]\nallowed = false\n";
        let both = study(case, more);
        let mut alone = both.clone();
        alone.method.offset.iter_mut().for_each(|offset| offset.held_by = HeldBy::One(Role::Alice));
        let mut all = alone.clone();
        all.method.outcome.held_by = HeldBy::One(Role::Alice);
        let fits = [both, alone, all].map(|study| fitted(run(&study, &case.file(), Faults::NONE)));
        let [both, alone, all] = fits.each_ref().map(|[fit, _]| fit.path.as_ref().unwrap());
        for (both, alone) in both.iter().chain(both).zip(alone.iter().chain(all)) {
            assert!((both.lambda / alone.lambda - 1.0).abs() < 1e-9, "{}: {} {}", case.name, both.lambda, alone.lambda);
            let apart = both.coefficients.iter().zip(&alone.coefficients);
            let apart = apart.map(|(one, two)| (one.estimate.unwrap() - two.estimate.unwrap()).abs());
            let size = both.coefficients.iter().fold(1.0_f64, |size, row| size.max(row.estimate.unwrap().abs()));
            let apart = apart.fold(0.0, f64::max);
            assert!(apart < 1e-6 * size, "{} at {}: {apart:e}", case.name, both.lambda);
        }
        let columns = &fits[1][0].disclosure.columns;
        assert!(columns.iter().any(|column| Some(&column.term) == case.offset.as_ref() && column.share == 1.0));
        paths += 1;
    }
    assert!(paths >= 4, "{paths}");
}

#[test]
fn cross_validation_gives_the_means_and_errors_of_cv_glmnet() {
    for reference in vectors::all::<CrossValidation>("cross_validation") {
        let case = &reference.case;
        let lambdas: Vec<f64> = reference.cv.iter().map(|point| point.lambda).collect();
        let penalty =
            format!("[penalty]\nlambda = {lambdas:?}\nalpha = {:?}\ncv = {}\n", reference.alpha, reference.folds);
        for fit in fitted(run(&study(case, &penalty), &case.file(), Faults::NONE)) {
            for (got, expected) in fit.cv.as_ref().unwrap().iter().zip(&reference.cv) {
                let off = (got.mean - expected.mean).abs().max((got.se - expected.se).abs()) / expected.mean;
                assert!(off < 1e-7, "{} {got:?} {expected:?}", case.name);
            }
            assert_eq!(fit.lambda, Some((reference.lambda_min, reference.lambda_1se)), "{}", case.name);
        }
    }
}

/// A fit as its report would have it.
fn reported<'a>(case: &'a Case, fit: &'a VerticalFit) -> Fitted<'a> {
    Fitted {
        family: family(&case.family),
        outcome: &case.outcome,
        statistics: &fit.statistics,
        coefficients: &fit.coefficients,
        covariance: fit.covariance.as_ref(),
        unfit: None,
    }
}

/// How far a test is off another, in units of 1e-8 of its numbers.
fn test_off(name: &str, got: Option<&Test>, expected: &Test) -> Vec<(f64, String)> {
    let got = got.unwrap_or_else(|| panic!("{name}: no test"));
    assert_eq!((got.df, got.df_residual), (expected.df, expected.df_residual), "{name}");
    let off = |got: f64, expected: f64| (got - expected).abs() / (1e-8 * expected.abs());
    let sentence = format!("{name}: {got:?} {expected:?}");
    vec![(off(got.statistic, expected.statistic).max(off(got.p_value, expected.p_value)), sentence)]
}

#[test]
fn columns_that_nearly_depend_on_each_other_have_their_estimates_and_all_their_errors() {
    let mut off: Vec<(f64, String)> = Vec::new();
    for Near { case, coefficients } in vectors::all::<Near>("near") {
        for (sender, when) in [("alice", "first"), ("bob", "first"), ("alice", "after"), ("bob", "after")] {
            let study = study(&case, &format!("[inference]\nsender = {sender:?}\nwhen = {when:?}\n"));
            for fit in fitted(run(&study, &case.file(), Faults::NONE)) {
                let name = format!("{} sender {sender} {when}, {} rounds, {}", case.name, fit.rounds, fit.termination);
                println!("{name}");
                if fit.termination != Termination::Converged || fit.rounds > 100 {
                    off.push((f64::INFINITY, name.clone()));
                }
                for (got, expected) in fit.coefficients.iter().zip(&coefficients) {
                    assert_eq!(got.term, expected.term, "{name}");
                    let estimate = got.estimate.map_or(f64::INFINITY, |b| (b - expected.estimate).abs());
                    let error = got.std_error.map_or(f64::INFINITY, |e| (e / expected.std_error - 1.0).abs());
                    // Of columns that are told apart by their last digits a few digits are left; of other families than gaussian the last
                    // step is one of Newton's method, from where the rounds came to rest.
                    let worst = (estimate / (5e-5 * expected.std_error)).max(error / 5e-5);
                    let row = format!(
                        "{:?} {:?}, expected {} {}",
                        got.estimate, got.std_error, expected.estimate, expected.std_error
                    );
                    off.push((worst, format!("{name}: {} {row}", got.term)));
                }
            }
        }
    }
    off.sort_by(|a, b| b.0.total_cmp(&a.0));
    off.iter().take(20).for_each(|(off, what)| println!("{off:.2e} {what}"));
    assert!(off[0].0 <= 1.0, "{} {}", off[0].0, off[0].1);
}

#[test]
fn tests_of_nested_fits_and_of_linear_hypotheses_are_those_of_r() {
    let (mut all, mut cases) = (Vec::new(), 0);
    let known: Vec<Glm> = vectors::all("glm");
    for reference in vectors::all::<Hypotheses>("hypotheses") {
        let case = &known.iter().find(|glm| glm.case.name == reference.name).unwrap().case;
        let mut less = case.clone();
        (less.alice, less.bob) = (reference.smaller.alice.clone(), reference.smaller.bob.clone());
        let [small, large] =
            [&less, case].map(|case| fitted(run(&study(case, "[fit]\ntol = 1e-12\n"), &case.file(), Faults::NONE)));
        for side in [0, 1] {
            let name = format!("{} {side}", case.name);
            let [small, large] = [reported(&less, &small[side]), reported(case, &large[side])];
            let nested = hypothesis::nested(small, large).unwrap();
            all.extend(test_off(&name, nested.likelihood_ratio.as_ref(), &reference.likelihood_ratio));
            assert_eq!(nested.f.is_some(), reference.f.is_some(), "{name}");
            all.extend(reference.f.iter().flat_map(|f| test_off(&name, nested.f.as_ref(), f)));
            let back = hypothesis::nested(large, small).unwrap_err().to_string();
            assert!(back.contains("give the smaller fit first"), "{name}: {back}");
            cases += 1;
        }
        for LinearTest { hypotheses, test } in &reference.linear {
            let name = format!("{} {hypotheses:?}", case.name);
            let tested = hypothesis::linear(reported(case, &large[0]), hypotheses).unwrap();
            all.extend(test_off(&name, tested.test.as_ref(), test));
            let twice: Vec<String> = hypotheses.iter().chain(hypotheses).cloned().collect();
            assert_eq!(
                hypothesis::linear(reported(case, &large[0]), &twice),
                Err(HypothesisError::Dependent),
                "{name}"
            );
            // Bob's report has no covariance of Alice's coefficients.
            let at_bob = hypothesis::linear(reported(case, &large[1]), hypotheses).unwrap_err().to_string();
            assert!(at_bob.contains("no coefficient with an estimate"), "{name}: {at_bob}");
        }
    }
    assert_eq!(cases, 18);
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    println!("worst {:?}", &all[..5]);
    let bad: Vec<_> = all.iter().filter(|(off, _)| !(*off <= 1.0)).collect();
    assert!(bad.is_empty(), "{} of {} are off: {:#?}", bad.len(), all.len(), &bad[..bad.len().min(12)]);
}
