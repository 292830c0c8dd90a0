//! A site in the simulated network: its process, which may die, and its disk, which stays.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use nalgebra::{DMatrix, DVector};
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::{Faults, Pipe, RUN, WINDOW};
use crate::data::Place as Row;
use crate::privacy::accountant::Budget;
use crate::privacy::ledger::tests::Memory;
use crate::privacy::ledger::{Ledger, LedgerError, PersonDigests, Registration};
use crate::privacy::mechanism::records::{Costs, NoisedRecords, Spending, admit};
use crate::privacy::sampler::NoisePool;
use crate::session::Abort;
use crate::star::message::Body;
use crate::star::site::charge::RunLedger;
use crate::star::site::local::{Act, Batch, Content, Contribution, Input, Local, LocalMethod};
use crate::star::site::{self, Site};
use crate::study::{Sites, Study};

/// What a site holds.
#[derive(Clone)]
pub(crate) enum Part {
    /// Contributions that are ready, whatever is asked.
    Replayed(Vec<Body>),
    /// Rows, of which contributions are made.
    Rows(Table),
}

/// Rows with the persons they are of.
#[derive(Clone)]
pub(crate) struct Table {
    /// Features.
    pub(crate) x: DMatrix<f64>,
    /// Outcomes.
    pub(crate) y: DVector<f64>,
    /// Of each row.
    pub(crate) ids: Vec<Vec<u8>>,
    /// Whether persons come one after the other, and are not registered beforehand.
    pub(crate) anyone: bool,
}

/// What came of a step.
pub(super) enum Step {
    Waits,
    Said(Vec<site::Act>),
    Died,
}

pub(super) struct Host {
    study: Arc<Study<Sites>>,
    part: Part,
    /// Tells its noise from that of others.
    at: u64,
    pub(super) line: Option<Pipe>,
    pub(super) told: Option<site::Act>,
    starts: u8,
    // The process.
    pub(super) site: Site,
    local: Local,
    input: Option<Input>,
    heard: VecDeque<Input>,
    back: Option<Contribution>,
    finished: bool,
    ledger: Option<RunLedger<Memory>>,
    spending: Option<Spending>,
    row: usize,
    batch: u64,
    // The disk.
    disk: Option<Memory>,
    sent: BTreeMap<u64, Vec<u8>>,
    messages: u64,
    records: BTreeMap<Vec<u8>, u64>,
    /// Records that were noised.
    places: u64,
}

impl Host {
    pub(super) fn new(study: &Arc<Study<Sites>>, part: Part, at: u64) -> Host {
        let disk = match &part {
            Part::Rows(table) if study.private().is_some() => Some(registered(study, table)),
            _ => None,
        };
        let mut host = Host {
            study: Arc::clone(study),
            at,
            line: None,
            told: None,
            starts: 0,
            site: Site::new(Arc::clone(study), [0; 16]),
            local: local(study, &part),
            part,
            input: None,
            heard: VecDeque::new(),
            back: None,
            finished: false,
            ledger: None,
            spending: None,
            row: 0,
            batch: 0,
            disk,
            sent: BTreeMap::new(),
            messages: 0,
            records: BTreeMap::new(),
            places: 0,
        };
        host.gather();
        host
    }

    /// The process starts again.
    pub(super) fn start(&mut self) {
        self.starts = self.starts.wrapping_add(1);
        self.site = Site::new(Arc::clone(&self.study), [self.starts; 16]);
        self.local = local(&self.study, &self.part);
        (self.input, self.back, self.ledger) = (None, None, None);
        self.heard.clear();
        self.finished = false;
        (self.row, self.batch) = (0, 0);
        if let Some(disk) = &self.disk {
            disk.fuse.set(u32::MAX);
        }
        self.gather();
    }

    /// The rows of a private run are read before anybody is contacted.
    fn gather(&mut self) {
        if self.disk.is_none() {
            return;
        }
        let mut input = Input::Done;
        while let Act::Read(rows) = self.local.step(input).unwrap() {
            input = Input::Rows(self.read(rows));
        }
    }

    fn read(&mut self, rows: Option<u64>) -> Option<Batch> {
        let Part::Rows(table) = &self.part else { return None };
        let most = rows.unwrap_or(self.study.site_terms().batch_rows) as usize;
        let (first, end) = (self.row, table.y.len().min(self.row + most));
        (self.row, self.batch) = (end, self.batch + 1);
        (end > first).then(|| Batch {
            number: self.batch - 1,
            x: table.x.rows(first, end - first).into_owned(),
            y: table.y.rows(first, end - first).into_owned(),
            place: (Row::Row(first as u64 + 1), Row::Row(end as u64)),
            missing: 0,
            ids: table.ids[first..end].to_vec(),
        })
    }

    pub(super) fn begin(&mut self, first: u64) {
        self.input = Some(Input::Begin(first));
    }

    pub(super) fn tell(&mut self, input: Input) {
        self.heard.retain(|old| std::mem::discriminant(old) != std::mem::discriminant(&input));
        self.heard.push_back(input);
    }

    /// One step of the computation.
    pub(super) fn step(&mut self, faults: &Faults, rng: &mut ChaCha8Rng) -> Step {
        if let Some(contribution) = self.back.take() {
            if self.site.waiting() >= WINDOW {
                self.back = Some(contribution);
                return Step::Waits;
            }
            self.input = Some(Input::Done);
            return Step::Said(self.site.contribute(contribution.number, contribution.content).unwrap_or_default());
        }
        if self.finished || !self.site.has_begun() {
            return Step::Waits;
        }
        let Some(input) = self.input.take().or_else(|| self.heard.pop_front()) else { return Step::Waits };
        if rng.random_bool(faults.site_crash) {
            return Step::Died;
        }
        if let Some(disk) = self.disk.as_ref().filter(|_| rng.random_bool(faults.site_crash)) {
            disk.fuse.set(rng.random_range(0..12));
        }
        let done = self.local.step(input).and_then(|act| self.act(act));
        match done {
            Ok(acts) if rng.random_bool(faults.site_crash) => {
                drop(acts);
                Step::Died
            }
            Ok(acts) => {
                if let Some(disk) = &self.disk {
                    disk.fuse.set(u32::MAX);
                }
                Step::Said(acts)
            }
            Err(Abort::Ledger(LedgerError::Storage(_))) => Step::Died,
            Err(error) => panic!("site {}: {error}", self.at),
        }
    }

    fn act(&mut self, act: Act) -> Result<Vec<site::Act>, Abort> {
        let mut said = Vec::new();
        self.input = match act {
            Act::Read(rows) => Some(Input::Rows(self.read(rows))),
            Act::Skip(rows) => {
                self.row += rows as usize;
                Some(Input::Done)
            }
            Act::Wait => None,
            Act::Poll => Some(self.heard.pop_front().unwrap_or(Input::Silence)),
            Act::Claim(claim) => {
                self.spending = claim.spending();
                self.ledger()?.claim(claim, b"the same rows")?;
                Some(Input::Done)
            }
            Act::Ready => {
                said = self.site.ready();
                Some(Input::Done)
            }
            Act::Reserve => {
                assert!(self.site.is_open(), "a charge before the quorum is there");
                self.ledger()?.reserve()?;
                Some(Input::Done)
            }
            Act::Release { index, query } => {
                let run = RUN.to_string();
                let seed = self.at * 1_000_003;
                let ledger = self.ledger()?;
                assert!(ledger.ledger.is_reserved(&run), "a release before its charge");
                // As many as are stored: what was not stored is drawn again, what was stored would not come out the same.
                ledger.pool = NoisePool::seeded(seed + ledger.ledger.receipts(&run).len() as u64);
                Some(Input::Granted(ledger.release(index, &query)?))
            }
            Act::Recall { number, right } => {
                let sent = self.sent.get(&number);
                Some(Input::Kept(sent.and_then(|bytes| NoisedRecords::decode(bytes, &right))))
            }
            Act::Noise { number, ids } => Some(self.noise(number, &ids)?),
            Act::Fit(fitting) => {
                self.back = Some(fitting.run());
                None
            }
            Act::Contribute(contribution) => {
                let held = self.study.private().is_some() || self.study.in_rounds();
                assert!(self.site.is_open() || !held, "a contribution before the quorum is there");
                let released = matches!(contribution.content, Content::Released(_));
                assert_eq!(released, self.disk.is_some(), "what leaves a private site has noise");
                self.back = Some(contribution);
                None
            }
            Act::Finish(_) => {
                said = self.site.complete();
                self.finished = true;
                None
            }
        };
        Ok(said)
    }

    fn ledger(&mut self) -> Result<&mut RunLedger<Memory>, Abort> {
        let disk = self.disk.clone().ok_or_else(|| Abort::Bug("a plain site has no ledger".to_string()))?;
        match &mut self.ledger {
            Some(ledger) => Ok(ledger),
            none => Ok(none.insert(RunLedger::new(Ledger::open(disk)?, DATA_SET.to_string(), &self.study, RUN)?)),
        }
    }

    /// Counts records and stores their message: all of it, or nothing.
    fn noise(&mut self, number: u64, ids: &[Vec<u8>]) -> Result<Input, Abort> {
        let mut records = self.records.clone();
        let spending = self.spending.ok_or_else(|| Abort::Bug("records that were not claimed".to_string()))?;
        let mut costs = Costs::new(spending);
        let usable: Vec<bool> = ids
            .iter()
            .zip(self.places + 1..)
            .map(|(id, place)| {
                let spent = records.entry(id.clone()).or_default();
                let sum = admit(*spent, costs.of(place), spending.room());
                *spent = sum.unwrap_or(*spent);
                sum.is_some()
            })
            .collect();
        let mut pool = NoisePool::seeded(self.at * 1_000_003 + 500_000 + self.messages);
        let noised = self.local.noised(self.places + 1, &usable, &mut pool)?;
        self.records = records;
        self.sent.insert(number, noised.encode());
        self.messages += 1;
        self.places += ids.len() as u64;
        Ok(Input::Noised(noised, usable.iter().filter(|usable| !**usable).count() as u64))
    }

    /// What was charged, and how many releases are stored.
    pub(super) fn spent(&self) -> Option<(f64, usize)> {
        let disk = self.disk.clone()?;
        disk.fuse.set(u32::MAX);
        let mut ledger = Ledger::open(disk).unwrap();
        ledger.verify().unwrap();
        Some((ledger.account(DATA_SET).unwrap().sum, ledger.receipts(&RUN.to_string()).len()))
    }
}

const DATA_SET: &str = "rows";

/// A ledger with the site's rows and the budget of one run.
fn registered(study: &Study<Sites>, table: &Table) -> Memory {
    let disk = Memory::new();
    let asked = study.private().unwrap().budget;
    let persons = match table.anyone {
        true => PersonDigests::anyone(),
        false => PersonDigests::new(&[7; 32], &table.ids, study.rows_per_person()).unwrap(),
    };
    let budget = Budget::new(asked.epsilon(), asked.delta(), asked.accountant(), table.y.len() as u64, true).unwrap();
    let bounds = study.stated_bounds();
    let registration = Registration { data_set: DATA_SET.to_string(), persons, budget, bounds };
    Ledger::create(disk.clone()).unwrap().register(&registration).unwrap();
    disk
}

fn local(study: &Study<Sites>, part: &Part) -> Local {
    match part {
        Part::Rows(_) => crate::methods::registry::site(study, 0).unwrap(),
        Part::Replayed(pieces) => Local::of(Box::new(Replay { pieces: pieces.clone(), next: 0 }), false, true),
    }
}

/// Contributes what is ready, whatever is asked.
struct Replay {
    pieces: Vec<Body>,
    next: usize,
}

impl LocalMethod for Replay {
    fn gathers(&self) -> bool {
        false
    }

    fn step(&mut self, input: Input) -> Result<Act, Abort> {
        match input {
            Input::Begin(first) => self.next = usize::try_from(first).unwrap_or(usize::MAX),
            Input::Done => {}
            _ => return Ok(Act::Wait),
        }
        let Some(body) = self.pieces.get(self.next) else { return Ok(Act::Finish(Vec::new())) };
        self.next += 1;
        Ok(Act::Contribute(Contribution::new(self.next as u64 - 1, Content::Plain(body.clone()), 0)))
    }
}
