#!/bin/sh
# Makes a virtual environment (VENV, else .venv beside this script), builds the demo if cargo is here, and runs
# vertical.py with the flags given. PYTHON chooses the interpreter, FEDREG_DEMO a demo that is already built.
set -eu
here="$(cd "$(dirname "$0")" && pwd)"
venv="${VENV:-$here/.venv}"
if [ ! -x "$venv/bin/python" ]; then
  "${PYTHON:-python3}" -m venv "$venv"
fi
"$venv/bin/python" -c 'import numpy, scipy, sklearn, pyarrow, pandas' 2>/dev/null ||
  "$venv/bin/python" -m pip install --quiet numpy scipy scikit-learn pyarrow pandas
case " $* " in
  *" --skip-demo "* | *" --help "* | *" -h "* | *" --demo"*) ;;
  *) [ -n "${FEDREG_DEMO:-}" ] || (cd "$here/../.." && cargo build --release --locked --bin demo) ;;
esac
exec "$venv/bin/python" "$here/vertical.py" "$@"
