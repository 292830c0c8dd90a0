//! Tables as people have them: identifiers without a flag, dates, odd separators, marks of missing values, compressed files, and new
//! rows that are incomplete.

// Test code may unwrap: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod world;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;
use world::{DEMO, STUDY, World, assert_codes, demo};

/// Rows of a table with an identifier, a region, a day, a number of the row, and numbers that explain the outcome.
fn table(rows: usize, header: &str) -> String {
    let mut text = format!("{header}\n");
    let mut state = 1u64;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / f64::from(1u32 << 31)
    };
    for row in 0..rows {
        let t = row as f64;
        let (a, b) = ((0.7 * t).cos(), (1.3 * t).sin());
        let region = ["north", "south", "east"][row * 7 % 3];
        let day = format!("2024-{:02}-{:02}", 1 + row % 12, 1 + row % 28);
        let y = 1.0 + 2.0 * a - b + 0.3 * (uniform() + uniform() - 1.0) + if region == "east" { 0.5 } else { 0.0 };
        text.push_str(&format!("P{row:04},{a},{b},{region},{day},{},{y}\n", row + 1));
    }
    text
}

const HEADER: &str = "patient_id,a,b,region,day,nr,cost";

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let path = self.0.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    fn out(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// Exit code and standard error.
    fn vertical(&self, data: &str, more: &[&str]) -> (i32, String) {
        let out = self.out("out");
        let arguments = [&["vertical", "--data", data, "--outcome", "cost", "--out", &out], more].concat();
        let output = demo(&arguments);
        (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    fn estimates(&self, place: &str) -> Vec<(String, f64)> {
        let report: Value = serde_json::from_slice(&fs::read(self.0.path().join(place)).unwrap()).unwrap();
        let rows = report["coefficients"].as_array().unwrap();
        rows.iter().map(|row| (row["term"].as_str().unwrap().to_string(), row["estimate"].as_f64().unwrap())).collect()
    }
}

#[test]
fn an_identifier_among_the_columns_is_named_with_its_flag_before_anything_is_built() {
    let folder = Folder::new();
    let begun = Instant::now();
    let data = folder.write("pooled.csv", table(3000, HEADER).replace("2024-", "x"));
    let (code, said) = folder.vertical(&data, &[]);
    assert_eq!(code, 65, "{said}");
    assert!(
        said.contains(
            "column `patient_id` has another text in each of 3000 rows; is it an identifier? give --id patient_id, or leave it out of \
             --alice and --bob"
        ),
        "{said}"
    );
    assert!(!folder.0.path().join("out/alice").exists(), "no process was started");
    // Building the matrix takes a minute and a half; this is a limit against that, not a measurement.
    assert!(begun.elapsed().as_secs() < 20);
    let many = folder.write("many.csv", table(10_100, HEADER));
    let (code, said) = folder.vertical(&many, &["--alice", "a", "--bob", "patient_id"]);
    assert_eq!(code, 65, "{said}");
    assert!(
        said.contains("column `patient_id` has more than 10000 different texts")
            && said.contains("give --id patient_id"),
        "{said}"
    );
}

#[test]
fn numbers_of_rows_and_many_levels_get_a_word_and_the_fit_goes_on() {
    let folder = Folder::new();
    let text = table(400, HEADER);
    let mut wards = String::new();
    for (row, line) in text.lines().enumerate() {
        wards.push_str(line);
        wards.push_str(&if row == 0 { ",ward\n".to_string() } else { format!(",w{}\n", row * 13 % 60) });
    }
    let data = folder.write("wards.csv", wards);
    let (code, said) = folder.vertical(&data, &["--id", "patient_id", "--alice", "a,nr", "--bob", "b,ward"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("column `nr` has each number from 1 to 400 once, as numbers of rows have"), "{said}");
    assert!(said.contains("column `ward` has 60 levels in 400 rows"), "{said}");
    let log = fs::read_to_string(folder.0.path().join("out/alice/log.txt")).unwrap();
    assert!(log.contains("column `nr` has each number"), "a party hears of its own columns: {log}");
    assert!(!log.contains("`ward`"));
}

#[test]
fn more_coefficients_than_rows_are_counted_before_a_process_is_started() {
    let folder = Folder::new();
    let mut text = String::from("u,v,cost\n");
    for row in 0..40 {
        text.push_str(&format!("u{},v{},{}\n", row % 25, row * 7 % 25, row % 9));
    }
    let data = folder.write("few.csv", text);
    let (code, said) = folder.vertical(&data, &[]);
    assert_eq!(code, 65, "{said}");
    assert!(said.contains("40 rows cannot determine 49 coefficients, of which column `u` makes 24"), "{said}");
    assert!(!folder.0.path().join("out/alice").exists());
    let (code, said) = folder.vertical(&data, &["--lambda", "0.5"]);
    assert_eq!(code, 0, "a penalty determines them: {said}");
}

#[test]
fn a_day_is_an_id_and_no_term() {
    let folder = Folder::new();
    let data = folder.write("days.csv", table(200, HEADER));
    let (code, said) = folder.vertical(&data, &["--id", "patient_id"]);
    assert_eq!(code, 65, "{said}");
    assert!(said.contains("column `day`, line 2: `2024-01-01` is a date, which can be an id and no number"), "{said}");
    assert!(said.contains("derive a number from `day` beforehand, such as an age in years"), "{said}");
    let once: String = table(12, HEADER);
    let data = folder.write("once.csv", once);
    let (code, said) = folder.vertical(&data, &["--id", "day", "--alice", "a", "--bob", "b"]);
    assert_eq!(code, 0, "{said}");
}

#[test]
fn formula_syntax_in_a_list_is_answered_with_what_to_write_and_an_odd_header_goes_on_working() {
    let folder = Folder::new();
    let data = folder.write("a.csv", table(100, HEADER));
    let common = ["--id", "patient_id", "--bob", "b"];
    for (alice, part) in [
        ("log(a)", "`log(a)` is formula syntax: the function `log` has its place in `formula` in the study"),
        ("sin(a)", "`sin(a)` is formula syntax: the function `sin` is not understood"),
        ("~ log(c)", "there is no column `c`"),
        ("poly(a,2)", "`poly(a,2)` is formula syntax"),
        ("factor(region)", "the function `factor` has its place in `formula` in the study"),
        ("a:region", "interactions are terms of `formula` in the study"),
        ("a,-1", "`model.intercept = false` in the study"),
    ] {
        let (code, said) = folder.vertical(&data, &[&common[..], &["--alice", alice]].concat());
        assert_eq!(code, 65, "{said}");
        assert!(said.contains("there is no column `") && said.contains(part), "{alice}: {said}");
        assert!(!folder.0.path().join("out/alice").exists());
    }
    let (code, said) = folder.vertical(&data, &[&common[..], &["--alice", "~ exp(a) + poly(nr, 2) * region"]].concat());
    assert_eq!(code, 0, "{said}");
    let terms: Vec<String> = folder.estimates("out/report.json").into_iter().map(|(term, _)| term).collect();
    let expected = "(Intercept) exp(a) poly(nr, 2)1 poly(nr, 2)2 regionnorth regionsouth poly(nr, 2)1:regionnorth \
                    poly(nr, 2)2:regionnorth poly(nr, 2)1:regionsouth poly(nr, 2)2:regionsouth b";
    assert_eq!(terms.join(" "), expected);
    let odd = folder.write("odd.csv", table(100, "patient_id,log(a),\"poly(b,2)\",a:b,day,nr,cost"));
    let (code, said) =
        folder.vertical(&odd, &["--id", "patient_id", "--alice", "log(a),a:b", "--bob", "\"poly(b,2)\""]);
    assert_eq!(code, 0, "{said}");
    let terms: Vec<String> = folder.estimates("out/report.json").into_iter().map(|(term, _)| term).collect();
    assert_eq!(terms, ["(Intercept)", "log(a)", "a:bnorth", "a:bsouth", "poly(b,2)"]);
}

#[test]
fn a_formula_in_the_study_names_what_it_does_not_know() {
    let world = World::new();
    for (formula, part) in [
        ("~ sin(a)", "the function `sin` is not understood, make a column of its values beforehand"),
        ("~ a + offset(w) + offset(v)", "a model has one offset, so make a column of their sum"),
    ] {
        world.write("study.toml", &STUDY.replace("columns = [\"a\"]", &format!("formula = \"{formula}\"")));
        let output = Command::new(DEMO)
            .args([
                "--role",
                "alice",
                "check",
                "--study",
                "study.toml",
                "--coordinator",
                "localhost:1",
                "--listen",
                "localhost:0",
            ])
            .args([
                "--data",
                "alice.csv",
                "--authority",
                "authority.pem",
                "--certificate",
                "alice.pem",
                "--key",
                "alice.key",
            ])
            .current_dir(world.folder.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(part), "{said}");
    }
}

/// Cells of a table with other separators, decimals and marks.
fn rewritten(text: &str) -> String {
    let mut lines = text.lines();
    let mut out = format!("{}\n", lines.next().unwrap().replace(',', ";"));
    for (row, line) in lines.enumerate() {
        let mut cells: Vec<String> = line.split(',').map(|cell| cell.replace('.', ",")).collect();
        match row {
            3 => cells[1] = ".".to_string(),
            5 => cells[2] = "NaN".to_string(),
            8 => cells[3] = "NULL".to_string(),
            _ => {}
        }
        out.push_str(&format!("{}\n", cells.join(";")));
    }
    out
}

fn with_gaps(text: &str) -> String {
    let mut out = String::new();
    for (row, line) in text.lines().enumerate() {
        let mut cells: Vec<&str> = line.split(',').collect();
        match row {
            4 => cells[1] = "",
            6 => cells[2] = "NA",
            9 => cells[3] = "",
            _ => {}
        }
        out.push_str(&format!("{}\n", cells.join(",")));
    }
    out
}

#[test]
fn a_formula_with_a_column_of_another_party_is_refused_with_the_reason_and_its_place() {
    let folder = Folder::new();
    let data = folder.write("table.csv", table(120, HEADER));
    let vertical = |more: &[&str]| folder.vertical(&data, &[&["--id", "patient_id"], more].concat());
    let reason = "What is computed from both needs bob's value of every row at alice, and no mode lets it leave";
    for (lists, says, caret) in [
        (
            &["--alice", "~ a:b", "--bob", "b"][..],
            "--alice: formula, character 5: `a:b` has columns of two parties: `a` of alice and `b` of bob",
            "  ~ a:b\n      ^",
        ),
        (
            &["--parties", "alice=~ a * log(b + 3);bob=b;carol=region"],
            "--parties, alice: formula, character 7: `a:log(b + 3)` has columns of two parties",
            "  ~ a * log(b + 3)\n        ^",
        ),
    ] {
        let (code, said) = vertical(lists);
        assert!(code == 2 && said.contains(says) && said.contains(reason) && said.contains(caret), "{code} {said}");
    }
    // In a study each party has a table, and another one's column is none of its columns.
    let world = World::new();
    world.write("study.toml", &STUDY.replace("columns = [\"a\"]", "formula = \"~ a * b\""));
    let output = world.asked("alice", "--connect", &["check"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(65), "{said}");
    let says =
        "the formula of alice: formula, character 7: `a:b` has columns of two parties: `a` of alice and `b` of bob";
    assert!(said.contains(says) && said.contains(reason) && said.contains("  ~ a * b\n        ^"), "{said}");
    // Where both tables have it, it is each one's own.
    let both = fs::read_to_string(world.path("alice.csv")).unwrap();
    let both: String =
        both.lines().map(|line| format!("{line},{}\n", if line.contains('y') { "b" } else { "1.5" })).collect();
    world.write("alice.csv", &both);
    world.write("study.toml", &STUDY.replace("columns = [\"a\"]", "formula = \"~ a:b\""));
    let output = world.asked("alice", "--connect", &["check"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_dot_of_a_rehearsal_is_every_column_that_is_neither_taken_nor_of_another_party() {
    let folder = Folder::new();
    let data = folder.write("table.csv", table(120, "patient_id,a,b,region,day,w,cost"));
    let more = ["--id", "patient_id", "--weights", "w"];
    let (code, said) = folder.vertical(&data, &[&more[..], &["--alice", "~ .", "--bob", "b,day"]].concat());
    assert!(code == 65 && said.contains("`day`"), "{said}");
    let data = folder.write("table.csv", table(120, "patient_id,a,b,region,day,w,cost").replace("2024-", "x"));
    let lists = ["--alice", "~ log(a + 2) + .", "--bob", "~ b + factor(day)", "--lambda", "0.1"];
    let (code, said) = folder.vertical(&data, &[&more[..], &lists].concat());
    assert_eq!(code, 0, "{said}");
    let study = fs::read_to_string(folder.0.path().join("out/study.toml")).unwrap();
    assert!(study.contains("formula = \"~ log(a + 2) + a + region\""), "{study}");
    // What is unknown is shown with its place.
    let (code, said) = folder.vertical(&data, &[&more[..], &["--alice", "~ a + log(bb)", "--bob", "b"]].concat());
    let says = "--alice: formula, character 7: there is no column `bb`";
    assert!(code == 65 && said.contains(says) && said.contains("\n  ~ a + log(bb)\n        ^"), "{code} {said}");
}

#[test]
fn declared_marks_and_decimals_and_compressed_files_give_the_fit_of_the_plain_table() {
    let folder = Folder::new();
    let text = table(120, HEADER);
    let plain = folder.write("plain.csv", with_gaps(&text));
    let columns = ["--id", "patient_id", "--alice", "a", "--bob", "b,region", "--missing", "complete-cases"];
    assert_eq!(folder.vertical(&plain, &columns).0, 0);
    let expected = folder.estimates("out/report.json");
    assert_eq!(expected.len(), 5);
    let german = folder.write("german.csv", rewritten(&text));
    let declared = ["--na-values", "NaN,NULL,.", "--decimal", ","];
    let (code, said) = folder.vertical(&german, &[&columns[..], &declared].concat());
    assert_eq!(code, 0, "{said}");
    assert_eq!(folder.estimates("out/report.json"), expected);
    assert!(fs::read_to_string(folder.0.path().join("out/alice.toml")).unwrap().contains("na_values"));
    let (code, said) = folder.vertical(&german, &[&columns[..], &["--na-values", "NaN,NULL,."]].concat());
    assert_eq!(code, 65);
    assert!(said.contains("decimal = \",\""), "the remedy is named: {said}");
    let (code, said) = folder.vertical(&german, &[&columns[..], &["--decimal", ","]].concat());
    assert_eq!(code, 65);
    assert!(said.contains("na_values = [\""), "the remedy is named: {said}");
    let packed = Command::new("gzip").args(["-k", &plain]).status();
    if packed.is_ok_and(|status| status.success()) {
        let (code, said) = folder.vertical(&format!("{plain}.gz"), &columns);
        assert_eq!(code, 0, "{said}");
        assert_eq!(folder.estimates("out/report.json"), expected);
    }
    let out = folder.out("sites");
    let rows = [
        "robust",
        "--data",
        &german,
        "--outcome",
        "cost",
        "--features",
        "a,b,region",
        "--batch-rows",
        "40",
        "--out",
        &out,
    ];
    let output = demo(&[&rows[..], &declared, &["--missing", "complete-cases"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_separator_of_the_configured_file_does_not_apply_to_a_file_of_a_flag() {
    let world = World::new();
    let bob = fs::read_to_string(world.path("bob.csv")).unwrap();
    world.write("bob-own.csv", &bob.replace(',', ";"));
    world.write("bob.toml", "[data]\nfile = \"bob-own.csv\"\nseparator = \";\"\n");
    assert_codes(&world.run(&[], &[]), 0);
    // As the walk-through suggests: a file of the other hospital is refused for its columns, and not for its separator.
    fs::remove_file(world.path("coordinator.address")).unwrap();
    fs::remove_file(world.path("alice.address")).unwrap();
    let ended = world.run(&[], &["--data", "alice.csv"]);
    assert_codes(&ended, 65);
    assert!(ended[2].log.contains("there is no column `b`"), "{}", ended[2].log);
    assert!(!ended[2].log.contains("id,a,y"), "{}", ended[2].log);
}

#[test]
fn a_new_row_that_either_party_cannot_use_has_no_score_and_is_counted() {
    let world = World::new();
    let alice = fs::read_to_string(world.path("alice.csv")).unwrap();
    let mut text = String::new();
    for (row, line) in alice.lines().enumerate() {
        text.push_str(line);
        text.push_str(match row {
            0 => ",g\n",
            row if row % 3 == 0 => ",lo\n",
            _ => ",hi\n",
        });
    }
    world.write("alice.csv", &text);
    world.write("study.toml", &STUDY.replace("[\"a\"]", "[\"a\", \"g\"]"));
    assert_codes(&world.run(&["--out", "out/alice"], &["--out", "out/bob"]), 0);
    world.write("alice_new.csv", "id,a,g\nq1,0.25,lo\nq2,,hi\nq3,0.5,middle\nq4,1,hi\nq5,2,lo\n");
    world.write("bob_new.csv", "id,b\nq5,2\nq4,NA\nq1,1.5\nq2,1\nq3,1\n");
    fs::remove_file(world.path("coordinator.address")).unwrap();
    fs::remove_file(world.path("alice.address")).unwrap();
    let (coordinator, address) = world.coordinator();
    let predict = ["predict", "--coordinator", &address];
    let listens = ["--listen", "127.0.0.1:0", "--announce", "alice.address", "--data", "alice_new.csv"];
    let alice = world
        .start("alice", &[&predict[..], &listens, &["--model", "out/alice/model.json", "--scale", "link"]].concat());
    let listening = world.address("alice.address");
    let bob = world.start(
        "bob",
        &[&predict[..], &["--connect", &listening, "--data", "bob_new.csv", "--model", "out/bob/model.json"]].concat(),
    );
    let ended = [coordinator.end(), alice.end(), bob.end()];
    assert_codes(&ended, 0);
    let report: Value = serde_json::from_slice(&fs::read(world.path("out/alice/report.json")).unwrap()).unwrap();
    let estimate = |term: &str| {
        let rows = report["coefficients"].as_array().unwrap();
        rows.iter().find(|row| row["term"] == term).unwrap()["estimate"].as_f64().unwrap()
    };
    let scores: Vec<&str> = ended[1].out.lines().skip(1).map(|line| line.split_once(',').unwrap().1).collect();
    assert_eq!(scores[1..4], ["NA"; 3], "{}", ended[1].out);
    for (at, a, g, b) in [(0, 0.25, 1.0, 1.5), (4, 2.0, 1.0, 2.0)] {
        let expected = estimate("(Intercept)") + estimate("a") * a + estimate("glo") * g + estimate("b") * b;
        let score: f64 = scores[at].parse().unwrap();
        assert!((score - expected).abs() < 1e-12, "{score} {expected}");
    }
    let log = &ended[1].log;
    assert!(log.contains("3 of 5 rows have no score (NA)"), "{log}");
    assert!(log.contains("column `a` has in 1 of 5 rows") && log.contains("column `g` has in 1 of 5 rows"), "{log}");
    assert!(
        ended[2].log.contains("column `b` has in 1 of 5 rows") && !ended[2].log.contains("3 of 5"),
        "{}",
        ended[2].log
    );
}

/// A command of a worker: exit code, standard output, standard error.
fn worker_predict(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(DEMO)
        .args(["--role", "worker", "predict"])
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn the_coefficients_of_a_robust_run_predict_new_rows() {
    let folder = Folder::new();
    let data = folder.write("rows.csv", table(300, HEADER));
    let out = folder.out("out");
    let fit = |features: &str| {
        let rows = [
            "robust",
            "--data",
            &data,
            "--outcome",
            "cost",
            "--features",
            features,
            "--batch-rows",
            "50",
            "--out",
            &out,
        ];
        let output = demo(&rows);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        folder.estimates("out/report.json")
    };
    let estimates = fit("a,b,region");
    let of = |term: &str| estimates.iter().find(|(name, _)| name == term).unwrap().1;
    folder.write("new.csv", "region;b;a\nsouth;1;0.5\neast;-1;0.25\n;1;1\nwest;1;1\nnorth;.;1\nnorth;2;-1\n");
    let predict = ["--report", "out/report.json", "--data", "new.csv", "--study", "out/study.toml", "--na-values", "."];
    let (code, text, said) = worker_predict(folder.0.path(), &predict);
    assert_eq!(code, 0, "{said}");
    let found: Vec<&str> = text.lines().collect();
    assert_eq!((found[0], &found[3..6]), ("prediction", &["NA"; 3][..]));
    assert!(said.contains("3 of 6 rows have no prediction (NA)"), "{said}");
    let linear = |a: f64, b: f64, region: f64| of("(Intercept)") + of("a") * a + of("b") * b + region;
    for (at, expected) in [
        (1, linear(0.5, 1.0, of("regionsouth"))),
        (2, linear(0.25, -1.0, 0.0)),
        (6, linear(-1.0, 2.0, of("regionnorth"))),
    ] {
        let value: f64 = found[at].parse().unwrap();
        assert!((value - expected).abs() < 1e-12, "{value} {expected}");
    }
    // A level is no column: without the study nobody knows what is the reference.
    let (code, _, said) = worker_predict(folder.0.path(), &["--report", "out/report.json", "--data", "new.csv"]);
    assert_eq!(code, 65);
    assert!(said.contains("is no column of the table") && said.contains("give --study"), "{said}");
    folder.write(
        "other.toml",
        fs::read_to_string(folder.0.path().join("out/study.toml")).unwrap().replace("\"demo\"", "\"other\""),
    );
    let other = ["--report", "out/report.json", "--data", "new.csv", "--study", "other.toml"];
    assert_eq!(worker_predict(folder.0.path(), &other).0, 77);
    let estimates = fit("a,b");
    let of = |term: &str| estimates.iter().find(|(name, _)| name == term).unwrap().1;
    let numeric = ["--report", "out/report.json", "--data", "rows.csv"];
    let (code, text, said) = worker_predict(folder.0.path(), &numeric);
    assert_eq!((code, text.lines().count()), (0, 301), "{said}");
    let first: f64 = text.lines().nth(1).unwrap().parse().unwrap();
    assert!((first - (of("(Intercept)") + of("a"))).abs() < 1e-12, "a is 1 and b is 0 in the first row");
}

#[test]
fn the_coefficients_of_regression_with_missing_covariates_predict_and_those_of_a_mixture_do_not() {
    let folder = Folder::new();
    for (model, name) in [("rmc", "rmc"), ("mrm", "mrm"), ("gmm", "gmm")] {
        let out = folder.out(name);
        let output = demo(&["em", "--model", model, "--out", &out]);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let estimates = folder.estimates("rmc/report.json");
    let header: Vec<&str> = estimates.iter().map(|(name, _)| name.as_str()).collect();
    let ones = vec!["1"; header.len()].join(",");
    let gap = format!("{},", vec!["1"; header.len() - 1].join(","));
    folder.write("new.csv", format!("{}\n{ones}\n{gap}\n", header.join(",")));
    let predict = |name: &str| {
        let (report, study) = (format!("{name}/report.json"), format!("{name}/study.toml"));
        worker_predict(folder.0.path(), &["--report", &report, "--data", "new.csv", "--study", &study])
    };
    let (code, text, said) = predict("rmc");
    assert_eq!(code, 0, "{said}");
    let found: Vec<&str> = text.lines().collect();
    let sum: f64 = estimates.iter().map(|(_, estimate)| estimate).sum();
    assert!((found[1].parse::<f64>().unwrap() - sum).abs() < 1e-12 && found[2] == "NA", "{text}");
    let (code, _, said) = predict("mrm");
    assert!(code == 65 && said.contains("two regressions of opposite sign"), "{said}");
    let (code, _, said) = predict("gmm");
    assert!(code == 65 && said.contains("there is no outcome to predict"), "{said}");
    let (code, _, said) = worker_predict(folder.0.path(), &["--report", "rmc/report.json", "--data", "new.csv"]);
    assert!(code == 65 && said.contains("give --study"), "{said}");
}

#[test]
fn a_table_of_a_data_base_gives_the_fit_of_the_same_rows_in_csv() {
    let folder = Folder::new();
    let text = table(300, HEADER);
    let csv = folder.write("pooled.csv", &text);
    let base = rusqlite::Connection::open(folder.0.path().join("cohort.db")).unwrap();
    base.execute_batch(
        "CREATE TABLE visits (patient_id TEXT, a REAL, b REAL, region TEXT, day TEXT, nr INTEGER, cost REAL)",
    )
    .unwrap();
    for line in text.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        base.execute("INSERT INTO visits VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)", rusqlite::params_from_iter(cells))
            .unwrap();
    }
    let more = ["--id", "patient_id", "--alice", "a", "--bob", "b,region"];
    let (code, said) = folder.vertical(&csv, &more);
    assert_eq!(code, 0, "{said}");
    let expected = folder.estimates("out/report.json");
    let place = format!("sqlite:{}", folder.out("cohort.db"));
    for chosen in [["--table", "visits"], ["--query", "SELECT * FROM visits WHERE nr > 0 ORDER BY nr"]] {
        let (code, said) = folder.vertical(&place, &[&more[..], &chosen].concat());
        assert_eq!(code, 0, "{said}");
        assert_eq!(folder.estimates("out/report.json"), expected, "{chosen:?}");
        // Values that stand in a query are in no file that is left behind but the party's own configuration.
        let report = fs::read_to_string(folder.0.path().join("out/report.json")).unwrap();
        assert!(!report.contains("WHERE"), "{report}");
    }
    // The same from a server, where there is one: .ci/sources.
    if let Some(place) = std::env::var("FEDREG_POSTGRES").ok().filter(|_| cfg!(feature = "postgres")) {
        let load = [
            "DROP TABLE IF EXISTS pooled",
            "CREATE TABLE pooled (patient_id text, a float8, b numeric, region varchar, day date, nr int2, cost float8)",
            "\\copy pooled FROM 'pooled.csv' CSV HEADER",
        ];
        let commands = load.iter().flat_map(|command| ["-c", command]);
        let mut psql = Command::new("psql");
        psql.args(["-qX", "-v", "ON_ERROR_STOP=1", &place]).args(commands).current_dir(folder.0.path());
        assert!(psql.status().unwrap().success());
        for chosen in [["--table", "pooled"], ["--query", "SELECT * FROM pooled WHERE nr > 0"]] {
            let (code, said) = folder.vertical(&place, &[&more[..], &chosen].concat());
            assert_eq!(code, 0, "{said}");
            assert_eq!(folder.estimates("out/report.json"), expected, "{chosen:?}");
        }
    }
    for (place, chosen, expected, part) in [
        (&*place, &["--table", "visit"][..], 65, "no such table: visit"),
        (&*place, &[], 2, "`data.table` or `data.query` (--table, --query)"),
        (&*place, &["--query", "DELETE FROM visits RETURNING *"], 2, "does something else than reading tables"),
        (&*csv, &["--table", "visits"], 2, "this is no data base"),
        (&*folder.out("cohort.db"), &[], 2, "this is an SQLite file: state it as sqlite:"),
        ("postgres://ana:secret@db.example/cohort", &["--table", "visits"], 2, "an address must hold no password"),
        ("s3://key:secret@bucket/cohort.csv", &[], 2, "an address must hold no password"),
        ("host=db.example user=ana password=secret dbname=x", &[], 2, "an address must hold no password"),
        ("postgres:ana:secret@db.example/cohort", &[], 2, "an address must hold no password"),
        (&*folder.out("part-*.parquet"), &[], 65, "no file has such a path"),
    ] {
        let (code, said) = folder.vertical(place, &[&more[..], chosen].concat());
        assert_eq!(code, expected, "{place}: {said}");
        assert!(said.contains(part) && !said.contains("secret"), "{place}: {said}");
    }
}
