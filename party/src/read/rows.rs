//! Rows on their way from a table into columns: what the readers of all formats have in common.

use std::collections::{HashMap, HashSet};
use std::mem::take;

use fedreg_common::data::is_missing;
use fedreg_common::data::{Column, ColumnBuilder, DataError, Frame, Ids, MAX_ROWS, Place, Places, unknown};

use super::content::number_value;
use super::typed::Cell;
use super::{Opened, ReadError, Request};

/// Longest identifier of a record in a stream, bytes. A longer one is none, so that memory is bounded.
pub(super) const LONGEST_ID: usize = 4096;

/// Rows that were read and not given out yet.
pub(super) struct Rows {
    file: String,
    /// Columns of the table.
    width: usize,
    /// Positions of those that are read.
    picks: Vec<usize>,
    /// One for each of these.
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
    Values(Ids),
    /// The cells as text, whatever they hold; without a value empty.
    Texts(Ids),
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
            Target::Values(values) => cell.put_value(values),
            Target::Texts(texts) => texts.push(&cell.id()),
        }
        Ok(())
    }
}

impl Rows {
    /// Finds the requested columns in a table and tells it to read them, the id last.
    pub(super) fn new(opened: &mut Opened, request: &Request) -> Result<Rows, ReadError> {
        let mut rows = Rows::of(opened, request.torn);
        let (columns, id) = select(&opened.columns, request).map_err(ReadError::data(&opened.name))?;
        for position in columns {
            opened.table.pick(position, false)?;
            let builder = request.builder(&opened.columns[position]).map_err(ReadError::data(&opened.name))?;
            rows.pick(position, Target::Column(builder));
        }
        if let Some(position) = id {
            opened.table.pick(position, true)?;
            rows.pick(position, Target::Ids { column: opened.columns[position].clone(), ids: Ids::default() });
        }
        Ok(rows)
    }

    /// The values of all columns that can be read, and the names of these.
    pub(super) fn values(opened: &mut Opened) -> (Rows, Vec<String>) {
        let mut rows = Rows::of(opened, false);
        for position in 0..rows.width {
            if opened.table.pick(position, false).or_else(|_| opened.table.pick(position, true)).is_ok() {
                rows.pick(position, Target::Values(Ids::default()));
            }
        }
        let names = rows.picks.iter().map(|position| opened.columns[*position].clone()).collect();
        (rows, names)
    }

    /// The texts of these columns.
    pub(super) fn texts(opened: &mut Opened, names: &[&str]) -> Result<Rows, ReadError> {
        let mut rows = Rows::of(opened, false);
        let wanted = names.iter().map(|name| (*name).to_owned()).collect();
        let request = Request { columns: Some(wanted), ..Request::default() };
        let (columns, _) = select(&opened.columns, &request).map_err(ReadError::data(&opened.name))?;
        for position in columns {
            opened.table.pick(position, true)?;
            rows.pick(position, Target::Texts(Ids::default()));
        }
        Ok(rows)
    }

    /// The texts that were read, column by column, after the last row.
    pub(super) fn into_texts(self) -> Result<Vec<Ids>, ReadError> {
        if self.places.is_empty() {
            return Err(self.refused(DataError::NoRows));
        }
        let texts = self.targets.into_iter().filter_map(|target| match target {
            Target::Texts(texts) => Some(texts),
            Target::Column(_) | Target::Ids { .. } | Target::Values(_) => None,
        });
        Ok(texts.collect())
    }

    fn of(opened: &Opened, torn: bool) -> Rows {
        let (file, width) = (opened.name.clone(), opened.columns.len());
        let (picks, targets, places) = (Vec::new(), Vec::new(), Places::default());
        Rows { file, width, picks, targets, places, any: false, torn, failed: None }
    }

    fn pick(&mut self, position: usize, target: Target) {
        self.picks.push(position);
        self.targets.push(target);
    }

    /// Columns of the table.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// Positions of the columns that are read.
    pub(super) fn picks(&self) -> &[usize] {
        &self.picks
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
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Puts the next cell of the column that was picked as number `at`.
    ///
    /// # Errors
    ///
    /// A value that cannot stand in its column, and a row without id.
    // Once a cell: a call would cost as much as what it does, and the kind of cell is known where it is called.
    #[inline(always)]
    pub(super) fn put(&mut self, at: usize, cell: Cell<'_>, place: Place) -> Result<(), ReadError> {
        let put = match &mut self.targets[at] {
            Target::Column(column) => cell.into_column(column, place),
            other @ (Target::Ids { .. } | Target::Values(_) | Target::Texts(_)) => other.put(cell, place, self.torn),
        };
        put.map_err(|source| self.refused(source))
    }

    /// The columns that were picked, in order, each for cells of its own.
    pub(super) fn lanes(&mut self) -> impl Iterator<Item = Lane<'_>> {
        let (file, torn) = (&*self.file, self.torn);
        self.targets.iter_mut().map(move |target| Lane { target, torn, file })
    }

    /// Lets another table put rows into some of the columns, those of which `inside` is true: there they are columns `places` of a table
    /// with a name of its own. Says how many rows came; they count once [`Rows::end`] says so of all columns.
    ///
    /// # Errors
    ///
    /// As `put`.
    pub(super) fn within(
        &mut self,
        file: &str,
        inside: &[bool],
        places: &[usize],
        put: impl FnOnce(&mut Rows) -> Result<(), ReadError>,
    ) -> Result<usize, ReadError> {
        let all = take(&mut self.targets);
        let (mut own, mut others) = (Vec::with_capacity(all.len()), Vec::with_capacity(all.len()));
        for (target, inside) in all.into_iter().zip(inside) {
            if *inside { own.push(target) } else { others.push(target) }
        }
        let mut rows = Rows {
            file: file.to_owned(),
            width: self.width,
            picks: places.to_vec(),
            targets: own,
            places: self.places.clone(),
            any: self.any,
            torn: self.torn,
            failed: None,
        };
        let put = put(&mut rows);
        let (mut own, mut others) = (rows.targets.into_iter(), others.into_iter());
        self.targets = inside.iter().filter_map(|inside| if *inside { own.next() } else { others.next() }).collect();
        self.failed = rows.failed;
        put.map(|()| rows.places.len() - self.places.len())
    }

    /// Says that the cells of a given number of rows are all there, which stand one after the other from `first` on.
    ///
    /// # Errors
    ///
    /// More rows than a table may have.
    pub(super) fn end(&mut self, first: Place, rows: usize) -> Result<(), ReadError> {
        self.room(rows)?;
        self.places.extend(first, rows);
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
                Target::Values(_) | Target::Texts(_) => {}
            }
        }
        Frame::new(columns, named, take(&mut self.places)).map_err(ReadError::data(&self.file))
    }

    /// Takes the values of the rows that came since they were taken before, column by column; none where no row came.
    pub(super) fn take_values(&mut self) -> Option<Vec<Ids>> {
        let rows = take(&mut self.places).len();
        let columns = self.targets.iter_mut().filter_map(|target| match target {
            Target::Values(values) => Some(take(values)),
            Target::Column(_) | Target::Ids { .. } | Target::Texts(_) => None,
        });
        (rows > 0).then(|| columns.collect())
    }

    #[cold]
    fn refused(&self, source: DataError) -> ReadError {
        ReadError::data(&self.file)(source)
    }
}

/// One column on its way, which knows of no other: several can be filled at a time.
pub(super) struct Lane<'r> {
    target: &'r mut Target,
    torn: bool,
    file: &'r str,
}

impl Lane<'_> {
    /// Puts cells, that of row `first` being the first; where they go is looked up once.
    ///
    /// # Errors
    ///
    /// As [`Rows::put`].
    #[inline(always)]
    pub(super) fn fill<'c>(&mut self, first: u64, cells: impl Iterator<Item = Cell<'c>>) -> Result<(), ReadError> {
        let mut cells = (first..).map(Place::Row).zip(cells);
        let filled = match &mut *self.target {
            Target::Column(column) => cells.try_for_each(|(place, cell)| cell.into_column(column, place)),
            other @ (Target::Ids { .. } | Target::Values(_) | Target::Texts(_)) => {
                cells.try_for_each(|(place, cell)| other.put(cell, place, self.torn))
            }
        };
        filled.map_err(ReadError::data(self.file))
    }

    /// The same of numbers, none of which is missing.
    ///
    /// # Errors
    ///
    /// As [`Rows::put`].
    pub(super) fn numbers(&mut self, first: u64, numbers: &[f64]) -> Result<(), ReadError> {
        match self.target {
            Target::Column(column) => column.numbers(numbers, first).map_err(ReadError::data(self.file)),
            Target::Values(values) => {
                numbers.iter().for_each(|number| values.push(&number_value(*number)));
                Ok(())
            }
            Target::Ids { .. } | Target::Texts(_) => {
                self.fill(first, numbers.iter().map(|number| Cell::Number(*number)))
            }
        }
    }
}

/// Positions of the requested columns in the header, and of the id.
fn select(header: &[String], request: &Request) -> Result<(Vec<usize>, Option<usize>), DataError> {
    let names = || header.iter().map(String::as_str);
    let places: HashMap<&str, usize> = names().enumerate().map(|(at, name)| (name, at)).collect();
    let position = |name: &str| places.get(name).copied().ok_or_else(|| unknown(name, names()));
    let id = request.id.as_deref().map(position).transpose()?;
    let columns = match &request.columns {
        None => (0..header.len()).filter(|&position| Some(position) != id).collect(),
        Some(wanted) => {
            let mut seen = HashSet::new();
            let mut columns = Vec::with_capacity(wanted.len());
            for name in wanted {
                let position = position(name)?;
                if Some(position) == id {
                    return Err(DataError::IdAmongColumns { column: name.clone() });
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
        assert_eq!(
            message(request(&["age", "id"], Some("id"))),
            "column `id` is the id and cannot be a predictor or the outcome too"
        );
        assert_eq!(message(request(&[], Some("ID"))), "there is no column `ID`; the nearest name is `id`");
    }
}
