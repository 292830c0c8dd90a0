//! Penalised binomial and poisson fits by three simulated roles.

use super::glm::{BESIDE, BINOMIAL, POISSON, blames, joints, rows, spoiled};
use super::*;
use crate::methods::vertical::message::Joint;
use crate::secure::open::Limits;

const FAMILIES: [(&str, &str); 2] = [("binomial", BINOMIAL), ("poisson", POISSON)];

/// A study of five lambdas; `more` stands before the penalty.
fn several(family: &str, more: &str, alpha: f64) -> String {
    format!("{family}\n{more}\n[penalty]\nlambda = [0.3, 0.1, 0.03, 0.01, 0.003]\nalpha = {alpha:?}\n")
}

fn centred(name: &str, rows_of: usize, dependent: bool) -> Vec<[f64; 6]> {
    let mut values = rows(name, rows_of, dependent);
    values.iter_mut().for_each(|values| (values[0], values[2]) = (values[0] - 40.0, values[2] - 1e3));
    values
}

/// Whether two fits with a penalty say the same, to the digits of a sealed fit.
fn assert_near(sealed: &VerticalFit, plain: &VerticalFit) {
    let size = |fit: &VerticalFit| {
        fit.coefficients.iter().filter_map(|row| row.estimate).fold(1e-3_f64, |most, b| most.max(b.abs()))
    };
    assert_eq!(sealed.coefficients.len(), plain.coefficients.len());
    for (ours, theirs) in sealed.coefficients.iter().zip(&plain.coefficients) {
        assert_eq!((&ours.term, ours.party, ours.std_error), (&theirs.term, theirs.party, None));
        let (a, b) = (ours.estimate.unwrap(), theirs.estimate.unwrap());
        assert!((a - b).abs() <= 1e-7 * size(plain), "{} {a} {b}", ours.term);
    }
    let (a, b) = (&sealed.statistics, &plain.statistics);
    assert_eq!((a.nobs, a.df_residual, a.df_null, a.aic), (b.nobs, b.df_residual, b.df_null, b.aic));
    for (ours, theirs) in [(a.deviance, b.deviance), (a.null_deviance, b.null_deviance)] {
        let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
        assert!((ours - theirs).abs() <= 1e-7 * theirs.abs(), "{ours} {theirs}");
    }
    assert_eq!((sealed.termination, sealed.shown_lambda), (plain.termination, plain.shown_lambda));
    let points = |fit: &VerticalFit| fit.path.clone().unwrap_or_default();
    assert_eq!(points(sealed).len(), points(plain).len());
    for (ours, theirs) in points(sealed).iter().zip(&points(plain)) {
        assert_eq!((ours.lambda, ours.df), (theirs.lambda, theirs.df));
        assert!(
            (ours.deviance - theirs.deviance).abs() <= 1e-7 * theirs.deviance,
            "{} {}",
            ours.deviance,
            theirs.deviance
        );
    }
}

#[test]
fn a_penalised_fit_is_the_plain_fit_with_offsets_weights_and_without_an_intercept() {
    for (name, family) in FAMILIES {
        let values = centred(name, ROWS, false);
        for (at, more) in BESIDE.into_iter().chain(["", "[fit]\ncoefficients = \"own\""]).enumerate() {
            let more = several(family, more, [0.6, 1.0, 0.0][at % 3]);
            let fits = sealed(&study("sealed", &more), &values, Faults::NONE);
            for (sealed, plain) in fits.iter().zip(&plain(&values, &more)) {
                println!("{more}: {}", sealed.rounds);
                assert_near(sealed, plain);
                assert!(sealed.rounds <= 8 * 5, "{more}: {}", sealed.rounds);
            }
            assert!(!fits[0].trace.is_empty() && fits[1].trace.is_empty());
        }
    }
}

#[test]
fn columns_that_depend_across_the_parties_stay_in_a_ridge() {
    for (name, family) in FAMILIES {
        let (values, more) = (rows(name, ROWS, true), several(family, "", 0.0));
        for (sealed, plain) in sealed(&study("sealed", &more), &values, Faults::NONE).iter().zip(&plain(&values, &more))
        {
            assert_near(sealed, plain);
        }
    }
}

#[test]
fn the_outcome_may_stand_at_alice_alone() {
    for (name, family) in FAMILIES {
        let (values, more) = (rows(name, ROWS, false), several(family, "", 1.0));
        let both = study("sealed", &more);
        let mut alone = (*both).clone();
        alone.method.outcome.held_by = crate::study::HeldBy::One(Role::Alice);
        let [both, alone] = [both, Arc::new(alone)].map(|study| sealed(&study, &values, Faults::NONE));
        for (both, alone) in both.iter().zip(&alone) {
            assert_eq!((&both.coefficients, &both.path), (&alone.coefficients, &alone.path));
        }
        let known = alone[0].disclosure.columns.iter().find(|column| column.term == "y").unwrap();
        assert!(known.share > 0.0 && known.share < 1.0, "{known:?}");
    }
}

#[test]
fn a_penalty_that_leaves_nothing_opens_no_gradient() {
    for (name, family) in FAMILIES {
        let (values, more) = (rows(name, ROWS, false), format!("{family}\n[penalty]\nlambda = 50.0\n"));
        for fit in sealed(&study("sealed", &more), &values, Faults::NONE) {
            assert_eq!((fit.termination, fit.rounds), (Termination::Converged, 0));
            let slopes = fit.coefficients.iter().filter(|row| row.term != crate::fit::INTERCEPT);
            assert!(slopes.map(|row| row.estimate).all(|estimate| estimate == Some(0.0)));
            let (deviance, null) = (fit.statistics.deviance.unwrap(), fit.statistics.null_deviance.unwrap());
            assert!((deviance - null).abs() <= 1e-9 * null, "{deviance} {null}");
        }
    }
}

#[test]
fn a_lossy_line_gives_the_bits_of_a_clean_one() {
    for (name, family) in FAMILIES {
        let (values, study) = (rows(name, ROWS, false), study("sealed", &several(family, "", 0.6)));
        let text = |faults| format!("{:?}", sealed(&study, &values, faults));
        let clean = text(Faults::NONE);
        for seed in 0..2 {
            let faults = Faults { drop: 0.2, duplicate: 0.2, reorder: 0.0, seed };
            assert_eq!(text(faults), clean, "{name} seed {seed}");
        }
    }
}

/// A run in which the parties may open these shares of the unknown values, with what each recorded.
fn limited(
    study: &Arc<Study<Vertical>>,
    values: &[[f64; 6]],
    shares: [f64; 2],
) -> (Ended<VerticalFit>, [Vec<u64>; 2], bool) {
    let opened: [Arc<Mutex<Vec<u64>>>; 2] = Default::default();
    let start = |role: Role| {
        let at = usize::from(role == Role::Bob);
        let limits = Limits { opened_share: shares[at], ..Limits::default() };
        let policy = Policy { limits, ..Policy::default() };
        let account = Limited { opened: Arc::clone(&opened[at]) };
        SealedSession::new(prepared(study, role, values, &policy).unwrap(), opening(role), Box::new(account))
    };
    let mut masked = false;
    let observe = |_: usize, message: &Message| masked |= matches!(message.body, Body::Masked(_));
    let [mut alice, mut bob] = [start(Role::Alice), start(Role::Bob)];
    let ended = pair::run_dealt(&mut alice, &mut bob, Faults::NONE, observe, dealer(study, RUN, |_, _| {}));
    (ended, opened.map(|opened| opened.lock().unwrap().clone()), masked)
}

/// Records what opens within the limits.
struct Limited {
    opened: Arc<Mutex<Vec<u64>>>,
}

impl Account for Limited {
    fn may_open(&mut self, opens: &Opens<'_>) -> Result<(), NotOpened> {
        OneRun.may_open(opens)
    }

    fn open(&mut self, opens: &Opens<'_>) -> Result<(), NotOpened> {
        OneRun.open(opens)?;
        self.opened.lock().unwrap().push(opens.numbers);
        Ok(())
    }
}

#[test]
fn every_number_is_recorded_before_it_leaves_and_stands_in_the_list() {
    for (name, family) in FAMILIES {
        let values = centred(name, ROWS, false);
        for more in BESIDE.into_iter().chain([""]) {
            let study = study("sealed", &several(family, more, 1.0));
            let (ended, opened, _) = limited(&study, &values, [0.5; 2]);
            for (fit, opened) in fits(ended).iter().zip(&opened) {
                let listed: u64 = fit.disclosure.opened.iter().map(|opened| opened.numbers).sum();
                assert_eq!(opened.last(), Some(&listed), "{name} {more} {:?}", fit.disclosure.opened);
            }
        }
    }
    let [alice, bob] =
        sealed(&study("sealed", &several(BINOMIAL, "", 1.0)), &rows("binomial", ROWS, false), Faults::NONE);
    let numbers = |fit: &VerticalFit| fit.disclosure.opened.iter().map(|opened| opened.numbers).collect::<Vec<_>>();
    // Points with Bob's three coordinates and the intercept, ranges and digits; five fits of six numbers, and a share of each column.
    let rounds = u64::from(alice.rounds);
    assert_eq!(numbers(&alice), [4 * rounds, 2 * rounds, 5 * 6 + 3]);
    // The table, his factor with the units, gradients and ranges, a loss where points were needed, and parts of the intercepts.
    let reached = numbers(&bob)[4];
    assert_eq!(numbers(&bob), [9, 6 + 3, 6 * rounds, rounds, reached, 5]);
    assert!((3..=5).contains(&reached), "{reached}");
}

#[test]
fn a_path_beyond_what_may_open_is_refused_before_a_column_leaves_with_how_many_lambdas_fit() {
    let unknowns = 2.0 * ROWS as f64;
    // Alice: at each lambda four points of six numbers and her fit of six, at last three shares. Bob: 18 of table and factor, at each lambda
    // four gradients of seven, a loss and a part of the intercept, at last one.
    let needed = [5.0 * (24.0 + 6.0) + 3.0, 18.0 + 5.0 * (28.0 + 2.0) + 1.0];
    let values = rows("binomial", ROWS, false);
    let study = study("sealed", &several(BINOMIAL, "", 1.0));
    let share = |numbers: f64| (numbers + 0.5) / unknowns;
    for (shares, who) in [([share(needed[0] - 1.0), 0.5], Role::Alice), ([0.5, share(needed[1] - 1.0)], Role::Bob)] {
        let (ended, opened, masked) = limited(&study, &values, shares);
        let abort = abort(ended);
        assert_eq!(abort.exit(), Exit::Refused, "{abort}");
        assert!(matches!(&abort, Abort::Policy { who: whose, .. } if *whose == who), "{abort}");
        let sentence = "; 4 of the 5 lambdas fit here, and fewer may at the other party: shorten the path, leave columns out, or loosen `sealed_opened_share`";
        assert!(abort.to_string().contains(sentence), "{abort}");
        assert!(!masked && opened.iter().all(Vec::is_empty));
    }
    let (ended, ..) = limited(&study, &values, needed.map(share));
    for fit in fits(ended) {
        assert!(fit.rounds <= 20, "{}", fit.rounds);
    }
}

#[test]
fn a_path_that_needs_more_gradients_than_may_open_keeps_the_lambdas_that_it_has_reached() {
    let unknowns = 2.0 * ROWS as f64;
    let (values, more) = (centred("binomial", ROWS, false), several(BINOMIAL, "intercept = false", 0.6));
    let study = study("sealed", &more);
    let complete = sealed(&study, &values, Faults::NONE);
    assert!(complete[0].rounds > 20, "{}", complete[0].rounds);
    // Room for 20 gradients of five numbers at Bob, with the sum of the losses at each lambda.
    let needed = [5.0 * (24.0 + 6.0) + 3.0, 18.0 + 5.0 * (24.0 + 2.0) + 1.0];
    let share = |numbers: f64| (numbers + 0.5) / unknowns;
    for (shares, who) in [([share(needed[0]), 0.5], "alice"), ([0.5, share(needed[1])], "bob")] {
        let (ended, opened, _) = limited(&study, &values, shares);
        for ((fit, opened), complete) in fits(ended).iter().zip(&opened).zip(&complete) {
            assert_eq!((fit.termination, fit.rounds), (Termination::OpeningLimit, 20));
            assert_eq!(fit.termination.exit(), Exit::NotConverged);
            let note = |part: &str| fit.notes.iter().any(|note| note.contains(part));
            let limit = format!("20 gradients have opened, and the limits of {who} on what may open");
            assert!(note(&limit), "{:?}", fit.notes);
            let (reached, all) = (fit.path.as_ref().unwrap(), complete.path.as_ref().unwrap());
            assert!((2..5).contains(&reached.len()));
            assert!(note(&format!("{} of 5 lambdas were reached", reached.len())), "{:?}", fit.notes);
            assert_eq!(reached[..], all[..reached.len()]);
            assert_eq!(fit.shown_lambda, reached.last().map(|point| point.lambda));
            // A party's path holds its own columns.
            for of_path in &reached[reached.len() - 1].coefficients {
                let row = fit.coefficients.iter().find(|row| row.term == of_path.term).unwrap();
                assert_eq!(row.estimate, of_path.estimate, "{}", row.term);
            }
            let listed: u64 = fit.disclosure.opened.iter().map(|opened| opened.numbers).sum();
            assert_eq!(opened.last(), Some(&listed), "{:?}", fit.disclosure.opened);
        }
    }
    // One lambda alone: the estimates are those of the last point.
    let (study, values) =
        (super::study("sealed", &format!("{POISSON}\n[penalty]\nlambda = 0.000001\n")), rows("poisson", ROWS, false));
    let (ended, ..) = limited(&study, &values, [0.5, share(18.0 + 28.0 + 1.0 + 1.0)]);
    for fit in fits(ended) {
        assert_eq!((fit.termination, fit.rounds, fit.statistics.deviance), (Termination::OpeningLimit, 4, None));
        assert!(fit.coefficients.iter().all(|row| row.estimate.is_some_and(f64::is_finite)));
        assert!(fit.certificate > 1e-8, "{}", fit.certificate);
    }
}

#[test]
fn a_sum_that_is_asked_for_twice_or_before_a_gradient_is_refused() {
    let more = several(BINOMIAL, "", 1.0);
    // The end of the first lambda, said in place of every end after it; in place of the first point, of which no gradient has opened.
    let mut said = 0;
    let again = |message: &mut Message| {
        if let Body::Joint(Joint { what, values }) = &mut message.body
            && *what == JointKind::Point
            && said == 1
        {
            (*what, *values) = (JointKind::End, vec![5.0]);
        } else if matches!(&message.body, Body::Joint(Joint { what: JointKind::End, .. })) {
            said = 1;
        }
    };
    blames(spoiled(&more, "binomial", Role::Alice, again, |_, _| {}), "one of the ends");
    let first = |message: &mut Message| {
        if let Body::Joint(joint) = &mut message.body
            && joint.what == JointKind::Point
        {
            *joint = Joint { what: JointKind::End, values: vec![5.0] };
        }
    };
    blames(spoiled(&more, "binomial", Role::Alice, first, |_, _| {}), "one of the ends");
    // There is none without a penalty, and none of a poisson fit whose gradients show it.
    for (name, family) in [("binomial", BINOMIAL.to_string()), ("poisson", several(POISSON, "", 1.0))] {
        let ends = joints(JointKind::End, |values| values[0] = 5.0);
        blames(spoiled(&family, name, Role::Alice, ends, |_, _| {}), "one of the ends");
    }
}

#[test]
fn a_path_that_cannot_be_ends_the_run() {
    let more = several(BINOMIAL, "", 1.0);
    let liar = |change: &mut dyn FnMut(&mut Vec<f64>)| {
        spoiled(&more, "binomial", Role::Alice, joints(JointKind::Path, change), |_, _| {})
    };
    // A deviance that is not known, or negative, although the fit has converged; fewer lambdas; another lambda.
    for (at, value) in [(1, -1.0), (1, -2.0), (0, 0.4), (2, f64::NAN)] {
        blames(liar(&mut |values| values[at] = value), "a path");
    }
    blames(liar(&mut |values| drop(values.drain(0..6))), "a path");
}
