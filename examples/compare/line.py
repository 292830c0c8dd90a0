"""Times plain fits over a slow line, beside the same fits without it.

    python line.py                                    25 ms and 100 Mbit/s, n = 200 000, 10+10 columns
    python line.py --delay 100 --rate 10              another line
    python line.py --family gaussian --no-inference   one family, without standard errors

Two parties and a coordinator as separate processes over mutual TLS; between the parties stands a proxy that hands every byte on
after the delay, and no more bytes a second than the rate. The ideal is the time of the fit without the proxy, plus the bytes that
the parties sent over the rate, plus the delay for every message, as each waits for the one before it: two a round, and OTHER_MESSAGES
with which the parties agree and part. Printed are medians of
`--repeat` pairs. `--check` turns a missed target into exit status 1. Needs numpy and pyarrow; programs from `FEDREG_BIN`, else
`target/release`.
"""
import argparse
import asyncio
import json
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from programs import binary
from vertical import column_names, generate

# Most that a fit may take, as a multiple of the ideal.
TARGET = 1.15

# Greetings, proofs of rows, digests, results, goodbyes; parts of a basis are sent one behind the other.
OTHER_MESSAGES = 12

# Bytes that are read at a time, and bytes on the way at most in one direction.
CHUNK, WINDOW = 1 << 16, 1 << 24


class Proxy(threading.Thread):
    """A line to `port` with a delay in seconds and a rate in bytes a second, in each direction."""

    def __init__(self, port, delay, rate):
        super().__init__(daemon=True)
        self.target, self.delay, self.rate = port, delay, rate
        self.loop, self.listening = asyncio.new_event_loop(), socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]

    def run(self):
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(asyncio.start_server(self.joined, sock=self.listening))
        self.loop.run_forever()

    async def joined(self, reader, writer):
        try:
            onward, back = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(self.pipe(reader, back), self.pipe(onward, writer))

    async def pipe(self, reader, writer):
        """Takes bytes in as fast as the rate allows, and hands them on after the delay."""
        queue, free = asyncio.Queue(maxsize=WINDOW // CHUNK), self.loop.time()

        async def hand_on():
            while True:
                due, data = await queue.get()
                await asyncio.sleep(max(0.0, due - self.loop.time()))
                if not data:
                    break
                writer.write(data)
                await writer.drain()
            writer.close()

        handing = asyncio.ensure_future(hand_on())
        try:
            while True:
                data = await reader.read(CHUNK)
                free = max(free, self.loop.time()) + len(data) / self.rate
                await queue.put((free + self.delay, data))
                if not data:
                    break
                await asyncio.sleep(max(0.0, free - self.loop.time()))
        except ConnectionError:
            await queue.put((0, b""))
        await asyncio.gather(handing, return_exceptions=True)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


def prepare(folder, data, family, arguments):
    """Folders of a study for everybody, with certificates; ports of the coordinator and of the listening party."""
    alice, bob = column_names(arguments.alice, arguments.bob)
    command = [binary("demo"), "vertical", "--data", str(data), "--outcome", "y" if family == "gaussian" else "event", "--family", family]
    command += ["--alice", ",".join(alice), "--bob", ",".join(bob), "--as-study", str(folder)]
    command += ["--no-inference"] if arguments.no_inference else []
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    home = folder / "coordinator"
    for name in ["coordinator", "alice", "bob"]:
        sign = [binary("coordinator"), "certs", "sign", "--authority", "authority", "--request", f"requests/{name}.csr", "--name", name]
        subprocess.run([*sign, "--out", "certificates"], cwd=home, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if name != "coordinator":
            (folder / name / "certificates" / f"{name}.pem").write_text((home / "certificates" / f"{name}.pem").read_text())
    ports = {"7100": free_port(), "7101": free_port()}
    for name in ["coordinator", "alice", "bob"]:
        path = folder / name / f"{name}.toml"
        text = path.read_text().replace('"data.csv"', json.dumps(str(data)))
        path.write_text(re.sub(r":(7100|7101)\b", lambda found: f":{ports[found[1]]}", text))
    return ports["7101"]


def fit(folder, dialled):
    """Reports of both parties; Bob dials the port `dialled`."""
    path = folder / "bob" / "bob.toml"
    path.write_text(re.sub(r'connect = "localhost:\d+"', f'connect = "localhost:{dialled}"', path.read_text()))
    commands = {name: [binary(name), "fit", "--out", "results", "--log", "json"] for name in ["alice", "bob"]}
    commands["coordinator"] = [binary("coordinator"), "serve", "--log", "json"]
    running = {
        name: subprocess.Popen(command, cwd=folder / name, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for name, command in commands.items()
    }
    for name, process in running.items():
        said = process.communicate()[1]
        if process.returncode:
            sys.exit(f"{name} ended with {process.returncode}: {said[-500:]}")
    return [json.loads((folder / name / "results" / "report.json").read_text()) for name in ["alice", "bob"]]


def measure(reports):
    """Seconds from the first message to the end of the slower party, bytes and messages of both."""
    seconds = max(report["seconds"]["total"] - report["seconds"]["read"] for report in reports)
    sent = sum(report["bytes_sent"] for report in reports)
    return seconds, sent, 2 * reports[0]["rounds"] + OTHER_MESSAGES


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--alice", type=int, default=10, help="Alice's columns")
    parser.add_argument("--bob", type=int, default=10, help="Bob's columns")
    parser.add_argument("--delay", type=float, default=25, help="milliseconds, one way")
    parser.add_argument("--rate", type=float, default=100, help="Mbit a second, each way")
    parser.add_argument("--repeat", type=int, default=3, help="pairs of which the median is printed")
    parser.add_argument("--family", choices=["gaussian", "binomial"], action="append", help="both by default")
    parser.add_argument("--no-inference", action="store_true", help="fits without standard errors")
    parser.add_argument("--check", action="store_true", help="exit with 1 if the target is missed")
    arguments = parser.parse_args()
    delay, rate = arguments.delay / 1000, arguments.rate * 1e6 / 8
    missed = False
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        generate(scratch / "data.parquet", arguments.rows, arguments.alice, arguments.bob, 1)
        for family in arguments.family or ["gaussian", "binomial"]:
            listens = prepare(scratch / family, scratch / "data.parquet", family, arguments)
            proxy = Proxy(listens, delay, rate)
            proxy.start()
            near, far = [], []
            for _ in range(arguments.repeat):
                near.append(measure(fit(scratch / family, listens)))
                far.append(measure(fit(scratch / family, proxy.port)))
            undelayed, taken = (statistics.median(seconds for seconds, _, _ in runs) for runs in (near, far))
            _, sent, messages = far[-1]
            ideal = undelayed + sent / rate + messages * delay
            missed |= taken > TARGET * ideal
            print(f"{family}: {taken:.2f} s; without the line {undelayed:.2f} s, {sent / 1e6:.1f} MB, {messages} messages: "
                  f"ideal {ideal:.2f} s, ratio {taken / ideal:.2f} (at most {TARGET})")
    if arguments.check and missed:
        sys.exit(1)


if __name__ == "__main__":
    main()
