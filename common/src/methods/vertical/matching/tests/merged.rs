//! A match through the coordinator.

use super::*;
use crate::secure::merging::{DUMMIES, Merged, Request, SHARED};
use crate::session::PeerFault;
use crate::sim::merger::merger;

fn sessions(rules: &Rules, tables: [&[Row]; 2]) -> [MatchSession; 2] {
    let side = |role, rows| open(role, Inputs { coordinated: true, ..inputs(rules, rows) }).unwrap();
    [side(Role::Alice, tables[0]), side(Role::Bob, tables[1])]
}

fn spoilt(
    rules: &Rules,
    tables: [&[Row]; 2],
    faults: Faults,
    observe: impl FnMut(usize, &Message),
    spoil: impl FnMut(usize, &mut Merged),
) -> Results {
    let [mut alice, mut bob] = sessions(rules, tables);
    let study = study();
    let merge = merger(&study, RUN, spoil);
    pair::run_merged(&mut alice, &mut bob, faults, observe, merge).results
}

fn through(rules: &Rules, tables: [&[Row]; 2]) -> Results {
    spoilt(rules, tables, Faults::NONE, |_, _| {}, |_, _| {})
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, rng_seed: prop::test_runner::RngSeed::Fixed(15), ..ProptestConfig::default() })]

    #[test]
    fn the_coordinator_finds_the_records_of_a_join_in_the_clear(
        passes in passes(), a in table(), b in table(), min_pass in 1..4_u64
    ) {
        let rules = Rules { min_pass, ..rules(&passes) };
        check_against_plaintext(&rules, &passes, [&a, &b], through(&rules, [&a, &b]));
    }

    #[test]
    fn a_lossy_line_between_the_parties_changes_nothing(a in table(), b in table(), seed in any::<u64>()) {
        let passes = [vec![0, 1], vec![1, 2], vec![0]];
        let rules = rules(&passes);
        let faults = Faults { drop: 0.2, duplicate: 0.2, reorder: 0.2, seed };
        let lossy = spoilt(&rules, [&a, &b], faults, |_, _| {}, |_, _| {});
        prop_assert_eq!(format!("{lossy:?}").contains("Bug"), false);
        if let ([Some(Ok(a)), Some(Ok(b))], [Some(Ok(c)), Some(Ok(d))]) = (&through(&rules, [&a, &b]), &lossy) {
            prop_assert!(a == c && b == d);
        } else {
            prop_assert!(lossy.iter().flatten().all(|result| matches!(result, Err(Abort::Refused(_)))), "{lossy:?}");
        }
    }
}

#[test]
fn it_finds_what_the_parties_find_between_them() {
    let [a, mut b] = overlapping([9_000, 17_000], 8_400);
    b.reverse();
    let rules = rules(&[vec![0], vec![1]]);
    let pairs = |results| {
        let [alice, bob] = matched(results);
        let mut pairs: Vec<_> = alice.order.into_iter().zip(bob.order).collect();
        pairs.sort_unstable();
        (pairs, alice.passes)
    };
    assert_eq!(pairs(through(&rules, [&a, &b])), pairs(run(&rules, [&a, &b])));
}

#[test]
fn a_capacity_hides_the_lengths_of_the_lists_here_too() {
    let [a, b] = overlapping([40, 30], 20);
    let rules = Rules { capacity: Some(BySide::two(45, 50)), ..rules(&[vec![0]]) };
    let mut told = Vec::new();
    let results = spoilt(
        &rules,
        [&a, &b],
        Faults::NONE,
        |_, _| {},
        |side, merged| {
            if let Merged::Passed { entries, .. } = merged {
                told.push((side, *entries));
            }
        },
    );
    assert_eq!(matched(results)[0].order.len(), 20);
    assert_eq!(told, [0, 1].map(|side| (side, 45 + 50 + 2 * DUMMIES)));
}

#[test]
fn a_closed_gate_ends_it_at_both_and_no_position_is_asked_for() {
    let [a, b] = overlapping([40, 30], 20);
    for (fewest, opens) in [(20, true), (21, false)] {
        let rules = Rules { min_matched: fewest, ..rules(&[vec![0]]) };
        let [mut alice, mut bob] = sessions(&rules, [&a, &b]);
        let (study, mut asked, mut told) = (study(), 0, false);
        let mut merge = merger(&study, RUN, |_, merged| told |= matches!(merged, Merged::Positions { .. }));
        let ended = pair::run_merged(
            &mut alice,
            &mut bob,
            Faults::NONE,
            |_, _| {},
            |side, request| {
                asked += usize::from(matches!(request, Request::Positions { .. }));
                merge(side, request)
            },
        );
        drop(merge);
        assert_eq!((asked, told), if opens { (2, true) } else { (0, false) });
        for result in ended.results.into_iter().flatten() {
            assert_eq!(result.map_err(|abort| abort.exit()).err(), (!opens).then_some(Exit::Refused));
        }
    }
}

#[test]
fn a_later_pass_with_too_few_matches_is_left_here_too() {
    let [a, b] = overlapping([40, 30], 20);
    let (mut a, mut b) = (a, b);
    // Two people whom the second pass alone finds.
    for (at, who) in [(30, 21_000), (31, 21_001)] {
        a[at] = [Some(1_000 + at as u16), Some(who), None];
        b[at - 8] = [Some(2_000 + at as u16), Some(who), None];
    }
    let passes = [vec![0], vec![1]];
    for (fewest, found) in [(2, 22), (3, 20)] {
        let rules = Rules { min_pass: fewest, ..rules(&passes) };
        let results = through(&rules, [&a, &b]);
        assert_eq!(results[0].as_ref().unwrap().as_ref().unwrap().order.len(), found);
        check_against_plaintext(&rules, &passes, [&a, &b], results);
    }
}

#[test]
fn no_tag_passes_between_the_parties_and_neither_draw_is_the_secret() {
    let [a, b] = overlapping([40, 30], 20);
    let (mut draws, mut others) = (Vec::new(), 0);
    let results = spoilt(
        &rules(&[vec![0]]),
        [&a, &b],
        Faults::NONE,
        |_, message| match &message.body {
            Body::Match(Match::Draw(draw)) => draws.push(*draw),
            Body::Match(Match::Part(_)) | Body::Merged(_) => others += 1,
            _ => {}
        },
        |_, _| {},
    );
    matched(results);
    assert_eq!((draws.len(), others), (2, 0));
    assert!(draws[0] != draws[1] && draws.iter().all(|draw| *draw != [1; 32] && *draw != [2; 32]));
}

/// Alice's end where the coordinator's first message of a kind is changed for her alone, or for both.
fn against(both: bool, kind: &str, mut change: impl FnMut(&mut Merged)) -> Abort {
    let [a, b] = overlapping([40, 30], 20);
    let mut changed = [false; 2];
    let results = spoilt(
        &rules(&[vec![0], vec![1]]),
        [&a, &b],
        Faults::NONE,
        |_, _| {},
        |side, merged| {
            if merged.kind() == kind && !changed[side] && (both || side == 0) {
                changed[side] = true;
                change(merged);
            }
        },
    );
    results.into_iter().flatten().find_map(Result::err).unwrap()
}

fn count(change: impl Fn(&mut u64)) -> impl Fn(&mut Merged) {
    move |merged| {
        let Merged::Count { count, .. } = merged else { panic!("no count") };
        change(count);
    }
}

fn positions(change: impl Fn(&mut Vec<u32>)) -> impl Fn(&mut Merged) {
    move |merged| {
        let Merged::Positions { positions, .. } = merged else { panic!("no positions") };
        change(positions);
    }
}

#[test]
fn what_cannot_be_is_not_taken_from_the_coordinator() {
    const COUNT: &str = "the count of a merge";
    const POSITIONS: &str = "positions of a merge";
    let sentence = |abort: Abort| {
        assert_eq!(abort.exit(), Exit::Peer, "{abort}");
        assert!(matches!(abort, Abort::Peer { peer: Role::Coordinator, .. }), "{abort}");
        abort.to_string()
    };
    for lie in [0, u64::from(SHARED) - 1, u64::from(SHARED) + 31, 1 << 63, u64::MAX] {
        assert!(sentence(against(false, COUNT, count(|count| *count = lie))).contains("dummies"), "{lie}");
    }
    assert!(sentence(against(false, POSITIONS, positions(|all| all[3] = all[2]))).contains("ascending"));
    assert!(sentence(against(false, POSITIONS, positions(|all| all.swap(0, 1)))).contains("ascending"));
    assert!(sentence(against(false, POSITIONS, positions(|all| *all.last_mut().unwrap() = 168))).contains("own tags"));
    assert!(sentence(against(false, POSITIONS, positions(|all| all.truncate(83)))).contains("follows"));
    assert!(sentence(against(false, POSITIONS, positions(Vec::clear))).contains("follows"));
    for pass in [1, u32::MAX] {
        let abort = against(false, POSITIONS, |merged| {
            let Merged::Positions { pass: of, .. } = merged else { panic!("no positions") };
            *of = pass;
        });
        assert!(matches!(abort, Abort::Peer { fault: PeerFault::Round { .. }, .. }), "{abort}");
    }
    for entries in [0, 40 + 30 + 2 * DUMMIES + 1] {
        sentence(against(false, "the progress of a merge", |merged| {
            let Merged::Passed { entries: of, .. } = merged else { panic!("no progress") };
            *of = entries;
        }));
    }
}

#[test]
fn a_count_that_the_parties_were_not_both_told_ends_the_run() {
    let abort = against(false, "the count of a merge", count(|count| *count += 1));
    assert_eq!(abort.exit(), Exit::Peer, "{abort}");
    assert!(abort.to_string().contains("count"), "{abort}");
}

#[test]
fn a_coordinator_that_drops_matches_is_found_by_the_shared_dummies() {
    // It leaves out every second of what both lists have, towards both alike.
    let [a, b] = overlapping([40, 30], 20);
    let results = spoilt(
        &rules(&[vec![0]]),
        [&a, &b],
        Faults::NONE,
        |_, _| {},
        |_, merged| match merged {
            Merged::Count { count, .. } => *count /= 2,
            Merged::Positions { positions, .. } => *positions = positions.iter().copied().step_by(2).collect(),
            Merged::Passed { .. } => {}
        },
    );
    // With half of 84 fewer than all dummies are left, which the count shows already.
    assert!(results.into_iter().flatten().all(|result| result.unwrap_err().exit() == Exit::Peer));
    let results = spoilt(
        &rules(&[vec![0]]),
        [&a, &b],
        Faults::NONE,
        |_, _| {},
        |_, merged| match merged {
            Merged::Count { count, .. } => *count -= 10,
            Merged::Positions { positions, .. } => drop(positions.drain(30..40)),
            Merged::Passed { .. } => {}
        },
    );
    let abort = results.into_iter().flatten().find_map(Result::err).unwrap();
    assert!(abort.to_string().contains("all dummies that both lists have"), "{abort}");
}

#[test]
fn a_coordinator_that_invents_matches_is_found_by_the_own_dummies() {
    let [a, b] = overlapping([40, 40], 20);
    let abort = against(
        true,
        "positions of a merge",
        positions(|all| {
            let many = all.len() as u32;
            *all = (0..many).collect();
        }),
    );
    assert!(abort.to_string().contains("no dummy that the peer does not have"), "{abort}");
    assert!(
        spoilt(&rules(&[vec![0]]), [&a, &b], Faults::NONE, |_, _| {}, |_, _| {}).iter().flatten().all(Result::is_ok)
    );
}

#[test]
fn a_coordinator_that_names_another_record_is_found_by_a_dummy_or_by_the_proof() {
    let mut by_the_proof = 0;
    for at in (0..264).step_by(3) {
        let mut moved = false;
        let [a, b] = overlapping([400, 300], 200);
        let results = spoilt(
            &rules(&[vec![0]]),
            [&a, &b],
            Faults::NONE,
            |_, _| {},
            |side, merged| {
                let Merged::Positions { positions, .. } = merged else { return };
                let next = positions.get(at + 1).copied().unwrap_or(400 + DUMMIES as u32);
                if side == 0 && positions[at] + 1 < next {
                    positions[at] += 1;
                    moved = true;
                }
            },
        );
        if !moved {
            continue;
        }
        let abort = results.into_iter().flatten().find_map(Result::err).unwrap();
        assert_eq!(abort.exit(), Exit::Peer);
        by_the_proof += usize::from(abort.to_string().contains("proof"));
    }
    assert!(by_the_proof > 0);
}
