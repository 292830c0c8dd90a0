//! Parquet, through the column reader of the `parquet` crate.
//!
//! Truth values, whole and floating-point numbers, decimals and text are understood, with nulls as missing values. Text is
//! always text: `1` in a text column is a level and not a number. Dates and timestamps can be ids, written as ISO 8601 has them.

use std::cell::Cell as Flag;
use std::io::{BufReader, Read};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::path::Path;
use std::sync::{Arc, Once};

use ::bytes::Bytes as Page;
use fedreg_common::data::Place;
use parquet::basic::Type;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::DataType;
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{ChunkReader, FileReader, Length, SerializedFileReader};
use rayon::prelude::*;

use super::ranges::{Ranges, Rest};
use super::rows::{Lane, Rows};
use super::typed::{self, Cell, Meaning};
use super::{Bytes, Format, Found, Opened, ReadError};

/// Files that begin or are named as Parquet.
pub(super) const FORMAT: Format = Format {
    takes: |found| !matches!(found.bytes, Bytes::Unfinished(_)) && (found.start == START || is_named(found)),
    open: |found, _| match found.bytes {
        Bytes::File(file) if found.start == START => open(Arc::new(file), &found.name),
        Bytes::Object(object) if found.start == START => open(object, &found.name),
        Bytes::File(_) | Bytes::Object(_) | Bytes::Unfinished(_) => {
            Err(ReadError::format(&found.name, "the name says Parquet, but the file does not begin as one"))
        }
    },
};

const START: &[u8] = b"PAR1";

/// Rows decoded at a time.
const CHUNK: usize = 8192;

/// Bytes that are read for the head of a page, which is shorter as a rule.
const HEADER: usize = 1024;

/// Cells of a stretch from which on its columns are read in parallel.
const PARALLEL: usize = 1 << 17;

fn is_named(found: &Found) -> bool {
    Path::new(&found.name).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("parquet"))
}

/// What several threads read, each at places of its own.
struct Shared(Arc<dyn Ranges>);

impl Length for Shared {
    fn len(&self) -> u64 {
        self.0.size()
    }
}

impl ChunkReader for Shared {
    type T = BufReader<Rest>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(BufReader::with_capacity(HEADER, Rest { ranges: Arc::clone(&self.0), place: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Page, ParquetError> {
        if let Some(piece) = self.0.piece(start, length)? {
            return Ok(piece);
        }
        let mut bytes = Vec::new();
        // As long as the file says: it may say anything.
        let room = self.len().saturating_sub(start).min(length as u64);
        bytes.resize(room as usize, 0);
        if room < length as u64 {
            return Err(ParquetError::EOF(format!("expected to read {length} bytes, {room} are there")));
        }
        Rest { ranges: Arc::clone(&self.0), place: start }.read_exact(&mut bytes)?;
        Ok(bytes.into())
    }
}

/// A table that is being read, column by column within each row group or a part of it.
struct Table {
    file: String,
    reader: SerializedFileReader<Shared>,
    bytes: Arc<dyn Ranges>,
    picks: Vec<Pick>,
    /// The row group that comes next.
    group: usize,
    /// Rows of the present row group that have not been read.
    left: usize,
    /// Rows read so far.
    row: u64,
    /// Set while the parquet crate works, so that a table in which it panicked is not used again.
    broken: bool,
}

/// One column to read.
struct Pick {
    leaf: usize,
    meaning: Meaning,
    nullable: bool,
    /// Of the present row group, while some of it has been read.
    open: Option<ColumnReader>,
}

fn open(bytes: Arc<dyn Ranges>, file: &str) -> Result<Opened, ReadError> {
    guarded(file, || {
        let reader = SerializedFileReader::new(Shared(Arc::clone(&bytes))).map_err(|error| damaged(file, &error))?;
        let fields = reader.metadata().file_metadata().schema_descr().root_schema().get_fields();
        let names = fields.iter().map(|field| field.name().to_owned()).collect();
        let file = file.to_owned();
        let table = Table { file, reader, bytes, picks: Vec::new(), group: 0, left: 0, row: 0, broken: false };
        Opened::new(&table.file.clone(), names, table)
    })
}

impl Table {
    fn read(&mut self, most: usize, rows: &mut Rows) -> Result<(), ReadError> {
        while rows.len() < most {
            if self.left == 0 && !self.next_group(rows)? {
                break;
            }
            let count = self.left.min(most - rows.len());
            self.stretch(count, rows)?;
            rows.end(Place::Row(self.row + 1), count)?;
            self.row += count as u64;
            self.left -= count;
        }
        Ok(())
    }

    /// Reads some rows of the present row group, several columns at a time where there is enough to do. The columns do not know of each other,
    /// so that an error is that of the first column that has one in any case.
    fn stretch(&mut self, count: usize, rows: &mut Rows) -> Result<(), ReadError> {
        let Table { file, reader, picks, group, left, row, .. } = self;
        let (is_last, first, group) = (count == *left, *row, *group - 1);
        let (reader, file) = (&*reader, &**file);
        let column = |(pick, lane): (&mut Pick, Lane<'_>)| {
            let mut open = match pick.open.take() {
                Some(reader) => reader,
                None => column_reader(reader, file, group, pick.leaf)?,
            };
            let chunks = Chunks { file, nullable: pick.nullable, rows: count, first };
            chunks.column(&mut open, pick.meaning, lane)?;
            // One that is read to its end is let go before the next is opened.
            pick.open = Some(open).filter(|_| !is_last);
            Ok(())
        };
        if count.saturating_mul(picks.len()) < PARALLEL {
            return picks.iter_mut().zip(rows.lanes()).try_for_each(column);
        }
        let columns: Vec<_> = picks.iter_mut().zip(rows.lanes()).collect();
        let read = columns.into_par_iter().map(|each| guarded(file, || column(each)));
        read.collect::<Vec<Result<(), ReadError>>>().into_iter().collect()
    }

    /// Goes to the next row group that has rows; `false` after the last.
    fn next_group(&mut self, rows: &Rows) -> Result<bool, ReadError> {
        let groups = self.reader.metadata().row_groups();
        let Some(group) = groups[self.group.min(groups.len())..].iter().position(|group| group.num_rows() != 0) else {
            return Ok(false);
        };
        let index = self.group + group;
        self.left = usize::try_from(groups[index].num_rows())
            .map_err(|_| unreadable(&self.file, "a negative number of rows"))?;
        rows.room(self.left)?;
        self.group = index + 1;
        let parts = |group: &RowGroupMetaData| -> Vec<Range<u64>> {
            let columns = self.picks.iter().filter_map(|pick| group.columns().get(pick.leaf));
            let ranges = columns.map(|column| column.byte_range());
            ranges.map(|(start, length)| start..start.saturating_add(length)).collect()
        };
        let later = groups[self.group..].iter().find(|group| group.num_rows() != 0).map(parts);
        self.bytes.announce(&parts(&groups[index]), &later.unwrap_or_default());
        Ok(true)
    }
}

fn column_reader(
    reader: &SerializedFileReader<Shared>,
    file: &str,
    group: usize,
    leaf: usize,
) -> Result<ColumnReader, ReadError> {
    let group = reader.get_row_group(group).map_err(|error| damaged(file, &error))?;
    group.get_column_reader(leaf).map_err(|error| damaged(file, &error))
}

impl super::Table for Table {
    fn pick(&mut self, position: usize, id: bool) -> Result<(), ReadError> {
        let pick = guarded(&self.file, || pick(&self.reader, &self.file, position, id))?;
        self.picks.push(pick);
        Ok(())
    }

    fn next(&mut self, most: usize, rows: &mut Rows) -> Result<(), ReadError> {
        let file = self.file.clone();
        if self.broken {
            return Err(unreadable(&file, "reading stopped at an error before"));
        }
        self.broken = true;
        guarded(&file, || self.read(most, rows))?;
        self.broken = false;
        Ok(())
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
    fn column(&self, reader: &mut ColumnReader, meaning: Meaning, mut lane: Lane<'_>) -> Result<(), ReadError> {
        let lane = &mut lane;
        match reader {
            ColumnReader::BoolColumnReader(reader) => self.each(reader, lane, |value| Cell::Truth(*value)),
            ColumnReader::Int32ColumnReader(reader) => {
                self.each(reader, lane, |value| Cell::Whole(meaning.of_32(*value), meaning))
            }
            ColumnReader::Int64ColumnReader(reader) => {
                self.each(reader, lane, |value| Cell::Whole(meaning.of_64(*value), meaning))
            }
            ColumnReader::FloatColumnReader(reader) => self.each(reader, lane, |value| Cell::Number(f64::from(*value))),
            ColumnReader::DoubleColumnReader(reader) => self.batches(reader, |first, batch| match batch.is_full {
                true => lane.numbers(first, &batch.values[..batch.records]),
                false => self.cells(lane, first, batch, |value| Cell::Number(*value)),
            }),
            ColumnReader::ByteArrayColumnReader(reader) => self.each(reader, lane, |value| match meaning {
                Meaning::Decimal { .. } => decimal(value.data(), meaning),
                Meaning::Plain | Meaning::Unsigned | Meaning::Date | Meaning::Moment { .. } => Cell::Text(value.data()),
            }),
            ColumnReader::FixedLenByteArrayColumnReader(reader) => {
                self.each(reader, lane, |value| decimal(value.data(), meaning))
            }
            ColumnReader::Int96ColumnReader(reader) => {
                self.each(reader, lane, |value| Cell::Whole(typed::nanoseconds(value), meaning))
            }
        }
    }

    fn each<T: DataType>(
        &self,
        reader: &mut ColumnReaderImpl<T>,
        lane: &mut Lane<'_>,
        cell: impl Fn(&T::T) -> Cell<'_>,
    ) -> Result<(), ReadError> {
        self.batches(reader, |first, batch| self.cells(lane, first, batch, &cell))
    }

    /// Reads the stretch some rows at a time, the first of which is said with them.
    fn batches<T: DataType>(
        &self,
        reader: &mut ColumnReaderImpl<T>,
        mut give: impl FnMut(u64, Batch<'_, T::T>) -> Result<(), ReadError>,
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
            let present = if self.nullable { levels.iter().filter(|level| **level == 1).count() } else { records };
            if present > values.len() {
                return Err(unreadable(self.file, "a value is missing in a page"));
            }
            let batch = Batch { records, is_full: present == records, levels: &levels, values: &values };
            give(self.first + done as u64 + 1, batch)?;
            done += records;
        }
        Ok(())
    }

    fn cells<T>(
        &self,
        lane: &mut Lane<'_>,
        first: u64,
        batch: Batch<'_, T>,
        cell: impl Fn(&T) -> Cell<'_>,
    ) -> Result<(), ReadError> {
        let Batch { records, levels, values, .. } = batch;
        let mut next = values.iter();
        let cells = (0..records).map_while(|record| match self.nullable && levels.get(record) != Some(&1) {
            true => Some(Cell::Missing),
            false => next.next().map(&cell),
        });
        lane.fill(first, cells)
    }
}

/// Some rows of a column.
struct Batch<'a, T> {
    records: usize,
    /// Whether each of them has a value.
    is_full: bool,
    levels: &'a [i16],
    values: &'a [T],
}

/// A decimal from its bytes: not-a-number, and no id, where it has more of them than its type allows.
fn decimal(bytes: &[u8], meaning: Meaning) -> Cell<'_> {
    typed::whole(bytes).map_or(Cell::Number(f64::NAN), |value| Cell::Whole(value, meaning))
}

/// Finds a column among the leaves of the schema and checks its type.
fn pick(reader: &SerializedFileReader<Shared>, file: &str, position: usize, id: bool) -> Result<Pick, ReadError> {
    const USABLE: &str = "truth values, whole and floating-point numbers, decimals and text can be read, so convert it";
    let schema = reader.metadata().file_metadata().schema_descr();
    let name = schema.root_schema().get_fields()[position].name();
    let refuse = |found: &str, expected| {
        Err(ReadError::Type { file: file.to_owned(), column: name.to_owned(), found: found.to_owned(), expected })
    };
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
    if id && matches!(descriptor.physical_type(), Type::BOOLEAN | Type::FLOAT | Type::DOUBLE) {
        let found = if descriptor.physical_type() == Type::BOOLEAN { "truth value" } else { "floating-point number" };
        return refuse(found, "ids must be text, whole numbers, dates or timestamps");
    }
    if let Some(found) = meaning.time().filter(|_| !id) {
        return refuse(found, typed::DERIVE);
    }
    Ok(Pick { leaf, meaning, nullable: descriptor.max_def_level() == 1, open: None })
}

/// What the parquet crate says of a compression that this build has not.
const LEFT_OUT: &str = "Disabled feature at compile time";

fn damaged(file: &str, error: &ParquetError) -> ReadError {
    if error.to_string().contains(LEFT_OUT) {
        let problem = "the Parquet file is compressed in a way that is not read: write it with snappy, zstd, gzip or lz4, or uncompressed";
        return ReadError::format(file, problem.to_string());
    }
    unreadable(file, &error.to_string())
}

fn unreadable(file: &str, reason: &str) -> ReadError {
    let reason: String = reason.chars().take(200).flat_map(char::escape_debug).collect();
    ReadError::format(file, format!("the Parquet file is damaged or cut short ({reason})"))
}

thread_local! {
    /// Whether a decoder is at work in this thread.
    static DECODING: Flag<bool> = const { Flag::new(false) };
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
    use std::fs::File;
    use std::io::Write;
    use std::path::PathBuf;
    use std::sync::Arc;

    use fedreg_common::data::{Frame, Marks, Values};
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
    use super::super::{Batches, Request, Written, header as file_header, read as read_file};
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

    fn batches(path: &Path, request: &Request) -> Result<Batches, ReadError> {
        Batches::open(path, request, &super::super::Arrival::default())
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
            let mut table = batches(&path, &request).unwrap();
            let (mut x, mut codes, mut ids, mut sizes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
            while let Some(batch) = table.next(size).unwrap() {
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
            assert!(table.next(size).unwrap().is_none());
        }
        let mut undeclared = batches(&path, &with_id()).unwrap();
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
        let digests = |path: &PathBuf| crate::read::content::digests(&path.into(), None, None).unwrap();
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
            let mut table = batches(&path, &request).unwrap();
            let frame = table.next(5).unwrap().unwrap();
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
            // What the message advises to declare.
            let marks = Marks::new(&[word.to_owned()], None).unwrap();
            let request = Request { written: Written { marks, ..Written::default() }, ..with_id() };
            let frame = read_file(&path, &request).unwrap();
            assert!(
                frame.column("x").unwrap().values.is_missing(1) && !frame.column("x").unwrap().values.is_missing(0)
            );
        }
        for id in [None, Some(""), Some("NA")] {
            let (_folder, path) = write(schema, vec![cells(2.0, id)]);
            let message = chain(&read_file(&path, &with_id()).unwrap_err());
            assert!(message.ends_with("column `id`, row 2: the row has no id"), "{message}");
        }
        let (_folder, path) = write(schema, vec![]);
        assert!(chain(&read_file(&path, &with_id()).unwrap_err()).contains("there are no rows"));
        assert!(chain(&batches(&path, &with_id()).unwrap().next(1).unwrap_err()).contains("there are no rows"));
    }

    #[test]
    fn damaged_files_end_in_a_sentence_and_never_in_a_panic() {
        let (folder, path) = usual();
        let bytes = std::fs::read(&path).unwrap();
        let broken = folder.path().join("broken.parquet");
        let attempt = |bytes: &[u8]| {
            File::create(&broken).unwrap().write_all(bytes).unwrap();
            let whole = read_file(&broken, &with_id());
            if let Ok(mut table) = batches(&broken, &with_id()) {
                while let Ok(Some(_)) = table.next(4) {}
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

    /// A table of so many cells that its columns are read in parallel: numbers of all kinds, some of them missing, and ids.
    fn wide(change: impl Fn(usize, usize, f64) -> f64) -> (TempDir, PathBuf) {
        const ROWS: usize = 2 * PARALLEL / 40;
        let doubles: String = (0..40).map(|at| format!("optional double c{at};")).collect();
        let schema =
            format!("message m {{ required binary id (UTF8); {doubles} optional int32 n; optional boolean t; }}");
        let group = |from: usize| {
            let rows = || from..from + ROWS;
            let double = |at: usize| {
                let value = |row: usize| change(at, row, (row * (at + 1)) as f64 / 7.0);
                let some = |row: usize| (!at.is_multiple_of(3) || row % 11 != 4).then(|| value(row));
                Cells::Double(rows().map(some).collect())
            };
            let mut cells = vec![Cells::Text(rows().map(|row| Some(&*format!("p{row}").leak())).collect())];
            cells.extend((0..40).map(double));
            cells.push(Cells::Int32(rows().map(|row| (row % 5 > 0).then_some(row as i32)).collect()));
            cells.push(Cells::Truth(rows().map(|row| Some(row % 2 == 0)).collect()));
            cells
        };
        write(&schema, vec![group(0), group(ROWS)])
    }

    #[test]
    fn columns_that_are_read_in_parallel_hold_what_they_hold_one_after_the_other() {
        let (_folder, path) = wide(|_, _, value| value);
        let whole = read_file(&path, &with_id()).unwrap();
        let mut table = batches(&path, &with_id()).unwrap();
        let mut row = 0;
        while let Some(frame) = table.next(997).unwrap() {
            let rows = row..row + frame.rows();
            for (few, column) in frame.columns().iter().zip(whole.columns()) {
                match (&few.values, &column.values) {
                    (Values::Numeric(few), Values::Numeric(all)) => {
                        let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
                        assert_eq!(bits(few), bits(&all[rows.clone()]), "{}", column.name);
                    }
                    (Values::Boolean(few), Values::Boolean(all)) => assert_eq!(few[..], all[rows.clone()]),
                    _ => panic!("{} is of two kinds", column.name),
                }
            }
            let ids = (0..frame.rows()).map(|at| whole.ids().unwrap().bytes(row + at));
            assert!(frame.ids().unwrap().iter().eq(ids));
            row = rows.end;
        }
        assert!(row == whole.rows() && row * whole.columns().len() > 4 * PARALLEL && whole.columns().len() == 42);
        assert_eq!(numbers(&whole, "c3")[4], None);
        assert_eq!(numbers(&whole, "c4")[row - 1], Some((row - 1) as f64 * 5.0 / 7.0));
    }

    #[test]
    fn of_several_columns_with_errors_the_first_one_is_named_with_its_row_wherever_the_others_have_theirs() {
        let (_folder, path) = wide(|at, row, value| match (at, row) {
            (8, 9000) | (20, 7000) | (35, 6600) => f64::NAN,
            _ => value,
        });
        let columns = |names: &[&str]| Request {
            columns: Some((0..30).map(|at| format!("c{at}")).filter(|name| !names.contains(&&name[..])).collect()),
            ..Request::default()
        };
        for _ in 0..5 {
            let message = chain(&read_file(&path, &columns(&[])).unwrap_err());
            assert!(message.contains("column `c8`, row 9001: `NaN` is not a value"), "{message}");
            let message = chain(&read_file(&path, &columns(&["c8"])).unwrap_err());
            assert!(message.contains("column `c20`, row 7001: `NaN` is not a value"), "{message}");
        }
        assert!(read_file(&path, &columns(&["c8", "c20"])).is_ok());
        let bytes = std::fs::read(&path).unwrap();
        let (folder, mut state) = (tempfile::tempdir().unwrap(), 1u64);
        let broken = folder.path().join("broken.parquet");
        for _ in 0..20 {
            let mut changed = bytes.clone();
            for _ in 0..20 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let position = 4 + (state >> 33) as usize % (bytes.len() - 4);
                changed[position] = (state >> 20) as u8;
            }
            std::fs::write(&broken, &changed).unwrap();
            let _ = read_file(&broken, &with_id());
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
