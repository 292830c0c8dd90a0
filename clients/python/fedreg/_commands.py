"""A party's program, run with the configuration file of that party."""

from __future__ import annotations

import csv
import io
import json
import os
import warnings
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any, Literal

from . import _programs, _progress
from ._frames import frame
from .errors import DataError, FedregWarning, NotConverged, UsageError
from .result import Result, _read

#: Parties with a program of their own; all others are parties of the program `party`.
_OWN = ("alice", "bob")

#: What a program logs of where its results are.
_KEPT = "report and model are in "
_REFITTED = ("the report is in ", "; nothing left this party")


def _party(config: str | os.PathLike[str], name: str | None) -> tuple[Path, list[str], str]:
    """The program of a party, its first words, and the party's name: that of the file, where none is given."""
    name = name or Path(config).stem
    if name in _OWN:
        return _programs.find(name), [], name
    return _programs.find("party"), ["--name", name], name


def _run(
    command: str,
    config: str | os.PathLike[str],
    name: str | None,
    progress: bool | None,
    given: dict[str, Any],
    *,
    fine: tuple[int, ...] = (0,),
    joint: bool = True,
) -> _programs.Ended:
    program, words, who = _party(config, name)
    if not Path(config).is_file():
        raise DataError(f"there is no file {os.fspath(config)}")
    words += [command, f"--config={os.fspath(config)}", "--log=json", *_programs.flags(given)]
    display = _progress.shown(f"{who} {command}", progress if joint else False)
    well = False
    try:
        ended = _programs.run(program, words, display.event, who=who, leash=joint, fine=fine)
        well = True
    finally:
        display.done(well)
    for message in ended.warnings:
        warnings.warn(message, FedregWarning, stacklevel=3)
    return ended


def fit(
    config: str | os.PathLike[str],
    *,
    name: str | None = None,
    out: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
    **flags: Any,
) -> Result:
    """Fits the study's model together with the other parties, and gives this party's report.

    ``config`` is the private file of this party. ``name`` is the party's name in the study, by default that of the file:
    ``alice.toml`` is Alice's. ``out`` is the folder for report and model; without it they are kept below the state folder.
    ``progress`` shows how far the run is: ``None`` on terminals and in notebooks, ``True`` always, ``False`` never. All
    other keywords are flags of ``alice fit``: ``data="new.csv"``, ``wait=60``, ``max_rounds=100``, ``no_basis=True``.

    Raises the :class:`FedregError` of the program's exit code. A fit that did not converge has a result, and a
    :class:`NotConverged` warning.
    """
    given = {"out": out, "format": "json", **flags}
    ended = _run("fit", config, name, progress, given, fine=(0, 3))
    kept = [message.removeprefix(_KEPT) for message in ended.messages if message.startswith(_KEPT)]
    result = _read(ended.stdout, "what the program printed", Path(kept[-1]).resolve() if kept else None)
    if ended.exit_code == 3:
        warnings.warn(result.ending, NotConverged, stacklevel=2)
    return result


class _Found:
    """What a program found, as it printed it in JSON."""

    def __init__(self, report: dict[str, Any]) -> None:
        #: All that the program printed.
        self.report = report

    def __getitem__(self, key: str) -> Any:
        return self.report[key]

    def _rows(self) -> list[tuple[str, str]]:
        return [(key.replace("_", " "), _brief(value)) for key, value in self.report.items()]

    def __repr__(self) -> str:
        width = max((len(key) for key, _ in self._rows()), default=0)
        return "\n".join(f"{key:<{width}}  {value}" for key, value in self._rows())

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{escape(key)}</th><td style='text-align:left'>{escape(value)}</td></tr>"
            for key, value in self._rows()
        )
        return f"<table>{rows}</table>"


def _brief(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{key.replace('_', ' ')}: {_brief(one)}" for key, one in value.items() if one is not None)
    if isinstance(value, list):
        # Objects are set apart, as each is a list of its own.
        apart = " | " if any(isinstance(one, dict) for one in value) else ", "
        return apart.join(_brief(one) for one in value)
    return "" if value is None else str(value)


class Check(_Found):
    """What a party would bring to a run, and what would leave it."""

    @property
    def leaves(self) -> Any:
        """Kinds of values that would leave: what, how much, and what it reveals. As :func:`Result.tidy`, a frame."""
        rows = self.report.get("leaves") or []
        names = ["what", "amount", "reveals"]
        return frame({name: [row.get(name) for row in rows] for name in names})


class Match(_Found):
    """What a match found, or would be made of."""


def check(config: str | os.PathLike[str], *, name: str | None = None, **flags: Any) -> Check:
    """Checks files, data, certificates and policy of a party, and says what would leave; opens no connection.

    Raises the :class:`FedregError` that a fit would end with. Keywords are as in :func:`fit`.
    """
    ended = _run("check", config, name, False, {"format": "json", **flags}, joint=False)
    return Check(_object(ended.stdout))


def match(
    config: str | os.PathLike[str],
    *,
    name: str | None = None,
    purpose: str = "fit",
    dry_run: bool = False,
    progress: bool | None = None,
    **flags: Any,
) -> Match:
    """Finds the rows that all parties have, before a fit, in a study that matches rows.

    ``purpose`` is ``"fit"``, or ``"predict"`` for new rows. ``dry_run`` shows what this party would bring, and opens no
    connection. Keywords are as in :func:`fit`.
    """
    given = {"purpose": purpose, "dry_run": dry_run, "format": "json", **flags}
    return Match(_object(_run("match", config, name, progress, given, joint=not dry_run).stdout))


def predict(
    config: str | os.PathLike[str],
    *,
    model: str | os.PathLike[str] | Result,
    name: str | None = None,
    out: str | os.PathLike[str] | None = None,
    scale: str = "response",
    progress: bool | None = None,
    **flags: Any,
) -> Any:
    """Scores new rows together with the other parties: a frame at the party that the study names, ``None`` at the others.

    ``model`` is the ``model.json`` of this party's fit, the folder that it is in, or what :func:`fit` gave. ``scale`` is
    ``"response"`` or ``"link"``. A row with a gap at any party has NaN in place of a score. Keywords are as in :func:`fit`:
    ``data`` names the table of new rows.
    """
    if isinstance(model, Result):
        if model.folder is None:
            raise DataError("the result was not read from a folder: give the model.json of the fit")
        model = model.folder
    file = Path(model)
    if file.is_dir():
        file = file / "model.json"
    given = {"model": file, "out": out, "scale": scale, **flags}
    ended = _run("predict", config, name, progress, given, fine=(0, 3))
    rows = list(csv.reader(io.StringIO(ended.stdout)))
    if not rows:
        return None
    header, *cells = rows
    columns: dict[str, list[Any]] = {column: [row[at] for row in cells] for at, column in enumerate(header)}
    for column in header[1:]:
        columns[column] = [float("nan") if cell in ("", "NA") else float(cell) for cell in columns[column]]
    return frame(columns)


def refit(
    config: str | os.PathLike[str],
    *,
    name: str | None = None,
    drop: str | Sequence[str] | None = None,
    keep: str | Sequence[str] | None = None,
    lambda_: float | Sequence[float] | Literal["path"] | None = None,
    alpha: float | None = None,
    out: str | os.PathLike[str] | None = None,
    **flags: Any,
) -> Result:
    """Fits a sub-model from the table that opened to this party in its last fit: opens no connection, and nothing leaves.

    ``drop`` or ``keep`` are columns or terms, a list of names or the text of the flag; without both all of them stay.
    ``lambda_`` and ``alpha`` are a penalty of the sub-model, which has none otherwise. Other keywords are as in :func:`fit`.

    Raises :class:`Refused` where the study, or this party in it, has no such table.
    """
    kept_terms = _terms(keep)
    if kept_terms == "":
        raise UsageError("keep has no terms: without keep and drop all of them stay")
    given = {
        "drop": _terms(drop) or None,
        "keep": kept_terms,
        "lambda": lambda_,
        "alpha": alpha,
        "out": out,
        "format": "json",
        **flags,
    }
    ended = _run("refit", config, name, False, given, joint=False)
    before, behind = _REFITTED
    kept = [message.removeprefix(before).removesuffix(behind) for message in ended.messages if message.startswith(before)]
    return _read(ended.stdout, "what the program printed", Path(kept[-1]).resolve() if kept else None)


def _terms(names: str | Sequence[str] | None) -> str | None:
    """Names of terms as the flags of ``refit`` take them: each in quotes, as a comma may belong to it."""
    if names is None or isinstance(names, str):
        return names
    quoted = []
    for name in names:
        mark = next((mark for mark in ("`", '"') if mark not in str(name)), None)
        if mark is None:
            raise UsageError(f"the term {name} has both kinds of quotes in it: give the text of the flag")
        quoted.append(f"{mark}{name}{mark}")
    return ",".join(quoted)


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise DataError("what the program printed is no JSON object")
    return value
