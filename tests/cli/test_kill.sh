#!/usr/bin/env bash
# SIGKILL in the middle: no worker stays, the journal is valid, --resume finishes. SIGINT: a valid partial result.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

plan=(--suite matmul --device cpu --filter '^matmul/naive/n:(1|17|256)/' --ceilings off --rounds 40)
journal=$work/result.json.journal

# start NAME: in the background, in a session of its own so that its processes can be counted.
start() {
    setsid "$ASSAY" run "${plan[@]}" --out "$work/$1.json" >"$work/out" 2>"$work/err" </dev/null &
    pid=$!
}
# wait_rounds FILE N: until the journal holds N records; fails after 60 s or where the run ended before.
wait_rounds() {
    local tries
    for ((tries = 0; tries < 1200; tries++)); do
        if [ -e "$1" ] && [ "$(wc -l <"$1")" -ge "$2" ]; then return; fi
        kill -0 "$pid" 2>/dev/null || fail "the run ended before it could be stopped"
        sleep 0.05
    done
    fail "no $2 records in $1 after 60 s"
}
no_worker() {
    local tries
    for ((tries = 0; tries < 100; tries++)); do
        if [ -z "$(ps -o pid= --sid "$pid" 2>/dev/null)" ]; then return; fi
        sleep 0.05
    done
    fail "processes stay: $(ps -o pid=,args= --sid "$pid")"
}

start result
wait_rounds "$journal" 8
kill -KILL "$pid"
wait "$pid" 2>/dev/null
no_worker
[ ! -e "$work/result.json" ] || fail "a killed run left a result that looks whole"
# Each whole line is one JSON record; only the last may be cut.
lines=$(grep -c '' "$journal")
good=$(head -n "$((lines - 1))" "$journal" | jq -c . 2>/dev/null | wc -l)
[ "$good" -eq $((lines - 1)) ] || fail "$good of $((lines - 1)) records are valid"
cp "$journal" "$work/copy.journal"

expect 0 "$ASSAY" run "${plan[@]}" --resume "$journal" --out "$work/result.json"
strict "$work/result.json"
holds "$work/result.json" '(.cases | length > 0) and all(.cases[]; .status == "done")'
# What was measured after the kill is a launch of its own, and what was measured before is kept.
holds "$work/result.json" '[.cases[].rounds[].launch] | unique | length >= 2'

# A record cut in the middle, as by a full disk or a power loss: the rest is used.
head -c -7 "$work/copy.journal" >"$work/cut.journal"
expect 0 "$ASSAY" run "${plan[@]}" --resume "$work/cut.journal" --out "$work/cut.json"
strict "$work/cut.json"
holds "$work/cut.json" 'all(.cases[]; .status == "done")'

# Another plan, a spoilt journal, something else: refused, and the file is left as it was.
expect 2 "$ASSAY" run "${plan[@]}" --seed 43 --resume "$work/copy.journal" --out "$work/other.json"
said 'plan|seed'
sed '2s/.*/{"spoilt": /' "$work/copy.journal" >"$work/spoilt.journal"
cp "$work/spoilt.journal" "$work/spoilt.before"
expect 2 "$ASSAY" run "${plan[@]}" --resume "$work/spoilt.journal" --out "$work/other.json"
cmp -s "$work/spoilt.journal" "$work/spoilt.before" || fail "a refused journal was changed"
printf 'no journal\n' >"$work/text"
expect 2 "$ASSAY" run "${plan[@]}" --resume "$work/text" --out "$work/other.json"
: >"$work/empty"
expect 2 "$ASSAY" run "${plan[@]}" --resume "$work/empty" --out "$work/other.json"
[ ! -e "$work/other.json" ] || fail "a refused resume wrote a result"

# SIGINT: what was measured so far is written whole, and the signal is told to the caller (130).
start partial
wait_rounds "$work/partial.json.journal" 8
kill -INT "$pid"
rc=0
wait "$pid" || rc=$?
[ "$rc" -eq 130 ] || fail "exit $rc after SIGINT instead of 130"
no_worker
strict "$work/partial.json"
holds "$work/partial.json" '[.cases[].rounds | length] | add > 0'
