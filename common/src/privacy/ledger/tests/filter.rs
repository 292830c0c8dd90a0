//! Checkpoints of a stream's account of its persons: what may follow what.

use super::*;

const WORD: [u8; 32] = [9; 32];

fn refusal(outcome: Result<impl std::fmt::Debug, LedgerError>) -> String {
    let error = outcome.unwrap_err();
    assert_eq!(error.exit(), crate::exit::Exit::Refused);
    error.to_string()
}

#[test]
fn checkpoints_follow_each_other_and_the_last_one_is_there_after_a_restart() {
    let (memory, mut ledger) = opened();
    reserve(&mut ledger, "run", 0.1, 1).unwrap();
    assert_eq!(ledger.checkpoint("run").unwrap(), None);
    ledger.filter("run", (0, &WORD), (0, 3)).unwrap();
    ledger.filter("run", (1, &WORD), (3, 3)).unwrap();
    drop(ledger);
    let mut ledger = Ledger::open(memory).unwrap();
    let last = Checkpoint { run: "run".to_owned(), sequence: 1, messages: 1, word: "09".repeat(32), most: 3, room: 3 };
    assert_eq!(ledger.checkpoint("run").unwrap().as_ref(), Some(&last));
    assert_eq!(ledger.checkpoints("cohort"), [last]);
    assert_eq!(ledger.verify().unwrap().0, 5);
}

#[test]
fn a_checkpoint_that_cannot_follow_is_refused_and_leaves_no_trace() {
    let (_, mut ledger) = opened();
    for run in ["run", "over", "gone", "new"] {
        reserve(&mut ledger, run, 0.1, 1).unwrap();
    }
    ledger.release::<Failed>("over", 0, &query(), &mut NoisePool::new()).unwrap();
    ["over", "gone"].into_iter().for_each(|run| ledger.finish(run).unwrap());
    ledger.filter("run", (4, &WORD), (2, 3)).unwrap();
    let before = ledger.verify().unwrap();
    for (run, messages, (most, room), why) in [
        ("never", 0, (0, 3), "was never charged"),
        ("gone", 0, (0, 3), "its charge was taken back"),
        ("over", 0, (0, 3), "the run is over"),
        ("new", 0, (4, 3), "more than the run's charge has room for"),
        ("run", 8, (4, 3), "more than the run's charge has room for"),
        ("run", 8, (2, 4), "the room of a person is not that"),
        ("run", 3, (2, 3), "has not more messages"),
        ("run", 4, (2, 3), "another account of the run was there first"),
        ("run", 8, (1, 3), "less is spent"),
    ] {
        let said = refusal(ledger.filter(run, (messages, &WORD), (most, room)));
        assert!(said.contains(why) && said.contains(&format!("of what the persons of run {run} have spent")), "{said}");
        assert!(said.starts_with("the privacy ledger: checkpoint"), "{said}");
    }
    assert_eq!(ledger.verify().unwrap(), before);
    ledger.filter("run", (8, &WORD), (3, 3)).unwrap();
    ledger.filter("new", (7, &WORD), (3, 3)).unwrap();
}

#[test]
fn a_chain_with_a_checkpoint_that_cannot_follow_is_not_opened() {
    let body = |run: &str, sequence: u64, messages: u64, most: u64| {
        format!(
            r#"{{"kind":"filtered","run":"{run}","sequence":{sequence},"messages":{messages},"word":"00","most":{most},"room":3}}"#
        )
    };
    for (bodies, why) in [
        (vec![body("never", 0, 0, 0)], "was never charged"),
        (vec![body("run", 0, 0, 4)], "more than the run's charge has room for"),
        (vec![body("run", 1, 0, 0)], "there is none before it"),
        (vec![body("run", 0, 2, 0), body("run", 2, 4, 0)], "its number is not the next one"),
        (vec![body("run", 0, 2, 0), body("run", 0, 4, 0)], "its number is not the next one"),
        (vec![body("run", 0, 2, 0), body("run", 1, 1, 0)], "has not more messages"),
        (vec![body("run", 0, 2, 2), body("run", 1, 4, 1)], "less is spent"),
    ] {
        let (memory, mut ledger) = opened();
        reserve(&mut ledger, "run", 0.1, 1).unwrap();
        written(&memory, &bodies.iter().map(String::as_str).collect::<Vec<_>>());
        let said = refusal(ledger.account("cohort").and_then(|_| ledger.checkpoint("run")));
        assert!(said.contains(why), "{said}");
        assert!(refusal(Ledger::open(memory).map(drop)).contains(why));
    }
    let (memory, mut ledger) = opened();
    reserve(&mut ledger, "run", 0.1, 1).unwrap();
    written(&memory, &[&body("run", 0, 2, 2), &body("run", 1, 4, 3)]);
    assert_eq!(ledger.checkpoint("run").unwrap().unwrap().messages, 4);
}

/// Why a release of a test was not made.
#[derive(Debug)]
struct Failed;

impl From<LedgerError> for Failed {
    fn from(_: LedgerError) -> Failed {
        Failed
    }
}

impl From<ReleaseError> for Failed {
    fn from(_: ReleaseError) -> Failed {
        Failed
    }
}
