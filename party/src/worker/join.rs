//! Takes part in a run: reads, fits, contributes, and keeps what comes of it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fedreg_common::exit::Exit;
use fedreg_common::id::{Role, RunId};
use fedreg_common::methods::registry;
use fedreg_common::privacy::release::Released;
use fedreg_common::report::{PerParty, Report, Seconds, VERSION, json};
use fedreg_common::session::Abort;
use fedreg_common::star::message::{Body, ToHub, ToSite};
use fedreg_common::star::site::local::{Contribution, Input};
use fedreg_common::star::site::{Act, Site};
use fedreg_common::study::{SiteMethod, Sites, Study};
use fedreg_proto::link::{Complaints, OpenError};
use fedreg_proto::star::{self as edge, BodyLimits, Heard, SiteLine};
use fedreg_proto::tls::Identity;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::batches::{Arrival, Encoding, Source};
use super::compute::{self, InOrder, InputSender, Prepared, Progress, Running, Terms};
use super::config::Config;
use super::private::{self, Private};
use crate::drive::{Patience, check_port};
use crate::failure::Failure;
use crate::meet::drawn;
use crate::output::{Folder, date, peak_rss_bytes};
use crate::pace::{Notice, due, left};
use crate::store::{Entry, Store};

/// Contributions on their way; the hub answers each.
pub(super) const WINDOW: usize = 32;
/// How long last words may take to arrive.
const FAREWELL: Duration = Duration::from_millis(if cfg!(test) { 50 } else { 3000 });

/// One worker's part in a run.
#[derive(Debug, Clone)]
pub struct Job {
    /// The private configuration.
    pub config: Config,
    /// The shared study.
    pub study: Arc<Study<Sites>>,
    /// Folder for results.
    pub out: Option<PathBuf>,
    /// The command, as it was called.
    pub call: String,
    /// How rows come.
    pub arrival: Arrival,
    /// How long to wait for what.
    pub patience: Patience,
    /// Fits at the same time.
    pub threads: usize,
}

/// Reads the study that this worker takes part in.
///
/// # Errors
/// The file is refused, or has no workers.
pub fn study(config: &Config) -> Result<Study<Sites>, Failure> {
    let none = || Failure::Usage("the study is of protocol `vertical`, which has no workers".to_string());
    fedreg_proto::files::read_study(&config.study)?.sites().ok_or_else(none)
}

/// Loads the worker's certificate, and finds its name in the study by it.
///
/// # Errors
/// The files cannot be used, or no worker of the study has the certificate's name.
pub fn identity(config: &Config, study: &Study<Sites>) -> Result<(Identity, String), Failure> {
    let identity = Identity::load(&config.tls)?;
    let facts = identity.facts();
    let Some(name) =
        study.method.workers.iter().find(|(_, terms)| facts.carries(&terms.certificate)).map(|(name, _)| name)
    else {
        let names = facts.names.join(", ");
        return Err(Abort::Refused(format!("the certificate is for {names}, which is no worker of the study")).into());
    };
    for warning in identity.warnings() {
        tracing::warn!("{warning}");
    }
    Ok((identity, name.clone()))
}

/// Takes part to the end, and writes the results. A word on `stop` interrupts.
///
/// # Errors
/// Why there is no result; the coordinator has been told.
pub async fn join(job: &Job, mut stop: mpsc::Receiver<Abort>) -> Result<(Report, Exit), Failure> {
    let Job { config, study, .. } = job;
    followed(job)?;
    let folder = Folder::of_results(job.out.as_deref(), &config.state)?;
    let (identity, name) = identity(config, study)?;
    let private = Private::of(config, study);
    if let Some(private) = private {
        private.allowed()?;
        if !job.arrival.follow {
            private.countable()?;
        }
    }
    let store = Store::open(&config.state)?;
    let mut worker = Worker::new(job, private, name, drawn()?);
    let result = match private.and_then(Private::kept_outcome) {
        Some((run, exit, report)) => {
            tracing::info!(
                "run {run} came to its end, and only its result was not written: nobody is contacted; the next start joins again"
            );
            worker.run = Some(run);
            worker.keep(report, &folder).map(|report| (report, exit))
        }
        None => {
            let result = worker.take_part(&identity, &mut stop, &folder).await;
            if let (Err(_), Some(run), Some(private)) = (&result, worker.run, private)
                && let Some(sentence) = private.cost(run)
            {
                tracing::info!("{sentence}");
            }
            result
        }
    };
    let bytes_sent = worker.sent.load(Ordering::Relaxed);
    store.note(&Entry { bytes_sent, ..Entry::now("join", Role::Worker, study, worker.run, &result) });
    result
}

/// Refuses to follow rows, and to count them beforehand, where the method does not.
fn followed(job: &Job) -> Result<(), Failure> {
    let follow = job.arrival.follow;
    let sentence = match &job.study.method.method {
        SiteMethod::Stream(_) if job.config.policy.min_rows.is_some() => {
            "`policy.min_rows` has no meaning in a stream, whose rows are not known beforehand".to_string()
        }
        SiteMethod::Robust(robust) if follow && robust.online.is_none() => {
            "rows are followed in a study that follows estimates only: it has no [robust.online]".to_string()
        }
        SiteMethod::Em(_) | SiteMethod::Features(_) if follow => {
            format!("rows are followed in streams only, and the study is of protocol `{}`", job.study.protocol().name())
        }
        SiteMethod::Robust(_) | SiteMethod::Em(_) | SiteMethod::Features(_) | SiteMethod::Stream(_) => return Ok(()),
    };
    Err(Failure::Usage(sentence))
}

/// The rows of a private run, read before anybody is contacted.
async fn prepared(job: &Job, stop: &mut mpsc::Receiver<Abort>) -> Result<Option<Prepared>, Failure> {
    let Job { config, study, arrival, .. } = job.clone();
    let task = tokio::task::spawn_blocking(move || {
        Private::of(&config, &study).map(|private| private.prepare(&arrival)).transpose()
    });
    tokio::select! {
        biased;
        Some(abort) = stop.recv() => Err(abort.into()),
        done = task => done.unwrap_or_else(|panic| Err(Abort::Bug(format!("reading failed: {panic}")).into())),
    }
}

/// What was done here.
#[derive(Debug, Default)]
struct Tally {
    batches: u64,
    unfit: u64,
    rows: u64,
    missing: u64,
    /// The first reason for a batch without an estimate.
    reason: Option<String>,
    solve: Duration,
}

struct Worker<'a> {
    job: &'a Job,
    /// What is spent here, in a private study.
    private: Option<Private<'a>>,
    name: String,
    site: Site,
    sent: Arc<AtomicU64>,
    run: Option<RunId>,
    /// What comes of the computation, once it is under way.
    progress: Option<mpsc::Receiver<Progress>>,
    /// Where the computation hears the hub.
    inputs: Option<InputSender>,
    /// What was read before anybody was contacted, until the run begins.
    early: Option<Result<Option<Prepared>, Failure>>,
    order: InOrder,
    /// When the coordinator welcomed us first.
    joined: Option<Instant>,
    ended: bool,
    tally: Tally,
    begun: Instant,
}

/// Since when the coordinator owes an answer: a welcome, or the acknowledgement of a contribution. A line that lives is none.
struct Owed {
    known: (bool, u64),
    since: Option<Instant>,
}

impl Owed {
    fn new(site: &Site) -> Owed {
        Owed { known: (site.has_joined(), site.acknowledged()), since: Some(Instant::now()) }
    }

    /// Looks again; whether an answer has come.
    fn is_new(&mut self, site: &Site) -> bool {
        let now = (site.has_joined(), site.acknowledged());
        let new = std::mem::replace(&mut self.known, now) != now;
        if site.has_joined() && site.waiting() == 0 {
            self.since = None;
        } else if new || self.since.is_none() {
            self.since = Some(Instant::now());
        }
        new
    }

    fn until(&self, wait: Duration) -> Option<Instant> {
        self.since.and_then(|since| since.checked_add(wait))
    }
}

/// Waits until then; for ever, where there is no such time.
async fn until(time: Option<Instant>) {
    due(time.map(|time| time.saturating_duration_since(Instant::now()))).await;
}

/// What follows from something that happened.
enum Next {
    GoOn,
    Say(ToHub<Released<Body>>),
    Finish(String, Exit),
}

impl<'a> Worker<'a> {
    fn new(job: &'a Job, private: Option<Private<'a>>, name: String, instance: [u8; 16]) -> Worker<'a> {
        Worker {
            job,
            private,
            name,
            site: Site::new(Arc::clone(&job.study), instance),
            sent: Arc::default(),
            run: None,
            progress: None,
            inputs: None,
            early: None,
            order: InOrder::default(),
            joined: None,
            ended: false,
            tally: Tally::default(),
            begun: Instant::now(),
        }
    }

    async fn take_part(
        &mut self,
        identity: &Identity,
        stop: &mut mpsc::Receiver<Abort>,
        folder: &Folder,
    ) -> Result<(Report, Exit), Failure> {
        match prepared(self.job, stop).await {
            // What does not depend on the rows the others may hear. A bug that shows when they are read may well depend on them.
            Err(failure) if failure.exit() != Exit::Refused || failure.is_of_data() => return Err(failure),
            early => self.early = Some(early),
        }
        let limits = self.limits()?;
        let patience = self.job.patience;
        let mut contact = Instant::now();
        let mut pause = Duration::ZERO;
        let mut complaints = Complaints::default();
        let mut met = false;
        let mut notice = Notice::default();
        loop {
            let dialled = tokio::select! {
                biased;
                Some(abort) = stop.recv() => return Err(abort.into()),
                line = self.dial(identity, limits, pause) => line,
            };
            let line = match dialled {
                Ok(line) => line,
                // Once there was contact, anyone who is on the way may have led us to somebody else.
                Err(OpenError::Refused(sentence)) if !met => return Err(Abort::Refused(sentence).into()),
                Err(error) => {
                    complaints.note(&error);
                    let waited = contact.elapsed();
                    if waited >= patience.wait {
                        let check = check_port("`coordinator serve`", &self.job.config.coordinator);
                        let hint = format!("every worker dials the coordinator: {check}");
                        return Err(error.in_vain(&self.waited(), &hint).into());
                    }
                    if notice.is_due(waited, patience.wait) {
                        let (address, left) = (&self.job.config.coordinator, left(waited, patience.wait));
                        let safe = match self.site.has_begun() {
                            false => "nothing was sent yet",
                            true => "started again, this worker goes on from there",
                        };
                        tracing::info!(
                            "waiting for the coordinator at {address} ({error}); {left} s left; Ctrl-C is safe: {safe}"
                        );
                    }
                    pause = (pause * 2).clamp(patience.backoff, patience.backoff_limit);
                    pause = pause.min(patience.wait.saturating_sub(waited));
                    continue;
                }
            };
            met = true;
            pause = patience.backoff;
            match self.converse(line, stop, folder).await? {
                Some(ended) => return Ok(ended),
                None => tracing::warn!("the line to {} is lost; dialling again", self.job.config.coordinator),
            }
            if self.site.has_joined() {
                contact = Instant::now();
                notice = Notice::default();
            } else if contact.elapsed() >= patience.wait {
                // One that takes every line and never says anything.
                return Err(self.in_vain(", which does not answer"));
            }
            self.site.lost();
        }
    }

    fn in_vain(&self, why: &str) -> Failure {
        Abort::Unreachable(format!("{}{why}", self.waited())).into()
    }

    fn waited(&self) -> String {
        let (name, address) = (&self.name, &self.job.config.coordinator);
        let seconds = self.job.patience.wait.as_secs_f64().round();
        format!("{name} waited {seconds} s for the coordinator at {address}")
    }

    fn limits(&self) -> Result<BodyLimits, Failure> {
        let method = registry::hub(&self.job.study).map_err(|error| Failure::Usage(error.to_string()))?;
        let shapes = method.shapes();
        Ok(BodyLimits {
            counts: shapes.iter().map(|shape| shape.counts).max().unwrap_or(0),
            values: shapes.iter().map(|shape| shape.values).max().unwrap_or(0),
        })
    }

    async fn dial(&self, identity: &Identity, limits: BodyLimits, pause: Duration) -> Result<SiteLine, OpenError> {
        sleep(pause).await;
        let Job { config, study, .. } = self.job;
        edge::dial(&config.coordinator, identity, &study.head.coordinator.certificate, limits, &self.sent).await
    }

    /// Talks until the run is over for us, or until the line is lost.
    async fn converse(
        &mut self,
        line: SiteLine,
        stop: &mut mpsc::Receiver<Abort>,
        folder: &Folder,
    ) -> Result<Option<(Report, Exit)>, Failure> {
        let SiteLine { say, mut hear } = line;
        match self.talk(&say, &mut hear, stop).await {
            Ok(None) => Ok(None),
            Ok(Some((report, exit))) => {
                // The coordinator need not wait for a disk here: what came is kept.
                let report = self.keep(report, folder);
                let _ = say.send(self.site.done()).await;
                part(say, hear).await;
                Ok(Some((report?, exit)))
            }
            Err(failure) => {
                self.leave(&failure, say, hear).await;
                Err(failure)
            }
        }
    }

    /// Talks until the outcome comes, or until the line is lost (`None`).
    async fn talk(
        &mut self,
        say: &mpsc::Sender<ToHub<Released<Body>>>,
        hear: &mut mpsc::Receiver<Heard<ToSite>>,
        stop: &mut mpsc::Receiver<Abort>,
    ) -> Result<Option<(String, Exit)>, Failure> {
        let mut acts = self.site.open();
        let wait = self.job.patience.wait;
        let mut owed = Owed::new(&self.site);
        loop {
            for act in std::mem::take(&mut acts) {
                match self.act(act)? {
                    Next::GoOn => {}
                    // A hub that reads nothing must not hold us, nor our user.
                    Next::Say(message) => tokio::select! {
                        biased;
                        Some(abort) = stop.recv() => return Err(abort.into()),
                        sent = timeout(wait, say.send(message)) => match sent {
                            Ok(Ok(())) => {}
                            Ok(Err(_)) => return Ok(None),
                            Err(_) => return Err(self.in_vain(", which takes nothing any more")),
                        },
                    },
                    Next::Finish(report, exit) => return Ok(Some((report, exit))),
                }
            }
            let room = self.site.waiting() < WINDOW;
            if owed.is_new(&self.site) && self.site.has_joined() {
                self.joined.get_or_insert_with(Instant::now);
            }
            let (answer, end) = (owed.until(wait), self.end());
            let progress = &mut self.progress;
            tokio::select! {
                biased;
                Some(abort) = stop.recv() => return Err(abort.into()),
                () = until(answer) => return Err(self.in_vain(", which does not answer")),
                () = until(end) => return Err(self.in_vain(" after the study's deadline, and there is no outcome")),
                heard = hear.recv() => match heard {
                    Some(Heard::Message(message)) => acts = self.site.hear(message),
                    Some(Heard::Fault(fault)) => return Err(Abort::Peer { peer: Role::Coordinator, fault }.into()),
                    None => return Ok(None),
                },
                came = next_of(progress), if room && !self.ended => self.take(came, &mut acts)?,
            }
        }
    }

    /// When the study's deadline must have struck, also of a run that was opened only when we came.
    fn end(&self) -> Option<Instant> {
        let deadline = Duration::from_secs(self.job.study.site_terms().deadline);
        self.joined?.checked_add(deadline)?.checked_add(self.job.patience.wait)
    }

    /// Takes what comes of the computation, and contributes what is next in order.
    fn take(&mut self, came: Option<Progress>, acts: &mut Vec<Act>) -> Result<(), Failure> {
        match came {
            Some(Progress::Piece(turn, piece)) => self.order.put(turn, piece),
            Some(Progress::Failed(failure)) => return Err(failure),
            Some(Progress::Ready) => {
                if !self.site.is_open() {
                    let (quorum, address) = (self.job.study.quorum(), &self.job.config.coordinator);
                    let seconds = self.job.study.site_terms().deadline;
                    tracing::info!(
                        "ready; nothing is spent or sent before the quorum of {quorum} workers is there (coordinator at {address}, for at \
                         most {seconds} s after it opened the run; Ctrl-C is safe)"
                    );
                }
                acts.extend(self.site.ready());
                return Ok(());
            }
            None => self.ended = true,
        }
        while let Some(piece) = self.order.next() {
            let Contribution { number, content, rows, missing, unfit } = piece.contribution;
            self.tally.batches += 1;
            self.tally.rows += rows;
            self.tally.missing += missing;
            self.tally.solve += piece.solve;
            if let Some(reason) = unfit {
                tracing::warn!("no estimate of {reason}");
                self.tally.unfit += 1;
                self.tally.reason.get_or_insert(reason);
            }
            acts.extend(self.site.contribute(number, content).map_err(|error| Abort::Bug(error.to_string()))?);
        }
        if self.ended {
            if self.tally.batches > 0 && self.tally.unfit == self.tally.batches {
                let reason = self.tally.reason.clone().unwrap_or_default();
                return Err(Abort::OwnData(format!("no batch could be fitted: {reason}")).into());
            }
            tracing::info!(
                "{} contributions of {} rows; waiting for the other workers and the result (coordinator at {}; Ctrl-C is safe: started \
                 again, this worker fetches the result)",
                self.tally.batches,
                self.tally.rows,
                self.job.config.coordinator
            );
            acts.extend(self.site.complete());
        }
        Ok(())
    }

    fn act(&mut self, act: Act) -> Result<Next, Failure> {
        match act {
            Act::Say(message) => return Ok(Next::Say(message)),
            Act::Begin { next, run } => {
                self.run = Some(run);
                if next > 0 {
                    tracing::info!("the coordinator has {next} contributions already; going on from there");
                }
                self.begin(next)?;
            }
            Act::Open => {
                let Job { config, study, .. } = self.job;
                if let (Some(run), None) = (self.run, self.private) {
                    private::record_plain(config, study, run)?;
                }
                self.tell(Input::Opened);
            }
            Act::Acknowledged => self.tell(Input::Acknowledged),
            Act::Rejected { number, reason } => {
                tracing::warn!("contribution {number} was not accepted: {reason}");
                self.tell(Input::Rejected);
            }
            Act::Heard { number, body } => {
                tracing::debug!("the coordinator published number {number}");
                self.tell(Input::Heard { number, body });
            }
            Act::Outcome { exit, report } => {
                parsed(&report)?;
                if let (Some(run), Some(private)) = (self.run, self.private)
                    && let Err(error) = private.keep_outcome(run, exit, &report)
                {
                    tracing::warn!("the end of the run is not in the privacy ledger: {error}");
                }
                return Ok(Next::Finish(report, exit));
            }
            Act::Refused { exit, sentence } => {
                return Err(Abort::Remote { from: Role::Coordinator, exit, sentence }.into());
            }
        }
        Ok(Next::GoOn)
    }

    /// Before the computation is under way there is nothing that it should hear.
    fn tell(&self, input: Input) {
        if let Some(inputs) = &self.inputs {
            inputs.send(input);
        }
    }

    /// Begins to compute.
    fn begin(&mut self, first: u64) -> Result<(), Failure> {
        let Job { config, study, arrival, threads, .. } = self.job;
        let charged = match (self.private, self.run) {
            (Some(private), Some(run)) => Some(private.charge(run)?),
            _ => None,
        };
        let prepared = match (self.early.take().transpose()?.flatten(), self.private) {
            (Some(prepared), _) => prepared,
            (None, Some(_)) => return Err(Abort::Bug("the rows were not read beforehand".to_string()).into()),
            (None, None) => {
                tracing::info!("reading {}", config.source());
                let encoding = Encoding::new(study, config.written());
                let source = Source::open(config, encoding, study.site_terms().batch_rows, arrival)?;
                Prepared::new(study, source, config.policy.min_rows.unwrap_or(0))?
            }
        };
        let terms = Terms { first, gone: config.reads_stdin(), threads: *threads, charged };
        let Running { progress, inputs } = compute::start(prepared, terms);
        (self.progress, self.inputs) = (Some(progress), Some(inputs));
        Ok(())
    }

    /// The coordinator's report as this worker's, written where it belongs; then the run is over.
    fn keep(&self, report: String, folder: &Folder) -> Result<Report, Failure> {
        let report = self.own(parsed(&report)?)?;
        folder.report(&report)?;
        tracing::info!("the report is in {}", folder.path().display());
        if let (Some(run), Some(private)) = (self.run, self.private) {
            private.close(run)?;
        }
        Ok(report)
    }

    /// The hub's report with what only this process knows.
    fn own(&self, report: Report) -> Result<Report, Failure> {
        let total = self.begun.elapsed().as_secs_f64();
        // Fits run beside each other: their time is that of the process as long as the threads are busy.
        let solve = (self.tally.solve.as_secs_f64() / self.job.threads.max(1) as f64).min(total);
        let privacy = match (self.run, self.private) {
            (Some(run), Some(private)) => PerParty::Own(Some(private.statement(run)?)),
            _ => report.privacy.clone(),
        };
        let mut notes = report.notes;
        notes.extend(self.private.and_then(|private| private.too_long(self.tally.rows)));
        Ok(Report {
            date: Some(date()),
            version: VERSION.to_string(),
            role: Some(Role::Worker),
            call: self.job.call.clone(),
            privacy,
            notes,
            missing: self.tally.missing,
            bytes_sent: PerParty::Own(self.sent.load(Ordering::Relaxed)),
            peak_rss_bytes: PerParty::Own(peak_rss_bytes()),
            seconds: PerParty::Own(Seconds { solve, total, exchange: total - solve, read: 0.0 }),
            ..report
        })
    }

    /// Tells the coordinator why we go, unless it was the coordinator that ended it.
    async fn leave(
        &self,
        failure: &Failure,
        say: mpsc::Sender<ToHub<Released<Body>>>,
        hear: mpsc::Receiver<Heard<ToSite>>,
    ) {
        self.job.arrival.stop.store(true, Ordering::Relaxed);
        // Where a word would be about the data, we look like a worker that was killed.
        if self.private.is_some() && failure.is_of_data() {
            return;
        }
        if let Some(notice) = failure.notice(Role::Worker) {
            let leave = ToHub::Leave { exit: notice.exit, sentence: notice.sentence };
            if !matches!(timeout(FAREWELL, say.send(leave)).await, Ok(Ok(()))) {
                return;
            }
            part(say, hear).await;
        }
    }
}

fn parsed(report: &str) -> Result<Report, Abort> {
    json::parse(report).map_err(|error| {
        let fault = fedreg_common::session::PeerFault::Garbage(error.to_string());
        Abort::Peer { peer: Role::Coordinator, fault }
    })
}

/// Half-closes a line and hears it to the end: what was said has then arrived.
async fn part<M, H>(say: mpsc::Sender<M>, mut hear: mpsc::Receiver<H>) {
    drop(say);
    let _ = timeout(FAREWELL, async { while hear.recv().await.is_some() {} }).await;
}

async fn next_of(progress: &mut Option<mpsc::Receiver<Progress>>) -> Option<Progress> {
    match progress {
        Some(progress) => progress.recv().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use fedreg_common::star::site::local::Content;

    use super::*;

    const STUDY: &str = "id = \"s\"\nprotocol = \"robust\"\n[workers.w]\ncertificate = \"w\"\n[model]\nfeatures = [\"a\"]\n\
                         [outcome]\ncolumn = \"y\"\n[sites]\ndeadline = 1\n";
    pub(in crate::worker) const CONFIG: &str = "study = \"s\"\ncoordinator = \"127.0.0.1:9\"\nstate = \"state\"\n[data]\nfile = \"w.csv\"\n[tls]\n\
                          authority = \"a\"\ncertificate = \"c\"\nkey = \"k\"\n";

    fn job(wait: Duration) -> Job {
        Job {
            config: toml::from_str(CONFIG).unwrap(),
            study: Arc::new(Study::parse(STUDY).unwrap().sites().unwrap()),
            out: None,
            call: String::new(),
            arrival: Arrival::default(),
            patience: Patience { wait, ..Patience::default() },
            threads: 1,
        }
    }

    fn worker(job: &Job) -> Worker<'_> {
        Worker::new(job, None, "w".to_string(), [1; 16])
    }

    fn run<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { timeout(Duration::from_secs(20), future).await.expect("waited without end") })
    }

    #[test]
    fn a_coordinator_whose_line_lives_and_that_says_nothing_is_waited_for_no_longer_than_stated() {
        let job = job(Duration::from_millis(50));
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::prepare(place.path()).unwrap();
        let mut worker = worker(&job);
        let failure = run(async {
            let (say, mut said) = mpsc::channel(64);
            let (_heard, hear) = mpsc::channel(64);
            let (_stop, mut stop) = mpsc::channel(1);
            let failure = worker.converse(SiteLine { say, hear }, &mut stop, &folder).await.unwrap_err();
            assert!(matches!(said.recv().await, Some(ToHub::Join(_))));
            failure
        });
        assert_eq!(failure.exit(), Exit::Unreachable);
        assert!(failure.to_string().contains("coordinator at 127.0.0.1:9, which does not answer"), "{failure}");
    }

    #[test]
    fn a_coordinator_that_takes_nothing_holds_neither_a_worker_nor_its_user() {
        let job = job(Duration::from_millis(50));
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::prepare(place.path()).unwrap();
        let mut worker = worker(&job);
        let (failure, interrupted) = run(async {
            // Nobody takes the only message that there is room for.
            let (say, _said) = mpsc::channel(1);
            let full = worker.site.done();
            say.send(full).await.unwrap();
            let (_heard, hear) = mpsc::channel(64);
            let (stop, mut stopped) = mpsc::channel(1);
            let line = SiteLine { say: say.clone(), hear };
            let failure = worker.converse(line, &mut stopped, &folder).await.unwrap_err();
            stop.send(Abort::Interrupted(Role::Worker)).await.unwrap();
            let (_heard, hear) = mpsc::channel(64);
            let patient = self::job(Duration::from_secs(60));
            let mut worker = self::worker(&patient);
            // The last words of anyone who goes are not taken either: it goes all the same.
            let interrupted = worker.converse(SiteLine { say, hear }, &mut stopped, &folder).await.unwrap_err();
            (failure, interrupted)
        });
        assert!(failure.to_string().contains("takes nothing any more"), "{failure}");
        assert_eq!(interrupted.exit(), Exit::Interrupted);
    }

    #[test]
    fn an_answer_is_owed_for_as_long_as_it_is_missing_and_no_longer() {
        let mut site = Site::new(Arc::clone(&job(Duration::ZERO).study), [1; 16]);
        site.open();
        let mut owed = Owed::new(&site);
        let since = owed.since;
        assert!(!owed.is_new(&site) && owed.since == since, "signs of life are no answer");
        site.hear(ToSite::Welcome { differing: Vec::new(), run: RunId([1; 16]), next: 0, held: false });
        assert!(owed.is_new(&site) && owed.since.is_none());
        let body = Body { kind: fedreg_common::star::message::Kind::Unfit, counts: vec![3], values: Vec::new() };
        site.contribute(0, Content::Plain(body)).unwrap();
        assert!(!owed.is_new(&site) && owed.since.is_some());
        site.hear(ToSite::Acknowledged { next: 1 });
        assert!(owed.is_new(&site) && owed.since.is_none());
    }
}
