"""Writes a table of pandas, polars or pyarrow, or a mapping of columns, to a file that the programs read."""

from __future__ import annotations

import csv
import difflib
import math
import numbers
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .errors import DataError, FedregWarning, UsageError

#: Texts that a CSV file has for something else.
_MISSING = ("", "NA")


def _library(table: Any) -> str:
    """The library whose class, or a class derived from it, a table is of; nothing is imported for that."""
    for kind in type(table).__mro__:
        name = kind.__module__.partition(".")[0]
        if name in ("pandas", "polars", "pyarrow"):
            return name
    return ""


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        return None
    return pyarrow


def _arrow(table: Any) -> Any:
    """A table of pyarrow of what can be one; ``None`` of anything else."""
    pyarrow = _pyarrow()
    if pyarrow is None:
        return None
    try:
        return pyarrow.table(table)
    except (pyarrow.ArrowInvalid, TypeError, ValueError):
        return None


class Source:
    """A table, the names of its columns, and how it is written."""

    def __init__(self, table: Any) -> None:
        self._table, self._write = self._known(table)
        names = [str(name) for name in self._header(self._table)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise DataError(f"the table has the column `{twice[0]}` twice")
        #: The names of the columns, as texts.
        self.names = names

    def _known(self, table: Any) -> tuple[Any, Callable[[Any, list[int], Path], Path]]:
        library = _library(table)
        if library == "polars":
            lazy = type(table).__name__ == "LazyFrame"
            table = table.collect() if lazy else table
            if hasattr(table, "columns"):
                return table, _write_polars
        elif library == "pandas" and hasattr(table, "columns"):
            return table, _write_pandas
        elif library == "pyarrow" or hasattr(table, "__arrow_c_stream__"):
            made = _arrow(table)
            if made is not None:
                return made, _write_arrow
        elif isinstance(table, Mapping):
            return dict(table), _write_mapping
        raise UsageError(
            "data is a table of pandas, polars or pyarrow, a mapping of names to columns, or a text that says where the "
            f"table is; not {type(table).__name__}"
        )

    @staticmethod
    def _header(table: Any) -> Iterable[Any]:
        if isinstance(table, dict):
            return table.keys()
        return list(getattr(table, "column_names", None) or table.columns)

    def require(self, name: str, what: str) -> None:
        """Refuses a name that no column has."""
        if name in self.names:
            return
        near = difflib.get_close_matches(name, self.names, 1)
        hint = f"; `{near[0]}` is nearest" if near else ""
        raise DataError(f"{what}: there is no column `{name}` in the table{hint}")

    def write(self, wanted: Sequence[str] | None, folder: Path, stem: str = "data") -> Path:
        """Writes the columns ``wanted``, or all, and gives the file: ``stem`` in the folder, with the ending of its format."""
        at = [place for place, name in enumerate(self.names) if wanted is None or name in wanted]
        return self._write(self._table, at, folder / stem)


def _several(name: str, values: Iterable[Any]) -> DataError:
    kinds = sorted({type(value).__name__ for value in values if not _is_missing(value)})
    told = f" ({', '.join(kinds)})" if kinds else ""
    return DataError(f"column `{name}` holds values that are of no one kind{told}: make them numbers, texts or truth values")


def _reference(name: str, levels: Sequence[str]) -> None:
    """Says which level is the reference, where the order of a categorical column says otherwise."""
    if levels and levels[0] != min(levels, key=lambda level: level.encode()):
        warnings.warn(
            f"column `{name}`: levels are taken in byte order, so that the reference is `{min(levels)}`, not `{levels[0]}`; "
            f'a formula can declare another order: "~ factor({name}, levels = c(...))"',
            FedregWarning,
            stacklevel=6,
        )


def _write_pandas(table: Any, at: list[int], base: Path) -> Path:
    columns: dict[str, Any] = {}
    for place in at:
        name, column = str(table.columns[place]), table.iloc[:, place]
        if column.dtype.name == "category":
            _reference(name, [str(level) for level in column.cat.remove_unused_categories().cat.categories])
            # Numbers that were made categories are meant as levels.
            column = column.astype(object).map(str, na_action="ignore")
        columns[name] = column
    pyarrow = _pyarrow()
    if pyarrow is None:
        missing = {name: column.isna().tolist() for name, column in columns.items()}
        plain = {
            name: [None if gone else value for value, gone in zip(column.tolist(), missing[name], strict=True)]
            for name, column in columns.items()
        }
        return _write_csv(plain, base)
    return _write_arrays(pyarrow, _arrays(pyarrow, columns), base)


def _write_polars(table: Any, at: list[int], base: Path) -> Path:
    import polars

    for place in at:
        name, kind = table.columns[place], table.dtypes[place]
        if kind == polars.Enum:
            used = set(table[name].drop_nulls().to_list())
            _reference(name, [level for level in kind.categories.to_list() if level in used])
        elif kind == polars.Object:
            raise _several(name, table[name].to_list())
    pyarrow = _pyarrow()
    table = table.select([table.columns[place] for place in at])
    if pyarrow is not None:
        return _write_arrow(table.to_arrow(), list(range(len(at))), base)
    plain = [polars.col(name) for name in table.columns]
    changed = []
    for column, kind in zip(plain, table.dtypes, strict=True):
        if kind.is_float():
            column = column.cast(polars.Float64).fill_nan(None)
        elif kind in (polars.Categorical, polars.Enum):
            column = column.cast(polars.String)
        elif kind == polars.Null:
            column = column.cast(polars.Float64)
        elif kind == polars.Duration:
            raise _duration(column.meta.output_name())
        changed.append(column)
    file = base.with_suffix(".parquet")
    table.select(changed).write_parquet(file, compression="snappy")
    return file


def _write_arrow(table: Any, at: list[int], base: Path) -> Path:
    pyarrow = _pyarrow()
    return _write_arrays(pyarrow, {table.column_names[place]: table.column(place) for place in at}, base)


def _duration(name: str) -> DataError:
    return DataError(f"column `{name}` is a duration: make it a number, such as days")


def _write_arrays(pyarrow: Any, arrays: dict[str, Any], base: Path) -> Path:
    import pyarrow.compute as compute

    types = pyarrow.types
    columns = {}
    for name, array in arrays.items():
        if types.is_dictionary(array.type):
            array = array.cast(array.type.value_type)
            if not (types.is_string(array.type) or types.is_large_string(array.type)):
                array = array.cast(pyarrow.string())
        if types.is_floating(array.type):
            array = array.cast(pyarrow.float64())
            array = compute.if_else(compute.is_nan(array), pyarrow.scalar(None, pyarrow.float64()), array)
        elif types.is_null(array.type):
            array = array.cast(pyarrow.float64())
        elif getattr(types, "is_string_view", lambda _: False)(array.type):
            array = array.cast(pyarrow.string())
        elif types.is_duration(array.type):
            # Parquet would have a bare number of nanoseconds.
            raise _duration(name)
        columns[name] = array
    file = base.with_suffix(".parquet")
    try:
        pyarrow.parquet.write_table(pyarrow.table(columns), file)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError) as error:
        raise DataError(f"the table cannot be written as Parquet: {error}") from None
    return file


def _write_mapping(table: Mapping[Any, Any], at: list[int], base: Path) -> Path:
    names = list(table)
    columns: dict[str, Any] = {}
    for place in at:
        column = table[names[place]]
        if isinstance(column, (str, bytes)) or not isinstance(column, Iterable):
            raise DataError(f"column `{names[place]}` is no sequence of values")
        columns[str(names[place])] = column if hasattr(column, "__len__") else list(column)
    counts = {name: len(column) for name, column in columns.items()}
    if len(set(counts.values())) > 1:
        (short, few), (long, many) = min(counts.items(), key=_count), max(counts.items(), key=_count)
        raise DataError(f"column `{short}` has {few} values and column `{long}` has {many}")
    pyarrow = _pyarrow()
    if pyarrow is not None:
        return _write_arrays(pyarrow, _arrays(pyarrow, columns), base)
    lists = {name: column.tolist() if hasattr(column, "tolist") else list(column) for name, column in columns.items()}
    return _write_csv({name: [None if _is_missing(value) else value for value in one] for name, one in lists.items()}, base)


def _arrays(pyarrow: Any, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays of pyarrow, in which what is not a number is missing."""
    arrays = {}
    for name, column in columns.items():
        try:
            arrays[name] = pyarrow.array(column, from_pandas=True)
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, pyarrow.ArrowNotImplementedError, OverflowError):
            raise _several(name, column) from None
    return arrays


def _count(item: tuple[str, int]) -> int:
    return item[1]


def _is_missing(value: Any) -> bool:
    # Not-a-number of any library; nothing else differs from itself.
    return value is None or (isinstance(value, numbers.Real) and math.isnan(value))


def _write_csv(columns: dict[str, list[Any]], base: Path) -> Path:
    """As CSV, where no library writes Parquet. What CSV cannot tell apart is refused."""
    written = [_cells(name, values) for name, values in columns.items()]
    file = base.with_suffix(".csv")
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(columns)
        # A row of one empty cell would be an empty line.
        writer.writerows(row if len(row) > 1 or row[0] else ["NA"] for row in zip(*written, strict=True))
    return file


def _cells(name: str, values: list[Any]) -> list[str]:
    known = [value for value in values if value is not None]
    if all(_is_truth(value) for value in known):
        return ["" if value is None else str(bool(value)).lower() for value in values]
    if all(isinstance(value, numbers.Integral) and not _is_truth(value) for value in known):
        return ["" if value is None else str(int(value)) for value in values]
    if all(isinstance(value, numbers.Real) and not _is_truth(value) for value in known):
        return ["" if value is None else repr(float(value)) for value in values]
    if not all(isinstance(value, str) for value in known):
        raise _several(name, known)
    odd = [value for value in known if value in _MISSING or _reads_as_number(value)]
    if odd or all(value.lower() in ("true", "false") for value in known):
        example = (odd or known)[0]
        raise DataError(
            f"column `{name}` holds the text `{example}`, which in CSV is no text; install pyarrow, with which types are kept"
        )
    return ["" if value is None else value for value in values]


def _is_truth(value: Any) -> bool:
    return type(value).__name__ in ("bool", "bool_")


def _reads_as_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def is_file(data: Any) -> bool:
    """Whether data are a text that says where the table is, such as the name of a file."""
    return isinstance(data, (str, os.PathLike))
