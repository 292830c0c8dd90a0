//! Runs of which nothing was stored: their charge is taken back, and they release nothing any more.

use std::collections::BTreeSet;

use super::*;

fn made(ledger: &mut Ledger<Memory>, run: &str, index: u32) -> Result<NoisedRelease, LedgerError> {
    Ok(match ledger.permit(run, index)? {
        Grant::Stored(known) => known,
        Grant::Fresh(permit) => ledger.store(release(&query(), permit, &mut NoisePool::new()).unwrap())?,
    })
}

fn of_study(ledger: &mut Ledger<Memory>, run: &str, study: &str, mu: f64) -> Result<(), LedgerError> {
    ledger.reserve(run, "cohort", &persons(0..1000), &["bob".to_owned()], study, &plan(mu, 2))
}

fn accounts(ledger: &Ledger<Memory>) -> Vec<Account> {
    ledger.accounts().cloned().collect()
}

fn withdrawn(error: &LedgerError) -> bool {
    matches!(error, LedgerError::Withdrawn { .. })
}

/// What the accounts would be if the withdrawn runs had never been reserved.
fn without_withdrawn(memory: &Memory) -> Vec<Account> {
    let entries: Vec<Entry> =
        memory.disk.borrow().records.iter().map(|record| serde_json::from_str(&record.body).unwrap()).collect();
    let gone: BTreeSet<String> = entries
        .iter()
        .filter_map(|entry| if let Entry::Withdrawn { run } = entry { Some(run.clone()) } else { None })
        .collect();
    let mut state = State::default();
    for entry in entries {
        let of_gone = match &entry {
            Entry::Reserved { run, .. } | Entry::Received { run, .. } | Entry::Withdrawn { run } => gone.contains(run),
            _ => false,
        };
        if !of_gone {
            state.apply(entry).unwrap();
        }
    }
    state.accounts.into_values().collect()
}

#[test]
fn a_new_run_of_the_study_takes_back_the_charge_of_one_of_which_nothing_was_stored() {
    let (memory, mut ledger) = opened();
    of_study(&mut ledger, "other", "another study", 0.1).unwrap();
    let before = ledger.account("cohort").unwrap();
    of_study(&mut ledger, "first", "digest of rows 1", 0.1).unwrap();
    ledger.keep_received("first", 7, b"what the peer said").unwrap();
    let held = ledger.account("cohort").unwrap();
    assert!(held.sum > before.sum && held.peers["bob"] > before.peers["bob"]);
    let most = (before.cap - before.sum).sqrt() * (1.0 - 1e-9);
    ledger.afford("cohort", &persons(0..1000), "digest", &plan(most, 2)).unwrap();
    assert_eq!(ledger.account("cohort").unwrap(), held, "to look costs nothing and gives nothing back");
    assert!(!ledger.is_withdrawn("first"));
    // With other rows, and with the whole budget that was there before.
    of_study(&mut ledger, "second", "digest of rows 2", most).unwrap();
    assert!(ledger.is_withdrawn("first") && !ledger.is_reserved("first") && !ledger.is_withdrawn("other"));
    let run = |run: &str, charge: f64, withdrawn| Unreleased { run: run.to_owned(), charge, withdrawn };
    let charges: Vec<f64> = ledger.unreleased("cohort").iter().map(|run| run.charge).collect();
    assert_eq!(
        ledger.unreleased("cohort"),
        [run("first", charges[0], true), run("other", charges[1], false), run("second", charges[2], false)]
    );
    ledger.finish("second").unwrap();
    assert_eq!(ledger.account("cohort").unwrap(), before, "bit by bit");
    // Read anew, and with every byte: what the peer had said stays checked.
    let mut restarted = Ledger::open(memory.clone()).unwrap();
    restarted.verify().unwrap();
    assert_eq!(accounts(&restarted), accounts(&ledger));
    assert_eq!(accounts(&ledger), without_withdrawn(&memory));
    memory.disk.borrow_mut().blobs.get_mut("received/first/7").unwrap()[0] ^= 1;
    assert!(matches!(restarted.verify(), Err(LedgerError::Changed { .. })));
}

#[test]
fn a_run_that_was_withdrawn_releases_nothing_whichever_process_still_holds_it() {
    let (memory, mut ledger) = opened();
    of_study(&mut ledger, "first", "digest", 0.1).unwrap();
    let mut other = Ledger::open(memory.clone()).unwrap();
    let Grant::Fresh(held) = other.permit("first", 0).unwrap() else { panic!("nothing is stored yet") };
    let unsent = release(&query(), held, &mut NoisePool::new()).unwrap();
    of_study(&mut ledger, "second", "digest", 0.1).unwrap();
    assert!(withdrawn(&other.store(unsent).unwrap_err()));
    other.verify().unwrap();
    for ledger in [&mut ledger, &mut other] {
        assert!(withdrawn(&ledger.permit("first", 0).unwrap_err()));
        assert!(withdrawn(&ledger.keep_received("first", 0, b"reply").unwrap_err()));
        assert!(withdrawn(&ledger.resumes("first", "cohort", "digest").unwrap_err()));
        assert!(withdrawn(&of_study(ledger, "first", "digest", 0.1).unwrap_err()), "its name is taken for ever");
        assert_eq!(ledger.unfinished("cohort", "digest"), Some("second"));
        ledger.finish("first").unwrap();
    }
    assert_eq!(memory.stored("sent/first/0"), None);
    assert!(ledger.receipts("first").is_empty());
    assert_eq!(withdrawn_error().exit(), crate::exit::Exit::Refused);
}

fn withdrawn_error() -> LedgerError {
    LedgerError::Withdrawn { run: "first".to_owned() }
}

#[test]
fn a_run_with_one_stored_release_stays_charged() {
    let (memory, mut ledger) = opened();
    of_study(&mut ledger, "first", "digest", 0.1).unwrap();
    made(&mut ledger, "first", 1).unwrap();
    let sum = ledger.account("cohort").unwrap().sum;
    of_study(&mut ledger, "second", "digest", 0.1).unwrap();
    assert!(ledger.account("cohort").unwrap().sum > sum);
    assert!(ledger.resumes("first", "cohort", "digest").unwrap(), "it may go on");
    made(&mut ledger, "first", 0).unwrap();
    ledger.finish("first").unwrap();
    ledger.finish("second").unwrap();
    assert_eq!(Ledger::open(memory).unwrap().account("cohort").unwrap().sum, sum);
    assert_eq!(ledger.unreleased("cohort").iter().map(|run| run.run.as_str()).collect::<Vec<_>>(), ["second"]);
}

#[test]
fn a_release_that_an_earlier_version_had_begun_and_a_run_that_it_finished_stay_charged() {
    let (memory, mut ledger) = opened();
    of_study(&mut ledger, "begun", "digest", 0.1).unwrap();
    of_study(&mut ledger, "over", "another", 0.1).unwrap();
    drop(ledger);
    written(&memory, &[r#"{"kind":"started","run":"begun","index":1}"#, r#"{"kind":"finished","run":"over"}"#]);
    let mut ledger = Ledger::open(memory).unwrap();
    let sum = ledger.account("cohort").unwrap().sum;
    of_study(&mut ledger, "new", "digest", 0.1).unwrap();
    of_study(&mut ledger, "new 2", "another", 0.1).unwrap();
    assert!((ledger.account("cohort").unwrap().sum - sum - 0.02).abs() < 1e-12);
    ledger.finish("begun").unwrap();
    assert!(!ledger.is_withdrawn("begun") && !ledger.is_withdrawn("over"));
    assert!(ledger.unreleased("cohort").iter().all(|run| run.run.starts_with("new")));
}

#[test]
fn data_sets_that_share_inherited_or_were_linked_are_what_they_would_be_without_the_run() {
    let (memory, mut ledger) = opened();
    ledger.register(&registration("shared", 999..2001, 1.0)).unwrap();
    ledger.register(&registration("by row", 5000..6000, 1.0)).unwrap();
    of_study(&mut ledger, "kept", "another", 0.1).unwrap();
    made(&mut ledger, "kept", 0).unwrap();
    of_study(&mut ledger, "lost", "digest", 0.2).unwrap();
    // Behind the charge: one that inherits it, one that is linked, one whose persons a plain run showed.
    ledger.register(&registration("later", 5..50, 1.0)).unwrap();
    ledger.record_plain(&[plain("plain", persons(5..6))]).unwrap();
    ledger.link("by row", "cohort").unwrap();
    let sum = |ledger: &Ledger<Memory>, name: &str| ledger.account(name).unwrap().sum;
    for name in ["cohort", "shared", "later", "by row"] {
        assert!((sum(&ledger, name) - 0.05).abs() < 1e-9, "{name}: {}", sum(&ledger, name));
    }
    ledger.finish("lost").unwrap();
    for name in ["cohort", "shared", "later", "by row"] {
        assert!((sum(&ledger, name) - 0.01).abs() < 1e-9, "{name}: {}", sum(&ledger, name));
    }
    assert!(ledger.account("later").unwrap().unbounded, "what a plain run showed stays shown");
    assert_eq!(ledger.account("later").unwrap().shares_with.len(), 2);
    let mut restarted = Ledger::open(memory.clone()).unwrap();
    restarted.verify().unwrap();
    assert_eq!(accounts(&restarted), accounts(&ledger));
    assert_eq!(accounts(&ledger), without_withdrawn(&memory));
}

#[test]
fn a_data_set_that_shares_persons_with_two_has_spent_what_both_had_once_they_are_found_to_be_the_same() {
    let (_, mut ledger) = opened();
    ledger.register(&registration("by row", 5000..6000, 1.0)).unwrap();
    of_study(&mut ledger, "first", "digest", 0.1).unwrap();
    let by_row = persons(5000..6000);
    ledger.reserve("second", "by row", &by_row, &["bob".to_owned()], "other", &plan(0.2, 2)).unwrap();
    let third = ledger.register(&registration("third", 999..5001, 1.0)).unwrap();
    assert!((third.sum - 0.04).abs() < 1e-9, "a person is in one of both: {}", third.sum);
    ledger.link("by row", "cohort").unwrap();
    for name in ["cohort", "by row", "third"] {
        let sum = ledger.account(name).unwrap().sum;
        assert!((sum - 0.05).abs() < 1e-9, "{name}: {sum}");
    }
}

#[test]
fn a_data_set_that_shares_a_person_with_a_linked_one_shares_with_both() {
    let (_, mut ledger) = opened();
    ledger.register(&registration("by row", 5000..6000, 1.0)).unwrap();
    ledger.link("by row", "cohort").unwrap();
    let later = ledger.register(&registration("later", 5999..7000, 1.0)).unwrap();
    assert_eq!(later.shares_with.into_iter().collect::<Vec<_>>(), ["by row", "cohort"]);
    of_study(&mut ledger, "run", "digest", 0.1).unwrap();
    assert!((ledger.account("later").unwrap().sum - 0.01).abs() < 1e-12);
}

/// Consistent in itself, with anchor: what it says cannot have happened.
#[test]
fn a_chain_that_withdraws_what_was_stored_or_releases_what_was_withdrawn_is_refused() {
    let (memory, mut ledger) = opened();
    of_study(&mut ledger, "run", "digest", 0.1).unwrap();
    let idle = memory.disk.borrow().clone();
    made(&mut ledger, "run", 0).unwrap();
    let stored = memory.disk.borrow().records.last().unwrap().body.clone();
    let reopened = |bodies: &[&str]| {
        let changed = Memory::new();
        *changed.disk.borrow_mut() = idle.clone();
        written(&changed, bodies);
        Ledger::open(changed).map(|ledger| ledger.account("cohort").unwrap().sum)
    };
    let withdrawal = r#"{"kind":"withdrawn","run":"run"}"#;
    assert_eq!(reopened(&[withdrawal]), Ok(0.0));
    assert_eq!(reopened(&[&stored, withdrawal]), Err(LedgerError::Broken { sequence: 5 }));
    assert_eq!(reopened(&[withdrawal, &stored]), Err(LedgerError::Broken { sequence: 5 }));
    assert_eq!(reopened(&[withdrawal, withdrawal]), Err(LedgerError::Broken { sequence: 5 }));
    let finished = r#"{"kind":"finished","run":"run"}"#;
    assert_eq!(reopened(&[finished, withdrawal]), Err(LedgerError::Broken { sequence: 5 }));
    let received = r#"{"kind":"received","run":"run","index":0,"bytes_digest":""}"#;
    assert_eq!(reopened(&[withdrawal, received]), Err(LedgerError::Broken { sequence: 5 }));
    let started = r#"{"kind":"started","run":"run","index":0}"#;
    assert_eq!(reopened(&[started, withdrawal]), Err(LedgerError::Broken { sequence: 5 }));
    assert_eq!(reopened(&[r#"{"kind":"withdrawn","run":"nowhere"}"#]), Err(LedgerError::Broken { sequence: 4 }));
    // A withdrawal that is taken out of the chain again, or whose run's name is edited.
    ledger.finish("run").unwrap();
    of_study(&mut ledger, "second", "digest", 0.1).unwrap();
    ledger.finish("second").unwrap();
    let sound = memory.disk.borrow().clone();
    assert!(sound.records.last().unwrap().body.contains("withdrawn"));
    let changed = |change: &dyn Fn(&mut Disk)| {
        let changed = Memory::new();
        *changed.disk.borrow_mut() = sound.clone();
        change(&mut changed.disk.borrow_mut());
        Ledger::open(changed).map(drop).unwrap_err()
    };
    assert!(matches!(changed(&|disk| drop(disk.records.pop())), LedgerError::RolledBack { .. }));
    let renamed = |disk: &mut Disk| {
        let last = disk.records.last_mut().unwrap();
        last.body = last.body.replace("second", "run");
    };
    assert!(matches!(changed(&renamed), LedgerError::Broken { .. }));
}

/// Whatever step of the disk is the last one: the new run is charged and the old one withdrawn, or neither.
#[test]
fn the_withdrawal_and_the_new_charge_are_one_transaction() {
    let mut outcomes = BTreeSet::new();
    for fuse in 0..30 {
        let (memory, mut ledger) = opened();
        of_study(&mut ledger, "first", "digest", 0.1).unwrap();
        memory.fuse.set(fuse);
        let _ = of_study(&mut ledger, "second", "digest", 0.2);
        memory.fuse.set(u32::MAX);
        let restarted = Ledger::open(memory).unwrap();
        let states = ["first", "second"].map(|run| restarted.is_reserved(run));
        assert!(states == [true, false] || states == [false, true], "step {fuse}: {states:?}");
        let sum = restarted.account("cohort").unwrap().sum;
        assert!((sum - if states[0] { 0.01 } else { 0.04 }).abs() < 1e-9, "step {fuse}: {sum}");
        outcomes.insert(states);
    }
    assert_eq!(outcomes.len(), 2, "the fuse reaches both sides of the commit");
    // And one that cannot be afforded withdraws nothing.
    let (memory, mut ledger) = opened();
    of_study(&mut ledger, "first", "digest", 0.1).unwrap();
    assert!(matches!(of_study(&mut ledger, "second", "digest", 9.0), Err(LedgerError::Overspent { .. })));
    assert!(ledger.is_reserved("first"));
    assert_eq!(memory.disk.borrow().records.len(), 3);
}

/// Any order of reservations, releases, ends, crashes, registrations and links over data sets that share persons: every sum is what it
/// would be had the withdrawn runs never been charged, no person's total over the runs that stored something is above the sum of a data
/// set that the person is in, and no withdrawn run has ever handed out a release.
#[test]
fn no_sequence_counts_less_than_the_runs_that_stored_something() {
    const RANGES: [(&str, std::ops::Range<u32>); 4] =
        [("cohort", 0..30), ("part", 20..50), ("apart", 60..70), ("later", 45..65)];
    let (mut taken_back, mut refused, mut linked) = (0, 0, 0);
    for seed in 0..60 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let memory = Memory::new();
        let mut ledger = Ledger::create(memory.clone()).unwrap();
        let mut second = None;
        let mut members: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
        let mut runs: BTreeMap<String, (&str, f64, bool)> = BTreeMap::new();
        for step in 0..40 {
            let (name, range) = RANGES[random.random_range(0..RANGES.len())].clone();
            if !members.contains_key(name) {
                ledger.register(&registration(name, range.clone(), 8.0)).unwrap();
                members.insert(name, range.clone().collect());
            }
            let run = format!("run {}", random.random_range(0..12));
            match random.random_range(0..10) {
                0..=3 => {
                    let (study, mu) = (format!("study {}", random.random_range(0..2)), random.random_range(0.01..0.3));
                    let study = study.replace(' ', "-") + " of rows";
                    let plan = plan(mu, 2);
                    if ledger.reserve(&run, name, &persons(range), &[], &study, &plan).is_ok() {
                        runs.insert(run, (name, plan.charge(), false));
                    }
                }
                4..=6 => {
                    // Another process of the same ledger, which may have seen less of it.
                    let other = second.get_or_insert_with(|| Ledger::open(memory.clone()).unwrap());
                    let at = if random.random_bool(0.5) { &mut ledger } else { other };
                    let known = at.is_withdrawn(&run);
                    match made(at, &run, random.random_range(0..2)) {
                        Ok(_) => {
                            assert!(!known, "seed {seed} step {step}: {run} was withdrawn");
                            runs.get_mut(&run).unwrap().2 = true;
                        }
                        Err(error) => refused += usize::from(withdrawn(&error)),
                    }
                }
                7 => drop(ledger.finish(&run)),
                // Which persons are in which data set is known from their ids where none were linked.
                8 if seed % 3 == 0 => {
                    let other = *members.keys().nth(random.random_range(0..members.len())).unwrap();
                    if other != name {
                        ledger.link(name, other).unwrap();
                        linked += 1;
                    }
                }
                _ => {
                    (ledger, second) = (Ledger::open(memory.clone()).unwrap(), None);
                }
            }
            if step % 4 < 3 {
                continue;
            }
            ledger.verify().unwrap();
            assert_eq!(accounts(&ledger), without_withdrawn(&memory), "seed {seed} step {step}");
            for (name, persons) in members.iter().filter(|_| seed % 3 > 0) {
                let sum = ledger.account(name).unwrap().sum;
                for person in persons {
                    let counted =
                        |(data_set, _, stored): &&(&str, f64, bool)| *stored && members[data_set].contains(person);
                    let total: f64 = runs.values().filter(counted).map(|(_, charge, _)| charge).sum();
                    assert!(
                        sum >= total * (1.0 - 1e-12),
                        "seed {seed} step {step}: {name} {sum}, person {person} {total}"
                    );
                }
            }
            for (run, (_, _, stored)) in &runs {
                assert!(!(*stored && ledger.is_withdrawn(run)), "seed {seed} step {step}: {run}");
            }
        }
        taken_back += runs.keys().filter(|run| ledger.is_withdrawn(run)).count();
    }
    assert!(taken_back > 100 && refused > 20 && linked > 10, "{taken_back} {refused} {linked}");
}
