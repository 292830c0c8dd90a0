//! Messages for tests, released and put together again.

use fedreg_common::id::{Digest, Header, Role, RunId};
use fedreg_common::methods::vertical::message::{Body, Message, Partial};
use fedreg_common::privacy::release::{Declaration, Disclosures, Released};

pub(crate) fn header(sequence: u64) -> Header {
    Header { study: Digest::of(b"study"), run: RunId([7; 16]), sender: Role::Alice, sequence }
}

pub(crate) fn message(sequence: u64, body: Body) -> Message {
    let header = header(sequence);
    Message { header, body }
}

pub(crate) fn released(message: Message) -> Released<Message> {
    let everything = Disclosures::new([
        Declaration::PartialPrediction,
        Declaration::Outcome,
        Declaration::Weights,
        Declaration::Offset,
        Declaration::Basis,
        Declaration::ProjectionTable,
        Declaration::Summary,
        Declaration::MissingRows,
        Declaration::Coefficients,
        Declaration::Covariance,
        Declaration::Prediction,
        Declaration::Masked,
        Declaration::CrossProducts,
        Declaration::MatchCounts,
        Declaration::Membership,
        Declaration::SameRecords,
    ]);
    everything.release(message).unwrap()
}

pub(crate) fn say(sequence: u64, body: Body) -> Released<Message> {
    released(message(sequence, body))
}

/// Partial predictions of a given number of rows; the values tell rows and senders apart.
pub(crate) fn partial(sequence: u64, rows: usize) -> Message {
    let value = |row: usize| (row as f64).sin() + sequence as f64;
    let partial = Partial {
        fit: 0,
        round: 1,
        values: (0..rows).map(value).collect(),
        penalty: 0.25,
        loss: -0.0,
        change: 1e-300,
        certificate: f64::MIN_POSITIVE / 4.0,
    };
    message(sequence, Body::Partial(partial))
}

pub(crate) fn same(left: &Message, right: &Message) {
    // `assert_eq!` would print the values of a failure, all of them.
    assert!(left == right, "{left:?} is not {right:?}");
}
