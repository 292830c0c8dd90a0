//! Binomial and poisson fits by three simulated roles.

use std::sync::{Arc, Mutex};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::super::*;
use super::{ROWS, RUN, Recorder, abort, fits, opening, plain, prepared, sealed, sealed_with, study};
use crate::exit::Exit;
use crate::fit::Termination;
use crate::id::Role;
use crate::methods::vertical::message::{Body, Dealt, Joint, JointKind, Message, Product, ProductKind};
use crate::methods::vertical::outcome::VerticalFit;
use crate::methods::vertical::prepare::Policy;
use crate::privacy::openings::OneRun;
use crate::secure::open::Limits;
use crate::secure::ring::{Elements, Width};
use crate::session::{Abort, Order, Session, Turn};
use crate::sim::dealer::dealer;
use crate::sim::pair::{self, Ended, Faults};

pub(super) const BINOMIAL: &str = "[model]\nfamily = \"binomial\"";
pub(super) const POISSON: &str = "[model]\nfamily = \"poisson\"";

/// Columns a1, a2, b1, b2, b3 and the outcome of a family. Where `dependent`, b2 = 2 a1 - b1.
pub(super) fn rows(family: &str, rows: usize, dependent: bool) -> Vec<[f64; 6]> {
    let mut rng = ChaCha8Rng::seed_from_u64(6);
    (0..rows)
        .map(|_| {
            let mut part = || rng.random_range(-1.0..1.0);
            let (a1, a2, b1) = (40.0 + 5.0 * part(), part(), 1e3 + part());
            let b2 = if dependent { 2.0 * a1 - b1 } else { part() + 0.2 * a1 };
            let b3 = f64::from(part() > 0.2);
            let eta = 0.2 * (a1 - 40.0) - 0.9 * a2 + 0.5 * (b1 - 1e3) + 0.4 * (b2 - 8.0) + 0.6 * b3 - 0.5;
            let eta = if dependent { 0.2 * (a1 - 40.0) - 0.9 * a2 + 0.6 * b3 } else { eta };
            let y = match family {
                "binomial" => f64::from(u8::from(part() * 0.5 + 0.5 < 1.0 / (1.0 + (-eta).exp()))),
                _ => ((0.5 * eta).exp() + 1.5 * (part() + 1.0)).floor(),
            };
            [a1, a2, b1, b2, b3, y]
        })
        .collect()
}

/// Whether two fits say the same, to the digits of a sealed fit.
fn assert_near(sealed: &VerticalFit, plain: &VerticalFit) {
    assert_eq!(sealed.coefficients.len(), plain.coefficients.len());
    for (ours, theirs) in sealed.coefficients.iter().zip(&plain.coefficients) {
        assert_eq!((&ours.term, ours.party), (&theirs.term, theirs.party));
        let unit = theirs.std_error.unwrap_or(1.0) / 1000.0;
        for (ours_is, theirs_is, digits) in
            [(ours.estimate, theirs.estimate, 5e-8), (ours.std_error, theirs.std_error, 1e-6)]
        {
            match (ours_is, theirs_is) {
                (Some(a), Some(b)) => {
                    assert!((a - b).abs() <= digits * b.abs().max(unit), "{} {a} {b}", ours.term);
                }
                (a, b) => assert_eq!(a.is_some(), b.is_some(), "{}", ours.term),
            }
        }
    }
    let (a, b) = (&sealed.statistics, &plain.statistics);
    assert_eq!((a.nobs, a.df_residual, a.df_null, a.dispersion), (b.nobs, b.df_residual, b.df_null, b.dispersion));
    let mut pairs = vec![(a.deviance, b.deviance), (a.null_deviance, b.null_deviance)];
    // Callers say where there is no likelihood.
    match a.log_lik {
        None => assert_eq!((a.aic, a.bic), (None, None)),
        Some(_) => pairs.extend([(a.aic, b.aic), (a.bic, b.bic), (a.log_lik, b.log_lik)]),
    }
    for (ours, theirs) in pairs {
        let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
        assert!((ours - theirs).abs() <= 1e-8 * theirs.abs(), "{ours} {theirs}");
    }
    assert_eq!(sealed.termination, plain.termination);
}

#[test]
fn a_sealed_fit_of_another_family_is_the_plain_fit() {
    for (name, family) in [("binomial", BINOMIAL), ("poisson", POISSON)] {
        let values = rows(name, ROWS, false);
        for more in ["", "\n[fit]\ncoefficients = \"own\""] {
            let more = format!("{family}{more}");
            let fits = sealed(&study("sealed", &more), &values, Faults::NONE);
            for (sealed, plain) in fits.iter().zip(&plain(&values, &more)) {
                assert_near(sealed, plain);
                assert!(sealed.statistics.log_lik.is_some());
                assert!((3..=8).contains(&sealed.rounds), "{}", sealed.rounds);
            }
        }
    }
}

#[test]
fn what_is_null_in_a_sealed_fit_has_a_reason() {
    let values = rows("poisson", ROWS, false);
    let (both, reason) = ("\n[sealed]\nopens = \"both\"", "variance inflation factors: not computed in sealed mode of");
    for (name, family) in [("gaussian", ""), ("binomial", BINOMIAL), ("poisson", POISSON)] {
        for (more, without) in [("", false), (both, false), ("\n[inference]\nallowed = false", true)] {
            let values = if name == "binomial" { rows(name, ROWS, false) } else { values.clone() };
            let fits = sealed(&study("sealed", &format!("{family}{more}")), &values, Faults::NONE);
            for (fit, own) in fits.iter().zip(["alice", "bob"]) {
                let note = |says: &str| fit.notes.iter().any(|note| note.contains(says));
                let vif = fit.term_tests.iter().flatten().any(|test| test.vif.is_none());
                assert_eq!(note(&format!("{reason} {name} models")), vif, "{name} {more} {own}: {:?}", fit.notes);
                assert_eq!(vif, name != "gaussian" && !without, "{name} {more} {own}");
                assert_eq!(note("for bob a table of these would have to open"), vif && more != both, "{:?}", fit.notes);
                let matrix = fit.covariance.iter().flat_map(|covariance| covariance.matrix.iter().flatten());
                let beside = matrix.filter(|entry| entry.is_none()).count() > 0;
                assert_eq!(note("the part of bob in it, a number for each slope of alice"), beside, "{:?}", fit.notes);
                assert_eq!(beside, own == "alice" && !without, "{name} {more} {own}");
            }
        }
    }
}

/// What a study may say beside its family.
pub(super) const BESIDE: [&str; 6] = [
    "intercept = false",
    "[offset]\ncolumn = \"o\"",
    "[offset]\ncolumn = \"o\"\nheld_by = \"alice\"",
    "[weights]\ncolumn = \"w\"",
    "[weights]\ncolumn = \"w\"\n[offset]\ncolumn = \"o\"\n[inference]\nallowed = false",
    "intercept = false\n[weights]\ncolumn = \"w\"\n[offset]\ncolumn = \"o\"",
];

#[test]
fn offsets_weights_and_models_without_an_intercept_are_those_of_plain_mode_in_every_family() {
    for (name, family) in [("binomial", BINOMIAL), ("poisson", POISSON)] {
        let mut values = rows(name, ROWS, false);
        // Without an intercept columns with a large mean take its place.
        values.iter_mut().for_each(|values| (values[0], values[2]) = (values[0] - 40.0, values[2] - 1e3));
        for more in BESIDE {
            let more = format!("{family}\n{more}");
            let without = more.contains("allowed = false");
            for (sealed, plain) in
                sealed(&study("sealed", &more), &values, Faults::NONE).iter().zip(&plain(&values, &more))
            {
                println!("{name} {more}: {}", sealed.rounds);
                if !without {
                    assert_near(sealed, plain);
                }
                assert_eq!(
                    sealed.statistics.log_lik.is_none(),
                    name == "binomial" && more.contains("weights"),
                    "{more}"
                );
                assert!(sealed.rounds <= 22, "{more}: {}", sealed.rounds);
            }
        }
    }
}

#[test]
fn weights_that_are_no_numbers_of_trials_open_no_sum_for_the_likelihood() {
    let values = rows("binomial", ROWS, false);
    let more = format!("{BINOMIAL}\n[weights]\ncolumn = \"w\"");
    let mut alone = (*study("sealed", &more)).clone();
    alone.method.outcome.held_by = crate::study::HeldBy::One(Role::Alice);
    for study in [study("sealed", &more), Arc::new(alone)] {
        let [alice, bob] = sealed(&study, &values, Faults::NONE);
        assert!(alice.notes.iter().any(|note| note.starts_with("likelihood: not computed")), "{:?}", alice.notes);
        for fit in [&alice, &bob] {
            let statistics = &fit.statistics;
            assert!(statistics.deviance.is_some());
            assert_eq!((statistics.aic, statistics.bic, statistics.log_lik), (None, None, None));
        }
        // A gradient at a time, the table, and one sum of losses.
        let sums: Vec<_> =
            bob.disclosure.opened.iter().filter(|opened| opened.what.starts_with("the sum of")).collect();
        assert!(matches!(sums[..], [one] if one.numbers == 1), "{:?}", bob.disclosure.opened);
    }
}

#[test]
fn columns_that_depend_across_the_parties_are_named_in_every_family() {
    for (name, family) in [("binomial", BINOMIAL), ("poisson", POISSON)] {
        let values = rows(name, ROWS, true);
        let fits = sealed(&study("sealed", family), &values, Faults::NONE);
        for (sealed, plain) in fits.iter().zip(&plain(&values, family)) {
            assert_near(sealed, plain);
            assert_eq!(sealed.termination, Termination::CollinearAcrossParties);
        }
        assert!(fits[1].notes.iter().any(|note| note.contains("`b2` not estimated")), "{:?}", fits[1].notes);
    }
}

/// Few rows of skewed columns on which counts hardly depend: the means of the linear start are beyond what fixed point holds.
fn skewed() -> Vec<[f64; 6]> {
    let mut values = rows("poisson", ROWS, false);
    for (row, values) in values.iter_mut().enumerate() {
        if row % 500 == 7 {
            (values[3], values[5]) = (50.0, 50.0 + (row % 11) as f64);
        }
    }
    values
}

#[test]
fn a_poisson_fit_makes_a_step_shorter_whose_means_are_too_large_and_nothing_opens_there() {
    let values = skewed();
    let (mut ranges, mut shares, mut points) = (Vec::new(), 0, 0);
    let observe = |_: usize, message: &Message| match &message.body {
        Body::Joint(Joint { what: JointKind::Point, values }) => {
            points += 1;
            ranges.push(values[1]);
        }
        Body::Joint(Joint { what: JointKind::Range, values }) => *ranges.last_mut().unwrap() += values[0],
        Body::Product(product) if product.what == ProductKind::Shares => shares += 1,
        _ => {}
    };
    let fits = fits(sealed_with(&study("sealed", POISSON), &values, Faults::NONE, observe, |_, _| {}));
    for (sealed, plain) in fits.iter().zip(&plain(&values, POISSON)) {
        assert_near(sealed, plain);
        assert_eq!(sealed.termination, Termination::Converged, "{:?}", sealed.notes);
        // One message of shares a gradient, and one at the end.
        assert_eq!((sealed.rounds + 1, points), (shares, ranges.len()), "{ranges:?}");
        assert!(points > sealed.rounds as usize && sealed.rounds <= 45, "{} {ranges:?}", sealed.rounds);
        // Every point counts, with a gradient or without.
        let of = |what: &str| sealed.disclosure.opened.iter().find(|opened| opened.what.starts_with(what));
        let told = of("ranges").map(|opened| opened.numbers as usize);
        assert!([Some(points), Some(2 * points)].contains(&told), "{told:?}");
    }
    assert!(ranges[0] > 11.0 && ranges[1] < ranges[0], "{ranges:?}");
}

#[test]
fn a_fit_does_not_end_converged_at_a_point_without_a_gradient() {
    let mut points = 0;
    let instead = |message: &mut Message| {
        if let Body::Joint(Joint { what: what @ JointKind::Point, values }) = &mut message.body {
            points += 1;
            match points {
                // Far beyond every range.
                3 => values[3] = 1e4,
                4 => (*what, *values) = (JointKind::End, vec![0.0]),
                _ => {}
            }
        }
    };
    blames(spoiled(POISSON, "poisson", Role::Alice, instead, |_, _| {}), "sent an end, expected a point");
}

#[test]
fn without_inference_the_estimates_are_the_same_and_no_weighted_table_opens() {
    let values = rows("binomial", ROWS, false);
    let [with, _] = sealed(&study("sealed", BINOMIAL), &values, Faults::NONE);
    let without = sealed(&study("sealed", &format!("{BINOMIAL}\n[inference]\nallowed = false")), &values, Faults::NONE);
    for (one, other) in with.coefficients.iter().zip(&without[0].coefficients) {
        let (one, other, error) = (one.estimate.unwrap(), other.estimate.unwrap(), one.std_error.unwrap());
        assert!((one - other).abs() < 1e-5 * error, "{one} {other}");
        assert!(without[0].coefficients.iter().all(|row| row.std_error.is_none()));
    }
    assert!(without[0].statistics.deviance.is_some());
    assert!(!without[1].disclosure.opened.iter().any(|opened| opened.what == "weighted cross-products"));
}

#[test]
fn a_lossy_line_gives_the_bits_of_a_clean_one_in_every_family() {
    for (name, family) in [("binomial", BINOMIAL), ("poisson", POISSON)] {
        let (values, study) = (rows(name, ROWS, false), study("sealed", family));
        let text = |faults| format!("{:?}", sealed(&study, &values, faults));
        let clean = text(Faults::NONE);
        for seed in 0..3 {
            let faults = Faults { drop: 0.2, duplicate: 0.2, reorder: 0.0, seed };
            assert_eq!(text(faults), clean, "{name} seed {seed}");
        }
    }
}

#[test]
fn an_outcome_of_one_value_ends_the_run_before_a_column_leaves() {
    for (family, value) in [("binomial", 0.0), ("binomial", 1.0), ("poisson", 0.0)] {
        let mut values = rows(family, 600, false);
        values.iter_mut().for_each(|values| values[5] = value);
        let (mut masked, study) = (false, study("sealed", &format!("[model]\nfamily = \"{family}\"")));
        let observe = |_: usize, message: &Message| masked |= matches!(message.body, Body::Masked(_));
        let abort = abort(sealed_with(&study, &values, Faults::NONE, observe, |_, _| {}));
        assert!(!masked && matches!(abort, Abort::OwnData(_)), "{family} {value}: {abort}");
        assert!(abort.to_string().contains(&format!("`y` is {value} in every row that counts")), "{abort}");
        assert!(!abort.sentence_for_peer(Role::Alice).contains("nothing to fit"));
    }
}

#[test]
fn separated_outcomes_are_named_whichever_columns_separate_them() {
    for by in [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]] {
        let mut values = rows("binomial", 2500, false);
        for values in &mut values {
            values[5] = f64::from(u8::from(by[0] * values[1] + by[1] * (values[2] - 1e3) > 0.0));
        }
        for fit in sealed(&study("sealed", BINOMIAL), &values, Faults::NONE) {
            assert_eq!(fit.termination, Termination::Separation, "{by:?} {} {:?}", fit.rounds, fit.notes);
            assert!(fit.coefficients.iter().all(|row| row.std_error.is_none()));
        }
    }
}

#[test]
fn columns_that_nearly_depend_across_the_parties_are_out_of_range_and_not_called_separated() {
    let mut values = rows("binomial", 2500, true);
    for (row, values) in values.iter_mut().enumerate() {
        // What b2 has beside a1 and b1 is small, and the outcome follows it without being separated.
        let beside = (1.7 * row as f64).sin();
        values[3] += 0.01 * beside;
        values[5] = f64::from(u8::from(beside + 1.5 * (0.37 * (row * row) as f64).sin() > 0.0));
    }
    for fit in sealed(&study("sealed", BINOMIAL), &values, Faults::NONE) {
        assert_eq!(fit.termination, Termination::OutOfRange, "{} {:?}", fit.rounds, fit.notes);
        assert_eq!(fit.termination.exit(), Exit::NotConverged);
        assert!(fit.notes.iter().any(|note| note.starts_with("out of range")), "{:?}", fit.notes);
        assert!(fit.disclosure.opened.iter().all(|opened| opened.numbers > 0), "{:?}", fit.disclosure.opened);
    }
}

/// A run in which both parties have these policies.
fn under(policies: [&Policy; 2], values: &[[f64; 6]], observe: impl FnMut(usize, &Message)) -> Ended<VerticalFit> {
    let study = study("sealed", BINOMIAL);
    let start = |role, policy| {
        SealedSession::new(prepared(&study, role, values, policy).unwrap(), opening(role), Box::new(OneRun))
    };
    let [mut alice, mut bob] = [start(Role::Alice, policies[0]), start(Role::Bob, policies[1])];
    pair::run_dealt(&mut alice, &mut bob, Faults::NONE, observe, dealer(&study, RUN, |_, _| {}))
}

#[test]
fn a_fit_ends_before_more_numbers_open_than_either_party_allows() {
    let values = rows("binomial", ROWS, false);
    // Alice: a point has 6 numbers, the solution 3 + 9 + 9 + 3. Bob: the table has 9, a gradient with its range 7, the end 21 + 1 + 3.
    let share = |numbers: f64| Policy {
        limits: Limits { opened_share: (numbers + 0.5) / (2.0 * ROWS as f64), ..Limits::default() },
        ..Policy::default()
    };
    let loose = Policy::default();
    let (alice, bob) = (share(2.0 * 6.0 + 24.0 + 5.0), share(9.0 + 2.0 * 7.0 + 25.0 + 6.0));
    for (policies, who) in [([&alice, &loose], "alice"), ([&loose, &bob], "bob")] {
        for fit in fits(under(policies, &values, |_, _| {})) {
            assert_eq!((fit.termination, fit.rounds), (Termination::OpeningLimit, 2));
            assert_eq!(fit.termination.exit(), Exit::NotConverged);
            let sentence =
                format!("2 gradients have opened, and the limits of {who} on what may open allow no further one");
            assert!(fit.notes.iter().any(|note| note.contains(&sentence)), "{:?}", fit.notes);
            assert!(fit.coefficients.iter().all(|row| row.estimate.is_some() && row.std_error.is_none()));
        }
    }
    for policies in [[&share(29.0), &loose], [&loose, &share(39.0)]] {
        let mut masked = false;
        let ended = under(policies, &values, |_, message| masked |= matches!(message.body, Body::Masked(_)));
        let abort = abort(ended);
        assert_eq!(abort.exit(), Exit::Refused, "{abort}");
        assert!(abort.to_string().contains("loosen `sealed_opened_share`") && !masked, "{abort}");
    }
}

#[test]
fn nothing_but_masks_shares_and_the_declared_numbers_passes_in_an_evaluation() {
    let values = rows("binomial", ROWS, false);
    let (mut said, mut joint, mut products) = (Vec::new(), Vec::new(), Vec::new());
    let observe = |side: usize, message: &Message| {
        match &message.body {
            Body::Joint(numbers) => joint.push((side, numbers.what, numbers.values.len())),
            Body::Product(product) => products.push((side, product.clone())),
            _ => {}
        }
        said.push(message.body.clone());
    };
    let [at_alice, at_bob] = fits(sealed_with(&study("sealed", BINOMIAL), &values, Faults::NONE, observe, |_, _| {}));
    let rounds = at_alice.rounds as usize;
    let of = |kind: JointKind| joint.iter().filter(move |(_, what, _)| *what == kind).copied().collect::<Vec<_>>();
    // Digits, Alice's range, the intercept and Bob's three coordinates; Bob's range.
    assert_eq!(of(JointKind::Point), vec![(0, JointKind::Point, 6); rounds]);
    assert_eq!(of(JointKind::Range), vec![(1, JointKind::Range, 1); rounds]);
    assert_eq!(of(JointKind::End), [(0, JointKind::End, 1)]);
    // Two marks, gamma, what is held of Bob's columns, covariance and lean; means.
    assert_eq!(of(JointKind::Answer), [(0, JointKind::Answer, 2 + 3 + 9 + 9 + 3)]);
    assert_eq!(of(JointKind::Means), [(1, JointKind::Means, 3)]);
    // Bob alone opens anything: a gradient each time, at the end two canaries, the weighted table and the loss.
    let shares: Vec<(usize, usize)> = products
        .iter()
        .filter(|(_, product)| product.what == ProductKind::Shares)
        .map(|(side, product)| (*side, product.entries.count()))
        .collect();
    assert_eq!(shares[..rounds], vec![(1, 1 + 6); rounds][..]);
    assert_eq!(shares[rounds..], [(1, 2 + 21 + 1)]);
    let sizes = |fit: &VerticalFit| -> Vec<(u64, Role)> {
        fit.disclosure.opened.iter().map(|opened| (opened.numbers, opened.to)).collect()
    };
    let rounds = rounds as u64;
    let to_alice = [9, 6 * rounds, rounds, 21, 1, 2, 1].map(|numbers| (numbers, Role::Alice));
    assert_eq!(sizes(&at_bob), to_alice);
    assert_eq!(sizes(&at_alice), [4 * rounds, 2 * rounds, 9, 3 + 9 + 3].map(|numbers| (numbers, Role::Bob)));
    // What stands behind masks is uniform: the first residue of every element over sixteen parts of its prime.
    let mut counts = [0_u32; 16];
    let rows = products.iter().filter(|(_, product)| product.what == ProductKind::Rows);
    for (_, product) in rows {
        for word in product.entries.to_bytes().as_chunks::<8>().0 {
            counts[((u64::from_le_bytes(*word) & 0x1f_ffff) >> 17) as usize] += 1;
        }
    }
    let mean = f64::from(counts.iter().sum::<u32>()) / 16.0;
    let chi: f64 = counts.iter().map(|count| (f64::from(*count) - mean).powi(2) / mean).sum();
    // The 1 - 1e-6 quantile with 15 degrees of freedom.
    assert!(mean > 1e4 && chi < 55.0, "{chi} {counts:?}");
}

/// A session whose messages are changed on their way.
pub(super) struct Spoiled<F> {
    pub(super) inner: SealedSession,
    pub(super) spoil: F,
}

impl<F: FnMut(&mut Message)> Spoiled<F> {
    fn turn<O>(&mut self, turn: Turn<impl Into<Message>, O>) -> Turn<Message, O> {
        let mut spoil = |message: Message| {
            let mut message = message;
            (self.spoil)(&mut message);
            message
        };
        match turn {
            Turn::Wait => Turn::Wait,
            Turn::Send(message) => Turn::Send(spoil(message.into())),
            Turn::FinishAndSend { output, last } => Turn::FinishAndSend { output, last: spoil(last.into()) },
            Turn::Finish(output) => Turn::Finish(output),
        }
    }
}

impl<F: FnMut(&mut Message)> Session for Spoiled<F> {
    type Inbound = Message;
    type Outbound = Message;
    type Output = VerticalFit;

    fn role(&self) -> Role {
        self.inner.role()
    }

    fn start(&mut self) -> Result<Turn<Message, VerticalFit>, Abort> {
        let turn = self.inner.start()?;
        Ok(self.turn(turn))
    }

    fn receive(&mut self, from: Role, message: Message) -> Result<Turn<Message, VerticalFit>, Abort> {
        let turn = self.inner.receive(from, message)?;
        Ok(self.turn(turn))
    }

    fn resend(&self) -> Option<Message> {
        None
    }

    fn order(&mut self) -> Option<Order> {
        self.inner.order()
    }

    fn work(&mut self) -> Result<(), Abort> {
        self.inner.work()
    }

    fn position(&self) -> u64 {
        self.inner.position()
    }
}

/// A run in which what one party says, and what the dealer sends, is changed on its way.
pub(super) fn spoiled(
    family: &str,
    name: &str,
    liar: Role,
    spoil: impl FnMut(&mut Message),
    spoil_dealt: impl FnMut(usize, &mut Dealt),
) -> Ended<VerticalFit> {
    let (study, values) = (study("sealed", family), rows(name, ROWS, false));
    let start = |role| {
        SealedSession::new(
            prepared(&study, role, &values, &Policy::default()).unwrap(),
            opening(role),
            Box::new(OneRun),
        )
    };
    let mut honest = start(liar.partner());
    let mut liar = Spoiled { inner: start(liar), spoil };
    let deal = dealer(&study, RUN, spoil_dealt);
    match liar.role() {
        Role::Alice => pair::run_dealt(&mut liar, &mut honest, Faults::NONE, |_, _| {}, deal),
        _ => pair::run_dealt(&mut honest, &mut liar, Faults::NONE, |_, _| {}, deal),
    }
}

/// Whether an abort blames a party for this.
#[track_caller]
pub(super) fn blames(ended: Ended<VerticalFit>, part: &str) {
    let abort = abort(ended);
    assert_eq!(abort.exit(), Exit::Peer, "{abort}");
    assert!(abort.to_string().contains(part), "{abort}");
}

/// Changes the messages of products of one kind, from the second product on.
fn products(kind: ProductKind, mut change: impl FnMut(&mut Product)) -> impl FnMut(&mut Message) {
    move |message| {
        if let Body::Product(product) = &mut message.body
            && product.what == kind
            && product.number > 2
        {
            change(product);
        }
    }
}

pub(super) fn joints(kind: JointKind, mut change: impl FnMut(&mut Vec<f64>)) -> impl FnMut(&mut Message) {
    move |message| {
        if let Body::Joint(Joint { what, values }) = &mut message.body
            && *what == kind
        {
            change(values);
        }
    }
}

#[test]
fn a_party_that_says_what_cannot_be_ends_the_run() {
    let binomial = |liar, spoil: &mut dyn FnMut(&mut Message)| spoiled(BINOMIAL, "binomial", liar, spoil, |_, _| {});
    // A range that is no class, and points that are none.
    for range in [17.0, 0.5, -1.0, f64::NAN] {
        let ended = binomial(Role::Bob, &mut joints(JointKind::Range, |values| values[0] = range));
        blames(ended, "sent a value of a range that is not one of the ranges");
        let ended = binomial(Role::Alice, &mut joints(JointKind::Point, |values| values[1] = range));
        blames(ended, "sent a value of a point that is not possible");
    }
    blames(binomial(Role::Alice, &mut joints(JointKind::Point, |values| values.push(1.0))), "values of a point");
    blames(binomial(Role::Bob, &mut joints(JointKind::Range, |values| values.push(1.0))), "values of a range");
    blames(binomial(Role::Alice, &mut joints(JointKind::End, |values| values[0] = 9.0)), "one of the ends");
    blames(binomial(Role::Alice, &mut joints(JointKind::Answer, |values| values.push(1.0))), "the solution");
    blames(binomial(Role::Alice, &mut joints(JointKind::Answer, |values| values[2 + 3 + 9] = -1.0)), "the solution");
    for liar in [Role::Alice, Role::Bob] {
        // Rows of another product, out of order, and too few.
        blames(binomial(liar, &mut products(ProductKind::Rows, |product| product.number -= 2)), "came, expected");
        blames(binomial(liar, &mut products(ProductKind::Rows, |product| product.first += 1)), "row block 1 came");
        let mut shorter = products(ProductKind::Rows, |product| product.entries = product.entries.slice(1..99));
        blames(binomial(liar, &mut shorter), "masked rows of a product");
    }
    // Shares of another evaluation, of a canary that is wrong, and too few.
    blames(binomial(Role::Bob, &mut products(ProductKind::Shares, |product| product.number -= 2)), "came, expected");
    blames(binomial(Role::Alice, &mut products(ProductKind::Canary, |product| product.number -= 2)), "came, expected");
    let one = Elements::from_integers(Width::Two, &[1]);
    let off = |product: &mut Product| {
        let mut first = product.entries.slice(0..1);
        first.add(&one).unwrap();
        first.append(&product.entries.slice(1..product.entries.count())).unwrap();
        product.entries = first;
    };
    blames(binomial(Role::Bob, &mut products(ProductKind::Shares, off)), "out of step");
    blames(binomial(Role::Alice, &mut products(ProductKind::Canary, off)), "out of step");
    let mut shorter = products(ProductKind::Shares, |product| product.entries = product.entries.slice(0..5));
    blames(binomial(Role::Bob, &mut shorter), "share of a product");
}

#[test]
fn shares_that_were_opened_before_are_not_taken_again() {
    // The whole message of the evaluation before, as it was said then.
    let mut before = None;
    let again = products(ProductKind::Shares, move |product| {
        let now = product.clone();
        if let Some(before) = before.replace(now) {
            *product = before;
        }
    });
    blames(spoiled(BINOMIAL, "binomial", Role::Bob, again, |_, _| {}), "came, expected");
}

#[test]
fn a_dealer_whose_corrections_do_not_fit_ends_the_run_before_a_gradient_opens() {
    let one = Elements::from_integers(Width::Two, &[1]);
    type Change<'a> = &'a dyn Fn(&mut u64, &mut Elements);
    let last: Change<'_> = &|_, entries| {
        let count = entries.count();
        let mut changed = entries.slice(count - 1..count);
        changed.add(&one).unwrap();
        let mut all = entries.slice(0..count - 1);
        all.append(&changed).unwrap();
        *entries = all;
    };
    let changes: [(Change<'_>, &str); 3] = [
        (last, "out of step"),
        (&|first, _| *first += 1, "row block 1 came, expected 0"),
        (&|_, entries| *entries = entries.slice(1..entries.count()), "corrections of rows"),
    ];
    for (family, name) in [(BINOMIAL, "binomial"), (POISSON, "poisson")] {
        for (change, part) in &changes {
            let mut opened = false;
            let observe = |message: &mut Message| {
                opened |= matches!(&message.body, Body::Product(product) if product.what == ProductKind::Shares);
            };
            let ended = spoiled(family, name, Role::Bob, observe, |_, dealt| {
                if let Dealt::Rows(first, entries) = dealt {
                    change(first, entries);
                }
            });
            blames(ended, part);
            assert!(!opened || *part != "out of step");
        }
    }
}

#[test]
fn every_number_of_an_evaluation_is_recorded_before_it_leaves() {
    for (name, family) in [("binomial", BINOMIAL), ("poisson", POISSON)] {
        for (beside, dependent) in BESIDE.into_iter().chain([""]).flat_map(|beside| [(beside, false), (beside, true)]) {
            let mut values = rows(name, ROWS, dependent);
            if beside.contains("intercept = false") {
                values.iter_mut().for_each(|values| (values[0], values[2]) = (values[0] - 40.0, values[2] - 1e3));
            }
            let study = study("sealed", &format!("{family}\n{beside}"));
            let opened: [Arc<Mutex<Vec<u64>>>; 2] = Default::default();
            let start = |role: Role| {
                let opened = Arc::clone(&opened[usize::from(role == Role::Bob)]);
                let table = prepared(&study, role, &values, &Policy::default()).unwrap();
                SealedSession::new(table, opening(role), Box::new(Recorder { opened, most: 10_000 }))
            };
            let [mut alice, mut bob] = [start(Role::Alice), start(Role::Bob)];
            let ended = pair::run_dealt(&mut alice, &mut bob, Faults::NONE, |_, _| {}, dealer(&study, RUN, |_, _| {}));
            for (fit, opened) in fits(ended).iter().zip(&opened) {
                let listed: u64 = fit.disclosure.opened.iter().map(|opened| opened.numbers).sum();
                let ended = (fit.termination, fit.rounds, &fit.notes);
                assert_eq!(opened.lock().unwrap().last(), Some(&listed), "{name} {beside} {dependent} {ended:?}");
            }
        }
    }
}
