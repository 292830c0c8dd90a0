//! Processes that are killed between the reservation of their budget and their first release, and whose run is over before they return.

// Test code may unwrap: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod ledgers;
mod sites;
mod world;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use ledgers::{hold, let_go, records, stored};
use rusqlite::Connection;
use serde_json::Value;
use sites::{DEMO, PATIENCE, Running, WORKERS};

/// How many records of a kind a ledger has.
fn count(ledger: &Path, kind: &str) -> usize {
    let kind = format!("\"kind\":\"{kind}\"");
    records(ledger).iter().filter(|body| body.contains(&kind)).count()
}

fn eventually(mut holds: impl FnMut() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What `privacy` says to a role of a folder.
fn privacy(folder: &Path, role: &str, name: &str, words: &[&str]) -> Output {
    Command::new(DEMO)
        .args(["--role", role, "privacy"])
        .args(words)
        // A party needs to know which of the two dials.
        .args((role != "worker").then_some(["--connect", "127.0.0.1:9"]).into_iter().flatten())
        .args(["--config", &format!("{name}.toml"), "--study", "study.toml", "--coordinator", "127.0.0.1:9"])
        .args(["--data", &format!("{name}.csv"), "--state", &format!("{name}-state"), "--authority", "authority.pem"])
        .args(["--certificate", &format!("{name}.pem"), "--key", &format!("{name}.key")])
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn standing(folder: &Path, role: &str, name: &str) -> Value {
    let output = privacy(folder, role, name, &["status", "--format", "json"]);
    let accounts: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output)));
    accounts[0].clone()
}

fn private_file(name: &str, epsilon: f64) -> String {
    format!(
        "[privacy]\nledger = \"{name}-state/privacy.sqlite\"\nanchor = \"anchors/{name}\"\ndata_set = \"cohort\"\nepsilon = \
         {epsilon:?}\ndelta = 1e-5\n"
    )
}

const EM: &str = "protocol = \"em\"\n[model]\nfeatures = [\"a\", \"b\"]\n[em]\nmodel = \"mrm\"\nsigma = 1.0\ntau = 15.0\nrounds = 4\n";
const STREAM: &str = "protocol = \"stream\"\n[model]\nfeatures = [\"a\"]\n[columns.a]\nrange = [-1, 1]\n[columns.y]\nrange = [-6, 6]\n[stream]\ngrid = 8\n";

/// Three workers whose ledgers have the budget of exactly one run.
fn workers(method: &str) -> sites::World {
    let (protocol, rest) = method.split_once('\n').unwrap();
    let names: String = WORKERS.iter().map(|name| format!("[workers.{name}]\ncertificate = \"{name}\"\n")).collect();
    let head = "mode = \"private\"\n[privacy]\nepsilon = 1.0\ndelta = 1e-5\n";
    let world = sites::World::of(&format!(
        "id = \"sites\"\n{protocol}\n{head}{names}{rest}[outcome]\ncolumn = \"y\"\n[sites]\ndeadline = 50\n"
    ));
    for name in WORKERS {
        world.write(&format!("{name}.toml"), &private_file(name, 1.0));
        let made = privacy(world.folder.path(), "worker", name, &["init"]);
        assert!(made.status.success(), "{}", text(&made));
    }
    world
}

fn worker(world: &sites::World, name: &str) -> Running {
    world.worker(name, &["--config", &format!("{name}.toml")])
}

/// Starts a run, kills everybody when each worker is about to store the release of this number, and forgets the run at the coordinator.
fn killed_before(world: &sites::World, ledgers: &[PathBuf], index: u32) {
    ledgers.iter().for_each(|ledger| hold(ledger, &format!("bytes WHEN NEW.name LIKE 'sent/%/{index}'")));
    let coordinator = world.coordinator(&["--wait", "60"]);
    let running = WORKERS.map(|name| worker(world, name));
    let waits = |ledger: &PathBuf| count(ledger, "reserved") == 1 && count(ledger, "stored") == index as usize;
    eventually(|| ledgers.iter().all(waits));
    running.into_iter().for_each(|running| drop(running.kill()));
    coordinator.kill();
    ledgers.iter().for_each(|ledger| let_go(ledger));
    fs::remove_dir_all(world.path("coordinator-state")).unwrap();
}

#[test]
fn workers_killed_before_their_first_release_have_their_whole_budget_in_another_run() {
    for method in [EM, STREAM] {
        let world = workers(method);
        let folder = world.folder.path();
        let ledgers = WORKERS.map(|name| world.path(&format!("{name}-state/privacy.sqlite")));
        killed_before(&world, &ledgers, 0);
        let held = standing(folder, "worker", "north");
        assert!(held["left"].as_f64().unwrap() < 1e-6 * held["cap"].as_f64().unwrap(), "{held}");
        assert_eq!(held["unreleased"][0]["withdrawn"], false);
        let told = text(&privacy(folder, "worker", "north", &["status"]));
        assert!(told.contains("is reserved, and nothing of it has left"), "{told}");
        let coordinator = world.coordinator(&["--wait", "20"]);
        let ended = WORKERS.map(|name| worker(&world, name)).map(Running::end);
        for ended in &ended {
            assert_eq!(ended.code, 0, "{}", ended.log);
        }
        assert_eq!(coordinator.end().code, 0);
        for (name, ledger) in WORKERS.iter().zip(&ledgers) {
            assert_eq!([count(ledger, "reserved"), count(ledger, "withdrawn")], [2, 1]);
            let standing = standing(folder, "worker", name);
            let (sum, charge) =
                (standing["sum"].as_f64().unwrap(), standing["unreleased"][0]["charge"].as_f64().unwrap());
            assert!((sum - charge).abs() < 1e-9 * sum && standing["unreleased"][0]["withdrawn"] == true, "{standing}");
            assert!(!stored(ledger, "sent/%").is_empty());
            assert!(privacy(folder, "worker", name, &["verify"]).status.success());
            let told = text(&privacy(folder, "worker", name, &["status"]));
            assert!(told.contains("nothing of it had left, its charge of"), "{told}");
            // What any SQLite tool adds up.
            let charges: f64 = Connection::open(ledger)
                .unwrap()
                .query_row("SELECT sum(charge) FROM charges", [], |row| row.get(0))
                .unwrap();
            assert!((charges - sum).abs() < 1e-9 * sum, "{charges} {sum}");
        }
    }
}

#[test]
fn workers_killed_behind_their_first_release_stay_charged() {
    let world = workers(EM);
    let ledgers = WORKERS.map(|name| world.path(&format!("{name}-state/privacy.sqlite")));
    killed_before(&world, &ledgers, 1);
    let coordinator = world.coordinator(&[]);
    // A third would find no coordinator any more: without two of three there is no quorum.
    for ended in ["north", "south"].map(|name| worker(&world, name)).map(Running::end) {
        assert!(ended.code == 77 && ended.log.contains("the budget of data set"), "{} {}", ended.code, ended.log);
    }
    assert_eq!(coordinator.end().code, 69);
    for ledger in &ledgers {
        assert_eq!([count(ledger, "reserved"), count(ledger, "withdrawn"), count(ledger, "stored")], [1, 0, 1]);
    }
}

/// Two parties that reserve and store nothing; then Bob's run ends for good, and Alice does not cling to it.
#[test]
fn parties_whose_run_ends_before_their_first_release_have_their_whole_budget_in_another_run() {
    let world = world::World::new();
    let bounds = "[columns.a]\nrange = [-1.5, 1.5]\n[columns.b]\nrange = [-2, 4]\n[columns.y]\nrange = [-2, 6]\n";
    let privacy_terms = "[privacy]\nepsilon = 1.0\ndelta = 1e-5\nrounds = 3\n";
    world.write("study.toml", &format!("mode = \"private\"\n{}{bounds}{privacy_terms}", world::STUDY));
    let folder = world.path("");
    let roles = ["alice", "bob"];
    for role in roles {
        world.write(&format!("{role}.toml"), &private_file(role, 1.0));
        let made = privacy(&folder, role, role, &["init"]);
        assert!(made.status.success(), "{}", text(&made));
    }
    let ledgers = roles.map(|role| world.path(&format!("{role}-state/privacy.sqlite")));
    let sum = |role: &str| standing(&folder, role, role)["sum"].as_f64().unwrap();
    let config = |role: &'static str| ["--config".to_string(), format!("{role}.toml")];
    let run = |wait: &str| {
        for name in ["coordinator.address", "alice.address"] {
            let _ = fs::remove_file(world.path(name));
        }
        let (coordinator, address) = world.coordinator_with(&["--wait", wait]);
        let [alice, bob] = roles.map(config);
        let alice = world.alice(&address, &[&alice[0], &alice[1], "--wait", wait]);
        let bob = world.bob(&address, &[&bob[0], &bob[1], "--wait", wait]);
        [coordinator, alice, bob]
    };
    ledgers.iter().for_each(|ledger| hold(ledger, "bytes WHEN NEW.name LIKE 'sent/%'"));
    let running = run("60");
    eventually(|| ledgers.iter().all(|ledger| count(ledger, "reserved") == 1));
    for mut running in running {
        running.child.kill().unwrap();
        running.child.wait().unwrap();
    }
    ledgers.iter().for_each(|ledger| let_go(ledger));
    assert!(ledgers.iter().all(|ledger| stored(ledger, "sent/%").is_empty()));
    assert!(roles.iter().all(|role| sum(role) > 0.0));
    // Other rows than before end the run for Bob, who contacts nobody.
    let rows = fs::read_to_string(world.path("bob.csv")).unwrap();
    let (head, last) = rows.trim_end().rsplit_once('\n').unwrap();
    let cells: Vec<&str> = last.split(',').collect();
    world.write(
        "bob.csv",
        &format!(
            "{head}\n{},0.5{}\n",
            cells[0],
            cells[2..].iter().fold(String::new(), |text, cell| format!("{text},{cell}"))
        ),
    );
    let bob = config("bob");
    let ended = world.bob("127.0.0.1:9", &[&bob[0], &bob[1], "--wait", "0"]).end();
    assert!(ended.log.contains("the data have changed since run"), "{}", ended.log);
    assert_eq!(sum("bob"), 0.0);
    assert!(sum("alice") > 0.0);
    assert!(ended.log.contains("nothing of it had left, and its charge was taken back"), "{}", ended.log);
    // Another run has all of the budget, and leaves none.
    world::assert_codes(&run("20").map(world::Running::end), 0);
    for (role, ledger) in roles.iter().zip(&ledgers) {
        assert_eq!([count(ledger, "reserved"), count(ledger, "withdrawn")], [2, 1]);
        assert!(privacy(&folder, role, role, &["verify"]).status.success());
    }
    world::assert_codes(&run("5").map(world::Running::end), 77);
}
