//! CSV: a line of names, then one line per row.
//!
//! Separators are `,` `;` tab and `|`, found in the header unless given. Quotes, quoted line breaks, `\r\n`, a UTF-8 byte
//! order mark and blank lines are understood, and messages name the line that an editor shows.

use std::fmt;
use std::io::{self, Cursor, Read};

use csv::{ByteRecord, ReaderBuilder, Terminator};
use fedreg_common::data::column::is_missing;
use fedreg_common::data::{ColumnBuilder, DataError, Frame, Ids, MAX_ROWS, Place, Places, check_names};

use super::{ReadError, Request, named, select};

const SEPARATORS: [u8; 4] = [b',', b';', b'\t', b'|'];

/// Longest header line, bytes.
const LONGEST_HEADER: usize = 16 << 20;

/// Reads a whole table; `file` stands for the source in messages.
///
/// # Errors
///
/// A source that fails or is no table, a column that is not there, and everything that makes data unusable.
pub fn read(source: impl Read, file: &str, request: &Request) -> Result<Frame, ReadError> {
    let mut table = Table::new(source, file, request)?;
    while table.row()? {}
    let Table { columns, ids, places, .. } = table;
    let columns = columns.into_iter().map(ColumnBuilder::finish).collect::<Result<_, _>>();
    let frame = columns.and_then(|columns| Frame::new(columns, ids, places));
    frame.map_err(|source| ReadError::Data { file: file.to_owned(), source })
}

/// The names of all columns.
///
/// # Errors
///
/// A source that fails or is no table, and a header with empty or repeated names.
pub fn header(source: impl Read, file: &str, separator: Option<u8>) -> Result<Vec<String>, ReadError> {
    let request = Request { columns: Some(Vec::new()), separator, ..Request::default() };
    Ok(Table::new(source, file, &request)?.header)
}

/// A table that is being read.
pub struct Table<R> {
    file: String,
    reader: csv::Reader<Marked<R>>,
    record: ByteRecord,
    header: Vec<String>,
    /// Positions of the columns in the file, in the order of `columns`.
    positions: Vec<usize>,
    columns: Vec<ColumnBuilder>,
    id: Option<usize>,
    ids: Option<Ids>,
    places: Places,
    separator: u8,
    ended: bool,
    any: bool,
    /// As in the [`Request`].
    torn: bool,
}

impl<R: Read> Table<R> {
    /// Reads the header and finds the requested columns in it.
    ///
    /// # Errors
    ///
    /// A source that fails or is no table, a header with empty or repeated names, a column that is not there.
    pub fn new(mut source: R, file: &str, request: &Request) -> Result<Table<R>, ReadError> {
        let refuse = |problem: &str| ReadError::Format { file: file.to_owned(), problem: problem.to_owned() };
        let mut start = beginning(&mut source, file)?;
        for (magic, problem) in [
            (&b"PK\x03\x04"[..], "this is a ZIP archive or an Excel workbook; export it as CSV"),
            (b"\x1f\x8b", "the file is compressed; unpack it first"),
            (b"\x28\xb5\x2f\xfd", "the file is compressed; unpack it first"),
            (b"\xff\xfe", "the file is UTF-16; save it as UTF-8"),
            (b"\xfe\xff", "the file is UTF-16; save it as UTF-8"),
        ] {
            if start.starts_with(magic) {
                return Err(refuse(problem));
            }
        }
        if start.starts_with(b"\xef\xbb\xbf") {
            start.drain(..3);
        }
        let line = match header_line(&start) {
            (line, _) if line.trim_ascii().is_empty() => return Err(refuse("the file is empty")),
            (line, _) => line,
        };
        if line.contains(&0) {
            return Err(refuse("the header has zero bytes; this is no text file"));
        }
        if line.strip_suffix(b"\r").unwrap_or(line).contains(&b'\r') && !line.contains(&b'"') {
            return Err(refuse("the lines end with a carriage return alone; save the file with line feeds"));
        }
        let separator = request.separator.unwrap_or_else(|| find_separator(line));
        let reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(separator)
            // Only this terminator makes the line numbers exact; a carriage return before it is taken off here.
            .terminator(Terminator::Any(b'\n'))
            .buffer_capacity(1 << 18)
            .from_reader(Marked::new(start, source));
        let mut table = Table {
            file: file.to_owned(),
            reader,
            record: ByteRecord::new(),
            header: Vec::new(),
            positions: Vec::new(),
            columns: Vec::new(),
            id: None,
            ids: None,
            places: Places::default(),
            separator,
            ended: false,
            any: false,
            torn: request.torn,
        };
        table.record()?;
        let last = table.record.len().saturating_sub(1);
        for (position, name) in table.record.iter().enumerate() {
            let name = if position == last { without_return(name) } else { name };
            let name =
                std::str::from_utf8(name).map_err(|_| refuse("the header is not UTF-8; save the file as UTF-8"))?;
            table.header.push(name.to_owned());
        }
        let data = |source| ReadError::Data { file: file.to_owned(), source };
        check_names(table.header.iter().map(String::as_str)).map_err(data)?;
        (table.positions, table.id) = select(&table.header, request).map_err(data)?;
        table.ids = table.id.map(|_| Ids::default());
        for &position in &table.positions {
            let name = &table.header[position];
            table.columns.push(request.builder(name).map_err(data)?);
        }
        Ok(table)
    }

    /// The next rows, at most `rows` of them and fewer only at the end; `None` after the last.
    ///
    /// # Errors
    ///
    /// Everything that makes data unusable, and a table that ends without a row.
    pub fn next(&mut self, rows: usize) -> Result<Option<Frame>, ReadError> {
        while self.places.len() < rows.max(1) && self.row()? {}
        self.batch()
    }

    /// The rows that were taken since the batch before.
    pub(super) fn batch(&mut self) -> Result<Option<Frame>, ReadError> {
        // In a stream it is no error that nothing ever came.
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

    /// The next row's cells as they are written; `false` at the end.
    pub(super) fn cells(&mut self, cells: &mut Vec<Vec<u8>>) -> Result<bool, ReadError> {
        if self.record()?.is_none() {
            return Ok(false);
        }
        let last = self.header.len() - 1;
        cells.clear();
        let written = self.record.iter().enumerate();
        cells.extend(written.map(|(at, cell)| if at == last { without_return(cell).to_vec() } else { cell.to_vec() }));
        Ok(true)
    }

    /// The names of the columns.
    pub(super) fn names(&self) -> &[String] {
        &self.header
    }

    /// Reads one row into the columns; `false` at the end.
    fn row(&mut self) -> Result<bool, ReadError> {
        let Some(line) = self.record()? else { return Ok(false) };
        self.put(line)?;
        Ok(true)
    }

    /// Takes the cells of a line from elsewhere, in place of those of the source; nothing of a line that cannot be read.
    pub(super) fn take<'a>(&mut self, cells: impl Iterator<Item = &'a [u8]>, line: u64) -> Result<(), ReadError> {
        self.record.clear();
        cells.for_each(|cell| self.record.push_field(cell));
        self.put(line)
    }

    /// Puts the present record into the columns.
    fn put(&mut self, line: u64) -> Result<(), ReadError> {
        let torn = self.record.len() != self.header.len();
        if torn && !self.torn {
            return Err(ReadError::Ragged {
                file: self.file.clone(),
                line,
                found: self.record.len(),
                expected: self.header.len(),
            });
        }
        let place = Place::Line(line);
        let last = self.header.len() - 1;
        let cell = |position: usize| {
            let cell = self.record.get(position).filter(|_| !torn).unwrap_or_default();
            if position == last { without_return(cell) } else { cell }
        };
        for (&position, column) in self.positions.iter().zip(&mut self.columns) {
            if let Err(source) = column.cell(cell(position), place) {
                return Err(self.data(source));
            }
        }
        if let (Some(position), Some(ids)) = (self.id, &mut self.ids) {
            let id = cell(position);
            if is_missing(id) && !self.torn {
                return Err(self.data(DataError::MissingId { column: self.header[position].clone(), place }));
            }
            ids.push(if self.torn { named(id) } else { id });
        }
        if self.places.len() == MAX_ROWS {
            return Err(self.data(DataError::TooManyRows { most: MAX_ROWS }));
        }
        self.places.push(place);
        Ok(())
    }

    /// Rows that were taken since the last batch.
    pub(super) fn waiting(&self) -> usize {
        self.places.len()
    }

    /// What stands between two cells.
    pub(super) fn separator(&self) -> u8 {
        self.separator
    }

    /// Reads the next record that is not blank and says at which line it begins; `None` at the end.
    fn record(&mut self) -> Result<Option<u64>, ReadError> {
        while !self.ended {
            let before = self.reader.position().line();
            let more = self.reader.read_byte_record(&mut self.record).map_err(|error| self.failed(error))?;
            let position = self.reader.position();
            let at_end = self.reader.get_ref().ended && position.byte() == self.reader.get_ref().delivered;
            if !more || at_end && self.record.len() == 1 && self.record.as_slice() == [MARK] {
                self.ended = true;
                break;
            }
            // A record that took one line feed has neither blank lines before it nor quoted breaks inside.
            let breaks = match position.line() - before {
                1 if !at_end => 0,
                _ => self.record.as_slice().iter().filter(|byte| **byte == b'\n').count() as u64,
            };
            if at_end {
                // The mark did not come as a line of its own, so a field that is still open has swallowed it.
                let problem = format!("line {}: a quote is opened and never closed", position.line() - breaks);
                return Err(ReadError::Format { file: self.file.clone(), problem });
            }
            let blank = self.record.len() == 1 && self.record.as_slice().trim_ascii().is_empty();
            if !blank {
                return Ok(Some(position.line() - breaks - 1));
            }
        }
        Ok(None)
    }

    fn failed(&self, error: csv::Error) -> ReadError {
        let source = match error.into_kind() {
            csv::ErrorKind::Io(source) => source,
            other => io::Error::other(format!("{other:?}")),
        };
        ReadError::Read { file: self.file.clone(), source }
    }

    fn data(&self, source: DataError) -> ReadError {
        ReadError::Data { file: self.file.clone(), source }
    }
}

/// Sizes only: the cells are the data that must not leave.
impl<R> fmt::Debug for Table<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("file", &self.file).field("columns", &self.columns.len()).finish_non_exhaustive()
    }
}

fn without_return(cell: &[u8]) -> &[u8] {
    cell.strip_suffix(b"\r").unwrap_or(cell)
}

/// Reads until the first line that is not blank is complete.
fn beginning(source: &mut impl Read, file: &str) -> Result<Vec<u8>, ReadError> {
    let mut start = Vec::new();
    let mut chunk = vec![0; 1 << 16];
    loop {
        match source.read(&mut chunk) {
            Ok(0) => return Ok(start),
            Ok(read) => start.extend_from_slice(&chunk[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(source) => {
                return Err(ReadError::Read { file: file.to_owned(), source });
            }
        }
        if header_line(&start).1 {
            return Ok(start);
        }
        if start.len() > LONGEST_HEADER {
            let problem = format!("no header within the first {} MiB; this is no table", LONGEST_HEADER >> 20);
            return Err(ReadError::Format { file: file.to_owned(), problem });
        }
    }
}

/// The first line that is not blank, without its line feed, and whether it is complete. Quoted line breaks belong to it.
fn header_line(start: &[u8]) -> (&[u8], bool) {
    let mut quoted = false;
    let mut begin = 0;
    for (index, &byte) in start.iter().enumerate() {
        match byte {
            b'"' => quoted = !quoted,
            b'\n' if !quoted => {
                let line = &start[begin..index];
                if !line.trim_ascii().is_empty() {
                    return (line, true);
                }
                begin = index + 1;
            }
            _ => {}
        }
    }
    (&start[begin..], false)
}

/// The separator that stands most often outside of quotes; a comma where none does.
fn find_separator(line: &[u8]) -> u8 {
    let mut counts = [0usize; SEPARATORS.len()];
    let mut quoted = false;
    for &byte in line {
        quoted ^= byte == b'"';
        if let Some(index) = SEPARATORS.iter().position(|&separator| separator == byte).filter(|_| !quoted) {
            counts[index] += 1;
        }
    }
    let most = counts.iter().copied().max().unwrap_or(0);
    let index = counts.iter().position(|&count| count == most).unwrap_or(0);
    SEPARATORS[index]
}

const MARK: u8 = 1;

/// Ends every source with a line feed and one more line, the mark.
///
/// The CSV parser accepts a quote that is never closed and gives everything after it as one cell. The mark shows it: it
/// must come back as a line of its own.
struct Marked<R> {
    start: Cursor<Vec<u8>>,
    source: R,
    last: u8,
    rest: &'static [u8],
    ended: bool,
    delivered: u64,
}

impl<R: Read> Marked<R> {
    fn new(start: Vec<u8>, source: R) -> Marked<R> {
        Marked { start: Cursor::new(start), source, last: b'\n', rest: &[], ended: false, delivered: 0 }
    }
}

impl<R: Read> Read for Marked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        while !self.ended {
            let read = match self.start.read(buffer)? {
                0 => self.source.read(buffer),
                read => Ok(read),
            };
            match read {
                Ok(0) => {
                    self.ended = true;
                    self.rest = if self.last == b'\n' { &[MARK, b'\n'] } else { &[b'\n', MARK, b'\n'] };
                }
                Ok(read) => {
                    self.last = buffer[read - 1];
                    self.delivered += read as u64;
                    return Ok(read);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let read = self.rest.read(buffer)?;
        self.delivered += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Batches;
    use super::super::tests::chain;
    use super::*;
    use fedreg_common::data::Values;
    use proptest::prelude::*;
    use std::sync::mpsc;

    fn all(text: &str) -> Result<Frame, ReadError> {
        read(text.as_bytes(), "a.csv", &Request::default())
    }

    fn message(text: &str) -> String {
        chain(&all(text).unwrap_err())
    }

    fn numbers(frame: &Frame, name: &str) -> Vec<f64> {
        match &frame.column(name).unwrap().values {
            Values::Numeric(values) => values.clone(),
            other => panic!("{other:?}"),
        }
    }

    fn texts(frame: &Frame, name: &str) -> Vec<String> {
        match &frame.column(name).unwrap().values {
            Values::Categorical { codes, levels, .. } => {
                codes.iter().map(|&code| levels.get(code as usize).cloned().unwrap_or_default()).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    fn lines(frame: &Frame) -> Vec<Place> {
        (0..frame.rows()).map(|row| frame.place(row)).collect()
    }

    #[test]
    fn the_separator_is_found_in_the_header() {
        for separator in [",", ";", "\t", "|"] {
            let text =
                ["\"a,;|x\",b,c", "1,2,3", ""].join("\n").replace(",b,c", &[separator, "b", separator, "c"].concat());
            let text = text.replace("1,2,3", &["1", "2", "3"].join(separator));
            let frame = all(&text).unwrap();
            assert_eq!(frame.names().collect::<Vec<_>>(), ["a,;|x", "b", "c"], "{text}");
            assert_eq!(numbers(&frame, "c"), [3.0]);
        }
        assert_eq!(numbers(&all("x\n1\n").unwrap(), "x"), [1.0]);
        let request = Request { separator: Some(b':'), ..Request::default() };
        let frame = read(&b"a:b,c\n1:2\n"[..], "a.csv", &request).unwrap();
        assert_eq!(frame.names().collect::<Vec<_>>(), ["a", "b,c"]);
    }

    #[test]
    fn every_way_to_end_a_line_gives_the_same_table() {
        let expected = ([1.0, 3.0], ["u", "v"]);
        for text in [
            "a,b\n1,u\n3,v\n",
            "a,b\n1,u\n3,v",
            "a,b\r\n1,u\r\n3,v\r\n",
            "a,b\r\n1,u\r\n3,v",
            "\u{feff}a,b\n1,u\n3,v\n",
            "\u{feff}\"a\",\"b\"\r\n1,\"u\"\r\n3,\"v\"\r\n",
            "\n\r\na,b\n\n1,u\n\r\n  \n3,v\n\n\n",
        ] {
            let frame = all(text).unwrap();
            assert_eq!(
                (&numbers(&frame, "a")[..], &texts(&frame, "b")[..]),
                (&expected.0[..], &expected.1.map(String::from)[..]),
                "{text:?}"
            );
        }
    }

    #[test]
    fn lines_are_counted_over_blank_lines_and_quoted_breaks() {
        for end in ["\n", "\r\n"] {
            let text = ["", "\"a", "b\",c", "1,\"x", "y\"", "", "", "2,\"\"\"q\"", "3,z", ""].join(end);
            let frame = all(&text).unwrap();
            assert_eq!(lines(&frame), [4, 8, 9].map(Place::Line), "{text:?}");
            assert_eq!(texts(&frame, "c"), [format!("x{end}y"), "\"q".into(), "z".into()]);
            assert_eq!(lines(&all(text.trim_end()).unwrap()), [4, 8, 9].map(Place::Line));
        }
    }

    #[test]
    fn errors_name_file_line_and_column() {
        assert_eq!(
            message("a,b\n1,2\n\n3,x\n"),
            "cannot use a.csv: column `b` mixes numbers (first at line 2) and text (first `x` at line 4); \
             write one kind, and leave cells empty or write NA where a value is missing"
        );
        assert_eq!(
            message("a\n1\nNaN\n"),
            "cannot use a.csv: column `a`, line 3: `NaN` is not a value; leave the cell empty or write NA \
             where a value is missing, or declare it: na_values = [\"NaN\"] in the private file, --na-values as a flag"
        );
        assert_eq!(message("a,b\n1,2\n1,2,3\n"), "a.csv, line 3: expected 2 cells as in the header, found 3");
        assert_eq!(message("a,b\n1,2\n1\n"), "a.csv, line 3: expected 2 cells as in the header, found 1");
        assert_eq!(
            message("a,b,a\n1,2,3\n"),
            "cannot use a.csv: the header has the name `a` twice, as columns 1 and 3"
        );
        assert!(
            message(",b\n1,2\n")
                .ends_with("column 1 of the header has no name; give it one, or write the file without it")
        );
        assert!(message("a,b,\r\n1,2,\r\n").contains("column 3 of the header has no name"));
        assert!(message("x;y\n1,5;2\n2,5;3\n").contains("column `x`, line 2: `1,5` looks like a number with a comma"));
        assert_eq!(
            message("a\r1\r2\r"),
            "a.csv: the lines end with a carriage return alone; save the file with line feeds"
        );
    }

    #[test]
    fn a_quote_that_is_never_closed_is_refused_with_its_line() {
        for text in ["a,b\n1,u\n2,\"v\n3,w\n", "a,b\n1,u\n2,\"v\n3,w", "a,b\n1,u\n2,\""] {
            assert_eq!(message(text), "a.csv: line 3: a quote is opened and never closed", "{text:?}");
        }
        assert_eq!(message("\"a,b\n1,2\n"), "a.csv: line 1: a quote is opened and never closed");
        assert_eq!(texts(&all("a,b\n1,u\n2,\"v\n\"").unwrap(), "b"), ["u", "v\n"]);
        assert_eq!(texts(&all("a,b\n1,u\n2,\u{1}\n").unwrap(), "b"), ["u", "\u{1}"]);
        assert_eq!(texts(&all("a\n\u{1}\nv\n\u{1}").unwrap(), "a"), ["\u{1}", "v", "\u{1}"]);
    }

    #[test]
    fn only_requested_columns_are_parsed_and_ids_stay_as_they_are() {
        let text = "id,age,note,bmi\n007,1,x,2\n7,3,1,NA\n";
        let request =
            Request { columns: Some(vec!["bmi".into(), "age".into()]), id: Some("id".into()), ..Request::default() };
        let frame = read(text.as_bytes(), "a.csv", &request).unwrap();
        assert_eq!(frame.names().collect::<Vec<_>>(), ["bmi", "age"]);
        assert_eq!(frame.ids().unwrap().iter().collect::<Vec<_>>(), [b"007".as_slice(), b"7"]);
        assert!(numbers(&frame, "bmi")[1].is_nan());
        let error = read("id,age\n1,2\n,3\n".as_bytes(), "a.csv", &Request { columns: None, ..request.clone() });
        assert_eq!(chain(&error.unwrap_err()), "cannot use a.csv: column `id`, line 3: the row has no id");
        let error = read("id,age\n1,2\n".as_bytes(), "a.csv", &request).unwrap_err();
        assert_eq!(chain(&error), "cannot use a.csv: there is no column `bmi`");
        assert_eq!(header(text.as_bytes(), "a.csv", None).unwrap(), ["id", "age", "note", "bmi"]);
    }

    #[test]
    fn declared_levels_are_held_against_the_file() {
        let levels = [("dose".to_owned(), vec!["2".to_owned(), "1".to_owned()])].into();
        let request = Request { levels, ..Request::default() };
        let frame = read("dose\n1\n2\n".as_bytes(), "a.csv", &request).unwrap();
        assert!(matches!(&frame.columns()[0].values, Values::Categorical { codes, .. } if codes == &[1, 0]));
        let error = read("dose\n1\n3\n".as_bytes(), "a.csv", &request).unwrap_err();
        assert_eq!(
            chain(&error),
            "cannot use a.csv: column `dose`, line 3: level `3` is not declared; declared are `2`, `1`"
        );
    }

    #[test]
    fn text_that_is_not_utf_8_is_refused() {
        let error = read(&b"a,b\n1,caf\xe9\n"[..], "a.csv", &Request::default()).unwrap_err();
        assert!(chain(&error).contains("column `b`, line 2: the text is not UTF-8"));
        let error = read(&b"a,caf\xe9\n1,2\n"[..], "a.csv", &Request::default()).unwrap_err();
        assert!(chain(&error).contains("the header is not UTF-8"));
    }

    /// A source that blocks until somebody sends, as a followed file does.
    struct Followed(mpsc::Receiver<Vec<u8>>, Vec<u8>);

    impl Read for Followed {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.1.is_empty() {
                self.1 = self.0.recv().unwrap_or_default();
            }
            let read = self.1.len().min(buffer.len());
            buffer[..read].copy_from_slice(&self.1[..read]);
            self.1.drain(..read);
            Ok(read)
        }
    }

    #[test]
    fn a_followed_source_gives_a_batch_as_soon_as_its_last_line_is_complete() {
        let (send, receive) = mpsc::channel();
        for part in ["x,f", "\n1,", "true\n", "2,false\n3,"] {
            send.send(part.as_bytes().to_vec()).unwrap();
        }
        let mut batches = Batches::from_reader(Followed(receive, Vec::new()), "pipe", &Request::default()).unwrap();
        let first = batches.next(2).unwrap().unwrap();
        assert_eq!(numbers(&first, "x"), [1.0, 2.0]);
        assert_eq!(first.columns()[1].values, Values::Boolean(vec![Some(true), Some(false)]));
        send.send(b"TRUE\n4".to_vec()).unwrap();
        send.send(b",\n5,true".to_vec()).unwrap();
        drop(send);
        let second = batches.next(2).unwrap().unwrap();
        assert_eq!(second.columns()[1].values, Values::Boolean(vec![Some(true), None]));
        assert_eq!(second.place(1), Place::Line(5));
        assert_eq!(batches.next(2).unwrap().unwrap().rows(), 1);
        assert!(batches.next(2).unwrap().is_none());
        assert!(batches.next(2).unwrap().is_none());
    }

    #[test]
    fn text_in_batches_needs_declared_levels_and_an_empty_stream_is_refused() {
        let batches = |text: &'static str, request: &Request| Batches::from_reader(text.as_bytes(), "pipe", request);
        let error = batches("f\na\n", &Request::default()).unwrap().next(5).unwrap_err();
        assert!(chain(&error).contains("column `f`, line 2: `a` is text; declare the levels"), "{}", chain(&error));
        let levels = [("f".to_owned(), vec!["a".to_owned(), "b".to_owned()])].into();
        let mut declared = batches("f\na\nb\n", &Request { levels, ..Request::default() }).unwrap();
        assert_eq!(texts(&declared.next(1).unwrap().unwrap(), "f"), ["a"]);
        assert_eq!(texts(&declared.next(1).unwrap().unwrap(), "f"), ["b"]);
        assert!(chain(&batches("f\n", &Request::default()).unwrap().next(1).unwrap_err()).contains("no rows"));
    }

    proptest! {
        #[test]
        fn a_written_table_is_read_back(
            rows in proptest::collection::vec((any::<i64>(), -1e300f64..1e300, "[a-z]\\PC{0,6}|[a-z][\",;\n |]{0,4}x"), 1..30),
            separator in proptest::sample::select(SEPARATORS.to_vec()),
            windows in any::<bool>(),
            size in 1usize..8,
        ) {
            prop_assume!(rows.iter().all(|row| !["nan", "inf", "infinity"].contains(&row.2.to_lowercase().as_str())));
            prop_assume!(!rows.iter().all(|row| ["true", "false"].contains(&row.2.to_lowercase().as_str())));
            let mut writer = csv::WriterBuilder::new()
                .delimiter(separator)
                .terminator(if windows { Terminator::CRLF } else { Terminator::Any(b'\n') })
                .from_writer(Vec::new());
            writer.write_record(["id", "x, y", "f"]).unwrap();
            for (id, x, f) in &rows {
                writer.write_record([id.to_string(), x.to_string(), f.clone()]).unwrap();
            }
            let bytes = writer.into_inner().unwrap();
            let request = Request { id: Some("id".into()), ..Request::default() };
            let frame = read(&bytes[..], "a.csv", &request).unwrap();
            prop_assert_eq!(numbers(&frame, "x, y"), rows.iter().map(|row| row.1).collect::<Vec<_>>());
            prop_assert_eq!(texts(&frame, "f"), rows.iter().map(|row| row.2.clone()).collect::<Vec<_>>());
            let ids: Vec<String> = rows.iter().map(|row| row.0.to_string()).collect();
            prop_assert!(frame.ids().unwrap().iter().eq(ids.iter().map(|id| id.as_bytes())));
            let mut line = 2;
            for (row, (_, _, f)) in rows.iter().enumerate() {
                prop_assert_eq!(frame.place(row), Place::Line(line));
                line += 1 + f.matches('\n').count() as u64;
            }
            let columns = Request { columns: Some(vec!["x, y".into()]), ..request };
            let mut batches = Batches::from_reader(Cursor::new(bytes), "a.csv", &columns).unwrap();
            let mut together = Vec::new();
            while let Some(batch) = batches.next(size).unwrap() {
                prop_assert!(batch.rows() == size || together.len() + batch.rows() == rows.len());
                together.extend(numbers(&batch, "x, y"));
            }
            prop_assert_eq!(together, numbers(&frame, "x, y"));
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(proptest::sample::select(b"a1,;\"\n\r\t|.\xe9\x01\0 ".to_vec()), 0..60)) {
            if let Err(error) = read(&bytes[..], "a.csv", &Request::default()) {
                let _ = chain(&error);
            }
        }
    }
}
