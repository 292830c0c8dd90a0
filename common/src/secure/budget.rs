//! Bits behind the binary point, so that every value that opens stays below half of the modulus, 2^125.
//!
//! Columns of a basis have mean square 1 over `n` rows, so that an entry is at most `sqrt n` and the product of two columns at most
//! `n`. Each budget states what it bounds; the tests compute the bounds with integers.

/// Rows for which the budgets are proved: `2^4` to `2^30`. Fewer rows have the bits of `2^4`.
pub const MOST_ROWS: usize = 1 << 30;

/// The smallest `lg` with `2^lg >= rows`; none beyond [`MOST_ROWS`].
fn log_rows(rows: usize) -> Option<u32> {
    (rows <= MOST_ROWS).then(|| rows.max(16).next_power_of_two().trailing_zeros())
}

/// Bits of the columns of a gaussian fit: entries stay within [`LARGEST_FIXED`](super::ring::LARGEST_FIXED), and
/// `n 2^(2 bits) < 2^125`. None beyond [`MOST_ROWS`].
pub fn gaussian(rows: usize) -> Option<u32> {
    log_rows(rows).map(|lg| 44.min(51 - lg.div_ceil(2)))
}

/// Bits of a fit of the other families.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bits {
    /// Of the columns.
    pub columns: u32,
    /// Of each of the two factors whose product is a row's mean.
    pub features: u32,
    /// Of each of the two factors whose product is a row's weight.
    pub weights: u32,
    /// Of each of the two factors whose product is a row's loss, where it is multiplied by a case weight with the bits of the columns.
    pub losses: u32,
}

/// Bits of a binomial fit: `n 2^(columns + 2 features) |r|` with residuals below 2, and `n 2^(2 columns + 2 weights) / 4`, stay
/// below 2^125. So does `n 2^(columns + 2 losses)` times a loss below 2^7 with case weights of mean 1. None beyond [`MOST_ROWS`].
pub fn binomial(rows: usize) -> Option<Bits> {
    let (columns, lg) = (30, log_rows(rows)?);
    let features = (122 - lg - columns) / 2;
    Some(Bits { columns, features, weights: (124 - lg - 2 * columns) / 2, losses: features - 4 })
}

/// Bits of the columns of a poisson fit.
pub const POISSON_COLUMNS: u32 = 28;

/// Bits that a factor of a poisson mean may have.
pub const POISSON_FACTORS: std::ops::RangeInclusive<u32> = 16..=40;

/// Bits of a poisson fit whose products of factors are at most `e^largest`, and whose outcome is at most `outcome`: `n 2^(c columns
/// + 2 features) max(e^largest, 1 + outcome)` stays below 2^125 with `c = 1` for features, `c = 2` for weights. None beyond
/// [`MOST_ROWS`], or where fewer than 16 bits are left.
pub fn poisson(rows: usize, largest: f64, outcome: f64) -> Option<Bits> {
    let (columns, lg) = (i64::from(POISSON_COLUMNS), i64::from(log_rows(rows)?));
    // Compared first, as a maximum passes over what is not a number.
    if !(largest.abs() <= 700.0 && (0.0..1e300).contains(&outcome)) {
        return None;
    }
    let size = (largest / std::f64::consts::LN_2).max((1.0 + outcome).log2()).ceil();
    let left = |times: i64| (122 - lg - times * columns - size as i64).div_euclid(2).min(40);
    let (features, weights) = (left(1), left(2));
    let bits = || Bits {
        columns: columns as u32,
        features: features as u32,
        weights: weights as u32,
        losses: features as u32,
    };
    (weights >= i64::from(*POISSON_FACTORS.start())).then(bits)
}
