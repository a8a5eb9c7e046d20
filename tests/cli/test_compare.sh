#!/usr/bin/env bash
# Google Benchmark's own compare.py takes two of our results as they are, and finds +10% in exactly the case changed.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

compare=$(dpkg -L libbenchmark-tools 2>/dev/null | grep '/compare\.py$' | head -n 1)
if [ -z "$compare" ]; then
    printf 'libbenchmark-tools is not installed: not tested; ci/setup installs it\n'
    exit 77
fi
# It needs scipy and numpy; the locked environment has them.
python=${ASSAY_PYTHON:-$(dirname "$0")/../../build/venv/bin/python}
[ -x "$python" ] || python=python3
if ! "$python" -c 'import scipy' 2>/dev/null; then
    printf 'no Python with scipy: not tested\n'
    exit 77
fi

expect 0 "$ASSAY" run "${small[@]}" --rounds 3 --out "$work/a.json"
holds "$work/a.json" '.benchmarks | length > 0'
id=$(jq -r '[.cases[] | select(.status == "done") | .id] | sort | last' "$work/a.json")
jq --arg id "$id" '.benchmarks |= map(if .name == $id then .real_time *= 1.1 | .cpu_time *= 1.1 else . end)' \
    "$work/a.json" >"$work/b.json"

expect 0 "$python" "$compare" --no-color benchmarks "$work/a.json" "$work/b.json"
while read -r listed; do
    grep -qF "$listed " "$work/out" || fail "compare.py does not list $listed"
done < <(jq -r '.cases[] | select(.status == "done") | .id' "$work/a.json")

# Columns: id, time, cpu, then the numbers.
awk -v id="$id" '
    $1 == id { seen++; if ($2 !~ /^\+0\.1000/ && $2 !~ /^\+0\.0999/) wrong = wrong "\n" $0 }
    $1 ~ /\/dev:/ && $1 !~ /_pvalue$/ && $1 != id { others++; if ($2 !~ /^[+-]0\.0000/) wrong = wrong "\n" $0 }
    END { if (!seen || !others || wrong != "") { print "seen " seen+0 ", others " others+0 wrong; exit 1 } }
' "$work/out" >"$work/err" || fail "+10% was not found in $id alone"
