mod filter;
mod withdrawn;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use nalgebra::{DMatrix, DVector};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::privacy::accountant::Accountant;
use crate::privacy::bounds::{ClippedRows, ColumnBounds, RowBounds};
use crate::privacy::mechanism::{PlannedRelease, Query, release};
use crate::privacy::sampler::NoisePool;

#[derive(Default, Clone)]
struct Disk {
    records: Vec<Record>,
    blobs: BTreeMap<String, Vec<u8>>,
    anchor: Option<Anchor>,
}

/// A disk that several ledgers share, and a fuse after whose last step every call fails, as after a crash.
#[derive(Clone)]
pub(crate) struct Memory {
    disk: Rc<RefCell<Disk>>,
    pending: Option<Disk>,
    pub(crate) fuse: Rc<Cell<u32>>,
    key: [u8; 32],
}

impl Memory {
    pub(crate) fn new() -> Memory {
        Memory { disk: Rc::default(), pending: None, fuse: Rc::new(Cell::new(u32::MAX)), key: [7; 32] }
    }

    fn step(&self) -> Result<(), StorageError> {
        let left = self.fuse.get();
        if left == 0 {
            return Err(StorageError::Full { place: "the test's disk".to_owned() });
        }
        self.fuse.set(if left == u32::MAX { left } else { left - 1 });
        Ok(())
    }

    /// Bytes that were stored under a name.
    pub(crate) fn stored(&self, name: &str) -> Option<Vec<u8>> {
        self.disk.borrow().blobs.get(name).cloned()
    }

    fn inside(&mut self) -> &mut Disk {
        self.pending.as_mut().expect("inside a transaction")
    }
}

impl Storage for Memory {
    fn key(&mut self) -> Result<[u8; 32], StorageError> {
        Ok(self.key)
    }
    fn begin(&mut self) -> Result<(), StorageError> {
        self.step()?;
        self.pending = Some(self.disk.borrow().clone());
        Ok(())
    }
    fn records_after(&mut self, sequence: u64) -> Result<Vec<Record>, StorageError> {
        self.step()?;
        Ok(self.inside().records.iter().filter(|record| record.sequence > sequence).cloned().collect())
    }
    fn append(&mut self, record: &Record) -> Result<(), StorageError> {
        self.step()?;
        self.inside().records.push(record.clone());
        Ok(())
    }
    fn put_blob(&mut self, name: &str, bytes: &[u8]) -> Result<(), StorageError> {
        self.step()?;
        assert!(self.inside().blobs.insert(name.to_owned(), bytes.to_vec()).is_none(), "{name} is overwritten");
        Ok(())
    }
    fn blob(&mut self, name: &str) -> Result<Option<Vec<u8>>, StorageError> {
        self.step()?;
        Ok(self.inside().blobs.get(name).cloned())
    }
    fn commit(&mut self) -> Result<(), StorageError> {
        self.step()?;
        let pending = self.pending.take().expect("inside a transaction");
        let anchor = self.disk.borrow().anchor;
        *self.disk.borrow_mut() = Disk { anchor, ..pending };
        self.step()
    }
    fn abandon(&mut self) {
        self.pending = None;
    }
    fn anchor(&mut self) -> Result<Option<Anchor>, StorageError> {
        self.step()?;
        Ok(self.disk.borrow().anchor)
    }
    fn advance_anchor(&mut self, anchor: &Anchor) -> Result<(), StorageError> {
        self.step()?;
        self.disk.borrow_mut().anchor = Some(*anchor);
        Ok(())
    }
    fn now(&self) -> u64 {
        1_700_000_000
    }
}

fn persons(range: std::ops::Range<u32>) -> PersonDigests {
    PersonDigests::new(&[7; 32], range.map(|person| person.to_string()), 1).unwrap()
}

fn registration(name: &str, range: std::ops::Range<u32>, epsilon: f64) -> Registration {
    Registration {
        data_set: name.to_owned(),
        persons: persons(range),
        budget: Budget::new(epsilon, 1e-5, Accountant::Exact, 1000, false).unwrap(),
        bounds: BTreeMap::new(),
    }
}

fn plan(mu: f64, releases: usize) -> ReleasePlan {
    let each = mu / (releases as f64).sqrt();
    ReleasePlan::new((0..releases).map(|index| PlannedRelease { label: format!("r{index}"), mu: each }).collect())
}

fn opened() -> (Memory, Ledger<Memory>) {
    let memory = Memory::new();
    let mut ledger = Ledger::create(memory.clone()).unwrap();
    ledger.register(&registration("cohort", 0..1000, 1.0)).unwrap();
    (memory, ledger)
}

fn query() -> Query {
    let bounds =
        RowBounds::new(vec![("x".to_owned(), ColumnBounds::Range { low: 0.0, high: 1.0 })], None, None).unwrap();
    let rows = ClippedRows::new(&bounds, &DMatrix::from_column_slice(3, 1, &[0.1, 0.5, 0.9]));
    Query::message(&rows, &DVector::from_element(1, 1.0), 0.5)
}

fn reserve(ledger: &mut Ledger<Memory>, run: &str, mu: f64, releases: usize) -> Result<(), LedgerError> {
    // Every run of a study of its own: a second one of a study withdraws the first, if nothing of that is stored.
    let study = format!("digest-of-{run}").replace(' ', "-");
    ledger.reserve(run, "cohort", &persons(0..1000), &["bob".to_owned()], &study, &plan(mu, releases))
}

#[test]
fn a_release_is_stored_before_it_can_be_read_and_a_repeat_gives_the_same_bytes() {
    let (memory, mut ledger) = opened();
    reserve(&mut ledger, "run", 0.2, 2).unwrap();
    let Grant::Fresh(permit) = ledger.permit("run", 0).unwrap() else { panic!("nothing is stored yet") };
    let unsent = release(&query(), permit, &mut NoisePool::new()).unwrap();
    let first = ledger.store(unsent).unwrap();
    let Grant::Stored(again) = ledger.permit("run", 0).unwrap() else { panic!("it is stored") };
    assert_eq!(first.bytes(), again.bytes());
    let mut restarted = Ledger::open(memory).unwrap();
    let Grant::Stored(again) = restarted.permit("run", 0).unwrap() else { panic!("it is stored") };
    assert_eq!(first.bytes(), again.bytes());
    assert_eq!(restarted.receipts("run").len(), 1);
    assert!((restarted.account("cohort").unwrap().sum - 0.04).abs() < 1e-12);
    assert!(matches!(restarted.permit("run", 2), Err(LedgerError::NoSuchRelease { index: 2, .. })));
    assert!(matches!(restarted.permit("other", 0), Err(LedgerError::UnknownRun { .. })));
}

#[test]
fn a_release_whose_process_died_before_it_was_stored_is_made_under_the_same_reservation() {
    let (memory, mut ledger) = opened();
    reserve(&mut ledger, "run", 0.2, 1).unwrap();
    let Grant::Fresh(permit) = ledger.permit("run", 0).unwrap() else { panic!("nothing is stored yet") };
    let lost = release(&query(), permit, &mut NoisePool::seeded(1)).unwrap();
    let written = memory.disk.borrow().records.len();
    drop((lost, ledger));
    let mut restarted = Ledger::open(memory.clone()).unwrap();
    let Grant::Fresh(permit) = restarted.permit("run", 0).unwrap() else { panic!("nothing is stored yet") };
    assert_eq!(memory.disk.borrow().records.len(), written, "a permit that nothing came of leaves no trace");
    let made = restarted.store(release(&query(), permit, &mut NoisePool::seeded(2)).unwrap()).unwrap();
    let Grant::Stored(again) = Ledger::open(memory).unwrap().permit("run", 0).unwrap() else { panic!("it is stored") };
    assert_eq!(made.bytes(), again.bytes());
    assert!((restarted.account("cohort").unwrap().sum - 0.04).abs() < 1e-12, "charged once");
}

/// Two permits for one release, as of two processes: one of them is stored, and the other value is never seen.
#[test]
fn of_two_values_of_one_release_only_the_stored_one_can_leave() {
    let (memory, mut ledger) = opened();
    reserve(&mut ledger, "run", 0.2, 1).unwrap();
    let mut other = Ledger::open(memory).unwrap();
    let [first, second] = [&mut ledger, &mut other].map(|ledger| {
        let Grant::Fresh(permit) = ledger.permit("run", 0).unwrap() else { panic!("nothing is stored yet") };
        release(&query(), permit, &mut NoisePool::new()).unwrap()
    });
    let made = ledger.store(first).unwrap();
    assert!(matches!(other.store(second), Err(LedgerError::NotPlanned { .. })));
    let Grant::Stored(again) = other.permit("run", 0).unwrap() else { panic!("it is stored") };
    assert_eq!(made.bytes(), again.bytes());
}

/// Whatever step of the disk is the last one, release and receipt are both there or both not, and nothing was handed out before.
#[test]
fn a_release_and_its_receipt_are_one_transaction_that_is_on_disk_before_anything_can_be_read() {
    for fuse in 0..12 {
        let (memory, mut ledger) = opened();
        reserve(&mut ledger, "run", 0.2, 1).unwrap();
        let Grant::Fresh(permit) = ledger.permit("run", 0).unwrap() else { panic!("nothing is stored yet") };
        let unsent = release(&query(), permit, &mut NoisePool::seeded(fuse)).unwrap();
        memory.fuse.set(fuse as u32);
        let handed_out = ledger.store(unsent).map(|release| release.bytes());
        memory.fuse.set(u32::MAX);
        let stored = memory.stored("sent/run/0");
        let on_record = Ledger::open(memory.clone()).unwrap().receipts("run").len();
        assert_eq!(usize::from(stored.is_some()), on_record, "step {fuse}");
        if let Ok(bytes) = handed_out {
            assert_eq!(stored, Some(bytes), "step {fuse}");
            assert_eq!(memory.disk.borrow().anchor.unwrap().sequence, memory.disk.borrow().records.len() as u64);
        }
    }
}

#[test]
fn what_the_peer_said_is_kept_with_the_reservation_or_nothing_is_charged() {
    for fuse in 0..16 {
        let (memory, mut ledger) = opened();
        let early = [(3, b"rows".to_vec()), (7, b"terms".to_vec())];
        memory.fuse.set(fuse);
        let _ = ledger.reserve_with("run", "cohort", &persons(0..1000), &[], "digest", &plan(0.1, 1), &early);
        memory.fuse.set(u32::MAX);
        let mut restarted = Ledger::open(memory).unwrap();
        let charged = restarted.account("cohort").unwrap().sum > 0.0;
        let kept =
            charged && early.iter().all(|(index, bytes)| restarted.received("run", *index) == Ok(Some(bytes.clone())));
        assert_eq!(charged, kept, "step {fuse}");
    }
}

/// Adds records as earlier versions wrote them.
fn written(memory: &Memory, bodies: &[&str]) {
    let mut disk = memory.disk.borrow_mut();
    for body in bodies {
        let record = Record::link(&disk.records.last().unwrap().end(), 1, (*body).to_owned());
        disk.anchor = Some(record.end());
        disk.records.push(record);
    }
}

#[test]
fn a_ledger_of_an_earlier_version_whose_release_was_started_and_never_stored_goes_on() {
    let (memory, mut ledger) = opened();
    reserve(&mut ledger, "run", 0.2, 2).unwrap();
    drop(ledger);
    written(&memory, &[r#"{"kind":"started","run":"run","index":1}"#]);
    let mut ledger = Ledger::open(memory).unwrap();
    let Grant::Fresh(permit) = ledger.permit("run", 1).unwrap() else { panic!("nothing is stored yet") };
    ledger.store(release(&query(), permit, &mut NoisePool::new()).unwrap()).unwrap();
    assert_eq!(ledger.verify().unwrap().0, 5);
}

#[test]
fn data_sets_that_turn_out_to_hold_the_same_rows_share_what_both_have_spent() {
    let (memory, mut ledger) = opened();
    for (name, range) in [("by row", 5000..6000), ("part", 5500..5501), ("apart", 8000..8001)] {
        ledger.register(&registration(name, range, 1.0)).unwrap();
    }
    reserve(&mut ledger, "run", 0.1, 1).unwrap();
    let by_row = |ledger: &mut Ledger<Memory>, run: &str, mu: f64| {
        ledger.reserve(run, "by row", &persons(5000..6000), &[], &run.replace(' ', "-"), &plan(mu, 1))
    };
    by_row(&mut ledger, "run 2", 0.2).unwrap();
    ledger.link("by row", "cohort").unwrap();
    let sums = |ledger: &Ledger<Memory>| {
        ["cohort", "by row", "part", "apart"].map(|name| (ledger.account(name).unwrap().sum * 1e6).round() / 1e6)
    };
    // Anyone who is in a part of the one is in the other too.
    assert_eq!(sums(&ledger), [0.05, 0.05, 0.05, 0.0]);
    let before = memory.disk.borrow().records.len();
    ledger.link("cohort", "by row").unwrap();
    assert_eq!(memory.disk.borrow().records.len(), before, "known already");
    by_row(&mut ledger, "run 3", 0.1).unwrap();
    reserve(&mut ledger, "run 4", 0.1, 1).unwrap();
    let mut restarted = Ledger::open(memory).unwrap();
    assert_eq!(sums(&restarted), [0.07, 0.07, 0.07, 0.0]);
    assert!(restarted.account("cohort").unwrap().shares_with.contains("by row"));
    assert!(matches!(restarted.link("cohort", "unknown"), Err(LedgerError::Unknown { .. })));
    restarted.verify().unwrap();
}

#[test]
fn ids_that_are_whole_numbers_count_by_their_value() {
    for (written, value) in [
        ("007", "7"),
        ("7", "7"),
        (" 7 ", "7"),
        ("+7", "7"),
        ("7.0", "7"),
        ("7.", "7"),
        ("-07", "-7"),
        ("000", "0"),
        ("-0", "0"),
        ("7.5", "7.5"),
        ("7a", "7a"),
        ("", ""),
        ("-", "-"),
        (".0", ".0"),
        ("1e3", "1e3"),
        (" a", " a"),
        ("0x7", "0x7"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
    ] {
        assert_eq!(canonical_id(written.as_bytes()), value.as_bytes(), "{written:?}");
    }
    let digests = |ids: &[&str]| PersonDigests::new(&[7; 32], ids, 1).unwrap();
    let (_, mut ledger) = opened();
    let mut csv = registration("csv", 0..1, 1.0);
    csv.persons = digests(&["p1", "007", "0042"]);
    ledger.register(&csv).unwrap();
    let mut parquet = csv.clone();
    (parquet.data_set, parquet.persons) = ("parquet".to_owned(), digests(&["42", "7", "p1"]));
    assert_eq!(ledger.register(&parquet), Err(LedgerError::SamePersons { existing: "csv".to_owned() }));
    ledger.reserve("run", "csv", &parquet.persons, &[], "digest", &plan(0.1, 1)).unwrap();
    assert!(matches!(PersonDigests::new(&[7; 32], ["7", "007"], 1), Err(LedgerError::RowsPerPerson { found: 2, .. })));
}

#[test]
fn a_data_set_of_an_earlier_version_keeps_its_persons_and_counts_numbers_by_their_value_from_its_next_run_on() {
    let (memory, mut ledger) = opened();
    // As registered by an earlier version: digests of the ids as they are written.
    let mut code = PersonDigester::new(&[7; 32]);
    let raw = |id: &str| keyed(&[7; 32], &[id.as_bytes()])[..16].to_vec();
    let mut blob = [raw("007"), raw("0042")];
    blob.sort();
    let blob = blob.concat();
    let digest = hexadecimal(&Sha256::digest(&blob));
    drop(ledger.register(&registration("parquet", 42..43, 1.0)));
    reserve(&mut ledger, "before", 0.1, 1).unwrap();
    drop(ledger);
    memory.disk.borrow_mut().blobs.insert("persons/old".to_owned(), blob);
    let registered = format!(
        r#"{{"kind":"registered","data_set":"old","persons":2,"persons_digest":"{digest}","rows":2,"rows_per_person":1,"epsilon":1.0,
        "delta":1e-5,"accountant":"exact","cap":0.3,"shares_with":[]}}"#
    );
    let plain = format!(
        r#"{{"kind":"plain","run":"plain","data_set":"x","peers":[],"study":"s","persons_digest":"{digest}","shares_with":["old"]}}"#
    );
    written(&memory, &[&registered, &plain]);
    ["007", "0042"].iter().for_each(|id| code.push(id.as_bytes()));
    let persons = code.finish(1).unwrap();
    let mut ledger = Ledger::open(memory.clone()).unwrap();
    ledger.afford("old", &persons, "digest", &plan(0.1, 1)).unwrap();
    ledger.reserve("run", "old", &persons, &[], "digest", &plan(0.1, 1)).unwrap();
    // The person 42 is in the cohort and in `parquet`: what those have spent counts here too, and the other way round.
    let mut ledger = Ledger::open(memory).unwrap();
    ledger.verify().unwrap();
    let sums = ["old", "cohort", "parquet"].map(|name| ledger.account(name).unwrap().sum);
    assert!(sums.iter().all(|sum| *sum >= 0.02), "{sums:?}");
    ledger.reserve("run 2", "old", &persons, &[], "digest", &plan(0.1, 1)).unwrap();
    let by_value = PersonDigests::new(&[7; 32], ["42", "7"], 1).unwrap();
    ledger.reserve("run 3", "old", &by_value, &[], "digest", &plan(0.1, 1)).unwrap();
    // The plain run that showed them is still found.
    let mut later = registration("later", 0..0, 1.0);
    later.persons = PersonDigests::new(&[7; 32], ["007", "new"], 1).unwrap();
    assert!(ledger.register(&later).unwrap().unbounded);
    ledger.verify().unwrap();
}

#[test]
fn a_changed_byte_is_noticed_before_a_run_spends_and_while_the_ledger_is_open() {
    let (memory, mut ledger) = opened();
    reserve(&mut ledger, "run", 0.1, 1).unwrap();
    let Grant::Fresh(permit) = ledger.permit("run", 0).unwrap() else { panic!("nothing is stored yet") };
    ledger.store(release(&query(), permit, &mut NoisePool::new()).unwrap()).unwrap();
    ledger.keep_received("run", 1, b"reply").unwrap();
    for name in ["persons/cohort", "sent/run/0", "received/run/1"] {
        let flip = || memory.disk.borrow_mut().blobs.get_mut(name).unwrap()[0] ^= 1;
        flip();
        for ledger in [&mut ledger, &mut Ledger::open(memory.clone()).unwrap()] {
            let afford = ledger.afford("cohort", &persons(0..1000), "digest", &plan(0.1, 1)).unwrap_err();
            assert_eq!(
                (afford.exit(), afford.clone()),
                (crate::exit::Exit::Refused, LedgerError::Changed { name: name.to_owned() })
            );
            assert_eq!(reserve(ledger, "more", 0.1, 1), Err(afford));
        }
        flip();
    }
    reserve(&mut ledger, "more", 0.1, 1).unwrap();
}

#[test]
fn the_last_budget_goes_to_exactly_one() {
    let (memory, first) = opened();
    let cap = first.account("cohort").unwrap().cap;
    let second = Ledger::open(memory).unwrap();
    let mut ledgers = [first, second];
    let outcomes: Vec<bool> = ledgers
        .iter_mut()
        .enumerate()
        .map(|(i, l)| reserve(l, &format!("run {i}"), (0.7 * cap).sqrt(), 1).is_ok())
        .collect();
    assert_eq!(outcomes, [true, false]);
    assert!(ledgers[1].account("cohort").unwrap().sum <= cap);
    assert!(matches!(reserve(&mut ledgers[1], "run 2", (0.7 * cap).sqrt(), 1), Err(LedgerError::Overspent { .. })));
}

#[test]
fn the_whole_cap_can_be_reserved_and_nothing_after_it() {
    let (_, mut ledger) = opened();
    let cap = ledger.account("cohort").unwrap().cap;
    reserve(&mut ledger, "run", (cap * (1.0 - 1e-13)).sqrt(), 1).unwrap();
    assert!(reserve(&mut ledger, "more", 1e-6, 1).is_err());
    for strange in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(reserve(&mut ledger, "strange", strange, 1).is_err(), "{strange}");
    }
}

#[test]
fn data_sets_that_share_a_person_share_their_sums() {
    let (_, mut ledger) = opened();
    reserve(&mut ledger, "run", 0.1, 1).unwrap();
    let apart = ledger.register(&registration("apart", 2000..3000, 1.0)).unwrap();
    assert_eq!(apart.sum, 0.0);
    let shared = ledger.register(&registration("shared", 999..2001, 3.0)).unwrap();
    assert_eq!(shared.sum, ledger.account("cohort").unwrap().sum);
    assert_eq!(shared.shares_with.len(), 2);
    let before = shared.sum;
    reserve(&mut ledger, "run 2", 0.1, 1).unwrap();
    assert!(ledger.account("shared").unwrap().sum > before, "a charge on one is a charge on the other");
    assert_eq!(ledger.account("apart").unwrap().sum, 0.0);
    // The larger budget of one does not help the persons of the other.
    let outcome = ledger.reserve("run 3", "shared", &persons(999..2001), &[], "digest", &plan(0.5, 1));
    let refused = outcome.unwrap_err().to_string();
    let both = "data set \"shared\" shares persons with \"apart\", whose budget is spent: this run needs";
    assert!(refused.starts_with(both), "{refused}");
}

#[test]
fn a_second_name_brings_no_second_budget() {
    let (_, mut ledger) = opened();
    let again = ledger.register(&registration("renamed", 0..1000, 1.0));
    assert_eq!(again, Err(LedgerError::SamePersons { existing: "cohort".to_owned() }));
    let taken = ledger.register(&registration("cohort", 0..10, 1.0));
    assert!(matches!(taken, Err(LedgerError::NameTaken { .. })));
    let other = ledger.reserve("run", "cohort", &persons(0..999), &[], "digest", &plan(0.1, 1));
    assert!(matches!(other, Err(LedgerError::OtherData { .. })));
    assert!(matches!(
        ledger.reserve("run", "unknown", &persons(0..999), &[], "digest", &plan(0.1, 1)),
        Err(LedgerError::Unknown { .. })
    ));
}

#[test]
fn two_rows_of_one_person_are_refused_or_charged() {
    let key = [7; 32];
    let rows = ["a", "b", "a"];
    let refused = LedgerError::RowsPerPerson { declared: 1, found: 2 };
    assert!(refused.to_string().starts_with("two rows belong to one person (the same id)"));
    assert_eq!(PersonDigests::new(&key, rows, 1), Err(refused));
    let (_, mut ledger) = opened();
    let persons = PersonDigests::new(&key, rows, 2).unwrap();
    let mut twice = registration("twice", 0..1, 1.0);
    twice.persons = persons.clone();
    ledger.register(&twice).unwrap();
    ledger.reserve("run", "twice", &persons, &[], "digest", &plan(0.1, 1)).unwrap();
    assert!((ledger.account("twice").unwrap().sum - 0.04).abs() < 1e-12, "four times the charge of one row");
}

fn plain(run: &str, persons: PersonDigests) -> PlainRun {
    PlainRun {
        run: run.to_owned(),
        data_set: "hand".to_owned(),
        persons,
        peers: Vec::new(),
        study: "digest".to_owned(),
    }
}

#[test]
fn a_plain_run_is_on_record_for_every_person_it_showed() {
    let (memory, mut ledger) = opened();
    ledger.register(&registration("shared", 999..2001, 1.0)).unwrap();
    ledger.record_plain(&[plain("plain", persons(0..1000))]).unwrap();
    assert!(ledger.account("cohort").unwrap().unbounded);
    assert!(ledger.account("shared").unwrap().unbounded);
    assert!(ledger.register(&registration("later", 5..50, 1.0)).unwrap().unbounded);
    assert!(!ledger.register(&registration("apart", 5000..5001, 1.0)).unwrap().unbounded);
    assert!(reserve(&mut ledger, "plain", 0.1, 1).is_err(), "one name for one run");
    reserve(&mut ledger, "private", 0.1, 1).unwrap();
    assert!(matches!(ledger.record_plain(&[plain("private", persons(0..1))]), Err(LedgerError::RunExists { .. })));
    assert!(memory.stored("plain/").is_none());
}

#[test]
fn a_plain_run_counts_whether_its_persons_are_registered_before_or_after_it_and_under_whatever_name() {
    for earlier in [true, false] {
        let memory = Memory::new();
        let mut ledger = Ledger::create(memory.clone()).unwrap();
        let runs = [plain("run 1", persons(0..10)), plain("run 2", persons(0..10)), plain("run 3", persons(500..501))];
        if earlier {
            ledger.record_plain(&runs).unwrap();
            // A restarted process says it again.
            ledger.record_plain(&runs[..1]).unwrap();
            drop(ledger);
            ledger = Ledger::open(memory.clone()).unwrap();
        }
        for (name, range) in [("same", 0..10), ("one of them", 9..100), ("the other", 500..600), ("none", 200..210)] {
            ledger.register(&registration(name, range, 1.0)).unwrap();
        }
        if !earlier {
            ledger.record_plain(&runs).unwrap();
        }
        let shown: Vec<(String, bool, bool)> = ledger
            .accounts()
            .map(|account| (account.data_set.clone(), account.unbounded, account.unbounded_by_unknown))
            .collect();
        let expected = [("none", false), ("one of them", true), ("same", true), ("the other", true)];
        assert_eq!(shown, expected.map(|(name, shown)| (name.to_owned(), shown, false)), "earlier: {earlier}");
        let mut restarted = Ledger::open(memory.clone()).unwrap();
        restarted.verify().unwrap();
        assert!(restarted.accounts().eq(ledger.accounts()));
        if earlier {
            let blob = format!("plain/{}", persons(500..501).digest());
            memory.disk.borrow_mut().blobs.get_mut(&blob).unwrap()[0] ^= 1;
            assert!(matches!(restarted.verify(), Err(LedgerError::Changed { .. })));
        }
    }
}

#[test]
fn a_plain_run_of_unknown_persons_counts_for_everybody() {
    let (memory, mut ledger) = opened();
    ledger.record_plain(&[plain("from a pipe", PersonDigests::anyone())]).unwrap();
    ledger.register(&registration("later", 2000..2001, 1.0)).unwrap();
    for name in ["cohort", "later"] {
        let account = ledger.account(name).unwrap();
        assert!(account.unbounded && account.unbounded_by_unknown, "{name}");
    }
    assert_eq!(Ledger::open(memory).unwrap().verify().unwrap().0, 4);
}

#[test]
fn plain_runs_in_records_of_earlier_versions_still_count() {
    let (memory, mut ledger) = opened();
    let body = r#"{"kind":"plain","run":"old","data_set":"cohort","peers":[],"study":"digest"}"#;
    ledger.transact(|transaction| transaction.append(serde_json::from_str(body).unwrap())).unwrap();
    assert_eq!(memory.disk.borrow().records[2].body, body);
    let mut restarted = Ledger::open(memory).unwrap();
    assert!(restarted.account("cohort").unwrap().unbounded);
    assert!(restarted.register(&registration("shared", 999..2001, 1.0)).unwrap().unbounded);
}

#[test]
fn persons_who_are_not_known_share_their_sum_with_everybody() {
    let (_, mut ledger) = opened();
    reserve(&mut ledger, "run", 0.1, 1).unwrap();
    let mut unknown = registration("stream", 0..0, 1.0);
    unknown.persons = PersonDigests::anyone();
    let stream = ledger.register(&unknown).unwrap();
    assert!(stream.is_anyone() && !ledger.account("cohort").unwrap().is_anyone());
    assert_eq!(stream.sum, ledger.account("cohort").unwrap().sum);
    ledger.reserve("run 2", "stream", &PersonDigests::anyone(), &[], "digest", &plan(0.2, 1)).unwrap();
    let sum = ledger.account("cohort").unwrap().sum;
    assert!((sum - 0.05).abs() < 1e-12, "{sum}");
    assert_eq!(ledger.register(&registration("later", 7000..7001, 1.0)).unwrap().sum, sum);
    unknown.data_set = "again".to_owned();
    assert_eq!(ledger.register(&unknown), Err(LedgerError::SamePersons { existing: "stream".to_owned() }));
}

#[test]
fn bounds_that_became_others_stay_on_record() {
    let (memory, mut ledger) = opened();
    let stated = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(column, words)| (column.to_string(), words.to_string())).collect()
    };
    let first = stated(&[("age", "0 to 120"), ("y", "0 to 1")]);
    ledger.state_bounds("cohort", "digest", &first).unwrap();
    let records = memory.disk.borrow().records.len();
    ledger.state_bounds("cohort", "digest", &first).unwrap();
    ledger.state_bounds("cohort", "digest", &stated(&[("y", "0 to 1")])).unwrap();
    assert_eq!(memory.disk.borrow().records.len(), records, "nothing new, nothing written");
    ledger.state_bounds("cohort", "other", &stated(&[("bmi", "10 to 80")])).unwrap();
    assert!(ledger.account("cohort").unwrap().bounds_changed.is_empty(), "another column is no change");
    ledger.state_bounds("cohort", "third", &stated(&[("age", "18 to 97"), ("y", "0 to 1")])).unwrap();
    ledger.state_bounds("cohort", "digest", &first).unwrap();
    let account = Ledger::open(memory).unwrap().account("cohort").unwrap();
    let change = |from: &str, to: &str| BoundsChange { column: "age".into(), from: from.into(), to: to.into() };
    assert_eq!(account.bounds_changed, [change("0 to 120", "18 to 97"), change("18 to 97", "0 to 120")]);
    let sentence = account.bounds_changed[0].sentence();
    assert!(sentence.starts_with("bounds of `age` were changed from 0 to 120 to 18 to 97"), "{sentence}");
    assert!(matches!(ledger.state_bounds("unknown", "d", &first), Err(LedgerError::Unknown { .. })));
}

#[test]
fn a_chain_whose_making_was_interrupted_can_be_made_again() {
    let memory = Memory::new();
    memory.disk.borrow_mut().anchor = Some(Anchor::default());
    let refused = Ledger::open(memory.clone()).map(drop).unwrap_err();
    assert!(refused.is_missing(), "{refused}");
    Ledger::create(memory.clone()).unwrap().register(&registration("cohort", 0..10, 1.0)).unwrap();
    assert_eq!(Ledger::open(memory).unwrap().verify().unwrap().0, 2);
}

#[test]
fn changes_to_the_chain_are_seen() {
    let (memory, mut ledger) = opened();
    reserve(&mut ledger, "run", 0.1, 1).unwrap();
    ledger.keep_received("run", 0, b"reply").unwrap();
    let sound = memory.disk.borrow().clone();
    let reopen = |change: &dyn Fn(&mut Disk)| {
        let changed = Memory::new();
        *changed.disk.borrow_mut() = sound.clone();
        change(&mut changed.disk.borrow_mut());
        Ledger::open(changed).and_then(|mut ledger| ledger.verify()).map(|(records, _)| records)
    };
    assert_eq!(reopen(&|_| {}), Ok(4));
    // An edited charge.
    let edit = |disk: &mut Disk| disk.records[2].body = disk.records[2].body.replace("0.1", "0.01");
    assert_eq!(reopen(&edit), Err(LedgerError::Broken { sequence: 3 }));
    // A record taken out of the middle.
    assert_eq!(reopen(&|disk| drop(disk.records.remove(1))), Err(LedgerError::Broken { sequence: 2 }));
    // An older copy put back.
    let cut = |disk: &mut Disk| disk.records.truncate(2);
    assert!(matches!(reopen(&cut), Err(LedgerError::RolledBack { expected: 4, found: 2, .. })));
    let emptied = reopen(&|disk| disk.records.clear());
    assert!(matches!(emptied, Err(LedgerError::RolledBack { expected: 4, found: 0, .. })));
    // A whole other chain, consistent in itself.
    let rebuilt = |disk: &mut Disk| {
        let mut previous = Anchor::default();
        for record in &mut disk.records {
            *record = Record::link(&previous, record.at + 1, record.body.clone());
            previous = record.end();
        }
    };
    assert!(matches!(reopen(&rebuilt), Err(LedgerError::RolledBack { expected: 4, .. })));
    assert!(matches!(reopen(&|disk| disk.anchor = None), Err(LedgerError::NoAnchor { .. })));
    // Stored bytes.
    let bytes = |disk: &mut Disk| disk.blobs.get_mut("received/run/0").unwrap()[0] ^= 1;
    assert!(matches!(reopen(&bytes), Err(LedgerError::Changed { .. })));
    let list = |disk: &mut Disk| drop(disk.blobs.remove("persons/cohort"));
    assert!(matches!(reopen(&list), Err(LedgerError::Changed { .. })));
    // A ledger with another key.
    let mut other = Memory::new();
    *other.disk.borrow_mut() = sound.clone();
    other.key = [8; 32];
    assert!(Ledger::open(other).is_err());
}

#[test]
fn a_rollback_under_an_open_ledger_is_seen() {
    let (memory, mut ledger) = opened();
    let old = memory.disk.borrow().clone();
    reserve(&mut ledger, "run", 0.1, 1).unwrap();
    *memory.disk.borrow_mut() = old;
    assert!(matches!(reserve(&mut ledger, "again", 0.1, 1), Err(LedgerError::RolledBack { .. })));
}

#[test]
fn a_chain_is_not_started_over() {
    let (memory, ledger) = opened();
    drop(ledger);
    assert_eq!(Ledger::create(memory.clone()).map(|_| ()), Err(LedgerError::Exists { records: 2 }));
    memory.disk.borrow_mut().records.clear();
    assert!(matches!(Ledger::create(memory).map(|_| ()), Err(LedgerError::RolledBack { expected: 2, found: 0, .. })));
}

#[test]
fn a_repeated_message_must_be_the_same() {
    let (_, mut ledger) = opened();
    reserve(&mut ledger, "run", 0.1, 1).unwrap();
    assert_eq!(ledger.received("run", 0).unwrap(), None);
    ledger.keep_received("run", 0, b"reply").unwrap();
    ledger.keep_received("run", 0, b"reply").unwrap();
    assert_eq!(ledger.received("run", 0).unwrap().as_deref(), Some(&b"reply"[..]));
    assert!(matches!(ledger.keep_received("run", 0, b"other"), Err(LedgerError::Differs { .. })));
}

/// Whatever crashes and whichever side retries: what was handed out never costs more than what is on record, a repeat has the
/// same bytes, and no sum passes its cap.
#[test]
fn no_sequence_of_crashes_and_retries_spends_less_than_it_released() {
    for seed in 0..60 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let memory = Memory::new();
        let mut pool = NoisePool::seeded(seed);
        let mut handed_out: BTreeMap<(String, u32), Vec<u8>> = BTreeMap::new();
        let mut cost = 0.0;
        let mut ledger: Option<Ledger<Memory>> = None;
        for step in 0..60 {
            if random.random_bool(0.3) {
                memory.fuse.set(random.random_range(0..14));
            }
            let outcome = (|| -> Result<(), LedgerError> {
                if ledger.is_none() {
                    let empty = memory.disk.borrow().records.is_empty();
                    let mut fresh = if empty { Ledger::create(memory.clone())? } else { Ledger::open(memory.clone())? };
                    if fresh.account("cohort").is_err() {
                        fresh.register(&registration("cohort", 0..1000, 1.0))?;
                    }
                    ledger = Some(fresh);
                }
                let open = ledger.as_mut().unwrap();
                let run = format!("run {}", random.random_range(0..4));
                if random.random_bool(0.3) {
                    return reserve(open, &run, 0.12, 3);
                }
                let index = random.random_range(0..3);
                let made = match open.permit(&run, index)? {
                    Grant::Stored(release) => release,
                    Grant::Fresh(permit) => open.store(release(&query(), permit, &mut pool).unwrap())?,
                };
                match handed_out.get(&(run.clone(), index)) {
                    Some(before) => assert_eq!(*before, made.bytes(), "seed {seed} step {step}"),
                    None => cost += made.receipt().mu.powi(2),
                }
                handed_out.insert((run, index), made.bytes());
                Ok(())
            })();
            if matches!(outcome, Err(LedgerError::Storage(_))) {
                // The process is gone; the disk stays.
                ledger = None;
                memory.fuse.set(u32::MAX);
            }
            assert!(
                !matches!(outcome, Err(LedgerError::Broken { .. } | LedgerError::RolledBack { .. })),
                "{outcome:?}"
            );
        }
        memory.fuse.set(u32::MAX);
        let account = Ledger::open(memory).unwrap().account("cohort");
        if let Ok(account) = account {
            assert!(account.sum >= cost && account.sum <= account.cap, "seed {seed}: {} {cost}", account.sum);
        } else {
            assert_eq!(cost, 0.0);
        }
    }
}
