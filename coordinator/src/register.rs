//! Who is there, how far the run is, and who must be told what: the coordinator's decisions as a value.
//!
//! No socket, no clock: events go in, what is to be said comes out.

use std::collections::BTreeMap;

use fedreg_common::conversation::VERSION;
use fedreg_common::exit::Exit;
use fedreg_common::id::{Digest, Role, RunId};
use fedreg_common::study::{Study, Vertical, VerticalGuarantee};
use fedreg_proto::link::Notice;
use fedreg_proto::register::{CoordinatorEvent, PartyEvent, PeerState, Progress, StatusReply};

/// What is to be said to whom.
pub type Say = (Role, CoordinatorEvent);

/// Runs that are over and still known, so that anyone who comes back with one hears how it ended.
const REMEMBERED: usize = 16;

/// The register of one run.
#[derive(Debug, Clone)]
pub struct Register {
    study: String,
    digest: Digest,
    keys: Vec<(String, Digest)>,
    /// The identifier that the run gets when it starts.
    fresh: RunId,
    run: Option<RunId>,
    /// Whether a party that was started again without the run can be taken into it: in private mode the other one says all again.
    repeats: bool,
    /// Whether its runs use masks once, so that none is taken up again.
    sealed: bool,
    parties: BTreeMap<Role, Party>,
    ended: Option<(Role, Notice)>,
    before: Vec<Past>,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct Party {
    state: PeerState,
    progress: Progress,
    /// The process that joined last.
    instance: Option<[u8; 16]>,
    /// Whether it has joined on the line that is open.
    joined: bool,
    /// Whether it came on the line that is open for a run that is over, and was told so: nothing it says there is of this run.
    late: bool,
    /// The run that its process is in: it came with it, or was told.
    run: Option<RunId>,
    /// Whether it knows that on the line that is open.
    knows: bool,
}

/// A run that is over.
#[derive(Debug, Clone)]
struct Past {
    run: RunId,
    ended: (Role, Notice),
    instances: Vec<[u8; 16]>,
}

impl Register {
    /// An empty register for a study; `fresh` becomes the identifier of its run.
    pub fn new(study: &Study<Vertical>, fresh: RunId) -> Register {
        Register {
            study: study.head.id.clone(),
            digest: study.digest(),
            keys: study.key_digests(),
            fresh,
            run: None,
            repeats: match study.guarantee {
                // Masks of a sealed run are used once: a party that has lost them cannot go on.
                VerticalGuarantee::Plain | VerticalGuarantee::Sealed(_) => false,
                VerticalGuarantee::Private(_) => true,
            },
            sealed: match study.guarantee {
                VerticalGuarantee::Sealed(_) => true,
                VerticalGuarantee::Plain | VerticalGuarantee::Private(_) => false,
            },
            parties: study.method.parties.keys().map(|role| (*role, Party::default())).collect(),
            ended: None,
            before: Vec::new(),
        }
    }

    /// An empty register for the run after this one.
    pub fn after(self, study: &Study<Vertical>, fresh: RunId) -> Register {
        let mut before = self.before;
        if let (Some(run), Some(ended)) = (self.run, self.ended) {
            let instances = self.parties.values().filter_map(|party| party.instance).collect();
            before.push(Past { run, ended, instances });
        }
        before.drain(..before.len().saturating_sub(REMEMBERED));
        Register { before, ..Register::new(study, fresh) }
    }

    /// Whether a party that joins without a run, when the run here is over, has come for the next one: it is another process than the one
    /// that is still to learn of the end.
    pub fn is_for_the_next(&self, from: Role, instance: Option<[u8; 16]>) -> bool {
        let Some(party) = self.parties.get(&from).filter(|_| self.verdict().is_some()) else { return false };
        let gone = matches!(party.state, PeerState::Absent | PeerState::Done);
        let ender = self.ended.as_ref().is_some_and(|(ender, _)| *ender == from);
        gone || ender || (instance.is_some() && party.instance != instance)
    }

    /// Whether a party is done with the run while others are not.
    pub fn waits_for_others(&self, from: Role) -> bool {
        self.state(from) == PeerState::Done && self.verdict().is_none()
    }

    /// Whether a party has joined on the line that it has open, if only for a run that is over.
    pub fn has_joined(&self, from: Role) -> bool {
        self.parties.get(&from).is_some_and(|party| party.joined || party.late)
    }

    /// Whether a party came on the line that it has open for a run that is over.
    pub fn is_late(&self, from: Role) -> bool {
        self.parties.get(&from).is_some_and(|party| party.late)
    }

    /// Whether a process that joins takes the place of another one of its party, whose line is not known to be lost.
    pub fn displaces(&self, from: Role, instance: Option<[u8; 16]>) -> bool {
        let here = |party: &&Party| matches!(party.state, PeerState::Joined | PeerState::Ready);
        let party = self.parties.get(&from).filter(here).filter(|_| self.verdict().is_none());
        party.is_some_and(|party| party.instance.is_some() && party.instance != instance)
    }

    /// Ends a sealed run in which a process that was not in it joins: what its party had of the run is lost with the process before.
    pub fn begin_anew(&mut self, from: Role, instance: Option<[u8; 16]>) -> Option<Vec<Say>> {
        let party = self.parties.get(&from)?;
        let another = party.instance.is_some() && party.instance != instance;
        if !self.sealed || !another || self.run.is_none() || self.verdict().is_some() {
            return None;
        }
        self.set(from, PeerState::Absent);
        let sentence = format!("{from} was started again, and a sealed run cannot be taken up: another begins");
        Some(self.end_here(Exit::Unreachable, sentence))
    }

    /// A party has opened a line, which counts for nothing until it joins.
    pub fn open(&mut self, from: Role) {
        if let Some(party) = self.parties.get_mut(&from) {
            (party.joined, party.knows, party.late) = (false, false, false);
        }
    }

    /// Takes what a party says; who it is, its certificate has shown.
    pub fn take(&mut self, from: Role, event: PartyEvent) -> Vec<Say> {
        if let Some((ender, notice)) = &self.ended {
            // Too late for anything but the reason.
            let joins = matches!(event, PartyEvent::Join { .. });
            let say = (joins && *ender != from).then(|| (from, abort(*ender, notice.clone())));
            if joins && let Some(party) = self.parties.get_mut(&from) {
                party.late = true;
            }
            return say.into_iter().collect();
        }
        match event {
            PartyEvent::Join { role, version, keys, run, instance } => {
                self.join(from, role, version, &keys, run, instance)
            }
            // What it says is of the run that is over, whose end it was told.
            _ if self.is_late(from) => Vec::new(),
            _ if self.parties.get(&from).is_none_or(|party| !party.joined) => {
                let sentence = format!("{from} spoke before it joined");
                self.turn_away(from, Exit::Peer, sentence)
            }
            PartyEvent::Ready => {
                self.set(from, PeerState::Ready);
                let mut say = self.tell_others(from);
                say.extend(self.start(from));
                say
            }
            PartyEvent::Progress(progress) => {
                if let Some(party) = self.parties.get_mut(&from) {
                    party.progress = progress;
                }
                Vec::new()
            }
            PartyEvent::Abort(notice) => self.end(from, notice),
            PartyEvent::Done(_) => {
                self.set(from, PeerState::Done);
                let mut say = self.tell_others(from);
                if self.parties.values().all(|party| party.state == PeerState::Done) {
                    say.extend(self.parties.keys().map(|role| (*role, CoordinatorEvent::Ended)));
                }
                say
            }
        }
    }

    /// A party's line is gone.
    pub fn lost(&mut self, from: Role) -> Vec<Say> {
        // Of one that came for a run that is over nobody was told that it is here.
        let unknown = self.is_late(from) && self.state(from) == PeerState::Absent;
        if self.state(from) == PeerState::Done || self.ended.is_some() || unknown {
            return Vec::new();
        }
        self.set(from, PeerState::Lost);
        self.open(from);
        self.tell_others(from)
    }

    /// A party stayed away for too long.
    pub fn give_up(&mut self, on: Role, seconds: u64) -> Vec<Say> {
        if self.state(on) != PeerState::Lost {
            return Vec::new();
        }
        let sentence = format!("the coordinator waited {seconds} s for {on}, whose line was lost");
        self.end_here(Exit::Unreachable, sentence)
    }

    /// Ends the run from here.
    pub fn interrupt(&mut self) -> Vec<Say> {
        self.end_here(Exit::Interrupted, "interrupted by the user of coordinator".to_string())
    }

    fn end_here(&mut self, exit: Exit, sentence: String) -> Vec<Say> {
        match self.ended {
            Some(_) => Vec::new(),
            None => self.end(Role::Coordinator, Notice { exit, sentence }),
        }
    }

    fn join(
        &mut self,
        from: Role,
        role: Role,
        version: u32,
        keys: &[(String, Digest)],
        claimed: Option<RunId>,
        instance: Option<[u8; 16]>,
    ) -> Vec<Say> {
        if role != from {
            let sentence = format!("{from} joined as {role}, but its certificate is that of {from}");
            return self.turn_away(from, Exit::Refused, sentence);
        }
        if version != VERSION {
            let sentence = format!("{from} speaks version {version}, the coordinator version {VERSION}");
            return self.turn_away(from, Exit::Refused, sentence);
        }
        let differing = Study::differing_keys(&self.keys, keys);
        if !differing.is_empty() {
            let sentence = format!(
                "the study file of {from} differs from the coordinator's in: {}; agree on one file and give it to all",
                differing.join(", ")
            );
            let mut say = vec![(from, CoordinatorEvent::Welcome { differing })];
            say.extend(self.end(from, Notice { exit: Exit::Refused, sentence }));
            return say;
        }
        if let Some(past) = self.before.iter().find(|past| Some(past.run) == claimed) {
            // The run that begins here is none of its business.
            let (ender, notice) = past.ended.clone();
            let same = instance.is_some_and(|instance| past.instances.contains(&instance));
            let notice = match same {
                true => notice,
                false => Notice {
                    exit: Exit::Unreachable,
                    sentence: format!(
                        "run {}, with which {from} wants to go on, is over: {}",
                        past.run, notice.sentence
                    ),
                },
            };
            if let Some(party) = self.parties.get_mut(&from) {
                party.late = true;
            }
            return vec![(from, abort(if same { ender } else { Role::Coordinator }, notice))];
        }
        let Some(party) = self.parties.get_mut(&from) else { return Vec::new() };
        let same = instance.is_some() && party.instance == instance;
        // A process that was told of the run, and did not hear it, is in it all the same.
        let run = claimed.or(party.run.filter(|_| same));
        (party.run, party.knows, party.instance) = (run, claimed.is_some(), instance);
        (party.joined, party.late) = (true, false);
        if let Some(sentence) = self.conflict(from) {
            // Nobody is in a run alone: anyone who would wait for the others in one waits in vain.
            return self.turn_away(from, Exit::Unreachable, sentence);
        }
        // The coordinator may have been started again in the middle of a run: it takes the parties' word for it.
        self.run = self.run.or(run);
        let state = match claimed {
            Some(_) => PeerState::Ready,
            None => PeerState::Joined,
        };
        self.set(from, state);
        let mut say = vec![(from, CoordinatorEvent::Welcome { differing: Vec::new() })];
        for (role, party) in &self.parties {
            if *role != from && party.state != PeerState::Absent {
                say.push((from, CoordinatorEvent::Peer { role: *role, state: party.state }));
            }
        }
        say.extend(self.tell_others(from));
        // The other may have waited for a run, and it is this one.
        say.extend(self.start(from));
        say
    }

    /// Why a party that has just joined cannot be in one run with the others.
    fn conflict(&self, from: Role) -> Option<String> {
        let own = self.parties.get(&from)?.run;
        let other = self.parties.iter().find(|(role, party)| {
            // Anyone who is away and in no run may come back with any.
            let here = party.run.is_some() || matches!(party.state, PeerState::Joined | PeerState::Ready);
            // In private mode what was said is kept, and is said again to a party that was started again without the run.
            let taken_in = self.repeats && (own.is_none() || party.run.is_none());
            **role != from && here && party.run != own && !taken_in
        });
        match (own, other) {
            (None, Some(_)) => Some(self.cannot_take_up(from)),
            (Some(run), Some((other, party))) => Some(match party.run {
                None => format!(
                    "{from} goes on with run {run}, which {other} is not in any more: for another run, {}",
                    self.start_again()
                ),
                Some(theirs) => {
                    let again = self.start_again();
                    format!("{from} goes on with run {run} and {other} with run {theirs}: for another run, {again}")
                }
            }),
            // The run was started by processes that are gone.
            (None, None) if self.run.is_some() && !self.repeats => Some(self.cannot_take_up(from)),
            (Some(run), None) if self.run.is_some_and(|known| known != run) => Some(format!(
                "{from} goes on with run {run}, which is not the one that began here: for another run, {}",
                self.start_again()
            )),
            (_, None) => None,
        }
    }

    /// Starts the run once everybody is ready, or tells a party again that has not heard of the start.
    fn start(&mut self, ready: Role) -> Vec<Say> {
        let mut say = Vec::new();
        let all = self.parties.values().all(|party| party.joined && party.state == PeerState::Ready);
        if self.run.is_none() && all {
            self.run = Some(self.fresh);
        } else if self.run.is_none() {
            return say;
        }
        let Some(run) = self.run else { return say };
        for (role, party) in &mut self.parties {
            let heard_in_time = party.state == PeerState::Ready && (all || *role == ready);
            if heard_in_time && !std::mem::replace(&mut party.knows, true) {
                party.run = Some(run);
                say.push((*role, CoordinatorEvent::Start { run }));
            }
        }
        say
    }

    /// Ends the run from here because of a party, which is told as well.
    fn turn_away(&mut self, from: Role, exit: Exit, sentence: String) -> Vec<Say> {
        let notice = Notice { exit, sentence };
        let mut say = vec![(from, abort(Role::Coordinator, notice.clone()))];
        say.extend(self.end(Role::Coordinator, notice).into_iter().filter(|(role, _)| *role != from));
        say
    }

    fn end(&mut self, from: Role, notice: Notice) -> Vec<Say> {
        self.ended = Some((from, notice.clone()));
        self.parties
            .iter()
            .filter(|(role, party)| **role != from && party.state != PeerState::Done && !party.late)
            .map(|(role, _)| (*role, abort(from, notice.clone())))
            .collect()
    }

    /// But in private mode what was said is not kept, so that nobody can say it again to a party that was started again.
    fn cannot_take_up(&self, who: Role) -> String {
        let (run, again) = (if self.sealed { "sealed" } else { "plain" }, self.start_again());
        format!("{who} was started again in the middle of a {run} run, which cannot be taken up: {again}")
    }

    /// What to do once a run has ended for all, for sentences.
    fn start_again(&self) -> String {
        let all = if self.parties.len() == 2 { "both" } else { "all parties" };
        format!("start {all} again, and `coordinator serve` where it has ended")
    }

    fn state(&self, role: Role) -> PeerState {
        self.parties.get(&role).map_or(PeerState::Absent, |party| party.state)
    }

    fn set(&mut self, role: Role, state: PeerState) {
        if let Some(party) = self.parties.get_mut(&role) {
            party.state = state;
        }
    }

    fn tell_others(&self, about: Role) -> Vec<Say> {
        let state = self.state(about);
        self.parties
            .iter()
            .filter(|(role, party)| **role != about && !party.late)
            .map(|(role, _)| (*role, CoordinatorEvent::Peer { role: about, state }))
            .collect()
    }

    /// The run, once it has started.
    pub fn run(&self) -> Option<RunId> {
        self.run
    }

    /// Why the run was ended, if it was.
    pub fn ended(&self) -> Option<&(Role, Notice)> {
        self.ended.as_ref()
    }

    /// How the run ended, once it has: done when every party is, else with the code of anyone who ended it.
    pub fn verdict(&self) -> Option<Exit> {
        if let Some((_, notice)) = &self.ended {
            return Some(notice.exit);
        }
        let done = self.parties.values().all(|party| party.state == PeerState::Done);
        done.then_some(Exit::Done)
    }

    /// What `coordinator status` shows.
    pub fn status(&self) -> StatusReply {
        StatusReply {
            study: self.study.clone(),
            digest: self.digest,
            run: self.run,
            parties: self
                .parties
                .iter()
                .map(|(role, party)| (role.to_string(), party.state, party.progress.clone()))
                .collect(),
            exit: self.verdict(),
            quorum: None,
            ends: None,
        }
    }
}

fn abort(from: Role, notice: Notice) -> CoordinatorEvent {
    CoordinatorEvent::Abort { from, notice }
}

#[cfg(test)]
mod tests;
