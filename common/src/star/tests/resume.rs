//! A hub that is killed behind any record that it kept: the next process comes to the same end.

use std::sync::Arc;

use super::methods::{EM, FEATURES, STREAM, body, essence, study, sums};
use super::{RUN, contribution, hub, join, kept, piece, said, study_with};
use crate::exit::Exit;
use crate::star::hub::{Act, Hub, Record};
use crate::star::message::{Body, Kind, ToHub, ToSite};
use crate::study::{Sites, Study};

/// What a site says once it is ready, in order; said again to every process of the hub.
type Script = Vec<(u64, Step)>;

#[derive(Debug, Clone)]
enum Step {
    Contribute(u64, Body),
    Complete(u64),
    Leave,
}

const RANGES: &str = "[outcome]\ncolumn = \"y\"\n[columns.a]\nrange = [-1, 1]\n[columns.b]\nrange = [-1, 1]\n[columns.y]\nrange = [-1, 1]\n";

/// Two sound sites, and a third of which one piece is not accepted before it leaves; all say what they say in turn.
fn script(sound: impl Fn(u64) -> Vec<Body>, unsound: Body) -> Script {
    let pieces = [sound(0), sound(1)];
    let mut script = vec![(2, Step::Contribute(0, unsound))];
    for at in 0..pieces[0].len() {
        for (site, pieces) in (0..).zip(&pieces) {
            script.push((site, Step::Contribute(at as u64, pieces[at].clone())));
        }
        if at == 0 {
            script.push((2, Step::Leave));
        }
    }
    script.extend((0..).zip(&pieces).map(|(site, pieces)| (site, Step::Complete(pieces.len() as u64))));
    script
}

fn cases() -> Vec<(&'static str, Arc<Study<Sites>>, Script)> {
    let mut cases = Vec::new();
    let wrong = |kind| body(kind, 0, &[]);
    for private in [false, true] {
        let robust = |more: &str| {
            let privacy = "mode = \"private\"\n[privacy]\nepsilon = 8.0\ndelta = 1e-5\n";
            let text = format!("{RANGES}{more}[sites]\nbatch_rows = 5000\n");
            match private {
                false => study("robust", 3, false, &text),
                true => {
                    let plain = study("robust", 3, false, &text);
                    assert!(!plain.private().is_some());
                    let names: String =
                        (0..3).map(|at| format!("[workers.w{at}]\ncertificate = \"c{at}\"\n")).collect();
                    let text = format!(
                        "id = \"s\"\nprotocol = \"robust\"\n{privacy}{names}[model]\nfeatures = [\"a\", \"b\"]\n{text}"
                    );
                    Arc::new(Study::parse(&text).unwrap().sites().unwrap())
                }
            }
        };
        let batches = |site: u64| (0..3).map(|batch| piece(100 * site + batch, 0.0)).collect();
        cases.push(("robust", robust(""), script(batches, wrong(Kind::Estimate))));
        if !private {
            let online = study_with(3, "[robust.online]\nwindow = 7\n");
            cases.push(("robust online", online, script(batches, wrong(Kind::Estimate))));
        }
        let rounds = |site: u64| sums(site as usize, 5);
        cases.push(("em", study("em", 3, private, EM), script(rounds, wrong(Kind::GradientSum))));
        for (name, release, kind, length) in [
            ("statistics", "lambda = 1.0\n", Kind::FeatureStatistics, 14),
            ("output", "lambda = 1.0\nrelease = \"output\"\n", Kind::FeatureSolution, 4),
        ] {
            let values = |site: u64| {
                vec![body(kind, 100, &(0..length).map(|at| ((site * 14 + at) as f64).cos() / 9.0).collect::<Vec<_>>())]
            };
            let study = study("features", 3, private, &format!("{FEATURES}{release}"));
            cases.push((name, study, script(values, wrong(kind))));
        }
        let messages =
            |site: u64| (0..6).map(|at| body(Kind::Updates, 1, &[((6 * site + at) as f64).sin() / 9.0; 9])).collect();
        let ranges = if private { "range = [-1, 1]\n" } else { "" };
        let stream = STREAM.replace("[stream]", &format!("[columns.y]\n{ranges}[stream]"));
        let stream = if private { stream } else { STREAM.to_string() };
        cases.push(("stream", study("stream", 3, private, &stream), script(messages, wrong(Kind::Updates))));
    }
    cases
}

/// Plays the whole script to a hub, as sites that do not know what it remembers, and gives all that it kept and said.
fn play(hub: &mut Hub, study: &Study<Sites>, script: &Script, first: u64) -> Vec<Act> {
    let mut acts = Vec::new();
    for site in 0..3 {
        hub.open(first + site, &format!("w{site}"));
        acts.extend(hub.hear(first + site, join(study, 1)));
        acts.extend(hub.hear(first + site, ToHub::Ready));
    }
    for (site, step) in script {
        let message = match step {
            Step::Contribute(number, body) => contribution(study, *number, body.clone()),
            Step::Complete(contributions) => ToHub::Complete { run: RUN, contributions: *contributions },
            Step::Leave => ToHub::Leave { exit: Exit::Data, sentence: "its data are refused".to_string() },
        };
        acts.extend(hub.hear(first + site, message));
        acts.extend(hub.publish());
    }
    acts
}

/// As a file keeps them: a snapshot stands for everything before it.
fn compacted(records: &[Record]) -> Vec<Record> {
    let latest = records.iter().rposition(|record| matches!(record, Record::Snapshot(_)));
    records[latest.unwrap_or(0)..].to_vec()
}

#[test]
fn a_hub_killed_behind_any_record_comes_to_the_same_end_in_every_method() {
    let mut kinds = std::collections::BTreeSet::new();
    for (name, study, script) in cases() {
        let mut clean = hub(&study);
        let acts = play(&mut clean, &study, &script, 1);
        let records: Vec<Record> = kept(&acts).into_iter().cloned().collect();
        let what = format!("{name}, {}", study.mode().name());
        let report = clean.report().unwrap_or_else(|reason| panic!("{what}: {reason}"));
        assert!(matches!(records.last(), Some(Record::Over { .. })), "{what}: {records:?}");
        kinds.extend(records.iter().map(|record| format!("{record:?}").split([' ', '(']).next().unwrap().to_string()));
        for end in 1..=records.len() {
            let mut again = hub(&study);
            for record in compacted(&records[..end]) {
                again.resume(record).unwrap();
            }
            let what = format!("{what}, killed behind record {end} of {}: {:?}", records.len(), records[end - 1]);
            again.go_on();
            let acts = play(&mut again, &study, &script, 10);
            assert_eq!(again.exit(), clean.exit(), "{what}: {:?}", again.report());
            let resumed = again.report().unwrap_or_else(|reason| panic!("{what}: {reason}"));
            assert_eq!(essence(&resumed), essence(&report), "{what}");
            assert_eq!(resumed.notes, report.notes, "{what}");
            // A site that gave something to it gets the result, also from a process that began when the run was over.
            for line in 10..12 {
                let told = acts.iter().any(|act| matches!(act, Act::Say(to, ToSite::Outcome { .. }) if *to == line));
                assert!(told, "{what}: {:?}", said(&acts));
            }
        }
    }
    for kind in ["Contribution", "Snapshot", "Rejected", "Complete", "Left", "Opened", "Round", "Over"] {
        assert!(kinds.contains(kind), "{kind} is not among {kinds:?}");
    }
}

#[test]
fn a_run_that_was_opened_and_ended_below_the_quorum_does_not_say_that_nothing_was_asked() {
    let study = study("em", 3, true, EM);
    let mut hub = hub(&study);
    let mut records: Vec<Record> = Vec::new();
    for site in 0..3 {
        hub.open(site + 1, &format!("w{site}"));
        records.extend(kept(&hub.hear(site + 1, join(&study, 1))).into_iter().cloned());
        records.extend(kept(&hub.hear(site + 1, ToHub::Ready)).into_iter().cloned());
    }
    assert_eq!(records, [Record::Opened]);
    let mut again = super::hub(&study);
    records.into_iter().for_each(|record| again.resume(record).unwrap());
    // It asks nobody for more before the quorum is back, but its sites may have reserved their budgets.
    assert!(again.held());
    again.deadline();
    let reason = again.report().unwrap_err();
    assert!(reason.contains("nobody contributed") && !reason.contains("nothing was asked"), "{reason}");
}

#[test]
fn a_result_is_owed_to_whoever_gave_to_it_and_lost_its_line_until_it_says_that_it_has_it() {
    let study = study_with(2, "");
    let mut hub = hub(&study);
    for line in 1..=2 {
        hub.open(line, &format!("w{}", line - 1));
        hub.hear(line, join(&study, 1));
        hub.hear(line, contribution(&study, 0, piece(line, 0.0)));
    }
    hub.hear(1, ToHub::Complete { run: RUN, contributions: 1 });
    assert_eq!(hub.owed().count(), 0, "there is no result yet");
    hub.lost(1);
    let acts = hub.hear(2, ToHub::Complete { run: RUN, contributions: 1 });
    assert!(acts.contains(&Act::Ended(Exit::Done)), "{acts:?}");
    assert_eq!(hub.owed().collect::<Vec<_>>(), ["w0"]);
    assert_eq!(kept(&hub.hear(2, ToHub::Done)), [&Record::Told { site: "w1".to_string() }]);
    assert!(!hub.all_told());
    hub.open(9, "w0");
    assert!(said(&hub.hear(9, join(&study, 2))).iter().any(|said| matches!(said, ToSite::Outcome { .. })));
    hub.hear(9, ToHub::Done);
    assert!(hub.all_told() && hub.owed().count() == 0);
}

#[test]
fn nobody_counts_for_the_quorum_by_answering_what_was_not_asked() {
    let study = study("em", 3, true, &format!("{EM}[sites]\nquorum = 2\n"));
    let mut hub = hub(&study);
    hub.open(1, "w0");
    hub.hear(1, join(&study, 1));
    let acts = hub.hear(1, contribution(&study, 0, sums(0, 5).remove(0)));
    assert_eq!(acts, [Act::Say(1, ToSite::Acknowledged { next: 0 })]);
    hub.lost(1);
    hub.open(2, "w1");
    hub.hear(2, join(&study, 1));
    hub.hear(2, ToHub::Ready);
    assert!(hub.held(), "w0 has answered nothing that was asked, and is not there");
}
