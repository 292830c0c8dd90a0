//! A site's records of a stream: what each adds to the function that the hub has found so far.

use crate::methods::features::Range;
use crate::methods::stream::{Loss, Settings, StreamError};
use crate::privacy::mechanism::Query;
use crate::privacy::mechanism::records::{NoisedRecords, PerRecord, Spending};
use crate::privacy::release::Released;
use crate::privacy::sampler::NoisePool;
use crate::session::Abort;
use crate::star::message::{Body, Kind};
use crate::star::site::local::{Act, Batch, Content, Contribution, Input, LocalMethod, bug, fault};
use crate::study::{self, Sites, Study};

/// Records with the weights of the hub that their messages begin with, and its number of records.
struct Message {
    weights: Vec<f64>,
    taken: u64,
    records: Vec<(Vec<f64>, f64)>,
    missing: u64,
}

/// The records of a stream, as they come.
pub(crate) struct Site {
    maker: Maker,
    /// Records of a contribution, at most.
    most: u64,
    spending: Spending,
    noised: bool,
    /// The next contribution.
    number: u64,
    /// Rows of earlier contributions, which are passed over before the first.
    used: Option<u64>,
    /// The number of records at the hub, and its weights.
    latest: Option<(u64, Vec<f64>)>,
    /// Records that the hub must have before the next ones go out: those of the contribution before, no matter which site sent the others.
    least: u64,
    /// Whether weights may lack a message of an earlier process, until the hub has said that it has it.
    stale: bool,
    batch: Option<Batch>,
    message: Option<Message>,
    right: Option<PerRecord>,
    /// Whether an earlier process may have stored the next contribution.
    recalls: bool,
    /// Records with a covariate outside its range.
    outside: u64,
    /// Records that had no name, or were of persons who had as many as declared before.
    refused: u64,
}

impl Site {
    pub(crate) fn new(study: &Study<Sites>, stream: &study::Stream, noised: bool) -> Site {
        Site {
            maker: Maker::new(stream),
            most: study.site_terms().batch_rows,
            spending: stream.spending(&study.guarantee),
            noised,
            number: 0,
            used: None,
            latest: None,
            least: 0,
            stale: false,
            batch: None,
            message: None,
            right: None,
            recalls: false,
            outside: 0,
            refused: 0,
        }
    }

    fn begin(&mut self, first: u64) -> Result<Act, Abort> {
        self.number = first;
        self.used = Some(before(first, self.most));
        Ok(match self.noised {
            true => Act::Release { index: 0, query: self.maker.opening().map_err(bug)? },
            false => self.go_on(),
        })
    }

    /// Reads on once the hub has what was contributed.
    fn go_on(&mut self) -> Act {
        if let Some(right) = self.right.as_ref().filter(|_| self.recalls) {
            return Act::Recall { number: self.number, right: right.clone() };
        }
        if self.batch.is_some() {
            return Act::Poll;
        }
        match (self.used.take(), &self.latest) {
            (Some(used), _) => Act::Skip(used),
            (None, Some((taken, _))) if *taken >= self.least => Act::Read(Some(group(self.number, self.most))),
            (None, _) => Act::Wait,
        }
    }

    /// The message of the rows that were read, with the latest weights: rows may have been long in coming.
    fn send(&mut self) -> Result<Act, Abort> {
        let (Some(batch), Some((taken, weights))) = (self.batch.take(), &self.latest) else { return Ok(self.go_on()) };
        let rows = batch.y.len() as u64;
        if rows == 0 {
            return Ok(self.go_on());
        }
        let mut records = Vec::with_capacity(batch.y.len());
        for (row, y) in batch.x.row_iter().zip(batch.y.iter()) {
            self.outside += u64::from(self.maker.outside(row.iter().copied()));
            records.push(self.maker.scaled(row.iter().copied(), *y));
        }
        let message = Message { weights: weights.clone(), taken: *taken, records, missing: batch.missing };
        self.least = taken.saturating_add(rows);
        if self.noised {
            self.message = Some(message);
            return Ok(Act::Noise { number: self.number, ids: batch.ids });
        }
        let body = self.maker.body_of(message.weights, message.taken, &message.records).map_err(bug)?;
        Ok(self.contribute(Content::Plain(body), rows, message.missing))
    }

    fn contribute(&mut self, content: Content, rows: u64, missing: u64) -> Act {
        self.number += 1;
        Act::Contribute(Contribution { missing, ..Contribution::new(self.number - 1, content, rows) })
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.outside > 0 {
            let outside = self.outside;
            warnings.push(format!("{outside} records had a covariate outside its public range, to which it was cut"));
        }
        if self.refused > 0 {
            warnings.push(format!(
                "{} records had no name, or were of persons with no budget left for them: noise alone went out for them",
                self.refused
            ));
        }
        warnings
    }
}

impl LocalMethod for Site {
    fn gathers(&self) -> bool {
        false
    }

    fn spending(&self) -> Option<Spending> {
        Some(self.spending)
    }

    fn step(&mut self, input: Input) -> Result<Act, Abort> {
        Ok(match input {
            Input::Begin(first) => self.begin(first)?,
            Input::Granted(charged) => {
                self.right = Some(PerRecord::new(&charged, self.spending));
                self.recalls = true;
                self.go_on()
            }
            // They may have been sent: the same bytes leave again, and their rows are used up. So may those behind them: many are on
            // their way at a time.
            Input::Kept(Some(noised)) => {
                self.used = self.used.map(|used| used.saturating_add(noised.records()));
                (self.stale, self.latest) = (true, None);
                self.contribute(Content::Released(released(&noised)), noised.records(), 0)
            }
            Input::Noised(noised, refused) => {
                self.refused += refused;
                let missing = self.message.take().map_or(0, |message| message.missing);
                self.contribute(Content::Released(released(&noised)), noised.records(), missing)
            }
            Input::Heard { body, .. } => {
                let width = self.maker.settings.basis().len();
                let (taken, weights) = weights_of(&body, width).ok_or_else(|| fault("weights"))?;
                self.latest = Some((taken, weights.to_vec())).filter(|_| !self.stale);
                self.go_on()
            }
            Input::Acknowledged => {
                self.stale = false;
                self.go_on()
            }
            Input::Rejected => {
                (self.stale, self.least) = (false, 0);
                self.go_on()
            }
            Input::Rows(Some(batch)) => {
                self.batch = Some(batch);
                Act::Poll
            }
            Input::Rows(None) => Act::Finish(self.warnings()),
            Input::Silence => self.send()?,
            Input::Kept(None) => {
                self.recalls = false;
                self.go_on()
            }
            Input::Opened | Input::Done => self.go_on(),
        })
    }

    fn noised(&mut self, first: u64, usable: &[bool], pool: &mut NoisePool) -> Result<NoisedRecords, Abort> {
        let (Some(message), Some(right)) = (&mut self.message, &mut self.right) else {
            return Err(bug("records before their charge"));
        };
        let records = std::mem::take(&mut message.records).into_iter().zip(usable);
        let records: Vec<_> = records.map(|(record, usable)| usable.then_some(record)).collect();
        let weights = std::mem::take(&mut message.weights);
        self.maker.noised(weights, (message.taken, first), &records, right, pool)
    }
}

/// How records become inputs and outcomes, and how their messages are made: what a site knows of the study.
#[derive(Debug, Clone)]
pub(crate) struct Maker {
    settings: Settings,
    ranges: Vec<Range>,
    outcome: Range,
}

impl Maker {
    /// From the study alone.
    pub(crate) fn new(stream: &study::Stream) -> Maker {
        Maker { settings: stream.settings.clone(), ranges: stream.ranges.clone(), outcome: stream.units() }
    }

    /// A record in the units of the method: covariates in `[0, 1]`, cut to their ranges; the outcome in half ranges, not cut.
    pub(crate) fn scaled(&self, x: impl Iterator<Item = f64>, y: f64) -> (Vec<f64>, f64) {
        let x = self.ranges.iter().zip(x).map(|(range, x)| range.scale(x)).collect();
        let half = 0.5 * (self.outcome.high - self.outcome.low);
        (x, (y - self.outcome.low - half) / half)
    }

    /// Whether a covariate lies outside its public range.
    pub(crate) fn outside(&self, x: impl Iterator<Item = f64>) -> bool {
        self.ranges.iter().zip(x).any(|(range, x)| x < range.low || x > range.high)
    }

    /// The messages of some records in a row without noise, each with the weights that the ones before it have left; weights
    /// and `taken` are those of the hub.
    ///
    /// # Errors
    /// Weights or covariates of another length.
    pub(crate) fn body_of(
        &self,
        mut weights: Vec<f64>,
        taken: u64,
        records: &[(Vec<f64>, f64)],
    ) -> Result<Body, StreamError> {
        let mut values = Vec::with_capacity(records.len() * weights.len());
        let private = matches!(self.settings.stated().loss, Loss::Huber { .. });
        for (at, (x, y)) in records.iter().enumerate() {
            let record = Some((x.as_slice(), *y));
            let message: Vec<f64> = match private {
                true => self.settings.message(&weights, record)?.values().iter().copied().collect(),
                false => self.settings.plain_message(&weights, record)?,
            };
            self.settings.step(&mut weights, taken + at as u64 + 1, &message)?;
            values.extend(message);
        }
        Ok(updates(records.len() as u64, values))
    }

    /// What stands for the whole stream in the ledger: the message of no record, which tells nothing and has the sensitivity of all.
    ///
    /// # Errors
    /// A stream without a bound.
    pub(crate) fn opening(&self) -> Result<Query, StreamError> {
        let weights = vec![0.0; self.settings.basis().len()];
        Ok(Query::bounded(&self.settings.message(&weights, None)?))
    }

    /// The messages of some records in a row with noise, each with the weights that the ones before it have left: so many records had the
    /// hub, and the first is in this place at the site. `None` instead of a record is noise alone.
    ///
    /// # Errors
    /// Weights or covariates of another length, noise that cannot be added. Nothing may leave then.
    pub(crate) fn noised(
        &self,
        mut weights: Vec<f64>,
        (taken, first): (u64, u64),
        records: &[Option<(Vec<f64>, f64)>],
        right: &mut PerRecord,
        pool: &mut NoisePool,
    ) -> Result<NoisedRecords, Abort> {
        let mut noised = NoisedRecords::default();
        for (at, record) in (0..).zip(records) {
            let record = record.as_ref().map(|(x, y)| (x.as_slice(), *y));
            let message = self.settings.message(&weights, record).map_err(bug)?;
            right.add(first.saturating_add(at), &Query::bounded(&message), pool, &mut noised).map_err(bug)?;
            // Everybody sees the noised message, so anyone who goes on from it tells nothing new.
            let sent = noised.values().len() - weights.len();
            let number = taken.saturating_add(1).saturating_add(at);
            self.settings.step(&mut weights, number, &noised.values()[sent..]).map_err(bug)?;
        }
        Ok(noised)
    }
}

/// Messages with noise as they travel, of a stream that was charged.
fn released(noised: &NoisedRecords) -> Released<Body> {
    Released::noised_records(noised, updates)
}

/// Messages of records as they travel.
fn updates(records: u64, values: Vec<f64>) -> Body {
    Body { kind: Kind::Updates, counts: vec![records], values }
}

/// Number of records so far and weights in what the hub says.
fn weights_of(body: &Body, length: usize) -> Option<(u64, &[f64])> {
    let records = body.counts.first().copied()?;
    (body.kind == Kind::Weights && body.values.len() == length).then_some((records, &body.values))
}

/// Records in contribution `number` of a site: one, two, four and so on up to `most`, as the first records move the function far and
/// must be heard of soon.
fn group(number: u64, most: u64) -> u64 {
    let doubled = if number < 40 { 1 << number } else { u64::MAX };
    doubled.clamp(1, most.max(1))
}

/// Records in all contributions before `number`.
fn before(number: u64, most: u64) -> u64 {
    let ramp = (0..number.min(40)).take_while(|at| group(*at, most) < most.max(1)).count() as u64;
    let small: u64 = (0..ramp).map(|at| group(at, most)).sum();
    small.saturating_add((number - ramp).saturating_mul(most.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contributions_of_a_stream_grow_to_their_size_and_every_record_has_one_place() {
        for most in [1, 2, 3, 100, 1000] {
            let mut records = 0;
            for number in 0..50 {
                assert_eq!(before(number, most), records, "{most} {number}");
                records += group(number, most);
            }
        }
        assert_eq!((group(0, 100), group(6, 100), group(7, 100), group(u64::MAX, 100)), (1, 64, 100, 100));
    }
}
