//! What own columns of few different values give together: a level that is the reference of a factor, cells of an interaction, rows
//! in which two columns differ.
//!
//! What opens of columns opens of every combination of them and of a constant, whose sum the other side knows. Rows with the same
//! values of all these columns are one pattern. Of independent patterns, the most frequent first (the greedy basis of a matroid), each has a
//! combination that is 1 there and 0 at all others of them: where few rows have what can be told from the rest, one of these shows it.

use std::collections::HashMap;

use nalgebra::DMatrix;

/// Most different values of a column that is looked at together with others.
const FEW: usize = 16;

/// Below this an entry is one of rounding: entries are sums of few values of size 1 at most.
const NOTHING: f64 = 1e-9;

/// Terms of a combination that its name has.
const NAMED: usize = 6;

/// Columns of few different values by the patterns of their rows.
pub(super) struct Together<'a> {
    names: Vec<&'a str>,
    /// By which the values of each are divided.
    scales: Vec<f64>,
    /// A constant and the columns, by pattern, the most frequent first.
    patterns: DMatrix<f64>,
    /// Rows of each pattern.
    counts: Vec<u64>,
    /// The pattern of each row.
    of_row: Vec<u32>,
    /// Coefficients of a combination in each column, of the constant first.
    combinations: DMatrix<f64>,
}

impl<'a> Together<'a> {
    /// Of the columns that have few different values; none where there are fewer than two of them.
    pub(super) fn new(columns: &[(&'a str, &'a [f64])]) -> Option<Together<'a>> {
        let few: Vec<_> = columns.iter().filter(|(_, values)| has_few(values)).collect();
        let rows = few.first()?.1.len();
        if few.len() < 2 {
            return None;
        }
        let mut marks = vec![0_u64; rows];
        for (_, values) in &few {
            for (mark, value) in marks.iter_mut().zip(*values) {
                *mark = mixed(*mark ^ mixed((value + 0.0).to_bits()));
            }
        }
        // The number, the first row and the rows of each pattern.
        let mut known: HashMap<u64, u32> = HashMap::new();
        let (mut found, mut of_row) = (Vec::new(), Vec::with_capacity(rows));
        for (row, mark) in marks.iter().enumerate() {
            let at = *known.entry(*mark).or_insert_with(|| {
                found.push((row, 0_u64));
                found.len() as u32 - 1
            });
            found[at as usize].1 += 1;
            of_row.push(at);
        }
        let mut order: Vec<u32> = (0..found.len() as u32).collect();
        order.sort_by_key(|at| std::cmp::Reverse(found[*at as usize].1));
        let mut place = vec![0_u32; order.len()];
        order.iter().enumerate().for_each(|(to, at)| place[*at as usize] = to as u32);
        of_row.iter_mut().for_each(|at| *at = place[*at as usize]);
        let largest = |values: &[f64]| values.iter().fold(0.0_f64, |most, value| most.max(value.abs()));
        let scales: Vec<f64> =
            few.iter().map(|(_, values)| Some(largest(values)).filter(|scale| *scale > 0.0).unwrap_or(1.0)).collect();
        let value = |at: usize, column: usize| match column.checked_sub(1) {
            None => 1.0,
            Some(column) => few[column].1[found[order[at] as usize].0] / scales[column],
        };
        let patterns = DMatrix::from_fn(order.len(), 1 + few.len(), value);
        let counts = order.iter().map(|at| found[*at as usize].1).collect();
        let combinations = combinations(&patterns)?;
        Some(Together {
            names: few.iter().map(|(name, _)| *name).collect(),
            scales,
            patterns,
            counts,
            of_row,
            combinations,
        })
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
        let value = self.patterns.row(pattern).tr_dot(&self.combinations.column(combination));
        // What is equal but for rounding is one value.
        (value / NOTHING).round() * NOTHING
    }

    /// Whether at least so many rows have a zero in a combination, and as many something else.
    pub(super) fn divides(&self, combination: usize, enough: u64) -> bool {
        let mut rows = [0, 0];
        for (pattern, count) in self.counts.iter().enumerate() {
            rows[usize::from(self.value(combination, pattern) == 0.0)] += count;
            if rows[0] >= enough && rows[1] >= enough {
                return true;
            }
        }
        false
    }

    /// The values of a combination by row.
    pub(super) fn values(&self, combination: usize) -> Vec<f64> {
        let of: Vec<f64> = (0..self.counts.len()).map(|pattern| self.value(combination, pattern)).collect();
        self.of_row.iter().map(|pattern| of[*pattern as usize]).collect()
    }

    /// A combination as a formula.
    pub(super) fn name(&self, combination: usize) -> String {
        let of_columns = self.combinations.column(combination);
        let in_units = |at: usize| of_columns[at] / at.checked_sub(1).map_or(1.0, |column| self.scales[column]);
        let terms: Vec<(usize, f64)> = (0..of_columns.len())
            .map(|at| (at, in_units(at)))
            .filter(|(at, _)| of_columns[*at].abs() > NOTHING)
            .collect();
        let unit = terms.iter().map(|(_, factor)| factor.abs()).fold(f64::INFINITY, f64::min);
        let sign = terms.first().map_or(1.0, |(_, factor)| factor.signum());
        let mut name = String::new();
        for (place, (at, factor)) in terms.iter().take(NAMED).enumerate() {
            let factor = sign * factor / unit;
            let of = at.checked_sub(1).map_or("1", |column| self.names[column]);
            name += match (place, factor < 0.0) {
                (0, _) => "",
                (_, true) => " - ",
                (_, false) => " + ",
            };
            match (factor.abs() - 1.0).abs() < 1e-6 {
                true => name += of,
                false => name += &format!("{} {of}", (factor.abs() * 1e4).round() / 1e4),
            }
        }
        if terms.len() > NAMED {
            name += &format!(" and {} more", terms.len() - NAMED);
        }
        name
    }
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

/// A bijection that spreads what differs in few bits over all of them (Stafford's thirteenth variant of the finisher of MurmurHash3).
fn mixed(mut bits: u64) -> u64 {
    bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// For each of the first independent rows the combination of columns that is 1 there and 0 at the others of them.
fn combinations(patterns: &DMatrix<f64>) -> Option<DMatrix<f64>> {
    let columns = patterns.ncols();
    // Rows of the echelon form, each with the column of its one.
    let mut reduced: Vec<(usize, Vec<f64>)> = Vec::new();
    let mut basis = Vec::new();
    for pattern in 0..patterns.nrows() {
        let mut row: Vec<f64> = patterns.row(pattern).iter().copied().collect();
        for (pivot, of) in &reduced {
            let factor = row[*pivot];
            if factor != 0.0 {
                row.iter_mut().zip(of).for_each(|(value, of)| *value -= factor * of);
            }
        }
        let (pivot, largest) =
            row.iter().enumerate().map(|(at, value)| (at, value.abs())).max_by(|a, b| a.1.total_cmp(&b.1))?;
        if largest <= NOTHING {
            continue;
        }
        let scale = row[pivot];
        row.iter_mut().for_each(|value| *value /= scale);
        reduced.push((pivot, row));
        basis.push(pattern);
        if basis.len() == columns {
            break;
        }
    }
    let pivots: Vec<usize> = reduced.iter().map(|(pivot, _)| *pivot).collect();
    let inverse = DMatrix::from_fn(basis.len(), basis.len(), |i, j| patterns[(basis[i], pivots[j])]).try_inverse()?;
    let mut all = DMatrix::zeros(columns, basis.len());
    for (at, pivot) in pivots.iter().enumerate() {
        all.row_mut(*pivot).copy_from(&inverse.row(at));
    }
    Some(all)
}
