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
# wait_rounds FILE N: until the journal holds N rounds; fails after 60 s or where the run ended before.
wait_rounds() {
    local tries
    for ((tries = 0; tries < 1200; tries++)); do
        if [ -e "$1" ] && [ "$(grep -c '"kind":"round"' "$1")" -ge "$2" ]; then return; fi
        kill -0 "$pid" 2>/dev/null || fail "the run ended before it could be stopped"
        sleep 0.05
    done
    fail "no $2 rounds in $1 after 60 s"
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
cp "$journal" "$work/copy.json.journal"

expect 0 "$ASSAY" run --resume "$journal"
strict "$work/result.json"
holds "$work/result.json" '(.cases | length > 0) and all(.cases[]; .status == "done")'
# What was measured after the kill is a launch of its own, and what was measured before is kept.
holds "$work/result.json" '[.cases[].rounds[].launch] | unique | length >= 2'

# A record cut in the middle, as by a full disk or a power loss: the rest is used.
head -c -7 "$work/copy.json.journal" >"$work/cut.json.journal"
expect 0 "$ASSAY" run "${plan[@]}" --resume "$work/cut.json"
strict "$work/cut.json"
holds "$work/cut.json" 'all(.cases[]; .status == "done")'

# Another plan, a spoilt journal, something else: refused, and the file is left as it was.
expect 2 "$ASSAY" run "${plan[@]}" --seed 43 --resume "$work/copy.json.journal"
said 'plan|seed'
spoilt() { # spoilt NAME REGEX: $work/NAME.json.journal is refused, and stays as it was
    cp "$work/$1.json.journal" "$work/$1.before"
    expect 2 "$ASSAY" run "${plan[@]}" --resume "$work/$1.json.journal"
    said "$2"
    cmp -s "$work/$1.json.journal" "$work/$1.before" || fail "a refused journal was changed: $1"
    [ ! -e "$work/$1.json" ] || fail "a refused resume wrote a result: $1"
}
sed '4s/.*/{"spoilt": /' "$work/copy.json.journal" >"$work/line.json.journal"
spoilt line 'line 4'
sed '4s/.*/{"kind": "nosuch"}/' "$work/copy.json.journal" >"$work/kind.json.journal"
spoilt kind 'line 4'
sed '4s/.*/{"kind": "prepared", "case": 1000000, "launch": 0}/' "$work/copy.json.journal" >"$work/range.json.journal"
spoilt range 'line 4'
# A figure changed by hand, a line lost, an older build's journal: named, not measured on.
sed '5s/_ns":[0-9]/_ns":/' "$work/copy.json.journal" >"$work/edit.json.journal"
cmp -s "$work/edit.json.journal" "$work/copy.json.journal" && fail "the edit changed nothing"
spoilt edit 'line 5 .*checksum'
sed 5d "$work/copy.json.journal" >"$work/lost.json.journal"
spoilt lost 'line 5 .*missing'
sed '1s/journal.2"/journal\/1"/' "$work/copy.json.journal" >"$work/older.json.journal"
spoilt older 'older build'
printf 'no journal\n' >"$work/text.json.journal"
spoilt text 'journal'
: >"$work/empty.json.journal"
spoilt empty 'journal'

# A run over an unfinished one would lose it: refused, with the way to go on.
expect 2 "$ASSAY" run "${plan[@]}" --out "$work/copy.json"
said '--resume'

# SIGINT, or to all of the session SIGHUP, as where a connection closes: what was measured so far is written whole, and
# the signal is told to the caller (130, 129).
interrupted() { # interrupted NAME SIGNAL TARGET
    wait_rounds "$work/$1.json.journal" 8
    kill "-$2" -- "$3"
    rc=0
    wait "$pid" 2>/dev/null || rc=$?
    [ "$rc" -eq $((128 + $(kill -l "$2"))) ] || fail "exit $rc after SIG$2"
    no_worker
    strict "$work/$1.json"
    holds "$work/$1.json" '[.cases[].rounds | length] | add > 0'
    holds "$work/$1.json" 'all(.cases[]; .status == "done" or .status == "not_reached")'
}
start partial
interrupted partial INT "$pid"
start closed
interrupted closed HUP "-$pid"
