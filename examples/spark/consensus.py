"""Robust regression on Apache Spark: `worker estimate` beside each task's rows, `coordinator consolidate` at the driver.

Each task pipes its record batches, as an Arrow stream, through one `worker estimate` process and yields its lines; Spark moves
the rows and starts the tasks again where they fail, fedreg fits and consolidates. A task that is tried twice gives the same
estimate twice, and the same estimate counts once.

    python consensus.py --data rows.csv --outcome y --features a,b --master "local[2]"
"""

import argparse
import csv
import io
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path


def binary(name):
    """The program from FEDREG_BIN, or from the path."""
    folder = os.environ.get("FEDREG_BIN")
    found = shutil.which(name, path=folder) if folder else shutil.which(name)
    if found is None:
        sys.exit(f"{name} was not found: build it with cargo, and set FEDREG_BIN to its folder")
    return found


def estimates_of(command):
    """A function for `mapInArrow`: record batches of rows in, record batches with one line of JSON per estimate out."""

    def run(batches):
        import pyarrow as pa
        from pyspark import TaskContext

        batches = iter(batches)
        first = next(batches, None)
        if first is None:
            return
        name = f"partition-{TaskContext.get().partitionId():05d}"
        process = subprocess.Popen([*command, "--worker", name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        refused = []
        reader = threading.Thread(target=lambda: refused.append(process.stderr.read()))
        reader.start()
        failure = []

        def feed():
            try:
                with process.stdin as sink, pa.ipc.new_stream(sink, first.schema) as writer:
                    writer.write_batch(first)
                    for batch in batches:
                        writer.write_batch(batch)
            except BrokenPipeError:
                pass  # The program has ended; its exit code says why.
            except Exception as error:  # Raised again below, in the task's own thread.
                failure.append(error)
                process.kill()

        writer = threading.Thread(target=feed)
        writer.start()
        for line in process.stdout:
            yield pa.RecordBatch.from_pydict({"estimate": [line.decode().rstrip("\n")]})
        writer.join()
        code = process.wait()
        reader.join()
        if failure:
            raise failure[0]
        if code != 0:
            raise RuntimeError(f"worker estimate ended with {code}: {refused[0].decode().strip()}")

    return run


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="CSV or Parquet that all executors can read")
    parser.add_argument("--outcome", required=True)
    parser.add_argument("--features", required=True, help="comma-separated, quoted as in CSV")
    parser.add_argument("--batch-rows", type=int, default=5000)
    parser.add_argument("--start", default="auto")
    parser.add_argument("--consolidation", default="refine")
    parser.add_argument("--partitions", type=int, help="tasks; by default as Spark splits the file")
    parser.add_argument("--master", default="local[2]", help='such as "local-cluster[2,1,1024]" or spark://host:7077')
    parser.add_argument("--format", default="text", choices=["text", "json", "csv", "html"])
    flags = parser.parse_args()

    from pyspark.sql import SparkSession

    # Executors must run the same Python as the driver.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    columns = [*next(csv.reader(io.StringIO(flags.features))), flags.outcome]
    command = [binary("worker"), "estimate", "--outcome", flags.outcome, "--features", flags.features]
    command += ["--batch-rows", str(flags.batch_rows), "--start", flags.start, "--threads", "1"]
    builder = SparkSession.builder.master(flags.master).appName("fedreg").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        if flags.data.endswith(".parquet"):
            rows = spark.read.parquet(flags.data)
        else:
            rows = spark.read.csv(flags.data, header=True, inferSchema=True)
        rows = rows.select(*[f"`{name}`" for name in columns])
        if flags.partitions:
            rows = rows.repartitionByRange(flags.partitions, *[f"`{name}`" for name in columns])
        found = rows.mapInArrow(estimates_of(command), "estimate string")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "estimates.jsonl"
            with path.open("w") as lines:
                for row in found.toLocalIterator():
                    lines.write(row.estimate + "\n")
            ended = subprocess.run(
                [binary("coordinator"), "consolidate", "--consolidation", flags.consolidation, "--format", flags.format, path]
            )
    finally:
        spark.stop()
    sys.exit(ended.returncode)


if __name__ == "__main__":
    main()
