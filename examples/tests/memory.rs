//! A party with less memory than its numbers need: real processes whose numbers lie in files without a name.
#![cfg(target_os = "linux")]
// Test code may unwrap: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod world;

use std::fmt::Write;
use std::fs;

use serde_json::Value;
use world::{World, assert_codes, eventually};

/// So many that a column is longer than the mebibyte from which on a vector may lie in a file.
const ROWS: usize = 150_000;

fn large(world: &World) {
    let table = |column: &str, value: fn(f64) -> f64| {
        let mut text = format!("id,{column},y\n");
        for row in 0..ROWS {
            let t = row as f64;
            writeln!(text, "{row},{:.6},{:.6}", value(t), (0.3 * t).sin() + (0.011 * t).cos()).unwrap();
        }
        text
    };
    world.write("alice.csv", &table("a", |t| (0.7 * t).cos()));
    world.write("bob.csv", &table("b", |t| (0.05 * t).sin() + (0.7 * t).cos()));
}

/// A report without what differs from run to run, and its account of what lay in files.
fn report(world: &World, path: &str) -> (Value, Option<Value>) {
    let mut report: Value = serde_json::from_slice(&fs::read(world.path(path)).unwrap()).unwrap();
    for key in ["run", "date", "call", "peak_rss_bytes", "seconds"] {
        assert!(report.as_object_mut().unwrap().remove(key).is_some(), "{key}");
    }
    let in_files = report.as_object_mut().unwrap().remove("in_files");
    (report, in_files)
}

#[test]
fn a_fit_beyond_its_memory_gives_the_same_bits_and_leaves_no_file() {
    let world = World::new();
    large(&world);
    let fit = |name: &str, more: &[&str]| {
        let (alice, bob) = (format!("{name}/alice"), format!("{name}/bob"));
        let flags = |out| [&["--seed", "5", "--out", out], more].concat();
        let ended = world.run(&flags(&alice), &flags(&bob));
        assert_codes(&ended, 0);
        for file in ["coordinator.address", "alice.address"] {
            fs::remove_file(world.path(file)).unwrap();
        }
        ended
    };
    let within = fit("within", &[]);
    let beyond = fit("beyond", &["--memory", "1MiB"]);
    for role in ["alice", "bob"] {
        let (in_memory, none) = report(&world, &format!("within/{role}/report.json"));
        let (same, in_files) = report(&world, &format!("beyond/{role}/report.json"));
        assert_eq!(in_memory, same);
        assert_eq!(none, None);
        // A column and a row vector at least; nothing has to be read again from a disk that is not short of memory.
        let in_files = in_files.unwrap();
        assert!(in_files["bytes"].as_u64().unwrap() >= 2 * 8 * ROWS as u64, "{in_files}");
        assert!(in_files["read_bytes"].is_u64(), "{in_files}");
        let page = fs::read_to_string(world.path(&format!("beyond/{role}/report.html"))).unwrap();
        assert!(page.contains("in files"), "{role}");
        let left: Vec<_> = fs::read_dir(world.path(&format!("{role}-state"))).unwrap().collect();
        let hidden = |name: &str| name.starts_with(".memory");
        assert!(left.iter().all(|entry| !hidden(&entry.as_ref().unwrap().file_name().to_string_lossy())), "{left:?}");
    }
    let said = "GiB more than `memory = \"1MiB\"` has room for; these lie in files without a name in";
    for at in [1, 2] {
        assert!(!within[at].log.contains("files without a name"), "{}", within[at].log);
        assert!(beyond[at].log.contains(said), "{}", beyond[at].log);
    }
}

#[test]
fn a_party_that_is_killed_takes_its_files_with_it() {
    let world = World::new();
    large(&world);
    let (coordinator, address) = world.coordinator();
    let alice = world.alice(&address, &["--memory", "1MiB"]);
    // It has read its table and waits for bob.
    let maps = format!("/proc/{}/maps", alice.child.id());
    let folder = world.path("alice-state").display().to_string();
    let mapped = eventually(|| {
        let maps = fs::read_to_string(&maps).unwrap_or_default();
        let of_it: Vec<String> = maps.lines().filter(|line| line.contains(&folder)).map(String::from).collect();
        (!of_it.is_empty()).then_some(of_it)
    });
    assert!(mapped.iter().all(|line| line.ends_with("(deleted)")), "{mapped:?}");
    drop((alice, coordinator));
    let names: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| !name.to_string_lossy().starts_with(".memory")), "{names:?}");
}

#[test]
fn an_amount_of_memory_that_is_none_is_refused() {
    let world = World::new();
    let alice = world.alice("127.0.0.1:1", &["--memory", "4"]).end();
    assert_eq!(alice.code, 2, "{}", alice.log);
    assert!(
        alice.log.contains("`4` is no amount of memory: write a whole number and its unit, as `4GiB` or `500MB`"),
        "{}",
        alice.log
    );
}
