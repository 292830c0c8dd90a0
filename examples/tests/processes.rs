//! Real processes over mutual TLS: what users see when a run goes well, and when it does not.

// Test code may unwrap: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod world;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use world::spoiler::{self, Fault, Spoil};
use world::{DEMO, STUDY, World, assert_codes, demo, eventually};

impl World {
    /// A fit that goes on for long: the plain method on columns that all but depend on each other.
    fn make_long(&self) {
        self.write(
            "study.toml",
            &format!("{STUDY}\n[fit]\nacceleration = \"none\"\ntol = 1e-15\nmax_rounds = 4000000\n"),
        );
        let alice = fs::read_to_string(self.path("alice.csv")).unwrap();
        let mut text = String::from("id,b,y\n");
        for (row, line) in alice.lines().skip(1).enumerate() {
            let cells: Vec<&str> = line.split(',').collect();
            let b: f64 = cells[1].parse::<f64>().unwrap() + 1e-4 * ((row % 7) as f64);
            text.push_str(&format!("{},{b},{}\n", cells[0], cells[2]));
        }
        self.write("bob.csv", &text);
    }

    /// Waits until the coordinator has seen the fit under way.
    fn under_way(&self) {
        eventually(|| {
            let events = fs::read_to_string(self.path("coordinator-state/events.jsonl")).unwrap_or_default();
            events.contains("\"phase\":\"fitting\"").then_some(())
        });
    }
}

#[test]
fn the_demo_without_flags_fits_the_shipped_data_and_writes_every_report() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let output = demo(&["vertical", "--out", out.to_str().unwrap(), "--format", "json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let written: Value = serde_json::from_slice(&fs::read(out.join("report.json")).unwrap()).unwrap();
    assert_eq!(printed, written);
    assert_eq!(printed["nobs"], 442);
    assert_eq!(printed["termination"], "converged");
    // lm(progression ~ ., diabetes) in R 4.5.1.
    let bmi = printed["coefficients"].as_array().unwrap().iter().find(|row| row["term"] == "bmi").unwrap();
    assert!((bmi["estimate"].as_f64().unwrap() - 5.602_962_09).abs() < 1e-7);
    for key in ["certificate", "bytes_sent", "peak_rss_bytes", "seconds", "disclosure", "privacy"] {
        for role in ["alice", "bob"] {
            assert!(printed[key].get(role).is_some(), "{key} of {role}");
            let own: Value = serde_json::from_slice(&fs::read(out.join(role).join("report.json")).unwrap()).unwrap();
            assert_eq!(own[key], printed[key][role], "{key} of {role}");
        }
    }
    let seconds = &printed["seconds"]["alice"];
    let of = |name: &str| seconds[name].as_f64().unwrap();
    assert!(of("total") >= of("read") + of("solve"));
    for role in [".", "alice", "bob"] {
        for name in ["report.txt", "report.html", "report.csv"] {
            assert!(out.join(role).join(name).metadata().unwrap().len() > 100, "{role}/{name}");
        }
    }
    assert!(out.join("alice/model.json").is_file() && out.join("bob/model.json").is_file());
}

#[cfg(unix)]
#[test]
fn the_demo_called_by_the_name_of_another_program_is_that_program() {
    let folder = tempfile::tempdir().unwrap();
    for (name, command) in [
        ("alice", "fit"),
        ("bob", "predict"),
        ("party", "fit"),
        ("worker", "join"),
        ("coordinator", "serve"),
        ("demo", "vertical"),
    ] {
        let link = folder.path().join(name);
        std::os::unix::fs::symlink(DEMO, &link).unwrap();
        let output = Command::new(&link).args([command, "--help"]).output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let help = String::from_utf8(output.stdout).unwrap();
        assert!(help.contains(&format!("Usage: {name} {command}")), "{name}: {help}");
    }
}

#[test]
fn the_demo_ends_with_the_code_of_whoever_ended_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let out = out.to_str().unwrap();
    let code = |more: &[&str]| {
        let output = demo(&[&["vertical", "--out", out], more].concat());
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code().unwrap(), stderr)
    };
    assert_eq!(code(&["--mode", "sealed", "--family", "poisson", "--lambda", "path", "--cv", "5"]).0, 2);
    assert_eq!(code(&["--tol", "2"]).0, 2);
    let (exit, said) = code(&["--alice", "age,sax", "--bob", "bmi"]);
    assert_eq!(exit, 65, "{said}");
    assert!(said.contains("there is no column `sax`; the nearest name is `sex`"), "{said}");
    assert!(said.contains("bob: alice ended the run"), "{said}");
    let (exit, said) = code(&["--max-rounds", "1"]);
    assert_eq!(exit, 3, "{said}");
    let report: Value = serde_json::from_slice(&fs::read(Path::new(out).join("report.json")).unwrap()).unwrap();
    assert_eq!(report["converged"], false);
    assert_eq!(report["termination"], "max_rounds");
}

#[test]
fn two_institutions_fit_and_then_score_new_rows() {
    let world = World::new();
    let ended = world.run(&["--out", "out/alice"], &["--out", "out/bob", "--format", "csv"]);
    assert_codes(&ended, 0);
    assert!(ended[1].out.contains("Coefficients:"), "{}", ended[1].out);
    assert!(ended[2].out.starts_with("term,party,estimate"), "{}", ended[2].out);
    let runs = fs::read_to_string(world.path("alice-state/runs.jsonl")).unwrap();
    assert!(runs.contains("\"exit\":0"), "{runs}");

    world.write("alice_new.csv", "id,a\nq2,0.5\nq1,0.25\n");
    world.write("bob_new.csv", "id,b\nq1,1.5\nq2,1\n");
    fs::remove_file(world.path("coordinator.address")).unwrap();
    fs::remove_file(world.path("alice.address")).unwrap();
    let (coordinator, address) = world.coordinator();
    let predict = ["predict", "--coordinator", &address];
    let alice = world.start(
        "alice",
        &[
            &predict[..],
            &["--listen", "127.0.0.1:0", "--announce", "alice.address", "--data", "alice_new.csv"],
            &["--model", "out/alice/model.json", "--out", "out/alice", "--scale", "link"],
        ]
        .concat(),
    );
    let listening = world.address("alice.address");
    let bob = world.start(
        "bob",
        &[&predict[..], &["--connect", &listening, "--data", "bob_new.csv", "--model", "out/bob/model.json"]].concat(),
    );
    let ended = [coordinator.end(), alice.end(), bob.end()];
    assert_codes(&ended, 0);
    let report: Value = serde_json::from_slice(&fs::read(world.path("out/alice/report.json")).unwrap()).unwrap();
    let estimate = |row: usize| report["coefficients"][row]["estimate"].as_f64().unwrap();
    let scores: Vec<f64> =
        ended[1].out.lines().skip(1).map(|line| line.split_once(',').unwrap().1.parse().unwrap()).collect();
    assert!(ended[1].out.starts_with("id,link\nq1,"), "{}", ended[1].out);
    assert_eq!(ended[2].out, "", "the study names alice");
    let expected = [(0.25, 1.5), (0.5, 1.0)].map(|(a, b)| estimate(0) + estimate(1) * a + estimate(2) * b);
    for (score, expected) in scores.iter().zip(expected) {
        assert!((score - expected).abs() < 1e-12, "{score} {expected}");
    }
    assert_eq!(fs::read_to_string(world.path("out/alice/scores.csv")).unwrap(), ended[1].out);
}

#[test]
fn studies_that_differ_end_the_run_at_both_sides_with_the_keys() {
    let world = World::new();
    world.write("bob-study.toml", &format!("{STUDY}\n[fit]\ntol = 1e-6\n"));
    let (coordinator, address) = world.coordinator();
    let alice = world.alice(&address, &[]);
    let listening = world.address("alice.address");
    let mut command = Command::new(DEMO);
    let bob = command
        .args(["--role", "bob", "fit", "--study", "bob-study.toml", "--coordinator", &address])
        .args(["--connect", &listening, "--data", "bob.csv", "--authority", "authority.pem"])
        .args(["--certificate", "bob.pem", "--key", "bob.key", "--state", "bob-state"])
        .current_dir(world.folder.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let (coordinator, alice) = (coordinator.end(), alice.end());
    assert_eq!([coordinator.code, alice.code], [77, 77], "{}", alice.log);
    assert_eq!(bob.status.code(), Some(77));
    let bob = String::from_utf8_lossy(&bob.stderr).into_owned();
    assert!(bob.contains("the study files differ in: fit.tol"), "{bob}");
    assert!(alice.log.contains("differs from the coordinator's in: fit.tol"), "{}", alice.log);
}

#[test]
fn refused_data_end_both_sides_and_the_cell_is_shown_only_at_home() {
    let world = World::new();
    let text = fs::read_to_string(world.path("bob.csv")).unwrap();
    let line = text.lines().nth(5).unwrap().to_string();
    world.write("bob.csv", &text.replace(&line, "r04,secret-cell,1.0"));
    let ended = world.run(&["--out", "out/alice"], &["--out", "out/bob"]);
    assert_codes(&ended, 65);
    assert!(ended[2].log.contains("secret-cell") && ended[2].log.contains("line 6"), "{}", ended[2].log);
    assert!(!ended[1].log.contains("secret-cell"));
    assert!(ended[1].log.contains("the data of bob were refused; the reason is shown there only"), "{}", ended[1].log);
    assert!(!world.path("out/alice/report.json").exists(), "nothing half-written");
}

#[test]
fn rows_that_do_not_line_up_are_refused_at_both_sides() {
    let world = World::new();
    let text = fs::read_to_string(world.path("bob.csv")).unwrap();
    world.write("bob.csv", &text.replace("r07,", "r77,"));
    let ended = world.run(&[], &[]);
    assert_codes(&ended, 65);
    for side in &ended[1..] {
        assert!(side.log.contains("the parties hold different ids"), "{}", side.log);
    }
}

#[test]
fn a_peer_that_never_comes_is_named() {
    let world = World::new();
    let (coordinator, address) = world.coordinator();
    let alice = world.alice(&address, &["--wait", "0"]).end();
    assert_eq!(alice.code, 69, "{}", alice.log);
    assert!(alice.log.contains("alice waited 0 s for bob, who did not join"), "{}", alice.log);
    drop(coordinator);

    fs::remove_file(world.path("alice.address")).unwrap();
    let alice = world.alice(&address, &["--wait", "0"]).end();
    assert_eq!(alice.code, 69, "{}", alice.log);
    assert!(alice.log.contains("alice waited 0 s for the coordinator at"), "{}", alice.log);
}

#[test]
fn an_interrupt_ends_all_sides_with_its_reason() {
    let world = World::new();
    world.make_long();
    let (coordinator, address) = world.coordinator();
    let mut alice = world.alice(&address, &["--out", "out/alice"]);
    let bob = world.bob(&address, &[]);
    world.under_way();
    drop(alice.leash.take());
    let ended = [coordinator.end(), alice.end(), bob.end()];
    assert_codes(&ended, 130);
    assert!(ended[1].log.contains("alice: interrupted by the user of alice"), "{}", ended[1].log);
    assert!(ended[2].log.contains("bob: alice ended the run: interrupted by the user of alice"), "{}", ended[2].log);
    assert!(!world.path("out/alice/report.json").exists(), "nothing half-written");
}

#[cfg(unix)]
#[test]
fn signals_are_interrupts() {
    // What was started under `nohup` hands that on.
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).map(str::trim);
    let hears = ignored.and_then(|mask| u64::from_str_radix(mask, 16).ok()).is_some_and(|mask| mask & 1 == 0);
    for signal in ["-INT", "-TERM"].into_iter().chain(hears.then_some("-HUP")) {
        let world = World::new();
        world.make_long();
        let (coordinator, address) = world.coordinator();
        let alice = world.alice(&address, &[]);
        let bob = world.bob(&address, &[]);
        world.under_way();
        let id = bob.child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
        assert_codes(&[coordinator.end(), alice.end(), bob.end()], 130);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn messages_that_nobody_can_read_change_no_exit_code() {
    let world = World::new();
    for words in [&["fit", "--data", "none.csv"][..], &["fit", "--wait", "1"]] {
        let command = || {
            let mut command = world.command("alice", "--listen", words);
            command.env("RUST_LOG", "trace").stdout(Stdio::null());
            command
        };
        let read = command().output().unwrap();
        assert!(!read.stderr.is_empty() && ![Some(0), Some(101)].contains(&read.status.code()), "{read:?}");
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        assert_eq!(command().stderr(full).status().unwrap().code(), read.status.code(), "{words:?}");
    }
}

#[test]
fn a_party_that_dies_is_waited_for_and_then_named() {
    let world = World::new();
    world.make_long();
    let (coordinator, address) = world.coordinator();
    let alice = world.alice(&address, &["--wait", "1"]);
    let mut bob = world.bob(&address, &[]);
    world.under_way();
    bob.child.kill().unwrap();
    let (alice, coordinator) = (alice.end(), coordinator.end());
    assert_eq!([alice.code, coordinator.code], [69, 69], "{}", alice.log);
    assert!(alice.log.contains("for bob"), "{}", alice.log);
}

#[test]
fn a_coordinator_that_dies_does_not_end_the_run() {
    let world = World::new();
    // The long fit with a round limit: about a second of rounds.
    world.make_long();
    let study = fs::read_to_string(world.path("study.toml")).unwrap();
    world.write("study.toml", &study.replace("4000000", "3000"));
    let (mut coordinator, address) = world.coordinator();
    let alice = world.alice(&address, &[]);
    let bob = world.bob(&address, &[]);
    world.under_way();
    coordinator.child.kill().unwrap();
    let (alice, bob) = (alice.end(), bob.end());
    assert_eq!([alice.code, bob.code], [3, 3], "{}\n{}", alice.log, bob.log);
    assert!(alice.log.contains("the run goes on"), "{}", alice.log);
}

#[test]
fn a_foreign_certificate_is_refused() {
    let world = World::new();
    world.certificates("elsewhere", &["bob"]);
    let (coordinator, address) = world.coordinator();
    let alice = world.alice(&address, &["--wait", "1"]);
    let bob = world.bob(&address, &[]).end();
    assert_eq!(bob.code, 77, "{}", bob.log);
    assert!(bob.log.contains("refused our certificate"), "{}", bob.log);
    assert_eq!(alice.end().code, 69);
    drop(coordinator);
}

#[test]
fn spoiled_handshakes_are_told_at_once_and_tried_again() {
    let world = World::new();
    let (coordinator, address) = world.coordinator();
    let alice = world.alice(&address, &[]);
    // The changed byte is in the listener's first record.
    let spoils = [Spoil { fault: Fault::Alert, back: true, at: 0 }, Spoil { fault: Fault::Flip, back: true, at: 40 }];
    let (spoiled, line) = (spoiler::before(address, &spoils), spoiler::before(world.address("alice.address"), &spoils));
    let bob = world.start("bob", &["fit", "--coordinator", &spoiled, "--connect", &line, "--data", "bob.csv"]);
    let ended = [coordinator.end(), alice.end(), bob.end()];
    assert_codes(&ended, 0);
    for (name, place) in [("coordinator", spoiled), ("alice", line)] {
        for says in ["refused our certificate: it does not know the authority that issued it", "broke the handshake"] {
            let told = ended[2]
                .log
                .lines()
                .any(|line| line.contains(&format!("{name} at {place} {says}")) && line.ends_with("; trying again"));
            assert!(told, "{name} {says}: {}", ended[2].log);
        }
    }
}

/// A run in which Bob's lines to the coordinator and to Alice are spoiled; its coefficients, with every digit.
fn spoiled_run(coordinator_line: &[Spoil], alice_line: &[Spoil]) -> String {
    let world = World::new();
    let (coordinator, address) = world.coordinator_with(&["--wait", "60"]);
    // The random choices of a run move its last digits.
    let alice = world.alice(&address, &["--seed", "7"]);
    let (desk, line) =
        (spoiler::before(address, coordinator_line), spoiler::before(world.address("alice.address"), alice_line));
    let arguments =
        ["fit", "--coordinator", &desk, "--connect", &line, "--data", "bob.csv", "--format", "json", "--seed", "7"];
    let bob = world.start("bob", &arguments);
    // Alice and the coordinator may wait for a goodbye that was lost.
    let bob = bob.end();
    assert_eq!(bob.code, 0, "{coordinator_line:?} {alice_line:?}\n{}", bob.log);
    let alice = alice.end();
    assert_eq!(alice.code, 0, "{coordinator_line:?} {alice_line:?}\n{}\n{}", alice.log, bob.log);
    drop(coordinator);
    let report: Value = serde_json::from_str(&bob.out).unwrap();
    format!("{} {} {}", report["rounds"], report["deviance"], report["coefficients"])
}

/// Runs under seeded faults, eight at a time; the first three connections of both lines have one each.
fn spoiled_runs(seeds: std::ops::Range<u64>, faults: &[Fault]) {
    let clean = spoiled_run(&[], &[]);
    let next = std::sync::atomic::AtomicU64::new(seeds.start);
    let work = || {
        loop {
            let seed = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let mut state = seed;
            let mut draw = |below: usize| {
                state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                ((mixed ^ (mixed >> 27)) >> 11) as usize % below
            };
            // A handshake takes some 1300 bytes to the listener and 1000 back, a run a few thousand. A stall lasts half a minute,
            // so that a run has one at most.
            let mut spoils = |stalls: bool| -> Vec<Spoil> {
                let one = |number| {
                    let fault = match faults[draw(faults.len())] {
                        Fault::Stall if number > 0 || !stalls => Fault::Cut,
                        fault => fault,
                    };
                    Spoil { fault, back: draw(2) == 1, at: draw(4000) }
                };
                (0..3).map(one).collect()
            };
            let odd = seed % 2 == 1;
            let (coordinator, alice) = (spoils(!odd), spoils(odd));
            assert_eq!(spoiled_run(&coordinator, &alice), clean, "{seed}: {coordinator:?} {alice:?}");
        }
    };
    std::thread::scope(|scope| (0..8).for_each(|_| drop(scope.spawn(work))));
}

#[test]
fn lines_spoiled_anywhere_give_the_bits_of_a_clean_run() {
    spoiled_runs(0..12, &[Fault::Alert, Fault::Flip, Fault::Cut, Fault::HalfClose]);
}

#[test]
#[ignore = "minutes: a line that stalls is given up after half a minute"]
fn three_hundred_spoiled_and_stalled_lines_give_the_bits_of_a_clean_run() {
    spoiled_runs(0..50, &[Fault::Alert, Fault::Flip, Fault::Cut, Fault::HalfClose, Fault::Stall]);
}

#[test]
fn an_authority_that_was_mixed_up_is_told_at_once_and_is_the_reason_at_the_end_of_the_wait() {
    // Another world has another authority; its certificates carry the same names.
    let (world, elsewhere) = (World::new(), World::new());
    let (_coordinator, address) = world.coordinator();
    let begun = Instant::now();
    let mut bob = elsewhere
        .start("bob", &["fit", "--coordinator", &address, "--connect", &address, "--data", "bob.csv", "--wait", "2"]);
    let sentence =
        format!("coordinator at {address} shows a certificate in the name of 'authority', but our authority of");
    let log = bob.log.clone();
    eventually(|| fs::read_to_string(&log).ok().filter(|log| log.contains(&sentence)));
    assert!(
        begun.elapsed() < Duration::from_secs(2) || bob.child.try_wait().unwrap().is_none(),
        "told at the end only"
    );
    let bob = bob.end();
    assert_eq!(bob.code, 77, "{}", bob.log);
    let waited = format!("bob waited 2 s for the coordinator at {address}; {sentence}");
    assert!(bob.log.contains(&waited), "{}", bob.log);
}

#[test]
fn a_folder_that_cannot_be_written_and_a_port_in_use_are_found_before_the_run() {
    let world = World::new();
    world.write("file", "");
    let alice = world.alice("127.0.0.1:9", &["--out", "file/out"]).end();
    assert_eq!(alice.code, 73, "{}", alice.log);
    assert!(alice.log.contains("cannot write file/out"), "{}", alice.log);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let alice = world.alice("127.0.0.1:9", &["--listen", &address]).end();
    assert_eq!(alice.code, 69, "{}", alice.log);
    assert!(alice.log.contains(&address), "{}", alice.log);
}

#[test]
fn a_check_shows_what_would_leave_and_opens_no_connection() {
    let world = World::new();
    let output = Command::new(DEMO)
        .args(["--role", "alice", "check", "--study", "study.toml", "--coordinator", "127.0.0.1:9"])
        .args(["--connect", "127.0.0.1:9", "--data", "alice.csv", "--authority", "authority.pem"])
        .args(["--certificate", "alice.pem", "--key", "alice.key", "--format", "json"])
        .current_dir(world.folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let checked: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(checked["rows"], 40);
    assert_eq!(checked["terms"], serde_json::json!(["(Intercept)", "a"]));
    let leaves: Vec<&str> =
        checked["leaves"].as_array().unwrap().iter().map(|leaving| leaving["what"].as_str().unwrap()).collect();
    assert_eq!(leaves, ["partial predictions", "summaries", "basis", "coefficients"]);
    // The forecast is near what a run sends.
    let ended = world.run(&["--format", "json"], &[]);
    assert_codes(&ended, 0);
    let report: Value = serde_json::from_str(&ended[1].out).unwrap();
    let (sent, predicted) = (report["bytes_sent"].as_f64().unwrap(), checked["predicted_bytes"].as_f64().unwrap());
    assert!((0.5..2.0).contains(&(predicted / sent)), "{predicted} {sent}");
}

#[test]
fn status_says_who_is_awaited() {
    let world = World::new();
    let (coordinator, address) = world.coordinator();
    let ask = || {
        Command::new(DEMO)
            .args(["--role", "coordinator", "status", "--study", "study.toml", "--listen", &address])
            .args(["--authority", "authority.pem", "--certificate", "coordinator.pem"])
            .args(["--key", "coordinator.key", "--format", "json"])
            .current_dir(world.folder.path())
            .output()
            .unwrap()
    };
    let output = ask();
    assert_eq!(output.status.code(), Some(75), "{}", String::from_utf8_lossy(&output.stderr));
    let alice = world.alice(&address, &[]);
    let status = eventually(|| {
        let status: Value = serde_json::from_slice(&ask().stdout).unwrap();
        (status["parties"]["alice"]["state"] == "ready").then_some(status)
    });
    assert_eq!(status["parties"]["bob"]["state"], "absent");
    drop(alice);
    drop(coordinator);
    assert_eq!(ask().status.code(), Some(69));
}

#[test]
fn an_interrupted_run_leaves_a_coordinator_that_serves_on_as_if_it_had_not_been() {
    let world = World::new();
    let (coordinator, address) = world.coordinator_with(&["--wait", "5", "--keep"]);
    let mut alice = world.alice(&address, &[]);
    eventually(|| {
        fs::read_to_string(world.path("coordinator.log")).ok()?.contains("alice: has read its data").then_some(())
    });
    drop(alice.leash.take());
    assert_eq!(alice.end().code, 130);
    fs::remove_file(world.path("alice.address")).unwrap();
    let alice = world.alice(&address, &[]);
    let bob = world.bob(&address, &[]).end();
    let alice = alice.end();
    assert_eq!((alice.code, bob.code), (0, 0), "{}\n{}", alice.log, bob.log);
    // And a run that went well does not stand in the way of another at once.
    fs::remove_file(world.path("alice.address")).unwrap();
    let alice = world.alice(&address, &[]);
    let bob = world.bob(&address, &[]).end();
    let alice = alice.end();
    assert_eq!((alice.code, bob.code), (0, 0), "{}\n{}", alice.log, bob.log);
    drop(coordinator);
}

#[test]
fn whoever_waits_says_once_for_whom_where_and_how_long_still() {
    let world = World::new();
    let (coordinator, address) = world.coordinator();
    let mut alice = world.alice(&address, &["--wait", "60"]);
    let log = || fs::read_to_string(world.path("alice.log")).unwrap_or_default();
    eventually(|| log().contains("Ctrl-C is safe").then_some(()));
    let line = log().lines().find(|line| line.contains("Ctrl-C is safe")).unwrap().to_string();
    assert!(line.contains(&format!("waiting for bob to join (coordinator at {address}); 5")), "{line}");
    assert!(line.contains(" s left"), "{line}");
    eventually(|| {
        let log = fs::read_to_string(world.path("coordinator.log")).unwrap_or_default();
        log.contains("waiting for bob to join at").then_some(())
    });
    drop(alice.leash.take());
    let alice = alice.end();
    assert_eq!((alice.code, alice.log.matches("waiting for bob").count()), (130, 1), "{}", alice.log);
    drop(coordinator);
}
