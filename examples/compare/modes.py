"""Times sealed and private fits beside plain ones of the same family, with standard errors, in the same run on the same data.

    python modes.py                              n = 1 000 000, 50+50 columns, every mode, medians of 3 paired runs
    python modes.py --rows 100000 --repeat 7     another size
    python modes.py --plain-demo OLD/demo        plain fits by an earlier build, to which the ratios then refer
    python modes.py --plain-demo OLD/demo --mode plain        plain fits of this build beside those of the earlier one

Each pair is a plain fit and one in another mode by `demo vertical`, as separate processes over mutual TLS; of each,
`seconds.total - seconds.read` of the slower party. Reports of private fits have no times and no memory: there it is the time from the first
to the last line of the log of the party that was started last (the other one waits until that one is registered), less what the log says
of reading. Before and during each fit the CPU time of all other processes is read from
/proc/stat; a ratio is printed only where it stayed below 10 % of the machine's. `--check` turns a missed target into exit status 1.
Needs numpy and pyarrow, 0.8 GB of disk and 4 GB of memory; programs from `FEDREG_BIN`, else `target/release`.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from datetime import datetime
from pathlib import Path

from machine import OTHERS, Watch
from programs import binary
from vertical import column_names, generate

# Most that the slower party may take after reading, as a share of the plain fit with errors of the same family.
TARGETS = {
    ("gaussian", "sealed"): 0.8,
    ("binomial", "sealed"): 1.0,
    ("gaussian", "private"): 0.5,
    ("binomial", "private"): 0.3,
    ("gaussian", "plain"): 1.0,
    ("binomial", "plain"): 1.0,
}


def bounds(path, alice, bob, family):
    """Public ranges that hold all of the generated values."""
    columns = "".join(f"{name} = [-25, 25]\n" for name in alice + bob)
    outcome = "y = [-20, 20]" if family == "gaussian" else "event = [0, 1]"
    path.write_text(f"[columns]\n{columns}\n[outcome]\n{outcome}\n")


def logged(path):
    """Seconds from the first to the last line of a log, less those of reading."""
    lines = path.read_text().splitlines()
    first, last = (datetime.fromisoformat(lines[at].split()[0].replace("Z", "+00:00")) for at in (0, -1))
    read = next(re.search(r" in ([0-9.]+) s$", line) for line in lines if " INFO read " in line)
    return (last - first).total_seconds() - float(read[1])


def fit(demo, data, mode, family, arguments, folder):
    """Seconds, CPU seconds, the share of the machine that others used, peak memory and bytes of one fit."""
    alice, bob = column_names(arguments.alice, arguments.bob)
    command = [demo, "vertical", "--data", str(data), "--outcome", "y" if family == "gaussian" else "event"]
    command += ["--alice", ",".join(alice), "--bob", ",".join(bob), "--family", family, "--format", "json"]
    command += ["--out", str(folder / "out")]
    if mode == "sealed":
        command += ["--mode", "sealed", "--sealed-limits", "off"]
    if mode == "private":
        bounds(folder / "bounds.toml", alice, bob, family)
        command += ["--mode", "private", "--epsilon", "1", "--delta", repr(min(1e-5, 1 / arguments.rows)), "--bounds", str(folder / "bounds.toml")]
    watch = Watch()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    cpu, others = watch.own(), watch.others()
    if done.returncode:
        sys.exit(f"demo vertical --mode {mode} --family {family} ended with {done.returncode}: {done.stderr[-500:]}")
    report = json.loads((folder / "out" / "report.json").read_text())
    roles = ["alice", "bob"]
    if mode == "private":
        seconds = min(logged(folder / "out" / role / "log.txt") for role in roles)
    else:
        seconds = max(report["seconds"][role]["total"] - report["seconds"][role]["read"] for role in roles)
    return {
        "seconds": seconds,
        "cpu": cpu,
        "others": others,
        "memory": None if mode == "private" else max(report["peak_rss_bytes"][role] for role in roles),
        "bytes": sum(report["bytes_sent"][role] for role in roles),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--alice", type=int, default=50, help="Alice's columns")
    parser.add_argument("--bob", type=int, default=50, help="Bob's columns")
    parser.add_argument("--repeat", type=int, default=3, help="pairs of which the median is printed")
    parser.add_argument("--family", choices=["gaussian", "binomial"], action="append", help="both by default")
    parser.add_argument("--mode", choices=["sealed", "private", "plain"], action="append",
                        help="sealed and private by default; plain with --plain-demo")
    parser.add_argument("--plain-demo", help="demo of an earlier build for the plain fits")
    parser.add_argument("--data", type=Path, help="a file that `vertical.py generate` has written for these sizes")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a target is missed or no ratio could be taken")
    arguments = parser.parse_args()
    if "plain" in (arguments.mode or []) and not arguments.plain_demo:
        parser.error("--mode plain compares two builds: --plain-demo names the other one")
    demo, missed = binary("demo"), []
    print(f"n = {arguments.rows}, {arguments.alice}+{arguments.bob} columns, {os.cpu_count()} processors, medians of {arguments.repeat} pairs")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = arguments.data or folder / "long.parquet"
        if not arguments.data:
            generate(data, arguments.rows, arguments.alice, arguments.bob, seed=1)
        for family in arguments.family or ["gaussian", "binomial"]:
            for mode in arguments.mode or ["sealed", "private"]:
                pairs = []
                for _ in range(arguments.repeat):
                    plain = fit(arguments.plain_demo or demo, data, "plain", family, arguments, folder)
                    pairs.append((plain, fit(demo, data, mode, family, arguments, folder)))
                plain = statistics.median(pair[0]["seconds"] for pair in pairs)
                other = statistics.median(pair[1]["seconds"] for pair in pairs)
                last, target = pairs[-1][1], TARGETS[family, mode]
                memory = "" if last["memory"] is None else f"{last['memory'] / 1e6:.0f} MB at most, "
                print(f"{mode} {family}: {other:.2f} s beside {plain:.2f} s plain with errors; {last['cpu']:.1f} CPU s of all processes, "
                      f"{memory}{last['bytes'] / 1e6:.0f} MB sent")
                others = max(run["others"] for pair in pairs for run in pair)
                if others > OTHERS:
                    print(f"  no ratio: other processes used {100 * others:.0f} % of the machine meanwhile")
                    missed.append(f"{mode} {family}: not idle")
                    continue
                ratio = statistics.median(pair[1]["seconds"] / pair[0]["seconds"] for pair in pairs)
                print(f"  ratio {ratio:.2f} (target {target}){'' if ratio <= target else ': MISSED'}", flush=True)
                missed += [f"{mode} {family}"] * (ratio > target)
    if missed:
        print("missed: " + ", ".join(missed))
    return 1 if missed and arguments.check else 0


if __name__ == "__main__":
    sys.exit(main())
