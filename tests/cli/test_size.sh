#!/usr/bin/env bash
# assay size by the command itself: it finds the models in the binary that called it.
# shellcheck disable=SC2016 # jq has its own $list
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

here=$(cd "$(dirname "$0")/.." && pwd)
h200=$here/../results/nvidia-h200/quick.json.gz

# The Python tests predict from a copy of this table: it must be the table.
"$ASSAY" list --json >"$work/list.json" || fail 'list --json'
jq -S '.models' "$work/list.json" >"$work/models"
jq -S '.models' "$here/fixtures/size/catalogue.json" >"$work/fixture"
diff "$work/models" "$work/fixture" >"$work/err" || fail 'tests/fixtures/size/catalogue.json is not what list --json prints'

"$ASSAY" size --help >"$work/out" 2>"$work/err"
if [ $? -eq 3 ]; then
    printf 'no Python with the package'\''s modules: not tested\n'
    exit 77
fi

expect 0 "$ASSAY" size --model llama-8b --context 512 --device cuda0 --format json "$h200"
cp "$work/out" "$work/size.json"
holds "$work/size.json" '.rows[0] | .itl.floor_ns > 3e6 and .itl.floor_ns < 3.6e6 and .itl.limited_by == "memory hbm"'

# A new result holds the table itself.
expect 0 "$ASSAY" run "${small[@]}" --rounds 3 --out "$work/new.json"
holds "$work/new.json" '.plan.catalogue.models == $list[0].models' --slurpfile list "$work/list.json"
expect 2 "$ASSAY" size --model llama-8b --context 512 "$work/new.json"
said 'holds no measured ceiling of cpu; measure them: assay run --device cpu --suite ceiling'
expect 0 "$ASSAY" run --device cpu --suite ceiling --budget 10m --dry-run
for ceiling in read/level:dram/threads:all fma/type:f32/threads:all; do # what a prediction for the host divides by
    grep -qF "ceiling/$ceiling/dev:cpu" "$work/out" || fail "the run that size asks for does not measure $ceiling"
done
expect 2 "$ASSAY" size --model gpt-5 --context 512 "$h200"
said 'presets: tiny, '
expect 2 "$ASSAY" size --score "$work/new.json"
said 'no measured case of the suite inference'
