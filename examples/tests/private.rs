//! Private runs as real processes: budgets, ledgers, and parties that are killed in the middle.

// Test code may unwrap: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod ledgers;
mod world;

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use ledgers::{hold, let_go, records, stored};
use rusqlite::Connection;
use serde_json::Value;
use world::{DEMO, STUDY, World, assert_codes, demo, eventually};

const PRIVATE: &str = r#"
    mode = "private"
    [columns.a]
    range = [-1.5, 1.5]
    [columns.b]
    range = [-2, 4]
    [columns.y]
    range = [-2, 6]
    [privacy]
    epsilon = 1.0
    delta = 1e-5
"#;

/// The world's study in private mode; data sets may cost `lifetime`, and are registered.
fn private(lifetime: f64) -> World {
    let world = World::new();
    let (mode, tables) = PRIVATE.split_once("[columns.a]").unwrap();
    world.write("study.toml", &format!("{mode}{STUDY}[columns.a]{tables}"));
    for role in ["alice", "bob"] {
        private_file(&world, role, &format!("epsilon = {lifetime:?}\ndelta = 1e-5\n"), "");
        assert_eq!(told(&privacy(&world, role, &["init"])).0, 0);
    }
    world
}

fn private_file(world: &World, role: &str, privacy: &str, policy: &str) {
    let text = format!(
        "[privacy]\nledger = \"{role}-state/privacy.sqlite\"\nanchor = \"anchors/{role}\"\ndata_set = \"cohort\"\n{privacy}[policy]\n\
         {policy}"
    );
    world.write(&format!("{role}.toml"), &text);
}

fn command(world: &World, role: &str, words: &[&str]) -> Output {
    command_to("127.0.0.1:9", world, role, words)
}

/// A command of a party for which both the coordinator and the other party are at `address`.
fn command_to(address: &str, world: &World, role: &str, words: &[&str]) -> Output {
    command_of(&["--data", &format!("{role}.csv")], address, world, role, words)
}

/// The same of a party whose rows are elsewhere.
fn command_of(data: &[&str], address: &str, world: &World, role: &str, words: &[&str]) -> Output {
    Command::new(DEMO)
        .args(["--role", role])
        .args(words)
        .args(["--study", "study.toml", "--coordinator", address, "--connect", address])
        .args(data)
        .args(["--state", &format!("{role}-state")])
        .args([
            "--authority",
            "authority.pem",
            "--certificate",
            &format!("{role}.pem"),
            "--key",
            &format!("{role}.key"),
        ])
        .current_dir(world.path(""))
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn privacy(world: &World, role: &str, words: &[&str]) -> Output {
    command(world, role, &[&["privacy"], words].concat())
}

/// Code, standard output, and standard error.
fn told(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{:?}", told(output)))
}

fn ledger(world: &World, role: &str) -> PathBuf {
    world.path(&format!("{role}-state/privacy.sqlite"))
}

/// The world for the next run: addresses of the last one would be taken for its own.
fn again(world: &World) {
    for name in ["coordinator.address", "alice.address"] {
        let _ = fs::remove_file(world.path(name));
    }
}

fn spent(world: &World, role: &str) -> f64 {
    json(&privacy(world, role, &["status", "--format", "json"]))[0]["sum"].as_f64().unwrap()
}

#[test]
fn from_a_plan_to_a_refused_third_run() {
    let world = private(1.5);
    let (code, plan, _) = told(&privacy(&world, "alice", &["plan"]));
    assert_eq!(code, 0);
    for words in [
        "2 such runs still fit",
        "X'y",
        "partial prediction, round 1",
        "exchanging nothing",
        "any two columns",
        "not declared",
        "Nothing was spent",
    ] {
        assert!(plan.contains(words), "{words}: {plan}");
    }
    let planned = json(&privacy(&world, "alice", &["plan", "--format", "json"]));
    for run in 1..=2 {
        let ended = world.run(&["--format", "json", "--out", "out/alice"], &["--out", "out/bob"]);
        assert_codes(&ended, 0);
        let report: Value = serde_json::from_str(&ended[1].out).unwrap();
        assert_eq!(report["mode"], "private");
        assert_eq!(report["termination"], "fixed_rounds");
        for absent in [
            "converged",
            "certificate",
            "deviance",
            "null_deviance",
            "aic",
            "bic",
            "log_lik",
            "r_squared",
            "dispersion",
            "adj_r_squared",
            "mcfadden_r_squared",
            "f_test",
            "lr_test",
            "covariance",
            "term_tests",
            "performance",
            "tol",
        ] {
            assert!(report[absent].is_null(), "{absent}: {}", report[absent]);
        }
        let account = &report["privacy"];
        assert_eq!(account["charge"], planned["charge"]);
        assert_eq!(account["expected"], planned["expected"], "report and plan say the same");
        let notes: Vec<&str> = report["notes"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert!(!notes.iter().any(|note| note.contains("by 0 %")), "{notes:?}");
        for part in ["assumed: any two columns", "exchanging nothing is expected to do as well"] {
            assert!(notes.iter().any(|note| note.contains(part)), "{part}: {notes:?}");
        }
        for note in notes.iter().filter_map(|note| note.strip_prefix("warning: ")) {
            assert!(plan.contains(note), "{note}: {plan}");
        }
        let spent = account["spent"].as_f64().unwrap();
        assert!((spent - f64::from(run) * planned["charge"].as_f64().unwrap()).abs() < 1e-12, "{spent}");
        assert_eq!(account["releases"].as_array().unwrap().len(), 4);
        again(&world);
    }
    let ended = world.run(&[], &[]);
    assert_codes(&ended, 77);
    let spent = |side: &world::Ended| side.log.contains("the budget of data set \"cohort\" is spent");
    assert!(spent(&ended[1]) || spent(&ended[2]), "whoever looks first says it: {}", ended[1].log);
    let (code, _, said) = told(&command(&world, "alice", &["check"]));
    assert_eq!(code, 77, "{said}");
    let (code, status, _) = told(&privacy(&world, "alice", &["status"]));
    assert_eq!(code, 0);
    assert!(status.contains("epsilon 1.5 at delta 1e-5") && status.contains("towards    bob"), "{status}");
    let (code, verified, _) = told(&privacy(&world, "alice", &["verify"]));
    assert!(code == 0 && verified.contains("follow from each other"), "{verified}");
    let runs = json(&privacy(&world, "alice", &["report", "--format", "json"]));
    assert_eq!(runs.as_array().unwrap().len(), 2);
    assert_eq!(told(&privacy(&world, "alice", &["report", "--run", "nowhere"])).0, 77);
}

/// Starts a run, kills Bob when his ledger has a record like `seen` and he hangs at `event`, and starts him again.
fn kill_bob(world: &World, event: &str, seen: &str) -> [world::Ended; 3] {
    let ledger = ledger(world, "bob");
    hold(&ledger, event);
    let (coordinator, address) = world.coordinator_with(&["--wait", "60"]);
    let alice = world.alice(&address, &["--out", "out/alice"]);
    let mut bob = world.bob(&address, &["--out", "out/bob"]);
    eventually(|| records(&ledger).last().is_some_and(|body| body.contains(seen)).then_some(()));
    bob.child.kill().unwrap();
    bob.child.wait().unwrap();
    let_go(&ledger);
    let before = stored(&ledger, "sent/%");
    let bob = world.bob(&address, &["--out", "out/bob"]).end();
    let after = stored(&ledger, "sent/%");
    assert_eq!(after[..before.len()], before[..], "what was stored has changed");
    [coordinator.end(), alice.end(), bob]
}

#[test]
fn a_party_killed_before_its_noise_is_stored_goes_on_and_is_charged_once() {
    let world = private(1.0);
    let ended = kill_bob(&world, "bytes WHEN NEW.name LIKE 'sent/%/0'", "\"kind\":\"received\"");
    assert_codes(&ended, 0);
    let charges = records(&ledger(&world, "bob")).iter().filter(|body| body.contains("\"kind\":\"reserved\"")).count();
    assert_eq!(charges, 1);
    assert!(world.path("out/bob/report.json").exists());
    assert_eq!(told(&privacy(&world, "bob", &["verify"])).0, 0);
}

#[test]
fn a_party_killed_before_it_reserved_takes_part_in_the_run_that_the_other_has_reserved() {
    let world = private(1.0);
    let bobs = ledger(&world, "bob");
    hold(&bobs, "records WHEN json_extract(NEW.body, '$.kind') = 'reserved'");
    let (coordinator, address) = world.coordinator_with(&["--wait", "60"]);
    let alice = world.alice(&address, &["--out", "out/alice"]);
    let mut bob = world.bob(&address, &["--out", "out/bob"]);
    let reserved = |role: &str| {
        let bodies = records(&ledger(&world, role));
        bodies.iter().filter(|body| body.contains("\"kind\":\"reserved\"")).count()
    };
    eventually(|| (reserved("alice") == 1).then_some(()));
    bob.child.kill().unwrap();
    bob.child.wait().unwrap();
    let_go(&bobs);
    assert_eq!(reserved("bob"), 0);
    let bob = world.bob(&address, &["--out", "out/bob"]).end();
    assert_codes(&[coordinator.end(), alice.end(), bob], 0);
    assert_eq!([reserved("alice"), reserved("bob")], [1, 1]);
}

#[test]
fn results_that_cannot_be_written_are_made_again_from_what_is_stored_and_nobody_is_contacted() {
    for role in ["alice", "bob"] {
        let world = private(1.0);
        // The folder can be written, and the report cannot.
        let report = world.path(&format!("out/{role}/report.json"));
        fs::create_dir_all(report.join("in the way")).unwrap();
        let ended = world.run(&["--out", "out/alice"], &["--out", "out/bob"]);
        let [failed, other] = if role == "alice" { [&ended[1], &ended[2]] } else { [&ended[2], &ended[1]] };
        assert_eq!((failed.code, other.code), (73, 0), "{} {}", failed.log, other.log);
        let sum = spent(&world, role);
        fs::remove_dir_all(&report).unwrap();
        let again = match role {
            "alice" => world.alice("127.0.0.1:9", &["--out", "out/alice"]),
            _ => world.bob("127.0.0.1:9", &["--out", "out/bob"]),
        };
        let again = again.end();
        assert_eq!(again.code, 0, "{}", again.log);
        assert!(again.log.contains("nobody is contacted"), "{}", again.log);
        let coefficients = |role: &str| -> Value {
            let text = fs::read(world.path(&format!("out/{role}/report.json"))).unwrap();
            serde_json::from_slice::<Value>(&text).unwrap()["coefficients"].clone()
        };
        assert_eq!(coefficients("alice"), coefficients("bob"));
        assert_eq!(spent(&world, role), sum, "charged again");
        // It is over: the next run is a new one.
        fs::remove_file(world.path("alice.address")).unwrap();
        let _ = fs::remove_file(world.path("coordinator.address"));
        assert_codes(&world.run(&[], &[]), 77);
    }
}

#[test]
fn a_party_killed_after_storing_goes_on_with_the_same_bytes_and_no_second_charge() {
    // After two releases are stored and before the next begins; and after its message was sent.
    for (event, last) in [
        (
            "records WHEN json_extract(NEW.body, '$.kind') = 'stored' AND json_extract(NEW.body, '$.receipt.index') = 2",
            1,
        ),
        ("bytes WHEN NEW.name LIKE 'received/%/11'", 2),
    ] {
        let world = private(1.0);
        let ledger_of_bob = ledger(&world, "bob");
        let ended = kill_bob(&world, event, &format!("\"index\":{last},"));
        assert_codes(&ended, 0);
        assert!(ended[2].log.contains("was interrupted here; taking it up again"), "{}", ended[2].log);
        let charges = records(&ledger_of_bob).iter().filter(|body| body.contains("\"kind\":\"reserved\"")).count();
        assert_eq!(charges, 1);
        let message = stored(&ledger_of_bob, "sent/%/2").remove(0).1;
        let heard = stored(&ledger(&world, "alice"), "received/%/10").remove(0).1;
        assert!(heard.ends_with(&message), "alice has other bytes than bob stored");
        let report = |role: &str| -> Value {
            serde_json::from_slice(&fs::read(world.path(&format!("out/{role}/report.json"))).unwrap()).unwrap()
        };
        assert_eq!(report("alice")["coefficients"], report("bob")["coefficients"]);
        assert_eq!(told(&privacy(&world, "bob", &["verify"])).0, 0);
        // It is over: the next run is a new one, and there is no budget for it.
        again(&world);
        assert_codes(&world.run(&[], &[]), 77);
    }
}

#[test]
fn of_two_runs_that_race_for_the_last_budget_exactly_one_wins() {
    let first = private(1.0);
    let second = private(1.0);
    // The second Alice has the first one's data set in the first one's ledger.
    let text = format!(
        "[privacy]\nledger = {:?}\nanchor = {:?}\ndata_set = \"cohort\"\n",
        ledger(&first, "alice"),
        first.path("anchors/alice")
    );
    second.write("alice.toml", &text);
    let mut codes: Vec<[i32; 3]> = std::thread::scope(|scope| {
        let racers = [&first, &second].map(|world| scope.spawn(|| world.run(&[], &[]).map(|ended| ended.code)));
        racers.into_iter().map(|racer| racer.join().unwrap()).collect()
    });
    codes.sort_unstable();
    assert_eq!(codes, [[0; 3], [77; 3]]);
    // The second withdraws the first where that has stored nothing yet.
    let bodies = records(&ledger(&first, "alice"));
    let count = |kind: &str| bodies.iter().filter(|body| body.contains(&format!("\"kind\":\"{kind}\""))).count();
    assert_eq!(count("reserved") - count("withdrawn"), 1);
}

#[test]
fn ledgers_that_are_gone_rolled_back_edited_or_of_other_data_end_the_run_for_both() {
    let world = private(1.5);
    let ledger = ledger(&world, "alice");
    let fresh = fs::read(&ledger).unwrap();
    assert_codes(&world.run(&[], &[]), 0);
    let whole = fs::read(&ledger).unwrap();
    let refused = |reason: &str| {
        again(&world);
        let ended = world.run(&["--out", "out"], &[]);
        assert_codes(&ended, 77);
        assert!(ended[1].log.contains(reason), "{reason}: {}", ended[1].log);
        assert!(!ended[2].log.contains(reason), "bob need not know");
        assert!(ended[2].log.contains("the privacy ledger of alice refused"), "{}", ended[2].log);
        assert_eq!(told(&privacy(&world, "alice", &["verify"])).0, 77);
    };
    fs::remove_file(&ledger).unwrap();
    refused("is gone, but its anchor says");
    fs::write(&ledger, &fresh).unwrap();
    refused("rolled back or replaced");
    fs::write(&ledger, &whole).unwrap();
    Connection::open(&ledger)
        .unwrap()
        .execute_batch(
            "DROP TRIGGER records_are_final_1;
             UPDATE records SET body = json_set(body, '$.charge', 1e-9) WHERE json_extract(body, '$.kind') = 'reserved';",
        )
        .unwrap();
    refused("was changed: record");
    fs::write(&ledger, &whole).unwrap();
    // The same name for other persons.
    for role in ["alice", "bob"] {
        let text = fs::read_to_string(world.path(&format!("{role}.csv"))).unwrap();
        world.write(&format!("{role}.csv"), &text.replace("r07,", "q07,"));
    }
    again(&world);
    let ended = world.run(&[], &[]);
    assert_codes(&ended, 77);
    // Both ledgers refuse; who is second may hear of the first before it has looked.
    let refused = |party: &world::Ended| party.log.contains("has other persons than the data at hand");
    assert!(ended[1..].iter().any(refused), "{} {}", ended[1].log, ended[2].log);
}

#[test]
fn a_party_whose_policy_allows_less_ends_the_run_for_both_before_anything_is_spent() {
    let world = private(1.0);
    private_file(&world, "alice", "", "max_epsilon = 0.5\n");
    let ended = world.run(&[], &[]);
    assert_codes(&ended, 77);
    for side in &ended[1..] {
        assert!(side.log.contains("the study asks for epsilon 1 in one run, at most 0.5 is allowed"), "{}", side.log);
    }
    assert_eq!((spent(&world, "alice"), spent(&world, "bob")), (0.0, 0.0));
}

#[test]
fn a_row_that_cannot_be_used_is_refused_by_a_check_and_counts_as_zeros_in_a_run() {
    let world = private(1.0);
    let text = fs::read_to_string(world.path("alice.csv")).unwrap();
    let line = text.lines().nth(5).unwrap();
    let outcome = line.rsplit(',').next().unwrap();
    world.write("alice.csv", &text.replace(line, &format!("r04,not-a-number,{outcome}")));
    let (code, _, said) = told(&command(&world, "alice", &["check"]));
    assert_eq!(code, 65, "{said}");
    assert!(said.contains("line 6") && said.contains("not-a-number"), "{said}");
    let ended = world.run(&["--format", "json"], &[]);
    assert_codes(&ended, 0);
    let report: Value = serde_json::from_str(&ended[1].out).unwrap();
    assert_eq!((report["nobs"].as_u64(), report["missing"].as_u64()), (Some(40), Some(0)), "nobody is told");
}

#[test]
fn a_run_without_privacy_is_remembered_and_predictions_are_not_made_in_private_mode() {
    let world = private(1.0);
    let study = fs::read_to_string(world.path("study.toml")).unwrap();
    world.write("study.toml", STUDY);
    assert_codes(&world.run(&[], &[]), 0);
    world.write("study.toml", &study);
    let (_, status, _) = told(&privacy(&world, "alice", &["status"]));
    assert!(status.contains("these persons were in a run without privacy"), "{status}");
    again(&world);
    let ended = world.run(&[], &[]);
    assert_codes(&ended, 0);
    assert!(ended[1].out.contains("these persons were in a run without privacy"), "{}", ended[1].out);
    let (code, _, said) = told(&command(&world, "alice", &["predict"]));
    assert_eq!(code, 77, "{said}");
    assert!(said.contains("a release of its own"), "{said}");
}

#[test]
fn a_run_without_privacy_is_remembered_before_the_ledger_is_made_and_whatever_the_data_are_called() {
    let world = World::new();
    let (mode, tables) = PRIVATE.split_once("[columns.a]").unwrap();
    let study = format!("{mode}{STUDY}[columns.a]{tables}");
    assert_codes(&world.run(&[], &[]), 0);
    assert!(!ledger(&world, "alice").exists(), "who never uses privacy has no ledger");
    world.write("study.toml", &study);
    // Alice makes her ledger after that run; Bob forgets it, and has the next one under another name.
    fs::remove_file(world.path("bob-state/privacy.sqlite.plain-runs")).unwrap();
    let budget = "epsilon = 2.0\ndelta = 1e-5\n";
    for role in ["alice", "bob"] {
        private_file(&world, role, budget, "");
        assert_eq!(told(&privacy(&world, role, &["init"])).0, 0);
    }
    let (_, status, _) = told(&privacy(&world, "alice", &["status"]));
    assert!(status.contains("these persons were in a run without privacy"), "{status}");
    assert!(status.contains("was not recorded") && status.contains("it counts for everybody"), "{status}");
    let status = || json(&privacy(&world, "bob", &["status", "--format", "json"]));
    assert_eq!(status()[0]["unbounded"], false);
    let text = fs::read_to_string(world.path("bob.toml")).unwrap();
    world.write("bob.toml", &text.replace("\"cohort\"", "\"renamed\""));
    world.write("study.toml", STUDY);
    again(&world);
    assert_codes(&world.run(&[], &[]), 0);
    world.write("bob.toml", &text);
    world.write("study.toml", &study);
    let known = status();
    assert_eq!((&known[0]["unbounded"], &known[0]["unbounded_by_unknown"]), (&Value::Bool(true), &Value::Bool(false)));
    again(&world);
    let ended = world.run(&["--format", "json"], &["--format", "json"]);
    assert_codes(&ended, 0);
    for side in &ended[1..] {
        let report: Value = serde_json::from_str(&side.out).unwrap();
        let said = report["privacy"].to_string();
        assert!(said.contains("\"plain_runs\":true"), "{said}");
    }
}

#[test]
fn a_party_whose_table_is_broken_in_its_form_looks_like_one_that_never_came() {
    let world = private(1.0);
    let text = fs::read_to_string(world.path("alice.csv")).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    for (broken, said_of_it) in [
        (text.replace("r04,", "r04,1,"), "expected 3 cells as in the header, found 4"),
        (text.replace("r04,", ""), "expected 3 cells as in the header, found 2"),
        (text.replace("r04,", "\"r04,"), "a quote is opened and never closed"),
        (text.replace("r04,", ","), "has no id"),
        (text.replace("r04,", "r05,"), "r05"),
    ] {
        world.write("alice.csv", &broken);
        let (code, _, said) = told(&command_to(&address, &world, "alice", &["fit", "--wait", "1"]));
        assert_eq!(code, 65, "{said}");
        assert!(said.contains(said_of_it), "{said_of_it}: {said}");
        assert!(listener.accept().is_err(), "{said_of_it}: somebody was contacted");
    }
    assert_eq!(spent(&world, "alice"), 0.0);
    // The log of runs outlives the terminal, and quotes neither a cell nor an identifier.
    let kept = fs::read_to_string(world.path("alice-state/runs.jsonl")).unwrap();
    assert_eq!(kept.lines().count(), 5);
    assert!(kept.contains("expected 3 cells as in the header, found 4") && kept.contains("has no id"), "{kept}");
    assert!(kept.contains("shown on the terminal only") && !kept.contains("r05"), "{kept}");
    // And a sound one does dial.
    world.write("alice.csv", &text);
    std::thread::scope(|scope| {
        scope.spawn(|| command_to(&address, &world, "alice", &["fit", "--wait", "0"]));
        eventually(|| listener.accept().ok());
        // Whoever dials is hung up on, and need not wait for a handshake.
        drop(listener);
    });
}

/// Interrupts bob's run, lets his data change, and says how he takes it up again, which must be without a word to anybody; and how he
/// begins the next one.
fn with_other_rows(world: &World, data: &[&str], change: impl FnOnce()) -> [(i32, String, String); 2] {
    let ledger = ledger(world, "bob");
    hold(&ledger, "bytes WHEN NEW.name LIKE 'sent/%/2'");
    let (coordinator, address) = world.coordinator_with(&["--wait", "60"]);
    let alice = world.alice(&address, &[]);
    let bob = world.bob(&address, data);
    eventually(|| records(&ledger).last().is_some_and(|body| body.contains("\"index\":1,")).then_some(()));
    drop((bob, alice, coordinator));
    let_go(&ledger);
    change();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let first = told(&command_of(data, &address, world, "bob", &["fit"]));
    assert!(listener.accept().is_err(), "somebody was contacted");
    drop(listener);
    // That run is over for him; what it reserved is spent, and the next one is another.
    [first, told(&command_of(data, &address, world, "bob", &["fit", "--wait", "0"]))]
}

#[test]
fn a_party_whose_rows_changed_since_its_run_was_interrupted_contacts_nobody() {
    let world = private(1.0);
    let [(code, _, said), (next, _, then)] = with_other_rows(&world, &["--data", "bob.csv"], || {
        let text = fs::read_to_string(world.path("bob.csv")).unwrap();
        let (head, last) = text.trim_end().rsplit_once('\n').unwrap();
        let (id, _) = last.split_once(',').unwrap();
        let cells = text.lines().next().unwrap().matches(',').count();
        world.write("bob.csv", &format!("{head}\n{id}{}\n", ",0".repeat(cells)));
    });
    assert!(code == 77 && said.contains("the data have changed since run"), "{code} {said}");
    assert!(next != 77 && !then.contains("the data have changed"), "{next} {then}");
}

/// Runs SQL in the data base of FEDREG_POSTGRES, which `.ci/sources` starts; nothing where there is none, or no reader of it.
fn postgres(world: &World, sql: &[&str]) -> Option<String> {
    let address = std::env::var("FEDREG_POSTGRES").ok().filter(|_| cfg!(feature = "postgres"))?;
    let commands = sql.iter().flat_map(|command| ["-c", command]);
    let mut psql = Command::new("psql");
    psql.args(["-qX", "-v", "ON_ERROR_STOP=1", &address]).args(commands).current_dir(world.path(""));
    assert!(psql.status().unwrap().success());
    Some(address)
}

#[test]
fn a_party_whose_data_base_has_other_rows_since_its_run_was_interrupted_contacts_nobody() {
    const CHANGE: &str = "UPDATE resumed SET b = b + 0.25 WHERE id = 'r07'";
    let world = private(1.0);
    let base = Connection::open(world.path("bob.db")).unwrap();
    base.execute_batch("CREATE TABLE resumed (id TEXT, b REAL, y REAL)").unwrap();
    for line in fs::read_to_string(world.path("bob.csv")).unwrap().lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        base.execute("INSERT INTO resumed VALUES (?1, ?2, ?3)", rusqlite::params_from_iter(cells)).unwrap();
    }
    let table = ["--table", "resumed"];
    let of_file = with_other_rows(&world, &[&["--data", "sqlite:bob.db"], &table[..]].concat(), || {
        base.execute_batch(CHANGE).unwrap();
    });
    let mut all = vec![of_file];
    let other = private(1.0);
    let load = [
        "DROP TABLE IF EXISTS resumed",
        "CREATE TABLE resumed (id text, b float8, y float8)",
        "\\copy resumed FROM 'bob.csv' CSV HEADER",
    ];
    if let Some(address) = postgres(&other, &load) {
        let data = [&["--data", &address], &table[..]].concat();
        all.push(with_other_rows(&other, &data, || drop(postgres(&other, &[CHANGE]))));
    }
    for [(code, _, said), (next, _, then)] in all {
        assert!(code == 65 && said.contains("are not those with which run") && said.contains("begun"), "{code} {said}");
        assert!(next != 65 && !then.contains("are not those with which"), "{next} {then}");
    }
}

#[test]
fn bounds_that_are_changed_between_runs_are_in_every_later_report() {
    let world = private(3.0);
    assert_codes(&world.run(&[], &[]), 0);
    let study = fs::read_to_string(world.path("study.toml")).unwrap();
    world.write("study.toml", &study.replace("range = [-1.5, 1.5]", "range = [-1, 1]"));
    again(&world);
    let ended = world.run(&[], &["--format", "json"]);
    assert_codes(&ended, 0);
    let sentence = "bounds of `a` were changed from -1.5 to 1.5 to -1 to 1";
    assert!(ended[1].out.contains(sentence), "{}", ended[1].out);
    let (_, status, _) = told(&privacy(&world, "alice", &["status"]));
    assert!(status.contains(sentence) && status.contains("known without the data"), "{status}");
    let report: Value = serde_json::from_str(&ended[2].out).unwrap();
    assert!(!report["privacy"].to_string().contains("bounds of `a`"), "it is not bob's column");
}

#[test]
fn the_private_demo_fits_the_shipped_data_and_reports_what_it_cost() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let flags =
        ["vertical", "--mode", "private", "--epsilon", "3", "--accountant", "exact", "--out", out.to_str().unwrap()];
    // Twice: every rehearsal has its whole budget.
    for _ in 0..2 {
        let output = demo(&[&flags[..], &["--format", "json"]].concat());
        assert!(output.status.success(), "{:?}", told(&output));
        let report = json(&output);
        assert_eq!(report["nobs"], 442);
        assert_eq!(report["coefficients"].as_array().unwrap().len(), 11);
        assert_eq!(report["termination"], "fixed_rounds");
        for role in ["alice", "bob"] {
            let account = &report["privacy"][role];
            assert_eq!((account["epsilon"].as_f64(), account["accountant"].as_str()), (Some(3.0), Some("exact")));
            assert!(account["left"].as_f64().unwrap() < 1e-9);
            assert!(account["epsilon_joint"].as_f64().unwrap() > 4.0);
            for release in account["releases"].as_array().unwrap() {
                for key in ["label", "sensitivity", "formula", "sigma"] {
                    assert!(!release[key].is_null(), "{key}");
                }
            }
            assert!(report["seconds"][role]["solve"].is_null(), "whoever sees the merged result sees no times");
            assert!(report["certificate"][role].is_null());
        }
    }
    let text = fs::read_to_string(out.join("report.txt")).unwrap();
    assert!(text.contains("z value") && text.contains("guarantee: epsilon 3"), "{text}");
    assert_eq!(text.matches("not protected:").count(), 1, "the definition is said once");
}

#[test]
fn the_private_demo_refuses_what_it_cannot_protect() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let bounds = folder.path().join("bounds.toml");
    let run = |more: &[&str]| {
        let mode: &[&str] = if more.contains(&"--mode") { &[] } else { &["--mode", "private"] };
        let (code, _, said) = told(&demo(&[&["vertical", "--out", out.to_str().unwrap()][..], mode, more].concat()));
        (code, said)
    };
    for (flags, code, reason) in [
        (&["--epsilon", "0"][..], 2, "positive"),
        (&["--epsilon=-1"], 2, "positive"),
        (&["--epsilon", "11"], 2, "large_epsilon"),
        (&["--delta", "0.01"], 77, "1/n"),
        (&["--family", "poisson", "--mechanism", "residual"], 2, "the mechanism `residual` is for gaussian only"),
        (&["--family", "binomial", "--mechanism", "residual"], 2, "name `mechanism = \"crossprod\"`"),
        (&["--tol", "1e-6"], 2, "stopping rule"),
        (&["--acceleration", "none"], 2, "without noise"),
        (&["--lambda", "0.1", "--cv", "5"], 2, "folds"),
        (&["--missing", "complete-cases"], 2, "which rows are incomplete"),
        (&["--outcome-at", "alice", "--mechanism", "residual"], 2, "not protected"),
        (&["--data", "data/diabetes.csv", "--outcome", "progression"], 2, "needs --bounds"),
        // Noticed although they are what holds by default.
        (&["--mode", "plain", "--epsilon", "1"], 2, "--epsilon needs --mode private"),
        (&["--mode", "plain", "--mechanism", "residual"], 2, "--mechanism needs --mode private"),
    ] {
        let (exit, said) = run(flags);
        assert_eq!(exit, code, "{flags:?}: {said}");
        assert!(said.contains(reason), "{flags:?}: {said}");
    }
    for (text, reason) in [
        ("[columns]\nage = [18, 90]\n", "public bounds"),
        ("[columns]\nage = \"data\"\n", "taken from the data"),
        ("[columns]\nage = { centre = 50 }\n", "needs both `centre` and `scale`"),
        ("[columns]\nage = { centre = 50, scal = 1 }\n", "did you mean `scale`"),
        ("[columns]\nage = { centre = \"mean\", scale = 1 }\n", "taken from the data"),
        ("[row_norm]\ncarol = 1.0\n", "[row_norm] names `carol`"),
        ("[row_norm]\nalice = 0.0\n", "`parties.alice.row_norm` must be a positive"),
        ("[columns]\nage = [18, inf]\n", "finite"),
        ("[outcome]\nother = [0, 1]\n", "the outcome is `progression`"),
        ("[colums]\nage = [18, 90]\n", "did you mean `columns`"),
    ] {
        fs::write(&bounds, text).unwrap();
        let (exit, said) = run(&["--bounds", bounds.to_str().unwrap()]);
        assert_eq!(exit, 2, "{text}: {said}");
        assert!(said.contains(reason), "{text}: {said}");
    }
}

#[test]
fn the_private_demo_warns_of_rows_that_count_as_zeros() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let bounds = folder.path().join("bounds.toml");
    let levels = "[columns]\nage = { centre = 60, scale = 20 }\n[row_norm]\nalice = 1.75\n[levels]\nadmission = [\"elective\", \"emergency\"]\nfemale = [\"false\", \"true\"]\n";
    fs::write(&bounds, format!("{levels}[outcome]\nstay_days = [0, 40]\n")).unwrap();
    let output = demo(&[
        "vertical",
        "--mode",
        "private",
        "--data",
        "data/admissions.csv",
        "--id",
        "id",
        "--outcome",
        "stay_days",
        "--alice",
        "age,female",
        "--bob",
        "admission",
        "--bounds",
        bounds.to_str().unwrap(),
        "--out",
        out.to_str().unwrap(),
        "--format",
        "json",
    ]);
    let (code, _, said) = told(&output);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("bob") && said.contains("urgent") && said.contains("count as zeros"), "{said}");
    let terms: Vec<Value> =
        json(&output)["coefficients"].as_array().unwrap().iter().map(|row| row["term"].clone()).collect();
    assert_eq!(terms, ["(Intercept)", "age", "femaleTRUE", "admissionemergency"]);
    let study = fs::read_to_string(out.join("study.toml")).unwrap();
    assert!(study.contains("row_norm = 1.75") && study.contains("centre = 60.0"), "{study}");
}

#[test]
fn parties_of_which_one_was_killed_and_one_interrupted_go_on_or_are_told_whoever_comes_first() {
    let world = private(3.0);
    let ledger = ledger(&world, "bob");
    hold(&ledger, "bytes WHEN NEW.name LIKE 'sent/%/1'");
    let (coordinator, address) = world.coordinator_with(&["--wait", "60"]);
    let mut alice = world.alice(&address, &[]);
    let mut bob = world.bob(&address, &[]);
    eventually(|| (!stored(&ledger, "sent/%").is_empty()).then_some(()));
    bob.child.kill().unwrap();
    bob.child.wait().unwrap();
    let_go(&ledger);
    // Her run is closed in her ledger; his is not.
    drop(alice.leash.take());
    assert_eq!((alice.end().code, coordinator.end().code), (130, 130));
    again(&world);
    let (coordinator, address) = world.coordinator_with(&["--wait", "5"]);
    let alice = world.alice(&address, &["--wait", "5"]);
    eventually(|| {
        fs::read_to_string(world.path("coordinator.log")).ok()?.contains("alice: has read its data").then_some(())
    });
    let bob = world.bob(&address, &["--wait", "5"]).end();
    let ended = [coordinator.end(), alice.end(), bob];
    // Where her ledger keeps the run as well, it goes on; else both are told, and the next start of both is one run.
    assert_codes(&ended, if ended[2].code == 0 { 0 } else { 69 });
    if ended[2].code == 69 {
        again(&world);
        assert_codes(&world.run(&[], &[]), 0);
    }
}
