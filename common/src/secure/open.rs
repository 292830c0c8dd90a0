//! What may open: limits that a party checks by itself before anything is sent.
//!
//! A table is exact, and so are gradients: with few rows, or too many numbers, they can be solved for single values. Each limit is
//! a number that a party's own file may loosen for its own rows.

use std::fmt;

/// The limits of a party.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Bits of entropy that a two-valued column must have for each number that opens about it.
    pub entropy_bits: f64,
    /// Rows that the rarer value of a two-valued column must have.
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
    let Some(weights) = weights else {
        let firsts = column.iter().filter(|value| **value == first).count() as u64;
        return Some(firsts.min(column.len() as u64 - firsts));
    };
    let (rows, whole) = (effective_rows(weights), weights.iter().sum::<f64>());
    let of = |value: f64| {
        let weights: Vec<f64> = column.iter().zip(weights).filter(|(x, _)| **x == value).map(|(_, w)| *w).collect();
        let share = weights.iter().sum::<f64>() / whole;
        effective_rows(&weights).min((rows as f64 * share * (1.0 + 1e-9)).floor() as u64)
    };
    Some(of(first).min(of(second)))
}

/// Bits of the best code for which rows have the rarer value: `n h2(k / n)`.
pub fn entropy(rows: u64, rarer: u64) -> f64 {
    let share = rarer as f64 / rows as f64;
    let bits = |p: f64| if p > 0.0 { -p * p.log2() } else { 0.0 };
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

    /// Own two-valued columns, of each of which `numbers` open: one for each column of the peer, and what a mode opens beside.
    ///
    /// # Errors
    /// [`Refusal::Entropy`] or [`Refusal::Rare`], for the first column.
    pub fn columns<'a>(
        &self,
        which: Rows,
        columns: impl Iterator<Item = (&'a str, &'a [f64])>,
        weights: Option<&[f64]>,
        numbers: u64,
    ) -> Result<(), Refusal> {
        let needed = self.entropy_bits * numbers as f64;
        for (name, values) in columns {
            let Some(rarer) = rarer_value(values, weights) else { continue };
            let rows = weights.map_or(values.len() as u64, effective_rows);
            if rarer < self.level_rows {
                return Err(Refusal::Rare { column: name.to_string(), which, rarer, needed: self.level_rows });
            }
            let entropy = entropy(rows, rarer);
            if !(entropy >= needed) {
                return Err(Refusal::Entropy {
                    column: name.to_string(),
                    which,
                    rarer,
                    rows,
                    numbers,
                    entropy,
                    needed,
                });
            }
        }
        Ok(())
    }

    /// Every fold and its complement: rows against columns of all parties, and two-valued columns as [`Limits::columns`] has them. `folds`
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
        [both, numbers]: [u64; 2],
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
