"""Reading from PostgreSQL beside COPY alone, and Parquet from a store on loopback beside the same file.

    python sources.py [--rows 1000000] [--columns 50] [--passes 5] [--check] postgres s3

Needs the reading measurement, built with both sources, and for PostgreSQL Debian's package (initdb, pg_ctl, psql):

    cargo test --release --locked -p fedreg-party --lib --features postgres,s3 --no-run

`postgres` starts a server in a temporary folder on loopback, makes a table of an id and float8 columns, and takes turns: `COPY ... TO
STDOUT` by psql into /dev/null, in text and in binary form, and reading all columns into memory. `s3` serves a Parquet file by ranges from this
process, and takes turns with reading the file. Medians of the passes; the ratio is speed against speed. With --check the script fails below 0.5 of the
faster COPY, and below 0.7 of the file. What other processes used of the machine is printed beside every figure.

    pip install pyarrow numpy
"""
import argparse
import json
import os
import pwd
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from machine import busy, own

ROOT = Path(__file__).resolve().parents[2]
MEASUREMENT = "read::tests::reading_takes"


def measurement():
    """The test program that holds the measurement: the last one that cargo built."""
    command = ["cargo", "test", "--release", "--locked", "-p", "fedreg-party", "--lib", "--features", "postgres,s3", "--no-run",
               "--message-format", "json"]
    lines = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    built = [json.loads(line) for line in lines]
    return [one["executable"] for one in built if one.get("executable") and one["target"]["name"] == "fedreg_party"][-1]


def read(program, source, table=None, more=None):
    """Seconds that reading takes, and how many rows and columns it found."""
    variables = {**os.environ, **(more or {}), "FEDREG_READ": source}
    if table:
        variables["FEDREG_READ_TABLE"] = table
    command = [program, MEASUREMENT, "--exact", "--ignored", "--nocapture"]
    said = subprocess.run(command, env=variables, stdout=subprocess.PIPE, text=True, check=True).stdout
    line = next(line for line in said.splitlines() if line.endswith(" s") and "rows" in line)
    return float(line.split(": ")[1].split()[0]), line.split(": ")[0]


def turns(passes, ways):
    """Takes turns: the median of each way, the spread, and the share of the machine that others used."""
    taken = {name: [] for name in ways}
    before, mine, start = busy(), own(), time.monotonic()
    for _ in range(passes):
        for name, way in ways.items():
            taken[name].append(way())
    wall = time.monotonic() - start
    # The server is no child of ours once it runs: what it uses counts as others' here.
    others = max(0.0, busy() - before - (own() - mine)) / (wall * os.cpu_count())
    for name, seconds in taken.items():
        spread = f"{min(seconds):.2f} to {max(seconds):.2f}"
        print(f"{name:34} {statistics.median(seconds):8.2f} s   ({spread})")
    print(f"other processes, a server included, used {others:.0%} of {os.cpu_count()} processors; load {os.getloadavg()[0]:.1f}")
    return {name: statistics.median(seconds) for name, seconds in taken.items()}


def postgres(arguments, program):
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not folders:
        sys.exit("there is no PostgreSQL server here: apt-get install postgresql")
    bin = folders[-1].parent
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    work = Path(tempfile.mkdtemp())
    owner = []
    if os.geteuid() == 0:
        os.chown(work, pwd.getpwnam("postgres").pw_uid, -1)
        owner = ["runuser", "-u", "postgres", "--"]

    def run(name, *flags):
        return subprocess.run([*owner, str(bin / name), *flags], check=True, stdout=subprocess.PIPE, text=True).stdout

    def psql(sql, out=subprocess.PIPE):
        command = [str(bin / "psql"), "-h", "127.0.0.1", "-p", port, "-U", "fedreg", "-d", "postgres", "-AtqX", "-c", sql]
        return subprocess.run(command, check=True, stdout=out, text=True).stdout

    def copy(form):
        with open(os.devnull, "w") as nothing:
            start = time.monotonic()
            psql(f"COPY wide TO STDOUT (FORMAT {form})", nothing)
            return time.monotonic() - start

    try:
        run("initdb", "-D", str(work / "base"), "-U", "fedreg", "-A", "trust", "--no-sync")
        run("pg_ctl", "-D", str(work / "base"), "-l", str(work / "log"), "-w", "start", "-o",
            f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={work} -c fsync=off -c shared_buffers=256MB")
        version = psql("SHOW server_version").strip()
        columns = ", ".join(f"sin(i * {at + 1}.37)::float8 AS x{at}" for at in range(arguments.columns - 1))
        psql(f"CREATE TABLE wide AS SELECT i::float8 AS id, {columns} FROM generate_series(1, {arguments.rows}) AS i")
        psql("VACUUM ANALYZE wide")
        source = f"postgres://fedreg@127.0.0.1:{port}/postgres"
        print(f"PostgreSQL {version}, {arguments.rows} rows, {arguments.columns} columns of float8")
        print("read:", read(program, source, "wide")[1])
        median = turns(arguments.passes, {
            "COPY TO STDOUT, text": lambda: copy("text"),
            "COPY TO STDOUT, binary": lambda: copy("binary"),
            "read into memory": lambda: read(program, source, "wide")[0],
        })
        for form in ["text", "binary"]:
            print(f"speed against COPY in {form} form: {median[f'COPY TO STDOUT, {form}'] / median['read into memory']:.2f}")
        return min(median["COPY TO STDOUT, text"], median["COPY TO STDOUT, binary"]) / median["read into memory"] >= 0.5
    finally:
        subprocess.run([*owner, str(bin / "pg_ctl"), "-D", str(work / "base"), "-m", "immediate", "stop"], stdout=subprocess.DEVNULL)
        shutil.rmtree(work, ignore_errors=True)


class Store:
    """A bucket of one object, by ranges. It shares the processors with the reader, so it does no more for a request than it must."""

    def __init__(self, content):
        self.content = memoryview(content)
        self.door = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.door.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            line, _ = self.door.accept()
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self.answer, args=(line,), daemon=True).start()

    def answer(self, line):
        heard = b""
        while more := line.recv(1 << 16):
            heard += more
            while b"\r\n\r\n" in heard:
                request, heard = heard.split(b"\r\n\r\n", 1)
                wanted = re.search(rb"(?i)\r\nrange: *bytes=(\d+)-(\d+)", request)
                first, last = (int(number) for number in wanted.groups()) if wanted else (0, len(self.content) - 1)
                status = f"206 Partial Content\r\nContent-Range: bytes {first}-{last}/{len(self.content)}" if wanted else "200 OK"
                head = f'HTTP/1.1 {status}\r\nContent-Length: {last + 1 - first}\r\nETag: "one"\r\n{MODIFIED}\r\n\r\n'.encode()
                body = self.content[first : last + 1] if request.startswith(b"GET") else b""
                sent = line.sendmsg([head, body]) - len(head)
                line.sendall(body[sent:])


MODIFIED = "Last-Modified: Wed, 31 Jan 2024 08:30:00 GMT"


def s3(arguments, program):
    import numpy
    import pyarrow
    import pyarrow.parquet

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "wide.parquet"
        rng = numpy.random.default_rng(1)
        table = pyarrow.table({f"x{at}": rng.standard_normal(arguments.rows) for at in range(arguments.columns)})
        pyarrow.parquet.write_table(table, path, row_group_size=100_000, use_dictionary=False)
        del table
        store = Store(path.read_bytes())
        keys = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{store.port}", "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y"}
        print(f"Parquet of {len(store.content) / 1e6:.0f} MB, {arguments.rows} rows, {arguments.columns} columns, groups of 100000 rows")
        print("read:", read(program, "s3://bucket/wide.parquet", more=keys)[1])
        median = turns(arguments.passes, {
            "the file": lambda: read(program, str(path))[0],
            "from the store": lambda: read(program, "s3://bucket/wide.parquet", more=keys)[0],
        })
        ratio = median["the file"] / median["from the store"]
        print(f"speed against the file: {ratio:.2f}")
        return ratio >= 0.7


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = {"postgres": postgres, "s3": s3}
    parser.add_argument("parts", nargs="*", metavar="postgres|s3", help="which of the two; both if none is named")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--program", help="the test program, where it is built already")
    arguments = parser.parse_args()
    unknown = [part for part in arguments.parts if part not in parts]
    if unknown:
        parser.error(f"{unknown[0]} is neither postgres nor s3")
    program = arguments.program or measurement()
    reached = [parts[part](arguments, program) for part in arguments.parts or parts]
    if arguments.check and not all(reached):
        sys.exit("slower than it should be")


if __name__ == "__main__":
    main()
