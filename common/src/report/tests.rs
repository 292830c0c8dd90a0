//! Every form of the report, from a handful of made-up ones.

mod against_r;
mod sealed;
mod several;
mod statistics;

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::csv::csv;
use super::json::{json as to_json, parse};
use super::merge::{MergeError, merge};
use super::*;
use crate::fit::performance::{Decile, RocPoint};
use crate::fit::{CONFIDENCE, Test};
use crate::glm::Family;
use crate::methods::registry;
use crate::privacy::accountant::Accountant;
use crate::privacy::ledger::BoundsChange;
use crate::privacy::mechanism::Receipt;
use crate::study::statement::{Charged, Releases, Scope, Statement};

type Row<'a> = (&'a str, Option<f64>, Option<f64>);

const DIABETES: [Row<'static>; 11] = [
    ("(Intercept)", Some(-334.56713851879118), Some(67.454621104341385)),
    ("age", Some(-0.036361224223625886), Some(0.21704143540876222)),
    ("sex", Some(-22.859648090498229), Some(5.8358212850148679)),
    ("bmi", Some(5.6029620919237075), Some(0.71710550056091082)),
    ("bp", Some(1.1168079933181916), Some(0.22523816918826939)),
    ("s1", Some(-1.0899963340632737), Some(0.57333185855006119)),
    ("s2", Some(0.74645045551425449), Some(0.53083438976602482)),
    ("s3", Some(0.37200471508919986), Some(0.782463845626719)),
    ("s4", Some(6.5338319359905634), Some(5.95863783721631)),
    ("s5", Some(68.483124964789155), Some(15.669719738707208)),
    ("s6", Some(0.28011698932150214), Some(0.27331395035936584)),
];

fn text(report: &Report) -> String {
    registry::layout(report).text()
}

fn html(report: &Report) -> String {
    registry::layout(report).html()
}

/// The report of one party that holds every column.
fn own(family: Family, rows: &[Row<'_>], statistics: Statistics) -> Report {
    let df = statistics.df_residual.unwrap_or(1) as f64;
    Report {
        protocol: Protocol::Vertical,
        mode: Mode::Plain,
        study: "diabetes".into(),
        study_digest: "7f3a91c2d4e5f60718293a4b5c6d7e8f7f3a91c2d4e5f60718293a4b5c6d7e8f".into(),
        run: "00112233445566778899aabbccddeeff".into(),
        date: Some("2026-03-01T12:00:00Z".into()),
        version: "1.2.3".into(),
        role: Some(Role::Alice),
        call: "alice fit study.toml".into(),
        family: family.into(),
        link: family.link().into(),
        outcome: "target".into(),
        coefficients: rows
            .iter()
            .map(|(term, estimate, error)| {
                Coefficient::new(term.to_string(), Role::Alice, *estimate, *error, family, df)
            })
            .collect(),
        statistics,
        rounds: 7,
        converged: Some(true),
        termination: Termination::Converged,
        tol: 1e-8,
        trace: (1..=7)
            .map(|round| TracePoint {
                round,
                certificate: 0.3 * 10_f64.powf(-1.5 * f64::from(round)),
                change: 2.0 * 10_f64.powf(-1.4 * f64::from(round)),
                objective: 1_263_985.8 + 10_f64.powf(6.0 - f64::from(round)),
            })
            .collect(),
        certificate: PerParty::Own(Some(9.4e-12)),
        bytes_sent: PerParty::Own(35_412),
        peak_rss_bytes: PerParty::Own(Some(18_874_368)),
        seconds: PerParty::Own(Seconds { read: 0.004, solve: 0.011, exchange: 0.035, total: 0.052 }),
        disclosure: PerParty::Own(Disclosure {
            vectors: 9,
            rank: 2,
            declared: vec!["partial predictions".into(), "summaries".into()],
            columns: vec![
                ColumnDisclosure { term: "age".into(), share: 0.4213 },
                ColumnDisclosure { term: "sex".into(), share: 1.0 },
            ],
            opened: Vec::new(),
        }),
        ..Report::default()
    }
}

#[test]
fn a_caution_stands_first_in_text_and_page_and_nothing_is_inferred_after_it() {
    let caution = Caution::new(caution::MOSTLY_NOISE, "its plan foretold it".to_string(), true);
    let report = Report { mode: Mode::Private, ..diabetes() }.cautioned(Some(caution));
    let text = text(&report);
    let mut lines = text.lines();
    assert!(lines.next().unwrap().starts_with("****"), "{text}");
    assert_eq!(lines.next(), Some("THIS RESULT IS MOSTLY NOISE"));
    let first = text.lines().find(|line| line.starts_with("age")).unwrap();
    assert!(first.ends_with("NA   NA") || first.matches("NA").count() == 2, "no statistic and no p-value: {first}");
    let page = html(&report);
    assert!(page.find("this result is mostly noise").unwrap() < page.find("<h1>").unwrap());
    assert!(page.contains("badge bad") && !page.contains("badge good"), "the badge is not green");
    let json: serde_json::Value = serde_json::from_str(&json::json(&report)).unwrap();
    assert_eq!(json["caution"]["inference_withheld"], true);
    for row in json["coefficients"].as_array().unwrap() {
        for key in ["statistic", "p_value", "conf_low", "conf_high"] {
            assert!(row[key].is_null(), "{key}: {row}");
        }
        assert!(!row["std_error"].is_null(), "how large the noise is is said all the same");
    }
    assert_eq!(json::parse(&json::json(&report)).unwrap(), report);
    let without = serde_json::to_value(diabetes()).unwrap();
    assert!(without.get("caution").is_none(), "reports without one are what they were");
}

#[test]
fn the_header_names_the_law_that_the_p_values_have() {
    let of = |mode: Mode, workers: Option<Vec<WorkerRow>>| {
        let protocol = if workers.is_some() { Protocol::Robust } else { Protocol::Vertical };
        let report = Report { protocol, mode, workers, ..diabetes() };
        (text(&report).contains("t value"), html(&report).contains("t value"))
    };
    // Consolidated estimates have Student's t, noised or not; between two parties noise is all there is, and normal.
    assert_eq!(of(Mode::Private, Some(Vec::new())), (true, true));
    assert_eq!(of(Mode::Plain, Some(Vec::new())), (true, true));
    assert_eq!(of(Mode::Private, None), (false, false));
    assert_eq!(of(Mode::Plain, None), (true, true));
}

fn diabetes() -> Report {
    let statistics = Statistics {
        nobs: 442,
        df_residual: Some(431),
        df_null: Some(441),
        deviance: Some(1263985.7856333435),
        null_deviance: Some(2621009.1244343892),
        aic: Some(4795.985724247038),
        bic: Some(4845.08144283197),
        log_lik: Some(-2385.992862123519),
        dispersion: Some(2932.6816372003332),
        r_squared: Some(0.517748422),
    };
    own(Family::Gaussian, &DIABETES, statistics)
}

/// The two parties' own reports of the same fit: five columns and the intercept at Alice, five at Bob, shared.
fn pair() -> (Report, Report) {
    let mut alice = diabetes();
    for row in &mut alice.coefficients[6..] {
        row.party = Role::Bob;
    }
    let mut bob = alice.clone();
    bob.role = Some(Role::Bob);
    bob.certificate = PerParty::Own(Some(2e-13));
    bob.bytes_sent = PerParty::Own(28_340);
    bob.disclosure = PerParty::Own(Disclosure {
        vectors: 8,
        rank: 5,
        declared: vec!["partial predictions".into()],
        columns: vec![ColumnDisclosure { term: "s2".into(), share: 0.99999 }],
        opened: Vec::new(),
    });
    bob.seconds = PerParty::Own(Seconds { read: 0.003, solve: 0.02, exchange: 0.03, total: 0.054 });
    (alice, bob)
}

fn private() -> Report {
    let mut report = diabetes();
    report.mode = Mode::Private;
    report.statistics = Statistics { nobs: 442, ..Statistics::default() };
    report.converged = None;
    report.termination = Termination::FixedRounds;
    report.trace.clear();
    report.certificate = PerParty::Own(None);
    report.disclosure = PerParty::Own(Disclosure::default());
    for row in &mut report.coefficients {
        *row = Coefficient::new(row.term.clone(), row.party, row.estimate, None, report.family, 1.0);
    }
    report.privacy = PerParty::Own(Some(account("<b>", 0.8, 2)));
    report
}

/// An account with a word in all its texts.
fn account(word: &str, epsilon: f64, releases: u32) -> Statement {
    let text = || word.to_owned();
    let release = |index: u32| Receipt {
        run: text(),
        index,
        label: text(),
        sensitivity: epsilon,
        formula: text(),
        sigma: 12.5,
        mu: 0.25,
    };
    let scope = Scope { unit: text(), adversary: text(), not_protected: text(), kind: text(), mechanism: text() };
    let charged = Charged {
        releases: (0..releases).map(release).collect(),
        cap: 0.5,
        spent: 0.25,
        left: 0.25,
        epsilon_spent_zcdp: 2.0,
        epsilon_spent_exact: 1.75,
        epsilon_joint: Some(epsilon),
        plain_runs: false,
        bounds_changed: vec![BoundsChange { column: text(), from: text(), to: text() }],
    };
    Statement {
        scope,
        epsilon,
        delta: 1e-6,
        accountant: Accountant::Zcdp,
        charge: 0.25,
        releases: Releases::Charged(charged),
        promise: vec![format!("guarantee: epsilon {epsilon} for {word}")],
        account: vec![format!("spent by {word}")],
        expected: None,
    }
}

fn with_path() -> Report {
    let (mut report, _) = pair();
    let lambdas: Vec<f64> = (0..30).map(|k| 45.16 * 0.8_f64.powi(k)).collect();
    report.path = Some(
        lambdas
            .iter()
            .enumerate()
            .map(|(at, &lambda)| PathPoint {
                lambda,
                df: (at as u64).min(10),
                deviance: 2621009.1244343892 * (1.0 - 0.5 * at as f64 / 29.0),
                kkt: 1e-9 / (1.0 + at as f64),
                coefficients: report
                    .coefficients
                    .iter()
                    .map(|row| PathCoefficient {
                        term: row.term.clone(),
                        party: row.party,
                        estimate: row.estimate.map(|x| x * at as f64 / 29.0),
                    })
                    .collect(),
            })
            .collect(),
    );
    report.cv = Some(
        lambdas
            .iter()
            .enumerate()
            .map(|(at, &lambda)| CvPoint {
                lambda,
                mean: 3000.0 + 10.0 * (at as f64 - 20.0).powi(2),
                se: 200.0 + at as f64,
            })
            .collect(),
    );
    report.lambda_min = Some(lambdas[20]);
    report.lambda_1se = Some(lambdas[16]);
    report
}

#[test]
fn the_merged_text_says_who_holds_what_how_it_ended_what_left_and_what_was_spent() {
    let (mut alice, bob) = pair();
    alice.notes = vec!["column `x` of alice is constant and was set aside".into()];
    alice.call = "demo vertical".into();
    let merged = merge(&alice, &bob).unwrap();
    let expected = "\
Call:
demo vertical

Coefficients:
            Party   Estimate Std. Error t value Pr(>|t|)
(Intercept) alice -334.56714   67.45462  -4.960 1.02e-06 ***
age         alice   -0.03636    0.21704  -0.168 0.867031
sex         alice  -22.85965    5.83582  -3.917 0.000104 ***
bmi         alice    5.60296    0.71711   7.813 4.30e-14 ***
bp          alice    1.11681    0.22524   4.958 1.02e-06 ***
s1          alice   -1.09000    0.57333  -1.901 0.057948 .
s2          bob      0.74645    0.53083   1.406 0.160390
s3          bob      0.37200    0.78246   0.475 0.634723
s4          bob      6.53383    5.95864   1.097 0.273459
s5          bob     68.48312   15.66972   4.370 1.56e-05 ***
s6          bob      0.28012    0.27331   1.025 0.305990
---
Signif. codes:  0 '***' 0.001 '**' 0.01 '*' 0.05 '.' 0.1 ' ' 1

(Dispersion parameter for gaussian family taken to be 2932.682)

    Null deviance: 2621009  on 441  degrees of freedom
Residual deviance: 1263986  on 431  degrees of freedom
AIC: 4796
BIC: 4845.1,  log-likelihood: -2386,  R squared: 0.51775
Adjusted R squared: 0.50656,  F statistic: 46.27 on 10 and 431 DF, p-value: <2e-16

Number of rounds: 7

Study:     diabetes (digest 7f3a91c2), run 00112233445566778899aabbccddeeff, vertical plain, merged
           report
Made:      2026-03-01T12:00:00Z by fedreg 1.2.3
Rows:      442 used, 0 left out for missing values
Ended:     converged (7 rounds, certificate 9.4e-12, last change 3.2e-10, tol 1e-08)
Privacy:   none: bob can reconstruct sex (100 %), age (42.1 %)
           none: alice can reconstruct s2 (>99.9 %)
Left:      alice: 9 vectors of 442 values, 35,412 bytes in all; declared: partial predictions,
                  summaries; rank disclosed: 2
           bob: 8 vectors of 442 values, 28,340 bytes in all; declared: partial predictions; rank
                disclosed: 5
Time:      alice: 52 ms in all: reading 4 ms, computing 11 ms, exchange 35 ms
           bob: 54 ms in all: reading 3 ms, computing 20 ms, exchange 30 ms
Notes:
  - column `x` of alice is constant and was set aside
";
    assert_eq!(text(&merged), expected);
}

#[test]
fn in_private_mode_there_are_no_stars_and_the_text_says_why_and_what_was_spent() {
    let mut report = private();
    let shown = text(&report);
    assert!(shown.contains("age           -0.03636         NA      NA       NA\n"), "{shown}");
    assert!(shown.contains("Standard errors are NA: in private mode"), "{shown}");
    assert!(shown.contains("Deviances and AIC are NA"), "{shown}");
    assert!(shown.contains("Ended:     the fixed number of rounds was run (7 rounds)\n"), "{shown}");
    assert!(shown.contains("guarantee: epsilon 0.8 for <b>") && shown.contains("alice: spent by <b>"), "{shown}");
    assert!(!shown.contains("***"), "{shown}");
    // Standard errors that account for the noise are shown, still without stars.
    report.coefficients = diabetes().coefficients;
    let shown = text(&report);
    assert!(shown.contains("1.02e-06\n") && !shown.contains("***"), "{shown}");
    assert!(!html(&report).contains("***"));
}

#[test]
fn missing_standard_errors_are_explained_in_one_line() {
    let mut report = diabetes();
    for row in &mut report.coefficients {
        row.std_error = None;
    }
    assert!(text(&report).contains("Standard errors are NA: this run did not compute them\n"));
    let left = report.statistics.df_residual.replace(0);
    assert!(text(&report).contains("Standard errors are NA: no residual degrees of freedom are left\n"));
    report.statistics.df_residual = left;
    report.notes = vec!["Standard errors were refused by the policy of bob".into()];
    assert!(text(&report).contains("Standard errors are NA: see the notes\n"));
    assert!(html(&report).contains("Standard errors are not available: see the notes"));
}

#[test]
fn a_path_and_cross_validation_get_compact_tables() {
    let shown = text(&with_path());
    assert!(
        shown.contains(
            "\nPath of 30 values of lambda:\n   Df  %Dev   Lambda\n1   0  0.00 45.16000\n2   1  1.72 36.13000\n"
        ),
        "{shown}"
    );
    assert!(shown.contains("Largest violation of the optimality conditions: 1e-09\n"), "{shown}");
    let expected = "\
Measure: Mean-Squared Error

    Lambda Index Measure  SE Nonzero
min 0.5207    21    3000 220      10
1se 1.2711    17    3160 216      10
";
    assert!(shown.contains(expected), "{shown}");
}

#[test]
fn a_path_of_own_coefficients_says_whose_it_counts() {
    let mut report = with_path();
    for point in report.path.iter_mut().flatten() {
        point.coefficients.retain(|row| row.party == Role::Alice);
    }
    let shown = text(&report);
    assert!(shown.contains("\nPath of 30 values of lambda; Df counts the coefficients of alice alone:\n"), "{shown}");
    let line = "\nMeasure: Mean-Squared Error\nNonzero counts the coefficients of alice alone\n";
    assert!(shown.contains(line), "{shown}");
    assert!(html(&report).contains("df counts the coefficients of alice alone that are not zero"));
}

#[test]
fn terms_and_sentences_cannot_move_a_terminal_or_break_a_line() {
    let mut report = diabetes();
    report.coefficients[1].term = "a\u{1b}[2Jge\r\nx".into();
    report.study = "st\u{7}udy".into();
    report.notes = vec!["bad\u{1b}[31m".into()];
    let shown = text(&report);
    assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{shown:?}");
    assert!(shown.contains("a\\u{1b}[2Jge\\r\\nx"));
}

#[test]
fn long_names_keep_the_columns_of_the_text_aligned() {
    let mut report = diabetes();
    report.coefficients[3].term = "länge_".repeat(40);
    let shown = text(&report);
    let lines: Vec<&str> = shown.lines().skip(4).take(12).collect();
    let ends: Vec<usize> = lines.iter().map(|line| line.trim_end_matches(['*', '.', ' ']).chars().count()).collect();
    assert!(ends.iter().all(|end| *end == ends[0]), "{shown}");
    let page = html(&report);
    assert!(page.contains(&"länge_".repeat(40)), "the table has the whole name");
    assert!(page.contains('…'), "the picture has a short one");
}

#[test]
fn hostile_names_are_inert_on_the_page() {
    let hostile = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>";
    let mut report = with_path();
    report.privacy = PerParty::Own(Some(account(hostile, 1.0, 1)));
    for field in [
        &mut report.study,
        &mut report.study_digest,
        &mut report.run,
        &mut report.call,
        &mut report.link,
        &mut report.outcome,
    ] {
        *field = hostile.into();
    }
    report.notes = vec![hostile.into()];
    report.coefficients[2].term = hostile.into();
    for point in report.path.iter_mut().flatten() {
        point.coefficients[2].term = hostile.into();
    }
    let PerParty::Own(disclosure) = &mut report.disclosure else { unreachable!() };
    disclosure.declared.push(hostile.into());
    disclosure.columns[0].term = hostile.into();
    let page = html(&report);
    assert!(page.contains("&lt;script&gt;"));
    for forbidden in ["<script", "<img", "<SCRIPT", "javascript:"] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    assert_eq!(tags(&page), tags(&html(&with_same_shape(report))), "names add no element and no attribute");
}

/// The same report with a harmless name in place of the hostile one.
fn with_same_shape(report: Report) -> Report {
    let harmless = "x".repeat(52);
    let hostile = r#"<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"#;
    let text = to_json(&report);
    assert!(text.contains(hostile));
    parse(&text.replace(hostile, &harmless)).unwrap()
}

/// Names of elements and attributes, in order, of what stands between `<` and `>`.
fn tags(page: &str) -> Vec<String> {
    page.split('<')
        .skip(1)
        .filter_map(|piece| piece.split('>').next())
        .map(|tag| {
            let mut quoted = false;
            let outside: String = tag
                .chars()
                .filter(|c| {
                    if *c == '"' {
                        quoted = !quoted;
                    }
                    !quoted
                })
                .collect();
            outside
        })
        .collect()
}

#[test]
fn the_page_needs_nothing_from_elsewhere() {
    for report in [diabetes(), private(), with_path()] {
        let page = html(&report);
        for forbidden in ["http://", "https://", "url(", "@import", "<script", "<link", " src=", " href="] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
        assert!(page.starts_with("<!DOCTYPE html>"));
        assert!(!page.contains("NaN") && !page.contains(">inf"), "every position is a number");
    }
}

#[test]
fn the_page_shows_every_picture_that_the_report_has_data_for() {
    let page = html(&with_path());
    for picture in [
        "Coefficients with intervals",
        "Convergence by round",
        "Share of each column of alice",
        "Where the time went",
        "Coefficients against lambda",
        "Cross-validated error against lambda",
    ] {
        assert!(page.contains(picture), "{picture}");
    }
    let page = html(&private());
    assert!(page.contains("nobody may look at the course"));
    assert!(page.contains("<th>Sigma</th>") && page.contains("&lt;b&gt;"), "releases are a table");
    assert!(!page.contains("ndex</th>"), "without what tells nobody anything");
    assert!(!page.contains("Coefficients with intervals"));
}

#[test]
fn nothing_at_all_and_a_great_many_coefficients_are_shown_too() {
    let none = own(Family::Gaussian, &[], Statistics::default());
    assert!(text(&none).contains("No Coefficients"));
    assert!(html(&none).contains("No coefficients."));
    assert_eq!(csv(&none).lines().count(), 1);

    let names: Vec<String> = (0..200).map(|k| format!("column{k}")).collect();
    let rows: Vec<Row<'_>> =
        names.iter().enumerate().map(|(k, name)| (name.as_str(), Some(k as f64), Some(3.0))).collect();
    let many = own(Family::Gaussian, &rows, Statistics { df_residual: Some(1000), ..Statistics::default() });
    assert_eq!(text(&many).lines().filter(|line| line.starts_with("column")).count(), 200);
    let page = html(&many);
    assert_eq!(page.matches("class=\"label\"").count(), 60 + 2 + 1, "drawn rows, disclosed columns and one party");
    assert!(page.contains("The 60 of 200 terms with the largest statistic are drawn"));
    assert!(page.contains("<td class=\"text\">column199</td>") && page.contains("<td class=\"text\">column0</td>"));
}

#[test]
fn what_is_undefined_is_null_in_json_and_na_in_csv() {
    let mut report = diabetes();
    report.coefficients[1].estimate = Some(f64::NAN);
    report.coefficients[1].p_value = Some(f64::INFINITY);
    report.coefficients[2] = Coefficient::new("sex".into(), Role::Alice, None, None, Family::Gaussian, 431.0);
    report.trace[0].objective = f64::NAN;
    report.statistics.aic = None;
    let value: Value = serde_json::from_str(&to_json(&report)).unwrap();
    assert_eq!(value["coefficients"][1]["estimate"], Value::Null);
    assert_eq!(value["coefficients"][2]["conf_low"], Value::Null);
    assert_eq!(value["trace"][0]["objective"], Value::Null);
    assert_eq!(value["aic"], Value::Null);
    assert!(parse(&to_json(&report)).unwrap().trace[0].objective.is_nan());
    assert!(csv(&report).contains("sex,alice,NA,NA,NA,NA,NA,NA\n"));
    assert!(csv(&report).contains("\nage,alice,NA,0.21704143540876222,"));
    assert!(!text(&report).contains("NaN"));
    assert!(!html(&report).contains("NaN"));
}

#[test]
fn the_names_in_json_are_those_that_scripts_rely_on() {
    let (alice, bob) = pair();
    let merged: Value = serde_json::from_str(&to_json(&merge(&alice, &bob).unwrap())).unwrap();
    for name in [
        "coefficients",
        "nobs",
        "df_residual",
        "deviance",
        "null_deviance",
        "aic",
        "bic",
        "log_lik",
        "dispersion",
        "r_squared",
        "adj_r_squared",
        "mcfadden_r_squared",
        "f_test",
        "lr_test",
        "covariance",
        "term_tests",
        "performance",
        "rounds",
        "converged",
        "termination",
        "certificate",
        "bytes_sent",
        "peak_rss_bytes",
        "seconds",
        "disclosure",
        "privacy",
    ] {
        assert!(merged.get(name).is_some(), "{name}");
    }
    let row = merged["coefficients"][0].as_object().unwrap();
    let mut names: Vec<&str> = row.keys().map(String::as_str).collect();
    names.sort_unstable();
    let expected = [
        "conf_high",
        "conf_low",
        "estimate",
        "p_value",
        "party",
        "ratio",
        "ratio_high",
        "ratio_low",
        "statistic",
        "std_error",
        "term",
    ];
    assert_eq!(names, expected);
    assert_eq!(merged["coefficients"][0]["term"], "(Intercept)");
    assert_eq!(merged["coefficients"][0]["party"], "alice");
    assert_eq!(merged["termination"], "converged");
    assert_eq!(merged["bytes_sent"], json!({ "alice": 35412, "bob": 28340 }));
    assert_eq!(merged["seconds"]["bob"]["total"], 0.054);
    assert_eq!(merged["disclosure"]["alice"]["columns"][1], json!({ "term": "sex", "share": 1.0 }));
    assert_eq!(merged["disclosure"]["alice"]["rank"], 2);
    assert_eq!(merged["privacy"], json!({ "alice": null, "bob": null }));
    let own: Value = serde_json::from_str(&to_json(&alice)).unwrap();
    assert_eq!(own["bytes_sent"], 35412);
    assert_eq!(own["certificate"], 9.4e-12);
    assert_eq!(own["seconds"]["read"], 0.004);
    assert_eq!(own["privacy"], Value::Null);
    let path: Value = serde_json::from_str(&to_json(&with_path())).unwrap();
    assert_eq!(path["path"][0]["lambda"], 45.16);
    for name in ["df", "deviance", "kkt", "coefficients"] {
        assert!(path["path"][0].get(name).is_some(), "{name}");
    }
    assert_eq!(path["cv"][20]["mean"], 3000.0);
    assert_eq!(path["cv"][20]["se"], 220.0);
    assert_eq!(path["lambda_min"], path["cv"][20]["lambda"]);
    assert_eq!(path["lambda_1se"], path["cv"][16]["lambda"]);
}

#[test]
fn csv_quotes_what_needs_it_and_keeps_every_digit() {
    let mut report = diabetes();
    report.coefficients.truncate(3);
    report.coefficients[1].term = "a,\"b\"\nc".into();
    report.coefficients[2].term = "NA".into();
    report.coefficients[2].estimate = Some(1e-300);
    let shown = csv(&report);
    assert!(shown.starts_with("term,party,estimate,std_error,statistic,p_value,conf_low,conf_high\n(Intercept),alice,-334.5671385187912,67.45462110434138,"));
    assert!(shown.contains("\n\"a,\"\"b\"\"\nc\",alice,-0.036361224223625886,"));
    assert!(shown.contains("\n\"NA\",alice,1e-300,"));
}

#[test]
fn csv_gives_no_spreadsheet_a_formula_and_leaves_numbers_alone() {
    use super::csv::field;
    for (text, expected) in [
        ("=cmd|' /C calc'!A0", "\"'=cmd|' /C calc'!A0\""),
        ("+a", "\"'+a\""),
        ("-a", "\"'-a\""),
        ("@SUM(A1)", "\"'@SUM(A1)\""),
        ("=\"x\"", "\"'=\"\"x\"\"\""),
        (" =a", "\"' =a\""),
        ("\t=a", "\"'\t=a\""),
        ("-", "\"'-\""),
        ("-0.5", "-0.5"),
        ("+1e3", "+1e3"),
        ("age", "age"),
        ("a=b", "a=b"),
    ] {
        assert_eq!(field(text), expected);
    }
    let mut report = diabetes();
    report.coefficients.truncate(2);
    report.coefficients[1].term = "=cmd|' /C calc'!A0".into();
    report.coefficients[1].estimate = Some(-0.5);
    assert!(csv(&report).contains("\n\"'=cmd|' /C calc'!A0\",alice,-0.5,"));
}

#[test]
fn a_merged_report_takes_each_row_from_its_owner() {
    let (mut alice, mut bob) = pair();
    alice.coefficients[10].estimate = Some(-1.0);
    bob.coefficients[0].estimate = Some(-1.0);
    let merged = merge(&alice, &bob).unwrap();
    assert_eq!(merged.role, None);
    assert_eq!(merged.coefficients, diabetes_by_owner());
    assert_eq!(merged.bytes_sent, PerParty::Merged(BTreeMap::from([(Role::Alice, 35_412), (Role::Bob, 28_340)])));
    // Own coefficients only: the same result.
    alice.coefficients.retain(|row| row.party == Role::Alice);
    bob.coefficients.retain(|row| row.party == Role::Bob);
    assert_eq!(merge(&alice, &bob).unwrap().coefficients, diabetes_by_owner());
}

fn diabetes_by_owner() -> Vec<Coefficient> {
    pair().0.coefficients
}

#[test]
fn what_lay_in_files_is_told_with_its_passes_and_not_to_others_under_privacy() {
    let (mut alice, bob) = pair();
    let lay = InFiles { bytes: 3_100_000_000, read_bytes: Some(57_040_000_000) };
    assert_eq!(lay.passes(), Some(18.4));
    assert_eq!(InFiles { read_bytes: Some(0), ..lay }.words(), "3.1 GB, not read from the disk again");
    alice.in_files = Some(PerParty::Own(lay));
    assert!(html(&alice).contains("3.1 GB, read 18.4 times from the disk"));
    let merged = merge(&alice, &bob).unwrap();
    assert_eq!(merged.in_files, Some(PerParty::Merged(BTreeMap::from([(Role::Alice, lay)]))));
    let (mut alice, mut bob) = (private(), private());
    (alice.role, bob.role, alice.in_files) = (Some(Role::Alice), Some(Role::Bob), Some(PerParty::Own(lay)));
    assert_eq!(merge(&alice, &bob).unwrap().in_files, None);
}

#[test]
fn a_side_that_did_not_converge_is_not_hidden_by_the_other() {
    let (alice, mut bob) = pair();
    bob.termination = Termination::MaxRounds;
    bob.converged = Some(false);
    let merged = merge(&alice, &bob).unwrap();
    assert_eq!((merged.converged, merged.termination), (Some(false), Termination::MaxRounds));
}

#[test]
fn a_merged_path_counts_the_coefficients_of_both() {
    let mut alice = with_path();
    let mut bob = alice.clone();
    bob.role = Some(Role::Bob);
    for (report, role) in [(&mut alice, Role::Alice), (&mut bob, Role::Bob)] {
        for point in report.path.iter_mut().flatten() {
            point.coefficients.retain(|c| c.party == role);
            point.df = 1;
        }
    }
    let merged = merge(&alice, &bob).unwrap();
    let last = merged.path.as_ref().unwrap().last().unwrap();
    assert_eq!((last.df, last.coefficients.len()), (10, 11));
    bob.path.as_mut().unwrap()[3].lambda *= 1.5;
    assert!(matches!(merge(&alice, &bob), Err(MergeError::Differ { what: "lambda", .. })));
}

#[test]
fn reports_of_different_runs_or_roles_are_not_merged() {
    let (alice, bob) = pair();
    let changed = |change: fn(&mut Report)| {
        let mut bob = bob.clone();
        change(&mut bob);
        merge(&alice, &bob)
    };
    for (change, what) in [
        ((|r| r.run = "other".into()) as fn(&mut Report), "run"),
        (|r| r.study_digest = "other".into(), "study digest"),
        (|r| r.mode = Mode::Private, "mode"),
        (|r| r.family = StatedFamily::Poisson, "family"),
        (|r| r.statistics.nobs = 441, "rows"),
    ] {
        assert!(matches!(changed(change), Err(MergeError::Differ { what: came, .. }) if came == what), "{what}");
    }
    assert_eq!(merge(&bob, &alice), Err(MergeError::Role { expected: Role::Alice, came: Some(Role::Bob) }));
    let merged = merge(&alice, &bob).unwrap();
    assert_eq!(merge(&alice, &merged).unwrap_err().to_string(), "expected the report of bob, got a merged one");
    assert_eq!(
        changed(|r| r.run = "7".into()).unwrap_err().to_string(),
        "the reports differ in run: alice has `00112233445566778899aabbccddeeff`, bob has `7`"
    );
    assert!((CONFIDENCE - 0.95).abs() < 1e-15, "pages say 2.5 % and 97.5 %");
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => any::<f64>().prop_filter("finite", |x| x.is_finite()),
        2 => -10.0..10.0,
        1 => Just(0.0),
        1 => Just(f64::MAX),
        1 => Just(5e-324),
    ]
}

prop_compose! {
    fn coefficient()(
        term in ".{0,12}", at_bob in any::<bool>(), values in prop::array::uniform6(prop::option::of(number())),
    ) -> Coefficient {
        let [estimate, std_error, statistic, p_value, conf_low, conf_high] = values;
        let party = if at_bob { Role::Bob } else { Role::Alice };
        let [ratio, ratio_low, ratio_high] = [estimate, conf_low, conf_high];
        Coefficient { term, party, estimate, std_error, statistic, p_value, conf_low, conf_high, ratio, ratio_low, ratio_high }
    }
}

prop_compose! {
    fn arbitrary_report()(
        coefficients in prop::collection::vec(coefficient(), 0..6),
        statistics in prop::array::uniform8(prop::option::of(number())),
        trace in prop::collection::vec((any::<u32>(), number(), number(), number()), 0..5),
        points in prop::collection::vec((number(), any::<u64>(), number(), number()), 0..5),
        seconds in prop::array::uniform4(number()),
        (sent, share, missing) in (any::<u64>(), number(), any::<u64>()),
        (merged, family, ended) in (any::<bool>(), 0..5_usize, 0..6_usize),
        words in prop::array::uniform3(".{0,20}"),
    ) -> Report {
        let mut report = own(Family::Gaussian, &[], Statistics::default());
        report.family = StatedFamily::ALL[family];
        let [deviance, null_deviance, aic, bic, log_lik, dispersion, r_squared, certificate] = statistics;
        report.statistics = Statistics {
            nobs: sent, df_residual: Some(missing as i64), df_null: None,
            deviance, null_deviance, aic, bic, log_lik, dispersion, r_squared,
        };
        report.path = Some(points.iter().map(|&(lambda, df, deviance, kkt)| PathPoint {
            lambda, df, deviance, kkt,
            coefficients: coefficients.iter().map(|row| PathCoefficient {
                term: row.term.clone(), party: row.party, estimate: row.estimate,
            }).collect(),
        }).collect());
        report.cv = Some(points.iter().map(|&(lambda, _, mean, se)| CvPoint { lambda, mean, se }).collect());
        report.lambda_min = points.first().map(|point| point.0);
        report.coefficients = coefficients;
        let test = || r_squared.map(|x| Test { statistic: x, df: missing as i64, df_residual: Some(3), p_value: share });
        report.measures = Measures { adj_r_squared: aic, mcfadden_r_squared: bic, f_test: test(), lr_test: test() };
        report.covariance = aic.map(|x| Covariance { terms: vec![words[0].clone()], parties: vec![Role::Bob], matrix: vec![vec![Some(x), None]] });
        report.term_tests = bic.map(|x| vec![TermTest {
            term: words[1].clone(), party: Role::Bob, df: missing, wald: test(), wald_type_ii: test(), vif: Some(x), scaled_vif: deviance,
        }]);
        report.performance = log_lik.map(|x| Performance {
            events: sent, auc: Some(x), auc_std_error: deviance, auc_low: aic, auc_high: bic, brier: share, hosmer_lemeshow: test(),
            calibration_intercept: aic, calibration_slope: bic,
            deciles: seconds.iter().map(|x| Decile { rows: missing, observed: sent, expected: *x }).collect(),
            roc: seconds.iter().map(|x| RocPoint { false_positive: *x, true_positive: share }).collect(),
        });
        report.trace = trace.into_iter()
            .map(|(round, certificate, change, objective)| TracePoint { round, certificate, change, objective })
            .collect();
        let [read, solve, exchange, total] = seconds;
        let seconds = Seconds { read, solve, exchange, total };
        let [study, call, note] = words;
        let column = ColumnDisclosure { term: note.clone(), share };
        let disclosure = Disclosure { vectors: sent, rank: missing, declared: vec![call.clone()], columns: vec![column], opened: Vec::new() };
        (report.study, report.call, report.notes) = (study, call, vec![note]);
        (report.missing, report.termination) = (missing, Termination::ALL[ended]);
        let privacy = certificate.map(|x| account(&report.call, x, sent as u32 % 4));
        if merged {
            report.role = None;
            let both = [Role::Alice, Role::Bob];
            report.certificate = PerParty::Merged(both.map(|role| (role, certificate)).into());
            report.bytes_sent = PerParty::Merged(both.map(|role| (role, sent)).into());
            report.peak_rss_bytes = PerParty::Merged(both.map(|role| (role, None)).into());
            report.seconds = PerParty::Merged(both.map(|role| (role, seconds)).into());
            report.disclosure = PerParty::Merged(both.map(|role| (role, disclosure.clone())).into());
            report.privacy = PerParty::Merged(both.map(|role| (role, privacy.clone())).into());
        } else {
            report.certificate = PerParty::Own(certificate);
            report.bytes_sent = PerParty::Own(sent);
            report.seconds = PerParty::Own(seconds);
            report.disclosure = PerParty::Own(disclosure);
            report.privacy = PerParty::Own(privacy);
        }
        report
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, rng_algorithm: prop::test_runner::RngAlgorithm::ChaCha, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn json_gives_back_every_report_bit_for_bit(report in arbitrary_report()) {
        let back = parse(&to_json(&report)).unwrap();
        prop_assert_eq!(&back, &report);
        prop_assert_eq!(to_json(&back), to_json(&report));
    }

    #[test]
    fn no_report_stops_text_csv_or_page(report in arbitrary_report()) {
        let shown = text(&report);
        prop_assert!(shown.starts_with("Call:\n") && shown.contains("\nEnded:"));
        prop_assert!(shown.lines().all(|line| line.trim_end() == line));
        let page = html(&report);
        prop_assert!(page.ends_with("</html>"));
        for attribute in page.split("=\"").skip(1) {
            let value = attribute.split('"').next().unwrap_or("");
            prop_assert!(value != "NaN" && value != "inf" && value != "-inf", "{}", attribute);
        }
        prop_assert!(csv(&report).starts_with("term,"));
    }

    #[test]
    fn csv_numbers_read_back_as_the_same_bits(x in number()) {
        let mut report = diabetes();
        report.coefficients.truncate(1);
        report.coefficients[0].estimate = Some(x);
        let line = csv(&report).lines().nth(1).unwrap().to_string();
        let field: f64 = line.split(',').nth(2).unwrap().parse().unwrap();
        prop_assert_eq!(field.to_bits(), x.to_bits());
    }
}
