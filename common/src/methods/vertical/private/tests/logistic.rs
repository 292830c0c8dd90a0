//! Binomial and Poisson conversations by the mechanism `crossprod`, with a dealer, faults and kills.

use super::crossprod::{Death, Kill, Masks, RUN, Stopped, Tally, dealt, died, killed, talk};
use super::*;
use crate::conversation::Content;
use crate::methods::vertical::message::{Dealt, Masked, Product, ProductKind, Share};
use crate::methods::vertical::plan::{LogisticPlan, LogisticRelease, PrivatePlan, Side, logistic_tests as oracle};
use crate::privacy::mechanism::share::open_whole;
use crate::research::logistic::{DrawnRows, SLOPES};
use crate::research::newton::pooled;
use crate::secure::ring::Elements;
use crate::study::HeldBy;

/// A study by the mechanism, of an outcome from 0 to `largest`.
fn of_family(family: Family, held_by: &str, largest: f64, epsilon: &str) -> Arc<Study<Vertical>> {
    let text = text(&format!("{epsilon}mechanism = \"crossprod\"\n[model]\nfamily = \"{family}\"\n"))
        .replace("column = \"y\"\n", &format!("column = \"y\"\nheld_by = \"{held_by}\"\n"));
    Arc::new(vertical(&text.replace("range = [-50, 150]", &format!("range = [0, {largest}]"))))
}

/// Of an outcome that is 0 or 1.
fn binomial(epsilon: &str) -> Arc<Study<Vertical>> {
    of_family(Family::Binomial, "both", 1.0, epsilon)
}

/// The same, its outcome at Alice alone.
fn at_alice(epsilon: &str) -> Arc<Study<Vertical>> {
    of_family(Family::Binomial, "alice", 1.0, epsilon)
}

/// Of counts, cut at 8.
fn poisson(epsilon: &str) -> Arc<Study<Vertical>> {
    of_family(Family::Poisson, "both", 8.0, epsilon)
}

fn plan_of(study: &Study<Vertical>) -> LogisticPlan {
    match study.private_plan(ROWS as u64).unwrap() {
        PrivatePlan::Logistic(plan) => plan,
        PrivatePlan::Residual(_) | PrivatePlan::Crossprod(_) => panic!("another plan"),
    }
}

/// A study for each place of the outcome.
fn both(epsilon: &str) -> [Arc<Study<Vertical>>; 2] {
    [binomial(epsilon), at_alice(epsilon)]
}

/// The same for events and for counts.
fn all(epsilon: &str) -> [Arc<Study<Vertical>>; 4] {
    let counts_at_alice = of_family(Family::Poisson, "alice", 8.0, epsilon);
    [binomial(epsilon), at_alice(epsilon), poisson(epsilon), counts_at_alice]
}

#[test]
fn with_hardly_any_noise_the_fit_is_the_pooled_one_and_both_print_the_same_digits() {
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
    for study in both("epsilon = 1e9\nlarge_epsilon = \"a test of scales\"\n") {
        let ([alice, bob], _) = dealt(&parties(&study, 1e9), Faults::NONE);
        assert_eq!(alice.coefficients, bob.coefficients);
        let terms: Vec<&str> = alice.coefficients.iter().map(|row| row.term.as_str()).collect();
        assert_eq!(terms, ["(Intercept)", "a1", "a2", "b1", "kindy"]);
        for (at, row) in alice.coefficients.iter().enumerate() {
            // Two steps by the curvature of a normal linear predictor end near the maximum, and rows are truncated.
            let (error, estimate) = (inverse[(at, at)].sqrt(), row.estimate.unwrap());
            assert!((estimate - beta[at]).abs() < 0.02 * error, "{}: {estimate} {} {error}", row.term, beta[at]);
            assert!((row.std_error.unwrap() / error - 1.0).abs() < 0.1, "{}: {:?} {error}", row.term, row.std_error);
        }
    }
}

/// With a largest count that no mean comes near, so that nothing is cut.
#[test]
fn with_hardly_any_noise_the_fit_of_counts_is_the_pooled_one_and_has_no_standard_errors() {
    let (values, y) = (values(), DVector::from_vec(counts()));
    let x = DMatrix::from_fn(ROWS, 5, |row, column| if column == 0 { 1.0 } else { values[row][column - 1] });
    let (beta, covariance) = pooled(Family::Poisson, &x, &y).unwrap();
    for held_by in ["both", "alice"] {
        let large = "epsilon = 1e9\nlarge_epsilon = \"a test of scales\"\n";
        let study = of_family(Family::Poisson, held_by, 60.0, large);
        let ([alice, bob], _) = dealt(&parties(&study, 1e9), Faults::NONE);
        assert_eq!(alice.coefficients, bob.coefficients);
        let terms: Vec<&str> = alice.coefficients.iter().map(|row| row.term.as_str()).collect();
        assert_eq!(terms, ["(Intercept)", "a1", "a2", "b1", "kindy"]);
        for (at, row) in alice.coefficients.iter().enumerate() {
            let (error, estimate) = (covariance[(at, at)].sqrt(), row.estimate.unwrap());
            println!("{held_by} {}: {estimate} {} {error}", row.term, beta[at]);
            // Two steps by the curvature of a normal linear predictor end near the maximum, and rows are truncated.
            assert!((estimate - beta[at]).abs() < 0.02 * error, "{}: {estimate} {} {error}", row.term, beta[at]);
            assert_eq!((row.std_error, row.p_value), (None, None), "{}", row.term);
        }
        let why = "standard errors and intervals: not computed. Counts, and the means";
        assert!(alice.notes.iter().any(|note| note.starts_with(why)), "{:?}", alice.notes);
        assert!(says_why_no_tests(&bob, "as the standard errors"), "{:?}", bob.notes);
    }
}

#[test]
fn a_run_is_charged_once_and_says_what_it_released() {
    for (study, releases) in all("epsilon = 1.0\n").into_iter().zip([[6, 6], [6, 5], [6, 6], [6, 5]]) {
        let parties = parties(&study, 1.5);
        let (fits, sent) = dealt(&parties, Faults::NONE);
        for (at, (fit, party)) in fits.iter().zip(&parties).enumerate() {
            let charge = plan_of(&study).side([Side::Alice, Side::Bob][at]).releases.charge();
            assert_eq!(fit.statement.charge, charge);
            assert!((party.sum() - charge).abs() <= 1e-13 * charge);
            assert_eq!(charged(&fit.statement).releases.len(), releases[at]);
            assert_eq!((fit.nobs, fit.rounds), (ROWS as u64, 3));
            let own = sent.iter().filter(|(side, message)| *side == at && noised(message).is_some());
            assert_eq!(own.count(), releases[at], "all that is charged opens to the peer");
            let at_both = study.method.outcome.held_by == HeldBy::Both;
            assert_eq!(fit.statement.scope.not_protected.contains("the outcome"), at_both);
        }
    }
}

#[test]
fn nothing_leaves_but_masked_values_canaries_and_noised_values_and_columns_leave_once() {
    for (study, columns) in all("epsilon = 1.0\n").into_iter().zip([[2, 2], [3, 2], [2, 2], [3, 2]]) {
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
        // Two entries of either row, the outcome where Alice alone holds it, and a public column: once.
        assert_eq!((masked, canaries), (columns.map(|own| (own + 1) * 8 * ROWS), [3, 3]));
        // Two gradients, each of at least one product a row with a canary, and of the residuals: a mean of counts is one product.
        let least = 2 * (2 * ROWS + 1);
        let counts = study.method.family == Family::Poisson;
        assert!(rows[0] == rows[1] && if counts { rows[0] == least } else { rows[0] > least }, "{rows:?}");
    }
}

/// Both parties' whole noise of a run by release; the pools are those of [`dealt`].
fn noise(plan: &LogisticPlan) -> [Vec<(LogisticRelease, Vec<i128>)>; 2] {
    [(Side::Alice, Role::Alice), (Side::Bob, Role::Bob)].map(|(side, role)| {
        let mut pool = NoisePool::seeded(100 + u64::from(role == Role::Bob));
        // One integer an entry, whatever the words of the ring, and three where an outcome is protected with a gradient's rows.
        let entries = |release| match release {
            LogisticRelease::Share => (plan.table_shape().opened(), 1),
            LogisticRelease::Gradient(_) => (5, plan.replaced(side).draws() as usize),
            LogisticRelease::Table | LogisticRelease::Score | LogisticRelease::Sums => (plan.entries(side, release), 1),
        };
        let drawn = |release: &LogisticRelease| {
            let (entries, draws) = entries(*release);
            let drawn = pool.foreseen(entries * draws);
            (*release, drawn.chunks(draws).map(|of| of.iter().copied().map(i128::from).sum()).collect())
        };
        plan.side(side).order().iter().map(drawn).collect()
    })
}

/// Every opened integer is the one of the rows plus both noises, bit by bit: in a ring of one word and in one of two.
#[test]
fn what_opens_is_the_integer_of_the_rows_plus_both_noises() {
    for epsilon in ["epsilon = 3.0\n", "epsilon = 1e9\nlarge_epsilon = \"a test of scales\"\n"] {
        all(epsilon).iter().for_each(opens_exactly);
    }
}

fn opens_exactly(study: &Arc<Study<Vertical>>) {
    let plan = plan_of(study);
    let (_, sent) = dealt(&parties(study, 1e9), Faults::NONE);
    let released = |side: Side, release: LogisticRelease| {
        let (from, index) = (usize::from(side == Side::Bob), plan.side(side).index(release)?);
        let said = sent.iter().filter(|(at, _)| *at == from).filter_map(|(_, message)| noised(message));
        said.into_iter().find(|noised| noised.index == index).map(|noised| noised.value.clone())
    };
    let clipped = [Role::Alice, Role::Bob].map(|role| table(study, role, &[]).clipped().0);
    let outcome = table(study, Role::Alice, &[]).clipped().1;
    let noises = noise(&plan);
    let noise_of = |at: usize, release: LogisticRelease| -> &[i128] {
        &noises[at].iter().find(|(of, _)| *of == release).unwrap().1
    };
    let exact = |release, entries: usize| -> Vec<i128> {
        let shares = [Side::Alice, Side::Bob].map(|side| released(side, release).unwrap());
        let unit = (plan.share_step(release).unwrap(), u128::MAX >> 2);
        let opened = open_whole([&shares[0], &shares[1]], plan.columns().width, entries, unit).unwrap();
        let both = |(value, place): (i128, usize)| value - noise_of(0, release)[place] - noise_of(1, release)[place];
        opened.into_iter().zip(0..).map(both).collect()
    };
    let [alice, bob] = &clipped;
    let whole = |row: usize, j: usize| match j {
        2 => (outcome.values()[row] * 32_768.0).trunc() as i128,
        _ => i128::from(alice.integers(row..row + 1)[j]),
    };
    let product = |i: usize, j: usize| {
        (0..ROWS).map(|row| whole(row, i) * i128::from(bob.integers(row..row + 1)[j])).sum::<i128>()
    };
    let (left, factor) = (plan.table_shape().left, i128::from(plan.scale().factor()));
    let expected: Vec<i128> = (0..2 * left).map(|at| product(at % left, at / left) * factor).collect();
    assert_eq!(exact(LogisticRelease::Share, 2 * left), expected);
    let y: Vec<f64> = match study.method.family {
        Family::Poisson => counts().iter().map(|y| y.min(8.0) / 8.0).collect(),
        Family::Gaussian | Family::Binomial => events(),
    };
    let mut fit = plan.begin(&plan.tables(released, &outcome).unwrap().unwrap()).unwrap();
    for number in 0..2 {
        let release = LogisticRelease::Gradient(number);
        println!("gradient {number} in {} words", plan.columns().width.words());
        let expected = oracle::gradient(&fit, plan.gradients()[number], &clipped, &y);
        assert_eq!(exact(release, 5), expected);
        let shares = [Side::Alice, Side::Bob].map(|side| released(side, release).unwrap());
        assert!(fit.take(&plan.opened_gradient(number, [&shares[0], &shares[1]]).unwrap()));
    }
}

#[test]
fn a_lossy_line_gives_the_same_bytes_as_a_clean_one() {
    for (study, seed) in
        [binomial, poisson].into_iter().flat_map(|of| (0..10).map(move |seed| (of("epsilon = 1.0\n"), seed)))
    {
        let (clean, said) = dealt(&parties(&study, 1.0), Faults::NONE);
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
    for study in all("epsilon = 1.0\n") {
        let mut tally = Tally::default();
        for side in [0, 1] {
            for taken in [false, true] {
                let mut at = 1;
                while killed(&study, Kill { side, at, taken }, &mut tally) {
                    at += 1;
                }
                assert!(at > 20, "{at}");
            }
        }
        println!("{tally:?}");
        assert!(tally.alone > 8 && tally.again > 20 && tally.over > 2, "{tally:?}");
    }
}

/// Two deaths, and both parties started again after each: the columns pass anew at the first exchange that a process makes, and later
/// processes count the messages as they were.
#[test]
fn a_run_that_is_interrupted_twice_goes_on_with_what_was_stored_under_one_charge() {
    let study = binomial("epsilon = 1.0\n");
    let (mut whole, mut over) = (0, 0);
    for first in (12..30).step_by(3) {
        for second in 1..30 {
            let parties = parties(&study, 1.0);
            let mut sent = Vec::new();
            let mut run = |seed: u64, masks: u8, kill: Option<Kill>| {
                let mut sessions = parties.each_ref().map(|party| party.session(1, seed).unwrap());
                talk(&mut sessions, [true, true], &mut sent, &mut Masks::new(&study, masks), kill)
            };
            let kill = |side, at| Some(Kill { side, at, taken: at % 2 == 0 });
            let mut ended = run(7, 20, kill(first % 2, first));
            if let Err(Stopped::Killed) = ended {
                ended = run(1_000_000, 40, kill(second % 2, second));
            }
            if let Err(Stopped::Killed) = ended {
                ended = run(2_000_000, 60, None);
            }
            match ended {
                Ok([alice, bob]) => {
                    assert_eq!(alice.coefficients, bob.coefficients, "{first} {second}");
                    whole += 1;
                }
                Err(Stopped::By(abort @ Abort::Refused(_))) => {
                    assert!(abort.to_string().contains("masks that were lost here"), "{first} {second}: {abort}");
                    over += 1;
                }
                Err(other) => panic!("{first} {second}: {other:?}"),
            }
            for (side, party) in parties.iter().enumerate() {
                let charge = plan_of(&study).side([Side::Alice, Side::Bob][side]).releases.charge();
                assert!(party.sum() <= charge * (1.0 + 1e-12), "{first} {second}: charged again");
                for (_, message) in sent.iter().filter(|(from, _)| *from == side) {
                    let Some(noised) = noised(message) else { continue };
                    let stored = party.disk.stored(&format!("sent/{RUN}/{}", noised.index));
                    assert_eq!(stored, Some(noised.value.encode()), "{first} {second}: other bytes than stored");
                }
            }
        }
    }
    println!("{whole} went on, {over} were over");
    assert!(whole > 60 && over > 2, "{whole} {over}");
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

/// A run in which the dealer's corrections of one kind are zeros from the n-th on: where masks are out of step it ends before the share is
/// made that they were for.
fn out_of_step(spoils: impl Fn(&Dealt) -> bool, spoilt: usize, unmade: usize) {
    let study = binomial("epsilon = 1.0\n");
    let parties = parties(&study, 1.0);
    let [mut alice, mut bob] = parties.each_ref().map(|party| party.session(1, 100).unwrap());
    let mut number = 0;
    let deal = crate::sim::dealer::dealer(&study, RUN, |_, dealt| {
        if !spoils(dealt) {
            return;
        }
        if let (Dealt::Correction(entries) | Dealt::Rows(_, entries), true) = (dealt, number >= spoilt) {
            *entries = Elements::zeros(entries.width(), entries.count());
        }
        number += 1;
    });
    let ended = pair::run_dealt(&mut alice, &mut bob, Faults::NONE, |_, _: &Message| {}, deal);
    let abort = ended.results.into_iter().flatten().find_map(Result::err).unwrap();
    assert!(abort.exit() == Exit::Peer && abort.to_string().contains("out of step"), "{spoilt}: {abort}");
    for party in &parties {
        let made = (0..6).filter(|index| party.disk.stored(&format!("sent/{RUN}/{index}")).is_some());
        assert_eq!(made.count(), unmade, "{spoilt}: a share was made");
    }
}

#[test]
fn masks_out_of_step_end_the_run_before_the_share_of_the_table_is_made() {
    out_of_step(|dealt| matches!(dealt, Dealt::Correction(_)), 0, 3);
}

/// The canary of the means: a correction of rows that does not belong to the masks.
#[test]
fn means_whose_masks_are_out_of_step_end_the_run_before_their_gradient_is_shared() {
    for gradient in [0, 1] {
        out_of_step(|dealt| matches!(dealt, Dealt::Rows(..)), gradient, 4 + gradient);
    }
}

/// Whatever Alice's outcome is, where it is protected a run goes on: an end would tell something about it. A check, which sends nothing, refuses it.
#[test]
fn an_outcome_that_alice_holds_alone_ends_no_run() {
    let study = at_alice("epsilon = 1.0\n");
    let mut spoilt = events();
    (spoilt[3], spoilt[7], spoilt[9]) = (f64::NAN, 0.25, 1e300);
    for y in [spoilt, vec![1.0; ROWS]] {
        let frame = || frame_with(Role::Alice, &[], &y);
        assert_eq!(
            Table::checked(Arc::clone(&study), Role::Alice, &Policy::default(), frame()).unwrap_err().exit(),
            Exit::Data
        );
        let parties = parties(&study, 1.0);
        let table = Table::new(Arc::clone(&study), Role::Alice, &Policy::default(), frame()).unwrap();
        let mut alice = parties[0].session_over(table, 1, 100).unwrap();
        let mut bob = parties[1].session(1, 100).unwrap();
        let deal = crate::sim::dealer::dealer(&study, RUN, |_, _| {});
        let ended = pair::run_dealt(&mut alice, &mut bob, Faults::NONE, |_, _: &Message| {}, deal);
        let [alice, bob] = ended.results.map(|result| result.unwrap().unwrap());
        assert_eq!(alice.coefficients, bob.coefficients);
        assert!(alice.coefficients.iter().all(|row| row.estimate.is_some_and(f64::is_finite)));
    }
}

/// No number that Bob releases or learns of his own side depends on the outcome that Alice holds alone.
#[test]
fn what_bob_says_before_a_share_is_the_same_whatever_outcome_alice_holds() {
    let study = at_alice("epsilon = 1.0\n");
    let said = |y: &[f64]| {
        let parties = parties(&study, 1.0);
        let table = Table::new(Arc::clone(&study), Role::Alice, &Policy::default(), frame_with(Role::Alice, &[], y));
        let mut alice = parties[0].session_over(table.unwrap(), 1, 100).unwrap();
        let mut bob = parties[1].session(1, 100).unwrap();
        let deal = crate::sim::dealer::dealer(&study, RUN, |_, _| {});
        let mut sent = Vec::new();
        let observe = |side, message: &Message| sent.extend((side == 1).then(|| message.clone()));
        pair::run_dealt(&mut alice, &mut bob, Faults::NONE, observe, deal);
        sent.retain(|message| noised(message).is_some_and(|noised| noised.index < 2));
        sent
    };
    let turned: Vec<f64> = events().iter().map(|y| 1.0 - y).collect();
    let [first, second] = [said(&events()), said(&turned)];
    assert_eq!((first.len(), first == second), (2, true));
}

#[test]
fn an_outcome_that_is_no_count_is_refused_and_one_above_the_largest_is_cut() {
    let study = poisson("epsilon = 1.0\n");
    let build = |outcome: &[f64]| {
        Table::new(Arc::clone(&study), Role::Bob, &Policy::default(), frame_with(Role::Bob, &[], outcome))
    };
    let mut y = counts();
    assert!(y.iter().any(|y| *y > 8.0), "some are above");
    let cut = build(&y).unwrap().clipped().1;
    assert!(cut.values().iter().zip(&y).all(|(t, y)| *t == y.min(8.0) / 4.0 - 1.0));
    for wrong in [-1.0, f64::NAN, f64::INFINITY] {
        y[7] = wrong;
        let refused = build(&y).unwrap_err();
        assert!(refused.exit() == Exit::Data && refused.to_string().contains("must be 0 or above"), "{refused}");
    }
    let refused = build(&[0.0; ROWS]).unwrap_err();
    assert!(refused.exit() == Exit::Data && refused.to_string().contains("is 0 in every row"), "{refused}");
}

#[test]
fn an_outcome_that_is_no_event_is_refused_before_a_ledger_is_opened() {
    let study = binomial("epsilon = 1.0\n");
    let build = |outcome: &[f64]| {
        Table::new(Arc::clone(&study), Role::Bob, &Policy::default(), frame_with(Role::Bob, &[], outcome))
    };
    let mut y = events();
    assert!(build(&y).is_ok());
    y[7] = 0.5;
    let refused = build(&y).unwrap_err();
    assert!(refused.exit() == Exit::Data && refused.to_string().contains("must be 0 or 1"), "{refused}");
    let refused = build(&[1.0; ROWS]).unwrap_err();
    assert!(refused.exit() == Exit::Data && refused.to_string().contains("is 0 in no row"), "{refused}");
}

/// A run that was interrupted goes on with the same outcome only: the gradients that are left need it.
#[test]
fn another_outcome_than_before_is_told_by_the_fingerprint_of_a_run() {
    for study in [binomial("epsilon = 1.0\n"), poisson("epsilon = 1.0\n")] {
        let [alice, _] = parties(&study, 1.0);
        let mut other = events();
        other[3] = 1.0 - other[3];
        let table = |y: &[f64]| {
            Table::new(Arc::clone(&study), Role::Alice, &Policy::default(), frame_with(Role::Alice, &[], y)).unwrap()
        };
        let key = Ledger::open(alice.disk.clone()).unwrap().key().unwrap();
        assert_eq!(table(&events()).fingerprint(&key), table(&events()).fingerprint(&key));
        assert_ne!(table(&events()).fingerprint(&key), table(&other).fingerprint(&key));
    }
}

/// Noise far beyond every sum: points are cut and steps held, and the run ends with numbers.
#[test]
fn a_run_of_hardly_any_budget_ends_with_numbers() {
    for (of, seed) in [binomial, poisson].into_iter().flat_map(|of| [100, 200, 300].map(|seed| (of, seed))) {
        let study = of("epsilon = 0.05\n");
        let parties = parties(&study, 0.05);
        let [mut alice, mut bob] = parties.each_ref().map(|party| party.session(1, seed).unwrap());
        let deal = crate::sim::dealer::dealer(&study, RUN, |_, _| {});
        let ended = pair::run_dealt(&mut alice, &mut bob, Faults::NONE, |_, _: &Message| {}, deal);
        let [alice, bob] = ended.results.map(|result| result.unwrap().unwrap());
        assert_eq!(alice.coefficients, bob.coefficients);
        let finite = |value: Option<f64>| value.is_some_and(f64::is_finite);
        let counts = study.method.family == Family::Poisson;
        assert!(alice.coefficients.iter().all(|row| finite(row.estimate) && finite(row.std_error) != counts));
        assert!(alice.outlook.caution().is_some());
        // What opened says the same; of counts there is nothing to withhold.
        let caution = alice.caution.unwrap();
        assert_eq!((caution.inference_withheld, bob.caution.as_ref()), (!counts, Some(&caution)));
    }
}

/// Slopes and standard errors of a whole run of both sessions, a dealer and both ledgers over simulated rows.
fn session(study: &Arc<Study<Vertical>>, data: &DrawnRows, seed: u64) -> (DVector<f64>, Option<DVector<f64>>) {
    data.run(
        study,
        [Role::Alice, Role::Bob].map(|role| NoisePool::seeded(10_000 * (1 + seed) + u64::from(role == Role::Bob))),
    )
    .unwrap()
}

/// Median distance of the slopes from the pooled ones, relative to their length, over the given number of data sets, and what was
/// predicted.
fn errors(rows: usize, epsilon: f64, held_by: &str, seeds: u64) -> (f64, f64) {
    errors_of(Family::Binomial, rows, epsilon, held_by, seeds)
}

fn errors_of(family: Family, rows: usize, epsilon: f64, held_by: &str, seeds: u64) -> (f64, f64) {
    let study = DrawnRows::study(family, epsilon, held_by).unwrap();
    let error = |seed: u64| {
        let data = DrawnRows::draw(family, rows, 100 + seed).unwrap();
        data.error(&session(&study, &data, seed).0)
    };
    let mut measured: Vec<f64> = (0..seeds).map(error).collect();
    measured.sort_by(f64::total_cmp);
    let plan = study.private_plan(rows as u64).unwrap();
    (measured[measured.len() / 2], study.outlook(&plan).unwrap().relative_error)
}

/// 50 data sets of 10 000 rows by both sessions, with dealer and ledgers.
#[test]
#[ignore = "150 runs of 10 000 rows, a minute"]
fn errors_of_runs_are_those_that_were_asked_for_and_predicted() {
    for (epsilon, most) in [(1.0, 0.11), (3.0, 0.035), (10.0, 0.013)] {
        let (measured, predicted) = errors(10_000, epsilon, "both", 50);
        println!(
            "10000 rows, epsilon {epsilon}: median error {measured:.4}, predicted {predicted:.4}, asked for {most}"
        );
        assert!(measured <= most, "{epsilon}: {measured}");
        assert!((1.0 / 1.6..1.6).contains(&(predicted / measured)), "{epsilon}: {predicted} {measured}");
    }
}

/// The same where Alice alone holds the outcome, which the specification prints and for which it asks nothing.
#[test]
#[ignore = "150 runs of 10 000 rows, a minute"]
fn errors_of_runs_with_the_outcome_at_alice_are_those_that_were_predicted() {
    for (epsilon, most) in [(1.0, 0.15), (3.0, 0.05), (10.0, 0.016)] {
        let (measured, predicted) = errors(10_000, epsilon, "alice", 50);
        println!(
            "outcome at alice, 10000 rows, epsilon {epsilon}: median error {measured:.4}, predicted {predicted:.4}"
        );
        assert!(measured <= most, "{epsilon}: {measured}");
        assert!((1.0 / 1.6..1.6).contains(&(predicted / measured)), "{epsilon}: {predicted} {measured}");
    }
}

#[test]
#[ignore = "150 runs of 100 000 rows, ten minutes"]
fn errors_of_runs_of_many_rows_are_those_that_were_asked_for_and_predicted() {
    for (epsilon, most) in [(1.0, 0.010), (3.0, 0.004), (10.0, 0.0015)] {
        let (measured, predicted) = errors(100_000, epsilon, "both", 50);
        println!(
            "100000 rows, epsilon {epsilon}: median error {measured:.5}, predicted {predicted:.5}, asked for {most}"
        );
        assert!(measured <= most, "{epsilon}: {measured}");
        assert!((1.0 / 1.6..1.6).contains(&(predicted / measured)), "{epsilon}: {predicted} {measured}");
    }
}

/// 100 data sets of 10 slopes: the share has a standard deviation of about .008.
#[test]
#[ignore = "600 runs of 10 000 rows, four minutes"]
fn intervals_of_runs_cover_what_they_say() {
    for (held_by, epsilon) in ["both", "alice"].into_iter().flat_map(|held_by| [1.0, 3.0, 10.0].map(|of| (held_by, of)))
    {
        let study = DrawnRows::study(Family::Binomial, epsilon, held_by).unwrap();
        let covered = (0..100_u64).map(|seed| {
            let (slopes, errors) =
                session(&study, &DrawnRows::draw(Family::Binomial, 10_000, 5_000 + seed).unwrap(), seed);
            let errors = errors.unwrap();
            let within = |at: &usize| (slopes[*at] - SLOPES[*at]).abs() <= 1.959_964 * errors[*at];
            (0..10).filter(within).count()
        });
        let share = covered.sum::<usize>() as f64 / 1_000.0;
        println!("outcome at {held_by}, epsilon {epsilon}: coverage {share:.3}");
        assert!((0.92..0.97).contains(&share), "{held_by} {epsilon}: {share}");
    }
}

/// One run of few rows in the everyday tests, and the same prediction.
#[test]
fn a_run_of_simulated_rows_misses_by_about_what_is_predicted() {
    for (family, held_by) in
        [Family::Binomial, Family::Poisson].into_iter().flat_map(|of| ["both", "alice"].map(|by| (of, by)))
    {
        let (measured, predicted) = errors_of(family, 4_000, 10.0, held_by, 5);
        println!("{family}, {held_by}, 4000 rows, epsilon 10: median error {measured:.4}, predicted {predicted:.4}");
        assert!((0.5..2.0).contains(&(predicted / measured)), "{family} {held_by}: {predicted} {measured}");
    }
}

/// Within 30 % of the medians of numpy's simulation of what opens: `tests/vectors/make/private_counts.py`.
#[test]
#[ignore = "150 runs of 10 000 rows, a minute"]
fn errors_of_runs_of_counts_are_those_that_were_asked_for_and_predicted() {
    for (epsilon, oracle) in [(1.0, 0.1901), (3.0, 0.0700), (10.0, 0.0263)] {
        let (measured, predicted) = errors_of(Family::Poisson, 10_000, epsilon, "both", 50);
        println!(
            "10000 rows, epsilon {epsilon}: median error {measured:.4}, predicted {predicted:.4}, oracle {oracle}"
        );
        assert!(measured <= 1.3 * oracle, "{epsilon}: {measured}");
        assert!((1.0 / 1.6..1.6).contains(&(predicted / measured)), "{epsilon}: {predicted} {measured}");
    }
}

#[test]
#[ignore = "45 runs of 100 000 rows, some minutes"]
fn errors_of_runs_of_many_counts_are_those_that_were_asked_for_and_predicted() {
    for (epsilon, oracle) in [(1.0, 0.0191), (3.0, 0.0091), (10.0, 0.0064)] {
        let (measured, predicted) = errors_of(Family::Poisson, 100_000, epsilon, "both", 15);
        println!(
            "100000 rows, epsilon {epsilon}: median error {measured:.5}, predicted {predicted:.5}, oracle {oracle}"
        );
        assert!(measured <= 1.3 * oracle, "{epsilon}: {measured}");
        assert!((1.0 / 1.6..1.6).contains(&(predicted / measured)), "{epsilon}: {predicted} {measured}");
    }
}
