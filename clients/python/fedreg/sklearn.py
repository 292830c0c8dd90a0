"""Estimators of scikit-learn that rehearse a fit between parties, to compare modes and settings by its tools.

``fit`` starts all programs of a study on this machine, as :func:`fedreg.demo.vertical` does. ``predict`` needs none of them:
it takes the coefficients. Features are numeric; encode others beforehand, as for other linear models of scikit-learn.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

try:
    import numpy as np
    from scipy.special import expit, log_expit
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
except ImportError as error:
    raise ImportError(f"fedreg.sklearn needs scikit-learn 1.6 or later: pip install scikit-learn ({error})") from error

from . import demo
from .errors import UsageError

__all__ = ["FedLogisticRegression", "FedRegressor"]

#: Names in the table that is written; features have others.
_OUTCOME, _WEIGHTS = "(outcome)", "(weights)"

#: Columns of a party: names of columns, or their places.
Which = Sequence[str] | Sequence[int]


class _Rehearsed(BaseEstimator):
    """What both estimators share."""

    # What scikit-learn clones and searches through; subclasses have the same names in their own signatures.
    alice: Which | None
    bob: Which | None
    parties: Mapping[str, Which] | None
    mode: Literal["plain", "sealed", "private"]
    lam: float | None
    l1_ratio: float | None

    def _more(self) -> dict[str, Any]:
        """The keywords of the rehearsal that are passed on as they are."""
        names = ("mode", "tol", "max_rounds", "epsilon", "delta", "bounds", "mechanism", "sealed_limits", "seed")
        # A name that ends with an underscore would be one that a fit has made.
        others = {"lambda_": self.lam, "alpha": self.l1_ratio}
        return {name: getattr(self, name) for name in names} | others

    def _names(self, X: Any, count: int) -> list[str]:
        names = getattr(self, "feature_names_in_", None)
        return [f"x{at}" for at in range(count)] if names is None else [str(name) for name in names]

    def _owners(self, names: list[str]) -> dict[str, list[str]]:
        """Who holds which features: as said, and in halves where nothing is."""
        if self.parties is not None:
            if self.alice is not None or self.bob is not None:
                raise UsageError("parties stands in place of alice and bob: give one or the other")
            return {party: _named(party, which, names) for party, which in self.parties.items()}
        said = {"alice": self.alice, "bob": self.bob}
        known = {party: _named(party, which, names) for party, which in said.items() if which is not None}
        taken = {name for which in known.values() for name in which}
        free = [name for name in names if name not in taken]
        if not known:
            half = (len(names) + 1) // 2
            return {"alice": names[:half], "bob": names[half:]}
        return {party: known.get(party, free) for party in ("alice", "bob")}

    def _rehearse(self, X: Any, y: Any, sample_weight: Any, family: str) -> None:
        names = self._names(X, X.shape[1])
        reserved = {_OUTCOME, _WEIGHTS} & set(names)
        if reserved:
            raise UsageError(f"no feature may have the name {reserved.pop()!r}")
        owners = self._owners(names)
        table = {name: X[:, at] for at, name in enumerate(names)} | {_OUTCOME: y}
        more = self._more() | {"family": family, "progress": False}
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
            # A row without weight has no part in the fit.
            kept = weights > 0
            table = {name: column[kept] for name, column in table.items()} | {_WEIGHTS: weights[kept]}
            more["weights"] = _WEIGHTS
        who: dict[str, Any] = {"parties": owners} if self.parties is not None else dict(owners)
        result = demo.vertical(table, _OUTCOME, **who, **more)
        #: The whole result of the rehearsal.
        self.result_ = result
        estimates = {row["term"]: row["estimate"] for row in result.report["coefficients"]}
        # A column that depends on earlier ones has no estimate, and no part in predictions; nor has one that nobody holds.
        slopes = np.array([estimates.get(name) or 0.0 for name in names], dtype=np.float64)
        self._linear = slopes, float(estimates.get("(Intercept)") or 0.0)
        self.n_iter_ = max(int(result.rounds or 1), 1)

    def _eta(self, X: Any) -> Any:
        check_is_fitted(self, "result_")
        X = validate_data(self, X, reset=False, dtype=np.float64)
        slopes, intercept = self._linear
        return X @ slopes + intercept


def _named(party: str, which: Which, names: list[str]) -> list[str]:
    """Features by name, where they are given by name or by place."""
    found = []
    for one in which:
        if isinstance(one, str):
            if one not in names:
                raise UsageError(f"{party}: there is no feature {one!r}")
            found.append(one)
        else:
            try:
                found.append(names[one])
            except IndexError:
                raise UsageError(f"{party}: there is no feature {one} among {len(names)}") from None
    return found


class FedRegressor(RegressorMixin, _Rehearsed):
    """A gaussian or poisson model of parties that hold different features of the same rows.

    ``alice`` and ``bob`` are lists of features, by name or place: what one of them is not given goes to the other, and
    without any each has half. ``parties`` names two to sixteen in their place. ``family`` is ``"gaussian"`` or ``"poisson"``.
    ``lam`` is the weight of a penalty (``lambda_`` of :func:`fedreg.demo.vertical`, on glmnet's scale), ``l1_ratio`` its mixture
    (``alpha`` there): 1 is the lasso, 0 is ridge. The other parameters are those of that function.

    After ``fit``, ``coef_`` and ``intercept_`` are the coefficients, with 0 for a column that depends on earlier ones, and
    ``result_`` is the :class:`fedreg.Result` with standard errors, notes and what was disclosed.
    """

    def __init__(
        self,
        alice: Which | None = None,
        bob: Which | None = None,
        *,
        parties: Mapping[str, Which] | None = None,
        family: Literal["gaussian", "poisson"] = "gaussian",
        mode: Literal["plain", "sealed", "private"] = "plain",
        lam: float | None = None,
        l1_ratio: float | None = None,
        tol: float | None = None,
        max_rounds: int | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        bounds: str | os.PathLike[str] | Mapping[str, Sequence[Any]] | None = None,
        mechanism: Literal["crossprod", "residual"] | None = None,
        sealed_limits: Literal["on", "off"] | None = None,
        seed: int | None = None,
    ) -> None:
        self.alice = alice
        self.bob = bob
        self.parties = parties
        self.family = family
        self.mode = mode
        self.lam = lam
        self.l1_ratio = l1_ratio
        self.tol = tol
        self.max_rounds = max_rounds
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.mechanism = mechanism
        self.sealed_limits = sealed_limits
        self.seed = seed

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self.family == "poisson"
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> FedRegressor:
        """Rehearses the fit."""
        if self.family not in ("gaussian", "poisson"):
            raise UsageError(f"family is gaussian or poisson, not {self.family!r}; FedLogisticRegression is binomial")
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_features=2, ensure_min_samples=2)
        self._rehearse(X, y.astype(np.float64), sample_weight, self.family)
        self.coef_, self.intercept_ = self._linear
        return self

    def predict(self, X: Any) -> Any:
        """Means of the outcome."""
        eta = self._eta(X)
        return np.exp(eta) if self.family == "poisson" else eta


class FedLogisticRegression(ClassifierMixin, _Rehearsed):
    """A binomial model of parties that hold different features of the same rows, for an outcome of two classes.

    Parameters are those of :class:`FedRegressor`. Without ``lam`` there is no penalty, and classes that the features
    separate end with a :class:`fedreg.NotConverged` warning.
    """

    def __init__(
        self,
        alice: Which | None = None,
        bob: Which | None = None,
        *,
        parties: Mapping[str, Which] | None = None,
        mode: Literal["plain", "sealed", "private"] = "plain",
        lam: float | None = None,
        l1_ratio: float | None = None,
        tol: float | None = None,
        max_rounds: int | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        bounds: str | os.PathLike[str] | Mapping[str, Sequence[Any]] | None = None,
        mechanism: Literal["crossprod", "residual"] | None = None,
        sealed_limits: Literal["on", "off"] | None = None,
        seed: int | None = None,
    ) -> None:
        self.alice = alice
        self.bob = bob
        self.parties = parties
        self.mode = mode
        self.lam = lam
        self.l1_ratio = l1_ratio
        self.tol = tol
        self.max_rounds = max_rounds
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.mechanism = mechanism
        self.sealed_limits = sealed_limits
        self.seed = seed

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> FedLogisticRegression:
        """Rehearses the fit."""
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_min_features=2, ensure_min_samples=2)
        check_classification_targets(y)
        self.classes_, places = np.unique(y, return_inverse=True)
        if len(self.classes_) > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass: "
                f"it has {len(self.classes_)} classes."
            )
        if len(self.classes_) < 2:
            raise ValueError("the outcome has one class, and two are needed")
        self._rehearse(X, places.astype(np.float64), sample_weight, "binomial")
        slopes, intercept = self._linear
        self.coef_, self.intercept_ = slopes[np.newaxis, :], np.array([intercept])
        return self

    def decision_function(self, X: Any) -> Any:
        """Log-odds of the second class."""
        return self._eta(X)

    def predict_log_proba(self, X: Any) -> Any:
        """Logarithms of the probabilities of both classes."""
        eta = self._eta(X)
        return np.column_stack([log_expit(-eta), log_expit(eta)])

    def predict_proba(self, X: Any) -> Any:
        """Probabilities of both classes."""
        eta = self._eta(X)
        return np.column_stack([expit(-eta), expit(eta)])

    def predict(self, X: Any) -> Any:
        """The likelier class."""
        # Not fitted is said before there are classes to take from.
        eta = self._eta(X)
        return self.classes_[(eta > 0).astype(int)]
