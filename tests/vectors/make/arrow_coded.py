"""Writes arrow/coded.*: columns by way of dictionaries and compressed record batches, as streams and as a file.

    python tests/vectors/make/arrow_coded.py

`coded.lz4.arrow` is what `pandas.DataFrame.to_feather` writes, `coded.zstd.arrows` a stream whose dictionaries go on and are replaced.
"""

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather

FOLDER = Path(__file__).parent.parent / "arrow"
N = 300
CITIES = ["Bergen", "Oslo", "Tromsø"]


def frame(first, cities):
    rows = range(first, first + N)
    return pd.DataFrame(
        {
            # A list before them: its buffers are counted and not unpacked.
            "pair": [[float(i), 2.0] for i in rows],
            "city": pd.Categorical([None if i % 11 == 3 else cities[i % len(cities)] for i in rows], cities),
            "dose": pd.Categorical([(i * 7) % 5 * 10 for i in rows]),
            "day": pd.Categorical(pd.to_datetime(["2024-01-01", "2024-01-02"]).take([i % 2 for i in rows])),
            "x": [i / 8.0 for i in rows],
            "y": [None if i % 13 == 5 else (i * i) % 97 for i in rows],
            "name": [f"p{i}" for i in rows],
        }
    )


feather.write_feather(frame(0, CITIES), str(FOLDER / "coded.lz4.arrow"), compression="lz4", chunksize=100)

# Three parts: the dictionary of `city` goes on in the second, and is another one in the third.
parts = [frame(0, CITIES[:2]), frame(N, CITIES), frame(2 * N, ["Oslo", "Paris"])]
schema = pa.Schema.from_pandas(parts[0], preserve_index=False).remove_metadata()
options = pa.ipc.IpcWriteOptions(compression="zstd", emit_dictionary_deltas=True)
with pa.OSFile(str(FOLDER / "coded.zstd.arrows"), "wb") as sink:
    with pa.ipc.new_stream(sink, schema, options=options) as writer:
        for part in parts:
            writer.write_table(pa.Table.from_pandas(part, schema=schema, preserve_index=False))
for name in ["coded.lz4.arrow", "coded.zstd.arrows"]:
    path = FOLDER / name
    print(name, path.stat().st_size, "bytes, pyarrow", pa.__version__, "pandas", pd.__version__)
