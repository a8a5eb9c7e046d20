#!/usr/bin/env bash
# One launch pair of `assay calibrate`: a slow-down reaches side B alone, launches tell no host, and it stops and goes on.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

python=${ASSAY_PYTHON:-$(dirname "$0")/../../build/venv/bin/python}
if ! "$python" -c 'import numpy, scipy, matplotlib, jinja2' 2>/dev/null; then
    printf 'no Python with numpy, scipy, matplotlib and jinja2: not tested\n'
    exit 77
fi
export ASSAY_PYTHON=$python

calibrate() { # calibrate CODE OPTION...: one more pair at most
    local code=$1
    shift
    expect "$code" "$ASSAY" calibrate --duets 2 --pairs 6 --rounds 1 --folder "$work/study" --out "$work/out.json" \
        --time 1ms "$@"
}

calibrate 4
grep -q '1 of 12 pairs are done; the same command goes on' "$work/err" || fail "it does not say how to go on"
[ ! -e "$work/out.json" ] || fail "a calibration of half a study"
home=$work/study/duet-000
for side in a b; do
    strict "$home/$side/0000.json"
    holds "$home/$side/0000.json" '.cases | length == 22 and all(.status == "done")'
    holds "$home/$side/0000.json" '.context.host_name == "host" and .context.seed == "42"'
done
holds "$home/a/0000.json" '.context.environment_variables.ASSAY_INJECT == "0,0"'
holds "$home/b/0000.json" '.context.environment_variables.ASSAY_INJECT == "0.0500000000,0.2000000000"'

# The shortest round of a register-only chain hardly depends on other load: 20% more work shows, in B alone.
fastest() { # fastest FILE CASE
    jq --arg id "$2" '.cases[] | select(.id == $id) | .series[] | select(.primary) | (.samples | flatten | min) / .batch' "$1"
}
id=synthetic/spin/us:50/inject:2/dev:cpu
ratio=$(printf '%s %s\n' "$(fastest "$home/a/0000.json" "$id")" "$(fastest "$home/b/0000.json" "$id")" |
    awk '{ printf "%.4f", $2 / $1 }')
awk -v r="$ratio" 'BEGIN { exit !(r > 1.1 && r < 1.3) }' || fail "20% more work took $ratio times as long"

before=$(cksum "$home"/[ab]/0000.json)
calibrate 4
grep -q '2 of 12 pairs are done' "$work/err" || fail "it does not go on"
[ "$before" = "$(cksum "$home"/[ab]/0000.json)" ] || fail "a pair was measured twice"
calibrate 2 --inject 4%
said 'holds a study with other settings'
