//! What parties and the coordinator tell each other, to the wire and back.

use super::{
    digest, fixed, garbage, key_from_wire, key_to_wire, missing, name, owned, role_from_wire, role_to_wire, run_id,
    state_from_wire, state_to_wire,
};
use crate::limits::{KEYS, PHASE_CHARACTERS};
use crate::link::Notice;
use crate::register::{CoordinatorEvent, PartyEvent, Progress, Quorum, StatusReply};
use crate::status::exit_code;
use crate::tls::printable_within;
use crate::wire::{self, coordinator_event, party_event};
use fedreg_common::session::PeerFault;
use std::time::{Duration, Instant};

impl From<&PartyEvent> for wire::PartyEvent {
    fn from(event: &PartyEvent) -> wire::PartyEvent {
        use party_event::Event;
        let event = match event {
            PartyEvent::Join { role, version, keys, run, instance } => Event::Join(wire::Join {
                role: role_to_wire(*role),
                version: *version,
                keys: keys.iter().map(key_to_wire).collect(),
                run: run.map(|run| owned(&run.0)),
                instance: instance.map(|instance| owned(&instance)),
            }),
            PartyEvent::Ready => Event::Ready(wire::Nothing {}),
            PartyEvent::Progress(progress) => Event::Progress(progress.into()),
            PartyEvent::Abort(notice) => Event::Abort(notice.into()),
            PartyEvent::Done(exit) => Event::Done(wire::Done { exit: exit.code().into() }),
        };
        wire::PartyEvent { event: Some(event) }
    }
}

/// A party's event, checked.
///
/// # Errors
/// What is wrong with it.
pub fn party_event(event: wire::PartyEvent) -> Result<PartyEvent, PeerFault> {
    use party_event::Event;
    Ok(match event.event.ok_or_else(|| garbage("an event of no known kind"))? {
        Event::Join(join) => PartyEvent::Join {
            role: role_from_wire(join.role)?,
            version: join.version,
            keys: at_most_keys(&join.keys)?.iter().map(key_from_wire).collect::<Result<_, _>>()?,
            run: join.run.map(|run| run_id(&run)).transpose()?,
            instance: join.instance.map(|instance| fixed(&instance, "an instance")).transpose()?,
        },
        Event::Ready(_) => PartyEvent::Ready,
        Event::Progress(progress) => PartyEvent::Progress(progress_from_wire(progress)?),
        Event::Abort(notice) => PartyEvent::Abort(notice.into()),
        Event::Done(done) => PartyEvent::Done(exit_code(done.exit)),
    })
}

impl From<&CoordinatorEvent> for wire::CoordinatorEvent {
    fn from(event: &CoordinatorEvent) -> wire::CoordinatorEvent {
        use coordinator_event::Event;
        let event = match event {
            CoordinatorEvent::Welcome { differing } => Event::Welcome(wire::Welcome { differing: differing.clone() }),
            CoordinatorEvent::Peer { role, state } => {
                Event::Peer(wire::PeerNews { role: role_to_wire(*role), state: state_to_wire(*state) })
            }
            CoordinatorEvent::Start { run } => Event::Start(wire::Begin { run: owned(&run.0) }),
            CoordinatorEvent::Abort { from, notice } => {
                Event::Abort(wire::RelayedAbort { from: role_to_wire(*from), notice: Some(notice.into()) })
            }
            CoordinatorEvent::Ended => Event::Ended(wire::Nothing {}),
        };
        wire::CoordinatorEvent { event: Some(event) }
    }
}

/// The coordinator's event, checked.
///
/// # Errors
/// What is wrong with it.
pub fn coordinator_event(event: wire::CoordinatorEvent) -> Result<CoordinatorEvent, PeerFault> {
    use coordinator_event::Event;
    Ok(match event.event.ok_or_else(|| garbage("an event of no known kind"))? {
        Event::Welcome(welcome) => CoordinatorEvent::Welcome {
            differing: at_most_keys(&welcome.differing)?
                .iter()
                .map(|key| name(key, "the name of a key"))
                .collect::<Result<_, _>>()?,
        },
        Event::Peer(news) => {
            CoordinatorEvent::Peer { role: role_from_wire(news.role)?, state: state_from_wire(news.state)? }
        }
        Event::Start(begin) => CoordinatorEvent::Start { run: run_id(&begin.run)? },
        Event::Abort(abort) => CoordinatorEvent::Abort {
            from: role_from_wire(abort.from)?,
            notice: Notice::from(abort.notice.ok_or_else(|| missing("the notice"))?),
        },
        Event::Ended(_) => CoordinatorEvent::Ended,
    })
}

impl From<&StatusReply> for wire::StatusReply {
    fn from(reply: &StatusReply) -> wire::StatusReply {
        wire::StatusReply {
            study: reply.study.clone(),
            digest: owned(&reply.digest.0),
            run: reply.run.map(|run| owned(&run.0)),
            parties: reply
                .parties
                .iter()
                .map(|(name, state, progress)| wire::PartyStatus {
                    name: name.clone(),
                    state: state_to_wire(*state),
                    progress: Some(progress.into()),
                })
                .collect(),
            exit: reply.exit.map(|exit| exit.code().into()),
            quorum: reply.quorum.map(|quorum| quorum.needed),
            came: reply.quorum.map(|quorum| quorum.came),
            seconds_left: reply.ends.map(|ends| ends.saturating_duration_since(Instant::now()).as_secs()),
        }
    }
}

/// The coordinator's status, checked.
///
/// # Errors
/// What is wrong with it.
pub fn status_reply(reply: wire::StatusReply) -> Result<StatusReply, PeerFault> {
    Ok(StatusReply {
        study: name(&reply.study, "the id of a study")?,
        digest: digest(&reply.digest, "the digest of a study")?,
        run: reply.run.map(|run| run_id(&run)).transpose()?,
        parties: reply
            .parties
            .into_iter()
            .map(|party| {
                let progress = party.progress.ok_or_else(|| missing("the progress"))?;
                Ok((
                    name(&party.name, "the name of a party")?,
                    state_from_wire(party.state)?,
                    progress_from_wire(progress)?,
                ))
            })
            .collect::<Result<_, PeerFault>>()?,
        exit: reply.exit.map(exit_code),
        quorum: reply.quorum.zip(reply.came).map(|(needed, came)| Quorum { needed, came }),
        // What a clock cannot hold is no time that anybody waits for.
        ends: reply.seconds_left.and_then(|seconds| Instant::now().checked_add(Duration::from_secs(seconds))),
    })
}

impl From<&Progress> for wire::Progress {
    fn from(progress: &Progress) -> wire::Progress {
        wire::Progress {
            phase: printable_within(&progress.phase, PHASE_CHARACTERS),
            round: progress.round,
            certificate: progress.certificate,
            bytes_sent: progress.bytes_sent,
        }
    }
}

fn progress_from_wire(progress: wire::Progress) -> Result<Progress, PeerFault> {
    if progress.certificate.is_some_and(|value| !value.is_finite()) {
        return Err(PeerFault::Value { what: "the scaled gradient", expected: "finite", round: progress.round });
    }
    Ok(Progress {
        phase: printable_within(&progress.phase, PHASE_CHARACTERS),
        round: progress.round,
        certificate: progress.certificate,
        bytes_sent: progress.bytes_sent,
    })
}

pub(super) fn at_most_keys<T>(keys: &[T]) -> Result<&[T], PeerFault> {
    let came = keys.len() as u64;
    if came > KEYS {
        return Err(PeerFault::Length { what: "keys", came, expected: KEYS });
    }
    Ok(keys)
}
