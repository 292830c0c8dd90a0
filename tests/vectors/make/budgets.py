#!/usr/bin/env python3
"""Budgets of the records of a stream, epsilon / n^a and delta / n^b: what the n-th may cost as a part of a whole budget, by the zCDP conversion in
fifty digits (mpmath). Records from 64 on have the budget of the last whose place begins with the same six bits.

    python tests/vectors/make/budgets.py            writes tests/vectors/privacy/budgets.json
    python tests/vectors/make/budgets.py --check    compares instead of writing, exit 1 on a difference
"""
import json
import pathlib
import sys

import mpmath as mp

mp.mp.dps = 60
OUT = pathlib.Path(__file__).resolve().parents[1] / "privacy" / "budgets.json"


def delta_of(eps, rho):
    """Canonne, Kamath and Steinke 2020, Corollary 13: the least over alpha, by its derivative."""
    slope = lambda a: (2 * a - 1) * rho - eps + mp.log(1 - 1 / a)
    low, high = 1 + mp.mpf(10) ** -30, (eps + 1) / (2 * rho) + 3
    for _ in range(220):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    a = high
    return mp.exp((a - 1) * (a * rho - eps)) * (1 - 1 / a) ** a / (a - 1)


def largest_rho(eps, delta):
    low, high = mp.mpf(0), mp.mpf(1)
    while delta_of(eps, high) <= delta:
        high *= 2
    for _ in range(120):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of(eps, middle) <= delta else (low, middle)
    return low


def last_alike(place):
    shift = max(0, place.bit_length() - 6)
    return ((place >> shift) + 1 << shift) - 1


def main():
    cases = []
    for whole, first, exponents in (
        ((1.0, 1e-6), (1.0, 1e-6), (0.5, 0.0)),
        ((3.0, 1e-5), (1.0, 1e-6), (0.25, 1.0)),
        ((1.0, 1e-6), (0.5, 1e-6), (0.0, 0.0)),
    ):
        parts = []
        for place in (1, 2, 3, 10, 63, 64, 65, 66, 1000, 1_000_000):
            n = mp.mpf(last_alike(place))
            eps, delta = first[0] / n ** mp.mpf(exponents[0]), mp.mpf(first[1]) / n ** mp.mpf(exponents[1])
            part = largest_rho(eps, delta) / largest_rho(mp.mpf(whole[0]), mp.mpf(whole[1]))
            parts.append([place, last_alike(place), float(part)])
        cases.append({"whole": whole, "first": first, "exponents": exponents, "parts": parts})
    out = {"script": "tests/vectors/make/budgets.py", "versions": {"mpmath": mp.__version__}, "cases": cases}
    text = json.dumps(out, separators=(",", ":")).replace('{"whole"', '\n{"whole"') + "\n"
    if "--check" in sys.argv:
        sys.exit(0 if OUT.read_text() == text else 1)
    OUT.write_text(text)


if __name__ == "__main__":
    main()
