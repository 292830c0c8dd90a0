//! A party's part in a fit, from its files to its report.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fedreg_common::exit::Exit;
use fedreg_common::fit::Termination;
use fedreg_common::id::{Digest, Role, RunId};
use fedreg_common::privacy::release::Released;
use fedreg_common::report::{PerParty, Report, Seconds};
use fedreg_common::session::Abort;
use fedreg_common::study::Study;
use fedreg_common::vertical::message::Message;
use fedreg_common::vertical::outcome::VerticalFit;
use fedreg_common::vertical::prepare::{Prepared, needed_columns};
use fedreg_common::vertical::session::{Opening, VerticalSession};
use fedreg_proto::certs::CertsError;
use fedreg_proto::coordinator;
use fedreg_proto::limits::Limits;
use fedreg_proto::line::{GrpcLink, PeerName};
use fedreg_proto::link::{Event, Notice, OpenError};
use fedreg_proto::register::{CoordinatorEvent, PartyEvent, PeerState, Progress};
use fedreg_proto::tls::{Identity, IdentityError, LinkError, Listener};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rand::TryRngCore;
use rand::rngs::OsRng;
use thiserror::Error;
use tokio::sync::mpsc;

use crate::config::{Config, ConfigError};
use crate::convene::{Convener, Joining};
use crate::drive::{self, Driven, Ends, Link, Patience};
use crate::output::{self, Folder, OutputError};
use crate::read::{self, ReadError, Request};
use crate::store::{Entry, Store};

/// The model file in a folder of results.
pub const MODEL: &str = "model.json";

/// Least time between two lines of progress to the coordinator.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);

/// A fit that a party takes part in.
#[derive(Debug, Clone)]
pub struct Job {
    /// As whom.
    pub role: Role,
    /// The private configuration.
    pub config: Config,
    /// The shared study.
    pub study: Arc<Study>,
    /// Folder for report and model.
    pub out: Option<PathBuf>,
    /// File that is given the address at which we listen, once we do.
    pub announce: Option<PathBuf>,
    /// The command, as it was called.
    pub call: String,
    /// Makes the random choices of the run repeatable.
    pub seed: Option<u64>,
    /// Whether a line of progress is drawn.
    pub progress: bool,
    /// How long to wait for what.
    pub patience: Patience,
}

/// Why a party's command failed.
#[derive(Debug, Error)]
pub enum Failure {
    /// A configuration or study file.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Own certificates.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// An address that cannot be listened at.
    #[error(transparent)]
    Line(#[from] LinkError),
    /// The table.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The run.
    #[error(transparent)]
    Abort(#[from] Abort),
    /// Results that cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// Making certificates.
    #[error(transparent)]
    Certs(#[from] CertsError),
    /// A request that makes no sense.
    #[error("{0}")]
    Usage(String),
}

impl Failure {
    /// The exit code.
    pub fn exit(&self) -> Exit {
        match self {
            Failure::Config(error) => error.exit(),
            Failure::Identity(error) => error.exit(),
            Failure::Line(error) => error.exit(),
            Failure::Read(_) => Exit::Data,
            Failure::Abort(abort) => abort.exit(),
            Failure::Output(error) => error.exit(),
            Failure::Certs(error) => error.exit(),
            Failure::Usage(_) => Exit::Usage,
        }
    }

    /// What the others are told; nothing when it was they who ended the run. Never quotes data, paths or addresses.
    fn notice(&self, own: Role) -> Option<Notice> {
        let sentence = match self {
            Failure::Abort(Abort::Remote { .. } | Abort::Study { .. }) => return None,
            Failure::Abort(abort) => return Some(drive::notice(abort, own)),
            Failure::Read(_) => format!("the data of {own} were refused; the reason is shown there only"),
            Failure::Output(_) => format!("{own} cannot write its results"),
            _ => format!("{own} cannot take part"),
        };
        Some(Notice {
            exit: self.exit(),
            sentence,
        })
    }
}

/// What a fit leaves at a party.
#[derive(Debug)]
pub struct Fitted {
    /// The party's own report.
    pub report: Report,
    /// The code for the shell: done, or not converged.
    pub exit: Exit,
}

/// The table, read and encoded, with the time that it took.
pub struct Table {
    /// The party's block, ready for a session.
    pub prepared: Prepared,
    /// How long it took.
    pub seconds: Duration,
}

/// Reads and encodes what the study asks of this party.
///
/// # Errors
/// The file or its contents are refused.
pub fn read_table(role: Role, config: &Config, study: &Arc<Study>) -> Result<Table, Failure> {
    let begun = Instant::now();
    let file = &config.data.file;
    let header = read::header(file, config.separator())?;
    let names: Vec<&str> = header.iter().map(String::as_str).collect();
    let request = Request {
        columns: Some(needed_columns(study, role, &names)?),
        id: study.rows.id.clone(),
        levels: study
            .columns
            .iter()
            .filter(|(_, terms)| !terms.levels.is_empty())
            .map(|(name, terms)| (name.clone(), terms.levels.clone()))
            .collect(),
        separator: config.separator(),
    };
    let frame = read::read(file, &request)?;
    let prepared = Prepared::new(Arc::clone(study), role, config.policy(), frame)?;
    Ok(Table {
        prepared,
        seconds: begun.elapsed(),
    })
}

/// Loads the party's certificate and checks that it carries the study's name for it.
///
/// # Errors
/// The files cannot be used.
pub fn identity(role: Role, config: &Config, study: &Study) -> Result<Identity, Failure> {
    let identity = Identity::load(&config.tls.files())?;
    identity.check_own_name(certificate(study, role)?)?;
    for warning in identity.warnings() {
        tracing::warn!("{warning}");
    }
    Ok(identity)
}

fn certificate(study: &Study, role: Role) -> Result<&str, Failure> {
    match study.parties.get(&role) {
        Some(terms) => Ok(&terms.certificate),
        None => Err(Failure::Usage(format!("the study has no party {role}"))),
    }
}

/// Takes part in a fit to its end, and writes its results.
///
/// Reasons to stop go into `stop` from anywhere and come out of `stopped`.
///
/// # Errors
/// Why there is no result; the others have been told.
pub async fn fit(job: &Job, stop: mpsc::Sender<Abort>, mut stopped: mpsc::Receiver<Abort>) -> Result<Fitted, Failure> {
    let Job {
        role, config, study, ..
    } = job;
    let identity = identity(*role, config, study)?;
    let folder = job.out.as_deref().map(Folder::prepare).transpose()?;
    let store = Store::open(&config.state)?;
    let mut link = Line::open(job, &identity).await?;
    let joining = Joining {
        role: *role,
        keys: study.key_digests(),
        address: config.coordinator.clone(),
        patience: job.patience,
    };
    let dial = {
        let (address, identity, name) = (
            config.coordinator.clone(),
            identity.clone(),
            study.coordinator.certificate.clone(),
        );
        move || {
            let (address, identity, name) = (address.clone(), identity.clone(), name.clone());
            async move { coordinator::join(&address, &identity, &name).await }
        }
    };
    let mut run = Run {
        job,
        convener: Convener::start(joining, dial, stop),
        run: None,
        peer: PeerState::Absent,
    };
    let fitted = run.fit(&mut link, &mut stopped, folder.as_ref()).await;
    let (exit, reason) = match &fitted {
        Ok(fitted) => {
            run.convener.say(PartyEvent::Done(fitted.exit));
            (fitted.exit, None)
        }
        Err(failure) => {
            if let Some(notice) = failure.notice(*role) {
                run.convener.say(PartyEvent::Abort(notice));
            }
            (failure.exit(), Some(chain(failure)))
        }
    };
    run.convener.leave().await;
    let entry = Entry {
        reason,
        bytes_sent: link.bytes_sent(),
        ..Entry::now("fit", *role, study, exit).of(run.run)
    };
    // The result is there, or its failure is the greater trouble: a log that cannot be written must not hide either.
    if let Err(error) = store.record(&entry) {
        tracing::warn!("{}", chain(&error));
    }
    fitted
}

/// An error with its causes, as it is shown.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

struct Run<'a> {
    job: &'a Job,
    convener: Convener,
    run: Option<RunId>,
    peer: PeerState,
}

impl Run<'_> {
    async fn fit(
        &mut self,
        link: &mut Line,
        stopped: &mut mpsc::Receiver<Abort>,
        folder: Option<&Folder>,
    ) -> Result<Fitted, Failure> {
        let Job {
            role, config, study, ..
        } = self.job;
        let role = *role;
        // Before any data are touched: the coordinator compares the studies.
        unless(stopped, self.welcome()).await?;
        tracing::info!("reading {}", config.data.file.display());
        let reading = {
            let (config, study) = (config.clone(), Arc::clone(study));
            tokio::task::spawn_blocking(move || read_table(role, &config, &study))
        };
        let table = match unless(stopped, async { Ok(reading.await) }).await? {
            Ok(table) => table?,
            Err(panic) => return Err(Abort::Bug(format!("reading failed: {panic}")).into()),
        };
        tracing::info!(
            "read {} rows in {:.2} s",
            table.prepared.rows(),
            table.seconds.as_secs_f64()
        );
        self.convener.say(PartyEvent::Ready);
        let run = unless(stopped, self.start()).await?;
        self.run = Some(run);
        let begun = Instant::now();
        link.set_limits(Limits::for_rows(table.prepared.rows() as u64));
        let opening = Opening {
            first: config.connect.is_some(),
            run,
            seed: seed(self.job.seed, role)?,
        };
        let session = VerticalSession::new(table.prepared, opening);
        let driven = {
            let ends = Ends {
                own: role,
                peer: role.partner(),
                dials: config.connect.clone(),
                listens: link.listens.clone(),
            };
            let mut pace = Pace::new(self.job.progress, role);
            let convener = &self.convener;
            let watch = |session: &VerticalSession, bytes| pace.show(session, bytes, convener);
            let driven = drive::drive(session, link, &ends, &self.job.patience, stopped, watch).await;
            pace.clear();
            driven?
        };
        let seconds = Seconds {
            read: table.seconds.as_secs_f64(),
            solve: driven.solve.as_secs_f64(),
            exchange: driven.exchange.as_secs_f64(),
            total: (table.seconds + begun.elapsed()).as_secs_f64(),
        };
        let report = self.report(&driven, run, seconds, link.bytes_sent());
        let exit = exit_of(report.termination);
        if let Some(folder) = folder {
            folder.report(&report)?;
            let model = serde_json::to_string_pretty(&driven.output.model).unwrap_or_default();
            folder.write(MODEL, format!("{model}\n").as_bytes())?;
        }
        Ok(Fitted { report, exit })
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

    fn report(&self, driven: &Driven<VerticalSession>, run: RunId, seconds: Seconds, bytes_sent: u64) -> Report {
        let Job { role, study, .. } = self.job;
        let fit: &VerticalFit = &driven.output;
        let mut notes = fit.notes.clone();
        if driven.reopened > 0 {
            let times = match driven.reopened {
                1 => "once".to_string(),
                count => format!("{count} times"),
            };
            notes.push(format!(
                "the line to {} was lost and opened again {times}",
                role.partner()
            ));
        }
        Report {
            protocol: "vertical".to_string(),
            mode: "plain".to_string(),
            study: study.id.clone(),
            study_digest: study.digest().to_string(),
            run: run.to_string(),
            role: Some(*role),
            call: self.job.call.clone(),
            family: study.model.family,
            link: study.model.family.link().to_string(),
            outcome: study.outcome.column.clone(),
            coefficients: fit.coefficients.clone(),
            statistics: fit.statistics.clone(),
            rounds: fit.rounds,
            converged: Some(fit.termination.converged()),
            termination: fit.termination,
            tol: study.fit.tol,
            trace: fit.trace.clone(),
            notes,
            missing: fit.missing,
            path: fit.path.clone(),
            cv: fit.cv.clone(),
            lambda_min: fit.lambda.map(|(best, _)| best),
            lambda_1se: fit.lambda.map(|(_, within)| within),
            certificate: PerParty::Own(Some(fit.certificate).filter(|certificate| certificate.is_finite())),
            bytes_sent: PerParty::Own(bytes_sent),
            peak_rss_bytes: PerParty::Own(output::peak_rss_bytes()),
            seconds: PerParty::Own(seconds),
            disclosure: PerParty::Own(fit.disclosure.clone()),
            privacy: PerParty::Own(None),
        }
    }
}

/// The code for a fit that ended in some way.
pub fn exit_of(termination: Termination) -> Exit {
    match termination {
        Termination::Converged | Termination::CollinearAcrossParties | Termination::FixedRounds => Exit::Done,
        Termination::MaxRounds | Termination::Separation => Exit::NotConverged,
        Termination::Interrupted => Exit::Interrupted,
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

/// The line to the other party over gRPC.
pub struct Line {
    link: GrpcLink,
    /// The address that was bound, with the port that was given.
    listens: Option<String>,
}

impl Line {
    async fn open(job: &Job, identity: &Identity) -> Result<Line, Failure> {
        let peer = PeerName {
            role: job.role.partner(),
            certificate: certificate(&job.study, job.role.partner())?.to_string(),
        };
        if let Some(address) = &job.config.connect {
            return Ok(Line {
                link: GrpcLink::dial(address.clone(), identity, peer),
                listens: None,
            });
        }
        let Some(address) = &job.config.listen else {
            return Err(Failure::Usage("neither `listen` nor `connect` is set".to_string()));
        };
        let expected = [peer.certificate.clone()];
        let listener = Listener::bind(address, identity, &expected).await?;
        let bound = listener.address().to_string();
        tracing::info!("listening at {bound} for {}", peer.role);
        announce(job.announce.as_deref(), &bound)?;
        Ok(Line {
            link: GrpcLink::listen(listener, peer),
            listens: Some(bound),
        })
    }

    fn set_limits(&mut self, limits: Limits) {
        self.link.set_limits(limits);
    }
}

/// Writes the address at which a process listens, for whoever started it at port 0.
///
/// # Errors
/// The file cannot be written.
pub fn announce(file: Option<&Path>, address: &str) -> Result<(), OutputError> {
    match file {
        Some(file) => output::write_whole(file, address.as_bytes()),
        None => Ok(()),
    }
}

impl Link for Line {
    type Outbound = Released<Message>;
    type Inbound = Message;

    async fn open(&mut self) -> Result<(), OpenError> {
        self.link.open().await
    }

    fn send(&mut self, message: Released<Message>) {
        self.link.send(message);
    }

    async fn recv(&mut self) -> Event<Message> {
        self.link.recv().await
    }

    fn abort(&mut self, notice: Notice) {
        self.link.abort(notice);
    }

    fn bye(&mut self) {
        self.link.bye();
    }

    async fn close(&mut self) {
        self.link.close().await;
    }

    fn bytes_sent(&self) -> u64 {
        self.link.bytes_sent()
    }
}

/// Progress to the terminal and to the coordinator, neither of them flooded.
struct Pace {
    bar: Option<ProgressBar>,
    told: Option<Instant>,
    phase: &'static str,
    role: Role,
}

impl Pace {
    fn new(draw: bool, role: Role) -> Pace {
        let bar = draw.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix} {msg} ({elapsed})") {
                bar.set_style(style);
            }
            bar.set_prefix(role.name());
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        Pace {
            bar,
            told: None,
            phase: "",
            role,
        }
    }

    fn show(&mut self, session: &VerticalSession, bytes_sent: u64, convener: &Convener) {
        let progress = session.progress();
        tracing::debug!(
            role = self.role.name(),
            phase = progress.phase,
            fit = progress.fit.0,
            round = progress.round,
            certificate = progress.certificate,
            bytes_sent,
        );
        if let Some(bar) = &self.bar {
            let (fit, fits) = progress.fit;
            let mut line = progress.phase.to_string();
            if fits > 1 {
                line.push_str(&format!(", fit {fit} of {fits}"));
            }
            if progress.round > 0 {
                line.push_str(&format!(", round {}", progress.round));
            }
            if let Some(certificate) = progress.certificate {
                line.push_str(&format!(", gradient {certificate:.1e}"));
            }
            line.push_str(&format!(", {:.1} MB sent", bytes_sent as f64 / 1e6));
            bar.set_message(line);
        }
        let due = self.told.is_none_or(|told| told.elapsed() >= PROGRESS_INTERVAL);
        if due || self.phase != progress.phase {
            self.told = Some(Instant::now());
            self.phase = progress.phase;
            convener.say(PartyEvent::Progress(Progress {
                phase: progress.phase.to_string(),
                round: progress.round,
                certificate: progress.certificate,
                bytes_sent,
            }));
        }
    }

    fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
