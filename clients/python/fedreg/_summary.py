"""A result as text in the manner of statsmodels, and as HTML."""

from __future__ import annotations

import math
from html import escape
from textwrap import wrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .result import Result

#: Characters of a line, unless the names of terms need more.
_WIDTH = 88


class Summary:
    """Text that shows itself."""

    def __init__(self, text: str) -> None:
        self._text = text

    def as_text(self) -> str:
        """The text."""
        return self._text

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self._text)}</pre>"


def _shown(value: float, digits: int = 4) -> str:
    """A number as statsmodels shows it, and in powers of ten where that would show nothing or too much."""
    if math.isnan(value):
        return "NaN"
    if value != 0 and (abs(value) < 10.0**-digits or abs(value) >= 1e7):
        return f"{value:.3e}"
    return f"{value:.{digits}f}"


def _brief(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.5g}" if value != int(value) or abs(value) >= 1e7 else str(int(value))
    return str(value)


def _chance(value: float | None) -> float | str | None:
    """A p-value; one that no double can hold is said to be small, and not 0."""
    return "< 1e-300" if value == 0 else value


def _head(result: Result) -> list[tuple[str, str]]:
    """What stands above the table: left and right in turn."""
    report = result.report
    pairs: list[tuple[str, Any]] = [
        ("Outcome", result.outcome),
        ("Rows", report.get("nobs")),
        ("Family", result.family),
        ("Df residuals", report.get("df_residual")),
        ("Link", report.get("link")),
        ("Df model", None if math.isnan(result.df_model) else int(result.df_model)),
        ("Mode", result.mode),
        ("Log-likelihood", report.get("log_lik")),
        ("Rounds", result.rounds),
        ("Deviance", report.get("deviance")),
        ("Std. errors", "none" if "bse" in result.reasons else report.get("errors") or "model"),
        ("Null deviance", report.get("null_deviance")),
        ("Report of", result.role or "all parties"),
        ("AIC", report.get("aic")),
        ("Left out rows", report.get("missing")),
        ("BIC", report.get("bic")),
        ("Date", report.get("date")),
        ("Dispersion", report.get("dispersion")),
    ]
    if report.get("r_squared") is not None:
        pairs += [("R squared", report["r_squared"]), ("Adj. R squared", report.get("adj_r_squared"))]
    elif report.get("mcfadden_r_squared") is not None:
        pairs += [("McFadden R squared", report["mcfadden_r_squared"]), ("", "")]
    for name, label in (("f_test", "F test"), ("lr_test", "LR test")):
        test = report.get(name)
        if test:
            pairs += [(f"{label} statistic", test["statistic"]), (f"{label} p-value", _chance(test["p_value"]))]
    if report.get("lambda") is not None:
        pairs += [("Lambda", report["lambda"]), ("", "")]
    return [(label, _brief(value)) for label, value in pairs]


def _table(result: Result, alpha: float) -> tuple[list[str], list[list[str]]]:
    statistic = "t" if result._uses_t else "z"
    tail = f"{alpha / 2:.4g}".removeprefix("0")
    top = f"{1 - alpha / 2:.4g}".removeprefix("0")
    names = ["", "party", "coef", "std err", statistic, f"P>|{statistic}|", f"[0{tail}", f"0{top}]"]
    rows = []
    ends = result._intervals(alpha)
    for row, (low, high) in zip(result._rows, ends, strict=True):
        numbers = {name: math.nan if value is None else value for name, value in row.items() if name not in ("term", "party")}
        rows.append(
            [
                str(row["term"]),
                str(row.get("party") or ""),
                _shown(numbers["estimate"]),
                _shown(numbers["std_error"], 3),
                _shown(numbers["statistic"], 3),
                "NaN" if math.isnan(numbers["p_value"]) else f"{numbers['p_value']:.3f}",
                _shown(low, 3),
                _shown(high, 3),
            ]
        )
    return names, rows


def _shown_to_others(result: Result) -> list[str]:
    """What others can work out of the columns of each party, and what it is protected by."""
    said = []
    for owner, one in result._by_role("disclosure"):
        columns = one.get("columns") or []
        known = [f"{column['term']} ({100 * column['share']:.3g} %)" for column in columns if (column.get("share") or 0) > 0.5]
        if known and result.mode == "plain":
            said.append(f"Disclosed: others can work out of the columns of {owner}: {', '.join(known)}.")
        for table in one.get("opened") or []:
            numbers = f"{table['numbers']} numbers beside {table['unknowns']} unknown values"
            said.append(f"Disclosed: {owner} opened to {table.get('to') or 'the other party'}: {table['what']} ({numbers}).")
    accounts = result._by_role("privacy")
    for owner, account in accounts:
        if account.get("epsilon") is not None:
            said.append(f"Guarantee: epsilon {account['epsilon']:g} at delta {account['delta']:g} for the data set of {owner}.")
    joint = [float(account["epsilon_joint"]) for _, account in accounts if account.get("epsilon_joint") is not None]
    if joint:
        said.append(f"Guarantee: epsilon {max(joint):.3g} for a person with rows in all of them.")
    return said


def _sub_model(result: Result) -> list[str]:
    """Of which run it is a sub-model, and what is left out."""
    refit = result.report.get("refit")
    if not refit:
        return []
    dropped = ", ".join(f"{term['term']} ({term['party']})" for term in refit["dropped"])
    left_out = f"left out: {dropped}" if dropped else "nothing is left out"
    return [f"Sub-model of the run {refit['run']}, from what opened in it; {left_out}."]


def _foot(result: Result) -> list[str]:
    """Sentences below the table: why it ended, what is missing and why, notes."""
    reasons = result.reasons
    said = _sub_model(result)
    said.append(f"Ended: {result.ending}.")
    if result.mode == "private":
        said.append("Standard errors include the noise of the release." if "bse" not in reasons else "")
    for name, label in (
        ("bse", "No standard errors"),
        ("pvalues", "No p-values and intervals"),
        ("deviance", "No deviance, AIC, BIC"),
    ):
        # What a caution says stands above already.
        if name in reasons and not (name == "pvalues" and ("bse" in reasons or result.caution)):
            said.append(f"{label}: {reasons[name]}.")
    said += _shown_to_others(result)
    said += [f"Note: {note}." for note in result.notes if f"{note}" not in reasons.get("bse", "")]
    return [sentence for sentence in said if sentence]


def summary(result: Result, alpha: float) -> Summary:
    """The whole as text."""
    names, rows = _table(result, alpha)
    widths = [max(len(line[at]) for line in [names, *rows]) for at in range(len(names))]
    apart = max(2, (_WIDTH - sum(widths)) // (len(widths) - 1))
    width = max(_WIDTH, sum(widths) + 2 * (len(widths) - 1))

    def line(cells: list[str]) -> str:
        # Names stand left, numbers right.
        first = f"{cells[0]:<{widths[0]}}{' ' * 2}{cells[1]:<{widths[1]}}"
        rest = "".join(f"{' ' * apart}{cell:>{size}}" for cell, size in zip(cells[2:], widths[2:], strict=True))
        return (first + rest).rstrip()

    lines = ["Federated regression results".center(width).rstrip()]
    caution = result.report.get("caution")
    if caution:
        lines.append("*" * width)
        lines.append(str(caution["banner"]).upper())
        for reason in caution["reasons"]:
            lines += wrap(f"- {reason}", width, subsequent_indent="  ")
        lines.append("*" * width)
    lines.append("=" * width)
    head = _head(result)
    half = width // 2 - 1
    for left, right in zip(head[::2], head[1::2], strict=True):
        cells = [f"{label + ':' if label else '':<20}{value:>{half - 20}}" for label, value in (left, right)]
        lines.append("  ".join(cells).rstrip())
    lines += ["=" * width, line(names), "-" * width, *(line(row) for row in rows), "=" * width]
    for sentence in _foot(result):
        lines += wrap(sentence, width, subsequent_indent="  ", break_long_words=False)
    return Summary("\n".join(lines))


def html(result: Result) -> str:
    """The whole as HTML, for notebooks."""
    names, rows = _table(result, 0.05)
    left, right = "text-align:left", "text-align:right"
    parts = ["<div>"]
    caution = result.report.get("caution")
    if caution:
        reasons = "".join(f"<li>{escape(reason)}</li>" for reason in caution["reasons"])
        parts.append(f"<p><strong>{escape(str(caution['banner']))}</strong></p><ul>{reasons}</ul>")
    parts.append(f"<p>{escape(repr(result).removeprefix('<fedreg.Result: ').removesuffix('>'))}</p>")
    parts.append("<table><thead><tr>")
    parts += [f"<th style='{left if at < 2 else right}'>{escape(name)}</th>" for at, name in enumerate(names)]
    parts.append("</tr></thead><tbody>")
    for row in rows:
        cells = (f"<td style='{left if at < 2 else right}'>{escape(cell)}</td>" for at, cell in enumerate(row))
        parts.append(f"<tr>{''.join(cells)}</tr>")
    parts.append("</tbody></table>")
    shown = [("AIC", "aic"), ("BIC", "bic"), ("deviance", "deviance"), ("R squared", "r_squared")]
    whole = ", ".join(f"{label} {_brief(result.report[field])}" for label, field in shown if result.report.get(field) is not None)
    if whole:
        parts.append(f"<p>{escape(whole)}</p>")
    parts += [f"<p><small>{escape(sentence)}</small></p>" for sentence in _foot(result)]
    parts.append("</div>")
    return "".join(parts)
