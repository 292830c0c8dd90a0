//! Studies between sites.

use crate::study::tests::{sites, written};
use crate::study::*;

const MINIMAL: &str = r#"
    id = "sites"
    protocol = "robust"
    [workers.north]
    certificate = "north.example"
    [workers.south]
    certificate = "south.example"
    [model]
    features = ["age", "region"]
    [outcome]
    column = "cost"
    [columns.region]
    levels = ["a", "b", "c"]
"#;

#[test]
fn a_short_horizontal_study_has_the_defaults_and_knows_its_coefficients() {
    let study = sites(MINIMAL);
    assert_eq!(study.method.coefficients, ["(Intercept)", "age", "regionb", "regionc"]);
    assert_eq!((study.quorum(), study.site_terms().batch_rows), (2, 1000));
    assert_eq!(study.worker_of("south.example"), Some("south"));
    let explicit = format!(
        "{MINIMAL}\n[sites]\nbatch_rows = 1000\nquorum = 2\ndeadline = 86400\n[robust]\nconsolidation = \"refine\"\n"
    );
    assert_eq!(study.digest(), Study::parse(&explicit).unwrap().digest());
    assert_eq!(sites(&written(MINIMAL)), study);
}

#[test]
fn declared_rows_are_of_all_workers_and_a_study_without_them_keeps_its_digest() {
    let (study, written) = (sites(MINIMAL), written(MINIMAL));
    assert!(study.declared_rows().is_empty() && !written.lines().any(|line| line.starts_with("rows =")));
    let stated = MINIMAL.replace(".example\"\n", ".example\"\n rows = 5\n");
    let stated = sites(&stated);
    assert_eq!(stated.declared_rows().values().sum::<u64>(), 10);
    assert_ne!(stated.digest(), study.digest());
}

#[test]
fn a_formula_and_truth_values_name_their_coefficients_as_r_does() {
    let text = MINIMAL.replace("features = [\"age\", \"region\"]", "formula = \"cost ~ age * smoker\"").replace(
        "[columns.region]\n    levels = [\"a\", \"b\", \"c\"]",
        "[columns.smoker]\nlevels = [\"FALSE\", \"TRUE\"]",
    );
    let study = sites(&text);
    assert_eq!(study.method.coefficients, ["(Intercept)", "age", "smokerTRUE", "age:smokerTRUE"]);
    assert!(study.head.columns["smoker"].is_boolean());
}

#[test]
fn every_mistake_in_a_horizontal_study_names_its_key() {
    let complaint = |text: &str| Study::parse(text).unwrap_err().to_string();
    for (find, put, says) in [
        (
            "[workers.south]\n    certificate = \"south.example\"",
            "[workers.south]\n certificate = \"north.example\"",
            "`workers` must have different",
        ),
        ("certificate = \"north.example\"", "certificate = \"\"", "`workers` must give"),
        (
            "certificate = \"north.example\"",
            "certificate = \"north.example\"\nrows = 10",
            "`workers.south.rows` is missing",
        ),
        (
            "certificate = \"north.example\"",
            "certificate = \"north.example\"\nrows = 0",
            "`workers.north.rows` must lie",
        ),
        ("features = [\"age\", \"region\"]", "features = [\"age\", \"cost\"]", "`model.features`"),
        ("features = [\"age\", \"region\"]", "features = [\"age\", \"age\"]", "`model.features`"),
        ("features = [\"age\", \"region\"]", "", "`model` needs either"),
        ("features = [\"age\", \"region\"]", "formula = \"cost ~ .\"", "`model.formula` must name its columns"),
        ("features = [\"age\", \"region\"]", "formula = \"bill ~ age\"", "`model.formula` explains another"),
        ("features = [\"age\", \"region\"]", "formula = \"cost ~ age - 1\"", "`model.formula` and `model.intercept`"),
        ("column = \"cost\"", "column = \"\"", "`outcome.column` is missing"),
        ("column = \"cost\"", "column = \"cost\"\nheld_by = \"alice\"", "`outcome.held_by` has no place"),
        ("[outcome]", "[sites]\nquorum = 3\n[outcome]", "`sites.quorum` must lie"),
        ("[outcome]", "[sites]\nquorum = 0\n[outcome]", "`sites.quorum` must lie"),
        ("[outcome]", "[sites]\nbatch_rows = 11\n[outcome]", "`sites.batch_rows` must be at least 12"),
        ("[outcome]", "[sites]\ndeadline = 0\n[outcome]", "`sites.deadline` must be"),
        ("[outcome]", "[robust]\nconsolidation = \"refined\"\n[outcome]", "`robust.consolidation` is not known"),
        ("[outcome]", "[robust.online]\nwindow = 2\n[outcome]", "`robust.online.window`"),
        ("[outcome]", "[robust.online]\nswitch = 1\n[outcome]", "`robust.online.switch`"),
        ("[outcome]", "[robust]\nstrat = \"ols\"\n[outcome]", "did you mean `start`"),
        ("[outcome]", "[fit]\ntol = 1e-6\n[outcome]", "`fit` has no place"),
        ("[outcome]", "[penalty]\nlambda = 1.0\n[outcome]", "`penalty` has no place"),
    ] {
        let text = MINIMAL.replacen(find, put, 1);
        assert_ne!(text, MINIMAL, "{find}");
        assert!(complaint(&text).contains(says), "{put}: {}", complaint(&text));
    }
    let none = MINIMAL
        .replace("[workers.north]\n    certificate = \"north.example\"", "")
        .replace("[workers.south]\n    certificate = \"south.example\"", "");
    assert!(complaint(&none).contains("`workers` must name at least one"), "{}", complaint(&none));
}
