//! What private studies between sites are expected to yield.

use crate::study::tests::{sites, written};
use crate::study::*;

fn text(protocol: &str, epsilon: f64, more: &str) -> String {
    format!(
        r#"
        id = "sites"
        protocol = "{protocol}"
        mode = "private"
        [privacy]
        epsilon = {epsilon:?}
        delta = 1e-6
        [workers.north]
        certificate = "north"
        [workers.south]
        certificate = "south"
        [model]
        features = ["a", "b"]
        {more}
        "#
    )
}

const COLUMNS: &str = "[outcome]\ncolumn = \"y\"\n[columns.a]\nrange = [0, 10]\n[columns.b]\nlevels = [\"u\", \"v\", \"w\"]\n[columns.y]\nrange = [0, 70000]\n";

fn of(protocol: &str, epsilon: f64) -> Study<Sites> {
    sites(&text_of(protocol, epsilon))
}

fn text_of(protocol: &str, epsilon: f64) -> String {
    match protocol {
        "em" => text("em", epsilon, "[em]\nmodel = \"gmm\"\nsigma = 1.0\ntau = 5.0\nrounds = 6"),
        "stream" => {
            // One covariate: the noise of two fills a grid of as many points squared.
            let columns = COLUMNS.replace("levels = [\"u\", \"v\", \"w\"]", "range = [0, 1]");
            text("stream", epsilon, &columns).replace("[\"a\", \"b\"]", "[\"a\"]")
        }
        "features" => text("features", epsilon, &format!("{COLUMNS}[features]\ncount = 20")),
        other => text(other, epsilon, &format!("{COLUMNS}[sites]\nbatch_rows = 5000")),
    }
}

#[test]
fn every_method_has_an_expectation_and_warns_where_nothing_is_gained() {
    for protocol in ["robust", "em", "features", "stream"] {
        let rich = of(protocol, 8.0).expectation(if protocol == "stream" { 1_000_000 } else { 40_000 }).unwrap();
        assert!(rich.error.half_ranges < rich.error_zero.half_ranges, "{protocol}: {rich:?}");
        assert!(!rich.better_zero && rich.warnings().len() == usize::from(rich.better_alone), "{rich:?}");
        assert!(rich.noise.half_ranges <= rich.error.half_ranges * 1.2, "{protocol}: {rich:?}");
        assert_eq!(rich.batches, (protocol == "robust").then_some(16));
        let poor = match protocol {
            "robust" => of(protocol, 0.3).expectation(5_000).unwrap(),
            _ => of(protocol, 0.05).expectation(200).unwrap(),
        };
        assert!(poor.better_alone && !poor.warnings().is_empty(), "{protocol}: {poor:?}");
        assert!(poor.relative_error > 3.0 * rich.relative_error, "{protocol}: {poor:?}");
        // Noised statistics pull towards the middle, robust plans are refused before they come to this.
        assert_eq!(poor.better_zero, ["em", "stream"].contains(&protocol), "{protocol}: {poor:?}");
    }
}

#[test]
fn sizes_are_in_half_ranges_and_in_the_outcomes_unit() {
    let found = of("robust", 3.0).expectation(10_000).unwrap();
    assert!((found.noise.outcome() / found.noise.half_ranges - 35_000.0).abs() < 1e-9);
    let json = serde_json::to_value(&found).unwrap();
    assert_eq!(json["noise"]["outcome"].as_f64(), Some(found.noise.outcome()));
    assert_eq!(json["batches"], 4);
    // Points have no outcome, and so no range of it.
    let points = serde_json::to_value(of("em", 3.0).expectation(1000).unwrap()).unwrap();
    assert_eq!(points["noise"]["half_ranges"], serde_json::Value::Null);
    assert!(points["noise"]["outcome"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_declared_design_is_what_is_reckoned_with() {
    let plain = of("robust", 1.0).expectation(10_000).unwrap();
    let declared = |design: &str| {
        let columns = format!("{COLUMNS}[sites]\nbatch_rows = 5000\n[privacy.design]\n{design}");
        sites(&text("robust", 1.0, &columns)).expectation(10_000).unwrap()
    };
    let batches = plain.warnings().iter().any(|warning| warning.contains("larger batches"));
    assert_eq!(batches, plain.better_alone && plain.batches > Some(2));
    let noisy = declared("residual = 0.4");
    assert!(noisy.noise.half_ranges > 1.8 * plain.noise.half_ranges, "the cut grows with the residuals");
    assert!(noisy.assumed.iter().any(|line| line.contains("residuals 0.4")), "{:?}", noisy.assumed);
    assert!(declared("correlation = 0.8").noise.half_ranges > 1.2 * plain.noise.half_ranges);
    assert!(declared("corrupted = 0.4").noise.half_ranges > 1.5 * plain.noise.half_ranges);
    assert!(declared("signal = 0.6").error_zero.half_ranges > 1.9 * plain.error_zero.half_ranges);
}

#[test]
fn designs_that_a_protocol_does_not_reckon_with_are_refused() {
    for (protocol, design, says) in [
        ("em", "residual = 0.1", "`privacy.design.residual` has no place"),
        ("em", "correlation = 0.1", "`privacy.design.correlation` has no place"),
        ("robust", "mean_square = 0.5", "`privacy.design.mean_square` has no place"),
        ("em", "coefficients = 0.5", "`privacy.design.coefficients` has no place"),
        ("stream", "corrupted = 0.1", "`privacy.design.corrupted` has no place"),
        ("robust", "corrupted = 0.5", "below .5"),
        ("robust", "signal = 0.0", "must be positive"),
        ("features", "residual = -1.0", "must be positive"),
    ] {
        let text = written(&text_of(protocol, 1.0));
        let text = text.replace("[privacy.design]\n", &format!("[privacy.design]\n{design}\n"));
        let complaint = Study::parse(&text).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(complaint.contains(says), "{protocol} {design}: {complaint}");
    }
}

#[test]
fn where_nothing_sound_can_be_said_a_sentence_says_why() {
    let many = sites(&text("features", 1.0, &format!("{COLUMNS}[features]\ncount = 400")));
    assert!(many.expectation(1000).unwrap_err().to_string().contains("more than 300 random features"));
    let few = of("robust", 0.3).expectation(40).unwrap_err().to_string();
    assert!(few.starts_with("a run of this number of rows would be refused: ") && few.contains("on 40 rows"), "{few}");
    assert!(of("stream", 1.0).expectation(0).unwrap_err().to_string().contains("--rows"));
}
