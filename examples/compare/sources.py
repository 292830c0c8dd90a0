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
import http.server
import json
import os
import pwd
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


class Store(http.server.BaseHTTPRequestHandler):
    """A bucket of one object, by ranges."""

    protocol_version = "HTTP/1.1"
    content = b""

    def log_message(self, *_):
        pass

    def reply(self, body):
        first, last = 0, len(self.content) - 1
        wanted = self.headers.get("Range")
        if wanted:
            first, last = (int(word) for word in wanted.removeprefix("bytes=").split("-"))
        self.send_response(206 if wanted else 200)
        if wanted:
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(self.content)}")
        self.send_header("Content-Length", str(last + 1 - first))
        self.send_header("ETag", '"one"')
        self.send_header("Last-Modified", "Wed, 31 Jan 2024 08:30:00 GMT")
        self.end_headers()
        if body:
            self.wfile.write(memoryview(self.content)[first : last + 1])

    def do_GET(self):
        self.reply(True)

    def do_HEAD(self):
        self.reply(False)


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
        Store.content = path.read_bytes()
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Store)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        keys = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}", "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y"}
        print(f"Parquet of {len(Store.content) / 1e6:.0f} MB, {arguments.rows} rows, {arguments.columns} columns, groups of 100000 rows")
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
    parser.add_argument("parts", nargs="*", choices=["postgres", "s3"], default=["postgres", "s3"])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--program", help="the test program, where it is built already")
    arguments = parser.parse_args()
    program = arguments.program or measurement()
    reached = [{"postgres": postgres, "s3": s3}[part](arguments, program) for part in arguments.parts]
    if arguments.check and not all(reached):
        sys.exit("slower than it should be")


if __name__ == "__main__":
    main()
