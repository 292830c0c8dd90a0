//! Messages of a sealed fit, to frames and back. No network.

use crate::frames::{LIMITS, begin, chunk, decode, fault, frame, not_finite, number, says, too_long, wired};
use crate::say::{message, same};
use fedreg_common::methods::vertical::message::{
    Body, Dealt, Joint, JointKind, Masked, Message, Product, ProductKind, Share,
};
use fedreg_common::privacy::release::{Declaration, Discloses};
use fedreg_common::secure::ring::{Elements, PRIMES, Width};
use fedreg_proto::limits::CHUNK_BYTES;
use fedreg_proto::wire::frame::Kind;
use fedreg_proto::wire::{self, Frame, start};
use proptest::prelude::*;

const WIDTHS: [Width; 2] = [Width::One, Width::Two];

/// Elements of both signs and all sizes.
pub(crate) fn some(width: Width, count: usize) -> Elements {
    let spread = |at: usize| (at as i128 + 1) * 0x0123_4567_89ab_cdef * [1, -1][at % 2];
    Elements::from_integers(width, &(0..count).map(spread).collect::<Vec<_>>())
}

fn elements() -> impl Strategy<Value = Elements> {
    let values = prop_oneof![
        prop::collection::vec(any::<i64>(), 0..40),
        // Around one chunk's end, for elements of two words and of one.
        (any::<i64>(), 16_382_usize..16_387).prop_map(|(value, length)| vec![value; length]),
        (any::<i64>(), 32_766_usize..32_770).prop_map(|(value, length)| vec![value; length]),
    ];
    (prop::sample::select(&WIDTHS[..]), values).prop_map(|(width, values)| {
        Elements::from_integers(width, &values.into_iter().map(i128::from).collect::<Vec<_>>())
    })
}

fn said(body: Body) -> Message {
    message(0, body)
}

/// Any message of a sealed fit that travels between parties.
pub(crate) fn any_message() -> impl Strategy<Value = Message> {
    let kinds = [
        JointKind::LeftOver,
        JointKind::Reduction,
        JointKind::Answer,
        JointKind::Means,
        JointKind::Point,
        JointKind::Range,
        JointKind::End,
        JointKind::Tables,
        JointKind::Reduced,
        JointKind::Covariance,
    ];
    let parts = [ProductKind::Rows, ProductKind::Canary, ProductKind::Shares];
    prop_oneof![
        (any::<u64>(), elements()).prop_map(|(first, entries)| said(Body::Masked(Masked { first, entries }))),
        (elements(), 0..3_usize, any::<bool>()).prop_map(|(both, canary, with)| {
            let (canary, table) = (both.slice(0..canary), both.slice(canary..both.count()));
            said(Body::Share(Share { canary, table: with.then_some(table) }))
        }),
        (any::<u32>(), prop::sample::select(parts.to_vec()), any::<u64>(), elements())
            .prop_map(|(number, what, first, entries)| said(Body::Product(Product { number, what, first, entries }))),
        (prop::sample::select(kinds.to_vec()), prop::collection::vec(number(), 0..40))
            .prop_map(|(what, values)| said(Body::Joint(Joint { what, values }))),
    ]
}

/// Beginnings of such messages that are nearly right.
pub(crate) fn any_form() -> impl Strategy<Value = start::Body> {
    let words = || 0..4_u32;
    let count = || prop_oneof![0..4_u64, any::<u64>()];
    prop_oneof![
        (any::<u64>(), words()).prop_map(|(first, words)| start::Body::Masked(wire::Masked { first, words })),
        (words(), count(), any::<bool>()).prop_map(|(words, canary, table)| start::Body::Share(wire::Share {
            words,
            canary,
            table
        })),
        (any::<u32>(), -1..5_i32, any::<u64>(), words()).prop_map(|(number, what, first, words)| start::Body::Product(
            wire::Product { number, what, first, words }
        )),
        (-1..9_i32).prop_map(|what| start::Body::Joint(wire::Joint { what })),
    ]
}

fn masked(words: u32) -> start::Body {
    start::Body::Masked(wire::Masked { first: 3, words })
}

fn share(words: u32, canary: u64, table: bool) -> start::Body {
    start::Body::Share(wire::Share { words, canary, table })
}

fn words(words: &[u64]) -> Frame {
    frame(Kind::Chunk(words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>().into()))
}

#[test]
fn row_blocks_travel_as_the_bytes_of_their_words_in_chunks() {
    for width in WIDTHS {
        let count = CHUNK_BYTES / width.bytes() + 3;
        let entries = some(width, count);
        let sent = message(4, Body::Masked(Masked { first: 7, entries: entries.clone() }));
        let parts = wired(sent.clone());
        same(&decode(parts.clone()).unwrap().unwrap(), &sent);
        let Some(Kind::Start(start)) = &parts[0].kind else { panic!("no start") };
        assert_eq!((start.payload, start.entries), ((count * width.bytes()) as u64, 0));
        let body = wire::Masked { first: 7, words: width.words() as u32 };
        assert_eq!(start.body, Some(start::Body::Masked(body)));
        let chunks = parts[1..].iter().map(|part| match &part.kind {
            Some(Kind::Chunk(chunk)) => chunk.to_vec(),
            kind => panic!("{kind:?}"),
        });
        let chunks: Vec<Vec<u8>> = chunks.collect();
        assert_eq!(chunks.iter().map(Vec::len).collect::<Vec<_>>(), [CHUNK_BYTES, 3 * width.bytes()]);
        assert!(chunks.concat() == entries.to_bytes());
    }
}

#[test]
fn a_share_says_which_elements_belong_to_the_canary_and_whether_there_is_a_table() {
    for width in WIDTHS {
        for table in [None, Some(some(width, 0)), Some(some(width, 12))] {
            let sent = message(2, Body::Share(Share { canary: some(width, 1), table }));
            same(&decode(wired(sent.clone())).unwrap().unwrap(), &sent);
        }
    }
    // The first element of each of both vectors, in the places of the packed form: first words, then second words.
    let parts = [begin(48, 0, share(2, 1, true)), words(&[1, 2, 3, 4, 5, 6])];
    let Some(Message { body: Body::Share(Share { canary, table }), .. }) = decode(parts).unwrap() else {
        panic!("no share")
    };
    let bytes = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    assert!(canary.to_bytes() == bytes(&[1, 2]));
    assert!(table.unwrap().to_bytes() == bytes(&[3, 4, 5, 6]));
    // A table that was not announced, and a canary that is longer than everything.
    assert_eq!(fault([begin(16, 0, share(1, 1, false))]), too_long("shares", 2, 1));
    for table in [false, true] {
        assert_eq!(fault([begin(16, 0, share(1, 3, table))]), too_long("shares", 2, 3));
        let endless = fault([begin(16, 0, share(1, u64::MAX, table))]);
        assert_eq!(endless, too_long("shares", 2, u64::MAX));
    }
}

#[test]
fn elements_have_one_word_or_two() {
    for bad in [0, 3, u32::MAX] {
        for body in [masked(bad), share(bad, 0, true)] {
            says(&fault([begin(0, 0, body)]), &format!("elements of {bad} words, expected 1 or 2"));
        }
    }
    says(&fault([begin(24, 0, masked(2))]), "24 bytes of masked columns");
    says(&fault([begin(12, 0, masked(1))]), "12 bytes of masked columns");
    says(&fault([begin(8, 0, share(2, 0, true))]), "8 bytes of shares");
}

#[test]
fn a_word_beyond_its_primes_is_refused_wherever_it_stands() {
    let fields = |low: usize| PRIMES[low] | (PRIMES[low + 1] << 21) | (PRIMES[low + 2] << 42);
    let largest = |low: usize| fields(low) - (1 | (1 << 21) | (1 << 42));
    // The largest residues are taken; the primes of the second word are smaller than those of the first.
    assert!(decode([begin(32, 0, masked(2)), words(&[largest(0), 0, largest(3), 0])]).unwrap().is_some());
    assert!(decode([begin(16, 0, masked(1)), words(&[largest(0), 0])]).unwrap().is_some());
    for bad in [PRIMES[0], PRIMES[1] << 21, PRIMES[2] << 42, 1 << 63, u64::MAX] {
        says(&fault([begin(16, 0, masked(1)), words(&[0, bad])]), "below their primes");
        says(&fault([begin(16, 0, masked(2)), words(&[bad, 0])]), "below their primes");
        says(&fault([begin(16, 0, share(1, 1, true)), words(&[bad, 0])]), "below their primes");
        says(&fault([begin(16, 0, share(1, 1, true)), words(&[0, bad])]), "below their primes");
        says(&fault([begin(16, 0, share(1, 2, false)), words(&[0, bad])]), "below their primes");
    }
    for bad in [largest(0), PRIMES[3], PRIMES[4] << 21, PRIMES[5] << 42] {
        says(&fault([begin(32, 0, masked(2)), words(&[0, 0, 0, bad])]), "below their primes");
    }
}

#[test]
fn numbers_of_the_joint_solution_are_finite_and_of_a_known_kind() {
    let joint = |what| start::Body::Joint(wire::Joint { what });
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let parts = [begin(24, 0, joint(1)), chunk(&[1.0, bad, 2.0])];
        assert_eq!(fault(parts), not_finite("numbers of the joint solution", 0));
    }
    for bad in [0, 16, -1] {
        says(&fault([begin(0, 0, joint(bad))]), &format!("{bad} is not a kind of joint numbers"));
    }
    says(&fault([begin(12, 0, joint(1))]), "12 bytes of numbers of the joint solution");
}

#[test]
fn more_than_the_limit_is_refused_at_its_announcement() {
    let most = LIMITS.matrix;
    let bodies: [(u64, fn() -> start::Body, &str); 5] = [
        (8, || masked(1), "masked columns"),
        (16, || masked(2), "masked columns"),
        (8, || share(1, 0, true), "shares"),
        (16, || share(2, 0, true), "shares"),
        (8, || start::Body::Joint(wire::Joint { what: 3 }), "numbers of the joint solution"),
    ];
    for (unit, body, what) in bodies {
        assert!(decode([begin(most * unit, 0, body())]).unwrap().is_none());
        assert_eq!(fault([begin((most + 1) * unit, 0, body())]), too_long(what, most + 1, most));
        let endless = u64::MAX / unit;
        assert_eq!(fault([begin(endless * unit, 0, body())]), too_long(what, endless, most));
        assert_eq!(fault([begin(0, 1, body())]), too_long("entries", 1, 0));
    }
    let endless = fault([begin((most + 1) * 8, 0, share(1, u64::MAX, false))]);
    assert_eq!(endless, too_long("shares", most + 1, most));
}

#[test]
fn what_the_dealer_hands_out_cannot_be_released() {
    for dealt in [Dealt::Seed([1; 32]), Dealt::Correction(some(Width::Two, 1)), Dealt::Rows(0, some(Width::Two, 1))] {
        assert_eq!(Body::Dealt(dealt).discloses(), [Declaration::Undeclarable]);
    }
}
