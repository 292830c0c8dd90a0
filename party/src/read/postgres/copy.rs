//! Rows as COPY sends them in binary form.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use fedreg_common::data::Place as Row;
use tokio_postgres::types::{Kind as TypeKind, Type};
use tokio_stream::StreamExt;

use super::super::rows::Rows;
use super::super::typed::{self, Cell, Meaning};
use super::super::{How, Opened, ReadError, Stated};
use super::base::{self, Column, Held};

/// Types of extensions that are text.
const CASELESS: [&str; 1] = ["citext"];

/// Bytes that are handed over at a time, and how many such parts may wait.
const PART: usize = 1 << 20;
const WAITING: usize = 4;

/// What the stream begins with.
const START: &[u8] = b"PGCOPY\n\xff\r\n\0";

/// Days and microseconds from 1970 to 2000, where PostgreSQL begins to count.
const DAYS: i128 = 10_957;
const MICROSECONDS: i128 = 946_684_800_000_000;

/// A table that is being read.
struct Table {
    held: Arc<Held>,
    picks: Vec<Pick>,
    said: Option<Receiver<Said>>,
    /// What has come and is not yet given out, from byte `at` on.
    bytes: Vec<u8>,
    at: usize,
    begun: bool,
    ended: bool,
    row: u64,
    /// Where the values of the rows at hand begin, and how long they are, row by row; below zero where there is none.
    fields: Vec<(usize, i32)>,
}

/// One column to read.
#[derive(Clone)]
struct Pick {
    name: String,
    kind: Kind,
}

/// How a column's values are sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Truth,
    Whole,
    Unsigned,
    Single,
    Double,
    Numeric,
    Text,
    /// Text that is filled up with blanks to its length.
    Padded,
    /// What is sent as its text.
    Written,
    Date,
    Moment {
        utc: bool,
    },
}

/// What the thread says.
enum Said {
    Bytes(Vec<u8>),
    Failed(ReadError),
    End,
}

/// Opens a source; the rows come once they are asked for.
pub(super) fn open(stated: &Stated, how: &How) -> Result<Opened, ReadError> {
    if how.arrival.follow {
        return Err(ReadError::stated(
            stated.to_string(),
            "a data base cannot be followed; only a file that grows can",
        ));
    }
    let held = base::held(stated)?;
    let names = held.columns.iter().map(|column| column.name.clone()).collect();
    let name = held.place.name.clone();
    let (picks, bytes, fields) = (Vec::new(), Vec::new(), Vec::new());
    let table = Table { held, picks, said: None, bytes, at: 0, begun: false, ended: false, row: 0, fields };
    Opened::new(&name, names, table)
}

/// Sends what COPY gives, in parts.
async fn copy(held: &Held, picks: &[Pick], say: &SyncSender<Said>) -> Result<Said, ReadError> {
    let place = &held.place;
    let client = base::connect(place).await?;
    let failed = base::failure(place);
    client.batch_execute(&base::begin_with(&held.snapshot)).await.map_err(&failed)?;
    same(place.name.as_str(), &held.columns, &base::columns(place, &client, &held.query).await?)?;
    let list = picks.iter().map(|pick| match pick.kind {
        Kind::Written => format!("{}::text", base::quoted(&pick.name)),
        Kind::Truth
        | Kind::Whole
        | Kind::Unsigned
        | Kind::Single
        | Kind::Double
        | Kind::Numeric
        | Kind::Text
        | Kind::Padded
        | Kind::Date
        | Kind::Moment { .. } => base::quoted(&pick.name),
    });
    let list = list.collect::<Vec<_>>().join(", ");
    // A comment at its end must not take the bracket along.
    let text = format!("COPY (SELECT {list} FROM ({}\n) AS fedreg) TO STDOUT (FORMAT binary)", held.query);
    let stream = client.copy_out(text.as_str()).await.map_err(&failed)?;
    let mut stream = std::pin::pin!(stream);
    let mut part = Vec::with_capacity(PART + PART / 4);
    while let Some(bytes) = stream.next().await {
        part.extend_from_slice(&bytes.map_err(&failed)?);
        if part.len() >= PART {
            let full = std::mem::replace(&mut part, Vec::with_capacity(PART + PART / 4));
            if say.send(Said::Bytes(full)).is_err() {
                return Ok(Said::End);
            }
        }
    }
    let _ = say.send(Said::Bytes(part));
    Ok(Said::End)
}

/// Refuses a query that gives other columns than when it was looked at.
fn same(name: &str, before: &[Column], now: &[Column]) -> Result<(), ReadError> {
    if before == now {
        return Ok(());
    }
    let list = |columns: &[Column]| {
        let columns = columns.iter().map(|column| format!("`{}` ({})", column.name, column.of.name()));
        columns.collect::<Vec<_>>().join(", ")
    };
    let problem = format!("the query gives other columns than before: {}, and it gave {}", list(now), list(before));
    Err(ReadError::format(name, problem))
}

impl Kind {
    fn of(of: &Type) -> Option<Kind> {
        if matches!(of.kind(), TypeKind::Enum(_)) || CASELESS.contains(&of.name()) {
            return Some(Kind::Text);
        }
        Some(match *of {
            Type::BOOL => Kind::Truth,
            Type::INT2 | Type::INT4 | Type::INT8 => Kind::Whole,
            Type::OID => Kind::Unsigned,
            Type::FLOAT4 => Kind::Single,
            Type::FLOAT8 => Kind::Double,
            Type::NUMERIC => Kind::Numeric,
            Type::TEXT | Type::VARCHAR | Type::NAME | Type::UNKNOWN => Kind::Text,
            Type::BPCHAR => Kind::Padded,
            Type::UUID | Type::CHAR => Kind::Written,
            Type::DATE => Kind::Date,
            Type::TIMESTAMP => Kind::Moment { utc: false },
            Type::TIMESTAMPTZ => Kind::Moment { utc: true },
            _ => return None,
        })
    }

    /// The cell of a value; nothing where it has not as many bytes as its type.
    fn cell(self, bytes: &[u8]) -> Option<Cell<'_>> {
        let whole = || typed::whole(bytes).filter(|_| matches!(bytes.len(), 2 | 4 | 8));
        Some(match self {
            Kind::Truth => Cell::Truth(*bytes.first().filter(|_| bytes.len() == 1)? != 0),
            Kind::Whole => Cell::Whole(whole()?, Meaning::Plain),
            Kind::Unsigned => Cell::Whole(i128::from(u32::from_be_bytes(bytes.try_into().ok()?)), Meaning::Plain),
            Kind::Single => Cell::Number(f64::from(f32::from_be_bytes(bytes.try_into().ok()?))),
            Kind::Double => Cell::Number(f64::from_be_bytes(bytes.try_into().ok()?)),
            Kind::Numeric => numeric(bytes)?,
            Kind::Text | Kind::Written => Cell::Text(bytes),
            Kind::Padded => {
                Cell::Text(&bytes[..bytes.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1)])
            }
            Kind::Date => match whole()? {
                // Days without end are no day.
                days if days == i128::from(i32::MAX) || days == i128::from(i32::MIN) => Cell::Missing,
                days => Cell::Whole(days + DAYS, Meaning::Date),
            },
            Kind::Moment { utc } => match whole()? {
                moment if moment == i128::from(i64::MAX) || moment == i128::from(i64::MIN) => Cell::Missing,
                moment => Cell::Whole(moment + MICROSECONDS, Meaning::Moment { per_second: 1_000_000, utc }),
            },
        })
    }
}

/// A numeric: digits to the base 10000, the weight of the first, a sign, and the number of decimals.
fn numeric(bytes: &[u8]) -> Option<Cell<'_>> {
    let (halves, rest) = bytes.as_chunks::<2>();
    let [count, weight, sign, scale, digits @ ..] = halves else { return None };
    let (weight, scale) = (i16::from_be_bytes(*weight), u16::from_be_bytes(*scale));
    if !rest.is_empty() || digits.len() != usize::from(u16::from_be_bytes(*count)) {
        return None;
    }
    let negative = match u16::from_be_bytes(*sign) {
        0 => false,
        0x4000 => true,
        0xd000 => return Some(Cell::Number(f64::INFINITY)),
        0xf000 => return Some(Cell::Number(f64::NEG_INFINITY)),
        _ => return Some(Cell::Number(f64::NAN)),
    };
    let digits = digits.iter().map(|digit| u16::from_be_bytes(*digit));
    match exact(digits.clone(), weight, scale) {
        Some(value) => {
            let value = if negative { -value } else { value };
            let meaning = if scale == 0 { Meaning::Plain } else { Meaning::Decimal { scale: scale.into() } };
            Some(Cell::Whole(value, meaning))
        }
        // More digits than an id or a decimal may have: a number all the same, rounded once.
        None => {
            let power = 4 * (i32::from(weight) + 1 - digits.len() as i32);
            let written: String = digits.map(|digit| format!("{digit:04}")).collect();
            let number = format!("{}{written}e{power}", if negative { "-" } else { "" });
            Some(Cell::Number(number.parse().unwrap_or(f64::NAN)))
        }
    }
}

/// All digits as a whole number of units of the last decimal; nothing where there are more than fit.
fn exact(digits: impl Iterator<Item = u16>, weight: i16, scale: u16) -> Option<i128> {
    const MOST: u16 = 38;
    if scale > MOST {
        return None;
    }
    let mut value = 0i128;
    // The power of ten of the last digit of each.
    let mut power = 4 * i32::from(weight);
    for digit in digits {
        let shift = power + i32::from(scale);
        let part = match u32::try_from(shift) {
            Ok(shift) => 10i128.checked_pow(shift)?.checked_mul(i128::from(digit))?,
            // Digits behind the last decimal are zeros.
            Err(_) => i128::from(digit) / 10i128.checked_pow(shift.unsigned_abs())?,
        };
        value = value.checked_add(part)?;
        power -= 4;
    }
    (value < 10i128.pow(u32::from(MOST))).then_some(value)
}

impl Table {
    fn damaged(&self) -> ReadError {
        ReadError::format(&self.held.place.name, "what the server sends is no table in the form of COPY")
    }

    /// Starts the reading once it is known what is read.
    fn start(&mut self) -> Result<(), ReadError> {
        if self.said.is_some() {
            return Ok(());
        }
        let (say, said) = sync_channel(WAITING);
        let (held, picks) = (Arc::clone(&self.held), self.picks.clone());
        let name = held.place.name.clone();
        let thread = move || {
            let copied =
                base::runtime(&held.place.name).and_then(|runtime| runtime.block_on(copy(&held, &picks, &say)));
            // Nobody waits for it any more where the table was let go.
            let _ = say.send(copied.unwrap_or_else(Said::Failed));
        };
        thread::Builder::new().name("postgres".to_owned()).spawn(thread).map_err(ReadError::read(&name))?;
        self.said = Some(said);
        Ok(())
    }

    /// Waits for more bytes.
    fn more(&mut self) -> Result<(), ReadError> {
        self.start()?;
        let Some(said) = &self.said else { return Err(self.damaged()) };
        match said.recv() {
            Ok(Said::Bytes(bytes)) => {
                self.bytes.drain(..self.at);
                self.at = 0;
                match self.bytes.is_empty() {
                    true => self.bytes = bytes,
                    false => self.bytes.extend_from_slice(&bytes),
                }
                Ok(())
            }
            Ok(Said::Failed(error)) => Err(error),
            // The stream says itself where it ends: what ends before is cut short.
            Ok(Said::End) | Err(_) => Err(self.damaged()),
        }
    }

    fn begin(&mut self) -> Result<(), ReadError> {
        while self.bytes.len() < START.len() + 8 {
            self.more()?;
        }
        let extension = self.long(START.len() + 4).and_then(|length| usize::try_from(length).ok());
        let whole = extension.filter(|_| self.bytes.starts_with(START)).map(|length| START.len() + 8 + length);
        let Some(whole) = whole else { return Err(self.damaged()) };
        while self.bytes.len() < whole {
            self.more()?;
        }
        (self.at, self.begun) = (whole, true);
        Ok(())
    }

    fn long(&self, at: usize) -> Option<i32> {
        Some(i32::from_be_bytes(*self.bytes.get(at..)?.first_chunk()?))
    }

    /// Finds the values of rows at hand, at most so many, and how many rows that are.
    fn find(&mut self, most: usize) -> Result<usize, ReadError> {
        self.fields.clear();
        let mut rows = 0;
        while rows < most && !self.ended {
            let Some(count) = self.bytes.get(self.at..).and_then(<[u8]>::first_chunk) else { break };
            let count = i16::from_be_bytes(*count);
            if count == -1 {
                self.ended = true;
                break;
            }
            if usize::try_from(count) != Ok(self.picks.len()) {
                return Err(self.damaged());
            }
            let (mut at, before) = (self.at + 2, self.fields.len());
            for _ in 0..count {
                let Some(length) = self.long(at) else { break };
                at += 4;
                self.fields.push((at, length));
                at += usize::try_from(length).unwrap_or(0);
            }
            if self.fields.len() - before < self.picks.len() || at > self.bytes.len() {
                self.fields.truncate(before);
                break;
            }
            self.at = at;
            rows += 1;
        }
        Ok(rows)
    }

    fn give(&self, count: usize, rows: &mut Rows) -> Result<(), ReadError> {
        let (first, width) = (self.row + 1, self.picks.len());
        let mut numbers = Vec::with_capacity(count);
        for (at, (mut lane, pick)) in rows.lanes().zip(&self.picks).enumerate() {
            let fields = || self.fields[at..].iter().step_by(width.max(1)).take(count);
            if pick.kind == Kind::Double {
                numbers.clear();
                // All there, as a rule: then they are given as what they are.
                numbers.extend(fields().filter(|(_, length)| *length == 8).map_while(|(start, _)| {
                    self.bytes.get(*start..).and_then(<[u8]>::first_chunk).map(|bytes| f64::from_be_bytes(*bytes))
                }));
                if numbers.len() == count {
                    lane.numbers(first, &numbers)?;
                    continue;
                }
            }
            let mut whole = true;
            let cells = fields().map_while(|(start, length)| match usize::try_from(*length) {
                Err(_) => Some(Cell::Missing),
                Ok(length) => {
                    let cell = self.bytes.get(*start..start + length).and_then(|bytes| pick.kind.cell(bytes));
                    whole &= cell.is_some();
                    cell
                }
            });
            lane.fill(first, cells)?;
            if !whole {
                return Err(self.damaged());
            }
        }
        rows.end(Row::Row(first), count)
    }
}

impl super::super::Table for Table {
    fn pick(&mut self, position: usize, id: bool) -> Result<(), ReadError> {
        let Column { name, of } = &self.held.columns[position];
        let refuse = |expected| {
            let (file, column, found) = (self.held.place.name.clone(), name.clone(), of.name().to_owned());
            Err(ReadError::Type { file, column, found, expected })
        };
        let Some(kind) = Kind::of(of) else {
            return refuse("truth values, numbers and text can be read, so convert it in the query");
        };
        match (kind, id) {
            (Kind::Truth | Kind::Single | Kind::Double, true) => {
                return refuse("ids must be text, whole numbers, dates or timestamps");
            }
            (Kind::Date | Kind::Moment { .. }, false) => return refuse(typed::DERIVE),
            _ => {}
        }
        // However many digits it has.
        let kind = if kind == Kind::Numeric && id { Kind::Written } else { kind };
        self.picks.push(Pick { name: name.clone(), kind });
        Ok(())
    }

    fn next(&mut self, most: usize, rows: &mut Rows) -> Result<(), ReadError> {
        if !self.begun {
            self.begin()?;
        }
        while rows.len() < most {
            let count = self.find(most - rows.len())?;
            if count > 0 {
                rows.room(count)?;
                self.give(count, rows)?;
                self.row += count as u64;
            } else if self.ended {
                break;
            } else {
                self.more()?;
            }
        }
        Ok(())
    }
}
