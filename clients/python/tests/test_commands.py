"""Parties' programs with their configuration files, on the studies that the repository ships."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

import fedreg
from fedreg import _programs, _progress

from .tables import ROOT

NAMES = ("registry.example", "north.hospital.example", "south.hospital.example")


def run(name: str, *words: str, cwd: Path) -> None:
    subprocess.run([str(_programs.find(name)), *words], cwd=cwd, check=True, capture_output=True)


def port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


@pytest.fixture(scope="module")
def hospitals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`examples/two-hospitals` with certificates, at ports that are free."""
    folder = tmp_path_factory.mktemp("hospitals")
    shutil.copytree(ROOT / "examples/two-hospitals", folder, dirs_exist_ok=True)
    run("coordinator", "certs", "authority", "--name", "two hospitals", "--out", "certificates", cwd=folder)
    for name in NAMES:
        issue = ["certs", "issue", "--authority", "certificates", "--name", name, "--also", "localhost", "--out", "certificates"]
        run("coordinator", *issue, cwd=folder)
    meeting, line = str(port()), str(port())
    for file in [*folder.glob("*.toml"), *folder.glob("match/*.toml")]:
        file.write_text(file.read_text().replace("7100", meeting).replace("7101", line))
    return folder


Joint = Callable[..., tuple[Any, Any]]


@pytest.fixture
def both() -> Iterator[Joint]:
    """Runs a function at both parties, beside a coordinator."""
    with ThreadPoolExecutor(2) as pool:

        def joint(work: Callable[..., Any], folder: Path, alice: dict[str, Any], bob: dict[str, Any]) -> tuple[Any, Any]:
            served = [str(_programs.find("coordinator")), "serve", "--config", "coordinator.toml"]
            with subprocess.Popen(served, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
                waiting = [pool.submit(work, folder / f"{name}.toml", **more) for name, more in (("alice", alice), ("bob", bob))]
                first, second = (party.result(60) for party in waiting)
                return first, second

        yield joint


def test_a_study_is_checked_fitted_and_predicted_from_python(hospitals: Path, both: Joint) -> None:
    check = fedreg.check(hospitals / "alice.toml")
    assert check["rows"] == 442 and check.leaves.what.tolist()[0] == "partial predictions"
    assert "predicted rounds" in repr(check) and "<table>" in check._repr_html_()

    kept = hospitals / "results"
    alice, bob = both(fedreg.fit, hospitals, {"out": kept}, {"seed": 7})
    assert (alice.role, bob.role) == ("alice", "bob") and alice.folder == kept and (bob.folder / "model.json").is_file()
    pooled = pd.read_csv(hospitals / "alice.csv").merge(pd.read_csv(hospitals / "bob.csv", sep=None, engine="python"), on="id")
    design = sm.add_constant(pooled.drop(columns=["id", "progression"])).rename(columns={"const": "(Intercept)"})
    theirs = sm.OLS(pooled.progression, design[alice.terms]).fit()
    np.testing.assert_allclose(alice.params, theirs.params, rtol=1e-8)
    np.testing.assert_allclose(bob.bse, theirs.bse, rtol=1e-8)
    assert alice.cov_params().index.tolist() == ["(Intercept)", "age", "sex", "bmi", "bp"]

    new = {name: hospitals / f"{name}_new.csv" for name in ("alice", "bob")}
    scores, nothing = both(
        fedreg.predict, hospitals, {"model": alice, "data": new["alice"]}, {"model": bob.folder, "data": new["bob"]}
    )
    assert nothing is None and scores.columns.tolist() == ["id", "response"]
    rows = pd.read_csv(new["alice"]).merge(pd.read_csv(new["bob"], sep=None, engine="python"), on="id").sort_values("id")
    expected = theirs.predict(rows.assign(**{"(Intercept)": 1.0})[alice.terms])
    np.testing.assert_allclose(scores.sort_values("id").response, expected, rtol=1e-9)


@pytest.fixture(scope="module")
def opened(table: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a sealed rehearsal whose table is kept for sub-models."""
    folder = tmp_path_factory.mktemp("opened")
    odd = table.rename(columns={"lab": "lab, new"})
    fedreg.demo.vertical(
        odd, "cost", ["age", "bmi"], ["lab, new", "region"], mode="sealed", sealed_limits="off", refit=True, out=folder
    )
    return folder


@pytest.mark.parametrize(
    ("flags", "terms"),
    [
        ({"drop": ["lab, new", "age"]}, ["bmi", "region"]),
        ({"keep": ["age", "region"]}, ["age", "region"]),
        ({"drop": "`lab, new`,bmi"}, ["age", "region"]),
        ({}, ["age", "bmi", "lab", "region"]),
        ({"drop": []}, ["age", "bmi", "lab", "region"]),
        ({"drop": np.array(["lab, new", "age"])}, ["bmi", "region"]),
        ({"keep": (term for term in ("age", "region"))}, ["age", "region"]),
    ],
)
def test_a_sub_model_is_that_of_the_pooled_table(
    table: pd.DataFrame, opened: Path, tmp_path: Path, flags: dict[str, Any], terms: list[str]
) -> None:
    result = fedreg.refit(opened / "alice.toml", out=tmp_path / "sub", **flags)
    design = pd.get_dummies(table[terms], columns=["region"], drop_first=True, dtype=float)
    theirs = sm.OLS(table.cost, sm.add_constant(design)).fit()
    np.testing.assert_allclose(result.params, theirs.params, rtol=1e-8)
    np.testing.assert_allclose(result.bse, theirs.bse, rtol=1e-8)
    np.testing.assert_allclose(result.conf_int(0.1), theirs.conf_int(0.1), rtol=1e-8)
    np.testing.assert_allclose([result.aic - 2, result.rsquared], [theirs.aic, theirs.rsquared], rtol=1e-8)
    dropped = {term["term"] for term in result.report["refit"]["dropped"]}
    assert dropped == {"age", "bmi", "lab, new", "regionnorth", "regionsouth"} - set(result.terms)
    whole = fedreg.read_report(opened)
    flat = " ".join(str(result.summary()).split())
    assert f"Sub-model of the run {whole.report['run']}" in flat and "Sub-model" not in str(whole.summary())
    assert ("left out: " in flat) == bool(dropped) and all(f"{term} (" in flat for term in dropped)
    assert result.folder == tmp_path / "sub" and fedreg.read_report(tmp_path / "sub").params.equals(result.params)
    assert result.tidy().term.tolist() == result.terms and result.glance().nobs[0] == 400


def test_a_penalised_sub_model_has_a_path_and_no_errors(opened: Path) -> None:
    result = fedreg.refit(opened / "alice.toml", lambda_="path", alpha=0.5)
    assert len(result.path) == 100 and result.bse.isna().all() and result.folder is not None
    assert result.reasons["bse"] == "penalised estimates have no standard errors"


@pytest.mark.parametrize(
    ("party", "flags", "kind", "says"),
    [
        ("alice", {"drop": ["ages"]}, fedreg.UsageError, "`age`"),
        (
            "alice",
            {"drop": ["age"], "keep": ["bmi"]},
            fedreg.UsageError,
            "'--drop <COLUMNS>' cannot be used with '--keep <COLUMNS>'",
        ),
        ("alice", {"drop": ['both ` and "']}, fedreg.UsageError, "both kinds of quotes"),
        ("alice", {"keep": []}, fedreg.UsageError, "keep has no terms: without keep and drop all of them stay"),
        ("alice", {"alpha": 0.5}, fedreg.UsageError, "required arguments were not provided: --lambda"),
        ("bob", {}, fedreg.Refused, "opened to alice alone, and only alice can refit"),
    ],
)
def test_a_sub_model_that_cannot_be_is_an_exception(
    opened: Path, party: str, flags: dict[str, Any], kind: type[fedreg.FedregError], says: str
) -> None:
    with pytest.raises(kind, match=says):
        fedreg.refit(opened / f"{party}.toml", **flags)


def test_the_programs_of_the_package_read_data_bases_and_stores(hospitals: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Nobody answers at that port: a program without the reader would say that it was built without.
    file = shutil.copy(hospitals / "alice.toml", hospitals / "elsewhere.toml")
    Path(file).write_text(Path(file).read_text() + '\n[privacy]\ndata_set = "north"\n')
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    for place, more in (("postgres://ana@127.0.0.1:1/cohort", {"table": "visits"}), ("s3://bucket/visits.parquet", {})):
        with pytest.raises(fedreg.NoConnection, match=r"Connection refused|cannot be reached") as caught:
            fedreg.check(file, name="alice", data=place, **more)
        assert "secret" not in str(caught.value) + caught.value.log


def test_rows_are_matched_from_python(hospitals: Path, both: Joint) -> None:
    folder = hospitals / "match"
    dry = fedreg.match(folder / "alice.toml", dry_run=True)
    assert dry["rows"] == 600 and "examples" in repr(dry)
    alice, bob = both(fedreg.match, folder, {}, {})
    assert alice["matched"] == bob["matched"] > 400
    fitted, _ = both(fedreg.fit, folder, {}, {})
    assert fitted.nobs == alice["matched"] and fitted.mode == "sealed"


def test_a_party_has_the_name_of_its_file_unless_another_is_given(hospitals: Path) -> None:
    other = shutil.copy(hospitals / "alice.toml", hospitals / "north.toml")
    with pytest.raises(fedreg.UsageError, match="the study has no party north"):
        fedreg.check(other)
    assert fedreg.check(other, name="alice")["role"] == "alice"
    with pytest.raises(fedreg.Refused, match=r"the study calls this party 'south\.hospital\.example'") as caught:
        fedreg.check(other, name="bob")
    assert caught.value.exit_code == 77


def test_a_peer_that_never_comes_is_an_exception(hospitals: Path) -> None:
    with pytest.raises(fedreg.NoConnection, match="alice waited 1 s for the coordinator") as caught:
        fedreg.fit(hospitals / "alice.toml", wait=1)
    assert caught.value.exit_code == 69 and '"level":"INFO"' in caught.value.log


@pytest.mark.parametrize(
    ("more", "kind", "says"),
    [
        ({"no_such_flag": 1}, fedreg.UsageError, "unexpected argument '--no-such-flag' found"),
        ({"max_rounds": "many"}, fedreg.UsageError, "invalid value 'many' for '--max-rounds"),
        ({"data": "nowhere.csv"}, fedreg.DataError, "nowhere.csv"),
    ],
)
def test_what_the_program_refuses_is_an_exception(
    hospitals: Path, more: dict[str, Any], kind: type[fedreg.FedregError], says: str
) -> None:
    with pytest.raises(kind, match=says):
        fedreg.check(hospitals / "alice.toml", **more)


def test_files_that_are_not_there_are_an_exception(hospitals: Path) -> None:
    with pytest.raises(fedreg.DataError, match="there is no file"):
        fedreg.fit(hospitals / "carol.toml")
    with pytest.raises(fedreg.DataError, match=r"give the model\.json"):
        fedreg.predict(hospitals / "alice.toml", model=fedreg.Result({"version": "0.1.0"}))


def test_flags_are_those_of_the_program() -> None:
    given = {
        "max_rounds": np.int64(9),
        "tol": 1e-9,
        "no_basis": True,
        "seed": None,
        "leash": False,
        "na_values": ["a", "b,c"],
        "lambda_": 0.5,
    }
    assert _programs.flags(given) == ["--max-rounds=9", "--tol=1e-09", "--no-basis", '--na-values=a,"b,c"', "--lambda=0.5"]


def test_numbers_of_numpy_are_written_as_those_of_python() -> None:
    given = {
        "tol": np.float64(1e-9),
        "alpha": np.float32(0.5),
        "refit": np.bool_(True),
        "leash": np.bool_(False),
        "lambda_": np.array([0.5, 0.25]),
        "keep": [np.float64(1.0), np.int64(2)],
        "na_values": (text for text in ("a", "b")),
        "max_rounds": np.array(9),
    }
    assert _programs.flags(given) == [
        "--tol=1e-09", "--alpha=0.5", "--refit", "--lambda=0.5,0.25", "--keep=1.0,2", "--na-values=a,b", "--max-rounds=9",
    ]  # fmt: skip
    with pytest.raises(fedreg.UsageError, match="alpha: a value of type complex is no value of a flag"):
        _programs.flags({"alpha": 1j})


def test_lines_are_passed_on_where_progress_is_wanted(hospitals: Path, both: Joint, capfd: pytest.CaptureFixture[str]) -> None:
    both(fedreg.fit, hospitals, {"progress": True}, {"progress": False})
    said = capfd.readouterr().err
    assert "read 442 rows" in said and "the line to bob is open" in said and "the line to alice" not in said and "{" not in said


def test_a_notebook_shows_one_line_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    class Handle:
        def update(self, content: dict[str, str], raw: bool) -> None:
            shown.append(content["text/plain"])

    def display(content: dict[str, str], raw: bool, display_id: bool) -> Handle:
        shown.append("new " + content["text/plain"])
        return Handle()

    shell = type("ZMQInteractiveShell", (), {})()
    ipython = type("IPython", (), {"get_ipython": staticmethod(lambda: shell)})
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", type("display", (), {"display": staticmethod(display)}))
    monkeypatch.setattr(_progress, "_CHANGES", 0.0)
    progress = _progress.shown("alice fit", None)
    progress.event({"message": "reading alice.csv"})
    progress.event({"phase": "fitting", "round": 3, "certificate": 0.000123, "bytes_sent": 2_500_000})
    progress.event({})
    progress.done(True)
    kept = [line.rpartition(" (")[0] for line in shown]
    assert kept == [
        "new alice fit: reading alice.csv",
        "alice fit: fitting, round 3, gradient 1.2e-04, 2.5 MB sent",
        "alice fit: fitting, round 3, gradient 1.2e-04, 2.5 MB sent",
        "alice fit: done",
    ]
