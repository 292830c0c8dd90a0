//! Private fits of several parties over simulated lines, with a dealer and faults.

use super::*;
use crate::conversation::Content;
use crate::methods::vertical::message::{Dealt, Joint, JointKind, Masked, Share};
use crate::methods::vertical::private::SeveralSession;
use crate::methods::vertical::several::{Hub, PrivateCentre};
use crate::secure::ring::Elements;
use crate::sim::dealer::dealer;
use crate::sim::several::{EndedSeveral, run_several_dealt, run_spoiled};

const RUN: RunId = RunId([1; 16]);
const NAMES: [&str; 3] = ["anna", "ben", "cleo"];

/// Columns by party, in order.
fn columns(role: Role) -> &'static [&'static str] {
    match role.name() {
        "anna" => &["a1", "a2"],
        "ben" => &["b1"],
        _ => &["kind"],
    }
}

fn role(name: &str) -> Role {
    name.parse().unwrap()
}

fn file(more: &str) -> String {
    let parties =
        NAMES.map(|name| format!("[parties.{name}]\ncertificate = \"{name}\"\ncolumns = {:?}\n", columns(role(name))));
    format!(
        "id = \"s\"\nmode = \"private\"\n[outcome]\ncolumn = \"y\"\nheld_by = \"all\"\n[rows]\nid = \"id\"\n{}[columns.a1]\n\
         range = [0, 100]\n[columns.a2]\nrange = [-1, 1]\n[columns.b1]\nrange = [10, 30]\n[columns.kind]\nlevels = [\"x\", \
         \"y\"]\n[columns.y]\nrange = [-50, 150]\n[privacy]\ndelta = 1e-5\nmechanism = \"crossprod\"\n{more}",
        parties.concat()
    )
}

fn study(more: &str) -> Arc<Study<Vertical>> {
    Arc::new(vertical(&file(more)))
}

fn frame(role: Role) -> Frame {
    let (mut places, mut ids) = (Places::default(), Ids::default());
    let builder = |name: &&str| match *name {
        "kind" => ColumnBuilder::lenient_levels("kind", &["x".to_string(), "y".to_string()]).unwrap(),
        name => ColumnBuilder::lenient_numbers(name),
    };
    let mut built: Vec<ColumnBuilder> = columns(role).iter().chain(&["y"]).map(builder).collect();
    for (row, values) in values().iter().enumerate() {
        let place = Place::Row(row as u64 + 1);
        places.push(place);
        ids.push(format!("p{row:04}").as_bytes());
        for (column, name) in built.iter_mut().zip(columns(role).iter().chain(&["y"])) {
            let cell = match *name {
                "a1" => values[0].to_string(),
                "a2" => values[1].to_string(),
                "b1" => values[2].to_string(),
                "kind" => if values[3] > 0.0 { "y" } else { "x" }.to_string(),
                _ => values[4].to_string(),
            };
            column.cell(cell.as_bytes(), place).unwrap();
        }
    }
    Frame::new(built.into_iter().map(|column| column.finish().unwrap()).collect(), Some(ids), places).unwrap()
}

fn party_table(study: &Arc<Study<Vertical>>, role: Role) -> Table {
    Table::new(Arc::clone(study), role, &Policy::default(), frame(role)).unwrap()
}

/// A ledger in memory for each party, whose data set may cost so much.
fn disks(study: &Arc<Study<Vertical>>, lifetimes: [f64; 3]) -> Vec<Memory> {
    let disk = |(role, lifetime): (Role, f64)| {
        let disk = Memory::new();
        let mut ledger = Ledger::create(disk.clone()).unwrap();
        let persons = Party::persons(&mut ledger, &party_table(study, role));
        let budget =
            Budget::new(lifetime, 1e-5, study.private().unwrap().stated.accountant, ROWS as u64, true).unwrap();
        let data_set = "cohort".to_string();
        ledger.register(&Registration { data_set, persons, budget, bounds: study.stated_bounds(role) }).unwrap();
        disk
    };
    study.parties_in_order().into_iter().zip(lifetimes).map(disk).collect()
}

fn spent(disk: &Memory) -> f64 {
    Ledger::open(disk.clone()).unwrap().account("cohort").unwrap().sum
}

type Sides = (Hub<PrivateCentre<Memory>>, Vec<SeveralSession<Memory>>);

fn sides(study: &Arc<Study<Vertical>>, disks: &[Memory]) -> Result<Sides, Abort> {
    let parties = study.parties_in_order();
    let setting = |at: usize| {
        let mut ledger = Ledger::open(disks[at].clone())?;
        let persons = Party::persons(&mut ledger, &party_table(study, parties[at]));
        let pool = NoisePool::seeded(100 + at as u64);
        let peers = study.others(parties[at]).iter().map(Role::to_string).collect();
        Ok::<_, Abort>(Setting { ledger, data_set: "cohort".to_string(), persons, peers, pool })
    };
    let opening = |first, at: usize| Opening { first, run: RUN, seed: [at as u8 + 1; 32], peer: parties[0] };
    let hub = Hub::private(party_table(study, parties[0]), &opening(false, 0), setting(0)?)?;
    let mut followers = Vec::new();
    for (at, role) in parties.iter().enumerate().skip(1) {
        followers.push(SeveralSession::follow(party_table(study, *role), opening(true, at), setting(at)?)?);
    }
    Ok((hub, followers))
}

/// Runs all; says what left, with its receiver.
fn run(
    study: &Arc<Study<Vertical>>,
    disks: &[Memory],
    faults: Faults,
) -> (EndedSeveral<PrivateFit>, Vec<(Role, Message)>) {
    let (mut hub, mut followers) = sides(study, disks).unwrap();
    let mut sent = Vec::new();
    let observe = |to: Role, message: &Message| sent.push((to, message.clone()));
    let ended = run_several_dealt(&mut hub, &mut followers, faults, observe, dealer(study, RUN, |_, _| {}));
    (ended, sent)
}

fn fits(ended: EndedSeveral<PrivateFit>) -> Vec<PrivateFit> {
    ended.results.into_iter().map(|result| result.expect("the run ended at every party").unwrap()).collect()
}

fn charges(study: &Study<Vertical>) -> Vec<f64> {
    let plan = study.private_plan(ROWS as u64).unwrap();
    (0..3).map(|place: usize| plan.releases(place).charge()).collect()
}

#[test]
fn with_hardly_any_noise_every_party_has_the_pooled_fit() {
    let study = study("epsilon = 1e9\nlarge_epsilon = \"a test of scales\"\n");
    let fits = fits(run(&study, &disks(&study, [1e9; 3]), Faults::NONE).0);
    let values = values();
    let x = DMatrix::from_fn(ROWS, 5, |row, column| if column == 0 { 1.0 } else { values[row][column - 1] });
    let y = DVector::from_fn(ROWS, |row, _| values[row][4]);
    let pooled = x.clone().svd(true, true).solve(&y, 1e-12).unwrap();
    for fit in &fits {
        assert_eq!(fit.coefficients, fits[0].coefficients, "all compute the same digits");
        let terms: Vec<(&str, &str)> =
            fit.coefficients.iter().map(|row| (row.party.name(), row.term.as_str())).collect();
        let named = [("anna", "(Intercept)"), ("anna", "a1"), ("anna", "a2"), ("ben", "b1"), ("cleo", "kindy")];
        assert_eq!(terms, named);
        for (row, expected) in fit.coefficients.iter().zip(pooled.iter()) {
            let estimate = row.estimate.unwrap();
            // Rows are truncated to 15 bits, which moves the intercept by a share of the centres.
            let tolerance = if row.term == INTERCEPT { 0.2 } else { 0.01 * expected.abs().max(1.0) };
            assert!((estimate - expected).abs() < tolerance, "{}: {estimate} {expected}", row.term);
            assert!(row.std_error.is_some() && row.conf_low < row.estimate);
        }
    }
}

#[test]
fn a_path_among_several_is_computed_from_the_same_noised_tables() {
    let free = study("epsilon = 1.0\n");
    let path = study("epsilon = 1.0\n[penalty]\nlambda = [1e6, 1.0, 0.0]\nalpha = 0.9\n");
    let (one, many) = (
        fits(run(&free, &disks(&free, [1.0; 3]), Faults::NONE).0),
        fits(run(&path, &disks(&path, [1.0; 3]), Faults::NONE).0),
    );
    for (one, many) in one.iter().zip(&many) {
        assert_eq!(one.statement.charge, many.statement.charge);
        let points = many.path.as_ref().unwrap();
        assert_eq!((points.len(), points[0].df, many.shown_lambda), (3, 0, Some(0.0)));
        // The digest of the study, and with it noise and masks, differ; at lambda 0 both are near each other by their noise alone.
        assert!(many.coefficients.iter().all(|row| row.estimate.is_some() && row.std_error.is_none()));
    }
    // As text, since a deviance that is not computed is not equal to itself.
    assert_eq!(format!("{:?}", many[0].path), format!("{:?}", many[2].path));
}

#[test]
fn every_party_is_charged_once_what_was_planned_and_says_what_it_released() {
    let study = study("epsilon = 1.0\n");
    let disks = disks(&study, [1.5; 3]);
    let (ended, sent) = run(&study, &disks, Faults::NONE);
    let fits = fits(ended);
    for (at, (fit, charge)) in fits.iter().zip(charges(&study)).enumerate() {
        assert_eq!(fit.statement.charge, charge);
        assert!((spent(&disks[at]) - charge).abs() <= 1e-13 * charge);
        let labels: Vec<&str> = charged(&fit.statement).releases.iter().map(|receipt| receipt.label.as_str()).collect();
        assert_eq!(labels, ["X'X", "X'y", "shares of the tables between the blocks"]);
        assert_eq!((fit.nobs, fit.rounds), (ROWS as u64, 1));
        // A person in all three blocks is in three data sets.
        assert!(charged(&fit.statement).epsilon_joint.unwrap() > 2.0, "{:?}", fit.statement);
        assert!(fit.statement.promise.iter().any(|line| line.contains("all blocks")), "{:?}", fit.statement.promise);
        let ledger = Ledger::open(disks[at].clone()).unwrap();
        assert!(ledger.unfinished("cohort", &study.digest().to_string()).is_none(), "the run is over");
    }
    // What a follower releases leaves once, to the leader.
    let noised: Vec<(Role, Role)> =
        sent.iter().filter(|(_, message)| noised(message).is_some()).map(|(to, m)| (m.header.sender, *to)).collect();
    assert_eq!(noised.len(), 6);
    assert!(noised.iter().all(|(_, to)| *to == role("anna")));
}

#[test]
fn nothing_leaves_but_masked_columns_canaries_budgets_and_noised_values() {
    let study = study("epsilon = 1.0\n");
    let disks = disks(&study, [1.0; 3]);
    let (_, sent) = run(&study, &disks, Faults::NONE);
    let parties = study.parties_in_order();
    let mut tables = 0;
    for (to, message) in &sent {
        let from = message.header.sender;
        let disk = &disks[study.place(from)];
        match &message.body {
            Body::Masked(Masked { .. })
            | Body::Hello(_)
            | Body::Rows(_)
            | Body::Shared(_)
            | Body::Terms(_)
            | Body::Go => {}
            Body::Share(Share { table, .. }) => assert!(table.is_none(), "shares of tables without their noise"),
            Body::Noised(noised) => {
                let stored = disk.stored(&format!("sent/{RUN}/{}", noised.index));
                assert_eq!(stored, Some(noised.value.encode()), "what leaves is not what the ledger has");
            }
            Body::Joint(Joint { what: JointKind::Noised, values }) => {
                assert_eq!((from, values.len()), (parties[0], 15 + 5));
                tables += 1;
                // The receiver's own table stands in it as the receiver has released it.
                let own = disks[study.place(*to)].stored(&format!("sent/{RUN}/0")).unwrap();
                let own = LatticeVector::decode(&own).unwrap().symmetric(1);
                let at = [6 + 3, 10 + 4][study.place(*to) - 1];
                assert_eq!(values[at], own[(0, 0)]);
            }
            other => panic!("{}", other.kind()),
        }
    }
    assert_eq!(tables, 2);
    // Tables without noise, and shares without theirs, cannot be said by mistake.
    let header = Header { study: study.digest(), run: RUN, sender: parties[0], sequence: 8 };
    let raw = Elements::zeros(crate::secure::ring::Width::One, 6);
    let bodies = [
        Body::Share(Share { canary: raw.slice(0..1), table: Some(raw) }),
        Body::Joint(Joint { what: JointKind::Noised, values: vec![0.0; 20] }),
    ];
    for body in bodies {
        assert!(study.disclosures(parties[0]).release(Message { header, body }).is_err());
    }
}

#[test]
fn lossy_lines_give_the_same_bytes_as_clean_ones() {
    let study = study("epsilon = 1.0\n");
    let (clean, said) = run(&study, &disks(&study, [1.0; 3]), Faults::NONE);
    let clean = fits(clean);
    for seed in 0..10 {
        let faults = Faults { drop: 0.15, duplicate: 0.15, reorder: 0.1, seed };
        let (lossy, again) = run(&study, &disks(&study, [1.0; 3]), faults);
        assert_eq!(clean, fits(lossy));
        for (to, message) in &again {
            let same = |(other, m): &&(Role, Message)| {
                (other, m.header.sender, m.header.sequence) == (to, message.header.sender, message.header.sequence)
            };
            assert_eq!(said.iter().find(same).map(|(_, m)| m), Some(message), "a repeat differs");
        }
    }
}

#[test]
fn masks_out_of_step_end_the_run_before_anything_is_charged() {
    let study = study("epsilon = 1.0\n");
    for spoilt in 0..3 {
        let disks = disks(&study, [1.0; 3]);
        let (mut hub, mut followers) = sides(&study, &disks).unwrap();
        let deal = dealer(&study, RUN, |to, dealt| {
            if let (true, Dealt::Seed(seed)) = (to == spoilt, dealt) {
                seed[0] ^= 1;
            }
        });
        let ended = run_several_dealt(&mut hub, &mut followers, Faults::NONE, |_, _| {}, deal);
        let abort = ended.results.into_iter().flatten().find_map(Result::err).unwrap();
        assert_eq!(abort.exit(), Exit::Peer);
        assert!(abort.to_string().contains("out of step"), "{abort}");
        assert!(disks.iter().all(|disk| spent(disk) == 0.0 && disk.stored(&format!("sent/{RUN}/0")).is_none()));
    }
}

#[test]
fn a_budget_that_is_too_small_for_the_run_is_found_before_anything_leaves() {
    let study = study("epsilon = 1.0\n");
    for poor in 0..3 {
        let mut lifetimes = [1.0; 3];
        lifetimes[poor] = 0.5;
        let refused = sides(&study, &disks(&study, lifetimes)).map(drop).unwrap_err();
        assert!(matches!(refused, Abort::Ledger(LedgerError::Overspent { .. })), "{refused}");
    }
}

/// Runs a fit of which `spoil` changes what the one says to the other; where it ends, and how.
fn spoiled(
    disks: &[Memory],
    study: &Arc<Study<Vertical>>,
    mut spoil: impl FnMut(Role, Role, &mut Body),
) -> (Role, Abort) {
    let (mut hub, mut followers) = sides(study, disks).unwrap();
    let deal = dealer(study, RUN, |_, _| {});
    let spoil = |from: Role, to: Role, message: &mut Message| {
        spoil(from, to, &mut message.body);
        None
    };
    run_spoiled(&mut hub, &mut followers, deal, spoil).expect("the fit went to its end")
}

/// What is wrong, a piece of the sentence, and how it is made wrong.
type Wrong = (&'static str, &'static str, fn(&mut Body));

fn ends(cases: &[Wrong], [from, to]: [&str; 2]) {
    let study = study("epsilon = 1.0\n");
    for (what, says, spoil) in cases {
        let disks = disks(&study, [1.0; 3]);
        let (at, abort) = spoiled(&disks, &study, |sender, receiver, body| {
            if (sender.name(), receiver.name()) == (from, to) {
                spoil(body);
            }
        });
        assert_eq!(at.name(), to, "{what}: {abort}");
        assert!(abort.to_string().contains(says), "{what}: {abort}");
        assert!(matches!(abort.exit(), Exit::Peer | Exit::Refused | Exit::Data), "{what}: {abort}");
        assert!(abort.to_string().contains(from), "{what}: {abort}");
    }
}

fn of_noised(body: &mut Body, index: u32, change: impl FnOnce(&mut Noised)) {
    if let Body::Noised(noised) = body
        && noised.index == index
    {
        change(noised);
    }
}

fn of_tables(body: &mut Body, change: impl FnOnce(&mut Vec<f64>)) {
    if let Body::Joint(Joint { what: JointKind::Noised, values }) = body {
        change(values);
    }
}

#[test]
fn what_a_follower_may_not_say_ends_the_run_with_its_name() {
    let wrong: [Wrong; 8] = [
        ("a column less", "values of masked columns", |body| {
            if let Body::Masked(masked) = body {
                masked.entries = masked.entries.slice(ROWS..masked.entries.count());
            }
        }),
        ("another number of columns", "columns", |body| {
            if let Body::Shared(shared) = body {
                shared.columns += 1;
            }
        }),
        ("another outcome", "outcome", |body| {
            if let Body::Shared(shared) = body {
                shared.outcome = Some(crate::id::Digest([7; 32]));
            }
        }),
        ("no budget", "a budget", |body| {
            if let Body::Terms(terms) = body {
                terms.cap = f64::NAN;
            }
        }),
        ("a budget that is smaller than the run", "smaller than what this run spends", |body| {
            if let Body::Terms(terms) = body {
                terms.cap = 1e-6;
            }
        }),
        ("statistics in another order", "round", |body| of_noised(body, 0, |noised| noised.index = 1)),
        ("shares of fewer tables", "expected 4 noised entries", |body| {
            of_noised(body, 2, |noised| {
                let (count, step) = (noised.value.integers().len(), noised.value.step());
                noised.value = lattice(step, noised.value.integers()[..count - 1].iter().copied());
            });
        }),
        ("shares that no rows can give", "beyond what rows", |body| {
            of_noised(body, 2, |noised| {
                let far = Elements::from_integers(crate::secure::ring::Width::One, &[1 << 62; 4]).to_bytes();
                let words = far.as_chunks::<8>().0.iter().map(|word| i64::from_le_bytes(*word));
                noised.value = lattice(noised.value.step(), words);
            });
        }),
    ];
    ends(&wrong, ["cleo", "anna"]);
}

#[test]
fn what_the_leader_may_not_say_ends_the_run_with_its_name() {
    let wrong: [Wrong; 6] = [
        ("a row block less", "values of masked columns", |body| {
            if let Body::Masked(masked) = body {
                masked.entries = masked.entries.slice(ROWS..masked.entries.count());
            }
        }),
        ("another number of columns", "columns", |body| {
            if let Body::Shared(shared) = body {
                shared.columns += 1;
            }
        }),
        ("a budget of all others that is smaller than the run", "smaller than what this run spends", |body| {
            if let Body::Terms(terms) = body {
                terms.cap = 1e-6;
            }
        }),
        ("tables of another size", "values of noised tables", |body| of_tables(body, |values| values.truncate(19))),
        ("tables that are no numbers", "finite", |body| of_tables(body, |values| values[0] = f64::NAN)),
        ("tables without this party's own", "own statistics", |body| of_tables(body, |values| values[14] += 1.0)),
    ];
    ends(&wrong, ["anna", "cleo"]);
}

#[test]
fn a_run_that_ends_before_a_noised_value_has_left_costs_nothing_and_after_it_keeps_its_charge() {
    let study = study("epsilon = 1.0\n");
    // One of ben's releases never comes: all have reserved, and ben's statistics have left.
    for index in 0..3 {
        let disks = disks(&study, [1.0; 3]);
        let (_, abort) = spoiled(&disks, &study, |sender, _, body| {
            if sender.name() == "ben" {
                of_noised(body, index, |noised| noised.index = 9);
            }
        });
        assert_eq!(abort.exit(), Exit::Peer);
        let closed = |disk: &Memory| {
            let mut ledger = Ledger::open(disk.clone()).unwrap();
            ledger.finish(&RUN.to_string()).unwrap();
            (ledger.is_withdrawn(&RUN.to_string()), ledger.account("cohort").unwrap().sum)
        };
        assert_eq!(closed(&disks[0]), (true, 0.0), "the leader had released nothing");
        let (withdrawn, sum) = closed(&disks[1]);
        assert!(!withdrawn && sum > 0.0, "ben's statistics have left");
    }
}

#[test]
fn what_has_no_proof_among_several_is_refused_with_its_key() {
    let cases = [
        ("mechanism = \"crossprod\"\n", "mechanism = \"residual\"\n", "privacy.mechanism"),
        ("mechanism = \"crossprod\"\n", "", "privacy.mechanism"),
        ("held_by = \"all\"", "held_by = \"ben\"", "outcome.held_by"),
        ("[rows]", "[model]\nfamily = \"binomial\"\n[rows]", "model.family"),
        ("[rows]", "[model]\nfamily = \"poisson\"\n[rows]", "model.family"),
    ];
    for (before, after, key) in cases {
        let text = file("epsilon = 1.0\n").replace(before, after);
        let error = Study::parse(&text).map(drop).unwrap_err();
        assert!(error.to_string().contains(key), "{error}");
    }
}
