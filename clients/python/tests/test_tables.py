"""What a table may be, and what of it is refused."""

from __future__ import annotations

import inspect
import re
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import fedreg
from fedreg import _programs
from fedreg._tables import Source

from .tables import ROOT

COLUMNS = ["age", "bmi", "lab", "smoker", "region", "cost"]


def fit(data: Any, **more: Any) -> fedreg.Result:
    return fedreg.demo.vertical(data, "cost", ["age", "bmi"], ["lab", "smoker", "region"], **more)


@pytest.mark.parametrize("kind", ["polars", "lazy", "pyarrow", "batch", "mapping", "numpy", "csv", "parquet", "nullable"])
def test_every_kind_of_table_gives_the_same_numbers(table: pd.DataFrame, plain: fedreg.Result, kind: str, tmp_path: Path) -> None:
    used = table[COLUMNS]
    arrow = pa.Table.from_pandas(used, preserve_index=False)
    if kind == "csv":
        used.to_csv(tmp_path / "table.csv", index=False)
    if kind == "parquet":
        used.to_parquet(tmp_path / "table.parquet")
    made: dict[str, Any] = {
        "polars": lambda: pl.from_arrow(arrow),
        "lazy": lambda: pl.from_arrow(arrow).lazy(),
        "pyarrow": lambda: arrow,
        "batch": lambda: arrow.to_batches()[0],
        "mapping": lambda: {name: used[name].tolist() for name in COLUMNS},
        "numpy": lambda: {name: used[name].to_numpy() for name in COLUMNS},
        "csv": lambda: tmp_path / "table.csv",
        "parquet": lambda: str(tmp_path / "table.parquet"),
        "nullable": lambda: used.convert_dtypes(),
    }
    assert fit(made[kind]()).params.to_dict() == plain.params.to_dict()


def test_texts_that_are_no_plain_file_are_for_the_program(
    table: pd.DataFrame, plain: fedreg.Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    used = table[COLUMNS]
    # SQLite has no truth values: a column that is declared so has 0 and 1.
    with sqlite3.connect("cohort.db") as base:
        base.execute("CREATE TABLE visits (age REAL, bmi REAL, lab REAL, smoker BOOLEAN, region TEXT, cost REAL, year INTEGER)")
        rows = used.assign(smoker=used.smoker.astype(int), year=2024).itertuples(index=False)
        base.executemany("INSERT INTO visits VALUES (?, ?, ?, ?, ?, ?, ?)", [tuple(row) for row in rows])
    base.close()
    used.to_csv("german.csv", sep=";", decimal=",", index=False)
    Path("parts").mkdir()
    used.head(150).to_parquet("parts/part-1.parquet")
    used.tail(-150).to_parquet("parts/part-2.parquet")
    given: list[tuple[Any, dict[str, Any]]] = [
        ("sqlite:cohort.db", {"table": "visits"}),
        ("sqlite:cohort.db", {"query": "SELECT * FROM visits WHERE year = 2024"}),
        ("german.csv", {"separator": ";", "decimal": ","}),
        ("parts", {}),
        (Path("parts"), {}),
        ("parts/part-*.parquet", {}),
    ]
    for data, more in given:
        assert fit(data, **more).params.to_dict() == plain.params.to_dict(), (data, more)


def test_words_for_missing_values_are_passed_on(table: pd.DataFrame, tmp_path: Path) -> None:
    holed = table[COLUMNS].astype({"age": object})
    holed.loc[4, "age"], holed.loc[7, "age"] = "?", "n, a"
    holed.to_csv(tmp_path / "holed.csv", index=False)
    result = fit(tmp_path / "holed.csv", na_values=["?", "n, a"], missing="complete-cases")
    assert result.nobs == len(table) - 2
    assert fit(table.assign(age=table.age.where(table.index != 4, np.inf)), na_values="inf", missing="complete-cases").nobs == 399


@pytest.mark.parametrize(
    ("data", "more", "kind", "says"),
    [
        ("sqlite:cohort.db", {}, fedreg.UsageError, "what of this data base is read is not stated"),
        ("postgres://ana@127.0.0.1:1/x", {}, fedreg.UsageError, r"^postgres://127\.0\.0\.1:1/x: what of this data base is read"),
        ("nowhere-*.parquet", {}, fedreg.DataError, "no file has such a path"),
        ("nowhere.csv", {"table": "visits"}, fedreg.FedregError, "nowhere"),
        ("nowhere.csv", {"outcome": None}, fedreg.UsageError, "outcome"),
        ({"y": [1, 2], "a": [1, 2], "b": [2, 1]}, {"outcome": None}, fedreg.UsageError, "outcome is missing"),
        ({"cost": [1, 2]}, {"alice": None, "bob": None, "table": "visits"}, fedreg.UsageError, "table is for a data base, and"),
        ({"cost": [1, 2]}, {"alice": None, "bob": None, "decimal": ","}, fedreg.UsageError, "decimal is for a CSV file, and"),
        (None, {}, fedreg.UsageError, "data is missing"),
        (None, {"alice_data": "a.csv"}, fedreg.UsageError, "alice_data and bob_data need match"),
        ("a.csv", {"match": "id"}, fedreg.UsageError, "with match the tables are alice_data and bob_data"),
        (None, {"match": "id", "alice_data": "a.csv"}, fedreg.UsageError, "--match needs --alice-data and --bob-data"),
    ],
)
def test_tables_that_are_missing_or_said_twice_are_refused(data: Any, more: dict[str, Any], kind: Any, says: str) -> None:
    with pytest.raises(kind, match=says):
        fedreg.demo.vertical(data, **{"outcome": "cost", "alice": ["a"], "bob": ["b"], **more})


@pytest.mark.parametrize("how", ["tables", "files", "mixed"])
def test_rows_of_two_tables_are_matched(table: pd.DataFrame, tmp_path: Path, how: str) -> None:
    known = table.assign(pid=[f"p{at:03}" for at in range(len(table))])
    alice, bob = known[["pid", "age", "bmi", "cost"]].head(350), known[["pid", "lab"]].tail(350).iloc[::-1]
    first: Any = alice
    second: Any = bob
    if how != "tables":
        alice.to_csv(tmp_path / "a.csv", index=False)
        first = tmp_path / "a.csv"
    if how == "files":
        bob.to_csv(tmp_path / "b.csv", index=False)
        second = str(tmp_path / "b.csv")
    given: dict[str, Any] = {"match": "pid", "alice_data": first, "bob_data": second}
    matched = fedreg.demo.vertical(outcome="cost", alice=["age", "bmi"], bob=["lab"], **given)
    both = fedreg.demo.vertical(known.iloc[50:350], "cost", ["age", "bmi"], ["lab"])
    assert matched.nobs == 300 and set(matched.party_reports) == {"alice", "bob"}
    np.testing.assert_allclose(matched.params, both.params, rtol=1e-8)
    with pytest.raises(fedreg.DataError, match="there is no column `pit`; the nearest name is `pid`"):
        fedreg.demo.vertical(outcome="cost", **{**given, "match": "pit"})


def test_a_table_of_a_match_is_named_by_its_party(table: pd.DataFrame) -> None:
    known = table.assign(pid=[f"p{at:03}" for at in range(len(table))])
    bob = known[["pid", "lab"]].assign(lab=known.lab.where(known.index != 4))
    with pytest.raises(fedreg.DataError, match=r"the table of bob.*column `lab` has 1 missing value") as caught:
        fedreg.demo.vertical(
            outcome="cost", alice=["age"], bob=["lab"], match="pid", alice_data=known[["pid", "age", "cost"]], bob_data=bob
        )
    assert ".parquet" not in str(caught.value)


def test_the_shipped_tables_are_matched(tmp_path: Path) -> None:
    result = fedreg.demo.vertical(match=True, out=tmp_path)
    assert result.nobs > 3000 and (tmp_path / "hospital.csv").is_file()
    keys = ROOT / "examples/data/people.match.toml"
    again = fedreg.demo.vertical(
        outcome=result.outcome, alice_data=tmp_path / "hospital.csv", bob_data=tmp_path / "insurer.csv", match=keys,
        alice=[term for term in result.terms[1:] if result.parties[term] == "alice"],
        bob=[term for term in result.terms if result.parties[term] == "bob"],
    )  # fmt: skip
    assert again.nobs == result.nobs


def test_every_flag_of_the_program_is_a_keyword() -> None:
    said = subprocess.run([_programs.find("demo"), "vertical", "--help"], capture_output=True, text=True, check=True).stdout
    flags = {flag.replace("-", "_") for flag in re.findall(r"^ +(?:-\w, )?--([\w-]+)", said, re.MULTILINE)}
    keywords = {name.strip("_") for name in inspect.signature(fedreg.demo.vertical).parameters}
    # What is printed is read here, and a study that is only written has no result.
    others = {"help", "format", "verbose", "as_study", "hosts", "ports", "no_inference"}
    assert flags - keywords == others and keywords - flags == {"inference", "progress"}


@pytest.mark.parametrize("kind", ["pandas", "polars", "mapping"])
def test_tables_are_written_without_pyarrow_too(
    table: pd.DataFrame, plain: fedreg.Result, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    categorical = pl.col("region").cast(pl.Categorical)
    made: dict[str, Any] = {
        "pandas": table,
        "polars": pl.from_pandas(table[COLUMNS]).with_columns(categorical),
        "mapping": {name: table[name].to_numpy() for name in COLUMNS},
    }
    data = made[kind]
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert fit(data).params.to_dict() == plain.params.to_dict()


def test_text_that_csv_would_change_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for column in (["01234", "x"], ["", "x"], ["NA", "x"], ["true", "FALSE"]):
        with pytest.raises(fedreg.DataError, match="in CSV is no text; install pyarrow"):
            Source({"zip": column}).write(None, tmp_path)


def test_numbers_that_were_made_categories_are_levels(table: pd.DataFrame) -> None:
    coded = table.assign(region=table.region.map({"east": 1, "north": 2, "south": 3}))
    for data in (coded.astype({"region": "category"}), coded.astype({"region": str})):
        assert [term for term in fit(data).terms if "region" in term] == ["region2", "region3"]
    assert [term for term in fit(coded).terms if "region" in term] == ["region"]


def test_an_order_of_levels_that_is_not_kept_is_told(table: pd.DataFrame) -> None:
    ordered = table.assign(region=pd.Categorical(table.region, ["south", "east", "north"]))
    with pytest.warns(fedreg.FedregWarning, match="the reference is `east`, not `south`"):
        fit(ordered)
    with pytest.warns(fedreg.FedregWarning, match="the reference is `east`, not `south`"):
        fit(pl.from_pandas(table[COLUMNS]).with_columns(pl.col("region").cast(pl.Enum(["south", "east", "north"]))))


@pytest.mark.parametrize("library", ["pandas", "polars", "mapping"])
def test_not_a_number_is_missing(table: pd.DataFrame, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    holed = table[COLUMNS].astype({"age": float})
    holed.loc[4, "age"] = np.nan
    made: dict[str, Any] = {
        "pandas": holed,
        "polars": pl.DataFrame({name: holed[name].to_numpy() for name in COLUMNS}),
        "mapping": {name: holed[name].tolist() for name in COLUMNS},
    }
    says = r'column `age` has 1 missing value \(the first at row 5\); .* missing="complete-cases"$'
    with pytest.raises(fedreg.DataError, match=says):
        fit(made[library])
    with monkeypatch.context() as without:
        # In a file the fifth row would be line 6.
        without.setitem(sys.modules, "pyarrow", None)
        with pytest.raises(fedreg.DataError, match=says):
            fit(made[library])
    assert fit(made[library], missing="complete-cases").nobs == len(table) - 1


def test_odd_names_stay_what_they_are(table: pd.DataFrame) -> None:
    odd = table.rename(columns={"age": 'a;b="c", d', "bmi": "~x", "lab": 3})
    result = fedreg.demo.vertical(odd, "cost", ['a;b="c", d', "~x"], [3])  # type: ignore[list-item]
    assert result.terms == ["(Intercept)", 'a;b="c", d', "~x", "3"]
    named = fedreg.demo.vertical(odd, "cost", parties={"x": ['a;b="c", d'], "y": ["~x"], "z": ["3"]})
    assert set(named.terms) == set(result.terms)


def test_formulas_are_passed_on(table: pd.DataFrame) -> None:
    result = fedreg.demo.vertical(table, "cost", "~ log(age) * smoker", ["lab"])
    assert result.terms == ["(Intercept)", "log(age)", "smokerTRUE", "log(age):smokerTRUE", "lab"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"age": [1, "x"] * 200}, r"column `age` holds values that are of no one kind \(int, str\)"),
        ({"age": [object()] * 400}, r"column `age` holds values that are of no one kind \(object\)"),
        ({"age": [1j] * 400}, r"column `age` holds values that are of no one kind \(complex\)"),
        ({"age": [[1]] * 400}, "column `age` is of type a list"),
        ({"age": pd.Timestamp("2020-01-01")}, "column `age` is of type timestamp"),
        ({"age": pd.Timedelta("1D")}, "column `age` is a duration"),
        ({"age": [np.inf, 1.0] * 200}, "alice: cannot use the table: column `age`, row 1: `inf` is not a value"),
        ({"age": None}, "column `age` has 400 missing values"),
    ],
)
def test_columns_that_are_no_terms_are_refused(table: pd.DataFrame, change: dict[str, Any], says: str) -> None:
    with pytest.raises(fedreg.DataError, match=says) as caught:
        fit(table.assign(**change))
    assert caught.value.exit_code == 65


def test_tables_that_are_none_are_refused(table: pd.DataFrame) -> None:
    with pytest.raises(fedreg.UsageError, match="not list"):
        fit([1, 2])
    with pytest.raises(fedreg.UsageError, match="not Series"):
        fit(table.age)
    with pytest.raises(fedreg.DataError, match=r"cannot open .*/nowhere\.csv: No such file"):
        fit("nowhere.csv")
    with pytest.raises(fedreg.DataError, match="the table has the column `age` twice"):
        fit(pd.concat([table, table[["age"]]], axis=1))
    with pytest.raises(fedreg.DataError, match="there are no rows"):
        fit(table.head(0))
    with pytest.raises(fedreg.DataError, match="column `a` has 1 values and column `y` has 2"):
        fedreg.demo.vertical({"y": [1, 2], "a": [1], "b": [1, 2]}, "y", ["a"], ["b"])
    with pytest.raises(fedreg.DataError, match=r"column `b` holds values that are of no one kind \(ndarray\)"):
        fedreg.demo.vertical({"y": [1, 2], "a": [1, 2], "b": np.ones((2, 2))}, "y", ["a"], ["b"])
    with pytest.raises(fedreg.DataError, match="column `b` is no sequence"):
        fedreg.demo.vertical({"y": [1, 2], "a": [1, 2], "b": "xy"}, "y", ["a"], ["b"])
