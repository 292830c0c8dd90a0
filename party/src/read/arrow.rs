//! Arrow IPC streams, as other engines pipe record batches.
//!
//! The same types are understood as in Parquet: truth values, whole and floating-point numbers and text, with nulls as
//! missing values.

use std::fmt;
use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, RecordBatch};
use arrow_ipc::reader::StreamReader;
use arrow_schema::{ArrowError, DataType};
use fedreg_common::data::column::is_missing;
use fedreg_common::data::{ColumnBuilder, DataError, Frame, Ids, MAX_ROWS, Place, Places, check_names};

use super::{ReadError, Request, select};

/// What an Arrow IPC stream begins with.
pub const START: [u8; 4] = [0xff; 4];

/// The marker of the stream's end: a message of length zero.
const END: u64 = u64::from_be_bytes([0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);

/// A stream that is being read in batches of rows; its own record batches may have any size.
pub struct Table<R: Read> {
    file: String,
    reader: StreamReader<Ending<R>>,
    ending: Arc<AtomicU64>,
    /// Positions of the columns in the stream, in the order of `columns`.
    positions: Vec<usize>,
    columns: Vec<ColumnBuilder>,
    id: Option<(usize, String)>,
    ids: Option<Ids>,
    places: Places,
    /// What has come and is not yet given out, from row `taken` on.
    current: Option<RecordBatch>,
    taken: usize,
    row: u64,
    any: bool,
    /// Set while the arrow crates work, so that a stream in which they panicked is not used again.
    broken: bool,
}

impl<R: Read> Table<R> {
    /// Reads the schema and finds the requested columns in it.
    ///
    /// # Errors
    ///
    /// A source that fails or is no stream, a column that is not there or of a type that cannot be used.
    pub fn new(source: R, file: &str, request: &Request) -> Result<Table<R>, ReadError> {
        guarded(file, || Table::open(source, file, request))
    }

    fn open(source: R, file: &str, request: &Request) -> Result<Table<R>, ReadError> {
        let ending = Arc::new(AtomicU64::new(0));
        let source = Ending { source, last: Arc::clone(&ending) };
        let reader = StreamReader::try_new(source, None).map_err(|error| failed(file, error))?;
        let schema = reader.schema();
        let names: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
        let data = |source| ReadError::Data { file: file.to_owned(), source };
        check_names(names.iter().map(String::as_str)).map_err(data)?;
        let (positions, id) = select(&names, request).map_err(data)?;
        let mut columns = Vec::with_capacity(positions.len());
        for &position in &positions {
            let name = &names[position];
            usable(file, name, schema.field(position).data_type(), false)?;
            columns.push(match request.levels.get(name) {
                Some(levels) => ColumnBuilder::with_levels(name, levels).map_err(data)?,
                None => ColumnBuilder::new(name),
            });
        }
        if let Some(position) = id {
            usable(file, &names[position], schema.field(position).data_type(), true)?;
        }
        Ok(Table {
            file: file.to_owned(),
            reader,
            ending,
            positions,
            columns,
            id: id.map(|position| (position, names[position].clone())),
            ids: id.map(|_| Ids::default()),
            places: Places::default(),
            current: None,
            taken: 0,
            row: 0,
            any: false,
            broken: false,
        })
    }

    /// The next rows, at most `rows` of them and fewer only at the end; `None` after the last.
    ///
    /// # Errors
    ///
    /// A stream that is damaged or lacks its end, everything that makes data unusable, and a table without a row.
    pub fn next(&mut self, rows: usize) -> Result<Option<Frame>, ReadError> {
        let file = self.file.clone();
        if self.broken {
            return Err(damaged(&file, "reading stopped at an error before"));
        }
        self.broken = true;
        let batch = guarded(&file, || self.batch(rows.max(1)))?;
        self.broken = false;
        Ok(batch)
    }

    fn batch(&mut self, rows: usize) -> Result<Option<Frame>, ReadError> {
        while self.places.len() < rows {
            let current = match self.current.take() {
                Some(current) => current,
                None => match self.reader.next() {
                    Some(batch) => {
                        self.taken = 0;
                        batch.map_err(|error| failed(&self.file, error))?
                    }
                    None if self.ending.load(Ordering::Relaxed) == END => break,
                    None => return Err(damaged(&self.file, "it ends without its end marker")),
                },
            };
            let count = (current.num_rows() - self.taken).min(rows - self.places.len());
            if count > MAX_ROWS - self.places.len().min(MAX_ROWS) {
                return Err(self.data(DataError::TooManyRows { most: MAX_ROWS }));
            }
            self.pull(&current, count)?;
            self.taken += count;
            if self.taken < current.num_rows() {
                self.current = Some(current);
            }
        }
        if self.places.is_empty() && self.any {
            return Ok(None);
        }
        self.any = true;
        let columns = self.columns.iter_mut().map(ColumnBuilder::batch).collect::<Result<_, _>>();
        let ids = self.ids.as_mut().map(std::mem::take);
        let places = std::mem::take(&mut self.places);
        let frame = columns.and_then(|columns| Frame::new(columns, ids, places));
        frame.map(Some).map_err(|source| self.data(source))
    }

    fn pull(&mut self, from: &RecordBatch, count: usize) -> Result<(), ReadError> {
        let (rows, first) = (self.taken..self.taken + count, self.row);
        let place = |row: usize| Place::Row(first + (row - rows.start) as u64 + 1);
        let data = |source| ReadError::Data { file: self.file.clone(), source };
        for (&position, column) in self.positions.iter().zip(&mut self.columns) {
            let array = from.column(position);
            for row in rows.clone() {
                let taken = match cell(array.as_ref(), row) {
                    Cell::Missing => {
                        column.missing();
                        Ok(())
                    }
                    Cell::Truth(value) => column.boolean(value, place(row)),
                    Cell::Number(value) => column.number(value, place(row)),
                    Cell::Whole(value) => column.number(value as f64, place(row)),
                    Cell::Text(value) => column.level(value.as_bytes(), place(row)),
                };
                taken.map_err(data)?;
            }
        }
        if let (Some((position, name)), Some(ids)) = (&self.id, &mut self.ids) {
            for row in rows.clone() {
                let id = match cell(from.column(*position).as_ref(), row) {
                    Cell::Whole(value) => value.to_string(),
                    Cell::Text(value) => value.to_owned(),
                    _ => String::new(),
                };
                if is_missing(id.as_bytes()) {
                    return Err(data(DataError::MissingId { column: name.clone(), place: place(row) }));
                }
                ids.push(id.as_bytes());
            }
        }
        for row in rows.clone() {
            self.places.push(place(row));
        }
        self.row += count as u64;
        Ok(())
    }

    fn data(&self, source: DataError) -> ReadError {
        ReadError::Data { file: self.file.clone(), source }
    }
}

/// Sizes only: the cells are the data that must not leave.
impl<R: Read> fmt::Debug for Table<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("file", &self.file).field("columns", &self.columns.len()).finish_non_exhaustive()
    }
}

/// A value of any type that can be used.
enum Cell<'a> {
    Missing,
    Truth(bool),
    Whole(i128),
    Number(f64),
    Text(&'a str),
}

fn cell(array: &dyn Array, row: usize) -> Cell<'_> {
    if array.is_null(row) {
        return Cell::Missing;
    }
    fn whole<T: ArrowPrimitiveType<Native: Into<i128>>>(array: &dyn Array, row: usize) -> Cell<'_> {
        Cell::Whole(array.as_primitive::<T>().value(row).into())
    }
    match array.data_type() {
        DataType::Boolean => Cell::Truth(array.as_boolean().value(row)),
        DataType::Int8 => whole::<Int8Type>(array, row),
        DataType::Int16 => whole::<Int16Type>(array, row),
        DataType::Int32 => whole::<Int32Type>(array, row),
        DataType::Int64 => whole::<Int64Type>(array, row),
        DataType::UInt8 => whole::<UInt8Type>(array, row),
        DataType::UInt16 => whole::<UInt16Type>(array, row),
        DataType::UInt32 => whole::<UInt32Type>(array, row),
        DataType::UInt64 => whole::<UInt64Type>(array, row),
        DataType::Float32 => Cell::Number(f64::from(array.as_primitive::<Float32Type>().value(row))),
        DataType::Float64 => Cell::Number(array.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8 => Cell::Text(array.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => Cell::Text(array.as_string::<i64>().value(row)),
        // Other types were refused with the schema.
        _ => Cell::Missing,
    }
}

fn usable(file: &str, name: &str, found: &DataType, id: bool) -> Result<(), ReadError> {
    let refuse = |expected| {
        let found: String = found.to_string().chars().take(60).flat_map(char::escape_debug).collect();
        Err(ReadError::Type { file: file.to_owned(), column: name.to_owned(), found, expected })
    };
    match found {
        DataType::Null | DataType::Utf8 | DataType::LargeUtf8 => Ok(()),
        kind if kind.is_integer() => Ok(()),
        DataType::Boolean | DataType::Float32 | DataType::Float64 if id => refuse("ids must be text or whole numbers"),
        DataType::Boolean | DataType::Float32 | DataType::Float64 => Ok(()),
        _ => refuse("truth values, whole and floating-point numbers and text can be read, so convert it"),
    }
}

/// Remembers the last eight bytes: a stream that was cut between two record batches looks whole otherwise.
struct Ending<R> {
    source: R,
    last: Arc<AtomicU64>,
}

impl<R: Read> Read for Ending<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        let mut last = self.last.load(Ordering::Relaxed);
        for &byte in &buffer[read.saturating_sub(8)..read] {
            last = last << 8 | u64::from(byte);
        }
        self.last.store(last, Ordering::Relaxed);
        Ok(read)
    }
}

fn failed(file: &str, error: ArrowError) -> ReadError {
    match error {
        ArrowError::IoError(_, source) if source.kind() != io::ErrorKind::UnexpectedEof => {
            ReadError::Read { file: file.to_owned(), source }
        }
        other => damaged(file, &other.to_string()),
    }
}

fn damaged(file: &str, reason: &str) -> ReadError {
    let reason: String = reason.chars().take(200).flat_map(char::escape_debug).collect();
    ReadError::Format { file: file.to_owned(), problem: format!("the Arrow stream is damaged or cut short ({reason})") }
}

/// Decoders of damaged streams may panic inside the arrow crates; here that is an error like others.
fn guarded<T>(file: &str, work: impl FnOnce() -> Result<T, ReadError>) -> Result<T, ReadError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(damaged(file, "it cannot be decoded")))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int32Array, StringArray};
    use arrow_ipc::writer::StreamWriter;

    use super::super::tests::chain;
    use super::*;

    fn stream(batches: usize) -> Vec<u8> {
        let batch = |first: i32| {
            let columns: Vec<(&str, ArrayRef)> = vec![
                ("y", Arc::new(Float64Array::from(vec![Some(0.5), None, Some(-1.0)]))),
                ("n", Arc::new(Int32Array::from(vec![first, first + 1, first + 2]))),
                ("smoker", Arc::new(BooleanArray::from(vec![true, false, true]))),
                ("region", Arc::new(StringArray::from(vec!["north", "south", "north"]))),
            ];
            RecordBatch::try_from_iter(columns).unwrap()
        };
        let mut bytes = Vec::new();
        let mut writer = StreamWriter::try_new(&mut bytes, &batch(0).schema()).unwrap();
        for at in 0..batches {
            writer.write(&batch(3 * at as i32)).unwrap();
        }
        writer.finish().unwrap();
        drop(writer);
        bytes
    }

    fn request(columns: &[&str]) -> Request {
        Request {
            columns: Some(columns.iter().map(|name| name.to_string()).collect()),
            levels: [("region".to_owned(), vec!["north".to_owned(), "south".to_owned()])].into(),
            ..Request::default()
        }
    }

    #[test]
    fn rows_come_in_the_size_that_was_asked_for_whatever_the_stream_has() {
        let bytes = stream(3);
        let mut table = Table::new(&bytes[..], "stream", &request(&["n", "smoker", "region", "y"])).unwrap();
        let mut seen = Vec::new();
        while let Some(frame) = table.next(4).unwrap() {
            assert_eq!(frame.columns().len(), 4);
            seen.push(frame.rows());
            assert_eq!(frame.place(0), Place::Row(4 * seen.len() as u64 - 3));
        }
        assert_eq!(seen, [4, 4, 1]);
    }

    #[test]
    fn a_stream_that_is_cut_anywhere_is_refused() {
        let bytes = stream(2);
        for length in 4..bytes.len() {
            let cut = &bytes[..length];
            let outcome = Table::new(cut, "stream", &request(&["n", "y"])).and_then(|mut table| {
                while table.next(2)?.is_some() {}
                Ok(())
            });
            let message = chain(&outcome.unwrap_err());
            assert!(message.contains("damaged or cut short"), "{length} of {}: {message}", bytes.len());
        }
    }

    #[test]
    fn a_changed_byte_gives_an_error_or_a_table_and_never_a_panic() {
        let bytes = stream(1);
        for at in 0..bytes.len() {
            for flip in [1, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[at] ^= flip;
                if let Ok(mut table) = Table::new(&changed[..], "stream", &request(&["n", "y", "region"])) {
                    while let Ok(Some(_)) = table.next(2) {}
                }
            }
        }
    }

    #[test]
    fn types_without_a_place_in_a_regression_are_named() {
        let column: ArrayRef = Arc::new(arrow_array::Date32Array::from(vec![1, 2]));
        let batch = RecordBatch::try_from_iter(vec![("day", column)]).unwrap();
        let mut bytes = Vec::new();
        let mut writer = StreamWriter::try_new(&mut bytes, &batch.schema()).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        drop(writer);
        let message = chain(&Table::new(&bytes[..], "stream", &request(&["day"])).unwrap_err());
        assert!(message.contains("column `day` is of type Date32"), "{message}");
        let message = chain(&Table::new(&bytes[..], "stream", &request(&["dya"])).unwrap_err());
        assert!(message.contains("the nearest name is `day`"), "{message}");
    }
}
