"""The version of this package, and what it goes together with."""

from __future__ import annotations

from typing import Any

from .errors import VersionMismatch

#: That of the programs in the same wheel.
__version__ = "0.1.0"


def _series(version: str) -> tuple[str, ...]:
    # Below 1.0 the second number counts changes that break what was there.
    major, *rest = version.split(".")
    return (major,) if major != "0" else (major, *rest[:1])


def fits(version: Any) -> bool:
    """Whether programs and reports of a version are those that this package knows."""
    return isinstance(version, str) and _series(version) == _series(__version__)


def expect(what: str, version: Any) -> None:
    """Refuses another version."""
    if not fits(version):
        known = ".".join((*_series(__version__), "x"))
        raise VersionMismatch(
            f"{what} is of version {version}, and this package ({__version__}) goes with {known}: "
            "install the package and the programs of one version"
        )
