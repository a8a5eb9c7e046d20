#!/usr/bin/env bash
# A build beside itself: whole pairs, one list of cases, no change found; a finished duet is not measured again.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

python=${ASSAY_PYTHON:-$(dirname "$0")/../../build/venv/bin/python}
[ -x "$python" ] || python=python3
if ! "$python" -c 'import numpy, scipy, matplotlib, jinja2' 2>/dev/null; then
    printf 'no Python with the modules of reports: not tested\n'
    exit 77
fi
export ASSAY_PYTHON=$python

# 50%: this is about the way through, not about how quiet the machine is; beside other load a case may stay undecided.
duet=("$ASSAY" duet "$ASSAY" --env-b LANG=C --device cpu --filter '^launch/direct/(chain:(8|64)/)?dev:'
    --pairs 6 --budget 4s --threshold '50%' --folder "$work/duet" --json "$work/duet.json")
expect 0 "${duet[@]}"
grep -q '^duet: pair 6 of 6' "$work/err" || fail 'no progress'
holds "$work/duet.json" '.command == "duet" and (.counts | .same + .inconclusive == 3 and .slower + .faster == 0) and ([.cases[] | .paired and .launches.base == 6] | all)'
holds "$work/duet/duet.json" '.order | length == 6 and (sort | unique) == ["a", "b"]'
for file in "$work"/duet/[ab]/*.json; do
    strict "$file"
    holds "$file" '.plan.launches == 1 and (.ceilings | length) == 0 and (.cases | length) == 3'
done
[ "$(find "$work/duet" -type f | wc -l)" -eq 14 ] || fail 'a duet leaves its list, its head and 12 results'

touch "$work/before"
expect 0 "${duet[@]}"
[ -z "$(find "$work/duet/a" "$work/duet/b" -newer "$work/before" -type f)" ] || fail 'a whole pair was measured again'

# To git, what is wrong with command or machine must not read as a verdict on the commit.
expect 130 "$ASSAY" bisect
expect 125 "$ASSAY" bisect --build false --binary nothing
ASSAY_PYTHON=/bin/false expect 131 "$ASSAY" bisect --build true
