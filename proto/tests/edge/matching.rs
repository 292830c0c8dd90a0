//! Messages of a match, to frames and back. No network.

use crate::frames::{begin, decode, fault, frame, too_long, wired};
use crate::say::{message, same};
use bytes::Bytes;
use fedreg_common::id::Digest;
use fedreg_common::methods::vertical::matching::message::{
    Match, Number, NumberKind, PART_BYTES, Part, PartKind, Terms,
};
use fedreg_common::methods::vertical::message::{Body, Message};
use fedreg_common::session::PeerFault;
use fedreg_proto::limits::CHUNK_BYTES;
use fedreg_proto::wire::frame::Kind;
use fedreg_proto::wire::{self, Frame, start};
use proptest::prelude::*;

const PARTS: [PartKind; 5] = [PartKind::Masked, PartKind::Doubled, PartKind::Reveal, PartKind::Same, PartKind::Common];

fn said(what: Match) -> Message {
    message(0, Body::Match(what))
}

fn part(what: PartKind, entries: usize) -> Message {
    let bytes = (0..entries * what.unit()).map(|at| (at * 7) as u8).collect();
    said(Match::Part(Part { what, pass: 1, first: 9, bytes }))
}

/// Any message of a match.
pub(crate) fn any_message() -> impl Strategy<Value = Message> {
    let numbers = prop::sample::select(vec![NumberKind::Size, NumberKind::Count, NumberKind::Common]);
    prop_oneof![
        (any::<[u32; 4]>(), any::<u64>()).prop_map(|([normaliser, a, b, c], min_matched)| {
            said(Match::Terms(Terms { normaliser, unicode: [a, b, c], min_matched }))
        }),
        (numbers, any::<u32>(), any::<u64>()).prop_map(|(what, pass, number)| said(Match::Number(Number {
            what,
            pass,
            number
        }))),
        (prop::sample::select(PARTS.to_vec()), prop_oneof![1..40_usize, Just(usize::MAX)])
            .prop_map(|(what, entries)| part(what, entries.min(PART_BYTES / what.unit()))),
        any::<[u8; 32]>().prop_map(|proof| said(Match::Agree(Digest(proof)))),
        any::<[u8; 32]>().prop_map(|draw| said(Match::Draw(draw))),
    ]
}

/// Beginnings of such messages that are nearly right.
pub(crate) fn any_form() -> impl Strategy<Value = start::Body> {
    let proof = prop::collection::vec(any::<u8>(), 30..34);
    prop_oneof![
        (any::<[u32; 4]>(), any::<u64>()).prop_map(
            |([normaliser, normal_forms, case_folding, letters], min_matched)| {
                start::Body::MatchTerms(wire::MatchTerms {
                    normaliser,
                    normal_forms,
                    case_folding,
                    letters,
                    min_matched,
                })
            }
        ),
        (-1..5_i32, any::<u32>(), any::<u64>())
            .prop_map(|(what, pass, number)| start::Body::MatchNumber(wire::MatchNumber { what, pass, number })),
        (-1..7_i32, any::<u32>(), any::<u64>())
            .prop_map(|(what, pass, first)| start::Body::MatchPart(wire::MatchPart { what, pass, first })),
        proof.prop_map(|proof| start::Body::MatchAgree(wire::MatchAgree { proof: proof.into() })),
    ]
}

#[test]
fn a_part_of_a_list_is_one_chunk_however_long_the_list() {
    assert_eq!(PART_BYTES, CHUNK_BYTES);
    for what in PARTS {
        let sent = part(what, PART_BYTES / what.unit());
        let parts = wired(sent.clone());
        assert_eq!(parts.len(), 2);
        same(&decode(parts).unwrap().unwrap(), &sent);
    }
}

#[test]
fn parts_that_are_empty_too_long_or_cut_within_an_entry_are_refused() {
    let start = |what: wire::MatchPartKind, payload: u64| {
        begin(payload, 0, start::Body::MatchPart(wire::MatchPart { what: what.into(), pass: 0, first: 0 }))
    };
    for (kind, name, unit) in [
        (wire::MatchPartKind::Masked, "masked keys", 32_u64),
        (wire::MatchPartKind::Doubled, "tags of keys", 16),
        (wire::MatchPartKind::Reveal, "positions of matches", 4),
        (wire::MatchPartKind::Same, "places of the same records", 8),
        (wire::MatchPartKind::Common, "places of the records that all have", 8),
    ] {
        let most = PART_BYTES as u64 / unit;
        assert_eq!(fault([start(kind, 0)]), too_long(name, 0, most));
        assert_eq!(fault([start(kind, (most + 1) * unit)]), too_long(name, most + 1, most));
        assert_eq!(fault([start(kind, 1 << 62)]), too_long(name, (1 << 62) / unit, most));
        assert!(matches!(fault([start(kind, unit + 1)]), PeerFault::Garbage(_)));
        let chunk = |bytes: usize| frame(Kind::Chunk(vec![1; bytes].into()));
        assert!(matches!(fault([start(kind, 2 * unit), chunk(unit as usize)]), PeerFault::Garbage(_)));
    }
    assert!(matches!(fault([start(wire::MatchPartKind::Unspecified, 32)]), PeerFault::Garbage(_)));
}

#[test]
fn digests_of_another_length_and_kinds_that_do_not_exist_are_refused() {
    let refused = |body: start::Body| -> Frame { begin(0, 0, body) };
    for length in [0, 31, 33] {
        let proof = Bytes::from(vec![1; length]);
        let agree = wire::MatchAgree { proof };
        assert!(matches!(fault([refused(start::Body::MatchAgree(agree))]), PeerFault::Garbage(_)));
    }
    for what in [0, 4, -1] {
        let number = wire::MatchNumber { what, pass: 0, number: 1 };
        assert!(matches!(fault([refused(start::Body::MatchNumber(number))]), PeerFault::Garbage(_)));
    }
}
