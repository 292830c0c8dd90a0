//! The rows in use, and what must hold for every value in them.

use super::align::Mask;
use super::column::MISSING;
use super::{Column, DataError, Frame, Values};

/// Largest size of a number that enters a fit: its square and sums of squares stay finite.
pub const LARGEST: f64 = 1e150;

/// A column that enters a fit has a value of this size, unless all are zero: the square of a smaller one is no normal number.
pub(super) const SMALLEST: f64 = 1e-150;

/// The rows that are used.
pub(super) struct Rows {
    all: usize,
    kept: Option<Vec<u32>>,
}

impl Rows {
    pub(super) fn new(frame: &Frame, dropped: Option<&Mask>) -> Result<Rows, DataError> {
        let all = frame.rows();
        if let Some(mask) = dropped
            && mask.rows() != all
        {
            return Err(DataError::MaskLength { mask: mask.rows(), rows: all });
        }
        let kept: Option<Vec<u32>> =
            dropped.filter(|mask| mask.count() > 0).map(|mask| mask.kept().map(|row| row as u32).collect());
        match &kept {
            Some(kept) if kept.is_empty() => Err(DataError::NoCompleteRow { rows: all }),
            _ => Ok(Rows { all, kept }),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.kept.as_ref().map_or(self.all, Vec::len)
    }

    /// Whether every row of the table is used.
    pub(super) fn are_all(&self) -> bool {
        self.kept.is_none()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = usize> {
        (0..self.len()).map(|index| match &self.kept {
            Some(kept) => kept[index] as usize,
            None => index,
        })
    }
}

/// Refuses missing values and numbers that are too large, in the rows used.
pub(super) fn check(frame: &Frame, column: &Column, rows: &Rows) -> Result<(), DataError> {
    // As a rule all is well in all rows, which a loop without branches sees.
    if let Values::Numeric(values) = &column.values
        && values.len() == rows.all
        && values.iter().fold(true, |sound, value| sound & (value.abs() <= LARGEST))
    {
        return Ok(());
    }
    refuse_missing(frame, column, rows)?;
    if let Values::Numeric(values) = &column.values
        && let Some(row) = rows.iter().find(|&row| values[row].abs() > LARGEST)
    {
        return Err(DataError::TooLarge {
            column: column.name.clone(),
            place: frame.place(row),
            value: format!("{:e}", values[row]),
        });
    }
    Ok(())
}

pub(super) fn refuse_missing(frame: &Frame, column: &Column, rows: &Rows) -> Result<(), DataError> {
    let missing = || rows.iter().filter(|&row| column.values.is_missing(row)).map(|row| frame.place(row));
    // The first in the file, which is not the first in the order of ids.
    let Some(place) = missing().min_by_key(|place| place.number()) else {
        return Ok(());
    };
    Err(DataError::Missing { column: column.name.clone(), rows: missing().count(), place, droppable: false })
}

/// Codes of the levels in use: the declared ones, or those that the kept rows have.
pub(super) fn kept_levels(values: &Values, rows: &Rows) -> Vec<u32> {
    match values {
        Values::Numeric(_) => Vec::new(),
        Values::Boolean(_) => vec![0, 1],
        Values::Categorical { levels, declared: true, .. } => (0..levels.len() as u32).collect(),
        Values::Categorical { codes, levels, declared: false } => {
            let mut used = vec![false; levels.len()];
            rows.iter()
                .map(|row| codes[row])
                .filter(|&code| code != MISSING)
                .for_each(|code| used[code as usize] = true);
            (0..levels.len() as u32).filter(|&code| used[code as usize]).collect()
        }
    }
}
