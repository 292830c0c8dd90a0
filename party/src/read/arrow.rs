//! Arrow IPC streams, as other engines pipe record batches, and files, whose parts lie where their footer says.
//!
//! The same types are understood as in Parquet: truth values, whole and floating-point numbers and text, with nulls as missing
//! values; text as views, as polars has it; columns of them by way of a dictionary, as factors of R and categoricals of pandas
//! and polars are written; and record batches that are compressed by LZ4 or Zstandard. Columns of other types may be there as
//! long as nobody asks for them.
//!
//! Read without the arrow crates. `arrow-ipc` 60 with what it needs takes 70 s of processor time to compile at the profile of
//! this workspace, most of it `arrow-select`, and its decoder of LZ4 reserves as much memory as eight bytes of the stream ask
//! for, before it has read what would fill it. A stream is a row of messages, each a FlatBuffers table that says where in the
//! bytes after it the values lie. A file is read by its footer: what stands before it need not be a stream, and that of polars
//! is none.
//!
//! # Reference
//!
//! The Apache Arrow columnar format, version 1.5: "Variable-size binary view layout", "Encapsulated message format",
//! "IPC streaming format", "IPC file format", `Message.fbs`, `Schema.fbs`, `File.fbs`.

mod fields;
mod flat;
mod messages;
mod packed;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Cursor, Read};
use std::ops::Range;
use std::sync::Arc;

use fedreg_common::data::Place;

use self::fields::{Counts, Field, Kind, Span, VERSION_5};
use self::flat::{Cut, Table as Flat};
use self::messages::{BATCH, DICTIONARY, Footer, Messages, SCHEMA, START, damaged_stream, exactly};
use self::packed::Codec;
use super::ranges::{Ranges, Rest};
use super::rows::Rows;
use super::typed::{Cell, Meaning};
use super::{Bytes, Format, Opened, ReadError, Source};

/// What begins as an Arrow IPC stream or file does.
pub(super) const FORMAT: Format = Format {
    takes: |found| found.start == START || found.start == FILE[..4],
    open: |found, how| {
        let by_footer = found.start == FILE[..4];
        let mut source: Source = match found.bytes {
            Bytes::File(file) if by_footer => return open_file(Arc::new(file), &found.name, how.torn),
            Bytes::Object(ranges) if by_footer => return open_file(ranges, &found.name, how.torn),
            Bytes::File(file) => Box::new(io::BufReader::new(file)),
            Bytes::Object(ranges) => Box::new(Rest::all(ranges)),
            Bytes::Unfinished(source) => source,
        };
        if by_footer {
            source = stream_within(source, &found.name)?;
        }
        open(source, &found.name, how.torn)
    },
};

/// What a file begins with, filled up to eight bytes. It ends with the first six of them.
const FILE: &[u8; 8] = b"ARROW1\0\0";

/// Longest record batch of a private stream, bytes: so much memory is held, whatever comes. The records of a longer one are
/// passed over, each as one that cannot be read.
const LONGEST_BODY: usize = 1 << 30;

/// A stream or file that is being read in batches of rows; its own record batches may have any size.
struct Table {
    file: String,
    messages: Messages,
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

/// A record batch.
#[derive(Default)]
struct Batch {
    rows: usize,
    body: Vec<u8>,
    /// First and last byte in the body.
    buffers: Vec<(usize, usize)>,
    /// Number of missing values, by node.
    missing: Vec<usize>,
    counts: Counts,
}

/// Reads the schema of a stream.
fn open(mut source: Source, file: &str, torn: bool) -> Result<Opened, ReadError> {
    let Some((SCHEMA, header, _)) = messages::next(&mut source, file, None)? else {
        return Err(damaged_stream(file, "it does not begin with a schema"));
    };
    let fields = fields::of_message(&header).map_err(|Cut| damaged_stream(file, "the schema is cut short"))?;
    opened(fields, Messages::Stream(source), file, torn)
}

/// Reads the footer of a file.
fn open_file(ranges: Arc<dyn Ranges>, file: &str, torn: bool) -> Result<Opened, ReadError> {
    let footer = Footer::read(&ranges, file)?;
    let fields = footer.fields(file)?;
    opened(fields, footer.messages(ranges, file)?, file, torn)
}

/// The stream that is in most files, for those that come through a pipe: nobody can go back there once the footer has come.
fn stream_within(mut source: Source, file: &str) -> Result<Source, ReadError> {
    let begin = exactly(&mut source, FILE.len() + START.len(), file)?;
    let begin = begin.ok_or_else(|| damaged_stream(file, "it does not begin as an Arrow file"))?;
    match begin.strip_prefix(FILE) {
        Some(first) if first == START => Ok(Box::new(Cursor::new(first.to_vec()).chain(source))),
        Some(_) => Err(ReadError::format(
            file,
            "this Arrow file can be read by its footer only, which a pipe does not allow; give it by its path, or write a stream",
        )),
        None => Err(damaged_stream(file, "it does not begin as an Arrow file")),
    }
}

fn opened(fields: Vec<Field>, messages: Messages, file: &str, torn: bool) -> Result<Opened, ReadError> {
    let names = fields.iter().map(|field| field.name.clone()).collect();
    let (picks, dictionaries) = (Vec::new(), BTreeMap::new());
    let table = Table {
        file: file.to_owned(),
        messages,
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
    /// The next message that has rows; `None` at the end.
    fn record_batch(&mut self, rows: &Rows) -> Result<Option<Batch>, ReadError> {
        while !self.ended {
            let longest = self.torn.then_some(LONGEST_BODY);
            let Some((kind, header, body)) = self.messages.next(&self.file, longest)? else {
                self.ended = true;
                break;
            };
            match kind {
                DICTIONARY => self.dictionary(&header, body)?,
                BATCH => {
                    let cut = |Cut| self.damaged("a record batch is cut short");
                    let most = body.as_ref().map_or(usize::MAX, |body| body.len().saturating_mul(8));
                    let message = Flat::root(&header).map_err(cut)?;
                    let described = message.table(2).and_then(|described| described.ok_or(Cut)).map_err(cut)?;
                    let old = message.short(0).map_err(cut)? < VERSION_5;
                    let batch = self.batch(described, body, old)?;
                    // Elsewhere the first value that is not there shows it; a value takes a bit at least.
                    if self.torn && batch.rows > most {
                        return Err(cut(Cut));
                    }
                    rows.room(batch.rows)?;
                    return Ok(Some(batch));
                }
                _ => return Err(self.damaged("a message is neither a schema nor a record batch")),
            }
        }
        Ok(None)
    }

    fn damaged(&self, reason: &str) -> ReadError {
        self.messages.damaged(&self.file, reason)
    }

    /// Takes the values of a dictionary that a column which is read has.
    fn dictionary(&mut self, header: &[u8], body: Option<Vec<u8>>) -> Result<(), ReadError> {
        let cut = |Cut| self.messages.damaged(&self.file, "a dictionary is cut short");
        let described = Flat::root(header).and_then(|message| message.table(2)?.ok_or(Cut)).map_err(cut)?;
        let number = described.long(0).map_err(cut)?;
        let is_number = |kind: Kind| matches!(kind, Kind::Coded { dictionary, .. } if dictionary == number);
        let mut picked = self.picks.iter().map(|position| &self.fields[*position]);
        let Some(kind) = picked.find(|field| is_number(field.kind)).and_then(|field| field.coded) else {
            return Ok(());
        };
        let (values, more) = (described.table(1).and_then(|values| values.ok_or(Cut)), described.byte(2));
        let (values, more) = (values.map_err(cut)?, more.map_err(cut)? != 0);
        let (codec, _) = self.codec(values)?;
        let batch = batch(values, body, codec, &Wanted::dictionary(kind), false).map_err(cut)?;
        let parts = self.dictionaries.entry(number).or_default();
        // It takes the place of the one before it, unless it says that it goes on.
        if !more {
            // In a file all of them come before the rows, so that none can have been another one for some of these.
            if !parts.is_empty() && self.messages.is_file() {
                return Err(self.messages.damaged(&self.file, "a dictionary is there twice"));
            }
            parts.clear();
        }
        parts.push(batch);
        Ok(())
    }

    fn codec<'f>(&self, batch: Flat<'f>) -> Result<(Codec, Flat<'f>), ReadError> {
        let codec = batch.table(3).and_then(Codec::of);
        let codec = codec.map_err(|Cut| self.damaged("a record batch is cut short"))?;
        match codec {
            // How far a damaged one can be read depends on its records.
            Some(Codec::Lz4 | Codec::Zstandard) if self.torn => {
                let problem = "a private stream cannot be read from compressed record batches; write them as they are";
                Err(ReadError::format(&self.file, problem))
            }
            Some(codec) => Ok((codec, batch)),
            None => Err(self.damaged("its record batches are compressed otherwise than by LZ4 or Zstandard")),
        }
    }

    fn batch(&self, described: Flat<'_>, body: Option<Vec<u8>>, old: bool) -> Result<Batch, ReadError> {
        let (codec, described) = self.codec(described)?;
        let picks: BTreeSet<&usize> = self.picks.iter().collect();
        let wanted = Wanted {
            nodes: self.fields.iter().map(|field| field.nodes).sum(),
            views: self.fields.iter().map(|field| field.views).sum(),
            spans: picks.into_iter().map(|position| Span::of(&self.fields, *position)).collect(),
        };
        batch(described, body, codec, &wanted, old).map_err(|Cut| self.damaged("a record batch is cut short"))
    }

    /// The value of a dictionary at a place.
    fn entry(&self, dictionary: i64, kind: Kind, mut place: usize) -> Result<Cell<'_>, Cut> {
        for part in self.dictionaries.get(&dictionary).ok_or(Cut)? {
            match place.checked_sub(part.rows) {
                Some(rest) => place = rest,
                None => return View::of(kind, part, Span::alone(kind))?.cell(place),
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
        let cut = |Cut| self.damaged("a value of a column is not where its batch says");
        for at in 0..rows.picks().len() {
            let position = rows.picks()[at];
            let field = &self.fields[position];
            let view = View::of(field.kind, batch, Span::of(&self.fields, position));
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
            let expected = "columns of this type cannot be skipped, so leave it out of the table";
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
    /// Where in the body the texts lie to which views lead.
    parts: &'a [(usize, usize)],
    body: &'a [u8],
}

impl<'a> View<'a> {
    const NOTHING: View<'static> =
        View { kind: Kind::Nothing, valid: &[], values: &[], text: &[], parts: &[], body: &[] };

    /// The values that lie there in a batch.
    fn of(kind: Kind, batch: &'a Batch, span: Span) -> Result<View<'a>, Cut> {
        let missing = *batch.missing.get(span.node).ok_or(Cut)?;
        if kind == Kind::Nothing {
            return Ok(View::NOTHING);
        }
        let Range { start, end } = span.buffers(&batch.counts)?;
        let buffer = |at: usize| -> Result<&'a [u8], Cut> {
            let (from, to) = *batch.buffers.get(start + at).ok_or(Cut)?;
            batch.body.get(from..to).ok_or(Cut)
        };
        Ok(View {
            kind,
            valid: if missing == 0 { &[] } else { buffer(0)? },
            values: buffer(1)?,
            text: if matches!(kind, Kind::Text { .. }) { buffer(2)? } else { &[] },
            parts: if kind == Kind::TextView { batch.buffers.get(start + 2..end).ok_or(Cut)? } else { &[] },
            body: &batch.body,
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
            Kind::TextView => Cell::Text(self.viewed(row)?),
        })
    }

    /// The text to which a view leads: its length, and then itself where it is short, otherwise its beginning, the number of the
    /// buffer and the place there.
    fn viewed(&self, row: usize) -> Result<&'a [u8], Cut> {
        let view = stretch(self.values, row, 16)?;
        let natural = |at: usize| usize::try_from(i32::from_le_bytes(entry(&view[4 * at..], 0)?)).map_err(|_| Cut);
        let length = natural(0)?;
        if length <= SHORT {
            return view.get(4..4 + length).ok_or(Cut);
        }
        let (from, to) = *self.parts.get(natural(2)?).ok_or(Cut)?;
        let part = self.body.get(from..to).and_then(|part| part.get(natural(3).ok()?..)).ok_or(Cut)?;
        part.get(..length).filter(|text| text.starts_with(&view[4..8])).ok_or(Cut)
    }
}

/// Longest text that a view holds itself, bytes.
const SHORT: usize = 12;

fn bit(bits: &[u8], row: usize) -> Result<bool, Cut> {
    bits.get(row / 8).map(|byte| byte >> (row % 8) & 1 == 1).ok_or(Cut)
}

/// The `row`-th entry of so many bytes.
fn stretch(values: &[u8], row: usize, bytes: usize) -> Result<&[u8], Cut> {
    // A dictionary may say that it has any number of values.
    let begin = row.checked_mul(bytes).ok_or(Cut)?;
    values.get(begin..).and_then(|rest| rest.get(..bytes)).ok_or(Cut)
}

/// The `row`-th entry of `N` bytes.
fn entry<const N: usize>(values: &[u8], row: usize) -> Result<[u8; N], Cut> {
    stretch(values, row, N)?.try_into().map_err(|_| Cut)
}

fn whole(values: &[u8], row: usize, bytes: usize, signed: bool) -> Result<i128, Cut> {
    let entry = stretch(values, row, bytes)?;
    let mut wide = [0; 16];
    if signed && entry.last().is_some_and(|byte| byte & 0x80 != 0) {
        wide = [0xff; 16];
    }
    wide[..bytes].copy_from_slice(entry);
    Ok(i128::from_le_bytes(wide))
}

/// What is looked for in a batch.
struct Wanted {
    /// How many nodes and views it has at least.
    nodes: usize,
    views: usize,
    /// Where the columns lie that are read.
    spans: Vec<Span>,
}

impl Wanted {
    /// The values of a dictionary.
    fn dictionary(kind: Kind) -> Wanted {
        let span = Span::alone(kind);
        Wanted { nodes: 1, views: span.views, spans: vec![span] }
    }
}

/// Where the values lie, or how many records there are where the bytes were not kept. Of a batch that is compressed those
/// buffers are unpacked that are wanted.
fn batch(batch: Flat<'_>, body: Option<Vec<u8>>, codec: Codec, wanted: &Wanted, old: bool) -> Result<Batch, Cut> {
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
    if missing.len() < wanted.nodes {
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
    let further = batch.longs(4)?.into_iter().map(natural).collect::<Result<Vec<_>, Cut>>()?;
    if further.len() < wanted.views || further.iter().any(|count| *count > buffers.len()) {
        return Err(Cut);
    }
    let counts = Counts { further, old };
    if codec == Codec::Plain {
        return Ok(Batch { rows, body, buffers, missing, counts });
    }
    let (mut unpacked, mut left) = (Vec::new(), body.len());
    let mut places = vec![(0, 0); buffers.len()];
    for span in &wanted.spans {
        for at in span.buffers(&counts)?.take_while(|at| *at < buffers.len()) {
            let (from, to) = buffers[at];
            // No two of them lie in the same place, where as little could be unpacked as often as a damaged number says.
            left = left.checked_sub(to - from).ok_or(Cut)?;
            let start = unpacked.len();
            codec.unpack(body.get(from..to).ok_or(Cut)?, &mut unpacked)?;
            places[at] = (start, unpacked.len());
        }
    }
    Ok(Batch { rows, body: unpacked, buffers: places, missing, counts })
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
        | Kind::TextView
        | Kind::Coded { .. } => Ok(()),
    }
}

fn refused(file: &str, field: &Field, expected: &'static str) -> ReadError {
    let found = match field.coded.unwrap_or(field.kind) {
        Kind::Nothing => "null",
        Kind::Truth => "truth value",
        Kind::Whole { .. } => "whole number",
        Kind::Single | Kind::Double => "floating-point number",
        Kind::Text { .. } | Kind::TextView => "text",
        Kind::Coded { .. } => "categorical",
        Kind::Other(found) => found,
    };
    ReadError::Type { file: file.to_owned(), column: field.name.clone(), found: found.to_owned(), expected }
}

#[cfg(test)]
mod tests;
