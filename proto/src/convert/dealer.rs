//! What parties and the dealer say to each other, to the wire and back.

use std::collections::VecDeque;

use bytes::Bytes;
use fedreg_common::id::{Digest, RunId};
use fedreg_common::methods::vertical::message::Dealt;
use fedreg_common::secure::product::Shape;
use fedreg_common::secure::ring::{Elements, Width};
use fedreg_common::session::{Order, PeerFault};

use super::decode::elements;
use super::{Wire, checked, garbage};
use crate::limits::CHUNK_BYTES;
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

impl From<&Ordered> for wire::DealerOrder {
    fn from(ordered: &Ordered) -> wire::DealerOrder {
        let Order::Table(Shape { width, bits, rows, left, right }) = ordered.order;
        let table = wire::TableShape {
            words: width.to_wire(),
            bits,
            rows: rows as u64,
            left: left as u64,
            right: right as u64,
        };
        let order = Some(dealer_order::Order::Table(table));
        wire::DealerOrder { study: ordered.study.to_wire(), run: ordered.run.to_wire(), order }
    }
}

/// An order, checked. Whether it can be dealt is for the dealer to say.
///
/// # Errors
/// What is wrong with it.
pub fn ordered(order: wire::DealerOrder) -> Result<Ordered, PeerFault> {
    let dealer_order::Order::Table(table) = order.order.ok_or_else(|| garbage("an order of no known kind"))?;
    let size = |size: u64| usize::try_from(size).map_err(|_| garbage(format!("an order of size {size}")));
    let shape = Shape {
        width: checked(table.words)?,
        bits: table.bits,
        rows: size(table.rows)?,
        left: size(table.left)?,
        right: size(table.right)?,
    };
    Ok(Ordered {
        study: Wire::from_wire(order.study, "the digest of a study")?,
        run: checked(order.run)?,
        order: Order::Table(shape),
    })
}

/// What the dealer says, in frames.
pub fn answer_frames(answer: Answer) -> Vec<wire::DealerFrame> {
    use dealer_frame::Kind;
    let kinds = match answer {
        Answer::Dealt(Dealt::Seed(seed)) => vec![Kind::Seed(seed.to_wire())],
        Answer::Dealt(Dealt::Correction(entries)) => {
            let begin = wire::Correction { words: entries.width().to_wire(), elements: entries.count() as u64 };
            let mut bytes = Bytes::from(entries.to_bytes());
            let chunks = std::iter::from_fn(|| {
                let chunk = bytes.split_to(bytes.len().min(CHUNK_BYTES));
                (!chunk.is_empty()).then_some(Kind::Chunk(chunk))
            });
            std::iter::once(Kind::Correction(begin)).chain(chunks).collect()
        }
        Answer::Computed => vec![Kind::Computed(wire::Nothing {})],
        Answer::Notice(notice) => vec![Kind::Notice((&notice).into())],
    };
    kinds.into_iter().map(|kind| wire::DealerFrame { kind: Some(kind) }).collect()
}

/// Puts what the dealer says together from frames. It takes what was ordered and nothing else, so that no dealer can make a party store
/// more.
#[derive(Debug, Default)]
pub struct AnswerDecoder {
    /// What was ordered and is not answered.
    expected: VecDeque<Shape>,
    seeded: bool,
    /// A correction that is still coming, and its bytes so far.
    open: Option<Vec<u8>>,
}

impl AnswerDecoder {
    /// Takes note of an order.
    pub fn order(&mut self, order: Order) {
        let Order::Table(shape) = order;
        self.expected.push_back(shape);
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
            Kind::Chunk(_) => "a part of a correction",
            Kind::Computed(_) => "the end of a computation",
            Kind::Notice(_) => "a notice",
        };
        let unexpected = |expected| Err(PeerFault::Kind { came, expected });
        let Some(shape) = self.expected.front().copied() else {
            return unexpected("nothing, as everything ordered has come");
        };
        match (kind, self.open.take()) {
            (Kind::Chunk(chunk), Some(open)) => self.chunk(open, &chunk, &shape),
            (_, Some(_)) => unexpected("a part of a correction"),
            (Kind::Seed(seed), None) if !self.seeded => {
                self.seeded = true;
                Ok(Some(Answer::Dealt(Dealt::Seed(Wire::from_wire(seed, "a seed")?))))
            }
            (_, None) if !self.seeded => unexpected("a seed"),
            (Kind::Correction(begin), None) => {
                let (width, expected): (Width, u64) = (checked(begin.words)?, size(&shape));
                if width != shape.width {
                    let (came, expected) = (begin.words, shape.width.words());
                    return Err(garbage(format!("a correction of elements of {came} words, expected {expected}")));
                }
                if begin.elements != expected {
                    return Err(PeerFault::Length { what: "a correction", came: begin.elements, expected });
                }
                self.open = Some(Vec::new());
                Ok(None)
            }
            (Kind::Computed(_), None) => {
                self.expected.pop_front();
                Ok(Some(Answer::Computed))
            }
            (Kind::Seed(_) | Kind::Chunk(_) | Kind::Notice(_), None) => unexpected("a correction"),
        }
    }

    fn chunk(&mut self, mut open: Vec<u8>, chunk: &[u8], shape: &Shape) -> Result<Option<Answer>, PeerFault> {
        let whole = size(shape).saturating_mul(shape.width.bytes() as u64);
        let left = whole - open.len() as u64;
        let expected = left.min(CHUNK_BYTES as u64);
        if chunk.len() as u64 != expected {
            return Err(garbage(format!("a chunk of {} bytes, expected {expected}", chunk.len())));
        }
        open.extend_from_slice(chunk);
        if expected < left {
            self.open = Some(open);
            return Ok(None);
        }
        self.expected.pop_front();
        let correction: Elements = elements(shape.width, &open)?;
        Ok(Some(Answer::Dealt(Dealt::Correction(correction))))
    }
}

/// Elements of the correction of a table: the public columns stand behind the others.
fn size(shape: &Shape) -> u64 {
    let [left, right] = [shape.left, shape.right].map(|columns| (columns as u64).saturating_add(1));
    left.saturating_mul(right)
}
