//! Binomial conversations by the mechanism `crossprod`, with a dealer, faults and kills.

use super::crossprod::{Death, Kill, RUN, Tally, dealt, died, killed};
use super::*;
use crate::conversation::Content;
use crate::methods::vertical::message::{Masked, Product, ProductKind, Share};
use crate::methods::vertical::plan::{LogisticPlan, LogisticRelease, PrivatePlan, Side, logistic_tests as oracle};
use crate::privacy::bounds::ClippedRows;
use crate::privacy::mechanism::share::open_whole;

const CROSSPROD: &str = "mechanism = \"crossprod\"\n[model]\nfamily = \"binomial\"\n";

/// A study by the mechanism, of an outcome that is 0 or 1.
fn binomial(epsilon: &str) -> Arc<Study<Vertical>> {
    let text = text(&format!("{epsilon}{CROSSPROD}"));
    Arc::new(vertical(&text.replace("range = [-50, 150]", "range = [0, 1]")))
}

fn plan_of(study: &Study<Vertical>) -> LogisticPlan {
    match study.private_plan(ROWS as u64).unwrap() {
        PrivatePlan::Logistic(plan) => plan,
        PrivatePlan::Residual(_) | PrivatePlan::Crossprod(_) => panic!("another plan"),
    }
}

#[test]
fn with_hardly_any_noise_the_fit_is_the_pooled_one_and_both_print_the_same_digits() {
    let study = binomial("epsilon = 1e9\nlarge_epsilon = \"a test of scales\"\n");
    let ([alice, bob], _) = dealt(&parties(&study, 1e9), Faults::NONE);
    assert_eq!(alice.coefficients, bob.coefficients);
    let (values, y) = (values(), events());
    let x = DMatrix::from_fn(ROWS, 5, |row, column| if column == 0 { 1.0 } else { values[row][column - 1] });
    let mut beta = DVector::zeros(5);
    let mut inverse = DMatrix::zeros(5, 5);
    for _ in 0..30 {
        let mu = (&x * &beta).map(|eta| Family::Binomial.mean(eta));
        let weighted = DMatrix::from_fn(ROWS, 5, |i, j| x[(i, j)] * mu[i] * (1.0 - mu[i]));
        inverse = x.tr_mul(&weighted).try_inverse().unwrap();
        beta -= &inverse * x.tr_mul(&(mu - DVector::from_column_slice(&y)));
    }
    let terms: Vec<&str> = alice.coefficients.iter().map(|row| row.term.as_str()).collect();
    assert_eq!(terms, ["(Intercept)", "a1", "a2", "b1", "kindy"]);
    for (at, row) in alice.coefficients.iter().enumerate() {
        // Two steps by the curvature of a normal linear predictor end near the maximum, and rows are truncated.
        let (error, estimate) = (inverse[(at, at)].sqrt(), row.estimate.unwrap());
        assert!((estimate - beta[at]).abs() < 0.02 * error, "{}: {estimate} {} {error}", row.term, beta[at]);
        assert!((row.std_error.unwrap() / error - 1.0).abs() < 0.1, "{}: {:?} {error}", row.term, row.std_error);
    }
}

#[test]
fn a_run_is_charged_once_and_says_what_it_released() {
    let study = binomial("epsilon = 1.0\n");
    let parties = parties(&study, 1.5);
    let (fits, sent) = dealt(&parties, Faults::NONE);
    for (at, (fit, party)) in fits.iter().zip(&parties).enumerate() {
        let charge = plan_of(&study).side([Side::Alice, Side::Bob][at]).releases.charge();
        assert_eq!(fit.statement.charge, charge);
        assert!((party.sum() - charge).abs() <= 1e-13 * charge);
        assert_eq!(charged(&fit.statement).releases.len(), 6);
        assert_eq!((fit.nobs, fit.rounds), (ROWS as u64, 3));
        let own = sent.iter().filter(|(side, message)| *side == at && noised(message).is_some());
        assert_eq!(own.count(), 6, "all that is charged opens to the peer");
    }
}

#[test]
fn nothing_leaves_but_masked_values_canaries_and_noised_values() {
    let study = binomial("epsilon = 1.0\n");
    let parties = parties(&study, 1.0);
    let (_, sent) = dealt(&parties, Faults::NONE);
    let (mut masked, mut canaries, mut rows) = ([0, 0], [0, 0], [0, 0]);
    for (side, message) in &sent {
        match &message.body {
            Body::Masked(Masked { entries, .. }) => masked[*side] += entries.to_bytes().len(),
            Body::Product(Product { what: ProductKind::Rows, entries, .. }) => rows[*side] += entries.count(),
            Body::Share(Share { table, .. }) => {
                assert!(table.is_none(), "a share without its noise");
                canaries[*side] += 1;
            }
            Body::Noised(noised) => {
                let stored = parties[*side].disk.stored(&format!("sent/{RUN}/{}", noised.index));
                assert_eq!(stored, Some(noised.value.encode()), "what leaves is not what the ledger has");
            }
            Body::Hello(_) | Body::Rows(_) | Body::Shared(_) | Body::Terms(_) | Body::Go => {}
            other => panic!("{}", other.kind()),
        }
    }
    // Two entries of either row and a public column, in three exchanges.
    assert_eq!((masked, canaries), ([3 * 8 * ROWS * 3; 2], [5, 5]));
    assert!(rows[0] > 2 * ROWS && rows[0] == rows[1], "{rows:?}");
}

/// Both parties' whole noise of a run in its order, by release; the pools are those of [`dealt`].
fn noise(plan: &LogisticPlan) -> [Vec<Vec<i128>>; 2] {
    [(Side::Alice, Role::Alice), (Side::Bob, Role::Bob)].map(|(side, role)| {
        let mut pool = NoisePool::seeded(100 + role as u64);
        // One integer an entry, whatever the words of the ring.
        let entries = |release| match release {
            LogisticRelease::Share => plan.table_shape().opened(),
            LogisticRelease::Gradient(_) => 5,
            LogisticRelease::Table | LogisticRelease::Score | LogisticRelease::Sums => plan.entries(side, release),
        };
        let drawn = |release| pool.foreseen(entries(release)).into_iter().map(i128::from).collect();
        LogisticRelease::ALL.into_iter().map(drawn).collect()
    })
}

/// Every opened integer is the one of the rows plus both noises, bit by bit: in a ring of one word and in one of two.
#[test]
fn what_opens_is_the_integer_of_the_rows_plus_both_noises() {
    for epsilon in ["epsilon = 3.0\n", "epsilon = 1e9\nlarge_epsilon = \"a test of scales\"\n"] {
        let study = binomial(epsilon);
        let plan = plan_of(&study);
        let (_, sent) = dealt(&parties(&study, 1e9), Faults::NONE);
        let released = |side: Side, index: usize| {
            let from = usize::from(side == Side::Bob);
            let said = sent.iter().filter(|(at, _)| *at == from).filter_map(|(_, message)| noised(message));
            said.into_iter().find(|noised| noised.index as usize == index).map(|noised| noised.value.clone()).unwrap()
        };
        let clipped = [Role::Alice, Role::Bob].map(|role| table(&study, role, &[]).clipped().0);
        let noises = noise(&plan);
        let at = |release| LogisticRelease::ALL.iter().position(|of| *of == release).unwrap();
        let exact = |release, shape: crate::secure::product::Shape, entries: usize| -> Vec<i128> {
            let shares = [Side::Alice, Side::Bob].map(|side| released(side, at(release)));
            let unit = (plan.share_step(release).unwrap(), u128::MAX >> 2);
            let opened = open_whole([&shares[0], &shares[1]], shape.width, entries, unit).unwrap();
            let both =
                |(value, place): (i128, usize)| value - noises[0][at(release)][place] - noises[1][at(release)][place];
            opened.into_iter().zip(0..).map(both).collect()
        };
        let [alice, bob] = &clipped;
        let entry = |rows: &ClippedRows, row: usize, j: usize| i128::from(rows.integers(row..row + 1)[j]);
        let product = |i: usize, j: usize| (0..ROWS).map(|row| entry(alice, row, i) * entry(bob, row, j)).sum::<i128>();
        let expected: Vec<i128> =
            (0..4).map(|at| product(at % 2, at / 2) * i128::from(plan.scale().factor())).collect();
        assert_eq!(exact(LogisticRelease::Share, plan.table_shape(), 4), expected);
        let y = events();
        let tables =
            plan.tables(|side, release| Some(released(side, at(release))), y.iter().sum::<f64>() / ROWS as f64);
        let mut fit = plan.begin(&tables.unwrap().unwrap()).unwrap();
        for number in 0..2 {
            let release = LogisticRelease::Gradient(number);
            let shape = plan.gradient_shape(number).unwrap();
            println!("{epsilon:?}: gradient {number} in {} words", shape.width.words());
            let expected = oracle::gradient(&fit, plan.gradients()[number], &clipped, &y);
            assert_eq!(exact(release, shape, 5), expected);
            let shares = [Side::Alice, Side::Bob].map(|side| released(side, at(release)));
            assert!(fit.take(&plan.opened_gradient(number, [&shares[0], &shares[1]]).unwrap()));
        }
    }
}

#[test]
fn a_lossy_line_gives_the_same_bytes_as_a_clean_one() {
    let study = binomial("epsilon = 1.0\n");
    let (clean, said) = dealt(&parties(&study, 1.0), Faults::NONE);
    for seed in 0..10 {
        let faults = Faults { drop: 0.2, duplicate: 0.2, reorder: 0.2, seed };
        let (lossy, again) = dealt(&parties(&study, 1.0), faults);
        assert_eq!(clean, lossy);
        for (side, message) in &again {
            let original = said.iter().find(|(from, m)| from == side && m.header.sequence == message.header.sequence);
            assert_eq!(original.map(|(_, m)| m), Some(message), "a repeat differs");
        }
    }
}

#[test]
fn a_party_killed_at_any_message_sends_what_it_stored_and_is_charged_once() {
    let study = binomial("epsilon = 1.0\n");
    let mut tally = Tally::default();
    for side in [0, 1] {
        for taken in [false, true] {
            let mut at = 1;
            while killed(&study, Kill { side, at, taken }, &mut tally) {
                at += 1;
            }
            assert!(at > 25, "{at}");
        }
    }
    println!("{tally:?}");
    assert!(tally.alone > 8 && tally.again > 20 && tally.over > 2, "{tally:?}");
}

/// The same where the storage fails at any step: a share that was drawn and not stored is drawn afresh, under the charge that stands.
#[test]
fn a_party_whose_ledger_fails_at_any_step_is_charged_once_and_sends_nothing_that_is_not_stored() {
    let study = binomial("epsilon = 1.0\n");
    let mut tally = Tally::default();
    for side in [0, 1] {
        let mut step = 0;
        while died(&study, Death::Disk { side, step }, &mut tally) {
            step += 1;
        }
        assert!(step > 40, "{step}");
    }
    println!("{tally:?}");
    assert!(tally.alone > 4 && tally.again > 8 && tally.over > 2, "{tally:?}");
}
