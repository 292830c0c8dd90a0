"""Record matching beside openmined-psi, in the same run on the same identifiers.

`reproduce matching` matches identifiers of 11 digits, half of them in both tables; both parties learn who matched. openmined-psi
(ECDH over P-256) does the same with its list of raw encodings, and one party learns who matched. CPU time of both sides together.

    pip install openmined-psi
    python matching.py [--rows 1000000] [--check]
"""
import argparse
import re
import subprocess
import sys
import time

from programs import binary

# Most of our CPU time over theirs.
RATIO = 0.7


def identifiers(first, rows):
    """The same as `reproduce matching` makes."""
    return [f"{number * 7_368_787 % 99_999_999_977:011}" for number in range(first, first + rows)]


def rival(rows):
    """CPU seconds of openmined-psi for both sides."""
    import private_set_intersection.python as psi

    server_items, client_items = identifiers(0, rows), identifiers(rows // 2, rows)
    clock = time.process_time()
    server = psi.server.CreateWithNewKey(True)
    client = psi.client.CreateWithNewKey(True)
    setup = server.CreateSetupMessage(0.0, len(client_items), server_items, psi.DataStructure.RAW)
    request = client.CreateRequest(client_items)
    response = server.ProcessRequest(request)
    found = client.GetIntersection(setup, response)
    seconds = time.process_time() - clock
    assert len(found) == rows - rows // 2, f"openmined-psi found {len(found)}"
    return seconds


def ours(rows):
    """CPU seconds of both parties, from the row of the table."""
    text = subprocess.run([binary("reproduce"), "matching"], check=True, capture_output=True, text=True).stdout
    for line in text.splitlines():
        cells = re.sub("[|,]", " ", line).split()
        if cells and cells[0] == str(rows):
            return text, float(cells[1]) + float(cells[2])
    sys.exit(f"reproduce matching has no row for {rows} records:\n{text}")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", type=int, default=1_000_000, choices=[10_000, 100_000, 1_000_000])
    arguments.add_argument("--check", action="store_true", help="exit with 1 if the target is missed")
    arguments = arguments.parse_args()
    text, own = ours(arguments.rows)
    theirs = rival(arguments.rows)
    print(text)
    per_row = 1e6 / arguments.rows
    print(f"both sides, microseconds of CPU a record: fedreg {own * per_row:.0f}, openmined-psi {theirs * per_row:.0f}")
    print(f"ratio {own / theirs:.2f}, target at most {RATIO}")
    if arguments.check and own > RATIO * theirs:
        sys.exit(1)


if __name__ == "__main__":
    main()
