//! Messages to frames.

use super::Wire;
use crate::limits::{CHUNK_BYTES, CHUNK_VALUES};
use crate::wire::{self, frame::Kind, start};
use bytes::Bytes;
use fedreg_common::linalg::Values;
use fedreg_common::methods::vertical::matching::message::Match;
use fedreg_common::methods::vertical::message::{
    Basis, Body, Folds, Held, Joint, Masked, Message, Noised, Partial, Product, Share,
};
use fedreg_common::privacy::release::Released;
use fedreg_common::secure::ring::Elements;
use std::vec::IntoIter;

/// The frames of a message, made one at a time: beside the message itself only one chunk and the entries are in memory.
pub fn frames(message: Released<Message>) -> Frames {
    let Message { header, body } = message.into_inner();
    let mut frames = Frames { start: None, payload: Payload::Bytes(Bytes::new()), entries: Vec::new().into_iter() };
    let mut entries = 0;
    let body = frames.fill(body, &mut entries);
    let payload = frames.payload.len();
    frames.start = Some(wire::Start { header: Some(header.to_wire()), payload, entries, body });
    frames
}

/// See [`frames`].
pub struct Frames {
    start: Option<wire::Start>,
    payload: Payload,
    entries: IntoIter<wire::Entries>,
}

impl Iterator for Frames {
    type Item = wire::Frame;

    fn next(&mut self) -> Option<wire::Frame> {
        let kind = match self.start.take() {
            Some(start) => Kind::Start(start),
            None => match self.payload.next() {
                Some(chunk) => Kind::Chunk(chunk),
                None => Kind::Entries(self.entries.next()?),
            },
        };
        Some(wire::Frame { kind: Some(kind) })
    }
}

/// The bytes of a vector, least significant first: where the processor has them in this order, those of the vector itself.
fn bytes_of(values: Values) -> Bytes {
    struct Kept(Values);
    impl AsRef<[u8]> for Kept {
        fn as_ref(&self) -> &[u8] {
            bytemuck::cast_slice(&self.0)
        }
    }
    match cfg!(target_endian = "little") {
        true => Bytes::from_owner(Kept(values)),
        false => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
    }
}

/// What travels in chunks.
enum Payload {
    /// Elements of the ring, and how many of their words are on their way.
    Elements(Elements, usize),
    /// A vector of numbers, bits of a mask, or a lattice vector.
    Bytes(Bytes),
}

impl Payload {
    fn len(&self) -> u64 {
        let bytes = match self {
            Payload::Elements(elements, _) => elements.count() * elements.width().bytes(),
            Payload::Bytes(bytes) => bytes.len(),
        };
        bytes as u64
    }

    fn next(&mut self) -> Option<Bytes> {
        match self {
            Payload::Bytes(bytes) if bytes.is_empty() => None,
            Payload::Bytes(bytes) => Some(bytes.split_to(bytes.len().min(CHUNK_BYTES))),
            Payload::Elements(elements, at) => {
                let chunk = elements.bytes_from(*at, CHUNK_VALUES)?;
                *at += CHUNK_VALUES;
                Some(chunk.into())
            }
        }
    }
}

impl Frames {
    /// Elements travel behind the message; how many words each has.
    fn elements(&mut self, entries: Elements) -> u32 {
        let width = entries.width().to_wire();
        self.payload = Payload::Elements(entries, 0);
        width
    }

    fn partial(&mut self, partial: Partial) -> start::Body {
        let form = partial.to_wire();
        self.payload = Payload::Bytes(bytes_of(partial.values));
        start::Body::Partial(form)
    }

    fn noised(&mut self, noised: &Noised) -> start::Body {
        self.payload = Payload::Bytes(noised.value.encode().into());
        start::Body::Noised(noised.to_wire())
    }

    /// A message of a match; of a list, the entries travel behind it.
    fn of_match(&mut self, message: Match) -> start::Body {
        match message {
            Match::Terms(terms) => start::Body::MatchTerms(terms.to_wire()),
            Match::Number(number) => start::Body::MatchNumber(number.to_wire()),
            Match::Part(mut part) => {
                self.payload = Payload::Bytes(std::mem::take(&mut part.bytes).into());
                start::Body::MatchPart(part.to_wire())
            }
            Match::Agree(proof) => start::Body::MatchAgree(wire::MatchAgree { proof: proof.to_wire() }),
            Match::Draw(draw) => start::Body::MatchDraw(wire::MatchDraw { draw: draw.to_wire() }),
        }
    }

    /// The message without what travels behind it, which is kept here; `count` becomes the number of entries.
    fn fill(&mut self, mut body: Body, count: &mut u64) -> Option<start::Body> {
        if let Body::Held(Held { values, .. })
        | Body::Folds(Folds { values, .. })
        | Body::Basis(Basis { values, .. })
        | Body::Joint(Joint { values, .. })
        | Body::Prediction(values) = &mut body
        {
            self.payload = Payload::Bytes(bytes_of(std::mem::take(values).into()));
        }
        let body = match body {
            Body::Hello(mut hello) => {
                (*count, self.entries) = entries(std::mem::take(&mut hello.keys), |entries| &mut entries.keys);
                start::Body::Hello(hello.to_wire())
            }
            Body::Rows(rows) => start::Body::Rows(rows.to_wire()),
            Body::Complete(bits) => {
                self.payload = Payload::Bytes(bits.into());
                start::Body::Complete(wire::Nothing {})
            }
            Body::Shared(shared) => start::Body::Shared(shared.to_wire()),
            Body::Held(held) => start::Body::Held(held.to_wire()),
            Body::LargestGradient(value) => start::Body::LargestGradient(wire::LargestGradient { value: Some(value) }),
            Body::Partial(partial) => self.partial(partial),
            Body::Prediction(_) => start::Body::Prediction(wire::Nothing {}),
            Body::Terms(terms) => start::Body::Terms(terms.to_wire()),
            Body::Noised(noised) => self.noised(&noised),
            Body::Estimates(estimates) => {
                let (shift, slopes) = (estimates.shift.to_wire(), estimates.slopes.is_some());
                (*count, self.entries) =
                    entries(estimates.slopes.unwrap_or_default(), |entries| &mut entries.coefficients);
                start::Body::Estimates(wire::Estimates { shift, slopes })
            }
            Body::Ended(ended) => start::Body::Ended(ended.to_wire()),
            Body::Folds(folds) => start::Body::Folds(folds.to_wire()),
            Body::Basis(basis) => start::Body::Basis(basis.to_wire()),
            Body::Table(mut table) => {
                let (factor, robust) = (table.factor.len() as u64, table.robust.len() as u64);
                table.factor.append(&mut table.score);
                table.factor.append(&mut table.robust);
                self.payload = Payload::Bytes(bytes_of(table.factor.into()));
                let (residual, dependent) = (table.residual.to_wire(), table.dependent);
                start::Body::Table(wire::Table { factor, residual, dependent, robust })
            }
            Body::Redo(fewer) => start::Body::Redo(wire::Redo { fewer }),
            Body::Results(results) => {
                let fits = results.fits.iter().flat_map(|fit| [fit.shift, fit.certificate]);
                self.payload = Payload::Bytes(bytes_of(fits.chain(results.fold_errors).collect()));
                let coefficients = results.coefficients.is_some();
                (*count, self.entries) =
                    entries(results.coefficients.unwrap_or_default(), |entries| &mut entries.coefficients);
                // A count that does not fit is far beyond what a peer takes.
                let fits = u32::try_from(results.fits.len()).unwrap_or(u32::MAX);
                let statistics = results.statistics.as_ref().map(Wire::to_wire);
                start::Body::Results(wire::Results { fits, statistics, coefficients })
            }
            Body::Masked(Masked { first, entries }) => {
                start::Body::Masked(wire::Masked { first, words: self.elements(entries) })
            }
            Body::Share(Share { canary, table }) => {
                let mut bytes = canary.to_bytes();
                let (words, with) = (canary.width().to_wire(), table.is_some());
                bytes.extend(table.iter().flat_map(Elements::to_bytes));
                self.payload = Payload::Bytes(bytes.into());
                start::Body::Share(wire::Share { words, canary: canary.count() as u64, table: with })
            }
            Body::Product(Product { number, what, first, entries }) => {
                let (what, words) = (what.to_wire(), self.elements(entries));
                start::Body::Product(wire::Product { number, what, first, words })
            }
            Body::Joint(joint) => start::Body::Joint(joint.to_wire()),
            Body::Match(message) => self.of_match(message),
            // No study declares a seed, a correction or a position of a merge, so that nothing released holds one. If one came here all the same, a message
            // without a body would leave, which every decoder refuses, and no byte of it.
            Body::Dealt(_) | Body::Merged(_) => return None,
            Body::Go => start::Body::Go(wire::Nothing {}),
        };
        Some(body)
    }
}

/// What travels as entries, as many to a frame as fit: how many there are, and their frames.
fn entries<T: Wire<Form: prost::Message>>(
    items: Vec<T>,
    list: fn(&mut wire::Entries) -> &mut Vec<T::Form>,
) -> (u64, IntoIter<wire::Entries>) {
    let (count, mut frames, mut bytes) = (items.len() as u64, Vec::<wire::Entries>::new(), 0);
    for item in items {
        let item = item.to_wire();
        let length = prost::Message::encoded_len(&item);
        bytes += length + prost::length_delimiter_len(length) + 1;
        match frames.last_mut() {
            Some(frame) if bytes <= CHUNK_BYTES => list(frame).push(item),
            _ => {
                let mut frame = wire::Entries::default();
                list(&mut frame).push(item);
                bytes = length + prost::length_delimiter_len(length) + 1;
                frames.push(frame);
            }
        }
    }
    (count, frames.into_iter())
}
