#!/usr/bin/env bash
# Makes the reports that the package and its tests read: clients/r/tests/make/reports.sh, with the programs of fedreg on PATH.
# inst/extdata has the reports of both parties of a plain binomial fit, as in a study; tests/testthat/reports what is left out elsewhere.
set -euo pipefail
package=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
data=$package/../../examples/data
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cp "$data/admissions.csv" "$data/diabetes.csv" "$data/diabetes.bounds.toml" "$data/visits.bounds.toml" .

# study FOLDER: runs the study of a rehearsal once more as its parties would, in their own folder.
study() (
    cd "$1"
    rm -rf alice bob coordinator
    sed -i "s#$work/$1/##; s#$work#..#" ./*.toml
    coordinator serve --config coordinator.toml >coordinator.log 2>&1 &
    alice fit --config alice.toml --out alice >alice.log 2>&1 &
    bob fit --config bob.toml --out bob >bob.log 2>&1
    wait
)

admissions=(--data admissions.csv --id id --outcome readmitted --family binomial)
demo vertical "${admissions[@]}" --alice "~ age * female + bmi" --bob "~ region + log(stay_days)" --out shared >/dev/null
cp -r shared own
study shared
sed -i 's/coefficients = "shared"/coefficients = "own"/' own/study.toml
study own
demo vertical "${admissions[@]}" --alice age,bmi --bob "~ region + poly(stay_days, 2)" --out poly >/dev/null
demo vertical --mode private --epsilon 3 --data diabetes.csv --id id --outcome progression --bounds diabetes.bounds.toml \
    --out private >/dev/null
demo vertical --mode private --epsilon 3 --family poisson --data admissions.csv --id id --outcome emergency_visits \
    --alice age,bmi --bob systolic,creatinine --bounds visits.bounds.toml --out counts >/dev/null
demo vertical "${admissions[@]/%binomial/quasibinomial}" --parties "clinic=age,bmi;lab=~ log(stay_days);office=female" --leader clinic \
    --out quasi >/dev/null
demo vertical --mode sealed --refit --data diabetes.csv --id id --outcome progression --alice age,sex,bmi --bob s1,s5,s6 --out refit >/dev/null
demo --role alice refit --config refit/alice.toml --drop sex,s6 --out refit/sub >/dev/null
demo robust --data diabetes.csv --id id --outcome progression --batch-rows 73 --out robust >/dev/null
demo features --out features >/dev/null

# keep FROM TO: a report and the model file of its run, without the folder that they were made in.
keep() {
    rm -rf "$2"
    mkdir -p "$2"
    for file in report.json model.json; do
        if [[ -f $1/$file ]]; then sed "s#$work/##g" "$1/$file" >"$2/$file"; fi
    done
}
for party in alice bob; do keep "shared/$party" "$package/inst/extdata/$party"; done
keep own/alice "$package/tests/testthat/reports/own"
keep counts/bob "$package/tests/testthat/reports/counts"
keep quasi/office "$package/tests/testthat/reports/quasi"
keep refit/sub "$package/tests/testthat/reports/refit"
for run in poly private robust features; do keep "$run" "$package/tests/testthat/reports/$run"; done
