//! What stands beside the coefficients.

use super::*;

/// A binomial fit, with estimates and errors that R 4.2.2 printed.
fn odds() -> Report {
    let rows = [
        ("(Intercept)", Some(-14.516667758864982), Some(1.4913506865972399)),
        ("sex", Some(-0.60820814353046504), Some(0.25131567143817768)),
        ("bmi", Some(0.17379208649327044), Some(0.033689086273706433)),
        ("bmi2", None, None),
    ];
    let statistics = Statistics {
        nobs: 440,
        df_residual: Some(437),
        df_null: Some(439),
        deviance: Some(439.40879592392491),
        null_deviance: Some(609.96951889275181),
        log_lik: Some(-219.704397961962455),
        dispersion: Some(1.0),
        ..Statistics::default()
    };
    own(Family::Binomial, &rows, statistics)
}

// format(exp(c(b, b - 1.959964 * se, b + 1.959964 * se)), digits = 4) in R 4.2.2.
#[test]
fn odds_ratios_stand_below_the_fit_and_on_the_page() {
    let report = odds().with_derived();
    let shown = text(&report);
    let expected = "\
Odds ratios:
            Odds ratio     2.5 %    97.5 %
(Intercept)   4.96e-07 2.667e-08 9.224e-06
sex             0.5443    0.3326    0.8908
bmi               1.19     1.114     1.271

";
    assert!(shown.contains(expected), "{shown}");
    assert!(
        shown.contains("\nMcFadden R squared: 0.2796,  Likelihood ratio test: 170.6 on 2 DF, p-value: <2e-16\n"),
        "{shown}"
    );
    let page = html(&report);
    assert!(page.contains("aria-label=\"Odds ratios with intervals\"") && page.contains("<h2>Odds ratios</h2>"));
    assert!(page.contains("1.19 [1.11, 1.27]"));
    let gaussian = diabetes().with_derived();
    assert!(!text(&gaussian).contains("ratios:") && !html(&gaussian).contains("ratios</h2>"));
}

/// R: `exp(800)` is Inf and `exp(-800)` is 0.
#[test]
fn ratios_that_overflow_keep_their_row_and_are_infinite() {
    let mut report = odds();
    let new = |term: &str, estimate| {
        Coefficient::new(term.into(), Role::Alice, Some(estimate), Some(1.0), Family::Binomial, 437.0)
    };
    report.coefficients[0] = new("(Intercept)", -800.0);
    report.coefficients[1] = new("steep", 709.0);
    report.coefficients.insert(2, new("huge", 800.0));
    let shown = text(&report.with_derived());
    for row in [
        "(Intercept)          0         0          0\n",
        "steep       8.218e+307 1.158e+307       Inf\n",
        "huge               Inf       Inf        Inf\n",
    ] {
        let row: Vec<&str> = row.split_whitespace().collect();
        let below = shown.split("Odds ratios:").nth(1).unwrap();
        let found = below.lines().any(|line| line.split_whitespace().eq(row.iter().copied()));
        assert!(found, "{row:?} in {below}");
    }
}

#[test]
fn rounds_that_ended_early_have_no_test_of_the_whole_fit() {
    let report = Report { termination: Termination::MaxRounds, converged: Some(false), ..odds() };
    let shown = text(&report.with_derived());
    assert!(!shown.contains("Likelihood ratio test") && !shown.contains("McFadden"), "{shown}");
}

/// R 4.2.2: `anova(lm(mpg ~ 0 + wt + hp, mtcars), lm(mpg ~ wt + hp, mtcars))`, and the larger one with `weights = qsec`.
#[test]
fn a_fit_without_an_intercept_is_tested_against_one_with_it() {
    use crate::report::hypothesis::nested;
    let of = |rows: &[&str], df: i64, [deviance, null, log_lik]: [f64; 3]| {
        let values: Vec<_> = rows.iter().map(|term| (*term, Some(1.0), Some(1.0))).collect();
        let df_null = if rows[0] == "(Intercept)" { 31 } else { 32 };
        let statistics = Statistics {
            nobs: 32,
            df_residual: Some(df),
            df_null: Some(df_null),
            deviance: Some(deviance),
            null_deviance: Some(null),
            log_lik: Some(log_lik),
            ..Statistics::default()
        };
        own(Family::Gaussian, &values, statistics)
    };
    let without = of(&["wt", "hp"], 30, [3_841.611_665_864_754, 14_042.31, -122.012_614_812_677]);
    let all = ["(Intercept)", "wt", "hp"];
    let with = of(&all, 29, [195.047_754_741_466_4, 1_126.047_187_5, -74.326_169_412_820_7]);
    let test = nested((&without).into(), (&with).into()).unwrap();
    let f = test.f.unwrap();
    assert!((f.statistic - 542.176_73).abs() < 1e-5 && (f.df, f.df_residual) == (1, Some(29)), "{f:?}");
    assert_eq!(test.reason, None);
    let weighted = of(&all, 29, [3_574.456_818_563_684, 19_000.0, -74.825_368_897_210_3]);
    let apart = nested((&without).into(), (&weighted).into()).unwrap_err().to_string();
    assert!(apart.contains("weights or rows differ"), "{apart}");
    // As many coefficients as rows.
    let saturated = of(&["(Intercept)", "wt", "hp", "qsec"], 0, [0.0, 1_126.047_187_5, f64::INFINITY]);
    let test = nested((&with).into(), (&saturated).into()).unwrap();
    assert!(test.f.is_none() && test.likelihood_ratio.is_none());
    assert!(test.to_string().contains("No test: the larger fit has as many coefficients as rows"), "{test}");
    assert!(serde_json::to_string(&test).unwrap().contains("as many coefficients as rows"));
}

#[test]
fn terms_and_curves_stand_in_text_and_page() {
    let test = Test { statistic: 4.0634, df: 3, df_residual: None, p_value: 0.2547 };
    let term = |term: &str, df| TermTest {
        term: term.into(),
        party: Role::Alice,
        df,
        wald: Some(test),
        wald_type_ii: Some(test),
        vif: Some(1.0363),
        scaled_vif: Some(1.006),
    };
    let predictor: Vec<f64> = (0..200).map(|row| f64::from(row % 37) / 10.0 - 2.0).collect();
    let y: Vec<f64> = (0..200).map(|row| f64::from(u8::from(row * 7 % 11 < 5))).collect();
    let performance = Performance::of(&y, |row| predictor[row]);
    let term_tests = Some(vec![term("bmi", 1), term("region", 3)]);
    let report = Report { term_tests, performance, ..odds() }.with_derived();
    let shown = text(&report);
    let expected = "\
Wald tests of the terms (type III):
       Df Chisq Pr(>Chisq)   VIF VIF^(1/(2 Df))
bmi     1 4.063      0.255 1.036          1.006
region  3 4.063      0.255 1.036          1.006

";
    assert!(shown.contains(expected), "{shown}");
    let known = report.performance.as_ref().unwrap();
    let shows = |what: &str, value: Option<f64>| {
        let expected = format!("{what}: {}", crate::report::number::single(Some(value.unwrap()), 4));
        assert!(shown.contains(&expected), "{expected} in {shown}");
    };
    shows("\nArea under the ROC curve", known.auc);
    shows("] (DeLong),  standard error", known.auc_std_error);
    shows("\nBrier score", Some(known.brier));
    shows(",  Hosmer-Lemeshow test", known.hosmer_lemeshow.map(|test| test.statistic));
    shows("\nCalibration intercept", known.calibration_intercept);
    shows(",  calibration slope", known.calibration_slope);
    let page = html(&report);
    for label in ["ROC curve", "Calibration by deciles"] {
        assert!(page.contains(&format!("aria-label=\"{label}\"")), "{label}");
    }
    assert!(page.contains("<h2>Terms</h2>") && page.contains("<h2>Discrimination and calibration</h2>"));
}

#[test]
fn tests_by_type_ii_stand_beside_those_by_type_iii_in_text_and_page() {
    let test = |statistic: f64| Some(Test { statistic, df: 1, df_residual: None, p_value: 0.25 });
    let term = |term: &str, wald, wald_type_ii| TermTest {
        term: term.into(),
        party: Role::Alice,
        df: 1,
        wald,
        wald_type_ii,
        vif: None,
        scaled_vif: None,
    };
    let tests = vec![term("bmi", test(4.0634), test(9.5)), term("bmi:sex", test(1.5), test(1.5))];
    let report = Report { term_tests: Some(tests), ..odds() }.with_derived();
    let expected = "\
Wald tests of the terms (type III, and type II beside all but the terms that contain it):
        Df Chisq Pr(>Chisq) Type II Pr(type II)
bmi      1 4.063       0.25     9.5        0.25
bmi:sex  1   1.5       0.25     1.5        0.25

";
    let shown = text(&report);
    assert!(shown.contains(expected), "{shown}");
    assert!(html(&report).contains("Pr(type II)"));
}

#[test]
fn the_covariance_of_the_coefficients_stands_on_the_page_folded_where_it_is_wide() {
    let of = |size: usize| {
        let value = |i: usize, j: usize| Some(0.5 + (10 * i.min(j) + i.max(j)) as f64).filter(|_| i + j != 3);
        let covariance = Covariance {
            terms: (0..size).map(|at| format!("<x{at}>")).collect(),
            parties: vec![Role::Alice; size],
            matrix: (0..size).map(|i| (0..size).map(|j| value(i, j)).collect()).collect(),
        };
        Report { covariance: Some(covariance), ..odds() }.with_derived()
    };
    let heading = "<h2>Covariance of the coefficients</h2>";
    let page = html(&of(3));
    let (_, section) = page.split_once(heading).unwrap();
    let (section, _) = section.split_once("</section>").unwrap();
    assert!(section.contains("<th>&lt;x2&gt;</th>") && section.contains("<td>22.5</td>"), "{section}");
    assert!(section.contains("NA: not known in this report") && !section.contains("<details>"), "{section}");
    assert!(html(&of(11)).contains("<details><summary>11 rows and columns</summary>"));
    let page = html(&of(61));
    assert!(page.contains(heading) && page.contains("report.json") && !page.contains("&lt;x60&gt;"), "{page}");
    assert!(!text(&of(3)).contains("Covariance") && !html(&odds()).contains(heading));
}

// The point where iterations end is no maximum: R prints numbers of it, with a warning.
#[test]
fn after_separation_nothing_follows_from_a_maximum_that_does_not_exist() {
    let mut report = Report { termination: Termination::Separation, ..odds() };
    (report.statistics.aic, report.statistics.bic) = (Some(445.4), Some(457.7));
    let report = report.with_derived();
    assert_eq!(report.measures, Measures::default());
    assert!(report.coefficients.iter().all(|row| row.ratio.is_none()));
    let s = &report.statistics;
    assert_eq!((s.aic, s.bic, s.log_lik), (None, None, None));
    assert!(s.deviance.is_some() && s.null_deviance.is_some());
    let shown = text(&report);
    assert!(shown.contains("AIC: NA") && shown.contains("the likelihood has no maximum"), "{shown}");
    assert!(!shown.contains("Odds ratios:") && !shown.contains("Likelihood ratio test"), "{shown}");
}

#[test]
fn in_private_mode_nothing_follows_but_ratios_of_what_was_released() {
    let report = Report { mode: Mode::Private, ..odds() }.with_derived();
    assert_eq!(report.measures, Measures::default());
    assert!(report.coefficients.iter().all(|row| row.ratio == row.estimate.map(f64::exp)));
    let shown = text(&report);
    assert!(!shown.contains("McFadden") && !shown.contains("Likelihood ratio"), "{shown}");
}

#[test]
fn ratios_without_intervals_do_not_speak_of_any() {
    let mut report = Report { mode: Mode::Private, ..odds() }.with_derived();
    assert!(html(&report).contains("Intervals show the noise alone"));
    for row in &mut report.coefficients {
        (row.std_error, row.statistic, row.p_value) = (None, None, None);
        (row.conf_low, row.conf_high, row.ratio_low, row.ratio_high) = (None, None, None, None);
    }
    report.notes = vec!["standard errors and intervals: not computed".into()];
    let page = html(&report);
    assert!(page.contains("Exponentials of the estimates. That of the intercept"), "{page}");
    assert!(!page.contains("Intervals show the noise alone"), "{page}");
    assert!(page.contains("Standard errors are not available: see the notes."), "{page}");
}
