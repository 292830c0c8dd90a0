//! Vertical studies in the simulated network.

use std::path::Path;
use std::sync::Arc;

use fedreg_common::conversation::Opening;
use fedreg_common::data::Frame;
use fedreg_common::fit::{Measures, Test};
use fedreg_common::glm::StatedFamily;
use fedreg_common::id::{Role, RunId};
use fedreg_common::methods::vertical::message::Message;
use fedreg_common::methods::vertical::outcome::VerticalFit;
use fedreg_common::methods::vertical::prepare::{Policy, Prepared, needed_columns};
use fedreg_common::methods::vertical::sealed::SealedSession;
use fedreg_common::methods::vertical::session::VerticalSession;
use fedreg_common::privacy::openings::OneRun;
use fedreg_common::secure::open::Limits;
use fedreg_common::session::Abort;
use fedreg_common::sim::dealer::dealer;
use fedreg_common::sim::pair::{self, Ended, Faults};
use fedreg_common::study::{Study, Vertical};
use fedreg_party::read;

use crate::vectors::{Case, Glm, Implied};

/// A study file for a case; `more` is appended.
pub fn study(case: &Case, more: &str) -> Study<Vertical> {
    parsed(&text(case, more))
}

/// The same with an outcome that Alice alone holds.
pub fn study_at_alice(case: &Case, more: &str) -> Study<Vertical> {
    parsed(&text(case, more).replacen("[outcome]\n", "[outcome]\nheld_by = \"alice\"\n", 1))
}

pub(crate) fn parsed(text: &str) -> Study<Vertical> {
    let study = Study::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    study.vertical().unwrap()
}

/// The same in sealed mode.
pub fn study_sealed(case: &Case, more: &str) -> Study<Vertical> {
    parsed(&format!("mode = \"sealed\"\n{}", text(case, more)))
}

fn text(case: &Case, more: &str) -> String {
    let list = |names: &[String]| names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
    let mut text = format!(
        "id = \"test\"\n[parties.alice]\ncertificate = \"alice\"\ncolumns = [{}]\n[parties.bob]\ncertificate = \"bob\"\n\
         columns = [{}]\n[outcome]\ncolumn = {:?}\n[model]\nfamily = \"{}\"\nintercept = {}\n",
        list(&case.alice),
        list(&case.bob),
        case.outcome,
        case.family,
        case.intercept
    );
    for (key, column) in [("offset", &case.offset), ("weights", &case.weights)] {
        if let Some(column) = column {
            text.push_str(&format!("[{key}]\ncolumn = {column:?}\n"));
        }
    }
    if case.is("missing") {
        text.push_str("[rows]\nmissing = \"complete-cases\"\n");
    }
    text.push_str(more);
    text
}

/// A party's columns of a file.
pub fn frame(study: &Study<Vertical>, role: Role, file: &Path) -> Frame {
    let header = read::header(file, None).unwrap();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let columns = needed_columns(study, role, &header).unwrap();
    read::read(file, &read::Request { columns: Some(columns), id: study.head.rows.id.clone(), ..Default::default() })
        .unwrap()
}

/// A session over a frame.
pub fn session(
    study: &Arc<Study<Vertical>>,
    role: Role,
    policy: Policy,
    frame: Frame,
) -> Result<VerticalSession, Abort> {
    let prepared = Prepared::new(Arc::clone(study), role, policy, frame)?;
    Ok(VerticalSession::new(prepared, opening(role)))
}

pub const RUN: RunId = RunId([7; 16]);

fn opening(role: Role) -> Opening {
    Opening { first: role == Role::Alice, run: RUN, seed: [1 + u8::from(role == Role::Bob); 32], peer: role.partner() }
}

/// Runs a study over one file that holds both parties' columns.
pub fn run(study: &Study<Vertical>, file: &Path, faults: Faults) -> Ended<VerticalFit> {
    run_with(study, file, faults, Policy::default(), |_, _| {})
}

/// The same with a policy of both parties, and an observer of all messages.
pub fn run_with(
    study: &Study<Vertical>,
    file: &Path,
    faults: Faults,
    policy: Policy,
    observe: impl FnMut(usize, &Message),
) -> Ended<VerticalFit> {
    let study = Arc::new(study.clone());
    let start = |role| session(&study, role, policy.clone(), frame(&study, role, file)).unwrap();
    pair::run(&mut start(Role::Alice), &mut start(Role::Bob), faults, observe)
}

/// Runs a study in sealed mode over one file that holds both parties' columns, with limits that let few rows pass.
pub fn run_sealed(study: &Study<Vertical>, file: &Path, faults: Faults) -> Ended<VerticalFit> {
    let study = Arc::new(study.clone());
    let limits = Limits { entropy_bits: 0.0, level_rows: 0, rows_per_column: 0, opened_share: 1e6 };
    let start = |role| {
        let policy = Policy { limits, ..Policy::default() };
        let prepared = Prepared::new(Arc::clone(&study), role, policy, frame(&study, role, file)).unwrap();
        SealedSession::new(prepared, opening(role), Box::new(OneRun))
    };
    let dealer = dealer(&study, RUN, |_, _| {});
    pair::run_dealt(&mut start(Role::Alice), &mut start(Role::Bob), faults, |_, _| {}, dealer)
}

/// Both results of a run that must succeed.
pub fn fitted(ended: Ended<VerticalFit>) -> [VerticalFit; 2] {
    let aborts: Vec<String> =
        ended.results.iter().flatten().filter_map(|result| result.as_ref().err()).map(ToString::to_string).collect();
    assert!(aborts.is_empty(), "{aborts:?}");
    ended.results.map(|result| result.unwrap().unwrap())
}

/// How far the statistics of a fit are off those of the pooled one, in units of the promised digits, each with its name.
pub fn statistics_off(name: &str, fit: &VerticalFit, glm: &Glm) -> Vec<(f64, String)> {
    let statistics = &fit.statistics;
    assert_eq!(statistics.nobs, glm.nobs, "{name}");
    assert_eq!(statistics.df_residual, Some(glm.df_residual), "{name}");
    let pairs = [
        ("deviance", statistics.deviance, Some(glm.deviance)),
        ("null deviance", statistics.null_deviance, Some(glm.null_deviance)),
        ("aic", statistics.aic, glm.aic),
        ("bic", statistics.bic, glm.bic),
        ("log-likelihood", statistics.log_lik, glm.log_lik),
        ("dispersion", statistics.dispersion, glm.dispersion),
    ];
    let mut off = Vec::new();
    for (what, got, expected) in pairs {
        match (got, expected) {
            (Some(got), Some(expected)) => {
                let most = (got - expected).abs() / (1e-8 * expected.abs().max(1e-6));
                off.push((most, format!("{name} {what}: {got} {expected}")));
            }
            (got, expected) => assert_eq!(got, expected, "{name} {what}"),
        }
    }
    off
}

/// How far what a party computes beside a fit is off what R says, in units of eight digits; `whole` where its sides know everything that
/// follows from it, and not in part. Ends with what is off in discrimination and calibration, of those that it has.
pub fn implied_off(
    name: &str,
    fit: &VerticalFit,
    reference: &Implied,
    family: StatedFamily,
    whole: bool,
) -> Vec<(f64, String)> {
    let mut off = Vec::new();
    let mut agree = |what: String, got: Option<f64>, expected: Option<f64>, size: f64| match (got, expected) {
        (Some(got), Some(expected)) => {
            let most = (got - expected).abs() / (1e-8 * expected.abs().max(size));
            off.push((if got == expected { 0.0 } else { most }, format!("{name} {what}: {got} {expected}")));
        }
        (got, expected) => assert_eq!(got, expected, "{name} {what}"),
    };
    let measures = Measures::of(&fit.statistics, family);
    agree("adjusted R squared".into(), measures.adj_r_squared, reference.measures.adj_r_squared, 1e-2);
    agree("McFadden's R squared".into(), measures.mcfadden_r_squared, reference.measures.mcfadden_r_squared, 1e-2);
    let pairs =
        [("F", measures.f_test, reference.measures.f_test), ("ratio", measures.lr_test, reference.measures.lr_test)];
    let terms = fit.term_tests.as_deref().unwrap_or_else(|| panic!("{name}: no tests of terms"));
    let of_terms = terms.iter().map(|row| {
        let expected = reference.term_tests.iter().find(|expected| expected.term == row.term);
        let expected = expected.unwrap_or_else(|| panic!("{name}: no term {}", row.term));
        assert_eq!(row.df, expected.df, "{name} {}", row.term);
        if whole || row.vif.is_some() {
            agree(format!("VIF of {}", row.term), row.vif, Some(expected.vif), 1.0);
            agree(format!("scaled VIF of {}", row.term), row.scaled_vif, Some(expected.scaled_vif), 1.0);
        }
        (row.term.as_str(), row.wald, Some(expected.wald))
    });
    let tests: Vec<_> = of_terms.collect();
    for (what, got, expected) in pairs.into_iter().chain(tests) {
        agree(format!("statistic of {what}"), got.map(|test| test.statistic), expected.map(|test| test.statistic), 1.0);
        let degrees = |test: Option<Test>| test.map(|test| (test.df, test.df_residual));
        assert_eq!(degrees(got), degrees(expected), "{name} {what}");
        // A probability magnifies what its statistic is off by.
        let logarithm = |test: Option<Test>| test.map(|test| test.p_value.ln());
        agree(format!("logarithm of the probability of {what}"), logarithm(got), logarithm(expected), 1.0);
    }
    let covariance = fit.covariance.as_ref().unwrap_or_else(|| panic!("{name}: no covariance"));
    let place = |term: &String| reference.covariance.terms.iter().position(|known| known == term).unwrap();
    let places: Vec<usize> = covariance.terms.iter().map(place).collect();
    for (i, row) in places.iter().zip(&covariance.matrix) {
        for (j, got) in places.iter().zip(row) {
            let of = |i: usize, j: usize| reference.covariance.matrix[i][j];
            if whole || got.is_some() {
                // Of two estimates that hardly vary together nothing more is known than beside their variances.
                agree(format!("covariance {i} {j}"), *got, Some(of(*i, *j)), (of(*i, *i) * of(*j, *j)).sqrt());
            }
        }
    }
    off
}

/// Frames of numeric columns, for generated data: the outcome is `y`.
pub fn numeric(names: &[String], columns: &[&[f64]]) -> Frame {
    use fedreg_common::data::{Column, ColumnBuilder, Place, Places};
    let mut places = Places::default();
    (0..columns[0].len()).for_each(|row| places.push(Place::Row(row as u64 + 1)));
    let columns: Vec<Column> = names
        .iter()
        .zip(columns)
        .map(|(name, values)| {
            let mut builder = ColumnBuilder::new(name.as_str());
            values.iter().enumerate().for_each(|(row, x)| builder.number(*x, Place::Row(row as u64 + 1)).unwrap());
            builder.finish().unwrap()
        })
        .collect();
    Frame::new(columns, None, places).unwrap()
}

/// A family by name.
pub fn family(name: &str) -> StatedFamily {
    StatedFamily::ALL.into_iter().find(|family| family.name() == name).unwrap()
}
