#!/bin/sh
# The whole walkthrough on one machine: certificates, checks, a fit, and scores of new patients.
# Usage: ./run.sh [FOLDER]   works in a copy at FOLDER (a temporary folder by default); any free ports.
# The programs are looked for in BIN, in ../../target/release, and on the PATH.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=${1:-$(mktemp -d)}
mkdir -p "$work"
cp -R "$here"/*.toml "$here"/*.csv "$here"/match "$work"
for folder in "${BIN:-}" "$here/../../target/release"; do
    if [ -x "$folder/alice" ]; then PATH=$folder:$PATH; break; fi
done
cd "$work"

say() { printf '\n== %s\n' "$*"; }

say "certificates"
coordinator certs authority --name "two hospitals" --out certificates
for name in registry.example north.hospital.example south.hospital.example; do
    coordinator certs issue --authority certificates --name "$name" --also localhost,127.0.0.1 --out certificates
done

say "what would leave"
alice check
bob check

# Waits until a program has written the address that it listens at.
address() {
    while [ ! -f "$1" ]; do
        kill -0 "$2" 2>/dev/null || { echo "a program ended before it listened" >&2; exit 1; }
        sleep 0.05
    done
    cat "$1"
}

# Runs alice and bob with the same command; $1 is the command, what follows is for alice and bob, each with {} for the role.
both() {
    command=$1
    shift
    rm -f coordinator.address alice.address
    coordinator serve --listen 127.0.0.1:0 --announce coordinator.address & serving=$!
    meet=$(address coordinator.address $serving)
    # shellcheck disable=SC2046
    alice "$command" --coordinator "$meet" --listen 127.0.0.1:0 --announce alice.address \
        $(printf '%s ' "$@" | sed 's/{}/alice/g') & party=$!
    bob "$command" --coordinator "$meet" --connect "$(address alice.address $party)" \
        $(printf '%s ' "$@" | sed 's/{}/bob/g')
    wait $party
    wait $serving
}

say "the fit"
both fit --out results/{}

say "scores of new patients, at alice"
both predict --model results/{}/model.json --data {}_new.csv --out results/{}

say "tables that overlap in part: the match"
cd "$work/match"
alice check
bob check
both match

say "the fit of the matched rows"
both fit --out results/{}

say "results are in $work/results and $work/match/results"
