//! From the domain to the wire, and back with every check that needs no knowledge of the protocol's state.
//!
//! [`frames`] cuts a message into frames, one at a time. [`Decoder`] puts frames together again; it takes nothing on
//! trust: lengths are compared with [`Limits`](crate::limits::Limits) before anything is allocated, every number must be
//! finite, every enumeration known, every digest of its length. Neither needs a network.

pub use decode::Decoder;
pub use encode::{Frames, frames};
pub use events::{coordinator_event, party_event, status_reply};

use crate::limits::{KEYS, NAME_BYTES};
use crate::register::PeerState;
use crate::wire;
use bytes::Bytes;
use fedreg_common::conversation::{Hello, Purpose};
use fedreg_common::fit::{Coefficient, Statistics, Termination};
use fedreg_common::id::{Digest, Header, Role, RunId};
use fedreg_common::linalg::Values;
use fedreg_common::methods::vertical::matching::message::{
    Number, NumberKind, Part as MatchPart, PartKind, Terms as MatchTerms,
};
use fedreg_common::methods::vertical::message::{
    Basis, Ended, Folds, Held, HeldKind, Joint, JointKind, Lane, LaneSays, Noised, Partial, ProductKind, Rows, Shared,
    Terms,
};
use fedreg_common::privacy::mechanism::LatticeVector;
use fedreg_common::secure::ring::Width;
use fedreg_common::session::PeerFault;

/// A value and its form on the wire, where not every form has a value.
pub(crate) trait Wire: Sized {
    /// What travels.
    type Form;

    fn to_wire(&self) -> Self::Form;

    /// The value, or what is wrong with the form; `what` names the value in that sentence.
    fn from_wire(form: Self::Form, what: &'static str) -> Result<Self, PeerFault>;
}

/// The value of a form whose parts have names of their own in sentences.
pub(crate) fn checked<T: Wire>(form: T::Form) -> Result<T, PeerFault> {
    T::from_wire(form, "")
}

/// Both directions of an enumeration from one table.
macro_rules! correspond {
    ($what:literal, $domain:ty, $wire:ty, $($left:ident => $right:ident),+ $(,)?) => {
        impl Wire for $domain {
            type Form = i32;

            fn to_wire(&self) -> i32 {
                let value = match self { $(<$domain>::$left => <$wire>::$right,)+ };
                value.into()
            }

            fn from_wire(value: i32, _what: &'static str) -> Result<$domain, PeerFault> {
                match <$wire>::try_from(value) {
                    $(Ok(<$wire>::$right) => Ok(<$domain>::$left),)+
                    _ => Err(garbage(format!("{value} is not {}", $what))),
                }
            }
        }
    };
}

/// Both directions of a message from one list of its fields, each with its name in sentences if its value can be wrong. Fields after
/// the semicolon do not travel in the message, but as values or entries behind it.
macro_rules! message {
    ($domain:ty, $wire:ty, $($field:ident $(: $what:literal)?),+ $(; $($later:ident = $empty:expr),+)?) => {
        impl Wire for $domain {
            type Form = $wire;

            fn to_wire(&self) -> $wire {
                type Form = $wire;
                Form { $($field: self.$field.to_wire()),+ }
            }

            fn from_wire(form: $wire, _what: &'static str) -> Result<$domain, PeerFault> {
                type Value = $domain;
                Ok(Value { $($field: Wire::from_wire(form.$field, concat!($($what)?))?,)+ $($($later: $empty),+)? })
            }
        }
    };
}

/// Both directions of a type: its form from a value, and a value or a fault from a form and the value's name.
macro_rules! form {
    ($domain:ty, $form:ty, |$value:pat_param| $to:expr, |$received:ident, $what:pat_param| $from:expr) => {
        impl Wire for $domain {
            type Form = $form;

            fn to_wire(&self) -> $form {
                let $value = self;
                $to
            }

            fn from_wire($received: $form, $what: &'static str) -> Result<$domain, PeerFault> {
                $from
            }
        }
    };
}

pub mod dealer;
mod decode;
mod encode;
mod events;
pub mod merge;
pub mod star;

correspond!("a purpose", Purpose, wire::Purpose,
    Fit => Fit, Predict => Predict, MatchFit => MatchFit, MatchPredict => MatchPredict);
correspond!("a kind of held vector", HeldKind, wire::HeldKind,
    Outcome => Outcome, Weights => Weights, Scale => Scale, NullResidual => NullResidual, Offset => Offset);
correspond!("a reason to end", Termination, wire::Termination,
    Converged => Converged, MaxRounds => MaxRounds, Separation => Separation, OutOfRange => OutOfRange, OpeningLimit => OpeningLimit,
    CollinearAcrossParties => CollinearAcrossParties, FixedRounds => FixedRounds, OutsideGuarantee => OutsideGuarantee,
    Interrupted => Interrupted);
correspond!("a kind of joint numbers", JointKind, wire::JointKind,
    LeftOver => LeftOver, Reduction => Reduction, Answer => Answer, Means => Means, Point => Point, Range => Range, End => End,
    Factor => Factor, Path => Path, Shifts => Shifts, Columns => Columns,
    Tables => Tables, Reduced => Reduced, Noised => Noised, Covariance => Covariance);
correspond!("a kind of part of a product", ProductKind, wire::ProductKind,
    Rows => Rows, Canary => Canary, Shares => Shares);
correspond!("a kind of number of a match", NumberKind, wire::MatchNumberKind,
    Size => Size, Count => Count, Common => Common);
correspond!("a kind of list of a match", PartKind, wire::MatchPartKind,
    Masked => Masked, Doubled => Doubled, Reveal => Reveal, Same => Same, Common => Common);
correspond!("a state of a party", PeerState, wire::PeerState,
    Absent => Absent, Joined => Joined, Ready => Ready, Lost => Lost, Done => Done);

message!(Hello, wire::Hello, version, purpose; keys = Vec::new());
message!(Rows, wire::Rows, key: "the key of the run's digests", rows, ids: "the digest of the ids");
message!(Shared, wire::Shared, outcome: "the digest of the outcome", offset: "the digest of the offset",
    weights: "the digest of the weights", folds: "the digest of the folds", columns, basis);
message!(Held, wire::Held, what, total: "the outcome's sum of squares"; values = Vec::new());
message!(Partial, wire::Partial, fit, round, penalty: "the penalty", loss: "the loss", change: "the largest change",
    certificate: "the scaled gradient"; values = Values::default());
message!(Terms, wire::Terms, epsilon: "the epsilon of a budget", delta: "the delta of a budget", cap: "the cap of a budget", columns);
message!(Noised, wire::Noised, index; value = LatticeVector::empty());
message!(Joint, wire::Joint, what; values = Vec::new());
message!(Number, wire::MatchNumber, what, pass, number);
message!(MatchPart, wire::MatchPart, what, pass, first; bytes = Vec::new());
message!(Ended, wire::Ended, termination, rounds, again);
message!(Folds, wire::Folds, lanes; values = Vec::new());
message!(Basis, wire::Basis, start, rows, columns; values = Vec::new());
message!(Statistics, wire::Statistics, nobs, df_residual, df_null, deviance: "the deviance", null_deviance: "the null deviance",
    aic: "the AIC", bic: "the BIC", log_lik: "the log-likelihood", dispersion: "the dispersion", r_squared: "R squared");

// A role, and the name of one that has no number of its own.
form!(
    Role,
    (i32, String),
    |role| {
        let number = match role {
            Role::Alice => wire::Role::Alice,
            Role::Bob => wire::Role::Bob,
            Role::Worker => wire::Role::Worker,
            Role::Coordinator => wire::Role::Coordinator,
            Role::Party(name) => return (wire::Role::Party.into(), name.as_str().to_owned()),
        };
        (number.into(), String::new())
    },
    |form, _| {
        let (number, name) = form;
        let role = match wire::Role::try_from(number) {
            Ok(wire::Role::Alice) => Role::Alice,
            Ok(wire::Role::Bob) => Role::Bob,
            Ok(wire::Role::Worker) => Role::Worker,
            Ok(wire::Role::Coordinator) => Role::Coordinator,
            Ok(wire::Role::Party) => return name.parse().map(Role::Party).map_err(garbage),
            Ok(wire::Role::Unspecified) | Err(_) => return Err(garbage(format!("{number} is not a role"))),
        };
        match name.is_empty() {
            true => Ok(role),
            false => Err(garbage(format!("{role} with a name beside its role"))),
        }
    }
);
form!(
    Header,
    wire::Header,
    |header| {
        let (sender, sender_name) = header.sender.to_wire();
        let (study, run) = (header.study.to_wire(), header.run.to_wire());
        wire::Header { study, run, sender, sequence: header.sequence, sender_name }
    },
    |form, _| Ok(Header {
        study: Wire::from_wire(form.study, "the digest of a study")?,
        run: Wire::from_wire(form.run, "a run")?,
        sender: checked((form.sender, form.sender_name))?,
        sequence: form.sequence,
    })
);
form!(
    Coefficient,
    wire::Coefficient,
    |row| {
        let (party, party_name) = row.party.to_wire();
        wire::Coefficient {
            term: row.term.to_wire(),
            party,
            estimate: row.estimate.to_wire(),
            std_error: row.std_error.to_wire(),
            statistic: row.statistic.to_wire(),
            p_value: row.p_value.to_wire(),
            conf_low: row.conf_low.to_wire(),
            conf_high: row.conf_high.to_wire(),
            party_name,
        }
    },
    |form, _| Ok(Coefficient {
        term: Wire::from_wire(form.term, "a term")?,
        party: checked((form.party, form.party_name))?,
        estimate: Wire::from_wire(form.estimate, "an estimate")?,
        std_error: Wire::from_wire(form.std_error, "a standard error")?,
        statistic: Wire::from_wire(form.statistic, "a test statistic")?,
        p_value: Wire::from_wire(form.p_value, "a p-value")?,
        conf_low: Wire::from_wire(form.conf_low, "a confidence limit")?,
        conf_high: Wire::from_wire(form.conf_high, "a confidence limit")?,
        // They follow from the others and are never sent.
        ratio: None,
        ratio_low: None,
        ratio_high: None,
    })
);
form!(bool, bool, |value| *value, |form, _| Ok(form));
form!(u32, u32, |value| *value, |form, _| Ok(form));
form!(u64, u64, |value| *value, |form, _| Ok(form));
form!(Digest, Bytes, |digest| digest.0.to_wire(), |form, what| Wire::from_wire(form, what).map(Digest));
form!(RunId, Bytes, |run| run.0.to_wire(), |form, _| Wire::from_wire(form, "a run").map(RunId));
// A number that must be there and finite; every form of it is one that may be absent.
form!(f64, Option<f64>, |value| Some(*value), |form, what| {
    Option::from_wire(form, what)?.ok_or_else(|| missing(what))
});
// A number that may be absent, but not infinite.
form!(Option<f64>, Option<f64>, |value| *value, |form, what| match form.is_none_or(f64::is_finite) {
    true => Ok(form),
    false => Err(PeerFault::Value { what, expected: "finite", round: 0 }),
});
// Degrees of freedom that a double holds exactly; a table with more columns than rows may have fewer than none.
form!(Option<i64>, Option<i64>, |degrees| *degrees, |form, _| match form {
    Some(value) if value.unsigned_abs() > 1 << 53 => Err(garbage(format!("{value} degrees of freedom"))),
    value => Ok(value),
});
// Words of an element of the ring.
form!(Width, u32, |width| width.words() as u32, |form, _| match form {
    1 => Ok(Width::One),
    2 => Ok(Width::Two),
    words => Err(garbage(format!("elements of {words} words, expected 1 or 2"))),
});
// A name of a peer's making, safe to print.
form!(String, String, |name| name.clone(), |form, what| match form.len() > NAME_BYTES {
    true => Err(garbage(format!("{what} of {} bytes, expected at most {NAME_BYTES}", form.len()))),
    false => Ok(crate::tls::printable_within(&form, NAME_BYTES)),
});
// What fits of one lane say.
form!(
    Lane,
    wire::Lane,
    |lane| {
        let (says, values) = match &lane.says {
            LaneSays::Partial(partial, values) => (wire::lane::Says::Partial(partial.to_wire()), *values),
            LaneSays::Ended(ended) => (wire::lane::Says::Ended(ended.to_wire()), 0),
        };
        wire::Lane { lane: lane.lane, says: Some(says), values }
    },
    |form, _| {
        let says = match form.says.ok_or_else(|| missing("what a lane says"))? {
            wire::lane::Says::Partial(partial) => {
                let round = partial.round;
                LaneSays::Partial(checked(partial).map_err(|fault| in_round(fault, round))?, form.values)
            }
            wire::lane::Says::Ended(ended) => LaneSays::Ended(checked(ended)?),
        };
        Ok(Lane { lane: form.lane, says })
    }
);
// The terms of a match.
form!(
    MatchTerms,
    wire::MatchTerms,
    |terms| {
        let [normal_forms, case_folding, letters] = terms.unicode;
        let (normaliser, min_matched) = (terms.normaliser, terms.min_matched);
        wire::MatchTerms { normaliser, normal_forms, case_folding, letters, min_matched }
    },
    |form, _| {
        let unicode = [form.normal_forms, form.case_folding, form.letters];
        Ok(MatchTerms { normaliser: form.normaliser, unicode, min_matched: form.min_matched })
    }
);
// A key of a study.
form!(
    (String, Digest),
    wire::KeyDigest,
    |(name, digest)| wire::KeyDigest { name: name.clone(), digest: digest.to_wire() },
    |form, _| {
        let name = Wire::from_wire(form.name, "the name of a key")?;
        Ok((name, Wire::from_wire(form.digest, "the digest of a key")?))
    }
);

impl<const N: usize> Wire for [u8; N] {
    type Form = Bytes;

    fn to_wire(&self) -> Bytes {
        Bytes::copy_from_slice(self)
    }

    fn from_wire(form: Bytes, what: &'static str) -> Result<[u8; N], PeerFault> {
        (*form).try_into().map_err(|_| garbage(format!("{what} of {} bytes, expected {N}", form.len())))
    }
}

impl<T: Wire<Form = Bytes>> Wire for Option<T> {
    type Form = Option<Bytes>;

    fn to_wire(&self) -> Option<Bytes> {
        self.as_ref().map(T::to_wire)
    }

    fn from_wire(form: Option<Bytes>, what: &'static str) -> Result<Option<T>, PeerFault> {
        form.map(|bytes| T::from_wire(bytes, what)).transpose()
    }
}

/// Keys of a study, or their names.
impl<T: Wire> Wire for Vec<T> {
    type Form = Vec<T::Form>;

    fn to_wire(&self) -> Vec<T::Form> {
        self.iter().map(T::to_wire).collect()
    }

    fn from_wire(form: Vec<T::Form>, what: &'static str) -> Result<Vec<T>, PeerFault> {
        let came = form.len() as u64;
        if came > KEYS {
            return Err(PeerFault::Length { what: "keys", came, expected: KEYS });
        }
        form.into_iter().map(|key| T::from_wire(key, what)).collect()
    }
}

pub(crate) fn garbage(sentence: impl Into<String>) -> PeerFault {
    PeerFault::Garbage(sentence.into())
}

pub(crate) fn missing(what: &str) -> PeerFault {
    garbage(format!("{what} is missing"))
}

/// A fault of a value, said of the round that it belongs to.
pub(crate) fn in_round(mut fault: PeerFault, of: u32) -> PeerFault {
    if let PeerFault::Value { round, .. } = &mut fault {
        *round = of;
    }
    fault
}
