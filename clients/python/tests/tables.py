"""Tables of the tests: made from a seed, so that every run has the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

#: The root of the repository.
ROOT = Path(__file__).resolve().parents[3]


def patients(rows: int = 400, seed: int = 3) -> pd.DataFrame:
    """Numeric, boolean and categorical columns with correlation, and an outcome of each family."""
    draw = np.random.default_rng(seed)
    age = draw.normal(50, 12, rows)
    bmi = 24 + 0.08 * (age - 50) + draw.normal(0, 3, rows)
    lab = 0.05 * age + 0.2 * bmi + draw.normal(0, 1, rows)
    smoker = draw.random(rows) < 0.3
    region = draw.choice(["east", "north", "south"], rows)
    eta = -3.0 + 0.02 * age + 0.05 * bmi + 0.1 * lab + 0.5 * smoker + 0.4 * (region == "south")
    table: pd.DataFrame = pd.DataFrame(
        {
            "age": age,
            "bmi": bmi,
            "lab": lab,
            "smoker": smoker,
            "region": region,
            "cost": 100 * eta + draw.normal(0, 40, rows),
            "event": (draw.random(rows) < 1 / (1 + np.exp(-eta))).astype(int),
            "visits": draw.poisson(np.exp(0.5 * eta)),
        }
    )
    return table
