//! Fits by formulas of several parties against R.

use std::sync::Arc;

use fedreg_common::conversation::Opening;
use fedreg_common::id::Role;
use fedreg_common::methods::vertical::outcome::Model;
use fedreg_common::methods::vertical::predict::{NewRows, PredictSession, Scores, levels, needed_columns};
use fedreg_common::methods::vertical::several::Hub;
use fedreg_common::sim::pair::Faults;
use fedreg_common::sim::several;
use fedreg_common::study::{Study, Vertical};
use fedreg_party::read;
use fedreg_tests::several::{fitted, run, run_sealed};
use fedreg_tests::vectors;
use fedreg_tests::vertical::RUN;
use serde_json::Value;

/// The terms of a formula that stand beside each other, outside of parentheses.
fn parts(formula: &str) -> Vec<String> {
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for letter in formula.trim_start_matches('~').chars() {
        depth += i32::from(letter == '(') - i32::from(letter == ')');
        match (letter, parts.last_mut()) {
            ('+', _) if depth == 0 => parts.push(String::new()),
            (_, Some(part)) => part.push(letter),
            (_, None) => {}
        }
    }
    parts
}

/// The study of a vector, at three parties: the leader has the formula of alice, and bob's terms are dealt out to two.
fn study(case: &Value, mode: &str) -> Arc<Study<Vertical>> {
    let of = |key: &str| case[key].as_str().unwrap();
    let dealt = parts(of("bob"));
    let mut text = format!(
        "id = \"formulas\"\nmode = {mode:?}\nleader = \"anna\"\n[outcome]\ncolumn = {:?}\n[model]\nfamily = {:?}\n",
        of("outcome"),
        of("family")
    );
    let formulas = [of("alice").to_string(), format!("~{}", dealt[0]), format!("~{}", dealt[1..].join("+"))];
    for (name, formula) in ["anna", "ben", "cleo"].into_iter().zip(formulas) {
        text.push_str(&format!("[parties.{name}]\ncertificate = \"{name}\"\nformula = {formula:?}\n"));
    }
    Arc::new(Study::parse(&text).unwrap().vertical().unwrap())
}

#[test]
fn formulas_of_several_parties_give_the_coefficients_of_r() {
    let folder = vectors::folder().join("formulas");
    let text = std::fs::read_to_string(folder.join("formulas.json")).unwrap();
    let known: Value = serde_json::from_str(&text).unwrap();
    let numbers = |of: &Value| of.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect::<Vec<_>>();
    let mut fits = 0;
    for case in known["fits"].as_array().unwrap() {
        let terms: Vec<&str> = case["terms"].as_array().unwrap().iter().map(|term| term.as_str().unwrap()).collect();
        let estimates = numbers(&case["estimates"]);
        let modes: &[&str] = if case["family"] == "gaussian" { &["plain", "sealed"] } else { &["plain"] };
        for mode in modes {
            let study = study(case, mode);
            let file = folder.join("table.csv");
            let fitted = fitted(match *mode {
                "plain" => run(&study, &file, Faults::NONE),
                _ => run_sealed(&study, &file, Faults::NONE, |_, _| {}, |_, _| {}),
            });
            for fit in &fitted {
                let mut named: Vec<&str> = fit.coefficients.iter().map(|row| row.term.as_str()).collect();
                let mut expected = terms.clone();
                named.sort_unstable();
                expected.sort_unstable();
                assert_eq!(named, expected, "{mode}");
                for row in &fit.coefficients {
                    let expected = estimates[terms.iter().position(|term| *term == row.term).unwrap()];
                    let off = (row.estimate.unwrap() - expected).abs() / expected.abs().max(1.0);
                    assert!(off <= 1e-7, "{mode}, {}: {:?} {expected}", row.term, row.estimate);
                }
                fits += 1;
            }
        }
    }
    assert!(fits >= 9, "{fits}");
}

/// As `predict` in R: what a formula computed from a party's own rows (a basis, levels) is kept in that party's model for new rows.
#[test]
fn new_rows_are_scored_by_the_formulas_of_several_parties() {
    let folder = vectors::folder().join("formulas");
    let text = std::fs::read_to_string(folder.join("formulas.json")).unwrap();
    let known: Value = serde_json::from_str(&text).unwrap();
    let file = folder.join("table.csv");
    let mut scored = 0;
    for case in known["fits"].as_array().unwrap() {
        let study = study(case, "plain");
        let fits = fitted(run(&study, &file, Faults::NONE));
        let fresh = folder.join("fresh.csv");
        let rows = |role: Role, model: &Model| {
            let header = read::header(&fresh, None).unwrap();
            let header: Vec<&str> = header.iter().map(String::as_str).collect();
            let columns = Some(needed_columns(&study, role, &header).unwrap());
            let levels = levels(&study, model, &header).unwrap();
            let request = read::Request { columns, levels, unseen: true, ..Default::default() };
            NewRows::new(Arc::clone(&study), role, model.clone(), read::read(&fresh, &request).unwrap()).unwrap()
        };
        let parties = study.parties_in_order();
        let opening = |first, peer| Opening { first, run: RUN, seed: [5; 32], peer };
        let mut hub = Hub::predict(rows(parties[0], &fits[0].model), &opening(false, parties[0]));
        let mut followers: Vec<PredictSession> = parties[1..]
            .iter()
            .zip(&fits[1..])
            .map(|(role, fit)| PredictSession::new(rows(*role, &fit.model), opening(true, parties[0])))
            .collect();
        let ended = several::run_several(&mut hub, &mut followers, Faults::NONE, |_, _| {});
        let mut scores: Vec<Option<Scores>> =
            ended.results.into_iter().map(|result| result.unwrap().unwrap()).collect();
        assert!(scores[1..].iter().all(Option::is_none), "the leader alone has the scores");
        let scores = scores.swap_remove(0).unwrap();
        let link = case["link"].as_array().unwrap();
        assert_eq!(scores.link.len(), link.len());
        for (score, expected) in scores.link.iter().zip(link) {
            let expected = expected.as_f64().unwrap();
            assert!((score - expected).abs() <= 1e-7 * expected.abs().max(1.0), "{score} {expected}");
            scored += 1;
        }
    }
    assert!(scored > 0);
}
