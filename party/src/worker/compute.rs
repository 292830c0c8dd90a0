//! Drives the computation of a worker beside its conversation: in threads, from its file, over its ledger.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fedreg_common::methods::registry;
use fedreg_common::session::Abort;
use fedreg_common::star::site::local::{Act, Contribution, Fitting, Input, Local};
use fedreg_common::study::{Sites, Study};
use tokio::sync::mpsc;

use super::batches::Source;
use super::join::WINDOW;
use super::private::Charged;
use crate::failure::Failure;

/// Inputs on their way to the computation. What the hub publishes replaces what it had published before, as only the latest counts:
/// however long a source is silent, and however much a hub says, no more than one of each kind waits.
type Waiting = Arc<Mutex<VecDeque<Input>>>;

/// Where inputs go in; dropping it ends them.
#[derive(Debug)]
pub(crate) struct InputSender {
    waiting: Waiting,
    bell: SyncSender<()>,
}

/// Where they come out.
#[derive(Debug)]
struct InputReceiver {
    waiting: Waiting,
    bell: Receiver<()>,
}

fn inputs() -> (InputSender, InputReceiver) {
    let (ring, bell) = sync_channel(1);
    let waiting = Waiting::default();
    (InputSender { waiting: Arc::clone(&waiting), bell: ring }, InputReceiver { waiting, bell })
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl InputSender {
    pub(crate) fn send(&self, input: Input) {
        let mut waiting = locked(&self.waiting);
        waiting.retain(|old| std::mem::discriminant(old) != std::mem::discriminant(&input));
        waiting.push_back(input);
        // Where it has rung already, or nobody listens any more, there is nothing to do.
        let _ = self.bell.try_send(());
    }
}

impl InputReceiver {
    /// The next input; none when no more will come.
    fn recv(&self) -> Option<Input> {
        loop {
            if let Some(input) = self.try_recv() {
                return Some(input);
            }
            if self.bell.recv().is_err() {
                // After its end all that came is there.
                return self.try_recv();
            }
        }
    }

    /// The next input, if there is one already.
    fn try_recv(&self) -> Option<Input> {
        locked(&self.waiting).pop_front()
    }
}

/// What comes of a computation.
#[derive(Debug)]
pub(crate) enum Progress {
    /// A contribution, in the place of its turn.
    Piece(u64, Piece),
    /// The rows are read, and their budget is there: contributions follow when the coordinator asks for them.
    Ready,
    /// There will be no contribution.
    Failed(Failure),
}

/// A contribution with the time that it took.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) contribution: Contribution,
    pub(crate) solve: Duration,
}

/// Puts pieces back into their order, as fits beside each other end in any.
#[derive(Debug, Default)]
pub(crate) struct InOrder {
    next: u64,
    early: BTreeMap<u64, Piece>,
}

impl InOrder {
    pub(crate) fn put(&mut self, turn: u64, piece: Piece) {
        self.early.insert(turn, piece);
    }

    pub(crate) fn next(&mut self) -> Option<Piece> {
        let piece = self.early.remove(&self.next)?;
        self.next += 1;
        Some(piece)
    }
}

/// A computation with the table that it reads.
pub(crate) struct Prepared {
    local: Local,
    source: Source,
}

impl Prepared {
    /// The computation of a study, of at least a given number of rows.
    pub(crate) fn new(study: &Study<Sites>, source: Source, least: u64) -> Result<Prepared, Failure> {
        let local = registry::site(study, least).map_err(|error| Failure::Usage(error.to_string()))?;
        Ok(Prepared { local, source })
    }

    /// Reads all rows, where they are read before the run begins.
    pub(crate) fn read(&mut self) -> Result<(), Failure> {
        let mut input = Input::Done;
        while let Act::Read(_) = self.local.step(input)? {
            input = Input::Rows(self.source.batch()?);
        }
        Ok(())
    }

    /// A digest of the rows that were read, in their order.
    pub(crate) fn content(&self) -> [u8; 32] {
        self.source.content()
    }

    /// Whose rows were read.
    pub(crate) fn ids(&self) -> &[Vec<u8>] {
        self.local.ids()
    }
}

/// How a computation runs.
pub(crate) struct Terms {
    /// Number of the first contribution.
    pub(crate) first: u64,
    /// Whether the rows of earlier contributions are gone from the source, as from standard input.
    pub(crate) gone: bool,
    /// Fits at the same time.
    pub(crate) threads: usize,
    /// The ledger of a private run.
    pub(crate) charged: Option<Charged>,
}

/// A computation that is under way.
pub(crate) struct Running {
    pub(crate) progress: mpsc::Receiver<Progress>,
    pub(crate) inputs: InputSender,
}

/// Starts a computation in a thread of its own. The channel ends after the last contribution.
pub(crate) fn start(prepared: Prepared, terms: Terms) -> Running {
    let Prepared { local, mut source } = prepared;
    if terms.gone {
        source.number_from(terms.first);
    }
    let (sender, inputs) = inputs();
    // A stream keeps twice the window of what it has noised: no more than that may be made and not yet be acknowledged.
    let (out, progress) = mpsc::channel((2 * terms.threads.max(1)).min(WINDOW / 2));
    let failed = out.clone();
    let driver = Driver { local, source, terms, inputs, out, fits: None, turn: 0, solve: Duration::ZERO };
    thread::spawn(move || {
        // A thread that ends without a word would count as complete.
        let ended = catch_unwind(AssertUnwindSafe(|| driver.run())).unwrap_or_else(|_| Err(panicked()));
        if let Err(failure) = ended {
            let _ = failed.blocking_send(Progress::Failed(failure));
        }
    });
    Running { progress, inputs: sender }
}

fn panicked() -> Failure {
    Abort::Bug("a contribution could not be made".to_string()).into()
}

struct Driver {
    local: Local,
    source: Source,
    terms: Terms,
    inputs: InputReceiver,
    out: mpsc::Sender<Progress>,
    /// Where batches are fitted, once there is one.
    fits: Option<SyncSender<(u64, Fitting)>>,
    /// Contributions so far.
    turn: u64,
    /// Time spent on the next one.
    solve: Duration,
}

impl Driver {
    fn run(mut self) -> Result<(), Failure> {
        let mut input = Input::Begin(self.terms.first);
        loop {
            let begun = Instant::now();
            let act = self.local.step(input)?;
            self.solve += begun.elapsed();
            input = match self.act(act)? {
                Some(input) => input,
                None => return Ok(()),
            };
        }
    }

    /// Does what the computation asks for; none when it is over, or nobody wants its contributions any more.
    fn act(&mut self, act: Act) -> Result<Option<Input>, Failure> {
        let charged = self.terms.charged.as_mut().ok_or_else(|| Abort::Bug("a charge without a ledger".to_string()));
        Ok(match act {
            Act::Read(None) => Some(Input::Rows(self.source.batch()?)),
            Act::Read(Some(rows)) => Some(Input::Rows(self.source.take(rows)?)),
            Act::Skip(rows) => {
                match self.terms.gone {
                    true => self.source.rows_from(rows),
                    false => self.source.skip(rows)?,
                }
                Some(Input::Done)
            }
            Act::Wait => self.inputs.recv(),
            Act::Poll => Some(self.inputs.try_recv().unwrap_or(Input::Silence)),
            Act::Claim(claim) => {
                charged?.claim(claim, &self.source.content())?;
                Some(Input::Done)
            }
            Act::Ready => self.out.blocking_send(Progress::Ready).ok().map(|()| Input::Done),
            Act::Reserve => {
                charged?.reserve()?;
                Some(Input::Done)
            }
            Act::Release { index, query } => {
                let begun = Instant::now();
                let noised = charged?.ledger.release(index, &query)?;
                self.solve += begun.elapsed();
                Some(Input::Granted(noised))
            }
            Act::Recall { number, right } => Some(Input::Kept(charged?.kept(number, &right)?)),
            Act::Noise { number, ids } => {
                let local = &mut self.local;
                let begun = Instant::now();
                let (noised, refused) =
                    charged?.noise(number, &ids, |first, usable, pool| local.noised(first, usable, pool))?;
                self.solve += begun.elapsed();
                Some(Input::Noised(noised, refused))
            }
            Act::Fit(fitting) => {
                let (out, threads) = (&self.out, self.terms.threads.max(1));
                let fits = self.fits.get_or_insert_with(|| fitters(threads, out));
                self.turn += 1;
                fits.send((self.turn - 1, fitting)).ok().map(|()| Input::Done)
            }
            Act::Contribute(contribution) => {
                let piece = Piece { contribution, solve: std::mem::take(&mut self.solve) };
                self.turn += 1;
                self.out.blocking_send(Progress::Piece(self.turn - 1, piece)).ok().map(|()| Input::Done)
            }
            Act::Finish(warnings) => {
                warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
                if let Ok(charged) = charged {
                    charged.end()?;
                }
                None
            }
        })
    }
}

/// Threads that fit batches; what waits for them is no more than there are threads.
fn fitters(threads: usize, out: &mpsc::Sender<Progress>) -> SyncSender<(u64, Fitting)> {
    let (give, take) = sync_channel::<(u64, Fitting)>(threads);
    let take = Arc::new(Mutex::new(take));
    for _ in 0..threads {
        let (take, out) = (Arc::clone(&take), out.clone());
        thread::spawn(move || {
            while let Some((turn, fitting)) = next(&take) {
                let begun = Instant::now();
                let fitted = catch_unwind(AssertUnwindSafe(|| fitting.run()));
                let solve = begun.elapsed();
                let progress = match fitted {
                    Ok(contribution) => Progress::Piece(turn, Piece { contribution, solve }),
                    Err(_) => Progress::Failed(panicked()),
                };
                if out.blocking_send(progress).is_err() {
                    return;
                }
            }
        });
    }
    give
}

fn next<T>(take: &Mutex<Receiver<T>>) -> Option<T> {
    locked(take).recv().ok()
}

#[cfg(test)]
mod tests {
    use fedreg_common::star::message::{Body, Kind};

    use super::*;

    #[test]
    fn however_much_is_published_only_the_latest_waits_and_the_opening_is_not_lost() {
        let (sender, receiver) = inputs();
        let body = || Body { kind: Kind::Weights, counts: vec![1], values: vec![0.0] };
        sender.send(Input::Opened);
        (0..10_000).for_each(|number| sender.send(Input::Heard { number, body: body() }));
        sender.send(Input::Rejected);
        assert_eq!(locked(&receiver.waiting).len(), 3);
        assert!(matches!(receiver.recv(), Some(Input::Opened)));
        assert!(matches!(receiver.try_recv(), Some(Input::Heard { number: 9999, .. })));
        assert!(matches!(receiver.recv(), Some(Input::Rejected)));
        assert!(receiver.try_recv().is_none());
        drop(sender);
        assert!(receiver.recv().is_none());
    }
}
