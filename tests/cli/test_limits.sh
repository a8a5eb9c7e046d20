#!/usr/bin/env bash
# A limit of the address space: nothing hangs, neither at the end of a process nor in a library's thread.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

# The smallest limit, in steps of 20 MB, under which the command starts at all: below it the loader or a library ends
# it. A sanitizer's shadow needs terabytes.
least=
for ((kib = 40000; kib <= 400000; kib += 20000)); do
    if (ulimit -v "$kib" && timeout 30 "$ASSAY" --version) >/dev/null 2>&1; then
        least=$kib
        break
    fi
done
if [ -z "$least" ]; then
    printf 'the command does not start under any limit up to 400 MB: not tested\n'
    exit 77
fi

limited() { (ulimit -v "$1" && shift && timeout 30 "$@"); }
# Little room: refused with the remedy, or run to its end, but never later than this.
for kib in "$least" $((least + 20000)) $((least + 60000)); do
    expect 0 limited "$kib" "$ASSAY" list
    rc=0
    limited "$kib" "$ASSAY" run "${small[@]}" --rounds 1 --budget 5s --out "$work/$kib.json" >"$work/out" 2>"$work/err" || rc=$?
    case $rc in
    3) grep -q 'ulimit -v\|the device probe died' "$work/err" || fail "no remedy under $kib KiB" ;;
    0 | 1 | 4) strict "$work/$kib.json" ;;
    *) fail "exit $rc under $kib KiB" ;;
    esac
done
# What the refusal asks for is enough, also where every thread of a library takes its buffer and the cases theirs.
expect 3 limited "$((least + 20000))" "$ASSAY" run "${small[@]}" --rounds 1 --out "$work/asked.json"
mib=$(sed -nE 's/.* needs ([0-9]+) MiB .*/\1/p' "$work/err")
[ -n "$mib" ] || fail "the refusal does not say how much is needed"
for extra in 8 64 300; do
    expect 0 limited $(((mib + extra) * 1024)) "$ASSAY" run --suite matmul,memcpy --device cpu --ceilings off --quiet \
        --rounds 1 --filter '(openblas/n:256|libc/bytes:33554432)/threads:all/dev' --out "$work/asked$extra.json"
    holds "$work/asked$extra.json" '[.cases[] | select(.variant == "openblas") | .status] == ["done"]'
    holds "$work/asked$extra.json" '[.cases[] | select(.variant == "libc") | .status] - ["done", "not_reached"] == []'
done
# Ample room: as without a limit.
expect 0 limited $((mib * 1024 + 4000000)) "$ASSAY" run "${small[@]}" --rounds 1 --out "$work/ample.json"
