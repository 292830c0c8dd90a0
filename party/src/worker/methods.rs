//! The contributions of the methods that listen: sums of gradients in rounds, statistics of features, records of a stream.
//!
//! Each runs in a thread of its own. It reads, hears what the hub says, and yields contributions in order.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use fedreg_common::em::{self, EmError, Model, Records};
use fedreg_common::id::Role;
use fedreg_common::privacy::bounds::{ClippedOutcome, ClippedRows};
use fedreg_common::privacy::mechanism::{Query, ReleasePlan};
use fedreg_common::privacy::release::Released;
use fedreg_common::privacy::robust;
use fedreg_common::session::{Abort, PeerFault};
use fedreg_common::star::em::{body_of, coefficients_of, released as released_sum};
use fedreg_common::star::features::Gathered;
use fedreg_common::star::message::Body;
use fedreg_common::star::robust::private_body;
use fedreg_common::star::stream::{Maker, before, group, released as released_records, weights_of};
use fedreg_common::study::{self, Guarantee, SiteMethod, Sites, Study};
use nalgebra::DMatrix;
use tokio::sync::mpsc;

use super::batches::{Batch, Source};
use super::persons::Persons;
use super::pipeline::{Content, Piece, Yield};
use super::private::Purse;
use crate::service::Failure;

/// What the hub says, as far as contributions depend on it.
#[derive(Debug)]
pub(crate) enum Word {
    /// What it has found so far, or what it asks.
    Heard(u64, Body),
    /// The latest contribution was not accepted.
    Rejected,
    /// The quorum is there: what costs budget may begin.
    Open,
}

/// Words on their way to whoever makes contributions. What the hub publishes replaces what it had published before, as only the latest
/// counts: however long a source is silent, and however much a hub says, no more than a few wait.
#[derive(Debug)]
struct Way {
    waiting: Mutex<(VecDeque<Word>, bool)>,
    came: Condvar,
}

/// Where words go in; dropping it ends them.
#[derive(Debug)]
pub(crate) struct Ear(Arc<Way>);

/// Where they come out.
#[derive(Debug)]
pub(crate) struct Words(Arc<Way>);

fn channel() -> (Ear, Words) {
    let way = Arc::new(Way { waiting: Mutex::default(), came: Condvar::new() });
    (Ear(Arc::clone(&way)), Words(way))
}

impl Way {
    fn waiting(&self) -> std::sync::MutexGuard<'_, (VecDeque<Word>, bool)> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ear {
    pub(crate) fn send(&self, word: Word) {
        let mut waiting = self.0.waiting();
        let alike = |old: &Word| std::mem::discriminant(old) == std::mem::discriminant(&word);
        waiting.0.retain(|old| !alike(old));
        waiting.0.push_back(word);
        self.0.came.notify_one();
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        self.0.waiting().1 = true;
        self.0.came.notify_one();
    }
}

impl Words {
    /// The next word; none when no more will come.
    fn recv(&self) -> Option<Word> {
        let mut waiting = self.0.waiting();
        loop {
            if let Some(word) = waiting.0.pop_front() {
                return Some(word);
            }
            if waiting.1 {
                return None;
            }
            waiting = self.0.came.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The next word, if there is one already.
    fn try_recv(&self) -> Option<Word> {
        self.0.waiting().0.pop_front()
    }
}

/// Contributions that are under way, and the ear of whoever makes them.
pub(crate) struct Under {
    pub(crate) pieces: mpsc::Receiver<Yield>,
    pub(crate) ear: Ear,
}

/// What a private run has beside its rows.
pub(crate) struct Secret {
    pub(crate) purse: Purse,
    /// Folder for what must survive the process.
    pub(crate) state: PathBuf,
    pub(crate) run: String,
}

/// Where a worker's rows begin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Start {
    /// Number of the first contribution.
    pub(crate) first: u64,
    /// Whether the source begins with the rows of contribution 0, and not with those of the first.
    pub(crate) rewound: bool,
    /// Fewest rows that this worker's policy lets take part.
    pub(crate) min_rows: u64,
}

/// Refuses too few rows, before anything is spent on them.
fn enough(rows: u64, least: u64) -> Result<(), Failure> {
    match rows < least {
        true => {
            Err(Abort::Refused(format!("this worker's policy asks for at least {least} rows, and there are {rows}"))
                .into())
        }
        false => Ok(()),
    }
}

/// A worker's rows.
pub(crate) enum Rows {
    /// Still to be read: of a plain run, or of a stream.
    Unread(Box<Source>),
    /// As a private run reads them, before anybody is contacted.
    Read(Box<Held>),
}

impl Rows {
    fn held(self, study: &Study<Sites>, least: u64) -> Result<Held, Failure> {
        match self {
            Rows::Unread(source) => Held::read(study, *source, least),
            Rows::Read(held) => Ok(*held),
        }
    }
}

/// All rows of a table, as its method uses them.
pub(crate) struct Held {
    table: Table,
    /// Whose they are, in private runs.
    ids: Vec<Vec<u8>>,
    rows: u64,
    /// Rows that were left out.
    missing: u64,
    /// Digest of everything that was read in a private run.
    content: [u8; 32],
}

enum Table {
    Records(Records),
    /// With what is to be released of them in a private run.
    Gathered(Gathered, Option<Query>),
    Batches(Vec<Portion>),
}

/// A batch of a private robust study.
struct Portion {
    plan: robust::Plan,
    x: ClippedRows,
    y: ClippedOutcome,
}

impl Held {
    /// Reads all rows, of which `least` are asked for.
    ///
    /// # Errors
    /// Rows that cannot be used, and what the policy or the budget do not allow of so many.
    pub(crate) fn read(study: &Study<Sites>, mut source: Source, least: u64) -> Result<Held, Failure> {
        let (mut ids, mut missing) = (Vec::new(), 0);
        let (table, rows) = match &study.method.method {
            SiteMethod::Em(em) => {
                let records = read_records(em.settings.stated().model, &mut source, &mut ids, &mut missing)?;
                let count = records.len() as u64;
                (Table::Records(records), count)
            }
            SiteMethod::Features(features) => {
                let mut gathered = Gathered::new(features);
                while let Some(batch) = source.batch()? {
                    missing += batch.missing;
                    gathered.push(&batch.x, batch.y.as_slice()).map_err(bug)?;
                    ids.extend(batch.ids);
                }
                let count = gathered.records();
                if count == 0 {
                    return Err(Abort::OwnData("no row is complete".to_string()).into());
                }
                // Solving may fail as well, and is done before anybody could notice.
                let query = match study.guarantee {
                    Guarantee::Plain => None,
                    Guarantee::Private(_) => Some(Query::bounded(&gathered.bounded().map_err(bug)?)),
                };
                (Table::Gathered(gathered, query), count)
            }
            SiteMethod::Stream(_) => return Err(bug("a stream is read while it goes on")),
            SiteMethod::Robust(robust) => {
                let (bounds, outcome) =
                    (study.batch_bounds(robust).map_err(bug)?, study.outcome_bounds().map_err(bug)?);
                let (mut portions, mut count) = (Vec::new(), 0);
                while let Some(batch) = source.batch()? {
                    let rows = batch.y.len() as u64;
                    enough(rows, least)?;
                    let plan = study.batch_plan(robust, rows).map_err(|error| Abort::Refused(error.to_string()))?;
                    let (x, y) = ClippedRows::with_outcome(&bounds, &batch.x, &outcome, batch.y.as_slice());
                    portions.push(Portion { plan, x, y });
                    count += rows;
                    ids.extend(batch.ids);
                }
                if portions.is_empty() {
                    return Err(Abort::OwnData("there is no row".to_string()).into());
                }
                (Table::Batches(portions), count)
            }
        };
        if !matches!(table, Table::Batches(_)) {
            enough(rows, least)?;
        }
        Ok(Held { table, ids, rows, missing, content: source.content() })
    }

    /// Whose rows they are.
    pub(crate) fn ids(&self) -> &[Vec<u8>] {
        &self.ids
    }
}

/// Begins with contribution number `start.first`; with a secret, everything that leaves has noise.
///
/// # Errors
/// The study cannot be used.
pub(crate) fn start(
    study: &Arc<Study<Sites>>,
    rows: Rows,
    start: Start,
    secret: Option<Secret>,
) -> Result<Under, Failure> {
    let (ear, words) = channel();
    let (give, pieces) = mpsc::channel(2);
    let yields = give.clone();
    let (study, shared) = (Arc::clone(study), study);
    let run: Box<dyn FnOnce() -> Result<(), Failure> + Send> = match (&shared.method.method, rows) {
        (SiteMethod::Em(em), rows) => {
            let settings = em.settings.clone();
            Box::new(move || rounds(&settings, rows.held(&study, start.min_rows)?, start, &words, &give, secret))
        }
        (SiteMethod::Features(_), rows) => Box::new(move || {
            // What was sent once is there.
            match start.first {
                0 => once(rows.held(&study, start.min_rows)?, &words, &give, secret),
                _ => Ok(()),
            }
        }),
        (SiteMethod::Robust(robust), rows) => {
            let secret = secret.ok_or_else(|| bug("batches without privacy are fitted elsewhere"))?;
            let robust = robust.clone();
            Box::new(move || {
                let held = rows.held(&study, start.min_rows)?;
                fit_batches((&study, &robust), held, secret, start, &words, &give)
            })
        }
        (SiteMethod::Stream(stream), Rows::Unread(source)) => {
            let maker = Maker::new(stream);
            let (most, per_person) = (shared.site_terms().batch_rows, stream.records_per_person);
            let records = Stream { maker, most, source: *source, noising: None, outside: 0 };
            Box::new(move || records.begin(secret, per_person, start, &words, &give))
        }
        (SiteMethod::Stream(_), Rows::Read(_)) => {
            return Err(bug("a stream is read while it goes on"));
        }
    };
    thread::spawn(move || {
        // A thread that ends without a word would count as complete.
        let ended =
            catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err(bug("a contribution could not be made")));
        if let Err(failure) = ended {
            let _ = yields.blocking_send(Yield::Failed(failure));
        }
    });
    Ok(Under { pieces, ear })
}

/// A piece of rows that were read since the piece before.
fn piece(number: u64, content: Content, rows: u64, missing: u64, begun: Instant) -> Yield {
    Yield::Piece(Piece { number, content, rows, missing, unfit: None, solve: begun.elapsed() })
}

/// Says that everything is there, and waits until the quorum is, too; false when the run is over before.
fn quorum(words: &Words, give: &mpsc::Sender<Yield>) -> bool {
    if give.blocking_send(Yield::Ready).is_err() {
        return false;
    }
    loop {
        match words.recv() {
            Some(Word::Open) => return true,
            Some(_) => {}
            None => return false,
        }
    }
}

fn bug(error: impl std::fmt::Display) -> Failure {
    Abort::Bug(error.to_string()).into()
}

fn fault(expected: &'static str) -> Failure {
    let fault = PeerFault::Garbage(format!("something else than {expected}"));
    Abort::Peer { peer: Role::Coordinator, fault }.into()
}

/// All rows of a table as records of a model with something hidden.
fn read_records(
    model: Model,
    source: &mut Source,
    ids: &mut Vec<Vec<u8>>,
    missing: &mut u64,
) -> Result<Records, Failure> {
    let (mut rows, mut y, mut columns) = (Vec::new(), Vec::new(), 0);
    while let Some(batch) = source.batch()? {
        columns = batch.x.ncols();
        *missing += batch.missing;
        rows.extend(batch.x.transpose().iter());
        y.extend(batch.y.iter());
        ids.extend(batch.ids);
    }
    let x = DMatrix::from_row_slice(y.len(), columns, &rows);
    let records: Result<Records, EmError> = match model {
        Model::GaussianMixture => Records::mixture(&x),
        Model::MixedRegressions => Records::regressions(&x, &y),
        Model::MissingCovariates => Records::with_missing(&x, &y),
    };
    match records {
        Ok(records) if records.is_empty() => Err(Abort::OwnData("no row is complete".to_string()).into()),
        records => records.map_err(bug),
    }
}

fn rounds(
    settings: &em::Settings,
    held: Held,
    start: Start,
    words: &Words,
    give: &mpsc::Sender<Yield>,
    mut secret: Option<Secret>,
) -> Result<(), Failure> {
    let Held { table: Table::Records(records), ids, rows: count, mut missing, content } = held else {
        return Err(bug("rows of another method"));
    };
    let claim = secret.as_mut().map(|secret| secret.purse.claim(ids, count, &content)).transpose()?;
    if !quorum(words, give) {
        return Ok(());
    }
    if let (Some(Secret { purse, .. }), Some(claim)) = (&mut secret, &claim) {
        // All rounds before the first.
        purse.reserve(claim)?;
    }
    let (mut rows, mut next) = (count, start.first);
    while let Some(word) = words.recv() {
        match word {
            // The round goes on: another answer of ours would be another release of it.
            Word::Rejected | Word::Open => {}
            // A later round than the next: others were closed while the line was lost.
            Word::Heard(number, body) if number >= next => {
                let begun = Instant::now();
                let beta = coefficients_of(&body, settings.stated().columns).ok_or_else(|| fault("coefficients"))?;
                let unusable = |_| fault("coefficients that are numbers");
                let content = match &mut secret {
                    None => Content::Plain(body_of(settings, &records, beta).map_err(unusable)?),
                    Some(Secret { purse, .. }) => {
                        let sum = settings.bounded_sum(&records, beta).map_err(unusable)?;
                        let sum = sum.ok_or_else(|| bug("a private run without a bound"))?;
                        let round = u32::try_from(number).unwrap_or(u32::MAX);
                        Content::Released(released_sum(&purse.make(round, &Query::bounded(&sum))?, count))
                    }
                };
                if give.blocking_send(piece(number, content, rows, missing, begun)).is_err() {
                    return Ok(());
                }
                (rows, missing) = (0, 0);
                next = number + 1;
            }
            Word::Heard(..) => {}
        }
    }
    Ok(())
}

fn once(held: Held, words: &Words, give: &mpsc::Sender<Yield>, secret: Option<Secret>) -> Result<(), Failure> {
    let begun = Instant::now();
    let Held { table: Table::Gathered(gathered, query), ids, rows, missing, content } = held else {
        return Err(bug("rows of another method"));
    };
    let content = match (secret, query) {
        (None, _) => Content::Plain(gathered.body().map_err(bug)?),
        (Some(Secret { mut purse, .. }), Some(query)) => {
            let claim = purse.claim(ids, rows, &content)?;
            if !quorum(words, give) {
                return Ok(());
            }
            purse.reserve(&claim)?;
            Content::Released(gathered.released(&purse.make(0, &query)?))
        }
        (Some(_), None) => return Err(bug("nothing to be released")),
    };
    let _ = give.blocking_send(piece(0, content, rows, missing, begun));
    Ok(())
}

/// Fits one batch of a private robust study after the other, each by noised releases of its own. The budget of all of them is reserved
/// before the first.
fn fit_batches(
    (study, robust): (&Study<Sites>, &study::Robust),
    held: Held,
    secret: Secret,
    start: Start,
    words: &Words,
    give: &mpsc::Sender<Yield>,
) -> Result<(), Failure> {
    let Held { table: Table::Batches(portions), ids, rows, content, .. } = held else {
        return Err(bug("rows of another method"));
    };
    let (bounds, outcome) = (study.batch_bounds(robust).map_err(bug)?, study.outcome_bounds().map_err(bug)?);
    let mut purse = secret.purse;
    let plans: Vec<ReleasePlan> = portions.iter().map(|portion| portion.plan.releases().clone()).collect();
    purse.plan(ReleasePlan::of_parts(&plans));
    let claim = purse.claim(ids, rows, &content)?;
    if !quorum(words, give) {
        return Ok(());
    }
    purse.reserve(&claim)?;
    // Every site is taken to have as many batches as this one.
    let together = (portions.len() as u64).saturating_mul(u64::from(study.number_of_sites()));
    let mut offset = 0;
    for (number, Portion { plan, x, y }) in (0..).zip(portions) {
        let begun = Instant::now();
        let rows = x.len() as u64;
        let releases = u32::try_from(plan.releases().releases().len()).unwrap_or(u32::MAX);
        // What the coordinator has needs no second fit; its releases keep their places.
        if number >= start.first {
            let mut fit = robust::Fit::new(plan, x, y).map_err(bug)?;
            while let robust::Need::Release { index, query } = fit.need().map_err(bug)? {
                fit.supply(&purse.make(offset + index, &query)?, index).map_err(bug)?;
            }
            let estimate = fit.estimate(together).ok_or_else(|| bug("a fit without an estimate"))?;
            let estimate = estimate.on_original_scale(&bounds, &outcome);
            let content = Content::Released(Released::estimated(&estimate, private_body));
            if give.blocking_send(piece(number, content, rows, 0, begun)).is_err() {
                return Ok(());
            }
        }
        offset += releases;
    }
    Ok(())
}

/// Noise for the records of a stream.
struct Noising {
    purse: Purse,
    persons: Persons,
    right: fedreg_common::privacy::mechanism::records::PerRecord,
    run: String,
    /// Records of persons who had as many as declared before.
    refused: u64,
}

impl Noising {
    /// Reserves the budget of the stream, once `quorum` says that it is there; nothing if it never is.
    fn new(
        maker: &Maker,
        secret: Secret,
        per_person: u32,
        quorum: impl FnOnce() -> bool,
    ) -> Result<Option<Noising>, Failure> {
        let Secret { mut purse, state, run } = secret;
        let mut persons = Persons::open(&state, purse.key()?, per_person)?;
        let opening = maker.opening().map_err(bug)?;
        let claim = purse.stream_claim()?;
        if !quorum() {
            return Ok(None);
        }
        let right = purse.stream(&claim, &opening, per_person, &mut persons)?;
        Ok(Some(Noising { purse, persons, right, run, refused: 0 }))
    }
}

/// The records of a stream, as they come.
struct Stream {
    maker: Maker,
    /// Records of a message, at most.
    most: u64,
    source: Source,
    noising: Option<Noising>,
    /// Records with a covariate outside its range.
    outside: u64,
}

impl Stream {
    fn begin(
        mut self,
        secret: Option<Secret>,
        per_person: u32,
        start: Start,
        words: &Words,
        give: &mpsc::Sender<Yield>,
    ) -> Result<(), Failure> {
        if let Some(secret) = secret {
            self.noising = Noising::new(&self.maker, secret, per_person, || quorum(words, give))?;
            if self.noising.is_none() {
                return Ok(());
            }
        }
        self.follow(start, words, give)
    }

    fn follow(mut self, start: Start, words: &Words, give: &mpsc::Sender<Yield>) -> Result<(), Failure> {
        let Start { first, rewound, .. } = start;
        let width = self.maker.settings().basis().len();
        let (mut number, mut used) = (first, before(first, self.most));
        if let Some((content, records)) = self.kept(number)? {
            // It was noised, and may have been sent: the same bytes leave again, and its rows are used up.
            used = used.saturating_add(records);
            if give.blocking_send(piece(number, content, records, 0, Instant::now())).is_err() {
                return Ok(());
            }
            number += 1;
        }
        match rewound {
            true => self.skip(used)?,
            false => self.source.rows_from(used),
        }
        let mut latest: Option<Body> = None;
        // At the hub there must be so many records before the next ones go out: those of the message before, whoever sent the others.
        let mut least = 0;
        loop {
            let ready =
                latest.as_ref().and_then(|body| weights_of(body, width)).is_some_and(|(taken, _)| taken >= least);
            if !ready {
                match words.recv() {
                    Some(Word::Heard(_, body)) => {
                        weights_of(&body, width).ok_or_else(|| fault("weights"))?;
                        latest = Some(body);
                    }
                    Some(Word::Rejected) => least = 0,
                    Some(Word::Open) => {}
                    None => return Ok(()),
                }
                continue;
            }
            let Some(batch) = self.source.take(group(number, self.most))? else { break };
            // Rows may have been long in coming.
            while let Some(word) = words.try_recv() {
                if let Word::Heard(_, body) = word {
                    weights_of(&body, width).ok_or_else(|| fault("weights"))?;
                    latest = Some(body);
                }
            }
            let begun = Instant::now();
            let Some((taken, weights)) = latest.as_ref().and_then(|body| weights_of(body, width)) else { continue };
            let rows = batch.y.len() as u64;
            if rows == 0 {
                continue;
            }
            let content = self.message(number, &batch, weights.to_vec(), taken)?;
            least = taken.saturating_add(rows);
            if give.blocking_send(piece(number, content, rows, batch.missing, begun)).is_err() {
                return Ok(());
            }
            number += 1;
        }
        if self.outside > 0 {
            tracing::warn!("{} records had a covariate outside its public range, to which it was cut", self.outside);
        }
        match self.noising.as_ref().map(|noising| noising.refused) {
            Some(refused) if refused > 0 => tracing::warn!(
                "{refused} records had no name, or were of persons with as many records as declared: noise alone went out for them"
            ),
            _ => {}
        }
        Ok(())
    }

    /// Passes over rows that were used before.
    fn skip(&mut self, mut rows: u64) -> Result<(), Failure> {
        while rows > 0 {
            let Some(batch) = self.source.take(rows.min(self.most))? else { break };
            rows = rows.saturating_sub(batch.y.len() as u64 + batch.missing);
        }
        Ok(())
    }

    fn kept(&self, number: u64) -> Result<Option<(Content, u64)>, Failure> {
        let Some(noising) = &self.noising else { return Ok(None) };
        let kept = noising.persons.kept((&noising.run, number), &noising.right)?;
        Ok(kept.map(|records| (Content::Released(released_records(&records)), records.records())))
    }

    fn message(&mut self, number: u64, batch: &Batch, weights: Vec<f64>, taken: u64) -> Result<Content, Failure> {
        let maker = &self.maker;
        let of_row = |i: usize| batch.x.row(i).iter().copied().collect::<Vec<f64>>();
        let rows = (0..batch.y.len()).map(of_row).zip(batch.y.iter().copied());
        let (mut records, mut outside) = (Vec::with_capacity(batch.y.len()), 0);
        for (x, y) in rows {
            outside += u64::from(maker.outside(x.iter().copied()));
            records.push(maker.scaled(x.into_iter(), y));
        }
        self.outside += outside;
        let Some(Noising { purse, persons, right, run, refused }) = &mut self.noising else {
            return Ok(Content::Plain(maker.body_of(weights, taken, &records).map_err(bug)?));
        };
        let pool = &mut purse.pool;
        let make = |usable: &[bool]| {
            let records: Vec<Option<(Vec<f64>, f64)>> =
                records.into_iter().zip(usable).map(|(record, usable)| usable.then_some(record)).collect();
            maker.noised(weights, taken, &records, right, pool).map_err(bug)
        };
        let (noised, left_out) = persons.spend(&batch.ids, (run.as_str(), number), make)?;
        *refused += left_out;
        Ok(Content::Released(released_records(&noised)))
    }
}

#[cfg(test)]
mod tests {
    use fedreg_common::star::message::Kind;

    use super::*;

    #[test]
    fn however_much_is_published_only_the_latest_waits_and_the_opening_is_not_lost() {
        let (ear, words) = channel();
        let body = || Body { kind: Kind::Weights, counts: vec![1], values: vec![0.0] };
        ear.send(Word::Open);
        (0..10_000).for_each(|number| ear.send(Word::Heard(number, body())));
        ear.send(Word::Rejected);
        assert_eq!(words.0.waiting().0.len(), 3);
        assert!(matches!(words.recv(), Some(Word::Open)));
        assert!(matches!(words.try_recv(), Some(Word::Heard(9999, _))));
        assert!(matches!(words.recv(), Some(Word::Rejected)));
        assert!(words.try_recv().is_none());
        drop(ear);
        assert!(words.recv().is_none());
    }
}
