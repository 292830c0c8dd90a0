use super::*;
use Role::{Alice, Bob, Coordinator};

const RUN: RunId = RunId([9; 16]);

fn study(tol: &str) -> Study<Vertical> {
    parsed(&format!(
        "id = \"s\"\n[outcome]\ncolumn = \"y\"\n[fit]\ntol = {tol}\n[parties.alice]\ncertificate = \"a\"\ncolumns = \
         [\"u\"]\n[parties.bob]\ncertificate = \"b\"\ncolumns = [\"v\"]\n"
    ))
}

fn parsed(text: &str) -> Study<Vertical> {
    Study::parse(text).unwrap().vertical().unwrap()
}

/// A private study, with the same parties.
fn private() -> Study<Vertical> {
    let terms = "[columns.u]\nrange = [0, 1]\n[columns.v]\nrange = [0, 1]\n[columns.y]\nrange = [0, 1]\n[privacy]\nepsilon = \
                 1.0\ndelta = 1e-5\n";
    let plain = "id = \"s\"\n[outcome]\ncolumn = \"y\"\n[parties.alice]\ncertificate = \"a\"\ncolumns = [\"u\"]\n[parties.bob]\n\
                 certificate = \"b\"\ncolumns = [\"v\"]\n";
    parsed(&format!("mode = \"private\"\n{plain}{terms}"))
}

fn join(role: Role) -> PartyEvent {
    join_with(role, &study("1e-8"), None)
}

fn join_with(role: Role, study: &Study<Vertical>, run: Option<RunId>) -> PartyEvent {
    PartyEvent::Join { role, version: VERSION, keys: study.key_digests(), run, instance: None }
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
    assert_eq!(register.take(Alice, join(Alice)), [(Alice, welcome.clone()), (Bob, peer(Alice, PeerState::Joined))]);
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
    let sentence =
        "the study file of bob differs from the coordinator's in: fit.tol; agree on one file and give it to all";
    assert_eq!(notice.sentence, sentence);
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
    let study = private();
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

fn join_as(process: &Process) -> PartyEvent {
    join_in(&study("1e-8"), process)
}

fn join_in(study: &Study<Vertical>, process: &Process) -> PartyEvent {
    let run = process.run;
    match join_with(process.role, study, run) {
        PartyEvent::Join { role, version, keys, run, .. } => {
            PartyEvent::Join { role, version, keys, run, instance: Some(process.instance) }
        }
        other => other,
    }
}

#[test]
fn a_party_that_is_ready_before_it_joined_starts_nothing() {
    let mut register = register();
    register.take(Alice, join(Alice));
    register.take(Alice, PartyEvent::Ready);
    register.open(Bob);
    let say = register.take(Bob, PartyEvent::Ready);
    assert!(matches!(&say[0], (Bob, CoordinatorEvent::Abort { notice, .. }) if notice.exit == Exit::Peer), "{say:?}");
    assert_eq!((register.run(), register.verdict()), (None, Some(Exit::Peer)));
    // Nor does a new line inherit what was said on the one before.
    let mut register = self::register();
    register.take(Bob, join(Bob));
    register.take(Bob, PartyEvent::Ready);
    register.open(Bob);
    register.take(Alice, join(Alice));
    register.take(Alice, PartyEvent::Ready);
    assert_eq!(register.run(), None);
    register.take(Bob, join(Bob));
    assert!(register.take(Bob, PartyEvent::Ready).contains(&(Alice, CoordinatorEvent::Start { run: RUN })));
}

#[test]
fn a_run_that_only_one_party_is_in_is_nobodys_whoever_comes_first() {
    let claims = |role, run| join_with(role, &study("1e-8"), run);
    for (first, second) in [(Alice, Bob), (Bob, Alice)] {
        for runs in [(None, Some(RunId([1; 16]))), (Some(RunId([1; 16])), None), (Some(RunId([1; 16])), Some(RUN))] {
            let mut register = register();
            register.take(first, claims(first, runs.0));
            let say = register.take(second, claims(second, runs.1));
            let told: Vec<Role> = say
                .iter()
                .filter(|(_, said)| matches!(said, CoordinatorEvent::Abort { notice, .. } if notice.exit == Exit::Unreachable))
                .map(|(role, _)| *role)
                .collect();
            assert_eq!(told, [second, first], "{runs:?}: {say:?}");
            assert_eq!(register.verdict(), Some(Exit::Unreachable));
        }
    }
}

#[test]
fn a_process_that_did_not_hear_of_the_start_hears_it_on_its_next_line() {
    let bob = Process::new(Bob, 2, None);
    let mut register = register();
    register.take(Bob, join_as(&bob));
    register.take(Bob, PartyEvent::Ready);
    register.take(Alice, join(Alice));
    register.take(Alice, PartyEvent::Ready);
    register.lost(Bob);
    register.open(Bob);
    assert_eq!(register.take(Bob, join_as(&bob)).len(), 3, "welcome, and news for both");
    assert!(register.take(Bob, PartyEvent::Ready).contains(&(Bob, CoordinatorEvent::Start { run: RUN })));
    assert_eq!(register.verdict(), None);
}

#[test]
fn what_ended_one_run_does_not_end_the_next() {
    let mut register = started();
    register.lost(Bob);
    let notice = Notice { exit: Exit::Interrupted, sentence: "interrupted by the user of alice".to_string() };
    register.take(Alice, PartyEvent::Abort(notice));
    let bob = Process::new(Bob, 7, None);
    assert!(register.is_for_the_next(Bob, Some(bob.instance)));
    let mut next = register.clone().after(&study("1e-8"), RunId([8; 16]));
    assert!(matches!(&next.take(Bob, join_as(&bob))[..], [(Bob, CoordinatorEvent::Welcome { .. }), ..]));
    assert_eq!(next.verdict(), None);
    // One that wants to go on with the run that is over hears that, and the next run does not.
    let old = Process::new(Alice, 9, Some(RUN));
    let say = next.take(Alice, join_as(&old));
    let [(Alice, CoordinatorEvent::Abort { notice, .. })] = &say[..] else { panic!("{say:?}") };
    assert!(notice.exit == Exit::Unreachable && notice.sentence.contains("is over: interrupted"), "{notice:?}");
    assert_eq!(next.verdict(), None);
    // Nor does what it says after that count for anything, and what the next run comes to is not told to it.
    let progress = PartyEvent::Progress(Progress { round: 7, ..Progress::default() });
    for event in [PartyEvent::Ready, progress, PartyEvent::Done(Exit::Done)] {
        assert_eq!(next.take(Alice, event), []);
    }
    assert_eq!((next.take(Bob, PartyEvent::Ready), next.verdict()), (vec![], None));
    assert!(next.is_late(Alice) && next.has_joined(Alice), "its line is not kept for the run after that");
    assert_eq!(next.lost(Alice), []);
    // Started again it is in the next run.
    next.open(Alice);
    next.take(Alice, join_as(&Process::new(Alice, 10, None)));
    assert!(next.take(Alice, PartyEvent::Ready).contains(&(Bob, CoordinatorEvent::Start { run: RunId([8; 16]) })));
    assert!(!next.is_late(Alice));
    // A second process of a party whose line is there takes its place, and one that comes back does not.
    assert!(next.displaces(Alice, Some([11; 16])) && !next.displaces(Alice, Some([10; 16])));
    next.lost(Alice);
    assert!(!next.displaces(Alice, Some([11; 16])));
    // Of a run that is not over nobody has come for the next.
    assert!(!started().is_for_the_next(Bob, Some([7; 16])));
}

/// A party's process, as the driver of a run behaves.
#[derive(Debug, Clone, PartialEq)]
struct Process {
    role: Role,
    instance: [u8; 16],
    run: Option<RunId>,
    online: bool,
    ready: bool,
    /// The code with which it was ended.
    exit: Option<Exit>,
}

impl Process {
    fn new(role: Role, instance: u8, run: Option<RunId>) -> Process {
        Process { role, instance: [instance; 16], run, online: false, ready: false, exit: None }
    }
}

/// What happens to the three of a private study.
#[derive(Debug, Clone, Copy)]
enum Op {
    Start(Role),
    Kill(Role),
    Interrupt(Role),
    Cut(Role),
    Read(Role),
    RestartCoordinator,
}

struct Stage {
    register: Register,
    processes: BTreeMap<Role, Process>,
    /// Runs in the ledgers that are not closed.
    unfinished: BTreeMap<Role, RunId>,
    study: Study<Vertical>,
    private: bool,
    started: u8,
}

impl Stage {
    fn new(private: bool) -> Stage {
        let study = if private { self::private() } else { study("1e-8") };
        Stage {
            register: Register::new(&study, RUN),
            processes: BTreeMap::new(),
            unfinished: BTreeMap::new(),
            study,
            private,
            started: 10,
        }
    }

    fn say(&mut self, say: Vec<Say>) {
        for (role, event) in say {
            let Some(process) = self.processes.get_mut(&role).filter(|process| process.online) else { continue };
            match event {
                CoordinatorEvent::Start { run } => {
                    process.run = Some(run);
                    if self.private {
                        self.unfinished.insert(role, run);
                    }
                }
                CoordinatorEvent::Abort { notice, .. } => {
                    process.exit = Some(notice.exit);
                    // A run that was cut short from outside stays in the ledger, and goes on.
                    if !matches!(notice.exit, Exit::Unreachable | Exit::Interrupted) {
                        self.unfinished.remove(&role);
                    }
                }
                _ => {}
            }
        }
    }

    fn take(&mut self, role: Role, event: PartyEvent) {
        let say = self.register.take(role, event);
        self.say(say);
    }

    fn connect(&mut self, role: Role) {
        let Some(process) = self.processes.get_mut(&role).filter(|process| !process.online && process.exit.is_none())
        else {
            return;
        };
        process.online = true;
        let (join, ready) = (join_in(&self.study, process), process.ready);
        self.register.open(role);
        self.take(role, join);
        if ready {
            self.take(role, PartyEvent::Ready);
        }
    }

    fn drop_line(&mut self, role: Role) {
        if self.processes.get_mut(&role).is_some_and(|process| std::mem::replace(&mut process.online, false)) {
            let say = self.register.lost(role);
            self.say(say);
        }
    }

    fn play(&mut self, op: Op) {
        match op {
            Op::Start(role) => {
                if self.processes.get(&role).is_none_or(|process| process.exit.is_some()) {
                    self.drop_line(role);
                    self.started += 1;
                    let run = self.unfinished.get(&role).copied();
                    self.processes.insert(role, Process::new(role, self.started, run));
                    self.connect(role);
                }
            }
            Op::Kill(role) => {
                self.drop_line(role);
                self.processes.remove(&role);
            }
            Op::Interrupt(role) => {
                if self.processes.get(&role).is_some_and(|process| process.online && process.exit.is_none()) {
                    let notice = Notice { exit: Exit::Interrupted, sentence: "interrupted".to_string() };
                    self.take(role, PartyEvent::Abort(notice));
                    self.drop_line(role);
                }
                self.processes.remove(&role);
            }
            Op::Cut(role) => {
                self.drop_line(role);
                self.connect(role);
            }
            Op::Read(role) => {
                if let Some(process) = self.processes.get_mut(&role).filter(|process| process.exit.is_none()) {
                    process.ready = true;
                    if process.online {
                        self.take(role, PartyEvent::Ready);
                    }
                }
            }
            Op::RestartCoordinator => {
                self.started += 1;
                self.register = Register::new(&self.study, RunId([self.started; 16]));
                for role in [Alice, Bob] {
                    if let Some(process) = self.processes.get_mut(&role) {
                        process.online = false;
                    }
                    self.connect(role);
                }
            }
        }
        // A coordinator that does not serve for ever is started again once the run is over and everybody has heard it.
        if self.register.verdict().is_some() {
            let alive: Vec<Role> =
                self.processes.values().filter(|process| process.exit.is_none()).map(|p| p.role).collect();
            self.register = Register::new(&self.study, RunId([self.started; 16]));
            self.started += 1;
            for role in alive {
                if let Some(process) = self.processes.get_mut(&role) {
                    process.online = false;
                }
                self.connect(role);
            }
        }
    }
}

/// Plays a list of what happens, and asserts how it ends.
fn comes_to_an_end(ops: &[u8], private: bool, order: [Role; 2]) {
    let mut stage = Stage::new(private);
    for op in ops {
        let role = if op % 2 == 0 { Alice } else { Bob };
        stage.play(match op {
            0 | 1 => Op::Start(role),
            2 | 3 => Op::Kill(role),
            4 | 5 => Op::Interrupt(role),
            6 | 7 => Op::Cut(role),
            8 | 9 => Op::Read(role),
            _ => Op::RestartCoordinator,
        });
    }
    let both = |stage: &mut Stage| {
        let over = |role: &&Role| stage.processes.get(*role).is_none_or(|process| process.exit.is_some());
        // Anyone who is told meanwhile is not started again at once.
        let absent: Vec<Role> = order.iter().filter(over).copied().collect();
        absent.iter().for_each(|role| stage.play(Op::Start(*role)));
        order.iter().for_each(|role| stage.play(Op::Read(*role)));
        let both: Vec<Process> = stage.processes.values().cloned().collect();
        let together = both.iter().all(|process| process.exit.is_none() && process.run.is_some());
        (together && both.len() == 2 && both[0].run == both[1].run, both)
    };
    // Whatever was before: two that are there and have read their data are in one run. Anyone who is told ends with 69, and anyone who is
    // alone then waits for the other no longer than stated.
    let (together, processes) = both(&mut stage);
    let told = processes.iter().any(|process| process.exit == Some(Exit::Unreachable))
        && processes.iter().all(|process| process.exit.is_none_or(|exit| exit == Exit::Unreachable));
    assert!(together || told, "{ops:?}, private {private}, {order:?}: {processes:?}");
    // Anyone who was told and is started again is in one run with the other.
    let (together, processes) = both(&mut stage);
    assert!(together, "{ops:?}, private {private}, {order:?}: {processes:?}");
}

#[test]
fn any_order_of_starts_kills_interrupts_and_cuts_ends_in_one_run_of_both_or_tells_both() {
    let every = |ops: &[u8]| {
        for private in [false, true] {
            [[Alice, Bob], [Bob, Alice]].iter().for_each(|order| comes_to_an_end(ops, private, *order));
        }
    };
    // Bob killed in a private run, Alice interrupted, Alice started first.
    every(&[0, 1, 8, 9, 3, 4]);
    // All lists of up to four, and long ones drawn from a fixed sequence.
    for length in 0..=4_u32 {
        for code in 0..11_usize.pow(length) {
            let digit = |at: u32| (code / 11_usize.pow(at) % 11) as u8;
            every(&(0..length).map(digit).collect::<Vec<u8>>());
        }
    }
    let mut state = 1_u64;
    let mut draw = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for _ in 0..3000 {
        let length = 5 + draw(25);
        let ops: Vec<u8> = (0..length).map(|_| draw(11) as u8).collect();
        every(&ops);
    }
}

fn of_three() -> (Study<Vertical>, Role) {
    let party = |name: &str| format!("[parties.{name}]\ncertificate = \"{name}.example\"\ncolumns = [\"of_{name}\"]\n");
    let parties: String = ["alice", "bob", "carol"].map(party).concat();
    let study = parsed(&format!("id = \"s\"\nleader = \"carol\"\n[outcome]\ncolumn = \"y\"\n{parties}"));
    (study, "carol".parse().unwrap())
}

#[test]
fn of_three_parties_a_late_one_is_waited_for_and_all_hear_of_each() {
    let (study, carol) = of_three();
    let mut register = Register::new(&study, RUN);
    for role in [carol, Alice] {
        register.take(role, join_with(role, &study, None));
        let say = register.take(role, PartyEvent::Ready);
        assert!(say.iter().all(|(_, event)| !matches!(event, CoordinatorEvent::Start { .. })), "{say:?}");
    }
    assert_eq!(register.run(), None);
    let say = register.take(Bob, join_with(Bob, &study, None));
    for told in [peer(Alice, PeerState::Ready), peer(carol, PeerState::Ready)] {
        assert!(say.contains(&(Bob, told)), "{say:?}");
    }
    let say = register.take(Bob, PartyEvent::Ready);
    for role in [Alice, Bob, carol] {
        assert!(say.contains(&(role, CoordinatorEvent::Start { run: RUN })), "{role}: {say:?}");
    }
    for role in [Alice, Bob] {
        register.take(role, PartyEvent::Done(Exit::Done));
        assert_eq!(register.verdict(), None);
    }
    let say = register.take(carol, PartyEvent::Done(Exit::Done));
    assert_eq!(say.iter().filter(|(_, event)| *event == CoordinatorEvent::Ended).count(), 3);
    assert_eq!(register.verdict(), Some(Exit::Done));
    assert_eq!(
        register.status().parties.iter().map(|(name, ..)| &name[..]).collect::<Vec<_>>(),
        ["alice", "bob", "carol"]
    );
}

#[test]
fn of_three_parties_one_that_is_lost_or_ends_the_run_is_named_to_both_others() {
    let (study, carol) = of_three();
    let begun = || {
        let mut register = Register::new(&study, RUN);
        for role in [Alice, Bob, carol] {
            register.take(role, join_with(role, &study, None));
            register.take(role, PartyEvent::Ready);
        }
        register
    };
    let mut register = begun();
    assert_eq!(register.lost(Bob), [Alice, carol].map(|to| (to, peer(Bob, PeerState::Lost))));
    let say = register.give_up(Bob, 20);
    let sentence = "the coordinator waited 20 s for bob, whose line was lost";
    let notice = Notice { exit: Exit::Unreachable, sentence: sentence.to_string() };
    assert_eq!(say, [Alice, Bob, carol].map(|to| (to, abort(Coordinator, notice.clone()))));

    let mut register = begun();
    let notice = Notice { exit: Exit::Data, sentence: "no".to_string() };
    let say = register.take(carol, PartyEvent::Abort(notice.clone()));
    assert_eq!(say, [Alice, Bob].map(|to| (to, abort(carol, notice.clone()))));

    // Started again without the run: it is over for all three.
    let mut register = begun();
    register.lost(Alice);
    let say = register.take(Alice, join_with(Alice, &study, None));
    assert_eq!(say.len(), 3, "{say:?}");
    let told = say.iter().all(|(_, event)| match event {
        CoordinatorEvent::Abort { notice, .. } => notice
            .sentence
            .ends_with("cannot be taken up: start all parties again, and `coordinator serve` where it has ended"),
        _ => false,
    });
    assert!(told, "{say:?}");
}

#[test]
fn of_three_parties_one_that_claims_anothers_name_ends_the_run() {
    let (study, carol) = of_three();
    for claimed in [Alice, "dave".parse().unwrap(), Coordinator] {
        let mut register = Register::new(&study, RUN);
        register.take(Alice, join_with(Alice, &study, None));
        register.take(Bob, join_with(Bob, &study, None));
        let join =
            PartyEvent::Join { role: claimed, version: VERSION, keys: study.key_digests(), run: None, instance: None };
        let say = register.take(carol, join);
        let sentence = format!("carol joined as {claimed}, but its certificate is that of carol");
        let notice = Notice { exit: Exit::Refused, sentence };
        assert_eq!(say, [carol, Alice, Bob].map(|to| (to, abort(Coordinator, notice.clone()))));
        assert_eq!(register.verdict(), Some(Exit::Refused));
    }
}
