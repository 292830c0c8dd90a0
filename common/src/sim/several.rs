//! The leader of several parties, its followers, and the lines between them.

use std::collections::VecDeque;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::pair::Faults;
use crate::id::Role;
use crate::methods::vertical::message::Message;
use crate::methods::vertical::several::{Centre, Hub, Say};
use crate::privacy::release::Released;
use crate::session::{Abort, Order, Session, Turn};

/// How a simulated run of several parties went.
#[derive(Debug)]
pub struct EndedSeveral<O> {
    /// At the leader, then at its followers in order; `None` for one that was cut off because another ended the run.
    pub results: Vec<Option<Result<O, Abort>>>,
    /// Messages handed to the lines, repeats included.
    pub sent: usize,
}

/// A session of another party than the leader.
pub trait Follower<O>: Session<Inbound = Message, Outbound = Released<Message>, Output = O> {}

impl<O, S: Session<Inbound = Message, Outbound = Released<Message>, Output = O>> Follower<O> for S {}

/// Steps after which a run that does not end is a bug.
const PATIENCE: usize = 2_000_000;

/// Runs a leader against its followers to the end. On lines on which nothing moves the followers send their last messages again, as the
/// side that dials does.
///
/// `observe` sees every message that is handed to a line, with its receiver.
pub fn run_several<C, S>(
    hub: &mut Hub<C>,
    followers: &mut [S],
    faults: Faults,
    observe: impl FnMut(Role, &Message),
) -> EndedSeveral<C::Output>
where
    C: Centre,
    S: Session<Inbound = Message, Outbound = Released<Message>, Output = C::Output>,
{
    run_several_dealt(hub, followers, faults, observe, |_, _| Vec::new())
}

/// The same with a dealer: `deal` is given every order with the place of the party that it came from, and says what goes to which.
pub fn run_several_dealt<C, S>(
    hub: &mut Hub<C>,
    followers: &mut [S],
    faults: Faults,
    observe: impl FnMut(Role, &Message),
    mut deal: impl FnMut(usize, Order) -> Vec<(usize, Message)>,
) -> EndedSeveral<C::Output>
where
    C: Centre,
    S: Session<Inbound = Message, Outbound = Released<Message>, Output = C::Output>,
{
    let empty = || followers.iter().map(|_| VecDeque::new()).collect();
    let mut network = Network {
        faults,
        rng: ChaCha8Rng::seed_from_u64(faults.seed),
        up: empty(),
        down: empty(),
        results: (0..=followers.len()).map(|_| None).collect(),
        sent: 0,
        observe,
        leader: hub.role(),
        roles: followers.iter().map(Session::role).collect(),
    };
    let mut dealt: VecDeque<(usize, Message)> = VecDeque::new();
    let says = hub.start();
    network.hub_said(says);
    for (at, follower) in followers.iter_mut().enumerate() {
        let turn = follower.start();
        network.follower_said(at, turn);
    }
    for _ in 0..PATIENCE {
        let results = &network.results;
        if results.iter().all(Option::is_some) || results.iter().flatten().any(Result::is_err) {
            break;
        }
        while let Some(order) = hub.order() {
            dealt.extend(deal(0, order));
        }
        for (at, follower) in followers.iter_mut().enumerate() {
            while let Some(order) = follower.order() {
                dealt.extend(deal(at + 1, order));
            }
            if let Err(abort) = follower.work() {
                network.results[at + 1] = Some(Err(abort));
            }
        }
        if let Some((place, message)) = network.next_dealt(&mut dealt) {
            if place == 0 {
                let says = hub.receive(Role::Coordinator, message);
                network.hub_said(says);
            } else {
                let turn = followers[place - 1].receive(Role::Coordinator, message);
                network.follower_said(place - 1, turn);
            }
            continue;
        }
        match network.next() {
            None => {
                for (at, follower) in followers.iter().enumerate() {
                    network.say(at, follower.resend().map(Message::from));
                }
            }
            Some((at, true, message)) => {
                let says = hub.receive(network.roles[at], message);
                network.hub_said(says);
            }
            Some((at, false, message)) => {
                let turn = followers[at].receive(network.leader, message);
                network.follower_said(at, turn);
            }
        }
        if let Some(fit) = hub.take_output() {
            network.results[0] = Some(Ok(fit));
        }
    }
    EndedSeveral { results: network.results, sent: network.sent }
}

/// The lines between the leader and its followers, and what has come of the run.
struct Network<F, O> {
    faults: Faults,
    rng: ChaCha8Rng,
    up: Vec<VecDeque<Message>>,
    down: Vec<VecDeque<Message>>,
    results: Vec<Option<Result<O, Abort>>>,
    sent: usize,
    observe: F,
    leader: Role,
    roles: Vec<Role>,
}

impl<F: FnMut(Role, &Message), O> Network<F, O> {
    /// What the dealer sent comes now or later, in its order.
    fn next_dealt(&mut self, dealt: &mut VecDeque<(usize, Message)>) -> Option<(usize, Message)> {
        let idle = self.up.iter().chain(&self.down).all(VecDeque::is_empty);
        (!dealt.is_empty() && (idle || self.rng.random_bool(0.5))).then(|| dealt.pop_front()).flatten()
    }

    /// A message of some line that has one: the follower's place, whether it goes to the leader, the message.
    fn next(&mut self) -> Option<(usize, bool, Message)> {
        let places = (0..self.roles.len()).flat_map(|at| [(at, true), (at, false)]);
        let full: Vec<(usize, bool)> =
            places.filter(|(at, up)| !if *up { &self.up } else { &self.down }[*at].is_empty()).collect();
        if full.is_empty() {
            return None;
        }
        let (at, up) = full[self.rng.random_range(0..full.len())];
        let line = if up { &mut self.up[at] } else { &mut self.down[at] };
        line.pop_front().map(|message| (at, up, message))
    }

    /// Puts what a follower says on its line.
    fn say(&mut self, at: usize, message: Option<Message>) {
        let Some(message) = message else { return };
        (self.observe)(self.leader, &message);
        self.sent += 1;
        self.faults.put(&mut self.up[at], message, &mut self.rng);
    }

    fn follower_said(&mut self, at: usize, turn: Result<Turn<Released<Message>, O>, Abort>) {
        match turn {
            Ok(Turn::Wait) => {}
            Ok(Turn::Send(message)) => self.say(at, Some(message.into())),
            Ok(Turn::Finish(fit)) => self.results[at + 1] = Some(Ok(fit)),
            Ok(Turn::FinishAndSend { output, last }) => {
                self.results[at + 1] = Some(Ok(output));
                self.say(at, Some(last.into()));
            }
            Err(abort) => self.results[at + 1] = Some(Err(abort)),
        }
    }

    fn hub_said(&mut self, says: Result<Vec<Say>, Abort>) {
        let says = match says {
            Ok(says) => says,
            Err(abort) => return self.results[0] = Some(Err(abort)),
        };
        for (to, turn) in says {
            let (Turn::Send(message) | Turn::FinishAndSend { last: message, .. }) = turn else { continue };
            let Some(at) = self.roles.iter().position(|role| *role == to) else { continue };
            let message = Message::from(message);
            (self.observe)(to, &message);
            self.sent += 1;
            self.faults.put(&mut self.down[at], message, &mut self.rng);
        }
    }
}

/// Runs a leader against its followers with a dealer, where `spoil` sees what one says to another: it may change the message, and have a
/// further one follow it. Says by whom the run was ended, and why; none where nobody has ended it.
///
/// # Panics
/// A follower does not speak first.
pub fn run_spoiled<C, S>(
    hub: &mut Hub<C>,
    followers: &mut [S],
    mut deal: impl FnMut(usize, Order) -> Vec<(usize, Message)>,
    mut spoil: impl FnMut(Role, Role, &mut Message) -> Option<Message>,
) -> Option<(Role, Abort)>
where
    C: Centre,
    S: Session<Inbound = Message, Outbound = Released<Message>, Output = C::Output>,
{
    let leader = hub.role();
    let parties: Vec<Role> = std::iter::once(leader).chain(followers.iter().map(Session::role)).collect();
    let mut waiting: VecDeque<(Role, Role, Message)> = VecDeque::new();
    for follower in followers.iter_mut() {
        let Ok(Turn::Send(message)) = follower.start() else { panic!("a follower speaks first") };
        waiting.push_back((follower.role(), leader, message.into()));
    }
    loop {
        let mut orders: Vec<(usize, Order)> = std::iter::from_fn(|| hub.order()).map(|order| (0, order)).collect();
        for (at, follower) in followers.iter_mut().enumerate() {
            orders.extend(std::iter::from_fn(|| follower.order()).map(|order| (at + 1, order)));
        }
        for (at, order) in orders {
            let dealt = deal(at, order).into_iter();
            waiting.extend(dealt.map(|(to, message)| (Role::Coordinator, parties[to], message)));
        }
        let (from, to, mut message) = waiting.pop_front()?;
        if let Some(more) = spoil(from, to, &mut message) {
            waiting.push_front((from, to, more));
        }
        let Some(follower) = followers.iter_mut().find(|follower| follower.role() == to) else {
            match hub.receive(from, message) {
                Err(abort) => return Some((to, abort)),
                Ok(says) => waiting.extend(says.into_iter().filter_map(|(peer, turn)| match turn {
                    Turn::Send(message) | Turn::FinishAndSend { last: message, .. } => Some((to, peer, message.into())),
                    Turn::Wait | Turn::Finish(()) => None,
                })),
            }
            continue;
        };
        match follower.receive(from, message) {
            Err(abort) => return Some((to, abort)),
            Ok(Turn::Send(answer) | Turn::FinishAndSend { last: answer, .. }) => {
                waiting.push_back((to, leader, answer.into()));
            }
            Ok(Turn::Wait | Turn::Finish(_)) => {}
        }
    }
}
