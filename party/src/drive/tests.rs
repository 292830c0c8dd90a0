use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use fedreg_common::exit::Exit;
use fedreg_common::secure::product::Shape;
use fedreg_common::secure::ring::Width;

use super::*;

/// A message of the toy session. `stamp` is drawn when the message is made: a recomputed message differs.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Word {
    sequence: u64,
    stamp: u64,
}

/// Counts to `last`, alternating, the first speaker with even numbers.
struct Toy {
    first: bool,
    last: u64,
    stamps: Arc<AtomicU64>,
    expected: u64,
    sent: Option<Word>,
    heard: Vec<Word>,
    pause: Duration,
    works: Duration,
    allowance: Duration,
    panics_at: Option<u64>,
}

impl Toy {
    fn new(first: bool, last: u64) -> Toy {
        Toy {
            first,
            last,
            stamps: Arc::default(),
            expected: u64::from(first),
            sent: None,
            heard: Vec::new(),
            pause: Duration::ZERO,
            works: Duration::ZERO,
            allowance: Duration::ZERO,
            panics_at: None,
        }
    }

    fn word(&mut self, sequence: u64) -> Word {
        let word = Word { sequence, stamp: self.stamps.fetch_add(1, Ordering::SeqCst) };
        self.sent = Some(word.clone());
        word
    }
}

impl Session for Toy {
    type Inbound = Word;
    type Outbound = Word;
    type Output = Vec<Word>;

    fn start(&mut self) -> Result<Turn<Word, Vec<Word>>, Abort> {
        Ok(match self.first {
            true => Turn::Send(self.word(0)),
            false => Turn::Wait,
        })
    }

    fn role(&self) -> Role {
        if self.first { Role::Alice } else { Role::Bob }
    }

    fn receive(&mut self, _from: Role, word: Word) -> Result<Turn<Word, Vec<Word>>, Abort> {
        std::thread::sleep(self.pause);
        assert_ne!(Some(word.sequence), self.panics_at, "told to panic");
        if word.sequence + 2 == self.expected {
            assert_eq!(self.heard.last(), Some(&word), "a repeat has the same bytes");
            let answered = self.sent.as_ref().is_some_and(|sent| sent.sequence > word.sequence);
            return Ok(match self.sent.clone() {
                Some(sent) if answered => Turn::Send(sent),
                _ => Turn::Wait,
            });
        }
        if word.sequence != self.expected {
            return Err(Abort::Peer {
                peer: Role::Bob,
                fault: PeerFault::Ahead { came: word.sequence, expected: self.expected },
            });
        }
        self.heard.push(word.clone());
        self.expected += 2;
        let answer = word.sequence + 1;
        if answer > self.last {
            return Ok(Turn::Finish(self.heard.clone()));
        }
        let reply = self.word(answer);
        Ok(match answer == self.last {
            true => Turn::FinishAndSend { output: self.heard.clone(), last: reply },
            false => Turn::Send(reply),
        })
    }

    fn resend(&self) -> Option<Word> {
        self.sent.clone()
    }

    fn position(&self) -> u64 {
        self.expected + u64::from(self.sent.is_some())
    }

    fn allowance(&self) -> Duration {
        self.allowance
    }

    fn has_work(&self) -> bool {
        !self.works.is_zero()
    }

    fn work(&mut self) -> Result<(), Abort> {
        std::thread::sleep(self.works);
        Ok(())
    }
}

#[derive(Debug)]
enum Frame {
    Word(Word),
    Abort(Notice),
    Bye,
    Close,
}

/// What the network does to the message that is sent as number `.1` by end `.0` (dialler 0), counted over all lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// The line breaks and takes the message with it.
    LoseAndBreak,
    /// The message arrives, and the line breaks behind it.
    BreakBehind,
    /// It arrives twice.
    Twice,
    /// It is lost, and so is all that follows on this line, and nobody is told.
    Stall,
}

#[derive(Default)]
struct Network {
    faults: Mutex<BTreeMap<(usize, u64), Fault>>,
    sent: [AtomicU64; 2],
    refuse_first: AtomicU64,
    /// How the next attempts to dial fail, where they do.
    failures: Mutex<VecDeque<Option<OpenError>>>,
}

type Pipe = (mpsc::UnboundedSender<Frame>, mpsc::UnboundedReceiver<Frame>);

struct SimLink {
    network: Arc<Network>,
    end: usize,
    line: Option<Pipe>,
    exchange: Exchange,
    bytes: u64,
    sent_at: Instant,
    stalled: Vec<mpsc::UnboundedSender<Frame>>,
}

enum Exchange {
    Dials(mpsc::UnboundedSender<Pipe>),
    Listens(mpsc::UnboundedReceiver<Pipe>),
}

fn network(faults: &[(usize, u64, Fault)]) -> (SimLink, SimLink, Arc<Network>) {
    let network = Arc::new(Network::default());
    *network.faults.lock().unwrap() = faults.iter().map(|(end, number, fault)| ((*end, *number), *fault)).collect();
    let (dial, listen) = mpsc::unbounded_channel();
    let link = |end, exchange| SimLink {
        network: Arc::clone(&network),
        end,
        line: None,
        exchange,
        bytes: 0,
        sent_at: Instant::now(),
        stalled: Vec::new(),
    };
    (link(0, Exchange::Dials(dial)), link(1, Exchange::Listens(listen)), Arc::clone(&network))
}

impl SimLink {
    fn put(&mut self, frame: Frame) {
        if let Some((out, _)) = &self.line {
            let _ = out.send(frame);
        }
    }
}

impl Link for SimLink {
    type Outbound = Word;
    type Inbound = Word;

    async fn open(&mut self) -> Result<(), OpenError> {
        self.line = None;
        match &mut self.exchange {
            Exchange::Dials(dial) => {
                if self.network.refuse_first.load(Ordering::SeqCst) > 0 {
                    self.network.refuse_first.fetch_sub(1, Ordering::SeqCst);
                    return Err(OpenError::Unreachable("connection refused".to_string()));
                }
                if let Some(Some(error)) = self.network.failures.lock().unwrap().pop_front() {
                    return Err(error);
                }
                let (ours_out, theirs_in) = mpsc::unbounded_channel();
                let (theirs_out, ours_in) = mpsc::unbounded_channel();
                dial.send((theirs_out, theirs_in))
                    .map_err(|_| OpenError::Unreachable("connection refused".to_string()))?;
                self.line = Some((ours_out, ours_in));
            }
            Exchange::Listens(listen) => match listen.recv().await {
                Some(line) => self.line = Some(line),
                None => std::future::pending().await,
            },
        }
        Ok(())
    }

    fn send(&mut self, word: Word) {
        let number = self.network.sent[self.end].fetch_add(1, Ordering::SeqCst);
        let fault = self.network.faults.lock().unwrap().remove(&(self.end, number));
        self.bytes += 16;
        self.sent_at = Instant::now();
        match fault {
            None => self.put(Frame::Word(word)),
            Some(Fault::Stall) => {
                if let Some((out, _)) = &mut self.line {
                    let (nowhere, _) = mpsc::unbounded_channel();
                    // The live sender stays alive, or the peer would be told.
                    self.stalled.push(std::mem::replace(out, nowhere));
                }
            }
            Some(Fault::Twice) => {
                self.put(Frame::Word(word.clone()));
                self.put(Frame::Word(word));
            }
            Some(Fault::BreakBehind) => {
                self.put(Frame::Word(word));
                self.line = None;
            }
            Some(Fault::LoseAndBreak) => self.line = None,
        }
    }

    async fn recv(&mut self) -> Event<Word> {
        let Some((_, line)) = &mut self.line else {
            return Event::Lost("cut".to_string());
        };
        match line.recv().await {
            Some(Frame::Word(word)) => Event::Message(word),
            Some(Frame::Abort(notice)) => Event::Abort(notice),
            Some(Frame::Bye) => Event::Bye,
            Some(Frame::Close) | None => Event::Lost("closed".to_string()),
        }
    }

    fn abort(&mut self, notice: Notice) {
        self.put(Frame::Abort(notice));
    }

    fn bye(&mut self) {
        self.put(Frame::Bye);
    }

    async fn close(&mut self) {
        self.put(Frame::Close);
    }

    fn bytes_sent(&self) -> u64 {
        self.bytes
    }

    fn sent_at(&self) -> Instant {
        self.sent_at
    }
}

fn ends(own: Role) -> Ends {
    Ends {
        own,
        peer: own.partner(),
        dials: (own == Role::Alice).then(|| "bob.example:7102".to_string()),
        listens: (own == Role::Bob).then(|| "0.0.0.0:7102".to_string()),
    }
}

fn hasty() -> Patience {
    Patience {
        wait: Duration::from_millis(1500),
        silence: Duration::from_millis(60),
        linger: Duration::from_millis(400),
        backoff: Duration::from_millis(1),
        backoff_limit: Duration::from_millis(4),
    }
}

type Result2 = (Result<Driven<Toy>, Abort>, Result<Driven<Toy>, Abort>);

/// For runs that come to their ends, with many lines where the machine is slow.
fn steady() -> Patience {
    Patience { wait: Duration::from_secs(60), linger: Duration::from_secs(60), ..hasty() }
}

/// For runs in which no line is taken for lost because nothing came on it: a busy machine keeps a thread waiting for longer than the
/// silence of others, and a line that is given up just when its peer ends takes the last word with it.
fn unhurried() -> Patience {
    Patience { silence: Duration::from_secs(20), ..steady() }
}

fn both(faults: &[(usize, u64, Fault)], alice: Toy, bob: Toy) -> Result2 {
    both_for(steady(), faults, alice, bob)
}

fn both_for(patience: Patience, faults: &[(usize, u64, Fault)], alice: Toy, bob: Toy) -> Result2 {
    let runtime = runtime();
    runtime.block_on(async {
        let (mut dialler, mut listener, network) = network(faults);
        network.refuse_first.store(2, Ordering::SeqCst);
        let (_a, mut never_a) = mpsc::channel(1);
        let (_b, mut never_b) = mpsc::channel(1);
        let (alice_ends, bob_ends) = (ends(Role::Alice), ends(Role::Bob));
        tokio::join!(
            drive(alice, &mut dialler, &alice_ends, &patience, &mut never_a, |_, _| {}),
            drive(bob, &mut listener, &bob_ends, &patience, &mut never_b, |_, _| {}),
        )
    })
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn words(result: Result<Driven<Toy>, Abort>) -> (Vec<Word>, bool) {
    let driven = result.unwrap();
    (driven.output, driven.confirmed)
}

#[test]
fn a_clean_line_carries_a_session_to_its_end_at_both_sides() {
    for last in [1, 2, 5, 8] {
        let (alice, bob) = both_for(unhurried(), &[], Toy::new(true, last), Toy::new(false, last));
        let (alice, bob) = (words(alice), words(bob));
        assert!(alice.1 && bob.1);
        assert_eq!(alice.0.len() + bob.0.len(), last as usize + 1);
    }
}

#[test]
fn a_line_that_breaks_anywhere_gives_the_same_bits_as_a_clean_one() {
    for last in [3, 4] {
        let clean = both(&[], Toy::new(true, last), Toy::new(false, last));
        let clean = (words(clean.0).0, words(clean.1).0);
        for end in [0, 1] {
            for number in 0..3 {
                for fault in [Fault::LoseAndBreak, Fault::BreakBehind, Fault::Twice, Fault::Stall] {
                    // Only silence tells of a line that has stalled.
                    let patience = match fault {
                        Fault::Stall => Patience { silence: Duration::from_millis(400), ..steady() },
                        _ => unhurried(),
                    };
                    let [alice, bob] = [true, false].map(|first| Toy::new(first, last));
                    let (alice, bob) = both_for(patience, &[(end, number, fault)], alice, bob);
                    let run = (words(alice), words(bob));
                    assert!(run.0.1 && run.1.1, "{last} {end} {number} {fault:?}: not confirmed");
                    assert_eq!((run.0.0, run.1.0), clean, "{last} {end} {number} {fault:?}");
                }
            }
        }
    }
}

#[test]
fn many_faults_in_one_run_change_no_bit() {
    let last = 41;
    let clean = both(&[], Toy::new(true, last), Toy::new(false, last));
    let clean = (words(clean.0).0, words(clean.1).0);
    let kinds = [Fault::LoseAndBreak, Fault::BreakBehind, Fault::Twice];
    for seed in 0..40_u64 {
        // A fixed mixture; the seed only shifts which messages it hits.
        let faults: Vec<(usize, u64, Fault)> = (0..12_u64)
            .map(|k| {
                let mixed = (seed * 12 + k).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
                ((mixed & 1) as usize, (mixed >> 1) % 24, kinds[(mixed >> 8) as usize % 3])
            })
            .collect();
        let (alice, bob) = both(&faults, Toy::new(true, last), Toy::new(false, last));
        let run = (words(alice), words(bob));
        assert_eq!((run.0.0, run.1.0), clean, "{faults:?}");
    }
}

#[test]
fn a_repeat_begets_no_further_repeats() {
    let runtime = runtime();
    runtime.block_on(async {
        let (mut dialler, mut listener, network) = network(&[(0, 2, Fault::LoseAndBreak), (1, 3, Fault::LoseAndBreak)]);
        let (_a, mut never_a) = mpsc::channel(1);
        let (_b, mut never_b) = mpsc::channel(1);
        let patience = unhurried();
        let (alice_ends, bob_ends) = (ends(Role::Alice), ends(Role::Bob));
        let (alice, bob) = tokio::join!(
            drive(Toy::new(true, 31), &mut dialler, &alice_ends, &patience, &mut never_a, |_, _| {}),
            drive(Toy::new(false, 31), &mut listener, &bob_ends, &patience, &mut never_b, |_, _| {}),
        );
        assert_eq!(alice.unwrap().reopened, 2);
        bob.unwrap();
        let sent = [0, 1].map(|end: usize| network.sent[end].load(Ordering::SeqCst));
        assert_eq!(sent, [16 + 2, 16 + 1], "one repeat for each message that was lost, two where the answer was");
    });
}

#[test]
fn a_peer_that_computes_for_long_is_not_taken_for_dead_while_its_line_lives() {
    // The toy link has no heartbeats, so a long step looks like silence: the line is opened again, and again, and the
    // answer still comes once.
    let mut slow = Toy::new(false, 3);
    slow.pause = Duration::from_millis(150);
    let (alice, bob) = both(&[], Toy::new(true, 3), slow);
    let alice = alice.unwrap();
    assert_eq!(alice.output.len(), 2);
    assert!(alice.exchange > alice.solve);
    assert!(bob.unwrap().solve >= Duration::from_millis(300));
}

#[test]
fn a_peer_that_never_comes_is_named_with_place_and_time() {
    let runtime = runtime();
    runtime.block_on(async {
        let patience = Patience { wait: Duration::from_millis(30), ..hasty() };
        let (_stop, mut never) = mpsc::channel(1);
        let (dialler, mut listener, _) = network(&[]);
        let abort = drive(Toy::new(false, 3), &mut listener, &ends(Role::Bob), &patience, &mut never, |_, _| {})
            .await
            .err()
            .unwrap();
        assert_eq!(abort.exit(), Exit::Unreachable);
        assert_eq!(abort.to_string(), "bob waited 0 s for alice to dial 0.0.0.0:7102; alice dials bob: check that alice was started and dials \
             an address that leads here, and that no firewall closes port 7102");
        drop(dialler);

        let (mut dialler, listener, network) = network(&[]);
        network.refuse_first.store(u64::MAX, Ordering::SeqCst);
        let abort = drive(Toy::new(true, 3), &mut dialler, &ends(Role::Alice), &patience, &mut never, |_, _| {})
            .await
            .err()
            .unwrap();
        assert_eq!(abort.to_string(), "alice waited 0 s for bob at bob.example:7102; connection refused; alice dials bob: check that bob runs and is \
             reached at this address, and that no firewall closes port 7102");
        drop(listener);
    });
}

fn spoiled(refused: bool) -> OpenError {
    let sentence = "bob at bob.example:7102 shows a certificate from 'elsewhere'".to_string();
    OpenError::Unproven { sentence, refused }
}

#[test]
fn a_handshake_that_fails_unproven_is_tried_again_and_so_is_any_in_the_middle_of_a_run() {
    let refused = || OpenError::Refused("bob at bob.example:7102 shows a certificate for 'carol'".to_string());
    let clean = both(&[], Toy::new(true, 8), Toy::new(false, 8));
    let runtime = runtime();
    runtime.block_on(async {
        let (mut dialler, mut listener, network) = network(&[(0, 1, Fault::LoseAndBreak)]);
        let failures = [Some(spoiled(true)), Some(spoiled(false)), None, Some(refused()), Some(spoiled(true)), None];
        *network.failures.lock().unwrap() = VecDeque::from(failures);
        let (_a, mut never_a) = mpsc::channel(1);
        let (_b, mut never_b) = mpsc::channel(1);
        let (alice_ends, bob_ends, patience) = (ends(Role::Alice), ends(Role::Bob), steady());
        let run = tokio::join!(
            drive(Toy::new(true, 8), &mut dialler, &alice_ends, &patience, &mut never_a, |_, _| {}),
            drive(Toy::new(false, 8), &mut listener, &bob_ends, &patience, &mut never_b, |_, _| {}),
        );
        assert_eq!((words(run.0).0, words(run.1).0), (words(clean.0).0, words(clean.1).0));
        assert!(network.failures.lock().unwrap().is_empty());
    });
}

#[test]
fn a_wait_in_vain_ends_as_its_last_failure_and_a_proven_refusal_at_once() {
    let refused = OpenError::Refused("bob at bob.example:7102 shows a certificate for 'carol'".to_string());
    let runtime = runtime();
    runtime.block_on(async {
        let (_stop, mut never) = mpsc::channel(1);
        for (failure, wait, exit, says) in [
            (
                spoiled(true),
                30,
                Exit::Refused,
                "alice waited 0 s for bob at bob.example:7102; bob at bob.example:7102 shows",
            ),
            (
                spoiled(false),
                30,
                Exit::Unreachable,
                "alice waited 0 s for bob at bob.example:7102; bob at bob.example:7102",
            ),
            (refused, 60_000, Exit::Refused, "bob at bob.example:7102 shows a certificate for 'carol'"),
        ] {
            let (mut dialler, _listener, network) = network(&[]);
            *network.failures.lock().unwrap() = (0..1000).map(|_| Some(failure.clone())).collect();
            let patience = Patience { wait: Duration::from_millis(wait), ..hasty() };
            let abort = drive(Toy::new(true, 3), &mut dialler, &ends(Role::Alice), &patience, &mut never, |_, _| {})
                .await
                .err()
                .unwrap();
            assert_eq!(abort.exit(), exit);
            assert!(abort.to_string().starts_with(says), "{abort}");
        }
    });
}

#[test]
fn an_interrupt_ends_both_sides_with_its_reason_even_in_the_middle_of_a_step() {
    let runtime = runtime();
    runtime.block_on(async {
        let (mut dialler, mut listener, network) = network(&[]);
        let (stop, mut stopped) = mpsc::channel(1);
        let (_b, mut never) = mpsc::channel(1);
        let mut slow = Toy::new(true, 9);
        slow.pause = Duration::from_millis(50);
        let (alice_ends, bob_ends, patience) = (ends(Role::Alice), ends(Role::Bob), unhurried());
        let (alice, bob, ()) = tokio::join!(
            drive(slow, &mut dialler, &alice_ends, &patience, &mut stopped, |_, _| {}),
            drive(Toy::new(false, 9), &mut listener, &bob_ends, &patience, &mut never, |_, _| {}),
            async {
                // Bob's first answer is what Alice computes with.
                let answered = async {
                    while network.sent[1].load(Ordering::SeqCst) == 0 {
                        sleep(Duration::from_millis(1)).await;
                    }
                };
                timeout(Duration::from_secs(60), answered).await.expect("bob does not answer");
                stop.send(Abort::Interrupted(Role::Alice)).await.unwrap();
            }
        );
        assert_eq!(alice.err().unwrap(), Abort::Interrupted(Role::Alice));
        let told = bob.err().unwrap();
        assert_eq!(told.exit(), Exit::Interrupted);
        assert_eq!(told.to_string(), "alice ended the run: interrupted by the user of alice");
    });
}

#[test]
fn a_message_that_is_ahead_ends_both_sides_with_the_same_code() {
    let mut ahead = Toy::new(true, 9);
    ahead.expected = 5;
    let (alice, bob) = both_for(unhurried(), &[], ahead, Toy::new(false, 9));
    assert_eq!(alice.err().unwrap().exit(), Exit::Peer);
    assert_eq!(bob.err().unwrap().exit(), Exit::Peer);
}

#[test]
fn a_panic_in_a_step_becomes_an_internal_error_at_both_sides() {
    let mut faulty = Toy::new(false, 9);
    faulty.panics_at = Some(2);
    let (alice, bob) = both_for(unhurried(), &[], Toy::new(true, 9), faulty);
    assert_eq!(bob.err().unwrap().exit(), Exit::Internal);
    assert_eq!(alice.err().unwrap().exit(), Exit::Internal);
}

#[test]
fn a_finished_party_answers_repeats_of_a_peer_that_lost_the_last_message() {
    // The last message of a run of four goes from bob to alice, and is lost with its line; bob is finished by then.
    let lost = [(1, 1, Fault::LoseAndBreak)];
    let (alice, bob) = both_for(unhurried(), &lost, Toy::new(true, 3), Toy::new(false, 3));
    let (alice, bob) = (alice.unwrap(), bob.unwrap());
    assert_eq!(alice.output.len(), 2);
    assert!(bob.confirmed && alice.confirmed);
    assert_eq!(alice.output[1], Word { sequence: 3, stamp: 1 });
}

/// A peer that says its first words and then gives signs of life only.
struct Beating {
    /// What comes, in turn; then a sign of life every few milliseconds, for ever.
    words: std::collections::VecDeque<Event<Word>>,
    beats: bool,
    /// Messages that may come before we answer: one at a time, as in any conversation.
    allowed: u32,
    /// When we spoke last.
    spoke: Option<Instant>,
}

impl Link for Beating {
    type Outbound = Word;
    type Inbound = Word;

    async fn open(&mut self) -> Result<(), OpenError> {
        Ok(())
    }

    fn send(&mut self, _word: Word) {
        self.allowed += 1;
        self.spoke = Some(Instant::now());
    }

    async fn recv(&mut self) -> Event<Word> {
        let message = matches!(self.words.front(), Some(Event::Message(_)));
        if (!message || self.allowed > 0)
            && let Some(event) = self.words.pop_front()
        {
            self.allowed -= u32::from(message);
            return event;
        }
        if !self.beats {
            return std::future::pending().await;
        }
        sleep(Duration::from_millis(5)).await;
        Event::Alive
    }

    fn abort(&mut self, _notice: Notice) {}

    fn bye(&mut self) {}

    async fn close(&mut self) {}

    /// What was said is written a little later, as by a task of its own.
    fn bytes_sent(&self) -> u64 {
        let written = self.spoke.is_some_and(|spoke| spoke.elapsed() > Duration::from_millis(20));
        if written { 16 } else { 0 }
    }

    fn sent_at(&self) -> Instant {
        self.spoke.unwrap_or_else(Instant::now)
    }
}

fn word(sequence: u64) -> Event<Word> {
    Event::Message(Word { sequence, stamp: 0 })
}

/// How bob's run ends with such a peer, and after how long.
fn alone(words: Vec<Event<Word>>, beats: bool, patience: Patience) -> (Result<Driven<Toy>, Abort>, Duration) {
    alone_as(Toy::new(false, 2), words, beats, patience)
}

fn alone_as(
    toy: Toy,
    words: Vec<Event<Word>>,
    beats: bool,
    patience: Patience,
) -> (Result<Driven<Toy>, Abort>, Duration) {
    runtime().block_on(async {
        let mut link = Beating { words: words.into(), beats, allowed: 1, spoke: None };
        let (_stop, mut never) = mpsc::channel(1);
        let begun = Instant::now();
        let ends = ends(Role::Bob);
        let driven = timeout(Duration::from_secs(20), drive(toy, &mut link, &ends, &patience, &mut never, |_, _| {}));
        (driven.await.expect("waited without end"), begun.elapsed())
    })
}

#[test]
fn signs_of_life_without_a_message_are_waited_for_no_longer_than_the_patience() {
    let wait = Duration::from_millis(200);
    let patience = Patience { wait, silence: Duration::from_millis(60), ..hasty() };
    let parts = || std::iter::repeat_with(|| Event::Part).take(3);
    for (what, words) in [
        ("heartbeats alone", vec![]),
        ("one message", vec![word(0)]),
        ("one message, again and again", std::iter::repeat_with(|| word(0)).take(50).collect()),
        ("a message of which parts are missing", parts().collect()),
    ] {
        let (ended, time) = alone(words, true, patience);
        let abort = ended.err().unwrap();
        assert_eq!(abort.exit(), Exit::Unreachable, "{what}: {abort}");
        assert!(abort.to_string().starts_with("bob waited 0 s for the next message of alice"), "{what}: {abort}");
        assert!(time >= wait && time < 50 * wait, "{what}: {time:?}");
    }
}

#[test]
fn a_peer_that_stops_without_a_word_is_waited_for_no_longer_than_the_patience() {
    let wait = Duration::from_secs(1);
    let patience = Patience { wait, silence: Duration::from_secs(10), ..hasty() };
    // That our answer has left is noticed at the end of the wait only, and does not begin it again.
    let (ended, time) = alone(vec![word(0)], false, patience);
    assert_eq!(ended.err().unwrap().exit(), Exit::Unreachable);
    assert!(time >= wait && time < wait * 9 / 5, "{time:?}");
}

#[test]
fn a_peer_that_takes_line_after_line_and_answers_on_none_is_waited_for_no_longer_than_the_patience() {
    let wait = Duration::from_millis(200);
    let patience = Patience { wait, silence: Duration::from_millis(20), ..hasty() };
    let (ended, time) = runtime().block_on(async {
        let (mut dialler, _listener, _) = network(&[]);
        let (_stop, mut never) = mpsc::channel(1);
        let ends = ends(Role::Alice);
        let begun = Instant::now();
        let driven = drive(Toy::new(true, 3), &mut dialler, &ends, &patience, &mut never, |_, _| {});
        (timeout(Duration::from_secs(20), driven).await.expect("waited without end"), begun.elapsed())
    });
    assert_eq!(ended.err().unwrap().exit(), Exit::Unreachable);
    assert!(time >= wait && time < 50 * wait, "{time:?}");
}

#[test]
fn a_peer_that_computes_is_waited_for_longer_and_our_own_work_is_not_its_silence() {
    let wait = Duration::from_millis(200);
    let patience = Patience { wait, silence: Duration::from_millis(60), ..hasty() };
    let more = Duration::from_millis(500);
    for (allowance, works) in [(more, Duration::ZERO), (Duration::ZERO, more)] {
        let toy = Toy { allowance, works, ..Toy::new(false, 2) };
        let (ended, time) = alone_as(toy, vec![word(0)], true, patience);
        assert_eq!(ended.err().unwrap().exit(), Exit::Unreachable);
        assert!(time >= wait + more && time < 50 * wait, "{time:?}");
    }
}

#[test]
fn a_peer_that_falls_silent_is_waited_for_as_long_as_stated_and_not_until_its_line_counts_as_lost() {
    let patience = Patience { wait: Duration::from_millis(150), silence: Duration::from_secs(15), ..hasty() };
    let (ended, time) = alone(vec![word(0)], false, patience);
    assert_eq!(ended.err().unwrap().exit(), Exit::Unreachable);
    assert!(time < Duration::from_secs(5), "{time:?}");
}

#[test]
fn a_peer_that_never_says_goodbye_and_only_beats_does_not_hold_a_result_for_ever() {
    let patience = Patience { wait: Duration::from_millis(200), linger: Duration::from_millis(50), ..hasty() };
    let (ended, time) = alone(vec![word(0), word(2)], true, patience);
    let driven = ended.unwrap();
    assert_eq!(driven.output.len(), 2);
    assert!(time < Duration::from_secs(5), "{time:?}");
}

#[test]
fn a_message_that_comes_in_many_parts_is_new_all_the_time() {
    let mut words: Vec<Event<Word>> = vec![word(0)];
    words.extend((0..20).map(|_| Event::Part));
    words.extend([word(2), Event::Bye]);
    let (ended, _) = alone(words, true, steady());
    assert_eq!(ended.unwrap().output.len(), 2);
}

#[test]
fn a_line_that_breaks_while_both_work_ahead_gives_the_same_bits() {
    // What is not said on a line that was opened again in the middle of the work never is.
    let patience = unhurried();
    let toy = |first| Toy { works: Duration::from_millis(100), ..Toy::new(first, 3) };
    let clean = both(&[], Toy::new(true, 3), Toy::new(false, 3));
    let clean = (words(clean.0).0, words(clean.1).0);
    for end in [0, 1] {
        for fault in [Fault::LoseAndBreak, Fault::BreakBehind, Fault::Twice] {
            let (alice, bob) = both_for(patience, &[(end, 1, fault)], toy(true), toy(false));
            assert_eq!((words(alice).0, words(bob).0), clean, "{end} {fault:?}");
        }
    }
}

/// A session that answers nothing before the dealer has sent something, which takes a while to take in.
struct Served {
    toy: Toy,
    ordered: bool,
    dealt: bool,
    waiting: Option<Word>,
}

impl Session for Served {
    type Inbound = Word;
    type Outbound = Word;
    type Output = Vec<Word>;

    fn start(&mut self) -> Result<Turn<Word, Vec<Word>>, Abort> {
        self.toy.start()
    }

    fn role(&self) -> Role {
        self.toy.role()
    }

    fn receive(&mut self, from: Role, word: Word) -> Result<Turn<Word, Vec<Word>>, Abort> {
        if from == Role::Coordinator {
            std::thread::sleep(Duration::from_millis(100));
            self.dealt = true;
        } else if !self.dealt {
            self.waiting = Some(word);
        } else {
            return self.toy.receive(from, word);
        }
        match self.waiting.take().filter(|_| self.dealt) {
            Some(word) => self.toy.receive(self.toy.role().partner(), word),
            None => Ok(Turn::Wait),
        }
    }

    fn resend(&self) -> Option<Word> {
        self.toy.resend()
    }

    fn position(&self) -> u64 {
        self.toy.position() + u64::from(self.dealt)
    }

    fn awaits(&self) -> Role {
        if self.dealt { self.toy.role().partner() } else { Role::Coordinator }
    }

    fn order(&mut self) -> Option<Order> {
        let shape = Shape { width: Width::Two, bits: 44, rows: 16, left: 1, right: 1 };
        (!std::mem::replace(&mut self.ordered, true)).then_some(Order::Table(shape))
    }
}

/// Bob is served by a dealer; gives what both yield, and how many orders came.
fn served(dealt: Option<Result<Word, Abort>>) -> ([Result<Vec<Word>, Abort>; 2], usize) {
    runtime().block_on(async {
        let (mut dialler, mut listener, _network) = network(&[]);
        let (_a, mut never_a) = mpsc::channel(1);
        let (_b, mut never_b) = mpsc::channel(1);
        let (orders, mut ordered) = mpsc::unbounded_channel();
        let (say, heard) = mpsc::channel(2);
        if let Some(dealt) = dealt {
            say.send(dealt).await.unwrap();
        }
        let session = Served { toy: Toy::new(false, 3), ordered: false, dealt: false, waiting: None };
        let patience = Patience { silence: Duration::from_secs(5), ..hasty() };
        // Bob is the one who gives up.
        let longer = Patience { wait: Duration::from_secs(20), ..patience };
        let (alice_ends, bob_ends) = (ends(Role::Alice), ends(Role::Bob));
        let line = (&mut listener, Some(DealerLine { orders: Orders::Masks(orders), heard }));
        let (alice, bob) = tokio::join!(
            drive(Toy::new(true, 3), &mut dialler, &alice_ends, &longer, &mut never_a, |_, _| {}),
            drive_dealt(session, line, &bob_ends, &patience, &mut never_b, |_, _| {}),
        );
        let mut count = 0;
        while ordered.try_recv().is_ok() {
            count += 1;
        }
        ([alice.map(|driven| driven.output), bob.map(|driven| driven.output)], count)
    })
}

#[test]
fn what_the_peer_says_while_the_dealer_is_heard_is_not_lost() {
    let ([alice, bob], orders) = served(Some(Ok(Word { sequence: 0, stamp: 0 })));
    assert_eq!(orders, 1);
    assert_eq!((alice.unwrap().len(), bob.unwrap().len()), (2, 2));
}

#[test]
fn a_dealer_that_is_lost_ends_the_run_for_both() {
    let lost = Abort::Unreachable("the line to the dealer is lost".to_string());
    let ([alice, bob], _) = served(Some(Err(lost.clone())));
    assert_eq!(bob.unwrap_err(), lost);
    assert_eq!(alice.unwrap_err().exit(), Exit::Unreachable);
}

#[test]
fn a_dealer_that_sends_nothing_is_the_one_who_is_named() {
    let ([_, bob], _) = served(None);
    let sentence = bob.unwrap_err().to_string();
    assert_eq!(sentence, "bob waited 2 s for the next message of coordinator, to whom the line is open");
}
