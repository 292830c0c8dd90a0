//! Rows on their way from a table into columns: what the readers of all formats have in common.

use std::collections::HashSet;
use std::mem::take;

use fedreg_common::data::column::is_missing;
use fedreg_common::data::{
    Column, ColumnBuilder, DataError, Frame, Ids, MAX_ROWS, Place, Places, check_names, unknown,
};

use super::typed::Cell;
use super::{ReadError, Request, Table};

/// Longest identifier of a record in a stream, bytes. A longer one is none, so that memory is bounded.
pub(super) const LONGEST_ID: usize = 4096;

/// Rows that were read and not given out yet.
pub struct Rows {
    file: String,
    /// One for each column that the table was told to read, in that order.
    targets: Vec<Target>,
    places: Places,
    any: bool,
    /// As in the [`Request`].
    torn: bool,
    /// Why reading stopped: told after the rows that came before.
    failed: Option<ReadError>,
}

/// Where the cells of a column go.
enum Target {
    Column(ColumnBuilder),
    Ids {
        column: String,
        ids: Ids,
    },
    /// The cells as their values, for digests.
    Values(Vec<Vec<u8>>),
}

impl Target {
    /// A cell that is not of a column.
    fn put(&mut self, cell: Cell<'_>, place: Place, torn: bool) -> Result<(), DataError> {
        match self {
            Target::Column(column) => cell.into_column(column, place)?,
            Target::Ids { column, ids } => {
                let id = cell.id();
                let none = is_missing(&id) || torn && id.len() > LONGEST_ID;
                if none && !torn {
                    return Err(DataError::MissingId { column: column.clone(), place });
                }
                ids.push(if none { &[] } else { &id });
            }
            Target::Values(values) => values.push(cell.value()),
        }
        Ok(())
    }
}

impl Rows {
    /// Finds the requested columns in a table and tells it to read them, the id last.
    pub(super) fn new(table: &mut dyn Table, request: &Request) -> Result<Rows, ReadError> {
        let mut rows = Rows::of(table.name(), request.torn);
        let header = table.columns().to_vec();
        let (columns, id) = select(&header, request).map_err(ReadError::data(&rows.file))?;
        for position in columns {
            table.pick(position, false)?;
            let builder = request.builder(&header[position]).map_err(ReadError::data(&rows.file))?;
            rows.targets.push(Target::Column(builder));
        }
        if let Some(position) = id {
            table.pick(position, true)?;
            rows.targets.push(Target::Ids { column: header[position].clone(), ids: Ids::default() });
        }
        Ok(rows)
    }

    /// The values of all columns that can be read, and the names of these.
    pub(super) fn values(table: &mut dyn Table) -> (Rows, Vec<String>) {
        let mut rows = Rows::of(table.name(), false);
        let mut names = Vec::new();
        for (position, name) in table.columns().to_vec().into_iter().enumerate() {
            if table.pick(position, false).or_else(|_| table.pick(position, true)).is_ok() {
                rows.targets.push(Target::Values(Vec::new()));
                names.push(name);
            }
        }
        (rows, names)
    }

    fn of(file: &str, torn: bool) -> Rows {
        let (targets, places) = (Vec::new(), Places::default());
        Rows { file: file.to_owned(), targets, places, any: false, torn, failed: None }
    }

    /// Stands for the source in messages.
    pub(super) fn file(&self) -> &str {
        &self.file
    }

    /// As in the [`Request`].
    pub(super) fn torn(&self) -> bool {
        self.torn
    }

    /// Rows that are waiting to be given out.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether none is waiting.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Puts the next cell of the column that was picked as number `at`.
    ///
    /// # Errors
    ///
    /// A value that cannot stand in its column, and a row without id.
    // Once a cell: a call would cost as much as what it does, and the kind of cell is known where it is called.
    #[inline(always)]
    pub fn put(&mut self, at: usize, cell: Cell<'_>, place: Place) -> Result<(), ReadError> {
        let put = match &mut self.targets[at] {
            Target::Column(column) => cell.into_column(column, place),
            other @ (Target::Ids { .. } | Target::Values(_)) => other.put(cell, place, self.torn),
        };
        match put {
            Ok(()) => Ok(()),
            Err(source) => Err(self.refused(source)),
        }
    }

    /// Says that the cells of the row at `place` are all there.
    ///
    /// # Errors
    ///
    /// More rows than a table may have.
    pub fn end(&mut self, place: Place) -> Result<(), ReadError> {
        self.room(1)?;
        self.places.push(place);
        Ok(())
    }

    /// Refuses more rows than a table may have.
    pub(super) fn room(&self, rows: usize) -> Result<(), ReadError> {
        match rows > MAX_ROWS - self.places.len().min(MAX_ROWS) {
            true => Err(self.refused(DataError::TooManyRows { most: MAX_ROWS })),
            false => Ok(()),
        }
    }

    /// Ends the table with an error, which is told after all rows that came before it.
    pub(super) fn stop(&mut self, error: ReadError) {
        self.failed = Some(error);
    }

    /// The rows that came since the batch before; `None` where none did.
    pub(super) fn batch(&mut self) -> Result<Option<Frame>, ReadError> {
        if let Some(error) = self.failed.take_if(|_| self.places.is_empty()) {
            return Err(error);
        }
        // In a stream it is no error that nothing ever came.
        if self.places.is_empty() && (self.any || self.torn) {
            return Ok(None);
        }
        self.any = true;
        self.frame(ColumnBuilder::batch).map(Some)
    }

    /// All rows, after the last.
    pub(super) fn whole(mut self) -> Result<Frame, ReadError> {
        self.frame(|column| std::mem::replace(column, ColumnBuilder::new("")).finish())
    }

    fn frame(&mut self, finish: impl Fn(&mut ColumnBuilder) -> Result<Column, DataError>) -> Result<Frame, ReadError> {
        let (mut columns, mut named) = (Vec::with_capacity(self.targets.len()), None);
        for target in &mut self.targets {
            match target {
                Target::Column(column) => columns.push(finish(column).map_err(ReadError::data(&self.file))?),
                Target::Ids { ids, .. } => named = Some(take(ids)),
                Target::Values(_) => {}
            }
        }
        Frame::new(columns, named, take(&mut self.places)).map_err(ReadError::data(&self.file))
    }

    /// Gives the values of the rows that came since they were given before, row by row; false where none did.
    pub(super) fn give(&mut self, give: &mut dyn FnMut(&[Vec<u8>])) -> bool {
        let columns = self.targets.iter_mut().filter_map(|target| match target {
            Target::Values(values) => Some(take(values).into_iter()),
            Target::Column(_) | Target::Ids { .. } => None,
        });
        let mut columns: Vec<_> = columns.collect();
        let (rows, mut row) = (take(&mut self.places).len(), Vec::with_capacity(columns.len()));
        for _ in 0..rows {
            row.clear();
            row.extend(columns.iter_mut().filter_map(Iterator::next));
            give(&row);
        }
        rows > 0
    }

    #[cold]
    fn refused(&self, source: DataError) -> ReadError {
        ReadError::data(&self.file)(source)
    }
}

/// The names of a table's columns, which must all be there and differ.
pub(super) fn names(file: &str, names: Vec<String>) -> Result<Vec<String>, ReadError> {
    check_names(names.iter().map(String::as_str)).map_err(ReadError::data(file))?;
    Ok(names)
}

/// Positions of the requested columns in the header, and of the id.
fn select(header: &[String], request: &Request) -> Result<(Vec<usize>, Option<usize>), DataError> {
    let names = || header.iter().map(String::as_str);
    let position = |name: &str| header.iter().position(|known| known == name).ok_or_else(|| unknown(name, names()));
    let id = request.id.as_deref().map(position).transpose()?;
    let columns = match &request.columns {
        None => (0..header.len()).filter(|&position| Some(position) != id).collect(),
        Some(wanted) => {
            let mut seen = HashSet::new();
            let mut columns = Vec::with_capacity(wanted.len());
            for name in wanted {
                let position = position(name)?;
                if Some(position) == id {
                    return Err(DataError::RoleAmongTerms { column: name.clone(), role: "id" });
                }
                if !seen.insert(position) {
                    return Err(DataError::RepeatedColumn { column: name.clone() });
                }
                columns.push(position);
            }
            columns
        }
    };
    Ok((columns, id))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(columns: &[&str], id: Option<&str>) -> Request {
        Request {
            columns: Some(columns.iter().map(|name| name.to_string()).collect()),
            id: id.map(str::to_owned),
            ..Request::default()
        }
    }

    #[test]
    fn columns_are_chosen_by_name_and_wrong_choices_are_refused() {
        let header: Vec<String> = ["id", "age", "bmi"].map(String::from).to_vec();
        assert_eq!(select(&header, &request(&["bmi", "age"], Some("id"))), Ok((vec![2, 1], Some(0))));
        assert_eq!(
            select(&header, &Request { id: Some("age".into()), ..Request::default() }),
            Ok((vec![0, 2], Some(1)))
        );
        let message = |request| select(&header, &request).unwrap_err().to_string();
        assert_eq!(message(request(&["bim"], None)), "there is no column `bim`; the nearest name is `bmi`");
        assert_eq!(message(request(&["age", "age"], None)), "column `age` is named twice");
        assert_eq!(message(request(&["age", "id"], Some("id"))), "column `id` is the id and cannot be a predictor too");
        assert_eq!(message(request(&[], Some("ID"))), "there is no column `ID`; the nearest name is `id`");
    }
}
