//! The sites of every method, plain and private, over ledgers: under faults they come to the same bits as without, charge once, and
//! say the same again.

use std::collections::BTreeMap;
use std::sync::Arc;

use nalgebra::{DMatrix, DVector};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;

use super::methods::{EM, FEATURES, STREAM, study};
use super::network::{Ended, Faults, Part, Table, run_parts};
use crate::exit::Exit;
use crate::report::Report;
use crate::star::site;
use crate::study::{Sites, Study};

struct Case {
    name: &'static str,
    study: Arc<Study<Sites>>,
    parts: BTreeMap<String, Part>,
}

/// Rows of `y = 0.3 + 0.2 a - 0.4 b`, two features in `[0, 1]`, of as many sites. In the stream some persons come twice.
fn parts(sites: usize, rows: usize, anyone: bool) -> BTreeMap<String, Part> {
    let table = |site: usize| {
        let mut rng = ChaCha8Rng::seed_from_u64(site as u64);
        let x = DMatrix::from_fn(rows, 2, |_, _| rng.random_range(0.0..1.0));
        let y = DVector::from_fn(rows, |i, _| {
            0.5 + 0.2 * x[(i, 0)] - 0.4 * x[(i, 1)] + 0.05 * rng.sample::<f64, _>(StandardNormal)
        });
        let persons = if anyone { rows - 3 } else { rows };
        Table { x, y, ids: (0..rows).map(|row| format!("p{}", row % persons).into_bytes()).collect(), anyone }
    };
    (0..sites).map(|site| (format!("w{site}"), Part::Rows(table(site)))).collect()
}

fn cases() -> Vec<Case> {
    let case = |name, protocol: &str, sites, private, rest: &str, rows| {
        let parts = parts(sites, rows, protocol == "stream");
        Case { name, study: study(protocol, sites, private, rest), parts }
    };
    let solution = format!("{FEATURES}lambda = 1.0\nrelease = \"output\"\n");
    let statistics = format!("{FEATURES}lambda = 1.0\n");
    let batches = "[outcome]\ncolumn = \"y\"\n[sites]\nbatch_rows = 40\n";
    let private_batches = "[outcome]\ncolumn = \"y\"\n[columns.a]\nrange = [0, 1]\n[columns.b]\nrange = [0, 1]\n[columns.y]\nrange = [0, 1]\n\
                           [sites]\nbatch_rows = 400\n";
    let stream = format!("{STREAM}[sites]\nbatch_rows = 5\n");
    let private_stream = format!("{stream}[columns.y]\nrange = [0, 1]\n");
    let budgets = format!("{private_stream}[stream.budgets]\nepsilon_exponent = 0.25\ndelta_exponent = 0.5\n");
    vec![
        case("em", "em", 3, false, EM, 40),
        case("private em", "em", 3, true, EM, 40),
        case("statistics", "features", 3, false, &statistics, 40),
        case("private statistics", "features", 3, true, &statistics, 40),
        case("solutions", "features", 3, false, &solution, 40),
        case("private solutions", "features", 3, true, &solution, 40),
        case("batches", "robust", 3, false, batches, 120),
        case("batches followed", "robust", 1, false, &format!("{batches}[robust.online]\nwindow = 3\n"), 200),
        case("private batches", "robust", 3, true, private_batches, 800),
        case("stream", "stream", 1, false, &stream, 30),
        case("private stream", "stream", 1, true, &private_stream, 30),
        case("private stream, budgets of records", "stream", 1, true, &budgets, 30),
    ]
}

/// What must not depend on lines and processes.
fn essence(report: &Report) -> String {
    format!("{} {}", super::essence(report), super::methods::essence(report))
}

fn ended(case: &Case, faults: Faults) -> Ended {
    run_parts(&case.study, case.parts.clone(), faults).unwrap()
}

fn luck(seed: u64) -> Faults {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut below = |most: f64| rng.random_range(0.0..most);
    Faults {
        drop: below(0.25),
        duplicate: below(0.25),
        reorder: below(0.25),
        cut: below(0.06),
        site_crash: below(0.02),
        hub_crash: below(0.06),
        seed,
    }
}

/// So many runs of each case.
fn come_to_the_same_bits(runs: u64) {
    for case in cases() {
        let clean = ended(&case, Faults::none(0));
        assert_eq!(
            clean.exit.map(Exit::code),
            clean.report.as_ref().ok().map(|report| report.termination.exit().code())
        );
        let report = clean.report.unwrap_or_else(|reason| panic!("{}: {reason}", case.name));
        let (plan, charge) = (case.study.site_plan(), case.study.site_charge());
        for seed in 1..=runs {
            let mut faults = luck(seed);
            if case.name.starts_with("private stream") {
                // Lines keep their order. Weights that the acknowledgement of a kept message overtakes are taken for later ones.
                faults.reorder = 0.0;
            }
            let lossy = ended(&case, faults);
            let what = format!("{}, seed {seed}", case.name);
            let found = lossy.report.unwrap_or_else(|reason| panic!("{what}: {reason}"));
            assert_eq!(essence(&found), essence(&report), "{what}");
            assert_eq!(lossy.told.len(), case.parts.len(), "{what}");
            assert!(lossy.told.values().all(|told| matches!(told, site::Act::Outcome { .. })), "{what}");
            assert_eq!(lossy.spent, clean.spent, "{what}");
            assert_eq!(lossy.spent.len(), if plan.is_some() { case.parts.len() } else { 0 }, "{what}");
        }
        for (sum, releases) in clean.spent.values() {
            // Batches are charged together, and cost what the worst of them costs.
            let batches = if case.name == "private batches" { 2 } else { 1 };
            assert_eq!(Some(*releases), plan.as_ref().map(|plan| batches * plan.releases().len()), "{}", case.name);
            assert!((sum / charge.unwrap() - 1.0).abs() < 1e-9, "{}: {sum} {charge:?}", case.name);
        }
    }
}

#[test]
fn sites_of_every_method_come_to_the_same_bits_and_one_charge_over_lossy_lines_and_dying_processes() {
    come_to_the_same_bits(30);
}

#[test]
#[ignore = "ten thousand runs take minutes"]
fn sites_of_every_method_come_to_the_same_bits_in_ten_thousand_runs() {
    come_to_the_same_bits(910);
}

#[test]
fn below_the_quorum_no_private_site_is_charged_and_none_contributes() {
    for case in cases().into_iter().filter(|case| case.study.private().is_some() && case.parts.len() > 1) {
        let mut alone = Case { name: case.name, study: case.study, parts: case.parts };
        alone.parts.retain(|name, _| name == "w0");
        for seed in 0..10 {
            let faults = if seed == 0 { Faults::none(0) } else { luck(seed) };
            let lonely = ended(&alone, faults);
            assert_eq!((lonely.exit, lonely.contributed), (Some(Exit::Unreachable), 0), "{} {seed}", alone.name);
            assert!(lonely.spent.values().all(|spent| *spent == (0.0, 0)), "{} {seed}: {:?}", alone.name, lonely.spent);
        }
    }
}
