//! Two parties by other names than alice and bob, of which the leader comes last by name.

use super::glm::rows;
use super::*;

const LEADER: &str = "ward";
const OTHER: &str = "insurer";

fn role(name: &str) -> Role {
    name.parse().unwrap()
}

/// A study of these two, of which the first holds the intercept.
fn text(mode: &str, [first, second]: [&str; 2], head: &str, held_by: &str, more: &str) -> Arc<Study<Vertical>> {
    Arc::new(vertical(&format!(
        "id = \"s\"\nmode = \"{mode}\"\n{head}[outcome]\ncolumn = \"y\"\nheld_by = \"{held_by}\"\n[parties.{first}]\n\
         certificate = \"a\"\ncolumns = [\"a1\", \"a2\"]\n[parties.{second}]\ncertificate = \"b\"\ncolumns = [\"b1\", \
         \"b2\", \"b3\"]\n{more}"
    )))
}

/// The fits of the party that leads and of the other one.
fn fits_of(study: &Arc<Study<Vertical>>, values: &[[f64; 6]]) -> [VerticalFit; 2] {
    let leader = study.first();
    let other = study.peer(leader);
    let table = |own: Role| {
        let as_before = if own == leader { Role::Alice } else { Role::Bob };
        Prepared::new(Arc::clone(study), own, Policy::default(), frame(as_before, values)).unwrap()
    };
    let opening = |own: Role| {
        let peer = if own == leader { other } else { leader };
        Opening { first: own == other, run: RUN, seed: [1 + u8::from(own == other); 32], peer }
    };
    if !study.is_dealt() {
        let start = |own| VerticalSession::new(table(own), opening(own));
        return fits(pair::run(&mut start(leader), &mut start(other), Faults::NONE, |_, _| {}));
    }
    let start = |own| SealedSession::new(table(own), opening(own), Box::new(OneRun));
    let dealer = dealer(study, RUN, |_, _| {});
    fits(pair::run_dealt(&mut start(leader), &mut start(other), Faults::NONE, |_, _| {}, dealer))
}

/// What a fit says, with these names as those of alice and bob.
fn said(fit: &VerticalFit) -> String {
    let VerticalFit { coefficients, statistics, notes, path, cv, disclosure, termination, rounds, .. } = fit;
    let text =
        format!("{coefficients:?} {statistics:?} {notes:?} {path:?} {cv:?} {disclosure:?} {termination:?} {rounds}");
    let text = text.replace(&format!("{:?}", role(LEADER)), "Alice").replace(&format!("{:?}", role(OTHER)), "Bob");
    text.replace(LEADER, "alice").replace(OTHER, "bob")
}

/// Alice and bob have these digits by the tests beside this one and by the vectors of R.
#[test]
fn two_parties_by_any_names_have_the_digits_of_alice_and_bob_in_every_fit() {
    let (gaussian, dependent) = (values(ROWS, false), values(ROWS, true));
    let (events, counts) = (rows("binomial", ROWS, false), rows("poisson", ROWS, false));
    let binomial = "[model]\nfamily = \"binomial\"";
    let penalised = format!("{binomial}\n[penalty]\nlambda = [0.1, 0.05]");
    for (mode, values, alone, more) in [
        ("sealed", &gaussian, false, ""),
        ("sealed", &gaussian, false, "[sealed]\nopens = \"all\""),
        ("sealed", &gaussian, true, "[sealed]\nrefit = true"),
        ("sealed", &dependent, false, ""),
        ("sealed", &gaussian, false, "[penalty]\nlambda = \"path\"\ncv = 5"),
        ("sealed", &events, false, binomial),
        ("sealed", &events, true, binomial),
        ("sealed", &counts, false, "[model]\nfamily = \"poisson\""),
        ("sealed", &events, false, &penalised),
        ("plain", &gaussian, false, "[inference]\ncovariance = \"shared\""),
        ("plain", &events, true, binomial),
        ("plain", &dependent, false, ""),
    ] {
        let held = |by: &'static str| if alone { by } else { "all" };
        let usual = fits_of(&text(mode, ["alice", "bob"], "", held("alice"), more), values);
        let leads = format!("leader = \"{LEADER}\"\n");
        let named = fits_of(&text(mode, [LEADER, OTHER], &leads, held(LEADER), more), values);
        for (named, usual) in named.iter().zip(&usual) {
            assert_eq!(said(named), said(usual), "{mode} {alone} {more}");
        }
    }
}
