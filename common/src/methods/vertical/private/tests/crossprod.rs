//! Conversations by the mechanism `crossprod`, with a dealer, faults and kills.

use super::*;
use crate::conversation::Content;
use crate::methods::vertical::message::{Dealt, Masked, Share};
use crate::methods::vertical::plan::Side;
use crate::methods::vertical::prepare::Prepared;
use crate::methods::vertical::session::VerticalSession;
use crate::session::Order;
use crate::sim::dealer::{dealer, seeded};

const CROSSPROD: &str = "epsilon = 1.0\nmechanism = \"crossprod\"\n";
const PATH: &str = "[penalty]\nlambda = [1e6, 1.0, 0.0]\nalpha = 0.9\n";
pub(super) const RUN: RunId = RunId([1; 16]);

fn at_alice(more: &str) -> Arc<Study<Vertical>> {
    Arc::new(vertical(&text(more).replace("column = \"y\"\n", "column = \"y\"\nheld_by = \"alice\"\n")))
}

pub(super) type Fits = ([PrivateFit; 2], Vec<(usize, Message)>);

pub(super) fn dealt(parties: &[Party; 2], faults: Faults) -> Fits {
    let mut sent = Vec::new();
    let [mut alice, mut bob] = parties.each_ref().map(|party| party.session(1, 100).unwrap());
    let deal = dealer(&parties[0].study, RUN, |_, _| {});
    let observe = |side, message: &Message| sent.push((side, message.clone()));
    let ended = pair::run_dealt(&mut alice, &mut bob, faults, observe, deal);
    (ended.results.map(|result| result.unwrap().unwrap()), sent)
}

#[test]
fn with_hardly_any_noise_the_fit_is_the_pooled_one_and_both_print_the_same_digits() {
    let more = "epsilon = 1e9\nlarge_epsilon = \"a test of scales\"\nmechanism = \"crossprod\"\n";
    for study in [study(more), at_alice(more)] {
        let ([alice, bob], _) = dealt(&parties(&study, 1e9), Faults::NONE);
        assert_eq!(alice.coefficients, bob.coefficients);
        let values = values();
        let x = DMatrix::from_fn(ROWS, 5, |row, column| if column == 0 { 1.0 } else { values[row][column - 1] });
        let y = DVector::from_fn(ROWS, |row, _| values[row][4]);
        let pooled = x.clone().svd(true, true).solve(&y, 1e-12).unwrap();
        let terms: Vec<&str> = alice.coefficients.iter().map(|row| row.term.as_str()).collect();
        assert_eq!(terms, ["(Intercept)", "a1", "a2", "b1", "kindy"]);
        for (row, expected) in alice.coefficients.iter().zip(pooled.iter()) {
            let estimate = row.estimate.unwrap();
            // Rows are truncated to 15 bits, which moves the intercept by a share of the centres.
            let tolerance = if row.term == INTERCEPT { 0.2 } else { 0.01 * expected.abs().max(1.0) };
            assert!((estimate - expected).abs() < tolerance, "{}: {estimate} {expected}", row.term);
            assert!(row.std_error.is_some() && row.conf_low < row.estimate);
        }
        for fit in [&alice, &bob] {
            assert!(says_why_no_tests(fit, "nothing more would have to leave"), "{:?}", fit.notes);
        }
    }
}

/// What is on the line: who says it, of what kind, how long it is, and statistics as they are. Masks and shares are random.
fn said(sent: &[(usize, Message)]) -> Vec<(usize, &'static str, usize, Vec<u8>)> {
    let mut masked = false;
    let mut of = |(side, message): &(usize, Message)| {
        let (length, value) = match &message.body {
            Body::Masked(Masked { entries, .. }) => {
                masked = true;
                (entries.to_bytes().len(), Vec::new())
            }
            Body::Share(Share { canary, .. }) => (canary.to_bytes().len(), Vec::new()),
            Body::Noised(noised) if masked => (noised.value.encode().len(), Vec::new()),
            Body::Noised(noised) => (0, noised.value.encode()),
            _ => (0, Vec::new()),
        };
        (*side, message.body.kind(), length, value)
    };
    sent.iter().map(&mut of).collect()
}

#[test]
fn a_path_costs_what_one_fit_costs_and_nothing_more_is_said_for_it() {
    for [free, path] in [
        [study(CROSSPROD), study(&format!("{CROSSPROD}{PATH}"))],
        [at_alice(CROSSPROD), at_alice(&format!("{CROSSPROD}{PATH}"))],
    ] {
        let [of_one, of_many] = [&free, &path].map(|study| parties(study, 1.5));
        let ((one, one_said), (many, many_said)) = (dealt(&of_one, Faults::NONE), dealt(&of_many, Faults::NONE));
        assert_eq!(said(&one_said), said(&many_said));
        for at in [0, 1] {
            assert_eq!(of_one[at].sum(), of_many[at].sum());
            assert_eq!(one[at].statement.charge, many[at].statement.charge);
            assert_eq!(charged(&one[at].statement).releases, charged(&many[at].statement).releases);
            assert!(one[at].path.is_none() && one[at].shown_lambda.is_none());
            let points = many[at].path.as_ref().unwrap();
            assert_eq!((points.len(), many[at].shown_lambda), (3, Some(0.0)));
            assert!(
                points.iter().all(|point| point.deviance.is_nan() && point.kkt < 1e-8 && point.coefficients.len() == 5)
            );
            assert_eq!((points[0].df, points[0].lambda), (0, 1e6));
            // At lambda 0 it is the fit without a penalty, of the same tables with the same noise.
            for (free, last) in one[at].coefficients.iter().zip(&many[at].coefficients) {
                let (free, ours) = (free.estimate.unwrap(), last.estimate.unwrap());
                assert!((free - ours).abs() <= 1e-7 * free.abs().max(1.0), "{free} {ours}");
                assert!(last.std_error.is_none() && last.p_value.is_none());
            }
            assert!(many[at].notes.iter().any(|note| note.contains("cost nothing of the budget")));
            assert!(many[at].notes.iter().any(|note| note.contains("no standard errors")));
            assert!(!says_why_no_tests(&many[at], ""));
        }
        assert_eq!(many[0].coefficients, many[1].coefficients);
    }
}

#[test]
fn with_hardly_any_noise_a_path_is_that_of_plain_mode() {
    let more = "epsilon = 1e9\nlarge_epsilon = \"a test of scales\"\nmechanism = \"crossprod\"\n[penalty]\nlambda = \"path\"\nalpha = 0.5\n";
    let study = study(more);
    let ([alice, _], _) = dealt(&parties(&study, 1e9), Faults::NONE);
    let plain = text("").replace("mode = \"private\"\n", "").replace("[privacy]\ndelta = 1e-5\n", "");
    let plain = Arc::new(vertical(&format!("{plain}[penalty]\nlambda = \"path\"\nalpha = 0.5\n")));
    let start = |role| {
        let prepared = Prepared::new(Arc::clone(&plain), role, Policy::default(), frame(role, &[])).unwrap();
        VerticalSession::new(
            prepared,
            Opening {
                first: role == Role::Bob,
                run: RUN,
                seed: [1 + u8::from(role == Role::Bob); 32],
                peer: role.partner(),
            },
        )
    };
    let ended = pair::run(&mut start(Role::Alice), &mut start(Role::Bob), Faults::NONE, |_, _| {});
    let [pooled, of_bob] = ended.results.map(|result| result.unwrap().unwrap());
    let [ours, theirs] = [&alice.path, &pooled.path].map(|path| path.as_ref().unwrap());
    assert_eq!((ours.len(), theirs.len()), (100, 100));
    let size = pooled.coefficients.iter().filter(|row| row.term != INTERCEPT);
    let size = size.filter_map(|row| row.estimate).fold(0.0_f64, |most, estimate| most.max(estimate.abs()));
    for ((ours, theirs), of_bob) in ours.iter().zip(theirs).zip(of_bob.path.as_ref().unwrap()) {
        // Rows are truncated to 15 bits.
        assert!((ours.lambda / theirs.lambda - 1.0).abs() < 1e-3, "{} {}", ours.lambda, theirs.lambda);
        let theirs = theirs.coefficients.iter().chain(&of_bob.coefficients);
        for row in ours.coefficients.iter().filter(|row| row.term != INTERCEPT) {
            let expected = theirs.clone().find(|known| known.term == row.term).unwrap();
            assert_eq!(row.party, expected.party);
            let (ours, expected) = (row.estimate.unwrap(), expected.estimate.unwrap());
            assert!((ours - expected).abs() < 2e-3 * size, "{}: {ours} {expected}", row.term);
        }
    }
}

#[test]
fn a_run_is_charged_once_and_says_what_it_released() {
    for (study, releases) in [(study(CROSSPROD), [3, 3]), (at_alice(CROSSPROD), [3, 2])] {
        let parties = parties(&study, 1.5);
        let plan = study.private_plan(ROWS as u64).unwrap();
        let (fits, sent) = dealt(&parties, Faults::NONE);
        for (at, (fit, party)) in fits.iter().zip(&parties).enumerate() {
            let charge = plan.releases([Side::Alice, Side::Bob][at]).charge();
            assert_eq!(fit.statement.charge, charge);
            assert!((party.sum() - charge).abs() <= 1e-13 * charge);
            assert_eq!(charged(&fit.statement).releases.len(), releases[at]);
            assert_eq!((fit.nobs, fit.rounds), (ROWS as u64, 1));
            let own = sent.iter().filter(|(side, message)| *side == at && noised(message).is_some());
            assert_eq!(own.count(), releases[at], "all that is charged opens to the peer");
        }
    }
}

#[test]
fn nothing_leaves_but_masked_columns_a_canary_and_noised_values() {
    let study = study(CROSSPROD);
    let parties = parties(&study, 1.0);
    let (_, sent) = dealt(&parties, Faults::NONE);
    let (mut masked, mut canaries) = ([0, 0], [0, 0]);
    for (side, message) in &sent {
        match &message.body {
            Body::Masked(Masked { entries, .. }) => masked[*side] += entries.to_bytes().len(),
            Body::Share(Share { table, .. }) => {
                assert!(table.is_none(), "a share of the table without its noise");
                canaries[*side] += 1;
            }
            Body::Noised(noised) => {
                let stored = parties[*side].disk.stored(&format!("sent/{RUN}/{}", noised.index));
                assert_eq!(stored, Some(noised.value.encode()), "what leaves is not what the ledger has");
            }
            Body::Hello(_) | Body::Rows(_) | Body::Shared(_) | Body::Terms(_) | Body::Go => {}
            other => panic!("{}", other.kind()),
        }
    }
    // Three entries of Alice's rows, two of Bob's, and a public column: 8 bytes each.
    assert_eq!((masked, canaries), ([8 * ROWS * 4, 8 * ROWS * 3], [1, 1]));
    // A share without its noise cannot be said by mistake.
    let header = Header { study: study.digest(), run: RUN, sender: Role::Alice, sequence: 8 };
    let raw = crate::secure::ring::Elements::zeros(crate::secure::ring::Width::One, 6);
    let body = Body::Share(Share { canary: raw.slice(0..1), table: Some(raw) });
    assert!(study.disclosures(Role::Alice).release(Message { header, body }).is_err());
}

#[test]
fn a_lossy_line_gives_the_same_bytes_as_a_clean_one() {
    let study = study(CROSSPROD);
    let (clean, said) = dealt(&parties(&study, 1.0), Faults::NONE);
    for seed in 0..10 {
        let faults = Faults { drop: 0.2, duplicate: 0.2, reorder: 0.2, seed };
        let (lossy, again) = dealt(&parties(&study, 1.0), faults);
        assert_eq!(clean, lossy);
        for (side, message) in &again {
            let original = said.iter().find(|(from, m)| from == side && m.header.sequence == message.header.sequence);
            assert_eq!(original.map(|(_, m)| m), Some(message), "a repeat differs");
        }
    }
}

#[test]
fn masks_out_of_step_end_the_run_before_a_share_is_made() {
    let study = study(CROSSPROD);
    for spoilt in [0, 1] {
        let parties = parties(&study, 1.0);
        let mut sent = Vec::new();
        let [mut alice, mut bob] = parties.each_ref().map(|party| party.session(1, 100).unwrap());
        let deal = dealer(&study, RUN, |to, dealt| {
            if let (true, Dealt::Seed(seed)) = (to == spoilt, dealt) {
                seed[0] ^= 1;
            }
        });
        let ended = pair::run_dealt(
            &mut alice,
            &mut bob,
            Faults::NONE,
            |side, message: &Message| sent.push((side, message.clone())),
            deal,
        );
        let abort = ended.results.into_iter().flatten().find_map(Result::err).unwrap();
        assert_eq!(abort.exit(), Exit::Peer);
        assert!(abort.to_string().contains("out of step"), "{abort}");
        assert!(sent.iter().all(|(_, message)| noised(message).is_none_or(|noised| noised.index < 2)));
        assert!(parties.iter().all(|party| party.disk.stored(&format!("sent/{RUN}/2")).is_none()));
    }
}

/// A dealer that deals to each party once, as the real one does.
type Deal<'a> = dyn FnMut(usize, Order) -> Vec<(usize, Message)> + 'a;

pub(super) struct Masks<'a> {
    deal: Box<Deal<'a>>,
    came: [bool; 2],
    /// Whether the process that orders next has not ordered yet.
    started: [bool; 2],
}

impl<'a> Masks<'a> {
    pub(super) fn new(study: &'a Study<Vertical>, seed: u8) -> Masks<'a> {
        let deal = Box::new(seeded(study, RUN, vec![[seed; 32], [seed + 1; 32]], |_, _| {}));
        Masks { deal, came: [false; 2], started: [false; 2] }
    }

    /// What an order brings; a process that takes another one's place gets nothing.
    fn dealt(&mut self, side: usize, order: Order) -> Result<Vec<(usize, Message)>, Stopped> {
        let started = std::mem::replace(&mut self.started[side], false);
        if std::mem::replace(&mut self.came[side], true) && started {
            return Err(Stopped::By(Abort::Unreachable("nobody gets masks twice".to_string())));
        }
        Ok((self.deal)(side, order))
    }
}

/// A process that dies: whose, at which message that comes in, and whether it has taken that in and its answer is lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kill {
    pub(super) side: usize,
    pub(super) at: usize,
    pub(super) taken: bool,
}

#[derive(Debug)]
pub(super) enum Stopped {
    Killed,
    By(Abort),
}

/// Both ends of a line that Bob dials, and a dealer. Sides that are not started anew live on.
pub(super) fn talk(
    sessions: &mut [PrivateSession<Memory>; 2],
    starts: [bool; 2],
    sent: &mut Vec<(usize, Message)>,
    masks: &mut Masks<'_>,
    kill: Option<Kill>,
) -> Result<[PrivateFit; 2], Stopped> {
    let mut lines: [VecDeque<Message>; 3] = Default::default();
    let mut from_dealer: VecDeque<(usize, Message)> = VecDeque::new();
    let mut outputs: [Option<PrivateFit>; 2] = [None, None];
    let mut heard = [0, 0];
    let mut turns: VecDeque<(usize, Turn<Released<Message>, PrivateFit>)> = VecDeque::new();
    for side in [0, 1] {
        masks.started[side] |= starts[side];
        let turn = if starts[side] { sessions[side].start().map_err(Stopped::By)? } else { Turn::Wait };
        turns.push_back((side, turn));
    }
    // On a line that is opened the dialling side says its last message; the other one waits for it.
    let opening = sessions[1].resend();
    for (side, turn) in &mut turns {
        *turn = match (*side, std::mem::replace(turn, Turn::Wait)) {
            (0, Turn::Send(_)) => Turn::Wait,
            (0, Turn::FinishAndSend { output, .. }) => Turn::Finish(output),
            (1, Turn::Wait) => opening.clone().map_or(Turn::Wait, Turn::Send),
            (_, turn) => turn,
        };
    }
    loop {
        for (side, turn) in turns.drain(..) {
            let mut say = |message: Released<Message>| {
                let message: Message = message.into();
                sent.push((side, message.clone()));
                lines[1 - side].push_back(message);
            };
            match turn {
                Turn::Wait => {}
                Turn::Send(message) => say(message),
                Turn::FinishAndSend { output, last } => {
                    outputs[side] = Some(output);
                    say(last);
                }
                Turn::Finish(output) => outputs[side] = Some(output),
            }
        }
        match outputs {
            [Some(alice), Some(bob)] => return Ok([alice, bob]),
            rest => outputs = rest,
        }
        for side in [0, 1] {
            while let Some(order) = sessions[side].order() {
                from_dealer.extend(masks.dealt(side, order)?);
            }
            sessions[side].work().map_err(Stopped::By)?;
        }
        let next = from_dealer.pop_front().map(|(side, message)| (side, Role::Coordinator, message)).or_else(|| {
            let arrived = |side: usize| lines[side].pop_front();
            let mut arrived = [0, 1].map(arrived);
            let side = arrived.iter().position(Option::is_some)?;
            if let Some(other) = arrived[1].take_if(|_| side == 0) {
                lines[1].push_front(other);
            }
            Some((side, [Role::Bob, Role::Alice][side], arrived[side].take()?))
        });
        let Some((side, from, message)) = next else {
            return Err(Stopped::By(Abort::Unreachable("silence".to_string())));
        };
        heard[side] += 1;
        let dies = kill.filter(|kill| kill.side == side && kill.at == heard[side]);
        if dies.is_some_and(|kill| !kill.taken) {
            return Err(Stopped::Killed);
        }
        let turn = sessions[side].receive(from, message).map_err(Stopped::By)?;
        if dies.is_some() {
            return Err(Stopped::Killed);
        }
        turns.push_back((side, turn));
    }
}

/// How runs went on in which a party was killed.
#[derive(Default, Debug)]
pub(super) struct Tally {
    pub(super) alone: u32,
    pub(super) again: u32,
    pub(super) over: u32,
}

/// Why a process ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum Death {
    Kill(Kill),
    /// A step of the storage fails.
    Disk {
        side: usize,
        step: u32,
    },
}

pub(super) fn killed(study: &Arc<Study<Vertical>>, kill: Kill, tally: &mut Tally) -> bool {
    died(study, Death::Kill(kill), tally)
}

/// One death; what died is started again while the other one lives, and both are where that cannot go on.
pub(super) fn died(study: &Arc<Study<Vertical>>, death: Death, tally: &mut Tally) -> bool {
    let parties = parties(study, 1.0);
    let plan = study.private_plan(ROWS as u64).unwrap();
    let mut sent = Vec::new();
    let mut sessions = parties.each_ref().map(|party| party.session(1, 7).unwrap());
    let mut masks = Masks::new(study, 20);
    let (dead, kill) = match death {
        Death::Kill(kill) => (kill.side, Some(kill)),
        Death::Disk { side, .. } => (side, None),
    };
    let fuse = &parties[dead].disk.fuse;
    let all = fuse.get();
    if let Death::Disk { step, .. } = death {
        fuse.set(step);
    }
    let ended = talk(&mut sessions, [true, true], &mut sent, &mut masks, kill);
    fuse.set(all);
    match ended {
        Ok(_) => return false,
        Err(Stopped::Killed) => {}
        Err(Stopped::By(abort)) => assert_eq!(abort.exit(), Exit::CannotWrite, "{death:?}: {abort}"),
    }
    if parties.iter().any(|party| party.sum() == 0.0) {
        // The budget is not reserved at both: what then happens is that of the other mechanism.
        return true;
    }
    let starts = [0, 1].map(|side| side == dead);
    // Fresh noise would be other noise: the seed differs.
    sessions[dead] = parties[dead].session(1, 1_000_000).unwrap();
    let mut ended = talk(&mut sessions, starts, &mut sent, &mut masks, None);
    let mut again = false;
    if let Err(Stopped::By(Abort::Unreachable(_))) = &ended {
        again = true;
        sessions = [0, 1].map(|side| parties[side].session(1, 2_000_000).unwrap());
        ended = talk(&mut sessions, [true, true], &mut sent, &mut Masks::new(study, 40), None);
    }
    let stored = |side: usize| {
        let releases = plan.releases([Side::Alice, Side::Bob][side]).releases();
        let left = |index: &usize| parties[side].disk.stored(&format!("sent/{RUN}/{index}")).is_none();
        (0..releases.len()).filter(left).count()
    };
    match ended {
        Ok([alice, bob]) => {
            assert_eq!(alice.coefficients, bob.coefficients, "{death:?}");
            if again { tally.again += 1 } else { tally.alone += 1 }
        }
        Err(Stopped::By(abort @ Abort::Refused(_))) => {
            assert!(abort.to_string().contains("masks that were lost here"), "{death:?}: {abort}");
            // Alice's share, which comes first, is stored and Bob's is not.
            assert!(stored(0) < stored(1), "{death:?}: a run that could have gone on");
            tally.over += 1;
        }
        Err(other) => panic!("{death:?}: {other:?}"),
    }
    for (side, party) in parties.iter().enumerate() {
        let charge = plan.releases([Side::Alice, Side::Bob][side]).charge();
        assert!((party.sum() - charge).abs() <= 1e-12 * charge, "{death:?}: charged again");
        for (_, message) in sent.iter().filter(|(from, _)| *from == side) {
            let Some(noised) = noised(message) else { continue };
            let stored = party.disk.stored(&format!("sent/{RUN}/{}", noised.index));
            assert_eq!(stored, Some(noised.value.encode()), "{death:?}: what left is not what the ledger has");
        }
    }
    true
}

#[test]
fn a_party_killed_at_any_message_sends_what_it_stored_and_is_charged_once() {
    for study in [study(CROSSPROD), at_alice(CROSSPROD)] {
        let mut tally = Tally::default();
        for side in [0, 1] {
            for taken in [false, true] {
                let mut at = 1;
                while killed(&study, Kill { side, at, taken }, &mut tally) {
                    at += 1;
                }
                assert!(at > 9, "{at}");
            }
        }
        println!("{tally:?}");
        assert!(tally.alone > 8 && tally.again > 6 && tally.over > 0, "{tally:?}");
    }
}

/// The same where the storage fails at any step: a share that was drawn and not stored is drawn afresh, under the charge that stands.
#[test]
fn a_party_whose_ledger_fails_at_any_step_is_charged_once_and_sends_nothing_that_is_not_stored() {
    let study = study(CROSSPROD);
    let mut tally = Tally::default();
    for side in [0, 1] {
        let mut step = 0;
        while died(&study, Death::Disk { side, step }, &mut tally) {
            step += 1;
        }
        assert!(step > 20, "{step}");
    }
    println!("{tally:?}");
    assert!(tally.alone > 4 && tally.again > 4 && tally.over > 0, "{tally:?}");
}
