//! Loops over packed residues, compiled for the widest vectors that the processor has.
//!
//! A word holds three residues of 21 bits. Arithmetic is that of f64: integers below 2^53 are exact in it, and it is the one
//! arithmetic for which every processor has wide vectors and fast matrix products.

use crate::linalg::kernels::widest;

/// The bits of one residue in a word.
const FIELD: u64 = (1 << 21) - 1;

/// 2^52: an integer below it, added, stands in the low bits of the sum.
const UNIT: f64 = 4_503_599_627_370_496.0;

/// 1.5 * 2^52: adding and taking away rounds a number of size up to 2^51 to the nearest integer, ties to even.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// The first and the last field of a word, which have room for one more bit beside each other.
const OUTER: u64 = FIELD | FIELD << 42;

/// The field between.
const INNER: u64 = FIELD << 21;

/// The lowest bit of every field.
const ONES: u64 = 1 | 1 << 21 | 1 << 42;

/// The bit that no word has.
const TOP: u64 = 1 << 63;

/// The bits behind each field, into which a field overflows.
const OVER: u64 = 1 << 21 | 1 << 42 | TOP;

/// The three primes of one word.
#[derive(Clone, Copy)]
pub(super) struct Moduli {
    primes: [f64; 3],
    inverses: [f64; 3],
    /// The primes where their fields stand.
    packed: u64,
    /// What is left of each field above its prime, there too: a field that is not below its prime overflows with it.
    left: u64,
}

impl Moduli {
    pub(super) const fn new(primes: [u64; 3]) -> Moduli {
        let [p, q, r] = [primes[0] as f64, primes[1] as f64, primes[2] as f64];
        let packed = primes[0] | primes[1] << 21 | primes[2] << 42;
        let left = (FIELD + 1 - primes[0]) | (FIELD + 1 - primes[1]) << 21 | (FIELD + 1 - primes[2]) << 42;
        Moduli { primes: [p, q, r], inverses: [1.0 / p, 1.0 / q, 1.0 / r], packed, left }
    }
}

#[inline(always)]
fn field(word: u64, place: usize) -> f64 {
    float((word >> (21 * place)) & FIELD)
}

/// An integer below 2^52.
#[inline(always)]
fn float(integer: u64) -> f64 {
    f64::from_bits(integer | UNIT.to_bits()) - UNIT
}

#[inline(always)]
fn bits(residue: f64, place: usize) -> u64 {
    ((residue + UNIT).to_bits() & FIELD) << (21 * place)
}

/// The residue of an integer of size below 2^53.
#[inline(always)]
fn residue(value: f64, prime: f64, inverse: f64) -> f64 {
    // The quotient may be rounded to the next integer below or above; one correction brings the rest into [0, prime).
    let rest = value - ((value * inverse + ROUND) - ROUND) * prime;
    if rest < 0.0 { rest + prime } else { rest }
}

/// Whether every word has its top bit clear and every field below its prime.
pub(super) fn sound(words: &[u64], moduli: &Moduli) -> bool {
    let left = moduli.left;
    widest(
        #[inline(always)]
        || {
            let mut wrong = 0;
            for word in words {
                // What differs from a sum without carries are the carries: a field that is not below its prime makes one into the bit behind
                // it, whatever those above do then.
                wrong |= (word.wrapping_add(left) ^ word ^ left) | (word & TOP);
            }
            wrong & OVER == 0
        },
    )
}

/// `round(value * scale)` as residues; whether every scaled value is at most `largest` in size, up to 2^51.
pub(super) fn pack_fixed(values: &[f64], scale: f64, largest: f64, words: &mut [u64], moduli: &Moduli) -> bool {
    let Moduli { primes, inverses, .. } = *moduli;
    widest(
        #[inline(always)]
        || {
            let mut within = true;
            for (word, value) in words.iter_mut().zip(values) {
                let scaled = value * scale;
                let rounded = (scaled + ROUND) - ROUND;
                within &= scaled.abs() <= largest;
                let mut packed = 0;
                for place in 0..3 {
                    packed |= bits(residue(rounded, primes[place], inverses[place]), place);
                }
                *word = packed;
            }
            within
        },
    )
}

/// `round(value * scale)` as residues in `own`, and these without a mask in `hidden`; whether every scaled value is at most `largest` in size.
pub(super) fn hide_fixed(
    values: &[f64],
    scale: f64,
    largest: f64,
    mask: &[u64],
    [own, hidden]: [&mut [u64]; 2],
    moduli: &Moduli,
) -> bool {
    let within = pack_fixed(values, scale, largest, own, moduli);
    let packed = moduli.packed;
    widest(
        #[inline(always)]
        || {
            for ((hidden, own), mask) in hidden.iter_mut().zip(&*own).zip(mask) {
                *hidden = rest(*own, *mask, packed);
            }
        },
    );
    within
}

/// Three rows of residues as words.
pub(super) fn pack(planes: [&[f64]; 3], words: &mut [u64]) {
    for (at, word) in words.iter_mut().enumerate() {
        *word = bits(planes[0][at], 0) | bits(planes[1][at], 1) | bits(planes[2][at], 2);
    }
}

/// One residue of every word.
pub(super) fn unpack(words: &[u64], place: usize, residues: &mut [f64]) {
    match place {
        0 => unpack_at::<0>(words, residues),
        1 => unpack_at::<1>(words, residues),
        _ => unpack_at::<2>(words, residues),
    }
}

/// With the place as a constant: a shift that is computed and checked word by word takes longer than everything else.
fn unpack_at<const PLACE: usize>(words: &[u64], residues: &mut [f64]) {
    widest(
        #[inline(always)]
        || {
            for (residue, word) in residues.iter_mut().zip(words) {
                *residue = field(*word, PLACE);
            }
        },
    );
}

/// Brings sums below 2^53 back into `[0, prime)`.
pub(super) fn reduce(sums: &mut [f64], prime: u64) {
    let (prime, inverse) = (prime as f64, 1.0 / prime as f64);
    widest(
        #[inline(always)]
        || {
            for sum in sums.iter_mut() {
                *sum = residue(*sum, prime, inverse);
            }
        },
    );
}

/// Rows of which the sums of products are made at a time: they stay in the nearest cache.
const SUMMED: usize = 256;

/// Products of a row that are summed before the sums are reduced: below 2^52.
const TERMS: usize = 1 << 10;

/// Adds `sum_k left_k right_k` to each of some sums, for factors that stand term by term: as many as there are sums, one term behind the
/// other.
pub(super) fn add_row_products(sums: &mut [u64], left: &[u64], right: &[u64], moduli: &Moduli) {
    let rows = sums.len().max(1);
    let Moduli { primes, inverses, .. } = *moduli;
    let some = rows * TERMS;
    for (left, right) in left.chunks(some).zip(right.chunks(some)) {
        widest(
            #[inline(always)]
            || {
                for (part, sums) in sums.chunks_mut(SUMMED).enumerate() {
                    let mut parts = [[0_u64; SUMMED]; 3];
                    let [p, q, r] = &mut parts;
                    for (left, right) in left.chunks_exact(rows).zip(right.chunks_exact(rows)) {
                        let begin = part * SUMMED;
                        let factors = left[begin..begin + sums.len()].iter().zip(&right[begin..begin + sums.len()]);
                        for ((((a, b), p), q), r) in factors.zip(&mut *p).zip(&mut *q).zip(&mut *r) {
                            *p = p.wrapping_add((a & FIELD).wrapping_mul(b & FIELD));
                            *q = q.wrapping_add(((a >> 21) & FIELD).wrapping_mul((b >> 21) & FIELD));
                            *r = r.wrapping_add(((a >> 42) & FIELD).wrapping_mul((b >> 42) & FIELD));
                        }
                    }
                    for (at, sum) in sums.iter_mut().enumerate() {
                        let mut packed = 0;
                        for place in 0..3 {
                            let whole = float(parts[place][at]) + field(*sum, place);
                            packed |= bits(residue(whole, primes[place], inverses[place]), place);
                        }
                        *sum = packed;
                    }
                }
            },
        );
    }
}

/// Sums of products that are summed side by side.
const SIDE: usize = 8;

/// One residue of every word, as an integer.
pub(super) fn unpack_integers(words: &[u64], place: usize, residues: &mut [u32]) {
    let shift = 21 * place as u32;
    widest(
        #[inline(always)]
        || residues.iter_mut().zip(words).for_each(|(residue, word)| *residue = ((word >> shift) & FIELD) as u32),
    );
}

/// The products of one column of words with a vector of which the residues are given, one a place, over at most
/// [`ROWS`](super::ring::ROWS) rows.
pub(super) fn product(column: &[u64], vector: [&[u32]; 3]) -> [u64; 3] {
    widest(
        #[inline(always)]
        || {
            let (some, left) = column.as_chunks::<SIDE>();
            // What is left of both must be of the same rows.
            let [(p, p_left), (q, q_left), (r, r_left)] =
                vector.map(|residues| residues[..column.len()].as_chunks::<SIDE>());
            let mut parts = [[0_u64; SIDE]; 3];
            for (((words, p), q), r) in some.iter().zip(p).zip(q).zip(r) {
                for at in 0..SIDE {
                    parts[0][at] = parts[0][at].wrapping_add((words[at] & FIELD).wrapping_mul(p[at].into()));
                    parts[1][at] = parts[1][at].wrapping_add(((words[at] >> 21) & FIELD).wrapping_mul(q[at].into()));
                    parts[2][at] = parts[2][at].wrapping_add(((words[at] >> 42) & FIELD).wrapping_mul(r[at].into()));
                }
            }
            let mut sums = parts.map(|part| part.iter().fold(0_u64, |sum, part| sum.wrapping_add(*part)));
            for (((word, p), q), r) in left.iter().zip(p_left).zip(q_left).zip(r_left) {
                sums[0] = sums[0].wrapping_add((word & FIELD).wrapping_mul((*p).into()));
                sums[1] = sums[1].wrapping_add(((word >> 21) & FIELD).wrapping_mul((*q).into()));
                sums[2] = sums[2].wrapping_add(((word >> 42) & FIELD).wrapping_mul((*r).into()));
            }
            sums
        },
    )
}

/// The products of `round(value * scale)` with a vector of which the residues are given, one a place, over at most
/// [`ROWS`](super::ring::ROWS) rows, as integers of either sign; none where a scaled value is larger than `largest`.
pub(super) fn fixed_product(
    column: &[f64],
    (scale, largest): (f64, f64),
    vector: [&[f64]; 3],
    moduli: &Moduli,
) -> Option<[f64; 3]> {
    let Moduli { primes, inverses, .. } = *moduli;
    widest(
        #[inline(always)]
        || {
            // Residues between minus and plus half of a prime: a sum of products is below 2^53.
            let of = |value: f64, at: usize| value - ((value * inverses[at] + ROUND) - ROUND) * primes[at];
            let (some, left) = column.as_chunks::<SIDE>();
            // What is left of both must be of the same rows.
            let [(p, p_left), (q, q_left), (r, r_left)] =
                vector.map(|residues| residues[..column.len()].as_chunks::<SIDE>());
            let mut parts = [[0.0; SIDE]; 3];
            let mut within = true;
            for (((values, p), q), r) in some.iter().zip(p).zip(q).zip(r) {
                for at in 0..SIDE {
                    let scaled = values[at] * scale;
                    within &= scaled.abs() <= largest;
                    let rounded = (scaled + ROUND) - ROUND;
                    parts[0][at] += of(rounded, 0) * p[at];
                    parts[1][at] += of(rounded, 1) * q[at];
                    parts[2][at] += of(rounded, 2) * r[at];
                }
            }
            let mut sums = parts.map(|part| part.iter().sum::<f64>());
            for (((value, p), q), r) in left.iter().zip(p_left).zip(q_left).zip(r_left) {
                let scaled = value * scale;
                within &= scaled.abs() <= largest;
                let rounded = (scaled + ROUND) - ROUND;
                sums[0] += of(rounded, 0) * p;
                sums[1] += of(rounded, 1) * q;
                sums[2] += of(rounded, 2) * r;
            }
            within.then_some(sums)
        },
    )
}

/// Brings the fields of one half of a word, which have a free bit behind each, from below twice their primes to below them.
#[inline(always)]
fn reduced(sum: u64, primes: u64, ones: u64) -> u64 {
    // A field that is not below its prime overflows with what is left above the prime.
    let over = (sum.wrapping_add((ones << 21).wrapping_sub(primes)) & (ones << 21)) >> 21;
    sum.wrapping_sub(primes & (over << 21).wrapping_sub(over))
}

/// `a - b` in every field.
#[inline(always)]
fn rest(a: u64, b: u64, packed: u64) -> u64 {
    let part = |fields: u64| {
        let primes = packed & fields;
        reduced((a & fields).wrapping_add(primes).wrapping_sub(b & fields), primes, ONES & fields)
    };
    part(OUTER) | part(INNER)
}

/// `a + b` in every field.
#[inline(always)]
fn sum(a: u64, b: u64, packed: u64) -> u64 {
    let part = |fields: u64| reduced((a & fields).wrapping_add(b & fields), packed & fields, ONES & fields);
    part(OUTER) | part(INNER)
}

/// `left + right`, word by word.
pub(super) fn add(left: &mut [u64], right: &[u64], moduli: &Moduli) {
    let packed = moduli.packed;
    widest(
        #[inline(always)]
        || left.iter_mut().zip(right).for_each(|(left, right)| *left = sum(*left, *right, packed)),
    );
}

/// `left - right`, word by word.
pub(super) fn subtract(left: &mut [u64], right: &[u64], moduli: &Moduli) {
    let packed = moduli.packed;
    widest(
        #[inline(always)]
        || left.iter_mut().zip(right).for_each(|(left, right)| *left = rest(*left, *right, packed)),
    );
}

/// `left * right` in every field.
#[inline(always)]
fn product_of(left: u64, right: u64, primes: [f64; 3], inverses: [f64; 3]) -> u64 {
    let mut packed = 0;
    for place in 0..3 {
        let shift = 21 * place as u32;
        let product = ((left >> shift) & FIELD).wrapping_mul((right >> shift) & FIELD);
        packed |= bits(residue(float(product), primes[place], inverses[place]), place);
    }
    packed
}

/// `left * right`, word by word.
pub(super) fn multiply(left: &mut [u64], right: &[u64], moduli: &Moduli) {
    let Moduli { primes, inverses, .. } = *moduli;
    widest(
        #[inline(always)]
        || {
            let both = left.iter_mut().zip(right);
            both.for_each(|(left, right)| *left = product_of(*left, *right, primes, inverses));
        },
    );
}

/// Every word times the same one.
pub(super) fn multiply_all(words: &mut [u64], factor: u64, moduli: &Moduli) {
    let Moduli { primes, inverses, .. } = *moduli;
    widest(
        #[inline(always)]
        || words.iter_mut().for_each(|word| *word = product_of(*word, factor, primes, inverses)),
    );
}

/// `left * right + added` in `whole`, and that plus `added` in `twice`, word by word; with `MINUS` both times without `added` instead.
pub(super) fn multiply_add<const MINUS: bool>(
    [left, right, added]: [&[u64]; 3],
    whole: &mut [u64],
    twice: &mut [u64],
    moduli: &Moduli,
) {
    let Moduli { primes, inverses, packed, .. } = *moduli;
    widest(
        #[inline(always)]
        || {
            let factors = left.iter().zip(right).zip(added);
            for (((left, right), added), (whole, twice)) in factors.zip(whole.iter_mut().zip(twice.iter_mut())) {
                let mut word = 0;
                for place in 0..3 {
                    let shift = 21 * place as u32;
                    let product = float(((left >> shift) & FIELD).wrapping_mul((right >> shift) & FIELD));
                    let added = field(*added, place);
                    let value = if MINUS { product - added } else { product + added };
                    word |= bits(residue(value, primes[place], inverses[place]), place);
                }
                *whole = word;
                *twice = if MINUS { rest(word, *added, packed) } else { sum(word, *added, packed) };
            }
        },
    );
}
