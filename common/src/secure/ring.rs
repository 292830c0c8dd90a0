//! Integers modulo a product of primes just below 2^21, kept as their residues.
//!
//! Products of two residues are below 2^42, so that a sum of [`ROWS`] of them is exact in f64 whatever the order: a product of
//! matrices is one f64 product a prime and block of rows. Values are signed and below half of the modulus in size; no share is
//! ever cut or rounded, so that what is opened is the exact integer of a formula in the quantised inputs.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::lanes::{self, Moduli};

/// The primes, largest first: of the narrow ring the first three.
pub const PRIMES: [u64; 6] = [2_097_143, 2_097_133, 2_097_131, 2_097_097, 2_097_091, 2_097_083];

/// Rows of a block: `ROWS * (p - 1)^2 + p < 2^53` for every prime.
pub const ROWS: usize = 2048;

/// What a fixed-point value may be in size before it is taken modulo the primes: 2^51, up to which f64 rounds in two additions.
pub const LARGEST_FIXED: f64 = 2_251_799_813_685_248.0;

static MODULI: [Moduli; 2] =
    [Moduli::new([PRIMES[0], PRIMES[1], PRIMES[2]]), Moduli::new([PRIMES[3], PRIMES[4], PRIMES[5]])];

/// How many words an element takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Width {
    /// Three primes, a modulus of 2^63: 8 bytes an element.
    One,
    /// Six primes, a modulus of 2^126: 16 bytes an element.
    Two,
}

impl Width {
    /// Words of an element.
    pub fn words(self) -> usize {
        match self {
            Width::One => 1,
            Width::Two => 2,
        }
    }

    /// Bytes of an element.
    pub fn bytes(self) -> usize {
        8 * self.words()
    }

    /// The primes.
    pub fn primes(self) -> &'static [u64] {
        &PRIMES[..3 * self.words()]
    }

    /// The product of the primes.
    pub fn modulus(self) -> u128 {
        self.primes().iter().map(|prime| u128::from(*prime)).product()
    }
}

/// Why something is not what the ring allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// A word from elsewhere with its top bit set or a field that is not below its prime.
    #[error("a word is not three residues below their primes")]
    Word,
    /// Another number of elements than expected.
    #[error("{came} elements came, expected {expected}")]
    Count {
        /// What came.
        came: usize,
        /// What was expected.
        expected: usize,
    },
    /// A value that fixed point cannot hold: not finite, or beyond its budget.
    #[error("a value is beyond what fixed point holds")]
    Range,
}

/// The primes of one word of an element.
pub(super) fn moduli(half: usize) -> &'static Moduli {
    &MODULI[half]
}

/// Elements that are still coming, in parts of the bytes that [`Elements::to_bytes`] gives.
#[derive(Clone)]
pub struct Incoming {
    width: Width,
    count: usize,
    words: Vec<u64>,
}

/// Sizes only: elements may be shares of secrets.
impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Incoming({:?}, {} of {})", self.width, self.words.len() / self.width.words(), self.count)
    }
}

impl Incoming {
    /// So many, none of which has come; none where memory holds no so many. Memory is taken as they come.
    pub fn new(width: Width, count: usize) -> Option<Incoming> {
        let mut words = Vec::new();
        words.try_reserve_exact(count.checked_mul(width.words())?).ok()?;
        Some(Incoming { width, count, words })
    }

    /// Bytes that have come.
    pub fn bytes(&self) -> usize {
        8 * self.words.len()
    }

    /// Takes the next bytes in, of whole words.
    ///
    /// # Errors
    /// More than was announced, a part of a word, or a word that is not three residues below their primes.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), RingError> {
        let (words, rest) = bytes.as_chunks::<8>();
        let begin = self.words.len();
        let end = begin + words.len();
        if !rest.is_empty() || end > self.count * self.width.words() {
            return Err(RingError::Count { came: end / self.width.words(), expected: self.count });
        }
        self.words.extend(words.iter().map(|bytes| u64::from_le_bytes(*bytes)));
        // A part may reach from one half of the primes into the other.
        let border = self.count.clamp(begin, end);
        let sound =
            lanes::sound(&self.words[begin..border], &MODULI[0]) && lanes::sound(&self.words[border..], &MODULI[1]);
        if sound { Ok(()) } else { Err(RingError::Word) }
    }

    /// All of them.
    ///
    /// # Errors
    /// Some have not come.
    pub fn finish(self) -> Result<Elements, RingError> {
        let Incoming { width, count, words } = self;
        match words.len() == count * width.words() {
            true => Ok(Elements::from_words(width, words)),
            false => Err(RingError::Count { came: words.len() / width.words(), expected: count }),
        }
    }
}

/// Neighbouring elements, such as those of one row block of a message.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    width: Width,
    halves: [&'a [u64]; 2],
}

impl Part<'_> {
    /// How many elements.
    pub(super) fn count(self) -> usize {
        self.halves[0].len()
    }
}

/// Elements of the ring, packed: the first word of every element, then the second word of every element. A clone shares them until one of both is
/// changed: what was said is kept, to be said again where the line breaks.
#[derive(Clone, PartialEq, Eq)]
pub struct Elements {
    width: Width,
    words: Arc<Vec<u64>>,
}

/// Sizes only: elements may be shares of secrets.
impl fmt::Debug for Elements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Elements({:?}, {})", self.width, self.count())
    }
}

impl Elements {
    /// So many zeros.
    pub fn zeros(width: Width, count: usize) -> Elements {
        Elements::from_words(width, vec![0; count * width.words()])
    }

    /// Signed integers, each modulo the primes.
    pub fn from_integers(width: Width, values: &[i128]) -> Elements {
        let residues = |prime: u64| values.iter().map(|value| value.rem_euclid(i128::from(prime)) as f64).collect();
        Elements::from_residues(width, &width.primes().iter().map(|prime| residues(*prime)).collect::<Vec<_>>())
    }

    /// `round(value * 2^bits)`, ties to even.
    ///
    /// # Errors
    /// A value is not finite, or larger than [`LARGEST_FIXED`] after scaling.
    pub fn fixed(width: Width, values: &[f64], bits: u32) -> Result<Elements, RingError> {
        let mut elements = Elements::zeros(width, values.len());
        let scale = 2f64.powi(bits as i32);
        for half in 0..width.words() {
            let words = &mut elements.words_mut()[half * values.len()..(half + 1) * values.len()];
            if !lanes::pack_fixed(values, scale, LARGEST_FIXED, words, &MODULI[half]) {
                return Err(RingError::Range);
            }
        }
        Ok(elements)
    }

    /// From residues in `[0, prime)`, one vector a prime.
    pub(super) fn from_residues(width: Width, residues: &[Vec<f64>]) -> Elements {
        let count = residues.first().map_or(0, Vec::len);
        let mut elements = Elements::zeros(width, count);
        for half in 0..width.words() {
            let planes = [&residues[3 * half][..], &residues[3 * half + 1][..], &residues[3 * half + 2][..]];
            lanes::pack(planes, &mut elements.words_mut()[half * count..(half + 1) * count]);
        }
        elements
    }

    /// From words that are known to be residues below their primes.
    pub(super) fn from_words(width: Width, words: Vec<u64>) -> Elements {
        Elements { width, words: Arc::new(words) }
    }

    /// The words, which a clone has no more afterwards.
    fn words_mut(&mut self) -> &mut [u64] {
        Arc::<Vec<u64>>::make_mut(&mut self.words)
    }

    /// From the bytes that [`Elements::to_bytes`] gives.
    ///
    /// # Errors
    /// Another length than that of `count` elements, or a word that is not three residues below their primes.
    pub fn from_bytes(width: Width, count: usize, bytes: &[u8]) -> Result<Elements, RingError> {
        if Some(bytes.len()) != count.checked_mul(width.bytes()) {
            return Err(RingError::Count { came: bytes.len() / width.bytes(), expected: count });
        }
        let mut incoming = Incoming::new(width, count).ok_or(RingError::Count { came: 0, expected: count })?;
        incoming.push(bytes)?;
        incoming.finish()
    }

    /// The words in little-endian order: the first word of every element, then the second of every element.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.bytes_from(0, self.words.len()).unwrap_or_default()
    }

    /// Some of the bytes that [`Elements::to_bytes`] gives, of at most so many words from a given one on; none after the last.
    pub fn bytes_from(&self, first: usize, most: usize) -> Option<Vec<u8>> {
        let words = &self.words[first.min(self.words.len())..];
        let words = &words[..most.min(words.len())];
        let bytes: Vec<[u8; 8]> = words.iter().map(|word| word.to_le_bytes()).collect();
        (!words.is_empty()).then(|| bytes.into_flattened())
    }

    /// The ring.
    pub fn width(&self) -> Width {
        self.width
    }

    /// How many elements.
    pub fn count(&self) -> usize {
        self.words.len() / self.width.words()
    }

    /// Room for the words of several parts one behind the other, of some sizes: of each part its words of one half of the primes and then,
    /// if there are two, of the other.
    pub(super) fn parts_mut(&mut self, sizes: &[usize]) -> Vec<Vec<&mut [u64]>> {
        let count = self.count();
        let mut parts: Vec<Vec<&mut [u64]>> = sizes.iter().map(|_| Vec::with_capacity(self.width.words())).collect();
        for mut words in self.words_mut().chunks_exact_mut(count.max(1)) {
            for (part, size) in parts.iter_mut().zip(sizes) {
                let (own, others) = words.split_at_mut((*size).min(words.len()));
                part.push(own);
                words = others;
            }
        }
        parts
    }

    /// Some neighbouring elements. Places beyond the last element are left out.
    pub(super) fn part(&self, places: Range<usize>) -> Part<'_> {
        let count = self.count();
        let places = places.start.min(count)..places.end.min(count);
        let half = |half: usize| if half < self.width.words() { &self.half(half)[places.clone()] } else { &[] };
        Part { width: self.width, halves: [half(0), half(1)] }
    }

    /// All elements.
    pub(super) fn whole(&self) -> Part<'_> {
        self.part(0..self.count())
    }

    /// Adds sums of products to each element, for factors that stand term by term, one term behind the other.
    ///
    /// # Errors
    /// Another ring, or factors that are no whole number of terms.
    pub(super) fn add_row_products(&mut self, left: Part<'_>, right: Part<'_>) -> Result<(), RingError> {
        let rows = self.count();
        for factors in [left, right] {
            let fits = factors.width == self.width && factors.count() == left.count();
            if !fits || !factors.count().is_multiple_of(rows.max(1)) {
                return Err(RingError::Count { came: factors.count(), expected: left.count() });
            }
        }
        for (half, sums) in self.words_mut().chunks_exact_mut(rows.max(1)).enumerate() {
            lanes::add_row_products(sums, left.halves[half], right.halves[half], &MODULI[half]);
        }
        Ok(())
    }

    /// The words that hold one half of the primes.
    pub(super) fn half(&self, half: usize) -> &[u64] {
        let count = self.count();
        &self.words[half * count..(half + 1) * count]
    }

    /// The residues of the first elements modulo one of the primes, in `[0, prime)`.
    pub(super) fn residues(&self, prime: usize, count: usize, out: &mut Vec<f64>) {
        out.resize(count, 0.0);
        lanes::unpack(self.half(prime / 3), prime % 3, out);
    }

    /// Adds other elements, one by one.
    ///
    /// # Errors
    /// Another ring or another number of elements.
    pub fn add(&mut self, other: &Elements) -> Result<(), RingError> {
        self.combine(other, lanes::add)
    }

    /// Takes other elements away, one by one.
    ///
    /// # Errors
    /// Another ring or another number of elements.
    pub fn subtract(&mut self, other: &Elements) -> Result<(), RingError> {
        self.combine(other, lanes::subtract)
    }

    /// Multiplies with other elements, one by one.
    ///
    /// # Errors
    /// Another ring or another number of elements.
    pub fn multiply(&mut self, other: &Elements) -> Result<(), RingError> {
        self.combine(other, lanes::multiply)
    }

    /// Multiplies every element with the same integer.
    pub fn multiply_all(&mut self, factor: i128) {
        let (count, factor) = (self.count(), Elements::from_integers(self.width, &[factor]));
        for (half, words) in self.words_mut().chunks_exact_mut(count.max(1)).enumerate() {
            lanes::multiply_all(words, factor.half(half)[0], &MODULI[half]);
        }
    }

    /// Every column times the same elements, plus as many others as there are (or, with `MINUS`, without them), and the same with these
    /// others twice.
    ///
    /// # Errors
    /// Another ring, no whole number of columns, or another number of those that are added.
    pub(super) fn columns_times<const MINUS: bool>(
        columns: Part<'_>,
        by: &Elements,
        added: &Elements,
    ) -> Result<[Elements; 2], RingError> {
        let (width, count, rows) = (columns.width, columns.count(), by.count());
        let fits = width == by.width && width == added.width && added.count() == count;
        if !fits || !count.is_multiple_of(rows.max(1)) {
            return Err(RingError::Count { came: rows, expected: count });
        }
        let [mut whole, mut twice] = [0, 1].map(|_| Elements::zeros(width, count));
        for half in 0..width.words() {
            let all = half * count..(half + 1) * count;
            let places = whole.words_mut()[all.clone()].chunks_exact_mut(rows.max(1));
            let places = places.zip(twice.words_mut()[all].chunks_exact_mut(rows.max(1)));
            let factors =
                columns.halves[half].chunks_exact(rows.max(1)).zip(added.half(half).chunks_exact(rows.max(1)));
            for ((whole, twice), (column, added)) in places.zip(factors) {
                lanes::multiply_add::<MINUS>([column, by.half(half), added], whole, twice, &MODULI[half]);
            }
        }
        Ok([whole, twice])
    }

    fn combine(&mut self, other: &Elements, with: impl Fn(&mut [u64], &[u64], &Moduli)) -> Result<(), RingError> {
        if self.width != other.width || self.words.len() != other.words.len() {
            return Err(RingError::Count { came: other.count(), expected: self.count() });
        }
        let count = self.count();
        for half in 0..self.width.words() {
            with(&mut self.words_mut()[half * count..(half + 1) * count], other.half(half), &MODULI[half]);
        }
        Ok(())
    }

    /// The elements at some places, in the order given. A place beyond the last element is left out.
    pub fn select(&self, places: impl Iterator<Item = usize> + Clone) -> Elements {
        let words = (0..self.width.words())
            .flat_map(|half| places.clone().filter_map(move |at| self.half(half).get(at).copied()))
            .collect();
        Elements::from_words(self.width, words)
    }

    /// Neighbouring elements, such as some columns of a row block. Places beyond the last element are left out.
    pub fn slice(&self, places: Range<usize>) -> Elements {
        let count = self.count();
        let places = places.start.min(count)..places.end.min(count);
        let halves: Vec<&[u64]> = (0..self.width.words()).map(|half| &self.half(half)[places.clone()]).collect();
        Elements::from_words(self.width, halves.concat())
    }

    /// The first elements, such as those of the first columns: no copy where these are all.
    pub fn first(self, count: usize) -> Elements {
        if count < self.count() { self.slice(0..count) } else { self }
    }

    /// Appends elements of the same ring, as further columns of the same rows.
    ///
    /// # Errors
    /// Another ring.
    pub fn append(&mut self, other: &Elements) -> Result<(), RingError> {
        if self.width != other.width {
            return Err(RingError::Count { came: other.count(), expected: self.count() });
        }
        *self = Elements::concat(self.width, [&*self, other].into_iter())?;
        Ok(())
    }

    /// Several vectors of one ring, one behind the other.
    ///
    /// # Errors
    /// Another ring.
    pub fn concat<'a>(width: Width, parts: impl Iterator<Item = &'a Elements> + Clone) -> Result<Elements, RingError> {
        if let Some(part) = parts.clone().find(|part| part.width != width) {
            return Err(RingError::Count { came: part.count(), expected: 0 });
        }
        let count: usize = parts.clone().map(Elements::count).sum();
        let mut words = Vec::with_capacity(count * width.words());
        for half in 0..width.words() {
            parts.clone().for_each(|part| words.extend_from_slice(part.half(half)));
        }
        Ok(Elements::from_words(width, words))
    }

    /// The signed integers, below half of the modulus in size, by the Chinese remainder theorem.
    pub fn to_integers(&self) -> Vec<i128> {
        let remainders = Remainders::new(self.width);
        let mut planes = vec![Vec::new(); self.width.primes().len()];
        planes.iter_mut().enumerate().for_each(|(prime, plane)| self.residues(prime, self.count(), plane));
        (0..self.count()).map(|at| remainders.integer(planes.iter().map(|plane| plane[at] as u64))).collect()
    }
}

/// The Chinese remainder theorem in mixed radix (Garner): every step is one digit below its prime.
struct Remainders {
    primes: &'static [u64],
    modulus: u128,
    /// Inverse of the product of the earlier primes, modulo each prime.
    inverses: Vec<u64>,
}

impl Remainders {
    fn new(width: Width) -> Remainders {
        let primes = width.primes();
        let inverses = (0..primes.len())
            .map(|at| {
                let prime = primes[at];
                let product = primes[..at].iter().fold(1, |product, earlier| product * earlier % prime);
                power(product, prime - 2, prime)
            })
            .collect();
        Remainders { primes, modulus: width.modulus(), inverses }
    }

    fn integer(&self, residues: impl Iterator<Item = u64>) -> i128 {
        let mut digits: Vec<u64> = Vec::with_capacity(self.primes.len());
        for (at, residue) in residues.enumerate() {
            let prime = self.primes[at];
            let known = (0..at).rev().fold(0, |value, digit| (value * self.primes[digit] + digits[digit]) % prime);
            digits.push((residue + prime - known) % prime * self.inverses[at] % prime);
        }
        let value = (0..digits.len())
            .rev()
            .fold(0_u128, |value, at| value * u128::from(self.primes[at]) + u128::from(digits[at]));
        // The modulus is below 2^126, so that both sides fit into i128.
        if value > self.modulus / 2 { value as i128 - self.modulus as i128 } else { value as i128 }
    }
}

/// `base^exponent` modulo a prime below 2^21.
fn power(mut base: u64, mut exponent: u64, prime: u64) -> u64 {
    let mut result = 1;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = result * base % prime;
        }
        base = base * base % prime;
        exponent >>= 1;
    }
    result
}

/// The row blocks of a matrix of so many rows.
pub fn row_blocks(rows: usize) -> impl ExactSizeIterator<Item = Range<usize>> {
    (0..rows.div_ceil(ROWS)).map(move |block| row_block(rows, block))
}

/// The rows of one block.
pub fn row_block(rows: usize, block: usize) -> Range<usize> {
    (block * ROWS).min(rows)..((block + 1) * ROWS).min(rows)
}
