//! CSV: a line of names, then one line per row.
//!
//! Separators are `,` `;` tab and `|`, found in the header unless given. Quotes, quoted line breaks, `\r\n`, a UTF-8 byte
//! order mark and blank lines are understood, and messages name the line that an editor shows.

use std::io::{self, Cursor, Read};

use csv::{ByteRecord, ReaderBuilder, Terminator};
use fedreg_common::data::Place;

use super::ranges::Rest;
use super::rows::Rows;
use super::typed::Cell;
use super::{Bytes, Format, How, Opened, ReadError, Source, lines};

/// Takes whatever no other format takes.
pub(super) const FORMAT: Format = Format {
    takes: |_| true,
    open: |found, how| match found.bytes {
        Bytes::File(file) => open(Box::new(file), &found.name, how, false),
        Bytes::Object(ranges) => open(Box::new(Rest::all(ranges)), &found.name, how, false),
        Bytes::Unfinished(source) => open(source, &found.name, how, true),
    },
};

const SEPARATORS: [u8; 4] = [b',', b';', b'\t', b'|'];

/// Longest header line, bytes.
pub(super) const LONGEST_HEADER: usize = 16 << 20;

/// Longest record, bytes: a quote that is never closed, or a file that unpacks to more than a machine holds, must not fill its memory.
const LONGEST_RECORD: u64 = 64 << 20;

/// Opens CSV. Where its writer may stop anywhere, it is `cut` if its last line does not end with a line feed.
pub(super) fn open(source: Source, file: &str, how: &How, cut: bool) -> Result<Opened, ReadError> {
    if how.torn {
        return lines::open(source, file, how.separator, cut);
    }
    let (table, header, _) = Table::new(source, file, how.separator, cut)?;
    Opened::new(file, header, table)
}

/// A table that is being read.
pub(super) struct Table {
    reader: csv::Reader<Marked>,
    record: ByteRecord,
    ended: bool,
}

impl Table {
    /// Reads the header; gives its names and its separator too.
    ///
    /// # Errors
    ///
    /// A source that fails or is no table.
    pub(super) fn new(
        mut source: Source,
        file: &str,
        separator: Option<u8>,
        cut: bool,
    ) -> Result<(Table, Vec<String>, u8), ReadError> {
        let refuse = |problem: &str| ReadError::format(file, problem);
        let mut start = beginning(&mut source, file)?;
        for (magic, problem) in [
            (&b"PK\x03\x04"[..], "this is a ZIP archive or an Excel workbook; export it as CSV"),
            (b"\x1f\x8b", "the file is compressed; unpack it first"),
            (b"\x28\xb5\x2f\xfd", "the file is compressed; unpack it first"),
            (b"PAR1", "this is a Parquet file, whose end is read first; name the file itself in place of a pipe"),
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
        let (line, _) = header_line(&start);
        if line.trim_ascii().is_empty() {
            return Err(refuse("the file is empty"));
        }
        if line.contains(&0) {
            return Err(refuse("the header has zero bytes; this is no text file"));
        }
        if without_return(line).contains(&b'\r') && !line.contains(&b'"') {
            return Err(refuse("the lines end with a carriage return alone; save the file with line feeds"));
        }
        let separator = separator.unwrap_or_else(|| find_separator(line));
        let reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(separator)
            // Only this terminator makes the line numbers exact; a carriage return before it is taken off here.
            .terminator(Terminator::Any(b'\n'))
            .buffer_capacity(1 << 18)
            .from_reader(Marked::new(start, source, cut));
        let mut table = Table { reader, record: ByteRecord::new(), ended: false };
        table.record(file)?;
        let last = table.record.len().saturating_sub(1);
        let header = table.record.iter().enumerate().map(|(at, name)| {
            let name = std::str::from_utf8(if at == last { without_return(name) } else { name });
            name.map(str::to_owned).map_err(|_| refuse("the header is not UTF-8; save the file as UTF-8"))
        });
        let header = header.collect::<Result<_, _>>()?;
        Ok((table, header, separator))
    }

    /// Reads the next record that is not blank and says at which line it begins; `None` at the end.
    fn record(&mut self, file: &str) -> Result<Option<u64>, ReadError> {
        while !self.ended {
            let before = self.reader.position().line();
            let marked = self.reader.get_mut();
            marked.most = marked.delivered.saturating_add(LONGEST_RECORD);
            let read = self.reader.read_byte_record(&mut self.record);
            let marked = self.reader.get_ref();
            if read.is_err() && marked.delivered > marked.most {
                let problem =
                    format!("line {before}: a row of more than {} MiB; is a quote never closed?", LONGEST_RECORD >> 20);
                return Err(ReadError::format(file, problem));
            }
            let more = read.map_err(|error| {
                let kind = error.into_kind();
                let other = |kind: csv::ErrorKind| io::Error::other(format!("{kind:?}"));
                ReadError::read(file)(if let csv::ErrorKind::Io(source) = kind { source } else { other(kind) })
            })?;
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
                return Err(ReadError::format(file, problem));
            }
            let blank = self.record.len() == 1 && self.record.as_slice().trim_ascii().is_empty();
            if !blank {
                return Ok(Some(position.line() - breaks - 1));
            }
        }
        Ok(None)
    }
}

impl super::Table for Table {
    fn next(&mut self, most: usize, rows: &mut Rows) -> Result<(), ReadError> {
        while rows.len() < most
            && let Some(line) = self.record(rows.file())?
        {
            put(rows, &self.record, line)?;
        }
        Ok(())
    }
}

/// Puts the cells of a line into the columns; where every line counts, nothing but missing values of one that has not as many cells as
/// the header.
pub(super) fn put(rows: &mut Rows, record: &ByteRecord, line: u64) -> Result<(), ReadError> {
    let expected = rows.width();
    let torn = record.len() != expected;
    if torn && !rows.torn() {
        return Err(ReadError::Ragged { file: rows.file().to_owned(), line, found: record.len(), expected });
    }
    let place = Place::Line(line);
    for at in 0..rows.picks().len() {
        let position = rows.picks()[at];
        let cell = record.get(position).filter(|_| !torn).unwrap_or_default();
        let cell = if position + 1 == expected { without_return(cell) } else { cell };
        rows.put(at, Cell::Written(cell), place)?;
    }
    rows.end(place, 1)
}

fn without_return(cell: &[u8]) -> &[u8] {
    cell.strip_suffix(b"\r").unwrap_or(cell)
}

/// Reads until the first line that is not blank is complete.
fn beginning(source: &mut Source, file: &str) -> Result<Vec<u8>, ReadError> {
    let mut start = Vec::new();
    let mut chunk = vec![0; 1 << 16];
    loop {
        match source.read(&mut chunk) {
            Ok(0) => return Ok(start),
            Ok(read) => start.extend_from_slice(&chunk[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(ReadError::read(file)(error)),
        }
        if header_line(&start).1 {
            return Ok(start);
        }
        if start.len() > LONGEST_HEADER {
            return Err(no_header(file));
        }
    }
}

pub(super) fn no_header(file: &str) -> ReadError {
    ReadError::format(file, format!("no header within the first {} MiB; this is no table", LONGEST_HEADER >> 20))
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
    let unquoted = || line.split(|byte| *byte == b'"').step_by(2).flatten();
    let count = |separator: &u8| unquoted().filter(|byte| *byte == separator).count();
    // Of those that stand as often as each other the first.
    SEPARATORS.into_iter().rev().max_by_key(count).unwrap_or(b',')
}

/// One line of CSV as its cells.
pub(crate) fn cells(line: &str) -> Result<Vec<String>, String> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(line.as_bytes());
    let mut records = reader.records();
    match (records.next(), records.next()) {
        (Some(Ok(record)), None) => Ok(record.iter().map(|cell| cell.trim().to_owned()).collect()),
        (Some(Err(error)), _) => Err(format!("not a list: {error}")),
        _ => Err("expected a comma-separated list".to_owned()),
    }
}

const MARK: u8 = 1;

/// Ends every source with a line feed and one more line, the mark. An end in the middle of a line is an error where the writer may have
/// stopped there: the last cell may have lost digits.
///
/// The CSV parser accepts a quote that is never closed and gives everything after it as one cell. The mark shows it: it
/// must come back as a line of its own.
struct Marked {
    source: io::Chain<Cursor<Vec<u8>>, Source>,
    cut: bool,
    last: u8,
    rest: &'static [u8],
    ended: bool,
    delivered: u64,
    /// How much may be delivered before the next record has ended.
    most: u64,
}

impl Marked {
    fn new(start: Vec<u8>, source: Source, cut: bool) -> Marked {
        let source = Cursor::new(start).chain(source);
        Marked { source, cut, last: b'\n', rest: &[], ended: false, delivered: 0, most: LONGEST_RECORD }
    }
}

impl Read for Marked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let mut read = loop {
            match self.source.read(if self.ended { &mut [] } else { &mut *buffer }) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        match buffer[..read].last() {
            Some(last) => self.last = *last,
            None if self.cut && self.last != b'\n' => {
                let sentence = "the input ends in the middle of a row; the last row must end with a line feed";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, sentence));
            }
            None => {
                if !std::mem::replace(&mut self.ended, true) {
                    self.rest = if self.last == b'\n' { &[MARK, b'\n'] } else { &[b'\n', MARK, b'\n'] };
                }
                read = self.rest.read(buffer)?;
            }
        }
        self.delivered += read as u64;
        if self.delivered > self.most {
            return Err(io::Error::other("a record is too long"));
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::chain;
    use super::super::{Batches, Request, Written};
    use super::*;
    use fedreg_common::data::{Frame, Values};
    use proptest::prelude::*;
    use std::sync::mpsc;

    #[test]
    fn a_row_without_an_end_is_refused_before_it_fills_the_memory() {
        for endless in ["1", ",", "\"", " "] {
            let source = Cursor::new("a,b\n1,2\n3,\"").chain(std::io::repeat(endless.as_bytes()[0]).take(1 << 40));
            let opened = Opened::from_reader(source, "a.csv", None).unwrap();
            let sentence = chain(&opened.read(&Request::default()).unwrap_err());
            assert_eq!(sentence, "a.csv: line 3: a row of more than 64 MiB; is a quote never closed?", "{endless}");
        }
    }

    fn open(text: impl AsRef<[u8]>, separator: Option<u8>) -> Result<Opened, ReadError> {
        Opened::from_reader(Cursor::new(text.as_ref().to_vec()), "a.csv", separator)
    }

    fn read(text: impl AsRef<[u8]>, request: &Request) -> Result<Frame, ReadError> {
        open(text, request.written.separator)?.read(request)
    }

    fn all(text: &str) -> Result<Frame, ReadError> {
        read(text, &Request::default())
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
        let written = Written { separator: Some(b':'), ..Written::default() };
        let request = Request { written, ..Request::default() };
        let frame = read(b"a:b,c\n1:2\n", &request).unwrap();
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
    fn an_end_in_the_middle_of_a_line_is_an_error_where_the_writer_may_have_stopped() {
        let rows = |text: &'static str| {
            Batches::from_pipe(text.as_bytes(), "pipe", &Request::default())?.next(5).map(|rows| rows.unwrap().rows())
        };
        assert_eq!(rows("a,b\n1,2\n").unwrap(), 1);
        for text in ["a,b\n1,2\n3,4", "a,b\n1,2", "a,b"] {
            assert!(chain(&rows(text).unwrap_err()).contains("in the middle of a row"), "{text}");
        }
        assert_eq!(all("a,b\n1,2").unwrap().rows(), 1);
    }

    #[test]
    fn errors_name_file_line_and_column() {
        assert_eq!(
            message("a,b\n1,2\n\n3,x\n"),
            "cannot use a.csv: column `b` mixes numbers (first at line 2) and text (first `x` at line 4); \
             write one kind, and leave cells empty or write NA where a value is missing; of a column of classes name them in the \
             study file: `levels` under [columns.NAME]"
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
        let frame = read(text, &request).unwrap();
        assert_eq!(frame.names().collect::<Vec<_>>(), ["bmi", "age"]);
        assert_eq!(frame.ids().unwrap().iter().collect::<Vec<_>>(), [b"007".as_slice(), b"7"]);
        assert!(numbers(&frame, "bmi")[1].is_nan());
        let error = read("id,age\n1,2\n,3\n", &Request { columns: None, ..request.clone() });
        assert_eq!(chain(&error.unwrap_err()), "cannot use a.csv: column `id`, line 3: the row has no id");
        let error = read("id,age\n1,2\n", &request).unwrap_err();
        assert_eq!(chain(&error), "cannot use a.csv: there is no column `bmi`");
        assert_eq!(open(text, None).unwrap().columns(), ["id", "age", "note", "bmi"]);
    }

    #[test]
    fn declared_levels_are_held_against_the_file() {
        let levels = [("dose".to_owned(), vec!["2".to_owned(), "1".to_owned()])].into();
        let request = Request { levels, ..Request::default() };
        let frame = read("dose\n1\n2\n", &request).unwrap();
        assert!(matches!(&frame.columns()[0].values, Values::Categorical { codes, .. } if codes == &[1, 0]));
        let error = read("dose\n1\n3\n", &request).unwrap_err();
        assert_eq!(
            chain(&error),
            "cannot use a.csv: column `dose`, line 3: level `3` is not declared; declared are `2`, `1`"
        );
    }

    #[test]
    fn text_that_is_not_utf_8_is_refused() {
        let error = read(b"a,b\n1,caf\xe9\n", &Request::default()).unwrap_err();
        assert!(chain(&error).contains("column `b`, line 2: the text is not UTF-8"));
        let error = read(b"a,caf\xe9\n1,2\n", &Request::default()).unwrap_err();
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
        let table = Opened::from_reader(Followed(receive, Vec::new()), "pipe", None).unwrap();
        let mut batches = table.batches(&Request::default()).unwrap();
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
        let batches =
            |text: &str, request: &Request| -> Result<Batches, ReadError> { open(text, None)?.batches(request) };
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
            let frame = read(&bytes, &request).unwrap();
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
            let mut batches = open(&bytes, None).unwrap().batches(&columns).unwrap();
            let mut together = Vec::new();
            while let Some(batch) = batches.next(size).unwrap() {
                prop_assert!(batch.rows() == size || together.len() + batch.rows() == rows.len());
                together.extend(numbers(&batch, "x, y"));
            }
            prop_assert_eq!(together, numbers(&frame, "x, y"));
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(proptest::sample::select(b"a1,;\"\n\r\t|.\xe9\x01\0 ".to_vec()), 0..60)) {
            if let Err(error) = read(&bytes, &Request::default()) {
                let _ = chain(&error);
            }
        }
    }
}
