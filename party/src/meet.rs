//! What every joint run has in common: meeting the other party, moving the session's messages, telling how it ended.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::{Duration, Instant};

use fedreg_common::conversation::{Conversation, Opening, Script};
use fedreg_common::exit::Exit;
use fedreg_common::id::{Digest, Role, RunId};
use fedreg_common::methods::vertical::message::{Body, Message};
use fedreg_common::methods::vertical::session::Progress;
use fedreg_common::privacy::release::Declaration;
use fedreg_common::privacy::release::Released;
use fedreg_common::report::{Disclosure, PerParty, Report, Seconds, VERSION};
use fedreg_common::session::{Abort, Session};
use fedreg_proto::coordinator;
use fedreg_proto::dealer;
use fedreg_proto::limits::Limits;
use fedreg_proto::link::{Complaints, OpenError};
use fedreg_proto::merge::{self, Place};
use fedreg_proto::register::{CoordinatorEvent, PartyEvent, PeerState};
use fedreg_proto::tls::Identity;
use rand::TryRngCore;
use rand::rngs::OsRng;
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::alignment;
use crate::convene::{Convener, Joining};
use crate::drive::{self, DealerLine, Driven, Link, Orders, Patience};
use crate::failure::Failure;
use crate::job::Job;
use crate::line::{self, Line};
use crate::memory;
use crate::output::{self, chain};
use crate::pace::{Notice, Pace, due, left};
use crate::several::{self, LeaderSession, Sent};
use crate::store::{Entry, Store};

/// How long the keeper of the line to the coordinator has to give its own reason first.
const GRACE: Duration = Duration::from_secs(1);
/// How long a party tries to open its line to the dealer at most where that is the coordinator, which was there already: all others are
/// in the run and wait.
const DEALER_PATIENCE: Duration = Duration::from_secs(10);

/// A session that is run over its line, or at the leader of several parties over those to all others.
pub(crate) trait Meets:
    Session<Inbound = Message, Outbound = Released<Message>, Output: Send> + Send + Sized + 'static
{
    /// Runs the session to its end.
    ///
    /// # Errors
    /// Why there is no result.
    async fn drive(
        session: Self,
        lines: (&mut [Line], Option<DealerLine<Message>>),
        patience: &Patience,
        stop: &mut mpsc::Receiver<Abort>,
        watch: impl FnMut(&Self, u64),
    ) -> Result<Driven<Self>, Abort>;
}

impl<S: Script<Body = Body, Output: Send> + Send + 'static> Meets for Conversation<S> {
    async fn drive(
        session: Self,
        (lines, dealer): (&mut [Line], Option<DealerLine<Message>>),
        patience: &Patience,
        stop: &mut mpsc::Receiver<Abort>,
        watch: impl FnMut(&Self, u64),
    ) -> Result<Driven<Self>, Abort> {
        let [Line { link, ends }] = lines else {
            return Err(Abort::Bug("a run between two has more lines than one".to_string()));
        };
        drive::drive_dealt(session, (link, dealer), ends, patience, stop, watch).await
    }
}

impl<C: Sent> Meets for LeaderSession<C> {
    async fn drive(
        session: Self,
        lines: (&mut [Line], Option<DealerLine<Message>>),
        patience: &Patience,
        stop: &mut mpsc::Receiver<Abort>,
        watch: impl FnMut(&Self, u64),
    ) -> Result<Driven<Self>, Abort> {
        several::drive(session, lines, patience, stop, watch).await
    }
}

/// A kind of joint run.
pub(crate) trait Work: Clone + Send + 'static {
    /// What is read before the run.
    type Table: Send + 'static;
    /// What is run.
    type Session: Meets;
    /// What comes of it.
    type Yield;

    /// Its name in the log of runs.
    const COMMAND: &'static str;

    /// Whether the coordinator may know how many bytes have left: not where that says how many rows take part.
    const TELLS_BYTES: bool = true;

    /// Whether the table is read before anybody is contacted: where it must not be seen from outside that it cannot be used, a party
    /// with such a table looks like one that never came.
    const READS_FIRST: bool = false;

    /// Whether a dealer hands out masks for it.
    fn is_dealt(&self, _job: &Job) -> bool {
        false
    }

    /// Whether the coordinator merges lists for it.
    fn is_merged(&self, _job: &Job) -> bool {
        false
    }

    /// Reads the table; runs beside everything else.
    ///
    /// # Errors
    /// It cannot be used.
    fn read(&self, job: &Job) -> Result<Self::Table, Failure>;

    /// Rows of the table.
    fn rows(table: &Self::Table) -> u64;

    /// A run that was interrupted here and can be taken up again.
    fn interrupted(&self, _job: &Job) -> Option<RunId> {
        None
    }

    /// The session over the table.
    fn session(&self, job: &Job, table: Self::Table, opening: Opening) -> Result<Self::Session, Failure>;

    /// Whether another run is begun at once where one has ended like this: the coordinator waits for this party then.
    fn begins_again(&self, _failure: &Failure) -> bool {
        false
    }

    /// What is to be done when a run ends without a result, in good order. `nobodys`: this party came with the run, and the other one,
    /// which was there, is in none or in another.
    fn given_up(&self, _job: &Job, _run: RunId, _failure: &Failure, _nobodys: bool) {}

    /// What of a run that was interrupted is kept here if nothing is missing for the result, and whether the other party has all of it
    /// for certain.
    ///
    /// # Errors
    /// What is kept cannot be read.
    fn kept(&self, _session: Self::Session) -> Result<Option<Driven<Self::Session>>, Failure> {
        Ok(None)
    }

    /// How far the session is, where that is worth a line.
    fn progress(session: &Self::Session) -> Option<Progress>;

    /// What is to be kept of a session that came to its end, written where it belongs, and the code for the shell.
    fn finish(&self, job: &Job, met: Met<Self::Session>) -> Result<(Self::Yield, Exit), Failure>;
}

/// A run that came to its end.
pub(crate) struct Met<S: Session> {
    /// The session with its output.
    pub(crate) driven: Driven<S>,
    /// The run.
    pub(crate) run: RunId,
    /// Where the time went.
    pub(crate) seconds: Seconds,
    /// Bytes of messages that left.
    pub(crate) bytes_sent: u64,
    /// Whether the other one is not in this run any more, with which this party came.
    pub(crate) nobodys: bool,
}

impl<S: Session> Met<S> {
    /// What the reports of all kinds of fit have in common; what a fit yields is not in it yet.
    pub(crate) fn report(&self, job: &Job) -> Report {
        let Job { role, study, .. } = job;
        let mut notes = Vec::new();
        if self.driven.reopened > 0 {
            let times = match self.driven.reopened {
                1 => "once".to_string(),
                count => format!("{count} times"),
            };
            let peers = study.peers(*role).iter().map(Role::to_string).collect::<Vec<_>>().join(" or ");
            notes.push(format!("the line to {peers} was lost and opened again {times}"));
        }
        notes.extend(alignment::unprotected(job.party()));
        Report {
            protocol: study.protocol(),
            mode: study.mode(),
            study: study.head.id.clone(),
            study_digest: study.digest().to_string(),
            run: self.run.to_string(),
            date: Some(output::date()),
            version: VERSION.to_string(),
            role: Some(*role),
            parties: if study.leader().is_some() { study.parties_in_order() } else { Vec::new() },
            call: job.call.clone(),
            family: study.method.stated_family(),
            link: study.method.family.link().to_string(),
            outcome: study.method.outcome.column.clone(),
            tol: f64::NAN,
            notes,
            bytes_sent: PerParty::Own(self.bytes_sent),
            peak_rss_bytes: PerParty::Own(output::peak_rss_bytes()),
            in_files: memory::in_files().map(PerParty::Own),
            seconds: PerParty::Own(self.seconds),
            disclosure: PerParty::Own(membership(job)),
            matching: alignment::report(job.party()).map(PerParty::Own),
            ..Report::default()
        }
    }
}

/// What a match let leave, of a study with one; what the fit lets leave comes to it.
fn membership(job: &Job) -> Disclosure {
    let declared = job.study.head.matching.iter().map(|_| Declaration::Membership.name().to_string());
    Disclosure { declared: declared.collect(), ..Disclosure::default() }
}

/// Takes part in a joint run to its end.
///
/// # Errors
/// Why there is no result; the others have been told.
pub(crate) async fn meet<W: Work>(
    work: &W,
    job: &Job,
    stop: mpsc::Sender<Abort>,
    stopped: &mut mpsc::Receiver<Abort>,
) -> Result<(W::Yield, Exit), Failure> {
    let Job { role, config, study, .. } = job;
    let identity = job.party().identity()?;
    let store = Store::open(&config.state)?;
    let early = match W::READS_FIRST {
        false => None,
        true => match read_table(work, job, stopped).await {
            // Reading a table cannot be told from what stands in it: a bug that shows there is not told either.
            Err(failure) if failure.is_of_data() || failure.exit() == Exit::Internal => {
                if let Some(run) = failure.ends().and_then(|run| run.parse().ok()) {
                    work.given_up(job, run, &failure, false);
                }
                let ended = Err(failure);
                store.note(&Entry::now(W::COMMAND, *role, study, None, &ended));
                return ended;
            }
            read => Some(read),
        },
    };
    let run = work.interrupted(job);
    if let Some(run) = run {
        if let Some(kept) = settled(work, job, run, stopped).await? {
            tracing::info!("all of run {run} is kept here, and only its results were not written: nobody is contacted");
            return end_alone(work, job, (run, false), kept, &store);
        }
        tracing::info!("run {run} was interrupted here; taking it up again");
    }
    let mut lines = line::open(job, &identity).await?;
    let convener = convene(job, identity, run, stop)?;
    let mut meeting = Meeting { job, convener, run, came_with: run.is_some(), peers: BTreeMap::new() };
    let result = meeting.hold(work, early, &mut lines, stopped).await;
    meeting.tell(work, &result);
    memory::tell(job.config.memory, &job.config.state);
    let nobodys = match &result {
        Err(Failure::Abort(abort)) => meeting.is_nobodys(abort),
        _ => false,
    };
    let begun = meeting.run;
    meeting.convener.leave().await;
    let bytes_sent = bytes_sent(&lines);
    store.note(&Entry { bytes_sent, ..Entry::now(W::COMMAND, *role, study, begun, &result) });
    // The other may have come to its end in the process that was interrupted: then it will not come again, and nothing is missing.
    if let (Some(run), Err(failure)) = (run, &result)
        && !matches!(failure, Failure::Abort(Abort::Interrupted(_)))
        && let Ok(Some(kept)) = alone(work, job, run, stopped).await
    {
        let kept = Driven { confirmed: kept.confirmed || !failure.passes(), ..kept };
        tracing::warn!("{}; all of run {run} is kept here, so this is its result all the same", chain(failure));
        return end_alone(work, job, (run, nobodys), kept, &store);
    }
    // Only now, as what is kept of a run may be thrown away with it.
    if let (Some(run), Err(failure)) = (begun, &result) {
        work.given_up(job, run, failure, nobodys);
    }
    result
}

/// Joins the coordinator, and keeps joining.
fn convene(
    Job { role, config, study, patience, .. }: &Job,
    identity: Identity,
    run: Option<RunId>,
    stop: mpsc::Sender<Abort>,
) -> Result<Convener, Failure> {
    let (address, name) = (config.coordinator.clone(), study.head.coordinator.certificate.clone());
    let (patience, instance) = (*patience, drawn()?);
    let joining = Joining { role: *role, keys: study.key_digests(), address: address.clone(), patience, run, instance };
    let dial = move || {
        let (address, identity, name) = (address.clone(), identity.clone(), name.clone());
        async move { coordinator::join(&address, &identity, &name).await }
    };
    Ok(Convener::start(joining, dial, stop))
}

/// An interrupted run of which all is kept here that either party needs.
async fn settled<W: Work>(
    work: &W,
    job: &Job,
    run: RunId,
    stopped: &mut mpsc::Receiver<Abort>,
) -> Result<Option<Driven<W::Session>>, Failure> {
    match alone(work, job, run, stopped).await {
        Err(failure) if failure.exit() == Exit::Interrupted => Err(failure),
        Err(failure) => {
            tracing::debug!("what is kept of run {run} is no result: {}", chain(&failure));
            Ok(None)
        }
        Ok(kept) => Ok(kept.filter(|kept| kept.confirmed)),
    }
}

/// An interrupted run, as far as it can be told without the other party.
async fn alone<W: Work>(
    work: &W,
    job: &Job,
    run: RunId,
    stopped: &mut mpsc::Receiver<Abort>,
) -> Result<Option<Driven<W::Session>>, Failure> {
    let (table, _) = read_table(work, job, stopped).await?;
    let peer = job.study.peer(job.role);
    let opening = Opening { first: job.config.connect.is_some(), run, seed: seed(job.seed, job.role)?, peer };
    work.kept(work.session(job, table, opening)?)
}

fn end_alone<W: Work>(
    work: &W,
    job: &Job,
    (run, nobodys): (RunId, bool),
    driven: Driven<W::Session>,
    store: &Store,
) -> Result<(W::Yield, Exit), Failure> {
    let met = Met { driven, run, seconds: Seconds::default(), bytes_sent: 0, nobodys };
    let ended = work.finish(job, met);
    store.note(&Entry::now(W::COMMAND, job.role, &job.study, Some(run), &ended));
    ended
}

/// Reads the table, and says how long that took.
async fn read_table<W: Work>(
    work: &W,
    job: &Job,
    stopped: &mut mpsc::Receiver<Abort>,
) -> Result<(W::Table, Duration), Failure> {
    tracing::info!("reading {}", job.config.source());
    let reading = Instant::now();
    let task = {
        let (work, job) = (work.clone(), job.clone());
        tokio::task::spawn_blocking(move || work.read(&job))
    };
    let table = match unless(stopped, async { Ok(task.await) }).await? {
        Ok(table) => table?,
        Err(panic) => return Err(Abort::Bug(format!("reading failed: {panic}")).into()),
    };
    let read = reading.elapsed();
    tracing::info!("read {} rows in {:.2} s", W::rows(&table), read.as_secs_f64());
    memory::tell(job.config.memory, &job.config.state);
    memory::table_is_read();
    Ok((table, read))
}

/// Bytes of messages that left by all lines.
fn bytes_sent(lines: &[Line]) -> u64 {
    lines.iter().map(|line| line.link.bytes_sent()).sum()
}

struct Meeting<'a> {
    job: &'a Job,
    convener: Convener,
    run: Option<RunId>,
    /// Whether this party came with the run.
    came_with: bool,
    /// How far each of the others is, of whom there was news.
    peers: BTreeMap<Role, PeerState>,
}

impl Meeting<'_> {
    async fn hold<W: Work>(
        &mut self,
        work: &W,
        early: Option<Result<(W::Table, Duration), Failure>>,
        lines: &mut [Line],
        stopped: &mut mpsc::Receiver<Abort>,
    ) -> Result<(W::Yield, Exit), Failure> {
        let Job { role, config, .. } = self.job;
        let role = *role;
        // The coordinator compares the studies, in plain mode before any data are touched.
        unless(stopped, self.welcome()).await?;
        let (table, read) = match early {
            Some(early) => early?,
            None => read_table(work, self.job, stopped).await?,
        };
        let rows = W::rows(&table);
        self.convener.say(PartyEvent::Ready);
        let run = match self.run {
            Some(run) => run,
            None => unless(stopped, self.start()).await?,
        };
        self.run = Some(run);
        let begun = Instant::now();
        lines.iter_mut().for_each(|line| line.link.set_limits(Limits::for_rows(rows)));
        let peer = self.job.study.peer(role);
        let opening = Opening { first: config.connect.is_some(), run, seed: seed(self.job.seed, role)?, peer };
        let session = work.session(self.job, table, opening)?;
        let mut pace = Pace::new(self.job.progress, role);
        let convener = &self.convener;
        let watch = |session: &W::Session, bytes| {
            if let Some(event) = W::progress(session).and_then(|progress| pace.show(&progress, bytes)) {
                convener.say(if W::TELLS_BYTES { event } else { event.without_bytes() });
            }
        };
        let dealer = match (work.is_dealt(self.job), work.is_merged(self.job)) {
            (false, false) => None,
            (true, _) => Some(unless(stopped, self.dealer(run)).await?),
            (false, true) => Some(self.merger(run)?),
        };
        let driven = W::Session::drive(session, (lines, dealer), &self.job.patience, stopped, watch).await;
        pace.clear();
        let driven = driven?;
        let seconds = Seconds {
            read: read.as_secs_f64(),
            solve: driven.solve.as_secs_f64(),
            exchange: driven.exchange.as_secs_f64(),
            // Counted from the start of the run, which is when both have read: the other's reading is not our time.
            total: (read + begun.elapsed()).as_secs_f64(),
        };
        let bytes_sent = bytes_sent(lines);
        let nobodys = driven.ended.as_ref().is_some_and(|abort| self.is_nobodys(abort));
        let met = Met { driven, run, seconds, bytes_sent, nobodys };
        work.finish(self.job, met)
    }

    /// Opens the line to the dealer, who is the coordinator unless the study names another.
    async fn dealer(&self, run: RunId) -> Result<DealerLine<Message>, Failure> {
        let party = self.job.party();
        let (address, name) = party.dealer()?;
        let Patience { wait, backoff, backoff_limit, .. } = self.job.patience;
        // A dealer apart from the coordinator may be started last.
        let apart = self.job.study.head.dealer.is_some();
        let (begun, wait) = (Instant::now(), if apart { wait } else { wait.min(DEALER_PATIENCE) });
        let mut pause = backoff;
        let mut complaints = Complaints::default();
        let identity = party.identity()?;
        // Nothing is ordered before the line is open: another attempt deals nothing twice.
        let dealing = loop {
            let error = match dealer::open(address, &identity, name, self.job.study.digest(), run).await {
                Ok(dealing) => break dealing,
                Err(error) => error,
            };
            if matches!(error, OpenError::Refused(_)) || begun.elapsed() + pause >= wait {
                let waited = format!("the dealer at {address} is needed for the run");
                let all = if self.job.study.is_of_several() { "all" } else { "both" };
                let first = if apart {
                    "start it with `coordinator deal`, and the coordinator if it has ended; then "
                } else {
                    ""
                };
                return Err(error.in_vain(&waited, &format!("{first}start {all} parties again")).into());
            }
            complaints.note(&error);
            sleep(pause).await;
            pause = (pause * 2).min(backoff_limit);
        };
        Ok(DealerLine { orders: Orders::Masks(dealing.orders), heard: dealing.heard })
    }

    /// Opens the line to the coordinator as the one that merges lists.
    fn merger(&self, run: RunId) -> Result<DealerLine<Message>, Failure> {
        let Job { config, study, .. } = self.job;
        let merging = merge::open(Place {
            address: config.coordinator.clone(),
            coordinator: study.head.coordinator.certificate.clone(),
            identity: self.job.party().identity()?,
            study: study.digest(),
            run,
        });
        Ok(DealerLine { orders: Orders::Lists(merging.requests), heard: merging.heard })
    }

    /// Tells the coordinator how the run ended.
    fn tell<W: Work>(&self, work: &W, result: &Result<(W::Yield, Exit), Failure>) {
        let failure = match result {
            Ok((_, exit)) => return self.convener.say(PartyEvent::Done(*exit)),
            Err(failure) => failure,
        };
        if work.begins_again(failure) {
            return;
        }
        match failure.notice(self.job.role) {
            // Where a word would be about the data, we look like a party that was killed.
            Some(_) if W::READS_FIRST && failure.is_of_data() => {}
            Some(notice) => self.convener.say(PartyEvent::Abort(notice)),
            None => self.convener.say(PartyEvent::Done(failure.exit())),
        }
    }

    /// Whether the coordinator ended a run with which this party came because the other one is in none, or in another. Where it gave up on a
    /// line that was lost, there was news of the other one before.
    fn is_nobodys(&mut self, ended: &Abort) -> bool {
        let Abort::Remote { from: Role::Coordinator, exit: Exit::Unreachable, .. } = ended else { return false };
        while let Some(event) = self.convener.heard() {
            self.notice_peer(&event);
        }
        self.came_with && self.awaited().1 == PeerState::Absent
    }

    async fn welcome(&mut self) -> Result<(), Failure> {
        // The keeper of the line ends it where nobody can be reached, and says why; this is for one that answers and says nothing.
        let wait = self.job.patience.wait;
        let until = tokio::time::sleep(wait + GRACE);
        tokio::pin!(until);
        loop {
            let heard = tokio::select! {
                heard = self.convener.hear() => heard,
                () = &mut until => {
                    let (role, address) = (self.job.role, &self.job.config.coordinator);
                    let seconds = wait.as_secs_f64().round();
                    let sentence = format!("{role} waited {seconds} s for a word of the coordinator at {address}");
                    return Err(Abort::Unreachable(sentence).into());
                }
            };
            match heard {
                Some(CoordinatorEvent::Welcome { .. }) => return Ok(()),
                Some(other) => {
                    self.notice_peer(&other);
                }
                // The keeper left a reason in `stop`, which wins this race.
                None => std::future::pending().await,
            }
        }
    }

    /// Waits for the run to start: for the other party to come, and as long again for each step that it takes.
    async fn start(&mut self) -> Result<RunId, Failure> {
        let wait = self.job.patience.wait;
        let role = self.job.role;
        let mut since = Instant::now();
        let mut notice = Notice::default();
        loop {
            let address = &self.job.config.coordinator;
            let (peer, state) = self.awaited();
            let (what, late) = match state {
                PeerState::Joined => (
                    "to read its data",
                    format!("who has joined at the coordinator at {address} and not read its data yet"),
                ),
                PeerState::Ready => {
                    ("and the start of the run", format!("but the coordinator at {address} did not start the run"))
                }
                PeerState::Absent | PeerState::Lost | PeerState::Done => {
                    ("to join", format!("who did not join at the coordinator at {address}"))
                }
            };
            let heard = tokio::select! {
                heard = self.convener.hear() => heard,
                () = tokio::time::sleep(wait.saturating_sub(since.elapsed())) => {
                    let seconds = wait.as_secs_f64().round();
                    return Err(Abort::Unreachable(format!(
                        "{role} waited {seconds} s for {peer}, {late}; check that {peer} was started, follows the same study and dials \
                         the same coordinator"
                    ))
                    .into());
                }
                () = due(notice.due_in(since.elapsed())) => {
                    let waited = since.elapsed();
                    if notice.is_due(waited, wait) {
                        tracing::info!(
                            "waiting for {peer} {what} (coordinator at {address}); {} s left; Ctrl-C is safe: nothing was sent yet",
                            left(waited, wait)
                        );
                    }
                    continue;
                }
            };
            match heard {
                Some(CoordinatorEvent::Start { run }) => return Ok(run),
                Some(other) => {
                    if self.notice_peer(&other) {
                        since = Instant::now();
                        notice = Notice::default();
                    }
                }
                None => std::future::pending().await,
            }
        }
    }

    /// Whether there is news of the other party.
    fn notice_peer(&mut self, event: &CoordinatorEvent) -> bool {
        let CoordinatorEvent::Peer { role, state } = event else { return false };
        if !self.job.study.method.parties.contains_key(role) {
            return false;
        }
        tracing::info!("{role} is {}", state.name());
        self.peers.insert(*role, *state).unwrap_or_default() != *state
    }

    /// Of the others the one that is least far, and how far that is.
    fn awaited(&self) -> (Role, PeerState) {
        let far = |state: &PeerState| match state {
            PeerState::Absent | PeerState::Lost | PeerState::Done => 0,
            PeerState::Joined => 1,
            PeerState::Ready => 2,
        };
        let others = self.job.study.others(self.job.role).into_iter();
        let all = others.map(|role| (role, self.peers.get(&role).copied().unwrap_or_default()));
        all.min_by_key(|(_, state)| far(state)).unwrap_or((self.job.role, PeerState::Absent))
    }
}

/// Runs a step, unless somebody stops the run first.
async fn unless<T>(
    stopped: &mut mpsc::Receiver<Abort>,
    step: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::select! {
        biased;
        abort = drive::stopped(stopped) => Err(abort.into()),
        result = step => result,
    }
}

fn seed(seed: Option<u64>, role: Role) -> Result<[u8; 32], Abort> {
    match seed {
        Some(seed) => Ok(Digest::of(format!("fedreg seed {seed} {role}").as_bytes()).0),
        None => drawn(),
    }
}

/// Bytes that nobody else has.
pub(crate) fn drawn<const N: usize>() -> Result<[u8; N], Abort> {
    let mut bytes = [0; N];
    let drawn = OsRng.try_fill_bytes(&mut bytes);
    drawn.map_err(|error| Abort::Bug(format!("the system gives no randomness: {error}")))?;
    Ok(bytes)
}
