#!/usr/bin/env bash
# The long version of the attacks and faults that the tests run in brief: about an hour on two cores.
#
#     tests/faults.sh                     200 kills of fits and of predictions, 200 of matches, 100 power cuts, 300 broken lines, floods of callers, memory of calls
#     FEDREG_SEED=2 tests/faults.sh       another sequence of kills and breaks
#
# Each kill, of any role of any protocol at any time, must leave a result, one charge a ledger, and verified ledgers; of those
# who score new rows, a whole file of predictions or none. In half of the private runs everybody is killed and the coordinator
# forgets the run: a role that had stored no release must have the whole budget in the next one. No budget may be lost where nothing had left. After a power cut at any system call what was not synced is gone, and
# the run must go on from what is left; strace is needed for that. Each
# line that is cut, corrupted, stalled or half-closed anywhere, its handshake included, must give the bits of a clean run. Runs of three
# parties, plain, sealed and private, are among them: these are not taken up again, all end, and the next run is whole.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export FEDREG_KILLS=${FEDREG_KILLS:-200} FEDREG_LINES=${FEDREG_LINES:-300} FEDREG_POWER=${FEDREG_POWER:-100}
export CARGO_TERM_COLOR=never
cargo test --release --locked -p fedreg-examples --test endurance -- --nocapture --test-threads 1
cargo test --release --locked -p fedreg-examples --test matching_ends killed_in_any_phase -- --nocapture
cargo test --release --locked -p fedreg-proto --test edge attack -- --ignored --nocapture --test-threads 1
