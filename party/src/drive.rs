//! Moves the messages of a session over a line that may break.
//!
//! The driver owns time: back-off, silence, deadlines. It names no message field and takes no decision of the protocol;
//! what may be sent, and again, is the session's business.
//!
//! A line that was lost is opened again and nothing is computed twice. On every line the dialling side speaks first: on
//! a fresh one with its last message, to which the listening side answers. Whichever of two messages was lost, this one
//! retransmission brings out the answer, and a retransmission never triggers another.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use fedreg_common::exit::Exit;
use fedreg_common::id::Role;
use fedreg_common::session::{Abort, Order, PeerFault, Request, Session, Turn};
pub use fedreg_proto::link::Link;
use fedreg_proto::link::{Complaints, Event, Notice, OpenError};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use self::progress::Progress;
use crate::pace;

mod progress;
#[cfg(test)]
mod tests;

/// A session whose messages a line takes, and whose steps may run in another thread.
pub trait Over<L: Link>:
    Session<Outbound = L::Outbound, Inbound = L::Inbound, Output: Send + 'static> + Send + 'static
{
}

impl<L: Link, S> Over<L> for S where
    S: Session<Outbound = L::Outbound, Inbound = L::Inbound, Output: Send + 'static> + Send + 'static
{
}

/// What a session does beside the line. One type for all of it: a driver is compiled for each kind of session.
enum Doing<M> {
    Start,
    Receive(Role, M),
    Work,
}

/// A session and what it asks for.
type Step<S> = (S, Turn<<S as Session>::Outbound, <S as Session>::Output>);

/// Who talks to whom, for decisions and for sentences.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ends {
    /// Our role.
    pub own: Role,
    /// The other's.
    pub peer: Role,
    /// Where the peer is dialled; `None` when it dials us.
    pub dials: Option<String>,
    /// Where we listen, if we do.
    pub listens: Option<String>,
}

impl Ends {
    fn place(&self) -> String {
        match (&self.dials, &self.listens) {
            (Some(address), _) => format!("at {address}"),
            (None, Some(address)) => format!("to dial {address}"),
            (None, None) => "to dial".to_string(),
        }
    }
}

/// How long the driver waits for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Without anything new from the peer, until the run ends, whatever signs of life it gives; on an open line longer by what the
    /// session allows the peer for its computations.
    pub wait: Duration,
    /// Without any sign of life on an open line, until the line counts as lost.
    pub silence: Duration,
    /// For the peer's goodbye, once our own result is there.
    pub linger: Duration,
    /// Between the first two attempts to dial; doubled after each.
    pub backoff: Duration,
    /// Largest time between attempts.
    pub backoff_limit: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Patience {
            wait: Duration::from_secs(600),
            silence: Duration::from_secs(30),
            linger: Duration::from_secs(10),
            backoff: Duration::from_millis(200),
            backoff_limit: Duration::from_secs(10),
        }
    }
}

/// What a session asks for beside what it says to its peer.
#[derive(Debug)]
pub enum Orders {
    /// Masks, of the dealer.
    Masks(mpsc::UnboundedSender<Order>),
    /// That lists be merged, by the coordinator.
    Lists(mpsc::UnboundedSender<Request>),
}

/// The line to the dealer, of a session that orders something; or to the coordinator that merges lists.
#[derive(Debug)]
pub struct DealerLine<M> {
    /// Orders to the dealer.
    pub orders: Orders,
    /// What the dealer sends; an abort is the last.
    pub heard: mpsc::Receiver<Result<M, Abort>>,
}

/// A session that came to its end.
#[derive(Debug)]
pub struct Driven<S: Session> {
    /// The session.
    pub session: S,
    /// What it yielded.
    pub output: S::Output,
    /// Time spent computing.
    pub solve: Duration,
    /// Time spent sending and waiting.
    pub exchange: Duration,
    /// How often the line was opened again.
    pub reopened: u32,
    /// Whether the peer confirmed that it has our last message.
    pub confirmed: bool,
    /// Who ended the run instead of that, where anybody did.
    pub ended: Option<Abort>,
}

impl<S: Session> Driven<S> {
    /// One that came to its end here, without its line.
    pub(crate) fn alone(session: S, output: S::Output, confirmed: bool) -> Driven<S> {
        Driven { session, output, solve: Duration::ZERO, exchange: Duration::ZERO, reopened: 0, confirmed, ended: None }
    }
}

/// Runs a session to its end.
///
/// `stop` ends the run from outside: the user's interrupt, or an abort that the coordinator relays. `watch` sees the
/// session and the bytes sent after every turn.
///
/// # Errors
/// Why the session ended without a result. The peer has been told where the line was open.
pub async fn drive<S: Over<L>, L: Link>(
    session: S,
    link: &mut L,
    ends: &Ends,
    patience: &Patience,
    stop: &mut mpsc::Receiver<Abort>,
    watch: impl FnMut(&S, u64),
) -> Result<Driven<S>, Abort> {
    drive_dealt(session, (link, None), ends, patience, stop, watch).await
}

/// The same with a line to a dealer beside that to the peer.
///
/// # Errors
/// As [`drive`]; the dealer's line ended before everything came that was ordered.
pub async fn drive_dealt<S: Over<L>, L: Link>(
    session: S,
    (link, dealer): (&mut L, Option<DealerLine<L::Inbound>>),
    ends: &Ends,
    patience: &Patience,
    stop: &mut mpsc::Receiver<Abort>,
    mut watch: impl FnMut(&S, u64),
) -> Result<Driven<S>, Abort> {
    let now = Instant::now();
    let mut driver = Driver {
        link,
        dealer,
        kept: None,
        awaited: ends.peer,
        room: true,
        wait: patience.wait,
        ends,
        patience,
        stop,
        open: false,
        opened: 0,
        may_speak: false,
        unsaid: false,
        goodbye: false,
        heard: now,
        since: now,
        progress: Progress::begun(now),
        computing: false,
        away: None,
        notice: pace::Notice::default(),
        retry: None,
        backoff: patience.backoff,
        complaints: Complaints::default(),
        solve: Duration::ZERO,
        ended: None,
    };
    let ended = driver.run(session, &mut watch).await;
    match ended {
        Ok((session, output, confirmed)) => Ok(Driven {
            session,
            output,
            solve: driver.solve,
            exchange: now.elapsed().saturating_sub(driver.solve),
            reopened: driver.opened.saturating_sub(1),
            confirmed,
            ended: driver.ended,
        }),
        Err(abort) => {
            driver.part(&abort).await;
            Err(abort)
        }
    }
}

/// The notice that tells the others of an abort.
pub fn notice(abort: &Abort, own: Role) -> Notice {
    Notice { exit: abort.exit(), sentence: abort.sentence_for_peer(own) }
}

struct Driver<'a, L: Link> {
    link: &'a mut L,
    dealer: Option<DealerLine<L::Inbound>>,
    /// What the peer says while the session takes in what the dealer sent; none while it answers the peer.
    kept: Option<VecDeque<L::Inbound>>,
    /// Who has to say something before the session can go on.
    awaited: Role,
    /// Whether the session has room for what the dealer sends.
    room: bool,
    /// How long the next message may take on an open line.
    wait: Duration,
    ends: &'a Ends,
    patience: &'a Patience,
    stop: &'a mut mpsc::Receiver<Abort>,
    open: bool,
    opened: u32,
    /// Whether it is our turn to speak on this line: the dialling side speaks first on every line.
    may_speak: bool,
    /// Whether the line was opened again during a step, and nothing was said on it.
    unsaid: bool,
    /// Whether the peer has said that it has all it needs.
    goodbye: bool,
    /// The last sign of life from the peer.
    heard: Instant,
    /// When this line was opened.
    since: Instant,
    progress: Progress,
    /// Whether it is we who are waited for.
    computing: bool,
    /// Since when there is no line.
    away: Option<Instant>,
    notice: pace::Notice,
    retry: Option<Instant>,
    backoff: Duration,
    complaints: Complaints,
    solve: Duration,
    /// Who ended the run when our own result was there.
    ended: Option<Abort>,
}

/// What to look at when nobody comes: the dialling side's address, the listening program, the firewalls between them.
pub(crate) fn check_port(listener: &str, address: &str) -> String {
    let port = port(address);
    format!("check that {listener} runs and is reached at this address, and that no firewall closes port {port}")
}

fn port(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(_, port)| port)
}

/// Messages of the peer that are kept while the session takes in what the dealer sent: one is new, others repeat it.
const KEPT: usize = 4;

/// What a driver hears: an event, or that the line is open.
enum Heard<M> {
    Opened,
    Message(M),
    Dealt(M),
    Bye,
    Nothing,
}

impl<L: Link> Driver<'_, L> {
    async fn run<S: Over<L>>(
        &mut self,
        session: S,
        watch: &mut impl FnMut(&S, u64),
    ) -> Result<(S, S::Output, bool), Abort> {
        let (mut session, mut turn) = self.compute(session, Doing::Start).await?;
        loop {
            self.place_orders(&mut session)?;
            self.progress.moved(session.position());
            watch(&session, self.link.bytes_sent());
            match turn {
                Turn::Wait => {}
                Turn::Send(message) => {
                    self.say(message);
                    if self.dealer.is_some() || session.has_work() {
                        // What comes meanwhile is new, or repeats what came before.
                        self.kept.get_or_insert_default();
                        (session, _) = self.compute(session, Doing::Work).await?;
                        self.place_orders(&mut session)?;
                        // Until now the peer may have waited for us.
                        self.progress.done();
                    }
                }
                Turn::FinishAndSend { output, last } => {
                    self.say(last);
                    let (session, confirmed) = self.drain(session, true).await?;
                    return Ok((session, output, confirmed));
                }
                Turn::Finish(output) => {
                    let (session, confirmed) = self.drain(session, false).await?;
                    return Ok((session, output, confirmed));
                }
            }
            (self.awaited, self.room) = (session.awaits(), session.room());
            self.wait = self.patience.wait.saturating_add(session.allowance());
            let (from, message) = self.next(&session).await?;
            if from != self.ends.peer {
                self.kept.get_or_insert_default();
            }
            (session, turn) = self.compute(session, Doing::Receive(from, message)).await?;
        }
    }

    /// Hands the dealer what the session orders.
    fn place_orders<S: Over<L>>(&mut self, session: &mut S) -> Result<(), Abort> {
        let orders = self.dealer.as_ref().map(|dealer| &dealer.orders);
        while let Some(order) = session.order() {
            let Some(Orders::Masks(orders)) = orders else {
                return Err(Abort::Bug("a session without a dealer ordered something".to_string()));
            };
            // A line that has ended says why where the dealer is heard.
            let _ = orders.send(order);
        }
        while let Some(request) = session.request() {
            let Some(Orders::Lists(requests)) = orders else {
                return Err(Abort::Bug("a session whose lists nobody merges asked for it".to_string()));
            };
            let _ = requests.send(request);
        }
        Ok(())
    }

    /// What cannot be said now is said on the next line: the session keeps its last message.
    fn say(&mut self, message: L::Outbound) {
        self.unsaid = false;
        if self.open && self.may_speak {
            self.link.send(message);
        }
    }

    /// On a line that was opened again, the last message once more if it is our turn.
    fn say_again<S: Over<L>>(&mut self, session: &S) {
        if let Some(last) = session.resend().filter(|_| self.may_speak) {
            self.link.send(last);
        }
    }

    /// The next message and who sent it, on this line or on one opened for it.
    async fn next<S: Over<L>>(&mut self, session: &S) -> Result<(Role, L::Inbound), Abort> {
        if std::mem::take(&mut self.unsaid) {
            self.say_again(session);
        }
        if let Some(message) = self.kept.as_mut().and_then(VecDeque::pop_front) {
            return Ok((self.ends.peer, message));
        }
        self.kept = None;
        loop {
            match self.event().await? {
                Heard::Opened => self.say_again(session),
                Heard::Nothing => {}
                Heard::Message(message) => return Ok((self.ends.peer, message)),
                Heard::Dealt(message) => return Ok((Role::Coordinator, message)),
                Heard::Bye => {
                    return Err(Abort::Peer {
                        peer: self.ends.peer,
                        fault: PeerFault::Kind { came: "a goodbye", expected: "a message" },
                    });
                }
            }
        }
    }

    /// Runs a step of the session beside the line, which is kept open meanwhile.
    ///
    /// A message that comes while we compute an answer to the peer can only repeat the one that we are answering, so it is dropped:
    /// the answer under way is the answer to the repeat too. While the session takes in what the dealer sent, the peer may say
    /// something new, which is kept.
    async fn compute<S: Over<L>>(&mut self, mut session: S, doing: Doing<L::Inbound>) -> Result<Step<S>, Abort> {
        let begun = Instant::now();
        self.computing = true;
        let mut task = tokio::task::spawn_blocking(move || {
            let turn = match doing {
                Doing::Start => session.start(),
                Doing::Receive(from, message) => session.receive(from, message),
                Doing::Work => session.work().map(|()| Turn::Wait),
            };
            (session, turn)
        });
        loop {
            // The first opening belongs to `next`, which knows what to say on it.
            let listening = self.opened > 0 && !self.goodbye;
            tokio::select! {
                biased;
                done = &mut task => {
                    self.solve += begun.elapsed();
                    self.computing = false;
                    return match done {
                        Ok((session, turn)) => Ok((session, turn?)),
                        Err(panic) => Err(Abort::Bug(describe_panic(panic))),
                    };
                }
                heard = self.meanwhile(listening) => match heard? {
                    Heard::Message(message) => match self.kept.as_mut().filter(|kept| kept.len() < KEPT) {
                        Some(kept) => kept.push_back(message),
                        None => tracing::debug!("{} repeated a message that is being answered", self.ends.peer),
                    },
                    Heard::Bye => self.goodbye = true,
                    // What the step yields is said first on this line; where it yields nothing, the last message.
                    Heard::Opened => self.unsaid = true,
                    // The dealer is not heard meanwhile.
                    Heard::Nothing | Heard::Dealt(_) => {}
                },
            }
        }
    }

    async fn meanwhile(&mut self, listening: bool) -> Result<Heard<L::Inbound>, Abort> {
        match listening {
            true => self.event().await,
            false => Err(stopped(self.stop).await),
        }
    }

    /// Stays until the peer has said goodbye: returning at once could take our last message with it.
    async fn drain<S: Over<L>>(&mut self, mut session: S, mut pending: bool) -> Result<(S, bool), Abort> {
        self.heard = Instant::now();
        self.dealer = None;
        self.progress.done();
        let mut said = self.open && (self.may_speak || !pending);
        if said {
            self.link.bye();
        }
        while !self.goodbye {
            let left = self.patience.linger.saturating_sub(self.heard.elapsed());
            let heard = match timeout(left, self.event()).await {
                _ if left.is_zero() => Err(Abort::Unreachable("no goodbye".to_string())),
                Ok(heard) => heard,
                Err(_) => continue,
            };
            match heard {
                Ok(Heard::Opened) => {
                    said = !pending || self.may_speak;
                    if pending {
                        self.say_again(&session);
                    }
                    if said {
                        self.link.bye();
                    }
                }
                Ok(Heard::Message(message)) => {
                    let peer = self.ends.peer;
                    let turn;
                    (session, turn) = self.compute(session, Doing::Receive(peer, message)).await?;
                    if let Turn::Send(again) | Turn::FinishAndSend { last: again, .. } = turn {
                        self.link.send(again);
                        said = false;
                    }
                    if !said {
                        self.link.bye();
                        said = true;
                    }
                }
                Ok(Heard::Bye) => {
                    (self.goodbye, pending) = (true, false);
                    if !said {
                        self.link.bye();
                    }
                }
                Ok(Heard::Nothing | Heard::Dealt(_)) => {}
                Err(Abort::Unreachable(reason)) => {
                    self.unconfirmed(&reason);
                    break;
                }
                // The other one has ended for a reason of its own: that takes nothing from what we have.
                Err(Abort::Remote {
                    from,
                    exit: exit @ (Exit::CannotWrite | Exit::Interrupted | Exit::Unreachable),
                    sentence,
                }) => {
                    self.unconfirmed(&sentence);
                    self.ended = Some(Abort::Remote { from, exit, sentence });
                    break;
                }
                Err(abort) => return Err(abort),
            }
        }
        if self.open {
            let _ = timeout(self.patience.linger, self.link.close()).await;
        }
        Ok((session, self.goodbye || !pending))
    }

    fn unconfirmed(&self, reason: &str) {
        tracing::warn!("{} did not confirm the last message ({reason}); our own result is complete", self.ends.peer);
    }

    /// The next thing that happens on the line, which is opened where it is not. Cancel safe.
    async fn event(&mut self) -> Result<Heard<L::Inbound>, Abort> {
        if !self.open {
            return self.reopen().await;
        }
        self.progress.sent(self.link.bytes_sent(), self.link.sent_at());
        let left = match self.computing {
            true => Duration::MAX,
            false => self.wait.saturating_sub(self.progress.at.elapsed()),
        };
        let quiet = self.patience.silence.saturating_sub(self.heard.max(self.since).elapsed()).min(left);
        let event = tokio::select! {
            biased;
            abort = stopped(self.stop) => return Err(abort),
            // While the session computes, what the dealer sends waits.
            dealt = dealt(&mut self.dealer), if !self.computing && self.room => return Ok(Heard::Dealt(dealt?)),
            event = timeout(quiet, self.link.recv()) => event,
        };
        if let Ok(Event::Message(_) | Event::Alive | Event::Part | Event::Bye) = &event {
            self.heard = Instant::now();
            self.backoff = self.patience.backoff;
        }
        let lost = match event {
            Ok(Event::Message(message)) => {
                self.may_speak = true;
                return Ok(Heard::Message(message));
            }
            Ok(Event::Alive) => return Ok(Heard::Nothing),
            Ok(Event::Part) => {
                self.progress.part();
                return Ok(Heard::Nothing);
            }
            Ok(Event::Bye) => return Ok(Heard::Bye),
            Ok(Event::Abort(notice)) => {
                return Err(Abort::Remote { from: self.ends.peer, exit: notice.exit, sentence: notice.sentence });
            }
            Ok(Event::Fault(fault)) => {
                return Err(Abort::Peer { peer: self.ends.peer, fault });
            }
            Ok(Event::Lost(reason)) => reason,
            Err(_) if quiet == left => {
                self.progress.sent(self.link.bytes_sent(), self.link.sent_at());
                if self.progress.at.elapsed() < self.wait {
                    return Ok(Heard::Nothing);
                }
                let (own, awaited) = (self.ends.own, self.awaited);
                let seconds = self.wait.as_secs_f64().round();
                // Lines to a coordinator that merges lists are opened again elsewhere, and may be lost.
                let merges = self.dealer.as_ref().is_some_and(|line| matches!(line.orders, Orders::Lists(_)));
                let open = if merges && awaited != self.ends.peer { "" } else { ", to whom the line is open" };
                // Of several parties one may have died that this one has no line to.
                let perhaps = match awaited {
                    Role::Party(_) => "; that party may itself be waiting for another one",
                    Role::Alice | Role::Bob | Role::Coordinator | Role::Worker => "",
                };
                let sentence = format!("{own} waited {seconds} s for the next message of {awaited}{open}{perhaps}");
                return Err(Abort::Unreachable(sentence));
            }
            Err(_) => format!("nothing heard for {} s", self.patience.silence.as_secs_f64().round()),
        };
        tracing::warn!("the line to {} is lost: {lost}; opening it again", self.ends.peer);
        self.open = false;
        self.may_speak = false;
        self.progress.lost(self.heard);
        Ok(Heard::Nothing)
    }

    async fn reopen(&mut self) -> Result<Heard<L::Inbound>, Abort> {
        let mut reason = None;
        let away = *self.away.get_or_insert_with(Instant::now);
        loop {
            let since = if self.computing { self.heard } else { self.progress.at };
            let left = self.patience.wait.saturating_sub(since.elapsed());
            let told = self.notice.due_in(away.elapsed());
            let pause = self.retry.map(|retry| retry.saturating_duration_since(Instant::now()));
            let attempt = async {
                if let Some(pause) = pause {
                    sleep(pause).await;
                }
                self.link.open().await
            };
            let opened = tokio::select! {
                biased;
                abort = stopped(self.stop) => return Err(abort),
                opened = timeout(left, attempt) => opened,
                () = pace::due(told) => {
                    if self.notice.is_due(away.elapsed(), away.elapsed() + left) {
                        self.say_who_is_awaited(left, reason.as_ref());
                    }
                    continue;
                }
            };
            match opened {
                Ok(Ok(())) => {
                    self.open = true;
                    self.progress.opened(self.opened == 0);
                    self.opened += 1;
                    (self.away, self.notice) = (None, pace::Notice::default());
                    self.since = Instant::now();
                    self.may_speak = self.ends.dials.is_some();
                    // A line that opens and breaks at once must not be opened without pause either.
                    self.pause();
                    tracing::info!(
                        "the line to {} is {}",
                        self.ends.peer,
                        if self.opened > 1 { "open again" } else { "open" }
                    );
                    return Ok(Heard::Opened);
                }
                // In the middle of a run even this is worth a wait: a network in between may lead us to another program, and a
                // run that ends has spent its budget for nothing.
                Ok(Err(OpenError::Refused(sentence))) if self.opened == 0 => return Err(Abort::Refused(sentence)),
                Ok(Err(error)) => {
                    self.complaints.note(&error);
                    reason = Some(error);
                    self.pause();
                }
                Err(_) => return Err(self.never_came(reason)),
            }
        }
    }

    fn say_who_is_awaited(&self, left: Duration, reason: Option<&OpenError>) {
        let (peer, place, seconds) = (self.ends.peer, self.ends.place(), left.as_secs());
        let why = reason.map_or_else(String::new, |reason| format!(" ({reason})"));
        let interrupt = match self.opened {
            0 => "is safe: nothing was sent yet",
            _ => "ends the run for all",
        };
        tracing::info!("waiting for {peer} {place}{why}; {seconds} s left; Ctrl-C {interrupt}");
    }

    fn pause(&mut self) {
        if self.ends.dials.is_some() {
            self.retry = Some(Instant::now() + self.backoff);
            self.backoff = (self.backoff * 2).min(self.patience.backoff_limit);
        }
    }

    fn never_came(&self, reason: Option<OpenError>) -> Abort {
        let Ends { own, peer, .. } = self.ends;
        let seconds = self.patience.wait.as_secs_f64().round();
        let place = self.ends.place();
        let hint = match (&self.ends.dials, &self.ends.listens) {
            (Some(address), _) => format!("{own} dials {peer}: {}", check_port(peer.name(), address)),
            (None, Some(address)) => format!(
                "{peer} dials {own}: check that {peer} was started and dials an address that leads here, and that no firewall \
                 closes port {}",
                port(address)
            ),
            (None, None) => format!("{peer} dials {own}"),
        };
        let waited = format!("{own} waited {seconds} s for {peer} {place}");
        match reason {
            Some(reason) => reason.in_vain(&waited, &hint),
            None => Abort::Unreachable(format!("{waited}; {hint}")),
        }
    }

    /// Ends the run towards the peer, unless it was the peer who ended it, or the coordinator.
    async fn part(&mut self, abort: &Abort) {
        if !self.open {
            return;
        }
        // Who ended it knows; whom the coordinator told of it has told the peer too.
        let known = [self.ends.peer, Role::Coordinator];
        if !matches!(abort, Abort::Remote { from, .. } if known.contains(from)) {
            self.link.abort(notice(abort, self.ends.own));
        }
        // Not `linger`: a user who interrupts wants to go, and the coordinator relays the reason as well.
        let _ = timeout(self.patience.linger.min(Duration::from_secs(2)), self.link.close()).await;
    }
}

/// The next reason to stop; never, when nobody can give one any more.
pub(crate) async fn stopped(stop: &mut mpsc::Receiver<Abort>) -> Abort {
    match stop.recv().await {
        Some(abort) => abort,
        None => std::future::pending().await,
    }
}

/// What the dealer sends next; never, where there is none or no more comes.
async fn dealt<M>(dealer: &mut Option<DealerLine<M>>) -> Result<M, Abort> {
    match dealer {
        None => std::future::pending().await,
        Some(line) => match line.heard.recv().await {
            Some(dealt) => dealt,
            None => std::future::pending().await,
        },
    }
}

fn describe_panic(error: tokio::task::JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else { return "a step of the session was cancelled".to_string() };
    let text = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a step of the session failed without a word").to_string()
}
