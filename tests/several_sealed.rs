//! Sealed fits of several parties over simulated lines: what leaves and opens, and what is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use fedreg_common::conversation::Opening;
use fedreg_common::exit::Exit;
use fedreg_common::id::Role;
use fedreg_common::methods::vertical::message::{Body, Dealt, Joint, JointKind, Message, Share};
use fedreg_common::methods::vertical::outcome::VerticalFit;
use fedreg_common::methods::vertical::prepare::{Policy, Prepared};
use fedreg_common::methods::vertical::sealed::allowed;
use fedreg_common::methods::vertical::several::Hub;
use fedreg_common::privacy::ledger::Before;
use fedreg_common::privacy::openings::{Account, NotOpened, OneRun, Opens};
use fedreg_common::secure::open::Limits;
use fedreg_common::secure::ring::{Elements, Width};
use fedreg_common::session::{Abort, PeerFault};
use fedreg_common::sim::dealer::dealer;
use fedreg_common::sim::pair::Faults;
use fedreg_common::sim::several::{run_several_dealt, run_spoiled};
use fedreg_common::study::{CoefficientTerms, Study, Vertical};
use fedreg_tests::several::{LOOSE, blocks, fitted, run_sealed, sealed_sessions, study_sealed, study_to_all};
use fedreg_tests::vectors::{self, Case, Glm};
use fedreg_tests::vertical::{RUN, frame};
use nalgebra::{DMatrix, DVector};

const ANNA: &str = "anna";
const BEN: &str = "ben";
const CLEO: &str = "cleo";

fn role(name: &str) -> Role {
    name.parse().unwrap()
}

fn case(name: &str) -> Case {
    vectors::all::<Glm>("glm").into_iter().find(|glm| glm.case.name == name).unwrap().case
}

/// A study of the columns of a case, whose tables open to the leader or to all.
type ToWhom = fn(&Case, &[&[String]], &str) -> Study<Vertical>;

const BOTH_WAYS: [(bool, ToWhom); 2] = [(false, study_sealed), (true, study_to_all)];

fn study_of(opens: ToWhom, case: &Case) -> Study<Vertical> {
    let blocks = blocks(case, 3);
    opens(case, &blocks.iter().map(Vec::as_slice).collect::<Vec<_>>(), "all")
}

fn study(case: &Case) -> Study<Vertical> {
    study_of(study_sealed, case)
}

/// Sums what a party lets open.
struct Sum(Arc<Mutex<u64>>);

impl Account for Sum {
    fn may_open(&mut self, opens: &Opens<'_>) -> Result<(), NotOpened> {
        OneRun.may_open(opens)
    }

    fn open(&mut self, opens: &Opens<'_>) -> Result<(), NotOpened> {
        *self.0.lock().unwrap() = opens.numbers;
        self.may_open(opens)
    }
}

#[test]
fn lossy_lines_give_the_bits_of_clean_ones_in_sealed_mode() {
    let cases = ["gaussian_diabetes", "gaussian_collinear_across", "gaussian_missing"];
    for (name, (_, opens)) in cases.into_iter().flat_map(|name| BOTH_WAYS.map(|way| (name, way))) {
        let case = case(name);
        let study = study_of(opens, &case);
        // As text, since a certificate that is no number is not equal to itself.
        let run = |faults| format!("{:?}", fitted(run_sealed(&study, &case.file(), faults, |_, _| {}, |_, _| {})));
        let clean = run(Faults::NONE);
        for seed in 0..5 {
            let faults = Faults { drop: 0.1, duplicate: 0.1, reorder: 0.05, seed };
            assert_eq!(run(faults), clean, "{name} {seed}");
        }
    }
}

/// What a message says, as far as its kind and its purpose go.
fn what(body: &Body) -> String {
    match body {
        Body::Share(Share { table: None, .. }) => "canaries".to_string(),
        Body::Share(Share { table: Some(_), .. }) => "shares of tables".to_string(),
        Body::Joint(Joint { what, .. }) => format!("{what:?}"),
        Body::Masked(_) => "masked".to_string(),
        Body::Results(_) => "results".to_string(),
        Body::Hello(_) | Body::Rows(_) | Body::Shared(_) | Body::Complete(_) | Body::Go => "agreement".to_string(),
        _ => "something else".to_string(),
    }
}

#[test]
fn nothing_but_masked_columns_shares_numbers_of_the_solution_and_results_leaves() {
    let cases = [("gaussian_diabetes", false), ("gaussian_collinear_across", true)];
    for ((name, asked), (to_all, opens)) in cases.into_iter().flat_map(|case| BOTH_WAYS.map(|way| (case, way))) {
        let case = case(name);
        let study = study_of(opens, &case);
        let (leader, mut said, mut elements) = (role(ANNA), BTreeMap::new(), BTreeMap::new());
        let observe = |to: Role, message: &Message| {
            let from = message.header.sender;
            assert!(from == leader || to == leader, "{from} speaks to {to}");
            said.entry((from == leader, to)).or_insert_with(BTreeSet::new).insert(what(&message.body));
            if let Body::Masked(masked) = &message.body {
                *elements.entry((from, to)).or_insert(0) += masked.entries.count();
            }
        };
        let fits = fitted(run_sealed(&study, &case.file(), Faults::NONE, observe, |_, _| {}));
        let of = |kinds: &[&str]| kinds.iter().map(|kind| kind.to_string()).collect::<BTreeSet<_>>();
        let up = of(&["agreement", "masked", "canaries", "shares of tables", "Means", "results"]);
        let down = of(&["agreement", "Columns", "masked", "canaries", "Answer", "results"]);
        for follower in [BEN, CLEO].map(role) {
            let mut down = down.clone();
            let told = &said[&(true, follower)];
            if to_all {
                down.insert("Tables".to_string());
            }
            if to_all && asked && told.contains("Reduced") {
                down.insert("Reduced".to_string());
            }
            if asked && told.contains("LeftOver") {
                down.insert("LeftOver".to_string());
            }
            assert_eq!(*told, down, "{name}: to {follower}");
        }
        let mut came = said[&(false, leader)].clone();
        assert_eq!(came.remove("Reduction"), asked, "{name}");
        assert_eq!(came, up, "{name}");
        let told = [BEN, CLEO].map(|follower| said[&(true, role(follower))].contains("Reduced"));
        assert_eq!(told.contains(&true), to_all && asked, "{name}");
        // Every block leaves once behind its mask, with a canary, and the leader hands each of the others all but its own.
        let rows = fits[0].statistics.nobs as usize;
        let own: Vec<usize> = blocks(&case, 3).iter().map(Vec::len).collect();
        if name == "gaussian_diabetes" {
            let wide = [own[0] + 2, own[1] + 1, own[2] + 1];
            for (at, follower) in [(1, BEN), (2, CLEO)] {
                let follower = role(follower);
                assert_eq!(elements[&(follower, leader)], rows * wide[at]);
                assert_eq!(elements[&(leader, follower)], rows * (wide.iter().sum::<usize>() - wide[at]));
            }
        }
    }
}

#[test]
fn what_opens_is_counted_number_by_number_and_stands_in_the_report() {
    let cases =
        ["gaussian_diabetes", "gaussian_collinear_across", "gaussian_duplicate_across", "gaussian_offset_no_intercept"];
    for (name, (to_all, opens)) in cases.into_iter().flat_map(|name| BOTH_WAYS.map(|way| (name, way))) {
        let case = case(name);
        let study = Arc::new(study_of(opens, &case));
        let parties = study.parties_in_order();
        let sums: Vec<Arc<Mutex<u64>>> = parties.iter().map(|_| Arc::default()).collect();
        let account = |role: Role| -> Box<dyn Account + Send> {
            let at = parties.iter().position(|party| *party == role).unwrap();
            Box::new(Sum(Arc::clone(&sums[at])))
        };
        let (mut hub, mut sessions) =
            sealed_sessions(&study, |role| frame(&study, role, &case.file()), LOOSE, account).unwrap();
        // Numbers in the clear that each party has said of its own columns, and its shares of tables. What the leader sends on of others
        // is theirs; what it says to several is the same.
        let mut said: BTreeMap<Role, u64> = BTreeMap::new();
        let (mut of_leader, mut sent_on) = (0, BTreeMap::new());
        let observe = |to: Role, message: &Message| {
            let numbers = match &message.body {
                Body::Share(Share { table: Some(table), .. }) => table.count(),
                Body::Joint(Joint { what: JointKind::Reduction, values }) => values.len() - 1,
                Body::Joint(Joint { what: JointKind::Columns, values }) => {
                    of_leader = ((values[0] + 1.0) * values[1..].iter().sum::<f64>()) as usize + 1;
                    0
                }
                Body::Joint(Joint { what: JointKind::Tables, values }) => {
                    let is_first = sent_on.is_empty();
                    sent_on.insert(to, values.clone());
                    if is_first { of_leader } else { 0 }
                }
                Body::Joint(Joint { what: JointKind::Reduced, .. }) => 0,
                Body::Joint(Joint { values, .. }) => values.len(),
                _ => 0,
            };
            *said.entry(message.header.sender).or_insert(0) += numbers as u64;
        };
        let deal = dealer(&study, RUN, |_, _| {});
        let fits: Vec<VerticalFit> = fitted(run_several_dealt(&mut hub, &mut sessions, Faults::NONE, observe, deal));
        assert_eq!(sent_on.len(), if to_all { 2 } else { 0 });
        assert!(sent_on.values().all(|values| Some(values) == sent_on.values().next()), "{name}");
        for ((fit, party), sum) in fits.iter().zip(&parties).zip(&sums) {
            let opened = &fit.disclosure.opened;
            let by_what: BTreeMap<&str, u64> = opened.iter().map(|opened| (&opened.what[..], opened.numbers)).collect();
            let listed: u64 = by_what.values().sum();
            assert_eq!(listed, *sum.lock().unwrap(), "{name} {party}: {opened:?}");
            assert_eq!(listed, said[party], "{name} {party}: {opened:?}");
            let told = opened.iter().map(|opened| opened.to);
            if to_all {
                // The tables of its columns to each of the others, and so which of them stay.
                for what in ["cross-products of", "which of"] {
                    let to: BTreeSet<Role> =
                        opened.iter().filter(|opened| opened.what.starts_with(what)).map(|opened| opened.to).collect();
                    assert!(to.len() == 2 || (to.is_empty() && what == "which of"), "{name} {party}: {opened:?}");
                }
                let share = |term: &str| fit.disclosure.columns.iter().find(|column| column.term == term);
                let terms = fit.coefficients.iter().filter(|row| row.party == *party && row.estimate.is_some());
                let terms: Vec<&str> = terms.map(|row| &row.term[..]).filter(|term| *term != "(Intercept)").collect();
                assert!(terms.iter().all(|term| share(term).is_some()), "{name} {party}: {:?}", fit.disclosure.columns);
                assert_eq!(told.clone().collect::<BTreeSet<_>>().len(), 2);
                continue;
            }
            match *party == parties[0] {
                true => assert!(told.clone().all(|to| to != parties[0]) && told.count() >= parties.len() - 1),
                false => assert!(told.clone().all(|to| to == parties[0]) && told.count() >= 2),
            }
        }
    }
}

/// Runs a fit of which `spoil` changes what the one says to the other; where it ends, and how.
fn spoiled(name: &str, spoil: impl FnMut(Role, Role, &mut Message)) -> (Role, Abort) {
    spoiled_of(&study(&case(name)), &case(name), spoil)
}

fn spoiled_of(study: &Study<Vertical>, case: &Case, mut spoil: impl FnMut(Role, Role, &mut Message)) -> (Role, Abort) {
    let spoil = |from: Role, to: Role, message: &mut Message| {
        spoil(from, to, message);
        None
    };
    let (at, abort) = followed(study, case, spoil).expect("the fit went to its end");
    (at, abort)
}

/// Runs a fit whose tables open to all, of which some messages come a second time as `again` has them; where it ends too early, and how.
fn told_twice(case: &Case, mut again: impl FnMut(Role, &Message) -> Option<Message>) -> (Option<Role>, Option<Abort>) {
    let study = study_of(study_to_all, case);
    match followed(&study, case, |_, to, message| again(to, message)) {
        Some((at, abort)) => (Some(at), Some(abort)),
        None => (None, None),
    }
}

/// Runs a fit of which messages are changed on their way, or followed by another; where it ends before its end, and how.
fn followed(
    study: &Study<Vertical>,
    case: &Case,
    spoil: impl FnMut(Role, Role, &mut Message) -> Option<Message>,
) -> Option<(Role, Abort)> {
    let study = Arc::new(study.clone());
    let (mut hub, mut followers) =
        sealed_sessions(&study, |role| frame(&study, role, &case.file()), LOOSE, |_| Box::new(OneRun)).unwrap();
    run_spoiled(&mut hub, &mut followers, dealer(&study, RUN, |_, _| {}), spoil)
}

fn changed(entries: &mut Elements) {
    let one = Elements::from_integers(entries.width(), &vec![1; entries.count()]);
    entries.add(&one).unwrap();
}

/// What is wrong, a piece of the sentence, in which fit, and how it is made wrong.
type Wrong = (&'static str, &'static str, &'static str, fn(&mut Body));

/// Changes what is said on one line and looks where the run ends, and whom the sentence names.
fn ends(cases: &[Wrong], parties: [&str; 3]) {
    ends_of(study_sealed, cases, parties);
}

fn ends_of(opens: ToWhom, cases: &[Wrong], [from, to, named]: [&str; 3]) {
    for (what, says, name, spoil) in cases {
        let case = case(name);
        let (at, abort) = spoiled_of(&study_of(opens, &case), &case, |sender, receiver, message| {
            if sender.name() == from && receiver.name() == to {
                spoil(&mut message.body);
            }
        });
        let Abort::Peer { peer, .. } = &abort else { panic!("{what}: {abort}") };
        assert_eq!((at.name(), peer.name()), (to, named), "{what}: {abort}");
        assert!(abort.to_string().contains(says), "{what}: {abort}");
        assert_eq!(abort.exit(), Exit::Peer, "{what}");
    }
}

const DIABETES: &str = "gaussian_diabetes";
const DEPENDENT: &str = "gaussian_collinear_across";

fn of_masked(body: &mut Body, change: impl FnOnce(&mut Elements, &mut u64)) {
    if let Body::Masked(masked) = body {
        change(&mut masked.entries, &mut masked.first);
    }
}

fn of_table(body: &mut Body, change: impl FnOnce(&mut Option<Elements>)) {
    if let Body::Share(Share { table, .. }) = body
        && table.is_some()
    {
        change(table);
    }
}

fn of_canary(body: &mut Body, change: impl FnOnce(&mut Share)) {
    if let Body::Share(share) = body
        && share.table.is_none()
    {
        change(share);
    }
}

fn of_joint(body: &mut Body, kind: JointKind, change: impl FnOnce(&mut Vec<f64>)) {
    if let Body::Joint(Joint { what, values }) = body
        && *what == kind
    {
        change(values);
    }
}

#[test]
fn what_a_follower_may_not_say_in_sealed_mode_ends_the_run_with_its_name() {
    let cases: [Wrong; 13] = [
        ("a column less", "values of masked columns", DIABETES, |body| {
            of_masked(body, |entries, _| *entries = entries.slice(442..entries.count()))
        }),
        ("elements of another ring", "values of masked columns", DIABETES, |body| {
            of_masked(body, |entries, _| *entries = Elements::zeros(Width::One, entries.count()))
        }),
        ("another place", "row block", DIABETES, |body| of_masked(body, |_, first| *first += 1)),
        ("canaries in place of columns", "expected masked columns", DIABETES, |body| {
            if let Body::Masked(masked) = body {
                *body = Body::Share(Share { canary: masked.entries.slice(0..2), table: None });
            }
        }),
        ("one canary", "values of shares of canaries", DIABETES, |body| {
            of_canary(body, |share| share.canary = share.canary.slice(0..1))
        }),
        ("canaries with a table", "expected shares of canaries", DIABETES, |body| {
            of_canary(body, |share| share.table = Some(share.canary.clone()))
        }),
        ("a canary that is not right", "out of step", DIABETES, |body| {
            of_canary(body, |share| changed(&mut share.canary))
        }),
        ("no table", "expected shares of tables", DIABETES, |body| of_table(body, |table| *table = None)),
        ("a share less", "shares of tables", DIABETES, |body| {
            of_table(body, |table| *table = table.as_ref().map(|table| table.slice(1..table.count())))
        }),
        ("a share beyond what columns can give", "beyond its bound", DIABETES, |body| {
            of_table(body, |table| *table = table.as_ref().map(|table| Elements::zeros(table.width(), table.count())))
        }),
        ("one number too many", "values of means", DIABETES, |body| {
            of_joint(body, JointKind::Means, |values| values.push(0.0))
        }),
        ("means that are no numbers", "not finite", DIABETES, |body| {
            of_joint(body, JointKind::Means, |values| values[0] = f64::NAN)
        }),
        ("columns that stay and never were", "columns that stay", DEPENDENT, |body| {
            of_joint(body, JointKind::Reduction, |values| values[0] = 1e9)
        }),
    ];
    ends(&cases, [CLEO, ANNA, CLEO]);
    // Where its means are is said by all but the last.
    ends(
        &[("no place of the means", "values of means", DIABETES, |body| {
            of_joint(body, JointKind::Means, |values| values.truncate(2))
        })],
        [BEN, ANNA, BEN],
    );
}

#[test]
fn what_the_leader_may_not_say_in_sealed_mode_ends_the_run_with_its_name() {
    let cases: [Wrong; 14] = [
        ("columns of two of three", "values of columns of each party", DIABETES, |body| {
            of_joint(body, JointKind::Columns, |values| values.truncate(2))
        }),
        ("another number of own columns", "columns of each party", DIABETES, |body| {
            of_joint(body, JointKind::Columns, |values| {
                values[0] -= 1.0;
                values[2] += 1.0;
            })
        }),
        ("columns that do not add up", "columns of each party", DIABETES, |body| {
            of_joint(body, JointKind::Columns, |values| values[0] += 1.0)
        }),
        ("half a column", "columns of each party", DIABETES, |body| {
            of_joint(body, JointKind::Columns, |values| {
                values[0] += 0.5;
                values[1] -= 0.5;
            })
        }),
        ("no columns", "expected columns of each party", DIABETES, |body| {
            if let Body::Joint(Joint { what: what @ JointKind::Columns, .. }) = body {
                *what = JointKind::Answer;
            }
        }),
        ("a column less of another", "values of masked columns", DIABETES, |body| {
            of_masked(body, |entries, _| *entries = entries.slice(442..entries.count()))
        }),
        ("another place", "row block", DIABETES, |body| of_masked(body, |_, first| *first += 1)),
        ("one canary", "shares of canaries", DIABETES, |body| {
            of_canary(body, |share| share.canary = share.canary.slice(0..1))
        }),
        ("canaries that are not right", "out of step", DIABETES, |body| {
            of_canary(body, |share| changed(&mut share.canary))
        }),
        ("a table for a follower", "expected shares of canaries", DIABETES, |body| {
            of_canary(body, |share| share.table = Some(share.canary.clone()))
        }),
        ("a solution of another size", "values of the joint solution", DIABETES, |body| {
            of_joint(body, JointKind::Answer, |values| values.push(0.0))
        }),
        ("residuals below zero", "the joint solution", DIABETES, |body| {
            of_joint(body, JointKind::Answer, |values| {
                let residual = values.len() - 3;
                values[residual] = -1.0;
            })
        }),
        ("fewer columns set aside than here", "columns that are set aside", DIABETES, |body| {
            of_joint(body, JointKind::Answer, |values| *values.last_mut().unwrap() = -1.0)
        }),
        ("what is left of other columns", "values of what columns leave", DEPENDENT, |body| {
            of_joint(body, JointKind::LeftOver, |values| values.truncate(values.len() - 1))
        }),
    ];
    ends(&cases, [ANNA, CLEO, ANNA]);
}

#[test]
fn what_the_dealer_may_not_send_ends_the_run_before_a_table_opens() {
    for (place, name) in [(0, ANNA), (1, BEN), (2, CLEO)] {
        let case = case(DIABETES);
        let mut opened = false;
        let observe = |_: Role, message: &Message| {
            opened |= matches!(&message.body, Body::Share(share) if share.table.is_some());
        };
        let ended = run_sealed(&study(&case), &case.file(), Faults::NONE, observe, |to, dealt| {
            if let (true, Dealt::Seed(seed)) = (to == place, dealt) {
                seed[0] ^= 1;
            }
        });
        let abort = ended.results.iter().flatten().find_map(|result| result.as_ref().err()).unwrap();
        assert!(abort.to_string().contains("out of step") && !opened, "{name}: {abort}");
        assert_eq!(abort.exit(), Exit::Peer, "{name}");
    }
    let mut first = None;
    let seeds = spoiled(DIABETES, |from, to, message| {
        if let (Body::Dealt(Dealt::Correction(_)), Some(seed), CLEO) = (&message.body, &first, to.name()) {
            message.body = Body::Dealt(Dealt::Seed(*seed));
        } else if let (Body::Dealt(Dealt::Seed(seed)), Role::Coordinator) = (&message.body, from) {
            first = Some(*seed);
        }
    });
    assert!(matches!(seeds, (_, Abort::Peer { peer: Role::Coordinator, fault: PeerFault::Kind { .. } })), "{seeds:?}");
    let (at, abort) = spoiled(DIABETES, |_, to, message| {
        if let (Body::Dealt(Dealt::Correction(correction)), CLEO) = (&mut message.body, to.name()) {
            *correction = correction.slice(1..correction.count());
        }
    });
    assert!(at == role(CLEO) && matches!(abort, Abort::Peer { peer: Role::Coordinator, .. }), "{abort}");
}

#[test]
fn the_limits_count_the_columns_of_all_others_together() {
    let case = case(DIABETES);
    let columns: Vec<String> = case.alice.iter().chain(&case.bob).cloned().collect();
    // 442 rows: six columns need 360, ten need 600.
    let limits = Limits { rows_per_column: 60, ..LOOSE };
    for (blocks, says) in [
        (vec![&columns[..2], &columns[2..4], &columns[4..6]], None),
        (
            vec![&columns[..3], &columns[3..6], &columns[6..]],
            Some("442 of the rows, and 10 columns of all parties need 600; leave columns out"),
        ),
    ] {
        let study = Arc::new(study_sealed(&case, &blocks, "all"));
        let (mut hub, mut sessions) =
            sealed_sessions(&study, |role| frame(&study, role, &case.file()), limits, |_| Box::new(OneRun)).unwrap();
        let mut masked = false;
        let observe = |_: Role, message: &Message| masked |= matches!(message.body, Body::Masked(_));
        let deal = dealer(&study, RUN, |_, _| {});
        let ended = run_several_dealt(&mut hub, &mut sessions, Faults::NONE, observe, deal);
        let abort = ended.results.iter().flatten().find_map(|result| result.as_ref().err());
        assert_eq!((masked, abort.is_some()), (says.is_none(), says.is_some()), "{abort:?}");
        for (place, role) in study.parties_in_order().into_iter().enumerate() {
            let policy = Policy { limits, ..Policy::default() };
            let prepared = Prepared::new(Arc::clone(&study), role, policy, frame(&study, role, &case.file())).unwrap();
            let others: Vec<usize> =
                blocks.iter().enumerate().filter(|(at, _)| *at != place).map(|(_, block)| block.len()).collect();
            let checked = allowed(&prepared, &others, Before::default());
            match says {
                None => checked.unwrap(),
                Some(says) => {
                    assert!(abort.unwrap().to_string().starts_with(says), "{abort:?}");
                    assert!(checked.unwrap_err().to_string().starts_with(says), "{role}");
                }
            }
        }
    }
    // Of the second of three, with one and seven columns beside its two: 2 x 9 in tables, two of the intercept, two of its means.
    let study = Arc::new(study_sealed(&case, &[&columns[..1], &columns[1..3], &columns[3..]], "all"));
    for (most, passes) in [(22.0, true), (21.0, false)] {
        let limits = Limits { opened_share: (most + 0.5) / (442.0 * 2.0), ..LOOSE };
        let policy = Policy { limits, ..Policy::default() };
        let table = frame(&study, role(BEN), &case.file());
        let prepared = Prepared::new(Arc::clone(&study), role(BEN), policy, table).unwrap();
        assert_eq!(allowed(&prepared, &[1, 7], Before::default()).is_ok(), passes, "{most}");
    }
}

#[test]
fn the_sealed_study_of_the_three_institutions_keeps_the_limits_and_with_a_column_more_it_does_not() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/three-institutions");
    let text = std::fs::read_to_string(folder.join("study-sealed.toml")).unwrap();
    let study = Arc::new(Study::parse(&text).unwrap().vertical().unwrap());
    let (leader, office) = (study.parties_in_order()[0], role("office"));
    assert!(leader.name() == "hospital" && study.is_dealt());
    let table = frame(&study, office, &folder.join("office.csv"));
    let prepared = Prepared::new(Arc::clone(&study), office, Policy::default(), table).unwrap();
    let columns: Vec<usize> =
        study.others(office).iter().map(|other| study.method.parties[other].columns.len()).collect();
    allowed(&prepared, &columns, Before::default()).unwrap();
    let refused = allowed(&prepared, &[columns[0], columns[1] + 1], Before::default()).unwrap_err();
    assert!(refused.to_string().starts_with("column `sex`"), "{refused}");
}

/// Columns of a case's table less their means.
fn centred(case: &Case, names: &[&String]) -> DMatrix<f64> {
    let text = std::fs::read_to_string(case.file()).unwrap();
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    let column = |name: &&String| {
        let at = rows[0].iter().position(|other| other.trim_matches('"') == **name).unwrap();
        let values =
            DVector::from_iterator(rows.len() - 1, rows[1..].iter().map(|row| row[at].parse::<f64>().unwrap()));
        values.add_scalar(-values.mean())
    };
    DMatrix::from_columns(&names.iter().map(column).collect::<Vec<_>>())
}

#[test]
fn where_tables_open_to_all_the_meter_has_r_squared_of_every_column_on_those_of_all_others() {
    let case = case(DIABETES);
    for held_by in ["all", ANNA] {
        let blocks = blocks(&case, 3);
        let study = study_to_all(&case, &blocks.iter().map(Vec::as_slice).collect::<Vec<_>>(), held_by);
        let fits = fitted(run_sealed(&study, &case.file(), Faults::NONE, |_, _| {}, |_, _| {}));
        for (place, (fit, own)) in fits.iter().zip(&blocks).enumerate() {
            let others = blocks.iter().enumerate().filter(|(other, _)| *other != place).flat_map(|(_, block)| block);
            // The leader's columns and the outcome are known apart where it holds that alone.
            let with_outcome = place > 0 || held_by == "all";
            let known: Vec<&String> = others.chain(with_outcome.then_some(&case.outcome)).collect();
            let design = centred(&case, &known);
            let outcome = (!with_outcome).then_some(&case.outcome);
            let terms: Vec<&String> = own.iter().chain(outcome).collect();
            assert_eq!(fit.disclosure.columns.len(), terms.len(), "{place} {held_by}");
            for (metered, term) in fit.disclosure.columns.iter().zip(terms) {
                let column = centred(&case, &[term]);
                let solved = design.tr_mul(&design).cholesky().unwrap().solve(&design.tr_mul(&column));
                let share = 1.0 - (&column - &design * solved).norm_squared() / column.norm_squared();
                assert!(
                    metered.term == *term && (metered.share - share).abs() < 1e-6,
                    "{term} {}: {share}",
                    metered.share
                );
            }
            assert!(fit.notes.iter().any(|note| note.contains("open to every party")), "{:?}", fit.notes);
        }
    }
}

#[test]
fn tables_that_open_to_all_change_no_digit_and_what_a_party_keeps_to_itself_stays_with_it() {
    for name in [DIABETES, DEPENDENT, "gaussian_longley", "gaussian_offset_no_intercept"] {
        let case = case(name);
        let [alone, all] = BOTH_WAYS.map(|(_, opens)| {
            fitted(run_sealed(&study_of(opens, &case), &case.file(), Faults::NONE, |_, _| {}, |_, _| {}))
        });
        for (ours, theirs) in all.iter().zip(&alone) {
            let text = |fit: &VerticalFit| format!("{:?}", (&fit.coefficients, &fit.statistics, fit.termination));
            assert_eq!(text(ours), text(theirs), "{name}");
        }
    }
    let case = case(DIABETES);
    let blocks = blocks(&case, 3);
    let blocks: Vec<&[String]> = blocks.iter().map(Vec::as_slice).collect();
    let mut study = study_to_all(&case, &blocks, "all");
    study.method.fit.coefficients = CoefficientTerms::Own;
    for (fit, role) in fitted(run_sealed(&study, &case.file(), Faults::NONE, |_, _| {}, |_, _| {}))
        .iter()
        .zip(study.parties_in_order())
    {
        assert!(fit.coefficients.iter().all(|row| row.party == role), "{role}: {:?}", fit.coefficients);
    }
}

#[test]
fn tables_and_solutions_that_cannot_be_or_do_not_follow_end_the_run_with_the_leaders_name() {
    let cases: [Wrong; 15] = [
        ("no tables", "expected the tables of all pairs", DIABETES, |body| {
            of_joint(body, JointKind::Tables, |_| {});
            if let Body::Joint(Joint { what: what @ JointKind::Tables, .. }) = body {
                *what = JointKind::Answer;
            }
        }),
        ("an entry less", "values of the tables of all pairs", DIABETES, |body| {
            of_joint(body, JointKind::Tables, |values| values.truncate(values.len() - 1))
        }),
        ("the tables of one pair", "values of the tables of all pairs", DIABETES, |body| {
            of_joint(body, JointKind::Tables, |values| values.truncate(13))
        }),
        ("an entry too many", "values of the tables of all pairs", DIABETES, |body| {
            of_joint(body, JointKind::Tables, |values| values.push(0.0))
        }),
        ("an entry that is no number", "not possible", DIABETES, |body| {
            of_joint(body, JointKind::Tables, |values| values[2] = f64::NAN)
        }),
        ("an entry without end", "not possible", DIABETES, |body| {
            of_joint(body, JointKind::Tables, |values| values[2] = f64::INFINITY)
        }),
        ("a scale without end", "not possible", DIABETES, |body| {
            of_joint(body, JointKind::Tables, |values| *values.last_mut().unwrap() = f64::INFINITY)
        }),
        ("a scale below zero", "not possible", DIABETES, |body| {
            of_joint(body, JointKind::Tables, |values| *values.last_mut().unwrap() = -1.0)
        }),
        ("more in common than all", "not possible", DIABETES, |body| {
            of_joint(body, JointKind::Tables, |values| values[0] = 1.5)
        }),
        ("tables that no columns have", "not possible", DIABETES, |body| {
            of_joint(body, JointKind::Tables, |values| {
                let last = values.len() - 1;
                values[..last].iter_mut().for_each(|entry| *entry = 0.9);
            })
        }),
        ("an entry that is off", "what follows from the table", DIABETES, |body| {
            of_joint(body, JointKind::Tables, |values| values[0] += 1e-4)
        }),
        ("a coefficient that is off", "what follows from the table", DIABETES, |body| {
            of_joint(body, JointKind::Answer, |values| values[0] *= 1.0001)
        }),
        ("residuals that are off", "what follows from the table", DIABETES, |body| {
            of_joint(body, JointKind::Answer, |values| {
                let residual = values.len() - 3;
                values[residual] *= 1.0001;
            })
        }),
        ("more columns set aside", "what follows from the table", DIABETES, |body| {
            of_joint(body, JointKind::Answer, |values| *values.last_mut().unwrap() += 1.0)
        }),
        ("what is left of columns that is off", "what follows from the table", DEPENDENT, |body| {
            of_joint(body, JointKind::LeftOver, |values| values[0] += 1e-4)
        }),
    ];
    ends_of(study_to_all, &cases, [ANNA, CLEO, ANNA]);
    // The columns of cleo, which ben is told, by one that is not there, and as those of others.
    let thirds: [Wrong; 3] = [
        ("columns of nobody", "columns of a third party", DEPENDENT, |body| {
            of_joint(body, JointKind::Reduced, |values| values[0] = 3.0)
        }),
        ("own columns", "columns of a third party", DEPENDENT, |body| {
            of_joint(body, JointKind::Reduced, |values| values[0] = 1.0)
        }),
        ("columns that never were", "columns of a third party", DEPENDENT, |body| {
            of_joint(body, JointKind::Reduced, |values| values[1] = 1e9)
        }),
    ];
    ends_of(study_to_all, &thirds, [ANNA, BEN, ANNA]);
    // Where they open to the leader alone nobody takes them.
    let (at, abort) = spoiled(DIABETES, |_, to, message| {
        if let (Body::Joint(joint), CLEO) = (&mut message.body, to.name())
            && joint.what == JointKind::Answer
        {
            joint.what = JointKind::Reduced;
        }
    });
    assert!(at == role(CLEO) && matches!(abort, Abort::Peer { fault: PeerFault::Kind { .. }, .. }), "{abort}");
}

#[test]
fn tables_that_are_told_again_with_other_numbers_end_the_run() {
    let case = case(DIABETES);
    for off in [0.0, 1e-9] {
        let mut again = None;
        let (at, abort) = told_twice(&case, |to, message| {
            if let (Body::Joint(Joint { what: JointKind::Tables, values }), CLEO, None) =
                (&message.body, to.name(), again)
            {
                let mut other = message.clone();
                let mut values = values.clone();
                values[0] += off;
                other.body = Body::Joint(Joint { what: JointKind::Tables, values });
                again = Some(());
                return Some(other);
            }
            None
        });
        assert!(again.is_some());
        match off > 0.0 {
            true => {
                let abort = abort.unwrap();
                assert!(at == Some(role(CLEO)) && abort.to_string().contains("with different content"), "{abort}");
            }
            false => assert!(abort.is_none(), "{abort:?}"),
        }
    }
}

#[test]
fn the_leaders_own_limit_counts_the_tables_that_open_to_all() {
    let case = case(DIABETES);
    let columns: Vec<String> = case.alice.iter().chain(&case.bob).cloned().collect();
    let cut: [&[String]; 3] = [&columns[..3], &columns[3..5], &columns[5..]];
    // To ben 2 x 4 + 3 numbers of the solution, to cleo 5 x 7 + 3; the tables are 4 x 7, and a number more.
    for (opens, numbers) in [(BOTH_WAYS[0].1, 49.0), (BOTH_WAYS[1].1, 49.0 + 29.0)] {
        let study = Arc::new(opens(&case, &cut, "all"));
        for (most, passes) in [(numbers, true), (numbers - 1.0, false)] {
            let limits = Limits { opened_share: (most + 0.5) / (442.0 * 3.0), ..LOOSE };
            let policy = Policy { limits, ..Policy::default() };
            let table = frame(&study, role(ANNA), &case.file());
            let prepared = Prepared::new(Arc::clone(&study), role(ANNA), policy, table).unwrap();
            assert_eq!(allowed(&prepared, &[2, 5], Before::default()).is_ok(), passes, "{most}");
            // And in a run nothing leaves.
            let (mut hub, mut sessions) =
                sealed_sessions(&study, |role| frame(&study, role, &case.file()), LOOSE, |_| Box::new(OneRun)).unwrap();
            let table = frame(&study, role(ANNA), &case.file());
            let policy = Policy { limits, ..Policy::default() };
            let prepared = Prepared::new(Arc::clone(&study), role(ANNA), policy, table).unwrap();
            let opening = Opening { first: false, run: RUN, seed: [1; 32], peer: role(ANNA) };
            hub = match passes {
                true => hub,
                false => Hub::sealed(prepared, &opening, Box::new(OneRun)),
            };
            let mut left = false;
            let observe = |_: Role, message: &Message| left |= matches!(message.body, Body::Masked(_));
            let deal = dealer(&study, RUN, |_, _| {});
            let ended = run_several_dealt(&mut hub, &mut sessions, Faults::NONE, observe, deal);
            assert_eq!((left, ended.results[0].as_ref().unwrap().is_ok()), (passes, passes), "{most}");
        }
    }
}
