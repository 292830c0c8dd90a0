//! One file is one budget, and a ledger without a safe anchor is none: `worker privacy` as real processes.

// Test code may unwrap: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod ledgers;
mod sites;

use std::fs;
use std::process::{Command, Output, Stdio};

use ledgers::records;
use sites::{DEMO, World};

/// A study whose rows belong to persons by this column, or by their numbers.
fn study(id: &str) -> String {
    study_of(id, "\"a\", \"b\"")
}

fn study_of(id: &str, features: &str) -> String {
    let rows = if id.is_empty() { String::new() } else { format!("[rows]\nid = \"{id}\"\n") };
    format!(
        "id = \"sites\"\nprotocol = \"em\"\nmode = \"private\"\n[privacy]\nepsilon = 1.0\ndelta = 1e-5\n[workers.north]\ncertificate = \
         \"north\"\n{rows}[model]\nfeatures = [{features}]\n[outcome]\ncolumn = \"y\"\n[em]\nmodel = \"mrm\"\nsigma = 1.0\ntau = \
         15.0\nrounds = 6\n"
    )
}

fn world() -> World {
    let world = World::of(&study(""));
    world.write("cohort.csv", &rows(&["id", "number", "a", "b", "y"], 0..100));
    world
}

fn rows(header: &[&str], rows: impl Iterator<Item = u64>) -> String {
    let row = |at: u64| {
        let t = at as f64;
        format!("p{at},{},{:.3},{:.3},{:.3}", 900 - at, (0.7 * t).cos(), (0.3 * t).sin(), (0.5 * t).sin())
    };
    format!("{}\n{}\n", header.join(","), rows.map(row).collect::<Vec<_>>().join("\n"))
}

/// `worker privacy`, without the variables of a user where there is no `home`.
fn privacy(world: &World, words: &[&str], data: &str, private: &str, home: bool) -> (i32, String) {
    world.write("north.toml", private);
    let mut command = Command::new(DEMO);
    if !home {
        command.env_remove("HOME").env_remove("XDG_STATE_HOME");
    }
    let output: Output = command
        .args(["--role", "worker", "privacy"])
        .args(words)
        .args(["--config", "north.toml", "--study", "study.toml", "--coordinator", "127.0.0.1:9", "--data", data])
        .args(["--state", "state", "--authority", "authority.pem", "--certificate", "north.pem", "--key", "north.key"])
        .current_dir(world.path(""))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    (output.status.code().unwrap(), text)
}

fn terms(ledger: &str, data_set: &str) -> String {
    format!(
        "[privacy]\nledger = \"{ledger}/privacy.sqlite\"\nanchor = \"anchors/{ledger}\"\ndata_set = \"{data_set}\"\n"
    )
}

#[test]
fn studies_that_differ_in_their_column_of_identifiers_do_not_multiply_the_budget_of_a_file() {
    let world = world();
    for (data_set, id) in [("by id", "id"), ("by number", "number"), ("by row", "")] {
        world.write("study.toml", &study(id));
        let (code, text) = privacy(&world, &["init"], "cohort.csv", &terms("first", data_set), true);
        assert_eq!(code, 0, "{text}");
    }
    let (_, text) = privacy(&world, &["status"], "cohort.csv", &terms("first", "by row"), true);
    for names in ["by id, by number", "by id, by row", "by number, by row"] {
        assert!(text.contains(&format!("shares persons with {names}: what one spends, all have spent")), "{text}");
    }
    // The same rows by another column of identifiers under the first name: no message invites to a new one.
    let (code, text) = privacy(&world, &["init"], "cohort.csv", &terms("first", "by id"), true);
    assert!(code == 77 && !text.contains("new name"), "{code} {text}");
}

#[test]
fn studies_of_other_columns_by_other_paths_do_not_multiply_the_budget_of_a_file() {
    let world = world();
    fs::create_dir(world.path("in")).unwrap();
    std::os::unix::fs::symlink("../cohort.csv", world.path("in/soft.csv")).unwrap();
    for (data_set, id, features, data) in [
        ("both", "id", "\"a\", \"b\"", "cohort.csv"),
        ("first", "number", "\"a\"", "in/../cohort.csv"),
        ("second", "", "\"b\"", "in/soft.csv"),
    ] {
        world.write("study.toml", &study_of(id, features));
        let (code, text) = privacy(&world, &["init"], data, &terms("first", data_set), true);
        assert_eq!(code, 0, "{text}");
    }
    let (_, text) = privacy(&world, &["status"], "cohort.csv", &terms("first", "both"), true);
    for names in ["both, first", "both, second", "first, second"] {
        assert!(text.contains(&format!("shares persons with {names}: what one spends, all have spent")), "{text}");
    }
    // By the same identifiers the persons themselves are known.
    world.write("study.toml", &study_of("id", "\"b\""));
    let (code, text) = privacy(&world, &["init"], "in/soft.csv", &terms("first", "again"), true);
    assert!(code == 77 && text.contains("a second name does not bring a second budget"), "{code} {text}");
}

#[test]
fn a_second_ledger_is_no_second_budget_for_links_and_copies_of_a_file() {
    let world = world();
    let (code, text) = privacy(&world, &["init"], "cohort.csv", &terms("first", "cohort"), true);
    assert_eq!(code, 0, "{text}");
    fs::hard_link(world.path("cohort.csv"), world.path("link.csv")).unwrap();
    world.write("copy.csv", &rows(&["name", "number", "a", "b", "y"], (0..100).rev()));
    fs::create_dir(world.path("in")).unwrap();
    std::os::unix::fs::symlink("../cohort.csv", world.path("in/soft.csv")).unwrap();
    let absolute = world.path("cohort.csv").display().to_string();
    for data in ["cohort.csv", "link.csv", "copy.csv", "in/soft.csv", "in/../cohort.csv", &absolute] {
        let (code, text) = privacy(&world, &["init"], data, &terms("second", "other"), true);
        assert_eq!(code, 77, "{data}: {text}");
        let remedy = "a second ledger does not bring a second budget: use that one (`privacy.ledger`)";
        assert!(text.contains(remedy) && text.contains("first/privacy.sqlite"), "{text}");
        let registered = records(&world.path("second/privacy.sqlite")).iter().any(|body| body.contains("registered"));
        assert!(!registered, "{data} has a second budget");
    }
}

#[test]
fn without_a_home_a_ledger_is_refused_until_its_anchor_has_a_place() {
    let world = world();
    let private = "[privacy]\ndata_set = \"cohort\"\n";
    for words in [["init"], ["status"]] {
        let (code, text) = privacy(&world, &words, "cohort.csv", private, false);
        assert_eq!(code, 77, "{text}");
        assert!(
            text.contains("neither XDG_STATE_HOME nor HOME is set") && text.contains("state one (`privacy.anchor`)"),
            "{text}"
        );
        assert!(!world.path("state/privacy.sqlite").exists() && !world.path("state/privacy.anchor").exists());
    }
    let stated = format!("{private}anchor = \"anchors/north\"\n");
    let (code, text) = privacy(&world, &["init"], "cohort.csv", &stated, false);
    assert_eq!(code, 0, "{text}");
    assert!(world.path("anchors/north").exists());
    // What was spent is missed when the folder is deleted.
    fs::remove_dir_all(world.path("state")).unwrap();
    let (code, text) = privacy(&world, &["init"], "cohort.csv", &stated, false);
    assert!(code == 77 && text.contains("is gone, but its anchor says"), "{code} {text}");
}
