//! What parties and the dealer say to each other, to the wire and back.

use std::collections::VecDeque;

use fedreg_common::id::{Digest, RunId};
use fedreg_common::methods::vertical::message::Dealt;
use fedreg_common::secure::product::{RowShape, SeveralShape, Shape, Side, VectorShape, WeightedShape};
use fedreg_common::secure::ring::{Elements, Incoming, ROWS, Width};
use fedreg_common::session::{Order, PeerFault};

use super::{Wire, checked, garbage};
use crate::limits::{CHUNK_BYTES, CHUNK_VALUES};
use crate::link::Notice;
use crate::wire::{self, dealer_frame, dealer_order};

/// An order, and what it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ordered {
    /// The digest of the party's study.
    pub study: Digest,
    /// The run that the party is in.
    pub run: RunId,
    /// What it orders.
    pub order: Order,
}

/// What the dealer says. No `Debug`: a seed is one of the things.
pub enum Answer {
    /// The party's seed, or its share of a product of masks.
    Dealt(Dealt),
    /// The order that is next was computed, and its correction goes to the other party.
    Computed,
    /// The dealer ends the run; last.
    Notice(Notice),
}

fn table(width: Width, bits: u32, rows: usize, [left, right]: [usize; 2]) -> wire::TableShape {
    wire::TableShape { words: width.to_wire(), bits, rows: rows as u64, left: left as u64, right: right as u64 }
}

impl From<&Ordered> for wire::DealerOrder {
    fn from(ordered: &Ordered) -> wire::DealerOrder {
        use dealer_order::Order as Form;
        let order = Some(match ordered.order {
            Order::Table(Shape { width, bits, rows, left, right }) => {
                Form::Table(table(width, bits, rows, [left, right]))
            }
            Order::Vector(VectorShape { width, bits, rows, left, right }) => {
                Form::Vector(table(width, bits, rows, [left, right]))
            }
            Order::Weighted(WeightedShape { width, bits, rows, left, right }) => {
                Form::Weighted(table(width, bits, rows, [left, right]))
            }
            Order::Rows(RowShape { width, bits, rows, terms, corrected }) => Form::Rows(wire::RowsShape {
                words: width.to_wire(),
                bits,
                rows: rows as u64,
                terms: terms as u64,
                left: corrected == Side::Left,
            }),
            Order::Several(shape, place) => Form::Several(wire::SeveralShape {
                words: shape.width.to_wire(),
                bits: shape.bits,
                rows: shape.rows as u64,
                columns: shape.columns().iter().map(|columns| *columns as u64).collect(),
                place: place as u32,
            }),
        });
        wire::DealerOrder { study: ordered.study.to_wire(), run: ordered.run.to_wire(), order }
    }
}

fn size(size: u64) -> Result<usize, PeerFault> {
    usize::try_from(size).map_err(|_| garbage(format!("an order of size {size}")))
}

fn shape(table: wire::TableShape) -> Result<Shape, PeerFault> {
    Ok(Shape {
        width: checked(table.words)?,
        bits: table.bits,
        rows: size(table.rows)?,
        left: size(table.left)?,
        right: size(table.right)?,
    })
}

/// An order, checked. Whether it can be dealt is for the dealer to say.
///
/// # Errors
/// What is wrong with it.
pub fn ordered(order: wire::DealerOrder) -> Result<Ordered, PeerFault> {
    use dealer_order::Order as Form;
    let form = order.order.ok_or_else(|| garbage("an order of no known kind"))?;
    let ordered = match form {
        Form::Table(table) => Order::Table(shape(table)?),
        Form::Vector(table) => {
            let Shape { width, bits, rows, left, right } = shape(table)?;
            Order::Vector(VectorShape { width, bits, rows, left, right })
        }
        Form::Weighted(table) => {
            let Shape { width, bits, rows, left, right } = shape(table)?;
            Order::Weighted(WeightedShape { width, bits, rows, left, right })
        }
        Form::Rows(rows) => Order::Rows(RowShape {
            width: checked(rows.words)?,
            bits: rows.bits,
            rows: size(rows.rows)?,
            terms: size(rows.terms)?,
            corrected: if rows.left { Side::Left } else { Side::Right },
        }),
        Form::Several(several) => {
            let columns = several.columns.iter().map(|columns| size(*columns)).collect::<Result<Vec<_>, _>>()?;
            let (place, parties) = (several.place as usize, columns.len());
            let shape = SeveralShape::new(checked(several.words)?, several.bits, size(several.rows)?, &columns);
            let shape = shape.filter(|_| place < parties);
            let wrong =
                || garbage(format!("an order of the party at place {place} of {parties}, or of an empty block"));
            Order::Several(shape.ok_or_else(wrong)?, place)
        }
    };
    Ok(Ordered {
        study: Wire::from_wire(order.study, "the digest of a study")?,
        run: checked(order.run)?,
        order: ordered,
    })
}

/// What the dealer says, in frames.
pub fn answer_frames(answer: Answer) -> Vec<wire::DealerFrame> {
    use dealer_frame::Kind;
    let kinds = match answer {
        Answer::Dealt(Dealt::Seed(seed)) => vec![Kind::Seed(seed.to_wire())],
        Answer::Dealt(Dealt::Correction(entries)) => {
            let begin = wire::Correction { words: entries.width().to_wire(), elements: entries.count() as u64 };
            in_chunks(Kind::Correction(begin), &entries)
        }
        Answer::Dealt(Dealt::Rows(first, entries)) => {
            let (words, elements) = (entries.width().to_wire(), entries.count() as u64);
            in_chunks(Kind::Rows(wire::CorrectionRows { words, elements, first }), &entries)
        }
        Answer::Computed => vec![Kind::Computed(wire::Nothing {})],
        Answer::Notice(notice) => vec![Kind::Notice((&notice).into())],
    };
    kinds.into_iter().map(|kind| wire::DealerFrame { kind: Some(kind) }).collect()
}

fn in_chunks(begin: dealer_frame::Kind, entries: &Elements) -> Vec<dealer_frame::Kind> {
    let words = (0..).step_by(CHUNK_VALUES);
    let chunks = words.map_while(|first| entries.bytes_from(first, CHUNK_VALUES));
    let chunks = chunks.map(|chunk| dealer_frame::Kind::Chunk(chunk.into()));
    std::iter::once(begin).chain(chunks).collect()
}

/// Puts what the dealer says together from frames. It takes what was ordered and nothing else, so that no dealer can make a party store
/// more.
#[derive(Debug, Default)]
pub struct AnswerDecoder {
    /// What was ordered and is not answered, and how many of its row blocks have had their corrections.
    expected: VecDeque<(Order, usize)>,
    seeded: bool,
    /// A correction that is still coming.
    open: Option<Open>,
}

/// A correction that is still coming.
#[derive(Debug)]
struct Open {
    /// The first row block, of corrections of rows.
    first: Option<u64>,
    /// Bytes in all.
    whole: u64,
    elements: Incoming,
}

impl AnswerDecoder {
    /// Takes note of an order.
    pub fn order(&mut self, order: Order) {
        self.expected.push_back((order, 0));
    }

    /// Whether everything ordered has come.
    pub fn is_complete(&self) -> bool {
        self.expected.is_empty()
    }

    /// Takes the next frame in; returns an answer when it is complete.
    ///
    /// # Errors
    /// What is wrong with the frame, or with its place.
    pub fn push(&mut self, frame: wire::DealerFrame) -> Result<Option<Answer>, PeerFault> {
        use dealer_frame::Kind;
        let kind = frame.kind.ok_or_else(|| garbage("a frame of no known kind"))?;
        if let Kind::Notice(notice) = kind {
            return Ok(Some(Answer::Notice(notice.into())));
        }
        let came = match &kind {
            Kind::Seed(_) if self.seeded => "a second seed",
            Kind::Seed(_) => "a seed",
            Kind::Correction(_) => "a correction",
            Kind::Rows(_) => "corrections of rows",
            Kind::Chunk(_) => "a part of a correction",
            Kind::Computed(_) => "the end of a computation",
            Kind::Notice(_) => "a notice",
        };
        let unexpected = |expected| Err(PeerFault::Kind { came, expected });
        let Some((order, passed)) = self.expected.front().copied() else {
            return unexpected("nothing, as everything ordered has come");
        };
        let left = blocks(&order) - passed;
        match (kind, self.open.take()) {
            (Kind::Chunk(chunk), Some(open)) => self.chunk(open, &chunk),
            (_, Some(_)) => unexpected("a part of a correction"),
            (Kind::Seed(seed), None) if !self.seeded => {
                self.seeded = true;
                Ok(Some(Answer::Dealt(Dealt::Seed(Wire::from_wire(seed, "a seed")?))))
            }
            (_, None) if !self.seeded => unexpected("a seed"),
            (Kind::Rows(begin), None) if left > 0 => {
                let wire::CorrectionRows { words, elements, first } = begin;
                if first != passed as u64 {
                    return Err(garbage(format!("corrections of row block {first}, expected {passed}")));
                }
                self.begin(width(&order), (words, elements), &sizes_of_rows(&order, passed), Some(first))
            }
            (Kind::Correction(begin), None)
                if last(&order).is_some() && (left == 0 || passed == 0 && !weighted(&order)) =>
            {
                self.begin(width(&order), (begin.words, begin.elements), &[last(&order).unwrap_or(0)], None)
            }
            // Of rows either all corrections come to a party or none; of a weighted table they come to both.
            (Kind::Computed(_), None) if passed == 0 && !weighted(&order) || left == 0 => {
                self.expected.pop_front();
                Ok(Some(Answer::Computed))
            }
            (
                Kind::Seed(_)
                | Kind::Chunk(_)
                | Kind::Notice(_)
                | Kind::Rows(_)
                | Kind::Correction(_)
                | Kind::Computed(_),
                None,
            ) => unexpected(if left > 0 { "corrections of rows" } else { "a correction" }),
        }
    }

    /// A correction begins, of one of these sizes.
    fn begin(
        &mut self,
        ordered: Width,
        (words, elements): (u32, u64),
        sizes: &[u64],
        first: Option<u64>,
    ) -> Result<Option<Answer>, PeerFault> {
        let width: Width = checked(words)?;
        if width != ordered {
            let expected = ordered.words();
            return Err(garbage(format!("a correction of elements of {words} words, expected {expected}")));
        }
        if !sizes.contains(&elements) {
            let expected = sizes.iter().copied().max().unwrap_or(0);
            return Err(PeerFault::Length { what: "a correction", came: elements, expected });
        }
        let whole = elements.saturating_mul(width.bytes() as u64);
        // Memory is taken as they come.
        let incoming = usize::try_from(elements).ok().and_then(|count| Incoming::new(width, count));
        let elements =
            incoming.ok_or_else(|| garbage(format!("a correction of {elements} elements, more than memory holds")))?;
        self.open = Some(Open { first, whole, elements });
        Ok(None)
    }

    fn chunk(&mut self, mut open: Open, chunk: &[u8]) -> Result<Option<Answer>, PeerFault> {
        let left = open.whole - open.elements.bytes() as u64;
        let expected = left.min(CHUNK_BYTES as u64);
        if chunk.len() as u64 != expected {
            return Err(garbage(format!("a chunk of {} bytes, expected {expected}", chunk.len())));
        }
        open.elements.push(chunk).map_err(|error| garbage(error.to_string()))?;
        if expected < left {
            self.open = Some(open);
            return Ok(None);
        }
        let entries: Elements = open.elements.finish().map_err(|error| garbage(error.to_string()))?;
        let Some((order, passed)) = self.expected.front_mut() else { return Ok(None) };
        let Some(first) = open.first else {
            self.expected.pop_front();
            return Ok(Some(Answer::Dealt(Dealt::Correction(entries))));
        };
        *passed += batch(order).min(blocks(order) - *passed);
        if *passed == blocks(order) && last(order).is_none() {
            self.expected.pop_front();
        }
        Ok(Some(Answer::Dealt(Dealt::Rows(first, entries))))
    }
}

/// The ring of an order.
fn width(order: &Order) -> Width {
    match order {
        Order::Table(shape) => shape.width,
        Order::Vector(shape) => shape.width,
        Order::Weighted(shape) => shape.width,
        Order::Rows(shape) => shape.width,
        Order::Several(shape, _) => shape.width,
    }
}

/// Row blocks of an order that have corrections of their own.
fn blocks(order: &Order) -> usize {
    match order {
        Order::Table(_) | Order::Vector(_) | Order::Several(..) => 0,
        Order::Rows(shape) => shape.blocks(),
        Order::Weighted(shape) => shape.blocks(),
    }
}

/// Row blocks of a message of their corrections.
fn batch(order: &Order) -> usize {
    match order {
        Order::Table(_) | Order::Vector(_) | Order::Several(..) => 0,
        Order::Rows(shape) => shape.batch(),
        Order::Weighted(shape) => shape.batch(),
    }
}

fn weighted(order: &Order) -> bool {
    matches!(order, Order::Weighted(_))
}

/// Elements that the corrections of the next row blocks may have: those of a weighted table are of the columns of either side.
fn sizes_of_rows(order: &Order, passed: usize) -> Vec<u64> {
    let range = passed..blocks(order).min(passed.saturating_add(batch(order)));
    match order {
        Order::Table(_) | Order::Vector(_) | Order::Several(..) => Vec::new(),
        Order::Rows(shape) => vec![range.map(|block| shape.correction(block) as u64).sum()],
        Order::Weighted(shape) => {
            let rows =
                shape.rows.min(range.end.saturating_mul(ROWS)) - shape.rows.min(range.start.saturating_mul(ROWS));
            [shape.left, shape.right].map(|columns| (rows as u64).saturating_mul(columns as u64)).to_vec()
        }
    }
}

/// Elements of the last correction of an order, which the right party gets, of several all but the first: of a table the public columns
/// stand behind the others.
fn last(order: &Order) -> Option<u64> {
    let product = |left: u64, right: u64| left.saturating_mul(right);
    match order {
        Order::Table(shape) => {
            let [left, right] = [shape.left, shape.right].map(|columns| (columns as u64).saturating_add(1));
            Some(product(left, right))
        }
        Order::Vector(shape) => Some((shape.left as u64).saturating_add(shape.right as u64)),
        Order::Weighted(shape) => {
            let [left, right] = [shape.left, shape.right].map(|columns| columns as u64);
            Some(product(left, left).saturating_add(product(right, right)).saturating_add(product(left, right)))
        }
        Order::Several(shape, place) => Some(shape.correction(*place) as u64).filter(|elements| *elements > 0),
        Order::Rows(_) => None,
    }
}
