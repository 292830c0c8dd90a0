//! The leader of several parties, its followers, and the lines between them.

use std::collections::VecDeque;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::pair::Faults;
use crate::id::Role;
use crate::methods::vertical::message::Message;
use crate::methods::vertical::outcome::VerticalFit;
use crate::methods::vertical::session::VerticalSession;
use crate::methods::vertical::several::Hub;
use crate::session::{Abort, Session, Turn};

/// How a simulated fit of several parties went.
#[derive(Debug)]
pub struct EndedSeveral {
    /// At the leader, then at its followers in order; `None` for one that was cut off because another ended the run.
    pub results: Vec<Option<Result<VerticalFit, Abort>>>,
    /// Messages handed to the lines, repeats included.
    pub sent: usize,
}

/// Steps after which a fit that does not end is a bug.
const PATIENCE: usize = 2_000_000;

/// Runs a leader against its followers to the end. On lines on which nothing moves the followers send their last messages again, as the
/// side that dials does.
///
/// `observe` sees every message that is handed to a line, with its receiver.
pub fn run_several(
    hub: &mut Hub,
    followers: &mut [VerticalSession],
    faults: Faults,
    mut observe: impl FnMut(Role, &Message),
) -> EndedSeveral {
    let roles: Vec<Role> = followers.iter().map(Session::role).collect();
    let leader = hub.role();
    let mut rng = ChaCha8Rng::seed_from_u64(faults.seed);
    let (mut up, mut down) = (vec![VecDeque::new(); roles.len()], vec![VecDeque::new(); roles.len()]);
    let mut results: Vec<Option<Result<VerticalFit, Abort>>> = vec![None; roles.len() + 1];
    let mut sent = 0;
    for (at, follower) in followers.iter_mut().enumerate() {
        match follower.start() {
            Ok(Turn::Send(message)) => up[at].push_back(Message::from(message)),
            Ok(_) => {}
            Err(abort) => results[at + 1] = Some(Err(abort)),
        }
    }
    for _ in 0..PATIENCE {
        if results.iter().all(Option::is_some) || results.iter().flatten().any(Result::is_err) {
            break;
        }
        let full: Vec<usize> =
            (0..2 * roles.len()).filter(|at| !if at % 2 == 0 { &up } else { &down }[at / 2].is_empty()).collect();
        if full.is_empty() {
            for (at, follower) in followers.iter().enumerate() {
                if let Some(message) = follower.resend() {
                    sent += 1;
                    faults.put(&mut up[at], Message::from(message), &mut rng);
                }
            }
            continue;
        }
        let line = full[rng.random_range(0..full.len())];
        let at = line / 2;
        if line % 2 == 0 {
            let Some(message) = up[at].pop_front() else { continue };
            match hub.receive(roles[at], message) {
                Err(abort) => results[0] = Some(Err(abort)),
                Ok(says) => {
                    for (to, turn) in says {
                        if let Turn::Send(message) | Turn::FinishAndSend { last: message, .. } = turn {
                            let message = Message::from(message);
                            observe(to, &message);
                            sent += 1;
                            let place = roles.iter().position(|role| *role == to).unwrap_or(0);
                            faults.put(&mut down[place], message, &mut rng);
                        }
                    }
                }
            }
            if let Some(fit) = hub.take_output() {
                results[0] = Some(Ok(fit));
            }
            continue;
        }
        let Some(message) = down[at].pop_front() else { continue };
        let turn = match followers[at].receive(leader, message) {
            Ok(turn) => turn,
            Err(abort) => {
                results[at + 1] = Some(Err(abort));
                continue;
            }
        };
        let message = match turn {
            Turn::Wait => continue,
            Turn::Finish(fit) => {
                results[at + 1] = Some(Ok(fit));
                continue;
            }
            Turn::Send(message) => message,
            Turn::FinishAndSend { output, last } => {
                results[at + 1] = Some(Ok(output));
                last
            }
        };
        let message = Message::from(message);
        observe(leader, &message);
        sent += 1;
        faults.put(&mut up[at], message, &mut rng);
    }
    EndedSeveral { results, sent }
}
