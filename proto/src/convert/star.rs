//! What sites and the hub say to each other, to the wire and back.

use super::{Wire, checked, garbage, missing};
use crate::limits::{CHUNK_BYTES, OUTCOME_BYTES, SENTENCE_CHARACTERS};
use crate::status::exit_code;
use crate::tls::printable_within;
use crate::wire::{self, to_hub, to_site};
use bytes::Bytes;
use fedreg_common::exit::Exit;
use fedreg_common::privacy::release::Released;
use fedreg_common::session::PeerFault;
use fedreg_common::star::message::{Body, Contribution, Join, Kind, MOST, ToHub, ToSite};

correspond!("a kind of contribution", Kind, wire::Kind,
    Estimate => Estimate, EstimateWithGram => EstimateWithGram, Unfit => Unfit, Coefficients => Coefficients,
    GradientSum => GradientSum, FeatureStatistics => FeatureStatistics, FeatureSolution => FeatureSolution, Weights => Weights,
    Updates => Updates);

message!(Join, wire::SiteJoin, version, instance: "an instance", keys);

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
    wire::Body { kind: body.kind.to_wire(), counts: body.counts.clone(), values: Bytes::from(values) }
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
    Ok(Body { kind: checked(body.kind)?, counts: body.counts, values })
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
            ToHub::Join(Join { version, instance, keys }) => {
                Kind::Join(wire::SiteJoin { version: *version, instance: instance.to_wire(), keys: keys.to_wire() })
            }
            ToHub::Contribution(Contribution { study, run, number, body }) => Kind::Contribution(wire::Contribution {
                study: study.to_wire(),
                run: run.to_wire(),
                number: *number,
                body: Some(body_to_wire(body.value())),
            }),
            ToHub::Complete { run, contributions } => {
                Kind::Complete(wire::Complete { run: run.to_wire(), contributions: *contributions })
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
        Kind::Join(join) => ToHub::Join(checked(join)?),
        Kind::Contribution(contribution) => ToHub::Contribution(Contribution {
            study: Wire::from_wire(contribution.study, "the digest of a study")?,
            run: checked(contribution.run)?,
            number: counted(contribution.number)?,
            body: body_from_wire(contribution.body, limits)?,
        }),
        Kind::Complete(complete) => {
            ToHub::Complete { run: checked(complete.run)?, contributions: counted(complete.contributions)? }
        }
        Kind::Leave(notice) => {
            ToHub::Leave { exit: told(notice.exit, &[Exit::Done]), sentence: tamed(&notice.sentence) }
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
            Kind::Welcome(wire::SiteWelcome { differing, run: run.to_wire(), next, held })
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
                differing: Wire::from_wire(welcome.differing, "the name of a key")?,
                run: checked(welcome.run)?,
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
                // Nobody may make us report a bug of ours, either.
                let never = [Exit::Done, Exit::NotConverged, Exit::NotReady, Exit::Internal];
                ToSite::Refused { exit: told(refused.exit, &never), sentence: tamed(&refused.sentence) }
            }
        };
        Ok(Some(message))
    }
}

fn tamed(sentence: &str) -> String {
    printable_within(sentence, SENTENCE_CHARACTERS)
}

/// The exit that a peer tells; of those that nobody may make us report, that of a faulty peer.
fn told(exit: u32, never: &[Exit]) -> Exit {
    let told = exit_code(exit);
    if never.contains(&told) { Exit::Peer } else { told }
}

/// A number of a contribution or a round.
fn counted(number: u64) -> Result<u64, PeerFault> {
    match number < MOST {
        true => Ok(number),
        false => Err(garbage(format!("number {number}, which no run reaches"))),
    }
}
