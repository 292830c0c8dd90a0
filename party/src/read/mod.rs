//! Tables, whole or in batches, from every place and in every format that the two lists below name.
//!
//! A source is stated as a path, or as what another `Origin` understands. An opened `Table` tells its columns and puts typed cells
//! into `Rows`, which make columns of them: what a cell means is decided in `fedreg_common::data`, so that a table means the same
//! wherever it comes from. Error texts may quote cells: they are for the local terminal and must not be sent to a peer.

mod arrow;
pub mod content;
mod csv;
pub(crate) mod file;
mod folder;
mod lines;
mod objects;
mod packed;
mod parquet;
mod pipe;
mod postgres;
mod ranges;
mod rows;
#[cfg(any(feature = "postgres", feature = "s3"))]
mod secrets;
mod sqlite;
mod stated;
mod typed;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fedreg_common::data::{ColumnBuilder, DataError, Frame, Ids, Marks, check_names};
use fedreg_common::exit::Exit;

pub(crate) use self::csv::cells;
use self::ranges::Ranges;
use self::rows::Rows;
pub(crate) use self::sqlite::BEGINNING as SQLITE;
pub use self::stated::{Chosen, Stated};
pub(crate) use self::stated::{after, holds_secret};

/// Where tables come from: the first that takes a source opens it. The last takes every path.
static ORIGINS: [Origin; 6] =
    [pipe::ORIGIN, sqlite::ORIGIN, postgres::ORIGIN, objects::ORIGIN, folder::ORIGIN, file::ORIGIN];

/// What bytes can hold: the first that takes them reads them. The last takes everything.
static FORMATS: [Format; 5] = [arrow::FORMAT, parquet::FORMAT, packed::FORMAT, sqlite::FORMAT, csv::FORMAT];

/// What is said of an address with a password.
pub(crate) const SECRET: &str = "an address must hold no password and no key: passwords of data bases come from PGPASSWORD, from ~/.pgpass \
    or from the file that `?passfile=` names, keys of stores from the environment or ~/.aws/credentials; a data base is stated as \
    postgres://USER@HOST/DATABASE";

/// Stands for standard input in place of a file.
pub const STDIN: &str = "-";

/// What a format knows of a table whose columns are known and whose rows are not read yet.
trait Table: Send {
    /// Prepares a column to be read, as a term of a model or as the `id`.
    ///
    /// # Errors
    ///
    /// Its type has no place there.
    fn pick(&mut self, _position: usize, _id: bool) -> Result<(), ReadError> {
        Ok(())
    }

    /// Puts rows into `rows` until `most` are waiting there, fewer only at the end: of each the columns that `rows` picked, in that
    /// order.
    ///
    /// # Errors
    ///
    /// A source that fails or is damaged, and everything that makes data unusable.
    fn next(&mut self, most: usize, rows: &mut Rows) -> Result<(), ReadError>;
}

/// Where tables come from.
struct Origin {
    /// Whether a source that is stated so is here.
    takes: fn(&Path) -> bool,
    /// How its sources are stated.
    statement: Statement,
    /// By what it is known again. A file's is found without opening it: a pipe with a name can be opened once only.
    identity: fn(&Stated) -> Result<Option<Identity>, ReadError>,
    open: fn(&Stated, &How) -> Result<Opened, ReadError>,
}

/// How the sources of an origin are stated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Statement {
    /// By the path of a table, which may be relative.
    Path,
    /// Otherwise, and it has one table.
    Table,
    /// Otherwise, and what of it is read is stated too.
    Base,
}

/// How the bytes of a table are read.
struct Format {
    takes: fn(&Found) -> bool,
    open: fn(Found, &How) -> Result<Opened, ReadError>,
}

/// By what a source is known again, however it is stated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// What it is, whatever leads to it.
    pub key: String,
    /// What its rows are taken from, whatever leads to them: the files of a folder, the tables of a query. A source that takes rows
    /// from one of them too is the same data set.
    pub parts: Vec<String>,
    /// Where it is, written out.
    pub place: String,
    /// What changes whenever its rows do; nothing where only the rows themselves tell.
    pub stamp: Option<String>,
}

/// How a source is opened.
struct How {
    /// As in the [`Request`].
    separator: Option<u8>,
    /// As in the [`Request`].
    torn: bool,
    arrival: Arrival,
}

impl How {
    /// All at once.
    fn whole(separator: Option<u8>) -> How {
        How { separator, torn: false, arrival: Arrival::default() }
    }
}

/// How rows come.
#[derive(Debug, Clone, Default)]
pub struct Arrival {
    /// Whether the file grows, and is waited for.
    pub follow: bool,
    /// After so long without a new byte the file counts as ended.
    pub idle: Option<Duration>,
    /// Set to end it.
    pub stop: Arc<AtomicBool>,
}

type Source = Box<dyn Read + Send>;

/// Bytes of a source, of which the first are known.
struct Found {
    /// Stands for the source in messages.
    name: String,
    /// The first four, if there are four and they can be looked at.
    start: Vec<u8>,
    bytes: Bytes,
}

enum Bytes {
    File(File),
    /// In a store, from which any part can be had.
    #[cfg_attr(not(feature = "s3"), allow(dead_code))]
    Object(Arc<dyn Ranges>),
    /// From a pipe, a socket or a file that still grows, whose writer may stop anywhere.
    Unfinished(Source),
}

fn origin(source: &Path) -> &'static Origin {
    let last = ORIGINS.len() - 1;
    ORIGINS[..last].iter().find(|origin| (origin.takes)(source)).unwrap_or(&ORIGINS[last])
}

fn of_bytes(found: Found, how: &How) -> Result<Opened, ReadError> {
    let last = FORMATS.len() - 1;
    let format = FORMATS[..last].iter().find(|format| (format.takes)(&found)).unwrap_or(&FORMATS[last]);
    (format.open)(found, how)
}

fn open(source: &Stated, how: &How) -> Result<Opened, ReadError> {
    let origin = origin(source.place());
    if holds_secret(source.place()) {
        return Err(ReadError::stated(source.to_string(), SECRET));
    }
    if is_unknown(source.place()) {
        let known = "addresses of this kind are not known: a source is a file, a folder, sqlite:FILE, postgres://USER@HOST/DATABASE or \
            s3://BUCKET/KEY";
        return Err(ReadError::stated(source.to_string(), known));
    }
    match (origin.statement, source.chosen()) {
        (Statement::Path | Statement::Table, Some(_)) => Err(ReadError::stated(
            source.to_string(),
            "this is no data base, of which `data.table` or `data.query` (--table, --query) could name a part",
        )),
        (Statement::Base, None) => Err(ReadError::stated(
            source.to_string(),
            "what of this data base is read is not stated: give `data.table` or `data.query` (--table, --query)",
        )),
        (Statement::Path | Statement::Table, None) | (Statement::Base, Some(_)) => (origin.open)(source, how),
    }
}

/// By what a source is known again; nothing where there is none, or where nothing is known of it.
///
/// # Errors
/// A data base that cannot be asked.
pub fn identity(source: &Stated) -> Result<Option<Identity>, ReadError> {
    (origin(source.place()).identity)(source)
}

/// A source as it is stated from every folder: a relative path is made absolute.
///
/// # Errors
/// The working folder is gone.
pub fn located(source: &Path) -> io::Result<PathBuf> {
    match after(source, SQLITE) {
        Some(file) => Ok(format!("{SQLITE}{}", std::path::absolute(file)?.display()).into()),
        None if is_path(source) => std::path::absolute(source),
        None => Ok(source.to_owned()),
    }
}

/// Whether a source ends with its first reading, as a pipe does.
pub(crate) fn ends_once_read(source: &Stated) -> bool {
    let place = source.place();
    let path = is_path(place) && !place.is_dir();
    path && std::fs::metadata(place).map_or(place == Path::new(STDIN), |about| !about.is_file())
}

/// Whether a source is stated by a path at which there is nothing.
pub(crate) fn is_absent(source: &Stated) -> bool {
    is_path(source.place()) && std::fs::metadata(source.place()).is_err()
}

/// Whether a source is stated by its path, which may be relative.
pub(crate) fn is_path(source: &Path) -> bool {
    source == Path::new(STDIN) || origin(source).statement == Statement::Path && !is_unknown(source)
}

/// Refuses the path of a file that is not there, before anybody is waited for.
///
/// # Errors
/// [`ReadError::Open`].
pub(crate) fn refuse_missing(source: &Stated) -> Result<(), ReadError> {
    let place = source.place();
    let is_file = std::ptr::eq(origin(place), &ORIGINS[ORIGINS.len() - 1]) && !is_unknown(place);
    match std::fs::metadata(place) {
        Err(error) if is_file && error.kind() == io::ErrorKind::NotFound => {
            Err(ReadError::Open { file: source.to_string(), source: error })
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Whether this is an address that no origin takes, as `https://...`. A drive letter is none.
fn is_unknown(source: &Path) -> bool {
    let text = source.to_string_lossy();
    let Some((scheme, _)) = text.split_once("://") else { return false };
    let is_scheme =
        scheme.len() > 1 && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    is_scheme && origin(source).statement == Statement::Path
}

/// Whether a source is a data base, of which a table or a query is read. Nothing of it names the data set.
pub(crate) fn is_base(source: &Path) -> bool {
    origin(source).statement == Statement::Base
}

/// What to read from a file.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The columns to read, the id apart; `None` reads all. Others are not parsed, and need not be readable.
    pub columns: Option<Vec<String>>,
    /// The column of ids; without one the row number is the id.
    pub id: Option<String>,
    /// Declared levels by column, the reference first. Columns that are not read may stand here too.
    pub levels: BTreeMap<String, Vec<String>>,
    /// How a text file is written.
    pub written: Written,
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

impl Request {
    fn builder(&self, name: &str) -> Result<ColumnBuilder, DataError> {
        let builder = match (self.levels.get(name), self.lenient) {
            (Some(levels), lenient) if lenient || self.unseen => ColumnBuilder::lenient_levels(name, levels)?,
            (Some(levels), _) => ColumnBuilder::with_levels(name, levels)?,
            (None, false) => ColumnBuilder::new(name),
            (None, true) => ColumnBuilder::lenient_numbers(name),
        };
        Ok(builder.marked(&self.written.marks))
    }
}

/// Reads a whole table.
///
/// # Errors
///
/// A source that cannot be read or is no table, a column that is not there, and everything that makes data unusable.
pub fn read(source: impl Into<Stated>, request: &Request) -> Result<Frame, ReadError> {
    Opened::open(source, request.written.separator)?.read(request)
}

/// Reads columns as text, each cell as it stands: an identifier is never read as a number, and a cell without a value is empty.
///
/// # Errors
///
/// As [`read`]; a column of numbers with fractions.
pub fn texts(source: impl Into<Stated>, separator: Option<u8>, names: &[&str]) -> Result<Vec<Ids>, ReadError> {
    let mut opened = Opened::open(source, separator)?;
    let mut rows = Rows::texts(&mut opened, names)?;
    opened.table.next(usize::MAX, &mut rows)?;
    rows.into_texts()
}

/// The names of all columns of a table, in its order.
///
/// # Errors
///
/// A source that cannot be read or is no table, and a header with empty or repeated names.
pub fn header(source: impl Into<Stated>, separator: Option<u8>) -> Result<Vec<String>, ReadError> {
    Ok(Opened::open(source, separator)?.columns().to_vec())
}

/// A table whose columns are known and whose rows are not read yet.
pub struct Opened {
    /// Stands for the source in messages.
    name: String,
    columns: Vec<String>,
    table: Box<dyn Table>,
}

impl Opened {
    /// A table with these columns, whose names must all be there and differ.
    fn new(name: &str, columns: Vec<String>, table: impl Table + 'static) -> Result<Opened, ReadError> {
        check_names(columns.iter().map(String::as_str)).map_err(ReadError::data(name))?;
        Ok(Opened { name: name.to_owned(), columns, table: Box::new(table) })
    }

    /// Opens a table; `separator` as in a [`Request`].
    ///
    /// # Errors
    ///
    /// As [`header`].
    pub fn open(source: impl Into<Stated>, separator: Option<u8>) -> Result<Opened, ReadError> {
        open(&source.into(), &How::whole(separator))
    }

    /// Opens complete CSV from anywhere; `name` stands for it in messages.
    ///
    /// # Errors
    ///
    /// As [`header`].
    pub fn from_reader(
        source: impl Read + Send + 'static,
        name: &str,
        separator: Option<u8>,
    ) -> Result<Opened, ReadError> {
        csv::open(Box::new(source), name, &How::whole(separator), false)
    }

    /// The names of all columns, in their order.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Reads all rows.
    ///
    /// # Errors
    ///
    /// As the function [`read`].
    pub fn read(self, request: &Request) -> Result<Frame, ReadError> {
        let Batches { mut table, mut rows } = self.batches(request)?;
        table.next(usize::MAX, &mut rows)?;
        rows.whole()
    }

    /// Reads a few rows at a time.
    ///
    /// # Errors
    ///
    /// A column that is not there or of a type that cannot be used.
    pub fn batches(mut self, request: &Request) -> Result<Batches, ReadError> {
        Ok(Batches { rows: Rows::new(&mut self, request)?, table: self.table })
    }
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened").field("source", &self.name).finish_non_exhaustive()
    }
}

/// Reads a table a few rows at a time, in memory that does not grow with the table.
///
/// Because later batches are not known, text columns need declared levels; `true` and `false` do not, and the first cell
/// that is not missing decides between numbers and truth values for all batches. A batch is given out as soon as its last row is
/// complete.
pub struct Batches {
    table: Box<dyn Table>,
    rows: Rows,
}

impl Batches {
    /// Opens a table.
    ///
    /// # Errors
    ///
    /// As [`read`], as far as the header shows it.
    pub fn open(source: impl Into<Stated>, request: &Request, arrival: &Arrival) -> Result<Batches, ReadError> {
        let how = How { torn: request.torn, arrival: arrival.clone(), ..How::whole(request.written.separator) };
        open(&source.into(), &how)?.batches(request)
    }

    /// Reads CSV or an Arrow IPC stream from a pipe, told apart by the first bytes; `name` stands for it in messages.
    ///
    /// # Errors
    ///
    /// As [`read`], as far as header or schema show it.
    pub fn from_pipe(source: impl Read + Send + 'static, name: &str, request: &Request) -> Result<Batches, ReadError> {
        let how = How { torn: request.torn, ..How::whole(request.written.separator) };
        pipe::open(Box::new(source), name, &how)?.batches(request)
    }

    /// Stands for the source in messages.
    pub fn name(&self) -> &str {
        self.rows.file()
    }

    /// The next rows, at most `rows` of them and fewer only at the end; `None` after the last.
    ///
    /// # Errors
    ///
    /// Everything that makes data unusable, and a table that ends without a row. Where every record counts ([`Request::torn`]),
    /// only what has no records: a source that fails, a stream or a file that is damaged.
    pub fn next(&mut self, rows: usize) -> Result<Option<Frame>, ReadError> {
        self.table.next(rows.max(1), &mut self.rows)?;
        self.rows.batch()
    }
}

/// Sizes only: the cells are the data that must not leave.
impl fmt::Debug for Batches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batches").field("source", &self.name()).field("rows", &self.rows.len()).finish_non_exhaustive()
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
        /// The error beneath.
        source: io::Error,
    },
    /// Reading failed after opening.
    #[error("cannot read {file}")]
    Read {
        /// The file.
        file: String,
        /// The error beneath.
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
        /// The error beneath.
        source: DataError,
    },
    /// A source that is not stated as it must be.
    #[error("{file}: {problem}")]
    Stated {
        /// The source.
        file: String,
        /// What is wrong.
        problem: String,
    },
    /// A data base or a store that cannot be reached, or does not answer.
    #[error("{file}: {problem}")]
    Unreachable {
        /// The source.
        file: String,
        /// What is wrong.
        problem: String,
    },
    /// A data base or a store that does not let us in.
    #[error("{file}: {problem}")]
    Refused {
        /// The source.
        file: String,
        /// What is wrong.
        problem: String,
    },
}

impl ReadError {
    /// The exit code.
    pub fn exit(&self) -> Exit {
        match self {
            ReadError::Open { .. }
            | ReadError::Read { .. }
            | ReadError::Format { .. }
            | ReadError::Ragged { .. }
            | ReadError::Type { .. }
            | ReadError::Data { .. } => Exit::Data,
            ReadError::Stated { .. } => Exit::Usage,
            ReadError::Unreachable { .. } => Exit::Unreachable,
            ReadError::Refused { .. } => Exit::Refused,
        }
    }

    fn stated(file: impl Into<String>, problem: impl Into<String>) -> ReadError {
        ReadError::Stated { file: file.into(), problem: problem.into() }
    }

    fn format(file: &str, problem: impl Into<String>) -> ReadError {
        ReadError::Format { file: file.to_owned(), problem: problem.into() }
    }

    fn read(file: &str) -> impl Fn(io::Error) -> ReadError {
        move |source| ReadError::Read { file: file.to_owned(), source }
    }

    fn data(file: &str) -> impl Fn(DataError) -> ReadError {
        move |source| ReadError::Data { file: file.to_owned(), source }
    }
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

    #[test]
    fn addresses_of_unknown_kinds_are_refused_without_their_password() {
        for (stated, shown) in [
            ("mysql://ana:geheim@db.example/cohort", "mysql://db.example/cohort"),
            ("https://db.example/cohort.csv", "https://db.example/cohort.csv"),
            ("gs://bucket/cohort.parquet", "gs://bucket/cohort.parquet"),
        ] {
            assert!(!is_path(Path::new(stated)));
            let sentence = chain(&read(Path::new(stated), &Request::default()).unwrap_err());
            assert!(sentence.contains(shown) && !sentence.contains("geheim"), "{sentence}");
        }
        for path in ["a:b/c.csv", "C://data/a.csv", "data/a.csv", "/data/a://b.csv"] {
            assert!(is_path(Path::new(path)), "{path}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_device_in_place_of_a_table_is_refused_at_once() {
        let sentence = chain(&read(Path::new("/dev/zero"), &Request::default()).unwrap_err());
        assert!(sentence.contains("this is a pipe or a device, expected a file"), "{sentence}");
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
        assert!(chain(&read(folder.path(), &Request::default()).unwrap_err()).contains("this is no Parquet file"));
    }

    /// How long a source takes that the environment names: all of its columns as numbers, the id apart.
    #[test]
    #[ignore = "a measurement, which examples/compare/sources.py takes"]
    fn reading_takes() {
        let variable = |name: &str| std::env::var(name).ok();
        let table = variable("FEDREG_READ_TABLE").map(Chosen::Table);
        let source = Stated::new(variable("FEDREG_READ").unwrap(), table);
        let passes = variable("FEDREG_READ_PASSES").map_or(1, |passes| passes.parse().unwrap());
        for _ in 0..passes {
            let start = std::time::Instant::now();
            let frame = read(&source, &Request::default()).unwrap();
            println!(
                "{} rows, {} columns: {:.3} s",
                frame.rows(),
                frame.names().count(),
                start.elapsed().as_secs_f64()
            );
        }
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
            let mut batches = Batches::open(&path, &request, &Arrival::default()).unwrap();
            assert_eq!(batches.next(1500).unwrap().unwrap().rows(), 1500);
            assert_eq!(batches.next(1500).unwrap().unwrap().rows(), 500);
            // A file that was cut short is an error, and not a shorter table.
            for length in [bytes.len() / 2, bytes.len() - 1] {
                std::fs::write(&path, &bytes[..length]).unwrap();
                assert!(matches!(read(&path, &request), Err(ReadError::Read { .. })), "{name}, {length}");
            }
            let torn = Request { torn: true, ..request.clone() };
            let refused = chain(&Batches::open(&path, &torn, &Arrival::default()).unwrap_err());
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
        let written = Written { marks: Marks::new(&words, Some(",")).unwrap(), ..Written::default() };
        let request = Request { written, levels, ..Request::default() };
        assert!(chain(&read(&path, &request).unwrap_err()).contains("level `east` is not declared"));
        let frame = read(&path, &Request { unseen: true, ..request }).unwrap();
        let missing =
            |name: &str| (0..3).map(|row| frame.column(name).unwrap().values.is_missing(row)).collect::<Vec<_>>();
        assert_eq!((missing("x"), missing("region")), (vec![false, true, true], vec![false, true, true]));
    }
}
