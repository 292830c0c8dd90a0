//! Private fits of three parties as real processes: the demo, what a check foretells, ledgers, and processes that are killed.

// Test code may unwrap: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod ledgers;
mod world;

use std::fs;
use std::path::PathBuf;
use std::process::Output;

use ledgers::{hold, let_go, records};
use serde_json::Value;
use world::{Ended, Running, World, demo, eventually};

const NAMES: [&str; 3] = ["carol", "alice", "bob"];

const STUDY: &str = r#"
    id = "three"
    mode = "private"
    leader = "carol"
    [outcome]
    column = "y"
    held_by = "all"
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
    [columns.a]
    range = [0, 1]
    [columns.b]
    range = [0, 1]
    [columns.c]
    range = [0, 1]
    [columns.y]
    range = [0, 3]
    [privacy]
    mechanism = "crossprod"
    epsilon = 1.0
    delta = 1e-6
"#;

/// Three parties with data sets for `runs` runs.
fn world(rows: u32, runs: f64) -> World {
    world_of(STUDY, rows, runs, "", |_, _| false)
}

/// The same with another study and more in the private files; of each party, in order, the rows that it lacks.
fn world_of(study: &str, rows: u32, runs: f64, more: &str, lacks: fn(usize, u32) -> bool) -> World {
    let world = World::new();
    world.certificates("authority", &["alice", "bob", "carol", "coordinator", "dealer"]);
    world.write("study.toml", study);
    let columns = [("carol", "c", 0.732_051), ("alice", "a", 0.618_034), ("bob", "b", 0.414_214)];
    for (at, (name, column, step)) in columns.into_iter().enumerate() {
        let mut text = format!("id,{column},y\n");
        for row in (0..rows).filter(|row| !lacks(at, *row)) {
            let part = |step: f64| (f64::from(row) * step).fract();
            let y = part(0.618_034) + 0.5 * part(0.414_214) + 0.7 * part(0.732_051) + 0.3 * part(0.236_068);
            text.push_str(&format!("r{row},{},{y}\n", part(step)));
        }
        world.write(&format!("{name}.csv"), &text);
        world.write(
            &format!("{name}.toml"),
            &format!(
                "[privacy]\nledger = \"{name}-state/privacy.sqlite\"\nanchor = \"anchors/{name}\"\ndata_set = \"cohort\"\nepsilon = \
                 {runs}\ndelta = 1e-6\n{more}"
            ),
        );
        let made = command(&world, name, &["privacy", "init"]);
        assert!(made.status.success(), "{made:?}");
    }
    world
}

fn command(world: &World, name: &str, words: &[&str]) -> Output {
    world.asked(name, if name == "carol" { "--listen" } else { "--connect" }, words)
}

fn party(world: &World, name: &str, [command, coordinator, leader, wait]: [&str; 4], more: &[&str]) -> Running {
    let line = if name == "carol" { ["--listen", leader] } else { ["--connect", leader] };
    let data = format!("{name}.csv");
    let fixed = [command, "--coordinator", coordinator, "--wait", wait, "--data", &data];
    // A match stays in the state folder, where the fit looks for it.
    let out = ["--out", name];
    world.start(name, &[&fixed[..], &line, if command == "fit" { &out } else { &[] }, more].concat())
}

/// The coordinator and the three, of which carol leads.
fn start(world: &World, wait: &str) -> Vec<Running> {
    start_to("fit", world, wait, &[])
}

/// The same for another command, and with more on the command lines of the three.
fn start_to(command: &str, world: &World, wait: &str, more: &[&str]) -> Vec<Running> {
    let _ = fs::remove_file(world.path("coordinator.address"));
    let (coordinator, address) = world.coordinator_with(&["--wait", wait]);
    let leader = world::free_address();
    let parties = NAMES.map(|name| party(world, name, [command, &address, &leader, wait], more));
    std::iter::once(coordinator).chain(parties).collect()
}

fn end(running: Vec<Running>) -> Vec<Ended> {
    running.into_iter().map(Running::end).collect()
}

fn codes(ended: &[Ended], expected: i32) {
    let logs: Vec<&str> = ended.iter().map(|ended| &ended.log[..]).collect();
    assert!(ended.iter().all(|ended| ended.code == expected), "{}", logs.join("\n---\n"));
}

fn report(world: &World, name: &str) -> Value {
    serde_json::from_slice(&fs::read(world.path(&format!("{name}/report.json"))).unwrap()).unwrap()
}

fn ledger(world: &World, name: &str) -> PathBuf {
    world.path(&format!("{name}-state/privacy.sqlite"))
}

fn spent(world: &World, name: &str) -> f64 {
    let output = command(world, name, &["privacy", "status", "--format", "json"]);
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    status[0]["sum"].as_f64().unwrap()
}

#[test]
fn three_parties_of_the_demo_have_the_same_noised_fit_and_say_what_all_others_learnt() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let parties = "lab=s1,s2,s5;clinic=bmi,bp;office=age,sex";
    let flags = ["--mode", "private", "--epsilon", "3", "--leader", "clinic", "--out", out.to_str().unwrap()];
    let output = demo(&[&["vertical", "--parties", parties], &flags[..]].concat());
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{shown}{}", String::from_utf8_lossy(&output.stderr));
    let read = |path: PathBuf| serde_json::from_slice::<Value>(&fs::read(path).unwrap()).unwrap();
    let merged = read(out.join("report.json"));
    let rows = merged["coefficients"].as_array().unwrap();
    let terms: Vec<&str> = rows.iter().map(|row| row["term"].as_str().unwrap()).collect();
    assert_eq!(terms, ["(Intercept)", "bmi", "bp", "s1", "s2", "s5", "age", "sex"]);
    assert!(rows.iter().all(|row| row["std_error"].as_f64().unwrap() > 0.0), "{rows:?}");
    for role in ["clinic", "lab", "office"] {
        let own = read(out.join(role).join("report.json"));
        assert_eq!(own["coefficients"], merged["coefficients"], "{role}");
        assert_eq!(own["disclosure"]["declared"], serde_json::json!(["masked columns"]));
        let releases = merged["privacy"][role]["releases"].as_array().unwrap().iter();
        let labels: Vec<&str> = releases.map(|release| release["label"].as_str().unwrap()).collect();
        assert_eq!(labels, ["X'X", "X'y", "shares of the tables between the blocks"]);
        let config = out.join(format!("{role}.toml"));
        let planned = demo(&["--role", role, "privacy", "plan", "--config", config.to_str().unwrap()]);
        let plan = String::from_utf8_lossy(&planned.stdout);
        assert!(plan.contains("residual                    not possible"), "{plan}");
    }
    for name in ["report.txt", "report.html", "clinic/report.txt", "lab/report.html"] {
        let text = fs::read_to_string(out.join(name)).unwrap();
        // Behind the style sheet, which has colours of two.
        let words = text.split("</style>").last().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        for wrong in ["alice", "bob", "neither party", "the other party", "both blocks", "singly"] {
            assert!(!words.contains(wrong), "{name}: {wrong}: {words}");
        }
        assert!(words.contains("must collude with no party") && words.contains("all blocks"), "{name}: {words}");
    }
    let text = fs::read_to_string(out.join("report.txt")).unwrap();
    assert!(text.contains("clinic -           noised sums noised sums"), "{text}");
    assert!(shown.contains("all others saw from office: masked columns, noised tables"), "{shown}");
    assert!(shown.contains("3 releases were charged"), "{shown}");
}

#[test]
fn a_run_of_three_is_charged_once_at_each_a_check_foretells_its_bytes_and_the_budget_refuses_another() {
    let world = world(400, 1.0);
    let checked = NAMES.map(|name| {
        let output = command(&world, name, &["check", "--format", "json"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let checked: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{name}: {said}"));
        let leaves = checked["leaves"].as_array().unwrap().iter().map(|leaving| leaving["what"].as_str().unwrap());
        assert_eq!(leaves.collect::<Vec<_>>(), ["masked columns", "noised statistics", "noised shares"]);
        checked["predicted_bytes"].as_f64().unwrap()
    });
    codes(&end(start(&world, "20")), 0);
    let first = report(&world, "carol");
    for (name, predicted) in NAMES.into_iter().zip(checked) {
        let own = report(&world, name);
        assert_eq!(own["coefficients"], first["coefficients"], "{name}");
        let sent = own["bytes_sent"].as_f64().unwrap();
        println!("{name}: foretold {predicted}, sent {sent}");
        assert!((predicted / sent - 1.0).abs() < 0.02, "{name}: {predicted} {sent}");
        let charge = own["privacy"]["charge"].as_f64().unwrap();
        assert!((spent(&world, name) - charge).abs() < 1e-12 * charge && charge > 0.0, "{name}");
        let verified = command(&world, name, &["privacy", "verify"]);
        assert!(verified.status.success(), "{verified:?}");
    }
    let ended = end(start(&world, "3"));
    codes(&ended[1..], 77);
    // Whose ledger refuses first ends the run of the others before theirs are asked.
    for ended in &ended[1..] {
        let told = ["the privacy ledger of ", " refused"].iter().all(|words| ended.log.contains(words));
        assert!(ended.log.contains("is spent") || told, "{}", ended.log);
    }
    assert!(ended[1..].iter().any(|ended| ended.log.contains("is spent")), "{}", ended[1].log);
}

#[test]
fn an_outcome_at_one_of_three_ends_every_command_of_a_private_study_with_2() {
    let world = world(40, 1.0);
    world.write("study.toml", &STUDY.replace("held_by = \"all\"", "held_by = \"carol\""));
    for name in NAMES {
        for words in [&["check"][..], &["fit"], &["privacy", "plan"]] {
            let output = command(&world, name, words);
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{name} {words:?}: {said}");
            assert!(said.contains("`outcome.held_by` is one party"), "{name} {words:?}: {said}");
        }
        assert_eq!(records(&ledger(&world, name)).iter().filter(|body| body.contains("reserved")).count(), 0);
    }
}

#[test]
fn a_private_fit_of_three_takes_the_rows_that_all_have() {
    let passes = "[match]\nmembership = \"disclosed\"\nmax_rows = { alice = 500, bob = 500, carol = 500 }\n[match.keys]\nid = { kind = \
                  \"identifier\" }\n[[match.pass]]\nname = \"id\"\nkeys = [\"id\"]\n";
    let study = format!("{}\n{passes}", STUDY.replace("[rows]\n    id = \"id\"\n", ""));
    let keys = "[match]\nid = \"id\"\n[match.columns]\nid = \"id\"\n";
    // Each lacks ten rows of its own.
    let world = world_of(&study, 400, 1.0, keys, |at, row| row / 10 == 3 * at as u32);
    codes(&end(start_to("match", &world, "20", &[])), 0);
    codes(&end(start(&world, "20")), 0);
    let first = report(&world, "carol");
    assert_eq!(first["nobs"], 370);
    for name in NAMES {
        let own = report(&world, name);
        assert_eq!(own["coefficients"], first["coefficients"], "{name}");
        let notes = own["notes"].to_string();
        assert!(notes.contains("declared and not protected: which rows matched"), "{notes}");
        assert!(own["privacy"]["charge"].as_f64().unwrap() > 0.0, "{name}");
    }
}

#[test]
fn a_run_of_three_in_which_a_party_or_the_coordinator_is_killed_before_anything_was_released_costs_nothing() {
    let world = world(150_000, 1.0);
    // The coordinator, which deals; the leader; another one.
    for (killed, says) in [(0, "coordinator"), (1, "carol"), (3, "bob")] {
        let mut running = start(&world, "5");
        dealing(&running[0]);
        running[killed].child.kill().unwrap();
        lost(&world, end(running), killed, says);
    }
    codes(&end(start(&world, "20")), 0);
}

#[test]
fn a_dealer_apart_from_the_coordinator_that_is_killed_ends_a_private_run_of_three_for_all_and_costs_nothing() {
    let study = format!("{STUDY}\n[dealer]\ncertificate = \"dealer\"\n");
    let world = world_of(&study, 150_000, 1.0, "", |_, _| false);
    let deal = || {
        let _ = fs::remove_file(world.path("dealer.address"));
        let alone = ["deal", "--listen", "127.0.0.1:0", "--announce", "dealer.address"];
        let dealer = world.start_as("coordinator", "dealer", &alone);
        let address = world.address("dealer.address");
        (dealer, address)
    };
    let (mut dealer, address) = deal();
    let running = start_to("fit", &world, "5", &["--dealer", &address]);
    dealing(&dealer);
    dealer.child.kill().unwrap();
    let ended = end(running);
    assert_eq!(ended[0].code, 69, "{}", ended[0].log);
    lost(&world, ended, 0, "dealer");
    let (dealer, address) = deal();
    codes(&end(start_to("fit", &world, "20", &["--dealer", &address])), 0);
    assert_eq!(dealer.end().code, 0);
}

/// Waits until masks are dealt.
fn dealing(dealer: &Running) {
    eventually(|| fs::read_to_string(&dealer.log).unwrap().contains("dealing for tables").then_some(()));
}

/// That all other parties than the one that was killed have ended for want of it, and that the run has cost nobody anything.
fn lost(world: &World, ended: Vec<Ended>, killed: usize, says: &str) {
    for ended in ended.iter().enumerate().skip(1).filter(|(at, _)| *at != killed).map(|(_, ended)| ended) {
        assert_eq!(ended.code, 69, "{says}: {}", ended.log);
        assert!(ended.log.contains(says), "{says}: {}", ended.log);
    }
    for name in NAMES {
        assert_eq!(spent(world, name), 0.0, "{name} without {says}");
    }
}

#[test]
fn a_leader_killed_after_the_noised_values_of_all_others_had_left_loses_nothing_and_they_lose_their_charge() {
    let world = world(400, 2.0);
    let own = ledger(&world, "carol");
    hold(&own, "records WHEN json_extract(NEW.body, '$.kind') = 'stored'");
    let mut running = start(&world, "5");
    // The leader releases last, so that both others have released all.
    eventually(|| records(&own).iter().any(|body| body.contains("\"kind\":\"reserved\"")).then_some(()));
    for name in ["alice", "bob"] {
        let last = |body: &String| body.contains("\"kind\":\"stored\"") && body.contains("\"index\":2,");
        eventually(|| records(&ledger(&world, name)).iter().any(last).then_some(()));
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    running[1].child.kill().unwrap();
    running[1].child.wait().unwrap();
    let_go(&own);
    let ended = end(running);
    for ended in &ended[2..] {
        assert_eq!(ended.code, 69, "{}", ended.log);
        assert!(ended.log.contains("carol"), "{}", ended.log);
    }
    // All the same command again: another run, and only the others have paid for two.
    codes(&end(start(&world, "20")), 0);
    for (name, runs) in NAMES.into_iter().zip([1.0, 2.0, 2.0]) {
        let charge = report(&world, name)["privacy"]["charge"].as_f64().unwrap();
        let sum = spent(&world, name);
        assert!(charge > 0.0 && (sum - runs * charge).abs() < 1e-9 * charge, "{name}: {sum} {charge}");
    }
}

#[test]
fn a_party_killed_after_its_first_noised_value_has_left_loses_its_charge_and_nobody_elses_that_had_released_nothing() {
    let world = world(400, 1.0);
    let own = ledger(&world, "bob");
    hold(
        &own,
        "records WHEN json_extract(NEW.body, '$.kind') = 'stored' AND json_extract(NEW.body, '$.receipt.index') = 1",
    );
    let mut running = start(&world, "5");
    eventually(|| records(&own).iter().any(|body| body.contains("\"index\":0,")).then_some(()));
    std::thread::sleep(std::time::Duration::from_millis(300));
    let mut bob = running.pop().unwrap();
    bob.child.kill().unwrap();
    bob.child.wait().unwrap();
    let_go(&own);
    let ended = end(running);
    assert!(ended[1..].iter().all(|ended| ended.code == 69), "{}\n{}", ended[1].log, ended[2].log);
    // The leader releases after all others.
    assert_eq!(spent(&world, "carol"), 0.0);
    // Bob's run is over when he starts again, and its charge stays: there is no budget for another.
    let ended = end(start(&world, "3"));
    assert_eq!(ended[3].code, 77, "{}", ended[3].log);
    assert!(ended[3].log.contains("what it reserved is spent"), "{}", ended[3].log);
    assert!(spent(&world, "bob") > 0.0);
}
