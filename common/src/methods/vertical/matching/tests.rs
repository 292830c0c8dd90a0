use std::collections::BTreeMap;
use std::sync::Mutex;

use proptest::prelude::*;

use super::message::Part;
use super::*;
use crate::conversation::Hello;
use crate::data::Marks;
use crate::data::matching::{BySide, Cells, Duplicates, Key, Keys, Kind, Reading, Source};
use crate::exit::Exit;
use crate::methods::vertical::message::Message;
use crate::secure::group;
use crate::session::{Session, Turn};
use crate::sim::pair::{self, Faults};

use crate::study::tests::vertical;

mod hostile;
mod merged;
mod resumed;
mod several;

const RUN: RunId = RunId([7; 16]);
const DIGEST: Digest = Digest([3; 32]);

fn study() -> Study<Vertical> {
    vertical(
        "id = \"s\"\n[parties.alice]\ncertificate = \"alice\"\ncolumns = [\"a\"]\n[parties.bob]\ncertificate = \"bob\"\n\
         columns = [\"b\"]\n[outcome]\ncolumn = \"y\"\n",
    )
}

/// A record's values of the keys k0, k1 and k2; none is missing.
type Row = [Option<u16>; 3];

fn keys(passes: &[Vec<usize>]) -> Keys {
    let used: Vec<usize> = (0..3).filter(|key| passes.iter().any(|pass| pass.contains(key))).collect();
    let keys = used.iter().map(|key| Key { name: format!("k{key}"), kind: Kind::Identifier { length: None } });
    let passes: Vec<(String, Vec<String>)> = passes
        .iter()
        .enumerate()
        .map(|(at, parts)| (format!("p{at}"), parts.iter().map(|key| format!("k{key}")).collect()))
        .collect();
    Keys::new(keys.collect(), &passes).unwrap()
}

fn rules(passes: &[Vec<usize>]) -> Rules {
    Rules {
        keys: keys(passes),
        duplicates: Duplicates::Exclude,
        min_matched: 1,
        min_pass: 1,
        max_rows: BySide::two(100_000, 100_000),
        capacity: None,
    }
}

fn records(keys: &Keys, rows: &[Row]) -> Records {
    let columns = keys.keys().iter().map(|key| {
        let at: usize = key.name[1..].parse().unwrap();
        let mut cells = Cells::default();
        for row in rows {
            cells.push(row[at].map(|value| format!("v{value}")).unwrap_or_default().as_bytes());
        }
        (Source { column: key.name.clone(), reading: Reading::Text, missing: Marks::default() }, cells)
    });
    Records::normalise(keys, columns.collect()).unwrap()
}

/// What one side brings; Bob dials.
fn inputs(rules: &Rules, rows: &[Row]) -> Inputs {
    Inputs {
        rules: Arc::new(rules.clone()),
        match_digest: DIGEST,
        policy: Policy::default(),
        records: Arc::new(records(&rules.keys, rows)),
        first: None,
        journal: None,
        coordinated: false,
    }
}

fn open(role: Role, inputs: Inputs) -> Result<MatchSession, Abort> {
    let opening = Opening {
        first: role == Role::Bob,
        run: RUN,
        seed: [1 + u8::from(role == Role::Bob); 32],
        peer: role.partner(),
    };
    MatchSession::new(role, Purpose::MatchFit, &study(), inputs, opening)
}

fn both(rules: &Rules, tables: [&[Row]; 2]) -> [MatchSession; 2] {
    let [alice, bob] = tables;
    [open(Role::Alice, inputs(rules, alice)).unwrap(), open(Role::Bob, inputs(rules, bob)).unwrap()]
}

type Results = [Option<Result<Matched, Abort>>; 2];

/// Two sessions over a line on which `tamper` may change what is said.
fn converse(sessions: &mut [MatchSession; 2], mut tamper: impl FnMut(Role, &mut Message)) -> Results {
    let mut results: Results = [None, None];
    let mut line: [Option<Message>; 2] = [None, None];
    let mut started = [false, false];
    for _ in 0..100_000 {
        for side in [0, 1] {
            if results[side].is_some() {
                continue;
            }
            let turn = match (started[side], line[1 - side].take()) {
                (false, _) => {
                    started[side] = true;
                    sessions[side].start()
                }
                (true, Some(message)) => sessions[side].receive(sessions[1 - side].role(), message),
                (true, None) => Ok(Turn::Wait),
            };
            let said = match turn {
                Ok(Turn::Wait) => None,
                Ok(Turn::Send(message)) => Some(message),
                Ok(Turn::FinishAndSend { output, last }) => {
                    results[side] = Some(Ok(output));
                    Some(last)
                }
                Ok(Turn::Finish(output)) => {
                    results[side] = Some(Ok(output));
                    None
                }
                Err(abort) => {
                    results[side] = Some(Err(abort));
                    None
                }
            };
            if let Some(message) = said {
                let mut message = Message::from(message);
                tamper(sessions[side].role(), &mut message);
                line[side] = Some(message);
            }
            if results[side].is_none()
                && let Err(abort) = sessions[side].work()
            {
                results[side] = Some(Err(abort));
            }
        }
        if results.iter().all(Option::is_some) || results.iter().flatten().any(Result::is_err) {
            break;
        }
    }
    results
}

fn matched(results: Results) -> [Matched; 2] {
    results.map(|result| result.unwrap().unwrap())
}

fn run(rules: &Rules, tables: [&[Row]; 2]) -> Results {
    converse(&mut both(rules, tables), |_, _| {})
}

/// The pairs that each pass adds, by the definition: eligible records whose keys are equal.
fn plaintext(rules: &Rules, passes: &[Vec<usize>], tables: [&[Row]; 2]) -> Vec<Vec<[u32; 2]>> {
    let mut found: [Vec<bool>; 2] = tables.map(|rows| vec![false; rows.len()]);
    let mut all = Vec::new();
    for (number, pass) in passes.iter().enumerate() {
        let eligible = [0, 1].map(|side| {
            let key = |row: &Row| pass.iter().map(|at| row[*at]).collect::<Option<Vec<u16>>>();
            let mut by_key: BTreeMap<Vec<u16>, Vec<u32>> = BTreeMap::new();
            for (at, row) in tables[side].iter().enumerate() {
                if let Some(key) = key(row) {
                    by_key.entry(key).or_default().push(at as u32);
                }
            }
            by_key.retain(|_, rows| rows.len() == 1 && !found[side][rows[0] as usize]);
            by_key
        });
        let mut pairs: Vec<[u32; 2]> =
            eligible[0].iter().filter_map(|(key, rows)| Some([rows[0], eligible[1].get(key)?[0]])).collect();
        if number > 0 && (pairs.len() as u64) < rules.min_pass {
            pairs.clear();
        }
        for [a, b] in &pairs {
            found[0][*a as usize] = true;
            found[1][*b as usize] = true;
        }
        pairs.sort_unstable();
        all.push(pairs);
    }
    all
}

fn check_against_plaintext(rules: &Rules, passes: &[Vec<usize>], tables: [&[Row]; 2], results: Results) {
    let expected = plaintext(rules, passes, tables);
    if (expected[0].len() as u64) < rules.min_matched {
        for result in results.into_iter().flatten() {
            assert_eq!(result.unwrap_err().exit(), Exit::Refused);
        }
        return;
    }
    let [alice, bob] = matched(results);
    assert_eq!(alice.order_digest(), bob.order_digest());
    assert_eq!(alice.tags, bob.tags);
    assert_eq!(alice.order.len(), bob.order.len());
    let mut pairs = alice.order.iter().zip(&bob.order).map(|(a, b)| [*a, *b]);
    let mut tags = alice.tags.iter();
    for (number, expected) in expected.iter().enumerate() {
        let mut found: Vec<[u32; 2]> = pairs.by_ref().take(expected.len()).collect();
        found.sort_unstable();
        assert_eq!(&found, expected, "pass {number}");
        assert!(tags.by_ref().take(expected.len()).is_sorted());
        for side in [&alice, &bob] {
            assert_eq!(side.passes[number].matched(), expected.len() as u64);
        }
        assert_eq!(alice.passes[number].peer, bob.passes[number].own.eligible);
        assert_eq!(bob.passes[number].peer, alice.passes[number].own.eligible);
    }
    assert_eq!((pairs.next(), tags.next()), (None, None));
}

fn row() -> impl Strategy<Value = Row> {
    let cell = |most: u16| prop::option::weighted(0.9, 0..most);
    (cell(60), cell(40), cell(9)).prop_map(|(a, b, c)| [a, b, c])
}

fn passes() -> impl Strategy<Value = Vec<Vec<usize>>> {
    let parts = prop::sample::subsequence(vec![0, 1, 2], 1..=3);
    prop::collection::vec(parts, 1..4)
}

fn table() -> impl Strategy<Value = Vec<Row>> {
    prop::collection::vec(row(), 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, rng_seed: prop::test_runner::RngSeed::Fixed(14), ..ProptestConfig::default() })]

    #[test]
    fn the_matched_records_are_those_of_a_join_in_the_clear(
        passes in passes(), a in table(), b in table(), min_pass in 1..4_u64
    ) {
        let rules = Rules { min_pass, ..rules(&passes) };
        check_against_plaintext(&rules, &passes, [&a, &b], run(&rules, [&a, &b]));
    }

    #[test]
    fn a_lossy_line_gives_the_same_bits_as_a_clean_line(a in table(), b in table(), seed in any::<u64>()) {
        let passes = [vec![0, 1], vec![1, 2], vec![0]];
        let rules = rules(&passes);
        let through = |faults| {
            let [mut alice, mut bob] = both(&rules, [&a, &b]);
            pair::run(&mut alice, &mut bob, faults, |_, _| {}).results
        };
        let clean = through(Faults::NONE);
        let lossy = through(Faults { drop: 0.2, duplicate: 0.2, reorder: 0.2, seed });
        prop_assert_eq!(format!("{lossy:?}").contains("Bug"), false);
        if let ([Some(Ok(a)), Some(Ok(b))], [Some(Ok(c)), Some(Ok(d))]) = (&clean, &lossy) {
            prop_assert!(a == c && b == d);
        } else {
            for result in clean.iter().chain(&lossy).flatten() {
                prop_assert!(matches!(result, Err(Abort::Refused(_))), "{result:?}");
            }
        }
    }

    #[test]
    fn lists_padded_to_a_capacity_match_the_same_records(a in table(), b in table()) {
        let passes = [vec![0, 1], vec![1, 2]];
        let rules = Rules { capacity: Some(BySide::two(45, 50)), ..rules(&passes) };
        let mut sizes = Vec::new();
        let results = converse(&mut both(&rules, [&a, &b]), |role, message| {
            if let Body::Match(Match::Number(Number { what: NumberKind::Size, number, .. })) = &message.body {
                sizes.push((role, *number));
            }
        });
        let expected = plaintext(&rules, &passes, [&a, &b]);
        let first = expected[0].len() as u64;
        let mut lengths = vec![(Role::Bob, 50), (Role::Alice, 45)];
        if first > 0 {
            lengths.extend([(Role::Bob, 50 - first), (Role::Alice, 45 - first)]);
            let [alice, bob] = matched(results);
            let pairs: Vec<[u32; 2]> = alice.order.iter().zip(&bob.order).map(|(a, b)| [*a, *b]).collect();
            let mut sorted = [pairs[..first as usize].to_vec(), pairs[first as usize..].to_vec()];
            sorted.iter_mut().for_each(|pairs| pairs.sort_unstable());
            prop_assert_eq!(&sorted[..], &expected[..]);
        }
        prop_assert_eq!(sizes, lengths);
    }
}

/// `both` people in both tables, under the same number; others differ.
pub(super) fn overlapping(n: [u16; 2], both: u16) -> [Vec<Row>; 2] {
    let table = |n: u16, from: u16| -> Vec<Row> {
        (0..n).map(|at| if at < both { at } else { from + at }).map(|v| [Some(v), Some(v / 2), Some(v % 9)]).collect()
    };
    [table(n[0], 10_000), table(n[1], 30_000)]
}

#[test]
fn lists_of_several_messages_match_and_no_message_grows_with_them() {
    let [a, mut b] = overlapping([9_000, 17_000], 8_400);
    b.reverse();
    let passes = [vec![0]];
    let rules = Rules { min_matched: 8_400, ..rules(&passes) };
    let (mut parts, mut most) = (0, 0);
    let results = converse(&mut both(&rules, [&a, &b]), |_, message| {
        if let Body::Match(Match::Part(part)) = &message.body {
            parts += 1;
            most = most.max(part.bytes.len());
        }
    });
    check_against_plaintext(&rules, &passes, [&a, &b], results);
    assert_eq!((parts, most), (2 + 3 + 2 + 1 + 2, message::PART_BYTES));
}

#[test]
fn messages_do_not_depend_on_the_order_of_the_file() {
    let [a, b] = overlapping([40, 30], 20);
    let passes = [vec![0], vec![1, 2]];
    let rules = rules(&passes);
    let heard = |a: &[Row], b: &[Row]| {
        let mut heard = Vec::new();
        let results = converse(&mut both(&rules, [a, b]), |_, message| heard.push(message.clone()));
        check_against_plaintext(&rules, &passes, [a, b], results);
        heard
    };
    let mut turned = a.clone();
    turned.rotate_left(7);
    turned.swap(1, 30);
    assert!(heard(&a, &b) == heard(&turned, &b));
}

/// What one side says up to the first message that reveals a record, and whether there is one.
fn before_reveal(heard: &[(Role, Message)]) -> (&[(Role, Message)], bool) {
    let reveals =
        |body: &Body| matches!(body, Body::Match(Match::Part(Part { what: PartKind::Reveal, .. }) | Match::Agree(_)));
    let at = heard.iter().position(|(_, message)| reveals(&message.body));
    (&heard[..at.unwrap_or(heard.len())], at.is_some())
}

#[test]
fn nothing_but_counts_leaves_before_both_have_counted_and_the_gate_is_open() {
    let [a, b] = overlapping([60, 50], 30);
    let passes = [vec![0], vec![1]];
    let rules = rules(&passes);
    let mut heard = Vec::new();
    let results = converse(&mut both(&rules, [&a, &b]), |role, message| heard.push((role, message.clone())));
    matched(results);
    let (before, revealed) = before_reveal(&heard);
    assert!(revealed);
    let (mut sizes, mut counts) = (Vec::new(), Vec::new());
    for (role, message) in before {
        match &message.body {
            Body::Hello(Hello { .. }) | Body::Go | Body::Match(Match::Terms(_)) => {}
            Body::Match(Match::Number(Number { what: NumberKind::Size, number, .. })) => sizes.push((*role, *number)),
            Body::Match(Match::Number(Number { what: NumberKind::Count, number, .. })) => counts.push(*number),
            Body::Match(Match::Part(part)) => {
                // Lists are sorted by what looks random, so that their order says nothing, and hold no key in the clear.
                let entries: Vec<&[u8]> = part.bytes.chunks(part.what.unit()).collect();
                assert!(entries.is_sorted() && entries.len() as u64 <= 60);
                for row in a.iter().chain(&b) {
                    let text = format!("V{}", row[0].unwrap());
                    assert!(text.len() < 4 || !part.bytes.windows(text.len()).any(|seen| seen == text.as_bytes()));
                }
            }
            other => panic!("{} before the gate", crate::conversation::Content::kind(other)),
        }
    }
    assert_eq!(sizes, [(Role::Bob, 50), (Role::Alice, 60)]);
    assert_eq!(counts, [30, 30]);
}

#[test]
fn every_pass_is_masked_by_a_scalar_of_its_own() {
    let [a, b] = overlapping([30, 30], 12);
    let rules = rules(&[vec![0], vec![0]]);
    let mut heard = [Vec::new(), Vec::new()];
    let results = converse(&mut both(&rules, [&a, &b]), |role, message| {
        if let (Role::Alice, Body::Match(Match::Part(part))) = (role, &message.body)
            && part.what == PartKind::Masked
        {
            heard[part.pass as usize].extend(part.bytes.chunks(32).map(<[u8]>::to_vec));
        }
    });
    let [alice, _] = matched(results);
    let (records, mut known) = (records(&rules.keys, &a), Mask::new(30));
    for (number, pass) in rules.keys.passes().iter().enumerate() {
        let eligible = records.eligible(pass, &known).records;
        assert_eq!(eligible.len(), [30, 18][number]);
        let mut expected: Vec<(group::Element, u32)> = eligible.into_iter().map(|record| ([0; 32], record)).collect();
        let messages = records.messages(pass, &DIGEST);
        let scalar = Scalar::derive(&[1; 32], &RUN, number as u32).unwrap();
        scalar.mask(&mut expected, |record, message| messages.write(*record, message));
        expected.sort_unstable();
        assert_eq!(heard[number], expected.iter().map(|(element, _)| element.to_vec()).collect::<Vec<_>>());
        alice.order.iter().take(12).for_each(|record| known.set(*record as usize));
    }
}

#[test]
fn a_first_pass_with_too_few_matches_ends_at_both_and_reveals_nothing() {
    let [a, b] = overlapping([40, 40], 20);
    let passes = [vec![0]];
    let with = |study: u64, alice: Option<u64>, bob: Option<u64>| {
        let rules = Rules { min_matched: study, ..rules(&passes) };
        let side = |role, rows: &[Row], min_matched| {
            let policy = Policy { min_matched, max_peer_rows: None };
            open(role, Inputs { policy, ..inputs(&rules, rows) }).unwrap()
        };
        let mut sessions = [side(Role::Alice, &a, alice), side(Role::Bob, &b, bob)];
        let mut heard = Vec::new();
        let results = converse(&mut sessions, |role, message| heard.push((role, message.clone())));
        let revealed = before_reveal(&heard).1;
        let passes = sessions.map(|session| session.passes().to_vec());
        (results, revealed, passes)
    };
    for (study, alice, bob) in [(21, None, None), (1, Some(21), None), (1, None, Some(21)), (20, Some(5), Some(22))] {
        let (results, revealed, passes) = with(study, alice, bob);
        assert!(!revealed);
        for result in results.iter().flatten() {
            let abort = result.as_ref().unwrap_err();
            assert_eq!(abort.exit(), Exit::Refused);
            // The sentence passes the coordinator.
            assert!(!abort.to_string().chars().any(|letter| letter.is_ascii_digit() && letter != '0'), "{abort}");
        }
        assert!(results.iter().any(Option::is_some));
        for side in passes {
            assert!(side.iter().all(|pass| pass.counted == 20 && !pass.revealed && pass.matched() == 0));
        }
    }
    assert!(with(20, Some(20), Some(1)).1);
}

#[test]
fn a_later_pass_with_too_few_matches_is_left_and_the_next_one_goes_on() {
    // k0 finds 10 people, k1 two more, k2 four more.
    let a: Vec<Row> = (0..40).map(|at| [Some(at), Some(100 + at), Some(200 + at)]).collect();
    let b: Vec<Row> = (0..40)
        .map(|at| match at {
            0..10 => [Some(at), None, None],
            10..12 => [None, Some(100 + at), None],
            12..16 => [None, None, Some(200 + at)],
            _ => [Some(500 + at), None, None],
        })
        .collect();
    let passes = [vec![0], vec![1], vec![2]];
    let rules = Rules { min_pass: 3, ..rules(&passes) };
    let mut reveals = Vec::new();
    let results = converse(&mut both(&rules, [&a, &b]), |_, message| {
        if let Body::Match(Match::Part(part)) = &message.body
            && part.what == PartKind::Reveal
        {
            reveals.push(part.pass);
        }
    });
    let [alice, bob] = matched(results);
    assert_eq!(alice.passes.iter().map(PassCounts::matched).collect::<Vec<u64>>(), [10, 0, 4]);
    assert_eq!(alice.passes.iter().map(|pass| pass.counted).collect::<Vec<u64>>(), [10, 2, 4]);
    assert_eq!(reveals, [0, 0, 2, 2]);
    assert_eq!(alice.order.len(), 14);
    assert_eq!(alice.order_digest(), bob.order_digest());
}

#[test]
fn tables_that_cannot_be_matched_are_refused_before_anything_is_said() {
    let passes = [vec![0]];
    let twice: Vec<Row> = vec![[Some(1), None, None], [Some(2), None, None], [Some(1), None, None]];
    let refusing = Rules { duplicates: Duplicates::Refuse, ..rules(&passes) };
    let abort = open(Role::Alice, inputs(&refusing, &twice)).err().unwrap();
    assert_eq!(abort.exit(), Exit::Data);
    assert!(!abort.sentence_for_peer(Role::Alice).contains("records 1"));
    let [a, _] = overlapping([20, 20], 5);
    let small = Rules { max_rows: BySide::two(19, 100), ..rules(&passes) };
    assert_eq!(open(Role::Alice, inputs(&small, &a)).err().unwrap().exit(), Exit::Refused);
    assert!(open(Role::Bob, inputs(&small, &a)).is_ok());
    let short = Rules { capacity: Some(BySide::two(19, 30)), ..rules(&passes) };
    assert_eq!(open(Role::Alice, inputs(&short, &a)).err().unwrap().exit(), Exit::Refused);
}

#[test]
fn a_peer_with_a_longer_list_than_allowed_is_refused_before_the_own_list_leaves() {
    let [a, b] = overlapping([10, 60], 10);
    let passes = [vec![0]];
    for (max_bob, policy) in [(59, None), (100, Some(59))] {
        // Bob's own study says more, or he would refuse himself.
        let rules_of = |bob| Rules { max_rows: BySide::two(100, bob), ..rules(&passes) };
        let policy = Policy { min_matched: None, max_peer_rows: policy };
        let alice = open(Role::Alice, Inputs { policy, ..inputs(&rules_of(max_bob), &a) }).unwrap();
        let bob = open(Role::Bob, inputs(&rules_of(100), &b)).unwrap();
        let mut parts = 0;
        let results = converse(&mut [alice, bob], |_, message| {
            parts += usize::from(matches!(message.body, Body::Match(Match::Part(_))));
        });
        let abort = results[0].as_ref().unwrap().as_ref().unwrap_err();
        assert_eq!((abort.exit(), parts), (Exit::Refused, 0), "{abort}");
    }
}

#[test]
fn empty_tables_and_those_of_one_record_end_as_any_other() {
    let passes = [vec![0], vec![1]];
    let one: Vec<Row> = vec![[Some(1), Some(1), None]];
    let other: Vec<Row> = vec![[Some(2), Some(1), None]];
    for (a, b) in [(vec![], vec![]), (one.clone(), vec![]), (vec![], one.clone()), (one.clone(), other)] {
        let rules = rules(&passes);
        check_against_plaintext(&rules, &passes, [&a, &b], run(&rules, [&a, &b]));
    }
    let [alice, _] = matched(run(&rules(&passes), [&one, &one]));
    assert_eq!(alice.order, [0]);
}

#[test]
fn nothing_that_is_printed_shows_a_record() {
    let [a, b] = overlapping([12, 12], 12);
    let [alice, _] = matched(run(&rules(&[vec![0]]), [&a, &b]));
    assert_eq!(format!("{alice:?}"), "Matched(12 records in 1 passes)");
    let keys = keys(&[vec![0]]);
    assert_eq!(format!("{:?}", records(&keys, &a)), "Records(12 of 1 keys)");
}
