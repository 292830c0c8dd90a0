#!/bin/sh
# The whole walkthrough on one machine: certificates, checks, and a run.
# Usage: ./run.sh [FOLDER]   works in a copy at FOLDER (a temporary folder by default); any free port.
# The programs are looked for in BIN, in ../../target/release, and on the PATH.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=${1:-$(mktemp -d)}
mkdir -p "$work"
cp "$here"/*.toml "$here"/*.csv "$work"
for folder in "${BIN:-}" "$here/../../target/release"; do
    if [ -x "$folder/worker" ]; then PATH=$folder:$PATH; break; fi
done
cd "$work"

say() { printf '\n== %s\n' "$*"; }

say "certificates"
coordinator certs authority --name "many sites" --out certificates
for name in registry.example north.clinic.example south.clinic.example west.clinic.example; do
    coordinator certs issue --authority certificates --name "$name" --also localhost,127.0.0.1 --out certificates
done

say "what would leave north"
worker check --config north.toml

say "the run"
coordinator serve --listen 127.0.0.1:0 --announce coordinator.address --out results/coordinator & serving=$!
while [ ! -f coordinator.address ]; do
    kill -0 $serving 2>/dev/null || { echo "the coordinator ended before it listened" >&2; exit 1; }
    sleep 0.05
done
for name in north south west; do
    worker join --config $name.toml --coordinator "$(cat coordinator.address)" --out results/$name > $name.log 2>&1 &
done
wait $serving
wait

say "results are in $work/results"
