"""Times a round of a plain fit of three parties, and a whole sealed one, beside those of two parties on the same data, in the same run.

    python several.py                     n = 1 000 000, 34+33+33 columns beside 50+50, medians of 3 paired runs
    python several.py --rows 100000       another size
    python several.py --parties 5         more parties
    python several.py --fit sealed        sealed gaussian fits alone

Each pair is a fit by `demo vertical --alice .. --bob ..` and one by `demo vertical --parties ..`, as separate processes over mutual TLS,
plain ones without standard errors; of each, `seconds.total - seconds.read` of the slowest party, of a plain one over the rounds. A ratio is printed only where all
other processes used less than 10 % of the machine's CPU time. `--check` turns a missed target into exit status 1. Needs numpy
and pyarrow, 0.8 GB of disk and 4 GB of memory; programs from `FEDREG_BIN`, else `target/release`.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from machine import OTHERS, Watch
from programs import binary
from vertical import column_names, generate

# Most that a round of several may take, and a sealed fit, as a share of that of two parties.
TARGETS = {"gaussian": 1.3, "binomial": 1.3, "sealed": 2.5}


def fit(demo, data, family, blocks, folder):
    """Seconds, rounds, and the share of the machine that others used, of one fit of these blocks of columns."""
    command = [demo, "vertical", "--data", str(data), "--outcome", "event" if family == "binomial" else "y"]
    command += ["--format", "json", "--out", str(folder / "out")]
    command += ["--mode", "sealed", "--sealed-limits", "off"] if family == "sealed" else ["--family", family, "--no-inference"]
    if len(blocks) == 2:
        command += ["--alice", ",".join(blocks[0]), "--bob", ",".join(blocks[1])]
    else:
        command += ["--parties", ";".join(f"p{at}={','.join(block)}" for at, block in enumerate(blocks))]
    watch = Watch()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    others = watch.others()
    if done.returncode:
        sys.exit(f"{len(blocks)} parties, {family}: ended with {done.returncode}: {done.stderr[-500:]}")
    report = json.loads((folder / "out" / "report.json").read_text())
    seconds = max(each["total"] - each["read"] for each in report["seconds"].values())
    return {"seconds": seconds, "rounds": report["rounds"], "others": others}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=100, help="of all parties together")
    parser.add_argument("--parties", type=int, default=3)
    parser.add_argument("--repeat", type=int, default=3, help="pairs of which the median is printed")
    parser.add_argument("--fit", choices=list(TARGETS), action="append", help="all by default")
    parser.add_argument("--data", type=Path, help="a file that `vertical.py generate` has written for these sizes")
    parser.add_argument("--check", action="store_true", help="exit with 1 if the target is missed or no ratio could be taken")
    arguments = parser.parse_args()
    demo, missed = binary("demo"), []
    half = arguments.columns // 2
    names = sum(column_names(half, arguments.columns - half), [])
    two = [names[:half], names[half:]]
    # The first blocks are the larger ones: 34+33+33.
    cuts = [-(-at * len(names) // arguments.parties) for at in range(arguments.parties + 1)]
    several = [names[start:end] for start, end in zip(cuts, cuts[1:])]
    sizes = "+".join(str(len(block)) for block in several)
    print(f"n = {arguments.rows}, {sizes} columns beside {half}+{len(names) - half}, {os.cpu_count()} processors, medians of {arguments.repeat} pairs")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = arguments.data or folder / "long.parquet"
        if not arguments.data:
            generate(data, arguments.rows, half, len(names) - half, seed=1)
        for family in arguments.fit or TARGETS:
            pairs = [
                (fit(demo, data, family, two, folder), fit(demo, data, family, several, folder))
                for _ in range(arguments.repeat)
            ]
            for label, side in (("two parties", 0), (f"{arguments.parties} parties", 1)):
                seconds = statistics.median(pair[side]["seconds"] for pair in pairs)
                print(f"{family}, {label}: {seconds:.2f} s in all, {pairs[0][side]['rounds']} rounds")
            others = max(run["others"] for pair in pairs for run in pair)
            if others > OTHERS:
                print(f"  no ratio: other processes used {100 * others:.0f} % of the machine meanwhile")
                missed.append(f"{family}: not idle")
                continue
            a_round = lambda run: run["seconds"] / run["rounds"]
            ratio, target = statistics.median(a_round(pair[1]) / a_round(pair[0]) for pair in pairs), TARGETS[family]
            what = "in all" if family == "sealed" else "a round"
            print(f"  {what}: ratio {ratio:.2f} (target {target}){'' if ratio <= target else ': MISSED'}", flush=True)
            missed += [family] * (ratio > target)
    if missed:
        print("missed: " + ", ".join(missed))
    return 1 if missed and arguments.check else 0


if __name__ == "__main__":
    sys.exit(main())
