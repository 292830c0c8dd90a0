//! The columns of a schema: their types, and where in a record batch each of them lies.

use std::ops::Range;

use super::flat::{Cut, Table as Flat};

/// Most columns, those inside of others counted, and how deep they may lie.
const MOST_FIELDS: usize = 1_000_000;
const DEEPEST: usize = 64;

/// The version of messages (of format 1.0, of 2020) from which on unions and runs have no bits of missing values.
pub(super) const VERSION_5: i16 = 4;

/// Numbers of types.
const UNION: u8 = 14;
const RUNS: u8 = 22;
const BINARY_VIEW: u8 = 23;
const TEXT_VIEW: u8 = 24;

/// One column of the stream.
pub(super) struct Field {
    pub(super) name: String,
    pub(super) kind: Kind,
    /// How many entries it and its children have among the batch's nodes and buffers.
    pub(super) nodes: usize,
    pub(super) buffers: usize,
    /// How many of it and its children are views: each has further buffers, as many as the batch says.
    pub(super) views: usize,
    /// How many of it and its children have one more buffer in old messages.
    bare: usize,
    /// How the values of its dictionary lie, where its own are places in one.
    pub(super) coded: Option<Kind>,
}

/// How a column's values lie.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
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
    /// Text by way of views of 16 bytes.
    TextView,
    /// Places in a dictionary of this number, each of a given number of bytes.
    Coded {
        dictionary: i64,
        bytes: usize,
        signed: bool,
    },
    Other(&'static str),
}

/// Where a column lies in every batch.
#[derive(Clone, Copy)]
pub(super) struct Span {
    /// Its first node.
    pub(super) node: usize,
    /// Its first buffer, and how many it has, further buffers of views left out.
    first: usize,
    own: usize,
    /// How many views are before it, and in it.
    before: usize,
    pub(super) views: usize,
    /// How many unions and runs are before it. No column that is read has any.
    bare: usize,
}

/// What a batch says of the number of its buffers.
#[derive(Default)]
pub(super) struct Counts {
    /// Further buffers, by view.
    pub(super) further: Vec<usize>,
    /// Whether unions and runs have bits of missing values.
    pub(super) old: bool,
}

impl Span {
    /// That of one of the columns.
    pub(super) fn of(fields: &[Field], position: usize) -> Span {
        let (before, field) = (&fields[..position], &fields[position]);
        Span {
            node: before.iter().map(|field| field.nodes).sum(),
            first: before.iter().map(|field| field.buffers).sum(),
            own: field.buffers,
            before: before.iter().map(|field| field.views).sum(),
            views: field.views,
            bare: before.iter().map(|field| field.bare).sum(),
        }
    }

    /// That of values which are the only ones of their batch, as those of a dictionary are.
    pub(super) fn alone(kind: Kind) -> Span {
        let is_view = kind == Kind::TextView;
        Span { node: 0, first: 0, own: if is_view { 2 } else { 3 }, before: 0, views: usize::from(is_view), bare: 0 }
    }

    /// Its buffers in a batch that has so many.
    pub(super) fn buffers(&self, counts: &Counts) -> Result<Range<usize>, Cut> {
        let add = |sum: usize, count: &usize| sum.checked_add(*count).ok_or(Cut);
        let (before, after) = counts.further.split_at_checked(self.before).ok_or(Cut)?;
        let first = if counts.old { add(self.first, &self.bare)? } else { self.first };
        let start = before.iter().try_fold(first, add)?;
        let end = after.get(..self.views).ok_or(Cut)?.iter().try_fold(add(start, &self.own)?, add)?;
        Ok(start..end)
    }
}

/// The columns of the schema that a message is.
pub(super) fn of_message(header: &[u8]) -> Result<Vec<Field>, Cut> {
    of_schema(Flat::root(header)?.table(2)?.ok_or(Cut)?)
}

/// The columns of a schema.
pub(super) fn of_schema(schema: Flat<'_>) -> Result<Vec<Field>, Cut> {
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
    let number = field.byte(2)?;
    let (is_view, is_bare) = (matches!(number, BINARY_VIEW | TEXT_VIEW), matches!(number, UNION | RUNS));
    let countable = own.is_some() && children.iter().all(|child| child.nodes > 0);
    Ok(Field {
        name,
        kind,
        nodes: if countable { 1 + children.iter().map(|child| child.nodes).sum::<usize>() } else { 0 },
        buffers: own.unwrap_or(0) + children.iter().map(|child| child.buffers).sum::<usize>(),
        views: usize::from(is_view) + children.iter().map(|child| child.views).sum::<usize>(),
        bare: usize::from(is_bare) + children.iter().map(|child| child.bare).sum::<usize>(),
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
            | Kind::TextView
            | Kind::Coded { .. } => Kind::Other("categorical"),
        },
    };
    Ok(Field { name, kind, nodes: 1, buffers: 2, views: 0, bare: 0, coded: usable.then_some(values) })
}

/// How the values of a field lie, and how many buffers it has of its own, further ones of views left out; nothing where
/// that is not known.
fn read_kind(field: &Flat<'_>) -> Result<(Kind, Option<usize>), Cut> {
    let details = field.table(3)?;
    let detail = |at: usize| details.as_ref().map_or(Ok(0), |details| details.int(at));
    let short = |at: usize| details.as_ref().map_or(Ok(0), |details| details.short(at));
    Ok(match field.byte(2)? {
        1 => (Kind::Nothing, Some(0)),
        2 => {
            let signed = details.as_ref().map_or(Ok(0), |details| details.byte(1))? != 0;
            match detail(0)? {
                bits @ (8 | 16 | 32 | 64) => (Kind::Whole { bytes: bits as usize / 8, signed }, Some(2)),
                128.. => (Kind::Other("whole number of more than 64 bits"), Some(2)),
                _ => return Err(Cut),
            }
        }
        3 => match short(0)? {
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
        // Which type each value has, where there are several, and where it is among those of its type.
        UNION => (Kind::Other("union"), Some(1 + usize::from(short(0)? != 0))),
        15 => (Kind::Other("bytes of fixed length"), Some(2)),
        16 => (Kind::Other("list of fixed length"), Some(1)),
        18 => (Kind::Other("duration"), Some(2)),
        20 => (Kind::Text { offset: 8 }, Some(3)),
        RUNS => (Kind::Other("run-end encoded"), Some(0)),
        BINARY_VIEW => (Kind::Other("bytes"), Some(2)),
        TEXT_VIEW => (Kind::TextView, Some(2)),
        25 | 26 => (Kind::Other("list"), Some(3)),
        _ => (Kind::Other("unknown to this reader"), None),
    })
}
