//! Matches by real processes: by tables of record pairs, and the fits that stand on them.

// Test code may unwrap: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod overlap;
mod world;

use std::fs;

use overlap::{
    ALICE, BOB, MATCH, again, alone, by_keys, estimates, fitted, found, joint, json, matched, outcome, study, told,
    value, world,
};
use serde_json::Value;
use world::{World, assert_codes};

/// The plain fit of the common persons, whose rows both tables have under one id.
fn reference() -> Vec<f64> {
    let world = World::new();
    for role in ["alice", "bob"] {
        let mut table = format!("id,{},y\n", &role[..1]);
        for person in BOB.start..ALICE.end {
            table.push_str(&format!("{person:03},{},{}\n", value(person, role), outcome(person)));
        }
        world.write(&format!("{role}.csv"), &table);
    }
    let ended = world.run(&["--format", "json"], &[]);
    assert_codes(&ended, 0);
    estimates(&json(&ended[1]))
}

#[test]
fn a_fit_by_a_table_of_pairs_is_that_of_the_common_rows_in_plain_and_in_sealed_mode() {
    let reference = reference();
    for mode in ["", "mode = \"sealed\""] {
        let world = world(mode, MATCH);
        let ended = matched(&world);
        assert_codes(&ended, 0);
        for (ended, role) in ended[1..].iter().zip(["alice", "bob"]) {
            let found = json(ended);
            assert_eq!((&found["matched"], &found["rows"]), (&140.into(), &200.into()), "{found}");
            let record: Value =
                serde_json::from_slice(&fs::read(world.path(&format!("{role}-state/match/match.json"))).unwrap())
                    .unwrap();
            assert_eq!(record["passes"][0]["matched"], 140);
            let binary = fs::read(world.path(&format!("{role}-state/match/alignment.bin"))).unwrap();
            assert_eq!((&binary[..8], binary.len()), (&b"FRALIGN1"[..], 16 + 4 * 140));
        }
        let order = |role: &str| {
            let text = fs::read_to_string(world.path(&format!("{role}-state/match/match.json"))).unwrap();
            serde_json::from_str::<Value>(&text).unwrap()["order_digest"].clone()
        };
        assert_eq!(order("alice"), order("bob"));
        let ended = fitted(&world);
        assert_codes(&ended, 0);
        for ended in &ended[1..] {
            let report = json(ended);
            assert_eq!(report["nobs"], 140);
            for (ours, theirs) in estimates(&report).iter().zip(&reference) {
                assert!((ours - theirs).abs() <= 1e-7 * theirs.abs().max(1e-3), "{mode}: {ours} {theirs}");
            }
            assert_eq!(report["match"]["matched"], 140, "{mode}");
            let declared = report["disclosure"]["declared"].as_array().unwrap();
            assert!(declared.contains(&"which records both parties have".into()), "{mode}: {declared:?}");
        }
        let text = fs::read_to_string(world.path("out/alice/report.txt")).unwrap();
        assert!(text.contains("Rows that both parties have: 140 (match by linked)"), "{text}");
        assert!(text.contains("bob learnt which 140 of its own rows alice has too"), "{text}");
        let page = fs::read_to_string(world.path("out/alice/report.html")).unwrap();
        assert!(page.contains("Matched rows") && page.contains("140 in both"), "the page draws the overlap");
        // All 200 rows of Alice's, and the 140 of Bob's that she learns of, below each other where both have them.
        let figure = page.split("Rows that both parties have").find(|part| part.contains("140 in both")).unwrap();
        let (figure, _) = figure.split_once("</svg>").unwrap();
        let number = |part: &str, name: &str| -> f64 {
            part.split_once(&format!("{name}=\"")).unwrap().1.split_once('"').unwrap().0.parse().unwrap()
        };
        let bars: Vec<[f64; 2]> = figure
            .split("<rect class=\"bar\"")
            .skip(1)
            .map(|part| [number(part, "x"), number(part, "width")])
            .collect();
        let [[first, width], [second, other]] = bars[..] else { panic!("{figure}") };
        let near = |share: f64, of: f64| (share / width - of / 200.0).abs() < 0.01;
        assert!(near(other, 140.0) && near(second - first, 60.0), "{bars:?}");
    }
}

#[test]
fn a_private_fit_by_a_table_of_pairs_charges_the_whole_data_set() {
    let columns = "[columns.a]\nrange = [-1.5, 1.5]\n[columns.b]\nrange = [-2, 3]\n[columns.y]\nrange = [-2, 4]\n[privacy]\nepsilon = \
                   1.0\ndelta = 1e-5\n";
    let world = world("mode = \"private\"", &format!("{columns}{MATCH}"));
    for role in ["alice", "bob"] {
        let text = format!(
            "[match]\nid = \"own\"\n[privacy]\nanchor = \"anchors/{role}\"\ndata_set = \"cohort\"\ndelta = 1e-5\n"
        );
        world.write(&format!("{role}.toml"), &text);
        let (code, out, said) = told(&alone(&world, role, &["privacy", "init"]));
        assert_eq!(code, 0, "{said}");
        assert!(out.contains("200 persons in 200 rows"), "a budget belongs to all rows of a table: {out}");
    }
    let (code, _, said) = told(&alone(&world, "alice", &["fit"]));
    assert_eq!(code, 2, "{said}");
    assert_codes(&matched(&world), 0);
    let ended = fitted(&world);
    assert_codes(&ended, 0);
    let report = json(&ended[1]);
    assert_eq!((&report["nobs"], &report["match"]["matched"]), (&140.into(), &140.into()));
    assert!(
        report["disclosure"]["declared"].as_array().unwrap().contains(&"which records both parties have".into()),
        "{report}"
    );
    let (code, out, _) = told(&alone(&world, "alice", &["privacy", "status", "--format", "json"]));
    let status: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &status[0]["persons"], status.as_array().unwrap().len()), (0, &200.into(), 1), "{status}");
    assert!(status[0]["sum"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_fit_without_a_match_names_the_missing_command_and_a_match_that_does_not_belong_is_refused() {
    let world = world("", MATCH);
    let (code, _, said) = told(&alone(&world, "alice", &["fit"]));
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("run `alice match` here and `bob match` there before `fit`"), "{said}");
    let (code, _, said) = told(&alone(&world, "bob", &["match"]));
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("`match.pairs` is missing"), "{said}");
    assert_codes(&matched(&world), 0);
    let state = |role: &str, name: &str| world.path(&format!("{role}-state/match/{name}"));
    let whole = ["match.json", "alignment.bin"].map(|name| (name, fs::read(state("alice", name)).unwrap()));
    let restore = || whole.iter().for_each(|(name, bytes)| fs::write(state("alice", name), bytes).unwrap());
    let check = |role: &str| {
        let (code, _, said) = told(&alone(&world, role, &["check"]));
        (code, said)
    };
    assert_eq!(check("alice").0, 0);
    // The other party's.
    fs::copy(state("bob", "match.json"), state("alice", "match.json")).unwrap();
    let (code, said) = check("alice");
    assert!(code == 77 && said.contains("another party, expected alice"), "{code} {said}");
    restore();
    fs::copy(state("bob", "alignment.bin"), state("alice", "alignment.bin")).unwrap();
    let (code, said) = check("alice");
    assert!(code == 65 && said.contains("match again"), "{code} {said}");
    restore();
    // Another formula needs no new match, another id of the study does.
    let text = study("", MATCH);
    world.write("study.toml", &format!("{text}[fit]\ntol = 1e-6\n"));
    assert_eq!(check("alice").0, 0);
    world.write("study.toml", &text.replace("\"world\"", "\"other\""));
    let (code, said) = check("alice");
    assert!(code == 77 && said.contains("another study"), "{code} {said}");
    world.write("study.toml", &text);
    // A changed cell.
    let table = fs::read_to_string(world.path("alice.csv")).unwrap();
    world.write("alice.csv", &table.replacen("a-007", "a-707", 1));
    let (code, said) = check("alice");
    assert!(code == 65 && said.contains("the data file has changed since the match: match again"), "{code} {said}");
    world.write("alice.csv", &table);
    assert_eq!(check("alice").0, 0);
    // Both have a match, of different runs.
    let first = fs::read(state("bob", "match.json")).unwrap();
    let binary = fs::read(state("bob", "alignment.bin")).unwrap();
    assert_codes(&matched(&world), 0);
    fs::write(state("bob", "match.json"), first).unwrap();
    fs::write(state("bob", "alignment.bin"), binary).unwrap();
    let ended = fitted(&world);
    assert_codes(&ended, 76);
    let said = ended.iter().map(|ended| ended.log.as_str()).collect::<String>();
    assert!(said.contains("the matches of both parties must be of one run"), "{said}");
}

#[test]
fn too_few_pairs_and_tables_that_differ_end_a_match_and_leave_none() {
    let ends = |change: &dyn Fn(&World), code: i32, words: &str| {
        let world = world("", MATCH);
        change(&world);
        let ended = matched(&world);
        assert_codes(&ended, code);
        let said = ended.iter().map(|ended| ended.log.as_str()).collect::<String>();
        assert!(said.contains(words), "{words}: {said}");
        for role in ["alice", "bob"] {
            assert!(!world.path(&format!("{role}-state/match/match.json")).exists());
        }
    };
    let cut = |world: &World, role: &str, rows: usize| {
        let name = format!("{role}-pairs.csv");
        let text = fs::read_to_string(world.path(&name)).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        // Of both tables the same pairs.
        let mut kept = lines[1..].to_vec();
        kept.sort_by_key(|line| line.split_once(',').unwrap().1.to_string());
        world.write(&name, &format!("{}\n{}\n", lines[0], kept[..rows].join("\n")));
    };
    ends(
        &|world| ["alice", "bob"].iter().for_each(|role| cut(world, role, 49)),
        77,
        "fewer rows match than the 50 that must",
    );
    ends(&|world| cut(world, "bob", 139), 65, "have other numbers of pairs; both must come from the same linkage");
    ends(
        &|world| {
            let text = fs::read_to_string(world.path("bob-pairs.csv")).unwrap();
            world.write("bob-pairs.csv", &text.replacen(",p8", ",q8", 1));
        },
        65,
        "both have 140 pairs, but not the same ones",
    );
    ends(
        &|world| world.write("bob.toml", "[match]\nid = \"own\"\n[policy]\nmin_matched = 141\n"),
        77,
        "than the 141 that must",
    );
}

#[test]
fn tables_of_pairs_that_cannot_be_used_are_refused_with_their_line() {
    let world = world("", MATCH);
    let look = |pairs: &str| {
        world.write("odd.csv", pairs);
        let (code, _, said) = told(&alone(&world, "alice", &["match", "--dry-run", "--pairs", "odd.csv"]));
        assert_eq!(code, 65, "{pairs}: {said}");
        said
    };
    for (pairs, words) in [
        ("own_id,pair\na-001,p\n", "there is no column `pair_id`; the nearest name is `pair`"),
        ("own_id,pair_id\na-999,p\n", "names the record `a-999`, which the data do not have"),
        ("own_id,pair_id\na-001,p\na-001,q\n", "has the record `a-001` in rows 1 and 2"),
        ("own_id,pair_id\na-001,p\na-002,p\n", "has the pair `p` in rows 1 and 2"),
        ("own_id,pair_id\na-001,\n", "the row has no id"),
        ("own_id,pair_id\n", "no rows"),
    ] {
        let said = look(pairs);
        assert!(said.contains(words), "{pairs}: {said}");
    }
    let (code, out, said) = told(&alone(&world, "alice", &["match", "--dry-run", "--pairs", "alice-pairs.csv"]));
    assert_eq!(code, 0, "{said}");
    assert!(out.contains("pairs          140") && out.contains("nothing has left"), "{out}");
    // Quoted headers, quoted cells and a blank line at the end change nothing.
    let text = fs::read_to_string(world.path("alice-pairs.csv")).unwrap();
    let quoted: Vec<String> = text.lines().map(|line| format!("\"{}\"", line.replace(',', "\",\""))).collect();
    world.write("quoted.csv", &(quoted.join("\r\n") + "\r\n\r\n"));
    let (code, out, said) = told(&alone(&world, "alice", &["match", "--dry-run", "--pairs", "quoted.csv"]));
    assert!(code == 0 && out.contains("pairs          140"), "{said} {out}");
}

#[test]
fn a_data_set_is_matched_with_one_peer_a_few_times_only() {
    let world = world("", MATCH);
    world.write("alice.toml", "[match]\nid = \"own\"\n[policy]\nmax_matches = 1\n");
    assert_codes(&matched(&world), 0);
    let (code, _, said) = told(&alone(&world, "alice", &["match", "--pairs", "alice-pairs.csv"]));
    assert_eq!(code, 77, "{said}");
    assert!(said.contains("was matched with bob 1 times, and 1 are allowed (policy.max_matches)"), "{said}");
    let (_, out, _) =
        told(&alone(&world, "bob", &["match", "--dry-run", "--pairs", "bob-pairs.csv", "--format", "json"]));
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap()["matches_left"], 4, "{out}");
}

#[test]
fn a_study_that_says_so_is_matched_by_its_fit() {
    let world = world("", &format!("{MATCH}run = \"auto\"\n"));
    // Two runs behind each other at one address.
    let free = world::free_address();
    let (coordinator, address) = world.coordinator_with(&["--wait", "60", "--keep"]);
    let start = |role: &str, line: [&str; 2]| {
        let words = [
            "fit",
            "--coordinator",
            &address,
            "--config",
            &format!("{role}.toml"),
            line[0],
            line[1],
            "--format",
            "json",
        ];
        let files = ["--data", &format!("{role}.csv"), "--pairs", &format!("{role}-pairs.csv")];
        world.start(role, &[&words[..], &files].concat())
    };
    let alice = start("alice", ["--listen", &free]);
    let bob = start("bob", ["--connect", &free]);
    for ended in [alice.end(), bob.end()] {
        assert_eq!(ended.code, 0, "{}", ended.log);
        assert_eq!(json(&ended)["match"]["matched"], 140);
        assert!(ended.log.contains("matching first"), "{}", ended.log);
    }
    drop(coordinator);
}

#[test]
fn new_rows_are_scored_by_a_match_of_their_own() {
    let world = world("", &format!("{MATCH}min_matched_predict = 2\n"));
    assert_codes(&matched(&world), 0);
    assert_codes(&fitted(&world), 0);
    world.write("alice_new.csv", "own,a,y\nx1,0.5,0\nx2,-0.5,0\nx3,0.25,0\n");
    world.write("bob_new.csv", "own,b,y\nz9,1,0\nz3,2,0\n");
    world.write("alice-new-pairs.csv", "own_id,pair_id\nx3,p\nx1,q\n");
    world.write("bob-new-pairs.csv", "own_id,pair_id\nz3,q\nz9,p\n");
    let new =
        |role: &str| [format!("{role}_new.csv"), format!("{role}-new-pairs.csv"), format!("out/{role}/model.json")];
    let ([a, ap, am], [b, bp, bm]) = (new("alice"), new("bob"));
    let predict = || joint(&world, &["predict"], &["--data", &a, "--model", &am], &["--data", &b, "--model", &bm]);
    again(&world);
    let (code, _, said) = told(&alone(&world, "alice", &["predict", "--model", &am]));
    assert!(code == 2 && said.contains("run `alice match --purpose predict` here"), "{code} {said}");
    let words = ["match", "--purpose", "predict"];
    assert_codes(&joint(&world, &words, &["--data", &a, "--pairs", &ap], &["--data", &b, "--pairs", &bp]), 0);
    let ended = predict();
    assert_codes(&ended, 0);
    let model: Value = serde_json::from_slice(&fs::read(world.path(&am)).unwrap()).unwrap();
    let of_bob: Value = serde_json::from_slice(&fs::read(world.path(&bm)).unwrap()).unwrap();
    let (intercept, slope) = (model["intercept"].as_f64().unwrap(), model["terms"][0][1].as_f64().unwrap());
    let other = of_bob["intercept"].as_f64().unwrap();
    let slope_of_bob = of_bob["terms"][0][1].as_f64().unwrap();
    let lines: Vec<&str> = ended[1].out.lines().collect();
    assert_eq!(lines[0], "own,response");
    for (line, (id, a, b)) in lines[1..].iter().zip([("x3", 0.25, 1.0), ("x1", 0.5, 2.0)]) {
        let (own, score) = line.split_once(',').unwrap();
        let expected = intercept + slope * a + other + slope_of_bob * b;
        assert_eq!(own, id);
        assert!((score.parse::<f64>().unwrap() - expected).abs() < 1e-9, "{line} {expected}");
    }
    assert_eq!(lines.len(), 3);
    // The match of the fit is none for new rows.
    let fit = ["--match", "alice-state/match"];
    let (code, _, said) = told(&alone(&world, "alice", &[&["predict", "--model", &am][..], &fit].concat()));
    assert!(code == 77 && said.contains("another purpose, expected predict"), "{code} {said}");
}

#[test]
fn a_fit_by_keys_is_that_of_the_common_rows_in_every_mode() {
    let reference = reference();
    let private = "[columns.a]\nrange = [-1.5, 1.5]\n[columns.b]\nrange = [-2, 3]\n[columns.y]\nrange = [-2, 4]\n[privacy]\nepsilon = \
                   1.0\ndelta = 1e-5\n";
    for (mode, more) in [("", ""), ("mode = \"sealed\"", ""), ("mode = \"private\"", private)] {
        let world = by_keys(mode, more);
        if !more.is_empty() {
            for role in ["alice", "bob"] {
                let text = fs::read_to_string(world.path(&format!("{role}.toml"))).unwrap();
                world.write(
                    &format!("{role}.toml"),
                    &format!("{text}[privacy]\nanchor = \"anchors/{role}\"\ndelta = 1e-5\n"),
                );
                assert_eq!(told(&alone(&world, role, &["privacy", "init"])).0, 0);
            }
        }
        let ended = found(&world);
        assert_codes(&ended, 0);
        let [alice, bob] = [&ended[1], &ended[2]].map(json);
        assert_eq!((&alice["matched"], &bob["matched"]), (&140.into(), &140.into()), "{alice}");
        let passes = alice["passes"].as_array().unwrap();
        let by_pid = (BOB.start..ALICE.end).filter(|person| person % 5 != 0 && person % 7 != 0).count();
        assert_eq!((&passes[0]["matched"], &passes[1]["matched"]), (&by_pid.into(), &(140 - by_pid).into()), "{alice}");
        assert_eq!(bob["passes"][0]["own_missing"], 40, "{bob}");
        assert_eq!(alice["passes"][0]["peer_eligible"], 160, "{alice}");
        let ended = fitted(&world);
        assert_codes(&ended, 0);
        let report = json(&ended[1]);
        assert_eq!(report["nobs"], 140);
        assert_eq!(report["match"]["passes"], alice["passes"]);
        let notes = report["notes"].to_string();
        assert_eq!(
            notes.contains("declared and not protected: which rows matched"),
            !more.is_empty(),
            "{mode}: {notes}"
        );
        if more.is_empty() {
            for (ours, theirs) in estimates(&report).iter().zip(&reference) {
                assert!((ours - theirs).abs() <= 1e-7 * theirs.abs().max(1e-3), "{mode}: {ours} {theirs}");
            }
        }
    }
}

#[test]
fn a_look_shows_what_would_take_part_and_what_cannot() {
    let world = by_keys("", "");
    let (code, out, said) = told(&alone(&world, "alice", &["match", "--dry-run", "--format", "json"]));
    assert_eq!(code, 0, "{said}");
    let look: Value = serde_json::from_str(&out).unwrap();
    let pass = &look["passes"][0];
    assert_eq!(
        (&pass["eligible"], &pass["ambiguous"], &pass["expected_false_links"]),
        (&200.into(), &0.into(), &0.0.into())
    );
    let surname = look["keys"].as_array().unwrap().iter().find(|key| key["name"] == "surname").unwrap();
    assert!(
        surname["examples"].as_array().unwrap().iter().all(|name| !name.as_str().unwrap().contains('ü')),
        "{surname}"
    );
    let (code, out, _) = told(&alone(&world, "bob", &["check"]));
    assert_eq!(code, 0);
    assert!(out.contains("Pass pid: 160 rows take part; 0 ambiguous, 40 missing, 0 invalid"), "{out}");
    assert!(
        out.contains("if alice has 500 rows, the most that the study allows (match.max_rows), and knows nobody"),
        "{out}"
    );
    // Values that cannot be used are named with their place, and counted.
    let table = fs::read_to_string(world.path("alice.csv")).unwrap();
    let odd = table.replacen(".1940", ".40", 1).replacen("\"0150\"", "99999999999", 1).replacen(",w,", ",x,", 1);
    world.write("alice.csv", &odd.replacen(".1941", ".1841", 1).replacen("05.05.", "31.02.", 1));
    let (code, out, _) = told(&alone(&world, "alice", &["match", "--dry-run"]));
    assert_eq!(code, 0);
    for words in [
        "Key birth (date): 0 missing, 3 invalid",
        "Key pid (identifier): 0 missing, 1 invalid",
        "`99999999999` in row",
        "Key sex (code): 0 missing, 1 invalid",
        "the first that cannot be used is `x` in row",
    ] {
        assert!(out.contains(words), "{words}: {out}");
    }
}

#[test]
fn keys_that_cannot_be_used_end_a_match_with_their_code() {
    let refuse = |change: &dyn Fn(&World), code: i32, words: &str| {
        let world = by_keys("", "");
        change(&world);
        let (came, _, said) = told(&alone(&world, "alice", &["match", "--dry-run"]));
        assert_eq!(came, code, "{words}: {said}");
        assert!(said.contains(words), "{words}: {said}");
    };
    let edit = |name: &'static str, from: &'static str, to: &'static str| {
        move |world: &World| {
            let text = fs::read_to_string(world.path(name)).unwrap();
            assert!(text.contains(from), "{from}");
            world.write(name, &text.replacen(from, to, 1));
        }
    };
    refuse(&edit("alice.toml", "%d.%m.%Y", "%d.%m.%y"), 2, "years of two digits");
    refuse(&edit("alice.toml", "pid = ", "pod = "), 2, "names `pod`, which is no key of the study");
    refuse(&edit("alice.toml", "pid = \"Versichertennummer\"\n", ""), 2, "lacks the key `pid` of the study");
    refuse(
        &edit("alice.toml", "{ column = \"geboren\", format = \"%d.%m.%Y\" }", "\"geboren\""),
        2,
        "needs the format of the date `birth`",
    );
    refuse(&edit("alice.toml", "w = \"f\"", "w = \"d\""), 65, "`d`, which is no level of the study");
    refuse(
        &edit("alice.toml", "Nachname", "Nachnahme"),
        65,
        "there is no column `Nachnahme`; the nearest name is `Nachname`",
    );
    // A number as two persons' identifier.
    refuse(&edit("alice.csv", "\"0007\"", "\"0008\""), 65, "pass `pid`: 2 records share their key with another record");
    let more = |world: &World| {
        let text = fs::read_to_string(world.path("study.toml")).unwrap();
        world.write("study.toml", &text.replace("bob = 300", "bob = 100"));
    };
    // Disjoint tables, too few common rows for a party, and a table that is too large.
    let joint = |change: &dyn Fn(&World), words: &str| {
        let world = by_keys("", "");
        change(&world);
        let ended = found(&world);
        assert_codes(&ended, 77);
        let said = ended.iter().map(|ended| ended.log.as_str()).collect::<String>();
        assert!(said.contains(words), "{words}: {said}");
        assert!(
            !world.path("alice-state/match/match.json").exists() && !world.path("bob-state/match/match.json").exists()
        );
    };
    joint(&more, "than `match.max_rows`");
    joint(
        &|world| edit("bob.toml", "[match.columns]", "[policy]\nmin_matched = 120\n[match.columns]")(world),
        "nothing was revealed",
    );
    joint(
        &|world| edit("bob.toml", "[match.columns]", "[policy]\nmax_peer_rows = 199\n[match.columns]")(world),
        "`max_peer_rows` of bob",
    );
    joint(
        &|world| {
            let text = fs::read_to_string(world.path("bob.csv")).unwrap();
            let lines: Vec<String> =
                text.lines().map(|line| line.replacen("00", "55", 1).replacen("01", "66", 1)).collect();
            world.write("bob.csv", &(lines.join("\n") + "\n"));
        },
        "nothing was revealed",
    );
}

#[test]
fn a_model_column_that_is_a_key_is_refused_in_private_mode_unless_the_study_lists_it() {
    let private = "[columns.a]\nrange = [-1.5, 1.5]\n[columns.b]\nrange = [-2, 3]\n[columns.y]\nrange = [-2, 4]\n[privacy]\nepsilon = \
                   1.0\ndelta = 1e-5\n";
    let world = by_keys("mode = \"private\"", private);
    let text = fs::read_to_string(world.path("alice.toml")).unwrap();
    world.write("alice.toml", &text.replace("\"Versichertennummer\"", "\"a\""));
    let (code, _, said) = told(&alone(&world, "alice", &["match", "--dry-run"]));
    assert_eq!(code, 77, "{said}");
    assert!(said.contains("column `a` of alice is the key `pid` and a column of the model"), "{said}");
    let study = fs::read_to_string(world.path("study.toml")).unwrap();
    world.write("study.toml", &study.replace("min_matched = 50", "min_matched = 50\n    reused = [\"pid\"]"));
    let (_, _, said) = told(&alone(&world, "alice", &["match", "--dry-run"]));
    assert!(!said.contains("is the key `pid` and a column of the model"), "{said}");
}

#[test]
fn a_rehearsal_matches_the_shipped_tables_and_a_pair_of_ones_own_by_one_column() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let rehearse = |more: &[&str]| {
        let output = world::demo(&[&["vertical", "--out", out.to_str().unwrap(), "--format", "json"], more].concat());
        let (code, printed, said) = told(&output);
        assert_eq!(code, 0, "{more:?}: {said}");
        serde_json::from_str::<Value>(&printed).unwrap()
    };
    let plain = rehearse(&["--match"]);
    let matched = plain["nobs"].as_u64().unwrap();
    // All of 3800 but those with errors in both keys.
    assert!((3750..3800).contains(&matched), "{matched}");
    for (role, rows) in [("alice", 5000), ("bob", 5000)] {
        assert_eq!((&plain["match"][role]["matched"], &plain["match"][role]["rows"]), (&matched.into(), &rows.into()));
    }
    assert_eq!(plain["match"]["alice"]["passes"][1]["own_ambiguous"], 60, "thirty stand in the hospital's table twice");
    let sealed = rehearse(&["--match", "--mode", "sealed"]);
    for (ours, theirs) in estimates(&sealed).iter().zip(estimates(&plain)) {
        assert!((ours - theirs).abs() <= 1e-6 * theirs.abs().max(1e-3), "{ours} {theirs}");
    }
    let private = rehearse(&["--match", "--mode", "private", "--epsilon", "3"]);
    assert_eq!(private["nobs"], matched);
    assert_eq!(private["match"]["bob"]["matched"], matched);
    // Two tables of one's own, by a column that both have.
    let [mut a, mut b] = [String::from("nr,x,y\n"), String::from("z,nr\n")];
    for row in 0..300 {
        let t = f64::from(row);
        a.push_str(&format!("{row:04},{},{}\n", (0.7 * t).cos(), (0.3 * t).sin()));
        b.push_str(&format!("{},{:04}\n", (1.9 * t).cos(), 299 + 100 - row));
    }
    let [first, second] = [("a.csv", a), ("b.csv", b)].map(|(name, text)| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    });
    let own = rehearse(&["--match", "nr", "--alice-data", &first, "--bob-data", &second, "--outcome", "y"]);
    assert_eq!(own["nobs"], 200);
    let refused = world::demo(&["vertical", "--match", "nr", "--alice-data", &first, "--outcome", "y"]);
    assert_eq!(refused.status.code(), Some(2));
    let unknown =
        world::demo(&["vertical", "--match", "n", "--alice-data", &first, "--bob-data", &second, "--outcome", "y"]);
    assert_eq!(unknown.status.code(), Some(65));
}
