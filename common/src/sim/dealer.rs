//! A dealer beside two simulated parties.

use crate::id::{Header, Role, RunId};
use crate::methods::vertical::message::{Body, Dealt, Message};
use crate::secure::dealing::{Dealing, Portion, Step};
use crate::secure::product::Side;
use crate::session::Order;
use crate::study::{Study, Vertical};

/// A dealer for [`run_dealt`](super::pair::run_dealt): Alice is the first session, Bob the second. Where orders are refused it says nothing
/// more. `spoil` sees what goes to which side before it goes, and may change it.
pub fn dealer(
    study: &Study<Vertical>,
    run: RunId,
    spoil: impl FnMut(usize, &mut Dealt),
) -> impl FnMut(usize, Order) -> Vec<(usize, Message)> {
    seeded(study, run, [[11; 32], [12; 32]], spoil)
}

/// The same with seeds of one's own, for a run that is dealt for again.
pub fn seeded(
    study: &Study<Vertical>,
    run: RunId,
    seeds: [[u8; 32]; 2],
    mut spoil: impl FnMut(usize, &mut Dealt),
) -> impl FnMut(usize, Order) -> Vec<(usize, Message)> {
    let study = study.digest();
    let names = [Role::Alice, Role::Bob].map(|role| role.to_string());
    let mut dealing = Dealing::new(names, seeds, study, run);
    let mut sent = [0, 0];
    move |from, order| {
        let side = if from == 0 { Side::Left } else { Side::Right };
        if dealing.order(side, order).is_err() {
            return Vec::new();
        }
        let mut dealt = Vec::new();
        while let Some(step) = dealing.step() {
            match step {
                Step::Seed(Side::Left, seed) => dealt.push((0, Dealt::Seed(seed))),
                Step::Seed(Side::Right, seed) => dealt.push((1, Dealt::Seed(seed))),
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
