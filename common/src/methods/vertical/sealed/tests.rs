//! Gaussian fits by three simulated roles.

mod along;
mod both;
mod bytes;
mod folds;
mod glm;
mod limits;
mod names;
mod range;
mod refit;
mod shapes;
mod transcript;

use std::sync::{Arc, Mutex};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::conversation::Opening;
use crate::data::{ColumnBuilder, Frame, Place, Places};
use crate::exit::Exit;
use crate::fit::Termination;
use crate::id::{Role, RunId};
use crate::methods::vertical::message::{Body, Dealt, JointKind, Message};
use crate::methods::vertical::outcome::VerticalFit;
use crate::methods::vertical::prepare::{Policy, Prepared};
use crate::methods::vertical::session::VerticalSession;
use crate::privacy::ledger::Before;
use crate::privacy::openings::{Account, NotOpened, OneRun, Opens};
use crate::secure::open::Refusal;
use crate::session::Abort;
use crate::sim::dealer::dealer;
use crate::sim::pair::{self, Ended, Faults};
use crate::study::tests::vertical;
use crate::study::{Study, Vertical};

pub(super) const RUN: RunId = RunId([9; 16]);
/// More than two row blocks.
pub(super) const ROWS: usize = 4500;

pub(super) fn study(mode: &str, more: &str) -> Arc<Study<Vertical>> {
    Arc::new(vertical(&format!(
        "id = \"s\"\nmode = \"{mode}\"\n[outcome]\ncolumn = \"y\"\n[parties.alice]\ncertificate = \"alice\"\ncolumns = [\"a1\", \
         \"a2\"]\n[parties.bob]\ncertificate = \"bob\"\ncolumns = [\"b1\", \"b2\", \"b3\"]\n{more}"
    )))
}

/// Columns a1, a2, b1, b2, b3 and y. Where `dependent`, b2 = 2 a1 - b1.
pub(super) fn values(rows: usize, dependent: bool) -> Vec<[f64; 6]> {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    (0..rows)
        .map(|_| {
            let mut part = || rng.random_range(-1.0..1.0);
            let (a1, a2, b1) = (40.0 + 5.0 * part(), part(), 1e3 + part());
            let b2 = if dependent { 2.0 * a1 - b1 } else { part() + 0.2 * a1 };
            let b3 = f64::from(part() > 0.2);
            [a1, a2, b1, b2, b3, 0.4 * a1 - 9.0 * a2 + 1.5 * b1 + 2.0 * b2 + 6.0 * b3 + part()]
        })
        .collect()
}

pub(super) fn frame(role: Role, values: &[[f64; 6]]) -> Frame {
    let mut places = Places::default();
    (1..=values.len()).for_each(|row| places.push(Place::Row(row as u64)));
    let names: &[(usize, &str)] = match role {
        Role::Alice => &[(0, "a1"), (1, "a2"), (5, "y")],
        _ => &[(2, "b1"), (3, "b2"), (4, "b3"), (5, "y")],
    };
    let column = |name: &str, of: &dyn Fn(usize, &[f64; 6]) -> f64| {
        let mut builder = ColumnBuilder::new(name);
        for (row, values) in values.iter().enumerate() {
            builder.number(of(row, values), Place::Row(row as u64 + 1)).unwrap();
        }
        builder.finish().unwrap()
    };
    let mut columns: Vec<_> = names.iter().map(|(at, name)| column(name, &|_, values| values[*at])).collect();
    // At both: weights of which some are zero and some no whole numbers, and an offset.
    columns.push(column("w", &|row, _| (row % 5) as f64 * if row % 2 == 0 { 1.0 } else { 0.6 }));
    columns.push(column("o", &|row, values| 0.4 * (row as f64).cos() + 0.3 * values[1] + 0.5));
    Frame::new(columns, None, places).unwrap()
}

pub(super) fn opening(role: Role) -> Opening {
    Opening { first: role == Role::Bob, run: RUN, seed: [1 + u8::from(role == Role::Bob); 32], peer: role.partner() }
}

pub(super) fn prepared(
    study: &Arc<Study<Vertical>>,
    role: Role,
    values: &[[f64; 6]],
    policy: &Policy,
) -> Result<Prepared, Abort> {
    Prepared::new(Arc::clone(study), role, policy.clone(), frame(role, values))
}

pub(super) fn sealed_with(
    study: &Arc<Study<Vertical>>,
    values: &[[f64; 6]],
    faults: Faults,
    observe: impl FnMut(usize, &Message),
    spoil: impl FnMut(usize, &mut Dealt),
) -> Ended<VerticalFit> {
    let start = |role| {
        SealedSession::new(prepared(study, role, values, &Policy::default()).unwrap(), opening(role), Box::new(OneRun))
    };
    pair::run_dealt(&mut start(Role::Alice), &mut start(Role::Bob), faults, observe, dealer(study, RUN, spoil))
}

pub(super) fn sealed(study: &Arc<Study<Vertical>>, values: &[[f64; 6]], faults: Faults) -> [VerticalFit; 2] {
    fits(sealed_with(study, values, faults, |_, _| {}, |_, _| {}))
}

pub(super) fn plain(values: &[[f64; 6]], more: &str) -> [VerticalFit; 2] {
    let study = study("plain", more);
    let start = |role| VerticalSession::new(prepared(&study, role, values, &Policy::default()).unwrap(), opening(role));
    fits(pair::run(&mut start(Role::Alice), &mut start(Role::Bob), Faults::NONE, |_, _| {}))
}

#[track_caller]
pub(super) fn fits(ended: Ended<VerticalFit>) -> [VerticalFit; 2] {
    ended.results.map(|result| result.unwrap().unwrap())
}

#[track_caller]
pub(super) fn abort(ended: Ended<VerticalFit>) -> Abort {
    ended.results.into_iter().flatten().find_map(Result::err).unwrap()
}

/// Whether two fits say the same, to rounding.
fn assert_same(sealed: &VerticalFit, plain: &VerticalFit) {
    assert_eq!(sealed.coefficients.len(), plain.coefficients.len());
    for (ours, theirs) in sealed.coefficients.iter().zip(&plain.coefficients) {
        assert_eq!((&ours.term, ours.party), (&theirs.term, theirs.party));
        let numbers =
            [(ours.estimate, theirs.estimate), (ours.std_error, theirs.std_error), (ours.p_value, theirs.p_value)];
        for (ours_is, theirs_is) in numbers {
            match (ours_is, theirs_is) {
                (Some(a), Some(b)) => assert!((a - b).abs() <= 1e-8 * b.abs().max(1e-12), "{} {a} {b}", ours.term),
                (a, b) => assert_eq!(a.is_some(), b.is_some(), "{}", ours.term),
            }
        }
    }
    let (a, b) = (&sealed.statistics, &plain.statistics);
    assert_eq!((a.nobs, a.df_residual, a.df_null), (b.nobs, b.df_residual, b.df_null));
    let pairs = [
        (a.deviance, b.deviance),
        (a.null_deviance, b.null_deviance),
        (a.aic, b.aic),
        (a.bic, b.bic),
        (a.log_lik, b.log_lik),
    ];
    for (ours, theirs) in pairs.into_iter().chain([(a.dispersion, b.dispersion), (a.r_squared, b.r_squared)]) {
        let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
        assert!((ours - theirs).abs() <= 1e-8 * theirs.abs(), "{ours} {theirs}");
    }
    assert_eq!(sealed.termination, plain.termination);
}

#[test]
fn a_sealed_fit_is_the_plain_fit() {
    let values = values(ROWS, false);
    for more in ["", "[model]\nintercept = false", "[fit]\ncoefficients = \"own\"", "[inference]\nallowed = false"] {
        let fits = sealed(&study("sealed", more), &values, Faults::NONE);
        for (sealed, plain) in fits.iter().zip(&plain(&values, more)) {
            assert_same(sealed, plain);
            assert_eq!(sealed.rounds, 1);
        }
    }
}

#[test]
fn the_outcome_may_stand_at_alice_alone() {
    let values = values(ROWS, false);
    let both = sealed(&study("sealed", ""), &values, Faults::NONE);
    let text = |mode: &str| {
        format!(
            "id = \"s\"\nmode = \"{mode}\"\n[outcome]\ncolumn = \"y\"\nheld_by = \"alice\"\n[parties.alice]\ncertificate = \
             \"alice\"\ncolumns = [\"a1\", \"a2\"]\n[parties.bob]\ncertificate = \"bob\"\ncolumns = [\"b1\", \"b2\", \"b3\"]\n"
        )
    };
    let alone = sealed(&Arc::new(vertical(&text("sealed"))), &values, Faults::NONE);
    for (both, alone) in both.iter().zip(&alone) {
        assert_eq!(both.coefficients, alone.coefficients);
    }
    let [at_alice, _] = &alone;
    assert_eq!(at_alice.disclosure.columns[0].term, "y");
}

#[test]
fn columns_that_depend_across_the_parties_are_named() {
    let values = values(ROWS, true);
    let fits = sealed(&study("sealed", ""), &values, Faults::NONE);
    for (sealed, plain) in fits.iter().zip(&plain(&values, "")) {
        assert_same(sealed, plain);
        assert_eq!(sealed.termination, Termination::CollinearAcrossParties);
        let missing: Vec<&str> =
            sealed.coefficients.iter().filter(|row| row.estimate.is_none()).map(|row| row.term.as_str()).collect();
        assert_eq!(missing, ["b2"]);
    }
    assert!(fits[1].notes.iter().any(|note| note.contains("`b2` not estimated")), "{:?}", fits[1].notes);
}

#[test]
fn estimates_of_columns_that_nearly_depend_across_the_parties_say_how_many_digits_they_have() {
    let says = |fit: &VerticalFit| fit.notes.iter().find(|note| note.starts_with("digits:")).cloned();
    for difference in [1.0, 0.1, 1e-2, 1e-3, 1e-4] {
        let mut values = values(ROWS, false);
        for (at, row) in values.iter_mut().enumerate() {
            // b2 is a1 but for something that no other column knows.
            row[3] = row[0] + difference * (row[2] - 1e3);
            row[2] = (at as f64).sin();
        }
        let fits = sealed(&study("sealed", ""), &values, Faults::NONE);
        let exact = plain(&values, "[fit]\ntol = 1e-13\n");
        let estimate = |fits: &[VerticalFit; 2], name: &str| {
            fits[0].coefficients.iter().find(|row| row.term == name).unwrap().estimate.unwrap()
        };
        let off = |name: &str| (estimate(&fits, name) / estimate(&exact, name) - 1.0).abs();
        let most = off("a1").max(off("b2"));
        println!("{difference}: {most:e} {:?}", fits.each_ref().map(says));
        for (fit, name) in fits.iter().zip(["a1", "b2"]) {
            match says(fit) {
                None => assert!(difference >= 1e-2 && off(name) < 1e-9, "{difference}: {most}"),
                Some(note) => {
                    let stated = note.split("relative ").nth(1).and_then(|rest| rest.split(';').next());
                    let stated: f64 = stated.unwrap().parse().unwrap();
                    assert!(
                        difference < 0.1 && most < 5.0 * stated && note.contains(&format!("`{name}`")),
                        "{most} {note}"
                    );
                    // The last digit of the others is lost where nearly all digits of these are.
                    let others = note.contains("`a2`") || note.contains("`b3`");
                    assert!(difference < 1e-3 || !others, "{note}");
                    let of = |what: &str| -> f64 {
                        let rest = note.split(what).nth(1).unwrap_or_else(|| panic!("{note}"));
                        rest.split([',', ';']).next().unwrap().parse().unwrap()
                    };
                    let deviances = [&fits[0], &exact[0]].map(|fit| fit.statistics.deviance.unwrap());
                    let off = (deviances[0] / deviances[1] - 1.0).abs();
                    assert!(off < 5.0 * of("deviance and dispersion are right to about a relative "), "{off} {note}");
                    for (ours, theirs) in fit.coefficients.iter().zip(&exact[usize::from(name == "b2")].coefficients) {
                        let (Some(ours), Some(theirs)) = (ours.std_error, theirs.std_error) else { continue };
                        let off = (ours / theirs - 1.0).abs();
                        assert!(off < 5.0 * of("standard errors to "), "{off} {note}");
                    }
                }
            }
        }
    }
}

#[test]
fn what_columns_leave_of_an_outcome_that_they_explain_says_how_many_digits_it_has() {
    for (left, exact) in [(1e-2, true), (1e-5, false), (1e-6, false), (0.0, false)] {
        let mut values = values(ROWS, false);
        for (at, row) in values.iter_mut().enumerate() {
            row[5] =
                0.4 * row[0] - 9.0 * row[1] + 1.5 * row[2] + 2.0 * row[3] + 6.0 * row[4] + left * (at as f64).sin();
        }
        let [sealed, _] = sealed(&study("sealed", ""), &values, Faults::NONE);
        let [plain, _] = plain(&values, "[fit]\ntol = 1e-13\n");
        let off = (sealed.statistics.deviance.unwrap() / plain.statistics.deviance.unwrap() - 1.0).abs();
        println!("{left}: {off:e} {:?}", sealed.notes);
        let said = sealed.notes.iter().find(|note| note.contains("share of") || note.contains("made of rounding"));
        match said {
            None => assert!(exact && off < 1e-9, "{left} {off}"),
            Some(note) if left == 0.0 => assert!(note.starts_with("the columns fit the outcome perfectly"), "{note}"),
            Some(note) => {
                let stated = note.split("relative ").nth(1).and_then(|rest| rest.split(';').next()).unwrap();
                assert!(!exact && off < 10.0 * stated.parse::<f64>().unwrap(), "{off} {note}");
            }
        }
    }
}

#[test]
fn a_lossy_line_gives_the_bits_of_a_clean_one() {
    let values = values(ROWS, true);
    let study = study("sealed", "");
    // As text: what is not a number has no equal.
    let text = |faults| format!("{:?}", sealed(&study, &values, faults));
    let clean = text(Faults::NONE);
    for seed in 0..8 {
        let faults = Faults { drop: 0.2, duplicate: 0.2, reorder: 0.0, seed };
        assert_eq!(text(faults), clean, "seed {seed}");
    }
}

#[test]
fn what_each_party_could_be_shown_of_its_columns_is_in_the_account() {
    let values = values(ROWS, false);
    let [at_alice, at_bob] = sealed(&study("sealed", ""), &values, Faults::NONE);
    // Both hold the outcome, and Bob learns no cross-products: there is nothing of Alice to predict.
    assert!(at_alice.disclosure.columns.is_empty());
    let shares: Vec<(&str, f64)> =
        at_bob.disclosure.columns.iter().map(|column| (column.term.as_str(), column.share)).collect();
    // Least squares of each column of Bob on a1, a2 and y, with an intercept.
    for (at, (term, share)) in shares.iter().enumerate() {
        let design =
            nalgebra::DMatrix::from_fn(ROWS, 4, |row, j| [1.0, values[row][0], values[row][1], values[row][5]][j]);
        let column = nalgebra::DVector::from_fn(ROWS, |row, _| values[row][2 + at]);
        let solved = (design.tr_mul(&design)).cholesky().unwrap().solve(&design.tr_mul(&column));
        let rest = (&column - design * solved).norm_squared();
        let total = column.add_scalar(-column.mean()).norm_squared();
        let expected = 1.0 - rest / total;
        assert!((share - expected).abs() < 1e-6, "{term} {share} {expected}");
    }
    assert_eq!(shares.len(), 3);
}

#[test]
fn what_opened_stands_in_the_account_with_its_numbers_and_its_unknowns() {
    let sizes = |fit: &VerticalFit| -> Vec<(u64, u64, u64, u64, Role)> {
        let opened = fit.disclosure.opened.iter();
        opened.map(|table| (table.rows, table.columns, table.numbers, table.unknowns, table.to)).collect()
    };
    let unknowns = (ROWS * 2) as u64;
    let [at_alice, at_bob] = sealed(&study("sealed", ""), &values(ROWS, false), Faults::NONE);
    assert_eq!(sizes(&at_alice), [(3, 5, 3 * 3 + 3 + 3 + 2, unknowns, Role::Bob)]);
    assert_eq!(sizes(&at_bob), [(3, 3, 9, unknowns, Role::Alice), (1, 2, 2, unknowns, Role::Alice)]);
    // One column of Bob depends on Alice's: what her columns leave of his opens first, and he answers which stay.
    let [at_alice, at_bob] = sealed(&study("sealed", ""), &values(ROWS, true), Faults::NONE);
    assert_eq!(sizes(&at_alice), [(3, 3, 9, unknowns, Role::Bob), (2, 4, 2 * 2 + 2 + 2 + 2, unknowns, Role::Bob)]);
    let expected = [
        (3, 3, 9, unknowns, Role::Alice),
        // A map of three columns to two, and the position of the one that goes.
        (3, 2, 6 + 1, unknowns, Role::Alice),
        (1, 2, 2, unknowns, Role::Alice),
    ];
    assert_eq!(sizes(&at_bob), expected);
}

#[test]
fn the_only_column_of_alice_is_metered_as_bob_can_work_out_its_cross_products() {
    let values = values(ROWS, false);
    for (held_by, known) in [("both", 4), ("alice", 3)] {
        let study = Arc::new(vertical(&format!(
            "id = \"s\"\nmode = \"sealed\"\n[outcome]\ncolumn = \"y\"\nheld_by = \"{held_by}\"\n[parties.alice]\ncertificate = \
             \"alice\"\ncolumns = [\"a1\"]\n[parties.bob]\ncertificate = \"bob\"\ncolumns = [\"b1\", \"b2\", \"b3\"]\n"
        )));
        let [at_alice, _] = sealed(&study, &values, Faults::NONE);
        let metered = &at_alice.disclosure.columns[0];
        // Least squares of a1 on b1, b2 and b3, and on y where Bob holds it, with an intercept.
        let design = nalgebra::DMatrix::from_fn(ROWS, 1 + known, |row, j| match j {
            0 => 1.0,
            j => values[row][[2, 3, 4, 5][j - 1]],
        });
        let column = nalgebra::DVector::from_fn(ROWS, |row, _| values[row][0]);
        let solved = (design.tr_mul(&design)).cholesky().unwrap().solve(&design.tr_mul(&column));
        let rest = (&column - design * solved).norm_squared();
        let expected = 1.0 - rest / column.add_scalar(-column.mean()).norm_squared();
        assert_eq!(metered.term, "a1");
        assert!((metered.share - expected).abs() < 1e-6, "{held_by} {} {expected}", metered.share);
    }
}

#[test]
fn an_outcome_at_alice_alone_is_metered_on_all_of_bobs_columns() {
    for (dependent, more) in [(false, ""), (true, ""), (false, "[penalty]\nlambda = 0.1\n")] {
        let values = values(ROWS, dependent);
        let mut study = (*study("sealed", more)).clone();
        study.method.outcome.held_by = crate::study::HeldBy::One(Role::Alice);
        let [at_alice, _] = sealed(&Arc::new(study), &values, Faults::NONE);
        let metered = at_alice.disclosure.columns.iter().find(|column| column.term == "y").unwrap();
        // Least squares of y on b1, b2 and b3, those that are set aside among them, with an intercept.
        let design = nalgebra::DMatrix::from_fn(ROWS, 4, |row, j| if j == 0 { 1.0 } else { values[row][1 + j] });
        let column = nalgebra::DVector::from_fn(ROWS, |row, _| values[row][5]);
        let solved = (design.tr_mul(&design)).cholesky().unwrap().solve(&design.tr_mul(&column));
        let rest = (&column - design * solved).norm_squared();
        let expected = 1.0 - rest / column.add_scalar(-column.mean()).norm_squared();
        assert!((metered.share - expected).abs() < 1e-6, "{dependent} {more} {} {expected}", metered.share);
    }
}

#[test]
fn a_party_that_loosens_its_limits_says_so_in_its_report() {
    let (study, values) = (study("sealed", ""), values(ROWS, false));
    let loose = crate::secure::open::Limits { rows_per_column: 0, ..Default::default() };
    let policy = Policy { limits: loose, ..Policy::default() };
    let start = |role, policy: &Policy| {
        SealedSession::new(prepared(&study, role, &values, policy).unwrap(), opening(role), Box::new(OneRun))
    };
    let [mut alice, mut bob] = [start(Role::Alice, &policy), start(Role::Bob, &Policy::default())];
    let ended = pair::run_dealt(&mut alice, &mut bob, Faults::NONE, |_, _| {}, dealer(&study, RUN, |_, _| {}));
    let [at_alice, at_bob] = fits(ended);
    let said = |fit: &VerticalFit| {
        fit.notes.iter().any(|note| note.contains("alice loosened its limits on what may open: 0 rows a column"))
    };
    assert!(said(&at_alice), "{:?}", at_alice.notes);
    assert!(!at_bob.notes.iter().any(|note| note.contains("loosened")), "{:?}", at_bob.notes);
}

#[test]
fn nothing_but_masks_shares_and_the_declared_numbers_passes_between_the_parties() {
    let values = values(ROWS, false);
    let mut kinds: Vec<(usize, String)> = Vec::new();
    let mut joint = Vec::new();
    let ended = sealed_with(
        &study("sealed", ""),
        &values,
        Faults::NONE,
        |side, message| {
            kinds.push((side, format!("{message:?}").split(": ").nth(1).unwrap_or_default().to_string()));
            if let Body::Joint(numbers) = &message.body {
                joint.push((side, numbers.what, numbers.values.len()));
            }
        },
        |_, _| {},
    );
    fits(ended);
    // 3 rows of the covariance, gamma, lean, residual and rest; means.
    assert_eq!(joint, [(0, JointKind::Answer, 3 * 3 + 3 + 3 + 2), (1, JointKind::Means, 2)]);
    let said: Vec<&str> =
        kinds.iter().filter(|(_, kind)| kind != "a go-ahead").map(|(_, kind)| kind.as_str()).collect();
    let expected = [
        "a greeting",
        "a greeting",
        "a proof of rows",
        "a proof of rows",
        "digests of shared columns",
        "digests of shared columns",
        "masked columns",
        "masked columns",
        "shares of a table",
        "shares of a table",
        "numbers of the joint solution",
        "numbers of the joint solution",
        "results",
        "results",
    ];
    assert_eq!(said, expected);
}

#[test]
fn masks_out_of_step_end_the_run_before_anything_opens() {
    let values = values(ROWS, false);
    let study = study("sealed", "");
    for spoiled in [0, 1] {
        let mut opened = false;
        let ended = sealed_with(
            &study,
            &values,
            Faults::NONE,
            |_, message| opened |= matches!(&message.body, Body::Share(share) if share.table.is_some()),
            |side, dealt| {
                if let (true, Dealt::Seed(seed)) = (side == spoiled, dealt) {
                    seed[0] ^= 1;
                }
            },
        );
        let abort = abort(ended);
        assert_eq!(abort.exit(), Exit::Peer, "{abort}");
        assert!(abort.to_string().contains("out of step"), "{abort}");
        assert!(!opened);
    }
}

#[test]
fn rows_of_weight_zero_are_no_rows_that_hide_others() {
    // Of 60 rows every fifth has weight zero and the others from 0.6 to 4: as many as 37 of equal weight, and 5 columns need 50.
    let values = values(60, false);
    for family in ["gaussian", "binomial", "poisson"] {
        let study = study("sealed", &format!("[weights]\ncolumn = \"w\"\n[model]\nfamily = \"{family}\""));
        let mut values = values.clone();
        values.iter_mut().enumerate().for_each(|(row, values)| values[5] = f64::from(row % 3 == 0));
        let prepared = prepared(&study, Role::Alice, &values, &Policy::default()).unwrap();
        let abort = super::allowed(&prepared, &[3], Before::default()).unwrap_err();
        assert!(abort.to_string().starts_with("37 of the rows"), "{family}: {abort}");
    }
}

#[test]
fn what_may_not_open_is_refused_before_a_column_leaves() {
    let refused = |values: &[[f64; 6]], policy: &Policy| {
        let study = study("sealed", "");
        let start =
            |role| SealedSession::new(prepared(&study, role, values, policy).unwrap(), opening(role), Box::new(OneRun));
        let mut masked = false;
        let observe = |_: usize, message: &Message| masked |= matches!(message.body, Body::Masked(_));
        let ended = pair::run_dealt(
            &mut start(Role::Alice),
            &mut start(Role::Bob),
            Faults::NONE,
            observe,
            dealer(&study, RUN, |_, _| {}),
        );
        let abort = ended.results.into_iter().flatten().find_map(Result::err);
        assert!(abort.is_none() || !masked);
        abort
    };
    let policy = Policy::default();
    // Few rows for the columns of both.
    let abort = refused(&values(49, false), &policy).unwrap();
    let sentence = "49 of the rows, and 5 columns of all parties need 50; leave columns out, or loosen `sealed_rows_per_column` in your own \
                    policy";
    assert_eq!((abort.exit(), abort.to_string()), (Exit::Data, sentence.into()));
    // A two-valued column whose rarer value nine rows share, and one without enough entropy.
    let mut rare = values(ROWS, false);
    rare.iter_mut().enumerate().for_each(|(row, values)| values[4] = f64::from(row < 9));
    let abort = refused(&rare, &policy).unwrap();
    assert!(abort.to_string().contains("column `b3` has 9 rows of its rarer value"), "{abort}");
    assert!(!abort.sentence_for_peer(Role::Bob).contains("b3"));
    let abort = refused(&values(150, false), &policy).unwrap();
    assert!(abort.to_string().contains("column `b3`") && abort.to_string().contains("bits"), "{abort}");
    // A cost that all but nine rows lack.
    let mut costs = values(ROWS, false);
    costs.iter_mut().enumerate().for_each(|(row, values)| values[4] = if row < 9 { 1.5 + row as f64 } else { 0.0 });
    let abort = refused(&costs, &policy).unwrap();
    assert!(abort.to_string().contains("column `b3` has the same value in all but 9 of the rows"), "{abort}");
    assert!(!abort.sentence_for_peer(Role::Bob).contains("b3"));
    // The party itself may loosen that for its own rows.
    let loose = Policy { limits: crate::secure::open::Limits { entropy_bits: 0.0, ..policy.limits }, ..policy.clone() };
    assert!(refused(&values(150, false), &loose).is_none());
    // Nobody could keep this before the table is open.
    let study = study("sealed", "");
    let strict = Policy { max_disclosure: Some(0.5), ..policy };
    let abort = prepared(&study, Role::Bob, &values(ROWS, false), &strict).err().unwrap();
    assert_eq!(abort.exit(), Exit::Refused);
}

/// Records what opens, and refuses beyond a number of calls.
pub(super) struct Recorder {
    pub(super) opened: Arc<Mutex<Vec<u64>>>,
    pub(super) most: usize,
}

impl Account for Recorder {
    fn may_open(&mut self, _opens: &Opens<'_>) -> Result<(), NotOpened> {
        Ok(())
    }

    fn open(&mut self, opens: &Opens<'_>) -> Result<(), NotOpened> {
        let mut opened = self.opened.lock().unwrap();
        if opened.len() == self.most {
            let (opened, before, plain, most, unknowns) = (opens.numbers, 0, 0, 0, opens.rows);
            return Err(NotOpened::Limit(Refusal::Opened { opened, before, plain, most, unknowns }));
        }
        opened.push(opens.numbers);
        Ok(())
    }
}

/// A run with what was recorded last at each party, which is all that it let open.
pub(super) fn recorded(
    study: &Arc<Study<Vertical>>,
    values: &[[f64; 6]],
    observe: impl FnMut(usize, &Message),
) -> [(VerticalFit, u64); 2] {
    let opened: [Arc<Mutex<Vec<u64>>>; 2] = Default::default();
    let start = |role: Role| {
        let opened = Arc::clone(&opened[usize::from(role == Role::Bob)]);
        let table = prepared(study, role, values, &Policy::default()).unwrap();
        SealedSession::new(table, opening(role), Box::new(Recorder { opened, most: usize::MAX }))
    };
    let [mut alice, mut bob] = [start(Role::Alice), start(Role::Bob)];
    let ended = pair::run_dealt(&mut alice, &mut bob, Faults::NONE, observe, dealer(study, RUN, |_, _| {}));
    let [of_alice, of_bob] = opened.map(|opened| opened.lock().unwrap().last().copied().unwrap());
    let [alice, bob] = fits(ended);
    [(alice, of_alice), (bob, of_bob)]
}

#[test]
fn every_number_is_recorded_before_it_leaves() {
    for dependent in [false, true] {
        let (study, values) = (study("sealed", ""), values(ROWS, dependent));
        // Bob's openings: the table, which of his columns stay, his part of the intercept.
        for most in 0..4 {
            let opened: [Arc<Mutex<Vec<u64>>>; 2] = Default::default();
            let start = |role: Role, most| {
                let opened = Arc::clone(&opened[usize::from(role == Role::Bob)]);
                let table = prepared(&study, role, &values, &Policy::default()).unwrap();
                SealedSession::new(table, opening(role), Box::new(Recorder { opened, most }))
            };
            let [mut alice, mut bob] = [start(Role::Alice, 9), start(Role::Bob, most)];
            let mut left = 0;
            let ended = pair::run_dealt(
                &mut alice,
                &mut bob,
                Faults::NONE,
                |side, message| left += usize::from(side == 1 && opens_at_alice(&message.body)),
                dealer(&study, RUN, |_, _| {}),
            );
            let calls = if dependent { 3 } else { 2 };
            assert_eq!(left, most.min(calls), "{dependent} {most}");
            if most < calls {
                assert_eq!(abort(ended).exit(), Exit::Refused);
                continue;
            }
            for (fit, opened) in fits(ended).iter().zip(&opened) {
                let listed: u64 = fit.disclosure.opened.iter().map(|opened| opened.numbers).sum();
                assert_eq!(opened.lock().unwrap().last(), Some(&listed));
            }
        }
    }
}

/// Whether a message has numbers that open, beside those of the results.
fn opens_at_alice(body: &Body) -> bool {
    match body {
        Body::Share(share) => share.table.is_some(),
        Body::Joint(_) => true,
        _ => false,
    }
}
