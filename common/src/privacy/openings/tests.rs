use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::data::align::Mask;
use crate::data::sketch::{Sketch, marks_of};
use crate::data::{Column, Values};
use crate::privacy::accountant::{Accountant, Budget};
use crate::privacy::ledger::tests::Memory;
use crate::privacy::ledger::{ColumnSketch, PersonDigester, PersonDigests, PlainRun, Registration, keyed};

const LIMITS: Limits = Limits { entropy_bits: 64.0, level_rows: 10, rows_per_column: 10, opened_share: 0.5 };

fn rows(range: std::ops::Range<u32>) -> Vec<[u8; 16]> {
    let mut digester = PersonDigester::new(&keyed(&[7; 32], &[]));
    range.for_each(|row| digester.push(row.to_string().as_bytes()));
    digester.rows().to_vec()
}

fn opening(run: &str, data_set: &str) -> Opening {
    let new = Opening::new(run.to_owned(), data_set.to_owned(), vec!["bob".to_owned()], "study".to_owned());
    Opening { told_by: "id".to_owned(), ..new }
}

fn account(memory: &Memory, run: &str, data_set: &str, range: std::ops::Range<u32>) -> RunAccount<Memory> {
    let ledger = match Ledger::open(memory.clone()) {
        Err(error) if error.is_missing() => Ledger::create(memory.clone()),
        opened => opened,
    };
    RunAccount::new(ledger.unwrap(), opening(run, data_set), rows(range))
}

fn opens(numbers: u64, rows: u64) -> Opens<'static> {
    let apart = Fewest { rows: 0, values: 20 };
    Opens { numbers, rows, columns: [2, 3], dropped: None, weights: None, folds: None, limits: &LIMITS, apart }
}

fn before(memory: &Memory, data_set: &str) -> Before {
    Ledger::open(memory.clone()).unwrap().opened_before(data_set, &BTreeSet::new(), "").unwrap()
}

#[test]
fn numbers_add_up_over_runs_of_a_data_set_and_over_no_other() {
    let memory = Memory::new();
    // 100 rows and two columns at the side with fewer: 200 unknown values, 100 may open.
    let mut first = account(&memory, "r1", "claims", 0..100);
    first.may_open(&opens(40, 100)).unwrap();
    assert_eq!(before(&memory, "claims"), Before::default());
    first.open(&opens(40, 100)).unwrap();
    // Of one run the last number counts, which has those before in it.
    first.open(&opens(60, 100)).unwrap();
    assert_eq!(before(&memory, "claims"), Before { runs: 1, numbers: 60, plain: 0 });
    let mut second = account(&memory, "r2", "claims", 0..100);
    second.open(&opens(40, 100)).unwrap();
    let refused = Refusal::Opened { opened: 101, before: 100, plain: 0, most: 100, unknowns: 200 };
    let mut third = account(&memory, "r3", "claims", 0..100);
    assert_eq!(third.may_open(&opens(1, 100)), Err(NotOpened::Limit(refused.clone())));
    assert_eq!(third.open(&opens(1, 100)), Err(NotOpened::Limit(refused)));
    assert_eq!(before(&memory, "claims"), Before { runs: 2, numbers: 100, plain: 0 });
    account(&memory, "r4", "visits", 0..100).open(&opens(100, 100)).unwrap();
    assert_eq!(before(&memory, "visits"), Before { runs: 1, numbers: 100, plain: 0 });
}

#[test]
fn data_sets_that_hold_the_same_rows_have_one_account() {
    let memory = Memory::new();
    account(&memory, "r1", "claims", 0..1000).open(&opens(10, 1000)).unwrap();
    let mut ledger = Ledger::open(memory.clone()).unwrap();
    for (name, persons) in [("claims", 0..1000), ("by row", 5000..6000), ("apart", 7000..8000)] {
        let persons = PersonDigests::new(&[7; 32], persons.map(|person: u32| person.to_string()), 1).unwrap();
        let budget = Budget::new(1.0, 1e-5, Accountant::Zcdp, 1000, false).unwrap();
        let registration = Registration { data_set: name.to_owned(), persons, budget, bounds: BTreeMap::new() };
        ledger.register(&registration).unwrap();
    }
    account(&memory, "r2", "by row", 0..999).may_open(&opens(10, 999)).unwrap();
    ledger.link("by row", "claims").unwrap();
    assert!(ledger.hold_the_same_rows("claims", "by row") && !ledger.hold_the_same_rows("apart", "by row"));
    let refused = account(&memory, "r2", "by row", 0..999).may_open(&opens(10, 999));
    assert!(matches!(refused, Err(NotOpened::Ledger(LedgerError::RowsBetween { rows: 1, .. }))), "{refused:?}");
    account(&memory, "r2", "by row", 0..1000).open(&opens(20, 1000)).unwrap();
    assert_eq!(before(&memory, "claims"), Before { runs: 2, numbers: 30, plain: 0 });
    assert_eq!(before(&memory, "apart"), Before::default());
    // Another name of one source, without an account.
    let ledger = Ledger::open(memory.clone()).unwrap();
    let renamed = Opening { also: BTreeSet::from(["claims".to_owned()]), ..opening("r3", "renamed") };
    let refused = RunAccount::new(ledger, renamed, rows(0..999)).may_open(&opens(10, 999));
    assert!(matches!(refused, Err(NotOpened::Ledger(LedgerError::RowsBetween { rows: 1, .. }))), "{refused:?}");
    account(&memory, "r3", "renamed", 0..999).may_open(&opens(10, 999)).unwrap();
    let listed: Vec<(String, u64)> =
        Ledger::open(memory).unwrap().openings().map(|(name, opened)| (name.to_owned(), opened.numbers)).collect();
    assert_eq!(listed, [("by row".to_owned(), 20), ("claims".to_owned(), 10)]);
}

#[test]
fn rows_that_differ_by_a_few_from_those_of_an_earlier_table_are_refused() {
    let memory = Memory::new();
    account(&memory, "r1", "claims", 0..1000).open(&opens(10, 1000)).unwrap();
    // Five columns, ten rows each: tables may differ by 50 rows, or by none.
    for (range, differ) in [(0..999, 1), (1..1001, 2), (0..1049, 49), (25..1024, 49)] {
        let refused = account(&memory, "r2", "claims", range.clone()).open(&opens(10, 1000));
        let Err(NotOpened::Ledger(LedgerError::RowsBetween { rows, least, run, .. })) = refused else {
            panic!("{range:?}: {refused:?}")
        };
        assert_eq!((rows, least, run.as_str()), (differ, 50, "r1"));
    }
    for range in [0..1000, 0..1050, 2000..3000] {
        account(&memory, "r3", "claims", range).may_open(&opens(10, 1000)).unwrap();
    }
    // The same rows in another order, and those of another data set.
    let mut turned = rows(0..1000);
    turned.reverse();
    let ledger = Ledger::open(memory.clone()).unwrap();
    RunAccount::new(ledger, opening("r4", "claims"), turned).may_open(&opens(10, 1000)).unwrap();
    account(&memory, "r5", "visits", 0..999).may_open(&opens(10, 999)).unwrap();
}

#[test]
fn tables_differ_by_as_many_rows_as_their_columns_need() {
    let memory = Memory::new();
    account(&memory, "r1", "claims", 0..1000).open(&opens(10, 1000)).unwrap();
    let needs = |rows| Opens { apart: Fewest { rows, values: 20 }, ..opens(10, 1000) };
    account(&memory, "r2", "claims", 0..1060).may_open(&needs(60)).unwrap();
    let refused = account(&memory, "r2", "claims", 0..1060).may_open(&needs(61));
    assert!(
        matches!(refused, Err(NotOpened::Ledger(LedgerError::RowsBetween { rows: 60, least: 61, .. }))),
        "{refused:?}"
    );
}

#[test]
fn rows_have_the_same_weights_in_all_tables() {
    let memory = Memory::new();
    let with = |weights: Vec<f64>| Opens { weights: Some(weights.leak()), ..opens(10, 1000) };
    let other = |judged: Result<(), NotOpened>, of: &str| match judged {
        Err(NotOpened::Ledger(LedgerError::OtherWeights { run, .. })) => run == of,
        _ => false,
    };
    account(&memory, "r1", "claims", 0..1000).open(&opens(10, 1000)).unwrap();
    let changed = |count: usize, weight: f64| (0..1000).map(|row| if row < count { weight } else { 1.0 }).collect();
    for (count, weight) in [(1, 2.0), (49, 0.5), (50, 2.0), (1000, 2.0), (1000, 1.0 + 1e-15)] {
        let judged = account(&memory, "r2", "claims", 0..1000).may_open(&with(changed(count, weight)));
        assert!(other(judged, "r1"), "{count} {weight}");
    }
    // All weights twice as large and a row left out: a factor must not hide the row.
    let judged = account(&memory, "r2", "claims", 1..1000).may_open(&with(vec![2.0; 999]));
    assert!(other(judged, "r1"));
    account(&memory, "r2", "claims", 0..1000).may_open(&with(changed(0, 1.0))).unwrap();
    // A row of weight zero is in no table.
    let judged = account(&memory, "r2", "claims", 0..1000).may_open(&with(changed(49, 0.0)));
    let rows =
        |rows: u64| matches!(judged, Err(NotOpened::Ledger(LedgerError::RowsBetween { rows: few, .. })) if few == rows);
    assert!(rows(49), "{judged:?}");
    account(&memory, "r2", "claims", 0..1000).may_open(&with(changed(50, 0.0))).unwrap();
    // Between two runs with weights.
    account(&memory, "r3", "visits", 0..1000).open(&with(changed(500, 3.0))).unwrap();
    account(&memory, "r4", "visits", 0..1000).may_open(&with(changed(500, 3.0))).unwrap();
    let judged = account(&memory, "r4", "visits", 0..1000).may_open(&with(changed(501, 3.0)));
    assert!(other(judged, "r3"));
    Ledger::open(memory).unwrap().verify().unwrap();
}

#[test]
fn folds_of_two_runs_cut_the_rows_into_pieces_that_are_no_few() {
    let memory = Memory::new();
    let quarters: Vec<u32> = (0..1000).map(|row| row / 250 + 1).collect();
    let with = |folds: &'static [u32]| Opens { folds: Some(folds), ..opens(10, 1000) };
    account(&memory, "r1", "claims", 0..1000).open(&with(quarters.clone().leak())).unwrap();
    // The same folds, in another order; halves that are made of them; all rows; the rows of one fold.
    let turned: Vec<u32> = quarters.iter().map(|fold| 5 - fold).collect();
    let halves: Vec<u32> = quarters.iter().map(|fold| fold.div_ceil(2)).collect();
    for folds in [quarters.clone(), turned, halves] {
        account(&memory, "r2", "claims", 0..1000).may_open(&with(folds.leak())).unwrap();
    }
    for range in [0..1000, 250..500, 0..500, 250..1000, 100..1000] {
        account(&memory, "r2", "claims", range).may_open(&opens(10, 1000)).unwrap();
    }
    // A row moves to the next fold; the rows of two folds and one more; of one but three; one that is in no fold.
    let mut moved = quarters.clone();
    moved[0] = 2;
    let refused = account(&memory, "r2", "claims", 0..1000).may_open(&with(moved.leak()));
    assert!(
        matches!(refused, Err(NotOpened::Ledger(LedgerError::RowsBetween { rows: 1, least: 50, .. }))),
        "{refused:?}"
    );
    for (range, few) in [(0..501, 1), (253..500, 3), (0..1001, 1), (950..2000, 50)] {
        let refused = account(&memory, "r2", "claims", range.clone()).may_open(&opens(10, 1000));
        match few {
            50 => refused.unwrap(),
            _ => assert!(
                matches!(refused, Err(NotOpened::Ledger(LedgerError::RowsBetween { rows, .. })) if rows == few),
                "{range:?}: {refused:?}"
            ),
        }
    }
    // An earlier run of all rows, and folds of which one has rows that are not among them.
    account(&memory, "r3", "visits", 0..1000).open(&opens(10, 1000)).unwrap();
    let few = account(&memory, "r4", "visits", 10..1010).may_open(&with(quarters.leak()));
    assert!(matches!(few, Err(NotOpened::Ledger(LedgerError::RowsBetween { rows: 10, .. }))), "{few:?}");
    Ledger::open(memory).unwrap().verify().unwrap();
}

#[test]
fn rows_that_are_dropped_are_not_covered() {
    let memory = Memory::new();
    let mut mask = Mask::new(1000);
    mask.set(17);
    let without = Opens { dropped: Some(&mask), ..opens(10, 999) };
    account(&memory, "r1", "claims", 0..1000).open(&without).unwrap();
    account(&memory, "r2", "claims", 0..1000).open(&without).unwrap();
    let all = account(&memory, "r3", "claims", 0..1000).open(&opens(10, 1000));
    assert!(matches!(all, Err(NotOpened::Ledger(LedgerError::RowsBetween { rows: 1, .. }))), "{all:?}");
}

#[test]
fn rows_that_are_told_apart_by_another_column_are_not_compared() {
    let memory = Memory::new();
    account(&memory, "r1", "claims", 0..1000).open(&opens(10, 1000)).unwrap();
    let by = |told_by: &str, range| {
        let told = Opening { told_by: told_by.to_owned(), ..opening("r2", "claims") };
        RunAccount::new(Ledger::open(memory.clone()).unwrap(), told, rows(range)).may_open(&opens(10, 1000))
    };
    by("id", 2000..3000).unwrap();
    // By their place, or by another column, rows have digests that are new: nobody can tell that one of them is missing.
    for told_by in ["", "pid"] {
        let refused = by(told_by, 2000..2999);
        let Err(NotOpened::Ledger(LedgerError::OtherIdentifiers { run, told, before, .. })) = refused else {
            panic!("{told_by}: {refused:?}")
        };
        assert_eq!((run.as_str(), told.as_str(), before.as_deref()), ("r1", told_by, Some("id")));
    }
    let sentence = by("", 0..1000).unwrap_err().to_string();
    assert!(
        sentence.contains("told apart by their place in the table here, and were by column \"id\" in run \"r1\""),
        "{sentence}"
    );
    // A party that asks for no rows per column compares none.
    let limits: &'static Limits = Box::leak(Box::new(Limits { rows_per_column: 0, ..LIMITS }));
    let told = Opening { told_by: String::new(), ..opening("r2", "claims") };
    let ledger = Ledger::open(memory.clone()).unwrap();
    RunAccount::new(ledger, told, rows(0..999)).may_open(&Opens { limits, ..opens(10, 999) }).unwrap();
    Ledger::open(memory).unwrap().verify().unwrap();
}

#[test]
fn a_run_that_has_the_name_of_an_earlier_one_does_not_take_its_place() {
    let memory = Memory::new();
    account(&memory, "r1", "claims", 0..1000).open(&opens(10, 1000)).unwrap();
    let again = account(&memory, "r1", "claims", 0..999).open(&opens(10, 999));
    assert!(matches!(again, Err(NotOpened::Ledger(LedgerError::RunExists { .. }))), "{again:?}");
    let again = account(&memory, "r1", "visits", 0..1000).open(&opens(10, 1000));
    assert!(matches!(again, Err(NotOpened::Ledger(LedgerError::RunExists { .. }))), "{again:?}");
    // What a plain run lets open names no rows.
    let mut ledger = Ledger::open(memory.clone()).unwrap();
    let plain = Opening { numbers: 1, ..opening("r1", "claims") };
    let again = ledger.open_numbers(&plain, Fewest::NONE, |_| Ok::<(), ()>(()));
    assert!(matches!(again, Err(LedgerError::RunExists { .. })), "{again:?}");
    assert_eq!(before(&memory, "claims"), Before { runs: 1, numbers: 10, plain: 0 });
}

#[test]
fn values_that_differ_in_few_rows_from_those_of_an_earlier_table_are_refused() {
    let memory = Memory::new();
    let names: Vec<String> = (0..1000).map(|row: u32| row.to_string()).collect();
    let marks = marks_of(names.iter().map(String::as_bytes));
    let salary = |changed: u32| -> Vec<f64> {
        (0..1000).map(|row: u32| f64::from(row * row % 997) + if row < changed { 1250.5 } else { 0.0 }).collect()
    };
    let with = |run: &str, columns: Vec<(&str, Vec<f64>)>| {
        let sketches = columns.into_iter().map(|(name, values)| {
            let column = Column { name: name.to_owned(), values: Values::Numeric(values) };
            ColumnSketch::new(name, &Sketch::of(&marks, &column), &[5; 32])
        });
        let opening = Opening { sketches: sketches.collect(), ..opening(run, "claims") };
        let ledger = Ledger::open(memory.clone()).or_else(|_| Ledger::create(memory.clone())).unwrap();
        RunAccount::new(ledger, opening, rows(0..1000))
    };
    let age = || -> Vec<f64> { (0..1000).map(|row: u32| f64::from(row % 60)).collect() };
    with("r1", vec![("salary", salary(0)), ("age", age())]).open(&opens(10, 1000)).unwrap();
    // The same values, also beside another column; twenty and more of other values; another unit.
    let euros = salary(0).into_iter().map(|salary| salary / 1.95583).collect();
    let sound: [Vec<(&str, Vec<f64>)>; 4] =
        [vec![("age", age())], vec![("salary", salary(0))], vec![("salary", salary(25))], vec![("salary", euros)]];
    for columns in sound {
        with("r2", columns).may_open(&opens(10, 1000)).unwrap();
    }
    for (name, changed, few) in [("salary", 1, 1), ("salary", 19, 19), ("corrected", 3, 3)] {
        let refused = with("r2", vec![("age", age()), (name, salary(changed))]).open(&opens(10, 1000));
        let Err(NotOpened::Ledger(LedgerError::CellsBetween { column, other, rows, least: 20, .. })) = refused else {
            panic!("{name} {changed}: {refused:?}")
        };
        assert_eq!((column.as_str(), other.as_str()), (name, "salary"));
        assert!((1..=few).contains(&rows) && rows + 2 >= few, "{rows} of {few}");
    }
    // Tables of rows of which enough are in one of both only have nothing else in common that could be told.
    let others = with("r2", vec![("salary", salary(1))]);
    let RunAccount { ledger, opening, .. } = others;
    RunAccount::new(ledger, opening, rows(0..900)).may_open(&opens(10, 900)).unwrap();
    with("r2", vec![("salary", salary(0))]).open(&opens(10, 1000)).unwrap();
    Ledger::open(memory).unwrap().verify().unwrap();
}

#[test]
fn a_crash_leaves_what_was_recorded_before_it_and_the_chain_holds() {
    for fuse in 0..40 {
        let memory = Memory::new();
        account(&memory, "r1", "claims", 0..100).open(&opens(10, 100)).unwrap();
        let mut second = account(&memory, "r2", "claims", 0..100);
        memory.fuse.set(fuse);
        let opened = second.open(&opens(20, 100));
        memory.fuse.set(u32::MAX);
        let numbers = before(&memory, "claims").numbers;
        match opened {
            Ok(()) => assert_eq!(numbers, 30),
            Err(_) => assert!(numbers == 10 || numbers == 30, "{fuse}: {numbers}"),
        }
        Ledger::open(memory.clone()).unwrap().verify().unwrap();
    }
}

#[test]
fn rows_of_a_table_and_of_a_run_without_privacy_are_kept_once() {
    let memory = Memory::new();
    let mut ledger = Ledger::create(memory.clone()).unwrap();
    let ids = (0..100).map(|row| row.to_string());
    let persons = PersonDigests::new(&keyed(&[7; 32], &[]), ids, u32::MAX).unwrap();
    let (run, data_set) = ("r1".to_owned(), "claims".to_owned());
    let plain = PlainRun { run, data_set, persons, peers: Vec::new(), study: String::new() };
    ledger.record_plain(&[plain]).unwrap();
    // The storage refuses to overwrite.
    account(&memory, "r1", "claims", 0..100).open(&opens(10, 100)).unwrap();
    Ledger::open(memory).unwrap().verify().unwrap();
}
