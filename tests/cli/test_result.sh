#!/usr/bin/env bash
# What a result holds and what it must not hold: no secret, every planned case, rows that agree with rounds.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

SECRET_TOKEN=hunter2 expect 0 "$ASSAY" run "${small[@]}" --rounds 1 --out "$work/result.json"
if grep -q 'hunter2\|SECRET_TOKEN' "$work/result.json"; then fail "the environment was stored"; fi
ASSAY_ANONYMOUS=1 expect 0 "$ASSAY" run "${small[@]}" --rounds 1 --out "$work/anonymous.json"
holds "$work/anonymous.json" '.context.host_name == "host"'

# Every planned case stands in the result with its parameters, defaults included, and its ids are unique.
holds "$work/result.json" '[.cases[].id] | length > 0 and (unique | length) == length'
holds "$work/result.json" 'all(.cases[]; .parameters | has("n") and has("threads"))'
# The samples of the rounds and the rows for compare.py agree with the rounds that were made.
holds "$work/result.json" 'all(.cases[]; (.rounds | length) == (.series[0].samples | length))'
holds "$work/result.json" '(.benchmarks | length) == ([.cases[] | select(.status == "done") | .rounds | length] | add)'

# A budget too short for the plan: what did not fit is named, never dropped.
rc=0
"$ASSAY" run --suite matmul --device cpu --ceilings off --quiet --budget 1s --out "$work/short.json" \
    >"$work/out" 2>"$work/err" || rc=$?
# 4: nothing was measured at all; 0: some of it.
[ "$rc" -eq 0 ] || [ "$rc" -eq 4 ] || fail "exit $rc under a short budget"
strict "$work/short.json"
holds "$work/short.json" 'any(.cases[]; .status == "not_reached" and (.reason | length > 0))'
holds "$work/short.json" 'all(.cases[] | select(.status == "not_reached"); .metrics == [] and .statistics == null)'

# verify checks and measures nothing.
expect 0 "$ASSAY" verify --suite matmul --device cpu --filter 'n:(1|17)/'
grep -q 'matmul/naive' "$work/out" || fail "verify names no case"

# Ceilings that are asked for by name stand where all ceilings stand, with a rate; what the machine lacks has none.
expect 0 "$ASSAY" run --suite ceiling --device cpu --filter '^ceiling/(copy/level:l1|atomic|tensor/type:s8)/dev:cpu$' \
    --quiet --telemetry off --budget 20s --out "$work/ceilings.json"
strict "$work/ceilings.json"
holds "$work/ceilings.json" '(.cases == []) and (.ceilings | length) == 3'
holds "$work/ceilings.json" 'all(.ceilings[]; (.status == "done" and .rate.value > 0) or
    (.variant == "tensor" and .status == "skipped" and .rate.value == null and (.reason | length > 0)))'
expect 0 "$ASSAY" run --suite ceiling --device cpu --filter '/read/level:l1/' --benchmark_list_tests
grep -qx 'ceiling/read/level:l1/dev:cpu' "$work/out" || fail "the plan's ids lack the ceilings that are asked for"
