//! Serves a horizontal study: lines in, decisions of the hub out, everything kept before it is acknowledged.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fedreg_common::exit::Exit;
use fedreg_common::id::RunId;
use fedreg_common::methods::registry;
use fedreg_common::report::{PerParty, Report, Seconds};
use fedreg_common::star::hub::{Act, Hub, Line, Record, State as SiteState};
use fedreg_common::star::message::{ToHub, ToSite};
use fedreg_common::study::Sites;
use fedreg_proto::output::{Folder, Format, date, peak_rss_bytes, write_whole};
use fedreg_proto::register::{PeerState, Progress, Quorum, StatusReply};
use fedreg_proto::star::{self as edge, BodyLimits, Caller, Closing, Heard};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep_until;

use crate::service::{FAREWELL, Failure, Job, SAID_AFTER, beside, follow, fresh, listen};
use crate::state::State;

/// Messages that are taken together before what is to be kept is written: one sync serves them all.
const TOGETHER: usize = 256;
/// Least time between two reports of a run that goes on.
const REDRAW: Duration = Duration::from_secs(1);

/// How a run ended.
#[derive(Debug)]
pub struct Ended {
    /// The report, where there is a result.
    pub report: Option<Report>,
    /// The code with which everybody exits.
    pub exit: Exit,
    /// Why there is no result.
    pub reason: Option<String>,
}

/// Serves until the run has ended, or for ever; tells how the last run ended.
///
/// # Errors
/// It cannot serve.
pub async fn serve(job: &Job<Sites>, shutdown: impl Future<Output = ()>) -> Result<Ended, Failure> {
    let Job { config, study, .. } = job;
    let folder = Folder::of_results(job.out.as_deref(), &config.state)?;
    let state = State::open(&config.state, study.digest(), fresh()?)?;
    let certificates = study.method.workers.values().map(|terms| terms.certificate.clone()).collect();
    let listener = listen(job, certificates).await?;
    let shapes = registry::hub(study).map_err(Failure::Study)?.shapes();
    let limits = BodyLimits {
        counts: shapes.iter().map(|shape| shape.counts).max().unwrap_or(0),
        values: shapes.iter().map(|shape| shape.values).max().unwrap_or(0),
    };
    let mut driver = Run::new(job, state, limits, folder)?;
    driver.address = listener.address().to_string();
    let (status, watched) = watch::channel(driver.status());
    driver.publish = Some(status);
    let (callers, calls) = mpsc::channel(16);
    let (wishes, closings) = mpsc::channel(1);
    let server = |closed| edge::serve(listener, callers, wishes, watched, limits, closed);
    beside(server, async move { driver.run(calls, closings, shutdown).await }).await
}

/// What a line brings; nothing when it is gone.
type Brought = (Line, Option<Heard<ToHub>>);

struct Run<'a> {
    job: &'a Job<Sites>,
    hub: Hub,
    state: State,
    limits: BodyLimits,
    folder: Folder,
    lines: BTreeMap<Line, mpsc::Sender<ToSite>>,
    /// Since when a site's line is lost, a round waits for its answer, or the opening waits for it.
    awaited: BTreeMap<String, Instant>,
    /// Whether the run was held when we last looked.
    held: bool,
    publish: Option<watch::Sender<StatusReply>>,
    next: Line,
    begun: Instant,
    /// The address that was bound.
    address: String,
    /// When it is to be said who is waited for, if it was not.
    notice: Option<Instant>,
    /// When the study's time is up: reckoned once, so that a clock that is set meanwhile ends nothing.
    due: Option<Instant>,
    /// When the run was over, and when something was last heard since.
    ended: Option<(Instant, Instant)>,
    drawn: Option<Instant>,
    /// Whether something has come since.
    stale: bool,
}

impl<'a> Run<'a> {
    fn new(job: &'a Job<Sites>, state: State, limits: BodyLimits, folder: Folder) -> Result<Run<'a>, Failure> {
        let hub = Run::hub(job, &state, limits)?;
        Ok(Run {
            job,
            held: hub.held(),
            hub,
            due: due(job, &state),
            address: job.config.listen.clone(),
            notice: Instant::now().checked_add(SAID_AFTER),
            ended: None,
            state,
            limits,
            folder,
            lines: BTreeMap::new(),
            awaited: BTreeMap::new(),
            publish: None,
            next: 0,
            begun: Instant::now(),
            drawn: None,
            stale: false,
        })
    }

    fn hub(job: &Job<Sites>, state: &State, limits: BodyLimits) -> Result<Hub, Failure> {
        let run: RunId = state.run();
        let mut hub = Hub::new(Arc::clone(&job.study), run, registry::hub(&job.study).map_err(Failure::Study)?);
        let mut records = 0_u64;
        state.records(limits, |record| {
            records += 1;
            hub.resume(record)
        })?;
        if records > 0 {
            tracing::info!("going on with run {run}: {records} records were kept");
        }
        Ok(hub)
    }

    async fn run(
        &mut self,
        mut calls: mpsc::Receiver<Caller>,
        mut closings: mpsc::Receiver<Closing>,
        shutdown: impl Future<Output = ()>,
    ) -> Result<Ended, Failure> {
        let (brought, mut bring) = mpsc::channel::<Brought>(64);
        let wait = Duration::from_secs(self.job.config.wait);
        let mut interrupted = false;
        tokio::pin!(shutdown);
        match self.hub.exit() {
            Some(_) => self.write_report()?,
            None => {
                let acts = self.hub.go_on();
                self.act(acts)?;
            }
        }
        // Sites that a former process has lost are waited for as if they were lost now.
        self.note_awaited();
        loop {
            let until = self.until(interrupted);
            if let (Some(exit), Some(until)) = (self.hub.exit(), until)
                && (self.hub.all_told() || Instant::now() >= until)
            {
                match self.conclude(exit, interrupted)? {
                    Some(ended) => return Ok(ended),
                    None => continue,
                }
            }
            let deadline = self.due.filter(|_| until.is_none());
            let awaited = self.awaited.values().map(|since| *since + wait);
            let next = awaited.chain(until).chain(deadline).chain(self.notice).chain(self.redraw()).min();
            let (mut acts, mut waiting) = (Vec::new(), Vec::new());
            tokio::select! {
                Some(caller) = calls.recv() => {
                    self.open(caller, &brought);
                    self.heard();
                }
                Some(closing) = closings.recv() => acts.extend(self.close(closing)),
                _ = bring.recv_many(&mut waiting, TOGETHER) => {
                    self.stale = true;
                    self.heard();
                    for (line, what) in waiting {
                        acts.extend(self.brought(line, what));
                    }
                    acts.extend(self.hub.publish());
                }
                () = sleep_until(next.unwrap_or_else(Instant::now).into()), if next.is_some() => {
                    if self.notice.is_some_and(|notice| notice <= Instant::now()) {
                        self.notice = None;
                        self.say_who_is_awaited();
                    }
                    if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                        acts.extend(self.hub.deadline());
                    }
                    acts.extend(self.give_up(wait));
                }
                () = &mut shutdown, if !interrupted => {
                    interrupted = true;
                    acts.extend(self.hub.interrupt());
                }
            }
            self.act(acts)?;
            self.note_awaited();
            self.note_opening();
            self.show();
            self.draw()?;
        }
    }

    /// Ends a run of which everybody was told that could be: gives what came of it, or begins the next run where the coordinator stays.
    fn conclude(&mut self, exit: Exit, interrupted: bool) -> Result<Option<Ended>, Failure> {
        let owed: Vec<&str> = self.hub.owed().collect();
        // An interrupted wait is left to the next process.
        if exit != Exit::Interrupted && (owed.is_empty() || !interrupted) {
            if !owed.is_empty() {
                let (names, place) = (owed.join(", "), self.place());
                tracing::warn!("{names} did not come for the result, which is kept in {}", place.display());
            }
            self.state.end()?;
        }
        let report = self.hub.report();
        if !self.job.keep || interrupted {
            let (report, reason) = match report {
                Ok(report) => (Some(self.completed(report)), None),
                Err(reason) => (None, Some(reason)),
            };
            return Ok(Some(Ended { report, exit, reason }));
        }
        self.state.begin(self.job.study.digest(), fresh()?)?;
        self.hub = Run::hub(self.job, &self.state, self.limits)?;
        self.due = due(self.job, &self.state);
        self.ended = None;
        self.notice = Instant::now().checked_add(SAID_AFTER);
        self.lines.clear();
        self.awaited.clear();
        self.show();
        Ok(None)
    }

    /// Gives up the sites that were awaited for too long.
    fn give_up(&mut self, wait: Duration) -> Vec<Act> {
        let late = self.awaited.iter().filter(|(_, since)| since.elapsed() >= wait);
        let late: Vec<String> = late.map(|(name, _)| name.clone()).collect();
        let mut acts = Vec::new();
        for name in late {
            self.awaited.remove(&name);
            acts.extend(self.hub.give_up(&name, self.job.config.wait));
        }
        acts
    }

    /// How long anyone who is still to learn of the end is waited for: those who are there for a little, those who gave something to the
    /// result and have lost their line as long as they may stay away.
    fn until(&mut self, interrupted: bool) -> Option<Instant> {
        let exit = self.hub.exit()?;
        let now = Instant::now();
        let (ended, heard) = *self.ended.get_or_insert_with(|| {
            tracing::info!("the run has ended with code {}", exit.code());
            (now, now)
        });
        let most = ended + Duration::from_secs(self.job.config.wait).max(FAREWELL);
        Some(match self.hub.owed().next().is_some() && !interrupted {
            true => most,
            false => (heard + FAREWELL).min(most + FAREWELL),
        })
    }

    fn heard(&mut self) {
        if let Some((_, heard)) = &mut self.ended {
            *heard = Instant::now();
        }
    }

    /// Somebody who holds the coordinator's own certificate wants to wait no longer.
    fn close(&mut self, closing: Closing) -> Vec<Act> {
        let Closing { name, study, answer } = closing;
        let own = &self.job.study.head.coordinator.certificate;
        let ours = self.job.study.digest();
        let closed = if name != *own {
            Err(format!("only the certificate of {own} may close a run, and this is {name}"))
        } else if study != ours {
            Err(format!("the study file has digest {}, and this run is of {}", study.short(), ours.short()))
        } else {
            self.hub.close()
        };
        let (reply, acts) = match closed {
            Ok(acts) => {
                tracing::info!("asked to wait for nobody else");
                let what = if self.hub.exit().is_some() {
                    "is closed with what has come"
                } else {
                    "goes on with those who are there"
                };
                ((true, format!("the run {what}")), acts)
            }
            Err(sentence) => ((false, sentence), Vec::new()),
        };
        // Anyone who asked may have gone.
        let _ = answer.send(reply);
        acts
    }

    fn open(&mut self, caller: Caller, brought: &mpsc::Sender<Brought>) {
        let Caller { name, hear, say } = caller;
        let Some(site) = self.job.study.worker_of(&name) else {
            tracing::warn!("`{name}` opened a line, but is no worker of the study");
            return;
        };
        self.next += 1;
        let line = self.next;
        tracing::debug!("{site} opened line {line}");
        self.hub.open(line, site);
        self.lines.insert(line, say);
        follow(line, hear, brought.clone());
    }

    fn brought(&mut self, line: Line, what: Option<Heard<ToHub>>) -> Vec<Act> {
        match what {
            Some(Heard::Message(message)) => self.hub.hear(line, message),
            Some(Heard::Fault(fault)) => self.hub.fault(line, &fault),
            None => {
                self.lines.remove(&line);
                self.hub.lost(line);
                Vec::new()
            }
        }
    }

    /// Keeps first, says then: what was acknowledged is never lost.
    fn act(&mut self, acts: Vec<Act>) -> Result<(), Failure> {
        let records = || acts.iter().filter_map(|act| if let Act::Store(record) = act { Some(record) } else { None });
        for record in records() {
            match record {
                Record::Rejected { site, reason, .. } => tracing::warn!("not accepted from {site}: {reason}"),
                Record::Left { site, sentence, .. } => tracing::warn!("{site} left the run: {sentence}"),
                Record::Complete { site, contributions } => {
                    tracing::info!("{site} has {contributions} contributions in all");
                }
                Record::Contribution { .. }
                | Record::Snapshot(_)
                | Record::Opened
                | Record::Round
                | Record::Over { .. }
                | Record::Told { .. } => {}
            }
        }
        if records().next().is_some() {
            self.state.keep(records())?;
        }
        for act in acts {
            match act {
                Act::Store(_) => {}
                Act::Say(line, message) => self.say(line, message),
                Act::Close(line) => drop(self.lines.remove(&line)),
                Act::Ended(_) => self.write_report()?,
            }
        }
        Ok(())
    }

    fn say(&mut self, line: Line, message: ToSite) {
        let Some(say) = self.lines.get(&line) else { return };
        // A site that reads nothing for so long that its queue is full opens another line and goes on from there.
        if say.try_send(message).is_err() {
            tracing::warn!("line {line} does not take what it is told; it is closed");
            self.lines.remove(&line);
            self.hub.lost(line);
        }
    }

    fn note_opening(&mut self) {
        if self.held && !self.hub.held() {
            tracing::info!("the quorum is there: the run is open");
        }
        self.held = self.hub.held();
    }

    fn say_who_is_awaited(&self) {
        let absent: Vec<String> = self
            .hub
            .progress()
            .into_iter()
            .filter(|site| matches!(site.state, SiteState::Absent | SiteState::Away))
            .map(|site| site.name)
            .take(20)
            .collect();
        if absent.is_empty() || self.hub.exit().is_some() {
            return;
        }
        let left = self.due.map_or(0, |due| due.saturating_duration_since(Instant::now()).as_secs());
        tracing::info!(
            "waiting for {} at {} (quorum {}, {} came); {left} s left; Ctrl-C is safe: started again, the coordinator goes on",
            absent.join(", "),
            self.address,
            self.hub.quorum(),
            self.hub.came()
        );
    }

    fn note_awaited(&mut self) {
        let away: Vec<String> = self.hub.away().map(str::to_string).collect();
        let silent: Vec<String> = self.hub.silent().map(str::to_string).collect();
        let missing: Vec<String> = self.hub.missing().map(str::to_string).collect();
        self.awaited.retain(|name, _| [&away, &silent, &missing].iter().any(|names| names.contains(name)));
        for name in away.iter().chain(&missing).chain(&silent) {
            if self.awaited.contains_key(name) {
                continue;
            }
            if away.contains(name) {
                tracing::warn!("the line to {name} is lost; it may come back");
            } else if missing.contains(name) {
                tracing::info!("the quorum is ready; waiting {} s for {name}", self.job.config.wait);
            }
            self.awaited.insert(name.clone(), Instant::now());
        }
    }

    /// A stream's report is drawn again and again while it goes on.
    fn draw(&mut self) -> Result<(), Failure> {
        let over = self.hub.exit().is_some() || !self.hub.follows();
        if over || self.drawn.is_some_and(|drawn| drawn.elapsed() < REDRAW) {
            return Ok(());
        }
        self.drawn = Some(Instant::now());
        self.stale = false;
        self.write_report()
    }

    /// When the picture of what has come since the last one is due.
    fn redraw(&self) -> Option<Instant> {
        let follows = self.stale && self.hub.exit().is_none() && self.hub.follows();
        self.drawn.filter(|_| follows).map(|drawn| drawn + REDRAW)
    }

    fn write_report(&self) -> Result<(), Failure> {
        let Ok(report) = self.hub.report() else { return Ok(()) };
        let report = self.completed(report);
        if self.hub.exit().is_some() {
            // Whatever becomes of the folder of results: what came is forgotten when the next run begins.
            let place = self.place();
            let folder = place.parent().unwrap_or(&place);
            Folder::prepare(folder)?;
            write_whole(&place, Format::Json.render(&report).as_bytes())?;
        }
        self.folder.report(&report)?;
        Ok(())
    }

    /// Where the result of this run is kept.
    fn place(&self) -> PathBuf {
        self.state.folder().join("reports").join(format!("{}.json", self.hub.run()))
    }

    fn completed(&self, report: Report) -> Report {
        let total = self.begun.elapsed().as_secs_f64();
        Report {
            date: Some(date()),
            call: self.job.call.clone(),
            peak_rss_bytes: PerParty::Own(peak_rss_bytes()),
            seconds: PerParty::Own(Seconds { total, exchange: total, ..Seconds::default() }),
            ..report
        }
    }

    fn show(&self) {
        if let Some(publish) = &self.publish {
            publish.send_replace(self.status());
        }
    }

    fn status(&self) -> StatusReply {
        let progress = self.hub.progress();
        let anybody = progress.iter().any(|site| site.state != SiteState::Absent);
        StatusReply {
            study: self.job.study.head.id.clone(),
            digest: self.job.study.digest(),
            run: (anybody && !self.hub.held()).then(|| self.hub.run()),
            parties: progress
                .into_iter()
                .map(|site| {
                    let state = match site.state {
                        SiteState::Absent => PeerState::Absent,
                        SiteState::Here => PeerState::Joined,
                        SiteState::Away | SiteState::Left => PeerState::Lost,
                        SiteState::Complete => PeerState::Done,
                    };
                    let progress = Progress {
                        phase: if site.contributions > 0 { "contributions".to_string() } else { String::new() },
                        round: u32::try_from(site.contributions).unwrap_or(u32::MAX),
                        certificate: None,
                        bytes_sent: site.bytes,
                    };
                    (site.name, state, progress)
                })
                .collect(),
            exit: self.hub.exit(),
            quorum: Some(Quorum {
                needed: u32::try_from(self.hub.quorum()).unwrap_or(u32::MAX),
                came: u32::try_from(self.hub.came()).unwrap_or(u32::MAX),
            }),
            ends: self.due.filter(|_| self.hub.exit().is_none()),
        }
    }
}

/// When the time of a run is up, in a clock that nobody sets.
fn due(job: &Job<Sites>, state: &State) -> Option<Instant> {
    Instant::now().checked_add(state.left_of(Duration::from_secs(job.study.site_terms().deadline)))
}

#[cfg(test)]
mod tests {
    use fedreg_common::study::Study;
    use fedreg_proto::files::TlsTerms;

    use super::*;
    use crate::config::Config;
    use crate::state::tests::STEP;

    const STUDY: &str = "id = \"s\"\nprotocol = \"robust\"\n[workers.w]\ncertificate = \"w\"\n[model]\nfeatures = [\"a\"]\n\
                         [outcome]\ncolumn = \"y\"\n[sites]\ndeadline = 3600\n";

    #[test]
    fn a_clock_that_is_set_while_a_run_goes_on_does_not_move_its_deadline() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        let tls = TlsTerms { authority: place("a"), certificate: place("c"), key: place("k") };
        let job = Job {
            config: Config { study: place("s"), listen: String::new(), state: place("state"), wait: 1, tls },
            study: Arc::new(Study::parse(STUDY).unwrap().sites().unwrap()),
            keep: false,
            out: None,
            call: String::new(),
            announce: None,
        };
        let open = || State::open(&job.config.state, job.study.digest(), RunId([1; 16])).unwrap();
        let seconds =
            |driver: &Run<'_>| driver.status().ends.unwrap().saturating_duration_since(Instant::now()).as_secs_f64();
        let limits = BodyLimits { counts: 3, values: 8 };
        let results = || Folder::prepare(&place("out")).unwrap();
        let driver = Run::new(&job, open(), limits, results()).unwrap();
        for step in [7200, -7200] {
            STEP.set(step);
            assert!((seconds(&driver) - 3600.0).abs() < 60.0, "{}", seconds(&driver));
        }
        drop(driver);
        // Between two processes there is no other clock, but one that was set back makes nobody wait longer than the study says.
        STEP.set(-7200);
        let driver = Run::new(&job, open(), limits, results()).unwrap();
        assert!(seconds(&driver) <= 3600.0, "{}", seconds(&driver));
        drop(driver);
        STEP.set(1800);
        let driver = Run::new(&job, open(), limits, results()).unwrap();
        assert!((seconds(&driver) - 1800.0).abs() < 60.0, "{}", seconds(&driver));
        STEP.set(0);
    }
}
