//! Products within rows and with shared vectors against integers.

use std::sync::Arc;

use nalgebra::DMatrix;

use crate::id::{Digest, RunId};
use crate::secure::masks::{Labels, Seed};
use crate::secure::product::{
    Blocks, Dealer, Fault, Frame, Masks, Party, RowDealer, RowParty, RowShape, Rows, Shape, Side, VectorDealer,
    VectorParty, VectorShape, WeightedDealer, WeightedParty, WeightedShape,
};
use crate::secure::ring::{Elements, Width, row_block, row_blocks};

/// The three roles with their seeds and labels.
pub(super) struct Roles {
    seeds: [Seed; 2],
    labels: [Labels; 3],
}

impl Roles {
    pub(super) fn new() -> Roles {
        let labels = || Labels::new(Digest([3; 32]), RunId([4; 16]));
        Roles { seeds: [Seed::new([21; 32]), Seed::new([22; 32])], labels: [labels(), labels(), labels()] }
    }

    /// The table of two blocks: what each party received, the dealer's masks, and both shares put together.
    pub(super) fn table(&mut self, shape: Shape, x: &impl Blocks, z: &impl Blocks) -> Table {
        let [of_alice, of_bob, of_dealer] = &mut self.labels;
        let mut alice = Party::new(shape, Side::Left, &self.seeds[0], of_alice);
        let mut bob = Party::new(shape, Side::Right, &self.seeds[1], of_bob);
        let (mut at_alice, mut at_bob) = (Vec::new(), Vec::new());
        while let (Some(e), Some(f)) = (alice.hide(x).unwrap(), bob.hide(z).unwrap()) {
            bob.take(&e, z).unwrap();
            alice.take(&f, x).unwrap();
            at_alice.push(f);
            at_bob.push(e);
        }
        let mut dealer = Dealer::new(shape, &self.seeds[0], &self.seeds[1], of_dealer);
        while dealer.step() {}
        let (correction, masks) = dealer.finish_and_keep().unwrap();
        let (alice, bob) = (alice.finish(None).unwrap(), bob.finish(Some(&correction)).unwrap());
        let canary = alice.canary().clone();
        let alice = alice.check(bob.canary()).unwrap();
        let opened = alice.open(bob.check(&canary).unwrap().share()).unwrap().mean();
        Table { at_alice, at_bob, masks, opened }
    }

    /// Products within rows: both shares by row block, after the canary was compared.
    pub(super) fn rows(&mut self, shape: RowShape, f: &impl Blocks, g: &impl Blocks) -> [Vec<Elements>; 2] {
        let [of_alice, of_bob, of_dealer] = &mut self.labels;
        let mut alice = RowParty::new(shape, Side::Left, &self.seeds[0], of_alice);
        let mut bob = RowParty::new(shape, Side::Right, &self.seeds[1], of_bob);
        let mut dealer = RowDealer::new(shape, &self.seeds[0], &self.seeds[1], of_dealer);
        let mut shares = [Vec::new(), Vec::new()];
        while let (Some(e), Some(d)) = (alice.hide(f).unwrap(), bob.hide(g).unwrap()) {
            let correction = dealer.step().unwrap();
            let of = |side| correction.as_ref().filter(|_| shape.corrected == side);
            shares[0].extend(alice.take(&d, of(Side::Left), f).unwrap());
            shares[1].extend(bob.take(&e, of(Side::Right), g).unwrap());
        }
        assert_eq!(dealer.step(), Ok(None));
        let (alice, bob) = (alice.finish().unwrap(), bob.finish().unwrap());
        let canary = alice.share().clone();
        alice.check(bob.share()).unwrap();
        bob.check(&canary).unwrap();
        shares
    }

    /// `[1 X_a X_b]' r`, opened.
    pub(super) fn product(
        &mut self,
        shape: VectorShape,
        table: &Table,
        vector: &[Vec<Elements>; 2],
        x: &impl Blocks,
        z: &impl Blocks,
        public: &impl Blocks,
    ) -> Vec<i128> {
        let [of_alice, of_bob, of_dealer] = &mut self.labels;
        let mut alice = VectorParty::new(shape, Side::Left, &self.seeds[0], of_alice);
        let mut bob = VectorParty::new(shape, Side::Right, &self.seeds[1], of_bob);
        let mut dealer = VectorDealer::new(shape, &self.seeds[0], &self.seeds[1], of_dealer);
        for block in 0..shape.blocks() {
            let [of_alice, of_bob] = [&vector[0][block], &vector[1][block]];
            let (e, f) = (alice.hide(of_alice).unwrap(), bob.hide(of_bob).unwrap());
            alice.take(&f, of_alice, x, &table.at_alice[block], public).unwrap();
            bob.take(&e, of_bob, z, &table.at_bob[block], public).unwrap();
        }
        while dealer.step(&table.masks) {}
        let correction = dealer.finish().unwrap();
        let (alice, bob) = (alice.finish(None).unwrap(), bob.finish(Some(&correction)).unwrap());
        alice.open(bob.share(), u128::MAX).unwrap()
    }
}

impl Roles {
    /// The lower triangle of `[1 X_a X_b]' D(w) [1 X_a X_b]`, opened.
    pub(super) fn weighted(
        &mut self,
        shape: WeightedShape,
        table: Table,
        weights: &[Vec<Elements>; 2],
        x: &impl Blocks,
        z: &impl Blocks,
        public: &impl Blocks,
    ) -> Vec<i128> {
        let [of_alice, of_bob, of_dealer] = &mut self.labels;
        let mut alice = WeightedParty::new(shape, Side::Left, &self.seeds[0], of_alice);
        let mut bob = WeightedParty::new(shape, Side::Right, &self.seeds[1], of_bob);
        let mut dealer = WeightedDealer::new(shape, &self.seeds[0], &self.seeds[1], of_dealer);
        for block in 0..shape.blocks() {
            let [of_alice, of_bob] = [&weights[0][block], &weights[1][block]];
            let (e, f) = (alice.hide(of_alice).unwrap(), bob.hide(of_bob).unwrap());
            let [to_alice, to_bob] = dealer.step(&table.masks).unwrap().unwrap();
            let received = &table.at_alice[block];
            let rows = Rows { weights: of_alice, peer: &f, correction: &to_alice, received, own: x, public };
            let from_alice = alice.take(&rows).unwrap();
            let received = &table.at_bob[block];
            let rows = Rows { weights: of_bob, peer: &e, correction: &to_bob, received, own: z, public };
            let from_bob = bob.take(&rows).unwrap();
            match (from_alice, from_bob) {
                (Some(frame), None) => bob.cross(&frame).unwrap(),
                (None, Some(frame)) => alice.cross(&frame).unwrap(),
                both => panic!("one party sends its weighted block: {both:?}"),
            }
        }
        assert_eq!(dealer.step(&table.masks), Ok(None));
        let correction = dealer.finish().unwrap();
        let (alice, bob) = (alice.finish(None).unwrap(), bob.finish(Some(&correction)).unwrap());
        assert_eq!(alice.share().count(), shape.opened());
        alice.open(bob.share(), u128::MAX).unwrap()
    }
}

/// What stays of a table for further products with its blocks.
pub(super) struct Table {
    at_alice: Vec<Frame>,
    at_bob: Vec<Frame>,
    masks: Arc<Masks>,
    pub(super) opened: DMatrix<f64>,
}

fn block(rows: usize, columns: usize, seed: usize) -> DMatrix<f64> {
    DMatrix::from_fn(rows, columns, |i, j| ((i * 7919 + j * 31 + seed * 101 + i * i) % 2003) as f64 / 1001.0 - 1.0)
}

fn fixed(value: f64, bits: u32) -> i128 {
    (value * 2f64.powi(bits as i32)).round_ties_even() as i128
}

fn added(shares: &[Vec<Elements>; 2]) -> Vec<i128> {
    let sum = |(left, right): (&Elements, &Elements)| {
        let mut sum = left.clone();
        sum.add(right).unwrap();
        sum.to_integers()
    };
    shares[0].iter().zip(&shares[1]).flat_map(sum).collect()
}

#[test]
fn products_within_rows_are_exact_whoever_gets_the_corrections() {
    let mut roles = Roles::new();
    for (rows, terms) in [(5, 3), (1, 1), (2048, 2), (2049, 7), (0, 2)] {
        for corrected in [Side::Left, Side::Right] {
            let (f, g) = (block(rows, terms, 1), block(rows, terms, 2));
            let shape = RowShape { width: Width::Two, bits: 40, rows, terms, corrected };
            let opened = added(&roles.rows(shape, &f, &g));
            let sum = |i: usize| (0..terms).map(|k| fixed(f[(i, k)], 40) * fixed(g[(i, k)], 40)).sum::<i128>();
            assert_eq!(opened, (0..rows).map(sum).collect::<Vec<_>>());
        }
    }
}

#[test]
fn products_with_a_shared_vector_are_exact() {
    for (rows, left, right) in [(5, 2, 3), (2048, 1, 1), (4100, 3, 2)] {
        let mut roles = Roles::new();
        // One more column on the left, that is in the table only.
        let (x, z) = (block(rows, left + 1, 1), block(rows, right, 2));
        let table = roles.table(Shape { width: Width::Two, bits: 30, rows, left: left + 1, right }, &x, &z);
        let shape = VectorShape { width: Width::Two, bits: 30, rows, left, right };
        let public = DMatrix::from_fn(rows, 1, |i, _| 1.0 + (i % 3) as f64 / 7.0);
        // Twice, with other vectors under fresh masks.
        for seed in [3, 5] {
            let parts = [block(rows, 1, seed), block(rows, 1, seed + 1)];
            let shares = parts.each_ref().map(|part| {
                row_blocks(rows)
                    .map(|range| Elements::fixed(Width::Two, &part.as_slice()[range], 50).unwrap())
                    .collect()
            });
            let opened = roles.product(shape, &table, &shares, &x, &z, &public);
            let r = |i: usize| fixed(parts[0][i], 50) + fixed(parts[1][i], 50);
            let of =
                |columns: &DMatrix<f64>, j: usize| (0..rows).map(|i| fixed(columns[(i, j)], 30) * r(i)).sum::<i128>();
            let mut exact = vec![of(&public, 0)];
            exact.extend((0..left).map(|j| of(&x, j)));
            exact.extend((0..right).map(|j| of(&z, j)));
            assert_eq!(opened, exact);
        }
    }
}

#[test]
fn weighted_tables_are_exact_whichever_block_is_smaller() {
    // One column against one, whatever the rows leave beyond whole groups of eight: the exchanged block has a column more.
    let single = (1..=17).chain([401, 2061]).map(|rows| (rows, 1, 1));
    let shapes =
        [(5, 2, 3), (5, 3, 2), (2049, 1, 1), (4100, 3, 4), (2048, 2, 1), (403, 2, 1), (403, 1, 2), (403, 1, 3)];
    for (rows, left, right) in shapes.into_iter().chain(single) {
        let mut roles = Roles::new();
        let (x, z) = (block(rows, left + 1, 1), block(rows, right, 2));
        let table = roles.table(Shape { width: Width::Two, bits: 30, rows, left: left + 1, right }, &x, &z);
        let public = DMatrix::from_fn(rows, 1, |i, _| 1.0 + (i % 3) as f64 / 7.0);
        let parts = [block(rows, 1, 3), block(rows, 1, 4)];
        let shares = parts.each_ref().map(|part| {
            row_blocks(rows).map(|range| Elements::fixed(Width::Two, &part.as_slice()[range], 40).unwrap()).collect()
        });
        let shape = WeightedShape { width: Width::Two, bits: 30, rows, left, right };
        let opened = roles.weighted(shape, table, &shares, &x, &z, &public);
        let columns: Vec<Vec<i128>> = std::iter::once(public.column(0))
            .chain((0..left).map(|j| x.column(j)))
            .chain((0..right).map(|j| z.column(j)))
            .map(|column| column.iter().map(|value| fixed(*value, 30)).collect())
            .collect();
        let weights: Vec<i128> = (0..rows).map(|i| fixed(parts[0][i], 40) + fixed(parts[1][i], 40)).collect();
        let entry = |j: usize, k: usize| (0..rows).map(|i| columns[j][i] * columns[k][i] * weights[i]).sum::<i128>();
        let exact: Vec<i128> =
            (0..columns.len()).flat_map(|j| (0..=j).map(move |k| (j, k))).map(|(j, k)| entry(j, k)).collect();
        assert_eq!(opened, exact, "{rows} {left} {right}");
    }
}

#[test]
fn a_correction_at_the_wrong_party_and_masks_out_of_step_are_noticed() {
    let (f, g) = (block(5, 2, 1), block(5, 2, 2));
    let shape = RowShape { width: Width::Two, bits: 40, rows: 5, terms: 2, corrected: Side::Right };
    let labels = || Labels::new(Digest([3; 32]), RunId([4; 16]));
    let party = |side, seed: u8| RowParty::new(shape, side, &Seed::new([seed; 32]), &mut labels());
    let (mut alice, mut bob) = (party(Side::Left, 1), party(Side::Right, 2));
    let mut dealer = RowDealer::new(shape, &Seed::new([1; 32]), &Seed::new([9; 32]), &mut labels());
    let (e, d) = (alice.hide(&f).unwrap().unwrap(), bob.hide(&g).unwrap().unwrap());
    let correction = dealer.step().unwrap().unwrap();
    assert_eq!(alice.take(&d, Some(&correction), &f), Err(Fault::Correction));
    assert_eq!(bob.take(&e, None, &g), Err(Fault::Correction));
    assert!(bob.take(&e, Some(&Frame { block: 1, ..correction.clone() }), &g).is_err());
    alice.take(&d, None, &f).unwrap();
    bob.take(&e, Some(&correction), &g).unwrap();
    let (e, d) = (alice.hide(&f).unwrap().unwrap(), bob.hide(&g).unwrap().unwrap());
    assert_eq!((alice.hide(&f), e.block), (Ok(None), 1));
    assert_eq!(alice.take(&d, None, &f), Ok(None));
    assert_eq!(bob.take(&e, Some(&dealer.step().unwrap().unwrap()), &g), Ok(None));
    let (alice, bob) = (alice.finish().unwrap(), bob.finish().unwrap());
    let canary = alice.share().clone();
    assert_eq!(alice.check(bob.share()), Err(Fault::OutOfStep));
    assert_eq!(bob.check(&canary), Err(Fault::OutOfStep));
    assert!(matches!(party(Side::Left, 1).finish(), Err(Fault::Early { .. })));
}

#[test]
fn a_vector_is_masked_once() {
    let shape = VectorShape { width: Width::Two, bits: 30, rows: 2100, left: 1, right: 1 };
    let labels = || Labels::new(Digest([3; 32]), RunId([4; 16]));
    let mut alice = VectorParty::new(shape, Side::Left, &Seed::new([1; 32]), &mut labels());
    let share = |block: usize| Elements::zeros(Width::Two, row_block(2100, block).len());
    assert!(alice.hide(&share(1)).is_err());
    let (first, second) = (alice.hide(&share(0)).unwrap(), alice.hide(&share(1)).unwrap());
    assert_eq!((first.block, second.block), (0, 1));
    assert!(alice.hide(&share(1)).is_err() && alice.hide(&share(2)).is_err());
    assert!(matches!(alice.finish(None), Err(Fault::Early { .. })));
}
