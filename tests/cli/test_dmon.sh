#!/usr/bin/env bash
# dmon: a table with repeated headings, JSON lines, Ctrl-C, and what it refuses. Without a GPU the host alone is shown.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

expect 0 "$ASSAY" dmon --count 22 --period 50ms
grep -v '^#' "$work/out" >"$work/lines"
[ "$(wc -l <"$work/lines")" -eq 22 ] || fail "not one line a period"
[ "$(grep -c '^# device' "$work/out")" -eq 2 ] || fail "the heading is not repeated after 20 lines"
grep -q '^#   unit.*CPUs.*GB' "$work/out" || fail "the heading shows no units"
# Headings and lines have the same fields: the first word of a line is the time, of a heading two words.
fields=$(awk '/^# device/ {print NF - 2; exit}' "$work/out")
awk -v n="$fields" 'NF != n + 1 {exit 1}' "$work/lines" || fail "a line has other columns than the heading"
[ "$(awk '{print length($0)}' "$work/lines" | sort -u | wc -l)" -eq 1 ] || fail "the columns are not aligned"

expect 0 "$ASSAY" dmon --count=3 --period=50ms --json
[ "$(wc -l <"$work/out")" -eq 3 ] || fail "not one JSON line a period"
jq -es 'all(.[]; .cpu.busy_cpus >= 0 and .cpu.memory_used_bytes > 0) and (map(.time_ns) | . == (sort | unique))' \
    "$work/out" >/dev/null || fail "the JSON lines do not hold"

# Ctrl-C is the usual end: exit 0, whole lines, no process left.
setsid "$ASSAY" dmon --period 50ms >"$work/out" 2>"$work/err" </dev/null &
pid=$!
for ((i = 0; i < 200; i++)); do
    if [ "$(grep -vc '^#' "$work/out")" -ge 2 ]; then break; fi
    sleep 0.05
done
kill -INT "$pid"
rc=0
wait "$pid" || rc=$?
[ "$rc" -eq 0 ] || fail "exit $rc after Ctrl-C instead of 0"
[ "$(tail -c 1 "$work/out" | od -An -tu1 | tr -d ' ')" = 10 ] || fail "the last line is cut"
[ -z "$(ps -o pid= --sid "$pid" 2>/dev/null)" ] || fail "processes stay"

# A reader that goes away ends it too.
"$ASSAY" dmon --period 50ms 2>"$work/err" | head -n 4 >/dev/null

expect 2 "$ASSAY" dmon --period 5x
said '--period'
expect 2 "$ASSAY" dmon --period 1ms
said 'at least 50 ms'
expect 2 "$ASSAY" dmon --count 0
said '--count'
expect 2 "$ASSAY" dmon --count
said 'needs a value'
expect 2 "$ASSAY" dmon --nosuch
said '--help'
expect 3 "$ASSAY" dmon --device nosuch0 --count 1
said 'nosuch0'
