//! Loops over rows, compiled for the widest vectors that the processor has.
//!
//! Several columns are read at a time, so that a vector is read from the cache once for all of them. In which order a sum is added up
//! depends neither on that nor on the processor: the bits are those of a plain loop over one column after the other.

use pulp::{Arch, Simd, WithSimd};

use super::{BLOCK_ROWS, functions};

/// Rows that one step of a pass takes together where several blocks of [`BLOCK_ROWS`] are summed up one by one: each column is then read in
/// pieces that are long enough for the processor to read ahead.
pub const STRIP_ROWS: usize = STRIP * BLOCK_ROWS;

/// Blocks of a strip.
const STRIP: usize = 4;

/// Rows of all columns that are swept over several times while they are in the cache.
pub const SWEPT_ROWS: usize = 2 * BLOCK_ROWS;

/// Columns that are read together.
const TOGETHER: usize = 4;

/// Partial sums of an inner product.
const LANES: usize = 8;

/// Runs a loop, a closure with `#[inline(always)]`, compiled for the widest vectors that the processor has.
///
/// The loop is called by reference: a call that consumes it goes by way of a function of its own, which is compiled for the oldest
/// processors and which the compiler need not take apart.
#[inline(always)]
pub(crate) fn widest<R>(body: impl FnMut() -> R) -> R {
    Arch::new().dispatch(Loop(body))
}

/// A loop.
struct Loop<F>(F);

impl<R, F: FnMut() -> R> WithSimd for Loop<F> {
    type Output = R;

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) -> R {
        (self.0)()
    }
}

/// Partial sums of an inner product, which more rows can be added to as long as all but the last come in multiples of eight.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lanes {
    lanes: [f64; LANES],
    rest: f64,
}

impl Lanes {
    /// The inner product.
    pub fn sum(&self) -> f64 {
        self.lanes.iter().sum::<f64>() + self.rest
    }
}

/// `values = sum of coefficient * column` over all columns but those with coefficient 0, first to last.
pub fn combine<'a>(coefficients: &[f64], column: impl Fn(usize) -> &'a [f64], values: &mut [f64]) {
    values.fill(0.0);
    add(coefficients, column, values);
}

/// `values += sum of coefficient * column` over all columns but those with coefficient 0, first to last.
pub fn add<'a>(coefficients: &[f64], column: impl Fn(usize) -> &'a [f64], values: &mut [f64]) {
    let rows = values.len();
    let mut some: [(f64, &[f64]); TOGETHER] = [(0.0, &[]); TOGETHER];
    let mut count = 0;
    for (j, coefficient) in coefficients.iter().enumerate().filter(|(_, coefficient)| **coefficient != 0.0) {
        some[count] = (*coefficient, &column(j)[..rows]);
        count += 1;
        if count == TOGETHER {
            add_four(some, values);
            count = 0;
        }
    }
    some[..count].iter().for_each(|(coefficient, column)| add_one(*coefficient, column, values));
}

fn add_four(columns: [(f64, &[f64]); TOGETHER], values: &mut [f64]) {
    widest(
        #[inline(always)]
        || {
            let [(p, a), (q, b), (r, c), (s, d)] = columns;
            for ((((value, a), b), c), d) in values.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                *value = (((*value + p * a) + q * b) + r * c) + s * d;
            }
        },
    );
}

/// The same for several `values`, each with coefficients of its own: columns are read once for two of them.
pub fn add_to_each<'a>(targets: &mut [(&[f64], &mut [f64])], column: impl Fn(usize) -> &'a [f64]) {
    let (pairs, rest) = targets.as_chunks_mut::<2>();
    pairs.iter_mut().for_each(|pair| add_to_both(pair, &column));
    rest.iter_mut().for_each(|(coefficients, values)| add(coefficients, &column, values));
}

fn add_to_both<'a>([(p, first), (q, second)]: &mut [(&[f64], &mut [f64]); 2], column: impl Fn(usize) -> &'a [f64]) {
    let rows = first.len();
    let mut some: [([f64; 2], &[f64]); TOGETHER] = [([0.0; 2], &[]); TOGETHER];
    let mut count = 0;
    for (j, both) in p.iter().zip(*q).enumerate().filter(|(_, both)| *both != (&0.0, &0.0)) {
        some[count] = ([*both.0, *both.1], &column(j)[..rows]);
        count += 1;
        if count == TOGETHER {
            add_four_to_both(some, first, second);
            count = 0;
        }
    }
    for ([p, q], column) in &some[..count] {
        add_one(*p, column, first);
        add_one(*q, column, second);
    }
}

fn add_four_to_both(columns: [([f64; 2], &[f64]); TOGETHER], first: &mut [f64], second: &mut [f64]) {
    widest(
        #[inline(always)]
        || {
            let [([p, t], a), ([q, u], b), ([r, v], c), ([s, w], d)] = columns;
            for (((((one, two), a), b), c), d) in first.iter_mut().zip(&mut *second).zip(a).zip(b).zip(c).zip(d) {
                *one = (((*one + p * a) + q * b) + r * c) + s * d;
                *two = (((*two + t * a) + u * b) + v * c) + w * d;
            }
        },
    );
}

fn add_one(coefficient: f64, column: &[f64], values: &mut [f64]) {
    widest(
        #[inline(always)]
        || values.iter_mut().zip(column).for_each(|(value, x)| *value += coefficient * x),
    );
}

/// Adds the products of some rows of all columns with a vector to the sums of each.
pub fn inner<'a>(sums: &mut [Lanes], column: impl Fn(usize) -> &'a [f64], vector: &[f64]) {
    let rows = vector.len();
    let (fours, rest) = sums.as_chunks_mut::<TOGETHER>();
    let whole = TOGETHER * fours.len();
    for (at, four) in fours.iter_mut().enumerate() {
        inner_four(four, [0, 1, 2, 3].map(|k| &column(TOGETHER * at + k)[..rows]), vector);
    }
    for (at, sum) in rest.iter_mut().enumerate() {
        inner_one(sum, &column(whole + at)[..rows], vector);
    }
}

fn inner_four(sums: &mut [Lanes; TOGETHER], columns: [&[f64]; TOGETHER], vector: &[f64]) {
    widest(
        #[inline(always)]
        || {
            let mut lanes = [sums[0].lanes, sums[1].lanes, sums[2].lanes, sums[3].lanes];
            let (vectors, _) = vector.as_chunks::<LANES>();
            let [a, b, c, d] = columns.map(|column| column.as_chunks::<LANES>().0);
            for ((((v, a), b), c), d) in vectors.iter().zip(a).zip(b).zip(c).zip(d) {
                for lane in 0..LANES {
                    lanes[0][lane] += a[lane] * v[lane];
                    lanes[1][lane] += b[lane] * v[lane];
                    lanes[2][lane] += c[lane] * v[lane];
                    lanes[3][lane] += d[lane] * v[lane];
                }
            }
            for (at, sum) in sums.iter_mut().enumerate() {
                sum.lanes = lanes[at];
                add_rest(sum, columns[at], vector);
            }
        },
    );
}

fn inner_one(sum: &mut Lanes, column: &[f64], vector: &[f64]) {
    widest(
        #[inline(always)]
        || {
            let mut lanes = sum.lanes;
            for (v, x) in vector.as_chunks::<LANES>().0.iter().zip(column.as_chunks::<LANES>().0) {
                for lane in 0..LANES {
                    lanes[lane] += x[lane] * v[lane];
                }
            }
            sum.lanes = lanes;
            add_rest(sum, column, vector);
        },
    );
}

#[inline(always)]
fn add_rest(sum: &mut Lanes, column: &[f64], vector: &[f64]) {
    let (rest, xs) = (vector.as_chunks::<LANES>().1, column.as_chunks::<LANES>().1);
    if !rest.is_empty() {
        sum.rest += xs.iter().zip(rest).map(|(x, v)| x * v).sum::<f64>();
    }
}

/// The inner product of two vectors.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sum = Lanes::default();
    inner_one(&mut sum, a, b);
    sum.sum()
}

/// The inner products of columns with a vector, block of rows by block of rows: `sums[block * columns + j]`.
pub fn inner_of_blocks<'a>(columns: usize, column: impl Fn(usize) -> &'a [f64], vector: &[f64]) -> Vec<f64> {
    let mut sums = vec![0.0; vector.len().div_ceil(BLOCK_ROWS) * columns];
    for first in (0..columns).step_by(TOGETHER) {
        let some = TOGETHER.min(columns - first);
        for (block, vector) in vector.chunks(BLOCK_ROWS).enumerate() {
            let start = block * BLOCK_ROWS;
            let mut lanes = [Lanes::default(); TOGETHER];
            inner(&mut lanes[..some], |j| &column(first + j)[start..], vector);
            let sums = &mut sums[block * columns + first..];
            sums.iter_mut().zip(&lanes[..some]).for_each(|(sum, lanes)| *sum = lanes.sum());
        }
    }
    sums
}

/// The inner products of two vectors, block of rows by block of rows, each added up row by row.
///
/// Such a sum waits for every addition before the next; the blocks of a strip are added up beside each other.
pub fn ordered_of_blocks(a: &[f64], b: &[f64]) -> Vec<f64> {
    let whole = a.len() - a.len() % STRIP_ROWS;
    let mut sums: Vec<f64> =
        a[..whole].chunks(STRIP_ROWS).zip(b.chunks(STRIP_ROWS)).flat_map(|(a, b)| ordered_strip(a, b)).collect();
    let rest = a[whole..].chunks(BLOCK_ROWS).zip(b[whole..].chunks(BLOCK_ROWS));
    sums.extend(rest.map(|(a, b)| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>()));
    sums
}

/// The sums of a vector, block of rows by block of rows, as [`ordered_of_blocks`] adds up.
pub fn sums_of_blocks(a: &[f64]) -> Vec<f64> {
    let (whole, rest) = a.split_at(a.len() - a.len() % STRIP_ROWS);
    let mut sums: Vec<f64> = whole.chunks(STRIP_ROWS).flat_map(sums_of_strip).collect();
    sums.extend(rest.chunks(BLOCK_ROWS).map(|a| a.iter().fold(0.0, |sum, a| sum + a)));
    sums
}

fn sums_of_strip(a: &[f64]) -> [f64; STRIP] {
    let (mut sums, a) = ([0.0; STRIP], blocks_of_strip(a));
    for row in 0..BLOCK_ROWS {
        for block in 0..STRIP {
            sums[block] += a[block][row];
        }
    }
    sums
}

fn ordered_strip(a: &[f64], b: &[f64]) -> [f64; STRIP] {
    let mut sums = [0.0; STRIP];
    let (a, b) = (blocks_of_strip(a), blocks_of_strip(b));
    for row in 0..BLOCK_ROWS {
        for block in 0..STRIP {
            sums[block] += a[block][row] * b[block][row];
        }
    }
    sums
}

/// The blocks of a whole strip.
fn blocks_of_strip(strip: &[f64]) -> [&[f64; BLOCK_ROWS]; STRIP] {
    let (blocks, _) = strip.as_chunks::<BLOCK_ROWS>();
    [&blocks[0], &blocks[1], &blocks[2], &blocks[3]]
}

/// Appends `column * factor`, row by row.
pub fn append_scaled(to: &mut Vec<f64>, column: &[f64], factors: &[f64]) {
    to.extend(column.iter().zip(factors).map(|(x, factor)| x * factor));
}

/// `values -= factor * column`.
pub fn subtract(factor: f64, column: &[f64], values: &mut [f64]) {
    widest(
        #[inline(always)]
        || values.iter_mut().zip(column).for_each(|(value, x)| *value -= factor * x),
    );
}

/// `sums += column * column`, row by row.
pub fn add_squares(column: &[f64], sums: &mut [f64]) {
    widest(
        #[inline(always)]
        || sums.iter_mut().zip(column).for_each(|(sum, x)| *sum += x * x),
    );
}

/// `sums = a + b + c`, from the left; `c` may be missing.
pub fn sum_of(a: &[f64], b: &[f64], c: Option<&[f64]>, sums: &mut [f64]) {
    widest(
        #[inline(always)]
        || match c {
            None => sums.iter_mut().zip(a).zip(b).for_each(|((sum, a), b)| *sum = a + b),
            Some(c) => sums.iter_mut().zip(a).zip(b).zip(c).for_each(|(((sum, a), b), c)| *sum = a + b + c),
        },
    );
}

/// `values = exp(x)`.
pub fn exp(x: &[f64], values: &mut [f64]) {
    widest(
        #[inline(always)]
        || values.iter_mut().zip(x).for_each(|(value, x)| *value = functions::exp(*x)),
    );
}

/// `values = exp(-|x|)`.
pub fn exp_of_minus(x: &[f64], values: &mut [f64]) {
    widest(
        #[inline(always)]
        || values.iter_mut().zip(x).for_each(|(value, x)| *value = functions::exp(-x.abs())),
    );
}

/// `values = ln(1 + x)`, for `x` between 0 and 1.
pub fn ln_1p(x: &[f64], values: &mut [f64]) {
    widest(
        #[inline(always)]
        || values.iter_mut().zip(x).for_each(|(value, x)| *value = functions::ln_1p(*x)),
    );
}

/// `values = exp(-x)`.
pub fn exp_of_negative(x: &[f64], values: &mut [f64]) {
    widest(
        #[inline(always)]
        || values.iter_mut().zip(x).for_each(|(value, x)| *value = functions::exp(-x)),
    );
}

/// `values = 1 / (1 + factor power)`: the logistic function where the powers are exponentials of negative arguments.
pub fn logistic(powers: &[f64], factor: f64, values: &mut [f64]) {
    widest(
        #[inline(always)]
        || values.iter_mut().zip(powers).for_each(|(value, power)| *value = 1.0 / (1.0 + factor * power)),
    );
}

/// The derivative of the logistic function, as [`logistic`] has its powers.
pub fn logistic_weight(powers: &[f64], factor: f64, values: &mut [f64]) {
    /// Beyond this the derivative is zero, and its factors stay finite.
    const LARGE: f64 = 1e150;
    widest(
        #[inline(always)]
        || {
            for (value, power) in values.iter_mut().zip(powers) {
                let power = factor * power;
                let power = if power > LARGE { LARGE } else { power };
                let mean = 1.0 / (1.0 + power);
                *value = power * mean * mean;
            }
        },
    );
}

/// `values = ln(1 + exp(x + shift))`.
pub fn softplus(x: &[f64], shift: f64, values: &mut [f64]) {
    widest(
        #[inline(always)]
        || {
            for (value, x) in values.iter_mut().zip(x) {
                let x = x + shift;
                *value = functions::ln_1p(functions::exp(-x.abs())) + if x > 0.0 { x } else { 0.0 };
            }
        },
    );
}

/// `values = 2 u last - before`, of which `[before, last]` are the two values before: the recurrence of Chebyshev polynomials.
pub fn recurrence(u: &[f64], [before, last]: [&[f64]; 2], values: &mut [f64]) {
    widest(
        #[inline(always)]
        || {
            for (((value, u), before), last) in values.iter_mut().zip(u).zip(before).zip(last) {
                *value = 2.0 * u * last - before;
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    const COLUMNS: usize = 7;

    /// The sum of a plain loop: eight partial sums, and what comes after the last eight rows.
    fn plain(a: &[f64], b: &[f64]) -> f64 {
        let (mut lanes, mut rest) = ([0.0; 8], 0.0);
        for row in 0..a.len() {
            match row < a.len() / 8 * 8 {
                true => lanes[row % 8] += a[row] * b[row],
                false => rest += a[row] * b[row],
            }
        }
        lanes.iter().sum::<f64>() + rest
    }

    fn bits(values: &[f64]) -> Vec<u64> {
        values.iter().map(|value| value.to_bits()).collect()
    }

    #[test]
    fn kernels_are_the_same_bits_as_plain_loops_on_every_length() {
        let mut rng = ChaCha8Rng::seed_from_u64(17);
        let most = 5000;
        let all: Vec<f64> = (0..(COLUMNS + 2) * most).map(|_| rng.random_range(-1.0..1.0)).collect();
        let mut coefficients: Vec<f64> = (0..COLUMNS).map(|_| rng.random_range(-2.0..2.0)).collect();
        coefficients[2] = 0.0;
        for rows in 0..=most {
            let column = |j: usize| &all[j * most..j * most + rows];
            let (vector, other) = (column(COLUMNS), column(COLUMNS + 1));
            let mut found = vec![7.0; rows];
            combine(&coefficients, column, &mut found);
            let mut expected = vec![0.0; rows];
            for (j, coefficient) in coefficients.iter().enumerate() {
                (0..rows).for_each(|row| expected[row] += coefficient * column(j)[row]);
            }
            assert_eq!(bits(&found), bits(&expected), "combinations of {rows} rows");
            let others: Vec<f64> = coefficients.iter().map(|coefficient| 0.7 - coefficient).collect();
            let mut each = [vec![0.0; rows], vec![0.0; rows], vec![0.0; rows]];
            let [first, second, third] = &mut each;
            add_to_each(&mut [(&coefficients, first), (&others, second), (&others, third)], column);
            assert_eq!(bits(&each[0]), bits(&expected), "combinations of {rows} rows beside others");
            let mut sums = vec![0.0; rows];
            for (j, coefficient) in others.iter().enumerate() {
                (0..rows).for_each(|row| sums[row] += coefficient * column(j)[row]);
            }
            assert_eq!((bits(&each[1]), bits(&each[2])), (bits(&sums), bits(&sums)), "others of {rows} rows");
            subtract(0.3, vector, &mut found);
            (0..rows).for_each(|row| expected[row] -= 0.3 * vector[row]);
            assert_eq!(bits(&found), bits(&expected), "differences of {rows} rows");
            add_squares(other, &mut found);
            (0..rows).for_each(|row| expected[row] += other[row] * other[row]);
            assert_eq!(bits(&found), bits(&expected), "squares of {rows} rows");
            sum_of(vector, other, Some(column(0)), &mut found);
            (0..rows).for_each(|row| expected[row] = vector[row] + other[row] + column(0)[row]);
            assert_eq!(bits(&found), bits(&expected), "sums of {rows} rows");

            let mut lanes = [Lanes::default(); COLUMNS];
            for start in (0..rows).step_by(64) {
                let end = rows.min(start + 64);
                inner(&mut lanes, |j| &column(j)[start..], &vector[start..end]);
            }
            let expected: Vec<f64> = (0..COLUMNS).map(|j| plain(column(j), vector)).collect();
            assert_eq!(bits(&lanes.map(|lanes| lanes.sum())), bits(&expected), "products of {rows} rows");
            assert_eq!(dot(column(0), vector).to_bits(), expected[0].to_bits());

            let found = inner_of_blocks(COLUMNS, column, vector);
            let blocks: Vec<(usize, usize)> =
                (0..rows).step_by(BLOCK_ROWS).map(|s| (s, rows.min(s + BLOCK_ROWS))).collect();
            let of_block = |(start, end): &(usize, usize)| -> Vec<f64> {
                (0..COLUMNS).map(|j| plain(&column(j)[*start..*end], &vector[*start..*end])).collect()
            };
            assert_eq!(
                bits(&found),
                bits(&blocks.iter().flat_map(of_block).collect::<Vec<_>>()),
                "blocks of {rows} rows"
            );
            let of_block = |(start, end): &(usize, usize)| (*start..*end).fold(0.0, |sum, row| sum + vector[row]);
            let expected: Vec<f64> = blocks.iter().map(of_block).collect();
            assert_eq!(bits(&sums_of_blocks(vector)), bits(&expected), "sums of {rows} rows");
            let found = ordered_of_blocks(vector, other);
            let of_block = |(start, end): &(usize, usize)| (*start..*end).map(|row| vector[row] * other[row]).sum();
            assert_eq!(
                bits(&found),
                bits(&blocks.iter().map(of_block).collect::<Vec<f64>>()),
                "sums of {rows} rows in order"
            );
        }
    }
}
