"""Errors of private Poisson fits: a floating-point simulation of what opens, apart from the code that is tested.

    python3 tests/vectors/make/private_counts.py

The medians stand in `common/src/methods/vertical/plan/logistic/tests.rs`, `common/src/methods/vertical/private/tests/logistic.rs` and
`examples/reproduce/opened.rs`. numpy 2.4.6; the draws are those of its default generator, so that other versions may differ in the last digits.

Five columns a party of correlation .3, rows of norm at most 1, counts cut at 8, outcome at both. A quarter of mu^2 is for the table, a tenth and
65 % for two gradients, whose means are cut at 8 by cutting each party's part of the linear predictor. With "cut left in" the ends are equal and
the gradients are taken as they open; with "cut taken off" the ends are as many standard deviations above the mean of either part, and
what the cut takes of a normal linear predictor, summed over a grid of both parts, is taken off.
"""

import math
import statistics

import numpy as np

LARGEST, DELTA = 8.0, 1e-5
SLOPES = np.r_[0.9, -0.6, 0.75, 0.45, -0.75, -0.45, 1.05, 0.6, -0.9, 0.75]


def mu_of(epsilon):
    """mu of the Gaussian mechanism that is (epsilon, DELTA) private: Balle and Wang (2018), by bisection."""
    phi = lambda x: 0.5 * math.erfc(-x / math.sqrt(2))
    below, above = 1e-6, 50.0
    for _ in range(200):
        mu = (below + above) / 2
        delta = phi(-epsilon / mu + mu / 2) - math.exp(epsilon) * phi(-epsilon / mu - mu / 2)
        below, above = (below, mu) if delta > DELTA else (mu, above)
    return below


def drawn(rows, random):
    law = np.full((10, 10), 0.3) + 0.7 * np.eye(10)
    z = random.normal(size=(rows, 10)) @ np.linalg.cholesky(law).T / (1.5 * math.sqrt(5))
    blocks = [z[:, :5], z[:, 5:]]
    blocks = [block / np.maximum(1, np.linalg.norm(block, axis=1, keepdims=True)) for block in blocks]
    y = np.minimum(random.poisson(np.exp(np.hstack(blocks) @ SLOPES)), LARGEST).astype(float)
    return blocks[0], blocks[1], y


def pooled(x, y):
    b = np.zeros(x.shape[1])
    b[0] = math.log(y.mean())
    for _ in range(40):
        mean = np.exp(x @ b)
        b -= np.linalg.solve((x.T * mean) @ x, x.T @ (mean - y))
    return b


def symmetric(size, sigma, random):
    noise = random.normal(0, sigma, (size, size))
    return (noise + noise.T) / 2


def taken(b, ends, means, table):
    """What the cut takes from the mean gradient of a normal linear predictor, by a grid."""
    grid = np.linspace(-6, 6, 121)
    weight = np.exp(-grid * grid / 2)
    weight = np.outer(weight, weight) / weight.sum() ** 2
    own = [b[1:6], b[6:]]
    along = [table[:, :5] @ own[0], table[:, 5:] @ own[1]]
    spread = [math.sqrt(own[0] @ along[0][:5]), math.sqrt(own[1] @ along[1][5:])]
    rho = np.clip(own[0] @ along[1][:5] / (spread[0] * spread[1]), -0.99, 0.99)
    s = means[:5] @ own[0] + spread[0] * grid[:, None]
    t = means[5:] @ own[1] + spread[1] * (rho * grid[:, None] + math.sqrt(1 - rho * rho) * grid[None, :])
    cut = np.exp(b[0] + np.minimum(s, ends[0]) + np.minimum(t, ends[1]))
    whole = (weight * np.exp(b[0] + s + t)).sum()
    mean = (weight * cut).sum() - whole
    first, second = (weight * cut * (s < ends[0])).sum() - whole, (weight * cut * (t < ends[1])).sum() - whole
    return np.r_[mean, means * mean + along[0] * first + along[1] * second]


def private(a, b_rows, y, mu, random, take_off):
    rows, sigma = len(y), math.sqrt(12) / (mu * math.sqrt(0.25))
    x = np.c_[np.ones(rows), a, b_rows]
    table = x.T @ x
    table[1:6, 1:6] += symmetric(5, sigma * math.sqrt(2 / 3), random)
    table[6:, 6:] += symmetric(5, sigma * math.sqrt(2 / 3), random)
    cross = random.normal(0, sigma * math.sqrt(2), (5, 5))
    table[1:6, 6:] += cross
    table[6:, 1:6] += cross.T
    means = (table[0, 1:] + random.normal(0, sigma, 10)) / rows
    score = x[:, 1:].T @ (y - LARGEST / 2) + random.normal(0, sigma * LARGEST / 2, 10)
    values, vectors = np.linalg.eigh(table[1:, 1:] / rows - np.outer(means, means))
    centred = (vectors * np.maximum(values, sigma * math.sqrt(10) / rows)) @ vectors.T
    moments = np.block([[np.ones((1, 1)), means[None]], [means[:, None], centred + np.outer(means, means)]])
    slopes = np.linalg.solve(centred, score / rows - means * (y.mean() - LARGEST / 2)) / y.mean()
    variance = slopes @ centred @ slopes
    slopes *= math.sqrt(min(1, 1 / variance))
    variance = min(variance, 1)
    b = np.r_[math.log(y.mean()) - variance / 2 - means @ slopes, slopes]
    for part in (0.1, 0.65):
        size = 2 * LARGEST / (mu * math.sqrt(part))
        along = centred @ b[1:]
        weight = math.exp(b[0] + means @ b[1:] + b[1:] @ along / 2)
        tilted = means + along
        hessian = weight * np.block([[np.ones((1, 1)), tilted[None]], [tilted[:, None], centred + np.outer(tilted, tilted)]])
        room = math.log(LARGEST) - b[0]
        ends = [room / 2, room / 2]
        if take_off:
            at = [means[:5] @ b[1:6], means[5:] @ b[6:]]
            spread = [math.sqrt(b[1:6] @ centred[:5, :5] @ b[1:6]), math.sqrt(b[6:] @ centred[5:, 5:] @ b[6:])]
            ends = [m + s * (room - sum(at)) / sum(spread) for m, s in zip(at, spread)]
        mean = np.exp(b[0] + np.minimum(a @ b[1:6], ends[0]) + np.minimum(b_rows @ b[6:], ends[1]))
        # Each party adds one integer of the common law to every entry.
        gradient = (x.T @ (mean - y) + random.normal(size=11) * size * math.sqrt(2)) / rows
        if take_off:
            gradient -= taken(b, ends, means, centred)
        step = np.linalg.solve(hessian, gradient)
        b = b - step * min(1, 1 / math.sqrt(step @ moments @ step))
    return b


for rows, seeds in ((10_000, 50), (100_000, 15)):
    for take_off in (False, True):
        medians = []
        for epsilon in (1, 3, 10):
            errors = []
            for seed in range(seeds):
                random = np.random.default_rng(seed)
                a, b_rows, y = drawn(rows, random)
                best = pooled(np.c_[np.ones(rows), a, b_rows], y)
                found = private(a, b_rows, y, mu_of(epsilon), random, take_off)
                errors.append(np.linalg.norm((found - best)[1:]) / np.linalg.norm(best[1:]))
            medians.append(f"{statistics.median(errors):.4f}")
        print(rows, "cut taken off" if take_off else "cut left in", *medians, flush=True)
