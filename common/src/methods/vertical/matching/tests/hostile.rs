//! An authenticated peer that does not follow the protocol.

use super::super::message::Terms;
use super::*;

type Change = fn(&mut Part);

/// Bob's messages, changed, at Alice: her end, and what she said after the change.
fn against(mut change: impl FnMut(&mut Match) -> bool) -> (Abort, Vec<Message>) {
    let [a, b] = overlapping([40, 30], 20);
    let rules = rules(&[vec![0], vec![1]]);
    let (mut changed, mut after) = (false, Vec::new());
    let results = converse(&mut both(&rules, [&a, &b]), |role, message| {
        if let (Role::Bob, Body::Match(of_match)) = (role, &mut message.body)
            && !changed
        {
            changed = change(of_match);
        } else if changed && role == Role::Alice {
            after.push(message.clone());
        }
    });
    assert!(changed);
    (results.into_iter().next().unwrap().unwrap().unwrap_err(), after)
}

/// The same for the first part of a list.
fn part(what: PartKind, change: impl Fn(&mut Part)) -> (Exit, bool) {
    let (abort, after) = against(|message| match message {
        Match::Part(part) if part.what == what => {
            change(part);
            true
        }
        _ => false,
    });
    // Alice may say what was hers to say before she looked at the list; she reveals nothing.
    let reveals = |message: &Message| {
        matches!(&message.body, Body::Match(Match::Part(Part { what: PartKind::Reveal, .. }) | Match::Agree(_)))
    };
    (abort.exit(), after.iter().any(reveals))
}

#[test]
fn elements_that_are_none_and_lists_out_of_order_end_the_run() {
    let cases: [(&str, Change); 9] = [
        ("identity", |part| part.bytes[..32].fill(0)),
        ("not canonical", |part| {
            let at = part.bytes.len() - 32;
            part.bytes[at..].fill(0xff);
        }),
        ("negative", |part| {
            part.bytes[..32].fill(0);
            part.bytes[0] = 1;
        }),
        ("descending", |part| {
            let (first, second) = part.bytes.split_at_mut(32);
            first.swap_with_slice(&mut second[..32]);
        }),
        ("repeated", |part| part.bytes.copy_within(..32, 32)),
        ("truncated by an element", |part| part.bytes.truncate(part.bytes.len() - 32)),
        ("truncated within an element", |part| part.bytes.truncate(part.bytes.len() - 1)),
        ("another place", |part| part.first = 1),
        ("another pass", |part| part.pass = 1),
    ];
    for (name, change) in cases {
        assert_eq!(part(PartKind::Masked, change), (Exit::Peer, false), "{name}");
    }
}

#[test]
fn tags_out_of_order_and_positions_that_cannot_be_end_the_run() {
    let cases: [(PartKind, &str, Change); 7] = [
        (PartKind::Doubled, "descending", |part| {
            let (first, second) = part.bytes.split_at_mut(16);
            first.swap_with_slice(&mut second[..16]);
        }),
        (PartKind::Doubled, "repeated", |part| part.bytes.copy_within(..16, 16)),
        (PartKind::Doubled, "truncated", |part| part.bytes.truncate(16)),
        (PartKind::Doubled, "invented", |part| part.bytes.chunks_mut(16).for_each(|tag| tag[15] ^= 1)),
        (PartKind::Reveal, "repeated", |part| part.bytes.copy_within(..4, 4)),
        (PartKind::Reveal, "beyond the list", |part| part.bytes[..4].copy_from_slice(&40_u32.to_le_bytes())),
        (PartKind::Reveal, "truncated", |part| part.bytes.truncate(4)),
    ];
    for (what, name, change) in cases {
        assert_eq!(part(what, change).0, Exit::Peer, "{name}");
    }
    // In the wrong order the proof fails.
    assert_eq!(part(PartKind::Reveal, |part| part.bytes.chunks_mut(4).for_each(|at| at.reverse())).0, Exit::Peer);
    let swapped = part(PartKind::Reveal, |part| {
        let (first, second) = part.bytes.split_at_mut(4);
        first.swap_with_slice(&mut second[..4]);
    });
    assert_eq!(swapped.0, Exit::Peer);
}

#[test]
fn sizes_and_counts_that_cannot_be_end_the_run() {
    let number = |kind: NumberKind, change: fn(&mut Number)| {
        let (abort, after) = against(|message| match message {
            Match::Number(number) if number.what == kind => {
                change(number);
                true
            }
            _ => false,
        });
        let parts = after.iter().filter(|message| matches!(message.body, Body::Match(Match::Part(_)))).count();
        (abort.exit(), parts)
    };
    for huge in [|of: &mut Number| of.number = 1 << 63, |of: &mut Number| of.number = u64::MAX] {
        assert_eq!(number(NumberKind::Size, huge), (Exit::Refused, 0));
    }
    // A longer list than was announced is not taken either.
    assert_eq!(number(NumberKind::Size, |of| of.number -= 1).0, Exit::Peer);
    assert_eq!(number(NumberKind::Size, |of| of.pass = 1), (Exit::Peer, 0));
    assert_eq!(number(NumberKind::Count, |of| of.number += 1), (Exit::Peer, 0));
    assert_eq!(number(NumberKind::Count, |of| of.number = 0), (Exit::Peer, 0));
    assert_eq!(number(NumberKind::Count, |of| of.what = NumberKind::Size), (Exit::Peer, 0));
}

#[test]
fn other_rules_of_normalisation_are_refused() {
    let terms = |change: fn(&mut Terms)| {
        let (abort, after) = against(|message| match message {
            Match::Terms(terms) => {
                change(terms);
                true
            }
            _ => false,
        });
        assert!(after.is_empty());
        abort
    };
    assert_eq!(terms(|terms| terms.normaliser += 1).exit(), Exit::Refused);
    for change in
        [|t: &mut Terms| t.unicode[0] += 1, |t: &mut Terms| t.unicode[1] += 1, |t: &mut Terms| t.unicode[2] -= 1]
    {
        let abort = terms(change);
        assert!(abort.exit() == Exit::Refused && abort.to_string().contains("same release"), "{abort}");
    }
}

#[test]
fn the_own_proof_sent_back_is_no_proof() {
    let [a, b] = overlapping([40, 30], 20);
    let rules = rules(&[vec![0]]);
    // Bob speaks first, so it is Alice who can send back what he said: his element, with which both proofs are of the same element but
    // for the names in them, his proof, or both.
    for echoed in [[true, false], [false, true], [true, true]] {
        let mut said = Vec::new();
        let results = converse(&mut both(&rules, [&a, &b]), |role, message| {
            if let Body::Match(Match::Agree(value)) = &mut message.body {
                match role {
                    Role::Alice if echoed[said.len() - 1] => *value = said[said.len() - 1],
                    Role::Alice => {}
                    _ => said.push(*value),
                }
            }
        });
        // Where the last proof alone is an echo, Alice, who has Bob's, is done.
        let [alice, bob] = results.map(|result| result.map(|result| result.map_err(|abort| abort.exit())));
        let bob_refuses = matches!(bob, Some(Err(Exit::Peer)));
        assert!(bob_refuses || matches!((alice, bob), (Some(Err(Exit::Peer)), None)), "{echoed:?}");
        assert_eq!(said.len(), 2);
    }
}

#[test]
fn who_names_a_record_without_its_key_gets_no_proof_to_test_guesses_on() {
    let [a, b] = overlapping([40, 30], 20);
    let rules = rules(&[vec![0]]);
    // Alice, who speaks second, names a position that did not match in place of one that did: Bob then holds a key that she lacks.
    let mut proofs = Vec::new();
    let results = converse(&mut both(&rules, [&a, &b]), |role, message| match &mut message.body {
        Body::Match(Match::Part(part)) if part.what == PartKind::Reveal && role == Role::Alice => {
            let positions: Vec<u32> = part.bytes.as_chunks().0.iter().map(|at| u32::from_le_bytes(*at)).collect();
            let other = (0..30).find(|at| !positions.contains(at)).unwrap();
            part.bytes[..4].copy_from_slice(&u32::to_le_bytes(other));
        }
        Body::Match(Match::Agree(value)) => proofs.push((role, *value)),
        _ => {}
    });
    let [alice, bob] = results;
    assert!([alice, bob].into_iter().flatten().any(|result| result.is_err_and(|abort| abort.exit() == Exit::Peer)));
    // What Bob says of his records depends on a secret of his own: with another one the same records say something else.
    let opening = Opening { first: true, run: RUN, seed: [9; 32], peer: Role::Alice };
    let [alice, _] = both(&rules, [&a, &b]);
    let bob = MatchSession::new(Role::Bob, Purpose::MatchFit, &study(), inputs(&rules, &b), opening).unwrap();
    let _ = converse(&mut [alice, bob], |_, message| {
        if let Body::Match(Match::Agree(value)) = &message.body {
            proofs.push((Role::Coordinator, *value));
        }
    });
    let mut values: Vec<Digest> = proofs.iter().map(|(_, value)| *value).collect();
    values.sort_unstable();
    values.dedup();
    assert_eq!(values.len(), proofs.len());
    // Two elements, one proof or two, and then all four of the honest run.
    assert!(proofs.len() >= 2 + 1 + 4, "{proofs:?}");
}

#[test]
fn a_list_sent_back_matches_nothing() {
    // Each of Alice's elements, sent back to her as Bob's own.
    let mut own = None;
    let [a, _] = overlapping([20, 20], 20);
    let rules = rules(&[vec![0]]);
    let results = converse(&mut both(&rules, [&a, &a]), |role, message| {
        if let Body::Match(Match::Part(part)) = &mut message.body
            && part.what == PartKind::Masked
        {
            match (role, &own) {
                (Role::Bob, _) => own = Some(part.bytes.clone()),
                (_, Some(echo)) => part.bytes = echo.clone(),
                (_, None) => panic!("Bob speaks first"),
            }
        }
    });
    for result in results.into_iter().flatten() {
        assert!([Exit::Peer, Exit::Refused].contains(&result.unwrap_err().exit()));
    }
}

#[test]
fn keys_normalised_otherwise_on_one_side_are_not_matched_to_another_record() {
    // Were cells compared as they stand, `v1` and ` V-1 ` would differ.
    let rules = rules(&[vec![0]]);
    let column = |cells: [&str; 3]| {
        let mut column = Cells::default();
        cells.iter().for_each(|cell| column.push(cell.as_bytes()));
        let source = Source { column: "k0".to_owned(), reading: Reading::Text, missing: Marks::default() };
        Arc::new(Records::normalise(&rules.keys, vec![(source, column)]).unwrap())
    };
    let side = |role, cells| open(role, Inputs { records: column(cells), ..inputs(&rules, &[]) }).unwrap();
    let alice = side(Role::Alice, ["v1", "v2", "V3"]);
    let bob = side(Role::Bob, ["v 3", "v-02", " V1 "]);
    let [alice, bob] = matched(converse(&mut [alice, bob], |_, _| {}));
    let mut pairs: Vec<[u32; 2]> = alice.order.iter().zip(&bob.order).map(|(a, b)| [*a, *b]).collect();
    pairs.sort_unstable();
    assert_eq!(pairs, [[0, 2], [2, 0]]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, rng_seed: prop::test_runner::RngSeed::Fixed(15), ..ProptestConfig::default() })]

    #[test]
    fn a_changed_byte_of_any_message_ends_the_run_or_changes_no_match(
        at in 0..40_usize, byte in any::<prop::sample::Index>(), change in 1..=255_u8
    ) {
        let [a, b] = overlapping([20, 16], 9);
        let passes = [vec![0], vec![0]];
        let rules = rules(&passes);
        let mut number = 0;
        let results = converse(&mut both(&rules, [&a, &b]), |_, message| {
            number += 1;
            if let Body::Match(of_match) = &mut message.body
                && number == at
            {
                match of_match {
                    Match::Part(part) => {
                        let place = byte.index(part.bytes.len());
                        part.bytes[place] ^= change;
                    }
                    Match::Agree(proof) => proof.0[byte.index(32)] ^= change,
                    Match::Number(of) => of.number ^= u64::from(change) << (8 * byte.index(8)),
                    // More records asked for, or another version: both ways to refuse.
                    Match::Terms(terms) => terms.min_matched ^= u64::from(change) << 8,
                    Match::Draw(draw) => draw[0] ^= change.max(1),
                }
            }
        });
        let expected = plaintext(&rules, &passes, [&a, &b]).concat();
        for (side, result) in results.into_iter().enumerate() {
            match result {
                Some(Ok(matched)) => {
                    let mut own = matched.order;
                    own.sort_unstable();
                    let mut known: Vec<u32> = expected.iter().map(|pair| pair[side]).collect();
                    known.sort_unstable();
                    prop_assert_eq!(own, known);
                }
                Some(Err(abort)) => prop_assert!([Exit::Peer, Exit::Refused].contains(&abort.exit()), "{abort}"),
                None => {}
            }
        }
    }
}
