"""Times a stream between two workers and a coordinator, plain and private, as processes over mutual TLS on this machine.

    python stream.py                               5 000 000 records a worker in plain mode, 1 000 000 in private mode
    python stream.py --records 100000              a quick look: so many a worker in both modes

A record is sin(2 pi x) with noise, both columns with four decimals, in a CSV file for each worker; the function lives on a grid of
50 points. Printed: records a second from the start of the workers to the end of the last one, start-up and reading included; the
largest resident memory of the coordinator and of a worker; and what is left on disk for each person of a private run.

Programs are taken from FEDREG_BIN, else from target/release. Nothing but Python is needed.
"""

import argparse
import json
import math
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from programs import binary

WORKERS = ["north", "south"]


def generate(path, records, seed):
    draw = random.Random(seed)
    with path.open("w") as file:
        file.write("x,y\n")
        for _ in range(records):
            x = draw.random()
            file.write(f"{x:.4f},{math.sin(2 * math.pi * x) + 0.3 * draw.gauss(0, 1):.4f}\n")


def study(mode, group, epsilon, delta):
    budget = f"[privacy]\nepsilon = {epsilon}\ndelta = {delta}\n" if mode == "private" else ""
    workers = "".join(f'[workers.{name}]\ncertificate = "{name}"\n' for name in WORKERS)
    return f"""
id = "speed"
protocol = "stream"
mode = "{mode}"
{budget}{workers}
[coordinator]
certificate = "coordinator"
[model]
features = ["x"]
[outcome]
column = "y"
[columns.x]
range = [0, 1]
[columns.y]
range = [-1, 1]
[sites]
batch_rows = {group}
[stream]
grid = 50
"""


def run(program, *words, folder):
    result = subprocess.run([binary(program), *words], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if result.returncode != 0:
        sys.exit(f"{program} {' '.join(words)} ended with {result.returncode}:\n{result.stdout}")


def prepare(folder, mode, flags):
    (folder / "study.toml").write_text(study(mode, flags.group_of[mode], flags.epsilon, flags.delta))
    run("coordinator", "certs", "authority", "--name", "speed", "--out", ".", folder=folder)
    tls = '[tls]\nauthority = "authority.pem"\ncertificate = "{0}.pem"\nkey = "{0}.key"\n'
    for name in [*WORKERS, "coordinator"]:
        words = ["--authority", ".", "--name", name, "--also", "localhost,127.0.0.1", "--out", "."]
        run("coordinator", "certs", "issue", *words, folder=folder)
    text = f'study = "study.toml"\nlisten = "127.0.0.1:0"\nstate = "coordinator"\n{tls.format("coordinator")}'
    (folder / "coordinator.toml").write_text(text)


def worker_file(folder, name, address, mode):
    ledger = f'[privacy]\ndata_set = "speed"\nanchor = "{name}.anchor"\n' if mode == "private" else ""
    text = f'study = "study.toml"\ncoordinator = "{address}"\nstate = "{name}"\n[data]\nfile = "{name}.csv"\n[tls]\n'
    text += f'authority = "authority.pem"\ncertificate = "{name}.pem"\nkey = "{name}.key"\n{ledger}'
    (folder / f"{name}.toml").write_text(text)


def start(program, *words, folder, log):
    with (folder / log).open("w") as file:
        return subprocess.Popen([binary(program), *words], cwd=folder, stdout=subprocess.DEVNULL, stderr=file)


def finished(child, folder, log):
    """Waits, and gives the largest resident bytes of the process."""
    _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        sys.exit(f"a process ended with {os.waitstatus_to_exitcode(status)}:\n{(folder / log).read_text()[-2000:]}")
    return usage.ru_maxrss * (1 if platform.system() == "Darwin" else 1024)


def measure(mode, records, flags):
    with tempfile.TemporaryDirectory(dir=flags.folder) as name:
        folder = Path(name)
        for seed, worker in enumerate(WORKERS, 1):
            generate(folder / f"{worker}.csv", records, seed)
        prepare(folder, mode, flags)
        words = ["serve", "--config", "coordinator.toml", "--announce", "address", "--out", "reports"]
        coordinator = start("coordinator", *words, folder=folder, log="coordinator.log")
        while not (folder / "address").exists():
            if coordinator.poll() is not None:
                sys.exit((folder / "coordinator.log").read_text())
            time.sleep(0.02)
        address = (folder / "address").read_text()
        for worker in WORKERS:
            worker_file(folder, worker, address, mode)
            if mode == "private":
                run("worker", "privacy", "init", "--config", f"{worker}.toml", folder=folder)
        begun = time.perf_counter()
        children = [start("worker", "join", "--config", f"{w}.toml", folder=folder, log=f"{w}.log") for w in WORKERS]
        largest = max(finished(child, folder, f"{w}.log") for child, w in zip(children, WORKERS))
        seconds = time.perf_counter() - begun
        hub = finished(coordinator, folder, "coordinator.log")
        taken = json.loads((folder / "reports" / "report.json").read_text())["nobs"]
        line = f"{taken} records in {seconds:.1f} s, {taken / seconds:.0f} a second, messages of {flags.group_of[mode]}; "
        line += f"coordinator {hub / 1e6:.0f} MB, a worker at most {largest / 1e6:.0f} MB"
        if mode == "private":
            kept = (folder / WORKERS[0] / "stream.sqlite").stat().st_size
            line += f", {kept / records:.0f} bytes a person on disk"
        print(f"    {mode:8} {line}", flush=True)
        if taken != records * len(WORKERS):
            sys.exit(f"{records * len(WORKERS)} records were sent")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, help="of each worker, in both modes")
    parser.add_argument("--group", type=int, help="records of a message, at most; 1000 in plain and 200 in private mode")
    parser.add_argument("--epsilon", type=float, default=3.0)
    parser.add_argument("--delta", type=float, default=1e-7)
    parser.add_argument("--folder", help="where the tables are written, 130 MB at the default size")
    flags = parser.parse_args()
    flags.group_of = {"plain": flags.group or 1000, "private": flags.group or 200}
    print(f"{platform.machine()}, {os.cpu_count()} cores; a grid of 50 points, two workers, CSV")
    measure("plain", flags.records or 5_000_000, flags)
    measure("private", flags.records or 1_000_000, flags)


if __name__ == "__main__":
    main()
