//! What cells mean together: the rules by which a column becomes numeric, boolean or categorical.
//!
//! Every cell a number: numeric. Every cell `true` or `false` in any case: boolean. No cell a number: categorical, levels
//! in byte order. A mixture is refused. Empty or `NA` is missing, and what [`Marks`] declare; they say too whether decimals
//! have a comma. Declared levels come before all of these rules. Text that is a date everywhere is refused: as levels it
//! would make a coefficient a day.

use std::collections::HashMap;
use std::fmt;

use super::align::Mask;
use super::cell::{Cell, lossy, number_with_comma, read, truth, utf8};
use super::error::few;
use super::{DataError, Marks, Place, dates};

/// Most levels of a column whose levels are not declared.
pub const MAX_LEVELS: usize = 10_000;

/// The code of a missing value among the codes of [`Values::Categorical`].
pub const MISSING: u32 = u32::MAX;

/// One named column.
#[derive(Clone, PartialEq)]
pub struct Column {
    /// The name in the header, as it stands there.
    pub name: String,
    /// The cells.
    pub values: Values,
}

/// The cells of a column by kind.
#[derive(Clone, PartialEq)]
pub enum Values {
    /// Finite numbers; NaN marks a missing value.
    Numeric(Vec<f64>),
    /// Truth values; `None` is missing.
    Boolean(Vec<Option<bool>>),
    /// Levels by code.
    Categorical {
        /// Index into `levels` by row; [`MISSING`] is missing.
        codes: Vec<u32>,
        /// The levels; the first is the reference.
        levels: Vec<String>,
        /// Whether the study declares the levels: then they are kept even where no row has them.
        declared: bool,
    },
}

impl Values {
    /// Number of rows.
    pub fn len(&self) -> usize {
        match self {
            Values::Numeric(values) => values.len(),
            Values::Boolean(values) => values.len(),
            Values::Categorical { codes, .. } => codes.len(),
        }
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the column holds, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Values::Numeric(_) => "numbers",
            Values::Boolean(_) => "truth values",
            Values::Categorical { .. } => "text",
        }
    }

    /// Whether `row` has no value.
    pub fn is_missing(&self, row: usize) -> bool {
        match self {
            Values::Numeric(values) => values.get(row).is_none_or(|value| value.is_nan()),
            Values::Boolean(values) => values.get(row).is_none_or(Option::is_none),
            Values::Categorical { codes, .. } => codes.get(row).is_none_or(|&code| code == MISSING),
        }
    }

    pub(super) fn mark_missing(&self, mask: &mut Mask) {
        (0..self.len()).filter(|&row| self.is_missing(row)).for_each(|row| mask.set(row));
    }

    /// `numbers` is memory that the numeric columns of one frame use in turn.
    pub(super) fn reorder(&mut self, order: &[u32], numbers: &mut Vec<f64>) {
        match self {
            Values::Numeric(values) => {
                numbers.clear();
                numbers.extend(order.iter().map(|&row| values[row as usize]));
                std::mem::swap(values, numbers);
            }
            Values::Boolean(values) => *values = order.iter().map(|&row| values[row as usize]).collect(),
            Values::Categorical { codes, .. } => *codes = order.iter().map(|&row| codes[row as usize]).collect(),
        }
    }
}

/// Sizes only: the cells are the data that must not leave.
impl fmt::Debug for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Column").field("name", &self.name).field("values", &self.values).finish()
    }
}

/// Sizes only: the cells are the data that must not leave.
impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Values::Categorical { codes, levels, .. } => {
                write!(f, "Categorical(rows: {}, levels: {})", codes.len(), levels.len())
            }
            Values::Numeric(values) => write!(f, "Numeric(rows: {})", values.len()),
            Values::Boolean(values) => write!(f, "Boolean(rows: {})", values.len()),
        }
    }
}

/// Grows one column cell by cell and finds its kind.
///
/// With [`ColumnBuilder::finish`] the kind is known when all cells have come. With [`ColumnBuilder::batch`], for streams,
/// the first cell that is not missing decides, and text needs declared levels.
pub struct ColumnBuilder {
    name: String,
    kind: Kind,
    marks: Marks,
}

enum Kind {
    Unknown {
        missing: usize,
    },
    Numeric {
        values: Vec<f64>,
        first: Place,
    },
    Boolean {
        values: Vec<Option<bool>>,
        first: Place,
    },
    Text(Text),
    Declared {
        codes: Vec<u32>,
        levels: Vec<String>,
        known: HashMap<Box<[u8]>, u32>,
        lenient: bool,
    },
    /// Declared as numbers: whatever is none counts as missing.
    Numbers(Vec<f64>),
}

#[derive(Default)]
struct Text {
    codes: Vec<u32>,
    levels: Vec<String>,
    known: HashMap<Box<[u8]>, u32>,
    last: Option<u32>,
    first: Option<Place>,
    /// Whether the file itself says that this is text.
    typed: bool,
}

impl Text {
    fn after(missing: usize, typed: bool) -> Text {
        Text { codes: vec![MISSING; missing], typed, ..Text::default() }
    }

    fn push(&mut self, name: &str, cell: &[u8], place: Place) -> Result<(), DataError> {
        // Neighbouring rows often hold the same level, and comparing is cheaper than hashing.
        if let Some(last) = self.last
            && self.levels[last as usize].as_bytes() == cell
        {
            self.codes.push(last);
            return Ok(());
        }
        let code = match self.known.get(cell) {
            Some(&code) => code,
            None => {
                let level = utf8(name, cell, place)?;
                if self.levels.len() == MAX_LEVELS {
                    self.refuse_dates(name)?;
                    return Err(DataError::TooManyLevels { column: name.to_owned(), most: MAX_LEVELS });
                }
                let code = self.levels.len() as u32;
                self.levels.push(level.to_owned());
                self.known.insert(cell.into(), code);
                code
            }
        };
        self.first.get_or_insert(place);
        self.last = Some(code);
        self.codes.push(code);
        Ok(())
    }

    /// Refuses texts that are dates throughout, so that nobody gets a coefficient a day.
    fn refuse_dates(&self, name: &str) -> Result<(), DataError> {
        match (self.first, self.levels.first()) {
            (Some(place), Some(text)) if self.levels.iter().all(|level| dates::is_date(level)) => {
                Err(DataError::Date { column: name.to_owned(), place, text: text.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Booleans where all levels say so, else levels in byte order. `comma` says how decimals are written.
    fn finish(mut self, name: &str, comma: bool) -> Result<Values, DataError> {
        self.refuse_dates(name)?;
        if !self.typed {
            let other_decimals = |level: &String| match comma {
                // With a declared comma a number with a point is none, and must not pass as a level.
                true => {
                    matches!(read(level.as_bytes(), &Marks::default()), Cell::Number(_)) || number_with_comma(level)
                }
                false => number_with_comma(level),
            };
            if let Some(first) = self.first
                && self.levels.iter().all(other_decimals)
            {
                let text = self.levels.swap_remove(0);
                return Err(DataError::Comma { column: name.to_owned(), place: first, text, declared: comma });
            }
            let truth: Option<Vec<bool>> = self.levels.iter().map(|level| truth(level.as_bytes())).collect();
            if let Some(truth) = truth {
                return Ok(Values::Boolean(self.codes.iter().map(|&code| truth.get(code as usize).copied()).collect()));
            }
        }
        let mut order: Vec<u32> = (0..self.levels.len() as u32).collect();
        order.sort_by(|&a, &b| self.levels[a as usize].cmp(&self.levels[b as usize]));
        let mut rank = vec![0; order.len()];
        for (place, &code) in order.iter().enumerate() {
            rank[code as usize] = place as u32;
        }
        for code in &mut self.codes {
            *code = rank.get(*code as usize).copied().unwrap_or(MISSING);
        }
        self.levels.sort();
        Ok(Values::Categorical { codes: self.codes, levels: self.levels, declared: false })
    }
}

impl ColumnBuilder {
    /// A column whose kind the cells decide.
    pub fn new(name: impl Into<String>) -> ColumnBuilder {
        ColumnBuilder { name: name.into(), kind: Kind::Unknown { missing: 0 }, marks: Marks::default() }
    }

    /// A categorical column with declared levels, of which the first is the reference.
    ///
    /// # Errors
    ///
    /// Fewer than two levels, an empty level, or one that stands there twice.
    pub fn with_levels(name: impl Into<String>, levels: &[String]) -> Result<ColumnBuilder, DataError> {
        let name = name.into();
        let refuse = |problem: String| Err(DataError::Levels { column: name.clone(), problem });
        if levels.len() < 2 {
            return refuse(format!("are {}; at least 2 are needed", levels.len()));
        }
        let mut known = HashMap::new();
        for (code, level) in levels.iter().enumerate() {
            if level.is_empty() {
                return refuse("have an empty one, which marks a missing value".to_owned());
            }
            if known.insert(level.as_bytes().into(), code as u32).is_some() {
                return refuse(format!("have `{}` twice", super::error::shown(level)));
            }
        }
        let kind = Kind::Declared { codes: Vec::new(), levels: levels.to_vec(), known, lenient: false };
        Ok(ColumnBuilder { name, kind, marks: Marks::default() })
    }

    /// A column of numbers in which whatever is no finite number counts as missing: for private runs, where refusing a
    /// table because of one row would tell something about that row.
    pub fn lenient_numbers(name: impl Into<String>) -> ColumnBuilder {
        ColumnBuilder { name: name.into(), kind: Kind::Numbers(Vec::new()), marks: Marks::default() }
    }

    /// As [`ColumnBuilder::with_levels`], where an undeclared level counts as missing.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn lenient_levels(name: impl Into<String>, levels: &[String]) -> Result<ColumnBuilder, DataError> {
        let mut builder = ColumnBuilder::with_levels(name, levels)?;
        if let Kind::Declared { lenient, .. } = &mut builder.kind {
            *lenient = true;
        }
        Ok(builder)
    }

    /// The same column in a file with these marks.
    #[must_use]
    pub fn marked(mut self, marks: &Marks) -> ColumnBuilder {
        self.marks = marks.clone();
        self
    }

    /// The name of the column.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Appends a cell of a text file, to which all rules apply.
    ///
    /// # Errors
    ///
    /// A mixture of kinds, a word for infinity or not-a-number, a number beyond range, a level that is not declared.
    #[inline]
    pub fn cell(&mut self, cell: &[u8], place: Place) -> Result<(), DataError> {
        match &mut self.kind {
            Kind::Declared { .. } => return self.declared(cell, place),
            Kind::Numbers(values) => {
                values.push(if let Cell::Number(value) = read(cell, &self.marks) { value } else { f64::NAN });
                return Ok(());
            }
            Kind::Unknown { .. } | Kind::Numeric { .. } | Kind::Boolean { .. } | Kind::Text(_) => {}
        }
        match read(cell, &self.marks) {
            Cell::Number(value) => self.push(value, place),
            Cell::Missing => {
                self.missing();
                Ok(())
            }
            Cell::Text => self.text(cell, place, false),
            Cell::NotFinite => Err(DataError::NotFinite { column: self.name.clone(), place, text: lossy(cell) }),
            Cell::Overflow => Err(DataError::TooLarge { column: self.name.clone(), place, value: lossy(cell) }),
        }
    }

    /// Appends a cell of a file that says itself that the column is text; `1` is a level there, and not a number.
    ///
    /// # Errors
    ///
    /// A level that is not declared, or text that is not UTF-8.
    pub fn level(&mut self, cell: &[u8], place: Place) -> Result<(), DataError> {
        if let Kind::Declared { .. } | Kind::Numbers(_) = self.kind {
            return self.cell(cell, place);
        }
        match read(cell, &self.marks) {
            Cell::Missing => {
                self.missing();
                Ok(())
            }
            Cell::NotFinite => Err(DataError::NotFinite { column: self.name.clone(), place, text: lossy(cell) }),
            Cell::Number(_) | Cell::Overflow | Cell::Text => self.text(cell, place, true),
        }
    }

    /// Appends a number of a typed file; one that is declared to mark a missing value is missing.
    ///
    /// # Errors
    ///
    /// A number that is not finite, or a column that holds something else.
    #[inline]
    pub fn number(&mut self, value: f64, place: Place) -> Result<(), DataError> {
        match self.kind {
            // Levels come before what marks a missing value.
            Kind::Declared { .. } => {}
            Kind::Unknown { .. } | Kind::Numeric { .. } | Kind::Boolean { .. } | Kind::Text(_) | Kind::Numbers(_) => {
                if self.marks.names_number(value) {
                    self.missing();
                    return Ok(());
                }
            }
        }
        self.push(value, place)
    }

    /// The same of a number that marks nothing.
    #[inline]
    fn push(&mut self, value: f64, place: Place) -> Result<(), DataError> {
        if let Kind::Numbers(values) = &mut self.kind {
            values.push(if value.is_finite() { value } else { f64::NAN });
            return Ok(());
        }
        if !value.is_finite() {
            let text = value.to_string();
            if self.marks.names(text.as_bytes()) || matches!(self.kind, Kind::Declared { lenient: true, .. }) {
                self.missing();
                return Ok(());
            }
            return Err(DataError::NotFinite { column: self.name.clone(), place, text });
        }
        match &mut self.kind {
            Kind::Numeric { values, .. } => values.push(value),
            Kind::Unknown { missing } => {
                let mut values = vec![f64::NAN; *missing];
                values.push(value);
                self.kind = Kind::Numeric { values, first: place };
            }
            Kind::Text(Text { first, levels, .. }) => {
                return Err(DataError::Mixed {
                    column: self.name.clone(),
                    number: place,
                    place: first.unwrap_or(place),
                    text: levels.first().cloned().unwrap_or_default(),
                });
            }
            Kind::Boolean { first, .. } => {
                return Err(DataError::Mixed {
                    column: self.name.clone(),
                    number: place,
                    place: *first,
                    text: "true or false".to_owned(),
                });
            }
            Kind::Declared { .. } => return self.declared(value.to_string().as_bytes(), place),
            // Taken above.
            Kind::Numbers(_) => {}
        }
        Ok(())
    }

    /// Appends numbers of a typed file, of rows that stand one after the other from `first` on: as [`ColumnBuilder::number`] for each.
    ///
    /// # Errors
    ///
    /// A number that is not finite, or a column that holds something else.
    pub fn numbers(&mut self, numbers: &[f64], first: u64) -> Result<(), DataError> {
        // All of them are looked at, which takes less time than to stop at one.
        let usual =
            !self.marks.has_numbers() && numbers.iter().fold(true, |finite, number| finite & number.is_finite());
        if let (Kind::Numeric { values, .. } | Kind::Numbers(values), true) = (&mut self.kind, usual) {
            values.extend_from_slice(numbers);
            return Ok(());
        }
        numbers.iter().zip(first..).try_for_each(|(number, row)| self.number(*number, Place::Row(row)))
    }

    /// Appends a truth value of a typed file.
    ///
    /// # Errors
    ///
    /// A column that holds something else.
    pub fn boolean(&mut self, value: bool, place: Place) -> Result<(), DataError> {
        if let Kind::Unknown { missing } = self.kind {
            self.kind = Kind::Boolean { values: vec![None; missing], first: place };
        }
        match &mut self.kind {
            Kind::Boolean { values, .. } => values.push(Some(value)),
            Kind::Unknown { .. } | Kind::Numeric { .. } | Kind::Text(_) | Kind::Declared { .. } | Kind::Numbers(_) => {
                return self.cell(if value { b"true" } else { b"false" }, place);
            }
        }
        Ok(())
    }

    /// Appends a missing value.
    pub fn missing(&mut self) {
        match &mut self.kind {
            Kind::Unknown { missing } => *missing += 1,
            Kind::Numeric { values, .. } | Kind::Numbers(values) => values.push(f64::NAN),
            Kind::Boolean { values, .. } => values.push(None),
            Kind::Text(Text { codes, .. }) | Kind::Declared { codes, .. } => codes.push(MISSING),
        }
    }

    /// The column, after the last cell. A column without any value is numeric.
    ///
    /// # Errors
    ///
    /// A column in which every text looks like a number with a comma.
    pub fn finish(self) -> Result<Column, DataError> {
        let ColumnBuilder { name, kind, marks } = self;
        let values = match kind {
            Kind::Unknown { missing } => Values::Numeric(vec![f64::NAN; missing]),
            Kind::Numeric { values, .. } | Kind::Numbers(values) => Values::Numeric(values),
            Kind::Boolean { values, .. } => Values::Boolean(values),
            Kind::Text(text) => text.finish(&name, marks.comma())?,
            Kind::Declared { codes, levels, .. } => Values::Categorical { codes, levels, declared: true },
        };
        Ok(Column { name, values })
    }

    /// The cells so far as a column of their own; what was learnt about the kind stays for the next batch.
    ///
    /// # Errors
    ///
    /// Text without declared levels, apart from `true` and `false`.
    pub fn batch(&mut self) -> Result<Column, DataError> {
        let values = match &mut self.kind {
            Kind::Unknown { missing } => Values::Numeric(vec![f64::NAN; std::mem::take(missing)]),
            Kind::Numeric { values, .. } | Kind::Numbers(values) => Values::Numeric(std::mem::take(values)),
            Kind::Boolean { values, .. } => Values::Boolean(std::mem::take(values)),
            Kind::Declared { codes, levels, .. } => {
                Values::Categorical { codes: std::mem::take(codes), levels: levels.clone(), declared: true }
            }
            Kind::Text(text) => {
                let place = text.first.unwrap_or(Place::Row(1));
                let unforeseen = |level: &&String| text.typed || truth(level.as_bytes()).is_none();
                if let Some(level) = text.levels.iter().find(unforeseen) {
                    text.refuse_dates(&self.name)?;
                    return Err(DataError::LevelsNeeded { column: self.name.clone(), place, level: level.clone() });
                }
                let values = std::mem::take(text).finish(&self.name, self.marks.comma())?;
                self.kind = Kind::Boolean { values: Vec::new(), first: place };
                values
            }
        };
        Ok(Column { name: self.name.clone(), values })
    }

    #[cold]
    fn mixed(&self, number: Place, place: Place, cell: &[u8]) -> DataError {
        DataError::Mixed { column: self.name.clone(), number, place, text: lossy(cell) }
    }

    fn text(&mut self, cell: &[u8], place: Place, typed: bool) -> Result<(), DataError> {
        match &mut self.kind {
            Kind::Text(text) => text.push(&self.name, cell, place),
            Kind::Unknown { missing } => {
                let mut text = Text::after(*missing, typed);
                text.push(&self.name, cell, place)?;
                self.kind = Kind::Text(text);
                Ok(())
            }
            Kind::Numeric { first, .. } => {
                let first = *first;
                Err(self.mixed(first, place, cell))
            }
            Kind::Boolean { values, .. } => match truth(cell) {
                Some(value) => {
                    values.push(Some(value));
                    Ok(())
                }
                None => Err(DataError::LevelsNeeded { column: self.name.clone(), place, level: lossy(cell) }),
            },
            Kind::Declared { .. } | Kind::Numbers(_) => self.cell(cell, place),
        }
    }

    fn declared(&mut self, cell: &[u8], place: Place) -> Result<(), DataError> {
        let Kind::Declared { codes, levels, known, lenient } = &mut self.kind else {
            return self.text(cell, place, false);
        };
        match known.get(cell).or_else(|| {
            // Truth values are the same in any case, as where no levels are declared.
            let written = truth(cell)?.to_string();
            known.iter().find(|(level, _)| level.eq_ignore_ascii_case(written.as_bytes())).map(|(_, code)| code)
        }) {
            Some(&code) => codes.push(code),
            None if *lenient => codes.push(MISSING),
            None if self.marks.is_missing(cell) => codes.push(MISSING),
            None => {
                return Err(DataError::UndeclaredLevel {
                    column: self.name.clone(),
                    place,
                    level: utf8(&self.name, cell, place)?.to_owned(),
                    declared: few(levels),
                });
            }
        }
        Ok(())
    }
}

/// Sizes only: the cells are the data that must not leave.
impl fmt::Debug for ColumnBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ColumnBuilder").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(cells: &[&str]) -> Result<Values, DataError> {
        let mut builder = ColumnBuilder::new("x");
        for (row, cell) in cells.iter().enumerate() {
            builder.cell(cell.as_bytes(), Place::Line(row as u64 + 2))?;
        }
        Ok(builder.finish()?.values)
    }

    fn message(cells: &[&str]) -> String {
        column(cells).unwrap_err().to_string()
    }

    fn strings(levels: &[&str]) -> Vec<String> {
        levels.iter().map(|level| level.to_string()).collect()
    }

    #[test]
    fn cells_that_are_all_numbers_make_a_numeric_column() {
        let Values::Numeric(values) = column(&["NA", "1", " -2.5 ", "1e3", ".5", "+7", ""]).unwrap() else { panic!() };
        assert!(values[0].is_nan() && values[6].is_nan());
        assert_eq!(values[1..6], [1.0, -2.5, 1000.0, 0.5, 7.0]);
    }

    #[test]
    fn true_and_false_in_any_case_make_a_boolean_column() {
        let values = column(&["true", "FALSE", "", "True"]).unwrap();
        assert_eq!(values, Values::Boolean(vec![Some(true), Some(false), None, Some(true)]));
    }

    #[test]
    fn cells_without_a_number_make_levels_in_byte_order() {
        let values = column(&["", "b", "a", "Z", "true", "b", "NA"]).unwrap();
        assert_eq!(
            values,
            Values::Categorical {
                codes: vec![MISSING, 2, 1, 0, 3, 2, MISSING],
                levels: strings(&["Z", "a", "b", "true"]),
                declared: false
            }
        );
    }

    #[test]
    fn a_mixture_is_refused_with_both_places_in_either_order() {
        let hint = "write one kind, and leave cells empty or write NA where a value is missing; of a column of classes name \
                    them in the study file: `levels` under [columns.NAME]";
        assert_eq!(
            message(&["1", "2", "abc"]),
            format!("column `x` mixes numbers (first at line 2) and text (first `abc` at line 4); {hint}")
        );
        assert_eq!(
            message(&["", "abc", "d", "2"]),
            format!("column `x` mixes numbers (first at line 5) and text (first `abc` at line 3); {hint}")
        );
        assert!(message(&["true", "1"]).contains("mixes numbers"));
        assert!(message(&["1", "0x1A"]).contains("`0x1A`"));
    }

    #[test]
    fn commas_in_numbers_are_refused_with_what_to_write() {
        assert!(
            message(&["999", "1,234"])
                .ends_with("--decimal as a flag), or be a point, and thousands are written without a comma")
        );
        assert_eq!(
            message(&["1,5", "2,25"]),
            "column `x`, line 2: `1,5` looks like a number with a comma; declare decimal = \",\" in the private file (--decimal as a \
             flag), or write a point for decimals and nothing between thousands"
        );
        assert!(matches!(column(&["1,5", "a"]), Ok(Values::Categorical { .. })));
    }

    #[test]
    fn words_for_infinity_and_not_a_number_are_refused_and_so_are_numbers_beyond_range() {
        for word in ["NaN", "nan", "inf", "-inf", "+Infinity"] {
            let expected = format!(
                "column `x`, line 3: `{word}` is not a value; leave the cell empty or write NA where a value is missing, or declare it: \
                 na_values = [\"{word}\"] in the private file, --na-values as a flag"
            );
            assert_eq!(message(&["1", word]), expected);
            assert_eq!(message(&["a", word]), expected);
        }
        assert_eq!(
            message(&["1e999"]),
            "column `x`, line 2: 1e999 is too large; sizes up to 1e150 can be used, so rescale the column"
        );
    }

    fn marked(missing: &[&str], decimal: &str, cells: &[&str]) -> Result<Values, DataError> {
        let mut builder = ColumnBuilder::new("x").marked(&Marks::new(&strings(missing), Some(decimal)).unwrap());
        for (row, cell) in cells.iter().enumerate() {
            builder.cell(cell.as_bytes(), Place::Line(row as u64 + 2))?;
        }
        Ok(builder.finish()?.values)
    }

    fn numbers(values: Values) -> Vec<Option<f64>> {
        let Values::Numeric(values) = values else { panic!("{values:?}") };
        values.iter().map(|value| Some(*value).filter(|value| !value.is_nan())).collect()
    }

    #[test]
    fn declared_words_mark_missing_values_beside_the_usual_ones() {
        let words = ["NaN", "N/A", "NULL", ".", "-9"];
        let values = marked(&words, ".", &["1", "NaN", " N/A ", "NULL", ".", "-9", "NA", "", "-9.5"]).unwrap();
        assert_eq!(numbers(values), [Some(1.0), None, None, None, None, None, None, None, Some(-9.5)]);
        let values = marked(&words, ".", &["a", ".", "b"]).unwrap();
        assert!(
            matches!(values, Values::Categorical { codes, levels, .. } if codes == [0, MISSING, 1] && levels == ["a", "b"])
        );
        assert!(marked(&words, ".", &["1", "null"]).is_err(), "words are compared letter by letter");
        let marks = Marks::new(&strings(&["."]), None).unwrap();
        let mut declared = ColumnBuilder::with_levels("x", &strings(&["a", "."])).unwrap().marked(&marks);
        declared.cell(b".", Place::Line(2)).unwrap();
        assert!(
            matches!(declared.finish().unwrap().values, Values::Categorical { codes, .. } if codes == [1]),
            "levels come first"
        );
        let mut declared = ColumnBuilder::with_levels("x", &strings(&["a", "b"])).unwrap().marked(&marks);
        declared.cell(b".", Place::Line(2)).unwrap();
        assert!(declared.finish().unwrap().values.is_missing(0));
    }

    #[test]
    fn a_declared_word_that_is_a_number_marks_that_number_where_cells_are_no_text() {
        let typed = |words: &[&str], decimal: &str, cells: &[f64], all: bool| {
            let mut builder = ColumnBuilder::new("x").marked(&Marks::new(&strings(words), Some(decimal)).unwrap());
            match all {
                true => builder.numbers(cells, 1).unwrap(),
                false => {
                    (1..).zip(cells).for_each(|(row, cell)| builder.number(*cell, Place::Row(row)).unwrap());
                }
            }
            numbers(builder.finish().unwrap().values)
        };
        for all in [false, true] {
            let values = typed(&["-9", "n/a", "0"], ".", &[1.0, -9.0, -9.5, -0.0, 2.0], all);
            assert_eq!(values, [Some(1.0), None, Some(-9.5), None, Some(2.0)]);
            assert_eq!(typed(&["-9,5"], ",", &[1.0, -9.5], all), [Some(1.0), None]);
        }
        // Text is compared as text.
        let values = marked(&["-9"], ".", &["1", "-9", "-9.0"]).unwrap();
        assert_eq!(numbers(values), [Some(1.0), None, Some(-9.0)]);
        let marks = Marks::new(&strings(&["2"]), None).unwrap();
        let mut declared = ColumnBuilder::with_levels("x", &strings(&["1", "2"])).unwrap().marked(&marks);
        declared.number(2.0, Place::Row(1)).unwrap();
        assert!(!declared.finish().unwrap().values.is_missing(0), "levels come first");
        let mut lenient = ColumnBuilder::lenient_numbers("x").marked(&marks);
        lenient.numbers(&[2.0, 3.0], 1).unwrap();
        assert_eq!(numbers(lenient.finish().unwrap().values), [None, Some(3.0)]);
    }

    #[test]
    fn what_marks_missing_values_elsewhere_is_recognised_and_its_declaration_shown() {
        assert!(message(&["1", "."]).ends_with(
            "; if `.` marks one, declare it: na_values = [\".\"] in the private file, --na-values as a flag"
        ));
        assert!(!message(&["1", "abc"]).contains("na_values"));
    }

    #[test]
    fn a_declared_decimal_comma_is_read_and_a_point_beside_it_is_refused() {
        let values = marked(&[], ",", &["1,5", "-0,25", "1,5e3", "7", ",5", "", "NA"]).unwrap();
        assert_eq!(numbers(values), [Some(1.5), Some(-0.25), Some(1500.0), Some(7.0), Some(0.5), None, None]);
        let message = |cells: &[&str]| marked(&[], ",", cells).unwrap_err().to_string();
        assert!(message(&["1,5", "2.5"]).contains("mixes numbers (first at line 2) and text (first `2.5` at line 3)"));
        assert!(
            message(&["1.234,5", "2.000,5"]).contains("`1.234,5` is no number with a decimal comma, as is declared")
        );
        assert!(message(&["1.5", "2.5"]).contains("`1.5` is no number with a decimal comma, as is declared"));
        assert!(message(&["1,2,3", "4"]).contains("mixes numbers"));
        assert!(message(&["1e999"]).contains("too large"));
        let marks = Marks::new(&[], Some(",")).unwrap();
        let mut lenient = ColumnBuilder::lenient_numbers("x").marked(&marks);
        for cell in ["1,5", "1.5", "abc", "inf"] {
            lenient.cell(cell.as_bytes(), Place::Line(2)).unwrap();
        }
        assert_eq!(numbers(lenient.finish().unwrap().values), [Some(1.5), None, None, None]);
        assert!(Marks::new(&[], Some(";")).unwrap_err().to_string().contains("expected `.` or `,`"));
        assert!(Marks::new(&strings(&["a\nb"]), None).is_err() && Marks::new(&vec!["x".into(); 101], None).is_err());
    }

    #[test]
    fn a_column_of_dates_is_refused_with_what_to_derive_unless_its_levels_are_declared() {
        let said = message(&["", "2024-01-31", "2024-02-01", "NA"]);
        assert!(
            said.starts_with("column `x`, line 3: `2024-01-31` is a date, which can be an id and no number; derive"),
            "{said}"
        );
        assert!(said.contains("an age in years or the days since a fixed day"), "{said}");
        assert!(matches!(column(&["2024-01-31", "north"]), Ok(Values::Categorical { .. })));
        let mut many = ColumnBuilder::new("at");
        let refused = (0..=MAX_LEVELS).find_map(|row| {
            many.cell(dates::timestamp(row as i128, 1, true).as_bytes(), Place::Line(row as u64 + 2)).err()
        });
        assert!(matches!(refused, Some(DataError::Date { .. })), "{refused:?}");
        let days = strings(&["2024-01-31", "2024-02-01"]);
        let mut declared = ColumnBuilder::with_levels("visit", &days).unwrap();
        declared.cell(b"2024-02-01", Place::Line(2)).unwrap();
        assert!(declared.finish().is_ok());
        let mut batch = ColumnBuilder::new("x");
        batch.cell(b"2024-01-31", Place::Line(2)).unwrap();
        assert!(matches!(batch.batch(), Err(DataError::Date { .. })));
    }

    #[test]
    fn declared_levels_keep_their_order_and_refuse_others() {
        let mut builder = ColumnBuilder::with_levels("dose", &strings(&["2", "1", "NA"])).unwrap();
        for cell in ["1", "2", "", "NA"] {
            builder.cell(cell.as_bytes(), Place::Line(2)).unwrap();
        }
        assert_eq!(
            builder.cell(b"3", Place::Line(9)).unwrap_err().to_string(),
            "column `dose`, line 9: level `3` is not declared; declared are `2`, `1`, `NA`"
        );
        assert_eq!(
            builder.finish().unwrap().values,
            Values::Categorical { codes: vec![1, 0, MISSING, 2], levels: strings(&["2", "1", "NA"]), declared: true }
        );
    }

    #[test]
    fn declarations_that_cannot_be_used_are_refused() {
        let message = |levels: &[&str]| ColumnBuilder::with_levels("x", &strings(levels)).unwrap_err().to_string();
        assert_eq!(message(&["a"]), "the levels declared for column `x` are 1; at least 2 are needed");
        assert_eq!(message(&["a", "b", "a"]), "the levels declared for column `x` have `a` twice");
        assert!(message(&["a", ""]).contains("empty"));
    }

    #[test]
    fn typed_text_is_never_a_number_or_a_truth_value() {
        let mut builder = ColumnBuilder::new("x");
        for cell in ["1", "true", "NA", ""] {
            builder.level(cell.as_bytes(), Place::Row(1)).unwrap();
        }
        assert_eq!(
            builder.finish().unwrap().values,
            Values::Categorical {
                codes: vec![0, 1, MISSING, MISSING],
                levels: strings(&["1", "true"]),
                declared: false
            }
        );
    }

    #[test]
    fn batches_keep_the_kind_of_the_first_one() {
        let mut number = ColumnBuilder::new("x");
        number.cell(b"1", Place::Line(2)).unwrap();
        assert_eq!(number.batch().unwrap().values, Values::Numeric(vec![1.0]));
        assert!(number.cell(b"a", Place::Line(3)).unwrap_err().to_string().contains("(first at line 2)"));

        let mut boolean = ColumnBuilder::new("x");
        boolean.cell(b"true", Place::Line(2)).unwrap();
        assert_eq!(boolean.batch().unwrap().values, Values::Boolean(vec![Some(true)]));
        boolean.missing();
        boolean.cell(b"FALSE", Place::Line(4)).unwrap();
        assert_eq!(boolean.batch().unwrap().values, Values::Boolean(vec![None, Some(false)]));
        assert!(boolean.cell(b"maybe", Place::Line(5)).is_err());
        assert!(boolean.cell(b"1", Place::Line(5)).is_err());

        let mut text = ColumnBuilder::new("x");
        text.cell(b"a", Place::Line(2)).unwrap();
        assert!(text.batch().unwrap_err().to_string().contains("declare the levels"));
    }

    #[test]
    fn a_column_of_identifiers_is_recognised() {
        let mut builder = ColumnBuilder::new("name");
        let refused =
            (0..=MAX_LEVELS).find_map(|row| builder.cell(format!("p{row}").as_bytes(), Place::Line(row as u64)).err());
        assert_eq!(refused, Some(DataError::TooManyLevels { column: "name".into(), most: MAX_LEVELS }));
    }

    #[test]
    fn text_that_is_not_utf_8_is_refused() {
        let mut builder = ColumnBuilder::new("x");
        let error = builder.cell(b"caf\xe9", Place::Line(4)).unwrap_err();
        assert_eq!(error, DataError::NotUtf8 { column: "x".into(), place: Place::Line(4) });
    }
}
