//! What a party heard in a match, so that it can go on after it was killed.

use super::message::{Match, Number, NumberKind, PART_BYTES, Part, PartKind, Terms};
use crate::conversation::Content;
use crate::id::Digest;
use crate::methods::vertical::message::{Body, Rows};
use crate::secure::merging::{Merged, PART_POSITIONS};
use crate::session::Abort;

/// Messages of the coordinator are stored under their number with this bit.
pub(super) const ANSWERS: u64 = 1 << 63;

/// Where a party stores what it heard, in one run. What is stored lies on disk before the call returns.
pub trait Journal {
    /// Stores a message under its number.
    ///
    /// # Errors
    /// It cannot be stored.
    fn keep(&mut self, sequence: u64, message: &[u8]) -> Result<(), Abort>;

    /// A message that was stored.
    ///
    /// # Errors
    /// It cannot be read.
    fn kept(&mut self, sequence: u64) -> Result<Option<Vec<u8>>, Abort>;

    /// Whether anything was stored before this process began.
    fn has_begun(&self) -> bool;
}

/// A message that was stored in such a place, if there is one.
///
/// # Errors
/// It cannot be read.
pub(in crate::methods::vertical) fn recalled(
    journal: &mut Option<Box<dyn Journal + Send>>,
    sequence: u64,
) -> Result<Option<Body>, Abort> {
    let Some(journal) = journal else { return Ok(None) };
    let Some(bytes) = journal.kept(sequence)? else { return Ok(None) };
    recall(&bytes)
        .map(Some)
        .ok_or_else(|| Abort::OwnData("what was stored of an interrupted match cannot be read".to_owned()))
}

/// A message as it is stored. Of a greeting only that it came: the peer follows the same study, or the run would have ended.
pub(in crate::methods::vertical) fn record(body: &Body) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Body::Rows(Rows { key, rows, ids }) = body {
        bytes.push(if key.is_some() { b'k' } else { b'p' });
        bytes.extend(key.iter().flatten());
        bytes.extend_from_slice(&rows.to_le_bytes());
        bytes.extend_from_slice(&ids.0);
        return bytes;
    }
    if let Body::Merged(merged) = body {
        let (kind, number) = match merged {
            Merged::Passed { entries, .. } => (b'e', entries),
            Merged::Count { count, .. } => (b'n', count),
            Merged::Positions { first, .. } => (b'l', first),
        };
        bytes.push(kind);
        bytes.extend_from_slice(&merged.pass().to_le_bytes());
        bytes.extend_from_slice(&number.to_le_bytes());
        if let Merged::Positions { positions, .. } = merged {
            positions.iter().for_each(|position| bytes.extend_from_slice(&position.to_le_bytes()));
        }
        return bytes;
    }
    let Body::Match(message) = body else { return vec![if *body == Body::GO { b'g' } else { b'h' }] };
    match message {
        Match::Terms(terms) => {
            bytes.push(b't');
            for number in [terms.normaliser, terms.unicode[0], terms.unicode[1], terms.unicode[2]] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            bytes.extend_from_slice(&terms.min_matched.to_le_bytes());
        }
        Match::Number(Number { what, pass, number }) => {
            bytes.push(match what {
                NumberKind::Size => b's',
                NumberKind::Count => b'c',
                NumberKind::Common => b'C',
            });
            bytes.extend_from_slice(&pass.to_le_bytes());
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        Match::Part(part) => {
            bytes.push(match part.what {
                PartKind::Masked => b'm',
                PartKind::Doubled => b'd',
                PartKind::Reveal => b'r',
                PartKind::Same => b'S',
                PartKind::Common => b'P',
            });
            bytes.extend_from_slice(&part.pass.to_le_bytes());
            bytes.extend_from_slice(&part.first.to_le_bytes());
            bytes.extend_from_slice(&part.bytes);
        }
        Match::Agree(proof) => {
            bytes.push(b'a');
            bytes.extend_from_slice(&proof.0);
        }
        Match::Draw(draw) => {
            bytes.push(b'w');
            bytes.extend_from_slice(draw);
        }
    }
    bytes
}

/// The message that was stored; none if the bytes are no message. The session checks its content as it did when it came.
pub(in crate::methods::vertical) fn recall(bytes: &[u8]) -> Option<Body> {
    let (kind, mut rest) = bytes.split_first()?;
    let mut short = || Some(u32::from_le_bytes(*take(&mut rest)?));
    let message = match kind {
        b'g' => return Some(Body::GO),
        b't' => {
            let (normaliser, unicode) = (short()?, [short()?, short()?, short()?]);
            let min_matched = u64::from_le_bytes(*take(&mut rest)?);
            Match::Terms(Terms { normaliser, unicode, min_matched })
        }
        b's' | b'c' | b'C' => {
            let what = match kind {
                b's' => NumberKind::Size,
                b'c' => NumberKind::Count,
                _ => NumberKind::Common,
            };
            let pass = short()?;
            Match::Number(Number { what, pass, number: u64::from_le_bytes(*take(&mut rest)?) })
        }
        b'm' | b'd' | b'r' | b'S' | b'P' => {
            let what = match kind {
                b'm' => PartKind::Masked,
                b'd' => PartKind::Doubled,
                b'r' => PartKind::Reveal,
                b'S' => PartKind::Same,
                _ => PartKind::Common,
            };
            let pass = short()?;
            let first = u64::from_le_bytes(*take(&mut rest)?);
            let bytes = std::mem::take(&mut rest).to_vec();
            (bytes.len() <= PART_BYTES).then_some(Match::Part(Part { what, pass, first, bytes }))?
        }
        b'k' | b'p' => {
            let key = if *kind == b'k' { Some(*take(&mut rest)?) } else { None };
            let rows = u64::from_le_bytes(*take(&mut rest)?);
            let ids = Digest(*take(&mut rest)?);
            return rest.is_empty().then_some(Body::Rows(Rows { key, rows, ids }));
        }
        b'e' | b'n' | b'l' => {
            let pass = short()?;
            let number = u64::from_le_bytes(*take(&mut rest)?);
            let (words, cut) = std::mem::take(&mut rest).as_chunks();
            let positions: Vec<u32> = words.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
            let merged = match (kind, positions.is_empty()) {
                (b'e', true) => Merged::Passed { pass, entries: number },
                (b'n', true) => Merged::Count { pass, count: number },
                (b'l', false) if positions.len() <= PART_POSITIONS => {
                    Merged::Positions { pass, first: number, positions }
                }
                _ => return None,
            };
            return cut.is_empty().then_some(Body::Merged(merged));
        }
        b'w' => Match::Draw(*take(&mut rest)?),
        b'a' => Match::Agree(Digest(*take(&mut rest)?)),
        _ => return None,
    };
    rest.is_empty().then_some(Body::Match(message))
}

fn take<'a, const N: usize>(rest: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (found, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(found)
}
