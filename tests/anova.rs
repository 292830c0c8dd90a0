//! Wald tests of terms of formulas with interactions, types II and III, against `Anova` of R's package car.

use std::collections::BTreeMap;
use std::sync::Arc;

use fedreg_common::fit::Test;
use fedreg_common::sim::pair::Faults;
use fedreg_common::study::Study;
use fedreg_tests::vectors;
use fedreg_tests::vertical::{fitted, run};
use serde::Deserialize;

#[derive(Deserialize)]
struct Anova {
    fits: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    family: String,
    outcome: String,
    alice: String,
    bob: String,
    type_ii: Vec<Row>,
    type_iii: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    term: String,
    test: Test,
}

/// How far a test is off another, in units of eight digits.
fn off(name: &str, got: Option<Test>, expected: &Test) -> (f64, String) {
    let got = got.unwrap_or_else(|| panic!("{name}: no test"));
    assert_eq!((got.df, got.df_residual), (expected.df, expected.df_residual), "{name}");
    let share = (got.statistic - expected.statistic).abs() / (1e-8 * expected.statistic.max(1e-2));
    // A probability magnifies what its statistic is off by.
    let logarithm = (got.p_value.ln() - expected.p_value.ln()).abs() / (1e-8 * expected.p_value.ln().abs().max(1.0));
    (share.max(logarithm), format!("{name}: {got:?} {expected:?}"))
}

#[test]
fn wald_tests_of_terms_of_both_types_are_those_of_car() {
    let folder = vectors::folder().join("formulas");
    let text = std::fs::read_to_string(folder.join("anova.json")).unwrap();
    let anova: Anova = serde_json::from_str(&text).unwrap();
    let (mut all, mut contained) = (Vec::new(), 0);
    for case in &anova.fits {
        let study = format!(
            "id = \"anova\"\n[outcome]\ncolumn = {:?}\n[model]\nfamily = {:?}\n[fit]\ntol = 1e-11\n[parties.alice]\n\
             certificate = \"alice\"\nformula = {:?}\n[parties.bob]\ncertificate = \"bob\"\nformula = {:?}\n",
            case.outcome, case.family, case.alice, case.bob
        );
        let study = Arc::new(Study::parse(&study).unwrap().vertical().unwrap());
        let fits = fitted(run(&study, &folder.join("table.csv"), Faults::NONE));
        let of = |rows: &[Row]| rows.iter().map(|row| (row.term.clone(), row.test)).collect::<BTreeMap<String, Test>>();
        let (second, third) = (of(&case.type_ii), of(&case.type_iii));
        let rows: Vec<_> = fits.iter().flat_map(|fit| fit.term_tests.iter().flatten()).collect();
        assert_eq!(rows.len(), third.len(), "{} {}", case.alice, case.bob);
        for row in rows {
            let name = format!("{} {} of {} | {}", case.family, row.term, case.alice, case.bob);
            all.push(off(&format!("type III, {name}"), row.wald, &third[&row.term]));
            all.push(off(&format!("type II, {name}"), row.wald_type_ii, &second[&row.term]));
            contained += usize::from(row.wald != row.wald_type_ii);
        }
    }
    assert!(all.len() >= 70 && contained >= 20, "{} {contained}", all.len());
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    println!("worst {:?}", &all[..5]);
    let bad: Vec<_> = all.iter().filter(|(off, _)| !(*off <= 1.0)).collect();
    assert!(bad.is_empty(), "{} of {} are off: {bad:#?}", bad.len(), all.len());
}
