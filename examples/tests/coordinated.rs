//! Matches through the coordinator by real processes, and the fits that stand on them.

// Test code may unwrap: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod world;

use std::fs;
use std::ops::Range;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use world::{DEMO, Ended, Running, STUDY, World, assert_codes, eventually};

const MATCH: &str = "[match]\nprotocol = \"coordinator\"\nmembership = \"disclosed\"\nmin_matched = 50\n\
                     max_rows = { alice = 400000, bob = 400000 }\n[match.keys]\npid = { kind = \"identifier\" }\n\
                     name = { kind = \"name\" }\n[[match.pass]]\nname = \"pid\"\nkeys = [\"pid\"]\n[[match.pass]]\nname = \"name\"\n\
                     keys = [\"name\"]\n";
const ALLOWED: &str = "[policy]\nallow_coordinator_match = true\n";
const COLUMNS: &str = "[match.columns]\npid = \"pid\"\nname = \"name\"\n";
/// Persons in each table: 140 in both.
const ALICE: Range<u32> = 0..200;
const BOB: Range<u32> = 60..260;

fn value(person: u32, role: &str) -> f64 {
    let t = f64::from(person);
    if role == "alice" { (0.7 * t).cos() } else { 0.004 * t + (1.1 * t).sin() }
}

/// A world whose tables overlap in part; every fifth of Bob's persons has no identifier. `more` strangers stand in each table.
fn world(more: u32) -> World {
    let world = World::new();
    let study = STUDY.replace("[rows]\n    id = \"id\"\n", "");
    assert_ne!(study, STUDY);
    world.write("study.toml", &format!("{study}\n{MATCH}"));
    for (role, range, step) in [("alice", ALICE, 7), ("bob", BOB, 33)] {
        let column = &role[..1];
        let mut table = format!("pid,name,{column},y\n");
        let count = range.end - range.start;
        for at in 0..count {
            let person = range.start + at * step % count;
            let (own, t) = (value(person, role), f64::from(person));
            let y = 1.0 + 0.8 * value(person, "alice") - 0.5 * value(person, "bob") + 0.3 * (2.3 * t).sin();
            let pid = if role == "bob" && person % 5 == 0 { String::new() } else { format!("{person:04}") };
            let name = if role == "bob" { format!("PERSON {person}") } else { format!("person-{person}") };
            table.push_str(&format!("{pid},{name},{own},{y}\n"));
        }
        for row in 0..more {
            table.push_str(&format!("{column}{row:07},{role} {row},0,0\n"));
        }
        world.write(&format!("{role}.csv"), &table);
        world.write(&format!("{role}.toml"), &format!("{COLUMNS}{ALLOWED}"));
    }
    world
}

/// The coordinator, alice and bob with a command.
fn start(world: &World, command: &[&str], wait: &str) -> [Running; 3] {
    for name in ["coordinator.address", "alice.address"] {
        let _ = fs::remove_file(world.path(name));
    }
    let (coordinator, address) = world.coordinator_with(&["--wait", wait]);
    let party = |role: &str, line: &[&str]| {
        let files = ["--config", &format!("{role}.toml"), "--data", &format!("{role}.csv"), "--wait", wait];
        world.start(role, &[command, &files, &["--coordinator", &address, "--format", "json"], line].concat())
    };
    let alice = party("alice", &["--listen", "127.0.0.1:0", "--announce", "alice.address"]);
    let listening = world.address("alice.address");
    let bob = party("bob", &["--connect", &listening]);
    [coordinator, alice, bob]
}

fn run(world: &World, command: &[&str]) -> [Ended; 3] {
    start(world, command, "10").map(Running::end)
}

fn json(ended: &Ended) -> Value {
    serde_json::from_str(&ended.out).unwrap_or_else(|error| panic!("{error}: {}", ended.log))
}

/// A command of a party that opens no connection.
fn alone(world: &World, role: &str, words: &[&str]) -> Output {
    let name = |end: &str| format!("{role}{end}");
    Command::new(DEMO)
        .args(["--role", role])
        .args(words)
        .args(["--study", "study.toml", "--coordinator", "127.0.0.1:9", "--connect", "127.0.0.1:9"])
        .args(["--config", &name(".toml"), "--data", &name(".csv"), "--state", &name("-state")])
        .args(["--authority", "authority.pem", "--certificate", &name(".pem"), "--key", &name(".key")])
        .current_dir(world.folder.path())
        .env("XDG_STATE_HOME", world.path("state-home"))
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[test]
fn a_match_through_the_coordinator_finds_the_common_rows_and_a_fit_stands_on_it() {
    let world = world(0);
    let ended = run(&world, &["match"]);
    assert_codes(&ended, 0);
    let [alice, bob] = [&ended[1], &ended[2]].map(json);
    assert_eq!(
        (&alice["protocol"], &alice["matched"], &bob["matched"]),
        (&"coordinator".into(), &140.into(), &140.into())
    );
    let by_pid = (BOB.start..ALICE.end).filter(|person| person % 5 != 0).count();
    for report in [&alice, &bob] {
        assert_eq!(report["passes"][0]["matched"], by_pid);
        assert_eq!(report["passes"][1]["matched"], 140 - by_pid);
    }
    assert_eq!((&alice["passes"][0]["peer_eligible"], &bob["passes"][0]["own_missing"]), (&160.into(), &40.into()));
    let record = |role: &str| -> Value {
        serde_json::from_str(&fs::read_to_string(world.path(&format!("{role}-state/match/match.json"))).unwrap())
            .unwrap()
    };
    assert_eq!(record("alice")["order_digest"], record("bob")["order_digest"]);
    // No tag and no position is left at the coordinator.
    let mut left: Vec<String> = fs::read_dir(world.path("coordinator-state"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, ["events.jsonl", "merges.jsonl"]);
    let events = fs::read_to_string(world.path("coordinator-state/events.jsonl")).unwrap();
    assert!(!events.contains("140"), "{events}");
    let ended = run(&world, &["fit", "--out", "out"]);
    assert_codes(&ended, 0);
    let report = json(&ended[1]);
    assert_eq!((&report["nobs"], &report["match"]["protocol"]), (&140.into(), &"coordinator".into()));
    let shown = fs::read_to_string(world.path("out/report.txt")).unwrap();
    assert!(shown.contains("the coordinator learnt how many rows of each took part"), "{shown}");
}

#[test]
fn it_is_refused_unless_the_study_and_both_parties_allow_it() {
    let world = world(0);
    for policy in ["", "[policy]\nallow_coordinator_match = false\n"] {
        // Where it is not refused, nobody is there to wait for.
        world.write("bob.toml", &format!("wait = 1\n{COLUMNS}{policy}"));
        for command in [&["match"][..], &["match", "--dry-run"], &["check"]] {
            let output = alone(&world, "bob", command);
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(77), "{command:?}: {said}");
            assert!(said.contains("refused by the policy of bob: a match through the coordinator"), "{said}");
        }
    }
    let output = alone(&world, "alice", &["match", "--dry-run"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8(output.stdout).unwrap().contains("to the coordinator tags of the keys"));
    // A coordinator that is a party.
    let study = fs::read_to_string(world.path("study.toml")).unwrap();
    world.write("study.toml", &format!("{study}\n[coordinator]\ncertificate = \"bob\"\n"));
    let output = alone(&world, "alice", &["match", "--dry-run"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("must have different certificate names"));
}

#[test]
fn too_few_matches_end_it_at_all_three_with_the_same_code() {
    // By their identifiers 112 match.
    for (study, bob) in [(113, 1), (50, 113)] {
        let world = world(0);
        let text = fs::read_to_string(world.path("study.toml")).unwrap();
        world.write("study.toml", &text.replace("min_matched = 50", &format!("min_matched = {study}")));
        world.write("bob.toml", &format!("{COLUMNS}{ALLOWED}min_matched = {bob}\n"));
        let ended = run(&world, &["match"]);
        assert_codes(&ended, 77);
        assert!(ended[1].log.contains("nothing was revealed"), "{}", ended[1].log);
        for role in ["alice", "bob"] {
            assert!(!world.path(&format!("{role}-state/match/match.json")).exists());
        }
    }
}

/// Three processes at addresses that are known before, so that any of them can be started again.
struct Fixed<'a> {
    world: &'a World,
    coordinator: String,
    line: String,
}

impl Fixed<'_> {
    fn of(world: &World) -> Fixed<'_> {
        Fixed { world, coordinator: world::free_address(), line: world::free_address() }
    }

    fn start(&self, role: &str, command: &str) -> Running {
        let (data, config) = (format!("{role}.csv"), format!("{role}.toml"));
        let files = ["--data", &data, "--config", &config, "--coordinator", &self.coordinator, "--format", "json"];
        match role {
            "coordinator" => {
                self.world.start(role, &["serve", "--listen", &self.coordinator, "--wait", "30", "--keep"])
            }
            "alice" => {
                self.world.start(role, &[&[command, "--wait", "30", "--listen", &self.line], &files[..]].concat())
            }
            _ => self.world.start(role, &[&[command, "--wait", "30", "--connect", &self.line], &files[..]].concat()),
        }
    }
}

#[test]
fn each_of_the_three_that_is_killed_while_lists_are_merged_goes_on_with_the_same_match() {
    let world = world(300_000);
    for victim in ["alice", "bob", "coordinator"] {
        for folder in ["alice-state", "bob-state", "coordinator-state", "state-home"] {
            let _ = fs::remove_dir_all(world.path(folder));
        }
        let fixed = Fixed::of(&world);
        let mut running = ["coordinator", "alice", "bob"].map(|role| (role, fixed.start(role, "match")));
        let log = running[0].1.log.clone();
        eventually(|| fs::read_to_string(&log).ok().filter(|log| log.contains("merging the lists")));
        for (role, running) in &mut running {
            if *role == victim {
                running.child.kill().unwrap();
                running.child.wait().unwrap();
                *running = fixed.start(role, "match");
            }
        }
        let [coordinator, (_, alice), (_, bob)] = running;
        let ended = [alice.end(), bob.end()];
        drop(coordinator);
        for ended in &ended {
            assert_eq!(ended.code, 0, "{victim}: {}", ended.log);
            assert_eq!(json(ended)["matched"], 140);
        }
        let said = |end: &Ended, what: &str| end.log.contains(what);
        match victim {
            "coordinator" => assert!(said(&ended[0], "the line to the coordinator at"), "{}", ended[0].log),
            _ => assert!(ended.iter().any(|end| said(end, "was interrupted here; taking it up again")), "{victim}"),
        }
        let records = ["alice", "bob"].map(|role| -> Value {
            serde_json::from_slice(&fs::read(world.path(&format!("{role}-state/match/match.json"))).unwrap()).unwrap()
        });
        assert_eq!(
            (&records[0]["order_digest"], &records[0]["run"]),
            (&records[1]["order_digest"], &records[1]["run"])
        );
        for role in ["alice", "bob"] {
            let counted = fs::read_to_string(world.path(&format!("{role}-state/matches.jsonl"))).unwrap();
            assert_eq!(counted.lines().count(), 1, "{victim}: {role} counts it once");
        }
        // Each party has sent one list a pass, however often.
        let lists = fs::read_to_string(world.path("coordinator-state/merges.jsonl")).unwrap();
        assert_eq!(lists.lines().count(), 4, "{victim}: {lists}");
    }
}

#[test]
fn without_the_other_two_a_party_waits_as_long_as_stated_and_goes_on_with_the_same_command() {
    let world = world(300_000);
    let [mut coordinator, mut alice, bob] = start(&world, &["match"], "3");
    eventually(|| fs::read_to_string(&coordinator.log).ok().filter(|log| log.contains("merging the lists")));
    coordinator.child.kill().unwrap();
    alice.child.kill().unwrap();
    alice.child.wait().unwrap();
    let ended = bob.end();
    assert_eq!(ended.code, 69, "{}", ended.log);
    assert!(ended.log.contains("is not lost: the same command goes on with it"), "{}", ended.log);
    let ended = run(&world, &["match"]);
    assert_codes(&ended, 0);
    assert_eq!(json(&ended[1])["matched"], 140);
    for role in ["alice", "bob"] {
        let counted = fs::read_to_string(world.path(&format!("{role}-state/matches.jsonl"))).unwrap();
        assert_eq!(counted.lines().count(), 1, "{role} counts it once");
        assert!(!world.path(&format!("{role}-state/match-run.bin")).exists(), "{role}: the secret is erased");
    }
}

#[test]
fn a_study_that_says_so_is_matched_through_the_coordinator_by_its_fit() {
    let world = world(0);
    let study = fs::read_to_string(world.path("study.toml")).unwrap();
    world.write(
        "study.toml",
        &study.replace("protocol = \"coordinator\"", "protocol = \"coordinator\"\nrun = \"auto\""),
    );
    let fixed = Fixed::of(&world);
    let [coordinator, alice, bob] = ["coordinator", "alice", "bob"].map(|role| fixed.start(role, "fit"));
    for ended in [alice.end(), bob.end()] {
        assert_eq!(ended.code, 0, "{}", ended.log);
        let report = json(&ended);
        assert_eq!((&report["nobs"], &report["match"]["protocol"]), (&140.into(), &"coordinator".into()));
        assert!(ended.log.contains("matching first"), "{}", ended.log);
    }
    drop(coordinator);
}

#[test]
fn a_coordinator_that_falls_silent_while_it_merges_is_waited_for_as_long_as_stated() {
    let world = world(300_000);
    let [coordinator, alice, bob] = start(&world, &["match"], "3");
    eventually(|| fs::read_to_string(&coordinator.log).ok().filter(|log| log.contains("merging the lists")));
    let stopped = Command::new("kill").args(["-STOP", &coordinator.child.id().to_string()]).status().unwrap();
    assert!(stopped.success());
    for ended in [alice.end(), bob.end()] {
        assert_eq!(ended.code, 69, "{}", ended.log);
        assert!(
            ended.log.contains("waited 3 s for the next message of coordinator") || ended.log.contains("ended the run"),
            "{}",
            ended.log
        );
    }
}
