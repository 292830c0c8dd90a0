//! A coordinator that merges lists, beside two simulated parties.

use crate::id::{Header, Role, RunId};
use crate::methods::vertical::message::{Body, Message};
use crate::secure::merging::{Known, List, Merge, Merged, PART_POSITIONS, PART_TAGS};
use crate::session::Request;
use crate::study::{Study, Vertical};

/// A coordinator for [`run_merged`](super::pair::run_merged). It says nothing more where lists cannot be merged, and nothing twice to a party
/// that knows it. `spoil` sees what goes to which side before it goes, and may change it.
pub fn merger(
    study: &Study<Vertical>,
    run: RunId,
    mut spoil: impl FnMut(usize, &mut Merged),
) -> impl FnMut(usize, Request) -> Vec<(usize, Message)> {
    let study = study.digest();
    let mut lists: [Option<(u32, List)>; 2] = [None, None];
    let (mut known, mut asked) = ([Known::default(); 2], [false; 2]);
    let mut found: Vec<[u32; 2]> = Vec::new();
    let mut sent = [0, 0];
    move |side, request| {
        let mut say = Vec::new();
        match request {
            Request::List { pass, list, known: before } => {
                lists[side] = Some((pass, list));
                (known[side], asked[side], sent[side]) = (before, false, before.messages);
                if let [Some((first, alice)), Some((second, bob))] = &lists
                    && first == second
                {
                    let entries = alice.len() + bob.len();
                    found = merged([tags(alice), tags(bob)]);
                    let count = found.len() as u64;
                    say.extend([0, 1].map(|to| (to, Merged::Passed { pass, entries })));
                    say.extend([0, 1].map(|to| (to, Merged::Count { pass, count })));
                }
            }
            Request::Positions { pass } => {
                asked[side] = true;
                if asked == [true; 2] {
                    for to in [0, 1] {
                        let parts = found.chunks(PART_POSITIONS).enumerate();
                        say.extend(parts.map(|(at, part)| {
                            let positions = part.iter().map(|pair| pair[to]).collect();
                            (to, Merged::Positions { pass, first: (at * PART_POSITIONS) as u64, positions })
                        }));
                    }
                }
            }
        }
        say.retain(|(to, merged)| known[*to].add(merged) != Ok(false));
        let message = |(to, mut merged): (usize, Merged)| {
            spoil(to, &mut merged);
            let header = Header { study, run, sender: Role::Coordinator, sequence: sent[to] };
            sent[to] += 1;
            (to, Message { header, body: Body::Merged(merged) })
        };
        say.into_iter().map(message).collect()
    }
}

fn tags(list: &List) -> Vec<[u8; 16]> {
    list.parts().flat_map(|part| part.as_chunks().0.to_vec()).collect()
}

fn merged(lists: [Vec<[u8; 16]>; 2]) -> Vec<[u32; 2]> {
    let mut found = Vec::new();
    let Some(mut merge) = Merge::new([0, 1].map(|side| lists[side].len() as u64)) else { return found };
    let mut parts = lists.each_ref().map(|list| list.chunks(PART_TAGS));
    while let Some(side) = merge.wants() {
        let part = parts[side].next().unwrap_or_default();
        if merge.take(side, part.to_vec(), &mut found).is_err() {
            break;
        }
    }
    found
}
