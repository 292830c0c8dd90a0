//! A formula of which everything is declared: its columns have public bounds whatever the rows are, and are computed row by row.
//!
//! This is what private mode takes: nothing is learnt from the rows (no quantile, level, mean or orthogonal basis), a row that has no value
//! somewhere is a row without numbers, and no row changes another one.

use std::collections::BTreeMap;

use nalgebra::DMatrix;

use super::column::{Column, MISSING, Values};
use super::encode::{self, Extent};
use super::formula::{self, Formula, FormulaError, Term};
use super::functions::{self, Fitted, Foreknown, Interval, Learnt};
use super::{DataError, Frame, Place, Places};

/// What a study declares of a column.
#[derive(Debug, Clone, PartialEq)]
pub enum Stated {
    /// Numbers of a public range.
    Range([f64; 2]),
    /// Numbers with a public centre and scale.
    Centred,
    /// Levels, the reference first.
    Levels(Vec<String>),
}

/// A formula with the public bounds of its columns.
#[derive(Debug, Clone)]
pub struct DeclaredFormula {
    terms: Vec<Term>,
    /// The columns that it needs, with what is declared of each.
    columns: Vec<(String, Stated)>,
    learnt: Learnt,
    levels: BTreeMap<String, Vec<String>>,
    extents: Vec<(String, Extent)>,
}

impl DeclaredFormula {
    /// Reads a formula; `stated` says what is declared of a column.
    ///
    /// # Errors
    /// What cannot be read; `.`; a function that looks at data; a column or a term without bounds: each with its place.
    pub fn new(text: &str, stated: impl Fn(&str) -> Option<Stated>) -> Result<DeclaredFormula, FormulaError> {
        let formula = Formula::parse(text)?;
        let refused = |at: usize, problem: String| FormulaError { at: at.max(1), problem, text: text.to_owned() };
        if formula.has_rest() {
            let letters: Vec<char> = text.chars().collect();
            let beside = |at: Option<usize>| at.and_then(|at| letters.get(at)).is_some_and(|c| c.is_alphanumeric());
            let alone = |at: &usize| letters[*at] == '.' && !beside(at.checked_sub(1)) && !beside(Some(at + 1));
            let at = (0..letters.len()).find(alone).map_or(1, |at| at + 1);
            let problem =
                "`.` stands for what a table has; name the columns, whose bounds the study declares".to_owned();
            return Err(refused(at, problem));
        }
        let terms = formula.terms(&[], &[]);
        let column = |name: &str| match stated(name) {
            Some(Stated::Range([low, high])) => Ok(Foreknown::Within(vec![Interval::new(low, high)])),
            Some(Stated::Centred) => Ok(Foreknown::Centred),
            Some(Stated::Levels(levels)) => Ok(Foreknown::Levels(as_written(&levels))),
            None => Err(format!(
                "`{name}` has no public bounds: give [columns.{name}] a `range` of numbers or `levels`, from outside the data"
            )),
        };
        let (mut known, mut learnt, mut levels) = (BTreeMap::new(), Learnt::new(), BTreeMap::new());
        for factor in terms.iter().flat_map(|term| &term.factors) {
            let (foreknown, constants) = factor.foreknown(&column).map_err(|problem| refused(factor.at(), problem))?;
            if !constants.numbers.is_empty() {
                learnt.insert(factor.name().to_owned(), constants.numbers);
            }
            if !constants.levels.is_empty() {
                levels.insert(factor.name().to_owned(), constants.levels);
            }
            known.insert(factor, foreknown);
        }
        let extents = encode::extents(&terms, true, &known).map_err(|error| {
            let about = if let DataError::Function { term, .. } = &error { term.as_str() } else { "" };
            let named = terms.iter().find(|term| term.to_string() == about);
            let at = named.and_then(|term| term.factors.first()).map_or(1, |factor| factor.at());
            refused(at, error.to_string())
        })?;
        let needed = formula::columns(&terms).into_iter().map(str::to_owned);
        let columns = needed.filter_map(|name| stated(&name).map(|stated| (name, stated))).collect();
        drop(known);
        Ok(DeclaredFormula { terms, columns, learnt, levels, extents })
    }

    /// The columns of the table that it needs.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|(name, _)| name.as_str())
    }

    /// The columns that it makes, and where each lies.
    pub fn extents(&self) -> &[(String, Extent)] {
        &self.extents
    }

    /// The columns that it makes of the columns that it needs, taken in that order: not-a-number throughout a row in which anything has no
    /// value. Numbers beyond their range are moved to its nearer end before anything is computed of them.
    ///
    /// # Errors
    /// Columns of another kind than declared or of different lengths, which no row decides.
    pub fn matrix(&self, columns: Vec<Column>) -> Result<DMatrix<f64>, DataError> {
        let rows = columns.first().map_or(0, |column| column.values.len());
        let mut places = Places::default();
        places.extend(Place::Row(1), rows);
        let within = columns.into_iter().zip(&self.columns).map(|(column, (_, stated))| bounded(column, stated));
        let mut frame = Frame::new(within.collect::<Result<_, _>>()?, None, places)?;
        let mut mask = frame.missing(self.columns())?;
        let mut matrix = DMatrix::from_element(rows, self.extents.len(), f64::NAN);
        if mask.count() == rows {
            return Ok(matrix);
        }
        let fitted = Fitted { learnt: &self.learnt, levels: &self.levels };
        functions::derive(&mut frame, &self.terms, Some(&mask), Some(fitted))?;
        for (_, rows) in functions::missing(&frame, &self.terms, &mask)? {
            rows.into_iter().for_each(|row| mask.set(row));
        }
        if mask.count() == rows {
            return Ok(matrix);
        }
        let design = encode::encode(&mut frame, &self.terms, true, Some(&mask))?;
        let names = self.extents.iter().map(|(name, _)| name);
        if !design.terms.iter().eq(names) {
            let problem = "makes other columns than its declarations say".to_owned();
            return Err(DataError::Function { term: self.extents.len().to_string(), problem });
        }
        mask.kept().enumerate().for_each(|(at, row)| matrix.set_row(row, &design.matrix.row(at)));
        Ok(matrix)
    }
}

/// The levels of truth values as R writes them.
fn as_written(levels: &[String]) -> Vec<String> {
    match levels {
        [no, yes] if no.eq_ignore_ascii_case("false") && yes.eq_ignore_ascii_case("true") => {
            ["FALSE", "TRUE"].map(String::from).to_vec()
        }
        _ => levels.to_vec(),
    }
}

/// A column within what is declared of it.
fn bounded(column: Column, stated: &Stated) -> Result<Column, DataError> {
    let Column { name, values } = column;
    let values = match (values, stated) {
        (Values::Numeric(mut values), Stated::Range([low, high])) => {
            for value in &mut values {
                *value = if value.is_finite() { value.clamp(*low, *high) } else { f64::NAN };
            }
            Values::Numeric(values)
        }
        (Values::Numeric(mut values), Stated::Centred) => {
            // What no number may be has no value, so that nothing is refused because of a row.
            let usable = |value: f64| value.abs() <= super::LARGEST;
            values.iter_mut().filter(|value| !usable(**value)).for_each(|value| *value = f64::NAN);
            Values::Numeric(values)
        }
        (Values::Categorical { mut codes, levels, declared: true }, Stated::Levels(stated))
            if levels.len() == stated.len() =>
        {
            let levels = as_written(stated);
            codes.iter_mut().filter(|code| **code as usize >= levels.len()).for_each(|code| *code = MISSING);
            Values::Categorical { codes, levels, declared: true }
        }
        (other @ (Values::Numeric(_) | Values::Boolean(_) | Values::Categorical { .. }), _) => {
            let problem = format!("holds {}, and the study declares something else of it", other.kind());
            return Err(DataError::Function { term: name, problem });
        }
    };
    Ok(Column { name, values })
}

#[cfg(test)]
mod tests;
