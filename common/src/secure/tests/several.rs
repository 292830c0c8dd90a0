//! Tables of all pairs of several parties: exact products, masks that are in step, and what is refused.

use nalgebra::DMatrix;

use crate::id::{Digest, RunId};
use crate::secure::budget;
use crate::secure::dealing::{Dealing, Order, Refusal, Step};
use crate::secure::masks::{Labels, Seed};
use crate::secure::product::{Fault, Frame, SeveralParty, SeveralShape, SeveralShares, SeveralTables, pairs, place_of};
use crate::secure::ring::{Elements, Width};
use crate::secure::tests::uniform::Uniform;

const STUDY: Digest = Digest([1; 32]);
const RUN: RunId = RunId([2; 16]);

fn seeds(parties: usize) -> Vec<[u8; 32]> {
    (0..parties as u8).map(|place| [30 + place; 32]).collect()
}

fn shape(rows: usize, columns: &[usize]) -> SeveralShape {
    SeveralShape::new(Width::Two, budget::gaussian(rows).unwrap(), rows, columns).unwrap()
}

/// Columns of mean square below 1 whose entries fixed point holds exactly.
fn blocks(rows: usize, columns: &[usize]) -> Vec<DMatrix<f64>> {
    let entry = |place: usize, i: usize, j: usize| (((i * 31 + j * 17 + place * 7) % 41) as f64 - 20.0) / 32.0;
    columns.iter().enumerate().map(|(place, width)| DMatrix::from_fn(rows, *width, |i, j| entry(place, i, j))).collect()
}

/// What the dealer hands each party, beside its seed.
fn dealt(shape: SeveralShape) -> Vec<Option<Elements>> {
    let parties = shape.columns().len();
    let names = (0..parties).map(|place| format!("p{place}")).collect();
    let mut dealing = Dealing::new(names, seeds(parties), STUDY, RUN);
    for place in (0..parties).rev() {
        assert!(dealing.step().is_none(), "something before all had ordered");
        dealing.order(place, Order::Several(shape, place)).unwrap();
    }
    for place in 0..parties {
        assert!(matches!(dealing.step(), Some(Step::Seed(at, seed)) if at == place && seed == seeds(parties)[place]));
    }
    let Some(Step::Several(_, mut dealer)) = dealing.step() else { panic!("no tables") };
    while dealer.step() {}
    std::iter::once(None).chain(dealer.finish().unwrap().into_iter().map(Some)).collect()
}

/// Runs the exchange; `change` sees what a party (second) gets of another (first) in each row block.
fn exchanged(
    shape: SeveralShape,
    blocks: &[DMatrix<f64>],
    seeds: &[[u8; 32]],
    mut change: impl FnMut([usize; 2], &mut Elements),
) -> Vec<SeveralShares> {
    let start = |(place, seed): (usize, &[u8; 32])| {
        SeveralParty::new(shape, place, &Seed::new(*seed), &mut Labels::new(STUDY, RUN))
    };
    let mut parties: Vec<SeveralParty> = seeds.iter().enumerate().map(start).collect();
    let hide = |(party, own): (&mut SeveralParty, &DMatrix<f64>)| party.hide_blocks(own, usize::MAX).unwrap();
    let sent: Vec<Vec<Frame>> = parties.iter_mut().zip(blocks).map(hide).collect();
    for (place, party) in parties.iter_mut().enumerate() {
        for block in 0..shape.blocks() {
            let others: Vec<Elements> = shape
                .partners(place)
                .map(|other| {
                    let mut entries = sent[other][block].entries.clone();
                    change([other, place], &mut entries);
                    entries
                })
                .collect();
            let entries = Elements::concat(Width::Two, others.iter()).unwrap();
            party.take_blocks(&[Frame { block: block as u64, entries }]).unwrap();
        }
    }
    let corrections = dealt(shape);
    parties
        .into_iter()
        .zip(&corrections)
        .map(|(party, correction)| party.finish(correction.as_ref()).unwrap())
        .collect()
}

/// The canaries that the others hold with a party.
fn canaries(shape: &SeveralShape, shares: &[SeveralShares], place: usize) -> Elements {
    let of = |other: usize| {
        let at = shape.partners(other).position(|partner| partner == place).unwrap();
        shares[other].canary().slice(at..at + 1)
    };
    let all: Vec<Elements> = shape.partners(place).map(of).collect();
    Elements::concat(Width::Two, all.iter()).unwrap()
}

fn opened(shape: &SeveralShape, shares: Vec<SeveralShares>) -> Result<Vec<DMatrix<f64>>, Fault> {
    let theirs: Vec<Elements> = (0..shares.len()).map(|place| canaries(shape, &shares, place)).collect();
    let tables: Vec<Elements> = shares
        .into_iter()
        .zip(&theirs)
        .map(|(shares, theirs)| shares.check(theirs).map(|tables| tables.shares().clone()))
        .collect::<Result<_, _>>()?;
    SeveralTables::open(shape, &tables).map_err(|(_, fault)| fault)
}

#[test]
fn every_pair_of_two_to_sixteen_parties_gets_its_table_exactly() {
    for (rows, columns) in [
        (1, vec![1, 1]),
        (100, vec![2, 3]),
        (2048, vec![1, 2, 1]),
        (2049, vec![3, 1, 2]),
        (5000, vec![2, 1, 3, 1, 2]),
        (60, (0..16).map(|place| 1 + place % 3).collect()),
    ] {
        let (shape, blocks) = (shape(rows, &columns), blocks(rows, &columns));
        let tables = opened(&shape, exchanged(shape, &blocks, &seeds(columns.len()), |_, _| {})).unwrap();
        for ((first, second), table) in pairs(columns.len()).zip(tables) {
            let expected = blocks[first].tr_mul(&blocks[second]) / rows as f64;
            assert!((table - expected).amax() < 1e-15, "{rows} rows, {first} and {second}");
        }
    }
}

#[test]
fn masks_that_are_out_of_step_open_nothing() {
    let (shape, blocks) = (shape(3000, &[2, 3, 1]), blocks(3000, &[2, 3, 1]));
    for wrong in 0..3 {
        let mut seeds = seeds(3);
        seeds[wrong] = [99; 32];
        assert_eq!(opened(&shape, exchanged(shape, &blocks, &seeds, |_, _| {})), Err(Fault::OutOfStep), "{wrong}");
    }
    // A partner's block credited to another one.
    for pair in [[0, 1], [0, 2], [1, 2], [2, 0]] {
        let shares = exchanged(shape, &blocks, &seeds(3), |at, entries| {
            if at == pair {
                let count = entries.count();
                *entries = entries.select((1..count).chain([0]));
            }
        });
        assert_eq!(opened(&shape, shares), Err(Fault::OutOfStep), "{pair:?}");
    }
}

#[test]
fn blocks_out_of_order_and_of_another_size_are_refused() {
    let (shape, blocks) = (shape(3000, &[2, 3, 1]), blocks(3000, &[2, 3, 1]));
    let mut party = SeveralParty::new(shape, 1, &Seed::new([7; 32]), &mut Labels::new(STUDY, RUN));
    let frame = |block: u64, count: usize| [Frame { block, entries: Elements::zeros(Width::Two, count) }];
    let whole = shape.others(1, 0);
    assert_eq!(party.take_blocks(&frame(0, whole)), Err(Fault::Order { came: 0, expected: 0 }), "before its own");
    party.hide_blocks(&blocks[1], 1).unwrap();
    assert_eq!(party.take_blocks(&frame(1, whole)), Err(Fault::Order { came: 1, expected: 0 }));
    assert!(matches!(party.take_blocks(&frame(0, whole - 1)), Err(Fault::Ring { .. })));
    party.take_blocks(&frame(0, whole)).unwrap();
    assert!(matches!(party.finish(None), Err(Fault::Early { came: 1, expected: 2, .. })));
}

#[test]
fn the_dealer_deals_for_all_or_for_nobody() {
    let wanted = shape(100, &[2, 3, 1]);
    let start = || Dealing::new(["a", "b", "c"].map(str::to_owned).to_vec(), seeds(3), STUDY, RUN);
    let mut dealing = start();
    dealing.order(0, Order::Several(wanted, 0)).unwrap();
    dealing.order(1, Order::Several(wanted, 1)).unwrap();
    assert!(dealing.step().is_none() && !dealing.is_done(), "two of three");
    let other = shape(100, &[2, 3, 2]);
    let refusal = dealing.order(2, Order::Several(other, 2)).unwrap_err();
    assert_eq!(refusal.to_string(), "a and c ordered different tables: columns of c 1 and 2");
    // Columns whose sum is no number any more.
    for columns in [[usize::MAX; 3], [1, usize::MAX, 1], [usize::MAX - 5, 1, 1]] {
        let refused = start().order(0, Order::Several(shape(100, &columns), 0));
        assert!(matches!(refused, Err(Refusal::Columns { .. })), "{refused:?}");
    }
    // Another party's place, and a number of parties that is not that of the run.
    let refused =
        [Order::Several(wanted, 1), Order::Several(shape(100, &[2, 3]), 0)].map(|order| start().order(0, order));
    assert!(refused.iter().all(|refused| matches!(refused, Err(Refusal::Product { .. }))));
    let (width, bits) = (Width::Two, 44);
    let table = crate::secure::product::Shape { width, bits, rows: 100, left: 2, right: 3 };
    assert!(matches!(start().order(0, Order::Table(table)), Err(Refusal::Parties { parties: 3, .. })));
}

#[test]
fn there_are_no_tables_of_one_party_of_seventeen_or_of_an_empty_block() {
    for columns in [vec![2], vec![1; 17], vec![2, 0, 1]] {
        assert!(SeveralShape::new(Width::Two, 44, 10, &columns).is_none());
    }
}

#[test]
fn what_every_party_sends_is_uniform_and_no_two_parties_or_row_blocks_have_the_same_mask() {
    let (shape, zeros) = (shape(4096, &[20, 20, 20]), vec![DMatrix::zeros(4096, 20); 3]);
    let party =
        |place: usize| SeveralParty::new(shape, place, &Seed::new(seeds(3)[place]), &mut Labels::new(STUDY, RUN));
    let frames = |place: usize| party(place).hide_blocks(&zeros[place], usize::MAX).unwrap();
    let sent: Vec<Elements> = (0..3).flat_map(frames).map(|frame| frame.entries).collect();
    assert_eq!(sent.len(), 6);
    for (first, second) in pairs(sent.len()) {
        let mut apart = sent[first].clone();
        apart.subtract(&sent[second]).unwrap();
        for (what, elements) in [("a row block", &sent[second]), ("the difference of two", &apart)] {
            let mut uniform = Uniform::default();
            uniform.add(elements);
            uniform.check(what);
        }
    }
    let shares = exchanged(shape, &zeros, &seeds(3), |_, _| {});
    let theirs: Vec<Elements> = (0..3).map(|place| canaries(&shape, &shares, place)).collect();
    for (shares, theirs) in shares.into_iter().zip(&theirs) {
        assert_eq!(shares.stray(theirs), None);
        let tables = shares.check(theirs).unwrap();
        let mut uniform = Uniform::default();
        uniform.add(tables.shares());
        uniform.check("shares of tables");
        // Behind one mask the difference of the shares for two partners would be that of the products.
        let with = |partner: usize| tables.shares().slice(place_of(&shape, tables.place(), partner));
        let parts: Vec<Elements> = shape.partners(tables.place()).map(with).collect();
        let mut apart = parts[0].clone();
        apart.subtract(&parts[1]).unwrap();
        let mut uniform = Uniform::default();
        uniform.add(&apart);
        uniform.check("the difference of shares for two partners");
    }
}

#[test]
fn the_first_partner_whose_canary_is_not_right_is_found() {
    let (shape, blocks) = (shape(100, &[2, 3, 1, 1]), blocks(100, &[2, 3, 1, 1]));
    for (place, wrong) in [(0, 2), (0, 1), (2, 3), (3, 0)] {
        let shares = exchanged(shape, &blocks, &seeds(4), |_, _| {});
        let theirs = canaries(&shape, &shares, place);
        let parts = shape.partners(place).enumerate().map(|(at, other)| match other == wrong {
            true => Elements::zeros(Width::Two, 1),
            false => theirs.slice(at..at + 1),
        });
        let parts: Vec<Elements> = parts.collect();
        let spoiled = Elements::concat(Width::Two, parts.iter()).unwrap();
        assert_eq!(shares[place].stray(&spoiled), Some(wrong), "{place}");
    }
}
