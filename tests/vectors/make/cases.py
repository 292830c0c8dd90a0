"""The cases, in one list: R and Python both work from it (`python cases.py FILE` writes it as JSON for R).

`data` is relative to `tests/vectors`. `alice` and `bob` are the columns of each party in design order; the design is the
intercept, Alice's columns, Bob's columns.
"""

import json
import sys

DIABETES = "../../examples/data/diabetes.csv"
ADMISSIONS = "../../examples/data/admissions.csv"
ADMISSIONS_NEW = "../../examples/data/admissions_new.csv"

DIABETES_A = ["age", "sex", "bmi", "bp"]
DIABETES_B = ["s1", "s2", "s3", "s4", "s5", "s6"]
ADMIT_A = ["age", "female", "bmi", "smoker", "region"]
ADMIT_B = ["systolic", "creatinine", "admission", "stay_days", "insured"]
UNSCALED_A = ["income", "ratio", "year"]
UNSCALED_B = ["dose", "platelets", "share"]
WINE_A = ["density", "residual.sugar", "pH"]
WINE_B = ["fixed.acidity", "alcohol", "chlorides", "total.sulfur"]


def case(name, data, outcome, family, alice, bob, **more):
    known = {"offset": None, "weights": None, "intercept": True, "new_data": None, "tags": []}
    unknown = set(more) - set(known)
    assert not unknown, unknown
    return {"name": name, "data": data, "outcome": outcome, "family": family, "alice": alice, "bob": bob, **known, **more}


GLM = [
    # gaussian
    case("gaussian_diabetes", DIABETES, "progression", "gaussian", DIABETES_A, DIABETES_B),
    case("gaussian_diabetes_other_split", DIABETES, "progression", "gaussian", ["s1", "s3", "s5", "age", "bmi"], ["s2", "s4", "s6", "sex", "bp"]),
    case("gaussian_diabetes_one_column_each", DIABETES, "progression", "gaussian", ["bmi"], ["s5"]),
    case("gaussian_diabetes_no_intercept", DIABETES, "progression", "gaussian", DIABETES_A, DIABETES_B, intercept=False),
    case("gaussian_weights", "data/diabetes_extra.csv", "progression", "gaussian", DIABETES_A, DIABETES_B, weights="weight"),
    case("gaussian_weights_with_zeros", "data/diabetes_extra.csv", "progression", "gaussian", DIABETES_A, DIABETES_B, weights="weight_with_zeros", tags=["zero_weights"]),
    case("gaussian_offset", "data/diabetes_extra.csv", "progression", "gaussian", DIABETES_A, DIABETES_B, offset="known_part"),
    case("gaussian_offset_no_intercept", "data/diabetes_extra.csv", "progression", "gaussian", DIABETES_A, DIABETES_B, offset="known_part", intercept=False),
    case("gaussian_weights_offset", "data/diabetes_extra.csv", "progression", "gaussian", DIABETES_A, DIABETES_B, weights="weight", offset="known_part"),
    case("gaussian_categorical", ADMISSIONS, "stay_days", "gaussian", ["age", "female", "bmi", "smoker", "region"], ["systolic", "creatinine", "admission", "insured"], new_data=ADMISSIONS_NEW),
    case("gaussian_odd_names", "data/odd_names.csv", "y~1", "gaussian", ["blood pressure", "level, coded"], ["score", 'is "quoted"', "größe"]),
    case("gaussian_unscaled", "data/unscaled.csv", "cost", "gaussian", UNSCALED_A, UNSCALED_B, tags=["unscaled"]),
    case("gaussian_wine_like", "data/wine_like.csv", "quality", "gaussian", WINE_A, WINE_B, tags=["ill_conditioned"]),
    case("gaussian_longley", "data/longley.csv", "Employed", "gaussian", ["GNP.deflator", "GNP", "Unemployed"], ["Armed.Forces", "Population", "Year"], tags=["longley", "ill_conditioned"]),
    case("gaussian_longley_other_split", "data/longley.csv", "Employed", "gaussian", ["GNP", "Armed.Forces", "Year"], ["Population", "GNP.deflator", "Unemployed"], tags=["longley", "ill_conditioned"]),
    case("gaussian_longley_year_alone", "data/longley.csv", "Employed", "gaussian", ["Year"], ["GNP.deflator", "GNP", "Unemployed", "Armed.Forces", "Population"], tags=["longley", "ill_conditioned"]),
    case("gaussian_small", "data/small.csv", "y", "gaussian", ["x1", "x2", "x3"], ["x4", "x5", "x6"]),
    case("gaussian_fewer_rows_than_columns", "data/fewer_rows_than_columns.csv", "y", "gaussian", ["x1", "x2", "x3"], ["x4", "x5", "x6"], tags=["fewer_rows_than_columns", "collinear"]),
    case("gaussian_collinear_within_alice", "data/diabetes_extra.csv", "progression", "gaussian", ["age", "bmi", "bp", "bmi_twice_plus_bp"], ["s1", "s2", "s5"], tags=["collinear"]),
    case("gaussian_collinear_within_bob", "data/diabetes_extra.csv", "progression", "gaussian", ["age", "sex"], ["bmi", "bp", "bmi_twice_plus_bp", "s5"], tags=["collinear"]),
    case("gaussian_collinear_across", "data/diabetes_extra.csv", "progression", "gaussian", ["age", "bmi", "bp"], ["s1", "bmi_twice_plus_bp", "s5"], tags=["collinear", "collinear_across_parties"]),
    case("gaussian_duplicate_across", "data/diabetes_extra.csv", "progression", "gaussian", ["age", "bmi"], ["bmi_in_tenths", "s5"], tags=["collinear", "collinear_across_parties"]),
    case("gaussian_collinear_within_and_across", "data/diabetes_extra.csv", "progression", "gaussian", ["bmi", "bp", "bmi_in_tenths"], ["s5", "bmi_twice_plus_bp", "s6"], tags=["collinear", "collinear_across_parties"]),
    case("gaussian_constant_alice", "data/diabetes_extra.csv", "progression", "gaussian", ["age", "site", "bmi"], ["s1", "s5"], tags=["collinear", "constant"]),
    case("gaussian_constant_bob", "data/diabetes_extra.csv", "progression", "gaussian", ["age", "bmi"], ["s1", "site", "s5"], tags=["collinear", "constant", "collinear_across_parties"]),
    case("gaussian_constant_no_intercept", "data/diabetes_extra.csv", "progression", "gaussian", ["age", "bmi"], ["s1", "site", "s5"], intercept=False, tags=["constant"]),
    # binomial
    case("binomial_admissions", ADMISSIONS, "readmitted", "binomial", ADMIT_A, ADMIT_B, new_data=ADMISSIONS_NEW),
    case("binomial_admissions_no_intercept", ADMISSIONS, "readmitted", "binomial", ["age", "medicines", "bmi"], ["systolic", "creatinine", "stay_days"], intercept=False),
    case("binomial_two_level_text", ADMISSIONS, "discharged_to", "binomial", ["age", "female", "bmi"], ["admission", "stay_days", "insured"], tags=["text_outcome"]),
    case("binomial_boolean_outcome", ADMISSIONS, "smoker", "binomial", ["age", "female", "bmi"], ["creatinine", "systolic"], tags=["boolean_outcome"]),
    case("binomial_offset", "data/admissions_extra.csv", "readmitted", "binomial", ADMIT_A, ADMIT_B, offset="prior_logit"),
    case("binomial_frequency_weights", "data/admissions_extra.csv", "readmitted", "binomial", ADMIT_A, ADMIT_B, weights="frequency", tags=["zero_weights"]),
    case("binomial_fractional_weights", "data/admissions_extra.csv", "readmitted", "binomial", ADMIT_A, ADMIT_B, weights="case_weight", tags=["fractional_weights"]),
    case("binomial_proportions", "data/clinics.csv", "share_readmitted", "binomial", ["beds", "teaching", "ward"], ["nurses_per_bed", "distance"], weights="patients", offset="expected_logit", tags=["proportions"]),
    case("binomial_unscaled", "data/unscaled.csv", "event", "binomial", UNSCALED_A, UNSCALED_B, tags=["unscaled"]),
    case("binomial_wine_like", "data/wine_like.csv", "good", "binomial", WINE_A, WINE_B, tags=["ill_conditioned"]),
    case("binomial_collinear_across", "data/admissions_extra.csv", "readmitted", "binomial", ["age", "bmi", "smoker"], ["age_plus_bmi", "creatinine", "insured"], tags=["collinear", "collinear_across_parties"]),
    case("binomial_collinear_within_alice", "data/admissions_extra.csv", "readmitted", "binomial", ["age", "bmi", "age_plus_bmi"], ["creatinine", "insured"], tags=["collinear"]),
    case("binomial_dummies_across", "data/admissions_extra.csv", "readmitted", "binomial", ["age", "region"], ["in_south", "creatinine"], tags=["collinear", "collinear_across_parties"]),
    case("gaussian_missing", "data/missing.csv", "stay_days", "gaussian", ["age", "smoker", "region"], ["creatinine", "admission", "insured"], tags=["missing"]),
    case("binomial_missing", "data/missing.csv", "readmitted", "binomial", ["age", "smoker", "region"], ["creatinine", "admission", "insured"], tags=["missing"]),
    case("binomial_steep", "data/steep.csv", "steep", "binomial", ["dose", "noise"], ["marker"]),
    # poisson
    case("poisson_counts_in_the_hundreds", "data/counts.csv", "hundreds", "poisson", ["a1", "a2", "a3"], ["b1", "b2", "b3"]),
    case("poisson_counts_in_the_millions", "data/counts.csv", "millions", "poisson", ["a1", "a2", "a3"], ["b1", "b2", "b3"]),
    case("poisson_quine", "data/quine.csv", "Days", "poisson", ["Eth", "Sex"], ["Age", "Lrn"]),
    case("poisson_admissions", ADMISSIONS, "emergency_visits", "poisson", ADMIT_A, ADMIT_B, offset="log_followup", new_data=ADMISSIONS_NEW),
    case("poisson_no_offset", ADMISSIONS, "emergency_visits", "poisson", ADMIT_A, ADMIT_B),
    case("poisson_weights_offset", "data/admissions_extra.csv", "emergency_visits", "poisson", ADMIT_A, ADMIT_B, weights="case_weight", offset="log_followup"),
    case("poisson_no_intercept", ADMISSIONS, "emergency_visits", "poisson", ["age", "medicines", "bmi"], ["systolic", "creatinine", "stay_days"], offset="log_followup", intercept=False),
    case("poisson_unscaled", "data/unscaled.csv", "count", "poisson", UNSCALED_A, UNSCALED_B, tags=["unscaled"]),
    case("poisson_collinear_across", "data/admissions_extra.csv", "emergency_visits", "poisson", ["age", "bmi", "smoker"], ["age_plus_bmi", "creatinine", "insured"], offset="log_followup", tags=["collinear", "collinear_across_parties"]),
]

# Data without a finite fit: what counts is the reason that is given, not the digits.
TERMINATION = [
    case("separated_completely_across", "data/separated.csv", "complete", "binomial", ["dose"], ["marker", "noise"]),
    case("separated_quasi_at_alice", "data/separated.csv", "quasi", "binomial", ["dose", "exposed"], ["marker", "noise"]),
    case("separated_quasi_at_bob", "data/separated.csv", "quasi", "binomial", ["dose", "noise"], ["marker", "exposed"]),
    case("poisson_never_when_exposed", "data/separated.csv", "count_never_when_exposed", "poisson", ["dose", "noise"], ["marker", "exposed"]),
]


def penalised(name, data, outcome, family, alice, bob, alpha, lambdas, **more):
    """`lambdas` is a list, or "path" for glmnet's own sequence."""
    return {**case(name, data, outcome, family, alice, bob, **more), "alpha": alpha, "lambdas": lambdas}


GAUSSIAN_LAMBDAS = [40.0, 20.0, 10.0, 5.0, 2.0, 1.0, 0.3, 0.05]
BINOMIAL_LAMBDAS = [0.1, 0.06, 0.04, 0.025, 0.015, 0.008, 0.003, 0.0005]
POISSON_LAMBDAS = [0.3, 0.2, 0.12, 0.07, 0.04, 0.02, 0.008, 0.001]
SPLITS = {
    "gaussian": (DIABETES, "progression", DIABETES_A, DIABETES_B, GAUSSIAN_LAMBDAS, {}),
    "binomial": (ADMISSIONS, "readmitted", ADMIT_A, ADMIT_B, BINOMIAL_LAMBDAS, {}),
    "poisson": (ADMISSIONS, "emergency_visits", ADMIT_A, ADMIT_B, POISSON_LAMBDAS, {"offset": "log_followup"}),
}
MIXES = {"lasso": 1.0, "elastic_net": 0.5, "ridge": 0.0}

PENALISED = []
for _family, (_data, _outcome, _alice, _bob, _lambdas, _more) in SPLITS.items():
    for _mix, _alpha in MIXES.items():
        PENALISED.append(penalised(f"{_family}_{_mix}", _data, _outcome, _family, _alice, _bob, _alpha, _lambdas, **_more))
        PENALISED.append(penalised(f"{_family}_{_mix}_path", _data, _outcome, _family, _alice, _bob, _alpha, "path", **_more))

_D = "data/diabetes_extra.csv"
_A = "data/admissions_extra.csv"
for _mix, _alpha in MIXES.items():
    PENALISED += [
        penalised(f"gaussian_{_mix}_weights_offset", _D, "progression", "gaussian", DIABETES_A, DIABETES_B, _alpha, GAUSSIAN_LAMBDAS, weights="weight", offset="known_part"),
        penalised(f"binomial_{_mix}_weights_offset", _A, "readmitted", "binomial", ADMIT_A, ADMIT_B, _alpha, BINOMIAL_LAMBDAS, weights="case_weight", offset="prior_logit"),
        penalised(f"poisson_{_mix}_weights_offset", _A, "emergency_visits", "poisson", ADMIT_A, ADMIT_B, _alpha, POISSON_LAMBDAS, weights="case_weight", offset="log_followup"),
    ]
PENALISED += [
    penalised("gaussian_lasso_weights_path", _D, "progression", "gaussian", DIABETES_A, DIABETES_B, 1.0, "path", weights="weight"),
    penalised("gaussian_elastic_net_no_intercept", DIABETES, "progression", "gaussian", DIABETES_A, DIABETES_B, 0.5, GAUSSIAN_LAMBDAS, intercept=False),
    penalised("binomial_lasso_proportions", "data/clinics.csv", "share_readmitted", "binomial", ["beds", "teaching", "ward"], ["nurses_per_bed", "distance"], 1.0, [0.08, 0.04, 0.02, 0.005], weights="patients", offset="expected_logit", tags=["proportions"]),
    penalised("gaussian_lasso_fewer_rows_than_columns", "data/fewer_rows_than_columns.csv", "y", "gaussian", ["x1", "x2", "x3"], ["x4", "x5", "x6"], 1.0, "path", tags=["fewer_rows_than_columns"]),
    penalised("gaussian_lasso_constant", _D, "progression", "gaussian", ["age", "bmi"], ["s1", "site", "s5"], 1.0, GAUSSIAN_LAMBDAS, tags=["constant"]),
    penalised("gaussian_ridge_duplicate_across", _D, "progression", "gaussian", ["age", "bmi"], ["bmi_in_tenths", "s5"], 0.0, GAUSSIAN_LAMBDAS, tags=["collinear_across_parties"]),
    penalised("gaussian_lasso_unscaled", "data/unscaled.csv", "cost", "gaussian", UNSCALED_A, UNSCALED_B, 1.0, "path", tags=["unscaled"]),
    penalised("binomial_elastic_net_unscaled", "data/unscaled.csv", "event", "binomial", UNSCALED_A, UNSCALED_B, 0.5, BINOMIAL_LAMBDAS, tags=["unscaled"]),
]

CROSS_VALIDATION = []
for _family, (_data, _outcome, _alice, _bob, _lambdas, _more) in SPLITS.items():
    for _mix, _alpha in MIXES.items():
        CROSS_VALIDATION.append({**penalised(f"{_family}_{_mix}", _data, _outcome, _family, _alice, _bob, _alpha, _lambdas, **_more), "folds": 10})
CROSS_VALIDATION += [
    {**penalised("gaussian_lasso_given_path", DIABETES, "progression", "gaussian", DIABETES_A, DIABETES_B, 1.0, "path"), "folds": 5},
    {**penalised("gaussian_lasso_weights", _D, "progression", "gaussian", DIABETES_A, DIABETES_B, 1.0, GAUSSIAN_LAMBDAS, weights="weight"), "folds": 7},
    {**penalised("binomial_lasso_weights_offset", _A, "readmitted", "binomial", ADMIT_A, ADMIT_B, 1.0, BINOMIAL_LAMBDAS, weights="case_weight", offset="prior_logit"), "folds": 10},
]


def main(path):
    with open(path, "w", encoding="utf-8") as sink:
        json.dump({"glm": GLM, "termination": TERMINATION, "penalised": PENALISED, "cross_validation": CROSS_VALIDATION}, sink)


if __name__ == "__main__":
    main(sys.argv[1])
