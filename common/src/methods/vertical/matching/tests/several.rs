//! The leader of several parties, with each of the others.

use std::collections::BTreeSet;

use super::resumed::Kept;
use super::*;
use crate::methods::vertical::several::{Hub, MatchCentre};
use crate::sim::several::{EndedSeveral, run_several};

/// The leader, then the others.
const NAMES: [&str; 3] = ["hospital", "laboratory", "office"];

fn role(name: &str) -> Role {
    name.parse().unwrap()
}

fn three() -> Study<Vertical> {
    let party = |name: &str| format!("[parties.{name}]\ncertificate = \"{name}\"\ncolumns = [\"x_{name}\"]\n");
    let parties: String = NAMES.map(party).concat();
    vertical(&format!("id = \"s\"\nleader = \"hospital\"\n[outcome]\ncolumn = \"y\"\n{parties}"))
}

fn rules_of_three(passes: &[Vec<usize>], min_matched: u64) -> Rules {
    let max_rows = BySide::new(NAMES.iter().map(|name| (role(name), 100_000)).collect());
    Rules { max_rows, min_matched, ..rules(passes) }
}

fn opening(at: usize) -> Opening {
    let peer = if at == 0 { role(NAMES[1]) } else { role(NAMES[0]) };
    Opening { first: at > 0, run: RUN, seed: [1 + at as u8; 32], peer }
}

type Tables<'a> = [&'a [Row]; 3];

fn leader(rules: &Rules, rows: &[Row], journals: Vec<Box<dyn Journal + Send>>) -> Hub<MatchCentre> {
    let whose = (role(NAMES[0]), Purpose::MatchFit);
    Hub::matching(whose, &three(), &inputs(rules, rows), journals, &opening(0)).unwrap()
}

fn follower(at: usize, inputs_of: Inputs) -> MatchSession {
    MatchSession::new(role(NAMES[at]), Purpose::MatchFit, &three(), inputs_of, opening(at)).unwrap()
}

fn parties(rules: &Rules, tables: Tables<'_>) -> (Hub<MatchCentre>, Vec<MatchSession>) {
    let followers = [1, 2].map(|at| follower(at, inputs(rules, tables[at])));
    (leader(rules, tables[0], Vec::new()), followers.into())
}

/// Messages without repeats: by sender, receiver and number.
type Distinct = BTreeMap<(Role, Role, u64), Message>;

/// What was said, with its receiver.
type Said = Vec<(Role, Message)>;

fn run_with(rules: &Rules, tables: Tables<'_>, faults: Faults) -> (EndedSeveral<Matched>, Said) {
    let (mut hub, mut followers) = parties(rules, tables);
    let mut said = Vec::new();
    let ended = run_several(&mut hub, &mut followers, faults, |to, message| said.push((to, message.clone())));
    (ended, said)
}

fn found(ended: EndedSeveral<Matched>) -> Vec<Matched> {
    ended.results.into_iter().map(|result| result.unwrap().unwrap()).collect()
}

/// Rows with one key each.
fn one_key(keys: impl IntoIterator<Item = u16>) -> Vec<Row> {
    keys.into_iter().map(|key| [Some(key), None, None]).collect()
}

/// By the definition: the records of the leader that have a partner in every pair, each with its partners.
fn common(rules: &Rules, passes: &[Vec<usize>], tables: Tables<'_>) -> Option<BTreeSet<[u32; 3]>> {
    let links = [1, 2].map(|at| {
        let pairs = plaintext(rules, passes, [tables[0], tables[at]]);
        let enough = pairs[0].len() as u64 >= rules.min_matched;
        enough.then(|| pairs.into_iter().flatten().map(|[own, theirs]| (own, theirs)).collect::<BTreeMap<_, _>>())
    });
    let [Some(first), Some(second)] = links else { return None };
    let all = first.iter().filter_map(|(own, theirs)| Some([*own, *theirs, *second.get(own)?]));
    let all: BTreeSet<[u32; 3]> = all.collect();
    (all.len() as u64 >= rules.min_matched).then_some(all)
}

fn body(message: &Message) -> Option<&Match> {
    match &message.body {
        Body::Match(of_match) => Some(of_match),
        _ => None,
    }
}

fn tells_membership(message: &Message) -> bool {
    matches!(
        body(message),
        Some(Match::Part(Part { what: PartKind::Reveal | PartKind::Common | PartKind::Same, .. }) | Match::Agree(_))
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn all_find_the_records_that_the_leader_has_in_common_with_each(
        hospital in prop::collection::vec(row(), 0..40),
        laboratory in prop::collection::vec(row(), 0..40),
        office in prop::collection::vec(row(), 0..40),
        passes in prop::sample::select(vec![vec![vec![0]], vec![vec![0], vec![1]], vec![vec![0, 1], vec![1, 2], vec![2]]]),
        fewest in 1_u64..6,
        least in 1_u64..4,
        seed in any::<u64>(),
    ) {
        let rules = Rules { min_pass: least, ..rules_of_three(&passes, fewest) };
        let tables: Tables<'_> = [&hospital, &laboratory, &office];
        let faults = Faults { drop: 0.1, duplicate: 0.1, reorder: 0.1, seed };
        let clean = run_with(&rules, tables, Faults::NONE).0;
        let Some(expected) = common(&rules, &passes, tables) else {
            prop_assert_eq!(clean.results[0].as_ref().unwrap().as_ref().unwrap_err().exit(), Exit::Refused);
            return Ok(());
        };
        let all = found(clean);
        let rows: Vec<[u32; 3]> = (0..all[0].order.len()).map(|at| [0, 1, 2].map(|party: usize| all[party].order[at])).collect();
        prop_assert_eq!(rows.len(), expected.len());
        prop_assert_eq!(rows.into_iter().collect::<BTreeSet<_>>(), expected);
        for party in &all[1..] {
            prop_assert_eq!(party.order_digest(), all[0].order_digest());
        }
        let broken = found(run_with(&rules, tables, faults).0);
        prop_assert!(broken.iter().zip(&all).all(|(one, other)| one == other), "another result on a line with faults");
    }
}

#[test]
fn a_line_with_faults_brings_the_same_bytes() {
    let tables: [Vec<Row>; 3] = [one_key(0..60), one_key(20..90), one_key(10..50)];
    let tables = tables.each_ref().map(Vec::as_slice);
    let rules = rules_of_three(&[vec![0]], 5);
    let faults = Faults { drop: 0.2, duplicate: 0.2, reorder: 0.2, seed: 3 };
    let distinct = |said: Said| -> Distinct {
        said.into_iter().map(|(to, message)| ((message.header.sender, to, message.header.sequence), message)).collect()
    };
    let (clean, broken) = (run_with(&rules, tables, Faults::NONE), run_with(&rules, tables, faults));
    assert!(broken.0.sent > clean.0.sent);
    assert_eq!(found(clean.0), found(broken.0));
    let (clean, broken) = (distinct(clean.1), distinct(broken.1));
    assert_eq!(clean.len(), broken.len());
    for (place, message) in &clean {
        assert!(broken[place] == *message, "{place:?}: {message:?}");
    }
}

#[test]
fn nobody_reveals_anything_before_the_gate_of_every_pair_is_open() {
    // The laboratory has enough in common with the hospital, the office has not.
    let tables: [Vec<Row>; 3] = [one_key(0..60), one_key(0..50), one_key(55..90)];
    for swapped in [false, true] {
        let mut tables = tables.each_ref().map(Vec::as_slice);
        if swapped {
            tables.swap(1, 2);
        }
        let (ended, said) = run_with(&rules_of_three(&[vec![0]], 10), tables, Faults::NONE);
        let abort = ended.results[0].as_ref().unwrap().as_ref().unwrap_err();
        assert_eq!(abort.exit(), Exit::Refused);
        let sentence = abort.to_string();
        let short = if swapped { "laboratory" } else { "office" };
        assert!(
            sentence.contains(&format!("fewer records of hospital and {short} match in pass `p0` than `min_matched`")),
            "{sentence}"
        );
        assert!(!sentence.chars().any(|letter| letter.is_ascii_digit() && letter != '0'), "{sentence}");
        assert!(!said.iter().any(|(_, message)| tells_membership(message)));
        // Nor does the leader say its own count, which lets a follower reveal.
        let counts = |from: &str| {
            said.iter().any(|(_, message)| {
                message.header.sender == role(from)
                    && matches!(body(message), Some(Match::Number(Number { what: NumberKind::Count, .. })))
            })
        };
        assert!(!counts(NAMES[0]) && counts(NAMES[1]) && counts(NAMES[2]));
    }
}

#[test]
fn the_leader_asks_nobody_to_reveal_before_all_have_counted() {
    let tables: [Vec<Row>; 3] = [one_key(0..60), one_key(0..50), one_key(0..40)];
    let tables = tables.each_ref().map(Vec::as_slice);
    let rules = rules_of_three(&[vec![0]], 10);
    for seed in 0..20 {
        let faults = Faults { drop: 0.3, duplicate: 0.0, reorder: 0.0, seed };
        let (ended, said) = run_with(&rules, tables, faults);
        found(ended);
        let first = |by: &str, is: fn(&Match) -> bool| {
            said.iter()
                .position(|(_, message)| message.header.sender == role(by) && body(message).is_some_and(is))
                .unwrap()
        };
        let counted: fn(&Match) -> bool =
            |message| matches!(message, Match::Number(Number { what: NumberKind::Count, .. }));
        let revealed: fn(&Match) -> bool =
            |message| matches!(message, Match::Part(Part { what: PartKind::Reveal, .. }));
        let told: fn(&Match) -> bool =
            |message| matches!(message, Match::Number(Number { what: NumberKind::Common, .. }));
        let proved: fn(&Match) -> bool = |message| matches!(message, Match::Agree(_));
        for follower in &NAMES[1..] {
            for other in &NAMES[1..] {
                assert!(first(other, counted) < first(follower, revealed));
            }
            assert!(first(follower, counted) < first(NAMES[0], counted));
            assert!(first(follower, revealed) < first(NAMES[0], told), "told before all have revealed");
            assert!(first(NAMES[0], told) < first(follower, proved));
        }
        // Neither hears the last of the proof before both have proved.
        let last = |by: &str, to: &str| {
            let mut proofs: BTreeMap<u64, usize> = BTreeMap::new();
            for (at, (receiver, message)) in said.iter().enumerate() {
                if message.header.sender == role(by) && *receiver == role(to) && body(message).is_some_and(proved) {
                    proofs.entry(message.header.sequence).or_insert(at);
                }
            }
            proofs.into_values().max().unwrap()
        };
        for follower in &NAMES[1..] {
            for other in &NAMES[1..] {
                assert!(last(other, NAMES[0]) < last(NAMES[0], follower));
            }
        }
        assert!(
            !said
                .iter()
                .any(|(_, message)| { message.header.sender == role(NAMES[0]) && body(message).is_some_and(revealed) })
        );
    }
}

#[test]
fn no_follower_is_told_which_of_its_records_match_where_too_few_are_in_all_tables() {
    // Both pairs have 30 in common, and all three have 5.
    let tables: [Vec<Row>; 3] = [one_key(0..60), one_key(0..30), one_key(25..55)];
    let tables = tables.each_ref().map(Vec::as_slice);
    let (ended, said) = run_with(&rules_of_three(&[vec![0]], 6), tables, Faults::NONE);
    let abort = ended.results[0].as_ref().unwrap().as_ref().unwrap_err();
    assert_eq!(abort.exit(), Exit::Refused);
    assert!(
        abort.to_string().contains("fewer records match at all parties than `min_matched`")
            && abort.to_string().contains("nobody but hospital learnt"),
        "{abort}"
    );
    assert!(!said.iter().any(|(to, message)| *to != role(NAMES[0]) && tells_membership(message)));
    let number = |message: &Message| {
        matches!(body(message), Some(Match::Number(Number { what: NumberKind::Common, .. }) | Match::Draw(_)))
    };
    assert!(!said.iter().any(|(_, message)| number(message)));
    // With one fewer all learn it.
    assert_eq!(found(run_with(&rules_of_three(&[vec![0]], 5), tables, Faults::NONE).0)[2].order.len(), 5);
}

#[test]
fn the_strictest_party_decides_of_every_gate() {
    let tables: [Vec<Row>; 3] = [one_key(0..60), one_key(0..40), one_key(20..60)];
    let tables = tables.each_ref().map(Vec::as_slice);
    let rules = rules_of_three(&[vec![0]], 1);
    for (at, fewest, passes) in [(1, 20, true), (1, 21, false), (2, 21, false), (0, 21, false), (2, 41, false)] {
        let strict = |party: usize| Inputs {
            policy: Policy { min_matched: (party == at).then_some(fewest), max_peer_rows: None },
            ..inputs(&rules, tables[party])
        };
        let whose = (role(NAMES[0]), Purpose::MatchFit);
        let mut hub = Hub::matching(whose, &three(), &strict(0), Vec::new(), &opening(0)).unwrap();
        let mut followers = [1, 2].map(|party| follower(party, strict(party)));
        let ended = run_several(&mut hub, &mut followers, Faults::NONE, |_, _| {});
        let result = ended.results.into_iter().next().unwrap().unwrap();
        assert_eq!(result.is_ok(), passes, "{at} {fewest}");
        if let Err(abort) = result {
            assert_eq!(abort.exit(), Exit::Refused);
        }
    }
}

#[test]
fn a_follower_hears_its_places_in_the_common_set_and_nothing_of_other_pairs() {
    let tables: [Vec<Row>; 3] = [one_key(0..60), one_key(0..50), one_key(10..60)];
    let tables = tables.each_ref().map(Vec::as_slice);
    let (ended, said) = run_with(&rules_of_three(&[vec![0]], 5), tables, Faults::NONE);
    let all = found(ended);
    assert_eq!(all[0].order.len(), 40);
    for (at, name) in NAMES.iter().enumerate().skip(1) {
        let told: Vec<&Part> = said
            .iter()
            .filter(|(to, message)| *to == role(name) && message.header.sender == role(NAMES[0]))
            .filter_map(|(_, message)| match body(message) {
                Some(Match::Part(part)) if tells_membership(message) => Some(part),
                _ => None,
            })
            .collect();
        assert_eq!(
            told.iter().map(|part| (part.what, part.bytes.len())).collect::<Vec<_>>(),
            [(PartKind::Common, 40 * 8)]
        );
        assert_eq!(all[at].passes.iter().map(|pass| (pass.matched(), pass.with)).collect::<Vec<_>>(), [(50, None)]);
    }
    let pairs: Vec<_> = all[0].passes.iter().map(|pass| (pass.with.unwrap(), pass.peer, pass.matched())).collect();
    assert_eq!(pairs, [(role(NAMES[1]), 50, 50), (role(NAMES[2]), 50, 50)]);
    // The order is not that of any table.
    assert!(!all.iter().any(|one| one.order.is_sorted() || one.order.iter().rev().is_sorted()));
    // The same keys are masked by another scalar in every pair.
    let masked = |to: &str| -> BTreeSet<Vec<u8>> {
        let parts =
            said.iter().filter(|(other, message)| *other == role(to) && message.header.sender == role(NAMES[0]));
        parts
            .filter_map(|(_, message)| match body(message) {
                Some(Match::Part(part)) if part.what == PartKind::Masked => Some(part.bytes.clone()),
                _ => None,
            })
            .flat_map(|bytes| bytes.chunks(32).map(<[u8]>::to_vec).collect::<Vec<_>>())
            .collect()
    };
    assert_eq!((masked(NAMES[1]).len(), masked(NAMES[2]).len()), (60, 60));
    assert!(masked(NAMES[1]).is_disjoint(&masked(NAMES[2])));
}

#[test]
fn a_record_that_one_pass_has_linked_is_linked_by_no_later_one() {
    // Record 0 of the laboratory matches record 0 of the hospital by its first key and record 1 by its second.
    let hospital: Vec<Row> = vec![[Some(1), None, None], [None, Some(5), None], [Some(2), Some(6), None]];
    let laboratory: Vec<Row> = vec![[Some(1), Some(5), None], [Some(2), None, None], [None, Some(9), None]];
    let office: Vec<Row> = vec![[Some(1), None, None], [Some(7), Some(5), None], [Some(2), Some(6), None]];
    let passes = [vec![0], vec![1]];
    let tables: Tables<'_> = [&hospital, &laboratory, &office];
    let rules = rules_of_three(&passes, 1);
    let all = found(run_with(&rules, tables, Faults::NONE).0);
    let mut rows: Vec<[u32; 3]> =
        (0..all[0].order.len()).map(|at| [0, 1, 2].map(|party: usize| all[party].order[at])).collect();
    rows.sort_unstable();
    assert_eq!(rows, [[0, 0, 0], [2, 1, 2]]);
    let counts: Vec<(u64, u64)> = all[0].passes.iter().map(|pass| (pass.counted, pass.matched())).collect();
    assert_eq!(counts, [(2, 2), (1, 0), (2, 2), (1, 1)]);
}

/// A run in which a follower's messages are changed before they reach the leader; the leader's end.
fn against(passes: &[Vec<usize>], tables: Tables<'_>, mut change: impl FnMut(Role, &mut Message)) -> (Abort, Said) {
    let rules = rules_of_three(passes, 5);
    let (mut hub, mut followers) = parties(&rules, tables);
    let mut queue: Vec<(usize, Message)> = Vec::new();
    let mut said = Vec::new();
    for (at, follower) in followers.iter_mut().enumerate() {
        if let Turn::Send(message) = follower.start().unwrap() {
            queue.push((at, message.into()));
        }
    }
    for _ in 0..10_000 {
        assert!(!queue.is_empty(), "the run came to its end, or stood still");
        let (at, mut message) = queue.remove(0);
        change(role(NAMES[at + 1]), &mut message);
        let says = match hub.receive(role(NAMES[at + 1]), message) {
            Ok(says) => says,
            Err(abort) => return (abort, said),
        };
        for (to, turn) in says {
            let (Turn::Send(message) | Turn::FinishAndSend { last: message, .. }) = turn else { continue };
            let message = Message::from(message);
            said.push((to, message.clone()));
            let at = NAMES.iter().position(|name| role(name) == to).unwrap() - 1;
            match followers[at].receive(role(NAMES[0]), message) {
                Ok(Turn::Send(message) | Turn::FinishAndSend { last: message, .. }) => queue.push((at, message.into())),
                Ok(_) => {}
                Err(abort) => return (abort, said),
            }
        }
    }
    panic!("no end")
}

#[test]
fn a_follower_that_does_not_follow_the_protocol_ends_the_run_for_all() {
    let tables: [Vec<Row>; 3] = [one_key(0..60), one_key(0..50), one_key(0..40)];
    let tables = tables.each_ref().map(Vec::as_slice);
    type Change = fn(&mut Match) -> bool;
    let cases: [(&str, Change); 6] = [
        ("another count", |message| match message {
            Match::Number(Number { what: NumberKind::Count, number, .. }) => {
                *number += 1;
                true
            }
            _ => false,
        }),
        ("a position twice", |message| match message {
            Match::Part(part) if part.what == PartKind::Reveal => {
                part.bytes.copy_within(..4, 4);
                true
            }
            _ => false,
        }),
        ("positions before they are due", |message| match message {
            Match::Number(Number { what: NumberKind::Count, .. }) => {
                *message = Match::Part(Part { what: PartKind::Reveal, pass: 0, first: 0, bytes: vec![0; 4] });
                true
            }
            _ => false,
        }),
        ("a common count, which the leader's is", |message| match message {
            Match::Number(Number { what: what @ NumberKind::Count, .. }) => {
                *what = NumberKind::Common;
                true
            }
            _ => false,
        }),
        ("another proof", |message| match message {
            Match::Agree(proof) => {
                proof.0[0] ^= 1;
                true
            }
            _ => false,
        }),
        ("an empty list where one was claimed", |message| match message {
            Match::Part(part) if part.what == PartKind::Masked => {
                part.bytes.truncate(32);
                true
            }
            _ => false,
        }),
    ];
    for (what, change) in cases {
        let (abort, said) = against(&[vec![0]], tables, |from, message| {
            if let (true, Body::Match(of_match)) = (from == role("office"), &mut message.body) {
                change(of_match);
            }
        });
        assert_eq!(abort.exit(), Exit::Peer, "{what}: {abort}");
        assert!(matches!(&abort, Abort::Peer { peer, .. } if *peer == role("office")), "{what}: {abort}");
        let told = said.iter().filter(|(_, message)| tells_membership(message)).count();
        assert_eq!(told > 0, what == "another proof", "{what}");
    }
}

#[test]
fn entries_of_several_passes_are_one_record_only_where_that_can_be() {
    let rows = |from: u16| -> Vec<Row> { (from..from + 40).map(|key| [Some(key), Some(key + 99), None]).collect() };
    let shifted = |from: u16| -> Vec<Row> {
        (from..from + 40).map(|key| [(key % 2 == 0).then_some(key), Some(key + 99), None]).collect()
    };
    let tables: [Vec<Row>; 3] = [rows(0), shifted(0), shifted(0)];
    let tables = tables.each_ref().map(Vec::as_slice);
    type Change = fn(&mut Vec<u8>);
    let cases: [(&str, Change); 4] = [
        ("a later pass", |bytes| bytes[..4].copy_from_slice(&1_u32.to_le_bytes())),
        ("behind the list", |bytes| bytes[..8].copy_from_slice(&[0, 0, 0, 0, 20, 0, 0, 0])),
        ("one place for two", |bytes| bytes.chunks_mut(8).for_each(|entry| entry.fill(0))),
        ("cut", |bytes| bytes.truncate(bytes.len() - 8)),
    ];
    for (what, change) in cases {
        let (abort, said) = against(&[vec![0], vec![1]], tables, |from, message| {
            if let (true, Body::Match(Match::Part(part))) = (from == role("office"), &mut message.body)
                && part.what == PartKind::Same
            {
                change(&mut part.bytes);
            }
        });
        assert!(matches!(&abort, Abort::Peer { peer, .. } if *peer == role("office")), "{what}: {abort}");
        assert_eq!(abort.exit(), Exit::Peer, "{what}");
        assert!(!said.iter().any(|(_, message)| tells_membership(message)), "{what}");
    }
    assert_eq!(found(run_with(&rules_of_three(&[vec![0], vec![1]], 5), tables, Faults::NONE).0)[0].order.len(), 40);
}

#[test]
fn a_follower_cannot_speak_for_another_and_cannot_change_what_it_said() {
    let tables: [Vec<Row>; 3] = [one_key(0..60), one_key(0..50), one_key(0..40)];
    let tables = tables.each_ref().map(Vec::as_slice);
    let rules = rules_of_three(&[vec![0]], 5);
    let (mut hub, mut followers) = parties(&rules, tables);
    let Turn::Send(hello) = followers[0].start().unwrap() else { panic!("a greeting") };
    let hello = Message::from(hello);
    let foreign = hub.receive(role("office"), hello.clone()).unwrap_err();
    assert!(matches!(foreign, Abort::Peer { fault: PeerFault::Foreign { what: "sender" }, .. }), "{foreign}");
    // The same again gets the same answer; another under its number ends the run.
    let (mut hub, mut followers) = parties(&rules, tables);
    followers[0].start().unwrap();
    let answer = |hub: &mut Hub<MatchCentre>| match hub.receive(role("laboratory"), hello.clone()).unwrap().remove(0) {
        (_, Turn::Send(message)) => Message::from(message),
        _ => panic!("an answer"),
    };
    let first = answer(&mut hub);
    assert!(answer(&mut hub) == first);
    let mut line = first;
    let mut last = hello.clone();
    for _ in 0..4 {
        let Turn::Send(message) = followers[0].receive(role("hospital"), line.clone()).unwrap() else { panic!("more") };
        last = Message::from(message);
        match hub.receive(role("laboratory"), last.clone()).unwrap().remove(0) {
            (_, Turn::Send(message)) => line = message.into(),
            _ => panic!("more"),
        }
    }
    let mut changed = last.clone();
    changed.body = Body::Go;
    let abort = hub.receive(role("laboratory"), changed).unwrap_err();
    assert!(matches!(abort, Abort::Peer { fault: PeerFault::Changed { .. }, .. }), "{abort}");
}

/// A run in which the leader is killed once it has taken in a number of messages, and goes on with what it kept: what all found, and every
/// message without repeats.
fn killed(rules: &Rules, tables: Tables<'_>, after: usize) -> (Vec<Matched>, Distinct) {
    let kept = [Kept::default(), Kept::default()];
    let leader_again = |begun: bool| {
        let journal = |kept: &Kept| {
            let begun = begun && !kept.messages.lock().unwrap().is_empty();
            Box::new(Kept { begun, ..kept.clone() }) as Box<dyn Journal + Send>
        };
        leader(rules, tables[0], kept.iter().map(journal).collect())
    };
    let mut hub = leader_again(false);
    let mut followers = [1, 2].map(|at| follower(at, inputs(rules, tables[at])));
    let mut results: [Option<Matched>; 3] = [None, None, None];
    let mut said = Distinct::new();
    let mut up: Vec<(usize, Message)> = Vec::new();
    let mut down: Vec<(usize, Message)> = Vec::new();
    let mut note = |to: Role, message: &Message| {
        let place = (message.header.sender, to, message.header.sequence);
        let before = said.entry(place).or_insert_with(|| message.clone());
        assert!(before == message, "other bytes: {before:?} and {message:?}");
    };
    let at_of = |to: Role| NAMES.iter().position(|name| role(name) == to).unwrap() - 1;
    let mut taken = 0;
    for (at, follower) in followers.iter_mut().enumerate() {
        let Turn::Send(message) = follower.start().unwrap() else { panic!("a greeting") };
        up.push((at, message.into()));
    }
    for _ in 0..10_000 {
        if results.iter().all(Option::is_some) {
            return (results.map(Option::unwrap).into(), said);
        }
        let says = if !up.is_empty() {
            let (at, message) = up.remove(0);
            note(role(NAMES[0]), &message);
            taken += 1;
            let says = hub.receive(role(NAMES[at + 1]), message).unwrap();
            if taken == after {
                // What it was about to say is lost with it, and what is on the lines.
                (hub, results[0]) = (leader_again(true), None);
                (up, down) = (Vec::new(), Vec::new());
                hub.start().unwrap()
            } else {
                says
            }
        } else if !down.is_empty() {
            let (at, message) = down.remove(0);
            note(role(NAMES[at + 1]), &message);
            if results[at + 1].is_none() {
                match followers[at].receive(role(NAMES[0]), message).unwrap() {
                    Turn::Wait => {}
                    Turn::Send(message) => up.push((at, message.into())),
                    Turn::Finish(output) => results[at + 1] = Some(output),
                    Turn::FinishAndSend { .. } => panic!("the leader has the last word"),
                }
            }
            Vec::new()
        } else {
            for (at, follower) in followers.iter().enumerate().filter(|(at, _)| results[at + 1].is_none()) {
                up.extend(follower.resend().map(|message| (at, message.into())));
            }
            Vec::new()
        };
        for (to, turn) in says {
            let (Turn::Send(message) | Turn::FinishAndSend { last: message, .. }) = turn else { continue };
            down.push((at_of(to), message.into()));
        }
        if let Some(output) = hub.take_output() {
            results[0] = Some(output);
        }
    }
    panic!("no end: killed after {after}")
}

#[test]
fn a_leader_that_is_killed_anywhere_says_the_same_bytes_again_and_all_have_the_same_result() {
    let rows = |from: u16, to: u16, step: u16| -> Vec<Row> {
        (from..to).map(|key| [(key % 7 != step).then_some(key), Some(key + 500), None]).collect()
    };
    let tables: [Vec<Row>; 3] = [rows(0, 60, 0), rows(10, 70, 1), rows(5, 50, 2)];
    let tables = tables.each_ref().map(Vec::as_slice);
    let rules = rules_of_three(&[vec![0], vec![1]], 5);
    let (clean, bytes) = killed(&rules, tables, usize::MAX);
    assert_eq!(clean[0].order.len(), 40);
    let messages = bytes.keys().filter(|(sender, ..)| *sender != role(NAMES[0])).count();
    for after in 1..=messages {
        let (found, said) = killed(&rules, tables, after);
        assert_eq!(found, clean, "killed after {after}");
        assert!(said == bytes, "killed after {after}");
    }
}
