//! How runs between sites end: coordinators that are killed at the end, closed by hand, or told to stop.

use std::fs;
use std::process::{Command, Output};
use std::time::Instant;

use rusqlite::Connection;
use serde_json::Value;

use super::ledgers::records;
use super::sites::{DEMO, PATIENCE, Running, WORKERS, World};
use super::{BATCHES, ROUNDS, STREAM, eventually, ledger, ledgers, private_worker, said, study};

const ONCE: &str = r#"features
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
    [features]
    count = 10
"#;

#[test]
fn a_coordinator_killed_behind_the_record_of_the_end_gives_the_result_to_everybody_when_it_is_back() {
    let world = ledgers(BATCHES, 8.0);
    let coordinator = world.coordinator(&["--wait", "60"]);
    let [north, south] = ["north", "south"].map(|name| private_worker(&world, name));
    // Both have given all that they have; the third never came.
    for name in ["north", "south"] {
        coordinator.wait_for(&format!("{name} has 2 contributions in all"));
        world.wait_for_contributions(name, 2);
    }
    south.kill();
    coordinator.kill();
    // As if it had been killed between keeping that and saying it.
    let state = world.path("coordinator-state/run.sqlite");
    let tool = Connection::open(&state).unwrap();
    tool.execute("INSERT INTO records (kind, text) VALUES ('over', 'the time was up')", []).unwrap();
    drop(tool);
    let coordinator = world.coordinator(&["--wait", "20"]);
    // One comes after the end, as another process, for what it gave to.
    coordinator.wait_for("the run has ended");
    let south = private_worker(&world, "south");
    for worker in [north, south] {
        let ended = worker.end();
        assert!([0, 3].contains(&ended.code), "{} {}", ended.code, ended.log);
    }
    let ended = coordinator.end();
    assert!([0, 3].contains(&ended.code), "{} {}", ended.code, ended.log);
    let report = world.report("coordinator");
    assert_eq!(report["batches"].as_array().unwrap().len(), 4, "{report}");
    for name in ["north", "south"] {
        assert_eq!(world.report(name)["coefficients"], report["coefficients"], "{name}");
    }
    // What is forgotten when the next run begins stands in the state folder.
    let kept = world.path(&format!("coordinator-state/reports/{}.json", report["run"].as_str().unwrap()));
    let kept: Value = serde_json::from_str(&fs::read_to_string(kept).unwrap()).unwrap();
    assert_eq!(kept["coefficients"], report["coefficients"]);
}

#[test]
fn a_result_that_somebody_did_not_fetch_outlives_the_patience_of_the_coordinator() {
    let world = World::of(&study(BATCHES, false).replace("[robust.private]\n    rounds = 3\n", ""));
    let coordinator = world.coordinator(&["--wait", "60"]);
    let north = world.worker("north", &[]);
    coordinator.wait_for("north has 2 contributions in all");
    world.wait_for_contributions("north", 2);
    // It has given all that it has, and is killed before there is a result.
    north.kill();
    let others = ["south", "west"].map(|name| world.worker(name, &[]));
    // Few rows a batch: the result may lie outside the method's guarantee.
    others.into_iter().for_each(|worker| assert!([0, 3].contains(&worker.end().code)));
    coordinator.wait_for("the run has ended");
    let again = world.worker("north", &[]).end();
    assert!([0, 3].contains(&again.code), "{}", again.log);
    assert!([0, 3].contains(&coordinator.end().code));
    assert_eq!(world.report("north")["coefficients"], world.report("coordinator")["coefficients"]);
}

#[test]
fn a_coordinator_killed_at_the_end_of_any_method_goes_on_and_every_ledger_is_charged_once() {
    let cases = [(BATCHES, 2), (ROUNDS, 5), (ONCE, 1), (STREAM, 5)].map(|(method, contributions)| {
        std::thread::spawn(move || {
            let world = ledgers(method, 8.0);
            let first = world.coordinator(&["--wait", "60"]);
            let workers = WORKERS.map(|name| private_worker(&world, name));
            let since = Instant::now();
            // Killed where it happens to be then: at the last contribution, behind it, or at the end.
            while !first.log().contains("the run has ended") && since.elapsed() < PATIENCE {
                let status = command_status(&world);
                if status["parties"]["north"]["round"].as_u64() >= Some(contributions) {
                    break;
                }
            }
            first.kill();
            let second = world.coordinator(&["--wait", "20"]);
            for worker in workers {
                let ended = worker.end();
                assert!([0, 3].contains(&ended.code), "{method}: {} {}", ended.code, ended.log);
            }
            // Where the first had told everybody, the second waits for a run that nobody begins.
            match second.log().contains("going on with run") {
                true => {
                    let ended = second.end();
                    assert!([0, 3].contains(&ended.code), "{method}: {} {}", ended.code, ended.log);
                }
                false => drop(second.kill()),
            }
            for name in WORKERS {
                let charges = records(&ledger(&world, name));
                assert_eq!(charges.iter().filter(|body| body.contains("\"kind\":\"reserved\"")).count(), 1, "{method}");
                assert!(world.path(&format!("{name}/report.json")).exists(), "{method}: {name}");
            }
        })
    });
    cases.into_iter().for_each(|case| case.join().unwrap());
}

fn coordinator_says(world: &World, words: &[&str], certificate: &str) -> Output {
    Command::new(DEMO)
        .args(["--role", "coordinator"])
        .args(words)
        .args(["--listen", &world.address, "--authority", "authority.pem"])
        .args(["--certificate", &format!("{certificate}.pem"), "--key", &format!("{certificate}.key")])
        .current_dir(world.path(""))
        .output()
        .unwrap()
}

fn command_status(world: &World) -> Value {
    let words = ["status", "--study", "study.toml", "--format", "json"];
    serde_json::from_slice(&coordinator_says(world, &words, "coordinator").stdout).unwrap_or_default()
}

#[test]
fn a_run_that_waits_for_others_is_closed_with_the_quorum_that_came_and_says_how_near_it_is() {
    let world = ledgers(ROUNDS, 1.0);
    let coordinator = world.coordinator(&["--wait", "60"]);
    let north = private_worker(&world, "north");
    north.wait_for("nothing is spent or sent before the quorum");
    let finish = |certificate: &str| coordinator_says(&world, &["finish", "study.toml"], certificate);
    eventually(|| command_status(&world)["quorum"] == serde_json::json!({"needed": 2, "came": 1}));
    let early = finish("coordinator");
    assert_eq!(early.status.code(), Some(75), "{}", said(&early));
    assert!(said(&early).contains("1 workers are ready, and the quorum is 2: the run goes on"), "{}", said(&early));
    let south = private_worker(&world, "south");
    eventually(|| command_status(&world)["quorum"]["came"] == 2);
    let status = command_status(&world);
    assert!((1..=50).contains(&status["seconds_left"].as_u64().unwrap()), "{status}");
    let text = said(&coordinator_says(&world, &["status", "--study", "study.toml"], "coordinator"));
    assert!(text.contains("quorum 2 of 3: 2 ready; ") && text.contains(" s left"), "{text}");
    let stranger = finish("north");
    assert!(
        stranger.status.code() == Some(77)
            && said(&stranger).contains("is for 'north', but the study calls this party"),
        "{}",
        said(&stranger)
    );
    let closed = finish("coordinator");
    assert_eq!((closed.status.code(), said(&closed).as_str()), (Some(0), "the run goes on with those who are there\n"));
    for worker in [north, south] {
        let ended = worker.end();
        assert_eq!(ended.code, 0, "{}", ended.log);
    }
    assert_eq!(coordinator.end().code, 0);
}

#[cfg(unix)]
#[test]
fn a_signal_to_end_stops_every_role_of_a_run_between_sites_in_good_order() {
    let world = World::of(&study(ROUNDS, false));
    let coordinator = world.coordinator(&["--wait", "60"]);
    let [north, south] = ["north", "south"].map(|name| world.worker(name, &[]));
    let signal = |running: &Running| {
        let id = running.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    };
    [&north, &south].iter().for_each(|worker| worker.wait_for("nothing is spent or sent"));
    signal(&north);
    let north = north.end();
    assert_eq!(north.code, 130, "{}", north.log);
    coordinator.wait_for("north left the run: interrupted by its user");
    signal(&coordinator);
    assert_eq!((coordinator.end().code, south.end().code), (130, 130));
}
