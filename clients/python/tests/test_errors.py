"""Exceptions, with sentence and exit code."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import fedreg
from fedreg import _programs, errors


def fit(table: pd.DataFrame, **more: Any) -> fedreg.Result:
    given: dict[str, Any] = {"alice": ["age", "bmi"], "bob": ["lab"], **more}
    table = table.head(given.pop("rows", len(table)))
    return fedreg.demo.vertical(table, given.pop("outcome", "cost"), **given)


@pytest.mark.parametrize(
    ("more", "kind", "says"),
    [
        ({"bob": ["lap"]}, fedreg.DataError, "bob: there is no column `lap` in the table; `lab` is nearest"),
        ({"outcome": "costs"}, fedreg.DataError, "outcome: there is no column `costs` in the table; `cost` is nearest"),
        ({"weights": "w"}, fedreg.DataError, "weights: there is no column `w`"),
        ({"bob": "lab"}, fedreg.UsageError, "bob: columns are a list of names, or a formula"),
        ({"bob": []}, fedreg.UsageError, "bob has no columns"),
        ({"bob": ["age"]}, fedreg.UsageError, "`parties.bob.columns` names `age`, which alice has already"),
        ({"bob": "~ log(lab"}, fedreg.UsageError, r"formula, character 10: expected `\)`"),
        ({"bob": "~ log(lap)"}, fedreg.DataError, "there is no column `lap`"),
        (
            {"mode": "open"},
            fedreg.UsageError,
            r"invalid value 'open' for '--mode <MODE>' \[possible values: plain, sealed, private\]$",
        ),
        ({"mode": "private"}, fedreg.UsageError, "--mode private needs --bounds FILE"),
        ({"mode": "private", "bounds": {"age": 5}}, fedreg.UsageError, "bounds: `age` needs its two ends"),
        ({"mode": "private", "bounds": {"age": (0, None)}}, fedreg.UsageError, "bounds: `age` has an end that is no number"),
        ({"mode": "private", "bounds": {"age": (0, 99)}}, fedreg.UsageError, "`columns` lacks public bounds of `bmi`"),
        ({"family": "binomial"}, fedreg.DataError, "alice: the outcome `cost`, row 1: .* outside the range of binomial"),
        (
            {"bob": ["region"], "mode": "sealed", "rows": 60},
            fedreg.DataError,
            'bob: .* loosen `sealed_entropy_bits`.*, or rehearse .* sealed_limits="off"$',
        ),
        ({"parties": {"x": ["age"]}}, fedreg.UsageError, "parties stands in place of alice and bob"),
        ({"cv": object()}, fedreg.UsageError, "cv: a value of type object is no value of a flag"),
        ({"out": "/proc/nowhere"}, fedreg.CannotWrite, "cannot make the folder /proc/nowhere"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(
    table: pd.DataFrame, more: dict[str, Any], kind: type[fedreg.FedregError], says: str
) -> None:
    with pytest.raises(kind, match=says) as caught:
        fit(table, **more)
    error = caught.value
    assert error.exit_code == kind.code and str(error) == error.sentence
    assert "ended the run" not in str(error) and "Usage:" not in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.exit_code) == (kind, str(error), error.exit_code)


def test_codes_and_classes_go_together() -> None:
    # Those of docs/reference/exit-codes.md that a run can end with, but 0 and 3, which have results, and 75.
    known = {code: errors.of_code(code) for code in (1, 2, 65, 69, 73, 76, 77, 130)}
    assert all(kind.code == code for code, kind in known.items()) and len(set(known.values())) == 8
    assert errors.of_code(75) is fedreg.FedregError
    assert issubclass(fedreg.DataError, ValueError) and issubclass(fedreg.UsageError, ValueError)


def test_a_fit_that_did_not_converge_has_a_result_and_a_warning(table: pd.DataFrame) -> None:
    with pytest.warns(fedreg.NotConverged, match="the limit on rounds"):
        result = fit(table, max_rounds=1)
    assert result.converged is False and "the limit on rounds" in str(result.summary())
    with pytest.warns(fedreg.NotConverged, match="separates"):
        result = fit(table.assign(over=table.age > 50), outcome="over", family="binomial")
    assert result.reasons["bse"].startswith("the fit did not end with the solution")


def test_a_program_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, table: pd.DataFrame, tmp_path: Path) -> None:
    monkeypatch.setenv("FEDREG_BIN", str(tmp_path))
    with pytest.raises(fedreg.ProgramMissing, match=f"no program `demo` in {tmp_path}, which the variable FEDREG_BIN names"):
        fit(table)
    monkeypatch.delenv("FEDREG_BIN")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(_programs, "_folders", lambda: iter([tmp_path]))
    with pytest.raises(fedreg.ProgramMissing, match="neither beside this package nor on the PATH; `pip install"):
        fedreg.fit("alice.toml")


def fake(folder: Path, text: str, name: str = "demo") -> None:
    program = folder / name
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)


def test_programs_of_another_version_and_of_others_are_refused(
    monkeypatch: pytest.MonkeyPatch, table: pd.DataFrame, tmp_path: Path
) -> None:
    monkeypatch.setenv("FEDREG_BIN", str(tmp_path))
    fake(tmp_path, "echo demo 0.9.1")
    with pytest.raises(fedreg.VersionMismatch, match=r"is of version 0\.9\.1, and this package \(0\.1\.0\) goes with 0\.1\.x"):
        fit(table)
    time.sleep(0.01)
    fake(tmp_path, "echo dancing")
    with pytest.raises(fedreg.ProgramMissing, match="is no program of fedreg"):
        fit(table)
    time.sleep(0.01)
    fake(tmp_path, r"printf 'caf\351 1\n'")
    with pytest.raises(fedreg.ProgramMissing, match="is no program of fedreg"):
        fit(table)
    time.sleep(0.01)
    (tmp_path / "demo").write_bytes(b"\x00\x01")
    with pytest.raises(fedreg.ProgramMissing, match="cannot be run"):
        fit(table)


def test_a_later_program_of_the_same_series_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FEDREG_BIN", str(tmp_path))
    fake(tmp_path, "echo demo 0.1.7")
    assert _programs.find("demo") == tmp_path / "demo"


def test_a_program_that_is_killed_is_told_so(monkeypatch: pytest.MonkeyPatch, table: pd.DataFrame, tmp_path: Path) -> None:
    monkeypatch.setenv("FEDREG_BIN", str(tmp_path))
    fake(tmp_path, '[ "$1" = --version ] && echo demo 0.1.0 && exit; kill -9 $$')
    with pytest.raises(fedreg.FedregError, match=r"demo was ended by signal 9 \(SIGKILL\)"):
        fit(table)


def test_reports_of_another_version_and_other_files_are_refused(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    report.write_text('{"protocol": "vertical", "mode": "plain", "version": "0.4.0", "coefficients": []}')
    with pytest.raises(fedreg.VersionMismatch, match=r"report\.json, is of version 0\.4\.0"):
        fedreg.read_report(tmp_path)
    assert fedreg.read_report(report, check_version=False).version == "0.4.0"
    report.write_text('{"a": 1}')
    with pytest.raises(fedreg.DataError, match="is no report of fedreg"):
        fedreg.read_report(report)
    report.write_text("[")
    with pytest.raises(fedreg.DataError, match="is no JSON"):
        fedreg.read_report(report)
    with pytest.raises(fedreg.DataError, match="cannot read"):
        fedreg.read_report(tmp_path / "nowhere")


def test_an_interrupt_ends_the_program_in_good_order(tmp_path: Path) -> None:
    told = tmp_path / "told"
    fake(
        tmp_path,
        f"""[ "$1" = --version ] && echo alice 0.1.0 && exit
trap 'echo interrupted > {told}; exit 130' INT
echo '{{"level":"INFO","message":"waiting"}}' >&2
while :; do sleep 0.05; done""",
        "alice",
    )
    (tmp_path / "alice.toml").write_text("")
    script = textwrap.dedent(
        f"""
        import fedreg
        try:
            fedreg.fit("{tmp_path}/alice.toml", progress=True)
        except KeyboardInterrupt:
            print("ended", flush=True)
        """
    )
    environment = {**os.environ, "FEDREG_BIN": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as python:
        assert python.stderr is not None and python.stdout is not None
        assert python.stderr.readline() == "waiting\n"
        python.send_signal(signal.SIGINT)
        assert python.stdout.read() == "ended\n"
    assert told.read_text() == "interrupted\n"
