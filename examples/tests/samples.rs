//! Every sample file in this folder is read by the program that it is for.

// Test code may unwrap: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::{Path, PathBuf};

use fedreg_common::id::Role;
use fedreg_common::study::{SealedTerms, Study, Vertical, VerticalGuarantee};
use fedreg_party::config::{Config, Overrides};
use fedreg_proto::files::read_study;

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
