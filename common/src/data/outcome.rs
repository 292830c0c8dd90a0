//! From columns to vectors: the outcome, offsets and case weights, checked against what they are for.

use std::fmt;

use super::align::Mask;
use super::error::{counted, few, shown};
use super::rows::{Rows, check, kept_levels, refuse_missing};
use super::{DataError, Frame, Values};
use crate::glm::is_whole;

/// Which values the family of the model allows in the outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    /// Every finite number: gaussian.
    Real,
    /// Two levels, or numbers from 0 to 1: binomial.
    Share,
    /// Numbers from 0: poisson.
    Count,
}

/// The outcome as numbers.
#[derive(Clone, PartialEq)]
pub struct Outcome {
    /// One number per kept row.
    pub values: Vec<f64>,
    /// What the report has to say about it.
    pub notes: Vec<Note>,
}

/// Sizes only: the outcome is the data that must not leave.
impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outcome").field("rows", &self.values.len()).field("notes", &self.notes).finish()
    }
}

/// Case weights.
#[derive(Clone, PartialEq)]
pub struct Weights {
    /// One number from 0 per kept row.
    pub values: Vec<f64>,
    /// Rows of weight zero, which do not count as observations in degrees of freedom and criteria, as in R.
    pub zeros: usize,
}

/// Sizes only: the weights are the data that must not leave.
impl fmt::Debug for Weights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Weights").field("rows", &self.values.len()).field("zeros", &self.zeros).finish()
    }
}

/// Something a reader of the report should know. Holds counts and names of levels, nothing of a single row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// An outcome of two levels was read as numbers.
    TwoLevels {
        /// The outcome.
        column: String,
        /// The level that became 0.
        zero: String,
        /// The level that became 1.
        one: String,
    },
    /// Counts that are not whole numbers, for poisson.
    FractionalCounts {
        /// The outcome.
        column: String,
        /// Number of such rows.
        rows: usize,
    },
    /// Shares whose product with the weight is not a whole number of successes, for binomial.
    FractionalSuccesses {
        /// The outcome.
        column: String,
        /// Number of such rows.
        rows: usize,
    },
}

impl Note {
    /// Whether it is about numbers that no likelihood of counts has.
    pub fn is_of_fractions(&self) -> bool {
        match self {
            Note::TwoLevels { .. } => false,
            Note::FractionalCounts { .. } | Note::FractionalSuccesses { .. } => true,
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::TwoLevels { column, zero, one } => {
                write!(f, "outcome `{}`: `{}` is 0 and `{}` is 1", shown(column), shown(zero), shown(one))
            }
            Note::FractionalCounts { column, rows } => {
                write!(f, "outcome `{}`: {} not a whole number", shown(column), rows_are(*rows))
            }
            Note::FractionalSuccesses { column, rows } => {
                write!(
                    f,
                    "outcome `{}`: in {} the weight times the outcome is not a whole number of successes",
                    shown(column),
                    counted(*rows, "row")
                )
            }
        }
    }
}

fn rows_are(rows: usize) -> String {
    format!("{} {}", counted(rows, "row"), if rows == 1 { "is" } else { "are" })
}

/// The outcome as numbers, checked against what the family allows.
///
/// `weights` are those of the same kept rows; with them binomial shares are told from whole successes.
///
/// # Errors
///
/// Missing values, levels other than two for binomial, text for another family, numbers outside the family's range.
pub fn outcome(
    frame: &Frame,
    name: &str,
    support: Support,
    weights: Option<&[f64]>,
    dropped: Option<&Mask>,
) -> Result<Outcome, DataError> {
    let rows = Rows::new(frame, dropped)?;
    let column = frame.column(name)?;
    refuse_missing(frame, column, &rows)?;
    let two_levels = |zero: &str, one: &str| {
        vec![Note::TwoLevels { column: name.to_owned(), zero: zero.to_owned(), one: one.to_owned() }]
    };
    match &column.values {
        Values::Boolean(values) => Ok(Outcome {
            values: rows.iter().map(|row| f64::from(u8::from(values[row] == Some(true)))).collect(),
            notes: two_levels("FALSE", "TRUE"),
        }),
        Values::Categorical { codes, levels, .. } if support == Support::Share => {
            let kept = kept_levels(&column.values, &rows);
            let [zero, one] = kept[..] else {
                let levels: Vec<String> = kept.iter().map(|&code| levels[code as usize].clone()).collect();
                return Err(DataError::OutcomeLevels {
                    column: name.to_owned(),
                    count: levels.len(),
                    levels: few(&levels),
                });
            };
            Ok(Outcome {
                values: rows.iter().map(|row| f64::from(u8::from(codes[row] == one))).collect(),
                notes: two_levels(&levels[zero as usize], &levels[one as usize]),
            })
        }
        Values::Numeric(_) | Values::Categorical { .. } => {
            let values = numbers(frame, name, "the outcome", dropped)?;
            let (allowed, family): (fn(f64) -> bool, _) = match support {
                Support::Real => (|_| true, "gaussian"),
                Support::Share => (|y| (0.0..=1.0).contains(&y), "binomial, which is from 0 to 1"),
                Support::Count => (|y| y >= 0.0, "poisson, which is from 0"),
            };
            if let Some((&value, row)) = values.iter().zip(rows.iter()).find(|(value, _)| !allowed(**value)) {
                let place = frame.place(row);
                return Err(DataError::OutcomeRange { column: name.to_owned(), place, value, family });
            }
            // The thresholds at which R warns of "non-integer" values.
            let notes = match support {
                Support::Real => None,
                Support::Share => {
                    let rows = match weights {
                        Some(weights) => values.iter().zip(weights).filter(|(y, w)| !whole(*y * *w, 1e-3)).count(),
                        None => values.iter().filter(|y| !whole(**y, 1e-3)).count(),
                    };
                    (rows > 0).then(|| Note::FractionalSuccesses { column: name.to_owned(), rows })
                }
                Support::Count => {
                    let rows = values.iter().filter(|y| !is_whole(**y)).count();
                    (rows > 0).then(|| Note::FractionalCounts { column: name.to_owned(), rows })
                }
            };
            Ok(Outcome { values, notes: notes.into_iter().collect() })
        }
    }
}

fn whole(value: f64, slack: f64) -> bool {
    (value - value.round()).abs() <= slack
}

/// The sum of the offset columns; `None` where there are none.
///
/// # Errors
///
/// Unknown columns, missing values, numbers beyond [`super::LARGEST`], columns that do not hold numbers.
pub fn offset<S: AsRef<str>>(
    frame: &Frame,
    names: &[S],
    dropped: Option<&Mask>,
) -> Result<Option<Vec<f64>>, DataError> {
    let mut sum: Option<Vec<f64>> = None;
    for name in names {
        let values = numbers(frame, name.as_ref(), "an offset", dropped)?;
        match &mut sum {
            Some(sum) => sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += value),
            None => sum = Some(values),
        }
    }
    Ok(sum)
}

/// The case weights.
///
/// # Errors
///
/// As [`offset`]; also negative weights, and weights that are all zero.
pub fn weights(frame: &Frame, name: &str, dropped: Option<&Mask>) -> Result<Weights, DataError> {
    let values = numbers(frame, name, "weights", dropped)?;
    let rows = Rows::new(frame, dropped)?;
    if let Some((&value, row)) = values.iter().zip(rows.iter()).find(|(value, _)| **value < 0.0) {
        return Err(DataError::NegativeWeight { column: name.to_owned(), place: frame.place(row), value });
    }
    let zeros = values.iter().filter(|value| **value == 0.0).count();
    match zeros == values.len() {
        true => Err(DataError::AllWeightsZero { column: name.to_owned() }),
        false => Ok(Weights { values, zeros }),
    }
}

/// A numeric column as it is; `role` says in messages what it is needed for.
///
/// # Errors
///
/// An unknown column, missing values, numbers beyond [`super::LARGEST`], a column that does not hold numbers.
pub fn numbers(frame: &Frame, name: &str, role: &'static str, dropped: Option<&Mask>) -> Result<Vec<f64>, DataError> {
    let rows = Rows::new(frame, dropped)?;
    let column = frame.column(name)?;
    let Values::Numeric(values) = &column.values else {
        return Err(DataError::NotNumeric { column: name.to_owned(), found: column.values.kind(), role });
    };
    check(frame, column, &rows)?;
    Ok(rows.iter().map(|row| values[row]).collect())
}

#[cfg(test)]
mod tests {
    use super::super::encode::tests::{declared, frame};
    use super::*;

    #[test]
    fn a_two_level_outcome_is_read_for_binomial_and_the_report_says_so() {
        let frame = frame(&[("ill", &["yes", "no", "yes"]), ("dead", &["FALSE", "TRUE", "TRUE"])]);
        let ill = outcome(&frame, "ill", Support::Share, None, None).unwrap();
        assert_eq!(ill.values, [1.0, 0.0, 1.0]);
        assert_eq!(ill.notes[0].to_string(), "outcome `ill`: `no` is 0 and `yes` is 1");
        let dead = outcome(&frame, "dead", Support::Share, None, None).unwrap();
        assert_eq!(dead.values, [0.0, 1.0, 1.0]);
        assert_eq!(dead.notes[0].to_string(), "outcome `dead`: `FALSE` is 0 and `TRUE` is 1");
        let declared = declared("ill", &["yes", "no"], &["yes", "no", "yes"]);
        assert_eq!(outcome(&declared, "ill", Support::Share, None, None).unwrap().values, [0.0, 1.0, 0.0]);
    }

    #[test]
    fn outcomes_outside_their_family_are_refused_with_a_sentence() {
        let frame = frame(&[
            ("three", &["a", "b", "c", "a"]),
            ("one", &["a", "a", "a", "a"]),
            ("many", &["1", "2", "0", "1"]),
            ("negative", &["0", "1", "-1", "2"]),
            ("huge", &["0", "1", "2", "1e308"]),
            ("gap", &["0", "NA", "2", "1"]),
        ]);
        let message = |name, support| outcome(&frame, name, support, None, None).unwrap_err().to_string();
        assert_eq!(
            message("three", Support::Share),
            "the outcome `three` has 3 levels: `a`, `b`, `c`; binomial needs two levels, or numbers from 0 to 1"
        );
        assert!(message("one", Support::Share).starts_with("the outcome `one` has 1 level: `a`;"));
        assert_eq!(
            message("many", Support::Share),
            "the outcome `many`, line 3: 2 is outside the range of binomial, which is from 0 to 1"
        );
        assert_eq!(
            message("negative", Support::Count),
            "the outcome `negative`, line 4: -1 is outside the range of poisson, which is from 0"
        );
        assert_eq!(message("three", Support::Real), "column `three` holds text; as the outcome it must hold numbers");
        assert!(message("huge", Support::Real).contains("line 5: 1e308 is too large"));
        assert!(message("gap", Support::Real).contains("1 missing value (the first at line 3)"));
    }

    #[test]
    fn outcomes_that_are_not_whole_are_noted_as_by_r() {
        let frame = frame(&[("y", &["0.5", "1", "0.25"]), ("w", &["2", "3", "3"])]);
        let weights = weights(&frame, "w", None).unwrap();
        let share = |weights| outcome(&frame, "y", Support::Share, weights, None).unwrap().notes;
        assert_eq!(share(Some(&weights.values)), [Note::FractionalSuccesses { column: "y".into(), rows: 1 }]);
        assert_eq!(share(None), [Note::FractionalSuccesses { column: "y".into(), rows: 2 }]);
        let count = outcome(&frame, "y", Support::Count, None, None).unwrap();
        assert_eq!(count.notes, [Note::FractionalCounts { column: "y".into(), rows: 2 }]);
        assert_eq!(count.notes[0].to_string(), "outcome `y`: 2 rows are not a whole number");
        assert_eq!(outcome(&frame, "w", Support::Count, None, None).unwrap().notes, []);
    }

    #[test]
    fn weights_may_be_zero_but_not_negative_and_not_all_zero() {
        let frame = frame(&[("w", &["0", "2", "0.5"]), ("bad", &["1", "1", "-2"]), ("none", &["0", "0", "0"])]);
        assert_eq!(weights(&frame, "w", None), Ok(Weights { values: vec![0.0, 2.0, 0.5], zeros: 1 }));
        let message = |name| weights(&frame, name, None).unwrap_err().to_string();
        assert_eq!(message("bad"), "the weights `bad`, line 4: -2 is negative");
        assert_eq!(message("none"), "the weights `none` are all zero");
    }

    #[test]
    fn offsets_add_up_and_must_be_numbers() {
        let frame = frame(&[("a", &["1", "2"]), ("b", &["10", "20"]), ("t", &["true", "false"])]);
        assert_eq!(offset(&frame, &["a", "b"], None), Ok(Some(vec![11.0, 22.0])));
        assert_eq!(offset::<&str>(&frame, &[], None), Ok(None));
        assert_eq!(
            offset(&frame, &["t"], None).unwrap_err().to_string(),
            "column `t` holds truth values; as an offset it must hold numbers"
        );
    }
}
