"""The estimators beside scikit-learn's own checks and models."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import fedreg
from fedreg.sklearn import FedLogisticRegression, FedRegressor

FEATURES = ["age", "bmi", "lab"]

ESTIMATORS = [
    FedRegressor(),
    FedRegressor(lam=0.01, l1_ratio=0.0),
    FedRegressor(family="poisson", lam=0.01, l1_ratio=0.0),
    # Without a penalty the separated classes of these checks have no solution.
    FedLogisticRegression(lam=0.01, l1_ratio=0.0),
]


def not_for(estimator: Any) -> dict[str, str]:
    """Checks that do not apply, and why."""
    if isinstance(estimator, FedRegressor) and estimator.lam is None:
        reason = "its table has more columns than rows, which are refused where there is no penalty"
        return {"check_sample_weight_equivalence_on_dense_data": reason}
    return {}


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=not_for)
def test_the_checks_of_scikit_learn_hold(estimator: Any, check: Any) -> None:
    with warnings.catch_warnings():
        # Tables of the checks are of noise, of constants, and of separated classes.
        warnings.simplefilter("ignore", fedreg.FedregWarning)
        check(estimator)


@pytest.mark.parametrize("mode", ["plain", "sealed"])
def test_coefficients_are_those_of_scikit_learn(table: pd.DataFrame, mode: Any) -> None:
    ours = FedRegressor(alice=["age", "bmi"], bob=["lab"], mode=mode).fit(table[FEATURES], table.cost)
    theirs = LinearRegression().fit(table[FEATURES], table.cost)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-8)
    np.testing.assert_allclose(ours.predict(table[FEATURES]), theirs.predict(table[FEATURES]), rtol=1e-8)
    assert ours.result_.mode == mode and ours.result_.bse.notna().all()


def test_logistic_and_poisson_models_are_those_of_scikit_learn(table: pd.DataFrame) -> None:
    X = table[FEATURES]
    ours = FedLogisticRegression(bob=["lab"]).fit(X, table.event.map({0: "no", 1: "yes"}))
    theirs = LogisticRegression(C=np.inf, tol=1e-12, solver="newton-cholesky").fit(X, table.event)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-6)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), rtol=1e-6)
    assert list(ours.classes_) == ["no", "yes"] and set(ours.predict(X)) <= {"no", "yes"}
    poisson = FedRegressor(family="poisson").fit(X, table.visits)
    same = PoissonRegressor(alpha=0, tol=1e-12, solver="newton-cholesky").fit(X, table.visits)
    np.testing.assert_allclose(poisson.predict(X), same.predict(X), rtol=1e-6)


def test_weights_count_rows(table: pd.DataFrame) -> None:
    weights: Any = (np.arange(len(table)) % 3).astype(float)
    ours = FedRegressor().fit(table[FEATURES], table.cost, sample_weight=weights)
    theirs = LinearRegression().fit(table[FEATURES], table.cost, sample_weight=weights)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-8)


def test_parties_are_named_by_features_or_places(table: pd.DataFrame) -> None:
    X = table[FEATURES]
    held: dict[str, Any] = {"x": ["lab"], "y": [0], "z": [1]}
    model = FedRegressor(parties=held).fit(X, table.cost)
    assert model.result_.parties.to_dict() == {"(Intercept)": "x", "lab": "x", "age": "y", "bmi": "z"}
    halves = FedRegressor().fit(X.to_numpy(), table.cost)
    assert halves.result_.parties.to_dict() == {"(Intercept)": "alice", "x0": "alice", "x1": "alice", "x2": "bob"}
    for more, says in (
        ({"alice": ["aeg"]}, "alice: there is no feature 'aeg'"),
        ({"alice": [7]}, "alice: there is no feature 7 among 3"),
        ({"alice": ["age"], "parties": held}, "parties stands in place of alice and bob"),
        ({"family": "binomial"}, "FedLogisticRegression is binomial"),
    ):
        with pytest.raises(fedreg.UsageError, match=says):
            FedRegressor(**more).fit(X, table.cost)
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        FedRegressor().fit(X[["age"]], table.cost)
    with pytest.raises(ValueError, match="Only binary classification"):
        FedLogisticRegression().fit(X, table.region)


def test_they_stand_in_searches_and_pipelines(table: pd.DataFrame) -> None:
    X = table[FEATURES].to_numpy()
    search = GridSearchCV(FedRegressor(bob=[2], l1_ratio=0.0), {"lam": np.logspace(-3, 2, 2)}, cv=2).fit(X, table.cost)
    assert search.best_params_ == {"lam": 0.001}
    scores = cross_val_score(make_pipeline(StandardScaler(), clone(search.best_estimator_)), X, table.cost, cv=2)
    assert len(scores) == 2 and np.isfinite(scores).all()
