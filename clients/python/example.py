"""Makes `example.ipynb`: writes its cells and runs them.

    python example.py            writes the notebook anew
    python example.py --check    runs the cells, and fails if one fails or the notebook has others

Needs what `pip install './clients/python[test]'` brings.
"""

from __future__ import annotations

import sys
from pathlib import Path

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

The same coefficients, but each side can work out the other's columns.""",
    """plain = fedreg.demo.vertical(
    patients, "progression", alice=["age", "sex", "bmi", "bp"], bob=["s1", "s3", "s5"], progress=False
)
print("largest difference:", f"{(plain.params / result.params - 1).abs().max():.0e}")
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
    if [(cell.cell_type, cell.source) for cell in committed.cells] != [(cell.cell_type, cell.source) for cell in book.cells]:
        sys.exit("example.ipynb has other cells: write it anew with `python example.py`")
    print(f"{sum(cell.cell_type == 'code' for cell in book.cells)} cells ran, and are those of example.ipynb")


if __name__ == "__main__":
    main()
