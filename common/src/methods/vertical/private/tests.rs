use std::collections::VecDeque;
use std::sync::Arc;

use nalgebra::{DMatrix, DVector};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Poisson};

use super::*;
use crate::conversation::Opening;
use crate::data::{ColumnBuilder, Frame, Ids, Place, Places};
use crate::exit::Exit;
use crate::fit::INTERCEPT;
use crate::glm::Family;
use crate::id::{Header, Role, RunId};
use crate::methods::vertical::message::{Body, Estimates, Message, Noised};
use crate::methods::vertical::prepare::Policy;
use crate::privacy::accountant::{Accountant, Budget};
use crate::privacy::ledger::tests::Memory;
use crate::privacy::ledger::{Ledger, LedgerError, PersonDigests, Registration};
use crate::privacy::mechanism::LatticeVector;
use crate::privacy::release::{Disclosures, Released};
use crate::privacy::sampler::NoisePool;
use crate::session::{Abort, PeerFault, Session, Turn};
use crate::sim::pair::{self, Faults};
use crate::study::statement::{Charged, Statement};
use crate::study::tests::vertical;
use crate::study::{Study, Vertical};

mod crossprod;
mod formulas;
mod logistic;
mod refit;
mod several;

const ROWS: usize = 300;

fn text(more: &str) -> String {
    format!(
        "id = \"s\"\nmode = \"private\"\n[outcome]\ncolumn = \"y\"\n[rows]\nid = \"id\"\n[parties.alice]\ncertificate = \
         \"alice\"\ncolumns = [\"a1\", \"a2\"]\n[parties.bob]\ncertificate = \"bob\"\ncolumns = [\"b1\", \
         \"kind\"]\n[columns.a1]\nrange = [0, 100]\n[columns.a2]\nrange = [-1, 1]\n[columns.b1]\nrange = \
         [10, 30]\n[columns.kind]\nlevels = [\"x\", \"y\"]\n[columns.y]\nrange = [-50, 150]\n[privacy]\ndelta = 1e-5\n{more}"
    )
}

fn study(more: &str) -> Arc<Study<Vertical>> {
    Arc::new(vertical(&text(more)))
}

/// Columns a1, a2, b1, kind and y, without noise: rows well inside their bounds.
fn values() -> Vec<[f64; 5]> {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    (0..ROWS)
        .map(|_| {
            let mut part = || rng.random_range(-0.5..0.5);
            let (a1, a2, b1) = (50.0 + 50.0 * part(), part(), 20.0 + 10.0 * part());
            let kind = f64::from(part() > 0.25);
            [a1, a2, b1, kind, 0.4 * a1 - 9.0 * a2 + 1.5 * b1 + 6.0 * kind]
        })
        .collect()
}

/// An outcome of 0 and 1 that no column settles.
fn events() -> Vec<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(6);
    let eta = |row: &[f64; 5]| 0.05 * (row[0] - 50.0) - 1.5 * row[1] + 0.2 * (row[2] - 20.0) + 0.8 * row[3] - 0.6;
    values().iter().map(|row| f64::from(u8::from(rng.random::<f64>() < 1.0 / (1.0 + (-eta(row)).exp())))).collect()
}

/// Counts of which some are above 8.
fn counts() -> Vec<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(8);
    let eta = |row: &[f64; 5]| 0.02 * (row[0] - 50.0) - 0.6 * row[1] + 0.08 * (row[2] - 20.0) + 0.4 * row[3] + 0.9;
    let drawn = |row: &[f64; 5]| -> f64 { Poisson::new(eta(row).exp()).unwrap().sample(&mut rng) };
    values().iter().map(drawn).collect()
}

fn frame(role: Role, spoil: &[usize]) -> Frame {
    let y: Vec<f64> = values().iter().map(|row| row[4]).collect();
    frame_with(role, spoil, &y)
}

fn frame_with(role: Role, spoil: &[usize], outcome: &[f64]) -> Frame {
    let mut places = Places::default();
    let mut ids = Ids::default();
    let lenient = |name: &str| ColumnBuilder::lenient_numbers(name);
    let mut columns = match role {
        Role::Alice => vec![lenient("a1"), lenient("a2"), lenient("y")],
        _ => vec![
            lenient("b1"),
            ColumnBuilder::lenient_levels("kind", &["x".to_string(), "y".to_string()]).unwrap(),
            lenient("y"),
        ],
    };
    for (row, values) in values().iter().enumerate() {
        let place = Place::Row(row as u64 + 1);
        places.push(place);
        ids.push(format!("p{row:04}").as_bytes());
        let kind = if values[3] > 0.0 { "y" } else { "x" };
        let [a1, a2, b1, y] = [values[0], values[1], values[2], outcome[row]].map(|value| value.to_string());
        let bad = spoil.contains(&row);
        let cells = match role {
            Role::Alice => [if bad { "inf" } else { a1.as_str() }, a2.as_str(), y.as_str()],
            _ => [b1.as_str(), if bad { "undeclared" } else { kind }, y.as_str()],
        };
        for (column, cell) in columns.iter_mut().zip(cells) {
            column.cell(cell.as_bytes(), place).unwrap();
        }
    }
    let columns = columns.into_iter().map(|column| column.finish().unwrap()).collect();
    Frame::new(columns, Some(ids), places).unwrap()
}

fn table(study: &Arc<Study<Vertical>>, role: Role, spoil: &[usize]) -> Table {
    let frame = match study.method.family {
        Family::Binomial => frame_with(role, spoil, &events()),
        Family::Poisson => frame_with(role, spoil, &counts()),
        Family::Gaussian => frame(role, spoil),
    };
    Table::new(Arc::clone(study), role, &Policy::default(), frame).unwrap()
}

/// A party with a ledger in memory.
struct Party {
    role: Role,
    disk: Memory,
    study: Arc<Study<Vertical>>,
}

impl Party {
    /// The data set may cost `lifetime`.
    fn new(role: Role, study: &Arc<Study<Vertical>>, lifetime: f64) -> Party {
        let disk = Memory::new();
        let mut ledger = Ledger::create(disk.clone()).unwrap();
        let persons = Party::persons(&mut ledger, &table(study, role, &[]));
        let accountant = study.private().unwrap().stated.accountant;
        let budget = Budget::new(lifetime, 1e-5, accountant, ROWS as u64, true).unwrap();
        let data_set = "cohort".to_string();
        ledger.register(&Registration { data_set, persons, budget, bounds: study.stated_bounds(role) }).unwrap();
        Party { role, disk, study: Arc::clone(study) }
    }

    fn persons(ledger: &mut Ledger<Memory>, table: &Table) -> PersonDigests {
        PersonDigests::new(&ledger.key().unwrap(), table.identifiers(), 1).unwrap()
    }

    fn session(&self, run: u8, seed: u64) -> Result<PrivateSession<Memory>, Abort> {
        self.session_over(table(&self.study, self.role, &[]), run, seed)
    }

    fn session_over(&self, table: Table, run: u8, seed: u64) -> Result<PrivateSession<Memory>, Abort> {
        let mut ledger = Ledger::open(self.disk.clone())?;
        let persons = Party::persons(&mut ledger, &table);
        let pool = NoisePool::seeded(seed + u64::from(self.role == Role::Bob));
        let peers = vec![self.role.partner().to_string()];
        let setting = Setting { ledger, data_set: "cohort".to_string(), persons, peers, pool };
        // Who speaks first is who dials; here Bob, so that turns and speakers do not fall together.
        let opening = Opening {
            first: self.role == Role::Bob,
            run: RunId([run; 16]),
            seed: [1 + u8::from(self.role == Role::Bob); 32],
            peer: self.role.partner(),
        };
        PrivateSession::new(table, opening, setting)
    }

    fn sum(&self) -> f64 {
        Ledger::open(self.disk.clone()).unwrap().account("cohort").unwrap().sum
    }
}

fn parties(study: &Arc<Study<Vertical>>, lifetime: f64) -> [Party; 2] {
    [Role::Alice, Role::Bob].map(|role| Party::new(role, study, lifetime))
}

fn fitted(parties: &[Party; 2], run: u8, faults: Faults) -> ([PrivateFit; 2], Vec<(usize, Message)>) {
    let mut sent = Vec::new();
    let [mut alice, mut bob] = parties.each_ref().map(|party| party.session(run, 100).unwrap());
    let ended = pair::run(&mut alice, &mut bob, faults, |side, message| sent.push((side, message.clone())));
    (ended.results.map(|result| result.unwrap().unwrap()), sent)
}

fn noised(message: &Message) -> Option<&Noised> {
    match &message.body {
        Body::Noised(noised) => Some(noised),
        _ => None,
    }
}

#[test]
fn with_hardly_any_noise_the_fit_is_the_pooled_one_on_the_original_scale() {
    let study = study("epsilon = 1e9\nlarge_epsilon = \"a test of scales\"\nrounds = 60\nclip = 3.0\n");
    let ([alice, bob], _) = fitted(&parties(&study, 1e9), 1, Faults::NONE);
    assert_eq!(alice.coefficients, bob.coefficients);
    let values = values();
    let x = DMatrix::from_fn(ROWS, 5, |row, column| if column == 0 { 1.0 } else { values[row][column - 1] });
    let y = DVector::from_fn(ROWS, |row, _| values[row][4]);
    let pooled = x.clone().svd(true, true).solve(&y, 1e-12).unwrap();
    let terms: Vec<&str> = alice.coefficients.iter().map(|row| row.term.as_str()).collect();
    assert_eq!(terms, ["(Intercept)", "a1", "a2", "b1", "kindy"]);
    for (row, expected) in alice.coefficients.iter().zip(pooled.iter()) {
        let estimate = row.estimate.unwrap();
        // Rows are truncated to 15 bits, which moves the intercept by a share of the centres.
        let tolerance = if row.term == INTERCEPT { 0.2 } else { 0.01 * expected.abs().max(1.0) };
        assert!((estimate - expected).abs() < tolerance, "{}: {estimate} {expected}", row.term);
    }
    assert_eq!(alice.coefficients[0].std_error, None, "both blocks add to the intercept");
    assert!(alice.coefficients[1..].iter().all(|row| row.std_error.is_some() && row.conf_low < row.estimate));
    for fit in [&alice, &bob] {
        assert!(says_why_no_tests(fit, "noised cross-products of all columns and a noised sum"), "{:?}", fit.notes);
    }
}

/// Whether a fit says why it has no covariance and no tests of terms.
fn says_why_no_tests(fit: &PrivateFit, why: &str) -> bool {
    let mut notes = fit.notes.iter();
    notes.any(|note| note.starts_with("covariance of the coefficients and Wald tests of terms: ") && note.contains(why))
}

#[test]
fn a_lossy_line_gives_the_same_bytes_as_a_clean_line() {
    let study = study("epsilon = 3.0\nrounds = 3\n");
    let (clean, said) = fitted(&parties(&study, 3.0), 1, Faults::NONE);
    for seed in 0..10 {
        let faults = Faults { drop: 0.2, duplicate: 0.2, reorder: 0.2, seed };
        let (lossy, again) = fitted(&parties(&study, 3.0), 1, faults);
        assert_eq!(clean, lossy);
        for (side, message) in &again {
            let original = said.iter().find(|(from, m)| from == side && m.header.sequence == message.header.sequence);
            assert_eq!(original.map(|(_, m)| m), Some(message), "a repeat differs");
        }
    }
}

fn charged(statement: &Statement) -> &Charged {
    statement.charged().unwrap()
}

#[test]
fn a_run_costs_what_was_planned_and_a_budget_for_two_refuses_the_third() {
    let study = study("epsilon = 1.0\n");
    let [alice, bob] = parties(&study, 1.5);
    let parties = [alice, bob];
    let (first, _) = fitted(&parties, 1, Faults::NONE);
    let charge = first[0].statement.charge;
    let charged = charged(&first[0].statement);
    let spent = charged.spent;
    assert!(spent >= charge && spent <= charge * (1.0 + 1e-14), "sums round up: {spent} {charge}");
    assert_eq!(charged.releases.len(), 4, "X'X, X'y, the message, X'r");
    assert!(charged.epsilon_joint.unwrap() > 1.5);
    let (second, _) = fitted(&parties, 2, Faults::NONE);
    assert!(second[0].statement.charged().unwrap().left < charge, "{:?}", second[0].statement);
    let refused = parties[0].session(3, 0).map(drop).unwrap_err();
    assert!(matches!(refused, Abort::Ledger(LedgerError::Overspent { .. })), "{refused}");
    assert_eq!(refused.exit(), Exit::Refused);
    assert!(!refused.sentence_for_peer(Role::Alice).contains("0."), "the peer is not told what is left");
}

/// Both ends of a line, where one party may be started again while the other lives on.
fn converse(
    sessions: &mut [PrivateSession<Memory>; 2],
    starts: [bool; 2],
    sent: &mut Vec<(usize, Message)>,
) -> Result<[PrivateFit; 2], Abort> {
    let mut lines: [VecDeque<Message>; 2] = Default::default();
    let mut outputs: [Option<PrivateFit>; 2] = [None, None];
    let mut settle = |side: usize, turn, lines: &mut [VecDeque<Message>; 2], outputs: &mut [Option<PrivateFit>; 2]| {
        let mut say = |message: Released<Message>| {
            let message: Message = message.into();
            sent.push((side, message.clone()));
            lines[1 - side].push_back(message);
        };
        match turn {
            Turn::Wait => {}
            Turn::Send(message) => say(message),
            Turn::FinishAndSend { output, last } => {
                outputs[side] = Some(output);
                say(last);
            }
            Turn::Finish(output) => outputs[side] = Some(output),
        }
    };
    for side in [0, 1] {
        if starts[side] {
            let turn = match (side, sessions[side].start()?) {
                // Alice listens: what she would say goes out when Bob has spoken.
                (0, Turn::Send(_)) => Turn::Wait,
                (0, Turn::FinishAndSend { output, .. }) => Turn::Finish(output),
                (_, turn) => turn,
            };
            settle(side, turn, &mut lines, &mut outputs);
        } else if let Some(last) = sessions[side].resend().filter(|_| side == 1) {
            // Bob dials: he speaks first on a line that is opened again.
            settle(side, Turn::Send(last), &mut lines, &mut outputs);
        }
    }
    loop {
        match outputs {
            [Some(alice), Some(bob)] => return Ok([alice, bob]),
            rest => outputs = rest,
        }
        let Some((side, message)) = [0, 1].into_iter().find_map(|side| Some((side, lines[side].pop_front()?))) else {
            panic!("silence");
        };
        let turn = sessions[side].receive(message.header.sender, message)?;
        settle(side, turn, &mut lines, &mut outputs);
    }
}

/// Every step of Alice's storage is made to fail once; she is then killed and started again while Bob lives on.
#[test]
fn a_party_killed_at_any_step_sends_the_same_bytes_again_and_is_charged_once() {
    let study = study("epsilon = 1.0\nrounds = 2\n");
    let charge =
        study.private_plan(ROWS as u64).unwrap().releases(crate::methods::vertical::plan::Side::Alice).charge();
    let (mut fresh, mut resumed, mut whole) = (0, 0, 0);
    for fuse in 0.. {
        let parties = parties(&study, 1.0);
        let mut sent = Vec::new();
        let mut sessions = parties.each_ref().map(|party| party.session(1, fuse).unwrap());
        let all = parties[0].disk.fuse.replace(fuse as u32);
        let crashed = converse(&mut sessions, [true, true], &mut sent);
        parties[0].disk.fuse.set(all);
        if let Err(abort) = &crashed {
            assert_eq!(abort.exit(), Exit::CannotWrite, "{abort}");
        } else {
            whole += 1;
            assert!(resumed > 20 && fresh > 0, "{resumed} {fresh}");
            break;
        }
        let before = sent.clone();
        let spent = parties[0].sum();
        let released = before.iter().filter(|(side, message)| *side == 0 && noised(message).is_some()).count();
        assert!(spent > 0.0 || released == 0, "something left before its charge");
        assert!(spent == 0.0 || (spent - charge).abs() <= 1e-12 * charge, "{spent} {charge}");
        fresh += u32::from(spent == 0.0);
        // Fresh noise would be other noise: the seed differs.
        sessions[0] = parties[0].session(1, 1_000_000 + fuse).unwrap();
        let [alice, bob] =
            converse(&mut sessions, [true, false], &mut sent).unwrap_or_else(|abort| panic!("step {fuse}: {abort}"));
        resumed += 1;
        assert_eq!(alice.coefficients, bob.coefficients);
        assert!((parties[0].sum() - charge).abs() <= 1e-12 * charge, "a restart is charged again");
        for (index, (side, message)) in sent.iter().enumerate() {
            let Some(noised) = noised(message).filter(|_| *side == 0) else { continue };
            let stored = parties[0].disk.stored(&format!("sent/{}/{}", RunId([1; 16]), noised.index));
            assert_eq!(stored, Some(noised.value.encode()), "message {index} is not what the ledger has");
        }
    }
    assert_eq!(whole, 1);
}

/// The same of Bob, who reserves after Alice: as long as he has not, he comes back with nothing, and she says all of it again. She may
/// have been killed as well.
#[test]
fn a_party_killed_before_it_reserved_takes_part_in_the_run_that_the_other_has_reserved() {
    let study = study("epsilon = 1.0\nrounds = 2\n");
    let [mut fresh, mut resumed] = [0, 0];
    for fuse in 0.. {
        let parties = parties(&study, 1.0);
        let mut sent = Vec::new();
        let mut sessions = parties.each_ref().map(|party| party.session(1, fuse).unwrap());
        let all = parties[1].disk.fuse.replace(fuse as u32);
        let crashed = converse(&mut sessions, [true, true], &mut sent);
        parties[1].disk.fuse.set(all);
        if crashed.is_ok() {
            break;
        }
        let spent = parties[0].sum();
        if spent == 0.0 {
            continue;
        }
        match parties[1].sum() == 0.0 {
            true => fresh += 1,
            false => resumed += 1,
        }
        // One that has come to its end yields that once: it is started again as well.
        let both = fuse % 2 == 0 || sessions[0].progress().phase == "done";
        sessions[1] = parties[1].session(1, 1_000_000 + fuse).unwrap();
        if both {
            sessions[0] = parties[0].session(1, 2_000_000 + fuse).unwrap();
        }
        let [alice, bob] =
            converse(&mut sessions, [both, true], &mut sent).unwrap_or_else(|abort| panic!("step {fuse}: {abort}"));
        assert_eq!(alice.coefficients, bob.coefficients);
        assert_eq!(parties[0].sum(), spent, "step {fuse}: a restart is charged again");
        for (side, message) in &sent {
            let Some(noised) = noised(message) else { continue };
            let stored = parties[*side].disk.stored(&format!("sent/{}/{}", RunId([1; 16]), noised.index));
            assert_eq!(stored, Some(noised.value.encode()), "step {fuse}: not what the ledger has");
        }
    }
    assert!(fresh > 2 && resumed > 20, "{fresh} {resumed}");
}

#[test]
fn a_repeat_with_other_content_gets_no_new_answer() {
    let study = study("epsilon = 1.0\n");
    let parties = parties(&study, 1.0);
    let (_, said) = fitted(&parties, 1, Faults::NONE);
    let from_bob = said.iter().find(|(side, message)| *side == 1 && noised(message).is_some()).unwrap().1.clone();
    let mut sessions = parties.each_ref().map(|party| party.session(1, 7).unwrap());
    // Everything is stored: both are started again and replay to the end by themselves.
    let [alice, _] = sessions.each_mut().map(|session| session.start().unwrap());
    assert!(matches!(alice, Turn::Finish(_) | Turn::FinishAndSend { .. }));
    let Body::Noised(Noised { index, value }) = from_bob.body else { panic!("noised") };
    let mut bytes = value.encode();
    bytes[8] ^= 1;
    let changed = Noised { index, value: LatticeVector::decode(&bytes).unwrap() };
    let mut ledger = Ledger::open(parties[0].disk.clone()).unwrap();
    let run = RunId([1; 16]).to_string();
    let mut kept = b"noised ".to_vec();
    kept.extend_from_slice(&changed.index.to_le_bytes());
    kept.extend_from_slice(&changed.value.encode());
    let refused = ledger.keep_received(&run, from_bob.header.sequence as u32, &kept).unwrap_err();
    assert!(matches!(refused, LedgerError::Differs { .. }));
    assert_eq!(refused.exit(), Exit::Peer);
}

/// Alice against a peer that is ours but for one message, which `twist` changes.
fn against(twist: impl Fn(&mut Noised)) -> Result<PrivateFit, Abort> {
    against_body(|body| {
        if let Body::Noised(noised) = body {
            twist(noised);
        }
    })
}

fn against_body(twist: impl Fn(&mut Body)) -> Result<PrivateFit, Abort> {
    let study = study("epsilon = 3.0\n");
    let parties = parties(&study, 3.0);
    let [mut alice, mut bob] = parties.each_ref().map(|party| party.session(1, 3).unwrap());
    alice.start().unwrap();
    let mut turn = bob.start().unwrap();
    loop {
        let mut message: Message = match turn {
            Turn::Send(message) | Turn::FinishAndSend { last: message, .. } => message.into(),
            _ => panic!("bob has nothing to say"),
        };
        twist(&mut message.body);
        let answer: Message = match alice.receive(Role::Bob, message)? {
            Turn::Send(message) => message.into(),
            Turn::FinishAndSend { output, .. } | Turn::Finish(output) => return Ok(output),
            Turn::Wait => panic!("alice waits"),
        };
        turn = bob.receive(Role::Alice, answer)?;
    }
}

fn lattice(step: f64, integers: impl Iterator<Item = i64>) -> LatticeVector {
    let mut bytes = step.to_le_bytes().to_vec();
    integers.for_each(|integer| bytes.extend_from_slice(&integer.to_le_bytes()));
    LatticeVector::decode(&bytes).unwrap()
}

#[test]
fn values_beyond_the_bound_are_cut_and_shapes_beyond_the_plan_are_refused() {
    let huge = against(|noised| {
        let step = noised.value.step();
        noised.value = lattice(step, (0..ROWS).map(|row| if row % 2 == 0 { i64::MAX } else { i64::MIN }));
    })
    .unwrap();
    // Cut residuals: no coefficient can pass what rows of norm one and residuals of the bound can give.
    assert!(huge.coefficients.iter().all(|row| row.estimate.unwrap().abs() < 1e6));
    let honest = against(|_| ()).unwrap();
    for (hostile, honest) in charged(&huge.statement).releases.iter().zip(&charged(&honest.statement).releases) {
        assert_eq!((hostile.sensitivity, hostile.sigma), (honest.sensitivity, honest.sigma));
    }
    let refused = |twist: fn(&mut Noised)| against(twist).unwrap_err();
    let longer = refused(|noised| noised.value = lattice(noised.value.step(), 0..ROWS as i64 + 1));
    assert!(longer.to_string().contains("expected 300 noised entries, got 301"), "{longer}");
    let other = refused(|noised| noised.value = lattice(2.0 * noised.value.step(), 0..ROWS as i64));
    assert!(other.to_string().contains("lattice step"), "{other}");
    let ahead = refused(|noised| noised.index = 7);
    assert!(matches!(ahead, Abort::Peer { fault: PeerFault::Round { came: 7, expected: 2 }, .. }), "{ahead}");
    assert_eq!(ahead.exit(), Exit::Peer);
}

#[test]
fn a_peer_that_states_a_cap_below_the_cost_of_the_run_is_refused() {
    let with_cap = |share: f64| {
        against_body(|body| {
            if let Body::Terms(terms) = body {
                terms.cap *= share;
            }
        })
    };
    let honest = with_cap(1.0).unwrap().statement;
    // What both have for their lifetime is what one run costs, less what roundings leave.
    let refused = with_cap(0.99).unwrap_err();
    assert!(refused.to_string().starts_with("the budget that bob has for its data set is smaller"), "{refused}");
    assert_eq!(refused.exit(), Exit::Refused);
    let larger = with_cap(2.0).unwrap().statement;
    assert!(charged(&larger).epsilon_joint > charged(&honest).epsilon_joint);
}

#[test]
fn a_row_that_cannot_be_used_becomes_zeros_and_leaves_the_others_as_they_are() {
    rows_that_cannot_be_used_become_zeros(&study("epsilon = 1.0\n"));
}

/// Two spoiled rows are zeros in the tables of both, all others are the bits of before, and a check names the row.
fn rows_that_cannot_be_used_become_zeros(study: &Arc<Study<Vertical>>) {
    for role in [Role::Alice, Role::Bob] {
        let [sound, spoiled] = [&[][..], &[3, 17]].map(|spoil| table(study, role, spoil).clipped().0);
        assert_eq!(spoiled.invalid(), 2);
        for entry in 0..sound.width() {
            let unit = DVector::from_fn(sound.width(), |row, _| f64::from(u8::from(row == entry)));
            let (before, after) = (sound.products(&unit, 0), spoiled.products(&unit, 0));
            for row in 0..ROWS {
                let expected = if [3, 17].contains(&row) { 0.0 } else { before[row] };
                assert_eq!(after[row].to_bits(), expected.to_bits(), "{role}, row {row}, entry {entry}");
            }
        }
        let refused = Table::checked(Arc::clone(study), role, &Policy::default(), frame(role, &[3]));
        let Err(Abort::OwnData(sentence)) = refused else { panic!("a check lets it pass") };
        assert!(sentence.contains("row 4"), "{sentence}");
    }
}

#[test]
fn nothing_can_take_the_place_of_a_noised_value() {
    let study = study("epsilon = 1.0\n");
    let header = Header { study: study.digest(), run: RunId([1; 16]), sender: Role::Alice, sequence: 8 };
    let raw = Noised { index: 2, value: lattice(1.0, 0..3) };
    let estimates = Estimates { shift: 1.0, slopes: None };
    for body in [Body::Noised(raw), Body::Estimates(estimates), Body::Prediction(vec![1.0]), Body::LargestGradient(1.0)]
    {
        for declared in
            [study.disclosures(Role::Alice), Disclosures::new([crate::privacy::release::Declaration::Undeclarable])]
        {
            assert!(declared.release(Message { header, body: body.clone() }).is_err());
        }
    }
}

#[test]
fn a_coordinator_that_names_a_run_again_gets_no_part_of_it() {
    let first = study("epsilon = 1.0\n");
    let [alice, bob] = parties(&first, 3.0);
    let other = Party { study: study("epsilon = 1.0\nclip = 0.9\n"), disk: alice.disk.clone(), role: Role::Alice };
    let mut session = alice.session(1, 1).unwrap();
    let mut peer = bob.session(1, 1).unwrap();
    let ended = pair::run(&mut session, &mut peer, Faults::NONE, |_, _| {});
    assert!(ended.results.iter().all(|result| matches!(result, Some(Ok(_)))));
    let refused = |session: Result<PrivateSession<Memory>, Abort>| {
        matches!(session.map(drop), Err(Abort::Ledger(LedgerError::RunExists { .. })))
    };
    assert!(refused(other.session(1, 1)), "another study goes on with the run");
    let edited = alice.session_over(table(&first, Role::Alice, &[9]), 1, 1).map(drop).unwrap_err();
    assert!(edited.to_string().contains("the data have changed"), "{edited}");
    session.close().unwrap();
    assert!(refused(alice.session(1, 1)), "a run that is over goes on");
    assert!(alice.session(2, 1).is_ok());
}

#[test]
fn a_delta_that_permits_publishing_rows_is_refused_before_anything_is_said() {
    let study = study("epsilon = 1.0\n");
    let loose = Arc::new(vertical(&text("epsilon = 1.0\n").replace("delta = 1e-5", "delta = 0.01")));
    assert!(loose.private_plan(ROWS as u64).is_err());
    let party = Party { study: loose, ..Party::new(Role::Alice, &study, 1.0) };
    let refused = party.session(1, 1).map(drop).unwrap_err();
    assert!(refused.to_string().contains("1/n"), "{refused}");
    assert_eq!(refused.exit(), Exit::Refused);
    assert_eq!(Accountant::default(), Accountant::Zcdp);
}
