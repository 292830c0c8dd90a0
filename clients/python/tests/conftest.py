"""What the tests share."""

from __future__ import annotations

import pandas as pd
import pytest

import fedreg

from .tables import patients


@pytest.fixture(scope="session")
def table() -> pd.DataFrame:
    return patients()


@pytest.fixture(scope="session")
def plain(table: pd.DataFrame) -> fedreg.Result:
    return fedreg.demo.vertical(table, "cost", alice=["age", "bmi"], bob=["lab", "smoker", "region"])


@pytest.fixture(scope="session")
def events(table: pd.DataFrame) -> fedreg.Result:
    return fedreg.demo.vertical(table, "event", ["age", "bmi"], ["lab", "smoker", "region"], family="binomial")


@pytest.fixture(scope="session")
def sealed(table: pd.DataFrame) -> fedreg.Result:
    return fedreg.demo.vertical(table, "cost", alice=["age", "bmi"], bob=["lab"], mode="sealed")


@pytest.fixture(scope="session")
def private(table: pd.DataFrame) -> fedreg.Result:
    bounds = {"age": (0, 100), "bmi": (10, 50), "lab": (0, 20), "cost": (-200, 400)}
    return fedreg.demo.vertical(table, "cost", ["age", "bmi"], ["lab"], mode="private", epsilon=3, bounds=bounds)
