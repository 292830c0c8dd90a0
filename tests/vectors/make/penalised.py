"""python penalised.py CASES.json R_OUTPUT.json: writes `penalised/*.json` and `cross_validation/*.json`.

The objective, with v_i = w_i / sum(w), weighted standard deviations with divisor n (s_j of column j, s_y of y - offset),
and b_j = s_j beta_j (a constant column has beta_j = 0):

    gaussian            1/2 sum_i v_i (y_i - offset_i - eta_i)^2 + lambda [(1 - alpha)/2 |b|^2 / s_y + alpha |b|_1]
    binomial, poisson   -sum_i v_i loglik_i                       + lambda [(1 - alpha)/2 |b|^2       + alpha |b|_1]

The intercept is free. Without one s_j stays the standard deviation about the mean although the column is not centred,
and s_y becomes the root mean square of y - offset.

Even at thresh = 1e-20 glmnet ends with KKT violations up to 5e-10 and scaled coefficients up to 2e-7 (relative to the
largest) away, so the reference digits come from an active-set Newton method with 80-bit gradients, started at glmnet's
answer; the KKT violations of both answers are stored. What cv.glmnet reports is rebuilt from such fits, which fixes its formulas: see `cross_validate`.
"""

import json
import sys
from pathlib import Path

import numpy as np

from glm import VECTORS, design, dump, header

LONG = np.longdouble


class Problem:
    """One data set in glmnet's internal coordinates."""

    def __init__(self, case, keep=None):
        terms, columns, y, weights, offset, n = design({**case, "intercept": False})
        rows = np.arange(n) if keep is None else np.flatnonzero(keep)
        self.family, self.alpha, self.intercept, self.terms = case["family"], LONG(case["alpha"]), case["intercept"], terms
        self.x = np.array(columns, LONG).T[rows]
        self.y = np.array(y, LONG)[rows]
        self.w = (np.array(weights, LONG) if weights else np.ones(n, LONG))[rows]
        self.offset = (np.array(offset, LONG) if offset else np.zeros(n, LONG))[rows]
        self.v = self.w / self.w.sum()
        self.mean = self.v @ self.x
        self.sd = np.sqrt(self.v @ (self.x - self.mean) ** 2)
        self.sd[np.ptp(self.x, axis=0) == 0] = np.inf
        shift = self.mean if self.intercept else 0
        self.z = (self.x - shift) / self.sd
        target = self.y - self.offset if self.family == "gaussian" else self.y
        self.sd_y = spread(self.v, target, self.intercept)
        self.ridge_divisor = self.sd_y if self.family == "gaussian" else LONG(1)

    def eta(self, b0, b):
        return self.offset + b0 + self.z @ b

    def mean_and_variance(self, eta):
        if self.family == "gaussian":
            return eta, np.ones_like(eta)
        if self.family == "poisson":
            mu = np.exp(eta)
            return mu, mu
        mu = 1 / (1 + np.exp(-eta))
        return mu, mu * (1 - mu)

    def gradient(self, b0, b):
        """z'v(y - mu) per column, and of the intercept."""
        mu, _ = self.mean_and_variance(self.eta(b0, b))
        r = self.v * (self.y - mu)
        return self.z.T @ r, r.sum()

    def violation(self, lam, b0, b):
        """Largest KKT violation, divided by the standard deviation of y (of y - offset for gaussian)."""
        g, g0 = self.gradient(b0, b)
        g = g - lam * (1 - self.alpha) * b / self.ridge_divisor
        bound = lam * self.alpha
        worst = np.where(b != 0, np.abs(g - bound * np.sign(b)), np.maximum(np.abs(g) - bound, 0)).max()
        return float(max(worst, abs(g0) if self.intercept else 0) / self.sd_y)

    def deviance(self, eta):
        mu, _ = self.mean_and_variance(eta)
        y, w = self.y, self.w
        log = lambda a, b: np.where(a == 0, 0, a * np.log(np.where(a == 0, 1, a) / b))
        if self.family == "gaussian":
            return (w * (y - mu) ** 2).sum()
        if self.family == "poisson":
            return 2 * (w * (log(y, mu) - (y - mu))).sum()
        return 2 * (w * (log(y, mu) + log(1 - y, 1 - mu))).sum()

    def smooth(self, lam, b0, b, active, sign):
        """Newton on the active coordinates with their signs held; 80-bit gradient, 64-bit Hessian."""
        for _ in range(200):
            mu, variance = self.mean_and_variance(self.eta(b0, b))
            r = self.v * (self.y - mu)
            free = np.column_stack([np.ones(len(r), LONG), self.z[:, active]]) if self.intercept else self.z[:, active]
            lift = 1 if self.intercept else 0
            g = free.T @ r
            g[lift:] -= lam * (self.alpha * sign[active] + (1 - self.alpha) * b[active] / self.ridge_divisor)
            if not len(g):
                return b0, b
            hessian = (free.T @ (free * (self.v * variance)[:, None])).astype(float)
            hessian[range(lift, len(g)), range(lift, len(g))] += float(lam * (1 - self.alpha) / self.ridge_divisor)
            step = np.linalg.solve(hessian, g.astype(float)).astype(LONG)
            b = b.copy()
            b[active] += step[lift:]
            b0 = b0 + step[0] if self.intercept else b0
            if np.abs(step).max() <= 1e-17 * (1 + max(np.abs(b).max(), abs(b0))):
                break
        return b0, b

    def solve(self, lam, b0, b):
        lam = LONG(lam)
        if self.alpha == 0:
            return self.smooth(lam, b0, b, np.arange(len(b)), np.zeros(len(b), LONG))
        sign = np.sign(b)
        for _ in range(200):
            active = np.flatnonzero(sign)
            start = np.where(sign != 0, b, 0)
            b0, b = self.smooth(lam, b0, start, active, sign)
            wrong = (sign != 0) & (np.sign(b) != sign)
            if wrong.any():
                place = np.flatnonzero(wrong)[np.argmax(np.abs(b[wrong]))]
                sign[place] = 0
                b[place] = 0
                continue
            g, _ = self.gradient(b0, b)
            excess = np.where(sign == 0, np.abs(g) - lam * self.alpha, 0)
            if excess.max() <= 1e-15 * self.sd_y:
                return b0, b
            place = int(np.argmax(excess))
            sign[place] = np.sign(g[place])
        raise ArithmeticError("the active set did not settle")

    def null(self):
        b = np.zeros(self.z.shape[1], LONG)
        return self.smooth(LONG(0), LONG(0), b, np.array([], int), b)

    def inward(self, intercept, beta):
        b = np.array(beta, LONG) * np.where(np.isinf(self.sd), 0, self.sd)
        b0 = LONG(intercept) + (self.mean @ np.array(beta, LONG) if self.intercept else 0)
        return b0, b

    def outward(self, b0, b):
        beta = b / self.sd
        return (b0 - self.mean @ beta if self.intercept else b0), beta

    def largest_lambda(self):
        b0, b = self.null()
        g, _ = self.gradient(b0, b)
        return np.abs(g).max() / max(self.alpha, LONG("1e-3"))


def spread(v, y, intercept):
    """Without an intercept glmnet scales y by its root mean square, not by its standard deviation."""
    return np.sqrt(v @ (y - v @ y) ** 2) if intercept else np.sqrt(v @ y**2)


def numbers(values):
    return [float(value) for value in (values if isinstance(values, list) else [values])]


def solve_path(problem, lambdas, starts=None):
    b0, b = problem.null()
    answers = []
    for place, lam in enumerate(lambdas):
        if starts is not None:
            near = problem.inward(*starts[place])
            b0, b = near if problem.alpha != 0 or place else (b0, b)
        b0, b = problem.solve(lam, b0, b)
        answers.append((b0, b))
    return answers


def distance(problem, a, b):
    """Largest difference of scaled coefficients over the largest of them."""
    (a0, a1), (b0, b1) = a, b
    return float(np.abs(a1 - b1).max() / max(np.abs(b1).max(), LONG("1e-300"))) if np.abs(b1).max() > 0 else float(np.abs(a1).max())


def write_path(case, said, versions):
    problem = Problem(case)
    lambdas = numbers(said["lambda"])
    starts = list(zip(numbers(said["intercept"]), [numbers(column) for column in said["beta"]]))
    answers = solve_path(problem, lambdas, starts)
    null_deviance = problem.deviance(problem.eta(*problem.null()))
    assert abs(float(null_deviance) / float(said["null_deviance"]) - 1) < 1e-11, (null_deviance, said["null_deviance"])
    entries, worst, worst_glmnet, worst_distance, worst_ratio, worst_df = [], 0.0, 0.0, 0.0, 0.0, 0
    infinite_first = case["lambdas"] == "path" and case["alpha"] == 0
    for place, (lam, (b0, b)) in enumerate(zip(lambdas, answers)):
        intercept, beta = problem.outward(b0, b)
        deviance = problem.deviance(problem.eta(b0, b))
        kkt = problem.violation(LONG(lam), b0, b)
        near = problem.inward(*starts[place])
        df = int((b != 0).sum())
        entry = {
            "lambda": lam,
            "df": df,
            "deviance": float(deviance),
            "deviance_ratio": float(1 - deviance / null_deviance),
            "kkt": kkt,
            "intercept": float(intercept) if case["intercept"] else None,
            "coefficients": [float(value) for value in beta],
            "glmnet": {"intercept": starts[place][0], "coefficients": starts[place][1], "kkt": problem.violation(LONG(lam), *near)},
        }
        entries.append(entry)
        worst = max(worst, kkt)
        if infinite_first and place == 0:
            entry["glmnet"]["note"] = "glmnet fits lambda = infinity here"
            continue
        worst_glmnet = max(worst_glmnet, entry["glmnet"]["kkt"])
        worst_distance = max(worst_distance, distance(problem, near, (b0, b)))
        worst_ratio = max(worst_ratio, abs(entry["deviance_ratio"] - numbers(said["deviance_ratio"])[place]))
        worst_df = max(worst_df, abs(df - int(numbers(said["df"])[place])))
    assert worst < 1e-14, (case["name"], worst)
    largest = float(problem.largest_lambda())
    out = header(case, versions)
    out["generator"] = "make/penalised.R, make/penalised.py"
    out |= {
        "alpha": case["alpha"],
        "standardize": True,
        "lambda_source": "path" if case["lambdas"] == "path" else "given",
        "largest_lambda": largest,
        "sd_outcome": float(problem.sd_y),
        "null_deviance": float(null_deviance),
        "terms": problem.terms,
        "path": entries,
        "worst_kkt_of_glmnet": worst_glmnet,
        "largest_distance_of_glmnet": worst_distance,
    }
    if case["lambdas"] == "path":
        out["lambda_ratio"] = 1e-4 if len(problem.y) >= len(problem.terms) else 1e-2
        expected = largest * out["lambda_ratio"] ** (np.arange(100) / 99)
        out["lambda_error"] = float(np.abs(np.array(lambdas) / expected - 1).max())
        assert out["lambda_error"] < 1e-12, out["lambda_error"]
    dump(VECTORS / "penalised" / f"{case['name']}.json", out)
    print(f"{case['name']:40s} kkt {worst:.1e} glmnet kkt {worst_glmnet:.1e} distance {worst_distance:.1e} ratio {worst_ratio:.1e} df {worst_df} lambda {out.get('lambda_error')}")


def held_out_loss(family, y, eta):
    """Per row, as cv.glmnet: squared error, or the unit deviance; eta includes the offset."""
    safe = np.where(y == 0, 1, y)
    if family == "gaussian":
        return (y - eta) ** 2
    if family == "poisson":
        return 2 * (y * np.log(safe) - y - (y * eta - np.exp(eta)))
    # Probabilities are held within [1e-5, 1 - 1e-5].
    mu = np.clip(1 / (1 + np.exp(-eta)), LONG("1e-5"), 1 - LONG("1e-5"))
    rest = np.where(y == 1, 1, 1 - y)
    return 2 * (y * np.log(safe) + (1 - y) * np.log(rest) - y * np.log(mu) - (1 - y) * np.log(1 - mu))


def cross_validate(case, lambdas):
    """cv.glmnet with foldid = 1 + (row mod K), rows counted from 0 in file order, and grouped = TRUE.

    Every fold's fit standardises within its own rows, and its weights sum to one within them. With W_k the sum of the
    weights held out in fold k and m_k the weighted mean loss there:

        cvm  = sum_k W_k m_k / sum_k W_k
        cvsd = sqrt( [sum_k W_k (m_k - cvm)^2 / sum_k W_k] / (K - 1) )

    `lambda_min` is the largest lambda whose cvm is the least; `lambda_1se` the largest lambda with
    cvm <= cvm(lambda_min) + cvsd(lambda_min).
    """
    whole, folds = Problem(case), case["folds"]
    fold = np.arange(len(whole.y)) % folds
    means, weights = np.zeros((folds, len(lambdas)), LONG), np.zeros(folds, LONG)
    for k in range(folds):
        out = fold == k
        problem = Problem(case, ~out)
        weights[k] = whole.w[out].sum()
        for place, (b0, b) in enumerate(solve_path(problem, lambdas)):
            intercept, beta = problem.outward(b0, b)
            eta = whole.offset[out] + intercept + whole.x[out] @ beta
            means[k, place] = (whole.w[out] * held_out_loss(case["family"], whole.y[out], eta)).sum() / weights[k]
    share = weights / weights.sum()
    mean = share @ means
    se = np.sqrt(share @ (means - mean) ** 2 / (folds - 1))
    least = int(np.argmin(mean))
    one_se = next(lam for lam, m in zip(lambdas, mean) if m <= mean[least] + se[least])
    return mean, se, lambdas[least], one_se


def write_cross_validation(case, said, versions):
    lambdas = numbers(said["lambda"])
    assert lambdas == sorted(lambdas, reverse=True)
    mean, se, lambda_min, lambda_1se = cross_validate(case, lambdas)
    cvm, cvsd = np.array(numbers(said["cvm"])), np.array(numbers(said["cvsd"]))
    errors = float(np.abs(mean / cvm - 1).max()), float(np.abs(se / cvsd - 1).max())
    assert max(errors) < 1e-5, (case["name"], errors)
    assert lambda_min == float(said["lambda_min"]) and lambda_1se == float(said["lambda_1se"])
    out = header(case, versions)
    out["generator"] = "make/penalised.R, make/penalised.py"
    out |= {
        "alpha": case["alpha"],
        "standardize": True,
        "folds": case["folds"],
        "fold_rule": "1 + (row mod folds), rows counted from 0 in file order",
        "measure": said["measure"],
        "cv": [{"lambda": lam, "mean": float(m), "se": float(s)} for lam, m, s in zip(lambdas, mean, se)],
        "lambda_min": lambda_min,
        "lambda_1se": lambda_1se,
        "glmnet": {"cvm": list(cvm), "cvsd": list(cvsd)},
        "error_of_glmnet": {"mean": float(f"{errors[0]:.2g}"), "se": float(f"{errors[1]:.2g}")},
    }
    dump(VECTORS / "cross_validation" / f"{case['name']}.json", out)
    print(f"cv {case['name']:37s} mean {errors[0]:.1e} se {errors[1]:.1e} min {lambda_min} 1se {lambda_1se}")


def main(cases_path, r_path):
    cases = json.loads(Path(cases_path).read_text())
    r = json.loads(Path(r_path).read_text())
    versions = {"R": r["r"], "glmnet": r["glmnet"], "numpy": np.__version__}
    for kind, write in (("penalised", write_path), ("cross_validation", write_cross_validation)):
        for case, said in zip(cases[kind], r[kind]):
            assert case["name"] == said["name"]
            write(case, said, versions)


if __name__ == "__main__":
    main(*sys.argv[1:])
