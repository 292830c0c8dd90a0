"""Pictures of a result, by matplotlib, which is imported when one is asked for."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .errors import NotInReport, UsageError

if TYPE_CHECKING:
    from .result import Result

#: One colour a party, from the Okabe-Ito palette, which colour-blind readers can tell apart.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


def _axes(ax: Any, width: float, height: float) -> Any:
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError:
        raise UsageError("matplotlib is not installed, and plots need it: pip install matplotlib") from None
    _, ax = pyplot.subplots(figsize=(width, height), layout="constrained")
    return ax


def _forest(result: Result, *, ax: Any, intercept: bool, alpha: float, ratios: bool) -> Any:
    rows = [
        (row | {"label": label}, ends)
        for row, label, ends in zip(result._rows, result.terms, result._intervals(alpha), strict=True)
        if row.get("estimate") is not None and (intercept or row["term"] != "(Intercept)")
    ]
    if not rows:
        raise NotInReport("there is no coefficient to draw")
    ax = _axes(ax, 7.0, 1.2 + 0.32 * len(rows))
    moved: Callable[[float], float] = math.exp if ratios else float
    owners = list(dict.fromkeys(row.get("party") for row, _ in rows))
    seen: set[Any] = set()
    for place, (row, (low, high)) in enumerate(rows):
        owner = row.get("party")
        colour = _COLOURS[owners.index(owner) % len(_COLOURS)]
        if not math.isnan(low):
            ax.plot([moved(low), moved(high)], [place, place], color=colour, linewidth=1.5)
        label = str(owner) if owner not in seen and owner is not None else None
        seen.add(owner)
        ax.plot([moved(row["estimate"])], [place], "o", color=colour, markersize=5, label=label)
    ax.axvline(1.0 if ratios else 0.0, color="0.6", linewidth=0.8, zorder=0)
    ax.set_yticks(range(len(rows)), [row["label"] for row, _ in rows])
    ax.set_ylim(len(rows) - 0.5, -0.5)
    if ratios:
        ax.set_xscale("log")
        for axis in (ax.xaxis.set_major_formatter, ax.xaxis.set_minor_formatter):
            axis("{x:.3g}")
    name = {True: "odds ratio" if result.family in ("binomial", "quasibinomial") else "rate ratio", False: "coefficient"}[ratios]
    drawn = any(not math.isnan(low) for _, (low, _) in rows)
    ax.set_xlabel(f"{name} with {100 * (1 - alpha):g} % interval" if drawn else f"{name} (no intervals in the report)")
    if len(owners) > 1:
        ax.legend(frameon=False)
    if result.report.get("caution"):
        ax.set_title(str(result.report["caution"]["banner"]), color="firebrick")
    return ax


def coefficients(result: Result, *, ax: Any, intercept: bool, alpha: float) -> Any:
    """Estimates with their intervals."""
    return _forest(result, ax=ax, intercept=intercept, alpha=alpha, ratios=False)


def ratios(result: Result, *, ax: Any, intercept: bool, alpha: float) -> Any:
    """Odds or rate ratios with their intervals, on a logarithmic axis."""
    result._need_ratios()
    return _forest(result, ax=ax, intercept=intercept, alpha=alpha, ratios=True)


def roc(result: Result, *, ax: Any, intercept: bool, alpha: float) -> Any:
    """The ROC curve on the rows of the fit."""
    performance = result.performance
    points = performance["roc"]
    ax = _axes(ax, 4.5, 4.5)
    ax.plot([0, 1], [0, 1], color="0.6", linewidth=0.8)
    ax.plot([point["false_positive"] for point in points], [point["true_positive"] for point in points], color=_COLOURS[0])
    low, high = performance.get("auc_low"), performance.get("auc_high")
    between = f" [{low:.3f}, {high:.3f}]" if low is not None and high is not None else ""
    ax.set_title(f"AUC {performance['auc']:.3f}{between}")
    ax.set_xlabel("false positive rate")
    ax.set_ylabel("true positive rate")
    ax.set_aspect("equal")
    return ax


def calibration(result: Result, *, ax: Any, intercept: bool, alpha: float) -> Any:
    """Observed shares beside predicted ones, by tenths of the probabilities."""
    groups = result.performance["deciles"]
    ax = _axes(ax, 4.5, 4.5)
    ax.plot([0, 1], [0, 1], color="0.6", linewidth=0.8)
    ax.plot(
        [group["expected"] / group["rows"] for group in groups],
        [group["observed"] / group["rows"] for group in groups],
        "o-",
        color=_COLOURS[0],
        markersize=5,
    )
    ax.set_xlabel("mean probability")
    ax.set_ylabel("share of rows with outcome 1")
    ax.set_aspect("equal")
    return ax


#: The pictures by their names.
KINDS: dict[str, Callable[..., Any]] = {
    "coefficients": coefficients,
    "ratios": ratios,
    "roc": roc,
    "calibration": calibration,
}
