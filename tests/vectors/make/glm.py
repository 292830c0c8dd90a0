"""python glm.py CASES.json R_OUTPUT.json: writes `glm/*.json` and `termination/*.json`.

The reference digits (`estimate`, `std_error`, ...) come from Newton's method in 60-digit arithmetic on the doubles that a
correctly rounding reader takes from the file, so they are exact to the last digit of a double. R's own digits stand
beside them (`r`), and how far R and statsmodels are off is recorded.
"""

import csv
import json
import re
import sys
import warnings
from pathlib import Path

import mpmath
import numpy as np
import statsmodels
import statsmodels.api as sm
from mpmath import mp, mpf

mp.dps = 60
VECTORS = Path(__file__).resolve().parent.parent

# https://www.itl.nist.gov/div898/strd/lls/data/LINKS/DATA/Longley.dat
NIST_LONGLEY = {
    "(Intercept)": (-3482258.63459582, 890420.383607373),
    "GNP.deflator": (15.0618722713733, 84.9149257747669),
    "GNP": (-0.0358191792925910, 0.0334910077722432),
    "Unemployed": (-2.02022980381683, 0.488399681651699),
    "Armed.Forces": (-1.03322686717359, 0.214274163161675),
    "Population": (-0.0511041056535807, 0.226073200069370),
    "Year": (1829.15146461355, 455.478499142212),
}
NIST_LONGLEY_RESIDUAL_SD = 304.854073561965
NIST_LONGLEY_R_SQUARED = 0.995479004577296


def is_number(cell):
    try:
        float(cell)
        return True
    except ValueError:
        return False


def read_table(path):
    with open(path, newline="", encoding="utf-8") as source:
        rows = list(csv.reader(source))
    return {name: [row[place] for row in rows[1:]] for place, name in enumerate(rows[0])}


def complete(case, table):
    """The rows without a missing cell in any column that the case uses."""
    used = [case["outcome"], *case["alice"], *case["bob"], *filter(None, [case["weights"], case["offset"]])]
    keep = [all(cell not in ("", "NA") for cell in row) for row in zip(*(table[name] for name in used))]
    return {name: [cell for cell, kept in zip(cells, keep) if kept] for name, cells in table.items()}


def levels_of(cells):
    return sorted(set(cells), key=lambda level: level.encode())


def encode(name, cells, levels=None):
    """(term, values) pairs of one column; `levels` are those of the fitted data."""
    if all(is_number(cell) for cell in cells):
        return [(name, [float(cell) for cell in cells])]
    if all(cell.lower() in ("true", "false") for cell in cells):
        return [(name + "TRUE", [float(cell.lower() == "true") for cell in cells])]
    return [(name + level, [float(cell == level) for cell in cells]) for level in (levels or levels_of(cells))[1:]]


def outcome_of(cells):
    if all(is_number(cell) for cell in cells):
        return [float(cell) for cell in cells]
    second = levels_of([cell.lower() if cell.lower() in ("true", "false") else cell for cell in cells])[1]
    return [float(cell == second or cell.lower() == second) for cell in cells]


def design(case, data=None):
    """Terms, columns, outcome, weights (or None), offset (or None), rows."""
    fitted = complete(case, read_table(VECTORS / case["data"]))
    table = complete(case, read_table(VECTORS / (data or case["data"])))
    n = len(next(iter(table.values())))
    terms = [("(Intercept)", [1.0] * n)] if case["intercept"] else []
    for name in case["alice"] + case["bob"]:
        terms += encode(name, table[name], levels_of(fitted[name]))
    pick = lambda key: [float(cell) for cell in table[case[key]]] if case[key] else None
    return [t for t, _ in terms], [v for _, v in terms], outcome_of(table[case["outcome"]]), pick("weights"), pick("offset"), n


# --- exact arithmetic


def inverse_link(family, eta):
    if family == "gaussian":
        return eta
    if family == "poisson":
        return [mpmath.exp(e) for e in eta]
    return [1 / (1 + mpmath.exp(-e)) for e in eta]


def variance(family, mu):
    if family == "gaussian":
        return [mpf(1)] * len(mu)
    if family == "poisson":
        return mu
    return [m * (1 - m) for m in mu]


def newton(family, columns, y, w, offset):
    """Coefficients, the inverse Hessian X'WX and the fitted means, to about 40 digits."""
    n, p = len(y), len(columns)
    x = [[mpf(v) for v in column] for column in columns]
    beta = mpmath.matrix(p, 1)
    if family == "poisson" and all(v == 1 for v in x[0]):
        # From zero the first step overshoots to the mean itself, and each one after that comes back by 1.
        total = mpmath.fsum(b * a for a, b in zip(y, w))
        beta[0] = mpmath.log(total / mpmath.fsum(b * mpmath.exp(o) for b, o in zip(w, offset)))
    last = None
    for _ in range(100):
        eta = [offset[i] + mpmath.fdot((beta[j], x[j][i]) for j in range(p)) for i in range(n)]
        mu = inverse_link(family, eta)
        v = [w[i] * s for i, s in enumerate(variance(family, mu))]
        hessian = mpmath.matrix(p, p)
        for j in range(p):
            weighted = [a * b for a, b in zip(x[j], v)]
            for k in range(j + 1):
                hessian[j, k] = hessian[k, j] = mpmath.fdot(zip(weighted, x[k]))
        score = [w[i] * (y[i] - mu[i]) for i in range(n)]
        gradient = mpmath.matrix([mpmath.fdot(zip(x[j], score)) for j in range(p)])
        inverse = hessian**-1
        if last is not None and last < mpf(10) ** -38:
            return [beta[j] for j in range(p)], inverse, mu
        step = inverse * gradient
        # The step in units of standard errors: invariant under the scale of a column.
        last = max(abs(step[j]) / mpmath.sqrt(inverse[j, j]) for j in range(p))
        beta += step
    raise ArithmeticError("newton did not settle")


def xlogy(a, b):
    return mpf(0) if a == 0 else a * mpmath.log(b)


def deviance_of(family, y, mu, w):
    if family == "gaussian":
        return mpmath.fsum(c * (a - m) ** 2 for a, m, c in zip(y, mu, w))
    if family == "poisson":
        return 2 * mpmath.fsum(c * (xlogy(a, a / m) - (a - m)) for a, m, c in zip(y, mu, w))
    return 2 * mpmath.fsum(c * (xlogy(a, a / m) + xlogy(1 - a, (1 - a) / (1 - m))) for a, m, c in zip(y, mu, w))


def log_likelihood(family, y, mu, w, deviance):
    """As R's logLik.glm, that is through each family's aic(): see `tests/vectors/README.md`."""
    n = len(y)
    if family == "gaussian":
        if any(c == 0 for c in w) or deviance <= 0:
            return None
        return -(n * (mpmath.log(2 * mpmath.pi * deviance / n) + 1) - mpmath.fsum(mpmath.log(c) for c in w)) / 2
    if family == "poisson":
        return mpmath.fsum(c * (xlogy(a, m) - m - mpmath.loggamma(a + 1)) for a, m, c in zip(y, mu, w))
    total = mpf(0)
    for a, m, c in zip(y, mu, w):
        if c == 0:
            continue
        trials, hits = mpf(round(float(c))), mpf(round(float(c * a)))
        one = mpmath.log(mpmath.binomial(trials, hits)) + xlogy(hits, m) + xlogy(trials - hits, 1 - m)
        total += one
    return total


def student_tail(t, df):
    """P(|T| > |t|)."""
    return mpmath.betainc(mpf(df) / 2, mpf(1) / 2, 0, df / (df + t * t), regularized=True)


def student_critical(df):
    return mpmath.findroot(lambda t: student_tail(t, df) - mpf("0.05"), mpf(2) + mpf(5) / df, tol=mpf(10) ** -45)


def number(value):
    return None if value is None else float(value)


def exact(case, aliased):
    terms, columns, y, weights, offset, n = design(case)
    family = case["family"]
    kept = [j for j, term in enumerate(terms) if j not in aliased]
    yy = [mpf(v) for v in y]
    w = [mpf(v) for v in weights] if weights else [mpf(1)] * n
    o = [mpf(v) for v in offset] if offset else [mpf(0)] * n
    beta, inverse, mu = newton(family, [columns[j] for j in kept], yy, w, o)
    nobs = sum(c != 0 for c in w)
    df = nobs - len(kept)
    deviance = deviance_of(family, yy, mu, w)
    if family == "gaussian" and df == 0:
        deviance = mpf(0)
    if case["intercept"]:
        _, _, null_mu = newton(family, [[1.0] * n], yy, w, o)
    else:
        null_mu = inverse_link(family, o)
    null_deviance = deviance_of(family, yy, null_mu, w)
    dispersion = mpf(1) if family != "gaussian" else (deviance / df if df > 0 else None)
    parameters = len(kept) + (family == "gaussian")
    log_lik = log_likelihood(family, yy, mu, w, deviance)
    critical = mpmath.sqrt(2) * mpmath.erfinv(mpf("0.95")) if family != "gaussian" else (student_critical(df) if df > 0 else None)
    rows = []
    for j, term in enumerate(terms):
        row = dict.fromkeys(["term", "party", "estimate", "std_error", "statistic", "p_value", "conf_low", "conf_high"])
        row["term"] = term
        rows.append(row)
        if j not in kept:
            continue
        b = beta[kept.index(j)]
        row["estimate"] = number(b)
        if dispersion is None:
            continue
        se = mpmath.sqrt(inverse[kept.index(j), kept.index(j)] * dispersion)
        t = b / se
        row["std_error"], row["statistic"] = number(se), number(t)
        row["p_value"] = number(student_tail(t, df) if family == "gaussian" else mpmath.erfc(abs(t) / mpmath.sqrt(2)))
        row["conf_low"], row["conf_high"] = number(b - critical * se), number(b + critical * se)
    result = {
        "coefficients": rows,
        "nobs": nobs,
        "df_residual": df,
        "deviance": number(deviance),
        "null_deviance": number(null_deviance),
        "aic": number(None if log_lik is None else -2 * log_lik + 2 * parameters),
        # R's BIC counts every row, also those of weight zero, which its nobs() leaves out.
        "bic": number(None if log_lik is None else -2 * log_lik + parameters * mpmath.log(n)),
        "log_lik": number(log_lik),
        "dispersion": number(dispersion),
        "r_squared": number(1 - deviance / null_deviance) if family == "gaussian" else None,
    }
    if case["new_data"]:
        new_terms, new_columns, _, _, new_offset, rows_new = design(case, case["new_data"])
        assert new_terms == terms and len(kept) == len(terms)
        link = [
            (mpf(new_offset[i]) if new_offset else 0) + mpmath.fdot((beta[j], mpf(new_columns[j][i])) for j in range(len(terms)))
            for i in range(rows_new)
        ]
        response = inverse_link(family, link)
        result["predictions"] = {"data": case["new_data"], "link": [number(v) for v in link], "response": [number(v) for v in response]}
    return result


# --- comparison


def relative(got, want):
    return abs(got - want) / max(abs(want), 1e-300)


def measure(got, want, std_error):
    """Error in units of max(|want|, std_error / 1000): the yardstick of the product's own tests."""
    return abs(got - want) / max(abs(want), 1e-3 * (std_error or 0.0), 1e-300)


def against_r(result, r):
    worst_b = worst_se = worst_p = 0.0
    for row, other in zip(result["coefficients"], r["coefficients"]):
        assert row["term"] == other["term"], (row["term"], other["term"])
        if row["estimate"] is None:
            continue
        worst_b = max(worst_b, measure(float(other["estimate"]), row["estimate"], row["std_error"]))
        if row["std_error"] is not None:
            worst_se = max(worst_se, relative(float(other["std_error"]), row["std_error"]))
            worst_p = max(worst_p, relative(float(other["p_value"]), row["p_value"]))
    worst = {"estimate": worst_b, "std_error": worst_se, "p_value": worst_p}
    for key in ["deviance", "null_deviance", "aic", "bic", "log_lik", "dispersion"]:
        if result[key] is not None and r.get(key) is not None:
            worst[key] = relative(float(r[key]), result[key]) if result[key] else abs(float(r[key]))
        else:
            worst[key] = None
    assert result["nobs"] == r["nobs"] and result["df_residual"] == r["df_residual"]
    return worst


def against_statsmodels(case, result, aliased):
    terms, columns, y, weights, offset, n = design(case)
    kept = [j for j in range(len(terms)) if j not in aliased]
    if n <= len(kept):
        return None
    x = np.array([columns[j] for j in kept]).T
    family = {"gaussian": sm.families.Gaussian(), "binomial": sm.families.Binomial(), "poisson": sm.families.Poisson()}[case["family"]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Frequency weights count as rows in statsmodels; variance weights are what R calls prior weights.
        fit = sm.GLM(np.array(y), x, family=family, offset=offset and np.array(offset), var_weights=weights and np.array(weights)).fit(tol=1e-15, tol_criterion="params", maxiter=200)
    rows = [result["coefficients"][j] for j in kept]
    scale = 1.0
    if case["family"] == "gaussian":
        # Rows of weight zero count in statsmodels' df_resid, not in R's.
        scale = np.sqrt(fit.df_resid / result["df_residual"])
    return {
        "estimate": max(measure(b, row["estimate"], row["std_error"]) for b, row in zip(fit.params, rows)),
        "std_error": max(relative(b * scale, row["std_error"]) for b, row in zip(fit.bse, rows)),
    }


def rounded(errors):
    return errors and {key: value if value is None else float(f"{value:.2g}") for key, value in errors.items()}


def header(case, versions):
    return {
        "name": case["name"],
        "generator": "make/glm.R, make/glm.py",
        "versions": versions,
        "tags": case["tags"],
        "data": case["data"],
        "outcome": case["outcome"],
        "family": case["family"],
        "alice": case["alice"],
        "bob": case["bob"],
        "offset": case["offset"],
        "weights": case["weights"],
        "intercept": case["intercept"],
    }


def owner(case, place, terms):
    """Which party holds the term at `place`; the intercept is Alice's."""
    table = complete(case, read_table(VECTORS / case["data"]))
    owners = ["alice"] if case["intercept"] else []
    for party in ("alice", "bob"):
        for name in case[party]:
            owners += [party] * len(encode(name, table[name]))
    assert len(owners) == len(terms)
    return owners[place]


def dump(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False)
    # Lists of plain values on one line: a path then reads as a table.
    text = re.sub(r"\[\s+([^\[\]{}]*?)\s+\]", lambda found: "[" + re.sub(r",\n\s+", ", ", found[1]) + "]", text)
    assert json.loads(text) == value
    path.write_text(text + "\n", encoding="utf-8")


def check_longley(result):
    worst = 0.0
    for row in result["coefficients"]:
        estimate, std_error = NIST_LONGLEY[row["term"]]
        worst = max(worst, relative(row["estimate"], estimate), relative(row["std_error"], std_error))
    worst = max(worst, relative(np.sqrt(result["dispersion"]), NIST_LONGLEY_RESIDUAL_SD), relative(result["r_squared"], NIST_LONGLEY_R_SQUARED))
    # Certified to 15 digits.
    assert worst < 1e-13, worst
    return {
        "source": "NIST Statistical Reference Datasets, Longley",
        "coefficients": [
            {"term": row["term"], "estimate": NIST_LONGLEY[row["term"]][0], "std_error": NIST_LONGLEY[row["term"]][1]} for row in result["coefficients"]
        ],
        "residual_sd": NIST_LONGLEY_RESIDUAL_SD,
        "r_squared": NIST_LONGLEY_R_SQUARED,
    }


def main(cases_path, r_path):
    cases = json.loads(Path(cases_path).read_text())
    r = json.loads(Path(r_path).read_text())
    assert r["longley_is_r"]
    versions = {"R": r["r"], "statsmodels": statsmodels.__version__, "mpmath": mpmath.__version__}
    for case, said in zip(cases["glm"], r["glm"]):
        assert case["name"] == said["name"]
        aliased = {j for j, row in enumerate(said["coefficients"]) if row.get("estimate") is None}
        assert bool(aliased) == ("collinear" in case["tags"]), case["name"]
        result = exact(case, aliased)
        terms = [row["term"] for row in result["coefficients"]]
        for place, row in enumerate(result["coefficients"]):
            row["party"] = owner(case, place, terms)
        r_rows = {row["term"]: row for row in said["coefficients"]}
        for row in result["coefficients"]:
            other = r_rows[row["term"]]
            for key in ("estimate", "std_error"):
                value = other.get(key)
                row[f"r_{key}"] = None if value is None else float(value)
        errors = against_r(result, said)
        python = against_statsmodels(case, result, aliased)
        out = {**header(case, versions), "aliased": [terms[j] for j in sorted(aliased)], **result}
        if "longley" in case["tags"]:
            out["certified"] = check_longley(result)
        out["error_of_r"] = rounded(errors)
        out["error_of_statsmodels"] = rounded(python)
        dump(VECTORS / "glm" / f"{case['name']}.json", out)
        shown = {key: value for key, value in rounded(errors).items() if value is not None}
        print(f"{case['name']:42s} R {shown}  statsmodels {rounded(python)}")
    for case, said in zip(cases["termination"], r["termination"]):
        out = header(case, versions)
        out["termination"] = "separation"
        out["largest_r_std_error"] = max(float(row["std_error"]) for row in said["coefficients"] if row.get("std_error"))
        dump(VECTORS / "termination" / f"{case['name']}.json", out)


if __name__ == "__main__":
    main(*sys.argv[1:])
