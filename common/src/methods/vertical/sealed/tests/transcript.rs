//! What every role receives in a whole run: uniform elements at the parties, and at the dealer what the study declares.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::super::*;
use super::{RUN, opening, prepared, study};
use crate::id::Role;
use crate::methods::vertical::message::{Body, Dealt, JointKind, Message, Product, ProductKind};
use crate::methods::vertical::outcome::VerticalFit;
use crate::methods::vertical::prepare::Policy;
use crate::privacy::openings::OneRun;
use crate::secure::budget;
use crate::secure::kernel::{Kernel, Separated};
use crate::secure::open::Limits;
use crate::secure::product::{RowShape, Shape, Side, VectorShape, WeightedShape};
use crate::secure::ring::{Elements, Width};
use crate::secure::tests::uniform::Uniform;
use crate::session::Order;
use crate::sim::dealer::seeded;
use crate::sim::pair::{self, Ended, Faults};

/// Elements that a party received: Alice (0) or Bob (1), what they are, and from the dealer or from the other party.
pub(super) type Received = (usize, &'static str, Elements);

/// All that passed in a run.
pub(super) struct Transcript {
    pub(super) received: Vec<Received>,
    /// Numbers in the clear, with the side that said them.
    pub(super) joints: Vec<(usize, JointKind, Vec<f64>)>,
    /// What each party asked of the dealer, which hears nothing else.
    pub(super) orders: [Vec<Order>; 2],
    pub(super) ended: Ended<VerticalFit>,
}

/// Runs a study with any number of rows, and with seeds of its own, so that no masks are those of another run.
pub(super) fn transcript(model: &str, values: &[[f64; 6]], run: u8) -> Transcript {
    let study = study("sealed", model);
    let limits = Limits { entropy_bits: 0.0, level_rows: 0, rows_per_column: 0, opened_share: 1e6 };
    let start = |role| {
        let table = prepared(&study, role, values, &Policy { limits, ..Policy::default() }).unwrap();
        SealedSession::new(table, opening(role), Box::new(OneRun))
    };
    let (said, dealt) = (RefCell::new(Vec::new()), RefCell::new(Vec::new()));
    let mut orders = <[Vec<Order>; 2]>::default();
    let mut deal = seeded(&study, RUN, vec![[2 * run; 32], [2 * run + 1; 32]], |to, what| {
        dealt.borrow_mut().extend(match what {
            Dealt::Seed(_) => None,
            Dealt::Correction(entries) => Some((to, "the last correction of a product", entries.clone())),
            Dealt::Rows(_, entries) => Some((to, "corrections of rows", entries.clone())),
        });
    });
    let ordered = |side: usize, order: Order| {
        orders[side].push(order);
        deal(side, order)
    };
    let observe = |from: usize, message: &Message| said.borrow_mut().push((from, message.body.clone()));
    let (mut alice, mut bob) = (start(Role::Alice), start(Role::Bob));
    let ended = pair::run_dealt(&mut alice, &mut bob, Faults::NONE, observe, ordered);
    let (mut received, mut joints) = (dealt.take(), Vec::new());
    // Of a weighted table the weights and the columns with weights come in turn.
    let mut weights = [0, 0];
    for (from, body) in said.take() {
        let entries = match body {
            Body::Masked(masked) => vec![("columns", masked.entries)],
            Body::Share(share) => {
                std::iter::once(("canaries", share.canary)).chain(share.table.map(|table| ("shares", table))).collect()
            }
            Body::Product(Product { what: ProductKind::Canary, entries, .. }) => vec![("canaries", entries)],
            Body::Product(Product { what: ProductKind::Shares, entries, .. }) => vec![("shares", entries)],
            Body::Product(Product { what: ProductKind::Rows, number, entries, .. }) => {
                let what = match orders[0][number as usize] {
                    Order::Table(_) | Order::Several(..) => panic!("rows of a table are no rows of a product"),
                    Order::Rows(_) => "factors",
                    Order::Vector(_) => "residuals",
                    Order::Weighted(shape) => {
                        weights[from] += 1;
                        let sender = usize::from(shape.sender() == Side::Right);
                        if from == sender && weights[from] % 2 == 0 { "columns with weights" } else { "weights" }
                    }
                };
                vec![(what, entries)]
            }
            Body::Joint(joint) => {
                joints.push((from, joint.what, joint.values));
                Vec::new()
            }
            _ => Vec::new(),
        };
        received.extend(entries.into_iter().map(|(what, entries)| (1 - from, what, entries)));
    }
    Transcript { received, joints, orders, ended }
}

/// Rows whose columns and outcome say as much as possible where a mask is missing.
fn adversarial() -> [(&'static str, Vec<[f64; 6]>); 3] {
    let bit = |set: bool| f64::from(u8::from(set));
    let of = |row: &dyn Fn(usize) -> [f64; 6]| (0..4500).map(row).collect();
    [
        // A column of zeros and a constant one, which stay out of the model, and columns of zeros in nearly every row.
        ("zeros", of(&|row| [bit(row % 50 == 0), 0.0, bit(row % 40 == 1), 7.0, bit(row % 60 < 3), bit(row % 3 == 0)])),
        // Two values each, in any place.
        (
            "levels",
            of(&|row| {
                [
                    bit(row % 2 == 0),
                    bit(row % 3 == 0),
                    bit(row % 5 < 2),
                    bit(row % 7 < 3),
                    bit(row % 11 < 5),
                    bit(row % 13 < 6),
                ]
            }),
        ),
        // Values of the largest and the smallest sizes, and one row that is far from all others.
        (
            "extremes",
            of(&|row| {
                let sign = 1.0 - 2.0 * bit(row % 2 == 0);
                [
                    1e150 * sign,
                    1e12 * bit(row == 9) + bit(row % 4 == 0),
                    1e9 + bit(row % 5 == 0),
                    1e-150 * bit(row % 6 < 2),
                    3.0 * sign * bit(row % 9 < 4),
                    bit(row % 13 < 6),
                ]
            }),
        ),
    ]
}

const MODELS: [&str; 2] = ["", "[model]\nfamily = \"binomial\""];

#[test]
fn all_that_a_party_receives_in_a_run_is_uniform_whatever_the_columns() {
    let mut received = BTreeMap::<(usize, &str), Uniform>::new();
    let mut failed = Vec::new();
    for (run, (model, (name, values))) in
        (0..).zip(MODELS.iter().flat_map(|model| adversarial().map(|data| (model, data))))
    {
        for again in [0, 1] {
            let transcript = transcript(model, &values, 2 * run + again);
            for (to, what, elements) in &transcript.received {
                received.entry((*to, what)).or_default().add(elements);
            }
            let aborts = transcript.ended.results.into_iter().flatten().filter_map(Result::err);
            failed.extend(aborts.map(|abort| format!("{model} {name}: {abort}")));
        }
    }
    let mut all = <[Uniform; 2]>::default();
    let mut judged = Vec::new();
    for ((to, what), uniform) in &received {
        all[*to].join(uniform);
        // Of canaries there are too few to be judged alone.
        if *what != "canaries" {
            uniform.check(&format!("{what} at {}", ["alice", "bob"][*to]));
            judged.push((*to, *what));
        }
    }
    for (who, uniform) in ["alice", "bob"].iter().zip(&all) {
        uniform.check(&format!("all at {who}"));
        assert!(uniform.count() > 1_000_000, "{}", uniform.count());
    }
    let both = ["columns", "corrections of rows", "factors", "residuals"];
    let at_alice = both.into_iter().chain(["shares", "weights"]).map(|what| (0, what));
    let at_bob = ["columns", "columns with weights"]
        .into_iter()
        .chain(both.into_iter().skip(1))
        .chain(["the last correction of a product", "weights"])
        .map(|what| (1, what));
    judged.sort_unstable();
    let mut expected: Vec<_> = at_alice.chain(at_bob).collect();
    expected.sort_unstable();
    assert_eq!(judged, expected);
    assert!(failed.is_empty(), "{failed:?}");
}

/// All that an order says. Every field is named: what is added to an order has to be declared here too.
fn said(order: &Order) -> (&'static str, Width, u32, usize, [usize; 2]) {
    match *order {
        Order::Table(Shape { width, bits, rows, left, right }) => ("table", width, bits, rows, [left, right]),
        Order::Rows(RowShape { width, bits, rows, terms, corrected }) => {
            ("rows", width, bits, rows, [terms, usize::from(corrected == Side::Right)])
        }
        Order::Several(..) => panic!("several in a run of two"),
        Order::Vector(VectorShape { width, bits, rows, left, right }) => ("vector", width, bits, rows, [left, right]),
        Order::Weighted(WeightedShape { width, bits, rows, left, right }) => {
            ("weighted", width, bits, rows, [left, right])
        }
    }
}

/// What the dealer may hear of a fit: rows and columns, and for each point the terms of the kernel that follows from the ranges and the
/// digits that the parties say to each other.
fn declared(
    rows: usize,
    [alice, bob]: [usize; 2],
    joints: &[(usize, JointKind, Vec<f64>)],
) -> Vec<(&'static str, Width, u32, usize, [usize; 2])> {
    let (width, bits) = (Width::Two, budget::binomial(rows).unwrap());
    let mut orders = vec![("table", width, bits.columns, rows, [alice + 1, bob])];
    let (mut point, mut class, mut corrected) = ([0.0; 2], 0, 0);
    let mut within = |kernel, class, digits, bits| {
        corrected += 1;
        let terms = Separated::new(kernel, class, digits).unwrap().terms - 1;
        ("rows", width, bits, rows, [terms, corrected % 2])
    };
    for (_, what, values) in joints {
        match what {
            JointKind::Point => point = [values[0], values[1]],
            JointKind::Range => {
                class = point[1].min(values[0]) as usize;
                orders.push(within(Kernel::Mean, class, point[0] as u32, bits.features));
                orders.push(("vector", width, bits.columns, rows, [alice, bob]));
            }
            JointKind::End if values[0] == 0.0 => {
                orders.push(within(Kernel::Weight, class, 9, bits.weights));
                orders.push(within(Kernel::Loss, class, 9, bits.features));
                orders.push(("weighted", width, bits.columns, rows, [alice, bob]));
            }
            _ => {}
        }
    }
    orders
}

#[test]
fn the_dealer_hears_phase_index_terms_and_columns_and_nothing_else() {
    for (run, (name, values)) in (0..).zip(adversarial()) {
        let columns = if name == "zeros" { [1, 2] } else { [2, 3] };
        let gaussian = transcript("", &values, 20 + run);
        let bits = budget::gaussian(values.len()).unwrap();
        let table = ("table", Width::Two, bits, values.len(), [columns[0] + 1, columns[1]]);
        for orders in &gaussian.orders {
            assert_eq!(orders.iter().map(said).collect::<Vec<_>>(), [table], "{name}");
        }
        let binomial = transcript(MODELS[1], &values, 30 + run);
        let declared = declared(values.len(), columns, &binomial.joints);
        for orders in &binomial.orders {
            assert_eq!(orders.iter().map(said).collect::<Vec<_>>(), declared, "{name}");
        }
        assert!(declared.len() > 5 || name == "extremes", "{name} {}", declared.len());
    }
}
