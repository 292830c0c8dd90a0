"""Rehearsals of whole studies on one machine, on a table that is in one place.

Every role is a process of its own, over loopback, with fresh certificates: what is computed, sent and refused is what a
study with these settings would compute, send and refuse.
"""

from __future__ import annotations

import json
import numbers
import os
import re
import tempfile
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from . import _programs, _progress
from ._tables import Roles, Source, is_file
from .errors import CannotWrite, FedregError, FedregWarning, NotConverged, UsageError
from .result import Result, _read

#: A party's columns: a list of names, or a formula of its own columns such as ``"~ log(bmi) * sex"``.
Columns = Sequence[str] | str

__all__ = ["vertical"]

#: Most rehearsals are over before a terminal is told of them, in seconds.
_SILENCE = 2.0


def vertical(
    data: Any = None,
    outcome: str | None = None,
    alice: Columns | None = None,
    bob: Columns | None = None,
    *,
    table: str | None = None,
    query: str | None = None,
    separator: str | None = None,
    na_values: Sequence[str] | str | None = None,
    decimal: Literal[".", ","] | None = None,
    match: str | os.PathLike[str] | bool | None = None,
    alice_data: Any = None,
    bob_data: Any = None,
    parties: Mapping[str, Columns] | None = None,
    leader: str | None = None,
    mode: Literal["plain", "sealed", "private"] = "plain",
    family: Literal["gaussian", "binomial", "poisson", "quasibinomial", "quasipoisson"] = "gaussian",
    id: str | None = None,
    outcome_at: str | None = None,
    missing: Literal["refuse", "complete-cases"] = "refuse",
    offset: str | None = None,
    weights: str | None = None,
    inference: bool = True,
    errors: Literal["model", "HC0", "HC1", "HC2", "HC3"] | None = None,
    lambda_: float | Sequence[float] | Literal["path"] | None = None,
    alpha: float | None = None,
    cv: int | None = None,
    folds: str | None = None,
    acceleration: Literal["anderson", "none"] | None = None,
    tol: float | None = None,
    max_rounds: int | None = None,
    seed: int | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    bounds: str | os.PathLike[str] | Mapping[str, Sequence[Any]] | None = None,
    mechanism: Literal["crossprod", "residual"] | None = None,
    accountant: Literal["zcdp", "exact"] | None = None,
    sealed_limits: Literal["on", "off"] | None = None,
    opens: Literal["leader", "all"] | None = None,
    refit: bool = False,
    share_covariance: bool = False,
    out: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> Result:
    """Rehearses one regression of parties that hold different columns about the same people.

    ``data`` is a table of pandas, polars or pyarrow, a mapping of names to columns, or a text that says where the program finds
    the table: a CSV, Parquet or Arrow file, a folder or pattern of Parquet files, ``"sqlite:cohort.db"``, ``"postgres://..."`` or
    ``"s3://..."`` (`docs/tables.md`). Of a data base ``table`` or ``query`` names what is read. ``separator``, ``decimal`` and
    ``na_values`` say how a CSV file is written. The rows are those of all parties, in one order.

    ``alice`` and ``bob`` are the columns of the two parties: lists of names, or formulas such as ``"~ log(bmi) * sex"``.
    What one of them is not given goes to the other; without any, each has half of what is left. ``parties`` names two to
    sixteen parties in their place: ``{"hospital": ["bmi"], "office": "~ age * sex"}``.

    With ``match`` each party has a table of its own, ``alice_data`` and ``bob_data`` in place of ``data``, and their rows are
    matched: by a column of identifiers that both have, or by the keys in a TOML file (`docs/matching.md`). ``match=True``
    without tables takes the two that are shipped.

    ``bounds`` are the public ranges and levels that private mode asks for: a TOML file, or a mapping such as
    ``{"age": (18, 90), "region": ["north", "south"], "cost": (0, 5000)}``, with the outcome among them. All other keywords
    are flags of ``demo vertical`` (`docs/reference/demo.md`), with the meaning and defaults that they have there.

    ``out`` keeps the files of the run: the study, each party's private file and reports. Without it they are written to a
    temporary folder and removed. ``progress`` shows how far the run is: ``None`` in notebooks, and on terminals from two seconds
    on; ``True`` always, ``False`` never.

    Gives the merged result; ``party_reports`` has what each party may see. Raises the :class:`FedregError` of the program's exit
    code; a fit that did not converge has a result, and a :class:`NotConverged` warning.
    """
    outcome, id, offset = _name("outcome", outcome), _name("id", id), _name("offset", offset)
    weights, folds = _name("weights", weights), _name("folds", folds)
    if na_values is not None and not isinstance(na_values, str):
        na_values = [str(text) for text in _sequence(na_values)]
    given: dict[str, Any] = {
        "family": family, "mode": mode, "missing": missing, "outcome": outcome, "id": id, "outcome_at": outcome_at,
        "offset": offset, "weights": weights, "no_inference": not inference, "errors": errors, "lambda": lambda_,
        "alpha": alpha, "cv": cv, "folds": folds, "acceleration": acceleration, "tol": tol, "max_rounds": max_rounds,
        "seed": seed, "epsilon": epsilon, "delta": delta, "mechanism": mechanism, "accountant": accountant,
        "sealed_limits": sealed_limits, "opens": opens, "refit": refit,
        "share_covariance": share_covariance, "leader": leader, "table": table, "query": query,
        "separator": separator, "na_values": na_values, "decimal": decimal,
    }  # fmt: skip
    if parties is not None and (alice is not None or bob is not None):
        raise UsageError("parties stands in place of alice and bob: give one or the other")
    owners = _owners({"alice": alice, "bob": bob} if parties is None else parties)
    _check_tables(data, alice_data, bob_data, match)
    program = _programs.find("demo")
    with tempfile.TemporaryDirectory(prefix="fedreg-") as temporary:
        folder = Path(temporary if out is None else out)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CannotWrite(f"cannot make the folder {folder}: {error.strerror}") from error
        roles = _roles(owners, outcome, (id, folds), family, mode, bounds, na_values)
        if match is None or match is False:
            tables = _data(data, owners, outcome, (id, offset, weights, folds), folder, roles)
        else:
            roles.beside |= _keys(match)
            tables = _matched(match, alice_data, bob_data, folder, roles)
        _check_writing(tables, table=table, query=query, separator=separator, decimal=decimal)
        given |= {**tables.flags, "bounds": _bounds(bounds, outcome, folder), "out": folder, "format": "json"}
        given |= _own(owners, parties is not None)
        result = _rehearse(program, given, folder, progress, tables)
        result.folder = None if out is None else folder
        return result


@dataclass
class _Tables:
    """Where the program finds the tables of a rehearsal."""

    #: The flags that say so.
    flags: dict[str, Any] = field(default_factory=dict)
    #: The files that were written of tables in memory, and what sentences call them.
    written: dict[Path, str] = field(default_factory=dict)
    #: Whether all of them were.
    all_written: bool = False


def _own(owners: Mapping[str, Columns | None], named: bool) -> dict[str, str]:
    """The flags of who has which columns."""
    texts = {}
    for owner, columns in owners.items():
        if columns is None:
            continue
        texts[owner] = columns if isinstance(columns, str) else _programs.listed(columns)
        if not texts[owner].strip():
            raise UsageError(f"{owner} has no columns: each party needs at least one")
    if not named:
        return texts
    return {"parties": ";".join(f"{owner}={text}" for owner, text in texts.items())}


def _name(what: str, value: Any) -> str | None:
    """The name of a column as a text: in a table it may be a number."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        return str(value)
    raise UsageError(f"{what} is the name of a column of the table, not a value of type {type(value).__name__}")


def _owners(given: Mapping[str, Any]) -> dict[str, Columns | None]:
    """Who has which columns: formulas, and lists of names as texts."""
    if not isinstance(given, Mapping):
        raise UsageError('parties is a mapping of names to columns, such as {"hospital": ["bmi"], "office": ["age", "sex"]}')
    owners: dict[str, Columns | None] = {}
    for owner, columns in given.items():
        if isinstance(columns, str) and not columns.lstrip().startswith("~"):
            raise UsageError(f'{owner}: columns are a list of names, or a formula that begins with "~"; not the text {columns!r}')
        if columns is None or isinstance(columns, str):
            owners[owner] = columns
        elif isinstance(columns, Iterable):
            owners[owner] = [str(name) for name in columns]
        else:
            raise UsageError(f"{owner}: columns are a list of names, or a formula; not a value of type {type(columns).__name__}")
    return owners


#: What a formula is made of, as far as it matters here: names in backticks, texts, and words with numbers among them.
_PIECES = re.compile(r"""`((?:[^`\\]|\\.)*)`|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|([\w.]+)""", re.DOTALL)


def _names(formula: str) -> set[str]:
    """The names in a formula, those of functions and arguments among them; a dot is one."""
    names = set()
    for piece in _PIECES.finditer(formula):
        # In backticks a name has a backslash before what would end it.
        names.add(re.sub(r"\\(.)", r"\1", piece[1], flags=re.DOTALL) if piece[1] else piece[2])
    return names - {None}


def _of_formula(formula: str, names: Sequence[str]) -> set[str]:
    """The columns that a formula may need: a dot stands for all others."""
    found = _names(formula)
    return set(names) if "." in found else found & set(names)


def _declared(formula: str) -> set[str]:
    """The columns whose levels a formula declares wherever it has them."""
    rest = re.sub(r"factor\s*\(\s*(`(?:[^`\\]|\\.)+`|[\w.]+)\s*,\s*levels\s*=", " ", formula)
    left = _names(rest)
    return set() if "." in left else _names(formula) - left


def _roles(
    owners: Mapping[str, Columns | None],
    outcome: str | None,
    beside: Sequence[str | None],
    family: str,
    mode: str,
    bounds: Any,
    na_values: Sequence[str] | str | None,
) -> Roles:
    """What the columns of the tables are in the model, as far as it is known before the program reads its formulas."""
    roles = Roles(outcome, family in ("binomial", "quasibinomial"), {name for name in beside if name is not None})
    for columns in owners.values():
        if isinstance(columns, str):
            roles.ordered |= _declared(columns)
    if all(columns is not None for columns in owners.values()):
        roles.is_term = lambda name: any(
            name in (_of_formula(columns, [name]) if isinstance(columns, str) else columns or ()) for columns in owners.values()
        )
    if isinstance(bounds, Mapping):
        roles.levels = {str(name): {str(level) for level in _sequence(values)} for name, values in bounds.items()}
    roles.ordered |= set(roles.levels)
    roles.public = mode == "private" and bounds is not None and not isinstance(bounds, Mapping)
    roles.missing = set(na_values.split(",") if isinstance(na_values, str) else na_values or ())
    return roles


def _sequence(values: Any) -> Sequence[Any]:
    values = _programs.plain(values)
    return list(values) if isinstance(values, Iterable) and not isinstance(values, str) else ()


def _keys(match: str | os.PathLike[str] | bool) -> set[str]:
    """What a match is by: a column, or the texts of a file of keys."""
    if isinstance(match, bool):
        return set()
    try:
        return {os.fspath(match), *re.findall(r"""["']([^"']*)["']""", Path(match).read_text("utf-8"))}
    except (OSError, ValueError):
        return {os.fspath(match)}


def _check_tables(data: Any, alice_data: Any, bob_data: Any, match: str | os.PathLike[str] | bool | None) -> None:
    """Refuses tables that are one too many, or that are missing."""
    if match is None or match is False:
        if alice_data is not None or bob_data is not None:
            raise UsageError("alice_data and bob_data need match: by what are their rows matched?")
        if data is None:
            raise UsageError("data is missing: the table of the rehearsal; with match it is alice_data and bob_data")
    elif data is not None:
        raise UsageError("with match the tables are alice_data and bob_data, and there is no data")


def _check_writing(tables: _Tables, **said: str | None) -> None:
    """Refuses what is said of files and data bases where there are only tables in memory."""
    for name, value in said.items():
        if value is not None and tables.all_written:
            what = "a data base" if name in ("table", "query") else "a CSV file"
            raise UsageError(f"{name} is for {what}, and the data are a table in memory")


def _data(
    data: Any,
    owners: Mapping[str, Columns | None],
    outcome: str | None,
    others: Sequence[str | None],
    folder: Path,
    roles: Roles,
) -> _Tables:
    """The table of the rehearsal: where the user says, or a file written with the columns that it needs."""
    if is_file(data):
        # As it is: a path would lose one of the slashes of an address.
        return _Tables({"data": os.fspath(data)})
    source = Source(data)
    if outcome is None:
        raise UsageError("outcome is missing: the name of the column that is to be explained")
    source.require(outcome, "outcome")
    needed = {outcome, *(name for name in others if name is not None)}
    for what, name in zip(("id", "offset", "weights", "folds"), others, strict=True):
        if name is not None:
            source.require(name, what)
    for owner, columns in owners.items():
        if isinstance(columns, str):
            needed |= _of_formula(columns, source.names)
        elif columns is not None:
            for name in columns:
                source.require(name, owner)
                needed.add(name)
    everybody = all(columns is not None for columns in owners.values())
    file = source.write(sorted(needed) if everybody else None, folder, roles=roles)
    return _Tables({"data": file}, {file: "the table"}, True)


def _matched(match: str | os.PathLike[str] | bool, alice_data: Any, bob_data: Any, folder: Path, roles: Roles) -> _Tables:
    """The tables of a rehearsal that matches their rows, with all columns: which ones are keys, the program knows."""
    tables = _Tables({"match": match if isinstance(match, bool) else os.fspath(match)})
    given = {"alice": alice_data, "bob": bob_data}
    for party, data in given.items():
        if data is None or is_file(data):
            tables.flags[f"{party}_data"] = None if data is None else os.fspath(data)
            continue
        file = Source(data).write(None, folder, f"{party}_data", roles)
        tables.flags[f"{party}_data"] = file
        tables.written[file] = f"the table of {party}"
    tables.all_written = len(tables.written) == len(given)
    return tables


def _bounds(
    bounds: str | os.PathLike[str] | Mapping[str, Sequence[Any]] | None, outcome: str | None, folder: Path
) -> Path | None:
    """The file of bounds: the user's, or one written from a mapping."""
    if bounds is None:
        return None
    if not isinstance(bounds, Mapping):
        return Path(bounds)
    sections: dict[str, list[str]] = {"columns": [], "levels": [], "outcome": []}
    for name, values in bounds.items():
        values = _programs.plain(values)
        if isinstance(values, str) or not isinstance(values, Sequence):
            values = ()
        texts = all(isinstance(value, str) for value in values)
        if not values or (not texts and len(values) != 2):
            raise UsageError(f"bounds: `{name}` needs its two ends, as (18, 90), or its levels, as texts")
        section = "levels" if texts else "outcome" if str(name) == outcome else "columns"
        shown = [json.dumps(value) if isinstance(value, str) else _toml(name, value) for value in values]
        sections[section].append(f"{json.dumps(str(name))} = [{', '.join(shown)}]")
    file = folder / "bounds.toml"
    file.write_text("".join(f"[{name}]\n" + "".join(f"{line}\n" for line in lines) for name, lines in sections.items()), "utf-8")
    return file


def _toml(name: str, value: Any) -> str:
    try:
        return repr(float(value))
    except (TypeError, ValueError):
        raise UsageError(f"bounds: `{name}` has an end that is no number: {value!r}") from None


class _Logs:
    """The logs that the parties of a rehearsal write, followed while it runs."""

    def __init__(self, folder: Path, display: _progress.Progress) -> None:
        self._folder, self._display = folder, display
        # An earlier run into the same folder left logs.
        self._read = {log: log.stat().st_size for log in self._logs()}

    def _logs(self) -> list[Path]:
        # What the coordinator sees, the parties say too.
        return [log for log in self._folder.glob("*/log.txt") if log.parent.name != "coordinator"]

    def look(self, event: dict[str, Any]) -> None:
        """Shows what is new. The programs write whole lines."""
        self._display.event(event)
        for log in self._logs():
            try:
                size = log.stat().st_size
                begun = self._read.get(log, 0)
                if size == begun:
                    continue
                # A log that is shorter than before was begun anew.
                begun = begun if size > begun else 0
                with log.open("rb") as stream:
                    stream.seek(begun)
                    lines = stream.read(size - begun).decode("utf-8", "replace").splitlines()
            except OSError:
                continue
            self._read[log] = size
            for line in lines:
                self._display.event(_event(line), log.parent.name)


def _event(line: str) -> dict[str, Any]:
    """A line of a log for people: time, level, message, or fields of how far a session is."""
    words = line.split(maxsplit=2)
    if len(words) < 3 or words[1] not in ("INFO", "WARN", "ERROR", "DEBUG"):
        return {}
    if words[1] != "DEBUG":
        return {"level": words[1], "message": words[2]}
    fields: dict[str, Any] = {}
    for name, kind in (("round", int), ("certificate", float), ("bytes_sent", int)):
        value = next((word for word in words[2].split() if word.startswith(f"{name}=")), None)
        if value is not None:
            fields[name] = kind(value.partition("=")[2])
    phase = words[2].partition('phase="')[2].partition('"')[0]
    return {"level": "DEBUG", "phase": phase, **fields} if phase else {}


def _in_words(sentence: str, tables: _Tables) -> str:
    """A sentence of the program for somebody who has a table, and not the file that was written of it."""
    for file, words in tables.written.items():
        sentence = sentence.replace(str(file.resolve()), words).replace(str(file), words)
    if "data" in tables.flags and tables.written:
        # There is one table only.
        sentence = re.sub(r"(^|: )the table: ", r"\1", sentence)
    if tables.all_written and all(file.suffix == ".csv" for file in tables.written):
        # The first line is the header.
        sentence = re.sub(r"\bline (\d+)", lambda found: f"row {int(found[1]) - 1}", sentence)
    out = re.search(r"has \d+ missing values? .*; fill them in(, or leave such rows out with .*)?$", sentence)
    if out:
        sentence = sentence.removesuffix(out[1] or "") + ', or leave such rows out: missing="complete-cases"'
    if "`sealed_entropy_bits`" in sentence:
        sentence += ', or rehearse without this limit: sealed_limits="off"'
    return sentence


def _rehearse(program: Path, given: dict[str, Any], folder: Path, progress: bool | None, tables: _Tables) -> Result:
    words = ["vertical", *_programs.flags(given)]
    display = _progress.shown("rehearsal", progress, _SILENCE)
    logs = _Logs(folder, display) if type(display) is not _progress.Progress else None
    well = False
    try:
        ended = _programs.run(program, words, logs.look if logs else display.event, who="demo", fine=(0, 3))
        well = True
    except FedregError as error:
        error.sentence = _in_words(error.sentence, tables)
        error.args = (error.sentence,)
        raise
    finally:
        display.done(well)
    for message in ended.warnings:
        warnings.warn(message, FedregWarning, stacklevel=3)
    result = _read(ended.stdout, "what the program printed", folder)
    for report in sorted(folder.glob("*/report.json")):
        own = _read(report.read_text("utf-8"), str(report), None)
        if own.report.get("run") == result.report.get("run") and own.role:
            result.party_reports[own.role] = own
    if ended.exit_code == 3:
        warnings.warn(result.ending, NotConverged, stacklevel=3)
    return result
