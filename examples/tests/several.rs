//! Three parties and more as real processes: the fit, who sees what, what is refused, and what the others see when one leaves.

// Test code may unwrap: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod world;

use std::fs;
use std::process::Command;

use serde_json::Value;
use world::spoiler::{self, Fault, Spoil};
use world::{DEMO, Ended, Running, World, demo, eventually};

const THREE: &str = r#"
    id = "three"
    leader = "carol"
    [outcome]
    column = "y"
    held_by = "carol"
    [rows]
    id = "id"
    [parties.alice]
    certificate = "alice"
    columns = ["a"]
    [parties.bob]
    certificate = "bob"
    columns = ["b"]
    [parties.carol]
    certificate = "carol"
    columns = ["c"]
"#;

const PARTIES: &str = "lab=s1,s2,s3,s4,s5,s6;clinic=bmi,bp;office=age,sex";

const THREE_NAMED: &str = "alice=age;bob=bmi;carol=bp";

/// `summary(lm(progression ~ ., diabetes))` in R 4.5.1, in the parties' order.
const DIABETES: [(&str, &str, f64, f64); 11] = [
    ("clinic", "(Intercept)", -334.567_138_518_79, 67.454_621_104_3),
    ("clinic", "bmi", 5.602_962_091_92, 0.717_105_500_6),
    ("clinic", "bp", 1.116_807_993_32, 0.225_238_169_2),
    ("lab", "s1", -1.089_996_334_06, 0.573_331_858_6),
    ("lab", "s2", 0.746_450_455_51, 0.530_834_389_8),
    ("lab", "s3", 0.372_004_715_09, 0.782_463_845_6),
    ("lab", "s4", 6.533_831_935_99, 5.958_637_837_2),
    ("lab", "s5", 68.483_124_964_79, 15.669_719_238_7),
    ("lab", "s6", 0.280_116_989_32, 0.273_313_950_4),
    ("office", "age", -0.036_361_224_22, 0.217_041_435_4),
    ("office", "sex", -22.859_648_090_50, 5.835_821_285_0),
];

fn three() -> World {
    let world = World::new();
    world.certificates("authority", &["alice", "bob", "carol", "coordinator"]);
    world.write("study.toml", THREE);
    let table = |name: &str, value: fn(f64) -> f64, outcome: bool| {
        let mut text = format!("id,{name}{}\n", if outcome { ",y" } else { "" });
        for row in 0..40 {
            let t = f64::from(row);
            let y = (0.3 * t).sin() + 0.1 * t;
            text.push_str(&format!(
                "r{row:02},{}{}\n",
                value(t),
                if outcome { format!(",{y}") } else { String::new() }
            ));
        }
        text
    };
    world.write("alice.csv", &table("a", |t| (0.7 * t).cos(), false));
    world.write("bob.csv", &table("b", |t| 0.05 * t + (0.7 * t).cos(), false));
    world.write("carol.csv", &table("c", |t| (0.11 * t * t).sin(), true));
    world
}

/// A run of three: the coordinator, the leader, and the two others.
fn start(world: &World) -> [Running; 4] {
    start_with(world, || ())
}

/// The same where something happens before the last one is started.
fn start_with(world: &World, before: impl FnOnce()) -> [Running; 4] {
    forget(world);
    let (coordinator, address) = world.coordinator();
    let party = |name: &str, more: &[&str]| {
        let data = format!("{name}.csv");
        let fixed = ["fit", "--coordinator", &address, "--wait", "2", "--data", &data, "--out", name];
        world.start(name, &[&fixed, more].concat())
    };
    let carol = party("carol", &["--listen", "127.0.0.1:0", "--announce", "carol.address"]);
    let leader = world.address("carol.address");
    let dials = ["--connect", &leader];
    let alice = party("alice", &dials);
    eventually(|| fs::read_to_string(&alice.log).unwrap().contains("read 40 rows").then_some(()));
    before();
    let bob = party("bob", &dials);
    [coordinator, carol, alice, bob]
}

/// Removes the addresses of an earlier run.
fn forget(world: &World) {
    for name in ["coordinator", "carol"] {
        let _ = fs::remove_file(world.path(&format!("{name}.address")));
    }
}

fn end(running: [Running; 4]) -> [Ended; 4] {
    running.map(Running::end)
}

fn codes(ended: &[Ended; 4], expected: i32) {
    let logs: Vec<&str> = ended.iter().map(|ended| &ended.log[..]).collect();
    assert_eq!(ended.each_ref().map(|ended| ended.code), [expected; 4], "{}", logs.join("\n---\n"));
}

/// A fit that goes on for long: the plain method on columns that all but depend on each other.
fn make_long(world: &World) {
    let slow = "[fit]\nacceleration = \"none\"\ntol = 1e-15\nmax_rounds = 4000000\n";
    world.write("study.toml", &format!("{THREE}\n{slow}"));
    let alice = fs::read_to_string(world.path("alice.csv")).unwrap();
    let mut text = String::from("id,b\n");
    for (row, line) in alice.lines().skip(1).enumerate() {
        let (id, a) = line.split_once(',').unwrap();
        text.push_str(&format!("{id},{}\n", a.parse::<f64>().unwrap() + 1e-4 * ((row % 7) as f64)));
    }
    world.write("bob.csv", &text);
}

fn under_way(world: &World) {
    eventually(|| {
        let events = fs::read_to_string(world.path("coordinator-state/events.jsonl")).unwrap_or_default();
        events.contains("\"phase\":\"fitting\"").then_some(())
    });
}

fn read(world: &World, file: &str) -> Value {
    serde_json::from_slice(&fs::read(world.path(file)).unwrap()).unwrap()
}

/// That a merged report of the shipped data has the coefficients and errors of R, within this share of each.
fn as_in_r(merged: &Value, share: f64) {
    let rows = merged["coefficients"].as_array().unwrap();
    assert_eq!(rows.len(), DIABETES.len());
    for (row, (party, term, estimate, error)) in rows.iter().zip(DIABETES) {
        assert_eq!((row["party"].as_str().unwrap(), row["term"].as_str().unwrap()), (party, term));
        let near = |name: &str, expected: f64| (row[name].as_f64().unwrap() / expected - 1.0).abs() < share;
        assert!(near("estimate", estimate) && near("std_error", error), "{row}");
    }
}

/// The cross-products that opened of a party's columns, by number and receiver.
fn opened_of(merged: &Value, role: &str) -> Vec<(u64, String)> {
    let all = merged["disclosure"][role]["opened"].as_array().unwrap().iter();
    all.map(|table| (table["numbers"].as_u64().unwrap(), table["to"].as_str().unwrap().to_string())).collect()
}

#[test]
fn three_parties_fit_the_shipped_data_as_r_does_and_every_report_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let flags = ["--leader", "clinic", "--outcome-at", "clinic", "--format", "json", "--out", out.to_str().unwrap()];
    let output = demo(&[&["vertical", "--parties", PARTIES], &flags[..]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    as_in_r(&printed, 1e-9);
    assert_eq!(printed["parties"], serde_json::json!(["clinic", "lab", "office"]));
    for role in ["clinic", "lab", "office"] {
        let own: Value = serde_json::from_slice(&fs::read(out.join(role).join("report.json")).unwrap()).unwrap();
        assert_eq!(own["coefficients"], printed["coefficients"], "{role}");
        for key in ["certificate", "bytes_sent", "seconds", "disclosure"] {
            assert_eq!(own[key], printed[key][role], "{key} of {role}");
        }
    }
    for role in [".", "clinic", "lab", "office"] {
        for name in ["report.txt", "report.html", "report.csv"] {
            assert!(out.join(role).join(name).metadata().unwrap().len() > 100, "{role}/{name}");
        }
    }
    // The leader sees the others singly, they see sums.
    let text = fs::read_to_string(out.join("report.txt")).unwrap();
    for line in ["clinic -           singly, rank 6 singly, rank 2", "lab    in sums     -              in sums"] {
        assert!(text.contains(line), "{text}");
    }
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    for class in ["p0", "p1", "p2"] {
        assert!(page.contains(&format!("<span class=\"{class}\">")), "{class}");
    }
    assert!(
        page.contains("each singly, of rank 6, and its column space") && page.contains("what is in the sums of clinic")
    );
}

#[test]
fn parties_that_cannot_be_are_refused_before_a_process_is_started() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let seventeen: String = (0..17).map(|at| format!("p{at:02}=s1;")).collect();
    let two = "alice=age;carol=bmi";
    for (flags, code, says) in [
        (
            &["--parties", THREE_NAMED, "--mode", "sealed", "--family", "poisson"][..],
            2,
            "`model.family` is poisson: a sealed poisson fit is for two parties in this version",
        ),
        (&["--parties", THREE_NAMED, "--mode", "sealed", "--lambda", "1"], 2, "`penalty` is given"),
        (
            &["--parties", THREE_NAMED, "--mode", "private", "--mechanism", "residual"],
            2,
            "`privacy.mechanism` is \"residual\"",
        ),
        (
            &["--parties", THREE_NAMED, "--mode", "private", "--leader", "carol", "--outcome-at", "carol"],
            2,
            "`outcome.held_by` is one party: private mode of several parties needs the outcome at all of them",
        ),
        (&["--parties", "carol=bmi"], 2, "`parties` names one party"),
        (&["--parties", &seventeen], 2, "`parties` names 17 parties"),
        (&["--parties", two, "--leader", "dave"], 2, "`leader` names dave"),
        (&["--parties", two, "--outcome-at", "dave"], 2, "`outcome.held_by` names dave"),
        (
            &["--parties", two, "--mode", "sealed", "--leader", "carol", "--outcome-at", "alice"],
            2,
            "set leader = \"alice\"",
        ),
        (&["--parties", "alice=age;carol=age"], 2, "`parties.carol.columns` names `age`, which alice has already"),
        (&["--parties", "alice=age;alice=bmi"], 2, "--parties: names `alice` twice"),
        (&["--parties", "alice=age;Carol=bmi"], 2, "--parties: `Carol` is not the name of a party"),
        (&["--parties", "alice=age;carol=id"], 65, "leave it out of --parties"),
        (&["--parties", two, "--alice", "s1"], 2, "cannot be used with"),
    ] {
        let output = demo(&[&["vertical", "--out", out.to_str().unwrap()], flags].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{flags:?}: {said}");
        assert!(said.contains(says), "{flags:?}: {said}");
        assert!(!out.join("coordinator").exists(), "{flags:?}");
    }
}

/// A table whose outcomes are events, counts and a number.
fn table_of_two(world: &World) {
    let mut text = String::from("id,a,b,c,d,event,count,y\n");
    for row in 0..400 {
        let t = f64::from(row);
        let [a, b, c, d] =
            [(0.7 * t).cos(), (0.11 * t * t).sin(), (1.3 * t).sin(), ((0.37 * t * t).cos() + (0.7 * t).cos()) / 2.0];
        let eta = 0.6 * a - 0.4 * b + 0.5 * c + 0.2 * d;
        let (high, extra) = (0.5 * (3.7 * t * t).sin() + 0.5, f64::from(row % 3));
        let event = u8::from(high < 1.0 / (1.0 + (-eta).exp()));
        text.push_str(&format!(
            "r{row:03},{a:.5},{b:.5},{c:.5},{d:.5},{event},{},{:.5}\n",
            (eta.exp() + extra).floor(),
            eta + high
        ));
    }
    world.write("two.csv", &text);
    for (file, outcome) in
        [("event.toml", "event = [0, 1]"), ("count.toml", "count = [0, 8]"), ("y.toml", "y = [-2, 3]")]
    {
        world.write(
            file,
            &format!("[columns]\na = [-1, 1]\nb = [-1, 1]\nc = [-1, 1]\nd = [-1, 1]\n[outcome]\n{outcome}\n"),
        );
    }
}

/// Alice and bob have these fits; the leader of the two comes last by name.
#[test]
fn two_parties_by_names_of_their_own_have_every_fit_of_alice_and_bob() {
    let world = World::new();
    table_of_two(&world);
    let fit = |names: &[&str], flags: &str| {
        let (data, out) = (world.path("two.csv"), world.path("out"));
        let fixed = ["vertical", "--data", data.to_str().unwrap(), "--id", "id", "--out", out.to_str().unwrap()];
        let own = |word: &str| {
            if word.ends_with(".toml") { world.path(word).display().to_string() } else { word.to_string() }
        };
        let flags: Vec<String> = flags.split(' ').map(own).collect();
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let output = demo(&[&fixed[..], &["--format", "json"], names, &flags].concat());
        assert_eq!(output.status.code(), Some(0), "{flags:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let numbers = |report: &Value| -> Vec<Value> {
        let rows = report["coefficients"].as_array().unwrap().iter();
        rows.flat_map(|row| ["term", "estimate", "std_error", "p_value"].map(|key| row[key].clone())).collect()
    };
    let named = ["--parties", "ward=a,b;insurer=c,d", "--leader", "ward"];
    for (flags, without_noise) in [
        ("--outcome event --family binomial --mode sealed", true),
        ("--outcome count --family poisson --mode sealed", true),
        ("--outcome event --family binomial --mode sealed --lambda 0.05", true),
        ("--outcome y --mode sealed --opens all", true),
        ("--outcome event --family binomial --mode sealed --opens all", true),
        ("--outcome event --family binomial --share-covariance", true),
        ("--outcome y --mode private --mechanism residual --epsilon 10 --bounds y.toml", false),
        ("--outcome y --mode private --epsilon 10 --bounds y.toml", false),
        (
            "--outcome event --family binomial --mode private --epsilon 10 --bounds event.toml --outcome-at LEADER",
            false,
        ),
        ("--outcome count --family poisson --mode private --epsilon 10 --bounds count.toml", false),
    ] {
        let ours = fit(&named, &flags.replace("LEADER", "ward"));
        let theirs = fit(&["--alice", "a,b", "--bob", "c,d"], &flags.replace("LEADER", "alice"));
        assert_eq!(ours["parties"], serde_json::json!(["ward", "insurer"]));
        let terms = |report: &Value| numbers(report).into_iter().step_by(4).collect::<Vec<_>>();
        assert_eq!(terms(&ours), terms(&theirs), "{flags}");
        let names = |report: &Value| {
            let rows = report["coefficients"].as_array().unwrap().iter();
            rows.map(|row| row["party"].as_str().unwrap().replace("ward", "alice").replace("insurer", "bob"))
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&ours), names(&theirs), "{flags}");
        match without_noise {
            // Rows stand in another order, as the seeds of two names differ.
            true => {
                for (one, other) in numbers(&ours).iter().zip(&numbers(&theirs)) {
                    let same = match (one.as_f64(), other.as_f64()) {
                        (Some(one), Some(other)) => (one - other).abs() <= 1e-11 * (1e-3 + other.abs()),
                        _ => one == other,
                    };
                    assert!(same, "{flags}: {one} {other}");
                }
            }
            // Noise differs, and what it is charged does not.
            false => {
                for (name, alike) in [("ward", "alice"), ("insurer", "bob")] {
                    let charge = |report: &Value, who: &str| report["privacy"][who]["charge"].clone();
                    assert!(charge(&ours, name).as_f64().unwrap() > 0.0, "{}", ours["privacy"]);
                    assert_eq!(charge(&ours, name), charge(&theirs, alike), "{flags}");
                }
            }
        }
    }
}

/// The leader of two sends the outcome back, or predictions that contain it: its holder is told nothing.
#[test]
fn an_outcome_that_comes_back_to_its_holder_is_no_disclosure() {
    let world = World::new();
    table_of_two(&world);
    let (data, out) = (world.path("two.csv"), world.path("out"));
    let named = ["--parties", "ward=a,b;insurer=c,d", "--leader", "ward", "--outcome-at", "insurer"];
    let fixed = ["vertical", "--data", data.to_str().unwrap(), "--id", "id", "--out", out.to_str().unwrap()];
    for (outcome, flags) in [("event", "--family binomial"), ("y", ""), ("y", "--lambda path")] {
        let flags: Vec<&str> = flags.split_whitespace().collect();
        let output = demo(&[&fixed[..], &named, &["--outcome", outcome], &flags].concat());
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.starts_with("Result:") && words.contains("Seen: insurer can reconstruct "), "{text}");
        assert!(words.contains(&format!("ward can reconstruct {outcome}")), "{text}");
        assert!(!words.contains(&format!("insurer can reconstruct {outcome}")), "{text}");
        let report = read(&world, "out/ward/report.json");
        let columns = report["disclosure"]["columns"].as_array().unwrap();
        assert_eq!(columns.iter().map(|column| column["term"].as_str().unwrap()).collect::<Vec<_>>(), ["a", "b"]);
    }
}

#[test]
fn three_programs_meet_at_the_leader_and_each_keeps_its_part_of_the_model() {
    let world = three();
    codes(&end(start(&world)), 0);
    let (carol, alice) = (read(&world, "carol/report.json"), read(&world, "alice/report.json"));
    assert_eq!(carol["coefficients"], alice["coefficients"]);
    assert_eq!(carol["call"].as_str().unwrap().split(" fit").next(), Some("party --name carol"));
    let model = |name: &str| read(&world, &format!("{name}/model.json"));
    assert_eq!((model("carol")["terms"][0][0].as_str(), model("bob")["terms"][0][0].as_str()), (Some("c"), Some("b")));
    assert_eq!(model("bob")["intercept"], 0.0);
    assert_eq!(model("carol")["run"], model("alice")["run"]);

    scored_by_their_coefficients(&world, &[0.0; 40]);
}

/// Scores the rows of a fit again: at the leader alone, and as its table of coefficients says, with an offset.
fn scored_by_their_coefficients(world: &World, offset: &[f64; 40]) {
    forget(world);
    let (coordinator, address) = world.coordinator();
    let party = |name: &str, more: &[&str]| {
        let (data, model, out) = (format!("{name}.csv"), format!("{name}/model.json"), format!("{name}-scores"));
        let fixed =
            ["predict", "--coordinator", &address, "--wait", "5", "--data", &data, "--model", &model, "--out", &out];
        world.start(name, &[&fixed, more].concat())
    };
    let leading = party("carol", &["--listen", "127.0.0.1:0", "--announce", "carol.address"]);
    let leader = world.address("carol.address");
    let others = ["alice", "bob"].map(|name| party(name, &["--connect", &leader]));
    let [alice, bob] = others.map(Running::end);
    codes(&[coordinator.end(), leading.end(), alice, bob], 0);
    assert!(!world.path("alice-scores/scores.csv").exists() && !world.path("bob-scores/scores.csv").exists());
    let report = read(world, "carol/report.json");
    let estimate = |term: &str| {
        let rows = report["coefficients"].as_array().unwrap();
        rows.iter().find(|row| row["term"] == term).unwrap()["estimate"].as_f64().unwrap()
    };
    let [a, b, c, scores] = ["alice.csv", "bob.csv", "carol.csv", "carol-scores/scores.csv"].map(|file| {
        let numbers = column(world, file, 1).into_iter().map(|cell| cell.parse::<f64>().unwrap());
        numbers.collect::<Vec<_>>()
    });
    assert_eq!(scores.len(), 40);
    for row in 0..40 {
        let terms = [(a[row], "a"), (b[row], "b"), (c[row], "c"), (1.0, "(Intercept)")];
        let expected = offset[row] + terms.iter().map(|(x, term)| x * estimate(term)).sum::<f64>();
        assert!((scores[row] - expected).abs() < 1e-9, "{row}: {} {expected}", scores[row]);
    }
}

/// The cells of a column of a table, by its place.
fn column(world: &World, file: &str, at: usize) -> Vec<String> {
    let text = fs::read_to_string(world.path(file)).unwrap();
    text.lines().skip(1).map(|line| line.split(',').nth(at).unwrap().to_string()).collect()
}

#[test]
fn what_another_party_than_the_leader_holds_alone_makes_the_same_fit_and_the_same_scores() {
    let world = three();
    // The outcome moves to bob, and alice has an offset of her own; a second study has both at the leader.
    let offset: [f64; 40] = std::array::from_fn(|row| 0.02 * (row % 7) as f64);
    let (y, cells) = (column(&world, "carol.csv", 2), offset.map(|value| value.to_string()));
    let add = |file: &str, name: &str, values: &[String]| {
        let text = fs::read_to_string(world.path(file)).unwrap();
        let head = std::iter::once(name.to_string()).chain(values.iter().cloned());
        let lines: Vec<String> = text.lines().zip(head).map(|(line, value)| format!("{line},{value}\n")).collect();
        world.write(file, &lines.concat());
    };
    add("bob.csv", "y", &y);
    add("alice.csv", "o", &cells);
    add("carol.csv", "o", &cells);
    let fitted = |outcome: &str, offset: &str| {
        let study = THREE.replace("held_by = \"carol\"", &format!("held_by = \"{outcome}\""));
        world.write("study.toml", &format!("{study}\n[offset]\ncolumn = \"o\"\nheld_by = \"{offset}\"\n"));
        codes(&end(start(&world)), 0);
        let report = read(&world, "carol/report.json");
        let rows = report["coefficients"].as_array().unwrap().iter();
        rows.map(|row| ["estimate", "std_error"].map(|key| row[key].as_f64().unwrap())).collect::<Vec<_>>()
    };
    let leaders = fitted("carol", "carol");
    let others = fitted("bob", "alice");
    for (one, other) in leaders.iter().flatten().zip(others.iter().flatten()) {
        assert!((one - other).abs() < 1e-9 * (1.0 + one.abs()), "{leaders:?} {others:?}");
    }
    let left = |who: &str| read(&world, &format!("{who}/report.json"))["disclosure"]["declared"].to_string();
    assert!(
        left("bob").contains("\"outcome\"") && left("alice").contains("\"offset\""),
        "{} {}",
        left("bob"),
        left("alice")
    );

    scored_by_their_coefficients(&world, &offset);
}

#[test]
fn rows_that_differ_at_one_party_end_the_run_for_all_and_name_it() {
    let world = three();
    let bob = fs::read_to_string(world.path("bob.csv")).unwrap();
    world.write("bob.csv", &bob.replace("r07,", "r99,"));
    let ended = end(start(&world));
    codes(&ended, 65);
    assert!(ended[2].log.contains("carol and bob hold different ids"), "{}", ended[2].log);
    world.write("bob.csv", &bob.lines().take(39).map(|line| format!("{line}\n")).collect::<String>());
    let ended = end(start(&world));
    codes(&ended, 65);
    assert!(ended[1].log.contains("carol has 40, bob has 38"), "{}", ended[1].log);
}

#[test]
fn a_party_that_follows_another_study_ends_the_run_for_all() {
    let world = three();
    let other = || world.write("study.toml", &format!("{THREE}\n[fit]\ntol = 1e-6\n"));
    let ended = end(start_with(&world, other));
    codes(&ended, 77);
    assert!(ended[2].log.contains("bob differs from the coordinator's in: fit.tol"), "{}", ended[2].log);
}

#[test]
fn a_party_that_is_killed_is_named_by_all_others() {
    for (killed, name) in [(1, "carol"), (2, "alice"), (3, "bob")] {
        let world = three();
        make_long(&world);
        let mut running = start(&world);
        under_way(&world);
        running[killed].child.kill().unwrap();
        let ended = end(running);
        for (at, ended) in ended.iter().enumerate().filter(|(at, _)| *at != killed) {
            assert_eq!(ended.code, 69, "{at} without {name}: {}", ended.log);
            let says = if at == 0 {
                format!("the line to {name} is lost")
            } else {
                format!("for {name}, whose line was lost")
            };
            assert!(ended.log.contains(&says), "{at} without {name}: {}", ended.log);
        }
    }
}

#[test]
fn a_coordinator_that_is_killed_is_needed_by_nobody_once_the_fit_is_under_way() {
    let world = three();
    make_long(&world);
    let long = fs::read_to_string(world.path("study.toml")).unwrap();
    world.write("study.toml", &long.replace("4000000", "3000"));
    let mut running = start(&world);
    under_way(&world);
    running[0].child.kill().unwrap();
    let [_, ended @ ..] = end(running);
    for ended in &ended {
        assert_eq!(ended.code, 3, "{}", ended.log);
    }
    let reports = ["carol", "alice", "bob"].map(|name| read(&world, &format!("{name}/report.json")));
    assert!(reports.iter().all(|report| report["coefficients"] == reports[0]["coefficients"]));
    assert!(reports.iter().all(|report| report["rounds"] == 3000), "{}", reports[1]["rounds"]);
}

#[test]
fn what_one_of_three_may_show_is_its_own_to_limit() {
    let world = three();
    for (at, name) in ["carol", "alice", "bob"].into_iter().enumerate() {
        forget(&world);
        let (coordinator, address) = world.coordinator();
        let party = |of: &str, more: &[&str]| {
            let data = format!("{of}.csv");
            let limit: &[&str] = if of == name { &["--max-disclosure", "0.1"] } else { &[] };
            let fixed = ["fit", "--coordinator", &address, "--wait", "5", "--data", &data, "--out", of];
            world.start(of, &[&fixed, more, limit].concat())
        };
        let carol = party("carol", &["--listen", "127.0.0.1:0", "--announce", "carol.address"]);
        let leader = world.address("carol.address");
        let [alice, bob] = ["alice", "bob"].map(|name| party(name, &["--connect", &leader]));
        let ended = end([coordinator, carol, alice, bob]);
        codes(&ended, 77);
        for ended in &ended[1..] {
            assert!(ended.log.contains(&format!("refused by the policy of {name}")), "{at} {name}: {}", ended.log);
        }
        assert!(!world.path(&format!("{name}/report.json")).exists());
    }
}

#[test]
fn an_interrupt_at_one_party_ends_all() {
    let world = three();
    make_long(&world);
    let mut running = start(&world);
    under_way(&world);
    running[3].leash = None;
    let ended = end(running);
    codes(&ended, 130);
    assert!(ended[2].log.contains("interrupted by the user of bob"), "{}", ended[2].log);
}

#[test]
fn the_leader_listens_and_the_others_connect() {
    let world = three();
    world.certificates("authority", &["alice", "bob", "carol", "dave", "coordinator"]);
    let check = |name: &str, data: &str, more: &[&str]| {
        let tls =
            ["--authority", "authority.pem", "--certificate", &format!("{name}.pem"), "--key", &format!("{name}.key")];
        let fixed = ["--role", name, "check", "--coordinator", "127.0.0.1:1", "--study", "study.toml", "--state", name];
        let arguments = [&fixed[..], &tls, &["--data", data], more].concat();
        let output = Command::new(DEMO).args(arguments).current_dir(world.folder.path()).output().unwrap();
        let said = [output.stdout, output.stderr].map(|said| String::from_utf8(said).unwrap()).concat();
        (output.status.code(), said)
    };
    let (listen, connect) = (["--listen", "127.0.0.1:0"], ["--connect", "127.0.0.1:9"]);
    for (name, data, more, code, says) in [
        ("carol", "carol.csv", listen, 0, "listens at 127.0.0.1:0 for alice and bob"),
        ("bob", "bob.csv", connect, 0, "connects to carol at 127.0.0.1:9"),
        ("carol", "carol.csv", connect, 2, "`connect` is set, but carol is the leader of the study: it listens"),
        ("bob", "bob.csv", listen, 2, "`listen` is set, but carol is the leader of the study: bob connects to it"),
        ("dave", "bob.csv", connect, 2, "the study has no party dave"),
    ] {
        let (came, said) = check(name, data, &more);
        assert_eq!(came, Some(code), "{name}: {said}");
        assert!(said.contains(says), "{name}: {said}");
    }
}

/// The study of three in sealed mode.
fn sealed() -> World {
    let world = three();
    world.write("study.toml", &format!("mode = \"sealed\"\n{THREE}"));
    world
}

#[test]
fn three_parties_fit_in_sealed_mode_as_r_does_and_every_report_says_what_opened_to_whom() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let flags = ["--leader", "clinic", "--outcome-at", "clinic", "--mode", "sealed", "--out", out.to_str().unwrap()];
    let sealed = |more: &[&str]| demo(&[&["vertical", "--parties", PARTIES], &flags[..], more].concat());
    // Nine numbers open of the office's two-valued column.
    let refused = sealed(&[]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(65), "{said}");
    assert!(
        said.contains("column `sex`") && said.contains("576 are needed for the 9 numbers that open of it"),
        "{said}"
    );
    let output = sealed(&["--sealed-limits", "off"]);
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{shown}{}", String::from_utf8_lossy(&output.stderr));
    let seen: Vec<&str> = shown.lines().filter(|line| line.starts_with("Seen:")).collect();
    assert_eq!(seen.len(), 3, "{seen:?}");
    assert!(seen[0].contains("opened to clinic") && seen[2].contains("opened to office"), "{seen:?}");
    let merged: Value = serde_json::from_slice(&fs::read(out.join("report.json")).unwrap()).unwrap();
    as_in_r(&merged, 1e-8);
    assert!(merged["notes"][0].as_str().unwrap().contains("were loosened for this rehearsal"), "{}", merged["notes"]);
    assert_eq!((&merged["mode"], &merged["termination"]), (&Value::from("sealed"), &Value::from("converged")));

    // Of ten columns: the tables of laboratory and office with all others and the outcome; to each its part of the solution.
    let opened = |role: &str| opened_of(&merged, role);
    let to = |numbers: &[u64], to: &str| numbers.iter().map(|n| (*n, to.to_string())).collect::<Vec<_>>();
    assert_eq!(opened("lab"), to(&[6 * 5, 2, 6], "clinic"));
    assert_eq!(opened("office"), to(&[2 * 9, 2], "clinic"));
    assert_eq!(opened("clinic"), [to(&[6 * 8 + 3], "lab"), to(&[2 * 4 + 3], "office")].concat());
    let text = fs::read_to_string(out.join("report.txt")).unwrap();
    for line in ["clinic -           38 numbers  20 numbers", "lab    51 numbers  -           in solution"] {
        assert!(text.contains(line), "{text}");
    }
    for name in ["report.txt", "report.html", "clinic/report.txt", "lab/report.txt", "lab/report.html"] {
        let text = fs::read_to_string(out.join(name)).unwrap();
        // Behind the style sheet, which has colours of two.
        let text = text.split("</style>").last().unwrap();
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        // What opened to the leader alone was not seen by all, and the masked columns were.
        let seen = words.contains("masked columns: all others; what opened: clinic");
        assert_eq!(seen, name.ends_with("report.html"), "{name}: {text}");
        for wrong in ["alice", "bob", "neither party", "the other party", "reconstruct"] {
            assert!(!words.contains(wrong), "{name}: {wrong}: {text}");
        }
        assert!(words.contains("ll others together could predict"), "{name}: {text}");
        assert!(words.contains("colludes with none of them"), "{name}: {text}");
    }
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    for says in [
        "all others saw from clinic: masked columns to lab opened: lab's part of the solution",
        "to office opened: office's part of the solution",
        "all others saw from office: masked columns, by way of clinic to clinic opened: ",
        "the coordinator saw: certificate names, digests of the study's keys, phases, the sizes of what it dealt masks for",
    ] {
        assert!(words.contains(says), "{shown}");
    }

    for role in ["clinic", "lab", "office"] {
        let own: Value = serde_json::from_slice(&fs::read(out.join(role).join("report.json")).unwrap()).unwrap();
        assert_eq!(own["coefficients"], merged["coefficients"], "{role}");
        for key in ["bytes_sent", "disclosure"] {
            assert_eq!(own[key], merged[key][role], "{key} of {role}");
        }
        // What a check foretells is what the run sent and let open.
        let config = out.join(format!("{role}.toml"));
        let output = demo(&["--role", role, "check", "--config", config.to_str().unwrap(), "--format", "json"]);
        let said = String::from_utf8_lossy(&output.stderr);
        let checked: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{role}: {said}"));
        assert_eq!(checked["opened"], merged["disclosure"][role]["opened"], "{role}");
        let [predicted, sent] =
            [&checked["predicted_bytes"], &merged["bytes_sent"][role]].map(|bytes| bytes.as_f64().unwrap());
        println!("{role}: foretold {predicted}, sent {sent}");
        assert!((predicted / sent - 1.0).abs() < 0.01, "{role}: {predicted} {sent}");
        let output = demo(&["--role", role, "check", "--config", config.to_str().unwrap()]);
        let words = String::from_utf8_lossy(&output.stdout).into_owned();
        for wrong in ["alice", "bob", "both parties", "neither party"] {
            assert!(!words.contains(wrong), "{role}: {wrong}: {words}");
        }
    }
    // A plain rehearsal foretells both: the refusal, and without that column what would open. The table between lab and office is one of
    // both; lab's part of the solution is 6 * 8 + 3 numbers, that of the office 3 + 3.
    let flags = ["--leader", "clinic", "--outcome-at", "clinic", "--out", out.to_str().unwrap()];
    let head = |parties: &str| {
        let output = demo(&[&["vertical", "--parties", parties], &flags[..]].concat());
        String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let (all, without) = (head(PARTIES), head(&PARTIES.replace(",sex", "")));
    let refused = "--mode sealed would have refused it, for its limits on what may open: column `sex` has 207 rows of its rarer value";
    assert!(all.contains(refused), "{all}");
    let foretold = "the tables of cross-products of every two parties, 27 numbers, open to clinic, and 57 numbers of the solution to the others";
    assert!(without.contains(foretold), "{without}");
}

#[test]
fn tables_that_open_to_all_of_three_stand_in_every_report_and_check_and_change_no_estimate() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let flags = ["--leader", "clinic", "--outcome-at", "clinic", "--mode", "sealed", "--opens", "all"];
    let more = ["--sealed-limits", "off", "--out", out.to_str().unwrap()];
    let output = demo(&[&["vertical", "--parties", PARTIES], &flags[..], &more].concat());
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{shown}{}", String::from_utf8_lossy(&output.stderr));
    let merged: Value = serde_json::from_slice(&fs::read(out.join("report.json")).unwrap()).unwrap();
    as_in_r(&merged, 1e-8);
    let opened = |role: &str| opened_of(&merged, role);
    let to = |all: &[(u64, &str)]| all.iter().map(|(n, to)| (*n, to.to_string())).collect::<Vec<_>>();
    assert_eq!(opened("lab"), to(&[(6 * 5, "clinic"), (6 * 5, "office"), (2, "clinic"), (6, "clinic")]));
    assert_eq!(opened("office"), to(&[(2 * 9, "clinic"), (2 * 9, "lab"), (2, "clinic")]));
    let tables = 3 * 8 + 1;
    assert_eq!(opened("clinic"), to(&[(tables, "lab"), (tables, "office"), (6 * 8 + 3, "lab"), (2 * 4 + 3, "office")]));
    // How well each column of the leader follows from all others, the outcome among them.
    let metered = merged["disclosure"]["clinic"]["columns"].as_array().unwrap();
    let terms: Vec<&str> = metered.iter().map(|column| column["term"].as_str().unwrap()).collect();
    assert_eq!(terms, ["bmi", "bp", "progression"]);
    let of = |name: &str| {
        let text = fs::read_to_string(out.join(name)).unwrap();
        text.split("</style>").last().unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let text = of("report.txt");
    for line in ["clinic - 38 numbers 20 numbers", "lab 76 numbers - 18 numbers", "office 36 numbers 30 numbers -"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    for name in ["report.txt", "report.html", "clinic/report.txt", "lab/report.txt", "lab/report.html"] {
        let words = of(name);
        assert!(words.contains("open to every party"), "{name}: {words}");
        for wrong in ["alice", "bob", "neither party", "the other party", "in sums", "receives its own part"] {
            assert!(!words.contains(wrong), "{name}: {wrong}: {words}");
        }
    }
    // What opens to two is the same to both: 25 + 51 + 11 at the leader.
    assert!(of("clinic/report.txt").contains("87 numbers that opened"), "{}", of("clinic/report.txt"));
    assert!(
        shown.contains("all others saw from office: masked columns, by way of clinic\n  to clinic opened: "),
        "{shown}"
    );
    for role in ["clinic", "lab", "office"] {
        let config = out.join(format!("{role}.toml"));
        let checks = |more: &[&str]| {
            let output = demo(&[&["--role", role, "check", "--config", config.to_str().unwrap()], more].concat());
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let checked: Value = serde_json::from_str(&checks(&["--format", "json"])).unwrap();
        assert_eq!(checked["opened"], merged["disclosure"][role]["opened"], "{role}");
        let [predicted, sent] =
            [&checked["predicted_bytes"], &merged["bytes_sent"][role]].map(|bytes| bytes.as_f64().unwrap());
        assert!((predicted / sent - 1.0).abs() < 0.01, "{role}: {predicted} {sent}");
        let words = checks(&[]).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("how the columns relate to those of every other party and to the outcome"), "{words}");
    }
    // Without limits that are loosened the leader's tables count as well, and nothing is said of them in another mode.
    for (flags, says) in [
        (&["--parties", PARTIES, "--opens", "all"][..], "--opens needs --mode sealed"),
        (&["--parties", PARTIES, "--mode", "sealed", "--opens", "all", "--lambda", "1"], "`penalty` is given"),
    ] {
        let refused = demo(&[&["vertical", "--out", out.to_str().unwrap()], flags].concat());
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(refused.status.code() == Some(2) && said.contains(says), "{said}");
    }
}

#[test]
fn every_party_of_a_sealed_run_of_three_has_an_account_of_what_it_let_open() {
    let world = sealed();
    // Of one column each: two parts of the solution; a table of one column, two numbers of the intercept, a mean but of the last.
    accounts(&world, [("carol", 2 * (3 + 3)), ("alice", 3 + 2 + 1), ("bob", 3 + 2)]);
    // Where they open to all, the leader's tables too, with a number more.
    let world = sealed();
    world.write("study.toml", &format!("mode = \"sealed\"\n{THREE}\n[sealed]\nopens = \"all\"\n"));
    accounts(&world, [("carol", 2 * (3 + 3) + 2 * 2 + 1), ("alice", 3 + 2 + 1), ("bob", 3 + 2)]);
}

/// Runs a fit and looks into the ledger of each.
fn accounts(world: &World, all: [(&str, u64); 3]) {
    codes(&end(start(world)), 0);
    for (name, numbers) in all {
        let line = if name == "carol" { "--listen" } else { "--connect" };
        let output = world.asked(name, line, &["privacy", "status", "--format", "json"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let status: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!([&status[0]["numbers_opened"], &status[0]["runs_opened"]], [numbers, 1], "{name}: {status}");
    }
}

/// The columns of the three with so many rows that a run takes a moment.
fn make_tall(world: &World) {
    for (name, columns, step) in [("alice", "a", 0.618_034), ("bob", "b", 0.414_214), ("carol", "c,y", 0.732_051)] {
        let mut text = format!("id,{columns}\n");
        for row in 0..150_000 {
            let own = (f64::from(row) * step).fract();
            text.push_str(&match name {
                "carol" => format!("r{row},{own},{}\n", own + (f64::from(row) * 0.236_068).fract()),
                _ => format!("r{row},{own}\n"),
            });
        }
        world.write(&format!("{name}.csv"), &text);
    }
}

/// One of the three, of which carol leads at `leader`.
fn one(world: &World, name: &str, [coordinator, leader, wait]: [&str; 3], more: &[&str]) -> Running {
    let data = format!("{name}.csv");
    let line = if name == "carol" { ["--listen", leader] } else { ["--connect", leader] };
    let fixed = ["fit", "--coordinator", coordinator, "--wait", wait, "--data", &data, "--out", name];
    world.start(name, &[&fixed[..], &line, more].concat())
}

/// The coordinator and the three.
fn four(world: &World, wait: &str, more: &[&str]) -> [Running; 4] {
    forget(world);
    let (coordinator, address) = world.coordinator_with(&["--wait", wait]);
    let leader = world::free_address();
    let [carol, alice, bob] = ["carol", "alice", "bob"].map(|name| one(world, name, [&address, &leader, wait], more));
    [coordinator, carol, alice, bob]
}

fn dealing(log: &std::path::Path) {
    eventually(|| fs::read_to_string(log).unwrap().contains("dealing for tables").then_some(()));
}

#[test]
fn a_sealed_run_of_three_is_begun_again_when_one_of_them_was_killed_and_is_back() {
    let world = sealed();
    make_tall(&world);
    codes(&end(four(&world, "60", &[])), 0);
    let expected = read(&world, "carol/report.json")["coefficients"].clone();
    let to_all = format!("mode = \"sealed\"\n{THREE}\n[sealed]\nopens = \"all\"\n");
    for (killed, study) in [("bob", None), ("carol", None), ("bob", Some(&to_all)), ("carol", Some(&to_all))] {
        if let Some(study) = study {
            world.write("study.toml", study);
        }
        forget(&world);
        let (coordinator, address) = world.coordinator_with(&["--wait", "60"]);
        let leader = world::free_address();
        let party = |name: &str| one(&world, name, [&address, &leader, "60"], &[]);
        let others = ["alice", "bob", "carol"].into_iter().filter(|name| *name != killed);
        let others: Vec<Running> = others.map(party).collect();
        let mut victim = party(killed);
        dealing(&world.path("coordinator.log"));
        victim.child.kill().unwrap();
        assert!(!victim.child.wait().unwrap().success(), "{killed} was over before it was killed");
        let back = party(killed);
        let mut ended: Vec<Ended> = vec![coordinator.end(), back.end()];
        ended.extend(others.into_iter().map(Running::end));
        let logs: Vec<&str> = ended.iter().map(|ended| &ended.log[..]).collect();
        assert!(ended.iter().all(|ended| ended.code == 0), "{killed}: {}", logs.join("\n---\n"));
        let again = logs[2..].iter().all(|log| log.contains("beginning another, with fresh masks"));
        assert!(again, "{killed}: {}", logs.join("\n---\n"));
        for name in ["alice", "bob", "carol"] {
            let report = read(&world, &format!("{name}/report.json"));
            assert_eq!(report["coefficients"], expected, "{killed} was killed: {name}");
        }
    }
}

#[test]
fn a_dealer_apart_from_the_coordinator_deals_for_three_and_one_that_cannot_be_reached_by_one_of_them_ends_the_run_for_all()
 {
    let world = sealed();
    world.certificates("authority", &["alice", "bob", "carol", "coordinator", "dealer"]);
    world.write("study.toml", &format!("mode = \"sealed\"\n{THREE}\n[dealer]\ncertificate = \"dealer\"\n"));
    let alone = ["deal", "--listen", "127.0.0.1:0", "--announce", "dealer.address"];
    let dealer = world.start_as("coordinator", "dealer", &alone);
    let deals = world.address("dealer.address");
    let ended = end(four(&world, "20", &["--dealer", &deals]));
    codes(&ended, 0);
    let dealer = dealer.end();
    assert_eq!(dealer.code, 0, "{}", dealer.log);
    assert!(
        dealer.log.contains("dealing for tables of 40 rows") && !ended[0].log.contains("dealing"),
        "{}",
        dealer.log
    );

    // The third never orders: nobody gets a mask, and all are told whose line it was.
    fs::remove_file(world.path("dealer.address")).unwrap();
    let dealer = world.start_as("coordinator", "dealer", &[&alone[..], &["--keep"]].concat());
    let deals = world.address("dealer.address");
    forget(&world);
    let (coordinator, address) = world.coordinator();
    let leader = world::free_address();
    let place: [&str; 3] = [&address, &leader, "3"];
    let [carol, alice] = ["carol", "alice"].map(|name| one(&world, name, place, &["--dealer", &deals]));
    let ended = end([coordinator, carol, alice, one(&world, "bob", place, &["--dealer", "127.0.0.1:9"])]);
    codes(&ended, 69);
    assert!(ended[3].log.contains("start all parties again"), "{}", ended[3].log);
    for (at, ended) in ended[..3].iter().enumerate() {
        assert!(ended.log.contains("bob"), "{at}: {}", ended.log);
    }
    assert!(!fs::read_to_string(&dealer.log).unwrap().contains("dealing for tables"));
}

#[test]
fn a_dealer_or_a_coordinator_that_is_killed_ends_a_sealed_run_of_three_for_all() {
    let world = sealed();
    make_tall(&world);
    world.certificates("authority", &["alice", "bob", "carol", "coordinator", "dealer"]);
    world.write("study.toml", &format!("mode = \"sealed\"\n{THREE}\n[dealer]\ncertificate = \"dealer\"\n"));
    let alone = ["deal", "--listen", "127.0.0.1:0", "--announce", "dealer.address", "--keep"];
    let mut dealer = world.start_as("coordinator", "dealer", &alone);
    let deals = world.address("dealer.address");
    let running = four(&world, "5", &["--dealer", &deals]);
    dealing(&dealer.log);
    dealer.child.kill().unwrap();
    let ended = end(running);
    codes(&ended, 69);
    assert!(ended[1..].iter().all(|ended| ended.log.contains("dealer")), "{}", ended[1].log);

    // Where the coordinator deals.
    world.write("study.toml", &format!("mode = \"sealed\"\n{THREE}"));
    let mut running = four(&world, "5", &[]);
    dealing(&running[0].log);
    running[0].child.kill().unwrap();
    let ended = end(running);
    for ended in &ended[1..] {
        assert_eq!(ended.code, 69, "{}", ended.log);
        assert!(ended.log.contains("coordinator"), "{}", ended.log);
    }
}

/// A run of three in which the line from bob to the leader is spoiled; every digit of its coefficients.
fn spoiled_run(study: &str, spoils: &[Spoil]) -> String {
    let world = three();
    world.write("study.toml", study);
    let (coordinator, address) = world.coordinator_with(&["--wait", "60"]);
    let leader = world::free_address();
    // The random choices of a run move its last digits.
    let party = |name: &str, leader: &str| one(&world, name, [&address, leader, "60"], &["--seed", "7"]);
    let (carol, alice) = (party("carol", &leader), party("alice", &leader));
    eventually(|| fs::read_to_string(&carol.log).unwrap().contains("listening at").then_some(()));
    let bob = party("bob", &spoiler::before(leader.clone(), spoils));
    let ended = [bob, carol, alice].map(Running::end);
    let logs: Vec<&str> = ended.iter().map(|ended| &ended.log[..]).collect();
    assert!(ended.iter().all(|ended| ended.code == 0), "{spoils:?}\n{}", logs.join("\n---\n"));
    // The coordinator may wait for a goodbye that was lost.
    drop(coordinator);
    let report = read(&world, "bob/report.json");
    format!("{} {} {}", report["rounds"], report["deviance"], report["coefficients"])
}

/// Cuts at places drawn from seeds, in either direction, on the first three connections.
fn cut_anywhere(study: &str, longest: usize) {
    let clean = spoiled_run(study, &[]);
    let mut state = 15_u64;
    let mut draw = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for _ in 0..6 {
        let faults = [Fault::Cut, Fault::HalfClose, Fault::Flip];
        let spoils: Vec<Spoil> =
            (0..3).map(|_| Spoil { fault: faults[draw(3)], back: draw(2) == 1, at: draw(longest) }).collect();
        assert_eq!(spoiled_run(study, &spoils), clean, "{spoils:?}");
    }
}

#[test]
fn a_line_to_the_leader_that_is_cut_anywhere_gives_the_bits_of_a_clean_run() {
    cut_anywhere(THREE, 9000);
}

#[test]
fn a_line_to_the_leader_that_is_cut_anywhere_in_sealed_mode_gives_the_bits_of_a_clean_run() {
    cut_anywhere(&format!("mode = \"sealed\"\n{THREE}"), 9000);
}
