//! A dealer beside simulated parties.

use crate::id::{Header, Role, RunId};
use crate::methods::vertical::message::{Body, Dealt, Message};
use crate::secure::dealing::{Dealing, Portion, Step};
use crate::session::Order;
use crate::study::{Study, Vertical};

/// A dealer for [`run_dealt`](super::pair::run_dealt), where Alice is the first session and Bob the second, and for
/// [`run_several`](super::several::run_several). Where orders are refused it says nothing more. `spoil` sees what goes to which side before it goes, and may change it.
pub fn dealer(
    study: &Study<Vertical>,
    run: RunId,
    spoil: impl FnMut(usize, &mut Dealt),
) -> impl FnMut(usize, Order) -> Vec<(usize, Message)> {
    let parties = study.parties_in_order().len();
    seeded(study, run, (0..parties).map(|place| [11 + place as u8; 32]).collect(), spoil)
}

/// The same with seeds of one's own, for a run that is dealt for again.
pub fn seeded(
    study: &Study<Vertical>,
    run: RunId,
    seeds: Vec<[u8; 32]>,
    mut spoil: impl FnMut(usize, &mut Dealt),
) -> impl FnMut(usize, Order) -> Vec<(usize, Message)> {
    let names: Vec<String> = study.parties_in_order().iter().map(Role::to_string).collect();
    let study = study.digest();
    let mut sent = vec![0; names.len()];
    let mut dealing = Dealing::new(names, seeds, study, run);
    move |from, order| {
        if dealing.order(from, order).is_err() {
            return Vec::new();
        }
        let mut dealt = Vec::new();
        while let Some(step) = dealing.step() {
            match step {
                Step::Seed(place, seed) => dealt.push((place, Dealt::Seed(seed))),
                Step::Several(_, mut dealer) => {
                    while dealer.step() {}
                    let corrections = dealer.finish().unwrap_or_default().into_iter().zip(1..);
                    dealt.extend(corrections.map(|(correction, place)| (place, Dealt::Correction(correction))));
                }
                Step::Table(_, mut dealer) => {
                    while dealer.step() {}
                    dealt.extend(dealer.finish().ok().map(|correction| (1, Dealt::Correction(correction.0))));
                }
                Step::Product(_, mut product) => {
                    while let Ok(Some(portion)) = product.step() {
                        match portion {
                            Portion::Nothing => {}
                            Portion::Rows(first, both) => {
                                let each = both.into_iter().enumerate();
                                dealt.extend(each.filter_map(|(to, rows)| Some((to, Dealt::Rows(first, rows?)))));
                            }
                            Portion::Last(entries) => dealt.push((1, Dealt::Correction(entries))),
                        }
                    }
                }
            }
        }
        let message = |(to, mut dealt): (usize, Dealt)| {
            spoil(to, &mut dealt);
            let header = Header { study, run, sender: Role::Coordinator, sequence: sent[to] };
            sent[to] += 1;
            (to, Message { header, body: Body::Dealt(dealt) })
        };
        dealt.into_iter().map(message).collect()
    }
}
