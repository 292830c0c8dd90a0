//! Loops over packed residues, compiled for the widest vectors that the processor has.
//!
//! A word holds three residues of 21 bits. Arithmetic is that of f64: integers below 2^53 are exact in it, and it is the one
//! arithmetic for which every processor has wide vectors and fast matrix products.

use pulp::Arch;

/// The bits of one residue in a word.
const FIELD: u64 = (1 << 21) - 1;

/// 2^52: an integer below it, added, stands in the low bits of the sum.
const UNIT: f64 = 4_503_599_627_370_496.0;

/// 1.5 * 2^52: adding and taking away rounds a number of size up to 2^51 to the nearest integer, ties to even.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// The three primes of one word.
#[derive(Clone, Copy)]
pub(super) struct Moduli {
    primes: [f64; 3],
    inverses: [f64; 3],
    most: [u64; 3],
}

impl Moduli {
    pub(super) const fn new(primes: [u64; 3]) -> Moduli {
        let [p, q, r] = [primes[0] as f64, primes[1] as f64, primes[2] as f64];
        Moduli {
            primes: [p, q, r],
            inverses: [1.0 / p, 1.0 / q, 1.0 / r],
            most: [primes[0] - 1, primes[1] - 1, primes[2] - 1],
        }
    }
}

#[inline(always)]
fn field(word: u64, place: usize) -> f64 {
    f64::from_bits(((word >> (21 * place)) & FIELD) | UNIT.to_bits()) - UNIT
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
    let most = moduli.most;
    Arch::new().dispatch(
        #[inline(always)]
        || {
            let mut wrong = 0;
            for word in words {
                wrong |= word;
                for place in 0..3 {
                    // The top bit of the difference is set where the field is larger.
                    wrong |= most[place].wrapping_sub((word >> (21 * place)) & FIELD);
                }
            }
            wrong >> 63 == 0
        },
    )
}

/// `round(value * scale)` as residues; whether every scaled value is at most `largest` in size, up to 2^51.
pub(super) fn pack_fixed(values: &[f64], scale: f64, largest: f64, words: &mut [u64], moduli: &Moduli) -> bool {
    let Moduli { primes, inverses, .. } = *moduli;
    Arch::new().dispatch(
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
    Arch::new().dispatch(
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
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for sum in sums.iter_mut() {
                *sum = residue(*sum, prime, inverse);
            }
        },
    );
}

/// Sums of products that are summed side by side.
const SIDE: usize = 8;

/// The products of one column of words with a vector of which the residues are given, one a place: sums below 2^53 over at most
/// [`ROWS`](super::ring::ROWS) rows, so that f64 is exact.
pub(super) fn product(column: &[u64], vector: [&[f64]; 3]) -> [f64; 3] {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            let (some, left) = column.as_chunks::<SIDE>();
            let [(p, p_left), (q, q_left), (r, r_left)] = vector.map(|residues| residues.as_chunks::<SIDE>());
            let mut parts = [[0.0; SIDE]; 3];
            for (((words, p), q), r) in some.iter().zip(p).zip(q).zip(r) {
                for at in 0..SIDE {
                    parts[0][at] += field(words[at], 0) * p[at];
                    parts[1][at] += field(words[at], 1) * q[at];
                    parts[2][at] += field(words[at], 2) * r[at];
                }
            }
            let mut sums = parts.map(|part| part.iter().sum::<f64>());
            for (((word, p), q), r) in left.iter().zip(p_left).zip(q_left).zip(r_left) {
                sums[0] += field(*word, 0) * p;
                sums[1] += field(*word, 1) * q;
                sums[2] += field(*word, 2) * r;
            }
            sums
        },
    )
}

/// `left + right`, word by word.
pub(super) fn add(left: &mut [u64], right: &[u64], moduli: &Moduli) {
    combine(
        left,
        right,
        moduli,
        #[inline(always)]
        |a, b, prime, _| {
            let sum = a + b;
            if sum >= prime { sum - prime } else { sum }
        },
    );
}

/// `left - right`, word by word.
pub(super) fn subtract(left: &mut [u64], right: &[u64], moduli: &Moduli) {
    combine(
        left,
        right,
        moduli,
        #[inline(always)]
        |a, b, prime, _| {
            let rest = a - b;
            if rest < 0.0 { rest + prime } else { rest }
        },
    );
}

/// `left * right`, word by word.
pub(super) fn multiply(left: &mut [u64], right: &[u64], moduli: &Moduli) {
    combine(
        left,
        right,
        moduli,
        #[inline(always)]
        |a, b, prime, inverse| residue(a * b, prime, inverse),
    );
}

#[inline(always)]
fn combine(left: &mut [u64], right: &[u64], moduli: &Moduli, of: impl Fn(f64, f64, f64, f64) -> f64) {
    let Moduli { primes, inverses, .. } = *moduli;
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for (left, right) in left.iter_mut().zip(right) {
                let mut packed = 0;
                for place in 0..3 {
                    let (a, b) = (field(*left, place), field(*right, place));
                    packed |= bits(of(a, b, primes[place], inverses[place]), place);
                }
                *left = packed;
            }
        },
    );
}
