//! CSV in which every physical line is one record, for private streams.
//!
//! In the usual reading a quote may span lines, blank lines are passed over, and a line that cannot be read ends the
//! table: what one contributor writes decides how many records there are, and whether those of others are heard. Here a
//! line feed ends a record whatever stands before it. A line that cannot be read is a record in which everything is
//! missing, and nothing after the header is an error but a source that fails.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use csv::ByteRecord;

use super::csv::{self as text, LONGEST_HEADER, no_header};
use super::rows::Rows;
use super::{Opened, ReadError, Source};

/// Longest line of a record, bytes: so much memory is held, whatever comes.
const LONGEST_LINE: usize = 1 << 20;

/// A table that is being read.
struct Table {
    source: BufReader<Source>,
    separator: u8,
    /// Number of the last line.
    line: u64,
    text: Vec<u8>,
    /// The cell that is being taken out of its quotes.
    cell: Vec<u8>,
    record: ByteRecord,
    /// Whether a last line without a line feed counts as cut short.
    cut: bool,
    ended: bool,
}

/// Opens CSV of which every line counts. Of a source that is `cut` where its writer stops, a last line without a line feed cannot be
/// read: its last cell may have lost digits.
///
/// # Errors
///
/// A source that fails or is no table, a header with empty or repeated names.
pub(super) fn open(source: Source, file: &str, separator: Option<u8>, cut: bool) -> Result<Opened, ReadError> {
    let (table, header) = Table::new(source, file, separator, cut)?;
    Opened::new(file, header, table)
}

impl super::Table for Table {
    /// Whatever a record is, there is an error only where the source fails.
    fn next(&mut self, most: usize, rows: &mut Rows) -> Result<(), ReadError> {
        while rows.len() < most && !self.ended {
            let end = next_line(&mut self.source, &mut self.text, LONGEST_LINE).unwrap_or_else(|error| {
                let error = ReadError::read(rows.file())(error);
                rows.stop(error);
                End::Nothing
            });
            if end == End::Nothing {
                self.ended = true;
                break;
            }
            self.line += 1;
            let whole = end == End::Feed || end == End::Source && !self.cut;
            self.record.clear();
            if !(whole && self.split()) {
                self.record.clear();
            }
            text::put(rows, &self.record, self.line)?;
        }
        Ok(())
    }
}

impl Table {
    /// Reads the header, the first line that is not blank, and gives its names too.
    fn new(source: Source, file: &str, separator: Option<u8>, cut: bool) -> Result<(Table, Vec<String>), ReadError> {
        let mut source = BufReader::with_capacity(1 << 16, source);
        let (mut header, mut line) = (Vec::new(), 0);
        loop {
            let end = next_line(&mut source, &mut header, LONGEST_HEADER).map_err(ReadError::read(file))?;
            line += 1;
            if end == End::TooLong {
                return Err(no_header(file));
            }
            if end != End::Feed || !header.trim_ascii().is_empty() {
                break;
            }
        }
        let (_, header, separator) = text::Table::new(Box::new(Cursor::new(header)), file, separator, false)?;
        let (text, cell, record) = (Vec::new(), Vec::new(), ByteRecord::new());
        Ok((Table { source, separator, line, text, cell, record, cut, ended: false }, header))
    }

    /// Splits the line into the cells of the record; `false` where a quote is not closed in it, or is closed in the middle of a cell.
    fn split(&mut self) -> bool {
        let mut rest = self.text.strip_suffix(b"\r").unwrap_or(&self.text);
        loop {
            let end = match rest.strip_prefix(b"\"") {
                None => {
                    let end = rest.iter().position(|byte| *byte == self.separator).unwrap_or(rest.len());
                    self.record.push_field(&rest[..end]);
                    end
                }
                Some(quoted) => {
                    let Some(length) = unquoted(quoted, &mut self.cell) else { return false };
                    self.record.push_field(&self.cell);
                    1 + length
                }
            };
            match rest.get(end) {
                None => return true,
                Some(byte) if *byte == self.separator => rest = &rest[end + 1..],
                Some(_) => return false,
            }
        }
    }
}

/// Takes what stands before the closing quote, a double quote as one, and says where the cell ends.
fn unquoted(mut quoted: &[u8], cell: &mut Vec<u8>) -> Option<usize> {
    cell.clear();
    let whole = quoted.len();
    loop {
        let quote = quoted.iter().position(|byte| *byte == b'"')?;
        cell.extend_from_slice(&quoted[..quote]);
        quoted = &quoted[quote + 1..];
        match quoted.strip_prefix(b"\"") {
            None => return Some(whole - quoted.len()),
            Some(after) => {
                cell.push(b'"');
                quoted = after;
            }
        }
    }
}

/// How a line ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// With a line feed.
    Feed,
    /// With the source.
    Source,
    /// With a line feed or the source, after more bytes than can be held.
    TooLong,
    /// There was none.
    Nothing,
}

/// Reads a line without its line feed. Of one that is too long nothing is kept.
fn next_line(source: &mut impl BufRead, line: &mut Vec<u8>, longest: usize) -> io::Result<End> {
    line.clear();
    source.by_ref().take(longest as u64 + 1).read_until(b'\n', line)?;
    if line.pop_if(|last| *last == b'\n').is_some() {
        return Ok(End::Feed);
    }
    if line.len() <= longest {
        return Ok(if line.is_empty() { End::Nothing } else { End::Source });
    }
    line.clear();
    source.skip_until(b'\n')?;
    Ok(End::TooLong)
}

#[cfg(test)]
mod tests {
    use fedreg_common::data::{Place, Values};
    use proptest::prelude::*;

    use super::super::rows::LONGEST_ID;
    use super::super::tests::chain;
    use super::super::{Batches, Request};
    use super::*;

    fn request() -> Request {
        Request {
            columns: Some(vec!["a".to_owned(), "y".to_owned()]),
            id: Some("who".to_owned()),
            lenient: true,
            torn: true,
            ..Request::default()
        }
    }

    fn open(text: impl Read + Send + 'static, cut: bool) -> Result<Batches, ReadError> {
        super::open(Box::new(text), "pipe", None, cut)?.batches(&request())
    }

    /// Identifier and numbers of every record, and where it stands.
    fn records(text: impl Read + Send + 'static, rows: usize, cut: bool) -> Vec<(Vec<u8>, [f64; 2], Place)> {
        let mut table = open(text, cut).unwrap();
        let mut all = Vec::new();
        while let Some(frame) = table.next(rows).unwrap() {
            let numbers = |name: &str| match &frame.column(name).unwrap().values {
                Values::Numeric(values) => values.clone(),
                other => panic!("{other:?}"),
            };
            let (a, y) = (numbers("a"), numbers("y"));
            for (row, id) in frame.ids().unwrap().iter().enumerate() {
                all.push((id.to_vec(), [a[row], y[row]], frame.place(row)));
            }
        }
        all
    }

    fn is_unreadable((id, values, _): &(Vec<u8>, [f64; 2], Place)) -> bool {
        id.is_empty() && values.iter().all(|value| value.is_nan())
    }

    #[test]
    fn every_physical_line_is_one_record_and_quotes_never_span_lines() {
        let text = "who;a;y\n\np1;1;2\r\n  \np2;\"3\";\"4\"\n\"p3;5;6\np4\";7;8\n\"p;\"\"5\";9;10\np6;1\n\"p7\"x;1;2\n";
        for rows in [1, 3, 100] {
            let all = records(text.as_bytes(), rows, false);
            assert_eq!(all.len(), 9);
            let places: Vec<Place> = all.iter().map(|record| record.2).collect();
            assert_eq!(places, (2..11).map(Place::Line).collect::<Vec<_>>());
            let unreadable: Vec<usize> = (0..9).filter(|&at| is_unreadable(&all[at])).collect();
            assert_eq!(unreadable, [0, 2, 4, 7, 8]);
            let sound = |at: usize| (all[at].0.as_slice(), all[at].1);
            assert_eq!(sound(1), (b"p1".as_slice(), [1.0, 2.0]));
            assert_eq!(sound(3), (b"p2".as_slice(), [3.0, 4.0]));
            assert_eq!(sound(5), (b"p4\"".as_slice(), [7.0, 8.0]));
            assert_eq!(sound(6), (b"p;\"5".as_slice(), [9.0, 10.0]));
        }
    }

    #[test]
    fn a_last_line_without_its_end_is_a_record_and_unreadable_where_the_writer_may_have_stopped() {
        let text = "who,a,y\np1,1,2\np2,3,4";
        assert!(!is_unreadable(&records(text.as_bytes(), 5, false)[1]));
        let cut = records(text.as_bytes(), 5, true);
        assert_eq!((cut.len(), is_unreadable(&cut[0]), is_unreadable(&cut[1])), (2, false, true));
        assert_eq!(records("who,a,y\n".as_bytes(), 5, true), []);
        assert_eq!(records("who,a,y".as_bytes(), 5, true), []);
    }

    /// A source without an end in its memory: a record of a given number of bytes, in small pieces.
    fn long(bytes: u64) -> impl Read + Send + 'static {
        let digits = io::repeat(b'9').take(bytes);
        b"who,a,y\np1,1,2\np2,".as_slice().chain(digits).chain(b",4\np3,5,6\n".as_slice())
    }

    #[test]
    fn a_line_of_any_length_is_passed_over_in_bounded_memory() {
        for (bytes, readable) in [(1000, true), (LONGEST_LINE as u64, false), (50_000_000, false)] {
            let (mut table, _) = Table::new(Box::new(long(bytes)), "pipe", None, true).unwrap();
            let mut header = super::open(Box::new(&b"who,a,y\n"[..]), "pipe", None, true).unwrap();
            let mut rows = Rows::new(&mut header, &request()).unwrap();
            super::super::Table::next(&mut table, 10, &mut rows).unwrap();
            assert_eq!(rows.len(), 3);
            assert!(table.text.capacity() <= 2 * LONGEST_LINE && table.cell.capacity() <= 2 * LONGEST_LINE);
            let all = records(long(bytes), 10, true);
            // So many digits are no number, but the line can be read.
            assert_eq!((all[1].0 == b"p2", is_unreadable(&all[2])), (readable, false), "{bytes}");
        }
        // A name is held until its record has left, so it is bounded too.
        let text = format!("who,a,y\n{},1,2\n", "p".repeat(LONGEST_ID + 1));
        assert_eq!(records(Cursor::new(text), 5, true)[0].0, b"");
    }

    #[test]
    fn a_header_is_one_line_too_and_is_refused_as_everywhere() {
        let message = |text: &'static str| chain(&open(text.as_bytes(), true).unwrap_err());
        assert_eq!(message("\"who,a,y\n\"p1\",1,2\n"), "pipe: line 1: a quote is opened and never closed");
        assert_eq!(message("who,a,a\n"), "cannot use pipe: the header has the name `a` twice, as columns 2 and 3");
        assert_eq!(message("who,a\n"), "cannot use pipe: there is no column `y`");
        assert_eq!(message("\n \r\n"), "pipe: the file is empty");
    }

    /// Fails after what it holds.
    struct Failing(&'static [u8]);

    impl Read for Failing {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            match self.0.read(buffer)? {
                0 => Err(io::Error::other("the line is down")),
                read => Ok(read),
            }
        }
    }

    #[test]
    fn what_came_before_a_source_failed_is_given_out_first() {
        let mut table = open(Failing(b"who,a,y\np1,1,2\np2,3,4\np3"), true).unwrap();
        assert_eq!(table.next(5).unwrap().unwrap().rows(), 2);
        assert!(chain(&table.next(5).unwrap_err()).contains("the line is down"));
        assert!(table.next(5).unwrap().is_none());
    }

    proptest! {
        #[test]
        fn a_line_of_any_bytes_is_one_record_and_leaves_the_others_as_they_are(
            line in proptest::collection::vec(proptest::sample::select(b"a1,;\"\r\t|.\xe9\x01\0 -eN".to_vec()), 0..40),
            at in 0usize..6,
            rows in 1usize..8,
            ends in any::<bool>(),
        ) {
            let mut lines: Vec<Vec<u8>> = (0..6).map(|row| format!("p{row},{row},{}", 2 * row).into_bytes()).collect();
            let text = |lines: &[Vec<u8>]| [b"who,a,y\n".to_vec(), lines.join(&b'\n'), if ends { b"\n".to_vec() } else { Vec::new() }].concat();
            let usual = records(Cursor::new(text(&lines)), rows, !ends);
            lines[at] = line;
            // No bytes after the last line feed are no line.
            prop_assume!(ends || !lines[5].is_empty());
            let found = records(Cursor::new(text(&lines)), rows, !ends);
            prop_assert_eq!(found.len(), 6);
            for row in (0..6).filter(|row| *row != at) {
                prop_assert_eq!(format!("{:?}", &found[row]), format!("{:?}", &usual[row]));
            }
        }
    }
}
