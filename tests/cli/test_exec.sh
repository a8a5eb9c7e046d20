#!/usr/bin/env bash
# --exec: any program as a case, with its wall time, CPU time, memory and exit status.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

run=("$ASSAY" run --device cpu --ceilings off --quiet --budget 10s)
expect 0 "${run[@]}" --exec 'sleep 0.02' --name nap --out "$work/nap.json"
strict "$work/nap.json"
holds "$work/nap.json" '.cases | length == 1 and .[0].status == "done" and (.[0].id | contains("nap"))'
holds "$work/nap.json" '.cases[0].statistics.median_ns | . > 20e6 and . < 200e6'
holds "$work/nap.json" '.cases[0].verification | .kind == "exit" and .status == "passed"'

expect 0 "${run[@]}" --exec 'echo "two words, and a comma"' --name 'a, "b"' --out "$work/odd.json"
strict "$work/odd.json"
holds "$work/odd.json" '.cases[0].status == "done"'

# A program that fails has no number.
expect 1 "${run[@]}" --exec false --name no --out "$work/false.json"
strict "$work/false.json"
holds "$work/false.json" '.cases[0] | .status == "failed" and .metrics == [] and .statistics == null and (.reason | length > 0)'
holds "$work/false.json" '.benchmarks == []'

expect 2 "${run[@]}" --exec true --out "$work/none.json"
expect 2 "${run[@]}" --exec '' --name none --out "$work/none.json"
rc=0
"${run[@]}" --exec /nosuch/program --name none --out "$work/none.json" >"$work/out" 2>"$work/err" || rc=$?
[ "$rc" -eq 2 ] || [ "$rc" -eq 3 ] || fail "exit $rc for a program that is not there"
grep -q nosuch "$work/err" || fail "the message does not name the program"
