//! Sub-models from the tables that have opened in a sealed fit, against R on the pooled data.

use fedreg_common::exit::Exit;
use fedreg_common::fit::{Measures, Test};
use fedreg_common::glm::Family;
use fedreg_common::id::Role;
use fedreg_common::methods::vertical::outcome::VerticalFit;
use fedreg_common::methods::vertical::refit::{Columns, Kept, RefitError, SelectError, Wanted, allowed};
use fedreg_common::report::{PerParty, Report};
use fedreg_common::sim::pair::Faults;
use fedreg_common::study::{HeldBy, Lambda, PathWord, PenaltyTerms, Study, Vertical};
use fedreg_tests::several;
use fedreg_tests::vectors::{self, Case, Glm, Penalised, SubModel, SubModels};
use fedreg_tests::vertical::{fitted, run_sealed, study_sealed};

const REFIT: &str = "[sealed]\nrefit = true\n";
const BOTH: &str = "[sealed]\nrefit = true\nopens = \"both\"\n";

fn kept(study: &Study<Vertical>, case: &Case) -> [Option<Kept>; 2] {
    fitted(run_sealed(study, &case.file(), Faults::NONE)).map(|fit: VerticalFit| fit.kept)
}

fn wanted(drop: &[String], penalty: Option<PenaltyTerms>) -> Wanted {
    let columns = if drop.is_empty() { Columns::All } else { Columns::Drop(drop.to_vec()) };
    Wanted { columns, penalty }
}

/// The digits that are promised of a sub-model: 1e-8 of the reference, or of a thousandth of its standard error where that is more.
fn off(got: f64, expected: f64, std_error: f64) -> f64 {
    (got - expected).abs() / (1e-8 * expected.abs().max(1e-3 * std_error))
}

/// A number beside its reference, in units of eight digits.
fn pair(name: &str, got: Option<f64>, expected: Option<f64>, size: f64) -> (f64, String) {
    match (got, expected) {
        (Some(got), Some(expected)) => {
            let off = if got == expected { 0.0 } else { (got - expected).abs() / (1e-8 * expected.abs().max(size)) };
            (off, format!("{name}: {got} {expected}"))
        }
        (got, expected) => {
            assert_eq!(got, expected, "{name}");
            (0.0, String::new())
        }
    }
}

fn tests(name: &str, got: Option<Test>, expected: Option<Test>) -> Vec<(f64, String)> {
    assert_eq!(got.map(|test| (test.df, test.df_residual)), expected.map(|test| (test.df, test.df_residual)), "{name}");
    let of = |test: Option<Test>, value: fn(&Test) -> f64| test.as_ref().map(value);
    let statistic = pair(name, of(got, |test| test.statistic), of(expected, |test| test.statistic), 1.0);
    // A probability magnifies what its statistic is off by.
    let logarithm = |test: &Test| test.p_value.ln();
    vec![statistic, pair(name, of(got, logarithm), of(expected, logarithm), 1.0)]
}

/// How far a report is off the reference, each number with its name.
fn compared(name: &str, report: &Report, model: &SubModel) -> Vec<(f64, String)> {
    assert_eq!(report.coefficients.len(), model.coefficients.len(), "{name}");
    let mut worst = Vec::new();
    for (got, row) in report.coefficients.iter().zip(&model.coefficients) {
        assert_eq!((&got.term, got.estimate.is_some()), (&row.term, row.estimate.is_some()), "{name}");
        let (Some(estimate), Some(reference)) = (got.estimate, row.estimate) else { continue };
        let (Some(error), Some(of_reference)) = (got.std_error, row.std_error) else {
            panic!("{name}: no standard error of {}", got.term);
        };
        let most = off(estimate, reference, of_reference).max(off(error, of_reference, 0.0));
        worst.push((most, format!("{name} {}: {estimate} {reference} se {error} {of_reference}", got.term)));
        let [got, of] = [got.p_value, row.p_value].map(|p| p.filter(|p| *p > 0.0).map(f64::ln));
        worst.push(pair(&format!("{name}: probability of {}", row.term), got, of, 1.0));
    }
    let s = &report.statistics;
    assert_eq!(
        (s.nobs, s.df_residual, s.df_null),
        (model.nobs, Some(model.df_residual), Some(model.df_null)),
        "{name}"
    );
    for (what, got, expected) in [
        ("deviance", s.deviance, Some(model.deviance)),
        ("null deviance", s.null_deviance, Some(model.null_deviance)),
        ("log-likelihood", s.log_lik, model.log_lik),
        ("AIC", s.aic, model.aic),
        ("BIC", s.bic, model.bic),
        ("R squared", s.r_squared, Some(model.r_squared)),
        ("adjusted R squared", report.measures.adj_r_squared, Some(model.adj_r_squared)),
    ] {
        worst.push(pair(&format!("{name} {what}"), got, expected, 1e-2));
    }
    worst.extend(tests(&format!("{name} F"), report.measures.f_test, model.f_test));
    assert_eq!(report.measures, Measures::of(s, Family::Gaussian.into()));
    let covariance = report.covariance.as_ref().unwrap();
    assert_eq!(covariance.terms, model.covariance.terms, "{name}");
    for (i, row) in covariance.matrix.iter().enumerate() {
        for (j, got) in row.iter().enumerate() {
            let of = |i: usize, j: usize| model.covariance.matrix[i][j];
            worst.push(pair(&format!("{name} covariance {i} {j}"), *got, Some(of(i, j)), (of(i, i) * of(j, j)).sqrt()));
        }
    }
    let terms = report.term_tests.as_deref().unwrap_or_default();
    assert_eq!(terms.len(), model.term_tests.len(), "{name}");
    for (got, expected) in terms.iter().zip(&model.term_tests) {
        assert_eq!((&got.term, got.df), (&expected.term, expected.df), "{name}");
        worst.extend(tests(&format!("{name} {}", got.term), got.wald, Some(expected.wald)));
        worst.push(pair(&format!("{name} VIF of {}", got.term), got.vif, Some(expected.vif), 1.0));
        worst.push(pair(&format!("{name} scaled VIF of {}", got.term), got.scaled_vif, Some(expected.scaled_vif), 1.0));
    }
    worst
}

fn assert_near(mut worst: Vec<(f64, String)>) {
    worst.sort_by(|a, b| b.0.total_cmp(&a.0));
    println!("{} numbers, worst {:#?}", worst.len(), &worst[..5]);
    let bad: Vec<_> = worst.iter().filter(|(off, _)| !(*off <= 1.0)).collect();
    assert!(bad.is_empty(), "{} of {} are off: {:#?}", bad.len(), worst.len(), &bad[..bad.len().min(12)]);
}

/// Each case of the sub-models with its data, and whatever a study has beside what is kept of it.
fn cases() -> Vec<(Case, SubModels)> {
    let glm: Vec<Glm> = vectors::all("glm");
    let of = |models: SubModels| (glm.iter().find(|glm| glm.case.name == models.name).unwrap().case.clone(), models);
    vectors::all::<SubModels>("refit").into_iter().map(of).collect()
}

#[test]
fn sub_models_of_a_sealed_fit_are_those_of_lm_with_all_that_follows() {
    let (mut worst, mut models) = (Vec::new(), 0);
    let cases = cases();
    assert!(cases.len() >= 25 && cases.iter().filter(|(case, _)| case.is("longley")).count() == 3);
    for (case, reference) in &cases {
        let study = study_sealed(case, REFIT);
        let [alice, bob] = kept(&study, case);
        assert!(bob.is_none(), "the table opens to alice alone");
        let alice = alice.unwrap();
        for model in &reference.models {
            models += 1;
            let name = format!("{} without {:?}", case.name, model.drop);
            let report = alice.refit(&study, &wanted(&model.drop, None)).unwrap();
            worst.extend(compared(&name, &report, model));
            let of = report.refit.as_ref().unwrap();
            assert_eq!((of.numbers_sent, of.charged, of.dropped.is_empty()), (0, 0.0, model.drop.is_empty()), "{name}");
            assert_eq!((&report.run, report.bytes_sent), (&of.run, PerParty::Own(0)));
        }
    }
    assert!(models > 150, "{models}");
    assert_near(worst);
}

#[test]
fn penalised_sub_models_of_a_sealed_fit_are_those_of_glmnet() {
    let (mut worst, mut paths) = (Vec::new(), 0);
    for (case, reference) in &cases() {
        if reference.penalised.is_empty() {
            continue;
        }
        let study = study_sealed(case, REFIT);
        let [Some(alice), None] = kept(&study, case) else { panic!("{}", case.name) };
        for of in &reference.penalised {
            paths += 1;
            let name = format!("{} without {:?} at alpha {}", case.name, of.drop, of.alpha);
            let penalty =
                PenaltyTerms { lambda: Lambda::Many(of.lambda.clone()), alpha: of.alpha, cv: None, folds: None };
            let report = alice.refit(&study, &wanted(&of.drop, Some(penalty))).unwrap();
            for (point, expected) in report.path.as_ref().unwrap().iter().zip(&of.path) {
                assert!(point.kkt < 1e-9, "{name}: {}", point.kkt);
                worst.push(pair(&name, Some(point.deviance), Some(expected.deviance), 1.0));
                let largest = expected.coefficients.iter().fold(0.0_f64, |most, b| most.max(b.abs()));
                let slopes = of.terms.iter().zip(&expected.coefficients).map(|(term, b)| (term.as_str(), *b));
                let all = expected.intercept.map(|b| ("(Intercept)", b)).into_iter().chain(slopes);
                for (term, b) in all {
                    let got = point.coefficients.iter().find(|row| row.term == term).unwrap();
                    worst.push(pair(&format!("{name} {term}"), got.estimate, Some(b), 0.1 * largest));
                }
            }
        }
    }
    assert!(paths > 60, "{paths}");
    assert_near(worst);
}

/// The fits along lambda of the paths that have references of eighteen digits.
#[test]
fn paths_over_all_columns_of_a_sealed_fit_without_a_penalty_reach_the_optimum() {
    let (mut worst, mut cases) = (Vec::new(), 0);
    for reference in vectors::all::<Penalised>("penalised") {
        let case = &reference.case;
        if case.family != "gaussian" || case.is("fewer_rows_than_columns") || case.name.contains("fewer_rows") {
            continue;
        }
        cases += 1;
        let lambdas: Vec<f64> = reference.path.iter().map(|point| point.lambda).collect();
        let path = reference.lambda_source == "path";
        let lambda = if path { Lambda::Path(PathWord::Path) } else { Lambda::Many(lambdas) };
        let penalty = PenaltyTerms { lambda, alpha: reference.alpha, cv: None, folds: None };
        let study = study_sealed(case, REFIT);
        let [Some(alice), None] = kept(&study, case) else { panic!("{}", case.name) };
        let report = alice.refit(&study, &wanted(&[], Some(penalty))).unwrap();
        for (point, expected) in report.path.as_ref().unwrap().iter().zip(&reference.path) {
            let name = format!("{} lambda {}", case.name, expected.lambda);
            worst.push(pair(&name, Some(point.lambda), Some(expected.lambda), 0.0));
            worst.push(pair(&name, Some(point.deviance), Some(expected.deviance), 0.0));
            let size = expected.coefficients.iter().fold(0.0_f64, |size, b| size.max(b.abs()));
            for (term, b) in reference.terms.iter().zip(&expected.coefficients) {
                let got = point.coefficients.iter().find(|row| row.term == *term).unwrap();
                worst.push(pair(&format!("{name} {term}"), got.estimate, Some(*b), 1e-3 * size));
            }
        }
    }
    assert!(cases >= 8, "{cases}");
    assert_near(worst);
}

#[test]
fn where_the_table_opens_to_both_bob_has_the_same_sub_models_also_of_an_outcome_that_alice_holds_alone() {
    let mut compared_models = 0;
    for (case, reference) in &cases() {
        if !["gaussian_categorical", "gaussian_weights_offset", "gaussian_collinear_across", "gaussian_longley"]
            .contains(&&case.name[..])
        {
            continue;
        }
        for alone in [false, true] {
            let mut study = study_sealed(case, BOTH);
            if alone {
                study.method.outcome.held_by = HeldBy::One(Role::Alice);
            }
            let [Some(alice), Some(bob)] = kept(&study, case) else { panic!("{}", case.name) };
            let mut worst = Vec::new();
            for model in &reference.models {
                compared_models += 1;
                let [ours, theirs] = [&alice, &bob].map(|kept| kept.refit(&study, &wanted(&model.drop, None)).unwrap());
                assert_eq!((&ours.coefficients, &ours.statistics), (&theirs.coefficients, &theirs.statistics));
                assert_eq!((ours.role, theirs.role), (Some(Role::Alice), Some(Role::Bob)));
                worst.extend(compared(&format!("{} {:?}", case.name, model.drop), &theirs, model));
            }
            assert_near(worst);
        }
    }
    assert!(compared_models > 40, "{compared_models}");
}

#[test]
fn of_several_parties_the_leader_has_the_same_sub_models_and_all_have_them_where_the_tables_open_to_all() {
    let names = [
        "gaussian_diabetes",
        "gaussian_categorical",
        "gaussian_collinear_across",
        "gaussian_weights_offset",
        "gaussian_longley",
    ];
    let (mut worst, mut models) = (Vec::new(), 0);
    for (case, reference) in cases().iter().filter(|(case, _)| names.contains(&&case.name[..])) {
        for (parties, to_all, held_by) in [(3, false, "all"), (3, true, "all"), (3, true, "anna"), (5, true, "all")] {
            let blocks = several::blocks(case, parties);
            let blocks: Vec<&[String]> = blocks.iter().map(Vec::as_slice).collect();
            let study = several::study_with_refits(case, &blocks, held_by, to_all);
            let plain = several::study_sealed(case, &blocks, held_by);
            let [fits, without] = [&study, &plain].map(|study| {
                several::fitted(several::run_sealed(study, &case.file(), Faults::NONE, |_, _| {}, |_, _| {}))
            });
            for (at, (fit, without)) in fits.iter().zip(&without).enumerate() {
                let name = format!("{} of {parties}, {}", case.name, fit.model.role);
                assert_eq!(fit.coefficients, without.coefficients, "{name}");
                assert_eq!(fit.kept.is_some(), at == 0 || to_all, "{name}");
                let Some(kept) = &fit.kept else { continue };
                for model in &reference.models {
                    models += 1;
                    let report = kept.refit(&study, &wanted(&model.drop, None)).unwrap();
                    assert_eq!((report.role, report.parties.len()), (Some(fit.model.role), blocks.len()));
                    worst.extend(compared(&format!("{name} {:?}", model.drop), &report, model));
                }
            }
        }
    }
    assert!(models > 250, "{models}");
    assert_near(worst);
}

#[test]
fn a_fit_with_a_penalty_leaves_the_same_sub_models() {
    let all = cases();
    let (case, reference) = all.iter().find(|(case, _)| case.name == "gaussian_diabetes").unwrap();
    for more in ["[penalty]\nlambda = 3.0\n", "[penalty]\nlambda = [9.0, 1.0]\ncv = 5\n"] {
        let study = study_sealed(case, &format!("{more}{REFIT}"));
        let [Some(alice), None] = kept(&study, case) else { panic!("no table") };
        let mut worst = Vec::new();
        for model in &reference.models {
            let report = alice.refit(&study, &wanted(&model.drop, None)).unwrap();
            assert!(report.notes[0].ends_with("the penalty of the study is not that of a refit"), "{:?}", report.notes);
            worst.extend(compared(&format!("{more} {:?}", model.drop), &report, model));
        }
        assert_near(worst);
    }
}

#[test]
fn columns_are_left_out_by_the_names_of_columns_terms_and_coefficients() {
    let all = cases();
    let (case, _) = all.iter().find(|(case, _)| case.name == "gaussian_categorical").unwrap();
    let study = study_sealed(case, REFIT);
    let [Some(alice), None] = kept(&study, case) else { panic!("no table") };
    let names = |columns: Columns| {
        let report = alice.refit(&study, &Wanted { columns, penalty: None });
        report.map(|report| report.coefficients.into_iter().map(|row| row.term).collect::<Vec<_>>())
    };
    let list = |names: &[&str]| names.iter().map(|name| (*name).to_string()).collect::<Vec<_>>();
    let all = names(Columns::All).unwrap();
    let levels: Vec<&String> = all.iter().filter(|term| term.starts_with("region")).collect();
    assert!(levels.len() > 1, "{all:?}");
    // A column takes all its levels with it; a coefficient itself alone.
    let without = names(Columns::Drop(list(&["region", "smokerTRUE"]))).unwrap();
    let rest: Vec<String> =
        all.iter().filter(|term| !term.starts_with("region") && !term.starts_with("smoker")).cloned().collect();
    assert_eq!(without, rest);
    let one = levels[0].clone();
    assert_eq!(names(Columns::Drop(vec![one.clone()])).unwrap().len(), all.len() - 1);
    let kept = names(Columns::Keep(list(&["region", "creatinine", "(Intercept)"]))).unwrap();
    assert_eq!(kept.len(), 2 + levels.len());
    let error = |columns: Columns| match names(columns) {
        Err(RefitError::Select(error)) => error,
        other => panic!("{other:?}"),
    };
    let unknown = error(Columns::Drop(list(&["creatinin"])));
    assert_eq!(unknown.to_string(), "no column or term of the fit is called `creatinin`; did you mean `creatinine`?");
    assert_eq!(error(Columns::Keep(list(&["xyz"]))), SelectError::Unknown { name: "xyz".to_string(), nearest: None });
    assert_eq!(error(Columns::Drop(list(&["(Intercept)"]))), SelectError::Intercept);
    // With an intercept alone there is a model, but none for a penalty.
    let nothing = Wanted {
        columns: Columns::Keep(list(&["(Intercept)"])),
        penalty: Some(PenaltyTerms { lambda: Lambda::One(1.0), alpha: 1.0, cv: None, folds: None }),
    };
    assert_eq!(alice.refit(&study, &nothing), Err(RefitError::Select(SelectError::Nothing)));
    assert_eq!(names(Columns::Keep(list(&["(Intercept)"]))).unwrap(), ["(Intercept)"]);
}

#[test]
fn whoever_holds_no_table_or_has_a_study_that_keeps_coefficients_apart_is_refused_with_the_reason() {
    let all = cases();
    let (case, _) = all.iter().find(|(case, _)| case.name == "gaussian_small").unwrap();
    let refused = |study: &Study<Vertical>, role: Role| allowed(study, role).unwrap_err();
    for (study, role, why) in [
        (study_sealed(case, REFIT), Role::Bob, "opened to alice alone, and only alice can refit"),
        (study_sealed(case, ""), Role::Alice, "does not say `sealed.refit = true`"),
        (
            study_sealed(case, "[fit]\ncoefficients = \"own\"\n"),
            Role::Alice,
            "`fit.coefficients` of the study is \"own\"",
        ),
        (fedreg_tests::vertical::study(case, ""), Role::Alice, "a plain fit opens no table"),
    ] {
        let abort = refused(&study, role);
        assert_eq!(abort.exit(), Exit::Refused, "{abort}");
        assert!(abort.to_string().contains(why), "{abort}");
    }
    for (role, more) in [(Role::Alice, REFIT), (Role::Bob, BOTH)] {
        assert_eq!(allowed(&study_sealed(case, more), role), Ok(()));
    }
    // A table of another study, or of another party.
    let study = study_sealed(case, REFIT);
    let [Some(alice), None] = kept(&study, case) else { panic!("no table") };
    assert_eq!(alice.check(&study, Role::Alice), Ok(()));
    for (study, role, why) in [
        (study_sealed(case, BOTH), Role::Alice, "of a study with digest"),
        (study.clone(), Role::Bob, "opened to alice"),
    ] {
        let abort = alice.check(&study, role).unwrap_err();
        assert!(abort.exit() == Exit::Data && abort.to_string().contains(why), "{abort}");
    }
}
