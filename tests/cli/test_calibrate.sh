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

# More work is another output: the slow-down reached B, and only the case that carries it. (That it also takes longer is
# tests/test_synthetic.c; here the two sides are two moments of a machine that may be busy.)
checksum() { # checksum SIDE CASE
    jq -er --arg id "$2" '.cases[] | select(.id == $id) | .verification.output_checksum' "$home/$1/0000.json"
}
injected=synthetic/spin/us:50/inject:2/dev:cpu plain=synthetic/spin/us:50/dev:cpu
[ "$(checksum a "$plain")" = "$(checksum b "$plain")" ] || fail "the plain case differs between the sides"
[ "$(checksum a "$injected")" != "$(checksum b "$injected")" ] || fail "side B carries no slow-down"

before=$(cksum "$home"/[ab]/0000.json)
calibrate 4
grep -q '2 of 12 pairs are done' "$work/err" || fail "it does not go on"
[ "$before" = "$(cksum "$home"/[ab]/0000.json)" ] || fail "a pair was measured twice"
calibrate 2 --inject 4%
said 'holds a study with other settings'
