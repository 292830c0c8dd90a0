"""Numbers beside those of statsmodels on the pooled table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import statsmodels.api as sm

import fedreg
from fedreg import _quantiles

FAMILIES = {
    "gaussian": ("cost", None),
    "binomial": ("event", sm.families.Binomial()),
    "poisson": ("visits", sm.families.Poisson()),
}
QUASI = {"quasibinomial": "binomial", "quasipoisson": "poisson"}
ALICE, BOB = ["age", "bmi"], ["lab", "smoker", "region"]


def pooled(table: pd.DataFrame, family: str) -> Any:
    """The fit of statsmodels, its terms in our order and by our names."""
    outcome, kind = FAMILIES[family]
    design = pd.DataFrame({"(Intercept)": 1.0, "age": table.age, "bmi": table.bmi, "lab": table.lab})
    design["smokerTRUE"] = table.smoker.astype(float)
    for level in ("north", "south"):
        design[f"region{level}"] = (table.region == level).astype(float)
    if kind is None:
        return sm.OLS(table[outcome], design).fit()
    return sm.GLM(table[outcome], design, family=kind).fit(tol=1e-14, maxiter=200)


def same(ours: Any, theirs: Any, share: float = 1e-8) -> None:
    np.testing.assert_allclose(np.asarray(ours, dtype=float), np.asarray(theirs, dtype=float), rtol=share, atol=1e-12)


@pytest.mark.parametrize("mode", ["plain", "sealed"])
@pytest.mark.parametrize("family", FAMILIES)
def test_coefficients_and_errors_are_those_of_the_pooled_table(table: pd.DataFrame, family: Any, mode: Any) -> None:
    # A sealed fit ends where its gradient vanishes.
    more: Any = {"sealed_limits": "off"} if mode == "sealed" else {"tol": 1e-10}
    result = fedreg.demo.vertical(table, FAMILIES[family][0], ALICE, BOB, family=family, mode=mode, **more)
    theirs = pooled(table, family)
    assert list(result.params.index) == list(theirs.params.index)
    # A sealed binomial or poisson fit has rounding of its own, which a coefficient next to zero shows: there it counts
    # beside the standard error.
    unit = np.maximum(np.abs(theirs.params), theirs.bse if mode == "sealed" else 0.0)
    assert (np.abs(result.params - theirs.params) <= 1e-8 * unit).all()
    same(result.bse, theirs.bse)
    same(result.tvalues, theirs.tvalues, 1e-6)
    same(result.pvalues, theirs.pvalues, 1e-6)
    assert result.nobs == theirs.nobs and result.df_resid == theirs.df_resid and result.df_model == theirs.df_model
    same(result.llf, theirs.llf)
    same(result.scale, theirs.scale)
    assert family == "gaussian" or result.scale == 1


@pytest.mark.parametrize("family", QUASI)
def test_quasi_likelihood_has_the_dispersion_and_the_t_statistics_of_the_pooled_table(table: pd.DataFrame, family: Any) -> None:
    outcome, kind = FAMILIES[QUASI[family]]
    result = fedreg.demo.vertical(table, outcome, ALICE, BOB, family=family, tol=1e-10)
    design = pooled(table, QUASI[family]).model.data.orig_exog
    theirs = sm.GLM(table[outcome], design, family=kind).fit(tol=1e-14, maxiter=200, scale="X2", use_t=True)
    same(result.params, theirs.params)
    same(result.bse, theirs.bse)
    same(result.scale, theirs.scale)
    same(result.tvalues, theirs.tvalues, 1e-6)
    same(result.pvalues, theirs.pvalues, 1e-6)
    for alpha in (0.05, 0.1):
        same(result.conf_int(alpha), theirs.conf_int(alpha), 1e-6)
    same(result.tidy(exponentiate=True)["conf_high"], np.exp(theirs.conf_int()[1]), 1e-6)
    # A quasi-likelihood is none.
    assert np.isnan([result.llf, result.aic, result.bic]).all() and not np.isnan(result.deviance)
    assert "P>|t|" in str(result.summary()) and result.glance().family[0] == family


def test_several_parties_have_the_estimates_of_the_pooled_table(table: pd.DataFrame) -> None:
    parties = {"clinic": ALICE, "lab": ["lab"], "office": ["smoker", "region"]}
    for mode in ("plain", "sealed"):
        more: Any = {"sealed_limits": "off"} if mode == "sealed" else {"tol": 1e-10}
        result = fedreg.demo.vertical(table, "cost", parties=parties, mode=mode, **more)
        theirs = pooled(table, "gaussian")
        same(result.params, theirs.params)
        same(result.bse, theirs.bse)
        same(result.conf_int(0.1), theirs.conf_int(0.1), 1e-7)
        same(result.aic, theirs.aic + 2)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.001])
def test_intervals_at_any_level_are_those_of_the_pooled_table(
    table: pd.DataFrame, plain: fedreg.Result, family: Any, alpha: float
) -> None:
    ours = plain if family == "gaussian" else fedreg.demo.vertical(table, FAMILIES[family][0], ALICE, BOB, family=family)
    same(ours.conf_int(alpha), pooled(table, family).conf_int(alpha), 1e-7)


def test_blocks_of_the_covariance_are_those_of_the_pooled_table(table: pd.DataFrame, plain: fedreg.Result) -> None:
    theirs = pooled(table, "gaussian").cov_params()
    for party in ("alice", "bob"):
        block = plain.cov_params(party)
        same(block, theirs.loc[block.index, block.columns])


def test_measures_of_the_whole_fit_are_those_of_the_pooled_table(
    table: pd.DataFrame, plain: fedreg.Result, events: fedreg.Result
) -> None:
    theirs = pooled(table, "gaussian")
    same(plain.rsquared, theirs.rsquared)
    same(plain.rsquared_adj, theirs.rsquared_adj)
    same(plain.scale, theirs.scale)
    # R counts the dispersion as a parameter.
    same(plain.aic, theirs.aic + 2)
    theirs = pooled(table, "binomial")
    same(events.deviance, theirs.deviance)
    same(events.null_deviance, theirs.null_deviance)
    same(events.aic, theirs.aic)


@pytest.mark.parametrize("kind", ["HC0", "HC1", "HC2", "HC3"])
def test_errors_from_residuals_are_those_of_the_pooled_table(table: pd.DataFrame, kind: Any) -> None:
    result = fedreg.demo.vertical(table, "cost", ALICE, BOB, errors=kind)
    same(result.bse, pooled(table, "gaussian").get_robustcov_results(kind).bse)


def test_offset_and_weights_are_those_of_the_pooled_table(table: pd.DataFrame) -> None:
    table = table.assign(log_days=np.log1p(table.age / 10), w=1 + (table.bmi > 25))
    result = fedreg.demo.vertical(
        table, "visits", ["age", "bmi"], ["lab"], family="poisson", offset="log_days", weights="w", tol=1e-10
    )
    design = sm.add_constant(table[["age", "bmi", "lab"]])
    theirs = sm.GLM(table.visits, design, family=sm.families.Poisson(), offset=table.log_days, freq_weights=table.w).fit(
        tol=1e-14
    )
    same(result.params, theirs.params)
    same(result.bse, theirs.bse)


def test_ratios_are_exponentials(events: fedreg.Result) -> None:
    ratios = events.ratios()
    same(ratios["ratio"], np.exp(events.params))
    same(ratios[["low", "high"]], np.exp(events.conf_int()))
    same(events.tidy(exponentiate=True)["conf_high"], ratios["high"])
    same(events.ratios(0.1)["high"], np.exp(events.conf_int(0.1)[1]))


@pytest.mark.parametrize("df", [1, 2, 3.5, 30, 431, 1e6])
@pytest.mark.parametrize("p", [1e-9, 0.005, 0.3, 0.5, 0.9, 0.975, 0.9999])
def test_quantiles_are_those_of_scipy(p: float, df: float) -> None:
    same(_quantiles.student(p, df), scipy.stats.t.ppf(p, df), 1e-9)
    same(_quantiles.normal(p), scipy.stats.norm.ppf(p), 1e-12)


def test_a_column_that_depends_on_earlier_ones_is_nan(table: pd.DataFrame) -> None:
    result = fedreg.demo.vertical(table.assign(twice=2 * table.age), "cost", ["age", "bmi"], ["lab", "twice"])
    assert np.isnan(result.params["twice"]) and np.isnan(result.bse["twice"])
    assert any("twice" in note for note in result.notes)
    assert "twice" not in result.cov_params("bob").index
    same(result.params.drop("twice"), sm.OLS(table.cost, sm.add_constant(table[["age", "bmi", "lab"]])).fit().params)
