#!/bin/sh
# The whole walkthrough on one machine: certificates, checks, a fit of three parties, and scores of new patients.
# Usage: ./run.sh [FOLDER]   works in a copy at FOLDER (a temporary folder by default); any free ports.
# The programs are looked for in BIN, in ../../target/release, and on the PATH.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=${1:-$(mktemp -d)}
mkdir -p "$work"
cp "$here"/*.toml "$here"/*.csv "$work"
for folder in "${BIN:-}" "$here/../../target/release"; do
    if [ -x "$folder/party" ]; then PATH=$folder:$PATH; break; fi
done
cd "$work"

say() { printf '\n== %s\n' "$*"; }

say "certificates"
coordinator certs authority --name "three institutions" --out certificates
for name in registry hospital laboratory office; do
    coordinator certs issue --authority certificates --name "$name.example" --also localhost,127.0.0.1 --out certificates
done

say "what would leave"
for name in hospital laboratory office; do party --name $name check; done

# Waits until a program has written the address that it listens at.
address() {
    while [ ! -f "$1" ]; do
        kill -0 "$2" 2>/dev/null || { echo "a program ended before it listened" >&2; exit 1; }
        sleep 0.05
    done
    cat "$1"
}

# Runs all three with the same command; $1 is the command, what follows is for all, each with {} for the name.
all() {
    command=$1
    shift
    rm -f coordinator.address hospital.address
    coordinator serve --listen 127.0.0.1:0 --announce coordinator.address & serving=$!
    meet=$(address coordinator.address $serving)
    # shellcheck disable=SC2046
    party --name hospital "$command" --coordinator "$meet" --listen 127.0.0.1:0 --announce hospital.address \
        $(printf '%s ' "$@" | sed 's/{}/hospital/g') & leading=$!
    leader=$(address hospital.address $leading)
    party --name laboratory "$command" --coordinator "$meet" --connect "$leader" \
        $(printf '%s ' "$@" | sed 's/{}/laboratory/g') > "laboratory-$command.txt" & second=$!
    party --name office "$command" --coordinator "$meet" --connect "$leader" \
        $(printf '%s ' "$@" | sed 's/{}/office/g') > "office-$command.txt"
    wait $second
    wait $leading
    wait $serving
}

say "the fit"
all fit --out results/{}

say "scores of new patients, at the hospital"
all predict --model results/{}/model.json --data {}_new.csv --out results/{}

say "results are in $work/results"
