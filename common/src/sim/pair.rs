//! Two sessions and the line between them, with a dealer where they order something.

use std::collections::VecDeque;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::id::Role;
use crate::session::{Abort, Order, Request, Session, Turn};

/// What a line does to messages, each with its probability.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Faults {
    /// The message is lost.
    pub drop: f64,
    /// It arrives twice.
    pub duplicate: f64,
    /// It arrives behind the next one.
    pub reorder: f64,
    /// Seed of the line's luck.
    pub seed: u64,
}

impl Faults {
    /// A line without faults.
    pub const NONE: Faults = Faults { drop: 0.0, duplicate: 0.0, reorder: 0.0, seed: 0 };

    /// Puts a message on a line, or what luck makes of it.
    pub(crate) fn put<M: Clone>(&self, line: &mut VecDeque<M>, message: M, rng: &mut ChaCha8Rng) {
        if rng.random_bool(self.drop) {
            return;
        }
        if rng.random_bool(self.duplicate) {
            line.push_back(message.clone());
        }
        if rng.random_bool(self.reorder) && !line.is_empty() {
            line.insert(line.len() - 1, message);
        } else {
            line.push_back(message);
        }
    }
}

/// How a simulated conversation went.
#[derive(Debug)]
pub struct Ended<O> {
    /// The result of each side; `None` for one that was cut off because the other ended the run.
    pub results: [Option<Result<O, Abort>>; 2],
    /// Messages handed to the line, repeats included.
    pub sent: usize,
}

/// Steps after which a conversation that does not end is a bug.
const PATIENCE: usize = 2_000_000;

/// Runs two sessions against each other to their end. A side that hears nothing sends its last message again, as a
/// driver does when a line was lost.
///
/// `observe` sees every message that is handed to the line, with the side that sent it.
pub fn run<A, B, M, O>(first: &mut A, second: &mut B, faults: Faults, observe: impl FnMut(usize, &M)) -> Ended<O>
where
    A: Session<Inbound = M, Output = O>,
    B: Session<Inbound = M, Output = O>,
    M: Clone,
{
    run_dealt(first, second, faults, observe, |_, _| Vec::new())
}

/// What a session does between two messages: it orders from the dealer, and works ahead.
fn between<S: Session>(
    session: &mut S,
    side: usize,
    dealt: &mut VecDeque<(usize, S::Inbound)>,
    deal: &mut impl FnMut(usize, Order) -> Vec<(usize, S::Inbound)>,
    merge: &mut impl FnMut(usize, Request) -> Vec<(usize, S::Inbound)>,
) -> Result<(), Abort> {
    while let Some(order) = session.order() {
        dealt.extend(deal(side, order));
    }
    while let Some(request) = session.request() {
        dealt.extend(merge(side, request));
    }
    session.work()
}

/// The same with a dealer. `deal` is given every order with the side that it came from, and says what goes to which side. The dealer's
/// lines lose nothing: in a sealed run one that breaks ends the run.
pub fn run_dealt<A, B, M, O>(
    first: &mut A,
    second: &mut B,
    faults: Faults,
    observe: impl FnMut(usize, &M),
    deal: impl FnMut(usize, Order) -> Vec<(usize, M)>,
) -> Ended<O>
where
    A: Session<Inbound = M, Output = O>,
    B: Session<Inbound = M, Output = O>,
    M: Clone,
{
    run_beside(first, second, faults, observe, deal, |_, _| Vec::new())
}

/// The same with a coordinator that merges lists: `merge` is to it what `deal` is to a dealer.
pub fn run_merged<A, B, M, O>(
    first: &mut A,
    second: &mut B,
    faults: Faults,
    observe: impl FnMut(usize, &M),
    merge: impl FnMut(usize, Request) -> Vec<(usize, M)>,
) -> Ended<O>
where
    A: Session<Inbound = M, Output = O>,
    B: Session<Inbound = M, Output = O>,
    M: Clone,
{
    run_beside(first, second, faults, observe, |_, _| Vec::new(), merge)
}

fn run_beside<A, B, M, O>(
    first: &mut A,
    second: &mut B,
    faults: Faults,
    mut observe: impl FnMut(usize, &M),
    mut deal: impl FnMut(usize, Order) -> Vec<(usize, M)>,
    mut merge: impl FnMut(usize, Request) -> Vec<(usize, M)>,
) -> Ended<O>
where
    A: Session<Inbound = M, Output = O>,
    B: Session<Inbound = M, Output = O>,
    M: Clone,
{
    let roles = [first.role(), second.role()];
    let mut dealt: VecDeque<(usize, M)> = VecDeque::new();
    let mut rng = ChaCha8Rng::seed_from_u64(faults.seed);
    let mut lines: [VecDeque<M>; 2] = [VecDeque::new(), VecDeque::new()];
    let (mut results, mut sent): ([Option<Result<O, Abort>>; 2], usize) = ([None, None], 0);
    let mut put = |lines: &mut [VecDeque<M>; 2], from: usize, message: M, rng: &mut ChaCha8Rng| {
        observe(from, &message);
        sent += 1;
        faults.put(&mut lines[1 - from], message, rng);
    };
    macro_rules! settle {
        ($side:expr, $turn:expr) => {
            match $turn {
                Ok(Turn::Wait) => {}
                Ok(Turn::Send(message)) => put(&mut lines, $side, message.into(), &mut rng),
                Ok(Turn::FinishAndSend { output, last }) => {
                    results[$side] = Some(Ok(output));
                    put(&mut lines, $side, last.into(), &mut rng);
                }
                Ok(Turn::Finish(output)) => results[$side] = Some(Ok(output)),
                Err(abort) => results[$side] = Some(Err(abort)),
            }
        };
    }
    settle!(0, first.start());
    settle!(1, second.start());
    for _ in 0..PATIENCE {
        if results.iter().all(Option::is_some) || results.iter().flatten().any(Result::is_err) {
            break;
        }
        let worked = [
            between(first, 0, &mut dealt, &mut deal, &mut merge),
            between(second, 1, &mut dealt, &mut deal, &mut merge),
        ];
        if let Some((side, abort)) = worked.into_iter().enumerate().find_map(|(side, ended)| Some((side, ended.err()?)))
        {
            results[side] = Some(Err(abort));
            continue;
        }
        // What the dealer sends comes now or later, in its order, to a side that has room.
        let next = dealt.iter().position(|(side, _)| [first.room(), second.room()][*side]);
        let from_dealer = next.is_some() && (lines.iter().all(VecDeque::is_empty) || rng.random_bool(0.5));
        let arrived = match from_dealer {
            true => next.and_then(|at| dealt.remove(at)).map(|(side, message)| (side, Role::Coordinator, message)),
            false => [0, 1]
                .into_iter()
                .find_map(|side| lines[side].pop_front().map(|message| (side, roles[1 - side], message))),
        };
        match arrived {
            Some((0, from, message)) => settle!(0, first.receive(from, message)),
            Some((_, from, message)) => settle!(1, second.receive(from, message)),
            // Silence: a side that waits sends its last message again; a finished one only answers.
            None => {
                for side in [0, 1] {
                    if results[side].is_none() {
                        let again: Option<M> =
                            if side == 0 { first.resend().map(Into::into) } else { second.resend().map(Into::into) };
                        if let Some(message) = again {
                            put(&mut lines, side, message, &mut rng);
                        }
                    }
                }
            }
        }
    }
    Ended { results: ended(results), sent }
}

/// What became of both sides; a bug where nothing became of either.
fn ended<O>(results: [Option<Result<O, Abort>>; 2]) -> [Option<Result<O, Abort>>; 2] {
    match results.iter().all(Option::is_none) {
        true => [0, 1].map(|_| Some(Err(Abort::Bug("the conversation does not end".to_string())))),
        false => results,
    }
}
