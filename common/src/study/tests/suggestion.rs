//! Settings that plans suggest.

use crate::study::tests::{sites, vertical};
use crate::study::*;
use crate::terms::suggestion::EPSILONS;

const VERTICAL: &str = r#"
    id = "two"
    mode = "private"
    [parties.alice]
    certificate = "alice"
    columns = ["a", "b", "c"]
    [parties.bob]
    certificate = "bob"
    columns = ["d", "e", "f"]
    [outcome]
    column = "y"
    [columns]
    a = { range = [0, 1] }
    b = { range = [0, 1] }
    c = { range = [0, 1] }
    d = { range = [0, 1] }
    e = { range = [0, 1] }
    f = { range = [0, 1] }
    y = { range = [0, 1] }
    [privacy]
    epsilon = 3.0
    delta = 1e-5
    rounds = 4
    clip = 1.0
"#;

#[test]
fn errors_fall_with_rows_and_with_epsilon_and_refusals_are_said() {
    let table = vertical(VERTICAL).error_table(20_000);
    assert_eq!(table.epsilons, EPSILONS);
    assert!(table.rows.iter().any(|row| row.rows == 20_000), "the planned rows are in the table");
    let at = |rows: u64, epsilon: f64| {
        let place = table.epsilons.iter().position(|known| *known == epsilon).unwrap();
        table.rows.iter().find(|row| row.rows == rows).unwrap().relative_errors[place].unwrap()
    };
    assert!(at(1_000, 0.5) > at(100_000, 0.5) && at(10_000, 0.5) > at(10_000, 10.0));
    let strict = VERTICAL.replace("1e-5", "1e-4");
    let text = vertical(&strict).error_table(0).text();
    assert!(text.lines().last().unwrap().contains("refused"), "delta above one over the rows: {text}");
}

#[test]
fn suggested_settings_are_expected_to_do_better_and_nothing_better_is_suggested_for_them() {
    let study = vertical(VERTICAL);
    let found = study.search(10_000).suggested.unwrap();
    assert!(found.relative_error < 0.95 * found.relative_error_now);
    assert!(found.text().contains("privacy.rounds = "), "{}", found.text());
    let declared = vertical(&format!("{VERTICAL}[privacy.design]\nmean_square = 0.2\ncorrelation = 0.2"));
    let found = declared.search(10_000).suggested.unwrap();
    assert!(found.settings.contains_key("parties.bob.row_norm"), "{found:?}");
    let mut followed = declared.clone();
    let crate::study::VerticalGuarantee::Private(terms) = &mut followed.guarantee else { panic!("{declared:?}") };
    let terms = &mut terms.stated;
    (terms.rounds, terms.clip) = (found.settings["privacy.rounds"] as u32, found.settings["privacy.clip"]);
    terms.design.mean_square = Some(found.settings["privacy.design.mean_square"]);
    for (role, party) in &mut followed.method.parties {
        party.row_norm = Some(found.settings[&format!("parties.{role}.row_norm")]);
    }
    let search = followed.search(10_000);
    assert_eq!(search.suggested, None);
    assert!(search.text().contains("privacy.clip 0.05, 0.1"), "{}", search.text());
}

/// Where little noise is foretold rows that a norm shortens are most of the error, and no interval contains that.
#[test]
fn no_norm_is_suggested_that_biases_coefficients_by_much_of_the_noise() {
    let two = ["c", "f"].iter().fold(VERTICAL.to_string(), |text, column| {
        text.replace(&format!(", \"{column}\"]"), "]").replace(&format!("    {column} = {{ range = [0, 1] }}\n"), "")
    });
    let two = two.replace("rounds = 4\n    clip = 1.0", "mechanism = \"crossprod\"");
    let study = |epsilon: &str| {
        let text = two.replace("epsilon = 3.0", &format!("epsilon = {epsilon}"));
        vertical(&format!("{text}[privacy.design]\nmean_square = 0.155\ncorrelation = 0.3"))
    };
    assert_eq!(study("10.0").search(30_000).suggested, None);
    assert_eq!(study("10.0").search(100_000).suggested, None);
    // Where there is much noise the norm that one row in twenty passes makes it less.
    let found = study("1.0").search(3_000).suggested.unwrap();
    let norm = found.settings["parties.alice.row_norm"];
    assert!((0.9..1.0).contains(&norm), "{found:?}");
    assert!(
        found.text().contains("Rows beyond a `row_norm` are shortened, which biases coefficients"),
        "{}",
        found.text()
    );
}

const SITES: &str = r#"
    mode = "private"
    id = "sites"
    [privacy]
    epsilon = 1.0
    delta = 1e-6
    [workers.north]
    certificate = "north.example"
    [workers.south]
    certificate = "south.example"
    [workers.west]
    certificate = "west.example"
    [outcome]
    column = "y"
    [columns.y]
    range = [0, 10]
    [columns.age]
    range = [18, 90]
"#;

fn foretold(study: &Study<Sites>, rows: u64) -> Option<f64> {
    study.foretold(study.method.method.terms(), rows)
}

/// What is suggested for a study is expected to do better, is taken by the study file, and leaves nothing to suggest.
fn followed(rows: u64, study: impl Fn(&str) -> String, section: &str, own: &str) {
    let (better, found) = suggested(rows, study, section, own);
    assert_eq!(foretold(&better, rows), Some(found.relative_error), "the suggestion keeps its word");
    let search = better.search(rows);
    assert_eq!(search.suggested, None);
    assert!(search.text().starts_with("Nothing that was tried"), "{}", search.text());
    for (key, value) in &found.settings {
        assert!(search.text().contains(key) && search.tried[key].contains(value), "{}", search.text());
    }
}

fn suggested(rows: u64, study: impl Fn(&str) -> String, section: &str, own: &str) -> (Study<Sites>, Suggestion) {
    let first = sites(&study(own));
    let search = first.search(rows);
    println!("{section}: {}", search.text());
    let found = search.suggested.unwrap();
    assert!(found.relative_error < 0.95 * found.relative_error_now);
    assert_eq!(Some(found.relative_error_now), foretold(&first, rows), "the error of the plan");
    let keys: Vec<String> = found
        .settings
        .iter()
        .map(|(key, value)| format!("{} = {value}", key.strip_prefix(section).unwrap().trim_start_matches('.')))
        .collect();
    (sites(&study(&keys.join("\n"))), found)
}

#[test]
fn settings_of_models_with_something_hidden_are_suggested() {
    let study = |own: &str| {
        let head = SITES.replace("range = [18, 90]", "");
        format!(
            "protocol = \"em\"\n{head}\n[model]\nfeatures = [\"a\", \"b\", \"age\"]\n[em]\nmodel = \"mrm\"\nsigma = 1.0\ntau = 5.0\n{own}"
        )
    };
    followed(1_000, study, "em", "rounds = 40\nbound = 8.0");
    followed(1_000, |own| study(&format!("estimator = \"catoni\"\n{own}")), "em", "scale = 60.0");
}

#[test]
fn features_and_ridge_of_functions_are_suggested() {
    let study = |own: &str| {
        format!(
            "protocol = \"features\"\n{SITES}\n[model]\nfeatures = [\"age\"]\n[features]\nfrequency_sd = 3.0\n{own}"
        )
    };
    let (better, found) = suggested(5_000, study, "features", "count = 200");
    assert!(found.settings["features.count"] < 200.0, "{found:?}");
    // The plan of fewer features assumes a function that these can follow.
    assert!(foretold(&better, 5_000).unwrap() <= found.relative_error);
    let output = |own: &str| study(&format!("release = \"output\"\n{own}"));
    let (better, found) = suggested(5_000, output, "features", "count = 4\nlambda = 1.0");
    assert_eq!(foretold(&better, 5_000), Some(found.relative_error), "the suggestion keeps its word");
    followed(5_000, output, "features", "count = 4\nlambda = 1.0");
}

#[test]
fn steps_and_cuts_of_streams_are_suggested() {
    let study = |own: &str| format!("protocol = \"stream\"\n{SITES}\n[model]\nfeatures = [\"age\"]\n[stream]\n{own}");
    followed(20_000, study, "stream", "step = 2.0");
    followed(20_000, |own| study(&format!("decay = \"constant\"\n{own}")), "stream", "tau = 2.0");
    let power = |own: &str| study(&format!("decay = \"power\"\nexponent = 0.6\n{own}"));
    followed(20_000, power, "stream", "step = 9.0");
    let horizon = |own: &str| study(&format!("decay = \"horizon\"\nexponent = 0.6\nhorizon = 40000\n{own}"));
    followed(20_000, horizon, "stream", "step = 9.0");
}

#[test]
fn nothing_is_tried_where_no_error_is_foretold() {
    let study =
        sites(&format!("protocol = \"features\"\n{SITES}\n[model]\nfeatures = [\"age\"]\n[features]\ncount = 302"));
    assert_eq!(study.search(5_000), Search::default());
    assert_eq!(study.search(5_000).text(), "");
}
