"""Shows that Spark changes nothing: the consensus of its tasks is that of the same rows through pipes of a shell.

    python same.py [--master "local-cluster[2,1,1024]"]

Writes seeded rows, of which a fifth is corrupted, in files of one batch each, so that every task has the rows of one file;
runs consensus.py on them and `worker estimate | coordinator consolidate` without Spark; and compares coefficients, standard
errors and the number of trusted batches bit by bit.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from consensus import binary

ROWS, FILES, BETA = 2000, 6, (1.0, -0.5, 0.25, 2.0)


def write(folder):
    """Rows of y = b0 + b'x + noise; the last two files are nearly all corrupted, the others by a tenth."""
    draw = random.Random(1)
    for index in range(FILES):
        bad = 0.9 if index >= FILES - 2 else 0.1
        with (folder / f"part-{index:05d}.csv").open("w") as out:
            out.write("a,b,c,y\n")
            for _ in range(ROWS):
                x = [draw.gauss(0, 1) for _ in BETA[1:]]
                y = BETA[0] + sum(b * v for b, v in zip(BETA[1:], x)) + draw.gauss(0, 0.3)
                if draw.random() < bad:
                    y += draw.uniform(-50, 50)
                out.write(",".join(map(repr, [*x, y])) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--master", default="local[2]")
    flags = parser.parse_args()
    here = Path(__file__).parent
    common = ["--outcome", "y", "--features", "a,b,c", "--batch-rows", str(ROWS)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder)
        environment = dict(os.environ, PYTHONPATH=str(here))
        spark = subprocess.run(
            [sys.executable, here / "consensus.py", "--data", str(folder), *common, "--format", "json", "--master", flags.master],
            stdout=subprocess.PIPE,
            env=environment,
        )
        lines = b""
        for part in sorted(folder.glob("part-*.csv")):
            command = [binary("worker"), "estimate", *common, "--worker", part.stem]
            lines += subprocess.run(command, stdin=part.open("rb"), stdout=subprocess.PIPE, check=True).stdout
        shell = subprocess.run(
            [binary("coordinator"), "consolidate", "--format", "json"], input=lines, stdout=subprocess.PIPE
        )
    reports = [json.loads(run.stdout) for run in (spark, shell)]

    def essence(report):
        # Spark decides which file is which partition, so names differ; sums over batches in another order round differently.
        batches = sorted((b["nobs"], b["kept"], b["trusted"]) for b in report["batches"])
        return report["consolidation"], report["verdict"], batches

    worst = max(
        abs(a[key] - b[key]) / abs(b[key])
        for a, b in zip(*(report["coefficients"] for report in reports))
        for key in ("estimate", "std_error")
    )
    for report, where in zip(reports, (f"Spark, {flags.master}", "shell")):
        print(f"{where:30s}", *(f"{row['term']} {row['estimate']:.6f}" for row in report["coefficients"]), f"trusted {report['trusted']}/{FILES}")
    print(f"largest relative difference {worst:.1e}")
    error = max(abs(row["estimate"] - b) for row, b in zip(reports[0]["coefficients"], BETA))
    print(f"largest distance from the true coefficients {error:.4f}")
    same = essence(reports[0]) == essence(reports[1]) and worst < 1e-12 and spark.returncode == shell.returncode == 0
    print("the same consensus" if same else "NOT the same consensus")
    sys.exit(0 if same and error < 0.05 else 1)


if __name__ == "__main__":
    main()
