//! Fits of several parties against the pooled one, over simulated lines.

use std::collections::BTreeMap;
use std::sync::Arc;

use fedreg_common::exit::Exit;
use fedreg_common::fit::Termination;
use fedreg_common::id::{Role, RunId};
use fedreg_common::methods::vertical::message::{Body, Held, HeldKind, Message};
use fedreg_common::methods::vertical::outcome::VerticalFit;
use fedreg_common::methods::vertical::prepare::Policy;
use fedreg_common::session::{Abort, Session, Turn};
use fedreg_common::sim::pair::Faults;
use fedreg_common::sim::several::run_several;
use fedreg_common::study::{Study, Vertical};
use fedreg_tests::several::{
    NAMES, blocks, fitted, run, run_sealed, run_with, sessions, sessions_with, study, study_held_by, study_of,
    study_ordered, study_sealed, study_to_all,
};
use fedreg_tests::vectors::{self, Case, CrossValidation, Glm, Implied, Penalised, Unbounded};
use fedreg_tests::vertical::{family, frame, implied_off, numeric, statistics_off};
use nalgebra::{DMatrix, DVector};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;

use crate::vertical::tree_off;

/// How far a fit is off the pooled one, in units of the digits that are promised for two parties.
fn off(name: &str, fit: &VerticalFit, glm: &Glm) -> Vec<(f64, String)> {
    assert!(fit.termination.converged(), "{name} {} {:?}", fit.termination, fit.notes);
    let terms: Vec<&String> = fit.coefficients.iter().map(|row| &row.term).collect();
    assert_eq!(terms, glm.coefficients.iter().map(|row| &row.term).collect::<Vec<_>>(), "{name}");
    let mut all = statistics_off(name, fit, glm);
    for (got, row) in fit.coefficients.iter().zip(&glm.coefficients) {
        assert_eq!(got.estimate.is_some(), row.estimate.is_some(), "{name} {}", got.term);
        let (Some(estimate), Some(reference)) = (got.estimate, row.estimate) else { continue };
        let (Some(error), Some(reference_error)) = (got.std_error, row.std_error) else {
            panic!("{name}: no standard error of {}", got.term);
        };
        let estimates = (estimate - reference).abs() / (1e-8 * reference.abs().max(1e-3 * reference_error));
        let errors = (error - reference_error).abs() / (1e-8 * reference_error);
        let sentence = format!("{name} {}: {estimate} {reference} se {error} {reference_error}", got.term);
        all.push((estimates.max(errors), sentence));
    }
    all
}

fn assert_small(mut all: Vec<(f64, String)>) {
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    println!("worst {:?}", &all[..all.len().min(5)]);
    let bad: Vec<_> = all.iter().filter(|(off, _)| !(*off <= 1.0)).collect();
    assert!(bad.is_empty(), "{} of {} are off: {:#?}", bad.len(), all.len(), &bad[..bad.len().min(12)]);
}

#[test]
fn several_parties_have_the_digits_of_the_pooled_glm() {
    let mut all = Vec::new();
    for glm in vectors::all::<Glm>("glm") {
        let case = &glm.case;
        if case.is("fewer_rows_than_columns") {
            continue;
        }
        for (parties, held_by) in [(3, "all"), (5, "all"), (3, "anna")] {
            let study = study(case, parties, held_by, "");
            let fits = fitted(run(&study, &case.file(), Faults::NONE));
            assert_eq!(fits.len(), study.parties_in_order().len(), "{}", case.name);
            println!("{} {parties} {held_by}: {} rounds", case.name, fits[0].rounds);
            for (fit, who) in fits.iter().zip(study.parties_in_order()) {
                let name = format!("{} {parties} {held_by} at {who}, {} rounds", case.name, fit.rounds);
                all.extend(off(&name, fit, &glm));
            }
        }
    }
    assert_small(all);
}

#[test]
fn what_others_than_the_leader_hold_alone_reaches_the_leader_and_the_digits_are_those_of_the_pooled_glm() {
    let mut all = Vec::new();
    let mut alone = [0; 3];
    for glm in vectors::all::<Glm>("glm") {
        let case = &glm.case;
        if case.is("fewer_rows_than_columns") || case.alice.len() + case.bob.len() < 3 {
            continue;
        }
        for holders in
            [["cleo", "cleo", "cleo"], ["ben", "cleo", "anna"], ["all", "ben", "cleo"], ["anna", "ben", "ben"]]
        {
            let study = study_held_by(case, 3, holders, "");
            for (kind, _, _) in study.sent_to_leader() {
                alone[kind as usize % 3] += 1;
            }
            for (at, fit) in fitted(run(&study, &case.file(), Faults::NONE)).iter().enumerate() {
                all.extend(off(&format!("{} {holders:?} at {at}, {} rounds", case.name, fit.rounds), fit, &glm));
            }
        }
    }
    assert!(alone.iter().all(|count| *count >= 6), "outcome, weights, offset: {alone:?}");
    assert_small(all);
}

#[test]
fn what_another_than_the_leader_holds_alone_leaves_it_whole_and_its_report_says_so() {
    let glm = glm("poisson_weights_offset");
    let (ben, cleo): (Role, Role) = ("ben".parse().unwrap(), "cleo".parse().unwrap());
    let study = study_held_by(&glm.case, 3, ["cleo", "ben", "anna"], "");
    let mut sent = Vec::new();
    let watch = |to: Role, message: &Message| {
        if let Body::Held(held) = &message.body {
            sent.push((message.header.sender, to, held.what));
        }
    };
    let ended = run_with(&study, |role| frame(&study, role, &glm.case.file()), Faults::NONE, watch).unwrap();
    let fits = fitted(ended);
    println!("{sent:?}");
    let shares = |at: usize, term: &str| {
        fits[at]
            .disclosure
            .columns
            .iter()
            .filter(|column| column.term == term)
            .map(|column| column.share)
            .collect::<Vec<_>>()
    };
    let offset = glm.case.offset.as_deref().unwrap();
    assert_eq!((shares(1, offset), shares(2, &glm.case.outcome)), (vec![1.0], vec![1.0]));
    assert!(shares(2, offset).is_empty() && shares(1, &glm.case.outcome).is_empty());
    for (at, declared) in [(1, "offset"), (2, "outcome")] {
        assert!(fits[at].disclosure.declared.iter().any(|name| name == declared), "{at}");
    }
    let from = |who: Role| sent.iter().filter(|(from, ..)| *from == who).map(|(_, _, what)| *what).collect::<Vec<_>>();
    assert_eq!((from(ben), from(cleo)), (vec![HeldKind::Offset], vec![HeldKind::Outcome]));
    // Who does not let its outcome leave takes no part.
    let allowed = Policy { allow_outcome: false, ..Policy::default() };
    let limited = Policy { max_disclosure: Some(0.5), ..Policy::default() };
    for (who, policy, says) in [
        (cleo, allowed, format!("every value of the outcome `{}` leave", glm.case.outcome)),
        (ben, limited, format!("every value of `{offset}` leave")),
    ] {
        let study = Arc::new(study.clone());
        let policies = |role| if role == who { policy.clone() } else { Policy::default() };
        let refused = sessions_with(&study, |role| frame(&study, role, &glm.case.file()), policies).err().unwrap();
        assert!(refused.to_string().contains(&says) && matches!(refused, Abort::Policy { .. }), "{refused}");
    }
}

#[test]
fn paths_and_folds_with_what_others_hold_alone_are_those_of_shared_columns() {
    let (path, folds) = ("[penalty]\nlambda = \"path\"\nalpha = 0.5\n", "[penalty]\nlambda = [0.1, 0.01]\ncv = 4\n");
    for (name, more) in [
        ("poisson_weights_offset", path),
        ("gaussian_weights_offset", path),
        ("binomial_offset", path),
        ("poisson_weights_offset", folds),
        ("gaussian_weights_offset", folds),
    ] {
        let glm = glm(name);
        let case = &glm.case;
        let shared = fitted(run(&study(case, 3, "all", more), &case.file(), Faults::NONE));
        let alone = |holders| fitted(run(&study_held_by(case, 3, holders, more), &case.file(), Faults::NONE));
        let [own, alone] = [["all", "anna", "anna"], ["cleo", "ben", "ben"]].map(alone);
        for (shared, alone) in shared.iter().chain(&shared).zip(own.iter().chain(&alone)) {
            for (shared, alone) in shared.path.iter().flatten().zip(alone.path.iter().flatten()) {
                assert!((shared.lambda / alone.lambda - 1.0).abs() < 1e-9, "{} {}", shared.lambda, alone.lambda);
                for (shared, alone) in shared.coefficients.iter().zip(&alone.coefficients) {
                    let (shared, alone) = (shared.estimate.unwrap(), alone.estimate.unwrap());
                    assert!((shared - alone).abs() < 1e-7 * (1.0 + shared.abs()), "{shared} {alone}");
                }
            }
            for (shared, alone) in shared.cv.iter().flatten().zip(alone.cv.iter().flatten()) {
                assert!((shared.mean / alone.mean - 1.0).abs() < 1e-7, "{shared:?} {alone:?}");
            }
        }
    }
}

#[test]
fn sealed_fits_of_several_parties_have_the_digits_of_the_pooled_glm() {
    sealed_fits_have_the_digits(study_sealed);
}

#[test]
fn sealed_fits_whose_tables_open_to_all_of_several_parties_have_the_digits_of_the_pooled_glm() {
    sealed_fits_have_the_digits(study_to_all);
}

/// All gaussian vectors cut into two, three and five blocks, at every party.
fn sealed_fits_have_the_digits(study: fn(&Case, &[&[String]], &str) -> Study<Vertical>) {
    let mut all = Vec::new();
    let (mut cases, mut refused, mut longley) = (0, 0, 0);
    for glm in vectors::all::<Glm>("glm") {
        let case = &glm.case;
        if case.family != "gaussian" || case.is("fewer_rows_than_columns") {
            continue;
        }
        for (parties, held_by) in [(2, "all"), (3, "all"), (5, "all"), (3, "anna")] {
            let blocks = blocks(case, parties);
            let blocks: Vec<&[String]> = blocks.iter().map(Vec::as_slice).collect();
            let ended = run_sealed(&study(case, &blocks, held_by), &case.file(), Faults::NONE, |_, _| {}, |_, _| {});
            // A column that is set aside at home leaves a party of one column without any.
            let without = |abort: &Abort| abort.to_string().contains("has no column in the model");
            if ended.results.iter().flatten().any(|result| result.as_ref().is_err_and(without)) {
                refused += 1;
                continue;
            }
            for (at, fit) in fitted(ended).iter().enumerate() {
                all.extend(off(&format!("{} {parties} {held_by} at {at}", case.name), fit, &glm));
                cases += 1;
                longley += usize::from(case.name.contains("longley"));
            }
        }
    }
    assert!(cases >= 200 && refused <= 4 && longley >= 10, "{cases} fits, {refused} refused, {longley} of Longley");
    assert_small(all);
}

#[test]
fn what_follows_from_a_fit_of_several_parties_has_the_digits_of_r() {
    let (mut all, mut curves) = (Vec::new(), 0);
    let cases: Vec<Glm> = vectors::all("glm");
    for implied in vectors::all::<Implied>("statistics") {
        let case = &cases.iter().find(|glm| glm.case.name == implied.name).unwrap().case;
        let fits = fitted(run(&study(case, 3, "all", "[fit]\ntol = 1e-11\n"), &case.file(), Faults::NONE));
        for (at, fit) in fits.iter().enumerate() {
            all.extend(implied_off(&format!("{} {at}", case.name), fit, &implied, family(&case.family), true));
            // All hold the outcome.
            assert_eq!(fit.performance.is_some(), implied.performance.is_some(), "{} {at}", case.name);
            if let (Some(got), Some(expected)) = (&fit.performance, &implied.performance) {
                let name = format!("{} {at}", case.name);
                tree_off(&name, &serde_json::to_value(got).unwrap(), expected, &mut all);
                curves += 1;
            }
        }
    }
    assert!(curves >= 30, "{curves}");
    assert_small(all);
}

/// The leader and others that do not hold the outcome are sent it for the fit, and say where these numbers stand.
#[test]
fn discrimination_and_calibration_stand_at_the_party_that_holds_the_outcome() {
    let mut all = Vec::new();
    let cases: Vec<Glm> = vectors::all("glm");
    let with_curves = vectors::all::<Implied>("statistics").into_iter().filter(|implied| implied.performance.is_some());
    for (implied, parties) in with_curves.flat_map(|implied| [(implied.clone(), 2), (implied, 3)]) {
        let case = &cases.iter().find(|glm| glm.case.name == implied.name).unwrap().case;
        let study = study_held_by(case, parties, ["ben", "all", "all"], "[fit]\ntol = 1e-11\n");
        for (at, fit) in fitted(run(&study, &case.file(), Faults::NONE)).iter().enumerate() {
            let name = format!("{} of {parties} at {at}", case.name);
            let said: Vec<&String> = fit.notes.iter().filter(|note| note.starts_with("discrimination")).collect();
            match (at, &fit.performance) {
                (1, Some(got)) => {
                    let expected = implied.performance.as_ref().unwrap();
                    tree_off(&name, &serde_json::to_value(got).unwrap(), expected, &mut all);
                    assert!(said.is_empty(), "{name}: {said:?}");
                }
                (at, got) => {
                    assert!(at != 1 && got.is_none(), "{name}: {:?}", fit.notes);
                    let expected =
                        "discrimination and calibration: in the report of ben alone, which holds the outcome";
                    assert_eq!(said, [expected], "{name}");
                }
            }
        }
    }
    assert!(all.len() >= 1000, "{}", all.len());
    assert_small(all);
}

#[test]
fn without_acceleration_several_parties_have_the_digits_too() {
    let mut all = Vec::new();
    for glm in vectors::all::<Glm>("glm") {
        let case = &glm.case;
        let slow = ["fewer_rows_than_columns", "longley", "ill_conditioned"];
        if slow.iter().any(|tag| case.is(tag)) {
            continue;
        }
        let study = study(case, 3, "all", "[fit]\nacceleration = \"none\"\n");
        for fit in fitted(run(&study, &case.file(), Faults::NONE)) {
            all.extend(off(&format!("{} {} rounds", case.name, fit.rounds), &fit, &glm));
        }
    }
    assert_small(all);
}

#[test]
fn separation_is_named_at_every_party() {
    for unbounded in vectors::all::<Unbounded>("termination") {
        let case = &unbounded.case;
        for fit in fitted(run(&study(case, 3, "all", ""), &case.file(), Faults::NONE)) {
            assert_eq!(fit.termination, Termination::Separation, "{} after {} rounds", case.name, fit.rounds);
        }
    }
}

#[test]
fn penalised_fits_of_several_reach_the_optimum_at_every_lambda() {
    let mut all = Vec::new();
    for reference in vectors::all::<Penalised>("penalised") {
        let case = &reference.case;
        let lambdas: Vec<f64> = reference.path.iter().map(|point| point.lambda).collect();
        let lambda = if reference.lambda_source == "path" { "\"path\"".to_string() } else { format!("{lambdas:?}") };
        let penalty = format!("[penalty]\nlambda = {lambda}\nalpha = {:?}\n", reference.alpha);
        let fits = fitted(run(&study(case, 3, "all", &penalty), &case.file(), Faults::NONE));
        println!("{} rounds {}", case.name, fits[0].rounds);
        let paths: Vec<_> = fits.iter().map(|fit| fit.path.as_ref().unwrap()).collect();
        for (index, point) in reference.path.iter().enumerate() {
            let name = format!("{} lambda {} ({index})", case.name, point.lambda);
            for path in &paths {
                let lambda = path[index].lambda;
                assert!((lambda - point.lambda).abs() <= 1e-9 * point.lambda, "{name}: {lambda}");
                all.push((path[index].kkt / 1e-8, format!("{name}: kkt {}", path[index].kkt)));
            }
            let deviance = paths[0][index].deviance;
            let share = (deviance - point.deviance).abs() / (1e-6 * point.deviance);
            all.push((share, format!("{name}: deviance {deviance} {}", point.deviance)));
            let size = point.coefficients.iter().fold(0.0_f64, |size, b| size.max(b.abs()));
            for row in paths.iter().flat_map(|path| &path[index].coefficients) {
                let expected = match reference.terms.iter().position(|term| *term == row.term) {
                    Some(place) => point.coefficients[place],
                    None => point.intercept.unwrap(),
                };
                let slack = 1e-6 * expected.abs().max(1e-3 * size).max(1e-12);
                let off = (row.estimate.unwrap() - expected).abs() / slack;
                all.push((off, format!("{name} {}: {:?} {expected}", row.term, row.estimate)));
            }
        }
    }
    assert_small(all);
}

#[test]
fn cross_validation_of_several_gives_the_means_and_errors_of_cv_glmnet() {
    for reference in vectors::all::<CrossValidation>("cross_validation") {
        let case = &reference.case;
        let lambdas: Vec<f64> = reference.cv.iter().map(|point| point.lambda).collect();
        let penalty =
            format!("[penalty]\nlambda = {lambdas:?}\nalpha = {:?}\ncv = {}\n", reference.alpha, reference.folds);
        for fit in fitted(run(&study(case, 3, "all", &penalty), &case.file(), Faults::NONE)) {
            for (got, expected) in fit.cv.as_ref().unwrap().iter().zip(&reference.cv) {
                let off = (got.mean - expected.mean).abs().max((got.se - expected.se).abs()) / expected.mean;
                assert!(off < 1e-7, "{} {got:?} {expected:?}", case.name);
            }
            assert_eq!(fit.lambda, Some((reference.lambda_min, reference.lambda_1se)), "{}", case.name);
        }
    }
}

fn glm(name: &str) -> Glm {
    vectors::all::<Glm>("glm").into_iter().find(|glm| glm.case.name == name).unwrap()
}

#[test]
fn lossy_lines_give_the_bits_of_clean_ones() {
    for name in ["gaussian_wine_like", "binomial_admissions", "binomial_missing"] {
        let glm = glm(name);
        let study = study(&glm.case, 3, "all", "");
        let clean = fitted(run(&study, &glm.case.file(), Faults::NONE));
        for seed in 0..5 {
            let faults = Faults { drop: 0.1, duplicate: 0.1, reorder: 0.05, seed };
            let ended = run(&study, &glm.case.file(), faults);
            assert_eq!(fitted(ended), clean, "{name} {seed}");
        }
    }
}

#[test]
fn a_party_that_holds_other_rows_is_named() {
    let glm = glm("gaussian_diabetes");
    let study = study(&glm.case, 3, "all", "");
    let cleo: Role = "cleo".parse().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("short.csv");
    let text = std::fs::read_to_string(glm.case.file()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    std::fs::write(&file, lines[..lines.len() - 1].join("\n")).unwrap();
    let short = |role| frame(&study, role, &if role == cleo { file.clone() } else { glm.case.file() });
    let ended = run_with(&study, short, Faults::NONE, |_, _| {}).unwrap();
    let abort = ended.results.iter().flatten().find_map(|result| result.as_ref().err()).expect("refused");
    let sentence = abort.to_string();
    assert!(sentence.contains("cleo") && !sentence.contains("ben"), "{sentence}");
}

#[test]
fn a_party_that_holds_another_outcome_is_named() {
    let glm = glm("gaussian_diabetes");
    let study = study(&glm.case, 3, "all", "");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("other.csv");
    let text = std::fs::read_to_string(glm.case.file()).unwrap();
    let mut lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    let outcome = lines[0].iter().position(|name| *name == glm.case.outcome).unwrap();
    // One cell in the last row.
    lines.last_mut().unwrap()[outcome] = "0.5";
    std::fs::write(&file, lines.iter().map(|cells| cells.join(",") + "\n").collect::<String>()).unwrap();
    for named in ["ben", "cleo"] {
        let named: Role = named.parse().unwrap();
        let frame = |role| frame(&study, role, &if role == named { file.clone() } else { glm.case.file() });
        let ended = run_with(&study, frame, Faults::NONE, |_, _| {}).unwrap();
        let abort = ended.results.iter().flatten().find_map(|result| result.as_ref().err()).expect("refused");
        let expected = format!("the outcome `{}` differs between anna and {named}", glm.case.outcome);
        assert!(abort.to_string().contains(&expected), "{abort}");
    }
}

#[test]
fn columns_that_depend_on_those_of_earlier_parties_are_set_aside_wherever_they_are() {
    let glm = glm("gaussian_collinear_across");
    let columns: Vec<String> = glm.case.alice.iter().chain(&glm.case.bob).cloned().collect();
    for cut in 1..columns.len() - 1 {
        let blocks = [&columns[..cut], &columns[cut..cut + 1], &columns[cut + 1..]];
        let study = study_of(&glm.case, &blocks, "all", "");
        for fit in fitted(run(&study, &glm.case.file(), Faults::NONE)) {
            assert_small(off(&format!("cut at {cut}"), &fit, &glm));
        }
    }
}

#[test]
fn a_study_may_order_its_blocks_otherwise_than_by_name() {
    let glm = glm("gaussian_collinear_across");
    let columns: Vec<String> = glm.case.alice.iter().chain(&glm.case.bob).cloned().collect();
    for cut in 1..columns.len() - 1 {
        let blocks = [("anna", &columns[..cut]), ("cleo", &columns[cut..cut + 1]), ("ben", &columns[cut + 1..])];
        let study = study_ordered(&glm.case, &blocks, "plain");
        for fit in fitted(run(&study, &glm.case.file(), Faults::NONE)) {
            assert_small(off(&format!("cut at {cut}"), &fit, &glm));
        }
    }
    let blocks = [("anna", &columns[..2]), ("cleo", &columns[2..4]), ("ben", &columns[4..])];
    let sealed = study_ordered(&glm.case, &blocks, "sealed");
    for fit in fitted(run_sealed(&sealed, &glm.case.file(), Faults::NONE, |_, _| {}, |_, _| {})) {
        let aliased = |row: &&fedreg_common::fit::Coefficient| row.estimate.is_none();
        let set_aside: Vec<&str> = fit.coefficients.iter().filter(aliased).map(|row| row.term.as_str()).collect();
        assert_eq!(set_aside, ["bmi_twice_plus_bp"], "of columns that depend on each other, that of the last block");
    }
}

/// Ten columns each, correlated like `cov2cor(A A')` for a square Gaussian `A`: nearly singular, with no structure.
fn correlated(family: &str, parties: usize, seed: u64) -> (Case, Vec<Vec<f64>>) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (n, p) = (3000, 10 * parties);
    let mut normal = |rows, columns| DMatrix::from_fn(rows, columns, |_, _| rng.sample::<f64, _>(StandardNormal));
    let mut root = normal(p, p);
    root.row_iter_mut().for_each(|mut row| {
        let length = row.norm();
        row /= length;
    });
    let x = normal(n, p) * root.transpose();
    let eta = &x * normal(p, 1) / (p as f64).sqrt();
    let noise = normal(n, 1);
    let y: Vec<f64> = eta
        .iter()
        .zip(noise.iter())
        .map(|(eta, noise)| match family {
            "gaussian" => eta + noise,
            _ => f64::from(u8::from(rng.random::<f64>() < 1.0 / (1.0 + (-eta).exp()))),
        })
        .collect();
    let mut columns: Vec<Vec<f64>> = x.column_iter().map(|column| column.iter().copied().collect()).collect();
    columns.push(y);
    let names: Vec<String> = (0..p).map(|j| format!("x{j:02}")).collect();
    let case = Case {
        name: format!("correlated {family} {seed}"),
        tags: vec![],
        data: "".into(),
        outcome: "y".to_string(),
        family: family.to_string(),
        alice: names,
        bob: vec![],
        offset: None,
        weights: None,
        intercept: true,
    };
    (case, columns)
}

/// Fits data that are cut into blocks of ten columns.
fn fit_correlated(case: &Case, columns: &[Vec<f64>], parties: usize, more: &str) -> Vec<VerticalFit> {
    watch_correlated(case, columns, parties, more, |_, _| {})
}

/// The same with an observer of all messages.
fn watch_correlated(
    case: &Case,
    columns: &[Vec<f64>],
    parties: usize,
    more: &str,
    observe: impl FnMut(Role, &Message),
) -> Vec<VerticalFit> {
    let study = study(case, parties, "all", more);
    let order = study.parties_in_order();
    let frame = |role: Role| {
        let at = order.iter().position(|party| *party == role).unwrap();
        let kept: Vec<usize> = (10 * at..10 * (at + 1)).chain([columns.len() - 1]).collect();
        let names: Vec<String> = kept.iter().map(|j| case.alice.get(*j).cloned().unwrap_or("y".to_string())).collect();
        numeric(&names, &kept.iter().map(|j| columns[*j].as_slice()).collect::<Vec<_>>())
    };
    fitted(run_with(&study, frame, Faults::NONE, observe).unwrap())
}

/// The largest `|x_j' r| / (|x_j| |y|)` of centred columns at the coefficients of a gaussian fit.
fn steepest(columns: &[Vec<f64>], fit: &VerticalFit) -> f64 {
    let centred = |column: &Vec<f64>| {
        let mean = column.iter().sum::<f64>() / column.len() as f64;
        DVector::from_iterator(column.len(), column.iter().map(|value| value - mean))
    };
    let (y, x) = columns.split_last().unwrap();
    let (y, x): (DVector<f64>, Vec<DVector<f64>>) = (centred(y), x.iter().map(centred).collect());
    let mut rest = y.clone();
    for (row, x) in fit.coefficients.iter().filter(|row| row.term != "(Intercept)").zip(&x) {
        rest.axpy(-row.estimate.unwrap(), x, 1.0);
    }
    x.iter().map(|x| (x.dot(&rest) / (x.norm() * y.norm())).abs()).fold(0.0, f64::max)
}

#[test]
fn at_the_end_no_gradient_of_any_party_is_larger_than_the_tolerance() {
    let cases = [("anderson", 1e-1), ("anderson", 1e-2), ("anderson", 1e-4), ("none", 1e-1)];
    for (seed, (acceleration, tol)) in cases.into_iter().enumerate() {
        let (case, columns) = correlated("gaussian", 3, seed as u64 + 1);
        let more = format!("[inference]\nallowed = false\n[fit]\ntol = {tol:?}\nacceleration = {acceleration:?}\n");
        let fits = fit_correlated(&case, &columns, 3, &more);
        let found = steepest(&columns, &fits[0]);
        println!("{acceleration} {tol}: {found:.1e} after {} rounds", fits[0].rounds);
        assert!(fits[0].termination.converged(), "{acceleration} {tol}");
        assert!(found <= 1.001 * tol, "{acceleration} {tol}: {found}");
    }
}

#[test]
fn correlated_blocks_take_few_rounds() {
    for (family, parties, most) in [("gaussian", 3, 45), ("binomial", 3, 55), ("gaussian", 5, 90), ("binomial", 5, 110)]
    {
        let rounds = |seed| {
            let (case, columns) = correlated(family, parties, seed);
            let fits = fit_correlated(&case, &columns, parties, "[inference]\nallowed = false\n");
            assert_eq!(fits[0].termination, Termination::Converged, "{} {}", case.name, fits[0].rounds);
            fits[0].rounds
        };
        let mut all: Vec<u32> = (1..=10).map(rounds).collect();
        all.sort_unstable();
        println!("{family} {parties} x 10 columns: rounds {all:?}");
        assert!(all[4].max(all[5]) <= most, "{family} {parties}: {all:?}");
    }
}

#[test]
fn a_basis_that_one_of_three_forbids_leaves_all_without_standard_errors_and_says_whose_policy_it_is() {
    let glm = glm("gaussian_diabetes");
    let study = Arc::new(study(&glm.case, 3, "all", ""));
    let parties = study.parties_in_order();
    for forbids in &parties {
        let policy = |role| Policy { allow_basis: role != *forbids, ..Policy::default() };
        let frame = |role| frame(&study, role, &glm.case.file());
        let (mut hub, mut followers) = sessions_with(&study, frame, policy).unwrap();
        let mut bases = 0;
        let observe = |_, message: &Message| bases += usize::from(matches!(message.body, Body::Basis(_)));
        let fits = fitted(run_several(&mut hub, &mut followers, Faults::NONE, observe));
        assert_eq!(bases, 0);
        for (fit, who) in fits.iter().zip(&parties) {
            assert!(fit.termination.converged(), "{}", fit.termination);
            for (got, row) in fit.coefficients.iter().zip(&glm.coefficients) {
                let (estimate, reference) = (got.estimate.unwrap(), row.estimate.unwrap());
                assert!((estimate - reference).abs() <= 1e-6 * reference.abs(), "{}: {estimate}", got.term);
                assert_eq!((&got.term, got.std_error), (&row.term, None));
            }
            // The leader tells each of the others of all others together.
            let leader = parties[0];
            let says = match [leader, *forbids].contains(who) {
                true => format!("standard errors: the policy of {forbids} does not allow the basis exchange"),
                false => format!(
                    "standard errors: the policy of another party does not allow the basis exchange; the report of {leader} names it"
                ),
            };
            assert!(fit.notes.contains(&says), "{forbids} forbids, {who} says {:?}", fit.notes);
            assert!(fit.disclosure.columns.iter().all(|column| column.share < 1.0 + 1e-9), "{:?}", fit.disclosure);
        }
    }
}

/// How much of a column's variance follows from vectors, which may be empty for zeros: R squared of what is centred.
fn explained(column: &[f64], vectors: &[Vec<f64>]) -> f64 {
    let centred = |values: &[f64]| {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        DVector::from_iterator(values.len(), values.iter().map(|value| value - mean))
    };
    let vectors: Vec<DVector<f64>> =
        vectors.iter().filter(|vector| !vector.is_empty()).map(|vector| centred(vector)).collect();
    let basis = DMatrix::from_columns(&vectors).qr().q();
    let column = centred(column);
    basis.tr_mul(&column).norm_squared() / column.norm_squared()
}

#[test]
fn what_the_leader_of_three_says_in_sums_is_metered_as_if_its_block_had_been_seen_singly() {
    let (case, columns) = correlated("gaussian", 3, 4);
    let more = "[inference]\nallowed = false\n[fit]\nmax_rounds = 4\n";
    let [leader, second, third] = [0, 1, 2].map(|at| NAMES[at].parse::<Role>().unwrap());
    // By sender, receiver and round.
    let mut said: BTreeMap<(Role, Role, u32), Vec<f64>> = BTreeMap::new();
    let fits = watch_correlated(&case, &columns, 3, more, |to, message| {
        if let Body::Partial(partial) = &message.body {
            said.insert((message.header.sender, to, partial.round), partial.values.to_vec());
        }
    });
    let of = |from: Role, to: Role| {
        let all = said.iter().filter(|((sender, receiver, _), _)| (*sender, *receiver) == (from, to));
        all.map(|(_, values)| values.clone()).collect::<Vec<_>>()
    };
    let [told, answers] = [of(leader, third), of(second, leader)];
    assert!(told.len() >= 4 && told.len() == answers.len(), "{} {}", told.len(), answers.len());
    // In each round the third hears the leader's block and what the second has just answered.
    let alone = told.iter().zip(&answers).map(|(sum, answer)| {
        let part = |at: usize| sum.get(at).unwrap_or(&0.0) - answer.get(at).unwrap_or(&0.0);
        (0..3000).map(part).collect()
    });
    let own: [Vec<Vec<f64>>; 3] = [alone.collect(), answers.clone(), of(third, leader)];
    for (at, (fit, vectors)) in fits.iter().zip(&own).enumerate() {
        let disclosure = &fit.disclosure;
        assert_eq!((disclosure.vectors, disclosure.columns.len()), (vectors.len() as u64, 10), "{at}");
        for (column, metered) in columns[10 * at..].iter().zip(&disclosure.columns) {
            let singly = explained(column, vectors);
            assert!((metered.share - singly).abs() < 1e-8, "{at} {}: {} {singly}", metered.term, metered.share);
            assert!(singly > 1e-4 && singly < 0.99, "{at} {}: {singly} says little", metered.term);
        }
    }
}

#[test]
fn no_follower_sees_what_another_one_says() {
    let glm = glm("gaussian_diabetes");
    let study = study(&glm.case, 3, "all", "");
    let (mut said, mut told) = (Vec::new(), Vec::new());
    let leader = study.parties_in_order()[0];
    let observe = |to: Role, message: &Message| {
        if let Body::Partial(partial) = &message.body {
            let entry = (message.header.sender, to, partial.values.clone());
            if to == leader { said.push(entry) } else { told.push(entry) }
        }
    };
    fitted(run_with(&study, |role| frame(&study, role, &glm.case.file()), Faults::NONE, observe).unwrap());
    assert!(said.len() > 4 && told.len() > 4);
    for (_, to, values) in &told {
        assert!(said.iter().all(|(from, _, own)| from == to || own != values), "what another party said reached {to}");
    }
    assert_eq!(NAMES[0], leader.name());
}

/// Runs a fit of which `spoil` changes what followers say to the leader; how it ends there.
fn spoiled(spoil: impl FnMut(Role, &mut Message)) -> Abort {
    let glm = glm("binomial_admissions");
    spoiled_in(study(&glm.case, 3, "all", ""), &glm, spoil)
}

/// The same of a study of the columns of a case.
fn spoiled_in(study: Study<Vertical>, glm: &Glm, mut spoil: impl FnMut(Role, &mut Message)) -> Abort {
    let study = Arc::new(study);
    let parties = study.parties_in_order();
    let (mut hub, mut followers) = sessions(&study, |role| frame(&study, role, &glm.case.file())).unwrap();
    let mut up: Vec<(Role, Message)> = Vec::new();
    for follower in &mut followers {
        let Ok(Turn::Send(message)) = follower.start() else { panic!("a follower speaks first") };
        up.push((follower.role(), message.into()));
    }
    loop {
        assert!(!up.is_empty(), "the fit went to its end");
        let (from, mut message) = up.remove(0);
        spoil(from, &mut message);
        let says = match hub.receive(from, message) {
            Ok(says) => says,
            Err(abort) => return abort,
        };
        for (to, turn) in says {
            let (Turn::Send(message) | Turn::FinishAndSend { last: message, .. }) = turn else { continue };
            let follower = followers.iter_mut().find(|follower| follower.role() == to).unwrap();
            match follower.receive(parties[0], message.into()).unwrap() {
                Turn::Send(answer) | Turn::FinishAndSend { last: answer, .. } => up.push((to, answer.into())),
                Turn::Wait | Turn::Finish(_) => {}
            }
        }
    }
}

#[test]
fn what_a_follower_may_not_say_ends_the_run_with_its_name() {
    let cleo: Role = "cleo".parse().unwrap();
    let ben: Role = "ben".parse().unwrap();
    type Spoil = fn(&mut Message);
    let cases: [(&str, &str, Spoil); 11] = [
        ("another's name", "another sender", |message| message.header.sender = "ben".parse().unwrap()),
        ("a stranger's name", "another sender", |message| message.header.sender = "mallory".parse().unwrap()),
        ("another run", "another run", |message| message.header.run = RunId([9; 16])),
        ("a number ahead", "expected", |message| message.header.sequence += 1),
        ("no key", "without the key", |message| {
            if let Body::Rows(rows) = &mut message.body {
                rows.key = None;
            }
        }),
        ("too many columns", "values of columns", |message| {
            if let Body::Shared(shared) = &mut message.body {
                shared.columns = u32::MAX;
            }
        }),
        ("too few predictions", "values of partial predictions", |message| {
            if let Body::Partial(partial) = &mut message.body {
                partial.values.pop();
            }
        }),
        ("a prediction that is no number", "finite", |message| {
            if let Body::Partial(partial) = &mut message.body {
                partial.values[3] = f64::NAN;
            }
        }),
        ("another round", "round", |message| {
            if let Body::Partial(partial) = &mut message.body {
                partial.round += 1;
            }
        }),
        ("more rows of a basis than there are", "rows of a basis", |message| {
            if let Body::Basis(basis) = &mut message.body {
                basis.rows = u32::MAX;
            }
        }),
        ("more columns to drop than there are", "columns to drop", |message| {
            if let Body::Redo(columns) = &mut message.body {
                *columns = u32::MAX;
            }
        }),
    ];
    for (what, says, spoil) in cases {
        let abort = spoiled(|from, message| {
            if from == cleo {
                spoil(message)
            }
        });
        let Abort::Peer { peer, .. } = &abort else { panic!("{what}: {abort}") };
        assert_eq!(*peer, cleo, "{what}: {abort}");
        assert!(abort.to_string().contains(says), "{what}: {abort}");
        assert_eq!(abort.exit(), Exit::Peer, "{what}");
    }
    for kind in ["term", "party"] {
        let abort = spoiled(|from, message| {
            if let Body::Results(results) = &mut message.body
                && from == cleo
            {
                let row = &mut results.coefficients.as_mut().unwrap()[0];
                if kind == "term" { row.term = "age".to_string() } else { row.party = ben }
            }
        });
        assert!(abort.to_string().starts_with("cleo broke the protocol"), "{kind}: {abort}");
    }
}

#[test]
fn a_column_for_the_leader_that_cannot_be_ends_the_run_with_the_name_of_its_holder() {
    let cleo: Role = "cleo".parse().unwrap();
    type Spoil = fn(&mut Held);
    let cases: [(&str, &str, &str, Spoil); 6] = [
        ("binomial_admissions", "not between 0 and 1", "allowed", |held| held.values[2] = 1.5),
        ("binomial_admissions", "no number", "allowed", |held| held.values[2] = f64::NAN),
        ("binomial_admissions", "too few", "values of a held vector", |held| held.values.truncate(3)),
        ("binomial_admissions", "another column", "another held vector", |held| held.what = HeldKind::Weights),
        ("gaussian_weights", "a negative weight", "allowed", |held| {
            held.values[0] = if held.what == HeldKind::Weights { -1.0 } else { held.values[0] };
        }),
        ("gaussian_weights", "no weight at all", "positive somewhere", |held| {
            if held.what == HeldKind::Weights {
                held.values.fill(0.0);
            }
        }),
    ];
    for (name, what, says, spoil) in cases {
        let glm = glm(name);
        let abort = spoiled_in(study_held_by(&glm.case, 3, ["cleo", "cleo", "cleo"], ""), &glm, |from, message| {
            if let Body::Held(held) = &mut message.body
                && from == cleo
            {
                spoil(held);
            }
        });
        let Abort::Peer { peer, .. } = &abort else { panic!("{what}: {abort}") };
        assert!(*peer == cleo && abort.to_string().contains(says), "{what}: {abort}");
    }
    // One that the study does not ask for.
    let abort = spoiled(|from, message| {
        if from == cleo && matches!(message.body, Body::Partial(_)) {
            message.body = Body::Held(Held { what: HeldKind::Outcome, values: vec![0.0; 400], total: 0.0 });
        }
    });
    assert!(abort.to_string().starts_with("cleo broke the protocol"), "{abort}");
}

#[test]
fn the_same_answer_again_gets_the_same_question_and_another_one_ends_the_run() {
    let cleo: Role = "cleo".parse().unwrap();
    let mut first = None;
    let abort = spoiled(|from, message| {
        let Body::Partial(partial) = &mut message.body else { return };
        if from != cleo {
            return;
        }
        match &first {
            None => first = Some(message.clone()),
            Some(said) => {
                let mut said: Message = said.clone();
                let Body::Partial(before) = &mut said.body else { return };
                before.penalty = partial.penalty + 1.0;
                *message = said;
            }
        }
    });
    assert!(abort.to_string().contains("cleo broke the protocol: repeated message"), "{abort}");
}
