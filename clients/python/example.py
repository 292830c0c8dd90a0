"""Makes `example.ipynb`: writes its cells and runs them.

    python example.py            writes the notebook anew
    python example.py --check    runs the cells, and fails if one fails, or if the notebook has other cells or shows other texts

The check passes over what changes from run to run: seconds, dates, names of runs, folders, and the last digit that is shown of a
number. Pictures are not compared.

Needs what `pip install './clients/python[test]'` brings.
"""

from __future__ import annotations

import html
import re
import sys
from decimal import Decimal
from itertools import zip_longest
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

FILE = Path(__file__).with_name("example.ipynb")

CELLS = [
    """# Regression over two institutions' columns, from Python

A hospital and a laboratory hold different columns about the same 442 patients. The table here is in one place, so that this is a
rehearsal: every role is a process of its own on this machine, and what is sent is what a real study would send.""",
    """import pandas as pd
import fedreg

patients = pd.read_csv("../../examples/data/diabetes.csv")
patients.head(3)""",
    "## A fit of which no value of a row leaves readably",
    """result = fedreg.demo.vertical(
    patients, "progression", alice=["age", "sex", "bmi", "bp"], bob=["s1", "s3", "s5"], mode="sealed"
)
result""",
    "result.summary()",
    "result.conf_int(alpha=0.1)",
    "Each party knows the covariance of its own estimates; in sealed mode that with the intercept does not open.",
    """import warnings

with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    covariance = result.cov_params("alice")
print(told[0].message)
covariance""",
    "%matplotlib inline\nresult.plot();",
    """## What plain mode would show

The same coefficients, but Bob can work out all of Alice's columns, and Alice a share of each of Bob's.""",
    """plain = fedreg.demo.vertical(
    patients, "progression", alice=["age", "sex", "bmi", "bp"], bob=["s1", "s3", "s5"], progress=False
)
difference = (plain.params / result.params - 1).abs().max()
print("largest difference:", "< 1e-9" if difference < 1e-9 else f"{difference:.0e}")
plain.disclosure""",
    "## A logistic model, with formulas",
    """admissions = pd.read_csv("../../examples/data/admissions.csv")
odds = fedreg.demo.vertical(
    admissions, "readmitted", alice="~ age * smoker + ns(bmi, df = 3)", bob=["region", "admission", "stay_days"],
    family="binomial", progress=False,
)
odds.tidy(exponentiate=True).round(3)""",
    'odds.plot("roc");',
    "odds.term_tests.round(4)",
    "## What cannot be done is said in a sentence",
    """try:
    fedreg.demo.vertical(admissions, "readmitted", alice=["age"], bob=["regoin"])
except fedreg.FedregError as error:
    print(type(error).__name__, error.exit_code, error, sep=" | ")""",
    """try:
    odds.cov_params("carol")
except fedreg.NotInReport as error:
    print(error)""",
    "## Among the tools of scikit-learn",
    """from fedreg.sklearn import FedRegressor
from sklearn.model_selection import cross_val_score

features = patients[["age", "bmi", "bp", "s1", "s5"]]
model = FedRegressor(alice=["age", "bmi", "bp"], bob=["s1", "s5"], mode="sealed")
cross_val_score(model, features, patients.progression, cv=3).round(3)""",
]


#: What changes from run to run, and what stands for it.
MASKS = [
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z"), "DATE"),
    (re.compile(r"\b[0-9a-f]{32,64}\b"), "RUN"),
    (re.compile(r"(?<![\w./])/(?:[\w.@~-]+/)+[\w.@~-]*"), "FOLDER"),
    (re.compile(r"\b\d+(?:\.\d+)? s\b"), "SECONDS s"),
]
#: A number that stands by itself: not the digits of a name such as `s1`.
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w.]*\w)")


def lines(text: str) -> list[str]:
    """Lines of a text without what changes from run to run, and without the blanks that go with it."""
    for pattern, word in MASKS:
        text = pattern.sub(word, text)
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def shown(cell: Any) -> dict[str, list[str]]:
    """The texts below a cell, by their kind, line by line. Of a page only what is read of it."""
    texts: dict[str, str] = {}
    for output in cell.get("outputs", []):
        # A stream arrives in pieces.
        parts = {output.name: output.text} if output.output_type == "stream" else output.get("data", {})
        for kind, text in parts.items():
            if not kind.startswith(("text/", "image/", "std")):
                continue
            if kind == "text/html":
                text = html.unescape(re.sub(r"<[^>]+>", "\n", re.sub(r"<style.*?</style>", "", text, flags=re.DOTALL)))
            elif kind.startswith("image/"):
                text = "a picture"
            texts[kind] = texts.get(kind, "") + text + ("" if output.output_type == "stream" else "\n")
    return {kind: lines(text) for kind, text in texts.items()}


def last_place(number: str) -> Decimal:
    """One in the last place that is shown of a number; nothing of a whole number, which counts something."""
    exponent = Decimal(number).as_tuple().exponent
    return Decimal(0) if re.fullmatch(r"[-+]?\d+", number) else Decimal(1).scaleb(int(exponent))


def same(one: str, other: str) -> bool:
    """Whether two lines say the same, but for the last digit of their numbers."""
    if NUMBER.sub("#", one) != NUMBER.sub("#", other):
        return False
    pairs = zip(NUMBER.findall(one), NUMBER.findall(other), strict=True)
    return all(abs(Decimal(a) - Decimal(b)) <= max(last_place(a), last_place(b)) for a, b in pairs)


def differences(committed: Any, book: Any) -> list[str]:
    """What the notebook in the repository shows otherwise than one that was just run: the first line of each text."""
    if [(cell.cell_type, cell.source) for cell in committed.cells] != [(cell.cell_type, cell.source) for cell in book.cells]:
        return ["it has other cells"]
    found = []
    for at, (old, new) in enumerate(zip(committed.cells, book.cells, strict=True)):
        before, now = shown(old), shown(new)
        for kind in sorted(before.keys() | now.keys()):
            pairs = zip_longest(before.get(kind, []), now.get(kind, []), fillvalue="")
            other = next(((one, two) for one, two in pairs if not same(one, two)), None)
            if other:
                found.append(f"cell {at}, {kind}: `{other[0]}` in the repository, `{other[1]}` now")
    return found


def main() -> None:
    """Runs the cells."""
    code = ("import", "result", "covariance", "%", "plain", "admissions", "odds", "try", "from")
    book = nbformat.v4.new_notebook()
    for at, text in enumerate(CELLS):
        make = nbformat.v4.new_code_cell if text.startswith(code) else nbformat.v4.new_markdown_cell
        cell = make(text)
        # Names that are drawn at random would change with every run.
        cell["id"] = f"cell-{at}"
        book.cells.append(cell)
    NotebookClient(book, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(FILE.parent)}}).execute()
    for cell in book.cells:
        cell.metadata.pop("execution", None)
    book.metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    if "--check" not in sys.argv[1:]:
        nbformat.write(book, FILE)
        print(f"wrote {FILE}")
        return
    committed = nbformat.read(FILE, as_version=4)
    found = differences(committed, book)
    if found:
        sys.exit("\n".join(["example.ipynb is not what its cells show now: write it anew with `python example.py`", *found]))
    print(f"{sum(cell.cell_type == 'code' for cell in book.cells)} cells ran, and show what example.ipynb shows")


if __name__ == "__main__":
    main()
