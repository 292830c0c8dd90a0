//! Fits with an estimated dispersion against R's `quasibinomial` and `quasipoisson`, over the simulated lines.

use fedreg_common::fit::{Measures, Test};
use fedreg_common::id::Role;
use fedreg_common::methods::vertical::outcome::VerticalFit;
use fedreg_common::report::hypothesis::{self, Fitted};
use fedreg_common::sim::pair::Faults;
use fedreg_tests::vectors::{self, Case, Glm, Quasi};
use fedreg_tests::vertical::family;
use fedreg_tests::{several, vertical};

const TIGHT: &str = "[fit]\ntol = 1e-11\n";

/// The cases, with the family that they are fitted by.
fn cases() -> Vec<(Case, Quasi)> {
    let glms: Vec<Glm> = vectors::all("glm");
    let case = |of: &Quasi| {
        let mut case = glms.iter().find(|glm| glm.case.name == of.name).unwrap().case.clone();
        case.family = of.family.clone();
        case
    };
    vectors::all::<Quasi>("quasi").into_iter().map(|of| (case(&of), of)).collect()
}

/// How far numbers are off those of R, in units of eight digits, each with its name.
#[derive(Default)]
struct Off(Vec<(f64, String)>);

impl Off {
    fn add(&mut self, what: String, got: Option<f64>, expected: f64, size: f64) {
        let got = got.unwrap_or_else(|| panic!("{what} is missing"));
        let off = if got == expected { 0.0 } else { (got - expected).abs() / (1e-8 * expected.abs().max(size)) };
        self.0.push((off, format!("{what}: {got} {expected}")));
    }

    fn add_test(&mut self, what: &str, got: Option<Test>, expected: &Test) {
        let got = got.unwrap_or_else(|| panic!("{what} is missing"));
        assert_eq!((got.df, got.df_residual), (expected.df, expected.df_residual), "{what}");
        self.add(format!("{what} F"), Some(got.statistic), expected.statistic, 1e-2);
        // A probability magnifies what its statistic is off by.
        self.add(format!("{what} probability"), Some(got.p_value.ln()), expected.p_value.ln(), 1.0);
    }

    fn assert_small(mut self, least: usize) {
        assert!(self.0.len() >= least, "{}", self.0.len());
        self.0.sort_by(|a, b| b.0.total_cmp(&a.0));
        println!("worst {:?}", &self.0[..self.0.len().min(5)]);
        let bad: Vec<_> = self.0.iter().filter(|(off, _)| !(*off <= 1.0)).collect();
        assert!(bad.is_empty(), "{} of {} are off: {:#?}", bad.len(), self.0.len(), &bad[..bad.len().min(20)]);
    }
}

/// All that a party knows of a fit.
fn compared(name: &str, (fit, who): (&VerticalFit, Role), of: &Quasi, off: &mut Off) {
    let statistics = &fit.statistics;
    assert_eq!((statistics.log_lik, statistics.aic, statistics.bic), (None, None, None), "{name}");
    assert_eq!(statistics.df_residual, Some(of.df_residual), "{name}");
    off.add(format!("{name} dispersion"), statistics.dispersion, of.dispersion, 0.0);
    off.add(format!("{name} deviance"), statistics.deviance, of.deviance, 1e-6);
    off.add(format!("{name} null deviance"), statistics.null_deviance, of.null_deviance, 1e-6);
    let measures = Measures::of(statistics, family(&of.family));
    assert_eq!((measures.mcfadden_r_squared, measures.lr_test), (None, None), "{name}");
    off.add_test(&format!("{name} model"), measures.f_test, &of.f_test);
    let rows: Vec<_> = fit.coefficients.iter().filter(|row| row.estimate.is_some()).collect();
    assert_eq!(rows.len(), of.coefficients.len(), "{name}");
    for row in rows {
        let expected = of.coefficients.iter().find(|expected| expected.term == row.term).unwrap();
        let (name, size) = (format!("{name} {}", row.term), expected.std_error);
        off.add(format!("{name} estimate"), row.estimate, expected.estimate, 1e-3 * size);
        off.add(format!("{name} error"), row.std_error, size, 0.0);
        off.add(format!("{name} t"), row.statistic, expected.statistic, 1.0);
        off.add(format!("{name} p"), row.p_value.map(f64::ln), expected.p_value.ln(), 1.0);
        off.add(format!("{name} low"), row.conf_low, expected.conf_low, size);
        off.add(format!("{name} high"), row.conf_high, expected.conf_high, size);
    }
    for row in fit.term_tests.iter().flatten() {
        let expected = of.term_tests.iter().find(|expected| expected.term == row.term).unwrap();
        assert_eq!(row.df, expected.df, "{name} {}", row.term);
        off.add_test(&format!("{name} {}", row.term), row.wald, &expected.wald);
    }
    let has_own = fit.coefficients.iter().any(|row| row.party == who && row.std_error.is_some());
    assert_eq!(fit.covariance.is_some(), has_own, "{name}");
    let Some(covariance) = &fit.covariance else { return };
    let place = |term: &String| of.covariance.terms.iter().position(|known| known == term).unwrap();
    let expected = |i: usize, j: usize| of.covariance.matrix[i][j];
    for (i, row) in covariance.terms.iter().map(place).zip(&covariance.matrix) {
        for (j, got) in covariance.terms.iter().map(place).zip(row) {
            let size = (expected(i, i) * expected(j, j)).sqrt();
            off.add(format!("{name} covariance {i} {j}"), *got, expected(i, j), size);
        }
    }
    assert!(covariance.parties.contains(&who), "{name}");
}

#[test]
fn an_estimated_dispersion_and_what_follows_from_it_have_the_digits_of_r_at_either_party() {
    let mut off = Off::default();
    for (case, of) in cases() {
        for more in ["[inference]\nsender = \"alice\"\n", "[inference]\nsender = \"bob\"\n"] {
            for study in [vertical::study, vertical::study_at_alice] {
                let study = study(&case, &format!("{more}{TIGHT}"));
                let fits = vertical::fitted(vertical::run(&study, &case.file(), Faults::NONE));
                for (fit, who) in fits.iter().zip([Role::Alice, Role::Bob]) {
                    compared(&format!("{} {more:?} at {who}", case.name), (fit, who), &of, &mut off);
                }
            }
        }
    }
    off.assert_small(10_000);
}

#[test]
fn an_estimated_dispersion_of_several_parties_has_the_digits_of_r() {
    let mut off = Off::default();
    for (case, of) in cases() {
        for (parties, held_by) in [(3, "anna"), (5, "all")] {
            let study = several::study(&case, parties, held_by, TIGHT);
            let fits = several::fitted(several::run(&study, &case.file(), Faults::NONE));
            for (fit, who) in fits.iter().zip(study.parties_in_order()) {
                compared(&format!("{} {parties} at {who}", case.name), (fit, who), &of, &mut off);
            }
        }
    }
    off.assert_small(10_000);
}

#[test]
fn nested_fits_with_an_estimated_dispersion_are_tested_as_anova_tests_them() {
    let (mut off, mut tested) = (Off::default(), 0);
    for (case, of) in cases() {
        let Some(smaller) = &of.smaller else { continue };
        let mut less = case.clone();
        (less.alice, less.bob) = (smaller.alice.clone(), smaller.bob.clone());
        let [small, large] = [&less, &case]
            .map(|case| vertical::fitted(vertical::run(&vertical::study(case, TIGHT), &case.file(), Faults::NONE)));
        for side in [0, 1] {
            let [small, large] = [&small[side], &large[side]].map(|fit| Fitted {
                family: family(&of.family),
                outcome: &case.outcome,
                statistics: &fit.statistics,
                coefficients: &fit.coefficients,
                covariance: fit.covariance.as_ref(),
                unfit: None,
            });
            if small.statistics.nobs != large.statistics.nobs {
                // Rows with a gap in a column that the smaller model lacks: not the same rows.
                assert!(hypothesis::nested(small, large).is_err(), "{}", case.name);
                continue;
            }
            let nested = hypothesis::nested(small, large).unwrap();
            assert_eq!(nested.likelihood_ratio, None, "{}", case.name);
            off.add_test(&case.name, nested.f, &smaller.f);
            let base = Fitted { family: family(of.family.trim_start_matches("quasi")), ..small };
            let apart = hypothesis::nested(base, large).unwrap_err().to_string();
            assert!(apart.contains("the second quasi"), "{apart}");
            tested += 1;
        }
        let terms: Vec<&String> =
            large[0].covariance.as_ref().unwrap().terms.iter().filter(|term| *term != "(Intercept)").collect();
        let hypothesis = [format!("`{}` = 0", terms[0])];
        let fit = Fitted {
            family: family(&of.family),
            outcome: &case.outcome,
            statistics: &large[0].statistics,
            coefficients: &large[0].coefficients,
            covariance: large[0].covariance.as_ref(),
            unfit: None,
        };
        // The square of Student's t is the F of one coefficient.
        let t = of.coefficients.iter().find(|row| row.term == *terms[0]).unwrap();
        let expected =
            Test { statistic: t.statistic.powi(2), df: 1, df_residual: Some(of.df_residual), p_value: t.p_value };
        off.add_test(&case.name, hypothesis::linear(fit, &hypothesis).unwrap().test, &expected);
    }
    assert!(tested >= 20, "{tested}");
    off.assert_small(60);
}

#[test]
fn without_the_basis_exchange_the_dispersion_stands_alone() {
    let (case, of) = cases().into_iter().find(|(case, _)| case.name == "poisson_quine").unwrap();
    let study = vertical::study(&case, &format!("[inference]\nallowed = false\n{TIGHT}"));
    let mut off = Off::default();
    for fit in vertical::fitted(vertical::run(&study, &case.file(), Faults::NONE)) {
        off.add("dispersion".into(), fit.statistics.dispersion, of.dispersion, 0.0);
        assert!(fit.coefficients.iter().all(|row| row.estimate.is_some() && row.std_error.is_none()));
        assert_eq!(fit.statistics.log_lik, None);
    }
    off.assert_small(2);
}
