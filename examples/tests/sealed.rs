//! Sealed fits by real processes over mutual TLS, and what sealed mode refuses.

// Test code may unwrap: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod world;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use world::{DEMO, STUDY, World, demo};

fn report(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path.join("report.json")).unwrap()).unwrap()
}

/// A rehearsal: its exit code, what it printed and what it said.
fn rehearse(out: &Path, more: &[&str]) -> (i32, String, String) {
    let output = demo(&[&["vertical", "--out", out.to_str().unwrap()], more].concat());
    let [printed, said] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    (output.status.code().unwrap(), printed, said)
}

fn assert_close(ours: &Value, theirs: &Value, what: &str) {
    let (ours, theirs) = (ours.as_f64().unwrap(), theirs.as_f64().unwrap());
    assert!((ours - theirs).abs() <= 1e-8 * theirs.abs().max(1e-3), "{what}: {ours} {theirs}");
}

#[test]
fn a_sealed_rehearsal_gives_the_plain_fit_and_says_what_opened() {
    let folder = tempfile::tempdir().unwrap();
    let [plain, sealed] = ["plain", "sealed"].map(|name| folder.path().join(name));
    let (code, printed, said) = rehearse(&plain, &[]);
    assert_eq!(code, 0, "{said}");
    // Ten columns, five at each party.
    let words = printed.split_whitespace().collect::<Vec<_>>().join(" ");
    let opened = "one table of 6 x 5 cross-products, 30 numbers beside 2210 unknown values, opens to alice";
    assert!(words.contains(opened), "{printed}");
    let (code, printed, said) = rehearse(&sealed, &["--mode", "sealed"]);
    assert_eq!(code, 0, "{said}\n{printed}");
    assert!(printed.contains("Privacy:   sealed: no value of a row left in a readable form"), "{printed}");
    assert!(!printed.contains("reconstruct"), "{printed}");
    let (plain, merged) = (report(&plain), report(&sealed));
    assert_eq!(merged["mode"], "sealed");
    assert_eq!(merged["converged"], true);
    assert_eq!(merged["termination"], "converged");
    let rows = |report: &Value| report["coefficients"].as_array().unwrap().clone();
    assert_eq!(rows(&merged).len(), 11);
    for (ours, theirs) in rows(&merged).iter().zip(&rows(&plain)) {
        assert_eq!(ours["term"], theirs["term"]);
        for key in ["estimate", "std_error", "statistic"] {
            assert_close(&ours[key], &theirs[key], &format!("{key} of {}", ours["term"]));
        }
    }
    for key in ["deviance", "null_deviance", "aic", "bic", "log_lik", "dispersion", "r_squared"] {
        assert_close(&merged[key], &plain[key], key);
    }
    let table = json!({
        "what": "cross-products of both blocks", "rows": 6, "columns": 5, "numbers": 30, "unknowns": 2210, "to": "alice"
    });
    assert_eq!(merged["disclosure"]["bob"]["opened"][0], table);
    assert_eq!(merged["disclosure"]["alice"]["opened"][0]["to"], "bob");
    assert!(merged["notes"].as_array().unwrap().iter().all(|note| !note.as_str().unwrap().contains("loosened")));
    for role in ["alice", "bob"] {
        let own = report(&sealed.join(role));
        assert_eq!(own["disclosure"], merged["disclosure"][role]);
        assert_eq!((&own["converged"], &own["rounds"]), (&json!(true), &json!(1)));
        assert!(sealed.join(role).join("model.json").is_file());
    }
    // What a check foretells is what the run sent.
    for role in ["alice", "bob"] {
        let config = sealed.join(format!("{role}.toml"));
        let output = demo(&["--role", role, "check", "--config", config.to_str().unwrap(), "--format", "json"]);
        let checked: Value = serde_json::from_slice(&output.stdout).unwrap();
        let (predicted, sent) =
            (checked["predicted_bytes"].as_f64().unwrap(), merged["bytes_sent"][role].as_f64().unwrap());
        assert!((predicted / sent - 1.0).abs() < 0.01, "{role}: {predicted} {sent}");
        assert_eq!(checked["opened"], merged["disclosure"][role]["opened"]);
    }
    for role in [".", "alice", "bob"] {
        for name in ["report.txt", "report.html", "report.csv"] {
            let text = fs::read_to_string(sealed.join(role).join(name)).unwrap();
            assert!(text.len() > 100 && !text.contains("reconstruct"), "{role}/{name}: {text}");
        }
    }
}

/// A table of two parties with an outcome that both know, of 0 and 1 or of counts.
fn written(path: &Path, rows: u32, counts: bool) {
    let mut text = String::from("id,a,b,c,d,y\n");
    let mut state = 1_u64;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    for row in 0..rows {
        let [a, c, d] = [(); 3].map(|()| 2.0 * uniform() - 1.0);
        let b = 0.5 * a + uniform();
        let eta = 0.3 + 0.8 * a - 0.5 * b + 0.9 * c + 0.2 * d;
        let y = match counts {
            true => (eta.exp() + 2.0 * uniform()).floor(),
            false => f64::from(u8::from(uniform() < 1.0 / (1.0 + (-eta).exp()))),
        };
        text.push_str(&format!("{row},{a},{b},{c},{d},{y}\n"));
    }
    fs::write(path, text).unwrap();
}

#[test]
fn sealed_binomial_and_poisson_rehearsals_give_the_plain_fits_and_list_every_gradient() {
    let folder = tempfile::tempdir().unwrap();
    for family in ["binomial", "poisson"] {
        let data = folder.path().join(format!("{family}.csv"));
        written(&data, 3000, family == "poisson");
        let own = ["--data", data.to_str().unwrap(), "--outcome", "y", "--id", "id", "--family", family];
        let [plain, sealed] = ["plain", "sealed"].map(|mode| folder.path().join(format!("{family}-{mode}")));
        let (code, printed, said) = rehearse(&plain, &own);
        assert_eq!(code, 0, "{said}");
        assert!(printed.contains("a gradient of 5 numbers several times"), "{printed}");
        let (code, printed, said) = rehearse(&sealed, &[&own[..], &["--mode", "sealed"]].concat());
        assert_eq!(code, 0, "{said}\n{printed}");
        let (plain, merged) = (report(&plain), report(&sealed));
        let rows = |report: &Value| report["coefficients"].as_array().unwrap().clone();
        assert_eq!(rows(&merged).len(), 5);
        for (ours, theirs) in rows(&merged).iter().zip(&rows(&plain)) {
            assert_eq!(ours["term"], theirs["term"]);
            for (key, digits) in [("estimate", 1e-6), ("std_error", 1e-6)] {
                let (ours, theirs) = (ours[key].as_f64().unwrap(), theirs[key].as_f64().unwrap());
                assert!((ours - theirs).abs() <= digits * theirs.abs().max(1e-3), "{key}: {ours} {theirs}");
            }
        }
        for key in ["deviance", "null_deviance", "aic", "bic", "log_lik"] {
            assert_close(&merged[key], &plain[key], key);
        }
        let rounds = merged["rounds"].as_u64().unwrap();
        assert!((3..=9).contains(&rounds), "{rounds}");
        assert!(printed.contains(&format!("({rounds} gradients, certificate")), "{printed}");
        let opened = merged["disclosure"]["bob"]["opened"].as_array().unwrap();
        let gradients = opened.iter().find(|table| table["what"] == "gradients").unwrap();
        assert_eq!((&gradients["rows"], &gradients["numbers"]), (&json!(rounds), &json!(5 * rounds)));
        // What a check foretells holds: so many gradients could have opened, and these are their sizes.
        let config = sealed.join("bob.toml");
        let output = demo(&["--role", "bob", "check", "--config", config.to_str().unwrap(), "--format", "json"]);
        let checked: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(checked["opened"][0], opened[0]);
        assert_eq!(checked["opened"][1]["numbers"], 6);
        assert_eq!(checked["round_limit"], 60);
        let policy = checked["policy"].to_string();
        assert!(policy.contains("at most 60 gradients may open"), "{policy}");
    }
}

#[test]
fn a_plain_rehearsal_with_a_penalty_foretells_what_a_sealed_one_opens() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("table.csv");
    written(&data, 3000, false);
    for (name, more) in [("one", &["--lambda", "0.1"][..]), ("folds", &["--lambda", "0.1,0.01", "--cv", "3"])] {
        let own = [&["--data", data.to_str().unwrap(), "--outcome", "y", "--id", "id"], more].concat();
        let [plain, sealed] = ["plain", "sealed"].map(|mode| folder.path().join(format!("{name}-{mode}")));
        let (code, printed, said) = rehearse(&plain, &own);
        assert_eq!(code, 0, "{said}");
        let (code, _, said) = rehearse(&sealed, &[&own[..], &["--mode", "sealed"]].concat());
        assert_eq!(code, 0, "{said}");
        let merged = report(&sealed);
        let of = |role: &str| -> u64 {
            let opened = merged["disclosure"][role]["opened"].as_array().unwrap();
            opened.iter().map(|table| table["numbers"].as_u64().unwrap()).sum()
        };
        let words = printed.split_whitespace().collect::<Vec<_>>().join(" ");
        let to_alice = format!("{} numbers beside 6000 unknown values open to alice", of("bob"));
        let to_bob = format!("and {} to bob", of("alice"));
        assert!(words.contains(&to_alice) && words.contains(&to_bob), "{to_alice} {to_bob}\n{printed}");
        assert_eq!(words.contains("(recommended)"), name == "one", "{printed}");
    }
}

#[test]
fn tables_of_folds_open_to_both_as_check_foretells_and_change_no_digit() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("table.csv");
    written(&data, 3000, false);
    let own = [
        "--data",
        data.to_str().unwrap(),
        "--outcome",
        "y",
        "--id",
        "id",
        "--mode",
        "sealed",
        "--lambda",
        "0.1,0.01",
        "--cv",
        "3",
        "--refit",
    ];
    let [leader, all] = ["leader", "all"].map(|opens| {
        let out = folder.path().join(opens);
        let (code, printed, said) = rehearse(&out, &[&own[..], &["--opens", opens]].concat());
        assert_eq!(code, 0, "{said}\n{printed}");
        out
    });
    let merged = report(&all);
    for key in ["coefficients", "cv", "lambda_min", "path"] {
        assert_eq!(merged[key], report(&leader)[key], "{key}");
    }
    for role in ["alice", "bob"] {
        let opened = merged["disclosure"][role]["opened"].to_string();
        assert!(opened.contains("of each fold"), "{role}: {opened}");
        let config = all.join(format!("{role}.toml"));
        let output = demo(&["--role", role, "check", "--config", config.to_str().unwrap(), "--format", "json"]);
        let checked: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(checked["opened"], merged["disclosure"][role]["opened"], "{role}");
        let [predicted, sent] =
            [&checked["predicted_bytes"], &merged["bytes_sent"][role]].map(|bytes| bytes.as_f64().unwrap());
        assert!((predicted / sent - 1.0).abs() < 0.01, "{role}: {predicted} {sent}");
    }
}

#[test]
fn sealed_penalised_rehearsals_of_every_family_give_the_plain_fits_and_say_what_opened_at_every_lambda() {
    let folder = tempfile::tempdir().unwrap();
    for (family, lambda, alpha, gradients) in
        [("binomial", "0.05", "0", 4..=9), ("poisson", "0.05", "1", 4..=9), ("binomial", "path", "0.5", 100..=400)]
    {
        let data = folder.path().join(format!("{family}.csv"));
        written(&data, 3000, family == "poisson");
        let own = ["--data", data.to_str().unwrap(), "--outcome", "y", "--id", "id", "--family", family];
        let own = [&own[..], &["--lambda", lambda, "--alpha", alpha]].concat();
        let [plain, sealed] = ["plain", "sealed"].map(|mode| folder.path().join(format!("{family}-{lambda}-{mode}")));
        let (code, printed, said) = rehearse(&plain, &own);
        assert_eq!(code, 0, "{said}");
        assert!(printed.contains("a gradient of 5 numbers several times, and bob's factor"), "{printed}");
        let (code, printed, said) = rehearse(&sealed, &[&own[..], &["--mode", "sealed"]].concat());
        assert_eq!(code, 0, "{said}\n{printed}");
        let (plain, merged) = (report(&plain), report(&sealed));
        let rows = |report: &Value| report["coefficients"].as_array().unwrap().clone();
        for (ours, theirs) in rows(&merged).iter().zip(&rows(&plain)) {
            assert_eq!((&ours["term"], &ours["std_error"]), (&theirs["term"], &Value::Null));
            let (ours, theirs) = (ours["estimate"].as_f64().unwrap(), theirs["estimate"].as_f64().unwrap());
            assert!((ours - theirs).abs() <= 1e-7 * theirs.abs().max(1e-2), "{ours} {theirs}");
        }
        for key in ["deviance", "null_deviance", "lambda"] {
            assert_close(&merged[key], &plain[key], key);
        }
        let points = |report: &Value| report["path"].as_array().cloned().unwrap_or_default();
        assert_eq!(points(&merged).len(), if lambda == "path" { 100 } else { 0 });
        for (ours, theirs) in points(&merged).iter().zip(&points(&plain)) {
            assert_eq!(ours["df"], theirs["df"]);
            ["lambda", "deviance"].iter().for_each(|key| assert_close(&ours[key], &theirs[key], key));
            assert!(ours["kkt"].as_f64().unwrap() <= 1e-8, "{ours}");
        }
        let rounds = merged["rounds"].as_u64().unwrap();
        assert!(gradients.contains(&rounds), "{rounds}");
        let opened = merged["disclosure"]["bob"]["opened"].as_array().unwrap();
        let of = |what: &str| opened.iter().find(|table| table["what"] == what).map(|table| table["numbers"].clone());
        assert_eq!(of("gradients"), Some(json!(5 * rounds)));
        assert_eq!(of("bob's factor: with the table the correlations of all columns"), Some(json!(2 * 3 / 2 + 2)));
        assert_eq!(of("the sum of the losses").is_some(), family == "binomial");
        assert_eq!(of("weighted cross-products"), None);
        for name in ["report.txt", "report.html"] {
            let text = fs::read_to_string(sealed.join(name)).unwrap();
            // The text wraps its lines.
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(text.contains("penalised estimates have no standard errors"), "{name}: {text}");
            assert!(text.contains("with lambda, deviance and certificate"), "{name}: {text}");
        }
    }
}

#[test]
fn a_sealed_binomial_fit_that_may_open_no_further_gradient_ends_unconverged_and_says_whose_limit_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let (data, out) = (folder.path().join("few.csv"), folder.path().join("out"));
    written(&data, 50, false);
    // 50 rows with two columns each: 100 unknown values, of which 50 may open. Bob's table and end have 6 + 15 + 1 + 3, a gradient with
    // his range 6: four gradients.
    let own =
        ["--data", data.to_str().unwrap(), "--outcome", "y", "--id", "id", "--family", "binomial", "--mode", "sealed"];
    let (code, printed, said) = rehearse(&out, &own);
    assert_eq!(code, 3, "{said}");
    assert!(printed.contains("(4 gradients"), "{printed}");
    let merged = report(&out);
    assert_eq!((&merged["termination"], &merged["rounds"]), (&json!("opening_limit"), &json!(4)));
    let notes = merged["notes"].to_string();
    assert!(
        notes.contains("4 gradients have opened, and the limits of bob on what may open allow no further one"),
        "{notes}"
    );
    // A plain rehearsal foretells it, and no refusal.
    let (_, printed, _) = rehearse(&out, &own[..8]);
    let words = printed.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("--mode sealed may stop before the end") && !words.contains("sealed would have refused"),
        "{words}"
    );
}

#[test]
fn limits_hold_in_a_rehearsal_and_loosening_them_is_said_in_every_report() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("own.csv");
    let mut text = String::from("a,b,y\n");
    for row in 0..60 {
        let t = f64::from(row);
        // A diagnosis that three of sixty have.
        text.push_str(&format!("{},{},{}\n", (0.7 * t).cos(), u8::from(row % 20 == 7), (0.3 * t).sin() + 0.1 * t));
    }
    fs::write(&data, &text).unwrap();
    let out = folder.path().join("out");
    let few = folder.path().join("few.csv");
    let rows: Vec<&str> = text.lines().take(16).collect();
    fs::write(&few, rows.join("\n") + "\n").unwrap();
    let (code, printed, said) = rehearse(&out, &["--data", few.to_str().unwrap(), "--outcome", "y"]);
    assert_eq!(code, 0, "{said}");
    let words: Vec<&str> = printed.split_whitespace().collect();
    let refused = "would have refused it, for its limits on what may open: 15 of the rows";
    assert!(words.join(" ").contains(refused), "{printed}");
    let own = ["--data", data.to_str().unwrap(), "--outcome", "y", "--mode", "sealed"];
    let (code, _, said) = rehearse(&out, &own);
    assert_eq!(code, 65, "{said}");
    assert!(said.contains("column `b` has 3 rows of its rarer value among the rows, at least 10 are needed"), "{said}");
    let (code, printed, said) = rehearse(&out, &[&own[..], &["--sealed-limits", "off"]].concat());
    assert_eq!(code, 0, "{said}");
    assert!(printed.contains("were loosened for this rehearsal"), "{printed}");
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("were loosened for this rehearsal"), "{page}");
    for role in ["alice", "bob"] {
        let notes = report(&out.join(role))["notes"].to_string();
        assert!(notes.contains(&format!("{role} loosened its limits on what may open")), "{notes}");
    }
}

#[test]
fn flags_that_a_sealed_rehearsal_has_no_place_for_are_refused_with_the_sentence_of_the_study() {
    let folder = tempfile::tempdir().unwrap();
    for (flags, says) in [
        (&["--family", "poisson", "--lambda", "1", "--cv", "5"][..], "`penalty.cv` is given"),
        (&["--acceleration", "none"], "`fit.acceleration` has no place"),
        (&["--tol", "1e-6"], "`fit.tol` has no place"),
        (&["--max-rounds", "9"], "`fit.max_rounds` has no place"),
        (&["--epsilon", "1"], "--epsilon needs --mode private"),
    ] {
        let (code, _, said) = rehearse(folder.path(), &[&["--mode", "sealed"], flags].concat());
        assert!(code == 2 && said.contains(says), "{flags:?}: {code} {said}");
    }
    // A plain rehearsal says so where sealed mode has no such fit.
    let (code, printed, _) = rehearse(folder.path(), &["--family", "poisson", "--lambda", "1", "--cv", "5"]);
    let words: Vec<&str> = printed.split_whitespace().collect();
    assert!(code == 0 && words.join(" ").contains("has no such fit: `penalty.cv` is given"), "{code} {printed}");
    // Each table once, and what matters most first; each party's own where it is asked for.
    assert!(
        printed.starts_with("Result:   poisson model of progression, 10 terms, 442 rows, plain mode: converged"),
        "{printed}"
    );
    assert_eq!(printed.matches("Coefficients:").count(), 1, "{printed}");
    let (code, printed, _) = rehearse(folder.path(), &["--verbose"]);
    assert!(code == 0 && printed.matches("Coefficients:").count() == 3, "{code} {printed}");
    let words: Vec<&str> = printed.split_whitespace().collect();
    assert!(words.join(" ").contains("Private: --mode private --epsilon 1 would miss the slopes by "), "{printed}");
    let (code, _, said) = rehearse(folder.path(), &["--sealed-limits", "off"]);
    assert!(code == 2 && said.contains("--sealed-limits needs --mode sealed"), "{code} {said}");
}

/// The labels of the head of what a rehearsal printed, which has at most ten lines whatever was run.
fn labels(printed: &str, what: &str) -> Vec<String> {
    let head: Vec<&str> = printed.lines().take_while(|line| !line.is_empty()).collect();
    assert!(head.len() <= 10 && head.iter().all(|line| line.chars().count() <= 110), "{what}: {head:#?}");
    let labelled = head.iter().filter_map(|line| line.split_once(':')).filter(|(label, _)| !label.contains(' '));
    let mut labels: Vec<String> = labelled.map(|(label, _)| label.to_string()).collect();
    labels.dedup();
    labels
}

#[test]
fn the_head_of_every_mode_says_in_ten_lines_what_was_seen_and_what_the_other_modes_are() {
    let folder = tempfile::tempdir().unwrap();
    let tables = [("binomial", 3000), ("poisson", 3000), ("many", 60_000)].map(|(name, rows)| {
        let path = folder.path().join(format!("{name}.csv"));
        written(&path, rows, name == "poisson");
        (name, path.to_str().unwrap().to_string())
    });
    let table = |name: &str| tables.iter().find(|(known, _)| *known == name).unwrap().1.clone();
    let bounds = |most: u32| {
        let path = folder.path().join(format!("{most}.toml"));
        let columns = "[columns]\na = [-1, 1]\nb = [-1, 2]\nc = [-1, 1]\nd = [-1, 1]\n";
        fs::write(&path, format!("{columns}[outcome]\ny = [0, {most}]\n")).unwrap();
        path.to_str().unwrap().to_string()
    };
    let (ones, counts) = (bounds(1), bounds(40));
    let own = |name: &str, family: &str| {
        ["--data", &table(name), "--outcome", "y", "--id", "id", "--family", family].map(String::from).to_vec()
    };
    let parties = ["--leader", "clinic", "--parties", "clinic=age,bmi,bp;lab=s1,s2,s3,s4;office=s5,s6"];
    let [binomial, poisson] = ["binomial", "poisson"].map(|family| own(family, family));
    let many = own("many", "gaussian");
    for (name, flags, modes, bounds) in [
        ("two", vec![], &["plain", "sealed", "private"][..], None),
        ("three", parties.map(String::from).to_vec(), &["plain", "sealed", "private"], None),
        ("binomial", binomial, &["plain", "sealed", "private"], Some(&ones)),
        ("poisson", poisson, &["plain", "sealed", "private"], Some(&counts)),
        ("many", many, &["private"], Some(&ones)),
    ] {
        for mode in modes {
            let what = format!("{name}, {mode}");
            let mut line: Vec<&str> = flags.iter().map(String::as_str).chain(["--mode", mode]).collect();
            line.extend(bounds.filter(|_| *mode == "private").into_iter().flat_map(|file| ["--bounds", file]));
            let out = folder.path().join(format!("{name}-{mode}"));
            let (code, printed, said) = rehearse(&out, &line);
            assert_eq!(code, 0, "{what}: {said}");
            let mut expected = match *mode {
                "plain" => vec!["Result", "Seen", "Sealed", "Private", "Reports"],
                "sealed" => vec!["Result", "Seen", "Plain", "Private", "Reports"],
                _ => vec!["Result", "Seen", "Plain", "Sealed", "Reports"],
            };
            let labels = labels(&printed, &what);
            if !report(&out)["caution"].is_null() {
                expected.insert(0, "Caution");
                // In full below.
                assert!(printed.contains("\n\n****"), "{what}: {printed}");
            }
            assert!(labels == expected, "{what}: {labels:?}\n{printed}");
            let words = printed.split_whitespace().collect::<Vec<_>>().join(" ");
            let seen = match (*mode, name) {
                ("plain", _) => "can reconstruct",
                ("sealed", "three") => "numbers that opened to clinic: 30 of lab (3 tables), 18 of office (2 tables)",
                ("sealed", "two") => "numbers that opened to alice: 32 of bob (2 tables, beside 2210 unknown values)",
                ("sealed", _) => "numbers that opened to alice: ",
                _ => "noised values only",
            };
            assert!(words.contains(seen), "{what}: {printed}");
        }
    }
    let cautioned = |run: &str| !report(&folder.path().join(run))["caution"].is_null();
    assert!(cautioned("two-private") && cautioned("three-private") && !cautioned("many-private"));
}

#[test]
fn a_plain_rehearsal_does_not_recommend_sealed_mode_for_a_column_with_a_rare_value() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("rare.csv");
    let head = |rare: u32| {
        let row =
            |at: u32| format!("{at},{}.{},{},{}", at % 13, at % 7, u32::from(at % 7 == 3 && at < 7 * rare), at % 5);
        fs::write(&table, format!("id,a,b,y\n{}\n", (1..=300).map(row).collect::<Vec<_>>().join("\n"))).unwrap();
        let more = ["--data", table.to_str().unwrap(), "--id", "id", "--outcome", "y", "--alice", "a", "--bob", "b"];
        let (code, printed, said) = rehearse(&folder.path().join("out"), &more);
        assert_eq!(code, 0, "{said}");
        printed
    };
    let few = head(3);
    assert!(few.contains("--mode sealed would have refused it") && few.contains("`b`"), "{few}");
    let enough = head(40);
    assert!(enough.contains("--mode sealed (recommended) gives the same coefficients"), "{enough}");
}

#[test]
fn the_head_stays_within_ten_lines_with_many_parties_a_long_folder_and_refusals_of_the_other_modes() {
    let folder = tempfile::tempdir().unwrap();
    let out =
        folder.path().join("a-folder-with-a-name-that-is-longer-than-a-line-of-the-head-has-room-for-in-any-case");
    let parties = "n1=age,sex;n2=bmi,bp;n3=s1;n4=s2;n5=s3;n6=s4;n7=s5;n8=s6";
    let (code, printed, said) = rehearse(&out, &["--parties", parties, "--leader", "n1", "--lambda", "1"]);
    assert_eq!(code, 0, "{said}");
    let head: Vec<&str> = printed.lines().take_while(|line| !line.is_empty()).collect();
    assert!(head.len() <= 10, "{head:#?}");
    let words = head.join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "Result:",
        "Seen: n1 can reconstruct",
        "what else was seen stands at the end of this text",
        "Sealed: --mode sealed, in which no value of a row leaves readably, has no such fit: `penalty` is given",
        "Private: --mode private --epsilon 1 would miss the slopes without a penalty by",
        "Reports:",
    ] {
        assert!(words.contains(part), "{part}: {head:#?}");
    }
    let (code, printed, said) = rehearse(&out, &["--family", "quasipoisson"]);
    assert_eq!(code, 0, "{said}");
    let words = printed.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("Private: --mode private has no such fit: `model.family` is quasipoisson"), "{printed}");
}

#[test]
fn sealed_cross_validation_is_that_of_a_plain_run_and_says_what_opened_of_each_fold() {
    let folder = tempfile::tempdir().unwrap();
    let [plain, sealed] = ["plain", "sealed"].map(|mode| {
        let out = folder.path().join(mode);
        let loosened: &[&str] = if mode == "sealed" { &["--sealed-limits", "off"] } else { &[] };
        let flags = ["--mode", mode, "--lambda", "path", "--cv", "5"];
        let (code, printed, said) = rehearse(&out, &[&flags[..], loosened].concat());
        assert_eq!(code, 0, "{said}\n{printed}");
        report(&out)
    });
    let points = |report: &Value| -> Vec<[f64; 3]> {
        let points = report["cv"].as_array().unwrap().iter();
        points.map(|point| ["lambda", "mean", "se"].map(|key| point[key].as_f64().unwrap())).collect()
    };
    let (ours, theirs) = (points(&sealed), points(&plain));
    assert_eq!((ours.len(), theirs.len()), (100, 100));
    for (ours, theirs) in ours.iter().flatten().zip(theirs.iter().flatten()) {
        assert!((ours - theirs).abs() <= 1e-7 * theirs.abs(), "{ours} {theirs}");
    }
    let opened = sealed["disclosure"]["bob"]["opened"].to_string();
    assert!(opened.contains("of each fold"), "{opened}");
}

#[test]
fn folds_with_too_few_rows_are_refused_before_a_column_leaves() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--mode", "sealed", "--lambda", "path", "--cv", "10"];
    let (code, printed, said) = rehearse(folder.path(), &flags);
    assert_eq!(code, 65, "{said}\n{printed}");
    assert!(said.contains("of the rows of fold 1") && said.contains("sealed_rows_per_column"), "{said}");
}

#[test]
fn a_check_of_a_sealed_study_shows_what_would_open_and_fails_where_the_run_would() {
    let world = World::new();
    let checked = |role: &str, study: &str, home: bool| {
        world.write("study.toml", study);
        let table = format!("{role}.csv");
        let line = ["check", "--study", "study.toml", "--coordinator", "127.0.0.1:9", "--connect", "127.0.0.1:9"];
        let mut command = Command::new(DEMO);
        if !home {
            command.env_remove("HOME").env_remove("XDG_STATE_HOME");
        }
        let output = command
            .args(["--role", role])
            .args(line)
            .args(["--state", "state", "--data", &table, "--format", "json", "--authority", "authority.pem"])
            .args(["--certificate", &format!("{role}.pem"), "--key", &format!("{role}.key")])
            .current_dir(world.folder.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let [out, log] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        (output.status.code().unwrap(), out, log)
    };
    let check = |role: &str, study: &str| checked(role, study, true);
    let sealed = format!("mode = \"sealed\"\n{STUDY}");
    // The ledger of a run would have no place for its anchor.
    let (code, _, log) = checked("alice", &sealed, false);
    assert!(code == 77 && log.contains("neither XDG_STATE_HOME nor HOME is set"), "{code} {log}");
    for (role, masked) in [("alice", 40 * 3), ("bob", 40 * 2)] {
        let (code, out, log) = check(role, &sealed);
        assert_eq!(code, 0, "{log}");
        let checked: Value = serde_json::from_str(&out).unwrap();
        assert!(checked["leaves"][0]["amount"].as_str().unwrap().contains(&format!("{masked} elements")), "{checked}");
        assert!(checked["opened"][0]["unknowns"] == 40, "{checked}");
    }
    // Forty rows are too few for three columns of Bob and one of Alice, which Alice knows from the study alone.
    let wide = sealed.replace("columns = [\"b\"]", "columns = [\"b\", \"c\", \"d\", \"e\"]");
    let (code, _, log) = check("alice", &wide);
    assert!(code == 65 && log.contains("40 of the rows, and 5 columns of all parties need 50"), "{code} {log}");
    let penalised = |more: &str| format!("model.family = \"poisson\"\npenalty.lambda = {more}\n{sealed}");
    let (code, _, log) = check("alice", &penalised("1.0\npenalty.cv = 5"));
    assert!(code == 2 && log.contains("`penalty.cv` is given"), "{code} {log}");
    // Of 1000 rows and one column each, 500 numbers may open: at Bob four of table and factor, at each lambda four gradients with his
    // range and a part of the intercept, and one more; at Alice four points and her fits, with the share of his column.
    for (role, name) in [("alice", "a"), ("bob", "b")] {
        let rows: String = (0..1000).map(|row| format!("r{row},{}.{},{}\n", row % 7, row % 11, row % 3)).collect();
        world.write(&format!("{role}.csv"), &format!("id,{name},y\n{rows}"));
    }
    for (role, fit) in [("alice", (500 - 1) / (4 * 4 + 4)), ("bob", (500 - 4 - 1) / (4 * 4 + 1))] {
        let (code, out, log) = check(role, &penalised("[0.1, 0.01]"));
        let room =
            format!("there is room for a path of {fit} lambdas, counted with 4 gradients at each: the study has 2");
        assert!(code == 0 && out.contains(&room), "{code} {out} {log}");
        let (code, _, log) = check(role, &penalised("\"path\""));
        let refused = format!(
            "{fit} of the 100 lambdas fit here, and fewer may at the other party: shorten the path, leave columns out"
        );
        assert!(code == 77 && log.contains(&refused), "{code} {log}");
    }
}

/// What Bob's check of a file says with a state folder.
fn checked_by_bob(world: &World, [state, file]: [&str; 2]) -> (i32, String) {
    let output = world.asked("bob", "--connect", &["check", "--state", state, "--data", file]);
    (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// A run of all three over real lines, and the sentences of both parties.
fn sealed_run(world: &World) -> ([i32; 2], String) {
    sealed_run_with(world, &[])
}

/// The same with more flags of Bob's.
fn sealed_run_with(world: &World, more: &[&str]) -> ([i32; 2], String) {
    for stale in ["coordinator.address", "alice.address"] {
        let _ = fs::remove_file(world.path(stale));
    }
    let [_, alice, bob] = world.run(&["--out", "out/alice"], &[&["--out", "out/bob"], more].concat());
    ([alice.code, bob.code], format!("{}\n{}", alice.log, bob.log))
}

fn status(world: &World, role: &str) -> Value {
    let output = world.asked(role, "--connect", &["privacy", "status", "--format", "json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn what_opens_adds_up_over_runs_and_rows_that_differ_by_one_are_refused() {
    let world = World::new();
    let sealed = format!("mode = \"sealed\"\n{STUDY}");
    world.write("study.toml", &sealed);
    for run in 1..=2_u64 {
        let (codes, said) = sealed_run(&world);
        assert_eq!(codes, [0, 0], "{said}");
        // At Alice Bob's part with its covariance and two sums, at Bob the table and two numbers for the intercept.
        for (role, numbers) in [("alice", 5 * run), ("bob", 4 * run)] {
            let status = status(&world, role);
            assert_eq!(status[0]["data_set"], role);
            assert_eq!([&status[0]["numbers_opened"], &status[0]["runs_opened"]], [numbers, run], "{status}");
        }
    }
    let notes = report(&world.path("out/bob"))["notes"].to_string();
    assert!(notes.contains("1 other run let 4 numbers of this data set open"), "{notes}");

    // Another ledger brings no other account, and neither do another name of the file and another one of the data set.
    fs::hard_link(world.path("bob.csv"), world.path("link.csv")).unwrap();
    let kept = "bob-state/privacy.sqlite (its anchor: ";
    for file in ["bob.csv", "link.csv"] {
        let (code, said) = checked_by_bob(&world, ["other-state", file]);
        assert!(code == 77 && said.contains(kept), "{file}: {code} {said}");
    }
    let (code, said) = checked_by_bob(&world, ["bob-state", "link.csv"]);
    assert!(code == 77 && said.contains("is counted as data set `bob`"), "{code} {said}");
    world.write("other.toml", "[privacy]\nledger = \"other-state/privacy.sqlite\"\n");
    let (codes, said) = sealed_run_with(&world, &["--config", "other.toml"]);
    assert!(codes == [77, 77] && said.contains(kept), "{codes:?} {said}");
    assert!(!world.path("other-state/privacy.sqlite").exists());

    // The difference of both tables would be the table of one person.
    let [alice, bob] = ["alice.csv", "bob.csv"].map(|name| fs::read_to_string(world.path(name)).unwrap());
    for (name, text) in [("alice.csv", &alice), ("bob.csv", &bob)] {
        let fewer: Vec<&str> = text.lines().filter(|line| !line.starts_with("r17")).collect();
        world.write(name, &(fewer.join("\n") + "\n"));
    }
    let (codes, said) = sealed_run(&world);
    assert_eq!(codes, [77, 77], "{said}");
    assert!(said.contains("differ by 1: the difference of both tables is the table of those rows"), "{said}");
    world.write("alice.csv", &alice);
    world.write("bob.csv", &bob);

    // A plain run shows whole vectors, forty numbers each.
    world.write("study.toml", STUDY);
    let (codes, said) = sealed_run(&world);
    assert_eq!(codes, [0, 0], "{said}");
    let shown = report(&world.path("out/bob"))["disclosure"]["vectors"].as_u64().unwrap();
    assert_eq!(status(&world, "bob")[0]["numbers_opened"], 8 + 40 * shown);
    world.write("study.toml", &sealed);
    let (codes, said) = sealed_run(&world);
    assert_eq!(codes, [77, 77], "{said}");
    let shown = "by runs that were not sealed, which show whole vectors), at most 20 may be of 40 unknown values";
    assert!(said.contains("of them by earlier runs on the same data set (") && said.contains(shown), "{said}");

    // The account does not begin anew with the folder that holds it.
    fs::remove_dir_all(world.path("bob-state")).unwrap();
    let (codes, said) = sealed_run(&world);
    assert_eq!(codes, [77, 77], "{said}");
    assert!(said.contains("is gone, but its anchor says that it had"), "{said}");
}

#[test]
fn a_plain_run_before_any_ledger_counts_in_the_first_sealed_one() {
    let world = World::new();
    let (codes, said) = sealed_run(&world);
    assert_eq!(codes, [0, 0], "{said}");
    assert!(!world.path("bob-state/privacy.sqlite").exists());
    let shown = |role: &str| {
        let vectors = &report(&world.path(&format!("out/{role}")))["disclosure"]["vectors"];
        format!("{} of them by earlier runs", 40 * vectors.as_u64().unwrap())
    };
    let shown = ["alice", "bob"].map(shown);
    world.write("study.toml", &format!("mode = \"sealed\"\n{STUDY}"));
    let (codes, said) = sealed_run(&world);
    assert_eq!(codes, [77, 77], "{said}");
    assert!(shown.iter().any(|shown| said.contains(shown)), "{said}");
    // A run of which nothing opened binds the file to no ledger.
    let (code, said) = checked_by_bob(&world, ["other-state", "bob.csv"]);
    assert_eq!(code, 0, "{said}");
}

#[test]
fn a_dealer_apart_from_the_coordinator_deals_and_ends_with_the_run() {
    let world = World::new();
    world.certificates("authority", &["alice", "bob", "coordinator", "randomness.example"]);
    let study = format!("mode = \"sealed\"\n{STUDY}\n[dealer]\ncertificate = \"randomness.example\"\n");
    world.write("study.toml", &study);
    // Not with the certificate of a party, and not without an address.
    let alone = ["deal", "--listen", "127.0.0.1:0", "--announce", "dealer.address"];
    let party = world.start_as("coordinator", "alice", &alone).end();
    assert!(party.code == 77 && party.log.contains("randomness.example"), "{} {}", party.code, party.log);
    let (coordinator, address) = world.coordinator();
    let alice = world.alice(&address, &[]).end();
    assert!(alice.code == 2 && alice.log.contains("masks are dealt by `randomness.example`"), "{}", alice.log);
    drop(coordinator);

    let dealer = world.start_as("coordinator", "randomness.example", &alone);
    let deals = world.address("dealer.address");
    fs::remove_file(world.path("coordinator.address")).unwrap();
    let (coordinator, address) = world.coordinator();
    let alice = world.alice(&address, &["--dealer", &deals, "--out", "out/alice"]);
    let bob = world.bob(&address, &["--dealer", &deals, "--out", "out/bob"]);
    let ended = [coordinator.end(), alice.end(), bob.end()];
    world::assert_codes(&ended, 0);
    let dealer = dealer.end();
    assert_eq!(dealer.code, 0, "{}", dealer.log);
    assert!(dealer.log.contains("dealing for a table of 40 rows"), "{}", dealer.log);
    assert!(!ended[0].log.contains("dealing"), "{}", ended[0].log);
}

#[test]
fn a_dealer_that_is_killed_ends_the_run_for_both_parties() {
    let world = World::new();
    world.certificates("authority", &["alice", "bob", "coordinator", "dealer"]);
    world.write("study.toml", &format!("mode = \"sealed\"\n{STUDY}\n[dealer]\ncertificate = \"dealer\"\n"));
    let alone = ["deal", "--listen", "127.0.0.1:0", "--announce", "dealer.address", "--keep"];
    let dealer = world.start_as("coordinator", "dealer", &alone);
    let deals = world.address("dealer.address");
    let (coordinator, address) = world.coordinator();
    let alice = world.alice(&address, &["--dealer", &deals, "--wait", "5"]);
    drop(dealer);
    let bob = world.bob(&address, &["--dealer", &deals, "--wait", "5"]);
    let ended = [coordinator.end(), alice.end(), bob.end()];
    world::assert_codes(&ended, 69);
    assert!(ended[1].log.contains("dealer") && ended[2].log.contains("dealer"), "{}\n{}", ended[1].log, ended[2].log);
}

/// Nobody has the masks of a killed party: the other one, and the coordinator, begin another run with it as soon as it is back.
#[test]
fn a_sealed_fit_whose_party_was_killed_is_begun_again_without_a_new_command_of_the_other() {
    let world = World::new();
    for role in ["alice", "bob"] {
        written(&world.path(&format!("{role}.csv")), 20_000, false);
    }
    world.write("study.toml", &format!("mode = \"sealed\"\nmodel.family = \"binomial\"\n{STUDY}"));
    let clean = world.run(&["--out", "out/alice"], &["--out", "out/bob"]);
    world::assert_codes(&clean, 0);
    let expected = ["alice", "bob"].map(|role| report(&world.path(&format!("out/{role}")))["coefficients"].clone());
    for killed in ["alice", "bob"] {
        for stale in ["coordinator.address", "alice.address"] {
            fs::remove_file(world.path(stale)).unwrap();
        }
        let port = world::free_address();
        let (coordinator, address) = world.coordinator_with(&["--wait", "60"]);
        let alice = || world.alice(&address, &["--listen", &port, "--announce", "alice.address", "--out", "out/alice"]);
        let bob = || world.bob(&address, &["--out", "out/bob"]);
        let (first, second) = (alice(), bob());
        let log = world.path("coordinator.log");
        world::eventually(|| fs::read_to_string(&log).unwrap().contains("dealing for a table").then_some(()));
        let (mut victim, other) = if killed == "alice" { (first, second) } else { (second, first) };
        victim.child.kill().unwrap();
        assert!(!victim.child.wait().unwrap().success(), "{killed} was over before it was killed");
        let back = if killed == "alice" { alice() } else { bob() };
        let ended = [coordinator.end(), back.end(), other.end()];
        world::assert_codes(&ended, 0);
        assert!(ended[2].log.contains("beginning another, with fresh masks"), "{}", ended[2].log);
        for (role, expected) in ["alice", "bob"].into_iter().zip(&expected) {
            assert_eq!(report(&world.path(&format!("out/{role}")))["coefficients"], *expected, "{killed} was killed");
        }
    }
}
