//! Parquet, through the column reader of the `parquet` crate.
//!
//! Truth values, whole and floating-point numbers, decimals and text are understood, with nulls as missing values. Text is
//! always text: `1` in a text column is a level and not a number. Dates and timestamps can be ids, written as ISO 8601 has them.

use std::cell::Cell;
use std::fmt;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use fedreg_common::data::column::is_missing;
use fedreg_common::data::{ColumnBuilder, DataError, Frame, Ids, MAX_ROWS, Place, Places, check_names};
use parquet::basic::Type;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::DataType;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};

use super::content::{number_cell, text_cell};
use super::typed::{self, Meaning};
use super::{ReadError, Request, named, select};

/// Rows decoded at a time.
const CHUNK: usize = 8192;

/// Reads a whole table, one column after the other within each row group; `file` stands for the source in messages.
///
/// # Errors
///
/// A file that is damaged, a column that is not there or of a type that cannot be used, and everything that makes data
/// unusable.
pub fn read(source: File, file: &str, request: &Request) -> Result<Frame, ReadError> {
    guarded(file, || {
        let mut table = Table::new(source, file, request)?;
        while table.next_group()? {
            let rows = table.left;
            for index in 0..table.picks.len() {
                let mut reader = table.column_reader(index)?;
                table.pull(index, &mut reader, rows)?;
            }
            table.advance(rows);
        }
        let Table { columns, ids, places, .. } = table;
        let columns = columns.into_iter().map(ColumnBuilder::finish).collect::<Result<_, _>>();
        let frame = columns.and_then(|columns| Frame::new(columns, ids, places));
        frame.map_err(|source| ReadError::Data { file: file.to_owned(), source })
    })
}

/// The names of all columns.
///
/// # Errors
///
/// A file that is damaged, and empty or repeated names.
pub fn header(source: File, file: &str) -> Result<Vec<String>, ReadError> {
    guarded(file, || {
        let reader = SerializedFileReader::new(source).map_err(|error| damaged(file, &error))?;
        names(&reader, file)
    })
}

/// Gives the cells of every row by their values, of all columns that can be read, and then the names of these.
///
/// # Errors
///
/// A file that is damaged.
pub(super) fn cells(source: File, file: &str, give: &mut dyn FnMut(&[Vec<u8>])) -> Result<Vec<String>, ReadError> {
    guarded(file, || {
        let reader = SerializedFileReader::new(source).map_err(|error| damaged(file, &error))?;
        let mut names = names(&reader, file)?;
        let mut picks = Vec::new();
        names.retain(|name| {
            let as_term = pick(&reader, file, name, Some(0));
            as_term.or_else(|_| pick(&reader, file, name, None)).map(|pick| picks.push(pick)).is_ok()
        });
        for index in 0..reader.num_row_groups() {
            let group = reader.get_row_group(index).map_err(|error| damaged(file, &error))?;
            let open = picks.iter().map(|pick| group.get_column_reader(pick.leaf)).collect::<Result<Vec<_>, _>>();
            let mut open = open.map_err(|error| damaged(file, &error))?;
            let mut left = usize::try_from(group.metadata().num_rows())
                .map_err(|_| unreadable(file, "a negative number of rows"))?;
            while left > 0 {
                let rows = left.min(CHUNK);
                let mut block = vec![Vec::with_capacity(picks.len()); rows];
                for (pick, reader) in picks.iter().zip(&mut open) {
                    let source = Chunks { file, nullable: pick.nullable, rows, first: 0 };
                    pull_cells(&source, reader, pick.meaning, &mut block)?;
                }
                block.iter().for_each(|row: &Vec<Vec<u8>>| give(row));
                left -= rows;
            }
        }
        Ok(names)
    })
}

/// Adds a column's cells to those of the rows of a block.
fn pull_cells(
    source: &Chunks<'_>,
    reader: &mut ColumnReader,
    meaning: Meaning,
    block: &mut [Vec<Vec<u8>>],
) -> Result<(), ReadError> {
    let mut rows = block.iter_mut();
    let mut put = |cell: Option<Vec<u8>>| {
        if let Some(row) = rows.next() {
            row.push(cell.unwrap_or_default());
        }
        Ok(())
    };
    let whole = |value: i128| match meaning.time() {
        Some(_) => text_cell(meaning.id(value).as_bytes()),
        None => number_cell(meaning.number(value)),
    };
    match reader {
        ColumnReader::BoolColumnReader(reader) => {
            source.each(reader, |value, _| put(value.map(|value| text_cell(value.to_string().as_bytes()))))
        }
        ColumnReader::Int32ColumnReader(reader) => {
            source.each(reader, |value, _| put(value.map(|&value| whole(meaning.of_32(value)))))
        }
        ColumnReader::Int64ColumnReader(reader) => {
            source.each(reader, |value, _| put(value.map(|&value| whole(meaning.of_64(value)))))
        }
        ColumnReader::FloatColumnReader(reader) => {
            source.each(reader, |value, _| put(value.map(|&value| number_cell(f64::from(value)))))
        }
        ColumnReader::DoubleColumnReader(reader) => {
            source.each(reader, |value, _| put(value.map(|&value| number_cell(value))))
        }
        ColumnReader::ByteArrayColumnReader(reader) => source.each(reader, |value, _| {
            put(value.map(|value| match meaning {
                Meaning::Decimal { .. } => number_cell(from_bytes(meaning, value.data())),
                _ => text_cell(value.data()),
            }))
        }),
        ColumnReader::FixedLenByteArrayColumnReader(reader) => {
            source.each(reader, |value, _| put(value.map(|value| number_cell(from_bytes(meaning, value.data())))))
        }
        ColumnReader::Int96ColumnReader(reader) => {
            source.each(reader, |value, _| put(value.map(|value| text_cell(typed::old_moment(value).as_bytes()))))
        }
    }
}

/// A table that is being read in batches.
pub struct Table {
    file: String,
    reader: SerializedFileReader<File>,
    picks: Vec<Pick>,
    columns: Vec<ColumnBuilder>,
    ids: Option<Ids>,
    id_name: String,
    places: Places,
    /// The row group that comes next.
    group: usize,
    /// Rows of the present row group that have not been read.
    left: usize,
    /// Column readers of the present row group, in the order of `picks`.
    open: Vec<ColumnReader>,
    /// Rows read so far.
    row: u64,
    any: bool,
    /// As in the [`Request`].
    torn: bool,
    /// Set while the parquet crate works, so that a table in which it panicked is not used again.
    broken: bool,
}

/// One column to read.
struct Pick {
    leaf: usize,
    /// Index into `Table::columns`; `None` is the id.
    column: Option<usize>,
    meaning: Meaning,
    nullable: bool,
}

impl Table {
    /// Opens a table and finds the requested columns in it.
    ///
    /// # Errors
    ///
    /// A file that is damaged, a column that is not there or of a type that cannot be used.
    pub fn new(source: File, file: &str, request: &Request) -> Result<Table, ReadError> {
        guarded(file, || Table::open(source, file, request))
    }

    fn open(source: File, file: &str, request: &Request) -> Result<Table, ReadError> {
        let reader = SerializedFileReader::new(source).map_err(|error| damaged(file, &error))?;
        let names = names(&reader, file)?;
        let data = |source| ReadError::Data { file: file.to_owned(), source };
        let (positions, id) = select(&names, request).map_err(data)?;
        let mut picks = Vec::new();
        let mut columns = Vec::new();
        for &position in &positions {
            let name = &names[position];
            picks.push(pick(&reader, file, name, Some(columns.len()))?);
            columns.push(request.builder(name).map_err(data)?);
        }
        let id_name = id.map(|position| names[position].clone()).unwrap_or_default();
        if id.is_some() {
            picks.push(pick(&reader, file, &id_name, None)?);
        }
        Ok(Table {
            file: file.to_owned(),
            reader,
            picks,
            columns,
            ids: id.map(|_| Ids::default()),
            id_name,
            places: Places::default(),
            group: 0,
            left: 0,
            open: Vec::new(),
            row: 0,
            any: false,
            torn: request.torn,
            broken: false,
        })
    }

    /// The next rows, at most `rows` of them and fewer only at the end; `None` after the last.
    ///
    /// # Errors
    ///
    /// A file that is damaged, everything that makes data unusable, and a table without a row.
    pub fn next(&mut self, rows: usize) -> Result<Option<Frame>, ReadError> {
        let file = self.file.clone();
        if self.broken {
            return Err(unreadable(&file, "reading stopped at an error before"));
        }
        self.broken = true;
        let batch = guarded(&file, || self.batch(rows.max(1)))?;
        self.broken = false;
        Ok(batch)
    }

    fn batch(&mut self, rows: usize) -> Result<Option<Frame>, ReadError> {
        while self.places.len() < rows {
            if self.left == 0 {
                if !self.next_group()? {
                    break;
                }
                self.open = (0..self.picks.len()).map(|index| self.column_reader(index)).collect::<Result<_, _>>()?;
            }
            let count = self.left.min(rows - self.places.len());
            let mut open = std::mem::take(&mut self.open);
            for (index, reader) in open.iter_mut().enumerate() {
                self.pull(index, reader, count)?;
            }
            self.open = open;
            self.advance(count);
        }
        // In a stream it is no error that there is no record.
        if self.places.is_empty() && (self.any || self.torn) {
            return Ok(None);
        }
        self.any = true;
        let columns = self.columns.iter_mut().map(ColumnBuilder::batch).collect::<Result<_, _>>();
        let ids = self.ids.as_mut().map(std::mem::take);
        let places = std::mem::take(&mut self.places);
        let frame = columns.and_then(|columns| Frame::new(columns, ids, places));
        frame.map(Some).map_err(|source| self.data(source))
    }

    /// Goes to the next row group that has rows; `false` after the last.
    fn next_group(&mut self) -> Result<bool, ReadError> {
        let groups = self.reader.metadata().row_groups();
        let Some(group) = groups[self.group.min(groups.len())..].iter().position(|group| group.num_rows() != 0) else {
            return Ok(false);
        };
        let index = self.group + group;
        let rows = usize::try_from(groups[index].num_rows())
            .map_err(|_| unreadable(&self.file, "a negative number of rows"))?;
        if rows > MAX_ROWS - self.places.len().min(MAX_ROWS) {
            return Err(self.data(DataError::TooManyRows { most: MAX_ROWS }));
        }
        self.left = rows;
        self.group = index + 1;
        Ok(true)
    }

    fn column_reader(&self, index: usize) -> Result<ColumnReader, ReadError> {
        let group = self.reader.get_row_group(self.group - 1).map_err(|error| damaged(&self.file, &error))?;
        let reader = group.get_column_reader(self.picks[index].leaf);
        reader.map_err(|error| damaged(&self.file, &error))
    }

    fn advance(&mut self, rows: usize) {
        for _ in 0..rows {
            self.row += 1;
            self.places.push(Place::Row(self.row));
        }
        self.left -= rows;
    }

    /// Moves the next `rows` values of one column into its builder.
    fn pull(&mut self, index: usize, reader: &mut ColumnReader, rows: usize) -> Result<(), ReadError> {
        let Pick { column, meaning, nullable, .. } = self.picks[index];
        let source = Chunks { file: &self.file, nullable, rows, first: self.row };
        let Some(column) = column else {
            let (name, ids, torn) = (&self.id_name, &mut self.ids, self.torn);
            let mut push = |id: Option<&[u8]>, place| match (id.filter(|id| !is_missing(id)), &mut *ids) {
                (id, Some(ids)) if torn => {
                    ids.push(named(id.unwrap_or_default()));
                    Ok(())
                }
                (Some(id), Some(ids)) => {
                    ids.push(id);
                    Ok(())
                }
                _ => Err(DataError::MissingId { column: name.clone(), place }),
            };
            let written = |number: Option<i128>| number.map(|number| meaning.id(number));
            let mut whole = |number, place| push(written(number).as_deref().map(str::as_bytes), place);
            return match reader {
                ColumnReader::Int32ColumnReader(reader) => {
                    source.each(reader, |value, place| whole(value.map(|&value| meaning.of_32(value)), place))
                }
                ColumnReader::Int64ColumnReader(reader) => {
                    source.each(reader, |value, place| whole(value.map(|&value| meaning.of_64(value)), place))
                }
                ColumnReader::FixedLenByteArrayColumnReader(reader) => {
                    source.each(reader, |value, place| whole(value.and_then(|value| typed::whole(value.data())), place))
                }
                ColumnReader::ByteArrayColumnReader(reader) => source.each(reader, |value, place| match meaning {
                    Meaning::Decimal { .. } => {
                        let text = written(value.and_then(|value| typed::whole(value.data())));
                        push(text.as_deref().map(str::as_bytes), place)
                    }
                    _ => push(value.map(|value| value.data()), place),
                }),
                ColumnReader::Int96ColumnReader(reader) => source.each(reader, |value, place| {
                    push(value.map(typed::old_moment).as_deref().map(str::as_bytes), place)
                }),
                _ => Err(unreadable(&self.file, "the id column changes its type")),
            };
        };
        let column = &mut self.columns[column];
        match reader {
            ColumnReader::BoolColumnReader(reader) => source.each(reader, |value, place| match value {
                Some(&value) => column.boolean(value, place),
                None => missing(column),
            }),
            ColumnReader::Int32ColumnReader(reader) => source.each(reader, |value, place| match value {
                Some(&value) => column.number(meaning.number(meaning.of_32(value)), place),
                None => missing(column),
            }),
            ColumnReader::Int64ColumnReader(reader) => source.each(reader, |value, place| match value {
                Some(&value) => column.number(meaning.number(meaning.of_64(value)), place),
                None => missing(column),
            }),
            ColumnReader::FloatColumnReader(reader) => source.each(reader, |value, place| match value {
                Some(&value) => column.number(f64::from(value), place),
                None => missing(column),
            }),
            ColumnReader::DoubleColumnReader(reader) => source.each(reader, |value, place| match value {
                Some(&value) => column.number(value, place),
                None => missing(column),
            }),
            ColumnReader::ByteArrayColumnReader(reader) => source.each(reader, |value, place| match value {
                Some(value) => match meaning {
                    Meaning::Decimal { .. } => column.number(from_bytes(meaning, value.data()), place),
                    _ => column.level(value.data(), place),
                },
                None => missing(column),
            }),
            ColumnReader::FixedLenByteArrayColumnReader(reader) => source.each(reader, |value, place| match value {
                Some(value) => column.number(from_bytes(meaning, value.data()), place),
                None => missing(column),
            }),
            ColumnReader::Int96ColumnReader(_) => Err(unreadable(&self.file, "a column changes its type")),
        }
    }

    fn data(&self, source: DataError) -> ReadError {
        ReadError::Data { file: self.file.clone(), source }
    }
}

/// Sizes only: the cells are the data that must not leave.
impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("file", &self.file).field("columns", &self.columns.len()).finish_non_exhaustive()
    }
}

/// A stretch of one column chunk.
struct Chunks<'a> {
    file: &'a str,
    nullable: bool,
    rows: usize,
    /// Rows before the stretch.
    first: u64,
}

impl Chunks<'_> {
    fn each<T: DataType>(
        &self,
        reader: &mut ColumnReaderImpl<T>,
        mut take: impl FnMut(Option<&T::T>, Place) -> Result<(), DataError>,
    ) -> Result<(), ReadError> {
        let (mut values, mut levels) = (Vec::new(), Vec::new());
        let mut done = 0;
        while done < self.rows {
            values.clear();
            levels.clear();
            let (records, ..) = reader
                .read_records((self.rows - done).min(CHUNK), Some(&mut levels), None, &mut values)
                .map_err(|error| damaged(self.file, &error))?;
            if records == 0 {
                return Err(unreadable(self.file, "a column has fewer values than rows"));
            }
            let mut next = values.iter();
            for record in 0..records {
                let place = Place::Row(self.first + (done + record) as u64 + 1);
                let value = match self.nullable && levels.get(record) != Some(&1) {
                    true => None,
                    false => Some(next.next().ok_or_else(|| unreadable(self.file, "a value is missing in a page"))?),
                };
                take(value, place).map_err(|source| ReadError::Data { file: self.file.to_owned(), source })?;
            }
            done += records;
        }
        Ok(())
    }
}

fn missing(column: &mut ColumnBuilder) -> Result<(), DataError> {
    column.missing();
    Ok(())
}

/// Not-a-number where a decimal has more bytes than its type allows.
fn from_bytes(meaning: Meaning, bytes: &[u8]) -> f64 {
    typed::whole(bytes).map_or(f64::NAN, |value| meaning.number(value))
}

fn names(reader: &SerializedFileReader<File>, file: &str) -> Result<Vec<String>, ReadError> {
    let schema = reader.metadata().file_metadata().schema_descr();
    let names: Vec<String> = schema.root_schema().get_fields().iter().map(|field| field.name().to_owned()).collect();
    check_names(names.iter().map(String::as_str))
        .map_err(|source| ReadError::Data { file: file.to_owned(), source })?;
    Ok(names)
}

/// Finds a column among the leaves of the schema and checks its type.
fn pick(reader: &SerializedFileReader<File>, file: &str, name: &str, column: Option<usize>) -> Result<Pick, ReadError> {
    const USABLE: &str = "truth values, whole and floating-point numbers, decimals and text can be read, so convert it";
    let refuse = |found: &str, expected| {
        Err(ReadError::Type { file: file.to_owned(), column: name.to_owned(), found: found.to_owned(), expected })
    };
    let schema = reader.metadata().file_metadata().schema_descr();
    let leaf = schema.columns().iter().position(|leaf| leaf.path().parts().first().is_some_and(|part| part == name));
    let Some(leaf) = leaf else {
        return refuse("an empty group", USABLE);
    };
    let descriptor = schema.column(leaf);
    if descriptor.path().parts().len() > 1 || descriptor.max_rep_level() > 0 || descriptor.max_def_level() > 1 {
        return refuse("a list or a structure", USABLE);
    }
    let meaning = match Meaning::of(&descriptor) {
        Ok(meaning) => meaning,
        Err(found) => return refuse(found, USABLE),
    };
    if column.is_none() && matches!(descriptor.physical_type(), Type::BOOLEAN | Type::FLOAT | Type::DOUBLE) {
        let found = if descriptor.physical_type() == Type::BOOLEAN { "truth value" } else { "floating-point number" };
        return refuse(found, "ids must be text, whole numbers, dates or timestamps");
    }
    if let (Some(found), Some(_)) = (meaning.time(), column) {
        return refuse(found, typed::DERIVE);
    }
    Ok(Pick { leaf, column, meaning, nullable: descriptor.max_def_level() == 1 })
}

fn damaged(file: &str, error: &ParquetError) -> ReadError {
    unreadable(file, &error.to_string())
}

fn unreadable(file: &str, reason: &str) -> ReadError {
    let reason: String = reason.chars().take(200).flat_map(char::escape_debug).collect();
    ReadError::Format { file: file.to_owned(), problem: format!("the Parquet file is damaged or cut short ({reason})") }
}

thread_local! {
    /// Whether a decoder is at work in this thread.
    static DECODING: Cell<bool> = const { Cell::new(false) };
}

/// Decoders of damaged files may panic inside the parquet crate; here that is an error like others. What such a panic says may quote
/// the file, so it is not printed.
fn guarded<T>(file: &str, work: impl FnOnce() -> Result<T, ReadError>) -> Result<T, ReadError> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let others = take_hook();
        set_hook(Box::new(move |panic| {
            if !DECODING.get() {
                others(panic);
            }
        }));
    });
    let outside = DECODING.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    DECODING.set(outside);
    done.unwrap_or_else(|_| Err(unreadable(file, "its decoder gave up")))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::path::PathBuf;
    use std::sync::Arc;

    use fedreg_common::data::Values;
    use parquet::basic::Compression;
    use parquet::data_type::{
        BoolType, ByteArray, ByteArrayType, DoubleType, FixedLenByteArrayType, FloatType, Int32Type, Int64Type, Int96,
        Int96Type,
    };
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;
    use tempfile::TempDir;

    use super::super::tests::chain;
    use super::super::{Batches, header as file_header, read as read_file};
    use super::*;

    /// The cells of one column of one row group; `None` is null.
    enum Cells {
        Truth(Vec<Option<bool>>),
        Int32(Vec<Option<i32>>),
        Int64(Vec<Option<i64>>),
        Int96(Vec<Option<Int96>>),
        Float(Vec<Option<f32>>),
        Double(Vec<Option<f64>>),
        Text(Vec<Option<&'static str>>),
        Fixed(Vec<Option<&'static str>>),
    }

    fn write(schema: &str, groups: Vec<Vec<Cells>>) -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.parquet");
        let schema = Arc::new(parse_message_type(schema).unwrap());
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_data_page_row_count_limit(3)
            .set_write_batch_size(2)
            .build();
        let mut writer = SerializedFileWriter::new(File::create(&path).unwrap(), schema, Arc::new(properties)).unwrap();
        for group in groups {
            let mut rows = writer.next_row_group().unwrap();
            for cells in group {
                let mut column = rows.next_column().unwrap().unwrap();
                macro_rules! put {
                    ($kind:ty, $cells:expr, $convert:expr) => {{
                        let levels: Vec<i16> = $cells.iter().map(|cell| i16::from(cell.is_some())).collect();
                        let values: Vec<_> = $cells.into_iter().flatten().map($convert).collect();
                        column.typed::<$kind>().write_batch(&values, Some(&levels), None).unwrap();
                    }};
                }
                match cells {
                    Cells::Truth(cells) => put!(BoolType, cells, |cell| cell),
                    Cells::Int32(cells) => put!(Int32Type, cells, |cell| cell),
                    Cells::Int64(cells) => put!(Int64Type, cells, |cell| cell),
                    Cells::Int96(cells) => put!(Int96Type, cells, |cell| cell),
                    Cells::Float(cells) => put!(FloatType, cells, |cell| cell),
                    Cells::Double(cells) => put!(DoubleType, cells, |cell| cell),
                    Cells::Text(cells) => put!(ByteArrayType, cells, |cell: &str| ByteArray::from(cell)),
                    Cells::Fixed(cells) => {
                        put!(FixedLenByteArrayType, cells, |cell: &str| ByteArray::from(cell).into())
                    }
                }
                column.close().unwrap();
            }
            rows.close().unwrap();
        }
        writer.close().unwrap();
        (folder, path)
    }

    fn usual() -> (TempDir, PathBuf) {
        let schema = "message m {
            required int64 id; optional double x; required float single; optional int32 small;
            required int64 whole (INTEGER(64,false)); optional boolean flag; optional binary city (STRING);
        }";
        let group = |start: i64, rows: i64| {
            let all = start..start + rows;
            vec![
                Cells::Int64(all.clone().map(Some).collect()),
                Cells::Double(all.clone().map(|row| (row % 4 != 1).then_some(row as f64 / 8.0)).collect()),
                Cells::Float(all.clone().map(|row| Some(row as f32 / 4.0)).collect()),
                Cells::Int32(all.clone().map(|row| (row % 5 != 2).then_some(-row as i32)).collect()),
                Cells::Int64(all.clone().map(|row| Some(if row == 0 { -1 } else { row })).collect()),
                Cells::Truth(all.clone().map(|row| (row % 3 != 0).then_some(row % 2 == 0)).collect()),
                Cells::Text(
                    all.map(|row| [Some("b"), Some("1"), None, Some("NA"), Some("a")][row as usize % 5]).collect(),
                ),
            ]
        };
        write(schema, vec![group(0, 7), group(7, 0), group(7, 5)])
    }

    fn with_id() -> Request {
        Request { id: Some("id".into()), ..Request::default() }
    }

    fn numbers(frame: &Frame, name: &str) -> Vec<Option<f64>> {
        match &frame.column(name).unwrap().values {
            Values::Numeric(values) => values.iter().map(|&value| (!value.is_nan()).then_some(value)).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_usable_type_is_read_over_pages_and_row_groups_with_nulls_as_missing() {
        let (_folder, path) = usual();
        assert_eq!(file_header(&path, None).unwrap(), ["id", "x", "single", "small", "whole", "flag", "city"]);
        let frame = read_file(&path, &with_id()).unwrap();
        let rows = 0..12i64;
        let ids: Vec<String> = rows.clone().map(|row| row.to_string()).collect();
        assert!(frame.ids().unwrap().iter().eq(ids.iter().map(|id| id.as_bytes())));
        let expected = |f: &dyn Fn(i64) -> Option<f64>| rows.clone().map(f).collect::<Vec<_>>();
        assert_eq!(numbers(&frame, "x"), expected(&|row| (row % 4 != 1).then_some(row as f64 / 8.0)));
        assert_eq!(numbers(&frame, "single"), expected(&|row| Some(row as f64 / 4.0)));
        assert_eq!(numbers(&frame, "small"), expected(&|row| (row % 5 != 2).then_some(-row as f64)));
        assert_eq!(
            numbers(&frame, "whole"),
            expected(&|row| Some(if row == 0 { u64::MAX as f64 } else { row as f64 }))
        );
        let flags = rows.clone().map(|row| (row % 3 != 0).then_some(row % 2 == 0)).collect();
        assert_eq!(frame.column("flag").unwrap().values, Values::Boolean(flags));
        let Values::Categorical { codes, levels, .. } = &frame.column("city").unwrap().values else { panic!() };
        assert_eq!(levels, &["1", "a", "b"]);
        let missing = u32::MAX;
        assert_eq!(codes, &[2, 0, missing, missing, 1, 2, 0, missing, missing, 1, 2, 0]);
        assert_eq!(frame.place(11), Place::Row(12));
    }

    #[test]
    fn batches_cross_row_groups_and_give_the_same_values_as_the_whole() {
        let (_folder, path) = usual();
        let levels = [("city".to_owned(), ["b", "a", "1"].map(String::from).to_vec())].into();
        let request = Request { levels, ..with_id() };
        let whole = read_file(&path, &request).unwrap();
        for size in [1, 2, 5, 6, 12, 100] {
            let mut batches = Batches::open(&path, &request).unwrap();
            let (mut x, mut codes, mut ids, mut sizes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
            while let Some(batch) = batches.next(size).unwrap() {
                assert_eq!(batch.place(0), Place::Row(x.len() as u64 + 1));
                x.extend(numbers(&batch, "x"));
                ids.extend(batch.ids().unwrap().iter().map(<[u8]>::to_vec));
                let Values::Categorical { codes: batch_codes, .. } = &batch.column("city").unwrap().values else {
                    panic!()
                };
                codes.extend_from_slice(batch_codes);
                sizes.push(batch.rows());
            }
            assert!(sizes[..sizes.len() - 1].iter().all(|&rows| rows == size), "{sizes:?}");
            assert_eq!(x, numbers(&whole, "x"));
            assert!(whole.ids().unwrap().iter().eq(ids.iter().map(Vec::as_slice)));
            assert!(
                matches!(&whole.column("city").unwrap().values, Values::Categorical { codes: whole, .. } if *whole == codes)
            );
            assert!(batches.next(size).unwrap().is_none());
        }
        let mut undeclared = Batches::open(&path, &with_id()).unwrap();
        assert!(chain(&undeclared.next(3).unwrap_err()).contains("declare the levels"));
    }

    #[test]
    fn columns_of_other_types_are_refused_by_name_and_type_unless_they_are_not_read() {
        let schema = "message m {
            required double x; optional int96 old; optional int64 at (TIMESTAMP(MICROS,true)); optional int32 day (DATE);
            optional int64 money (DECIMAL(18,2)); optional fixed_len_byte_array(2) raw; optional int64 clock (TIME(MICROS,true));
            optional group tags { optional binary element (STRING); }
        }";
        let group = vec![
            Cells::Double(vec![Some(1.0)]),
            Cells::Int96(vec![Some(Int96::from(vec![1, 2, 3]))]),
            Cells::Int64(vec![Some(1)]),
            Cells::Int32(vec![Some(1)]),
            Cells::Int64(vec![Some(1)]),
            Cells::Fixed(vec![Some("ab")]),
            Cells::Int64(vec![Some(1)]),
            Cells::Text(vec![None]),
        ];
        let (folder, path) = write(schema, vec![group]);
        let request = |name: &str| Request { columns: Some(vec![name.to_owned()]), ..Request::default() };
        assert_eq!(numbers(&read_file(&path, &request("x")).unwrap(), "x"), [Some(1.0)]);
        for (name, found) in [("clock", "time"), ("raw", "bytes of fixed length"), ("tags", "a list or a structure")] {
            let message = chain(&read_file(&path, &request(name)).unwrap_err());
            let message = message.replace(&format!("{}/", folder.path().display()), "");
            assert_eq!(
                message,
                format!(
                    "a.parquet: column `{name}` is of type {found}; truth values, whole and floating-point numbers, \
                     decimals and text can be read, so convert it"
                )
            );
        }
        for (name, found) in [("old", "timestamp"), ("at", "timestamp"), ("day", "date")] {
            let message = chain(&read_file(&path, &request(name)).unwrap_err());
            let expected = "; it can be an id; as a term, derive a number from it beforehand, such as an age in years or the \
                            days since a fixed day";
            assert!(message.ends_with(&format!("column `{name}` is of type {found}{expected}")), "{message}");
        }
        let message = chain(&read_file(&path, &Request { id: Some("x".into()), ..request("x") }).unwrap_err());
        assert!(message.contains("column `x` is the id"), "{message}");
        let by_x = Request { id: Some("x".into()), columns: Some(vec![]), ..Request::default() };
        let message = chain(&read_file(&path, &by_x).unwrap_err());
        assert!(
            message.ends_with("is of type floating-point number; ids must be text, whole numbers, dates or timestamps"),
            "{message}"
        );
    }

    #[test]
    fn a_parquet_file_has_the_digest_of_the_csv_file_with_the_same_rows() {
        let schema = "message m {
            required int64 number; optional double x; required binary text (STRING); required boolean flag; required int32 day (DATE);
        }";
        let rows = 0..20_i64;
        let group = vec![
            Cells::Int64(rows.clone().map(Some).collect()),
            Cells::Double(rows.clone().map(|at| (at != 3).then_some(at as f64 / 4.0)).collect()),
            Cells::Text(rows.clone().map(|at| Some(["007", "north"][at as usize % 2])).collect()),
            Cells::Truth(rows.clone().map(|at| Some(at % 3 == 0)).collect()),
            Cells::Int32(rows.clone().map(|at| Some(at as i32 % 5)).collect()),
        ];
        let (folder, path) = write(schema, vec![group]);
        let row = |at: i64| {
            let x = if at == 3 { "NA".to_owned() } else { format!("{:.2}", at as f64 / 4.0) };
            let text = ["7", "North"][at as usize % 2];
            format!("{},1970-01-0{},{x},{text},0{at}\n", ["FALSE", "true"][usize::from(at % 3 == 0)], at % 5 + 1)
        };
        let csv = folder.path().join("b.csv");
        std::fs::write(&csv, format!("f,d,x,t,n\n{}", rows.rev().map(row).collect::<String>())).unwrap();
        let digests = |path: &PathBuf| crate::read::content::digests(path, None, None).unwrap();
        assert_eq!(digests(&path)[0], digests(&csv)[0]);
    }

    #[test]
    fn decimals_are_numbers_however_they_are_stored_and_dates_and_timestamps_are_ids() {
        let schema = "message m {
            optional int32 small (DECIMAL(9,2)); optional int64 large (DECIMAL(18,4));
            optional fixed_len_byte_array(2) fixed (DECIMAL(4,1)); optional binary bytes (DECIMAL(30,3));
            optional int32 day (DATE); optional int64 milli (TIMESTAMP(MILLIS,true)); optional int64 micro (TIMESTAMP(MICROS,false));
            optional int64 nano (TIMESTAMP(NANOS,false)); optional int64 legacy (TIMESTAMP_MICROS); optional int96 old;
        }";
        let moment = 1_706_689_800_250_i64;
        let old = Int96::from(vec![30_600_250_000_000_u64 as u32, (30_600_250_000_000_u64 >> 32) as u32, 2_460_341]);
        let group = vec![
            Cells::Int32(vec![Some(-1250), None]),
            Cells::Int64(vec![Some(12_345), Some(-1)]),
            Cells::Fixed(vec![Some("\u{1}\u{2}"), None]),
            Cells::Text(vec![Some("\u{1}\u{0}\u{0}"), None]),
            Cells::Int32(vec![Some(19_753), Some(-1)]),
            Cells::Int64(vec![Some(moment), Some(0)]),
            Cells::Int64(vec![Some(1000 * moment), Some(0)]),
            Cells::Int64(vec![Some(1_000_000 * moment), Some(1)]),
            Cells::Int64(vec![Some(1000 * moment), Some(0)]),
            Cells::Int96(vec![Some(old), Some(old)]),
        ];
        let (_folder, path) = write(schema, vec![group]);
        let columns = ["small", "large", "fixed", "bytes"];
        let request =
            Request { columns: Some(columns.map(String::from).to_vec()), id: Some("day".into()), ..Request::default() };
        let frame = read_file(&path, &request).unwrap();
        let expected = [[Some(-12.5), None], [Some(1.2345), Some(-0.0001)], [Some(25.8), None], [Some(65.536), None]];
        for (name, expected) in columns.iter().zip(expected) {
            assert_eq!(numbers(&frame, name), expected, "{name}");
        }
        for (id, expected) in [
            ("day", ["2024-01-31", "1969-12-31"]),
            ("milli", ["2024-01-31T08:30:00.25Z", "1970-01-01T00:00:00Z"]),
            ("micro", ["2024-01-31T08:30:00.25", "1970-01-01T00:00:00"]),
            ("nano", ["2024-01-31T08:30:00.25", "1970-01-01T00:00:00.000000001"]),
            ("legacy", ["2024-01-31T08:30:00.25Z", "1970-01-01T00:00:00Z"]),
            ("old", ["2024-01-31T08:30:00.25"; 2]),
            ("large", ["1.2345", "-0.0001"]),
        ] {
            let request = Request { columns: Some(vec![]), id: Some(id.into()), ..Request::default() };
            let frame = read_file(&path, &request).unwrap();
            assert!(frame.ids().unwrap().iter().eq(expected.map(str::as_bytes)), "{id}");
            let mut batches = Batches::open(&path, &request).unwrap();
            let frame = batches.next(5).unwrap().unwrap();
            assert!(frame.ids().unwrap().iter().eq(expected.map(str::as_bytes)), "{id}");
        }
    }

    #[test]
    fn numbers_that_are_not_finite_and_rows_without_id_are_refused_with_their_row() {
        let cells = |x, id| vec![Cells::Double(vec![Some(1.0), Some(x)]), Cells::Text(vec![Some("a"), id])];
        let schema = "message m { optional double x; optional binary id (UTF8); }";
        for (value, word) in [(f64::NAN, "NaN"), (f64::INFINITY, "inf"), (f64::NEG_INFINITY, "-inf")] {
            let (_folder, path) = write(schema, vec![cells(value, Some("b"))]);
            let message = chain(&read_file(&path, &with_id()).unwrap_err());
            assert!(message.contains(&format!("column `x`, row 2: `{word}` is not a value")), "{message}");
        }
        for id in [None, Some(""), Some("NA")] {
            let (_folder, path) = write(schema, vec![cells(2.0, id)]);
            let message = chain(&read_file(&path, &with_id()).unwrap_err());
            assert!(message.ends_with("column `id`, row 2: the row has no id"), "{message}");
        }
        let (_folder, path) = write(schema, vec![]);
        assert!(chain(&read_file(&path, &with_id()).unwrap_err()).contains("there are no rows"));
        assert!(chain(&Batches::open(&path, &with_id()).unwrap().next(1).unwrap_err()).contains("there are no rows"));
    }

    #[test]
    fn damaged_files_end_in_a_sentence_and_never_in_a_panic() {
        let (folder, path) = usual();
        let bytes = std::fs::read(&path).unwrap();
        let broken = folder.path().join("broken.parquet");
        let attempt = |bytes: &[u8]| {
            File::create(&broken).unwrap().write_all(bytes).unwrap();
            let whole = read_file(&broken, &with_id());
            if let Ok(mut batches) = Batches::open(&broken, &with_id()) {
                while let Ok(Some(_)) = batches.next(4) {}
            }
            whole.map_err(|error| chain(&error))
        };
        assert!(attempt(&bytes).is_ok());
        for length in [4, 8, 12, bytes.len() / 2, bytes.len() - 9, bytes.len() - 1] {
            let message = attempt(&bytes[..length]).unwrap_err();
            assert!(message.contains("the Parquet file is damaged or cut short ("), "{length}: {message}");
        }
        // Not every changed byte can be noticed, because pages carry no check sums; but none may end in a panic.
        let mut state = 1u64;
        for _ in 0..400 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let mut changed = bytes.clone();
            let position = 4 + (state >> 33) as usize % (bytes.len() - 4);
            changed[position] = (state >> 20) as u8;
            let _ = attempt(&changed);
        }
    }

    #[test]
    fn a_panic_of_the_decoder_becomes_an_error() {
        let error = guarded::<()>("a.parquet", || panic!("as the decoder would")).unwrap_err();
        assert_eq!(error.to_string(), "a.parquet: the Parquet file is damaged or cut short (its decoder gave up)");
    }

    /// In a process of its own, as the text of a panic goes to the standard error of the whole process.
    #[test]
    fn what_a_panic_of_the_decoder_says_is_not_printed() {
        let told = |test: &str| {
            let told = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", &format!("read::parquet::tests::{test}"), "--nocapture", "--include-ignored"])
                .output()
                .unwrap();
            assert!(String::from_utf8_lossy(&told.stdout).contains("1 passed"), "{told:?}");
            String::from_utf8_lossy(&told.stderr).into_owned()
        };
        let text = told("a_panic_of_the_decoder_becomes_an_error");
        assert!(!text.contains("panicked") && !text.contains("as the decoder would"), "{text}");
        // Panics of others are printed as ever.
        let text = told("a_panic_beside_the_decoder");
        assert!(text.contains("beside the decoder") && !text.contains("within the decoder"), "{text}");
    }

    #[test]
    #[ignore = "prints a panic; started by the test above"]
    fn a_panic_beside_the_decoder() {
        let _ = guarded::<()>("a.parquet", || panic!("within the decoder"));
        assert!(catch_unwind(|| panic!("beside the decoder")).is_err());
    }
}
