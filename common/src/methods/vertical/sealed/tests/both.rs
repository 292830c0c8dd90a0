//! Fits in which what opens to Alice opens to Bob too.

use std::sync::Arc;

use super::super::*;
use super::glm::{BINOMIAL, POISSON, Spoiled, blames, joints, rows};
use super::{ROWS, RUN, abort, fits, opening, prepared, recorded, sealed, sealed_with, study, values};
use crate::exit::Exit;
use crate::id::Role;
use crate::methods::vertical::message::{Body, JointKind, Message, Product, ProductKind, Share};
use crate::methods::vertical::outcome::VerticalFit;
use crate::methods::vertical::prepare::Policy;
use crate::privacy::ledger::Before;
use crate::privacy::openings::OneRun;
use crate::secure::open::Limits;
use crate::secure::ring::{Elements, Width};
use crate::sim::dealer::dealer;
use crate::sim::pair::{self, Ended, Faults};
use crate::study::{HeldBy, Study, Vertical};

const BOTH: &str = "[sealed]\nopens = \"both\"\n";
const PATH: &str = "[penalty]\nlambda = [1.0, 0.1, 0.01]\nalpha = 0.5\n";

fn both(more: &str) -> Arc<Study<Vertical>> {
    study("sealed", &format!("{BOTH}{more}"))
}

#[test]
fn a_table_that_opens_to_both_changes_no_digit_of_the_fit() {
    for (more, dependent) in [("", false), ("", true), (PATH, false), ("[fit]\ncoefficients = \"own\"\n", false)] {
        let values = values(ROWS, dependent);
        let alone = sealed(&study("sealed", more), &values, Faults::NONE);
        for (ours, theirs) in sealed(&both(more), &values, Faults::NONE).iter().zip(&alone) {
            assert_eq!((&ours.coefficients, &ours.statistics), (&theirs.coefficients, &theirs.statistics), "{more}");
            assert_eq!((&ours.path, ours.termination), (&theirs.path, theirs.termination));
            assert!(ours.notes.iter().any(|note| note.contains("opens to both")), "{:?}", ours.notes);
        }
    }
}

/// Studies of both other families with their tables, some of which have columns that depend on each other.
fn others() -> impl Iterator<Item = (String, Vec<[f64; 6]>)> {
    let beside = [
        ("", false),
        ("", true),
        (PATH, false),
        ("[inference]\nallowed = false\n", false),
        ("[fit]\ncoefficients = \"own\"\n", false),
    ];
    [("binomial", BINOMIAL), ("poisson", POISSON)].into_iter().flat_map(move |(name, family)| {
        beside.into_iter().map(move |(more, dependent)| (format!("{family}\n{more}"), rows(name, ROWS, dependent)))
    })
}

#[test]
fn gradients_and_tables_that_open_to_both_change_no_digit_of_the_fit() {
    for (more, values) in others() {
        let alone = sealed(&study("sealed", &more), &values, Faults::NONE);
        for (ours, theirs) in sealed(&both(&more), &values, Faults::NONE).iter().zip(&alone) {
            assert_eq!((&ours.coefficients, &ours.statistics), (&theirs.coefficients, &theirs.statistics), "{more}");
            assert_eq!((&ours.path, ours.termination, ours.rounds), (&theirs.path, theirs.termination, theirs.rounds));
            assert!(ours.notes.iter().any(|note| note.contains("gradients open to both")), "{:?}", ours.notes);
        }
    }
}

#[test]
fn whatever_opens_to_alice_opens_to_bob_and_is_counted_and_listed_where_it_leaves() {
    for (more, values) in others() {
        let study = both(&more);
        // The kinds of shares by product, the canaries of which stand with Bob's alone.
        let mut shares: Vec<(usize, u32, usize)> = Vec::new();
        let observe = |side: usize, message: &Message| {
            if let Body::Product(Product { number, what: ProductKind::Shares, entries, .. }) = &message.body {
                shares.push((side, *number, entries.count()));
            }
        };
        let run = recorded(&study, &values, observe);
        assert!(shares.len() >= 6 && shares.len().is_multiple_of(2), "{more} {shares:?}");
        for pair in shares.chunks(2) {
            let [(1, number, of_bob), (0, again, of_alice)] = *pair else { panic!("{more}: {shares:?}") };
            assert!(number == again && of_alice > 0 && of_alice < of_bob, "{more}: {shares:?}");
        }
        for (fit, opened) in &run {
            let listed: u64 = fit.disclosure.opened.iter().map(|opened| opened.numbers).sum();
            assert_eq!(*opened, listed, "{more} {:?}", fit.disclosure.opened);
        }
        let [(at_alice, _), (at_bob, _)] = run;
        // Tables, gradients and sums are the same on both lists, each with the other party as the one to whom they open.
        let what = ["cross-products of both blocks", "gradients", "weighted cross-products", "the sum of the losses"];
        for what in what {
            let numbers = |fit: &VerticalFit| {
                let of = fit.disclosure.opened.iter().find(|opened| opened.what == what);
                of.map(|opened| (opened.numbers, opened.to == fit.model.role))
            };
            assert_eq!(numbers(&at_alice), numbers(&at_bob), "{more} {what}");
        }
        assert!(at_alice.disclosure.columns.iter().any(|column| column.term == "a2"), "{more}");
    }
}

#[test]
fn what_does_not_follow_from_gradients_and_tables_ends_the_run_at_bob() {
    let follows = "follows from the tables";
    let spoilt = |more: &str, kind, spoil: &mut dyn FnMut(&mut Vec<f64>)| {
        lie_of(&both(&format!("{BINOMIAL}\n{more}")), &rows("binomial", ROWS, false), joints(kind, spoil))
    };
    // Two marks, three coordinates, what is held of the columns, the covariance.
    blames(spoilt("", JointKind::Answer, &mut |values| values[2] *= 1.0001), follows);
    blames(spoilt("", JointKind::Answer, &mut |values| values[5] += 0.0001), follows);
    blames(spoilt("", JointKind::Answer, &mut |values| values[14] *= 1.0001), follows);
    let no_errors = "[inference]\nallowed = false\n";
    blames(spoilt(no_errors, JointKind::Answer, &mut |values| values[2] += 0.01), follows);
    blames(spoilt(PATH, JointKind::Path, &mut |values| *values.last_mut().unwrap() *= 0.999), follows);
    // Of folds that it is below that of all rows.
    let mut lower = joints(JointKind::Path, |values| *values.last_mut().unwrap() = 0.0);
    blames(lie_of(&both(&format!("{PATH}cv = 4\n")), &values(ROWS, false), &mut lower), follows);
    // A share of a gradient by which other numbers open, and one of another size.
    let shares = |change: fn(&mut Elements)| {
        lie_of(&both(BINOMIAL), &rows("binomial", ROWS, false), move |message: &mut Message| {
            if let Body::Product(Product { what: ProductKind::Shares, entries, .. }) = &mut message.body {
                change(entries);
            }
        })
    };
    let off = |entries: &mut Elements| {
        entries.add(&Elements::from_integers(Width::Two, &vec![1 << 120; entries.count()])).unwrap();
    };
    blames(shares(off), "");
    blames(shares(|entries| *entries = entries.slice(1..entries.count())), "");
}

#[test]
fn alices_own_limit_counts_gradients_that_open_to_bob() {
    let values = rows("binomial", ROWS, false);
    // A point 6, Bob's coordinates 3, what is held of his columns 9, their covariance 12; to both the table 9, a gradient 6, the weighted
    // table 21, the losses 1.
    let refused = |study: &Arc<Study<Vertical>>, numbers: f64| {
        let limits = Limits { opened_share: (numbers + 0.5) / (2.0 * ROWS as f64), ..Limits::default() };
        let policy = Policy { limits, ..Policy::default() };
        allowed(&prepared(study, Role::Alice, &values, &policy).unwrap(), &[3], Before::default()).is_err()
    };
    assert_eq!([29.0, 30.0].map(|numbers| refused(&study("sealed", BINOMIAL), numbers)), [true, false]);
    assert_eq!([66.0, 67.0].map(|numbers| refused(&both(BINOMIAL), numbers)), [true, false]);
}

#[test]
fn each_share_opens_to_the_other_and_is_counted_and_listed_where_it_leaves() {
    let folds = format!("{PATH}cv = 4\n");
    let (one, of_folds) = ("cross-products of both blocks", "cross-products of both blocks, of each fold");
    for (more, dependent, tables, what) in
        [("", false, 1, one), ("", true, 1, one), (PATH, false, 1, one), (&folds, false, 4, of_folds)]
    {
        let mut shares = Vec::new();
        let observe = |side: usize, message: &Message| {
            if let Body::Share(Share { table: Some(table), .. }) = &message.body {
                shares.push((side, table.count()));
            }
        };
        let run = recorded(&both(more), &values(ROWS, dependent), observe);
        // Bob's first, so that Alice has opened the table by the time she sends hers.
        assert_eq!(shares, [(1, 9), (0, 9)].repeat(tables), "{more}");
        for (fit, opened) in run {
            let listed: u64 = fit.disclosure.opened.iter().map(|opened| opened.numbers).sum();
            assert_eq!(opened, listed, "{more} {:?}", fit.disclosure.opened);
            let table = fit.disclosure.opened.iter().find(|opened| opened.what == what);
            let numbers = table.map(|table| (table.numbers, table.to == fit.model.role));
            assert_eq!(numbers, Some((9 * tables as u64, false)), "{more}");
            let says = if tables > 1 { "the table of each fold opens to both" } else { "the table opens to both" };
            assert!(fit.notes.iter().any(|note| note.contains(says)), "{:?}", fit.notes);
        }
    }
}

#[test]
fn alices_own_limit_counts_the_table_that_opens_to_bob() {
    let values = values(ROWS, false);
    // Bob's part of the solution is 3 + 9 + 3 + 2 numbers, the table 9.
    let share = |numbers: f64| Policy {
        limits: Limits { opened_share: (numbers + 0.5) / (2.0 * ROWS as f64), ..Limits::default() },
        ..Policy::default()
    };
    let refused = |study: &Arc<Study<Vertical>>, numbers: f64| {
        let table = prepared(study, Role::Alice, &values, &share(numbers)).unwrap();
        allowed(&table, &[3], Before::default()).is_err()
    };
    assert_eq!([16.0, 17.0].map(|numbers| refused(&study("sealed", ""), numbers)), [true, false]);
    assert_eq!([25.0, 26.0].map(|numbers| refused(&both(""), numbers)), [true, false]);
}

#[test]
fn what_bob_could_predict_of_alices_columns_is_in_her_account() {
    let values = values(ROWS, false);
    for (held_by, known) in [(HeldBy::Both, 4), (HeldBy::One(Role::Alice), 3)] {
        let mut study = (*both("")).clone();
        study.method.outcome.held_by = held_by;
        let [at_alice, _] = sealed(&Arc::new(study), &values, Faults::NONE);
        // Least squares on b1, b2 and b3, and on y where Bob holds it, with an intercept.
        let design = nalgebra::DMatrix::from_fn(ROWS, 1 + known, |row, j| match j {
            0 => 1.0,
            j => values[row][[2, 3, 4, 5][j - 1]],
        });
        let explained = |at: usize| {
            let column = nalgebra::DVector::from_fn(ROWS, |row, _| values[row][at]);
            let solved = (design.tr_mul(&design)).cholesky().unwrap().solve(&design.tr_mul(&column));
            1.0 - (&column - &design * solved).norm_squared() / column.add_scalar(-column.mean()).norm_squared()
        };
        let terms: &[(&str, usize)] = match held_by {
            HeldBy::Both | HeldBy::All => &[("a1", 0), ("a2", 1)],
            HeldBy::One(_) => &[("a1", 0), ("a2", 1), ("y", 5)],
        };
        assert_eq!(at_alice.disclosure.columns.len(), terms.len());
        for ((term, at), metered) in terms.iter().zip(&at_alice.disclosure.columns) {
            assert_eq!(*term, metered.term);
            assert!((metered.share - explained(*at)).abs() < 1e-6, "{term} {} {}", metered.share, explained(*at));
        }
    }
}

/// A run in which Alice says something else than what follows.
fn lie(more: &str, dependent: bool, spoil: impl FnMut(&mut Message)) -> Ended<VerticalFit> {
    lie_of(&both(more), &values(ROWS, dependent), spoil)
}

fn lie_of(study: &Arc<Study<Vertical>>, values: &[[f64; 6]], spoil: impl FnMut(&mut Message)) -> Ended<VerticalFit> {
    let start = |role| {
        SealedSession::new(prepared(study, role, values, &Policy::default()).unwrap(), opening(role), Box::new(OneRun))
    };
    let mut alice = Spoiled { inner: start(Role::Alice), spoil };
    pair::run_dealt(&mut alice, &mut start(Role::Bob), Faults::NONE, |_, _| {}, dealer(study, RUN, |_, _| {}))
}

#[test]
fn what_does_not_follow_from_the_table_ends_the_run_at_bob() {
    let caught = |ended: Ended<VerticalFit>| {
        let abort = abort(ended);
        assert_eq!(abort.exit(), Exit::Peer, "{abort}");
        assert!(abort.to_string().contains("follows from the table"), "{abort}");
    };
    // A coefficient, a variance, what is left of a column, and a share of one.
    caught(lie("", false, joints(JointKind::Answer, |values| values[0] *= 1.001)));
    caught(lie("", false, joints(JointKind::Answer, |values| values[3] += 0.001)));
    caught(lie("", true, joints(JointKind::LeftOver, |values| values[4] += 0.001)));
    caught(lie(
        PATH,
        false,
        joints(JointKind::Path, |values| {
            let last = values.len() - 1;
            values[last] *= 0.999;
        }),
    ));
    // A share of the table by which other numbers open.
    caught(lie("", false, |message: &mut Message| {
        if let Body::Share(Share { table: Some(table), .. }) = &mut message.body {
            let mut other = Elements::from_integers(Width::Two, &[1 << 90; 9]);
            other.add(table).unwrap();
            *table = other;
        }
    }));
}

#[test]
fn a_lossy_line_gives_the_bits_of_a_clean_one_where_the_table_opens_to_both() {
    let one = std::iter::once((String::new(), values(ROWS, true)));
    for (more, values) in one.chain(others().take(1)) {
        let study = both(&more);
        let text = |faults| format!("{:?}", fits(sealed_with(&study, &values, faults, |_, _| {}, |_, _| {})));
        let clean = text(Faults::NONE);
        for seed in 0..4 {
            let faults = Faults { drop: 0.2, duplicate: 0.2, reorder: 0.0, seed };
            assert_eq!(text(faults), clean, "{more} seed {seed}");
        }
    }
}
