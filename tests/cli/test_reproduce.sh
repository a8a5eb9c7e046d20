#!/usr/bin/env bash
# A result is measured again from its file alone; what was changed in the file is found; a program is not started.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

python=${ASSAY_PYTHON:-$(dirname "$0")/../../build/venv/bin/python}
[ -x "$python" ] || python=python3
if ! "$python" -c 'import numpy, scipy, matplotlib, jinja2' 2>/dev/null; then
    printf 'no Python with the modules of the reports: not tested\n'
    exit 77
fi

expect 0 "$ASSAY" run "${small[@]}" --rounds 3 --seed 7 --out "$work/old.json"
gzip -k "$work/old.json"
# One launch and no calibration: a time decides nothing here, so the code is that of inputs and outputs.
expect 0 "$ASSAY" reproduce "$work/old.json.gz" --quiet --out "$work/new.json" --json "$work/said.json"
strict "$work/new.json"
holds "$work/new.json" '.context.seed == "7" and all(.cases[]; (.rounds | length) == 3) and (.ceilings | length) == 0'
holds "$work/said.json" '(.cases | length) == 3 and all(.cases[]; .inputs == "identical" and .outputs == "identical")'
holds "$work/said.json" '.differences == [] and all(.cases[]; .machine == "the same machine")'
expect 2 "$ASSAY" reproduce "$work/old.json" --out "$work/new.json" # nothing is overwritten
said 'exists already'

jq '.cases[0].verification.input_checksum = "00"' "$work/old.json" >"$work/inputs.json"
expect 1 "$ASSAY" reproduce "$work/inputs.json" --against "$work/new.json"
jq '.cases[1].verification.output_checksum = "00"' "$work/old.json" >"$work/outputs.json"
expect 1 "$ASSAY" reproduce "$work/outputs.json" --quiet
grep -q 'DIFFER' "$work/out" || fail "the changed checksum is not named"
jq '.cases[0].id = "matmul/nosuch/dev:cpu" | .cases[1].device.name = "cuda9" | .cases[1].id = "matmul/x/dev:cuda9"' \
    "$work/old.json" >"$work/other.json"
expect 0 "$ASSAY" reproduce "$work/other.json" --quiet
grep -q '^unknown .*no such case' "$work/out" || fail "an unknown id is not named"
grep -q '^not here .*no cuda9' "$work/out" || fail "an absent device is not named"
expect 4 "$ASSAY" reproduce "$work/other.json" --quiet --strict
expect 3 "$ASSAY" reproduce "$work/other.json" --quiet --device cuda9

expect 0 "$ASSAY" run --exec "touch $work/started" --name touch --rounds 2 --quiet --out "$work/exec.json"
rm "$work/started"
expect 4 "$ASSAY" reproduce "$work/exec.json" --quiet
[ ! -e "$work/started" ] || fail "a program of the file was started unasked"
expect 0 "$ASSAY" reproduce "$work/exec.json" --quiet --allow-exec
[ -e "$work/started" ] || fail "--allow-exec started nothing"
printf 'no JSON' >"$work/text.json"
expect 2 "$ASSAY" reproduce "$work/text.json"
said 'text.json'
