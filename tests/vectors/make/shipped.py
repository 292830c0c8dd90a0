"""Writes the invented data of `examples/data`: two_groups, two_regressions, missing_covariates, costs, wave.

    python3 tests/vectors/make/shipped.py

numpy 2; the same bytes with the same version. No row describes a person.
"""

from pathlib import Path

import numpy as np

OUT = Path(__file__).parents[3] / "examples" / "data"
BETA = np.array([1.5, -1.0, 0.5, 1.0])
ROWS = 1500


def write(name, header, rows):
    (OUT / name).write_text("\n".join([header, *(",".join(row) for row in rows)]) + "\n")


def numbers(values, digits=3):
    return ["" if np.isnan(v) else f"{v:.{digits}f}" for v in values]


rng = np.random.default_rng(20)
sign = rng.choice([-1.0, 1.0], ROWS)
points = sign[:, None] * BETA + rng.standard_normal((ROWS, 4))
write("two_groups.csv", "a,b,c,d", [numbers(row) for row in points])

x = rng.standard_normal((ROWS, 4))
y = rng.choice([-1.0, 1.0], ROWS) * (x @ BETA) + 0.5 * rng.standard_normal(ROWS)
write("two_regressions.csv", "a,b,c,d,y", [numbers([*row, out]) for row, out in zip(x, y)])

x = rng.standard_normal((ROWS, 4))
y = x @ BETA + 0.5 * rng.standard_normal(ROWS)
x[rng.random((ROWS, 4)) < 0.1] = np.nan
write("missing_covariates.csv", "a,b,c,d,y", [numbers([*row, out]) for row, out in zip(x, y)])

rows = 3000
age = rng.integers(18, 80, rows)
bmi = np.clip(rng.normal(28, 5, rows), 15, 50)
smoker = rng.random(rows) < 0.2
region = rng.choice(["north", "south", "west"], rows)
cost = 1500 + 3.2 * (age - 18) ** 2 + 60 * np.maximum(bmi - 24, 0) + smoker * (9000 + 650 * np.maximum(bmi - 22, 0))
cost += (region == "west") * 900 + rng.gamma(2.0, 700.0, rows)
write(
    "costs.csv",
    "age,bmi,smoker,region,cost",
    [
        [str(a), f"{b:.1f}", str(s).lower(), r, f"{c:.2f}"]
        for a, b, s, r, c in zip(age, bmi, smoker, region, cost)
    ],
)

rows = 6000
x = rng.random(rows)
y = np.sin(2 * np.pi * x) + 0.3 * rng.standard_t(3, rows)
write("wave.csv", "x,y", [[f"{a:.4f}", f"{b:.4f}"] for a, b in zip(x, y)])
