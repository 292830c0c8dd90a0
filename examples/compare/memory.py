"""Fits a table that is larger than what each party may take of memory.

    python memory.py                                       20 000 000 rows, 25+25 columns (8 GB), 2 GiB a party
    python memory.py --rows 3000000 --memory 512MiB        a smaller one
    python memory.py --family binomial --no-inference      another family, without standard errors

Two parties and a coordinator as separate processes over mutual TLS, each party with `--memory` and in a control group of its own that
has as much (root, version 1 or 2). Where no group can be made, RLIMIT_DATA limits what lies in memory alone. Printed are the seconds,
the most that lay in memory alone, what both parties read from the disk in whole tables of their columns, and how many times as long
the fit took as reading as much in one piece does, which is measured in the same run. `--check` turns a missed target into exit status 1.
Linux. Needs numpy and pyarrow, and 30 bytes of disk a value; programs from `FEDREG_BIN`, else `target/release`.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from line import prepare
from programs import binary
from vertical import column_names

# Most that a fit may take, as a multiple of reading what it reads.
TARGET = 3

# Rows that are drawn and written at a time.
GROUP = 500_000

UNITS = {"GiB": 1 << 30, "MiB": 1 << 20, "GB": 10**9, "MB": 10**6}

# Where control groups of version 2 and 1 are, with the file of their limit.
GROUPS = [(Path("/sys/fs/cgroup"), "memory.max"), (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes")]


def generate(path, rows, names):
    """Draws a table in parts: half of each column is shared with the first, so that rounds are needed."""
    rng, writer = np.random.default_rng(1), None
    beta = rng.standard_normal(len(names)) / 10
    for start in range(0, rows, GROUP):
        count = min(GROUP, rows - start)
        x = rng.standard_normal((len(names), count))
        x[1:] += 0.5 * x[0]
        eta = beta @ x
        event = rng.random(count) < 1 / (1 + np.exp(-eta))
        columns = [np.arange(start, start + count), eta + rng.standard_normal(count), event.astype(float), *x]
        table = pa.table(columns, names=["id", "y", "event", *names])
        writer = writer or pq.ParquetWriter(path, table.schema, compression="none", use_dictionary=False)
        writer.write_table(table)
    writer.close()


def group(name, limit):
    """The folder of a new control group with a limit of memory; None where none can be made."""
    for root, file in GROUPS:
        folder = root / f"fedreg-{os.getpid()}-{name}"
        try:
            folder.mkdir()
        except OSError:
            continue
        # What is no folder of groups has no such file in a new one.
        if (folder / file).exists() and (folder / "cgroup.procs").exists():
            (folder / file).write_text(str(limit))
            return folder
        folder.rmdir()
    return None


class Watched(threading.Thread):
    """A party within its limit; what it took at most, and what it read."""

    def __init__(self, name, folder, arguments, limit):
        super().__init__()
        self.group, self.alone, self.read = group(name, limit), 0, 0

        # The shell limits itself, and becomes the party.
        within = f"echo $$ > {self.group}/cgroup.procs" if self.group else f"ulimit -d {limit >> 10}"
        command = [binary(name), "fit", "--out", "results", "--log", "json", "--memory", arguments.memory]
        shell = ["sh", "-c", f'{within} && exec "$@"', name, *command]
        with open(folder / "log", "w") as errors:
            self.process = subprocess.Popen(shell, cwd=folder, stdout=subprocess.DEVNULL, stderr=errors)
        self.start()

    def run(self):
        place = Path(f"/proc/{self.process.pid}")
        while self.process.poll() is None:
            try:
                alone = re.search(r"RssAnon:\s*(\d+)", (place / "status").read_text())
                read = re.search(r"^read_bytes: (\d+)", (place / "io").read_text(), re.MULTILINE)
                self.alone, self.read = max(self.alone, int(alone[1]) << 10), int(read[1])
            except (OSError, TypeError):
                pass
            time.sleep(0.05)
        if self.group:
            self.group.rmdir()


def uncached(path):
    """Bytes a second of reading a file that is not in memory."""
    with open(path, "rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        begun, size = time.monotonic(), 0
        while part := file.read(1 << 22):
            size += len(part)
        return size / (time.monotonic() - begun)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--alice", type=int, default=25, help="Alice's columns")
    parser.add_argument("--bob", type=int, default=25, help="Bob's columns")
    parser.add_argument("--memory", default="2GiB", help="of each party")
    parser.add_argument("--family", choices=["gaussian", "binomial"], default="gaussian")
    parser.add_argument("--no-inference", action="store_true", help="without standard errors")
    parser.add_argument("--folder", type=Path, help="where the table and the parties' folders are put; a temporary folder by default")
    parser.add_argument("--check", action="store_true", help="exit with 1 if the target is missed")
    arguments = parser.parse_args()
    number, unit = re.fullmatch(r"(\d+)([GM]i?B)", arguments.memory).groups()
    limit = int(number) * UNITS[unit]
    with tempfile.TemporaryDirectory(dir=arguments.folder) as scratch:
        scratch = Path(scratch)
        data = scratch / "data.parquet"
        alice, bob = column_names(arguments.alice, arguments.bob)
        generate(data, arguments.rows, alice + bob)
        prepare(scratch / "study", data, arguments.family, arguments)
        os.sync()
        speed = uncached(data)
        home = scratch / "study"
        serve = [binary("coordinator"), "serve", "--log", "json"]
        coordinator = subprocess.Popen(serve, cwd=home / "coordinator", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        parties = {name: Watched(name, home / name, arguments, limit) for name in ["alice", "bob"]}
        for name, party in parties.items():
            party.join()
            if party.process.returncode:
                coordinator.kill()
                sys.exit(f"{name} ended with {party.process.returncode}: {(home / name / 'log').read_text()[-500:]}")
        coordinator.wait()
        reports = [json.loads((home / name / "results" / "report.json").read_text()) for name in parties]
    seconds = max(report["seconds"]["total"] for report in reports)
    read = sum(party.read for party in parties.values())
    told = sum(report.get("in_files", {}).get("read_bytes") or 0 for report in reports)
    block = arguments.rows * (arguments.alice + arguments.bob) * 8
    ratio = seconds * speed / read
    groups = "control groups" if all(party.group for party in parties.values()) else "RLIMIT_DATA, no control groups"
    alone = max(party.alone for party in parties.values()) / (1 << 20)
    print(f"{arguments.family}: {seconds:.1f} s in {reports[0]['rounds']} rounds under {arguments.memory} a party ({groups}); at most "
          f"{alone:.0f} MiB in memory alone; {read / block:.1f} passes over the columns read from the disk "
          f"({told / block:.1f} by the reports, which count from when the tables were read), "
          f"which takes {read / speed:.1f} s in one piece: ratio {ratio:.2f} (at most {TARGET})")
    if arguments.check and ratio > TARGET:
        sys.exit(1)


if __name__ == "__main__":
    main()
