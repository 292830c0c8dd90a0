#!/bin/sh
# The whole walkthrough on one machine: a plan, two private fits, and a third that the ledgers refuse.
# Usage: ./run.sh [FOLDER]   works in a copy at FOLDER (a temporary folder by default); any free ports.
# The programs are looked for in BIN, in ../../target/release, and on the PATH.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=${1:-$(mktemp -d)}
mkdir -p "$work"
cp "$here"/*.toml "$here"/*.awk "$work"
for folder in "${BIN:-}" "$here/../../target/release"; do
    if [ -x "$folder/alice" ]; then PATH=$folder:$PATH; break; fi
done
cd "$work"

say() { printf '\n== %s\n' "$*"; }

say "certificates and made-up patients"
coordinator certs authority --name "two hospitals" --out certificates
for name in registry.example north.hospital.example south.hospital.example; do
    coordinator certs issue --authority certificates --name "$name" --also localhost,127.0.0.1 --out certificates
done
for party in alice bob; do awk -v party="$party" -f make-data.awk > "$party.csv"; done

say "is it worth it?"
alice privacy plan

say "budgets"
alice privacy init
bob privacy init
alice check

# Waits until a program has written the address that it listens at.
address() {
    while [ ! -f "$1" ]; do
        kill -0 "$2" 2>/dev/null || { echo "a program ended before it listened" >&2; exit 1; }
        sleep 0.05
    done
    cat "$1"
}

# One fit; its code is that of the three programs.
fit() {
    rm -f coordinator.address alice.address
    coordinator serve --listen 127.0.0.1:0 --announce coordinator.address & serving=$!
    meet=$(address coordinator.address $serving)
    alice fit --coordinator "$meet" --listen 127.0.0.1:0 --announce alice.address --out results/alice & party=$!
    code=0
    bob fit --coordinator "$meet" --connect "$(address alice.address $party)" --out results/bob > /dev/null || code=$?
    wait $party || code=$?
    wait $serving || code=$?
    return $code
}

say "the first fit"
fit

say "the second fit, with other noise"
fit

say "the third fit"
if fit; then
    echo "the third fit should have been refused" >&2
    exit 1
fi
echo "refused with code $code, as it must be"

say "what was spent"
alice privacy status
alice privacy verify
say "results are in $work/results"
