//! The conversation: rounds, faults of the line, faults of the peer, policies.

use std::path::Path;
use std::sync::Arc;

use fedreg_common::conversation::{Content, Opening, Purpose};
use fedreg_common::data::Frame;
use fedreg_common::exit::Exit;
use fedreg_common::fit::Termination;
use fedreg_common::id::{Role, RunId};
use fedreg_common::methods::vertical::message::{Body, Ended, Folds, Lane, LaneSays, Message, Partial};
use fedreg_common::methods::vertical::outcome::{Model, VerticalFit};
use fedreg_common::methods::vertical::predict::{NewRows, PredictSession, Scores, levels, needed_columns};
use fedreg_common::methods::vertical::prepare::{Policy, Prepared};
use fedreg_common::methods::vertical::session::VerticalSession;
use fedreg_common::privacy::release::Declaration;
use fedreg_common::session::{Abort, PeerFault, Session, Turn};
use fedreg_common::sim::pair::{self, Faults};
use fedreg_common::study::{InferenceTime, Study, Vertical};
use fedreg_party::read;
use fedreg_tests::vectors::{self, Case, Glm};
use fedreg_tests::vertical::{fitted, frame, numeric, run, run_sealed, run_with, session, study, study_at_alice};
use nalgebra::{DMatrix, DVector};
use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;

/// Simulated data: `n` rows of normal columns with a covariance root, and an outcome of a family.
struct Simulated {
    study: Study<Vertical>,
    alice: Frame,
    bob: Frame,
    /// All columns, and the outcome.
    pooled: (DMatrix<f64>, Vec<f64>),
}

impl Simulated {
    fn new(n: usize, split: (usize, usize), root: &DMatrix<f64>, family: &str, seed: u64) -> Simulated {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let p = split.0 + split.1;
        let x = DMatrix::from_fn(n, p, |_, _| rng.sample::<f64, _>(StandardNormal)) * root.transpose();
        let beta = DMatrix::from_fn(p, 1, |_, _| rng.sample::<f64, _>(StandardNormal) / (p as f64).sqrt());
        let eta = &x * beta;
        let y: Vec<f64> = eta
            .iter()
            .map(|eta| match family {
                "binomial" => f64::from(u8::from(rng.random_bool(1.0 / (1.0 + (-eta).exp())))),
                _ => eta + rng.sample::<f64, _>(StandardNormal),
            })
            .collect();
        let names: Vec<String> = (0..p).map(|j| format!("x{j}")).chain(["y".to_string()]).collect();
        let columns: Vec<&[f64]> = (0..p).map(|j| &x.as_slice()[j * n..(j + 1) * n]).chain([y.as_slice()]).collect();
        let of = |range: std::ops::Range<usize>| {
            let keep: Vec<usize> = range.chain([p]).collect();
            let names: Vec<String> = keep.iter().map(|j| names[*j].clone()).collect();
            numeric(&names, &keep.iter().map(|j| columns[*j]).collect::<Vec<_>>())
        };
        let case = Case {
            name: "simulated".to_string(),
            tags: vec![],
            data: "".into(),
            outcome: "y".to_string(),
            family: family.to_string(),
            alice: names[..split.0].to_vec(),
            bob: names[split.0..p].to_vec(),
            offset: None,
            weights: None,
            intercept: true,
        };
        let (alice, bob) = (of(0..split.0), of(split.0..p));
        Simulated { study: study(&case, ""), alice, bob, pooled: (x, y) }
    }

    /// The same with standard errors at another time, where there is a choice.
    fn with_errors_after(mut self, after: bool) -> Simulated {
        if after {
            self.study.method.inference.when = InferenceTime::After;
        }
        self
    }

    fn run(self) -> [VerticalFit; 2] {
        self.run_with(|_, _| {})
    }

    /// The same with an observer of all messages.
    fn run_with(self, observe: impl FnMut(usize, &Message)) -> [VerticalFit; 2] {
        let study = Arc::new(self.study);
        let mut alice = session(&study, Role::Alice, Policy::default(), self.alice).unwrap();
        let mut bob = session(&study, Role::Bob, Policy::default(), self.bob).unwrap();
        fitted(pair::run(&mut alice, &mut bob, Faults::NONE, observe))
    }
}

fn autoregressive(p: usize, correlation: f64) -> DMatrix<f64> {
    DMatrix::from_fn(p, p, |i, j| correlation.powi((i as i32 - j as i32).abs())).cholesky().unwrap().l()
}

/// `cov2cor(A A')` for a square Gaussian `A`, as a root.
fn random_correlation(p: usize, seed: u64) -> DMatrix<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(1000 + seed);
    let a = DMatrix::from_fn(p, p, |_, _| rng.sample::<f64, _>(StandardNormal));
    let mut root = a;
    root.row_iter_mut().for_each(|mut row| {
        let norm = row.norm();
        row /= norm;
    });
    root
}

#[test]
fn strongly_correlated_blocks_take_a_handful_of_rounds() {
    for (family, after, most) in
        [("gaussian", true, 9), ("gaussian", false, 3), ("binomial", true, 12), ("binomial", false, 4)]
    {
        for seed in 1..=5 {
            let simulated = Simulated::new(1000, (6, 6), &autoregressive(12, 0.97), family, seed);
            let [alice, _] = simulated.with_errors_after(after).run();
            assert_eq!(alice.termination, Termination::Converged);
            println!("{family} {after} seed {seed}: {} rounds", alice.rounds);
            assert!(alice.rounds <= most, "{family} {after} seed {seed}: {} rounds", alice.rounds);
        }
    }
}

#[test]
fn blocks_with_a_random_correlation_take_about_as_many_rounds_as_columns() {
    for (family, after, most) in
        [("gaussian", true, 40), ("gaussian", false, 3), ("binomial", true, 45), ("binomial", false, 4)]
    {
        let mut rounds: Vec<u32> = (1..=10)
            .map(|seed| {
                let simulated = Simulated::new(3000, (30, 30), &random_correlation(60, seed), family, seed);
                let [alice, _] = simulated.with_errors_after(after).run();
                assert_eq!(alice.termination, Termination::Converged);
                alice.rounds
            })
            .collect();
        rounds.sort_unstable();
        println!("{family} {after}: {rounds:?}");
        assert!(rounds[5] <= most, "{family} {after}: {rounds:?}");
    }
}

#[test]
fn a_basis_that_comes_in_parts_gives_the_errors_of_the_pooled_columns() {
    let (n, p) = (150_000, 30);
    for after in [false, true] {
        let simulated = Simulated::new(n, (15, 15), &random_correlation(p, 3), "gaussian", 3).with_errors_after(after);
        let (x, y) = simulated.pooled.clone();
        let x = x.insert_column(0, 1.0);
        let y = DVector::from_vec(y);
        let inverse = (x.transpose() * &x).try_inverse().unwrap();
        let beta = &inverse * (x.transpose() * &y);
        let dispersion = (&y - &x * &beta).norm_squared() / (n - p - 1) as f64;
        let mut parts = 0;
        let count = |_, message: &Message| parts += usize::from(message.body.kind() == "a part of the basis");
        for fit in simulated.run_with(count) {
            for (j, row) in fit.coefficients.iter().enumerate() {
                let error = (dispersion * inverse[(j, j)]).sqrt();
                assert!(
                    (row.estimate.unwrap() - beta[j]).abs() < 1e-8 * error.max(beta[j].abs()),
                    "{row:?} {}",
                    beta[j]
                );
                assert!((row.std_error.unwrap() / error - 1.0).abs() < 1e-9, "{row:?} {error}");
            }
        }
        assert_eq!(parts, 2);
    }
}

#[test]
fn a_party_all_of_whose_columns_depend_on_the_other_s_is_left_without_any_by_both() {
    for sender in [Role::Alice, Role::Bob] {
        for family in ["gaussian", "binomial"] {
            let mut simulated = Simulated::new(400, (2, 1), &DMatrix::identity(3, 3), family, 3);
            let (x, y) = &simulated.pooled;
            let doubled: Vec<f64> = x.column(1).iter().map(|value| 2.0 * value).collect();
            simulated.bob = numeric(&["x2".to_string(), "y".to_string()], &[&doubled, y]);
            simulated.study.method.intercept = false;
            simulated.study.method.inference.sender = Some(sender);
            for fit in simulated.run() {
                let errors: Vec<bool> = fit.coefficients.iter().map(|row| row.std_error.is_some()).collect();
                assert_eq!(
                    (fit.termination, errors),
                    (Termination::CollinearAcrossParties, vec![true, true, false]),
                    "{sender} {family}"
                );
            }
        }
    }
}

fn diabetes() -> Case {
    vectors::all::<Glm>("glm").into_iter().map(|glm| glm.case).find(|case| case.name == "gaussian_diabetes").unwrap()
}

fn admissions() -> Case {
    vectors::all::<Glm>("glm").into_iter().map(|glm| glm.case).find(|case| case.name == "binomial_admissions").unwrap()
}

fn bits(fit: &VerticalFit) -> Vec<Option<u64>> {
    fit.coefficients.iter().flat_map(|row| [row.estimate, row.std_error]).map(|value| value.map(f64::to_bits)).collect()
}

#[test]
fn small_cases_take_exactly_these_messages() {
    // The exchange after the first round puts the fit at its end; the first round after it is the minimum, and the second shows that it is.
    // Where Bob sends, Alice's intercept lacks the part that his means are, which takes a round more.
    for (more, rounds, messages) in
        [("", 3, 19), ("[inference]\nsender = \"bob\"\n", 4, 21), ("[inference]\nwhen = \"after\"\n", 7, 27)]
    {
        let mut kinds: Vec<&'static str> = Vec::new();
        let mut values = 0;
        let study = study(&diabetes(), more);
        let ended = run_with(&study, &diabetes().file(), Faults::NONE, Policy::default(), |_, message| {
            kinds.push(message.body.kind());
            if let Body::Partial(partial) = &message.body {
                values += partial.values.len();
            }
        });
        let sent = ended.sent;
        let [alice, bob] = fitted(ended);
        let partials = kinds.iter().filter(|kind| **kind == "partial predictions").count();
        let bases = kinds.iter().filter(|kind| **kind == "a part of the basis").count();
        assert_eq!((alice.rounds, bob.rounds), (rounds, rounds), "{kinds:?}");
        assert_eq!((partials, bases, sent), (2 * rounds as usize, 1, messages), "{kinds:?}");
        assert_eq!(values, 442 * partials);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]
    #[test]
    fn a_lossy_line_gives_the_same_bits_as_a_clean_line(
        drop in 0.0..0.4_f64, duplicate in 0.0..0.4_f64, reorder in 0.0..0.4_f64, seed: u64, which in 0_usize..4
    ) {
        let case = if which == 0 { admissions() } else { diabetes() };
        let more = ["", "", "[penalty]\nlambda = [10.0, 1.0]\n", "[penalty]\nlambda = [10.0, 1.0]\ncv = 5\n"][which];
        // Every copy of a message gets an answer, and long conversations have many.
        let duplicate = if which == 3 { 0.25 * duplicate } else { duplicate };
        let study = study(&case, more);
        let clean = fitted(run(&study, &case.file(), Faults::NONE));
        let lossy = fitted(run(&study, &case.file(), Faults { drop, duplicate, reorder, seed }));
        for (clean, lossy) in clean.iter().zip(&lossy) {
            prop_assert_eq!(bits(clean), bits(lossy));
            prop_assert_eq!(clean, lossy);
        }
    }
}

#[test]
fn an_outcome_that_alice_alone_holds_gives_the_same_fit() {
    for (case, more) in [
        (diabetes(), ""),
        (admissions(), ""),
        (diabetes(), "[penalty]\nlambda = \"path\"\nalpha = 0.5\ncv = 5\n"),
        (diabetes(), "[penalty]\nlambda = [3.0, 1.0]\nalpha = 0.0\ncv = 4\n"),
    ] {
        let shared = fitted(run(&study(&case, more), &case.file(), Faults::NONE));
        let alone = fitted(run(&study_at_alice(&case, more), &case.file(), Faults::NONE));
        for (shared, alone) in shared.iter().zip(&alone) {
            assert_eq!(shared.lambda.is_some(), alone.lambda.is_some());
            for (a, b) in shared.coefficients.iter().zip(&alone.coefficients) {
                let (a, b) = (a.estimate.unwrap(), b.estimate.unwrap());
                assert!(
                    (a - b).abs() <= 1e-7 * a.abs().max(1e-2),
                    "{} {more}: {a} {b} {:?} {:?}",
                    case.name,
                    shared.lambda,
                    alone.lambda
                );
            }
            if let (Some(a), Some(b)) = (shared.lambda, alone.lambda) {
                assert!((a.0 - b.0).abs() < 1e-9 && (a.1 - b.1).abs() < 1e-9, "{a:?} {b:?}");
            }
        }
    }
}

#[test]
fn either_party_may_send_the_basis_and_either_may_dial() {
    for case in
        vectors::all::<Glm>("glm").iter().map(|glm| &glm.case).filter(|case| !case.is("fewer_rows_than_columns"))
    {
        let from_alice = fitted(run(&study(case, ""), &case.file(), Faults::NONE));
        let from_bob = Arc::new(study(case, "[inference]\nsender = \"bob\"\n"));
        let open = |role: Role| {
            let frame = frame(&from_bob, role, &case.file());
            let prepared = Prepared::new(Arc::clone(&from_bob), role, Policy::default(), frame).unwrap();
            VerticalSession::new(
                prepared,
                Opening { first: role == Role::Bob, run: RunId([7; 16]), seed: [3; 32], peer: role.partner() },
            )
        };
        let ended = pair::run(&mut open(Role::Bob), &mut open(Role::Alice), Faults::NONE, |_, _| {});
        let [bob, alice] = fitted(ended);
        for (a, b) in from_alice.iter().zip([&alice, &bob]) {
            assert_eq!(a.termination, b.termination, "{}", case.name);
            for (a, b) in a.coefficients.iter().zip(&b.coefficients) {
                let (Some(e), Some(f), Some(s), Some(t)) = (a.estimate, b.estimate, a.std_error, b.std_error) else {
                    assert_eq!(a.estimate.is_some(), b.estimate.is_some(), "{} {}", case.name, a.term);
                    continue;
                };
                let off = (e - f).abs() / e.abs().max(1e-3 * s) + (s - t).abs() / s;
                assert!(off < 1e-7, "{} {}: {e} {f} {s} {t}", case.name, a.term);
            }
        }
    }
}

#[test]
fn studies_that_differ_end_before_any_data_are_touched_and_name_the_keys() {
    let case = diabetes();
    let ours = Arc::new(study(&case, ""));
    let theirs = Arc::new(study(&case, "[fit]\ntol = 1e-6\n"));
    let mut alice = session(&ours, Role::Alice, Policy::default(), frame(&ours, Role::Alice, &case.file())).unwrap();
    let mut bob = session(&theirs, Role::Bob, Policy::default(), frame(&theirs, Role::Bob, &case.file())).unwrap();
    let Ok(Turn::Send(hello)) = alice.start() else { panic!("alice speaks first") };
    assert!(matches!(hello.value().body, Body::Hello(_)));
    let abort = bob.receive(Role::Alice, hello.into()).unwrap_err();
    assert_eq!(abort, Abort::Study { keys: vec!["fit.tol".to_string()], with: Role::Alice });
    assert_eq!(abort.exit(), Exit::Refused);
}

/// Runs Alice against a Bob whose messages `tamper` changes; the first abort on either side.
fn tampered(more: &str, tamper: impl FnMut(&mut Message)) -> Abort {
    tampered_of(Role::Bob, more, tamper)
}

/// The same with changed messages of either party.
fn tampered_of(liar: Role, more: &str, mut tamper: impl FnMut(&mut Message)) -> Abort {
    let case = diabetes();
    let study = Arc::new(study(&case, more));
    let open = |role| session(&study, role, Policy::default(), frame(&study, role, &case.file())).unwrap();
    let (mut alice, mut bob) = (open(Role::Alice), open(Role::Bob));
    let mut turn = alice.start();
    let mut speaker = Role::Alice;
    loop {
        let mut message: Message = match turn {
            Ok(Turn::Send(said) | Turn::FinishAndSend { last: said, .. }) => said.into(),
            Ok(_) => panic!("{speaker} ended without an abort"),
            Err(abort) => return abort,
        };
        if speaker == liar {
            tamper(&mut message);
        }
        let hearer = if speaker == Role::Alice { &mut bob } else { &mut alice };
        turn = hearer.receive(speaker, message);
        speaker = speaker.partner();
    }
}

#[test]
fn a_peer_that_breaks_the_protocol_is_refused_with_the_reason() {
    let partial = |change: fn(&mut Partial)| {
        move |message: &mut Message| {
            if let Body::Partial(partial) = &mut message.body {
                change(partial);
            }
        }
    };
    let fault = |abort: Abort| match abort {
        Abort::Peer { peer: Role::Bob, fault } => fault,
        other => panic!("{other}"),
    };
    let too_many = fault(tampered("", partial(|partial| partial.values.push(0.0))));
    assert_eq!(too_many, PeerFault::Length { what: "partial predictions", came: 443, expected: 442 });
    let too_few = fault(tampered("", partial(|partial| partial.values.truncate(1))));
    assert_eq!(too_few, PeerFault::Length { what: "partial predictions", came: 1, expected: 442 });
    for bad in [f64::NAN, f64::INFINITY, 1e300] {
        let refused = fault(tampered("", move |message| {
            if let Body::Partial(partial) = &mut message.body {
                partial.values[3] = bad;
            }
        }));
        assert!(matches!(refused, PeerFault::Value { what: "partial predictions", .. }), "{refused}");
    }
    let round = fault(tampered("", partial(|partial| partial.round += 1)));
    assert_eq!(round, PeerFault::Round { came: 2, expected: 1 });
    let ahead = fault(tampered("", |message| message.header.sequence += 2));
    assert_eq!(ahead, PeerFault::Ahead { came: 3, expected: 1 });
    let foreign = fault(tampered("", |message| message.header.run = RunId([9; 16])));
    assert_eq!(foreign, PeerFault::Foreign { what: "run" });
    let sender = fault(tampered("", |message| message.header.sender = Role::Alice));
    assert_eq!(sender, PeerFault::Foreign { what: "sender" });
    let kind = fault(tampered("", |message| {
        if matches!(message.body, Body::Rows(_)) {
            message.body = Body::Go;
        }
    }));
    assert_eq!(kind, PeerFault::Kind { came: "a go-ahead", expected: "a proof of rows" });
    let table = fault(tampered("", |message| {
        if let Body::Table(table) = &mut message.body {
            table.score.pop();
        }
    }));
    assert!(matches!(table, PeerFault::Length { what: "a projection table", .. }), "{table}");
    let basis = fault(tampered("[inference]\nsender = \"bob\"\n", |message| {
        if let Body::Basis(basis) = &mut message.body {
            basis.values[0] = 17.0;
        }
    }));
    assert!(matches!(basis, PeerFault::Value { what: "a basis", .. }), "{basis}");
    for name in ["age", "=cmd|' /C calc'!A0"] {
        let term = fault(tampered("", |message| {
            if let Body::Results(results) = &mut message.body {
                results.coefficients.as_mut().unwrap()[0].term = name.to_string();
            }
        }));
        assert_eq!(term, PeerFault::Term { came: name.to_string() });
    }
}

/// Four folds of a path: with the fits to all rows five lanes.
const FOLDS: &str = "[penalty]\nlambda = \"path\"\nalpha = 0.5\ncv = 4\n";

#[test]
fn folds_take_their_course_side_by_side() {
    let several = "fits of several folds";
    // By tables, and by one value a row: without a basis.
    for (case, more) in [(diabetes(), ""), (diabetes(), "[inference]\nallowed = false\n"), (admissions(), "")] {
        let count = |penalty: &str, kind: &str| {
            let mut kinds: Vec<&'static str> = Vec::new();
            let study = study(&case, &format!("{penalty}{more}"));
            let ended = run_with(&study, &case.file(), Faults::NONE, Policy::default(), |_, message| {
                kinds.push(message.body.kind());
            });
            let [alice, bob] = fitted(ended);
            assert_eq!(alice.rounds, bob.rounds);
            (kinds.iter().filter(|said| **said == kind).count(), alice.rounds as usize)
        };
        let ((messages, rounds), (alone, rounds_alone)) =
            (count(FOLDS, several), count(&FOLDS.replace("cv = 4\n", ""), "partial predictions"));
        // Each fold takes about as many rounds as all rows; side by side they wait for the line about as often as these alone.
        assert_eq!((messages, alone), (2 * rounds + 1, 2 * rounds_alone), "{} {more}", case.name);
        assert!(rounds >= rounds_alone && 2 * rounds < 3 * rounds_alone, "{} {more}: {rounds}", case.name);
    }
}

#[test]
fn a_peer_that_says_less_or_more_than_its_fits_of_folds_is_refused() {
    let fault = |change: &dyn Fn(&mut Folds)| {
        let abort = tampered(FOLDS, |message| {
            if let Body::Folds(folds) = &mut message.body {
                change(folds);
            }
        });
        let Abort::Peer { peer: Role::Bob, fault } = abort else { panic!("{abort}") };
        fault
    };
    let partial = |folds: &mut Folds, change: &dyn Fn(&mut Partial)| {
        let LaneSays::Partial(partial, _) = &mut folds.lanes[2].says else { panic!() };
        change(partial);
    };
    let others = PeerFault::Garbage("fits of other folds than those that are under way".to_string());
    assert_eq!(fault(&|folds| folds.lanes.truncate(4)), others);
    assert_eq!(fault(&|folds| folds.lanes.swap(1, 2)), others);
    assert_eq!(fault(&|folds| folds.lanes.push(folds.lanes[4].clone())), others);
    assert_eq!(fault(&|folds| folds.lanes[4].lane = u32::MAX), others);
    let columns = |fault: PeerFault| match fault {
        PeerFault::Length { what: "partial predictions", came, expected } => (came, expected),
        other => panic!("{other}"),
    };
    let (came, expected) = columns(fault(&|folds| folds.values.push(1.0)));
    assert_eq!((came, came % 5), (expected + 1, 1));
    columns(fault(&|folds| folds.values.truncate(1)));
    columns(fault(&|folds| {
        if let LaneSays::Partial(_, values) = &mut folds.lanes[0].says {
            *values = u64::MAX;
        }
    }));
    let bad = fault(&|folds| folds.values[0] = f64::INFINITY);
    assert!(matches!(bad, PeerFault::Value { what: "partial predictions", .. }), "{bad}");
    let round = fault(&|folds| partial(folds, &|partial| partial.round += 1));
    assert!(matches!(round, PeerFault::Round { .. }), "{round}");
    let fit = fault(&|folds| partial(folds, &|partial| partial.fit += 1));
    assert!(matches!(fit, PeerFault::Round { .. }), "{fit}");
    // Only the leader ends fits, here Alice.
    let ended = LaneSays::Ended(Ended { termination: Termination::Converged, rounds: 1, again: false });
    let ends = fault(&|folds| folds.lanes[1].says = ended.clone());
    assert!(matches!(ends, PeerFault::Kind { came: "fits of several folds", .. }), "{ends}");
    // Fits that are not side by side, and the other way round.
    let single = tampered("", |message| {
        if let Body::Partial(partial) = &message.body {
            let lane = Lane { lane: 0, says: LaneSays::Partial(partial.clone(), 0) };
            message.body = Body::Folds(Folds { lanes: vec![lane], values: Vec::new() });
        }
    });
    assert!(single.to_string().contains("fits of several folds"), "{single}");
    let alone = tampered(FOLDS, |message| {
        if let Body::Folds(folds) = &message.body {
            let LaneSays::Partial(partial, _) = &folds.lanes[0].says else { return };
            message.body = Body::Partial(partial.clone());
        }
    });
    assert!(alone.to_string().contains("partial predictions"), "{alone}");
}

#[test]
fn a_leader_that_has_a_fit_go_on_without_an_exchange_or_time_and_again_is_refused() {
    let again = |more: &str| {
        tampered_of(Role::Alice, more, |message| {
            if let Body::Ended(ended) = &mut message.body {
                ended.again = true;
            }
        })
    };
    let refused = Abort::Peer {
        peer: Role::Alice,
        fault: PeerFault::Value { what: "the end of the iteration", expected: "possible", round: 0 },
    };
    for more in ["[inference]\nallowed = false\n", "[penalty]\nlambda = [1.0]\n"] {
        assert_eq!(again(more), refused, "{more}");
    }
    // Nor may it end converged before the exchange that comes first.
    let early = tampered_of(Role::Alice, "", |message| {
        if let Body::Ended(ended) = &mut message.body {
            (ended.again, ended.termination) = (false, Termination::Converged);
        }
    });
    assert_eq!(early, refused);
    // Alice herself takes her fit for ended: after the exchange she awaits results, and gets partial predictions or a call to go on.
    let abort = again("[inference]\nwhen = \"after\"\n");
    assert!(matches!(abort, Abort::Peer { fault: PeerFault::Kind { .. }, .. }), "{abort}");
}

#[test]
fn covariances_that_cannot_be_true_are_the_fault_of_the_peer() {
    type Twist = fn(&mut Vec<f64>);
    let twists: [(&str, Twist); 5] = [
        ("a length", |values| values.truncate(values.len() - 1)),
        ("finite", |values| values[1] = f64::NAN),
        ("those of the standard errors", |values| values[0] *= 1.01),
        ("those of the standard errors", |values| values[0] = -values[0]),
        ("those of the standard errors", |values| values[1] += 1e6),
    ];
    for sender in ["alice", "bob"] {
        for (expected, twist) in twists {
            let more = format!("[inference]\ncovariance = \"shared\"\nsender = \"{sender}\"\n");
            let abort = tampered(&more, |message| {
                if let Body::Joint(joint) = &mut message.body {
                    twist(&mut joint.values);
                }
            });
            match abort {
                Abort::Peer { peer: Role::Bob, fault: PeerFault::Length { .. } } if expected == "a length" => {}
                Abort::Peer { peer: Role::Bob, fault: PeerFault::Value { expected: known, .. } } => {
                    assert_eq!(known, expected, "{sender}");
                }
                other => panic!("{sender} {expected}: {other}"),
            }
        }
    }
}

#[test]
fn a_fit_against_a_prediction_is_refused_at_the_greeting() {
    let refused = tampered("", |message| {
        if let Body::Hello(hello) = &mut message.body {
            hello.purpose = Purpose::Predict;
        }
    });
    assert_eq!(refused.exit(), Exit::Refused);
    assert_eq!(refused.to_string(), "alice runs `fit` and bob runs `predict`: start the same command on both sides");
}

#[test]
fn a_repeat_with_other_content_is_refused_and_an_honest_one_gets_the_same_bytes() {
    let case = diabetes();
    let study = Arc::new(study(&case, ""));
    let open = |role| session(&study, role, Policy::default(), frame(&study, role, &case.file())).unwrap();
    let (mut alice, mut bob) = (open(Role::Alice), open(Role::Bob));
    let Ok(Turn::Send(first)) = alice.start() else { panic!("alice speaks first") };
    let first: Message = first.into();
    let Ok(Turn::Send(answer)) = bob.receive(Role::Alice, first.clone()) else { panic!("bob answers") };
    let Ok(Turn::Send(again)) = bob.receive(Role::Alice, first.clone()) else { panic!("bob answers again") };
    assert!(answer == again);
    let mut changed = first;
    if let Body::Hello(hello) = &mut changed.body {
        hello.keys.pop();
    }
    let abort = bob.receive(Role::Alice, changed).unwrap_err();
    assert_eq!(abort, Abort::Peer { peer: Role::Alice, fault: PeerFault::Changed { sequence: 0 } });
}

#[test]
fn rows_and_shared_columns_that_differ_end_the_run_before_anything_leaves() {
    let case = diabetes();
    let text = std::fs::read_to_string(case.file()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, lines: &[String]| {
        let file = folder.path().join(name);
        std::fs::write(&file, lines.join("\n")).unwrap();
        file
    };
    let all: Vec<String> = lines.iter().map(|line| line.to_string()).collect();
    let fewer = write("fewer.csv", &all[..all.len() - 1]);
    let mut other_id = all.clone();
    other_id[5] = other_id[5].replacen("p", "q", 1);
    let other_id = write("other_id.csv", &other_id);
    let outcome = all[0].split(',').position(|name| name == case.outcome).unwrap();
    let mut other_outcome = all.clone();
    let mut cells: Vec<&str> = other_outcome[7].split(',').collect();
    cells[outcome] = "99999";
    other_outcome[7] = cells.join(",");
    let other_outcome = write("other_outcome.csv", &other_outcome);
    let study = Arc::new(study(&case, "[rows]\nid = \"id\"\n"));
    for (file, said) in [
        (fewer, "different rows: bob has 441, alice has 442"),
        (other_id, "different ids"),
        (other_outcome, "the outcome `progression` differs"),
    ] {
        let mut alice =
            session(&study, Role::Alice, Policy::default(), frame(&study, Role::Alice, &case.file())).unwrap();
        let mut bob = session(&study, Role::Bob, Policy::default(), frame(&study, Role::Bob, &file)).unwrap();
        let mut predictions = 0;
        let ended = pair::run(&mut alice, &mut bob, Faults::NONE, |_, message: &Message| {
            predictions += usize::from(matches!(message.body, Body::Partial(_)));
        });
        let abort = ended.results.into_iter().flatten().find_map(|result| match result {
            Err(abort @ Abort::Data(_)) => Some(abort),
            _ => None,
        });
        let abort = abort.expect("the run ends");
        assert!(abort.to_string().contains(said), "{abort}");
        assert_eq!((abort.exit(), predictions), (Exit::Data, 0));
    }
}

#[test]
fn row_order_does_not_matter_where_there_are_ids() {
    let case = diabetes();
    let text = std::fs::read_to_string(case.file()).unwrap();
    let (header, rows) = text.split_once('\n').unwrap();
    let mut shuffled: Vec<&str> = rows.lines().collect();
    shuffled.reverse();
    shuffled.swap(3, 200);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shuffled.csv");
    std::fs::write(&file, format!("{header}\n{}\n", shuffled.join("\n"))).unwrap();
    let study = Arc::new(study(&case, "[rows]\nid = \"id\"\n"));
    let straight = fitted(run(&study, &case.file(), Faults::NONE));
    let mut alice = session(&study, Role::Alice, Policy::default(), frame(&study, Role::Alice, &file)).unwrap();
    let mut bob = session(&study, Role::Bob, Policy::default(), frame(&study, Role::Bob, &case.file())).unwrap();
    let mixed = fitted(pair::run(&mut alice, &mut bob, Faults::NONE, |_, _: &Message| {}));
    assert_eq!(bits(&straight[0]), bits(&mixed[0]));
}

#[test]
fn the_policy_stops_the_run_before_the_message_that_would_show_too_much() {
    let case = diabetes();
    let policy = Policy { max_disclosure: Some(0.9), ..Policy::default() };
    let mut shown = 0;
    let ended = run_with(&study(&case, ""), &case.file(), Faults::NONE, policy, |_, message| {
        shown += usize::from(matches!(message.body, Body::Partial(_)));
    });
    let aborts: Vec<Abort> = ended.results.into_iter().flatten().filter_map(Result::err).collect();
    assert!(aborts.iter().any(|abort| abort.to_string().contains("reconstruct")), "{aborts:?}");
    assert!(aborts.iter().any(|abort| abort.exit() == Exit::Refused));
    assert!(shown > 0);
    let policy = Policy { max_rounds: Some(2), ..Policy::default() };
    let ended = run_with(&study(&case, ""), &case.file(), Faults::NONE, policy, |_, _| {});
    assert!(ended.results.iter().flatten().any(|result| matches!(result, Err(Abort::Policy { .. }))));
}

#[test]
fn an_outcome_that_alice_holds_alone_is_counted_before_any_of_it_leaves() {
    let case = diabetes();
    let start = |study: &Study<Vertical>, policy: Policy| {
        let study = Arc::new(study.clone());
        let frame = frame(&study, Role::Alice, &case.file());
        session(&study, Role::Alice, policy, frame).err().map(|abort| (abort.exit(), abort.to_string()))
    };
    let held = |more: &str| study_at_alice(&case, more);
    let path = held("[penalty]\nlambda = \"path\"\n");
    let within = held("");
    let limited = Policy { max_disclosure: Some(0.5), ..Policy::default() };
    let forbidden = Policy { allow_outcome: false, ..Policy::default() };
    // A path begins with every value of the outcome less its mean; families other than gaussian with every value.
    let mut counts = path.clone();
    counts.method.family = fedreg_common::glm::Family::Poisson;
    counts.method.penalty = None;
    for (study, policy) in [(&path, &limited), (&path, &forbidden), (&counts, &limited), (&within, &forbidden)] {
        let (exit, sentence) = start(study, policy.clone()).expect("refused before the session begins");
        assert_eq!(exit, Exit::Refused);
        assert!(sentence.contains("`progression`"), "{sentence}");
    }
    assert_eq!(start(&within, limited), None);
    assert_eq!(start(&study(&case, ""), forbidden), None, "what both hold does not leave");
    assert!(path.disclosures(Role::Alice).allows(Declaration::Outcome));

    // The first partial prediction shows the outcome up to the residual of Alice's own fit.
    let mut shown = 0;
    let tight = Policy { max_disclosure: Some(0.3), ..Policy::default() };
    let ended = run_with(&within, &case.file(), Faults::NONE, tight, |from, message| {
        shown +=
            usize::from(from == 0 && matches!(&message.body, Body::Partial(partial) if !partial.values.is_empty()));
    });
    assert!(ended.results.iter().flatten().any(|result| matches!(result, Err(Abort::Policy { who: Role::Alice, .. }))));
    assert_eq!(shown, 0);
    let [alice, bob] = fitted(run(&within, &case.file(), Faults::NONE));
    let share = |fit: &VerticalFit, term: &str| {
        fit.disclosure.columns.iter().find(|column| column.term == term).map(|column| column.share)
    };
    assert!(share(&alice, "progression").unwrap() > 1.0 - 1e-9, "{:?}", alice.disclosure);
    assert_eq!(share(&bob, "progression"), None);
    assert!(!alice.disclosure.declared.iter().any(|kind| kind.contains("new rows")), "{:?}", alice.disclosure);
}

#[test]
fn a_policy_against_the_basis_leaves_standard_errors_undefined_and_says_why() {
    let case = diabetes();
    let policy = Policy { allow_basis: false, ..Policy::default() };
    let mut bases = 0;
    let ended = run_with(&study(&case, ""), &case.file(), Faults::NONE, policy, |_, message| {
        bases += usize::from(matches!(message.body, Body::Basis(_)));
    });
    for fit in fitted(ended) {
        assert!(fit.coefficients.iter().all(|row| row.estimate.is_some() && row.std_error.is_none()));
        assert!(fit.notes.iter().any(|note| note.contains("does not allow the basis exchange")), "{:?}", fit.notes);
        assert!(fit.disclosure.rank < 6, "{:?}", fit.disclosure);
    }
    assert_eq!(bases, 0);
}

#[test]
fn own_coefficients_stay_with_their_owner_when_the_study_says_so() {
    let case = diabetes();
    let ended = run_with(
        &study(&case, "[fit]\ncoefficients = \"own\"\n"),
        &case.file(),
        Faults::NONE,
        Policy::default(),
        |_, message| {
            if let Body::Results(results) = &message.body {
                assert!(results.coefficients.is_none());
            }
        },
    );
    for (fit, role) in fitted(ended).iter().zip([Role::Alice, Role::Bob]) {
        assert!(fit.coefficients.iter().all(|row| row.party == role && row.std_error.is_some()));
    }
}

#[test]
fn the_round_limit_is_named_and_the_fit_is_not_called_converged() {
    let case = diabetes();
    let more = "[fit]\nmax_rounds = 2\n";
    for fit in fitted(run(&study(&case, more), &case.file(), Faults::NONE)) {
        assert_eq!((fit.termination, fit.rounds), (Termination::MaxRounds, 2));
        assert!(fit.coefficients.iter().all(|row| row.std_error.is_none()));
    }
}

#[test]
fn more_coefficients_than_rows_are_refused_without_a_penalty() {
    let case =
        vectors::all::<Glm>("glm").into_iter().map(|glm| glm.case).find(|case| case.is("fewer_rows_than_columns"));
    let case = case.unwrap();
    let ended = run(&study(&case, ""), &case.file(), Faults::NONE);
    let aborts: Vec<Abort> = ended.results.into_iter().flatten().filter_map(Result::err).collect();
    let said = aborts.first().unwrap().to_string();
    assert!(said.contains("rows cannot determine"), "{said}");
    assert_eq!(said.matches(" of alice and ").count(), 1, "{said}");
    assert!(said.contains(" of bob; leave columns out"), "{said}");
    assert_eq!(aborts[0].exit(), Exit::Data, "{aborts:?}");
}

/// Two text columns of one party, each with far fewer levels than there are rows.
#[test]
fn a_party_alone_with_more_coefficients_than_rows_is_refused_when_it_reads_its_table() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("few.csv");
    let write = |levels: usize| {
        let rows =
            (0..40).map(|row| format!("u{},v{},{},{}\n", row % levels, row * 7 % levels, row % 9, (row * row) % 11));
        std::fs::write(&file, "u,v,x,y\n".to_owned() + &rows.collect::<String>()).unwrap();
    };
    let case = Case {
        name: "few".to_string(),
        tags: vec![],
        data: "".into(),
        outcome: "y".to_string(),
        family: "gaussian".to_string(),
        alice: vec!["u".to_string(), "v".to_string()],
        bob: vec!["x".to_string()],
        offset: None,
        weights: None,
        intercept: true,
    };
    let prepared = |more: &str, role| {
        let study = Arc::new(study(&case, more));
        let frame = frame(&study, role, &file);
        Prepared::new(study, role, Policy::default(), frame).map(|prepared| prepared.term_names().len())
    };
    write(25);
    let refused = prepared("", Role::Alice).unwrap_err().to_string();
    assert!(
        refused.ends_with(
            "40 rows cannot determine 49 coefficients, of which column `u` makes 24; leave columns out or use a penalty"
        ),
        "{refused}"
    );
    assert_eq!(prepared("", Role::Bob).unwrap(), 1);
    assert_eq!(prepared("[penalty]\nlambda = 0.1\n", Role::Alice).unwrap(), 48);
    write(20);
    assert_eq!(prepared("", Role::Alice).unwrap(), 38, "as many as rows can still be determined");
    write(40);
    let refused = prepared("[penalty]\nlambda = 0.1\n", Role::Alice).unwrap_err().to_string();
    assert!(
        refused.contains("column `u` has another text in each of 40 rows") && refused.contains("`rows.id = \"u\"`"),
        "{refused}"
    );
}

/// What each party gets of new rows in a file, whose models are those of a fit.
fn scored(study: &Arc<Study<Vertical>>, fits: &[VerticalFit; 2], file: &Path) -> [Option<Scores>; 2] {
    let open = |role: Role, model: &Model| {
        let header = read::header(file, None).unwrap();
        let header: Vec<&str> = header.iter().map(String::as_str).collect();
        let request = read::Request {
            columns: Some(needed_columns(study, role, &header).unwrap()),
            levels: levels(study, model, &header).unwrap(),
            unseen: true,
            ..Default::default()
        };
        let frame = read::read(file, &request).unwrap();
        let rows = NewRows::new(Arc::clone(study), role, model.clone(), frame).unwrap();
        PredictSession::new(
            rows,
            Opening { first: role == Role::Alice, run: RunId([1; 16]), seed: [5; 32], peer: role.partner() },
        )
    };
    let mut alice = open(Role::Alice, &fits[0].model);
    let mut bob = open(Role::Bob, &fits[1].model);
    pair::run(&mut alice, &mut bob, Faults::NONE, |_, _: &Message| {}).results.map(|result| result.unwrap().unwrap())
}

#[test]
fn new_rows_are_scored_jointly_for_the_named_party_only() {
    let mut count = 0;
    for glm in vectors::all::<Glm>("glm") {
        let (Some(expected), case) = (&glm.predictions, &glm.case) else {
            continue;
        };
        for to in ["alice", "bob"] {
            let study = Arc::new(study(case, &format!("[prediction]\nresult_to = {to:?}\n")));
            let fits = fitted(run(&study, &case.file(), Faults::NONE));
            let [alice, bob] = scored(&study, &fits, &vectors::folder().join(&expected.data));
            let (scores, other) = if to == "alice" { (alice, bob) } else { (bob, alice) };
            assert!(other.is_none());
            let scores = scores.unwrap();
            for (got, expected) in
                scores.link.iter().zip(&expected.link).chain(scores.response.iter().zip(&expected.response))
            {
                assert!((got - expected).abs() <= 1e-8 * expected.abs().max(1.0), "{}: {got} {expected}", case.name);
            }
            assert_eq!(scores.link.len(), expected.link.len());
            count += 1;
        }
    }
    assert!(count >= 4);
}

/// As `predict(fit, rows, na.action = na.pass)` in R: rows with gaps are NA, and the others have the numbers of the vectors.
#[test]
fn new_rows_with_a_gap_at_either_party_have_no_score_and_the_others_keep_theirs() {
    let folder = tempfile::tempdir().unwrap();
    let mut unseen = 0;
    for glm in vectors::all::<Glm>("glm") {
        let (Some(expected), case) = (&glm.predictions, &glm.case) else {
            continue;
        };
        let text = std::fs::read_to_string(vectors::folder().join(&expected.data)).unwrap();
        let mut lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        let place = |name: &str| lines[0].iter().position(|cell| *cell == name).unwrap();
        let (alice, bob) = (place(&case.alice[0]), place(&case.bob[0]));
        let mut gaps = vec![(1, alice, ""), (2, bob, "NA"), (3, alice, "NA"), (3, bob, "")];
        // A word where the fit had other words: a level that it did not have.
        let words = case.alice.iter().chain(&case.bob).map(|name| place(name));
        for at in words.filter(|at| lines[1..].iter().all(|row| row[*at].parse::<f64>().is_err())) {
            gaps.push((4, at, "nowhere"));
            unseen += 1;
        }
        for (row, column, cell) in &gaps {
            lines[*row][*column] = *cell;
        }
        let file = folder.path().join("new.csv");
        std::fs::write(&file, lines.iter().map(|cells| cells.join(",") + "\n").collect::<String>()).unwrap();
        let study = Arc::new(study(case, ""));
        let fits = fitted(run(&study, &case.file(), Faults::NONE));
        let [scores, _] = scored(&study, &fits, &file);
        let scores = scores.unwrap();
        let gone: std::collections::BTreeSet<usize> = gaps.iter().map(|(row, ..)| row - 1).collect();
        assert_eq!(scores.without(), gone.len());
        for row in 0..expected.link.len() {
            let got = [scores.link[row], scores.response[row]];
            if gone.contains(&row) {
                assert!(got.iter().all(|value| value.is_nan()), "{}: {got:?}", case.name);
                continue;
            }
            for (got, expected) in got.iter().zip([expected.link[row], expected.response[row]]) {
                assert!((got - expected).abs() <= 1e-8 * expected.abs().max(1.0), "{}: {got} {expected}", case.name);
            }
        }
    }
    assert!(unseen >= 2, "levels and truth values");
}

/// Each party has a formula of its own; the vectors are fits of the joint one by R, and its scores of new rows.
#[test]
fn formulas_with_functions_give_the_coefficients_and_the_scores_of_r() {
    let folder = vectors::folder().join("formulas");
    let text = std::fs::read_to_string(folder.join("formulas.json")).unwrap();
    let vectors: serde_json::Value = serde_json::from_str(&text).unwrap();
    let numbers =
        |of: &serde_json::Value| of.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect::<Vec<_>>();
    for case in vectors["fits"].as_array().unwrap() {
        let of = |key: &str| case[key].as_str().unwrap();
        for mode in ["plain", "sealed"] {
            let study = Study::parse(&format!(
                "id = \"formulas\"\nmode = \"{mode}\"\n[outcome]\ncolumn = {:?}\n[model]\nfamily = {:?}\n[parties.alice]\n\
                 certificate = \"alice\"\nformula = {:?}\n[parties.bob]\ncertificate = \"bob\"\nformula = {:?}\n",
                of("outcome"),
                of("family"),
                of("alice"),
                of("bob")
            ));
            let study = Arc::new(study.unwrap().vertical().unwrap());
            let file = folder.join("table.csv");
            let fits = fitted(match mode {
                "plain" => run(&study, &file, Faults::NONE),
                _ => run_sealed(&study, &file, Faults::NONE),
            });
            let terms: Vec<&str> =
                case["terms"].as_array().unwrap().iter().map(|term| term.as_str().unwrap()).collect();
            let estimates = numbers(&case["estimates"]);
            for (fit, role) in fits.iter().zip([Role::Alice, Role::Bob]) {
                let own = fit.model.terms.iter().map(|(term, estimate)| (term.as_str(), estimate.unwrap()));
                for (term, estimate) in own {
                    let at = terms.iter().position(|known| *known == term).unwrap_or_else(|| panic!("{role}: {term}"));
                    let distance = (estimate - estimates[at]).abs() / estimates[at].abs().max(1.0);
                    assert!(distance <= 1e-7, "{mode}, {term}: {estimate} {}", estimates[at]);
                }
            }
            let count: usize = fits.iter().map(|fit| fit.model.terms.len()).sum();
            assert_eq!(count + usize::from(study.method.intercept), terms.len());
            if mode == "plain" {
                let [scores, _] = scored(&study, &fits, &folder.join("fresh.csv"));
                for (got, expected) in scores.unwrap().link.iter().zip(numbers(&case["link"])) {
                    assert!((got - expected).abs() <= 1e-7 * expected.abs().max(1.0), "{got} {expected}");
                }
            }
        }
    }
}

#[test]
fn rows_of_which_none_can_be_used_have_no_scores_at_all() {
    let glm = vectors::all::<Glm>("glm").into_iter().find(|glm| glm.predictions.is_some()).unwrap();
    let study = Arc::new(study(&glm.case, ""));
    let fits = fitted(run(&study, &glm.case.file(), Faults::NONE));
    let file = tempfile::NamedTempFile::new().unwrap();
    let names: Vec<&str> = glm.case.alice.iter().chain(&glm.case.bob).map(String::as_str).collect();
    let gaps = vec![""; names.len()].join(",");
    let offset = study.method.offset.as_ref().map_or(String::new(), |offset| format!(",{}", offset.column));
    let zero = if offset.is_empty() { "" } else { ",0" };
    std::fs::write(file.path(), format!("{}{offset}\n{gaps}{zero}\n{gaps}{zero}\n", names.join(","))).unwrap();
    let [scores, _] = scored(&study, &fits, file.path());
    assert_eq!(scores.unwrap().without(), 2);
}

#[test]
fn models_of_different_runs_do_not_score_together() {
    let glm = vectors::all::<Glm>("glm").into_iter().find(|glm| glm.predictions.is_some()).unwrap();
    let study = Arc::new(study(&glm.case, ""));
    let fits = fitted(run(&study, &glm.case.file(), Faults::NONE));
    let mut other = fits[1].model.clone();
    other.run = "00".repeat(16);
    let file = glm.case.file();
    let open = |role: Role, model: &fedreg_common::methods::vertical::outcome::Model| {
        let rows = NewRows::new(Arc::clone(&study), role, model.clone(), frame(&study, role, &file)).unwrap();
        PredictSession::new(
            rows,
            Opening { first: role == Role::Alice, run: RunId([1; 16]), seed: [5; 32], peer: role.partner() },
        )
    };
    let ended = pair::run(
        &mut open(Role::Alice, &fits[0].model),
        &mut open(Role::Bob, &other),
        Faults::NONE,
        |_, _: &Message| {},
    );
    assert!(
        ended
            .results
            .into_iter()
            .flatten()
            .any(|result| matches!(result, Err(Abort::Data(said)) if said.contains("different runs")))
    );
}
