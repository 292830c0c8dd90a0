//! Messages cut into frames and put together again, and what is refused on the way. No network.

use crate::say::{header, message, partial, released, same, say};
use bytes::Bytes;
use fedreg_common::conversation::{Hello, Purpose};
use fedreg_common::fit::{Coefficient, Statistics, Termination};
use fedreg_common::id::{Digest, Header, Role, RunId};
use fedreg_common::methods::vertical::message::{
    Basis, Body, Ended, FitEnd, Folds, Held, HeldKind, LANES, Lane, LaneSays, Message, Partial, Results, Rows, Shared,
    Table, Terms,
};
use fedreg_common::session::PeerFault;
use fedreg_proto::convert::{Decoder, frames};
use fedreg_proto::limits::{CHUNK_BYTES, COEFFICIENTS, FRAME_BYTES, KEYS, Limits, NAME_BYTES, RESULT_VALUES};
use fedreg_proto::wire::frame::Kind;
use fedreg_proto::wire::{self, Frame, start};
use proptest::prelude::*;
use prost::Message as _;

pub(crate) const LIMITS: Limits = Limits { values: 100_000, matrix: 90_000 };

pub(crate) fn decode(parts: impl IntoIterator<Item = Frame>) -> Result<Option<Message>, PeerFault> {
    let mut decoder = Decoder::new(LIMITS);
    let mut last = None;
    for frame in parts {
        assert!(last.is_none(), "a frame after the message was complete");
        last = decoder.push(frame)?;
    }
    Ok(last)
}

pub(crate) fn fault(parts: impl IntoIterator<Item = Frame>) -> PeerFault {
    match decode(parts) {
        Err(fault) => fault,
        Ok(message) => panic!("taken: {message:?}"),
    }
}

pub(crate) fn frame(kind: Kind) -> Frame {
    Frame { kind: Some(kind) }
}

/// Each frame through bytes, as on the wire.
pub(crate) fn wired(message: Message) -> Vec<Frame> {
    frames(released(message))
        .map(|frame| {
            let bytes = frame.encode_to_vec();
            assert!(bytes.len() <= FRAME_BYTES, "a frame of {} bytes", bytes.len());
            Frame::decode(Bytes::from(bytes)).unwrap()
        })
        .collect()
}

pub(crate) fn number() -> impl Strategy<Value = f64> {
    use prop::num::f64::{NEGATIVE, NORMAL, POSITIVE, SUBNORMAL, ZERO};
    POSITIVE | NEGATIVE | NORMAL | SUBNORMAL | ZERO
}

fn digest() -> impl Strategy<Value = Digest> {
    any::<[u8; 32]>().prop_map(Digest)
}

fn values() -> impl Strategy<Value = Vec<f64>> {
    // Around one chunk's end too, without drawing that many numbers.
    prop_oneof![
        prop::collection::vec(number(), 0..40),
        (number(), 32_766_usize..32_770).prop_map(|(value, length)| vec![value; length]),
    ]
}

fn coefficient() -> impl Strategy<Value = Coefficient> {
    let some = || prop::option::of(number());
    let p_value = prop::option::of(0.0..=1.0_f64);
    let party = prop::sample::select(["alice", "bob", "carol"].map(|name| name.parse::<Role>().unwrap()).to_vec());
    (party, "[a-zA-Zäß :()]{0,30}", some(), some(), some(), p_value, some(), some()).prop_map(
        |(party, term, estimate, std_error, statistic, p_value, conf_low, conf_high)| Coefficient {
            term,
            party,
            estimate,
            std_error,
            statistic,
            p_value,
            conf_low,
            conf_high,
            ratio: None,
            ratio_low: None,
            ratio_high: None,
        },
    )
}

fn statistics() -> impl Strategy<Value = Statistics> {
    let degrees = || prop::option::of(-5_i64..1 << 50);
    let numbers = prop::collection::vec(prop::option::of(number()), 7);
    (any::<u64>(), degrees(), degrees(), numbers).prop_map(|(nobs, df_residual, df_null, n)| Statistics {
        nobs,
        df_residual,
        df_null,
        deviance: n[0],
        null_deviance: n[1],
        aic: n[2],
        bic: n[3],
        log_lik: n[4],
        dispersion: n[5],
        r_squared: n[6],
    })
}

fn said(body: Body) -> Message {
    message(0, body)
}

/// A message of any kind. Bodies have no `Debug`, which a strategy's values need.
fn any_message() -> impl Strategy<Value = Message> {
    let keys = prop::collection::vec(("[a-z.]{1,20}", digest()), 0..30);
    let held = prop::sample::select(vec![
        HeldKind::Outcome,
        HeldKind::Weights,
        HeldKind::Offset,
        HeldKind::Scale,
        HeldKind::NullResidual,
    ]);
    let purpose = prop::sample::select(vec![Purpose::Fit, Purpose::Predict, Purpose::MatchFit, Purpose::MatchPredict]);
    let some = || prop::option::of(digest());
    let fits = prop::collection::vec(
        (number(), number()).prop_map(|(shift, certificate)| FitEnd { shift, certificate }),
        0..20,
    );
    prop_oneof![
        (any::<u32>(), purpose, keys).prop_map(|(version, purpose, keys)| said(Body::Hello(Hello {
            version,
            purpose,
            keys
        }))),
        (any::<Option<[u8; 32]>>(), any::<u64>(), digest()).prop_map(|(key, rows, ids)| said(Body::Rows(Rows {
            key,
            rows,
            ids
        }))),
        prop::collection::vec(any::<u8>(), 0..12_500).prop_map(|it| said(Body::Complete(it))),
        (some(), some(), some(), some(), any::<(u32, bool)>()).prop_map(
            |(outcome, offset, weights, folds, (columns, basis))| {
                said(Body::Shared(Shared { outcome, offset, weights, folds, columns, basis }))
            }
        ),
        (held, values(), number()).prop_map(|(what, values, total)| said(Body::Held(Held { what, values, total }))),
        values().prop_map(|it| said(Body::Prediction(it))),
        number().prop_map(|it| said(Body::LargestGradient(it))),
        (any::<[u32; 2]>(), values(), [number(), number(), number(), number()]).prop_map(
            |([fit, round], values, [penalty, loss, change, certificate])| said(Body::Partial(Partial {
                fit,
                round,
                values: values.into(),
                penalty,
                loss,
                change,
                certificate
            }))
        ),
        (prop::sample::select(&Termination::ALL[..]), any::<(u32, bool)>())
            .prop_map(|(termination, (rounds, again))| said(Body::Ended(Ended { termination, rounds, again }))),
        folds(),
        (0..u64::from(u32::MAX), values()).prop_map(|(start, values)| said(Body::Basis(Basis {
            start,
            rows: values.len() as u32,
            columns: 1,
            values
        }))),
        (values(), values(), number(), any::<u32>(), prop::collection::vec(number(), 0..40)).prop_map(
            |(factor, score, residual, dependent, robust)| said(Body::Table(Table {
                factor,
                score,
                residual,
                dependent,
                robust
            }))
        ),
        any::<u32>().prop_map(|it| said(Body::Redo(it))),
        (fits, values(), prop::option::of(statistics()), prop::option::of(prop::collection::vec(coefficient(), 0..20)))
            .prop_map(|(fits, fold_errors, statistics, coefficients)| said(Body::Results(Results {
                fits,
                fold_errors,
                statistics,
                coefficients
            }))),
        crate::sealed::any_message(),
        crate::matching::any_message(),
        Just(said(Body::Go)),
    ]
}

/// What fits of folds say: most of them predictions, some their end.
fn folds() -> impl Strategy<Value = Message> {
    let partial = (any::<[u32; 2]>(), any::<u64>(), [number(), number(), number(), number()]);
    let ended = (prop::sample::select(&Termination::ALL[..]), any::<u32>());
    let lane = (any::<u32>(), prop::option::weighted(0.8, partial), ended);
    (prop::collection::vec(lane, 0..LANES), values()).prop_map(|(lanes, values)| {
        let lanes = lanes.into_iter().map(|(lane, partial, (termination, rounds))| {
            let says = match partial {
                Some(([fit, round], count, [penalty, loss, change, certificate])) => {
                    let values = Vec::new().into();
                    LaneSays::Partial(Partial { fit, round, values, penalty, loss, change, certificate }, count)
                }
                None => LaneSays::Ended(Ended { termination, rounds, again: false }),
            };
            Lane { lane, says }
        });
        said(Body::Folds(Folds { lanes: lanes.collect(), values }))
    })
}

fn any_header() -> impl Strategy<Value = Header> {
    let roles = ["alice", "bob", "worker", "coordinator", "carol", "north-west_2", "x2345678901234567890123456789012"];
    let role = prop::sample::select(roles.map(|name| name.parse::<Role>().unwrap()).to_vec());
    (digest(), any::<[u8; 16]>(), role, any::<u64>()).prop_map(|(study, run, sender, sequence)| Header {
        study,
        run: RunId(run),
        sender,
        sequence,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, rng_seed: prop::test_runner::RngSeed::Fixed(20), ..ProptestConfig::default() })]

    #[test]
    fn every_message_arrives_as_it_was_sent_to_the_last_bit(header in any_header(), message in any_message()) {
        let sent = Message { header, ..message };
        let parts = wired(sent.clone());
        let came = decode(parts.clone()).unwrap().unwrap();
        prop_assert!(came == sent, "{came:?} is not {sent:?}");
        // Equality takes negative zero for zero; the frames do not.
        prop_assert!(wired(came) == parts);
    }

    #[test]
    fn no_sequence_of_frames_makes_the_decoder_panic(
        parts in prop::collection::vec(any_frame(), 0..12),
    ) {
        let mut decoder = Decoder::new(LIMITS);
        for frame in parts {
            if let Ok(Some(message)) = decoder.push(frame) {
                // What is taken can be sent on, and is taken again.
                let again = decode(wired(message.clone())).unwrap();
                prop_assert!(again == Some(message));
            }
        }
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..6)) {
        let mut decoder = Decoder::new(LIMITS);
        for bytes in parts {
            let _ = decoder.push(Frame::decode(Bytes::from(bytes)).unwrap_or_default());
        }
    }

    #[test]
    fn a_damaged_message_is_refused_or_another_message_but_no_panic(
        message in any_message(), at in any::<prop::sample::Index>(), flip in 1_u8..=255,
    ) {
        let parts = wired(message);
        let mut bytes = parts.iter().map(|frame| frame.encode_to_vec()).collect::<Vec<_>>();
        let hit = at.index(bytes.len());
        let place = at.index(bytes[hit].len().max(1));
        if let Some(byte) = bytes[hit].get_mut(place) {
            *byte ^= flip;
        }
        let mut decoder = Decoder::new(LIMITS);
        for bytes in bytes {
            if decoder.push(Frame::decode(Bytes::from(bytes)).unwrap_or_default()).is_err() {
                break;
            }
        }
    }
}

/// Frames that are nearly right: small counts that often fit together, and edges of their types.
fn any_frame() -> impl Strategy<Value = Frame> {
    let count = || prop_oneof![0_u64..4, Just(8), Just(16), Just(CHUNK_BYTES as u64), any::<u64>()];
    let small = || prop_oneof![0_u32..3, any::<u32>()];
    let body = prop_oneof![
        (small(), 0..4).prop_map(|(version, purpose)| start::Body::Hello(wire::Hello { version, purpose })),
        Just(start::Body::Complete(wire::Nothing {})),
        (-1..6_i32, any::<Option<f64>>()).prop_map(|(what, total)| start::Body::Held(wire::Held { what, total })),
        (small(), small(), number()).prop_map(|(fit, round, x)| start::Body::Partial(wire::Partial {
            fit,
            round,
            penalty: Some(x),
            loss: Some(x),
            change: Some(x),
            certificate: Some(x)
        })),
        (prop::collection::vec((small(), count()), 0..4), number()).prop_map(|(lanes, x)| {
            let says = wire::Partial { penalty: Some(x), loss: Some(x), ..predictions() };
            let lane = |(lane, values)| wire::Lane { lane, values, says: Some(wire::lane::Says::Partial(says)) };
            start::Body::Folds(wire::Folds { lanes: lanes.into_iter().map(lane).collect() })
        }),
        (any::<u64>(), small(), small()).prop_map(|(start, rows, columns)| start::Body::Basis(wire::Basis {
            start,
            rows,
            columns
        })),
        (count(), number(), small(), count()).prop_map(|(factor, residual, dependent, robust)| start::Body::Table(
            wire::Table { factor, residual: Some(residual), dependent, robust }
        )),
        (small(), any::<bool>()).prop_map(|(fits, coefficients)| start::Body::Results(wire::Results {
            fits,
            statistics: None,
            coefficients
        })),
        crate::sealed::any_form(),
        crate::matching::any_form(),
        Just(start::Body::Go(wire::Nothing {})),
    ];
    let start = (count(), count(), prop::option::weighted(0.95, body)).prop_map(|(payload, entries, body)| {
        Kind::Start(wire::Start { header: Some(good_header()), payload, entries, body })
    });
    let chunk = prop_oneof![
        prop::sample::select(vec![0, 1, 2, 3, 8, 16, CHUNK_BYTES]).prop_map(|n| vec![0; n]),
        prop::collection::vec(any::<u8>(), 0..17),
    ];
    let key =
        (0..3_usize).prop_map(|n| wire::KeyDigest { name: "k".repeat(n), digest: Bytes::from(vec![0; 31 + n.min(1)]) });
    let row = (0..7_i32, "[a-z]{0,3}", any::<Option<f64>>()).prop_map(|(party, party_name, p_value)| {
        wire::Coefficient { party, party_name, p_value, ..Default::default() }
    });
    let entries = (prop::collection::vec(key, 0..3), prop::collection::vec(row, 0..3))
        .prop_map(|(keys, coefficients)| Kind::Entries(wire::Entries { keys, coefficients }));
    let kind = prop_oneof![
        4 => start,
        4 => chunk.prop_map(|bytes| Kind::Chunk(bytes.into())),
        4 => entries,
        1 => Just(Kind::Heartbeat(wire::Nothing {})),
        1 => Just(Kind::Bye(wire::Nothing {})),
        1 => Just(Kind::Abort(wire::Notice::default())),
    ];
    prop::option::weighted(0.97, kind).prop_map(|kind| Frame { kind })
}

fn good_header() -> wire::Header {
    let Header { study, run, .. } = header(0);
    wire::Header {
        study: Bytes::copy_from_slice(&study.0),
        run: Bytes::copy_from_slice(&run.0),
        sender: wire::Role::Alice.into(),
        sequence: 5,
        sender_name: String::new(),
    }
}

pub(crate) fn begin(payload: u64, entries: u64, body: start::Body) -> Frame {
    frame(Kind::Start(wire::Start { header: Some(good_header()), payload, entries, body: Some(body) }))
}

fn lanes(count: usize, partial: Option<wire::Partial>) -> start::Body {
    let lane = wire::Lane { lane: 0, says: partial.map(wire::lane::Says::Partial), values: 0 };
    start::Body::Folds(wire::Folds { lanes: vec![lane; count] })
}

fn predictions() -> wire::Partial {
    wire::Partial { fit: 0, round: 4, penalty: Some(0.0), loss: Some(0.0), change: Some(0.0), certificate: Some(0.0) }
}

pub(crate) fn chunk(values: &[f64]) -> Frame {
    let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>();
    frame(Kind::Chunk(bytes.into()))
}

pub(crate) fn too_long(what: &'static str, came: u64, expected: u64) -> PeerFault {
    PeerFault::Length { what, came, expected }
}

pub(crate) fn not_finite(what: &'static str, round: u32) -> PeerFault {
    PeerFault::Value { what, expected: "finite", round }
}

pub(crate) fn says(fault: &PeerFault, part: &str) {
    assert!(fault.to_string().contains(part), "expected {part:?} in: {fault}");
}

#[test]
fn a_long_vector_travels_in_chunks_of_256_kib() {
    let rows = 2 * (CHUNK_BYTES / 8) + 5;
    let sizes = frames(released(partial(0, rows)))
        .map(|frame| match frame.kind {
            Some(Kind::Start(start)) => {
                assert_eq!((start.payload, start.entries), (rows as u64 * 8, 0));
                0
            }
            Some(Kind::Chunk(chunk)) => chunk.len(),
            kind => panic!("{kind:?}"),
        })
        .collect::<Vec<_>>();
    assert_eq!(sizes, [0, CHUNK_BYTES, CHUNK_BYTES, 40]);
}

#[test]
fn many_coefficients_and_keys_travel_in_small_frames() {
    let row = |i: usize| Coefficient {
        term: format!("{i}{}", "x".repeat(900)),
        party: Role::Bob,
        estimate: Some(i as f64),
        std_error: None,
        statistic: None,
        p_value: None,
        conf_low: None,
        conf_high: None,
        ratio: None,
        ratio_low: None,
        ratio_high: None,
    };
    let results = Results {
        fits: vec![],
        fold_errors: vec![],
        statistics: None,
        coefficients: Some((0..2000).map(row).collect()),
    };
    let hello = Hello {
        version: 1,
        purpose: Purpose::Fit,
        keys: (0..3000).map(|i| (format!("{i}{}", "k".repeat(500)), Digest::of(b""))).collect(),
    };
    for body in [Body::Results(results), Body::Hello(hello)] {
        let sent = message(1, body);
        let parts = wired(sent.clone());
        assert!(parts.len() > 5, "{} frames", parts.len());
        same(&decode(parts).unwrap().unwrap(), &sent);
    }
}

#[test]
fn heartbeats_may_stand_between_the_frames_of_a_message() {
    let parts = wired(partial(9, 40_000));
    let beat = || frame(Kind::Heartbeat(wire::Nothing {}));
    let parts = parts.into_iter().flat_map(|part| [beat(), part]);
    same(&decode(parts).unwrap().unwrap(), &partial(9, 40_000));
}

#[test]
fn a_longer_vector_than_the_limit_is_refused_at_its_announcement() {
    let partial = || start::Body::Partial(predictions());
    assert!(decode([begin(LIMITS.values * 8, 0, partial())]).unwrap().is_none());
    let came = LIMITS.values + 1;
    assert_eq!(fault([begin(came * 8, 0, partial())]), too_long("partial predictions", came, LIMITS.values));
    // Nothing is allocated for it either, or this test would end here.
    assert_eq!(
        fault([begin(u64::MAX - 7, 0, partial())]),
        too_long("partial predictions", u64::MAX / 8, LIMITS.values)
    );
    let mask = || start::Body::Complete(wire::Nothing {});
    let bytes = LIMITS.values.div_ceil(8);
    assert_eq!(fault([begin(bytes + 1, 0, mask())]), too_long("the mask of complete rows", bytes + 1, bytes));
    let table = start::Body::Table(wire::Table { factor: 4, residual: Some(0.0), dependent: 0, robust: 0 });
    let came = LIMITS.matrix + 1;
    assert_eq!(fault([begin(came * 8, 0, table)]), too_long("the projection table", came, LIMITS.matrix));
    let results = || start::Body::Results(wire::Results { fits: 0, statistics: None, coefficients: true });
    let came = RESULT_VALUES + 1;
    assert_eq!(fault([begin(came * 8, 0, results())]), too_long("results", came, RESULT_VALUES));
    assert_eq!(fault([begin(0, COEFFICIENTS + 1, results())]), too_long("entries", COEFFICIENTS + 1, COEFFICIENTS));
    assert_eq!(
        fault([begin(0, KEYS + 1, start::Body::Hello(wire::Hello { version: 1, purpose: 1 }))]),
        too_long("entries", KEYS + 1, KEYS)
    );
}

#[test]
fn values_where_none_belong_are_refused() {
    let go = || start::Body::Go(wire::Nothing {});
    assert_eq!(fault([begin(8, 0, go())]), too_long("anything", 1, 0));
    assert_eq!(fault([begin(0, 1, go())]), too_long("entries", 1, 0));
    let own = start::Body::Results(wire::Results { fits: 0, statistics: None, coefficients: false });
    assert_eq!(fault([begin(0, 1, own)]), too_long("entries", 1, 0));
}

#[test]
fn counts_inside_a_message_must_agree() {
    let basis = |rows, columns| start::Body::Basis(wire::Basis { start: 0, rows, columns });
    assert_eq!(fault([begin(40, 0, basis(2, 3))]), too_long("the basis", 5, 6));
    let huge = u64::from(u32::MAX) * u64::from(u32::MAX);
    assert_eq!(fault([begin(40, 0, basis(u32::MAX, u32::MAX))]), too_long("the basis", huge, LIMITS.matrix));
    let beyond = start::Body::Basis(wire::Basis { start: u64::MAX, rows: 1, columns: 1 });
    says(&fault([begin(8, 0, beyond)]), "beyond any table");
    let table = start::Body::Table(wire::Table { factor: 5, residual: Some(0.0), dependent: 0, robust: 0 });
    assert_eq!(fault([begin(32, 0, table)]), too_long("the projection table", 4, 5));
    let table = start::Body::Table(wire::Table { factor: 2, residual: Some(0.0), dependent: 0, robust: u64::MAX });
    assert_eq!(fault([begin(32, 0, table)]), too_long("the projection table", 4, u64::MAX));
    let results = start::Body::Results(wire::Results { fits: u32::MAX, statistics: None, coefficients: false });
    assert_eq!(fault([begin(32, 0, results)]), too_long("results", 4, 2 * u64::from(u32::MAX)));
    says(&fault([begin(12, 0, start::Body::Partial(predictions()))]), "12 bytes of partial predictions");
}

#[test]
fn chunks_of_another_size_than_agreed_are_refused() {
    let three = || begin(24, 0, start::Body::Partial(predictions()));
    says(&fault([three(), chunk(&[1.0, 2.0])]), "a chunk of 16 bytes, expected 24");
    says(&fault([three(), chunk(&[1.0; 4])]), "a chunk of 32 bytes, expected 24");
    let long = begin(CHUNK_BYTES as u64 + 8, 0, start::Body::Partial(predictions()));
    let half = vec![1.0; CHUNK_BYTES / 16];
    says(&fault([long, chunk(&half)]), "expected 262144");
}

#[test]
fn too_few_and_too_many_values_are_counted() {
    let parts = wired(partial(0, 40_000));
    let [start, first, _] = &parts[..] else { panic!("{}", parts.len()) };
    let again = [start.clone(), first.clone(), start.clone()];
    assert_eq!(fault(again), too_long("partial predictions", 32_768, 40_000));
    let bye = [start.clone(), first.clone(), frame(Kind::Bye(wire::Nothing {}))];
    assert_eq!(fault(bye), too_long("partial predictions", 32_768, 40_000));
    // One more belongs to no message.
    let mut decoder = Decoder::new(LIMITS);
    for part in &parts {
        decoder.push(part.clone()).unwrap();
    }
    says(&decoder.push(first.clone()).unwrap_err(), "no beginning");
    // Values where entries are due.
    let hello = begin(0, 1, start::Body::Hello(wire::Hello { version: 1, purpose: 1 }));
    says(&fault([hello, chunk(&[1.0])]), "more than the announced values");
    // Entries where values are due.
    let entries = frame(Kind::Entries(wire::Entries::default()));
    assert_eq!(fault([start.clone(), entries]), too_long("partial predictions", 0, 40_000));
}

#[test]
fn a_new_row_may_have_no_prediction_and_none_is_infinite() {
    let begins = || begin(24, 0, start::Body::Prediction(wire::Nothing {}));
    for bad in [f64::INFINITY, f64::NEG_INFINITY] {
        for values in [[1.0, bad, 2.0], [f64::NAN, 1.0, bad]] {
            assert_eq!(fault([begins(), chunk(&values)]), not_finite("predictions of new rows", 0));
        }
    }
    let decoded = decode([begins(), chunk(&[1.0, f64::NAN, -2.0])]).unwrap();
    let Some(Message { body: Body::Prediction(values), .. }) = decoded else { panic!("no message") };
    assert!(values[0] == 1.0 && values[1].is_nan() && values[2] == -2.0);
}

#[test]
fn infinities_and_nans_are_refused_wherever_they_hide() {
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -f64::NAN] {
        let three = begin(24, 0, start::Body::Partial(predictions()));
        assert_eq!(fault([three, chunk(&[1.0, bad, f64::MAX])]), not_finite("partial predictions", 4));
        let scalars: [(fn(&mut wire::Partial) -> &mut Option<f64>, &str); 4] = [
            (|p| &mut p.penalty, "the penalty"),
            (|p| &mut p.loss, "the loss"),
            (|p| &mut p.change, "the largest change"),
            (|p| &mut p.certificate, "the scaled gradient"),
        ];
        for (field, what) in scalars {
            let mut partial = predictions();
            *field(&mut partial) = Some(bad);
            assert_eq!(fault([begin(0, 0, start::Body::Partial(partial))]), not_finite(what, 4));
            *field(&mut partial) = None;
            says(&fault([begin(0, 0, start::Body::Partial(partial))]), "is missing");
        }
        let total = start::Body::Held(wire::Held { what: 1, total: Some(bad) });
        says(&fault([begin(0, 0, total)]), "sum of squares");
        let gradient = start::Body::LargestGradient(wire::LargestGradient { value: Some(bad) });
        assert_eq!(fault([begin(0, 0, gradient)]), not_finite("the largest gradient", 0));
        let residual = start::Body::Table(wire::Table { factor: 0, residual: Some(bad), dependent: 0, robust: 0 });
        says(&fault([begin(0, 0, residual)]), "residual sum of squares");
        let results = |statistics| start::Body::Results(wire::Results { fits: 1, statistics, coefficients: true });
        let statistics: [fn(&mut wire::Statistics) -> &mut Option<f64>; 7] = [
            |s| &mut s.deviance,
            |s| &mut s.null_deviance,
            |s| &mut s.aic,
            |s| &mut s.bic,
            |s| &mut s.log_lik,
            |s| &mut s.dispersion,
            |s| &mut s.r_squared,
        ];
        for field in statistics {
            let mut statistics = wire::Statistics::default();
            *field(&mut statistics) = Some(bad);
            says(&fault([begin(16, 0, results(Some(statistics)))]), "not finite");
        }
        assert_eq!(fault([begin(16, 0, results(None)), chunk(&[0.0, bad])]), not_finite("results", 0));
        let columns: [fn(&mut wire::Coefficient) -> &mut Option<f64>; 6] = [
            |c| &mut c.estimate,
            |c| &mut c.std_error,
            |c| &mut c.statistic,
            |c| &mut c.p_value,
            |c| &mut c.conf_low,
            |c| &mut c.conf_high,
        ];
        for field in columns {
            let mut row = term("x");
            *field(&mut row) = Some(bad);
            says(&fault(table_of(vec![row])), "not finite");
        }
    }
    let mut row = term("x");
    row.p_value = Some(1.5);
    says(&fault(table_of(vec![row])), "not between 0 and 1");
}

fn term(name: &str) -> wire::Coefficient {
    wire::Coefficient { term: name.to_owned(), party: wire::Role::Bob.into(), ..Default::default() }
}

/// A message that announces one coefficient.
fn table_of(coefficients: Vec<wire::Coefficient>) -> [Frame; 2] {
    let results = start::Body::Results(wire::Results { fits: 0, statistics: None, coefficients: true });
    let keys = Vec::new();
    [begin(0, 1, results), frame(Kind::Entries(wire::Entries { keys, coefficients }))]
}

#[test]
fn names_are_short_and_entries_are_of_the_right_kind_and_number() {
    assert!(decode(table_of(vec![term(&"ä".repeat(NAME_BYTES / 2))])).unwrap().is_some());
    says(&fault(table_of(vec![term(&"x".repeat(NAME_BYTES + 1))])), "1001 bytes");
    assert_eq!(fault(table_of(vec![term("a"), term("b")])), too_long("entries", 2, 1));
    says(&fault(table_of(vec![])), "without any");
    let Some(Message { body: Body::Results(results), .. }) = decode(table_of(vec![term("a\u{1b}[2J\nb")])).unwrap()
    else {
        panic!("no results")
    };
    assert_eq!(results.coefficients.unwrap()[0].term, "a?[2J?b");

    let hello = || begin(0, 1, start::Body::Hello(wire::Hello { version: 1, purpose: 1 }));
    let key = |name: &str, bytes: usize| wire::KeyDigest { name: name.to_owned(), digest: Bytes::from(vec![1; bytes]) };
    let keys = |keys| frame(Kind::Entries(wire::Entries { keys, coefficients: vec![] }));
    assert!(decode([hello(), keys(vec![key("a", 32)])]).unwrap().is_some());
    says(&fault([hello(), keys(vec![key("a", 31)])]), "31 bytes, expected 32");
    says(&fault([hello(), keys(vec![key(&"k".repeat(NAME_BYTES + 1), 32)])]), "1001 bytes");
    assert_eq!(fault([hello(), keys(vec![key("a", 32), key("b", 32)])]), too_long("entries", 2, 1));
    says(
        &fault([hello(), frame(Kind::Entries(wire::Entries { keys: vec![], coefficients: vec![term("x")] }))]),
        "another kind",
    );
    let mut wrong = table_of(vec![term("x")]);
    wrong[1] = keys(vec![key("a", 32)]);
    says(&fault(wrong), "another kind");
}

#[test]
fn a_party_by_another_name_travels_by_its_name_and_alice_and_bob_as_they_always_did() {
    use prost::Message as _;
    let start = |role: i32, name: &str| wire::Start {
        header: Some(wire::Header { sender: role, sender_name: name.to_owned(), ..good_header() }),
        payload: 0,
        entries: 0,
        body: Some(start::Body::Go(wire::Nothing {})),
    };
    let carol: Role = "carol".parse().unwrap();
    let sent = |sender: Role| wired(Message { header: Header { sender, ..header(5) }, body: Body::Go });
    assert_eq!(sent(carol), [frame(Kind::Start(start(5, "carol")))]);
    assert_eq!(sent(Role::Bob), [frame(Kind::Start(start(2, "")))]);
    // By hand: field 3, a varint, 2; field 4, a varint, 5. Nothing is behind it.
    let bytes = start(2, "").header.unwrap().encode_to_vec();
    assert_eq!(bytes[bytes.len() - 4..], [0x18, 2, 0x20, 5]);
    let refused = |role, name: &str| fault([frame(Kind::Start(start(role, name)))]).to_string();
    for (role, name, says) in [
        (5, "", "is not the name of a party"),
        (5, "Carol", "`Carol` is not the name of a party"),
        (5, "alice", "has a meaning of its own"),
        (5, "coordinator", "has a meaning of its own"),
        (5, "x\u{1b}[31m", "is not the name of a party"),
        (2, "bob", "bob with a name beside its role"),
        (4, "carol", "coordinator with a name beside its role"),
        (0, "carol", "0 is not a role"),
        (6, "carol", "6 is not a role"),
    ] {
        let sentence = refused(role, name);
        assert!(sentence.contains(says) && !sentence.contains('\u{1b}'), "{role} {name}: {sentence}");
    }
}

#[test]
fn unknown_enumerations_wrong_digests_and_missing_parts_are_refused() {
    let with = |change: fn(&mut wire::Start)| {
        let mut start = wire::Start {
            header: Some(good_header()),
            payload: 0,
            entries: 0,
            body: Some(start::Body::Go(wire::Nothing {})),
        };
        change(&mut start);
        fault([frame(Kind::Start(start))])
    };
    let header = |change: fn(&mut wire::Header)| {
        let mut header = good_header();
        change(&mut header);
        fault([frame(Kind::Start(wire::Start {
            header: Some(header),
            payload: 0,
            entries: 0,
            body: Some(start::Body::Go(wire::Nothing {})),
        }))])
    };
    says(&with(|start| start.header = None), "the header is missing");
    says(&with(|start| start.body = None), "the body is missing");
    says(&header(|header| header.sender = 0), "0 is not a role");
    says(&header(|header| header.sender = -3), "-3 is not a role");
    says(&header(|header| header.sender = 99), "99 is not a role");
    says(&header(|header| header.study = Bytes::new()), "0 bytes, expected 32");
    says(&header(|header| header.run = Bytes::from(vec![0; 17])), "17 bytes, expected 16");
    let bodies = [
        (start::Body::Held(wire::Held { what: 9, total: Some(0.0) }), "9 is not a kind of held vector"),
        (start::Body::Ended(wire::Ended { termination: 0, rounds: 1, again: false }), "0 is not a reason to end"),
        (lanes(1, None), "what a lane says is missing"),
        (lanes(1, Some(wire::Partial { loss: None, ..predictions() })), "the loss is missing"),
        (lanes(LANES + 1, Some(predictions())), "fits side by side"),
        (
            start::Body::Rows(wire::Rows {
                key: Some(Bytes::from(vec![0; 16])),
                rows: 1,
                ids: Bytes::from(vec![0; 32]),
            }),
            "16 bytes, expected 32",
        ),
        (start::Body::Rows(wire::Rows { key: None, rows: 1, ids: Bytes::new() }), "0 bytes, expected 32"),
        (
            start::Body::Shared(wire::Shared { folds: Some(Bytes::from(vec![0; 33])), ..Default::default() }),
            "33 bytes, expected 32",
        ),
        (
            start::Body::Results(wire::Results {
                fits: 0,
                statistics: Some(wire::Statistics { df_null: Some(i64::MIN), ..Default::default() }),
                coefficients: false,
            }),
            "degrees of freedom",
        ),
    ];
    for (body, part) in bodies {
        says(&fault([begin(0, 0, body)]), part);
    }
    let mut nobody = term("x");
    nobody.party = 0;
    says(&fault(table_of(vec![nobody])), "0 is not a role");
    says(&fault([Frame { kind: None }]), "no known kind");
    says(&fault([frame(Kind::Bye(wire::Nothing {}))]), "farewell");
}

#[test]
fn a_fault_leaves_a_decoder_that_takes_the_next_message() {
    let mut decoder = Decoder::new(LIMITS);
    let three = begin(24, 0, start::Body::Partial(predictions()));
    decoder.push(three).unwrap();
    assert!(!decoder.is_idle());
    decoder.push(chunk(&[1.0])).unwrap_err();
    let go = frames(say(2, Body::Go)).next().unwrap();
    assert!(decoder.push(go).unwrap().is_some());
}

fn noised(index: u32) -> start::Body {
    start::Body::Noised(wire::Noised { index })
}

#[test]
fn noised_values_travel_as_a_step_and_integers() {
    // Bits of a double that is none, of the smallest and of the largest integer: all are numbers here.
    let words = [0.25f64.to_bits(), f64::NAN.to_bits(), i64::MIN as u64, i64::MAX as u64];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let parts = [begin(32, 0, noised(2)), frame(Kind::Chunk(bytes.into()))];
    let Some(Message { body: Body::Noised(noised), .. }) = decode(parts).unwrap() else { panic!("no noised values") };
    assert_eq!((noised.index, noised.value.step()), (2, 0.25));
    assert_eq!(noised.value.integers(), [f64::NAN.to_bits() as i64, i64::MIN, i64::MAX]);
}

#[test]
fn noised_values_without_a_sound_step_are_refused() {
    says(&fault([begin(0, 0, noised(0))]), "8 bytes for its step");
    for step in [0.0, -0.5, f64::NAN, f64::INFINITY, f64::MIN_POSITIVE / 2.0] {
        says(&fault([begin(16, 0, noised(0)), chunk(&[step, 1.0])]), "lattice step");
    }
    let most = LIMITS.values + 1;
    assert!(decode([begin(most * 8, 0, noised(0))]).unwrap().is_none());
    assert_eq!(fault([begin((most + 1) * 8, 0, noised(0))]), too_long("noised values", most + 1, most));
    says(&fault([begin(12, 0, noised(0))]), "12 bytes of noised values");
}

#[test]
fn terms_of_a_budget_survive_the_wire_and_must_be_finite() {
    let terms = Terms { epsilon: 1.5, delta: 1e-6, cap: 0.03, columns: 7 };
    let sent = message(6, Body::Terms(terms));
    same(&decode(wired(sent.clone())).unwrap().unwrap(), &sent);
    let bad = wire::Terms { epsilon: Some(f64::INFINITY), delta: Some(0.1), cap: Some(1.0), columns: 1 };
    says(&fault([begin(0, 0, start::Body::Terms(bad))]), "epsilon");
    says(&fault([begin(0, 0, start::Body::Terms(wire::Terms::default()))]), "epsilon");
    let estimates = wire::Estimates { shift: Some(f64::NAN), slopes: false };
    says(&fault([begin(0, 0, start::Body::Estimates(estimates))]), "shift");
    let own = wire::Estimates { shift: Some(0.5), slopes: false };
    assert_eq!(fault([begin(0, 1, start::Body::Estimates(own))]), too_long("entries", 1, 0));
}
