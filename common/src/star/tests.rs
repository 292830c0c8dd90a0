//! The conversation between hub and sites: clean, under faults, and with sites that lie.

mod methods;
mod network;
mod opening;
mod resume;
mod sites;

use std::collections::BTreeMap;
use std::sync::Arc;

use nalgebra::{DMatrix, DVector};
use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;

use self::network::{Faults, run};
use super::hub::{Act, Hub, Record};
use super::message::{Body, Contribution, Join, Kind, ToHub, ToSite, VERSION};
use super::site::local::Content;
use super::site::{self, Site};
use crate::exit::Exit;
use crate::fit::Termination;
use crate::id::{Digest, RunId};
use crate::methods::registry;
use crate::methods::robust::hub::body_of;
use crate::methods::robust::{FitSettings, fit};
use crate::report::Report;
use crate::session::PeerFault;
use crate::study::{Sites, Study};

const RUN: RunId = RunId([7; 16]);

fn study_with(workers: usize, more: &str) -> Arc<Study<Sites>> {
    let names: String = (0..workers).map(|at| format!("[workers.w{at}]\ncertificate = \"c{at}\"\n")).collect();
    let text = format!(
        "id = \"s\"\nprotocol = \"robust\"\n{names}[model]\nfeatures = [\"a\", \"b\"]\n[outcome]\ncolumn = \"y\"\n{more}"
    );
    Arc::new(Study::parse(&text).unwrap().sites().unwrap())
}

/// A batch of 60 rows around (1, 2, -3); `shift` moves the truth.
fn piece(seed: u64, shift: f64) -> Body {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let x = DMatrix::from_fn(60, 2, |_, _| rng.sample::<f64, _>(StandardNormal));
    let y = DVector::from_fn(60, |i, _| {
        1.0 + shift + (2.0 - shift) * x[(i, 0)] - 3.0 * x[(i, 1)] + 0.1 * rng.sample::<f64, _>(StandardNormal)
    });
    body_of(fit(&x, &y, &FitSettings::default()).as_ref(), 60, true)
}

fn pieces(workers: usize, batches: u64) -> BTreeMap<String, Vec<Body>> {
    let own = |at: usize| (0..batches).map(|batch| piece(1000 * at as u64 + batch, 0.0)).collect();
    (0..workers).map(|at| (format!("w{at}"), own(at))).collect()
}

/// What must not depend on the line: everything but the bookkeeping of repeats.
fn essence(report: &Report) -> String {
    let batches = report.consolidation.as_ref().map(|c| c.batches.clone());
    format!("{:?} {:?} {:?} {:?}", report.coefficients, batches, report.termination, report.statistics)
}

fn hub(study: &Arc<Study<Sites>>) -> Hub {
    Hub::new(Arc::clone(study), RUN, registry::hub(study).unwrap())
}

fn join(study: &Study<Sites>, instance: u8) -> ToHub {
    ToHub::Join(Join { version: VERSION, instance: [instance; 16], keys: study.key_digests() })
}

fn contribution(study: &Study<Sites>, number: u64, body: Body) -> ToHub {
    ToHub::Contribution(Contribution { study: study.digest(), run: RUN, number, body })
}

/// A hub whose sites have all joined and are ready, each on the line of its number plus one.
fn joined(study: &Arc<Study<Sites>>, workers: u64) -> Hub {
    let mut hub = hub(study);
    for at in 0..workers {
        hub.open(at + 1, &format!("w{at}"));
        hub.hear(at + 1, join(study, 1));
        hub.hear(at + 1, ToHub::Ready);
    }
    hub
}

fn said(acts: &[Act]) -> Vec<&ToSite> {
    acts.iter().filter_map(|act| if let Act::Say(_, message) = act { Some(message) } else { None }).collect()
}

fn kept(acts: &[Act]) -> Vec<&Record> {
    acts.iter().filter_map(|act| if let Act::Store(record) = act { Some(record) } else { None }).collect()
}

#[test]
fn a_clean_run_ends_with_one_consensus_that_every_site_is_told() {
    let study = study_with(3, "");
    let ended = run(&study, &pieces(3, 4), Faults::none(1)).unwrap();
    assert_eq!(ended.exit, Some(Exit::Done));
    let report = ended.report.unwrap();
    let estimates: Vec<f64> = report.coefficients.iter().map(|row| row.estimate.unwrap()).collect();
    for (estimate, truth) in estimates.iter().zip([1.0, 2.0, -3.0]) {
        assert!((estimate - truth).abs() < 0.03, "{estimates:?}");
    }
    assert!(report.coefficients.iter().all(|row| row.std_error.is_some()));
    assert_eq!(report.consolidation.as_ref().unwrap().batches.len(), 12);
    for (name, told) in &ended.told {
        let site::Act::Outcome { exit, report: own } = told else { panic!("{told:?}") };
        let own = crate::report::json::parse(own).unwrap();
        assert_eq!((*exit, &own.coefficients), (Exit::Done, &report.coefficients));
        let batches = own.consolidation.unwrap().batches;
        assert!(batches.len() == 4 && batches.iter().all(|batch| batch.worker == *name));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn lost_lines_dead_processes_and_any_order_of_arrival_give_the_same_bits(
        drop in 0.0..0.25, duplicate in 0.0..0.25, reorder in 0.0..0.25,
        cut in 0.0..0.06, site_crash in 0.0..0.04, hub_crash in 0.0..0.06, seed in any::<u64>(),
    ) {
        let study = study_with(3, "");
        let pieces = pieces(3, 5);
        let clean = run(&study, &pieces, Faults::none(0)).unwrap();
        let lossy = run(&study, &pieces, Faults { drop, duplicate, reorder, cut, site_crash, hub_crash, seed }).unwrap();
        prop_assert_eq!(lossy.exit, Some(Exit::Done));
        prop_assert_eq!(essence(&lossy.report.unwrap()), essence(&clean.report.unwrap()));
        prop_assert_eq!(lossy.told.len(), 3);
        prop_assert!(lossy.told.values().all(|told| matches!(told, site::Act::Outcome { .. })), "{:?}", lossy.told);
    }

    #[test]
    fn the_names_of_the_workers_do_not_matter(seed in any::<u64>()) {
        let study = study_with(3, "");
        let own = pieces(3, 4);
        let turned: BTreeMap<String, Vec<Body>> =
            own.iter().map(|(name, pieces)| (format!("w{}", (name[1..].parse::<usize>().unwrap() + 1) % 3), pieces.clone())).collect();
        let of = |pieces| run(&study, pieces, Faults::none(seed)).unwrap().report.unwrap();
        let (a, b) = (of(&own), of(&turned));
        for (a, b) in a.coefficients.iter().zip(&b.coefficients) {
            prop_assert!((a.estimate.unwrap() - b.estimate.unwrap()).abs() < 1e-12);
        }
    }
}

#[test]
fn a_stream_survives_a_lossy_line_and_dead_processes_without_losing_or_doubling_an_arrival() {
    let study = study_with(2, "[robust.online]\nwindow = 5\n");
    for seed in 0..20 {
        let faults =
            Faults { drop: 0.1, duplicate: 0.2, reorder: 0.2, cut: 0.03, site_crash: 0.0, hub_crash: 0.03, seed };
        let ended = run(&study, &pieces(2, 8), faults).unwrap();
        assert_eq!(ended.exit, Some(Exit::Done), "seed {seed}: {:?}", ended.report);
        let report = ended.report.unwrap();
        let course = report.course.unwrap();
        assert_eq!(
            course.arrivals,
            16,
            "seed {seed}: {:?} {:?}",
            report.consolidation.map(|c| c.rejected),
            report.workers
        );
        assert!(course.points.windows(2).all(|pair| pair[0].arrival < pair[1].arrival));
    }
}

#[test]
fn a_contribution_is_acknowledged_only_behind_the_record_that_keeps_it() {
    let study = study_with(2, "");
    let mut hub = joined(&study, 2);
    let acts = hub.hear(1, contribution(&study, 0, piece(1, 0.0)));
    assert!(
        matches!(acts[..], [Act::Store(Record::Contribution { .. }), Act::Say(1, ToSite::Acknowledged { next: 1 })]),
        "{acts:?}"
    );
}

#[test]
fn a_repeat_counts_once_and_a_contradiction_is_named_while_the_first_stands() {
    let study = study_with(2, "[sites]\nquorum = 1\n");
    let mut hub = joined(&study, 2);
    hub.hear(1, contribution(&study, 0, piece(1, 0.0)));
    let acts = hub.hear(1, contribution(&study, 0, piece(1, 0.0)));
    assert_eq!(acts, [Act::Say(1, ToSite::Acknowledged { next: 1 })]);
    let acts = hub.hear(1, contribution(&study, 0, piece(2, 5.0)));
    assert!(
        matches!(&said(&acts)[..], [ToSite::Rejected { reason, .. }] if reason.contains("different content")),
        "{acts:?}"
    );
    hub.deadline();
    let consolidation = hub.report().unwrap().consolidation.unwrap();
    assert_eq!(consolidation.batches.len(), 1);
    assert_eq!(consolidation.repeated.len(), 1);
    assert!(consolidation.rejected[0].reason.contains("different content"));
}

#[test]
fn every_lie_is_rejected_and_named_and_the_run_goes_on() {
    let study = study_with(3, "[sites]\nquorum = 2\n");
    let sound = piece(1, 0.0);
    let change = |change: &dyn Fn(&mut Body)| {
        let mut body = sound.clone();
        change(&mut body);
        body
    };
    let lies: Vec<(Body, &str)> = vec![
        (change(&|b| b.values[1] = f64::NAN), "number 2 is not"),
        (change(&|b| b.values[2] = f64::INFINITY), "number 3 is not"),
        (change(&|b| b.values.truncate(5)), "got 3 and 5"),
        (change(&|b| b.values.extend([0.0; 3])), "got 3 and 13"),
        (change(&|b| b.counts.clear()), "got 0 and 10"),
        (change(&|b| b.counts[1] = 61), "rows kept of 60, got 61"),
        (change(&|b| b.counts[1] = 0), "got 0"),
        (change(&|b| b.counts[2] = 7), "expected 0 or 1"),
        (change(&|b| b.values[0] = -1.0), "residual scale"),
        (change(&|b| b.values[1] = 1e120), "finite numbers below 1e100, but number 2 is not"),
        (change(&|b| b.counts[0] = u64::MAX), "counts of at most"),
        (change(&|b| b.values[4] = -1.0), "positive definite"),
        (
            Body { kind: Kind::Estimate, counts: vec![60, 50, 1], values: vec![0.1, 1.0, 2.0, 3.0] },
            "expected an estimate with cross-products",
        ),
    ];
    let mut hub = joined(&study, 3);
    for (number, (body, says)) in lies.iter().enumerate() {
        let acts = hub.hear(1, contribution(&study, number as u64, body.clone()));
        assert!(
            matches!(&said(&acts)[..], [ToSite::Rejected { reason, .. }] if reason.contains(says)),
            "{says}: {acts:?}"
        );
        assert!(matches!(kept(&acts)[..], [Record::Rejected { .. }]));
    }
    let number = lies.len() as u64;
    for (line, study_digest, run, says) in
        [(1, Digest([9; 32]), RUN, "another study"), (1, study.digest(), RunId([9; 16]), "another run")]
    {
        let foreign = Contribution { study: study_digest, run, number, body: sound.clone() };
        let acts = hub.hear(line, ToHub::Contribution(foreign));
        assert!(matches!(&said(&acts)[..], [ToSite::Rejected { reason, .. }] if reason.contains(says)), "{acts:?}");
    }
    // What it says after its lies counts all the same; what it says beyond the next number does not.
    let acts = hub.hear(1, contribution(&study, number + 1, sound.clone()));
    assert_eq!(acts, [Act::Say(1, ToSite::Acknowledged { next: number })]);
    hub.hear(1, contribution(&study, number, sound));
    for line in 1..=3 {
        if line > 1 {
            hub.hear(line, contribution(&study, 0, piece(line, 0.0)));
        }
        let contributions = if line == 1 { number + 1 } else { 1 };
        hub.hear(line, ToHub::Complete { run: RUN, contributions });
    }
    assert_eq!(hub.exit(), Some(Exit::Done));
    let report = hub.report().unwrap();
    let consolidation = report.consolidation.unwrap();
    assert_eq!(consolidation.batches.len(), 3);
    assert_eq!(consolidation.rejected.len(), lies.len() + 2);
    assert!(consolidation.rejected.iter().all(|rejection| rejection.from.starts_with("w0")));
    assert_eq!(report.workers.unwrap()[0].rejected, lies.len() as u64 + 2);
}

#[test]
fn a_lie_of_any_size_in_sound_form_is_outvoted() {
    let study = study_with(3, "");
    let mut all = pieces(3, 4);
    for piece in all.get_mut("w1").unwrap() {
        piece.values[1] = 1e80;
        piece.counts[1] = 60;
        (4..10).for_each(|at| piece.values[at] *= 1e30);
    }
    let report = run(&study, &all, Faults::none(3)).unwrap().report.unwrap();
    assert!((report.coefficients[0].estimate.unwrap() - 1.0).abs() < 0.05, "{:?}", report.coefficients);
    let consolidation = report.consolidation.unwrap();
    assert!(consolidation.batches.iter().all(|batch| batch.trusted == (batch.worker != "w1")));
}

#[test]
fn half_of_the_estimates_elsewhere_is_outside_the_guarantee_with_code_3() {
    let study = study_with(4, "");
    let mut all = pieces(4, 3);
    for (at, name) in ["w2", "w3"].iter().enumerate() {
        let other = (0..3).map(|batch| piece(5000 + 10 * at as u64 + batch, 4.0)).collect();
        all.insert(name.to_string(), other);
    }
    let ended = run(&study, &all, Faults::none(3)).unwrap();
    assert_eq!(ended.exit, Some(Exit::NotConverged));
    assert_eq!(ended.report.unwrap().termination, Termination::OutsideGuarantee);
    assert!(ended.told.values().all(|told| matches!(told, site::Act::Outcome { exit: Exit::NotConverged, .. })));
}

#[test]
fn without_a_quorum_at_the_deadline_there_is_no_result_and_code_69() {
    let study = study_with(3, "");
    let mut all = pieces(3, 2);
    all.remove("w1");
    all.remove("w2");
    let ended = run(&study, &all, Faults::none(1)).unwrap();
    assert_eq!(ended.exit, Some(Exit::Unreachable));
    let reason = ended.report.unwrap_err();
    assert!(reason.contains("quorum of 2 workers was not reached: only w0 contributed"), "{reason}");
    assert!(reason.contains("w1 never came"), "{reason}");
    assert!(matches!(&ended.told["w0"], site::Act::Refused { exit: Exit::Unreachable, .. }));
}

#[test]
fn with_a_quorum_the_deadline_makes_a_result_of_what_has_come() {
    let study = study_with(3, "");
    let mut all = pieces(3, 2);
    all.remove("w1");
    let ended = run(&study, &all, Faults::none(1)).unwrap();
    assert_eq!(ended.exit, Some(Exit::Done));
    let notes = ended.report.unwrap().notes;
    assert!(
        notes.iter().any(|note| note.contains("deadline")) && notes.iter().any(|note| note == "w1: never came"),
        "{notes:?}"
    );
}

#[test]
fn a_site_that_stays_connected_and_says_nothing_more_does_not_hold_the_run_beyond_its_deadline() {
    let study = study_with(3, "");
    let mut hub = joined(&study, 3);
    for line in 1..=2 {
        hub.hear(line, contribution(&study, 0, piece(line, 0.0)));
        hub.hear(line, ToHub::Complete { run: RUN, contributions: 1 });
    }
    hub.hear(3, contribution(&study, 0, piece(3, 0.0)));
    assert_eq!(hub.exit(), None, "it may still say more");
    let acts = hub.deadline();
    assert!(acts.contains(&Act::Ended(Exit::Done)), "{acts:?}");
    assert_eq!(said(&acts).len(), 3, "the silent one is told, too, should it listen again");
    let report = hub.report().unwrap();
    assert_eq!(report.consolidation.unwrap().batches.len(), 3, "what it had said counts");
    let note = report.notes.iter().find(|note| note.starts_with("w2: ")).unwrap();
    assert_eq!(*note, format!("w2: {}", report.workers.unwrap()[2].state));
    assert!(note.ends_with("was connected, but had not sent everything"), "{note}");
}

#[test]
fn two_lines_with_one_certificate_are_refused_and_a_line_of_the_same_process_replaces_the_first() {
    let study = study_with(2, "");
    let mut hub = joined(&study, 2);
    hub.open(10, "w0");
    let acts = hub.hear(10, join(&study, 2));
    assert!(
        matches!(&said(&acts)[..], [ToSite::Refused { exit: Exit::Refused, sentence }] if sentence.contains("another process"))
    );
    assert!(acts.contains(&Act::Close(10)));
    // The first goes on.
    assert!(!kept(&hub.hear(1, contribution(&study, 0, piece(1, 0.0)))).is_empty());
    hub.open(11, "w0");
    let acts = hub.hear(11, join(&study, 1));
    assert!(
        acts.contains(&Act::Close(1))
            && acts.contains(&Act::Say(11, ToSite::Welcome { differing: vec![], run: RUN, next: 1, held: false }))
    );
    // The old line says nothing any more.
    assert!(hub.hear(1, contribution(&study, 1, piece(2, 0.0))).is_empty());
    // Once the line is gone, another process may take over.
    hub.lost(11);
    hub.open(12, "w0");
    let acts = hub.hear(12, join(&study, 3));
    assert!(matches!(said(&acts)[..], [ToSite::Welcome { next: 1, .. }]));
}

#[test]
fn another_study_or_version_is_refused_and_the_others_go_on() {
    let study = study_with(2, "[sites]\nquorum = 1\n");
    let other = study_with(2, "[sites]\nquorum = 1\nbatch_rows = 99\n");
    let mut hub = hub(&study);
    hub.open(1, "w0");
    let acts = hub.hear(1, join(&other, 1));
    assert!(
        matches!(&said(&acts)[..], [ToSite::Welcome { differing, .. }] if differing == &["sites.batch_rows"]),
        "{acts:?}"
    );
    hub.open(2, "w1");
    let old = ToHub::Join(Join { version: VERSION + 1, instance: [1; 16], keys: study.key_digests() });
    assert!(matches!(said(&hub.hear(2, old))[..], [ToSite::Refused { exit: Exit::Refused, .. }]));
    hub.open(3, "w1");
    hub.hear(3, join(&study, 1));
    hub.hear(3, contribution(&study, 0, piece(1, 0.0)));
    hub.deadline();
    let rejected = hub.report().unwrap().consolidation.unwrap().rejected;
    assert!(rejected[0].reason.contains("study file differs in: sites.batch_rows"), "{rejected:?}");
}

#[test]
fn a_site_that_joins_again_and_again_with_other_studies_is_named_once_and_in_few_words() {
    let study = study_with(2, "[sites]\nquorum = 1\n");
    let mut hub = hub(&study);
    for line in 1..200_u64 {
        hub.open(line, "w0");
        let mut keys = study.key_digests();
        keys.extend((0..300).map(|key| (format!("zz {line} {key}"), study.digest())));
        hub.hear(line, ToHub::Join(Join { version: VERSION, instance: [1; 16], keys }));
    }
    hub.open(300, "w1");
    hub.hear(300, join(&study, 1));
    hub.hear(300, contribution(&study, 0, piece(1, 0.0)));
    hub.deadline();
    let rejected = hub.report().unwrap().consolidation.unwrap().rejected;
    let of_w0: Vec<_> = rejected.iter().filter(|rejected| rejected.from == "w0").collect();
    assert_eq!(of_w0.len(), 1, "{of_w0:?}");
    assert!(of_w0[0].reason.starts_with("its study file differs in: zz 199 0, "), "{of_w0:?}");
    assert!(of_w0[0].reason.ends_with(" more") && of_w0[0].reason.len() < 1000, "{of_w0:?}");
}

#[test]
fn a_site_that_speaks_before_it_joins_or_sends_no_message_at_all_is_out() {
    let study = study_with(2, "[sites]\nquorum = 1\n");
    let mut hub = joined(&study, 1);
    hub.open(5, "w1");
    let acts = hub.hear(5, contribution(&study, 0, piece(1, 0.0)));
    assert!(matches!(said(&acts)[..], [ToSite::Refused { exit: Exit::Peer, .. }]));
    hub.hear(1, contribution(&study, 0, piece(1, 0.0)));
    hub.open(6, "w1");
    hub.hear(6, join(&study, 1));
    let acts = hub.fault(6, &PeerFault::Garbage("nothing".to_string()));
    assert!(matches!(said(&acts)[..], [.., ToSite::Refused { exit: Exit::Peer, .. }]), "{acts:?}");
    hub.open(7, "w1");
    assert!(matches!(said(&hub.hear(7, join(&study, 2)))[..], [ToSite::Refused { exit: Exit::Peer, .. }]));
    hub.hear(1, ToHub::Complete { run: RUN, contributions: 1 });
    assert_eq!(hub.exit(), Some(Exit::Done));
    let report = hub.report().unwrap();
    assert!(report.workers.unwrap()[1].state.contains("not a message: nothing"));
}

#[test]
fn a_site_that_leaves_or_stays_away_is_not_waited_for() {
    let study = study_with(3, "");
    let mut hub = joined(&study, 3);
    for line in 1..=2 {
        hub.hear(line, contribution(&study, 0, piece(line, 0.0)));
        hub.hear(line, ToHub::Complete { run: RUN, contributions: 1 });
    }
    assert_eq!(hub.exit(), None);
    hub.lost(3);
    assert_eq!(hub.away().collect::<Vec<_>>(), ["w2"]);
    let acts = hub.give_up("w2", 60);
    assert!(acts.contains(&Act::Ended(Exit::Done)), "{acts:?}");
    let notes = hub.report().unwrap().notes;
    assert!(
        notes
            .iter()
            .any(|note| note.contains("w2: left (69): its line was lost, and it did not come back within 60 s")),
        "{notes:?}"
    );
    // A site that comes after the end still learns the outcome.
    hub.open(9, "w2");
    assert!(matches!(said(&hub.hear(9, join(&study, 9)))[..], [ToSite::Welcome { .. }, ToSite::Outcome { .. }]));
}

#[test]
fn a_site_whose_data_were_refused_may_come_back_with_them_mended() {
    let study = study_with(2, "");
    let mut hub = joined(&study, 2);
    hub.hear(1, ToHub::Leave { exit: Exit::Data, sentence: "refused".to_string() });
    hub.open(5, "w0");
    assert!(matches!(said(&hub.hear(5, join(&study, 9)))[..], [ToSite::Welcome { next: 0, .. }]));
    for line in [5, 2] {
        hub.hear(line, contribution(&study, 0, piece(line, 0.0)));
        hub.hear(line, ToHub::Complete { run: RUN, contributions: 1 });
    }
    assert_eq!(hub.exit(), Some(Exit::Done));
}

#[test]
fn when_no_batch_can_be_fitted_anywhere_there_is_no_result() {
    let study = study_with(1, "");
    let unfit = Body { kind: Kind::Unfit, counts: vec![5], values: vec![] };
    let ended =
        run(&study, &BTreeMap::from([("w0".to_string(), vec![unfit.clone(), unfit])]), Faults::none(0)).unwrap();
    assert_eq!(ended.exit, Some(Exit::Unreachable));
    assert!(ended.report.unwrap_err().contains("nobody contributed"));
}

#[test]
fn a_hub_that_forgot_what_it_had_acknowledged_is_noticed_by_its_sites() {
    let study = study_with(1, "");
    let mut site = Site::new(Arc::clone(&study), [1; 16]);
    site.open();
    let welcome = |next| ToSite::Welcome { differing: vec![], run: RUN, next, held: false };
    assert_eq!(site.hear(welcome(0)), [site::Act::Begin { next: 0, run: RUN }, site::Act::Open]);
    for seed in 0..3 {
        site.contribute(seed, Content::Plain(piece(seed, 0.0))).unwrap();
    }
    site.hear(ToSite::Acknowledged { next: 2 });
    assert_eq!(site.waiting(), 1);
    site.lost();
    site.open();
    // The third goes again, with the same bits.
    assert!(
        matches!(&site.hear(welcome(2))[..], [site::Act::Say(ToHub::Contribution(c))] if c.number == 2 && *c.body.value() == piece(2, 0.0))
    );
    site.lost();
    site.open();
    assert!(matches!(&site.hear(welcome(1))[..], [site::Act::Refused { exit: Exit::Peer, .. }]));
    let mut other = Site::new(study, [1; 16]);
    other.open();
    other.hear(welcome(0));
    assert!(matches!(&other.hear(ToSite::Acknowledged { next: 5 })[..], [site::Act::Refused { exit: Exit::Peer, .. }]));
}

#[test]
fn what_the_study_does_not_declare_does_not_leave() {
    let study = study_with(1, "[robust]\ngram = false\n");
    let mut site = Site::new(study, [1; 16]);
    assert!(site.contribute(0, Content::Plain(piece(1, 0.0))).is_err());
    let mut bare = piece(1, 0.0);
    bare.kind = Kind::Estimate;
    assert!(site.contribute(0, Content::Plain(bare)).is_ok());
}
