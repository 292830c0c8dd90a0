//! Private runs by the mechanism `crossprod` as real processes: the demo, ledgers, and processes that are killed in the middle.

// Test code may unwrap: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod ledgers;
mod world;

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Output;

use ledgers::{delay, hold, let_go, records, stored};
use serde_json::Value;
use world::{Running, STUDY, World, assert_codes, demo, eventually};

const PRIVATE: &str = r#"
    [columns.a]
    range = [-1.5, 1.5]
    [columns.b]
    range = [-2, 4]
    [columns.y]
    range = [-2, 6]
    [privacy]
    mechanism = "crossprod"
    epsilon = 1.0
    delta = 1e-5
"#;

/// The world's study by the mechanism, with data sets for one run.
fn world() -> World {
    let world = World::new();
    world.write("study.toml", &format!("mode = \"private\"\n{STUDY}{PRIVATE}"));
    for role in ["alice", "bob"] {
        let text = format!(
            "[privacy]\nledger = \"{role}-state/privacy.sqlite\"\nanchor = \"anchors/{role}\"\ndata_set = \"cohort\"\nepsilon = \
             1.0\ndelta = 1e-5\n"
        );
        world.write(&format!("{role}.toml"), &text);
        let made = privacy(&world, role, &["init"]);
        assert!(made.status.success(), "{made:?}");
    }
    world
}

fn privacy(world: &World, role: &str, words: &[&str]) -> Output {
    command(world, role, &[&["privacy"], words].concat())
}

fn command(world: &World, role: &str, words: &[&str]) -> Output {
    world.asked(role, "--connect", words)
}

fn told(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

fn ledger(world: &World, role: &str) -> PathBuf {
    world.path(&format!("{role}-state/privacy.sqlite"))
}

fn report(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path.join("report.json")).unwrap()).unwrap()
}

fn count(world: &World, role: &str, kind: &str) -> usize {
    let kind = format!("\"kind\":\"{kind}\"");
    records(&ledger(world, role)).iter().filter(|body| body.contains(&kind)).count()
}

/// The world for the next run: addresses of the last one would be taken for its own.
fn again(world: &World) {
    for name in ["coordinator.address", "alice.address"] {
        let _ = fs::remove_file(world.path(name));
    }
}

#[test]
fn the_private_demo_fits_the_shipped_data_by_one_table() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let flags =
        ["vertical", "--mode", "private", "--mechanism", "crossprod", "--epsilon", "3", "--accountant", "exact"];
    let (code, printed, said) = told(&demo(&[&flags[..], &["--out", out.to_str().unwrap()]].concat()));
    assert_eq!(code, 0, "{said}\n{printed}");
    assert!(printed.contains("masked columns, noised tables of its own columns and its noised share"), "{printed}");
    let merged = report(&out);
    assert_eq!((merged["nobs"].as_u64(), merged["rounds"].as_u64()), (Some(442), Some(1)));
    let rows = merged["coefficients"].as_array().unwrap();
    assert_eq!(rows.len(), 11);
    assert!(rows.iter().all(|row| row["std_error"].as_f64().unwrap() > 0.0), "the intercept has one, too: {rows:?}");
    assert!(printed.contains("nothing readable without noise; masked columns"), "{printed}");
    for role in ["alice", "bob"] {
        let own = report(&out.join(role));
        assert_eq!(own["coefficients"], merged["coefficients"]);
        assert_eq!(own["disclosure"]["declared"], serde_json::json!(["masked columns"]));
        let account = &merged["privacy"][role];
        assert!(account["left"].as_f64().unwrap() < 1e-6);
        let labels: Vec<&str> =
            account["releases"].as_array().unwrap().iter().map(|release| release["label"].as_str().unwrap()).collect();
        assert_eq!(labels, ["X'X", "X'y", "share of the table between the blocks"]);
        let config = out.join(format!("{role}.toml"));
        let planned = demo(&["--role", role, "privacy", "plan", "--config", config.to_str().unwrap()]);
        let (code, plan, said) = told(&planned);
        assert_eq!(code, 0, "{said}");
        assert!(plan.contains("Best by this: ") && plan.contains("share of the table between the blocks"), "{plan}");
    }
    // The ledgers hold what left, and verify.
    let config = out.join("alice.toml");
    let (code, verified, _) =
        told(&demo(&["--role", "alice", "privacy", "verify", "--config", config.to_str().unwrap()]));
    assert!(code == 0 && verified.contains("follow from each other"), "{verified}");
}

/// A run that is charged once: what a check says will leave, the bytes that may be sent after it, and so many stored releases.
fn charged_once(world: &World, leaves: &[&str], bytes: fn(&Value) -> Range<f64>, releases: [usize; 2]) {
    let foretold = ["alice", "bob"].map(|role| {
        let (code, checked, said) = told(&command(world, role, &["check", "--format", "json"]));
        assert_eq!(code, 0, "{said}");
        let checked: Value = serde_json::from_str(&checked).unwrap();
        let what = checked["leaves"].as_array().unwrap().iter().map(|leaving| leaving["what"].as_str().unwrap());
        assert_eq!(what.collect::<Vec<&str>>(), leaves);
        bytes(&checked)
    });
    let ended = world.run(&["--out", "out/alice"], &["--out", "out/bob"]);
    assert_codes(&ended, 0);
    for ((role, foretold), releases) in ["alice", "bob"].into_iter().zip(foretold).zip(releases) {
        let own = report(&world.path(&format!("out/{role}")));
        let sent = own["bytes_sent"].as_f64().unwrap();
        println!("{role}: foretold {foretold:?}, sent {sent}");
        assert!(foretold.contains(&sent), "{role}: foretold {foretold:?}, sent {sent}");
        assert_eq!((count(world, role, "reserved"), count(world, role, "stored")), (1, releases));
    }
    again(world);
    assert_codes(&world.run(&[], &[]), 77);
}

/// Bytes about those that a check foretells, with some fewer and some more.
fn about(checked: &Value, [fewer, more]: [f64; 2]) -> Range<f64> {
    let foretold = checked["predicted_bytes"].as_f64().unwrap();
    (foretold - fewer) / 1.1..(foretold + more) / 0.9
}

#[test]
fn a_run_is_charged_once_and_a_check_foretells_its_bytes() {
    charged_once(
        &world(),
        &["masked columns", "noised statistics", "a noised share"],
        |checked| about(checked, [0.0; 2]),
        [3, 3],
    );
}

/// Starts a run, and kills a party when its ledger has a record like `seen` and it hangs at `event`. What is left: the coordinator with its
/// address, and the other party.
fn killed(world: &World, role: &str, event: &str, seen: &str) -> (Running, String, Running) {
    let own = ledger(world, role);
    hold(&own, event);
    let (coordinator, address) = world.coordinator_with(&["--wait", "60"]);
    let alice = world.alice(&address, &["--out", "out/alice"]);
    let bob = world.bob(&address, &["--out", "out/bob"]);
    eventually(|| records(&own).iter().any(|body| body.contains(seen)).then_some(()));
    // It hangs now, or is about to.
    std::thread::sleep(std::time::Duration::from_millis(300));
    let (mut victim, other) = if role == "alice" { (alice, bob) } else { (bob, alice) };
    victim.child.kill().unwrap();
    victim.child.wait().unwrap();
    let_go(&own);
    (coordinator, address, other)
}

/// When a party is about to store a release.
fn before(index: u32) -> String {
    format!(
        "records WHEN json_extract(NEW.body, '$.kind') = 'stored' AND json_extract(NEW.body, '$.receipt.index') = {index}"
    )
}

#[test]
fn a_party_killed_before_the_masks_goes_on_and_is_charged_once() {
    let world = world();
    let (coordinator, address, alice) = killed(&world, "bob", &before(1), "\"index\":0,");
    let sent = stored(&ledger(&world, "bob"), "sent/%");
    let bob = world.bob(&address, &["--out", "out/bob"]).end();
    assert_codes(&[coordinator.end(), alice.end(), bob], 0);
    assert_eq!([count(&world, "alice", "reserved"), count(&world, "bob", "reserved")], [1, 1]);
    assert_eq!(stored(&ledger(&world, "bob"), "sent/%")[..sent.len()], sent[..], "what was stored has changed");
}

#[test]
fn a_party_killed_behind_its_share_goes_on_with_the_same_bytes() {
    let world = world();
    // Bob's share has come, and cannot be kept.
    let event = "bytes WHEN NEW.name LIKE 'received/%' AND EXISTS (SELECT 1 FROM bytes WHERE name LIKE 'sent/%/2')";
    // Of a receipt: messages that came have numbers, too.
    let (mut coordinator, _, bob) = killed(&world, "alice", event, "\"index\":2,\"label\"");
    let share = stored(&ledger(&world, "alice"), "sent/%/2").remove(0).1;
    // Bob has all that he needs, and cannot know whether she has.
    let bob = bob.end();
    assert_eq!(bob.code, 0, "{}", bob.log);
    coordinator.child.kill().unwrap();
    coordinator.child.wait().unwrap();
    again(&world);
    let next = world.run(&["--out", "out/alice"], &["--out", "out/bob"]);
    assert_codes(&next, 0);
    assert!(next[1].log.contains("was interrupted here; taking it up again"), "{}", next[1].log);
    let [alice, bob] = ["alice", "bob"].map(|role| report(&world.path(&format!("out/{role}"))));
    assert_eq!(alice["coefficients"], bob["coefficients"]);
    assert_eq!([count(&world, "alice", "reserved"), count(&world, "bob", "reserved")], [1, 1]);
    assert_eq!(stored(&ledger(&world, "alice"), "sent/%/2").remove(0).1, share, "what was stored has changed");
    let heard = stored(&ledger(&world, "bob"), "received/%");
    assert!(heard.iter().any(|(_, bytes)| bytes.ends_with(&share)), "bob has other bytes than alice stored");
}

/// Alice's share is stored and known to Bob, whose masks die with him: the charge stays and the run is over for both.
#[test]
fn a_party_that_lost_the_masks_of_a_stored_share_ends_the_run_with_its_charge() {
    let world = world();
    let (mut coordinator, address, alice) = killed(&world, "bob", &before(2), "\"index\":1,");
    let bob = world.bob(&address, &["--wait", "3"]);
    let (alice, bob) = (alice.end(), bob.end());
    assert_eq!((alice.code, bob.code), (69, 69), "{}\n{}", alice.log, bob.log);
    assert!(alice.log.contains("bob was started again and has lost its masks"), "{}", alice.log);
    coordinator.child.kill().unwrap();
    coordinator.child.wait().unwrap();
    again(&world);
    let next = world.run(&[], &[]);
    assert_eq!((next[1].code, next[2].code), (77, 77), "{}\n{}", next[1].log, next[2].log);
    assert!(next[2].log.contains("masks that were lost here"), "{}", next[2].log);
    for role in ["alice", "bob"] {
        assert_eq!((count(&world, role, "reserved"), count(&world, role, "finished")), (1, 1), "{role}");
        assert_eq!(count(&world, role, "stored"), if role == "alice" { 3 } else { 2 });
    }
    // Another run is a new one, for which there is no budget.
    again(&world);
    let none = world.run(&[], &[]);
    assert_codes(&none, 77);
    assert!(none[1].log.contains("is spent") || none[2].log.contains("is spent"), "{}", none[1].log);
}

#[test]
fn a_dealer_that_vanishes_ends_the_run_for_both_and_the_next_start_goes_on_under_the_same_charge() {
    let world = world();
    let own = ledger(&world, "bob");
    delay(&own, &before(1));
    let (mut coordinator, address) = world.coordinator_with(&["--wait", "60"]);
    let waits = ["--wait", "10"];
    let (alice, bob) = (world.alice(&address, &waits), world.bob(&address, &waits));
    eventually(|| records(&own).iter().any(|body| body.contains("\"index\":0,")).then_some(()));
    coordinator.child.kill().unwrap();
    coordinator.child.wait().unwrap();
    let ended = [alice.end(), bob.end()];
    // While a process writes, nobody else can.
    let_go(&own);
    assert!(ended.iter().all(|ended| ended.code == 69), "{:?}", ended.each_ref().map(|ended| (ended.code, &ended.log)));
    again(&world);
    let next = world.run(&["--out", "out/alice"], &["--out", "out/bob"]);
    assert_codes(&next, 0);
    for role in ["alice", "bob"] {
        assert_eq!((count(&world, role, "reserved"), count(&world, role, "stored")), (1, 3), "{role}");
    }
}

/// A table of its own, with an outcome of 0 and 1: a table and two gradients open.
#[test]
fn the_private_demo_fits_a_binomial_model_by_a_table_and_two_gradients() {
    let (shares, outcome) = ("share of the table between the blocks", "X'(2y - 1)");
    let labels = ["X'X", outcome, "X'1", shares, "share of gradient 1", "share of gradient 2"];
    let readmitted = ["binomial", "readmitted", "data/admissions.bounds.toml"];
    fits_by_gradients(readmitted, "both", [labels.to_vec(), labels.to_vec()]);
    let own = "X'(2y - 1) and 1'(y - 1/2)";
    let alone = labels.map(|label| if label == outcome { own } else { label });
    let others = labels.into_iter().filter(|label| *label != outcome).collect();
    fits_by_gradients(readmitted, "alice", [alone.to_vec(), others]);
}

/// The same of counts, which have no standard errors, and text, page and JSON say why.
#[test]
fn the_private_demo_fits_a_poisson_model_by_a_table_and_two_gradients() {
    let (shares, outcome) = ("share of the table between the blocks", "X'(2y/Y - 1)");
    let labels = ["X'X", outcome, "X'1", shares, "share of gradient 1", "share of gradient 2"];
    let visits = ["poisson", "emergency_visits", "data/visits.bounds.toml"];
    fits_by_gradients(visits, "both", [labels.to_vec(), labels.to_vec()]);
    let own = "X'(2y/Y - 1) and 1'(y/Y - 1/2)";
    let alone = labels.map(|label| if label == outcome { own } else { label });
    let others = labels.into_iter().filter(|label| *label != outcome).collect();
    fits_by_gradients(visits, "alice", [alone.to_vec(), others]);
}

fn fits_by_gradients([family, outcome, bounds]: [&str; 3], held_by: &str, expected: [Vec<&str>; 2]) {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let flags = ["vertical", "--mode", "private", "--family", family, "--data", "data/admissions.csv", "--id", "id"];
    let columns = ["--outcome", outcome, "--alice", "age,bmi", "--bob", "systolic,creatinine"];
    let bounds = ["--bounds", bounds, "--epsilon", "3", "--out", out.to_str().unwrap()];
    let (code, printed, said) = told(&demo(&[&flags[..], &columns, &bounds, &["--outcome-at", held_by]].concat()));
    assert_eq!(code, 0, "{said}\n{printed}");
    assert!(printed.contains("and of two gradients, with masked factors of means"), "{printed}");
    let merged = report(&out);
    assert_eq!((merged["nobs"].as_u64(), merged["rounds"].as_u64()), (Some(600), Some(3)));
    assert_eq!(merged["family"], family);
    let rows = merged["coefficients"].as_array().unwrap();
    assert_eq!(rows.len(), 5);
    if family == "poisson" {
        assert!(rows.iter().all(|row| row["estimate"].as_f64().is_some() && row["std_error"].is_null()), "{rows:?}");
        let why = "standard errors and intervals: not computed. Counts, and the means";
        let page = fs::read_to_string(out.join("report.html")).unwrap();
        let notes = merged["notes"].as_array().unwrap();
        assert!(notes.iter().any(|note| note.as_str().unwrap().starts_with(why)), "{notes:?}");
        assert!(
            page.contains(why) && printed.split_whitespace().collect::<Vec<_>>().join(" ").contains(why),
            "{printed}"
        );
    } else {
        assert!(rows.iter().all(|row| row["std_error"].as_f64().unwrap() > 0.0), "{rows:?}");
    }
    for (role, expected) in ["alice", "bob"].into_iter().zip(expected) {
        let own = report(&out.join(role));
        assert_eq!(own["coefficients"], merged["coefficients"]);
        assert_eq!(own["disclosure"]["declared"], serde_json::json!(["masked columns"]));
        let account = &merged["privacy"][role];
        // The whole numbers of gradients leave a little of the budget, and an outcome that is protected a little more.
        let (left, spent) = (account["left"].as_f64().unwrap(), account["charge"].as_f64().unwrap());
        assert!(left >= 0.0 && left < 0.08 * spent, "{left} {spent}");
        assert_eq!(account["not_protected"].as_str().unwrap().contains("the outcome"), held_by == "both");
        let labels: Vec<&str> =
            account["releases"].as_array().unwrap().iter().map(|release| release["label"].as_str().unwrap()).collect();
        assert_eq!(labels, expected);
        let config = out.join(format!("{role}.toml"));
        let planned = demo(&["--role", role, "privacy", "plan", "--config", config.to_str().unwrap()]);
        let (code, plan, said) = told(&planned);
        assert_eq!(code, 0, "{said}");
        assert!(plan.contains("exchange  3, of masked columns") && plan.contains("share of gradient 2"), "{plan}");
        let unit = if family == "poisson" { "log rates" } else { "log odds" };
        assert!(plan.contains(unit) && plan.contains("residual") && plan.contains("not possible"), "{plan}");
    }
}

#[test]
fn the_private_demo_takes_formulas_whose_bounds_follow_and_points_at_those_that_look_at_data() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let run = |alice: &str, bob: &str| {
        let data = ["--data", "data/admissions.csv", "--id", "id", "--outcome", "readmitted", "--family", "binomial"];
        let private = ["--mode", "private", "--bounds", "data/admissions.bounds.toml", "--epsilon", "3"];
        let parties = ["--alice", alice, "--bob", bob, "--out", out.to_str().unwrap()];
        told(&demo(&[&["vertical"][..], &data, &private, &parties].concat()))
    };
    let (code, printed, said) =
        run("~ log(bmi) + I(age^2)", "~ creatinine*smoker + ns(systolic, knots = 130, Boundary.knots = c(80, 220))");
    assert_eq!(code, 0, "{said}\n{printed}");
    let merged = report(&out);
    let terms: Vec<&str> =
        merged["coefficients"].as_array().unwrap().iter().map(|row| row["term"].as_str().unwrap()).collect();
    let spline = "ns(systolic, knots = 130, Boundary.knots = c(80, 220))";
    let expected = [
        "(Intercept)",
        "log(bmi)",
        "I(age^2)",
        "creatinine",
        "smokerTRUE",
        &format!("{spline}1"),
        &format!("{spline}2"),
        "creatinine:smokerTRUE",
    ];
    assert_eq!(terms, expected);
    assert!(merged["coefficients"].as_array().unwrap().iter().all(|row| row["estimate"].as_f64().is_some()));
    for (alice, at, part) in [
        ("~ age + poly(bmi, 2)", 9, "takes its orthogonal basis from the data"),
        ("~ log(bmi - 20)", 3, "`log(bmi - 20)` has no bound"),
    ] {
        let (code, _, said) = run(alice, "systolic");
        assert_eq!(code, 2, "{said}");
        assert!(said.contains("`parties.alice.formula`") && said.contains(part), "{said}");
        assert!(said.contains(&format!("\n  {alice}\n{}^", " ".repeat(at + 1))), "{said}");
    }
}

#[test]
fn the_private_demo_refuses_a_range_of_truth_values_before_anything_is_spent() {
    let folder = tempfile::tempdir().unwrap();
    let (bounds, out) = (folder.path().join("bounds.toml"), folder.path().join("out"));
    let stated = "[columns]\nage = [18, 95]\nsmoker = [0, 1]\nsystolic = [80, 220]\n[outcome]\nreadmitted = [0, 1]\n";
    fs::write(&bounds, stated).unwrap();
    let (code, _, said) = told(&demo(&[
        "vertical",
        "--data",
        "data/admissions.csv",
        "--id",
        "id",
        "--outcome",
        "readmitted",
        "--family",
        "binomial",
        "--mode",
        "private",
        "--epsilon",
        "3",
        "--alice",
        "age",
        "--bob",
        "smoker,systolic",
        "--bounds",
        bounds.to_str().unwrap(),
        "--out",
        out.to_str().unwrap(),
    ]));
    let remedy = "column `smoker` holds truth values, and has a range in place of levels: give [levels] smoker = [\"false\", \"true\"] in --bounds";
    assert!(code == 65 && said.contains(remedy), "{code} {said}");
    assert!(!out.join("report.json").exists());
}

/// A world whose outcome is 0 or 1.
fn binomial(held_by: &str) -> World {
    of_family("binomial", 1, held_by)
}

/// The same of counts up to a largest one, all of which are 0 or 1.
fn of_family(family: &str, largest: u32, held_by: &str) -> World {
    let world = world();
    let study = PRIVATE.replace("range = [-2, 6]", &format!("range = [0, {largest}]"));
    let head = STUDY.replace("column = \"y\"", &format!("column = \"y\"\nheld_by = \"{held_by}\""));
    world.write("study.toml", &format!("mode = \"private\"\n{head}{study}[model]\nfamily = \"{family}\"\n"));
    for (role, name) in [("alice", "a"), ("bob", "b")] {
        let file = format!("{role}.csv");
        let table = fs::read_to_string(world.path(&file)).unwrap();
        let rows = table.lines().skip(1).enumerate().map(|(at, line)| {
            let cells: Vec<&str> = line.split(',').collect();
            let y = if role == "bob" && held_by == "alice" {
                String::new()
            } else {
                format!(",{}", u8::from(at * 7 % 5 < 2))
            };
            format!("{},{}{y}\n", cells[0], cells[1])
        });
        let y = if role == "bob" && held_by == "alice" { "" } else { ",y" };
        world.write(&file, &format!("id,{name}{y}\n{}", rows.collect::<String>()));
    }
    world
}

/// A mean of counts is one product, so that bytes are known.
#[test]
fn a_poisson_run_is_charged_once_and_a_check_foretells_its_bytes() {
    let leaves = ["masked columns", "masked factors of means", "noised statistics", "noised shares"];
    charged_once(&of_family("poisson", 4, "both"), &leaves, |checked| about(checked, [0.0; 2]), [6, 6]);
    charged_once(&of_family("poisson", 4, "alice"), &leaves, |checked| about(checked, [0.0; 2]), [6, 5]);
}

#[test]
fn a_binomial_run_is_charged_once_and_a_check_foretells_its_bytes() {
    let leaves = ["masked columns", "masked factors of means", "noised statistics", "noised shares"];
    // The length of both noised points decides how many factors of each of the forty rows leave: from one to the most that is said.
    let bytes = |checked: &Value| {
        let amount = checked["leaves"][1]["amount"].as_str().unwrap();
        let counts: Vec<f64> = amount.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [usual, most] = [counts[0], counts[1]];
        about(checked, [usual - 1.0, most - usual].map(|factors| 2.0 * 40.0 * 8.0 * factors))
    };
    charged_once(&binomial("both"), &leaves, bytes, [6, 6]);
    charged_once(&binomial("alice"), &leaves, bytes, [6, 5]);
}

/// Alice dies before her share of the first gradient is stored: both begin that exchange anew, and the table stays as it opened.
#[test]
fn a_binomial_run_goes_on_behind_the_table_that_opened_under_the_same_charge() {
    let world = binomial("both");
    let (mut coordinator, address, bob) = killed(&world, "alice", &before(4), "\"index\":3,");
    let share = stored(&ledger(&world, "alice"), "sent/%/3").remove(0).1;
    let alice = world.alice(&address, &["--wait", "3"]);
    let (alice, bob) = (alice.end(), bob.end());
    assert_eq!((alice.code, bob.code), (69, 69), "{}\n{}", alice.log, bob.log);
    coordinator.child.kill().unwrap();
    coordinator.child.wait().unwrap();
    again(&world);
    let next = world.run(&["--out", "out/alice"], &["--out", "out/bob"]);
    assert_codes(&next, 0);
    let [alice, bob] = ["alice", "bob"].map(|role| report(&world.path(&format!("out/{role}"))));
    assert_eq!(alice["coefficients"], bob["coefficients"]);
    for role in ["alice", "bob"] {
        assert_eq!((count(&world, role, "reserved"), count(&world, role, "stored")), (1, 6), "{role}");
    }
    assert_eq!(stored(&ledger(&world, "alice"), "sent/%/3").remove(0).1, share, "what was stored has changed");
}

/// Alice's share of a gradient is stored and known to Bob, whose masks die with him: the charge stays and the run is over for both.
#[test]
fn a_party_that_lost_the_masks_of_a_stored_gradient_ends_the_run_with_its_charge() {
    let world = binomial("both");
    let (mut coordinator, address, alice) = killed(&world, "bob", &before(5), "\"index\":4,");
    let bob = world.bob(&address, &["--wait", "3"]);
    let (alice, bob) = (alice.end(), bob.end());
    coordinator.child.kill().unwrap();
    coordinator.child.wait().unwrap();
    println!("{} {}\n{}\n{}", alice.code, bob.code, alice.log, bob.log);
    again(&world);
    let next = world.run(&[], &[]);
    assert_eq!((next[1].code, next[2].code), (77, 77), "{}\n{}", next[1].log, next[2].log);
    for role in ["alice", "bob"] {
        assert_eq!((count(&world, role, "reserved"), count(&world, role, "finished")), (1, 1), "{role}");
        assert_eq!(count(&world, role, "stored"), if role == "alice" { 6 } else { 5 });
    }
}

#[test]
fn what_has_no_place_is_refused_with_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    for (flags, reason) in [
        (&["--family", "poisson", "--offset", "bmi"][..], "its values have no public bounds"),
        (&["--family", "poisson", "--lambda", "0.1"], "a poisson model takes no penalty"),
        (&["--family", "binomial"], "`columns.progression.range` must be [0, 1]"),
        (&["--family", "binomial", "--lambda", "0.1", "--cv", "5"], "errors of folds"),
        (&["--family", "binomial", "--lambda", "0.1"], "a binomial model takes no penalty"),
        (&["--family", "binomial", "--weights", "bmi"], "one person's weight"),
        (&["--family", "binomial", "--offset", "bmi"], "its values have no public bounds"),
        (&["--tol", "1e-6"], "a stopping rule looks at values without noise"),
        (&["--lambda", "0.1", "--cv", "5"], "errors of folds"),
        (&["--missing", "complete-cases"], "sends which rows are incomplete"),
    ] {
        let own =
            ["vertical", "--mode", "private", "--mechanism", "crossprod", "--out", folder.path().to_str().unwrap()];
        let (code, _, said) = told(&demo(&[&own[..], flags].concat()));
        assert!(code == 2 && said.contains(reason), "{flags:?}: {code} {said}");
    }
    for (more, reason) in [
        ("rounds = 2\n", "`privacy.rounds` has no place"),
        ("clip = 0.5\n", "`privacy.clip` has no place"),
        ("[fit]\ncoefficients = \"own\"\n", "both know all coefficients"),
    ] {
        let world = World::new();
        world.write("study.toml", &format!("mode = \"private\"\n{STUDY}{PRIVATE}{more}"));
        let (code, _, said) = told(&command(&world, "alice", &["check"]));
        assert!(code == 2 && said.contains(reason), "{more}: {code} {said}");
    }
}
