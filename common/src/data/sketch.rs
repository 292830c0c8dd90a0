//! Sketches of columns: in how many rows two columns of the same rows differ, where these are few.
//!
//! A row falls into a bucket by its identifier, and a bucket holds the sum of marks of its rows, each of which follows from identifier and
//! value. Two columns differ in as many buckets as rows in which their values differ, less those that share a bucket: never in more. Order
//! and names of columns do not count, so that two columns of different runs can be compared.

use aes::Aes128;
use aes::cipher::{BlockEncrypt, KeyInit};

use super::column::{Column, MISSING, Values};

/// Most buckets: a sealed sketch is of at most 64 KiB.
const MOST: usize = 1 << 14;
/// Fewest buckets.
const FEWEST: usize = 1 << 6;
/// Rows that can be told from more of them with the most buckets: hardly two of these share a bucket.
const TOLD: u64 = MOST as u64 / 8;
/// Bytes of a bucket that is sealed.
const SEALED: usize = 4;

/// The mark of a value that is missing, as no number has it.
const NO_VALUE: u64 = 0x7ff8_0000_dead_beef;

/// The sums of one column.
#[derive(Debug, Clone, PartialEq)]
pub struct Sketch(Vec<u64>);

/// The mark of each row by its identifier.
pub(crate) fn marks_of(identifiers: impl Iterator<Item = impl AsRef<[u8]>>) -> Vec<u64> {
    identifiers.map(|identifier| mark(identifier.as_ref())).collect()
}

fn mark(text: &[u8]) -> u64 {
    let (words, rest) = text.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let words = words.iter().chain([&last]).map(|word| u64::from_le_bytes(*word));
    words.fold(text.len() as u64, |mark, word| mixed(mark ^ mixed(word)))
}

impl Sketch {
    /// Of a column, whose rows have these marks.
    pub(crate) fn of(rows: &[u64], column: &Column) -> Sketch {
        let buckets = rows.len().saturating_mul(4).next_power_of_two().clamp(FEWEST, MOST);
        let mut sums = vec![0_u64; buckets];
        let mut add = |at: usize, value: u64| {
            let sum = &mut sums[rows[at] as usize & (buckets - 1)];
            *sum = sum.wrapping_add(mixed(mixed(rows[at]) ^ mixed(value)));
        };
        match &column.values {
            Values::Numeric(numbers) => numbers.iter().enumerate().for_each(|(at, number)| {
                // -0 and 0 are one value.
                add(at, if number.is_nan() { NO_VALUE } else { (number + 0.0).to_bits() });
            }),
            Values::Boolean(values) => values.iter().enumerate().for_each(|(at, value)| {
                add(at, value.map_or(NO_VALUE, |value| f64::from(u8::from(value)).to_bits()));
            }),
            Values::Categorical { codes, levels, .. } => {
                let levels: Vec<u64> = levels.iter().map(|level| mark(level.as_bytes())).collect();
                codes.iter().enumerate().for_each(|(at, code)| {
                    add(at, if *code == MISSING { NO_VALUE } else { levels[*code as usize] });
                });
            }
        }
        Sketch(sums)
    }

    /// As it is kept: each sum as a hash under a key, of which nothing can be told without the key but whether it is another one's.
    pub fn sealed(&self, key: &[u8; 32]) -> Vec<u8> {
        let mut short = [0; 16];
        short.copy_from_slice(&key[..16]);
        let cipher = Aes128::new(&short.into());
        let mut blocks: Vec<aes::Block> = (self.0.iter().zip(0_u64..))
            .map(|(sum, bucket)| (u128::from(*sum) << 64 | u128::from(bucket)).to_be_bytes().into())
            .collect();
        cipher.encrypt_blocks(&mut blocks);
        blocks.iter().flat_map(|block| block.iter().copied().take(SEALED)).collect()
    }
}

/// In how many rows the columns of two sealed sketches differ; none where they do not, where they may differ in `enough` rows or more, and
/// where their rows are not as many.
pub fn few_differing(one: &[u8], other: &[u8], enough: u64) -> Option<u64> {
    if one.len() != other.len() {
        return None;
    }
    let (one, other) = (one.as_chunks::<SEALED>().0, other.as_chunks::<SEALED>().0);
    let differing = one.iter().zip(other).filter(|(one, other)| one != other).count() as u64;
    // Where rows have several buckets each, every number of rows can be told.
    let told = if one.len() < MOST { enough } else { enough.min(TOLD) };
    Some(differing).filter(|differing| (1..told).contains(differing))
}

/// A bijection that spreads what differs in few bits over all of them (Stafford's thirteenth variant of the finisher of MurmurHash3).
pub(crate) fn mixed(mut bits: u64) -> u64 {
    bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numeric(values: Vec<f64>) -> Column {
        Column { name: "x".to_string(), values: Values::Numeric(values) }
    }

    fn sealed(rows: usize, values: Vec<f64>) -> Vec<u8> {
        let names: Vec<String> = (0..rows).map(|row| format!("person {row}")).collect();
        Sketch::of(&marks_of(names.iter().map(String::as_bytes)), &numeric(values)).sealed(&[3; 32])
    }

    #[test]
    fn few_rows_in_which_columns_differ_are_counted_and_many_are_many() {
        for rows in [5, 40, 1000, 20_000, 100_000] {
            let values = |changed: usize| -> Vec<f64> {
                (0..rows).map(|row| (row * row % 97) as f64 + if row < changed { 0.5 } else { 0.0 }).collect()
            };
            let plain = sealed(rows, values(0));
            assert_eq!(few_differing(&plain, &sealed(rows, values(0)), 50), None, "{rows}: the same");
            for changed in [1, 2, 19].into_iter().filter(|changed| *changed <= rows) {
                let found = few_differing(&plain, &sealed(rows, values(changed)), 50).unwrap();
                assert!(
                    (1..=changed as u64).contains(&found) && found + 2 >= changed as u64,
                    "{rows}: {found} of {changed}"
                );
            }
            if rows > 500 {
                assert_eq!(few_differing(&plain, &sealed(rows, values(500)), 50), None, "{rows}: many");
            }
        }
    }

    #[test]
    fn order_and_kind_do_not_count_and_key_and_identifiers_do() {
        let marks = marks_of([b"a" as &[u8], b"bc", b"a longer name", b""].into_iter());
        assert!(marks.iter().enumerate().all(|(at, mark)| !marks[..at].contains(mark)));
        let column = numeric(vec![1.0, 0.0, f64::NAN, -0.0]);
        let sketch = Sketch::of(&marks, &column);
        let turned: Vec<u64> = marks.iter().rev().copied().collect();
        assert_eq!(Sketch::of(&turned, &numeric(vec![0.0, f64::NAN, 0.0, 1.0])), sketch);
        let truth = Values::Boolean(vec![Some(true), Some(false), None, Some(false)]);
        assert_eq!(Sketch::of(&marks, &Column { name: "t".to_string(), values: truth }), sketch);
        assert_ne!(Sketch::of(&turned, &column), sketch);
        assert_ne!(sketch.sealed(&[1; 32]), sketch.sealed(&[2; 32]));
        let levels = |levels: [&str; 2]| Values::Categorical {
            codes: vec![0, 1, MISSING, 0],
            levels: levels.map(str::to_string).to_vec(),
            declared: false,
        };
        let of = |values| Sketch::of(&marks, &Column { name: "g".to_string(), values }).sealed(&[3; 32]);
        assert_eq!(few_differing(&of(levels(["f", "m"])), &of(levels(["f", "d"])), 9), Some(1));
    }
}
