"""Regression over institutions that may not pool their data.

``fit``, ``check``, ``match``, ``predict`` and ``refit`` run a party's program with its configuration file; ``demo.vertical``
rehearses a whole study on a table that is in one place; ``read_report`` reads the ``report.json`` of a run. The programs
themselves are in the same package: ``alice``, ``bob``, ``party``, ``worker``, ``coordinator`` and ``demo``.

Nothing beside the standard library is imported until it is needed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._commands import Check, Match, check, fit, match, predict, refit
from ._version import __version__
from .errors import (
    CannotWrite,
    DataError,
    FedregError,
    FedregWarning,
    InternalError,
    Interrupted,
    NoConnection,
    NotANumber,
    NotConverged,
    NotInReport,
    ProgramMissing,
    ProtocolError,
    Refused,
    UsageError,
    VersionMismatch,
)
from .result import Result, Summary, read_report

if TYPE_CHECKING:
    from . import demo, sklearn

__all__ = [
    "CannotWrite",
    "Check",
    "DataError",
    "FedregError",
    "FedregWarning",
    "InternalError",
    "Interrupted",
    "Match",
    "NoConnection",
    "NotANumber",
    "NotConverged",
    "NotInReport",
    "ProgramMissing",
    "ProtocolError",
    "Refused",
    "Result",
    "Summary",
    "UsageError",
    "VersionMismatch",
    "__version__",
    "check",
    "demo",
    "fit",
    "match",
    "predict",
    "read_report",
    "refit",
    "sklearn",
]


def __getattr__(name: str) -> Any:
    # These take what need not be installed, and time to import.
    if name in ("demo", "sklearn"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
