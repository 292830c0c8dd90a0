#!/usr/bin/env python3
"""Privacy vectors: the Gaussian curve and the zCDP conversion in fifty digits (mpmath), compositions by the privacy
loss distributions of dp_accounting, and the calibration table.

    python tests/vectors/make/privacy.py            writes tests/vectors/privacy/accountant.json
    python tests/vectors/make/privacy.py --check    compares instead of writing, exit 1 on a difference
    python tests/vectors/make/privacy.py --print    prints instead of writing
"""
import json
import pathlib
import sys

import dp_accounting
import mpmath as mp
from dp_accounting.pld import PLDAccountant

mp.mp.dps = 60
OUT = pathlib.Path(__file__).resolve().parents[1] / "privacy" / "accountant.json"


def gaussian_delta(eps, mu):
    eps, mu = mp.mpf(eps), mp.mpf(mu)
    tail = lambda x: mp.erfc(x / mp.sqrt(2)) / 2
    return tail(eps / mu - mu / 2) - mp.exp(eps) * tail(eps / mu + mu / 2)


def concentrated_delta(eps, rho):
    eps, rho = mp.mpf(eps), mp.mpf(rho)
    slope = lambda a: (2 * a - 1) * rho - eps + mp.log1p(-1 / a)
    lo, hi = 1 + mp.mpf(10) ** -30, max((eps + 1) / (2 * rho) + 2, mp.mpf(3))
    for _ in range(260):
        mid = (lo + hi) / 2
        lo, hi = (mid, hi) if slope(mid) < 0 else (lo, mid)
    a = hi
    return mp.exp(min(mp.mpf(0), (a - 1) * (a * rho - eps) + a * mp.log1p(-1 / a) - mp.log(a - 1)))


def largest(curve, eps, delta):
    lo, hi = mp.mpf(0), mp.mpf(1)
    while curve(eps, hi) <= delta:
        hi *= 2
    for _ in range(120):
        mid = (lo + hi) / 2
        lo, hi = (mid, hi) if curve(eps, mid) <= delta else (lo, mid)
    return lo


def main():
    gaussian, concentrated = [], []
    for eps in (0.0, 1e-6, 1e-3, 0.1, 0.5, 1.0, 3.0, 10.0, 40.0, 200.0):
        for mu in (1e-8, 1e-5, 1e-3, 0.03, 0.26805, 0.71912, 1.0, 2.00045, 5.0, 12.0, 30.0, 80.0):
            delta = gaussian_delta(eps, mu)
            if delta > mp.mpf(10) ** -290:
                gaussian.append([eps, mu, float(delta)])
    for eps in (1e-3, 0.1, 0.5, 1.0, 3.0, 10.0, 40.0):
        for rho in (1e-6, 1e-3, 0.03056, 0.22425, 1.7827, 10.0):
            delta = concentrated_delta(eps, rho)
            if mp.mpf(10) ** -290 < delta < 1:
                concentrated.append([eps, rho, float(delta)])
    calibration = []
    for eps in (0.1, 0.5, 1.0, 3.0, 5.0, 10.0):
        rho, mu = largest(concentrated_delta, eps, mp.mpf("1e-5")), largest(gaussian_delta, eps, mp.mpf("1e-5"))
        calibration.append([eps, float(1 / mp.sqrt(2 * rho)), float(1 / mu)])
    loss = []
    for count, sigma, delta in ((1, 3.7306, 1e-5), (44, 24.75, 1e-5), (13, 5.0, 1e-6), (7, 1.5, 1e-5), (3, 40.0, 1e-7)):
        accountant = PLDAccountant(value_discretization_interval=1e-5)
        accountant.compose(dp_accounting.GaussianDpEvent(sigma), count)
        loss.append({"count": count, "sigma": sigma, "delta": delta, "epsilon": float(accountant.get_epsilon(delta))})
    out = {
        "script": "tests/vectors/make/privacy.py",
        "versions": {"mpmath": mp.__version__, "dp_accounting": __import__("importlib.metadata").metadata.version("dp-accounting")},
        "gaussian": gaussian,
        "concentrated": concentrated,
        "calibration": calibration,
        "loss_distribution": loss,
    }
    text = json.dumps(out, indent=None, separators=(",", ":")).replace('],[', '],\n[').replace('},{', '},\n{') + "\n"
    if "--print" in sys.argv:
        print(text, end="")
        return
    if "--check" in sys.argv:
        sys.exit(0 if OUT.read_text() == text else 1)
    OUT.write_text(text)


if __name__ == "__main__":
    main()
