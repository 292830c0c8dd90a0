//! Reads tables from CSV and Parquet files, whole or in batches, and from pipes of CSV or Arrow. CSV files may be compressed.
//!
//! What a cell means is decided in `fedreg_common::data`, so that a table means the same in either format. Error texts
//! may quote cells: they are for the local terminal and must not be sent to a peer.

pub mod arrow;
pub mod content;
pub mod csv;
pub mod lines;
mod packed;
pub mod parquet;
mod typed;
pub mod whole;

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use fedreg_common::data::column::is_missing;
use fedreg_common::data::{ColumnBuilder, DataError, Frame, Marks, unknown};

/// What to read from a file.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The columns to read, the id apart; `None` reads all. Others are not parsed, and need not be readable.
    pub columns: Option<Vec<String>>,
    /// The column of ids; without one the row number is the id.
    pub id: Option<String>,
    /// Declared levels by column, the reference first. Columns that are not read may stand here too.
    pub levels: BTreeMap<String, Vec<String>>,
    /// The separator of a CSV file; `None` finds it in the header.
    pub separator: Option<u8>,
    /// What marks missing values, and the decimal sign.
    pub marks: Marks,
    /// Whether a level that is not declared counts as missing: for rows that are predicted, of which such a one has no prediction.
    pub unseen: bool,
    /// Whether a cell that cannot be used counts as missing: every column without levels is one of numbers then. For
    /// private runs, where refusing a table because of one row would tell something about that row.
    pub lenient: bool,
    /// Whether every record counts, whatever it is: a line of CSV that cannot be read is a row in which everything is missing, with an
    /// empty id, and so is one without an id. For private streams, which must go on, and in which nobody may see what a record was.
    pub torn: bool,
}

/// How text files are written, as far as that cannot be seen in them.
#[derive(Debug, Clone, Default)]
pub struct Written {
    /// The separator of a CSV file; `None` finds it in the header.
    pub separator: Option<u8>,
    /// What marks missing values, and the decimal sign.
    pub marks: Marks,
}

/// Longest identifier of a record in a stream, bytes. A longer one is none, so that memory is bounded.
const LONGEST_ID: usize = 4096;

/// The identifier of a record in a stream; empty where it has none.
fn named(id: &[u8]) -> &[u8] {
    if id.len() > LONGEST_ID || is_missing(id) { &[] } else { id }
}

impl Request {
    /// The same of files that are written so.
    #[must_use]
    pub fn of_files(mut self, written: Written) -> Request {
        self.separator = written.separator;
        self.marks = written.marks;
        self
    }

    fn builder(&self, name: &str) -> Result<ColumnBuilder, DataError> {
        let builder = match (self.levels.get(name), self.lenient) {
            (Some(levels), lenient) if lenient || self.unseen => ColumnBuilder::lenient_levels(name, levels)?,
            (Some(levels), _) => ColumnBuilder::with_levels(name, levels)?,
            (None, false) => ColumnBuilder::new(name),
            (None, true) => ColumnBuilder::lenient_numbers(name),
        };
        Ok(builder.marked(&self.marks))
    }
}

/// Reads a whole CSV or Parquet file.
///
/// # Errors
///
/// A file that cannot be read or is no table, a column that is not there, and everything that makes data unusable.
pub fn read(path: &Path, request: &Request) -> Result<Frame, ReadError> {
    let file = path.display().to_string();
    match open(path)? {
        Opened::Csv(source) => csv::read(source, &file, request),
        Opened::Packed(source) => csv::read(source, &file, request),
        Opened::Parquet(source) => parquet::read(source, &file, request),
    }
}

/// The names of all columns of a file, in its order.
///
/// # Errors
///
/// A file that cannot be read or is no table, and a header with empty or repeated names.
pub fn header(path: &Path, separator: Option<u8>) -> Result<Vec<String>, ReadError> {
    let file = path.display().to_string();
    match open(path)? {
        Opened::Csv(source) => csv::header(source, &file, separator),
        Opened::Packed(source) => csv::header(source, &file, separator),
        Opened::Parquet(source) => parquet::header(source, &file),
    }
}

/// Reads a table a few rows at a time, in memory that does not grow with the file.
///
/// Because later batches are not known, text columns need declared levels; `true` and `false` do not, and the first cell
/// that is not missing decides between numbers and truth values for all batches.
#[derive(Debug)]
pub struct Batches(Source);

#[derive(Debug)]
enum Source {
    Csv(Box<csv::Table<Box<dyn Read + Send>>>),
    Lines(Box<lines::Table<Box<dyn Read + Send>>>),
    Arrow(Box<arrow::Table<Box<dyn Read + Send>>>),
    Parquet(Box<parquet::Table>),
}

impl Batches {
    /// Opens a CSV or Parquet file.
    ///
    /// # Errors
    ///
    /// As [`read`], as far as the header shows it.
    pub fn open(path: &Path, request: &Request) -> Result<Batches, ReadError> {
        let file = path.display().to_string();
        Ok(Batches(match open(path)? {
            Opened::Csv(source) => return Batches::from_reader(source, &file, request),
            // How far a damaged one can be read depends on its records.
            Opened::Packed(_) if request.torn => {
                let problem = "a private stream cannot be read from a compressed file; unpack it first".to_owned();
                return Err(ReadError::Format { file, problem });
            }
            Opened::Packed(source) => return Batches::from_reader(source, &file, request),
            Opened::Parquet(source) => Source::Parquet(Box::new(parquet::Table::new(source, &file, request)?)),
        }))
    }

    /// Reads CSV; `name` stands for the file in messages.
    ///
    /// A batch is given out as soon as its last line is complete. A reader that follows a growing file must wait in
    /// `read` for more; returning no bytes ends the table.
    ///
    /// # Errors
    ///
    /// As [`read`], as far as the header shows it.
    pub fn from_reader(
        source: impl Read + Send + 'static,
        name: &str,
        request: &Request,
    ) -> Result<Batches, ReadError> {
        Batches::from_csv(Box::new(source), name, request, false)
    }

    /// Reads CSV from a pipe, a socket or a file that still grows, whose writer may stop anywhere: its last line must end with a
    /// line feed.
    ///
    /// # Errors
    ///
    /// As [`read`], as far as the header shows it.
    pub fn from_writer(
        source: impl Read + Send + 'static,
        name: &str,
        request: &Request,
    ) -> Result<Batches, ReadError> {
        match request.torn {
            true => Batches::from_csv(Box::new(source), name, request, true),
            false => Batches::from_reader(whole::Lines::new(source), name, request),
        }
    }

    fn from_csv(source: Box<dyn Read + Send>, name: &str, request: &Request, cut: bool) -> Result<Batches, ReadError> {
        Ok(Batches(match request.torn {
            true => Source::Lines(Box::new(lines::Table::new(source, name, request, cut)?)),
            false => Source::Csv(Box::new(csv::Table::new(source, name, request)?)),
        }))
    }

    /// Reads CSV or an Arrow IPC stream from a pipe, told apart by the first bytes.
    ///
    /// A pipe whose writer has died ends like any other, so its last line must end with a line feed, and an Arrow stream
    /// with its end marker.
    ///
    /// # Errors
    ///
    /// As [`read`], as far as header or schema show it.
    pub fn from_pipe(
        mut source: impl Read + Send + 'static,
        name: &str,
        request: &Request,
    ) -> Result<Batches, ReadError> {
        let mut start = Vec::new();
        let read = source.by_ref().take(arrow::START.len() as u64).read_to_end(&mut start);
        read.map_err(|source| ReadError::Read { file: name.to_owned(), source })?;
        let is_arrow = start == arrow::START;
        let source = io::Cursor::new(start).chain(source);
        if is_arrow {
            let source: Box<dyn Read + Send> = Box::new(source);
            return Ok(Batches(Source::Arrow(Box::new(arrow::Table::new(source, name, request)?))));
        }
        Batches::from_writer(source, name, request)
    }

    /// The next rows, at most `rows` of them and fewer only at the end; `None` after the last.
    ///
    /// # Errors
    ///
    /// Everything that makes data unusable, and a table that ends without a row. Where every record counts ([`Request::torn`]),
    /// only what has no records: a source that fails, a stream or a file that is damaged.
    pub fn next(&mut self, rows: usize) -> Result<Option<Frame>, ReadError> {
        match &mut self.0 {
            Source::Csv(table) => table.next(rows),
            Source::Lines(table) => table.next(rows),
            Source::Arrow(table) => table.next(rows),
            Source::Parquet(table) => table.next(rows),
        }
    }
}

/// Why a file was refused. For the local terminal only: a source may quote a cell or an id.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// No such file, or no right to read it.
    #[error("cannot open {file}")]
    Open {
        /// The file.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// Reading failed after opening.
    #[error("cannot read {file}")]
    Read {
        /// The file.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// The file is no table.
    #[error("{file}: {problem}")]
    Format {
        /// The file.
        file: String,
        /// What is wrong.
        problem: String,
    },
    /// A line with too few or too many cells.
    #[error("{file}, line {line}: expected {expected} cells as in the header, found {found}")]
    Ragged {
        /// The file.
        file: String,
        /// The line.
        line: u64,
        /// Cells of the line.
        found: usize,
        /// Cells of the header.
        expected: usize,
    },
    /// A column of a type that has no place in a regression.
    #[error("{file}: column `{column}` is of type {found}; {expected}")]
    Type {
        /// The file.
        file: String,
        /// The column.
        column: String,
        /// Its type.
        found: String,
        /// What could be used.
        expected: &'static str,
    },
    /// The table can be read, and its contents cannot be used.
    #[error("cannot use {file}")]
    Data {
        /// The file.
        file: String,
        /// Why.
        source: DataError,
    },
}

enum Opened {
    Csv(File),
    /// CSV that is unpacked while it is read.
    Packed(Box<dyn Read + Send>),
    Parquet(File),
}

/// Tells the format by the first bytes, because names of files are what people make them.
fn open(path: &Path) -> Result<Opened, ReadError> {
    let file = path.display().to_string();
    let failed = |source| ReadError::Open { file: file.clone(), source };
    let mut source = File::open(path).map_err(failed)?;
    if source.metadata().map_err(failed)?.is_dir() {
        return Err(ReadError::Format { file, problem: "this is a folder, expected a file".to_owned() });
    }
    let mut start = [0; 4];
    let mut filled = 0;
    while filled < start.len() {
        match source.read(&mut start[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(source) => return Err(ReadError::Read { file: file.clone(), source }),
        }
    }
    let parquet = &start == b"PAR1";
    if !parquet && path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("parquet")) {
        let problem = "the name says Parquet, but the file does not begin as one".to_owned();
        return Err(ReadError::Format { file, problem });
    }
    let unreadable = |source| ReadError::Read { file: file.clone(), source };
    io::Seek::rewind(&mut source).map_err(unreadable)?;
    Ok(match packed::Packing::of(&start) {
        Some(packing) => Opened::Packed(packing.unpack(source).map_err(unreadable)?),
        None if parquet => Opened::Parquet(source),
        None => Opened::Csv(source),
    })
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
    use std::error::Error;
    use std::io::Write;

    use super::*;

    /// An error as the binaries print it, with its causes.
    pub(super) fn chain(error: &dyn Error) -> String {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(error) = source {
            text = format!("{text}: {error}");
            source = error.source();
        }
        text
    }

    fn request(columns: &[&str], id: Option<&str>) -> Request {
        Request {
            columns: Some(columns.iter().map(|name| name.to_string()).collect()),
            id: id.map(str::to_owned),
            ..Request::default()
        }
    }

    #[test]
    fn files_that_are_no_tables_are_refused_with_a_sentence() {
        let folder = tempfile::tempdir().unwrap();
        let message = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            let message = chain(&read(&path, &Request::default()).unwrap_err());
            message.replace(&format!("{}/", folder.path().display()), "")
        };
        assert_eq!(message("a.csv", b""), "a.csv: the file is empty");
        assert_eq!(message("a.csv", b"\n \r\n"), "a.csv: the file is empty");
        assert_eq!(message("a.csv", b"x,y\n"), "cannot use a.csv: there are no rows; at least one is needed");
        assert_eq!(
            message("a.parquet", b"x,y\n1,2\n"),
            "a.parquet: the name says Parquet, but the file does not begin as one"
        );
        assert!(message("a.csv", b"PAR1").starts_with("a.csv: the Parquet file is damaged or cut short"));
        assert_eq!(
            message("a.csv", b"PK\x03\x04xxxx"),
            "a.csv: this is a ZIP archive or an Excel workbook; export it as CSV"
        );
        assert!(message("a.csv", b"\x1f\x8bxxxx").starts_with("cannot read a.csv"));
        assert!(message("a.csv", b"\x28\xb5\x2f\xfdxxxx").starts_with("cannot read a.csv"));
        assert_eq!(message("a.csv", b"\xff\xfex\0,\0"), "a.csv: the file is UTF-16; save it as UTF-8");
        assert_eq!(message("a.csv", b"x,\0\n1,2\n"), "a.csv: the header has zero bytes; this is no text file");
        let missing = folder.path().join("none.csv");
        assert!(chain(&read(&missing, &Request::default()).unwrap_err()).starts_with("cannot open "));
        assert!(chain(&read(folder.path(), &Request::default()).unwrap_err()).contains("this is a folder"));
    }

    #[test]
    fn compressed_csv_is_read_as_what_it_holds_whatever_its_name_is() {
        let folder = tempfile::tempdir().unwrap();
        let text = (0..2000).fold("id;x\n".to_owned(), |text, row| format!("{text}p{row};{}\n", row / 2));
        let plain = folder.path().join("a.csv");
        std::fs::write(&plain, &text).unwrap();
        let zstd = zstd::encode_all(text.as_bytes(), 3).unwrap();
        let gzip = |text: &[u8]| {
            let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            packer.write_all(text).unwrap();
            packer.finish().unwrap()
        };
        // Compressors that work in parallel write several streams one after the other.
        let (first, second) = text.as_bytes().split_at(5000);
        let several = [gzip(first), gzip(second)].concat();
        let several_zstd = [zstd::encode_all(first, 1).unwrap(), zstd::encode_all(second, 1).unwrap()].concat();
        let request = Request { id: Some("id".into()), ..Request::default() };
        let expected = read(&plain, &request).unwrap();
        for (name, bytes) in [
            ("a.csv.gz", &gzip(text.as_bytes())),
            ("a.csv", &several),
            ("a.csv.zst", &zstd),
            ("several", &several_zstd),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(header(&path, None).unwrap(), ["id", "x"]);
            let frame = read(&path, &request).unwrap();
            assert_eq!(frame.column("x").unwrap().values, expected.column("x").unwrap().values, "{name}");
            assert_eq!(frame.ids(), expected.ids());
            let mut batches = Batches::open(&path, &request).unwrap();
            assert_eq!(batches.next(1500).unwrap().unwrap().rows(), 1500);
            assert_eq!(batches.next(1500).unwrap().unwrap().rows(), 500);
            // A file that was cut short is an error, and not a shorter table.
            for length in [bytes.len() / 2, bytes.len() - 1] {
                std::fs::write(&path, &bytes[..length]).unwrap();
                assert!(matches!(read(&path, &request), Err(ReadError::Read { .. })), "{name}, {length}");
            }
            let torn = Request { torn: true, ..request.clone() };
            let refused = chain(&Batches::open(&path, &torn).unwrap_err());
            assert!(
                refused.ends_with("a private stream cannot be read from a compressed file; unpack it first"),
                "{refused}"
            );
        }
    }

    #[test]
    fn marks_and_levels_of_a_request_decide_what_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        std::fs::write(&path, "x;region\n1,5;north\n.;NULL\nNaN;east\n").unwrap();
        let words = [".", "NaN", "NULL"].map(String::from);
        let levels = BTreeMap::from([("region".to_owned(), ["north", "south"].map(String::from).to_vec())]);
        let request = Request { marks: Marks::new(&words, Some(",")).unwrap(), levels, ..Request::default() };
        assert!(chain(&read(&path, &request).unwrap_err()).contains("level `east` is not declared"));
        let frame = read(&path, &Request { unseen: true, ..request }).unwrap();
        let missing =
            |name: &str| (0..3).map(|row| frame.column(name).unwrap().values.is_missing(row)).collect::<Vec<_>>();
        assert_eq!((missing("x"), missing("region")), (vec![false, true, true], vec![false, true, true]));
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
