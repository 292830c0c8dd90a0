"""Writes arrow/mixed.arrows: an Arrow IPC stream with every type that can be used and some that cannot.

    python tests/vectors/make/arrow.py
"""

import datetime
import decimal
from pathlib import Path

import pyarrow as pa

N = 7
table = pa.table(
    {
        "level": pa.array(["a", "b", "a", None, "b", "a", "a"]).dictionary_encode(),
        "pair": pa.array([[float(i), 2.0] for i in range(N)], pa.list_(pa.float64())),
        "point": pa.array([{"x": i, "name": str(i)} for i in range(N)]),
        "day": pa.array([datetime.date(2024, 1, 1 + i) for i in range(N)]),
        "cents": pa.array([decimal.Decimal(i) for i in range(N)], pa.decimal128(9, 2)),
        "nothing": pa.nulls(N),
        "y": pa.array([None if i == 1 else 0.5 * i - 1.0 for i in range(N)]),
        "n": pa.array([-3, -2, -1, 0, 1, 2, 2**53 - 1], pa.int64()),
        "tiny": pa.array([255, 1, 2, 3, 4, 5, 6], pa.uint8()),
        "single": pa.array([0.25 + i for i in range(N)], pa.float32()),
        "smoker": pa.array([i % 2 == 0 for i in range(N)]),
        "region": pa.array(["north", "south"] * 3 + ["north"]),
        "large": pa.array(["u", "v", "u", "v", "v", "u", "v"], pa.large_string()),
    }
)
path = Path(__file__).parent.parent / "arrow" / "mixed.arrows"
path.parent.mkdir(exist_ok=True)
with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
    for batch in table.to_batches(max_chunksize=3):
        writer.write_batch(batch)
print(path, path.stat().st_size, "bytes, pyarrow", pa.__version__)
