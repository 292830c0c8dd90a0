//! What every joint run has in common: meeting the other party, moving the session's messages, telling how it ended.

use std::future::Future;
use std::time::{Duration, Instant};

use fedreg_common::exit::Exit;
use fedreg_common::id::{Digest, Role, RunId};
use fedreg_common::privacy::release::Released;
use fedreg_common::report::Seconds;
use fedreg_common::session::{Abort, Session};
use fedreg_common::vertical::message::Message;
use fedreg_common::vertical::session::{Opening, Progress};
use fedreg_proto::coordinator;
use fedreg_proto::limits::Limits;
use fedreg_proto::register::{CoordinatorEvent, PartyEvent, PeerState};
use rand::TryRngCore;
use rand::rngs::OsRng;
use tokio::sync::mpsc;

use crate::convene::{Convener, Joining};
use crate::drive::{self, Driven, Ends, Link};
use crate::line::Line;
use crate::pace::Pace;
use crate::service::{self, Failure, Job};
use crate::store::{Entry, Store};

/// A kind of joint run.
pub(crate) trait Work: Send {
    /// What is read before the run.
    type Table: Send + 'static;
    /// What is run.
    type Session: Session<Inbound = Message, Outbound = Released<Message>, Output: Send> + Send + 'static;
    /// What comes of it.
    type Yield;

    /// Its name in the log of runs.
    const COMMAND: &'static str;

    /// Whether the table is read before anybody is contacted: where it must not be seen from outside that it cannot be used, a party
    /// with such a table looks like one that never came.
    const READS_FIRST: bool = false;

    /// How the table is read; runs beside everything else.
    fn reader(&self, job: &Job) -> impl FnOnce() -> Result<Self::Table, Failure> + Send + 'static;

    /// Rows of the table.
    fn rows(table: &Self::Table) -> u64;

    /// A run that was interrupted here and can be taken up again.
    fn interrupted(&self, _job: &Job) -> Option<RunId> {
        None
    }

    /// The session over the table.
    fn session(&self, job: &Job, table: Self::Table, opening: Opening) -> Result<Self::Session, Failure>;

    /// What is to be done when a run ends without a result, in good order.
    fn given_up(&self, _job: &Job, _run: RunId) {}

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
}

/// Takes part in a joint run to its end.
///
/// # Errors
/// Why there is no result; the others have been told.
pub(crate) async fn meet<W: Work>(
    work: &W,
    job: &Job,
    stop: mpsc::Sender<Abort>,
    mut stopped: mpsc::Receiver<Abort>,
) -> Result<(W::Yield, Exit), Failure> {
    let Job { role, config, study, .. } = job;
    let identity = service::identity(*role, config, study)?;
    let store = Store::open(&config.state)?;
    let keep = |entry: Entry| {
        // The result is there, or its failure is the greater trouble: a log that cannot be written must not hide either.
        if let Err(error) = store.record(&entry) {
            tracing::warn!("{}", service::chain(&error));
        }
    };
    let early = match W::READS_FIRST {
        false => None,
        true => match read_table(work, job, &mut stopped).await {
            // Reading a table cannot be told from what stands in it: a bug that shows there is not told either.
            Err(failure) if failure.is_of_data() || failure.exit() == Exit::Internal => {
                if let (Failure::Abort(Abort::Changed { .. }), Some(run)) = (&failure, work.interrupted(job)) {
                    work.given_up(job, run);
                }
                let reason = Some(failure.kept());
                keep(Entry { reason, ..Entry::now(W::COMMAND, *role, study, failure.exit()) });
                return Err(failure);
            }
            read => Some(read),
        },
    };
    let mut link = Line::open(job, &identity).await?;
    let run = work.interrupted(job);
    if let Some(run) = run {
        tracing::info!("run {run} was interrupted here; taking it up again");
    }
    let address = config.coordinator.clone();
    let joining = Joining { role: *role, keys: study.key_digests(), address, patience: job.patience, run };
    let dial = {
        let (address, name) = (config.coordinator.clone(), study.coordinator.certificate.clone());
        move || {
            let (address, identity, name) = (address.clone(), identity.clone(), name.clone());
            async move { coordinator::join(&address, &identity, &name).await }
        }
    };
    let mut meeting = Meeting { job, convener: Convener::start(joining, dial, stop), run, peer: PeerState::Absent };
    let result = meeting.hold(work, early, &mut link, &mut stopped).await;
    let (exit, reason) = match &result {
        Ok((_, exit)) => {
            meeting.convener.say(PartyEvent::Done(*exit));
            (*exit, None)
        }
        Err(failure) => {
            if let Some(run) = meeting.run {
                work.given_up(job, run);
            }
            match failure.notice(*role) {
                // Where a word would be about the data, we look like a party that was killed.
                Some(_) if W::READS_FIRST && failure.is_of_data() => {}
                Some(notice) => meeting.convener.say(PartyEvent::Abort(notice)),
                None => meeting.convener.say(PartyEvent::Done(failure.exit())),
            }
            (failure.exit(), Some(failure.kept()))
        }
    };
    meeting.convener.leave().await;
    keep(Entry { reason, bytes_sent: link.bytes_sent(), ..Entry::now(W::COMMAND, *role, study, exit).of(meeting.run) });
    result
}

/// Reads the table, and says how long that took.
async fn read_table<W: Work>(
    work: &W,
    job: &Job,
    stopped: &mut mpsc::Receiver<Abort>,
) -> Result<(W::Table, Duration), Failure> {
    tracing::info!("reading {}", job.config.data.file.display());
    let reading = Instant::now();
    let task = tokio::task::spawn_blocking(work.reader(job));
    let table = match unless(stopped, async { Ok(task.await) }).await? {
        Ok(table) => table?,
        Err(panic) => return Err(Abort::Bug(format!("reading failed: {panic}")).into()),
    };
    let read = reading.elapsed();
    tracing::info!("read {} rows in {:.2} s", W::rows(&table), read.as_secs_f64());
    Ok((table, read))
}

struct Meeting<'a> {
    job: &'a Job,
    convener: Convener,
    run: Option<RunId>,
    peer: PeerState,
}

impl Meeting<'_> {
    async fn hold<W: Work>(
        &mut self,
        work: &W,
        early: Option<Result<(W::Table, Duration), Failure>>,
        link: &mut Line,
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
        link.set_limits(Limits::for_rows(rows));
        let opening = Opening { first: config.connect.is_some(), run, seed: seed(self.job.seed, role)? };
        let session = work.session(self.job, table, opening)?;
        let ends = Ends { own: role, peer: role.partner(), dials: config.connect.clone(), listens: link.listens() };
        let mut pace = Pace::new(self.job.progress, role);
        let convener = &self.convener;
        let watch = |session: &W::Session, bytes| {
            if let Some(progress) = W::progress(session) {
                pace.show(&progress, bytes, convener);
            }
        };
        let driven = drive::drive(session, link, &ends, &self.job.patience, stopped, watch).await;
        pace.clear();
        let driven = driven?;
        let seconds = Seconds {
            read: read.as_secs_f64(),
            solve: driven.solve.as_secs_f64(),
            exchange: driven.exchange.as_secs_f64(),
            // Counted from the start of the run, which is when both have read: the other's reading is not our time.
            total: (read + begun.elapsed()).as_secs_f64(),
        };
        let bytes_sent = link.bytes_sent();
        let met = Met { driven, run, seconds, bytes_sent };
        work.finish(self.job, met)
    }

    async fn welcome(&mut self) -> Result<(), Failure> {
        loop {
            match self.convener.hear().await {
                Some(CoordinatorEvent::Welcome { .. }) => return Ok(()),
                Some(other) => self.notice_peer(&other),
                // The keeper left a reason in `stop`, which wins this race.
                None => std::future::pending().await,
            }
        }
    }

    /// Waits for the run to start; without end while the other party is there, as it may have much to read.
    async fn start(&mut self) -> Result<RunId, Failure> {
        let wait = self.job.patience.wait;
        let mut absent = Instant::now();
        loop {
            let there = matches!(self.peer, PeerState::Joined | PeerState::Ready);
            let heard = tokio::select! {
                heard = self.convener.hear() => heard,
                () = tokio::time::sleep(wait.saturating_sub(absent.elapsed())), if !there => {
                    let (role, peer) = (self.job.role, self.job.role.partner());
                    let seconds = wait.as_secs_f64().round();
                    let address = &self.job.config.coordinator;
                    return Err(Abort::Unreachable(format!(
                        "{role} waited {seconds} s for {peer}, who did not join at the coordinator at {address}"
                    ))
                    .into());
                }
            };
            match heard {
                Some(CoordinatorEvent::Start { run }) => return Ok(run),
                Some(other) => {
                    self.notice_peer(&other);
                    if there {
                        absent = Instant::now();
                    }
                }
                None => std::future::pending().await,
            }
        }
    }

    fn notice_peer(&mut self, event: &CoordinatorEvent) {
        if let CoordinatorEvent::Peer { role, state } = event {
            self.peer = *state;
            tracing::info!("{role} is {}", state.name());
        }
    }
}

/// Runs a step, unless somebody stops the run first.
async fn unless<T>(
    stopped: &mut mpsc::Receiver<Abort>,
    step: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let reason = async {
        match stopped.recv().await {
            Some(abort) => abort,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        abort = reason => Err(abort.into()),
        result = step => result,
    }
}

fn seed(seed: Option<u64>, role: Role) -> Result<[u8; 32], Abort> {
    let mut secret = [0; 32];
    match seed {
        Some(seed) => secret = Digest::of(format!("fedreg seed {seed} {role}").as_bytes()).0,
        None => OsRng
            .try_fill_bytes(&mut secret)
            .map_err(|error| Abort::Bug(format!("the system gives no randomness: {error}")))?,
    }
    Ok(secret)
}
