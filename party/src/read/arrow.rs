//! Arrow IPC streams, as other engines pipe record batches.
//!
//! The same types are understood as in Parquet: truth values, whole and floating-point numbers and text, with nulls as
//! missing values. Columns of other types may be in the stream as long as nobody asks for them.
//!
//! Read without the arrow crates. `arrow-ipc` 60 with what it needs takes 70 s of processor time to compile at the profile of this
//! workspace, most of it `arrow-select`, and its decoder of LZ4 reserves as much memory as eight bytes of the stream ask for, before it
//! has read what would fill it. A stream is a row of messages, each a FlatBuffers table that says where in the bytes after it the values
//! lie.
//!
//! # Reference
//!
//! The Apache Arrow columnar format, version 1.5: "Encapsulated message format", "IPC streaming format",
//! `Message.fbs`, `Schema.fbs`.

mod flat;

use std::io::{self, Read};
use std::ops::Range;

use fedreg_common::data::Place;

use self::flat::{Cut, Table as Flat};
use super::rows::Rows;
use super::typed::{Cell, Meaning};
use super::{Bytes, Format, Opened, ReadError, Source};

/// Pipes that begin as an Arrow IPC stream does.
pub(super) const FORMAT: Format = Format {
    takes: |found| matches!(found.bytes, Bytes::Unfinished(_)) && found.start == START,
    open: |found, how| {
        let source: Source = match found.bytes {
            Bytes::File(file) => Box::new(file),
            Bytes::Unfinished(source) => source,
        };
        open(source, &found.name, how.torn)
    },
};

/// What every message begins with.
const START: [u8; 4] = [0xff; 4];

/// Longest description of a message, bytes.
const LONGEST_HEADER: usize = 16 << 20;

/// Longest record batch of a private stream, bytes: so much memory is held, whatever comes. The records of a longer one are passed
/// over, each as one that cannot be read.
const LONGEST_BODY: usize = 1 << 30;

/// Most columns, those inside of others counted, and how deep they may lie.
const MOST_FIELDS: usize = 1_000_000;
const DEEPEST: usize = 64;

/// What is wrong with a stream that ends too soon.
const CUT_SHORT: &str = "it ends without its end marker";

/// Kinds of messages.
const SCHEMA: u8 = 1;
const DICTIONARY: u8 = 2;
const BATCH: u8 = 3;

/// A stream that is being read in batches of rows; its own record batches may have any size.
struct Table {
    file: String,
    source: Source,
    fields: Vec<Field>,
    /// What has come and is not yet given out, from row `taken` on.
    current: Option<Batch>,
    taken: usize,
    row: u64,
    ended: bool,
    /// Whether every record counts: then errors come after the rows before them, and bytes that end too soon are missing values.
    torn: bool,
}

/// One column of the stream.
struct Field {
    name: String,
    kind: Kind,
    /// How many entries it and its children have among the batch's nodes and buffers.
    nodes: usize,
    buffers: usize,
}

/// How a column's values lie.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Nothing,
    Truth,
    Whole {
        bytes: usize,
        signed: bool,
    },
    Single,
    Double,
    /// Text with offsets of a given number of bytes.
    Text {
        offset: usize,
    },
    Other(&'static str),
}

/// A record batch.
#[derive(Default)]
struct Batch {
    rows: usize,
    body: Vec<u8>,
    /// First and last byte in the body.
    buffers: Vec<(usize, usize)>,
    /// Number of missing values, by node.
    missing: Vec<usize>,
}

/// Reads the schema.
fn open(mut source: Source, file: &str, torn: bool) -> Result<Opened, ReadError> {
    let Some((SCHEMA, header, _)) = message(&mut source, file, None)? else {
        return Err(damaged(file, "it does not begin with a schema"));
    };
    let fields = schema(&header).map_err(|Cut| damaged(file, "the schema is cut short"))?;
    let names = fields.iter().map(|field| field.name.clone()).collect();
    let table = Table { file: file.to_owned(), source, fields, current: None, taken: 0, row: 0, ended: false, torn };
    Opened::new(file, names, table)
}

impl Table {
    /// The next message that has rows; `None` at the end of the stream.
    fn record_batch(&mut self, rows: &Rows) -> Result<Option<Batch>, ReadError> {
        while !self.ended {
            let longest = self.torn.then_some(LONGEST_BODY);
            let Some((kind, header, body)) = message(&mut self.source, &self.file, longest)? else {
                self.ended = true;
                break;
            };
            match kind {
                // Columns with dictionaries were refused where they are asked for; others may have them.
                DICTIONARY => {}
                BATCH => {
                    let nodes = self.fields.iter().map(|field| field.nodes).sum();
                    let cut = |Cut| damaged(&self.file, "a record batch is cut short");
                    let most = body.as_ref().map_or(usize::MAX, |body| body.len().saturating_mul(8));
                    let batch = batch(&header, body, nodes).map_err(cut)?;
                    let batch = batch.ok_or_else(|| damaged(&self.file, "compressed record batches cannot be read"))?;
                    // Elsewhere the first value that is not there shows it; a value takes a bit at least.
                    if self.torn && batch.rows > most {
                        return Err(cut(Cut));
                    }
                    rows.room(batch.rows)?;
                    return Ok(Some(batch));
                }
                _ => return Err(damaged(&self.file, "a message is neither a schema nor a record batch")),
            }
        }
        Ok(None)
    }

    fn pull(&mut self, batch: &Batch, range: Range<usize>, rows: &mut Rows) -> Result<(), ReadError> {
        let first = self.row + 1;
        let cut = |Cut| damaged(&self.file, "a column is shorter than its batch");
        for at in 0..rows.picks().len() {
            let view = View::new(&self.fields, rows.picks()[at], batch);
            let view = or_missing(view, self.torn, View::NOTHING).map_err(cut)?;
            for (row, place) in range.clone().zip(first..) {
                let cell = or_missing(view.cell(row), self.torn, Cell::Missing).map_err(cut)?;
                rows.put(at, cell, Place::Row(place))?;
            }
        }
        self.row += range.len() as u64;
        rows.end(Place::Row(first), range.len())
    }
}

impl super::Table for Table {
    fn pick(&mut self, position: usize, id: bool) -> Result<(), ReadError> {
        usable(&self.file, &self.fields[position], id)?;
        // What cannot be counted hides where the columns after it lie.
        if let Some(field) = self.fields[..position].iter().find(|field| field.nodes == 0) {
            let expected = "columns of this type cannot be skipped, so leave it out of the stream";
            return Err(refused(&self.file, field, expected));
        }
        Ok(())
    }

    fn next(&mut self, most: usize, rows: &mut Rows) -> Result<(), ReadError> {
        while rows.len() < most {
            if self.current.is_none() {
                let batch = match self.record_batch(rows) {
                    Err(error) if self.torn => {
                        self.ended = true;
                        rows.stop(error);
                        None
                    }
                    batch => batch?,
                };
                (self.current, self.taken) = (batch, 0);
            }
            let Some(batch) = self.current.take() else { break };
            let end = batch.rows.min(self.taken.saturating_add(most - rows.len()));
            self.pull(&batch, self.taken..end, rows)?;
            self.taken = end;
            self.current = Some(batch).filter(|batch| end < batch.rows);
        }
        Ok(())
    }
}

/// What is there of bytes that may end too soon; where every record counts, `missing` stands for the rest.
fn or_missing<T>(found: Result<T, Cut>, torn: bool, missing: T) -> Result<T, Cut> {
    if torn { Ok(found.unwrap_or(missing)) } else { found }
}

/// One column of a record batch.
struct View<'a> {
    kind: Kind,
    /// Bits of the rows that are not missing; empty where none is.
    valid: &'a [u8],
    values: &'a [u8],
    text: &'a [u8],
}

impl<'a> View<'a> {
    const NOTHING: View<'static> = View { kind: Kind::Nothing, valid: &[], values: &[], text: &[] };

    fn new(fields: &[Field], position: usize, batch: &'a Batch) -> Result<View<'a>, Cut> {
        let before = &fields[..position];
        let node: usize = before.iter().map(|field| field.nodes).sum();
        let first: usize = before.iter().map(|field| field.buffers).sum();
        let missing = *batch.missing.get(node).ok_or(Cut)?;
        let buffer = |at: usize| -> Result<&'a [u8], Cut> {
            let (from, to) = *batch.buffers.get(first + at).ok_or(Cut)?;
            batch.body.get(from..to).ok_or(Cut)
        };
        let kind = fields[position].kind;
        if kind == Kind::Nothing {
            return Ok(View::NOTHING);
        }
        Ok(View {
            kind,
            valid: if missing == 0 { &[] } else { buffer(0)? },
            values: buffer(1)?,
            text: if matches!(kind, Kind::Text { .. }) { buffer(2)? } else { &[] },
        })
    }

    fn cell(&self, row: usize) -> Result<Cell<'a>, Cut> {
        let bit = |bits: &[u8]| bits.get(row / 8).map(|byte| byte >> (row % 8) & 1 == 1).ok_or(Cut);
        if !(self.valid.is_empty() || bit(self.valid)?) {
            return Ok(Cell::Missing);
        }
        Ok(match self.kind {
            Kind::Nothing | Kind::Other(_) => Cell::Missing,
            Kind::Truth => Cell::Truth(bit(self.values)?),
            Kind::Whole { bytes, signed } => Cell::Whole(whole(self.values, row, bytes, signed)?, Meaning::Plain),
            Kind::Single => Cell::Number(f64::from(f32::from_le_bytes(entry(self.values, row)?))),
            Kind::Double => Cell::Number(f64::from_le_bytes(entry(self.values, row)?)),
            Kind::Text { offset } => {
                let at = |row| usize::try_from(whole(self.values, row, offset, true)?).map_err(|_| Cut);
                Cell::Text(self.text.get(at(row)?..at(row + 1)?).ok_or(Cut)?)
            }
        })
    }
}

/// The `row`-th entry of `N` bytes.
fn entry<const N: usize>(values: &[u8], row: usize) -> Result<[u8; N], Cut> {
    let bytes = values.get(N * row..N * row + N).ok_or(Cut)?;
    bytes.try_into().map_err(|_| Cut)
}

fn whole(values: &[u8], row: usize, bytes: usize, signed: bool) -> Result<i128, Cut> {
    let entry = values.get(bytes * row..bytes * row + bytes).ok_or(Cut)?;
    let mut wide = [0; 16];
    if signed && entry.last().is_some_and(|byte| byte & 0x80 != 0) {
        wide = [0xff; 16];
    }
    wide[..bytes].copy_from_slice(entry);
    Ok(i128::from_le_bytes(wide))
}

/// A message: its kind, its description and its bytes, unless these were too long to be kept.
type Message = (u8, Vec<u8>, Option<Vec<u8>>);

/// The next message. `None` at the marker of the end. More than `longest` bytes are passed over.
fn message(source: &mut impl Read, file: &str, longest: Option<usize>) -> Result<Option<Message>, ReadError> {
    let begin = exactly(source, 8, file)?;
    if begin[..4] != START {
        return Err(damaged(file, "a message does not begin where the one before it ends"));
    }
    let length = u32::from_le_bytes([begin[4], begin[5], begin[6], begin[7]]) as usize;
    if length == 0 {
        return Ok(None);
    }
    if length > LONGEST_HEADER {
        return Err(damaged(file, "the description of a message is too long"));
    }
    let header = exactly(source, length, file)?;
    let (kind, size) = described(&header).map_err(|Cut| damaged(file, "the description of a message is cut short"))?;
    let size = usize::try_from(size).map_err(|_| damaged(file, "a message has a negative length"))?;
    if longest.is_some_and(|longest| size > longest) {
        let passed = io::copy(&mut source.take(size as u64), &mut io::sink());
        return match passed.map_err(ReadError::read(file))? == size as u64 {
            true => Ok(Some((kind, header, None))),
            false => Err(damaged(file, CUT_SHORT)),
        };
    }
    let body = exactly(source, size, file)?;
    Ok(Some((kind, header, Some(body))))
}

fn described(header: &[u8]) -> Result<(u8, i64), Cut> {
    let message = Flat::root(header)?;
    Ok((message.byte(1)?, message.long(3)?))
}

/// So many bytes. Memory grows with what comes, not with what a damaged length promises.
fn exactly(source: &mut impl Read, length: usize, file: &str) -> Result<Vec<u8>, ReadError> {
    let mut bytes = Vec::new();
    let read = source.take(length as u64).read_to_end(&mut bytes);
    match read {
        Ok(read) if read == length => Ok(bytes),
        Ok(_) => Err(damaged(file, CUT_SHORT)),
        Err(error) => Err(ReadError::read(file)(error)),
    }
}

fn schema(header: &[u8]) -> Result<Vec<Field>, Cut> {
    let schema = Flat::root(header)?.table(2)?.ok_or(Cut)?;
    if schema.short(0)? != 0 {
        // Values in big-endian order come from no machine that is still made.
        return Err(Cut);
    }
    let mut left = MOST_FIELDS;
    schema.tables(1)?.into_iter().map(|field| read_field(field, 0, &mut left)).collect()
}

fn read_field(field: Flat<'_>, depth: usize, left: &mut usize) -> Result<Field, Cut> {
    // Each level costs stack, and a few bytes that many offsets lead to could stand for more fields than there is time for.
    *left = left.checked_sub(1).ok_or(Cut)?;
    if depth > DEEPEST {
        return Err(Cut);
    }
    let name = field.text(0)?.unwrap_or_default().to_owned();
    let children: Vec<Field> =
        field.tables(5)?.into_iter().map(|child| read_field(child, depth + 1, left)).collect::<Result<_, _>>()?;
    if field.table(4)?.is_some() {
        return Ok(Field { name, kind: Kind::Other("categorical (dictionary)"), nodes: 1, buffers: 2 });
    }
    let details = field.table(3)?;
    let detail = |at: usize| details.as_ref().map_or(Ok(0), |details| details.int(at));
    // Its own buffers; `None` where only the batch tells how many there are.
    let (kind, own) = match field.byte(2)? {
        1 => (Kind::Nothing, Some(0)),
        2 => {
            let signed = details.as_ref().map_or(Ok(0), |details| details.byte(1))? != 0;
            match detail(0)? {
                bits @ (8 | 16 | 32 | 64) => (Kind::Whole { bytes: bits as usize / 8, signed }, Some(2)),
                _ => return Err(Cut),
            }
        }
        3 => match details.as_ref().map_or(Ok(0), |details| details.short(0))? {
            1 => (Kind::Single, Some(2)),
            2 => (Kind::Double, Some(2)),
            _ => (Kind::Other("half-precision number"), Some(2)),
        },
        4 | 19 => (Kind::Other("bytes"), Some(3)),
        5 => (Kind::Text { offset: 4 }, Some(3)),
        6 => (Kind::Truth, Some(2)),
        7 => (Kind::Other("decimal"), Some(2)),
        8 => (Kind::Other("date"), Some(2)),
        9 => (Kind::Other("time"), Some(2)),
        10 => (Kind::Other("timestamp"), Some(2)),
        11 => (Kind::Other("interval"), Some(2)),
        12 | 17 | 21 => (Kind::Other("list"), Some(2)),
        13 => (Kind::Other("structure"), Some(1)),
        15 => (Kind::Other("bytes of fixed length"), Some(2)),
        16 => (Kind::Other("list of fixed length"), Some(1)),
        18 => (Kind::Other("duration"), Some(2)),
        20 => (Kind::Text { offset: 8 }, Some(3)),
        24 => (Kind::Other("text view"), None),
        _ => (Kind::Other("unknown to this reader"), None),
    };
    let countable = own.is_some() && children.iter().all(|child| child.nodes > 0);
    Ok(Field {
        name,
        kind,
        nodes: if countable { 1 + children.iter().map(|child| child.nodes).sum::<usize>() } else { 0 },
        buffers: own.unwrap_or(0) + children.iter().map(|child| child.buffers).sum::<usize>(),
    })
}

/// Where the values lie, or how many records there are where the bytes were not kept; nothing where the batch is compressed.
fn batch(header: &[u8], body: Option<Vec<u8>>, nodes: usize) -> Result<Option<Batch>, Cut> {
    let batch = Flat::root(header)?.table(2)?.ok_or(Cut)?;
    let natural = |value: i64| usize::try_from(value).map_err(|_| Cut);
    let Some(body) = body else {
        return Ok(Some(Batch { rows: natural(batch.long(0)?)?, ..Batch::default() }));
    };
    if batch.table(3)?.is_some() {
        return Ok(None);
    }
    let rows = natural(batch.long(0)?)?;
    let mut missing = Vec::new();
    for (length, nulls) in batch.pairs(1)? {
        // Only columns of the top level have as many values as the batch has rows.
        natural(length)?;
        missing.push(natural(nulls)?);
    }
    if missing.len() < nodes {
        return Err(Cut);
    }
    let buffers = batch
        .pairs(2)?
        .into_iter()
        .map(|(offset, length)| {
            let from = natural(offset)?;
            let to = from.checked_add(natural(length)?).filter(|to| *to <= body.len()).ok_or(Cut)?;
            Ok((from, to))
        })
        .collect::<Result<_, Cut>>()?;
    Ok(Some(Batch { rows, body, buffers, missing }))
}

fn usable(file: &str, field: &Field, id: bool) -> Result<(), ReadError> {
    match field.kind {
        Kind::Other(_) => {
            let expected = "truth values, whole and floating-point numbers and text can be read, so convert it";
            Err(refused(file, field, expected))
        }
        Kind::Truth | Kind::Single | Kind::Double if id => {
            Err(refused(file, field, "ids must be text or whole numbers"))
        }
        Kind::Nothing | Kind::Truth | Kind::Whole { .. } | Kind::Single | Kind::Double | Kind::Text { .. } => Ok(()),
    }
}

fn refused(file: &str, field: &Field, expected: &'static str) -> ReadError {
    let found = match field.kind {
        Kind::Nothing => "null",
        Kind::Truth => "truth value",
        Kind::Whole { .. } => "whole number",
        Kind::Single | Kind::Double => "floating-point number",
        Kind::Text { .. } => "text",
        Kind::Other(found) => found,
    };
    ReadError::Type { file: file.to_owned(), column: field.name.clone(), found: found.to_owned(), expected }
}

fn damaged(file: &str, reason: &str) -> ReadError {
    ReadError::format(file, format!("the Arrow stream is damaged or cut short ({reason})"))
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use fedreg_common::data::{Frame, Values};

    use super::super::Request;
    use super::super::tests::chain;
    use super::*;

    /// Written by pyarrow: see `tests/vectors/make/arrow.py`.
    const MIXED: &[u8] = include_bytes!("../../../tests/vectors/arrow/mixed.arrows");

    fn request(columns: &[&str]) -> Request {
        Request {
            columns: Some(columns.iter().map(|name| name.to_string()).collect()),
            levels: [
                ("region".to_owned(), vec!["north".to_owned(), "south".to_owned()]),
                ("large".to_owned(), vec!["u".to_owned(), "v".to_owned()]),
            ]
            .into(),
            ..Request::default()
        }
    }

    fn open(bytes: &[u8]) -> Result<Opened, ReadError> {
        super::open(Box::new(Cursor::new(bytes.to_vec())), "stream", false)
    }

    fn all(bytes: &[u8], columns: &[&str], rows: usize) -> Result<Vec<Frame>, ReadError> {
        let mut table = open(bytes)?.batches(&request(columns))?;
        let mut frames = Vec::new();
        while let Some(frame) = table.next(rows)? {
            frames.push(frame);
        }
        Ok(frames)
    }

    #[test]
    fn values_are_those_that_pyarrow_wrote_in_batches_of_the_size_asked_for() {
        let frames = all(MIXED, &["n", "smoker", "region", "y", "single", "tiny", "large"], 4).unwrap();
        assert_eq!(frames.iter().map(Frame::rows).collect::<Vec<_>>(), [4, 3]);
        assert_eq!((frames[0].place(0), frames[1].place(0)), (Place::Row(1), Place::Row(5)));
        let numbers = |name: &str| -> Vec<f64> {
            frames
                .iter()
                .flat_map(|frame| match &frame.column(name).unwrap().values {
                    Values::Numeric(values) => values.clone(),
                    other => panic!("{name} is {}", other.kind()),
                })
                .collect()
        };
        let y = numbers("y");
        assert!(y[1].is_nan() && y.iter().enumerate().all(|(i, y)| i == 1 || *y == 0.5 * i as f64 - 1.0), "{y:?}");
        assert_eq!(numbers("n"), [-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 9_007_199_254_740_991.0]);
        assert_eq!(numbers("single"), [0.25, 1.25, 2.25, 3.25, 4.25, 5.25, 6.25]);
        assert_eq!(numbers("tiny"), [255.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let smoker = &frames[0].column("smoker").unwrap().values;
        assert!(
            matches!(smoker, Values::Boolean(values) if *values == [Some(true), Some(false), Some(true), Some(false)])
        );
        for (name, expected) in [("region", [0, 1, 0]), ("large", [1, 0, 1])] {
            let text = &frames[1].column(name).unwrap().values;
            assert!(matches!(text, Values::Categorical { codes, .. } if *codes == expected), "{name}");
        }
    }

    #[test]
    fn a_stream_that_is_cut_anywhere_is_refused() {
        for length in 0..MIXED.len() {
            let message = chain(&all(&MIXED[..length], &["n", "y"], 2).unwrap_err());
            assert!(message.contains("damaged or cut short"), "{length} of {}: {message}", MIXED.len());
        }
    }

    #[test]
    fn a_changed_byte_gives_an_error_or_a_table_and_never_a_panic() {
        for at in 0..MIXED.len() {
            for flip in [1, 0x40, 0x80, 0xff] {
                let mut changed = MIXED.to_vec();
                changed[at] ^= flip;
                let _ = all(&changed, &["n", "y", "region", "smoker", "large"], 3);
            }
        }
    }

    #[test]
    fn types_without_a_place_in_a_regression_are_named_and_may_stand_unread() {
        for (column, kind) in [("day", "date"), ("pair", "list"), ("level", "categorical"), ("cents", "decimal")] {
            let message = chain(&all(MIXED, &[column], 2).unwrap_err());
            assert!(message.contains(&format!("column `{column}` is of type {kind}")), "{message}");
        }
        let message = chain(&all(MIXED, &["smokre"], 2).unwrap_err());
        assert!(message.contains("the nearest name is `smoker`"), "{message}");
        let id = Request { id: Some("y".to_owned()), ..request(&["n"]) };
        let message = chain(&open(MIXED).unwrap().batches(&id).unwrap_err());
        assert!(message.contains("ids must be text or whole numbers"), "{message}");
    }
}
