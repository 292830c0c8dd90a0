//! Every sample file in this folder is read by the program that it is for, and the script of a walkthrough runs to its end.

// Test code may unwrap: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fedreg_common::id::Role;
use fedreg_common::study::{SealedTerms, Study, Vertical, VerticalGuarantee};
use fedreg_party::config::{Config, Overrides};
use fedreg_proto::files::read_study;
use serde_json::Value;

fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("two-hospitals")
}

fn study(folder: &Path) -> Study<Vertical> {
    read_study(&folder.join("study.toml")).unwrap().vertical().unwrap()
}

#[test]
fn the_two_hospitals_agree_on_a_study_that_parses() {
    let study = study(&samples());
    assert_eq!(study.head.id, "two-hospitals");
    assert_eq!(study.method.parties[&Role::Alice].certificate, "north.hospital.example");
}

#[test]
fn the_sealed_sample_is_the_same_study_in_sealed_mode() {
    let plain = study(&samples());
    let sealed = read_study(&samples().join("study-sealed.toml")).unwrap().vertical().unwrap();
    assert_eq!(sealed.guarantee, VerticalGuarantee::Sealed(SealedTerms::default()));
    assert_eq!(sealed.method.parties[&Role::Alice], plain.method.parties[&Role::Alice]);
    let columns = |study: &Study<Vertical>| study.method.parties[&Role::Bob].columns.clone();
    let mut without = columns(&plain);
    without.retain(|column| column != "s4");
    assert_eq!(columns(&sealed), without);
    assert_eq!(sealed.method.outcome, plain.method.outcome);
    assert_eq!(sealed.head.coordinator.certificate, plain.head.coordinator.certificate);
}

#[test]
fn each_private_file_parses_and_points_at_files_that_are_there() {
    for role in [Role::Alice, Role::Bob] {
        let flags = Overrides { config: Some(samples().join(format!("{role}.toml"))), ..Overrides::default() };
        let config = Config::load(role, &flags).unwrap();
        assert!(config.study.is_file() && config.data.file.is_file());
        assert_eq!(config.listen.is_some(), role == Role::Alice);
    }
    let flags = fedreg_coordinator::config::Overrides {
        config: Some(samples().join("coordinator.toml")),
        ..Default::default()
    };
    let config = fedreg_coordinator::config::Config::load(&flags).unwrap();
    assert!(config.study.is_file());
}

#[test]
fn both_hospitals_name_the_certificates_that_the_walkthrough_makes() {
    let readme = std::fs::read_to_string(samples().join("README.md")).unwrap();
    let study = study(&samples());
    let mut names: Vec<&str> = study.method.parties.values().map(|terms| terms.certificate.as_str()).collect();
    names.push(&study.head.coordinator.certificate);
    for name in names {
        assert!(readme.contains(&format!("--name {name}")), "{name}");
    }
}

#[test]
fn the_private_walkthrough_has_files_that_fit_each_other() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("two-hospitals-private");
    let study = study(&folder);
    let asked = &study.private().unwrap().stated;
    for role in [Role::Alice, Role::Bob] {
        let flags = Overrides { config: Some(folder.join(format!("{role}.toml"))), ..Overrides::default() };
        let config = Config::load(role, &flags).unwrap();
        assert!(config.policy.max_epsilon.unwrap() >= asked.epsilon);
        assert!(
            !config.anchor().unwrap().starts_with(config.ledger().parent().unwrap()),
            "the anchor is not with the ledger"
        );
        // The budget is for two runs and not for three.
        let budget = |epsilon: f64| asked.accountant.cap(epsilon, asked.delta.unwrap());
        let runs = budget(config.privacy.epsilon.unwrap()) / budget(asked.epsilon);
        assert!((2.0..3.0).contains(&runs), "{runs}");
    }
}

#[test]
fn the_tables_that_overlap_in_part_have_files_that_fit_each_other() {
    let folder = samples().join("match");
    let study = study(&folder);
    let terms = study.head.matching.as_ref().unwrap();
    for role in [Role::Alice, Role::Bob] {
        let flags = Overrides { config: Some(folder.join(format!("{role}.toml"))), ..Overrides::default() };
        let config = Config::load(role, &flags).unwrap();
        assert!(config.study.is_file() && config.data.file.is_file());
        assert!(config.matching.columns.keys().eq(terms.keys.keys()));
    }
    let flags =
        fedreg_coordinator::config::Overrides { config: Some(folder.join("coordinator.toml")), ..Default::default() };
    assert!(fedreg_coordinator::config::Config::load(&flags).unwrap().study.is_file());
}

#[test]
fn the_three_institutions_have_files_that_fit_each_other_and_the_walkthrough() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("three-institutions");
    let (study, readme) = (study(&folder), std::fs::read_to_string(folder.join("README.md")).unwrap());
    let order = study.parties_in_order();
    assert_eq!(order.iter().map(Role::name).collect::<Vec<_>>(), ["hospital", "laboratory", "office"]);
    for role in order {
        let flags = Overrides { config: Some(folder.join(format!("{role}.toml"))), ..Overrides::default() };
        let config = Config::load(role, &flags).unwrap();
        assert!(config.study.is_file() && config.data.file.is_file());
        assert_eq!(config.listen.is_some(), study.is_first(role));
        assert!(readme.contains(&format!("--name {}", study.method.parties[&role].certificate)), "{role}");
        assert!(readme.contains(&format!("{} fit --out results/{role}", role.program())));
    }
    assert!(readme.contains(&format!("--name {}", study.head.coordinator.certificate)));
}

#[test]
fn the_script_of_the_three_institutions_goes_from_certificates_to_scores() {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("three-institutions");
    let folder = tempfile::tempdir().unwrap();
    let [bin, work, home] = ["bin", "work", "home"].map(|name| folder.path().join(name));
    // The two programs that it calls, from the demo, which is all of them.
    fs::create_dir(&bin).unwrap();
    let demo = env!("CARGO_BIN_EXE_demo");
    for (name, line) in [
        ("coordinator", format!("exec '{demo}' --role coordinator \"$@\"")),
        ("party", format!("name=$2; shift 2; exec '{demo}' --role \"$name\" \"$@\"")),
    ] {
        fs::write(bin.join(name), format!("#!/bin/sh\n{line}\n")).unwrap();
        fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let said = folder.path().join("said.txt");
    let mut script = Command::new("sh")
        .arg(sample.join("run.sh"))
        .arg(&work)
        .env("BIN", &bin)
        .env("XDG_STATE_HOME", &home)
        .stdin(Stdio::null())
        .stdout(fs::File::create(&said).unwrap())
        .stderr(fs::File::create(folder.path().join("log.txt")).unwrap())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let status = loop {
        match script.try_wait().unwrap() {
            Some(status) => break Some(status),
            None if begun.elapsed() > Duration::from_secs(120) => break None,
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    let text = |path: &Path| fs::read_to_string(path).unwrap();
    let log = text(&folder.path().join("log.txt"));
    if status.is_none() {
        script.kill().unwrap();
    }
    assert!(status.is_some_and(|status| status.success()), "{}\n{log}", text(&said));
    assert!(text(&said).contains("== results are in"), "{}", text(&said));

    // `lm(progression ~ ., diabetes)` in R 4.5.1.
    let known = [("(Intercept)", -334.567_138_518_79), ("bmi", 5.602_962_091_92), ("sex", -22.859_648_090_50)];
    for name in ["hospital", "laboratory", "office"] {
        let results = work.join("results").join(name);
        let report: Value = serde_json::from_str(&text(&results.join("report.json"))).unwrap();
        let rows = report["coefficients"].as_array().unwrap();
        assert_eq!((rows.len(), &report["role"]), (11, &Value::from(name)));
        for (term, estimate) in known {
            let row = rows.iter().find(|row| row["term"] == term).unwrap();
            assert!((row["estimate"].as_f64().unwrap() / estimate - 1.0).abs() < 1e-9, "{name}: {row}");
            assert!(row["std_error"].as_f64().unwrap() > 0.0, "{name}: {row}");
        }
        assert!(results.join("model.json").is_file() && results.join("report.html").is_file(), "{name}");
        // Scores come out at the leader only.
        assert_eq!(results.join("scores.csv").is_file(), name == "hospital", "{name}");
    }
    let scores = text(&work.join("results/hospital/scores.csv"));
    let scores: Vec<(&str, f64)> = scores
        .lines()
        .skip(1)
        .map(|line| line.split_once(',').unwrap())
        .map(|(id, score)| (id, score.parse().unwrap()))
        .collect();
    assert_eq!(scores.iter().map(|(id, _)| *id).collect::<Vec<_>>(), ["n01", "n02", "n03", "n04", "n05"]);
    let report: Value = serde_json::from_str(&text(&work.join("results/hospital/report.json"))).unwrap();
    let estimate = |term: &str| {
        let rows = report["coefficients"].as_array().unwrap();
        rows.iter().find(|row| row["term"] == term).unwrap()["estimate"].as_f64().unwrap()
    };
    for (id, score) in scores {
        let mut expected = estimate("(Intercept)");
        for (name, separator) in [("hospital", ','), ("laboratory", ';'), ("office", ',')] {
            let table = text(&sample.join(format!("{name}_new.csv")));
            let row = table.lines().find(|line| line.split(separator).next() == Some(id)).unwrap();
            let cells = table.lines().next().unwrap().split(separator).zip(row.split(separator)).skip(1);
            expected += cells.map(|(term, cell)| estimate(term) * cell.parse::<f64>().unwrap()).sum::<f64>();
        }
        assert!((score - expected).abs() < 1e-9 * expected.abs(), "{id}: {score} {expected}");
    }
}
