//! What may open: limits that a party checks by itself before anything is sent.
//!
//! A table is exact, and so are gradients: with few rows, or too many numbers, they can be solved for single values. Each limit is
//! a number that a party's own file may loosen for its own rows.

use std::collections::BTreeMap;
use std::fmt;

use rayon::prelude::*;

use super::together::Together;

/// The limits of a party.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Bits of entropy that a column of few different values must have for each product that opens about it.
    pub entropy_bits: f64,
    /// Rows that the rarer value of a two-valued column must have, and rows that must differ from a value which more than half have.
    pub level_rows: u64,
    /// Rows for each column of all parties.
    pub rows_per_column: u64,
    /// Share of the unknowns that may open as numbers.
    pub opened_share: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { entropy_bits: 64.0, level_rows: 10, rows_per_column: 10, opened_share: 0.5 }
    }
}

/// The rows over which something opens: all of them, or a part in cross-validation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// All rows.
    All,
    /// One fold, by number from 1.
    Fold(u32),
    /// All rows but those of one fold.
    Without(u32),
}

impl fmt::Display for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rows::All => f.write_str("the rows"),
            Rows::Fold(fold) => write!(f, "the rows of fold {fold}"),
            Rows::Without(fold) => write!(f, "the rows without fold {fold}"),
        }
    }
}

/// How many numbers open about one column of a party.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Numbers {
    /// Products of the column with others that the other side knows, and its sum where that opens.
    pub products: u64,
    /// These, and of a binomial or poisson fit its part of the weighted products and of as many gradients as such fits take as a rule.
    pub all: u64,
}

/// Why nothing may open.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// A two-valued column could be solved for: exit 65.
    #[error(
        "column `{column}` has {rarer} rows of its rarer value among {rows} of {which}: {entropy:.0} bits, and {needed:.0} are needed \
         for the {numbers} numbers that open of it"
    )]
    Entropy {
        /// Its name.
        column: String,
        /// Which rows.
        which: Rows,
        /// Rows of its rarer value.
        rarer: u64,
        /// How many rows.
        rows: u64,
        /// Numbers that open of the column.
        numbers: u64,
        /// What the column has.
        entropy: f64,
        /// What it needs.
        needed: f64,
    },
    /// A column of few different values could be solved for: exit 65.
    #[error(
        "column `{column}` has {values} different values in {rows} of {which}: {entropy:.0} bits, and {needed:.0} are needed for the \
         {numbers} numbers that open of it"
    )]
    Levels {
        /// Its name.
        column: String,
        /// Which rows.
        which: Rows,
        /// Different values.
        values: u64,
        /// How many rows.
        rows: u64,
        /// Numbers that open of the column.
        numbers: u64,
        /// What the column has.
        entropy: f64,
        /// What it needs.
        needed: f64,
    },
    /// Nearly all rows share a value, and the few others could be solved for: exit 65.
    #[error(
        "column `{column}` has the same value in all but {differ} of {which}: {needed} must differ from it, as {numbers} numbers open of it"
    )]
    Sparse {
        /// Its name.
        column: String,
        /// Which rows.
        which: Rows,
        /// Rows of other values.
        differ: u64,
        /// Numbers that open of the column.
        numbers: u64,
        /// What is needed.
        needed: u64,
    },
    /// Own columns together: what one of these says, of a combination of them.
    #[error(
        "{0}. Own columns give it together, as they give the reference level of a factor, or the rows in which two of them differ"
    )]
    Together(Box<Refusal>),
    /// A value that too few rows share: exit 65.
    #[error("column `{column}` has {rarer} rows of its rarer value among {which}, at least {needed} are needed")]
    Rare {
        /// Its name.
        column: String,
        /// Which rows.
        which: Rows,
        /// Rows of its rarer value.
        rarer: u64,
        /// What is needed.
        needed: u64,
    },
    /// Too few rows for the columns of all parties.
    #[error("{rows} of {which}, and {columns} columns of all parties need {needed}")]
    Rows {
        /// Which rows.
        which: Rows,
        /// How many.
        rows: u64,
        /// Columns of all parties.
        columns: u64,
        /// What they need.
        needed: u64,
    },
    /// More numbers than may open.
    #[error(
        "{opened} numbers would be open{}, at most {most} may be of {unknowns} unknown values",
        of_earlier_runs(*before, *plain)
    )]
    Opened {
        /// With those that opened before.
        opened: u64,
        /// Of them, those of earlier runs on the data set.
        before: u64,
        /// Of these, those of runs that were not sealed.
        plain: u64,
        /// What may open.
        most: u64,
        /// Rows times the columns of the side with fewer.
        unknowns: u64,
    },
}

fn of_earlier_runs(before: u64, plain: u64) -> String {
    let shown = match plain {
        0 => String::new(),
        _ => format!(" ({plain} by runs that were not sealed, which show whole vectors)"),
    };
    match before {
        0 => String::new(),
        _ => format!(", {before} of them by earlier runs on the same data set{shown}"),
    }
}

/// Numbers that earlier runs let open of a data set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Earlier {
    /// All of them.
    pub numbers: u64,
    /// Of these, those of runs that were not sealed.
    pub plain: u64,
}

/// How many rows of equal weight these weights amount to: `(sum w)^2 / sum w^2` (Kish 1965), rounded down, so that rows of tiny weight do
/// not stand for rows. With equal weights it is their number.
pub fn effective_rows(weights: &[f64]) -> u64 {
    let largest = weights.iter().copied().fold(0.0, f64::max);
    let scaled = || weights.iter().map(|weight| weight / largest);
    let (sum, squares) = (scaled().sum::<f64>(), scaled().map(|weight| weight * weight).sum::<f64>());
    // Rounding takes nothing from equal weights.
    if squares > 0.0 { (sum * sum / squares * (1.0 + 1e-9)).floor() as u64 } else { 0 }
}

/// How many rows have the rarer value of a column that has exactly two, however coded; none for another column. With weights the
/// effective rows of either value count, and no more of all effective rows than its share of the weight.
pub fn rarer_value(column: &[f64], weights: Option<&[f64]>) -> Option<u64> {
    let first = *column.first()?;
    let second = *column.iter().find(|value| **value != first)?;
    if !column.iter().all(|value| *value == first || *value == second) {
        return None;
    }
    Some(rows_with(column, weights, |value| value == first).min(rows_with(column, weights, |value| value == second)))
}

/// Rows whose value passes. With weights they are effective rows, and no more of all effective rows than their share of the weight.
fn rows_with(column: &[f64], weights: Option<&[f64]>, passes: impl Fn(f64) -> bool) -> u64 {
    let Some(weights) = weights else {
        return column.iter().filter(|value| passes(**value)).count() as u64;
    };
    let (rows, whole) = (effective_rows(weights), weights.iter().sum::<f64>());
    let weights: Vec<f64> = column.iter().zip(weights).filter(|(x, _)| passes(**x)).map(|(_, w)| *w).collect();
    let share = weights.iter().sum::<f64>() / whole;
    effective_rows(&weights).min((rows as f64 * share * (1.0 + 1e-9)).floor() as u64)
}

/// How many rows differ from the value that has more than half of the rows, or of the weight; none where no value has that (Boyer and
/// Moore 1991).
pub fn beside_majority(column: &[f64], weights: Option<&[f64]>) -> Option<u64> {
    let weight = |row: usize| weights.map_or(1.0, |weights| weights[row]);
    let (mut candidate, mut lead) = (*column.first()?, 0.0);
    for (row, value) in column.iter().enumerate() {
        match *value == candidate {
            true => lead += weight(row),
            false if lead < weight(row) => (candidate, lead) = (*value, weight(row) - lead),
            false => lead -= weight(row),
        }
    }
    let [mut with, mut without] = [0.0, 0.0];
    for (row, value) in column.iter().enumerate() {
        *(if *value == candidate { &mut with } else { &mut without }) += weight(row);
    }
    let has_majority = with > without;
    has_majority.then(|| rows_with(column, weights, |value| value != candidate))
}

/// Different values of a column and the bits of the best code for which rows have which, where the values are no more than the root of the
/// rows; none for another column. With weights a value counts by its share of the weight, and rows as the effective ones.
pub fn few_values(column: &[f64], weights: Option<&[f64]>) -> Option<(u64, f64)> {
    let mut values: BTreeMap<u64, f64> = BTreeMap::new();
    for (row, value) in column.iter().enumerate() {
        // -0 and 0 are one value.
        *values.entry((value + 0.0).to_bits()).or_insert(0.0) += weights.map_or(1.0, |weights| weights[row]);
        if values.len() * values.len() > column.len() {
            return None;
        }
    }
    let (whole, rows) = (values.values().sum::<f64>(), weights.map_or(column.len() as u64, effective_rows));
    let entropy = rows as f64 * values.values().map(|weight| bits(weight / whole)).sum::<f64>();
    Some((values.len() as u64, entropy))
}

/// `-p log2(p)`, what a value of this share adds to the entropy of a row.
fn bits(share: f64) -> f64 {
    if share > 0.0 { -share * share.log2() } else { 0.0 }
}

/// Bits of the best code for which rows have the rarer value: `n h2(k / n)`.
pub fn entropy(rows: u64, rarer: u64) -> f64 {
    let share = rarer as f64 / rows as f64;
    if rows == 0 { 0.0 } else { rows as f64 * (bits(share) + bits(1.0 - share)) }
}

impl Limits {
    /// Rows against columns of all parties.
    ///
    /// # Errors
    /// [`Refusal::Rows`].
    pub fn rows(&self, which: Rows, rows: u64, columns: u64) -> Result<(), Refusal> {
        let needed = columns.saturating_mul(self.rows_per_column).max(1);
        if rows < needed {
            return Err(Refusal::Rows { which, rows, columns, needed });
        }
        Ok(())
    }

    /// Own columns, of each of which so many numbers open. One of few different values needs entropy for each product, and where more than
    /// half of the rows share a value, so many others must differ from it that what opens is within [`Limits::opened_share`] of them: with the
    /// values that are known left out, few unknown ones follow from more equations than these (sparse recovery: Candes, Romberg, Tao 2006).
    ///
    /// # Errors
    /// [`Refusal::Entropy`], [`Refusal::Rare`], [`Refusal::Levels`] or [`Refusal::Sparse`], for the first column; [`Refusal::Together`] with
    /// one of them for the first combination of columns of few values.
    pub fn columns<'a>(
        &self,
        which: Rows,
        columns: impl Iterator<Item = (&'a str, &'a [f64])>,
        weights: Option<&[f64]>,
        numbers: Numbers,
    ) -> Result<(), Refusal> {
        let columns: Vec<(&str, &[f64])> = columns.collect();
        let of = |(name, values): &(&str, &[f64])| match rarer_value(values, weights) {
            Some(rarer) => self.two_valued(which, name, values, weights, rarer, numbers.products),
            None => self.of_more_values(which, name, values, weights, numbers),
        };
        columns.par_iter().map(of).collect::<Vec<_>>().into_iter().collect::<Result<(), _>>()?;
        self.together(which, &columns, weights, numbers)
    }

    /// Combinations of own columns of few different values, as if each were a column: as many numbers open about it.
    fn together(
        &self,
        which: Rows,
        columns: &[(&str, &[f64])],
        weights: Option<&[f64]>,
        numbers: Numbers,
    ) -> Result<(), Refusal> {
        let unlimited = self.level_rows == 0 && !(self.entropy_bits > 0.0);
        let Some(together) = (!unlimited).then(|| Together::new(columns)).flatten() else { return Ok(()) };
        let rows = columns.first().map_or(0, |(_, values)| values.len() as u64);
        if let Some((differ, needed, column)) = together.rare_pair([self.level_rows, self.differing(numbers)]) {
            let numbers = numbers.all;
            return Err(Refusal::Together(Box::new(Refusal::Sparse { column, which, differ, numbers, needed })));
        }
        let enough = self.enough(rows, numbers).filter(|_| weights.is_none());
        let of = |combination: usize| {
            if enough.is_some_and(|enough| together.divides(combination, enough)) {
                return Ok(());
            }
            let (name, values) = (together.name(combination), together.values(combination));
            let refusal = match rarer_value(&values, weights) {
                Some(rarer) => self.two_valued(which, &name, &values, weights, rarer, numbers.products),
                None => self.of_more_values(which, &name, &values, weights, numbers),
            };
            refusal.map_err(|refusal| Refusal::Together(Box::new(refusal)))
        };
        let all: Vec<usize> = together.numbers().collect();
        all.into_par_iter().map(of).collect::<Vec<_>>().into_iter().collect()
    }

    /// Rows that are enough for a column of any values which has as many zeros, and as many other values; none where no number is.
    fn enough(&self, rows: u64, numbers: Numbers) -> Option<u64> {
        let bits = self.entropy_bits * numbers.products as f64;
        let (mut below, mut above) = (0, rows / 2);
        if !(entropy(rows, above) >= bits) {
            return None;
        }
        while above - below > 1 {
            let middle = (below + above) / 2;
            if entropy(rows, middle) >= bits { above = middle } else { below = middle }
        }
        Some(above.max(self.differing(numbers)).max(self.level_rows))
    }

    /// Rows of which a part of the table must have at least, for the limits of a column to hold of the part if it is like the whole: a part
    /// opens where two tables differ by its rows. At most all rows, if the limits hold of the whole.
    pub fn part<'a>(
        &self,
        columns: impl Iterator<Item = (&'a str, &'a [f64])>,
        weights: Option<&[f64]>,
        numbers: Numbers,
    ) -> u64 {
        let columns: Vec<(&str, &[f64])> = columns.collect();
        let share = |needed: f64, whole: f64| if needed > 0.0 { needed / whole } else { 0.0 };
        let of = |(_, values): &(&str, &[f64])| {
            let bits = self.entropy_bits * numbers.products as f64;
            let rows = weights.map_or(values.len() as u64, effective_rows);
            let needed = match rarer_value(values, weights) {
                Some(rarer) => share(bits, entropy(rows, rarer)).max(share(self.level_rows as f64, rarer as f64)),
                None => {
                    let constant = values.iter().all(|value| *value == values[0]);
                    let differ = beside_majority(values, weights).filter(|_| !constant);
                    let few = few_values(values, weights).filter(|(different, _)| *different > 1);
                    let sparse = differ.map_or(0.0, |differ| share(self.differing(numbers) as f64, differ as f64));
                    sparse.max(few.map_or(0.0, |(_, entropy)| share(bits, entropy)))
                }
            };
            (rows as f64 * needed).ceil()
        };
        columns.par_iter().map(of).reduce(|| 0.0, f64::max) as u64
    }

    /// Rows that must differ from a value of a column which more than half of the rows have; none where the party asks for no
    /// [`Limits::level_rows`] either.
    pub fn differing(&self, numbers: Numbers) -> u64 {
        if self.level_rows == 0 {
            return 0;
        }
        ((numbers.all as f64 / self.opened_share).ceil() as u64).max(self.level_rows)
    }

    fn two_valued(
        &self,
        which: Rows,
        name: &str,
        values: &[f64],
        weights: Option<&[f64]>,
        rarer: u64,
        numbers: u64,
    ) -> Result<(), Refusal> {
        let (column, rows) = (name.to_string(), weights.map_or(values.len() as u64, effective_rows));
        if rarer < self.level_rows {
            return Err(Refusal::Rare { column, which, rarer, needed: self.level_rows });
        }
        let (entropy, needed) = (entropy(rows, rarer), self.entropy_bits * numbers as f64);
        if !(entropy >= needed) {
            return Err(Refusal::Entropy { column, which, rarer, rows, numbers, entropy, needed });
        }
        Ok(())
    }

    fn of_more_values(
        &self,
        which: Rows,
        name: &str,
        values: &[f64],
        weights: Option<&[f64]>,
        numbers: Numbers,
    ) -> Result<(), Refusal> {
        let column = || name.to_string();
        // A zero is in no product, whatever its row weighs.
        let differ =
            [beside_majority(values, None), weights.and_then(|weights| beside_majority(values, Some(weights)))];
        if let Some(differ) = differ.into_iter().flatten().min() {
            let needed = self.differing(numbers);
            // A constant tells nothing.
            if differ < needed && values.iter().any(|value| *value != values[0]) {
                return Err(Refusal::Sparse { column: column(), which, differ, numbers: numbers.all, needed });
            }
        }
        let Some((different, entropy)) = few_values(values, weights).filter(|(different, _)| *different > 1) else {
            return Ok(());
        };
        let (rows, numbers) = (weights.map_or(values.len() as u64, effective_rows), numbers.products);
        let needed = self.entropy_bits * numbers as f64;
        if !(entropy >= needed) {
            return Err(Refusal::Levels { column: column(), which, values: different, rows, numbers, entropy, needed });
        }
        Ok(())
    }

    /// Every fold and its complement: rows against columns of all parties, and each column as [`Limits::columns`] has it. `folds`
    /// has the fold of each row, from 1 to `count`.
    ///
    /// # Errors
    /// The first refusal.
    pub fn folds<'a>(
        &self,
        folds: &[u32],
        count: u32,
        columns: &[(&'a str, &[f64])],
        weights: Option<&[f64]>,
        (both, numbers): (u64, Numbers),
    ) -> Result<(), Refusal> {
        for fold in 1..=count {
            for which in [Rows::Fold(fold), Rows::Without(fold)] {
                let within = |row: &usize| (folds[*row] == fold) == (which == Rows::Fold(fold));
                let rows: Vec<usize> = (0..folds.len()).filter(within).collect();
                let weights: Option<Vec<f64>> = weights.map(|weights| rows.iter().map(|row| weights[*row]).collect());
                self.rows(which, weights.as_deref().map_or(rows.len() as u64, effective_rows), both)?;
                let part = |(name, column): &(&'a str, &[f64])| (*name, rows.iter().map(|row| column[*row]).collect());
                let parts: Vec<(&str, Vec<f64>)> = columns.iter().map(part).collect();
                self.columns(
                    which,
                    parts.iter().map(|(name, part)| (*name, part.as_slice())),
                    weights.as_deref(),
                    numbers,
                )?;
            }
        }
        Ok(())
    }

    /// Numbers that earlier runs let open and those that would be open of this one, over path and folds, against the unknowns: rows times the
    /// columns of the side with fewer.
    ///
    /// # Errors
    /// [`Refusal::Opened`].
    pub fn opened(&self, before: Earlier, now: u64, rows: u64, columns: [u64; 2]) -> Result<u64, Refusal> {
        let unknowns = rows.saturating_mul(columns[0].min(columns[1]));
        let most = (unknowns as f64 * self.opened_share).floor() as u64;
        let Earlier { numbers: before, plain } = before;
        let opened = before.saturating_add(now);
        if opened > most {
            return Err(Refusal::Opened { opened, before, plain, most, unknowns });
        }
        Ok(opened)
    }
}
