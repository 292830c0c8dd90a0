"""The check of the notebook: what it passes over, and what it does not."""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest

FILE = Path(__file__).parents[1] / "example.py"


@pytest.fixture(scope="module")
def example() -> Any:
    spec = importlib.util.spec_from_file_location("example", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def book(example: Any) -> Any:
    return nbformat.read(example.FILE, as_version=4)


def replaced(book: Any, change: Callable[[str], str]) -> Any:
    """The notebook with other outputs."""
    other = copy.deepcopy(book)
    for cell in other.cells:
        for output in cell.get("outputs", []):
            if output.output_type == "stream":
                output.text = change(output.text)
            for kind, text in output.get("data", {}).items():
                output.data[kind] = change(text) if kind.startswith("text/") else text
    return other


def test_the_notebook_is_that_of_the_script(example: Any, book: Any) -> None:
    assert [cell.source for cell in book.cells] == example.CELLS
    assert example.differences(book, book) == []
    # All texts are there to be compared.
    texts = [kind for cell in book.cells for kind in example.shown(cell)]
    assert texts.count("text/plain") > 8 and texts.count("text/html") > 5 and texts.count("stdout") == 4
    plain = next(cell for cell in book.cells if cell.source.startswith("plain = "))
    # A number of rounding alone would be another one with every run.
    assert example.shown(plain)["stdout"] == ["largest difference: < 1e-9"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("statistic_ii", "statistic_2"),
        ("5.803", "5.813"),
        ("-231.3446", "231.3446"),
        ("442", "443"),
        ("DataError | 65", "DataError | 2"),
        ("< 1e-9", "4e-02"),
        ("2388.1", "2388.4"),
        ("5.7674e-64", "5.7674e-63"),
        ("rehearsal: done", "rehearsal: failed"),
        ("regionwest", ""),
        ("0.486", "0.482"),
    ],
)
def test_a_text_that_was_replaced_is_found(example: Any, book: Any, before: str, after: str) -> None:
    found = example.differences(replaced(book, lambda text: text.replace(before, after)), book)
    assert found and all(" in the repository, `" in one for one in found), found


def test_an_output_that_was_taken_away_or_added_is_found(example: Any, book: Any) -> None:
    at = next(at for at, cell in enumerate(book.cells) if cell.source.startswith("odds.plot"))
    without = copy.deepcopy(book)
    without.cells[at].outputs = []
    for one, two in ((without, book), (book, without)):
        assert [said.partition(":")[0] for said in example.differences(one, two)] == [
            f"cell {at}, image/png", f"cell {at}, text/plain"
        ]  # fmt: skip
    fewer = copy.deepcopy(book)
    del fewer.cells[-1]
    assert example.differences(fewer, book) == ["it has other cells"]


def test_what_changes_from_run_to_run_is_passed_over(example: Any) -> None:
    pairs = [
        ("rehearsal: done (0.3 s)", "rehearsal: done (11 s)"),
        ("Date:      2026-11-24T03:49:22Z  Dispersion: 2939.8", "Date: 2027-01-01T00:00:00.5Z  Dispersion:   2939.7"),
        ("kept in /tmp/fedreg-a1/alice/log.txt", "kept in /home/ana/x/"),
        ("run 0e5bd35ed63cbd9689023a6eb8e35f6b", "run 1e5bd35ed63cbd9689023a6eb8e35f6c"),
        ("age  0.0040  -0.000  5.7674e-64", "age 0.0041   0.000  5.7675e-64"),
    ]
    for one, two in pairs:
        assert example.same(example.lines(one)[0], example.lines(two)[0]), (one, two)
    for one, two in [("s1 0.5", "s2 0.5"), ("442 rows", "441 rows"), ("0.50", "0.52"), ("NaN", "0.1"), ("2e-13", "2e-12")]:
        assert not example.same(one, two), (one, two)
