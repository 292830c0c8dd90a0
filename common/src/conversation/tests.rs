use super::*;
use crate::exit::Exit;
use crate::study::tests::vertical;

const RUN: RunId = RunId([7; 16]);

/// What the toy script's messages say.
#[derive(Clone, PartialEq)]
enum Word {
    Hello(Hello),
    Dealt(u32),
    Masked(u32),
    Share(u32),
    Go,
}

impl Content for Word {
    const GO: Word = Word::Go;

    fn greeting(hello: Hello) -> Word {
        Word::Hello(hello)
    }

    fn hello(&self) -> Option<&Hello> {
        if let Word::Hello(hello) = self { Some(hello) } else { None }
    }

    fn kind(&self) -> &'static str {
        match self {
            Word::Hello(_) => "a greeting",
            Word::Dealt(_) => "a deal",
            Word::Masked(_) => "a masked value",
            Word::Share(_) => "a share",
            Word::Go => "a go-ahead",
        }
    }
}

impl Discloses for Word {
    fn discloses(&self) -> Vec<Declaration> {
        if let Word::Share(u32::MAX) = self { vec![Declaration::Undeclarable] } else { Vec::new() }
    }
}

/// Three speakers in three phases: the coordinator deals a mask to each party, Alice and Bob say masked values, the coordinator deals
/// once more, and Bob opens his share of the sum.
struct Toy {
    role: Role,
    value: u32,
    place: usize,
    dealt: u32,
    heard: Vec<u32>,
}

const STEPS: [Step; 6] = [
    Step { speaker: Role::Coordinator, expected: "a deal" },
    Step { speaker: Role::Alice, expected: "a masked value" },
    Step { speaker: Role::Bob, expected: "a masked value" },
    Step { speaker: Role::Coordinator, expected: "a deal" },
    Step { speaker: Role::Coordinator, expected: "a deal" },
    Step { speaker: Role::Bob, expected: "a share" },
];

impl Script for Toy {
    type Body = Word;
    type Output = (u32, Vec<u32>);

    fn step(&self) -> Option<Step> {
        STEPS.get(self.place).copied()
    }

    fn build(&mut self) -> Result<Said<Word>, Abort> {
        self.place += 1;
        let value = self.value + self.dealt;
        Ok(if self.place == STEPS.len() { Word::Share(value) } else { Word::Masked(value) }.into())
    }

    fn absorb(&mut self, body: Word) -> Result<(), Refusal> {
        match (STEPS[self.place].expected, body) {
            ("a deal", Word::Dealt(value)) => self.dealt += value,
            ("a masked value", Word::Masked(value)) | ("a share", Word::Share(value)) => self.heard.push(value),
            _ => return Err(Refusal::Kind),
        }
        self.place += 1;
        Ok(())
    }

    fn finish(&mut self) -> Result<(u32, Vec<u32>), Abort> {
        Ok((self.dealt, self.heard.clone()))
    }
}

fn study() -> Study<Vertical> {
    vertical(
        "id = \"s\"\n[parties.alice]\ncertificate = \"alice\"\ncolumns = [\"a\"]\n[parties.bob]\ncertificate = \"bob\"\n\
         columns = [\"b\"]\n[outcome]\ncolumn = \"y\"\n",
    )
}

fn open(role: Role, value: u32) -> Conversation<Toy> {
    let opening = Opening { first: role == Role::Bob, run: RUN, seed: [0; 32], peer: role.partner() };
    let script = Toy { role, value, place: 0, dealt: 0, heard: Vec::new() };
    Conversation::open(role, Purpose::Fit, &study(), &opening, script)
}

/// The message `sequence` of the coordinator to a party.
fn deal(sequence: u64, value: u32) -> Message<Word> {
    let header = Header { study: study().digest(), run: RUN, sender: Role::Coordinator, sequence };
    Message { header, body: Word::Dealt(value) }
}

type Fed = Result<Next<Toy>, Abort>;

fn sent(turn: Fed) -> Message<Word> {
    match turn {
        Ok(Turn::Send(message) | Turn::FinishAndSend { last: message, .. }) => message.into(),
        other => panic!("nothing was said: {other:?}"),
    }
}

fn fault(turn: Fed) -> (Role, PeerFault) {
    match turn {
        Err(Abort::Peer { peer, fault }) => (peer, fault),
        other => panic!("no fault: {other:?}"),
    }
}

fn waits(turn: Fed) {
    assert!(matches!(turn, Ok(Turn::Wait)), "{turn:?}");
}

/// Both after their greetings: Alice has heard Bob's and said hers, and Bob has heard it.
fn greeted() -> [Conversation<Toy>; 2] {
    let [mut alice, mut bob] = [open(Role::Alice, 100), open(Role::Bob, 200)];
    waits(alice.start());
    let hello = sent(bob.start());
    let answer = sent(alice.receive(Role::Bob, hello));
    waits(bob.receive(Role::Alice, answer));
    [alice, bob]
}

#[test]
fn the_coordinator_speaks_between_two_parties_and_whatever_comes_early_waits_for_its_step() {
    let [mut alice, mut bob] = greeted();
    // Bob's deals come before Alice's, and those of the third phase before the second one has begun.
    let go = sent(bob.receive(Role::Coordinator, deal(0, 2)));
    assert!(go.body == Word::Go, "it is Bob's turn and Alice's step");
    waits(alice.receive(Role::Bob, go));
    for (sequence, value) in [(1, 20), (2, 200)] {
        waits(bob.receive(Role::Coordinator, deal(sequence, value)));
    }
    let masked = sent(alice.receive(Role::Coordinator, deal(0, 1)));
    assert!(masked.body == Word::Masked(101));
    let answer = sent(bob.receive(Role::Alice, masked));
    assert!(answer.body == Word::Masked(202));
    // Alice still waits for her deals, and it is her turn afterwards: she lets Bob go on.
    waits(alice.receive(Role::Bob, answer));
    waits(alice.receive(Role::Coordinator, deal(1, 10)));
    let go = sent(alice.receive(Role::Coordinator, deal(2, 100)));
    assert!(go.body == Word::Go);
    let Ok(Turn::FinishAndSend { output, last }) = bob.receive(Role::Alice, go) else { panic!("bob ends") };
    assert_eq!(output, (222, vec![101]));
    let Ok(Turn::Finish(output)) = alice.receive(Role::Bob, last.into()) else { panic!("alice ends") };
    assert_eq!(output, (111, vec![202, 422]));
    assert_eq!(alice.script().role, Role::Alice);
}

#[test]
fn a_message_is_taken_only_from_the_line_of_the_one_who_sent_it() {
    let [mut alice, _] = greeted();
    let foreign = |turn| {
        let (peer, fault) = fault(turn);
        assert_eq!(fault, PeerFault::Foreign { what: "sender" });
        peer
    };
    // Bob cannot deal, a coordinator cannot speak as Bob, and nobody else speaks at all.
    assert_eq!(foreign(alice.receive(Role::Bob, deal(0, 1))), Role::Bob);
    let mut masked = deal(2, 1);
    masked.header.sender = Role::Bob;
    assert_eq!(foreign(alice.receive(Role::Coordinator, masked.clone())), Role::Coordinator);
    for stranger in [Role::Worker, Role::Alice] {
        masked.header.sender = stranger;
        assert_eq!(foreign(alice.receive(stranger, masked.clone())), stranger);
    }
    let mut other = deal(0, 1);
    other.header.run = RunId([8; 16]);
    let run = fault(alice.receive(Role::Coordinator, other));
    assert_eq!(run, (Role::Coordinator, PeerFault::Foreign { what: "run" }));
}

#[test]
fn repeats_get_the_same_bytes_and_a_coordinator_no_answer() {
    let [mut alice, mut bob] = greeted();
    let go = sent(bob.receive(Role::Coordinator, deal(0, 2)));
    waits(bob.receive(Role::Coordinator, deal(0, 2)));
    let changed = fault(bob.receive(Role::Coordinator, deal(0, 3)));
    assert_eq!(changed, (Role::Coordinator, PeerFault::Changed { sequence: 0 }));
    // What Alice said last is no answer to a message that waits for the coordinator.
    waits(alice.receive(Role::Bob, go.clone()));
    waits(alice.receive(Role::Bob, go.clone()));
    let masked = sent(alice.receive(Role::Coordinator, deal(0, 1)));
    assert!(sent(alice.receive(Role::Bob, go.clone())) == masked);
    assert!(alice.resend().map(Message::from) == Some(masked));
    let mut changed = go;
    changed.body = Word::Masked(0);
    assert_eq!(fault(alice.receive(Role::Bob, changed)), (Role::Bob, PeerFault::Changed { sequence: 2 }));
}

#[test]
fn what_is_out_of_order_or_not_the_speakers_ends_the_run_with_the_blame_where_it_belongs() {
    let from_bob = |sequence, body| {
        let header = Header { sender: Role::Bob, ..deal(sequence, 0).header };
        Message { header, body }
    };
    let refused = |from, message| {
        let [mut alice, _] = greeted();
        let abort = alice.receive(from, message);
        assert!(matches!(&abort, Err(abort) if abort.exit() == Exit::Peer));
        fault(abort)
    };
    let ahead = |came, expected| PeerFault::Ahead { came, expected };
    assert_eq!(refused(Role::Bob, from_bob(4, Word::Go)), (Role::Bob, ahead(4, 2)));
    assert_eq!(refused(Role::Coordinator, deal(1, 0)), (Role::Coordinator, ahead(1, 0)));
    let mut masked = deal(0, 0);
    masked.body = Word::Masked(1);
    let kind = PeerFault::Kind { came: "a masked value", expected: "a deal" };
    assert_eq!(refused(Role::Coordinator, masked), (Role::Coordinator, kind));
    // The step after the deal is Alice's own: Bob may only say that she is to go on, and only once.
    let [mut alice, _] = greeted();
    waits(alice.receive(Role::Bob, from_bob(2, Word::Masked(1))));
    let kind = PeerFault::Kind { came: "a masked value", expected: "a go-ahead" };
    assert_eq!(fault(alice.receive(Role::Coordinator, deal(0, 1))), (Role::Bob, kind));
    let [mut alice, _] = greeted();
    waits(alice.receive(Role::Bob, from_bob(2, Word::Go)));
    let kind = PeerFault::Kind { came: "a go-ahead", expected: "nothing yet" };
    assert_eq!(fault(alice.receive(Role::Bob, from_bob(3, Word::Go))), (Role::Bob, kind));
    // A coordinator that runs ahead without end fills no memory.
    let [mut alice, _] = greeted();
    let full =
        (0..=AHEAD as u64 + 1).map(|sequence| alice.receive(Role::Coordinator, deal(sequence, 0))).find(Result::is_err);
    assert_eq!(fault(full.unwrap()).0, Role::Coordinator);
}

#[test]
fn another_version_or_command_at_the_greeting_is_refused_and_not_taken_for_a_breach() {
    let greeting = |change: fn(&mut Hello)| {
        let mut message = sent(open(Role::Bob, 0).start());
        if let Word::Hello(hello) = &mut message.body {
            change(hello);
        }
        open(Role::Alice, 0).receive(Role::Bob, message).unwrap_err()
    };
    let version = greeting(|hello| hello.version = 2);
    assert_eq!(version.exit(), Exit::Refused);
    assert!(version.to_string().starts_with("bob speaks version 2 of the protocol and alice version 1"), "{version}");
    let purpose = greeting(|hello| hello.purpose = Purpose::Predict);
    assert_eq!(purpose.exit(), Exit::Refused);
}

#[test]
fn what_the_study_does_not_declare_is_not_said() {
    let [mut alice, mut bob] = [open(Role::Alice, 0), open(Role::Bob, u32::MAX - 6)];
    let answer = sent(alice.receive(Role::Bob, sent(bob.start())));
    waits(bob.receive(Role::Alice, answer));
    let go = sent(bob.receive(Role::Coordinator, deal(0, 2)));
    waits(alice.receive(Role::Bob, go));
    let masked = sent(alice.receive(Role::Coordinator, deal(0, 1)));
    let answer = sent(bob.receive(Role::Alice, masked));
    waits(alice.receive(Role::Bob, answer));
    waits(alice.receive(Role::Coordinator, deal(1, 0)));
    let go = sent(alice.receive(Role::Coordinator, deal(2, 0)));
    waits(bob.receive(Role::Coordinator, deal(1, 2)));
    waits(bob.receive(Role::Coordinator, deal(2, 2)));
    let refused = bob.receive(Role::Alice, go).unwrap_err();
    assert_eq!(refused.exit(), Exit::Internal);
}
