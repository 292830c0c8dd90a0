"""Times the vertical fit against scikit-learn on the pooled data, in one session on one machine.

    ./run.sh                            everything, n = 1 000 000 and the 30+300 case
    ./run.sh --rows 20000 --alice 5 --bob 5 --wide-rows 5000 --wide-alice 3 --wide-bob 20     a quick look
    ./run.sh --skip-demo                the pooled fits alone
    ./run.sh --family binomial --peer newton-cholesky --repeat 5 --skip-wide

What is compared: for the federated fit, with standard errors and without, `seconds.total - seconds.read` of the slower party, from
the moment both have read their file, with transport over mutual TLS between separate processes; for scikit-learn the time inside
`fit` alone, without standard errors, on data already in memory, in the faster of the two memory layouts. Ratios are medians of pairs,
and printed only where other processes used little of the machine. `--check` makes the exit status 1 when a target is missed.
"""

import argparse
import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from machine import OTHERS, Watch

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CHUNK = 50_000
FACTORS = 3

PEERS = {"gaussian": ["LinearRegression", "normal equations"], "binomial": ["newton-cholesky", "lbfgs"]}
# Of a fit without standard errors and of one with them.
TARGETS = {"LinearRegression": (0.25, 0.5), "newton-cholesky": (0.85, 1.0), "lbfgs": (0.25, 0.35)}
# Peak memory over the party's block: without standard errors; with them, at the party that receives the other's basis.
MEMORY_TARGETS = (1.5, 2.5)
FATE_SECONDS_PER_EPOCH = 294


def column_names(alice, bob):
    return [f"a{j}" for j in range(1, alice + 1)], [f"b{j}" for j in range(1, bob + 1)]


def generate(path, rows, alice, bob, seed):
    """Columns that share three factors; outcomes `y` (gaussian) and `event` (0 or 1). Same seed, same file."""
    names = sum(column_names(alice, bob), [])
    p = len(names)
    rng = np.random.default_rng(seed)
    loadings = rng.normal(0, 0.6, (FACTORS, p))
    centre, scale = rng.normal(0, 1, p), rng.uniform(0.5, 2.0, p)
    beta = rng.normal(0, 1, p) / np.sqrt(p)
    writer = None
    for start in range(0, rows, CHUNK):
        n = min(CHUNK, rows - start)
        standard = rng.standard_normal((n, FACTORS)) @ loadings + rng.standard_normal((n, p))
        linear = standard @ beta
        y = 1.5 + linear + rng.standard_normal(n)
        event = (rng.random(n) < 1 / (1 + np.exp(0.3 - linear))).astype(np.int64)
        x = centre + scale * standard
        if path.suffix == ".csv":
            x, y = np.round(x, 6), np.round(y, 6)
        table = pa.table([np.ascontiguousarray(x[:, j]) for j in range(p)] + [y, event], names=names + ["y", "event"])
        if writer is None:
            if path.suffix == ".csv":
                writer = pa.csv.CSVWriter(str(path), table.schema)
            else:
                # Random doubles do not compress, and dictionaries of them only cost memory.
                writer = pa.parquet.ParquetWriter(str(path), table.schema, compression="none", use_dictionary=False)
        writer.write_table(table)
    writer.close()


def read(path, names):
    if path.suffix == ".csv":
        return pa.csv.read_csv(str(path), convert_options=pa.csv.ConvertOptions(include_columns=names))
    return pa.parquet.read_table(str(path), columns=names)


# --- the pooled fit, in a process of its own so that its memory is gone before the next one starts


def logistic(solver):
    from sklearn.linear_model import LogisticRegression

    settings = {"solver": solver, "tol": 1e-6, "max_iter": 10_000}
    try:
        return LogisticRegression(penalty=None, **settings)
    except TypeError:
        return LogisticRegression(C=np.inf, **settings)


class NormalEquations:
    """Least squares from `X'X` and `X'y`."""

    def fit(self, x, y):
        means, centre = x.mean(axis=0), y.mean()
        gram = x.T @ x - len(y) * np.outer(means, means)
        self.coef_ = np.linalg.solve(gram, x.T @ y - len(y) * means * centre)
        self.intercept_ = centre - means @ self.coef_


def newton_polish(x, y, b, rounds=6):
    """A tight logistic fit from scikit-learn's loose one; b holds the intercept first."""
    design = np.column_stack([np.ones(len(y)), x])
    for _ in range(rounds):
        mu = 1 / (1 + np.exp(-(design @ b)))
        weighted = design * (mu * (1 - mu))[:, None]
        step = np.linalg.solve(design.T @ weighted, design.T @ (y - mu))
        b = b + step
        if np.abs(step).max() <= 1e-12 * np.abs(b).max():
            break
    return b


def pooled(arguments):
    from sklearn.linear_model import LinearRegression

    names = sum(column_names(arguments.alice, arguments.bob), [])
    outcome = "y" if arguments.family == "gaussian" else "event"
    table = read(arguments.data, names + [outcome])
    y = table.column(outcome).to_numpy()
    x = np.empty((len(y), len(names)), order="F")
    for place, name in enumerate(names):
        x[:, place] = table.column(name).to_numpy()
    del table
    seconds, model = {}, None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        for layout in ("F", "C"):
            x = np.asarray(x, order=layout)
            model = {"LinearRegression": LinearRegression, "normal equations": NormalEquations}.get(arguments.peer)
            model = model() if model else logistic(arguments.peer)
            start = time.perf_counter()
            model.fit(x, y)
            seconds[layout] = time.perf_counter() - start
    loose = np.concatenate([np.atleast_1d(model.intercept_), np.ravel(model.coef_)])
    tight = loose if arguments.family == "gaussian" else newton_polish(x, y, loose)
    iterations = None if arguments.family == "gaussian" else int(model.n_iter_[0])
    json.dump(
        {
            "seconds": min(seconds.values()),
            "coefficients": dict(zip(["(Intercept)"] + names, map(float, tight))),
            "own_error": disagreement(loose, tight),
            "iterations": iterations,
        },
        sys.stdout,
    )


def watched(run, *arguments):
    """What a run returns, with the share of the machine that others used meanwhile."""
    try:
        watch = Watch()
    except SystemExit:
        return run(*arguments) | {"others": 1.0}
    return run(*arguments) | {"others": watch.others()}


def run_pooled(data, alice, bob, family, peer):
    command = [sys.executable, __file__, "pooled", "--data", str(data), "--alice", str(alice), "--bob", str(bob)]
    command += ["--family", family, "--peer", peer]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


# --- the federated fit


def run_demo(demo, data, alice, bob, family, out, inference):
    a, b = column_names(alice, bob)
    command = demo + ["vertical", "--data", str(data), "--outcome", "y" if family == "gaussian" else "event"]
    command += ["--alice", ",".join(a), "--bob", ",".join(b), "--family", family, "--format", "json", "--out", str(out)]
    command += [] if inference else ["--no-inference"]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, cwd=ROOT)
    if done.returncode:
        raise SystemExit(f"`{shlex.join(command[:2])} ...` ended with exit code {done.returncode}")
    report = json.loads((out / "report.json").read_text())
    roles = {"alice": alice, "bob": bob}
    rows = report["nobs"]
    return {
        "seconds": max(report["seconds"][role]["total"] - report["seconds"][role]["read"] for role in roles),
        "read": max(report["seconds"][role]["read"] for role in roles),
        "memory": {role: report["peak_rss_bytes"][role] / (rows * p * 8) for role, p in roles.items()},
        # Beside a smaller block the program itself counts.
        "large": min(rows * p * 8 for p in roles.values()) >= 100e6,
        "bytes": sum(report["bytes_sent"][role] for role in roles),
        "rounds": report["rounds"],
        "termination": report["termination"],
        "coefficients": {row["term"]: row["estimate"] for row in report["coefficients"]},
    }


def disagreement(got, want):
    """Largest difference over the largest coefficient apart from the intercept, which comes first."""
    got, want = np.asarray(got, float), np.asarray(want, float)
    return float(np.abs(got - want).max() / np.abs(want[1:]).max())


def default_demo():
    given = os.environ.get("FEDREG_DEMO")
    if given:
        return given
    built = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "demo"
    return shlex.quote(str(built)) if built.exists() else "cargo run --quiet --release --bin demo --"


def one(arguments, folder, data, alice, bob, family):
    """Fits in turn, `--repeat` times: by every peer, then without standard errors and with them."""
    rounds = []
    peers = [peer for peer in PEERS[family] if peer in (arguments.peer or [peer])]
    for _ in range(arguments.repeat):
        runs = {peer: watched(run_pooled, data, alice, bob, family, peer) for peer in peers}
        for inference in () if arguments.skip_demo else (False, True):
            runs[inference] = watched(run_demo, shlex.split(arguments.demo), data, alice, bob, family, folder / "out", inference)
        rounds.append(runs)
    return {"family": family, "peers": peers, "rounds": rounds}


def show(label, result, missed, targets=True):
    """Prints medians, and appends what misses its target to a list."""
    family, peers, rounds = result["family"], result["peers"], result["rounds"]
    last = rounds[-1]
    print(f"\n{label}, {family}, medians of {len(rounds)}")
    for peer in peers:
        how = f", {last[peer]['iterations']} iterations, off the tight fit by {last[peer]['own_error']:.1e}" if last[peer]["iterations"] else ""
        print(f"  pooled, {peer:22} {statistics.median(runs[peer]['seconds'] for runs in rounds):9.3f} s{how}")
    for inference in (False, True):
        if inference not in last:
            continue
        name, run = "with errors" if inference else "without errors", last[inference]
        seconds = statistics.median(runs[inference]["seconds"] for runs in rounds)
        print(f"  federated, {name:19} {seconds:9.3f} s, {run['rounds']} rounds, {run['termination']}, {run['bytes'] / 1e6:.1f} MB sent, reading {run['read']:.2f} s")
        for peer in peers:
            others = max(runs[of]["others"] for runs in rounds for of in (peer, inference))
            if others > OTHERS:
                print(f"    no ratio to {peer}: other processes used {100 * others:.0f} % of the machine meanwhile")
                missed += [f"{family} {name} beside {peer}: not idle"] * (targets and peer in TARGETS)
                continue
            ratio = statistics.median(runs[inference]["seconds"] / runs[peer]["seconds"] for runs in rounds)
            target = TARGETS.get(peer, (None, None))[inference] if targets else None
            over = target is not None and ratio > target
            print(f"    of {peer:27} {ratio:9.2f}{f' (target {target})' if target else ''}{': MISSED' if over else ''}")
            missed += [f"{family} {name} beside {peer}"] * over
        memory = {role: max(runs[inference]["memory"][role] for runs in rounds) for role in run["memory"]}
        shares = ", ".join(f"{role} {share:.2f}" for role, share in memory.items())
        over = [role for role, share in memory.items() if targets and run["large"] and share > MEMORY_TARGETS[inference]]
        goal = f" (target {MEMORY_TARGETS[inference]}){': MISSED' if over else ''}" if targets and run["large"] else ""
        print(f"    peak memory over block      {shares}{goal}")
        missed += [f"{family} {name}: memory of {role}" for role in over]
        if peers:
            want = last[peers[0]]["coefficients"]
            error = disagreement([run["coefficients"][term] for term in want], list(want.values()))
            print(f"    coefficients                off the tight pooled fit by {error:.1e} of the largest")


def compare(arguments):
    print(f"{platform.platform()}, {os.cpu_count()} processors, numpy {np.__version__}, python {platform.python_version()}")
    missed, results = [], {}
    with tempfile.TemporaryDirectory(dir=arguments.scratch) as name:
        folder = Path(name)
        data = arguments.data.resolve() if arguments.data else folder / f"long.{arguments.format}"
        if not arguments.data:
            generate(data, arguments.rows, arguments.alice, arguments.bob, arguments.seed)
        label = f"n = {arguments.rows}, {arguments.alice}+{arguments.bob} columns, three shared factors, {data.stat().st_size / 1e6:.0f} MB of {data.suffix[1:]}"
        for family in arguments.family or list(PEERS):
            results[family] = one(arguments, folder, data, arguments.alice, arguments.bob, family)
            show(label, results[family], missed)
        if not arguments.data:
            data.unlink()

        if not arguments.skip_wide:
            data = folder / f"wide.{arguments.format}"
            generate(data, arguments.wide_rows, arguments.wide_alice, arguments.wide_bob, arguments.seed + 1)
            results["wide"] = one(arguments, folder, data, arguments.wide_alice, arguments.wide_bob, "binomial")
            show(f"n = {arguments.wide_rows}, {arguments.wide_alice}+{arguments.wide_bob} columns", results["wide"], missed, targets=False)
            print(
                f"  FATE 2.0, published: {FATE_SECONDS_PER_EPOCH} s per epoch (SSHE-LR; 136 s with an arbiter) for n = 100000, 30+300 columns, 16 cores a host,\n"
                "  1 Gb/s. Its protection is stronger: secret sharing and homomorphic encryption hide the partial predictions that\n"
                "  are sent here in plain mode. Not a like-for-like race; an epoch is one pass, the time above the whole fit."
            )
    if arguments.json:
        names = {False: "without errors", True: "with errors"}
        results = {name: result | {"rounds": [{names.get(of, of): run for of, run in runs.items()} for runs in result["rounds"]]} for name, result in results.items()}
        Path(arguments.json).write_text(json.dumps(results, indent=1) + "\n")
    if missed:
        print("\nmissed: " + ", ".join(missed))
    return 1 if missed and arguments.check else 0


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("compare", help="generate, fit both ways, print")
    run.add_argument("--rows", type=int, default=1_000_000)
    run.add_argument("--alice", type=int, default=50, help="Alice's columns")
    run.add_argument("--bob", type=int, default=50, help="Bob's columns")
    run.add_argument("--wide-rows", type=int, default=100_000)
    run.add_argument("--wide-alice", type=int, default=30)
    run.add_argument("--wide-bob", type=int, default=300)
    run.add_argument("--skip-wide", action="store_true")
    run.add_argument("--skip-demo", action="store_true", help="only generate and fit pooled")
    run.add_argument("--family", choices=list(PEERS), action="append", help="both by default")
    run.add_argument("--peer", choices=sum(PEERS.values(), []), action="append", help="all by default")
    run.add_argument("--data", type=Path, help="a file that `generate` has written for these sizes")
    run.add_argument("--format", choices=["parquet", "csv"], default="parquet")
    run.add_argument("--seed", type=int, default=1)
    run.add_argument("--repeat", type=int, default=1, help="alternate the fits this often; medians are printed")
    run.add_argument("--demo", default=default_demo(), help="command of the demo binary (or FEDREG_DEMO)")
    run.add_argument("--scratch", help="folder for the data, about 1 GB at full size")
    run.add_argument("--json", help="also write the figures to this file")
    run.add_argument("--check", action="store_true", help="exit with 1 if a target is missed")
    make = commands.add_parser("generate", help="write the data only")
    make.add_argument("data", type=Path)
    make.add_argument("--rows", type=int, default=1_000_000)
    make.add_argument("--alice", type=int, default=50)
    make.add_argument("--bob", type=int, default=50)
    make.add_argument("--seed", type=int, default=1)
    fit = commands.add_parser("pooled", help="one pooled fit, printed as JSON")
    fit.add_argument("--data", type=Path, required=True)
    fit.add_argument("--alice", type=int, required=True)
    fit.add_argument("--bob", type=int, required=True)
    fit.add_argument("--family", choices=list(PEERS), required=True)
    fit.add_argument("--peer", choices=sum(PEERS.values(), []), required=True)
    return parser.parse_args(arguments)


def main():
    arguments = parse(sys.argv[1:] if sys.argv[1:2] and sys.argv[1] in ("compare", "generate", "pooled", "-h", "--help") else ["compare", *sys.argv[1:]])
    if arguments.command == "generate":
        generate(arguments.data, arguments.rows, arguments.alice, arguments.bob, arguments.seed)
        return 0
    if arguments.command == "pooled":
        pooled(arguments)
        return 0
    return compare(arguments)


if __name__ == "__main__":
    raise SystemExit(main())
