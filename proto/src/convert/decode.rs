//! Frames to messages.

use super::{Wire, checked, garbage, in_round, missing};
use crate::limits::{CHUNK_BYTES, COEFFICIENTS, KEYS, Limits, RESULT_VALUES};
use crate::wire::{self, frame::Kind, start};
use fedreg_common::conversation::Content;
use fedreg_common::fit;
use fedreg_common::id::{Digest, Header};
use fedreg_common::methods::vertical::matching::message::{Match, PART_BYTES, Part};
use fedreg_common::methods::vertical::message::{
    Basis, Body, Estimates, FitEnd, Folds, Held, HeldKind, Joint, LANES, Masked, Message, Partial, Product, Results,
    Share, Table,
};
use fedreg_common::privacy::mechanism::LatticeVector;
use fedreg_common::secure::ring::{Elements, Incoming, Width};
use fedreg_common::session::PeerFault;
use std::ops::RangeInclusive;

const VALUE_BYTES: u64 = size_of::<f64>() as u64;

/// Puts messages together from frames, whatever carried them.
pub struct Decoder {
    limits: Limits,
    open: Option<Open>,
}

/// A message that is still coming.
struct Open {
    header: Header,
    head: Head,
    /// Bytes announced.
    payload: u64,
    values: Vec<f64>,
    bytes: Vec<u8>,
    /// Of a message that is elements and nothing else.
    elements: Option<Incoming>,
    /// Entries announced.
    entries: u64,
    keys: Vec<(String, Digest)>,
    coefficients: Vec<fit::Coefficient>,
}

impl Decoder {
    /// A decoder that takes vectors up to `limits`.
    pub fn new(limits: Limits) -> Decoder {
        Decoder { limits, open: None }
    }

    /// Whether no message is under way.
    pub fn is_idle(&self) -> bool {
        self.open.is_none()
    }

    /// Takes the next frame in; returns a message when it is complete.
    ///
    /// # Errors
    /// What is wrong with the frame, or with its place. The message that it belonged to is given up.
    pub fn push(&mut self, frame: wire::Frame) -> Result<Option<Message>, PeerFault> {
        let open = match (frame.kind, self.open.take()) {
            (Some(Kind::Start(start)), None) => Open::begin(start, &self.limits)?,
            (Some(Kind::Start(_)), Some(open)) => return Err(open.incomplete()),
            (Some(Kind::Chunk(chunk)), Some(mut open)) => {
                open.chunk(&chunk)?;
                open
            }
            (Some(Kind::Entries(entries)), Some(mut open)) => {
                open.entries(entries)?;
                open
            }
            (Some(Kind::Chunk(_) | Kind::Entries(_)), None) => {
                return Err(garbage("a part of a message that has no beginning"));
            }
            (Some(Kind::Heartbeat(_)), open) => {
                self.open = open;
                return Ok(None);
            }
            (Some(Kind::Bye(_)), Some(open)) => return Err(open.incomplete()),
            (Some(Kind::Abort(_) | Kind::Bye(_)), _) => return Err(garbage("a farewell where a message was expected")),
            (None, _) => return Err(garbage("a frame of no known kind")),
        };
        if open.payload_left() == 0 && open.entries_left() == 0 {
            return open.finish().map(Some);
        }
        self.open = Some(open);
        Ok(None)
    }
}

impl Open {
    fn begin(start: wire::Start, limits: &Limits) -> Result<Open, PeerFault> {
        let header = checked(start.header.ok_or_else(|| missing("the header"))?)?;
        let head = Head::read(start.body.ok_or_else(|| missing("the body"))?, limits)?;
        let unit = head.unit();
        if !start.payload.is_multiple_of(unit) {
            return Err(garbage(format!("{} bytes of {}", start.payload, head.what)));
        }
        let count = start.payload / unit;
        let length = |what, came, expected| Err(PeerFault::Length { what, came, expected });
        if !head.room.contains(&count) {
            return length(head.what, count, *head.room.end());
        }
        if head.split.saturating_add(head.last) > count {
            return length(head.what, count, head.split.saturating_add(head.last));
        }
        if start.entries > head.entries {
            return length("entries", start.entries, head.entries);
        }

        // Address space only: memory is taken as the values arrive.
        let (mut values, mut bytes, mut elements) = (Vec::new(), Vec::new(), None);
        let reserved = usize::try_from(count).is_ok_and(|count| match (head.elements(), head.raw()) {
            (Some(width), _) => {
                elements = Incoming::new(width, count);
                elements.is_some()
            }
            (None, true) => bytes.try_reserve_exact(count * unit as usize).is_ok(),
            (None, false) => values.try_reserve_exact(count).is_ok(),
        });
        if !reserved {
            return Err(garbage(format!("{count} values of {}, more than memory holds", head.what)));
        }
        Ok(Open {
            header,
            head,
            payload: start.payload,
            values,
            bytes,
            elements,
            entries: start.entries,
            keys: Vec::new(),
            coefficients: Vec::new(),
        })
    }

    fn chunk(&mut self, chunk: &[u8]) -> Result<(), PeerFault> {
        let expected = self.payload_left().min(CHUNK_BYTES as u64);
        if expected == 0 {
            return Err(garbage(format!("more than the announced values of {}", self.head.what)));
        }
        if chunk.len() as u64 != expected {
            return Err(garbage(format!("a chunk of {} bytes, expected {expected}", chunk.len())));
        }
        if let Some(elements) = &mut self.elements {
            return elements.push(chunk).map_err(|error| garbage(error.to_string()));
        }
        if self.head.raw() {
            self.bytes.extend_from_slice(chunk);
            return Ok(());
        }
        let (places, _) = chunk.as_chunks::<{ size_of::<f64>() }>();
        let before = self.values.len();
        self.values.extend(places.iter().map(|place| f64::from_le_bytes(*place)));
        // Without a branch in the loop.
        let odd = self.values[before..].iter().fold(false, |odd, value| odd | !value.is_finite());
        // A new row without a score is not-a-number; nothing else may be.
        let may_lack = matches!(self.head.body, Body::Prediction(_));
        match !odd || may_lack && !self.values[before..].iter().any(|value| value.is_infinite()) {
            true => Ok(()),
            false => Err(self.head.not_finite()),
        }
    }

    fn entries(&mut self, entries: wire::Entries) -> Result<(), PeerFault> {
        if self.payload_left() > 0 {
            return Err(self.incomplete());
        }
        let came = (entries.keys.len() as u64).saturating_add(entries.coefficients.len() as u64);
        if came == 0 {
            return Err(garbage("a frame of entries without any"));
        }
        let left = self.entries_left();
        if came > left {
            let came = self.entries.saturating_add(came - left);
            return Err(PeerFault::Length { what: "entries", came, expected: self.entries });
        }
        let greeting = matches!(self.head.body, Body::Hello(_));
        if entries.keys.is_empty() == greeting || entries.coefficients.is_empty() != greeting {
            return Err(garbage(format!("entries of another kind in {}", self.head.body.kind())));
        }
        for key in entries.keys {
            self.keys.push(checked(key)?);
        }
        for row in entries.coefficients {
            self.coefficients.push(coefficient(row)?);
        }
        Ok(())
    }

    /// The fault of a message that is given up before its end.
    fn incomplete(&self) -> PeerFault {
        let unit = self.head.unit();
        let (what, came, expected) = match self.payload_left() {
            0 => ("entries", self.entries - self.entries_left(), self.entries),
            left => (self.head.what, (self.payload - left) / unit, self.payload / unit),
        };
        PeerFault::Length { what, came, expected }
    }

    fn payload_left(&self) -> u64 {
        let elements = self.elements.as_ref().map_or(0, Incoming::bytes);
        self.payload - (self.bytes.len() + elements + size_of_val(self.values.as_slice())) as u64
    }

    fn entries_left(&self) -> u64 {
        self.entries - (self.keys.len() + self.coefficients.len()) as u64
    }

    fn finish(self) -> Result<Message, PeerFault> {
        let Open { header, head, mut values, bytes, elements: came, keys, coefficients, .. } = self;
        let whole = came.map(|came| came.finish().map_err(|error| garbage(error.to_string()))).transpose()?;
        // It is at most the number of values, which are in memory.
        let mut split_off = || values.split_off(usize::try_from(head.split).unwrap_or(usize::MAX).min(values.len()));
        let mut body = head.body;
        match &mut body {
            Body::Hello(hello) => hello.keys = keys,
            Body::Complete(mask) => *mask = bytes,
            Body::Noised(noised) => {
                noised.value = LatticeVector::decode(&bytes).map_err(|error| garbage(error.to_string()))?;
            }
            Body::Estimates(estimates) => {
                if let Some(rows) = &mut estimates.slopes {
                    *rows = coefficients;
                }
            }
            Body::Held(Held { values: empty, .. })
            | Body::Folds(Folds { values: empty, .. })
            | Body::Basis(Basis { values: empty, .. })
            | Body::Joint(Joint { values: empty, .. })
            | Body::Prediction(empty) => *empty = values,
            Body::Partial(Partial { values: empty, .. }) => *empty = values.into(),
            Body::Masked(Masked { entries, .. }) | Body::Product(Product { entries, .. }) => {
                *entries = whole.ok_or_else(|| missing("elements"))?;
            }
            Body::Match(Match::Part(part)) => part.bytes = bytes,
            Body::Share(share) => {
                let width = share.canary.width();
                // The split is at most the number of elements, which are in memory.
                let split = usize::try_from(head.split).unwrap_or(usize::MAX).saturating_mul(width.bytes());
                let (canary, table) = bytes.split_at(split.min(bytes.len()));
                share.canary = elements(width, canary)?;
                if let Some(share) = &mut share.table {
                    *share = elements(width, table)?;
                }
            }
            Body::Table(table) => {
                table.score = split_off();
                table.factor = values;
                let last = usize::try_from(head.last).unwrap_or(usize::MAX);
                table.robust = table.score.split_off(table.score.len().saturating_sub(last));
            }
            Body::Results(results) => {
                results.fold_errors = split_off();
                let (fits, _) = values.as_chunks::<2>();
                let fits = fits.iter().map(|&[shift, certificate]| FitEnd { shift, certificate });
                results.fits = fits.collect();
                if let Some(rows) = &mut results.coefficients {
                    *rows = coefficients;
                }
            }
            Body::Rows(_)
            | Body::Shared(_)
            | Body::LargestGradient(_)
            | Body::Terms(_)
            | Body::Ended(_)
            | Body::Redo(_)
            | Body::Dealt(_)
            | Body::Merged(_)
            | Body::Match(Match::Terms(_) | Match::Number(_) | Match::Agree(_) | Match::Draw(_))
            | Body::Go => {}
        }
        Ok(Message { header, body })
    }
}

/// The checked beginning of a message.
struct Head {
    /// Vectors and lists are empty yet.
    body: Body,
    /// What its values are.
    what: &'static str,
    round: u32,
    /// Least and most values.
    room: RangeInclusive<u64>,
    /// How many values belong to the first vector, where two travel together.
    split: u64,
    /// How many belong to the last, where three do.
    last: u64,
    /// Most entries.
    entries: u64,
}

impl Head {
    /// Whether what travels in chunks is not doubles.
    fn raw(&self) -> bool {
        matches!(
            self.body,
            Body::Complete(_)
                | Body::Noised(_)
                | Body::Masked(_)
                | Body::Share(_)
                | Body::Product(_)
                | Body::Match(Match::Part(_))
        )
    }

    /// The ring of a message that is elements and nothing else.
    fn elements(&self) -> Option<Width> {
        if let Body::Masked(Masked { entries, .. }) | Body::Product(Product { entries, .. }) = &self.body {
            return Some(entries.width());
        }
        None
    }

    /// Bytes of a value.
    fn unit(&self) -> u64 {
        let elements = match &self.body {
            Body::Complete(_) => return 1,
            Body::Masked(masked) => &masked.entries,
            Body::Share(share) => &share.canary,
            Body::Product(product) => &product.entries,
            Body::Match(Match::Part(part)) => return part.what.unit() as u64,
            Body::Hello(_)
            | Body::Rows(_)
            | Body::Shared(_)
            | Body::Held(_)
            | Body::LargestGradient(_)
            | Body::Partial(_)
            | Body::Prediction(_)
            | Body::Ended(_)
            | Body::Folds(_)
            | Body::Basis(_)
            | Body::Table(_)
            | Body::Redo(_)
            | Body::Results(_)
            | Body::Terms(_)
            | Body::Noised(_)
            | Body::Estimates(_)
            | Body::Joint(_)
            | Body::Dealt(_)
            | Body::Merged(_)
            | Body::Match(Match::Terms(_) | Match::Number(_) | Match::Agree(_) | Match::Draw(_))
            | Body::Go => return VALUE_BYTES,
        };
        elements.width().bytes() as u64
    }

    fn read(body: start::Body, limits: &Limits) -> Result<Head, PeerFault> {
        let mut head = Head { body: Body::Go, what: "anything", round: 0, room: 0..=0, split: 0, last: 0, entries: 0 };
        head.body = match body {
            start::Body::Hello(hello) => {
                head.entries = KEYS;
                Body::Hello(checked(hello)?)
            }
            start::Body::Rows(rows) => Body::Rows(checked(rows)?),
            start::Body::Complete(_) => {
                head.takes("the mask of complete rows", limits.values.div_ceil(8));
                Body::Complete(Vec::new())
            }
            start::Body::Shared(shared) => Body::Shared(checked(shared)?),
            start::Body::Held(held) => {
                head.takes(name_of_held(checked(held.what)?), limits.values);
                Body::Held(checked(held)?)
            }
            start::Body::LargestGradient(of) => {
                Body::LargestGradient(Wire::from_wire(of.value, "the largest gradient")?)
            }
            start::Body::Prediction(_) => {
                head.takes("predictions of new rows", limits.values);
                Body::Prediction(Vec::new())
            }
            start::Body::Terms(terms) => Body::Terms(checked(terms)?),
            start::Body::Noised(noised) => {
                // One value more: the step of the lattice.
                head.takes("noised values", limits.values.saturating_add(1));
                Body::Noised(checked(noised)?)
            }
            start::Body::Estimates(estimates) => {
                head.entries = if estimates.slopes { COEFFICIENTS } else { 0 };
                let shift = Wire::from_wire(estimates.shift, "the shift of the intercept")?;
                Body::Estimates(Estimates { shift, slopes: estimates.slopes.then(Vec::new) })
            }
            start::Body::Partial(partial) => {
                head.takes("partial predictions", limits.values);
                head.round = partial.round;
                Body::Partial(checked(partial).map_err(|fault| in_round(fault, head.round))?)
            }
            start::Body::Ended(ended) => Body::Ended(checked(ended)?),
            start::Body::Folds(folds) => head.folds(folds, limits)?,
            start::Body::Basis(basis) => head.basis(checked(basis)?, limits)?,
            start::Body::Table(table) => {
                head.takes("the projection table", limits.matrix);
                (head.split, head.last) = (table.factor, table.robust);
                let residual = Wire::from_wire(table.residual, "the residual sum of squares")?;
                let dependent = table.dependent;
                Body::Table(Table { factor: Vec::new(), score: Vec::new(), residual, dependent, robust: Vec::new() })
            }
            start::Body::Redo(redo) => Body::Redo(redo.fewer),
            start::Body::Results(results) => head.results(results)?,
            start::Body::Masked(masked) => {
                head.takes("masked columns", limits.matrix);
                Body::Masked(Masked { first: masked.first, entries: empty(masked.words)? })
            }
            start::Body::Share(share) => head.share(&share, limits)?,
            start::Body::Product(product) => head.product(&product, limits)?,
            start::Body::Joint(joint) => {
                head.takes("numbers of the joint solution", limits.matrix);
                Body::Joint(checked(joint)?)
            }
            start::Body::MatchTerms(terms) => Body::Match(Match::Terms(checked(terms)?)),
            start::Body::MatchNumber(number) => Body::Match(Match::Number(checked(number)?)),
            start::Body::MatchPart(part) => head.part(checked(part)?),
            start::Body::MatchAgree(agree) => {
                Body::Match(Match::Agree(Wire::from_wire(agree.proof, "the proof of a match")?))
            }
            start::Body::MatchDraw(draw) => {
                Body::Match(Match::Draw(Wire::from_wire(draw.draw, "a part of the key of a match")?))
            }
            start::Body::Go(_) => Body::Go,
        };
        Ok(head)
    }

    /// Values of this kind, at most a given number of, come behind the message.
    fn takes(&mut self, what: &'static str, most: u64) {
        (self.what, self.room) = (what, 0..=most);
    }

    fn folds(&mut self, folds: wire::Folds, limits: &Limits) -> Result<Body, PeerFault> {
        let (came, expected) = (folds.lanes.len() as u64, LANES as u64);
        if came > expected {
            return Err(PeerFault::Length { what: "fits side by side", came, expected });
        }
        self.takes("partial predictions", limits.matrix);
        Ok(Body::Folds(checked(folds)?))
    }

    fn results(&mut self, results: wire::Results) -> Result<Body, PeerFault> {
        self.takes("results", RESULT_VALUES);
        self.split = 2 * u64::from(results.fits);
        self.entries = if results.coefficients { COEFFICIENTS } else { 0 };
        Ok(Body::Results(Results {
            fits: Vec::new(),
            fold_errors: Vec::new(),
            statistics: results.statistics.map(checked).transpose()?,
            coefficients: results.coefficients.then(Vec::new),
        }))
    }

    /// A part of a list of a match has one entry at least.
    fn part(&mut self, part: Part) -> Body {
        (self.what, self.room) = (part.what.name(), 1..=(PART_BYTES / part.what.unit()) as u64);
        Body::Match(Match::Part(part))
    }

    fn share(&mut self, share: &wire::Share, limits: &Limits) -> Result<Body, PeerFault> {
        self.takes("shares", limits.matrix);
        self.split = share.canary;
        if !share.table {
            self.room = 0..=share.canary.min(limits.matrix);
        }
        let canary = empty(share.words)?;
        let table = share.table.then(|| canary.clone());
        Ok(Body::Share(Share { canary, table }))
    }

    fn product(&mut self, product: &wire::Product, limits: &Limits) -> Result<Body, PeerFault> {
        self.takes("a part of a product", limits.matrix);
        let wire::Product { number, what, first, words } = *product;
        Ok(Body::Product(Product { number, what: checked(what)?, first, entries: empty(words)? }))
    }

    fn basis(&mut self, basis: Basis, limits: &Limits) -> Result<Body, PeerFault> {
        self.what = "the basis";
        let count = u64::from(basis.rows).saturating_mul(basis.columns.into());
        if count > limits.matrix {
            return Err(PeerFault::Length { what: self.what, came: count, expected: limits.matrix });
        }
        if basis.start.checked_add(basis.rows.into()).is_none() {
            return Err(garbage("rows of the basis beyond any table"));
        }
        self.room = count..=count;
        Ok(Body::Basis(basis))
    }

    fn not_finite(&self) -> PeerFault {
        PeerFault::Value { what: self.what, expected: "finite", round: self.round }
    }
}

/// No elements yet, of this number of words each.
fn empty(words: u32) -> Result<Elements, PeerFault> {
    Ok(Elements::zeros(checked(words)?, 0))
}

/// As many elements as there are bytes for.
fn elements(width: Width, bytes: &[u8]) -> Result<Elements, PeerFault> {
    Elements::from_bytes(width, bytes.len() / width.bytes(), bytes).map_err(|error| garbage(error.to_string()))
}

fn coefficient(row: wire::Coefficient) -> Result<fit::Coefficient, PeerFault> {
    let row: fit::Coefficient = checked(row)?;
    if row.p_value.is_some_and(|p| !(0.0..=1.0).contains(&p)) {
        return Err(PeerFault::Value { what: "a p-value", expected: "between 0 and 1", round: 0 });
    }
    Ok(row)
}

/// What a held vector is, for sentences.
fn name_of_held(what: HeldKind) -> &'static str {
    match what {
        HeldKind::Outcome => "the outcome",
        HeldKind::Weights => "the weights",
        HeldKind::Offset => "the offset",
        HeldKind::Scale => "the scale of the outcome",
        HeldKind::NullResidual => "the residual of the null model",
    }
}
