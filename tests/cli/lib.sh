# Sourced by the tests of the command: asserts, a folder of its own, and plans that take seconds.
# shellcheck shell=bash
set -uo pipefail

: "${ASSAY:?set ASSAY to the command, for example ASSAY=build/dev/bin/assay}"
work=$(mktemp -d "${TMPDIR:-/tmp}/assay-cli.XXXXXX")
trap 'rm -rf "$work"' EXIT
export LC_ALL=${LC_ALL:-C.UTF-8}

# A plan of few, short cases on the CPU alone; tests add what they are about.
# shellcheck disable=SC2034 # used by the tests
small=(--suite matmul --device cpu --filter '^matmul/naive/n:(1|17|256)/' --ceilings off --quiet)

fail() {
    printf 'FAILED: %s\n' "$*" >&2
    for log in "$work/out" "$work/err"; do
        [ ! -s "$log" ] || sed "s|^|  ${log##*/}: |" "$log" >&2
    done
    exit 1
}

# expect CODE COMMAND...: runs it, its output in $work/out and $work/err.
expect() {
    local wanted=$1 rc=0
    shift
    "$@" >"$work/out" 2>"$work/err" </dev/null || rc=$?
    [ "$rc" -eq "$wanted" ] || fail "exit $rc instead of $wanted: $*"
}

# said REGEX: the last command's message is one line on stderr and matches.
said() {
    [ "$(wc -l <"$work/err")" -eq 1 ] || fail "not one line of message"
    grep -qE -- "$1" "$work/err" || fail "the message does not match \`$1\`"
}

# holds FILE FILTER [ARGUMENT...]: jq finds it true. Anything but true fails, an absent key too.
holds() {
    local file=$1 filter=$2
    shift 2
    jq -e "$@" "$filter" "$file" >/dev/null 2>"$work/err" || fail "${file##*/} does not hold: $filter"
}

# strict FILE: one JSON value that a strict reader takes (no NaN, no Infinity), of our schema.
strict() {
    python3 - "$1" 2>"$work/err" <<'PYTHON' || fail "$1 is not strict JSON"
import json, sys

def refuse(word):
    raise ValueError(word)

result = json.load(open(sys.argv[1], encoding="utf-8"), parse_constant=refuse)
assert result["schema"] == "assay.result/1", result.get("schema")
PYTHON
}
