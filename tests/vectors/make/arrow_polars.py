"""Writes arrow/polars.*: files and streams of polars, with text as views, categoricals and enums; and arrow/rare.*.

    python tests/vectors/make/arrow_polars.py

What stands in a file of polars before its footer is no stream. `rare.arrow` is a file of pyarrow in an old version of the
format and `rare.arrows` a stream in the present one, with types that only have to be skipped; the dictionary goes on in the
file and is replaced in the stream.
"""

import datetime
import decimal
from pathlib import Path

import polars as pl
import pyarrow as pa

FOLDER = Path(__file__).parent.parent / "arrow"
N = 24
REGIONS = ["north", "exactly 12 b", "south, with a name above twelve bytes"]
SITES = ["Bergen", "Oslo", "Tromsø, beyond the polar circle"]
GRADES = ["low", "mid", "high and even higher"]


def frame(first, rows):
    rows = range(first, first + rows)
    return pl.DataFrame(
        {
            # None of these can be used; those with views come first, so that the buffers behind them must be counted.
            "words": pl.Series([[f"a word of many letters {i}", "b"] for i in rows], dtype=pl.List(pl.String)),
            "blob": pl.Series([bytes([i]) * (i + 1) for i in rows], dtype=pl.Binary),
            "part": pl.Series(
                [{"a": f"another long text {i}", "b": GRADES[i % 3]} for i in rows],
                dtype=pl.Struct({"a": pl.String, "b": pl.Enum(GRADES)}),
            ),
            "wide": pl.Series(list(rows), dtype=pl.Int128),
            "half": pl.Series([float(i) for i in rows], dtype=pl.Float16),
            "money": pl.Series([decimal.Decimal(i) / 4 for i in rows], dtype=pl.Decimal(10, 2)),
            "day": pl.Series([datetime.date(2024, 1, 1 + i) for i in rows], dtype=pl.Date),
            "nothing": pl.Series([None for _ in rows], dtype=pl.Null),
            "pair": pl.Series([[i, 1] for i in rows], dtype=pl.Array(pl.Int8, 2)),
            "name": pl.Series([f"person number {i} of Tromsø" if i % 3 == 0 else f"p{i}" for i in rows], dtype=pl.String),
            "region": pl.Series([None if i % 7 == 3 else REGIONS[i % 3] for i in rows], dtype=pl.String),
            "site": pl.Series([None if i % 11 == 5 else SITES[i % 3] for i in rows], dtype=pl.Categorical),
            "grade": pl.Series([GRADES[i * i % 3] for i in rows], dtype=pl.Enum(GRADES)),
            "x": pl.Series([i / 8.0 for i in rows], dtype=pl.Float64),
            "y": pl.Series([None if i % 5 == 2 else i * i for i in rows], dtype=pl.Int64),
            "smoker": pl.Series([i % 2 == 0 for i in rows], dtype=pl.Boolean),
        }
    )


# Two parts in one record batch: then views lead to several buffers.
table = pl.concat([frame(0, 10), frame(10, N - 10)], rechunk=False)
used = table.select("name", "region", "site", "grade", "x", "y", "smoker")
oldest = pl.CompatLevel.oldest()
table.write_ipc(FOLDER / "polars.arrow", compression="uncompressed")
table.write_ipc(FOLDER / "polars.zstd.arrow", compression="zstd", record_batch_size=16)
used.write_ipc(FOLDER / "polars.oldest.arrow", compression="uncompressed", compat_level=oldest)
table.select("x", "y").write_ipc(FOLDER / "polars.numbers.arrow", compression="uncompressed", record_batch_size=16)
used.select("name", "site", "x").head(4).write_ipc(FOLDER / "polars.small.arrow", compression="uncompressed")
table.write_ipc_stream(FOLDER / "polars.arrows", compression="uncompressed")
used.write_ipc_stream(FOLDER / "polars.lz4.arrows", compression="lz4")

kinds = pa.array([i % 2 for i in range(4)], pa.int8())
places = pa.array([i // 2 for i in range(4)], pa.int32())
parts = [["Bergen", "Oslo"], ["Bergen", "Oslo", "Paris"]]
batches = [
    pa.record_batch(
        {
            "dense": pa.UnionArray.from_dense(kinds, places, [pa.array([1, 2]), pa.array(["k", "l"], pa.string_view())]),
            "sparse": pa.UnionArray.from_sparse(kinds, [pa.array([1, 2, 3, 4]), pa.array(["k", "l", "m", "n"])]),
            "runs": pa.RunEndEncodedArray.from_arrays(pa.array([1, 4], pa.int32()), pa.array(["x", "y"], pa.string_view())),
            "lists": pa.ListViewArray.from_arrays(pa.array([0] * 4, pa.int32()), pa.array([1] * 4, pa.int32()), pa.array([5])),
            "city": pa.DictionaryArray.from_arrays(pa.array([0, 1, None, len(cities) - 1], pa.uint64()), pa.array(cities)),
            "region": pa.array([REGIONS[i % 3] for i in range(4)], pa.string_view()),
            "x": pa.array([4.0 * part + i for i in range(4)]),
        }
    )
    for part, cities in enumerate(parts)
]
# The file as writers of old had it, and a stream as they are now.
old = pa.ipc.MetadataVersion.V4
options = pa.ipc.IpcWriteOptions(metadata_version=old, use_legacy_format=True, emit_dictionary_deltas=True)
schema = batches[0].schema
with pa.OSFile(str(FOLDER / "rare.arrow"), "wb") as sink, pa.ipc.new_file(sink, schema, options=options) as writer:
    for batch in batches:
        writer.write_batch(batch)
with pa.OSFile(str(FOLDER / "rare.arrows"), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
    for batch in batches:
        writer.write_batch(batch)

for path in sorted([*FOLDER.glob("polars.*"), *FOLDER.glob("rare.*")]):
    print(path.name, path.stat().st_size, "bytes, polars", pl.__version__, "pyarrow", pa.__version__)
