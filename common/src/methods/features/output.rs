//! Ridge regression by output perturbation: a solution whose distance from the exact one has a proved bound for every data set.
//!
//! # The certificate
//!
//! Rows and outcomes are cut to whole units, a function of each record alone, so that `H = A'A + m lambda I` and `A'y` are integers. Its
//! solution is a vector `c` of whole units, and the residual `r = H c - A'y` of such a vector is computed in integers, without rounding. With
//! `L >= |H|`, which follows from the number of rows, `c` is *settled* when every entry of `r` is below `L`. Then `|r| < sqrt(N) L`, and as no
//! eigenvalue of `H` is below `m lambda`, `c` lies within `sqrt(N) L / (m lambda) <= sqrt(N) (1 + 1/lambda)` units of the exact solution.
//!
//! # Why every data set gets there
//!
//! A solver in floating point is tried first; its steps are corrected by exact residuals, and settle it after two or three. Nothing rests
//! on that: where they do not, every entry of `c` moves by `-r/L`, cut towards zero, until that moves none, which is the certificate. Each such step
//! `s` has `r's <= -L |s|^2` and `s'Hs <= L |s|^2`, so it lowers `c'Hc/2 - c'A'y` by at least `L/2`, and there is a lowest value. So there is a
//! solution, with the same bound, whatever the rows are; no error, and no bound that only holds as a rule.

use nalgebra::{DMatrix, DVector};

use super::{FeatureError, LARGEST_STATISTICS, setting, size};
use crate::bounded::Bounded;
use crate::linalg::{Definite, gram};

/// Rows and outcomes are multiples of 2^-21.
const ROW_BITS: i32 = 21;
/// Rows whose products add up exactly in 53 bits: 2^10 * 2^42 = 2^52.
const EXACT_ROWS: usize = 1 << 10;
/// Bits after the point of the solution.
const OUTPUT_BITS: i32 = 40;
/// Rows whose sums fit 128 bits: with `|c| <= sqrt(N) 2^40/sqrt(lambda)` no product of the residual passes 2^126.
const MOST_ROWS: usize = 1 << 28;
/// Corrections of the solver in floating point.
const CORRECTIONS: usize = 8;

/// One site's ridge coefficients before noise: `a` are rows of features with norm at most 1, `y` outcomes in units of the half range, cut to
/// `[-1, 1]`; a row with a value that is not finite counts as zero.
///
/// # Errors
/// Other than one outcome per row, no row or more than 2^28, more than 2000 features, `lambda` below 1e-6 or above 1e6. None of them depends on
/// a value.
///
/// # Privacy
/// Sensitivity `2 (1 + 1/(2 sqrt lambda)) / (m lambda)`, proved in the parent module, plus how far each of two solutions may be from the exact
/// one, proved here: [`output_sensitivity`].
pub fn output_perturbation(a: &DMatrix<f64>, y: &[f64], lambda: f64) -> Result<Bounded, FeatureError> {
    size("outcomes", a.nrows(), y.len())?;
    setting("lambda", "from 1e-6 to 1e6", lambda, (1e-6..=1e6).contains(&lambda))?;
    let (rows, count) = (a.nrows(), a.ncols());
    setting("the number of rows", "from 1 to 2^28", rows as f64, (1..=MOST_ROWS).contains(&rows))?;
    setting("the number of features", "at most 2000", count as f64, count <= LARGEST_STATISTICS)?;
    let solution = System::new(a, y, lambda).solve();
    Ok(Bounded::new(
        solution.into_iter().map(i128::from).collect(),
        -OUTPUT_BITS,
        output_sensitivity(rows, count, lambda),
        "2 (1 + 1/(2 sqrt(lambda))) / (m lambda) + 2 sqrt(N) (1 + 1/lambda) 2^-40: strong convexity, |c| <= 1/(2 sqrt(lambda)), and the \
         certified distance of both solutions",
    ))
}

/// The l2 sensitivity of [`output_perturbation`] for a given number of rows and features.
pub fn output_sensitivity(rows: usize, count: usize, lambda: f64) -> f64 {
    // Each is some roundings away from the exact number.
    const ROOM: f64 = 1.0 + 1e-14;
    let exact = 2.0 * (1.0 + 0.5 / lambda.sqrt()) / (rows as f64 * lambda);
    let solved = 2.0 * (count as f64).sqrt() * (1.0 + 1.0 / lambda) / f64::from(OUTPUT_BITS).exp2();
    ((exact + solved) * ROOM).next_up()
}

/// `H` and `A'y` in units of 2^-42, solutions in units of 2^-40.
struct System {
    width: usize,
    /// `A'A`, row by row.
    table: Vec<i128>,
    target: Vec<i128>,
    /// `m lambda`, rounded up: a little more ridge than was asked for.
    shift: i128,
    /// No eigenvalue of `H` is larger.
    largest: i128,
    /// Twice the largest length of a solution, beyond which no entry of a trial is taken.
    trial: f64,
}

impl System {
    fn new(a: &DMatrix<f64>, y: &[f64], lambda: f64) -> System {
        let (rows, width) = a.shape();
        let (mut table, mut target) = (vec![0i128; width * width], vec![0i128; width]);
        for first in (0..rows).step_by(EXACT_ROWS) {
            let count = EXACT_ROWS.min(rows - first);
            let mut part = a.rows(first, count).into_owned();
            let mut outcome = DVector::zeros(count);
            for i in 0..count {
                outcome[i] = whole(&mut part, i, y[first + i]);
            }
            // Every entry and partial sum is an integer below 2^53, so these products are exact.
            let (products, cross) = (gram(&part, None), part.tr_mul(&outcome));
            table.iter_mut().zip(products.iter()).for_each(|(sum, product)| *sum += *product as i128);
            target.iter_mut().zip(cross.iter()).for_each(|(sum, product)| *sum += *product as i128);
        }
        let shift = ((lambda * rows as f64).next_up() * f64::from(2 * ROW_BITS).exp2()).ceil() as i128;
        let trial = f64::from(OUTPUT_BITS).exp2() / lambda.sqrt();
        System { width, table, target, shift, largest: ((rows as i128) << (2 * ROW_BITS)) + shift, trial }
    }

    /// `H c - A'y`, exactly, in units of 2^-82.
    fn residual(&self, c: &[i64]) -> Vec<i128> {
        let rows = self.table.chunks_exact(self.width.max(1));
        let entry = |((row, target), own): ((&[i128], &i128), &i64)| {
            let product: i128 = row.iter().zip(c).map(|(entry, c)| entry * i128::from(*c)).sum();
            product + self.shift * i128::from(*own) - (target << OUTPUT_BITS)
        };
        rows.zip(&self.target).zip(c).map(entry).collect()
    }

    fn settled(&self, residual: &[i128]) -> bool {
        residual.iter().all(|entry| entry.abs() < self.largest)
    }

    fn solve(&self) -> Vec<i64> {
        self.corrected().unwrap_or_else(|| self.descended(vec![0; self.width]))
    }

    /// By a factor in floating point, corrected by exact residuals; nothing where that does not settle it.
    fn corrected(&self) -> Option<Vec<i64>> {
        let table = DMatrix::from_fn(self.width, self.width, |i, j| {
            (self.table[i * self.width + j] + if i == j { self.shift } else { 0 }) as f64
        });
        let factor = Definite::from_gram(&table)?;
        let mut c = vec![0i64; self.width];
        for _ in 0..CORRECTIONS {
            let residual = self.residual(&c);
            if self.settled(&residual) {
                return Some(c);
            }
            let step = factor.solve(&DVector::from_iterator(self.width, residual.iter().map(|&r| r as f64)));
            for (c, step) in c.iter_mut().zip(step.iter()) {
                // A step that is not a number becomes zero in the cast.
                *c = (*c as f64 - step).round().clamp(-self.trial, self.trial) as i64;
            }
        }
        None
    }

    /// Downhill in whole units from `c`, until no entry moves.
    fn descended(&self, mut c: Vec<i64>) -> Vec<i64> {
        loop {
            let residual = self.residual(&c);
            if self.settled(&residual) {
                return c;
            }
            // Whatever is below zero, the start, has `|A c|^2 + m lambda |c|^2 <= 2 y'A c`, so that `|c| <= 1/sqrt(lambda)`: nothing overflows.
            c.iter_mut().zip(&residual).for_each(|(c, r)| *c -= (r / self.largest) as i64);
        }
    }
}

/// Cuts row `i` to whole units of 2^-21 with norm at most 2^21 by integer arithmetic, and gives its outcome in such units. A row with a value
/// that is not finite is zero.
fn whole(rows: &mut DMatrix<f64>, i: usize, y: f64) -> f64 {
    let norm = rows.row(i).norm();
    if !(norm.is_finite() && y.is_finite()) {
        rows.row_mut(i).fill(0.0);
        return 0.0;
    }
    let (unit, limit) = (f64::from(ROW_BITS).exp2(), 1i64 << (2 * ROW_BITS));
    let mut scale = unit / norm.max(1.0);
    loop {
        let square: i64 = rows.row(i).iter().map(|v| ((v * scale) as i64).pow(2)).sum();
        if square <= limit {
            break;
        }
        // Rounding made it a little too long.
        scale *= 1.0 - 1e-9;
    }
    rows.row_mut(i).iter_mut().for_each(|v| *v = (*v * scale).trunc());
    (y.clamp(-1.0, 1.0) * unit).trunc()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// Tables that are hard on a solver: equal rows, equal columns, tiny columns, one row among zeros.
    fn hard(rows: usize, width: usize) -> Vec<(DMatrix<f64>, Vec<f64>)> {
        let mut generator = ChaCha8Rng::seed_from_u64(8);
        let mut random = |_: usize, _: usize| generator.random_range(-1.0..1.0) / (width as f64).sqrt();
        let free = DMatrix::from_fn(rows, width, &mut random);
        let mut columns = free.clone();
        (1..width).for_each(|j| columns.set_column(j, &free.column(0)));
        let mut tiny = free.clone();
        (1..width).for_each(|j| tiny.column_mut(j).scale_mut(1e-6));
        let mut lonely = DMatrix::zeros(rows, width);
        lonely.set_row(0, &free.row(0).normalize());
        let equal = DMatrix::from_element(rows, width, 1.0 / (width as f64).sqrt());
        let y: Vec<f64> = (0..rows).map(|i| if i % 3 == 0 { -1.0 } else { 1.0 }).collect();
        [free, columns, tiny, lonely, equal].into_iter().map(|a| (a, y.clone())).collect()
    }

    /// The distance that is in the sensitivity, in units: twice what a settled residual allows each solution.
    fn allowed(width: usize, lambda: f64) -> f64 {
        (width as f64).sqrt() * (1.0 + 1.0 / lambda)
    }

    #[test]
    fn every_solution_is_settled_by_exact_arithmetic_however_hard_the_table() {
        for lambda in [1e-6, 1e-3, 1.0, 1e6] {
            for (a, y) in hard(40, 6) {
                let system = System::new(&a, &y, lambda);
                let solution = system.solve();
                assert!(system.settled(&system.residual(&solution)), "lambda {lambda}");
                assert!(system.corrected().is_some(), "lambda {lambda}: the quick way is enough");
            }
        }
    }

    #[test]
    fn where_the_solver_fails_the_way_downhill_ends_within_the_same_bound() {
        for lambda in [0.02, 1.0] {
            for (a, y) in hard(40, 6) {
                let system = System::new(&a, &y, lambda);
                let (quick, slow) = (system.solve(), system.descended(vec![0; 6]));
                assert!(system.settled(&system.residual(&slow)), "lambda {lambda}");
                let square: f64 = quick.iter().zip(&slow).map(|(a, b)| ((a - b) as f64).powi(2)).sum();
                assert!(square.sqrt() <= 2.0 * allowed(6, lambda), "lambda {lambda}: {} units", square.sqrt());
            }
        }
    }

    /// Of one column the solution is a quotient of integers, so that its error is known exactly.
    #[test]
    fn the_certified_distance_is_in_the_sensitivity_twice() {
        for (rows, lambda) in [(3usize, 1e-6), (50, 1e-4), (50, 1.0)] {
            let a = DMatrix::from_element(rows, 1, 1.0);
            let y: Vec<f64> = (0..rows).map(|i| 1.0 / (1.0 + i as f64)).collect();
            let system = System::new(&a, &y, lambda);
            let found = i128::from(system.solve()[0]);
            let (h, t) = (system.table[0] + system.shift, system.target[0] << OUTPUT_BITS);
            let off = (found * h - t).abs() as f64 / h as f64;
            assert!(off <= allowed(1, lambda), "{rows} rows, lambda {lambda}: {off} units");
            assert!(system.shift >= (lambda * rows as f64 * 2f64.powi(42)) as i128, "never less ridge than declared");
            let exact = 2.0 * (1.0 + 0.5 / lambda.sqrt()) / (rows as f64 * lambda);
            let beyond = output_sensitivity(rows, 1, lambda) - exact;
            // The difference of two such numbers is off by a few units in the last place of the larger.
            assert!(beyond >= 2.0 * allowed(1, lambda) * 2f64.powi(-40), "{beyond:e}");
        }
    }

    #[test]
    fn rows_are_cut_to_norm_one_in_integers_and_what_is_not_a_number_is_zero() {
        let mut generator = ChaCha8Rng::seed_from_u64(9);
        for _ in 0..500 {
            let size = 10f64.powi(generator.random_range(-8..200));
            let mut row = DMatrix::from_fn(1, 7, |_, _| generator.random_range(-size..size));
            let y = whole(&mut row, 0, generator.random_range(-2.0..2.0));
            let square: i128 = row.iter().map(|v| (*v as i128).pow(2)).sum();
            assert!(square <= 1 << 42 && y.abs() <= f64::from(1 << 21) && row.iter().all(|v| v.fract() == 0.0));
        }
        for (entry, y) in
            [(f64::NAN, 0.5), (f64::INFINITY, 0.5), (f64::MAX, 0.5), (0.5, f64::NAN), (0.5, f64::INFINITY)]
        {
            let mut row = DMatrix::from_element(1, 2, entry);
            assert_eq!(whole(&mut row, 0, y), 0.0);
            assert!(row.iter().all(|v| *v == 0.0));
        }
        let mut row = DMatrix::from_element(1, 2, -0.0);
        assert_eq!(whole(&mut row, 0, -0.0), 0.0);
    }

    #[test]
    fn solutions_are_those_of_ridge_regression() {
        for (a, y) in hard(60, 5) {
            let found = output_perturbation(&a, &y, 0.01).unwrap().values();
            let expected = crate::methods::features::ridge(&a, &DVector::from_vec(y), 0.01).unwrap();
            assert!((found - expected).norm() < 1e-3);
        }
    }
}
