//! Fits of several parties against the pooled one, over simulated lines.

use fedreg_common::fit::Termination;
use fedreg_common::id::Role;
use fedreg_common::sim::pair::Faults;
use fedreg_tests::several::{NAMES, fitted, run, run_with, study, study_of};
use fedreg_tests::vectors::{self, Case, CrossValidation, Glm, Implied, Penalised, Unbounded};
use fedreg_tests::vertical::{family, frame, implied_off, numeric, statistics_off};
use nalgebra::DMatrix;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;

/// How far a fit is off the pooled one, in units of the digits that are promised for two parties.
fn off(name: &str, fit: &fedreg_common::methods::vertical::outcome::VerticalFit, glm: &Glm) -> Vec<(f64, String)> {
    assert!(fit.termination.converged(), "{name} {}", fit.termination);
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
fn what_follows_from_a_fit_of_several_parties_has_the_digits_of_r() {
    let mut all = Vec::new();
    let cases: Vec<Glm> = vectors::all("glm");
    for implied in vectors::all::<Implied>("statistics") {
        let case = &cases.iter().find(|glm| glm.case.name == implied.name).unwrap().case;
        let fits = fitted(run(&study(case, 3, "all", "[fit]\ntol = 1e-11\n"), &case.file(), Faults::NONE));
        for (at, fit) in fits.iter().enumerate() {
            all.extend(implied_off(&format!("{} {at}", case.name), fit, &implied, family(&case.family), true));
            assert_eq!(fit.performance.is_some(), at == 0 && implied.performance.is_some(), "{} {at}", case.name);
        }
    }
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

#[test]
fn correlated_blocks_take_few_rounds() {
    for (family, parties, most) in [("gaussian", 3, 45), ("binomial", 3, 55), ("gaussian", 5, 90), ("binomial", 5, 110)]
    {
        let rounds = |seed| {
            let (case, columns) = correlated(family, parties, seed);
            let study = study(&case, parties, "all", "[inference]\nallowed = false\n");
            let order = study.parties_in_order();
            let frame = |role: Role| {
                let at = order.iter().position(|party| *party == role).unwrap();
                let kept: Vec<usize> = (10 * at..10 * (at + 1)).chain([columns.len() - 1]).collect();
                let names: Vec<String> =
                    kept.iter().map(|j| case.alice.get(*j).cloned().unwrap_or("y".to_string())).collect();
                numeric(&names, &kept.iter().map(|j| columns[*j].as_slice()).collect::<Vec<_>>())
            };
            let fits = fitted(run_with(&study, frame, Faults::NONE, |_, _| {}).unwrap());
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
fn no_follower_sees_what_another_one_says() {
    use fedreg_common::methods::vertical::message::Body;
    let glm = glm("gaussian_diabetes");
    let study = study(&glm.case, 3, "all", "");
    let (mut said, mut told) = (Vec::new(), Vec::new());
    let leader = study.parties_in_order()[0];
    let observe = |to: Role, message: &fedreg_common::methods::vertical::message::Message| {
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
