//! Fits of rows whose means are nearly nothing beside those of others: all digits of what follows from them.

use std::path::Path;

use fedreg_common::fit::Measures;
use fedreg_common::glm::StatedFamily;
use fedreg_common::methods::vertical::outcome::VerticalFit;
use fedreg_common::sim::pair::Faults;
use fedreg_tests::vectors::Case;
use fedreg_tests::{several, vertical};

/// Counts that follow `x` closely, and two rows far below all others with a count all the same.
fn far(file: &Path) -> Case {
    let mut text = "x,z,v,y\n".to_string();
    for row in 0..80_u32 {
        let mut x = -6.0 + 9.5 * f64::from(row * 37 % 80) / 80.0;
        let (z, v) = (f64::from(row * 29 % 31) / 10.0 - 1.5, f64::from(row * 17 % 23) / 8.0 - 1.4);
        let noise = 0.999 + 0.002 * f64::from(row * 13 % 7) / 6.0;
        let mut y = ((4.0 * x + 0.1 * z).exp() * noise).round();
        match row {
            11 => (x, y) = (-14.0, 1.0),
            47 => (x, y) = (-10.0, 2.0),
            _ => {}
        }
        text.push_str(&format!("{x:?},{z:?},{v:?},{y:?}\n"));
    }
    std::fs::write(file, text).unwrap();
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    Case {
        name: "far".to_string(),
        tags: vec![],
        data: file.into(),
        outcome: "y".to_string(),
        family: "poisson".to_string(),
        alice: names(&["x", "v"]),
        bob: names(&["z"]),
        offset: None,
        weights: None,
        intercept: true,
    }
}

/// Newton steps in double precision from sums without rounding (Python's `math.fsum`), to a step below 1e-12 standard errors: R's
/// `poisson()` keeps means above 2.2e-16, and so fits other ones. Pearson's chi-square is 2.2e24 there.
const DEVIANCE: f64 = 271.478_520_904_494_64;
const ESTIMATES: [(&str, f64, f64); 4] = [
    ("(Intercept)", 0.001_905_270_710_939_906_5, 0.010_316_824_800_962_51),
    ("x", 3.999_342_210_437_078_4, 0.003_255_896_183_502_992),
    ("z", 0.100_342_740_843_331_56, 0.001_240_787_087_161_763_8),
    ("v", -0.000_157_515_531_455_269_85, 0.001_051_147_314_939_313),
];

fn assert_exact(name: &str, fit: &VerticalFit) {
    assert!(fit.termination.converged(), "{name}: {}", fit.termination);
    let statistics = &fit.statistics;
    let deviance = statistics.deviance.unwrap();
    assert!((deviance / DEVIANCE - 1.0).abs() < 1e-9, "{name}: {deviance}");
    let null = statistics.null_deviance.unwrap();
    let test = Measures::of(statistics, StatedFamily::Poisson).lr_test.unwrap();
    assert!((test.statistic / (null - DEVIANCE) - 1.0).abs() < 1e-12, "{name}: {}", test.statistic);
    for row in &fit.coefficients {
        let (_, estimate, error) = ESTIMATES.iter().find(|(term, ..)| *term == row.term).unwrap();
        let off = (row.estimate.unwrap() - estimate).abs() / error;
        assert!(off < 1e-8, "{name}: {} is {off} standard errors off", row.term);
        assert!((row.std_error.unwrap() / error - 1.0).abs() < 1e-8, "{name}: error of {}", row.term);
    }
}

#[test]
fn rows_of_nearly_no_mean_take_no_digits_of_deviance_and_estimates() {
    let folder = tempfile::tempdir().unwrap();
    let case = far(&folder.path().join("far.csv"));
    let blocks = [["x".to_string()], ["z".to_string()], ["v".to_string()]];
    let blocks = blocks.each_ref().map(<[String; 1]>::as_slice);
    let swapped = Case { alice: case.bob.clone(), bob: case.alice.clone(), ..case.clone() };
    for more in ["", "[fit]\nacceleration = \"none\"\n"] {
        for case in [&case, &swapped] {
            let fits = vertical::fitted(vertical::run(&vertical::study(case, more), &case.data, Faults::NONE));
            assert_eq!(fits[0].statistics, fits[1].statistics);
            fits.iter().for_each(|fit| assert_exact(&format!("{:?} {more}", case.alice), fit));
        }
        let study = several::study_of(&case, &blocks, "all", more);
        let fits = several::fitted(several::run(&study, &case.data, Faults::NONE));
        for fit in &fits {
            assert_eq!(fit.statistics, fits[0].statistics);
            assert_exact(&format!("several {more}"), fit);
        }
    }
}

/// Counts and outcomes of 0 and 1 with an offset.
fn with_offset(file: &Path, family: &str, offset: impl Fn(u32) -> f64) -> Case {
    let mut text = "x,z,y,o\n".to_string();
    for row in 0..120_u32 {
        let (x, z) = (f64::from(row * 37 % 80) / 20.0 - 2.0, f64::from(row * 29 % 31) / 10.0 - 1.5);
        let u = f64::from(row * 53 % 97) / 97.0;
        let y = match family {
            "binomial" => f64::from(u8::from(u < 1.0 / (1.0 + (-0.4 * x + 0.3 * z).exp()))),
            _ => ((0.3 * x - 0.2 * z + 1.0).exp() * (0.5 + u)).round(),
        };
        text.push_str(&format!("{x:?},{z:?},{y:?},{:?}\n", offset(row)));
    }
    std::fs::write(file, text).unwrap();
    Case {
        name: "offset".to_string(),
        tags: vec![],
        data: file.into(),
        outcome: "y".to_string(),
        family: family.to_string(),
        alice: vec!["x".to_string()],
        bob: vec!["z".to_string()],
        offset: Some("o".to_string()),
        weights: None,
        intercept: true,
    }
}

/// As in R, a constant moves from the offset to the intercept, also where its exponential is no number.
#[test]
fn a_constant_offset_beyond_every_exponential_moves_the_intercept_alone() {
    let folder = tempfile::tempdir().unwrap();
    for family in ["poisson", "quasipoisson", "binomial"] {
        let fit = |constant: f64| {
            let case = with_offset(&folder.path().join("offset.csv"), family, |_| constant);
            vertical::fitted(vertical::run(&vertical::study(&case, ""), &case.data, Faults::NONE))
        };
        let [without, _] = fit(0.0);
        for constant in [800.0, -800.0] {
            for with in fit(constant) {
                assert!(with.termination.converged(), "{family} {constant}: {}", with.termination);
                let deviance = [&with, &without].map(|fit| fit.statistics.deviance.unwrap());
                assert!((deviance[0] / deviance[1] - 1.0).abs() < 1e-10, "{family} {constant}: {deviance:?}");
                for (row, plain) in with.coefficients.iter().zip(&without.coefficients) {
                    let moved = if row.term == "(Intercept)" { constant } else { 0.0 };
                    let off = row.estimate.unwrap() + moved - plain.estimate.unwrap();
                    assert!(off.abs() < 1e-9, "{family} {constant}: {} {off}", row.term);
                    let errors = [row, plain].map(|row| row.std_error.unwrap());
                    assert!((errors[0] / errors[1] - 1.0).abs() < 1e-8, "{family} {constant}: {errors:?}");
                }
            }
        }
    }
}

/// The gradient at the estimates is zero although the variance of most rows vanishes in double precision; no party accuses
/// another.
#[test]
fn offsets_far_apart_end_in_a_maximum_or_say_that_they_do_not() {
    let folder = tempfile::tempdir().unwrap();
    for family in ["poisson", "quasipoisson", "binomial"] {
        for unit in [-1500.0, 700.0, 1500.0] {
            let file = folder.path().join("offset.csv");
            let offset = |row: u32| unit * (f64::from(row * 41 % 61) / 61.0 - 0.5);
            let case = with_offset(&file, family, offset);
            let blocks = [case.alice.as_slice(), &case.bob];
            let ended = vertical::run(&vertical::study(&case, ""), &file, Faults::NONE);
            for fit in vertical::fitted(ended) {
                match fit.termination.converged() {
                    true => assert_maximum(&format!("{family} {unit}"), &fit, &file, family),
                    false => assert!(fit.notes.iter().any(|note| note.contains("log(o)")), "{:?}", fit.notes),
                }
            }
            let study = several::study_of(&case, &blocks, "all", "");
            several::fitted(several::run(&study, &file, Faults::NONE));
        }
    }
}

fn assert_maximum(name: &str, fit: &VerticalFit, file: &Path, family: &str) {
    let text = std::fs::read_to_string(file).unwrap();
    let estimate = |term: &str| fit.coefficients.iter().find(|row| row.term == term).unwrap().estimate.unwrap();
    let mut gradient = [0.0; 3];
    let mut size = 0.0_f64;
    for line in text.lines().skip(1) {
        let values: Vec<f64> = line.split(',').map(|cell| cell.parse().unwrap()).collect();
        let eta = estimate("(Intercept)") + estimate("x") * values[0] + estimate("z") * values[1] + values[3];
        let mean = if family.ends_with("poisson") { eta.exp() } else { 1.0 / (1.0 + (-eta).exp()) };
        for (sum, x) in gradient.iter_mut().zip([1.0, values[0], values[1]]) {
            *sum += x * (values[2] - mean);
        }
        size += values[2] * values[2];
    }
    assert!(gradient.iter().all(|sum| sum.abs() < 1e-6 * size), "{name}: {gradient:?} of {size}");
}

#[test]
fn as_many_coefficients_as_rows_leave_no_dispersion_and_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("few.csv");
    for (family, said) in [("gaussian", true), ("quasipoisson", true), ("poisson", false)] {
        let case = with_offset(&file, family, |_| 0.0);
        std::fs::write(&file, "x,z,y,o\n1,2,3,0\n2,5,1,0\n4,3,2,0\n").unwrap();
        for fit in vertical::fitted(vertical::run(&vertical::study(&case, ""), &file, Faults::NONE)) {
            let note = fit.notes.iter().any(|note| note.contains("as many coefficients as rows"));
            assert_eq!(note, said, "{family}: {:?}", fit.notes);
        }
    }
}
