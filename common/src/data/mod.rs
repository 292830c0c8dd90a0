//! The data model: named typed columns with the ids of their rows, and the way from there to a design matrix.
//!
//! Readers fill a [`Frame`] through [`column::ColumnBuilder`], so that the rules for what a cell means are the same for
//! every file format. Then [`align`] brings the rows into the order that all parties share, [`formula`] says which terms
//! the model has, and [`encode`] makes the matrix.
//!
//! Every error here may quote a cell or an id of the local file, because the person who has to repair the file needs it.
//! Such a text is for the local terminal only and must never become part of a message to a peer.

pub mod advice;
pub mod align;
mod cell;
pub mod column;
pub mod dates;
pub mod declared;
pub mod encode;
pub(crate) mod error;
pub mod formula;
pub mod functions;
mod marks;
pub mod matching;
pub mod outcome;
mod rows;
pub mod sketch;
pub mod syntax;

use std::fmt;

pub use cell::is_missing;
pub use column::{Column, ColumnBuilder, Values};
pub use error::DataError;
pub(crate) use error::counted;
pub use marks::{Marks, MarksError};
pub use rows::LARGEST;

/// Largest number of rows of one frame; row indices are 32 bits wide to halve the memory of a sort order.
pub const MAX_ROWS: usize = u32::MAX as usize - 1;

/// Where a row stands in the file it came from, as an editor or a data-frame viewer would count it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// Line of a text file, from 1.
    Line(u64),
    /// Row of a file without lines, from 1.
    Row(u64),
}

impl Place {
    fn number(self) -> u64 {
        match self {
            Place::Line(number) | Place::Row(number) => number,
        }
    }

    fn advanced(self, rows: u64) -> Place {
        match self {
            Place::Line(line) => Place::Line(line + rows),
            Place::Row(row) => Place::Row(row + rows),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line(line) => write!(f, "line {line}"),
            Place::Row(row) => write!(f, "row {row}"),
        }
    }
}

/// The place of every row, stored as the rows at which the count does not go on by one.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Places {
    jumps: Vec<(usize, Place)>,
    rows: usize,
}

impl Places {
    /// Remembers where the next row stands.
    pub fn push(&mut self, place: Place) {
        self.extend(place, 1);
    }

    /// Remembers where the next rows stand, one after the other.
    pub fn extend(&mut self, first: Place, rows: usize) {
        let expected = self.jumps.last().map(|&(row, start)| start.advanced((self.rows - row) as u64));
        if rows > 0 && expected != Some(first) {
            self.jumps.push((self.rows, first));
        }
        self.rows += rows;
    }

    /// Number of rows seen.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether no row was seen.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The place of `row`, counted from 0 in the order of the file.
    pub fn place(&self, row: usize) -> Place {
        let after = self.jumps.partition_point(|&(start, _)| start <= row);
        match after.checked_sub(1).and_then(|index| self.jumps.get(index)) {
            Some(&(start, place)) => place.advanced((row - start) as u64),
            None => Place::Row(row as u64 + 1),
        }
    }
}

impl fmt::Debug for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Places").field("rows", &self.rows).field("jumps", &self.jumps.len()).finish()
    }
}

/// The ids of the rows as the bytes that the file holds, in one piece of memory.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Ids {
    arena: Vec<u8>,
    ends: Vec<usize>,
}

impl Ids {
    /// Appends the id of the next row.
    #[inline]
    pub fn push(&mut self, id: &[u8]) {
        self.arena.extend_from_slice(id);
        self.ends.push(self.arena.len());
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The id of `row`; empty beyond the last row.
    #[inline]
    pub fn bytes(&self, row: usize) -> &[u8] {
        let start = match row {
            0 => 0,
            _ => self.ends.get(row - 1).copied().unwrap_or(self.arena.len()),
        };
        let end = self.ends.get(row).copied().unwrap_or(start);
        self.arena.get(start..end).unwrap_or_default()
    }

    /// The ids in row order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.len()).map(|row| self.bytes(row))
    }

    fn reordered(&self, order: &[u32]) -> Ids {
        let mut ids = Ids { arena: Vec::with_capacity(self.arena.len()), ends: Vec::with_capacity(order.len()) };
        for &row in order {
            ids.push(self.bytes(row as usize));
        }
        ids
    }
}

/// Sizes only: ids name people.
impl fmt::Debug for Ids {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ids").field("rows", &self.len()).field("bytes", &self.arena.len()).finish()
    }
}

/// A table as a reader hands it over: named typed columns of equal length, and the ids of the rows where there are any.
///
/// Columns can be taken out one by one, so that the memory of each is free as soon as it has been used.
#[derive(Clone)]
pub struct Frame {
    rows: usize,
    columns: Vec<Column>,
    ids: Option<Ids>,
    places: Places,
    /// Row of the file behind each row of the frame, once the frame has been reordered.
    origin: Option<Vec<u32>>,
    /// The digest of the order that a match gave the rows: the other party has its rows in the same order under the same digest.
    matched: Option<align::Digest>,
}

impl Frame {
    /// Puts columns together.
    ///
    /// # Errors
    ///
    /// No rows, a column name twice or empty, or lengths that differ.
    pub fn new(columns: Vec<Column>, ids: Option<Ids>, places: Places) -> Result<Frame, DataError> {
        let rows = places.len();
        if rows == 0 {
            return Err(DataError::NoRows);
        }
        if rows > MAX_ROWS {
            return Err(DataError::TooManyRows { most: MAX_ROWS });
        }
        check_names(columns.iter().map(|column| column.name.as_str()))?;
        let lengths = columns.iter().map(|column| column.values.len()).chain(ids.iter().map(Ids::len));
        for length in lengths {
            if length != rows {
                return Err(DataError::Lengths { rows, length });
            }
        }
        Ok(Frame { rows, columns, ids, places, origin: None, matched: None })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Names of the columns still here, in the order of the file, without the id column.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|column| column.name.as_str())
    }

    /// The columns still here, in the order of the file.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Looks at one column.
    ///
    /// # Errors
    ///
    /// No such column; the nearest name is suggested.
    pub fn column(&self, name: &str) -> Result<&Column, DataError> {
        match self.columns.iter().find(|column| column.name == name) {
            Some(column) => Ok(column),
            None => Err(unknown(name, self.names())),
        }
    }

    /// Puts a further column behind the others.
    ///
    /// # Errors
    ///
    /// A column of this name is there already, or its length differs.
    pub(crate) fn add(&mut self, column: Column) -> Result<(), DataError> {
        if column.values.len() != self.rows {
            return Err(DataError::Lengths { rows: self.rows, length: column.values.len() });
        }
        check_names(self.names().chain([column.name.as_str()]))?;
        self.columns.push(column);
        Ok(())
    }

    /// Takes one column out.
    ///
    /// # Errors
    ///
    /// No such column; the nearest name is suggested.
    pub fn take(&mut self, name: &str) -> Result<Column, DataError> {
        match self.columns.iter().position(|column| column.name == name) {
            Some(index) => Ok(self.columns.remove(index)),
            None => Err(unknown(name, self.names())),
        }
    }

    /// The ids of the rows in their present order; `None` where the row number is the id.
    pub fn ids(&self) -> Option<&Ids> {
        self.ids.as_ref()
    }

    /// Where `row` stands in the file, whatever the present order is.
    pub fn place(&self, row: usize) -> Place {
        self.places.place(self.origin(row))
    }

    /// Position of `row` in the file, from 0, whatever the present order is.
    pub fn origin(&self, row: usize) -> usize {
        match &self.origin {
            Some(origin) => origin.get(row).map_or(row, |&origin| origin as usize),
            None => row,
        }
    }

    /// Brings the rows into a new order: row `i` becomes what row `order[i]` was.
    ///
    /// One column is moved at a time, so the additional memory is that of one column.
    ///
    /// # Errors
    ///
    /// `order` is not a permutation of the rows.
    pub fn reorder(&mut self, order: &[u32]) -> Result<(), DataError> {
        let mut seen = vec![false; self.rows];
        for &row in order {
            match seen.get_mut(row as usize) {
                Some(seen) if !*seen => *seen = true,
                _ => return Err(DataError::Order { rows: self.rows }),
            }
        }
        if order.len() != self.rows {
            return Err(DataError::Order { rows: self.rows });
        }
        drop(seen);
        self.arrange(order);
        Ok(())
    }

    /// Keeps the rows that a match found in both parties' tables, in the order that both have: row `i` becomes what row `records[i]` was.
    /// `digest` is that of the order, equal at both.
    ///
    /// # Errors
    ///
    /// A record that is not there, a record twice, or none.
    pub fn keep_matched(&mut self, records: &[u32], digest: align::Digest) -> Result<(), DataError> {
        if records.is_empty() {
            return Err(DataError::NoRows);
        }
        let mut seen = vec![false; self.rows];
        for &row in records {
            match seen.get_mut(row as usize) {
                Some(seen) if !*seen => *seen = true,
                _ => return Err(DataError::Order { rows: self.rows }),
            }
        }
        drop(seen);
        self.arrange(records);
        self.rows = records.len();
        self.matched = Some(digest);
        Ok(())
    }

    /// The digest of the order that a match gave the rows; `None` where the rows were not matched.
    pub fn matched(&self) -> Option<&align::Digest> {
        self.matched.as_ref()
    }

    /// Brings the rows into an order that was found sound.
    fn arrange(&mut self, order: &[u32]) {
        let mut numbers = Vec::new();
        for column in &mut self.columns {
            column.values.reorder(order, &mut numbers);
        }
        if let Some(ids) = &mut self.ids {
            *ids = ids.reordered(order);
        }
        self.origin = Some(match &self.origin {
            Some(origin) => order.iter().map(|&row| origin.get(row as usize).copied().unwrap_or(row)).collect(),
            None => order.to_vec(),
        });
    }

    /// Which rows have a missing value in at least one of the named columns.
    ///
    /// # Errors
    ///
    /// An unknown column.
    pub fn missing<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Result<align::Mask, DataError> {
        let mut mask = align::Mask::new(self.rows);
        for name in names {
            self.column(name)?.values.mark_missing(&mut mask);
        }
        Ok(mask)
    }
}

/// Sizes only: the cells are the data that must not leave.
impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frame")
            .field("rows", &self.rows)
            .field("columns", &self.columns.len())
            .field("ids", &self.ids.is_some())
            .finish()
    }
}

/// Checks the names in a header.
///
/// # Errors
///
/// A name that is empty or stands there twice.
pub fn check_names<'a>(names: impl Iterator<Item = &'a str>) -> Result<(), DataError> {
    let mut seen = std::collections::HashMap::new();
    for (index, name) in names.enumerate() {
        if name.trim().is_empty() {
            return Err(DataError::Unnamed { position: index + 1 });
        }
        if let Some(first) = seen.insert(name, index) {
            return Err(DataError::RepeatedName { column: name.to_owned(), first: first + 1, second: index + 1 });
        }
    }
    Ok(())
}

/// The error for a column that is not there, with the nearest name that is.
pub fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> DataError {
    DataError::UnknownColumn { column: name.to_owned(), nearest: nearest(name, known) }
}

/// The known name that a name resembles, if there is one.
pub(crate) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let lower = name.to_lowercase();
    // One measure is good at swapped letters in short names, the other at names that were cut.
    let likeness = |known: &str| {
        let known = known.to_lowercase();
        strsim::normalized_damerau_levenshtein(&lower, &known).max(strsim::jaro_winkler(&lower, &known) - 0.1)
    };
    known
        .map(|known| (likeness(known), known))
        .filter(|(likeness, _)| *likeness > 0.65)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known.to_owned())
}

#[cfg(test)]
mod tests {
    use super::error::shown;
    use super::*;

    fn places(lines: &[u64]) -> Places {
        let mut places = Places::default();
        lines.iter().for_each(|&line| places.push(Place::Line(line)));
        places
    }

    fn frame() -> Frame {
        let columns = vec![
            Column { name: "age".into(), values: Values::Numeric(vec![1.0, f64::NAN, 3.0]) },
            Column { name: "smoker".into(), values: Values::Boolean(vec![Some(true), Some(false), None]) },
            Column {
                name: "city".into(),
                values: Values::Categorical {
                    codes: vec![1, 0, 1],
                    levels: vec!["x".into(), "y".into()],
                    declared: false,
                },
            },
        ];
        let mut ids = Ids::default();
        for id in ["b", "", "aa"] {
            ids.push(id.as_bytes());
        }
        Frame::new(columns, Some(ids), places(&[2, 3, 7])).unwrap()
    }

    #[test]
    fn the_debug_view_of_data_shows_sizes_and_no_values() {
        let frame = frame();
        let text = format!("{frame:?} {:?} {:?} {:?}", frame.columns(), frame.ids(), frame.places);
        assert!(text.contains("rows: 3"), "{text}");
        for value in ["aa", "1.0", "3.0", "\"x\"", "Some(true)"] {
            assert!(!text.contains(value), "{value} in {text}");
        }
    }

    #[test]
    fn places_follow_the_file_over_blank_lines_and_reordering() {
        let mut frame = frame();
        assert_eq!([0, 1, 2].map(|row| frame.place(row)), [2, 3, 7].map(Place::Line));
        frame.reorder(&[2, 0, 1]).unwrap();
        assert_eq!([0, 1, 2].map(|row| frame.place(row)), [7, 2, 3].map(Place::Line));
        frame.reorder(&[2, 0, 1]).unwrap();
        assert_eq!([0, 1, 2].map(|row| frame.place(row)), [3, 7, 2].map(Place::Line));
        assert_eq!(frame.ids().unwrap().iter().collect::<Vec<_>>(), [&b""[..], b"aa", b"b"]);
        let Values::Categorical { codes, .. } = &frame.column("city").unwrap().values else { panic!() };
        assert_eq!(codes, &[0, 1, 1]);
        assert_eq!(frame.take("smoker").unwrap().values, Values::Boolean(vec![Some(false), None, Some(true)]));
        assert_eq!(frame.names().collect::<Vec<_>>(), ["age", "city"]);
    }

    #[test]
    fn an_order_that_is_no_permutation_is_refused() {
        for order in [&[0, 1][..], &[0, 1, 1], &[0, 1, 3], &[0, 1, 2, 0]] {
            assert_eq!(frame().reorder(order), Err(DataError::Order { rows: 3 }));
        }
    }

    #[test]
    fn matched_rows_are_kept_in_their_order_and_an_order_with_a_record_twice_is_refused() {
        let mut frame = frame();
        frame.keep_matched(&[2, 0], [7; 32]).unwrap();
        assert_eq!((frame.rows(), frame.place(0), frame.place(1)), (2, Place::Line(7), Place::Line(2)));
        assert_eq!(frame.ids().unwrap().iter().collect::<Vec<_>>(), [&b"aa"[..], b"b"]);
        assert_eq!(frame.column("age").unwrap().values, Values::Numeric(vec![3.0, 1.0]));
        let before = align::digest_rows(&frame, &[1; 32]);
        align::sort(&mut frame).unwrap();
        assert_eq!(frame.place(0), Place::Line(7), "sorting leaves the order of a match");
        assert_eq!(align::digest_rows(&frame, &[1; 32]), before);
        for records in [&[0, 0][..], &[3], &[]] {
            assert!(self::frame().keep_matched(records, [7; 32]).is_err());
        }
    }

    #[test]
    fn the_proof_of_matched_rows_depends_on_their_order_digest_and_their_number_alone() {
        let digest = |records: &[u32], order: [u8; 32]| {
            let mut frame = frame();
            frame.keep_matched(records, order).unwrap();
            align::digest_rows(&frame, &[1; 32])
        };
        let own = digest(&[2, 0], [7; 32]);
        assert_eq!(digest(&[1, 2], [7; 32]), own, "each party has record numbers of its own");
        assert_ne!(digest(&[2, 0], [8; 32]), own);
        assert_ne!(digest(&[2, 0, 1], [7; 32]), own);
        assert_ne!(align::digest_rows(&frame(), &[1; 32]), own);
    }

    #[test]
    fn missing_values_are_joined_over_the_named_columns_only() {
        let frame = frame();
        let rows = |names: &[&str]| frame.missing(names.iter().copied()).unwrap().iter().collect::<Vec<_>>();
        assert_eq!(rows(&["age"]), [false, true, false]);
        assert_eq!(rows(&["age", "smoker"]), [false, true, true]);
        assert_eq!(rows(&["city"]), [false, false, false]);
    }

    #[test]
    fn an_unknown_column_is_answered_with_the_nearest_name() {
        let frame = frame();
        let message = frame.column("Agee").unwrap_err().to_string();
        assert_eq!(message, "there is no column `Agee`; the nearest name is `age`");
        assert_eq!(frame.column("zzz").unwrap_err().to_string(), "there is no column `zzz`");
    }

    #[test]
    fn frames_that_do_not_fit_together_are_refused() {
        let column = |name: &str, n: usize| Column { name: name.into(), values: Values::Numeric(vec![0.0; n]) };
        let make = |columns| Frame::new(columns, None, places(&[2, 3])).unwrap_err();
        assert_eq!(make(vec![column("a", 3)]), DataError::Lengths { rows: 2, length: 3 });
        assert_eq!(
            make(vec![column("a", 2), column("b", 2), column("a", 2)]).to_string(),
            "the header has the name `a` twice, as columns 1 and 3"
        );
        assert_eq!(make(vec![column("a", 2), column(" ", 2)]), DataError::Unnamed { position: 2 });
        assert_eq!(Frame::new(vec![], None, Places::default()).unwrap_err(), DataError::NoRows);
    }

    #[test]
    fn text_from_files_is_shortened_and_its_control_characters_are_escaped() {
        assert_eq!(shown("a\u{1b}[31mb\n"), "a\\u{1b}[31mb\\n");
        assert_eq!(shown(&"x".repeat(100)).chars().count(), 41);
    }
}
