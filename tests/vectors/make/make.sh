#!/bin/sh
# Makes every vector anew: data files, glm, penalised paths, cross-validation and the rest. Needs R with glmnet, jsonlite, pROC, car and sandwich,
# and the Python packages of requirements.txt. PYTHON chooses the interpreter.
set -eu
cd "$(dirname "$0")"
python="${PYTHON:-python3}"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
"$python" data.py
"$python" cases.py "$work/cases.json"
Rscript glm.R "$work/cases.json" .. "$work/glm.json"
Rscript penalised.R "$work/cases.json" .. "$work/penalised.json"
rm -f ../glm/*.json ../termination/*.json ../penalised/*.json ../cross_validation/*.json
"$python" glm.py "$work/cases.json" "$work/glm.json"
"$python" penalised.py "$work/cases.json" "$work/penalised.json"
Rscript statistics.R ..
Rscript hypotheses.R ..
Rscript sandwich.R ..
Rscript refit.R ..
Rscript quasi.R ..
"$python" methods.py
"$python" arrow.py
"$python" arrow_coded.py
"$python" arrow_polars.py
"$python" near.py ..
"$python" robust.py
"$python" secure.py ../secure
Rscript formulas.R ../formulas
Rscript anova.R ..
"$python" cut.py ../secure
