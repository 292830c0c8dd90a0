//! The account of what each person of a private stream has spent, over real processes: a store that is not the one of which the ledger's last
//! checkpoint speaks is refused and nothing leaves, and a worker that is killed around a checkpoint goes on with the same bytes.

// Test code may unwrap: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod ledgers;
mod sites;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use ledgers::{hold, let_go, records};
use rusqlite::{Connection, OpenFlags};
use serde_json::Value;
use sites::{DEMO, LOOK, PATIENCE, Running, World, table};

const STUDY: &str = r#"
    id = "sites"
    protocol = "stream"
    mode = "private"
    [privacy]
    epsilon = 1.0
    delta = 1e-5
    [workers.north]
    certificate = "north"
    [workers.south]
    certificate = "south"
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
    batch_rows = 1
    quorum = 1
    [stream]
    grid = 8
"#;

fn words(name: &str, rest: &[&str]) -> Vec<String> {
    let fixed = ["--config", &format!("{name}.toml"), "--state", &format!("{name}-state")].map(str::to_owned);
    rest.iter().map(|word| (*word).to_owned()).chain(fixed).collect()
}

fn privacy(world: &World, name: &str, command: &[&str]) -> Output {
    let (certificate, key) = (format!("{name}.pem"), format!("{name}.key"));
    Command::new(DEMO)
        .args(["--role", "worker", "privacy"])
        .args(words(name, command))
        .args(["--study", "study.toml", "--coordinator", "127.0.0.1:9", "--data", &format!("{name}.csv")])
        .args(["--authority", "authority.pem", "--certificate", &certificate, "--key", &key])
        .current_dir(world.path(""))
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Two workers with ledgers outside of their state folders.
fn world() -> World {
    let world = World::of(STUDY);
    for name in ["north", "south"] {
        let places = format!("ledger = \"ledgers/{name}.sqlite\"\nanchor = \"anchors/{name}\"\n");
        world.write(&format!("{name}.toml"), &format!("[privacy]\n{places}data_set = \"cohort\"\n"));
        let made = privacy(&world, name, &["init"]);
        assert_eq!(made.status.code(), Some(0), "{}", String::from_utf8_lossy(&made.stderr));
    }
    world
}

fn ledger(world: &World) -> PathBuf {
    world.path("ledgers/north.sqlite")
}

/// The worker whose account is looked at, on standard input, with this state folder.
fn north(world: &World, state: &str) -> Running {
    world.worker_as("north", "north", "-", &["--config", "north.toml", "--state", state])
}

fn south(world: &World) -> Running {
    world.worker("south", &["--config", "south.toml"])
}

fn lines(rows: std::ops::Range<usize>) -> String {
    let text = table(1, 40);
    let all: Vec<&str> = text.split_inclusive('\n').collect();
    format!("{}{}", all[0], all[1..][rows].concat())
}

fn eventually(mut holds: impl FnMut() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < PATIENCE);
        std::thread::sleep(LOOK);
    }
}

fn store(world: &World) -> Connection {
    let path = world.path("north-state/stream.sqlite");
    Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE).unwrap()
}

/// Number and bytes of the message that is on its way, and records that were counted.
fn sent(world: &World) -> Option<(i64, Vec<u8>, i64)> {
    let text = "SELECT number, bytes, (SELECT sum(records) FROM persons) FROM unanswered ORDER BY number DESC LIMIT 1";
    store(world).query_row(text, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).ok()
}

/// Messages at the checkpoints that stand in the ledger.
fn checkpoints(world: &World) -> Vec<u64> {
    let bodies = records(&ledger(world)).into_iter().map(|body| serde_json::from_str::<Value>(&body).unwrap());
    bodies.filter(|body| body["kind"] == "filtered").map(|body| body["messages"].as_u64().unwrap()).collect()
}

fn mark(world: &World) -> PathBuf {
    let files = fs::read_dir(world.path("anchors")).unwrap().map(|entry| entry.unwrap().path());
    let is =
        |path: &PathBuf| path.to_string_lossy().contains("north.") && path.extension().is_some_and(|e| e == "stream");
    files.into_iter().find(is).unwrap()
}

/// What there is of the account but the ledger: the store with its log, and the mark.
fn copied(world: &World) -> Vec<(PathBuf, Vec<u8>)> {
    let store = ["", "-wal", "-shm"].map(|ending| world.path(&format!("north-state/stream.sqlite{ending}")));
    let files = store.into_iter().filter(|path| path.exists()).chain([mark(world)]);
    files.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

fn restore(world: &World, files: &[(PathBuf, Vec<u8>)]) {
    for ending in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(world.path(&format!("north-state/stream.sqlite{ending}")));
    }
    files.iter().for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
}

/// Starts the worker, which is refused; what it said. Its ledger has no record more, and it counts and keeps no message.
fn refused(world: &World, state: &str) -> String {
    let before = records(&ledger(world)).len();
    let mut worker = north(world, state);
    worker.say(&lines(5..9));
    let ended = worker.end();
    assert_eq!(ended.code, 77, "{}", ended.log);
    assert_eq!(records(&ledger(world)).len(), before, "{}", ended.log);
    ended.log
}

#[test]
fn a_store_that_is_not_the_one_of_the_ledgers_last_checkpoint_is_refused_and_nothing_leaves() {
    let world = world();
    let coordinator = world.coordinator(&["--wait", "60"]);
    let mut worker = north(&world, "north-state");
    worker.say(&lines(0..2));
    world.wait_for_contributions("north", 2);
    worker.kill();
    let old = copied(&world);
    let mut worker = north(&world, "north-state");
    worker.say(&lines(2..5));
    world.wait_for_contributions("north", 5);
    worker.kill();
    assert_eq!(checkpoints(&world), [0, 1, 2, 4]);
    let latest = copied(&world);

    // While another process is in the run over the same ledger: a copied state folder, which is as sound as the first.
    fs::create_dir(world.path("copy")).unwrap();
    for (path, bytes) in &latest {
        fs::write(world.path("copy").join(path.file_name().unwrap()), bytes).unwrap();
    }
    let held = fs::File::open(world.path("anchors/north.stream.lock")).unwrap();
    held.lock().unwrap();
    let log = refused(&world, "copy");
    assert!(log.contains("another process streams on the privacy ledger"), "{log}");
    assert!(log.contains("a ledger has one stream at a time, so wait for the other one or end it"), "{log}");
    drop(held);
    // Both restored from before the last checkpoint.
    restore(&world, &old);
    let log = refused(&world, "north-state");
    let lacks =
        "was deleted, rolled back or replaced: it lacks the word of the privacy ledger's last checkpoint of run";
    assert!(log.contains(lacks), "{log}");
    assert!(log.contains("after 4 messages, and knows 2 messages; restore the latest, or start a new run"), "{log}");
    assert_eq!(sent(&world).unwrap().0, 1, "no message was made");
    // Both deleted.
    restore(&world, &[]);
    fs::remove_file(mark(&world)).unwrap();
    let log = refused(&world, "north-state");
    assert!(log.contains(lacks) && log.contains("and does not know the run; restore the latest"), "{log}");
    // Another state folder, without a store.
    let log = refused(&world, "another");
    assert!(log.contains("another/stream.sqlite, which counts the records of each person, was deleted"), "{log}");
    // A coordinator hears neither paths nor what was wrong.
    let heard = coordinator.log();
    assert!(
        heard.contains("north left the run: the privacy ledger of worker refused; the reason is shown there only"),
        "{heard}"
    );
    assert!(!heard.contains("stream.sqlite") && !heard.contains("rolled back"), "{heard}");

    restore(&world, &latest);
    let mut worker = north(&world, "north-state");
    worker.say(&lines(5..9));
    world.wait_for_contributions("north", 9);
    for ended in [worker, south(&world)].map(Running::end) {
        assert_eq!(ended.code, 0, "{}", ended.log);
    }
    assert_eq!(coordinator.end().code, 0);
    assert_eq!(checkpoints(&world), [0, 1, 2, 4, 8, 9]);
    let shown = privacy(&world, "north", &["status"]);
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    let line = "at its last checkpoint (number 5), after 9 messages, no person had spent more than 100.0 % of what the run charged";
    assert!(text.contains(line), "{text}");
    let told = privacy(&world, "north", &["status", "--format", "json"]);
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    let last = &told[0]["checkpoints"][0];
    assert!(last["messages"] == 9 && last["sequence"] == 5 && last["most"] == 1 && last["room"] == 1, "{told}");
    assert_eq!(privacy(&world, "north", &["verify"]).status.code(), Some(0));
}

/// Killed when the store has a message and the ledger not yet its checkpoint, of the start and of each further one.
#[test]
fn a_worker_killed_between_its_store_and_its_ledger_goes_on_with_the_same_bytes() {
    let world = world();
    let coordinator = world.coordinator(&["--wait", "60"]);
    let event = |messages: u64| {
        format!(
            "records WHEN json_extract(NEW.body, '$.kind') = 'filtered' AND json_extract(NEW.body, '$.messages') = {messages}"
        )
    };
    let counted = |world: &World| -> i64 {
        let path = world.path("north-state/stream.sqlite");
        let open = || Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE);
        let word = |store: Connection| store.query_row("SELECT count(*) FROM words", [], |row| row.get(0));
        open().and_then(word).unwrap_or(0)
    };
    hold(&ledger(&world), &event(0));
    let mut worker = north(&world, "north-state");
    worker.say(&lines(0..0));
    eventually(|| counted(&world) == 1);
    worker.kill();
    let_go(&ledger(&world));
    assert!(checkpoints(&world).is_empty(), "nothing of it is in the ledger");
    for (rows, messages) in [(0..1, 1), (1..2, 2), (2..4, 4)] {
        hold(&ledger(&world), &event(messages));
        let mut worker = north(&world, "north-state");
        worker.say(&lines(rows));
        let last = messages as i64 - 1;
        eventually(|| sent(&world).is_some_and(|(number, ..)| number == last));
        let before = sent(&world).unwrap();
        assert_eq!(before.2, last + 1);
        worker.kill();
        let_go(&ledger(&world));
        assert!(checkpoints(&world).iter().all(|known| *known < messages), "the store comes first");
        // Started again, it has the checkpoint first, and then the same bytes leave.
        let mut worker = north(&world, "north-state");
        worker.say(&lines(0..0));
        world.wait_for_contributions("north", messages);
        assert_eq!(sent(&world).unwrap(), before, "the message was noised again, or its records counted twice");
        assert_eq!(checkpoints(&world).last(), Some(&messages));
        worker.kill();
    }
    let mut worker = north(&world, "north-state");
    worker.say(&lines(4..8));
    for ended in [worker, south(&world)].map(Running::end) {
        assert_eq!(ended.code, 0, "{}", ended.log);
    }
    assert_eq!(coordinator.end().code, 0);
    assert_eq!(world.report("coordinator")["workers"][0]["contributions"], 8);
    let charges = records(&ledger(&world)).iter().filter(|body| body.contains("\"kind\":\"reserved\"")).count();
    assert_eq!(charges, 1);
}
