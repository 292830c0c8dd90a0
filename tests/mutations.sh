#!/usr/bin/env bash
# Breaks a guarantee on purpose, one at a time, in a copy of the sources, and looks whether a test turns red.
#
#     tests/mutations.sh              all of them
#     tests/mutations.sh sigma noise  those with one of these words in their names
#
# A mutation that no test notices is a failure, and so are one that does not apply any more and one that does not
# compile. Each builds the tests of fedreg-common anew.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
wanted=("$@")
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target} CARGO_INCREMENTAL=1 CARGO_TERM_COLOR=never
copy=$CARGO_TARGET_DIR/mutations
failed=0 run=0

# Times are those of copying: what was built of a mutation before must not be taken for built of these.
rm -rf "$copy"
mkdir -p "$copy"
(cd "$root" && git ls-files -z --cached --others --exclude-standard | tar --null --ignore-failed-read -T - -cf - 2>/dev/null) | tar -xmf - -C "$copy"
cd "$copy"

# suite TESTS...: the unit tests of fedreg-common with these words in their names.
suite() {
    # Hardly optimised: most of the time goes into building.
    cargo test --release --locked -p fedreg-common --lib \
        --config 'profile.release.package.fedreg-common.opt-level=1' \
        --config 'profile.release.package.fedreg-common.codegen-units=64' -- "$@" >"$copy.log" 2>&1
}

# is_wanted NAME: whether it has one of the words, or none was given.
is_wanted() {
    local word
    for word in "${wanted[@]}"; do
        if [[ $1 == *"$word"* ]]; then return 0; fi
    done
    ((${#wanted[@]} == 0))
}

# mutate NAME FILE CHANGE TESTS...: applies a change (Perl, on the whole file at once) and expects some of the tests to turn red.
mutate() {
    local name=$1 file=$2 change=$3
    shift 3
    is_wanted "$name" || return 0
    run=$((run + 1))
    perl -0pi -e "$change" "$file"
    if cmp -s "$root/$file" "$file"; then
        echo "DOES NOT APPLY  $name: $file has changed"
        failed=$((failed + 1))
        return 0
    fi
    if suite "$@"; then
        echo "NOT NOTICED     $name"
        failed=$((failed + 1))
    elif ! grep -q '^test result: FAILED' "$copy.log"; then
        echo "DOES NOT BUILD  $name"
        tail -n 30 "$copy.log"
        failed=$((failed + 1))
    else
        echo "noticed         $name, by $(sed -n 's/^test \(.*\) \.\.\. FAILED$/\1/p' "$copy.log" | paste -sd ' ')"
    fi
    cp "$root/$file" "$file"
}

tests=(
    privacy::mechanism::tests::no_neighbour privacy::mechanism::tests::an_audit_finds
    privacy::mechanism::tests::the_table_is_free privacy::mechanism::tests::noise_keeps privacy::mechanism::tests::a_message_moves
    privacy::ledger::tests privacy::sampler::tests::an_integer privacy::bounds privacy::accountant
    vertical::accelerate privacy::robust::tests::an_invalid_row privacy::robust::tests::a_plan_charges
)
if ! suite "${tests[@]}"; then
    echo "the tests are red before anything was broken"
    tail -n 30 "$copy.log"
    exit 1
fi

mechanism=common/src/privacy/mechanism.rs
ledger=common/src/privacy/ledger.rs

mutate "sensitivity of X'r halved" $mechanism \
    's/sensitivity: 2\.0 \* residuals\.bound\(\)/sensitivity: residuals.bound()/' "${tests[@]}"
mutate "sensitivity of a message halved" $mechanism \
    's/sensitivity: 2\.0 \* bound,/sensitivity: bound,/' "${tests[@]}"
mutate "sigma over sqrt 2" $mechanism \
    's/(query\.slack\(\), planned\.mu\)\.map_err\(\|_\| no_share\)\?;)/$1 let sigma = sigma * std::f64::consts::FRAC_1_SQRT_2;/' "${tests[@]}"
mutate "table free at any share" $mechanism \
    's/square\(table\) <= 0\.25 \* \(1\.0 - 1e-9\) \* covering/square(table) <= covering/' "${tests[@]}"
mutate "message not cut" $mechanism \
    's/\(value \/ step\)\.round\(\)\.clamp\(-limit, limit\)/(value \/ step).round()/' "${tests[@]}"
mutate "rounding left out of the sensitivity" $mechanism \
    's/(values, \.\. \} => )\(values\.len\(\) as f64\)\.sqrt\(\)\.next_up\(\)/${1}0.0 * values.len() as f64/' "${tests[@]}"
mutate "noise used twice" common/src/privacy/sampler.rs \
    's/self\.ready\.split_off\(self\.ready\.len\(\) - count\)/self.ready[self.ready.len() - count..].to_vec()/' "${tests[@]}"
mutate "noise drawn before its budget is reserved" $ledger \
    's/(pub fn permit\(&mut self, run: &str, index: u32\) -> Result<Grant, LedgerError> \{)/$1 if !self.is_reserved(run) { let planned = crate::privacy::mechanism::PlannedRelease { label: String::new(), mu: 1.0 }; return Ok(Grant::Fresh(Permit::new(run.to_owned(), index, planned))); }/' "${tests[@]}"
mutate "noise drawn before its start is on record" $ledger \
    's/transaction\.append\(Entry::Started \{ run: run\.to_owned\(\), index \}\)\?;//' "${tests[@]}"
mutate "retry noised anew" $ledger \
    's/known\.stored\.get\(&index\)\.cloned\(\)/known.stored.get(&index).cloned().filter(|_| false)/; s/if known\.started\.contains\(&index\)/if false/; s/!known\.started\.contains\(&index\) \|\| known\.stored\.contains_key\(&index\)/!known.started.contains(&index)/' "${tests[@]}"
mutate "budget not checked before sending" $ledger \
    's/let charge = transaction\.affordable\(data_set, persons, plan\)\?;/let _ = (data_set, persons); let charge = plan.charge();/' "${tests[@]}"
mutate "charge rounded down" common/src/privacy/accountant.rs \
    's/(pub fn add_charge\(.*?\{\n)/$1    if true { return (sum + charge).next_down(); }\n/s' "${tests[@]}"
mutate "sign of the extrapolation" common/src/vertical/accelerate.rs \
    's/next\.axpy\(-share, &image, 1\.0\)/next.axpy(share, &image, 1.0)/' "${tests[@]}"

if ((run == 0)); then
    echo "no mutation has one of these words in its name: ${wanted[*]}"
    exit 2
fi
echo "$((run - failed)) of $run mutations were noticed"
exit $((failed > 0))
