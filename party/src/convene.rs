//! The line to the coordinator, kept open in the background whatever becomes of it.
//!
//! A coordinator that vanishes in the middle of a run does not end it: what it has to know is kept, and told when it is
//! back. Reasons to stop that come from there go to the same place as the user's.

use std::collections::VecDeque;
use std::future::Future;
use std::time::{Duration, Instant};

use fedreg_common::id::{Digest, Role, RunId};
use fedreg_common::session::Abort;
use fedreg_proto::coordinator::Joined;
use fedreg_proto::link::{Complaints, OpenError};
use fedreg_proto::register::{CoordinatorEvent, PartyEvent};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::drive::{Patience, check_port};
use crate::pace::{Notice, left};

/// How long a party that leaves waits for its last words to arrive.
const FAREWELL: Duration = Duration::from_secs(3);

/// Who joins, and how.
#[derive(Debug, Clone)]
pub struct Joining {
    /// Our role.
    pub role: Role,
    /// The digest of each key of our study.
    pub keys: Vec<(String, Digest)>,
    /// Where the coordinator is, for sentences.
    pub address: String,
    /// How long to wait and how often to try.
    pub patience: Patience,
    /// A run that was interrupted here and is taken up again.
    pub run: Option<RunId>,
    /// Drawn for this process.
    pub instance: [u8; 16],
}

/// A party's end of the line to the coordinator.
#[derive(Debug)]
pub struct Convener {
    say: mpsc::UnboundedSender<PartyEvent>,
    hear: mpsc::UnboundedReceiver<CoordinatorEvent>,
    task: JoinHandle<()>,
}

impl Convener {
    /// Joins, and keeps joining. Whatever must end the run goes to `stop`.
    pub fn start<D, F>(joining: Joining, dial: D, stop: mpsc::Sender<Abort>) -> Convener
    where
        D: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = Result<Joined, OpenError>> + Send + 'static,
    {
        let (say, said) = mpsc::unbounded_channel();
        let (heard, hear) = mpsc::unbounded_channel();
        let run = joining.run;
        let keeper = Keeper { joining, said, heard, stop, queue: VecDeque::new(), run, ready: false, leaving: false };
        Convener { say, hear, task: tokio::spawn(keeper.keep(dial)) }
    }

    /// Tells the coordinator, now or when it can be reached again.
    pub fn say(&self, event: PartyEvent) {
        // The keeper ends only after the convener, or when the run is over for us anyway.
        let _ = self.say.send(event);
    }

    /// What the coordinator says next; never an abort. `None` when it will say no more.
    pub async fn hear(&mut self) -> Option<CoordinatorEvent> {
        self.hear.recv().await
    }

    /// What the coordinator has said and nobody has heard yet.
    pub fn heard(&mut self) -> Option<CoordinatorEvent> {
        self.hear.try_recv().ok()
    }

    /// Leaves, once everything said has arrived or can no more.
    pub async fn leave(self) {
        drop(self.say);
        let _ = timeout(FAREWELL, self.task).await;
    }
}

struct Keeper {
    joining: Joining,
    said: mpsc::UnboundedReceiver<PartyEvent>,
    heard: mpsc::UnboundedSender<CoordinatorEvent>,
    stop: mpsc::Sender<Abort>,
    /// What was said while there was no line.
    queue: VecDeque<PartyEvent>,
    run: Option<RunId>,
    ready: bool,
    leaving: bool,
}

impl Keeper {
    async fn keep<D, F>(mut self, dial: D)
    where
        D: Fn() -> F,
        F: Future<Output = Result<Joined, OpenError>>,
    {
        let mut contact: Option<Instant> = None;
        let begun = Instant::now();
        let mut pause = Duration::ZERO;
        let mut complaints = Complaints::default();
        let mut notice = Notice::default();
        loop {
            if self.leaving && !self.has_last_words() {
                return;
            }
            match self.dial(&dial, pause).await {
                Ok(joined) => {
                    contact = Some(Instant::now());
                    notice = Notice::default();
                    let orderly = self.converse(joined).await;
                    if orderly {
                        return;
                    }
                    tracing::warn!(
                        "the line to the coordinator at {} is lost; the run goes on, joining again",
                        self.joining.address
                    );
                    pause = self.joining.patience.backoff;
                }
                // Once there was contact, anyone who is on the way may have led us to somebody else.
                Err(OpenError::Refused(sentence)) if contact.is_none() => {
                    self.end(Abort::Refused(sentence)).await;
                    return;
                }
                Err(error) => {
                    complaints.note(&error);
                    let patience = self.joining.patience;
                    let waited = contact.unwrap_or(begun).elapsed();
                    if notice.is_due(waited, patience.wait) {
                        let Joining { address, .. } = &self.joining;
                        match self.run {
                            None => tracing::info!(
                                "waiting for the coordinator at {address} ({error}); {} s left; Ctrl-C is safe: nothing was sent yet",
                                left(waited, patience.wait)
                            ),
                            Some(_) => {
                                tracing::info!("the coordinator at {address} is away; the run goes on without it")
                            }
                        }
                    }
                    if self.run.is_none() && waited >= patience.wait {
                        let Joining { role, address, .. } = &self.joining;
                        let seconds = patience.wait.as_secs_f64().round();
                        let waited = format!("{role} waited {seconds} s for the coordinator at {address}");
                        let check = check_port("`coordinator serve`", address);
                        let hint = format!("every party dials the coordinator: {check}");
                        self.end(error.in_vain(&waited, &hint)).await;
                        return;
                    }
                    pause = (pause * 2).clamp(patience.backoff, patience.backoff_limit);
                    if self.run.is_none() {
                        pause = pause.min(patience.wait.saturating_sub(waited));
                    }
                }
            }
        }
    }

    /// One attempt, while what is said meanwhile is kept.
    async fn dial<D, F>(&mut self, dial: &D, pause: Duration) -> Result<Joined, OpenError>
    where
        D: Fn() -> F,
        F: Future<Output = Result<Joined, OpenError>>,
    {
        let attempt = async {
            sleep(pause).await;
            dial().await
        };
        tokio::pin!(attempt);
        loop {
            tokio::select! {
                joined = &mut attempt => return joined,
                event = self.said.recv(), if !self.leaving => match event {
                    Some(event) => self.note(event),
                    None => {
                        self.leaving = true;
                        if !self.has_last_words() {
                            return Err(OpenError::Unreachable("leaving".to_string()));
                        }
                    }
                },
            }
        }
    }

    fn note(&mut self, event: PartyEvent) {
        match event {
            // Said again on every line.
            PartyEvent::Ready => self.ready = true,
            PartyEvent::Progress(_) => {
                self.queue.retain(|queued| !matches!(queued, PartyEvent::Progress(_)));
                self.queue.push_back(event);
            }
            other @ (PartyEvent::Join { .. } | PartyEvent::Abort(_) | PartyEvent::Done(_)) => {
                self.queue.push_back(other)
            }
        }
    }

    fn has_last_words(&self) -> bool {
        self.queue.iter().any(|event| matches!(event, PartyEvent::Abort(_) | PartyEvent::Done(_)))
    }

    /// Talks until the line is lost (`false`), or until we leave or are refused (`true`).
    async fn converse(&mut self, mut line: Joined) -> bool {
        let join = PartyEvent::Join {
            role: self.joining.role,
            version: fedreg_common::conversation::VERSION,
            keys: self.joining.keys.clone(),
            run: self.run,
            instance: Some(self.joining.instance),
        };
        let mut opening = vec![join];
        opening.extend(self.ready.then_some(PartyEvent::Ready));
        opening.extend(self.queue.iter().cloned());
        for event in opening {
            if line.say.send(event).await.is_err() {
                return false;
            }
        }
        self.queue.clear();
        loop {
            tokio::select! {
                event = self.said.recv(), if !self.leaving => match event {
                    Some(event) => {
                        self.ready |= event == PartyEvent::Ready;
                        if line.say.send(event.clone()).await.is_err() {
                            self.note(event);
                            return false;
                        }
                    }
                    None => self.leaving = true,
                },
                event = line.hear.recv() => match event {
                    Some(event) => {
                        if !self.pass_on(event).await {
                            return true;
                        }
                    }
                    None => return false,
                },
            }
            if self.leaving {
                // Half-closed, then heard to the end: what was said has arrived.
                let Joined { say, mut hear } = line;
                drop(say);
                while hear.recv().await.is_some() {}
                return true;
            }
        }
    }

    /// Whether there is anything more to talk about.
    async fn pass_on(&mut self, event: CoordinatorEvent) -> bool {
        match event {
            CoordinatorEvent::Welcome { differing } if !differing.is_empty() => {
                self.end(Abort::Study { keys: differing, with: Role::Coordinator }).await;
                false
            }
            CoordinatorEvent::Abort { from, notice } => {
                self.end(Abort::Remote { from, exit: notice.exit, sentence: notice.sentence }).await;
                // The line stays: our own last words may still have to go out.
                true
            }
            event @ (CoordinatorEvent::Welcome { .. }
            | CoordinatorEvent::Peer { .. }
            | CoordinatorEvent::Start { .. }
            | CoordinatorEvent::Ended) => {
                if let CoordinatorEvent::Start { run } = event {
                    self.run = Some(run);
                }
                let _ = self.heard.send(event);
                true
            }
        }
    }

    async fn end(&self, abort: Abort) {
        let _ = self.stop.send(abort).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    use fedreg_common::exit::Exit;
    use fedreg_proto::link;
    use fedreg_proto::register::Progress;

    /// The coordinator's end of a line.
    struct FarEnd {
        hear: mpsc::Receiver<PartyEvent>,
        say: mpsc::Sender<CoordinatorEvent>,
    }

    fn line() -> (Joined, FarEnd) {
        let (say, heard) = mpsc::channel(8);
        let (said, hear) = mpsc::channel(8);
        (Joined { say, hear }, FarEnd { hear: heard, say: said })
    }

    fn joining(wait: Duration) -> Joining {
        Joining {
            role: Role::Alice,
            keys: vec![],
            address: "coordinator.example:7100".to_string(),
            patience: Patience {
                wait,
                backoff: Duration::from_millis(1),
                backoff_limit: Duration::from_millis(2),
                ..Patience::default()
            },
            run: None,
            instance: [1; 16],
        }
    }

    fn start(lines: Vec<Result<Joined, OpenError>>, wait: u64) -> (Convener, mpsc::Receiver<Abort>) {
        let (stop, stopped) = mpsc::channel(4);
        let lines = Mutex::new(VecDeque::from(lines));
        let dial = move || {
            let next = lines.lock().unwrap().pop_front();
            async move { next.unwrap_or_else(|| Err(OpenError::Unreachable("nobody listens".to_string()))) }
        };
        (Convener::start(joining(Duration::from_millis(wait)), dial, stop), stopped)
    }

    fn run(future: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(future);
    }

    #[test]
    fn a_lost_coordinator_is_joined_again_with_the_run_and_hears_what_it_missed() {
        run(async {
            let (first, mut far) = line();
            let (second, mut again) = line();
            let (mut convener, _stopped) = start(vec![Ok(first), Ok(second)], 1000);
            assert!(matches!(far.hear.recv().await, Some(PartyEvent::Join { run: None, .. })));
            convener.say(PartyEvent::Ready);
            assert_eq!(far.hear.recv().await, Some(PartyEvent::Ready));
            let id = RunId([7; 16]);
            far.say.send(CoordinatorEvent::Start { run: id }).await.unwrap();
            assert_eq!(convener.hear().await, Some(CoordinatorEvent::Start { run: id }));
            drop(far);
            assert!(matches!(again.hear.recv().await, Some(PartyEvent::Join { run: Some(run), .. }) if run == id));
            assert_eq!(again.hear.recv().await, Some(PartyEvent::Ready));
            convener.say(PartyEvent::Progress(Progress::default()));
            convener.say(PartyEvent::Done(Exit::Done));
            let left = tokio::spawn(convener.leave());
            assert!(matches!(again.hear.recv().await, Some(PartyEvent::Progress(_))));
            assert_eq!(again.hear.recv().await, Some(PartyEvent::Done(Exit::Done)));
            assert_eq!(again.hear.recv().await, None, "half-closed");
            drop(again.say);
            left.await.unwrap();
        });
    }

    #[test]
    fn a_coordinator_that_never_comes_is_named_with_the_time() {
        run(async {
            let (_convener, mut stopped) = start(vec![], 20);
            let abort = stopped.recv().await.unwrap();
            assert_eq!(abort.exit(), Exit::Unreachable);
            assert_eq!(
                abort.to_string(),
                "alice waited 0 s for the coordinator at coordinator.example:7100; nobody listens; every party dials the \
                 coordinator: check that `coordinator serve` runs and is reached at this address, and that no firewall closes \
                 port 7100"
            );
        });
    }

    #[test]
    fn a_handshake_that_fails_unproven_is_tried_again_and_ends_a_wait_in_vain_as_it_is() {
        run(async {
            let spoiled = |refused| {
                let sentence =
                    "coordinator at coordinator.example:7100 shows a certificate from 'elsewhere'".to_string();
                Err(OpenError::Unproven { sentence, refused })
            };
            let (line, mut far) = line();
            let (_convener, _stopped) = start(vec![spoiled(true), spoiled(false), Ok(line)], 10_000);
            assert!(matches!(far.hear.recv().await, Some(PartyEvent::Join { .. })));

            for (refused, exit) in [(true, Exit::Refused), (false, Exit::Unreachable)] {
                let (_convener, mut stopped) = start((0..1000).map(|_| spoiled(refused)).collect(), 20);
                let abort = stopped.recv().await.unwrap();
                assert_eq!(abort.exit(), exit);
                assert!(abort.to_string().ends_with("shows a certificate from 'elsewhere'"), "{abort}");
            }
        });
    }

    #[test]
    fn a_refusal_is_final_before_the_first_contact_only() {
        run(async {
            let refused = || Err(OpenError::Refused("its study expects another name".to_string()));
            let (_convener, mut stopped) = start(vec![refused()], 60_000);
            assert_eq!(stopped.recv().await.unwrap().exit(), Exit::Refused);

            let ((first, far), (second, mut again)) = (line(), line());
            let (_convener, _stopped) = start(vec![Ok(first), refused(), Ok(second)], 60_000);
            drop(far);
            assert!(matches!(again.hear.recv().await, Some(PartyEvent::Join { .. })));
        });
    }

    #[test]
    fn differing_studies_and_relayed_aborts_stop_the_run() {
        run(async {
            let (first, far) = line();
            let (_convener, mut stopped) = start(vec![Ok(first)], 1000);
            let differing = vec!["fit.tol".to_string()];
            far.say.send(CoordinatorEvent::Welcome { differing }).await.unwrap();
            let abort = stopped.recv().await.unwrap();
            assert_eq!(
                abort.to_string(),
                "the study files differ in: fit.tol (compared with that of coordinator); agree on one file and give it to all"
            );

            let (first, far) = line();
            let (_convener, mut stopped) = start(vec![Ok(first)], 1000);
            let notice =
                link::Notice { exit: Exit::Interrupted, sentence: "interrupted by the user of bob".to_string() };
            let from = Role::Bob;
            far.say.send(CoordinatorEvent::Abort { from, notice }).await.unwrap();
            assert_eq!(stopped.recv().await.unwrap().exit(), Exit::Interrupted);
        });
    }

    #[test]
    fn a_party_without_last_words_leaves_at_once() {
        run(async {
            let (convener, _stopped) = start(vec![], 60_000);
            timeout(Duration::from_secs(2), convener.leave()).await.unwrap();
        });
    }
}
