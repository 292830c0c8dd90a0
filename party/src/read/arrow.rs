//! Arrow IPC streams, as other engines pipe record batches, and files, which are streams between two marks.
//!
//! The same types are understood as in Parquet: truth values, whole and floating-point numbers and text, with nulls as
//! missing values; columns of them by way of a dictionary, as factors of R and categoricals of pandas are written; and record batches that are
//! compressed by LZ4 or Zstandard. Columns of other types may be in the stream as long as nobody asks for them.
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
mod packed;

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::ops::Range;

use fedreg_common::data::Place;

use self::flat::{Cut, Table as Flat};
use self::packed::Codec;
use super::ranges::Rest;
use super::rows::Rows;
use super::typed::{Cell, Meaning};
use super::{Bytes, Format, Opened, ReadError, Source};

/// What begins as an Arrow IPC stream or file does.
pub(super) const FORMAT: Format = Format {
    takes: |found| found.start == START || found.start == FILE[..4],
    open: |found, how| {
        let mut source: Source = match found.bytes {
            Bytes::File(file) => Box::new(io::BufReader::new(file)),
            Bytes::Object(ranges) => Box::new(Rest::all(ranges)),
            Bytes::Unfinished(source) => source,
        };
        // The stream in a file ends with its mark; what stands behind it says where its parts are.
        if found.start == FILE[..4] && exactly(&mut source, FILE.len(), &found.name)? != FILE {
            return Err(damaged(&found.name, "it does not begin as an Arrow file"));
        }
        open(source, &found.name, how.torn)
    },
};

/// What a file begins with, filled up to eight bytes.
const FILE: &[u8] = b"ARROW1\0\0";

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
    /// Positions of the columns that are read.
    picks: Vec<usize>,
    /// The values of dictionaries that columns have, in the parts in which they came.
    dictionaries: BTreeMap<i64, Vec<Batch>>,
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
    /// How the values of its dictionary lie, where its own are places in one.
    coded: Option<Kind>,
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
    /// Places in a dictionary of this number, each of a given number of bytes.
    Coded {
        dictionary: i64,
        bytes: usize,
        signed: bool,
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
    let (picks, dictionaries) = (Vec::new(), BTreeMap::new());
    let table = Table {
        file: file.to_owned(),
        source,
        fields,
        picks,
        dictionaries,
        current: None,
        taken: 0,
        row: 0,
        ended: false,
        torn,
    };
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
                DICTIONARY => self.dictionary(&header, body)?,
                BATCH => {
                    let cut = |Cut| damaged(&self.file, "a record batch is cut short");
                    let most = body.as_ref().map_or(usize::MAX, |body| body.len().saturating_mul(8));
                    let described =
                        Flat::root(&header).and_then(|message| message.table(2)?.ok_or(Cut)).map_err(cut)?;
                    let batch = self.batch(described, body)?;
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

    /// Takes the values of a dictionary that a column which is read has.
    fn dictionary(&mut self, header: &[u8], body: Option<Vec<u8>>) -> Result<(), ReadError> {
        let cut = |Cut| damaged(&self.file, "a dictionary is cut short");
        let described = Flat::root(header).and_then(|message| message.table(2)?.ok_or(Cut)).map_err(cut)?;
        let number = described.long(0).map_err(cut)?;
        let is_number = |kind: Kind| matches!(kind, Kind::Coded { dictionary, .. } if dictionary == number);
        if !self.picks.iter().any(|position| is_number(self.fields[*position].kind)) {
            return Ok(());
        }
        let (values, more) = (described.table(1).and_then(|values| values.ok_or(Cut)), described.byte(2));
        let (values, more) = (values.map_err(cut)?, more.map_err(cut)? != 0);
        let (codec, _) = self.codec(values)?;
        let whole = BTreeMap::from([(0, 3)]);
        let batch = batch(values, body, 1, codec, &whole).map_err(cut)?;
        let parts = self.dictionaries.entry(number).or_default();
        // It takes the place of the one before it, unless it says that it goes on.
        if !more {
            parts.clear();
        }
        parts.push(batch);
        Ok(())
    }

    fn codec<'f>(&self, batch: Flat<'f>) -> Result<(Codec, Flat<'f>), ReadError> {
        let codec = batch.table(3).and_then(Codec::of);
        let codec = codec.map_err(|Cut| damaged(&self.file, "a record batch is cut short"))?;
        match codec {
            // How far a damaged one can be read depends on its records.
            Some(Codec::Lz4 | Codec::Zstandard) if self.torn => {
                let problem = "a private stream cannot be read from compressed record batches; write them as they are";
                Err(ReadError::format(&self.file, problem))
            }
            Some(codec) => Ok((codec, batch)),
            None => Err(damaged(&self.file, "its record batches are compressed otherwise than by LZ4 or Zstandard")),
        }
    }

    fn batch(&self, described: Flat<'_>, body: Option<Vec<u8>>) -> Result<Batch, ReadError> {
        let (codec, described) = self.codec(described)?;
        let nodes = self.fields.iter().map(|field| field.nodes).sum();
        let first = |position: usize| self.fields[..position].iter().map(|field| field.buffers).sum::<usize>();
        let wanted = self.picks.iter().map(|position| (first(*position), self.fields[*position].buffers)).collect();
        batch(described, body, nodes, codec, &wanted).map_err(|Cut| damaged(&self.file, "a record batch is cut short"))
    }

    /// The value of a dictionary at a place.
    fn entry(&self, dictionary: i64, kind: Kind, mut place: usize) -> Result<Cell<'_>, Cut> {
        for part in self.dictionaries.get(&dictionary).ok_or(Cut)? {
            match place.checked_sub(part.rows) {
                Some(rest) => place = rest,
                None => return View::of(kind, part, 0, 0)?.cell(place),
            }
        }
        Err(Cut)
    }

    /// A cell by way of its dictionary.
    fn decoded(&self, field: &Field, view: &View<'_>, row: usize) -> Result<Cell<'_>, Cut> {
        let (Kind::Coded { dictionary, bytes, signed }, Some(kind)) = (field.kind, field.coded) else {
            return Err(Cut);
        };
        if !view.is_there(row)? {
            return Ok(Cell::Missing);
        }
        let place = usize::try_from(whole(view.values, row, bytes, signed)?).map_err(|_| Cut)?;
        self.entry(dictionary, kind, place)
    }

    fn pull(&mut self, batch: &Batch, range: Range<usize>, rows: &mut Rows) -> Result<(), ReadError> {
        let first = self.row + 1;
        let cut = |Cut| damaged(&self.file, "a column is shorter than its batch");
        for at in 0..rows.picks().len() {
            let field = &self.fields[rows.picks()[at]];
            let view = View::new(&self.fields, rows.picks()[at], batch);
            let view = or_missing(view, self.torn, View::NOTHING).map_err(cut)?;
            for (row, place) in range.clone().zip(first..) {
                let cell = match matches!(view.kind, Kind::Coded { .. }) {
                    true => self.decoded(field, &view, row),
                    false => view.cell(row),
                };
                let cell = or_missing(cell, self.torn, Cell::Missing).map_err(cut)?;
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
        self.picks.push(position);
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
        View::of(fields[position].kind, batch, node, first)
    }

    /// Values that lie in a batch from these of its nodes and buffers on.
    fn of(kind: Kind, batch: &'a Batch, node: usize, first: usize) -> Result<View<'a>, Cut> {
        let missing = *batch.missing.get(node).ok_or(Cut)?;
        let buffer = |at: usize| -> Result<&'a [u8], Cut> {
            let (from, to) = *batch.buffers.get(first + at).ok_or(Cut)?;
            batch.body.get(from..to).ok_or(Cut)
        };
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

    fn is_there(&self, row: usize) -> Result<bool, Cut> {
        Ok(self.valid.is_empty() || bit(self.valid, row)?)
    }

    fn cell(&self, row: usize) -> Result<Cell<'a>, Cut> {
        if !self.is_there(row)? {
            return Ok(Cell::Missing);
        }
        Ok(match self.kind {
            Kind::Nothing | Kind::Other(_) | Kind::Coded { .. } => Cell::Missing,
            Kind::Truth => Cell::Truth(bit(self.values, row)?),
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

fn bit(bits: &[u8], row: usize) -> Result<bool, Cut> {
    bits.get(row / 8).map(|byte| byte >> (row % 8) & 1 == 1).ok_or(Cut)
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
    if let Some(coding) = field.table(4)? {
        return read_coded(name, &field, &coding, children.is_empty());
    }
    let (kind, own) = read_kind(&field)?;
    let countable = own.is_some() && children.iter().all(|child| child.nodes > 0);
    Ok(Field {
        name,
        kind,
        nodes: if countable { 1 + children.iter().map(|child| child.nodes).sum::<usize>() } else { 0 },
        buffers: own.unwrap_or(0) + children.iter().map(|child| child.buffers).sum::<usize>(),
        coded: None,
    })
}

/// A column of places in a dictionary, whose values are of the type that the field says.
fn read_coded(name: String, field: &Flat<'_>, coding: &Flat<'_>, simple: bool) -> Result<Field, Cut> {
    let (values, _) = read_kind(field)?;
    // Places are signed and of four bytes where nothing is said of them.
    let (bits, signed) = match coding.table(1)? {
        Some(places) => (places.int(0)?, places.byte(1)? != 0),
        None => (32, true),
    };
    let usable = simple && !matches!(values, Kind::Nothing | Kind::Other(_) | Kind::Coded { .. });
    let kind = match (usable, bits) {
        (true, 8 | 16 | 32 | 64) => Kind::Coded { dictionary: coding.long(0)?, bytes: bits as usize / 8, signed },
        (true, _) => return Err(Cut),
        (false, _) => match values {
            Kind::Other(found) => Kind::Other(found),
            Kind::Nothing
            | Kind::Truth
            | Kind::Whole { .. }
            | Kind::Single
            | Kind::Double
            | Kind::Text { .. }
            | Kind::Coded { .. } => Kind::Other("categorical"),
        },
    };
    Ok(Field { name, kind, nodes: 1, buffers: 2, coded: usable.then_some(values) })
}

/// How the values of a field lie, and how many buffers it has of its own; nothing where only the batch tells how many there are.
fn read_kind(field: &Flat<'_>) -> Result<(Kind, Option<usize>), Cut> {
    let details = field.table(3)?;
    let detail = |at: usize| details.as_ref().map_or(Ok(0), |details| details.int(at));
    Ok(match field.byte(2)? {
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
    })
}

/// Where the values lie, or how many records there are where the bytes were not kept. Of a batch that is compressed those buffers are unpacked
/// that are wanted: how many, by where they begin.
fn batch(
    batch: Flat<'_>,
    body: Option<Vec<u8>>,
    nodes: usize,
    codec: Codec,
    wanted: &BTreeMap<usize, usize>,
) -> Result<Batch, Cut> {
    let natural = |value: i64| usize::try_from(value).map_err(|_| Cut);
    let Some(body) = body else {
        return Ok(Batch { rows: natural(batch.long(0)?)?, ..Batch::default() });
    };
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
        .collect::<Result<Vec<_>, Cut>>()?;
    if codec == Codec::Plain {
        return Ok(Batch { rows, body, buffers, missing });
    }
    let mut unpacked = Vec::new();
    let mut places = vec![(0, 0); buffers.len()];
    for (first, count) in wanted {
        for at in (*first..first + count).take_while(|at| *at < buffers.len()) {
            let (from, to) = buffers[at];
            let start = unpacked.len();
            codec.unpack(body.get(from..to).ok_or(Cut)?, &mut unpacked)?;
            places[at] = (start, unpacked.len());
        }
    }
    Ok(Batch { rows, body: unpacked, buffers: places, missing })
}

fn usable(file: &str, field: &Field, id: bool) -> Result<(), ReadError> {
    match field.coded.unwrap_or(field.kind) {
        Kind::Other(_) => {
            let expected = "truth values, whole and floating-point numbers and text can be read, so convert it";
            Err(refused(file, field, expected))
        }
        Kind::Truth | Kind::Single | Kind::Double if id => {
            Err(refused(file, field, "ids must be text or whole numbers"))
        }
        Kind::Nothing
        | Kind::Truth
        | Kind::Whole { .. }
        | Kind::Single
        | Kind::Double
        | Kind::Text { .. }
        | Kind::Coded { .. } => Ok(()),
    }
}

fn refused(file: &str, field: &Field, expected: &'static str) -> ReadError {
    let found = match field.coded.unwrap_or(field.kind) {
        Kind::Nothing => "null",
        Kind::Truth => "truth value",
        Kind::Whole { .. } => "whole number",
        Kind::Single | Kind::Double => "floating-point number",
        Kind::Text { .. } => "text",
        Kind::Coded { .. } => "categorical",
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
        for (column, kind) in [("day", "date"), ("pair", "list"), ("cents", "decimal")] {
            let message = chain(&all(MIXED, &[column], 2).unwrap_err());
            assert!(message.contains(&format!("column `{column}` is of type {kind}")), "{message}");
        }
        let message = chain(&all(MIXED, &["smokre"], 2).unwrap_err());
        assert!(message.contains("the nearest name is `smoker`"), "{message}");
        let id = Request { id: Some("y".to_owned()), ..request(&["n"]) };
        let message = chain(&open(MIXED).unwrap().batches(&id).unwrap_err());
        assert!(message.contains("ids must be text or whole numbers"), "{message}");
    }

    /// Written by pandas and pyarrow: see `tests/vectors/make/arrow_coded.py`.
    const FILE_OF_PANDAS: &[u8] = include_bytes!("../../../tests/vectors/arrow/coded.lz4.arrow");
    const STREAM: &[u8] = include_bytes!("../../../tests/vectors/arrow/coded.zstd.arrows");

    fn city(row: usize) -> Option<&'static str> {
        let cities: &[&str] = match row {
            0..300 => &["Bergen", "Oslo"],
            300..600 => &["Bergen", "Oslo", "Tromsø"],
            _ => &["Oslo", "Paris"],
        };
        (row % 11 != 3).then(|| cities[row % cities.len()])
    }

    fn levels_of(frame: &Frame, name: &str) -> Vec<Option<String>> {
        let Values::Categorical { codes, levels, .. } = &frame.column(name).unwrap().values else { panic!("{name}") };
        codes.iter().map(|code| levels.get(*code as usize).cloned()).collect()
    }

    fn numbers_of(frame: &Frame, name: &str) -> Vec<f64> {
        match &frame.column(name).unwrap().values {
            Values::Numeric(values) => values.clone(),
            other => panic!("{name} is {}", other.kind()),
        }
    }

    fn by_name(columns: &[&str]) -> Request {
        let columns = columns.iter().map(|name| name.to_string()).collect();
        Request { columns: Some(columns), id: Some("name".to_owned()), ..Request::default() }
    }

    #[test]
    fn categoricals_of_pandas_in_a_compressed_file_are_read_as_their_values() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("any name");
        std::fs::write(&path, FILE_OF_PANDAS).unwrap();
        let frame = super::super::read(&path, &by_name(&["x", "city", "dose", "y"])).unwrap();
        assert_eq!(frame.rows(), 300);
        let cities = ["Bergen", "Oslo", "Tromsø"];
        let expected = |row: usize| (row % 11 != 3).then(|| cities[row % 3].to_owned());
        assert_eq!(levels_of(&frame, "city"), (0..300).map(expected).collect::<Vec<_>>());
        let dose: Vec<f64> = (0..300).map(|row| f64::from((row * 7) % 5 * 10)).collect();
        assert_eq!(numbers_of(&frame, "dose"), dose);
        assert_eq!(numbers_of(&frame, "x"), (0..300).map(|row| f64::from(row) / 8.0).collect::<Vec<_>>());
        for (row, y) in (0..300).zip(numbers_of(&frame, "y")) {
            assert!(if row % 13 == 5 { y.is_nan() } else { y == f64::from((row * row) % 97) }, "{row}: {y}");
        }
        assert_eq!(frame.ids().unwrap().bytes(299), b"p299");
        let by = |id: &str| Request { id: Some(id.to_owned()), ..by_name(&["x"]) };
        assert_eq!(super::super::read(&path, &by("city")).unwrap_err().exit(), fedreg_common::exit::Exit::Data);
        assert_eq!(super::super::read(&path, &by("dose")).unwrap().ids().unwrap().bytes(1), b"20");
        let message = chain(&super::super::read(&path, &by_name(&["day"])).unwrap_err());
        assert!(message.contains("column `day` is of type timestamp"), "{message}");
        let message = chain(&super::super::read(&path, &by_name(&["pair"])).unwrap_err());
        assert!(message.contains("column `pair` is of type list"), "{message}");
        // Behind the end mark of its stream there is only what says where its parts are.
        let mark = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
        let end = FILE_OF_PANDAS.windows(8).rposition(|bytes| bytes == mark).unwrap() + 8;
        for length in (4..end).step_by(97).chain([end - 1]) {
            std::fs::write(&path, &FILE_OF_PANDAS[..length]).unwrap();
            let message = chain(&super::super::read(&path, &by_name(&["x", "city"])).unwrap_err());
            assert!(message.contains("damaged or cut short"), "{length}: {message}");
        }
    }

    #[test]
    fn dictionaries_go_on_and_are_replaced_within_a_stream() {
        let frame = open(STREAM).unwrap().read(&by_name(&["city", "x"])).unwrap();
        assert_eq!(frame.rows(), 900);
        assert_eq!(levels_of(&frame, "city"), (0..900).map(|row| city(row).map(str::to_owned)).collect::<Vec<_>>());
        assert_eq!(numbers_of(&frame, "x"), (0..900).map(|row| f64::from(row) / 8.0).collect::<Vec<_>>());
        let torn = super::open(Box::new(Cursor::new(STREAM)), "stream", true).unwrap();
        let mut torn = torn.batches(&Request { torn: true, lenient: true, ..by_name(&["x"]) }).unwrap();
        let message = chain(&torn.next(10).unwrap_err());
        assert!(message.contains("a private stream cannot be read from compressed record batches"), "{message}");
    }

    #[test]
    fn a_changed_byte_of_a_dictionary_or_a_packed_buffer_gives_an_error_or_a_table_and_never_a_panic() {
        let request = by_name(&["city", "dose", "x", "y"]);
        for at in (0..STREAM.len()).step_by(3) {
            for flip in [1, 0x80, 0xff] {
                let mut changed = STREAM.to_vec();
                changed[at] ^= flip;
                let _ = open(&changed).and_then(|opened| opened.read(&request));
            }
        }
        for at in (8..FILE_OF_PANDAS.len()).step_by(3) {
            let mut changed = FILE_OF_PANDAS[8..].to_vec();
            changed[at - 8] ^= 0x41;
            let _ = open(&changed).and_then(|opened| opened.read(&request));
        }
    }
}
