//! A dealer beside two simulated parties.

use crate::id::{Header, Role, RunId};
use crate::methods::vertical::message::{Body, Dealt, Message};
use crate::secure::dealing::{Dealing, Step};
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
        let Order::Table(shape) = order;
        let side = if from == 0 { Side::Left } else { Side::Right };
        if dealing.order(side, shape).is_err() {
            return Vec::new();
        }
        let mut messages = Vec::new();
        while let Some(step) = dealing.step() {
            let (to, mut dealt) = match step {
                Step::Seed(Side::Left, seed) => (0, Dealt::Seed(seed)),
                Step::Seed(Side::Right, seed) => (1, Dealt::Seed(seed)),
                Step::Table(_, mut dealer) => {
                    while dealer.step() {}
                    let Ok(correction) = dealer.finish() else { continue };
                    (1, Dealt::Correction(correction.0))
                }
            };
            spoil(to, &mut dealt);
            let header = Header { study, run, sender: Role::Coordinator, sequence: sent[to] };
            sent[to] += 1;
            messages.push((to, Message { header, body: Body::Dealt(dealt) }));
        }
        messages
    }
}
