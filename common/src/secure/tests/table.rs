//! Tables of three roles against Python's integers, and what goes wrong when somebody errs.

use nalgebra::DMatrix;
use proptest::prelude::*;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::{Names, bytes, hex, width};
use crate::id::{Digest, RunId};
use crate::secure::masks::{Labels, Seed};
use crate::secure::product::{Correction, Dealer, Fault, Frame, Opened, Party, Shape, Shares, Side};
use crate::secure::ring::{Elements, RingError, Width};

#[derive(Deserialize)]
struct File {
    #[serde(flatten)]
    names: Names,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    words: usize,
    rows: usize,
    left: usize,
    right: usize,
    bits: u32,
    scale: f64,
    frames: Sides<Vec<String>>,
    first_frame: Option<Sides<String>>,
    correction: String,
    canary: Sides<String>,
    shares: Sides<String>,
    opened: Vec<String>,
}

#[derive(Deserialize)]
struct Sides<T> {
    left: T,
    right: T,
}

fn file() -> File {
    serde_json::from_str(include_str!("../../../../tests/vectors/secure/tables.json")).unwrap()
}

/// The columns of a vector: one division, which every machine rounds the same.
fn columns(case: &Case, side: usize) -> DMatrix<f64> {
    let columns = [case.left, case.right][side];
    let value = |i: usize, j: usize| case.scale * (((7919 * i + 1047 * j + 313 * side) % 1009) as f64 / 1009.0 - 0.5);
    DMatrix::from_fn(case.rows, columns, value)
}

#[test]
fn every_word_of_a_table_is_that_of_the_vectors() {
    let file = file();
    for case in &file.cases {
        let Case { rows, left, right, bits, .. } = *case;
        let shape = Shape { width: width(case.words), bits, rows, left, right };
        let labels = || Labels::new(file.names.study(), file.names.run());
        let (x, z) = (columns(case, 0), columns(case, 1));
        let mut alice = Party::new(shape, Side::Left, &file.names.left(), &mut labels());
        let mut bob = Party::new(shape, Side::Right, &file.names.right(), &mut labels());
        let digest = |frame: &Frame| -> String {
            Sha256::digest(frame.entries.to_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
        };
        for block in 0..shape.blocks() {
            let (e, f) = (alice.hide(&x).unwrap().unwrap(), bob.hide(&z).unwrap().unwrap());
            assert_eq!([&digest(&e), &digest(&f)], [&case.frames.left[block], &case.frames.right[block]]);
            if let Some(first) = &case.first_frame {
                assert_eq!([hex(&e.entries), hex(&f.entries)], [first.left.clone(), first.right.clone()]);
            }
            bob.take(&e, &z).unwrap();
            alice.take(&f, &x).unwrap();
        }
        assert_eq!([alice.hide(&x), bob.hide(&z)], [Ok(None), Ok(None)]);
        let mut dealer = Dealer::new(shape, &file.names.left(), &file.names.right(), &mut labels());
        while dealer.step() {}
        let correction = dealer.finish().unwrap();
        assert_eq!(hex(&correction.0), case.correction);
        let (alice, bob) = (alice.finish(None).unwrap(), bob.finish(Some(&correction)).unwrap());
        assert_eq!([hex(alice.canary()), hex(bob.canary())], [case.canary.left.clone(), case.canary.right.clone()]);
        let (to_alice, to_bob) = (bob.canary().clone(), alice.canary().clone());
        let (alice, bob) = (alice.check(&to_alice).unwrap(), bob.check(&to_bob).unwrap());
        assert_eq!([hex(alice.share()), hex(bob.share())], [case.shares.left.clone(), case.shares.right.clone()]);
        let opened: Vec<String> = alice.open(bob.share()).unwrap().integers().iter().map(i128::to_string).collect();
        assert_eq!(opened, case.opened);
    }
}

/// Seeds that a test changes to make a role err.
struct Cast {
    alice: Seed,
    bob: Seed,
    dealer: [Seed; 2],
    run: [u8; 3],
}

impl Default for Cast {
    fn default() -> Self {
        let [a, b] = [[1; 32], [2; 32]];
        Cast { alice: Seed::new(a), bob: Seed::new(b), dealer: [Seed::new(a), Seed::new(b)], run: [0; 3] }
    }
}

/// Both shares before the canary is compared; `line` may change what is on the way.
fn shares(
    shape: Shape,
    x: &DMatrix<f64>,
    z: &DMatrix<f64>,
    cast: &Cast,
    line: impl Fn(&mut Frame, Side),
) -> Result<[Shares; 2], Fault> {
    let labels = |role: usize| Labels::new(Digest([7; 32]), RunId([cast.run[role]; 16]));
    let mut alice = Party::new(shape, Side::Left, &cast.alice, &mut labels(0));
    let mut bob = Party::new(shape, Side::Right, &cast.bob, &mut labels(1));
    while let (Some(mut e), Some(mut f)) = (alice.hide(x)?, bob.hide(z)?) {
        line(&mut e, Side::Left);
        line(&mut f, Side::Right);
        bob.take(&e, z)?;
        alice.take(&f, x)?;
    }
    let mut dealer = Dealer::new(shape, &cast.dealer[0], &cast.dealer[1], &mut labels(2));
    while dealer.step() {}
    Ok([alice.finish(None)?, bob.finish(Some(&dealer.finish()?))?])
}

fn opened(shares: [Shares; 2]) -> Result<Opened, Fault> {
    let [alice, bob] = shares;
    let canary = alice.canary().clone();
    let alice = alice.check(bob.canary())?;
    alice.open(bob.check(&canary)?.share())
}

fn exact(shape: Shape, x: &DMatrix<f64>, z: &DMatrix<f64>) -> Vec<i128> {
    let fixed = |value: f64| (value * 2f64.powi(shape.bits as i32)).round_ties_even() as i128;
    let products = |a: nalgebra::DVectorView<f64>, b: nalgebra::DVectorView<f64>| {
        a.iter().zip(b.iter()).map(|(a, b)| fixed(*a) * fixed(*b)).sum::<i128>()
    };
    z.column_iter().flat_map(|b| x.column_iter().map(move |a| products(a, b)).collect::<Vec<_>>()).collect()
}

/// Values up to 1 in size.
fn block(rows: usize, columns: usize, seed: usize) -> DMatrix<f64> {
    DMatrix::from_fn(rows, columns, |i, j| ((i * 7919 + j * 31 + seed * 101 + i * i) % 2003) as f64 / 1001.0 - 1.0)
}

fn shape(width: Width, bits: u32, x: &DMatrix<f64>, z: &DMatrix<f64>) -> Shape {
    Shape { width, bits, rows: x.nrows(), left: x.ncols(), right: z.ncols() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn an_opened_table_is_the_exact_product_of_the_quantised_columns(
        rows in prop_oneof![0_usize..4, 2046_usize..2051, 4090_usize..4100],
        left in 0_usize..4,
        right in 0_usize..4,
        seed in 0_usize..50,
    ) {
        let (x, z) = (block(rows, left, seed), block(rows, right, seed + 1));
        for (width, bits) in [(Width::Two, 44), (Width::One, 20)] {
            let shape = shape(width, bits, &x, &z);
            let table = opened(shares(shape, &x, &z, &Cast::default(), |_, _| ()).unwrap()).unwrap();
            prop_assert_eq!(table.integers(), exact(shape, &x, &z));
        }
    }
}

#[test]
fn values_at_the_bound_open_exactly_and_values_beyond_it_are_refused() {
    let bits = crate::secure::budget::gaussian(4096).unwrap();
    // One row that is all of the column: the largest entry, and the largest product of two columns.
    let most = 64.0;
    for sign in [1.0, -1.0] {
        let x = DMatrix::from_fn(4096, 1, |i, _| if i == 5 { most } else { 0.0 });
        let shape = shape(Width::Two, bits, &x, &x);
        let table = opened(shares(shape, &x, &(&x * sign), &Cast::default(), |_, _| ()).unwrap()).unwrap();
        assert_eq!(table.integers(), [sign as i128 * (4096_i128 << (2 * bits))]);
        assert_eq!(table.mean()[(0, 0)], sign);
    }
    let (x, z) = (DMatrix::from_element(4096, 1, 2.0), DMatrix::from_element(4096, 1, 1.0));
    let beyond = opened(shares(shape(Width::Two, bits, &x, &z), &x, &z, &Cast::default(), |_, _| ()).unwrap());
    assert_eq!(beyond, Err(Fault::Bound));
    let x = DMatrix::from_element(4096, 1, f64::NAN);
    let own = shares(shape(Width::Two, bits, &x, &z), &x, &z, &Cast::default(), |_, _| ()).map(|_| ());
    assert_eq!(own, Err(Fault::OwnValue));
}

#[test]
fn masks_that_are_out_of_step_are_noticed_before_anything_opens() {
    let (x, z) = (block(3000, 2, 1), block(3000, 3, 2));
    let shape = shape(Width::Two, 44, &x, &z);
    let other = || Seed::new([9; 32]);
    let casts = [
        Cast { alice: other(), ..Cast::default() },
        Cast { bob: other(), ..Cast::default() },
        Cast { dealer: [Seed::new([2; 32]), Seed::new([1; 32])], ..Cast::default() },
        Cast { run: [0, 0, 1], ..Cast::default() },
    ];
    for (at, cast) in casts.iter().enumerate() {
        let shares = shares(shape, &x, &z, cast, |_, _| ()).unwrap();
        assert_eq!(opened(shares), Err(Fault::OutOfStep), "cast {at}");
    }
    // A correction for the other side: the left party's share in place of the rest.
    let [alice, bob] = shares(shape, &x, &z, &Cast::default(), |_, _| ()).unwrap();
    let wrong = alice.canary().clone();
    assert_eq!(alice.check(&wrong).map(|_| ()), Err(Fault::OutOfStep));
    assert_eq!(bob.check(&Elements::zeros(Width::Two, 1)).map(|_| ()), Err(Fault::OutOfStep));
}

#[test]
fn the_canary_sees_a_changed_word_of_a_canary_column() {
    let (x, z) = (block(2500, 2, 1), block(2500, 1, 2));
    let shape = shape(Width::Two, 40, &x, &z);
    let change = |frame: &mut Frame, side| {
        if frame.block == 1 && side == Side::Left {
            let count = frame.entries.count();
            let mut one = vec![0; count];
            one[count - 1] = 1;
            frame.entries.add(&Elements::from_integers(Width::Two, &one)).unwrap();
        }
    };
    assert_eq!(opened(shares(shape, &x, &z, &Cast::default(), change).unwrap()), Err(Fault::OutOfStep));
}

#[test]
fn row_blocks_out_of_order_or_of_another_size_are_refused() {
    let (x, z) = (block(3000, 2, 1), block(3000, 1, 2));
    let shape = shape(Width::Two, 44, &x, &z);
    let labels = || Labels::new(Digest([7; 32]), RunId([0; 16]));
    let mut alice = Party::new(shape, Side::Left, &Seed::new([1; 32]), &mut labels());
    let mut bob = Party::new(shape, Side::Right, &Seed::new([2; 32]), &mut labels());
    let (first, second) = (alice.hide(&x).unwrap().unwrap(), alice.hide(&x).unwrap().unwrap());
    assert_eq!(bob.take(&second, &z), Err(Fault::Order { came: 1, expected: 0 }));
    let short = Frame { block: 0, entries: Elements::zeros(Width::Two, 17) };
    let fault = RingError::Count { came: 17, expected: 2048 * 3 };
    assert_eq!(bob.take(&short, &z), Err(Fault::Ring { what: "row block", fault }));
    let narrow = Frame { block: 0, entries: Elements::zeros(Width::One, 2048 * 3) };
    assert!(bob.take(&narrow, &z).is_err());
    assert_eq!(bob.take(&first, &z), Ok(()));
    assert_eq!(bob.take(&first, &z), Err(Fault::Order { came: 0, expected: 1 }));
    assert_eq!(bob.take(&second, &z), Ok(()));
    assert_eq!(bob.take(&second, &z), Err(Fault::Order { came: 1, expected: 2 }));
    // Own columns of another shape than agreed.
    assert!(bob.hide(&x).is_err());
    let correction = Correction(Elements::zeros(Width::Two, shape.correction()));
    assert!(matches!(bob.finish(Some(&correction)), Err(Fault::Early { came: 0, expected: 2, .. })));
    assert!(matches!(alice.finish(None), Err(Fault::Early { .. })));
    let mut dealer = Dealer::new(shape, &Seed::new([1; 32]), &Seed::new([2; 32]), &mut labels());
    assert!(dealer.step());
    assert!(matches!(dealer.finish(), Err(Fault::Early { came: 1, expected: 2, .. })));
}

#[test]
fn a_correction_goes_to_the_right_party_only_and_has_its_size() {
    let (x, z) = (block(5, 1, 1), block(5, 1, 2));
    let shape = shape(Width::Two, 44, &x, &z);
    let done = |side: Side, own: &DMatrix<f64>, peer: Side| {
        let mut labels = Labels::new(Digest([7; 32]), RunId([0; 16]));
        let mut party = Party::new(shape, side, &Seed::new([1; 32]), &mut labels);
        party.hide(own).unwrap();
        let entries = Elements::zeros(Width::Two, shape.frame(peer, 0));
        party.take(&Frame { block: 0, entries }, own).unwrap();
        party
    };
    let correction = Correction(Elements::zeros(Width::Two, 4));
    assert!(done(Side::Left, &x, Side::Right).finish(Some(&correction)).is_err());
    assert!(done(Side::Right, &z, Side::Left).finish(None).is_err());
    assert!(done(Side::Right, &z, Side::Left).finish(Some(&Correction(Elements::zeros(Width::Two, 3)))).is_err());
    assert!(done(Side::Right, &z, Side::Left).finish(Some(&correction)).is_ok());
}

#[test]
fn bytes_on_the_line_are_those_of_the_formula() {
    let (x, z) = (block(2500, 3, 1), block(2500, 2, 2));
    for (width, each) in [(Width::One, 8), (Width::Two, 16)] {
        let shape = shape(width, 20, &x, &z);
        let sent = std::cell::RefCell::new([0, 0]);
        let count = |frame: &mut Frame, side| {
            sent.borrow_mut()[usize::from(side == Side::Right)] += frame.entries.to_bytes().len() as u64;
        };
        shares(shape, &x, &z, &Cast::default(), count).unwrap();
        assert_eq!(*sent.borrow(), [2500 * 4 * each, 2500 * 3 * each]);
        assert_eq!([shape.bytes(Side::Left), shape.bytes(Side::Right)], *sent.borrow());
        assert_eq!((shape.correction(), shape.opened()), (4 * 3, 3 * 2));
    }
}

#[test]
fn masked_row_blocks_are_uniform_whatever_the_columns() {
    let (x, z) = (DMatrix::zeros(20_000, 4), DMatrix::from_element(20_000, 1, 1.0));
    let shape = shape(Width::Two, 44, &x, &z);
    let counts = std::cell::RefCell::new(vec![[0_u32; 64]; 6]);
    let count = |frame: &mut Frame, side| {
        for (at, prime) in Width::Two.primes().iter().enumerate().filter(|_| side == Side::Left) {
            let mut residues = Vec::new();
            frame.entries.residues(at, frame.entries.count(), &mut residues);
            let mut counts = counts.borrow_mut();
            residues.iter().for_each(|residue| counts[at][(residue * 64.0 / *prime as f64) as usize] += 1);
        }
    };
    shares(shape, &x, &z, &Cast::default(), count).unwrap();
    for counts in counts.into_inner() {
        let expected = 100_000.0 / 64.0;
        let chi: f64 = counts.iter().map(|count| (f64::from(*count) - expected).powi(2) / expected).sum();
        // 63 degrees of freedom: 130 has a probability of 1e-6, and the seeds are fixed.
        assert!(chi < 130.0, "{chi}");
    }
}

#[test]
fn a_table_is_the_same_bits_on_any_number_of_threads() {
    let (x, z) = (block(5000, 5, 1), block(5000, 4, 2));
    let shape = shape(Width::Two, 44, &x, &z);
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let [alice, bob] = shares(shape, &x, &z, &Cast::default(), |_, _| ()).unwrap();
            let canary = alice.canary().clone();
            (hex(alice.check(bob.canary()).unwrap().share()), hex(bob.check(&canary).unwrap().share()))
        })
    };
    assert_eq!(on(1), on(3));
}

#[test]
fn what_the_debugger_prints_has_no_values() {
    let elements = Elements::from_bytes(Width::One, 1, &bytes("0100000000000000")).unwrap();
    assert_eq!(format!("{elements:?}"), "Elements(One, 1)");
    assert_eq!(format!("{:?}", Seed::new([3; 32])), "Seed");
}
