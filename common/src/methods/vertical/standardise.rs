//! Columns on the inner scale: centred and of mean square 1.
//!
//! Every sum is added up row by row. As such a sum waits for each addition before the next, those of a few columns are added up beside
//! each other.

use nalgebra::DMatrix;
use rayon::prelude::*;

use super::block::Scaling;
use crate::linalg::{BLOCK_ROWS, DEPENDENCE};

/// Columns that are summed up beside each other.
const TOGETHER: usize = 4;

/// Puts columns on the inner scale, in place; about their means where `centre`. A column that is constant, or zero without centring, gets
/// scale 0.
pub(super) fn standardise(
    x: &mut DMatrix<f64>,
    weights: Option<&[f64]>,
    weight_sum: f64,
    centre: bool,
) -> Vec<Scaling> {
    let (rows, columns) = x.shape();
    if rows == 0 {
        return vec![Scaling { centre: 0.0, scale: 0.0 }; columns];
    }
    let some = x.as_mut_slice().par_chunks_mut(TOGETHER * rows);
    some.flat_map_iter(|some| Group { rows, weights, weight_sum, columns: some }.standardise(centre)).collect()
}

/// A few columns.
struct Group<'a> {
    rows: usize,
    weights: Option<&'a [f64]>,
    weight_sum: f64,
    columns: &'a mut [f64],
}

impl Group<'_> {
    fn standardise(mut self, centre: bool) -> Vec<Scaling> {
        let count = self.columns.len() / self.rows;
        // Values up to 1e150 are allowed, whose squares would overflow.
        let mut tops = [0.0_f64; TOGETHER];
        let mut means = self.means(|column, block, values| {
            tops[column] = tops[column].max(largest(block));
            values.copy_from_slice(block);
        });
        let live = |column: usize| tops[column] > 0.0 && self.weight_sum > 0.0;
        let live = [0, 1, 2, 3].map(live);
        let mut taken = [0.0; TOGETHER];
        if centre {
            // Twice: the first mean is off by rounding of the column's size, the second by rounding of its spread.
            taken = means;
            means = self.means(|column, block, values| {
                block.iter_mut().filter(|_| live[column]).for_each(|x| *x -= taken[column]);
                values.copy_from_slice(block);
            });
            (0..TOGETHER).for_each(|column| taken[column] += means[column]);
        } else {
            means = [0.0; TOGETHER];
        }
        let squares = self.means(|column, block, values| {
            if centre && live[column] {
                block.iter_mut().for_each(|x| *x -= means[column]);
            }
            let top = tops[column];
            values.iter_mut().zip(block).for_each(|(value, x)| *value = (*x / top) * (*x / top));
        });
        let scaling = |column: usize| {
            let scale = squares[column].sqrt() * tops[column];
            match live[column] {
                false => Scaling { centre: 0.0, scale: 0.0 },
                // What centring leaves of a constant column is rounding.
                true if !(scale > DEPENDENCE * 1e-2 * tops[column]) => Scaling { centre: taken[column], scale: 0.0 },
                true => Scaling { centre: taken[column], scale },
            }
        };
        let scalings: Vec<Scaling> = (0..count).map(scaling).collect();
        for (column, scaling) in self.columns.chunks_mut(self.rows).zip(&scalings) {
            if scaling.scale > 0.0 {
                column.iter_mut().for_each(|x| *x /= scaling.scale);
            }
        }
        scalings
    }

    /// The weighted mean of what `of` makes of each column; it is given the number of the column, some of its rows, and a place for
    /// as many values.
    fn means(&mut self, mut of: impl FnMut(usize, &mut [f64], &mut [f64])) -> [f64; TOGETHER] {
        let mut sums = [0.0; TOGETHER];
        let mut values = [[0.0; BLOCK_ROWS]; TOGETHER];
        for start in (0..self.rows).step_by(BLOCK_ROWS) {
            let end = self.rows.min(start + BLOCK_ROWS);
            for (at, column) in self.columns.chunks_mut(self.rows).enumerate() {
                let values = &mut values[at][..end - start];
                of(at, &mut column[start..end], values);
                if let Some(weights) = self.weights {
                    values.iter_mut().zip(&weights[start..end]).for_each(|(value, weight)| *value *= weight);
                }
            }
            for row in 0..end - start {
                for column in 0..TOGETHER {
                    sums[column] += values[column][row];
                }
            }
        }
        sums.map(|sum| sum / self.weight_sum)
    }
}

/// The largest of some values, in size.
pub(super) fn largest(values: &[f64]) -> f64 {
    let (eights, rest) = values.as_chunks::<8>();
    let mut most = [0.0_f64; 8];
    for eight in eights {
        for (most, value) in most.iter_mut().zip(eight) {
            *most = if value.abs() > *most { value.abs() } else { *most };
        }
    }
    most.iter().chain(rest).fold(0.0, |most, value| most.max(value.abs()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// One column after the other, each operation by itself.
    fn plain(column: &mut [f64], weights: Option<&[f64]>, weight_sum: f64, centre: bool) -> Scaling {
        let mean = |column: &[f64], of: &dyn Fn(f64) -> f64| {
            let weight = |row: usize| weights.map_or(1.0, |weights| weights[row]);
            (0..column.len()).fold(0.0, |sum, row| sum + weight(row) * of(column[row])) / weight_sum
        };
        let top = column.iter().fold(0.0_f64, |top, x| top.max(x.abs()));
        if !(top > 0.0) {
            return Scaling { centre: 0.0, scale: 0.0 };
        }
        let mut taken = 0.0;
        for _ in 0..if centre { 2 } else { 0 } {
            let shift = mean(column, &|x| x);
            column.iter_mut().for_each(|x| *x -= shift);
            taken += shift;
        }
        let scale = mean(column, &|x| (x / top) * (x / top)).sqrt() * top;
        if !(scale > DEPENDENCE * 1e-2 * top) {
            return Scaling { centre: taken, scale: 0.0 };
        }
        column.iter_mut().for_each(|x| *x /= scale);
        Scaling { centre: taken, scale }
    }

    #[test]
    fn columns_beside_each_other_are_scaled_to_the_same_bits_as_one_by_one() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        for (rows, columns) in [(0, 3), (1, 1), (2, 5), (1023, 4), (1025, 6), (5000, 9)] {
            for (weighted, centre) in [(false, false), (false, true), (true, false), (true, true)] {
                // Of all sizes, one zero and one constant.
                let sizes = [1e-140, 1.0, 0.0, 1e140, 0.0];
                let mut all = DMatrix::from_fn(rows, columns, |_, j| {
                    rng.random_range(-1.0..3.0) * sizes[j % 5] + if j % 5 == 4 { 7.0 } else { 0.0 }
                });
                let weights: Option<Vec<f64>> = weighted.then(|| (0..rows).map(|row| (row % 3) as f64 + 0.5).collect());
                let sum = weights.as_ref().map_or(rows as f64, |weights| weights.iter().sum());
                let mut expected = all.clone();
                let mut scalings = Vec::new();
                for j in 0..columns {
                    let column = &mut expected.as_mut_slice()[j * rows..(j + 1) * rows];
                    scalings.push(plain(column, weights.as_deref(), sum, centre));
                }
                assert_eq!(standardise(&mut all, weights.as_deref(), sum, centre), scalings);
                assert!(all == expected, "{rows} rows");
            }
        }
    }
}
