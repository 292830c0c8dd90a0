"""The report of a run as a result in the manner of statsmodels."""

from __future__ import annotations

import json
import math
import os
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from html import escape
from pathlib import Path
from typing import Any, TypeAlias

from . import _plots, _quantiles, _version
from ._frames import frame, series
from ._summary import Summary, html, summary
from .errors import DataError, NotANumber, NotInReport, UsageError

__all__ = ["Result", "Summary", "read_report"]

#: A pandas Series by term; where pandas is not installed, a dictionary.
Vector: TypeAlias = Any
#: A pandas DataFrame; where pandas is not installed, a dictionary of lists, or, by term, of dictionaries.
Table: TypeAlias = Any

#: How a run ended, in words.
_ENDINGS = {
    "converged": "converged",
    "max_rounds": "not converged: the limit on rounds was reached first",
    "separation": "not converged: a combination of columns separates the outcomes, and estimates grow without bound",
    "out_of_range": "not converged: the next step was out of the range that sealed mode follows",
    "opening_limit": "not converged: a party's limits on what may open allowed no further gradient",
    "collinear_across_parties": "converged; columns that depend on those of other parties were left out",
    "fixed_rounds": "the fixed number of rounds was run, as private mode demands",
    "outside_guarantee": "outside of the method's guarantee: half or more of what it rests on may be wrong",
    "interrupted": "interrupted by a user",
}

#: What a coefficient has beside its names.
_NUMBERS = ("estimate", "std_error", "statistic", "p_value", "conf_low", "conf_high")
_RATIOS = ("ratio", "ratio_low", "ratio_high")

#: The fields of one row about the whole fit.
_WHOLE = (
    "protocol", "mode", "family", "link", "outcome", "nobs", "df_residual", "df_null", "deviance", "null_deviance",
    "aic", "bic", "log_lik", "dispersion", "r_squared", "adj_r_squared", "mcfadden_r_squared", "lambda", "rounds",
    "converged", "termination", "missing", "version",
)  # fmt: skip

_TEXTS = {"protocol", "mode", "family", "link", "outcome", "termination", "version", "converged"}


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


class Result:
    """A report. What it does not hold is NaN, or raises :class:`NotInReport` with the reason; nothing is made up.

    ``report`` is the whole of ``report.json`` as a dictionary (`docs/reference/json.md` has its fields). ``folder`` is where
    the run left its files, ``None`` where that is gone or was none. ``party_reports`` has, after a rehearsal, what each
    party may see, by name.
    """

    def __init__(
        self,
        report: dict[str, Any],
        folder: Path | None = None,
        party_reports: dict[str, Result] | None = None,
    ) -> None:
        self.report = report
        self.folder = folder
        self.party_reports = party_reports or {}

    # What it is about.

    @property
    def mode(self) -> str:
        """``"plain"``, ``"sealed"`` or ``"private"``."""
        return str(self.report["mode"])

    @property
    def family(self) -> str | None:
        """The family of the model."""
        return self.report.get("family")

    @property
    def outcome(self) -> str | None:
        """The outcome's name."""
        return self.report.get("outcome")

    @property
    def role(self) -> str | None:
        """Whose report this is; ``None`` for the merged one of a rehearsal."""
        return self.report.get("role")

    @property
    def version(self) -> str:
        """The version of the program that made the report."""
        return str(self.report["version"])

    @property
    def notes(self) -> list[str]:
        """What the reader must know: columns set aside, rows dropped, what was not checked, and why."""
        return list(self.report.get("notes") or [])

    @property
    def caution(self) -> str | None:
        """What the reader must know before the numbers, with the reasons."""
        caution = self.report.get("caution")
        return None if not caution else "; ".join([caution["banner"], *caution["reasons"]])

    @property
    def converged(self) -> bool | None:
        """Whether the estimates are the solution; ``None`` in private mode, where nobody may look."""
        return self.report.get("converged")

    @property
    def ending(self) -> str:
        """Why the run ended, in words."""
        word = str(self.report.get("termination"))
        return _ENDINGS.get(word, word)

    @property
    def rounds(self) -> int | None:
        """Exchanges."""
        return self.report.get("rounds")

    # The coefficients.

    @property
    def _rows(self) -> list[dict[str, Any]]:
        rows = self.report.get("coefficients")
        if not rows:
            raise NotInReport(f"a report of the protocol {self.report.get('protocol')} has no coefficients here")
        return list(rows)

    @property
    def terms(self) -> list[str]:
        """The terms, in the order of the coefficient table; ``term@party`` where two parties have a coefficient of one name."""
        return _labels(self._rows)

    @property
    def parties(self) -> Vector:
        """Who holds the column of each term."""
        return series([row.get("party") for row in self._rows], self.terms, "party")

    def _column(self, field: str, name: str) -> Vector:
        return series([_number(row.get(field)) for row in self._rows], self.terms, name)

    @property
    def params(self) -> Vector:
        """The estimates, on the original scale; NaN for a column that depends on earlier ones."""
        return self._column("estimate", "params")

    @property
    def bse(self) -> Vector:
        """Their standard errors; where there are none, :attr:`reasons` says why."""
        return self._column("std_error", "bse")

    @property
    def tvalues(self) -> Vector:
        """Estimates over standard errors."""
        return self._column("statistic", "tvalues")

    @property
    def pvalues(self) -> Vector:
        """Two-sided p-values; where there are none, :attr:`reasons` says why."""
        return self._column("p_value", "pvalues")

    @property
    def _uses_t(self) -> bool:
        """Whether intervals are those of Student's t: of a model with an estimated dispersion, without noise."""
        return self.family in ("gaussian", "quasibinomial", "quasipoisson") and self.mode != "private"

    def _quantile(self, alpha: float) -> float:
        if not self._uses_t:
            return _quantiles.normal(1.0 - alpha / 2.0)
        df = self.report.get("df_residual")
        if df is None:
            raise NotInReport("the report has no residual degrees of freedom, which intervals at other levels follow from")
        return _quantiles.student(1.0 - alpha / 2.0, float(df))

    def _intervals(self, alpha: float) -> list[tuple[float, float]]:
        if not 0.0 < alpha < 1.0:
            raise UsageError(f"alpha is between 0 and 1, not {alpha}")
        known = [(_number(row.get("conf_low")), _number(row.get("conf_high"))) for row in self._rows]
        if alpha == 0.05:
            return known
        if all(math.isnan(low) for low, _ in known):
            # Whatever keeps the report from stating intervals keeps others from being made of it.
            return known
        factor = self._quantile(alpha)
        for row, (_, high) in zip(self._rows, known, strict=True):
            error = _number(row.get("std_error"))
            stated = (high - _number(row["estimate"])) / error if error else math.nan
            if not math.isnan(stated) and not math.isclose(stated, self._quantile(0.05), rel_tol=1e-6):
                raise NotInReport("the report's intervals do not follow from its standard errors: only those at 95 % are known")
        return [
            (_number(row["estimate"]) - factor * error, _number(row["estimate"]) + factor * error)
            if not math.isnan(low)
            else (math.nan, math.nan)
            for row, (low, _) in zip(self._rows, known, strict=True)
            for error in [_number(row.get("std_error"))]
        ]

    def conf_int(self, alpha: float = 0.05) -> Table:
        """Wald intervals at the level ``1 - alpha``: columns 0 and 1, by term.

        At 95 % they are the report's; at other levels they follow from its estimates, standard errors and degrees of freedom.
        """
        ends = self._intervals(alpha)
        return frame({0: [low for low, _ in ends], 1: [high for _, high in ends]}, self.terms)

    def ratios(self, alpha: float = 0.05) -> Table:
        """Odds ratios of a binomial model, rate ratios of a poisson one: ``ratio``, ``low``, ``high``, by term."""
        self._need_ratios()
        ends = self._intervals(alpha)
        estimates = [_number(row.get("estimate")) for row in self._rows]
        columns = {
            "ratio": [_exp(value) for value in estimates],
            "low": [_exp(low) for low, _ in ends],
            "high": [_exp(high) for _, high in ends],
        }
        return frame(columns, self.terms)

    def _need_ratios(self) -> None:
        if self.family not in ("binomial", "poisson", "quasibinomial", "quasipoisson"):
            raise NotInReport(f"ratios are of binomial and poisson models; this one is {self.family}")

    def cov_params(self, party: str | None = None) -> Table:
        """The covariance matrix of the estimates, by term; with ``party`` that party's block alone.

        The covariance between estimates of different parties is known where the study shares it (``covariance = "shared"``,
        ``share_covariance=True`` of a rehearsal); else it is NaN, and a :class:`NotANumber` warning says so. A report without any
        covariance raises :class:`NotInReport` with the reason.
        """
        covariance = self.report.get("covariance")
        if not covariance:
            raise NotInReport(self.reasons["cov_params"])
        terms, owners = covariance["terms"], covariance["parties"]
        kept = [at for at in range(len(terms)) if party is None or owners[at] == party]
        if not kept:
            named = ", ".join(sorted({str(owner) for owner in owners}))
            raise NotInReport(f"the report has no covariance of estimates of {party}; it has that of {named}")
        known = {(row.get("party"), row["term"]): label for row, label in zip(self._rows, self.terms, strict=True)}
        labels = [known.get((owner, term), term) for owner, term in zip(owners, terms, strict=True)]
        columns = {labels[j]: [_number(covariance["matrix"][i][j]) for i in kept] for j in kept}
        reason = _unknown(covariance, kept)
        if reason is not None:
            warnings.warn(reason, NotANumber, stacklevel=2)
        return frame(columns, [labels[i] for i in kept])

    @property
    def reasons(self) -> dict[str, str]:
        """Why what is NaN, or raises, is not in the report: by the name of the attribute."""
        return _reasons(self)

    # The whole fit.

    def _whole(self, field: str) -> float:
        return _number(self.report.get(field))

    @property
    def nobs(self) -> float:
        """Rows that took part."""
        return self._whole("nobs")

    @property
    def df_resid(self) -> float:
        """Residual degrees of freedom."""
        return self._whole("df_residual")

    @property
    def df_model(self) -> float:
        """Degrees of freedom of the model, the intercept not counted."""
        return self._whole("df_null") - self._whole("df_residual")

    @property
    def llf(self) -> float:
        """Log-likelihood."""
        return self._whole("log_lik")

    @property
    def aic(self) -> float:
        """Akaike's criterion, as in R: for gaussian the dispersion is counted, which statsmodels does not."""
        return self._whole("aic")

    @property
    def bic(self) -> float:
        """Bayesian information criterion, as in R."""
        return self._whole("bic")

    @property
    def deviance(self) -> float:
        """Residual deviance."""
        return self._whole("deviance")

    @property
    def null_deviance(self) -> float:
        """Deviance of the null model."""
        return self._whole("null_deviance")

    @property
    def scale(self) -> float:
        """Dispersion: estimated for gaussian, quasibinomial and quasipoisson, 1 for binomial and poisson; NaN if not reported."""
        return self._whole("dispersion")

    @property
    def rsquared(self) -> float:
        """R squared of a gaussian model."""
        return self._whole("r_squared")

    @property
    def rsquared_adj(self) -> float:
        """Adjusted R squared of a gaussian model."""
        return self._whole("adj_r_squared")

    # Tables.

    def tidy(self, exponentiate: bool = False) -> Table:
        """A row a term, with the names of R's broom; ``exponentiate`` gives ratios in place of estimates and intervals."""
        columns: dict[str, list[Any]] = {
            "term": self.terms,
            "party": [row.get("party") for row in self._rows],
        }
        columns |= {name: [_number(row.get(name)) for row in self._rows] for name in _NUMBERS}
        if exponentiate:
            self._need_ratios()
            for name, ratio in zip(("estimate", "conf_low", "conf_high"), _RATIOS, strict=True):
                columns[name] = [_number(row.get(ratio)) for row in self._rows]
        return frame(columns)

    def glance(self) -> Table:
        """One row about the whole fit; without pandas a dictionary of its values."""
        row = {
            name: self.report.get(name) if name in _TEXTS else _number(self.report.get(name))
            for name in _WHOLE
            if name in self.report
        }
        table = frame({name: [value] for name, value in row.items()})
        return row if isinstance(table, dict) else table

    @property
    def path(self) -> Table:
        """The coefficients along a path of penalties: a row a lambda, with ``lambda``, ``df``, ``deviance`` and the terms."""
        points = self.report.get("path")
        if not points:
            raise NotInReport('the report has no path: ask for one with lambda_="path" or several values')
        columns: dict[str, list[Any]] = {
            name: [_number(point.get(name)) for point in points] for name in ("lambda", "df", "deviance")
        }
        for at, label in enumerate(_labels(points[0]["coefficients"], taken=columns)):
            columns[label] = [_number(point["coefficients"][at]["estimate"]) for point in points]
        return frame(columns)

    @property
    def cv(self) -> Table:
        """Cross-validated errors: a row a lambda, with ``lambda``, ``mean`` and ``se``."""
        points = self.report.get("cv")
        if not points:
            raise NotInReport("the report has no cross-validation: ask for it with cv=10")
        return frame({name: [_number(point.get(name)) for point in points] for name in ("lambda", "mean", "se")})

    @property
    def term_tests(self) -> Table:
        """Wald tests of terms with all their columns, types III and II (``_ii``), and their variance inflation: a row a term."""
        rows = self.report.get("term_tests")
        if not rows:
            raise NotInReport(self.reasons.get("cov_params", "the report has no tests of terms"))
        tests = [row.get("wald") or {} for row in rows]
        second = [row.get("wald_type_ii") or {} for row in rows]
        columns = {
            "term": [row["term"] for row in rows],
            "party": [row.get("party") for row in rows],
            "df": [_number(row.get("df")) for row in rows],
            "statistic": [_number(test.get("statistic")) for test in tests],
            "p_value": [_number(test.get("p_value")) for test in tests],
            "statistic_ii": [_number(test.get("statistic")) for test in second],
            "p_value_ii": [_number(test.get("p_value")) for test in second],
            "vif": [_number(row.get("vif")) for row in rows],
            "scaled_vif": [_number(row.get("scaled_vif")) for row in rows],
        }
        return frame(columns)

    def _by_role(self, field: str) -> list[tuple[str, dict[str, Any]]]:
        """A field that the merged report has of each party, and a party's own report of that party alone."""
        value = self.report.get(field) or {}
        by_role = {self.role: value} if self.role is not None else value
        return [(str(owner), one) for owner, one in by_role.items() if one]

    @property
    def disclosure(self) -> Table:
        """How much others can work out of each column, from 0 to 1: a row a column, with ``party``, ``term`` and ``share``.

        In sealed mode it is how well they could predict it from cross-products; the gradients of binomial and Poisson models
        let them predict more. It knows nothing of what they knew before.
        """
        rows = [(owner, column) for owner, one in self._by_role("disclosure") for column in one.get("columns") or []]
        if not rows:
            raise NotInReport(f"the report has no disclosure by column, in {self.mode} mode")
        columns = {
            "party": [owner for owner, _ in rows],
            "term": [column["term"] for _, column in rows],
            "share": [_number(column.get("share")) for _, column in rows],
        }
        return frame(columns)

    @property
    def performance(self) -> dict[str, Any]:
        """ROC curve, calibration and scores of a binomial fit in plain mode, on its own rows: see `docs/reference/json.md`."""
        performance = self.report.get("performance")
        if not performance:
            raise NotInReport(self.reasons["performance"])
        return dict(performance)

    # How it looks.

    def summary(self, alpha: float = 0.05) -> Summary:
        """The whole as text, in the manner of statsmodels."""
        return summary(self, alpha)

    def plot(self, kind: str = "coefficients", *, ax: Any = None, intercept: bool = False, alpha: float = 0.05) -> Any:
        """Draws with matplotlib, and gives the axes.

        ``kind`` is ``"coefficients"`` or ``"ratios"`` with their intervals, and of a binomial fit in plain mode ``"roc"`` or
        ``"calibration"``.
        """
        draw: Callable[..., Any] | None = _plots.KINDS.get(kind)
        if draw is None:
            raise UsageError(f"kind is one of {', '.join(_plots.KINDS)}, not {kind!r}")
        return draw(self, ax=ax, intercept=intercept, alpha=alpha)

    def __repr__(self) -> str:
        model = " ".join(str(word) for word in (self.family or self.report.get("protocol"), "model of", self.outcome) if word)
        rows = self.report.get("nobs")
        count = len(self.report.get("coefficients") or [])
        return f"<fedreg.Result: {model}, {count} coefficients, {rows} rows, {self.mode} mode, {self.ending}>"

    def _repr_html_(self) -> str:
        return html(self) if self.report.get("coefficients") else f"<code>{escape(repr(self))}</code>"


def _labels(rows: Sequence[dict[str, Any]], taken: Collection[str] = ()) -> list[str]:
    """The names of coefficients, each once: with the party behind a name that two parties have, or that is ``taken``."""
    terms = [str(row["term"]) for row in rows]
    count = Counter(terms)
    return [
        f"{term}@{row.get('party')}" if count[term] > 1 or term in taken else term for term, row in zip(terms, rows, strict=True)
    ]


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def _unknown(covariance: dict[str, Any], kept: list[int]) -> str | None:
    """Why values of a covariance matrix are not known, where some are not."""
    owners, matrix = covariance["parties"], covariance["matrix"]
    gaps = {owners[i] == owners[j] for i in kept for j in kept if matrix[i][j] is None}
    reasons = []
    if False in gaps:
        reasons.append("the covariance between estimates of different parties is known to nobody, as the study does not share it")
    if True in gaps:
        reasons.append("the covariance between the intercept and the slopes does not open in sealed mode")
    return "; ".join(reasons) + ": these values are NaN" if reasons else None


def _reasons(result: Result) -> dict[str, str]:
    report, reasons = result.report, {}
    rows = report.get("coefficients") or []
    private = result.mode == "private"
    caution = report.get("caution") or {}

    def lacks(field: str) -> bool:
        return all(row.get(field) is None for row in rows)

    said = [note for note in result.notes if "standard error" in note]
    if lacks("std_error"):
        if not result.converged and not private:
            said.insert(0, f"the fit did not end with the solution ({result.ending})")
        reasons["bse"] = "; ".join(said) or "the report has no standard errors"
    if lacks("p_value"):
        if caution.get("inference_withheld"):
            reasons["pvalues"] = f"p-values and intervals are withheld: {result.caution}"
        else:
            reasons["pvalues"] = reasons.get("bse", "the report has no p-values")
        reasons["conf_int"] = reasons["pvalues"]
    if not report.get("covariance"):
        reasons["cov_params"] = (
            "in private mode no covariance matrix is released"
            if private
            else f"the report has no covariance matrix: {reasons.get('bse', 'the program did not state one')}"
        )
    if report.get("deviance") is None:
        reasons["deviance"] = (
            "deviance, likelihood and what follows from them are NaN: nobody may look at them in private mode"
            if private
            else "the report has no deviance"
        )
    if not report.get("performance"):
        reasons["performance"] = _no_performance(result)
    return reasons


def _no_performance(result: Result) -> str:
    if result.family not in ("binomial", "quasibinomial"):
        return f"ROC curve and calibration are of binomial models; this one is {result.family}"
    if result.mode != "plain":
        return f"ROC curve and calibration take values of single rows, which nobody may see in {result.mode} mode"
    said = [note for note in result.notes if "ROC" in note or "calibration" in note]
    return "; ".join(said) or "only the party that holds the outcome has ROC curve and calibration in its report"


def _read(text: str, what: str, folder: Path | None, *, check_version: bool = True) -> Result:
    try:
        report = json.loads(text)
    except ValueError:
        raise DataError(f"{what} is no JSON") from None
    if not isinstance(report, dict) or not {"version", "protocol", "mode"} <= report.keys():
        raise DataError(f"{what} is no report of fedreg")
    if check_version:
        _version.expect(f"the report, {what},", report["version"])
    return Result(report, folder)


def read_report(path: str | os.PathLike[str], *, check_version: bool = True) -> Result:
    """Reads a ``report.json``, or that of a folder.

    Raises :class:`VersionMismatch` where a program of another version made it; ``check_version=False`` reads it nevertheless.
    """
    file = Path(path)
    if file.is_dir():
        file = file / "report.json"
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise DataError(f"cannot read {file}: {reason}") from error
    return _read(text, str(file), file.parent, check_version=check_version)
