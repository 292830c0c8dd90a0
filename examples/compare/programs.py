"""Where the comparisons find fedreg's programs."""
import os
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def binary(name):
    """The path of a program in FEDREG_BIN, or in target/release."""
    folder = os.environ.get("FEDREG_BIN", str(ROOT / "target" / "release"))
    found = shutil.which(name, path=folder)
    if found is None:
        sys.exit(f"{name} is not in {folder}: build with cargo build --release --bins")
    return found
