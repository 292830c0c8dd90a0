//! Serves the register: lines in, decisions out.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fedreg_common::exit::Exit;
use fedreg_common::id::{Role, RunId};
use fedreg_common::study::{Guaranteed, Study, StudyError, Vertical};
use fedreg_proto::coordinator::{Caller, ServeError};
use fedreg_proto::files::FileError;
use fedreg_proto::link::OpenError;
use fedreg_proto::output::{OutputError, write_whole};
use fedreg_proto::port::{self, Beside};
use fedreg_proto::register::{CoordinatorEvent, PartyEvent, PeerState, StatusReply};
use fedreg_proto::tls::{Identity, IdentityError, LinkError, Listener};
use rand::TryRngCore;
use rand::rngs::OsRng;
use thiserror::Error;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::sleep_until;

use crate::config::Config;
use crate::consolidate::ConsolidationFailure;
use crate::dealer;
use crate::merge;
use crate::register::{Register, Say};
use crate::state::StateError;
use crate::store::Store;

/// How long parties are given to come and learn that the run has ended, and to leave.
pub(crate) const FAREWELL: Duration = Duration::from_secs(3);

/// How long somebody is waited for before that is said.
pub(crate) const SAID_AFTER: Duration = Duration::from_secs(3);

/// Why the coordinator failed.
#[derive(Debug, Error)]
pub enum Failure {
    /// Its file, or the study.
    #[error(transparent)]
    Config(#[from] FileError),
    /// Its certificates.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// Its address.
    #[error(transparent)]
    Line(#[from] LinkError),
    /// Its server.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// Making certificates.
    #[error(transparent)]
    Certs(#[from] fedreg_proto::certs::CertsError),
    /// Beginning or explaining a study.
    #[error(transparent)]
    Wizard(#[from] fedreg_proto::wizard::WizardError),
    /// The state of a run.
    #[error(transparent)]
    State(#[from] StateError),
    /// Results, events or an address that cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// Estimates that cannot be consolidated.
    #[error(transparent)]
    Consolidation(#[from] ConsolidationFailure),
    /// A study whose method cannot be set up.
    #[error(transparent)]
    Study(StudyError),
    /// No runtime.
    #[error("internal error: {0}")]
    Bug(String),
    /// A coordinator that does not answer, or refuses.
    #[error(transparent)]
    Open(#[from] OpenError),
}

impl Failure {
    /// The exit code.
    pub fn exit(&self) -> Exit {
        match self {
            Failure::Config(_) | Failure::Study(_) => Exit::Usage,
            Failure::Identity(error) => error.exit(),
            Failure::Line(error) => error.exit(),
            Failure::State(error) => error.exit(),
            Failure::Output(error) => error.exit(),
            Failure::Consolidation(error) => error.exit(),
            Failure::Certs(error) => error.exit(),
            Failure::Wizard(error) => error.exit(),
            Failure::Serve(_) | Failure::Bug(_) => Exit::Internal,
            Failure::Open(error) => error.exit(),
        }
    }
}

/// What the coordinator serves.
#[derive(Debug, Clone)]
pub struct Job<M: Guaranteed> {
    /// Its configuration.
    pub config: Config,
    /// The study.
    pub study: Arc<Study<M>>,
    /// Whether to serve the next run after one has ended.
    pub keep: bool,
    /// Folder for the reports of a horizontal study.
    pub out: Option<PathBuf>,
    /// The command, as it was called.
    pub call: String,
    /// File that is given the address, once there is one.
    pub announce: Option<PathBuf>,
}

/// Serves until the run has ended, or for ever; gives the code of the last run.
///
/// # Errors
/// It cannot serve.
pub async fn serve(job: &Job<Vertical>, shutdown: impl Future<Output = ()>) -> Result<Exit, Failure> {
    let Job { config, study, .. } = job;
    let store = Store::open(&config.state)?;
    let names = study.method.parties.values().map(|terms| terms.certificate.clone()).collect();
    let listener = listen(job, names).await?;
    let address = listener.address().to_string();
    let register = Register::new(study, fresh()?);
    let (status, watched) = watch::channel(register.status());
    let (callers, calls) = mpsc::channel(16);
    let merging = merge::start(study, &config.state).map_err(Failure::Study)?;
    let more = Beside { dealing: dealer::start(study), merging };
    let server = |closed| port::serve(listener, callers, more, watched, closed);
    beside(server, async {
        let mut driver = Run {
            job,
            address,
            until: None,
            notice: None,
            register,
            lines: BTreeMap::new(),
            early: BTreeMap::new(),
            told: BTreeSet::new(),
            lost: BTreeMap::new(),
            store,
            status,
            next: 0,
        };
        driver.run(calls, shutdown).await
    })
    .await
}

/// Runs a server beside the decisions that it serves, until these have come to their end.
pub(crate) async fn beside<T, F: Future<Output = Result<(), ServeError>> + Send + 'static>(
    server: impl FnOnce(Pin<Box<dyn Future<Output = ()> + Send>>) -> F,
    decisions: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let (close, closed) = oneshot::channel::<()>();
    let server = tokio::spawn(server(Box::pin(async { drop(closed.await) })));
    let ended = decisions.await;
    drop(close);
    match server.await {
        Ok(served) => served?,
        Err(panic) => return Err(Failure::Bug(format!("the server failed: {panic}"))),
    }
    ended
}

/// Passes on what a line brings, and nothing when it is gone.
pub(crate) fn follow<L: Copy + Send + 'static, E: Send + 'static>(
    line: L,
    mut hear: mpsc::Receiver<E>,
    heard: mpsc::Sender<(L, Option<E>)>,
) {
    tokio::spawn(async move {
        while let Some(event) = hear.recv().await {
            if heard.send((line, Some(event))).await.is_err() {
                return;
            }
        }
        let _ = heard.send((line, None)).await;
    });
}

/// Listens as the coordinator for the parties with these names in their certificates, and tells where.
pub(crate) async fn listen<M: Guaranteed>(job: &Job<M>, names: Vec<String>) -> Result<Listener, Failure> {
    listen_as(job, &job.study.head.coordinator.certificate, names, "coordinating").await
}

/// Listens with a certificate of a given name, which the study has for this process.
pub(crate) async fn listen_as<M: Guaranteed>(
    job: &Job<M>,
    own: &str,
    mut names: Vec<String>,
    doing: &str,
) -> Result<Listener, Failure> {
    let Job { config, study, .. } = job;
    let identity = Identity::load(&config.tls)?;
    identity.check_own_name(own)?;
    for warning in identity.warnings() {
        tracing::warn!("{warning}");
    }
    // Its own name is let in too: `coordinator status` shows the coordinator's certificate.
    names.push(own.to_owned());
    let listener = Listener::bind(&config.listen, &identity, &names).await?;
    let address = listener.address();
    tracing::info!("{doing} `{}` at {address}, study {}", study.head.id, study.digest());
    if let Some(path) = &job.announce {
        write_whole(path, address.to_string().as_bytes())?;
    }
    Ok(listener)
}

/// A run's identifier: random, so that no message of another run can pass for one of this.
pub(crate) fn fresh() -> Result<RunId, Failure> {
    let mut id = [0; 16];
    match OsRng.try_fill_bytes(&mut id) {
        Ok(()) => Ok(RunId(id)),
        Err(error) => Err(Failure::Bug(format!("the system gives no randomness: {error}"))),
    }
}

struct Run<'a> {
    job: &'a Job<Vertical>,
    /// The address that was bound.
    address: String,
    register: Register,
    /// The line of each party that is there, by its number.
    lines: BTreeMap<Role, (u64, mpsc::Sender<CoordinatorEvent>)>,
    /// Parties that are done here and have come for the next run while others still are in this one.
    early: BTreeMap<Role, Early>,
    /// Who knows that the run has ended.
    told: BTreeSet<Role>,
    /// Since when a party's line is lost.
    lost: BTreeMap<Role, Instant>,
    /// Once the run has ended: when nobody is waited for any more.
    until: Option<Instant>,
    /// When it is to be said who is waited for, if it was not.
    notice: Option<Instant>,
    store: Store,
    status: watch::Sender<StatusReply>,
    next: u64,
}

/// A line that is for the next run, and what was said on it.
struct Early {
    number: u64,
    say: mpsc::Sender<CoordinatorEvent>,
    said: Vec<PartyEvent>,
}

/// Most that a party says before a run starts: that it joins, that it has read, and why it leaves.
const SAID_EARLY: usize = 8;

/// What a line brings; nothing when it is gone.
type Heard = ((Role, u64), Option<PartyEvent>);

impl Run<'_> {
    async fn run(
        &mut self,
        mut calls: mpsc::Receiver<Caller>,
        shutdown: impl Future<Output = ()>,
    ) -> Result<Exit, Failure> {
        let (heard, mut hear) = mpsc::channel::<Heard>(64);
        let wait = Duration::from_secs(self.job.config.wait);
        let mut interrupted = false;
        tokio::pin!(shutdown);
        self.notice = Some(Instant::now() + SAID_AFTER);
        loop {
            if let Some(exit) = self.register.verdict() {
                let over = self.until.get_or_insert_with(|| {
                    match self.register.ended().filter(|(ender, _)| *ender == Role::Coordinator) {
                        Some((_, notice)) => {
                            tracing::warn!("the run has ended with code {}: {}", exit.code(), notice.sentence);
                        }
                        None => tracing::info!("the run has ended with code {}", exit.code()),
                    }
                    Instant::now() + FAREWELL
                });
                let told = self.job.study.method.parties.keys().all(|role| self.told.contains(role));
                if (self.lines.is_empty() && told) || Instant::now() >= *over {
                    if !self.job.keep || interrupted {
                        return Ok(exit);
                    }
                    self.begin_another(None)?;
                    self.publish();
                }
            }
            let deadline = self.lost.values().map(|since| *since + wait).chain(self.until).chain(self.notice).min();
            tokio::select! {
                Some(caller) = calls.recv() => self.open(caller, &heard),
                Some(((role, number), event)) = hear.recv() => self.heard(role, number, event)?,
                () = sleep_until(deadline.unwrap_or_else(Instant::now).into()), if deadline.is_some() => {
                    if self.notice.is_some_and(|notice| notice <= Instant::now()) {
                        self.notice = None;
                        self.say_who_is_awaited();
                    }
                    let late: Vec<Role> = self
                        .lost
                        .iter()
                        .filter(|(_, since)| since.elapsed() >= wait)
                        .map(|(role, _)| *role)
                        .collect();
                    for role in late {
                        self.lost.remove(&role);
                        let say = self.register.give_up(role, self.job.config.wait);
                        self.say(say);
                    }
                }
                () = &mut shutdown, if !interrupted => {
                    interrupted = true;
                    let say = self.register.interrupt();
                    if self.register.verdict().is_none() {
                        return Ok(Exit::Interrupted);
                    }
                    self.say(say);
                }
            }
        }
    }

    /// The run is over: the next one gets a register of its own, and nobody of it hears of this one. `first` has come for it.
    fn begin_another(&mut self, first: Option<Role>) -> Result<(), Failure> {
        let next = fresh()?;
        let before = std::mem::replace(&mut self.register, Register::new(&self.job.study, next));
        // Of a line on which nobody has joined, it is not known yet which run it is for.
        self.lines.retain(|role, _| first == Some(*role) || !before.has_joined(*role));
        self.register = before.after(&self.job.study, next);
        self.lost.clear();
        self.told.clear();
        self.until = None;
        self.notice = Some(Instant::now() + SAID_AFTER);
        for (role, early) in std::mem::take(&mut self.early) {
            // A newer line of the same party counts in its place.
            if self.lines.contains_key(&role) {
                continue;
            }
            self.lines.insert(role, (early.number, early.say));
            for event in early.said {
                self.heard(role, early.number, Some(event))?;
            }
        }
        Ok(())
    }

    /// Whether what a party says and is told is of this run: one that came for an earlier run hears of the end of that, until this one is over.
    fn is_of_this_run(&self, role: Role) -> bool {
        !self.register.is_late(role) || self.register.verdict().is_some()
    }

    fn is_current(&self, role: Role, number: u64) -> bool {
        self.lines.get(&role).is_some_and(|(current, _)| *current == number)
    }

    /// Keeps what is said on a line that is for the next run; says whether it was.
    fn keep_for_the_next(&mut self, role: Role, number: u64, event: &Option<PartyEvent>) -> bool {
        let is_join = matches!(event, Some(PartyEvent::Join { run: None, .. }));
        let is_early =
            self.job.keep && is_join && self.is_current(role, number) && self.register.waits_for_others(role);
        if is_early && let Some((_, say)) = self.lines.remove(&role) {
            self.early.insert(role, Early { number, say, said: Vec::new() });
        }
        let Some(early) = self.early.get_mut(&role).filter(|early| early.number == number) else { return false };
        match event {
            Some(event) if early.said.len() < SAID_EARLY => early.said.push(event.clone()),
            // The line is gone, or floods: it is closed.
            Some(_) | None => {
                self.early.remove(&role);
            }
        }
        true
    }

    fn say_who_is_awaited(&self) {
        let status = self.register.status();
        let awaited =
            status.parties.iter().filter(|(_, state, _)| matches!(state, PeerState::Absent | PeerState::Lost));
        let awaited: Vec<&str> = awaited.map(|(name, ..)| name.as_str()).collect();
        if status.run.is_none() && status.exit.is_none() && !awaited.is_empty() {
            let (names, address) = (awaited.join(" and "), &self.address);
            tracing::info!(
                "waiting for {names} to join at {address}, without end; Ctrl-C is safe: nothing was asked of anybody"
            );
        }
    }

    fn open(&mut self, caller: Caller, heard: &mpsc::Sender<Heard>) {
        let Caller { name, hear, say } = caller;
        let role =
            self.job.study.method.parties.iter().find(|(_, terms)| terms.certificate == name).map(|(role, _)| *role);
        let Some(role) = role else {
            tracing::warn!("`{name}` joined, but has no part in the study");
            return;
        };
        self.next += 1;
        let number = self.next;
        self.store.line(role, true);
        tracing::info!("{role} opened a line");
        self.lines.insert(role, (number, say));
        self.register.open(role);
        self.lost.remove(&role);
        follow((role, number), hear, heard.clone());
    }

    fn heard(&mut self, role: Role, number: u64, event: Option<PartyEvent>) -> Result<(), Failure> {
        // A line that was replaced by a newer one has nothing to say any more.
        if self.keep_for_the_next(role, number, &event) || !self.is_current(role, number) {
            return Ok(());
        }
        if let Some(PartyEvent::Join { instance, .. }) = &event
            && self.register.displaces(role, *instance)
        {
            tracing::warn!(
                "another process with the certificate of {role} has joined and takes the place of the one before: if both run, end one"
            );
        }
        if let Some(PartyEvent::Join { run: None, instance, .. }) = &event {
            let anew = self.register.begin_anew(role, *instance);
            if anew.is_some() || (self.job.keep && self.register.is_for_the_next(role, *instance)) {
                self.say(anew.unwrap_or_default());
                self.begin_another(Some(role))?;
            }
        }
        let say = match event {
            Some(event) => {
                self.store.said(role, &event);
                match &event {
                    PartyEvent::Progress(progress) => tracing::debug!(
                        role = role.name(),
                        phase = progress.phase,
                        round = progress.round,
                        certificate = progress.certificate,
                        bytes_sent = progress.bytes_sent,
                    ),
                    PartyEvent::Abort(notice) => {
                        tracing::warn!("{role} ended the run: {} ({})", notice.sentence, notice.exit.code());
                    }
                    PartyEvent::Join { .. } => tracing::info!("{role}: joined"),
                    PartyEvent::Ready => tracing::info!("{role}: has read its data"),
                    PartyEvent::Done(_) => tracing::info!("{role}: is done"),
                }
                let joins = matches!(event, PartyEvent::Join { .. });
                if matches!(event, PartyEvent::Abort(_) | PartyEvent::Done(_)) && self.is_of_this_run(role) {
                    self.told.insert(role);
                }
                let say = self.register.take(role, event);
                if joins && self.register.is_late(role) {
                    tracing::info!(
                        "{role} came for a run that is over, and is told how that ended; for another it has to be started again"
                    );
                }
                say
            }
            None => {
                self.store.line(role, false);
                self.lines.remove(&role);
                let say = self.register.lost(role);
                if !say.is_empty() {
                    tracing::warn!("the line to {role} is lost");
                }
                if self.register.run().is_some() && self.register.verdict().is_none() && !say.is_empty() {
                    self.lost.insert(role, Instant::now());
                    self.publish();
                }
                say
            }
        };
        self.say(say);
        Ok(())
    }

    fn say(&mut self, say: Vec<Say>) {
        for (role, event) in say {
            let Some((_, line)) = self.lines.get(&role) else {
                continue;
            };
            self.store.told(role, &event);
            let last = match &event {
                CoordinatorEvent::Abort { .. } | CoordinatorEvent::Ended => true,
                CoordinatorEvent::Welcome { differing } => !differing.is_empty(),
                CoordinatorEvent::Peer { .. } | CoordinatorEvent::Start { .. } => false,
            };
            if last && self.is_of_this_run(role) {
                self.told.insert(role);
            }
            // A party that reads nothing for so long that its queue is full is as good as lost; its own line will show.
            if line.try_send(event).is_err() {
                tracing::warn!("{role} does not take what it is told");
            }
        }
        self.publish();
    }

    fn publish(&self) {
        let wait = Duration::from_secs(self.job.config.wait);
        let ends = self.lost.values().min().map(|since| *since + wait).filter(|_| self.until.is_none());
        self.status.send_replace(StatusReply { ends, ..self.register.status() });
    }
}

#[cfg(test)]
mod tests;
