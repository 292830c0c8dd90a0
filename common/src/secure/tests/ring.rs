//! The ring against Python's integers.

use proptest::prelude::*;
use serde::Deserialize;

use super::{bytes, hex, width};
use crate::linalg;
use crate::secure::lanes;
use crate::secure::ring::{Elements, Incoming, LARGEST_FIXED, PRIMES, ROWS, RingError, Width, row_blocks};

#[derive(Deserialize)]
struct File {
    integers: Vec<Integers>,
    fixed: Vec<Fixed>,
}

#[derive(Deserialize)]
struct Integers {
    words: usize,
    modulus: String,
    integers: Vec<String>,
    bytes: String,
    sums: String,
    differences: String,
    products: String,
}

#[derive(Deserialize)]
struct Fixed {
    words: usize,
    bits: u32,
    values: Vec<f64>,
    bytes: String,
}

fn file() -> File {
    serde_json::from_str(include_str!("../../../../tests/vectors/secure/ring.json")).unwrap()
}

#[test]
fn integers_become_the_same_words_as_in_python_and_come_back() {
    for case in file().integers {
        let width = width(case.words);
        assert_eq!(width.modulus().to_string(), case.modulus);
        let integers: Vec<i128> = case.integers.iter().map(|value| value.parse().unwrap()).collect();
        let elements = Elements::from_integers(width, &integers);
        assert_eq!(hex(&elements), case.bytes);
        assert_eq!(elements.to_integers(), integers);
        assert_eq!(Elements::from_bytes(width, integers.len(), &bytes(&case.bytes)).unwrap(), elements);
    }
}

#[test]
fn sums_differences_and_products_are_those_of_integers() {
    for case in file().integers {
        let integers: Vec<i128> = case.integers.iter().map(|value| value.parse().unwrap()).collect();
        let elements = Elements::from_integers(width(case.words), &integers);
        let backwards = elements.select((0..integers.len()).rev());
        let combined = |with: fn(&mut Elements, &Elements) -> Result<(), RingError>| {
            let mut left = elements.clone();
            with(&mut left, &backwards).unwrap();
            hex(&left)
        };
        assert_eq!(combined(Elements::add), case.sums);
        assert_eq!(combined(Elements::subtract), case.differences);
        assert_eq!(combined(Elements::multiply), case.products);
    }
}

#[test]
fn fixed_point_rounds_to_the_nearest_integer_and_ties_to_even() {
    for case in file().fixed {
        let elements = Elements::fixed(width(case.words), &case.values, case.bits).unwrap();
        assert_eq!(hex(&elements), case.bytes);
    }
}

#[test]
fn what_fixed_point_cannot_hold_is_refused() {
    let of = |value: f64| Elements::fixed(Width::Two, &[0.5, value, 0.5], 44).map(|_| ());
    assert_eq!(of(LARGEST_FIXED / 2f64.powi(44)), Ok(()));
    for value in [f64::NAN, f64::INFINITY, -f64::INFINITY, 128.000001, -128.000001, f64::MAX] {
        assert_eq!(of(value), Err(RingError::Range), "{value}");
        assert_eq!(Elements::fixed(Width::One, &[value, 0.5], 44).map(|_| ()), Err(RingError::Range), "{value}");
    }
}

#[test]
fn words_with_a_field_that_is_not_below_its_prime_are_refused() {
    for width in [Width::One, Width::Two] {
        for (at, prime) in width.primes().iter().enumerate() {
            for value in *prime - 1..=(1 << 21) - 1 {
                let mut words = vec![0_u64; 5 * width.words()];
                words[5 * (at / 3) + 3] = value << (21 * (at % 3));
                let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                let came = Elements::from_bytes(width, 5, &bytes).map(|_| ());
                assert_eq!(came, if value < *prime { Ok(()) } else { Err(RingError::Word) });
            }
        }
        let mut bytes = vec![0; 5 * width.bytes()];
        bytes[5 * width.bytes() - 1] = 0x80;
        assert_eq!(Elements::from_bytes(width, 5, &bytes), Err(RingError::Word));
        let short = Elements::from_bytes(width, 6, &bytes);
        assert_eq!(short, Err(RingError::Count { came: 5, expected: 6 }));
        assert!(Elements::from_bytes(width, usize::MAX, &bytes).is_err());
        assert!(Elements::from_bytes(width, 5, &bytes[1..]).is_err());
    }
}

#[test]
fn elements_of_another_ring_or_number_do_not_combine() {
    let mut two = Elements::zeros(Width::Two, 2);
    assert!(two.add(&Elements::zeros(Width::One, 4)).is_err());
    assert!(two.subtract(&Elements::zeros(Width::Two, 3)).is_err());
    assert!(two.append(&Elements::zeros(Width::One, 2)).is_err());
}

#[test]
fn a_row_block_of_the_largest_residues_is_summed_exactly() {
    for prime in PRIMES {
        let largest = vec![(prime - 1) as f64; ROWS];
        let mut sum = vec![(prime - 1) as f64];
        linalg::add_cross_product(&mut sum, &largest, &largest, ROWS);
        let exact = ROWS as u64 * (prime - 1) * (prime - 1) + prime - 1;
        assert!(exact < 1 << 53);
        assert_eq!(sum[0] as u64, exact);
        lanes::reduce(&mut sum, prime);
        assert_eq!(sum[0] as u64, exact % prime);
    }
}

#[test]
fn sums_over_terms_and_scaled_columns_are_those_of_integers_up_to_the_largest_residues() {
    for width in [Width::One, Width::Two] {
        let most = -1_i128;
        for (rows, terms) in [(1, 1), (3, 1100), (255, 2), (256, 3), (300, 254)] {
            // Minus one is the largest residue of every prime.
            let value = |at: usize| if at.is_multiple_of(3) { most } else { (at * at) as i128 - 7 * at as i128 };
            let left: Vec<i128> = (0..rows * terms).map(value).collect();
            let right: Vec<i128> = (0..rows * terms).map(|at| value(at + usize::from(at % 5 == 1))).collect();
            let start: Vec<i128> = (0..rows).map(value).collect();
            let mut sums = Elements::from_integers(width, &start);
            let [a, b] = [&left, &right].map(|values| Elements::from_integers(width, values));
            sums.add_row_products(a.whole(), b.whole()).unwrap();
            let term = |row: usize, k: usize| left[k * rows + row] * right[k * rows + row];
            let exact = |row: usize| start[row] + (0..terms).map(|k| term(row, k)).sum::<i128>();
            assert_eq!(sums, Elements::from_integers(width, &(0..rows).map(exact).collect::<Vec<_>>()));

            let column = Elements::from_integers(width, &start);
            let scaled = Elements::columns_times::<false>(a.whole(), &column, &b).unwrap();
            let less = Elements::columns_times::<true>(a.whole(), &column, &b).unwrap();
            let exact = |times: i128| {
                let of = |at: usize| left[at] * start[at % rows] + times * right[at];
                Elements::from_integers(width, &(0..rows * terms).map(of).collect::<Vec<_>>())
            };
            assert_eq!((scaled, less), ([exact(1), exact(2)], [exact(-1), exact(-2)]));
            let mut all = a.clone();
            all.multiply_all(-7);
            assert_eq!(all, Elements::from_integers(width, &left.iter().map(|value| -7 * value).collect::<Vec<_>>()));
        }
        let (three, two) = (Elements::zeros(width, 3), Elements::zeros(width, 2));
        assert!(two.clone().add_row_products(three.whole(), three.whole()).is_err());
        assert!(two.clone().add_row_products(two.whole(), Elements::zeros(width, 4).whole()).is_err());
        assert!(Elements::columns_times::<true>(two.whole(), &three, &two).is_err());
    }
}

#[test]
fn elements_come_in_parts_of_whole_words_and_not_more_than_announced() {
    for width in [Width::One, Width::Two] {
        let elements = Elements::from_integers(width, &[1, -1, 5, 1 << 40, -9]);
        let whole = elements.to_bytes();
        for size in [8, 16, 24, 40, 80] {
            let parts = (0..).step_by(size / 8).map_while(|first| elements.bytes_from(first, size / 8));
            assert_eq!(parts.flatten().collect::<Vec<u8>>(), whole);
            let mut incoming = Incoming::new(width, 5).unwrap();
            assert!(incoming.clone().finish().is_err());
            whole.chunks(size).for_each(|part| incoming.push(part).unwrap());
            assert_eq!(incoming.bytes(), whole.len());
            assert_eq!(incoming.clone().finish().unwrap(), elements);
            assert!(incoming.push(&[0; 8]).is_err());
        }
        let mut incoming = Incoming::new(width, 5).unwrap();
        assert!(incoming.push(&whole[..7]).is_err());
        assert_eq!(incoming.push(&[255; 8]), Err(RingError::Word));
    }
}

#[test]
fn the_primes_are_primes_and_their_products_have_the_bits_that_are_promised() {
    for prime in PRIMES {
        assert!((2..1449).all(|divisor| prime % divisor != 0), "{prime}");
    }
    assert!(Width::One.modulus() > (1 << 63) - (1 << 50) && Width::One.modulus() < 1 << 63);
    assert!(Width::Two.modulus() > (1 << 126) - (1 << 113) && Width::Two.modulus() < 1 << 126);
}

#[test]
fn row_blocks_cover_the_rows_once() {
    for rows in [0, 1, 2047, 2048, 2049, 10_000] {
        let blocks: Vec<_> = row_blocks(rows).collect();
        assert_eq!(blocks.iter().flat_map(Clone::clone).collect::<Vec<_>>(), (0..rows).collect::<Vec<_>>());
        assert!(blocks.iter().all(|block| block.len() <= ROWS && !block.is_empty()));
    }
}

proptest! {
    #[test]
    fn residues_of_any_integer_are_its_remainders(values in prop::collection::vec(any::<i64>(), 1..40)) {
        for width in [Width::One, Width::Two] {
            let half = (width.modulus() / 2) as i128;
            let integers: Vec<i128> = values.iter().map(|value| i128::from(*value) << 61).map(|value| value % half).collect();
            prop_assert_eq!(Elements::from_integers(width, &integers).to_integers(), integers);
        }
        let small: Vec<f64> = values.iter().map(|value| (value >> 13) as f64).collect();
        let integers: Vec<i128> = small.iter().map(|value| *value as i128).collect();
        let fixed = Elements::fixed(Width::Two, &small, 0).unwrap();
        prop_assert_eq!(fixed.to_integers(), integers);
    }
}
