//! Against R: `tests/vectors/make/statistics.R`.

use super::*;
use crate::glm::Family;

#[derive(Deserialize)]
struct Set {
    name: String,
    y: Vec<f64>,
    predictor: Vec<f64>,
    expected: serde_json::Value,
}

fn sets() -> Vec<Set> {
    let texts = [
        include_str!("../../../tests/vectors/performance/miscalibrated.json"),
        include_str!("../../../tests/vectors/performance/ties.json"),
        include_str!("../../../tests/vectors/performance/few_rows.json"),
        include_str!("../../../tests/vectors/performance/backwards.json"),
        include_str!("../../../tests/vectors/performance/extreme.json"),
        include_str!("../../../tests/vectors/performance/one_event.json"),
        include_str!("../../../tests/vectors/performance/no_event.json"),
        include_str!("../../../tests/vectors/performance/one_value.json"),
        include_str!("../../../tests/vectors/performance/lowest_ties.json"),
        include_str!("../../../tests/vectors/performance/highest_ties.json"),
    ];
    texts.into_iter().map(|text| serde_json::from_str(text).unwrap()).collect()
}

/// That two results have the same fields, and numbers of the same eight digits.
fn agree(name: &str, got: &serde_json::Value, expected: &serde_json::Value) {
    use serde_json::Value::{Array, Number, Object};
    match (got, expected) {
        (Number(got), Number(expected)) => {
            let (got, expected) = (got.as_f64().unwrap(), expected.as_f64().unwrap());
            assert!((got - expected).abs() <= 1e-8 * expected.abs().max(1e-2), "{name}: {got} {expected}");
        }
        (Array(got), Array(expected)) => {
            assert_eq!(got.len(), expected.len(), "{name}");
            got.iter()
                .zip(expected)
                .enumerate()
                .for_each(|(at, (got, expected))| agree(&format!("{name}[{at}]"), got, expected));
        }
        (Object(got), Object(expected)) => {
            for (key, got) in got {
                agree(&format!("{name}.{key}"), got, expected.get(key).unwrap_or(&serde_json::Value::Null));
            }
            assert!(expected.keys().all(|key| got.contains_key(key)), "{name}: {got:?}");
        }
        (got, expected) => assert_eq!(got, expected, "{name}"),
    }
}

#[test]
fn discrimination_and_calibration_are_those_of_r() {
    for set in sets() {
        let got = Performance::of(&set.y, |row| set.predictor[row]).unwrap();
        agree(&set.name, &serde_json::to_value(&got).unwrap(), &set.expected);
    }
}

/// R 4.2.2: `p <- fitted(glm(y ~ a + b, binomial))`, groups by `cut(p, unique(quantile(p, 0:10 / 10)), include.lowest = TRUE)`.
#[test]
fn rows_that_share_the_lowest_probability_are_in_the_group_of_the_next_quantile() {
    let sets = [
        (2, 11, -1.731_616_157_388_95),
        (5, 10, 0.138_544_908_251_25),
        (3, 10, -0.687_538_226_612_623),
        (8, 10, 1.182_622_839_027_57),
    ];
    let rows: Vec<(f64, f64)> = sets
        .iter()
        .flat_map(|(events, rows, eta)| (0..*rows).map(move |row| (f64::from(u8::from(row < *events)), *eta)))
        .collect();
    let y: Vec<f64> = rows.iter().map(|(y, _)| *y).collect();
    let got = Performance::of(&y, |row| rows[row].1).unwrap();
    let test = got.hosmer_lemeshow.unwrap();
    assert_eq!(test.df, 1);
    assert!((test.statistic - 0.114_664_630_5).abs() < 1e-9, "{}", test.statistic);
    assert!((test.p_value - 0.734_894_761_1).abs() < 1e-9, "{}", test.p_value);
    assert_eq!(got.deciles.iter().map(|group| group.rows).collect::<Vec<_>>(), [21, 10, 10]);
}

#[test]
fn nothing_is_printed_of_fewer_than_five_rows() {
    for set in sets() {
        let got = Performance::of(&set.y, |row| set.predictor[row]).unwrap();
        assert_eq!(got.deciles.iter().map(|group| group.rows).sum::<u64>(), set.y.len() as u64, "{}", set.name);
        assert!(got.deciles.iter().all(|group| group.rows >= 5), "{}", set.name);
        let (events, others) = (got.events as f64, (set.y.len() as u64 - got.events) as f64);
        let rows = |point: &performance::RocPoint| point.true_positive * events + point.false_positive * others;
        assert!(got.roc.windows(2).all(|pair| rows(&pair[1]) - rows(&pair[0]) > 4.5), "{}", set.name);
        assert!(got.roc.len() <= 101, "{}", set.name);
    }
    let few = Performance::of(&[0.0, 1.0, 1.0, 0.0], |row| row as f64).unwrap();
    assert!(few.deciles.is_empty());
    assert_eq!(few.roc.len(), 2, "the corners alone");
}

#[test]
fn calibration_exists_for_predictors_that_say_far_too_much() {
    // i <- 0:199; eta <- 9*sin(1.7*i) + 2*cos(0.3*i*i); y <- as.numeric((i*7 + (i*i) %% 11) %% 5 < 2)
    // coef(glm(y ~ eta, family = binomial)), R 4.2.2; the same with 40*eta.
    let y: Vec<f64> = (0..200_u32).map(|i| f64::from(u8::from((i * 7 + (i * i) % 11) % 5 < 2))).collect();
    let eta = |row: usize| 9.0 * (1.7 * row as f64).sin() + 2.0 * (0.3 * (row * row) as f64).cos();
    for (scale, slope) in [(1.0, 0.001_607_551_353_229_125), (40.0, 4.018_878_383_072_717e-5)] {
        let performance = Performance::of(&y, |row| scale * eta(row)).unwrap();
        assert!((performance.calibration_intercept.unwrap() + 0.426_534_161_172_048_06).abs() < 1e-12);
        assert!((performance.calibration_slope.unwrap() - slope).abs() < 1e-10 * slope);
    }
}

#[test]
fn outcomes_that_are_no_events_have_no_performance_and_stop_nothing() {
    assert_eq!(Performance::of(&[], |_| 0.0), None);
    assert_eq!(Performance::of(&[0.0, 0.5, 1.0], |_| 0.0), None);
    assert_eq!(Performance::of(&[0.0, 1.0], |_| f64::NAN), None);
    let one = Performance::of(&[1.0], |_| 800.0).unwrap();
    assert_eq!((one.auc, one.hosmer_lemeshow, one.calibration_slope), (None, None, None));
    let perfect: Vec<f64> = (0..40).map(|row| f64::from(u8::from(row >= 20))).collect();
    let perfect = Performance::of(&perfect, |row| row as f64 - 19.5).unwrap();
    assert_eq!((perfect.auc, perfect.auc_std_error), (Some(1.0), Some(0.0)));
    assert_eq!(perfect.calibration_slope, None, "a larger slope is always better");
}

#[test]
fn measures_of_a_fit_without_degrees_of_freedom_or_variation_are_undefined() {
    let fit = |deviance: f64, null_deviance: f64, df_residual: i64, df_null: i64| Statistics {
        deviance: Some(deviance),
        null_deviance: Some(null_deviance),
        df_residual: Some(df_residual),
        df_null: Some(df_null),
        log_lik: Some(-0.5 * deviance),
        ..Statistics::default()
    };
    for family in Family::ALL.map(StatedFamily::from) {
        let constant = Measures::of(&fit(0.0, 0.0, 8, 9), family);
        let tested = constant.lr_test.map(|test| (test.statistic, test.p_value));
        assert_eq!(
            (constant.adj_r_squared, constant.f_test, constant.mcfadden_r_squared),
            (None, None, None),
            "{family}"
        );
        assert_eq!(tested, (family != StatedFamily::Gaussian).then_some((0.0, 1.0)), "{family}");
        let saturated = Measures::of(&fit(0.0, 4.0, 0, 9), family);
        assert_eq!((saturated.adj_r_squared, saturated.f_test), (None, None), "{family}");
        let alone = Measures::of(&fit(4.0, 4.0, 9, 9), family);
        assert_eq!((alone.f_test, alone.lr_test), (None, None), "{family}");
        assert_eq!(Measures::of(&Statistics::default(), family), Measures::default());
    }
}

#[test]
fn ratios_are_of_odds_and_rates_only_and_withheld_with_inference() {
    let row = |family: Family, estimate| {
        Coefficient::new("x".into(), Role::Bob, Some(estimate), Some(0.1), family, 10.0).with_ratio(family.into())
    };
    assert_eq!(row(Family::Gaussian, 0.5).ratio, None);
    let mut odds = row(Family::Binomial, 0.5);
    // exp(0.5 + c(0, -1, 1) * qnorm(0.975) * 0.1) in R
    let expected = [1.648721270700128, 1.355273937162302, 2.005706561546247];
    for (got, expected) in [odds.ratio, odds.ratio_low, odds.ratio_high].into_iter().zip(expected) {
        assert!((got.unwrap() / expected - 1.0).abs() < 1e-12, "{got:?} {expected}");
    }
    assert_eq!(row(Family::Poisson, 800.0).ratio, None, "beyond the largest number");
    odds.withhold_inference();
    assert_eq!((odds.ratio.is_some(), odds.ratio_low, odds.ratio_high), (true, None, None));
}

#[test]
fn blocks_of_parties_stand_on_the_diagonal_and_nothing_between_them() {
    let rows = |party, names: &[&str]| -> Vec<Coefficient> {
        let row = |name: &&str| Coefficient::normal(name.to_string(), party, Some(1.0), Some(1.0));
        names.iter().map(row).collect()
    };
    let own = |party, names: &[&str]| {
        let matrix = nalgebra::DMatrix::from_fn(names.len(), names.len(), |i, j| (10 * i + j) as f64);
        Covariance::own(&rows(party, names), &matrix).unwrap()
    };
    let all = Covariance::joined([own(Role::Alice, &["a", "b"]), own(Role::Bob, &["c"])].iter()).unwrap();
    assert_eq!(all.terms, ["a", "b", "c"]);
    assert_eq!(all.parties, [Role::Alice, Role::Alice, Role::Bob]);
    let expected = [[Some(0.0), Some(1.0), None], [Some(10.0), Some(11.0), None], [None, None, Some(0.0)]];
    assert_eq!(all.matrix, expected.map(|row| row.to_vec()));
    assert_eq!(Covariance::joined(std::iter::empty()), None);
}

#[test]
fn terms_whose_covariance_is_degenerate_have_no_test_and_no_inflation() {
    let containing = std::collections::BTreeMap::new();
    let slopes = |covariance: [f64; 4], alone: [f64; 4]| Slopes {
        containing: &containing,
        slopes: vec![Slope { term: "a", estimate: 1.0 }, Slope { term: "a", estimate: 2.0 }],
        covariance: nalgebra::DMatrix::from_row_slice(2, 2, &covariance),
        alone: Some(nalgebra::DMatrix::from_row_slice(2, 2, &alone)),
        family: StatedFamily::Binomial,
        df_residual: 5,
    };
    for degenerate in [[0.0; 4], [1.0; 4], [f64::NAN; 4], [f64::INFINITY; 4]] {
        let tests = slopes(degenerate, degenerate).tests(Role::Alice);
        assert_eq!((tests.len(), tests[0].df, tests[0].wald, tests[0].vif), (1, 2, None, None), "{degenerate:?}");
    }
}
