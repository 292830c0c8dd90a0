//! What a rehearsal computes of all rows in one place has no noise: in private mode it is shown of shipped data only.

// Test code may unwrap: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

const DEMO: &str = env!("CARGO_BIN_EXE_demo");

/// What a rehearsal printed and every file that it wrote, by name, apart from tables of rows and ledgers.
fn outputs(folder: &Path, arguments: &[&str]) -> Vec<(String, String)> {
    let output = Command::new(DEMO).args(arguments).arg("--out").arg(folder).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    let mut found = vec![
        ("stdout".to_string(), String::from_utf8_lossy(&output.stdout).into_owned()),
        ("stderr".to_string(), String::from_utf8_lossy(&output.stderr).into_owned()),
    ];
    let mut folders = vec![folder.to_path_buf()];
    while let Some(place) = folders.pop() {
        for entry in fs::read_dir(&place).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            let name = path.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if ["txt", "json", "html", "csv"].iter().any(|kind| name.ends_with(kind))
                && !name.ends_with("rows.csv")
                && !["holdout.csv", "diabetes.csv", "costs.csv"].contains(&name.as_str())
            {
                found.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found
}

fn data(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(name).to_string_lossy().into_owned()
}

#[test]
fn a_private_rehearsal_on_ones_own_file_shows_nothing_of_it_without_noise() {
    let folder = tempfile::tempdir().unwrap();
    let robust = ["robust", "--mode", "private", "--epsilon", "3", "--corrupt", "0.34"];
    // The shipped rows may be compared: from here the numbers that must not be seen below.
    let shipped = outputs(&folder.path().join("shipped"), &robust);
    let report: Value = shipped.iter().find(|(name, _)| name == "report.json").unwrap().1.parse().unwrap();
    let mut raw = Vec::new();
    for row in report["comparison"].as_array().unwrap() {
        for key in ["pooled", "pooled_std_error", "undamaged"] {
            let value = row[key].as_f64().unwrap();
            raw.extend([value.to_string(), format!("{value:.4}"), format!("{value:.5}")]);
        }
    }
    assert!(shipped.iter().any(|(_, text)| text.contains("Beside least squares of all rows")));
    assert!(raw.iter().any(|number| shipped.iter().any(|(_, text)| text.contains(number.as_str()))));

    let (file, bounds) = (data("diabetes.csv"), data("diabetes.bounds.toml"));
    let own = ["--data", &file, "--bounds", &bounds, "--outcome", "progression", "--features", "sex,bmi,bp,s5"];
    let (costs, ranges) = (data("costs.csv"), data("costs.bounds.toml"));
    let features = ["features", "--mode", "private", "--epsilon", "3", "--count", "20", "--holdout", "0.2"];
    let function = ["--data", &costs, "--bounds", &ranges, "--outcome", "cost"];
    for (name, arguments) in
        [("robust", [&robust[..], &own[..]].concat()), ("features", [&features[..], &function[..]].concat())]
    {
        for (file, text) in outputs(&folder.path().join(name), &arguments) {
            let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
            for words in ["least squares of all rows", "Least squares", "\"comparison\": [", "mean squared error"] {
                assert!(!flat.contains(words), "{name} {file} says {words}: {text}");
            }
            for number in &raw {
                assert!(name != "robust" || !text.contains(number.as_str()), "{name} {file} shows {number}: {text}");
            }
        }
    }
    // The remedy for whoever asked for the comparison stands in its place.
    let text = fs::read_to_string(folder.path().join("features/report.txt")).unwrap();
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("an error on held-out rows would be a number without noise"), "{text}");
}

#[test]
fn a_private_result_whose_plan_foretells_noise_says_so_first_and_infers_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for (name, arguments, banner) in [
        ("robust", &["robust", "--mode", "private", "--epsilon", "3"][..], None),
        ("vertical", &["vertical", "--mode", "private", "--epsilon", "1"], Some("this result is mostly noise")),
        ("em", &["em", "--model", "mrm", "--mode", "private", "--epsilon", "0.05", "--rounds", "4"], None),
    ] {
        let found = outputs(&folder.path().join(name), arguments);
        let of = |file: &str| &found.iter().find(|(name, _)| name == file).unwrap().1;
        let text = of("stdout");
        // Of two parties a line that names it comes first, and the whole of it behind the head.
        let first =
            banner.map_or("****".to_string(), |banner| format!("Caution:  {}; p-values", banner.to_uppercase()));
        assert!(text.starts_with(&first), "{name}: {text}");
        // The noise may have a site set aside as well, which is said between the two.
        assert!(text.find("****\n\n").is_some_and(|end| end < text.find("Call:").unwrap()), "{name}: {text}");
        let report: Value = of("report.json").parse().unwrap();
        let caution = &report["caution"];
        assert_eq!(caution["inference_withheld"], true, "{name}: {caution}");
        assert!(!caution["reasons"].as_array().unwrap().is_empty());
        if let Some(banner) = banner {
            assert_eq!(caution["banner"], banner, "{name}: {caution}");
        }
        for row in report["coefficients"].as_array().unwrap() {
            assert!(
                row["p_value"].is_null() && row["conf_low"].is_null() && row["statistic"].is_null(),
                "{name}: {row}"
            );
        }
        let page = of("report.html");
        assert!(page.contains("badge bad") && !page.contains("badge good"), "{name}: the badge is not green");
        assert!(page.find("class=\"caution\"").unwrap() < page.find("<h1>").unwrap(), "{name}");
    }
    // Workers and parties say the same.
    for place in ["robust/worker-1", "robust/coordinator", "vertical/alice", "vertical/bob"] {
        let text = fs::read_to_string(folder.path().join(place).join("report.txt")).unwrap();
        assert!(text.starts_with("****"), "{place}: {text}");
    }
}
