//! Rows of three parties that overlap in part, as processes: the match, the fit that stands on it, scores of new rows, the gates, and what
//! became of a party that was killed.

// Test code may unwrap: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod world;

use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::sync::atomic::Ordering;

use serde_json::Value;
use world::spoiler::{self, Fault, Spoil};
use world::{Ended, Running, World, eventually};

const STUDY: &str = r#"
    id = "three"
    leader = "carol"
    [outcome]
    column = "y"
    held_by = "carol"
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

const MATCH: &str = r#"
    [match]
    membership = "disclosed"
    min_matched = 100
    min_matched_predict = 50
    max_rows = { alice = 1000, bob = 1000, carol = 1000 }
    [match.keys]
    pid = { kind = "identifier" }
    name = { kind = "name" }
    [[match.pass]]
    name = "pid"
    keys = ["pid"]
    [[match.pass]]
    name = "name"
    keys = ["name"]
"#;

/// The leader, and the others by name.
const NAMES: [&str; 3] = ["carol", "alice", "bob"];
/// Persons of each table: 120 in all three, 160 in those of carol and alice, 140 in those of carol and bob.
const PERSONS: [Range<u32>; 3] = [0..200, 40..240, 20..160];
const COMMON: Range<u32> = 40..160;
/// Steps through the persons of a table, so that no two files have the same order.
const STEPS: [u32; 3] = [7, 33, 11];

fn value(person: u32, at: usize) -> f64 {
    let t = f64::from(person);
    [(0.11 * t * t).sin(), (0.7 * t).cos(), 0.004 * t + (1.1 * t).sin()][at]
}

fn outcome(person: u32) -> f64 {
    let t = f64::from(person);
    1.0 + 0.4 * value(person, 0) + 0.8 * value(person, 1) - 0.5 * value(person, 2) + 0.3 * (2.3 * t).sin()
}

/// A name without digits, each its own.
fn name(person: u32) -> String {
    format!("P{:04}", person)
        .chars()
        .map(|letter| letter.to_digit(10).map_or(letter, |at| char::from(b'a' + at as u8)))
        .collect()
}

fn table(at: usize, persons: impl Iterator<Item = u32>) -> String {
    let column = ["c", "a", "b"][at];
    let mut text = format!("pid,name,{column}{}\n", if at == 0 { ",y" } else { "" });
    for person in persons {
        // Some are found by their names alone, of each table others.
        let pid = if person % 10 == 3 + at as u32 { String::new() } else { format!("n{person:03}") };
        let y = if at == 0 { format!(",{}", outcome(person)) } else { String::new() };
        text.push_str(&format!("{pid},{},{}{y}\n", name(person), value(person, at)));
    }
    text
}

/// The persons of a table in the order of its file.
fn persons(at: usize) -> Vec<u32> {
    let (from, count) = (PERSONS[at].start, PERSONS[at].end - PERSONS[at].start);
    (0..count).map(|number| from + number * STEPS[at] % count).collect()
}

fn three(study: &str) -> World {
    let world = World::new();
    world.certificates("authority", &["alice", "bob", "carol", "coordinator"]);
    world.write("study.toml", study);
    for (at, name) in NAMES.iter().enumerate() {
        world.write(&format!("{name}.csv"), &table(at, persons(at).into_iter()));
        world.write(&format!("{name}.toml"), "[match.columns]\npid = \"pid\"\nname = \"name\"\n");
    }
    world
}

fn forget_addresses(world: &World) {
    for name in ["coordinator", "carol"] {
        let _ = fs::remove_file(world.path(&format!("{name}.address")));
    }
}

/// A joint run of a command: carol, alice, bob; each with more words. The coordinator has code 0 with them.
fn joint(world: &World, command: &[&str], more: [&[&str]; 3]) -> [Ended; 3] {
    forget_addresses(world);
    let (coordinator, address) = world.coordinator();
    let start = |at: usize, line: &[&str]| {
        let name = NAMES[at];
        let (config, data) = (format!("{name}.toml"), format!("{name}.csv"));
        let mut words = [command, &["--coordinator", &address, "--config", &config, "--wait", "20"]].concat();
        if !more[at].contains(&"--data") {
            words.extend(["--data", &data]);
        }
        world.start(name, &[&words, more[at], line].concat())
    };
    let carol = start(0, &["--listen", "127.0.0.1:0", "--announce", "carol.address"]);
    let leader = world.address("carol.address");
    let others = [1, 2].map(|at| start(at, &["--connect", &leader]));
    let [alice, bob] = others.map(Running::end);
    let ended = [carol.end(), alice, bob];
    drop(coordinator);
    ended
}

fn codes(ended: &[Ended; 3], expected: i32) {
    let logs: Vec<&str> = ended.iter().map(|ended| &ended.log[..]).collect();
    assert_eq!(ended.each_ref().map(|ended| ended.code), [expected; 3], "{}", logs.join("\n---\n"));
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| panic!("{text}"))
}

fn read(world: &World, file: &str) -> Value {
    json(&fs::read_to_string(world.path(file)).unwrap())
}

/// A command of a party that ends before it speaks with anybody.
fn alone(world: &World, name: &str, words: &[&str]) -> Ended {
    let (config, data) = (format!("{name}.toml"), format!("{name}.csv"));
    let line = if name == "carol" { ["--listen", "127.0.0.1:0"] } else { ["--connect", "127.0.0.1:9"] };
    let fixed = ["--coordinator", "127.0.0.1:9", "--config", &config, "--data", &data];
    world.start(name, &[words, &fixed, &line].concat()).end()
}

fn matched(world: &World) -> [Ended; 3] {
    joint(world, &["match", "--format", "json"], [&[], &[], &[]])
}

/// The record numbers that a party has kept.
fn alignment(world: &World, name: &str) -> Vec<u32> {
    let bytes = fs::read(world.path(&format!("{name}-state/match/alignment.bin"))).unwrap();
    bytes[16..].chunks(4).map(|number| u32::from_le_bytes(number.try_into().unwrap())).collect()
}

/// That all three have the same persons in the same order, and these are those that all have.
fn assert_common(world: &World, what: &str) {
    let people = [0, 1, 2].map(|at: usize| {
        let persons = persons(at);
        alignment(world, NAMES[at]).into_iter().map(|record| persons[record as usize]).collect::<Vec<_>>()
    });
    assert_eq!(people[0], people[1], "{what}");
    assert_eq!(people[0], people[2], "{what}");
    assert_eq!(people[0].iter().copied().collect::<BTreeSet<_>>(), COMMON.collect(), "{what}");
    assert!(!people[0].is_sorted(), "{what}");
    let digests = NAMES.map(|name| read(world, &format!("{name}-state/match/match.json"))["order_digest"].clone());
    assert!(digests.iter().all(|digest| *digest == digests[0]), "{what}");
}

fn coefficients(report: &Value) -> Vec<(String, f64, f64)> {
    let rows = report["coefficients"].as_array().unwrap().iter();
    rows.map(|row| {
        let number = |key: &str| row[key].as_f64().unwrap();
        (row["term"].as_str().unwrap().to_string(), number("estimate"), number("std_error"))
    })
    .collect()
}

#[test]
fn the_fit_of_matched_rows_is_that_of_tables_that_were_aligned_beforehand_and_new_rows_are_scored() {
    let world = three(&format!("{STUDY}{MATCH}"));
    for (at, says) in [(0, "run `party --name carol match` here"), (1, "run `alice match` here")] {
        let ended = alone(&world, NAMES[at], &["fit"]);
        let there = "and the same at all other parties before `fit`";
        assert!(ended.code == 2 && ended.log.contains(says) && ended.log.contains(there), "{}", ended.log);
    }
    let ended = matched(&world);
    codes(&ended, 0);
    assert_common(&world, "the first match");
    let found = ended.each_ref().map(|ended| json(&ended.out));
    let passes = |at: usize| {
        let passes = found[at]["passes"].as_array().unwrap().iter();
        passes
            .map(|pass| {
                let text = |key: &str| pass[key].as_str().unwrap_or("").to_string();
                (text("with"), text("name"), pass["matched"].as_u64().unwrap())
            })
            .collect::<Vec<_>>()
    };
    let pass = |with: &str, name: &str, matched| (with.to_string(), name.to_string(), matched);
    // Of the persons in two tables a fifth lacks an identifier in one of them.
    assert_eq!(
        passes(0),
        [pass("alice", "pid", 128), pass("alice", "name", 32), pass("bob", "pid", 112), pass("bob", "name", 28)]
    );
    assert_eq!(passes(1), [pass("", "pid", 128), pass("", "name", 32)]);
    assert_eq!(passes(2), [pass("", "pid", 112), pass("", "name", 28)]);
    for (at, report) in found.iter().enumerate() {
        assert_eq!((report["matched"].as_u64(), report["leader"].as_str()), (Some(120), Some("carol")), "{at}");
    }

    let out = NAMES.map(|name| format!("out/{name}"));
    let more = [["--out", &out[0]], ["--out", &out[1]], ["--out", &out[2]]];
    let ended = joint(&world, &["fit"], more.each_ref().map(|words| &words[..]));
    codes(&ended, 0);
    assert!(
        ended[0].out.contains("carol learnt of each of the others which of its own rows that party has too")
            && ended[0].out.contains("160 of alice, 140 of bob"),
        "{}",
        ended[0].out
    );
    assert!(ended[2].out.contains("carol learnt which 140 of its own rows bob has too"), "{}", ended[2].out);
    assert!(ended[2].out.contains("which of its own rows are among the 120 that all have"), "{}", ended[2].out);

    // The same persons selected beforehand, in any order.
    let aligned = three(&STUDY.replace("[parties.alice]", "[rows]\n    id = \"name\"\n    [parties.alice]"));
    for (at, name) in NAMES.iter().enumerate() {
        aligned.write(&format!("{name}.csv"), &table(at, COMMON));
        aligned.write(&format!("{name}.toml"), "");
    }
    let ended = joint(&aligned, &["fit"], more.each_ref().map(|words| &words[..]));
    codes(&ended, 0);
    let (own, other) = (read(&world, "out/carol/report.json"), read(&aligned, "out/carol/report.json"));
    let (own, other) = (coefficients(&own), coefficients(&other));
    assert_eq!(own.len(), 4);
    for ((term, estimate, error), expected) in own.iter().zip(&other) {
        assert_eq!(*term, expected.0);
        assert!(
            (estimate / expected.1 - 1.0).abs() < 1e-9 && (error / expected.2 - 1.0).abs() < 1e-9,
            "{own:?} {other:?}"
        );
    }

    new_rows(&world, &out);
    sealed(&own, &out);
}

/// A sealed fit of rows that were matched has the same coefficients, and no value of a row leaves for it.
fn sealed(plain: &[(String, f64, f64)], out: &[String; 3]) {
    let world = three(&format!("mode = \"sealed\"\n{STUDY}{MATCH}"));
    let ended = matched(&world);
    codes(&ended, 0);
    assert_common(&world, "a sealed study");
    let more = [["--out", &out[0]], ["--out", &out[1]], ["--out", &out[2]]];
    let ended = joint(&world, &["fit"], more.each_ref().map(|words| &words[..]));
    codes(&ended, 0);
    for out in out {
        let report = read(&world, &format!("{out}/report.json"));
        assert_eq!((report["mode"].as_str(), report["disclosure"]["vectors"].as_u64()), (Some("sealed"), Some(0)));
        for ((term, estimate, error), expected) in coefficients(&report).iter().zip(plain) {
            assert_eq!(*term, expected.0);
            let off = (estimate / expected.1 - 1.0).abs().max((error / expected.2 - 1.0).abs());
            assert!(off < 1e-8, "{term} {estimate} {error} {expected:?}");
        }
    }
}

/// New rows are matched and scored.
fn new_rows(world: &World, out: &[String; 3]) {
    let new = [300..460, 320..480, 330..450];
    for at in [0, 1, 2] {
        world.write(&format!("new-{}.csv", NAMES[at]), &table(at, new[at].clone().rev()));
    }
    let data = NAMES.map(|name| format!("new-{name}.csv"));
    let words = data.each_ref().map(|data| ["--data", data]);
    let ended = joint(world, &["match", "--purpose", "predict"], words.each_ref().map(|words| &words[..]));
    codes(&ended, 0);
    let models = out.each_ref().map(|out| format!("{out}/model.json"));
    let words = [0, 1, 2].map(|at: usize| ["--data", &data[at], "--model", &models[at]]);
    let ended = joint(world, &["predict"], words.each_ref().map(|words| &words[..]));
    codes(&ended, 0);
    assert_eq!(ended[0].out.lines().count(), 121, "{}", ended[0].out);
    assert_eq!((ended[1].out.lines().count(), ended[2].out.lines().count()), (0, 0));
}

#[test]
fn a_gate_that_closes_ends_the_match_for_all_and_none_keeps_anything() {
    // 120 rows are in all tables; of carol and bob 140 match, of carol and alice 160.
    for (fewest, says) in [
        (120, "fewer records of carol and bob match in pass `pid` than `min_matched`"),
        (112, "fewer records match at all parties than `min_matched`"),
    ] {
        let text = format!("{STUDY}{MATCH}").replace("min_matched = 100", &format!("min_matched = {fewest}"));
        let by_pid = fewest == 112;
        let text = match by_pid {
            true => {
                let one = text.replace("[[match.pass]]\n    name = \"name\"\n    keys = [\"name\"]\n", "");
                one.replace("name = { kind = \"name\" }\n", "")
            }
            false => text,
        };
        let world = three(&text);
        for name in NAMES.iter().filter(|_| by_pid) {
            world.write(&format!("{name}.toml"), "[match.columns]\npid = \"pid\"\n");
        }
        let ended = matched(&world);
        codes(&ended, 77);
        for (name, ended) in NAMES.iter().zip(&ended) {
            assert!(ended.log.contains(says), "{name}: {}", ended.log);
            assert!(!world.path(&format!("{name}-state/match/match.json")).exists());
            assert!(!world.path(&format!("{name}-state/match-run.bin")).exists());
            let counted = fs::read_to_string(world.path(&format!("{name}-state/matches.jsonl"))).unwrap();
            assert_eq!(counted.lines().count(), if *name == "carol" { 2 } else { 1 }, "{counted}");
        }
    }
}

#[test]
fn a_party_that_is_killed_goes_on_with_the_same_match() {
    let world = three(&format!("{STUDY}{MATCH}"));
    codes(&matched(&world), 0);
    let mut killed = 0;
    for (number, at) in [9_000, 14_000, 19_000, 24_000].into_iter().enumerate() {
        let victim = ["carol", "bob"][number % 2];
        for folder in NAMES.iter().map(|name| format!("{name}-state")).chain(["state-home".to_string()]) {
            let _ = fs::remove_dir_all(world.path(&folder));
        }
        forget_addresses(&world);
        let (coordinator, address) = world.coordinator_with(&["--wait", "30"]);
        let free = world::free_address();
        let spoil = Spoil { fault: Fault::Stall, back: number >= 2, at };
        let (spoiled, struck) = spoiler::counted(free.clone(), &[spoil]);
        let start = |name: &str| {
            let (config, data) = (format!("{name}.toml"), format!("{name}.csv"));
            let line = match name {
                "carol" => ["--listen", &free],
                // The line of bob goes silent, and that of alice is sound.
                "bob" => ["--connect", &spoiled],
                _ => ["--connect", &free],
            };
            let fixed = ["match", "--format", "json", "--coordinator", &address, "--wait", "30"];
            world.start(name, &[&fixed[..], &["--config", &config, "--data", &data], &line].concat())
        };
        let mut running = NAMES.map(start);
        eventually(|| {
            let over = running.iter_mut().all(|one| one.child.try_wait().unwrap().is_some());
            (over || struck.load(Ordering::SeqCst) > 0).then_some(())
        });
        let what = format!("{victim} killed after {at} bytes");
        let at = NAMES.iter().position(|name| *name == victim).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(200));
        if running[at].child.try_wait().unwrap().is_none() {
            killed += 1;
            running[at].child.kill().unwrap();
            running[at].child.wait().unwrap();
            running[at] = start(victim);
        }
        for ended in running.map(Running::end) {
            assert_eq!(ended.code, 0, "{what}: {}", ended.log);
            assert_eq!(json(&ended.out)["matched"], 120, "{what}");
        }
        drop(coordinator);
        assert_common(&world, &what);
        for name in NAMES {
            let counted = fs::read_to_string(world.path(&format!("{name}-state/matches.jsonl"))).unwrap();
            assert_eq!(counted.lines().count(), if name == "carol" { 2 } else { 1 }, "{what}: it counts once");
        }
    }
    assert!(killed >= 2, "{killed} were killed");
}

#[test]
fn a_look_and_a_check_name_what_the_leader_and_what_the_others_let_leave() {
    let world = three(&format!("{STUDY}{MATCH}"));
    let look = |name: &str| {
        let ended = alone(&world, name, &["match", "--dry-run"]);
        assert_eq!(ended.code, 0, "{}", ended.log);
        ended.out
    };
    let (carol, bob) = (look("carol"), look("bob"));
    assert!(carol.contains("5 matches of these data with alice or bob"), "{carol}");
    assert!(carol.contains("to each of the others, which of its rows all parties have"), "{carol}");
    assert!(bob.contains("5 matches of these data with carol"), "{bob}");
    assert!(
        bob.contains("to carol, which of its rows match, and which entries of several passes are one row of bob"),
        "{bob}"
    );
}

#[test]
fn a_study_of_three_that_says_so_is_matched_by_its_fit_and_a_party_that_leaves_ends_it_for_all() {
    let world =
        three(&format!("{STUDY}{}", MATCH.replace("min_matched = 100", "run = \"auto\"\n    min_matched = 100")));
    let fit = |comes: &[&str]| {
        forget_addresses(&world);
        let (coordinator, address) = world.coordinator_with(&["--wait", "20", "--keep"]);
        // Two runs behind each other at one address.
        let free = world::free_address();
        let start = |name: &&str| {
            let (config, data) = (format!("{name}.toml"), format!("{name}.csv"));
            let line = [if *name == "carol" { "--listen" } else { "--connect" }, &free];
            let fixed = ["fit", "--coordinator", &address, "--wait", "3", "--format", "json"];
            world.start(name, &[&fixed[..], &["--config", &config, "--data", &data], &line].concat())
        };
        let running: Vec<Running> = comes.iter().map(start).collect();
        let ended: Vec<Ended> = running.into_iter().map(Running::end).collect();
        drop(coordinator);
        ended
    };
    for ended in fit(&["carol", "alice"]) {
        assert!(ended.code == 69 && ended.log.contains("waited 3 s for bob"), "{}", ended.log);
    }
    for name in NAMES {
        assert!(!world.path(&format!("{name}-state/matches.jsonl")).exists(), "nothing began");
    }
    for ended in fit(&NAMES) {
        assert_eq!(ended.code, 0, "{}", ended.log);
        assert_eq!(json(&ended.out)["match"]["matched"], 120);
        assert!(ended.log.contains("matching first"), "{}", ended.log);
    }
    assert_common(&world, "by the fit");
    // A fit with the match of another run at one party.
    for name in NAMES {
        fs::rename(world.path(&format!("{name}-state/match")), world.path(&format!("{name}-first"))).unwrap();
    }
    codes(&matched(&world), 0);
    let first = ["--match", "bob-first"];
    let ended = joint(&world, &["fit"], [&[], &[], &first]);
    codes(&ended, 76);
}
