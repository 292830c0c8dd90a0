//! The dealer of a study whose parties compute on shares: hands out correlated randomness to all parties of a run, and receives public sizes only.
//!
//! It stands beside the register, on the same port, or in a process of its own where the study names a dealer apart from the coordinator.
//! It decides nothing that the register decides: a run is what its parties say it is.
//! Seeds come from the operating system, live as long as the run, and are stored nowhere.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fedreg_common::exit::Exit;
use fedreg_common::id::{Digest, Role, RunId};
use fedreg_common::methods::vertical::message::Dealt;
use fedreg_common::secure::dealing::{Dealing, Portion, Product, Step};
use fedreg_common::secure::product::{Correction, Dealer, SeveralDealer, Shape, Side};
use fedreg_common::secure::ring::Elements;
use fedreg_common::study::{Study, Vertical, VerticalGuarantee};
use fedreg_proto::dealer::{Answer, Caller, Ordered};
use fedreg_proto::link::Notice;
use fedreg_proto::star::Heard;
use rand::TryRngCore;
use rand::rngs::OsRng;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::sleep;

/// Runs that are over and still known, so that a party that comes back to one hears why.
const REMEMBERED: usize = 64;
/// Events of lines that wait to be taken.
const QUEUE: usize = 16;

/// Starts the dealer of a study in which the coordinator deals; it works until nobody can call any more.
pub(crate) fn start(study: &Study<Vertical>) -> Option<mpsc::Sender<Caller>> {
    if !study.is_dealt() || study.head.dealer.is_some() {
        return None;
    }
    let (callers, calls) = mpsc::channel(QUEUE);
    tokio::spawn(DealerService::of(study).run(calls, true, Duration::MAX));
    Some(callers)
}

/// The places of the two sides.
fn place(side: Side) -> usize {
    match side {
        Side::Left => 0,
        Side::Right => 1,
    }
}

/// A party's line.
struct Line {
    /// The party's place in the study.
    place: usize,
    say: mpsc::Sender<Answer>,
    /// From its first order on.
    run: Option<RunId>,
    /// Passes on what the party says. It holds the line open, and ends with it.
    follower: AbortHandle,
}

impl Drop for Line {
    fn drop(&mut self) {
        self.follower.abort();
    }
}

/// A run, from its first order on.
struct Run {
    /// When the run began here, among others.
    number: u64,
    /// The line of each party that has come, by its number; none once that party has left.
    lines: Vec<Option<u64>>,
    came: Vec<bool>,
    /// None once the run is over.
    dealing: Option<Dealing>,
    /// Whether a product is being computed, or is on its way.
    busy: bool,
    /// Ends the computation.
    stop: Arc<AtomicBool>,
    /// Why the run is over.
    over: String,
}

impl Drop for Run {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// What a line brings; nothing when the party has left.
type News = (u64, Option<Heard<Ordered>>);

/// How a computation ended; a reason that is no party's fault.
type Computed = (RunId, Result<(), String>);

/// All parties' lines, and the runs that they are in.
pub(crate) struct DealerService {
    study: Digest,
    /// In order; of two the left side's first.
    parties: Vec<Role>,
    /// Places by the names in certificates.
    certificates: BTreeMap<String, usize>,
    /// Whether a run that is over may be dealt for again, with fresh seeds.
    repeats: bool,
    lines: BTreeMap<u64, Line>,
    runs: BTreeMap<RunId, Run>,
    work: JoinSet<Computed>,
    next: u64,
    /// How the last run ended.
    ended: Option<Exit>,
}

impl DealerService {
    /// The dealer of a study, before anybody came.
    pub(crate) fn of(study: &Study<Vertical>) -> DealerService {
        let parties = study.parties_in_order();
        let certificate = |role: &Role| study.method.parties.get(role).map(|terms| terms.certificate.clone());
        let places = parties.iter().enumerate();
        let certificates = places.filter_map(|(place, role)| Some((certificate(role)?, place))).collect();
        // A sealed run whose masks are lost is over. A private one goes on under its charge, as long as no share was stored that these
        // masks were for; its parties decide that.
        let repeats = match study.guarantee {
            VerticalGuarantee::Plain | VerticalGuarantee::Sealed(_) => false,
            VerticalGuarantee::Private(_) => true,
        };
        DealerService {
            study: study.digest(),
            parties,
            certificates,
            repeats,
            lines: BTreeMap::new(),
            runs: BTreeMap::new(),
            work: JoinSet::new(),
            next: 0,
            ended: None,
        }
    }

    /// Deals until nobody can call any more, or, unless it is to `keep` on, until a run has ended: with which code.
    ///
    /// A run that a party was lost from is begun again by the other one, which is waited for as long as `patience` says.
    pub(crate) async fn run(mut self, mut calls: mpsc::Receiver<Caller>, keep: bool, patience: Duration) -> Exit {
        let (heard, mut hear) = mpsc::channel::<News>(QUEUE);
        loop {
            let waits = match self.ended {
                Some(exit) if !keep && exit != Exit::Unreachable => return exit,
                Some(_) => !keep,
                None => false,
            };
            tokio::select! {
                () = sleep(patience), if waits => return self.ended.unwrap_or(Exit::Unreachable),
                caller = calls.recv() => match caller {
                    Some(caller) => self.open(caller, &heard),
                    None => return self.ended.unwrap_or(Exit::Done),
                },
                Some((line, news)) = hear.recv() => match news {
                    Some(Heard::Message(ordered)) => self.ordered(line, ordered),
                    Some(Heard::Fault(fault)) => self.fault(line, &fault.to_string()),
                    None => self.left(line),
                },
                Some(computed) = self.work.join_next() => self.computed(computed),
            }
        }
    }

    fn open(&mut self, caller: Caller, heard: &mpsc::Sender<News>) {
        let Caller { name, mut hear, say } = caller;
        let Some(place) = self.certificates.get(&name).copied() else {
            tracing::warn!("`{name}` came to the dealer, but has no part in the study");
            let sentence = format!("`{name}` has no part in the study");
            drop(say.try_send(Answer::Notice(Notice { exit: Exit::Refused, sentence })));
            return;
        };
        self.next += 1;
        let number = self.next;
        let (open, heard) = (say.clone(), heard.clone());
        let follower = tokio::spawn(async move {
            while let Some(event) = hear.recv().await {
                if heard.send((number, Some(event))).await.is_err() {
                    return;
                }
            }
            // A party may end its orders and wait for what it has ordered.
            open.closed().await;
            drop(heard.send((number, None)).await);
        });
        // A line on which nothing was ordered yet is one that the party has given up.
        self.lines.retain(|_, line| line.place != place || line.run.is_some());
        self.lines.insert(number, Line { place, say, run: None, follower: follower.abort_handle() });
    }

    fn ordered(&mut self, number: u64, Ordered { study, run, order }: Ordered) {
        let Some(line) = self.lines.get_mut(&number) else { return };
        let (place, before) = (line.place, line.run);
        let who = self.parties[place];
        if study != self.study || before.is_some_and(|before| before != run) {
            let what = if study == self.study { "run" } else { "study" };
            return self.fault(number, &format!("sent an order of another {what}"));
        }
        if before.is_none()
            && let Err(notice) = self.enter(number, place, run)
        {
            tracing::warn!("{who} cannot be dealt for in run {run}: {}", notice.sentence);
            return self.dismiss(number, notice);
        }
        let Some(state) = self.runs.get_mut(&run) else { return };
        let mut others = state.came.iter().zip(&state.lines).zip(&self.parties);
        if let Some((_, other)) = others.find(|((came, line), _)| **came && line.is_none()) {
            return self.end(run, &gone(*other));
        }
        let Some(dealing) = &mut state.dealing else { return };
        match dealing.order(place, order) {
            Ok(()) => self.proceed(run),
            Err(refusal) => self.end(run, &Notice { exit: Exit::Peer, sentence: refusal.to_string() }),
        }
    }

    /// Lets a party into a run, where it has one line, once.
    fn enter(&mut self, number: u64, place: usize, run: RunId) -> Result<(), Notice> {
        let who = self.parties[place];
        // A party takes part in one run at a time: it has given the others up.
        let others: Vec<u64> =
            self.lines.iter().filter(|(at, line)| **at != number && line.place == place).map(|(at, _)| *at).collect();
        let unreachable = |sentence| Err(Notice { exit: Exit::Unreachable, sentence });
        if self.repeats && self.runs.get(&run).is_some_and(|state| state.dealing.is_none() || state.came[place]) {
            // Masks that one of the two has lost open nothing any more: the other one has to begin anew as well.
            self.end(run, &lost_masks(who, &self.parties.clone()));
            self.runs.remove(&run);
        }
        if let Some(state) = self.runs.get_mut(&run) {
            if state.dealing.is_none() {
                return unreachable(format!("run {run} is over: {}", state.over));
            }
            if state.came[place] {
                return unreachable(format!(
                    "the masks of {who} in run {run} are for another line of {who}, and nobody gets masks twice: start the run again"
                ));
            }
        }
        others.into_iter().for_each(|other| self.left(other));
        if !self.runs.contains_key(&run) {
            let seeds = seeds(self.parties.len()).map_err(|sentence| {
                tracing::error!("{sentence}");
                Notice {
                    exit: Exit::Internal,
                    sentence: "internal error at the dealer; the reason is shown there only".to_owned(),
                }
            })?;
            let names = self.parties.iter().map(Role::to_string).collect();
            let state = Run {
                number: self.next,
                lines: vec![None; self.parties.len()],
                came: vec![false; self.parties.len()],
                dealing: Some(Dealing::new(names, seeds, self.study, run)),
                busy: false,
                stop: Arc::default(),
                over: String::new(),
            };
            self.runs.insert(run, state);
            self.ended = None;
            self.forget();
        }
        if let (Some(state), Some(line)) = (self.runs.get_mut(&run), self.lines.get_mut(&number)) {
            (state.lines[place], state.came[place], line.run) = (Some(number), true, Some(run));
        }
        Ok(())
    }

    /// Does what the run's orders have led to, one product after the other.
    fn proceed(&mut self, run: RunId) {
        loop {
            let Some(state) = self.runs.get_mut(&run) else { return };
            if state.busy {
                return;
            }
            let Some(step) = state.dealing.as_mut().and_then(Dealing::step) else { return };
            let say = |number: &Option<u64>| Some(self.lines.get(&(*number)?)?.say.clone());
            let Some(lines) = state.lines.iter().map(say).collect::<Option<Vec<mpsc::Sender<Answer>>>>() else {
                return;
            };
            match step {
                Step::Seed(place, seed) => {
                    // It is the first on its line, whose queue is empty.
                    drop(lines.get(place).map(|say| say.try_send(Answer::Dealt(Dealt::Seed(seed)))));
                }
                Step::Several(shape, dealer) => {
                    let columns = shape.columns();
                    tracing::info!("dealing for tables of {} rows, columns {columns:?}, in run {run}", shape.rows);
                    state.busy = true;
                    let stop = Arc::clone(&state.stop);
                    self.work.spawn(async move { (run, deal_several(dealer, stop, lines).await) });
                }
                Step::Table(Shape { rows, left: a, right: b, .. }, dealer) => {
                    tracing::info!("dealing for a table of {rows} rows, {a} and {b} columns, in run {run}");
                    state.busy = true;
                    let stop = Arc::clone(&state.stop);
                    self.work.spawn(async move { (run, deal(dealer, stop, lines).await) });
                }
                Step::Product(order, product) => {
                    tracing::info!("dealing for {order:?} in run {run}");
                    state.busy = true;
                    let stop = Arc::clone(&state.stop);
                    let silent = Product::silent(&order);
                    let work = move || stream(product, silent, &stop, &lines);
                    self.work.spawn(async move {
                        let done = tokio::task::spawn_blocking(work).await;
                        (run, done.unwrap_or_else(|panic| Err(panic.to_string())))
                    });
                }
            }
        }
    }

    fn computed(&mut self, computed: Result<Computed, JoinError>) {
        let (run, failed) = match computed {
            Ok((run, Ok(_))) => (run, None),
            Ok((run, Err(reason))) => (run, Some(reason)),
            // The task itself only passes on.
            Err(error) => return tracing::error!("a computation of the dealer failed: {error}"),
        };
        if let Some(reason) = failed {
            tracing::error!("the dealer cannot compute in run {run}: {reason}");
            let sentence = "internal error at the dealer; the reason is shown there only".to_owned();
            return self.end(run, &Notice { exit: Exit::Internal, sentence });
        }
        if let Some(state) = self.runs.get_mut(&run) {
            state.busy = false;
            self.proceed(run);
        }
    }

    /// A party broke the protocol: its run ends, or its line where it is in none.
    fn fault(&mut self, number: u64, fault: &str) {
        let Some(line) = self.lines.get(&number) else { return };
        let notice = Notice { exit: Exit::Peer, sentence: format!("{} {fault}", self.parties[line.place]) };
        match line.run {
            Some(run) => self.end(run, &notice),
            None => self.dismiss(number, notice),
        }
    }

    /// A party's line is gone. Its run ends, unless both have all that they ordered.
    fn left(&mut self, number: u64) {
        let Some(line) = self.lines.remove(&number) else { return };
        let (place, Some(run)) = (line.place, line.run) else { return };
        let Some(state) = self.runs.get_mut(&run) else { return };
        state.lines[place] = None;
        let done = !state.busy && state.dealing.as_ref().is_none_or(Dealing::is_done);
        if !done {
            self.end(run, &gone(self.parties[place]));
        } else if state.lines.iter().all(Option::is_none) {
            let all = if self.parties.len() == 2 { "both" } else { "all" };
            state.dealing = None;
            state.over = format!("{all} parties have left the dealer");
            self.ended = Some(Exit::Done);
        }
    }

    /// Ends a run for everybody who is in it.
    fn end(&mut self, run: RunId, notice: &Notice) {
        let Some(state) = self.runs.get_mut(&run) else { return };
        if state.dealing.take().is_none() {
            return;
        }
        tracing::warn!("the dealer ends run {run}: {} ({})", notice.sentence, notice.exit.code());
        state.over.clone_from(&notice.sentence);
        self.ended = Some(notice.exit);
        state.stop.store(true, Ordering::Relaxed);
        for number in std::mem::take(&mut state.lines).into_iter().flatten() {
            self.dismiss(number, notice.clone());
        }
    }

    /// Tells a party why its line ends, and ends it. Where its queue is full it learns of the end only.
    fn dismiss(&mut self, number: u64, notice: Notice) {
        if let Some(line) = self.lines.remove(&number) {
            drop(line.say.try_send(Answer::Notice(notice)));
        }
    }

    /// Forgets the oldest runs that are over. Anyone who came back to one would be dealt fresh seeds, which harms nobody.
    fn forget(&mut self) {
        let mut over: Vec<(u64, RunId)> = self
            .runs
            .iter()
            .filter(|(_, state)| state.dealing.is_none())
            .map(|(run, state)| (state.number, *run))
            .collect();
        over.sort_unstable_by_key(|(number, _)| *number);
        over.truncate(over.len().saturating_sub(REMEMBERED));
        over.iter().for_each(|(_, run)| drop(self.runs.remove(run)));
    }
}

fn gone(who: Role) -> Notice {
    let sentence = format!(
        "the dealer's line to {who} is lost; the run cannot go on without it: start again what has ended of dealer, coordinator and parties"
    );
    Notice { exit: Exit::Unreachable, sentence }
}

fn lost_masks(who: Role, parties: &[Role]) -> Notice {
    let others: Vec<String> = parties.iter().filter(|party| **party != who).map(Role::to_string).collect();
    let all = if parties.len() == 2 { "both" } else { "all" };
    let others = others.join(" and ");
    let sentence = format!(
        "{who} was started again and has lost its masks, which those of {others} belong to; start {others} again, and \
         `coordinator serve` where it has ended: {all} get fresh ones, or say that the run is over, where a share had been made with the old ones"
    );
    Notice { exit: Exit::Unreachable, sentence }
}

fn seeds(parties: usize) -> Result<Vec<[u8; 32]>, String> {
    let mut seeds = vec![[0; 32]; parties];
    for seed in &mut seeds {
        OsRng.try_fill_bytes(seed).map_err(|error| format!("the system gives no randomness: {error}"))?;
    }
    Ok(seeds)
}

/// Computes a product beside everything else, and waits until both parties have taken it.
async fn deal(dealer: Box<Dealer>, stop: Arc<AtomicBool>, lines: Vec<mpsc::Sender<Answer>>) -> Result<(), String> {
    let computed =
        tokio::task::spawn_blocking(move || compute(dealer, &stop)).await.map_err(|panic| panic.to_string())?;
    let Some(Correction(entries)) = computed? else { return Ok(()) };
    let [left, right] = &lines[..] else { return Err("a table of two among several".to_owned()) };
    // Fails when the line is gone, which ends the run.
    drop(right.send(Answer::Dealt(Dealt::Correction(entries))).await);
    drop(left.send(Answer::Computed).await);
    Ok(())
}

/// The same for the tables of several parties: the first one hears of the end only.
async fn deal_several(
    dealer: Box<SeveralDealer>,
    stop: Arc<AtomicBool>,
    lines: Vec<mpsc::Sender<Answer>>,
) -> Result<(), String> {
    let work = move || {
        let mut dealer = dealer;
        while dealer.step() {
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
        }
        dealer.finish().map(Some).map_err(|fault| fault.to_string())
    };
    let computed: Result<Option<Vec<Elements>>, String> =
        tokio::task::spawn_blocking(work).await.map_err(|panic| panic.to_string())?;
    // The parties of a run that has ended were told so, and hear nothing after it.
    let Some(corrections) = computed? else { return Ok(()) };
    for (entries, line) in corrections.into_iter().zip(lines.iter().skip(1)) {
        drop(line.send(Answer::Dealt(Dealt::Correction(entries))).await);
    }
    if let Some(first) = lines.first() {
        drop(first.send(Answer::Computed).await);
    }
    Ok(())
}

/// Computes a product portion by portion, and waits with the next one until the lines have room: whatever the rows are, a few row blocks are
/// in memory.
fn stream(
    mut product: Box<Product>,
    silent: Side,
    stop: &AtomicBool,
    lines: &[mpsc::Sender<Answer>],
) -> Result<(), String> {
    // Fails when the line is gone, which ends the run.
    let say = |side: usize, dealt: Dealt| drop(lines[side].blocking_send(Answer::Dealt(dealt)));
    while let Some(portion) = product.step().map_err(|fault| fault.to_string())? {
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        match portion {
            Portion::Nothing => {}
            Portion::Rows(first, both) => {
                for (side, entries) in both.into_iter().enumerate() {
                    entries.into_iter().for_each(|entries| say(side, Dealt::Rows(first, entries)));
                }
            }
            Portion::Last(entries) => say(1, Dealt::Correction(entries)),
        }
    }
    drop(lines[place(silent)].blocking_send(Answer::Computed));
    Ok(())
}

fn compute(mut dealer: Box<Dealer>, stop: &AtomicBool) -> Result<Option<Correction>, String> {
    while dealer.step() {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
    }
    dealer.finish().map(Some).map_err(|fault| fault.to_string())
}

#[cfg(test)]
mod tests;
