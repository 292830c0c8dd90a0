//! Two tables that overlap in part, and the matches of them as processes.

#![allow(dead_code, reason = "each test program uses its part")]

use std::fs;
use std::ops::Range;
use std::process::{Command, Output};

use serde_json::Value;

use crate::world::{Ended, STUDY, World};

pub(crate) const MATCH: &str = "[match]\nprotocol = \"linked\"\nmembership = \"disclosed\"\nmin_matched = 50\n";
/// Persons in each table: 140 in both.
pub(crate) const ALICE: Range<u32> = 0..200;
pub(crate) const BOB: Range<u32> = 60..260;
/// Steps through the persons of a table, so that no two files have the same order.
pub(crate) const STEPS: [u32; 2] = [7, 33];

/// The study with matching in place of an id.
pub(crate) fn study(mode: &str, more: &str) -> String {
    let study = STUDY.replace("[rows]\n    id = \"id\"\n", "");
    assert_ne!(study, STUDY);
    format!("{mode}\n{study}\n{more}")
}

pub(crate) fn persons(range: Range<u32>, step: u32) -> impl Iterator<Item = u32> {
    let count = range.end - range.start;
    (0..count).map(move |at| range.start + at * step % count)
}

pub(crate) fn value(person: u32, role: &str) -> f64 {
    let t = f64::from(person);
    if role == "alice" { (0.7 * t).cos() } else { 0.004 * t + (1.1 * t).sin() }
}

pub(crate) fn outcome(person: u32) -> f64 {
    let t = f64::from(person);
    1.0 + 0.8 * value(person, "alice") - 0.5 * value(person, "bob") + 0.3 * (2.3 * t).sin()
}

/// A world whose tables overlap in part and have ids of their own; each party's file names its id column.
pub(crate) fn world(mode: &str, more: &str) -> World {
    let world = World::new();
    world.write("study.toml", &study(mode, more));
    for (role, range, step) in [("alice", ALICE, STEPS[0]), ("bob", BOB, STEPS[1])] {
        let column = &role[..1];
        let mut table = format!("own,{column},y\n");
        let mut pairs = String::from("own_id,pair_id\n");
        for person in persons(range, step) {
            table.push_str(&format!("{column}-{person:03},{},{}\n", value(person, role), outcome(person)));
        }
        // In another order again than that of the tables.
        for person in persons(BOB.start..ALICE.end, 3 + 8 * u32::from(role == "bob")) {
            pairs.push_str(&format!("{column}-{person:03},p{}\n", 1000 - person));
        }
        world.write(&format!("{role}.csv"), &table);
        world.write(&format!("{role}-pairs.csv"), &pairs);
        world.write(&format!("{role}.toml"), "[match]\nid = \"own\"\n");
    }
    world
}

pub(crate) fn again(world: &World) {
    for name in ["coordinator.address", "alice.address"] {
        let _ = fs::remove_file(world.path(name));
    }
}

/// A joint run of a command; the coordinator, alice, bob.
pub(crate) fn joint(world: &World, command: &[&str], alice: &[&str], bob: &[&str]) -> [Ended; 3] {
    again(world);
    let (coordinator, address) = world.coordinator();
    let tables = |role: &str, more: &[&str]| {
        let data = format!("{role}.csv");
        let mut words: Vec<String> = command.iter().map(|word| word.to_string()).collect();
        words.extend(["--coordinator", &address, "--config", &format!("{role}.toml")].map(String::from));
        if !more.contains(&"--data") {
            words.extend(["--data".to_string(), data]);
        }
        words.extend(more.iter().map(|word| word.to_string()));
        words
    };
    let words = tables("alice", alice);
    let listen = ["--listen", "127.0.0.1:0", "--announce", "alice.address"];
    let alice = world.start("alice", &words.iter().map(String::as_str).chain(listen).collect::<Vec<_>>());
    let listening = world.address("alice.address");
    let words = tables("bob", bob);
    let bob =
        world.start("bob", &words.iter().map(String::as_str).chain(["--connect", &listening]).collect::<Vec<_>>());
    [coordinator.end(), alice.end(), bob.end()]
}

pub(crate) fn matched(world: &World) -> [Ended; 3] {
    joint(world, &["match", "--format", "json"], &["--pairs", "alice-pairs.csv"], &["--pairs", "bob-pairs.csv"])
}

pub(crate) fn fitted(world: &World) -> [Ended; 3] {
    joint(world, &["fit", "--format", "json"], &["--out", "out/alice"], &["--out", "out/bob"])
}

/// A command of a party that opens no connection.
pub(crate) fn alone(world: &World, role: &str, words: &[&str]) -> Output {
    by_itself(world, role, words).output().unwrap()
}

/// The same, not begun yet.
pub(crate) fn by_itself(world: &World, role: &str, words: &[&str]) -> Command {
    let mut command = world.command(role, "--connect", words);
    command.args(["--config", &format!("{role}.toml")]);
    command
}

/// Code, standard output, and standard error.
pub(crate) fn told(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

pub(crate) fn json(ended: &Ended) -> Value {
    serde_json::from_str(&ended.out).unwrap_or_else(|_| panic!("{}\n{}", ended.out, ended.log))
}

pub(crate) fn estimates(report: &Value) -> Vec<f64> {
    report["coefficients"].as_array().unwrap().iter().map(|row| row["estimate"].as_f64().unwrap()).collect()
}

/// Passes by an identifier and by name, year of birth and postcode.
pub(crate) const KEYS: &str = r#"
    [match]
    membership = "disclosed"
    min_matched = 50
    max_rows = { alice = 500, bob = 300 }
    [match.keys]
    pid = { kind = "identifier", length = [4, 4] }
    surname = { kind = "name", fold = "german" }
    birth = { kind = "date", earliest = "1900-01-01" }
    sex = { kind = "code", levels = ["f", "m"] }
    [[match.pass]]
    name = "pid"
    keys = ["pid"]
    [[match.pass]]
    name = "name"
    keys = ["surname", "birth", "sex"]
"#;
pub(crate) const NAMES: [&str; 6] = ["Müller", "Groß", "Jäger", "O'Neill", "van den Berg", "Yılmaz"];

/// A world in which the parties know their persons by keys: every fifth has no identifier at bob, and every seventh another one.
pub(crate) fn by_keys(mode: &str, more: &str) -> World {
    let world = world(mode, &format!("{KEYS}{more}"));
    for (role, range, step) in [("alice", ALICE, STEPS[0]), ("bob", BOB, STEPS[1])] {
        let alice = role == "alice";
        let mut table = match alice {
            true => "Versichertennummer,Nachname,geboren,\"Geschlecht\",a,y\n".to_string(),
            false => "pid,last,dob,sex,b,y\n".to_string(),
        };
        for person in persons(range, step) {
            let name = format!("{} {}", NAMES[person as usize % 6], char::from(b'a' + (person / 6 % 26) as u8));
            let (year, month, day) = (1940 + person / 12, 1 + person % 12, 1 + person % 28);
            let values = format!("{},{}", value(person, role), outcome(person));
            table.push_str(&match alice {
                true => format!(
                    "\"{person:04}\",{name},{day:02}.{month:02}.{year},{},{values}\n",
                    ["w", "m"][person as usize % 2]
                ),
                false => {
                    let pid = match (person % 5, person % 7) {
                        (0, _) => String::new(),
                        (_, 0) => format!("{:04}", 9000 + person),
                        _ => format!("{person:04}"),
                    };
                    let name = name.replace('ü', "ue").replace('ß', "ss").to_uppercase();
                    format!(
                        "{pid},\"{name}\",{year}-{month:02}-{day:02},{},{values}\n",
                        ["f", "m"][person as usize % 2]
                    )
                }
            });
        }
        world.write(&format!("{role}.csv"), &table);
    }
    let columns = |birth: &str, [pid, surname, sex]: [&str; 3]| {
        format!("[match.columns]\npid = \"{pid}\"\nsurname = \"{surname}\"\nbirth = {birth}\nsex = {sex}\n")
    };
    let german = "{ column = \"Geschlecht\", values = { w = \"f\", m = \"m\" } }";
    world.write(
        "alice.toml",
        &columns("{ column = \"geboren\", format = \"%d.%m.%Y\" }", ["Versichertennummer", "Nachname", german]),
    );
    world.write("bob.toml", &columns("{ column = \"dob\", format = \"%Y-%m-%d\" }", ["pid", "last", "\"sex\""]));
    world
}

pub(crate) fn found(world: &World) -> [Ended; 3] {
    joint(world, &["match", "--format", "json"], &[], &[])
}
