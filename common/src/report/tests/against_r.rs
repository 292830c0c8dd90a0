//! The text beside what R prints for the same numbers.

use super::*;

/// The part of the text that R prints, from the table to the criterion.
fn part_of_r(text: &str) -> String {
    let from = text.find("\nCoefficients:").unwrap() + 1;
    let to = from + text[from..].find("\nAIC:").unwrap();
    let end = to + 1 + text[to + 1..].find('\n').unwrap();
    text[from..end]
        .replace("(columns of alice)", "")
        .replace("columns of alice; ", "")
        .lines()
        .map(str::trim_end)
        .collect::<Vec<_>>()
        .join("\n")
}

// Printed by R 4.2.2, `print(summary(glm(...)))` with `options(digits = 7, useFancyQuotes = FALSE)`, on the diabetes data
// of Efron et al. (2004) and, where said, on transformed columns of it; spaces at line ends removed.
#[test]
fn the_table_is_what_r_prints_for_a_gaussian_fit() {
    let expected = "\
Coefficients:
              Estimate Std. Error t value Pr(>|t|)
(Intercept) -334.56714   67.45462  -4.960 1.02e-06 ***
age           -0.03636    0.21704  -0.168 0.867031
sex          -22.85965    5.83582  -3.917 0.000104 ***
bmi            5.60296    0.71711   7.813 4.30e-14 ***
bp             1.11681    0.22524   4.958 1.02e-06 ***
s1            -1.09000    0.57333  -1.901 0.057948 .
s2             0.74645    0.53083   1.406 0.160390
s3             0.37200    0.78246   0.475 0.634723
s4             6.53383    5.95864   1.097 0.273459
s5            68.48312   15.66972   4.370 1.56e-05 ***
s6             0.28012    0.27331   1.025 0.305990
---
Signif. codes:  0 '***' 0.001 '**' 0.01 '*' 0.05 '.' 0.1 ' ' 1

(Dispersion parameter for gaussian family taken to be 2932.682)

    Null deviance: 2621009  on 441  degrees of freedom
Residual deviance: 1263986  on 431  degrees of freedom
AIC: 4796";
    assert_eq!(part_of_r(&text(&diabetes())), expected);
}

#[test]
fn a_dropped_column_and_left_out_rows_show_as_in_r() {
    let rows = [
        ("(Intercept)", Some(-14.516667758864982), Some(1.4913506865972399)),
        ("age", Some(-0.0033666838681927053), Some(0.009800561194524016)),
        ("sex", Some(-0.60820814353046504), Some(0.25131567143817768)),
        ("bmi", Some(0.17379208649327044), Some(0.033689086273706433)),
        ("bmi2", None, None),
        ("bp", Some(0.033960114644075175), Some(0.0102314664064573)),
        ("s5", Some(1.6850969110748977), Some(0.29472702272299794)),
    ];
    let statistics = Statistics {
        nobs: 440,
        df_residual: Some(434),
        df_null: Some(439),
        deviance: Some(439.40879592392491),
        null_deviance: Some(609.96951889275181),
        aic: Some(451.40879592392491),
        dispersion: Some(1.0),
        ..Statistics::default()
    };
    let mut report = own(Family::Binomial, &rows, statistics);
    report.missing = 2;
    let expected = "\
Coefficients: (1 not defined because of singularities)
              Estimate Std. Error z value Pr(>|z|)
(Intercept) -14.516668   1.491351  -9.734  < 2e-16 ***
age          -0.003367   0.009801  -0.344 0.731208
sex          -0.608208   0.251316  -2.420 0.015516 *
bmi           0.173792   0.033689   5.159 2.49e-07 ***
bmi2                NA         NA      NA       NA
bp            0.033960   0.010231   3.319 0.000903 ***
s5            1.685097   0.294727   5.717 1.08e-08 ***
---
Signif. codes:  0 '***' 0.001 '**' 0.01 '*' 0.05 '.' 0.1 ' ' 1

(Dispersion parameter for binomial family taken to be 1)

    Null deviance: 609.97  on 439  degrees of freedom
Residual deviance: 439.41  on 434  degrees of freedom
  (2 observations deleted due to missingness)
AIC: 451.41";
    assert_eq!(part_of_r(&text(&report)), expected);
}

#[test]
fn vanishing_p_values_and_small_rates_show_as_in_r() {
    let rows = [
        ("(Intercept)", Some(2.7009794629111537), Some(0.031090045173235104)),
        ("age", Some(0.0017306824667295188), Some(0.00031847563252496364)),
        ("bmi", Some(0.051967071402184747), Some(0.00088794207045054955)),
        ("bp", Some(0.0086770928607237605), Some(0.00030726798677274068)),
    ];
    let statistics = Statistics {
        df_residual: Some(438),
        df_null: Some(441),
        deviance: Some(10778.729626587694),
        null_deviance: Some(17388.156516050818),
        aic: Some(13757.272919393072),
        dispersion: Some(1.0),
        ..Statistics::default()
    };
    let expected = "\
Coefficients:
             Estimate Std. Error z value Pr(>|z|)
(Intercept) 2.7009795  0.0310900  86.876  < 2e-16 ***
age         0.0017307  0.0003185   5.434  5.5e-08 ***
bmi         0.0519671  0.0008879  58.525  < 2e-16 ***
bp          0.0086771  0.0003073  28.239  < 2e-16 ***
---
Signif. codes:  0 '***' 0.001 '**' 0.01 '*' 0.05 '.' 0.1 ' ' 1

(Dispersion parameter for poisson family taken to be 1)

    Null deviance: 17388  on 441  degrees of freedom
Residual deviance: 10779  on 438  degrees of freedom
AIC: 13757";
    assert_eq!(part_of_r(&text(&own(Family::Poisson, &rows, statistics))), expected);
}

#[test]
fn columns_of_very_different_sizes_show_as_in_r() {
    let rows = [
        ("(Intercept)", Some(-107.7689218534358), Some(55.913665147416864)),
        ("I(age * 1e+06)", Some(-4.9296876826065478e-07), Some(6.4006773280064918e-07)),
        ("I(bmi * 1e-06)", Some(10513338.092783492), Some(2243643.9688304588)),
    ];
    let statistics = Statistics {
        df_residual: Some(47),
        df_null: Some(49),
        deviance: Some(183102.33137599975),
        null_deviance: Some(271918.58),
        aic: Some(560.18272621822427),
        dispersion: Some(3895.7942845957396),
        ..Statistics::default()
    };
    let expected = "\
Coefficients:
                 Estimate Std. Error t value Pr(>|t|)
(Intercept)    -1.078e+02  5.591e+01  -1.927    0.060 .
I(age * 1e+06) -4.930e-07  6.401e-07  -0.770    0.445
I(bmi * 1e-06)  1.051e+07  2.244e+06   4.686 2.41e-05 ***
---
Signif. codes:  0 '***' 0.001 '**' 0.01 '*' 0.05 '.' 0.1 ' ' 1

(Dispersion parameter for gaussian family taken to be 3895.794)

    Null deviance: 271919  on 49  degrees of freedom
Residual deviance: 183102  on 47  degrees of freedom
AIC: 560.18";
    assert_eq!(part_of_r(&text(&own(Family::Gaussian, &rows, statistics))), expected);
}

#[test]
fn without_evidence_there_are_no_stars_and_no_legend_as_in_r() {
    let statistics = Statistics {
        df_residual: Some(441),
        df_null: Some(441),
        deviance: Some(2621009.1244343892),
        null_deviance: Some(2621009.1244343892),
        aic: Some(5098.3316193766368),
        dispersion: Some(5943.331347923785),
        ..Statistics::default()
    };
    let rows = [("(Intercept)", Some(0.00099999999998850856), Some(3.6669402794976396))];
    let expected = "\
Coefficients:
            Estimate Std. Error t value Pr(>|t|)
(Intercept)    0.001      3.667       0        1

(Dispersion parameter for gaussian family taken to be 5943.331)

    Null deviance: 2621009  on 441  degrees of freedom
Residual deviance: 2621009  on 441  degrees of freedom
AIC: 5098.3";
    assert_eq!(part_of_r(&text(&own(Family::Gaussian, &rows, statistics))), expected);
}

#[test]
fn a_tiny_outcome_shows_as_in_r() {
    let rows = [
        ("(Intercept)", Some(0.00098523084299237222), Some(0.00013838351897640843)),
        ("age", Some(1.1049567143733795e-05), Some(2.7536820664688632e-06)),
    ];
    let statistics = Statistics {
        df_residual: Some(440),
        df_null: Some(441),
        deviance: Some(0.00025284817816048963),
        null_deviance: Some(0.00026210091244343898),
        aic: Some(-5092.9801348972051),
        dispersion: Some(5.7465495036474915e-07),
        ..Statistics::default()
    };
    let expected = "\
Coefficients:
             Estimate Std. Error t value Pr(>|t|)
(Intercept) 9.852e-04  1.384e-04   7.120 4.44e-12 ***
age         1.105e-05  2.754e-06   4.013 7.06e-05 ***
---
Signif. codes:  0 '***' 0.001 '**' 0.01 '*' 0.05 '.' 0.1 ' ' 1

(Dispersion parameter for gaussian family taken to be 5.74655e-07)

    Null deviance: 0.00026210  on 441  degrees of freedom
Residual deviance: 0.00025285  on 440  degrees of freedom
AIC: -5093";
    assert_eq!(part_of_r(&text(&own(Family::Gaussian, &rows, statistics))), expected);
}
