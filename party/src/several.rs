//! The leader of several parties: one hub, and a driver for the line to each follower.
//!
//! Each driver moves the messages of one line, as between two parties. What is said on a line may follow from what came by another
//! one, so a step on a line lasts until the hub has something to say on it.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use fedreg_common::id::Role;
use fedreg_common::methods::vertical::message::Message;
use fedreg_common::methods::vertical::session::Progress;
use fedreg_common::methods::vertical::several::{Centre, Hub, Say};
use fedreg_common::privacy::release::Released;
use fedreg_common::session::{Abort, Order, Session, Turn};
use tokio::sync::mpsc;

use crate::drive::{self, DealerLine, Driven, Orders, Patience};
use crate::line::Line;

type Said<O> = Turn<Released<Message>, Arc<O>>;

/// A centre whose steps may run in any thread.
pub(crate) trait Sent: Centre<Output: Send + Sync + 'static> + Send + 'static {}

impl<C: Centre<Output: Send + Sync + 'static> + Send + 'static> Sent for C {}

/// The line to one follower, as a session that a driver runs.
pub(crate) struct LeaderSession<C: Centre> {
    shared: Arc<Shared<C>>,
    peer: Role,
    /// Kept here, so that nobody waits for a hub that computes to learn of them.
    role: Role,
    sent: Option<Released<Message>>,
    position: u64,
    progress: Progress,
    allowance: Duration,
    over: bool,
}

/// What all lines share.
struct Shared<C: Centre> {
    state: Mutex<State<C>>,
    said: Condvar,
}

struct State<C: Centre> {
    hub: Hub<C>,
    /// To the dealer, where there is one.
    orders: Option<mpsc::UnboundedSender<Order>>,
    /// What is to go out on the lines of which nobody has asked yet.
    waiting: Vec<(Role, VecDeque<Said<C::Output>>)>,
    output: Option<Arc<C::Output>>,
    failed: Option<Abort>,
}

impl<C: Centre> LeaderSession<C> {
    /// A session for the line to the first follower.
    pub(crate) fn new(mut hub: Hub<C>, followers: &[Role]) -> Result<LeaderSession<C>, Abort> {
        let first = followers.first().ok_or_else(|| Abort::Bug("a leader without followers".to_string()))?;
        let (role, progress) = (hub.role(), hub.progress());
        let waiting = followers.iter().map(|peer| (*peer, VecDeque::new())).collect();
        // Of a run that was interrupted, what is kept of it.
        let says = hub.start()?;
        let mut state = State { hub, orders: None, waiting, output: None, failed: None };
        state.queue(says)?;
        let state = Mutex::new(state);
        let shared = Arc::new(Shared { state, said: Condvar::new() });
        Ok(LeaderSession {
            shared,
            peer: *first,
            role,
            sent: None,
            position: 0,
            progress,
            allowance: Duration::ZERO,
            over: false,
        })
    }

    /// Sessions for the lines to the others.
    fn further(&self) -> Vec<LeaderSession<C>> {
        let peers: Vec<Role> = self.shared.state().waiting.iter().map(|(peer, _)| *peer).collect();
        let session = |peer: Role| LeaderSession {
            shared: Arc::clone(&self.shared),
            peer,
            role: self.role,
            sent: None,
            position: 0,
            progress: self.progress.clone(),
            allowance: self.allowance,
            over: false,
        };
        peers.into_iter().filter(|peer| *peer != self.peer).map(session).collect()
    }

    /// What is to be said on this line.
    fn next(&mut self, state: &mut State<C>) -> Option<Said<C::Output>> {
        let turn = state.said_to(self.peer)?;
        self.progress = state.hub.progress();
        self.allowance = state.hub.allowance();
        self.position += 1;
        match &turn {
            Turn::Send(message) | Turn::FinishAndSend { last: message, .. } => {
                self.sent = Some(message.clone());
            }
            Turn::Wait | Turn::Finish(_) => {}
        }
        self.over |= matches!(turn, Turn::FinishAndSend { .. } | Turn::Finish(_));
        Some(turn)
    }

    /// How far the fit was when something was last said on this line.
    pub(crate) fn progress(&self) -> Progress {
        self.progress.clone()
    }
}

impl<C: Centre> Shared<C> {
    fn state(&self) -> MutexGuard<'_, State<C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the run for all lines; the first reason stays.
    fn fail(&self, abort: &Abort) {
        self.state().failed.get_or_insert_with(|| abort.clone());
        self.said.notify_all();
    }
}

impl<C: Centre> State<C> {
    fn said_to(&mut self, peer: Role) -> Option<Said<C::Output>> {
        self.waiting.iter_mut().find(|(role, _)| *role == peer)?.1.pop_front()
    }

    fn take(&mut self, from: Role, message: Message) -> Result<(), Abort> {
        let says = self.hub.receive(from, message)?;
        self.queue(says)
    }

    fn queue(&mut self, says: Vec<Say>) -> Result<(), Abort> {
        while let Some(order) = self.hub.order() {
            let without = || Abort::Bug("a fit without a dealer ordered something".to_string());
            // A line that has ended says why where the dealer is heard.
            self.orders.as_ref().ok_or_else(without)?.send(order).ok();
        }
        if let Some(output) = self.hub.take_output() {
            self.output = Some(Arc::new(output));
        }
        for (role, turn) in says {
            let fit = || self.output.clone().ok_or_else(|| Abort::Bug("a line ended before the fit".to_string()));
            let turn = match turn {
                Turn::Wait => continue,
                Turn::Send(message) => Turn::Send(message),
                Turn::FinishAndSend { output: (), last } => Turn::FinishAndSend { output: fit()?, last },
                Turn::Finish(()) => Turn::Finish(fit()?),
            };
            if let Some((_, turns)) = self.waiting.iter_mut().find(|(other, _)| *other == role) {
                turns.push_back(turn);
            }
        }
        Ok(())
    }
}

impl<C: Centre> Session for LeaderSession<C> {
    type Inbound = Message;
    type Outbound = Released<Message>;
    type Output = Arc<C::Output>;

    fn role(&self) -> Role {
        self.role
    }

    fn start(&mut self) -> Result<Said<C::Output>, Abort> {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.state();
        Ok(self.next(&mut state).unwrap_or(Turn::Wait))
    }

    fn receive(&mut self, from: Role, message: Message) -> Result<Said<C::Output>, Abort> {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.state();
        if let Err(abort) = state.take(from, message) {
            drop(state);
            shared.fail(&abort);
            return Err(abort);
        }
        shared.said.notify_all();
        loop {
            if let Some(turn) = self.next(&mut state) {
                return Ok(turn);
            }
            if let Some(abort) = &state.failed {
                return Err(abort.clone());
            }
            if self.over {
                return Ok(Turn::Wait);
            }
            state = shared.said.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn resend(&self) -> Option<Released<Message>> {
        self.sent.clone()
    }

    fn allowance(&self) -> Duration {
        self.allowance
    }

    fn awaits(&self) -> Role {
        self.peer
    }

    fn position(&self) -> u64 {
        self.position
    }
}

/// Hands the hub what the dealer sends, until the dealer's line ends; for ever where there is none.
async fn deal<C: Sent>(shared: Arc<Shared<C>>, dealer: Option<DealerLine<Message>>) -> Abort {
    let Some(DealerLine { mut heard, .. }) = dealer else { return std::future::pending().await };
    while let Some(message) = heard.recv().await {
        let message = match message {
            Ok(message) => message,
            Err(abort) => return abort,
        };
        let shared = Arc::clone(&shared);
        // The hub may be at work, and works with what comes.
        let taken = tokio::task::spawn_blocking(move || {
            let taken = shared.state().take(Role::Coordinator, message);
            shared.said.notify_all();
            taken
        });
        match taken.await {
            Ok(Ok(())) => {}
            Ok(Err(abort)) => return abort,
            Err(panic) => return Abort::Bug(panic.to_string()),
        }
    }
    std::future::pending().await
}

/// Runs all lines to their end.
///
/// # Errors
/// Why the run ended without a result; every follower has been told whose line was open.
pub(crate) async fn drive<C: Sent>(
    session: LeaderSession<C>,
    (lines, dealer): (&mut [Line], Option<DealerLine<Message>>),
    patience: &Patience,
    stop: &mut mpsc::Receiver<Abort>,
    mut watch: impl FnMut(&LeaderSession<C>, u64),
) -> Result<Driven<LeaderSession<C>>, Abort> {
    let shared = Arc::clone(&session.shared);
    if let Some(DealerLine { orders: Orders::Masks(orders), .. }) = &dealer {
        shared.state().orders = Some(orders.clone());
    }
    let dealing = deal(Arc::clone(&shared), dealer);
    tokio::pin!(dealing);
    let mut is_dealt = true;
    let (stops, mut stopped): (Vec<_>, Vec<_>) = lines.iter().map(|_| mpsc::channel(4)).unzip();
    let further = session.further();
    let mut watch = Some(&mut watch);
    let mut running: Vec<Option<Running<'_, Ended<C>>>> = Vec::new();
    for ((session, line), stopped) in std::iter::once(session).chain(further).zip(lines).zip(&mut stopped) {
        // One line is enough to tell how far the fit is.
        let mut watch = watch.take();
        let show = move |session: &LeaderSession<C>, bytes| {
            if let Some(watch) = &mut watch {
                watch(session, bytes);
            }
        };
        running.push(Some(Box::pin(drive::drive(session, &mut line.link, &line.ends, patience, stopped, show))));
    }
    let (mut ended, mut first): (Option<Driven<LeaderSession<C>>>, Option<Abort>) = (None, None);
    let mut end = |abort: Abort| {
        shared.fail(&abort);
        // A line that has ended hears nothing any more.
        stops.iter().for_each(|stop| drop(stop.try_send(abort.clone())));
        first.get_or_insert(abort);
    };
    while running.iter().any(Option::is_some) {
        let next = tokio::select! {
            biased;
            next = next_of(&mut running) => next,
            abort = drive::stopped(stop) => Err(abort),
            abort = &mut dealing, if is_dealt => {
                is_dealt = false;
                Err(abort)
            }
        };
        match next {
            Ok(driven) => {
                ended = Some(match ended.take() {
                    None => driven,
                    Some(before) => together(before, driven),
                });
            }
            Err(abort) => end(abort),
        }
    }
    match (first, ended) {
        (Some(abort), _) => Err(abort),
        (None, Some(driven)) => Ok(driven),
        (None, None) => Err(Abort::Bug("a leader without followers".to_string())),
    }
}

/// The driver of a line.
type Running<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// How a line ended.
type Ended<C> = Result<Driven<LeaderSession<C>>, Abort>;

/// What the first of some futures gives that ends, which is taken out.
async fn next_of<T>(running: &mut [Option<Running<'_, T>>]) -> T {
    std::future::poll_fn(|context| {
        for slot in running.iter_mut() {
            if let Some(future) = slot
                && let Poll::Ready(value) = future.as_mut().poll(context)
            {
                *slot = None;
                return Poll::Ready(value);
            }
        }
        Poll::Pending
    })
    .await
}

/// How two lines of one fit went, as one.
fn together<C: Centre>(a: Driven<LeaderSession<C>>, b: Driven<LeaderSession<C>>) -> Driven<LeaderSession<C>> {
    Driven {
        // Each line counts what it waited for another one as computing.
        solve: a.solve.min(b.solve),
        exchange: a.exchange.max(b.exchange),
        reopened: a.reopened + b.reopened,
        confirmed: a.confirmed && b.confirmed,
        ended: a.ended.or(b.ended),
        ..a
    }
}
