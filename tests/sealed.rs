//! The sealed fit against the pooled one, over the simulated line.

use fedreg_common::fit::Termination;
use fedreg_common::id::Role;
use fedreg_common::sim::pair::Faults;
use fedreg_common::study::HeldBy;
use fedreg_tests::vectors::{self, CrossValidation, Glm, Implied, Penalised};
use fedreg_tests::vertical::{family, fitted, implied_off, run, run_sealed, statistics_off, study, study_sealed};

/// The digits that are promised: 1e-9 of the reference, or of a thousandth of its standard error where that is more; 1e-8 of columns
/// that nearly depend on each other.
fn off(got: f64, expected: f64, std_error: f64, digits: f64) -> f64 {
    (got - expected).abs() / (digits * expected.abs().max(1e-3 * std_error))
}

#[test]
fn sealed_fits_have_the_digits_of_the_pooled_glm() {
    let mut worst: Vec<(f64, String)> = Vec::new();
    let mut cases = 0;
    for glm in vectors::all::<Glm>("glm") {
        let case = &glm.case;
        if case.family != "gaussian" || case.is("fewer_rows_than_columns") {
            continue;
        }
        cases += 1;
        let hard = case.is("longley") || case.is("ill_conditioned");
        let digits = if hard { 1e-8 } else { 1e-9 };
        for fit in fitted(run_sealed(&study_sealed(case, ""), &case.file(), Faults::NONE)) {
            let name = &case.name;
            let dropped = glm.coefficients.iter().any(|row| row.estimate.is_none());
            assert!(
                fit.termination == Termination::Converged
                    || dropped && fit.termination == Termination::CollinearAcrossParties,
                "{name} {}",
                fit.termination
            );
            assert_eq!(fit.coefficients.len(), glm.coefficients.len(), "{name}");
            for (got, row) in fit.coefficients.iter().zip(&glm.coefficients) {
                assert_eq!((&got.term, got.estimate.is_some()), (&row.term, row.estimate.is_some()), "{name}");
                let (Some(estimate), Some(reference)) = (got.estimate, row.estimate) else { continue };
                let (Some(error), Some(of_reference)) = (got.std_error, row.std_error) else {
                    panic!("{name}: no standard error of {}", got.term);
                };
                let most = off(estimate, reference, of_reference, digits).max(off(error, of_reference, 0.0, digits));
                worst.push((most, format!("{name} {}: {estimate} {reference} se {error} {of_reference}", got.term)));
            }
            worst.extend(statistics_off(name, &fit, &glm));
        }
    }
    assert!(cases >= 20, "{cases}");
    worst.sort_by(|a, b| b.0.total_cmp(&a.0));
    let bad: Vec<_> = worst.iter().filter(|(off, _)| !(*off <= 1.0)).collect();
    println!("worst {:?}", &worst[..5]);
    assert!(bad.is_empty(), "{} of {} are off: {:#?}", bad.len(), worst.len(), &bad[..bad.len().min(12)]);
}

#[test]
fn what_follows_from_the_opened_table_is_what_r_says() {
    let mut worst: Vec<(f64, String)> = Vec::new();
    let (mut cases, mut fractional) = (std::collections::BTreeMap::<String, usize>::new(), 0);
    let glms: Vec<Glm> = vectors::all("glm");
    for mut implied in vectors::all::<Implied>("statistics") {
        let case = &glms.iter().find(|glm| glm.case.name == implied.name).unwrap().case;
        if case.is("ill_conditioned") || case.is("longley") {
            continue;
        }
        let gaussian = case.family == "gaussian";
        if case.is("fractional_weights") {
            fractional += 1;
            if case.family == "binomial" {
                // R's likelihood counts whole trials, which would open a sum over the rows that rounding changes.
                implied.measures.mcfadden_r_squared = None;
            }
        }
        *cases.entry(case.family.clone()).or_default() += 1;
        for fit in fitted(run_sealed(&study_sealed(case, ""), &case.file(), Faults::NONE)) {
            let name = &case.name;
            let off = implied_off(name, &fit, &implied, family(&case.family), false);
            // Measured, in units of 1e-8: 1e-4 of gaussian fits, 0.8 of binomial ones, 51 of the one with probabilities near 0 and 1, and 1.2
            // of poisson ones.
            let digits = match case.family.as_str() {
                "gaussian" => 0.01,
                _ if case.name == "binomial_steep" => 60.0,
                "binomial" => 1.0,
                _ => 1.5,
            };
            worst.extend(off.into_iter().map(|(off, what)| (off / digits, what)));
            assert_eq!(fit.term_tests.iter().flatten().all(|row| row.vif.is_some()), gaussian, "{name}");
            assert_eq!(fit.performance, None, "{name}");
            let said = fit
                .notes
                .iter()
                .any(|note| note.starts_with("discrimination and calibration: not computed in sealed mode"));
            assert_eq!(said, case.family == "binomial", "{name}");
        }
    }
    worst.sort_by(|a, b| b.0.total_cmp(&a.0));
    println!("worst {:?}", &worst[..5]);
    assert!(
        cases["gaussian"] >= 20 && cases["binomial"] >= 13 && cases["poisson"] >= 9 && fractional >= 1,
        "{cases:?}"
    );
    let bad: Vec<_> = worst.iter().filter(|(off, _)| !(*off <= 1.0)).collect();
    assert!(bad.is_empty(), "{} of {} are off: {:#?}", bad.len(), worst.len(), &bad[..bad.len().min(12)]);
}

/// Binomial and poisson fits: the case, the digits of coefficients, and the most gradients.
fn evaluated(family: &str, digits: f64, most: u32) {
    let mut worst: Vec<(f64, String)> = Vec::new();
    let mut cases = 0;
    for mut glm in vectors::all::<Glm>("glm") {
        if family == "binomial" && glm.case.is("fractional_weights") {
            // R's likelihood counts whole trials, which would open a sum over the rows that rounding changes.
            (glm.aic, glm.bic, glm.log_lik) = (None, None, None);
        }
        let case = &glm.case;
        if case.family != family {
            continue;
        }
        cases += 1;
        // Offset and outcome at both, and where that says the same, at Alice alone.
        let both = study_sealed(case, "");
        let mut alone = both.clone();
        alone.method.offset.iter_mut().for_each(|offset| offset.held_by = HeldBy::One(Role::Alice));
        // The deviance of counts in the millions needs digits that the table has not.
        let needed = case.name == "poisson_counts_in_the_millions";
        alone.method.outcome.held_by = if needed { HeldBy::Both } else { HeldBy::One(Role::Alice) };
        let fits = [both, alone].map(|study| fitted(run_sealed(&study, &case.file(), Faults::NONE)));
        for fit in fits.into_iter().flatten() {
            let name = &case.name;
            assert!(fit.termination.converged(), "{name}: {} {:?}", fit.termination, fit.notes);
            assert_eq!(fit.coefficients.len(), glm.coefficients.len(), "{name}");
            println!("{name}: {} gradients", fit.rounds);
            assert!(fit.rounds <= most, "{name}: {} gradients", fit.rounds);
            for (got, row) in fit.coefficients.iter().zip(&glm.coefficients) {
                assert_eq!((&got.term, got.estimate.is_some()), (&row.term, row.estimate.is_some()), "{name}");
                let (Some(estimate), Some(reference)) = (got.estimate, row.estimate) else { continue };
                let (Some(error), Some(of_reference)) = (got.std_error, row.std_error) else {
                    panic!("{name}: no standard error of {}", got.term);
                };
                // A coefficient of a hundredth of its standard error, in the fit that takes most gradients: 5.3e-8 of it were measured.
                let digits = if case.name == "poisson_no_intercept" { 6e-8 } else { digits };
                let most = off(estimate, reference, of_reference, digits).max(off(error, of_reference, 0.0, 1e-6));
                worst.push((most, format!("{name} {}: {estimate} {reference} se {error} {of_reference}", got.term)));
            }
            // Counts in the millions: each of the two sums whose difference the deviance is has 17 digits at best, of which the gradients
            // keep 14.
            let kept = if name == "poisson_counts_in_the_millions" { 0.1 } else { 1.0 };
            worst.extend(statistics_off(name, &fit, &glm).into_iter().map(|(off, what)| (kept * off, what)));
        }
    }
    assert!(cases >= if family == "binomial" { 15 } else { 9 }, "{cases}");
    worst.sort_by(|a, b| b.0.total_cmp(&a.0));
    println!("worst {:#?}", &worst[..8]);
    let bad: Vec<_> = worst.iter().filter(|(off, _)| !(*off <= 1.0)).collect();
    assert!(bad.is_empty(), "{} of {} are off: {:#?}", bad.len(), worst.len(), &bad[..bad.len().min(12)]);
}

#[test]
fn sealed_binomial_fits_have_the_digits_of_the_pooled_glm() {
    evaluated("binomial", 2e-8, 22);
}

#[test]
fn sealed_poisson_fits_have_the_digits_of_the_pooled_glm() {
    evaluated("poisson", 5e-8, 22);
}

/// How far penalised fits of a family are off glmnet's at every lambda. `digits` are those of coefficients, in units of the coefficient or of
/// a share of the largest one, which is the other number; `kkt` is the violation of the optimality conditions, in units of the outcome's
/// spread. The fit is promised `most` gradients a lambda, if there are any.
fn penalised(family: &str, (digits, share): (f64, f64), kkt: f64, most: f64) -> usize {
    let mut worst: Vec<(f64, String)> = Vec::new();
    let mut cases = 0;
    for reference in vectors::all::<Penalised>("penalised") {
        let case = &reference.case;
        if case.family != family || case.is("fewer_rows_than_columns") || case.name.contains("fewer_rows") {
            continue;
        }
        cases += 1;
        let lambdas: Vec<f64> = reference.path.iter().map(|point| point.lambda).collect();
        let lambda = if reference.lambda_source == "path" { "\"path\"".to_string() } else { format!("{lambdas:?}") };
        let study = study_sealed(case, &format!("[penalty]\nlambda = {lambda}\nalpha = {:?}\n", reference.alpha));
        let fits = fitted(run_sealed(&study, &case.file(), Faults::NONE));
        let paths = fits.each_ref().map(|fit| fit.path.as_ref().unwrap());
        for (index, point) in reference.path.iter().enumerate() {
            let name = format!("{} lambda {} ({index})", case.name, point.lambda);
            for path in paths {
                assert!(
                    (path[index].lambda - point.lambda).abs() <= 1e-9 * point.lambda,
                    "{name} {}",
                    path[index].lambda
                );
                worst.push((path[index].kkt / kkt, format!("{name}: kkt {}", path[index].kkt)));
                let off = (path[index].deviance - point.deviance).abs() / (1e-8 * point.deviance);
                worst.push((off, format!("{name}: deviance {} {}", path[index].deviance, point.deviance)));
            }
            let size = point.coefficients.iter().fold(0.0_f64, |size, b| size.max(b.abs()));
            for row in paths.iter().flat_map(|path| &path[index].coefficients) {
                let expected = match reference.terms.iter().position(|term| *term == row.term) {
                    Some(place) => point.coefficients[place],
                    None => point.intercept.unwrap(),
                };
                let unit = expected.abs().max(share * size).max(1e-12);
                let off = (row.estimate.unwrap() - expected).abs() / (digits * unit);
                worst.push((off, format!("{name} {}: {:?} {expected}", row.term, row.estimate)));
            }
        }
        let [alice, bob] = &fits;
        println!("{}: {} gradients, {} lambdas", case.name, alice.rounds, lambdas.len());
        assert!(f64::from(alice.rounds) <= most * lambdas.len() as f64, "{}: {} gradients", case.name, alice.rounds);
        assert_eq!(alice.coefficients, bob.coefficients, "{}", case.name);
        assert!(alice.coefficients.iter().all(|row| row.std_error.is_none()));
    }
    worst.sort_by(|a, b| b.0.total_cmp(&a.0));
    println!("worst {:#?}", &worst[..8]);
    let bad: Vec<_> = worst.iter().filter(|(off, _)| !(*off <= 1.0)).collect();
    assert!(bad.is_empty(), "{} of {} are off: {:#?}", bad.len(), worst.len(), &bad[..bad.len().min(12)]);
    cases
}

#[test]
fn sealed_penalised_fits_reach_the_optimum_at_every_lambda() {
    assert!(penalised("gaussian", (1e-8, 1e-3), 1e-10, 1.0) >= 8);
}

#[test]
fn sealed_penalised_binomial_fits_reach_the_optimum_at_every_lambda() {
    assert!(penalised("binomial", (2e-8, 1.0), 1e-8, 6.0) >= 11);
}

#[test]
fn sealed_penalised_poisson_fits_reach_the_optimum_at_every_lambda() {
    assert!(penalised("poisson", (5e-8, 1.0), 1e-8, 6.0) >= 9);
}

#[test]
fn sealed_cross_validation_gives_the_means_and_errors_of_cv_glmnet() {
    let mut cases = 0;
    for reference in vectors::all::<CrossValidation>("cross_validation") {
        let case = &reference.case;
        if case.family != "gaussian" {
            continue;
        }
        cases += 1;
        let lambdas: Vec<f64> = reference.cv.iter().map(|point| point.lambda).collect();
        let (alpha, folds) = (reference.alpha, reference.folds);
        let penalty = format!("[penalty]\nlambda = {lambdas:?}\nalpha = {alpha:?}\ncv = {folds}\n");
        let plain = fitted(run(&study(case, &penalty), &case.file(), Faults::NONE));
        let sealed = fitted(run_sealed(&study_sealed(case, &penalty), &case.file(), Faults::NONE));
        assert_eq!(sealed[0].coefficients, sealed[1].coefficients, "{}", case.name);
        for (fit, plain) in sealed.iter().zip(&plain) {
            for (got, expected) in fit.cv.as_ref().unwrap().iter().zip(&reference.cv) {
                let off = (got.mean - expected.mean).abs().max((got.se - expected.se).abs()) / expected.mean;
                assert!(off < 1e-7, "{} {got:?} {expected:?}", case.name);
            }
            assert_eq!(fit.lambda, Some((reference.lambda_min, reference.lambda_1se)), "{}", case.name);
            assert_eq!(fit.shown_lambda, Some(reference.lambda_min));
            for (got, expected) in fit.coefficients.iter().zip(&plain.coefficients) {
                let (got, expected) = (got.estimate.unwrap(), expected.estimate.unwrap());
                assert!((got - expected).abs() <= 1e-7 * expected.abs().max(1e-3), "{} {got} {expected}", case.name);
            }
        }
    }
    assert!(cases >= 4, "{cases}");
}
