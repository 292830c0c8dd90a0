//! The methods that go in rounds, that send once, and that follow a stream: under faults, and against sites that lie.

use std::collections::BTreeMap;
use std::sync::Arc;

use nalgebra::DVector;
use proptest::prelude::*;

use super::network::{Faults, run};
use super::{contribution, joined, said};
use crate::exit::Exit;
use crate::methods::registry;
use crate::methods::robust::hub::private_body;
use crate::methods::robust::plan::Plan;
use crate::privacy::accountant::gaussian_mu;
use crate::privacy::sampler::NoisePool;
use crate::report::Report;
use crate::research::private::{Batch, Corruption, batch_setup};
use crate::star::hub::{Act, Hub};
use crate::star::message::{Body, Kind, MOST, ToHub, ToSite};
use crate::star::site::local::Content;
use crate::star::site::{self, Site};
use crate::study::{Mode, Sites, Study};

const PRIVATE: &str = "mode = \"private\"\n[privacy]\nepsilon = 1.0\ndelta = 1e-5\n";
pub(super) const EM: &str = "[em]\nmodel = \"gmm\"\nsigma = 1.0\ntau = 5.0\nrounds = 5\nstart = [1.0, 1.0]\n";
pub(super) const FEATURES: &str = "[outcome]\ncolumn = \"y\"\n[columns.a]\nrange = [0, 1]\n[columns.b]\nrange = [0, 1]\n[columns.y]\nrange = [0, \
                        1]\n[features]\ncount = 4\n";
pub(super) const STREAM: &str =
    "[outcome]\ncolumn = \"y\"\n[columns.a]\nrange = [0, 1]\n[columns.b]\nrange = [0, 1]\n[stream]\ngrid = 3\n";

pub(super) fn study(protocol: &str, workers: usize, private: bool, rest: &str) -> Arc<Study<Sites>> {
    let names: String = (0..workers).map(|at| format!("[workers.w{at}]\ncertificate = \"c{at}\"\n")).collect();
    let privacy = if private { PRIVATE } else { "" };
    let text =
        format!("id = \"s\"\nprotocol = \"{protocol}\"\n{privacy}{names}[model]\nfeatures = [\"a\", \"b\"]\n{rest}");
    Arc::new(Study::parse(&text).unwrap().sites().unwrap())
}

pub(super) fn body(kind: Kind, records: u64, values: &[f64]) -> Body {
    Body { kind, counts: vec![records], values: values.to_vec() }
}

/// Answers of a site to every round, whatever it is asked.
pub(super) fn sums(site: usize, rounds: u64) -> Vec<Body> {
    let sum = |round: u64| {
        let at = (site as f64 + 1.3 * round as f64).sin();
        body(Kind::GradientSum, 50 + site as u64, &[3.0 * at, 2.0 - at])
    };
    (0..rounds).map(sum).collect()
}

/// What must not depend on the line.
pub(super) fn essence(report: &Report) -> String {
    let (course, function) = (&report.course, report.function.as_ref().map(|function| &function.fitted));
    format!("{:?} {course:?} {function:?} {} {:?}", report.coefficients, report.rounds, report.statistics.nobs)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 25, ..ProptestConfig::default() })]

    #[test]
    fn rounds_and_statistics_come_out_with_the_same_bits_over_lossy_lines_and_dying_processes(
        drop in 0.0..0.25, duplicate in 0.0..0.25, reorder in 0.0..0.25,
        cut in 0.0..0.06, site_crash in 0.0..0.04, hub_crash in 0.0..0.06, seed in any::<u64>(),
    ) {
        let faults = Faults { drop, duplicate, reorder, cut, site_crash, hub_crash, seed };
        let rounds: BTreeMap<String, Vec<Body>> = (0..3).map(|at| (format!("w{at}"), sums(at, 5))).collect();
        let tables = (0..3).map(|at| {
            let values: Vec<f64> = (0..14).map(|entry| ((at * 14 + entry) as f64).cos()).collect();
            (format!("w{at}"), vec![body(Kind::FeatureStatistics, 100, &values)])
        });
        let messages = (0..20).map(|at| body(Kind::Updates, 1, &[f64::from(at).sin() / 9.0; 9])).collect();
        for (study, pieces) in [
            (study("em", 3, false, EM), rounds),
            (study("features", 3, false, &format!("{FEATURES}lambda = 1.0\n")), tables.collect()),
            (study("stream", 1, false, STREAM), BTreeMap::from([("w0".to_string(), messages)])),
        ] {
            let clean = run(&study, &pieces, Faults::none(0)).unwrap();
            let lossy = run(&study, &pieces, faults).unwrap();
            prop_assert_eq!(lossy.exit, Some(Exit::Done));
            prop_assert_eq!(essence(&lossy.report.unwrap()), essence(&clean.report.unwrap()));
        }
    }
}

/// Why the first contribution was not accepted.
fn rejection(study: &Arc<Study<Sites>>, body: Body) -> Option<String> {
    let mut hub = joined(study, 2);
    let acts = hub.hear(1, contribution(study, 0, body));
    said(&acts).into_iter().find_map(|message| match message {
        ToSite::Rejected { reason, .. } => Some(reason.clone()),
        _ => None,
    })
}

#[test]
fn numbers_that_so_many_records_cannot_have_are_rejected_unless_there_is_noise_in_them() {
    for (protocol, rest, possible, impossible) in [
        ("em", EM, body(Kind::GradientSum, 10, &[5.0, 5.0]), body(Kind::GradientSum, 10, &[30.0, 30.0])),
        (
            "features",
            FEATURES,
            body(Kind::FeatureStatistics, 10, &[2.0; 14]),
            body(Kind::FeatureStatistics, 10, &[10.0; 14]),
        ),
        ("stream", STREAM, body(Kind::Updates, 2, &[0.1; 18]), body(Kind::Updates, 2, &[3.0; 18])),
    ] {
        let plain = study(protocol, 2, false, rest);
        assert_eq!(rejection(&plain, possible), None, "{protocol}");
        let reason = rejection(&plain, impossible.clone()).unwrap();
        assert!(reason.contains("at most"), "{protocol}: {reason}");
        assert_eq!(rejection(&study(protocol, 2, true, rest), impossible), None, "{protocol}");
    }
}

#[test]
fn bodies_of_another_kind_or_size_are_rejected_with_what_was_expected() {
    for (protocol, rest, wrong, says) in [
        ("em", EM, body(Kind::GradientSum, 10, &[1.0]), "expected 1 counts and 2 numbers, got 1 and 1"),
        ("em", EM, body(Kind::Coefficients, 10, &[1.0, 1.0]), "expected a sum of gradients, got coefficients"),
        ("em", EM, body(Kind::GradientSum, 0, &[0.0, 0.0]), "expected at least one record"),
        ("em", EM, body(Kind::GradientSum, 10, &[f64::NAN, 0.0]), "expected finite numbers"),
        ("features", FEATURES, body(Kind::FeatureSolution, 10, &[0.0; 4]), "expected cross-products of features"),
        ("features", FEATURES, body(Kind::FeatureStatistics, 10, &[0.0; 13]), "expected 1 counts and 14 numbers"),
        ("stream", STREAM, body(Kind::Updates, 1, &[0.0; 10]), "a multiple of 9 numbers"),
        ("stream", STREAM, body(Kind::Updates, 3, &[0.0; 18]), "expected 2 as the number of records"),
    ] {
        let reason = rejection(&study(protocol, 2, false, rest), wrong).unwrap();
        assert!(reason.contains(says), "{protocol}: {reason}");
    }
}

#[test]
fn a_site_that_leaves_in_the_middle_is_done_without_and_may_come_back() {
    let study = study("em", 3, false, EM);
    let mut hub = joined(&study, 3);
    let answer = |site: usize, round: u64| contribution(&study, round, sums(site, 5)[round as usize].clone());
    for site in 0..3 {
        hub.hear(site as u64 + 1, answer(site, 0));
    }
    hub.lost(3);
    hub.give_up("w2", 1);
    for round in 1..3 {
        (0..2).for_each(|site| drop(hub.hear(site as u64 + 1, answer(site, round))));
    }
    // Another process of it is told which round is open, and takes part from there.
    hub.open(9, "w2");
    let acts = hub.hear(9, super::join(&study, 2));
    assert!(
        matches!(said(&acts)[..], [ToSite::Welcome { next: 3, .. }, ToSite::Broadcast { number: 3, .. }]),
        "{acts:?}"
    );
    for round in 3..5 {
        (0..2).for_each(|site| drop(hub.hear(site as u64 + 1, answer(site, round))));
        assert_eq!(hub.exit(), None, "w2 is waited for");
        hub.hear(9, answer(2, round));
    }
    assert_eq!(hub.exit(), Some(Exit::Done));
    let report = hub.report().unwrap();
    let rows = report.workers.unwrap();
    assert_eq!(rows.iter().map(|row| row.contributions).collect::<Vec<_>>(), [5, 5, 3]);
    assert_eq!(rows[2].state, "complete");
    assert!(report.notes.iter().all(|note| !note.contains("under way")), "{:?}", report.notes);
}

#[test]
fn a_site_that_is_there_and_says_nothing_does_not_hold_a_round_for_ever() {
    let study = study("em", 3, false, EM);
    let mut hub = joined(&study, 3);
    let answer = |site: usize, round: u64| contribution(&study, round, sums(site, 5)[round as usize].clone());
    assert_eq!(hub.silent().count(), 0, "nobody has answered yet");
    (0..2).for_each(|site| drop(hub.hear(site as u64 + 1, answer(site, 0))));
    assert_eq!(hub.silent().collect::<Vec<_>>(), ["w2"]);
    let acts = hub.give_up("w2", 30);
    assert!(acts.iter().any(|act| matches!(act, Act::Close(3))), "{acts:?}");
    assert_eq!(hub.silent().count(), 0);
    for round in 1..5 {
        (0..2).for_each(|site| drop(hub.hear(site as u64 + 1, answer(site, round))));
    }
    assert_eq!(hub.exit(), Some(Exit::Done));
    let rows = hub.report().unwrap().workers.unwrap();
    assert!(rows[2].state.contains("did not answer round 1 within 30 s"), "{}", rows[2].state);
}

#[test]
fn a_site_whose_line_was_lost_for_whole_rounds_goes_on_with_the_one_that_is_open() {
    let study = study("em", 3, false, EM);
    let mut hub = joined(&study, 3);
    let mut site = Site::new(Arc::clone(&study), [1; 16]);
    site.open();
    let hear = |site: &mut Site, acts: &[Act]| -> Vec<u64> {
        let heard = said(acts).into_iter().cloned().flat_map(|message| site.hear(message));
        heard.filter_map(|act| if let site::Act::Heard { number, .. } = act { Some(number) } else { None }).collect()
    };
    hear(&mut site, &[Act::Say(3, ToSite::Welcome { differing: Vec::new(), run: super::RUN, next: 0, held: false })]);
    site.contribute(0, Content::Plain(sums(2, 5).remove(0))).unwrap();
    for w in 0..3 {
        hub.hear(w + 1, contribution(&study, 0, sums(w as usize, 5).remove(0)));
    }
    site.lost();
    hub.lost(3);
    hub.give_up("w2", 1);
    for round in 1..3 {
        (0..2)
            .for_each(|w| drop(hub.hear(w as u64 + 1, contribution(&study, round, sums(w, 5).remove(round as usize)))));
    }
    site.open();
    hub.open(9, "w2");
    let acts = hub.hear(9, super::join(&study, 1));
    assert_eq!((hear(&mut site, &acts), site.next()), (vec![3], 3));
    // In a method without rounds this is a coordinator that acknowledges what was never sent.
    let stream = study_of_stream();
    let mut site = Site::new(Arc::clone(&stream), [1; 16]);
    site.open();
    site.hear(ToSite::Welcome { differing: Vec::new(), run: super::RUN, next: 0, held: false });
    let acts = site.hear(ToSite::Acknowledged { next: 3 });
    assert!(matches!(acts[..], [site::Act::Refused { exit: Exit::Peer, .. }]), "{acts:?}");
}

fn study_of_stream() -> Arc<Study<Sites>> {
    study("stream", 1, false, STREAM)
}

#[test]
fn a_private_report_promises_and_does_not_look_whether_it_has_converged() {
    let study = study("em", 2, true, EM);
    let mut hub = joined(&study, 2);
    for round in 0..5 {
        (0..2).for_each(|site| {
            drop(hub.hear(site as u64 + 1, contribution(&study, round, sums(site, 5)[round as usize].clone())))
        });
    }
    let report = hub.report().unwrap();
    assert_eq!((report.mode, report.converged), (Mode::Private, None));
    let text = registry::layout(&report).text();
    assert!(
        text.contains("protected: one person's row at a site") && text.contains("guarantee: epsilon 1 at delta 1e-5"),
        "{text}"
    );
}

/// Nine sites with a private estimate each; nine in ten rows of three of them tell another story.
#[test]
fn private_estimates_weigh_by_their_precision_and_a_minority_of_spoilt_sites_is_not_trusted() {
    let study = study("robust", 9, false, "[outcome]\ncolumn = \"y\"\n");
    let truth = DVector::from_vec(vec![0.6, -0.3, 0.7]);
    let mut method = registry::hub(&study).unwrap();
    let mut unit = DVector::zeros(3);
    for site in 0..9u64 {
        let rows = if site == 8 { 8000 } else { 4000 };
        let (share, kind) = if site < 3 { (0.9, Corruption::Collusion) } else { (0.1, Corruption::Uniform) };
        let batch = Batch::draw_around(&truth, rows, share, kind, 40 + site).unwrap();
        let plan = Plan::new(batch_setup(rows, 3, gaussian_mu(1.0, 1e-5).powi(2))).unwrap();
        let estimate = batch.fit_with(&plan, &mut NoisePool::seeded(site)).unwrap();
        unit = batch.truth.clone();
        method.take(&format!("w{site}"), 0, &private_body(&estimate)).unwrap();
    }
    let outcome = method.outcome().unwrap();
    let batches = outcome.consolidation.unwrap().batches;
    assert_eq!(batches.iter().filter(|batch| batch.trusted).count(), 6);
    assert!(batches[..3].iter().all(|batch| !batch.trusted));
    for (row, truth) in outcome.coefficients.iter().zip(unit.iter()) {
        let (estimate, error) = (row.estimate.unwrap(), row.std_error.unwrap());
        assert!((estimate - truth).abs() < 4.5 * error, "{estimate} {truth} {error}");
        // Seven sites' worth of rows; a third of the norm of the coefficients would be easy.
        assert!(error < 0.02 * unit.norm(), "{error}");
    }
}

#[test]
fn a_hub_that_publishes_more_than_there_are_rounds_or_what_no_method_reads_broke_the_protocol() {
    let welcome = ToSite::Welcome { differing: Vec::new(), run: super::RUN, next: 0, held: false };
    let heard = |study: &Arc<Study<Sites>>, numbers: &[u64]| {
        let mut site = Site::new(Arc::clone(study), [1; 16]);
        site.open();
        site.hear(welcome.clone());
        let body = body(Kind::Coefficients, 0, &[1.0, 1.0]);
        numbers
            .iter()
            .flat_map(|number| site.hear(ToSite::Broadcast { number: *number, body: body.clone() }))
            .collect::<Vec<_>>()
    };
    let em = study("em", 2, false, EM);
    assert!(matches!(heard(&em, &[4])[..], [site::Act::Heard { number: 4, .. }]), "the last of five rounds");
    let acts = heard(&em, &[0, 5]);
    let [site::Act::Heard { .. }, site::Act::Refused { exit: Exit::Peer, sentence }] = &acts[..] else {
        panic!("{acts:?}")
    };
    assert_eq!(sentence, "the coordinator published number 5, and the last one is 4");
    // What was published before says nothing new, on one line; on another one it is said again.
    assert_eq!(heard(&em, &[3, 3, 2]).len(), 1);
    let features = study("features", 2, false, FEATURES);
    assert!(matches!(heard(&features, &[0])[..], [site::Act::Refused { exit: Exit::Peer, .. }]));
}

#[test]
fn counts_that_no_run_reaches_reject_their_site_and_the_others_go_on() {
    for contributions in [u64::MAX, MOST + 1, 1 << 63] {
        let study = super::study_with(3, "");
        let mut hub = joined(&study, 3);
        let acts = hub.hear(1, ToHub::Complete { run: super::RUN, contributions });
        assert!(matches!(said(&acts)[..], [ToSite::Rejected { .. }, ..]), "{acts:?}");
        let acts = hub.hear(1, contribution(&study, u64::MAX, super::piece(1, 0.0)));
        assert!(super::kept(&acts).is_empty(), "{acts:?}");
        for line in 1..=3 {
            hub.hear(line, contribution(&study, 0, super::piece(line, 0.0)));
            hub.hear(line, ToHub::Complete { run: super::RUN, contributions: 1 });
        }
        assert_eq!(hub.exit(), Some(Exit::Done), "{contributions}");
    }
}

#[test]
fn a_count_of_rows_that_no_table_reaches_is_not_accepted() {
    let most = 1 << 40;
    for (count, accepted) in [(u64::MAX, false), (most + 1, false), (most, true), (10, true)] {
        let study = study("em", 3, false, EM);
        let mut hub = joined(&study, 3);
        let acts = hub.hear(1, contribution(&study, 0, body(Kind::GradientSum, count, &[0.1, 0.2])));
        let rejected = said(&acts).iter().any(|said| matches!(said, ToSite::Rejected { .. }));
        assert_eq!(rejected, !accepted, "{count}: {acts:?}");
    }
}

#[test]
fn numbers_so_large_that_the_sum_of_all_is_none_are_not_accepted_under_noise_either() {
    for private in [false, true] {
        let study = study("em", 3, private, &EM.replace("rounds = 5", "rounds = 5\nestimator = \"clip\""));
        let mut hub = joined(&study, 3);
        for round in 0..5 {
            let lie = body(Kind::GradientSum, 10, &[f64::MAX, f64::MAX]);
            hub.hear(1, contribution(&study, round, lie));
            for site in 1..3 {
                hub.hear(site + 1, contribution(&study, round, sums(site as usize, 5)[round as usize].clone()));
            }
        }
        assert_eq!(hub.exit(), Some(Exit::Done), "{:?}", hub.report());
        let report = hub.report().unwrap();
        assert_eq!(report.rounds, 5);
        assert_eq!(report.workers.unwrap()[0].rejected, 5);
    }
}

#[test]
fn a_run_is_closed_with_the_quorum_that_came_and_not_below_it() {
    let study = study("em", 3, true, &format!("{EM}[sites]\nquorum = 2\n"));
    let mut hub = super::hub(&study);
    let come = |hub: &mut Hub, site: u64| {
        hub.open(site + 1, &format!("w{site}"));
        hub.hear(site + 1, super::join(&study, 1));
        hub.hear(site + 1, ToHub::Ready)
    };
    come(&mut hub, 0);
    let reason = hub.close().unwrap_err();
    assert_eq!(reason, "1 workers are ready, and the quorum is 2: the run goes on");
    come(&mut hub, 1);
    assert!(hub.held(), "the third is waited for");
    let acts = hub.close().unwrap();
    assert!(
        !hub.held() && acts.iter().any(|act| matches!(act, Act::Say(1, ToSite::Broadcast { number: 0, .. }))),
        "{acts:?}"
    );
    let answer = |site: usize, round: u64| contribution(&study, round, sums(site, 5)[round as usize].clone());
    hub.hear(1, answer(0, 0));
    assert!(hub.close().unwrap_err().contains("1 workers have contributed, and the quorum is 2"));
    hub.hear(2, answer(1, 0));
    let acts = hub.close().unwrap();
    assert!(acts.contains(&Act::Ended(Exit::NotConverged)), "{acts:?}");
    let report = hub.report().unwrap();
    assert_eq!(report.rounds, 1);
    assert!(report.notes.contains(&"the run was closed by `coordinator finish`".to_string()), "{:?}", report.notes);
    assert_eq!(hub.close().unwrap_err(), "the run is over already");
}
