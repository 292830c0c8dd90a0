//! What a person would notice about columns before a model is made of them: identifiers, row numbers, too many levels.

use std::fmt;

use super::error::{counted, shown};
use super::{DataError, Frame, Values};

/// Levels beyond which a categorical column is worth a word.
pub const MANY_LEVELS: usize = 50;

/// Rows from which on numbers that count them are worth a word: few are counted by accident.
const COUNTED: usize = 10;

/// Fewest different texts of an identifier; two rows hardly ever agree.
const FEWEST_TEXTS: usize = 3;

/// Something about a column that may be meant, but seldom is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Advice {
    /// A numeric column that has each number of a row once.
    CountsRows {
        /// The column.
        column: String,
        /// The smallest of them.
        first: u8,
        /// How many.
        rows: usize,
    },
    /// A categorical column that makes very many coefficients.
    ManyLevels {
        /// The column.
        column: String,
        /// Its levels.
        levels: usize,
        /// Rows of the table.
        rows: usize,
    },
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Advice::CountsRows { column, first, rows } => write!(
                f,
                "column `{}` has each number from {first} to {} once, as numbers of rows have; leave it out unless it measures something",
                shown(column),
                usize::from(*first) + rows - 1
            ),
            Advice::ManyLevels { column, levels, rows } => write!(
                f,
                "column `{}` has {} in {}, each but the first with a coefficient of its own; group them, or leave it out",
                shown(column),
                counted(*levels, "level"),
                counted(*rows, "row")
            ),
        }
    }
}

/// Refuses text columns in which no two rows agree, unless their levels are declared.
///
/// # Errors
///
/// Such a column, or one that is not there.
pub fn refuse_identifiers<'a>(frame: &Frame, names: impl IntoIterator<Item = &'a str>) -> Result<(), DataError> {
    for name in names {
        let column = frame.column(name)?;
        if let Values::Categorical { levels, declared: false, .. } = &column.values
            && levels.len() >= FEWEST_TEXTS
        {
            let rows = (0..frame.rows()).filter(|&row| !column.values.is_missing(row)).count();
            if levels.len() == rows {
                return Err(DataError::Identifier { column: name.to_owned(), rows });
            }
        }
    }
    Ok(())
}

/// What is worth a word about columns that are to be predictors; columns that are not there are passed over.
pub fn advice<'a>(frame: &Frame, names: impl IntoIterator<Item = &'a str>) -> Vec<Advice> {
    let of = |name: &str| {
        let column = frame.column(name).ok()?;
        match &column.values {
            Values::Numeric(values) => counts_rows(values).map(|first| Advice::CountsRows {
                column: name.to_owned(),
                first,
                rows: values.len(),
            }),
            Values::Categorical { levels, declared: false, .. } if levels.len() > MANY_LEVELS => {
                Some(Advice::ManyLevels { column: name.to_owned(), levels: levels.len(), rows: frame.rows() })
            }
            Values::Boolean(_) | Values::Categorical { .. } => None,
        }
    };
    names.into_iter().filter_map(of).collect()
}

/// The first number of a column that has each number up to the number of rows once, beginning with 0 or 1, in any order.
fn counts_rows(values: &[f64]) -> Option<u8> {
    let rows = values.len();
    // Sorted tables show in the first value that this is another column, and spare the rest.
    if rows < COUNTED || values.iter().any(|value| !(*value >= 0.0 && *value <= rows as f64 && value.fract() == 0.0)) {
        return None;
    }
    let mut seen = vec![false; rows + 1];
    for value in values {
        // Whole and between 0 and the number of rows, as was seen above.
        if std::mem::replace(&mut seen[*value as usize], true) {
            return None;
        }
    }
    Some(u8::from(!seen[0])).filter(|first| *first == 1 || !seen[rows])
}

#[cfg(test)]
mod tests {
    use super::super::encode::tests::{declared, frame};
    use super::*;

    fn cells(rows: impl Iterator<Item = String>) -> Vec<String> {
        rows.collect()
    }

    fn one(name: &str, cells: &[String]) -> Frame {
        let cells: Vec<&str> = cells.iter().map(String::as_str).collect();
        frame(&[(name, &cells)])
    }

    #[test]
    fn a_text_column_in_which_no_two_rows_agree_is_refused_unless_its_levels_are_declared() {
        let refused = |frame: &Frame, name| refuse_identifiers(frame, [name]).map_err(|error| error.to_string());
        let ids = cells((0..40).map(|row| format!("p{row}")));
        assert_eq!(
            refused(&one("patient", &ids), "patient").unwrap_err(),
            "column `patient` has another text in each of 40 rows: it identifies rows and explains nothing; \
             set `rows.id = \"patient\"` in the study, or leave the column out"
        );
        let with_gaps = cells((0..40).map(|row| if row % 7 == 0 { String::new() } else { format!("p{row}") }));
        assert!(refused(&one("patient", &with_gaps), "patient").unwrap_err().contains("each of 34 rows"));
        let twice = cells((0..40).map(|row| format!("p{}", row.max(1))));
        assert_eq!(refused(&one("patient", &twice), "patient"), Ok(()));
        assert_eq!(refused(&one("group", &cells(["a", "b"].map(String::from).into_iter())), "group"), Ok(()));
        assert_eq!(refused(&declared("dose", &["lo", "mid", "hi"], &["lo", "mid", "hi"]), "dose"), Ok(()));
        assert_eq!(refused(&one("x", &cells((0..40).map(|row| row.to_string()))), "x"), Ok(()));
    }

    #[test]
    fn numbers_that_count_the_rows_and_many_levels_are_worth_a_word() {
        let said = |cells: &[String]| {
            advice(&one("x", cells), ["x", "not there"]).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let about = "as numbers of rows have; leave it out unless it measures something";
        let counting = |first: usize| cells((first..first + 30).map(|row| row.to_string()));
        assert_eq!(said(&counting(1)), [format!("column `x` has each number from 1 to 30 once, {about}")]);
        assert_eq!(said(&counting(0)), [format!("column `x` has each number from 0 to 29 once, {about}")]);
        let mut shuffled = counting(1);
        shuffled.reverse();
        shuffled.swap(3, 20);
        assert_eq!(said(&shuffled).len(), 1);
        for other in [
            counting(2),
            cells((1..=9).map(|row| row.to_string())),
            cells((0..30).map(|row| (row / 2).to_string())),
            cells((1..=30).map(|row| if row == 7 { "7.5".into() } else { row.to_string() })),
            cells((1..=30).map(|row| if row == 7 { "NA".into() } else { row.to_string() })),
            cells((0..=30).filter(|row| *row != 7).map(|row| row.to_string())),
        ] {
            assert_eq!(said(&other), [""; 0]);
        }
        let wards = |levels: usize| cells((0..200).map(|row| format!("w{}", row % levels)));
        assert_eq!(
            said(&wards(51)),
            [
                "column `x` has 51 levels in 200 rows, each but the first with a coefficient of its own; group them, or leave it out"
            ]
        );
        assert_eq!(said(&wards(50)), [""; 0]);
    }
}
