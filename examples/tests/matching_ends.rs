//! How matches end by real processes: what cannot be matched, with its exit code, and what became of a party that was killed.
//!
//! The inputs of which a match has to make nothing wrong, and where each is tested; `keys` stands for `tests/matching.rs`, `unit` for the
//! tests beside the code (`common/src/data/matching`, `common/src/methods/vertical/matching/tests`), `here` for this file.
//!
//! | input | where |
//! | --- | --- |
//! | a missing part of a key; a word that stands for a missing value | unit `records`; keys `a_fit_by_keys`, here `odd_cells` |
//! | 31 February, a year of two digits, an unmapped code, an identifier of another length | keys `a_look_shows`; unit `normalise`, `reading` |
//! | `007` and `7`, an accent in two characters | here `odd_cells`; unit `normalise` |
//! | a quoted header, a comma within quotes, a blank line at the end | here `odd_cells`; keys `tables_of_pairs_that` |
//! | repeats in the first pass | keys `keys_that_cannot_be_used` |
//! | no row and one row that takes part | here `no_row_and_one_row`; unit `empty_tables` |
//! | more rows than allowed, here or there; no common row | keys `keys_that_cannot_be_used` |
//! | a peer with ten thousand times as many rows | here `a_peer_with_ten_thousand_times` |
//! | another file at the fit, files of two matches mixed, another study or purpose | here `a_match_that_does_not_belong`; keys `a_fit_without_a_match` |
//! | other rules of normalisation, another version of Unicode | unit `hostile` |
//! | elements that are none, lists out of order or cut, sizes of 2^63, counts that differ, repeated positions, an echo | unit `hostile` |
//! | silence in a long phase | `party/src/drive/tests.rs` |

// Test code may unwrap: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod overlap;
mod world;

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::Ordering;

use overlap::{ALICE, BOB, MATCH, again, alone, by_itself, by_keys, fitted, found, joint, json, told};
use serde_json::Value;
use world::spoiler::{self, Fault, Spoil};
use world::{Running, World, assert_codes};

fn edit(world: &World, name: &str, from: &str, to: &str) {
    let text = fs::read_to_string(world.path(name)).unwrap();
    assert!(text.contains(from), "{from}");
    world.write(name, &text.replacen(from, to, 1));
}

fn count(variable: &str, default: usize) -> usize {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Lines of a file of the state folder.
fn lines(world: &World, name: &str) -> Vec<String> {
    let text = fs::read_to_string(world.path(name)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn record(world: &World, role: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(world.path(&format!("{role}-state/match/match.json"))).unwrap()).unwrap()
}

/// Bytes of messages that a party has let leave in its last run.
fn sent(world: &World, role: &str) -> u64 {
    let last = lines(world, &format!("{role}-state/runs.jsonl")).pop().unwrap();
    serde_json::from_str::<Value>(&last).unwrap()["bytes_sent"].as_u64().unwrap()
}

/// That a party has no match and knows of none.
fn assert_none(world: &World) {
    for role in ["alice", "bob"] {
        assert!(!world.path(&format!("{role}-state/match/match.json")).exists(), "{role}");
        assert!(!world.path(&format!("{role}-state/match-run.bin")).exists(), "{role}");
    }
}

/// A world of one pass by `pid`, with these rows of the parties.
fn by_pid(rows: [&str; 2], more: &str) -> World {
    let world = by_keys("", "");
    let study = fs::read_to_string(world.path("study.toml")).unwrap();
    let (head, _) = study.split_once("[match]").unwrap();
    world.write(
        "study.toml",
        &format!(
            "{head}[match]\nmembership = \"disclosed\"\nmin_matched = 1\n{more}\n[match.keys]\npid = {{ kind = \"identifier\" }}\n\
             [[match.pass]]\nname = \"pid\"\nkeys = [\"pid\"]\n"
        ),
    );
    for (role, rows) in ["alice", "bob"].into_iter().zip(rows) {
        world.write(&format!("{role}.csv"), &format!("pid,{},y\n{rows}", &role[..1]));
        world.write(&format!("{role}.toml"), "[match.columns]\npid = \"pid\"\n");
    }
    world
}

const MOST: &str = "max_rows = { alice = 20000, bob = 20000 }";

#[test]
fn no_row_and_one_row_that_take_part_end_as_any_other_number() {
    for (alice, bob, code) in [
        // Nobody has a value; one has; one each, of other persons; one each, of one person.
        (",1,1\nNA,2,2\n", ",1,1\n", 77),
        (",1,1\n", "7,1,1\n8,2,2\n", 77),
        ("7,1,1\n", "8,2,2\n", 77),
        ("7,1,1\n", "8,2,2\n7,3,3\n", 0),
    ] {
        let world = by_pid([alice, bob], MOST);
        let ended = found(&world);
        assert_codes(&ended, code);
        match code {
            0 => assert_eq!((&json(&ended[1])["matched"], &json(&ended[2])["matched"]), (&1.into(), &1.into())),
            _ => {
                assert_none(&world);
                assert!(ended[1].out.is_empty() && ended[2].out.is_empty(), "{}{}", ended[1].out, ended[2].out);
                // One proof for each, and nothing of a list of positions.
                assert!(ended[1].log.contains("nothing was revealed"), "{}", ended[1].log);
            }
        }
    }
}

#[test]
fn a_peer_with_ten_thousand_times_as_many_rows_is_refused_before_a_list_leaves_or_matched_if_allowed() {
    let many: String = (0..20_000).map(|row| format!("k{row},1,1\n")).collect();
    let world = by_pid(["k7,1,1\nk19999,2,2\n", &many], MOST);
    let ended = found(&world);
    assert_codes(&ended, 0);
    assert_eq!(
        (&json(&ended[1])["matched"], &json(&ended[1])["passes"][0]["peer_eligible"]),
        (&2.into(), &20_000.into())
    );
    let text = fs::read_to_string(world.path("alice.toml")).unwrap();
    world.write("alice.toml", &format!("[policy]\nmax_peer_rows = 19999\n{text}"));
    let before = record(&world, "alice");
    let ended = found(&world);
    assert_codes(&ended, 77);
    assert!(ended[1].log.contains("bob has a longer list than `max_peer_rows` of alice allows"), "{}", ended[1].log);
    // Greetings, rules and sizes; the list alone has 640,000 bytes.
    for role in ["alice", "bob"] {
        assert!(sent(&world, role) < 10_000, "{role}: {}", sent(&world, role));
    }
    assert_eq!(record(&world, "alice"), before, "the match before stays");
}

#[test]
fn odd_cells_are_matched_as_what_they_mean_or_not_at_all() {
    let rows = |cells: &[&str]| cells.iter().map(|cell| format!("{cell},1,1\n")).collect::<String>();
    // Leading zeros tell persons apart; signs, spaces, case and how an accent is written do not.
    let alice = rows(&["007", "ab-1", "\"c,2\"", "e\u{301}9", "", "99999999999", "alone"]) + "\n\n";
    let bob = rows(&["7", " AB 1 ", "C2", "\u{e9}9", "NA", "99999999999", "other"]);
    let world = by_pid([&alice, &bob], MOST);
    for role in ["alice", "bob"] {
        edit(&world, &format!("{role}.csv"), "pid,", "\"pid\",");
        let text = fs::read_to_string(world.path(&format!("{role}.toml"))).unwrap();
        world.write(&format!("{role}.toml"), &format!("{text}[match.missing]\nvalues = [\"99999999999\"]\n"));
    }
    let ended = found(&world);
    assert_codes(&ended, 0);
    let pass = &json(&ended[1])["passes"][0];
    assert_eq!(
        (&pass["matched"], &pass["own_eligible"], &pass["own_missing"]),
        (&3.into(), &5.into(), &2.into()),
        "{pass}"
    );
    let mut pairs: Vec<[u32; 2]> =
        order(&world, "alice").into_iter().zip(order(&world, "bob")).map(|(a, b)| [a, b]).collect();
    pairs.sort_unstable();
    assert_eq!(pairs, [[1, 1], [2, 2], [3, 3]]);
}

/// The records of a match, in its order.
fn order(world: &World, role: &str) -> Vec<u32> {
    let bytes = fs::read(world.path(&format!("{role}-state/match/alignment.bin"))).unwrap();
    bytes[16..].chunks(4).map(|number| u32::from_le_bytes(number.try_into().unwrap())).collect()
}

#[test]
fn a_capacity_stands_in_the_reports_of_the_other_party_in_place_of_its_rows() {
    let world = by_keys("", "");
    edit(&world, "study.toml", "min_matched = 50", "min_matched = 50\n    capacity = { alice = 230, bob = 290 }");
    let ended = found(&world);
    assert_codes(&ended, 0);
    let by_pid = (BOB.start..ALICE.end).filter(|person| person % 5 != 0 && person % 7 != 0).count();
    for (at, own, [first, hidden]) in [(1, 200, [290, 200]), (2, 160, [230, 200])] {
        let found = json(&ended[at]);
        let passes = &found["passes"];
        assert_eq!((&found["matched"], &passes[0]["own_eligible"]), (&140.into(), &own.into()), "{found}");
        assert_eq!(passes[0]["peer_eligible"], first, "{found}");
        assert_eq!(passes[1]["peer_eligible"], first - by_pid, "{found}");
        // Nowhere else either: not on the terminal, and not in what is kept.
        let kept = record(&world, ["", "alice", "bob"][at]).to_string();
        let peer = if at == 1 { 160 } else { hidden };
        for text in [&kept, &ended[at].log] {
            assert!(!text.contains(&format!("\"peer_eligible\":{peer}")), "{text}");
        }
    }
    // Both lists are as long as the capacities: 32 bytes for each own entry, 16 for each of the peer's.
    for (role, least) in [("alice", 32 * 230 + 16 * 290), ("bob", 32 * 290 + 16 * 230)] {
        assert!(sent(&world, role) > least, "{role}: {}", sent(&world, role));
    }
    // A table that has more than its capacity is refused, before anybody is told.
    edit(&world, "study.toml", "bob = 290", "bob = 159");
    let (code, _, said) = told(&alone(&world, "bob", &["match", "--wait", "1"]));
    assert_eq!(code, 69, "{said}");
    let ended = found(&world);
    assert_codes(&ended, 77);
    assert!(ended[2].log.contains("than `match.capacity` allows"), "{}", ended[2].log);
}

#[test]
fn a_match_that_does_not_belong_is_refused_by_the_command_that_would_use_it() {
    let world = by_keys("", "");
    assert_codes(&found(&world), 0);
    assert_codes(&fitted(&world), 0);
    // Another file at the fit: both end so.
    let table = fs::read_to_string(world.path("bob.csv")).unwrap();
    world.write("bob.csv", &format!("{table}\n"));
    let ended = fitted(&world);
    assert_codes(&ended, 65);
    assert!(ended[2].log.contains("match again"), "{}", ended[2].log);
    world.write("bob.csv", &table);
    // The files of one party in the folder of the other.
    let files = ["match.json", "alignment.bin"];
    let place = |role: &str, name: &str| world.path(&format!("{role}-state/match/{name}"));
    let own = files.map(|name| fs::read(place("alice", name)).unwrap());
    let swap = |names: &[&str]| {
        names.iter().for_each(|name| {
            fs::copy(place("bob", name), place("alice", name)).unwrap();
        })
    };
    let restore = || files.iter().zip(&own).for_each(|(name, bytes)| fs::write(place("alice", name), bytes).unwrap());
    swap(&files);
    let (code, _, said) = told(&alone(&world, "alice", &["fit"]));
    assert!(code == 77 && said.contains("another party, expected alice"), "{code} {said}");
    restore();
    swap(&["alignment.bin"]);
    let ended = fitted(&world);
    assert_codes(&ended, 65);
    assert!(ended[1].log.contains("match again"), "{}", ended[1].log);
    restore();
    // Another study.
    edit(&world, "study.toml", "\"world\"", "\"other\"");
    let (code, _, said) = told(&alone(&world, "alice", &["fit"]));
    assert!(code == 77 && said.contains("another study"), "{code} {said}");
    edit(&world, "study.toml", "\"other\"", "\"world\"");
    // One matches the rows of a fit and the other one new ones.
    let ended = joint(&world, &["match"], &[], &["--purpose", "predict"]);
    assert_codes(&ended, 77);
    assert!(ended[1].log.contains("start the same command on both sides"), "{}", ended[1].log);
    assert_codes(&fitted(&world), 0);
}

#[test]
fn new_rows_are_scored_by_a_match_by_keys_of_their_own() {
    let world = by_keys("", "");
    edit(&world, "study.toml", "min_matched = 50", "min_matched = 50\n    min_matched_predict = 2");
    assert_codes(&found(&world), 0);
    assert_codes(&fitted(&world), 0);
    let new = |role: &str| [format!("{role}_new.csv"), format!("out/{role}/model.json")];
    let ([a, am], [b, bm]) = (new("alice"), new("bob"));
    world.write(
        &a,
        "Versichertennummer,Nachname,geboren,Geschlecht,a,y\n9901,Neu,01.02.1990,w,0.5,0\n9902,Über,03.04.1991,m,-0.5,0\n\
         9903,Übrig,05.06.1992,w,0.25,0\n",
    );
    world.write(
        &b,
        "pid,last,dob,sex,b,y\n9902,x,1991-04-03,m,2,0\n9990,other,1980-01-01,f,3,0\n,UEBRIG,1992-06-05,f,-1,0\n9901,New,1990-02-01,f,1,0\n",
    );
    let score = || joint(&world, &["predict"], &["--data", &a, "--model", &am], &["--data", &b, "--model", &bm]);
    let (code, _, said) = told(&alone(&world, "alice", &["predict", "--model", &am]));
    assert!(code == 2 && said.contains("run `alice match --purpose predict` here"), "{code} {said}");
    let ended = joint(&world, &["match", "--purpose", "predict", "--format", "json"], &["--data", &a], &["--data", &b]);
    assert_codes(&ended, 0);
    assert_eq!((&json(&ended[1])["matched"], &json(&ended[1])["purpose"]), (&2.into(), &"predict".into()));
    let ended = score();
    assert_codes(&ended, 0);
    let model = |place: &str| -> (f64, f64) {
        let model: Value = serde_json::from_slice(&fs::read(world.path(place)).unwrap()).unwrap();
        (model["intercept"].as_f64().unwrap(), model["terms"][0][1].as_f64().unwrap())
    };
    let ((alice, of_a), (bob, of_b)) = (model(&am), model(&bm));
    let scores: Vec<f64> =
        ended[1].out.lines().skip(1).map(|line| line.split(',').next_back().unwrap().parse().unwrap()).collect();
    // The third is the only one of its pass, which is withheld.
    let mut expected = [(0.5, 1.0), (-0.5, 2.0)].map(|(a, b)| alice + of_a * a + bob + of_b * b).to_vec();
    let mut scores = scores;
    scores.sort_by(f64::total_cmp);
    expected.sort_by(f64::total_cmp);
    assert_eq!(scores.len(), 2, "{}", ended[1].out);
    assert!(scores.iter().zip(&expected).all(|(own, other)| (own - other).abs() < 1e-9), "{scores:?} {expected:?}");
    // Two by their identifiers are too few where three are asked for.
    edit(&world, "study.toml", "min_matched_predict = 2", "min_matched_predict = 3");
    let ended = joint(&world, &["match", "--purpose", "predict"], &["--data", &a], &["--data", &b]);
    assert_codes(&ended, 77);
}

#[test]
fn a_state_folder_that_is_deleted_lets_no_further_match_begin() {
    let world = by_pid(["7,1,1\n", "7,2,2\n"], MOST);
    for role in ["alice", "bob"] {
        let text = fs::read_to_string(world.path(&format!("{role}.toml"))).unwrap();
        world.write(&format!("{role}.toml"), &format!("[policy]\nmax_matches = 2\n{text}"));
    }
    assert_codes(&found(&world), 0);
    let left_with = |role: &str, more: &[&str]| {
        let words = [&["match", "--dry-run", "--format", "json"], more].concat();
        let (code, out, said) = told(&alone(&world, role, &words));
        // Where none is left the match would be refused, and so is the look at it.
        if code == 77 && said.contains("was matched with") {
            return (0, said);
        }
        assert_eq!(code, 0, "{said}");
        (serde_json::from_str::<Value>(&out).unwrap()["matches_left"].as_u64().unwrap(), said)
    };
    let left = |role: &str| left_with(role, &[]);
    assert_eq!(left("alice").0, 1);
    // Another state folder, and another name of the file.
    fs::hard_link(world.path("alice.csv"), world.path("link.csv")).unwrap();
    assert_eq!(left_with("alice", &["--state", "elsewhere"]).0, 1);
    assert_eq!(left_with("alice", &["--state", "elsewhere", "--data", "link.csv"]).0, 1);
    fs::copy(world.path("alice.csv"), world.path("copy.csv")).unwrap();
    assert_eq!(left_with("alice", &["--state", "elsewhere", "--data", "copy.csv"]).0, 2);
    fs::remove_dir_all(world.path("alice-state")).unwrap();
    let (rest, said) = left("alice");
    assert!(rest == 1 && said.contains("they count all the same"), "{rest} {said}");
    assert_codes(&found(&world), 0);
    for role in ["alice", "bob"] {
        fs::remove_dir_all(world.path(&format!("{role}-state"))).unwrap();
        assert_eq!(left(role).0, 0);
        let (code, _, said) = told(&alone(&world, role, &["match"]));
        assert!(code == 77 && said.contains("was matched with"), "{code} {said}");
    }
    // What is anchored and what the state folder has are the same matches, and count once; a line that a crash has cut counts, and does not
    // swallow the next.
    fs::remove_dir_all(world.path("state-home")).unwrap();
    let state = world.path("alice-state/matches.jsonl");
    fs::create_dir_all(world.path("alice-state")).unwrap();
    fs::write(&state, "{\"run\":\"0").unwrap();
    assert_eq!(left("alice").0, 1);
    assert_codes(&found(&world), 0);
    assert_eq!(left("alice").0, 0);
    fs::remove_file(&state).unwrap();
    assert_eq!(left("alice").0, 1, "the anchor has what was counted since it was deleted");
    // Nowhere to keep it but the state folder.
    let mut homeless = by_itself(&world, "alice", &["match"]);
    let (code, _, said) = told(&homeless.env_remove("XDG_STATE_HOME").env_remove("HOME").output().unwrap());
    assert!(code == 77 && said.contains("privacy.anchor"), "{code} {said}");
}

/// A match between processes, of which Bob reaches Alice by a line that goes silent once.
struct Broken<'a> {
    world: &'a World,
    words: Vec<String>,
    files: [Vec<String>; 2],
    line: [String; 2],
}

impl Broken<'_> {
    /// Runs until the line has gone silent, and then kills a party; gives the other one and the coordinator, and what kinds of messages the
    /// one that was killed had stored. None if the match ends before the place.
    fn start<'a>(world: &'a World, files: [&[&str]; 2], spoil: Spoil, victim: &str) -> (Broken<'a>, Option<Killed>) {
        again(world);
        let (coordinator, address) = world.coordinator_with(&["--wait", "30"]);
        let free = world::free_address();
        let (spoiled, struck) = spoiler::counted(free.clone(), &[spoil]);
        let owned = |words: &[&str]| words.iter().map(|word| word.to_string()).collect::<Vec<_>>();
        let broken = Broken {
            world,
            words: owned(&["match", "--wait", "30", "--format", "json", "--coordinator", &address]),
            files: files.map(owned),
            line: [free, spoiled],
        };
        let (mut alice, mut bob) = (broken.party("alice"), broken.party("bob"));
        let ended = world::eventually(|| match struck.load(Ordering::SeqCst) {
            0 => (alice.child.try_wait().unwrap().is_some() && bob.child.try_wait().unwrap().is_some()).then_some(true),
            _ => Some(false),
        });
        if ended {
            for ended in [alice.end(), bob.end(), coordinator.end()] {
                assert_eq!(ended.code, 0, "{}", ended.log);
            }
            return (broken, None);
        }
        // What came before the silence is taken in.
        let journal = world.path(&format!("{victim}-state/match-run.bin"));
        let mut before = None;
        world::eventually(|| {
            std::thread::sleep(std::time::Duration::from_millis(60));
            let now = fs::read(&journal).ok().map(|bytes| bytes.len());
            (before.replace(now) == Some(now)).then_some(())
        });
        let dying = if victim == "alice" { &mut alice } else { &mut bob };
        if dying.child.try_wait().unwrap().is_some() {
            // It was behind its last message, and the other one can do without the rest.
            for ended in [alice.end(), bob.end()] {
                assert_eq!(ended.code, 0, "{}", ended.log);
            }
            return (broken, None);
        }
        dying.child.kill().unwrap();
        dying.child.wait().unwrap();
        let kept = fs::read(&journal).ok();
        let other = if victim == "alice" { bob } else { alice };
        (broken, Some(Killed { kept, other, coordinator }))
    }

    fn party(&self, role: &str) -> Running {
        let at = usize::from(role == "bob");
        let line = [["--listen", "--connect"][at], &self.line[at]].map(str::to_owned);
        let data = ["--data".to_owned(), format!("{role}.csv"), "--config".to_owned(), format!("{role}.toml")];
        let words = [&self.words[..], &data, &self.files[at], &line].concat();
        self.world.start(role, &words.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

struct Killed {
    /// What the party had stored.
    kept: Option<Vec<u8>>,
    other: Running,
    coordinator: Running,
}

/// The kinds of messages in a file of an interrupted match.
fn kinds(kept: &[u8]) -> BTreeSet<char> {
    // Magic, run, secret and what it is bound to; then number, length and checksum of each message.
    let (mut rest, mut kinds) = (&kept[8 + 16 + 32 + 32..], BTreeSet::new());
    while rest.len() > 20 {
        let length = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        kinds.insert(char::from(rest[20]));
        rest = &rest[20 + length..];
    }
    kinds
}

fn forget(world: &World) {
    for folder in ["alice-state", "bob-state", "state-home"] {
        let _ = fs::remove_dir_all(world.path(folder));
    }
}

/// That both have the same match, of the run in which one was killed if that is known, and that it counted once.
fn assert_one_match(world: &World, kept: Option<&[u8]>, what: &str) {
    let [alice, bob] = ["alice", "bob"].map(|role| record(world, role));
    assert_eq!((&alice["order_digest"], &alice["run"]), (&bob["order_digest"], &bob["run"]), "{what}");
    if let Some(kept) = kept {
        let run: String = kept[8..24].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(alice["run"], run, "{what}: a new run began");
    }
    for role in ["alice", "bob"] {
        assert_eq!(lines(world, &format!("{role}-state/matches.jsonl")).len(), 1, "{what}: {role} counts it once");
        let log = fs::read_to_string(world.path(&format!("{role}.log"))).unwrap();
        let unconfirmed = log.contains("did not confirm the last message");
        let kept = world.path(&format!("{role}-state/match-run.bin")).exists();
        assert_eq!(kept, unconfirmed, "{what}: the secret of {role} is erased once the other one has all: {log}");
    }
}

/// Matches in each of which one party is killed behind this number of bytes on one way of the line, and started again: how many were, the
/// kinds of messages that were stored before, and what the last one had stored. `check` looks at the match of each.
fn killed(
    world: &World,
    files: [&[&str]; 2],
    places: impl IntoIterator<Item = (&'static str, bool, usize)>,
    mut check: impl FnMut(&str),
) -> (usize, BTreeSet<char>, Vec<u8>) {
    let (mut killed, mut seen, mut last) = (0, BTreeSet::new(), Vec::new());
    for (victim, back, at) in places {
        let what = format!("{victim} killed {}after {at} bytes", if back { "on the way back " } else { "" });
        forget(world);
        let (broken, dead) = Broken::start(world, files, Spoil { fault: Fault::Stall, back, at }, victim);
        let kept = dead.and_then(|Killed { kept, other, coordinator }| {
            let again = broken.party(victim);
            for ended in [again.end(), other.end()] {
                assert_eq!(ended.code, 0, "{what}: {}", ended.log);
                assert_eq!(json(&ended)["matched"], 140, "{what}");
            }
            // It may wait for one that has all and comes no more.
            drop(coordinator);
            killed += 1;
            kept
        });
        assert_one_match(world, kept.as_deref(), &what);
        check(&what);
        last = kept.unwrap_or_default();
        seen.extend(if last.is_empty() { BTreeSet::new() } else { kinds(&last) });
    }
    println!("{killed} kills, with these messages stored before: {seen:?}");
    (killed, seen, last)
}

#[test]
fn a_party_that_is_killed_in_any_phase_goes_on_with_the_same_match() {
    // Between the parties: rules, lengths, lists of keys and of tags, counts, positions. Through the coordinator: rules, parts of the key,
    // lengths, the counts of the coordinator and of the peer, positions.
    for (through, from, span, phases) in [(false, 2_500, 14_000, "tsmdcr"), (true, 2_500, 1_700, "twsncl")] {
        let world = by_keys("", "");
        if through {
            edit(&world, "study.toml", "[match]", "[match]\n    protocol = \"coordinator\"");
            for role in ["alice", "bob"] {
                let text = fs::read_to_string(world.path(&format!("{role}.toml"))).unwrap();
                world.write(&format!("{role}.toml"), &format!("[policy]\nallow_coordinator_match = true\n{text}"));
            }
        }
        assert_codes(&found(&world), 0);
        let person = |role: &str, table: &str| -> Vec<String> {
            let lines: Vec<&str> = table.lines().skip(1).collect();
            let value = |record: &u32| lines[*record as usize].split(',').nth(4).unwrap().to_owned();
            order(&world, role).iter().map(value).collect()
        };
        let tables = ["alice", "bob"].map(|role| fs::read_to_string(world.path(&format!("{role}.csv"))).unwrap());
        let pairs = || {
            let both = [person("alice", &tables[0]), person("bob", &tables[1])];
            let [alice, bob] = both.map(Vec::into_iter);
            alice.zip(bob).collect::<BTreeSet<(String, String)>>()
        };
        let clean = pairs();
        assert_eq!(clean.len(), 140);
        // A handful of places through the conversation; `FEDREG_KILLS` asks for more of them.
        let kills = count("FEDREG_KILLS", 8);
        let places = (0..kills).map(|number| {
            (["alice", "bob"][number % 2], number / 2 % 2 == 1, from + (number * span / kills) + number % 7)
        });
        let (killed, seen, _) = killed(&world, [&[], &[]], places, |what| assert_eq!(pairs(), clean, "{what}"));
        assert!(killed >= kills / 2, "{killed} of {kills}");
        assert!(phases.chars().all(|kind| seen.contains(&kind)), "{through}: {seen:?}");
    }
}

#[test]
fn a_match_by_pairs_in_which_a_party_is_killed_ends_with_the_same_order() {
    let world = overlap::world("", MATCH);
    let files: [&[&str]; 2] = [&["--pairs", "alice-pairs.csv"], &["--pairs", "bob-pairs.csv"]];
    let places = [("alice", false, 2_600), ("bob", true, 2_500), ("bob", true, 2_600), ("alice", true, 2_500)];
    let (killed, seen, last) = killed(&world, files, places, |what| {
        // The order follows from the run and the pairs alone.
        let [a, b] = [order(&world, "alice"), order(&world, "bob")];
        assert_eq!((a.len(), b.len()), (140, 140), "{what}");
    });
    // Greetings, the proof of the first speaker, and the answer to it.
    assert!(killed == 4 && ['h', 'k', 'p'].iter().all(|kind| seen.contains(kind)), "{killed} {seen:?}");
    // Of a match of which Alice has all, and does not know whether Bob has: where he is not in it any more, it is over, and the next begins.
    assert!(kinds(&last).contains(&'k'));
    fs::write(world.path("alice-state/match-run.bin"), &last).unwrap();
    let before = record(&world, "alice");
    let ended = overlap::matched(&world);
    assert_eq!([ended[1].code, ended[2].code], [0, 69], "{}{}", ended[1].log, ended[2].log);
    assert_eq!(record(&world, "alice")["order_digest"], before["order_digest"]);
    assert!(!world.path("alice-state/match-run.bin").exists(), "{}", ended[1].log);
    assert_codes(&overlap::matched(&world), 0);
    assert_ne!(record(&world, "alice")["run"], before["run"]);
}

#[test]
fn a_match_that_the_other_party_is_not_in_any_more_begins_anew_and_counts_again() {
    let world = by_keys("", "");
    let spoil = Spoil { fault: Fault::Stall, back: false, at: 9_000 };
    let (_, dead) = Broken::start(&world, [&[], &[]], spoil, "alice");
    let Killed { kept, other, coordinator } = dead.expect("it does not end before");
    assert!(kept.is_some());
    // Bob's state is gone with him.
    drop((other, coordinator));
    fs::remove_dir_all(world.path("bob-state")).unwrap();
    let ended = found(&world);
    assert_codes(&ended, 69);
    assert!(ended[1].log.contains("the same command on both sides makes a new one"), "{}", ended[1].log);
    assert_none(&world);
    let ended = found(&world);
    assert_codes(&ended, 0);
    assert_eq!(json(&ended[1])["matched"], 140);
    assert_eq!(lines(&world, "alice-state/matches.jsonl").len(), 2, "the match that came to nothing counts");
    let (_, out, _) = told(&alone(&world, "bob", &["match", "--dry-run", "--format", "json"]));
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap()["matches_left"], 3, "Bob's count is anchored");
}

#[test]
fn a_match_whose_other_party_does_not_come_is_kept_and_one_that_is_refused_is_not() {
    let world = by_keys("", "");
    let spoil = Spoil { fault: Fault::Stall, back: false, at: 9_000 };
    let (_, dead) = Broken::start(&world, [&[], &[]], spoil, "alice");
    drop(dead.expect("it does not end before"));
    let kept = fs::read(world.path("alice-state/match-run.bin")).unwrap();
    again(&world);
    let alone = |study: &str| {
        let own = fs::read_to_string(world.path("study.toml")).unwrap();
        world.write("study.toml", study);
        again(&world);
        let (coordinator, address) = world.coordinator();
        world.write("study.toml", &own);
        let words =
            ["match", "--coordinator", &address, "--config", "alice.toml", "--data", "alice.csv", "--wait", "1"];
        let alice = world.start("alice", &[&words[..], &["--listen", "127.0.0.1:0"]].concat());
        let ended = alice.end();
        drop(coordinator);
        ended
    };
    let study = fs::read_to_string(world.path("study.toml")).unwrap();
    let ended = alone(&study);
    assert_eq!(ended.code, 69, "{}", ended.log);
    assert!(ended.log.contains("is not lost: the same command goes on with it"), "{}", ended.log);
    assert_eq!(fs::read(world.path("alice-state/match-run.bin")).unwrap(), kept);
    let ended = alone(&study.replace("min_matched = 50", "min_matched = 60"));
    assert_eq!(ended.code, 77, "{}", ended.log);
    assert!(!world.path("alice-state/match-run.bin").exists(), "{}", ended.log);
    assert_eq!(lines(&world, "alice-state/matches.jsonl").len(), 1, "what was refused begins no match");
}

#[test]
fn a_party_that_is_killed_in_the_middle_of_long_lists_goes_on_with_them() {
    for victim in ["alice", "bob"] {
        for threshold in [100, 3_000, 100_000] {
            let world = by_keys("", "");
            let study = fs::read_to_string(world.path("study.toml")).unwrap();
            world.write("study.toml", &study.replace("alice = 500, bob = 300", "alice = 20000, bob = 20000"));
            // Further rows that only one party has, so that a match takes a while.
            for role in ["alice", "bob"] {
                let mut table = fs::read_to_string(world.path(&format!("{role}.csv"))).unwrap();
                for row in 0..12_000_u32 {
                    let digit = |place: u32| char::from_digit(row / 36_u32.pow(place) % 36, 36).unwrap();
                    let id = format!("{}{}{}{}", &role[..1], digit(2), digit(1), digit(0));
                    let day = ["01.01.1950", "1950-01-01"][usize::from(role == "bob")];
                    let sex = ["w", "f"][usize::from(role == "bob")];
                    table.push_str(&format!("{id},{role} {row},{day},{sex},0,0\n"));
                }
                world.write(&format!("{role}.csv"), &table);
            }
            let (coordinator, address) = world.coordinator_with(&["--wait", "30"]);
            let free = world::free_address();
            let start = |role: &str| {
                let line = if role == "alice" { ["--listen", &free] } else { ["--connect", &free] };
                let files = ["--data", &format!("{role}.csv"), "--config", &format!("{role}.toml")];
                let words = ["match", "--wait", "30", "--format", "json", "--coordinator", &address];
                world.start(role, &[&words[..], &files, &line].concat())
            };
            let (mut alice, mut bob) = (start("alice"), start("bob"));
            let journal = world.path(&format!("{victim}-state/match-run.bin"));
            world::eventually(|| fs::metadata(&journal).ok().filter(|about| about.len() > threshold));
            let dying = if victim == "alice" { &mut alice } else { &mut bob };
            dying.child.kill().unwrap();
            dying.child.wait().unwrap();
            assert!(journal.exists(), "killed before the end");
            let again = start(victim);
            let (alice, bob) = if victim == "alice" { (again, bob) } else { (alice, again) };
            for ended in [alice.end(), bob.end()] {
                assert_eq!(ended.code, 0, "{victim} {threshold}: {}", ended.log);
                assert_eq!(json(&ended)["matched"], 140);
            }
            drop(coordinator.end());
            assert_eq!(record(&world, "alice")["order_digest"], record(&world, "bob")["order_digest"]);
            assert_eq!(record(&world, "alice")["run"], record(&world, "bob")["run"]);
            for role in ["alice", "bob"] {
                let counted = fs::read_to_string(world.path(&format!("{role}-state/matches.jsonl"))).unwrap();
                assert_eq!(counted.lines().count(), 1, "a match that goes on counts once");
                assert!(!world.path(&format!("{role}-state/match-run.bin")).exists(), "{role}: the secret is erased");
            }
        }
    }
}
