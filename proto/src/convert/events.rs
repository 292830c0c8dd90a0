//! What parties and the coordinator tell each other, to the wire and back.

use super::{Wire, checked, garbage, in_round, missing};
use crate::limits::PHASE_CHARACTERS;
use crate::link::Notice;
use crate::register::{CoordinatorEvent, PartyEvent, PeerState, Progress, Quorum, StatusReply};
use crate::status::exit_code;
use crate::tls::printable_within;
use crate::wire::{self, coordinator_event, party_event};
use fedreg_common::session::PeerFault;
use std::time::{Duration, Instant};

impl From<&PartyEvent> for wire::PartyEvent {
    fn from(event: &PartyEvent) -> wire::PartyEvent {
        use party_event::Event;
        let event = match event {
            PartyEvent::Join { role, version, keys, run, instance } => {
                let (role, role_name) = role.to_wire();
                Event::Join(wire::Join {
                    role,
                    version: *version,
                    keys: keys.to_wire(),
                    run: run.to_wire(),
                    instance: instance.to_wire(),
                    role_name,
                })
            }
            PartyEvent::Ready => Event::Ready(wire::Nothing {}),
            PartyEvent::Progress(progress) => Event::Progress(progress.to_wire()),
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
            role: checked((join.role, join.role_name))?,
            version: join.version,
            keys: checked(join.keys)?,
            run: checked(join.run)?,
            instance: Wire::from_wire(join.instance, "an instance")?,
        },
        Event::Ready(_) => PartyEvent::Ready,
        Event::Progress(progress) => PartyEvent::Progress(checked(progress)?),
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
                let (role, role_name) = role.to_wire();
                Event::Peer(wire::PeerNews { role, state: state.to_wire(), role_name })
            }
            CoordinatorEvent::Start { run } => Event::Start(wire::Begin { run: run.to_wire() }),
            CoordinatorEvent::Abort { from, notice } => {
                let (from, from_name) = from.to_wire();
                Event::Abort(wire::RelayedAbort { from, notice: Some(notice.into()), from_name })
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
        Event::Welcome(welcome) => {
            CoordinatorEvent::Welcome { differing: Wire::from_wire(welcome.differing, "the name of a key")? }
        }
        Event::Peer(news) => {
            CoordinatorEvent::Peer { role: checked((news.role, news.role_name))?, state: checked(news.state)? }
        }
        Event::Start(begin) => CoordinatorEvent::Start { run: checked(begin.run)? },
        Event::Abort(abort) => CoordinatorEvent::Abort {
            from: checked((abort.from, abort.from_name))?,
            notice: Notice::from(abort.notice.ok_or_else(|| missing("the notice"))?),
        },
        Event::Ended(_) => CoordinatorEvent::Ended,
    })
}

impl From<&StatusReply> for wire::StatusReply {
    fn from(reply: &StatusReply) -> wire::StatusReply {
        wire::StatusReply {
            study: reply.study.clone(),
            digest: reply.digest.to_wire(),
            run: reply.run.to_wire(),
            parties: reply.parties.to_wire(),
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
        study: Wire::from_wire(reply.study, "the id of a study")?,
        digest: Wire::from_wire(reply.digest, "the digest of a study")?,
        run: checked(reply.run)?,
        parties: checked(reply.parties)?,
        exit: reply.exit.map(exit_code),
        quorum: reply.quorum.zip(reply.came).map(|(needed, came)| Quorum { needed, came }),
        // What a clock cannot hold is no time that anybody waits for.
        ends: reply.seconds_left.and_then(|seconds| Instant::now().checked_add(Duration::from_secs(seconds))),
    })
}

form!(
    (String, PeerState, Progress),
    wire::PartyStatus,
    |(name, state, progress)| {
        wire::PartyStatus { name: name.clone(), state: state.to_wire(), progress: Some(progress.to_wire()) }
    },
    |party, _| {
        let progress = party.progress.ok_or_else(|| missing("the progress"))?;
        Ok((Wire::from_wire(party.name, "the name of a party")?, checked(party.state)?, checked(progress)?))
    }
);

form!(
    Progress,
    wire::Progress,
    |progress| wire::Progress {
        phase: printable_within(&progress.phase, PHASE_CHARACTERS),
        round: progress.round,
        certificate: progress.certificate,
        bytes_sent: progress.bytes_sent,
    },
    |progress, _| Ok(Progress {
        phase: printable_within(&progress.phase, PHASE_CHARACTERS),
        round: progress.round,
        certificate: Wire::from_wire(progress.certificate, "the scaled gradient")
            .map_err(|fault| in_round(fault, progress.round))?,
        bytes_sent: progress.bytes_sent,
    })
);
