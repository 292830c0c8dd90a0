"""python robust.py: writes `robust/*.json`.

A second implementation of the robust methods in plain numpy, written from the formulas and for clarity: every threshold
is tried in turn, every distance is taken, every fit starts afresh from the rows. Data are rounded to six decimals so
that the numbers in the files are the numbers that were fitted.
"""

import json
from math import ceil, pi, sqrt
from pathlib import Path

import numpy as np
import scipy
from scipy.special import erf
from scipy.stats import chi2

OUT = Path(__file__).resolve().parent.parent / "robust"
SEED = 20171118
rng = np.random.default_rng(SEED)


def count_kept(residuals, at_most, fallback, rule):
    """Equations (3) and (4), every tau in turn. `paper`: nearest in squares; `program`: nearest in absolute value."""
    r = np.sort(residuals)
    n = len(r)
    for tau in range(at_most, ceil(n / 2), -1):
        inner = tau - ceil(n / 2)
        square = np.sum(r[:inner] ** 2) / inner
        gap = np.abs(r**2 - square) if rule == "paper" else np.abs(r - sqrt(square))
        rank = int(np.argmin(gap)) + 1
        reference = r[rank - 1] if rule == "paper" else sqrt(square)
        if r[tau - 1] <= 2 * tau * reference / rank:
            return tau
    return min(fallback, at_most)


def fixed_point(z, y, rule, weights=None, beta=None):
    """Least squares and thresholding in turn until the kept rows repeat. Weights multiply squared residuals."""
    n, q = z.shape
    w = np.ones(n) if weights is None else weights
    fallback = 3 * q if rule == "program" else max(3 * q, n // 2 + 1)
    kept = np.ones(n, bool)
    seen = set()
    shrinking = rule == "program"
    given = beta is not None
    for iteration in range(1, 101):
        if not (given and iteration == 1):
            root = np.sqrt(w[kept])
            beta = np.linalg.lstsq(z[kept] * root[:, None], y[kept] * root, rcond=None)[0]
        r = np.abs(y - z @ beta)
        tau = count_kept(r, int(kept.sum()) if shrinking else n, fallback, rule)
        following = r <= np.sort(r)[tau - 1]
        if np.array_equal(following, kept) and not (given and iteration == 1):
            return beta, kept
        key = following.tobytes()
        shrinking = shrinking or key in seen
        seen.add(key)
        kept = following
    raise RuntimeError("did not settle")


def leverage_weights(x, intercept):
    """min(1, R / d): distances in the scatter of the half of the rows nearest to the middle."""
    n, p = x.shape
    z = x - (upper_median(x) if intercept else 0)
    z = z / (upper_median(np.abs(z)) / 0.6745)
    d = np.sum(z**2, axis=1)
    half = min(n, ceil((n + p) / 2))
    for _ in range(4):
        bulk = d <= np.sort(d)[half - 1]
        scatter = z[bulk].T @ z[bulk] / bulk.sum()
        mix = min(1.0, 0.25 * p / bulk.sum())
        scatter = (1 - mix) * scatter + mix * np.trace(scatter) / p * np.eye(p)
        d = np.sum(z * np.linalg.solve(scatter, z.T).T, axis=1)
    bound = sqrt(chi2.ppf(0.95, p) / chi2.ppf(0.5, p)) * sqrt(upper_median(d))
    return np.minimum(1, bound / np.sqrt(d))


def upper_median(a):
    return np.sort(a, axis=0)[a.shape[0] // 2]


def score_start(z, y, weights, rule):
    """Bounded least squares, steps with clipped residuals, then steps with the threshold of the moment; one Gram for all."""
    n = len(y)
    squared = weights**2
    gram = (z * squared[:, None]).T @ z
    beta = np.linalg.solve(gram, z.T @ (squared * y))
    for _ in range(30):
        r = y - z @ beta
        clip = 1.345 * upper_median(np.abs(r)) / 0.6745
        gradient = z.T @ (squared * np.clip(r, -clip, clip))
        step = np.linalg.solve(gram, gradient)
        beta = beta + step
        if step @ gradient <= (0.02 * clip) ** 2 * n:
            break
    for _ in range(40):
        r = y - z @ beta
        tau = count_kept(np.abs(r), n, ceil(n / 2), rule)
        cut = np.sort(np.abs(r))[tau - 1]
        gradient = z.T @ np.where(np.abs(r) <= cut, squared * r, 0)
        step = np.linalg.solve(gram, gradient)
        beta = beta + step / min(max(tau / n, 0.5), 1)
        if step @ gradient <= (1e-3 * cut) ** 2 * n:
            break
    return beta


def normal_corrections(square, cut, free, kept):
    """Scale and variance of normal noise from the mean square of kept residuals and their cut."""
    share = lambda c: 1 - 2 * c * np.exp(-c * c / 2) / sqrt(2 * pi) / erf(c / sqrt(2))
    low, high = 1.5, 6.0
    for _ in range(60):
        c = (low + high) / 2
        low, high = (c, high) if share(c) / c**2 > square / kept / cut**2 else (low, c)
    scale = sqrt(square / free / share((low + high) / 2))
    return scale, scale**2 / share((low + high) / 2)


def batch(n, p, corrupted, kind, correlated=False, shift=0.0):
    x = rng.standard_normal((n, p))
    if correlated:
        for j in range(1, p):
            x[:, j] = 0.9 * x[:, j - 1] + sqrt(1 - 0.81) * x[:, j]
    beta = rng.uniform(-1, 1, p)
    y = x @ beta + 0.3 * rng.standard_normal(n) + shift
    bad = int(round(corrupted * n))
    rows = rng.permutation(n)[:bad]
    if kind == "scattered":
        y[rows] += rng.uniform(-20, 20, bad)
    elif kind == "leverage":
        x[rows] *= 10
        y[rows] = -x[rows] @ beta
    return np.round(x + shift, 6), np.round(y, 6)


def batch_cases():
    cases = []
    for name, start, rule, intercept, data in [
        ("scattered_paper", "ols", "paper", False, batch(80, 3, 0.2, "scattered")),
        ("scattered_program", "ols", "program", False, batch(80, 3, 0.2, "scattered")),
        ("clean_with_intercept", "ols", "paper", True, batch(60, 4, 0.0, "scattered", shift=2.0)),
        ("far_from_zero", "ols", "paper", True, batch(90, 3, 0.3, "scattered", shift=1000.0)),
        ("correlated", "ols", "paper", True, batch(120, 5, 0.25, "scattered", correlated=True)),
        ("score_scattered", "score", "paper", True, batch(100, 3, 0.2, "scattered", correlated=True)),
        ("score_leverage", "score", "paper", False, batch(120, 3, 0.3, "leverage")),
    ]:
        x, y = data
        n, p = x.shape
        z = np.column_stack([np.ones(n), x]) if intercept else x
        weights = np.ones(n)
        beta = None
        if start == "score":
            weights = leverage_weights(x, intercept)
            beta = score_start(z, y, weights, rule)
        beta, kept = fixed_point(z, y, rule, weights if start == "score" else None, beta)
        r = (y - z @ beta)[kept]
        a = (z[kept] * weights[kept, None]).T @ z[kept]
        b = (z[kept] * weights[kept, None] ** 2).T @ z[kept]
        gram = a @ np.linalg.solve(b, a)
        square, count = float(r @ r), int(kept.sum())
        scale, variance = normal_corrections(square, float(np.max(np.abs(r))), count - z.shape[1], count)
        cases.append(
            {
                "name": name,
                "start": start,
                "rule": rule,
                "intercept": intercept,
                "x": x.tolist(),
                "y": y.tolist(),
                "coefficients": beta.tolist(),
                "kept": np.nonzero(kept)[0].tolist(),
                "gram": gram.tolist(),
                "scale": scale,
                "variance": variance,
            }
        )
    return cases


def pivot_of(points):
    m = len(points)
    size = m // 2 + 1
    distances = np.array([[np.linalg.norm(a - b) for b in points] for a in points])
    radii = np.sort(distances, axis=1)[:, size - 1]
    pivot = int(np.argmin(radii))
    return pivot, float(radii[pivot]), np.argsort(distances[pivot], kind="stable")[:size]


def majority_metric(grams, kept):
    """Medians of cross products per row, of columns less their typical multiple of the first."""
    back = np.eye(len(grams[0]))
    back[1:, 0] = np.median([g[1:, 0] / g[0, 0] for g in grams], axis=0)
    reduce = np.linalg.inv(back)
    middle = np.median([reduce @ g @ reduce.T / k for g, k in zip(grams, kept)], axis=0)
    return back @ middle @ back.T


def refine(betas, grams, kept, scales):
    m, q = betas.shape
    size = m // 2 + 1
    metric = majority_metric(grams, kept)
    white = betas @ np.linalg.cholesky(metric)
    _, radius, near = pivot_of(white)
    start = betas[near].mean(axis=0)
    order = np.argsort(np.linalg.norm(white - white[near].mean(axis=0), axis=1), kind="stable")[:size]
    claims = np.array([np.trace(np.linalg.solve(metric, g)) for g in grams])
    shares = np.minimum(1, 2 * np.median(claims[order]) / claims)
    tests = np.array([(b - start) @ g @ (b - start) for b, g in zip(betas, grams)])
    gate = tests <= np.sort(tests)[size - 1] * chi2.ppf(0.999, q) / chi2.ppf(0.5, q)
    total = sum(s * g for s, g, k in zip(shares, grams, gate) if k)
    beta = np.linalg.solve(total, sum(s * g @ b for s, g, b, k in zip(shares, grams, betas, gate) if k))
    rejection = 1 - 2 * np.exp(-pi) / erf(sqrt(pi))
    level = np.median([s**2 / rejection for s, k in zip(scales, gate) if k])
    spread = sum(s * (b - beta) @ g @ (b - beta) for s, g, b, k in zip(shares, grams, betas, gate) if k)
    ratio = spread / (level * q * (sum(shares[gate]) - 1))
    degrees = q * (gate.sum() - 1)
    widen = ratio if ratio * degrees > chi2.ppf(0.999, degrees) else 1.0
    inverse = np.linalg.inv(total)
    middle = sum(s**2 * g for s, g, k in zip(shares, grams, gate) if k)
    return beta, gate, level * widen * inverse @ middle @ inverse, ratio, radius


def geometric_median(points):
    """Minimises the sum of distances by Newton's method from a smoothed start; no Weiszfeld step here."""
    z = np.median(points, axis=0)
    for smooth in [1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 0.0]:
        for _ in range(200):
            d = points - z
            r = np.sqrt(np.sum(d**2, axis=1) + smooth**2)
            gradient = -(d / r[:, None]).sum(axis=0)
            hessian = np.eye(len(z)) * (1 / r).sum() - (d / r[:, None] ** 3).T @ d
            step = np.linalg.solve(hessian, gradient)
            value = lambda v: np.sqrt(np.sum((points - v) ** 2, axis=1) + smooth**2).sum()
            t = 1.0
            while value(z - t * step) > value(z) + 1e-15 and t > 1e-9:
                t /= 2
            z = z - t * step
            if np.linalg.norm(step) < 1e-15:
                break
    return z


def spectral_filter(points, discard):
    weights = np.ones(len(points))
    best = (np.inf, None)
    while weights.sum() > len(points) - 2 * discard:
        mean = weights @ points / weights.sum()
        centred = points - mean
        values, vectors = np.linalg.eigh((centred * weights[:, None]).T @ centred / weights.sum())
        if values[-1] < best[0]:
            best = (values[-1], mean)
        scores = (centred @ vectors[:, -1]) ** 2
        weights = weights * np.maximum(0, 1 - scores / scores[weights > 0].max())
    return best[1]


def estimates(m, q, bad, bare=False):
    truth = rng.uniform(-1, 1, q)
    root = np.eye(q) + 0.3 * rng.standard_normal((q, q))
    out = []
    for i in range(m):
        kept = int(rng.integers(400, 600))
        x = rng.standard_normal((kept, q)) @ root.T
        gram = np.round(x.T @ x, 4)
        scale = round(float(rng.uniform(0.28, 0.34)), 4)
        noise = np.linalg.cholesky(np.linalg.inv(gram)) @ rng.standard_normal(q) * scale
        beta = np.round(truth + noise * 1.05, 8)
        if i in bad:
            beta = np.round(beta + rng.uniform(-2, 2, q), 8)
        out.append({"worker": f"w{i:02}", "batch": 0, "coefficients": beta, "gram": gram, "kept": kept, "scale": scale})
    # A liar that claims to know everything must not buy weight by it.
    if bad:
        out[bad[0]]["gram"] = out[bad[0]]["gram"] * 1000
    return out


def consolidation_cases():
    cases = []
    for name, m, q, bad in [("clean", 9, 3, []), ("three_of_nine", 9, 3, [1, 4, 7]), ("four_of_twelve", 12, 4, [0, 3, 5, 11])]:
        given = estimates(m, q, bad)
        betas = np.array([e["coefficients"] for e in given])
        grams = [e["gram"] for e in given]
        kept = [e["kept"] for e in given]
        metric = majority_metric(grams, kept)
        root = np.linalg.cholesky(metric)
        back = lambda z: np.linalg.solve(root.T, z)
        pivot, radius, near = pivot_of(betas)
        refined, gate, covariance, ratio, refined_radius = refine(betas, grams, kept, [e["scale"] for e in given])
        ordered = np.sort(betas, axis=0)
        discard = m // 4
        cases.append(
            {
                "name": name,
                "estimates": [
                    {**e, "coefficients": e["coefficients"].tolist(), "gram": e["gram"][np.tril_indices(q)].tolist()}
                    for e in given
                ],
                "pivot": {
                    "coefficients": betas[near].mean(axis=0).tolist(),
                    "pivot": pivot,
                    "radius": radius,
                    "trusted": sorted(near.tolist()),
                },
                "refine": {
                    "coefficients": refined.tolist(),
                    "trusted": np.nonzero(gate)[0].tolist(),
                    "covariance": covariance.tolist(),
                    "overdispersion": ratio,
                    "radius": refined_radius,
                },
                "geomed": back(geometric_median(betas @ root)).tolist(),
                "filter": back(spectral_filter(betas @ root, (m - 1) // 2)).tolist(),
                "trimmed": ordered[discard : m - discard].mean(axis=0).tolist(),
                "cmedian": np.median(betas, axis=0).tolist(),
                "mean": betas.mean(axis=0).tolist(),
            }
        )
    return cases


class Window:
    """The stream by the letter: who leaves, who stays, when the window switches. Plain distances, pivot means."""

    def __init__(self, size, switch):
        self.size, self.switch = size, switch
        self.window, self.run, self.floor = [], [], None

    def push(self, index, beta):
        if self.floor is None:
            self.window.append((index, beta))
            if len(self.window) == self.size:
                self.floor = pivot_of(np.array([b for _, b in self.window]))[1]
            return
        points = np.array([b for _, b in self.window])
        pivot, radius, near = pivot_of(points)
        trusted = max(self.floor, radius)
        if self.switch:
            outside = np.linalg.norm(beta - points[pivot]) > 2 * trusted
            self.run = (self.run + [(index, beta)])[-2 * self.switch :] if outside else []
            if len(self.run) >= self.switch:
                run = np.array([b for _, b in self.run])
                distances = np.array([[np.linalg.norm(a - b) for b in run] for a in run])
                reach = np.sort(distances, axis=1)[:, self.switch - 1]
                centre = int(np.argmin(reach))
                if reach[centre] <= 3 * trusted:
                    agreeing = [e for e, d in zip(self.run, distances[centre]) if d <= 3 * trusted]
                    self.window, self.run = agreeing[-self.size :], []
                    return
        if len(self.window) == self.size:
            self.window.pop(min(set(range(self.size)) - set(near.tolist())))
        self.window.append((index, beta))

    def consensus(self):
        points = np.array([b for _, b in self.window])
        return points[pivot_of(points)[2]].mean(axis=0)


def stream_cases():
    cases = []
    first, second = rng.uniform(-1, 1, 3), rng.uniform(-1, 1, 3)
    arrivals = []
    for t in range(48):
        truth = first if t < 24 else second
        beta = truth + 0.02 * rng.standard_normal(3)
        if t in (9, 10, 13, 30):
            beta = beta + rng.uniform(-2, 2, 3)
        arrivals.append(np.round(beta, 8))
    for name, size, switch in [("source", 7, None), ("switch_four", 7, 4), ("switch_seven", 7, 7), ("small_window", 3, 5)]:
        window = Window(size, switch)
        steps = []
        for t, beta in enumerate(arrivals):
            window.push(t, beta)
            steps.append({"window": [i for i, _ in window.window], "coefficients": window.consensus().tolist()})
        cases.append({"name": name, "size": size, "switch": switch, "steps": steps})
    return {"arrivals": [b.tolist() for b in arrivals], "cases": cases}


def write(name, content):
    OUT.mkdir(exist_ok=True)
    head = {
        "generator": "make/robust.py",
        "versions": {"numpy": np.__version__, "scipy": scipy.__version__},
        "seed": SEED,
    }
    text = json.dumps({**head, **content}, separators=(",", ":"))
    (OUT / name).write_text(text.replace('},{"name"', '},\n{"name"') + "\n")


write("batch.json", {"cases": batch_cases()})
write("consolidation.json", {"cases": consolidation_cases()})
write("stream.json", stream_cases())
