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

expect 0 "${run[@]}" --exec 'echo "two words, and a comma"' --name words --out "$work/odd.json"
strict "$work/odd.json"
holds "$work/odd.json" '.cases[0].status == "done"'

# The name becomes part of an id and of tables: quotes, commas, slashes and blanks are refused.
for name in 'a, "b"' a/b 'a b' '' $'a\nb' '=1+1'; do
    expect 2 "${run[@]}" --exec true --name "$name" --out "$work/none.json"
    said name
done

# A program that fails has no number.
expect 1 "${run[@]}" --exec false --name no --out "$work/false.json"
strict "$work/false.json"
holds "$work/false.json" '.cases[0] | .status == "failed" and .metrics == [] and .statistics == null and (.reason | length > 0)'
holds "$work/false.json" '.benchmarks == []'

expect 2 "${run[@]}" --exec true --out "$work/none.json"
expect 2 "${run[@]}" --exec '' --name none --out "$work/none.json"
expect 1 "${run[@]}" --exec /nosuch/program --name none --out "$work/absent.json"
strict "$work/absent.json"
holds "$work/absent.json" '.cases[0] | .status == "failed" and (.reason | contains("/nosuch/program"))'
