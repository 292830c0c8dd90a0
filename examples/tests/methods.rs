//! Models with something hidden, random features and streams, as real processes over mutual TLS: plain, and over ledgers.

// Test code may unwrap: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod ends;
mod ledgers;
mod sites;

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use ledgers::{hold, let_go, records, stored};
use rusqlite::{Connection, OpenFlags};
use serde_json::Value;
use sites::{DEMO, PATIENCE, Running, WORKERS, World, table};

fn demo(out: &Path, arguments: &[&str]) -> (i32, String, Value) {
    let output = Command::new(DEMO).args(arguments).arg("--out").arg(out).output().unwrap();
    let report = fs::read_to_string(out.join("report.json")).unwrap_or_default();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output.status.code().unwrap_or(-1), text, serde_json::from_str(&report).unwrap_or_default())
}

/// Distance of the estimates from the coefficients of the shipped data, up to the sign.
fn distance(report: &Value) -> f64 {
    let truth = [1.5, -1.0, 0.5, 1.0];
    let rows = report["coefficients"].as_array().unwrap();
    let from = |sign: f64| {
        let square = |(row, truth): (&Value, f64)| (row["estimate"].as_f64().unwrap() - sign * truth).powi(2);
        rows.iter().zip(truth).map(square).sum::<f64>().sqrt()
    };
    from(1.0).min(from(-1.0))
}

#[test]
fn the_demo_finds_what_is_hidden_in_all_three_models() {
    let folder = tempfile::tempdir().unwrap();
    for (model, most) in [("gmm", 0.15), ("mrm", 0.15), ("rmc", 0.15)] {
        let (code, text, report) = demo(folder.path(), &["em", "--model", model]);
        assert_eq!(code, 0, "{text}");
        assert!(distance(&report) < most, "{model}: {text}");
        assert_eq!((report["termination"].as_str(), report["rounds"].as_u64()), (Some("fixed_rounds"), Some(22)));
        assert!(text.contains("the shipped data were made with beta"), "{text}");
        assert_eq!(report["course"]["points"].as_array().unwrap().len(), 23, "the start and every round");
        let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
        assert!(page.contains("Coefficients over the rounds"), "the picture of the path");
    }
    let (code, text, report) =
        demo(folder.path(), &["em", "--update", "direct", "--estimator", "none", "--workers", "2"]);
    assert!(code == 0 && distance(&report) < 0.15, "{text}");
}

#[test]
fn private_rehearsals_charge_every_worker_once_and_say_so() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, releases) in [
        (&["em", "--rounds", "5"][..], 5),
        (&["em", "--model", "mrm", "--rounds", "4", "--estimator", "catoni"], 4),
        (&["features", "--count", "20"], 1),
        (&["features", "--count", "20", "--release", "output"], 1),
        (&["stream", "--grid", "12"], 1),
    ] {
        let arguments = [arguments, &["--mode", "private", "--epsilon", "3", "--workers", "2"]].concat();
        let (code, text, report) = demo(folder.path(), &arguments);
        assert_eq!(code, 0, "{arguments:?}: {text}");
        assert_eq!((report["mode"].as_str(), report["converged"].as_bool()), (Some("private"), None));
        assert_eq!(report["privacy"]["epsilon"], 3.0);
        let unit = match arguments[0] {
            "stream" => "protected: one record of a site's stream, replaced by any other record",
            _ => "protected: one person's row at a site, replaced by any other row",
        };
        assert!(text.contains(unit) && !text.contains("this party's block"), "{text}");
        // Every rehearsal begins with its whole budget, and every report says so.
        let remark = "rehearsal: earlier rehearsals on these data are not counted";
        for place in ["", "coordinator/", "worker-1/", "worker-2/"] {
            for kind in ["json", "txt", "html"] {
                let report = fs::read_to_string(folder.path().join(format!("{place}report.{kind}"))).unwrap();
                let flat = report.split_whitespace().collect::<Vec<_>>().join(" ");
                assert_eq!(flat.matches(remark).count(), 1, "{place}report.{kind}: {report}");
            }
        }
        let ledger = folder.path().join("worker-1/privacy.sqlite");
        assert_eq!(stored(&ledger, "sent/%").len(), releases, "{arguments:?}");
        let sites = report["privacy"]["sites"].as_object().unwrap();
        assert_eq!(sites.keys().collect::<Vec<_>>(), ["worker-1", "worker-2"]);
        assert!(sites.values().all(|site| site["releases"].as_array().unwrap().len() == releases), "{sites:?}");
        assert!(text.contains("worker-2: ") && text.contains("charged at each site: "), "{text}");
        let text = fs::read_to_string(folder.path().join("worker-1/report.json")).unwrap();
        let privacy = &serde_json::from_str::<Value>(&text).unwrap()["privacy"];
        assert!(unit.ends_with(privacy["unit"].as_str().unwrap()), "{privacy}");
        assert!(!privacy["not_protected"].as_str().unwrap().contains("matched"), "{privacy}");
        assert_eq!(privacy["releases"].as_array().unwrap().len(), releases);
        // What each release cost, from its sensitivity and noise alone: never more than was charged, which is what may be spent.
        let square = |receipt: &Value| receipt["mu"].as_f64().unwrap().powi(2);
        let sum: f64 = privacy["releases"].as_array().unwrap().iter().map(square).sum();
        let (charge, cap) = (privacy["charge"].as_f64().unwrap(), privacy["cap"].as_f64().unwrap());
        assert!(sum <= charge && charge <= cap && sum > 0.999 * cap, "{sum} {charge} {cap}");
        assert_eq!(records(&ledger).iter().filter(|body| body.contains("\"kind\":\"reserved\"")).count(), 1);
        // Nothing un-noised is declared, and the coordinator spends nothing of its own.
        assert_eq!(report["disclosure"]["declared"].as_array().unwrap().len(), 0);
    }
}

#[test]
fn the_function_of_a_run_predicts_and_belongs_to_its_study_alone() {
    let folder = tempfile::tempdir().unwrap();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/costs.csv");
    let data = data.to_str().unwrap();
    let (code, text, report) = demo(folder.path(), &["features", "--predict", data]);
    assert_eq!(code, 0, "{text}");
    let predictions = fs::read_to_string(folder.path().join("predictions.csv")).unwrap();
    assert_eq!(predictions.lines().count(), 3001);
    let note = report["notes"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .find(|note| note.contains("rows that no worker had"));
    let numbers: Vec<f64> = note
        .unwrap()
        .split_whitespace()
        .filter_map(|word| word.trim_end_matches(';').parse().ok())
        .filter(|number| *number < 1.0)
        .collect();
    assert!(numbers[0] < 0.2 * numbers[1], "the function explains most of the cost: {numbers:?}");
    let predict = |report: &str, study: &str| {
        let place = |name: &str| folder.path().join(name).display().to_string();
        let output = Command::new(DEMO)
            .args(["--role", "worker", "predict", "--data", data, "--report", &place(report), "--study", &place(study)])
            .output()
            .unwrap();
        (output.status.code().unwrap(), [output.stdout, output.stderr].concat())
    };
    let (code, same) = predict("worker-1/report.json", "study.toml");
    assert_eq!(code, 0);
    assert_eq!(String::from_utf8(same).unwrap(), predictions, "a worker's report predicts what the merged one does");
    let study = fs::read_to_string(folder.path().join("study.toml")).unwrap();
    fs::write(folder.path().join("other.toml"), study.replace("count = 50", "count = 48")).unwrap();
    let (code, said) = predict("report.json", "other.toml");
    let said = String::from_utf8(said).unwrap();
    assert!(code == 77 && said.contains("the features belong to study"), "{code} {said}");
    let (code, text, _) = demo(&folder.path().join("em"), &["em", "--rounds", "1"]);
    assert_eq!(code, 0, "{text}");
    let (code, said) = predict("em/report.json", "em/study.toml");
    let said = String::from_utf8(said).unwrap();
    assert!(code == 65 && said.contains("there is no outcome to predict"), "{code} {said}");
}

#[test]
fn rehearsals_that_cannot_be_are_refused_with_the_flag_that_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let data = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(name).display().to_string();
    let (points, costs, wave) = (data("two_groups.csv"), data("costs.csv"), data("wave.csv"));
    for (arguments, code, says) in [
        (&["em", "--data", &points][..], 2, "--data needs --sigma: a number that is known from outside the data"),
        (&["em", "--data", &points, "--sigma", "1"], 2, "--data needs --tau"),
        (&["em", "--sigma", "1", "--tau", "0.5"], 2, "`em.tau` must be greater than sigma squared"),
        (&["em", "--start", "9,0,0,0"], 2, "the start must be nonzero and at most"),
        (&["em", "--start", "1,0"], 2, "expected 4 values in the start"),
        (&["em", "--outcome", "a"], 2, "has points and no outcome"),
        (&["em", "--model", "mrm", "--data", &points, "--sigma", "1", "--tau", "5"], 2, "--data needs --outcome"),
        (&["em", "--columns", "a,x"], 65, "there is no column `x`"),
        (&["em", "--mode", "private", "--estimator", "none"], 2, "which bounds nothing"),
        (&["em", "--mode", "private", "--delta", "0.1"], 77, "delta"),
        (&["em", "--delta", "1e-5"], 2, "--delta needs --mode private"),
        (&["stream", "--accountant", "zcdp"], 2, "--accountant needs --mode private"),
        (&["features", "--epsilon", "1"], 2, "--epsilon needs --mode private"),
        (&["features", "--holdout", "1"], 2, "--holdout must be below 1"),
        (&["robust", "--bounds", "b.toml"], 2, "--bounds needs --mode private"),
        (&["em", "--mode", "sealed"], 2, "--mode sealed is between parties with different columns"),
        (&["robust", "--mode", "sealed"], 2, "--mode sealed is between parties with different columns"),
        (&["features", "--mode", "sealed"], 2, "--mode sealed is between parties with different columns"),
        (&["stream", "--mode", "sealed"], 2, "--mode sealed is between parties with different columns"),
        (
            &["features", "--data", &costs, "--outcome", "cost", "--mode", "private"],
            2,
            "--mode private needs --bounds FILE",
        ),
        (&["features", "--mode", "private", "--release", "none"], 2, "--release none sends statistics without noise"),
        (&["features", "--count", "7"], 2, "`features.count` must be even"),
        (
            &["stream", "--grid", "5000"],
            2,
            "5000 grid points in each of 1 covariates make a grid of 5000, more than 4096",
        ),
        (&["stream", "--mode", "private", "--loss", "squares"], 2, "least squares has no bound"),
        (&["stream", "--mode", "private", "--delta", "0.5"], 2, "`privacy.delta` must be at most 1e-3 in a stream"),
        (&["stream", "--data", &wave, "--outcome", "y", "--mode", "private"], 2, "--mode private needs --bounds FILE"),
    ] {
        let (found, text, _) = demo(folder.path(), arguments);
        assert!(found == code && text.contains(says), "{arguments:?}: {found} {text}");
    }
}

#[test]
fn a_text_identifier_is_no_feature_and_may_differ_in_every_row_if_it_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("own.csv");
    let write = |rows: usize| {
        // Noise that is nearly normal: of a flat one nobody could say whether it was cleaned.
        let noise =
            |at: usize| [7919, 104_729, 611_953, 15_485_863].map(|prime| at * prime % 101).iter().sum::<usize>();
        let line = |at: usize| format!("p-{at},{},{}\n", at % 17, 200 * (at % 17) + noise(at));
        fs::write(&file, format!("id,x,y\n{}", (0..rows).map(line).collect::<String>())).unwrap();
    };
    let run = |more: &[&str]| {
        let fixed = ["robust", "--workers", "2", "--outcome", "y", "--data", file.to_str().unwrap()];
        let (code, text, _) = demo(&folder.path().join("out"), &[&fixed[..], more].concat());
        (code, text)
    };
    for (rows, texts) in [(3000, "3000"), (10_500, "more than 10000")] {
        write(rows);
        let (code, text) = run(&[]);
        let says = format!("column `id` has {texts} different texts; is it an identifier? give --id id, or --features");
        assert!(code == 65 && text.contains(&says), "{code} {text}");
    }
    let (code, text) = run(&["--id", "id"]);
    assert_eq!(code, 0, "{text}");
    let first = fs::read_to_string(folder.path().join("out/worker-1/rows.csv")).unwrap();
    assert!(first.starts_with("x,y,id\n0.0,0.0,p-0\n"), "{first:.60}");
    let (code, text) = run(&["--id", "id", "--features", "x,id"]);
    assert!(code == 2 && text.contains("column `id` is the one of --id"), "{code} {text}");
}

/// A study of three sites in a method, plain or private.
fn study(method: &str, private: bool) -> String {
    // Batches of fifty rows are hopeless below.
    let epsilon = if method.starts_with("robust") { 8.0 } else { 1.0 };
    let privacy = format!("mode = \"private\"\n[privacy]\nepsilon = {epsilon:?}\ndelta = 1e-5\n");
    let sites: String = WORKERS.iter().map(|name| format!("[workers.{name}]\ncertificate = \"{name}\"\n")).collect();
    let (protocol, rest) = method.split_once('\n').unwrap();
    format!("id = \"sites\"\nprotocol = \"{protocol}\"\n{}{sites}{rest}", if private { &privacy } else { "" })
}

const ROUNDS: &str = r#"em
    [model]
    features = ["a", "b"]
    [outcome]
    column = "y"
    [sites]
    deadline = 50
    [em]
    model = "mrm"
    sigma = 1.0
    tau = 15.0
    rounds = 6
"#;

const BATCHES: &str = r#"robust
    [model]
    features = ["a", "b"]
    [outcome]
    column = "y"
    [columns.a]
    range = [-4, 4]
    [columns.b]
    range = [-4, 4]
    [columns.y]
    range = [-30, 30]
    [sites]
    deadline = 50
    batch_rows = 50
    [robust.private]
    rounds = 3
"#;

const STREAM: &str = r#"stream
    [model]
    features = ["a"]
    [outcome]
    column = "y"
    [columns.a]
    range = [-1, 1]
    [columns.y]
    range = [-6, 6]
    [sites]
    deadline = 50
    batch_rows = 16
    [stream]
    grid = 8
"#;

/// A world whose workers have ledgers with room for `lifetime`, in which their tables are registered.
fn ledgers(method: &str, lifetime: f64) -> World {
    let world = World::of(&study(method, true));
    for name in WORKERS {
        let text = format!(
            "[privacy]\nledger = \"{name}-state/privacy.sqlite\"\nanchor = \"anchors/{name}\"\ndata_set = \"cohort\"\nepsilon = \
             {lifetime:?}\ndelta = 1e-5\n"
        );
        world.write(&format!("{name}.toml"), &text);
        let made = command(&world, name, &["privacy", "init"]);
        assert_eq!(made.status.code(), Some(0), "{}", said(&made));
    }
    world
}

fn command(world: &World, name: &str, words: &[&str]) -> Output {
    command_to("127.0.0.1:9", world, name, words)
}

fn command_to(coordinator: &str, world: &World, name: &str, words: &[&str]) -> Output {
    Command::new(DEMO)
        .args(["--role", "worker"])
        .args(words)
        .args(["--config", &format!("{name}.toml"), "--study", "study.toml", "--coordinator", coordinator])
        .args(["--data", &format!("{name}.csv"), "--state", &format!("{name}-state"), "--authority", "authority.pem"])
        .args(["--certificate", &format!("{name}.pem"), "--key", &format!("{name}.key")])
        .current_dir(world.path(""))
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn private_worker(world: &World, name: &str) -> Running {
    world.worker(name, &["--config", &format!("{name}.toml")])
}

fn ledger(world: &World, name: &str) -> PathBuf {
    world.path(&format!("{name}-state/privacy.sqlite"))
}

fn eventually(mut holds: impl FnMut() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_worker_killed_between_rounds_goes_on_with_the_same_bytes_and_is_charged_once() {
    let world = ledgers(ROUNDS, 1.0);
    let south = ledger(&world, "south");
    // Hangs when it has stored two releases and is about to start the third.
    hold(
        &south,
        "records WHEN json_extract(NEW.body, '$.kind') = 'stored' AND json_extract(NEW.body, '$.receipt.index') = 2",
    );
    let coordinator = world.coordinator(&["--wait", "60"]);
    let others = ["north", "west"].map(|name| private_worker(&world, name));
    let running = private_worker(&world, "south");
    eventually(|| {
        records(&south).last().is_some_and(|body| body.contains("\"index\":1,") && body.contains("\"stored\""))
    });
    world.wait_for_contributions("south", 2);
    running.kill();
    let_go(&south);
    let before = stored(&south, "sent/%");
    let running = private_worker(&world, "south");
    for worker in others.into_iter().chain([running]) {
        let ended = worker.end();
        assert_eq!(ended.code, 0, "{}", ended.log);
    }
    assert_eq!(coordinator.end().code, 0);
    let after = stored(&south, "sent/%");
    assert_eq!((before.len(), after.len()), (2, 6));
    assert_eq!(after[..2], before[..], "what was stored has changed");
    assert_eq!(records(&south).iter().filter(|body| body.contains("\"kind\":\"reserved\"")).count(), 1);
    let report = world.report("coordinator");
    assert_eq!((report["rounds"].as_u64(), report["termination"].as_str()), (Some(6), Some("fixed_rounds")));
    assert!(report["workers"].as_array().unwrap().iter().all(|row| row["contributions"] == 6 && row["rejected"] == 0));
    let own = world.report("south");
    assert_eq!(own["privacy"]["releases"].as_array().unwrap().len(), 6);
    assert!(own["privacy"]["left"].as_f64().unwrap() < 1e-6 * own["privacy"]["cap"].as_f64().unwrap());
    // What the report says was released is what the ledger lists, run by run.
    let listed = json(&command(&world, "south", &["privacy", "report", "--format", "json"]));
    assert_eq!(listed[0]["releases"], own["privacy"]["releases"]);
    let run = listed[0]["run"].as_str().unwrap();
    assert_eq!((listed.as_array().unwrap().len(), own["run"].as_str()), (1, Some(run)));
    let text = said(&command(&world, "south", &["privacy", "report", "--run", run]));
    assert!(
        text.starts_with(&format!("run {run}\n")) && text.contains("  5  sum of gradients, round 6: sensitivity "),
        "{text}"
    );
    let unknown = command(&world, "south", &["privacy", "report", "--run", "elsewhere"]);
    assert!(unknown.status.code() != Some(0) && said(&unknown).contains("elsewhere"), "{}", said(&unknown));
    // There is no budget for a second run, and nothing of it is spent or sent.
    let coordinator = world.coordinator(&[]);
    // A third would find no coordinator any more: without two of three there is no quorum.
    for ended in ["north", "south"].map(|name| private_worker(&world, name)).map(Running::end) {
        assert!(ended.code == 77 && ended.log.contains("budget"), "{} {}", ended.code, ended.log);
    }
    assert_eq!(coordinator.end().code, 69);
    assert_eq!(stored(&south, "sent/%").len(), 6);
}

#[test]
fn a_worker_killed_within_a_private_batch_goes_on_with_the_same_bytes_and_all_batches_cost_as_much_as_one() {
    let world = ledgers(BATCHES, 8.0);
    let planned = said(&command(&world, "north", &["privacy", "plan"]));
    assert!(planned.contains("8 releases of every batch") && planned.contains("1 such runs still fit"), "{planned}");
    let south = ledger(&world, "south");
    // Hangs when it has sent the first batch and stored three releases of the second.
    hold(
        &south,
        "records WHEN json_extract(NEW.body, '$.kind') = 'stored' AND json_extract(NEW.body, '$.receipt.index') = 11",
    );
    let coordinator = world.coordinator(&["--wait", "60"]);
    let others = ["north", "west"].map(|name| private_worker(&world, name));
    let running = private_worker(&world, "south");
    world.wait_for_contributions("south", 1);
    eventually(|| stored(&south, "sent/%").len() == 11);
    running.kill();
    let_go(&south);
    let before = stored(&south, "sent/%");
    let running = private_worker(&world, "south");
    for worker in others.into_iter().chain([running]) {
        let ended = worker.end();
        assert!([0, 3].contains(&ended.code), "{} {}", ended.code, ended.log);
    }
    assert!([0, 3].contains(&coordinator.end().code));
    let after = stored(&south, "sent/%");
    assert_eq!((before.len(), after.len()), (11, 16));
    assert!(before.iter().all(|bytes| after.contains(bytes)), "what was stored has changed");
    assert_eq!(records(&south).iter().filter(|body| body.contains("\"kind\":\"reserved\"")).count(), 1);
    let report = world.report("coordinator");
    assert_eq!(report["batches"].as_array().unwrap().len(), 6);
    let own = world.report("south");
    let releases = own["privacy"]["releases"].as_array().unwrap();
    assert_eq!((releases.len(), releases[8]["label"].as_str()), (16, Some("part 2: X'X")));
    let sum: f64 = releases[..8].iter().map(|release| release["mu"].as_f64().unwrap().powi(2)).sum();
    let spent = own["privacy"]["spent"].as_f64().unwrap();
    assert!((sum - spent).abs() < 1e-9 * spent, "{sum} {spent}");
    // The data set's budget is used up: a second run is refused.
    let coordinator = world.coordinator(&[]);
    let codes = WORKERS.map(|name| private_worker(&world, name)).map(|worker| worker.end().code);
    assert!(codes.contains(&77), "{codes:?}");
    assert_eq!(coordinator.end().code, 69);
    assert_eq!(stored(&south, "sent/%").len(), 16);
}

#[test]
fn a_plan_says_what_error_to_expect_and_warns_before_anything_is_spent() {
    let world = ledgers(BATCHES, 8.0);
    let planned = said(&command(&world, "north", &["privacy", "plan", "--rows", "30"]));
    for words in [
        "Expected (norm of the coefficients of unit rows), of 3 sites with 30 rows each",
        "noise of one batch",
        "Warning: for this design exchanging nothing would do as well or better",
        "Nothing was spent.",
    ] {
        assert!(planned.contains(words), "{words}: {planned}");
    }
    // Rows of the table where none are named: it has as many.
    let own: Value = json(&command(&world, "north", &["privacy", "plan", "--format", "json"]));
    let many: Value = json(&command(&world, "north", &["privacy", "plan", "--rows", "100000", "--format", "json"]));
    let noise = |planned: &Value| planned["expected"]["noise"]["half_ranges"].as_f64().unwrap();
    assert_eq!(own["expected"]["rows"], 100, "{own}");
    assert!(noise(&many) < 0.05 * noise(&own), "{many}");
    assert_eq!(many["expected"]["batches"].as_u64().unwrap() % 3, 0);
    assert!(said(&command(&world, "north", &["privacy", "status"])).contains("spent      0.000000"));
    // What would be refused is not foretold.
    let few = command(&world, "north", &["privacy", "plan", "--rows", "2"]);
    assert!(
        said(&few).contains("No error is foretold: a run of this number of rows would be refused"),
        "{}",
        said(&few)
    );
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", said(output)))
}

#[test]
fn rows_of_one_person_are_refused_beyond_the_declared_maximum_and_charged_up_to_it() {
    let world = |most: u32| {
        let more = format!("[rows]\nid = \"id\"\n[sites]\nrows_per_person = {most}");
        let world = World::of(&study(&BATCHES.replace("[sites]", &more), true));
        for name in WORKERS {
            let text = fs::read_to_string(world.path(&format!("{name}.csv"))).unwrap();
            let mut lines = text.lines();
            let header = format!("{},id", lines.next().unwrap());
            // Two rows each, the second of them in another batch.
            let count = lines.clone().count();
            let rows = lines.enumerate().map(|(row, line)| format!("{line},p{}", row % count.div_ceil(2)));
            let rows: Vec<String> = std::iter::once(header).chain(rows).collect();
            world.write(&format!("{name}.csv"), &(rows.join("\n") + "\n"));
            let text = format!(
                "[privacy]\nledger = \"{name}-state/privacy.sqlite\"\nanchor = \"anchors/{name}\"\ndata_set = \"cohort\"\nepsilon = \
                 8.0\ndelta = 1e-5\n"
            );
            world.write(&format!("{name}.toml"), &text);
        }
        world
    };
    let strict = world(1);
    let refused = command(&strict, "south", &["privacy", "init"]);
    assert!(
        refused.status.code() == Some(65) && said(&refused).contains("rows") && !said(&refused).contains("p1"),
        "{}",
        said(&refused)
    );
    let world = world(2);
    for name in WORKERS {
        let made = command(&world, name, &["privacy", "init"]);
        assert_eq!(made.status.code(), Some(0), "{}", said(&made));
    }
    let coordinator = world.coordinator(&["--wait", "60"]);
    for worker in WORKERS.map(|name| private_worker(&world, name)) {
        let ended = worker.end();
        assert!([0, 3].contains(&ended.code), "{} {}", ended.code, ended.log);
    }
    assert!([0, 3].contains(&coordinator.end().code));
    let own = &world.report("south")["privacy"];
    assert!(own["unit"].as_str().unwrap().contains("at most 2"), "{own}");
    // One batch's releases, for a person with two rows: four times the sum of one row.
    let releases = own["releases"].as_array().unwrap();
    let first = releases.iter().filter(|release| release["label"].as_str().unwrap().starts_with("part 1: "));
    let sum: f64 = first.map(|release| release["mu"].as_f64().unwrap().powi(2)).sum();
    let (spent, charge) = (own["spent"].as_f64().unwrap(), own["charge"].as_f64().unwrap());
    assert!(
        (4.0 * sum - spent).abs() < 1e-9 * spent && (charge - spent).abs() < 1e-9 * spent,
        "{sum} {spent} {charge}"
    );
}

#[test]
fn an_interrupted_run_goes_on_with_the_same_rows_in_the_same_places_only() {
    let world = ledgers(&BATCHES.replace("[sites]", "[sites]\n    quorum = 1"), 8.0);
    let south = ledger(&world, "south");
    hold(
        &south,
        "records WHEN json_extract(NEW.body, '$.kind') = 'stored' AND json_extract(NEW.body, '$.receipt.index') = 10",
    );
    let coordinator = world.coordinator(&["--wait", "60"]);
    let running = private_worker(&world, "south");
    eventually(|| stored(&south, "sent/%").len() == 10);
    running.kill();
    let_go(&south);
    // The same persons, of whom some would be in another batch.
    let text = fs::read_to_string(world.path("south.csv")).unwrap();
    let (header, rows) = text.split_once('\n').unwrap();
    let reversed: Vec<&str> = rows.lines().rev().collect();
    world.write("south.csv", &format!("{header}\n{}\n", reversed.join("\n")));
    let ended = private_worker(&world, "south").end();
    assert!(ended.code == 77 && ended.log.contains("the data have changed since run"), "{} {}", ended.code, ended.log);
    assert_eq!(stored(&south, "sent/%").len(), 10, "nothing was released of rows in other places");
    coordinator.kill();
}

#[test]
fn a_workers_policy_of_fewest_rows_holds_in_every_protocol() {
    let world = ledgers(ROUNDS, 1.0);
    let strict = fs::read_to_string(world.path("west.toml")).unwrap() + "[policy]\nmin_rows = 5000\n";
    world.write("west.toml", &strict);
    let coordinator = world.coordinator(&["--wait", "1"]);
    let others = ["north", "south"].map(|name| private_worker(&world, name));
    let ended = private_worker(&world, "west").end();
    assert!(ended.code == 77 && ended.log.contains("asks for at least 5000 rows"), "{} {}", ended.code, ended.log);
    assert!(stored(&ledger(&world, "west"), "sent/%").is_empty());
    for worker in others {
        assert_eq!(worker.end().code, 0);
    }
    assert_eq!(coordinator.end().code, 0);
}

#[test]
fn a_worker_whose_table_is_broken_in_its_form_looks_like_one_that_never_came() {
    let world = ledgers(ROUNDS, 1.0);
    let text = fs::read_to_string(world.path("north.csv")).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    // The last line, so that the whole table is read first.
    for broken in [format!("{text}1,2\n"), format!("{text}\"1,2,3\n")] {
        world.write("north.csv", &broken);
        let ended = command_to(&address, &world, "north", &["join"]);
        assert_eq!(ended.status.code(), Some(65), "{}", said(&ended));
        assert!(listener.accept().is_err(), "the coordinator was contacted: {}", said(&ended));
    }
    world.write("north.csv", &text);
    std::thread::scope(|scope| {
        scope.spawn(|| command_to(&address, &world, "north", &["join", "--wait", "0"]));
        eventually(|| listener.accept().is_ok());
        // Whoever dials is hung up on, and need not wait for a handshake.
        drop(listener);
    });
}

#[test]
fn a_ledger_has_one_stream_whatever_its_name_and_a_plain_one_counts_for_everybody() {
    let world = ledgers(STREAM, 1.0);
    let again = command(&world, "north", &["privacy", "init", "--data-set", "again"]);
    assert_eq!(again.status.code(), Some(77), "{}", said(&again));
    assert!(said(&again).contains("a second name does not bring a second budget"), "{}", said(&again));
    let status = || said(&command(&world, "north", &["privacy", "status"]));
    assert!(status().contains("cohort: a stream of persons who are not known beforehand"), "{}", status());
    assert!(!status().contains("without privacy"), "{}", status());
    let private = fs::read_to_string(world.path("study.toml")).unwrap();
    world.write("study.toml", &study(STREAM, false));
    let coordinator = world.coordinator(&[]);
    for ended in WORKERS.map(|name| private_worker(&world, name)).map(Running::end) {
        assert_eq!(ended.code, 0, "{}", ended.log);
    }
    assert_eq!(coordinator.end().code, 0);
    world.write("study.toml", &private);
    assert!(status().contains("these persons were in a run without privacy"), "{}", status());
}

#[test]
fn rounds_that_do_not_fit_the_budget_are_refused_before_the_first() {
    let world = ledgers(ROUNDS, 0.5);
    let planned = command(&world, "north", &["privacy", "plan"]);
    assert!(
        said(&planned).contains("0 such runs still fit") && said(&planned).contains("6 releases"),
        "{}",
        said(&planned)
    );
    let coordinator = world.coordinator(&[]);
    let codes = ["north", "south"].map(|name| private_worker(&world, name)).map(|worker| worker.end().code);
    assert_eq!(codes, [77, 77]);
    let ended = coordinator.end();
    assert!(
        ended.code == 69 && ended.log.contains("nobody was ready; nothing was asked"),
        "{} {}",
        ended.code,
        ended.log
    );
    for name in WORKERS {
        assert!(stored(&ledger(&world, name), "sent/%").is_empty());
        assert!(said(&command(&world, name, &["privacy", "status"])).contains("spent      0.000000"));
    }
    // Nor does a worker take part whose policy allows less, or who has no ledger.
    let strict = fs::read_to_string(world.path("west.toml")).unwrap() + "[policy]\nmax_epsilon = 0.9\n";
    world.write("west.toml", &strict);
    let west = command(&world, "west", &["join"]);
    assert!(
        west.status.code() == Some(77) && said(&west).contains("this worker's policy allows 0.9"),
        "{}",
        said(&west)
    );
}

/// Words of a worker that holds its budget back.
const READY: &str = "nothing is spent or sent before the quorum of 3 workers is there";

fn of_three(method: &str, deadline: u64) -> String {
    method.replace("deadline = 50", &format!("deadline = {deadline}\n    quorum = 3"))
}

/// Asserts that a ledger knows its data set and nothing else, and that its owner is told so.
fn assert_untouched(world: &World, name: &str) {
    let bodies = records(&ledger(world, name));
    assert_eq!(bodies.len(), 2, "{bodies:?}");
    assert!(stored(&ledger(world, name), "sent/%").is_empty());
    let status = said(&command(world, name, &["privacy", "status"]));
    assert!(status.contains("spent      0.000000"), "{status}");
}

#[test]
fn a_quorum_that_never_comes_costs_the_private_workers_that_came_nothing() {
    let worlds = [ROUNDS, BATCHES, STREAM].map(|method| {
        let world = ledgers(&of_three(method, 2), 8.0);
        let coordinator = world.coordinator(&[]);
        let workers = ["north", "south"].map(|name| private_worker(&world, name));
        (world, coordinator, workers)
    });
    for (world, coordinator, workers) in worlds {
        let ended = coordinator.end();
        let says = "the quorum of 3 workers was not reached: only north, south were ready; nothing was asked of anybody; the run was \
                    ended at its deadline, 2 s after it was opened; west never came";
        assert!(ended.code == 69 && ended.log.contains(says), "{} {}", ended.code, ended.log);
        for worker in workers {
            let ended = worker.end();
            assert!(ended.code == 69 && ended.log.contains(says), "{} {}", ended.code, ended.log);
            assert!(ended.log.contains("nothing was reserved for this run, and nothing was sent"), "{}", ended.log);
        }
        ["north", "south"].iter().for_each(|name| assert_untouched(&world, name));
    }
}

#[test]
fn killed_processes_wait_for_the_quorum_again_and_every_worker_is_charged_once() {
    let world = ledgers(&of_three(ROUNDS, 50), 1.0);
    let first = world.coordinator(&["--wait", "60"]);
    let north = private_worker(&world, "north");
    let south = private_worker(&world, "south");
    [&north, &south].iter().for_each(|worker| worker.wait_for(READY));
    south.kill();
    let south = private_worker(&world, "south");
    south.wait_for(READY);
    let status = || {
        let place = ["--authority", "authority.pem", "--certificate", "coordinator.pem", "--key", "coordinator.key"];
        let words = ["--role", "coordinator", "status", "--study", "study.toml", "--listen", &world.address];
        Command::new(DEMO).args(words).args(place).current_dir(world.path("")).output().unwrap()
    };
    assert!(status().status.code() == Some(75), "nobody is asked yet: {}", said(&status()));
    first.kill();
    let second = world.coordinator(&["--wait", "60"]);
    ["north", "south"].iter().for_each(|name| assert_untouched(&world, name));
    let west = private_worker(&world, "west");
    for worker in [north, south, west] {
        let ended = worker.end();
        assert_eq!(ended.code, 0, "{}", ended.log);
    }
    let ended = second.end();
    assert!(ended.code == 0 && ended.log.contains("the quorum is there"), "{}", ended.log);
    let rows = world.report("coordinator")["workers"].as_array().unwrap().clone();
    assert!(rows.iter().all(|row| row["contributions"] == 6 && row["rejected"] == 0), "{rows:?}");
    for name in WORKERS {
        let charges = records(&ledger(&world, name));
        assert_eq!(charges.iter().filter(|body| body.contains("\"kind\":\"reserved\"")).count(), 1);
        assert_eq!(stored(&ledger(&world, name), "sent/%").len(), 6);
    }
}

#[test]
fn a_worker_without_budget_is_refused_before_the_others_spend_any() {
    let world = ledgers(&of_three(ROUNDS, 50), 1.0);
    let text = fs::read_to_string(world.path("west.toml")).unwrap().replace("epsilon = 1.0", "epsilon = 0.5");
    world.write("west.toml", &text.replace("privacy.sqlite", "small.sqlite").replace("anchors/west", "others/small"));
    let made = command(&world, "west", &["privacy", "init"]);
    assert_eq!(made.status.code(), Some(0), "{}", said(&made));
    let coordinator = world.coordinator(&[]);
    let others = ["north", "south"].map(|name| private_worker(&world, name));
    others.iter().for_each(|worker| worker.wait_for(READY));
    let west = private_worker(&world, "west").end();
    assert!(west.code == 77 && west.log.contains("the budget of data set"), "{} {}", west.code, west.log);
    for worker in others {
        let ended = worker.end();
        assert!(ended.code == 69 && ended.log.contains("west left (77)"), "{} {}", ended.code, ended.log);
    }
    assert_eq!(coordinator.end().code, 69);
    ["north", "south"].iter().for_each(|name| assert_untouched(&world, name));
}

#[test]
fn a_plain_run_in_rounds_whose_quorum_never_comes_is_not_recorded_as_an_unbounded_charge() {
    let world = ledgers(&of_three(ROUNDS, 1), 1.0);
    world.write("study.toml", &study(&of_three(ROUNDS, 1), false));
    let coordinator = world.coordinator(&[]);
    let north = private_worker(&world, "north").end();
    assert_eq!((north.code, coordinator.end().code), (69, 69), "{}", north.log);
    assert_untouched(&world, "north");
}

#[test]
fn a_worker_killed_within_a_release_makes_it_under_the_same_reservation() {
    let world = ledgers(ROUNDS, 1.0);
    let south = ledger(&world, "south");
    // Hangs when the third release has its noise, and is about to be stored.
    hold(&south, "bytes WHEN NEW.name LIKE 'sent/%/2'");
    let coordinator = world.coordinator(&["--wait", "60"]);
    let others = ["north", "west"].map(|name| private_worker(&world, name));
    let running = private_worker(&world, "south");
    world.wait_for_contributions("south", 2);
    running.kill();
    let_go(&south);
    let before = stored(&south, "sent/%");
    assert_eq!(before.len(), 2);
    let ended = private_worker(&world, "south").end();
    assert_eq!(ended.code, 0, "{}", ended.log);
    let after = stored(&south, "sent/%");
    assert_eq!((after.len(), &after[..2]), (6, &before[..]), "what was stored has changed");
    for worker in others {
        let ended = worker.end();
        assert_eq!(ended.code, 0, "{}", ended.log);
    }
    assert_eq!(coordinator.end().code, 0);
    let contributions: Vec<u64> = world.report("coordinator")["workers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["contributions"].as_u64().unwrap())
        .collect();
    assert_eq!(contributions, [6, 6, 6]);
    let charges = records(&south).iter().filter(|body| body.contains("\"kind\":\"reserved\"")).count();
    assert_eq!(charges, 1);
    assert_eq!(command(&world, "south", &["privacy", "verify"]).status.code(), Some(0));
}

#[test]
fn a_worker_killed_again_and_again_loses_neither_its_run_nor_its_budget() {
    let world = ledgers(BATCHES, 8.0);
    let south = ledger(&world, "south");
    let coordinator = world.coordinator(&["--wait", "60"]);
    let others = ["north", "west"].map(|name| private_worker(&world, name));
    let charges = || records(&south).iter().filter(|body| body.contains("\"kind\":\"reserved\"")).count();
    let mut before = Vec::new();
    // Each time when this release has its noise, and is about to be stored: of the first batch, between the batches, the last one.
    for index in [0, 3, 8, 15] {
        hold(&south, &format!("bytes WHEN NEW.name LIKE 'sent/%/{index}'"));
        let running = private_worker(&world, "south");
        eventually(|| charges() == 1 && stored(&south, "sent/%").len() == index);
        running.kill();
        let_go(&south);
        let after = stored(&south, "sent/%");
        assert!(before.iter().all(|bytes| after.contains(bytes)), "what was stored has changed");
        before = after;
    }
    for worker in others.into_iter().chain([private_worker(&world, "south")]) {
        let ended = worker.end();
        assert!([0, 3].contains(&ended.code), "{} {}", ended.code, ended.log);
    }
    assert!([0, 3].contains(&coordinator.end().code));
    assert_eq!((charges(), stored(&south, "sent/%").len()), (1, 16));
    assert_eq!(world.report("coordinator")["batches"].as_array().unwrap().len(), 6);
}

#[test]
fn a_workers_report_that_cannot_be_written_is_written_by_the_next_start_and_nothing_is_charged_again() {
    let world = ledgers(ROUNDS, 1.0);
    // The folder can be written, and the report cannot.
    let report = world.path("south/report.json");
    fs::create_dir_all(report.join("in the way")).unwrap();
    let coordinator = world.coordinator(&[]);
    let others = ["north", "west"].map(|name| private_worker(&world, name));
    let ended = private_worker(&world, "south").end();
    assert_eq!(ended.code, 73, "{}", ended.log);
    assert_eq!(coordinator.end().code, 0);
    others.into_iter().for_each(|worker| assert_eq!(worker.end().code, 0));
    let before = records(&ledger(&world, "south"));
    fs::remove_dir_all(&report).unwrap();
    let ended = private_worker(&world, "south").end();
    assert_eq!(ended.code, 0, "{}", ended.log);
    assert!(ended.log.contains("nobody is contacted"), "{}", ended.log);
    let written: Value = serde_json::from_slice(&fs::read(&report).unwrap()).unwrap();
    assert_eq!(written["coefficients"], world.report("coordinator")["coefficients"]);
    assert!(
        written["privacy"]["releases"].as_array().is_some_and(|releases| releases.len() == 6),
        "{}",
        written["privacy"]
    );
    let after = records(&ledger(&world, "south"));
    assert_eq!(after.len(), before.len() + 1, "only its end is new");
    assert!(after.last().unwrap().contains("finished"));
    assert_private(&world, &["south", "south-state", "anchors", "coordinator", "coordinator-state"]);
}

/// Everything that was written in these folders is for its owner alone.
#[cfg(unix)]
fn assert_private(world: &World, folders: &[&str]) {
    use std::os::unix::fs::PermissionsExt;
    let mut seen = Vec::new();
    for folder in folders {
        for file in fs::read_dir(world.path(folder)).unwrap().map(Result::unwrap) {
            let about = file.metadata().unwrap();
            assert!(!about.is_file() || about.permissions().mode() & 0o077 == 0, "{}", file.path().display());
            seen.push(file.file_name().into_string().unwrap());
        }
    }
    for name in ["report.json", "privacy.sqlite", "runs.jsonl", "run.sqlite"] {
        assert!(seen.iter().any(|known| known == name), "{name}: {seen:?}");
    }
}

#[cfg(not(unix))]
fn assert_private(_: &World, _: &[&str]) {}

#[test]
fn a_worker_that_dies_in_the_middle_is_done_without_and_its_budget_stays_spent() {
    let world = ledgers(ROUNDS, 1.0);
    let south = ledger(&world, "south");
    hold(
        &south,
        "records WHEN json_extract(NEW.body, '$.kind') = 'stored' AND json_extract(NEW.body, '$.receipt.index') = 3",
    );
    let coordinator = world.coordinator(&["--wait", "2"]);
    let others = ["north", "west"].map(|name| private_worker(&world, name));
    let running = private_worker(&world, "south");
    world.wait_for_contributions("south", 3);
    running.kill();
    for worker in others {
        let ended = worker.end();
        assert_eq!(ended.code, 0, "{}", ended.log);
    }
    assert_eq!(coordinator.end().code, 0);
    let report = world.report("coordinator");
    assert_eq!(report["rounds"], 6);
    let contributions: Vec<u64> =
        report["workers"].as_array().unwrap().iter().map(|row| row["contributions"].as_u64().unwrap()).collect();
    assert_eq!(contributions, [6, 3, 6]);
    assert_eq!(report["nobs"], 200, "of the two that were there in the last round");
    let_go(&south);
    assert!(said(&command(&world, "south", &["privacy", "status"])).contains("left 0.000000"));
    assert_eq!(command(&world, "south", &["privacy", "verify"]).status.code(), Some(0));
}

#[test]
fn columns_that_a_model_needs_and_rows_that_cannot_be_used_are_found_by_check() {
    let world = World::of(&study(ROUNDS, false));
    world.write("north.toml", "");
    world.write("north.csv", "a,y\n1,2\n");
    let checked = command(&world, "north", &["check"]);
    assert!(checked.status.code() == Some(65) && said(&checked).contains("no column `b`"), "{}", said(&checked));
    world.write("north.csv", "a,b,y\n1,2,3\n1,two,3\n");
    let checked = command(&world, "north", &["check"]);
    assert!(checked.status.code() == Some(65) && said(&checked).contains("line 3"), "{}", said(&checked));
    let world = ledgers(ROUNDS, 1.0);
    let checked = command(&world, "north", &["check"]);
    assert_eq!(checked.status.code(), Some(0), "{}", said(&checked));
    assert!(said(&checked).contains("sums of gradients with noise"), "{}", said(&checked));
}

#[test]
fn a_table_of_which_no_batch_can_be_fitted_is_refused_by_check() {
    let robust = "robust\n[model]\nfeatures = [\"a\", \"b\"]\n[outcome]\ncolumn = \"y\"\n[sites]\nbatch_rows = 20\n";
    let world = World::of(&study(robust, false));
    world.write("north.toml", "");
    let rows = |b: fn(usize) -> usize| {
        (0..40).fold("a,b,y\n".to_string(), |text, at| format!("{text}{},{},{}\n", at % 7, b(at), at % 5))
    };
    for (table, says) in [
        (
            "a,b,y\n1,2,3\n4,5,6\n".to_string(),
            "no batch could be fitted: batch 0 (line 2 to line 3): expected at least 9",
        ),
        (rows(|_| 3), "no batch could be fitted: batch 0 (line 2 to line 21): "),
    ] {
        world.write("north.csv", &table);
        let checked = command(&world, "north", &["check"]);
        assert!(checked.status.code() == Some(65) && said(&checked).contains(says), "{}", said(&checked));
    }
    world.write("north.csv", &rows(|at| if at < 20 { 3 } else { at % 3 }));
    let checked = command(&world, "north", &["check"]);
    assert_eq!(checked.status.code(), Some(0), "one of two batches can be fitted: {}", said(&checked));
}

#[test]
fn a_private_stream_sends_noise_for_records_that_cannot_be_used_and_for_persons_with_too_many() {
    let world = ledgers(&STREAM.replace("[sites]", "[rows]\nid = \"who\"\n[sites]"), 1.0);
    let mut text = String::from("who,a,y\n");
    for (at, line) in table(1, 60).lines().skip(1).enumerate() {
        let cells: Vec<&str> = line.split(',').collect();
        // The fourth has too few cells, the sixth is no number, the ninth has no name; every fifth is Ann's.
        let who = if at % 5 == 0 { "ann".to_string() } else { format!("p{at}") };
        text.push_str(&match at {
            3 => "torn\n".to_string(),
            5 => format!("{who},much,1\n"),
            8 => format!(",{},{}\n", cells[0], cells[2]),
            _ => format!("{who},{},{}\n", if at == 11 { "7.5" } else { cells[0] }, cells[2]),
        });
    }
    world.write("north.csv", &text);
    let others = table(2, 40).lines().skip(1).enumerate().fold("who,a,y\n".to_string(), |text, (at, line)| {
        let cells: Vec<&str> = line.split(',').collect();
        format!("{text}q{at},{},{}\n", cells[0], cells[2])
    });
    world.write("south.csv", &others);
    world.write("west.csv", &others);
    let coordinator = world.coordinator(&[]);
    let workers = WORKERS.map(|name| private_worker(&world, name));
    let [north, south, west] = workers.map(Running::end);
    for ended in [&north, &south, &west] {
        assert_eq!(ended.code, 0, "{}", ended.log);
    }
    assert_eq!(coordinator.end().code, 0);
    let report = world.report("coordinator");
    assert_eq!(report["nobs"], 140, "every row has sent a message");
    // Located here, and nowhere else.
    for words in
        ["line 5: the row cannot be used", "line 7: the row cannot be used", "1 records had a covariate outside"]
    {
        assert!(north.log.contains(words), "{words}: {}", north.log);
    }
    // Eleven more of Ann's twelve (her sixth row is the one that is no number), the torn one and the one without a name.
    assert!(
        north.log.contains("13 records had no name, or were of persons with no budget left for them"),
        "{}",
        north.log
    );
    let shown = serde_json::to_string(&report).unwrap();
    assert!(!shown.contains("line 5") && !shown.contains("outside its public range"), "{shown}");
    let state = fs::read(world.path("north-state/stream.sqlite")).unwrap();
    assert!(!state.windows(3).any(|part| part == b"ann"), "a name is on disk");
}

#[test]
fn delta_is_at_most_one_over_the_records_of_a_stream_wherever_they_can_be_counted() {
    let folder = tempfile::tempdir().unwrap();
    let private = ["stream", "--mode", "private", "--delta", "0.0009"];
    let (code, text, _) = demo(folder.path(), &private);
    assert_eq!(code, 77, "{text}");
    assert!(text.contains("worker-1: delta must lie in (0, 1/n], n = 2000, got 0.0009"), "{text}");
    assert!(stored(&folder.path().join("worker-1/privacy.sqlite"), "sent/%").is_empty());
    // Registered while there were few records, and run with more.
    let world = ledgers(STREAM, 1.0);
    world.write("study.toml", &study(STREAM, true).replace("delta = 1e-5", "delta = 9e-4"));
    world.write("north.csv", &table(1, 1200));
    let checked = command(&world, "north", &["check"]);
    let sentence = "delta must lie in (0, 1/n], n = 1200, got 0.0009";
    assert!(checked.status.code() == Some(77) && said(&checked).contains(sentence), "{}", said(&checked));
    let north = private_worker(&world, "north").end();
    assert!(north.code == 77 && north.log.contains(sentence), "{}", north.log);
    assert_eq!(
        records(&ledger(&world, "north")).iter().filter(|body| body.contains("\"kind\":\"reserved\"")).count(),
        0
    );
}

/// Number and bytes of the message that a stream's worker has noised last, and how many records were counted.
fn noised(world: &World, name: &str) -> Option<(i64, Vec<u8>, i64)> {
    let read = || -> rusqlite::Result<(i64, Vec<u8>, i64)> {
        let path = world.path(&format!("{name}-state/stream.sqlite"));
        let tool = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let count = tool.query_row("SELECT sum(records) FROM persons", [], |row| row.get(0))?;
        tool.query_row("SELECT number, bytes FROM unanswered ORDER BY number DESC LIMIT 1", [], |row| {
            Ok((row.get(0)?, row.get(1)?, count))
        })
    };
    read().ok()
}

#[test]
fn a_message_of_a_stream_that_was_noised_and_not_heard_leaves_again_with_the_same_bytes() {
    let world = ledgers(&STREAM.replace("[sites]", "[sites]\n    quorum = 1"), 1.0);
    let coordinator = world.coordinator(&["--wait", "30"]);
    let text = table(1, 40);
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let start = || world.worker_as("north", "north", "-", &["--config", "north.toml", "--state", "north-state"]);
    let mut north = start();
    north.say(&lines[..8].concat());
    world.wait_for_contributions("north", 3);
    coordinator.kill();
    // Eight records become a message that nobody hears.
    north.say(&lines[8..16].concat());
    eventually(|| noised(&world, "north").is_some_and(|(number, ..)| number == 3));
    let before = noised(&world, "north").unwrap();
    north.kill();
    let coordinator = world.coordinator(&["--wait", "30"]);
    let mut north = start();
    north.say(lines[0]);
    world.wait_for_contributions("north", 4);
    assert_eq!(noised(&world, "north").unwrap(), before, "the message was noised again, or its records counted twice");
    assert_eq!(before.2, 15);
    north.say(&lines[16..].concat());
    let others = ["south", "west"].map(|name| private_worker(&world, name));
    for ended in [north].into_iter().chain(others).map(Running::end) {
        assert_eq!(ended.code, 0, "{}", ended.log);
        assert!(!ended.log.contains("noise alone went out"), "{}", ended.log);
    }
    assert_eq!(coordinator.end().code, 0);
    let report = world.report("coordinator");
    assert_eq!((report["nobs"].as_u64(), report["workers"][0]["rejected"].as_u64()), (Some(240), Some(0)));
    let charges =
        records(&ledger(&world, "north")).iter().filter(|body| body.contains("\"kind\":\"reserved\"")).count();
    assert_eq!(charges, 1);
}

#[test]
fn a_plain_stream_with_a_record_that_cannot_be_used_ends_its_worker_with_the_line() {
    let world = World::of(&study(STREAM, false));
    world.write("north.csv", "a,y\n0.1,1\n0.2,x\n");
    let coordinator = world.coordinator(&[]);
    let [north, south, west] = WORKERS.map(|name| world.worker(name, &[])).map(Running::end);
    assert!(north.code == 65 && north.log.contains("line 3"), "{} {}", north.code, north.log);
    assert_eq!((south.code, west.code), (0, 0));
    assert_eq!(coordinator.end().code, 0);
}

#[test]
fn a_stream_that_comes_through_a_pipe_is_published_while_it_goes_on() {
    let world = World::of(&study(STREAM, false));
    let coordinator = world.coordinator(&[]);
    let mut north = world.worker_as("north", "north", "-", &[]);
    let others = ["south", "west"].map(|name| world.worker(name, &[]));
    north.say(&table(1, 15));
    world.wait_for_contributions("north", 4);
    eventually(|| world.path("coordinator/report.html").is_file());
    let live = fs::read_to_string(world.path("coordinator/report.html")).unwrap();
    assert!(live.contains("<svg"), "the function is drawn as it forms");
    north.say(&sites::rows(1, 30));
    for worker in [north].into_iter().chain(others) {
        let ended = worker.end();
        assert_eq!(ended.code, 0, "{}", ended.log);
    }
    assert_eq!(coordinator.end().code, 0);
    let report = world.report("coordinator");
    assert_eq!(report["nobs"], 245);
    assert!(!report["function"]["forming"].as_array().unwrap().is_empty());
}
