//! The sealed fit against the pooled one, over the simulated line.

use fedreg_common::fit::Termination;
use fedreg_common::sim::pair::Faults;
use fedreg_tests::vectors::{self, Glm};
use fedreg_tests::vertical::{fitted, run_sealed, statistics_off, study_sealed};

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

/// Binomial and poisson fits: the case, the digits of coefficients, and the most gradients.
fn evaluated(family: &str, digits: f64, most: u32) {
    let mut worst: Vec<(f64, String)> = Vec::new();
    let mut cases = 0;
    for glm in vectors::all::<Glm>("glm") {
        let case = &glm.case;
        if case.family != family || !case.intercept || case.weights.is_some() || case.offset.is_some() {
            continue;
        }
        cases += 1;
        for fit in fitted(run_sealed(&study_sealed(case, ""), &case.file(), Faults::NONE)) {
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
                let most = off(estimate, reference, of_reference, digits).max(off(error, of_reference, 0.0, 1e-6));
                worst.push((most, format!("{name} {}: {estimate} {reference} se {error} {of_reference}", got.term)));
            }
            worst.extend(statistics_off(name, &fit, &glm));
        }
    }
    assert!(cases >= 5, "{cases}");
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
