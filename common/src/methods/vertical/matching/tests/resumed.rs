//! A party that is killed and goes on.

use std::collections::VecDeque;

use super::*;
use crate::methods::vertical::message::Rows;
use crate::secure::merging::Merged;
use crate::sim::merger::merger;

#[derive(Clone, Default)]
pub(super) struct Kept {
    pub(super) messages: Arc<Mutex<BTreeMap<u64, Vec<u8>>>>,
    pub(super) begun: bool,
}

impl Journal for Kept {
    fn keep(&mut self, sequence: u64, message: &[u8]) -> Result<(), Abort> {
        self.messages.lock().unwrap().insert(sequence, message.to_vec());
        Ok(())
    }

    fn kept(&mut self, sequence: u64) -> Result<Option<Vec<u8>>, Abort> {
        Ok(self.messages.lock().unwrap().get(&sequence).cloned())
    }

    fn has_begun(&self) -> bool {
        self.begun
    }
}

/// Two parties of which one is killed after it has taken in a number of messages, between them or through the coordinator. Every message
/// that the parties said, without repeats.
fn killed(
    (role, coordinated): (Role, bool),
    after: usize,
    rules: &Rules,
    tables: [&[Row]; 2],
) -> (Results, BTreeMap<(Role, u64), Message>, bool) {
    let study = study();
    let mut merge = merger(&study, RUN, |_, _| {});
    let mut answers: [VecDeque<Message>; 2] = Default::default();
    let kept = Kept::default();
    let side = |of: Role, journal: Option<Kept>| {
        let rows = tables[usize::from(of == Role::Bob)];
        let journal = journal.map(|journal| Box::new(journal) as Box<dyn Journal + Send>);
        open(of, Inputs { journal, coordinated, ..inputs(rules, rows) }).unwrap()
    };
    let mut sessions = [Role::Alice, Role::Bob].map(|of| side(of, (of == role).then(|| kept.clone())));
    let victim = usize::from(role == Role::Bob);
    let mut said: BTreeMap<(Role, u64), Message> = BTreeMap::new();
    let (mut results, mut line): (Results, [Vec<Message>; 2]) = ([None, None], [vec![], vec![]]);
    let (mut taken, mut dead) = (0, false);
    let mut starting = vec![0, 1];
    for _ in 0..10_000 {
        let heard = |side: &usize| results[*side].is_none() && !line[1 - side].is_empty();
        let answered = |side: &usize| results[*side].is_none() && !answers[*side].is_empty();
        let next = match after % 2 {
            0 => (0..2).find(heard).map(|side| (side, true)).or((0..2).find(answered).map(|side| (side, false))),
            _ => (0..2).find(answered).map(|side| (side, false)).or((0..2).find(heard).map(|side| (side, true))),
        };
        let (side, turn) = if let Some(side) = starting.pop() {
            (side, sessions[side].start())
        } else if let Some((side, by_peer)) = next {
            let turn = match by_peer {
                true => {
                    let peer = sessions[1 - side].role();
                    sessions[side].receive(peer, line[1 - side].remove(0))
                }
                false => sessions[side].receive(Role::Coordinator, answers[side].pop_front().unwrap()),
            };
            taken += usize::from(side == victim);
            if side == victim && taken == after && !dead {
                // What it was about to say is lost with it.
                dead = true;
                sessions[side] = side_again((side, coordinated), &kept, rules, tables);
                results[side] = None;
                answers[side].clear();
                line = [vec![], vec![]];
                starting.push(side);
                continue;
            }
            (side, turn)
        } else {
            // Silence: both say their last message again.
            for side in [0, 1] {
                if let Some(again) = sessions[side].resend() {
                    line[side].push(again.into());
                }
            }
            if results.iter().all(Option::is_some) || results.iter().flatten().any(Result::is_err) {
                break;
            }
            continue;
        };
        let message = match turn {
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
                break;
            }
        };
        if let Some(message) = message {
            let message = Message::from(message);
            let key = (message.header.sender, message.header.sequence);
            if let Some(before) = said.insert(key, message.clone()) {
                assert!(before == message, "message {} of {} has other bytes", key.1, key.0);
            }
            line[side].push(message);
        }
        if results[side].is_none() {
            sessions[side].work().unwrap();
        }
        while let Some(request) = sessions[side].request() {
            for (to, message) in merge(side, request) {
                answers[to].push_back(message);
            }
        }
    }
    (results, said, dead)
}

fn side_again((side, coordinated): (usize, bool), kept: &Kept, rules: &Rules, tables: [&[Row]; 2]) -> MatchSession {
    let role = [Role::Alice, Role::Bob][side];
    let begun = !kept.messages.lock().unwrap().is_empty();
    let journal = Kept { begun, messages: Arc::clone(&kept.messages) };
    let journal = Some(Box::new(journal) as Box<dyn Journal + Send>);
    open(role, Inputs { journal, coordinated, ..inputs(rules, tables[side]) }).unwrap()
}

#[test]
fn a_party_that_is_killed_anywhere_says_the_same_bytes_again_and_has_the_same_result() {
    let [a, b] = overlapping([30, 25], 15);
    let rules = rules(&[vec![0], vec![1, 2]]);
    for coordinated in [false, true] {
        let (results, clean, _) = killed((Role::Alice, coordinated), usize::MAX, &rules, [&a, &b]);
        let [alice, bob] = matched(results);
        for role in [Role::Alice, Role::Bob] {
            let mut after = 1;
            loop {
                let (results, said, dead) = killed((role, coordinated), after, &rules, [&a, &b]);
                if !dead {
                    break;
                }
                let again = matched(results);
                assert!(again == [alice.clone(), bob.clone()], "{role} after {after}, {coordinated}");
                assert!(said == clean, "{role} after {after}, {coordinated}");
                after += 1;
            }
            assert!(after > 10, "{after}");
        }
    }
}

#[test]
fn what_was_stored_is_read_as_it_was_said_or_not_at_all() {
    let [a, b] = overlapping([30, 25], 15);
    let (_, said, _) = killed((Role::Alice, false), usize::MAX, &rules(&[vec![0]]), [&a, &b]);
    let mut kinds = std::collections::BTreeSet::new();
    for message in said.values() {
        let bytes = journal::record(&message.body);
        kinds.insert(bytes[0]);
        match &message.body {
            Body::Hello(_) => assert!(journal::recall(&bytes).is_none()),
            body => {
                assert!(journal::recall(&bytes).as_ref() == Some(body));
                // Cut or longer it is no message, or one with another list, which the session refuses.
                if !matches!(body, Body::Match(Match::Part(_))) {
                    assert!(journal::recall(&bytes[..bytes.len() - 1]).is_none());
                }
            }
        }
    }
    assert!(kinds.len() >= 8, "{kinds:?}");
    // Those of a match through the coordinator.
    for (body, cuts) in [
        (Body::Match(Match::Draw([9; 32])), true),
        (Body::Merged(Merged::Passed { pass: 1, entries: 1 << 40 }), true),
        (Body::Merged(Merged::Count { pass: 0, count: 84 }), true),
        (Body::Merged(Merged::Positions { pass: 2, first: 65_536, positions: vec![5, 1 << 31] }), true),
        (Body::Merged(Merged::Positions { pass: 2, first: 0, positions: vec![] }), false),
    ] {
        let bytes = journal::record(&body);
        assert_eq!(journal::recall(&bytes).as_ref() == Some(&body), cuts);
        assert!(journal::recall(&bytes[..bytes.len() - 1]).is_none());
        assert!(journal::recall(&[&bytes[..], b"x"].concat()).is_none());
    }
    // Those of a match by pairs.
    for key in [None, Some([9; 32])] {
        let body = Body::Rows(Rows { key, rows: 140, ids: Digest([8; 32]) });
        let bytes = journal::record(&body);
        assert!(journal::recall(&bytes).as_ref() == Some(&body));
        for other in [&bytes[..bytes.len() - 1], &[&bytes[..], b"x"].concat()] {
            assert!(journal::recall(other).is_none());
        }
    }
    assert!(journal::recall(&[]).is_none() && journal::recall(b"x").is_none());
}
