//! Workers and a coordinator as real processes over mutual TLS: what users see when a run goes well, and when it does not.

// Test code may unwrap: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod sites;

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use sites::{DEMO, Running, STUDY, WORKERS, World, rows, table};

/// The estimates, bit for bit.
fn estimates(report: &Value) -> Vec<u64> {
    report["coefficients"].as_array().unwrap().iter().map(|row| row["estimate"].as_f64().unwrap().to_bits()).collect()
}

/// What an undisturbed run gives.
fn undisturbed() -> Vec<u64> {
    let world = World::new();
    let coordinator = world.coordinator(&[]);
    let workers = WORKERS.map(|name| world.worker(name, &[]));
    for worker in workers {
        let ended = worker.end();
        assert_eq!(ended.code, 0, "{}", ended.log);
    }
    assert_eq!(coordinator.end().code, 0);
    let report = world.report("coordinator");
    assert_eq!(report["batches"].as_array().unwrap().len(), 15);
    for name in WORKERS {
        let own = world.report(name);
        assert_eq!(own["coefficients"], report["coefficients"]);
        assert_eq!((own["role"].as_str(), own["batches"].as_array().unwrap().len()), (Some("worker"), 5));
        assert!(own["bytes_sent"].as_u64().unwrap() > 5 * 80);
    }
    estimates(&report)
}

#[test]
fn killed_processes_go_on_where_they_were_and_give_the_same_bits() {
    let expected = undisturbed();
    let world = World::new();
    let coordinator = world.coordinator(&["--wait", "30"]);
    // South hands its rows in as they come; sixty of them, that is three batches, before anything dies.
    let text = table(2, 100);
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let (head, tail) = (lines[..61].concat(), lines[61..].concat());
    let mut south = world.worker_as("south", "south", "-", &[]);
    south.say(&head);
    let north = world.worker("north", &[]);
    world.wait_for_contributions("south", 3);
    world.wait_for_contributions("north", 5);
    coordinator.kill();
    // Nobody loses anything: the workers wait, and the next process knows what the last one had acknowledged.
    let coordinator = world.coordinator(&["--wait", "30"]);
    coordinator.wait_for("going on with run");
    world.wait_for_contributions("south", 3);
    south.kill();
    let mut south = world.worker_as("south", "south", "-", &[]);
    south.say(lines[0]);
    south.say(&tail);
    let west = world.worker("west", &[]);
    for worker in [south, north, west] {
        let ended = worker.end();
        assert_eq!(ended.code, 0, "{}", ended.log);
    }
    let ended = coordinator.end();
    assert_eq!(ended.code, 0, "{}", ended.log);
    let report = world.report("coordinator");
    assert_eq!(estimates(&report), expected);
    assert_eq!(report["repeated"].as_array().unwrap().len(), 0, "nothing was fitted or sent twice");
}

#[test]
fn a_worker_that_dies_is_done_without_as_long_as_the_quorum_stands() {
    let world = World::new();
    let coordinator = world.coordinator(&[]);
    let mut south = world.worker_as("south", "south", "-", &[]);
    south.say(&table(2, 40));
    world.wait_for_contributions("south", 2);
    south.kill();
    for worker in ["north", "west"].map(|name| world.worker(name, &[])) {
        let ended = worker.end();
        assert_eq!(ended.code, 0, "{}", ended.log);
    }
    let ended = coordinator.end();
    assert_eq!(ended.code, 0, "{}", ended.log);
    let report = world.report("coordinator");
    assert_eq!(report["batches"].as_array().unwrap().len(), 12);
    assert!(
        report["workers"][1]["state"].as_str().unwrap().contains("did not come back within 1 s"),
        "{}",
        report["workers"]
    );
}

#[test]
#[cfg(unix)]
fn a_worker_that_stalls_holds_the_run_no_longer_than_the_deadline_and_is_named() {
    let world = World::of(&STUDY.replace("deadline = 50", "deadline = 2"));
    let coordinator = world.coordinator(&[]);
    let mut south = world.worker_as("south", "south", "-", &[]);
    south.say(&table(2, 40));
    world.wait_for_contributions("south", 2);
    // Connected, and silent from here on.
    let signal = |name: &str| {
        assert!(Command::new("kill").args([name, &south.child.id().to_string()]).status().unwrap().success());
    };
    signal("-STOP");
    for worker in ["north", "west"].map(|name| world.worker(name, &[])) {
        let ended = worker.end();
        assert_eq!(ended.code, 0, "{}", ended.log);
    }
    let ended = coordinator.end();
    signal("-KILL");
    assert_eq!(ended.code, 0, "{}", ended.log);
    let report = world.report("coordinator");
    assert_eq!(report["batches"].as_array().unwrap().len(), 12, "what the silent worker had sent counts");
    let notes = report["notes"].to_string();
    assert!(notes.contains("ended at its deadline, 2 s after") && notes.contains("south: "), "{notes}");
    let state = report["workers"][1]["state"].as_str().unwrap();
    assert_eq!(state, "was connected, but had not sent everything");
    assert!(notes.contains(state), "{notes}");
}

#[test]
fn without_a_quorum_at_the_deadline_everybody_exits_with_69() {
    let world = World::of(&STUDY.replace("deadline = 50", "deadline = 2"));
    let coordinator = world.coordinator(&[]);
    let north = world.worker("north", &[]).end();
    let ended = coordinator.end();
    assert_eq!((north.code, ended.code), (69, 69), "{}\n{}", north.log, ended.log);
    assert!(ended.log.contains("the quorum of 2 workers was not reached: only north contributed"), "{}", ended.log);
    assert!(north.log.contains("the quorum of 2 workers was not reached"), "{}", north.log);
}

/// Rows of a worker around y = 42 + 7 a - 3 b.
fn lies(seed: u64, count: u64) -> String {
    let told = |line: &str| {
        let cells: Vec<f64> = line.split(',').map(|cell| cell.parse().unwrap()).collect();
        format!("{},{},{}\n", cells[0], cells[1], cells[2] + 41.0 + 5.0 * cells[0])
    };
    format!("a,b,y\n{}", rows(seed, count).lines().map(told).collect::<String>())
}

#[test]
fn one_worker_of_three_that_sends_a_hundred_estimates_owns_nothing() {
    for online in [false, true] {
        let more = if online { "\n[robust.online]\nwindow = 9\nswitch = 9\n" } else { "" };
        let world = World::of(&format!("{STUDY}{more}"));
        world.write("north.csv", &lies(1, 2000));
        let coordinator = world.coordinator(&[]);
        let mut workers = vec![world.worker("south", &[]), world.worker("west", &[])];
        // Whoever lies speaks last and longest.
        for name in ["south", "west"] {
            world.wait_for_contributions(name, 5);
        }
        workers.push(world.worker("north", &[]));
        for worker in workers {
            let ended = worker.end();
            assert_eq!(ended.code, 0, "{}", ended.log);
        }
        assert_eq!(coordinator.end().code, 0);
        let report = world.report("coordinator");
        for (row, truth) in report["coefficients"].as_array().unwrap().iter().zip([1.0, 2.0, -3.0]) {
            assert!((row["estimate"].as_f64().unwrap() - truth).abs() < 0.1, "{row}");
        }
        assert_eq!((report["verdict"].as_str(), report["site_votes"].as_bool()), (Some("majority_agrees"), Some(true)));
        assert_eq!((&report["sites_trusted"], &report["sites_counted"]), (&2.into(), &3.into()));
        let north = &report["sites"][0];
        assert_eq!((north["worker"].as_str(), north["trusted"].as_u64()), (Some("north"), Some(0)), "{north}");
        assert!((north["coefficients"][0].as_f64().unwrap() - 42.0).abs() < 0.1, "{north}");
        let text = fs::read_to_string(world.path("coordinator/report.txt")).unwrap();
        assert!(text.starts_with("*** north is set aside: "), "{text}");
        let page = fs::read_to_string(world.path("coordinator/report.html")).unwrap();
        assert!(page.find("north is set aside").unwrap() < page.find("<h1>").unwrap());
        // What north says alone is not the other workers' business.
        let own = fs::read_to_string(world.path("south/report.txt")).unwrap();
        assert!(!own.contains("north"), "{own}");
        assert!(fs::read_to_string(world.path("north/report.txt")).unwrap().contains("north alone"));
    }
}

#[test]
fn a_worker_without_a_coordinator_exits_with_69() {
    let world = World::new();
    let ended = world.worker("north", &["--wait", "0"]).end();
    assert_eq!(ended.code, 69, "{}", ended.log);
}

#[test]
fn bad_data_end_a_worker_with_65_and_the_others_go_on() {
    let world = World::new();
    world.write("columns.csv", "a,c,y\n1,2,3\n");
    world.write("identical.csv", &format!("a,b,y\n{}", "1,2,3\n".repeat(60)));
    world.write("text.csv", &table(1, 30).replacen("a,b,y\n", "a,b,y\nx,1,2\n", 1));
    world.write("missing.csv", &format!("{}1,,2\n", table(1, 30)));
    world.write("truncated.parquet", "PAR1 and nothing else");
    for data in ["columns.csv", "text.csv", "missing.csv", "truncated.parquet", "nowhere.csv"] {
        let ended =
            world.start("worker", "south", "check", &["check", "--coordinator", &world.address, "--data", data]).end();
        assert_eq!(ended.code, 65, "{data}: {}", ended.log);
    }
    let coordinator = world.coordinator(&[]);
    let ended = world.worker_as("south", "south", "identical.csv", &[]).end();
    assert_eq!(ended.code, 65, "{}", ended.log);
    assert!(ended.log.contains("no batch could be fitted: batch 0 (line 2 to line 21)"), "{}", ended.log);
    assert!(ended.log.contains("expected independent columns, but column 1"), "{}", ended.log);
    for worker in ["north", "west"].map(|name| world.worker(name, &[])) {
        assert_eq!(worker.end().code, 0);
    }
    let ended = coordinator.end();
    assert_eq!(ended.code, 0, "{}", ended.log);
    // The reason stays where the data are.
    let state = world.report("coordinator")["workers"][1]["state"].as_str().unwrap().to_string();
    assert_eq!(state, "left (65): the data of worker were refused; the reason is shown there only");
}

#[test]
fn every_bad_table_is_refused_with_65_and_its_sentence() {
    let world = World::of(&STUDY.replace("deadline = 50", "deadline = 50\nquorum = 1"));
    world.write("columns.csv", "a,c,y\n1,2,3\n");
    world.write("few.csv", &table(1, 8));
    world.write("truncated.parquet", "PAR1 and nothing else");
    let cases = [
        ("columns.csv", None, "there is no column `b`"),
        ("few.csv", None, "expected at least 9 rows in the batch"),
        ("truncated.parquet", None, "damaged or cut short"),
        ("-", Some("a,b,y\n1,2,3\n4,5"), "in the middle of a row"),
        ("-", Some("a,b,y\n"), "no rows"),
    ];
    for (at, (data, input, says)) in cases.into_iter().enumerate() {
        let tag = format!("case-{at}");
        let coordinator = world.coordinator(&["--state", &format!("{tag}-coordinator")]);
        let mut worker = world.worker_as("north", &tag, data, &[]);
        if let Some(input) = input {
            worker.say(input);
        }
        let ended = worker.end();
        assert_eq!(ended.code, 65, "{data}: {}", ended.log);
        assert!(ended.log.contains(says), "{data}: {}", ended.log);
        drop(coordinator);
    }
}

#[test]
fn strangers_doubles_and_other_studies_are_refused_with_77() {
    let world = World::new();
    let coordinator = world.coordinator(&["--wait", "30"]);
    let ended = world.worker_as("stranger", "stranger", "north.csv", &[]).end();
    assert_eq!(ended.code, 77, "{}", ended.log);
    assert!(ended.log.contains("which is no worker of the study"), "{}", ended.log);
    let mut north = world.worker_as("north", "north", "-", &[]);
    north.say(&table(1, 20));
    world.wait_for_contributions("north", 1);
    let ended = world.worker_as("north", "double", "north.csv", &[]).end();
    assert_eq!(ended.code, 77, "{}", ended.log);
    assert!(ended.log.contains("another process with the certificate of north has joined already"), "{}", ended.log);
    world.write("other.toml", &STUDY.replace("batch_rows = 20", "batch_rows = 25"));
    let ended = world.worker_as("south", "south", "south.csv", &["--study", "other.toml"]).end();
    assert_eq!(ended.code, 77, "{}", ended.log);
    assert!(ended.log.contains("differs from the coordinator's in: sites.batch_rows"), "{}", ended.log);
    coordinator.kill();
    // The state of the run stays with its study.
    let ended = world
        .start(
            "coordinator",
            "coordinator",
            "other",
            &["serve", "--listen", &world.address, "--study", "other.toml", "--state", "coordinator-state"],
        )
        .end();
    assert_eq!(ended.code, 77, "{}", ended.log);
    assert!(ended.log.contains("belongs to another study"), "{}", ended.log);
}

#[test]
fn a_study_without_workers_is_a_usage_error() {
    let world =
        World::of("id = \"s\"\nprotocol = \"robust\"\n[model]\nfeatures = [\"a\"]\n[outcome]\ncolumn = \"y\"\n");
    let ended = world.start("coordinator", "coordinator", "none", &["serve", "--listen", &world.address]).end();
    assert_eq!(ended.code, 2, "{}", ended.log);
    assert!(ended.log.contains("`workers` must name at least one worker"), "{}", ended.log);
}

#[test]
fn a_growing_file_is_followed_and_the_consensus_is_drawn_over_time() {
    let world = World::of(&format!("{STUDY}\n[robust.online]\nwindow = 5\nswitch = 5\n"));
    let coordinator = world.coordinator(&[]);
    world.write("north.csv", &table(1, 40));
    let follow = ["--follow", "--idle", "0.5"];
    let north = world.worker("north", &follow);
    world.wait_for_contributions("north", 2);
    let mut file = fs::OpenOptions::new().append(true).open(world.path("north.csv")).unwrap();
    file.write_all(rows(9, 60).as_bytes()).unwrap();
    world.wait_for_contributions("north", 5);
    let others = ["south", "west"].map(|name| world.worker(name, &follow));
    for worker in others.into_iter().chain([north]) {
        let ended = worker.end();
        assert_eq!(ended.code, 0, "{}", ended.log);
    }
    assert_eq!(coordinator.end().code, 0);
    let report = world.report("coordinator");
    assert_eq!(report["course"]["arrivals"], 15);
    assert_eq!(report["course"]["points"].as_array().unwrap().len(), 15);
    let page = fs::read_to_string(world.path("coordinator/report.html")).unwrap();
    assert!(page.contains("Consensus over time"));
}

#[test]
fn following_rows_needs_a_study_that_follows_estimates() {
    let world = World::new();
    let ended = world.worker("north", &["--follow"]).end();
    assert_eq!(ended.code, 2, "{}", ended.log);
    assert!(ended.log.contains("no [robust.online]"), "{}", ended.log);
}

#[test]
fn the_walkthrough_of_many_sites_finds_the_clinic_with_the_wrong_unit() {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("many-sites");
    let world = World::new();
    for entry in fs::read_dir(&samples).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, world.path(path.file_name().unwrap().to_str().unwrap())).unwrap();
    }
    fs::create_dir(world.path("certificates")).unwrap();
    world.certificates(&["registry.example", "north.clinic.example", "south.clinic.example", "west.clinic.example"]);
    for entry in fs::read_dir(world.folder.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "pem" || extension == "key") {
            fs::copy(&path, world.path("certificates").join(path.file_name().unwrap())).unwrap();
        }
    }
    let run = |role: &str, tag: &str, arguments: &[&str]| {
        let log = world.path(&format!("{tag}.log"));
        let mut child = Command::new(DEMO)
            .args(["--role", role])
            .args(arguments)
            .args(["--log", "text"])
            .current_dir(world.folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        Running { stdin: child.stdin.take(), child, log }
    };
    let coordinator =
        run("coordinator", "coordinator", &["serve", "--listen", &world.address, "--out", "results/coordinator"]);
    coordinator.wait_for("coordinating");
    let workers = WORKERS.map(|name| {
        let (config, out) = (format!("{name}.toml"), format!("results/{name}"));
        run("worker", name, &["join", "--config", &config, "--coordinator", &world.address, "--out", &out])
    });
    for worker in workers {
        let ended = worker.end();
        assert_eq!(ended.code, 0, "{}", ended.log);
    }
    let own = fs::read_to_string(world.path("results/west/report.txt")).unwrap();
    assert!(
        own.contains("6 of 9 in the consensus")
            && own.starts_with("*** west is set aside: all 3 of its estimates disagree"),
        "{own}"
    );
    assert_eq!(coordinator.end().code, 0);
    let report = world.report("results/coordinator");
    for batch in report["batches"].as_array().unwrap() {
        assert_eq!(batch["trusted"], batch["worker"] != "west", "{batch}");
    }
    let readme = fs::read_to_string(samples.join("README.md")).unwrap();
    for name in ["registry.example", "north.clinic.example", "south.clinic.example", "west.clinic.example"] {
        assert!(readme.contains(&format!("--name {name}")), "{name}");
    }
}

fn demo(out: &Path, arguments: &[&str]) -> (i32, String, Value) {
    let output = Command::new(DEMO).arg("robust").args(arguments).arg("--out").arg(out).output().unwrap();
    let report = fs::read_to_string(out.join("report.json")).unwrap_or_default();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output.status.code().unwrap_or(-1), text, serde_json::from_str(&report).unwrap_or_default())
}

#[test]
fn the_demo_withstands_damage_that_ruins_least_squares() {
    let folder = tempfile::tempdir().unwrap();
    let (code, text, report) = demo(folder.path(), &["--corrupt", "0.3"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("Beside least squares of all rows in one place"), "{text}");
    for key in ["worker", "batch", "nobs", "kept", "distance", "trusted"] {
        assert!(!report["batches"][0][key].is_null(), "{key}");
    }
    let untrusted = report["batches"].as_array().unwrap().iter().filter(|batch| batch["trusted"] == false).count();
    assert_eq!(untrusted, 2, "{text}");
    for row in report["comparison"].as_array().unwrap() {
        let number = |key: &str| row[key].as_f64().unwrap();
        let (ours, theirs) = (number("estimate") - number("undamaged"), number("pooled") - number("undamaged"));
        assert!(ours.abs() < 1.5 * number("pooled_std_error"), "{row}");
        assert!(row["term"] == "sex" || ours.abs() < 0.4 * theirs.abs(), "{row}");
    }
    for file in
        ["report.txt", "report.html", "report.csv", "coordinator/report.json", "worker-2/report.html", "study.toml"]
    {
        assert!(folder.path().join(file).is_file(), "{file}");
    }
}

#[test]
fn the_demo_is_outside_the_guarantee_when_most_batches_are_damaged() {
    let folder = tempfile::tempdir().unwrap();
    for batches in [&[][..], &["--workers", "4", "--batch-rows", "27"], &["--workers", "4", "--batch-rows", "54"]] {
        for seed in ["1", "2", "3"] {
            let arguments = [batches, &["--corrupt", "0.5", "--seed", seed]].concat();
            let (code, text, report) = demo(folder.path(), &arguments);
            assert_eq!(code, 3, "{text}");
            assert_eq!(report["termination"], "outside_guarantee");
            assert_eq!(report["converged"], false);
        }
    }
}

#[test]
fn the_demo_damages_as_many_batches_as_the_workers_cut() {
    let folder = tempfile::tempdir().unwrap();
    for (rows, batches, wrong) in [("30", 15, 7), ("27", 15, 7), ("73", 6, 3), ("500", 3, 1)] {
        let (_, text, report) = demo(folder.path(), &["--batch-rows", rows, "--corrupt", "0.5"]);
        assert!(text.contains(&format!("Before the run {wrong} of {batches} batches were damaged")), "{text}");
        assert_eq!(report["batches"].as_array().unwrap().len(), batches, "{text}");
    }
}

#[test]
fn the_demo_names_what_is_wrong_with_its_arguments() {
    let folder = tempfile::tempdir().unwrap();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/admissions.csv");
    let data = data.to_str().unwrap();
    for (arguments, code, says) in [
        (&["--workers", "0"][..], 2, "0 is not in 1..=1000"),
        (&["--batch-rows", "3"], 2, "must be at least 15, three rows per coefficient, and is 3"),
        (&["--features", "bmi,progression"], 2, "column `progression` is the outcome and cannot be a predictor too"),
        (&["--data", data], 2, "--data needs --outcome"),
        (&["--data", data, "--outcome", "region", "--features", "age"], 65, "is not numeric and cannot be the outcome"),
        (&["--data", data, "--outcome", "stay_day"], 65, "the nearest name is `stay_days`"),
        (&["--consolidation", "median"], 2, "expected pivot, refine, geomed"),
        (&["--workers", "300"], 65, "... and 295 more workers"),
    ] {
        let (found, text, _) = demo(folder.path(), arguments);
        assert_eq!(found, code, "{text}");
        assert!(text.contains(says), "{text} should say {says}");
    }
    assert_eq!(demo(folder.path(), &["--outcome", "bp"]).0, 0, "the outcome leaves the default features");
}

#[test]
fn the_demo_takes_the_users_file_with_levels_truth_values_and_parallel_workers() {
    let folder = tempfile::tempdir().unwrap();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/admissions.csv");
    let arguments = [
        "--data",
        data.to_str().unwrap(),
        "--outcome",
        "stay_days",
        "--features",
        "age,female,region",
        "--workers",
        "2",
        "--batch-rows",
        "100",
        "--format",
        "csv",
    ];
    let (code, text, report) = demo(folder.path(), &arguments);
    assert_eq!(code, 0, "{text}");
    let terms: Vec<&str> =
        report["coefficients"].as_array().unwrap().iter().map(|row| row["term"].as_str().unwrap()).collect();
    assert_eq!(terms, ["(Intercept)", "age", "femaleTRUE", "regionnorth", "regionsouth", "regionwest"]);
    let (again, _, second) = demo(folder.path(), &arguments);
    assert_eq!((again, &second["coefficients"]), (0, &report["coefficients"]));
}

#[test]
fn the_demo_follows_a_stream() {
    let folder = tempfile::tempdir().unwrap();
    let (code, text, report) = demo(folder.path(), &["--online", "--batch-rows", "20", "--window", "5"]);
    assert_eq!(code, 0, "{text}");
    assert_eq!(report["course"]["arrivals"], 21);
    assert!(text.contains("21 estimates arrived"), "{text}");
}
