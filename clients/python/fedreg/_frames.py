"""Results as pandas objects where pandas is installed, and as plain dictionaries elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def pandas() -> Any:
    """The module, or ``None`` where it is not installed."""
    try:
        import pandas as module
    except ImportError:
        return None
    return module


def frame(columns: Mapping[Any, Sequence[Any]], index: Sequence[str] | None = None) -> Any:
    """A DataFrame; without pandas a dictionary of lists, or, with an index, one of dictionaries."""
    module = pandas()
    if module is not None:
        return module.DataFrame({name: list(values) for name, values in columns.items()}, index=index)
    if index is None:
        return {name: list(values) for name, values in columns.items()}
    return {term: {name: values[at] for name, values in columns.items()} for at, term in enumerate(index)}


def series(values: Sequence[Any], index: Sequence[str], name: str) -> Any:
    """A Series; without pandas a dictionary."""
    module = pandas()
    if module is not None:
        return module.Series(list(values), index=index, name=name)
    return dict(zip(index, values, strict=True))
