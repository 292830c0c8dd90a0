#!/usr/bin/env bash
# Counts lines of Rust: of code, of documentation and comments, blank ones, and of tests. Fails if a function of the four
# crates that are shipped is longer than LONGEST lines.
#
#     tests/lines.sh            of this working tree
#     tests/lines.sh COMMIT     of a commit of it
#
# Tests are files in folders `tests` and named `tests.rs`, what stands behind `#[cfg(test)]`, and the whole package of
# tests. Blocks are found by their indentation, which `cargo fmt --check` keeps true.
#
# At 240ebdc, when the rebuilding began:
#
#                  code  comments   blank    tests
#     common      28249      6107    2838    12940
#     proto        4587       869     469     3828
#     party        9237      1428     896     3449
#     coordinator  2059       286     170      940
#     production  44132      8690    4373    21157
#     examples     4356       357     296     5552
#     tests           0         0       0     1878
set -euo pipefail
LONGEST=80
# Longer ones that are still to be taken apart, by package and name; nothing may be added.
known=()
cd "$(dirname "${BASH_SOURCE[0]}")/.."
production=(common proto party coordinator)

judged=1
if (($# > 0)); then
    judged=0
    copy=$(mktemp -d)
    trap 'rm -rf "$copy"' EXIT
    git archive "$1" "${production[@]}" examples tests | tar -xf - -C "$copy"
    cd "$copy"
fi

# files FOLDER: its Rust sources, without what was built there, and without the one that is made from the schema of the wire.
files() {
    find "$1" -name target -prune -o -name '*.rs' ! -path proto/fedreg/v1/generated.rs -type f -print | LC_ALL=C sort
}

# count NAME JUDGED FILES...: a line of the table; if JUDGED, long functions go to standard error as `lines file:line name`.
count() {
    awk -v name="$1" -v longest="$LONGEST" -v judged="$2" '
        function indentation(line) { match(line, /^ */); return RLENGTH }
        FNR == 1 {
            whole = FILENAME ~ /(^|\/)tests(\/|\.rs$)/ || FILENAME ~ /(^|\/)benches\//
            marked = inside = 0; body = signature = 0
        }
        # A marked item lasts until the bracket in its own column, or is one line.
        marked && !inside && !/^ *(#\[|\/\/|$)/ {
            marked = 0
            column = indentation($0)
            if (/[;]$/ || /\{.*\}$/) { tests++; next }
            inside = 1; tests++; next
        }
        inside {
            tests++
            if (indentation($0) == column && /^ *[]})]+[;,]?$/) inside = 0
            next
        }
        /^ *#\[cfg\((all\()?test[,)]/ { marked = 1 }
        marked || whole { tests++; next }
        /^ *$/ { blank++; next }
        /^ *\/\// { comments++; next }
        { code++ }
        # A function lasts until the bracket in its own column.
        !body && /^ *(pub(\([^)]*\))? )?((const|async|unsafe|extern "C") )*fn [a-z_]/ && !/[;}]$/ {
            begun = FNR; at = indentation($0); body = 1
            called = $0; sub(/^.*fn /, "", called); sub(/[^A-Za-z0-9_].*$/, "", called)
            signature = !/\{$/
            next
        }
        body && signature && /;$/ && indentation($0) == at { body = 0 }
        body && /\{$/ && indentation($0) == at { signature = 0 }
        body && !signature && indentation($0) == at && /^ *\}$/ {
            lines = FNR - begun + 1
            if (judged && lines > longest) printf "%d %s:%d %s\n", lines, FILENAME, begun, called > "/dev/stderr"
            body = 0
        }
        END { printf "%-12s %8d %9d %7d %8d\n", name, code, comments, blank, tests }
    ' "${@:3}"
}

long=$(mktemp)
{
    printf '%-12s %8s %9s %7s %8s\n' "" code comments blank tests
    for crate in "${production[@]}"; do
        mapfile -t sources < <(files "$crate")
        count "$crate" "$judged" "${sources[@]}"
    done
} 2>"$long" | awk '{ print } NR > 1 { for (at = 2; at <= NF; at++) sum[at] += $at }
    END { printf "%-12s %8d %9d %7d %8d\n", "production", sum[2], sum[3], sum[4], sum[5] }'
for crate in examples tests; do
    mapfile -t sources < <(files "$crate")
    count "$crate" 0 "${sources[@]}"
done
failed=0
if [[ -s $long ]]; then
    printf '\nfunctions of more than %d lines:\n' "$LONGEST"
    while read -r lines place name; do
        note=""
        if [[ " ${known[*]} " != *" ${place%%/*}:$name "* ]]; then
            note=" (NEW)" failed=1
        fi
        printf '%5d %s %s%s\n' "$lines" "$place" "$name" "$note"
    done < <(sort -rn "$long")
fi
for entry in "${known[@]}"; do
    if ((judged)) && ! grep -q " ${entry%:*}/.* ${entry#*:}\$" "$long"; then
        echo "$entry is short enough: take it off the list in tests/lines.sh"
    fi
done
rm -f "$long"
exit "$failed"
