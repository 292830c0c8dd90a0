"""python near.py VECTORS_FOLDER: fits of columns that nearly depend on each other, within a party and across the parties, into `near/`.

Needs mpmath. The reference is Newton's method in 60-digit arithmetic on the numbers of the files as they stand.
"""
import json
import random
import sys
from pathlib import Path

import mpmath
from mpmath import mp, mpf

mp.dps = 60
ROWS = 120


def solved(family, x, y):
    """Coefficients and standard errors."""
    n, p = len(x), len(x[0])
    beta = [mpf(0)] * p
    for _ in range(60):
        eta = [mpmath.fsum(a * b for a, b in zip(row, beta)) for row in x]
        if family == "gaussian":
            mean, weight = eta, [mpf(1)] * n
        else:
            mean = [1 / (1 + mpmath.exp(-e)) for e in eta]
            weight = [m * (1 - m) for m in mean]
        gradient = mp.matrix([mpmath.fsum(row[j] * (v - m) for row, v, m in zip(x, y, mean)) for j in range(p)])
        information = mp.matrix(p, p)
        for i in range(p):
            for j in range(i, p):
                information[i, j] = mpmath.fsum(w * row[i] * row[j] for row, w in zip(x, weight))
                information[j, i] = information[i, j]
        step = mp.lu_solve(information, gradient)
        beta = [b + s for b, s in zip(beta, step)]
        if max(abs(s) for s in step) < mpf(10) ** -30 * max(abs(b) for b in beta):
            break
    else:
        sys.exit("no solution")
    dispersion = mpf(1)
    if family == "gaussian":
        left = [v - mpmath.fsum(a * b for a, b in zip(row, beta)) for row, v in zip(x, y)]
        dispersion = mpmath.fsum(l * l for l in left) / (n - p)
    inverse = information**-1
    return beta, [mpmath.sqrt(dispersion * inverse[j, j]) for j in range(p)]


def tables():
    """Columns of each party and a linear predictor, by name."""
    draw = random.Random(20261127)
    normal = lambda: [draw.gauss(0, 1) for _ in range(ROWS)]
    cm = [round(170 + 10 * v, 1) for v in normal()]
    kg = [round(70 + 9 * v, 1) for v in normal()]
    tall = [0.1 * (c - 170) + 0.2 * (k - 70) for c, k in zip(cm, kg)]
    for digits in (7, 8):
        inches = [float(f"{c / 2.54:.{digits}g}") for c in cm]
        yield f"inch{digits}", {"cm": cm}, {"inch": inches, "kg": kg}, tall
    x, z, noise = normal(), normal(), normal()
    yield "steep", {"x": x, "x2": [a + 1e-5 * e for a, e in zip(x, noise)]}, {"z": z}, [a + b for a, b in zip(x, z)]
    year = [float(1988 + i % 30) for i in range(ROWS)]
    powers = {f"year{k}": [v**k for v in year] for k in (1, 2, 3)}
    yield "years", powers, {"z": z}, [0.1 * (v - 2002) + b for v, b in zip(year, z)]
    yield "years_at_bob", {"z": z}, powers, [0.1 * (v - 2002) + b for v, b in zip(year, z)]
    far = [1e9 + v for v in noise]
    yield "far", {"x": x, "z": z}, {"far": far}, [a + v - 1e9 for a, v in zip(x, far)]
    yield "far_alone", {"x": x}, {"far": far, "z": z}, [a + v - 1e9 for a, v in zip(x, far)]


def main():
    folder = Path(sys.argv[1]) / "near"
    folder.mkdir(exist_ok=True)
    draw = random.Random(7)
    for name, alice, bob, predictor in tables():
        columns = {**alice, **bob}
        columns["y"] = [round(e + draw.gauss(0, 1), 6) for e in predictor]
        columns["event"] = [int(0.7 * e + draw.gauss(0, 1.5) > 0) for e in predictor]
        rows = ["".join([",".join(repr(columns[c][i]) for c in columns), "\n"]) for i in range(ROWS)]
        (folder / f"{name}.csv").write_text(",".join(columns) + "\n" + "".join(rows))
        x = [[mpf(1)] + [mpf(columns[c][i]) for c in [*alice, *bob]] for i in range(ROWS)]
        for family, outcome in (("gaussian", "y"), ("binomial", "event")):
            beta, errors = solved(family, x, [mpf(v) for v in columns[outcome]])
            terms = ["(Intercept)", *alice, *bob]
            case = {
                "name": f"{name}_{family}", "generator": "make/near.py", "versions": {"mpmath": mpmath.__version__},
                "tags": [], "data": f"near/{name}.csv", "outcome": outcome, "family": family,
                "alice": list(alice), "bob": list(bob), "offset": None, "weights": None, "intercept": True,
                "coefficients": [
                    {"term": t, "estimate": float(b), "std_error": float(e)} for t, b, e in zip(terms, beta, errors)
                ],
            }
            (folder / f"{name}_{family}.json").write_text(json.dumps(case, indent=1) + "\n")


main()
