//! Who is there, how far the run is, and who must be told what: the coordinator's decisions as a value.
//!
//! No socket, no clock: events go in, what is to be said comes out.

use std::collections::BTreeMap;

use fedreg_common::exit::Exit;
use fedreg_common::id::{Digest, Role, RunId};
use fedreg_common::study::{Mode, Study};
use fedreg_common::vertical::message::VERSION;
use fedreg_proto::link::Notice;
use fedreg_proto::register::{CoordinatorEvent, PartyEvent, PeerState, Progress, StatusReply};

/// What is to be said to whom.
pub type Say = (Role, CoordinatorEvent);

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
    parties: BTreeMap<Role, Party>,
    ended: Option<(Role, Notice)>,
}

#[derive(Debug, Clone, PartialEq)]
struct Party {
    state: PeerState,
    progress: Progress,
    /// Whether it does not know the run yet.
    unaware: bool,
}

impl Register {
    /// An empty register for a study; `fresh` becomes the identifier of its run.
    pub fn new(study: &Study, fresh: RunId) -> Register {
        let party = Party { state: PeerState::Absent, progress: Progress::default(), unaware: true };
        Register {
            study: study.id.clone(),
            digest: study.digest(),
            keys: study.key_digests(),
            fresh,
            run: None,
            repeats: study.mode == Mode::Private,
            parties: study.parties.keys().map(|role| (*role, party.clone())).collect(),
            ended: None,
        }
    }

    /// Takes what a party says; who it is, its certificate has shown.
    pub fn take(&mut self, from: Role, event: PartyEvent) -> Vec<Say> {
        if let Some((ender, notice)) = &self.ended {
            // Too late for anything but the reason.
            return match event {
                PartyEvent::Join { .. } if *ender != from => vec![(from, abort(*ender, notice.clone()))],
                _ => Vec::new(),
            };
        }
        match event {
            PartyEvent::Join { role, version, keys, run } => self.join(from, role, version, &keys, run),
            PartyEvent::Ready => {
                self.set(from, PeerState::Ready);
                let mut say = self.tell_others(from);
                if self.parties.values().all(|party| party.state == PeerState::Ready) {
                    self.run.get_or_insert(self.fresh);
                }
                say.extend(self.start());
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
        if self.state(from) == PeerState::Done || self.ended.is_some() {
            return Vec::new();
        }
        self.set(from, PeerState::Lost);
        self.tell_others(from)
    }

    /// A party stayed away for too long.
    pub fn give_up(&mut self, on: Role, seconds: u64) -> Vec<Say> {
        if self.ended.is_some() || self.state(on) != PeerState::Lost {
            return Vec::new();
        }
        self.end(
            Role::Coordinator,
            Notice {
                exit: Exit::Unreachable,
                sentence: format!("the coordinator waited {seconds} s for {on}, whose line was lost"),
            },
        )
    }

    /// Ends the run from here.
    pub fn interrupt(&mut self) -> Vec<Say> {
        if self.ended.is_some() {
            return Vec::new();
        }
        self.end(
            Role::Coordinator,
            Notice { exit: Exit::Interrupted, sentence: "interrupted by the user of coordinator".to_string() },
        )
    }

    fn join(
        &mut self,
        from: Role,
        role: Role,
        version: u32,
        keys: &[(String, Digest)],
        run: Option<RunId>,
    ) -> Vec<Say> {
        if role != from {
            let sentence = format!("{from} joined as {role}, but its certificate is that of {from}");
            return self.refuse(from, sentence);
        }
        if version != VERSION {
            let sentence = format!("{from} speaks version {version}, the coordinator version {VERSION}");
            return self.refuse(from, sentence);
        }
        let differing = Study::differing_keys(&self.keys, keys);
        if !differing.is_empty() {
            let sentence =
                format!("the study file of {from} differs from the coordinator's in: {}", differing.join(", "));
            let mut say = vec![(from, CoordinatorEvent::Welcome { differing })];
            say.extend(self.end(from, Notice { exit: Exit::Refused, sentence }));
            return say;
        }
        match (self.run, run) {
            (Some(known), Some(run)) if known != run => {
                return self.refuse(from, format!("{from} came back with another run"));
            }
            (Some(_), None) if !self.repeats => return self.cannot_take_up(from),
            // The coordinator was started again in the middle of a run: it takes the parties' word for it.
            (None, Some(run)) => {
                let mut others = self.parties.iter().filter(|(role, _)| **role != from);
                let other =
                    others.find(|(_, party)| party.state != PeerState::Absent && party.unaware).map(|(role, _)| *role);
                if let Some(other) = other.filter(|_| !self.repeats) {
                    return self.cannot_take_up(other);
                }
                self.run = Some(run);
            }
            _ => {}
        }
        let state = match run {
            Some(_) => PeerState::Ready,
            None => PeerState::Joined,
        };
        self.set(from, state);
        if let Some(party) = self.parties.get_mut(&from) {
            party.unaware = run.is_none();
        }
        let mut say = vec![(from, CoordinatorEvent::Welcome { differing: Vec::new() })];
        for (role, party) in &self.parties {
            if *role != from && party.state != PeerState::Absent {
                say.push((from, CoordinatorEvent::Peer { role: *role, state: party.state }));
            }
        }
        say.extend(self.tell_others(from));
        // The other may have waited for a run, and it is this one.
        say.extend(self.start());
        say
    }

    /// Tells whoever is ready and does not know it yet which run this is.
    fn start(&mut self) -> Vec<Say> {
        let Some(run) = self.run else { return Vec::new() };
        let unaware = self.parties.iter_mut().filter(|(_, party)| party.unaware && party.state == PeerState::Ready);
        unaware
            .map(|(role, party)| {
                party.unaware = false;
                (*role, CoordinatorEvent::Start { run })
            })
            .collect()
    }

    /// Without privacy what was said is not kept, so that nobody can say it again to a party that was started again.
    fn cannot_take_up(&mut self, who: Role) -> Vec<Say> {
        let sentence = format!(
            "{who} was started again in the middle of a run without privacy, which cannot be taken up: start both again"
        );
        self.end(Role::Coordinator, Notice { exit: Exit::Unreachable, sentence })
    }

    fn refuse(&mut self, from: Role, sentence: String) -> Vec<Say> {
        let notice = Notice { exit: Exit::Refused, sentence };
        let mut say = vec![(from, abort(Role::Coordinator, notice.clone()))];
        say.extend(self.end(Role::Coordinator, notice).into_iter().filter(|(role, _)| *role != from));
        say
    }

    fn end(&mut self, from: Role, notice: Notice) -> Vec<Say> {
        self.ended = Some((from, notice.clone()));
        self.parties
            .iter()
            .filter(|(role, party)| **role != from && party.state != PeerState::Done)
            .map(|(role, _)| (*role, abort(from, notice.clone())))
            .collect()
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
            .keys()
            .filter(|role| **role != about)
            .map(|role| (*role, CoordinatorEvent::Peer { role: about, state }))
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

    /// How the run ended, once it has: done when every party is, else with the code of whoever ended it.
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
        }
    }
}

fn abort(from: Role, notice: Notice) -> CoordinatorEvent {
    CoordinatorEvent::Abort { from, notice }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Role::{Alice, Bob, Coordinator};

    const RUN: RunId = RunId([9; 16]);

    fn study(tol: &str) -> Study {
        Study::parse(&format!(
            "id = \"s\"\n[outcome]\ncolumn = \"y\"\n[fit]\ntol = {tol}\n[parties.alice]\ncertificate = \"a\"\ncolumns = \
             [\"u\"]\n[parties.bob]\ncertificate = \"b\"\ncolumns = [\"v\"]\n"
        ))
        .unwrap()
    }

    fn join(role: Role) -> PartyEvent {
        join_with(role, &study("1e-8"), None)
    }

    fn join_with(role: Role, study: &Study, run: Option<RunId>) -> PartyEvent {
        PartyEvent::Join { role, version: VERSION, keys: study.key_digests(), run }
    }

    fn register() -> Register {
        Register::new(&study("1e-8"), RUN)
    }

    fn started() -> Register {
        let mut register = register();
        for role in [Alice, Bob] {
            register.take(role, join(role));
            register.take(role, PartyEvent::Ready);
        }
        assert_eq!(register.run(), Some(RUN));
        register
    }

    fn peer(role: Role, state: PeerState) -> CoordinatorEvent {
        CoordinatorEvent::Peer { role, state }
    }

    #[test]
    fn the_run_starts_when_both_have_read_their_data_and_ends_when_both_are_done() {
        let mut register = register();
        let welcome = CoordinatorEvent::Welcome { differing: vec![] };
        assert_eq!(
            register.take(Alice, join(Alice)),
            [(Alice, welcome.clone()), (Bob, peer(Alice, PeerState::Joined))]
        );
        assert_eq!(
            register.take(Bob, join(Bob)),
            [(Bob, welcome), (Bob, peer(Alice, PeerState::Joined)), (Alice, peer(Bob, PeerState::Joined))]
        );
        assert_eq!(register.take(Bob, PartyEvent::Ready), [(Alice, peer(Bob, PeerState::Ready))]);
        assert_eq!(
            register.take(Alice, PartyEvent::Ready),
            [
                (Bob, peer(Alice, PeerState::Ready)),
                (Alice, CoordinatorEvent::Start { run: RUN }),
                (Bob, CoordinatorEvent::Start { run: RUN })
            ]
        );
        register.take(Alice, PartyEvent::Done(Exit::Done));
        assert_eq!(register.verdict(), None);
        register.take(Bob, PartyEvent::Done(Exit::NotConverged));
        assert_eq!(register.verdict(), Some(Exit::Done));
    }

    #[test]
    fn a_differing_study_ends_the_run_for_both_and_names_the_keys_to_both() {
        let mut register = register();
        register.take(Alice, join(Alice));
        let say = register.take(Bob, join_with(Bob, &study("1e-6"), None));
        let differing = vec!["fit.tol".to_string()];
        assert_eq!(say[0], (Bob, CoordinatorEvent::Welcome { differing }));
        let (to, CoordinatorEvent::Abort { from, notice }) = &say[1] else {
            panic!("{say:?}");
        };
        assert_eq!((*to, *from, notice.exit), (Alice, Bob, Exit::Refused));
        assert_eq!(notice.sentence, "the study file of bob differs from the coordinator's in: fit.tol");
        assert_eq!(register.verdict(), Some(Exit::Refused));
    }

    #[test]
    fn a_party_that_comes_after_the_end_is_told_why() {
        let mut register = register();
        register.take(Bob, join_with(Bob, &study("1e-6"), None));
        let say = register.take(Alice, join(Alice));
        assert!(matches!(&say[..], [(Alice, CoordinatorEvent::Abort { from: Bob, .. })]));
    }

    #[test]
    fn an_abort_is_relayed_once_and_not_to_whoever_is_done() {
        let mut register = started();
        let notice = Notice { exit: Exit::Data, sentence: "no".to_string() };
        let say = register.take(Alice, PartyEvent::Abort(notice.clone()));
        assert_eq!(say, [(Bob, abort(Alice, notice.clone()))]);
        assert_eq!(register.take(Bob, PartyEvent::Abort(notice.clone())), []);
        assert_eq!(register.verdict(), Some(Exit::Data));

        let mut register = started();
        register.take(Bob, PartyEvent::Done(Exit::Done));
        assert_eq!(register.take(Alice, PartyEvent::Abort(notice)), []);
    }

    #[test]
    fn a_line_lost_in_the_middle_is_rejoined_with_the_run_and_not_without() {
        let mut register = started();
        assert_eq!(register.lost(Bob), [(Alice, peer(Bob, PeerState::Lost))]);
        let again = register.clone().take(Bob, join_with(Bob, &study("1e-8"), Some(RUN)));
        assert!(again.contains(&(Alice, peer(Bob, PeerState::Ready))));
        let say = register.take(Bob, join(Bob));
        assert_eq!(say.len(), 2, "{say:?}");
        assert_eq!(register.verdict(), Some(Exit::Unreachable));
    }

    #[test]
    fn in_private_mode_a_party_that_comes_back_without_the_run_is_told_it_whoever_comes_first() {
        let terms = "mode = \"private\"\n[columns.u]\nrange = [0, 1]\n[columns.v]\nrange = [0, 1]\n[columns.y]\nrange = [0, 1]\n\
                     [privacy]\nepsilon = 1.0\ndelta = 1e-5\n";
        let (mode, rest) = terms.split_once('\n').unwrap();
        let plain = "id = \"s\"\n[outcome]\ncolumn = \"y\"\n[parties.alice]\ncertificate = \"a\"\ncolumns = [\"u\"]\n[parties.bob]\n\
                     certificate = \"b\"\ncolumns = [\"v\"]\n";
        let study = Study::parse(&format!("{mode}\n{plain}{rest}")).unwrap();
        let start = |role| (role, CoordinatorEvent::Start { run: RUN });
        // In the middle of a run, as its process was killed.
        let mut register = Register::new(&study, RUN);
        for role in [Alice, Bob] {
            register.take(role, join_with(role, &study, None));
            register.take(role, PartyEvent::Ready);
        }
        register.lost(Bob);
        assert!(!register.take(Bob, join_with(Bob, &study, None)).contains(&start(Bob)), "it has not read yet");
        assert!(register.take(Bob, PartyEvent::Ready).contains(&start(Bob)));
        assert!(!register.take(Bob, PartyEvent::Ready).contains(&start(Bob)), "it knows");
        // Under a coordinator that was started again, in both orders.
        for run_first in [true, false] {
            let mut register = Register::new(&study, RunId([1; 16]));
            let mut said = Vec::new();
            let alice = |register: &mut Register| register.take(Alice, join_with(Alice, &study, Some(RUN)));
            if run_first {
                said.extend(alice(&mut register));
            }
            said.extend(register.take(Bob, join_with(Bob, &study, None)));
            said.extend(register.take(Bob, PartyEvent::Ready));
            if !run_first {
                said.extend(alice(&mut register));
            }
            assert_eq!(said.iter().filter(|say| **say == start(Bob)).count(), 1, "{run_first}");
            assert_eq!((register.run(), register.verdict()), (Some(RUN), None));
        }
    }

    #[test]
    fn without_privacy_a_run_goes_on_only_with_parties_that_know_it() {
        for run_first in [true, false] {
            let mut register = Register::new(&study("1e-8"), RunId([1; 16]));
            let alice = |register: &mut Register| register.take(Alice, join_with(Alice, &study("1e-8"), Some(RUN)));
            if run_first {
                alice(&mut register);
            }
            register.take(Bob, join(Bob));
            register.take(Bob, PartyEvent::Ready);
            if !run_first {
                alice(&mut register);
            }
            assert_eq!(register.verdict(), Some(Exit::Unreachable), "{run_first}");
        }
    }

    #[test]
    fn a_party_that_stays_away_ends_the_run() {
        let mut register = started();
        register.lost(Bob);
        let say = register.give_up(Bob, 600);
        assert_eq!(say.len(), 2);
        assert_eq!(register.verdict(), Some(Exit::Unreachable));
        assert_eq!(register.ended().unwrap().0, Coordinator);
    }

    #[test]
    fn a_coordinator_started_again_takes_up_the_run() {
        let mut register = Register::new(&study("1e-8"), RunId([1; 16]));
        register.take(Alice, join_with(Alice, &study("1e-8"), Some(RUN)));
        register.take(Bob, join_with(Bob, &study("1e-8"), Some(RUN)));
        assert_eq!(register.run(), Some(RUN));
        register.take(Alice, PartyEvent::Done(Exit::Done));
        register.take(Bob, PartyEvent::Done(Exit::Done));
        assert_eq!(register.verdict(), Some(Exit::Done));
    }

    #[test]
    fn a_certificate_of_another_role_is_refused() {
        let mut register = register();
        let say = register.take(Bob, join(Alice));
        assert!(matches!(&say[0], (Bob, CoordinatorEvent::Abort { from: Coordinator, .. })));
        assert_eq!(register.verdict(), Some(Exit::Refused));
    }
}
