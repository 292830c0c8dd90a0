"""Fits whose parts of the linear predictor are cut at a range that the study fixes: python3 cut.py OUT

Nothing but the standard library. Alice has a1 and a2, Bob b1, b2 and b3, all centred; the estimates solve the equations
X'(mean(cut predictor) - y) = 0, standard errors follow from the weights at the cut predictor, and the deviance is that of its means. The
intercept of a binomial model is outside of what is cut, that of a poisson model is in Alice's part.
"""

import json
import math
import sys
from pathlib import Path

ROWS = 600


def draws(seed):
    while True:
        seed = (1103515245 * seed + 12345) % 2**31
        yield seed / 2**31


def data(family):
    draw = draws(11)
    rows = []
    for _ in range(ROWS):
        part = lambda: round(2 * next(draw) - 1, 3)
        a1, a2, b1, b3 = (part() for _ in range(4))
        b2 = round(0.5 * part() + 0.4 * a1, 3)
        eta = 0.3 + 0.9 * a1 - 0.7 * a2 + 1.1 * b1 + 0.8 * b2 - 0.5 * b3
        if family == "binomial":
            y = float(next(draw) < 1 / (1 + math.exp(-eta)))
        else:
            y = float(math.floor(math.exp(0.6 * eta) + 1.5 * next(draw)))
        rows.append([a1, a2, b1, b2, b3, y])
    return rows


def at(family, eta):
    if family == "binomial":
        mean = 1 / (1 + math.exp(-eta))
        return mean, mean * (1 - mean)
    return math.exp(eta), math.exp(eta)


def parts(family, reach, row, beta):
    """The cut predictor of a row, with which of the parts are beyond the range."""
    alice = row[0] * beta[1] + row[1] * beta[2]
    bob = sum(row[2 + k] * beta[3 + k] for k in range(3))
    outside = 0.0
    if family == "poisson":
        alice += beta[0]
    else:
        outside = beta[0]
    clip = lambda part: max(-reach, min(reach, part))
    return outside + clip(alice) + clip(bob), abs(alice) > reach, abs(bob) > reach


def solve(matrix, right):
    size = len(right)
    rows = [list(row) + [value] for row, value in zip(matrix, right)]
    for k in range(size):
        pivot = max(range(k, size), key=lambda i: abs(rows[i][k]))
        rows[k], rows[pivot] = rows[pivot], rows[k]
        for i in range(size):
            if i != k:
                factor = rows[i][k] / rows[k][k]
                rows[i] = [a - factor * b for a, b in zip(rows[i], rows[k])]
    return [row[-1] / row[k] for k, row in enumerate(rows)]


def fit(family, reach, rows):
    means = [math.fsum(row[k] for row in rows) / len(rows) for k in range(5)]
    centred = [[value - mean for value, mean in zip(row, means)] for row in rows]
    y = [row[5] for row in rows]
    beta = [0.0] * 6
    ybar = math.fsum(y) / len(y)
    beta[0] = math.log(ybar / (1 - ybar)) if family == "binomial" else math.log(ybar)

    def equations(beta):
        left, slope, weighted = [[] for _ in range(6)], [[0.0] * 6 for _ in range(6)], [[0.0] * 6 for _ in range(6)]
        for row, value in zip(centred, y):
            eta, alice, bob = parts(family, reach, row, beta)
            mean, weight = at(family, eta)
            x = [1.0] + row
            for j in range(6):
                left[j].append(x[j] * (mean - value))
                for k in range(6):
                    weighted[j][k] += weight * x[j] * x[k]
                    still = bob if k >= 3 else alice and (k > 0 or family == "poisson")
                    slope[j][k] += 0.0 if still else weight * x[j] * x[k]
        return [math.fsum(terms) for terms in left], slope, weighted

    for _ in range(200):
        left, slope, weighted = equations(beta)
        step = solve(slope, left)
        length = max(abs(entry) for entry in step)
        beta = [b - entry * min(1.0, 0.5 / length if length > 0 else 1.0) for b, entry in zip(beta, step)]
        if length < 1e-14:
            break
    left, slope, weighted = equations(beta)
    assert max(abs(entry) for entry in left) < 1e-10, (family, reach, left)
    covariance = [solve(weighted, [float(j == k) for j in range(6)]) for k in range(6)]
    cut = [0, 0]
    deviance = []
    for row, value in zip(centred, y):
        eta, alice, bob = parts(family, reach, row, beta)
        cut[0] += alice
        cut[1] += bob
        mean, _ = at(family, eta)
        if family == "binomial":
            deviance.append(-2 * math.log(mean if value == 1 else 1 - mean))
        else:
            deviance.append(2 * ((value * math.log(value / mean) if value > 0 else 0.0) - (value - mean)))
    # The intercept on the scale of the columns as they are.
    back = [1.0] + [-mean for mean in means]
    variance = math.fsum(back[j] * back[k] * covariance[j][k] for j in range(6) for k in range(6))
    return {
        "range": reach,
        "cut": cut,
        "estimates": [beta[0] - math.fsum(m * b for m, b in zip(means, beta[1:]))] + beta[1:],
        "std_errors": [math.sqrt(variance)] + [math.sqrt(covariance[k][k]) for k in range(1, 6)],
        "deviance": math.fsum(deviance),
    }


def main(out):
    cases = []
    for family, ranges in [("binomial", [1.0, 1.5]), ("poisson", [1.0, 1.5])]:
        rows = data(family)
        cases.append({"family": family, "rows": rows, "fits": [fit(family, reach, rows) for reach in ranges]})
    text = json.dumps({"generator": "cut.py", "cases": cases}, separators=(",", ":"))
    (Path(out) / "cut.json").write_text(text + "\n")
    for case in cases:
        for result in case["fits"]:
            print(case["family"], result["range"], result["cut"], [round(b, 6) for b in result["estimates"]], result["deviance"])


if __name__ == "__main__":
    main(sys.argv[1])
