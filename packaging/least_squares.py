"""Compares reports with the exact solution on the pooled table: least_squares.py STUDY FOLDER, where STUDY is a folder with the tables
alice.csv and bob.csv of examples/two-hospitals, and FOLDER has alice/report.json and bob/report.json.

The solution is that of the normal equations in fractions, so that nothing is rounded."""

import csv
import fractions
import json
import pathlib
import sys

OUTCOME = "progression"
# A plain fit ends where a step is below `tol = 1e-8` of the study, in relation to the size of the coefficients.
ALLOWED = 1e-8


def table(path):
    with path.open(encoding="utf-8", newline="") as file:
        first = file.readline()
        file.seek(0)
        rows = csv.DictReader(file, delimiter=";" if ";" in first else ",")
        return {row.pop("id"): {name: fractions.Fraction(cell) for name, cell in row.items()} for row in rows}


def pooled(study):
    alice, bob = table(study / "alice.csv"), table(study / "bob.csv")
    return [{"(Intercept)": fractions.Fraction(1), **alice[key], **bob[key]} for key in sorted(alice.keys() & bob.keys())]


def solution(rows, names):
    """By elimination without pivots: the matrix is positive definite."""
    outcome = [row[OUTCOME] for row in rows]
    columns = [[row[name] for row in rows] for name in names]
    system = [[sum(map(fractions.Fraction.__mul__, a, b)) for b in [*columns, outcome]] for a in columns]
    for pivot, line in enumerate(system):
        system[pivot] = line = [value / line[pivot] for value in line]
        for other, values in enumerate(system):
            if other != pivot:
                system[other] = [value - values[pivot] * own for value, own in zip(values, line)]
    return {name: float(line[-1]) for name, line in zip(names, system)}


def main(study, folder):
    reports = [json.loads((pathlib.Path(folder) / party / "report.json").read_text()) for party in ["alice", "bob"]]
    for report in reports:
        if not report["converged"]:
            sys.exit(f"{report['role']} did not converge")
    rows = pooled(pathlib.Path(study))
    names = [term["term"] for term in reports[0]["coefficients"]]
    exact = solution(rows, names)
    for report in reports:
        found = {term["term"]: term["estimate"] for term in report["coefficients"]}
        if found.keys() != exact.keys() or report["nobs"] != len(rows):
            sys.exit(f"{report['role']} has the terms {sorted(found)} of {report['nobs']} rows")
        error = max(abs(found[name] - exact[name]) / abs(exact[name]) for name in names)
        print(f"{report['role']}: {len(names)} coefficients of {report['nobs']} rows, largest relative error {error:.1e}")
        if not error <= ALLOWED:
            sys.exit(f"coefficients of {report['role']} differ from the exact ones by more than {ALLOWED}")


main(*sys.argv[1:])
