//! Messages to frames.

use super::{held_to_wire, key_to_wire, owned, purpose_to_wire, role_to_wire, termination_to_wire};
use crate::limits::{CHUNK_BYTES, CHUNK_VALUES};
use crate::wire::{self, frame::Kind, start};
use bytes::Bytes;
use fedreg_common::fit;
use fedreg_common::id::{Digest, Header};
use fedreg_common::methods::vertical::message::{Body, Message, Partial, Shared};
use fedreg_common::privacy::release::Released;
use std::iter::Peekable;
use std::vec::IntoIter;

/// The frames of a message, made one at a time: beside the message itself only one chunk is in memory.
pub fn frames(message: Released<Message>) -> Frames {
    let Message { header, body } = message.into_inner();
    let (body, payload, entries) = body_to_wire(body);
    let start = wire::Start {
        header: Some(header_to_wire(&header)),
        payload: payload.len(),
        entries: entries.len(),
        body: Some(body),
    };
    Frames { start: Some(start), payload, entries }
}

/// See [`frames`].
pub struct Frames {
    start: Option<wire::Start>,
    payload: Payload,
    entries: Entries,
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

/// What travels in chunks.
enum Payload {
    /// Vectors one after the other; `at` is the place in the first.
    Values { vectors: IntoIter<Vec<f64>>, current: Vec<f64>, at: usize, left: usize },
    /// Bits of a mask, or a lattice vector.
    Bytes(Bytes),
}

impl Payload {
    fn values(vectors: Vec<Vec<f64>>) -> Payload {
        Payload::Values {
            left: vectors.iter().map(Vec::len).sum(),
            vectors: vectors.into_iter(),
            current: Vec::new(),
            at: 0,
        }
    }

    fn len(&self) -> u64 {
        let bytes = match self {
            Payload::Values { left, .. } => left * size_of::<f64>(),
            Payload::Bytes(bytes) => bytes.len(),
        };
        bytes as u64
    }

    fn next(&mut self) -> Option<Bytes> {
        match self {
            Payload::Bytes(bytes) if bytes.is_empty() => None,
            Payload::Bytes(bytes) => Some(bytes.split_to(bytes.len().min(CHUNK_BYTES))),
            Payload::Values { left: 0, .. } => None,
            Payload::Values { vectors, current, at, left } => {
                let mut chunk = vec![0; (*left).min(CHUNK_VALUES) * size_of::<f64>()];
                let (mut room, _) = chunk.as_chunks_mut::<{ size_of::<f64>() }>();
                while !room.is_empty() {
                    if *at == current.len() {
                        *current = vectors.next()?;
                        *at = 0;
                    }
                    let (now, later) = room.split_at_mut(room.len().min(current.len() - *at));
                    for (place, value) in now.iter_mut().zip(&current[*at..]) {
                        *place = value.to_le_bytes();
                    }
                    *at += now.len();
                    *left -= now.len();
                    room = later;
                }
                Some(chunk.into())
            }
        }
    }
}

/// What travels as entries, as many to a frame as fit.
enum Entries {
    Keys(Peekable<IntoIter<(String, Digest)>>),
    Coefficients(Peekable<IntoIter<fit::Coefficient>>),
}

impl Entries {
    fn none() -> Entries {
        Entries::keys(Vec::new())
    }

    fn keys(keys: Vec<(String, Digest)>) -> Entries {
        Entries::Keys(keys.into_iter().peekable())
    }

    fn len(&self) -> u64 {
        let entries = match self {
            Entries::Keys(keys) => keys.len(),
            Entries::Coefficients(rows) => rows.len(),
        };
        entries as u64
    }

    fn next(&mut self) -> Option<wire::Entries> {
        let mut entries = wire::Entries::default();
        match self {
            Entries::Keys(keys) => fill(&mut entries.keys, keys, key_to_wire),
            Entries::Coefficients(rows) => fill(&mut entries.coefficients, rows, coefficient_to_wire),
        }
        let some = !entries.keys.is_empty() || !entries.coefficients.is_empty();
        some.then_some(entries)
    }
}

fn fill<T, W: prost::Message>(room: &mut Vec<W>, items: &mut Peekable<IntoIter<T>>, convert: fn(&T) -> W) {
    let mut bytes = 0;
    while let Some(item) = items.peek().map(convert) {
        bytes += item.encoded_len() + prost::length_delimiter_len(item.encoded_len()) + 1;
        if bytes > CHUNK_BYTES && !room.is_empty() {
            return;
        }
        items.next();
        room.push(item);
    }
}

fn header_to_wire(header: &Header) -> wire::Header {
    wire::Header {
        study: owned(&header.study.0),
        run: owned(&header.run.0),
        sender: role_to_wire(header.sender),
        sequence: header.sequence,
    }
}

fn body_to_wire(body: Body) -> (start::Body, Payload, Entries) {
    let mut payload = Payload::values(Vec::new());
    let mut entries = Entries::none();
    let body = match body {
        Body::Hello(hello) => {
            entries = Entries::keys(hello.keys);
            start::Body::Hello(wire::Hello { version: hello.version, purpose: purpose_to_wire(hello.purpose) })
        }
        Body::Rows(rows) => start::Body::Rows(wire::Rows {
            key: rows.key.map(|key| owned(&key)),
            rows: rows.rows,
            ids: owned(&rows.ids.0),
        }),
        Body::Complete(bits) => {
            payload = Payload::Bytes(bits.into());
            start::Body::Complete(wire::Nothing {})
        }
        Body::Shared(shared) => start::Body::Shared(shared_to_wire(shared)),
        Body::Held(held) => {
            payload = Payload::values(vec![held.values]);
            start::Body::Held(wire::Held { what: held_to_wire(held.what), total: Some(held.total) })
        }
        Body::LargestGradient(value) => start::Body::LargestGradient(wire::LargestGradient { value: Some(value) }),
        Body::Partial(partial) => {
            let message = partial_to_wire(&partial);
            payload = Payload::values(vec![partial.values]);
            start::Body::Partial(message)
        }
        Body::Prediction(values) => {
            payload = Payload::values(vec![values]);
            start::Body::Prediction(wire::Nothing {})
        }
        Body::Terms(terms) => start::Body::Terms(wire::Terms {
            epsilon: Some(terms.epsilon),
            delta: Some(terms.delta),
            cap: Some(terms.cap),
            columns: terms.columns,
        }),
        Body::Noised(noised) => {
            payload = Payload::Bytes(noised.value.encode().into());
            start::Body::Noised(wire::Noised { index: noised.index })
        }
        Body::Estimates(estimates) => {
            let slopes = estimates.slopes.is_some();
            entries = Entries::Coefficients(estimates.slopes.unwrap_or_default().into_iter().peekable());
            start::Body::Estimates(wire::Estimates { shift: Some(estimates.shift), slopes })
        }
        Body::Ended(ended) => start::Body::Ended(wire::Ended {
            termination: termination_to_wire(ended.termination),
            rounds: ended.rounds,
        }),
        Body::Basis(basis) => {
            payload = Payload::values(vec![basis.values]);
            start::Body::Basis(wire::Basis { start: basis.start, rows: basis.rows, columns: basis.columns })
        }
        Body::Table(table) => {
            let factor = table.factor.len() as u64;
            payload = Payload::values(vec![table.factor, table.score]);
            start::Body::Table(wire::Table { factor, residual: Some(table.residual), dependent: table.dependent })
        }
        Body::Redo(fewer) => start::Body::Redo(wire::Redo { fewer }),
        Body::Results(results) => {
            let fits = results.fits.iter().flat_map(|fit| [fit.shift, fit.certificate]).collect();
            payload = Payload::values(vec![fits, results.fold_errors]);
            let shared = results.coefficients.is_some();
            entries = Entries::Coefficients(results.coefficients.unwrap_or_default().into_iter().peekable());
            // A count that does not fit is far beyond what a peer takes.
            let fits = u32::try_from(results.fits.len()).unwrap_or(u32::MAX);
            let statistics = results.statistics.as_ref().map(statistics_to_wire);
            start::Body::Results(wire::Results { fits, statistics, coefficients: shared })
        }
        Body::Go => start::Body::Go(wire::Nothing {}),
    };
    (body, payload, entries)
}

fn shared_to_wire(shared: Shared) -> wire::Shared {
    let digest = |digest: Option<Digest>| digest.map(|digest| owned(&digest.0));
    wire::Shared {
        outcome: digest(shared.outcome),
        offset: digest(shared.offset),
        weights: digest(shared.weights),
        folds: digest(shared.folds),
        columns: shared.columns,
        basis: shared.basis,
    }
}

fn partial_to_wire(partial: &Partial) -> wire::Partial {
    wire::Partial {
        fit: partial.fit,
        round: partial.round,
        penalty: Some(partial.penalty),
        loss: Some(partial.loss),
        change: Some(partial.change),
        certificate: Some(partial.certificate),
    }
}

fn statistics_to_wire(statistics: &fit::Statistics) -> wire::Statistics {
    wire::Statistics {
        nobs: statistics.nobs,
        df_residual: statistics.df_residual,
        df_null: statistics.df_null,
        deviance: statistics.deviance,
        null_deviance: statistics.null_deviance,
        aic: statistics.aic,
        bic: statistics.bic,
        log_lik: statistics.log_lik,
        dispersion: statistics.dispersion,
        r_squared: statistics.r_squared,
    }
}

fn coefficient_to_wire(row: &fit::Coefficient) -> wire::Coefficient {
    wire::Coefficient {
        term: row.term.clone(),
        party: role_to_wire(row.party),
        estimate: row.estimate,
        std_error: row.std_error,
        statistic: row.statistic,
        p_value: row.p_value,
        conf_low: row.conf_low,
        conf_high: row.conf_high,
    }
}
