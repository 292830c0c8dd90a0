"""Writes a table of pandas, polars or pyarrow, or a mapping of columns, to a file that the programs read."""

from __future__ import annotations

import csv
import difflib
import json
import math
import numbers
import os
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .errors import DataError, FedregWarning, UsageError

#: Texts that the programs read as a missing value, in every kind of file, and what they leave out before they compare.
_MISSING, _BLANKS = ("", "NA"), " \t\n\r\f"


@dataclass
class Roles:
    """What the columns of a table are in the model, as far as it is known."""

    outcome: str | None = None
    #: Whether the outcome has two classes.
    binary: bool = False
    #: Columns that are no terms: ids, keys, folds.
    beside: set[str] = field(default_factory=set)
    #: Columns whose order of levels is stated.
    ordered: set[str] = field(default_factory=set)
    #: Levels that the programs are told before they read.
    levels: Mapping[str, set[str]] = field(default_factory=dict)
    #: Whether a file tells them levels, which nobody looks at here.
    public: bool = False
    #: Texts that are said to be missing.
    missing: set[str] = field(default_factory=set)
    #: Whether a column may be a term.
    is_term: Callable[[str], bool] = lambda name: True

    def in_model(self, name: str) -> bool:
        """Whether a column may be part of the model."""
        return name == self.outcome or (name not in self.beside and self.is_term(name))

    def check_text(self, name: str, values: Iterable[str]) -> None:
        """Refuses a text that the programs would take for a missing value."""
        if not self.in_model(name):
            return
        told = self.missing | self.levels.get(name, set()) | ({"NA"} if self.public else set())
        for value in values:
            bare = value.strip(_BLANKS)
            if bare in _MISSING and not {bare, value} & told:
                raise DataError(
                    f'column `{name}` holds the text "{value}", which the programs read as a missing value: write another text '
                    "where it is a level, and None where a value is missing"
                )


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

    def _known(self, table: Any) -> tuple[Any, Callable[[Any, list[int], Path, Roles], Path]]:
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

    def write(self, wanted: Sequence[str] | None, folder: Path, stem: str = "data", roles: Roles | None = None) -> Path:
        """Writes the columns ``wanted``, or all, and gives the file: ``stem`` in the folder, with the ending of its format."""
        at = [place for place, name in enumerate(self.names) if wanted is None or name in wanted]
        return self._write(self._table, at, folder / stem, roles or Roles())


def _several(name: str, values: Iterable[Any]) -> DataError:
    kinds = sorted({type(value).__name__ for value in values if not _is_missing(value)})
    if kinds == ["int"]:
        return DataError(f"column `{name}` holds whole numbers of more than 64 bits: make them floating-point numbers, or texts")
    if len(kinds) == 1:
        return DataError(f"column `{name}` holds values of type {kinds[0]}: make them numbers, texts or truth values")
    told = f" ({', '.join(kinds)})" if kinds else ""
    return DataError(f"column `{name}` holds values that are of no one kind{told}: make them numbers, texts or truth values")


def _reference(name: str, levels: Sequence[str], roles: Roles) -> None:
    """Says which level is the reference, where the order of a categorical column says otherwise."""
    if not levels or name in roles.ordered or roles.public or not roles.in_model(name):
        return
    inner = sorted(levels, key=lambda level: level.encode())
    if levels[0] == inner[0]:
        return
    if name != roles.outcome:
        plain = name if re.fullmatch(r"[^\W\d_][\w.]*", name) else "`" + re.sub(r"([\\`])", r"\\\1", name) + "`"
        order = ", ".join(json.dumps(level, ensure_ascii=False) for level in levels) if len(levels) <= 8 else "..."
        text = (
            f"levels are taken in byte order, so that the reference is `{inner[0]}`, not `{levels[0]}`; "
            f"a formula can declare another order: factor({plain}, levels = c({order}))"
        )
    elif roles.binary and len(levels) == 2:
        text = (
            f"it is the outcome, and its levels are taken in byte order, so that `{inner[0]}` is 0 and `{inner[1]}` is 1; "
            "for the opposite make it a column of 0 and 1"
        )
    else:
        return
    warnings.warn(f"column `{name}`: {text}", FedregWarning, stacklevel=6)


def _write_pandas(table: Any, at: list[int], base: Path, roles: Roles) -> Path:
    columns: dict[str, Any] = {}
    for place in at:
        name, column = str(table.columns[place]), table.iloc[:, place]
        if column.dtype.name == "category":
            _reference(name, [str(level) for level in column.cat.remove_unused_categories().cat.categories], roles)
            # Numbers that were made categories are meant as levels.
            column = column.astype(object).map(str, na_action="ignore")
        elif type(column.dtype).__name__ == "SparseDtype":
            column = column.sparse.to_dense()
        columns[name] = column
    pyarrow = _pyarrow()
    if pyarrow is None:
        missing = {name: column.isna().tolist() for name, column in columns.items()}
        plain = {
            name: [None if gone else value for value, gone in zip(column.tolist(), missing[name], strict=True)]
            for name, column in columns.items()
        }
        return _write_csv(plain, base, roles)
    return _write_arrays(pyarrow, _arrays(pyarrow, columns), base, roles)


def _write_polars(table: Any, at: list[int], base: Path, roles: Roles) -> Path:
    import polars

    for place in at:
        name, kind = table.columns[place], table.dtypes[place]
        if kind == polars.Enum:
            used = set(table[name].drop_nulls().to_list())
            _reference(name, [level for level in kind.categories.to_list() if level in used], roles)
        elif kind == polars.Object:
            raise _several(name, table[name].to_list())
        elif str(kind) in ("Int128", "UInt128"):
            raise DataError(f"column `{name}` is of type {kind}: make it Int64, Float64 or text")
    pyarrow = _pyarrow()
    table = table.select([table.columns[place] for place in at])
    if pyarrow is not None:
        try:
            arrow = table.to_arrow()
        except pyarrow.ArrowException as error:
            raise DataError(f"the table cannot be written as Parquet: {error}") from None
        return _write_arrow(arrow, list(range(len(at))), base, roles)
    plain = [polars.col(name) for name in table.columns]
    changed = []
    for column, kind in zip(plain, table.dtypes, strict=True):
        if kind in (polars.String, polars.Categorical, polars.Enum):
            name = column.meta.output_name()
            roles.check_text(name, table[name].cast(polars.String).drop_nulls().unique(maintain_order=True).to_list())
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


def _write_arrow(table: Any, at: list[int], base: Path, roles: Roles) -> Path:
    pyarrow = _pyarrow()
    return _write_arrays(pyarrow, {table.column_names[place]: table.column(place) for place in at}, base, roles)


def _duration(name: str) -> DataError:
    return DataError(f"column `{name}` is a duration: make it a number, such as days")


def _write_arrays(pyarrow: Any, arrays: dict[str, Any], base: Path, roles: Roles) -> Path:
    import pyarrow.compute as compute

    types = pyarrow.types
    columns = {}
    for name, array in arrays.items():
        if isinstance(array.type, pyarrow.BaseExtensionType):
            # Parquet would have the bare numbers that it is stored as, such as months since 1970.
            if not types.is_string(array.type.storage_type):
                known = {"pandas.period": "a period", "pandas.interval": "an interval"}
                what = known.get(array.type.extension_name, f"of type {array.type}")
                raise DataError(f"column `{name}` is {what}: derive a number from it beforehand, or make it text")
            array = array.cast(array.type.storage_type)
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
        if types.is_string(array.type) or types.is_large_string(array.type):
            roles.check_text(name, compute.unique(array.drop_null()).to_pylist())
        columns[name] = array
    file = base.with_suffix(".parquet")
    try:
        pyarrow.parquet.write_table(pyarrow.table(columns), file)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError) as error:
        raise DataError(f"the table cannot be written as Parquet: {error}") from None
    return file


def _write_mapping(table: Mapping[Any, Any], at: list[int], base: Path, roles: Roles) -> Path:
    names = list(table)
    columns: dict[str, Any] = {}
    for place in at:
        column = table[names[place]]
        if isinstance(column, (str, bytes)) or not isinstance(column, Iterable):
            raise DataError(f"column `{names[place]}` is no sequence of values")
        sparse = type(getattr(column, "dtype", None)).__name__ == "SparseDtype"
        columns[str(names[place])] = column if hasattr(column, "__len__") and not sparse else list(column)
    counts = {name: len(column) for name, column in columns.items()}
    if len(set(counts.values())) > 1:
        (short, few), (long, many) = min(counts.items(), key=_count), max(counts.items(), key=_count)
        raise DataError(f"column `{short}` has {few} values and column `{long}` has {many}")
    pyarrow = _pyarrow()
    if pyarrow is not None:
        return _write_arrays(pyarrow, _arrays(pyarrow, columns), base, roles)
    lists = {name: column.tolist() if hasattr(column, "tolist") else list(column) for name, column in columns.items()}
    known = {name: [None if _is_missing(value) else value for value in one] for name, one in lists.items()}
    return _write_csv(known, base, roles)


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


def _write_csv(columns: dict[str, list[Any]], base: Path, roles: Roles) -> Path:
    """As CSV, where no library writes Parquet. What CSV cannot tell apart is refused."""
    written = [_cells(name, values, roles) for name, values in columns.items()]
    file = base.with_suffix(".csv")
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(columns)
        # A row of one empty cell would be an empty line.
        writer.writerows(row if len(row) > 1 or row[0] else ["NA"] for row in zip(*written, strict=True))
    return file


def _cells(name: str, values: list[Any], roles: Roles) -> list[str]:
    known = [value for value in values if value is not None]
    if all(_is_truth(value) for value in known):
        return ["" if value is None else str(bool(value)).lower() for value in values]
    if all(isinstance(value, numbers.Integral) and not _is_truth(value) for value in known):
        return ["" if value is None else str(int(value)) for value in values]
    if all(isinstance(value, numbers.Real) and not _is_truth(value) for value in known):
        return ["" if value is None else repr(float(value)) for value in values]
    if not all(isinstance(value, str) for value in known):
        raise _several(name, known)
    roles.check_text(name, known)
    odd = [value for value in known if _reads_as_number(value)]
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
