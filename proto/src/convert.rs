//! From the domain to the wire, and back with every check that needs no knowledge of the protocol's state.
//!
//! [`frames`] cuts a message into frames, one at a time. [`Decoder`] puts frames together again; it takes nothing on
//! trust: lengths are compared with [`Limits`](crate::limits::Limits) before anything is allocated, every number must be
//! finite, every enumeration known, every digest of its length. Neither needs a network.

mod decode;
mod encode;
mod events;

pub use decode::Decoder;
pub use encode::{Frames, frames};
pub use events::{coordinator_event, party_event, status_reply};

use crate::register::PeerState;
use crate::wire;
use fedreg_common::conversation::Purpose;
use fedreg_common::fit::Termination;
use fedreg_common::id::{Digest, Role, RunId};
use fedreg_common::methods::vertical::message::HeldKind;
use fedreg_common::session::PeerFault;

/// Both directions of an enumeration from one table.
macro_rules! correspond {
    ($to:ident, $from:ident, $what:literal, $domain:ty, $wire:ty, $($left:ident => $right:ident),+ $(,)?) => {
        pub(crate) fn $to(value: $domain) -> i32 {
            let value = match value { $(<$domain>::$left => <$wire>::$right,)+ };
            value.into()
        }

        pub(crate) fn $from(value: i32) -> Result<$domain, PeerFault> {
            match <$wire>::try_from(value) {
                $(Ok(<$wire>::$right) => Ok(<$domain>::$left),)+
                _ => Err(garbage(format!("{value} is not {}", $what))),
            }
        }
    };
}

pub mod star;

correspond!(role_to_wire, role_from_wire, "a role", Role, wire::Role,
    Alice => Alice, Bob => Bob, Worker => Worker, Coordinator => Coordinator);
correspond!(purpose_to_wire, purpose_from_wire, "a purpose", Purpose, wire::Purpose, Fit => Fit, Predict => Predict);
correspond!(held_to_wire, held_from_wire, "a kind of held vector", HeldKind, wire::HeldKind,
    Outcome => Outcome, Weights => Weights, Scale => Scale, NullResidual => NullResidual);
correspond!(termination_to_wire, termination_from_wire, "a reason to end", Termination, wire::Termination,
    Converged => Converged, MaxRounds => MaxRounds, Separation => Separation,
    CollinearAcrossParties => CollinearAcrossParties, FixedRounds => FixedRounds, OutsideGuarantee => OutsideGuarantee,
    Interrupted => Interrupted);

correspond!(state_to_wire, state_from_wire, "a state of a party", PeerState, wire::PeerState,
    Absent => Absent, Joined => Joined, Ready => Ready, Lost => Lost, Done => Done);

pub(crate) fn garbage(sentence: impl Into<String>) -> PeerFault {
    PeerFault::Garbage(sentence.into())
}

pub(crate) fn missing(what: &str) -> PeerFault {
    garbage(format!("{what} is missing"))
}

fn fixed<const N: usize>(bytes: &[u8], what: &str) -> Result<[u8; N], PeerFault> {
    bytes.try_into().map_err(|_| garbage(format!("{what} of {} bytes, expected {N}", bytes.len())))
}

pub(crate) fn digest(bytes: &[u8], what: &str) -> Result<Digest, PeerFault> {
    fixed(bytes, what).map(Digest)
}

pub(crate) fn run_id(bytes: &[u8]) -> Result<RunId, PeerFault> {
    fixed(bytes, "a run").map(RunId)
}

/// A name of a peer's making, safe to print.
pub(crate) fn name(text: &str, what: &str) -> Result<String, PeerFault> {
    let limit = crate::limits::NAME_BYTES;
    if text.len() > limit {
        return Err(garbage(format!("{what} of {} bytes, expected at most {limit}", text.len())));
    }
    Ok(crate::tls::printable_within(text, limit))
}

pub(crate) fn key_to_wire((name, digest): &(String, Digest)) -> wire::KeyDigest {
    wire::KeyDigest { name: name.clone(), digest: owned(&digest.0) }
}

pub(crate) fn key_from_wire(key: &wire::KeyDigest) -> Result<(String, Digest), PeerFault> {
    Ok((name(&key.name, "the name of a key")?, digest(&key.digest, "the digest of a key")?))
}

pub(crate) fn owned(bytes: &[u8]) -> bytes::Bytes {
    bytes::Bytes::copy_from_slice(bytes)
}
