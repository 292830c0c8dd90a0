"""python methods.py: writes `methods/*.json`, what the methods with hidden values, random features and streams must reproduce.

Nothing here uses the formulas of the program: truncations are integrated in 40 digits, gradients are differentiated
numerically in 60 digits from likelihoods that sum over what is hidden, solutions come from NumPy's least squares, the stream
keeps its function on the grid and interpolates with the kernel matrix.
"""

import json
import math
from pathlib import Path

import mpmath
import numpy as np
from mpmath import mp, mpf

mp.dps = 60
TARGET = Path(__file__).resolve().parent.parent / "methods"


def write(name, value):
    (TARGET / name).write_text(json.dumps(value, indent=1) + "\n")


def lines(rows):
    """A JSON list with one row on a line."""
    return "[\n" + ",\n".join(" " + json.dumps(row) for row in rows) + "\n]\n"


def truncated(smoothing, a):
    """E phi(a (1 + eta)), eta ~ N(0, 1/smoothing), by quadrature."""
    if a == 0:
        return mpf(0)
    a, b, end = mpf(a), abs(mpf(a)) / mp.sqrt(mpf(smoothing)), mp.sqrt(2)
    top = 2 * end / 3

    def inside(u):
        return (u - u**3 / 6) * mp.npdf(u, a, b)

    # Where the law has its mass, so that the quadrature sees narrow peaks.
    cuts = sorted({-end, end, *(min(end, max(-end, a + k * b)) for k in range(-40, 41, 4))})
    middle = sum((mp.quad(inside, [low, high]) for low, high in zip(cuts, cuts[1:])), mpf(0))
    above = mp.erfc((end - a) / b / end) / 2
    below = mp.erfc((end + a) / b / end) / 2
    return middle + top * (above - below)


def truncation_table():
    mp.dps = 40
    sizes = sorted({10.0**k for k in range(-8, 12)} | {0.05 * k for k in range(1, 61)} | {4.0, 5.5, 8.0, 13.0, 30.0, 97.0})
    rows = [[s, a, float(truncated(s, a))] for s in (1.0, 2.0, 2.3, 30.0) for a in sizes]
    rows += [[2.0, -0.7, float(truncated(2.0, -0.7))], [2.0, 0.0, 0.0]]
    (TARGET / "truncation.json").write_text(lines(rows))
    mp.dps = 60


def log_density(model, x, y, sigma, beta):
    """Log density of one record, summed over the hidden sign or integrated over the missing covariates."""
    variance = sigma**2
    if model == "gmm":
        both = [sum((x_j - z * b_j) ** 2 for x_j, b_j in zip(x, beta)) for z in (1, -1)]
        return mp.log(sum(mp.exp(-d / (2 * variance)) for d in both))
    if model == "mrm":
        fitted = sum(x_j * b_j for x_j, b_j in zip(x, beta))
        return mp.log(sum(mp.exp(-((y - z * fitted) ** 2) / (2 * variance)) for z in (1, -1)))
    seen = sum(x_j * b_j for x_j, b_j in zip(x, beta) if x_j is not None)
    total = variance + sum(b_j**2 for x_j, b_j in zip(x, beta) if x_j is None)
    return -mp.log(total) / 2 - (y - seen) ** 2 / (2 * total)


def gradients():
    rng = np.random.default_rng(20)
    cases = []
    for model in ("gmm", "mrm", "rmc"):
        for sigma in (0.7, 1.3):
            beta = [1.0, -2.0, 0.5, 1.5]
            at = [0.8, -1.1, 0.9, 0.7] if model != "rmc" else [-0.6, 1.2, 0.4, -0.9]
            x = rng.normal(size=(12, 4)) + (np.array(beta) if model == "gmm" else 0)
            y = rng.normal(size=12) * 2
            hidden = rng.random((12, 4)) < (0.4 if model == "rmc" else 0)
            rows = [[None if hide else float(v) for v, hide in zip(*pair)] for pair in zip(x, hidden)]
            exact = [[None if v is None else mpf(v) for v in row] for row in rows]

            def likelihood(*point):
                return sum(
                    log_density(model, row, mpf(float(out)), mpf(sigma), point) for row, out in zip(exact, y)
                )

            partial = [
                mpf(sigma) ** 2 * mp.diff(likelihood, tuple(mpf(b) for b in at), tuple(int(k == j) for k in range(4)))
                for j in range(4)
            ]
            cases.append(
                dict(model=model, sigma=sigma, x=rows, y=[float(v) for v in y], beta=at, gradient=[float(g) for g in partial])
            )
    write("em_gradients.json", cases)


def solutions():
    rng = np.random.default_rng(21)
    cases = []
    for rows, count, lam in ((7, 20, 0.01), (30, 12, 0.1)):
        a = rng.normal(size=(rows, count))
        a /= np.linalg.norm(a, axis=1, keepdims=True)
        y = rng.uniform(-1, 1, rows)
        root = math.sqrt(rows * lam)
        ridge = np.linalg.lstsq(np.vstack([a, root * np.eye(count)]), np.concatenate([y, np.zeros(count)]), rcond=None)[0]
        case = dict(a=a.tolist(), y=y.tolist(), **{"lambda": lam}, ridge=ridge.tolist())
        if rows < count:
            case["minimum_norm"] = (np.linalg.pinv(a) @ y).tolist()
        cases.append(case)
    noise = rng.normal(size=(6, 6))
    table = np.diag([9.0, 7, 3, 1, 0.2, 0.1]) + (noise + noise.T) / 2
    cross, sigma, sites = rng.normal(size=6) * 3, 0.8, 3
    floor = sigma * math.sqrt(6 * sites)
    values, vectors = np.linalg.eigh(table)
    lifted = vectors @ np.diag(np.maximum(values, floor)) @ vectors.T
    pooled = dict(
        gram=table.tolist(), cross=cross.tolist(), sigma=sigma, sites=sites, lift=max(0.0, floor - values[0]),
        coefficients=np.linalg.solve(lifted, cross).tolist(),
    )
    write("features.json", dict(solutions=cases, pooled=pooled))


def product_kernel(kind, width):
    def one(s, t):
        s, t = np.asarray(s)[:, None], np.asarray(t)[None, :]
        return np.exp(-0.5 * ((s - t) / width) ** 2) if kind == "gaussian" else 1 + np.minimum(s, t)

    def many(s, t):
        return np.prod([one(s[:, j], t[:, j]) for j in range(s.shape[1])], axis=0)

    return many


def streams():
    rng = np.random.default_rng(22)
    cases = []
    for kind, width, points, covariates in (("gaussian", 0.15, 9, 1), ("sobolev", 0, 12, 1), ("sobolev", 0, 5, 2), ("gaussian", 0.4, 3, 3)):
        side = np.linspace(0, 1, points)
        grid = np.stack(np.meshgrid(*[side] * covariates, indexing="ij"), -1).reshape(-1, covariates)
        kernel = product_kernel(kind, width)
        one = product_kernel(kind, width)(side[:, None], side[:, None])
        one += 1e-10 * np.trace(one) / points * np.eye(points)
        matrix = np.ones((1, 1))
        for _ in range(covariates):
            matrix = np.kron(matrix, one)
        tau, step = 1.0, 0.1
        x = rng.random((300, covariates))
        y = np.sin(2 * np.pi * x[:, 0]) + x.sum(1) + rng.standard_t(2, 300)
        f, path = np.zeros(len(grid)), []
        for row, out in zip(x, y):
            kx = kernel(row[None, :], grid)[0]
            psi = max(-tau, min(tau, out - kx @ np.linalg.solve(matrix, f)))
            f = f + step * psi * kx
            path.append(f)
        cases.append(
            dict(kernel=kind, width=width, points=points, covariates=covariates, tau=tau, step=step, x=x.tolist(), y=y.tolist(),
                 last=f.tolist(), first_hundred=path[99].tolist())
        )
    write("streams.json", cases)


if __name__ == "__main__":
    TARGET.mkdir(exist_ok=True)
    truncation_table()
    gradients()
    solutions()
    streams()
    print("numpy", np.__version__, "mpmath", mpmath.__version__)
