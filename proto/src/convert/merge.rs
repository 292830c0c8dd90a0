//! What parties of a match and the coordinator that merges their lists say to each other, to the wire and back.

use bytes::Bytes;
use fedreg_common::id::{Digest, RunId};
use fedreg_common::secure::group::{TAG_BYTES, Tag};
use fedreg_common::secure::merging::{Merged, PART_POSITIONS, PART_TAGS};
use fedreg_common::session::PeerFault;

use super::{Wire, checked, garbage};
use crate::link::Notice;
use crate::wire::{self, merge_frame, merge_request};

/// What a party says.
#[derive(Clone, PartialEq, Eq)]
pub enum Asked {
    /// Its list of a pass follows.
    List(Announced),
    /// A part of the list: at least one tag.
    Part(Vec<Tag>),
    /// It wants the positions of this pass.
    Positions(u32),
}

/// Sizes only: tags stand for keys.
impl std::fmt::Debug for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Asked::List(announced) => announced.fmt(f),
            Asked::Part(tags) => write!(f, "Part({} tags)", tags.len()),
            Asked::Positions(pass) => write!(f, "Positions({pass})"),
        }
    }
}

/// A list that follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Announced {
    /// The digest of the party's study.
    pub study: Digest,
    /// The run that the party is in.
    pub run: RunId,
    /// The pass, from 0.
    pub pass: u32,
    /// How many tags follow.
    pub tags: u64,
}

/// What the coordinator says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// How far it is, and what it found.
    Merged(Merged),
    /// It ends the run; last.
    Notice(Notice),
}

impl From<&Announced> for wire::MergeRequest {
    fn from(announced: &Announced) -> wire::MergeRequest {
        let Announced { study, run, pass, tags } = *announced;
        let list = wire::MergeList { study: study.to_wire(), run: run.to_wire(), pass, tags };
        wire::MergeRequest { kind: Some(merge_request::Kind::List(list)) }
    }
}

/// A part of a list.
pub fn part(tags: Vec<u8>) -> wire::MergeRequest {
    wire::MergeRequest { kind: Some(merge_request::Kind::Chunk(tags.into())) }
}

/// That a party wants the positions of a pass.
pub fn positions(pass: u32) -> wire::MergeRequest {
    wire::MergeRequest { kind: Some(merge_request::Kind::Positions(wire::MergePass { pass })) }
}

/// What a party says, checked as far as that needs no knowledge of the run.
///
/// # Errors
/// What is wrong with it.
pub fn asked(request: wire::MergeRequest) -> Result<Asked, PeerFault> {
    use merge_request::Kind;
    Ok(match request.kind.ok_or_else(|| garbage("a request of no known kind"))? {
        Kind::List(wire::MergeList { study, run, pass, tags }) => Asked::List(Announced {
            study: Wire::from_wire(study, "the digest of a study")?,
            run: checked(run)?,
            pass,
            tags,
        }),
        Kind::Chunk(bytes) => Asked::Part(entries::<TAG_BYTES>(&bytes, "tags", PART_TAGS)?.to_vec()),
        Kind::Positions(wire::MergePass { pass }) => Asked::Positions(pass),
    })
}

/// Whole entries, at least one and at most a message full.
fn entries<'a, const N: usize>(bytes: &'a Bytes, what: &str, most: usize) -> Result<&'a [[u8; N]], PeerFault> {
    let (entries, rest) = bytes.as_chunks::<N>();
    match rest.is_empty() && (1..=most).contains(&entries.len()) {
        true => Ok(entries),
        false => Err(garbage(format!("{} bytes of {what}, expected 1 to {most} of {N} bytes", bytes.len()))),
    }
}

/// What the coordinator says, in its frame.
pub fn answer_frame(answer: Answer) -> wire::MergeFrame {
    use merge_frame::Kind;
    let kind = match answer {
        Answer::Merged(Merged::Passed { pass, entries }) => Kind::Passed(wire::MergeNumber { pass, number: entries }),
        Answer::Merged(Merged::Count { pass, count }) => Kind::Count(wire::MergeNumber { pass, number: count }),
        Answer::Merged(Merged::Positions { pass, first, positions }) => {
            let bytes: Vec<u8> = positions.iter().flat_map(|position| position.to_le_bytes()).collect();
            Kind::Positions(wire::MergePart { pass, first, positions: bytes.into() })
        }
        Answer::Notice(notice) => Kind::Notice((&notice).into()),
    };
    wire::MergeFrame { kind: Some(kind) }
}

/// What the coordinator says, checked as far as that needs no knowledge of the run.
///
/// # Errors
/// What is wrong with it.
pub fn answered(frame: wire::MergeFrame) -> Result<Answer, PeerFault> {
    use merge_frame::Kind;
    Ok(match frame.kind.ok_or_else(|| garbage("a frame of no known kind"))? {
        Kind::Passed(wire::MergeNumber { pass, number }) => Answer::Merged(Merged::Passed { pass, entries: number }),
        Kind::Count(wire::MergeNumber { pass, number }) => Answer::Merged(Merged::Count { pass, count: number }),
        Kind::Positions(wire::MergePart { pass, first, positions }) => {
            let positions = entries(&positions, "positions", PART_POSITIONS)?;
            let positions = positions.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
            Answer::Merged(Merged::Positions { pass, first, positions })
        }
        Kind::Notice(notice) => Answer::Notice(notice.into()),
    })
}
