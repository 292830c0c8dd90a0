//! What own columns of few different values give together: a level that is the reference of a factor, cells of an interaction, rows
//! in which two columns differ.
//!
//! What opens of columns opens of every combination of them and of a constant, whose sum the other side knows. Rows with the same
//! values of all these columns are one pattern. Of independent patterns, the most frequent first (the greedy basis of a matroid), each has a
//! combination that is 1 there and 0 at all others of them: where few rows have what can be told from the rest, one of these usually
//! shows it. Every two columns of two values are looked at besides; the callers add what a factor's columns leave.

use std::collections::HashMap;

use nalgebra::DMatrix;

use crate::data::sketch::mixed;

/// Most different values of a column that is looked at together with others.
const FEW: usize = 16;

/// Below this an entry is one of rounding: entries are sums of few values of size 1 at most.
const NOTHING: f64 = 1e-9;

/// Terms of a combination that its name has.
const NAMED: usize = 6;

/// Patterns without a new direction after which no further one is looked for.
const IN_VAIN: usize = 1 << 16;

/// Columns of few different values by the patterns of their rows.
pub(super) struct Together<'a> {
    columns: Vec<(&'a str, &'a [f64])>,
    /// What is taken from the values of each, and by what the rest is divided: it is from 0 to 1 in size.
    units: Vec<(f64, f64)>,
    /// A row of each pattern, and how many rows it has, the most frequent first.
    patterns: Vec<(usize, u64)>,
    /// The pattern of each row.
    of_row: Vec<u32>,
    /// Coefficients of a combination in each column, of the constant first.
    combinations: DMatrix<f64>,
}

impl<'a> Together<'a> {
    /// Of the columns that have few different values; none where there are fewer than two of them.
    pub(super) fn new(columns: &[(&'a str, &'a [f64])]) -> Option<Together<'a>> {
        let columns: Vec<(&str, &[f64])> = columns.iter().copied().filter(|(_, values)| has_few(values)).collect();
        let rows = columns.first()?.1.len();
        if columns.len() < 2 {
            return None;
        }
        let mut marks = vec![0_u64; rows];
        for (_, values) in &columns {
            for (mark, value) in marks.iter_mut().zip(*values) {
                *mark = mixed(*mark ^ mixed((value + 0.0).to_bits()));
            }
        }
        // The mark, a row and the rows of each pattern.
        let mut known: HashMap<u64, u32> = HashMap::new();
        let (mut found, mut of_row) = (Vec::new(), Vec::with_capacity(rows));
        for (row, mark) in marks.iter().enumerate() {
            let at = *known.entry(*mark).or_insert_with(|| {
                found.push((*mark, (row, 0_u64)));
                found.len() as u32 - 1
            });
            found[at as usize].1.1 += 1;
            of_row.push(at);
        }
        let mut order: Vec<u32> = (0..found.len() as u32).collect();
        // Of equally frequent ones in no order of the rows, which are sorted: neighbours may have a rare level in common.
        order.sort_by_key(|at| (std::cmp::Reverse(found[*at as usize].1.1), found[*at as usize].0));
        let mut place = vec![0_u32; order.len()];
        order.iter().enumerate().for_each(|(to, at)| place[*at as usize] = to as u32);
        of_row.iter_mut().for_each(|at| *at = place[*at as usize]);
        let unit = |(_, values): &(&str, &[f64])| {
            let low = values.iter().copied().fold(f64::INFINITY, f64::min);
            let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            (low, Some(high - low).filter(|range| *range > 0.0 && range.is_finite()).unwrap_or(1.0))
        };
        let mut together = Together {
            units: columns.iter().map(unit).collect(),
            columns,
            patterns: order.iter().map(|at| found[*at as usize].1).collect(),
            of_row,
            combinations: DMatrix::zeros(0, 0),
        };
        together.combinations = together.find()?;
        Some(together)
    }

    /// A pattern in units of the columns, a constant first.
    fn pattern(&self, at: usize) -> impl Iterator<Item = f64> {
        let row = self.patterns[at].0;
        let of = move |((_, values), (low, range)): (&(&str, &[f64]), &(f64, f64))| (values[row] - low) / range;
        std::iter::once(1.0).chain(self.columns.iter().zip(&self.units).map(of))
    }

    /// For each of the first independent patterns the combination of columns that is 1 there and 0 at the others of them.
    fn find(&self) -> Option<DMatrix<f64>> {
        let size = 1 + self.columns.len();
        // Rows of the echelon form, each with the column of its one.
        let mut reduced: Vec<(usize, Vec<f64>)> = Vec::new();
        let mut basis: Vec<usize> = Vec::new();
        for pattern in 0..self.patterns.len() {
            let mut row: Vec<f64> = self.pattern(pattern).collect();
            for (pivot, of) in &reduced {
                let factor = row[*pivot];
                if factor != 0.0 {
                    row.iter_mut().zip(of).for_each(|(value, of)| *value -= factor * of);
                }
            }
            let sizes = row.iter().map(|value| value.abs()).enumerate();
            let (pivot, largest) = sizes.max_by(|a, b| a.1.total_cmp(&b.1))?;
            if largest > NOTHING {
                let scale = row[pivot];
                row.iter_mut().for_each(|value| *value /= scale);
                reduced.push((pivot, row));
                basis.push(pattern);
            }
            if basis.len() == size || pattern > basis.last().map_or(0, |last| last + IN_VAIN) {
                break;
            }
        }
        let rows: Vec<Vec<f64>> = basis.iter().map(|pattern| self.pattern(*pattern).collect()).collect();
        let square = DMatrix::from_fn(basis.len(), basis.len(), |i, j| rows[i][reduced[j].0]);
        let inverse = square.try_inverse()?;
        let mut all = DMatrix::zeros(size, basis.len());
        for (at, (pivot, _)) in reduced.iter().enumerate() {
            all.row_mut(*pivot).copy_from(&inverse.row(at));
        }
        Some(all)
    }

    /// Two columns of two values, in some rows of which, but in fewer than these, they differ or are the same: in how many, of how many
    /// that would do, and which columns.
    pub(super) fn rare_pair(&self, [fewest_of_two, fewest]: [u64; 2]) -> Option<(u64, u64, String)> {
        let two = |(at, (_, values)): (usize, &(&str, &[f64]))| {
            let (low, range) = self.units[at];
            let is_high = |value: &f64| *value - low > 0.5 * range;
            let ends = values.iter().all(|value| *value == low || *value == low + range);
            ends.then(|| (at, values.chunks(64).map(|part| bits_of(part.iter().map(is_high))).collect::<Vec<u64>>()))
        };
        let columns: Vec<(usize, Vec<u64>)> = self.columns.iter().enumerate().filter_map(two).collect();
        let rows = self.of_row.len() as u64;
        for (number, (a, of_a)) in columns.iter().enumerate() {
            for (b, of_b) in &columns[..number] {
                let rows_of = |of: fn(u64, u64) -> u64| -> u64 {
                    of_a.iter().zip(of_b).map(|(a, b)| u64::from(of(*a, *b).count_ones())).sum()
                };
                let (only_a, only_b, both) = (rows_of(|a, b| a & !b), rows_of(|a, b| !a & b), rows_of(|a, b| a & b));
                let neither = rows - only_a - only_b - both;
                for cells in [[only_a, only_b], [both, neither]] {
                    let few: u64 = cells.iter().sum();
                    // With one of the cells empty it is a column of two values.
                    let fewest = if cells.contains(&0) { fewest_of_two } else { fewest };
                    if few > 0 && few < fewest {
                        return Some((few, fewest, together(&[self.columns[*b].0, self.columns[*a].0])));
                    }
                }
            }
        }
        None
    }

    /// How many combinations of more than one column there are to look at, by number.
    pub(super) fn numbers(&self) -> impl Iterator<Item = usize> {
        let several = |at: &usize| {
            let of_columns = self.combinations.column(*at);
            of_columns.iter().skip(1).filter(|coefficient| coefficient.abs() > NOTHING).count() > 1
        };
        (0..self.combinations.ncols()).filter(several)
    }

    fn value(&self, combination: usize, pattern: usize) -> f64 {
        let of_columns = self.combinations.column(combination);
        let value: f64 = self.pattern(pattern).zip(of_columns.iter()).map(|(value, factor)| value * factor).sum();
        // What is equal but for rounding is one value.
        (value / NOTHING).round() * NOTHING
    }

    /// Whether at least so many rows have a zero in a combination, and as many something else.
    pub(super) fn divides(&self, combination: usize, enough: u64) -> bool {
        let mut rows = [0, 0];
        for (pattern, (_, count)) in self.patterns.iter().enumerate() {
            rows[usize::from(self.value(combination, pattern) == 0.0)] += count;
            if rows[0] >= enough && rows[1] >= enough {
                return true;
            }
        }
        false
    }

    /// The values of a combination by row.
    pub(super) fn values(&self, combination: usize) -> Vec<f64> {
        let of: Vec<f64> = (0..self.patterns.len()).map(|pattern| self.value(combination, pattern)).collect();
        self.of_row.iter().map(|pattern| of[*pattern as usize]).collect()
    }

    /// The columns of a combination.
    pub(super) fn name(&self, combination: usize) -> String {
        let factors = self.combinations.column(combination);
        let names: Vec<&str> = self
            .columns
            .iter()
            .zip(factors.iter().skip(1))
            .filter(|(_, factor)| factor.abs() > NOTHING)
            .map(|(of, _)| of.0)
            .collect();
        together(&names)
    }
}

/// Columns as what has one name.
fn together(names: &[&str]) -> String {
    let more = match names.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more} together", names[..names.len().min(NAMED)].join(", "))
}

/// Whether a column has at least two and few different values.
fn has_few(column: &[f64]) -> bool {
    let mut values: Vec<f64> = Vec::with_capacity(FEW);
    for value in column {
        if !values.contains(value) {
            if values.len() == FEW {
                return false;
            }
            values.push(*value);
        }
    }
    values.len() > 1
}

fn bits_of(flags: impl Iterator<Item = bool>) -> u64 {
    flags.enumerate().fold(0, |bits, (at, flag)| bits | u64::from(flag) << at)
}
