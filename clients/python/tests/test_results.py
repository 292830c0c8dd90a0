"""Results: what they hold, what they do not and why, and how they look."""

from __future__ import annotations

import builtins
import json
import math
import sys
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import pytest

import fedreg

matplotlib.use("Agg")


def test_a_merged_report_has_what_each_party_may_see(plain: fedreg.Result) -> None:
    assert plain.role is None and plain.folder is None
    assert list(plain.party_reports) == ["alice", "bob"]
    own = plain.party_reports["bob"]
    assert own.role == "bob" and list(own.cov_params().index) == ["lab", "smokerTRUE", "regionnorth", "regionsouth"]
    assert plain.parties.to_dict() == own.parties.to_dict()


def test_the_report_is_the_whole_file(table: pd.DataFrame, tmp_path: Path) -> None:
    result = fedreg.demo.vertical(table, "cost", ["age"], ["lab"], out=tmp_path / "kept")
    assert result.folder == tmp_path / "kept"
    assert result.report == json.loads((tmp_path / "kept/report.json").read_text())
    again = fedreg.read_report(tmp_path / "kept")
    assert again.report == result.report and again.params.equals(result.params)
    assert (tmp_path / "kept/study.toml").is_file() and (tmp_path / "kept/data.parquet").is_file()


def test_covariances_that_nobody_knows_are_nan_with_the_reason(plain: fedreg.Result, sealed: fedreg.Result) -> None:
    with pytest.warns(fedreg.NotANumber, match="between estimates of different parties is known to nobody"):
        matrix = plain.cov_params()
    assert np.isnan(matrix.loc["age", "lab"]) and not np.isnan(matrix.loc["age", "bmi"])
    np.testing.assert_allclose(np.sqrt(np.diag(matrix)), plain.bse, rtol=1e-12)
    with pytest.warns(fedreg.NotANumber, match="the intercept and the slopes does not open in sealed mode"):
        matrix = sealed.cov_params("alice")
    assert np.isnan(matrix.loc["(Intercept)", "age"]) and not np.isnan(matrix.loc["age", "bmi"])
    with pytest.raises(fedreg.NotInReport, match="no covariance of estimates of carol; it has that of alice, bob"):
        plain.cov_params("carol")


def test_covariances_that_the_study_shares_are_there(table: pd.DataFrame) -> None:
    result = fedreg.demo.vertical(table, "cost", ["age", "bmi"], ["lab"], share_covariance=True)
    matrix = result.cov_params()
    assert not matrix.isna().to_numpy().any()
    np.testing.assert_allclose(matrix.loc["age", "lab"], matrix.loc["lab", "age"], rtol=1e-12)
    tests = result.term_tests.set_index("term")
    # Of main effects alone the two types are the same test.
    np.testing.assert_allclose(tests.statistic_ii, tests.statistic, rtol=1e-9)
    np.testing.assert_allclose(tests.loc["lab", "p_value_ii"], result.pvalues["lab"], rtol=1e-9)


def test_what_a_private_report_does_not_hold_is_nan_or_raises_with_the_reason(private: fedreg.Result) -> None:
    assert private.params.notna().all() and private.bse.notna().all()
    for value in (private.deviance, private.aic, private.llf, private.rsquared, private.df_resid):
        assert math.isnan(value)
    assert "nobody may look at them in private mode" in private.reasons["deviance"]
    with pytest.raises(fedreg.NotInReport, match="in private mode no covariance matrix is released"):
        private.cov_params()
    with pytest.raises(fedreg.NotInReport, match="no disclosure by column"):
        _ = private.disclosure
    text = str(private.summary())
    assert "NaN" in text or private.report.get("caution") is None
    assert private.converged is None and "as private mode demands" in text
    # Noise is drawn anew each time, and so is whether the report withholds its intervals.
    if private.pvalues.isna().all():
        assert "withheld" in private.reasons["pvalues"] and private.conf_int(0.1).isna().all().all()


def test_the_summary_says_what_opened_and_what_is_guaranteed(sealed: fedreg.Result, private: fedreg.Result) -> None:
    flat = " ".join(str(sealed.summary()).split())
    assert "Disclosed: bob opened to alice: cross-products of both blocks (" in flat
    assert " ".join(str(sealed.party_reports["bob"].summary()).split()).count("bob opened to alice") == 2
    flat = " ".join(str(private.summary()).split())
    assert "Guarantee: epsilon 3 at delta 1e-06 for the data set of alice." in flat
    assert "for a person with rows in all of them" in flat and list(private.party_reports) == ["alice", "bob"]


def test_a_private_fit_of_counts_has_no_errors_and_says_why(table: pd.DataFrame) -> None:
    bounds = {"age": (0, 100), "bmi": (10, 50), "lab": (0, 20), "visits": (0, 20)}
    result = fedreg.demo.vertical(
        table, "visits", ["age", "bmi"], ["lab"], family="poisson", mode="private", epsilon=3, bounds=bounds
    )
    assert result.params.notna().all() and result.nobs == 400
    for none in (result.bse, result.tvalues, result.pvalues, result.conf_int()[0], result.conf_int(0.2)[1]):
        assert none.isna().all()
    assert "standard errors and intervals: not computed. Counts" in result.reasons["bse"]
    assert result.reasons["pvalues"] == result.reasons["bse"] or result.report["caution"]["inference_withheld"]
    tidy = result.tidy()
    assert tidy.estimate.notna().all() and tidy[["std_error", "statistic", "p_value", "conf_low", "conf_high"]].isna().all().all()
    assert result.ratios().ratio.notna().all() and result.ratios().low.isna().all()
    glance = result.glance()
    assert glance.family[0] == "poisson" and math.isnan(glance.deviance[0]) and glance.converged[0] is None
    flat = " ".join(str(result.summary()).split())
    assert "Std. errors: none" in flat and flat.count("not computed. Counts") == 1
    assert "NaN" in result._repr_html_() and "no intervals in the report" in result.plot().get_xlabel()


def test_penalised_fits_have_no_errors_and_say_so(table: pd.DataFrame) -> None:
    result = fedreg.demo.vertical(table, "cost", ["age", "bmi"], ["lab"], lambda_="path", alpha=0.5, cv=3)
    assert result.bse.isna().all() and result.conf_int(0.2).isna().all().all()
    assert result.reasons["bse"] == result.reasons["pvalues"] == "penalised estimates have no standard errors"
    with pytest.raises(fedreg.NotInReport, match="penalised estimates have no standard errors"):
        result.cov_params()
    with pytest.raises(fedreg.NotInReport, match="penalised"):
        _ = result.term_tests
    assert list(result.path.columns) == ["lambda", "df", "deviance", *result.terms] and len(result.path) > 20
    assert len(result.cv) == len(result.path)
    assert "none" in str(result.summary()) and "no intervals in the report" in result.plot().get_xlabel()


def test_what_was_not_asked_for_says_how_to_ask(plain: fedreg.Result, sealed: fedreg.Result) -> None:
    with pytest.raises(fedreg.NotInReport, match='ask for one with lambda_="path"'):
        _ = plain.path
    with pytest.raises(fedreg.NotInReport, match="cv=10"):
        _ = plain.cv
    with pytest.raises(fedreg.NotInReport, match="ratios are of binomial and poisson models; this one is gaussian"):
        plain.ratios()
    with pytest.raises(fedreg.NotInReport, match="ROC curve and calibration are of binomial models"):
        plain.plot("roc")
    with pytest.raises(fedreg.UsageError, match="kind is one of coefficients, ratios, roc, calibration, not 'pie'"):
        plain.plot("pie")
    for alpha in (0.0, 1.0, -1.0):
        with pytest.raises(fedreg.UsageError, match="alpha is between 0 and 1"):
            plain.conf_int(alpha)


def test_values_of_rows_are_missing_in_sealed_mode_with_the_reason(table: pd.DataFrame) -> None:
    result = fedreg.demo.vertical(table, "event", ["age"], ["lab"], family="binomial", mode="sealed")
    with pytest.raises(fedreg.NotInReport, match="values of single rows, which nobody may see in sealed mode"):
        _ = result.performance


def test_intervals_that_do_not_follow_from_errors_are_not_made_up(plain: fedreg.Result) -> None:
    report = json.loads(json.dumps(plain.report))
    report["coefficients"][1]["conf_high"] += 1.0
    with pytest.raises(fedreg.NotInReport, match="only those at 95 % are known"):
        fedreg.Result(report).conf_int(0.1)
    report["df_residual"] = None
    with pytest.raises(fedreg.NotInReport, match="no residual degrees of freedom"):
        fedreg.Result(report).conf_int(0.1)


def test_reports_without_coefficients_say_so() -> None:
    result = fedreg.Result({"protocol": "features", "mode": "plain", "version": "0.1.0"})
    with pytest.raises(fedreg.NotInReport, match="protocol features has no coefficients"):
        _ = result.params
    assert "features" in repr(result) and "features" in result._repr_html_()


def test_the_summary_is_text_in_columns(plain: fedreg.Result, events: fedreg.Result) -> None:
    text = str(plain.summary())
    assert "P>|t|" in text and "[0.025" in text and "0.975]" in text and "R squared" in text
    assert "P>|z|" in str(events.summary()) and "[0.05 " in str(events.summary(0.1)) and "0.95]" in str(events.summary(0.1))
    lines = text.splitlines()
    rule = next(at for at, line in enumerate(lines) if line.startswith("---"))
    rows = lines[rule + 1 : rule + 1 + len(plain.terms)]
    assert [row.split()[0] for row in rows] == plain.terms
    assert {len(row) for row in rows} == {len(lines[rule - 1])}
    assert "Disclosed: others can work out of the columns of alice: age (100 %), bmi (100 %)" in text
    assert repr(plain.summary()) == text == plain.summary().as_text()


def repeated() -> pd.DataFrame:
    """Two columns of which a level makes a term of one name, `gox`."""
    draw = np.random.default_rng(0)
    made: pd.DataFrame = pd.DataFrame({"g": draw.choice(["a", "ox"], 150), "go": draw.choice(["v", "x"], 150)})
    made["y"] = 2.0 * (made.g == "ox") + 5.0 * (made.go == "x") + draw.normal(size=150)
    return made


def test_coefficients_of_one_name_are_told_apart_by_party() -> None:
    result = fedreg.demo.vertical(repeated(), "y", ["g"], ["go"], share_covariance=True)
    labels = ["(Intercept)", "gox@alice", "gox@bob"]
    matrix = result.cov_params()
    assert result.terms == labels == list(matrix.index) == list(matrix.columns) == list(result.conf_int().index)
    np.testing.assert_allclose(np.sqrt(np.diag(matrix)), result.bse, rtol=1e-12)
    assert result.tidy().term.tolist() == labels and list(result.cov_params("bob").index) == ["gox@bob"]
    assert [label.get_text() for label in result.plot().get_yticklabels()] == labels[1:]
    path = fedreg.demo.vertical(repeated(), "y", ["g"], ["go"], lambda_=[0.5, 0.1]).path
    assert list(path.columns) == ["lambda", "df", "deviance", *labels] and (path["gox@bob"] > path["gox@alice"]).all()


def test_coefficients_of_one_name_are_all_there_without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    table = {name: column.tolist() for name, column in repeated().items()}
    result = fedreg.demo.vertical(table, "y", ["g"], ["go"], share_covariance=True)
    monkeypatch.setitem(sys.modules, "pandas", None)
    for by_term in (result.params, result.bse, result.conf_int(), result.cov_params(), result.parties):
        assert list(by_term) == ["(Intercept)", "gox@alice", "gox@bob"]


def test_a_path_keeps_its_own_columns_beside_terms_of_their_names(table: pd.DataFrame) -> None:
    named = table.rename(columns={"age": "df", "lab": "lambda"})
    path = fedreg.demo.vertical(named, "cost", ["df", "bmi"], ["lambda"], lambda_=[0.5, 0.1]).path
    assert list(path.columns) == ["lambda", "df", "deviance", "(Intercept)", "df@alice", "bmi", "lambda@bob"]
    assert path["lambda"].tolist() == [0.5, 0.1]


def test_html_shows_names_as_they_are(table: pd.DataFrame) -> None:
    result = fedreg.demo.vertical(table.rename(columns={"age": "<script>&"}), "cost", ["<script>&"], ["lab"])
    for shown in (result._repr_html_(), result.summary()._repr_html_()):
        assert "&lt;script&gt;&amp;" in shown and "<script>" not in shown


def test_tidy_and_glance_have_the_names_of_broom(plain: fedreg.Result, events: fedreg.Result) -> None:
    tidy = plain.tidy()
    assert list(tidy.columns) == ["term", "party", "estimate", "std_error", "statistic", "p_value", "conf_low", "conf_high"]
    assert tidy.estimate.tolist() == plain.params.tolist()
    glance = plain.glance()
    assert len(glance) == 1 and glance.nobs[0] == 400 and glance.r_squared[0] == plain.rsquared
    assert list(events.term_tests.term) == ["age", "bmi", "lab", "smoker", "region"]
    assert events.term_tests.df.tolist() == [1, 1, 1, 1, 2] and (events.term_tests.vif >= 1).all()
    assert list(events.disclosure.columns) == ["party", "term", "share"] and events.disclosure.share.between(0, 1).all()


def test_the_rehearsal_of_several_parties_has_the_report_of_each(table: pd.DataFrame) -> None:
    parties = {"clinic": ["age", "bmi"], "lab": ["lab"], "office": "~ smoker + region"}
    result = fedreg.demo.vertical(table, "event", parties=parties, family="quasibinomial", leader="clinic")
    assert set(result.party_reports) == set(parties)
    for name, own in result.party_reports.items():
        assert own.role == name and own.params.equals(result.params) and own.bse.equals(result.bse)
        assert set(own.cov_params(name).index) == {term for term, party in result.parties.items() if party == name}
    assert result.tidy().party.unique().tolist() == list(parties) == result.disclosure.party.unique().tolist()
    assert "of the columns of lab" in str(result.summary()) and result.glance().dispersion[0] == result.scale != 1
    sealed = fedreg.demo.vertical(table, "cost", parties=parties, mode="sealed", sealed_limits="off", opens="all")
    flat = " ".join(str(sealed.summary()).split())
    assert "Disclosed: office opened to" in flat and sealed.party_reports["office"].bse.notna().all()
    assert sealed._repr_html_().count("<tr>") == 1 + len(sealed.terms)


def test_the_private_rehearsal_of_several_parties_has_the_guarantee_of_each(table: pd.DataFrame) -> None:
    parties = {"clinic": ["age"], "lab": ["lab"], "office": ["bmi"]}
    bounds = {"age": (0, 100), "bmi": (10, 50), "lab": (0, 20), "cost": (-200, 400)}
    result = fedreg.demo.vertical(table, "cost", parties=parties, mode="private", epsilon=3, bounds=bounds)
    flat = " ".join(str(result.summary()).split())
    for name in parties:
        assert f"Guarantee: epsilon 3 at delta 1e-06 for the data set of {name}." in flat
    assert result.bse.notna().all() and list(result.party_reports) == sorted(parties)


def test_pictures_show_what_the_report_has(plain: fedreg.Result, events: fedreg.Result) -> None:
    axes = plain.plot()
    assert [label.get_text() for label in axes.get_yticklabels()] == plain.terms[1:]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["alice", "bob"]
    assert axes.get_xlabel() == "coefficient with 95 % interval"
    ends = [line.get_xdata() for line in axes.get_lines() if len(line.get_xdata()) == 2 and line.get_linewidth() == 1.5]
    np.testing.assert_allclose(ends, plain.conf_int().to_numpy()[1:])
    assert events.plot("ratios", intercept=True, alpha=0.1).get_xscale() == "log"
    assert events.plot("roc").get_title().startswith(f"AUC {events.performance['auc']:.3f}")
    assert events.plot("calibration", ax=axes) is axes


def test_without_pandas_results_are_dictionaries(
    plain: fedreg.Result, events: fedreg.Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    params, intervals, tidy = plain.params, plain.conf_int(), plain.tidy()
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert plain.params == params.to_dict()
    assert plain.conf_int()["age"] == {0: intervals.loc["age", 0], 1: intervals.loc["age", 1]}
    assert plain.tidy()["estimate"] == tidy.estimate.tolist()
    assert plain.cov_params("alice")["age"]["bmi"] == plain.cov_params("alice")["bmi"]["age"]
    assert plain.glance()["nobs"] == 400 and events.ratios()["age"]["ratio"] > 0
    assert "age" in str(plain.summary()) and "age" in plain._repr_html_()


def test_plots_without_matplotlib_say_what_to_install(plain: fedreg.Result, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(fedreg.UsageError, match="pip install matplotlib"):
        plain.plot()
