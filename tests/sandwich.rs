//! Standard errors from residuals against R's `sandwich`, over the simulated lines.

use fedreg_common::id::Role;
use fedreg_common::methods::vertical::outcome::VerticalFit;
use fedreg_common::sim::pair::Faults;
use fedreg_tests::vectors::{self, Case, Glm, Sandwich};
use fedreg_tests::{several, vertical};

const KINDS: [&str; 4] = ["HC0", "HC1", "HC2", "HC3"];

/// How far the errors of a party's table are off, in units of the promised digits, each with its name.
fn off(name: &str, (fit, who): (&VerticalFit, Role), terms: &[String], expected: &[f64]) -> Vec<(f64, String)> {
    let rows = fit.coefficients.iter().filter(|row| row.estimate.is_some());
    let mut found = Vec::new();
    for row in rows {
        let at = terms.iter().position(|term| *term == row.term);
        let expected = expected[at.unwrap_or_else(|| panic!("{name}: no term {}", row.term))];
        let Some(error) = row.std_error else { panic!("{name}: no error of {}", row.term) };
        found.push(((error - expected).abs() / (1e-8 * expected), format!("{name} {}: {error} {expected}", row.term)));
        // What follows of it does.
        let statistic = row.statistic.unwrap_or(f64::NAN);
        assert!((statistic - row.estimate.unwrap() / error).abs() <= 1e-12 * statistic.abs(), "{name} {}", row.term);
    }
    assert_eq!(found.len(), terms.len(), "{name}");
    let own = fit.coefficients.iter().filter(|row| row.party == who && row.estimate.is_some()).count();
    let covariance = fit.covariance.as_ref();
    assert_eq!(covariance.map_or(0, |covariance| covariance.terms.len()), own, "{name}");
    for (at, term) in covariance.iter().flat_map(|covariance| covariance.terms.iter().enumerate()) {
        let error = fit.coefficients.iter().find(|row| row.term == *term).unwrap().std_error.unwrap();
        let by_covariance = covariance.unwrap().matrix[at][at].unwrap().sqrt();
        assert!((by_covariance - error).abs() <= 1e-12 * error, "{name} {term}");
    }
    found
}

fn assert_small(mut all: Vec<(f64, String)>) {
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    println!("worst {:?}", &all[..5]);
    let bad: Vec<_> = all.iter().filter(|(off, _)| !(*off <= 1.0)).collect();
    assert!(bad.is_empty(), "{} of {} are off: {:#?}", bad.len(), all.len(), &bad[..bad.len().min(20)]);
}

fn other(party: &str) -> &'static str {
    if party == "alice" { "bob" } else { "alice" }
}

fn cases() -> Vec<(Case, Sandwich)> {
    let glms: Vec<Glm> = vectors::all("glm");
    let case = |of: &Sandwich| glms.iter().find(|glm| glm.case.name == of.name).unwrap().case.clone();
    vectors::all::<Sandwich>("sandwich").into_iter().map(|of| (case(&of), of)).collect()
}

#[test]
fn errors_from_residuals_at_either_party_have_the_digits_of_sandwich() {
    let (mut all, mut fits) = (Vec::new(), 0);
    for (case, of) in cases() {
        for (kind, sender) in KINDS.into_iter().zip(["alice", "bob", "alice", "bob"]).chain([("HC3", "alice")]) {
            let Some(expected) = &of.std_errors[kind] else { continue };
            let more = format!("[inference]\nerrors = {kind:?}\nsender = {sender:?}\n[fit]\ntol = 1e-11\n");
            let ended = vertical::run(&vertical::study(&case, &more), &case.file(), Faults::NONE);
            for (fit, who) in vertical::fitted(ended).iter().zip([Role::Alice, Role::Bob]) {
                let name = format!("{} {kind} of {sender} at {who}", case.name);
                all.extend(off(&name, (fit, who), &of.terms, expected));
                let second = format!("For them {} sent, beside a projection table, a second table", other(sender));
                let note = fit.notes.iter().find(|note| note.starts_with(&format!("standard errors: {kind}, ")));
                assert!(note.is_some_and(|note| note.contains(&second)), "{name}: {note:?}");
                fits += 1;
            }
        }
    }
    assert!(fits >= 450, "{fits}");
    assert_small(all);
}

#[test]
fn errors_from_residuals_of_several_parties_have_the_digits_of_sandwich() {
    let (mut all, mut fits) = (Vec::new(), 0);
    for (case, of) in cases() {
        for (kind, parties, held_by) in [("HC0", 3, "anna"), ("HC1", 5, "all"), ("HC2", 5, "anna"), ("HC3", 3, "all")] {
            let Some(expected) = &of.std_errors[kind] else { continue };
            let more = format!("[inference]\nerrors = {kind:?}\n[fit]\ntol = 1e-11\n");
            let study = several::study(&case, parties, held_by, &more);
            let ended = several::run(&study, &case.file(), Faults::NONE);
            for (fit, who) in several::fitted(ended).iter().zip(study.parties_in_order()) {
                let name = format!("{} {kind} {parties} at {who}", case.name);
                all.extend(off(&name, (fit, who), &of.terms, expected));
                fits += 1;
            }
        }
    }
    assert!(fits >= 500, "{fits}");
    assert_small(all);
}

#[test]
fn variance_inflation_is_that_of_the_model_whatever_the_errors_are() {
    let (case, _) = cases().into_iter().find(|(case, _)| case.name == "gaussian_diabetes").unwrap();
    let fits = |more: &str| vertical::fitted(vertical::run(&vertical::study(&case, more), &case.file(), Faults::NONE));
    let (model, robust) = (fits(""), fits("[inference]\nerrors = \"HC3\"\n"));
    for (model, robust) in model.iter().zip(&robust) {
        let tests = |fit: &VerticalFit| fit.term_tests.clone().unwrap();
        for (model, robust) in tests(model).iter().zip(&tests(robust)) {
            assert_eq!(model.vif, robust.vif, "{}", model.term);
            assert_ne!(model.wald, robust.wald, "{}", model.term);
        }
        // The fit itself is the same.
        assert_eq!(model.statistics, robust.statistics);
        let estimates = |fit: &VerticalFit| fit.coefficients.iter().map(|row| row.estimate).collect::<Vec<_>>();
        assert_eq!(estimates(model), estimates(robust));
    }
}
