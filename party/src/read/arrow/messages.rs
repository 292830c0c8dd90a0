//! The messages of a stream, one after the other, and those of a file, where its footer says that they lie.
//!
//! All places and lengths of a footer are compared with the size of the file before anything is read there.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;
use std::vec::IntoIter;

use super::super::ranges::{Ranges, Rest};
use super::super::{ReadError, Source};
use super::FILE;
use super::fields::{self, Field};
use super::flat::{Cut, Table as Flat};

/// What every message begins with; in files from before 2019 it does not.
pub(super) const START: [u8; 4] = [0xff; 4];

/// Longest description of a message, and longest footer, bytes.
const LONGEST_HEADER: usize = 16 << 20;

/// What is wrong with a stream that ends too soon.
const CUT_SHORT: &str = "it ends without its end marker";

/// Kinds of messages.
pub(super) const SCHEMA: u8 = 1;
pub(super) const DICTIONARY: u8 = 2;
pub(super) const BATCH: u8 = 3;

/// A message: its kind, its description and its bytes, unless these were too long to be kept.
pub(super) type Message = (u8, Vec<u8>, Option<Vec<u8>>);

/// The messages behind the schema.
pub(super) enum Messages {
    /// As they come.
    Stream(Source),
    /// Those that a footer names, the dictionaries first.
    File { ranges: Arc<dyn Ranges>, blocks: IntoIter<Block> },
}

impl Messages {
    /// The next message; `None` at the end. More than `longest` bytes are passed over.
    pub(super) fn next(&mut self, file: &str, longest: Option<usize>) -> Result<Option<Message>, ReadError> {
        match self {
            Messages::Stream(source) => next(source, file, longest),
            Messages::File { ranges, blocks } => {
                let Some(block) = blocks.next() else { return Ok(None) };
                let later = blocks.as_slice().first().map(Block::range);
                ranges.announce(std::slice::from_ref(&block.range()), later.as_slice());
                block.read(ranges, file, longest).map(Some)
            }
        }
    }

    pub(super) fn is_file(&self) -> bool {
        matches!(self, Messages::File { .. })
    }

    pub(super) fn damaged(&self, file: &str, reason: &str) -> ReadError {
        if self.is_file() { damaged_file(file, reason) } else { damaged_stream(file, reason) }
    }
}

pub(super) fn damaged_stream(file: &str, reason: &str) -> ReadError {
    ReadError::format(file, format!("the Arrow stream is damaged or cut short ({reason})"))
}

fn damaged_file(file: &str, reason: &str) -> ReadError {
    ReadError::format(file, format!("the Arrow file is damaged or cut short ({reason})"))
}

/// The next message of a stream. `None` at the marker of the end. More than `longest` bytes are passed over.
pub(super) fn next(source: &mut Source, file: &str, longest: Option<usize>) -> Result<Option<Message>, ReadError> {
    let cut_short = || damaged_stream(file, CUT_SHORT);
    let begin = exactly(source, 8, file)?.ok_or_else(cut_short)?;
    if begin[..4] != START {
        return Err(damaged_stream(file, "a message does not begin where the one before it ends"));
    }
    let length = u32::from_le_bytes([begin[4], begin[5], begin[6], begin[7]]) as usize;
    if length == 0 {
        return Ok(None);
    }
    if length > LONGEST_HEADER {
        return Err(damaged_stream(file, "the description of a message is too long"));
    }
    let header = exactly(source, length, file)?.ok_or_else(cut_short)?;
    let described = described(&header);
    let (kind, size) = described.map_err(|Cut| damaged_stream(file, "the description of a message is cut short"))?;
    let size = usize::try_from(size).map_err(|_| damaged_stream(file, "a message has a negative length"))?;
    if longest.is_some_and(|longest| size > longest) {
        let passed = io::copy(&mut source.take(size as u64), &mut io::sink());
        return match passed.map_err(ReadError::read(file))? == size as u64 {
            true => Ok(Some((kind, header, None))),
            false => Err(cut_short()),
        };
    }
    let body = exactly(source, size, file)?.ok_or_else(cut_short)?;
    Ok(Some((kind, header, Some(body))))
}

fn described(header: &[u8]) -> Result<(u8, i64), Cut> {
    let message = Flat::root(header)?;
    Ok((message.byte(1)?, message.long(3)?))
}

/// So many bytes, if there are so many. Memory grows with what comes, not with what a damaged length promises.
pub(super) fn exactly(source: &mut impl Read, length: usize, file: &str) -> Result<Option<Vec<u8>>, ReadError> {
    let mut bytes = Vec::new();
    let read = source.take(length as u64).read_to_end(&mut bytes).map_err(ReadError::read(file))?;
    Ok((read == length).then_some(bytes))
}

/// What stands at the end of a file: its schema, and where its other messages lie.
pub(super) struct Footer {
    pub(super) bytes: Vec<u8>,
    /// Where it begins.
    place: u64,
}

/// A message of a file.
pub(super) struct Block {
    kind: u8,
    place: u64,
    /// Bytes of its description, with what stands before it.
    header: usize,
    /// Bytes behind it.
    body: usize,
}

impl Footer {
    /// Reads it: before the mark at the end of the file stands how long it is.
    pub(super) fn read(ranges: &Arc<dyn Ranges>, file: &str) -> Result<Footer, ReadError> {
        let no_end = || damaged_file(file, "it does not end as an Arrow file");
        let part = |place: u64, length: usize| {
            let mut source = Rest { ranges: Arc::clone(ranges), place };
            exactly(&mut source, length, file)?.ok_or_else(no_end)
        };
        let first = FILE.len() as u64;
        let mark = &FILE[..6];
        let end = ranges.size().checked_sub(4 + mark.len() as u64).filter(|end| *end >= first).ok_or_else(no_end)?;
        if part(0, FILE.len())? != FILE {
            return Err(damaged_file(file, "it does not begin as an Arrow file"));
        }
        let last = part(end, 4 + mark.len())?;
        let length = u32::from_le_bytes([last[0], last[1], last[2], last[3]]);
        let place = end.checked_sub(u64::from(length)).filter(|place| *place >= first);
        match place {
            _ if last[4..] != *mark => Err(no_end()),
            Some(place) if length as usize <= LONGEST_HEADER => {
                Ok(Footer { bytes: part(place, length as usize)?, place })
            }
            Some(_) | None => Err(damaged_file(file, "its footer is too long")),
        }
    }

    /// The columns.
    pub(super) fn fields(&self, file: &str) -> Result<Vec<Field>, ReadError> {
        let fields = Flat::root(&self.bytes).and_then(|footer| fields::of_schema(footer.table(1)?.ok_or(Cut)?));
        fields.map_err(|Cut| damaged_file(file, "the schema in its footer is cut short"))
    }

    /// The other messages: all dictionaries, and then the record batches.
    pub(super) fn messages(&self, ranges: Arc<dyn Ranges>, file: &str) -> Result<Messages, ReadError> {
        let listed = Flat::root(&self.bytes).and_then(|footer| Ok((footer.blocks(2)?, footer.blocks(3)?)));
        let (dictionaries, batches) = listed.map_err(|Cut| damaged_file(file, "its footer is cut short"))?;
        let kinds = [(DICTIONARY, dictionaries), (BATCH, batches)];
        let all = kinds.into_iter().flat_map(|(kind, blocks)| blocks.into_iter().map(move |block| (kind, block)));
        // Together they are not longer than the file: what is held in memory grows with what is there.
        let mut left = self.place;
        let checked = |(kind, block)| {
            let block = Block::new(kind, block, self.place)?;
            left = left.checked_sub(block.length())?;
            Some(block)
        };
        let blocks = all.map(checked).collect::<Option<Vec<_>>>();
        let blocks = blocks.ok_or_else(|| damaged_file(file, "its footer names a place that is not in the file"))?;
        Ok(Messages::File { ranges, blocks: blocks.into_iter() })
    }
}

impl Block {
    /// One that lies between the mark at the beginning and the footer.
    fn new(kind: u8, (place, header, body): (i64, i32, i64), footer: u64) -> Option<Block> {
        let (place, header) = (u64::try_from(place).ok()?, usize::try_from(header).ok()?);
        let block = Block { kind, place, header, body: usize::try_from(body).ok()? };
        let end = place.checked_add(header as u64)?.checked_add(block.body as u64)?;
        let fits = place >= FILE.len() as u64 && end <= footer && header <= LONGEST_HEADER;
        let aligned = place.is_multiple_of(8) && header.is_multiple_of(8) && block.body.is_multiple_of(8);
        (fits && aligned).then_some(block)
    }

    fn length(&self) -> u64 {
        self.header as u64 + self.body as u64
    }

    fn range(&self) -> Range<u64> {
        self.place..self.place + self.length()
    }

    /// Reads it. More than `longest` bytes are passed over.
    fn read(&self, ranges: &Arc<dyn Ranges>, file: &str, longest: Option<usize>) -> Result<Message, ReadError> {
        let cut_short = || damaged_file(file, "it ends before a message that its footer names");
        let mut source = Rest { ranges: Arc::clone(ranges), place: self.place };
        let bytes = exactly(&mut source, self.header, file)?.ok_or_else(cut_short)?;
        let header = header(&bytes).filter(|header| described(header) == Ok((self.kind, self.body as i64)));
        let header = header.ok_or_else(|| damaged_file(file, "a message is not the one that its footer names"))?;
        if longest.is_some_and(|longest| self.body > longest) {
            return Ok((self.kind, header.to_vec(), None));
        }
        let body = exactly(&mut source, self.body, file)?.ok_or_else(cut_short)?;
        Ok((self.kind, header.to_vec(), Some(body)))
    }
}

/// The description in what a message begins with, all of which it fills.
fn header(bytes: &[u8]) -> Option<&[u8]> {
    let (length, rest) = bytes.strip_prefix(&START).unwrap_or(bytes).split_first_chunk::<4>()?;
    Some(rest).filter(|rest| rest.len() as u64 == u64::from(u32::from_le_bytes(*length)))
}
