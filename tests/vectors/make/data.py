"""Writes every data file of `tests/vectors/data` and `examples/data`.

The diabetes data come from scikit-learn, Longley's from R's `longley` put back into the units of NIST; all other files
are synthetic and seeded, so a second run writes the same bytes. Numbers carry few digits on purpose: every reader then
gets the same doubles.
"""

import csv
import subprocess
from pathlib import Path

import numpy as np
from sklearn.datasets import load_diabetes

HERE = Path(__file__).resolve().parent
VECTORS = HERE.parent / "data"
EXAMPLES = HERE.parents[2] / "examples" / "data"


def write(path, columns):
    """Writes a dict of equally long lists of already formatted cells."""
    path.parent.mkdir(parents=True, exist_ok=True)
    names = list(columns)
    lengths = {len(cells) for cells in columns.values()}
    assert len(lengths) == 1, lengths
    with open(path, "w", newline="", encoding="utf-8") as sink:
        writer = csv.writer(sink, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(zip(*columns.values()))


def fixed(values, digits):
    return [f"{value:.{digits}f}" for value in values]


def plain(values):
    return [f"{value:g}" for value in values]


def boolean(values):
    return ["true" if value else "false" for value in values]


def ids(n, prefix="p", width=3):
    return [f"{prefix}{row:0{width}d}" for row in range(1, n + 1)]


def uniform_probability(eta):
    return 1.0 / (1.0 + np.exp(-eta))


def diabetes():
    bunch = load_diabetes(scaled=False)
    columns = {"id": ids(len(bunch.target))}
    for place, name in enumerate(bunch.feature_names):
        columns[name] = [f"{value:.10g}" for value in bunch.data[:, place]]
    columns["progression"] = plain(bunch.target)
    assert len(columns["id"]) == 442
    write(EXAMPLES / "diabetes.csv", columns)

    rng = np.random.default_rng(2004)
    n = 442
    extra = dict(columns)
    extra["weight"] = fixed(rng.gamma(2.0, 0.6, n) + 0.1, 3)
    some_zero = rng.gamma(2.0, 0.6, n) + 0.1
    some_zero[rng.choice(n, 20, replace=False)] = 0.0
    extra["weight_with_zeros"] = fixed(some_zero, 3)
    extra["known_part"] = fixed(40.0 + 3.0 * rng.standard_normal(n) + 0.2 * bunch.data[:, 3], 2)
    extra["bmi_twice_plus_bp"] = [f"{2 * b + p:.10g}" for b, p in zip(bunch.data[:, 2], bunch.data[:, 3])]
    extra["bmi_in_tenths"] = [f"{10 * b:.10g}" for b in bunch.data[:, 2]]
    extra["site"] = ["3"] * n
    write(VECTORS / "diabetes_extra.csv", extra)


def admission_rows(n, rng, prefix):
    age = np.clip(np.round(rng.normal(61, 16, n)), 18, 97)
    female = rng.random(n) < 0.52
    bmi = np.round(np.clip(rng.normal(27.5, 5.0, n), 15, 55), 1)
    systolic = np.round(np.clip(112 + 0.35 * age + rng.normal(0, 15, n), 80, 220))
    creatinine = np.round(np.exp(rng.normal(-0.05 + 0.004 * (age - 60), 0.3, n)), 2)
    smoker = rng.random(n) < uniform_probability(-0.6 - 0.02 * (age - 60))
    region = rng.choice(["east", "north", "south", "west"], n, p=[0.2, 0.35, 0.25, 0.2])
    kind = rng.choice(["elective", "emergency", "urgent"], n, p=[0.4, 0.4, 0.2])
    stay = np.round(np.clip(rng.gamma(2.0, 2.2 + 1.5 * (kind == "emergency"), n), 0.5, 60), 1)
    medicines = rng.poisson(np.exp(0.9 + 0.012 * (age - 60) + 0.01 * (bmi - 27)), n)
    insured = rng.random(n) < 0.85
    followup = np.round(rng.uniform(0.3, 3.0, n), 2)
    eta = (
        -1.1
        + 0.025 * (age - 60)
        + 0.03 * (bmi - 27)
        + 0.5 * smoker
        + 0.55 * np.log(creatinine)
        + 0.6 * (kind == "emergency")
        + 0.2 * (kind == "urgent")
        - 0.4 * insured
        + 0.06 * (stay - 5)
        + 0.3 * (region == "south")
    )
    readmitted = (rng.random(n) < uniform_probability(eta)).astype(int)
    visits = rng.poisson(followup * np.exp(-0.2 + 0.5 * eta))
    discharge = np.where(rng.random(n) < uniform_probability(1.5 - 0.05 * (age - 60) - 0.1 * (stay - 5)), "home", "facility")
    return {
        "id": ids(n, prefix, 4),
        "age": plain(age),
        "female": boolean(female),
        "bmi": fixed(bmi, 1),
        "systolic": plain(systolic),
        "creatinine": fixed(creatinine, 2),
        "smoker": boolean(smoker),
        "region": list(region),
        "admission": list(kind),
        "stay_days": fixed(stay, 1),
        "medicines": plain(medicines),
        "insured": boolean(insured),
        "followup_years": fixed(followup, 2),
        "log_followup": fixed(np.log(followup), 8),
        "emergency_visits": plain(visits),
        "discharged_to": list(discharge),
        "readmitted": plain(readmitted),
    }


def admissions():
    rng = np.random.default_rng(600)
    columns = admission_rows(600, rng, "a")
    write(EXAMPLES / "admissions.csv", columns)
    new = admission_rows(24, np.random.default_rng(601), "n")
    write(EXAMPLES / "admissions_new.csv", new)

    n = 600
    extra = dict(columns)
    extra["case_weight"] = fixed(rng.gamma(3.0, 0.4, n) + 0.11, 3)
    frequency = rng.poisson(1.5, n)
    extra["frequency"] = plain(frequency)
    age, bmi = np.array(columns["age"], float), np.array(columns["bmi"], float)
    extra["age_plus_bmi"] = fixed(age + bmi, 1)
    extra["in_south"] = boolean(np.array(columns["region"]) == "south")
    extra["prior_logit"] = fixed(rng.normal(0, 0.4, n), 4)
    write(VECTORS / "admissions_extra.csv", extra)

    # Cells missing at either party, some rows at both; as empty and as NA.
    holes = {name: list(cells)[:200] for name, cells in columns.items()}
    rng = np.random.default_rng(602)
    for name in ["age", "smoker", "region", "creatinine", "admission", "insured"]:
        for row in rng.choice(200, 7, replace=False):
            holes[name][row] = rng.choice(["", "NA"])
    holes["region"][3] = holes["creatinine"][3] = "NA"
    write(VECTORS / "missing.csv", holes)


def clinics():
    """Grouped binomial data: a share of successes with the number of trials as weight."""
    rng = np.random.default_rng(61)
    n = 60
    beds = rng.integers(20, 900, n)
    teaching = rng.random(n) < 0.3
    nurses = np.round(rng.normal(1.4, 0.3, n), 2)
    ward = rng.choice(["cardiac", "general", "renal"], n)
    distance = np.round(rng.gamma(2.0, 9.0, n), 1)
    expected = np.round(rng.normal(-1.2, 0.3, n), 3)
    patients = rng.integers(8, 250, n)
    eta = expected + 0.3 - 0.4 * (nurses - 1.4) + 0.35 * (ward == "renal") + 0.01 * (distance - 18) - 0.2 * teaching
    share = rng.binomial(patients, uniform_probability(eta)) / patients
    write(
        VECTORS / "clinics.csv",
        {
            "id": ids(n, "c", 2),
            "beds": plain(beds),
            "teaching": boolean(teaching),
            "nurses_per_bed": fixed(nurses, 2),
            "ward": list(ward),
            "distance": fixed(distance, 1),
            "expected_logit": fixed(expected, 3),
            "patients": plain(patients),
            "share_readmitted": [repr(float(value)) for value in share],
        },
    )


def unscaled():
    """Columns whose sizes differ by more than a factor of 10^6, some far from zero."""
    rng = np.random.default_rng(1_000_000)
    n = 240
    common = rng.standard_normal(n)
    income = np.round(1_500_000 + 400_000 * (0.6 * common + 0.8 * rng.standard_normal(n)))
    ratio = np.round(0.0040 + 0.0012 * (0.5 * common + 0.85 * rng.standard_normal(n)), 7)
    year = rng.integers(1998, 2024, n)
    dose = np.round(0.25 + 0.05 * rng.standard_normal(n) + 0.02 * common, 5)
    platelets = np.round(250_000 + 60_000 * (0.4 * common + 0.9 * rng.standard_normal(n)))
    share = np.round(np.clip(1e-6 * (5 + 2 * rng.standard_normal(n)), 1e-7, None), 9)
    z = [(v - v.mean()) / v.std() for v in (income, ratio, year, dose, platelets, share)]
    eta = 0.5 * z[0] - 0.4 * z[1] + 0.3 * z[2] + 0.2 * z[3] - 0.3 * z[4] + 0.25 * z[5]
    write(
        VECTORS / "unscaled.csv",
        {
            "id": ids(n, "u"),
            "income": plain_integers(income),
            "ratio": fixed(ratio, 7),
            "year": plain_integers(year),
            "dose": fixed(dose, 5),
            "platelets": plain_integers(platelets),
            "share": fixed(share, 9),
            "cost": fixed(52_000 + 9_000 * (eta + 0.8 * rng.standard_normal(n)), 2),
            "event": plain_integers(rng.random(n) < uniform_probability(eta - 0.3)),
            "count": plain_integers(rng.poisson(np.exp(0.7 + 0.6 * eta))),
        },
    )


def plain_integers(values):
    return [str(int(value)) for value in values]


def wine_like():
    """Raw chemistry columns: density sits at 0.995 +- 0.002 and nearly follows from sugar and alcohol."""
    rng = np.random.default_rng(995)
    n = 300
    sugar = np.round(rng.gamma(1.4, 4.5, n) + 0.6, 2)
    alcohol = np.round(np.clip(rng.normal(10.5, 1.2, n), 8, 14.2), 2)
    fixed_acid = np.round(rng.normal(6.9, 0.85, n), 2)
    ph = np.round(3.19 - 0.08 * (fixed_acid - 6.9) + rng.normal(0, 0.12, n), 3)
    sulfur = np.round(np.clip(rng.normal(138, 42, n), 9, 400), 1)
    chlorides = np.round(np.exp(rng.normal(-3.1, 0.3, n)), 4)
    density = np.round(
        0.9944 + 0.00037 * (sugar - 6.9) - 0.0011 * (alcohol - 10.5) + 0.0005 * (fixed_acid - 6.9) + rng.normal(0, 0.00012, n), 6
    )
    taste = 5.9 + 0.35 * (alcohol - 10.5) + 0.03 * (sugar - 6.9) - 60 * (density - 0.9944) - 3 * (chlorides - 0.047) + 0.4 * (ph - 3.19)
    quality = np.round(taste + rng.normal(0, 0.7, n), 1)
    write(
        VECTORS / "wine_like.csv",
        {
            "id": ids(n, "w"),
            "fixed.acidity": fixed(fixed_acid, 2),
            "residual.sugar": fixed(sugar, 2),
            "chlorides": fixed(chlorides, 4),
            "total.sulfur": fixed(sulfur, 1),
            "density": fixed(density, 6),
            "pH": fixed(ph, 3),
            "alcohol": fixed(alcohol, 2),
            "quality": fixed(quality, 1),
            "good": plain_integers(taste + rng.logistic(0, 0.6, n) > 6.0),
        },
    )


def odd_names():
    """Headers with spaces, commas, quotes and letters beyond ASCII; levels that look like each other."""
    rng = np.random.default_rng(77)
    n = 80
    pressure = np.round(rng.normal(120, 15, n), 1)
    level = rng.choice(["Z", "a", "B", "é", "b c"], n)
    score = np.round(rng.normal(0, 1, n), 3)
    quoted = rng.random(n) < 0.5
    groesse = np.round(rng.normal(172, 9, n), 1)
    y = 10 + 0.05 * pressure + 0.4 * (level == "a") - 0.6 * (level == "é") + 0.5 * score + 0.3 * quoted + rng.normal(0, 1, n)
    write(
        VECTORS / "odd_names.csv",
        {
            "id": ids(n, "o", 2),
            "blood pressure": fixed(pressure, 1),
            "level, coded": list(level),
            "score": fixed(score, 3),
            'is "quoted"': ["TRUE" if q else "False" for q in quoted],
            "größe": fixed(groesse, 1),
            "y~1": fixed(y, 3),
        },
    )


def small():
    rng = np.random.default_rng(9)
    n = 9
    columns = {"id": ids(n, "s", 1)}
    values = rng.integers(-9, 10, (n, 6))
    for place in range(6):
        columns[f"x{place + 1}"] = plain_integers(values[:, place])
    columns["y"] = plain_integers(values @ np.array([1, 2, 0, -1, 1, 3]) + rng.integers(-6, 7, n))
    write(VECTORS / "small.csv", columns)

    rng = np.random.default_rng(5)
    n = 5
    values = rng.integers(-9, 10, (n, 6))
    columns = {"id": ids(n, "s", 1)}
    for place in range(6):
        columns[f"x{place + 1}"] = plain_integers(values[:, place])
    columns["y"] = plain_integers(rng.integers(-9, 10, n))
    write(VECTORS / "fewer_rows_than_columns.csv", columns)


def separated():
    rng = np.random.default_rng(0)
    n = 80
    dose = np.round(rng.normal(0, 1, n), 2)
    marker = np.round(rng.normal(0, 1, n), 2)
    noise = np.round(rng.normal(0, 1, n), 2)
    line = dose + marker
    keep = np.abs(line) > 0.15
    dose, marker, noise, line = dose[keep], marker[keep], noise[keep], line[keep]
    n = int(keep.sum())
    exposed = rng.random(n) < 0.3
    other = (rng.random(n) < uniform_probability(0.8 * dose)).astype(int)
    quasi = np.where(exposed, 1, other)
    assert 0 < other[~exposed].mean() < 1
    never = np.where(exposed, 0, rng.poisson(np.exp(0.5 + 0.3 * dose)))
    write(
        VECTORS / "separated.csv",
        {
            "id": ids(n, "s", 2),
            "dose": fixed(dose, 2),
            "marker": fixed(marker, 2),
            "noise": fixed(noise, 2),
            "exposed": boolean(exposed),
            "complete": plain_integers(line > 0),
            "quasi": plain_integers(quasi),
            "count_never_when_exposed": plain_integers(never),
        },
    )


def steep():
    """Probabilities near 0 and 1 with a finite fit: the largest linear predictor is 72."""
    rng = np.random.default_rng(57)
    n = 400
    first, second = rng.normal(0, 1, n), rng.normal(0, 1, n)
    marker = np.round(0.8 * first + 0.6 * rng.normal(0, 1, n), 3)
    dose, noise = np.round(first, 3), np.round(second, 3)
    steep = (rng.random(n) < uniform_probability(16 * dose + 6 * marker - 2)).astype(int)
    write(
        VECTORS / "steep.csv",
        {"id": ids(n, "t"), "dose": fixed(dose, 3), "noise": fixed(noise, 3), "marker": fixed(marker, 3), "steep": plain_integers(steep)},
    )


def counts():
    """Counts in the hundreds and in the millions, of paired columns."""
    rng = np.random.default_rng(438)
    n = 300
    a = rng.normal(0, 1, (n, 3))
    b = 0.95 * a + np.sqrt(1 - 0.95**2) * rng.normal(0, 1, (n, 3))
    a, b = np.round(a, 3), np.round(b, 3)
    eta = 0.2 * a[:, 0] - 0.1 * a[:, 2] + 0.15 * b[:, 1]
    columns = {"id": ids(n, "c")}
    columns |= {f"a{j + 1}": fixed(a[:, j], 3) for j in range(3)}
    columns |= {f"b{j + 1}": fixed(b[:, j], 3) for j in range(3)}
    columns["hundreds"] = plain_integers(rng.poisson(438 * np.exp(eta)))
    columns["millions"] = plain_integers(rng.poisson(1.35e6 * np.exp(eta)))
    write(VECTORS / "counts.csv", columns)


def quine():
    """Days absent from school, from R's MASS (Quine 1978; Aitkin 1978)."""
    script = "write.csv(MASS::quine, row.names = FALSE)"
    text = subprocess.run(["Rscript", "-e", script], check=True, capture_output=True, text=True).stdout
    rows = list(csv.DictReader(text.splitlines()))
    columns = {"id": ids(len(rows), "q")}
    for name in ["Eth", "Sex", "Age", "Lrn", "Days"]:
        columns[name] = [row[name] for row in rows]
    write(VECTORS / "quine.csv", columns)


def longley():
    script = 'write.csv(longley, row.names = FALSE)'
    text = subprocess.run(["Rscript", "-e", script], check=True, capture_output=True, text=True).stdout
    rows = list(csv.DictReader(text.splitlines()))
    # NIST prints GNP and Employed in other units than R; whole numbers make the input exact.
    scale = {"GNP": 1000, "Unemployed": 10, "Armed.Forces": 10, "Population": 1000, "Employed": 1000}
    columns = {"id": ids(len(rows), "y", 2)}
    for name in ["GNP.deflator", "GNP", "Unemployed", "Armed.Forces", "Population", "Year", "Employed"]:
        if name == "GNP.deflator":
            columns[name] = fixed([float(row[name]) for row in rows], 1)
        else:
            columns[name] = [str(round(float(row[name]) * scale.get(name, 1))) for row in rows]
    write(VECTORS / "longley.csv", columns)


def main():
    diabetes()
    admissions()
    clinics()
    unscaled()
    wine_like()
    odd_names()
    small()
    separated()
    steep()
    counts()
    quine()
    longley()


if __name__ == "__main__":
    main()
