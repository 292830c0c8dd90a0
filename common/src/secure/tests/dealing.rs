//! The dealer's decisions: seeds once, orders in pairs, products that the parties' masks fit, and what is refused.

use nalgebra::DMatrix;

use crate::id::{Digest, RunId};
use crate::secure::budget;
use crate::secure::dealing::{Dealing, MOST_ELEMENTS, Order, Portion, Product, Refusal, Step};
use crate::secure::kernel::MOST_TERMS;
use crate::secure::masks::{Labels, Seed};
use crate::secure::product::{
    Correction, Dealer, Party, RowShape, Shape, Side, VectorDealer, VectorShape, WeightedShape,
};
use crate::secure::ring::{Elements, Width};

const SEEDS: [[u8; 32]; 2] = [[3; 32], [4; 32]];
const STUDY: Digest = Digest([1; 32]);
const RUN: RunId = RunId([2; 16]);

fn dealing() -> Dealing {
    Dealing::new(["alice", "bob"].map(str::to_owned).to_vec(), SEEDS.to_vec(), STUDY, RUN)
}

fn shape(rows: usize, left: usize, right: usize) -> Shape {
    Shape { width: Width::Two, bits: budget::gaussian(rows).unwrap_or(0), rows, left, right }
}

fn both(dealing: &mut Dealing, shape: Shape) {
    dealing.order(0, Order::Table(shape)).unwrap();
    dealing.order(1, Order::Table(shape)).unwrap();
}

fn table(step: Option<Step>) -> (Shape, Correction) {
    let Some(Step::Table(shape, mut dealer)) = step else { panic!("no table") };
    while dealer.step() {}
    (shape, dealer.finish().unwrap())
}

fn seed(step: Option<Step>) -> (usize, [u8; 32]) {
    let Some(Step::Seed(side, seed)) = step else { panic!("no seed") };
    (side, seed)
}

#[test]
fn nothing_is_handed_out_before_both_have_ordered_and_each_side_gets_its_own_seed_once() {
    let mut dealing = dealing();
    assert!(dealing.is_done());
    dealing.order(1, Order::Table(shape(50, 2, 3))).unwrap();
    dealing.order(1, Order::Table(shape(50, 2, 1))).unwrap();
    assert!(dealing.step().is_none() && !dealing.is_done());
    dealing.order(0, Order::Table(shape(50, 2, 3))).unwrap();
    assert_eq!(seed(dealing.step()), (0, SEEDS[0]));
    assert_eq!(seed(dealing.step()), (1, SEEDS[1]));
    assert_eq!(table(dealing.step()).0, shape(50, 2, 3));
    assert!(dealing.step().is_none() && !dealing.is_done());
    dealing.order(0, Order::Table(shape(50, 2, 1))).unwrap();
    assert_eq!(table(dealing.step()).0, shape(50, 2, 1));
    assert!(dealing.step().is_none() && dealing.is_done());
}

#[test]
fn labels_go_on_from_one_table_of_a_run_to_the_next() {
    let (mut dealing, wanted) = (dealing(), shape(2049, 2, 1));
    both(&mut dealing, wanted);
    both(&mut dealing, wanted);
    let steps: Vec<Step> = std::iter::from_fn(|| dealing.step()).skip(2).collect();
    let came: Vec<Correction> = steps.into_iter().map(|step| table(Some(step)).1).collect();
    let mut labels = Labels::new(STUDY, RUN);
    for correction in &came {
        let [left, right] = SEEDS.map(Seed::new);
        let mut dealer = Dealer::new(wanted, &left, &right, &mut labels);
        while dealer.step() {}
        assert!(dealer.finish().unwrap() == *correction);
    }
    assert!(came[0] != came[1]);
}

#[test]
fn what_is_dealt_fits_the_masks_of_the_parties() {
    let (mut dealing, wanted) = (dealing(), shape(30, 2, 3));
    both(&mut dealing, wanted);
    let seeds = [seed(dealing.step()), seed(dealing.step())].map(|(_, seed)| Seed::new(seed));
    let (_, correction) = table(dealing.step());
    let x =
        [2, 3].map(|columns| DMatrix::from_fn(30, columns, |row, column| ((7 * row + column) % 5) as f64 / 2.0 - 1.0));
    let mut parties = [Side::Left, Side::Right]
        .map(|side| Party::new(wanted, side, &seeds[(side == Side::Right) as usize], &mut Labels::new(STUDY, RUN)));
    let frames = [0, 1].map(|at| parties[at].hide(&x[at]).unwrap().unwrap());
    parties[0].take(&frames[1], &x[0]).unwrap();
    parties[1].take(&frames[0], &x[1]).unwrap();
    let [left, right] = parties;
    let (left, right) = (left.finish(None).unwrap(), right.finish(Some(&correction)).unwrap());
    let canaries = [left.canary().clone(), right.canary().clone()];
    let (left, right) = (left.check(&canaries[1]).unwrap(), right.check(&canaries[0]).unwrap());
    let opened = left.open(right.share()).unwrap().mean() * 30.0;
    assert!((opened - x[0].transpose() * &x[1]).abs().max() < 1e-9);
}

#[test]
fn different_orders_are_refused_and_every_difference_is_named() {
    let (left, mut dealing) = (shape(100, 4, 5), dealing());
    dealing.order(0, Order::Table(left)).unwrap();
    let refusal = dealing.order(1, Order::Table(shape(90, 4, 6))).unwrap_err();
    let sentence = "alice and bob ordered different tables: rows 100 and 90; columns of bob 5 and 6";
    assert_eq!(refusal.to_string(), sentence);
    assert!(dealing.step().is_none());
    // The orders of one place are compared, not those that came together.
    let mut dealing = self::dealing();
    both(&mut dealing, left);
    dealing.order(1, Order::Table(shape(100, 3, 5))).unwrap();
    let refusal = dealing.order(0, Order::Table(left)).unwrap_err();
    assert_eq!(refusal.to_string(), "alice and bob ordered different tables: columns of alice 4 and 3");
}

#[test]
fn shapes_for_which_nothing_is_proved_or_which_no_message_holds_are_refused() {
    let refused = |shape| dealing().order(1, Order::Table(shape)).unwrap_err();
    for rows in [0, budget::MOST_ROWS + 1, usize::MAX] {
        assert_eq!(refused(shape(rows, 1, 1)), Refusal::Rows { who: "bob".to_owned(), rows });
    }
    assert!(dealing().order(1, Order::Table(shape(budget::MOST_ROWS, 1, 1))).is_ok());
    // A public column stands behind the others on each side.
    assert!(dealing().order(1, Order::Table(shape(2, 4095, 4095))).is_ok());
    assert!(dealing().order(1, Order::Table(shape(2048, 8191, 1))).is_ok());
    assert!(dealing().order(1, Order::Table(shape(1, MOST_ELEMENTS / 2 - 1, 1))).is_ok());
    let sizes = [
        (2, 0, 1),
        (2, 1, 0),
        (2, 4095, 4096),
        (2048, 8192, 1),
        (2048, 1, 8192),
        (1, MOST_ELEMENTS / 2, 1),
        (2, usize::MAX, 1),
        (2, usize::MAX, usize::MAX),
    ];
    for (rows, left, right) in sizes {
        assert_eq!(refused(shape(rows, left, right)), Refusal::Columns { who: "bob".to_owned(), left, right });
    }
    let bits = refused(Shape { bits: 45, ..shape(100, 1, 1) });
    assert_eq!(bits, Refusal::Bits { who: "bob".to_owned(), came: 45, expected: 44, rows: 100 });
    assert!(matches!(refused(Shape { bits: 43, ..shape(100, 1, 1) }), Refusal::Bits { .. }));
    let narrow = refused(Shape { width: Width::One, ..shape(100, 1, 1) });
    assert_eq!(narrow.to_string(), "bob ordered a table of elements of 8 bytes, expected 16");
}

#[test]
fn a_party_that_orders_without_end_is_refused() {
    let mut dealing = dealing();
    let wanted = shape(10, 1, 1);
    let refusal = (0..1000).find_map(|_| dealing.order(0, Order::Table(wanted)).err());
    assert_eq!(refusal.unwrap().to_string(), "alice ordered 64 products more than the other party");
}

/// A run whose table, for a binomial fit, is dealt.
fn with_table(rows: usize) -> (Dealing, budget::Bits) {
    let mut dealing = dealing();
    let bits = budget::binomial(rows).unwrap();
    both(&mut dealing, Shape { bits: bits.columns, ..shape(rows, 3, 2) });
    (0..3).for_each(|_| drop(dealing.step()));
    (dealing, bits)
}

#[test]
fn later_products_fit_the_table_and_their_corrections_go_to_both_sides_in_turn() {
    let (mut dealing, bits) = with_table(100);
    let rows =
        |corrected| Order::Rows(RowShape { width: Width::Two, bits: bits.features, rows: 100, terms: 5, corrected });
    let vector = Order::Vector(VectorShape { width: Width::Two, bits: bits.columns, rows: 100, left: 2, right: 2 });
    for order in [rows(Side::Right), vector, rows(Side::Left), vector, rows(Side::Right)] {
        for place in [0, 1] {
            dealing.order(place, order).unwrap();
        }
        let Some(Step::Product(came, mut product)) = dealing.step() else { panic!("no product") };
        assert_eq!(came, order);
        let mut portions = Vec::new();
        while let Some(portion) = product.step().unwrap() {
            portions.push(portion);
        }
        match (order, &portions[..]) {
            (Order::Rows(shape), [Portion::Rows(0, both)]) => {
                let corrected = both.each_ref().map(|entries| entries.as_ref().map(Elements::count));
                let expected = if shape.corrected == Side::Left { [Some(101), None] } else { [None, Some(101)] };
                assert_eq!(corrected, expected);
                assert_eq!(Product::silent(&order), shape.corrected.other());
            }
            // The masks of the table were expanded for the first one and for some more.
            (Order::Vector(_), [Portion::Nothing, Portion::Last(entries)] | [Portion::Last(entries)]) => {
                assert_eq!(entries.count(), 4);
            }
            _ => panic!("{} portions", portions.len()),
        }
    }
}

#[test]
fn every_product_with_a_vector_has_masks_of_its_own_and_those_of_the_last_table() {
    let (rows, mut dealing) = (2100, dealing());
    let bits = budget::binomial(rows).unwrap().columns;
    let [left, right] = SEEDS.map(Seed::new);
    let mut labels = Labels::new(STUDY, RUN);
    for (left_columns, products) in [(3, 9), (4, 8)] {
        let of_table = Shape { bits, ..shape(rows, left_columns, 2) };
        both(&mut dealing, of_table);
        while let Some(step) = dealing.step() {
            assert!(matches!(step, Step::Seed(..) | Step::Table(..)));
        }
        let masks = Dealer::new(of_table, &left, &right, &mut labels).masks();
        for _ in 0..products {
            let shape = VectorShape { width: Width::Two, bits, rows, left: left_columns, right: 2 };
            (0..2).for_each(|place| dealing.order(place, Order::Vector(shape)).unwrap());
            let Some(Step::Product(_, mut product)) = dealing.step() else { panic!("no product") };
            let mut last = None;
            while let Some(portion) = product.step().unwrap() {
                last = Some(portion);
            }
            let mut alone = VectorDealer::new(shape, &left, &right, &mut labels);
            while alone.step(&masks) {}
            let Some(Portion::Last(correction)) = last else { panic!("no correction") };
            assert_eq!(correction, alone.finish().unwrap());
        }
    }
}

#[test]
fn products_that_do_not_fit_the_table_are_refused() {
    let refused = |order: Order| {
        let (mut dealing, _) = with_table(100);
        dealing.order(0, order).unwrap();
        dealing.order(1, order).unwrap_err().to_string()
    };
    let bits = budget::binomial(100).unwrap();
    let rows = RowShape { width: Width::Two, bits: bits.features, rows: 100, terms: 5, corrected: Side::Right };
    let of_rows = [
        (RowShape { width: Width::One, ..rows }, "not those of the table"),
        (RowShape { rows: 99, ..rows }, "not those of the table"),
        (RowShape { bits: bits.features + 1, ..rows }, "bits for which nothing is proved"),
        (RowShape { bits: bits.weights - 1, ..rows }, "bits for which nothing is proved"),
        (RowShape { terms: 0, ..rows }, "another number of terms"),
        (RowShape { terms: MOST_TERMS + 1, ..rows }, "another number of terms"),
        (RowShape { corrected: Side::Left, ..rows }, "out of turn"),
    ];
    for (shape, says) in of_rows {
        assert!(refused(Order::Rows(shape)).contains(says), "{shape:?}");
    }
    let vector = VectorShape { width: Width::Two, bits: bits.columns, rows: 100, left: 3, right: 2 };
    let weighted = WeightedShape { width: Width::Two, bits: bits.columns, rows: 100, left: 3, right: 2 };
    for shape in [
        VectorShape { left: 4, ..vector },
        VectorShape { right: 0, ..vector },
        VectorShape { bits: 31, ..vector },
        VectorShape { rows: 101, ..vector },
        VectorShape { width: Width::One, ..vector },
    ] {
        assert!(refused(Order::Vector(shape)).contains("does not fit the table"), "{shape:?}");
    }
    for shape in [WeightedShape { left: 4, ..weighted }, WeightedShape { bits: 31, ..weighted }] {
        assert!(refused(Order::Weighted(shape)).contains("does not fit the table"), "{shape:?}");
    }
    let mut early = dealing();
    early.order(0, Order::Rows(rows)).unwrap();
    let refusal = early.order(1, Order::Rows(rows)).unwrap_err();
    assert_eq!(refusal.to_string(), "bob ordered a product before any table");
    let (mut differing, _) = with_table(100);
    differing.order(0, Order::Rows(rows)).unwrap();
    let refusal = differing.order(1, Order::Rows(RowShape { terms: 6, ..rows })).unwrap_err();
    assert_eq!(refusal.to_string(), "alice and bob ordered different tables: terms 5 and 6");
    let (mut differing, _) = with_table(100);
    differing.order(0, Order::Rows(rows)).unwrap();
    let refusal = differing.order(1, Order::Vector(vector)).unwrap_err();
    assert_eq!(refusal.to_string(), "alice and bob ordered products of different kinds");
}
