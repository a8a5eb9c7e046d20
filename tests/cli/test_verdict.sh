#!/usr/bin/env bash
# assay compare on results of this very build: the same file is the same, a slower copy is found, one launch is not
# enough, and a file that is no result is refused.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

rc=0
"$ASSAY" compare --help >"$work/out" 2>"$work/err" || rc=$?
if [ "$rc" -eq 3 ]; then
    printf 'no Python with the modules of the reports: not tested\n'
    exit 77
fi
[ "$rc" -eq 0 ] || fail "compare --help ended with $rc"
grep -q 'exit codes' "$work/out" || fail "compare --help names no exit codes"

expect 0 "$ASSAY" run "${small[@]}" --launches 6 --rounds 2 --out "$work/a.json"
expect 0 "$ASSAY" compare "$work/a.json" "$work/a.json" --json "$work/same.json"
holds "$work/same.json" '.schema == "assay.compare/1" and (.cases | length) == 3'
holds "$work/same.json" 'all(.cases[]; .ratio == 1 and .launches.base == 6 and .verdict != "slower" and .verdict != "faster")'

# Ten times slower in one case alone.
id=$(jq -r '.cases[0].id' "$work/a.json")
jq '.cases[0].series[0].samples |= map(map(. * 10))' "$work/a.json" >"$work/b.json"
expect 1 "$ASSAY" compare "$work/a.json" "$work/b.json" --calibration none --json "$work/slower.json" --junit "$work/slower.xml"
# shellcheck disable=SC2016 # jq's own variable
holds "$work/slower.json" '[.cases[] | select(.verdict == "slower") | .id] == [$id]' --arg id "$id"
[ "$(grep -c '<failure' "$work/slower.xml")" -eq 1 ] || fail "JUnit holds not one failure"
expect 0 "$ASSAY" compare "$work/b.json" "$work/a.json" --calibration none
grep -q "^faster  *$id " "$work/out" || fail "the faster case is not named"

# One launch decides nothing where no calibration says how launches differ.
expect 0 "$ASSAY" run "${small[@]}" --rounds 2 --out "$work/one.json"
expect 4 "$ASSAY" compare "$work/a.json" "$work/one.json" --calibration none --strict
grep -q '^inconclusive (one launch)' "$work/out" || fail "one launch gave a verdict"

# Another seed is other data.
jq '.context.seed = "43"' "$work/a.json" >"$work/seed.json"
expect 2 "$ASSAY" compare "$work/a.json" "$work/seed.json"
said 'not comparable: data: seed'
printf '{}' >"$work/empty.json"
expect 2 "$ASSAY" compare "$work/a.json" "$work/empty.json"
said 'no result that is known here'
