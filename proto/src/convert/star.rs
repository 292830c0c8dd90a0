//! What sites and the hub say to each other, to the wire and back.

use super::{digest, fixed, garbage, key_from_wire, key_to_wire, missing, name, owned, run_id};
use crate::convert::events::at_most_keys;
use crate::limits::{CHUNK_BYTES, OUTCOME_BYTES, SENTENCE_CHARACTERS};
use crate::status::exit_code;
use crate::tls::printable_within;
use crate::wire::{self, to_hub, to_site};
use bytes::Bytes;
use fedreg_common::exit::Exit;
use fedreg_common::privacy::release::Released;
use fedreg_common::session::PeerFault;
use fedreg_common::star::message::{Body, Contribution, Join, Kind, MOST, ToHub, ToSite};

correspond!(kind_to_wire, kind_from_wire, "a kind of contribution", Kind, wire::Kind,
    Estimate => Estimate, EstimateWithGram => EstimateWithGram, Unfit => Unfit, Coefficients => Coefficients,
    GradientSum => GradientSum, FeatureStatistics => FeatureStatistics, FeatureSolution => FeatureSolution, Weights => Weights,
    Updates => Updates);

/// How long a body may be before its method has looked at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyLimits {
    /// Most whole numbers.
    pub counts: usize,
    /// Most numbers.
    pub values: usize,
}

impl BodyLimits {
    /// Bytes of the largest frame with such a body.
    pub fn frame_bytes(&self) -> usize {
        // A whole number takes up to ten bytes, and what describes a body less than a thousand.
        1024 + 10 * self.counts + 8 * self.values
    }
}

fn body_to_wire(body: &Body) -> wire::Body {
    let values: Vec<u8> = body.values.iter().flat_map(|value| value.to_le_bytes()).collect();
    wire::Body { kind: kind_to_wire(body.kind), counts: body.counts.clone(), values: Bytes::from(values) }
}

fn body_from_wire(body: Option<wire::Body>, limits: BodyLimits) -> Result<Body, PeerFault> {
    let body = body.ok_or_else(|| missing("the content"))?;
    let long = |what, came: usize, most: usize| PeerFault::Length { what, came: came as u64, expected: most as u64 };
    if body.counts.len() > limits.counts {
        return Err(long("counts", body.counts.len(), limits.counts));
    }
    let (numbers, rest) = body.values.as_chunks::<8>();
    if !rest.is_empty() {
        return Err(garbage(format!("{} bytes of numbers, expected a multiple of 8", body.values.len())));
    }
    if numbers.len() > limits.values {
        return Err(long("numbers", numbers.len(), limits.values));
    }
    let values = numbers.iter().map(|number| f64::from_le_bytes(*number)).collect();
    Ok(Body { kind: kind_from_wire(body.kind)?, counts: body.counts, values })
}

/// A body as bytes, for keeping.
pub fn body_to_bytes(body: &Body) -> Vec<u8> {
    prost::Message::encode_to_vec(&body_to_wire(body))
}

/// A body from bytes that were kept.
///
/// # Errors
/// They are damaged, or longer than the study allows.
pub fn body_from_bytes(bytes: &[u8], limits: BodyLimits) -> Result<Body, PeerFault> {
    let body = <wire::Body as prost::Message>::decode(bytes).map_err(|error| garbage(error.to_string()))?;
    body_from_wire(Some(body), limits)
}

impl From<&ToHub<Released<Body>>> for wire::ToHub {
    fn from(message: &ToHub<Released<Body>>) -> wire::ToHub {
        use to_hub::Kind;
        let kind = match message {
            ToHub::Join(Join { version, instance, keys }) => Kind::Join(wire::SiteJoin {
                version: *version,
                instance: owned(instance),
                keys: keys.iter().map(key_to_wire).collect(),
            }),
            ToHub::Contribution(Contribution { study, run, number, body }) => Kind::Contribution(wire::Contribution {
                study: owned(&study.0),
                run: owned(&run.0),
                number: *number,
                body: Some(body_to_wire(body.value())),
            }),
            ToHub::Complete { run, contributions } => {
                Kind::Complete(wire::Complete { run: owned(&run.0), contributions: *contributions })
            }
            ToHub::Leave { exit, sentence } => {
                Kind::Leave(wire::Notice { exit: exit.code().into(), sentence: tamed(sentence) })
            }
            ToHub::Done => Kind::Done(wire::Nothing {}),
            ToHub::Ready => Kind::Ready(wire::Nothing {}),
        };
        wire::ToHub { kind: Some(kind) }
    }
}

/// What a site says, checked.
///
/// # Errors
/// What is wrong with it.
pub fn to_hub(message: wire::ToHub, limits: BodyLimits) -> Result<ToHub, PeerFault> {
    use to_hub::Kind;
    Ok(match message.kind.ok_or_else(|| garbage("a message of no known kind"))? {
        Kind::Join(join) => ToHub::Join(Join {
            version: join.version,
            instance: fixed(&join.instance, "an instance")?,
            keys: at_most_keys(&join.keys)?.iter().map(key_from_wire).collect::<Result<_, _>>()?,
        }),
        Kind::Contribution(contribution) => ToHub::Contribution(Contribution {
            study: digest(&contribution.study, "the digest of a study")?,
            run: run_id(&contribution.run)?,
            number: counted(contribution.number)?,
            body: body_from_wire(contribution.body, limits)?,
        }),
        Kind::Complete(complete) => {
            ToHub::Complete { run: run_id(&complete.run)?, contributions: counted(complete.contributions)? }
        }
        Kind::Leave(notice) => {
            let told = exit_code(notice.exit);
            let exit = if told == Exit::Done { Exit::Peer } else { told };
            ToHub::Leave { exit, sentence: tamed(&notice.sentence) }
        }
        Kind::Done(_) => ToHub::Done,
        Kind::Ready(_) => ToHub::Ready,
    })
}

/// What the hub says, in frames: an outcome may take several.
pub fn site_frames(message: ToSite) -> Vec<wire::ToSite> {
    use to_site::Kind;
    let kind = match message {
        ToSite::Welcome { differing, run, next, held } => {
            Kind::Welcome(wire::SiteWelcome { differing, run: owned(&run.0), next, held })
        }
        ToSite::Acknowledged { next } => Kind::Acknowledged(next),
        ToSite::Rejected { number, reason } => Kind::Rejected(wire::Rejected { number, reason: tamed(&reason) }),
        ToSite::Broadcast { number, body } => {
            Kind::Broadcast(wire::Broadcast { number, body: Some(body_to_wire(&body)) })
        }
        ToSite::Outcome { exit, report } => {
            let report = Bytes::from(report.into_bytes());
            let parts = report.len().div_ceil(CHUNK_BYTES).max(1);
            let part = |at: usize| {
                let (from, to) = (at * CHUNK_BYTES, ((at + 1) * CHUNK_BYTES).min(report.len()));
                Kind::Outcome(wire::OutcomePart {
                    exit: exit.code().into(),
                    report: report.slice(from..to),
                    last: at + 1 == parts,
                })
            };
            return (0..parts).map(|at| wire::ToSite { kind: Some(part(at)) }).collect();
        }
        ToSite::Refused { exit, sentence } => {
            Kind::Refused(wire::Refused { exit: exit.code().into(), sentence: tamed(&sentence) })
        }
    };
    vec![wire::ToSite { kind: Some(kind) }]
}

/// Puts what the hub says together from frames.
#[derive(Debug)]
pub struct SiteDecoder {
    limits: BodyLimits,
    report: Vec<u8>,
}

impl SiteDecoder {
    /// A decoder that takes bodies up to `limits`.
    pub fn new(limits: BodyLimits) -> SiteDecoder {
        SiteDecoder { limits, report: Vec::new() }
    }

    /// Takes the next frame; gives a message when it is complete.
    ///
    /// # Errors
    /// What is wrong with the frame.
    pub fn push(&mut self, frame: wire::ToSite) -> Result<Option<ToSite>, PeerFault> {
        use to_site::Kind;
        let message = match frame.kind.ok_or_else(|| garbage("a message of no known kind"))? {
            Kind::Outcome(part) => {
                let length = self.report.len() + part.report.len();
                if length > OUTCOME_BYTES {
                    return Err(garbage(format!("an outcome of more than {OUTCOME_BYTES} bytes")));
                }
                self.report.extend_from_slice(&part.report);
                if !part.last {
                    return Ok(None);
                }
                let report = String::from_utf8(std::mem::take(&mut self.report))
                    .map_err(|_| garbage("a report that is not UTF-8"))?;
                // A result was made, or it is no outcome.
                let exit = exit_code(part.exit);
                if !matches!(exit, Exit::Done | Exit::NotConverged) {
                    return Err(garbage(format!("an outcome with exit code {}", exit.code())));
                }
                ToSite::Outcome { exit, report }
            }
            Kind::Welcome(welcome) => ToSite::Welcome {
                differing: at_most_keys(&welcome.differing)?
                    .iter()
                    .map(|key| name(key, "the name of a key"))
                    .collect::<Result<_, _>>()?,
                run: run_id(&welcome.run)?,
                next: counted(welcome.next)?,
                held: welcome.held,
            },
            Kind::Acknowledged(next) => ToSite::Acknowledged { next: counted(next)? },
            Kind::Rejected(rejected) => {
                ToSite::Rejected { number: counted(rejected.number)?, reason: tamed(&rejected.reason) }
            }
            Kind::Broadcast(broadcast) => ToSite::Broadcast {
                number: counted(broadcast.number)?,
                body: body_from_wire(broadcast.body, self.limits)?,
            },
            Kind::Refused(refused) => {
                let told = exit_code(refused.exit);
                // Nobody may make us report success, or a bug of ours.
                let ours = matches!(told, Exit::Done | Exit::NotConverged | Exit::NotReady | Exit::Internal);
                let exit = if ours { Exit::Peer } else { told };
                ToSite::Refused { exit, sentence: tamed(&refused.sentence) }
            }
        };
        Ok(Some(message))
    }
}

fn tamed(sentence: &str) -> String {
    printable_within(sentence, SENTENCE_CHARACTERS)
}

/// A number of a contribution or a round.
fn counted(number: u64) -> Result<u64, PeerFault> {
    match number < MOST {
        true => Ok(number),
        false => Err(garbage(format!("number {number}, which no run reaches"))),
    }
}
