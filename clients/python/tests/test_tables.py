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
    for words in (["?", "n, a"], (word for word in ("?", "n, a")), np.array(["?", "n, a"])):
        assert fit(tmp_path / "holed.csv", na_values=words, missing="complete-cases").nobs == len(table) - 2
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
    for column in (["01234", "x"], ["true", "FALSE"]):
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


def test_columns_may_be_named_by_numbers_and_come_from_a_generator(table: pd.DataFrame, plain: fedreg.Result) -> None:
    coded = table.rename(columns={"cost": 0, "age": 1, "bmi": 2})
    bob = ["lab", "smoker", "region"]
    result = fedreg.demo.vertical(coded, 0, (name for name in (1, 2)), np.array(bob))  # type: ignore[arg-type]
    assert result.params.tolist() == plain.params.tolist() and result.terms[1:3] == ["1", "2"]
    counts = table.assign(visits=table.visits + 1.0).rename(columns={"visits": 7})
    for more in ("weights", "offset"):
        given: Any = {more: 7}
        named: Any = {more: "7"}
        assert fit(counts, **given).params.equals(fit(counts.rename(columns={7: "7"}), **named).params)
    for values in ([1.0] * 400, table.bmi):
        with pytest.raises(fedreg.UsageError, match="weights is the name of a column of the table, not a value of type"):
            fit(table, weights=values)
    with pytest.raises(fedreg.UsageError, match="alice: columns are a list of names, or a formula; not a value of type int"):
        fedreg.demo.vertical(table, "cost", 3, ["lab"])  # type: ignore[arg-type]


def test_a_dot_in_a_formula_stands_for_all_other_columns(table: pd.DataFrame, tmp_path: Path) -> None:
    used = table[["age", "bmi", "lab", "cost"]].rename(columns={"bmi": "b`m\\i"})
    used.to_csv(tmp_path / "used.csv", index=False)
    for formula in ("~ .", "~ . + log(age)", "~.-1", "~ (.)^2", "~ log(age, 2.0) + ."):
        result = fedreg.demo.vertical(used, "cost", formula, ["lab"])
        assert result.params.to_dict() == fedreg.demo.vertical(tmp_path / "used.csv", "cost", formula, ["lab"]).params.to_dict()
        assert "b`m\\i" in result.terms
    escaped = fedreg.demo.vertical(used, "cost", r"~ age + `b\`m\\i`", ["lab"])
    assert escaped.terms == ["(Intercept)", "age", "b`m\\i", "lab"]
    # A dot within a number, a name or quotes is none: other columns are left where they are.
    dotted = table.rename(columns={"age": "a.ge"}).assign(day=pd.Timedelta("1D"))
    formula = "~ a.ge + I(bmi * .5) + cut(visits, c(-1, 1.5, 1000), labels = c('.', ','))"
    assert len(fedreg.demo.vertical(dotted, "cost", formula, ["lab"]).terms) == 5


@pytest.mark.parametrize("how", ["pandas", "categorical", "polars", "mapping", "plain pandas", "plain polars", "plain mapping"])
@pytest.mark.parametrize("text", ["NA", "", " ", " NA "])
def test_texts_that_the_programs_take_for_missing_values_are_refused(
    table: pd.DataFrame, how: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    coded = table[COLUMNS].assign(region=table.region.replace("north", text))
    made: dict[str, Any] = {
        "pandas": coded,
        "categorical": coded.astype({"region": "category"}),
        "polars": pl.from_pandas(coded),
        "mapping": {name: coded[name].tolist() for name in COLUMNS},
    }
    data = made[how.removeprefix("plain ")]
    if how.startswith("plain"):
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    says = f'column `region` holds the text "{text}", which the programs read as a missing value: write another text'
    for more in ({}, {"missing": "complete-cases"}):
        with pytest.raises(fedreg.DataError, match=says):
            fit(data, **more)


def test_texts_are_looked_at_only_where_a_column_is_in_the_model(table: pd.DataFrame) -> None:
    coded = table.assign(region=table.region.replace("north", "NA"), pid=[f"p{at:03}" for at in range(400)], note="")
    # What is said to be missing is missing, and levels that are told beforehand are levels.
    assert fit(coded, na_values="NA", missing="complete-cases").nobs == (table.region != "north").sum()
    bounds = {"age": (0, 100), "region": ["NA", "east", "south"], "cost": (-200, 400)}
    result = fedreg.demo.vertical(coded, "cost", ["age"], ["region"], mode="private", epsilon=3, bounds=bounds)
    assert result.terms == ["(Intercept)", "age", "regioneast", "regionsouth"]
    # Of a match all columns are written.
    halves: dict[str, Any] = {"alice_data": coded[["pid", "age", "cost", "note"]], "bob_data": coded[["pid", "lab", "note"]]}
    assert fedreg.demo.vertical(outcome="cost", alice=["age"], bob="~ lab", match="pid", **halves).nobs == 400


def test_an_order_of_levels_that_is_declared_is_not_told(table: pd.DataFrame, recwarn: pytest.WarningsRecorder) -> None:
    ordered = table.assign(region=pd.Categorical(table.region, ["south", "east", "north"]))
    fedreg.demo.vertical(ordered, "cost", '~ age * factor(region, levels = c("south", "east", "north"))', ["lab"])
    bounds = {"age": (0, 100), "region": ["south", "east", "north"], "cost": (-200, 400)}
    fedreg.demo.vertical(ordered, "cost", ["age"], ["region"], mode="private", epsilon=3, bounds=bounds)
    # With a formula for each party, what is no term of theirs has no reference.
    fedreg.demo.vertical(ordered.assign(regional=table.bmi), "cost", ["age"], "~ regional")
    assert not recwarn.list
    declares = 'factor\\(`the region`, levels = c\\("south", "east", "north"\\)\\)'
    with pytest.warns(fedreg.FedregWarning, match=declares):
        fedreg.demo.vertical(ordered.rename(columns={"region": "the region"}), "cost", ["the region"], ["lab"])
    with pytest.warns(fedreg.FedregWarning, match="the reference is `east`, not `south`"):
        fedreg.demo.vertical(ordered, "cost", '~ region + factor(region, levels = c("south", "east", "north"))', ["lab"])


def test_an_outcome_of_two_levels_is_told_which_one_is_1(table: pd.DataFrame) -> None:
    state = table.assign(state=pd.Categorical(np.where(table.event == 1, "ctrl", "case"), ["ctrl", "case"]))
    says = "it is the outcome, .* `case` is 0 and `ctrl` is 1; for the opposite make it a column of 0 and 1$"
    with pytest.warns(fedreg.FedregWarning, match=says):
        fedreg.demo.vertical(state, "state", ["age"], ["lab"], family="binomial")


def test_sparse_columns_are_numbers(table: pd.DataFrame, plain: fedreg.Result) -> None:
    sparse = table.assign(bmi=pd.arrays.SparseArray(table.bmi))
    for data in (sparse, {name: sparse[name] for name in COLUMNS}):
        assert fit(data).params.equals(plain.params)


def test_integers_of_128_bits_are_refused_by_name(table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = pl.from_pandas(table[COLUMNS]).with_columns(pl.col("age").cast(pl.Int64).cast(pl.Int128))
    for without in (False, True):
        if without:
            monkeypatch.setitem(sys.modules, "pyarrow", None)
        with pytest.raises(fedreg.DataError, match="column `age` is of type Int128: make it Int64"):
            fit(wide)


def test_bounds_may_be_arrays(table: pd.DataFrame) -> None:
    bounds = {"age": np.array([0, 100]), "lab": pd.Series([0, 20]), "cost": (np.float64(-200), 400)}
    assert fedreg.demo.vertical(table, "cost", ["age"], ["lab"], mode="private", epsilon=np.float64(3), bounds=bounds).nobs == 400


def test_formulas_are_passed_on(table: pd.DataFrame) -> None:
    result = fedreg.demo.vertical(table, "cost", "~ log(age) * smoker", ["lab"])
    assert result.terms == ["(Intercept)", "log(age)", "smokerTRUE", "log(age):smokerTRUE", "lab"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"age": [1, "x"] * 200}, r"column `age` holds values that are of no one kind \(int, str\)"),
        ({"age": [object()] * 400}, r"column `age` holds values of type object: make them"),
        ({"age": [1j] * 400}, r"column `age` holds values of type complex: make them"),
        ({"age": [[1]] * 400}, "column `age` is of type a list"),
        ({"age": pd.Timestamp("2020-01-01")}, "column `age` is of type timestamp"),
        ({"age": pd.Timedelta("1D")}, "column `age` is a duration"),
        ({"age": pd.period_range("2000-01", periods=400, freq="M")}, "column `age` is a period: derive a number from it"),
        ({"age": pd.arrays.IntervalArray.from_breaks(range(401))}, "column `age` is an interval: derive a number from it"),
        ({"age": [10**20, 1] * 200}, "column `age` holds whole numbers of more than 64 bits: make them floating-point numbers"),
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
    with pytest.raises(fedreg.DataError, match=r"column `b` holds values of type ndarray: make them"):
        fedreg.demo.vertical({"y": [1, 2], "a": [1, 2], "b": np.ones((2, 2))}, "y", ["a"], ["b"])
    with pytest.raises(fedreg.DataError, match="column `b` is no sequence"):
        fedreg.demo.vertical({"y": [1, 2], "a": [1, 2], "b": "xy"}, "y", ["a"], ["b"])
