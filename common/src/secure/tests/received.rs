//! What a party receives in each product is uniform beside what it holds already, whatever the other side's data are.
//!
//! A share alone is always uniform, masked or not. Therefore the receiver's own share is added to what comes before it is counted: without
//! the mask that is the secret itself. Of a correction the product of masks is taken away, of which the receiver may know one factor: what
//! is left is the other party's share.

use nalgebra::DMatrix;

use super::uniform::Uniform;
use crate::id::{Digest, RunId};
use crate::secure::masks::{Labels, Mask, Purpose, Seed};
use crate::secure::product::{
    Dealer, Frame, Party, RowDealer, RowParty, RowShape, Rows, Shape, Side, VectorDealer, VectorParty, VectorShape,
    WeightedDealer, WeightedParty, WeightedShape,
};
use crate::secure::ring::{Elements, Width, row_block};

const W: Width = Width::Two;
const BITS: u32 = 30;
const LEFT: usize = 2;
const RIGHT: usize = 3;
/// More than two row blocks; and so few that a last correction is made often.
const MANY: usize = 4500;
const FEW: usize = 3;

/// Own data of one value in every row: nothing, one, and the largest that fixed point holds.
const VALUES: [f64; 3] = [0.0, 1.0, -2_097_152.0];

/// The roles of a run of which the test knows every seed, so that it can expand what no single role could.
struct Known {
    seeds: [Seed; 2],
    labels: [Labels; 4],
}

impl Known {
    fn new(run: u8) -> Known {
        let labels = || Labels::new(Digest([3; 32]), RunId([run; 16]));
        Known { seeds: [Seed::new([21; 32]), Seed::new([22; 32])], labels: [labels(), labels(), labels(), labels()] }
    }

    /// The next stream for a purpose under the left party's seed, or the right one's.
    fn stream(&mut self, purpose: Purpose, of: usize) -> Mask {
        self.labels[3].take(purpose).expand(&self.seeds[of], W)
    }
}

fn constant(rows: usize, columns: usize, value: f64) -> DMatrix<f64> {
    DMatrix::from_element(rows, columns, value)
}

fn plus(elements: &Elements, more: &Elements) -> Elements {
    let mut sum = elements.clone();
    sum.add(more).unwrap();
    sum
}

fn minus(elements: &Elements, less: &Elements) -> Elements {
    let mut rest = elements.clone();
    rest.subtract(less).unwrap();
    rest
}

/// Every column times the same column, row by row.
fn scaled(columns: &Elements, by: &Elements) -> Elements {
    let (rows, mut all) = (by.count(), Elements::zeros(W, 0));
    for column in 0..columns.count() / rows {
        let mut scaled = columns.slice(column * rows..(column + 1) * rows);
        scaled.multiply(by).unwrap();
        all.append(&scaled).unwrap();
    }
    all
}

/// `a' b` of blocks of some rows, added to a sum.
fn add_product(sum: &mut Option<Elements>, a: &Elements, b: &Elements, rows: usize) {
    let residues = |elements: &Elements, prime: usize| {
        let mut residues = Vec::new();
        elements.residues(prime, elements.count(), &mut residues);
        residues.into_iter().map(|residue| residue as u64).collect::<Vec<u64>>()
    };
    let product = |(at, prime): (usize, &u64)| -> Vec<f64> {
        let (a, b) = (residues(a, at), residues(b, at));
        let inner = |a: &[u64], b: &[u64]| a.iter().zip(b).fold(0, |sum, (a, b)| (sum + a * b) % prime) as f64;
        b.chunks(rows).flat_map(|b| a.chunks(rows).map(move |a| inner(a, b))).collect()
    };
    let product = Elements::from_residues(W, &W.primes().iter().enumerate().map(product).collect::<Vec<_>>());
    *sum = Some(sum.take().map_or(product.clone(), |sum| plus(&sum, &product)));
}

/// Half of the sum of a square and its transpose.
fn symmetric(square: &Elements, columns: usize) -> Elements {
    let transposed = (0..columns).flat_map(|k| (0..columns).map(move |j| j * columns + k)).collect::<Vec<_>>();
    let mut all = plus(square, &square.select(transposed.into_iter()));
    let half = (W.modulus() / 2 + 1) as i128;
    all.multiply(&Elements::from_integers(W, &vec![half; columns * columns])).unwrap();
    all
}

/// A table: what each side sends, and what is left of the correction. Beside it what later products need.
struct Table {
    frames: [Vec<Frame>; 2],
    /// The masks of both blocks by row block, the canaries' among them.
    masks: Vec<[Elements; 2]>,
    dealer: std::sync::Arc<crate::secure::product::Masks>,
}

fn table(known: &mut Known, rows: usize, value: f64, columns: &mut [Uniform; 2], last: &mut Uniform) -> Table {
    let shape = Shape { width: W, bits: BITS, rows, left: LEFT, right: RIGHT };
    let own = [constant(rows, LEFT, value), constant(rows, RIGHT, value)];
    let streams = [known.stream(Purpose::TableLeft, 0), known.stream(Purpose::TableRight, 1)];
    known.labels[3].take(Purpose::Canary);
    let [of_alice, of_bob, of_dealer, _] = &mut known.labels;
    let mut alice = Party::new(shape, Side::Left, &known.seeds[0], of_alice);
    let mut bob = Party::new(shape, Side::Right, &known.seeds[1], of_bob);
    let mut dealer = Dealer::new(shape, &known.seeds[0], &known.seeds[1], of_dealer);
    let (mut frames, mut masks, mut sum) = ([Vec::new(), Vec::new()], Vec::new(), None);
    for block in 0..shape.blocks() {
        let (e, f) = (alice.hide(&own[0]).unwrap().unwrap(), bob.hide(&own[1]).unwrap().unwrap());
        columns[0].add(&e.entries);
        columns[1].add(&f.entries);
        bob.take(&e, &own[1]).unwrap();
        alice.take(&f, &own[0]).unwrap();
        let count = row_block(rows, block).len();
        let [a, b] = [0, 1].map(|side| streams[side].block(block, count * [LEFT + 1, RIGHT + 1][side]));
        add_product(&mut sum, &a, &b, count);
        masks.push([a, b]);
        frames[0].push(e);
        frames[1].push(f);
    }
    while dealer.step() {}
    let (correction, dealt) = dealer.finish_and_keep().unwrap();
    last.add(&minus(&correction.0, &sum.unwrap()));
    Table { frames, masks, dealer: dealt }
}

/// Shares of a vector of one value, of which either side's is uniform.
fn shared(rows: usize, value: i128, block: usize) -> [Elements; 2] {
    let count = row_block(rows, block).len();
    let random = Labels::new(Digest([8; 32]), RunId([rows as u8; 16])).take(Purpose::Canary).publish(W);
    let left = random.block(block, count);
    let right = minus(&Elements::from_integers(W, &vec![value; count]), &left);
    [left, right]
}

#[test]
fn columns_that_come_and_the_correction_of_their_table_are_uniform() {
    for (run, value) in (0..).zip(VALUES) {
        let (mut columns, mut last) = (<[Uniform; 2]>::default(), Uniform::default());
        table(&mut Known::new(run), MANY, value, &mut columns, &mut Uniform::default());
        let mut known = Known::new(100 + run);
        for _ in 0..60 {
            table(&mut known, FEW, value, &mut columns, &mut last);
        }
        columns[0].check(&format!("columns of {value} at bob"));
        columns[1].check(&format!("columns of {value} at alice"));
        last.check(&format!("corrections of tables of {value}"));
    }
}

#[test]
fn factors_within_rows_and_their_corrections_are_uniform() {
    for (run, value) in (0..).zip(VALUES) {
        for corrected in [Side::Left, Side::Right] {
            let shape = RowShape { width: W, bits: BITS, rows: MANY, terms: 3, corrected };
            let own = constant(MANY, 3, value);
            let mut known = Known::new(run);
            let masks = [known.stream(Purpose::RowsLeft, 0), known.stream(Purpose::RowsRight, 1)];
            let [of_alice, of_bob, of_dealer, _] = &mut known.labels;
            let mut alice = RowParty::new(shape, Side::Left, &known.seeds[0], of_alice);
            let mut bob = RowParty::new(shape, Side::Right, &known.seeds[1], of_bob);
            let mut dealer = RowDealer::new(shape, &known.seeds[0], &known.seeds[1], of_dealer);
            let mut uniform = <[Uniform; 3]>::default();
            for block in 0..shape.blocks() {
                uniform[0].add(&alice.hide(&own).unwrap().unwrap().entries);
                uniform[1].add(&bob.hide(&own).unwrap().unwrap().entries);
                let [mut product, b] = [0, 1].map(|side| masks[side].block(block, shape.frame(block)));
                product.multiply(&b).unwrap();
                let mut rest = dealer.step().unwrap().unwrap().entries;
                let rows = shape.correction(block);
                for term in 0..shape.terms {
                    rest.subtract(&product.slice(term * rows..(term + 1) * rows)).unwrap();
                }
                uniform[2].add(&rest);
            }
            for (what, uniform) in ["alice's factors", "bob's factors", "corrections"].iter().zip(&uniform) {
                uniform.check(&format!("{what} of {value}"));
            }
        }
    }
}

/// A product with a shared vector of one value.
fn vector(known: &mut Known, rows: usize, value: i128, came: &mut [Uniform; 2], last: &mut Uniform) {
    let table = table(known, rows, 1.0, &mut Default::default(), &mut Uniform::default());
    let shape = VectorShape { width: W, bits: BITS, rows, left: LEFT, right: RIGHT };
    let masks = [known.stream(Purpose::VectorLeft, 0), known.stream(Purpose::VectorRight, 1)];
    let [of_alice, of_bob, of_dealer, _] = &mut known.labels;
    let mut alice = VectorParty::new(shape, Side::Left, &known.seeds[0], of_alice);
    let mut bob = VectorParty::new(shape, Side::Right, &known.seeds[1], of_bob);
    let mut dealer = VectorDealer::new(shape, &known.seeds[0], &known.seeds[1], of_dealer);
    let (mut of_left, mut of_right) = (None, None);
    for block in 0..shape.blocks() {
        let shares = shared(rows, value, block);
        let (of_alice, of_bob) = (alice.hide(&shares[0]).unwrap(), bob.hide(&shares[1]).unwrap());
        came[0].add(&plus(&of_alice.entries, &shares[1]));
        came[1].add(&plus(&of_bob.entries, &shares[0]));
        let count = row_block(rows, block).len();
        let [u_a, u_b] = [0, 1].map(|side| masks[side].block(block, count));
        let [a, b] = &table.masks[block];
        add_product(&mut of_left, &a.slice(0..count * LEFT), &u_b, count);
        add_product(&mut of_right, &b.slice(0..count * RIGHT), &u_a, count);
        dealer.step(&table.dealer);
    }
    let mut product = of_left.unwrap();
    product.append(&of_right.unwrap()).unwrap();
    last.add(&minus(&dealer.finish().unwrap(), &product));
}

#[test]
fn shares_of_a_vector_that_come_and_the_correction_of_its_product_are_uniform() {
    for (run, value) in (0..).zip([0, 1, i128::MAX >> 3]) {
        let (mut came, mut last) = (<[Uniform; 2]>::default(), Uniform::default());
        vector(&mut Known::new(run), MANY, value, &mut came, &mut last);
        let mut known = Known::new(100 + run);
        for _ in 0..100 {
            vector(&mut known, FEW, value, &mut <[Uniform; 2]>::default(), &mut last);
        }
        came[0].check(&format!("alice's shares of {value}"));
        came[1].check(&format!("bob's shares of {value}"));
        last.check(&format!("corrections of products with {value}"));
    }
}

/// What is counted of a weighted table.
#[derive(Default)]
struct Weighted {
    weights: [Uniform; 2],
    corrections: [Uniform; 2],
    cross: Uniform,
    last: Uniform,
}

/// A weighted table of columns of ones with weights of one value.
fn weighted(known: &mut Known, rows: usize, value: i128, counted: &mut Weighted) {
    let Table { frames, masks, dealer: dealt } =
        table(known, rows, 1.0, &mut Default::default(), &mut Uniform::default());
    let shape = WeightedShape { width: W, bits: BITS, rows, left: LEFT, right: RIGHT };
    let u = [known.stream(Purpose::WeightLeft, 0), known.stream(Purpose::WeightRight, 1)];
    // The share of the left block's mask is the right party's to expand, and the other way round.
    let shares = [known.stream(Purpose::ScaledLeft, 1), known.stream(Purpose::ScaledRight, 0)];
    let second = known.stream(Purpose::WeightedCross, 0);
    let [of_alice, of_bob, of_dealer, _] = &mut known.labels;
    let mut alice = WeightedParty::new(shape, Side::Left, &known.seeds[0], of_alice);
    let mut bob = WeightedParty::new(shape, Side::Right, &known.seeds[1], of_bob);
    let mut dealer = WeightedDealer::new(shape, &known.seeds[0], &known.seeds[1], of_dealer);
    let (mut squares, mut between) = ([None, None], None);
    for block in 0..shape.blocks() {
        let count = row_block(rows, block).len();
        let weights = shared(rows, value, block);
        let hidden = [alice.hide(&weights[0]).unwrap(), bob.hide(&weights[1]).unwrap()];
        let corrections = dealer.step(&dealt).unwrap().unwrap();
        for side in 0..2 {
            counted.weights[side].add(&plus(&hidden[side].entries, &weights[1 - side]));
            let mask = masks[block][side].slice(0..count * [LEFT, RIGHT][side]);
            let product = scaled(&mask, &u[1 - side].block(block, count));
            counted.corrections[side].add(&minus(&corrections[side].entries, &product));
            let share = shares[side].block(block, mask.count());
            add_product(&mut squares[side], &mask, &minus(&share, &corrections[side].entries), count);
        }
        let (own, public) = (constant(rows, LEFT, 1.0), constant(rows, 1, 1.0));
        let (peer, correction, received) = (&hidden[1], &corrections[0], &frames[1][block]);
        let of_alice = Rows { weights: &weights[0], peer, correction, received, own: &own, public: &public };
        let cross = alice.take(&of_alice).unwrap().unwrap().entries;
        // What Bob holds of Alice's weighted block.
        let bobs = scaled(&frames[0][block].entries.slice(0..count * LEFT), &u[1].block(block, count));
        let bobs = plus(&bobs, &shares[0].block(block, count * LEFT));
        counted.cross.add(&plus(&cross, &bobs));
        let mask = masks[block][1].slice(0..count * RIGHT);
        add_product(&mut between, &second.block(block, count * LEFT), &mask, count);
    }
    let [left, right] = squares;
    let mut product = symmetric(&left.unwrap(), LEFT);
    product.append(&symmetric(&right.unwrap(), RIGHT)).unwrap();
    product.append(&between.unwrap()).unwrap();
    counted.last.add(&minus(&dealer.finish().unwrap(), &product));
}

#[test]
fn weights_weighted_blocks_and_the_corrections_of_a_weighted_table_are_uniform() {
    for (run, value) in (0..).zip([0, 1, i128::MAX >> 3]) {
        let mut counted = Weighted::default();
        weighted(&mut Known::new(run), MANY, value, &mut counted);
        let mut known = Known::new(100 + run);
        let mut last = Weighted::default();
        for _ in 0..60 {
            weighted(&mut known, FEW, value, &mut last);
        }
        for (who, side) in [("alice", 0), ("bob", 1)] {
            counted.weights[side].check(&format!("weights of {value} from {who}"));
            counted.corrections[side].check(&format!("corrections of weighted columns to {who}, weights of {value}"));
        }
        counted.cross.check(&format!("alice's columns with weights of {value}"));
        last.last.check(&format!("last corrections of tables with weights of {value}"));
    }
}
