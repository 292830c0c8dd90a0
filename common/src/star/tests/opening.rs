//! A run that costs its sites something asks nobody before the quorum is ready.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::methods::{EM, FEATURES, body, study, sums};
use super::network::{Faults, run};
use super::{RUN, contribution, hub, join, kept, said};
use crate::exit::Exit;
use crate::star::hub::{Act, Hub, Line, Record};
use crate::star::message::{Kind, ToHub, ToSite};
use crate::star::site::{self, Site};
use crate::study::{Sites, Study};

fn em(workers: usize, quorum: usize, private: bool) -> Arc<Study<Sites>> {
    study("em", workers, private, &format!("{EM}[sites]\nquorum = {quorum}\n"))
}

/// A site comes, on the line of its number plus one.
fn come(hub: &mut Hub, study: &Study<Sites>, site: u64) -> Vec<Act> {
    hub.open(site + 1, &format!("w{site}"));
    hub.hear(site + 1, join(study, 1))
}

fn ready(hub: &mut Hub, study: &Study<Sites>, site: u64) -> Vec<Act> {
    come(hub, study, site);
    hub.hear(site + 1, ToHub::Ready)
}

/// Who is told that the run is open, and who is asked for an answer.
fn opened(acts: &[Act]) -> (Vec<Line>, Vec<Line>) {
    let (mut told, mut asked) = (Vec::new(), Vec::new());
    for act in acts {
        match act {
            Act::Say(line, ToSite::Welcome { held: false, .. }) => told.push(*line),
            Act::Say(line, ToSite::Broadcast { number: 0, .. }) => asked.push(*line),
            _ => {}
        }
    }
    (told, asked)
}

#[test]
fn nobody_is_asked_before_the_quorum_is_ready_and_then_everybody_is() {
    for private in [false, true] {
        let study = em(3, 3, private);
        let mut hub = hub(&study);
        for site in 0..2 {
            let acts = come(&mut hub, &study, site);
            assert!(matches!(said(&acts)[..], [ToSite::Welcome { held: true, next: 0, .. }]), "{acts:?}");
            assert_eq!(hub.hear(site + 1, ToHub::Ready), []);
        }
        // Being there is not enough: its rows may be unusable, or its budget spent.
        let acts = come(&mut hub, &study, 2);
        assert!(matches!(said(&acts)[..], [ToSite::Welcome { held: true, .. }]), "{acts:?}");
        assert_eq!(hub.publish(), []);
        let acts = hub.hear(3, ToHub::Ready);
        assert_eq!(opened(&acts), (vec![1, 2, 3], vec![1, 2, 3]), "{acts:?}");
        let first = acts.iter().position(|act| matches!(act, Act::Say(1, ToSite::Broadcast { .. })));
        let welcome = acts.iter().position(|act| matches!(act, Act::Say(1, ToSite::Welcome { .. })));
        assert!(welcome < first, "{acts:?}");
        // A site that did not hear it asks again.
        assert!(matches!(said(&hub.hear(2, ToHub::Ready))[..], [ToSite::Welcome { held: false, .. }]));
    }
}

#[test]
fn private_methods_without_rounds_wait_for_the_quorum_too_and_plain_ones_do_not() {
    let features = |private| study("features", 3, private, &format!("{FEATURES}[sites]\nquorum = 2\n"));
    let plain = features(false);
    assert!(matches!(said(&come(&mut hub(&plain), &plain, 0))[..], [ToSite::Welcome { held: false, .. }]));
    let private = features(true);
    let mut hub = hub(&private);
    assert_eq!(opened(&ready(&mut hub, &private, 0)), (vec![], vec![]));
    // The third is not needed: what it sends counts whenever it comes.
    assert_eq!(opened(&ready(&mut hub, &private, 1)), (vec![1, 2], vec![]));
    assert_eq!(hub.missing().count(), 0);
    assert!(matches!(said(&come(&mut hub, &private, 2))[..], [ToSite::Welcome { held: false, .. }]));
}

#[test]
fn a_site_whose_line_is_lost_does_not_count_until_it_is_back_and_ready() {
    let study = em(2, 2, true);
    let mut hub = hub(&study);
    ready(&mut hub, &study, 0);
    hub.lost(1);
    assert_eq!(opened(&ready(&mut hub, &study, 1)), (vec![], vec![]));
    // Below the quorum nobody is given up: it costs nothing to wait.
    assert_eq!((hub.away().count(), hub.missing().count()), (0, 0));
    assert_eq!(hub.give_up("w0", 1), []);
    hub.open(9, "w0");
    let acts = hub.hear(9, join(&study, 2));
    assert_eq!(opened(&acts), (vec![], vec![]), "its new process has not read its rows");
    assert_eq!(opened(&hub.hear(9, ToHub::Ready)), (vec![9, 2], vec![9, 2]));
}

#[test]
fn a_quorum_that_never_comes_ends_at_the_deadline_with_69_and_says_that_nothing_was_asked() {
    let study = em(4, 3, true);
    let mut hub = hub(&study);
    (0..2).for_each(|site| drop(ready(&mut hub, &study, site)));
    come(&mut hub, &study, 2);
    let acts = hub.deadline();
    assert!(acts.contains(&Act::Ended(Exit::Unreachable)), "{acts:?}");
    assert!(matches!(kept(&acts)[..], [Record::Over { .. }]), "{acts:?}");
    let reason = hub.report().unwrap_err();
    assert_eq!(
        reason,
        "the quorum of 3 workers was not reached: only w0, w1 were ready; nothing was asked of anybody; the run was ended at its \
         deadline, 86400 s after it was opened; w2 was connected, but not ready; w3 never came"
    );
    let told = said(&acts);
    assert_eq!(told.len(), 3);
    assert!(
        told.iter()
            .all(|told| matches!(told, ToSite::Refused { exit: Exit::Unreachable, sentence } if *sentence == reason))
    );
    // One that did not hear it.
    assert!(matches!(said(&hub.hear(1, ToHub::Ready))[..], [ToSite::Refused { exit: Exit::Unreachable, .. }]));
}

#[test]
fn sites_that_leave_before_the_opening_make_a_quorum_impossible_and_cost_the_others_nothing() {
    let study = em(3, 2, true);
    let mut hub = hub(&study);
    ready(&mut hub, &study, 0);
    for site in 1..3 {
        come(&mut hub, &study, site);
        hub.hear(site + 1, ToHub::Leave { exit: Exit::Refused, sentence: "no budget".to_string() });
    }
    assert_eq!(hub.exit(), Some(Exit::Unreachable));
    let reason = hub.report().unwrap_err();
    assert!(reason.contains("only w0 was ready; nothing was asked of anybody; w1 left (77): no budget"), "{reason}");
}

#[test]
fn once_the_quorum_is_ready_the_others_are_waited_for_and_then_done_without() {
    let study = em(3, 2, true);
    let mut hub = hub(&study);
    ready(&mut hub, &study, 0);
    assert_eq!(hub.missing().count(), 0, "there is no quorum yet");
    assert_eq!(opened(&ready(&mut hub, &study, 1)), (vec![], vec![]), "no round could be closed without the third");
    assert_eq!(hub.missing().collect::<Vec<_>>(), ["w2"]);
    let acts = hub.give_up("w2", 30);
    assert_eq!(opened(&acts), (vec![1, 2], vec![1, 2]), "{acts:?}");
    let answer = |site: usize, round: u64| contribution(&study, round, sums(site, 5)[round as usize].clone());
    (0..2).for_each(|site| drop(hub.hear(site as u64 + 1, answer(site, 0))));
    // It takes part from the round that is open when it comes.
    let acts = come(&mut hub, &study, 2);
    assert!(
        matches!(said(&acts)[..], [ToSite::Welcome { held: false, next: 1, .. }, ToSite::Broadcast { number: 1, .. }]),
        "{acts:?}"
    );
    for round in 1..5 {
        (0..3).for_each(|site| drop(hub.hear(site as u64 + 1, answer(site, round))));
    }
    assert_eq!(hub.exit(), Some(Exit::Done));
    let rows = hub.report().unwrap().workers.unwrap();
    assert_eq!(rows.iter().map(|row| row.contributions).collect::<Vec<_>>(), [5, 5, 4]);
    // A site that comes after the end has nothing to reserve for.
    hub.open(9, "w2");
    let acts = hub.hear(9, join(&study, 1));
    assert!(matches!(said(&acts)[..], [ToSite::Welcome { held: true, .. }, ToSite::Outcome { .. }]), "{acts:?}");
}

#[test]
fn one_that_is_there_and_never_ready_is_done_without_and_its_line_closed() {
    let study = em(3, 2, false);
    let mut hub = hub(&study);
    come(&mut hub, &study, 2);
    (0..2).for_each(|site| drop(ready(&mut hub, &study, site)));
    assert_eq!(hub.missing().collect::<Vec<_>>(), ["w2"]);
    let acts = hub.give_up("w2", 30);
    assert!(acts.contains(&Act::Close(3)), "{acts:?}");
    assert_eq!(opened(&acts), (vec![1, 2], vec![1, 2]));
    let left = kept(&acts);
    assert!(
        matches!(left[..], [Record::Left { sentence, .. }, Record::Opened] if sentence == "it was not ready within 30 s after the quorum was there"),
        "{left:?}"
    );
}

#[test]
fn a_hub_whose_run_is_over_still_tells_whoever_is_about_to_join() {
    let study = em(3, 3, true);
    let mut hub = hub(&study);
    come(&mut hub, &study, 0);
    hub.open(2, "w1");
    hub.hear(1, ToHub::Leave { exit: Exit::Refused, sentence: "no budget".to_string() });
    assert_eq!((hub.exit(), hub.all_told()), (Some(Exit::Unreachable), false));
    let acts = hub.hear(2, join(&study, 1));
    // Held: there is nothing that it should begin with.
    assert!(
        matches!(
            said(&acts)[..],
            [ToSite::Welcome { held: true, .. }, ToSite::Refused { exit: Exit::Unreachable, .. }]
        ),
        "{acts:?}"
    );
    hub.hear(2, ToHub::Done);
    assert!(hub.all_told());
}

/// What a process of the hub would go on with after another one was killed.
fn again(study: &Arc<Study<Sites>>, records: impl IntoIterator<Item = Record>) -> Hub {
    let mut hub = hub(study);
    records.into_iter().for_each(|record| hub.resume(record).unwrap());
    hub
}

#[test]
fn a_hub_that_was_killed_waits_for_the_quorum_again_and_counts_who_has_contributed() {
    let study = em(3, 3, true);
    let answer = |site: usize| sums(site, 5).remove(0);
    let of = |site: usize| Record::Contribution { site: format!("w{site}"), number: 0, body: answer(site) };
    let mut hub = again(&study, [of(0), of(1)]);
    // Both have answered, and need not be back.
    assert_eq!(opened(&come(&mut hub, &study, 0)), (vec![], vec![]));
    assert_eq!(opened(&ready(&mut hub, &study, 2)), (vec![1, 3], vec![1, 3]));
    let acts = hub.hear(3, contribution(&study, 0, answer(2)));
    assert!(kept(&acts).contains(&&Record::Round), "{acts:?}");
    // After a round nobody is held.
    let mut hub = again(&study, [of(0), of(1), of(2), Record::Round]);
    let acts = come(&mut hub, &study, 0);
    assert!(
        matches!(said(&acts)[..], [ToSite::Welcome { held: false, next: 1, .. }, ToSite::Broadcast { number: 1, .. }]),
        "{acts:?}"
    );
    // What was contributed to a method without rounds counts as well.
    let features = study_of_features();
    let table = body(Kind::FeatureStatistics, 100, &[0.5; 14]);
    let mut hub = again(&features, [Record::Contribution { site: "w0".to_string(), number: 0, body: table }]);
    assert_eq!(opened(&ready(&mut hub, &features, 1)), (vec![2], vec![]));
}

fn study_of_features() -> Arc<Study<Sites>> {
    study("features", 3, true, &format!("{FEATURES}[sites]\nquorum = 2\n"))
}

#[test]
fn a_site_says_that_it_is_ready_until_it_hears_that_the_run_is_open_and_begins_once() {
    let study = em(2, 2, true);
    let mut site = Site::new(study, [1; 16]);
    let welcome = |held| ToSite::Welcome { differing: vec![], run: RUN, next: 0, held };
    let says_ready = |acts: &[site::Act]| acts == [site::Act::Say(ToHub::Ready)];
    site.open();
    assert_eq!(site.hear(welcome(true)), [site::Act::Begin { next: 0, run: RUN }]);
    assert!(!site.is_open() && site.resend().is_empty());
    assert!(says_ready(&site.ready()) && says_ready(&site.resend()));
    site.lost();
    site.open();
    assert!(site.resend().is_empty());
    assert!(says_ready(&site.hear(welcome(true))), "also on its next line");
    assert_eq!(site.hear(welcome(false)), [site::Act::Open]);
    assert!(site.is_open() && site.resend().is_empty());
    // Another process of the hub holds the run again: for this site it has begun, and the hub learns that it is there.
    site.lost();
    site.open();
    assert!(says_ready(&site.hear(welcome(true))) && site.is_open());
    assert_eq!(site.hear(welcome(false)), [], "it begins once");
}

#[test]
fn without_a_quorum_nothing_is_contributed_over_any_line() {
    let study = em(3, 3, false);
    let pieces: BTreeMap<_, _> = (0..2).map(|at| (format!("w{at}"), sums(at, 5))).collect();
    for seed in 0..20 {
        let faults = match seed {
            0 => Faults::none(0),
            _ => Faults { drop: 0.2, duplicate: 0.2, reorder: 0.2, cut: 0.05, site_crash: 0.03, hub_crash: 0.05, seed },
        };
        let ended = run(&study, &pieces, faults).unwrap();
        assert_eq!((ended.exit, ended.contributed), (Some(Exit::Unreachable), 0), "seed {seed}: {:?}", ended.report);
        assert!(ended.told.len() == 2, "seed {seed}: {:?}", ended.told);
    }
}
