#!/usr/bin/env bash
# --out that cannot be written is found before the run; names and folders with odd characters work.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

before=$SECONDS
for out in /dev/full "$work" "$work/absent/result.json" /proc/nosuch/result.json; do
    expect 3 "$ASSAY" run "${small[@]}" --budget 60s --out "$out"
    said 'out|result|write|folder|directory'
done
if [ "$(id -u)" -ne 0 ]; then
    mkdir "$work/locked"
    chmod 500 "$work/locked"
    expect 3 "$ASSAY" run "${small[@]}" --out "$work/locked/result.json"
fi
[ $((SECONDS - before)) -lt 20 ] || fail "the path was checked after the run"

odd="$work/a, \"b\" c.json"
expect 0 "$ASSAY" run "${small[@]}" --rounds 1 --out "$odd"
strict "$odd"
# Nothing but the result is left beside it.
left=$(find "$work" -mindepth 1 -maxdepth 1 -name '*b*' ! -name '*.json' | wc -l)
[ "$left" -eq 0 ] || fail "$left files left beside the result"
